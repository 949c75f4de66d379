# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Models whose meshes, textures and height fields were not passed on with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sysid_ros.errors import ModelError
from sysid_ros.model.loading import compile_spec, load_model, read_model
from sysid_ros.model.mjcf import write_model
from sysid_ros.model.targets import resolve

TRIANGLES = 'v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n'
#: A swinging arm with everything that may be missing; `{0}` is its inertial.
ARM = """<mujoco>
  <compiler meshdir="meshes" {compiler}/>
  <asset>
    <mesh file="arm.obj"/> <mesh name="tip" file="sub/tip.stl"/>
    <texture name="skin" type="2d" file="skin.png"/> <material name="skin" texture="skin"/>
    <texture name="sky" type="skybox" fileup="up.png"/>
    <hfield name="ground" file="ground.png" size="1 1 1 1"/> <skin name="s" file="arm.skn"/>
  </asset>
  <worldbody>
    <geom type="hfield" hfield="ground"/>
    <geom type="mesh" mesh="tip" contype="0" conaffinity="0"/>
    <body name="arm">
      <joint name="hip" axis="0 1 0"/>
      {inertial}
      <geom type="mesh" mesh="arm" {geom} contype="0" conaffinity="0" material="skin"/>
      <body name="hand" pos="0 0 1">
        <geom size=".1" pos="0 0 .1"/>
        <geom name="tip" type="box" mesh="tip" {mass}/>
      </body>
    </body>
    <body name="ball"><freejoint/><geom name="ball" size=".1"/></body>
  </worldbody>
  <contact><pair geom1="tip" geom2="ball"/></contact>
  <sensor><distance name="d" geom1="ball" geom2="tip" cutoff="1"/></sensor>
</mujoco>
"""
INERTIAL = '<inertial pos="0 0 .5" mass="2" diaginertia=".1 .1 .01"/>'


def model_file(folder: Path, **given: str) -> Path:
    """Write the arm, by default so that nothing moves by its meshes."""
    chosen = {'compiler': '', 'inertial': INERTIAL, 'geom': '', 'mass': 'mass="0"', **given}
    path = folder / 'arm.xml'
    path.write_text(ARM.format(**chosen))
    return path


def test_what_shows_by_files_that_are_not_there_is_left_out_with_a_note(tmp_path: Path) -> None:
    path = model_file(tmp_path)
    description, spec = read_model(path)
    model = compile_spec(spec, path)
    (note,) = description.notes
    assert 'left out: arm.obj, sub/tip.stl, ground.png, arm.skn, skin.png, ' in note
    assert note.endswith('that changes the contacts of world, hand.')
    assert (model.ngeom, model.nmesh, model.ntex, model.nhfield, model.npair) == (2, 0, 0, 0, 0)
    assert [sensor.name for sensor in spec.sensors][:1] == ['hip_position']
    assert model.body('arm').mass == 2


def test_files_that_are_there_stay(tmp_path: Path) -> None:
    path = model_file(tmp_path)
    (tmp_path / 'meshes').mkdir()
    (tmp_path / 'meshes' / 'arm.obj').write_text(TRIANGLES)
    description, spec = read_model(path)
    assert [mesh.name for mesh in spec.meshes] == ['arm']
    assert 'arm.obj' not in description.notes[0]
    assert compile_spec(spec, path).nmesh == 1


@pytest.mark.parametrize(
    ('given', 'body'),
    [
        ({'inertial': ''}, 'arm'),
        ({'compiler': 'inertiafromgeom="true"'}, 'arm'),
        ({'mass': ''}, 'hand'),
        ({'mass': 'mass=".1"'}, 'hand'),
    ],
)
def test_a_body_whose_inertia_is_not_there_is_refused(
    tmp_path: Path, given: dict[str, str], body: str
) -> None:
    path = model_file(tmp_path, **given)
    with pytest.raises(ModelError, match=rf"Body '{body}' .* expected the file, or an <inertial>"):
        load_model(path)


@pytest.mark.parametrize(
    'given',
    [
        {'compiler': 'inertiagrouprange="0 1"', 'geom': 'group="2"', 'inertial': ''},
        {'geom': 'density="0"', 'inertial': ''},
    ],
)
def test_a_mesh_without_mass_is_none_of_a_body(tmp_path: Path, given: dict[str, str]) -> None:
    path = model_file(tmp_path, **given)
    assert load_model(path).body('arm').subtreemass == pytest.approx(4000 / 3 * np.pi * 1e-3)


def test_the_identified_model_keeps_its_references(tmp_path: Path) -> None:
    path = model_file(tmp_path)
    model = read_model(path)
    (target,) = resolve('joint/hip/damping', compile_spec(model.spec, path), spec=model.spec)
    written = write_model(model, [(target, 0.25)], tmp_path / 'out').path
    changed = '<joint name="hip" axis="0 1 0" damping="0.25"/>'
    assert written.read_text() == path.read_text().replace(
        '<joint name="hip" axis="0 1 0"/>', changed
    )
    assert load_model(written).dof_damping[0] == 0.25
    assert sorted(p.name for p in (tmp_path / 'out').rglob('*')) == ['arm.xml']

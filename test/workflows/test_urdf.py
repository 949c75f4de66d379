# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Identified URDFs: the user's text, which means the identified model."""

from __future__ import annotations

import difflib
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from builders.stored_results import store
from sysid_ros.errors import ModelError
from sysid_ros.model.loading import load_model
from sysid_ros.workflows.export import Exported, ExportFormat, export
from sysid_ros.workflows.stored import load_stored

Array = NDArray[np.float64]

DATA = Path(__file__).parents[1] / 'data' / 'urdf'
PENDULUM = Path(__file__).parents[1] / 'data' / 'pendulum' / 'arm.xml'
#: What URDF holds of the robot with fixed links.
HELD = {
    'body/arm/mass': 1.75,
    'body/arm/ipos[1]': 0.05,
    'body/tool/inertia[1]': -2.0,
    'joint/lift/damping': 0.7,
    'joint/lift/frictionloss': 0.05,
    'joint/roll/damping': 0.02,
}


def exported(
    folder: Path,
    model: Path,
    found: Mapping[str, float],
    *,
    urdf: Path | None = None,
    servos: tuple[str, ...] = (),
) -> Exported:
    """Store a result and export it as a URDF."""
    result = store(folder, model, dict(found), servos=servos)
    return export(result, ExportFormat.URDF, folder / 'robot.urdf', urdf=urdf)


def natively(path: Path) -> mujoco.MjModel:
    """Return what MuJoCo itself makes of a URDF."""
    return mujoco.MjModel.from_xml_path(str(path))


def motion(model: mujoco.MjModel) -> Array:
    """Return (n, joints) positions while a robot falls from a bent pose, actuators doing nothing.

    Joints are in the order of their names; the time step and the integrator are always the same.
    """
    model.opt.timestep = 1e-3
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    model.actuator_gainprm[:] = model.actuator_biasprm[:] = 0
    names = sorted(model.joint(row).name for row in range(model.njnt))
    places = [model.joint(name).qposadr[0] for name in names]
    data = mujoco.MjData(model)
    data.qpos[places] = np.linspace(0.6, -0.4, len(places))
    rows = []
    for _ in range(500):
        mujoco.mj_step(model, data)
        rows.append(data.qpos[places].copy())
    return np.array(rows)


def test_mujoco_simulates_the_exported_urdf_like_the_identified_model(tmp_path: Path) -> None:
    before = motion(natively(DATA / 'fixed.urdf'))

    exported(tmp_path, DATA / 'fixed.urdf', HELD)

    identified = motion(load_stored(tmp_path).fitted)
    assert np.abs(before - identified).max() > 0.1
    assert motion(natively(tmp_path / 'robot.urdf')) == pytest.approx(identified, abs=1e-7)
    assert motion(load_model(tmp_path / 'robot.urdf')) == pytest.approx(identified, abs=1e-9)


def test_only_numbers_of_the_text_change_and_what_is_lost_is_said_in_front(tmp_path: Path) -> None:
    source = (DATA / 'mimic.urdf').read_text()

    exported(
        tmp_path,
        DATA / 'mimic.urdf',
        {'body/upper/mass': 1.4, 'joint/elbow/damping': 0.2, 'joint/elbow/armature': 0.03},
        servos=('elbow_servo',),
    )

    text = (tmp_path / 'robot.urdf').read_text()
    head = re.search(r'<!-- Identified by.*?-->\n', text, re.DOTALL)
    assert head is not None
    assert 'joint/elbow/armature 0.03 kg·m²' in head[0]
    rest = text.replace(head[0], '')
    changed = [
        line[1:]
        for line in difflib.ndiff(source.splitlines(), rest.splitlines())
        if line[0] in '+-'
    ]
    assert len(changed) == 3
    assert '<mass value="1.4"/>' in changed[1]
    assert '<dynamics damping="0.2"/>' in changed[2]
    assert '<mimic joint="left"/>' in rest
    assert '<!-- A gripper whose right finger mimics' in rest


def test_the_head_leaves_an_xml_file_whatever_is_in_front(tmp_path: Path) -> None:
    text = (DATA / 'mimic.urdf').read_text().replace('name="elbow"', 'name="el--bow---"')
    model = tmp_path / 'source.urdf'
    model.write_text(text.replace('<!-- A gripper', '<!-- <robot name="old"> was a gripper'))

    exported(tmp_path, model, {'joint/el--bow---/armature': 0.03})

    written = (tmp_path / 'robot.urdf').read_bytes()
    assert ET.fromstring(written).tag == 'robot'  # noqa: S314 (written by this test)
    assert b'joint/el- -bow- - -/armature 0.03' in written


def test_meshes_that_have_to_be_beside_the_file_are_named(tmp_path: Path) -> None:
    text = (DATA / 'mimic.urdf').read_text()
    visual = '<visual><geometry><mesh filename="{}"/></geometry></visual></link>'
    model = tmp_path / 'source.urdf'
    for name in ('meshes/upper.stl', 'package://robot/lower.stl'):
        text = text.replace('</link>', visual.format(name), 1)
    model.write_text(text)

    done = exported(tmp_path, model, {'body/upper/mass': 1.4})

    assert any("beside 'source.urdf' (meshes/upper.stl)" in note for note in done.notes)


def merged_mjcf(folder: Path) -> Path:
    """Return the MJCF that MuJoCo writes for a URDF: fixed links are one body, six digits."""
    path = folder / 'merged.xml'
    spec = mujoco.MjSpec.from_file(str(DATA / 'fixed.urdf'))
    spec.compile()
    path.write_text(spec.to_xml())
    return path


def test_a_body_of_several_links_is_put_back_into_the_link_that_they_are_fixed_to(
    tmp_path: Path,
) -> None:
    model = merged_mjcf(tmp_path)
    assert {load_model(model).body(row).name for row in range(1, 3)} == {'arm', 'tool'}
    found = {'body/arm/mass': 2.6, 'body/arm/ipos[0]': 0.12, 'joint/lift/damping': 0.7}

    done = exported(tmp_path, model, found, urdf=DATA / 'fixed.urdf')

    assert done.lost == ()
    fitted, written = load_stored(tmp_path).fitted, natively(tmp_path / 'robot.urdf')
    for field in ('body_mass', 'body_ipos', 'body_inertia'):
        ours, theirs = (getattr(each, field)[each.body('arm').id] for each in (fitted, written))
        assert theirs == pytest.approx(ours, rel=1e-9)
    assert motion(written) == pytest.approx(motion(fitted), abs=1e-4)
    text = (tmp_path / 'robot.urdf').read_text()
    camera = re.search(
        r"<link name='camera'>.*?</link>", (DATA / 'fixed.urdf').read_text(), re.DOTALL
    )
    assert camera is not None
    assert camera[0] in text


def test_numbers_that_only_the_model_has_otherwise_are_written(tmp_path: Path) -> None:
    model = merged_mjcf(tmp_path)
    model.write_text(model.read_text().replace('frictionloss="0.2"', 'frictionloss="0.9"'))

    exported(tmp_path, model, {'joint/roll/damping': 0.1}, urdf=DATA / 'fixed.urdf')

    written = load_model(tmp_path / 'robot.urdf')
    assert written.dof_frictionloss[written.joint('lift').dofadr[0]] == 0.9


def test_a_link_that_would_have_less_than_nothing_is_refused(tmp_path: Path) -> None:
    model = merged_mjcf(tmp_path)

    with pytest.raises(ModelError, match=r"Link 'arm' .* \(flange, camera\) have more of it"):
        exported(tmp_path, model, {'body/arm/mass': 0.6}, urdf=DATA / 'fixed.urdf')
    assert not (tmp_path / 'robot.urdf').exists()


def test_a_place_that_is_between_other_links_in_the_urdf_is_told(tmp_path: Path) -> None:
    model = merged_mjcf(tmp_path)

    # The tool is on the flange, which is a part of the arm in the model.
    done = exported(tmp_path, model, {'body/tool/pos[2]': 0.5}, urdf=DATA / 'fixed.urdf')

    assert done.lost == ('body/tool/pos[2] 0.5 m',)


def test_an_mjcf_needs_a_urdf(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match='is no URDF; expected --urdf FILE'):
        exported(tmp_path, PENDULUM, {'body/tip/mass': 0.4})
    with pytest.raises(ModelError, match='Expected a URDF as --urdf'):
        exported(tmp_path, PENDULUM, {'body/tip/mass': 0.4}, urdf=PENDULUM)

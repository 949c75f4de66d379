# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a URDF means, against MuJoCo's own reading of it and against sums done here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import mujoco
import numpy as np
import pytest

from sysid_ros.errors import ModelError
from sysid_ros.model.description import read_description
from sysid_ros.model.inertia import full_inertia, rotation_from_quat
from sysid_ros.model.loading import load_model, load_spec
from sysid_ros.model.urdf.tree import Urdf, rotation_from_rpy, rpy_from_rotation

if TYPE_CHECKING:
    from numpy.typing import NDArray

DATA = Path(__file__).parents[2] / 'data' / 'urdf'
WHOLE = ('bare', 'fixed', 'mimic', 'package')
TWO_LINKS = '<link name="a"/><link name="b"/>'


def as_mujoco_reads_it(text: str, *, fuse: bool = False) -> mujoco.MjModel:
    """Compile a URDF with MuJoCo's own importer, without shapes, which it would need meshes for."""
    inside = text.index('>', text.index('<robot')) + 1
    choice = f'<mujoco><compiler fusestatic="{str(fuse).lower()}"/></mujoco>'
    spec = mujoco.MjSpec.from_string(text[:inside] + choice + text[inside:])
    for geom in list(spec.geoms):
        spec.delete(geom)
    for mesh in list(spec.meshes):
        spec.delete(mesh)
    return spec.compile()


def moments(model: mujoco.MjModel, name: str) -> NDArray[np.float64]:
    """Return mass, first and second moments (10) of a body in its frame, which add up."""
    row = model.body(name).id
    mass, place = float(model.body_mass[row]), model.body_ipos[row]
    tensor = full_inertia(model.body_iquat[row], model.body_inertia[row])
    second = 0.5 * np.trace(tensor) * np.eye(3) - tensor + mass * np.outer(place, place)
    return np.array([mass, *(mass * place), *second[np.triu_indices(3)]])


@pytest.mark.parametrize('name', WHOLE)
def test_it_means_what_mujoco_reads(name: str) -> None:
    path = DATA / f'{name}.urdf'
    ours, theirs = load_model(path), as_mujoco_reads_it(path.read_text())
    assert (ours.nbody, ours.njnt, ours.neq) == (theirs.nbody, theirs.njnt, theirs.neq)
    for row in range(1, theirs.nbody):
        body = theirs.body(row).name
        own = ours.body(body).id
        np.testing.assert_allclose(moments(ours, body), moments(theirs, body), atol=1e-12)
        np.testing.assert_allclose(ours.body_pos[own], theirs.body_pos[row], atol=1e-12)
        turned = (rotation_from_quat(m.body_quat[i]) for m, i in ((ours, own), (theirs, row)))
        np.testing.assert_allclose(*turned, atol=1e-12)
    for field in ('jnt_axis', 'jnt_type', 'jnt_range', 'jnt_actfrcrange', 'eq_data'):
        np.testing.assert_allclose(getattr(ours, field), getattr(theirs, field), atol=1e-12)
    for field in ('dof_damping', 'dof_frictionloss'):
        np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field))


@pytest.mark.parametrize('seed', range(5))
def test_links_that_are_fixed_keep_inertias_that_add_up_to_what_is_moved(seed: int) -> None:
    """Compose by hand, since importers have turned such inertias wrongly."""
    rng = np.random.default_rng(seed)
    text = (DATA / 'fixed.urdf').read_text()
    for old in ("rpy='1.1 -.6 .9'", "rpy='.4 .3 -1.9'", "rpy='-.3 .7 .2'", "rpy='-.1 .2 .9'"):
        text = text.replace(old, "rpy='{} {} {}'".format(*rng.uniform(-3, 3, 3)))
    urdf = Urdf(text, 'fixed.urdf')

    def composed(link: str) -> NDArray[np.float64]:
        told = urdf.inertial(link)
        total = np.zeros((4, 4))
        if told is not None:
            turned = told.origin.rotation @ told.tensor @ told.origin.rotation.T
            total[:3, :3] = 0.5 * np.trace(turned) * np.eye(3) - turned
            arm = np.append(told.origin.place, 1.0)
            total += told.mass * np.outer(arm, arm)
        for joint in urdf.below(link):
            if joint.type == 'fixed':
                frame = np.eye(4)
                origin = urdf.origin(joint.node)
                frame[:3, :3], frame[:3, 3] = origin.rotation, origin.place
                total += frame @ composed(joint.child) @ frame.T
        return total

    arm = composed('arm')
    expected = [arm[3, 3], *arm[3, :3], *arm[:3, :3][np.triu_indices(3)]]
    fused = as_mujoco_reads_it(text, fuse=True)
    np.testing.assert_allclose(moments(fused, 'arm'), expected, atol=1e-12)
    spec = mujoco.MjSpec.from_string(read_text(text))
    spec.compiler.fusestatic = True
    np.testing.assert_allclose(moments(spec.compile(), 'arm'), expected, atol=1e-12)


def read_text(text: str, folder: Path | None = None) -> str:
    """Return the MJCF of a URDF's text."""
    from sysid_ros.model.urdf.convert import convert  # noqa: PLC0415

    return convert(Urdf(text, 'robot.urdf'), folder or Path()).mjcf


def test_a_joint_that_mimics_follows() -> None:
    model = load_model(DATA / 'mimic.urdf')
    data = mujoco.MjData(model)
    left, right = model.joint('left'), model.joint('right')
    for _ in range(1000):
        data.qfrc_applied[left.dofadr[0]] = 1.0 - 50.0 * data.qvel[left.dofadr[0]]
        mujoco.mj_step(model, data)
    assert data.qpos[left.qposadr[0]] == pytest.approx(0.04, abs=2e-3)
    assert data.qpos[right.qposadr[0]] == pytest.approx(data.qpos[left.qposadr[0]], abs=1e-3)


def test_what_cannot_be_simulated_is_mended_and_told() -> None:
    path = DATA / 'incomplete.urdf'
    with pytest.raises(ValueError, match=r'mass|inertia'):
        mujoco.MjModel.from_xml_path(str(path))
    model, notes = load_model(path), ' '.join(read_description(path).notes)
    assert 'have no mass, so each got 1 g: between' in notes
    assert 'so each got the nearest: arm, hand' in notes
    assert model.opt.timestep == 0.001
    # The nearest: the moments of mass along x and y stay, and none is left along z.
    np.testing.assert_allclose(
        np.sort(model.body('hand').inertia), [0.002, 0.002, 0.004], rtol=1e-3
    )
    assert not model.jnt_actfrclimited[model.joint('pan').id]


def test_a_floating_joint_below_the_world_moves_the_robot(tmp_path: Path) -> None:
    path = tmp_path / 'robot.urdf'
    text = (DATA / 'bare.urdf').read_text()
    assert load_model(DATA / 'bare.urdf').nv == 1
    joint = '<joint name="root" type="floating"><parent link="world"/><child link="base"/></joint>'
    path.write_text(
        text.replace('<link name="base"/>', f'<link name="world"/><link name="base"/>{joint}')
    )
    assert load_model(path).nv == 7
    assert not any('stands still' in note for note in read_description(path).notes)


@pytest.mark.parametrize(
    ('inside', 'complaint'),
    [
        (TWO_LINKS, 'Expected one link of .* that no joint moves, found a, b'),
        (
            TWO_LINKS + '<joint name="j" type="hinge"><parent link="a"/><child link="b"/></joint>',
            "type 'hinge'; available: fixed",
        ),
        (
            TWO_LINKS + '<joint name="j" type="fixed"><parent link="a"/><child link="bb"/></joint>',
            "child 'bb' of joint 'j' .* nearest: b",
        ),
        (
            TWO_LINKS + '<joint name="j" type="fixed"><parent link="a"/><child link="b"/></joint>'
            '<joint name="k" type="fixed"><parent link="a"/><child link="b"/></joint>',
            "found 'j' and 'k' above 'b'",
        ),
        (
            '<link name="a"><inertial><mass value="heavy"/></inertial></link>',
            "a number for value of <mass> .* found 'heavy'",
        ),
        ('<link/>', 'a name for each <link>'),
        (
            TWO_LINKS + '<joint name="j" type="continuous"><parent link="a"/><child link="b"/>'
            '<mimic joint="i"/></joint>',
            "mimics 'i', which is no joint; available: j",
        ),
    ],
)
def test_what_is_no_tree_of_links_is_told(inside: str, complaint: str) -> None:
    with pytest.raises(ModelError, match=complaint):
        read_text(f'<robot name="r">{inside}</robot>')


@pytest.mark.parametrize('rpy', [(0.3, -0.4, 2.5), (0.0, np.pi / 2, 0.7), (-3.0, -np.pi / 2, 1.0)])
def test_angles_of_a_rotation_give_it_again(rpy: tuple[float, float, float]) -> None:
    rotation = rotation_from_rpy(np.array(rpy))
    again = rotation_from_rpy(rpy_from_rotation(rotation))
    np.testing.assert_allclose(again, rotation, atol=1e-9)


def _stl(path: Path) -> None:
    """Write a tetrahedron as binary STL."""
    corners = np.array([[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1]], '<f4')
    faces = np.zeros(
        4, np.dtype([('normal', '<f4', 3), ('corners', '<f4', (3, 3)), ('rest', '<u2')])
    )
    faces['corners'] = corners[[(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(80) + np.uint32(4).tobytes() + faces.tobytes())


@pytest.mark.parametrize('place', ['given', 'of packages', 'around', 'ROS_PACKAGE_PATH', 'ament'])
def test_a_package_is_found_where_ros_keeps_it(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv('AMENT_PREFIX_PATH', raising=False)
    root = tmp_path / 'prefix' / 'share' / 'demo_arm'
    if place == 'of packages':  # in a folder of another name
        root = tmp_path / 'src' / 'repository' / 'description'
        (root / 'meshes').mkdir(parents=True)
        (root / 'package.xml').write_text('<package><name>demo_arm</name></package>')
    _stl(root / 'meshes' / 'link.stl')
    urdf = (root if place == 'around' else tmp_path) / 'urdf' / 'arm.urdf'
    urdf.parent.mkdir()
    urdf.write_text((DATA / 'package.urdf').read_text())
    given = {'given': [root], 'of packages': [tmp_path / 'src']}.get(place, [])
    if place == 'ROS_PACKAGE_PATH':
        monkeypatch.setenv(place, str(root.parent))
    if place == 'ament':
        monkeypatch.setenv('AMENT_PREFIX_PATH', f'/nowhere:{tmp_path / "prefix"}')
    spec = load_spec(urdf, given)
    assert [Path(mesh.file) for mesh in spec.meshes] == [
        (root / 'meshes' / 'link.stl').resolve()
    ] * 2
    (note,) = [n for n in read_description(urdf, given).notes if n.startswith('Meshes')]
    assert 'absent_package/meshes/link.stl (no package' in note
    assert 'demo_arm' not in note


def test_meshes_change_no_number_that_moves_it(tmp_path: Path) -> None:
    urdf = tmp_path / 'arm.urdf'
    urdf.write_text((DATA / 'package.urdf').read_text())
    without = load_model(urdf)
    _stl(tmp_path / 'demo_arm' / 'meshes' / 'link.stl')
    with_meshes = load_model(urdf, [tmp_path])
    assert (without.nmesh, with_meshes.nmesh) == (0, 2)
    for field in ('body_mass', 'body_inertia', 'body_ipos', 'dof_M0'):
        np.testing.assert_array_equal(getattr(without, field), getattr(with_meshes, field))
    assert not with_meshes.geom_contype.any()


def test_a_mesh_that_mujoco_refuses_is_left_out(tmp_path: Path) -> None:
    urdf = tmp_path / 'arm.urdf'
    urdf.write_text((DATA / 'package.urdf').read_text())
    broken = tmp_path / 'demo_arm' / 'meshes' / 'link.stl'
    broken.parent.mkdir(parents=True)
    broken.write_text('solid ascii\nendsolid ascii\n')
    assert load_model(urdf, [tmp_path]).nmesh == 0
    assert 'link.stl (MuJoCo refuses it)' in ' '.join(read_description(urdf, [tmp_path]).notes)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A URDF as MuJoCo reads it, and with identified values in its text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from sysid_ros.errors import ModelError
from sysid_ros.model.description import convert, read_description
from sysid_ros.model.inertia import full_inertia
from sysid_ros.model.loading import (
    add_actuators,
    compile_spec,
    fitted_model,
    load_model,
    load_spec,
    read_model,
)
from sysid_ros.model.mjcf import WrittenModel, write_model
from sysid_ros.model.targets import Target, resolve
from sysid_ros.model.urdf import rotation_from_rpy, rpy_from_rotation

DATA = Path(__file__).parents[1] / 'data' / 'urdf'
TWO_LINKS = '<link name="a"/><link name="b"/>'


def read(text: str) -> mujoco.MjModel:
    """Compile the MJCF of a URDF's text."""
    return mujoco.MjModel.from_xml_string(convert(text, Path('robot.urdf')).mjcf)


def numbers(node: ET.Element | None, name: str, default: str) -> NDArray[np.float64]:
    """Return the numbers of an attribute."""
    return np.array((default if node is None else node.get(name, default)).split(), float)


@pytest.mark.parametrize('name', ['bare', 'fixed', 'mimic', 'package'])
def test_every_link_is_a_body_with_the_numbers_of_the_text(name: str) -> None:
    path = DATA / f'{name}.urdf'
    model, robot = load_model(path), ET.parse(path).getroot()  # noqa: S314 (ours)
    names = {model.body(row).name for row in range(model.nbody)}
    assert names == {'world', *(link.get('name') for link in robot.iter('link'))}
    for link in robot.iter('link'):
        inertial, body = link.find('inertial'), model.body(link.attrib['name'])
        if inertial is None:
            assert body.mass[0] == 0
            continue
        origin, tensor = inertial.find('origin'), np.zeros((3, 3))
        for i, j in np.ndindex(3, 3):
            key = 'i' + ''.join('xyz'[axis] for axis in sorted((i, j)))
            tensor[i, j] = numbers(inertial.find('inertia'), key, '0')[0]
        turned = rotation_from_rpy(numbers(origin, 'rpy', '0 0 0'))
        found = full_inertia(body.iquat, body.inertia)
        assert body.mass[0] == numbers(inertial.find('mass'), 'value', '0')[0]
        np.testing.assert_array_equal(body.ipos, numbers(origin, 'xyz', '0 0 0'))
        np.testing.assert_allclose(found, turned @ tensor @ turned.T, rtol=0, atol=1e-15)
    for joint in robot.iterfind('joint'):
        if joint.get('type') == 'fixed':
            continue
        made, limit = model.joint(joint.attrib['name']), joint.find('limit')
        dynamics = joint.find('dynamics')
        assert made.damping[0] == numbers(dynamics, 'damping', '0')[0]
        assert made.frictionloss[0] == numbers(dynamics, 'friction', '0')[0]
        if joint.get('type') != 'continuous':
            limits = [numbers(limit, end, '0')[0] for end in ('lower', 'upper')]
            assert made.range.tolist() == limits


def test_no_number_is_rounded() -> None:
    mass, moment = 1.2345678901234567, 0.1234567890123456
    model = read(
        f'<robot name="r">{TWO_LINKS.replace(""" name="b"/>""", """ name="b">""")}<inertial>'
        f'<mass value="{mass}"/><inertia ixx="{moment}" iyy="{moment}" izz="{moment}" ixy="0" '
        'ixz="0" iyz="0"/></inertial></link><joint name="j" type="continuous"><parent link="a"/>'
        f'<child link="b"/><dynamics damping="{moment}"/></joint></robot>'
    )
    assert (model.body('b').mass[0], model.body('b').inertia[0]) == (mass, moment)
    assert model.joint('j').damping[0] == moment


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
    model, notes = load_model(path), ' '.join(read_description(path).notes)
    assert 'or of its mass: between, arm' in notes
    assert 'so each got another: hand' in notes
    assert model.opt.timestep == 0.001
    assert model.body('between').mass[0] == 1e-3
    assert model.body('arm').mass[0] == 0.9
    np.testing.assert_allclose(model.body('hand').inertia, 0.002)
    assert not model.jnt_actfrclimited[model.joint('pan').id]


def test_an_inertia_with_a_negative_moment_becomes_that_of_a_ball() -> None:
    inertia = '<inertia ixx="3" iyy="2" izz="1" ixy="3" ixz="0" iyz="0"/>'
    link = f'<link name="a"><inertial><mass value="1"/>{inertia}</inertial></link>'
    found = convert(
        f'<robot name="r"><link name="base"/>{link}'
        '<joint name="j" type="continuous"><parent link="base"/><child link="a"/></joint>'
        '</robot>',
        Path('robot.urdf'),
    )
    assert 'so each got another: a.' in ' '.join(found.notes)
    model = mujoco.MjModel.from_xml_string(found.mjcf)
    np.testing.assert_allclose(model.body('a').inertia, 2.0)


@pytest.mark.parametrize('world', ['<link name="world"/>', ''])
def test_a_floating_joint_below_the_world_moves_the_robot(tmp_path: Path, world: str) -> None:
    path = tmp_path / 'robot.urdf'
    text = (DATA / 'bare.urdf').read_text()
    assert load_model(DATA / 'bare.urdf').nv == 1
    joint = '<joint name="root" type="floating"><parent link="world"/><child link="base"/></joint>'
    path.write_text(text.replace('<link name="base"/>', f'{world}<link name="base"/>{joint}'))
    assert load_model(path).nv == 7
    assert not any('stands still' in note for note in read_description(path).notes)


@pytest.mark.parametrize(
    'inside',
    [
        TWO_LINKS + '<joint name="j" type="hinge"><parent link="a"/><child link="b"/></joint>',
        TWO_LINKS + '<joint name="j" type="fixed"><parent link="a"/><child link="bb"/></joint>',
        '<link name="a"><inertial><mass value="heavy"/></inertial></link>',
        '<link/>',
        '<link name="a">',
    ],
)
def test_what_is_no_tree_of_links_is_one_sentence(inside: str) -> None:
    with pytest.raises(ModelError, match=r"robot\.urdf': .*\.$") as refused:
        read(f'<robot name="r">{inside}</robot>')
    assert '\n' not in str(refused.value)


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
    mesh = (root / 'meshes' / 'link.stl').resolve()
    assert {Path(mesh.file) for mesh in spec.meshes} == {mesh}
    (note,) = [n for n in read_description(urdf, given).notes if n.startswith('Meshes')]
    assert 'absent_package/meshes/link.stl (no package' in note
    assert 'demo_arm' not in note


def test_meshes_change_no_number_that_moves_it(tmp_path: Path) -> None:
    urdf = tmp_path / 'arm.urdf'
    urdf.write_text((DATA / 'package.urdf').read_text())
    without = load_model(urdf)
    _stl(tmp_path / 'demo_arm' / 'meshes' / 'link.stl')
    with_meshes = load_model(urdf, [tmp_path])
    assert (without.nmesh, with_meshes.nmesh > 0) == (0, True)
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


def rewrite(
    path: Path, folder: Path, values: Mapping[str, float], servos: tuple[str, ...] = ()
) -> tuple[WrittenModel, mujoco.MjModel, str]:
    """Write values into a URDF; return also the model that they mean, and the new URDF."""
    source = read_model(path)
    spec = source.spec
    add_actuators(spec, servos)
    model = compile_spec(spec, path)
    targets: list[tuple[Target, float]] = [
        (target, value)
        for name, value in values.items()
        for target in resolve(name, model, spec=spec)
    ]
    written = write_model(source, targets, folder / 'out')
    urdf = written.path.with_suffix('.urdf').read_text()
    return written, fitted_model(path, targets, spec), urdf


def test_only_identified_numbers_change(tmp_path: Path) -> None:
    path = DATA / 'fixed.urdf'
    values = {
        'body/arm/mass': 1.75,
        'body/camera/ipos[1]': 0.05,
        'body/flange/mass_scaled': 1.0,
        'joint/lift/damping': 0.7,
        'joint/roll/frictionloss': 0.02,
        'body/arm/pos[2]': 0.15,
    }
    _, _, urdf = rewrite(path, tmp_path, values)
    expected = path.read_text()
    for old, new in (
        ("<mass value='1.5'/>", "<mass value='1.75'/>"),
        ("<mass value='.5'/>", "<mass value='1'/>"),
        ("'.02 .01 .03'", "'.02 0.05 .03'"),
        ("damping='.3'", "damping='0.7'"),
        ("'0 0 .1' rpy='1.57", "'0 0 0.15' rpy='1.57"),
        ("type='continuous'>\n", 'type=\'continuous\'>\n    <dynamics friction="0.02"/>\n'),
    ):
        assert expected.count(old) == 1
        expected = expected.replace(old, new)
    # The moments of the link that got heavier by a factor grow with it.
    for old, new in (
        ("ixx='.004' ixy='.0005' ixz='.0007'", "ixx='0.008' ixy='0.001' ixz='0.0014'"),
        ("iyy='.003' iyz='-.0004' izz='.005'", "iyy='0.006' iyz='-0.0008' izz='0.01'"),
    ):
        expected = expected.replace(old, new)
    pattern = re.compile(r'-?\d*\.?\d+(?:e-?\d+)?')
    assert pattern.sub('#', urdf) == pattern.sub('#', expected)
    numbers = [[float(n) for n in pattern.findall(text)] for text in (urdf, expected)]
    np.testing.assert_allclose(*numbers, rtol=1e-12)


def test_a_text_without_changes_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / 'robot.urdf'
    path.write_bytes((DATA / 'mimic.urdf').read_bytes().replace(b'\n', b'\r\n'))
    written, _, _ = rewrite(path, tmp_path, {'joint/elbow/armature': 0.02})
    assert written.path.with_suffix('.urdf').read_bytes() == path.read_bytes()
    (note,) = written.notes
    assert note == (
        'A URDF has no place for what only the MJCF beside robot.urdf holds: joint/elbow/armature.'
    )


def test_what_was_implied_and_fitted_is_in_the_mjcf_beside(tmp_path: Path) -> None:
    values = {'actuator/pivot_servo/kp': 12.5, 'joint/pivot/armature': 0.01}
    written, fitted, urdf = rewrite(DATA / 'bare.urdf', tmp_path, values, ('pivot_servo',))
    assert urdf == (DATA / 'bare.urdf').read_text()
    model = mujoco.MjModel.from_xml_path(str(written.path))
    assert model.actuator('pivot_servo').gainprm[0] == 12.5
    assert model.actuator('pivot_servo').biasprm[2] == fitted.actuator_biasprm[0, 2]
    assert 'joint/pivot/armature, 1 implied actuators' in ' '.join(written.notes)

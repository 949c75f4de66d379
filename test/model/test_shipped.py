# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Models as they are shipped: without sensors, actuators and meshes."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from builders.written_models import TETRAHEDRON
from sysid_ros.errors import ModelError
from sysid_ros.model.description import read_description
from sysid_ros.model.loading import (
    RobotModel,
    add_actuators,
    compile_spec,
    drop_implied,
    free_joints,
    implied_actuators,
    implied_sensors,
    implied_sentence,
    load_model,
    load_spec,
    read_model,
)
from sysid_ros.model.mjcf import write_model
from sysid_ros.model.targets import resolve

BODIES = """<mujoco>
  <worldbody>
    <body name="base"><freejoint name="root"/><geom size=".1"/><site name="imu"/>
      <body><joint name="hip"/><geom size=".1"/>
        <body><joint name="knee" type="slide"/><geom size=".1"/></body>
      </body>
      <body><joint/><geom size=".1"/></body>
    </body>
  </worldbody>
  {}
</mujoco>
"""
POSE = ['base_position', 'base_orientation']
IMPLIED = [
    f'{joint}_{quantity}'
    for joint in ('hip', 'knee')
    for quantity in ('position', 'velocity', 'effort')
]


def _file(folder: Path, sensors: str) -> Path:
    path = folder / 'robot.xml'
    path.write_text(BODIES.format(sensors))
    return path


@pytest.mark.parametrize(
    ('own', 'expected'),
    [
        ('<gyro name="gyro" site="imu"/>', ['gyro', *POSE, *IMPLIED]),
        ('<jointvel name="v" joint="hip"/>', ['v', *POSE, IMPLIED[0], *IMPLIED[2:]]),
        # A name that is taken is not given twice.
        ('<gyro name="hip_effort" site="imu"/>', ['hip_effort', *POSE, *IMPLIED[:2], *IMPLIED[3:]]),
    ],
)
def test_named_hinges_and_slides_have_the_sensors_that_the_model_lacks(
    tmp_path: Path, own: str, expected: list[str]
) -> None:
    path = _file(tmp_path, f'<sensor>{own}</sensor>')
    model = load_model(path)
    assert [model.sensor(index).name for index in range(model.nsensor)] == expected
    assert implied_sensors(load_spec(path)) == expected[1:]


def test_implied_sensors_are_known_again_in_a_copy(tmp_path: Path):
    spec = load_spec(_file(tmp_path, '')).copy()
    assert implied_sensors(spec) == [*POSE, *IMPLIED]
    drop_implied(spec)
    assert spec.compile().nsensor == 0


def test_the_model_that_is_written_has_none(tmp_path: Path):
    path = _file(tmp_path, '')
    (target,) = resolve('joint/hip/damping', load_model(path), spec=load_spec(path))
    written = write_model(path, [(target, 0.5)], tmp_path / 'identified').path
    text = written.read_text().replace(' damping="0.5"', '')
    assert text == path.read_text()


def test_a_motor_that_has_a_constant_force_implies_what_a_motor_does(tmp_path: Path):
    path = _file(
        tmp_path,
        '<actuator><motor name="m" joint="hip"/></actuator>'
        '<sensor><jointvel name="v" joint="hip"/></sensor>',
    )
    (target,) = resolve('joint/hip/damping', load_model(path), spec=load_spec(path))
    written = write_model(path, [(target, 0.5)], tmp_path / 'identified', {'m': 0.3})
    assert written.edited
    assert load_model(written.path).actuator_biasprm[0, 0] == 0.3
    assert implied_sensors(load_spec(written.path)) == [*POSE, IMPLIED[0], *IMPLIED[2:]]


SERVOS = ['hip_servo', 'knee_motor', 'slip_velocity_servo', 'nothing_servo', 'hip']
JOINTS = """<mujoco>
  <worldbody>
    <body><joint name="hip"/><geom size=".1" pos=".2 0 0"/>
      <body><joint name="knee" type="slide"/><geom size=".1"/>
        <body><joint name="slip"/><geom size=".1" pos="0 .1 0"/></body></body></body>
    <body><joint name="copy"/><geom size=".1"/></body>
  </worldbody>
  <equality><joint joint1="copy" joint2="hip"/></equality>{}
</mujoco>
"""


def _driven(folder: Path, actuators: str = '') -> tuple[Path, mujoco.MjSpec]:
    path = folder / 'joints.xml'
    path.write_text(JOINTS.format(actuators))
    spec = load_spec(path)
    add_actuators(spec, SERVOS)
    return path, spec


def test_actuators_are_made_by_their_names(tmp_path: Path):
    _, spec = _driven(tmp_path)
    assert implied_actuators(spec) == SERVOS[:3]
    assert free_joints(spec) == ['hip', 'knee', 'slip']
    servo, motor, velocity = spec.actuators
    assert servo.biasprm[1] < 0
    assert not motor.biasprm.any()
    assert (velocity.biasprm[1], velocity.gainprm[0]) == (0, -velocity.biasprm[2])
    assert 'actuator/*/kp and actuator/*/kv' in implied_sentence(spec)


def test_a_model_with_a_servo_of_its_own_gets_none(tmp_path: Path):
    _, spec = _driven(tmp_path, '<actuator><position joint="hip"/></actuator>')
    assert implied_actuators(spec) == []
    assert implied_sentence(spec) == ''


@pytest.mark.parametrize('mass', [1e-4, 1.0, 300.0])
@pytest.mark.parametrize('timestep', [0.001, 0.01])
def test_servos_with_guessed_gains_hold_and_follow(mass: float, timestep: float):
    spec = mujoco.MjSpec.from_string(
        f'<mujoco><option timestep="{timestep}"/><worldbody><body><joint name="j" axis="0 1 0"/>'
        f'<geom size=".05" pos=".3 0 0" mass="{mass}"/></body></worldbody></mujoco>'
    )
    add_actuators(spec, ['j_servo'])
    model = spec.compile()
    data = mujoco.MjData(model)
    data.ctrl[:] = 0.5
    for _ in range(round(5 / timestep)):
        mujoco.mj_step(model, data)
    # It sags by the load over its stiffness, at rest.
    load = mass * 9.81 * 0.3 * np.cos(data.qpos[0])
    assert data.qpos[0] == pytest.approx(0.5 + load / model.actuator_gainprm[0, 0], abs=1e-3)
    assert abs(data.qvel[0]) < 1e-3


def test_implied_actuators_are_written_and_the_rest_is_the_users_text(tmp_path: Path):
    path, spec = _driven(tmp_path)
    model = spec.copy().compile()
    (target,) = resolve('actuator/hip_servo/kp', model, spec=spec)
    source = RobotModel(read_description(path), spec)
    text = write_model(source, [(target, 55.0)], tmp_path / 'out').path.read_text()
    before, _, after = text.partition('  <actuator>\n')
    assert before + '</mujoco>\n' == path.read_text()
    assert '<position name="hip_servo" joint="hip" kp="55" kv="' in after
    assert '<motor name="knee_motor" joint="knee"/>' in after
    assert '<velocity name="slip_velocity_servo" joint="slip" kv="' in after


#: A swinging arm with everything that may be missing; `{0}` is its inertial.
SHOWN = """<mujoco>
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
    path.write_text(SHOWN.format(**chosen))
    return path


def test_what_shows_by_files_that_are_not_there_is_left_out_with_a_note(tmp_path: Path) -> None:
    path = model_file(tmp_path)
    description, spec = read_model(path)
    model = compile_spec(spec, path)
    (note,) = description.notes
    assert 'left out: arm.obj, sub/tip.stl, ground.png, arm.skn, skin.png, ' in note
    assert note.endswith('that changes the contacts of world, hand.')
    assert (model.ngeom, model.nmesh, model.ntex, model.nhfield, model.npair) == (2, 0, 0, 0, 0)
    assert [sensor.name for sensor in spec.sensors][2:3] == ['hip_position']
    assert model.body('arm').mass == 2


def test_files_that_are_there_stay(tmp_path: Path) -> None:
    path = model_file(tmp_path)
    (tmp_path / 'meshes').mkdir()
    (tmp_path / 'meshes' / 'arm.obj').write_text(TETRAHEDRON)
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

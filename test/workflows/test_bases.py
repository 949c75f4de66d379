# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A robot that floats in the model and hung while it was recorded."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from builders.bag_columns import START
from sysid_ros.alignment.segments import initial_state
from sysid_ros.config.schema import CalibrationConfig
from sysid_ros.errors import FitError
from sysid_ros.fit.observer import Nobody
from sysid_ros.signals import SignalType, TimeSeries, Trajectory
from sysid_ros.signals.rotations import rotation_vectors
from sysid_ros.simulation.prediction import predict
from sysid_ros.workflows.calibrate import calibrate
from sysid_ros.workflows.init import propose_calibration, to_yaml
from sysid_ros.workflows.problem import on_fixed_base

LEGS = """
<mujoco>
  <compiler angle="radian"/>
  <worldbody>
    <body name="trunk" pos="0 0 .5" quat=".8 .6 0 0"><freejoint name="float"/>
      <geom size=".12" mass="4"/>
      <body name="thigh" pos="0 .1 0"><joint name="hip" axis="0 1 0" damping="{}"/>
        <geom type="capsule" size=".03" fromto="0 0 0 0 0 -.2" mass=".5"/>
        <body name="calf" pos="0 0 -.2"><joint name="knee" axis="0 1 0" damping="{}"/>
          <geom type="capsule" size=".02" fromto="0 0 0 0 0 -.2" mass=".3"/></body></body></body>
    <body name="ball" pos="3 0 0"><freejoint/><geom size=".1"/></body>
  </worldbody>
  <actuator><position name="hip" joint="hip" kp="20" kv=".5"/>
    <position name="knee" joint="knee" kp="15" kv=".3"/></actuator>
  <keyframe><key name="home" qpos="0 0 .5 1 0 0 0 .3 -.6 3 0 0 1 0 0 0"/></keyframe>
</mujoco>
"""
NOMINAL, TRUTH = LEGS.format(0.1, 0.1), (0.4, 0.25)


def record(path: Path, seed: int) -> None:
    """Write a table of a motion in which the trunk is held."""
    held = LEGS.format(*TRUTH).replace('<freejoint name="float"/>', '')
    model = mujoco.MjModel.from_xml_string(held[: held.index('<keyframe>')] + '</mujoco>')
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    data, rng, rows = mujoco.MjData(model), np.random.default_rng(seed), []
    mujoco.mj_step(model, data, 2000)
    for time in np.arange(0, 8, 0.01):
        data.ctrl[:] = 0.5 * np.sin(2 * np.pi * (0.7 + 0.1 * seed) * time * np.array([1, 1.6]))
        mujoco.mj_forward(model, data)
        positions = data.qpos[:2] + rng.normal(0, 2e-4, 2)
        rows.append([time, *positions, *data.ctrl])
        mujoco.mj_step(model, data, 5)
    head = 'time,hip_pos,knee_pos,cmd_hip_pos,cmd_knee_pos'
    np.savetxt(path, rows, delimiter=',', header=head, comments='', fmt='%.9g')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / 'legs.xml').write_text(NOMINAL)
    for number, name in enumerate(('train_1', 'train_2', 'validate')):
        record(tmp_path / f'{name}.csv', number)
    return tmp_path


def test_a_base_that_is_fixed_stands_where_the_model_has_it() -> None:
    spec = mujoco.MjSpec.from_string(NOMINAL)
    model = on_fixed_base(spec, spec.compile()).compile()
    assert [model.joint(row).name for row in range(model.njnt)] == ['hip', 'knee', '']
    np.testing.assert_array_equal(model.body('trunk').pos, [0, 0, 0.5])
    np.testing.assert_array_equal(model.key_qpos[0], [0.3, -0.6, 3, 0, 0, 1, 0, 0, 0])
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    # The thigh is in the trunk, which it did not touch before.
    assert data.ncon == 0
    assert spec.compile().nq == 7 + 2 + 7


@pytest.mark.slow
def test_a_robot_that_hung_is_identified_and_written_as_it_floats(folder: Path) -> None:
    values = {
        'model': folder / 'legs.xml',
        'bags': [
            {'path': str(folder / 'train_?.csv')},
            {'path': str(folder / 'validate.csv'), 'role': 'validate'},
        ],
        'base': 'fixed',
        'parameters': [{'target': 'joint/[hk]*/damping', 'bounds': [0, 2]}],
        'output': folder / 'out',
    }
    done = calibrate(CalibrationConfig.model_validate(values))
    assert done.result.accepted
    for parameter, truth in zip(done.result.parameters, TRUTH, strict=True):
        assert parameter.verdict == 'identified'
        half = (parameter.high - parameter.low) / 2
        assert abs(parameter.value - truth) < 1.6 * half
        assert half < 0.01
    written = mujoco.MjModel.from_xml_path(str(folder / 'out/current/mjcf/legs.xml'))
    assert written.nq == 7 + 2 + 7
    found = [float(written.dof_damping[written.joint(name).dofadr[0]]) for name in ('hip', 'knee')]
    assert found == [parameter.value for parameter in done.result.parameters]


@pytest.mark.slow
def test_init_takes_a_base_that_nothing_measures_to_be_fixed_and_says_so(folder: Path) -> None:
    paths = [folder / 'train_1.csv', folder / 'validate.csv']
    proposal = propose_calibration(paths, folder / 'legs.xml', Nobody())
    assert (proposal.base, proposal.floating) == ('fixed', 'trunk')
    text = to_yaml(proposal, folder, 'mapping.yaml')
    assert 'Nothing recorded says where trunk is' in text
    assert '\nbase: fixed\n' in text
    targets = {item.target for item in proposal.targets}
    assert targets >= {'joint/hip/armature', 'joint/knee/armature'}
    assert not any('ball' in target for target in targets)


DRONE = """
<mujoco>
  <option integrator="implicitfast"/>
  <worldbody><body name="drone" pos="0 0 1"><freejoint/><geom size=".1" mass="5"/>
    <site name="marker" pos=".05 .02 .1" euler="10 20 30"/>
    <body name="upper" pos=".2 0 0"><joint name="shoulder" axis="0 1 0" {0}/>
      <geom size=".05" mass="1" pos=".2 0 0"/>
      <body pos=".3 0 0"><joint name="elbow" axis="0 0 1" damping="{1}"/>
        <geom size=".04" mass=".4" pos=".1 0 0"/></body></body></body></worldbody>
  <actuator><position name="shoulder" joint="shoulder" kp="20" kv="1"/>
    <position name="elbow" joint="elbow" kp="10" kv=".5"/></actuator>
  <sensor><jointpos name="shoulder_pos" joint="shoulder"/><jointpos name="elbow_pos" joint="elbow"/>
    <framepos name="place" objtype="site" objname="marker"/>
    <framequat name="turn" objtype="site" objname="marker"/></sensor>
</mujoco>
"""
FLYING = {
    'joint/shoulder/armature': 0.05,
    'joint/shoulder/damping': 0.4,
    'joint/elbow/damping': 0.1,
}
TYPES = {
    'Header': 'std_msgs',
    'Time': 'builtin_interfaces',
    'JointState': 'sensor_msgs',
    'PoseStamped': 'geometry_msgs',
    'Pose': 'geometry_msgs',
    'Point': 'geometry_msgs',
    'Quaternion': 'geometry_msgs',
}
JOINTS = 'shoulder_pos', 'elbow_pos'
OWN = 'armature="{}" damping="{}"'


def fly(path: Path, seed: int, noise: float = 1.0) -> None:
    """Write a bag of a drone that a hand moves about while its arm moves."""
    rng = np.random.default_rng(seed)
    armature, *damping = FLYING.values()
    model = mujoco.MjModel.from_xml_string(
        DRONE.format(OWN.format(armature, damping[0]), damping[1])
    )
    data = mujoco.MjData(model)
    rates, phases = rng.uniform(2, 7, 6), rng.uniform(0, 6, 6)
    size, middle = np.array([0.3, 0.2, 0.2, 0.5, 0.4, 0.6]), np.array([0, 0, 1.16, 0, 0, 0])
    store = get_typestore(Stores.ROS2_JAZZY)
    types = {name: store.types[f'{package}/msg/{name}'] for name, package in TYPES.items()}
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:

        def write(topic: str, kind: str, at: int, message: Any) -> None:
            name = f'{TYPES[kind]}/msg/{kind}'
            where = connections.get(topic) or connections.setdefault(
                topic, writer.add_connection(topic, name, typestore=store)
            )
            writer.write(where, at, store.serialize_cdr(message, name))

        connections: dict[str, Any] = {}
        for row in range(800):
            now, stamp = row * 0.01, START + 10_000_000 * row
            data.ctrl[:] = 0.6 * np.sin(5.6 * now + seed), 0.8 * np.sin(4 * now + 0.6 * now**2)
            header = types['Header'](types['Time'](stamp // 10**9, stamp % 10**9), 'world')
            mujoco.mj_forward(model, data)
            seen = data.sensordata.copy()
            joints = seen[:2] + noise * rng.normal(0, 2e-4, 2)
            names, nothing = ['shoulder', 'elbow'], np.zeros(0)
            for topic, values in (('/joint_states', joints), ('/joint_commands', data.ctrl)):
                state = types['JointState'](header, names, np.array(values), nothing, nothing)
                write(topic, 'JointState', stamp, state)
            place = seen[2:5] + noise * rng.normal(0, 3e-4, 3)
            turn = seen[5:].copy()
            mujoco.mju_quatIntegrate(turn, noise * rng.normal(0, 1e-3, 3), 1.0)
            pose = types['Pose'](types['Point'](*place), types['Quaternion'](*np.roll(turn, -1)))
            write('/drone/pose', 'PoseStamped', stamp, types['PoseStamped'](header, pose))
            hand = middle + min(now, 1.0) ** 2 * size * np.sin(rates * now + phases)
            turned, rotation = np.zeros(3), np.zeros(9)
            for _ in range(round(0.01 / model.opt.timestep)):
                mujoco.mju_quat2Vel(turned, data.qpos[3:7], 1.0)
                mujoco.mju_quat2Mat(rotation, data.qpos[3:7])
                pull = 400 * (hand[:3] - data.qpos[:3]) - 60 * data.qvel[:3]
                twist = 20 * (hand[3:] - turned) - 3 * data.qvel[3:6]
                data.xfrc_applied[1, :3] = pull
                data.xfrc_applied[1, 3:] = rotation.reshape(3, 3) @ twist
                mujoco.mj_step(model, data)


@pytest.fixture
def flights(tmp_path: Path) -> Path:
    (tmp_path / 'drone.xml').write_text(DRONE.format(OWN.format(0.01, 0.2), 0.2))
    for seed, name in enumerate(('train_1', 'train_2', 'validate')):
        fly(tmp_path / name, seed)
    return tmp_path


@pytest.mark.slow
def test_an_arm_on_a_base_that_moves_is_identified_along_the_measured_motion(flights: Path) -> None:
    values = {
        'model': flights / 'drone.xml',
        'bags': [
            {'path': str(flights / 'train_?')},
            {'path': str(flights / 'validate'), 'role': 'validate'},
        ],
        'base': 'measured',
        'parameters': [{'target': target} for target in FLYING],
        'output': flights / 'out',
    }
    result = calibrate(CalibrationConfig.model_validate(values)).result
    assert result.accepted, result.acceptance
    for parameter, truth in zip(result.parameters, FLYING.values(), strict=True):
        assert parameter.verdict == 'identified'
        half = (parameter.high - parameter.low) / 2
        assert abs(parameter.value - truth) < 1.6 * half
        assert half < 0.02 * truth


@pytest.mark.slow
def test_init_lets_a_base_move_as_measured_where_there_is_nothing_to_stand_on(
    flights: Path,
) -> None:
    paths = [flights / 'train_1', flights / 'validate']
    proposal = propose_calibration(paths, flights / 'drone.xml', Nobody())
    assert (proposal.base, proposal.floating) == ('measured', 'drone')
    assert '\nbase: measured\n' in to_yaml(proposal, flights, 'mapping.yaml')


def test_a_base_that_is_not_measured_cannot_be_followed(folder: Path) -> None:
    values = {
        'model': folder / 'legs.xml',
        'bags': [{'path': str(folder / 'train_1.csv')}],
        'base': 'measured',
        'parameters': [{'target': 'joint/hip/damping'}],
    }
    with pytest.raises(FitError, match=r'Expected the position and the orientation of .trunk. in'):
        calibrate(CalibrationConfig.model_validate(values))


def of_pose(place: np.ndarray, turn: np.ndarray, times: np.ndarray) -> tuple[TimeSeries, ...]:
    """Return what the marker of the drone read, (n, 3) and (n, 4)."""
    kind, axes = SignalType.MjSensor, np.arange(3)
    return (
        TimeSeries(times, place, {'place': (kind, axes)}),
        TimeSeries(times, rotation_vectors(turn), {'turn': (kind, axes)}),
    )


def test_a_body_that_floats_starts_where_a_frame_on_it_was_measured() -> None:
    model = mujoco.MjModel.from_xml_string(DRONE.format('', 0))
    model.opt.timestep, data = 1e-3, mujoco.MjData(model)
    data.qpos[3:7], data.qvel[:6] = [0.2, -0.8, 0.5, 0.3], [0.4, -0.3, 0.6, 2.0, -1.0, 1.5]
    states, read = [], []
    for _ in range(41):
        mujoco.mj_forward(model, data)
        states.append((data.qpos.copy(), data.qvel.copy()))
        read.append(data.sensordata.copy())
        mujoco.mj_step(model, data)
    series = of_pose(np.array(read)[:, 2:5], np.array(read)[:, 5:], 1e-3 * np.arange(41))
    qpos, qvel, _ = initial_state(model, series, 0.02)
    turned = np.zeros(3)
    mujoco.mju_subQuat(turned, qpos[3:7], states[20][0][3:7])
    np.testing.assert_allclose(turned, 0, atol=1e-4)
    np.testing.assert_allclose(qpos[:3], states[20][0][:3], atol=1e-4)
    np.testing.assert_allclose(qvel[:6], states[20][1][:6], atol=0.02)


def test_what_a_base_carries_moves_as_if_the_base_had_moved_by_itself() -> None:
    model = mujoco.MjModel.from_xml_string(DRONE.format('damping=".1"', 0.1))
    data, rows = mujoco.MjData(model), []
    for step in range(1000):
        now = step * model.opt.timestep
        data.xfrc_applied[1] = 30 * np.sin(np.arange(1, 7) * now) * [1, 1, 1, 0.02, 0.02, 0.02]
        mujoco.mj_forward(model, data)
        rows.append(np.concatenate([data.qpos, data.sensordata[:2]]))
        mujoco.mj_step(model, data)
    rows, times = np.array(rows), model.opt.timestep * np.arange(1000)
    joints = {name: (SignalType.MjSensor, np.array([k])) for k, name in enumerate(JOINTS)}
    run = Trajectory(
        'flight',
        0,
        model.qpos0,
        np.zeros(model.nv),
        (),
        (TimeSeries(times, rows[:, -2:], joints),),
        base=TimeSeries(times, rows[:, :7], {'drone': (SignalType.MjStateQPos, np.arange(7))}),
    )
    (found,) = predict(model, [run])
    moved = np.ptp(rows[:, -2:], axis=0)
    assert moved.min() > 0.01
    np.testing.assert_allclose(found.channels[0][0], rows[:, -2:], atol=1e-5)
    # The base that is followed is where it was; alone, it would have fallen.
    fixed = dataclasses.replace(run, base=None)
    assert np.abs(predict(model, [fixed])[0].channels[0][0] - rows[:, -2:]).max() > 0.01

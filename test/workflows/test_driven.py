# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Bags that say what drove the robot, bags that do not, and robots that nothing drove."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from builders.bag_columns import Columns
from builders.models import Drive, rod
from sysid_ros.alignment import align
from sysid_ros.alignment.pairing import map_columns
from sysid_ros.alignment.trajectories import kept_columns
from sysid_ros.bags import BagColumns
from sysid_ros.config.schema import BagSelection, CalibrationConfig, ParameterConfig, SegmentsConfig
from sysid_ros.errors import ConfigError, FitError
from sysid_ros.workflows.calibrate import calibrate
from sysid_ros.workflows.problem import check_driven, switched_off, without_undriven

TIMES = np.arange(0.0, 20.0, 0.02)
#: Two joints with an actuator each, and a third that swings by itself.
ARM = """
<mujoco>
  <worldbody>
    <body><joint name="lift" axis="0 1 0"/><geom size=".1" mass="1" pos=".2 0 0"/>
      <body pos=".4 0 0"><joint name="turn" axis="0 0 1"/><geom size=".1" mass="1" pos=".2 0 0"/>
        <body pos=".4 0 0"><joint name="pole" axis="0 1 0"/><geom size=".1" mass="1" pos="0 0 -.2"/>
  </body></body></body></worldbody>
  <actuator>{}</actuator>
  <sensor><jointpos name="ql" joint="lift"/><jointpos name="qt" joint="turn"/>
    <jointpos name="qp" joint="pole"/></sensor>
</mujoco>
"""
SERVOS = '<position name="l" joint="lift" kp="50"/><position name="t" joint="turn" kp="50"/>'
MOTORS = '<motor name="l" joint="lift" gear="4"/><motor name="t" joint="turn"/>'
MOVES = np.sin(2.3 * TIMES) + 0.5 * np.sin(5.1 * TIMES)
STILL = np.full(len(TIMES), 0.7) + 1e-3 * np.cos(TIMES)


def states(*, efforts: bool = False, **joints: Any) -> Any:
    """Return joint states of lift, turn and pole."""
    fields = {'position': joints}
    if efforts:
        fields['effort'] = {joint: np.sin(TIMES) for joint in joints}
    return Columns().topic('/joint_states', TIMES, fields)


def commands(**joints: Any) -> Any:
    """Return commands by joint name."""
    return Columns().topic('/joint_commands', TIMES, {'position': joints, 'effort': joints})


def complaint(bag: BagColumns, actuators: str = SERVOS, undriven: tuple[str, ...] = ()) -> str:
    """Return why a bag is refused; empty where it is not."""
    spec = mujoco.MjSpec.from_string(ARM.format(actuators))
    model = spec.compile()
    if undriven:
        model = switched_off(spec, model, undriven).compile()
    try:
        check_driven(bag, model, without_undriven(map_columns(bag, model, 'auto'), model))
    except FitError as err:
        return str(err)
    return ''


def test_commands_for_all_that_moves_are_enough() -> None:
    bag = Columns().bag(
        states(lift=MOVES, turn=0.3 * np.roll(MOVES, 7), pole=MOVES**2),
        commands(lift=MOVES, turn=np.roll(MOVES, 3)),
    )
    assert not complaint(bag)
    assert not complaint(bag, MOTORS)


@pytest.mark.parametrize('actuators', [SERVOS, MOTORS])
def test_an_actuator_without_commands_matters_where_its_joint_moves(actuators: str) -> None:
    told = commands(lift=MOVES)
    moving = Columns().bag(states(lift=MOVES, turn=MOVES, pole=MOVES), told)
    assert "bag 'run', found none for t, whose joint moves by 3 rad:" in complaint(
        moving, actuators
    )
    assert not complaint(Columns().bag(states(lift=MOVES, turn=STILL, pole=MOVES), told), actuators)
    assert not complaint(Columns().bag(states(lift=MOVES, pole=MOVES), told), actuators)
    assert not complaint(moving, actuators, ('t',))


@pytest.mark.slow
def test_without_commands_a_model_with_actuators_has_to_swing_by_itself() -> None:
    limp = Columns().bag(states(lift=MOVES, turn=STILL, pole=STILL))
    assert 'found none for l, t, whose joints move by up to 3 rad' in complaint(limp)
    assert "undriven: ['*'] in the configuration." in complaint(limp)
    assert not complaint(limp, undriven=('*',))
    assert not complaint(limp, actuators='')
    resting = Columns().bag(states(lift=STILL, turn=STILL, pole=STILL))
    assert 'found none for l, t' in complaint(resting)
    unknown = Columns().bag(states(lift=STILL, pole=MOVES))
    assert 'found none for l, t' in complaint(unknown)
    assert not complaint(Columns().bag(states(lift=STILL, turn=STILL, pole=MOVES)))


def test_only_mjcf_says_that_a_robot_has_no_actuators() -> None:
    spec = mujoco.MjSpec.from_string(ARM.format(''))
    model = spec.compile()
    bag = Columns().bag(states(lift=MOVES, turn=STILL, pole=STILL))
    mapping = map_columns(bag, model, 'auto')
    check_driven(bag, model, mapping)
    with pytest.raises(FitError, match=r"for lift, turn, pole, whose joints move .*: \['\*'\]"):
        check_driven(bag, model, mapping, ())
    check_driven(bag, model, mapping, ('li*', 'turn', 'pole'))
    assert switched_off(spec, model, ('*',)).compile().opt.disableactuator


def test_measured_efforts_may_drive_motors() -> None:
    bag = Columns().bag(states(efforts=True, lift=MOVES, turn=MOVES, pole=MOVES))
    assert 'let measured efforts drive the motors' in complaint(bag, MOTORS)
    assert 'efforts' not in complaint(bag)


def test_a_topic_that_could_hold_the_commands_is_named() -> None:
    array = Columns().array(TIMES, width=5, name='/arm/commands')
    bag = Columns().bag(states(lift=MOVES, turn=MOVES, pole=MOVES), array)
    assert '(/arm/commands is not used: 5 elements without names, the model has 2' in complaint(bag)
    unlike = Columns().bag(
        states(lift=MOVES, turn=MOVES, pole=MOVES), commands(lift=MOVES, jaw=MOVES)
    )
    assert '(/joint_commands.position[jaw] is not used: ' in complaint(unlike)


@pytest.mark.slow
@pytest.mark.parametrize('went', [STILL, np.sin(1.1 * TIMES) + np.cos(0.7 * TIMES)])
def test_joints_that_go_nowhere_they_are_told_to_have_no_motors(went: Any) -> None:
    bag = Columns().bag(
        states(lift=went, turn=0.5 * went, pole=went),
        commands(lift=MOVES, turn=np.cos(3.3 * TIMES)),
    )
    assert complaint(bag).startswith(
        "No joint follows its commands in bag 'run', lift is told to move by 3 rad, and moves by "
    )
    assert not complaint(bag, MOTORS)
    assert not complaint(bag, undriven=('*',))


@pytest.mark.parametrize('period', [0.02, 0.2])
def test_a_servo_that_steps_as_fast_as_it_can_follows(period: float) -> None:
    times = np.arange(0.0, 20.0, period)
    steps = 1.5 * np.sign(np.sin(2.1 * times))
    went = np.zeros(len(times))
    for k in range(1, len(times)):
        went[k] = went[k - 1] + np.clip(steps[k - 1] - went[k - 1], -4 * period, 4 * period)
    joints = {'lift': went, 'turn': 0.0 * went, 'pole': 0.0 * went}
    told = {'lift': steps, 'turn': 0.0 * went}
    bag = Columns().bag(
        Columns().topic('/joint_states', times, {'position': joints}),
        Columns().topic('/joint_commands', times, {'position': told}),
    )
    assert not complaint(bag)


def _reaching(rng: np.random.Generator, count: int) -> Any:
    """Return smooth motions from point to point with rests between them."""
    parts, place = [], 0.0
    while sum(map(len, parts)) < count:
        goal, part = rng.uniform(-1, 1), np.linspace(0, 1, rng.integers(25, 75))
        parts.append(place + (goal - place) * (10 * part**3 - 15 * part**4 + 6 * part**5))
        parts.append(np.full(rng.integers(0, 35), goal))
        place = goal
    return np.concatenate(parts)[:count]


@pytest.mark.slow
def test_a_limp_arm_that_is_moved_by_hand_follows_nothing() -> None:
    times, complaints = np.arange(0.0, 10.0, 0.02), []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        lift, turn, *hand = (_reaching(rng, len(times)) for _ in range(4))
        late = {joint: np.roll(values, 6) for joint, values in (('lift', lift), ('turn', turn))}
        near = {joint: 0.8 * v + 0.05 * rng.normal(size=len(v)) for joint, v in late.items()}
        told = Columns().topic('/joint_commands', times, {'position': {'lift': lift, 'turn': turn}})
        for lift_went, turn_went in (hand, near.values()):
            joints = {'lift': lift_went, 'turn': turn_went, 'pole': 0.0 * times}
            state = Columns().topic('/joint_states', times, {'position': joints})
            complaints.append(complaint(Columns().bag(state, told))[:23])
    refused = [text == 'No joint follows its co' for text in complaints]
    assert sum(refused[::2]) >= 18
    assert not any(refused[1::2])


def test_an_actuator_that_a_servo_drives_cannot_be_undriven() -> None:
    spec = mujoco.MjSpec.from_string(ARM.format(SERVOS))
    with pytest.raises(ConfigError, match="'t' is in servos and in undriven"):
        switched_off(spec, spec.compile(), ('*',), ('t',))


@pytest.mark.slow
def test_a_servo_that_is_off_lets_its_rod_swing(tmp_path: Path) -> None:
    text = rod(timestep=0.002, damping=0.03, drive=Drive.SERVO)
    model = mujoco.MjModel.from_xml_string(text.replace(Drive.SERVO.value, ''))
    (tmp_path / 'rod.xml').write_text(text.replace('damping="0.03"', 'damping="0.1"'))
    rng, data, rows = np.random.default_rng(2), mujoco.MjData(model), []
    data.qpos[0] = 0.4
    for _ in range(500):
        mujoco.mj_step(model, data, 5)
        noise = rng.standard_normal(2) * [1e-3, 1e-2]
        rows.append([data.time, data.qpos[0] + noise[0], data.qvel[0] + noise[1]])
    head = 'time,j_position,j_velocity'
    np.savetxt(tmp_path / 'run.csv', rows, delimiter=',', header=head, comments='')
    config = CalibrationConfig(
        model=tmp_path / 'rod.xml',
        bags=(BagSelection(path=str(tmp_path / 'run.csv')),),
        parameters=(ParameterConfig(target='joint/j/damping'),),
        output=tmp_path / 'out',
    )
    with pytest.raises(FitError, match='found none for a, whose joint moves by'):
        calibrate(config)
    done = calibrate(config.model_copy(update={'undriven': ('*',)}))
    (damping,) = done.result.parameters
    assert done.result.accepted
    assert damping.low < 0.03 < damping.high
    assert not any('commands' in warning for warning in done.result.warnings)
    # Only the number is new: the robot still has its servo.
    assert done.mjcf_path is not None
    written = mujoco.MjModel.from_xml_path(str(done.mjcf_path))
    assert (written.opt.disableactuator, written.actuator_group[0]) == (0, 0)


def test_only_what_segments_leave_has_to_follow() -> None:
    # The motors are off but for the end.
    on = 0.9 * TIMES[-1] < TIMES
    bag = Columns().bag(
        states(lift=np.where(on, np.roll(MOVES, 7), 0.7), turn=STILL, pole=STILL),
        commands(lift=MOVES, turn=STILL),
    )
    assert 'No joint follows its commands' in complaint(bag)
    model = mujoco.MjModel.from_xml_string(ARM.format(SERVOS))
    mapping = map_columns(bag, model, 'auto')
    segments = SegmentsConfig(without=((0.0, float(TIMES[~on][-1])),))
    kept = kept_columns(
        bag, align(bag, model, mapping, 'auto', segments=segments), 'auto', segments
    )
    check_driven(kept, model, mapping)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is said about a bag without a fit."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from sysid_ros.alignment.inspection import (
    Inspection,
    Joint,
    Trace,
    bag_joints,
    clipped,
    draw_joint,
    inspect,
    quantisation_step,
)
from sysid_ros.vocabulary import Quantity

TIMES = np.arange(0, 4, 0.01)


def _kinds(found: Inspection) -> set[tuple[str, str]]:
    return {(item.subject, item.kind) for item in found.findings}


def test_a_bag_is_described_without_a_model(columns: Any):
    found = inspect(columns.bag(columns.state(TIMES), columns.array(TIMES[::2])))
    assert found.mapping is None
    assert [joint.name for joint in found.joints] == ['wrist', 'shoulder', 'elbow']
    assert found.joints[1].low == 0
    assert found.joints[1].high == pytest.approx(3.99)
    rates = {topic.topic: topic.rate for topic in found.topics}
    assert rates == pytest.approx({'/joint_states': 100, '/controller/commands': 50})
    assert found.bag.duration == pytest.approx(3.99)
    assert found.bag.messages == 600


def test_what_the_recorder_noted_is_read(columns: Any):
    bag = columns.bag(columns.state(TIMES))
    facts = {'dropped': '{"/a": 3, "/b": 0}', 'lost': 'nonsense', 'notes': 'left arm'}
    found = inspect(dataclasses.replace(bag, facts=facts)).bag
    assert found.facts['notes'] == 'left arm'
    assert found.dropped == {'/a': 3}
    assert found.lost == {}


def test_joints_of_a_model_bring_their_commands_and_units(columns: Any, arm: Any):
    bag = columns.bag(columns.state(TIMES), columns.array(TIMES))
    joints = {joint.name: joint for joint in bag_joints(bag, arm).joints}
    assert list(joints) == ['shoulder', 'elbow', 'wrist']
    command = joints['wrist'].command()
    assert command is not None
    assert (command.quantity, command.unit) == ('velocity', 'rad/s')
    assert command.channel.startswith('/controller/commands')


def test_a_model_that_does_not_fit_is_told_and_the_rest_is_shown(columns: Any, hinges: Any):
    found = inspect(columns.bag(columns.state(TIMES)), hinges(['left', 'right']))
    assert found.mapping is not None
    assert found.mapping.problem.startswith('No joint name in common')
    assert len(found.joints) == 3


def test_gaps_missing_values_dead_channels_and_absent_fields_are_found(columns: Any):
    times = np.concatenate([TIMES[:100], TIMES[200:]])
    moving = np.sin(times)
    holes = np.where(np.arange(len(times)) % 10, moving, np.nan)
    fields = {'position': {'a': moving, 'b': holes, 'c': 0 * moving}}
    found = inspect(columns.bag(columns.topic('/joint_states', times, fields)))
    assert _kinds(found) >= {('/joint_states', 'gap'), ('/joint_states', 'not measured')}
    channels = {item.label: item for item in found.channels}
    assert channels['c'].dead
    assert not channels['a'].dead
    assert channels['b'].missing == 30
    assert {item.kind for item in found.findings if item.subject == channels['b'].channel} == {
        'missing values'
    }
    (topic,) = found.topics
    assert (topic.gaps, topic.longest_gap) == (1, pytest.approx(1.01))


def test_efforts_at_a_limit_are_found_but_not_commands(columns: Any):
    effort = np.clip(2 * np.sin(6 * TIMES), -1, 1)
    fields = {'effort': {'elbow': effort}}
    topics = [columns.topic(name, TIMES, fields) for name in ('/joint_states', '/joint_commands')]
    found = [item for item in inspect(columns.bag(*topics)).findings if item.kind == 'clipped']
    assert [item.count for item in found] == [np.count_nonzero(np.abs(effort) == 1)]
    assert found[0].subject.startswith('/joint_states')


def test_topics_that_have_nothing_to_do_with_the_robot_have_no_findings(columns: Any):
    times = np.concatenate([TIMES[:100], TIMES[200:]])
    level = {'level': {'cell': np.sin(times), 'cells': 0 * times + 6}}
    battery = columns.topic('/battery', times, level, msgtype='sensor_msgs/msg/BatteryState')
    found = inspect(columns.bag(battery, _state(columns)))
    assert found.findings == ()
    # What it is like is said all the same.
    assert [item.gaps for item in found.topics] == [1, 0]
    assert [item.dead for item in found.channels[:2]] == [False, True]


def test_joints_without_names_are_found(columns: Any):
    state = columns.topic('/servos', TIMES, {'position': {'0': TIMES, '1': -TIMES}})
    assert ('/servos', 'no names') in _kinds(inspect(columns.bag(state)))
    assert ('/joint_states', 'no names') not in _kinds(inspect(columns.bag(columns.state(TIMES))))


def test_a_topic_that_is_silent_at_an_end_is_found(columns: Any):
    found = inspect(columns.bag(columns.state(TIMES), columns.array(TIMES[150:250])))
    kinds = [item.kind for item in found.findings if item.subject == '/controller/commands']
    assert kinds == ['gap', 'gap']


def test_a_good_bag_has_no_findings(columns: Any):
    assert inspect(columns.bag(_state(columns), columns.array(TIMES))).findings == ()


def _state(columns: Any, sign: float = 1, factor: float = 1, noise: float = 0) -> Any:
    """Return joint states that agree with themselves, or not."""
    random = np.random.default_rng(0)
    names = ('shoulder', 'elbow')
    fields = {
        'position': {name: np.sin(2 * TIMES + k) for k, name in enumerate(names)},
        'velocity': {name: 2 * np.cos(2 * TIMES + k) for k, name in enumerate(names)},
        'effort': {name: np.sin(TIMES + k) for k, name in enumerate(names)},
    }
    fields['velocity']['elbow'] *= sign * factor
    for name in names:
        fields['position'][name] += random.normal(0, noise, len(TIMES))
        fields['velocity'][name] += random.normal(0, 10 * noise, len(TIMES))
    return columns.topic('/joint_states', TIMES, fields)


@pytest.mark.parametrize(
    'change', [{'factor': 180 / np.pi}, {'factor': 0.5}, {'sign': -1, 'noise': 0.01}]
)
def test_a_velocity_that_is_not_the_slope_of_the_position_is_found(
    columns: Any, change: dict[str, float]
):
    found = inspect(columns.bag(_state(columns, **change)))
    assert _kinds(found) == {('/joint_states.velocity[elbow]', 'velocity differs')}


def test_positions_that_are_held_are_found(columns: Any):
    held = np.repeat(np.sin(TIMES[::5]), 5)
    state = columns.topic('/joint_states', TIMES, {'position': {'elbow': held}})
    (finding,) = (
        item for item in inspect(columns.bag(state)).findings if item.kind == 'stale samples'
    )
    assert finding.detail.endswith('changes every 5 messages only, at 20 Hz')
    # A slow joint changes as seldom, but by one step of its encoder.
    step = 0.01
    slow = np.round(np.sin(TIMES / 3) / step) * step
    state = columns.topic('/joint_states', TIMES, {'position': {'elbow': slow}})
    assert 'stale samples' not in {item.kind for item in inspect(columns.bag(state)).findings}


@pytest.mark.parametrize('length', [1, 5])
def test_jumps_to_a_value_and_back_are_found(columns: Any, length: int):
    position = np.sin(TIMES) / 5
    for row in (50, 120, 300):
        position[row : row + length] = 3.0
    state = columns.topic('/joint_states', TIMES, {'position': {'elbow': position}})
    found = [item for item in inspect(columns.bag(state)).findings if item.kind == 'spikes']
    # While it stays at the value nothing changes: three samples or one are the same spike.
    assert [item.count for item in found] == [3]
    assert 'up to 2.97 and back' in found[0].detail


@pytest.mark.slow
def test_a_picture_of_a_long_recording_is_a_small_png():
    times = np.arange(300_000) * 0.001
    trace = Trace(Quantity.POSITION, False, '/t', '/t', 'rad', times, np.sin(times))  # noqa: FBT003
    picture = draw_joint(Joint('a_$b$', (trace,)), 'a_$b$ in run')
    assert picture.startswith(b'\x89PNG')
    assert len(picture) < 300_000


@pytest.mark.parametrize('rate', [50, 200])
def test_a_velocity_that_comes_from_a_filter_is_said_to_be_late(columns: Any, rate: int):
    times = np.arange(0, 30, 1 / rate)
    rates = np.random.default_rng(rate).uniform(0.6, 7.5, 6)
    position = np.round(np.sin(np.outer(times, rates)).sum(axis=1) / 1.5e-3) * 1.5e-3
    late = {'shoulder': 0.16, 'elbow': 0.0, 'wrist': 0.5 / rate}
    velocity = {
        name: np.cos(np.outer(times - delay, rates)) @ rates for name, delay in late.items()
    }
    fields = {'position': dict.fromkeys(late, position), 'velocity': velocity}
    found = inspect(columns.bag(columns.topic('/joint_states', times, fields)))
    (finding,) = (item for item in found.findings if item.kind == 'velocity lag')
    assert finding.subject == '/joint_states.velocity[shoulder]'
    seconds = 1e-3 * float(finding.detail.partition('by ')[2].partition(' ±')[0])
    assert seconds == pytest.approx(0.16, abs=0.003)


FAST = np.arange(0, 20, 0.002)
STEP = 2 * np.pi / 2**14
SEEDS = range(20)


def _motion(seed: int) -> np.ndarray:
    return np.sin(FAST * (1 + seed / 10)) + 0.3 * np.sin(3.3 * FAST)


def test_an_encoders_step_is_found():
    for seed in SEEDS:
        noise = np.random.default_rng(seed).normal(0, 1e-4, len(FAST))
        for values in (_motion(seed), _motion(seed) + noise, np.clip(_motion(seed), -0.9, 0.8)):
            counted = np.round(values / STEP) * STEP + 0.1
            assert quantisation_step(counted) == pytest.approx(STEP, rel=1e-6)
            # As numbers of single precision, too.
            single = counted.astype(np.float32).astype(float)
            assert quantisation_step(single) == pytest.approx(STEP, rel=1e-3)


def test_values_at_a_limit_are_counted():
    for seed in SEEDS:
        noise = np.random.default_rng(seed).normal(0, 0.01, len(FAST))
        values = np.clip(_motion(seed) + noise, -0.8, 0.8)
        at_limit = np.count_nonzero(np.abs(values) == 0.8)
        assert 0.8 * at_limit < clipped(values, np.nan) <= at_limit


def test_turning_points_and_rest_are_no_limits():
    for seed in SEEDS:
        counted = np.round(_motion(seed) / STEP) * STEP
        assert clipped(counted, STEP) == 0
        resting = np.concatenate([np.zeros(2000), np.abs(np.sin(FAST)), np.zeros(2000)])
        assert clipped(np.round(resting / STEP) * STEP, STEP) == 0
        assert clipped(np.zeros(100), np.nan) == 0
        assert clipped(np.empty(0), np.nan) == 0

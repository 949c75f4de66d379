# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Several arms in one bag, and arms that lead others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from sysid_ros.alignment.axes import find_arms, find_leaders, in_namespace
from sysid_ros.alignment.pairing import map_columns
from sysid_ros.alignment.pairs import PairRole
from sysid_ros.alignment.proposal import propose
from sysid_ros.bags import BagColumns
from sysid_ros.errors import AlignmentError

TIMES = np.arange(0, 12, 0.02)
#: A follower lags its leader by so many samples, and by the time constant of its servo.
LATE = 4
JOINTS = ('shoulder', 'elbow')


def _wander(seed: int) -> dict[str, NDArray[np.float64]]:
    """Return positions of two joints that a hand moves."""
    rng = np.random.default_rng(seed)
    rates, phases = rng.uniform(0.6, 4.0, (2, 2, 3)), rng.uniform(0, 6, (2, 2, 3))
    path = 0.2 * np.sin(TIMES[:, None, None] * rates[0] + phases[0]).sum(axis=2)
    return dict(zip(JOINTS, path.T, strict=True))


def _followed(leader: dict[str, NDArray[np.float64]]) -> Any:
    return {
        name: lfilter([0.3], [1, -0.7], np.r_[np.full(LATE, values[0]), values[:-LATE]]) - 0.02
        for name, values in leader.items()
    }


@pytest.fixture
def teleoperated(columns: Any) -> BagColumns:
    """Return a bag of two leaders and their followers, all with the same joint names."""
    topics = []
    for seed, side in enumerate(('left', 'right')):
        lead = _wander(seed)
        topics += [
            columns.topic(f'/robot/arm_{side}_lead/joint_states', TIMES, {'position': lead}),
            columns.topic(
                f'/robot/arm_{side}_follow/joint_states', TIMES, {'position': _followed(lead)}
            ),
        ]
    return columns.bag(*topics)  # type: ignore[no-any-return]


@pytest.mark.slow
def test_a_leader_is_the_command_of_its_follower(teleoperated: BagColumns, arm: Any) -> None:
    leaders = find_leaders(teleoperated)
    assert leaders == {
        f'/robot/arm_{side}_lead/joint_states': f'/robot/arm_{side}_follow/joint_states'
        for side in ('left', 'right')
    }
    left = in_namespace(teleoperated, 'left')
    for found in (propose(left, arm), map_columns(left, arm, 'auto')):
        pairs = {(pair.role, pair.topic) for pair in found.pairs}
        assert pairs == {
            (PairRole.SENSOR, '/robot/arm_left_follow/joint_states'),
            (PairRole.ACTUATOR, '/robot/arm_left_lead/joint_states'),
        }
        assert any('arm_right_follow' in item.name for item in found.unmapped)


@pytest.mark.parametrize(
    ('leader', 'follower', 'leads'),
    [
        ('/master/joint_states', '/puppet/joint_states', True),
        ('/leader/joint_states', '/joint_states', True),
        ('/a/joint_states', '/b/joint_states', False),
        ('/left_lead/joint_states', '/right_follow/joint_states', False),
    ],
)
def test_a_leader_says_so_by_its_name(
    columns: Any, leader: str, follower: str, leads: bool
) -> None:
    moved = {'position': _wander(3)}
    bag = columns.bag(*(columns.topic(name, TIMES, moved) for name in (leader, follower)))
    assert find_leaders(bag) == ({leader: follower} if leads else {})


@pytest.mark.slow
def test_several_arms_need_a_choice_that_is_named(teleoperated: BagColumns, arm: Any) -> None:
    for attempt in (propose, lambda bag, model: map_columns(bag, model, 'auto')):
        with pytest.raises(AlignmentError, match=r'arm_left_follow, arm_right_follow.*--namespace'):
            attempt(teleoperated, arm)
    with pytest.raises(AlignmentError, match=r"namespace 'middle'; .*arm_left_follow"):
        in_namespace(teleoperated, 'middle')
    assert in_namespace(teleoperated, '') is teleoperated
    for name in ('/robot/arm_right_follow', 'right'):
        topics = {topic.topic for topic in in_namespace(teleoperated, name).topics}
        assert topics == {f'/robot/arm_right_{role}/joint_states' for role in ('lead', 'follow')}


@pytest.mark.slow
def test_sides_in_names_are_arms_and_what_has_none_stays(columns: Any, arm: Any) -> None:
    both = {f'{side}_{name}': v for s, side in enumerate('lr') for name, v in _wander(s).items()}
    state = columns.topic('/joint_states', TIMES, {'position': both | {'torso': TIMES}})
    bag = columns.bag(state, columns.topic('/imu', TIMES, {'angular_velocity': {'x': TIMES}}))
    assert [arm.name for arm in find_arms(bag, {})] == ['left', 'right']
    with pytest.raises(AlignmentError, match='left, right'):
        propose(bag, arm)
    right = in_namespace(bag, 'right')
    assert [topic.topic for topic in right.topics] == [topic.topic for topic in bag.topics]
    found = {label for topic in right.topics for field in topic.fields for label in field.labels}
    assert {'r_shoulder', 'r_elbow', 'torso', 'x'} == found
    assert any('l_shoulder, l_elbow' in item.reason for item in right.unread)
    pairs = {pair.name: pair.labels[0] for pair in propose(right, arm).pairs}
    assert set(pairs.values()) <= {'r_shoulder', 'r_elbow', 'torso', 'x'}


def test_a_copy_of_a_topic_is_no_second_arm(columns: Any, arm: Any) -> None:
    position = _wander(5)
    slow = {name: values[::5] for name, values in position.items()}
    bag = columns.bag(
        columns.topic('/joint_states', TIMES, {'position': position}),
        columns.topic('/relay/joint_states', TIMES[::5], {'position': slow}),
    )
    assert [item.topic for item in find_arms(bag, {})] == ['/joint_states']
    found = map_columns(bag, arm, 'auto')
    assert {pair.topic for pair in found.pairs} == {'/joint_states'}

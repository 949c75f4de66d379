# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Actuators for models that have none, by what bags hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from builders.described_robots import make_robot, record
from sysid_ros.alignment import PairRole
from sysid_ros.alignment.pairing import imply_actuators, lacking_quantity
from sysid_ros.alignment.proposal import propose_with_actuators
from sysid_ros.bags import BagColumns, Field, TopicColumns
from sysid_ros.bags.reader import read_bag
from sysid_ros.bags.writer import BagWriter
from sysid_ros.config.schema import ChannelMapping, MappingConfig
from sysid_ros.model.loading import implied_actuators, implied_sentence, load_spec
from sysid_ros.vocabulary import Quantity

ROOT = Path(__file__).parents[2]
FIXED = ROOT / 'test' / 'data' / 'urdf' / 'fixed.urdf'
SERVOS = ['lift_servo', 'roll_servo']


@pytest.fixture(scope='module')
def bag(tmp_path_factory: pytest.TempPathFactory) -> BagColumns:
    """Return what a robot of the URDF with position servos does."""
    rng = np.random.default_rng(1)
    folder = tmp_path_factory.mktemp('robot') / 'bag'
    robot = make_robot(FIXED, rng)
    with BagWriter(folder) as writer:
        record(robot, writer, rng)
    return read_bag(folder)


def _with_commands(bag: BagColumns, topic: str, kind: str, *fields: Field) -> BagColumns:
    """Return the bag with other commands at the same times."""
    command, state = bag.topics
    changed = replace(command, topic=topic, msgtype=kind, header_ns=None, fields=fields)
    return replace(bag, topics=tuple(sorted((changed, state), key=lambda item: item.topic)))


def _values(bag: BagColumns) -> np.ndarray[Any, np.dtype[np.float64]]:
    (field,) = (field for field in bag.topics[0].fields if field.name == 'position')
    return field.values


@pytest.mark.slow
def test_positions_make_servos_and_all_pairs_are_right(bag: BagColumns) -> None:
    spec = load_spec(FIXED)
    found = propose_with_actuators(spec, FIXED, bag)
    assert implied_actuators(spec) == SERVOS
    assert all(pair.confident and (pair.scale, pair.offset) == (1, 0) for pair in found.pairs)
    assert [(p.name, p.labels) for p in found.pairs if p.role is PairRole.ACTUATOR] == [
        ('lift_servo', ('lift',)),
        ('roll_servo', ('roll',)),
    ]
    by_names = load_spec(FIXED)
    imply_actuators(by_names, FIXED, bag)
    assert implied_actuators(by_names) == SERVOS


@pytest.mark.slow
def test_an_array_without_names_is_what_the_joints_follow(bag: BagColumns) -> None:
    data = Field('data', ('0', '1'), _values(bag))
    array = _with_commands(bag, '/arm/commands', 'std_msgs/msg/Float64MultiArray', data)
    assert lacking_quantity(load_spec(FIXED), array) is Quantity.POSITION
    spec = load_spec(FIXED)
    propose_with_actuators(spec, FIXED, array)
    assert implied_actuators(spec) == SERVOS


@pytest.mark.slow
def test_without_commands_measured_efforts_drive_motors(bag: BagColumns) -> None:
    silent = replace(bag, topics=bag.topics[1:])
    assert isinstance(silent.topics[0], TopicColumns)
    assert lacking_quantity(load_spec(FIXED), silent) is None
    spec = load_spec(FIXED)
    found = propose_with_actuators(spec, FIXED, silent)
    assert implied_actuators(spec) == ['lift_motor', 'roll_motor']
    motors = [pair for pair in found.pairs if pair.role is PairRole.ACTUATOR]
    assert [(pair.topic, pair.field) for pair in motors] == [('/joint_states', 'effort')] * 2
    assert not any(pair.name.endswith('_effort') for pair in found.pairs)
    by_names = load_spec(FIXED)
    imply_actuators(by_names, FIXED, silent)
    assert implied_actuators(by_names) == []


def test_a_mapping_makes_the_actuators_that_it_names(bag: BagColumns) -> None:
    spec = load_spec(FIXED)
    channel = ChannelMapping(topic='/joint_states', field='effort', label='roll')
    imply_actuators(spec, FIXED, bag, MappingConfig(actuators={'roll_motor': channel}))
    assert implied_actuators(spec) == ['roll_motor']


@pytest.mark.slow
@pytest.mark.parametrize(
    ('kind', 'quantity', 'expected'),
    [
        ('motor', Quantity.POSITION, ['own', *SERVOS]),
        ('motor', Quantity.EFFORT, ['own']),
        ('servo', Quantity.POSITION, ['own']),
        ('servo', Quantity.EFFORT, ['own']),
    ],
)
def test_servos_stand_beside_motors_that_positions_are_no_commands_for(
    bag: BagColumns, kind: str, quantity: Quantity, expected: list[str]
) -> None:
    field = Field(quantity.value, ('lift', 'roll'), _values(bag))
    told = _with_commands(bag, '/joint_commands', 'sensor_msgs/msg/JointState', field)
    for imply in (imply_actuators, propose_with_actuators):
        spec = load_spec(FIXED)
        own = spec.add_actuator(name='own', target='lift', trntype=mujoco.mjtTrn.mjTRN_JOINT)
        own.set_to_motor() if kind == 'motor' else own.set_to_position(kp=30.0)
        found = imply(spec, FIXED, told)
        assert [actuator.name for actuator in spec.actuators] == expected
    commands = [pair.name for pair in found.pairs if pair.role is PairRole.ACTUATOR]
    taken = (kind, quantity) != ('servo', Quantity.EFFORT)
    assert commands == (expected[1:] or ['own'] * taken)
    assert 'motors only, which stay 0' in implied_sentence(spec) or len(expected) == 1

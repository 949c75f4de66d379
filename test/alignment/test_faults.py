# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What robots and drivers do to recordings, each kind in several ways: it is named."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from builders.messages import joint_state
from sysid_ros.alignment import align
from sysid_ros.alignment.health import FindingKind
from sysid_ros.alignment.inspection import inspect
from sysid_ros.alignment.pairing import map_columns
from sysid_ros.alignment.pairs import PairRole, model_values
from sysid_ros.alignment.proposal import propose
from sysid_ros.alignment.turns import going_on, unwrapped
from sysid_ros.bags import BagColumns, TopicColumns
from sysid_ros.bags.message_types import labels_for
from sysid_ros.bags.reader import read_bag
from sysid_ros.bags.writer import BagWriter
from sysid_ros.errors import AlignmentError

TURN = 2 * math.pi
TIMES = np.arange(0, 20, 0.01)
#: Two and a half turns there and back.
ROUND = 8 * np.sin(0.4 * TIMES)
SWING = 0.8 * np.sin(2 * TIMES) + 0.3 * np.sin(5.1 * TIMES)

ONE = """
<mujoco>
  <compiler angle="radian"/>
  <worldbody><body>
    <joint name="pan" axis="0 0 1" armature="1" {limits}/><geom size=".1" mass="1" pos=".2 0 0"/>
  </body></worldbody>
  <actuator><position name="servo" joint="pan" kp="50"/></actuator>
  <sensor><jointpos name="position" joint="pan"/><jointvel name="velocity" joint="pan"/></sensor>
</mujoco>
"""


def one(limits: str = '') -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(ONE.format(limits=limits))


def kinds(found: Any) -> dict[str, int]:
    return {item.kind: item.count for item in found}


def lagging(values: NDArray[np.float64], samples: int = 5) -> NDArray[np.float64]:
    return np.interp(np.arange(len(values)) - samples, np.arange(len(values)), values)


def servo(columns: Any, position: NDArray[np.float64], command: NDArray[np.float64]) -> BagColumns:
    return columns.bag(
        columns.topic('/joint_states', TIMES, {'position': {'pan': position}}),
        columns.topic('/joint_commands', TIMES, {'position': {'pan': command}}),
    )


def aligned(bag: BagColumns, model: mujoco.MjModel) -> dict[str, NDArray[np.float64]]:
    pairs = map_columns(bag, model, 'auto').pairs
    return {pair.name: model_values(bag, pair) for pair in pairs}


# Positions that wrap


@pytest.mark.parametrize('turn', [TURN, 360.0, 4096.0])
@pytest.mark.parametrize('low', [-0.5, 0.0])
@pytest.mark.parametrize('noise', [0.0, 1e-3])
def test_positions_that_wrap_go_on(turn: float, low: float, noise: float):
    true = turn / TURN * (ROUND + noise * np.random.default_rng(0).normal(size=len(ROUND)))
    found, jumps = going_on((true - low * turn) % turn + low * turn)
    assert jumps >= 4
    np.testing.assert_allclose(found - found[0], true - true[0], atol=1e-9 * turn)


def test_jumps_for_other_reasons_stay():
    spikes = np.where(np.arange(len(TIMES)) % 500 == 250, 6.0, 0.0)
    for values in (
        SWING,
        # Steps by most of a turn, in a motion that is smooth otherwise.
        3 * np.sign(np.sin(TIMES)) + 0.01 * np.sin(TIMES),
        0.1 * SWING + spikes,
        ROUND,
        100 * SWING,
        SWING + 10 * spikes,
    ):
        assert going_on(values)[1] == 0


@pytest.mark.parametrize('measured', ['as it is', 'wraps', 'other zero'])
@pytest.mark.parametrize('asked', ['as it is', 'wraps', 'other zero'])
def test_commands_are_in_the_turn_of_their_joint(columns: Any, measured: str, asked: str):
    ways = {
        'as it is': lambda values: values,
        'wraps': lambda values: (values + math.pi) % TURN - math.pi,
        'other zero': lambda values: values % TURN,
    }
    bag = unwrapped(servo(columns, ways[measured](lagging(ROUND)), ways[asked](ROUND)))
    mapping = map_columns(bag, one(), 'auto')
    values = aligned(bag, one())
    assert np.abs(values['position'] - values['servo']).max() < 0.3
    said = kinds(mapping.health).get(FindingKind.WRAPS, 0)
    assert bool(said) == ((measured, asked) != ('as it is', 'as it is'))
    # Without a model, too.
    assert (FindingKind.WRAPS in kinds(inspect(bag).findings)) == bool(said)


def test_a_joint_that_goes_back_the_long_way_is_told_so(columns: Any):
    # The command jumps from one end to the other, and the joint goes all the way back.
    ramp = (0.5 * TIMES + math.pi) % TURN - math.pi
    moved = np.copy(ramp)
    for row in range(1, len(moved)):
        moved[row] = moved[row - 1] + 0.02 * (ramp[row] - moved[row - 1])
    bag = unwrapped(servo(columns, moved, ramp))
    assert not any(field.turns for topic in bag.topics for field in topic.fields)


def test_a_position_a_turn_away_from_its_range_is_brought_back(columns: Any):
    bag = unwrapped(servo(columns, lagging(SWING) % TURN, SWING))
    model = one('limited="true" range="-2 2"')
    values = aligned(bag, model)
    assert np.abs(values['position'] - values['servo']).max() < 0.3
    assert np.abs(values['servo']).max() < 1.2


# Commands that no joint could follow


@pytest.mark.parametrize('wild', [1e3, -40.0, 2.146e9, 1e300])
@pytest.mark.parametrize('rows', [slice(900, 901), slice(0, 300), slice(700, 1500)])
def test_wild_commands_are_named_and_left_out(columns: Any, wild: float, rows: slice):
    command = SWING.copy()
    command[rows] = wild
    bag = servo(columns, lagging(SWING), command)
    mapping = map_columns(bag, one(), 'auto')
    (finding,) = [item for item in mapping.health if item.kind is FindingKind.WILD_COMMAND]
    assert finding.count == rows.stop - rows.start
    assert f'{wild:.4g}' in finding.detail
    begin, end = finding.spans[0]
    assert (begin, end) == (TIMES[rows.start], pytest.approx(TIMES[rows.stop - 1]))
    sequences = align(bag, one(), mapping, 'auto').sequences
    assert all(np.abs(each.commands[0].data).max() < 2 for each in sequences)


def test_commands_that_a_joint_can_follow_stay(columns: Any):
    command = SWING + 5 * (TIMES > 10)  # far, and a single step
    mapping = map_columns(servo(columns, lagging(SWING), command), one(), 'auto')
    assert FindingKind.WILD_COMMAND not in kinds(mapping.health)


def test_commands_that_are_all_wild_are_an_error(columns: Any):
    bag = servo(columns, lagging(SWING), 1e4 + SWING)
    with pytest.raises(AlignmentError, match=r'Expected commands that a joint can follow.*found 1'):
        map_columns(bag, one(), 'auto')


# Several nodes on one topic


def interleaved(*patterns: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack(patterns, axis=1).ravel()


@pytest.mark.parametrize('same_stamps', [True, False])
@pytest.mark.parametrize('ratio', [1, 2])
def test_two_nodes_that_contradict_each_other_are_named(
    columns: Any, same_stamps: bool, ratio: int
):
    # The first says what is, `ratio` times for each time that the second says zero.
    here = np.arange(len(TIMES)) % (ratio + 1) < ratio
    stamps = np.repeat(TIMES[::2], 2) if same_stamps else TIMES
    values = np.where(here, SWING + 1, 0.0)
    state = columns.topic('/joint_states', TIMES, {'position': {'pan': values}})
    state = dataclasses.replace(
        state, header_ns=columns.start + np.round(stamps * 1e9).astype(np.int64)
    )
    findings = inspect(columns.bag(state)).findings
    (found,) = [item for item in findings if item.kind is FindingKind.TWO_SOURCES]
    assert found.subject == '/joint_states.position[pan]'


def test_one_node_is_not_taken_for_two(columns: Any):
    generator = np.random.default_rng(0)
    for values in (
        SWING,
        SWING + 0.01 * generator.normal(size=len(TIMES)),
        0.001 * generator.normal(size=len(TIMES)),
        np.round(SWING, 2),
        np.arange(len(TIMES)) % 2 * 0.001,  # an encoder that flickers
        np.sign(np.sin(9 * TIMES)),
    ):
        state = columns.topic('/joint_states', TIMES, {'position': {'pan': values}})
        assert FindingKind.TWO_SOURCES not in kinds(inspect(columns.bag(state)).findings)


@pytest.mark.parametrize('shift', [0.0, 1e-6, 0.004])
def test_nodes_that_publish_some_of_the_joints_each_lack_nothing(
    columns: Any, arm: Any, shift: float
):
    owner = np.arange(2 * len(TIMES)) % 2
    stamps = np.repeat(TIMES, 2) + shift * owner
    swing = np.repeat(SWING, 2)
    position = {
        'shoulder': np.where(owner == 0, swing, np.nan),
        'elbow': np.where(owner == 1, -swing, np.nan),
        'wrist': np.where(owner == 1, swing / 2, np.nan),
    }
    bag = columns.bag(columns.topic('/joint_states', stamps, {'position': position}))
    bad = {'missing values', 'jitter', 'reordered stamp', 'two sources', 'gap'}
    assert not bad & kinds(inspect(bag, arm).findings).keys()
    alignment = align(bag, arm, map_columns(bag, arm, 'auto'), 'auto')
    assert not bad & kinds(alignment.health).keys()
    # What is not there for another reason is missing.
    position['wrist'][101] = np.nan
    bag = columns.bag(columns.topic('/joint_states', stamps, {'position': position}))
    assert 'missing values' in kinds(inspect(bag, arm).findings)


# Arrays that have not a value per name


@pytest.mark.parametrize(('names', 'width'), [(('a', 'b'), 1), (('a',), 3), (('a', 'b', 'c'), 2)])
def test_values_that_are_not_as_many_as_names_get_no_name(names: tuple[str, ...], width: int):
    assert labels_for(names, width) == tuple(map(str, range(width)))
    assert labels_for(names, len(names)) == names


@pytest.mark.parametrize('values', [{'effort': 1}, {'velocity': 3}, {'position': 1, 'effort': 3}])
def test_arrays_unlike_their_names_are_a_fault(tmp_path: Any, values: dict[str, int], one_bag: Any):
    sizes = {'position': 2, 'velocity': 2, 'effort': 2} | values
    bag = read_bag(one_bag(tmp_path, sizes))
    (finding,) = [i for i in inspect(bag).findings if i.kind is FindingKind.ARRAY_SIZE]
    assert finding.count == 50
    assert finding.detail.startswith(' and '.join(q for q in sizes if q in values))
    fields = {field.name: field.labels for field in bag.topics[0].fields}
    assert {name: labels[0].isdigit() for name, labels in fields.items()} == {
        name: name in values for name in fields
    }


@pytest.fixture
def one_bag() -> Any:
    def make(folder: Any, sizes: dict[str, int]) -> Any:
        path = folder / 'bag'
        with BagWriter(path) as writer:
            writer.add_topic('/joint_states', 'sensor_msgs/msg/JointState')
            for row in range(50):
                stamp = 1_700_000_000_000_000_000 + row * 10_000_000
                fields = {name: [row / 10 + k for k in range(n)] for name, n in sizes.items()}
                writer.write(
                    '/joint_states', stamp, joint_state(stamp, ['left', 'right'], **fields)
                )
        return path

    return make


# Names of actuators, tendons and structures

TENDON = """
<mujoco>
  <worldbody>
    <body><joint name="f1" type="slide" axis="0 1 0"/><geom size=".01" mass=".1"/></body>
    <body><joint name="f2" type="slide" axis="0 1 0"/><geom size=".01" mass=".1"/></body>
  </worldbody>
  <tendon><fixed name="split"><joint joint="f1" coef=".5"/><joint joint="f2" coef=".5"/></fixed>
  </tendon>
  <actuator><position name="gripper" tendon="split" kp="50"/></actuator>
  <sensor><jointpos name="p1" joint="f1"/><jointpos name="p2" joint="f2"/></sensor>
</mujoco>
"""


@pytest.mark.parametrize('label', ['gripper', 'split'])
def test_a_command_may_have_the_name_of_an_actuator_or_its_tendon(columns: Any, label: str):
    model = mujoco.MjModel.from_xml_string(TENDON)
    fingers = {'f1': SWING / 100, 'f2': SWING / 100}
    bag = columns.bag(
        columns.topic('/joint_states', TIMES, {'position': fingers}),
        columns.topic('/joint_commands', TIMES, {'position': {label: SWING / 100}}),
    )
    pairs = [
        pair for pair in map_columns(bag, model, 'auto').pairs if pair.role.value == 'actuator'
    ]
    assert [(pair.name, pair.label) for pair in pairs] == [('gripper', label)]
    proposed = [pair for pair in propose(bag, model).pairs if pair.role is PairRole.ACTUATOR]
    assert [(pair.name, pair.labels, pair.confident) for pair in proposed] == [
        ('gripper', (label,), True)
    ]


def test_who_moves_a_joint_with_others_is_said_with_the_line_to_write(columns: Any):
    model = mujoco.MjModel.from_xml_string(TENDON)
    bag = columns.bag(
        columns.topic('/joint_states', TIMES, {'position': {'f1': SWING, 'f2': SWING}}),
        columns.topic('/joint_commands', TIMES, {'position': {'f1': SWING}}),
    )
    for unmapped in (map_columns(bag, model, 'auto').unmapped, propose(bag, model).unmapped):
        (reason,) = [item.reason for item in unmapped if item.name == '/joint_commands']
        assert "'gripper' does so by tendon 'split'" in reason
        assert 'gripper: {topic: /joint_commands, field: position, label: f1}' in reason


def test_joints_are_found_in_arrays_of_structures(columns: Any, arm: Any):
    rates = {'shoulder': 2.0, 'elbow': 3.1, 'wrist': 4.7}
    swings = [np.sin(rate * TIMES) for rate in rates.values()]
    state = {
        f'motor_state[{k}]': {'mode': 1.0, 'q': swing, 'temperature': 30 + k}
        for k, swing in enumerate(swings)
    }
    command = {
        f'motor_cmd[{k}]': {'q': np.where(TIMES < 2, 2.146e9, swing), 'kp': 40.0}
        for k, swing in enumerate(swings)
    }
    bag = columns.bag(
        columns.topic('/lowstate', TIMES, state, msgtype='quad_msgs/msg/LowState'),
        columns.topic('/lowcmd', TIMES, command, msgtype='quad_msgs/msg/LowCmd'),
    )
    found = {pair.name: (pair.topic, pair.field, pair.labels) for pair in propose(bag, arm).pairs}
    assert found['s0'] == ('/lowstate', 'motor_state[0]', ('q',))
    assert found['s1'] == ('/lowstate', 'motor_state[1]', ('q',))
    assert found['drive_e'] == ('/lowcmd', 'motor_cmd[1]', ('q',))


# Mimic joints

MIMIC = """
<mujoco>
  <worldbody>
    <body><joint name="knuckle" axis="0 0 1"/><geom size=".01" mass=".1" pos=".1 0 0"/></body>
    <body><joint name="tip" axis="0 0 1"/><geom size=".01" mass=".1" pos=".1 0 0"/></body>
  </worldbody>
  <equality><joint joint1="tip" joint2="knuckle" polycoef=".2 -1.5 0 0 0"/></equality>
  <sensor><jointpos name="p" joint="knuckle"/><jointpos name="q" joint="tip"/></sensor>
</mujoco>
"""


@pytest.mark.parametrize('kind', [np.float64, np.float32])
def test_values_of_a_mimic_joint_that_were_computed_measure_nothing(columns: Any, kind: Any):
    model = mujoco.MjModel.from_xml_string(MIMIC)
    computed = (0.2 - 1.5 * SWING).astype(kind).astype(float)
    measured = computed + 1e-4 * np.random.default_rng(0).normal(size=len(TIMES))
    for tip, used in ((computed, ['p']), (measured, ['p', 'q'])):
        fields = {'position': {'knuckle': SWING, 'tip': tip}}
        bag = columns.bag(columns.topic('/joint_states', TIMES, fields))
        mapping = map_columns(bag, model, 'auto')
        assert [pair.name for pair in mapping.pairs] == used
        assert [pair.name for pair in propose(bag, model).pairs] == used
        assert (FindingKind.MIMIC in kinds(mapping.health)) == (len(used) == 1)
    # Nothing stands in for a joint that is not measured: its start follows from its leader's.
    bag = columns.bag(columns.topic('/joint_states', TIMES, {'position': {'knuckle': SWING}}))
    assert [pair.name for pair in propose(bag, model).pairs] == ['p']


# Clocks


def jumping(
    columns: Any, header: NDArray[np.float64], received: NDArray[np.float64]
) -> tuple[TopicColumns, str]:
    state = columns.topic('/js', TIMES, {'position': {'pan': SWING}})
    start = columns.start
    state = dataclasses.replace(
        state,
        header_ns=np.round(header * 1e9).astype(np.int64),
        receive_ns=start + np.round(received * 1e9).astype(np.int64),
    )
    details = [
        item.detail
        for item in inspect(columns.bag(state)).findings
        if item.kind is FindingKind.CLOCK_JUMP
    ]
    return state, details[0] if details else ''


@pytest.mark.parametrize('size', [0.2, -3.0, 86400.0, -86400.0])
def test_a_clock_that_jumps_is_named(columns: Any, size: float):
    day = columns.start / 1e9
    after = size * (TIMES >= 10)
    _, said = jumping(columns, day + TIMES + after, TIMES + 0.001)
    assert said.startswith(f'the clock of its header stamps jumps by {size:+.3f} s at 10.0 s')
    if size > 0:
        _, said = jumping(columns, day + TIMES, TIMES + after + 0.001)
        assert said.startswith(f"the recorder's clock jumps by {size:+.3f} s")


@pytest.mark.parametrize(('unit', 'counts'), [('ns', 1e9), ('µs', 1e6), ('ms', 1e3)])
def test_a_clock_of_32_bits_that_wraps_is_named(columns: Any, unit: str, counts: float):
    wrap = 2**32 / counts
    _, said = jumping(columns, (wrap - 10 + TIMES) % wrap + 1e-3, TIMES + 0.001)
    assert f'wraps after {wrap:.3f} s, as 32 bits of {unit} do' in said


def test_a_clock_that_starts_anew_is_named(columns: Any):
    _, said = jumping(columns, np.where(TIMES < 10, 500 + TIMES, TIMES - 9), TIMES + 0.001)
    assert said.startswith('the clock of its header stamps starts anew at 1.000 s, 509.000 s back')

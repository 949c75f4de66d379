# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Columns of messages are what rosbags makes of the same bytes, bit by bit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from builders import messages
from sysid_ros.bags import TopicColumns
from sysid_ros.bags.cdr import Batch, CdrError, find_layout, message_type
from sysid_ros.bags.reader import TopicReader

MIXED = """
std_msgs/Header header
bool flag
uint8 small
string name
float64 wide
int16[3] fixed
float32[] short_numbers
test_msgs/Inner inner
test_msgs/Inner[] several
string[] words
bool[2] flags
float64[] numbers
char letter
uint64 big
test_msgs/Inner[2] pair
int8 last
================================================================================
MSG: test_msgs/Inner
uint8 kind
float64[] values
string label
geometry_msgs/Vector3 force
int64 count
================================================================================
MSG: geometry_msgs/Vector3
float64 x
float64 y
float64 z
================================================================================
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
================================================================================
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
"""
DYNAMIC = """
std_msgs/Header header
string[] joint_names
control_msgs/InterfaceValue[] interface_values
================================================================================
MSG: control_msgs/InterfaceValue
string[] interface_names
float64[] values
"""
CONTROLLER = """
std_msgs/Header header
string[] joint_names
trajectory_msgs/JointTrajectoryPoint reference
trajectory_msgs/JointTrajectoryPoint feedback
"""

#: Type to the definition that a bag embeds; the others are ROS 2's own.
DEFINITIONS = {
    'test_msgs/msg/Mixed': MIXED,
    'control_msgs/msg/DynamicJointState': DYNAMIC,
    'control_msgs/msg/JointTrajectoryControllerState': CONTROLLER,
}
OWN = (
    'nav_msgs/msg/Odometry',
    'sensor_msgs/msg/Imu',
    'geometry_msgs/msg/WrenchStamped',
    'geometry_msgs/msg/PoseStamped',
    'geometry_msgs/msg/TwistStamped',
    'sensor_msgs/msg/BatteryState',
    'sensor_msgs/msg/MultiDOFJointState',
    'trajectory_msgs/msg/MultiDOFJointTrajectory',
    'std_msgs/msg/Bool',
    'std_msgs/msg/UInt64',
    'std_msgs/msg/Empty',
)
_RANGES = {
    f'{sign}int{bits}': (0 if sign else -(2 ** (bits - 1)), 2 ** (bits - (not sign)) - 1)
    for sign in ('', 'u')
    for bits in (8, 16, 32, 64)
} | {'byte': (-128, 127), 'char': (0, 255)}
_NUMPY = {'bool': 'bool', 'char': 'uint8', 'byte': 'int8'}


def decode(
    topic: str,
    msgtype: str,
    receive_ns: Sequence[int],
    messages: Sequence[bytes],
    definition: str = '',
) -> TopicColumns:
    """Turn messages into columns."""
    reader = TopicReader(topic, msgtype)
    reader.add(Batch.of(receive_ns, messages), definition, 'ros2msg')
    return reader.finish()


def _store(msgtype: str) -> Typestore:
    store = get_typestore(Stores.ROS2_JAZZY)
    if msgtype in DEFINITIONS:
        types = get_types_from_msg(DEFINITIONS[msgtype], msgtype)
        store.register({name: types[name] for name in types if name not in store.fielddefs})
    return store


STORES = {msgtype: _store(msgtype) for msgtype in (*DEFINITIONS, *OWN)}


def _number(name: str) -> st.SearchStrategy[Any]:
    if name == 'bool':
        return st.booleans()
    if name.startswith('float'):
        return st.floats(width=32 if name == 'float32' else 64)
    return st.integers(*_RANGES[name])


def _text() -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_characters='\0', exclude_categories=['Cs']), max_size=5)


def _value(draw: st.DrawFn, store: Typestore, kind: Nodetype, detail: Any) -> Any:
    if kind == Nodetype.NAME:
        members = store.fielddefs[detail][1]
        return store.types[detail](*(_value(draw, store, *member) for _, member in members))
    if kind == Nodetype.BASE:
        return draw(_text() if detail[0] == 'string' else _number(detail[0]))
    (inner_kind, inner), size = detail
    count = size if kind == Nodetype.ARRAY else draw(st.integers(0, 3))
    values = [_value(draw, store, inner_kind, inner) for _ in range(count)]
    if inner_kind == Nodetype.BASE and inner[0] != 'string':
        return np.array(values, dtype=_NUMPY.get(inner[0], inner[0]))
    return values


@st.composite
def serialised(draw: st.DrawFn, msgtype: str) -> list[bytes]:
    """Return serialised messages: some repeated with other numbers, in any byte order, padded."""
    store = STORES[msgtype]
    found = []
    for _ in range(draw(st.integers(1, 4))):
        message = _value(draw, store, Nodetype.NAME, msgtype)
        little = draw(st.booleans())
        data = bytes(store.serialize_cdr(message, msgtype, little_endian=little))
        padding = draw(st.binary(max_size=3))
        found += [data + padding] * draw(st.integers(1, 3))
    return draw(st.permutations(found))


def _leaves(message: Any, path: str = '') -> Iterator[tuple[str, str, Any]]:
    """Yield field, label and value of every number, as the documentation of Field has it."""
    for name, value in vars(message).items():
        place = f'{path}.{name}' if path else name
        if place == 'header' and type(value).__name__.endswith('Header'):
            continue
        if name.isupper() or name == 'structure_needs_at_least_one_member':  # constants, nothing
            continue
        if hasattr(value, '__msgtype__'):
            yield from _leaves(value, place)
        elif isinstance(value, np.ndarray):
            yield from ((place, str(index), item) for index, item in enumerate(value))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if hasattr(item, '__msgtype__'):
                    yield from _leaves(item, f'{place}[{index}]')
        elif not isinstance(value, str):
            yield (path, name, value) if path else (name, '', value)


def _assert_equal(columns: TopicColumns, expected: list[dict[tuple[str, str], Any]]) -> None:
    found = {
        (f.name, label): f.values[:, k] for f in columns.fields for k, label in enumerate(f.labels)
    }
    assert set(found) == {key for row in expected for key in row}
    for key, values in found.items():
        wanted = np.array([float(row.get(key, np.nan)) for row in expected])
        # Every NaN counts as the same: float32 and float64 keep different bits of it.
        np.testing.assert_array_equal(values, wanted)
        np.testing.assert_array_equal(
            np.signbit(values[values == 0]), np.signbit(wanted[wanted == 0])
        )


def _check(msgtype: str, data: list[bytes]) -> None:
    store = STORES[msgtype]
    parsed: list[Any] = [store.deserialize_cdr(item, msgtype) for item in data]
    columns = decode('/t', msgtype, range(len(data)), data, DEFINITIONS.get(msgtype, ''))
    assert columns.receive_ns.tolist() == list(range(len(data)))
    if hasattr(parsed[0], 'header'):
        assert columns.header_ns is not None
        stamps = [item.header.stamp for item in parsed]
        assert columns.header_ns.tolist() == [t.sec * 10**9 + t.nanosec for t in stamps]
    else:
        assert columns.header_ns is None
    # How good values are is no column.
    kept = [[leaf for leaf in _leaves(item) if 'covariance' not in leaf[0]] for item in parsed]
    _assert_equal(columns, [{(f, k): v for f, k, v in leaves} for leaves in kept])


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True)
@given(serialised('test_msgs/msg/Mixed'))
def test_columns_of_any_definition_are_equal_to_rosbags(data: list[bytes]):
    _check('test_msgs/msg/Mixed', data)


@pytest.mark.slow
@pytest.mark.parametrize('msgtype', OWN)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(data=st.data())
def test_columns_of_common_types_are_equal_to_rosbags(msgtype: str, data: st.DataObject):
    _check(msgtype, data.draw(serialised(msgtype)))


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True)
@given(serialised('test_msgs/msg/Mixed'), st.data())
def test_damaged_messages_are_an_error_or_columns(data: list[bytes], random: st.DataObject):
    damaged = []
    for item in data:
        content = bytearray(item[: random.draw(st.integers(0, len(item)))])
        for position in random.draw(st.lists(st.integers(0, max(len(content) - 1, 0)), max_size=3)):
            content[position : position + 1] = random.draw(st.binary(min_size=1, max_size=1))
        damaged.append(bytes(content))
    with contextlib.suppress(CdrError):
        columns = decode('/t', 'test_msgs/msg/Mixed', range(len(damaged)), damaged, MIXED)
        assert len(columns.receive_ns) == len(damaged)


def _names(store: Typestore, stamp: int) -> Any:
    time = store.types['builtin_interfaces/msg/Time'](sec=stamp, nanosec=0)
    return store.types['std_msgs/msg/Header'](stamp=time, frame_id='')


def test_interfaces_of_dynamic_joint_states_are_fields_by_joint():
    msgtype = 'control_msgs/msg/DynamicJointState'
    store = STORES[msgtype]
    interface = store.types['control_msgs/msg/InterfaceValue']
    data = []
    for k, joints in enumerate((['a', 'b'], ['b', 'a'])):
        values = [
            interface(['position', 'temperature'], np.array([k, 30.0])),
            interface(['position'], np.array([k + 0.5])),
        ]
        message = store.types[msgtype](_names(store, k), joints, values)
        data.append(bytes(store.serialize_cdr(message, msgtype)))
    columns = decode('/d', msgtype, [0, 1], data, DYNAMIC)
    position, temperature = columns.fields
    assert (position.name, position.labels) == ('position', ('a', 'b'))
    np.testing.assert_array_equal(position.values, [[0, 0.5], [1.5, 1]])
    assert (temperature.name, temperature.labels) == ('temperature', ('a', 'b'))
    np.testing.assert_array_equal(temperature.values, [[30, np.nan], [np.nan, 30]])


def test_controller_states_are_labelled_by_joint():
    msgtype = 'control_msgs/msg/JointTrajectoryControllerState'
    store = STORES[msgtype]
    none = np.array([])
    span = store.types['builtin_interfaces/msg/Duration'](sec=1, nanosec=2)
    point = store.types['trajectory_msgs/msg/JointTrajectoryPoint']
    points = [point(np.array([1.0, k]), none, none, none, span) for k in (2, 3)]
    message = store.types[msgtype](_names(store, 5), ['hip', 'knee'], *points)
    columns = decode('/s', msgtype, [0], [bytes(store.serialize_cdr(message, msgtype))], CONTROLLER)
    found = {field.name: (field.labels, field.values[0].tolist()) for field in columns.fields}
    assert found['reference.positions'] == (('hip', 'knee'), [1, 2])
    assert found['feedback.positions'] == (('hip', 'knee'), [1, 3])
    assert found['feedback.time_from_start'] == (('sec', 'nanosec'), [1, 2])
    interpolated = {field.name for field in columns.fields if field.interpolated}
    assert interpolated == {'reference.positions', 'reference.time_from_start'}


def test_transforms_are_fields_by_child_frame():
    store = get_typestore(Stores.ROS2_JAZZY)
    msgtype = 'tf2_msgs/msg/TFMessage'
    vector, turn, transform, stamped, tf = (
        store.types[name]
        for name in (
            *(f'geometry_msgs/msg/{name}' for name in ('Vector3', 'Quaternion', 'Transform')),
            'geometry_msgs/msg/TransformStamped',
            msgtype,
        )
    )

    def message(*frames: tuple[str, float]) -> bytes:
        items = [
            stamped(
                _names(store, 1), frame, transform(vector(x, 0.0, 0.0), turn(0.0, 0.0, 0.0, 1.0))
            )
            for frame, x in frames
        ]
        return bytes(store.serialize_cdr(tf(items), msgtype))

    data = [message(('tool', 1.0)), message(('base', 2.0), ('tool', 3.0)), message(('base', 4.0))]
    columns = decode('/tf', msgtype, [0, 1, 2], data)
    found = {field.name: field.values[:, 0] for field in columns.fields}
    np.testing.assert_array_equal(found['tool.translation'], [1, 3, np.nan])
    np.testing.assert_array_equal(found['base.translation'], [np.nan, 2, 4])


@pytest.mark.parametrize(
    ('msgtype', 'members', 'words'),
    [
        ('CompressedImage', ('jpeg', np.zeros(5000, np.uint8)), 'data has 5000 elements'),
        (
            'LaserScan',
            (*[0.0] * 7, np.zeros(1000, np.float32), np.zeros(0, np.float32)),
            'ranges has 1000 elements',
        ),
    ],
)
def test_images_and_scans_are_no_columns(msgtype: str, members: tuple[Any, ...], words: str):
    store, msgtype = get_typestore(Stores.ROS2_JAZZY), f'sensor_msgs/msg/{msgtype}'
    message = store.types[msgtype](_names(store, 0), *members)
    with pytest.raises(CdrError, match=words):
        decode('/c', msgtype, [0], [bytes(store.serialize_cdr(message, msgtype))])


@pytest.mark.parametrize(
    ('msgtype', 'text', 'words'),
    [
        ('my_msgs/msg/Unknown', '', "no readable definition of message type 'my_msgs/msg/Unknown'"),
        ('my_msgs/msg/Part', 'my_msgs/Lost x', "'my_msgs/msg/Lost' .in 'my_msgs/msg/Part'"),
        ('rcl_interfaces/msg/Log', '', 'log messages are texts'),
    ],
)
def test_types_without_columns_say_why(msgtype: str, text: str, words: str):
    with pytest.raises(CdrError, match=words):
        decode('/x', msgtype, [0], [b'\0\1\0\0' + bytes(16)], text)


def test_the_padding_that_empty_sequences_are_counted_with_is_left_alone() -> None:
    data = messages.joint_state(0, ['elbow'], [0.5]) + b'\x48\x01\x01\x2b\xf0\x00\x48\x01'
    (field,) = decode('/js', 'sensor_msgs/msg/JointState', [0, 1], [data, data]).fields
    assert field.values.tolist() == [[0.5], [0.5]]


def _nested(depth: int, members: int, leaf: str) -> str:
    """Return a definition of types inside types, each with so many members of the next."""
    inside = '\n'.join(f'p/T1 f{place}' for place in range(members))
    parts = [inside]
    for level in range(1, depth):
        named = '\n'.join(f'p/T{level + 1} f{place}' for place in range(members))
        parts.append(f'MSG: p/T{level}\n{named}')
    separator = '\n' + '=' * 80 + '\n'
    return separator.join([*parts, f'MSG: p/T{depth}\n{leaf}'])


@pytest.mark.parametrize(
    ('definition', 'complaint'),
    [
        (_nested(3000, 1, 'float64 x'), 'is nested without end'),
        (_nested(40, 2, 'float64[0] x'), 'more than 65536 parts'),
        (_nested(1, 1, 'p/T0 x'), 'nested without end'),
        ('p/T1[1000000000] x\n' + '=' * 80 + '\nMSG: p/T1\nfloat64[0] y', 'more than 65536'),
        ('float64[1000000000] x', 'has 1000000000 elements, which are data'),
    ],
    ids=['deep', 'doubling', 'itself', 'many of nothing', 'many'],
)
def test_definitions_without_end_are_told_and_not_walked_through(definition: str, complaint: str):
    with pytest.raises(CdrError, match=complaint):
        find_layout(
            message_type('p/msg/T0', definition, 'ros2msg'),
            b'\0\1\0\0' + bytes(64),
            texts_matter=True,
        )

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Bags of every storage and compression, whole, killed or damaged, as columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from mcap.reader import make_reader
from mcap.writer import CompressionType, IndexType
from mcap.writer import Writer as McapWriter
from rosbags.rosbag1 import Writer as Ros1Writer
from rosbags.rosbag2 import CompressionFormat, CompressionMode, Reader, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from builders import messages
from sysid_ros.bags import BagColumns, Field, TopicColumns
from sysid_ros.bags.reader import read_bag
from sysid_ros.bags.writer import BagWriter
from sysid_ros.errors import BagError

STATE = 'sensor_msgs/msg/JointState'
ARRAY = 'std_msgs/msg/Float64MultiArray'
TRAJECTORY = 'trajectory_msgs/msg/JointTrajectory'
TEXT = 'std_msgs/msg/String'
START = 1_700_000_000_000_000_000
MS = 1_000_000


@pytest.fixture
def write_bag(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a bag: (topic, msgtype) to its (receive ns, bytes)."""

    def write(
        content: dict[tuple[str, str], Sequence[tuple[int, bytes]]], *, name: str = 'bag'
    ) -> Path:
        path = tmp_path / name
        with BagWriter(path) as bag:
            for (topic, msgtype), rows in content.items():
                bag.add_topic(topic, msgtype)
                for receive_ns, data in rows:
                    bag.write(topic, receive_ns, data)
        return path

    return write


def _field(columns: TopicColumns, name: str) -> Field:
    return {field.name: field for field in columns.fields}[name]


def test_a_changing_order_of_names_does_not_mix_joints(write_bag: Any):
    rows = [
        (START, messages.joint_state(START, ['a', 'b'], [1, 2])),
        (START + 1, messages.joint_state(START, ['b', 'a'], [4, 3])),
        (START + 2, messages.joint_state(START, ['b', 'c'], [6, 7], [8, 9])),
    ]
    (topic,) = read_bag(write_bag({('/joint_states', STATE): rows})).topics
    position, velocity = _field(topic, 'position'), _field(topic, 'velocity')
    assert position.labels == ('a', 'b', 'c')
    nan = np.nan
    np.testing.assert_array_equal(position.values, [[1, 2, nan], [3, 4, nan], [nan, 6, 7]])
    assert velocity.labels == ('b', 'c')
    np.testing.assert_array_equal(velocity.values, [[nan, nan], [nan, nan], [8, 9]])


def test_joint_states_without_names_are_labelled_by_index(write_bag: Any):
    rows = [(START, messages.joint_state(0, [], [1, 2]))]
    (topic,) = read_bag(write_bag({('/joint_states', STATE): rows})).topics
    assert [field.name for field in topic.fields] == ['position']
    assert topic.fields[0].labels == ('0', '1')
    assert topic.header_ns.tolist() == [0]


def test_arrays_are_labelled_by_index_and_have_no_header(write_bag: Any):
    rows = [
        (START, messages.array([1, 2])),
        (START + 1, messages.array([3, 4, 5], dimensions=['joints'])),
        (START + 2, messages.array([])),
    ]
    (topic,) = read_bag(write_bag({('/c/commands', ARRAY): rows})).topics
    assert topic.header_ns is None
    assert topic.fields[0].labels == ('0', '1', '2')
    nan = np.nan
    np.testing.assert_array_equal(topic.fields[0].values, [[1, 2, nan], [3, 4, 5], [nan] * 3])


def test_points_that_act_at_once_are_held_and_have_a_row_per_message(write_bag: Any):
    rows = [
        (START + 10 * MS * k + 7, messages.trajectory(START + 10 * MS * k, ['a'], [(0, [k])]))
        for k in range(5)
    ]
    (topic,) = read_bag(write_bag({('/c/joint_trajectory', TRAJECTORY): rows})).topics
    assert topic.header_ns.tolist() == [START + 10 * k * MS for k in range(5)]
    assert topic.receive_ns.tolist() == [START + 10 * k * MS + 7 for k in range(5)]
    np.testing.assert_array_equal(_field(topic, 'position').values[:, 0], np.arange(5))
    assert not _field(topic, 'position').interpolated


def test_a_point_that_is_replaced_halfway_is_reached_halfway(write_bag: Any):
    count = 30
    rows = [
        (START + 10 * MS * k + 7, messages.trajectory(START + 10 * MS * k, ['a'], [(0.02, [k])]))
        for k in range(count)
    ]
    (topic,) = read_bag(write_bag({('/c/joint_trajectory', TRAJECTORY): rows})).topics
    asked = [0.0]
    for k in range(count - 1):
        asked.append((asked[-1] + k) / 2)
    # Before the first message the controller asked for something that is not in the bag.
    first = round((topic.header_ns[0] - START) / 10 / MS)
    assert 10 <= first <= 15
    field = _field(topic, 'position')
    np.testing.assert_allclose(field.values[:-1, 0], asked[first:], atol=1e-3)
    assert field.values[-1, 0] == count - 1
    assert topic.header_ns[-1] == START + (10 * (count - 1) + 20) * MS
    assert topic.receive_ns[-1] == topic.header_ns[-1] + 7
    assert field.interpolated


def test_a_trajectory_replaces_what_is_left_of_the_one_before(write_bag: Any):
    rows = [
        (START, messages.trajectory(0, ['b', 'a'], [(0, [1, 10]), (0.5, [2, 20]), (1.5, [3, 30])])),
        (START + 1000 * MS, messages.trajectory(0, ['a', 'b'], [(0.1, [40, 4])])),
    ]
    (topic,) = read_bag(write_bag({('/c/joint_trajectory', TRAJECTORY): rows})).topics
    assert topic.header_ns.tolist() == [0] * 4
    assert ((topic.receive_ns - START) // MS).tolist() == [0, 500, 1000, 1100]
    field = _field(topic, 'position')
    assert field.labels == ('b', 'a')
    np.testing.assert_array_equal(field.values, [[1, 10], [2, 20], [2.5, 25], [4, 40]])
    # The message of each row, and its leg: the first message leaves its last one for the second.
    np.testing.assert_array_equal(topic.legs, [[0, 0], [0, 1], [0, 2], [1, 3]])


def test_trajectories_of_other_joints_go_on_in_parallel(write_bag: Any):
    rows = [
        (START, messages.trajectory(0, ['a'], [(0.1, [1]), (0.5, [2])])),
        (START + 200 * MS, messages.trajectory(0, ['b'], [(0.1, [3])])),
    ]
    (topic,) = read_bag(write_bag({('/c/joint_trajectory', TRAJECTORY): rows})).topics
    assert ((topic.receive_ns - START) // MS).tolist() == [100, 300, 500]
    nan = np.nan
    np.testing.assert_array_equal(_field(topic, 'position').values, [[1, nan], [nan, 3], [2, nan]])
    assert topic.legs is None


def test_all_texts_are_kept_with_their_stamps(write_bag: Any):
    texts = ['<ü/>', 'begin', 'end', 'begin']
    rows = [(START + k, messages.text(text)) for k, text in enumerate(texts)]
    bag = read_bag(write_bag({('/marker', TEXT): rows, ('/empty', STATE): []}))
    assert bag.texts == (('/marker', '<ü/>'),)
    (column,) = bag.text_columns
    assert column.texts == tuple(texts)
    assert column.receive_ns.tolist() == [START + k for k in range(4)]
    assert [(item.topic, item.count, item.reason) for item in bag.unread] == [
        ('/empty', 0, 'no messages')
    ]


def test_a_damaged_message_costs_its_topic_only(write_bag: Any):
    good = messages.joint_state(START, ['a'], [1])
    content = {
        ('/bad', STATE): [(START, good), (START + 1, good[:-9])],
        ('/odd', STATE): [(START, good + bytes(24))],
        ('/good', STATE): [(START, good)],
    }
    bag = read_bag(write_bag(content))
    assert [topic.topic for topic in bag.topics] == ['/good']
    reasons = {item.topic: item.reason for item in bag.unread}
    assert reasons['/bad'].startswith('The message ends after')
    assert 'bytes more than its type' in reasons['/odd']


def test_custom_definitions_that_cannot_be_parsed_do_not_matter(tmp_path: Path):
    with Writer(tmp_path / 'bag', version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        odd = writer.add_connection('/odd', 'my/msg/Odd', msgdef='@@ no message', rihs01='RIHS01_0')
        data = messages.joint_state(START, ['a'], [1])
        writer.write(odd, START, data)
        broken = writer.add_connection('/js', STATE, msgdef='no/Such thing?', rihs01='RIHS01_1')
        writer.write(broken, START, data)
    bag = read_bag(tmp_path / 'bag')
    assert [topic.topic for topic in bag.topics] == ['/js']
    assert [item.topic for item in bag.unread] == ['/odd']


def _error(path: Path) -> str:
    with pytest.raises(BagError) as caught:
        read_bag(path)
    text = str(caught.value)
    assert '\n' not in text
    assert text.endswith('.')
    return text


def test_what_is_no_bag_is_an_error_that_names_the_nearest(write_bag: Any, tmp_path: Path):
    write_bag({('/js', STATE): [(START, messages.joint_state(0, ['a'], [1]))]}, name='train_1')
    assert 'nearest: train_1' in _error(tmp_path / 'train_2')
    assert 'There is no bag' in _error(tmp_path / 'no' / 'such' / 'folder')
    assert 'bags inside: train_1' in _error(tmp_path)
    (tmp_path / 'notes.txt').write_text('hello')
    assert '.mcap, .db3, .bag, .csv or .parquet' in _error(tmp_path / 'notes.txt')


def test_a_bag_whose_recorder_was_killed_holds_what_was_flushed(tmp_path: Path):
    writer = BagWriter(tmp_path / 'killed')
    writer.set_facts({'notes': 'first', 'version': '1'})
    writer.add_topic('/js', STATE)
    writer.write('/js', START, messages.joint_state(0, ['a'], [1]))
    writer.set_facts({'notes': 'second'})
    writer.flush()
    writer.write('/js', START + 1, messages.joint_state(0, ['a'], [2]))
    for path in (tmp_path / 'killed', tmp_path / 'killed' / 'killed_0.mcap'):
        found = read_bag(path)
        assert found.unfinished == ('killed_0.mcap',)
        assert found.topics[0].receive_ns.tolist() == [START]
        assert dict(found.facts) == {'notes': 'second', 'version': '1'}
    writer.close()
    assert read_bag(tmp_path / 'killed').unfinished == ()


def test_a_truncated_mcap_is_read_to_its_last_chunk_and_told_from_a_damaged_one(tmp_path: Path):
    with BagWriter(tmp_path / 'bag') as bag:
        bag.add_topic('/js', STATE)
        for k in range(100):
            bag.write('/js', START + k, messages.joint_state(0, ['a'], [k]))
            bag.flush()
    file = tmp_path / 'bag' / 'bag_0.mcap'
    whole = file.read_bytes()
    for part in (0.1, 0.2, 0.3):
        file.write_bytes(whole[: int(part * len(whole))])
        found = read_bag(file)
        assert found.unfinished == (file.name,)
        count = len(found.topics[0].receive_ns)
        assert 0 < count < 100
        assert _field(found.topics[0], 'position').values[:, 0].tolist() == list(range(count))
    for size in (0, 4):
        file.write_bytes(whole[:size])
        assert 'Expected an MCAP file' in _error(file)
    middle = len(whole) // 2
    file.write_bytes(whole[:middle] + b'\xff' * 200 + whole[middle + 200 :])
    assert 'is damaged' in _error(file)


def test_metadata_without_its_data_file_or_without_sense_is_an_error(write_bag: Any):
    path = write_bag({('/js', STATE): [(START, messages.joint_state(0, ['a'], [1]))]})
    (path / 'bag_0.mcap').unlink()
    assert 'data file bag_0.mcap is missing' in _error(path)
    for text in ('[1, 2', '', 'a: 1\n', 'rosbag2_bagfile_information: 3\n'):
        (path / 'metadata.yaml').write_text(text)
        assert 'is damaged' in _error(path)


def test_a_bag_without_messages_is_an_error(tmp_path: Path):
    with BagWriter(tmp_path / 'bag') as bag:
        bag.add_topic('/joint_states', STATE)
    assert 'holds no messages; its topics: /joint_states' in _error(tmp_path / 'bag')


def test_stamps_go_on_where_the_recorders_clock_was_set_back(tmp_path: Path):
    # A simulation of 2 s that began again after 1.2 s; the marker came once, and was not repeated.
    seconds = [*np.arange(0.0, 1.2, 0.01), *np.arange(0.0, 2.0, 0.01)]
    path = tmp_path / 'bag'
    with BagWriter(path) as bag:
        bag.add_topic('/states', STATE)
        bag.add_topic('/words', TEXT)
        for row, time in enumerate(seconds):
            stamp = 5_000 * MS + round(1e9 * time)
            if row == 150:
                bag.write('/words', stamp, messages.text('again'))
            bag.write('/states', stamp, messages.joint_state(stamp, ['a'], [float(row)]))
    found = read_bag(path)
    (states,) = found.topics
    assert _field(states, 'position').values[:, 0].tolist() == list(range(len(seconds)))
    assert (np.diff(states.receive_ns) > 0).all()
    (back,) = found.set_back
    assert back.seconds == pytest.approx(1.19)
    assert states.receive_ns[119] < back.receive_ns < states.receive_ns[120]
    np.testing.assert_array_equal(states.receive_ns[120:] - back.added_ns, states.header_ns[120:])
    assert found.text_columns[0].receive_ns[0] > back.receive_ns


def test_one_topic_after_the_other_and_a_message_that_was_late_are_no_clock_set_back(
    write_bag: Any,
):
    stamps = [START + 10 * MS * k for k in range(100)]
    late = [*stamps[:50], *stamps[51:70], stamps[50], *stamps[70:]]
    rows = {
        (topic, ARRAY): [(stamp, messages.array([stamp - START])) for stamp in order]
        for topic, order in (('/a', stamps), ('/b', late))
    }
    found = read_bag(write_bag(rows))
    assert found.set_back == ()
    assert [topic.receive_ns.tolist() for topic in found.topics] == [stamps, stamps]


COUNT = 60
NONE = CompressionMode.NONE
STORE = get_typestore(Stores.ROS2_JAZZY)

#: Topic, type, receive stamp, bytes.
Row = tuple[str, str, int, bytes]


@pytest.fixture
def rows() -> list[Row]:
    """Return two topics, whose stamps are not in the order of writing."""
    found = []
    for k in range(COUNT):
        late = START + MS * (k ^ 1)
        state = messages.joint_state(late - 5, ['a', 'b'], [k, -k], [k / 7, 0], [2, 3 * k])
        found.append(('/joint_states', STATE, late, state + b'\0' * (k % 2)))
        if k % 3 == 0:
            found.append(('/commands', ARRAY, late, messages.array([k, 1 / (k + 1)])))
    return found


def _plain(bag: BagColumns) -> Any:
    """Return the columns as something that can be compared."""
    return {
        topic.topic: (
            topic.receive_ns.tolist(),
            None if topic.header_ns is None else topic.header_ns.tolist(),
            [(field.name, field.labels, field.values.tolist()) for field in topic.fields],
        )
        for topic in bag.topics
    }


def _expected(rows: Sequence[Row], splits: int = 1) -> Any:
    """Return the same from rosbags' messages, sorted by receive stamp within each split."""
    found: dict[str, Any] = {}
    for part in np.array_split(np.arange(len(rows)), splits):
        for index in sorted(part, key=lambda index: rows[index][2]):
            topic, msgtype, stamp, data = rows[index]
            message: Any = STORE.deserialize_cdr(data, msgtype)
            receive, header, fields = found.setdefault(topic, ([], [], {}))
            receive.append(stamp)
            if msgtype == STATE:
                header.append(message.header.stamp.sec * 10**9 + message.header.stamp.nanosec)
            for name in ('position', 'velocity', 'effort') if msgtype == STATE else ('data',):
                fields.setdefault(name, []).append(getattr(message, name).tolist())
    labels = {'/joint_states': ('a', 'b'), '/commands': ('0', '1')}
    return {
        topic: (
            receive,
            header or None,
            [(name, labels[topic], values) for name, values in fields.items()],
        )
        for topic, (receive, header, fields) in found.items()
    }


def _mcap(path: Path, rows: Sequence[Row], **options: Any) -> Path:
    """Write a single file with the mcap package."""
    with path.open('wb') as stream:
        writer = McapWriter(stream, chunk_size=1000, **options)
        writer.start('ros2')
        channels = {}
        for topic, msgtype, stamp, data in rows:
            if topic not in channels:
                text, _ = STORE.generate_msgdef(msgtype, ros_version=2)
                schema = writer.register_schema(msgtype, 'ros2msg', text.encode())
                channels[topic] = writer.register_channel(topic, 'cdr', schema)
            writer.add_message(channels[topic], stamp, data, stamp)
        writer.finish()
    return path


def _ours(path: Path, rows: Sequence[Row], **options: Any) -> Path:
    with BagWriter(path, **options) as bag:
        for topic, msgtype in {row[0]: row[1] for row in rows}.items():
            bag.add_topic(topic, msgtype)
        for topic, _, stamp, data in rows:
            bag.write(topic, stamp, data)
    return path


def _rosbags(
    path: Path, rows: Sequence[Row], mode: CompressionMode, storage: StoragePlugin
) -> Path:
    writer = Writer(path, version=9, storage_plugin=storage)
    if mode is not NONE:
        writer.set_compression(mode, CompressionFormat.ZSTD)
    with writer:
        connections = {
            topic: writer.add_connection(topic, msgtype, typestore=STORE)
            for topic, msgtype in {row[0]: row[1] for row in rows}.items()
        }
        for topic, _, stamp, data in rows:
            writer.write(connections[topic], stamp, data)
    return path


@pytest.mark.parametrize('compression', list(CompressionType), ids=lambda item: item.name)
def test_chunks_of_any_compression_are_read(tmp_path: Path, rows: list[Row], compression: Any):
    path = _mcap(tmp_path / 'a.mcap', rows, compression=compression)
    assert _plain(read_bag(path)) == _expected(rows)


@pytest.mark.parametrize(
    'options',
    [
        {'use_chunking': False},
        {'index_types': IndexType.NONE},
        {'use_statistics': False, 'repeat_channels': False, 'repeat_schemas': False},
        {'enable_crcs': False},
    ],
    ids=str,
)
def test_files_without_chunks_index_summary_or_checksums_are_read(
    tmp_path: Path, rows: list[Row], options: dict[str, Any]
):
    assert _plain(read_bag(_mcap(tmp_path / 'a.mcap', rows, **options))) == _expected(rows)


@pytest.mark.parametrize(
    ('storage', 'mode'),
    # SQLite has no chunks to compress.
    [(StoragePlugin.MCAP, mode) for mode in CompressionMode]
    + [(StoragePlugin.SQLITE3, mode) for mode in list(CompressionMode)[:3]],
    ids=lambda item: item.name,
)
def test_bags_of_rosbags_are_read_in_every_compression(
    tmp_path: Path, rows: list[Row], storage: StoragePlugin, mode: CompressionMode
):
    path = _rosbags(tmp_path / 'bag', rows, mode, storage)
    assert _plain(read_bag(path)) == _expected(rows)
    # Files speak for themselves.
    (path / 'metadata.yaml').unlink()
    (file,) = path.iterdir()
    assert _plain(read_bag(path)) == _plain(read_bag(file)) == _expected(rows)


@pytest.mark.slow
def test_splits_are_read_in_their_order_and_rows_as_rosbags_orders_them(
    tmp_path: Path, rows: list[Row]
):
    path = tmp_path / 'bag'
    path.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(rows)), 12)):
        _mcap(path / f'bag_{number}.mcap', [rows[index] for index in part])
    expected = _expected(rows, splits=12)
    assert _plain(read_bag(path)) == expected
    files = [f'bag_{number}.mcap' for number in range(12)]
    described = {'rosbag2_bagfile_information': {'relative_file_paths': files}}
    (path / 'metadata.yaml').write_text(yaml.safe_dump(described))
    assert _plain(read_bag(path)) == expected
    with Reader(path / 'bag_3.mcap') as reader:
        stamps = [stamp for item, stamp, _ in reader.messages() if item.topic == '/joint_states']
    assert _plain(read_bag(path / 'bag_3.mcap'))['/joint_states'][0] == stamps


@pytest.mark.slow
def test_ros_1_bags_are_read(tmp_path: Path, rows: list[Row]):
    store = get_typestore(Stores.ROS1_NOETIC)
    path = tmp_path / 'a.bag'
    header = store.types['std_msgs/msg/Header']
    with Ros1Writer(path) as writer:
        connections = {
            topic: writer.add_connection(topic, msgtype, typestore=store)
            for topic, msgtype in {row[0]: row[1] for row in rows}.items()
        }
        for topic, msgtype, stamp, data in rows:
            message: Any = STORE.deserialize_cdr(data, msgtype)
            if msgtype == STATE:
                own = message.header
                message = dataclasses.replace(message, header=header(7, own.stamp, own.frame_id))
            content = store.serialize_ros1(message, msgtype)
            writer.write(connections[topic], stamp, content)
    assert _plain(read_bag(path)) == _expected(rows)


def test_facts_are_read_with_and_without_metadata(tmp_path: Path, rows: list[Row]):
    path = tmp_path / 'bag'
    with BagWriter(path) as bag:
        bag.set_facts({'notes': 'first', 'host': 'lab'})
        bag.add_topic('/joint_states', STATE)
        bag.write(*rows[0][::2], rows[0][3])
        bag.flush()
        bag.set_facts({'notes': 'second'})
    assert dict(read_bag(path).facts) == {'notes': 'second', 'host': 'lab'}
    (path / 'metadata.yaml').unlink()
    assert dict(read_bag(path).facts) == {'notes': 'second', 'host': 'lab'}


def test_only_the_topics_that_are_asked_for_are_read(tmp_path: Path, rows: list[Row]):
    path = _ours(tmp_path / 'bag', rows)
    bag = read_bag(path, ['/commands'])
    assert _plain(bag) == {'/commands': _expected(rows)['/commands']}
    assert [(item.topic, item.count, item.reason) for item in bag.unread] == [
        ('/joint_states', 0, 'it was not asked for')
    ]
    with pytest.raises(BagError, match="has no topic '/comands'; nearest: /commands"):
        read_bag(path, ['/comands'])


@pytest.mark.parametrize('compression', ['none', 'zstd'])
def test_mcap_says_when_messages_were_sent_in_any_order_and_compression(
    tmp_path: Path, rows: list[Row], compression: Any
):
    path = tmp_path / 'bag'
    (topic, msgtype, _, data), *_ = rows
    stamps = [START + 1000 * place for place in (0, 3, 1, 2, 5, 4)]
    sent = [stamps[0] - 7, 0, stamps[2] - 10**13, stamps[3], stamps[4] - 1, stamps[5] - 2]
    with BagWriter(path, compression=compression) as bag:
        bag.add_topic(topic, msgtype)
        for received, known in zip(stamps, sent, strict=True):
            bag.write(topic, received, data, known)
    (file,) = path.glob('*.mcap')
    with file.open('rb') as stream:
        found = make_reader(stream).iter_messages(log_time_order=False)
        others = [message.publish_time for _, _, message in found]
    assert others == [known or received for received, known in zip(stamps, sent, strict=True)]
    (found,) = read_bag(path).topics
    order = np.argsort(stamps)
    # What was sent at the very moment of receipt was sent nobody knows when.
    expected = [0 if sent[row] == stamps[row] else sent[row] for row in order]
    assert found.sent_ns is not None
    assert found.sent_ns.tolist() == expected


def test_where_no_message_says_when_it_was_sent_nothing_is_known(tmp_path: Path, rows: list[Row]):
    for bag in (
        read_bag(_ours(tmp_path / 'mcap', rows)),
        read_bag(_mcap(tmp_path / 'other.mcap', rows)),
    ):
        assert [topic.sent_ns for topic in bag.topics] == [None] * len(bag.topics)


def test_other_encodings_are_named(tmp_path: Path):
    with (tmp_path / 'a.mcap').open('wb') as stream:
        writer = McapWriter(stream)
        writer.start()
        channel = writer.register_channel('/j', 'json', writer.register_schema('J', 'json', b'{}'))
        writer.add_message(channel, START, b'{}', START)
        writer.finish()
    (unread,) = read_bag(tmp_path / 'a.mcap').unread
    assert "serialized as 'json', expected cdr" in unread.reason


def test_a_database_with_a_leftover_journal_or_damage_is_an_error(tmp_path: Path, rows: list[Row]):
    path = _rosbags(tmp_path / 'bag', rows, NONE, StoragePlugin.SQLITE3)
    (file,) = path.glob('*.db3')
    journal = file.with_name(f'{file.name}-wal')
    journal.write_bytes(b'something')
    with pytest.raises(BagError, match=f'messages in {journal.name}'):
        read_bag(path)
    journal.unlink()
    whole = file.read_bytes()
    for content in (b'', b'no database', whole[: len(whole) // 2], whole[:3000]):
        file.write_bytes(content)
        with pytest.raises(BagError, match='is damaged'):
            read_bag(path)


@pytest.mark.slow
def test_truncated_and_flipped_files_are_one_sentence_or_columns(tmp_path: Path, rows: list[Row]):
    random = np.random.default_rng(0)
    whole = {
        path.name: path.read_bytes()
        for path in (
            _mcap(tmp_path / 'zstd.mcap', rows),
            _mcap(tmp_path / 'lz4.mcap', rows, compression=CompressionType.LZ4),
            _mcap(tmp_path / 'none.mcap', rows, use_chunking=False),
            next(_rosbags(tmp_path / 'b', rows, NONE, StoragePlugin.SQLITE3).glob('*.db3')),
        )
    }
    for name, content in whole.items():
        for trial in range(30):
            damaged = bytearray(content)
            if trial % 3:
                damaged[random.integers(len(content))] ^= 1 << random.integers(8)
            else:
                del damaged[random.integers(len(content)) :]
            file = tmp_path / name
            file.write_bytes(damaged)
            try:
                read_bag(file)
            except BagError as err:
                text = str(err)
                assert text.endswith('.'), text
                assert '\n' not in text

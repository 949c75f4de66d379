# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A bag reads the same whatever its files are, and as rosbags reads it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
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

from sysid_ros.bags import BagColumns
from sysid_ros.bags.reader import read_bag
from sysid_ros.bags.writer import BagWriter
from sysid_ros.errors import BagError

STATE = 'sensor_msgs/msg/JointState'
ARRAY = 'std_msgs/msg/Float64MultiArray'
START = 1_700_000_000_000_000_000
MS = 1_000_000
COUNT = 60
NONE = CompressionMode.NONE
STORE = get_typestore(Stores.ROS2_JAZZY)

#: Topic, type, receive stamp, bytes.
Row = tuple[str, str, int, bytes]


@pytest.fixture
def rows(messages: Any) -> list[Row]:
    """Return two topics, whose stamps are not in the order of writing."""
    found = []
    for k in range(COUNT):
        late = START + MS * (k ^ 1)
        state = messages.joint_state(late - 5, ['a', 'b'], [k, -k], [k / 7, 0])
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
            for name in ('position', 'velocity') if msgtype == STATE else ('data',):
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
        messages = make_reader(stream).iter_messages(log_time_order=False)
        others = [message.publish_time for _, _, message in messages]
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

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a few bytes announce or unpack to is not read, and the rest of a bag is."""

from __future__ import annotations

import bz2
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lz4.frame
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from mcap.opcode import Opcode
from mcap.writer import Writer as McapWriter
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from builders import messages
from sysid_ros.bags import budget
from sysid_ros.bags.budget import Budget, DamagedFileError
from sysid_ros.bags.reader import read_bag
from sysid_ros.bags.writer import BagWriter
from sysid_ros.errors import BagError

STATE, TEXT = 'sensor_msgs/msg/JointState', 'std_msgs/msg/String'
START = 1_700_000_000_000_000_000
STORE = get_typestore(Stores.ROS2_JAZZY)
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    'zstd': zstandard.compress,
    'lz4': lambda data: bytes(lz4.frame.compress(data, store_size=False)),
    'bz2': bz2.compress,
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the limits small, so that tests need no memory to meet them."""
    monkeypatch.setattr(budget, 'MOST_BYTES', 1 << 20)
    monkeypatch.setattr(budget, 'LARGEST_PIECE', 1 << 19)


@pytest.mark.usefixtures('small')
@pytest.mark.parametrize('compression', COMPRESSIONS)
def test_what_unpacks_to_too_much_is_refused_before_it_is_there(compression: str):
    compress = COMPRESSIONS[compression]
    whole = np.random.default_rng(0).bytes(1000) * 100
    assert Budget(0).unpacked(compression, compress(whole)) == whole
    with pytest.raises(DamagedFileError, match='piece'):
        Budget(1 << 20).unpacked(compression, compress(bytes(1 << 23)))
    spent = Budget(0)
    spent.unpacked(compression, compress(bytes(500_000)))
    spent.unpacked(compression, compress(bytes(500_000)))
    with pytest.raises(DamagedFileError, match='200 times'):
        spent.unpacked(compression, compress(bytes(500_000)))
    with pytest.raises(DamagedFileError, match='in the middle'):
        Budget(0).unpacked(compression, compress(whole)[:-3])


def _chunk(path: Path, data: bytes, compression: str = '', announced: int | None = None) -> Path:
    """Write an MCAP file with one chunk, whatever is in it."""
    packed = COMPRESSIONS[compression](data) if compression else data
    head = struct.pack('<QQQI', 0, 0, len(data) if announced is None else announced, 0)
    name = struct.pack('<I', len(compression)) + compression.encode()
    body = head + name + struct.pack('<Q', len(packed)) + packed
    records = struct.pack('<BQ', Opcode.CHUNK, len(body)) + body
    path.write_bytes(b'\x89MCAP0\r\n' + records + struct.pack('<BQ', Opcode.FOOTER, 20) + bytes(20))
    return path


@pytest.mark.usefixtures('small')
@pytest.mark.parametrize('compression', ['zstd', 'lz4'])
@pytest.mark.parametrize('announced', [0, 1 << 60])
def test_a_chunk_is_as_large_as_it_is_not_as_it_says(
    tmp_path: Path, compression: str, announced: int
):
    file = _chunk(tmp_path / 'a.mcap', bytes(1 << 22), compression, announced)
    with pytest.raises(BagError, match=r'has more than 1 MB|become more than 1 MB'):
        read_bag(file)


def test_zeros_in_a_chunk_are_no_records(tmp_path: Path):
    with pytest.raises(BagError, match='no record of kind 0 in chunks'):
        read_bag(_chunk(tmp_path / 'a.mcap', bytes(1_000_000)))


@pytest.mark.usefixtures('small')
def test_messages_that_are_compressed_share_one_budget(tmp_path: Path):
    writer = Writer(tmp_path / 'b', version=9, storage_plugin=StoragePlugin.SQLITE3)
    writer.set_compression(CompressionMode.MESSAGE, CompressionFormat.ZSTD)
    with writer:
        topic = writer.add_connection('/a', STATE, typestore=STORE)
        for k in range(40):
            writer.write(topic, START + k, bytes(400_000))
    with pytest.raises(BagError, match='become more than'):
        read_bag(tmp_path / 'b')


def _database(path: Path) -> sqlite3.Connection:
    with Writer(path, version=9, storage_plugin=StoragePlugin.SQLITE3) as writer:
        topic = writer.add_connection('/a', STATE, typestore=STORE)
        writer.write(topic, START, messages.joint_state(START, ['a'], [1.0]))
    return sqlite3.connect(path / f'{path.name}.db3')


def test_a_database_that_computes_its_messages_is_refused(tmp_path: Path):
    with _database(tmp_path / 'b') as base:
        base.executescript(
            'ALTER TABLE messages RENAME TO m; CREATE TABLE messages(id INTEGER PRIMARY KEY,'
            'topic_id INTEGER, timestamp INTEGER, data BLOB AS (zeroblob(1000000000)));'
            'INSERT INTO messages(id, topic_id, timestamp) SELECT id, topic_id, timestamp FROM m'
        )
    with pytest.raises(BagError, match='columns that are computed'):
        read_bag(tmp_path / 'b')


def test_values_of_a_database_are_no_larger_than_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with _database(tmp_path / 'b') as base:
        base.execute('UPDATE messages SET data = zeroblob(1000000)')
    monkeypatch.setattr('sysid_ros.bags.storage.LARGEST_PIECE', 500_000)
    with pytest.raises(BagError, match='damaged'):
        read_bag(tmp_path / 'b')


def _names(count: int) -> list[tuple[int, bytes]]:
    """Return messages of another joint each: a table of them is nearly empty, and large."""
    return [(START + k, messages.joint_state(START, [f'j{k}'], [k])) for k in range(count)]


@pytest.mark.usefixtures('small')
def test_a_topic_whose_columns_are_too_much_is_not_read_and_the_others_are(tmp_path: Path):
    with BagWriter(tmp_path / 'b', compression='zstd') as bag:
        for topic in ('/many', '/one'):
            bag.add_topic(topic, STATE)
        for stamp, data in _names(1500):
            bag.write('/many', stamp, data)
        bag.write('/one', START, messages.joint_state(START, ['a'], [1.0]))
    found = read_bag(tmp_path / 'b')
    assert [topic.topic for topic in found.topics] == ['/one']
    assert [item.topic for item in found.unread] == ['/many']
    assert 'become more than' in found.unread[0].reason


def test_a_trajectory_that_takes_years_is_a_few_rows(tmp_path: Path):
    points = [(0.0, [0.0], [0.0]), (2.0**31 - 1, [1.0], [0.0])]
    data = messages.trajectory(START, ['a'], points)
    with BagWriter(tmp_path / 'b') as bag:
        bag.add_topic('/t', 'trajectory_msgs/msg/JointTrajectory')
        bag.write('/t', START, data)
    (topic,) = read_bag(tmp_path / 'b').topics
    assert len(topic.receive_ns) < 10_000


def test_a_malformed_text_costs_its_topic_and_says_so(tmp_path: Path):
    with BagWriter(tmp_path / 'b') as bag:
        bag.add_topic('/chatter', TEXT)
        bag.add_topic('/joint_states', STATE)
        bag.write('/chatter', START, b'\0\1\0\0\xff\xff\0\0hi\0')
        bag.write('/joint_states', START, messages.joint_state(START, ['a'], [1.0]))
    found = read_bag(tmp_path / 'b')
    assert [topic.topic for topic in found.topics] == ['/joint_states']
    ((topic, reason),) = [(item.topic, item.reason) for item in found.unread]
    assert (topic, reason[:31]) == ('/chatter', 'The message ends after 11 bytes')


def test_files_that_the_metadata_does_not_list_are_told(tmp_path: Path):
    with BagWriter(tmp_path / 'b') as bag:
        bag.add_topic('/joint_states', STATE)
        bag.write('/joint_states', START, messages.joint_state(START, ['a'], [1.0]))
    (tmp_path / 'b' / 'b_1.mcap').write_bytes(bag.file.read_bytes())
    assert read_bag(tmp_path / 'b').unlisted == ('b_1.mcap',)


def test_a_channel_that_is_described_in_two_ways_is_damage(tmp_path: Path):
    with (tmp_path / 'a.mcap').open('wb') as stream:
        writer = McapWriter(stream, use_chunking=False)
        writer.start()
        for name in ('/a', '/b'):
            channel = writer.register_channel(name, 'cdr', writer.register_schema('J', '', b''))
        writer.finish()
    content = (tmp_path / 'a.mcap').read_bytes()
    second = struct.pack('<H', channel) + struct.pack('<H', channel)
    assert content.count(second) > 1
    (tmp_path / 'a.mcap').write_bytes(content.replace(second, b'\1\0' + second[2:]))
    with pytest.raises(BagError, match='channel 1 is described in two ways'):
        read_bag(tmp_path / 'a.mcap')


def test_a_table_with_stamps_of_pandas_is_read(tmp_path: Path):
    stamps = pa.array(START + 10_000_000 * np.arange(100) + 1, pa.timestamp('ns'))
    for name in ('time', '__index_level_0__'):
        table = pa.table({name: stamps, 'elbow_position': pa.array(np.arange(100))})
        pq.write_table(table, tmp_path / 'a.parquet')
        (topic,) = read_bag(tmp_path / 'a.parquet').topics
        assert topic.header_ns is not None
        np.testing.assert_allclose(topic.header_ns - START, 10_000_000 * np.arange(100), atol=500)


@pytest.mark.usefixtures('small')
def test_a_table_of_few_bytes_and_many_values_is_refused(tmp_path: Path):
    table = pa.table({'time': pa.array(np.zeros(10_000_000))})
    pq.write_table(table, tmp_path / 'a.parquet', compression='zstd')
    with pytest.raises(BagError, match='become more than'):
        read_bag(tmp_path / 'a.parquet')


@pytest.mark.parametrize(
    ('text', 'complaint'),
    [
        ('t,' + ','.join(map(str, range(3000))), 'at most 2048 columns'),
        ('t,' + 'a' * 2_000_000, 'more than 1048576 characters'),
        ('t,a\n0,1\n1e300,1', 'Expected times in seconds'),
    ],
    ids=['columns', 'line', 'time'],
)
def test_a_table_without_end_is_a_sentence(tmp_path: Path, text: str, complaint: Any):
    (tmp_path / 'a.csv').write_text(text)
    with pytest.raises(BagError, match=complaint):
        read_bag(tmp_path / 'a.csv')

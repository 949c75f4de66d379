# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is saved of bags that were cut, changed or never finished."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from mcap.writer import CompressionType
from mcap.writer import Writer as PlainMcapWriter
from rosbags.rosbag2 import CompressionFormat, CompressionMode, Reader, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from sysid_ros.bags import BagWriter, read_bag
from sysid_ros.bags.recovery.recover import examine, recover
from sysid_ros.bags.writer import Splitting, define
from sysid_ros.errors import BagError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

STATE = 'sensor_msgs/msg/JointState'
START = 1_700_000_000_000_000_000
STORAGES = ('mcap', 'sqlite3')
STORE = get_typestore(Stores.ROS2_JAZZY)

Row = tuple[str, int, bytes]


@pytest.fixture
def rows(messages: Any) -> list[Row]:
    """Return the messages of two topics in the order in which they are written."""
    return [
        (
            topic,
            START + 10 * number + index,
            messages.joint_state(number, ['a', 'b'], [number, index]),
        )
        for number in range(60)
        for index, topic in enumerate(('/arm/joint_states', '/leg/joint_states'))
    ]


@pytest.fixture
def write(tmp_path: Path, rows: list[Row]) -> Callable[..., Path]:
    """Return a function that writes the messages, 20 between flushes."""

    def run(storage: str, name: str = 'bag', **options: Any) -> Path:
        with BagWriter(tmp_path / name, storage, **options) as bag:
            bag.set_facts({'notes': 'third floor'})
            for topic in ('/arm/joint_states', '/leg/joint_states'):
                bag.add_topic(topic, STATE)
            for index, row in enumerate(rows):
                bag.write(*row)
                if index % 20 == 19:
                    bag.flush()
        return tmp_path / name

    return run


def _content(bag: Path) -> list[Row]:
    with Reader(bag) as reader:
        return [(entry.topic, stamp, bytes(data)) for entry, stamp, data in reader.messages()]


def _file(bag: Path) -> Path:
    (file,) = (path for path in bag.iterdir() if path.suffix in {'.mcap', '.db3'})
    return file


def _change(file: Path, place: int, byte: int | None = None) -> None:
    content = bytearray(file.read_bytes())
    content[place] = content[place] ^ 0xFF if byte is None else byte
    file.write_bytes(content)


def _snapshot(bag: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in bag.iterdir()}


def _lost(found: Any) -> int:
    return int(found.lost)


@pytest.mark.parametrize('storage', STORAGES)
def test_a_bag_without_metadata_is_recovered_whole(
    write: Callable[..., Path], rows: list[Row], storage: str, tmp_path: Path
):
    bag = write(storage)
    (bag / 'metadata.yaml').unlink()
    before = _snapshot(bag)
    found = recover(bag, tmp_path / 'new')
    assert _content(tmp_path / 'new') == rows
    assert [(topic.topic, topic.saved, topic.lost) for topic in found.topics] == [
        ('/arm/joint_states', 60, 0),
        ('/leg/joint_states', 60, 0),
    ]
    assert found.unchecked == 0
    assert found.topics[0].first_ns == START
    assert len(read_bag(tmp_path / 'new').topics) == 2
    assert _snapshot(bag) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ['bag', 'new']


def test_when_messages_were_sent_is_recovered(rows: list[Row], tmp_path: Path):
    sent = [stamp - 3 - index % 5 for index, (_, stamp, _) in enumerate(rows)]
    with BagWriter(tmp_path / 'bag', 'mcap') as bag:
        for topic in ('/arm/joint_states', '/leg/joint_states'):
            bag.add_topic(topic, STATE)
        for row, known in zip(rows, sent, strict=True):
            bag.write(*row, known)
    (tmp_path / 'bag' / 'metadata.yaml').unlink()
    recover(tmp_path / 'bag', tmp_path / 'new')
    arm, leg = read_bag(tmp_path / 'new').topics
    assert arm.sent_ns is not None
    assert leg.sent_ns is not None
    assert [arm.sent_ns.tolist(), leg.sent_ns.tolist()] == [sent[::2], sent[1::2]]


@pytest.mark.parametrize('storage', STORAGES)
def test_facts_are_kept_and_one_says_how_the_bag_came_about(
    write: Callable[..., Path], storage: str, tmp_path: Path
):
    bag = write(storage)
    (bag / 'metadata.yaml').unlink()
    recover(bag, tmp_path / 'new')
    facts = read_bag(tmp_path / 'new').facts
    assert facts['notes'] == 'third floor'
    assert "from 'bag': 120 messages" in facts['recovered']


def test_a_cut_file_keeps_what_was_before_the_cut(
    write: Callable[..., Path], rows: list[Row], tmp_path: Path
):
    file = _file(write('mcap'))
    whole = file.read_bytes()
    cut = whole.index(rows[70][2])
    file.write_bytes(whole[:cut])
    found = recover(file, tmp_path / 'new')
    assert _content(tmp_path / 'new') == rows[:70]
    assert found.unchecked == 10
    assert 'in the middle of a chunk' in found.skipped[0].reason


def test_a_changed_chunk_is_left_out_and_counted(
    write: Callable[..., Path], rows: list[Row], tmp_path: Path
):
    bag = write('mcap')
    file = _file(bag)
    place = file.read_bytes().index(rows[50][2])
    _change(file, place + 30)
    found = recover(bag, tmp_path / 'new')
    assert _content(tmp_path / 'new') == rows[:40] + rows[60:]
    assert _lost(found) == 20
    (part,) = found.skipped
    assert part.offset < place < part.offset + part.size
    assert part.reason == 'the checksum of a chunk is wrong'
    assert (part.start_ns, part.end_ns) == (rows[40][1], rows[59][1])


def test_records_are_found_again_behind_damage(
    write: Callable[..., Path], rows: list[Row], tmp_path: Path
):
    bag = write('mcap')
    file = _file(bag)
    content = file.read_bytes()
    start, end = content.index(rows[22][2]), content.index(rows[62][2])
    file.write_bytes(content[:start] + bytes(1000) + content[end:])
    found = recover(bag, tmp_path / 'new')
    assert _content(tmp_path / 'new') == rows[:20] + rows[80:]
    assert _lost(found) == 60


@pytest.mark.parametrize('place', [1, 37 + 9])
def test_a_chunk_with_a_wrong_length_is_saved(
    write: Callable[..., Path], rows: list[Row], tmp_path: Path, place: int
):
    bag = write('mcap')
    file = _file(bag)
    first = file.read_bytes().index(rows[20][2]) - 31
    # Record's head, times, size, checksum and name of the compression stand before the content.
    _change(file, first - 49 + place if place == 1 else first - 8)
    found = recover(bag, tmp_path / 'new')
    assert _content(tmp_path / 'new') == rows
    assert 'wrong length' in found.skipped[0].reason


@pytest.mark.parametrize(
    'compression', [CompressionType.NONE, CompressionType.LZ4, CompressionType.ZSTD, None]
)
def test_files_of_another_writer_are_recovered_with_any_compression(
    rows: list[Row], tmp_path: Path, compression: CompressionType | None
):
    file = tmp_path / 'other.mcap'
    options: Any = {'use_chunking': False} if compression is None else {'compression': compression}
    with file.open('wb') as stream:
        writer = PlainMcapWriter(stream, chunk_size=2000, **options)
        writer.start('ros2')
        text, _ = STORE.generate_msgdef(STATE, ros_version=2)
        schema = writer.register_schema(STATE, 'ros2msg', text.encode())
        channels = {
            topic: writer.register_channel(topic, 'cdr', schema) for topic, _, _ in rows[:2]
        }
        for topic, stamp, data in rows:
            writer.add_message(channels[topic], stamp, data, stamp)
        writer.finish()
    assert examine(file).whole
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    recover(file, tmp_path / 'new')
    saved = _content(tmp_path / 'new')
    assert 10 < len(saved) < 120
    assert saved == rows[: len(saved)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ('storage', 'mode'),
    [
        *((StoragePlugin.MCAP, mode) for mode in CompressionMode),
        (StoragePlugin.SQLITE3, CompressionMode.NONE),
        (StoragePlugin.SQLITE3, CompressionMode.MESSAGE),
        (StoragePlugin.SQLITE3, CompressionMode.FILE),
    ],
)
def test_bags_of_rosbags_are_recovered_and_said_to_have_no_checksums(
    rows: list[Row], tmp_path: Path, storage: StoragePlugin, mode: CompressionMode
):
    writer = Writer(tmp_path / 'bag', version=9, storage_plugin=storage)
    writer.set_compression(mode, CompressionFormat.ZSTD)
    with writer:
        connections = {
            topic: writer.add_connection(topic, STATE, typestore=STORE) for topic, _, _ in rows[:2]
        }
        for topic, stamp, data in rows:
            writer.write(connections[topic], stamp, data)
    assert examine(tmp_path / 'bag').whole
    (tmp_path / 'bag' / 'metadata.yaml').unlink()
    found = recover(tmp_path / 'bag', tmp_path / 'new')
    assert _content(tmp_path / 'new') == rows
    assert found.unchecked == 120


def test_definitions_of_foreign_types_are_kept(tmp_path: Path):
    text = 'float64 torque\nuint8 mode'
    with BagWriter(tmp_path / 'bag') as bag:
        definition = define('/drive', 'lab_msgs/msg/Drive', text)
        bag.add_topic('/drive', 'lab_msgs/msg/Drive', definition=definition)
        bag.write('/drive', START, bytes(13))
    (tmp_path / 'bag' / 'metadata.yaml').unlink()
    recover(tmp_path / 'bag', tmp_path / 'new')
    with Reader(tmp_path / 'new') as reader:
        (connection,) = reader.connections
        assert connection.msgtype == 'lab_msgs/msg/Drive'
        assert connection.msgdef.data == text


@pytest.mark.slow
@pytest.mark.parametrize('storage', STORAGES)
def test_all_files_of_a_split_bag_become_one_and_missing_ones_are_named(
    write: Callable[..., Path], rows: list[Row], storage: str, tmp_path: Path
):
    bag = write(storage, splitting=Splitting(seconds=50e-9))
    assert (bag / f'bag_11{_file_suffix(bag)}').exists()
    (bag / f'bag_3{_file_suffix(bag)}').unlink()
    found = recover(bag, tmp_path / 'new')
    assert _content(tmp_path / 'new') == rows[:30] + rows[40:]
    assert _lost(found) == 10
    assert [part.reason for part in found.skipped] == ['the file is missing']
    (bag / 'metadata.yaml').unlink()
    recover(bag, tmp_path / 'second')
    assert _content(tmp_path / 'second') == rows[:30] + rows[40:]


def _file_suffix(bag: Path) -> str:
    return '.db3' if (bag / 'bag_0.db3').exists() else '.mcap'


@pytest.mark.parametrize('mode', ['wal', 'delete'])
def test_a_journal_is_applied_to_a_copy(
    write: Callable[..., Path], rows: list[Row], tmp_path: Path, mode: str
):
    bag = write('sqlite3')
    file = _file(bag)
    (bag / 'metadata.yaml').unlink()
    killed = tmp_path / 'killed'
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(f'PRAGMA journal_mode = {mode}')
        connection.execute('PRAGMA cache_size = 1')
        connection.execute('BEGIN')
        add = 'INSERT INTO messages(topic_id, timestamp, data) VALUES(?, ?, ?)'
        connection.executemany(add, [(1, START + 10_000 + k, rows[0][2]) for k in range(200)])
        if mode == 'wal':
            connection.execute('COMMIT')
        shutil.copytree(bag, killed)
        if mode != 'wal':
            connection.execute('ROLLBACK')
    leftovers = {path.name for path in killed.iterdir()} - {file.name}
    assert leftovers & {f'{file.name}-wal', f'{file.name}-journal'}
    before = _snapshot(killed)
    found = recover(killed, tmp_path / 'new')
    assert found.saved == (320 if mode == 'wal' else 120)
    assert _content(tmp_path / 'new')[:120] == rows
    assert _snapshot(killed) == before


def test_a_destroyed_page_costs_only_its_messages(
    write: Callable[..., Path], rows: list[Row], tmp_path: Path
):
    bag = write('sqlite3')
    file = _file(bag)
    content = file.read_bytes()
    page = content.index(rows[50][2]) // 4096 * 4096
    file.write_bytes(content[:page] + bytes(4096) + content[page + 4096 :])
    found = recover(bag, tmp_path / 'new')
    saved = _content(tmp_path / 'new')
    assert set(saved) < set(rows)
    assert 60 < len(saved) == 120 - _lost(found)
    assert rows[50] not in saved
    assert any(part.offset == page for part in found.skipped)


def test_a_database_whose_schema_is_destroyed_is_read_by_its_pages(
    write: Callable[..., Path], rows: list[Row], tmp_path: Path
):
    bag = write('sqlite3')
    file = _file(bag)
    content = file.read_bytes()
    file.write_bytes(bytes(16) + content[16:100] + bytes(3996) + content[4096:])
    recover(bag, tmp_path / 'new')
    assert _content(tmp_path / 'new') == rows


def test_a_changed_message_in_a_database_is_left_out(
    write: Callable[..., Path], rows: list[Row], tmp_path: Path
):
    bag = write('sqlite3')
    file = _file(bag)
    _change(file, file.read_bytes().index(rows[50][2]) + 40)
    assert not examine(bag).whole
    found = recover(bag, tmp_path / 'new')
    assert _content(tmp_path / 'new') == rows[:50] + rows[51:]
    assert [part.reason for part in found.skipped] == ['message 51 cannot be read']


def test_large_messages_are_followed_over_pages(tmp_path: Path):
    data = b'\0\1\0\0' + bytes(k * k % 251 for k in range(30_000))
    with BagWriter(tmp_path / 'bag', 'sqlite3') as bag:
        bag.add_topic('/big', STATE)
        for number in range(4):
            bag.write('/big', START + number, data[: 7000 * (number + 1)])
    file = _file(tmp_path / 'bag')
    file.write_bytes(bytes(16) + file.read_bytes()[16:])
    recover(tmp_path / 'bag', tmp_path / 'new')
    assert [len(row[2]) for row in _content(tmp_path / 'new')] == [7000, 14_000, 21_000, 28_000]


@pytest.mark.parametrize('storage', STORAGES)
def test_a_changed_name_of_a_topic_is_put_right_by_the_metadata(
    write: Callable[..., Path], rows: list[Row], storage: str, tmp_path: Path
):
    bag = write(storage)
    file = _file(bag)
    _change(file, file.read_bytes().index(b'/leg/') + 1, ord('k'))
    recover(bag, tmp_path / 'new')
    assert Counter(_content(tmp_path / 'new')) == Counter(rows)


@pytest.mark.parametrize('storage', STORAGES)
def test_a_good_bag_is_known_as_whole(write: Callable[..., Path], storage: str):
    bag = write(storage)
    assert examine(bag).whole
    assert examine(_file(bag)).whole
    (bag / 'metadata.yaml').unlink()
    assert not examine(bag).whole


@pytest.mark.parametrize('content', [b'', b'\0' * 5000, b'\x89MCAP0\r\n', b'SQLite format 3\0'])
@pytest.mark.parametrize('name', ['bag.mcap', 'bag.db3'])
def test_where_nothing_can_be_saved_nothing_is_written(tmp_path: Path, name: str, content: bytes):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BagError, match=r'^Nothing can be saved from .*[^.]\.$'):
        recover(tmp_path / name, tmp_path / 'new')
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_what_is_no_bag_or_exists_is_refused(write: Callable[..., Path], tmp_path: Path):
    bag = write('mcap')
    with pytest.raises(BagError, match='exists already'):
        recover(bag, bag)
    with pytest.raises(BagError, match='nearest: bag'):
        recover(tmp_path / 'bags', tmp_path / 'new')
    (tmp_path / 'notes.txt').write_text('hello')
    with pytest.raises(BagError, match=r'found notes.txt'):
        recover(tmp_path / 'notes.txt', tmp_path / 'new')


def _damaged(whole: bytes) -> Iterable[tuple[str, bytes]]:
    draw = random.Random(5)  # noqa: S311 (not for secrets)
    for _ in range(10):
        place = draw.randrange(len(whole))
        yield f'cut at {place}', whole[:place]
    for _ in range(20):
        place = draw.randrange(len(whole))
        byte = whole[place] ^ draw.randrange(1, 256)
        yield f'byte {place} is {byte}', whole[:place] + bytes([byte]) + whole[place + 1 :]


def _complaint(run: Callable[..., object], *arguments: Path) -> str:
    try:
        run(*arguments)
    except BagError as err:
        return str(err)
    return ''


@pytest.mark.slow
@pytest.mark.parametrize('storage', STORAGES)
def test_random_damage_never_invents_messages_and_ends_in_one_sentence_at_most(
    write: Callable[..., Path], rows: list[Row], storage: str, tmp_path: Path
):
    bag = write(storage)
    file = _file(bag)
    target = tmp_path / 'new'
    for label, content in _damaged(file.read_bytes()):
        file.write_bytes(content)
        assert '\n' not in _complaint(read_bag, bag), label
        complaint = _complaint(recover, bag, target)
        assert '\n' not in complaint, label
        if complaint:
            assert not target.exists(), label
        else:
            assert not Counter(_content(target)) - Counter(rows), label
            shutil.rmtree(target)

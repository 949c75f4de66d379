# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Writing bags, and what is left of them when the writer dies."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcap.reader import make_reader
from rosbags.interfaces import QosDurability, QosReliability
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from sysid_ros.bags.reader import read_bag
from sysid_ros.bags.storage import Topic, TopicQos
from sysid_ros.bags.writer import BagWriter
from sysid_ros.errors import BagError

STATE = 'sensor_msgs/msg/JointState'
TEXT = 'std_msgs/msg/String'
#: A message that says nothing.
EMPTY = b'\0\1\0\0\1\0\0\0\0\0\0\0'
SECOND = 1_000_000_000
REPOSITORY = Path(__file__).parents[2]


def _raw(path: Path) -> list[tuple[str, int, bytes]]:
    with Reader(path) as reader:
        return [(item.topic, stamp, bytes(data)) for item, stamp, data in reader.messages()]


def test_other_readers_get_every_byte_stamp_and_qos(tmp_path: Path, messages: Any):
    data = [messages.joint_state(k, ['a'], [k]) for k in range(50)]
    with BagWriter(tmp_path / 'deep' / 'bag') as bag:
        bag.add_topic('/js', STATE, TopicQos(reliable=False, transient_local=True, depth=3))
        for stamp, item in enumerate(data):
            if stamp == 25:
                bag.flush()
                bag.flush()
                bag.add_topic('/late', 'std_msgs/msg/String')
            bag.write('/js', stamp + 1, item)
    assert _raw(tmp_path / 'deep' / 'bag') == [('/js', k + 1, item) for k, item in enumerate(data)]
    with Reader(tmp_path / 'deep' / 'bag') as reader:
        assert reader.connections[1].topic == '/late'
        (qos,) = reader.connections[0].ext.offered_qos_profiles
    assert qos.reliability is QosReliability.BEST_EFFORT
    assert qos.durability is QosDurability.TRANSIENT_LOCAL
    assert qos.depth == 3


def test_bad_arguments_create_nothing(tmp_path: Path):
    with pytest.raises(BagError, match=r"^Expected compression none or zstd, found 'lzma'"):
        BagWriter(tmp_path / 'bag', compression='lzma')
    with (
        BagWriter(tmp_path / 'bag') as bag,
        pytest.raises(BagError, match='nearest: sensor_msgs/msg/JointState'),
    ):
        bag.add_topic('/js', 'sensor_msgs/msg/JointStates')
    assert list(tmp_path.iterdir()) == []
    (tmp_path / 'file').write_text('')
    with pytest.raises(BagError, match='exists already'):
        BagWriter(tmp_path / 'file')
    with pytest.raises(BagError, match='Cannot write the bag'):
        BagWriter(tmp_path / 'file' / 'bag').add_topic('/js', STATE)


def test_a_topic_is_added_once_and_before_its_messages(tmp_path: Path, messages: Any):
    with BagWriter(tmp_path / 'bag') as bag:
        bag.add_topic('/js', STATE)
        with pytest.raises(BagError, match='already'):
            bag.add_topic('/js', STATE)
        with pytest.raises(BagError, match='nearest: /js'):
            bag.write('/jss', 1, messages.joint_state(0, ['a'], [1]))


def test_an_exception_leaves_a_finished_bag(tmp_path: Path, messages: Any):
    def interrupted() -> None:
        with BagWriter(tmp_path / 'bag') as bag:
            bag.add_topic('/js', STATE)
            bag.write('/js', 1, messages.joint_state(1, ['a'], [1]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(read_bag(tmp_path / 'bag').topics[0].receive_ns) == 1


def test_chunks_carry_checksums_and_may_be_compressed(tmp_path: Path):
    for compression in ('none', 'zstd'):
        path = tmp_path / compression
        with BagWriter(path, compression=compression) as bag:
            bag.add_topic('/s', TEXT)
            for stamp in range(30):
                bag.write('/s', stamp, EMPTY + bytes(100_000))
        assert [stamp for _, stamp, _ in _raw(path)] == list(range(30))
        with (path / f'{compression}_0.mcap').open('rb') as stream:
            reader = make_reader(stream, validate_crcs=True)
            summary = reader.get_summary()
            assert summary is not None
            assert len(list(reader.iter_messages())) == 30
        assert len(summary.chunk_indexes) > 1
        assert {index.compression for index in summary.chunk_indexes} == {
            compression.replace('none', '')
        }
    sizes = [(tmp_path / name / f'{name}_0.mcap').stat().st_size for name in ('none', 'zstd')]
    assert sizes[1] < sizes[0] / 10


def test_other_message_types_are_written_with_their_definition(tmp_path: Path):
    text = f'float64 value\nown_msgs/Inner inner\n{"=" * 80}\nMSG: own_msgs/Inner\nint32 count\n'
    with BagWriter(tmp_path / 'bag') as bag:
        bag.add_topic('/o', 'own_msgs/msg/Outer', definition=text)
        bag.write('/o', 1, EMPTY)
    types = get_typestore(Stores.EMPTY)
    with Reader(tmp_path / 'bag') as reader:
        (found,) = reader.connections
    types.register(get_types_from_msg(found.msgdef.data, found.msgtype))
    assert found.msgdef.data == text
    assert found.digest == types.hash_rihs01('own_msgs/msg/Outer')


def test_definitions_that_are_not_complete_are_kept_as_they_are(tmp_path: Path):
    texts = {'ros2msg': 'own_msgs/Lost lost\n', 'ros2idl': 'module own {};'}
    with BagWriter(tmp_path / 'bag') as bag:
        for language, text in texts.items():
            bag.add(Topic(f'/{language}', f'own_msgs/msg/{language}', TopicQos(), text, language))
    with Reader(tmp_path / 'bag') as reader:
        found = {item.topic: (item.msgdef.data, item.digest) for item in reader.connections}
    assert found == {f'/{language}': (text, '') for language, text in texts.items()}


class _FullDisk(io.FileIO):
    """A file on a disk that lets it grow to a size."""

    limit = 1 << 30

    def write(self, data: Any) -> int:
        room = self.limit - self.tell()
        if not room:
            raise OSError(errno.ENOSPC, 'No space left on device')
        return super().write(memoryview(data)[:room])


@pytest.mark.parametrize('room', [0, 1, 10_000])
def test_a_full_disk_leaves_what_was_flushed_before(
    tmp_path: Path, messages: Any, room: int, monkeypatch: pytest.MonkeyPatch
):
    disks = []

    def opened(path: Path, _: str) -> io.BufferedWriter:
        disks.append(_FullDisk(path, 'xb'))
        return io.BufferedWriter(disks[0])

    monkeypatch.setattr(Path, 'open', opened)
    bag = BagWriter(tmp_path / 'bag')
    bag.add_topic('/s', TEXT)
    for stamp in range(5):
        bag.write('/s', stamp, messages.text('short'))
    bag.flush()
    disks[0].limit = disks[0].tell() + room
    bag.write('/s', 5, messages.text('long' * 5000))
    with pytest.raises(BagError, match=r'Cannot write the bag .*: No space left on device'):
        bag.flush()
    assert bag.counts == {'/s': 5}
    bag.close()
    assert not bag.finished
    monkeypatch.undo()
    found = read_bag(tmp_path / 'bag')
    assert found.unfinished == ('bag_0.mcap',)
    assert found.text_columns[0].receive_ns.tolist() == list(range(5))


_VICTIM = """
import os, signal, sys
from pathlib import Path
from sysid_ros.bags.writer import BagWriter
bag = BagWriter(Path(sys.argv[1]))
bag.set_facts({'notes': 'first', 'version': '1'})
bag.add_topic('/s', 'std_msgs/msg/String')
for k in range(300):
    bag.write('/s', k + 1, b'\\0\\1\\0\\0\\1\\0\\0\\0\\0')
bag.set_facts({'notes': 'second'})
bag.flush()
bag.write('/s', 1000, b'\\0\\1\\0\\0\\1\\0\\0\\0\\0')
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, 'SIGKILL'), reason='needs SIGKILL')
def test_what_was_flushed_survives_a_kill(tmp_path: Path):
    path = tmp_path / 'bag'
    done = subprocess.run(
        [sys.executable, '-c', _VICTIM, str(path)],
        env={**os.environ, 'PYTHONPATH': str(REPOSITORY)},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    found = read_bag(path)
    assert found.unfinished == ('bag_0.mcap',)
    assert len(found.text_columns[0].texts) == 300
    assert dict(found.facts) == {'notes': 'second', 'version': '1'}

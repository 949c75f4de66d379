# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Writing bags, and what is left of them when the writer dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mcap.exceptions import McapError
from mcap.stream_reader import StreamReader
from rosbags.interfaces import QosDurability, QosReliability
from rosbags.rosbag2 import Reader
from rosbags.rosbag2.storage_sqlite3 import Sqlite3Reader

from sysid_ros.bags import BagWriter, TopicQos, UnfinishedBagError, read_bag
from sysid_ros.errors import BagError

STATE = 'sensor_msgs/msg/JointState'
REPOSITORY = Path(__file__).parents[2]


def _raw(path: Path) -> list[tuple[str, int, bytes]]:
    with Reader(path) as reader:
        return [(item.topic, stamp, bytes(data)) for item, stamp, data in reader.messages()]


@pytest.mark.parametrize('storage', ['mcap', 'sqlite3'])
def test_other_readers_get_every_byte_stamp_and_qos(tmp_path: Path, messages: Any, storage: str):
    data = [messages.joint_state(k, ['a'], [k]) for k in range(50)]
    with BagWriter(tmp_path / 'deep' / 'bag', storage) as bag:
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
    with pytest.raises(BagError, match='Expected storage mcap or sqlite3'):
        BagWriter(tmp_path / 'bag', 'csv')
    with (
        BagWriter(tmp_path / 'bag') as bag,
        pytest.raises(BagError, match='nearest: sensor_msgs/msg/JointState'),
    ):
        bag.add_topic('/js', 'sensor_msgs/msg/JointStates')
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_not_touched(tmp_path: Path):
    (tmp_path / 'bag').mkdir()
    with pytest.raises(BagError, match='exists already'):
        BagWriter(tmp_path / 'bag')
    assert list((tmp_path / 'bag').iterdir()) == []


def test_a_topic_is_added_once_and_before_its_messages(tmp_path: Path, messages: Any):
    with BagWriter(tmp_path / 'bag') as bag:
        bag.add_topic('/js', STATE)
        with pytest.raises(BagError, match='already'):
            bag.add_topic('/js', STATE)
        with pytest.raises(BagError, match='nearest: /js'):
            bag.write('/jss', 1, messages.joint_state(0, ['a'], [1]))


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path):
    (tmp_path / 'file').write_text('')
    bag = BagWriter(tmp_path / 'file' / 'bag')
    with pytest.raises(BagError, match='Cannot write the bag'):
        bag.add_topic('/js', STATE)


@pytest.mark.parametrize('storage', ['mcap', 'sqlite3'])
def test_an_exception_leaves_a_finished_bag(tmp_path: Path, messages: Any, storage: str):
    def interrupted() -> None:
        with BagWriter(tmp_path / 'bag', storage) as bag:
            bag.add_topic('/js', STATE)
            bag.write('/js', 1, messages.joint_state(1, ['a'], [1]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(read_bag(tmp_path / 'bag').topics[0].receive_ns) == 1


@pytest.mark.parametrize('storage', ['mcap', 'sqlite3'])
def test_another_thread_may_write(tmp_path: Path, messages: Any, storage: str):
    with BagWriter(tmp_path / 'bag', storage) as bag:
        bag.add_topic('/js', STATE)
        data = messages.joint_state(1, ['a'], [1])
        thread = threading.Thread(target=lambda: (bag.write('/js', 1, data), bag.flush()))
        thread.start()
        thread.join()
    assert len(_raw(tmp_path / 'bag')) == 1


_VICTIM = """
import os, signal, sys
from pathlib import Path
from sysid_ros.bags import BagWriter
bag = BagWriter(Path(sys.argv[1]), sys.argv[2])
bag.add_topic('/s', 'std_msgs/msg/String')
for k in range(300):
    bag.write('/s', k + 1, b'\\0\\1\\0\\0\\1\\0\\0\\0\\0')
bag.flush()
bag.write('/s', 1000, b'\\0\\1\\0\\0\\1\\0\\0\\0\\0')
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(signal, 'SIGKILL'), reason='needs SIGKILL')
@pytest.mark.parametrize('storage', ['mcap', 'sqlite3'])
def test_what_was_flushed_survives_a_kill(tmp_path: Path, storage: str):
    path = tmp_path / 'bag'
    done = subprocess.run(
        [sys.executable, '-c', _VICTIM, str(path), storage],
        env={**os.environ, 'PYTHONPATH': str(REPOSITORY)},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    with pytest.raises(UnfinishedBagError, match='was the recorder killed'):
        read_bag(path)
    assert len(_salvaged(path)) >= 300


def _salvaged(path: Path) -> list[int]:
    if (path / 'bag_0.db3').exists():
        reader = Sqlite3Reader(path / 'bag_0.db3')
        reader.open()
        return [stamp for _, stamp, _ in reader.messages(reader.connections)]
    stamps: list[int] = []
    with (path / 'bag_0.mcap').open('rb') as stream, suppress(McapError, EOFError):
        stamps.extend(
            record.log_time
            for record in StreamReader(stream).records
            if type(record).__name__ == 'Message'
        )
    return stamps

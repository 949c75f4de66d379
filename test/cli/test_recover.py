# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid recover`` and ``sysid predict`` write bags: a whole one, one with a prediction beside."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import Reader

from builders.cli_project import Outcome, Project, Sysid
from sysid_ros.bags.reader import read_bag
from sysid_ros.bags.storage import TopicQos
from sysid_ros.bags.writer import BagWriter, copy_bag
from sysid_ros.workflows.writing import Identified

pytestmark = pytest.mark.slow

STATE = 'sensor_msgs/msg/JointState'
START = 1_700_000_000_000_000_000


@pytest.fixture
def bag(tmp_path: Path) -> Path:
    """Return a bag of 100 messages that was not finished."""
    path = tmp_path / 'train'
    with BagWriter(tmp_path / 'source' / 'train') as writer:
        writer.set_facts({'notes': 'first'})
        writer.add_topic('/joint_states', STATE, TopicQos(reliable=False))
        for number in range(100):
            stamp = START + number * 10_000_000
            header = (stamp // 10**9).to_bytes(4, 'little') + bytes(4)
            # A JointState without joints.
            message = b'\0\1\0\0' + header + b'\1\0\0\0' + bytes(20)
            writer.write('/joint_states', stamp, message, stamp - 500)
        writer.flush()
        # As a recorder leaves it that is killed now.
        shutil.copytree(writer.path, path)
    return path


def test_every_message_is_in_a_bag_that_is_whole(bag: Path, sysid: Sysid):
    before = [file.read_bytes() for file in bag.iterdir()]
    done = sysid('recover', bag)
    assert (done.code, done.err) == (0, '')
    assert 'train_0.mcap was not finished' in done.out
    assert [file.read_bytes() for file in bag.iterdir()] == before
    whole = bag.with_name('train_recovered')
    with Reader(whole) as reader, Reader(bag.parent / 'source' / 'train') as original:
        assert list(map(_plain, reader.messages())) == list(map(_plain, original.messages()))
        assert reader.connections[0].ext == original.connections[0].ext
    assert dict(read_bag(whole).facts) == {'notes': 'first'}
    copied = json.loads(sysid('recover', whole, '-o', bag.with_name('copy'), '--json').out)
    assert (copied['counts'], copied['unfinished']) == ({'/joint_states': 100}, [])


def _plain(message: tuple[object, int, bytes]) -> tuple[int, bytes]:
    return message[1], bytes(message[2])


def test_a_target_that_exists_or_a_bag_that_is_damaged_leaves_nothing(bag: Path, sysid: Sysid):
    bag.with_name('train_recovered').mkdir()
    assert "train_recovered' exists already" in sysid('recover', bag).err
    (file,) = bag.iterdir()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    before = sorted(bag.parent.rglob('*'))
    done = sysid('recover', bag, '-o', bag.with_name('new'))
    assert done.code == 2
    assert 'checksum' in done.err
    assert '`mcap recover' in done.err
    assert sorted(bag.parent.rglob('*')) == before


# Predictions


TOPICS = ['/measured', '/nominal', '/predicted', '/residual']


def _by_topic(path: Path) -> dict[str, list[tuple[int, bytes]]]:
    """Return times and bytes of the messages of each topic, by rosbags."""
    found: dict[str, list[tuple[int, bytes]]] = {}
    with AnyReader([path]) as reader:
        for connection, stamp, data in reader.messages():
            found.setdefault(connection.topic, []).append((stamp, bytes(data)))
    return found


@pytest.fixture
def predicted(project: Project, sysid: Sysid, identified: Identified) -> Outcome:
    """Return what the command did with a result."""
    identified.result.save(project.folder / 'out' / 'result.json')
    return sysid('predict', 'out', 'validate', '-o', 'new')


def test_the_file_holds_the_bag_and_four_topics_beside_it(project: Project, predicted: Outcome):
    assert (predicted.code, predicted.err) == (0, '')
    for joint in ('shoulder', 'elbow'):
        rows = [line.split() for line in predicted.out.splitlines() if line.startswith(joint)]
        assert [row[1] for row in rows] == ['position', 'velocity', 'effort']
    written = _by_topic(project.folder / 'new')
    recorded = _by_topic(project.folder / 'validate' / 'validate.mcap')
    assert sorted(written) == sorted([*recorded, *TOPICS])
    for topic, messages in recorded.items():
        assert written[topic] == messages
    assert len({len(written[topic]) for topic in TOPICS}) == 1
    stamps = {stamp for stamp, _ in recorded['/joint_states']}
    assert {stamp for stamp, _ in written['/predicted']} < stamps


def test_a_bag_with_topics_of_these_names_is_refused(project: Project, sysid: Sysid):
    with BagWriter(project.folder / 'mixed') as bag:
        copy_bag(project.folder / 'validate', bag)
        bag.add_topic('/predicted', 'std_msgs/msg/String')
        bag.write('/predicted', 1_700_000_000_000_000_000, b'\0\1\0\0\1\0\0\0\0\0\0\0')
    done = sysid('predict', 'arm.xml', 'mixed', '-o', 'v')
    assert done.code == 2
    assert "Topic '/predicted' is in the bag" in done.err
    assert not (project.folder / 'v').exists()

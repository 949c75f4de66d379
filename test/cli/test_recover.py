# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid recover``, and how other commands point to it."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from sysid_ros.bags import BagWriter, read_bag

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STATE = 'sensor_msgs/msg/JointState'
START = 1_700_000_000_000_000_000


@pytest.fixture
def bag(tmp_path: Path) -> Path:
    """Return a bag of 100 messages in 1 s that was not finished."""
    path = tmp_path / 'train'
    with BagWriter(tmp_path / 'source' / 'train') as writer:
        writer.add_topic('/joint_states', STATE)
        for number in range(100):
            stamp = START + number * 10_000_000
            header = (stamp // 10**9).to_bytes(4, 'little') + bytes(4)
            # A JointState without joints.
            writer.write('/joint_states', stamp, b'\0\1\0\0' + header + b'\1\0\0\0' + bytes(20))
            if number % 20 == 19:
                writer.flush()
        # As a recorder leaves it that is killed now.
        shutil.copytree(writer.path, path)
    return path


def test_what_was_saved_is_a_table(bag: Path, sysid: Callable[..., Any]):
    done = sysid('recover', bag)
    assert done.code == 0
    assert done.err == ''
    assert done.out.splitlines() == [
        'topic          saved  lost  from/s   to/s',
        '/joint_states    100     0   0.000  0.990',
        'total            100     0',
        'times are since 2023-11-14 22:13:20.000+00:00',
        f'wrote {bag}_recovered',
    ]


def test_what_was_not_saved_is_said(bag: Path, sysid: Callable[..., Any], tmp_path: Path):
    file = bag / 'train_0.mcap'
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    lines = sysid('recover', bag, '--output', tmp_path / 'new').out.splitlines()
    assert '80    20' in lines[1]
    assert lines[4].startswith('skipped: train_0.mcap, byte ')
    assert lines[4].endswith('20 messages, 0.400 s to 0.590 s: the checksum of a chunk is wrong')


def test_a_whole_bag_is_left_alone_unless_an_output_is_named(
    bag: Path, sysid: Callable[..., Any], tmp_path: Path
):
    sysid('recover', bag)
    good = tmp_path / 'train_recovered'
    done = sysid('recover', good)
    assert (done.code, done.out) == (0, f'{good} is whole: 100 messages; nothing to recover\n')
    assert not (tmp_path / 'train_recovered_recovered').exists()
    copied = sysid('recover', good, '-o', tmp_path / 'copy', '--json')
    assert json.loads(copied.out)['topics'][0]['saved'] == 100
    assert (tmp_path / 'copy' / 'metadata.yaml').exists()


def test_a_target_that_exists_is_refused(bag: Path, sysid: Callable[..., Any]):
    sysid('recover', bag)
    done = sysid('recover', bag)
    assert done.code == 2
    assert done.err.startswith(f"sysid: The bag '{bag}_recovered' exists already")


@pytest.mark.parametrize('command', [['inspect'], ['plot'], ['convert', 'arm.xml']])
def test_other_commands_name_the_one_that_recovers(
    project: Any, bag: Path, sysid: Callable[..., Any], command: list[str]
):
    assert project.config.exists()
    done = sysid(command[0], bag, *command[1:])
    assert done.code == 2
    assert f'`sysid recover {bag}` saves what is in it.' in done.err
    assert done.err.count('\n') == 1


def test_a_recovered_bag_is_read(bag: Path, sysid: Callable[..., Any]):
    sysid('recover', bag)
    found = read_bag(bag.with_name('train_recovered'))
    assert len(found.topics) + len(found.unread) == 1

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A snapshot is a bag of the last seconds, however often it is asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml
from rosbags.rosbag2 import Reader

from sysid_ros.bags.recording import TopicSpec
from sysid_ros.bags.snapshot import Snapshot
from sysid_ros.bags.writer import TopicQos
from sysid_ros.errors import BagError

if TYPE_CHECKING:
    from pathlib import Path

STATES = TopicSpec('/joint_states', 'sensor_msgs/msg/JointState')
MODEL = TopicSpec('/model', 'std_msgs/msg/String', TopicQos(transient_local=True))
MS = 10**6


class Clock:
    """A clock that stands still until it is set."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time, s."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Return a clock at 0."""
    return Clock()


def _content(path: Path) -> list[tuple[str, int, bytes]]:
    with Reader(path) as reader:
        return [(c.topic, time, bytes(data)) for c, time, data in reader.messages()]


def _fill(snapshot: Snapshot, clock: Clock, seconds: int) -> list[tuple[str, int, bytes]]:
    """Put a message every tenth of a second, and return them."""
    messages = [('/joint_states', 100 * MS * k, b'%08d' % k) for k in range(10 * seconds)]
    for number, message in enumerate(messages):
        clock.now = number / 10
        snapshot.put(*message)
    return messages


def test_a_snapshot_holds_the_last_seconds_and_the_next_one_overlaps(tmp_path: Path, clock: Clock):
    snapshot = Snapshot(2.0, clock=clock)
    messages = _fill(snapshot, clock, 10)
    done = snapshot.write(tmp_path / 'one', [STATES])
    assert done.failure is None
    assert done.seconds == pytest.approx(2.0)
    assert _content(tmp_path / 'one') == messages[-21:]
    clock.now += 1.0
    snapshot.put('/joint_states', 0, b'now')
    snapshot.write(tmp_path / 'two', [STATES])
    assert _content(tmp_path / 'two')[1:] == messages[-11:]


def test_memory_bounds_a_snapshot_too_and_the_oldest_go_first(tmp_path: Path, clock: Clock):
    snapshot = Snapshot(1e6, most_bytes=10_000, clock=clock)
    messages = [('/joint_states', k * MS, bytes(1000)) for k in range(100)]
    for message in messages:
        snapshot.put(*message)
    snapshot.write(tmp_path / 'bag', [STATES])
    kept = _content(tmp_path / 'bag')
    assert 5 <= len(kept) <= 9
    assert kept == messages[-len(kept) :]


def test_latched_messages_are_in_every_snapshot_once(tmp_path: Path, clock: Clock):
    snapshot = Snapshot(2.0, clock=clock)
    snapshot.put('/model', 0, b'old')
    messages = _fill(snapshot, clock, 10)
    snapshot.put('/model', messages[-1][1], b'new')
    latched = [('/model', b'old'), ('/model', b'new')]
    snapshot.write(tmp_path / 'bag', [STATES, MODEL], latched)
    content = _content(tmp_path / 'bag')
    first, last = messages[-21][1], messages[-1][1]
    assert [item for item in content if item[0] == '/model'] == [
        ('/model', first, b'old'),
        ('/model', last, b'new'),
    ]
    assert [item for item in content if item[0] != '/model'] == messages[-21:]


def test_losses_of_the_time_and_facts_are_in_the_bag(tmp_path: Path, clock: Clock):
    snapshot = Snapshot(2.0, clock=clock)
    snapshot.count_lost('/joint_states', 7)
    _fill(snapshot, clock, 10)
    snapshot.count_lost('/joint_states', 3)
    done = snapshot.write(tmp_path / 'bag', [STATES], facts={'notes': 'fell over'})
    assert [count.lost for count in done.counts] == [3]
    text = (tmp_path / 'bag' / 'metadata.yaml').read_text()
    custom = yaml.safe_load(text)['rosbag2_bagfile_information']['custom_data']
    assert json.loads(custom['lost']) == {'/joint_states': 3}
    assert custom['notes'] == 'fell over'


def test_without_messages_there_is_no_bag(tmp_path: Path, clock: Clock):
    snapshot = Snapshot(2.0, clock=clock)
    _fill(snapshot, clock, 3)
    clock.now = 100.0
    with pytest.raises(
        BagError, match=r'^Expected messages in the last 2 s, found none to write.$'
    ):
        snapshot.write(tmp_path / 'bag', [STATES], [('/model', b'old')])
    assert not (tmp_path / 'bag').exists()

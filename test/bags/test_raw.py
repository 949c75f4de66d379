# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Messages come out of a bag as they went in, byte by byte, and go into another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from mcap.reader import make_reader
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import Reader

from sysid_ros.bags import BagWriter, TopicQos
from sysid_ros.bags.output.files import define
from sysid_ros.bags.raw import RawMessages, RawTopic, read_raw, write_mcap
from sysid_ros.bags.writer import Splitting
from sysid_ros.errors import BagError

if TYPE_CHECKING:
    from pathlib import Path

STATE = 'sensor_msgs/msg/JointState'
TEXT = 'std_msgs/msg/String'
OWN = 'somebody_msgs/msg/Grip'
SENSOR_DATA = TopicQos(reliable=False, depth=5)
LATCHED = TopicQos(transient_local=True, depth=1)


@pytest.fixture(params=['mcap', 'sqlite3'])
def bag(request: pytest.FixtureRequest, tmp_path: Path, messages: Any) -> Path:
    """Return a bag in two files whose messages have stamps that are not in order."""
    with BagWriter(tmp_path / 'bag', request.param, splitting=Splitting(seconds=2e-6)) as bag:
        bag.add_topic('/js', STATE, SENSOR_DATA)
        bag.add_topic('/description', TEXT, LATCHED)
        bag.add_topic('/grip', OWN, definition=define('/grip', OWN, 'float64 force\n'))
        bag.write('/description', 1000, messages.text('<mujoco/>'))
        for stamp in (3000, 1500, 2500, 5000, 4000):
            bag.write('/js', stamp, messages.joint_state(stamp, ['a'], [stamp]))
        bag.write('/grip', 4500, b'\0\1\0\0' + bytes(8))
    return tmp_path / 'bag'


def _rows(content: RawMessages) -> list[tuple[str, int, bytes]]:
    return [
        (content.topics[number].name, int(time), message)
        for number, time, message in zip(
            content.numbers, content.times_ns, content.messages, strict=True
        )
    ]


def _by_rosbags(bag: Path) -> list[tuple[str, int, bytes]]:
    with Reader(bag) as reader:
        return [(c.topic, stamp, bytes(data)) for c, stamp, data in reader.messages()]


def test_every_message_is_there_in_the_order_of_the_stamps(bag: Path):
    content = read_raw(bag)
    assert len(content.messages) == 7
    assert _rows(content) == sorted(_by_rosbags(bag), key=lambda row: row[1])


def test_topics_have_the_type_definition_and_qos_of_the_bag(bag: Path):
    topics = {topic.name: topic for topic in read_raw(bag).topics}
    assert {name: topic.msgtype for name, topic in topics.items()} == {
        '/js': STATE,
        '/description': TEXT,
        '/grip': OWN,
    }
    assert topics['/js'].qos == SENSOR_DATA
    assert topics['/description'].qos == LATCHED
    assert topics['/grip'].qos == TopicQos()
    assert topics['/grip'].definition.text.startswith('float64 force')


@pytest.mark.parametrize(
    ('topics', 'exclude', 'expected'),
    [
        (['/js'], '', {'/js'}),
        (['/*r*p*'], '', {'/grip', '/description'}),
        ([], 'js|grip', {'/description'}),
        (['/js', '/grip'], '^/g', {'/js'}),
    ],
)
def test_topics_are_chosen(bag: Path, topics: list[str], exclude: str, expected: set[str]):
    assert {topic.name for topic in read_raw(bag, topics, exclude).topics} == expected


def test_a_choice_of_nothing_names_the_nearest(bag: Path):
    with pytest.raises(BagError, match=r'no messages of /jss that are wanted; nearest: /js'):
        read_raw(bag, ['/jss'])


def test_tables_of_numbers_are_no_messages(tmp_path: Path):
    (tmp_path / 'run.csv').write_text('time,a\n0,1\n1,2\n')
    with pytest.raises(BagError, match='Expected a bag of messages, found tables'):
        read_raw(tmp_path / 'run.csv')


def test_messages_of_two_sources_are_in_one_order_and_can_be_taken_apart():
    def of(topic: str, times: list[int]) -> RawMessages:
        names = tuple(f'{topic}{time}'.encode() for time in times)
        numbers = np.zeros(len(times), dtype=np.int64)
        return RawMessages((RawTopic(topic, define(topic, TEXT)),), np.array(times), numbers, names)

    both = of('/a', [1, 3, 5]).beside(of('/b', [2, 3]))
    assert both.messages == (b'/a1', b'/b2', b'/a3', b'/b3', b'/a5')
    assert _rows(both.without({'/a'})) == _rows(of('/b', [2, 3]))


def test_what_is_written_is_read_by_others(bag: Path, tmp_path: Path):
    content = read_raw(bag)
    write_mcap(tmp_path / 'new' / 'all.mcap', content)
    assert _rows(read_raw(tmp_path / 'new' / 'all.mcap')) == _rows(content)
    with AnyReader([tmp_path / 'new' / 'all.mcap']) as reader:
        rows = [(c.topic, stamp, bytes(data)) for c, stamp, data in reader.messages()]
        assert rows == _rows(content)
        force = next(c for c in reader.connections if c.topic == '/grip')
        assert force.msgdef.data.startswith('float64 force')
    with (tmp_path / 'new' / 'all.mcap').open('rb') as stream:
        found = [(c.topic, m.log_time, m.data) for _, c, m in make_reader(stream).iter_messages()]
    assert found == _rows(content)
    assert [entry.name for entry in (tmp_path / 'new').iterdir()] == ['all.mcap']


def test_what_cannot_be_written_leaves_nothing(bag: Path, tmp_path: Path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(BagError, match='Cannot write'):
        write_mcap(tmp_path / 'file' / 'all.mcap', read_raw(bag))
    assert (tmp_path / 'file').read_text() == ''

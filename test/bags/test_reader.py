# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Reading bags into columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rosbags.rosbag2 import StoragePlugin, Writer

from sysid_ros.bags import Field, TopicColumns
from sysid_ros.bags.reader import read_bag
from sysid_ros.bags.writer import BagWriter
from sysid_ros.errors import BagError

STATE = 'sensor_msgs/msg/JointState'
ARRAY = 'std_msgs/msg/Float64MultiArray'
TRAJECTORY = 'trajectory_msgs/msg/JointTrajectory'
TEXT = 'std_msgs/msg/String'
START = 1_700_000_000_000_000_000
MS = 1_000_000


def _field(columns: TopicColumns, name: str) -> Field:
    return {field.name: field for field in columns.fields}[name]


def test_joint_states_come_back_by_name_with_both_stamps(
    messages: Any, write_bag: Callable[..., Path]
):
    values = np.arange(60.0).reshape(20, 3)
    rows = [
        (
            START + 2 * MS * k + 5,
            messages.joint_state(START + 2 * MS * k, ['a', 'bb', 'ccc'], row, row + 100, row + 200),
        )
        for k, row in enumerate(values)
    ]
    path = write_bag({('/joint_states', STATE): rows})
    (topic,) = read_bag(path).topics
    assert topic.receive_ns.tolist() == [START + 2 * MS * k + 5 for k in range(20)]
    assert topic.header_ns.tolist() == [START + 2 * MS * k for k in range(20)]
    for offset, name in ((0, 'position'), (100, 'velocity'), (200, 'effort')):
        field = _field(topic, name)
        assert field.labels == ('a', 'bb', 'ccc')
        np.testing.assert_array_equal(field.values, values + offset)


def test_a_changing_order_of_names_does_not_mix_joints(
    messages: Any, write_bag: Callable[..., Path]
):
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


def test_joint_states_without_names_are_labelled_by_index(
    messages: Any, write_bag: Callable[..., Path]
):
    rows = [(START, messages.joint_state(0, [], [1, 2]))]
    (topic,) = read_bag(write_bag({('/joint_states', STATE): rows})).topics
    assert [field.name for field in topic.fields] == ['position']
    assert topic.fields[0].labels == ('0', '1')
    assert topic.header_ns.tolist() == [0]


def test_arrays_are_labelled_by_index_and_have_no_header(
    messages: Any, write_bag: Callable[..., Path]
):
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


def test_points_that_act_at_once_are_held_and_have_a_row_per_message(
    messages: Any, write_bag: Callable[..., Path]
):
    rows = [
        (START + 10 * MS * k + 7, messages.trajectory(START + 10 * MS * k, ['a'], [(0, [k])]))
        for k in range(5)
    ]
    (topic,) = read_bag(write_bag({('/c/joint_trajectory', TRAJECTORY): rows})).topics
    assert topic.header_ns.tolist() == [START + 10 * k * MS for k in range(5)]
    assert topic.receive_ns.tolist() == [START + 10 * k * MS + 7 for k in range(5)]
    np.testing.assert_array_equal(_field(topic, 'position').values[:, 0], np.arange(5))
    assert not _field(topic, 'position').interpolated


def test_a_point_that_is_replaced_halfway_is_reached_halfway(
    messages: Any, write_bag: Callable[..., Path]
):
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


def test_a_trajectory_replaces_what_is_left_of_the_one_before(
    messages: Any, write_bag: Callable[..., Path]
):
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


def test_trajectories_of_other_joints_go_on_in_parallel(
    messages: Any, write_bag: Callable[..., Path]
):
    rows = [
        (START, messages.trajectory(0, ['a'], [(0.1, [1]), (0.5, [2])])),
        (START + 200 * MS, messages.trajectory(0, ['b'], [(0.1, [3])])),
    ]
    (topic,) = read_bag(write_bag({('/c/joint_trajectory', TRAJECTORY): rows})).topics
    assert ((topic.receive_ns - START) // MS).tolist() == [100, 300, 500]
    nan = np.nan
    np.testing.assert_array_equal(_field(topic, 'position').values, [[1, nan], [nan, 3], [2, nan]])
    assert topic.legs is None


def test_all_texts_are_kept_with_their_stamps(messages: Any, write_bag: Callable[..., Path]):
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


def test_a_damaged_message_costs_its_topic_only(messages: Any, write_bag: Callable[..., Path]):
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


def test_custom_definitions_that_cannot_be_parsed_do_not_matter(messages: Any, tmp_path: Path):
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


def test_what_is_no_bag_is_an_error_that_names_the_nearest(
    messages: Any, write_bag: Callable[..., Path], tmp_path: Path
):
    write_bag({('/js', STATE): [(START, messages.joint_state(0, ['a'], [1]))]}, name='train_1')
    assert 'nearest: train_1' in _error(tmp_path / 'train_2')
    assert 'There is no bag' in _error(tmp_path / 'no' / 'such' / 'folder')
    assert 'bags inside: train_1' in _error(tmp_path)
    (tmp_path / 'notes.txt').write_text('hello')
    assert '.mcap, .db3, .bag, .csv or .parquet' in _error(tmp_path / 'notes.txt')


def test_a_bag_whose_recorder_was_killed_is_read_and_says_so(messages: Any, tmp_path: Path):
    writer = BagWriter(tmp_path / 'killed')
    writer.add_topic('/js', STATE)
    writer.write('/js', START, messages.joint_state(0, ['a'], [1]))
    writer.flush()
    for path in (tmp_path / 'killed', tmp_path / 'killed' / 'killed_0.mcap'):
        found = read_bag(path)
        assert found.unfinished == ('killed_0.mcap',)
        assert len(found.topics[0].receive_ns) == 1
    writer.close()
    assert read_bag(tmp_path / 'killed').unfinished == ()


def test_a_truncated_mcap_is_read_to_its_last_chunk_and_told_from_a_damaged_one(
    messages: Any, tmp_path: Path
):
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


def test_metadata_without_its_data_file_or_without_sense_is_an_error(
    messages: Any, write_bag: Callable[..., Path]
):
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


def test_stamps_go_on_where_the_recorders_clock_was_set_back(messages: Any, tmp_path: Path):
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
    messages: Any, write_bag: Callable[..., Path]
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

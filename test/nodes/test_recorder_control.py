# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Pausing, splitting, waiting and watching a recorder in a graph of real publishers."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from builders.ros_graph import RosClient, StartNode

pytestmark = [pytest.mark.ros, pytest.mark.patient]

#: Publishes the time of a simulation that began at 1000 s and runs twice as fast as the wall.
CLOCK = """
import time
import rclpy
from rosgraph_msgs.msg import Clock

rclpy.init()
publisher = rclpy.create_node('simulation').create_publisher(Clock, '/clock', 10)
start = time.monotonic()
while True:
    message = Clock()
    nanoseconds = int(1000e9 + 2e9 * (time.monotonic() - start))
    message.clock.sec, message.clock.nanosec = divmod(nanoseconds, 10**9)
    publisher.publish(message)
    time.sleep(0.005)
"""


def test_a_recording_is_paused_resumed_and_split(
    record: Callable[..., Any],
    publish: Callable[..., Any],
    wait_for_status: Callable[..., Any],
    trigger: Callable[..., Any],
    read_numbers: Callable[..., Any],
    ros_client: RosClient,
    tmp_path: Path,
) -> None:
    from sensor_msgs.msg import JointState  # noqa: PLC0415 (absent without ROS)

    bag = tmp_path / 'bag'
    recorder = record(output=bag, topics='/joint_states', start_paused=True)
    publish('/joint_states', rate=200)
    wait_for_status(state='paused')
    # What is published from now on until it is resumed must not be in the bag.
    ros_client.message(JointState, '/joint_states', latched=False)
    assert trigger('pause') == (False, 'Not recording: the recorder is paused.')
    assert trigger('split') == (False, 'Not recording: the recorder is paused.')
    assert trigger('resume') == (True, f'Recording to {str(bag)!r}.')
    wait_for_status(state='recording', messages=50)
    assert trigger('pause') == (True, f"Paused; '{bag}' goes on with ~/resume.")
    before, after = (
        wait_for_status(state='paused', fresh=True)['counts']['/joint_states']['messages']
        for _ in range(2)
    )
    assert before == after
    assert trigger('resume') == (True, f'Recording to {str(bag)!r}.')
    wait_for_status(state='recording', messages=after + 50)
    assert trigger('split') == (True, f'{str(bag)!r} goes on in another file.')
    # The next file begins with the next message: more must come than there were after the split.
    split = wait_for_status(state='recording', fresh=True)['counts']['/joint_states']['messages']
    wait_for_status(state='recording', messages=split + 50)
    assert trigger('stop') == (True, f'Closed {str(bag)!r}.')
    assert trigger('resume')[1] == 'The recorder is stopped: call ~/start for another bag.'
    assert recorder.stop() == 0
    assert sorted(file.name for file in bag.iterdir()) == [
        'bag_0.mcap',
        'bag_1.mcap',
        'metadata.yaml',
    ]
    numbers = read_numbers(bag)['/joint_states']
    steps = [later - earlier for earlier, later in itertools.pairwise(numbers)]
    assert numbers[0] > 0
    assert min(steps) == 1
    assert len([step for step in steps if step > 1]) == 1
    assert max(steps) > 200


def test_diagnostics_follow_a_publisher_that_leaves_and_returns(
    record: Callable[..., Any],
    publish: Callable[..., Any],
    diagnosis: Callable[..., Any],
    wait_for_status: Callable[..., Any],
    read_numbers: Callable[..., Any],
    tmp_path: Path,
) -> None:
    recorder = record(
        output=tmp_path / 'bag', topics=['/joint_states', '/missing'], wait_for='/joint_states'
    )
    first = publish('/joint_states', rate=100)
    status = diagnosis('/joint_states', 'ok')
    assert status.level == b'\0'
    values = {item.key: item.value for item in status.values}
    assert (values['lost'], values['dropped'], values['publishers']) == ('0', '0', '1')
    recorder.wait_for_line('recording /joint_states to')
    assert diagnosis('/missing', 'no publisher').level == b'\1'
    assert diagnosis('recorder', '1 of 2 topics need attention').level == b'\1'
    first.stop()
    assert diagnosis('/joint_states', 'no publisher').level == b'\1'
    messages = wait_for_status(fresh=True)['counts']['/joint_states']['messages']
    publish('/joint_states', rate=100)
    assert diagnosis('/joint_states', 'ok').level == b'\0'
    wait_for_status(messages=messages + 20)
    assert recorder.stop() == 0
    numbers = read_numbers(tmp_path / 'bag')['/joint_states']
    assert numbers.count(0) == 2
    second = numbers[numbers.index(0, 1) :]
    assert second == list(range(len(second)))
    assert "not recorded: Nothing came on topic '/missing'." in recorder.output


def test_it_waits_for_a_message_and_takes_that_too(
    record: Callable[..., Any],
    publish: Callable[..., Any],
    wait_for_status: Callable[..., Any],
    ros_client: RosClient,
    tmp_path: Path,
) -> None:
    from std_msgs.msg import String  # noqa: PLC0415 (absent without ROS)

    go = ros_client.node.create_publisher(String, '/go', 10)
    recorder = record(output=tmp_path / 'bag', topics='/joint_states', wait_for='/go')
    publish('/joint_states', rate=50)
    wait_for_status(state='waiting', waiting_for=['/go'], fresh=True)
    wait_for_status(state='waiting', waiting_for=['/go'], fresh=True)
    go.publish(String(data='go'))
    wait_for_status(state='recording', messages=1)
    assert recorder.stop() == 0
    with Reader(tmp_path / 'bag') as reader:
        assert {connection.topic: connection.msgcount for connection in reader.connections}[
            '/go'
        ] == 1


def test_bag_times_are_those_of_the_simulation(
    record: Callable[..., Any],
    publish: Callable[..., Any],
    start_node: StartNode,
    wait_for_status: Callable[..., Any],
    tmp_path: Path,
) -> None:
    recorder = record(output=tmp_path / 'bag', topics='/joint_states', use_sim_time=True)
    publish('/joint_states', rate=200)
    wait_for_status(state='waiting', waiting_for=['/clock'], fresh=True)
    script = tmp_path / 'clock.py'
    script.write_text(CLOCK)
    start_node(script)
    wait_for_status(state='recording', messages=100)
    assert recorder.stop() == 0
    times: dict[str, list[int]] = {}
    told: list[int] = []
    types = get_typestore(Stores.ROS2_JAZZY)
    with Reader(tmp_path / 'bag') as reader:
        for connection, stamp, data in reader.messages():
            times.setdefault(connection.topic, []).append(stamp)
            if connection.topic == '/clock':
                clock = types.deserialize_cdr(data, connection.msgtype).clock
                told.append(clock.sec * 10**9 + clock.nanosec)
    assert times.keys() == {'/clock', '/joint_states'}
    stamps = times['/joint_states']
    assert 1000e9 < stamps[0] < stamps[-1] < 1100e9
    # ROS time is the last that the simulation told. What it told while the recorder began to
    # listen, and at the end, may be missing from the bag.
    inside = [stamp for stamp in stamps if told[0] <= stamp <= told[-1]]
    assert len(set(inside)) > 10
    assert len(set(inside) - set(told)) <= 0.1 * len(set(inside))
    metadata = yaml.safe_load((tmp_path / 'bag' / 'metadata.yaml').read_text())
    facts = metadata['rosbag2_bagfile_information']['custom_data']
    assert 'ROS time' in facts['clock']


def test_snapshots_are_written_when_they_are_asked_for_and_nothing_else_is(
    record: Callable[..., Any],
    publish: Callable[..., Any],
    wait_for_status: Callable[..., Any],
    trigger: Callable[[str], tuple[bool, str]],
    read_numbers: Callable[..., Any],
    ros_client: RosClient,
    tmp_path: Path,
) -> None:
    from sensor_msgs.msg import JointState  # noqa: PLC0415 (absent without ROS)

    bag = tmp_path / 'bag'
    recorder = record(output=bag, topics='/joint_states', snapshot_seconds=1.0)
    accepted, said = trigger('snapshot')
    assert (accepted, said) == (False, 'Nothing is kept yet: the recorder is waiting.')
    publish('/joint_states', rate=100)
    recorder.wait_for_line('keeping 1 s of /joint_states; call ~/snapshot to write them')
    wait_for_status(state='keeping')

    def wait_for(number: int) -> None:
        def reached(message: Any) -> bool:
            return int(message.header.frame_id) >= number

        ros_client.message(JointState, '/joint_states', reached, latched=False)

    wait_for(200)
    assert not bag.exists()
    accepted, said = trigger('snapshot')
    assert accepted
    assert said.startswith(f'Wrote {str(bag)!r}: ')
    wait_for(500)
    assert trigger('snapshot')[1].startswith(f'Wrote {str(tmp_path / "bag_1")!r}: ')
    assert recorder.stop() == 0

    assert sorted(path.name for path in tmp_path.glob('bag*')) == ['bag', 'bag_1']
    first, second = (read_numbers(tmp_path / name)['/joint_states'] for name in ('bag', 'bag_1'))
    for numbers in (first, second):
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert second[0] > first[0] > 0

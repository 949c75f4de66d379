# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The recorder as users run it: a process in a graph of real publishers."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcap.exceptions import McapError
from mcap.records import Message
from mcap.stream_reader import StreamReader
from rcl_interfaces.srv import DescribeParameters
from rclpy.parameter import Parameter
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore

from builders.ros_graph import as_arguments
from sysid_ros import __version__
from sysid_ros.bags.reader import read_bag

pytestmark = pytest.mark.ros


def facts(bag: Path) -> dict[str, str]:
    metadata = yaml.safe_load((bag / 'metadata.yaml').read_text('utf-8'))
    found: dict[str, str] = metadata['rosbag2_bagfile_information']['custom_data']
    return found


def test_four_topics_at_500_hz_are_recorded_without_loss(graph: Any, tmp_path: Path):
    topics = ['/joint_states', '/left/joint_states', '/right/joint_states', '/base/joint_states']
    recorder = graph.record(output=tmp_path / 'bag', topics=topics)
    graph.publish(*topics, count=1000, rate=500).wait_for_line('published 1000', 60)
    assert recorder.stop(signal.SIGINT) == 0
    assert graph.read_numbers(tmp_path / 'bag') == {topic: list(range(1000)) for topic in topics}
    *_, total, then = recorder.output.splitlines()
    assert total.split() == ['total', '4000', '0', '0']
    assert then == f'next: sysid inspect {tmp_path / "bag"}'


@pytest.mark.patient
def test_a_recorder_that_is_interrupted_twice_leaves_a_readable_bag(graph: Any, tmp_path: Path):
    # An integer for a parameter that is a float, as people write it.
    recorder = graph.record(output=tmp_path / 'bag', topics='/joint_states', max_duration=1000)
    graph.publish('/joint_states')
    status = graph.status(state='recording', messages=200)
    for _ in range(2):
        recorder.process.send_signal(signal.SIGINT)
    assert recorder.wait() == 0
    numbers = graph.read_numbers(tmp_path / 'bag')['/joint_states']
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= status['counts']['/joint_states']['messages']
    assert 'Traceback' not in recorder.output


@pytest.mark.patient
def test_a_killed_recorder_loses_at_most_the_last_second(graph: Any, tmp_path: Path):
    recorder = graph.record(output=tmp_path / 'bag', topics='/joint_states')
    graph.publish('/joint_states', count=300).wait_for_line('published 300')
    graph.status(state='recording', messages=300)
    # The status comes once per second, as the flush does: two more, and all is flushed.
    for _ in range(2):
        graph.status(fresh=True)
    recorder.kill()
    (file,) = (tmp_path / 'bag').glob('*.mcap')
    found = 0
    # The file has no end: the reader complains about that once it has read the rest.
    with file.open('rb') as stream, suppress(McapError):
        for item in StreamReader(stream).records:
            found += isinstance(item, Message)
    assert found == 300


#: A robot with a controller that never hears of the first request for its parameters.
ROBOT = """
import rclpy
from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.task import Future
from std_msgs.msg import String

PARAMETERS = {'joints': ['elbow', 'pan'], 'interface_name': 'position', 'update_rate': 500}
asked = []

async def list_second(request, response):
    asked.append(request)
    if len(asked) == 1:
        await Future()
    response.result.names = list(PARAMETERS)
    return response

def get(request, response):
    values = [Parameter(name, value=PARAMETERS[name]) for name in request.names]
    response.values = [value.get_parameter_value() for value in values]
    return response

rclpy.init()
node = rclpy.create_node('arm_controller', start_parameter_services=False)
group = ReentrantCallbackGroup()
node.create_service(ListParameters, '~/list_parameters', list_second, callback_group=group)
node.create_service(GetParameters, '~/get_parameters', get, callback_group=group)
latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
description = node.create_publisher(String, '/robot_description', latched)
description.publish(String(data='<robot/>'))
rclpy.spin(node)
"""


@pytest.mark.patient
def test_each_start_makes_a_bag_with_latched_texts_and_facts(graph: Any, tmp_path: Path):
    script = tmp_path / 'robot.py'
    script.write_text(ROBOT)
    graph.start(script)
    states = '/arm_controller/joint_states'
    bags = [tmp_path / 'bag', tmp_path / 'bag_1']
    topics = [states, '/robot_description']
    recorder = graph.record(output=bags[0], topics=topics, start_paused=True, notes='before')
    graph.publish(states)
    graph.status(state='stopped')
    assert graph.trigger('stop') == (False, 'Not recording: the recorder is stopped.')
    assert not bags[0].exists()
    assert graph.client.set_parameter('/recorder', 'notes', 'gripper with 2 kg') == (True, '')
    for bag in bags:
        assert graph.trigger('start')[0]
        graph.status(state='recording', output=str(bag), messages=1)
        assert graph.trigger('start') == (False, f'Already recording to {str(bag)!r}.')
        # Statuses at 1 Hz: the controller is asked once more when it has not answered.
        for _ in range(4):
            graph.status(fresh=True)
        assert graph.trigger('stop') == (True, f'Closed {str(bag)!r}.')
        graph.status(state='stopped', output=str(bag))
        columns = read_bag(bag)
        assert columns.texts == (('/robot_description', '<robot/>'),)
        assert [topic.topic for topic in columns.topics] == [states]
        assert len(columns.topics[0].receive_ns) > 200
    assert recorder.stop(signal.SIGTERM) == 0
    noted = facts(bags[1])
    assert noted['version'] == __version__
    assert '-p notes:=before' in noted['command_line']
    assert noted['notes'] == 'gripper with 2 kg'
    assert noted['robot_description'] == '<robot/>'
    assert json.loads(noted['dropped']) == dict.fromkeys(topics, 0)
    assert json.loads(noted['controllers']) == {
        '/arm_controller': {'joints': ['elbow', 'pan'], 'interface': 'position'}
    }
    assert json.loads(noted['topics']) == {
        'found': {
            states: 'sensor_msgs/msg/JointState',
            '/robot_description': 'std_msgs/msg/String',
        },
        'missing': [],
        'refused': {},
    }


@pytest.mark.patient
def test_diagnostics_follow_a_publisher_that_leaves_and_returns(graph: Any, tmp_path: Path):
    recorder = graph.record(output=tmp_path / 'bag', topics=['/joint_states', '/late'])
    line = 'waiting for a publisher of /joint_states, /late; `sysid doctor` says what is seen here'
    recorder.wait_for_line(line)
    first = graph.publish('/joint_states', rate=100)
    graph.status(state='waiting', waiting_for='a publisher of /late')
    assert graph.client.diagnosis('recorder: /late', 'no publisher')[0] == b'\1'
    late = graph.publish('/late', rate=100)
    graph.status(state='recording', messages=1)
    level, values = graph.client.diagnosis('recorder: /joint_states', 'ok')
    assert level == b'\0'
    assert (values['lost'], values['dropped'], values['publishers']) == ('0', '0', '1')
    first.stop()
    assert graph.client.diagnosis('recorder: /joint_states', 'no publisher')[0] == b'\1'
    assert graph.client.diagnosis('recorder: recorder', '1 of 2 topics need attention')[0] == b'\1'
    messages = graph.status(fresh=True)['counts']['/joint_states']['messages']
    graph.publish('/joint_states', rate=100)
    graph.client.diagnosis('recorder: /joint_states', 'ok')
    graph.status(messages=messages + 20)
    late.stop()
    graph.trigger('stop')
    numbers = graph.read_numbers(tmp_path / 'bag')['/joint_states']
    second = numbers[numbers.index(0, 1) :]
    assert second == list(range(len(second)))
    # Of a topic that was there once, and is not any more, nothing comes into the next bag.
    graph.trigger('start')
    graph.trigger('stop')
    assert recorder.stop() == 0
    assert "not recorded: Nothing came on topic '/late'." in recorder.output


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


@pytest.mark.patient
def test_bag_times_are_those_of_the_simulation(graph: Any, tmp_path: Path):
    recorder = graph.record(output=tmp_path / 'bag', topics='/joint_states', use_sim_time=True)
    graph.publish('/joint_states', rate=200)
    graph.status(state='waiting', waiting_for='a publisher of /clock')
    script = tmp_path / 'clock.py'
    script.write_text(CLOCK)
    graph.start(script)
    graph.status(state='recording', messages=100)
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
    inside = {stamp for stamp in stamps if told[0] <= stamp <= told[-1]}
    assert len(inside) > 10
    assert len(inside - set(told)) <= 0.1 * len(inside)


@pytest.mark.patient
def test_max_duration_ends_the_recording_and_a_bag_that_is_removed_ends_it_with_one_line(
    graph: Any, tmp_path: Path
):
    graph.publish('/joint_states', rate=200)
    done = graph.record(output=tmp_path / 'short', topics='/joint_states', max_duration=1)
    assert done.wait() == 0
    assert len(read_bag(tmp_path / 'short').topics[0].receive_ns) > 1
    bag = tmp_path / 'bag'
    recorder = graph.record(output=bag, topics='/joint_states')
    graph.status(state='recording', output=str(bag), messages=1)
    shutil.rmtree(bag)
    sentence = f'The bag {str(bag)!r} was removed while it was recorded.'
    graph.status(state='stopped', error=sentence)
    assert recorder.wait() == 2
    assert recorder.output.count(sentence) == 1
    assert 'Traceback' not in recorder.output


@pytest.mark.patient
@pytest.mark.parametrize(
    ('parameters', 'sentence'),
    [
        ({}, "Expected the bag's folder in parameter 'output', as -p output:=DIR, found none."),
        ({'output': '{bag}'}, 'exists already'),
        ({'max_duration': 'soon'}, "Bad value 'soon' for 'max_duration' in "),
        ({'topics': '/a', 'exclude': 'a'}, "in parameter 'exclude' that leaves '/a'"),
        ({'topics': "['/a b']"}, "Expected the name of a topic in parameter 'topics'"),
    ],
)
def test_bad_parameters_are_one_sentence_and_exit_code_2(
    graph: Any, tmp_path: Path, parameters: dict[str, object], sentence: str
):
    (tmp_path / 'bag').mkdir()
    if parameters:
        parameters = {'output': tmp_path / 'new', **parameters}
    recorder = graph.record(
        **{k: str(v).format(bag=tmp_path / 'bag') for k, v in parameters.items()}
    )
    assert recorder.wait() == 2
    assert sentence in recorder.output
    assert recorder.output.count('\n') == 0


@pytest.mark.patient
def test_changes_of_parameters_are_checked_and_refused_with_a_reason(graph: Any, tmp_path: Path):
    graph.record(output=tmp_path / 'bag')
    assert graph.client.set_parameter('/recorder', 'max_duration', 12) == (True, '')
    accepted, reason = graph.client.set_parameter('/recorder', 'max_duration', -1.0)
    assert not accepted
    assert '-1.0' in reason
    accepted, reason = graph.client.set_parameter('/recorder', 'topics', ['/other'])
    assert not accepted
    assert reason.startswith("Parameter 'topics' cannot change while the node runs: expected []")
    names = ['compression', 'max_duration', 'topics']
    request = DescribeParameters.Request(names=names)
    service = '/recorder/describe_parameters'
    choice, duration, topics = graph.client.call(DescribeParameters, service, request).descriptors
    assert choice.additional_constraints.startswith('one of: none, zstd')
    assert duration.floating_point_range[0].to_value == 1e6
    assert Parameter.Type(topics.type) is Parameter.Type.STRING_ARRAY


@pytest.mark.patient
def test_a_signal_during_start_up_ends_cleanly(ros_env: dict[str, str], tmp_path: Path):
    program = (
        'import os, signal, sys\n'
        'from sysid_ros.nodes import __main__, runtime\n'
        'find = runtime.import_rclpy\n'
        'def interrupted():\n'
        '    os.kill(os.getpid(), signal.SIGTERM)\n'
        '    return find()\n'
        'runtime.import_rclpy = interrupted\n'
        'sys.exit(__main__.main())\n'
    )
    arguments = ['recorder', *as_arguments(output=tmp_path / 'bag')]
    command = [sys.executable, '-c', program, *arguments]
    done = subprocess.run(command, env=ros_env, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b'', b'')

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The recorder as users run it: a process in a graph of real publishers."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from rosbags.rosbag2 import Reader

from builders.ros_graph import PRELOADED, TIMEOUT
from sysid_ros.bags import UnfinishedBagError, read_bag
from sysid_ros.errors import RosError
from sysid_ros.nodes.ros.recorder.graph import (
    Endpoint,
    Offer,
    default_topics,
    message_class,
    topic_spec,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from builders.ros_graph import RosClient

RECORDER = 'sysid_ros.nodes.recorder'


@pytest.mark.ros
def test_four_topics_at_500_hz_are_recorded_without_loss(
    record: Callable[..., Any],
    publish: Callable[..., Any],
    tmp_path: Path,
    read_numbers: Callable[..., Any],
) -> None:
    topics = ['/joint_states', '/left/joint_states', '/right/joint_states', '/base/joint_states']
    recorder = record(output=tmp_path / 'bag', topics=topics)
    publisher = publish(*topics, count=1000, rate=500)
    publisher.wait_for_line('published 1000', 60)
    assert recorder.stop(signal.SIGINT) == 0
    assert read_numbers(tmp_path / 'bag') == {topic: list(range(1000)) for topic in topics}
    *_, total, then = recorder.output.splitlines()
    assert total.split() == ['total', '4000', '0', '0']
    assert then == f'next: sysid inspect {tmp_path / "bag"}'


@pytest.mark.ros
@pytest.mark.patient
@pytest.mark.parametrize(
    ('number', 'storage', 'again'),
    [(signal.SIGTERM, 'mcap', False), (signal.SIGINT, 'sqlite3', False), (2, 'mcap', True)],
)
def test_an_interrupted_recorder_leaves_a_readable_bag(
    record: Callable[..., Any],
    publish: Callable[..., Any],
    tmp_path: Path,
    number: int,
    storage: str,
    again: bool,
    read_numbers: Callable[..., Any],
    wait_for_status: Callable[..., Any],
) -> None:
    recorder = record(output=tmp_path / 'bag', topics=['/joint_states'], storage=storage)
    publish('/joint_states')
    status = wait_for_status(state='recording', messages=200)
    recorder.process.send_signal(number)
    if again:
        recorder.process.send_signal(number)
    assert recorder.wait() == 0
    numbers = read_numbers(tmp_path / 'bag')['/joint_states']
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= status['counts']['/joint_states']['messages']
    assert 'Traceback' not in recorder.output


@pytest.mark.ros
@pytest.mark.patient
@pytest.mark.parametrize('storage', ['mcap', 'sqlite3'])
def test_a_killed_recorder_loses_at_most_the_last_second(
    record: Callable[..., Any],
    publish: Callable[..., Any],
    tmp_path: Path,
    storage: str,
    wait_for_status: Callable[..., Any],
) -> None:
    bag = tmp_path / 'bag'
    recorder = record(output=bag, topics=['/joint_states'], storage=storage)
    publisher = publish('/joint_states', count=300)
    publisher.wait_for_line('published 300')
    wait_for_status(state='recording', messages=300)
    # The status comes once per second, as the flush does: two more, and all is flushed.
    for _ in range(2):
        wait_for_status(fresh=True)
    recorder.kill()
    assert _stored(bag, storage) == 300
    with pytest.raises(UnfinishedBagError) as caught:
        read_bag(bag)
    assert str(caught.value).count('\n') == 0


def _stored(bag: Path, storage: str) -> int:
    """Return the number of messages in the data file of an unfinished bag."""
    if storage == 'sqlite3':
        connection = sqlite3.connect(next(bag.glob('*.db3')))
        ((count,),) = connection.execute('select count(*) from messages').fetchall()
        connection.close()
        return int(count)
    from mcap.exceptions import McapError  # noqa: PLC0415 (one test reads without an index)
    from mcap.records import Message  # noqa: PLC0415
    from mcap.stream_reader import StreamReader  # noqa: PLC0415

    found = 0
    # The file has no end: the reader complains about that once it has read the rest.
    with next(bag.glob('*.mcap')).open('rb') as stream, suppress(McapError):
        for item in StreamReader(stream).records:
            found += isinstance(item, Message)
    return found


@pytest.mark.ros
@pytest.mark.patient
def test_services_start_and_stop_recordings_into_bags_of_their_own(
    record: Callable[..., Any],
    publish: Callable[..., Any],
    ros_client: RosClient,
    tmp_path: Path,
    wait_for_status: Callable[..., Any],
    trigger: Callable[..., Any],
) -> None:
    from rclpy.qos import DurabilityPolicy, QoSProfile  # noqa: PLC0415 (absent without ROS)
    from std_msgs.msg import String  # noqa: PLC0415

    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    model = ros_client.node.create_publisher(String, '/robot_description', latched)
    model.publish(String(data='<robot/>'))
    bags = [tmp_path / 'bag', tmp_path / 'bag_1']
    recorder = record(
        output=bags[0], topics=['/joint_states', '/robot_description'], start_paused=True
    )
    publish('/joint_states')
    wait_for_status(state='paused')
    assert not bags[0].exists()
    for bag in bags:
        success, message = trigger('start')
        assert success, message
        wait_for_status(state='recording', output=str(bag))
        assert trigger('start') == (False, f'Already recording to {str(bag)!r}.')
        # Two statuses at 1 Hz: more than a second of messages.
        for _ in range(2):
            wait_for_status(fresh=True)
        success, message = trigger('stop')
        assert success, message
        assert wait_for_status(state='stopped')['output'] == str(bag)
        columns = read_bag(bag)
        assert columns.texts == (('/robot_description', '<robot/>'),)
        assert [topic.topic for topic in columns.topics] == ['/joint_states']
        assert len(columns.topics[0].receive_ns) > 200
    success, message = trigger('stop')
    assert (success, message) == (False, 'Not recording: the recorder is stopped.')
    assert recorder.stop(signal.SIGTERM) == 0


@pytest.mark.ros
@pytest.mark.patient
def test_a_best_effort_publisher_is_recorded(
    record: Callable[..., Any],
    publish: Callable[..., Any],
    tmp_path: Path,
    read_numbers: Callable[..., Any],
    wait_for_status: Callable[..., Any],
) -> None:
    recorder = record(output=tmp_path / 'bag', topics=['/joint_states', '/imu_joints'])
    publish('/joint_states', best_effort=True)
    publish('/imu_joints', count=200).wait_for_line('published 200')
    wait_for_status(state='recording', messages=200)
    assert recorder.stop(signal.SIGTERM) == 0
    numbers = read_numbers(tmp_path / 'bag')
    assert numbers['/imu_joints'] == list(range(200))
    assert len(numbers['/joint_states']) >= 200
    with Reader(tmp_path / 'bag') as reader:
        details: list[tuple[str, Any]] = [(c.topic, c.ext) for c in reader.connections]
        offered = {topic: ext.offered_qos_profiles[0].reliability.name for topic, ext in details}
    assert offered == {'/joint_states': 'BEST_EFFORT', '/imu_joints': 'RELIABLE'}


@pytest.mark.ros
@pytest.mark.patient
def test_commands_and_the_model_are_recorded_by_default(
    record: Callable[..., Any],
    publish: Callable[..., Any],
    ros_client: RosClient,
    tmp_path: Path,
    wait_for_status: Callable[..., Any],
) -> None:
    from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy  # noqa: PLC0415
    from std_msgs.msg import Float64MultiArray, String  # noqa: PLC0415 (absent without ROS)

    node = ros_client.node
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    node.create_publisher(String, '/robot_description', latched).publish(String(data='<r/>'))
    node.create_publisher(String, '/chatter', 10)
    # A controller that listens, and nobody who commands yet.
    node.create_subscription(Float64MultiArray, '/arm/commands', lambda _: None, 10)
    recorder = record(output=tmp_path / 'bag')
    publish('/joint_states')
    # Nodes that are discovered late on a busy machine join the recording that has begun.
    deadline = time.monotonic() + TIMEOUT
    missing = {'/joint_states', '/arm/commands', '/robot_description'}
    while missing:
        said = [line for line in recorder.output.splitlines() if 'recording /' in line]
        missing = {topic for topic in missing if not any(topic in line for line in said)}
        assert time.monotonic() < deadline, missing
        time.sleep(0.05)
    # The recorder asked for reliable commands; the first publisher offers less.
    loose = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
    commands = node.create_publisher(Float64MultiArray, '/arm/commands', loose)
    recorder.wait_for_line('subscribing again')
    node.create_timer(0.01, lambda: commands.publish(Float64MultiArray(data=[1.0])))
    wait_for_status(state='recording', messages=1)
    assert recorder.stop() == 0
    columns = read_bag(tmp_path / 'bag')
    assert [topic.topic for topic in columns.topics] == ['/arm/commands', '/joint_states']
    assert columns.texts == (('/robot_description', '<r/>'),)
    assert '/chatter' not in recorder.output


@pytest.mark.ros
@pytest.mark.patient
def test_max_duration_ends_the_recording(
    record: Callable[..., Any],
    publish: Callable[..., Any],
    tmp_path: Path,
) -> None:
    # An integer for a parameter that is a float, as people write it.
    recorder = record(output=tmp_path / 'bag', topics='/joint_states', max_duration=3)
    publish('/joint_states', rate=200)
    # The time counts from the start of the recorder; the publisher may be later by seconds.
    assert recorder.wait() == 0
    with Reader(tmp_path / 'bag') as reader:
        seconds = 1e-9 * reader.duration
    assert 0.1 < seconds < 10.0


@pytest.mark.ros
@pytest.mark.patient
def test_it_says_what_it_waits_for_and_ends_without_a_bag(
    record: Callable[..., Any],
    tmp_path: Path,
) -> None:
    recorder = record(output=tmp_path / 'bag', topics=['/nowhere', '/elsewhere'])
    line = 'waiting for a publisher of /nowhere, /elsewhere; `sysid doctor` says what is seen here'
    recorder.wait_for_line(line)
    assert recorder.stop(signal.SIGINT) == 0
    assert not (tmp_path / 'bag').exists()


@pytest.mark.ros
@pytest.mark.patient
def test_a_bag_removed_while_recording_ends_the_recorder_with_one_line(
    record: Callable[..., Any],
    publish: Callable[..., Any],
    tmp_path: Path,
    wait_for_status: Callable[..., Any],
) -> None:
    bag = tmp_path / 'bag'
    recorder = record(output=bag, topics=['/joint_states'])
    publish('/joint_states')
    wait_for_status(state='recording', messages=1)
    shutil.rmtree(bag)
    status = wait_for_status(state='stopped')
    sentence = f'The bag {str(bag)!r} was removed while it was recorded.'
    assert status['error'] == sentence
    assert recorder.wait() == 2
    assert recorder.output.count(sentence) == 1
    assert 'Traceback' not in recorder.output


@pytest.mark.ros
@pytest.mark.patient
@pytest.mark.parametrize(
    ('parameters', 'sentence'),
    [
        ({}, "Expected the bag's folder in parameter 'output', as -p output:=DIR, found none."),
        ({'storage': 'mcapp'}, "Expected mcap or sqlite3 for 'storage' in the parameters of "),
        ({'queue_seconds': 0}, "Bad value 0 for 'queue_seconds' in the parameters of /recorder: "),
        ({'storage': 'sqlite3', 'compression': 'zstd'}, 'Expected storage mcap for compression'),
        ({'regex': '(a'}, "Expected a regular expression for 'regex', found '(a' "),
        ({'types': 'JointState'}, "Expected names of message types in 'types', as sensor_m"),
        ({'topics': '/a', 'exclude': 'a'}, "in parameter 'exclude' that leaves '/a'"),
        ({'qos_overrides': '/nowhere.yaml'}, "There is no file '/nowhere.yaml'"),
        ({'max_duration': 'soon'}, "Bad value 'soon' for 'max_duration' in "),
        ({'output': '{bag}'}, 'exists already'),
        ({'topics': "['/a b']"}, "Expected the name of a topic in parameter 'topics'"),
        ({'wait_for': '/a b'}, "Expected the name of a topic in parameter 'wait_for'"),
    ],
)
def test_bad_parameters_are_one_sentence_and_exit_code_2(
    record: Callable[..., Any],
    tmp_path: Path,
    parameters: dict[str, object],
    sentence: str,
) -> None:
    (tmp_path / 'bag').mkdir()
    if parameters:
        parameters = {'output': tmp_path / 'new', **parameters}
    recorder = record(**{k: str(v).format(bag=tmp_path / 'bag') for k, v in parameters.items()})
    assert recorder.wait() == 2
    assert sentence in recorder.output
    assert recorder.output.count('\n') == 0


@pytest.mark.ros
@pytest.mark.patient
def test_changes_of_parameters_are_checked_and_refused_with_a_reason(
    record: Callable[..., Any],
    ros_client: RosClient,
    tmp_path: Path,
) -> None:
    from rcl_interfaces.srv import DescribeParameters, SetParameters  # noqa: PLC0415
    from rclpy.parameter import Parameter  # noqa: PLC0415 (absent without ROS)

    record(output=tmp_path / 'bag')

    def change(name: str, value: object) -> tuple[bool, str]:
        request = SetParameters.Request(
            parameters=[Parameter(name, value=value).to_parameter_msg()]
        )
        service = '/recorder/set_parameters'
        (result,) = ros_client.call(SetParameters, service, request).results
        return result.successful, result.reason

    assert change('max_duration', 12.5) == (True, '')
    assert change('max_duration', 12) == (True, '')
    accepted, reason = change('max_duration', -1.0)
    assert not accepted
    assert '-1.0' in reason
    assert '1000000.0' in reason
    accepted, reason = change('storage', 'zip')
    assert not accepted
    assert reason.startswith("Parameter 'storage' cannot change while the node runs: expected 'mc")
    assert reason.endswith("found 'zip'.")
    accepted, reason = change('topics', ['/other'])
    assert not accepted
    assert reason.startswith("Parameter 'topics' cannot change while the node runs: expected []")
    assert change('use_sim_time', value=False) == (True, '')
    accepted, reason = change('use_sim_time', value=True)
    assert not accepted
    assert reason.startswith(
        "Parameter 'use_sim_time' cannot change while the node runs: expected "
    )
    names = ['storage', 'max_bag_size', 'max_duration', 'topics']
    request = DescribeParameters.Request(names=names)
    service = '/recorder/describe_parameters'
    storage, size, duration, topics = ros_client.call(
        DescribeParameters, service, request
    ).descriptors
    assert storage.description == 'mcap or sqlite3'
    assert storage.additional_constraints.startswith('one of: mcap, sqlite3')
    assert (size.integer_range[0].from_value, size.integer_range[0].to_value) == (0, 10**15)
    assert duration.floating_point_range[0].to_value == 1e6
    assert Parameter.Type(topics.type) is Parameter.Type.STRING_ARRAY


@pytest.mark.ros
@pytest.mark.patient
def test_a_signal_during_start_up_ends_cleanly(
    ros_env: dict[str, str],
    tmp_path: Path,
) -> None:
    program = (
        'import os, signal, sys\n'
        'from sysid_ros.nodes import recorder\n'
        'from sysid_ros.nodes.ros import runtime\n'
        'find = runtime.import_rclpy\n'
        'def interrupted():\n'
        '    os.kill(os.getpid(), signal.SIGTERM)\n'
        '    return find()\n'
        'runtime.import_rclpy = interrupted\n'
        'sys.exit(recorder.main())\n'
    )
    command = [sys.executable, '-c', program, '--ros-args', '-p', f'output:={tmp_path / "bag"}']
    done = subprocess.run(command, env=ros_env, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b'', b'')


def test_without_rclpy_the_node_says_how_to_get_it_in_one_line(
    tmp_path: Path,
) -> None:
    (tmp_path / 'rclpy.py').write_text('raise ModuleNotFoundError("No module named \'rclpy\'")\n')
    env = {**os.environ, 'PYTHONPATH': os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    command = [sys.executable, '-m', RECORDER]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ''
    assert done.stderr == (
        "recorder: Expected the Python package rclpy, found none (No module named 'rclpy'); get "
        'it with `sudo apt install ros-jazzy-rclpy` and `source /opt/ros/jazzy/setup.bash`, or '
        "with `pip install 'sysid_ros[ros]'`.\n"
    )


def test_a_type_that_is_not_installed_is_named() -> None:
    with pytest.raises(RosError, match=r"'no_such_msgs/msg/Thing' of topic '/t' is not installed"):
        message_class('/t', 'no_such_msgs/msg/Thing')


STATE = 'sensor_msgs/msg/JointState'
TEXT = 'std_msgs/msg/String'


@pytest.mark.parametrize(
    ('publishers', 'reliable', 'latched'),
    [
        ([(True, True), (True, True)], True, True),
        ([(True, True), (True, False)], True, False),
        ([(True, False), (False, False)], False, False),
        ([], True, False),
    ],
)
def test_a_subscription_asks_for_no_more_than_every_publisher_offers(
    publishers: list[tuple[bool, bool]],
    reliable: bool,
    latched: bool,
) -> None:
    endpoints = tuple(Endpoint(STATE, *qos) for qos in publishers)
    qos = topic_spec(Offer('/joint_states', (STATE,), endpoints)).qos
    assert (qos.reliable, qos.transient_local) == (reliable, latched)


def test_a_topic_with_two_types_is_refused() -> None:
    with pytest.raises(RosError, match=r"Expected one message type on topic '/a', found .* and "):
        topic_spec(Offer('/a', (STATE, TEXT), ()))


def test_a_type_without_definition_is_refused_with_the_nearest() -> None:
    found = Offer('/a', ('sensor_msgs/msg/JointStates',), ())
    with pytest.raises(RosError, match=r"'sensor_msgs' .* nearest: sensor_msgs/msg/JointState"):
        topic_spec(found)


def test_default_topics_are_commands_and_latched_models() -> None:
    latched = Endpoint(TEXT, reliable=True, transient_local=True)
    volatile = latched._replace(transient_local=False)
    graph = [
        Offer('/arm/commands', ('std_msgs/msg/Float64MultiArray',), ()),
        Offer('/arm/other', ('std_msgs/msg/Float64MultiArray',), ()),
        Offer('/arm/joint_trajectory', ('trajectory_msgs/msg/JointTrajectory',), ()),
        Offer('/arm/controller_state', ('control_msgs/msg/JointTrajectoryControllerState',), ()),
        Offer('/arm/applied_commands', ('sensor_msgs/msg/JointState',), ()),
        Offer('/arm/joint_states', ('sensor_msgs/msg/JointState',), ()),
        Offer('/robot_description', (TEXT,), (latched,)),
        Offer('/calibrator/mjcf', (TEXT,), (latched,)),
        Offer('/mjcf_live', (TEXT,), (volatile,)),
        Offer('/chatter', (TEXT,), (latched,)),
    ]
    assert [found.topic for found in default_topics(graph)] == [
        '/arm/commands',
        '/arm/joint_trajectory',
        '/arm/controller_state',
        '/arm/applied_commands',
        '/robot_description',
        '/calibrator/mjcf',
    ]


@pytest.mark.ros
@pytest.mark.patient
def test_what_nodes_of_tests_share_can_be_imported() -> None:
    for module in PRELOADED:
        importlib.import_module(module)

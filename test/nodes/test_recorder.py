# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The recorder as users run it: a process in a graph of real publishers."""

from __future__ import annotations

import itertools
import json
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from builtin_interfaces.msg import Duration, Time
from mcap.exceptions import McapError
from mcap.records import Message
from mcap.stream_reader import StreamReader
from rcl_interfaces.srv import DescribeParameters
from rclpy.duration import Duration as Wait
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, Header, String
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from builders.ros_graph import TIMEOUT, as_arguments
from sysid_ros import __version__
from sysid_ros.bags.reader import read_bag
from sysid_ros.nodes.graph import message_class
from sysid_ros.nodes.subscriptions import _is_copy

pytestmark = pytest.mark.ros


def facts(bag: Path) -> dict[str, str]:
    metadata = yaml.safe_load((bag / 'metadata.yaml').read_text('utf-8'))
    found: dict[str, str] = metadata['rosbag2_bagfile_information']['custom_data']
    return found


def test_four_topics_at_500_hz_are_recorded_without_loss(graph: Any, tmp_path: Path):
    topics = ['/joint_states', '/left/joint_states', '/right/joint_states', '/base/joint_states']
    recorder = graph.record(output=tmp_path / 'bag', topics=topics)
    graph.publish(*topics, count=1000, rate=500).wait_for_line('published 1000')
    assert recorder.stop(signal.SIGINT) == 0
    assert graph.read_numbers(tmp_path / 'bag') == {topic: list(range(1000)) for topic in topics}
    *_, total, then = recorder.output.splitlines()
    assert total.split() == ['total', '4000', '0', '0']
    assert then == f'next: sysid inspect {tmp_path / "bag"}'


def test_a_recorder_that_is_interrupted_to_its_last_moment_ends_well(
    graph: Any, ros_env: dict[str, str], tmp_path: Path
):
    # An integer for a parameter that is a float, as people write it.
    given = as_arguments(output=tmp_path / 'bag', topics='/joint_states', max_duration=1000)
    graph.publish('/joint_states')
    # Not forked from another: Python ends a process of its own in more steps.
    command = [sys.executable, '-m', 'sysid_ros.nodes', 'recorder', *given]
    with subprocess.Popen(
        command, env=ros_env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        status = graph.status(state='recording', messages=200)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.002)
        assert process.stdout is not None
        output = process.stdout.read()
    assert process.returncode == 0, output
    assert 'Traceback' not in output
    numbers = graph.read_numbers(tmp_path / 'bag')['/joint_states']
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= status['counts']['/joint_states']['messages']


#: A recorder that looks at its messages twice per second, when the middleware keeps ten.
SLOW_RECORDER = """
import sys
from sysid_ros.nodes import subscriptions
from sysid_ros.nodes.__main__ import main

subscriptions.DEPTH, subscriptions._REST_SECONDS = 10, 0.5
sys.argv.insert(1, 'recorder')
sys.exit(main())
"""


@pytest.mark.parametrize('by', ['signal', 'service'])
@pytest.mark.parametrize('quality', [{}, {'best_effort': True}])
def test_a_recorder_that_is_behind_counts_every_message_that_it_lost(
    graph: Any, tmp_path: Path, by: str, quality: dict[str, object]
):
    program = tmp_path / 'slow.py'
    program.write_text(SLOW_RECORDER)
    recorder = graph.record(program, output=tmp_path / 'bag', topics='/joint_states')
    published = graph.publish('/joint_states', rate=200, count=300, **quality)
    published.wait_for_line('published 300')
    if by == 'service':
        assert graph.trigger('stop')[0]
    assert recorder.stop() == 0
    numbers = graph.read_numbers(tmp_path / 'bag')['/joint_states']
    missing = 300 - numbers[0] - len(numbers)
    assert missing > 100
    assert numbers[-1] == 299
    total = next(line for line in recorder.output.splitlines() if line.startswith('total'))
    assert total.split() == ['total', str(len(numbers)), str(missing), '0']


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


def test_of_two_recorders_of_one_bag_the_second_ends_with_one_line(graph: Any, tmp_path: Path):
    bag = tmp_path / 'bag'
    recorders = [graph.record(output=bag, topics='/joint_states') for _ in range(2)]
    for recorder in recorders:
        recorder.wait_for_line('waiting for a publisher of /joint_states')
    graph.publish('/joint_states', rate=200)
    graph.client.spin_until(lambda: any(r.process.poll() is not None for r in recorders))
    (first,) = (recorder for recorder in recorders if recorder.process.poll() is None)
    (second,) = (recorder for recorder in recorders if recorder is not first)
    assert second.wait() == 2
    sentence = f'The bag {str(bag)!r} exists already; choose another name or remove it.'
    *_, last = second.output.splitlines()
    assert last == f'recorder: {sentence}'
    assert second.output.count(sentence) == 1
    assert 'File "' not in second.output
    first.wait_for_line('recording /joint_states')
    assert first.stop() == 0
    assert graph.read_numbers(bag)['/joint_states']


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


# Topics, quality of service, types

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
LOOSE = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
#: Runs a recorder where one package of messages is not installed, and another is none of the
#: common interfaces.
ODD_RECORDER = """
import sys
from sysid_ros.bags.cdr import known_types
from sysid_ros.nodes.__main__ import main

sys.modules['trajectory_msgs.msg'] = None
for name in [name for name in known_types().fielddefs if name.startswith('lifecycle_msgs')]:
    del known_types().fielddefs[name]
sys.argv.insert(1, 'recorder')
sys.exit(main())
"""


def test_types_are_recorded_by_installed_definitions_and_named_when_not_installed(
    graph: Any, tmp_path: Path
):
    kind = message_class('/event', 'lifecycle_msgs/msg/TransitionEvent')
    on = message_class('/event', 'lifecycle_msgs/msg/State')(label='on')
    event = graph.client.node.create_publisher(kind, '/event', LATCHED)
    event.publish(kind(timestamp=7, goal_state=on))
    graph.client.node.create_publisher(JointTrajectory, '/trajectory', 10)
    script = tmp_path / 'odd.py'
    script.write_text(ODD_RECORDER)
    sentence = "'trajectory_msgs/msg/JointTrajectory' of topic '/trajectory' is not installed here"

    alone = graph.record(script, output=tmp_path / 'none', topics='/trajectory')
    assert alone.wait() == 2
    assert sentence in alone.output.splitlines()[-1]
    assert not (tmp_path / 'none').exists()

    recorder = graph.record(script, output=tmp_path / 'bag', topics=['/trajectory', '/event'])
    recorder.wait_for_line('recording /event to')
    assert graph.client.diagnosis('recorder: /trajectory', sentence)[0] == b'\2'
    graph.status(state='recording', messages=1)
    assert recorder.stop() == 0
    # Once when it was found, once at the end.
    assert recorder.output.count(sentence) == 2
    assert 'Traceback' not in recorder.output
    with Reader(tmp_path / 'bag') as reader:
        (found,) = reader.connections
        store = get_typestore(Stores.EMPTY)
        store.register(get_types_from_msg(found.msgdef.data, found.msgtype))
        ((_, _, data),) = reader.messages()
        message: Any = store.deserialize_cdr(data, found.msgtype)
    assert (message.timestamp, message.goal_state.label) == (7, 'on')


def test_commands_and_the_model_are_recorded_by_default_also_when_they_come_later(
    graph: Any, tmp_path: Path
):
    node = graph.client.node
    node.create_publisher(String, '/robot_description', LATCHED).publish(String(data='<r/>'))
    node.create_publisher(String, '/chatter', 10)
    # A controller that listens, and nobody who commands yet.
    node.create_subscription(Float64MultiArray, '/arm/commands', lambda _: None, 10)
    recorder = graph.record(output=tmp_path / 'bag')
    graph.publish('/joint_states')
    # Nodes that are discovered late on a busy machine join the recording that has begun.
    deadline = time.monotonic() + TIMEOUT
    missing = {'/joint_states', '/arm/commands', '/robot_description'}
    while missing:
        said = [line for line in recorder.output.splitlines() if 'recording /' in line]
        missing = {topic for topic in missing if not any(topic in line for line in said)}
        assert time.monotonic() < deadline, missing
        time.sleep(0.05)
    # The recorder asked for reliable commands; the first publisher offers less.
    commands = node.create_publisher(Float64MultiArray, '/arm/commands', LOOSE)
    recorder.wait_for_line('subscribing again')
    node.create_timer(0.01, lambda: commands.publish(Float64MultiArray(data=[1.0])))
    graph.status(state='recording', messages=1)
    assert recorder.stop() == 0
    columns = read_bag(tmp_path / 'bag')
    assert [topic.topic for topic in columns.topics] == ['/arm/commands', '/joint_states']
    assert columns.texts == (('/robot_description', '<r/>'),)
    assert '/chatter' not in recorder.output


def test_topics_that_match_later_are_recorded_from_their_first_message(graph: Any, tmp_path: Path):
    recorder = graph.record(output=tmp_path / 'bag', regex='joint_states$', exclude='^/base')
    graph.publish('/base/joint_states')
    graph.publish('/joint_states', rate=100)
    recorder.wait_for_line('recording /joint_states to')
    later = graph.publish('/left/joint_states', count=100, best_effort=True)
    recorder.wait_for_line('also recording /left/joint_states')
    later.wait_for_line('published 100')
    assert recorder.stop() == 0
    numbers = graph.read_numbers(tmp_path / 'bag')
    assert numbers.keys() == {'/joint_states', '/left/joint_states'}
    left = numbers['/left/joint_states']
    # The last, on a busy machine many, are on their way when the recorder is told to stop.
    assert left
    assert left == list(range(len(left)))


def test_another_qos_costs_no_message_of_those_who_publish_already(graph: Any, tmp_path: Path):
    recorder = graph.record(output=tmp_path / 'bag', topics='/joint_states')
    graph.publish('/joint_states', rate=1000)
    graph.status(state='recording', messages=100)
    publisher = graph.client.node.create_publisher(JointState, '/joint_states', LOOSE)
    recorder.wait_for_line('subscribing again')
    seen = graph.status(fresh=True)['counts']['/joint_states']['messages']
    graph.status(messages=seen + 1200)
    # It follows the other way, too.
    graph.client.node.destroy_publisher(publisher)
    graph.status(messages=seen + 4000)
    assert recorder.output.count('subscribing again') == 2
    assert recorder.stop() == 0
    numbers = graph.read_numbers(tmp_path / 'bag')['/joint_states']
    assert numbers == list(range(len(numbers)))


def test_what_two_subscriptions_hear_is_taken_once():
    balance: dict[bytes, int] = {}
    old, new = 1, -1
    heard = [(old, b'a'), (old, b'b'), (new, b'b'), (new, b'c'), (old, b'c'), (new, b'c')]
    copies = [_is_copy(balance, cdr, sign) for sign, cdr in heard]
    assert copies == [False, False, True, False, True, False]
    assert balance == {b'a': 1, b'c': -1}


#: So many commands are sent before the recorder listens, and after that.
BEFORE, AFTER = 3, 2
OFFERS = tuple(itertools.product(('reliable', 'best_effort'), ('volatile', 'latched'), (1, 100)))


def _commands(number: int) -> dict[str, Any]:
    """Return a command of each type, all of the same number."""
    value, header = float(number), Header(stamp=Time(sec=100 + number), frame_id='f' * number)
    joints = ['lift', 'roll']
    told = JointState(header=header, name=joints, position=[value, -value], effort=[0.5, value])
    points = [
        JointTrajectoryPoint(positions=[value, at], time_from_start=Duration(nanosec=int(at * 1e9)))
        for at in (0.1, 0.2)
    ]
    return {
        'commands': Float64MultiArray(data=[value, -value, 0.25]),
        'joint_trajectory': JointTrajectory(header=header, joint_names=joints, points=points),
        'joint_commands': told,
    }


def test_every_type_of_command_comes_back_from_every_offer(graph: Any, tmp_path: Path) -> None:
    durabilities = {'volatile': DurabilityPolicy.VOLATILE, 'latched': LATCHED.durability}
    publishers = {
        (name, offer): graph.client.node.create_publisher(
            type(message),
            '/' + '_'.join(map(str, offer)) + f'/{name}',
            QoSProfile(
                depth=offer[2],
                reliability=ReliabilityPolicy[offer[0].upper()],
                durability=durabilities[offer[1]],
            ),
        )
        for name, message in _commands(0).items()
        for offer in OFFERS
    }

    def publish(numbers: range) -> None:
        for number in numbers:
            for (name, _), publisher in publishers.items():
                publisher.publish(_commands(number)[name])
            # What a depth of 1 has not delivered is replaced. That takes a heartbeat: 3 s.
            assert all(p.wait_for_all_acked(Wait(seconds=60)) for p in publishers.values())

    begun = time.time_ns()
    publish(range(BEFORE))
    recorder = graph.record(
        output=tmp_path / 'bag', topics=[p.topic_name for p in publishers.values()]
    )
    graph.client.spin_until(lambda: all(p.get_subscription_count() for p in publishers.values()))
    publish(range(BEFORE, BEFORE + AFTER))
    assert recorder.stop() == 0
    found: dict[str, list[bytes]] = {}
    offered: dict[str, tuple[str, str, int]] = {}
    with Reader(tmp_path / 'bag') as reader:
        for connection, _, data in reader.messages():
            found.setdefault(connection.topic, []).append(bytes(data))
        for connection in reader.connections:
            (qos,) = cast('Any', connection.ext).offered_qos_profiles
            durable = 'volatile' if qos.durability.name == 'VOLATILE' else 'latched'
            offered[connection.topic] = (qos.reliability.name.lower(), durable, qos.depth)
    for (name, offer), publisher in publishers.items():
        reliability, durability, depth = offer
        known = min(depth, BEFORE) if (reliability, durability) == ('reliable', 'latched') else 0
        sent = [_commands(number)[name] for number in range(BEFORE - known, BEFORE + AFTER)]
        # Padding between numbers is whatever was in the memory.
        taken = [deserialize_message(m, type(sent[0])) for m in found[publisher.topic_name]]
        assert taken == sent, (name, offer)
        assert offered[publisher.topic_name][:2] == offer[:2]
    columns = {topic.topic: topic for topic in read_bag(tmp_path / 'bag').topics}
    for (name, offer), publisher in publishers.items():
        field = columns[publisher.topic_name].fields[0]
        assert field.values[-1, 0] == BEFORE + AFTER - 1, (name, offer, field.name)
        topic = columns[publisher.topic_name]
        # Points of trajectories are rows, and no messages.
        if name != 'joint_trajectory':
            assert topic.sent_ns is not None
            assert (begun < topic.sent_ns).all(), (name, offer)
            assert (topic.sent_ns < topic.receive_ns).all(), (name, offer)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which topics a recorder takes, by which quality of service, with which definitions."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import pytest
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from builders.ros_graph import TIMEOUT
from sysid_ros.bags.reader import read_bag
from sysid_ros.errors import RosError
from sysid_ros.nodes.graph import (
    Endpoint,
    Offer,
    Selection,
    default_topics,
    installed_definition,
    message_class,
    recorded_topic,
)

STATE = 'sensor_msgs/msg/JointState'
TEXT = 'std_msgs/msg/String'


@pytest.mark.parametrize(
    ('selection', 'taken'),
    [
        (Selection(names=('/b', '/nowhere')), ['/b']),
        (Selection(regex=re.compile('^/a'), exclude=re.compile('b')), ['/a']),
        (Selection(names=('/b',), regex=re.compile('x')), ['/b', '/x/a']),
        (Selection(everything=True, own=('/b',)), ['/a', '/ab', '/x/a', '/note']),
        (Selection(names=('/_hidden',)), ['/_hidden']),
    ],
)
def test_topics_are_selected_by_name_expression_or_all(selection: Selection, taken: list[str]):
    publisher = Endpoint(STATE, reliable=True, transient_local=False)
    graph = [Offer(t, (STATE,), (publisher,)) for t in ('/a', '/ab', '/b', '/x/a', '/_hidden')]
    found = selection.take([*graph, Offer('/note', (TEXT,), ())])
    assert [offer.topic for offer in found] == taken


def test_default_topics_are_commands_and_latched_models():
    latched = Endpoint(TEXT, reliable=True, transient_local=True)
    volatile = latched._replace(transient_local=False)
    taken = [
        Offer('/arm/commands', ('std_msgs/msg/Float64MultiArray',), ()),
        Offer('/arm/joint_trajectory', ('trajectory_msgs/msg/JointTrajectory',), ()),
        Offer('/arm/controller_state', ('control_msgs/msg/JointTrajectoryControllerState',), ()),
        Offer('/arm/applied_commands', (STATE,), ()),
        Offer('/robot_description', (TEXT,), (latched,)),
        Offer('/calibrator/mjcf', (TEXT,), (latched,)),
    ]
    left = [
        Offer('/arm/other', ('std_msgs/msg/Float64MultiArray',), ()),
        Offer('/arm/joint_states', (STATE,), ()),
        Offer('/mjcf_live', (TEXT,), (volatile,)),
        Offer('/chatter', (TEXT,), (latched,)),
    ]
    assert list(default_topics([*taken, *left])) == taken


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
    publishers: list[tuple[bool, bool]], reliable: bool, latched: bool
):
    endpoints = tuple(Endpoint(STATE, *qos) for qos in publishers)
    qos = recorded_topic(Offer('/joint_states', (STATE,), endpoints)).qos
    assert (qos.reliable, qos.transient_local) == (reliable, latched)


@pytest.mark.parametrize(
    ('types', 'sentence'),
    [
        ((STATE, TEXT), r"Expected one message type on topic '/a', found .* and "),
        (('sensor_msgs/msg/JointStates',), r"'sensor_msgs' .* nearest: sensor_msgs/msg/JointState"),
    ],
)
def test_a_topic_that_cannot_be_recorded_is_refused(types: tuple[str, ...], sentence: str):
    with pytest.raises(RosError, match=sentence):
        recorded_topic(Offer('/a', types, ()))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of messages of an installed package."""
    folder = tmp_path / 'share' / 'lab_msgs' / 'msg'
    folder.mkdir(parents=True)
    monkeypatch.setenv('AMENT_PREFIX_PATH', f'/nowhere:{tmp_path}')
    installed_definition.cache_clear()
    return folder


def test_a_definition_comes_with_all_types_inside_it(package: Path):
    (package / 'Hand.msg').write_text(
        '# A hand\nuint8 LEFT=1\nFinger[5] fingers\nlab_msgs/Palm[<=2] palms\nstring<=8 name\n'
    )
    (package / 'Finger.msg').write_text('Tip tip\nfloat64[] angles\n')
    (package / 'Palm.msg').write_text('Tip tip\n')
    (package / 'Tip.msg').write_text('float32 force 1.0  # N\n')
    text = installed_definition('lab_msgs/msg/Hand')
    assert text is not None
    assert re.findall('MSG: (.*)', text) == ['lab_msgs/Finger', 'lab_msgs/Palm', 'lab_msgs/Tip']
    store = get_typestore(Stores.EMPTY)
    store.register(get_types_from_msg(text, 'lab_msgs/msg/Hand'))
    assert store.generate_msgdef('lab_msgs/msg/Hand', ros_version=2)


@pytest.mark.parametrize('text', ['lab_msgs/Missing it\n', 'not a definition\n', '\udcff'])
def test_there_is_no_definition_with_a_part_missing_or_malformed(package: Path, text: str):
    (package / 'Hand.msg').write_bytes(text.encode(errors='surrogateescape'))
    assert installed_definition('lab_msgs/msg/Hand') is None
    assert installed_definition('lab_msgs/msg/Foot') is None


def run_without_rclpy(folder: Path, *arguments: str) -> Any:
    (folder / 'rclpy.py').write_text('raise ModuleNotFoundError("No module named \'rclpy\'")\n')
    env = {**os.environ, 'PYTHONPATH': os.pathsep.join([str(folder), *filter(None, sys.path)])}
    command = [sys.executable, '-m', 'sysid_ros.nodes', *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize(
    ('name', 'said'),
    [
        ('recorder', "recorder: Expected the Python package rclpy, found none (No module named '"),
        ('recordr', "sysid_ros.nodes: Expected the name of a node, found 'recordr'; nearest: reco"),
    ],
)
def test_what_is_missing_to_start_is_one_line(name: str, said: str, tmp_path: Path):
    done = run_without_rclpy(tmp_path, name)
    assert (done.returncode, done.stdout) == (2, '')
    assert done.stderr.startswith(said)
    assert done.stderr.count('\n') == 1


#: Runs a recorder where one package of messages is not installed, and another is none of the
#: common interfaces.
RECORDER = """
import sys
from sysid_ros.bags.cdr import known_types
from sysid_ros.nodes.__main__ import main

sys.modules['trajectory_msgs.msg'] = None
for name in [name for name in known_types().fielddefs if name.startswith('lifecycle_msgs')]:
    del known_types().fielddefs[name]
sys.argv.insert(1, 'recorder')
sys.exit(main())
"""


@pytest.mark.ros
@pytest.mark.patient
def test_types_are_recorded_by_installed_definitions_and_named_when_not_installed(
    graph: Any, tmp_path: Path
):
    from rclpy.qos import DurabilityPolicy, QoSProfile  # noqa: PLC0415 (absent without ROS)
    from trajectory_msgs.msg import JointTrajectory  # noqa: PLC0415

    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    kind = message_class('/event', 'lifecycle_msgs/msg/TransitionEvent')
    on = message_class('/event', 'lifecycle_msgs/msg/State')(label='on')
    event = graph.client.node.create_publisher(kind, '/event', latched)
    event.publish(kind(timestamp=7, goal_state=on))
    graph.client.node.create_publisher(JointTrajectory, '/trajectory', 10)
    script = tmp_path / 'odd.py'
    script.write_text(RECORDER)
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


@pytest.mark.ros
@pytest.mark.patient
def test_commands_and_the_model_are_recorded_by_default_also_when_they_come_later(
    graph: Any, tmp_path: Path
):
    from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy  # noqa: PLC0415
    from std_msgs.msg import Float64MultiArray, String  # noqa: PLC0415 (absent without ROS)

    node = graph.client.node
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    node.create_publisher(String, '/robot_description', latched).publish(String(data='<r/>'))
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
    loose = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
    commands = node.create_publisher(Float64MultiArray, '/arm/commands', loose)
    recorder.wait_for_line('subscribing again')
    node.create_timer(0.01, lambda: commands.publish(Float64MultiArray(data=[1.0])))
    graph.status(state='recording', messages=1)
    assert recorder.stop() == 0
    columns = read_bag(tmp_path / 'bag')
    assert [topic.topic for topic in columns.topics] == ['/arm/commands', '/joint_states']
    assert columns.texts == (('/robot_description', '<r/>'),)
    assert '/chatter' not in recorder.output


@pytest.mark.ros
@pytest.mark.patient
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


@pytest.mark.ros
@pytest.mark.patient
def test_another_qos_costs_no_message_of_those_who_publish_already(graph: Any, tmp_path: Path):
    from rclpy.qos import QoSProfile, ReliabilityPolicy  # noqa: PLC0415 (absent without ROS)
    from sensor_msgs.msg import JointState  # noqa: PLC0415

    recorder = graph.record(output=tmp_path / 'bag', topics='/joint_states')
    graph.publish('/joint_states', rate=1000)
    graph.status(state='recording', messages=100)
    loose = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
    publisher = graph.client.node.create_publisher(JointState, '/joint_states', loose)
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


@pytest.mark.ros
@pytest.mark.patient
def test_what_two_subscriptions_hear_is_taken_once():
    from sysid_ros.nodes.subscriptions import _is_copy  # noqa: PLC0415 (needs ROS)

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
    from builtin_interfaces.msg import Duration, Time  # noqa: PLC0415 (absent without ROS)
    from sensor_msgs.msg import JointState  # noqa: PLC0415
    from std_msgs.msg import Float64MultiArray, Header  # noqa: PLC0415
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint  # noqa: PLC0415

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


@pytest.mark.ros
@pytest.mark.patient
def test_every_type_of_command_comes_back_from_every_offer(graph: Any, tmp_path: Path) -> None:
    from rclpy.duration import Duration  # noqa: PLC0415 (absent without ROS)
    from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy  # noqa: PLC0415
    from rclpy.serialization import deserialize_message  # noqa: PLC0415

    durabilities = {
        'volatile': DurabilityPolicy.VOLATILE,
        'latched': DurabilityPolicy.TRANSIENT_LOCAL,
    }
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
            assert all(p.wait_for_all_acked(Duration(seconds=60)) for p in publishers.values())

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

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The replayer publishes what is in the bag, byte by byte and in order, and a prediction beside."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from builders.recorded_pendulum import FOLDER, calibration
from sysid_ros.bags import BagWriter, TopicQos
from sysid_ros.bags.output.files import define
from sysid_ros.bags.writer import known_types
from sysid_ros.pipeline import identify
from sysid_ros.pipeline.forecast import of_result
from sysid_ros.pipeline.predicting import predict_bag

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from builders.ros_graph import NodeProcess, RosClient, StartNode

REPLAYER = 'sysid_ros.nodes.replayer'
STATE = 'sensor_msgs/msg/JointState'
TEXT = 'std_msgs/msg/String'
START_NS = 1_700_000_000_000_000_000
STEP_NS = 5_000_000
COUNT = 200
SPAN = (COUNT - 1) * STEP_NS / 1e9

pytestmark = [pytest.mark.ros, pytest.mark.patient]


def _text(text: str) -> bytes:
    """Return a text as a middleware records it: padded to a multiple of four bytes."""
    types = known_types()
    data = bytes(types.serialize_cdr(types.types[TEXT](data=text), TEXT))
    return data + bytes(-len(data) % 4)


@pytest.fixture
def bag(tmp_path: Path) -> Path:
    """Return a bag of two numbered topics, a latched one, and one whose package nobody has."""
    with BagWriter(tmp_path / 'bag') as bag:
        bag.add_topic('/even', TEXT)
        bag.add_topic('/odd', TEXT, TopicQos(reliable=False, depth=3))
        bag.add_topic('/latched', TEXT, TopicQos(transient_local=True, depth=1))
        for name in ('/left', '/right'):
            kind = 'somebody_msgs/msg/Grip'
            bag.add_topic(name, kind, definition=define(name, kind, 'float64 force\n'))
            bag.write(name, START_NS, b'\0\1\0\0' + bytes(8))
        bag.write('/latched', START_NS, _text('latched'))
        for number in range(COUNT):
            topic = '/odd' if number % 2 else '/even'
            bag.write(topic, START_NS + number * STEP_NS, _text(f'{number}'))
    return tmp_path / 'bag'


@pytest.fixture
def replay(start_node: StartNode, bag: Path) -> Callable[..., NodeProcess]:
    """Return a function that starts a replayer of the bag with parameters."""

    def start(**parameters: object) -> NodeProcess:
        pairs = [f'{name}:={value}' for name, value in {'bag': bag, **parameters}.items()]
        return start_node(REPLAYER, '--ros-args', *(word for p in pairs for word in ('-p', p)))

    return start


def _listen(client: RosClient, kind: Any, topic: str, **qos: Any) -> list[bytes]:
    """Return a list of raw messages that grows while the client spins."""
    from rclpy.qos import QoSProfile  # noqa: PLC0415 (absent without ROS)

    found: list[bytes] = []
    profile = QoSProfile(depth=1000, **qos)
    client.node.create_subscription(kind, topic, found.append, profile, raw=True)
    return found


def _in_turn(messages: Sequence[bytes], first: bytes, count: int) -> list[bytes]:
    """Return so many messages of a loop from one of them on."""
    turn = itertools.cycle(messages)
    rest = itertools.dropwhile(lambda message: message != first, turn)
    return list(itertools.islice(rest, count))


def test_every_round_of_a_loop_has_every_byte_in_order(
    replay: Callable[..., NodeProcess], ros_client: RosClient
):
    from std_msgs.msg import String  # noqa: PLC0415 (absent without ROS)

    even = _listen(ros_client, String, '/even')
    replayer = replay(loop=True, rate=2.0)
    ros_client.spin_until(lambda: len(even) > 1.5 * COUNT)
    assert even == _in_turn([_text(f'{k}') for k in range(0, COUNT, 2)], even[0], len(even))
    assert replayer.stop() == 0
    assert 'replayed' in replayer.output


def test_topics_are_offered_as_they_were(replay: Callable[..., NodeProcess], ros_client: RosClient):
    from rclpy.qos import DurabilityPolicy, ReliabilityPolicy  # noqa: PLC0415 (absent without ROS)

    replay(start_paused=True).wait_for_line('paused')
    node = ros_client.node

    def offered(topic: str) -> list[Any]:
        return [info.qos_profile for info in node.get_publishers_info_by_topic(topic)]

    topics = ('/even', '/odd', '/latched')
    ros_client.spin_until(lambda: all(offered(topic) for topic in topics))
    even, odd, latched = (offered(topic)[0] for topic in topics)
    assert even.reliability is ReliabilityPolicy.RELIABLE
    assert even.durability is DurabilityPolicy.VOLATILE
    assert odd.reliability is ReliabilityPolicy.BEST_EFFORT
    assert latched.durability is DurabilityPolicy.TRANSIENT_LOCAL


def test_who_comes_late_gets_what_was_latched(
    replay: Callable[..., NodeProcess], ros_client: RosClient
):
    from std_msgs.msg import String  # noqa: PLC0415 (absent without ROS)

    replay(loop=True)
    late = ros_client.message(String, '/even', lambda m: int(m.data) > 50, latched=False)
    assert int(late.data) > 50
    assert ros_client.message(String, '/latched').data == 'latched'


def test_it_goes_on_from_the_place_that_is_sought_when_it_is_resumed(
    replay: Callable[..., NodeProcess], ros_client: RosClient
):
    from std_msgs.msg import Float64, String  # noqa: PLC0415 (absent without ROS)
    from std_srvs.srv import Trigger  # noqa: PLC0415

    even = _listen(ros_client, String, '/even')
    replayer = replay(loop=True)
    ros_client.spin_until(lambda: bool(even))
    paused = ros_client.call(Trigger, '/replayer/pause')
    assert paused.success
    assert paused.message.startswith('paused at ')
    seek = ros_client.node.create_publisher(Float64, '/replayer/seek', 10)
    ros_client.spin_until(lambda: seek.get_subscription_count() > 0)
    seek.publish(Float64(data=-1.0))
    replayer.wait_for_line(f'Expected a position from 0 to {SPAN:.3f} s, found -1 s')
    seek.publish(Float64(data=0.5))
    replayer.wait_for_line('going on from 0.500 s')
    ros_client.spin_until(lambda: True)
    before = len(even)
    resumed = ros_client.call(Trigger, '/replayer/resume')
    assert resumed.message == 'resumed at 0.500 s'
    ros_client.spin_until(lambda: len(even) > before)
    assert even[before] == _text('100')


def test_the_rate_is_changed_while_it_runs_and_a_bad_one_is_refused(
    replay: Callable[..., NodeProcess], ros_client: RosClient
):
    from rcl_interfaces.srv import SetParameters  # noqa: PLC0415 (absent without ROS)
    from rclpy.parameter import Parameter  # noqa: PLC0415

    # One message takes five seconds: without another rate, nothing would come in time.
    replayer = replay(rate=0.001)
    replayer.wait_for_line('at rate 0.001')

    def change(rate: float) -> Any:
        parameter = Parameter('rate', Parameter.Type.DOUBLE, rate).to_parameter_msg()
        request = SetParameters.Request(parameters=[parameter])
        return ros_client.call(SetParameters, '/replayer/set_parameters', request).results[0]

    refused = change(0.0)
    assert not refused.successful
    assert change(100.0).successful
    assert replayer.wait() == 0
    assert f'replayed {COUNT + 1} messages' in replayer.output


def test_a_type_that_is_missing_is_named_once_and_the_rest_is_replayed(
    replay: Callable[..., NodeProcess],
):
    replayer = replay(rate=100.0)
    assert replayer.wait() == 0, replayer.output
    assert replayer.output.count('somebody_msgs') == 2  # the type and its package, in one sentence
    assert f'{COUNT + 1} messages on 3 topics' in replayer.output
    assert f'replayed {COUNT + 1} messages up to {SPAN:.3f} s' in replayer.output


def test_the_clock_is_the_time_in_the_bag(
    replay: Callable[..., NodeProcess], ros_client: RosClient
):
    from rosgraph_msgs.msg import Clock  # noqa: PLC0415 (absent without ROS)

    replay(loop=True, clock=200.0)

    def after(message: Any) -> float:
        return (message.clock.sec * 10**9 + message.clock.nanosec - START_NS) / 1e9

    first = ros_client.message(Clock, '/clock', lambda m: 0 < after(m) < SPAN, latched=False)
    later = ros_client.message(Clock, '/clock', lambda m: after(m) > after(first), latched=False)
    assert 0 < after(first) < after(later) <= SPAN


def test_a_prediction_comes_with_what_was_measured(
    replay: Callable[..., NodeProcess], ros_client: RosClient, tmp_path: Path
):
    from sensor_msgs.msg import JointState  # noqa: PLC0415 (absent without ROS)

    config = calibration(tmp_path / 'out')
    identify(config).result.save(tmp_path / 'out' / 'result.json')
    expected = predict_bag(FOLDER / 'validate', of_result(tmp_path / 'out')).messages('/replayer/')
    names = [topic.name for topic in expected.topics]
    heard = {name: _listen(ros_client, JointState, name) for name in names}
    replayer = replay(bag=FOLDER / 'validate', result=tmp_path / 'out', loop=True)
    ros_client.spin_until(lambda: all(len(messages) > 400 for messages in heard.values()))
    assert names == [f'/replayer/{n}' for n in ('measured', 'nominal', 'predicted', 'residual')]
    for number, name in enumerate(names):
        own = [
            message
            for place, message in zip(expected.numbers, expected.messages, strict=True)
            if place == number
        ]
        assert heard[name] == _in_turn(own, heard[name][0], len(heard[name]))
    assert replayer.stop() == 0


@pytest.mark.parametrize(
    ('parameters', 'sentence'),
    [
        ({'bag': "''"}, "Expected a bag in parameter 'bag' (-p bag:=FOLDER), found none."),
        ({'bag': '/nowhere/bag'}, "There is no bag '/nowhere/bag'"),
        ({'topics': '/evn'}, 'holds no messages of /evn that are wanted; nearest: /even'),
        ({'topics': '/left'}, 'Expected a topic whose message type is installed here, found none.'),
        ({'result': '/nowhere'}, "There is no result '/nowhere'"),
        ({'exclude': "'('"}, "Expected a regular expression for 'exclude', found '('"),
    ],
)
def test_what_cannot_be_replayed_ends_it_with_one_sentence(
    replay: Callable[..., NodeProcess], parameters: dict[str, object], sentence: str
):
    replayer = replay(**parameters)
    assert replayer.wait() == 2
    assert sentence in replayer.output
    assert 'Traceback' not in replayer.output

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The listener hands over every message with the middleware's stamp, and rests in between."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import rclpy
from rclpy.duration import Duration
from rclpy.exceptions import InvalidHandle
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import String

from builders.ros_graph import RosClient
from sysid_ros.nodes.subscriptions import Listener, Numbers

pytestmark = pytest.mark.ros

#: Longest wait for anything, s. Reached only when a test fails.
TIMEOUT = 60.0


class Talker:
    """A reliable publisher of texts."""

    def __init__(self, client: RosClient, topic: str) -> None:
        self._publisher = client.node.create_publisher(String, topic, QoSProfile(depth=1000))

    def wait_for_listener(self, count: int = 1) -> None:
        """Wait until so many subscriptions are matched."""
        deadline = time.monotonic() + TIMEOUT
        while self._publisher.get_subscription_count() != count:
            assert time.monotonic() < deadline, f'not {count} subscriptions'
            time.sleep(0.01)  # rclpy 7.1 has no event for this

    def say(self, text: str) -> tuple[int, int]:
        """Publish; return the clock before, and after the listener's middleware has it, ns."""
        before = time.time_ns()
        self.chatter(text)
        assert self._publisher.wait_for_all_acked(Duration(seconds=int(TIMEOUT)))
        return before, time.time_ns()

    def chatter(self, text: str) -> None:
        """Publish, whoever hears it."""
        self._publisher.publish(String(data=text))


class Heard:
    """Takes messages, holding up the listener's thread for as long as it is told to."""

    def __init__(self) -> None:
        self.messages: queue.SimpleQueue[tuple[int, int, str]] = queue.SimpleQueue()
        self.go_on = threading.Event()
        self.go_on.set()

    def __call__(self, received: int, sent: int, cdr: bytes) -> None:
        """Take a message."""
        self.messages.put((received, sent, deserialize_message(cdr, String).data))
        assert self.go_on.wait(TIMEOUT)

    def next(self) -> tuple[int, int, str]:
        """Return the stamps, of receipt and of sending, and the text of the next message."""
        return self.messages.get(timeout=TIMEOUT)

    def texts(self) -> list[str]:
        """Return the texts of all messages so far that nobody has looked at."""
        return [self.messages.get()[2] for _ in range(self.messages.qsize())]


Failures = queue.SimpleQueue[BaseException]
Talkers = Callable[[str], Talker]


@pytest.fixture
def failures() -> Failures:
    """Return what the listeners of a test reported."""
    return queue.SimpleQueue()


@pytest.fixture
def listener(ros_env: dict[str, str], failures: Failures) -> Iterator[Any]:
    """Return a listener, which is closed at the end of the test if it still runs."""
    rclpy.init(
        domain_id=int(ros_env['ROS_DOMAIN_ID']), signal_handler_options=SignalHandlerOptions.NO
    )
    node = rclpy.create_node('owner')
    made = Listener(node, failures.put)
    yield made
    if made._thread.is_alive():
        made.close()
    assert not made._thread.is_alive()
    node.destroy_node()
    rclpy.try_shutdown()


@pytest.fixture
def talker(ros_client: RosClient) -> Talkers:
    """Return a function that makes a publisher, which is not in the listener's context."""
    return lambda topic: Talker(ros_client, topic)


def test_stamps_tell_when_a_message_was_sent_and_arrived_however_late_python_is(
    listener: Any, talker: Talkers
):
    heard = Heard()
    heard.go_on.clear()
    listener.subscribe(String, '/words', heard, 10)
    words = talker('/words')
    words.wait_for_listener()
    published, arrived = words.say('first')
    received, sent, text = heard.next()
    assert text == 'first'
    assert published <= sent <= received <= arrived
    # The thread is held up in its callback now; the middleware is not.
    published, arrived = words.say('second')
    released = time.time_ns()
    heard.go_on.set()
    received, sent, text = heard.next()
    assert text == 'second'
    assert published <= sent <= received <= arrived <= released


def test_subscribing_and_unsubscribing_while_messages_arrive_loses_none_on_other_topics(
    listener: Any, talker: Talkers, failures: Failures
):
    steady, passing = Heard(), Heard()
    # On a busy machine the listener may wait long for its turn; its queue must not run over.
    room = threading.Semaphore(500)

    def hear(received: int, sent: int, cdr: bytes) -> None:
        steady(received, sent, cdr)
        room.release()

    listener.subscribe(String, '/steady', hear, 1000)
    words = talker('/steady')
    words.wait_for_listener()
    stop = threading.Event()
    said: list[str] = []

    def talk() -> None:
        while not stop.is_set():
            assert room.acquire(timeout=TIMEOUT)
            said.append(str(len(said)))
            words.say(said[-1])

    talking = threading.Thread(target=talk)
    talking.start()
    for number in range(20):
        assert steady.next()[2] == str(number)
        listener.unsubscribe(listener.subscribe(String, '/passing', passing, 10))
    stop.set()
    talking.join()
    assert [steady.next()[2] for _ in said[20:]] == said[20:]
    other = talker('/passing')
    other.wait_for_listener(0)
    other.chatter('not heard')
    assert (steady.texts(), passing.texts()) == ([], [])
    assert failures.empty()


def test_closing_takes_what_has_arrived_and_ends_while_more_arrives(
    listener: Any, talker: Talkers, failures: Failures
):
    heard = Heard()
    heard.go_on.clear()
    listener.subscribe(String, '/words', heard, 1000)
    words = talker('/words')
    words.wait_for_listener()
    numbers = [str(number) for number in range(100)]
    for number in numbers:
        words.say(number)
    # Nobody waits for an acknowledgement of these: they come while it closes.
    stop = threading.Event()

    def chatter() -> None:
        # Some always wait, but not so many that they push the numbers out of the queue.
        while not stop.wait(1e-3):
            words.chatter('more')

    chatting = threading.Thread(target=chatter)
    closing = threading.Thread(target=listener.close)
    closing.start()
    heard.go_on.set()
    chatting.start()
    closing.join(TIMEOUT)
    stop.set()
    chatting.join()
    assert not closing.is_alive()
    assert heard.texts()[:100] == numbers
    assert failures.empty()
    words.chatter('after the end')
    assert heard.texts() == []


def test_what_came_before_closing_is_taken_even_if_no_wait_comes_any_more(
    listener: Any, talker: Talkers, monkeypatch: pytest.MonkeyPatch
):
    heard = Heard()
    took, go_on = threading.Event(), threading.Event()
    take = listener._take

    def take_and_pause() -> None:
        take()
        took.set()
        assert go_on.wait(TIMEOUT)

    monkeypatch.setattr(listener, '_take', take_and_pause)
    listener.subscribe(String, '/words', heard, 10)
    assert took.wait(TIMEOUT)
    words = talker('/words')
    words.wait_for_listener()
    # The thread is between a look at the messages and the question whether to go on.
    words.say('last')
    listener._closing = True
    go_on.set()
    listener.close()
    assert heard.texts() == ['last']


def test_what_is_pushed_out_of_the_queue_is_counted_and_catching_up_takes_the_rest(
    listener: Any, talker: Talkers
):
    heard, lost = Heard(), queue.SimpleQueue[int]()
    go_on, waiting = threading.Event(), threading.Event()
    wait = listener._wait

    def wait_longer() -> None:
        waiting.set()
        assert go_on.wait(TIMEOUT)
        wait()

    one, other = talker('/words'), talker('/words')
    listener.subscribe(String, '/words', heard, 10, lost.put)
    one.wait_for_listener()
    other.wait_for_listener()
    for words in (one, other):
        words.say('first')
        assert heard.next()[2] == 'first'
    listener._wait = wait_longer
    one.chatter('second')
    assert waiting.wait(TIMEOUT)
    # The listener's thread stands still now, and has taken the second or not.
    for number in range(30):
        one.say(f'one {number}')
    for number in range(7):
        other.say(f'other {number}')

    listener.catch_up()

    texts = heard.texts()
    assert texts[-8:] == ['one 29', *(f'other {number}' for number in range(7))]
    missing = sum(lost.get() for _ in range(lost.qsize()))
    assert missing == 38 - len(texts) >= 20
    go_on.set()
    listener._wait = wait
    other.say('last')
    assert heard.next()[2] == 'last'
    assert lost.empty()


@pytest.mark.parametrize(
    ('numbers', 'publishers', 'missing'),
    [
        ([5, 6, 7], 1, 0),
        ([5, 9, 10], 1, 3),
        ([1, 100, 2, 101, 5, 110], 2, 2 + 8),
        # The one that said 98 says 101 and 102, or the other one does: as many are missing.
        ([98, 100, 101, 103, 102], 2, 4),
        # One begins anew.
        ([10, 20, 1, 2, 5], 1, 9 + 2),
        # Another one that is connected may be late.
        ([1, 2, 50, 3, 51, 60], 2, 8),
    ],
)
def test_numbers_tell_what_is_missing_of_all_publishers(
    numbers: list[int], publishers: int, missing: int
):
    told = Numbers()
    told.publishers = publishers
    assert sum(map(told.missing, numbers)) == missing


def test_an_error_in_a_callback_is_reported_once_and_ends_the_thread(
    listener: Any, talker: Talkers, failures: Failures
):
    error = InvalidHandle('of a publisher, say')

    def refuse(*_: object) -> None:
        raise error

    listener.subscribe(String, '/words', refuse, 10)
    words = talker('/words')
    words.wait_for_listener()
    words.say('once')
    assert failures.get(timeout=TIMEOUT) is error
    listener._thread.join(TIMEOUT)
    words.say('twice')
    listener.close()
    assert failures.empty()

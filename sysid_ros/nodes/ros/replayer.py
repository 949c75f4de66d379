# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the ``replayer`` node does: publish a bag again, and what a model says beside it."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rclpy.clock import Clock as RosClock
from rclpy.clock import ClockType
from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from std_msgs.msg import Float64
from std_srvs.srv import Trigger

from sysid_ros.bags.playback import LATE_NS, Playback
from sysid_ros.bags.raw import read_raw
from sysid_ros.config import ReplayerConfig, load_calibration
from sysid_ros.errors import BagError, ConfigError, RosError
from sysid_ros.nodes.ros.parameters import declare
from sysid_ros.nodes.ros.recorder.graph import message_class
from sysid_ros.nodes.ros.simulation import DEPTH, stamp

if TYPE_CHECKING:
    from rclpy.node import Node
    from rclpy.publisher import Publisher

    from sysid_ros.bags.output.files import TopicQos
    from sysid_ros.bags.raw import RawMessages
    from sysid_ros.nodes.ros.runtime import Stop

_CLOCK = '/clock'
#: From the announcement of the topics to the first message, s: who listens already is connected by
#: then, and the node's start is over.
_LEAD_SECONDS = 1.0
#: How long the last messages may take to reach their subscribers, s.
_FAREWELL_SECONDS = 0.5
#: The lowest there is: before every process without one, behind every controller.
_REAL_TIME_PRIORITY = 1


class Replayer:
    """Publishes the messages of a bag, each at its time."""

    def __init__(self, node: Node, stop: Stop) -> None:
        """Declare parameters, read the bag, predict, and start to publish.

        Raises:
            SysidError: A parameter, the bag, the model or the result is not valid.
        """
        self._log = node.get_logger()
        self._stop = stop
        config = declare(
            node, ReplayerConfig, changeable=('rate', 'loop'), on_change=self._on_change
        )
        if not config.bag:
            msg = "Expected a bag in parameter 'bag' (-p bag:=FOLDER), found none."
            raise ConfigError(msg)
        content = self._read(config)
        self._publishers: dict[str, Publisher] = {}
        content = self._announce(node, content)
        self._playback = Playback(
            content.times_ns.tolist(),
            rate=config.rate,
            loop=config.loop,
            paused=config.start_paused,
            lead=0.0 if config.start_paused else _LEAD_SECONDS,
        )
        node.create_service(Trigger, '~/pause', self._on_pause)
        node.create_service(Trigger, '~/resume', self._on_resume)
        node.create_subscription(Float64, '~/seek', self._on_seek, 10)
        if config.clock:
            self._clock = node.create_publisher(Clock, _CLOCK, 10)
            steady = RosClock(clock_type=ClockType.STEADY_TIME)
            node.create_timer(1.0 / config.clock, self._on_clock, clock=steady)
        self._log.info(
            f'replaying {config.bag!r}: {len(content.messages)} messages on '
            f'{len(content.topics)} topics, {self._playback.duration:.1f} s at rate '
            f'{config.rate:g}' + (', paused' if config.start_paused else '')
        )
        self._thread = threading.Thread(target=self._run, args=(content,), name='replaying')
        self._thread.start()

    def close(self) -> None:
        """Stop publishing, and say how punctual it was."""
        self._playback.close()
        self._thread.join()
        messages, late, worst_ns = self._playback.punctuality
        self._log.info(
            f'replayed {messages} messages up to {self._playback.position:.3f} s; '
            f'{late} left more than {LATE_NS / 1e6:g} ms late, the latest {worst_ns / 1e6:.2f} ms'
        )

    def _read(self, config: ReplayerConfig) -> RawMessages:
        """Return the messages of the bag, and those of a prediction beside them."""
        bag = Path(config.bag)
        content = read_raw(bag, config.topics, config.exclude)
        if config.clock:
            content = content.without({_CLOCK})
        if not (config.config or config.result):
            return content
        # Who only replays does not wait for the engine.
        from sysid_ros.pipeline.forecast import of_config, of_result  # noqa: PLC0415
        from sysid_ros.pipeline.predicting import predict_bag  # noqa: PLC0415

        if config.result:
            given = load_calibration(Path(config.config)) if config.config else None
            forecast = of_result(Path(config.result), given)
        else:
            forecast = of_config(Path(config.config))
        if forecast.result is None:
            self._log.info('there is no result yet: the model predicts as it is')
        prediction = predict_bag(bag, forecast, _Told(self._log))
        for name in prediction.unstable:
            self._log.warning(f'the simulation of {name} becomes unstable')
        return content.beside(prediction.messages('~/'))

    def _announce(self, node: Node, content: RawMessages) -> RawMessages:
        """Create the publishers, and return the messages that they can publish."""
        missing: dict[str, RosError] = {}
        skipped = []
        for topic in content.topics:
            try:
                kind = message_class(topic.name, topic.msgtype)
            except RosError as err:
                missing.setdefault(topic.msgtype, err)
                skipped.append(topic.name)
                continue
            self._publishers[topic.name] = node.create_publisher(kind, topic.name, _qos(topic.qos))
        for reason in missing.values():
            self._log.warning(f'skipped: {reason}')
        if not self._publishers:
            msg = 'Expected a topic whose message type is installed here, found none.'
            raise RosError(msg)
        return content.without(skipped)

    def _run(self, content: RawMessages) -> None:
        # Where that is allowed, others who are busy do not make messages late.
        with suppress(AttributeError, OSError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_REAL_TIME_PRIORITY))
        try:
            publish = [self._publishers[topic.name].publish for topic in content.topics]
            numbers, messages = content.numbers.tolist(), content.messages
            for place in self._playback:
                publish[numbers[place]](messages[place])
            self._say_farewell()
        except BaseException as err:  # noqa: BLE001 (raised again in the main thread)
            self._stop.request(err)
        else:
            self._stop.request()

    def _say_farewell(self) -> None:
        """Wait until the last messages have arrived where somebody has to confirm them."""
        end = time.monotonic() + _FAREWELL_SECONDS
        for publisher in self._publishers.values():
            left = max(0.0, end - time.monotonic())
            publisher.wait_for_all_acked(Duration(seconds=left))

    def _on_change(self, config: ReplayerConfig) -> None:
        self._playback.loop = config.loop
        self._playback.set_rate(config.rate)

    def _on_pause(self, _: Any, response: Any) -> Any:
        self._playback.pause()
        return self._answer(response, 'paused', self._playback.position)

    def _on_resume(self, _: Any, response: Any) -> Any:
        # Where it stood: it moves on from there at once.
        position = self._playback.position
        self._playback.resume()
        return self._answer(response, 'resumed', position)

    def _answer(self, response: Any, what: str, position: float) -> Any:
        response.success = True
        response.message = f'{what} at {position:.3f} s'
        self._log.info(response.message)
        return response

    def _on_seek(self, message: Any) -> None:
        try:
            self._playback.seek(message.data)
        except BagError as err:
            self._log.warning(str(err))
        else:
            self._log.info(f'going on from {message.data:.3f} s')

    def _on_clock(self) -> None:
        self._clock.publish(Clock(clock=stamp(self._playback.time_ns)))


class _Told:
    """Logs what a prediction does; see `Observer`."""

    def __init__(self, log: Any) -> None:
        self._log = log

    def stage(self, text: str) -> None:
        self._log.info(text)

    def iteration(self, iteration: Any) -> None:
        """Nothing is iterated."""


def _qos(qos: TopicQos) -> QoSProfile:
    """Return how a topic is offered: as it was, with room for what a slow subscriber has missed."""
    return QoSProfile(
        # Whoever comes late gets as many latched messages as it did then.
        depth=max(qos.depth, 1) if qos.transient_local else max(qos.depth, DEPTH),
        reliability=ReliabilityPolicy.RELIABLE if qos.reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=(
            DurabilityPolicy.TRANSIENT_LOCAL if qos.transient_local else DurabilityPolicy.VOLATILE
        ),
    )

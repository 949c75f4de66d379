# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the ``recorder`` node does: subscribe to what is published and put it into a bag."""

from __future__ import annotations

import enum
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rclpy.clock import Clock, ClockType
from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String
from std_srvs.srv import Trigger

from sysid_ros.bags.recording import Recording, TopicCount, free_name, summary
from sysid_ros.bags.writer import BagWriter
from sysid_ros.config import RecorderConfig
from sysid_ros.errors import ConfigError, SysidError
from sysid_ros.nodes.discovery import (
    default_topics,
    message_class,
    offer,
    offers,
    topic_spec,
)
from sysid_ros.nodes.parameters import declare
from sysid_ros.nodes.subscriptions import Subscriptions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rclpy.node import Node

    from sysid_ros.bags.recording import TopicSpec
    from sysid_ros.nodes.discovery import Offer
    from sysid_ros.nodes.runtime import Stop

#: The graph is looked at this often while topics are missing, seconds.
_LOOK_SECONDS = 0.1
#: New topics are looked for, and the status is published, this often while recording, seconds.
_SLOW_SECONDS = 1.0
#: What is still missing is logged this often, seconds.
_REMIND_SECONDS = 3.0
#: Without a list of topics, the graph must not have changed for so long, seconds: the topics of
#: one robot are discovered one after the other.
_SETTLE_SECONDS = 1.0
#: How long the last status may take to reach its subscribers, seconds.
_FAREWELL_SECONDS = 0.5

_JOINT_STATES = '/joint_states'


class State(enum.Enum):
    """What the recorder is doing, as in its status topic."""

    WAITING = 'waiting'
    PAUSED = 'paused'
    RECORDING = 'recording'
    STOPPED = 'stopped'


class Recorder:
    """Records topics of the graph into bags."""

    def __init__(self, node: Node, stop: Stop) -> None:
        """Declare parameters, services and the status, and begin to look for topics.

        Raises:
            SysidError: A parameter is not valid, or the output exists.
        """
        self._node = node
        self._stop = stop
        self._log = node.get_logger()
        self._config = declare(
            node, RecorderConfig, changeable=('max_duration',), on_change=self._set_config
        )
        if not self._config.output:
            msg = "Expected the bag's folder in parameter 'output', as -p output:=DIR, found none."
            raise ConfigError(msg)
        self._base = Path(self._config.output)
        BagWriter(self._base, self._config.storage)  # complains now if the folder exists
        self._names = self._resolve(self._config.topics)
        # Not awaited: commands that nobody sends yet.
        self._awaited = self._names or self._resolve((_JOINT_STATES,))
        self._paused = self._config.start_paused
        self._state = State.WAITING
        self._recording: Recording | None = None
        self._counts: tuple[TopicCount, ...] = ()
        self._output = self._base
        self._subscriptions = Subscriptions(node, stop.request)
        self._missing: tuple[str, ...] = ()
        self._seen: tuple[Offer, ...] = ()
        now = time.monotonic()
        self._seen_since = self._reminded = self._looked = self._began = now
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._status = node.create_publisher(String, '~/status', latched)
        node.create_service(Trigger, '~/start', self._on_start)
        node.create_service(Trigger, '~/stop', self._on_stop)
        # Not the node's clock: with use_sim_time a paused simulation would stop the recorder.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        node.create_timer(_LOOK_SECONDS, self._tick, clock=steady)
        self._publish_status()

    def close(self) -> None:
        """Finish the bag and say good-bye on the status topic."""
        self._subscriptions.close()
        self._end_recording()
        self._state = State.STOPPED
        self._publish_status()
        self._status.wait_for_all_acked(Duration(seconds=_FAREWELL_SECONDS))

    # Looking for topics

    def _resolve(self, topics: tuple[str, ...]) -> tuple[str, ...]:
        try:
            names = [self._node.resolve_topic_name(topic) for topic in topics]
        except RuntimeError as err:
            # rclpy appends the place in its C sources.
            reason = str(err).partition(', at ')[0]
            msg = f"Expected names of topics in parameter 'topics', found an error: {reason}."
            raise ConfigError(msg) from err
        return tuple(dict.fromkeys(names))

    def _set_config(self, config: RecorderConfig) -> None:
        self._config = config

    def _tick(self) -> None:
        now = time.monotonic()
        if self._state is State.WAITING:
            self._wait(now)
        elif now - self._looked >= _SLOW_SECONDS:
            self._looked = now
            self._follow_graph()
            self._publish_status()
        if self._state is State.RECORDING and 0 < self._config.max_duration <= now - self._began:
            self._log.info(f'max_duration of {self._config.max_duration:g} s is over')
            self._stop.request()

    def _wait(self, now: float) -> None:
        """Subscribe when everything is published; be ready when all of it is connected."""
        if not self._subscriptions:
            self._missing = self._subscribe_when_published(now)
        if self._subscriptions:
            self._subscriptions.replace_mismatched()
            self._missing = self._subscriptions.unconnected(self._awaited)
            if not self._missing:
                self._ready()
                return
        if now - self._reminded >= _REMIND_SECONDS:
            self._reminded = now
            if self._missing:
                self._log.info(f'waiting for a publisher of {", ".join(self._missing)}')
            self._publish_status()

    def _subscribe_when_published(self, now: float) -> tuple[str, ...]:
        """Subscribe if all awaited topics have a publisher; return those that have none."""
        wanted = tuple(offer(self._node, topic) for topic in self._awaited)
        missing = tuple(found.topic for found in wanted if not found.publishers)
        if missing:
            return missing
        if not self._names:
            wanted += self._default_offers()
            if wanted != self._seen:
                self._seen, self._seen_since = wanted, now
            if now - self._seen_since < _SETTLE_SECONDS:
                return ()
        specs = [topic_spec(found) for found in wanted]
        for spec in specs:
            message_class(spec.topic, spec.msgtype)
        # The bag comes first, so that nothing that arrives is without a place.
        if not self._paused:
            self._begin_recording(specs)
        for spec in specs:
            self._subscriptions.add(spec)
        return ()

    def _default_offers(self) -> tuple[Offer, ...]:
        graph = offers(self._node)
        return tuple(o for o in default_topics(graph) if o.topic not in self._awaited)

    def _ready(self) -> None:
        self._began = time.monotonic()
        if self._recording is None:
            self._state = State.PAUSED
            self._log.info('paused; call ~/start to record')
        else:
            self._state = State.RECORDING
            topics = ', '.join(spec.topic for spec in self._subscriptions.specs)
            self._log.info(f'recording {topics} to {str(self._output)!r}')
        self._publish_status()

    def _follow_graph(self) -> None:
        """Adapt to publishers that came after the start."""
        self._subscriptions.replace_mismatched()
        if self._names or not self._subscriptions:
            return
        for found in self._default_offers():
            if found.topic not in self._subscriptions:
                spec = topic_spec(found)
                if self._recording is not None:
                    self._recording.add(spec)
                self._subscriptions.add(spec)
                self._log.info(f'also recording {spec.topic}')

    # Recording

    def _begin_recording(self, specs: Iterable[TopicSpec]) -> None:
        self._output = free_name(self._base) if self._counts else self._base
        self._counts = ()
        self._recording = Recording(
            self._output,
            specs,
            storage=self._config.storage,
            on_failure=self._stop.request,
        )
        self._subscriptions.sink = self._recording
        self._subscriptions.repeat_latched()

    def _end_recording(self) -> SysidError | None:
        """Finish the bag, if there is one; return why it could not be written."""
        recording, self._recording = self._recording, None
        self._subscriptions.sink = None
        if recording is None:
            return None
        self._counts = recording.close().counts
        end = 'failed' if recording.failure else 'closed'
        self._log.info(f'{end} {str(self._output)!r}\n{summary(self._counts)}')
        return recording.failure

    def _on_start(self, _: Any, response: Any) -> Any:
        if self._recording is not None:
            response.message = f'Already recording to {str(self._output)!r}.'
            return response
        try:
            if self._subscriptions:
                self._begin_recording(self._subscriptions.specs)
        except SysidError as err:
            response.message = str(err)
            return response
        self._paused = False
        response.success = True
        if self._recording is None:
            self._state = State.WAITING
            self._publish_status()
            missing = ', '.join(self._missing) or 'topics'
            response.message = f'Recording begins when there is a publisher of {missing}.'
        elif self._state is State.WAITING:
            response.message = 'Recording begins when all topics are connected.'
        else:
            self._ready()
            response.message = f'Recording to {str(self._output)!r}.'
        return response

    def _on_stop(self, _: Any, response: Any) -> Any:
        if self._recording is None and (self._state is not State.WAITING or self._paused):
            response.message = f'Not recording: the recorder is {self._state.value}.'
            return response
        began = self._recording is not None
        failure = self._end_recording()
        self._state = State.STOPPED
        self._paused = True
        self._publish_status()
        response.success = failure is None
        closed = f'Closed {str(self._output)!r}.' if began else 'Stopped; nothing was recorded.'
        response.message = str(failure) if failure else closed
        return response

    def _publish_status(self) -> None:
        counts = self._counts if self._recording is None else self._recording.counts()
        status = {
            'state': self._state.value,
            'output': str(self._output),
            'waiting_for': list(self._missing),
            'counts': {
                count.topic: {
                    'messages': count.messages,
                    'rate': round(count.rate, 3),
                    'lost': count.lost + count.dropped,
                }
                for count in counts
            },
            'error': str(self._stop.error) if self._stop.error else '',
        }
        self._status.publish(String(data=json.dumps(status)))

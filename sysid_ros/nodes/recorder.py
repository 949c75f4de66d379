# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the ``recorder`` node does: subscribe to what is published and put it into a bag."""

from __future__ import annotations

import json
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.client import Client
from rclpy.clock import Clock, ClockType
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python
from std_msgs.msg import String
from std_srvs.srv import Trigger

from sysid_ros.bags.recording import Recording, TopicStats, free_name, summary
from sysid_ros.bags.storage import Topic
from sysid_ros.bags.writer import BagWriter
from sysid_ros.config.nodes import RecorderConfig
from sysid_ros.errors import ConfigError, SysidError, sentence
from sysid_ros.nodes.graph import make_selection
from sysid_ros.nodes.parameters import declare
from sysid_ros.nodes.runtime import (
    FAREWELL_SECONDS,
    GRAPH_SECONDS,
    PATIENCE_SECONDS,
    STATUS_SECONDS,
    Stop,
    latched,
)
from sysid_ros.nodes.subscriptions import Topics
from sysid_ros.version import __version__

#: Fact to the parameters of ros2_control's controllers that say it.
#: https://control.ros.org/jazzy/doc/ros2_controllers/doc/controllers_index.html
_OF_CONTROLLERS = {'joints': ('joints', 'dof_names'), 'interface': ('interface_name',)}


class Facts:
    """Collects the facts of a recorder's bags."""

    def __init__(self, node: Node) -> None:
        """Listen to the ``robot_description`` of the namespace of a node that is spun."""
        self._node = node
        self._session: dict[str, str] = {}
        self._heard: dict[str, str] = {}
        self._controllers: dict[str, dict[str, Any]] = {}
        self._clients: dict[str, tuple[Client, Client]] = {}
        self._answered: set[str] = set()
        node.create_subscription(String, 'robot_description', self._describe, latched())

    def _describe(self, message: Any) -> None:
        self._heard['robot_description'] = message.data

    def ask(self, topics: Iterable[str]) -> None:
        """Ask the controllers that these topics belong to what they move, until they answer.

        ros2_control's controllers are nodes of their own, whose topics begin with their names.
        Fast DDS may lose the first request to a node that has just been discovered, or its answer
        (github.com/ros2/rmw_fastrtps/issues/842), so that it is asked more than once.
        """
        nodes = self._node.get_node_names_and_namespaces()
        present = {f'{namespace.rstrip("/")}/{name}' for name, namespace in nodes}
        for name in ({topic.rpartition('/')[0] for topic in topics} & present) - self._answered:
            if name not in self._clients:
                self._clients[name] = (
                    self._node.create_client(ListParameters, f'{name}/list_parameters'),
                    self._node.create_client(GetParameters, f'{name}/get_parameters'),
                )
            if all(client.service_is_ready() for client in self._clients[name]):
                listed = self._clients[name][0].call_async(ListParameters.Request())
                listed.add_done_callback(partial(self._heed, self._ask_values, name))

    def _heed(self, heed: Callable[..., None], name: str, *answer: Any) -> None:
        """Take a controller's answer; one that is of no use is told, and not asked for again."""
        try:
            heed(name, *answer)
        except Exception as err:  # noqa: BLE001 (rclpy 7.1's EventsExecutor would crash)
            self._answered.add(name)
            self._node.get_logger().warning(sentence(f'{name} answers nonsense: {err!r}'))

    def _ask_values(self, name: str, listed: Any) -> None:
        # A controller answers nothing at all where one of the parameters is not its own.
        wanted = {key for keys in _OF_CONTROLLERS.values() for key in keys}
        names = sorted(wanted & set(listed.result().result.names))
        asked = self._clients[name][1].call_async(GetParameters.Request(names=names))
        asked.add_done_callback(partial(self._heed, self._note, name, names))

    def _note(self, name: str, names: list[str], asked: Any) -> None:
        self._answered.add(name)
        values = dict(
            zip(names, map(parameter_value_to_python, asked.result().values), strict=False)
        )
        found = {
            fact: next((values[key] for key in keys if values.get(key)), None)
            for fact, keys in _OF_CONTROLLERS.items()
        }
        if any(found.values()):
            self._controllers[name] = {
                key: value if isinstance(value, str) else list(map(str, value))
                for key, value in found.items()
                if value
            }
            self._heard['controllers'] = json.dumps(self._controllers)

    def begin(self) -> None:
        """Take note of how and when a bag begins."""
        self._session = {
            'version': __version__,
            'command_line': shlex.join(sys.orig_argv),
            'host': f'{platform.node()} ({platform.platform()}, '
            f'Python {platform.python_version()})',
            'started': datetime.now(UTC).isoformat(),
        }

    def current(self, config: RecorderConfig, topics: Topics) -> dict[str, str]:
        """Return the facts as they are now."""
        found = {
            'found': {spec.name: spec.msgtype for spec in topics.specs},
            'missing': list(topics.missing),
            'refused': topics.refused,
        }
        own = {'notes': config.notes, 'topics': json.dumps(found)}
        return self._session | own | self._heard


class Recorder:
    """Records topics of the graph into bags."""

    def __init__(self, node: Node, stop: Stop) -> None:
        """Declare parameters, services and the status, and begin to look for topics."""
        self._node = node
        self._stop = stop
        self._log = node.get_logger()
        self._config = declare(
            node, RecorderConfig, changeable=('max_duration', 'notes'), on_change=self._set_config
        )
        if not self._config.output:
            raise ConfigError(
                "Expected the bag's folder in parameter 'output', as -p output:=DIR, found none."
            )
        self._base = self._output = Path(self._config.output)
        # Complains now if the folder exists.
        BagWriter(self._base)
        sim_time = bool(node.get_parameter('use_sim_time').value)
        self._wanted = not self._config.start_paused
        self._recording: Recording | None = None
        #: Since when all topics are connected and recorded; None before.
        self._since: float | None = None
        self._counts: tuple[TopicStats, ...] = ()
        self._slow = self._reminded = time.monotonic()
        self._selection = make_selection(node, self._config, sim_time=sim_time)
        now = self._ros_time if sim_time else None
        self._topics = Topics(node, self._selection, stop.request, now)
        self._facts = Facts(node)
        self._status = node.create_publisher(String, '~/status', latched())
        self._diagnostics = node.create_publisher(DiagnosticArray, '/diagnostics', 10)
        node.create_service(Trigger, '~/start', self._on_start)
        node.create_service(Trigger, '~/stop', self._on_stop)
        # Not the node's clock: with use_sim_time a paused simulation would stop the recorder.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        node.create_timer(GRAPH_SECONDS, self._tick, clock=steady)
        self._publish()

    def close(self) -> None:
        """Finish the bag and say good-bye on the status topic."""
        self._topics.close()
        self._end()
        self._publish()
        for publisher in (self._status, self._diagnostics):
            publisher.wait_for_all_acked(Duration(seconds=FAREWELL_SECONDS))

    def _set_config(self, config: RecorderConfig) -> None:
        self._config = config

    def _ros_time(self) -> int:
        return int(self._node.get_clock().now().nanoseconds)

    # The course of a recording

    @property
    def _state(self) -> str:
        if not self._wanted:
            return 'stopped'
        return 'waiting' if self._since is None else 'recording'

    def _tick(self) -> None:
        now = time.monotonic()
        slowly = now - self._slow >= STATUS_SECONDS
        self._topics.look(slowly=slowly)
        if specs := self._topics.found(now):
            # The bag comes first, so that nothing that arrives is without a place.
            if self._wanted:
                self._begin(specs)
            self._topics.begin(specs)
        if self._wanted and self._since is None:
            self._wait(now)
        elif self._since is not None and 0 < self._config.max_duration <= now - self._since:
            self._log.info(f'max_duration of {self._config.max_duration:g} s is over')
            self._stop.request()
        if slowly:
            self._slow = now
            self._facts.ask(spec.name for spec in self._topics.specs)
            self._tell_facts()
            self._publish()

    def _wait(self, now: float) -> None:
        """Say that it records once all topics are connected, and until then what is missing."""
        if self._recording is not None and not self._topics.waiting_for:
            self._since = now
            topics = ', '.join(spec.name for spec in self._topics.specs)
            self._log.info(f'recording {topics} to {str(self._output)!r}')
            self._publish()
        elif now - self._reminded >= PATIENCE_SECONDS:
            self._reminded = now
            missing = self._topics.waiting_for or 'topics to settle'
            self._log.info(f'waiting for {missing}; `sysid doctor` says what is seen here')

    def _begin(self, specs: tuple[Topic, ...]) -> None:
        self._output = free_name(self._base) if self._counts else self._base
        self._facts.begin()
        recording = Recording(
            self._output,
            specs,
            facts=self._facts.current(self._config, self._topics),
            on_failure=self._stop.request,
            compression=self._config.compression,
        )
        self._recording = recording
        self._topics.record(recording)

    def _end(self) -> SysidError | None:
        """Finish the bag, if there is one; return why it could not be written."""
        self._wanted, self._since = False, None
        self._tell_facts()
        recording, self._recording = self._recording, None
        self._topics.record(None)
        if recording is None:
            return None
        done = recording.close()
        self._counts = done.counts
        end = 'failed' if done.failure else 'closed'
        came = {count.topic for count in done.counts if count.messages}
        missed = {
            **{topic: f'Nothing came on topic {topic!r}.' for topic in self._selection.names},
            **self._topics.refused,
        }
        lines = [
            f'{end} {str(done.path)!r}: {done.size / 1e6:.1f} MB, {done.seconds:.1f} s',
            summary(done.counts),
            *(f'not recorded: {why}' for topic, why in missed.items() if topic not in came),
        ]
        if not done.failure:
            lines.append(f'next: {shlex.join(["sysid", "inspect", str(done.path)])}')
        self._log.info('\n'.join(lines))
        return done.failure

    def _tell_facts(self) -> None:
        if self._recording is not None:
            self._recording.set_facts(self._facts.current(self._config, self._topics))

    # Services

    def _on_start(self, _: Any, response: Any) -> Any:
        if self._recording is not None:
            response.message = f'Already recording to {str(self._output)!r}.'
            return response
        self._wanted = response.success = True
        if self._topics.begun:
            try:
                self._begin(self._topics.specs)
            except SysidError as err:
                self._wanted = response.success = False
                response.message = str(err)
                return response
        self._wait(time.monotonic())
        missing = self._topics.waiting_for or 'all topics'
        response.message = (
            f'Recording begins when there is {missing}.'
            if self._since is None
            else f'Recording to {str(self._output)!r}.'
        )
        return response

    def _on_stop(self, _: Any, response: Any) -> Any:
        if not self._wanted:
            response.message = 'Not recording: the recorder is stopped.'
            return response
        began = self._recording is not None
        failure = self._end()
        self._publish()
        response.success = failure is None
        closed = f'Closed {str(self._output)!r}.' if began else 'Stopped; nothing was recorded.'
        response.message = str(failure) if failure else closed
        return response

    # What it says

    def _publish(self) -> None:
        counts = self._counts if self._recording is None else self._recording.counts()
        error = str(self._stop.error) if self._stop.error else ''
        status = {
            'state': self._state,
            'output': str(self._output),
            'waiting_for': self._topics.waiting_for if self._state == 'waiting' else '',
            'counts': {count.topic: _counts(count) for count in counts},
            'refused': self._topics.refused,
            'error': error,
        }
        self._status.publish(String(data=json.dumps(status)))
        message = DiagnosticArray(status=self._diagnoses(counts, error))
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._diagnostics.publish(message)

    def _diagnoses(self, counts: Iterable[TopicStats], error: str) -> list[DiagnosticStatus]:
        """Return a status of the recorder, and one for each topic."""
        # With its namespace: diagnostics of all robots come together on one topic.
        name = self._node.get_fully_qualified_name().lstrip('/')
        recorded = {spec.name for spec in self._topics.specs}
        known = sorted(recorded | {*self._selection.names, *self._topics.refused})
        found = {topic: TopicStats(topic) for topic in known}
        found |= {count.topic: count for count in counts}
        topics = [self._diagnosis(name, count) for count in found.values()]
        bad = sum(status.level != DiagnosticStatus.OK for status in topics)
        attention = f'; {bad} of {len(topics)} topics need attention' if bad else ''
        worst = max((status.level for status in topics), default=DiagnosticStatus.OK)
        own = DiagnosticStatus(
            level=DiagnosticStatus.ERROR if error else worst,
            name=f'{name}: recorder',
            message=error or f'{self._state}{attention}',
            values=[KeyValue(key='output', value=str(self._output))],
        )
        return [own, *topics]

    def _diagnosis(self, name: str, count: TopicStats) -> DiagnosticStatus:
        publishers = self._topics.publishers(count.topic)
        level, message = DiagnosticStatus.OK, 'ok'
        if count.topic in self._topics.refused:
            level, message = DiagnosticStatus.ERROR, self._topics.refused[count.topic]
        elif count.dropped:
            level = DiagnosticStatus.ERROR
            message = f'{count.dropped} messages dropped: the disk was too slow'
        elif count.lost:
            level = DiagnosticStatus.WARN
            message = f'{count.lost} messages lost by the middleware'
        elif not publishers and (count.messages or count.topic in self._selection.names):
            level, message = DiagnosticStatus.WARN, 'no publisher'
        values = {'publishers': publishers, **_counts(count), 'rate': f'{count.rate:.1f}'}
        return DiagnosticStatus(
            level=level,
            name=f'{name}: {count.topic}',
            message=message,
            values=[KeyValue(key=key, value=str(value)) for key, value in values.items()],
        )


def _counts(count: TopicStats) -> dict[str, float]:
    return {
        'messages': count.messages,
        'rate': round(count.rate, 3),
        'lost': count.lost,
        'dropped': count.dropped,
    }

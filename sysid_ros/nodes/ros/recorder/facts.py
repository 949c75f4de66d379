# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a bag says about its session beside the messages.

Facts are texts by key: ``version``, ``command_line``, ``host``, ``notes``, ``started``, ``clock``,
``topics`` and, where the graph offers them, ``robot_description`` and ``controllers``. What has a
structure is JSON.

ros2_control's controllers are nodes of their own, and a controller manager has a parameter
``NAME.type`` for each: both offer parameter services, which need no package beside rclpy's own.
https://control.ros.org/jazzy/doc/ros2_control/controller_manager/doc/userdoc.html
"""

from __future__ import annotations

import json
import platform
import shlex
import sys
import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rcl_interfaces.msg import Parameter as ParameterMsg
from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.parameter import Parameter
from std_msgs.msg import String

from sysid_ros.nodes.ros.runtime import latched
from sysid_ros.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rclpy.client import Client
    from rclpy.node import Node

    from sysid_ros.config import RecorderConfig
    from sysid_ros.nodes.ros.recorder.graph import Offer, Selection
    from sysid_ros.nodes.ros.recorder.topic_watch import TopicWatch

_DESCRIPTION = 'robot_description'
_STRING = 'std_msgs/msg/String'
#: A bag that is not finished knows the clocks as they were so long before its end, ns.
_CLOCK_NS = 60 * 10**9
#: The clocks are read this often; the quickest reading counts.
_TRIES = 5
_MANAGER = 'controller_manager'
_TYPE = '.type'
#: Beginnings of parameters that say what a controller does with which joints.
_ROOTS = frozenset(
    {
        'joints',
        'joint',
        'command_joints',
        'dof_names',
        'interface_name',
        'interface_names',
        'command_interfaces',
        'state_interfaces',
        'reference_and_state_interfaces',
        'gains',
        'pid_gains',
        'kp',
        'kd',
        'type',
        'update_rate',
    }
)
#: First of those that a controller has is its ``joints`` or its ``interface``.
_JOINTS = ('joints', 'dof_names', 'joint')
_INTERFACES = ('interface_name', 'interface_names', 'command_interfaces')
#: Parameters that are asked for by one call at most.
_MOST = 1000
#: A node has so many looks to answer, once its services are there.
_PATIENCE = 50
#: It is asked once more after so many looks without an answer.
_AGAIN = 10


class ClockReading(NamedTuple):
    """What the clocks of this machine show at one moment.

    Attributes:
        realtime_ns: CLOCK_REALTIME, ns since the epoch: what stamps are made of.
        monotonic_ns: CLOCK_MONOTONIC, ns since some start: what nobody sets.
    """

    realtime_ns: int
    monotonic_ns: int

    @property
    def offset_ns(self) -> int:
        """How far the first is ahead of the second; when it changes, the clock was set."""
        return self.realtime_ns - self.monotonic_ns


def read_clocks() -> ClockReading:
    """Read both clocks as close to each other as a few tries allow."""
    tries = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(_TRIES)]
    before, realtime, after = min(tries, key=lambda stamps: stamps[2] - stamps[0])
    return ClockReading(realtime, (before + after) // 2)


def clock_fact(begin: ClockReading, now: ClockReading, *, sim_time: bool) -> str:
    """Return the fact ``clock``: what bag times are, and what the clocks did meanwhile.

    ``shift_ns`` is how far CLOCK_REALTIME ran away from CLOCK_MONOTONIC since the begin: what NTP
    or somebody corrected.
    """
    return json.dumps(
        {
            'source': 'ROS time of /clock' if sim_time else 'receive stamps of the middleware',
            'start': {**begin._asdict(), 'offset_ns': begin.offset_ns},
            'end': {**now._asdict(), 'offset_ns': now.offset_ns},
            'shift_ns': now.offset_ns - begin.offset_ns,
        }
    )


class SessionFacts:
    """Collects the facts of a recorder's bags."""

    def __init__(
        self, node: Node, selection: Selection, on_change: Callable[[], None], *, sim_time: bool
    ) -> None:
        """Begin to listen.

        Args:
            node: A node that is spun.
            selection: What was asked for.
            on_change: Called when something new is known.
            sim_time: Whether bag times are ROS time.
        """
        self._selection = selection
        self._sim_time = sim_time
        self._descriptions = Descriptions(node, on_change)
        self._controllers = Controllers(node, on_change)
        self._session: dict[str, str] = {}
        self._began = self._read = read_clocks()

    def look(self, graph: Iterable[Offer], *, slowly: bool) -> None:
        """Go on asking; to be called several times a second.

        Args:
            graph: All topics.
            slowly: Look for who is new, too; once a second.
        """
        if slowly:
            self._descriptions.follow(graph)
            self._controllers.follow()
        self._controllers.ask()

    def begin(self, config: RecorderConfig, topics: TopicWatch) -> dict[str, str]:
        """Return the facts of a new bag."""
        self._began = self._read = read_clocks()
        self._session = {
            'version': __version__,
            'command_line': shlex.join(sys.orig_argv),
            'host': f'{platform.node()} ({platform.platform()}, '
            f'Python {platform.python_version()})',
            'started': datetime.now(UTC).isoformat(),
        }
        return self.current(config, topics)

    def current(
        self, config: RecorderConfig, topics: TopicWatch, *, final: bool = False
    ) -> dict[str, str]:
        """Return the facts as they are now.

        Args:
            config: The parameters.
            topics: The topics.
            final: Read the clocks even if they were read lately: a bag gets each change.
        """
        now = read_clocks()
        if final or now.monotonic_ns - self._read.monotonic_ns >= _CLOCK_NS:
            self._read = now
        asked = self._selection
        topics_fact = {
            'asked': {
                'topics': list(asked.names),
                'regex': asked.regex.pattern if asked.regex else '',
                'types': list(asked.types),
                'exclude': asked.exclude.pattern if asked.exclude else '',
                'all': asked.everything,
            },
            'found': topics.found,
            'missing': list(topics.missing),
            'refused': topics.refused,
        }
        return {
            **self._session,
            'notes': config.notes,
            'clock': clock_fact(self._began, self._read, sim_time=self._sim_time),
            'topics': json.dumps(topics_fact),
            **self._descriptions.facts,
            **self._controllers.facts,
        }

    def close(self) -> None:
        """Ask nobody any more."""
        self._controllers.close()


class Descriptions:
    """The robots' models on ``robot_description`` topics, recorded or not.

    Attributes:
        facts: ``robot_description``, the text of the topic of that name in the node's namespace or
            of the topic that came first; what others say is ``robot_description:TOPIC``.
    """

    def __init__(self, node: Node, on_change: Callable[[], None]) -> None:
        """Begin without any topic.

        Args:
            node: A node that is spun; what it hears does not come through the recorder's own
                subscriptions.
            on_change: Called when a text came.
        """
        self._node = node
        self._on_change = on_change
        self._subscriptions: dict[str, Any] = {}
        self._texts: dict[str, str] = {}

    @property
    def facts(self) -> dict[str, str]:
        """Facts that are known now."""
        if not self._texts:
            return {}
        own = self._node.resolve_topic_name(_DESCRIPTION)
        first = own if own in self._texts else next(iter(self._texts))
        others = {f'{_DESCRIPTION}:{t}': x for t, x in self._texts.items() if t != first}
        return {_DESCRIPTION: self._texts[first], **others}

    def follow(self, graph: Iterable[Offer]) -> None:
        """Listen to topics that are there now and were not before."""
        for found in graph:
            named = found.topic.rpartition('/')[2] == _DESCRIPTION
            holds = any(publisher.transient_local for publisher in found.publishers)
            new = found.topic not in self._subscriptions
            if named and holds and new and found.msgtypes == (_STRING,):
                self._subscriptions[found.topic] = self._node.create_subscription(
                    String, found.topic, partial(self._receive, found.topic), latched()
                )

    def _receive(self, topic: str, message: Any) -> None:
        if self._texts.get(topic) != message.data:
            self._texts[topic] = message.data
            self._on_change()


class Controllers:
    """Asks controllers for their parameters, without waiting for anybody.

    Everything happens in callbacks of the node's executor. A node that does not answer in time is
    let go, and asked again when it has left and come back.
    """

    def __init__(self, node: Node, on_change: Callable[[], None]) -> None:
        """Begin without any controller.

        Args:
            node: A node that is spun.
            on_change: Called when a controller has answered.
        """
        self._node = node
        self._on_change = on_change
        self._asked: dict[str, _ParameterQuery] = {}
        self._present: set[str] = set()
        self._managed: dict[str, str] = {}
        self._answers: dict[str, dict[str, Any]] = {}

    @property
    def facts(self) -> dict[str, str]:
        """The fact ``controllers``: full name to ``joints``, ``interface``, ``gains`` and more."""
        return {'controllers': json.dumps(self._answers)} if self._answers else {}

    def follow(self) -> None:
        """Find controllers that were not there before; to be called every second."""
        present = {
            f'{namespace.rstrip("/")}/{name}'
            for name, namespace in self._node.get_node_names_and_namespaces()
        }
        if present != self._present:
            # A manager has loaded other controllers, perhaps.
            self._present = present
            for name in [name for name in self._asked if name.endswith(_MANAGER)]:
                self._asked.pop(name).end()
        own = self._node.get_fully_qualified_name()
        ends = (_MANAGER, 'controller', 'broadcaster')
        wanted = {name for name in present - {own} if name in self._managed or name.endswith(ends)}
        for name in [name for name in self._asked if name not in wanted]:
            self._asked.pop(name).end()
        for name in sorted(wanted - self._asked.keys()):
            self._asked[name] = _ParameterQuery(self._node, name, self._take)

    def ask(self) -> None:
        """Go on with who was found; to be called several times a second."""
        for question in self._asked.values():
            question.look()

    def close(self) -> None:
        """Ask no more."""
        for question in self._asked.values():
            question.end()

    def _take(self, name: str, values: dict[str, Any]) -> None:
        namespace, _, last = name.rpartition('/')
        if last.endswith(_MANAGER):
            for parameter, value in values.items():
                if parameter.endswith(_TYPE):
                    self._managed[f'{namespace}/{parameter.removesuffix(_TYPE)}'] = str(value)
        answer = _controller_summary(values)
        if answer:
            self._answers[name] = answer
        for managed, kind in self._managed.items():
            if managed in self._answers:
                self._answers[managed]['type'] = kind
        self._on_change()


class _ParameterQuery:
    """One node being asked: first for the names of its parameters, then for values."""

    def __init__(
        self,
        node: Node,
        name: str,
        answer: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._node = node
        self._name = name
        self._answer = answer
        self._looks = 0
        self._answered = False
        self._list: Client = node.create_client(ListParameters, f'{name}/list_parameters')
        self._get: Client = node.create_client(GetParameters, f'{name}/get_parameters')
        self._open = True

    def look(self) -> None:
        """Ask when both services are there; let go of a node that has answered, or is too slow.

        Fast DDS may lose the first request to a node that has just been discovered, or its answer
        (github.com/ros2/rmw_fastrtps/issues/842), so that it is asked more than once.
        """
        if not self._open:
            return
        if self._answered or self._looks > _PATIENCE:
            self.end()
        elif self._looks or (self._list.service_is_ready() and self._get.service_is_ready()):
            if self._looks % _AGAIN == 0:
                self._list.call_async(ListParameters.Request()).add_done_callback(self._on_names)
            self._looks += 1

    def end(self) -> None:
        """Ask no more."""
        if self._open:
            self._open = False
            self._node.destroy_client(self._list)
            self._node.destroy_client(self._get)

    def _on_names(self, future: Any) -> None:
        if not self._open or future.result() is None:
            return
        names = sorted(
            name
            for name in future.result().result.names
            if name.partition('.')[0] in _ROOTS or name.endswith(_TYPE)
        )[:_MOST]

        def receive(values: Any) -> None:
            if self._open and values.result() is not None:
                found = zip(names, values.result().values, strict=False)
                self._answer(self._name, {name: _json_value(name, value) for name, value in found})
                self._answered = True

        self._get.call_async(GetParameters.Request(names=names)).add_done_callback(receive)


def _json_value(name: str, value: Any) -> Any:
    """Return a parameter's value as JSON has it, or None where JSON has no such value."""
    found = Parameter.from_parameter_msg(ParameterMsg(name=name, value=value)).value
    if found is None or isinstance(found, (str, int, float)):
        return found
    return None if any(isinstance(item, bytes) for item in found) else list(found)


def _controller_summary(values: dict[str, Any]) -> dict[str, Any]:
    """Return what a controller's parameters say, or nothing where none is of interest."""
    given = {name: value for name, value in values.items() if value not in (None, '', [])}
    answer: dict[str, Any] = {}
    joints = _first(given, _JOINTS)
    if joints is not None:
        answer['joints'] = [joints] if isinstance(joints, str) else joints
    interface = _first(given, _INTERFACES)
    if interface is not None:
        answer['interface'] = interface
    gains = {
        name: value
        for name, value in given.items()
        if 'gain' in name or name.partition('.')[0] in {'kp', 'kd'}
    }
    if gains:
        answer['gains'] = gains
    rest = {
        name: value
        for name, value in given.items()
        if name not in gains and name not in (*_JOINTS, *_INTERFACES)
    }
    return {**answer, **rest}


def _first(values: dict[str, Any], names: Iterable[str]) -> Any:
    return next((values[name] for name in names if name in values), None)

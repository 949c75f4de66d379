# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a bag says about its session beside the messages.

Facts are texts by key: ``version``, ``command_line``, ``host``, ``started``, ``notes``, ``topics``
and, where the graph offers them, ``robot_description`` and ``controllers``. What has a structure
is JSON.
"""

from __future__ import annotations

import json
import platform
import shlex
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from rcl_interfaces.msg import Parameter as ParameterMsg
from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_msgs.msg import String

from sysid_ros.config import RecorderConfig
from sysid_ros.nodes.recorder.topics import Topics
from sysid_ros.nodes.runtime import latched
from sysid_ros.version import __version__

#: Fact to the parameters of ros2_control's controllers that say it.
#: https://control.ros.org/jazzy/doc/ros2_controllers/doc/controllers_index.html
_OF_CONTROLLERS = {'joints': ('joints', 'dof_names'), 'interface': ('interface_name',)}
#: A controller is asked so often at most, once a second.
_REQUESTS = 30


class Facts:
    """Collects the facts of a recorder's bags."""

    def __init__(self, node: Node) -> None:
        """Begin to listen to the ``robot_description`` of the node's namespace.

        Args:
            node: A node that is spun; what it hears does not come through the recorder's own
                subscriptions.
        """
        self._node = node
        self._session: dict[str, str] = {}
        self._heard: dict[str, str] = {}
        self._controllers: dict[str, dict[str, Any]] = {}
        self._questions: dict[str, _Question] = {}
        node.create_subscription(String, 'robot_description', self._describe, latched())

    def _describe(self, message: Any) -> None:
        self._heard['robot_description'] = message.data

    def ask(self, topics: Iterable[str]) -> None:
        """Ask the controllers that these topics belong to what they move; once a second.

        ros2_control's controllers are nodes of their own, whose topics begin with their names.
        """
        nodes = self._node.get_node_names_and_namespaces()
        present = {f'{namespace.rstrip("/")}/{name}' for name, namespace in nodes}
        for name in {topic.rpartition('/')[0] for topic in topics} & present:
            if name not in self._questions:
                self._questions[name] = _Question(self._node, name, self._note)
            self._questions[name].ask()

    def _note(self, name: str, values: dict[str, Any]) -> None:
        found = {
            fact: next((values[key] for key in keys if values.get(key)), None)
            for fact, keys in _OF_CONTROLLERS.items()
        }
        if any(found.values()):
            self._controllers[name] = {key: value for key, value in found.items() if value}
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
        return {
            **self._session,
            'notes': config.notes,
            'topics': json.dumps(found),
            **self._heard,
        }


class _Question:
    """A node that is asked for those of its parameters that say what it moves."""

    def __init__(
        self, node: Node, name: str, answer: Callable[[str, dict[str, Any]], None]
    ) -> None:
        self._name = name
        self._answer = answer
        self._left = _REQUESTS
        self._list = node.create_client(ListParameters, f'{name}/list_parameters')
        self._get = node.create_client(GetParameters, f'{name}/get_parameters')

    def ask(self) -> None:
        """Ask when both services are there, unless it has answered.

        Fast DDS may lose the first request to a node that has just been discovered, or its answer
        (github.com/ros2/rmw_fastrtps/issues/842), so that it is asked more than once.
        """
        if self._left and self._list.service_is_ready() and self._get.service_is_ready():
            self._left -= 1
            self._list.call_async(ListParameters.Request()).add_done_callback(self._on_names)

    def _on_names(self, listed: Any) -> None:
        # A controller answers nothing at all where one of the parameters is not its own.
        wanted = {key for keys in _OF_CONTROLLERS.values() for key in keys}
        names = sorted(wanted & set(listed.result().result.names))
        asked = self._get.call_async(GetParameters.Request(names=names))
        asked.add_done_callback(lambda found: self._on_values(names, found.result().values))

    def _on_values(self, names: list[str], found: Any) -> None:
        self._left = 0
        values: dict[str, Any] = {}
        for name, message in zip(names, found, strict=False):
            value = Parameter.from_parameter_msg(ParameterMsg(name=name, value=message)).value
            if isinstance(value, str):
                values[name] = value
            elif isinstance(value, Iterable):
                values[name] = [str(item) for item in value]
        self._answer(self._name, values)

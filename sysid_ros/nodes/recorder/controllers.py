# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of the controllers in the graph: joints in their order, interfaces, gains.

ros2_control's controllers are nodes of their own, and a controller manager has a parameter
``NAME.type`` for each: both offer parameter services, which need no package beside rclpy's own.
https://control.ros.org/jazzy/doc/ros2_control/controller_manager/doc/userdoc.html
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rcl_interfaces.msg import Parameter as ParameterMsg
from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.parameter import Parameter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rclpy.client import Client
    from rclpy.node import Node

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
        self._asked: dict[str, _Question] = {}
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
        wanted = {name for name in present - {own} if self._is_wanted(name)}
        for name in [name for name in self._asked if name not in wanted]:
            self._asked.pop(name).end()
        for name in sorted(wanted - self._asked.keys()):
            self._asked[name] = _Question(self._node, name, self._wants, self._take)

    def ask(self) -> None:
        """Go on with who was found; to be called several times a second."""
        for question in self._asked.values():
            question.look()

    def close(self) -> None:
        """Ask no more."""
        for question in self._asked.values():
            question.end()

    def _is_wanted(self, name: str) -> bool:
        last = name.rpartition('/')[2]
        return name in self._managed or last.endswith((_MANAGER, 'controller', 'broadcaster'))

    def _wants(self, parameter: str) -> bool:
        return parameter.partition('.')[0] in _ROOTS or parameter.endswith(_TYPE)

    def _take(self, name: str, values: dict[str, Any]) -> None:
        namespace, _, last = name.rpartition('/')
        if last.endswith(_MANAGER):
            for parameter, value in values.items():
                if parameter.endswith(_TYPE):
                    self._managed[f'{namespace}/{parameter.removesuffix(_TYPE)}'] = str(value)
        answer = _summary(values)
        if answer:
            self._answers[name] = answer
        for managed, kind in self._managed.items():
            if managed in self._answers:
                self._answers[managed]['type'] = kind
        self._on_change()


class _Question:
    """One node being asked: first for the names of its parameters, then for values."""

    def __init__(
        self,
        node: Node,
        name: str,
        wants: Callable[[str], bool],
        answer: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._node = node
        self._name = name
        self._wants = wants
        self._answer = answer
        self._looks = 0
        self._listed = self._answered = False
        self._list: Client = node.create_client(ListParameters, f'{name}/list_parameters')
        self._get: Client = node.create_client(GetParameters, f'{name}/get_parameters')
        self._open = True

    def look(self) -> None:
        """Ask when both services are there; let go of a node that has answered, or is too slow."""
        if not self._open:
            return
        if not self._listed and self._list.service_is_ready() and self._get.service_is_ready():
            self._listed = True
            self._list.call_async(ListParameters.Request()).add_done_callback(self._on_names)
        elif self._listed:
            self._looks += 1
            if self._answered or self._looks > _PATIENCE:
                self.end()

    def end(self) -> None:
        """Ask no more."""
        if self._open:
            self._open = False
            self._node.destroy_client(self._list)
            self._node.destroy_client(self._get)

    def _on_names(self, future: Any) -> None:
        if not self._open or future.result() is None:
            return
        names = sorted(filter(self._wants, future.result().result.names))[:_MOST]

        def receive(values: Any) -> None:
            if self._open and values.result() is not None:
                found = zip(names, values.result().values, strict=False)
                self._answer(self._name, {name: _plain(name, value) for name, value in found})
                self._answered = True

        self._get.call_async(GetParameters.Request(names=names)).add_done_callback(receive)


def _plain(name: str, value: Any) -> Any:
    """Return a parameter's value as JSON has it, or None where JSON has no such value."""
    found = Parameter.from_parameter_msg(ParameterMsg(name=name, value=value)).value
    if found is None or isinstance(found, (str, int, float)):
        return found
    return None if any(isinstance(item, bytes) for item in found) else list(found)


def _summary(values: dict[str, Any]) -> dict[str, Any]:
    """Return what a controller's parameters say, or nothing where none is of interest."""
    given = {name: value for name, value in values.items() if value not in (None, '', [])}
    answer: dict[str, Any] = {}
    joints = _first(given, _JOINTS)
    if joints is not None:
        answer['joints'] = [joints] if isinstance(joints, str) else joints
    interface = _first(given, _INTERFACES)
    if interface is not None:
        answer['interface'] = interface
    gains = {name: value for name, value in given.items() if 'gain' in name or _is_gain(name)}
    if gains:
        answer['gains'] = gains
    rest = {
        name: value
        for name, value in given.items()
        if name not in gains and name not in (*_JOINTS, *_INTERFACES)
    }
    return {**answer, **rest}


def _is_gain(name: str) -> bool:
    return name.partition('.')[0] in ('kp', 'kd')


def _first(values: dict[str, Any], names: Iterable[str]) -> Any:
    return next((values[name] for name in names if name in values), None)

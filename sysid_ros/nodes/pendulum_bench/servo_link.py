# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The servo of a bench, as a node talks to it: its goal, its switch and its numbers."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from rclpy.parameter import Parameter
from rclpy.parameter_client import AsyncParameterClient
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import Bool, Float64, Float64MultiArray
from std_srvs.srv import SetBool

from sysid_ros.errors import RosError
from sysid_ros.nodes.ros.parameters import resolve_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from rclpy.node import Node

    from sysid_ros.config import PendulumBenchConfig

#: Longest wait for the answer of another node, s.
_ANSWER_SECONDS = 10.0
#: How long the services of a node may take to be discovered after its topics, s.
_DISCOVERY_SECONDS = 2.0


class ServoLink:
    """Sends a servo its goals, switches it, and sets or publishes what it carries.

    Attributes:
        commands: Publisher of the goals.
        torque: Publisher of the switch; None where it cannot be switched.
        goal: What was sent last, rad.
        on: Whether the motor is on; None before the first command.
    """

    def __init__(
        self,
        node: Node,
        config: PendulumBenchConfig,
        settings: Collection[str],
        on_failure: Callable[[str], None],
    ) -> None:
        """Create publishers and clients.

        Args:
            node: The node.
            config: Its parameters.
            settings: Names of what differs between runs.
            on_failure: Called with the reason why the motor could not be switched.
        """
        self._node = node
        self._on_failure = on_failure
        topic = resolve_topic(node, 'commands_topic', config.commands_topic)
        self.commands = node.create_publisher(Float64MultiArray, topic, 10)
        self.torque: Any = None
        if config.torque_topic:
            topic = resolve_topic(node, 'torque_topic', config.torque_topic)
            self.torque = node.create_publisher(Bool, topic, 10)
        self._switch: Any = None
        if config.torque_service:
            self._switch = node.create_client(SetBool, config.torque_service)
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.settings = {
            name: node.create_publisher(Float64, f'~/{name}', latched) for name in settings
        }
        self._parameters: AsyncParameterClient | None = None
        self.goal = 0.0
        self.on: bool | None = None

    def missing(self, listeners: int) -> list[str]:
        """Return which subscribers and services are missing beside so many other listeners."""
        found = []
        if self.commands.get_subscription_count() <= listeners:
            found.append(f'a subscriber of {self.commands.topic_name}')
        if self._switch is not None and not self._switch.service_is_ready():
            found.append(f'the service {self._switch.srv_name}')
        unheard = self.torque is not None and self.torque.get_subscription_count() <= listeners
        if self._switch is None and unheard:
            found.append(f'a subscriber of {self.torque.topic_name}')
        return found

    def send(self, goal: float, on: bool) -> None:
        """Send a goal, and switch the motor where that changes."""
        self.goal = goal
        self.commands.publish(Float64MultiArray(data=[goal]))
        if on == self.on:
            return
        self.on = on
        if self._switch is None:
            self._announce(on)
            return
        future = self._switch.call_async(SetBool.Request(data=on))
        future.add_done_callback(lambda done: self._switched(on, done.result()))

    def own(self, name: str) -> frozenset[str]:
        """Return the settings that a node has as parameters.

        Raises:
            RosError: It does not answer.
        """
        self._parameters = AsyncParameterClient(self._node, name)
        if not self._parameters.wait_for_services(_DISCOVERY_SECONDS):
            return frozenset()
        there = wait(self._parameters.list_parameters(), name).result.names
        return frozenset(there) & self.settings.keys()

    def apply(self, settings: Mapping[str, float], own: Collection[str]) -> None:
        """Set what the servo's node has as parameters, and publish everything.

        Raises:
            RosError: The node does not take a value, or does not answer.
        """
        given = [
            Parameter(name, Parameter.Type.DOUBLE, float(value))
            for name, value in settings.items()
            if name in own
        ]
        if self._parameters is not None and given:
            answer = wait(self._parameters.set_parameters(given), 'the servo')
            for parameter, result in zip(given, answer.results, strict=True):
                if not result.successful:
                    msg = f'The servo refused {parameter.name} {parameter.value:g}: {result.reason}'
                    raise RosError(msg)
        for name, value in settings.items():
            self.settings[name].publish(Float64(data=float(value)))

    def _switched(self, on: bool, answer: Any) -> None:
        if answer is not None and answer.success:
            self._announce(on)
            return
        why = '' if answer is None else f': {answer.message}'
        self._on_failure(f'{self._switch.srv_name} did not switch the motor{why}')

    def _announce(self, on: bool) -> None:
        if self.torque is not None:
            self.torque.publish(Bool(data=on))


def wait(future: Any, who: str) -> Any:
    """Return the result of a call that an executor's thread receives.

    Raises:
        RosError: There is no answer in time.
    """
    answered = threading.Event()
    future.add_done_callback(lambda _: answered.set())
    if not answered.wait(_ANSWER_SECONDS):
        msg = f'No answer from {who} within {_ANSWER_SECONDS:g} s.'
        raise RosError(msg)
    return future.result()

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the ``simulated_servo`` node does: run a pendulum in real time between its topics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from std_msgs.msg import Bool, Float64MultiArray

from sysid_ros.config import SimulatedServoConfig
from sysid_ros.errors import ConfigError
from sysid_ros.nodes.ros.parameters import declare, resolve_topic
from sysid_ros.nodes.ros.simulation import (
    CommandInbox,
    CommandTopic,
    RealTimeSimulation,
    StateSender,
    read_array,
)
from sysid_ros.servos.formats.parameter_file import read_parameters
from sysid_ros.virtual_robot import Pendulum

if TYPE_CHECKING:
    from rclpy.node import Node

    from sysid_ros.nodes.ros.runtime import Stop

#: What may change while it runs.
_MOUNTED = ('mass', 'arm_mass', 'length', 'kp', 'vin')


class SimulatedServo:
    """A pendulum that follows the wall clock."""

    def __init__(self, node: Node, stop: Stop) -> None:
        """Declare parameters, hang up the pendulum and begin to publish.

        Raises:
            SysidError: A parameter or the file of coefficients is not valid.
        """
        config = declare(node, SimulatedServoConfig, changeable=_MOUNTED, on_change=self._mount)
        if not config.truth:
            msg = (
                "Expected a file of coefficients in parameter 'truth' (-p truth:=FILE), found none."
            )
            raise ConfigError(msg)
        servo, values = read_parameters(Path(config.truth), config.actuator or None)
        self._pendulum = Pendulum(
            servo,
            values,
            joint=config.joint,
            rate=config.rate,
            timestep=config.timestep,
            encoder_bits=config.encoder_bits,
        )
        self._mount(config)
        topic = resolve_topic(node, 'joint_states_topic', config.joint_states_topic)
        sender = StateSender(node, topic, self._pendulum.joints)
        goals = resolve_topic(node, 'commands_topic', config.commands_topic)
        switch = resolve_topic(node, 'torque_topic', config.torque_topic)
        inbox = CommandInbox(
            node,
            CommandTopic(
                goals,
                Float64MultiArray,
                lambda message: np.array([*read_array(message, 1), np.nan]),
            ),
            CommandTopic(switch, Bool, lambda message: np.array([np.nan, float(message.data)])),
        )
        ready = (
            f'simulated servo ready: {servo.name} at {config.rate:g} Hz on {topic}, commands from '
            f'{" and ".join(inbox.topics)}'
        )
        self._running = RealTimeSimulation(
            node, stop, self._pendulum, sender, inbox, rate=config.rate, ready=ready
        )

    def close(self) -> None:
        """Stop stepping."""
        self._running.close()

    def _mount(self, config: SimulatedServoConfig) -> None:
        given = {'kp': config.kp, 'vin': config.vin}
        constants = {name: value for name, value in given.items() if value}
        self._pendulum.mount(config.mass, config.arm_mass, config.length, constants)

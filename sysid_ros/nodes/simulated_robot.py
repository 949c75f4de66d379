# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the ``simulated_robot`` node does: run a plant in real time between two topics."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory

from sysid_ros.alignment.mapping.by_name import command_quantity
from sysid_ros.config import SimulatedRobotConfig, load_servos
from sysid_ros.errors import ConfigError, RosError, nearest
from sysid_ros.model.description import read_description
from sysid_ros.nodes.parameters import declare, resolve_topic
from sysid_ros.nodes.runtime import Stop, latched
from sysid_ros.nodes.simulation import (
    DEPTH,
    CommandInbox,
    CommandTopic,
    RealTimeSimulation,
    StateSender,
    stamp,
)
from sysid_ros.virtual_robot import Noise, Plant, load_truth
from sysid_ros.virtual_robot.commands import TrajectoryCommand
from sysid_ros.vocabulary import Quantity


class SimulatedRobot:
    """A plant that follows the wall clock."""

    def __init__(self, node: Node, stop: Stop) -> None:
        """Declare parameters, build the plant and begin to publish.

        Raises:
            SysidError: A parameter, the model or the truth is not valid.
        """
        config = declare(node, SimulatedRobotConfig)
        plant = _plant(config)
        if not plant.settled:
            text = 'the robot does not come to rest in its home pose; it starts moving'
            node.get_logger().warning(text)
        sender = StateSender(
            node,
            resolve_topic(node, 'joint_states_topic', config.joint_states_topic),
            plant.joints,
            jitter=config.stamp_jitter,
            loss=config.loss,
            seed=config.seed,
        )
        self._mjcf = node.create_publisher(String, '~/mjcf', latched())
        path = Path(config.model)
        text = read_description(path).mjcf or path.read_text(encoding='utf-8', errors='replace')
        self._mjcf.publish(String(data=text))
        commands = _Commands(plant)
        inbox = CommandInbox(
            node,
            CommandTopic(
                resolve_topic(node, 'commands_topic', config.commands_topic),
                Float64MultiArray,
                commands.of_array,
            ),
            CommandTopic(
                resolve_topic(node, 'trajectory_topic', config.trajectory_topic),
                JointTrajectory,
                commands.of_trajectory,
            ),
        )
        applied = node.create_publisher(
            JointState,
            resolve_topic(node, 'applied_commands_topic', config.applied_commands_topic),
            DEPTH,
        )
        ready = (
            f'simulated robot ready: {len(plant.joints)} joints at {config.rate:g} Hz on '
            f'{sender.topic}, commands from {" and ".join(inbox.topics)}'
        )
        self._running = RealTimeSimulation(
            node,
            stop,
            plant,
            sender,
            inbox,
            rate=config.rate,
            ready=ready,
            applied=lambda since_ns, values: applied.publish(commands.applied(since_ns, values)),
        )

    def close(self) -> None:
        """Stop stepping."""
        self._running.close()


class _Commands:
    """Reads commands for a plant."""

    def __init__(self, plant: Plant) -> None:
        self._drives = plant.drives
        self._since_ns = 0
        self._on_joints = [row for row, drive in enumerate(plant.drives) if drive.joint]
        self._quantities = {
            row: Quantity.POSITION
            if plant.drives[row].takes_positions
            else command_quantity(plant.model, row)
            for row in self._on_joints
        }
        self._by_joint = {
            drive.joint: row
            for row, drive in enumerate(plant.drives)
            if drive.joint and drive.takes_positions
        }

    def of_array(self, message: Any) -> NDArray[np.float64]:
        """Read one command per actuator."""
        if len(message.data) != len(self._drives):
            raise RosError(
                f'expected one value per actuator, {len(self._drives)}, found {len(message.data)}'
            )
        return _finite(message.data)

    def applied(self, since_ns: int, values: NDArray[np.float64]) -> JointState:
        """Say by joint what (nu,) commands ask of the drives, and since when."""
        message = JointState(name=[self._drives[row].joint for row in self._on_joints])
        # Of commands that act at once because all came too late, the last one lasts.
        self._since_ns = max(since_ns, self._since_ns + 1)
        message.header.stamp = stamp(self._since_ns)
        for quantity in set(self._quantities.values()):
            asked = [
                self._of_joint(row, float(values[row]))
                if self._quantities[row] is quantity
                else math.nan
                for row in self._on_joints
            ]
            setattr(message, quantity, asked)
        return message

    def _of_joint(self, row: int, value: float) -> float:
        drive = self._drives[row]
        return drive.position(value) if drive.takes_positions else value

    def of_trajectory(self, message: Any) -> TrajectoryCommand:
        """Read all points, for a controller that follows them from the message's arrival on."""
        if not message.points:
            raise RosError('expected a point, found none')
        rows, count = [self._row(name) for name in message.joint_names], len(message.joint_names)
        spans = [point.time_from_start for point in message.points]
        after = np.array([span.sec + span.nanosec / 1e9 for span in spans])
        if np.any(np.diff(after) <= 0):
            raise RosError(
                f'expected points at increasing times from the start, found {after.tolist()}'
            )
        slopes = np.array([self._drives[row].slope for row in rows])
        offsets = np.array([self._drives[row].offset for row in rows])
        points = np.full((len(after), 3, len(self._drives)), np.nan)
        for number, point in enumerate(message.points):
            for order, name in enumerate(('positions', 'velocities', 'accelerations')):
                values = _finite(getattr(point, name))
                if len(values) != count and (len(values) or name == 'positions'):
                    raise RosError(f'expected {count} {name}, found {len(values)}')
                if len(values):
                    points[number, order, rows] = slopes * values + (0.0 if order else offsets)
        return TrajectoryCommand(after, points)

    def _row(self, joint: str) -> int:
        if joint not in self._by_joint:
            raise RosError(
                f'no position servo moves a joint {joint!r}; {nearest(joint, self._by_joint)}'
            )
        return self._by_joint[joint]


def _finite(values: Any) -> NDArray[np.float64]:
    found = np.array(values, dtype=np.float64)
    if not np.all(np.isfinite(found)):
        raise RosError(f'expected finite values, found {found.tolist()}')
    return found


def _plant(config: SimulatedRobotConfig) -> Plant:
    if not config.model:
        raise ConfigError(
            "Expected an MJCF file in parameter 'model' (-p model:=FILE), found none."
        )
    noise = Noise(
        position=config.position_noise,
        velocity=config.velocity_noise,
        effort=config.effort_noise,
        encoder_bits=config.encoder_bits,
        seed=config.seed,
    )
    truth = load_truth(Path(config.truth)) if config.truth else {}
    servos = None
    if config.servos:
        from sysid_ros.pipeline.servos import joints_of  # noqa: PLC0415 (slow)

        servos = partial(joints_of, load_servos(Path(config.servos)))
    return Plant(Path(config.model), truth, rate=config.rate, noise=noise, servos=servos)

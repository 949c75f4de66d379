# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Commands for a simulated robot, each with the stamp of its arrival."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import rclpy
from numpy.typing import NDArray
from rclpy.node import Node
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from sysid_ros.errors import RosError, nearest
from sysid_ros.virtual_robot import Plant
from sysid_ros.virtual_robot.commands import TrajectoryCommand

#: (nu,) commands, NaN for the actuators that are not named, or a trajectory.
Command = NDArray[np.float64] | TrajectoryCommand

#: Messages held by the middleware until they are fetched.
_DEPTH = 1000
#: Commands take no longer than the fastest one and this, s, unless the machine is busy.
_LONGEST_HOLDUP = 0.020
#: Argument of rclpy's take_message.
_NOT_RAW = False
_NS = 10**9


class CommandInbox:
    """Commands for a plant from two topics, of arrays and of trajectories.

    A callback would come when Python has time for it. The middleware's stamp does not depend on
    that, but rclpy's EventsExecutor does not hand it on: messages are taken here, from a node that
    no executor spins.
    """

    def __init__(self, node: Node, plant: Plant, arrays: str, trajectories: str) -> None:
        """Subscribe to the topics, which are named in full."""
        self._log = node.get_logger()
        self._drives = plant.drives
        self._by_joint = {
            drive.joint: row
            for row, drive in enumerate(plant.drives)
            if drive.joint and drive.takes_positions
        }
        self._warned: set[str] = set()
        self._fastest: int | None = None
        self._latest = 0
        # Tools do not show such a name: the node has no parameters that they could ask for.
        self._node = rclpy.create_node(
            f'_{node.get_name()}_commands',
            namespace=node.get_namespace(),
            use_global_arguments=False,
            start_parameter_services=False,
            enable_rosout=False,
        )
        self._sources = (
            (self._subscribe(Float64MultiArray, arrays), self._read_array),
            (self._subscribe(JointTrajectory, trajectories), self._read_trajectory),
        )

    def _subscribe(self, kind: Any, topic: str) -> Any:
        # No executor spins the node: the callback is never called.
        return self._node.create_subscription(kind, topic, lambda _: None, _DEPTH)

    def close(self) -> None:
        """Leave the graph."""
        self._node.destroy_node()

    def fetch(self) -> list[tuple[int, Command]]:
        """Return what arrived since the last call: when, ns since the epoch, and the command."""
        return [command for source in self._sources for command in self._take(*source)]

    def _take(self, subscription: Any, read: Callable[[Any], Command]) -> list[tuple[int, Command]]:
        commands = []
        while taken := subscription.handle.take_message(subscription.msg_type, _NOT_RAW):
            message, info = taken
            try:
                commands.append((self._arrival(info), read(message)))
            except RosError as err:
                topic = subscription.topic_name
                if topic not in self._warned:
                    self._warned.add(topic)
                    self._log.warning(f'ignoring a command on {topic}: {err}')
        return commands

    def _arrival(self, info: Mapping[str, int]) -> int:
        """Return when a command arrived, ns, after those before it.

        What a busy machine held up by more than `_LONGEST_HOLDUP` counts as having come as fast as
        the fastest: the machine's other work is no part of the robot.
        """
        # Not every middleware stamps what it sends and receives.
        arrival = info['received_timestamp'] or time.time_ns()
        if info['source_timestamp']:
            transit = arrival - info['source_timestamp']
            self._fastest = transit if self._fastest is None else min(transit, self._fastest)
            if transit - self._fastest > _LONGEST_HOLDUP * _NS:
                arrival = info['source_timestamp'] + self._fastest
        self._latest = max(arrival, self._latest + 1)
        return self._latest

    def _read_array(self, message: Any) -> Command:
        """Read one command per actuator."""
        if len(message.data) != len(self._drives):
            raise RosError(
                f'expected one value per actuator, {len(self._drives)}, found {len(message.data)}'
            )
        return _finite(message.data)

    def _read_trajectory(self, message: Any) -> Command:
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

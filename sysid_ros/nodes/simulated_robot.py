# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the ``simulated_robot`` node does: run a plant in real time between its topics."""

from __future__ import annotations

import array
import math
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory

from sysid_ros.alignment.pairs import command_quantity
from sysid_ros.config.files import load_servos
from sysid_ros.config.nodes import SimulatedRobotConfig
from sysid_ros.errors import ConfigError, RosError, nearest
from sysid_ros.model.description import read_description
from sysid_ros.nodes.parameters import declare
from sysid_ros.nodes.runtime import (
    DEPTH,
    PATIENCE_SECONDS,
    STATUS_SECONDS,
    Stop,
    latched,
    quiet_node,
)
from sysid_ros.plant import Noise, Plant, Sample, TrajectoryCommand, load_truth
from sysid_ros.vocabulary import SECOND_NS, Quantity

#: (nu,) commands, NaN for the actuators that are not named, or a trajectory.
Command = NDArray[np.float64] | TrajectoryCommand

#: Simulated time stays so far behind the clock, s. A command is in time when Python gets to it
#: within this and its delay; the stamps of samples and the effect of commands do not move by it.
#: No pause of the stepping thread is longer.
_LAG = 0.010
#: A delay that only a busy machine has, s: of commands beyond that of the fastest one, and of the
#: simulation behind the clock. It catches up in strides as long.
_BUSY = 0.020


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
        self._node = quiet_node(node, 'commands')
        # No executor spins the node: the callback is never called.
        self._sources = tuple(
            (self._node.create_subscription(kind, topic, lambda _: None, DEPTH), read)
            for kind, topic, read in (
                (Float64MultiArray, arrays, self._read_array),
                (JointTrajectory, trajectories, self._read_trajectory),
            )
        )

    def close(self) -> None:
        """Leave the graph."""
        self._node.destroy_node()

    def fetch(self) -> list[tuple[int, Command]]:
        """Return what arrived since the last call: when, ns since the epoch, and the command."""
        commands = []
        for subscription, read in self._sources:
            while taken := subscription.handle.take_message(
                subscription.msg_type, subscription.raw
            ):
                message, info = taken
                arrival = self._arrival(info)
                try:
                    commands.append((arrival, read(message)))
                except RosError as err:
                    topic = subscription.topic_name
                    if topic not in self._warned:
                        self._warned.add(topic)
                        self._log.warning(f'ignoring a command on {topic}: {err}')
        return commands

    def _arrival(self, info: Mapping[str, int]) -> int:
        """Return when a command arrived, ns, after those before it.

        What a busy machine held up counts as having come as fast as the fastest: the machine's
        other work is no part of the robot.
        """
        # Not every middleware stamps what it sends and receives.
        arrival = info['received_timestamp'] or time.time_ns()
        if info['source_timestamp']:
            transit = arrival - info['source_timestamp']
            self._fastest = transit if self._fastest is None else min(transit, self._fastest)
            if transit - self._fastest > _BUSY * SECOND_NS:
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
        for joint in message.joint_names:
            if joint not in self._by_joint:
                raise RosError(
                    f'no position servo moves a joint {joint!r}; {nearest(joint, self._by_joint)}'
                )
        rows = [self._by_joint[joint] for joint in message.joint_names]
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
                if len(values) != len(rows) and (len(values) or name == 'positions'):
                    raise RosError(f'expected {len(rows)} {name}, found {len(values)}')
                if len(values):
                    points[number, order, rows] = slopes * values + (0.0 if order else offsets)
        return TrajectoryCommand(after, points)


def _finite(values: Any) -> NDArray[np.float64]:
    found = np.array(values, dtype=np.float64)
    if not np.all(np.isfinite(found)):
        raise RosError(f'expected finite values, found {found.tolist()}')
    return found


_STATES = 'joint_states'
_ARRAYS = 'forward_position_controller/commands'
_TRAJECTORIES = 'joint_trajectory_controller/joint_trajectory'


class SimulatedRobot:
    """A plant that follows the wall clock in a thread of its own.

    Sample k has the stamp t0 + k / rate, t0 being the clock at the start: late computation delays a
    message, but neither moves its stamp nor adds up.
    """

    def __init__(self, node: Node, stop: Stop) -> None:
        """Declare parameters, build the plant and begin to publish."""
        self._log = node.get_logger()
        config = declare(node, SimulatedRobotConfig)
        self._plant = plant = _plant(config)
        if not plant.settled:
            self._log.warning('the robot does not come to rest in its home pose; it starts moving')
        # Jitter and loss are those of a poor driver.
        self._jitter, self._loss = config.stamp_jitter, config.loss
        self._random = np.random.default_rng((config.seed, 1))
        states, arrays, trajectories = (
            node.resolve_topic_name(name) for name in (_STATES, _ARRAYS, _TRAJECTORIES)
        )
        self._state = JointState(name=list(plant.joints))
        self._states = node.create_publisher(JointState, states, DEPTH)
        self._applied = node.create_publisher(JointState, '~/applied_commands', DEPTH)
        self._mjcf = node.create_publisher(String, '~/mjcf', latched())
        path = Path(config.model)
        text = read_description(path).mjcf or path.read_text(encoding='utf-8', errors='replace')
        self._mjcf.publish(String(data=text))
        self._quantities = {
            row: Quantity.POSITION if drive.takes_positions else command_quantity(plant.model, row)
            for row, drive in enumerate(plant.drives)
            if drive.joint
        }
        self._inbox = CommandInbox(node, plant, arrays, trajectories)
        self._period = min(1.0 / config.rate, _LAG)
        self._stamp_ns = self._since_ns = 0
        self._ready = (
            f'simulated robot ready: {len(plant.joints)} joints at {config.rate:g} Hz on {states}, '
            f'commands from {arrays} and {trajectories}'
        )
        self._closing = threading.Event()
        self._thread = threading.Thread(
            target=stop.guard, args=(self._follow_clock,), name='stepping'
        )
        self._thread.start()

    def close(self) -> None:
        """Stop stepping."""
        self._closing.set()
        self._thread.join()
        self._inbox.close()
        if self._plant.late:
            self._log.warning(f'{self._plant.late} commands came too late for their time of effect')

    def _follow_clock(self) -> None:
        start_ns = time.time_ns()
        announced = False
        plant = self._plant
        # The start takes a while to get up to speed.
        warned, warned_late = STATUS_SECONDS - PATIENCE_SECONDS, -math.inf
        while not self._closing.is_set():
            now = (time.time_ns() - start_ns) / SECOND_NS
            behind = now - _LAG - plant.time
            if behind > _BUSY + self._period and now - warned > PATIENCE_SECONDS:
                warned = now
                self._log.warning(f'the simulation is {1e3 * behind:.0f} ms behind the clock')
            for arrival_ns, values in self._inbox.fetch():
                late = plant.command((arrival_ns - start_ns) / SECOND_NS, values)
                if late and now - warned_late > PATIENCE_SECONDS:
                    warned_late = now
                    self._log.warning('a command came too late and takes effect at once')
                if isinstance(values, np.ndarray):
                    self._send_applied(arrival_ns + round(late * SECOND_NS), values)
            for sample in plant.advance(min(now - _LAG, plant.time + _BUSY)):
                self._send_state(start_ns, sample)
                if not announced:
                    announced = True
                    self._log.info(self._ready)
            elapsed = (time.time_ns() - start_ns) / SECOND_NS
            is_late = elapsed - _LAG - plant.time > self._period + plant.timestep
            # Else it wakes up next on the grid of the period.
            self._closing.wait(0.0 if is_late else self._period - elapsed % self._period)

    def _send_state(self, start_ns: int, sample: Sample) -> None:
        late = self._jitter * self._random.standard_normal()
        if self._random.random() < self._loss:
            return
        stamp_ns = start_ns + round((sample.time + late) * SECOND_NS)
        self._stamp_ns = max(stamp_ns, self._stamp_ns + 1)
        message = self._state
        message.header.stamp = _stamp(self._stamp_ns)
        message.position = array.array('d', sample.position.tobytes())
        message.velocity = array.array('d', sample.velocity.tobytes())
        message.effort = array.array('d', sample.effort.tobytes())
        self._states.publish(message)

    def _send_applied(self, since_ns: int, values: NDArray[np.float64]) -> None:
        """Say by joint what (nu,) commands ask of the drives, and since when."""
        drives = self._plant.drives
        message = JointState(name=[drives[row].joint for row in self._quantities])
        # Of commands that act at once because all came too late, the last one lasts.
        self._since_ns = max(since_ns, self._since_ns + 1)
        message.header.stamp = _stamp(self._since_ns)
        asked = [
            drives[row].position(float(values[row]))
            if drives[row].takes_positions
            else float(values[row])
            for row in self._quantities
        ]
        for quantity in set(self._quantities.values()):
            own = [found is quantity for found in self._quantities.values()]
            setattr(message, quantity, np.where(own, asked, math.nan).tolist())
        self._applied.publish(message)


def _stamp(time_ns: int) -> Time:
    """Return a time since the epoch as messages have it."""
    seconds, nanoseconds = divmod(time_ns, SECOND_NS)
    return Time(sec=seconds, nanosec=nanoseconds)


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
    servos: Any = None
    if config.servos:
        from sysid_ros.workflows.problem import joints_of  # noqa: PLC0415 (slow)

        servos = partial(joints_of, load_servos(Path(config.servos)))
    return Plant(Path(config.model), truth, rate=config.rate, noise=noise, servos=servos)

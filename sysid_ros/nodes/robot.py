# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the ``simulated_robot`` node does: run a plant in real time between two topics."""

from __future__ import annotations

import array
import math
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import rclpy
from builtin_interfaces.msg import Time
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory

from sysid_ros.config import SimulatedRobotConfig
from sysid_ros.errors import ConfigError, RosError, nearest
from sysid_ros.nodes.parameters import declare
from sysid_ros.nodes.topics import resolve_topic
from sysid_ros.simulation import Noise, Plant, load_truth

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from rclpy.node import Node

    from sysid_ros.nodes.runtime import Stop
    from sysid_ros.simulation import Sample

#: Simulated time stays so far behind the clock, s. A command is in time when Python gets to it
#: within this and its delay; the stamps of samples and the effect of commands do not move by it.
_LAG = 0.010
#: Commands take no longer than the fastest one and this, s, unless the machine is busy.
_HELD_UP = 0.020
#: Longest pause of the stepping thread, s: commands are fetched at least so often.
_LONGEST_PAUSE = 0.010
#: Longest simulated time between two looks at the commands, s, when it has to catch up.
_LONGEST_STRIDE = 0.050
#: What is worth a warning, s, and how long the start may take to get up to speed.
_BEHIND = 0.020
_WARM_UP = 1.0
#: Warnings of one kind are at least so far apart, s.
_WARN_SECONDS = 5.0
#: Messages held by the middleware until the stepping thread fetches or sends them.
_DEPTH = 1000
_NS = 10**9
#: Stamps with jitter are at least so far apart, ns.
_LEAST_NS = 1000
#: Argument of rclpy's take_message.
_NOT_RAW = False


class Robot:
    """A plant that follows the wall clock.

    Sample k has the stamp t0 + k / rate, t0 being the clock at the start: late computation delays a
    message, but neither moves its stamp nor adds up. Jitter and loss, if asked for, are those of a
    poor driver: stamps beside the instants that they belong to, messages that never leave.
    """

    def __init__(self, node: Node, stop: Stop) -> None:
        """Declare parameters, build the plant and begin to publish.

        Raises:
            SysidError: A parameter, the model or the truth is not valid.
        """
        self._log = node.get_logger()
        self._stop = stop
        config = declare(node, SimulatedRobotConfig)
        self._plant = _plant(config)
        self._period = min(1.0 / config.rate, _LONGEST_PAUSE)
        if not self._plant.settled:
            self._log.warning('the robot does not come to rest in its home pose; it starts moving')
        self._jitter, self._loss = config.stamp_jitter, config.loss
        self._random = np.random.default_rng((config.seed, 1))
        self._stamp_ns = 0
        self._message = JointState(name=list(self._plant.joints))
        topic = resolve_topic(node, 'joint_states_topic', config.joint_states_topic)
        states = node.create_publisher(JointState, topic, _DEPTH)
        self._publish = states.publish
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._mjcf = node.create_publisher(String, '~/mjcf', latched)
        text = Path(config.model).read_text(encoding='utf-8', errors='replace')
        self._mjcf.publish(String(data=text))
        self._inbox = _Inbox(node, config, self._plant)
        self._ready = (
            f'simulated robot ready: {len(self._plant.joints)} joints at {config.rate:g} Hz on '
            f'{topic}, commands from {" and ".join(self._inbox.topics)}'
        )
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name='stepping')
        self._thread.start()

    def close(self) -> None:
        """Stop stepping."""
        self._closing.set()
        self._thread.join()
        self._inbox.close()
        if self._plant.late:
            self._log.warning(f'{self._plant.late} commands came too late for their time of effect')

    def _run(self) -> None:
        try:
            self._follow_clock()
        except BaseException as err:  # noqa: BLE001 (raised again in the main thread)
            self._stop.request(err)

    def _follow_clock(self) -> None:
        start_ns = time.time_ns()
        announced = False
        warned, late = _WARM_UP - _WARN_SECONDS, -math.inf
        while not self._closing.is_set():
            now = (time.time_ns() - start_ns) / _NS
            behind = now - _LAG - self._plant.time
            if behind > _BEHIND + self._period and now - warned > _WARN_SECONDS:
                warned = now
                self._log.warning(f'the simulation is {1e3 * behind:.0f} ms behind the clock')
            for arrival_ns, values in self._inbox.fetch():
                in_time = self._plant.command((arrival_ns - start_ns) / _NS, values)
                if not in_time and now - late > _WARN_SECONDS:
                    late = now
                    self._log.warning('a command came too late and takes effect at once')
            for sample in self._plant.advance(min(now - _LAG, self._plant.time + _LONGEST_STRIDE)):
                self._send(start_ns, sample)
                if not announced:
                    announced = True
                    self._log.info(self._ready)
            elapsed = (time.time_ns() - start_ns) / _NS
            self._closing.wait(self._pause(elapsed))

    def _pause(self, elapsed: float) -> float:
        """Return the seconds until the next wake-up on the grid of the period."""
        if elapsed - _LAG - self._plant.time > self._period + self._plant.timestep:
            return 0.0
        return self._period - elapsed % self._period

    def _send(self, start_ns: int, sample: Sample) -> None:
        late = self._jitter * self._random.standard_normal()
        if self._random.random() < self._loss:
            return
        stamp_ns = start_ns + round((sample.time + late) * _NS)
        self._stamp_ns = max(stamp_ns, self._stamp_ns + _LEAST_NS)
        seconds, nanoseconds = divmod(self._stamp_ns, _NS)
        message = self._message
        message.header.stamp = Time(sec=seconds, nanosec=nanoseconds)
        message.position = array.array('d', sample.position.tobytes())
        message.velocity = array.array('d', sample.velocity.tobytes())
        message.effort = array.array('d', sample.effort.tobytes())
        self._publish(message)


class _Inbox:
    """Commands from both topics with the stamps that the middleware gave them on arrival.

    A callback would come when Python has time for it. The middleware's stamp does not depend on
    that, but rclpy's EventsExecutor does not hand it on: messages are taken here, from a node that
    no executor spins.
    """

    def __init__(self, node: Node, config: SimulatedRobotConfig, plant: Plant) -> None:
        self._log = node.get_logger()
        self._plant = plant
        self._warned: set[str] = set()
        self._fastest: int | None = None
        self._by_joint = {
            drive.joint: row
            for row, drive in enumerate(plant.drives)
            if drive.joint and drive.takes_positions
        }
        self._node = rclpy.create_node(
            f'{node.get_name()}_commands',
            namespace=node.get_namespace(),
            use_global_arguments=False,
            start_parameter_services=False,
            enable_rosout=False,
        )
        # The other node knows about remappings, this one does not.
        self.topics = tuple(
            resolve_topic(node, parameter, getattr(config, parameter))
            for parameter in ('commands_topic', 'trajectory_topic')
        )
        readers = (self._read_array, self._read_trajectory)
        kinds = (Float64MultiArray, JointTrajectory)
        self._sources = tuple(
            (self._node.create_subscription(kind, topic, _never, _DEPTH), read)
            for kind, topic, read in zip(kinds, self.topics, readers, strict=True)
        )

    def close(self) -> None:
        """Leave the graph."""
        self._node.destroy_node()

    def fetch(self) -> list[tuple[int, NDArray[np.float64]]]:
        """Return what arrived since the last call.

        Returns:
            When each command arrived, ns since the epoch, and its (nu,) values, NaN for the
            actuators that it does not name.
        """
        commands = []
        for subscription, read in self._sources:
            while taken := subscription.handle.take_message(subscription.msg_type, _NOT_RAW):
                message, info = taken
                try:
                    values = read(message)
                except RosError as err:
                    self._ignore(subscription.topic_name, err)
                    continue
                commands.append((self._arrival(info), values))
        return commands

    def _arrival(self, info: Mapping[str, int]) -> int:
        """Return when a command arrived, ns.

        What a busy machine held up by more than `_HELD_UP` counts as having come as fast as the
        fastest: the machine's other work is no part of the robot.
        """
        # Not every middleware stamps what it sends and receives.
        received = info['received_timestamp'] or time.time_ns()
        if not info['source_timestamp']:
            return received
        transit = received - info['source_timestamp']
        self._fastest = transit if self._fastest is None else min(transit, self._fastest)
        if transit - self._fastest <= _HELD_UP * _NS:
            return received
        return info['source_timestamp'] + self._fastest

    def _read_array(self, message: Any) -> NDArray[np.float64]:
        values = np.array(message.data, dtype=np.float64)
        expected = len(self._plant.drives)
        if len(values) != expected:
            msg = f'expected one value per actuator, {expected}, found {len(values)}'
            raise RosError(msg)
        return _finite(values)

    def _read_trajectory(self, message: Any) -> NDArray[np.float64]:
        if not message.points:
            msg = 'expected a point, found none'
            raise RosError(msg)
        positions = _finite(np.array(message.points[-1].positions, dtype=np.float64))
        if len(positions) != len(message.joint_names):
            msg = f'expected {len(message.joint_names)} positions, found {len(positions)}'
            raise RosError(msg)
        values = np.full(len(self._plant.drives), np.nan)
        for name, position in zip(message.joint_names, positions, strict=True):
            if name not in self._by_joint:
                hint = nearest(name, self._by_joint)
                msg = f'no position servo moves a joint {name!r}; {hint}'
                raise RosError(msg)
            row = self._by_joint[name]
            values[row] = self._plant.drives[row].command(float(position))
        return values

    def _ignore(self, topic: str, reason: RosError) -> None:
        if topic not in self._warned:
            self._warned.add(topic)
            self._log.warning(f'ignoring a command on {topic}: {reason}')


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    if not np.all(np.isfinite(values)):
        msg = f'expected finite values, found {values.tolist()}'
        raise RosError(msg)
    return values


def _plant(config: SimulatedRobotConfig) -> Plant:
    if not config.model:
        msg = "Expected an MJCF file in parameter 'model' (-p model:=FILE), found none."
        raise ConfigError(msg)
    noise = Noise(
        position=config.position_noise,
        velocity=config.velocity_noise,
        effort=config.effort_noise,
        encoder_bits=config.encoder_bits,
        seed=config.seed,
    )
    truth = load_truth(Path(config.truth)) if config.truth else {}
    return Plant(Path(config.model), truth, rate=config.rate, noise=noise)


def _never(_: object) -> None:
    """Fill the place of a callback; no executor calls it."""

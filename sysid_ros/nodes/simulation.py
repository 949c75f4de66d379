# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A simulation that stands for a robot in the graph.

Commands come in with the stamps of their arrival, the simulation follows the wall clock, and joint
states go out.
"""

from __future__ import annotations

import array
import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import rclpy
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from rclpy.node import Node
from sensor_msgs.msg import JointState

from sysid_ros.errors import RosError
from sysid_ros.nodes.runtime import Stop
from sysid_ros.virtual_robot import Plant, Sample
from sysid_ros.virtual_robot.commands import TrajectoryCommand

#: Commands take no longer than the fastest one and this, s, unless the machine is busy.
_LONGEST_HOLDUP = 0.020
#: Argument of rclpy's take_message.
_NOT_RAW = False
#: Simulated time stays so far behind the clock, s. A command is in time when Python gets to it
#: within this and its delay; the stamps of samples and the effect of commands do not move by it.
_LAG = 0.010
#: Longest pause of the stepping thread, s: commands are fetched at least so often.
_LONGEST_PAUSE = 0.010
#: Longest simulated time between two looks at the commands, s, when it has to catch up.
_LONGEST_STRIDE = 0.050
#: What is worth a warning, s, and how long the start may take to get up to speed.
_BEHIND = 0.020
_WARM_UP = 1.0
#: Warnings of one kind are at least so far apart, s.
_WARN_SECONDS = 5.0
#: Messages held by the middleware until they are fetched or sent.
DEPTH = 1000
_NS = 10**9
#: Stamps with jitter are at least so far apart, ns.
_LEAST_NS = 1000


def stamp(time_ns: int) -> Time:
    """Return a time since the epoch as messages have it."""
    seconds, nanoseconds = divmod(time_ns, _NS)
    return Time(sec=seconds, nanosec=nanoseconds)


class CommandTopic(NamedTuple):
    """A topic of commands.

    Attributes:
        topic: Its name in full.
        kind: Type of its messages.
        read: Returns (nu,) commands of a message, NaN for what it leaves as it is, or the
            trajectory in it; raises a RosError where they do not fit.
    """

    topic: str
    kind: Any
    read: Callable[[Any], NDArray[np.float64] | TrajectoryCommand]


class CommandInbox:
    """Commands from several topics.

    A callback would come when Python has time for it. The middleware's stamp does not depend on
    that, but rclpy's EventsExecutor does not hand it on: messages are taken here, from a node that
    no executor spins.
    """

    def __init__(self, node: Node, *sources: CommandTopic) -> None:
        """Subscribe."""
        self._log = node.get_logger()
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
        self.topics = tuple(source.topic for source in sources)
        self._sources = tuple(
            (
                # No executor spins the node: the callback is never called.
                self._node.create_subscription(source.kind, source.topic, lambda _: None, DEPTH),
                source.read,
            )
            for source in sources
        )

    def close(self) -> None:
        """Leave the graph."""
        self._node.destroy_node()

    def fetch(self) -> list[tuple[int, NDArray[np.float64] | TrajectoryCommand]]:
        """Return what arrived since the last call.

        Returns:
            When each command arrived, ns since the epoch, and its (nu,) values, NaN for the
            actuators that it does not name, or the trajectory that it is.
        """
        commands = []
        for subscription, read in self._sources:
            while taken := subscription.handle.take_message(subscription.msg_type, _NOT_RAW):
                message, info = taken
                try:
                    values = read(message)
                except RosError as err:
                    topic = subscription.topic_name
                    if topic not in self._warned:
                        self._warned.add(topic)
                        self._log.warning(f'ignoring a command on {topic}: {err}')
                    continue
                commands.append((self._arrival(info), values))
        return commands

    def _arrival(self, info: Mapping[str, int]) -> int:
        """Return when a command arrived, ns, after those before it.

        What a busy machine held up by more than `_LONGEST_HOLDUP` counts as having come as fast as
        the fastest: the machine's other work is no part of the robot.
        """
        self._latest = max(self._unhindered(info), self._latest + 1)
        return self._latest

    def _unhindered(self, info: Mapping[str, int]) -> int:
        # Not every middleware stamps what it sends and receives.
        received = info['received_timestamp'] or time.time_ns()
        if not info['source_timestamp']:
            return received
        transit = received - info['source_timestamp']
        self._fastest = transit if self._fastest is None else min(transit, self._fastest)
        if transit - self._fastest <= _LONGEST_HOLDUP * _NS:
            return received
        return info['source_timestamp'] + self._fastest


class StateSender:
    """Sends samples as joint states.

    Jitter and loss, if asked for, are those of a poor driver: stamps beside the instants that they
    belong to, messages that never leave.
    """

    def __init__(
        self,
        node: Node,
        topic: str,
        joints: tuple[str, ...],
        *,
        jitter: float = 0.0,
        loss: float = 0.0,
        seed: int = 0,
    ) -> None:
        """Create the publisher.

        Args:
            node: The node.
            topic: Its name in full.
            joints: Names in the order of the samples.
            jitter: Standard deviation of the stamps, s.
            loss: Part of the messages that never leave.
            seed: Of jitter and loss.
        """
        self.topic = topic
        self._jitter, self._loss = jitter, loss
        self._random = np.random.default_rng((seed, 1))
        self._stamp_ns = 0
        self._message = JointState(name=list(joints))
        self._publish = node.create_publisher(JointState, topic, DEPTH).publish

    def send(self, start_ns: int, sample: Sample) -> None:
        """Send a sample of a simulation that started at a time."""
        late = self._jitter * self._random.standard_normal()
        if self._random.random() < self._loss:
            return
        stamp_ns = start_ns + round((sample.time + late) * _NS)
        self._stamp_ns = max(stamp_ns, self._stamp_ns + _LEAST_NS)
        message = self._message
        message.header.stamp = stamp(self._stamp_ns)
        message.position = array.array('d', sample.position.tobytes())
        message.velocity = array.array('d', sample.velocity.tobytes())
        message.effort = array.array('d', sample.effort.tobytes())
        self._publish(message)


class RealTimeSimulation:
    """A simulation in a thread of its own that follows the wall clock.

    Sample k has the stamp t0 + k / rate, t0 being the clock at the start: late computation delays a
    message, but neither moves its stamp nor adds up.
    """

    def __init__(
        self,
        node: Node,
        stop: Stop,
        plant: Plant,
        sender: StateSender,
        inbox: CommandInbox,
        *,
        rate: float,
        ready: str,
        applied: Callable[[int, NDArray[np.float64]], None],
    ) -> None:
        """Start the thread.

        Args:
            node: Logs for it.
            stop: Told of errors.
            plant: What is simulated.
            sender: Takes the samples.
            inbox: Has the commands.
            rate: Samples per second.
            ready: Logged after the first sample.
            applied: Told of each command, and since when it was the latest, ns.
        """
        self._log = node.get_logger()
        self._stop = stop
        self._plant = plant
        self._sender = sender
        self._inbox = inbox
        self._period = min(1.0 / rate, _LONGEST_PAUSE)
        self._ready = ready
        self._applied = applied
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
        plant = self._plant
        warned, warned_late = _WARM_UP - _WARN_SECONDS, -math.inf
        while not self._closing.is_set():
            now = (time.time_ns() - start_ns) / _NS
            behind = now - _LAG - plant.time
            if behind > _BEHIND + self._period and now - warned > _WARN_SECONDS:
                warned = now
                self._log.warning(f'the simulation is {1e3 * behind:.0f} ms behind the clock')
            for arrival_ns, values in self._inbox.fetch():
                late = plant.command((arrival_ns - start_ns) / _NS, values)
                if late and now - warned_late > _WARN_SECONDS:
                    warned_late = now
                    self._log.warning('a command came too late and takes effect at once')
                if isinstance(values, np.ndarray):
                    self._applied(arrival_ns + round(late * _NS), values)
            for sample in plant.advance(min(now - _LAG, plant.time + _LONGEST_STRIDE)):
                self._sender.send(start_ns, sample)
                if not announced:
                    announced = True
                    self._log.info(self._ready)
            elapsed = (time.time_ns() - start_ns) / _NS
            late = elapsed - _LAG - plant.time > self._period + plant.timestep
            # Else it wakes up next on the grid of the period.
            self._closing.wait(0.0 if late else self._period - elapsed % self._period)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the ``simulated_robot`` node does: run a plant between its topics.

In real time it is a robot whose clock is the machine's. In simulated time it owns the clock, and
time waits for commands: what is slow then takes longer, and changes nothing.
"""

from __future__ import annotations

import array
import math
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from rclpy.clock import Clock, ClockType
from rclpy.duration import Duration
from rclpy.node import Node
from rosgraph_msgs.msg import Clock as ClockMessage
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory

from sysid_ros.alignment.pairs import command_quantity
from sysid_ros.config.files import load_servos
from sysid_ros.config.nodes import SimulatedRobotConfig
from sysid_ros.errors import ConfigError, RosError, nearest
from sysid_ros.files import read_text
from sysid_ros.model.description import read_description
from sysid_ros.nodes.graph import CLOCK
from sysid_ros.nodes.parameters import declare
from sysid_ros.nodes.runtime import (
    DEPTH,
    FAREWELL_SECONDS,
    GRAPH_SECONDS,
    PATIENCE_SECONDS,
    STATUS_SECONDS,
    Stop,
    latched,
)
from sysid_ros.plant import Noise, Plant, Sample, TrajectoryCommand, load_truth
from sysid_ros.vocabulary import SECOND_NS, Quantity

#: (nu,) commands, NaN for the actuators that are not named, or a trajectory.
Command = NDArray[np.float64] | TrajectoryCommand

#: When simulated time begins, ns: a stamp of zero is none.
_BEGIN_NS = SECOND_NS
#: In real time states are computed at least so often, s.
_LONGEST_PAUSE = 0.01


class CommandReader:
    """Reads commands for a plant from messages, of arrays and of trajectories."""

    def __init__(self, plant: Plant) -> None:
        self._drives = plant.drives
        self._by_joint = {
            drive.joint: row
            for row, drive in enumerate(plant.drives)
            if drive.joint and drive.takes_positions
        }

    def read(self, message: Any) -> Command:
        """Return the command that a message holds, or raise a RosError."""
        if isinstance(message, Float64MultiArray):
            return self._read_array(message)
        return self._read_trajectory(message)

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
    """A plant that is stepped by callbacks: of a timer in real time, of commands in simulated time.

    Sample k has the stamp t0 + k / rate, whenever it is computed. A command acts at the robot's
    time when it comes.
    """

    def __init__(self, node: Node, _: Stop) -> None:
        """Declare parameters, build the plant and begin to publish."""
        self._log = node.get_logger()
        self._config = config = declare(node, SimulatedRobotConfig)
        self._plant = plant = _plant(config)
        if not plant.settled:
            self._log.warning('the robot does not come to rest in its home pose; it starts moving')
        # Jitter and loss are those of a poor driver.
        self._random = np.random.default_rng((config.seed, 1))
        states, arrays, trajectories = (
            node.resolve_topic_name(name) for name in (_STATES, _ARRAYS, _TRAJECTORIES)
        )
        self._state = JointState(name=list(plant.joints))
        self._states = node.create_publisher(JointState, states, DEPTH)
        self._applied = node.create_publisher(JointState, '~/applied_commands', DEPTH)
        self._mjcf = node.create_publisher(String, '~/mjcf', latched())
        path = Path(config.model)
        text = read_description(path).mjcf or read_text(path, errors='replace')
        self._mjcf.publish(String(data=text))
        self._quantities = {
            row: Quantity.POSITION if drive.takes_positions else command_quantity(plant.model, row)
            for row, drive in enumerate(plant.drives)
            if drive.joint
        }
        self._topics = {Float64MultiArray: arrays, JointTrajectory: trajectories}
        self._reader = CommandReader(plant)
        self._warned: set[str] = set()
        self._warned_slow = False
        self._awaited = f'{arrays} and {trajectories}'
        self._ready = (
            f'simulated robot ready: {len(plant.joints)} joints at {config.rate:g} Hz on {states}, '
            f'commands from {self._awaited}'
        )
        self._stamp_ns = 0
        self._now = 0.0
        self._begin_ns, self._begin = time.time_ns(), time.monotonic()
        take, tick, period = self._take_now, self._catch_up, min(1.0 / config.rate, _LONGEST_PAUSE)
        if config.command_rate:
            self._begin_ns = _BEGIN_NS
            self._clock = node.create_publisher(ClockMessage, CLOCK, DEPTH)
            self._instant = self._repeated = 0
            take, tick, period = self._take_and_go_on, self._repeat, GRAPH_SECONDS
            self._go_on()
        for kind, topic in self._topics.items():
            node.create_subscription(kind, topic, take, DEPTH)
        node.create_timer(period, tick, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def close(self) -> None:
        """Let the last states arrive."""
        self._states.wait_for_all_acked(Duration(seconds=FAREWELL_SECONDS))

    # In real time

    def _catch_up(self) -> None:
        """Simulate up to the wall's clock."""
        self._now = time.monotonic() - self._begin
        self._simulate()
        behind = time.monotonic() - self._begin - self._now
        if behind > STATUS_SECONDS and not self._warned_slow:
            self._warned_slow = True
            self._log.warning(
                f'this machine is too slow for the robot in real time, {behind:.1f} s behind; '
                'with command_rate time waits'
            )

    def _take_now(self, message: Any) -> None:
        self._catch_up()
        self._apply(message)

    # In simulated time

    def _go_on(self) -> None:
        """Simulate up to the next instant of the commands' rate."""
        self._instant += 1
        self._now = self._instant / self._config.command_rate
        self._simulate()
        self._repeated = 0
        # All states from before have been sent when somebody reads this time.
        self._clock.publish(ClockMessage(clock=_stamp(self._ns(self._now))))

    def _take_and_go_on(self, message: Any) -> None:
        self._apply(message)
        self._go_on()

    def _repeat(self) -> None:
        """Say the time and the last state again while time stands still: somebody may come now."""
        self._repeated += 1
        if self._repeated == 1:
            return
        now = _stamp(self._ns(self._now))
        self._clock.publish(ClockMessage(clock=now))
        if self._stamp_ns:
            self._states.publish(self._state)
        if self._repeated == round(PATIENCE_SECONDS / GRAPH_SECONDS):
            seconds = self._ns(self._now) / SECOND_NS
            self._log.info(f'{seconds:.2f} s: time waits for a command on {self._awaited}')

    # In either

    def _ns(self, now: float) -> int:
        """Return the stamp of a time of the plant, ns."""
        return self._begin_ns + round(now * SECOND_NS)

    def _simulate(self) -> None:
        for sample in self._plant.advance(self._now):
            self._send_state(sample)
            if self._ready:
                self._log.info(self._ready)
                self._ready = ''

    def _apply(self, message: Any) -> None:
        try:
            values = self._reader.read(message)
        except RosError as err:
            topic = self._topics[type(message)]
            if topic not in self._warned:
                self._warned.add(topic)
                self._log.warning(f'ignoring a command on {topic}: {err}')
            return
        self._plant.command(self._now, values)
        if isinstance(values, np.ndarray):
            self._send_applied(self._ns(self._now), values)

    def _send_state(self, sample: Sample) -> None:
        late = self._config.stamp_jitter * self._random.standard_normal()
        if self._random.random() < self._config.loss:
            return
        self._stamp_ns = max(self._ns(sample.time + late), self._stamp_ns + 1)
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
        message.header.stamp = _stamp(since_ns)
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

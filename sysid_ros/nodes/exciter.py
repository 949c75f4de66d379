# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the ``exciter`` node does: wait for the robot, then send a motion on schedule."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.clock import Clock, ClockType, JumpThreshold
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from sysid_ros.config.nodes import ExciterConfig
from sysid_ros.errors import ConfigError, ModelError, RosError, nearest
from sysid_ros.nodes.parameters import declare, resolve_topic
from sysid_ros.nodes.runtime import (
    FAREWELL_SECONDS,
    GRAPH_SECONDS,
    PATIENCE_SECONDS,
    STATUS_SECONDS,
    Stop,
)
from sysid_ros.vocabulary import SECOND_NS
from sysid_ros.workflows.excitation import Motion, drives, follow, read_waypoints, sum_of_sines
from sysid_ros.workflows.excitation.design import lead_in, rehearse
from sysid_ros.workflows.excitation.drives import (
    Breach,
    Guard,
    Limits,
    compile_driven,
    home_position,
    load_driven,
)
from sysid_ros.workflows.excitation.motion import quintic


class MotionClock:
    """What a motion goes by: in simulated time the node's clock, else a steady one."""

    def __init__(self, node: Node) -> None:
        self._simulated = bool(node.get_parameter('use_sim_time').value)
        self._clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._woken = threading.Event()
        if self._simulated:
            self._clock = node.get_clock()
            step = JumpThreshold(min_forward=Duration(nanoseconds=1), min_backward=None)
            self._jumps = self._clock.create_jump_callback(step, post_callback=self.wake)

    def now(self) -> int:
        """Return the time, ns; 0 as long as simulated time is not known."""
        return int(self._clock.now().nanoseconds)

    def wake(self, _: object = None) -> None:
        """Let the thread that waits look again."""
        self._woken.set()

    def wait(self, moment: int) -> bool:
        """Wait for a moment, ns, and return at it or before; False where time stands still."""
        before = self.now()
        left = max(moment - before, 0) / SECOND_NS
        woken = self._woken.wait(PATIENCE_SECONDS if self._simulated and left else left)
        self._woken.clear()
        return woken or not left or self.now() > before


class JointStates:
    """The latest positions of a topic's joints, rad or m; None before the first message."""

    def __init__(
        self, node: Node, topic: str, clock: MotionClock, on_state: Callable[[int, Any], None]
    ) -> None:
        """Subscribe to a topic, named in full; ``on_state`` gets the stamp, ns, and the message."""
        self.topic = topic
        self.positions: dict[str, float] | None = None
        self._node = node
        self._clock = clock
        self._on_state = on_state
        self._stamp = 0
        self._heard = 0
        best_effort = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        node.create_subscription(JointState, topic, self._receive, best_effort)

    def missing(self) -> str:
        """Return what of it is missing still; empty when states come."""
        if self.positions is not None:
            return ''
        published = self._node.count_publishers(self.topic)
        return f'a {"JointState" if published else "publisher"} of {self.topic}'

    def is_silent(self, since: int, limit: float) -> bool:
        """Whether no new state has come since a time, ns, for so many seconds; 0 means never."""
        return bool(limit and self._clock.now() - max(since, self._heard) > limit * SECOND_NS)

    def _receive(self, message: Any) -> None:
        stamp = message.header.stamp.sec * SECOND_NS + message.header.stamp.nanosec
        # A driver that repeats its last state is as silent as one that sends none.
        if stamp and stamp == self._stamp:
            return
        self._heard = self._clock.now()
        self._stamp = stamp
        self.positions = dict(zip(message.name, message.position, strict=False))
        self._on_state(stamp, message)


def steps_on_time(
    clock: MotionClock, rate: float, last: int, closing: threading.Event
) -> Iterator[int]:
    """Yield the steps 0 to last at a rate, 1/s, without those whose time is over; hold the last.

    That one is never left out, unless ``closing`` is set before. The latest is yielded again where
    time stands still: whoever lets it go on may not have heard of it.
    """
    start = clock.now()
    step = 0
    while step <= last:
        yield step
        due = int((clock.now() - start) / SECOND_NS * rate)
        following = max(step + 1, min(due, last))
        moment = start + round(following / rate * SECOND_NS)
        while clock.now() < moment:
            moves = clock.wait(moment)
            if closing.is_set():
                return
            if not moves:
                yield step
        step = following


DEFAULT_TOPICS = {
    'Float64MultiArray': 'forward_position_controller/commands',
    'JointTrajectory': 'joint_trajectory_controller/joint_trajectory',
}

#: An interrupted motion slows down to a halt within so many seconds.
_BRAKE_SECONDS = 0.5
#: Commands are remembered for so long, s: a state may be late.
_KEPT_SECONDS = 1.0
#: A limit is broken when so many messages in a row say so: one may be a glitch.
_IN_A_ROW = 3
#: Part of a limit that the simulated robot may use: servos overshoot the ends of their ranges.
_MARGIN = 1.02


class Exciter:
    """Sends the commands of a motion, each at its time."""

    def __init__(self, node: Node, stop: Stop) -> None:
        """Declare parameters, plan the motion and start to wait for the robot."""
        self._node = node
        self._stop = stop
        self._log = node.get_logger()
        config = declare(node, ExciterConfig)
        self._config = config
        if not config.model:
            raise ConfigError(
                "Expected an MJCF file in parameter 'model' (-p model:=FILE), found none."
            )
        path = Path(config.model)
        spec = load_driven(path)
        self._model = compile_driven(spec, path)
        self._drives = drives(self._model)
        self._motion = (
            follow(self._model, read_waypoints(Path(config.motion)), rate=config.rate)
            if config.motion
            else sum_of_sines(
                self._model,
                duration=config.duration,
                ramp=config.ramp,
                amplitude=config.amplitude,
                max_frequency=config.max_frequency,
                seed=config.seed,
                rate=config.rate,
            )
        )
        # No limit, but the distance of both ends is still a number.
        fastest = config.max_velocity or sys.float_info.max / 2
        try:
            limits = Limits(self._model, margin=_MARGIN, max_speed=fastest)
        except ModelError as err:
            self._log.warning(f'the motion is not tried on the model first: {err}')
        else:
            rehearse(spec, path, self._motion, limits)
        by_name = config.message == 'JointTrajectory'
        for drive in self._drives:
            if by_name and not (drive.joint and drive.takes_positions):
                raise ModelError(
                    'Expected position servos on joints for JointTrajectory commands, found '
                    f'actuator {drive.actuator!r}, which is none.'
                )
        topic = resolve_topic(
            node, 'commands_topic', config.commands_topic or DEFAULT_TOPICS[config.message]
        )
        awaited = config.wait_for and resolve_topic(node, 'wait_for', config.wait_for)
        self._clock = clock = MotionClock(node)
        self._states = JointStates(node, awaited, clock, self._on_state) if awaited else None
        kind = JointTrajectory if by_name else Float64MultiArray
        self._publisher = node.create_publisher(kind, topic, 10)
        self._guard = Guard(
            self._model,
            position_tolerance=config.position_tolerance,
            max_velocity=config.max_velocity,
            max_error=config.max_tracking_error,
        )
        kept = math.ceil(config.rate * _KEPT_SECONDS)
        self._sent: deque[tuple[int, NDArray[np.float64]]] = deque(maxlen=kept)
        self._transits: deque[tuple[int, int]] = deque()
        self._alarms = 0
        self._breach: Breach | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=stop.guard, args=(self._move,), name='sender')
        # With the clock, which comes by a callback.
        stop.last = self.close
        self._reminded = -math.inf
        self._listeners = 0
        self._listening_since = time.monotonic()
        # Not the node's clock: before the motion, simulated time may stand still.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = node.create_timer(GRAPH_SECONDS, self._look, clock=steady)

    def close(self) -> None:
        """Bring the robot to a halt, if it moves."""
        self._halt()
        if self._thread.ident is not None:
            self._thread.join()

    def _halt(self) -> None:
        self._closing.set()
        self._clock.wake()

    # Waiting for the robot

    def _look(self) -> None:
        """Begin when nothing is missing and the graph has settled; until then say what is."""
        now = time.monotonic()
        listeners = self._publisher.get_subscription_count()
        if listeners != self._listeners:
            self._listeners, self._listening_since = listeners, now
        missing = [] if self._states is None else [self._states.missing()]
        missing.append('' if listeners else f'a subscriber of {self._publisher.topic_name}')
        missing.append('' if self._clock.now() else 'the time on /clock')
        if any(missing):
            if now - self._reminded >= PATIENCE_SECONDS:
                self._reminded = now
                self._log.info(f'waiting for {" and ".join(filter(None, missing))}')
        elif now - self._listening_since >= STATUS_SECONDS and not self._closing.is_set():
            self._timer.cancel()
            self._motion = self._from_here()
            if self._states is None:
                text = "parameter 'wait_for' is empty: nothing watches the robot's limits"
                self._log.warning(text)
            self._thread.start()

    def _on_state(self, stamp: int, message: Any) -> None:
        commanded = self._in_force(stamp)
        if commanded is None or self._breach is not None:
            return
        breach = self._guard.check(
            dict(zip(message.name, message.position, strict=False)),
            dict(zip(message.name, message.velocity, strict=False)),
            dict(zip(message.name, message.effort, strict=False)),
            commanded,
        )
        self._alarms = self._alarms + 1 if breach else 0
        if self._alarms >= _IN_A_ROW:
            self._breach = breach
            self._halt()

    def _in_force(self, stamp: int) -> NDArray[np.float64] | None:
        """Return the command of the moment that a state is stamped with, None before the first.

        A state that was held up on its way says nothing about the commands sent meanwhile. The
        robot's clock may differ from the node's: the fastest states of the last second tell by how
        much. A state without a stamp is as old as it seems.
        """
        moment = now = self._node.get_clock().now().nanoseconds
        if stamp:
            self._transits.append((now, now - stamp))
            while self._transits[0][0] < now - _KEPT_SECONDS * SECOND_NS:
                self._transits.popleft()
            moment = stamp + min(transit for _, transit in self._transits)
        sent = list(self._sent)
        oldest = sent[0][1] if len(sent) == self._sent.maxlen else None
        return next((command for at, command in reversed(sent) if at <= moment), oldest)

    def _from_here(self) -> Motion:
        """Return the motion with a move from the measured pose in front."""
        if self._states is None or self._states.positions is None:
            return self._motion
        measured = self._states.positions
        pose = home_position(self._model)
        for drive in self._drives:
            if not drive.takes_positions or not drive.joint:
                continue
            if drive.joint not in measured:
                hint = nearest(drive.joint, measured)
                raise RosError(
                    f'Expected the position of joint {drive.joint!r} on topic '
                    f'{self._states.topic!r}, found none; {hint}.'
                )
            address = self._model.jnt_qposadr[self._model.joint(drive.joint).id]
            pose[address] = measured[drive.joint]
        return lead_in(self._model, self._motion, pose, rate=self._config.rate)

    # Moving

    def _move(self) -> None:
        """Send each command at its time from the start; skip those whose time is over."""
        motion, rate = self._motion, self._config.rate
        self._log.info(
            f'motion started: {motion.duration:.1f} s at {rate:g} Hz on '
            f'{self._publisher.topic_name}'
        )
        start = self._clock.now()
        step, sent, reported = -1, 0, 0.0
        for following in steps_on_time(self._clock, rate, len(motion.times) - 1, self._closing):
            if following == step:
                at = motion.times[step]
                self._log.info(f'time stands still; sending the command of {at:.2f} s again')
            sent += following > step
            step = following
            self._send(motion.commands[step])
            if motion.times[step] - reported >= PATIENCE_SECONDS:
                reported = float(motion.times[step])
                self._log.info(f'{reported:.0f} of {motion.duration:.0f} s')
            limit = self._config.state_timeout
            if self._states is not None and self._states.is_silent(start, limit):
                self._breach = Breach(f'{limit:g} s without a new state on {self._states.topic}')
                self._halt()
        if self._closing.is_set():
            self._brake(float(motion.times[step]))
        if skipped := step + 1 - sent:
            self._log.warning(f'{skipped} commands were skipped because their time was over')
        if not self._closing.is_set():
            self._log.info('motion finished')
        self._publisher.wait_for_all_acked(Duration(seconds=FAREWELL_SECONDS))
        if self._breach is None:
            self._stop.request()
            return
        at = f'Stopped the motion at {motion.times[step]:.1f} s'
        self._stop.request(RosError(f'{at}: {self._breach.reason}.'))

    def _brake(self, begin: float) -> None:
        """Go on along the motion ever more slowly, and hold where that ends.

        The commands stay on the motion's path, and so inside the ranges. What is no position
        (a torque) fades to the command that holds the home pose. Where a joint does not follow,
        its command goes to where it is instead: something may be in the way.
        """
        rate = self._config.rate
        steps = max(1, round(_BRAKE_SECONDS * rate))
        home = np.array([drive.home for drive in self._drives])
        # Where it is now: following a moving joint would keep it moving.
        here = dict(self._states.positions or {}) if self._states is not None else {}
        fades = np.array([not drive.takes_positions for drive in self._drives])
        start = self._clock.now()
        for step in range(1, steps + 1):
            speed = 1.0 - step / steps
            moment = begin + (1.0 - speed**2) * steps / rate / 2.0
            columns = self._motion.commands.T
            command = np.array(
                [np.interp(moment, self._motion.times, column) for column in columns]
            )
            command[fades] = home[fades] + speed * (command - home)[fades]
            if self._breach is not None and self._breach.gives_way:
                part = float(quintic(np.array(step / steps)))
                command = self._guard.nearer(command, here, part)
            self._send(command)
            moment = start + round(step / rate * SECOND_NS)
            while (moves := self._clock.wait(moment)) and self._clock.now() < moment:
                pass
            if not moves:
                break
        why = 'interrupted' if self._breach is None else self._breach.reason
        self._log.info(f'{why}; holding the last command')

    def _send(self, command: NDArray[np.float64]) -> None:
        self._sent.append((self._node.get_clock().now().nanoseconds, command))
        if self._config.message == 'Float64MultiArray':
            self._publisher.publish(Float64MultiArray(data=command.tolist()))
            return
        positions = [
            drive.position(value) for drive, value in zip(self._drives, command, strict=True)
        ]
        # To be reached at once: by default a controller starts each trajectory from where the robot
        # is, and would fall back there with each command that leaves it time.
        point = JointTrajectoryPoint(positions=positions)
        names = [drive.joint for drive in self._drives]
        self._publisher.publish(JointTrajectory(joint_names=names, points=[point]))

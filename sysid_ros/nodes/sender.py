# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the ``exciter`` node does: wait for the robot, then send a motion on schedule."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rclpy.clock import Clock, ClockType
from rclpy.duration import Duration
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from sysid_ros.config import ExciterConfig
from sysid_ros.errors import ConfigError, ModelError, RosError, nearest
from sysid_ros.excitation import approach, drives, follow, read_waypoints, sum_of_sines
from sysid_ros.excitation.drives import compile_file, holding_commands, home_position
from sysid_ros.excitation.guard import Breach, Guard
from sysid_ros.excitation.motion import quintic
from sysid_ros.nodes.parameters import declare
from sysid_ros.nodes.topics import resolve_topic

if TYPE_CHECKING:
    import mujoco
    from numpy.typing import NDArray
    from rclpy.node import Node

    from sysid_ros.excitation import Drive, Motion
    from sysid_ros.nodes.runtime import Stop

DEFAULT_TOPICS = {
    'Float64MultiArray': '/forward_position_controller/commands',
    'JointTrajectory': '/joint_trajectory_controller/joint_trajectory',
}

#: The graph is looked at this often before the motion, s.
_LOOK_SECONDS = 0.1
#: What is still missing is logged this often, s.
_REMIND_SECONDS = 3.0
#: The subscribers of the commands must not have changed for so long, s: those of one robot are
#: discovered one after the other, and a recorder should not miss the beginning.
_SETTLE_SECONDS = 0.5
#: Progress is logged this often, s.
_PROGRESS_SECONDS = 5.0
#: An interrupted motion slows down to a halt within so many seconds.
_BRAKE_SECONDS = 0.5
#: Commands are remembered for so long, s: a state may be late.
_KEPT_SECONDS = 1.0
#: A limit is broken when so many messages in a row say so: one may be a glitch.
_IN_A_ROW = 3
#: How long the last command may take to reach its subscribers, s.
_FAREWELL_SECONDS = 0.5
_NS = 10**9


class Sender:
    """Sends the commands of a motion, each at its time."""

    def __init__(self, node: Node, stop: Stop) -> None:
        """Declare parameters, plan the motion and begin to wait for the robot.

        Raises:
            SysidError: A parameter, the model or the motion is not valid.
        """
        self._node = node
        self._stop = stop
        self._log = node.get_logger()
        config = declare(node, ExciterConfig)
        self._config = config
        if not config.model:
            msg = "Expected an MJCF file in parameter 'model' (-p model:=FILE), found none."
            raise ConfigError(msg)
        self._model = compile_file(Path(config.model))
        self._drives = drives(self._model)
        self._motion = _plan(config, self._model)
        if config.message == 'JointTrajectory':
            _check_positions(self._drives)
        topic = resolve_topic(
            node, 'commands_topic', config.commands_topic or DEFAULT_TOPICS[config.message]
        )
        self._awaited = config.wait_for and resolve_topic(node, 'wait_for', config.wait_for)
        kind = Float64MultiArray if config.message == 'Float64MultiArray' else JointTrajectory
        self._publisher = node.create_publisher(kind, topic, 10)
        self._measured: Any = None
        self._states: Any = None
        self._reminded = -_REMIND_SECONDS
        self._listeners = 0
        self._listening_since = time.monotonic()
        self._guard = Guard(
            self._model,
            position_tolerance=config.position_tolerance,
            max_velocity=config.max_velocity,
            max_error=config.max_tracking_error,
        )
        kept = math.ceil(config.rate * _KEPT_SECONDS)
        self._sent: deque[tuple[int, NDArray[np.float64]]] = deque(maxlen=kept)
        self._transits: deque[tuple[int, int]] = deque()
        self._stamp = 0
        self._heard = time.monotonic()
        self._alarms = 0
        self._breach: Breach | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name='sender')
        # Not the node's clock: the schedule is the wall clock's, also with use_sim_time.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = node.create_timer(_LOOK_SECONDS, self._look, clock=steady)

    def close(self) -> None:
        """Bring the robot to a halt, if it moves."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()

    # Waiting

    def _look(self) -> None:
        """Start when the robot is there; else say what is missing."""
        missing = self._missing()
        now = time.monotonic()
        listeners = self._publisher.get_subscription_count()
        if listeners != self._listeners:
            self._listeners, self._listening_since = listeners, now
        if not missing and now - self._listening_since < _SETTLE_SECONDS:
            return
        if not missing:
            self._timer.cancel()
            self._motion = self._from_here()
            if self._states is None:
                self._log.warning(
                    "parameter 'wait_for' is empty: nothing watches the robot's limits"
                )
            self._thread.start()
        elif now - self._reminded >= _REMIND_SECONDS:
            self._reminded = now
            self._log.info(f'waiting for {" and ".join(missing)}')

    def _missing(self) -> list[str]:
        missing = []
        topic = self._awaited
        if topic and self._states is None and not self._subscribe(topic):
            missing.append(f'a publisher of {topic}')
        elif topic and self._measured is None:
            missing.append(f'a message on {topic}')
        if not self._publisher.get_subscription_count():
            missing.append(f'a subscriber of {self._publisher.topic_name}')
        return missing

    def _subscribe(self, topic: str) -> bool:
        types = {info.topic_type for info in self._node.get_publishers_info_by_topic(topic)}
        if not types:
            return False
        if 'sensor_msgs/msg/JointState' not in types:
            msg = (
                f'Expected sensor_msgs/msg/JointState on topic {topic!r} of parameter '
                f"'wait_for', found {min(types)}."
            )
            raise RosError(msg)
        best_effort = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        self._states = self._node.create_subscription(
            JointState, topic, self._on_state, best_effort
        )
        return True

    def _on_state(self, message: Any) -> None:
        stamp = message.header.stamp.sec * _NS + message.header.stamp.nanosec
        # A driver that repeats its last state is as silent as one that sends none.
        if stamp != self._stamp or not stamp:
            self._heard = time.monotonic()
        self._stamp = stamp
        self._measured = dict(zip(message.name, message.position, strict=False))
        commanded = self._in_force(stamp)
        if commanded is None or self._breach is not None:
            return
        breach = self._guard.check(
            self._measured,
            dict(zip(message.name, message.velocity, strict=False)),
            dict(zip(message.name, message.effort, strict=False)),
            commanded,
        )
        self._alarms = self._alarms + 1 if breach else 0
        if self._alarms >= _IN_A_ROW:
            self._breach = breach
            self._closing.set()

    def _in_force(self, stamp: int) -> NDArray[np.float64] | None:
        """Return the command of the moment that a state is stamped with, None before the first.

        A state that was held up on its way says nothing about the commands sent meanwhile. The
        robot's clock may differ from the node's: the fastest states of the last second tell by how
        much. A state without a stamp is as old as it seems.
        """
        moment = now = self._node.get_clock().now().nanoseconds
        if stamp:
            self._transits.append((now, now - stamp))
            while self._transits[0][0] < now - _KEPT_SECONDS * _NS:
                self._transits.popleft()
            moment = stamp + min(transit for _, transit in self._transits)
        sent = list(self._sent)
        oldest = sent[0][1] if len(sent) == self._sent.maxlen else None
        return next((command for at, command in reversed(sent) if at <= moment), oldest)

    def _is_silent(self) -> bool:
        """Whether new joint states have stopped coming."""
        limit = self._config.state_timeout
        return bool(self._states and limit and time.monotonic() - self._heard > limit)

    def _from_here(self) -> Motion:
        """Return the motion with a move from the measured pose in front."""
        if self._measured is None:
            return self._motion
        pose = home_position(self._model)
        for drive in self._drives:
            if not drive.takes_positions or not drive.joint:
                continue
            if drive.joint not in self._measured:
                hint = nearest(drive.joint, self._measured)
                msg = (
                    f'Expected the position of joint {drive.joint!r} on topic '
                    f'{self._awaited!r}, found none; {hint}.'
                )
                raise RosError(msg)
            address = self._model.jnt_qposadr[self._model.joint(drive.joint).id]
            pose[address] = self._measured[drive.joint]
        return approach(self._motion, holding_commands(self._model, pose), rate=self._config.rate)

    # Moving

    def _run(self) -> None:
        try:
            self._move()
        except BaseException as err:  # noqa: BLE001 (raised again in the main thread)
            self._stop.request(err)

    def _move(self) -> None:
        """Send each command at its time from the start; skip those whose time is over."""
        motion, rate = self._motion, self._config.rate
        self._log.info(
            f'motion started: {motion.duration:.1f} s at {rate:g} Hz on '
            f'{self._publisher.topic_name}'
        )
        start = time.monotonic()
        last = len(motion.times) - 1
        step, skipped, reported = 0, 0, 0.0
        while True:
            self._send(motion.commands[step])
            if step == last:
                break
            due = int((time.monotonic() - start) * rate)
            following = min(max(step + 1, due), last)
            skipped += following - step - 1
            step = following
            if motion.times[step] - reported >= _PROGRESS_SECONDS:
                reported = float(motion.times[step])
                self._log.info(f'{reported:.0f} of {motion.duration:.0f} s')
            if self._is_silent():
                silence = f'{self._config.state_timeout:g} s without a new state on {self._awaited}'
                self._breach = Breach(silence)
                self._closing.set()
            if self._closing.wait(max(0.0, start + step / rate - time.monotonic())):
                self._brake(float(motion.times[step]))
                break
        if skipped:
            self._log.warning(f'{skipped} commands were skipped because their time was over')
        if not self._closing.is_set():
            self._log.info('motion finished')
        self._publisher.wait_for_all_acked(Duration(seconds=_FAREWELL_SECONDS))
        if self._breach is None:
            self._stop.request()
            return
        msg = f'Stopped the motion at {motion.times[step]:.1f} s: {self._breach.reason}.'
        self._stop.request(RosError(msg))

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
        here = dict(self._measured or {})
        fades = np.array([not drive.takes_positions for drive in self._drives])
        start = time.monotonic()
        for step in range(1, steps + 1):
            speed = 1.0 - step / steps
            moment = begin + (1.0 - speed**2) * steps / rate / 2.0
            command = _at(self._motion, moment)
            command[fades] = home[fades] + speed * (command - home)[fades]
            if self._breach is not None and self._breach.gives_way:
                part = float(quintic(np.array(step / steps)))
                command = self._guard.nearer(command, here, part)
            self._send(command)
            time.sleep(max(0.0, start + step / rate - time.monotonic()))
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
        point = JointTrajectoryPoint(positions=positions)
        # A trajectory controller gets there when the next command comes.
        point.time_from_start.nanosec = min(round(_NS / self._config.rate), _NS - 1)
        names = [drive.joint for drive in self._drives]
        self._publisher.publish(JointTrajectory(joint_names=names, points=[point]))


def _plan(config: ExciterConfig, model: mujoco.MjModel) -> Motion:
    if config.motion:
        return follow(model, read_waypoints(Path(config.motion)), rate=config.rate)
    return sum_of_sines(
        model,
        duration=config.duration,
        ramp=config.ramp,
        amplitude=config.amplitude,
        max_frequency=config.max_frequency,
        seed=config.seed,
        rate=config.rate,
    )


def _check_positions(chosen: tuple[Drive, ...]) -> None:
    for drive in chosen:
        if not drive.joint or not drive.takes_positions:
            msg = (
                'Expected position servos on joints for JointTrajectory commands, found actuator '
                f'{drive.actuator!r}, which is none.'
            )
            raise ModelError(msg)


def _at(motion: Motion, moment: float) -> NDArray[np.float64]:
    """Return the (nu,) commands of a motion at any time, linear between its samples."""
    return np.array([np.interp(moment, motion.times, column) for column in motion.commands.T])

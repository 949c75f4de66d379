# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the ``pendulum_bench`` node does: play all runs, ask for changes, then make logs and fit."""

from __future__ import annotations

import queue
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rclpy.duration import Duration
from rclpy.parameter import Parameter
from rclpy.parameter_client import AsyncParameterClient
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import Bool, Float64, Float64MultiArray, String
from std_srvs.srv import SetBool, Trigger

from sysid_ros.config import PendulumBenchConfig
from sysid_ros.errors import ConfigError, RosError, nearest
from sysid_ros.excitation.motion import quintic, quintic_duration, sample_times
from sysid_ros.nodes.ros.motion import JointStates, ReadinessCheck, Schedule
from sysid_ros.nodes.ros.parameters import declare, resolve_topic
from sysid_ros.servos.bench.motions import LOAD, instruction, plan_runs
from sysid_ros.servos.laws.servo import Servo
from sysid_ros.servos.session.recording import (
    SessionTopics,
    beside,
    convert_session,
    describe_session,
    fit_session,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from numpy.typing import NDArray
    from rclpy.node import Node

    from sysid_ros.nodes.ros.runtime import Stop
    from sysid_ros.servos.bench.motions import BenchMotion, BenchRun

    Array = NDArray[np.float64]

#: A limit is broken when so many messages in a row say so: one may be a glitch.
_IN_A_ROW = 3
#: How long the last messages may take to reach their subscribers, s.
_FAREWELL_SECONDS = 0.5


#: Longest wait for the answer of another node, s.
_ANSWER_SECONDS = 10.0
#: How long the services of a node may take to be discovered after its topics, s.
_DISCOVERY_SECONDS = 2.0


class _HaltError(Exception):
    """The session ends early."""


class BenchSession:
    """A session on the bench: every motion with every gain and load."""

    def __init__(self, node: Node, stop: Stop) -> None:
        """Declare parameters, plan the runs and start to wait for the servo.

        Raises:
            SysidError: A parameter is not valid.
        """
        self._node = node
        self._stop = stop
        self._log = node.get_logger()
        config = declare(node, PendulumBenchConfig)
        self._config = config
        self._runs = _planned(config)
        settings = self._runs[0].settings
        self._link = ServoLink(node, config, tuple(settings), self._halt)
        topic = resolve_topic(node, 'joint_states_topic', config.joint_states_topic)
        self._states = JointStates(node, 'joint_states_topic', topic, self._watch)
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._run_topic = node.create_publisher(String, '~/run', latched)
        self._topics = SessionTopics(
            states=topic,
            joint=config.joint,
            command=self._link.commands.topic_name,
            torque='' if self._link.torque is None else self._link.torque.topic_name,
            run=self._run_topic.topic_name,
            settings={name: item.topic_name for name, item in self._link.settings.items()},
        )
        self._stopper: Any = None
        if config.recorder:
            self._stopper = node.create_client(Trigger, f'{config.recorder}/stop')
        node.create_service(Trigger, '~/continue', self._on_continue)
        self._answers: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._asking = False
        self._moving = False
        self._alarms = 0
        self._breach = ''
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name='session')
        self._readiness = ReadinessCheck(
            node, self._link.commands, self._missing, self._thread.start
        )

    def close(self) -> None:
        """Let the pendulum down, if it moves."""
        self._halt('')
        if self._thread.ident is not None:
            self._thread.join()

    # What it hears

    def _missing(self) -> list[str]:
        listeners = 1 if self._config.recorder else 0
        recorded = self._run_topic.get_subscription_count() >= listeners
        missing = [self._states.missing(), *self._link.missing(listeners)]
        missing += [] if recorded else [f'a recorder of {", ".join(self._topics.all)}']
        return list(filter(None, missing))

    def _watch(self, _: int, message: Any) -> None:
        positions = dict(zip(message.name, message.position, strict=False))
        angle = abs(positions.get(self._config.joint, 0.0))
        beyond = self._moving and angle > self._config.max_angle
        self._alarms = self._alarms + 1 if beyond else 0
        if self._alarms >= _IN_A_ROW:
            self._halt(f'the pendulum is at {angle:.3g} rad, over {self._config.max_angle:g}')

    def _on_continue(self, _: Any, response: Any) -> Any:
        response.success, self._asking = self._asking, False
        response.message = 'Going on.' if response.success else 'Nothing was asked for.'
        if response.success:
            self._answers.put(None)
        return response

    def _halt(self, reason: str) -> None:
        self._breach = self._breach or reason
        self._closing.set()
        self._answers.put(None)

    # The session

    def _run(self) -> None:
        try:
            self._play_all()
            self._evaluate()
        except _HaltError:
            msg = f'Stopped: {self._breach}.'
            self._stop.request(RosError(msg) if self._breach else None)
        except BaseException as err:  # noqa: BLE001 (raised again in the main thread)
            # After Ctrl-C the fit is cancelled, which is no error.
            self._stop.request(None if self._closing.is_set() else err)
        else:
            self._stop.request()

    def _play_all(self) -> None:
        config = self._config
        if config.recorder:
            # Now: runs can be used that come before an interruption.
            settings = self._runs[0].settings
            bag = Path(config.output)
            path = describe_session(bag, config.motor, self._topics, settings, config.dt)
            self._log.info(f'{path} says what is in {bag}')
        own = self._link.own(config.servo or self._states.publisher())
        before: dict[str, float] = {}
        try:
            for number, run in enumerate(self._runs, 1):
                if run.settings != before:
                    self._change(run, before, own)
                    before = dict(run.settings)
                self._go_to_start(run.motion)
                what = ', '.join(f'{name} {value:g}' for name, value in before.items())
                self._log.info(f'run {number} of {len(self._runs)}: {run.motion.name}, {what}')
                self._play(run.motion)
        finally:
            self._let_down()

    def _change(self, run: BenchRun, before: dict[str, float], own: frozenset[str]) -> None:
        """Have the load and the gains changed, by the servo's node or by a person."""
        if any(run.settings[name] != before.get(name) for name in LOAD):
            self._let_down()
        request = instruction(run.settings, before, own)
        if request and self._config.prompt:
            self._asking = True
            service = self._node.resolve_service_name('~/continue')
            self._log.info(f'{request}; then call {service}')
            self._answers.get()
        elif request:
            self._log.info(request)
        if self._closing.is_set():
            raise _HaltError
        self._link.apply(run.settings, own)

    def _go_to_start(self, motion: BenchMotion) -> None:
        """Move slowly to where a motion starts, and stay there for a while."""
        start = self._link.goal if self._link.on else self._measured()
        way = self._way(start, float(motion.goal(0.0)))
        pause = np.full(round(self._config.settle * self._config.rate), way[-1])
        goals = np.concatenate([way, pause])
        self._follow(goals, np.full(len(goals), bool(motion.enabled(0.0))))

    def _play(self, motion: BenchMotion) -> None:
        times = sample_times(motion.duration, self._config.rate)
        self._run_topic.publish(String(data=motion.name))
        try:
            self._follow(motion.goal(times), motion.enabled(times))
        finally:
            self._run_topic.publish(String(data=''))

    def _follow(self, goals: Array, enabled: NDArray[np.bool_]) -> None:
        schedule = Schedule(self._config.rate, len(goals) - 1, self._closing)
        self._moving = True
        for step in schedule:
            self._link.send(float(goals[step]), bool(enabled[step]))
            if self._states.is_silent(self._config.state_timeout):
                limit = self._config.state_timeout
                self._halt(f'{limit:g} s without a new state on {self._states.topic}')
        self._moving = False
        if schedule.skipped:
            text = f'{schedule.skipped} commands were skipped because their time was over'
            self._log.warning(text)
        if self._closing.is_set():
            raise _HaltError

    def _let_down(self) -> None:
        """Lower the pendulum and switch the motor off, also when the session was interrupted."""
        if not self._link.on:
            return
        way = self._way(self._link.goal, 0.0)
        for step in Schedule(self._config.rate, len(way) - 1, threading.Event()):
            self._link.send(float(way[step]), on=True)
        if self._link.torque is not None:
            self._link.send(0.0, on=False)
        self._link.commands.wait_for_all_acked(Duration(seconds=_FAREWELL_SECONDS))

    def _way(self, start: float, end: float) -> Array:
        """Return goals from one to another, from rest to rest."""
        rate = self._config.rate
        steps = int(np.ceil(quintic_duration(abs(end - start), self._config.speed) * rate))
        return start + (end - start) * quintic(np.arange(steps + 1) / max(steps, 1))

    def _measured(self) -> float:
        positions = self._states.positions or {}
        if self._config.joint not in positions:
            hint = nearest(self._config.joint, positions)
            msg = (
                f'Expected the position of joint {self._config.joint!r} on topic '
                f'{self._states.topic!r}, found none; {hint}.'
            )
            raise RosError(msg)
        return float(positions[self._config.joint])

    # Afterwards

    def _evaluate(self) -> None:
        """Have the bag closed, make logs of it, and fit."""
        if self._stopper is None:
            self._log.info('all runs are done')
            return
        answer = _wait(self._stopper.call_async(Trigger.Request()), self._config.recorder)
        if not answer.success:
            raise RosError(answer.message)
        bag = Path(self._config.output)
        logs = convert_session(bag)
        self._log.info(f'wrote {len(logs)} logs into {beside(bag, "logs")}')
        if not self._config.model:
            return
        self._log.info(f'fitting {self._config.model} to the logs')
        done = fit_session(bag, self._config.motor, self._config.model, cancel=self._closing)
        error = 1e3 * float(np.mean(list(done.errors.values())))
        made = done.parameters_path or f'nothing, the result was rejected: see {done.report_path}'
        self._log.info(f'mean absolute error {error:.3f} mrad; wrote {made}')


def _planned(config: PendulumBenchConfig) -> tuple[BenchRun, ...]:
    runs = plan_runs(
        config.motor,
        masses=config.masses,
        lengths=config.lengths,
        arm_masses=config.arm_masses,
        kps=config.kps,
        trajectories=config.trajectories,
        vin=config.vin,
    )
    if config.model:
        Servo.named(config.motor, config.model)
    if config.recorder and not config.output:
        msg = "Expected the recorder's bag in parameter 'output' (-p output:=DIR), found none."
        raise ConfigError(msg)
    switching = [run.motion.name for run in runs if run.motion.switches]
    if switching and not config.torque_topic:
        msg = (
            f"Expected a topic in parameter 'torque_topic' for {switching[0]!r}, which switches "
            'the motor off, found none; leave that motion out, or say which topic switches it.'
        )
        raise ConfigError(msg)
    return runs


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
        future.add_done_callback(partial(self._switched, on))

    def own(self, name: str) -> frozenset[str]:
        """Return the settings that a node has as parameters.

        Raises:
            RosError: It does not answer.
        """
        self._parameters = AsyncParameterClient(self._node, name)
        if not self._parameters.wait_for_services(_DISCOVERY_SECONDS):
            return frozenset()
        there = _wait(self._parameters.list_parameters(), name).result.names
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
            answer = _wait(self._parameters.set_parameters(given), 'the servo')
            for parameter, result in zip(given, answer.results, strict=True):
                if not result.successful:
                    msg = f'The servo refused {parameter.name} {parameter.value:g}: {result.reason}'
                    raise RosError(msg)
        for name, value in settings.items():
            self.settings[name].publish(Float64(data=float(value)))

    def _switched(self, on: bool, done: Any) -> None:
        answer = done.result()
        if answer is not None and answer.success:
            self._announce(on)
            return
        why = '' if answer is None else f': {answer.message}'
        self._on_failure(f'{self._switch.srv_name} did not switch the motor{why}')

    def _announce(self, on: bool) -> None:
        if self.torque is not None:
            self.torque.publish(Bool(data=on))


def _wait(future: Any, who: str) -> Any:
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

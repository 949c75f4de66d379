# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The exciter waits for the robot, starts where it is, keeps its schedule and ends cleanly."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from rclpy.node import Node
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from builders.ros_graph import RosClient, StartNode
from sysid_ros.nodes.exciter import JointStates, MotionClock, steps_on_time

ARM = Path(__file__).resolve().parents[2] / 'config' / 'demo' / 'arm.xml'
EXCITER = 'exciter'
ROBOT = 'simulated_robot'
ARRAYS = '/forward_position_controller/commands'
TRAJECTORIES = '/joint_trajectory_controller/joint_trajectory'
#: Pose of the arm in its key frame, rad.
HOME = {
    'shoulder_pan': 0.0,
    'shoulder_lift': -1.1,
    'elbow': 1.4,
    'wrist_1': -0.4,
    'wrist_2': 0.0,
    'wrist_3': 0.0,
}
#: Two balls of 5 cm radius on one rail, .5 m apart.
RAIL = """
<mujoco>
  <worldbody>
    <body><joint name="left" type="slide" axis="1 0 0" range="-1 1" damping="20"/>
      <geom size=".05" mass="1"/></body>
    <body pos=".5 0 0"><geom size=".05"/></body>
  </worldbody>
  <actuator><position name="left" joint="left" kp="100" ctrlrange="-1 1"/></actuator>
</mujoco>
"""

pytestmark = pytest.mark.ros

#: Of a robot whose time waits for commands, and of those who go by it.
WAITING: dict[str, object] = {'command_rate': 100.0}
SIMULATED: dict[str, object] = {'use_sim_time': True}


def _collect(client: RosClient, kind: Any, topic: str) -> list[Any]:
    """Return a list that grows while the client spins."""
    messages: list[Any] = []
    client.node.create_subscription(kind, topic, messages.append, 1000)
    return messages


def _stamp_ns(message: Any) -> int:
    return int(message.header.stamp.sec) * 10**9 + int(message.header.stamp.nanosec)


def test_in_simulated_time_each_command_comes_at_its_instant_and_none_is_skipped(
    start_node: StartNode, ros_client: RosClient
):
    states = _collect(ros_client, JointState, '/joint_states')
    applied = _collect(ros_client, JointState, '/simulated_robot/applied_commands')
    robot = start_node(ROBOT, model=ARM, rate=100.0, **WAITING)
    ros_client.spin_until(lambda: bool(states))
    exciter = start_node(EXCITER, model=ARM, duration=2.0, ramp=0.3, **SIMULATED)
    assert ros_client.wait(exciter) == 0, exciter.output
    assert 'motion finished' in exciter.output
    assert 'skipped' not in exciter.output
    # Of what the robot says again while it waits, one each.
    found = {_stamp_ns(message): message for message in states}
    begin = min(found)
    assert sorted(found) == list(range(begin, max(found) + 1, 10_000_000))
    # The first command comes when the first period is over, and the last is held for a period.
    since = [_stamp_ns(message) for message in applied]
    assert since == list(range(begin + 10_000_000, max(found) + 1, 10_000_000))
    assert 200 < len(since) < 250
    assert np.all(np.ptp([message.position for message in states], axis=0) > 0.3)
    sent = np.array([message.position for message in applied])
    np.testing.assert_allclose(sent[0], found[begin].position, atol=0.02)
    assert np.max(np.abs(np.diff(sent, axis=0))) < 0.1
    assert robot.stop() == 0


def test_it_says_what_it_waits_for_and_ends_on_ctrl_c(start_node: StartNode):
    exciter = start_node(EXCITER, model=ARM)
    exciter.wait_for_line(f'waiting for a publisher of /joint_states and a subscriber of {ARRAYS}')
    assert exciter.stop() == 0


def test_an_interrupted_motion_slows_down_and_holds(start_node: StartNode, ros_client: RosClient):
    commands = _collect(ros_client, JointTrajectory, TRAJECTORIES)
    start_node(ROBOT, model=ARM, **WAITING).wait_for_line('simulated robot ready')
    exciter = start_node(
        EXCITER,
        model=ARM,
        message='JointTrajectory',
        duration=60.0,
        ramp=0.2,
        **SIMULATED,
    )
    while len(commands) < 120:
        ros_client.message(JointTrajectory, TRAJECTORIES, latched=False)
    exciter.process.send_signal(signal.SIGINT)
    assert ros_client.wait(exciter) == 0
    assert 'holding the last command' in exciter.output
    assert commands[0].joint_names[:2] == ['shoulder_pan', 'shoulder_lift']
    # Each acts when it arrives, as an array of commands does.
    spans = [message.points[0].time_from_start for message in commands]
    assert not any(span.sec or span.nanosec for span in spans)
    sent = np.array([message.points[0].positions for message in commands])
    speed = np.max(np.abs(np.diff(sent, axis=0)), axis=1) * 100
    assert np.max(speed[:-50]) > 0.3
    assert speed[-1] < 0.05 * np.max(speed)


def test_a_motion_into_a_collision_is_refused_before_it_asks_for_a_robot(
    start_node: StartNode, tmp_path: Path
):
    model, motion = tmp_path / 'rail.xml', tmp_path / 'motion.csv'
    model.write_text(RAIL)
    motion.write_text('time,left\n0,0\n2,0.45\n4,0\n')
    exciter = start_node(EXCITER, model=model, motion=motion)
    assert exciter.wait() == 2
    (line,) = exciter.output.splitlines()
    assert line.startswith(
        f'exciter: Expected a motion inside the limits of {str(model)!r}, found '
    )
    assert 'bodies come as near as' in line


def test_a_robot_is_not_moved_through_a_body_to_where_the_motion_begins(
    start_node: StartNode, ros_client: RosClient, tmp_path: Path
):
    (tmp_path / 'rail.xml').write_text(RAIL)
    commands = _collect(ros_client, Float64MultiArray, ARRAYS)
    states = ros_client.node.create_publisher(JointState, '/joint_states', 10)
    state = JointState(name=['left'], position=[0.8])
    ros_client.node.create_timer(0.02, lambda: states.publish(state))
    exciter = start_node(EXCITER, model=tmp_path / 'rail.xml', amplitude=0.1)
    assert ros_client.wait(exciter) == 2
    assert 'exciter: Expected a free way from where the robot is to where ' in exciter.output
    assert commands == []


class _HeldUp:
    """A robot that is where its commands say, and whose states are held up on their way at times.

    It owns the clock: a command lets 10 ms go by. What is held up is late by so much that it is far
    from the commands sent meanwhile, and less than the second for which the exciter remembers them.

    Attributes:
        late: States that were sent late.
    """

    #: Of each round of commands so many are answered at once; then those of so many before come.
    ROUND, IN_TIME, LATE = 170, 80, 60

    def __init__(self, client: RosClient) -> None:
        self._states = client.node.create_publisher(JointState, '/joint_states', 100)
        self._clock = client.node.create_publisher(Clock, '/clock', 100)
        self._poses = [list(HOME.values())]
        self.late = 0
        client.node.create_subscription(Float64MultiArray, ARRAYS, self._follow, 1000)
        client.node.create_timer(0.05, self._rest)

    def _rest(self) -> None:
        """Tell the time, which may be lost, and stay at home until the first command."""
        if len(self._poses) == 1:
            self._send(0)
        self._clock.publish(Clock(clock=self._at(len(self._poses))))

    @staticmethod
    def _at(instant: int) -> Time:
        seconds, hundredths = divmod(instant, 100)
        return Time(sec=1 + seconds, nanosec=hundredths * 10_000_000)

    def _send(self, instant: int) -> None:
        state = JointState(name=list(HOME), position=self._poses[instant])
        state.header.stamp = self._at(instant)
        self._states.publish(state)

    def _follow(self, message: Any) -> None:
        self._poses.append(list(message.data))
        instant = len(self._poses) - 1
        place = instant % self.ROUND
        if place < self.IN_TIME:
            self._send(instant)
        elif self.IN_TIME + self.LATE <= place < self.ROUND:
            self._send(instant - self.LATE)
            self.late += 1
        self._clock.publish(Clock(clock=self._at(len(self._poses))))


def test_states_that_come_late_are_compared_with_the_commands_of_their_time(
    start_node: StartNode, ros_client: RosClient
):
    robot = _HeldUp(ros_client)
    tight = {'max_tracking_error': 0.2, 'state_timeout': 10.0}
    exciter = start_node(EXCITER, model=ARM, duration=60.0, ramp=0.5, **SIMULATED, **tight)
    ros_client.spin_until(lambda: robot.late >= 60 or exciter.process.poll() is not None)
    exciter.process.send_signal(signal.SIGINT)
    assert ros_client.wait(exciter) == 0, exciter.output
    assert 'interrupted; holding the last command' in exciter.output


@pytest.mark.parametrize(
    ('values', 'robot', 'reason'),
    [
        # On the model it is slower, or it would not begin.
        ({'max_velocity': 8.0}, {'velocity_noise': 3.5}, ', faster than 8'),
        ({'max_tracking_error': 0.01}, {}, ' from its command, over 0.01'),
    ],
)
def test_a_broken_limit_ends_the_motion_smoothly_with_the_reason_and_code_2(
    start_node: StartNode,
    ros_client: RosClient,
    values: dict[str, object],
    robot: dict[str, object],
    reason: str,
):
    commands = _collect(ros_client, Float64MultiArray, ARRAYS)
    # The robot comes last: a short motion is over before a subscriber that comes late has met it.
    exciter = start_node(EXCITER, model=ARM, duration=60.0, ramp=1.0, **SIMULATED, **values)
    ros_client.spin_until(lambda: ros_client.node.count_publishers(ARRAYS) > 0)
    exciter.wait_for_line('waiting for a publisher of /joint_states')
    start_node(ROBOT, model=ARM, **WAITING, **robot)
    assert ros_client.wait(exciter) == 2
    assert 'exciter: Stopped the motion at ' in exciter.output
    assert reason in exciter.output
    speed = np.max(np.abs(np.diff([message.data for message in commands], axis=0)), axis=1) * 100
    assert np.max(speed[-3:]) < 0.1 * np.max(speed)


def test_a_driver_that_repeats_its_last_state_is_silent(
    start_node: StartNode, ros_client: RosClient
):
    frozen = JointState(name=list(HOME), position=list(HOME.values()))
    frozen.header.stamp = ros_client.node.get_clock().now().to_msg()
    publisher = ros_client.node.create_publisher(JointState, '/joint_states', 10)
    ros_client.node.create_timer(0.01, lambda: publisher.publish(frozen))
    exciter = start_node(
        EXCITER, model=ARM, duration=60.0, state_timeout=1.0, max_tracking_error=0.0
    )
    # Somebody has to listen to the commands.
    _collect(ros_client, Float64MultiArray, ARRAYS)
    assert ros_client.wait(exciter) == 2
    assert 'motion started' in exciter.output
    assert '1 s without a new state on /joint_states' in exciter.output


def test_while_time_stands_still_the_command_is_sent_again_and_ctrl_c_ends_it(
    start_node: StartNode, ros_client: RosClient
):
    commands = _collect(ros_client, Float64MultiArray, ARRAYS)
    resting = JointState(name=list(HOME), position=list(HOME.values()))
    resting.header.stamp = now = Time(sec=7)
    states = ros_client.node.create_publisher(JointState, '/joint_states', 10)
    clock = ros_client.node.create_publisher(Clock, '/clock', 10)
    ros_client.node.create_timer(0.05, lambda: states.publish(resting))
    exciter = start_node(EXCITER, model=ARM, duration=60.0, **SIMULATED)
    ros_client.spin_until(lambda: 'waiting for the time on /clock' in exciter.output)
    ros_client.node.create_timer(0.05, lambda: clock.publish(Clock(clock=now)))
    ros_client.spin_until(lambda: len(commands) > 1)
    assert commands[0] == commands[1]
    assert 'time stands still; sending the command of 0.00 s again' in exciter.output
    assert exciter.stop() == 0
    assert 'interrupted; holding the last command' in exciter.output


def test_states_are_silent_once_they_have_not_come_in_a_motion():
    clock = _Ticks(10**9)
    node = cast('Node', SimpleNamespace(create_subscription=lambda *_: None))
    states = JointStates(node, '/joint_states', cast('MotionClock', clock), lambda *_: None)
    states._receive(JointState())
    assert not states.is_silent(since=500, limit=0.9)
    clock.wait(0)
    assert states.is_silent(since=500, limit=0.9)
    assert not states.is_silent(since=500, limit=0.0)
    assert not states.is_silent(since=clock.now(), limit=0.9)


class _Ticks:
    """A clock that moves on when it is waited for, by so much each time, ns."""

    def __init__(self, *moves: int) -> None:
        self._moves: Iterator[int] = iter(moves)
        self._now = 500

    def now(self) -> int:
        return self._now

    def wait(self, _: int) -> bool:
        moved = next(self._moves)
        self._now += moved
        return moved > 0


def _steps(*moves: int, closing: threading.Event | None = None) -> Iterator[int]:
    clock = cast('MotionClock', _Ticks(*moves))
    return steps_on_time(clock, 1e8, 5, closing or threading.Event())


def test_a_schedule_skips_what_is_over_but_not_the_last_step():
    assert list(_steps(4, 6, 10, 10, 10, 10, 10)) == [0, 1, 2, 3, 4, 5]
    assert list(_steps(31, 9, 70)) == [0, 1, 3, 4, 5]
    assert list(_steps(10_000)) == [0, 1, 5]


def test_a_schedule_yields_a_step_again_while_time_stands_still_and_ends_when_it_is_told_to():
    assert list(_steps(10, 0, 0, 10, 10, 10, 10, 10)) == [0, 1, 1, 1, 2, 3, 4, 5]
    closing = threading.Event()
    steps = []
    for step in _steps(10, 0, 0, closing=closing):
        steps.append(step)
        if step:
            closing.set()
    assert steps == [0, 1]

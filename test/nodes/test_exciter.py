# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The exciter waits for the robot, starts where it is, keeps its schedule and ends cleanly."""

from __future__ import annotations

import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from builders.ros_graph import RosClient, StartNode
from sysid_ros.nodes.exciter import steps_on_time

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

#: Limits that a stalled machine breaks, as it should, are claims of other tests.
FREE = {'max_velocity': 0.0, 'max_tracking_error': 0.0, 'state_timeout': 0.0}


def _collect(client: RosClient, kind: Any, topic: str) -> list[Any]:
    """Return a list that grows while the client spins."""
    messages: list[Any] = []
    client.node.create_subscription(kind, topic, messages.append, 1000)
    return messages


def test_robot_and_exciter_move_at_their_rates(start_node: StartNode, ros_client: RosClient):
    commands: list[Any] = []
    numbers: list[int] = []

    def command(message: Any, info: dict[str, int]) -> None:
        commands.append(message)
        numbers.append(info['publication_sequence_number'])

    ros_client.node.create_subscription(Float64MultiArray, ARRAYS, command, 1000)
    robot = start_node(ROBOT, model=ARM, rate=100.0)
    states = _collect(ros_client, JointState, '/joint_states')
    ros_client.spin_until(lambda: bool(states))
    exciter = start_node(EXCITER, model=ARM, duration=2.0, ramp=0.3, **FREE)
    assert ros_client.wait(exciter) == 0, exciter.output
    assert 'motion finished' in exciter.output
    # On a busy machine messages are late or lost, the first ones too; stamps stay on their grid.
    stamps = [m.header.stamp.sec * 10**9 + m.header.stamp.nanosec for m in states]
    periods = np.diff(stamps) / 1e7
    np.testing.assert_allclose(periods, np.maximum(1, np.round(periods)), rtol=0, atol=1e-6)
    moved = np.ptp([message.position for message in states], axis=0)
    assert np.all(moved > 0.3)
    sent = np.array([message.data for message in commands])
    if numbers[0] == 1:
        np.testing.assert_allclose(sent[0], states[0].position, atol=0.02)
    skipped = re.search(r'(\d+) commands were skipped', exciter.output)
    if skipped is None:
        assert np.max(np.abs(np.diff(sent, axis=0)) / np.diff(numbers)[:, None]) < 0.1
    assert 200 < numbers[-1] + (int(skipped[1]) if skipped else 0) < 250
    assert robot.stop() == 0


@pytest.mark.patient
def test_it_says_what_it_waits_for_and_ends_on_ctrl_c(start_node: StartNode):
    exciter = start_node(EXCITER, model=ARM)
    exciter.wait_for_line(f'waiting for a publisher of /joint_states and a subscriber of {ARRAYS}')
    assert exciter.stop() == 0


@pytest.mark.patient
def test_an_interrupted_motion_slows_down_and_holds(start_node: StartNode, ros_client: RosClient):
    commands = _collect(ros_client, JointTrajectory, TRAJECTORIES)
    start_node(ROBOT, model=ARM).wait_for_line('simulated robot ready')
    exciter = start_node(
        EXCITER,
        model=ARM,
        message='JointTrajectory',
        duration=60.0,
        ramp=0.2,
        **FREE,
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


@pytest.mark.patient
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


@pytest.mark.patient
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

    Each state has the stamp of the command that it follows, as the middleware took it: how fast
    this process runs changes no state. States are held up for long enough to be far from the
    commands sent meanwhile, and shorter than the second for which the exciter remembers commands;
    what a busy machine holds up for longer is dropped.

    Attributes:
        late: States that were sent late, in each hold-up that counts.
    """

    SHORTEST, LONGEST = 0.5, 0.8

    def __init__(self, client: RosClient) -> None:
        self._clock = client.node.get_clock()
        self._states = client.node.create_publisher(JointState, '/joint_states', 100)
        self._state = JointState(name=list(HOME), position=list(HOME.values()))
        self._held: list[tuple[int, list[float]]] = []
        self._in_time = 0
        self.late: list[int] = []
        client.node.create_subscription(Float64MultiArray, ARRAYS, self._follow, 1000)
        client.node.create_timer(0.01, self._rest)

    def _rest(self) -> None:
        """Stay at home until the first command."""
        if not self._held and not self._in_time:
            self._send(self._clock.now().nanoseconds, list(HOME.values()))

    def _send(self, stamp: int, positions: list[float]) -> None:
        self._state.header.stamp.sec, self._state.header.stamp.nanosec = divmod(stamp, 10**9)
        self._state.position = positions
        self._states.publish(self._state)

    def _follow(self, message: Any, info: dict[str, int]) -> None:
        stamp = info['source_timestamp']
        if self._in_time < 80:
            self._in_time += 1
            self._send(stamp, list(message.data))
            return
        self._held.append((stamp, list(message.data)))
        age = 1e-9 * (self._clock.now().nanoseconds - self._held[0][0])
        if age < self.SHORTEST:
            return
        # The last states first in number: those that are late by less say less.
        if age < self.LONGEST:
            for held in self._held[: len(self._held) // 2]:
                self._send(*held)
                time.sleep(0.001)
            self.late.append(len(self._held) // 2)
        self._held.clear()
        self._in_time = 1


def test_states_that_come_late_are_compared_with_the_commands_of_their_time(
    start_node: StartNode, ros_client: RosClient
):
    robot = _HeldUp(ros_client)
    tight = {'max_tracking_error': 0.2, 'state_timeout': 10.0}
    exciter = start_node(EXCITER, model=ARM, duration=60.0, ramp=0.5, **tight)
    ros_client.spin_until(lambda: sum(robot.late) >= 40 or exciter.process.poll() is not None)
    assert exciter.stop() == 0, exciter.output
    assert 'interrupted; holding the last command' in exciter.output


@pytest.mark.patient
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
    values = {'duration': 60.0, 'ramp': 1.0, 'state_timeout': 30.0, **values}
    exciter = start_node(EXCITER, model=ARM, **values)
    ros_client.spin_until(lambda: ros_client.node.count_publishers(ARRAYS) > 0)
    exciter.wait_for_line('waiting for a publisher of /joint_states')
    start_node(ROBOT, model=ARM, **robot)
    assert ros_client.wait(exciter) == 2
    assert 'exciter: Stopped the motion at ' in exciter.output
    assert reason in exciter.output
    speed = np.max(np.abs(np.diff([message.data for message in commands], axis=0)), axis=1) * 100
    assert np.max(speed[-3:]) < 0.1 * np.max(speed)


@pytest.mark.patient
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


@pytest.mark.patient
def test_a_schedule_skips_what_is_over_but_not_the_last_step_and_ends_when_it_is_told_to():
    # Nobody counts to a million in a millisecond, a step at a time.
    steps = list(steps_on_time(rate=1e9, last=10**6, closing=threading.Event()))
    assert (steps[0], steps[-1]) == (0, 10**6)
    assert steps == sorted(set(steps))
    assert len(steps) < 10**6
    closing = threading.Event()
    steps = []
    for step in steps_on_time(rate=1e3, last=10**6, closing=closing):
        steps.append(step)
        if step:
            closing.set()
    # A busy machine skips the step 1 as well: whichever came after 0 is the last.
    assert len(steps) == 2
    assert steps[0] == 0 < steps[1] < 10**6

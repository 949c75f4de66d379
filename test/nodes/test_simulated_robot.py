# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The simulated robot keeps its rate and stamps, obeys commands, and refuses bad input."""

from __future__ import annotations

import math
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builtin_interfaces.msg import Duration
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from builders.ros_graph import NodeProcess, RosClient, StartNode

DEMO = Path(__file__).resolve().parents[2] / 'config' / 'demo'
ARM = DEMO / 'arm.xml'
ARRAYS = '/forward_position_controller/commands'
TRAJECTORIES = '/joint_trajectory_controller/joint_trajectory'
ROBOT = 'simulated_robot'
HOME = [0, -1.1, 1.4, -0.4, 0, 0]

pytestmark = pytest.mark.ros


def _start(start_node: StartNode, **parameters: object) -> NodeProcess:
    robot = start_node(ROBOT, model=ARM, **parameters)
    robot.wait_for_line('simulated robot ready')
    return robot


def _stamp_ns(message: Any) -> int:
    return int(message.header.stamp.sec) * 10**9 + int(message.header.stamp.nanosec)


def _states(client: RosClient, count: int) -> list[Any]:
    states: list[Any] = []

    def enough(message: Any) -> bool:
        states.append(message)
        return len(states) >= count

    client.message(JointState, '/joint_states', enough, latched=False)
    return states


def _reach(client: RosClient, joint: int, place: float, within: float) -> Any:
    """Return the first state in which a joint is near to a place."""
    return client.message(
        *(JointState, '/joint_states', lambda m: abs(m.position[joint] - place) < within),
        latched=False,
    )


def _publisher(client: RosClient, kind: Any, topic: str) -> Any:
    publisher = client.node.create_publisher(kind, topic, 10)
    # A state that arrives after the match proves that the robot has seen this publisher's topic.
    while not publisher.get_subscription_count():
        _states(client, 1)
    return publisher


def test_in_real_time_stamps_are_exactly_a_period_apart_and_follow_the_clock(
    start_node: StartNode, ros_client: RosClient
):
    robot = _start(start_node, truth=DEMO / 'truth.yaml')
    states: list[Any] = []
    ros_client.node.create_subscription(JointState, '/joint_states', states.append, 1000)
    ros_client.spin_until(lambda: bool(states))
    ahead = time.time_ns() + 10**9
    # Late on a busy machine, but never early.
    ros_client.spin_until(lambda: _stamp_ns(states[-1]) > ahead)
    stamps = np.array([_stamp_ns(state) for state in states])
    assert stamps[-1] < time.time_ns()
    np.testing.assert_array_equal(np.diff(stamps), 2_000_000)
    assert list(states[0].name)[:2] == ['shoulder_pan', 'shoulder_lift']
    np.testing.assert_allclose(states[0].position, HOME, atol=0.03)
    assert [len(states[0].velocity), len(states[0].effort)] == [6, 6]
    assert robot.stop() == 0


#: Simulated time begins a period of the commands before, ns.
_FIRST_COMMAND = 1_010_000_000


def _stepped(start_node: StartNode, client: RosClient, commands: list[Any]) -> list[Any]:
    """Return the states of a robot whose time waits for these commands, once each."""
    states: dict[int, Any] = {}
    times: list[int] = []
    own = [
        client.node.create_subscription(
            JointState, '/joint_states', lambda m: states.setdefault(_stamp_ns(m), m), 1000
        ),
        client.node.create_subscription(
            Clock, '/clock', lambda m: times.append(m.clock.sec * 10**9 + m.clock.nanosec), 1000
        ),
    ]
    robot = _start(start_node, command_rate=100.0, seed=3)
    client.spin_until(lambda: bool(states and times))
    arrays = _publisher(client, Float64MultiArray, ARRAYS)
    for number, command in enumerate(commands):
        # Whatever this process does meanwhile, no time has gone by.
        assert times[-1] == _FIRST_COMMAND + number * 10_000_000
        arrays.publish(Float64MultiArray(data=command))
        client.spin_until(lambda number=number: times[-1] > _FIRST_COMMAND + number * 10_000_000)
    # Those from before the first command may have come before this process could hear them.
    client.spin_until(lambda: sum(s >= _FIRST_COMMAND for s in states) == 5 * len(commands))
    assert robot.stop() == 0
    for subscription in own:
        client.node.destroy_subscription(subscription)
    return [states[stamp] for stamp in sorted(states) if stamp >= _FIRST_COMMAND]


def test_time_waits_for_commands_and_the_same_ones_give_the_same_states_to_the_bit(
    start_node: StartNode, ros_client: RosClient
):
    commands = [[0.02 * number, *HOME[1:]] for number in range(20)]
    # What cannot be followed has had its instant, too.
    commands[10] = [1.0]
    once, again = (_stepped(start_node, ros_client, commands) for _ in range(2))
    assert [_stamp_ns(state) for state in once] == list(
        range(_FIRST_COMMAND, 1_210_000_000, 2_000_000)
    )
    assert once == again
    assert once[-1].position[0] > 0.1


def test_commands_of_both_types_move_the_joints_that_they_name(
    start_node: StartNode, ros_client: RosClient
):
    robot = _start(start_node)
    applied: list[Any] = []
    ros_client.node.create_subscription(
        JointState, '/simulated_robot/applied_commands', applied.append, 10
    )
    arrays = _publisher(ros_client, Float64MultiArray, ARRAYS)
    before = time.time_ns()
    arrays.publish(Float64MultiArray(data=[0.3, *HOME[1:]]))
    ros_client.spin_until(lambda: bool(applied))
    assert before < _stamp_ns(applied[0]) < time.time_ns()
    assert [applied[0].name[0], applied[0].position[0]] == ['shoulder_pan', pytest.approx(0.3)]
    assert [*applied[0].position[1:]] == pytest.approx(HOME[1:])
    assert not applied[0].effort
    _reach(ros_client, 0, 0.3, 0.03)
    trajectories = _publisher(ros_client, JointTrajectory, TRAJECTORIES)
    point = JointTrajectoryPoint(positions=[0.4, 0.2])
    trajectories.publish(JointTrajectory(joint_names=['wrist_3', 'wrist_2'], points=[point]))
    moved = _reach(ros_client, 5, 0.4, 0.05)
    assert moved.position[0] == pytest.approx(0.3, abs=0.05)
    assert robot.stop() == 0


def test_commands_that_do_not_fit_are_ignored_with_one_warning_in_one_line(
    start_node: StartNode, ros_client: RosClient
):
    robot = _start(start_node)
    arrays = _publisher(ros_client, Float64MultiArray, ARRAYS)
    for data in ([1.0], [1.0, 2.0], [math.nan] * 6):
        arrays.publish(Float64MultiArray(data=data))
    robot.wait_for_line('expected one value per actuator, 6, found 1')
    trajectories = _publisher(ros_client, JointTrajectory, TRAJECTORIES)
    point = JointTrajectoryPoint(positions=[0.4])
    name = '\x1b[31mred\x1b]0;title\x07\n[ERROR] forged'
    trajectories.publish(JointTrajectory(joint_names=[name], points=[point]))
    assert '\\x1b[31mred' in robot.wait_for_line('forged')
    states = _states(ros_client, 100)
    np.testing.assert_allclose(states[-1].position, HOME, atol=0.03)
    assert robot.stop() == 0
    assert robot.output.count('ignoring a command') == 2
    assert '\x1b[31m' not in robot.output
    assert '\x07' not in robot.output


def test_the_model_is_latched_and_a_signal_while_it_is_suspended_ends_it_afterwards(
    start_node: StartNode, ros_client: RosClient
):
    robot = start_node(ROBOT, model=ARM, truth=DEMO / 'truth.yaml')
    assert ros_client.message(String, '/simulated_robot/mjcf').data == ARM.read_text()
    for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGCONT):
        robot.process.send_signal(number)
    assert robot.wait() == 0


def test_trajectories_are_followed_and_bad_ones_are_ignored(
    start_node: StartNode, ros_client: RosClient
):
    robot = _start(start_node)
    publisher = _publisher(ros_client, JointTrajectory, TRAJECTORIES)
    points = [
        JointTrajectoryPoint(positions=[0.5], time_from_start=Duration(nanosec=500_000_000)),
        JointTrajectoryPoint(positions=[0.0], velocities=[0.0], time_from_start=Duration(sec=1)),
    ]
    publisher.publish(JointTrajectory(joint_names=['wrist_3'], points=points[::-1]))
    robot.wait_for_line('expected points at increasing times from the start, found [1.0, 0.5]')
    states: list[Any] = []
    ros_client.node.create_subscription(JointState, '/joint_states', states.append, 1000)
    ros_client.spin_until(lambda: bool(states))
    publisher.publish(JointTrajectory(joint_names=['wrist_3'], points=points))
    ros_client.spin_until(lambda: max(abs(state.position[5]) for state in states) > 0.4)
    ros_client.spin_until(lambda: abs(states[-1].position[5]) < 0.02)
    moved = np.array([state.position[5] for state in states])
    # It was on its way for many states, and did not stay at the point between.
    assert np.count_nonzero((moved > 0.1) & (moved < 0.4)) > 50
    assert moved.max() < 0.52
    assert robot.stop() == 0

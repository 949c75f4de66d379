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
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from builders.ros_graph import RosClient, StartNode, as_arguments

DEMO = Path(__file__).resolve().parents[2] / 'config' / 'demo'
ARM = DEMO / 'arm.xml'
ROBOT = 'simulated_robot'
READY = 'simulated robot ready'
HOME = [0, -1.1, 1.4, -0.4, 0, 0]

pytestmark = pytest.mark.ros


def _stamp_ns(message: Any) -> int:
    return int(message.header.stamp.sec) * 10**9 + int(message.header.stamp.nanosec)


def _states(client: RosClient, count: int) -> list[Any]:
    states: list[Any] = []

    def enough(message: Any) -> bool:
        states.append(message)
        return len(states) >= count

    client.message(JointState, '/joint_states', enough, latched=False)
    return states


def _publisher(client: RosClient, kind: Any, topic: str) -> Any:
    publisher = client.node.create_publisher(kind, topic, 10)
    # A state that arrives after the match proves that the robot has seen this publisher's topic.
    while not publisher.get_subscription_count():
        _states(client, 1)
    return publisher


def test_stamps_are_exactly_a_period_apart_and_follow_the_clock(
    start_node: StartNode, ros_client: RosClient
):
    robot = start_node(ROBOT, *as_arguments(model=ARM, truth=DEMO / 'truth.yaml'))
    robot.wait_for_line(READY)
    states: list[Any] = []
    sent: list[int] = []

    def take(message: Any, info: dict[str, int]) -> None:
        states.append(message)
        sent.append(info['source_timestamp'])

    ros_client.node.create_subscription(JointState, '/joint_states', take, 1000)
    ros_client.spin_until(lambda: len(states) >= 1000)
    stamps = np.array([_stamp_ns(state) for state in states])
    np.testing.assert_array_equal(np.diff(stamps), 2_000_000)
    # Late on a busy machine, but never early, and neither slower nor faster than the clock.
    lag = np.array(sent) - stamps
    assert np.min(lag) > 0
    assert max(np.min(lag[:500]), np.min(lag[500:])) < 50e6
    assert list(states[0].name)[:2] == ['shoulder_pan', 'shoulder_lift']
    np.testing.assert_allclose(states[0].position, HOME, atol=0.03)
    assert [len(states[0].velocity), len(states[0].effort)] == [6, 6]
    assert robot.stop() == 0


@pytest.mark.patient
def test_commands_of_both_types_move_the_joints_that_they_name(
    start_node: StartNode, ros_client: RosClient
):
    robot = start_node(ROBOT, *as_arguments(model=ARM))
    robot.wait_for_line(READY)
    applied: list[Any] = []
    ros_client.node.create_subscription(
        JointState, '/simulated_robot/applied_commands', applied.append, 10
    )
    arrays = _publisher(ros_client, Float64MultiArray, '/forward_position_controller/commands')
    before = time.time_ns()
    arrays.publish(Float64MultiArray(data=[0.3, *HOME[1:]]))
    ros_client.spin_until(lambda: bool(applied))
    assert before < _stamp_ns(applied[0]) < time.time_ns()
    assert [applied[0].name[0], applied[0].position[0]] == ['shoulder_pan', pytest.approx(0.3)]
    assert [*applied[0].position[1:]] == pytest.approx(HOME[1:])
    assert not applied[0].effort
    ros_client.message(
        JointState, '/joint_states', lambda m: abs(m.position[0] - 0.3) < 0.03, latched=False
    )
    trajectories = _publisher(
        ros_client, JointTrajectory, '/joint_trajectory_controller/joint_trajectory'
    )
    point = JointTrajectoryPoint(positions=[0.4, 0.2])
    trajectories.publish(JointTrajectory(joint_names=['wrist_3', 'wrist_2'], points=[point]))
    moved = ros_client.message(
        JointState, '/joint_states', lambda m: abs(m.position[5] - 0.4) < 0.05, latched=False
    )
    assert moved.position[0] == pytest.approx(0.3, abs=0.05)
    assert robot.stop() == 0


@pytest.mark.patient
def test_commands_that_do_not_fit_are_ignored_with_one_warning_in_one_line(
    start_node: StartNode, ros_client: RosClient
):
    robot = start_node(ROBOT, *as_arguments(model=ARM))
    robot.wait_for_line(READY)
    arrays = _publisher(ros_client, Float64MultiArray, '/forward_position_controller/commands')
    for data in ([1.0], [1.0, 2.0], [math.nan] * 6):
        arrays.publish(Float64MultiArray(data=data))
    robot.wait_for_line('expected one value per actuator, 6, found 1')
    trajectories = _publisher(
        ros_client, JointTrajectory, '/joint_trajectory_controller/joint_trajectory'
    )
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


@pytest.mark.patient
def test_the_model_is_latched_and_a_signal_while_it_is_suspended_ends_it_afterwards(
    start_node: StartNode, ros_client: RosClient
):
    robot = start_node(ROBOT, *as_arguments(model=ARM, truth=DEMO / 'truth.yaml'))
    assert ros_client.message(String, '/simulated_robot/mjcf').data == ARM.read_text()
    for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGCONT):
        robot.process.send_signal(number)
    assert robot.wait() == 0


@pytest.mark.patient
@pytest.mark.parametrize(
    ('values', 'sentence'),
    [
        ({}, "Expected an MJCF file in parameter 'model' (-p model:=FILE), found none."),
        ({'model': ARM, 'truth': '{truth}'}, 'nearest: elbow'),
        ({'model': ARM, 'rate': 1000.0}, 'Expected a rate of at most 500 Hz'),
    ],
)
def test_bad_input_ends_it_with_one_line_and_code_2(
    start_node: StartNode, values: dict[str, object], sentence: str, tmp_path: Path
):
    truth = tmp_path / 'truth.yaml'
    truth.write_text('joint/elbo/damping: 1.0\n')
    given = {name: str(value).format(truth=truth) for name, value in values.items()}
    robot = start_node(ROBOT, *as_arguments(**given))
    assert robot.wait() == 2
    assert sentence in robot.output
    assert len(robot.output.splitlines()) == 1


@pytest.mark.patient
def test_trajectories_are_followed_and_bad_ones_are_ignored(
    start_node: StartNode, ros_client: RosClient
):
    robot = start_node(ROBOT, *as_arguments(model=ARM))
    robot.wait_for_line(READY)
    publisher = _publisher(
        ros_client, JointTrajectory, '/joint_trajectory_controller/joint_trajectory'
    )
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

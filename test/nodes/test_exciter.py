# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The exciter waits for the robot, starts where it is, keeps its schedule and ends cleanly."""

from __future__ import annotations

import itertools
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ARM = Path(__file__).resolve().parents[2] / 'config' / 'demo' / 'arm.xml'
EXCITER = 'sysid_ros.nodes.exciter'
ROBOT = 'sysid_ros.nodes.simulated_robot'
ARRAYS = '/forward_position_controller/commands'
TRAJECTORIES = '/joint_trajectory_controller/joint_trajectory'

pytestmark = pytest.mark.ros


def _parameters(**values: object) -> list[str]:
    arguments = ['--ros-args']
    for name, value in values.items():
        arguments += ['-p', f'{name}:={value}']
    return arguments


def _collect(client: Any, kind: Any, topic: str) -> list[Any]:
    """Return a list that grows while the client spins."""
    messages: list[Any] = []
    client.node.create_subscription(kind, topic, messages.append, 1000)
    return messages


def test_robot_and_exciter_move_for_three_seconds_at_their_rates(
    start_node: Callable[..., Any], ros_client: Any
):
    from sensor_msgs.msg import JointState  # noqa: PLC0415 (absent without ROS)
    from std_msgs.msg import Float64MultiArray  # noqa: PLC0415

    states: list[Any] = []
    commands = _collect(ros_client, Float64MultiArray, ARRAYS)
    robot = start_node(ROBOT, *_parameters(model=ARM))
    robot.wait_for_line('simulated robot ready')
    exciter = start_node(EXCITER, *_parameters(model=ARM, duration=3.0, ramp=0.5))

    home = [0, -1.1, 1.4, -0.4, 0, 0]

    def over(message: Any) -> bool:
        states.append(message)
        # The last command may be behind in the queue when its sender has ended.
        at_home = bool(commands) and np.allclose(commands[-1].data, home, rtol=0, atol=1e-6)
        return len(states) >= 1500 and exciter.process.poll() is not None and at_home

    ros_client.message(JointState, '/joint_states', over, latched=False)
    stamps = [m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for m in states]
    seconds = stamps[-1] - stamps[0]
    assert exciter.wait() == 0
    assert 'motion finished' in exciter.output
    assert (len(stamps) - 1) / seconds == pytest.approx(500, rel=0.02)
    sent = np.array([message.data for message in commands])
    assert 0.9 * 300 < len(sent) < 350
    np.testing.assert_allclose(sent[0], states[0].position, atol=0.02)
    if 'were skipped' not in exciter.output:
        assert np.max(np.abs(np.diff(sent, axis=0))) < 0.1
    moved = np.ptp([message.position for message in states], axis=0)
    assert np.all(moved > 0.3)
    assert robot.stop() == 0


@pytest.mark.patient
def test_it_says_what_it_waits_for_and_ends_on_ctrl_c(start_node: Callable[..., Any]):
    exciter = start_node(EXCITER, *_parameters(model=ARM))
    exciter.wait_for_line(f'waiting for a publisher of /joint_states and a subscriber of {ARRAYS}')
    assert exciter.stop() == 0


def test_an_interrupted_motion_slows_down_and_holds(
    start_node: Callable[..., Any], ros_client: Any
):
    from sensor_msgs.msg import JointState  # noqa: PLC0415 (absent without ROS)
    from trajectory_msgs.msg import JointTrajectory  # noqa: PLC0415

    commands = _collect(ros_client, JointTrajectory, TRAJECTORIES)
    start_node(ROBOT, *_parameters(model=ARM)).wait_for_line('simulated robot ready')
    exciter = start_node(
        EXCITER, *_parameters(model=ARM, message='JointTrajectory', duration=60.0, ramp=0.2)
    )
    while len(commands) < 120:
        ros_client.message(JointTrajectory, TRAJECTORIES, latched=False)
    exciter.process.send_signal(signal.SIGINT)
    # Spin meanwhile: what is not taken when its sender leaves is lost.
    ros_client.message(
        JointState, '/joint_states', lambda _: exciter.process.poll() is not None, latched=False
    )
    assert exciter.wait() == 0
    assert 'holding the last command' in exciter.output
    assert commands[0].joint_names[:2] == ['shoulder_pan', 'shoulder_lift']
    sent = np.array([message.points[0].positions for message in commands])
    speed = np.max(np.abs(np.diff(sent, axis=0)), axis=1) * 100
    assert np.max(speed[:-50]) > 0.3
    assert speed[-1] < 0.05 * np.max(speed)


@pytest.mark.patient
@pytest.mark.parametrize(
    ('values', 'sentence'),
    [
        ({}, "Expected an MJCF file in parameter 'model' (-p model:=FILE), found none."),
        ({'model': 'none.xml'}, "No model file 'none.xml'; "),
        ({'model': ARM, 'motion': 'none.csv'}, "Cannot read the motion 'none.csv': No such file"),
        ({'model': ARM, 'ramp': 10.0}, 'Expected a ramp shorter than half the duration'),
        ({'model': ARM, 'message': 'JointTraject'}, 'nearest: JointTrajectory'),
    ],
)
def test_bad_input_ends_it_with_one_line_and_code_2(
    start_node: Callable[..., Any], values: dict[str, object], sentence: str
):
    exciter = start_node(EXCITER, *(_parameters(**values) if values else []))
    assert exciter.wait() == 2
    assert sentence in exciter.output
    assert len(exciter.output.splitlines()) == 1


def test_states_that_come_late_are_compared_with_the_commands_of_their_time(
    start_node: Callable[..., Any], ros_client: Any
):
    from std_msgs.msg import Float64MultiArray  # noqa: PLC0415 (absent without ROS)

    def wait_for_commands(count: int) -> None:
        seen = itertools.count(1)
        ros_client.message(Float64MultiArray, ARRAYS, lambda _: next(seen) >= count, latched=False)

    # As tight as the robot's own lag allows, so that a held-up state would be too far.
    tight = {'max_tracking_error': 0.45, 'state_timeout': 10.0}
    robot = start_node(ROBOT, *_parameters(model=ARM))
    robot.wait_for_line('simulated robot ready')
    exciter = start_node(EXCITER, *_parameters(model=ARM, duration=5.0, ramp=0.5, **tight))
    exciter.wait_for_line('motion started')
    wait_for_commands(80)
    for _ in range(3):
        robot.process.send_signal(signal.SIGSTOP)
        wait_for_commands(80)
        robot.process.send_signal(signal.SIGCONT)
        wait_for_commands(20)

    assert exciter.wait() == 0, exciter.output
    assert 'motion finished' in exciter.output
    robot.stop()


@pytest.mark.parametrize(
    ('values', 'reason'),
    [
        ({'max_velocity': 0.1}, ', faster than 0.1'),
        ({'max_tracking_error': 0.01}, ' from its command, over 0.01'),
    ],
)
def test_a_broken_limit_ends_the_motion_smoothly_with_the_reason_and_code_2(
    start_node: Callable[..., Any], ros_client: Any, values: dict[str, object], reason: str
):
    from sensor_msgs.msg import JointState  # noqa: PLC0415 (absent without ROS)
    from std_msgs.msg import Float64MultiArray  # noqa: PLC0415

    commands = _collect(ros_client, Float64MultiArray, ARRAYS)
    # The robot comes last: a short motion is over before a subscriber that comes late has met it.
    exciter = start_node(EXCITER, *_parameters(model=ARM, duration=60.0, ramp=1.0, **values))
    exciter.wait_for_line('waiting for a publisher of /joint_states')
    start_node(ROBOT, *_parameters(model=ARM)).wait_for_line('simulated robot ready')
    ros_client.message(
        JointState, '/joint_states', lambda _: exciter.process.poll() is not None, latched=False
    )
    assert exciter.wait() == 2
    assert 'exciter: Stopped the motion at ' in exciter.output
    assert reason in exciter.output
    speed = np.max(np.abs(np.diff([message.data for message in commands], axis=0)), axis=1) * 100
    assert np.max(speed[-3:]) < 0.1 * np.max(speed)


def test_it_stops_when_joint_states_stop(start_node: Callable[..., Any]):
    robot = start_node(ROBOT, *_parameters(model=ARM))
    robot.wait_for_line('simulated robot ready')
    exciter = start_node(EXCITER, *_parameters(model=ARM, duration=60.0, state_timeout=0.2))
    exciter.wait_for_line('motion started')
    robot.stop()
    assert exciter.wait() == 2
    assert 'without a new state on /joint_states' in exciter.output


def test_a_driver_that_repeats_its_last_state_is_silent(
    start_node: Callable[..., Any], ros_client: Any
):
    from sensor_msgs.msg import JointState  # noqa: PLC0415 (absent without ROS)
    from std_msgs.msg import Float64MultiArray  # noqa: PLC0415

    home = {'shoulder_pan': 0.0, 'shoulder_lift': -1.1, 'elbow': 1.4, 'wrist_1': -0.4}
    home |= {'wrist_2': 0.0, 'wrist_3': 0.0}
    frozen = JointState(name=list(home), position=list(home.values()))
    frozen.header.stamp = ros_client.node.get_clock().now().to_msg()
    publisher = ros_client.node.create_publisher(JointState, '/joint_states', 10)
    ros_client.node.create_timer(0.01, lambda: publisher.publish(frozen))
    exciter = start_node(
        EXCITER, *_parameters(model=ARM, duration=60.0, state_timeout=1.0, max_tracking_error=0.0)
    )
    commands = _collect(ros_client, Float64MultiArray, ARRAYS)
    ros_client.message(
        JointState, '/joint_states', lambda _: exciter.process.poll() is not None, latched=False
    )
    assert exciter.wait() == 2
    assert '1 s without a new state on /joint_states' in exciter.output
    assert len(commands) > 50

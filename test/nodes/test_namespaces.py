# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What nodes have in common: namespaces, what tools see of them, and how they refuse input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.srv import DescribeParameters, ListParameters
from rosbags.rosbag2 import Reader
from sensor_msgs.msg import JointState

from builders.ros_graph import RosClient, StartNode

ARM = Path(__file__).resolve().parents[2] / 'config' / 'demo' / 'arm.xml'
EXCITER = 'exciter'
RECORDER = 'recorder'
ROBOT = 'simulated_robot'

pytestmark = pytest.mark.ros


def test_of_two_arms_in_namespaces_one_moves_and_is_recorded(
    start_node: StartNode, ros_client: RosClient, tmp_path: Path
) -> None:
    resting: list[Any] = []
    ros_client.node.create_subscription(JointState, '/right/joint_states', resting.append, 1000)
    for side in ('/left', '/right'):
        robot = start_node(ROBOT, namespace=side, model=ARM, rate=100.0)
        robot.wait_for_line('simulated robot ready')
    recorder = start_node(RECORDER, namespace='/left', output=tmp_path / 'bag')
    # With a subscriber of its commands, the motion is recorded from its beginning.
    recorder.wait_for_line('recording /left/joint_states, ')
    free = {'max_velocity': 0.0, 'max_tracking_error': 0.0, 'state_timeout': 0.0}
    exciter = start_node(EXCITER, namespace='/left', model=ARM, duration=2.0, ramp=0.2, **free)
    said = ros_client.message(
        DiagnosticArray, '/diagnostics', lambda m: len(m.status) > 1, latched=False
    )
    assert ros_client.wait(exciter) == 0, exciter.output
    assert recorder.stop() == 0, recorder.output

    assert said.status[0].name == 'left/recorder: recorder'
    with Reader(tmp_path / 'bag') as reader:
        counts = {c.topic: c.msgcount for c in reader.connections}
    assert {topic for topic, messages in counts.items() if messages} == {
        '/left/joint_states',
        '/left/forward_position_controller/commands',
        '/left/simulated_robot/applied_commands',
        '/left/simulated_robot/mjcf',
    }
    assert [topic for topic in counts if not topic.startswith('/left/')] == []
    assert np.max(np.ptp([message.position for message in resting], axis=0)) < 0.05


def test_every_node_that_tools_show_answers_for_its_parameters(
    start_node: StartNode, ros_client: RosClient, tmp_path: Path
) -> None:
    robot = start_node(ROBOT, namespace='/left', model=ARM, rate=100.0)
    robot.wait_for_line('simulated robot ready')
    recorder = start_node(RECORDER, namespace='/left', output=tmp_path / 'bag')
    recorder.wait_for_line('recording /left/joint_states, ')
    own = {('test_client', '/'), ('recorder', '/left'), ('simulated_robot', '/left')}
    listening = {('_recorder_listener', '/left')}

    def nodes() -> set[tuple[str, str]]:
        return set(ros_client.node.get_node_names_and_namespaces())

    ros_client.spin_until(lambda: own | listening <= nodes())

    # `ros2 node list`, `ros2 param list` and others leave out names with this beginning.
    assert {node for node in nodes() if not node[0].startswith('_')} == own
    for name in ('/left/recorder', '/left/simulated_robot'):
        listed = ros_client.call(ListParameters, f'{name}/list_parameters').result.names
        assert 'use_sim_time' in listed
        asked = DescribeParameters.Request(names=listed)
        answer = ros_client.call(DescribeParameters, f'{name}/describe_parameters', asked)
        assert [item.name for item in answer.descriptors] == listed


@pytest.mark.parametrize(
    ('node', 'values', 'sentence'),
    [
        (EXCITER, {}, "Expected an MJCF file in parameter 'model' (-p model:=FILE), found none."),
        (EXCITER, {'model': ARM, 'motion': 'none.csv'}, "Cannot read the motion 'none.csv': No "),
        (EXCITER, {'model': 5000 * 'x'}, ': File name too long.'),
        (EXCITER, {'model': ARM, 'message': 'JointTraject'}, 'nearest: JointTrajectory'),
        (ROBOT, {}, "Expected an MJCF file in parameter 'model' (-p model:=FILE), found none."),
        (ROBOT, {'model': ARM, 'truth': 5000 * 'x'}, ': File name too long.'),
        (ROBOT, {'model': ARM, 'truth': '{truth}'}, 'nearest: elbow'),
        (ROBOT, {'model': ARM, 'rate': 1000.0}, 'Expected a rate of at most 500 Hz'),
        (RECORDER, {}, "Expected the bag's folder in parameter 'output', as -p output:=DIR, found"),
        (RECORDER, {'output': '{bag}'}, 'exists already'),
        (RECORDER, {'output': 5000 * 'x'}, ': File name too long.'),
        (RECORDER, {'output': 'new', 'max_duration': 'soon'}, "'soon' for 'max_duration' in "),
        (RECORDER, {'output': 'new', 'topics': '/a', 'exclude': 'a'}, "that leaves '/a'"),
        (RECORDER, {'output': 'new', 'topics': "['/a b']"}, 'Expected the name of a topic'),
    ],
)
def test_bad_input_ends_a_node_with_one_line_and_code_2(
    start_node: StartNode, tmp_path: Path, node: str, values: dict[str, object], sentence: str
) -> None:
    bag, truth = tmp_path / 'bag', tmp_path / 'truth.yaml'
    bag.mkdir()
    truth.write_text('joint/elbo/damping: 1.0\n')
    given = {name: str(value).format(bag=bag, truth=truth) for name, value in values.items()}
    process = start_node(node, **given)
    assert process.wait() == 2
    assert sentence in process.output
    assert process.output.count('\n') == 0

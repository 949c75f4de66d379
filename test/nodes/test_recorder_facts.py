# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a recorder's bag says about its session."""

from __future__ import annotations

import json
import sqlite3
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from sysid_ros import __version__

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from builders.ros_graph import RosClient, StartNode

pytestmark = [pytest.mark.ros, pytest.mark.patient]

#: A controller manager with two controllers, one of which nobody would know by its name.
CONTROLLERS = """
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String

rclpy.init()
executor = SingleThreadedExecutor()
nodes = {
    'controller_manager': {'update_rate': 500, 'fpc.type': 'forward/Forward', 'unrelated': 1},
    'fpc': {'joints': ['elbow', 'pan'], 'interface_name': 'position', 'use_x': True},
    'arm_controller': {
        'joints': ['pan'],
        'command_interfaces': ['effort'],
        'gains.pan.p': 30.0,
        'gains.pan.d': 0.5,
        'constraints.goal_time': 1.0,
        'gains.raw': [b'a'],
    },
}
for name, values in nodes.items():
    node = rclpy.create_node(name, namespace='/left')
    for key, value in values.items():
        node.declare_parameter(key, value)
    executor.add_node(node)
latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
description = node.create_publisher(String, '/left/robot_description', latched)
description.publish(String(data='<robot name="left"/>'))
executor.spin()
"""


def _has_heard_all(bag: Path) -> bool:
    """Tell whether the facts of both controllers and the robot are in a bag being recorded."""
    connection = sqlite3.connect(bag / 'bag_0.db3')
    facts = dict(connection.execute('select key, value from sysid_ros').fetchall())
    connection.close()
    known = json.loads(facts.get('controllers', '{}'))
    return len(known) == 3 and 'type' in known['/left/fpc'] and 'robot_description' in facts


def test_facts_are_in_the_bag(
    record: Callable[..., Any],
    publish: Callable[..., Any],
    start_node: StartNode,
    wait_for_status: Callable[..., Any],
    ros_client: RosClient,
    tmp_path: Path,
) -> None:
    from rcl_interfaces.srv import SetParameters  # noqa: PLC0415 (absent without ROS)
    from rclpy.parameter import Parameter  # noqa: PLC0415

    begun = time.monotonic_ns()
    script = tmp_path / 'controllers.py'
    script.write_text(CONTROLLERS)
    start_node(script)
    recorder = record(
        output=tmp_path / 'bag', topics='/joint_states', notes='before', storage='sqlite3'
    )
    publish('/joint_states', rate=100)
    recorder.wait_for_line('recording /joint_states to')
    request = SetParameters.Request(
        parameters=[Parameter('notes', value='payload of 2 kg').to_parameter_msg()]
    )
    (result,) = ros_client.call(SetParameters, '/recorder/set_parameters', request).results
    assert result.successful
    # A recorder that is killed leaves facts, too: they are in the file while it records.
    for _ in range(20):
        if _has_heard_all(tmp_path / 'bag'):
            break
        wait_for_status(state='recording', fresh=True)
    assert recorder.stop() == 0
    metadata = yaml.safe_load((tmp_path / 'bag' / 'metadata.yaml').read_text())
    facts = metadata['rosbag2_bagfile_information']['custom_data']
    assert facts['version'] == __version__
    assert '-p notes:=before' in facts['command_line']
    assert facts['notes'] == 'payload of 2 kg'
    assert facts['robot_description'] == '<robot name="left"/>'
    assert json.loads(facts['dropped']) == json.loads(facts['lost']) == {'/joint_states': 0}
    assert json.loads(facts['controllers']) == {
        '/left/controller_manager': {'update_rate': 500, 'fpc.type': 'forward/Forward'},
        '/left/fpc': {
            'joints': ['elbow', 'pan'],
            'interface': 'position',
            'type': 'forward/Forward',
        },
        '/left/arm_controller': {
            'joints': ['pan'],
            'interface': ['effort'],
            'gains': {'gains.pan.d': 0.5, 'gains.pan.p': 30.0},
        },
    }
    clock = json.loads(facts['clock'])
    elapsed = clock['end']['monotonic_ns'] - clock['start']['monotonic_ns']
    assert 0 < elapsed < time.monotonic_ns() - begun
    assert clock['shift_ns'] == clock['end']['offset_ns'] - clock['start']['offset_ns']
    topics = json.loads(facts['topics'])
    assert topics['found'] == {'/joint_states': 'sensor_msgs/msg/JointState'}
    assert topics['asked']['topics'] == ['/joint_states']
    assert (topics['missing'], topics['refused']) == ([], {})

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


def _facts(bag: Path) -> dict[str, str]:
    """Return the facts in a bag that is being recorded."""
    connection = sqlite3.connect(bag / 'bag_0.db3')
    facts = dict(connection.execute('select key, value from sysid_ros').fetchall())
    connection.close()
    return facts


def _has_heard_all(bag: Path) -> bool:
    """Tell whether the facts of both controllers and the robot are in a bag being recorded."""
    facts = _facts(bag)
    known = json.loads(facts.get('controllers', '{}'))
    return len(known) == 3 and 'type' in known['/left/fpc'] and 'robot_description' in facts


#: A controller that never hears of the first request for the names of its parameters.
FORGETFUL = """
import rclpy
from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.parameter import Parameter
from rclpy.task import Future

asked = []

async def second(request, response):
    asked.append(request)
    if len(asked) == 1:
        await Future()
    response.result.names = ['joints']
    return response

def get(request, response):
    response.values = [Parameter('joints', value=['pan']).get_parameter_value()]
    return response

rclpy.init()
node = rclpy.create_node('arm_controller', start_parameter_services=False)
group = ReentrantCallbackGroup()
node.create_service(ListParameters, '~/list_parameters', second, callback_group=group)
node.create_service(GetParameters, '~/get_parameters', get, callback_group=group)
rclpy.spin(node)
"""


def test_a_controller_is_asked_again_when_a_request_was_lost(
    record: Callable[..., Any],
    publish: Callable[..., Any],
    start_node: StartNode,
    wait_for_status: Callable[..., Any],
    tmp_path: Path,
) -> None:
    script = tmp_path / 'forgetful.py'
    script.write_text(FORGETFUL)
    start_node(script)
    recorder = record(output=tmp_path / 'bag', topics='/joint_states', storage='sqlite3')
    publish('/joint_states', rate=100)
    for _ in range(20):
        wait_for_status(state='recording', fresh=True)
        if 'controllers' in _facts(tmp_path / 'bag'):
            break
    assert recorder.stop() == 0
    assert json.loads(_facts(tmp_path / 'bag')['controllers']) == {
        '/arm_controller': {'joints': ['pan']}
    }


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

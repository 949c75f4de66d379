# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Peers that send what no node asked for: it is refused or left out, and the node stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builders.ros_graph import RosClient, StartNode

pytestmark = pytest.mark.ros

CALIBRATION = """
model: arm.xml
bags: [{path: train_*, role: train}]
parameters: [{target: joint/*/armature, bounds: [0, 1]}]
"""
#: A controller whose parameters are of types that are none, or not those of a controller.
CONTROLLER = """
import sys
import rclpy
from rcl_interfaces.msg import ParameterValue
from rcl_interfaces.srv import GetParameters, ListParameters
from std_msgs.msg import Float64MultiArray

def list_names(request, response):
    response.result.names = ['joints', 'interface_name']
    return response

def get(request, response):
    response.values = [ParameterValue(type=int(sys.argv[1]), integer_value=5)] * 3
    return response

rclpy.init()
node = rclpy.create_node('arm_controller', start_parameter_services=False)
node.create_service(ListParameters, '~/list_parameters', list_names)
node.create_service(GetParameters, '~/get_parameters', get)
publisher = node.create_publisher(Float64MultiArray, '~/commands', 10)
node.create_timer(0.1, lambda: publisher.publish(Float64MultiArray(data=[1.0])))
rclpy.spin(node)
"""


def test_values_that_the_system_refuses_are_refused_with_a_sentence(
    start_node: StartNode, ros_client: RosClient, tmp_path: Path
):
    config, odd = tmp_path / 'calibration.yaml', tmp_path / 'odd.yaml'
    pipe, sparse = tmp_path / 'pipe', tmp_path / 'sparse.yaml'
    os.mkfifo(pipe)
    with sparse.open('wb') as stream:
        stream.truncate(10 << 30)
    config.write_text(CALIBRATION)
    odd.write_text(CALIBRATION.replace('train_*', r'"train_\0*"'))
    process = start_node('calibrator', config=config)
    process.wait_for_line('ready: call')

    for name, value, said in [
        ('output', 5000 * 'x', 'File name too long'),
        ('output', f'{config}/below', 'is not a folder'),
        ('output', '/proc/results', 'No such file or directory'),
        ('config', 5000 * 'x', 'File name too long'),
        ('config', str(tmp_path), 'Is a directory'),
        ('config', str(odd), 'holds a NUL character'),
        ('config', '/dev/zero', 'found a device, a pipe or a socket'),
        ('config', str(pipe), 'found a device, a pipe or a socket'),
        ('config', str(sparse), 'expected at most 67 MB, found 10737 MB'),
    ]:
        accepted, reason = ros_client.set_parameter('/calibrator', name, value)
        assert not accepted
        assert said in reason
        assert len(reason) <= 1000
        assert '\n' not in reason

    assert ros_client.set_parameter('/calibrator', 'output', str(tmp_path / 'out')) == (True, '')
    assert process.stop() == 0
    assert 'Traceback' not in process.output


@pytest.mark.parametrize(('kind', 'said'), [(77, 'type 77'), (2, "'int' object")])
def test_a_controller_that_answers_nonsense_is_recorded_all_the_same(
    start_node: StartNode, tmp_path: Path, kind: int, said: str
):
    program = tmp_path / 'controller.py'
    program.write_text(CONTROLLER)
    start_node(program, str(kind))
    topic = '/arm_controller/commands'
    recorder = start_node('recorder', output=tmp_path / 'bag', topics=topic)

    assert said in recorder.wait_for_line('/arm_controller answers nonsense: ')

    assert recorder.stop() == 0
    assert (tmp_path / 'bag' / 'metadata.yaml').is_file()
    assert recorder.output.count('nonsense') == 1

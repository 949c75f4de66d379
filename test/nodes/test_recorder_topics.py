# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which topics a recorder takes, by which quality of service, with which definitions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from sysid_ros.alignment.turns import read_columns
from sysid_ros.bags.message_types import IMU, WRENCH
from sysid_ros.errors import RosError
from sysid_ros.nodes.graph import (
    Endpoint,
    Offer,
    Selection,
    default_topics,
    installed_definition,
    recorded_topic,
)

STATE = 'sensor_msgs/msg/JointState'
TEXT = 'std_msgs/msg/String'


@pytest.mark.parametrize(
    ('selection', 'taken'),
    [
        (Selection(names=('/b', '/nowhere')), ['/b']),
        (Selection(regex=re.compile('^/a'), exclude=re.compile('b')), ['/a']),
        (Selection(names=('/b',), regex=re.compile('x')), ['/b', '/x/a']),
        (Selection(everything=True, own=('/b',)), ['/a', '/ab', '/x/a', '/note']),
        (Selection(names=('/_hidden',)), ['/_hidden']),
    ],
)
def test_topics_are_selected_by_name_expression_or_all(selection: Selection, taken: list[str]):
    publisher = Endpoint(STATE, reliable=True, transient_local=False)
    graph = [Offer(t, (STATE,), (publisher,)) for t in ('/a', '/ab', '/b', '/x/a', '/_hidden')]
    found = selection.take([*graph, Offer('/note', (TEXT,), ())])
    assert [offer.topic for offer in found] == taken


def test_default_topics_are_commands_what_no_joint_measures_and_latched_models():
    latched = Endpoint(TEXT, reliable=True, transient_local=True)
    volatile = latched._replace(transient_local=False)
    taken = [
        Offer('/arm/commands', ('std_msgs/msg/Float64MultiArray',), ()),
        Offer('/arm/joint_trajectory', ('trajectory_msgs/msg/JointTrajectory',), ()),
        Offer('/arm/controller_state', ('control_msgs/msg/JointTrajectoryControllerState',), ()),
        Offer('/arm/applied_commands', (STATE,), ()),
        Offer('/imu', (IMU,), (volatile._replace(msgtype=IMU),)),
        Offer('/wrist', (WRENCH,), (volatile._replace(msgtype=WRENCH),)),
        Offer('/robot_description', (TEXT,), (latched,)),
        Offer('/calibrator/mjcf', (TEXT,), (latched,)),
    ]
    left = [
        Offer('/arm/other', ('std_msgs/msg/Float64MultiArray',), ()),
        Offer('/arm/joint_states', (STATE,), ()),
        Offer('/mjcf_live', (TEXT,), (volatile,)),
        Offer('/chatter', (TEXT,), (latched,)),
        Offer('/wrench_wanted', (WRENCH,), ()),
    ]
    assert list(default_topics([*taken, *left])) == taken


@pytest.mark.parametrize(
    ('publishers', 'reliable', 'latched'),
    [
        ([(True, True), (True, True)], True, True),
        ([(True, True), (True, False)], True, False),
        ([(True, False), (False, False)], False, False),
        ([], True, False),
    ],
)
def test_a_subscription_asks_for_no_more_than_every_publisher_offers(
    publishers: list[tuple[bool, bool]], reliable: bool, latched: bool
):
    endpoints = tuple(Endpoint(STATE, *qos) for qos in publishers)
    qos = recorded_topic(Offer('/joint_states', (STATE,), endpoints)).qos
    assert (qos.reliable, qos.transient_local) == (reliable, latched)


@pytest.mark.parametrize(
    ('types', 'sentence'),
    [
        ((STATE, TEXT), r"Expected one message type on topic '/a', found .* and "),
        (('sensor_msgs/msg/JointStates',), r"'sensor_msgs' .* nearest: sensor_msgs/msg/JointState"),
    ],
)
def test_a_topic_that_cannot_be_recorded_is_refused(types: tuple[str, ...], sentence: str):
    with pytest.raises(RosError, match=sentence):
        recorded_topic(Offer('/a', types, ()))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of messages of an installed package."""
    folder = tmp_path / 'share' / 'lab_msgs' / 'msg'
    folder.mkdir(parents=True)
    monkeypatch.setenv('AMENT_PREFIX_PATH', f'/nowhere:{tmp_path}')
    installed_definition.cache_clear()
    return folder


def test_a_definition_comes_with_all_types_inside_it(package: Path):
    (package / 'Hand.msg').write_text(
        '# A hand\nuint8 LEFT=1\nFinger[5] fingers\nlab_msgs/Palm[<=2] palms\nstring<=8 name\n'
    )
    (package / 'Finger.msg').write_text('Tip tip\nfloat64[] angles\n')
    (package / 'Palm.msg').write_text('Tip tip\n')
    (package / 'Tip.msg').write_text('float32 force 1.0  # N\n')
    text = installed_definition('lab_msgs/msg/Hand')
    assert text is not None
    assert re.findall('MSG: (.*)', text) == ['lab_msgs/Finger', 'lab_msgs/Palm', 'lab_msgs/Tip']
    store = get_typestore(Stores.EMPTY)
    store.register(get_types_from_msg(text, 'lab_msgs/msg/Hand'))
    assert store.generate_msgdef('lab_msgs/msg/Hand', ros_version=2)


@pytest.mark.parametrize('text', ['lab_msgs/Missing it\n', 'not a definition\n', '\udcff'])
def test_there_is_no_definition_with_a_part_missing_or_malformed(package: Path, text: str):
    (package / 'Hand.msg').write_bytes(text.encode(errors='surrogateescape'))
    assert installed_definition('lab_msgs/msg/Hand') is None
    assert installed_definition('lab_msgs/msg/Foot') is None


def run_without_rclpy(folder: Path, *arguments: str) -> Any:
    (folder / 'rclpy.py').write_text('raise ModuleNotFoundError("No module named \'rclpy\'")\n')
    env = {**os.environ, 'PYTHONPATH': os.pathsep.join([str(folder), *filter(None, sys.path)])}
    command = [sys.executable, '-m', 'sysid_ros.nodes', *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize(
    ('name', 'said'),
    [
        ('recorder', "recorder: Expected the Python package rclpy, found none (No module named '"),
        ('recordr', "sysid_ros.nodes: Expected the name of a node, found 'recordr'; nearest: reco"),
    ],
)
def test_what_is_missing_to_start_is_one_line(name: str, said: str, tmp_path: Path):
    done = run_without_rclpy(tmp_path, name)
    assert (done.returncode, done.stdout) == (2, '')
    assert done.stderr.startswith(said)
    assert done.stderr.count('\n') == 1


#: Publishes a hundred messages of an IMU and of a wrist, each other than the one before.
MEASURING = """
import time

import rclpy
from geometry_msgs.msg import WrenchStamped
from rclpy.duration import Duration
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Imu

rclpy.init()
node = rclpy.create_node('driver')
imus = node.create_publisher(Imu, '/imu/data', qos_profile_sensor_data)
wrists = node.create_publisher(WrenchStamped, '/wrist/wrench', 10)
while not (imus.get_subscription_count() and wrists.get_subscription_count()):
    time.sleep(0.01)
time.sleep(0.5)
for number in range(100):
    imu, wrist = Imu(), WrenchStamped()
    for message in (imu, wrist):
        message.header.stamp.sec, message.header.stamp.nanosec = 1000 + number, 7
    imu.orientation.w, imu.orientation.z = 0.8, 0.6
    imu.angular_velocity.x, imu.linear_acceleration.z = number / 3, -number / 7
    imu.orientation_covariance[0] = 1e-4
    wrist.wrench.force.y, wrist.wrench.torque.z = number / 11, number / 13
    imus.publish(imu)
    wrists.publish(wrist)
    time.sleep(0.005)
wrists.wait_for_all_acked(Duration(seconds=20))
print('published', flush=True)
time.sleep(60)
"""


def test_an_imu_and_a_wrist_are_recorded_to_the_last_bit(graph: Any, tmp_path: Path):
    script = tmp_path / 'driver.py'
    script.write_text(MEASURING)
    recorder = graph.record(output=tmp_path / 'bag', topics=['/imu/data', '/wrist/wrench'])
    graph.start(script).wait_for_line('published')
    graph.status(messages=100)
    assert recorder.stop() == 0
    imu, wrist = sorted(read_columns(tmp_path / 'bag').topics, key=lambda topic: topic.topic)
    number = np.arange(100.0)
    for topic in (imu, wrist):
        assert topic.header_ns is not None
        np.testing.assert_array_equal(topic.header_ns, (1000 + np.arange(100)) * 10**9 + 7)
    found = {
        (field.name, label): field.values[:, place]
        for topic in (imu, wrist)
        for field in topic.fields
        for place, label in enumerate(field.labels)
    }
    assert not any('covariance' in name for name, _ in found)
    np.testing.assert_array_equal(found['angular_velocity', 'x'], number / 3)
    np.testing.assert_array_equal(found['linear_acceleration', 'z'], -number / 7)
    np.testing.assert_array_equal(found['orientation', 'z'], np.full(100, 0.6))
    np.testing.assert_array_equal(found['wrench.force', 'y'], number / 11)
    np.testing.assert_array_equal(found['wrench.torque', 'z'], number / 13)

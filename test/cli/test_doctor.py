# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid doctor``: it needs no ROS, never hangs, and says what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from builders.cli_project import Sysid
from builders.ros_graph import StartNode
from sysid_ros.nodes import doctor
from sysid_ros.nodes.doctor import (
    Check,
    State,
    check_installation,
    check_ros,
    checks_of,
    strange_memory,
)

ROOT = Path(__file__).resolve().parents[2]
JOINTS = {'topic': '/joint_states', 'types': ['sensor_msgs/msg/JointState']}


def said(checks: Any) -> dict[str, Check]:
    return {check.subject: check for check in checks}


def seen(messages: int, memory: str = '') -> dict[str, Check]:
    return said(checks_of([{**JOINTS, 'messages': messages}], 2.0, memory))


@pytest.fixture
def undrawn_doctor(monkeypatch: pytest.MonkeyPatch):
    """Draw nothing: that takes a second."""
    drawn = Check('rendering', State.OK, '')
    monkeypatch.setattr(doctor, '_rendering', lambda: drawn)


def test_joint_states_that_arrive_are_told_with_their_rate():
    found = seen(200)
    assert found.keys() == {'/joint_states'}
    assert '100 Hz' in found['/joint_states'].found


def test_joint_states_that_do_not_arrive_have_a_remedy():
    check = seen(0)['joint states']
    assert 'nothing arrives' in check.found
    assert 'FASTDDS_BUILTIN_TRANSPORTS=UDPv4' in check.remedy
    assert seen(0, 'another user')['joint states'].remedy == 'another user'


def test_where_nobody_publishes_domain_and_range_are_named(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv('ROS_DOMAIN_ID', '42')
    monkeypatch.setenv('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    check = said(checks_of([], 2.0, ''))['joint states']
    assert 'here ROS_DOMAIN_ID 42, ROS_AUTOMATIC_DISCOVERY_RANGE LOCALHOST' in check.remedy
    assert 'export ROS_AUTOMATIC_DISCOVERY_RANGE=SUBNET' in check.remedy


def test_shared_memory_of_another_user_is_told_from_ones_own(tmp_path: Path):
    (tmp_path / 'fastrtps_1').touch()
    assert strange_memory(tmp_path, os.getuid()) == ''
    assert 'run as that user' in strange_memory(tmp_path, os.getuid() + 1)
    assert strange_memory(tmp_path / 'nothing', 0) == ''


@pytest.mark.usefixtures('undrawn_doctor')
def test_of_two_mujocos_in_one_folder_the_one_that_is_imported_counts(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr('mujoco.__version__', '3.3.0')
    check = said(check_installation())['mujoco-core']
    assert check.state is State.MISSING
    assert check.found.startswith('3.3.0, expected')


def test_without_rclpy_the_rest_still_works(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor.importlib.util, 'find_spec', lambda _: None)
    (check,) = check_ros()
    assert check.state is State.OPTIONAL
    assert "pip install 'sysid_ros[ros]'" in check.remedy


def test_a_middleware_that_hangs_is_told_and_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
):
    def hang(command: list[str], **options: Any) -> None:
        assert options['timeout'] < 60
        raise subprocess.TimeoutExpired(command, options['timeout'])

    monkeypatch.setattr(doctor.subprocess, 'run', hang)
    monkeypatch.setattr(doctor.importlib.util, 'find_spec', lambda _: object())
    assert said(check_ros())['graph'].found == 'the middleware does not answer'


@pytest.mark.usefixtures('undrawn_doctor')
def test_what_is_missing_or_too_old_has_a_line_to_type(
    monkeypatch: pytest.MonkeyPatch,
):
    needed = ['numpy>=99', 'absent-thing>=1.0', 'absent-too; extra == "fleet"']
    monkeypatch.setattr(metadata, 'requires', lambda _: needed)
    found = said(check_installation())
    assert found['numpy'].state is State.MISSING
    assert 'expected >=99' in found['numpy'].found
    assert found['absent-thing'].remedy == "pip install 'absent-thing>=1.0'"
    assert found['extra fleet'].state is State.OPTIONAL
    assert "pip install 'sysid_ros[fleet]'" in found['extra fleet'].remedy


@pytest.mark.slow
@pytest.mark.usefixtures('undrawn_doctor')
def test_the_command_ends_with_0_where_all_that_is_needed_is_there(
    sysid: Sysid, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(doctor.importlib.util, 'find_spec', lambda _: None)
    done = sysid('doctor', '--json')
    found = {check['subject']: check for check in json.loads(done.out)['checks']}
    assert (done.code, done.err) == (0, '')
    assert sys.executable in found['Python']['found']
    assert sysid('doctor').out.splitlines()[0].startswith('ok       Python')


@pytest.mark.ros
def test_a_topic_is_seen_with_its_rate_in_its_own_domain(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
):
    arm = ROOT / 'config' / 'demo' / 'arm.xml'
    robot = start_node('simulated_robot', model=arm)
    robot.wait_for_line('simulated robot ready')
    found: dict[str, Check] = {}
    # On a busy machine discovery takes longer than anyone wants to wait on another.
    while '/joint_states' not in found:
        found = said(check_ros(3.0))
    assert 'sensor_msgs/msg/JointState' in found['/joint_states'].found
    assert 'joint states' not in found
    monkeypatch.setenv('ROS_DOMAIN_ID', '49')
    assert said(check_ros(0.5))['joint states'].found == 'nobody publishes them here'

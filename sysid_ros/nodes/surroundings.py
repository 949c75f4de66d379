# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What of ROS is seen from here; no ROS is needed to say that there is none."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sysid_ros.bags.message_types import JOINT_STATE
from sysid_ros.pipeline.installation import Check, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: So long the graph is listened to, s, ...
LOOK_S = 2.0
#: ... and so much longer a middleware may take that does not answer.
_ANSWERS_S = 20.0
#: Packages with the messages of our nodes, and one whose messages are recorded where it is there.
_MESSAGES = ('sensor_msgs', 'std_msgs', 'std_srvs', 'diagnostic_msgs', 'trajectory_msgs')
_CONTROL = 'control_msgs'
#: Where Fast DDS keeps its shared memory.
_SHARED = '/dev/shm'  # noqa: S108 (is looked at only)


def check_ros(seconds: float = LOOK_S) -> Iterator[Check]:
    """Yield what is seen of ROS.

    Args:
        seconds: So long the graph is listened to.
    """
    if importlib.util.find_spec('rclpy') is None:
        remedy = (
            "source /opt/ros/jazzy/setup.bash, or pip install 'sysid_ros[ros]'; bags are "
            'calibrated without'
        )
        yield Check('ROS', State.OPTIONAL, 'rclpy is not there: no nodes on this machine', remedy)
        return
    domain = os.environ.get('ROS_DOMAIN_ID', '0')
    reach = os.environ.get('ROS_AUTOMATIC_DISCOVERY_RANGE', 'SUBNET')
    middleware = os.environ.get('RMW_IMPLEMENTATION', "the distribution's own")
    where = (
        f'ROS_DOMAIN_ID {domain}, ROS_AUTOMATIC_DISCOVERY_RANGE {reach}, RMW_IMPLEMENTATION '
        f'{middleware}'
    )
    distribution = os.environ.get('ROS_DISTRO')
    yield Check('ROS', State.OK, f'{distribution or "rclpy, ROS_DISTRO is not set"}; {where}')
    absent = [name for name in (*_MESSAGES, _CONTROL) if importlib.util.find_spec(name) is None]
    needed = [name for name in absent if name != _CONTROL]
    debian = ' '.join(f'ros-jazzy-{name.replace("_", "-")}' for name in absent)
    yield Check(
        'messages',
        State.MISSING if needed else State.OPTIONAL if absent else State.OK,
        f'without {", ".join(absent)}' if absent else 'all packages that nodes use',
        f"apt install {debian}, or pip install 'sysid_ros[ros]'" if absent else '',
    )
    yield from _graph(seconds)


def _graph(seconds: float) -> Iterator[Check]:
    """Yield the topics that are there now, and whether joint states arrive."""
    try:
        done = subprocess.run(
            [sys.executable, '-m', 'sysid_ros.nodes.ros.look', str(seconds)],
            capture_output=True,
            text=True,
            timeout=seconds + _ANSWERS_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        remedy = 'check the network, or export RMW_IMPLEMENTATION=rmw_fastrtps_cpp'
        yield Check('graph', State.MISSING, 'the middleware does not answer', remedy)
        return
    if done.returncode:
        reason = done.stderr.strip().rpartition('\n')[2] or 'no reason given'
        yield Check('graph', State.MISSING, reason, 'source the setup.bash of your ROS again')
        return
    topics = json.loads(done.stdout.strip().splitlines()[-1])
    yield from checks_of(topics, seconds, strange_memory(Path(_SHARED), os.getuid()))


def checks_of(topics: Sequence[dict[str, Any]], seconds: float, memory: str) -> Iterator[Check]:
    """Yield what there is to say of the topics that were seen.

    Args:
        topics: As `nodes.ros.look.look` returns them.
        seconds: So long it listened.
        memory: Whose shared memory is in the way; empty where none is.
    """
    for item in topics:
        rate = f'{item["rate"]:.0f} Hz' if item['messages'] > 1 else f'{item["messages"]} messages'
        findings = ''.join(f'; {text}' for text in item['findings'])
        yield Check(
            item['topic'],
            State.OK,
            f'{", ".join(item["types"])}, {rate} in {seconds:g} s{findings}',
        )
    states = [item for item in topics if JOINT_STATE in item['types']]
    if any(item['messages'] for item in states):
        return
    if states:
        names = ', '.join(item['topic'] for item in states)
        remedy = memory or (
            'is its publisher paused? else export FASTDDS_BUILTIN_TRANSPORTS=UDPv4 on both sides, '
            'and check the firewall'
        )
        yield Check(
            'joint states', State.OPTIONAL, f'{names} is published, nothing arrives', remedy
        )
        return
    domain = os.environ.get('ROS_DOMAIN_ID', '0')
    reach = os.environ.get('ROS_AUTOMATIC_DISCOVERY_RANGE', 'SUBNET')
    here = ''
    if reach.upper() in ('LOCALHOST', 'OFF'):
        here = (
            f'; discovery is {reach}: for a robot on the network export '
            'ROS_AUTOMATIC_DISCOVERY_RANGE=SUBNET'
        )
    remedy = (
        f'start the robot (joint_state_broadcaster), and use its ROS_DOMAIN_ID, here {domain}{here}'
        f'{"; " + memory if memory else ""}'
    )
    yield Check('joint states', State.OPTIONAL, 'nobody publishes them here', remedy)


def strange_memory(folder: Path, user: int) -> str:
    """Say that other users' DDS shared memory is on this machine; empty where none is.

    What one user has opened another cannot write: topics are seen, and nothing arrives.
    """
    if not folder.is_dir():
        return ''
    others = {
        file.stat().st_uid for file in folder.glob('fastrtps_*') if file.stat().st_uid != user
    }
    if not others:
        return ''
    return (
        'processes of another user hold DDS shared memory here, which keeps messages from this '
        'one: run as that user, or export FASTDDS_BUILTIN_TRANSPORTS=UDPv4 on both sides'
    )

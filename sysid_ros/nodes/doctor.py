# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is installed here and what of ROS is seen; no ROS is needed to say that there is none.

``python -m sysid_ros.nodes.doctor SECONDS`` prints the topics of the graph as JSON. It runs in a
process of its own, which its parent ends when the middleware does not answer.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement

from sysid_ros.bags.message_types import JOINT_STATE
from sysid_ros.errors import RosError
from sysid_ros.nodes.graph import Offer, message_class, offers
from sysid_ros.nodes.runtime import WORK_SECONDS, import_rclpy
from sysid_ros.version import __version__

_PACKAGE = 'sysid_ros'
#: Extras that only developers need.
_OF_DEVELOPERS = frozenset({'test', 'docs', 'bench'})
_DRAW = """
from sysid_ros.report.rendering import gl_context
with gl_context(16, 16):
    print("drawn")
"""
_HANGS = 'does not answer'
#: Packages with the messages of our nodes.
_MESSAGES = ('sensor_msgs', 'std_msgs', 'std_srvs', 'diagnostic_msgs', 'trajectory_msgs')
#: Topics that every node has, which say nothing of a robot.
_OF_NODES = frozenset({'/parameter_events', '/rosout'})


class State(StrEnum):
    """Whether something is as it has to be."""

    OK = 'ok'
    OPTIONAL = 'optional'
    MISSING = 'missing'


class Check(NamedTuple):
    """One thing that was looked at; an optional thing that is missing is needed for some only."""

    subject: str
    state: State
    found: str
    remedy: str = ''


def check_installation() -> Iterator[Check]:
    """Yield what was found of Python and of packages, and whether films can be drawn."""
    version = platform.python_version()
    yield Check('Python', State.OK, f'{version} ({sys.executable}), {_PACKAGE} {__version__}')
    try:
        own = metadata.metadata(_PACKAGE)
    except metadata.PackageNotFoundError:
        yield Check(_PACKAGE, State.MISSING, 'not installed itself', 'pip install . in its folder')
        return
    needed = [Requirement(line) for line in metadata.requires(_PACKAGE) or []]
    always = [item for item in needed if not item.marker or item.marker.evaluate({'extra': ''})]
    wrong = [check for item in always if (check := _package(item)) is not None]
    yield from wrong
    if not wrong:
        yield Check('packages', State.OK, f'all {len(always)} that are needed')
    for extra in sorted(set(own.get_all('Provides-Extra') or []) - _OF_DEVELOPERS):
        more = [
            item
            for item in needed
            if item not in always and item.marker and item.marker.evaluate({'extra': extra})
        ]
        lacking = ', '.join(item.name for item in more if _package(item) is not None)
        if lacking:
            remedy = f"pip install '{_PACKAGE}[{extra}]', from a clone pip install '.[{extra}]'"
            yield Check(f'extra {extra}', State.OPTIONAL, f'without {lacking}', remedy)
        elif more:
            yield Check(f'extra {extra}', State.OK, 'all that it needs')
    yield _rendering()


def _version(name: str) -> str:
    """Return the version of what is there: `mujoco` and `mujoco-core` share one folder."""
    if name.partition('-')[0] != 'mujoco':
        return metadata.version(name)
    try:
        return str(importlib.import_module('mujoco').__version__)
    except ImportError as err:
        raise metadata.PackageNotFoundError(name) from err


def _package(item: Requirement) -> Check | None:
    """Return what is wrong with a package; None where it is there and new enough."""
    try:
        found = _version(item.name)
        if item.specifier.contains(found, prereleases=True):
            return None
        found += f', expected {item.specifier}'
    except metadata.PackageNotFoundError:
        found = 'not installed'
    return Check(item.name, State.MISSING, found, f"pip install '{item.name}{item.specifier}'")


def _ask(*arguments: str, timeout: float, **environment: str) -> tuple[bool, str, str]:
    """Run Python in a process of its own; return success, and last lines of output and errors."""
    command, env = [sys.executable, *arguments], {**os.environ, **environment}
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return False, '', _HANGS
    output, errors = (text.strip().rpartition('\n')[2] for text in (done.stdout, done.stderr))
    return not done.returncode, output, errors or 'no reason given'


def _rendering() -> Check:
    """Draw on each platform in a process of its own: some drivers end the process that asks."""
    asked = os.environ.get('MUJOCO_GL', '')
    reason = ''
    for name in (asked,) if asked else ('egl', 'osmesa'):
        _, drawn, reason = _ask('-c', _DRAW, timeout=WORK_SECONDS, MUJOCO_GL=name)
        if drawn == 'drawn':
            return Check('rendering', State.OK, f'{name.upper()} draws without a display')
    return Check(
        'rendering',
        State.OPTIONAL,
        f'for films only; {name}: {reason.rpartition("Error: ")[2]}',
        "pip install 'sysid_ros[viewer]' and apt install libegl1 libgl1, or libosmesa6",
    )


def check_ros(seconds: float = 2.0) -> Iterator[Check]:
    """Yield what is seen of ROS while the graph is listened to for so many seconds."""
    if importlib.util.find_spec('rclpy') is None:
        remedy = (
            "source /opt/ros/jazzy/setup.bash, or pip install 'sysid_ros[ros]'; bags are "
            'calibrated without'
        )
        yield Check('ROS', State.OPTIONAL, 'rclpy is not there: no nodes on this machine', remedy)
        return
    distribution = os.environ.get('ROS_DISTRO', 'rclpy, ROS_DISTRO is not set')
    middleware = os.environ.get('RMW_IMPLEMENTATION', "the distribution's own")
    yield Check('ROS', State.OK, f'{distribution}; {_where()}, RMW_IMPLEMENTATION {middleware}')
    absent = [name for name in _MESSAGES if importlib.util.find_spec(name) is None]
    if absent:
        debian = ' '.join(f'ros-jazzy-{name.replace("_", "-")}' for name in absent)
        remedy = f"apt install {debian}, or pip install 'sysid_ros[ros]'"
        yield Check('messages', State.MISSING, f'without {", ".join(absent)}', remedy)
    module = ('-m', 'sysid_ros.nodes.doctor', str(seconds))
    succeeded, answer, reason = _ask(*module, timeout=seconds + WORK_SECONDS)
    if succeeded:
        memory = strange_memory(Path('/dev/shm'), os.getuid())  # noqa: S108 (is looked at only)
        yield from checks_of(json.loads(answer), seconds, memory)
    elif reason == _HANGS:
        remedy = 'check the network, or export RMW_IMPLEMENTATION=rmw_fastrtps_cpp'
        yield Check('graph', State.MISSING, f'the middleware {reason}', remedy)
    else:
        yield Check('graph', State.MISSING, reason, 'source the setup.bash of your ROS again')


def _where() -> str:
    domain = os.environ.get('ROS_DOMAIN_ID', '0')
    reach = os.environ.get('ROS_AUTOMATIC_DISCOVERY_RANGE', 'SUBNET')
    return f'ROS_DOMAIN_ID {domain}, ROS_AUTOMATIC_DISCOVERY_RANGE {reach}'


def checks_of(topics: Sequence[dict[str, Any]], seconds: float, memory: str) -> Iterator[Check]:
    """Yield what there is to say of topics as `look` returns them.

    ``memory`` says whose shared memory is in the way; it is empty where none is.
    """
    for item in topics:
        found = f'{", ".join(item["types"])}, {item["messages"] / seconds:.0f} Hz'
        yield Check(item['topic'], State.OK, found)
    states = [item for item in topics if JOINT_STATE in item['types']]
    if any(item['messages'] for item in states):
        return
    if states:
        found = f'{", ".join(item["topic"] for item in states)} is published, nothing arrives'
        remedy = memory or (
            'is its publisher paused? else export FASTDDS_BUILTIN_TRANSPORTS=UDPv4 on both sides, '
            'and check the firewall'
        )
    else:
        found = 'nobody publishes them here'
        remedy = (
            'start the robot (joint_state_broadcaster), and use its domain; for a robot on the '
            f'network export ROS_AUTOMATIC_DISCOVERY_RANGE=SUBNET; here {_where()}'
        )
    yield Check('joint states', State.OPTIONAL, found, remedy)


def strange_memory(folder: Path, user: int) -> str:
    """Say that other users' DDS shared memory is on this machine; empty where none is.

    What one user has opened another cannot write: topics are seen, and nothing arrives.
    """
    if all(file.stat().st_uid == user for file in folder.glob('fastrtps_*')):
        return ''
    return (
        'processes of another user hold DDS shared memory here, which keeps messages from this '
        'one: run as that user, or export FASTDDS_BUILTIN_TRANSPORTS=UDPv4 on both sides'
    )


def look(seconds: float) -> list[dict[str, Any]]:
    """Return topic, types and number of messages of what is published within some seconds."""
    rclpy = import_rclpy()
    rclpy.init(args=[])
    node = rclpy.create_node('sysid_doctor')
    known: dict[str, Offer] = {}
    counts: dict[str, int] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for found in offers(node):
            if found.publishers and found.topic not in _OF_NODES | known.keys():
                known[found.topic] = found
                _listen(node, found, counts)
        rclpy.spin_once(node, timeout_sec=0.05)
    rclpy.try_shutdown()
    return [
        {'topic': topic, 'types': list(found.msgtypes), 'messages': counts.get(topic, 0)}
        for topic, found in sorted(known.items())
    ]


def _listen(node: Any, found: Offer, counts: dict[str, int]) -> None:
    """Count the messages of a topic, as any of its publishers sends them."""
    from rclpy.qos import QoSProfile, ReliabilityPolicy  # noqa: PLC0415 (needs ROS)

    def take(_: bytes) -> None:
        counts[found.topic] = counts.get(found.topic, 0) + 1

    qos = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
    # A type that is not installed can be seen, and not be listened to.
    with contextlib.suppress(RosError):
        kind = message_class(found.topic, found.msgtypes[0])
        node.create_subscription(kind, found.topic, take, qos, raw=True)


if __name__ == '__main__':
    print(json.dumps(look(float(sys.argv[1]))))  # noqa: T201 (escaped as JSON)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Record a bag of the simulated pendulum: simulated_robot, recorder and exciter, as processes.

    python test/data/record.py OUTPUT TRUTH SEED SECONDS

The nodes come from the package; the environment must have ROS 2 (``sysid_ros[ros]``).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

MODEL = Path(__file__).parent / 'pendulum' / 'arm.xml'
STATES = '/joint_states'
COMMANDS = '/forward_position_controller/commands'


def start(node: str, **parameters: object) -> subprocess.Popen[str]:
    """Start a node of the package."""
    arguments = [sys.executable, '-m', 'sysid_ros.nodes', node, '--ros-args']
    for key, value in parameters.items():
        arguments += ['-p', f'{key}:={value}']
    return subprocess.Popen(arguments, text=True, env=os.environ)


def record(output: str, truth: str, seed: int, duration: float) -> int:
    """Record one motion; the robot reports at 100 Hz so that the bag stays small."""
    robot = start('simulated_robot', model=MODEL, truth=truth, seed=seed, rate=100.0)
    recorder = start('recorder', output=output, topics=f"['{STATES}', '{COMMANDS}']")
    exciter = start(
        'exciter', model=MODEL, seed=seed, duration=duration, amplitude=0.7, max_frequency=2.5
    )
    codes = [exciter.wait()]
    for process in (recorder, robot):
        process.send_signal(signal.SIGINT)
        codes.append(process.wait())
    return max(codes)


if __name__ == '__main__':
    os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    os.environ.setdefault('ROS_DOMAIN_ID', str(os.getpid() % 100 + 1))
    path, hidden, number, seconds = sys.argv[1:]
    sys.exit(record(path, hidden, int(number), float(seconds)))

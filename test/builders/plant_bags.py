# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Bags of simulated robots, without ROS and without waiting for the clock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from builders import messages
from sysid_ros.bags.writer import BagWriter
from sysid_ros.plant import Plant

START = 1_700_000_000_000_000_000


def record(path: Path, plant: Plant, goals: Callable[[float], np.ndarray], seconds: float) -> None:
    """Let a plant follow goals, and write its states and the goals into a bag, all stamps exact."""
    rows: list[tuple[str, int, bytes]] = []
    for tick in range(round(seconds * 100)):
        now = tick / 100
        plant.command(now, goals(now))
        rows.append(('/goals', round(now * 1e9), messages.array(goals(now))))
        for sample in plant.advance(now + 0.01):
            at, told = round(sample.time * 1e9), (sample.position, sample.velocity, sample.effort)
            state = messages.joint_state(START + at, plant.joints, *told)
            rows.append(('/joint_states', at, state))
    kinds = {
        '/joint_states': 'sensor_msgs/msg/JointState',
        '/goals': 'std_msgs/msg/Float64MultiArray',
    }
    with BagWriter(path) as bag:
        for topic, kind in kinds.items():
            bag.add_topic(topic, kind)
        for topic, at, data in sorted(rows, key=lambda item: item[1]):
            bag.write(topic, START + at, data)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Bags of simulated robots, without ROS and without waiting for the clock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.typesys import Stores, get_typestore

from sysid_ros.bags.writer import BagWriter
from sysid_ros.plant import Plant

STORE = get_typestore(Stores.ROS2_JAZZY)
START = 1_700_000_000_000_000_000


def record(path: Path, plant: Plant, goals: Callable[[float], np.ndarray], seconds: float) -> None:
    """Let a plant follow goals, and write its states and the goals into a bag, all stamps exact."""
    state, header, stamp = (
        STORE.types[name]
        for name in (
            'sensor_msgs/msg/JointState',
            'std_msgs/msg/Header',
            'builtin_interfaces/msg/Time',
        )
    )
    layout = STORE.types['std_msgs/msg/MultiArrayLayout'](dim=[], data_offset=0)
    array = STORE.types['std_msgs/msg/Float64MultiArray']
    messages: list[tuple[str, int, Any]] = []
    for tick in range(round(seconds * 100)):
        now = tick / 100
        plant.command(now, goals(now))
        messages.append(('/goals', round(now * 1e9), array(layout=layout, data=goals(now))))
        for sample in plant.advance(now + 0.01):
            at = round(sample.time * 1e9)
            stamped = header(
                stamp=stamp(sec=(START + at) // 10**9, nanosec=(START + at) % 10**9), frame_id=''
            )
            messages.append(
                (
                    '/joint_states',
                    at,
                    state(
                        header=stamped,
                        name=list(plant.joints),
                        position=sample.position,
                        velocity=sample.velocity,
                        effort=sample.effort,
                    ),
                )
            )
    kinds = {'/joint_states': state.__msgtype__, '/goals': array.__msgtype__}
    with BagWriter(path) as bag:
        for topic, kind in kinds.items():
            bag.add_topic(topic, kind)
        for topic, at, message in sorted(messages, key=lambda item: item[1]):
            bag.write(topic, START + at, bytes(STORE.serialize_cdr(message, kinds[topic])))

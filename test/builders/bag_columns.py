# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A model and bags for the tests of alignment."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from sysid_ros.bags import BagColumns, Field, TopicColumns

START = 1_700_000_000_000_000_000
SECOND = 1_000_000_000

# Sensors and actuators are deliberately in another order than the joints.
ARM = """
<mujoco>
  <option integrator="implicitfast"><flag contact="disable"/></option>
  <default><joint axis="0 1 0" armature="1"/></default>
  <worldbody>
    <body><joint name="shoulder"/><geom size=".1" mass="1" pos=".2 0 0"/>
      <body pos=".4 0 0"><joint name="elbow"/><geom size=".1" mass="1" pos=".2 0 0"/>
        <body pos=".4 0 0"><joint name="wrist" ref=".1"/><geom size=".1" mass="1"/>
        </body>
      </body>
    </body>
    <body><freejoint name="ball"/><geom size=".1" mass="1"/></body>
  </worldbody>
  <actuator>
    <position name="drive_e" joint="elbow" kp="50"/>
    <velocity name="drive_w" joint="wrist" kv="5"/>
    <position name="drive_s" joint="shoulder" kp="50"/>
  </actuator>
  <sensor>
    <jointvel name="s3" joint="elbow"/>
    <jointpos name="s1" joint="elbow"/>
    <jointpos name="s0" joint="shoulder"/>
    <jointactuatorfrc name="s5" joint="shoulder"/>
    <jointpos name="s2" joint="wrist"/>
    <framepos name="s6" objtype="body" objname="world"/>
  </sensor>
</mujoco>
"""


@pytest.fixture
def arm() -> mujoco.MjModel:
    """Return a model with three named joints and a free one."""
    return mujoco.MjModel.from_xml_string(ARM)


class Columns:
    """Makes topics from columns."""

    start = START

    def topic(
        self,
        name: str,
        times: NDArray[np.float64],
        fields: dict[str, dict[str, Any]],
        *,
        msgtype: str = 'sensor_msgs/msg/JointState',
        receive: NDArray[np.float64] | None = None,
        header: bool = True,
    ) -> TopicColumns:
        """Make a topic: times in s from START, field name to label to (n,) values."""
        times = np.asarray(times, dtype=float)
        stamps = START + np.round(times * SECOND).astype(np.int64)
        received = (
            stamps.copy() if receive is None else START + np.round(receive * SECOND).astype(int)
        )
        made = tuple(
            Field(
                field,
                tuple(labels),
                np.column_stack([np.broadcast_to(item, len(times)) for item in labels.values()]),
            )
            for field, labels in fields.items()
        )
        return TopicColumns(name, msgtype, received, stamps if header else None, made)

    def bag(self, *topics: TopicColumns) -> BagColumns:
        """Make a bag."""
        return BagColumns(Path('run'), tuple(sorted(topics, key=lambda item: item.topic)), ())

    def state(self, times: NDArray[np.float64], name: str = '/joint_states') -> TopicColumns:
        """Make joint states in which every joint moves at its own speed."""
        times = np.asarray(times, dtype=float)
        position = {'wrist': 3 * times, 'shoulder': times, 'elbow': 2 * times}
        velocity = {joint: np.cos(times) + column for column, joint in enumerate(position)}
        return self.topic(name, times, {'position': position, 'velocity': velocity})

    def array(
        self,
        times: NDArray[np.float64],
        width: int = 3,
        name: str = '/controller/commands',
        *,
        sent: NDArray[np.float64] | None = None,
    ) -> TopicColumns:
        """Make an array topic whose element i is i + time; NaN where it is not known when sent."""
        times = np.asarray(times, dtype=float)
        data = {str(index): index + times for index in range(width)}
        kind = 'std_msgs/msg/Float64MultiArray'
        made = self.topic(name, times, {'data': data}, msgtype=kind, header=False)
        if sent is None:
            return made
        stamps = START + np.round(np.nan_to_num(sent) * SECOND).astype(np.int64)
        return dataclasses.replace(made, sent_ns=np.where(np.isnan(sent), 0, stamps))


@pytest.fixture
def columns() -> Columns:
    """Return functions that make topics and bags."""
    return Columns()


@pytest.fixture
def hinges() -> Callable[[Sequence[str]], mujoco.MjModel]:
    """Return a function that makes a model of driven hinges with position and velocity sensors."""

    def make(names: Sequence[str]) -> mujoco.MjModel:
        bodies = ''.join(
            f'<body><joint name="{name}"/><geom size=".1" pos=".1 0 0"/></body>' for name in names
        )
        drives = ''.join(f'<position name="m_{name}" joint="{name}" kp="9"/>' for name in names)
        sensors = ''.join(
            f'<jointpos name="p_{name}" joint="{name}"/><jointvel name="v_{name}" joint="{name}"/>'
            f'<jointactuatorfrc name="f_{name}" joint="{name}"/>'
            for name in names
        )
        return mujoco.MjModel.from_xml_string(
            f'<mujoco><worldbody>{bodies}</worldbody><actuator>{drives}</actuator>'
            f'<sensor>{sensors}</sensor></mujoco>'
        )

    return make


@pytest.fixture
def real_bags(shared_data: Path) -> Path:
    """Return the folder of recordings from real robots."""
    return shared_data / 'bags'

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Serialised messages, made by an independent implementation of CDR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rosbags.typesys import Stores, get_typestore

_STORE = get_typestore(Stores.ROS2_JAZZY)
_Stamp = _STORE.types['builtin_interfaces/msg/Time']
_Span = _STORE.types['builtin_interfaces/msg/Duration']
_Header = _STORE.types['std_msgs/msg/Header']
_JointState = _STORE.types['sensor_msgs/msg/JointState']
_Trajectory = _STORE.types['trajectory_msgs/msg/JointTrajectory']
_Point = _STORE.types['trajectory_msgs/msg/JointTrajectoryPoint']
_WrenchStamped = _STORE.types['geometry_msgs/msg/WrenchStamped']
_Wrench = _STORE.types['geometry_msgs/msg/Wrench']
_Vector = _STORE.types['geometry_msgs/msg/Vector3']
_Array = _STORE.types['std_msgs/msg/Float64MultiArray']
_Layout = _STORE.types['std_msgs/msg/MultiArrayLayout']
_Dimension = _STORE.types['std_msgs/msg/MultiArrayDimension']
_String = _STORE.types['std_msgs/msg/String']

SECOND = 1_000_000_000


def _header(stamp_ns: int, frame: str) -> object:
    return _Header(stamp=_Stamp(sec=stamp_ns // SECOND, nanosec=stamp_ns % SECOND), frame_id=frame)


def joint_state(
    stamp_ns: int,
    names: Sequence[str],
    position: Sequence[float] = (),
    velocity: Sequence[float] = (),
    effort: Sequence[float] = (),
    *,
    frame: str = '',
) -> bytes:
    """Serialise a JointState."""
    message = _JointState(
        header=_header(stamp_ns, frame),
        name=list(names),
        position=np.array(position, dtype=float),
        velocity=np.array(velocity, dtype=float),
        effort=np.array(effort, dtype=float),
    )
    return bytes(_STORE.serialize_cdr(message, message.__msgtype__))


def trajectory(
    stamp_ns: int,
    names: Sequence[str],
    points: Sequence[tuple[Any, ...]],
) -> bytes:
    """Serialise a JointTrajectory from (seconds from start, positions), or with velocities."""
    none = np.array([], dtype=float)
    message = _Trajectory(
        header=_header(stamp_ns, ''),
        joint_names=list(names),
        points=[
            _Point(
                positions=np.array(position, dtype=float),
                velocities=np.array(*velocities, dtype=float) if velocities else none,
                accelerations=none,
                effort=none,
                time_from_start=_Span(sec=int(after), nanosec=round(after % 1 * SECOND)),
            )
            for after, position, *velocities in points
        ],
    )
    return bytes(_STORE.serialize_cdr(message, message.__msgtype__))


def wrench(stamp_ns: int, force: Sequence[float], torque: Sequence[float]) -> bytes:
    """Serialise a WrenchStamped."""
    both = [dict(zip('xyz', map(float, vector), strict=True)) for vector in (force, torque)]
    message = _WrenchStamped(
        header=_header(stamp_ns, 'wrist'),
        wrench=_Wrench(force=_Vector(**both[0]), torque=_Vector(**both[1])),
    )
    return bytes(_STORE.serialize_cdr(message, message.__msgtype__))


def array(values: Sequence[float], *, dimensions: Sequence[str] = ()) -> bytes:
    """Serialise a Float64MultiArray."""
    dim = [_Dimension(label=name, size=len(values), stride=1) for name in dimensions]
    layout = _Layout(dim=dim, data_offset=0)
    message = _Array(layout=layout, data=np.array(values, dtype=float))
    return bytes(_STORE.serialize_cdr(message, message.__msgtype__))


def text(text: str) -> bytes:
    """Serialise a String."""
    return bytes(_STORE.serialize_cdr(_String(data=text), 'std_msgs/msg/String'))

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How far errors of joint positions move the end of the robot."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.results.diagnostics import SignalCurve
from sysid_ros.results.result import ROLES, ToolError

Values = NDArray[np.float64]

#: Words in the name of a site that is where a robot works.
_TOOL = re.compile(
    r'tool|tcp|ee$|ee_|eef|end_?effector|attachment|gripper|flange|tip|pinch', re.IGNORECASE
)
#: So many poses of each role are compared at most.
_POSES = 1000
_WITH_POSITION = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))


class _Point(NamedTuple):
    """A site, or the centre of mass of a body where ``site`` is -1."""

    body: int
    site: int

    def name(self, model: mujoco.MjModel) -> str:
        if self.site >= 0:
            return f'site/{model.site(self.site).name}'
        return f'body/{model.body(self.body).name}'

    def place(self, data: mujoco.MjData) -> Values:
        where: Values = data.site_xpos[self.site] if self.site >= 0 else data.xipos[self.body]
        return where.copy()


def tool_errors(model: mujoco.MjModel, curves: Sequence[SignalCurve]) -> tuple[ToolError, ...]:
    """Compare where measured and predicted joint positions put the end of the longest chain.

    That is a site that is named as a tool is, if the chain has one, else the centre of mass of
    the last body. All of it is kinematics of the nominal model.

    Returns:
        One of each role; none where a joint on the way to the point was not measured.
    """
    point = _end(model)
    if point is None:
        return ()
    sensors = _sensors(model, _joints(model, point.body))
    if sensors is None:
        return ()
    found = []
    for role in ROLES:
        poses = list(_poses([c for c in curves if c.role == role], sensors))
        if not poses:
            continue
        before, after = (
            math.sqrt(np.mean(np.square(distances)))
            for distances in _distances(model, point, list(sensors.values()), poses)
        )
        found.append(
            ToolError(
                point=point.name(model), role=role, before=before, after=after, poses=len(poses)
            )
        )
    return tuple(found)


def _end(model: mujoco.MjModel) -> _Point | None:
    """Return the end of the longest chain; None where nothing moves."""
    depths = [len(_joints(model, body)) for body in range(model.nbody)]
    longest = max(depths)
    if not longest:
        return None
    ends = [body for body in range(model.nbody) if depths[body] == longest]
    for site in range(model.nsite):
        body = int(model.site_bodyid[site])
        if body in ends and _TOOL.search(model.site(site).name):
            return _Point(body, site)
    # The last body of it: bodies come after their parents.
    return _Point(ends[-1], -1)


def _joints(model: mujoco.MjModel, body: int) -> list[int]:
    """Return the joints between the world and a body."""
    found: list[int] = []
    while body:
        first = int(model.body_jntadr[body])
        found += range(first, first + int(model.body_jntnum[body]))
        body = int(model.body_parentid[body])
    return found


def _sensors(model: mujoco.MjModel, joints: Sequence[int]) -> dict[str, int] | None:
    """Return the position sensor of each joint and where its value goes; None if one has none."""
    by_joint = {
        int(model.sensor_objid[sensor]): model.sensor(sensor).name
        for sensor in np.flatnonzero(model.sensor_type == mujoco.mjtSensor.mjSENS_JOINTPOS)
    }
    if any(j not in by_joint or model.jnt_type[j] not in _WITH_POSITION for j in joints):
        return None
    return {by_joint[joint]: int(model.jnt_qposadr[joint]) for joint in joints}


def _poses(curves: Sequence[SignalCurve], sensors: Mapping[str, int]) -> Iterator[Values]:
    """Yield (3, n) positions: measured, predicted by the nominal model and by the fitted one.

    At stamps of the first sensor, where others are interpolated if they have stamps of their own.
    """
    sequences: dict[str, dict[str, SignalCurve]] = {}
    for curve in curves:
        if curve.sensor in sensors:
            sequences.setdefault(curve.sequence, {})[curve.sensor] = curve
    for own in sequences.values():
        if own.keys() != sensors.keys():
            continue
        times = own[next(iter(sensors))].times
        stride = max(math.ceil(len(times) * len(sequences) / _POSES), 1)
        rows = np.stack([_at(times[::stride], own[sensor]) for sensor in sensors], axis=-1)
        yield from np.moveaxis(rows, 0, 1)[np.isfinite(rows).all(axis=(0, 2))]


def _at(times: Values, curve: SignalCurve) -> Values:
    """Return (3, n) values of a curve at (n,) times."""
    return np.array(
        [np.interp(times, curve.times, v) for v in (curve.measured, curve.before, curve.after)]
    )


def _distances(
    model: mujoco.MjModel, point: _Point, places: Sequence[int], poses: Sequence[Values]
) -> tuple[list[float], list[float]]:
    """Return how far the point is off in each pose, m, by the nominal and by the fitted model."""
    data = mujoco.MjData(model)
    off: tuple[list[float], list[float]] = [], []
    for pose in poses:
        where = []
        for values in pose:
            data.qpos[places] = values
            mujoco.mj_kinematics(model, data)
            where.append(point.place(data))
        for found, place in zip(off, where[1:], strict=True):
            found.append(float(np.linalg.norm(place - where[0])))
    return off

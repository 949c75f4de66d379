# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How much of a recording commands, efforts and positions spend at the model's limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sysid_ros.signals import TimeSeries
    from sysid_ros.signals.trajectory import Trajectory

#: Within this part of a range of its end, a value is at the end.
_NEAR = 1e-3


class Saturation(NamedTuple):
    """A signal at its limit.

    Attributes:
        sequence: Where.
        signal: Name of the actuator or sensor.
        limit: ``ctrlrange``, ``forcerange``, ``actuatorfrcrange`` or ``joint range``.
        share: Part of the time.
    """

    sequence: str
    signal: str
    limit: str
    share: float


def saturations(model: mujoco.MjModel, sequence: Trajectory) -> tuple[Saturation, ...]:
    """Return the signals of a sequence that are at or beyond a limit for some of the time.

    Args:
        model: The compiled nominal model, whose limits count.
        sequence: What was recorded, in units of the model.
    """
    found = []
    for series in sequence.commands:
        for name, low, high in _command_limits(model, series):
            share = _share(series, name, low, high)
            found.append(Saturation(sequence.name, name, 'ctrlrange', share))
    for series in sequence.measurements:
        for name in series.names:
            limit = _sensor_limit(model, name)
            if limit is not None:
                what, low, high = limit
                found.append(Saturation(sequence.name, name, what, _share(series, name, low, high)))
    return tuple(item for item in found if item.share > 0)


def _command_limits(
    model: mujoco.MjModel, series: TimeSeries
) -> Iterator[tuple[str, float, float]]:
    for name in series.names:
        actuator = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_ACTUATOR, name)
        if actuator >= 0 and model.actuator_ctrllimited[actuator]:
            low, high = model.actuator_ctrlrange[actuator]
            yield name, float(low), float(high)


def _sensor_limit(model: mujoco.MjModel, name: str) -> tuple[str, float, float] | None:
    sensor = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, name)
    if sensor < 0:
        return None
    kind, owner = int(model.sensor_type[sensor]), int(model.sensor_objid[sensor])
    for of, what, limited, ranges in (
        (mujoco.mjtSensor.mjSENS_JOINTPOS, 'joint range', model.jnt_limited, model.jnt_range),
        (
            mujoco.mjtSensor.mjSENS_ACTUATORFRC,
            'forcerange',
            model.actuator_forcelimited,
            model.actuator_forcerange,
        ),
        (
            mujoco.mjtSensor.mjSENS_JOINTACTFRC,
            'actuatorfrcrange',
            model.jnt_actfrclimited,
            model.jnt_actfrcrange,
        ),
    ):
        if kind == int(of) and limited[owner]:
            return what, float(ranges[owner, 0]), float(ranges[owner, 1])
    return None


def _share(series: TimeSeries, name: str, low: float, high: float) -> float:
    """Return the part of the time at a limit; each sample stands for the time to the next."""
    values: NDArray[np.float64] = series.data[:, np.atleast_1d(series.signal_mapping[name][1])]
    margin = _NEAR * (high - low)
    at = np.any((values <= low + margin) | (values >= high - margin), axis=1)
    if len(at) < 2:  # noqa: PLR2004 (no duration)
        return float(at.any())
    lasting = np.diff(series.times)
    return float(lasting[at[:-1]].sum() / lasting.sum())

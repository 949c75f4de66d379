# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where a sequence starts: configuration and velocity from what was measured around time zero."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sysid_ros.alignment.health import HealthFinding

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

#: A line or parabola is fitted to the samples within this of time zero, s.
VALUE_WINDOW_S = 0.02
#: The slope of the position stands in for a velocity that is not measured, within this, s.
SLOPE_WINDOW_S = 0.025
#: Where the rate is too low for that window, two samples this close do, s.
LONGEST_SLOPE_S = 0.5
#: With so many samples a parabola is fitted: noise then costs less than curvature.
PARABOLA_SAMPLES = 6


class Channel(NamedTuple):
    """Samples of one sensor around the start of a sequence.

    Attributes:
        sensor: Id of the sensor.
        times: (n,) strictly increasing, s from the start.
        values: (n,) in model units.
    """

    sensor: int
    times: NDArray[np.float64]
    values: NDArray[np.float64]


class InitialState(NamedTuple):
    """The state at time zero.

    Attributes:
        qpos: (nq,) configuration.
        qvel: (nv,) velocity.
        derived: Joints whose velocity is the slope of their position.
    """

    qpos: NDArray[np.float64]
    qvel: NDArray[np.float64]
    derived: tuple[int, ...]


def initial_state(model: mujoco.MjModel, channels: Iterable[Channel]) -> InitialState:
    """Estimate the state at time zero.

    Joints that are not measured start at the model's qpos0, at rest. Where no velocity is measured
    the slope of the polynomial that fits the positions around time zero is taken, over the same
    instants before and after where there are some: the derivative of a Savitzky-Golay filter
    (doi:10.1021/ac60214a047), without its need for a constant period, and like that without phase.

    Args:
        model: The compiled model.
        channels: Samples of the sensors; jointpos and jointvel sensors count.
    """
    qpos = np.array(model.qpos0, dtype=np.float64)
    qvel = np.zeros(model.nv)
    known = [channel for channel in channels if len(channel.times)]
    positions = [item for item in known if _is(model, item, mujoco.mjtSensor.mjSENS_JOINTPOS)]
    velocities = [item for item in known if _is(model, item, mujoco.mjtSensor.mjSENS_JOINTVEL)]
    for channel in positions:
        joint = model.sensor_objid[channel.sensor]
        qpos[model.jnt_qposadr[joint]] = _value_at_zero(channel)
        qvel[model.jnt_dofadr[joint]] = _slope_at_zero(channel)
    for channel in velocities:
        joint = model.sensor_objid[channel.sensor]
        qvel[model.jnt_dofadr[joint]] = _value_at_zero(channel)
    measured = {int(model.sensor_objid[channel.sensor]) for channel in velocities}
    sloped = {int(model.sensor_objid[channel.sensor]) for channel in positions}
    return InitialState(qpos, qvel, tuple(sorted(sloped - measured)))


def derived_findings(
    bag: str, model: mujoco.MjModel, starts: Sequence[InitialState]
) -> list[HealthFinding]:
    """Name the joints whose velocity was derived, and at how many starts."""
    counts = Counter(joint for start in starts for joint in start.derived)
    detail = (
        'no velocity is measured; at the start of each sequence it is the slope of the position '
        f'(polynomial over ±{1e3 * SLOPE_WINDOW_S:g} ms, not causal)'
    )
    return [
        HealthFinding(bag, model.joint(joint).name, 'derived velocity', count, detail)
        for joint, count in sorted(counts.items())
    ]


def _is(model: mujoco.MjModel, channel: Channel, kind: mujoco.mjtSensor) -> bool:
    return bool(model.sensor_type[channel.sensor] == kind)


def _fit(times: NDArray[np.float64], values: NDArray[np.float64]) -> tuple[float, float]:
    """Fit a straight line, or a parabola where there are enough samples.

    The mean of a window of half width w around zero is off by a w² / 6 under an acceleration a:
    3 mrad for 50 rad/s² and 20 ms. The parabola's term of second order takes that up.

    Returns:
        Value and slope at zero.
    """
    scale = float(np.ptp(times))
    if not scale:
        return float(values.mean()), 0.0
    degree = 2 if len(times) >= PARABOLA_SAMPLES else 1
    coefficients = np.polynomial.polynomial.polyfit(times / scale, values, degree)
    return float(coefficients[0]), float(coefficients[1]) / scale


def _value_at_zero(channel: Channel) -> float:
    near = np.flatnonzero(np.abs(channel.times) <= VALUE_WINDOW_S)
    if not len(near):
        near = _nearest(channel, 1)
    return _fit(channel.times[near], channel.values[near])[0]


def _slope_at_zero(channel: Channel) -> float:
    near = np.flatnonzero(np.abs(channel.times) <= SLOPE_WINDOW_S)
    if len(near) < 2:  # noqa: PLR2004 - a slope needs two samples
        near = _nearest(channel, 2)
        if np.abs(channel.times[near]).max() > LONGEST_SLOPE_S:
            return 0.0
    return _fit(channel.times[near], channel.values[near])[1]


def _nearest(channel: Channel, count: int) -> NDArray[np.int64]:
    return np.argsort(np.abs(channel.times), kind='stable')[:count]

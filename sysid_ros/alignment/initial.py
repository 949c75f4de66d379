# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The state in which a trajectory starts, from what was measured around that instant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.health import FindingKind, HealthFinding
from sysid_ros.signals import SignalType, TimeSeries

#: Measured joints go from qpos0 to where they were in so many steps at least, in which none of them
#: moves farther than this, rad or m, and in so many at most: a linkage closes in more than one way,
#: and is put together as it is in qpos0.
_FEWEST, _FARTHEST, _MOST = 20, 0.1, 500
#: Gauss-Newton steps after each of them, and what is nothing left of the equalities, rad or m.
_STEPS, _NOTHING = 10, 1e-10
#: Singular values of a Jacobian below this part of the largest are zero.
_SINGULAR = 1e-8


def close_loops(
    model: mujoco.MjModel,
    qpos: NDArray[np.float64],
    qvel: NDArray[np.float64],
    positions: NDArray[np.bool_],
    velocities: NDArray[np.bool_],
) -> None:
    """Put joints that are not measured where the active equalities of the model hold.

    Args:
        model: The compiled model.
        qpos: (nq,) with qpos0 where nothing is measured; changed in place.
        qvel: (nv,) with zeros where nothing is measured; changed in place.
        positions: (nv,) whether the position along a degree of freedom is measured.
        velocities: (nv,) whether its velocity is known.
    """
    if not model.neq or positions.all():
        return
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    if np.abs(_equalities(model, data)[0]).max(initial=0.0) > _NOTHING:
        far = qpos - model.qpos0
        parts = int(np.clip(np.ceil(np.abs(far).max() / _FARTHEST), _FEWEST, _MOST))
        moved = np.flatnonzero(far)
        data.qpos[:] = model.qpos0
        for part in np.linspace(0, 1, parts + 1)[1:]:
            data.qpos[moved] = (model.qpos0 + part * far)[moved]
            _solve(model, data, ~positions)
        qpos[:] = data.qpos
    _, jacobian = _equalities(model, data)
    free = ~velocities
    qvel[free] -= np.linalg.lstsq(jacobian[:, free], jacobian @ qvel, _SINGULAR)[0]


def _solve(model: mujoco.MjModel, data: mujoco.MjData, free: NDArray[np.bool_]) -> None:
    """Move free degrees of freedom by Gauss-Newton steps for as long as they help."""
    left, jacobian = _equalities(model, data)
    for _ in range(_STEPS):
        size, before = float(np.abs(left).max(initial=0.0)), data.qpos.copy()
        if size <= _NOTHING:
            return
        step = np.zeros(model.nv)
        step[free] = -np.linalg.lstsq(jacobian[:, free], left, _SINGULAR)[0]
        mujoco.mj_integratePos(model, data.qpos, step, 1.0)
        left, jacobian = _equalities(model, data)
        if not np.abs(left).max(initial=0.0) < size:
            data.qpos[:] = before
            return


def _equalities(
    model: mujoco.MjModel, data: mujoco.MjData
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (k,) what is left of the active equalities, rad or m, and (k, nv) its Jacobian."""
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_flex(model, data)
    mujoco.mj_tendon(model, data)
    mujoco.mj_makeConstraint(model, data)
    jacobian = np.zeros((data.nefc, model.nv))
    if mujoco.mj_isSparse(model):
        rows = data.efc_J_rownnz, data.efc_J_rowadr, data.efc_J_colind
        mujoco.mju_sparse2dense(jacobian, data.efc_J, *rows)
    else:
        jacobian[:] = data.efc_J.reshape(jacobian.shape)
    return data.efc_pos[: data.ne].copy(), jacobian[: data.ne]


#: A line or parabola is fitted to the samples within this of the start, s.
VALUE_WINDOW_S = 0.02
#: The slope of the position stands in for a velocity that is not measured, within this, s.
SLOPE_WINDOW_S = 0.025
#: Where the rate is too low for these windows, two samples this close do, s.
LONGEST_SLOPE_S = 0.5
#: With so many samples a parabola is fitted: noise then costs less than curvature. Between samples
#: on both sides it never costs more than that of one, and three are enough.
PARABOLA_SAMPLES, _BOTH_SIDES = 6, 3


class InitialState(NamedTuple):
    """The state of a model at the start of a trajectory.

    Attributes:
        qpos: (nq,) configuration.
        qvel: (nv,) velocity.
        derived: Joints whose velocity is the slope of their position.
    """

    qpos: NDArray[np.float64]
    qvel: NDArray[np.float64]
    derived: tuple[int, ...]


def initial_state(
    model: mujoco.MjModel, measurements: Iterable[TimeSeries], at: float = 0.0
) -> InitialState:
    """Estimate the state at an instant.

    Joints that are not measured start at the model's qpos0, at rest, or where its equalities tie
    them to measured ones. Where no velocity is measured the slope of the polynomial that fits the
    positions around the start is taken, over the same instants before and after where there are
    some: the derivative of a Savitzky-Golay filter (doi:10.1021/ac60214a047), without its need for
    a constant period, and like that without phase.

    Args:
        model: The compiled model.
        measurements: Samples of the sensors; jointpos and jointvel sensors count. NaN is no sample.
        at: The instant, s, in the time of the measurements.
    """
    qpos = np.array(model.qpos0, dtype=np.float64)
    qvel = np.zeros(model.nv)
    series = tuple(measurements)
    positions = dict(_samples(model, series, mujoco.mjtSensor.mjSENS_JOINTPOS, at))
    velocities = dict(_samples(model, series, mujoco.mjtSensor.mjSENS_JOINTVEL, at))
    for joint, (times, values) in positions.items():
        if joint in velocities:
            position = _carried((times, values), velocities[joint])
        else:
            position = _value_at_zero(times, values)
            qvel[model.jnt_dofadr[joint]] = _slope_at_zero(times, values)
        qpos[model.jnt_qposadr[joint]] = position
    for joint, (times, values) in velocities.items():
        qvel[model.jnt_dofadr[joint]] = _value_at_zero(times, values)
    there, moving = np.zeros((2, model.nv), dtype=bool)
    there[model.jnt_dofadr[list(positions)]] = True
    moving[model.jnt_dofadr[[*positions, *velocities]]] = True
    close_loops(model, qpos, qvel, there, moving)
    return InitialState(qpos, qvel, tuple(sorted(positions.keys() - velocities.keys())))


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
        HealthFinding(bag, model.joint(joint).name, FindingKind.NOT_MEASURED, count, detail)
        for joint, count in sorted(counts.items())
    ]


def _samples(
    model: mujoco.MjModel, measurements: Iterable[TimeSeries], sensor: mujoco.mjtSensor, at: float
) -> Iterator[tuple[int, tuple[NDArray[np.float64], NDArray[np.float64]]]]:
    """Yield joints that a kind of sensor measures, with times from the start, s, and values."""
    for series in measurements:
        for name, (kind, columns) in series.signal_mapping.items():
            if kind is not SignalType.MjSensor:
                continue
            row = model.sensor(name).id
            if model.sensor_type[row] != sensor:
                continue
            values = series.data[:, columns[0]]
            finite = np.isfinite(values)
            if finite.any():
                yield int(model.sensor_objid[row]), (series.times[finite] - at, values[finite])


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
    both = times.min() < 0.0 < times.max()
    degree = 2 if len(times) >= (_BOTH_SIDES if both else PARABOLA_SAMPLES) else 1
    coefficients = np.polynomial.polynomial.polyfit(times / scale, values, degree)
    return float(coefficients[0]), float(coefficients[1]) / scale


def _near(times: NDArray[np.float64], window: float) -> NDArray[np.int64]:
    """Return the samples in a window, or the nearest two where there are fewer and these close."""
    near = np.flatnonzero(np.abs(times) <= window)
    if len(near) < 2:  # noqa: PLR2004 - a slope needs two samples
        near = np.argsort(np.abs(times), kind='stable')[:2]
        if np.abs(times[near]).max() > LONGEST_SLOPE_S:
            near = near[:1]
    return near


def _value_at_zero(times: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    near = _near(times, VALUE_WINDOW_S)
    return _fit(times[near], values[near])[0]


def _slope_at_zero(times: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    near = _near(times, SLOPE_WINDOW_S)
    return _fit(times[near], values[near])[1]


def _carried(
    position: tuple[NDArray[np.float64], NDArray[np.float64]],
    velocity: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> float:
    """Return the position at zero; a lone sample goes there by the velocity on the way."""
    times, values = position
    nearest = int(np.argmin(np.abs(times)))
    away = float(times[nearest])
    alone = np.count_nonzero(np.abs(times) <= VALUE_WINDOW_S) < 2  # noqa: PLR2004
    if not alone or abs(away) > LONGEST_SLOPE_S:
        return _value_at_zero(times, values)
    return float(values[nearest]) - away * _value_at_zero(velocity[0] - away / 2, velocity[1])

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Values between samples, and grids of instants."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import SignalError, nearest

InterpolationMethod = Literal['linear', 'cubic', 'quadratic', 'quintic', 'zero_order_hold', 'zoh']

_DEGREES = {'quadratic': 2, 'cubic': 3, 'quintic': 5}
#: Stamps mean the same instant where they differ by less than the sum of this fraction of a period
#: and so many steps to the neighbouring float: 1 µs for seconds since the epoch.
_SAME_INSTANT = 1e-6
_ROUNDING_STEPS = 4
#: No rounding is taken for more than this fraction of a period.
_LARGEST_SLACK = 0.25


def interpolate(
    times: NDArray[np.float64],
    data: NDArray[np.float64],
    at: NDArray[np.float64],
    method: InterpolationMethod = 'linear',
) -> NDArray[np.float64]:
    """Evaluate samples at other instants.

    Before the first sample its value is returned, after the last that one. A sample that is NaN
    makes NaN of the instants whose neighbour it is (with a hold: that it holds for), and of no
    others: splines are laid through the samples that are there, and a column with fewer of these
    than the spline needs is interpolated linearly.

    Args:
        times: (n,) seconds, strictly increasing, n ≥ 1.
        data: (n, k) samples.
        at: (m,) seconds, finite.
        method: ``linear``; ``quadratic``, ``cubic``, ``quintic``: splines of degree 2, 3, 5 with
            not-a-knot ends; ``zero_order_hold`` or ``zoh``: the latest sample.

    Returns:
        (m, k) values.

    Raises:
        SignalError: There is no sample or too few for the method, an instant is not finite, or
            there is no such method.
    """
    if method not in get_args(InterpolationMethod):
        raise SignalError(
            f'No interpolation method {method!r}; {nearest(method, get_args(InterpolationMethod))}.'
        )
    if not np.all(np.isfinite(at)):
        raise SignalError('Expected finite instants to interpolate at, found NaN or infinity.')
    needed = _DEGREES.get(method, 0) + 1
    if len(times) < needed:
        raise SignalError(f'Interpolation {method!r} needs {needed} samples, found {len(times)}.')
    before = np.clip(np.searchsorted(times, at, side='right') - 1, 0, None)
    if method in {'zoh', 'zero_order_hold'}:
        return data[before]
    inside = np.clip(at, times[0], times[-1])
    linear = _linear(times, data, inside, before)
    if method == 'linear':
        return linear
    return _spline(times, data, inside, linear, _DEGREES[method])


def _linear(
    times: NDArray[np.float64],
    data: NDArray[np.float64],
    at: NDArray[np.float64],
    before: NDArray[np.int64],
) -> NDArray[np.float64]:
    after = np.minimum(before + 1, len(times) - 1)
    gap = times[after] - times[before]
    share = np.divide(at - times[before], gap, out=np.zeros(len(at)), where=gap > 0)[:, None]
    low = data[before]
    # At a sample its neighbour does not count, whatever it is.
    between: NDArray[np.float64] = np.where(share > 0, low + share * (data[after] - low), low)
    return between


def _spline(
    times: NDArray[np.float64],
    data: NDArray[np.float64],
    at: NDArray[np.float64],
    linear: NDArray[np.float64],
    degree: int,
) -> NDArray[np.float64]:
    """Replace the linearly interpolated values that are finite by those of a spline."""
    from scipy.interpolate import make_interp_spline  # noqa: PLC0415 (slow to import)

    values: NDArray[np.float64] = linear.copy()
    finite = np.isfinite(data)
    whole = finite.all(axis=0)
    origin = times[0]
    if whole.any():
        spline = make_interp_spline(times - origin, data[:, whole], degree)
        values[:, whole] = spline(at - origin)
    for column in np.flatnonzero(~whole):
        there = finite[:, column]
        known = np.isfinite(linear[:, column])
        if np.count_nonzero(there) > degree:
            spline = make_interp_spline(times[there] - origin, data[there, column], degree)
            values[known, column] = spline(at[known] - origin)
    return values


def slack(times: NDArray[np.float64], period: float) -> float:
    """Return by how much stamps of the same instant may differ, in seconds.

    Args:
        times: (n,) stamps, seconds, n ≥ 1.
        period: Of the grid that the stamps are compared with, seconds.
    """
    rounding = _ROUNDING_STEPS * float(np.spacing(np.max(np.abs(times))))
    return min(_SAME_INSTANT * period + rounding, _LARGEST_SLACK * period)


def regular_grid(times: NDArray[np.float64], period: float) -> NDArray[np.float64]:
    """Return the instants ``times[0] + k * period`` up to the last stamp.

    A last stamp that misses the grid only by the rounding of its digits is on it, so that samples
    taken with the period give as many instants as there are samples, also where the stamps count
    from the epoch.

    Args:
        times: (n,) seconds, increasing, n ≥ 1.
        period: Seconds, positive.
    """
    span = times[-1] - times[0]
    steps = int(np.floor((span + slack(times[[0, -1]], period)) / period))
    grid: NDArray[np.float64] = times[0] + np.arange(steps + 1) * period
    return grid


def snapped(
    at: NDArray[np.float64], times: NDArray[np.float64], period: float
) -> NDArray[np.float64]:
    """Move instants onto the stamps that they miss only by rounding.

    Args:
        at: (m,) seconds, increasing.
        times: (n,) stamps, seconds, strictly increasing, n ≥ 1.
        period: Distance of the instants, seconds.

    Returns:
        (m,) instants.
    """
    after = np.clip(np.searchsorted(times, at), 0, len(times) - 1)
    before = np.clip(after - 1, 0, None)
    stamp = np.where(at - times[before] < times[after] - at, times[before], times[after])
    near = np.abs(stamp - at) <= slack(np.append(times[[0, -1]], at[[0, -1]]), period)
    moved: NDArray[np.float64] = np.where(near, stamp, at)
    return moved


def held_means(
    times: NDArray[np.float64], data: NDArray[np.float64], edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the mean over each step of samples that hold until the next.

    A simulation takes one value per step; with the mean, a change inside a step has its exact
    impulse. Where nothing changes, the value is the sample itself, bit by bit.

    Args:
        times: (n,) seconds, strictly increasing, n ≥ 1; the first sample holds also before it.
        data: (n, k) samples.
        edges: (m + 1,) limits of the steps, seconds, strictly increasing.

    Returns:
        (m, k) values.
    """
    index = np.clip(np.searchsorted(times, edges, side='right') - 1, 0, None)
    held = data[index]
    areas = np.zeros_like(data)
    np.cumsum(data[:-1] * np.diff(times)[:, None], axis=0, out=areas[1:])
    integral = areas[index] + held * (edges - times[index])[:, None]
    # A change exactly at the end of a step belongs to the next one.
    last = np.clip(np.searchsorted(times, edges[1:], side='left') - 1, 0, None)
    same = (last <= index[:-1])[:, None]
    means: NDArray[np.float64] = np.diff(integral, axis=0) / np.diff(edges)[:, None]
    controls: NDArray[np.float64] = np.where(same, held[:-1], means)
    return controls

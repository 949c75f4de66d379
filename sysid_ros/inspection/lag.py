# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How far a response lags behind its command.

The lag is the shift in time with which the command, holding until the next one, correlates best
with the response, both as velocities in the band that both show (Knapp and Carter, IEEE Trans.
ASSP 24(4), 1976, with that band as the weight). That commands come seldom adds nothing to it. What
a servo needs to follow is in it: only a model can tell transport from dynamics, and a calibration
with ``actuator/*/delay`` among its parameters does.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.health import away_from_gaps

#: Longest lag that is looked for, s, and how finely at first.
LONGEST_S = 0.5
_SCAN_S = 0.01
#: The grid is no finer than this, s, nor longer than so many instants.
_FINEST_S = 0.001
_MOST = 200_000
#: Corner of the low-pass filter, Hz, at most this part of the response's rate.
_CORNER_HZ = 20.0
_CORNER_PART = 0.2
#: A lag is reported from this squared correlation on.
_LEAST_CORRELATION = 0.5
#: A lag is reported when its standard deviation is below this, s.
LARGEST_DEVIATION_S = 0.02
#: A recording has so many periods of the corner at least.
_FEWEST_PERIODS = 20


class Lag(NamedTuple):
    """A lag of a response behind its command.

    Attributes:
        seconds: The lag, s.
        deviation: Its standard deviation, s.
        correlation: Of the two velocities at that lag; negative where they are opposed.
        gain: Slope of the response by the command.
    """

    seconds: float
    deviation: float
    correlation: float
    gain: float


def lag(
    command_times: NDArray[np.float64],
    command: NDArray[np.float64],
    response_times: NDArray[np.float64],
    response: NDArray[np.float64],
    *,
    interpolated: bool = False,
) -> Lag | None:
    """Find the lag of a response behind its command.

    Args:
        command_times: (m,) strictly increasing stamps, s.
        command: (m,) what was commanded.
        response_times: (n,) strictly increasing stamps on the same clock, s.
        response: (n,) the same quantity as it was measured.
        interpolated: Whether the command changes linearly from stamp to stamp instead.

    Returns:
        The lag, or None where the recording is too short, still or unlike its command to tell.
    """
    if len(command_times) < 2 or len(response_times) < 2:  # noqa: PLR2004 (no interval)
        return None
    period = float(np.median(np.diff(response_times)))
    first = float(max(response_times[0], command_times[0]))
    last = float(response_times[-1])
    step = max(_FINEST_S, period / 2, (last - first) / _MOST)
    corner = min(_CORNER_HZ, _CORNER_PART / period)
    grid = np.arange(first, last, step)
    reach, margin = round(LONGEST_S / step) + 1, round(1 / corner / step) + 1
    if (len(grid) - reach - 2 * margin) * step * corner < _FEWEST_PERIODS:
        return None
    if interpolated:
        acting = np.interp(grid, command_times, command)
    else:
        acting = command[np.searchsorted(command_times, grid, side='right') - 1]
    moved = np.interp(grid, response_times, response)
    from scipy.signal import butter, sosfiltfilt  # noqa: PLC0415 (not at every start)

    # Their slopes, smoothed without a shift in time.
    low = butter(2, 2 * corner * step, output='sos')
    asked, given = (
        np.gradient(sosfiltfilt(low, values - values[0]), step) for values in (acting, moved)
    )
    usable = away_from_gaps(grid, response_times, 1 / corner)
    usable[: reach + margin] = usable[len(grid) - margin :] = False
    instants = np.flatnonzero(usable).astype(np.float64)
    if len(instants) < _FEWEST_PERIODS:
        return None
    given_there = given[usable]
    rows = np.arange(len(grid), dtype=np.float64)

    def fit(seconds: float) -> tuple[float, float]:
        """Return correlation and gain with a lag."""
        shifted = np.interp(instants - seconds / step, rows, asked)
        power = float(shifted @ shifted)
        along = float(shifted @ given_there)
        size = math.sqrt(power * float(given_there @ given_there))
        return (along / size, along / power) if size > 0 else (0.0, 0.0)

    scan = np.arange(0.0, LONGEST_S, _SCAN_S)
    squares = np.array([fit(seconds)[0] ** 2 for seconds in scan])
    place = int(np.argmax(squares))
    if squares[place] < _LEAST_CORRELATION or place == len(scan) - 1:
        return None
    from scipy.optimize import minimize_scalar  # noqa: PLC0415 (not at every start)

    bounds = (max(scan[place] - _SCAN_S, 0.0), scan[place] + _SCAN_S)
    found = minimize_scalar(
        lambda seconds: -(fit(seconds)[0] ** 2),
        bounds=bounds,
        method='bounded',
        options={'xatol': 1e-6},
    )
    best = float(found.x)
    correlation, gain = fit(best)
    sides = (fit(best - _SCAN_S)[0] ** 2 + fit(best + _SCAN_S)[0] ** 2) / 2
    bend = 2 * (correlation**2 - sides) / _SCAN_S**2
    # 1 - correlation² is to its least value as chi-square is to its degrees of freedom, of which
    # a band-limited signal has two for each period of its corner.
    freedom = max(2 * corner * len(instants) * step, 1.0)
    deviation = math.sqrt(2 * (1 - correlation**2) / freedom / bend) if bend > 0 else math.inf
    return Lag(best, deviation, correlation, gain) if deviation < LARGEST_DEVIATION_S else None

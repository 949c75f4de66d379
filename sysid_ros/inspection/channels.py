# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the numbers of one channel say about what measured them: its steps, and its limits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Steps are looked for in so many samples, spread over the recording.
_SAMPLES = 20_000
#: Fewer distinct values do not show a step.
_FEWEST_VALUES = 5
#: Differences of values are multiples of a step within this part of it, …
_OFF_GRID = 0.05
#: … for at least this part of the differences, …
_ON_GRID = 0.98
#: … of those below so many steps, …
_NEAR = 100
#: … and of so many, …
_FEWEST_NEAR = 4
#: … and a step below this part of the span is rounding.
_ROUNDING = 1e-9
#: A plateau is this many times as long as values usually stay the same, …
_PLATEAU = 3
#: … is reached by more than so many steps at once, …
_ABRUPT = 3.0
#: … and reached so often: at rest a signal stays at a value, too.
_VISITS = 3


def quantisation_step(values: NDArray[np.float64]) -> float:
    """Find the step of an encoder or converter.

    Args:
        values: (n,) finite values.

    Returns:
        The smallest difference between two values if all differences are its multiples, in the
        unit of the values; NaN if they are not, or if there are too few values.
    """
    stride = max(len(values) // _SAMPLES, 1)
    # The ends are left out: a limit need not be on the grid.
    distinct = np.unique(values[::stride])[1:-1]
    if len(distinct) < _FEWEST_VALUES:
        return math.nan
    differences = np.diff(distinct)
    differences = differences[differences > _ROUNDING * float(np.ptp(distinct))]
    if not len(differences):
        return math.nan
    step = float(differences.min())
    # The mean over the smallest differences is less rounded than the smallest.
    step = float(differences[differences < (1 + _OFF_GRID) * step].mean())
    counts = differences / step
    # Far apart, any number is near a multiple of a step that is a little wrong.
    near = counts < _NEAR
    on_grid = near & (np.abs(counts - np.round(counts)) < _OFF_GRID)
    shown = np.count_nonzero(on_grid) >= max(_ON_GRID * np.count_nonzero(near), _FEWEST_NEAR)
    return step if shown else math.nan


def clipped(values: NDArray[np.float64], step: float) -> int:
    """Count samples at a limit of the sensor or driver.

    A limit is the least or greatest value when the signal arrives there at speed, stays for much
    longer than values usually stay, and does so at least three times. The turning points of a
    motion are approached slowly; a robot at rest arrives once.

    Args:
        values: (n,) finite values.
        step: Their quantisation step; NaN where there is none.
    """
    if len(values) <= _FEWEST_VALUES:
        return 0
    begins = np.concatenate([[0], np.flatnonzero(np.diff(values)) + 1])
    lengths = np.diff(np.append(begins, len(values)))
    levels = values[begins]
    arrival = np.abs(np.diff(levels, prepend=levels[0]))
    least = 0.0 if math.isnan(step) else _ABRUPT * step
    usual = max(float(np.median(lengths)), 1.0)
    plateau = (arrival > least) & (lengths >= _PLATEAU * usual)
    count = 0
    for extreme in (levels.min(), levels.max()):
        there = plateau & (levels == extreme)
        if np.count_nonzero(there) >= _VISITS:
            count += int(lengths[there].sum())
    return count

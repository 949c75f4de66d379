# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which of many steps gives the slope of residuals that curve, are noisy, or jump."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

#: Steps, in units of the values or of their scales, shortest first.
LADDER = (2e-8, 2e-7, 2e-6, 2e-5, 2e-4, 2e-3, 1e-2)
#: Slopes are the same up to this relative difference.
AGREEING = 0.1
#: Norms of the residuals' change by steps of about a standard error, allowing for noise that is
#: correlated.
_WORTH, _MOST_WORTH = 0.5, 30.0


class Rung(NamedTuple):
    """One step for each of c columns, and what it gives.

    Attributes:
        sizes: (c,) steps in the units in which they are kept.
        lengths: (c,) the same in the units of the values, without sign.
        forward: (n, c) differences to one side, per unit of the values.
        central: (n, c) differences to both sides, where there is room for them.
    """

    sizes: NDArray[np.float64]
    lengths: NDArray[np.float64]
    forward: NDArray[np.float64]
    central: NDArray[np.float64]


def best(rungs: Sequence[Rung], column: int, accurate: float) -> tuple[int, bool]:
    """Return the rung whose central difference is the slope, and whether one side suffices.

    That is the shortest step whose sides agree, as longer ones may cross a kink, or, if none do,
    the step whose slope changes least from the one before, where neither noise nor curvature
    rules. A slope has to hold over about a standard error, though: where residuals jump more often
    than that, the slope between two jumps is exact and means nothing.

    Args:
        rungs: At least two, shortest steps first.
        column: Which of the columns.
        accurate: Relative difference of sides and of neighbouring steps that agree.
    """
    middle = np.stack([rung.central[:, column] for rung in rungs])
    norms = np.maximum(np.linalg.norm(middle, axis=1), np.finfo(np.float64).tiny)
    one_sided = np.stack([rung.forward[:, column] for rung in rungs])
    skew = np.linalg.norm(one_sided - middle, axis=1) / norms
    drift = np.linalg.norm(np.diff(middle, axis=0), axis=1) / norms[1:]
    # Rungs at the end of the range of steps are the same step twice.
    drift[drift == 0] = np.inf
    fine = skew[:-1] + drift < accurate
    smooth = bool(fine.any())
    # Noise is less on the upper one of the two rungs that agree best.
    kept = int(np.argmax(fine)) if smooth else int(np.argmin(drift)) + 1
    changes = norms * [rung.lengths[column] for rung in rungs]
    far = _steadiest(changes, drift)
    apart = np.linalg.norm(middle[kept] - middle[far]) / norms[far]
    if changes[kept] < _WORTH and apart > AGREEING:
        smooth, kept = False, far
    return kept, smooth or not skew[kept] > 0


def _steadiest(changes: NDArray[np.float64], drift: NDArray[np.float64]) -> int:
    """Return the step whose slope differs least from that of the next shorter one.

    Args:
        changes: (s,) norm of the residuals' change by each step, shortest first. Steps that change
            much less, or much more, than a standard error's worth are not looked at.
        drift: (s - 1,) relative difference of neighbours' slopes.
    """
    low = min(_WORTH, float(changes[-1]))
    high = max(_MOST_WORTH, float(changes[changes >= low].min()))
    worth = (changes[1:] >= low) & (changes[1:] <= high)
    return int(np.argmin(np.where(worth, drift, np.inf))) + 1

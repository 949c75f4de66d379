# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""By how much each message came late, and how large such errors are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sysid_ros.estimation.arrivals.messages import Messages
    from sysid_ros.estimation.arrivals.system import System

#: Degrees of freedom of the distribution of the errors.
_FREEDOM = 4.0
#: Their scale is found in so many rounds at most, until it changes by less than this part.
_ROUNDS = 20
_SETTLED = 0.01


def estimate(
    messages: Sequence[Messages],
    systems: Sequence[System],
    residuals: Sequence[NDArray[np.float64]],
    scale: float,
) -> tuple[list[System], float, list[NDArray[np.float64]]]:
    """Find the errors of all messages, and their deviations, which are changed in place.

    Now and then a message is late by many times what is usual. So each error has a deviation of its
    own, and the errors have a t distribution, whose scale and weights are found in turns by
    expectation-maximisation (Lange, Little and Taylor, J. Am. Stat. Assoc. 84, 1989).

    Args:
        messages: Of each sequence.
        systems: How the residuals answer to the errors, in units of their deviations.
        residuals: (n, 1) of each sequence, the errors being as they are taken to be.
        scale: Scale of the errors so far, s.

    Returns:
        The systems in units of the new deviations, the scale, and the (k,) errors.
    """
    rng = np.random.default_rng(0)
    begun = [own.deviation for own in messages]
    current = list(systems)
    errors = [own.error for own in messages]
    for _ in range(_ROUNDS):
        squares, weights = [], []
        for index, (own, system) in enumerate(zip(messages, current, strict=True)):
            known = own.known
            found = known + system.best(residuals[index], known[:, None])[:, 0]
            left = np.mean(system.draws(rng) ** 2, axis=1)
            errors[index] = own.deviation * found
            squares.append(own.deviation**2 * (found**2 + left))
            weights.append((_FREEDOM + 1.0) / (_FREEDOM + squares[-1] / scale**2))
        before, count = scale, sum(map(len, weights))
        mean = float(np.concatenate(weights) @ np.concatenate(squares)) / max(count, 1)
        scale = float(np.sqrt(mean))
        for index, (own, weight) in enumerate(zip(messages, weights, strict=True)):
            own.deviation = scale / np.sqrt(weight)
            current[index] = systems[index].times(own.deviation / begun[index])
        if abs(scale / before - 1.0) < _SETTLED:
            break
    return current, scale, errors

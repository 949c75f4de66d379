# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a fit takes for granted: errors that parameters follow and residuals do not show."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.inference.stationary import channel_noises, longest_memory, series_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sysid_ros.estimation.terms import Term
    from sysid_ros.inference.linear import Linear

    Array = NDArray[np.float64]

#: A term is a parameter, and not taken for granted, where their changes have this cosine.
_SAME = 0.99
#: What is left of it once parameters follow is seen if it is so many standard errors.
_SEEN = 4.0
#: So many are told at most.
_MOST = 3


class Granted(NamedTuple):
    """What a small error of the model would do.

    Attributes:
        assumed: The error, for people.
        column: Index of the parameter that it moves farthest, in half-widths of its interval.
        shift: By how much, in the parameter's unit.
        widths: The same in half-widths.
    """

    assumed: str
    column: int
    shift: float
    widths: float


def granted(linear: Linear, terms: Sequence[Term], half: Array) -> tuple[Granted, ...]:
    """Return the errors of the model that would move a parameter out of its interval unseen.

    Where the true robot has an amount of a term, the parameters stand in for it: they are where the
    residuals with the term are least, one Gauss-Newton step away. What is then left of it would be
    seen if it is large beside the noise.

    Args:
        linear: The problem at the optimum.
        terms: What the model may lack; those without an amount are left out.
        half: (p,) half-widths of the intervals, NaN where there is none.
    """
    small = [term for term in terms if term.amount]
    if not small:
        return ()
    channels = series_of(linear.samples).channels
    noises = channel_noises(linear, channels, linear.residual)
    scaled, alike = linear.scaled, longest_memory(noises.values())
    lasting = np.array([not unknown.of_single_runs for unknown in linear.unknowns], dtype=bool)
    found = []
    for term in small:
        change = term.amount * linear.root * term.change
        along = scaled.T @ change
        if np.any(np.abs(along) > _SAME * np.linalg.norm(change)):
            continue
        step = linear.inverse @ along
        if np.linalg.norm(change - scaled @ step) > _SEEN * np.sqrt(alike):
            continue
        shift = np.zeros(len(half))
        shift[linear.free] = -step / linear.scale[linear.free]
        with np.errstate(invalid='ignore', divide='ignore'):
            widths = np.nan_to_num(np.abs(shift) / half, nan=0.0, posinf=0.0) * lasting
        column = int(np.argmax(widths))
        if widths[column] > 1.0:
            found.append(Granted(term.assumed, column, float(shift[column]), widths[column]))
    return tuple(sorted(found, key=lambda each: -each.widths)[:_MOST])

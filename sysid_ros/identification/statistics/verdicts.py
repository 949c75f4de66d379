# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the data say about each parameter, and what they cannot say."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.identification.statistics.spread import LEVEL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.identification.statistics.linear import Linear
    from sysid_ros.identification.unknown import Unknown

#: Parameters whose estimates correlate more than this cannot be told apart.
_LARGEST_CORRELATION = 0.98
#: An interval wider than both fractions, of the value and of the bounds, says that the motion
#: did not excite the parameter.
_WIDE_OF_VALUE = 0.25
_WIDE_OF_BOUNDS = 0.02
#: Where more than half of the information is the prior's, the interval is wider than this multiple
#: of its standard deviation.
_PRIOR_SHARE = float(np.sqrt(0.5)) * NormalDist().inv_cdf((1 + LEVEL) / 2)
#: A parameter takes part in a direction when its share of the unit vector exceeds this.
_TAKES_PART = 0.1

IDENTIFIED = 'identified'
AT_BOUND = 'at bound'
NOT_EXCITED = 'not excited'
PRIOR_DOMINATED = 'prior-dominated'
CONFOUNDED = 'confounded with'


@dataclass(frozen=True)
class Verdict:
    """What the data say about one parameter.

    Attributes:
        text: ``identified``, ``at bound``, ``not excited``, ``prior-dominated`` or
            ``confounded with NAME, …``.
        blind: Whether the data do not determine it at all, so that there is no interval.
        explanation: A sentence for the user: what is determined instead, what would help; empty
            for what is identified.
    """

    text: str
    blind: bool = False
    explanation: str = ''


@dataclass(frozen=True)
class Combination:
    """What is determined of parameters that cannot be told apart.

    Attributes:
        parameters: Their names.
        expression: What is determined, as ``gear/mass``.
        value: Of the expression.
        low: Lower end of its 95 % interval.
        high: Upper end.
    """

    parameters: tuple[str, ...]
    expression: str
    value: float
    low: float
    high: float


def verdicts(linear: Linear, half: NDArray[np.float64]) -> tuple[Verdict, ...]:
    """Say of every parameter whether it is identified, and if not, why.

    Args:
        linear: The problem at the optimum.
        half: (p,) half-widths of the intervals.
    """
    correlation = _correlation(linear.inverse)
    places = {int(column): place for place, column in enumerate(linear.free)}
    found: list[Verdict] = []
    for index, (value, unknown) in enumerate(zip(linear.x, linear.unknowns, strict=True)):
        if linear.at_bound[index]:
            found.append(Verdict(AT_BOUND, blind=True))
            continue
        place = places.get(index)
        if place is None:
            found.append(Verdict(NOT_EXCITED, blind=True))
            continue
        blind = bool(linear.null.size) and bool(np.any(np.abs(linear.null[place]) > _TAKES_PART))
        text = _verdict(float(value), float(half[index]), unknown)
        if blind or text != IDENTIFIED:
            partners = _partners(place, linear.null, correlation)
            names = [linear.unknowns[linear.free[i]].name for i in partners]
            text = f'{CONFOUNDED} {", ".join(names)}' if names else text
        if unknown.prior is not None and half[index] > _PRIOR_SHARE * unknown.prior[1]:
            text = PRIOR_DOMINATED
        found.append(Verdict(text, blind=blind))
    return tuple(found)


def _correlation(inverse: NDArray[np.float64]) -> NDArray[np.float64]:
    deviation = np.sqrt(np.maximum(np.diag(inverse), 1e-300))
    result: NDArray[np.float64] = inverse / np.outer(deviation, deviation)
    return result


def _partners(place: int, null: NDArray[np.float64], correlation: NDArray[np.float64]) -> list[int]:
    """Return the parameters that cannot be told from one, the strongest first."""
    share = np.abs(null)
    strength = np.abs(correlation[place]).copy()
    strength[strength <= _LARGEST_CORRELATION] = 0.0
    for direction in share.T:
        if direction[place] > _TAKES_PART:
            strength = np.maximum(strength, np.where(direction > _TAKES_PART, 1.0, 0.0))
    strength[place] = 0.0
    return [int(i) for i in np.argsort(-strength) if strength[i] > 0]


def _verdict(value: float, half: float, parameter: Unknown) -> str:
    width = parameter.max_value - parameter.min_value
    if half > _WIDE_OF_VALUE * abs(value) and half > _WIDE_OF_BOUNDS * width:
        return NOT_EXCITED
    return IDENTIFIED

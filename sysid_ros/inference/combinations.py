# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is determined of parameters that cannot be told apart, in a form people read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sysid_ros.inference.dependence import echelon
from sysid_ros.inference.remedies import Effect, add_up, effect
from sysid_ros.model.unknown import Unknown

if TYPE_CHECKING:
    from sysid_ros.inference.dependence import DependentSet

#: A direction is one of small integers when each of its components is that near to one, none of
#: these is larger than so much, and rounding the direction widens the interval by less than a
#: factor.
_NEAR_INTEGER, _LARGEST_INTEGER, _LARGEST_LOSS = 0.02, 2, 2.0
#: Digits of the factors in a sum.
_DIGITS = 3
#: What adds less than this part of the largest to the residuals is not worth a term.
_NEGLIGIBLE = 0.005


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

    @property
    def half(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    @property
    def sentence(self) -> str:
        """Expression, value and half-width, rounded as the latter deserves."""
        return f'{self.expression}: {plus_minus(self.value, self.half)}'


def combinations(
    dependent: DependentSet,
    unknowns: Sequence[Unknown],
    x: NDArray[np.float64],
    scale: NDArray[np.float64],
    covariance: NDArray[np.float64],
    quantile: float,
) -> tuple[Combination, ...]:
    """Return the combinations that residuals do see of parameters that they cannot tell apart.

    They span what is orthogonal to the blind directions: m − k of them. Where the direction of the
    logarithms is one of small integers they are products of powers; else they are sums. Intervals
    are those of the expression as it is printed, by the delta method.

    Args:
        dependent: The parameters.
        unknowns: All p of them.
        x: (p,) values.
        scale: (p,) length of the Jacobian's columns.
        covariance: (p, p) of the estimates, finite.
        quantile: Half-width of an interval in standard errors.
    """
    # People write forces before masses, and so does the order of the effects.
    order = list(Effect)
    places = sorted(
        range(len(dependent.columns)),
        key=lambda i: (order.index(effect(unknowns[dependent.columns[i]])), i),
    )
    columns = [dependent.columns[i] for i in places]
    blind = dependent.blind[places] / scale[columns, None]
    chosen = [unknowns[column] for column in columns]
    values = x[columns]
    spread = covariance[np.ix_(columns, columns)]
    own = scale[columns]
    forms = _sums(blind, own, plain=True) if add_up(chosen) else _products(blind, values, own)
    if not forms or any(_lossy(form, blind, values, spread) for form in forms):
        forms = _sums(blind, own, plain=False)
    names = [unknown.name for unknown in chosen]
    found = []
    for form in forms:
        value, gradient = form.value(values), form.gradient(values)
        half = quantile * max(float(gradient @ spread @ gradient), 0.0) ** 0.5
        involved = tuple(n for n, w in zip(names, form.weights, strict=True) if w)
        found.append(
            Combination(involved, form.expression(names), value, value - half, value + half)
        )
    return tuple(found)


def plus_minus(value: float, half: float) -> str:
    """Write a value and its half-width, which has two digits if it begins with 1, else one."""
    if not np.isfinite(half) or half <= 0:
        return f'{value:.4g}'
    exponent = int(np.floor(np.log10(half)))
    digits = -exponent + (half / 10.0**exponent < 2.0)  # noqa: PLR2004 (it begins with 1)
    if digits < 0 or exponent < -6 or abs(value) >= 1e6:  # noqa: PLR2004 (plain numbers end here)
        return f'{value:.4g} ± {half:.1g}'
    return f'{value:.{digits}f} ± {half:.{digits}f}'


@dataclass(frozen=True)
class _Form:
    """A product of powers, or a sum with factors."""

    weights: tuple[float, ...]
    product: bool

    def value(self, x: NDArray[np.float64]) -> float:
        if self.product:
            return float(np.prod(np.power(x, self.weights)))
        return float(np.dot(self.weights, x))

    def gradient(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (m,) derivative by the parameters."""
        weights = np.array(self.weights)
        return self.value(x) * weights / x if self.product else weights

    def expression(self, names: list[str]) -> str:
        """Write it, names that hold slashes apart."""
        if not self.product:
            text = ''
            for weight, name in zip(self.weights, names, strict=True):
                if weight:
                    size = '' if abs(weight) == 1 else f'{abs(weight):g}·'
                    signs = (' - ', ' + ') if text else ('-', '')
                    text += f'{signs[weight > 0]}{size}{name}'
            return text

        def power(name: str, exponent: float) -> str:
            return name if exponent == 1 else f'{name}^{exponent:g}'

        airy = any('/' in name or ' ' in name for name in names)
        above = [power(n, w) for n, w in zip(names, self.weights, strict=True) if w > 0]
        below = [power(n, -w) for n, w in zip(names, self.weights, strict=True) if w < 0]
        times, over = (' · ', ' / ') if airy else ('·', '/')
        top = times.join(above) or '1'
        if not below:
            return top
        bottom = times.join(below)
        return f'{top}{over}{bottom}' if len(below) == 1 else f'{top}{over}({bottom})'


def _products(
    blind: NDArray[np.float64], x: NDArray[np.float64], scale: NDArray[np.float64]
) -> list[_Form]:
    """Return the determined products of powers, or none where powers are not small integers."""
    if np.any(x == 0):
        return []
    forms = []
    for row in _complement(blind / x[:, None]):
        powers = _integers(row, _takes_part(row / x, scale))
        if powers is None:
            return []
        forms.append(_Form(tuple(float(power) for power in powers), product=True))
    return forms


def _sums(blind: NDArray[np.float64], scale: NDArray[np.float64], *, plain: bool) -> list[_Form]:
    """Return the determined sums; plain ones only, without factors, or none."""
    forms = []
    for row in _complement(blind):
        involved = _takes_part(row, scale)
        whole = _integers(row, involved, 1)
        if whole is None and plain:
            return []
        if whole is None:
            kept = np.where(involved, row, 0.0)
            kept = kept / kept[np.flatnonzero(kept)[0]]
            weights = tuple(float(f'{w:.{_DIGITS}g}') for w in kept)
        else:
            weights = tuple(float(w) for w in whole)
        forms.append(_Form(weights, product=False))
    return forms


def _takes_part(gradient: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return what is not negligible: what it adds to the residuals, not the number, decides."""
    share = np.abs(gradient / scale)
    taking_part: NDArray[np.bool_] = share > _NEGLIGIBLE * share.max()
    return taking_part


def _complement(blind: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (m − k, m) sparse directions orthogonal to blind ones, the echelon's pivots 1."""
    scaled = blind / np.linalg.norm(blind, axis=0)
    # Null vectors of very different size, by unit, are no less orthogonal for it: balance rows.
    size = np.linalg.norm(scaled, axis=1)
    size = np.where(size > 0, size, 1.0)
    rows = scipy.linalg.null_space((scaled / size[:, None]).T).T / size
    return echelon(rows * size) / size if len(rows) else rows


def _integers(
    row: NDArray[np.float64], involved: NDArray[np.bool_], limit: int = _LARGEST_INTEGER
) -> tuple[int, ...] | None:
    """Return the small integers that a direction is near to, the first of them positive.

    What is involved is not rounded to zero.
    """
    largest = float(np.max(np.abs(row)))
    for top in range(1, limit + 1):
        scaled = row / largest * top
        whole = np.round(scaled)
        near = np.abs(scaled - whole) <= _NEAR_INTEGER
        if np.all(near) and np.all((whole != 0) == involved):
            numbers = [int(w) for w in whole]
            divisor = gcd(*numbers)
            sign = 1 if next(n for n in numbers if n) > 0 else -1
            return tuple(sign * n // divisor for n in numbers)
    return None


def _lossy(
    form: _Form,
    blind: NDArray[np.float64],
    x: NDArray[np.float64],
    covariance: NDArray[np.float64],
) -> bool:
    """Return whether rounding a direction to integers widens its interval.

    What the rounded gradient has in common with the blind directions is taken out for comparison.
    """
    gradient = form.gradient(x)
    # In standard errors, so that parameters of different units count alike.
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    deviation = np.where(deviation > 0, deviation, 1.0)
    along, weighted = blind / deviation[:, None], gradient * deviation
    orthonormal = scipy.linalg.orth(along)
    exact = (weighted - orthonormal @ (orthonormal.T @ weighted)) / deviation
    rounded = float(gradient @ covariance @ gradient)
    return rounded > _LARGEST_LOSS**2 * float(exact @ covariance @ exact)

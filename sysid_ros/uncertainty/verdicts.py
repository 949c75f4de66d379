# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the data say about each parameter, what is determined of those they cannot tell apart.

And what to record instead.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from sysid_ros.config.schema import VerdictKind
from sysid_ros.errors import MOST_NAMED, listed
from sysid_ros.fit.differences import PRIOR
from sysid_ros.fit.linear import Linear, split, threshold, triangle
from sysid_ros.fit.noise import SMALLEST
from sysid_ros.model.targets import Unknown
from sysid_ros.uncertainty.covariance import (
    ENOUGH,
    QUANTILE,
    TAKES_PART,
    AtBounds,
    Covariance,
    student,
)

Array = NDArray[np.float64]

#: Parameters whose estimates correlate more than this cannot be told apart. It widens an interval
#: by the root of the inflation, against that with all others known.
_LARGEST_CORRELATION = 0.98
_INFLATION = 1 / (1 - _LARGEST_CORRELATION**2)
#: An interval wider than both fractions, of the value and of the bounds, does not identify.
_WIDE_OF_VALUE = 0.25
_WIDE_OF_BOUNDS = 0.02
#: Partners are complete when they leave at most so many times as much of a column unexplained, in
#: squares, as all columns together do.
_COMPLETE = 4.0
#: A direction is one of small integers if its components are as near to some that are no larger.
_LARGEST_INTEGER = 2


@dataclass(frozen=True)
class Interval:
    """95 % interval and verdict of one parameter; the limits are NaN where there is none.

    ``noise_low`` and ``noise_high`` are its ends if the model lacked nothing and few recordings
    agreed. ``asked`` is the value that the data ask for far beyond a bound, if any.
    """

    low: float
    high: float
    verdict_kind: VerdictKind
    confounded_with: tuple[str, ...] = ()
    explanation: str = ''
    noise_low: float = math.nan
    noise_high: float = math.nan
    asked: float | None = None

    @property
    def verdict(self) -> str:
        """The verdict in words: its kind, and what the parameter is confounded with."""
        return self.verdict_kind.among(self.confounded_with)


def verdicts(
    linear: Linear, found: Covariance, bounds: AtBounds, low: Array, high: Array
) -> tuple[list[Interval], tuple[Combination, ...]]:
    """Say of every parameter whether it is identified, and if not, why.

    A parameter is identified when its interval is narrow against its value or its bounds. If it is
    not, and would be with the others known, it is confounded with those that together nearly
    explain its column of the Jacobian; if it would not be even then, the motion does not excite
    it. Columns that depend on each other as exactly as differences can tell have no interval of
    their own, also if one of them is at a bound. Where less than half of the information on a
    parameter is the data's, priors on parameters dominate.

    Returns:
        Interval and verdict of each, and what is determined of those that cannot be told apart.
    """
    judge = _Judge(linear, found, bounds, low, high)
    each = judge.without_priors([judge.interval(index) for index in range(len(linear.x))])
    told = (combination for own in judge.found.values() for combination in own)
    return each, tuple(dict.fromkeys(told))


class _Judge:
    """The problem, and what several verdicts need of it."""

    def __init__(
        self, linear: Linear, found: Covariance, bounds: AtBounds, low: Array, high: Array
    ) -> None:
        self._linear, self._unknowns, self._bounds = linear, linear.unknowns, bounds
        self._names = [unknown.name for unknown in linear.unknowns]
        self._covariance, self._half = np.nan_to_num(found.matrix, nan=0.0), found.half
        self._quantile = float(student(np.array(found.freedom.min())))
        self._low, self._high = low, high
        self._wide = np.maximum(high - linear.x, linear.x - low)
        self._inflation = np.ones(len(linear.x))
        self._inflation[linear.free] = np.diag(linear.inverse)
        self._triangle = triangle(linear.unit)
        self._silent = np.diag(linear.gram) == 0
        self._exact = self._sets(self._triangle, linear.unit[linear.samples.sensor == PRIOR])
        self._limit = np.array(
            [widest(float(v), u) for v, u in zip(linear.x, linear.unknowns, strict=True)]
        )
        self.found: dict[tuple[int, ...], tuple[Combination, ...]] = {}

    def interval(self, index: int) -> Interval:
        if self._silent[index]:
            return self._not_excited(index)
        exact = self._exact.get(index)
        place = np.flatnonzero(self._bounds.columns == index)
        wide = self._wide[index] > self._limit[index]
        if exact is None and len(place):
            if self._bounds.pushed[place[0]] or not wide:
                return self._at_bound(index, int(place[0]))
            if not self._bounds.told[place[0]]:
                return self._not_excited(index, blind=True)
        if exact is None and not wide:
            return self._said(index, VerdictKind.IDENTIFIED)
        alone = self._half[index] / np.sqrt(max(self._inflation[index], np.finfo(float).tiny))
        weak = alone > self._limit[index]
        if weak or (exact is None and (self._wide[index] / alone) ** 2 < _INFLATION):
            return self._not_excited(index, blind=exact is not None)
        return self._confounded(index, exact or self._near(index), blind=exact is not None)

    def _said(
        self, index: int, kind: VerdictKind, why: str = '', *, blind: bool = False, **more: Any
    ) -> Interval:
        ends = (math.nan,) * 2 if blind else (float(self._low[index]), float(self._high[index]))
        return Interval(*ends, kind, explanation=why, **more)

    def _near(self, index: int) -> DependentSet:
        """Return the set of columns that nearly depend on each other because of one."""
        chosen = np.union1d(self._linear.free, [index, *self._bounds.columns[~self._bounds.pushed]])
        found = partners(self._triangle[:, chosen], int(np.searchsorted(chosen, index)))
        return DependentSet(tuple(int(chosen[c]) for c in found.columns), found.blind)

    def _confounded(self, index: int, dependent: DependentSet, *, blind: bool) -> Interval:
        names = tuple(self._names[c] for c in dependent.columns if c != index)
        if not names:
            # What depends on nothing else is as unknown as what the motion does not excite.
            return self._not_excited(index, blind=blind)
        own = [c for c in self._combinations(dependent) if self._names[index] in c.parameters]
        if own:
            told = ' and '.join(c.sentence for c in own[:2])
            more = f' (and {len(own) - 2} more)' if len(own) > 2 else ''  # noqa: PLR2004 (two named)
            instead = f'Only {told}{more} {"is" if len(own) == 1 else "are"} determined'
        else:
            instead = f'It cannot be told from {_listed(names)}'
        why = f'{instead}; {self._separating(dependent)}.'
        return self._said(index, VerdictKind.CONFOUNDED, why, blind=blind, confounded_with=names)

    def _separating(self, dependent: DependentSet) -> str:
        chosen = [self._unknowns[c] for c in dependent.columns]
        return separating(chosen, forces=self._linear.samples.forces)

    def _combinations(self, dependent: DependentSet) -> tuple[Combination, ...]:
        """Return the combinations of a set that deserve the name: their intervals are narrow."""
        if dependent.columns not in self.found:
            x, scale = self._linear.x, self._linear.scale
            found = combinations(
                dependent, self._unknowns, x, scale, self._covariance, self._quantile
            )
            narrow = (c for c in found if c.half <= _WIDE_OF_VALUE * abs(c.value))
            self.found[dependent.columns] = tuple(narrow)
        return self.found[dependent.columns]

    def _not_excited(self, index: int, *, blind: bool = False) -> Interval:
        x, low, high = self._linear.x[index], self._low[index], self._high[index]
        blind = blind or not np.isfinite(low)
        if self._silent[index]:
            why = f'No residual changes with it, and it is held at {x:.3g}'
        elif blind:
            why = 'What was measured hardly changes with it'
        elif not self._linear.at_bound[index]:
            why = f'It is only known to be {plus_minus(x, self._half[index])}'
        elif high > x:
            why = f'It is only known to be below {high:.2g}'
        else:
            why = f'It is only known to be above {low:.2g}'
        why = f'{why}; {exciting(self._unknowns[index])}.'
        return self._said(index, VerdictKind.NOT_EXCITED, why, blind=blind)

    def _at_bound(self, index: int, place: int) -> Interval:
        """Say which bound, and whether the data push beyond it."""
        unknown, beyond = self._unknowns[index], float(self._bounds.beyond[place])
        lower, pushed = self._bounds.inwards[place] > 0, bool(self._bounds.pushed[place])
        bound = unknown.min_value if lower else unknown.max_value
        text = f'It is at its {"lower" if lower else "upper"} bound {bound:g}'
        if not pushed:
            text += ', within the noise: the data do not ask for more than that'
        else:
            text += f', and the data ask for about {beyond:.3g}'
            if any(bound in target.bounds for target in unknown.targets):
                text += (
                    ', which is not physical: the model lacks something, or another value that is '
                    'fixed is wrong'
                )
            else:
                text += ': the bounds are too narrow, or the model lacks something'
        far = pushed and abs(beyond - self._linear.x[index]) > self._limit[index]
        asked = beyond if far else None
        return self._said(index, VerdictKind.AT_BOUND, f'{text}.', blind=pushed, asked=asked)

    def without_priors(self, each: list[Interval]) -> list[Interval]:
        """Name what is known by priors on parameters rather than by the data."""
        linear, free = self._linear, self._linear.free
        priors = linear.robot_priors
        if not priors.any():
            return each
        factor = triangle(linear.unit[~priors])
        exact = self._sets(factor, factor[:0])
        gram = factor[:, free].T @ factor[:, free]
        # A column whose length was the prior's is short without it, but no less known for that.
        length = np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
        lengths = np.outer(length, length)
        inverse = np.linalg.pinv(gram / lengths, rcond=threshold(len(free)) ** 2, hermitian=True)
        ratios = np.diag(inverse) / length**2 / self._inflation[free]
        for index, known in zip(free.tolist(), ratios.tolist(), strict=True):
            if math.isnan(each[index].low):
                continue
            unseen = index in exact or not factor[:, index].any()
            ratio = math.inf if unseen else known
            # An interval that is wide in spite of a prior of its own is what was known before.
            wide = (
                each[index].verdict_kind is VerdictKind.NOT_EXCITED and self._unknowns[index].prior
            )
            # More than half of the information is the priors'.
            if wide or ratio > 2.0:  # noqa: PLR2004 (a half)
                each[index] = self._prior_dominated(index, exact.get(index), ratio)
        return each

    def _prior_dominated(self, index: int, exact: DependentSet | None, ratio: float) -> Interval:
        unknown = self._unknowns[index]
        prior = '' if unknown.prior is None else f', {plus_minus(*unknown.prior)}'
        if exact is not None:
            others = _listed([self._names[c] for c in exact.columns if c != index])
            text = f'The data cannot tell it from {others}, the prior{prior} does; '
            text += self._separating(exact)
        elif np.isfinite(ratio):
            half = self._half[index] * np.sqrt(ratio)
            whose = 'its prior' if prior else 'priors of others'
            text = f'The data alone know it to ±{half:.1g}, the rest is {whose}{prior}'
            text += f'; {exciting(unknown)}'
        else:
            text = f'The data say nothing about it beyond the prior{prior}; {exciting(unknown)}'
        return self._said(index, VerdictKind.PRIOR_DOMINATED, f'{text}.')

    def _sets(self, factor: Array, priors: Array) -> dict[int, DependentSet]:
        """Return the exactly dependent set that each parameter is in, if any.

        The factor is that of columns which depend on each other and are as long as its own.
        """
        lengths = np.where(self._silent, 0.0, np.linalg.norm(factor, axis=0))
        seen = np.flatnonzero(lengths > 0)
        found = {}
        for dependent in exact_sets(
            factor[:, seen] / lengths[seen], priors[:, seen] / lengths[seen]
        ):
            columns = tuple(seen[list(dependent.columns)].tolist())
            blind = dependent.blind / lengths[list(columns), None]
            found.update(dict.fromkeys(columns, DependentSet(columns, blind)))
        return found


def model_limited(
    index: int, own: Interval, linear: Linear, found: Covariance, shift: float, lacks: str
) -> Interval:
    """Say of what noise alone would leave determined if model errors make it too uncertain.

    Model error is what many recordings disagree about by more than the noise inside of them
    explains, what makes residuals alike from sample to sample, and what residuals follow: that
    shifts the value by so much, and lacks what is said.
    """
    x, why = float(linear.x[index]), ''
    limit, reach = widest(x, linear.unknowns[index]), max(own.high - x, x - own.low)
    disagree = f'The {linear.recordings} recordings disagree about it by more than noise explains:'
    if own.verdict_kind is VerdictKind.NOT_EXCITED and found.narrow[index] <= limit:
        why = (
            f'{disagree} find what differs between them, or what the model lacks.'
            if found.apart[index]
            else 'Residuals stay alike from sample to sample, which noise seldom does, and leave '
            f'it {plus_minus(x, found.half[index])}: find what the model lacks.'
        )
    elif own.verdict_kind is VerdictKind.IDENTIFIED and reach > limit:
        most = QUANTILE * abs(shift) > reach / math.sqrt(2)
        why = (
            lacks
            if most or found.disagreement is None
            else f'{disagree} record {ENOUGH} or more, or find what differs between them.'
        )
    if not why or math.isnan(own.low):
        return own
    return replace(own, verdict_kind=VerdictKind.MODEL_LIMITED, explanation=why)


def widest(value: float, unknown: Unknown) -> float:
    """Return the half-width of the widest interval that identifies a parameter.

    A value near zero is compared with where it began, or with its bounds where it may have either
    sign or begins at zero; one with a log scale that is never zero, with itself alone. Where a run
    starts is measured, and near zero as often as not.
    """
    relative = _WIDE_OF_VALUE * abs(value)
    if unknown.scale == 'log' and unknown.min_value > 0:
        return relative
    absolute = _WIDE_OF_BOUNDS * (unknown.max_value - unknown.min_value)
    # What may have either sign is as well near zero as anywhere.
    signed = unknown.min_value < 0 < unknown.max_value
    if unknown.nominal and not signed and not unknown.of_single_runs:
        absolute = min(absolute, _WIDE_OF_VALUE * abs(unknown.nominal))
    return max(relative, absolute)


def _listed(names: Sequence[str]) -> str:
    if len(names) > MOST_NAMED + 1:
        return listed(names)
    return names[0] if len(names) == 1 else f'{", ".join(names[:-1])} and {names[-1]}'


class DependentSet(NamedTuple):
    """Columns that depend on each other."""

    columns: tuple[int, ...]  # which, ascending; m of them
    #: (m, k) unit vectors in the columns scaled to length 1: moving along them changes no residual,
    #: or hardly any.
    blind: Array


def exact_sets(jacobian: Array, priors: Array | None = None) -> list[DependentSet]:
    """Return the sets of columns that are exactly dependent, as far as differences can tell.

    The null space is brought to reduced row echelon form with complete pivoting: its rows are the
    fundamental circuits of the columns' matroid, and what circuits connect belongs together. So a
    pair and an unrelated triple come apart, whatever basis the decomposition returns.

    The (n, p) columns are of length 1; (r, p) rows of them are priors.
    """
    count = jacobian.shape[1]
    if not count:
        return []
    _, singular, right = np.linalg.svd(triangle(jacobian))
    singular = np.append(singular, np.zeros(count - len(singular)))
    null = right[singular <= threshold(count)]
    if len(null) and priors is not None and len(priors):
        null = split(null, priors)[1]
    if not len(null):
        return []
    basis = _echelon(null)
    circuits = np.abs(basis) > TAKES_PART
    label = connected_components(circuits.T.astype(int) @ circuits)[1]
    found = []
    for one in dict.fromkeys(label[circuits.any(axis=0)]):
        columns = np.flatnonzero(label == one)
        own = circuits[:, columns].any(axis=1)
        blind = np.asarray(scipy.linalg.orth(basis[np.ix_(own, columns)].T), dtype=np.float64)
        found.append(DependentSet(tuple(columns.tolist()), blind))
    return found


def partners(jacobian: Array, column: int) -> DependentSet:
    """Return the few columns that together nearly explain one, and with them that one.

    Orthogonal matching pursuit with a backward pass: columns are taken while the next explains
    most of what is left, and given back if the others do without them.
    """
    factor = triangle(jacobian)
    target = factor[:, column]

    def left(columns: Sequence[int]) -> float:
        """Return the square of what columns leave of the target."""
        orthonormal = np.linalg.qr(factor[:, columns])[0]
        # Twice is enough: what is left of nearly dependent columns is lost in rounding otherwise.
        rest = target - orthonormal @ (orthonormal.T @ target)
        return float(np.sum((rest - orthonormal @ (orthonormal.T @ rest)) ** 2))

    others = [c for c in range(factor.shape[1]) if c != column]
    enough = max(_COMPLETE * left(others), threshold(1) ** 2)
    chosen: list[int] = []
    rest, basis = factor.copy(), np.zeros((len(factor), 0))  # of all columns, beside the chosen
    while np.sum(rest[:, column] ** 2) > enough and len(chosen) < len(others):
        size = np.maximum(np.linalg.norm(rest, axis=0), SMALLEST)
        explained = np.abs(rest[:, column] @ rest) / size
        explained[[column, *chosen]] = -1.0
        chosen.append(int(np.argmax(explained)))
        unit = rest[:, chosen[-1]] / size[chosen[-1]]
        unit -= basis @ (basis.T @ unit)
        unit /= max(float(np.linalg.norm(unit)), SMALLEST)
        basis = np.column_stack([basis, unit])
        rest -= np.outer(unit, unit @ rest)
    for c in list(chosen):
        without = [other for other in chosen if other != c]
        if without and left(without) <= enough:
            chosen = without
    columns = sorted([column, *chosen])
    weakest = np.linalg.svd(factor[:, columns])[2][-1:]
    return DependentSet(tuple(columns), weakest.T)


def _echelon(rows: Array) -> Array:
    """Return the reduced row echelon form, the largest entries as pivots."""
    reduced: Array = rows.copy()
    for place in range(len(reduced)):
        below = np.abs(reduced[place:])
        row, column = divmod(int(np.argmax(below)), below.shape[1])
        reduced[[place, place + row]] = reduced[[place + row, place]]
        reduced[place] /= reduced[place, column]
        others = np.arange(len(reduced)) != place
        reduced[others] -= np.outer(reduced[others, column], reduced[place])
    return reduced


@dataclass(frozen=True)
class Combination:
    """What is determined of parameters that cannot be told apart."""

    parameters: tuple[str, ...]  # their names
    expression: str  # what is determined, as ``gear/mass``
    value: float  # of the expression
    low: float  # lower end of its 95 % interval
    high: float

    @property
    def half(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    @property
    def sentence(self) -> str:
        """Expression, value and half-width, rounded as the latter deserves."""
        return f'{self.expression}: {plus_minus(self.value, self.half)}'


def plus_minus(value: float, half: float) -> str:
    """Write a value and its half-width, which has two digits if it begins with 1, else one."""
    if not np.isfinite(half) or half <= 0:
        return f'{value:.4g}'
    exponent = int(np.floor(np.log10(half)))
    digits = -exponent + (half / 10.0**exponent < 2.0)  # noqa: PLR2004 (it begins with 1)
    if digits < 0 or exponent < -6 or abs(value) >= 1e6:  # noqa: PLR2004 (plain numbers end here)
        return f'{value:.4g} ± {half:.1g}'
    return f'{value:.{digits}f} ± {half:.{digits}f}'


def combinations(
    dependent: DependentSet,
    unknowns: Sequence[Unknown],
    x: Array,
    scale: Array,
    covariance: Array,
    quantile: float,
) -> tuple[Combination, ...]:
    """Return the combinations that residuals do see of parameters that they cannot tell apart.

    They span what is orthogonal to the blind directions: m - k of them. Where the direction of the
    logarithms is one of small integers they are products of powers; else they are sums. Intervals
    are those of the expression as it is printed, by the delta method, from the (p, p) covariance
    and the quantile in standard errors.
    """
    # People write forces before masses, and so does the order of the effects.
    order = list(Effect)
    rank = [order.index(effect(unknowns[column])) for column in dependent.columns]
    places = sorted(range(len(rank)), key=lambda place: (rank[place], place))
    columns = [dependent.columns[place] for place in places]
    chosen, values, lengths = [unknowns[c] for c in columns], x[columns], scale[columns]
    blind = dependent.blind[places] / lengths[:, None]
    spread = covariance[np.ix_(columns, columns)]
    product, forms = not add_up(chosen), None
    if not product:
        forms = _integers(blind, lengths, 1)
    elif np.all(values != 0):
        forms = _integers(blind / values[:, None], lengths * values, _LARGEST_INTEGER)
    if forms is None:
        product, forms = False, _sums(blind, lengths)
    names, found = [unknown.name for unknown in chosen], []
    for form in forms:
        value = float(np.prod(values**form) if product else form @ values)
        # By the parameters, of a product of powers or of a sum.
        gradient = value * form / values if product else form
        half = quantile * max(float(gradient @ spread @ gradient), 0.0) ** 0.5
        involved = tuple(name for name, weight in zip(names, form, strict=True) if weight)
        text = _product(names, form) if product else _sum(names, form)
        found.append(Combination(involved, text, value, value - half, value + half))
    return tuple(found)


def _sum(names: Sequence[str], factors: Array) -> str:
    text = ''
    for factor, name in zip(factors, names, strict=True):
        if factor:
            size = '' if abs(factor) == 1 else f'{abs(factor):g}·'
            signs = (' - ', ' + ') if text else ('-', '')
            text += f'{signs[int(factor > 0)]}{size}{name}'
    return text


def _product(names: Sequence[str], powers: Array) -> str:
    """Write a product, names that hold slashes apart."""
    each = [
        (power, name if abs(power) == 1 else f'{name}^{abs(power):g}')
        for name, power in zip(names, powers, strict=True)
    ]
    airy = any('/' in name or ' ' in name for name in names)
    times, over = (' · ', ' / ') if airy else ('·', '/')
    top = times.join(text for power, text in each if power > 0) or '1'
    below = [text for power, text in each if power < 0]
    if not below:
        return top
    return f'{top}{over}{below[0] if len(below) == 1 else f"({times.join(below)})"}'


def _complement(blind: Array) -> Array:
    """Return (m - k, m) sparse directions orthogonal to (m, k) blind ones, the pivots 1."""
    scaled = blind / np.linalg.norm(blind, axis=0)
    # Null vectors of very different size, by unit, are no less orthogonal for it: balance rows.
    size = np.linalg.norm(scaled, axis=1)
    size = np.where(size > 0, size, 1.0)
    rows = scipy.linalg.null_space((scaled / size[:, None]).T).T / size
    return _echelon(rows * size) / size if len(rows) else rows


def _takes_part(row: Array, lengths: Array) -> NDArray[np.bool_]:
    """Return what is not negligible: what it adds to the residuals, not the number, decides."""
    share = np.abs(row / lengths)
    return np.asarray(share > TAKES_PART * share.max())


def _integers(blind: Array, lengths: Array, limit: int) -> list[Array] | None:
    """Return the determined directions where all are near small integers; None elsewhere.

    The first of the integers is positive, and none of what takes part is rounded to zero.
    """
    found = []
    for row in _complement(blind):
        involved = _takes_part(row, lengths)
        for top in range(1, limit + 1):
            scaled = row / np.max(np.abs(row)) * top
            whole = np.round(scaled)
            near = np.all(np.abs(scaled - whole) <= TAKES_PART)
            if near and np.array_equal(whole != 0, involved):
                sign = np.sign(whole[np.flatnonzero(whole)[0]])
                found.append(sign * whole / gcd(*whole.astype(int).tolist()))
                break
        else:
            return None
    return found


def _sums(blind: Array, lengths: Array) -> list[Array]:
    """Return the determined sums with factors of three digits, the first being 1."""
    found = []
    for row in _complement(blind):
        kept = np.where(_takes_part(row, lengths), row, 0.0)
        kept = kept / kept[np.flatnonzero(kept)[0]]
        found.append(np.array([float(f'{weight:.3g}') for weight in kept]))
    return found


class Effect(enum.Enum):
    """What a parameter does to the motion; in the order in which people write them in a formula.

    Each has the elements and attributes of MJCF that do it, and what would determine them.
    """

    SENSOR_GAIN = 'sensor/gain', 'larger motion of what {where} measures'
    DRIVE = (
        'actuator/gear actuator/gainprm actuator/gain actuator/forcerange',
        'larger commands to {where}',
    )
    SERVO = (
        'actuator/kp actuator/kv actuator/ki actuator/biasprm',
        'faster and larger commands to {where}',
    )
    SPRING = 'joint/stiffness tendon/stiffness', 'larger excursions of {where}'
    REST = (
        'joint/springref joint/ref joint/zero tendon/springlength',
        'larger excursions of {where}',
    )
    FRICTION = 'joint/frictionloss tendon/frictionloss', 'slow motion of {where}, both ways,'
    DAMPING = 'actuator/damping joint/damping tendon/damping', 'fast motion of {where}'
    GRAVITY = 'body/gravcomp option/gravity', 'poses in which gravity acts differently'
    LEVER = 'body/ipos', 'poses in which the weight of {where} acts differently'
    ARMATURE = (
        'actuator/armature joint/armature tendon/armature',
        'stronger accelerations of {where}',
    )
    INERTIA = 'body/inertia', 'stronger angular accelerations of {where}, about all axes,'
    MASS = (
        'body/mass body/mass_scaled body/subtree_mass geom/mass geom/density',
        'stronger accelerations of {where}, or poses in which its weight is felt,',
    )
    DELAY = (
        'actuator/delay sensor/delay sequence/arrival_offset sequence/trajectory_offset',
        'steps, or commands at higher frequencies,',
    )
    FILTER = 'actuator/dynprm', 'steps, or commands at higher frequencies,'
    SENSOR_BIAS = 'sensor/bias', 'a longer recording'
    DRIVE_BIAS = 'actuator/bias', 'softer holding by {where} or a longer recording'
    STATE = (
        'sequence/initial_qpos sequence/initial_qvel sequence/initial_turn sequence/initial_act',
        'motion soon after the start',
    )
    CONTACT = (
        'geom/friction geom/solref geom/solimp',
        'motion in which {where} touches, slides and hits',
    )
    OTHER = '', 'motion on which it acts more strongly'


_EFFECTS = {target: each for each in Effect for target in each.value[0].split()}

_LAGS = {Effect.DELAY, Effect.FILTER}
_OFFSETS = {Effect.SENSOR_BIAS, Effect.DRIVE_BIAS, Effect.REST, Effect.STATE}
_WEIGHT = {Effect.GRAVITY, Effect.MASS, Effect.LEVER}
_BODY = {Effect.MASS, Effect.LEVER, Effect.INERTIA}
_MOVED = _BODY | {Effect.ARMATURE}
_HOLDS = {Effect.SPRING, Effect.DAMPING, Effect.FRICTION, Effect.SERVO}
_LAG_OR_SLOW = 'steps, or commands at higher frequencies, would separate'
_POSES = 'other poses, in which gravity acts differently, would separate them'
_LOOP = "commands above the loop's bandwidth, a softer loop or a known payload would separate them"
_ROTORS = 'other poses, which change the inertia of the links but not of the rotors, would separate'

_SUMS = 'forces tell sums of these, the base parameters: other poses make those surer, not each one'

#: What separates a parameter that does one thing from another that does another thing; the first
#: that fits is said.
_SEPARATE: tuple[tuple[set[Effect], set[Effect], str], ...] = (
    (
        {Effect.SENSOR_GAIN},
        set(Effect),
        "a calibrated sensor of the same quantity would separate them (or fix the sensor's gain)",
    ),
    ({Effect.DRIVE}, {Effect.DRIVE}, 'only their product acts: fix all but one of them'),
    (_LAGS, _LAGS, f'{_LAG_OR_SLOW} them'),
    (_LAGS, set(Effect), f'{_LAG_OR_SLOW} a lag from what slows the motion'),
    ({Effect.FRICTION}, {Effect.DAMPING}, 'slow and fast motion, both ways, would separate them'),
    (
        {Effect.FRICTION},
        _WEIGHT | _OFFSETS | {Effect.DRIVE},
        'motion both ways, and with two loads, would separate them',
    ),
    ({Effect.SERVO}, _MOVED, _LOOP),
    ({Effect.GRAVITY}, _WEIGHT, 'fix gravity, which is known'),
    ({Effect.DRIVE}, _MOVED | _WEIGHT, 'a known payload would separate them'),
    (_OFFSETS, _WEIGHT, _POSES),
    ({Effect.SPRING}, _OFFSETS | _WEIGHT, 'positions farther apart would separate them'),
    ({Effect.ARMATURE}, _BODY, f'{_ROTORS} them'),
    (_BODY, _BODY, 'motion of the other joints, other poses or a known mass would separate them'),
    ({Effect.DRIVE} | _HOLDS, _MOVED | _HOLDS, 'a known payload{torque} would separate them'),
)


def effect(unknown: Unknown) -> Effect:
    """Return what a parameter does to the motion."""
    if not unknown.targets:
        return Effect.OTHER
    target = unknown.targets[0]
    element, attribute = target.element_and_attribute
    if attribute in {'mass_ipos', 'mass_ipos_scaled'}:
        return Effect.LEVER if target.index else Effect.MASS
    return _EFFECTS.get(f'{element}/{attribute}', Effect.OTHER)


def add_up(unknowns: Iterable[Unknown]) -> bool:
    """Return whether parameters add up in what they do, rather than multiply.

    Offsets add to anything, lags to lags, resistances to resistances, and what has one unit to its
    like.
    """
    chosen = list(unknowns)
    effects = {effect(unknown) for unknown in chosen}
    resistances = {Effect.FRICTION, Effect.DAMPING, Effect.CONTACT}
    if effects & _OFFSETS or effects <= _LAGS or effects <= resistances:
        return True
    units = {unknown.unit if unknown.targets else '' for unknown in chosen}
    return len(units) == 1 and not units & {'', '1'}


def separating(unknowns: Iterable[Unknown], *, forces: bool) -> str:
    """Say what would tell some parameters apart."""
    effects = [effect(unknown) for unknown in unknowns]
    if forces and Effect.INERTIA in effects and set(effects) <= _MOVED:
        return _SUMS
    for first, second, record in _SEPARATE:
        for place, one in enumerate(effects):
            if one in first and second & {*effects[:place], *effects[place + 1 :]}:
                return record.format(torque='' if forces else ' or a measured torque')
    return 'fix one of them, or record a motion in which they act differently'


def exciting(unknown: Unknown) -> str:
    """Say what would determine a parameter that the motion does not excite."""
    named = [target for target in unknown.targets if target.name]
    where = 'them' if named else 'the robot'
    if len(named) == 1:
        where = f'{named[0].element_and_attribute[0]} {named[0].name}'
    return f'{effect(unknown).value[1].format(where=where)} would determine it'

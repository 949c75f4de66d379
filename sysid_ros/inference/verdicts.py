# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the data say about each parameter, and what they cannot say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.schema import VerdictKind
from sysid_ros.errors import MOST_NAMED, listed
from sysid_ros.estimation.residuals import PRIOR
from sysid_ros.inference.combinations import (
    Combination,
    DependentSet,
    combinations,
    exact_sets,
    exciting,
    partners,
    plus_minus,
    separating,
)
from sysid_ros.inference.covariance import (
    ENOUGH,
    QUANTILE,
    AtBounds,
    Covariance,
    Linear,
    student,
    threshold,
    triangle,
)
from sysid_ros.inference.model_errors import Lacks
from sysid_ros.model.targets import Unknown

Array = NDArray[np.float64]

#: Parameters whose estimates correlate more than this cannot be told apart. It widens an interval
#: by the root of the inflation, against that with all others known.
_LARGEST_CORRELATION = 0.98
_INFLATION = 1 / (1 - _LARGEST_CORRELATION**2)
#: An interval wider than both fractions, of the value and of the bounds, does not identify.
_WIDE_OF_VALUE = 0.25
_WIDE_OF_BOUNDS = 0.02


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
    index: int, own: Interval, linear: Linear, found: Covariance, lacks: Lacks
) -> Interval:
    """Say of what noise alone would leave determined if model errors make it too uncertain.

    Model error is what many recordings disagree about by more than the noise inside of them
    explains, what makes residuals alike from sample to sample, and what residuals follow.
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
        most = QUANTILE * abs(lacks.shift[index]) > reach / math.sqrt(2)
        why = (
            lacks.why[index]
            if most or found.disagreement is None
            else f'{disagree} record {ENOUGH} or more, or find what differs between them.'
        )
    if not why or math.isnan(own.low):
        return own
    return replace(own, verdict_kind=VerdictKind.MODEL_LIMITED, explanation=why)


def widest(value: float, unknown: Unknown) -> float:
    """Return the half-width of the widest interval that identifies a parameter.

    A value near zero is compared with where it began, or with its bounds where it may have either
    sign or begins at zero; one with a log scale with itself alone. Where a run starts is measured,
    and near zero as often as not.
    """
    relative = _WIDE_OF_VALUE * abs(value)
    if unknown.scale == 'log':
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

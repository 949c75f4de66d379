# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the data say about each parameter, and what they cannot say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.calibration import MOST_NAMED, VerdictKind
from sysid_ros.estimation.residuals import PRIOR
from sysid_ros.inference.combinations import Combination, combinations, plus_minus
from sysid_ros.inference.dependence import (
    DependentSet,
    exact_sets,
    partners,
    threshold,
    triangle,
)
from sysid_ros.inference.linear import robot_priors
from sysid_ros.inference.remedies import exciting, separating
from sysid_ros.inference.spread import QUANTILE
from sysid_ros.model.unknown import Unknown

if TYPE_CHECKING:
    from sysid_ros.inference.at_bounds import AtBounds
    from sysid_ros.inference.linear import Linear
    from sysid_ros.inference.spread import Ends, Spread

#: Parameters whose estimates correlate more than this cannot be told apart. It widens an interval
#: by the root of the inflation, against that with all others known.
_LARGEST_CORRELATION = 0.98
_INFLATION = 1 / (1 - _LARGEST_CORRELATION**2)
#: An interval wider than both fractions, of the value and of the bounds, does not identify.
_WIDE_OF_VALUE = 0.25
_WIDE_OF_BOUNDS = 0.02
#: Of the information, more than this part is the priors' where they dominate.
_PRIOR_SHARE = 0.5
#: So many combinations are told in a sentence.
_TOLD = 2


@dataclass(frozen=True)
class Verdict:
    """What the data say about one parameter.

    Attributes:
        kind: What it is.
        confounded_with: Names of the parameters that it cannot be told from.
        blind: Whether the data do not determine it at all, so that there is no interval.
        explanation: A sentence for the user: what is determined instead, what would help; empty
            for what is identified.
        asked: The value that the data ask for beyond a bound, farther than an identified value may
            be off; None where they do not.
    """

    kind: VerdictKind
    confounded_with: tuple[str, ...] = ()
    blind: bool = False
    explanation: str = ''
    asked: float | None = None


class Verdicts(NamedTuple):
    """The verdict of each parameter, and what is determined of those that cannot be told apart."""

    each: tuple[Verdict, ...]
    combinations: tuple[Combination, ...]


def verdicts(
    linear: Linear, spread: Spread, bounds: AtBounds, ends: Ends, covariance: NDArray[np.float64]
) -> Verdicts:
    """Say of every parameter whether it is identified, and if not, why.

    A parameter is identified when its interval is narrow against its value or its bounds. If it is
    not, and would be with the others known, it is confounded with those that together nearly
    explain its column of the Jacobian; if it would not be even then, the motion does not excite
    it. Columns that depend on each other as exactly as differences can tell have no interval of
    their own, also if one of them is at a bound. Where less than half of the information on a
    parameter is the data's, priors on parameters dominate.

    Args:
        linear: The problem.
        spread: How far the estimates may be off with values at bounds held there.
        bounds: What values at bounds may be.
        ends: Of the intervals, which allow for that.
        covariance: (p, p) of the estimates, likewise.
    """
    return _Judge(linear, spread, bounds, ends, covariance).judge()


class _Judge:
    """The problem, and what several verdicts need of it."""

    def __init__(
        self,
        linear: Linear,
        spread: Spread,
        bounds: AtBounds,
        ends: Ends,
        covariance: NDArray[np.float64],
    ) -> None:
        self._linear = linear
        self._unknowns = linear.unknowns
        self._names = [unknown.name for unknown in linear.unknowns]
        self._half = spread.half
        self._covariance = np.nan_to_num(covariance, nan=0.0)
        self._silent = np.diag(linear.gram) == 0
        self._live = np.flatnonzero(~self._silent)
        with np.errstate(invalid='ignore', divide='ignore'):
            ratios = spread.half / np.sqrt(np.diag(spread.covariance))
        #: Half-width of intervals in standard errors.
        self._quantile = float(np.max(ratios[np.isfinite(ratios)], initial=-np.inf))
        if not np.isfinite(self._quantile):
            self._quantile = QUANTILE
        self._inflation = np.ones(len(linear.x))
        self._inflation[linear.free] = np.diag(linear.inverse)
        priors = linear.unit[linear.samples.sensor == PRIOR]
        self._exact = self._sets(linear.triangle, priors)
        self._limit = np.array(
            [widest(float(v), u) for v, u in zip(linear.x, linear.unknowns, strict=True)]
        )
        self._found: dict[tuple[int, ...], tuple[Combination, ...]] = {}
        self._bounds, self._pushed = bounds, bounds.pushed(linear.x)
        self._ends = ends
        self._wide = np.maximum(ends.high - linear.x, linear.x - ends.low)

    def judge(self) -> Verdicts:
        """Return all verdicts, and the combinations that they name."""
        each = [self._one(index) for index in range(len(self._unknowns))]
        each = self._without_priors(each)
        told = [c for found in self._found.values() for c in found]
        return Verdicts(tuple(each), tuple(dict.fromkeys(told)))

    def _one(self, index: int) -> Verdict:
        if self._silent[index]:
            return self._not_excited(index)
        exact = self._exact.get(index)
        if exact is None and self._linear.at_bound[index]:
            return self._at_bound(index)
        alone = self._half[index] / np.sqrt(max(self._inflation[index], np.finfo(float).tiny))
        weak = alone > self._limit[index]
        if exact is None and not self._wide[index] > self._limit[index]:
            return Verdict(VerdictKind.IDENTIFIED)
        if weak or (exact is None and (self._wide[index] / alone) ** 2 < _INFLATION):
            return self._not_excited(index, blind=exact is not None)
        if exact is not None:
            return self._confounded(index, exact, blind=True)
        return self._confounded(index, self._near(index), blind=False)

    def _near(self, index: int) -> DependentSet:
        """Return the set of columns that nearly depend on each other because of one."""
        loose = self._bounds.columns[~self._pushed]
        chosen = np.union1d(self._linear.free, [index, *loose])
        found = partners(self._linear.triangle[:, chosen], int(np.flatnonzero(chosen == index)[0]))
        return DependentSet(tuple(int(chosen[c]) for c in found.columns), found.blind)

    def _confounded(self, index: int, dependent: DependentSet, *, blind: bool) -> Verdict:
        names = tuple(self._names[c] for c in dependent.columns if c != index)
        if not names:
            # What depends on nothing else is as unknown as what the motion does not excite.
            return self._not_excited(index, blind=blind)
        remedy = self._separating(dependent)
        return Verdict(
            VerdictKind.CONFOUNDED,
            names,
            blind=blind,
            explanation=f'{self._instead(index, dependent)}; {remedy}.',
        )

    def _separating(self, dependent: DependentSet) -> str:
        chosen = [self._unknowns[c] for c in dependent.columns]
        return separating(chosen, forces=self._linear.samples.forces)

    def _instead(self, index: int, dependent: DependentSet) -> str:
        """Say which combinations are determined instead."""
        found = [c for c in self._combinations(dependent) if self._names[index] in c.parameters]
        if not found:
            others = _listed([self._names[c] for c in dependent.columns if c != index])
            return f'It cannot be told from {others}'
        told = ' and '.join(c.sentence for c in found[:_TOLD])
        more = f' (and {len(found) - _TOLD} more)' if len(found) > _TOLD else ''
        return f'Only {told}{more} {"is" if len(found) == 1 else "are"} determined'

    def _combinations(self, dependent: DependentSet) -> tuple[Combination, ...]:
        """Return the combinations of a set that deserve the name: their intervals are narrow."""
        if dependent.columns not in self._found:
            found = combinations(
                dependent,
                self._unknowns,
                self._linear.x,
                self._linear.scale,
                self._covariance,
                self._quantile,
            )
            self._found[dependent.columns] = tuple(
                c for c in found if c.half <= _WIDE_OF_VALUE * abs(c.value)
            )
        return self._found[dependent.columns]

    def _not_excited(self, index: int, *, blind: bool = False) -> Verdict:
        unknown, half = self._unknowns[index], self._half[index]
        low, high = self._ends.low[index], self._ends.high[index]
        blind = blind or not np.isfinite(low)
        if self._silent[index]:
            why = f'No residual changes with it, and it is held at {self._linear.x[index]:.3g}'
        elif blind:
            why = 'What was measured hardly changes with it'
        elif np.isfinite(half):
            why = f'It is only known to be {plus_minus(self._linear.x[index], half)}'
        elif high > self._linear.x[index]:
            why = f'It is only known to be below {high:.2g}'
        else:
            why = f'It is only known to be above {low:.2g}'
        return Verdict(
            VerdictKind.NOT_EXCITED, blind=blind, explanation=f'{why}; {exciting(unknown)}.'
        )

    def _at_bound(self, index: int) -> Verdict:
        """Say which bound, and whether the data push beyond it."""
        unknown, place = (
            self._unknowns[index],
            int(np.flatnonzero(self._bounds.columns == index)[0]),
        )
        half, pushed = QUANTILE * self._bounds.deviation[place], self._pushed[place]
        beyond, lower = self._bounds.beyond[place], self._bounds.inwards[place] > 0
        if not pushed and half > self._limit[index]:
            # Only noise put it there.
            inflation = 1.0 / max(self._unexplained(index), np.finfo(float).tiny)
            if inflation < _INFLATION or half / np.sqrt(inflation) > self._limit[index]:
                return self._not_excited(index)
            return self._confounded(index, self._near(index), blind=False)
        bound = unknown.min_value if lower else unknown.max_value
        where = f'It is at its {"lower" if lower else "upper"} bound {bound:g}'
        if not pushed:
            text = f'{where}, within the noise: the data do not ask for more than that'
        elif any(bound in target.bounds for target in unknown.targets):
            text = (
                f'{where}, and the data ask for about {beyond:.3g}, which is not physical: the '
                'model lacks something, or another value that is fixed is wrong'
            )
        else:
            text = (
                f'{where}, and the data ask for about {beyond:.3g}: the bounds are too narrow, '
                'or the model lacks something'
            )
        far = pushed and abs(beyond - self._linear.x[index]) > self._limit[index]
        return Verdict(
            VerdictKind.AT_BOUND,
            blind=bool(pushed),
            explanation=f'{text}.',
            asked=float(beyond) if far else None,
        )

    def _without_priors(self, each: list[Verdict]) -> list[Verdict]:
        """Name what is known by priors on parameters rather than by the data."""
        priors = robot_priors(self._unknowns, self._linear.samples, self._linear.unit)
        if not priors.any():
            return each
        free = self._linear.free
        factor = triangle(self._linear.unit[~priors])
        exact = self._sets(factor, factor[:0])
        gram = factor[:, free].T @ factor[:, free]
        # A column whose length was the prior's is short without it, but no less known for that.
        length = np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
        lengths = np.outer(length, length)
        inverse = np.linalg.pinv(gram / lengths, rcond=threshold(len(free)) ** 2, hermitian=True)
        inverse /= lengths
        found = list(each)
        for place, index in enumerate(free):
            if each[index].blind:
                continue
            unseen = index in exact or not factor[:, index].any()
            ratio = np.inf if unseen else inverse[place, place] / self._inflation[index]
            # An interval that is wide in spite of a prior of its own is what was known before.
            wide = each[index].kind is VerdictKind.NOT_EXCITED and self._unknowns[index].prior
            if wide or ratio > 1 / (1 - _PRIOR_SHARE):
                found[index] = self._prior_dominated(int(index), exact.get(int(index)), ratio)
        return found

    def _prior_dominated(self, index: int, exact: DependentSet | None, ratio: float) -> Verdict:
        unknown = self._unknowns[index]
        prior = (
            '' if unknown.prior is None else f', {plus_minus(unknown.prior[0], unknown.prior[1])}'
        )
        if exact is not None:
            others = _listed([self._names[c] for c in exact.columns if c != index])
            remedy = self._separating(exact)
            text = f'The data cannot tell it from {others}, the prior{prior} does; {remedy}'
        elif np.isfinite(ratio):
            half = self._half[index] * np.sqrt(ratio)
            whose = 'its prior' if prior else 'priors of others'
            text = f'The data alone know it to ±{half:.1g}, the rest is {whose}{prior}'
            text += f'; {exciting(unknown)}'
        else:
            text = f'The data say nothing about it beyond the prior{prior}; {exciting(unknown)}'
        return Verdict(VerdictKind.PRIOR_DOMINATED, explanation=f'{text}.')

    def _unexplained(self, index: int) -> float:
        """Return the square of what the free columns leave of one that is held, of length 1."""
        factor, free = self._linear.triangle, self._linear.free
        rest = factor[:, index] - factor[:, free] @ (
            self._linear.inverse @ self._linear.gram[free, index]
        )
        return float(rest @ rest)

    def _sets(
        self, factor: NDArray[np.float64], priors: NDArray[np.float64]
    ) -> dict[int, DependentSet]:
        """Return the exactly dependent set that each parameter is in, if any.

        The factor is that of columns which depend on each other and are as long as its own.
        """
        chosen = factor[:, self._live]
        norms = np.linalg.norm(chosen, axis=0)
        seen = self._live[norms > 0]
        found = {}
        lengths = norms[norms > 0]
        unit = chosen[:, norms > 0]
        unit /= lengths
        for dependent in exact_sets(unit, priors[:, seen] / lengths):
            columns = tuple(int(seen[c]) for c in dependent.columns)
            blind = dependent.blind / lengths[list(dependent.columns), None]
            for column in columns:
                found[column] = DependentSet(columns, blind)
        return found


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


def _listed(names: list[str]) -> str:
    if len(names) > MOST_NAMED + 1:
        return f'{", ".join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} others'
    return names[0] if len(names) == 1 else f'{", ".join(names[:-1])} and {names[-1]}'

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether residuals follow what the model may lack, and how far parameters would then move.

Each term is a column beside the parameters, and a score test says whether it is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from sysid_ros.errors import listed
from sysid_ros.fit.linear import Linear
from sysid_ros.fit.terms import Term, TermKind, title
from sysid_ros.uncertainty.covariance import (
    CHANCE,
    MOSTLY,
    QUANTILE,
    TAKES_PART,
    channel_noises,
    longest_memory,
    smoothed,
    student,
    within,
)

Array = NDArray[np.float64]

#: So often a term is found at most, or those of all joints at once.
_MOST = 4
#: A term of which less than this part is left once parameters follow is theirs.
_OWN = 1e-3
#: Noise is taken to be alike over this part of a recording at most.
_LONGEST_MEMORY = 0.1


class Lacking(NamedTuple):
    """A term that the residuals follow."""

    lack: TermKind
    title: str  # what it is and where
    sigmas: float  # how many standard errors its amount is from none
    share: float  # part of the remaining cost that it removes, after those before it
    own: Array  # (p,) by how much parameters change with it, more than with those before it


class Lacks(NamedTuple):
    """What the model lacks."""

    terms: tuple[Lacking, ...]  # the most certain kind first; none where residuals are noise
    instead: tuple[str, ...]  # titles of what explains residuals nearly as well as the first
    shift: Array  # (p,) the most that parameters change, with all terms or what there is instead
    why: tuple[str, ...]  # (p,) what would change each so, and what to do about it
    notes: tuple[str, ...]  # what a reader of the intervals has to know, a sentence each


def lacking(linear: Linear, terms: Sequence[Term], half: Array) -> Lacks:
    """Find the terms that residuals follow, and how far parameters would move with them.

    A term is one more parameter that is zero: its amount is what one Gauss-Newton step makes of it,
    its standard error that which the noise inside of recordings and beside the term gives it (a
    Wald test; A. Wald, Transactions of the American Mathematical Society 54, 1943). The most
    significant is taken into the model, or those that all joints have at once, and the others are
    tried again. Several may explain the residuals about as well: the parameters may have to move as
    any of them would move them. What none of that shows is said where it would move a parameter by
    more than its half-width, of (p,). What a value beyond its bound would explain is said of that.
    """
    count = len(linear.x)
    linear = linear.freed(np.flatnonzero(linear.at_bound & (np.diag(linear.gram) > 0)))
    search = _Search(linear, terms) if terms else None
    chosen, instead = search.selected() if search else ([], [])
    granted = _granted(search, half) if search else ()
    if search is None or not chosen:
        return Lacks((), (), np.zeros(count), ('',) * count, granted)
    sigmas = dict(zip(chosen, search.sigmas(chosen).tolist(), strict=True))
    kinds: dict[TermKind, float] = {}
    for place, own_sigmas in sigmas.items():
        kinds[terms[place].lack] = max(kinds.get(terms[place].lack, 0.0), own_sigmas)
    chosen.sort(key=lambda place: (-kinds[terms[place].lack], -sigmas[place]))
    named = [terms[place] for place in chosen]
    problems = [search.beside(chosen[:number]) for number in range(len(chosen) + 1)]
    costs = np.array([float(problem.left @ problem.left) for problem in problems])
    # Steps are how far what is there is above the optimum.
    steps = np.zeros((len(problems), count + len(terms)))
    for row, problem in zip(steps, problems, strict=True):
        row[problem.free] = problem.step
    ways, shares = steps[:, :count], (costs[:-1] - costs[1:]) / costs[0]
    found = tuple(
        Lacking(term.lack, term.title, sigmas[place], float(share), own)
        for place, term, share, own in zip(chosen, named, shares, ways[:-1] - ways[1:], strict=True)
    )
    told = {title([named[k] for k in each]) for each in _together(named)}
    others = [(each, own) for each, own in instead if title(each) not in told]
    titles = tuple(title(each) for each, _ in others)
    shifts = np.array([ways[0] - ways[-1], *(own for _, own in others)])
    most = np.argmax(np.abs(shifts), axis=0)
    mainly = np.argmax(np.abs([each.own for each in found]), axis=0)
    causes = [others[m - 1][0] if m else [named[k]] for m, k in zip(most, mainly, strict=True)]
    shift = shifts[most, np.arange(count)]
    why = tuple(
        f'With {title(each)} it would be about {x + by:.3g} ({by:+.2g}): {each[0].lack.remedy}.'
        for each, x, by in zip(causes, linear.x, shift, strict=True)
    )
    follow = '; '.join(f'{each.title} ({each.sigmas:.2g} standard errors)' for each in found)
    also = f' Instead of the first, it may be {listed(titles)}.' if titles else ''
    note = (
        f'The model lacks something; residuals follow {follow}.{also} Intervals allow for what '
        'any of that would change.'
    )
    clocks = (_clock(terms[k], -steps[-1, count + k], sigmas[k]) for k in chosen)
    return Lacks(found, titles, shift, why, (note, *filter(None, clocks), *granted))


def _clock(term: Term, amount: float, sigmas: float) -> str:
    """Say what is wrong with the stamps of a recording; nothing of terms that are no clock's."""
    if term.lack is TermKind.OFFSET:
        way, size, unit = 'are late' if amount > 0 else 'are early', 1e3 * abs(amount), 'ms'
    elif term.lack is TermKind.DRIFT:
        way, size, unit = 'run fast' if amount > 0 else 'run slow', 1e6 * abs(amount), 'ppm'
    else:
        return ''
    return (
        f'Stamps of {term.where!r} {way} by {size:.3g} ± {size / sigmas:.2g} {unit} against its '
        f'commands: {term.lack.remedy}.'
    )


class _Search:
    """The terms as columns beside the parameters."""

    def __init__(self, linear: Linear, terms: Sequence[Term]) -> None:
        self.terms = terms
        self.held = linear.beside([term.change for term in terms])
        self.columns = len(linear.x) + np.arange(len(terms))

    def beside(self, chosen: Sequence[int]) -> Linear:
        """Return the problem with some terms as parameters."""
        return self.held.freed(self.columns[list(chosen)])

    def selected(self) -> tuple[list[int], list[tuple[list[Term], Array]]]:
        """Return the terms that residuals follow.

        And what explains them nearly as well as the first, with the (p,) changes of the parameters.
        """
        chosen: list[int] = []
        instead: list[tuple[list[Term], Array]] = []
        left = _together(self.terms)
        for _ in range(_MOST):
            sigmas, shifts = self._screened(chosen, left)
            best = int(np.argmax(sigmas))
            if self.by_chance(sigmas[best]):
                break
            if not chosen:
                near = np.argsort(-sigmas)[: int(np.sum(sigmas >= MOSTLY * sigmas[best]))]
                named = [([self.terms[place] for place in left[k]], shifts[k]) for k in near]
                # Of a kind, the fewest.
                alone = {own[0].lack for own, _ in named if len(own) == 1}
                instead = [e for e in named if len(e[0]) == 1 or e[0][0].lack not in alone]
            more = [place for place in left[best] if place not in chosen]
            left = [each for each in left if not set(each) <= set(more)]
            # What stood in for the new ones goes, unless they go themselves.
            found = self._certain([*chosen, *more])
            if set(more) & set(found):
                chosen = found
            if not left:
                break
        return chosen, instead

    def sigmas(self, chosen: Sequence[int]) -> Array:
        """Return by how many standard errors terms are not zero; what they explain is no noise."""
        problem = self.beside(chosen)
        noises = channel_noises(problem, problem.left)
        own = np.searchsorted(problem.free, self.columns[list(chosen)])
        covariance, freedom = within(problem, problem.left, noises, own)
        deviation = np.sqrt(np.diag(covariance)) / problem.scale[problem.free[own]]
        with np.errstate(invalid='ignore', divide='ignore'):
            sigmas = np.abs(problem.step[own]) / deviation * (QUANTILE / student(freedom))
        return np.nan_to_num(sigmas, nan=0.0, posinf=0.0)

    def by_chance(self, sigmas: float) -> bool:
        return bool(2 * scipy.special.ndtr(-sigmas) * len(self.terms) > CHANCE)

    def _certain(self, tried: list[int]) -> list[int]:
        """Leave out what may be zero: what is alike in two terms is certain of neither."""
        while tried:
            sigmas = self.sigmas(tried)
            least = int(np.argmin(sigmas))
            if not self.by_chance(sigmas[least]):
                break
            tried = [*tried[:least], *tried[least + 1 :]]
        return tried

    def _screened(
        self, chosen: Sequence[int], choices: Sequence[Sequence[int]]
    ) -> tuple[Array, Array]:
        """Return (k,) by how many standard errors terms are not zero, and (k, p) changes with them.

        Several at once count as many as are as improbable. What they explain is no noise: it would
        look like noise with a long memory, in which nothing is certain.
        """
        problem, held = self.beside(chosen), self.held
        alike = longest_memory(channel_noises(problem, problem.left))
        found, shifts = np.zeros(len(choices)), np.zeros((len(choices), len(held.scale)))
        for number, own in enumerate(choices):
            columns = self.columns[list(own)]
            follows = problem.inverse @ held.gram[np.ix_(problem.free, columns)]
            rest = held.unit[:, columns] - problem.scaled @ follows
            products, score = rest.T @ rest, rest.T @ problem.left
            amount = -np.linalg.pinv(products, hermitian=True) @ score
            shifts[number, problem.free] = -(follows @ amount)
            if np.linalg.eigvalsh(products)[0] > _OWN:
                noise = rest * (problem.left + rest @ amount)[:, None]
                variance = sum(_summed(instants @ noise, alike) for instants in held.instants)
                size = np.sqrt(np.maximum(np.diag(variance), 1e-300))
                whitened = np.linalg.pinv(variance / np.outer(size, size), hermitian=True)
                squares = float((score / size) @ whitened @ (score / size))
                found[number] = _as_sigmas(max(squares, 0.0), len(own))
        return found, (shifts / held.scale)[:, : len(held.x)]


def _summed(series: Array, alike: float) -> Array:
    """Return the (k, k) covariance of the sums of (m, k) series."""
    # Over longer times, what terms have explained adds up to nothing.
    variance = series.T @ smoothed(series, min(alike, _LONGEST_MEMORY * len(series)))
    least, size = np.sum(series**2, axis=0), np.maximum(np.diag(variance), 1e-300)
    growth = np.sqrt(np.maximum(least / size, 1.0))
    return np.asarray(variance * np.outer(growth, growth))


def _together(terms: Sequence[Term]) -> list[list[int]]:
    """Return places of each term by itself, and of those of all joints, or all axes, at once.

    What a robot has in one joint, as elasticity, it often has in all.
    """
    kinds: dict[tuple[TermKind, int], list[int]] = {}
    seen: dict[tuple[TermKind, str], int] = {}
    for place, term in enumerate(terms):
        # Of those of a kind and a joint, the first of one joint belongs to the first of another.
        number = seen[term.lack, term.where] = seen.get((term.lack, term.where), -1) + 1
        if term.lack is not TermKind.PAYLOAD:
            kinds.setdefault((term.lack, number if term.where else 0), []).append(place)
    return [[place] for place in range(len(terms))] + [k for k in kinds.values() if len(k) > 1]


def _as_sigmas(squares: float, freedom: int) -> float:
    """Return by how many standard errors one number is off that is as improbable as χ² is.

    By the leading terms of both tails (M. Abramowitz and I. A. Stegun, Handbook of Mathematical
    Functions, 1964, 6.5.32 and 26.2.12), as probabilities are too small to be written.
    """
    if freedom == 1:
        return float(np.sqrt(squares))
    same = squares - (freedom - 1) * np.log(max(squares, 2.0) / 2)
    same += 2 * scipy.special.gammaln(freedom / 2) - np.log(np.pi)
    return float(np.sqrt(max(min(same, squares), 0.0)))


def _granted(search: _Search, half: Array) -> tuple[str, ...]:
    """Say which small errors of the model would move a parameter out of its interval unseen.

    The parameters stand in for them: they are where the residuals with the term are least, one
    Gauss-Newton step away. What is then left of it is seen if it is large beside the noise.
    """
    problem, found = search.held, []
    alike = longest_memory(channel_noises(problem, problem.residual))
    for term, column in zip(search.terms, search.columns, strict=True):
        along, amount = problem.gram[problem.free, column], term.amount * problem.scale[column]
        step = problem.inverse @ along
        left = amount * np.sqrt(max(1.0 - along @ step, 0.0))
        # It is a parameter, or what is left of it is found.
        same = np.any(np.abs(along) > 1.0 - TAKES_PART)
        if same or not search.by_chance(float(left / np.sqrt(alike))):
            continue
        shift = np.zeros(len(half))
        shift[problem.free] = -amount * step / problem.scale[problem.free]
        with np.errstate(invalid='ignore', divide='ignore'):
            widths = np.nan_to_num(np.abs(shift) / half, nan=0.0, posinf=0.0) * problem.lasting
        most = int(np.argmax(widths))
        if widths[most] > 1.0:
            value = problem.x[most] + shift[most]
            text = f'with {term.assumed}, {problem.unknowns[most].name} would be about {value:.3g}'
            found.append((widths[most], f'{text} ({widths[most]:.3g} half-widths off)'))
    if not found:
        return ()
    told = '; '.join(text for _, text in sorted(found, reverse=True)[:3])
    return (f'Taken for granted, as parameters would follow and residuals not tell: {told}.',)

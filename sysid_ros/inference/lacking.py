# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether residuals follow something that the model lacks, and how far that moves parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse
import scipy.special

from sysid_ros.errors import some
from sysid_ros.estimation.terms import TermKind
from sysid_ros.inference.spread import LEVEL, QUANTILE, inside, smoothed
from sysid_ros.inference.stationary import channel_noises, longest_memory, series_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from sysid_ros.estimation.terms import Term
    from sysid_ros.inference.linear import Linear

    Array = NDArray[np.float64]

#: Residuals follow a term if noise would make them do so, in any of all terms, with less than this
#: probability.
_CHANCE = 0.01
#: So many terms are looked at side by side, and those of a kind.
_AT_ONCE = 8
#: So often a term is found at most, or those of all joints at once.
_MOST = 4
#: A term of which less than this part is left once parameters follow is theirs.
_OWN = 1e-3
#: Terms that are by themselves this part as many standard errors from zero as the most certain one
#: explain the residuals nearly as well.
_NEARLY = 0.5
#: Noise is taken to be alike over this part of a recording at most.
_LONGEST_MEMORY = 0.1


class Lacking(NamedTuple):
    """A term that the residuals follow.

    Attributes:
        lack: What it is.
        title: What it is and where, for people.
        sigmas: How many standard errors its amount is from none.
        share: Part of the remaining cost that it removes, after those before it.
        own: (p,) by how much parameters would change with it, more than with those before it.
        clock: What is wrong with a recording's stamps, and what to do about it; else empty.
    """

    lack: TermKind
    title: str
    sigmas: float
    share: float
    own: Array
    clock: str = ''


class Lacks(NamedTuple):
    """What residuals follow that the model lacks.

    Attributes:
        terms: The most certain kind first; none where residuals are noise.
        instead: Titles of what explains them nearly as well as the first.
        shift: (p,) the most that parameters would change, with all terms or what there is instead.
        whose: (p,) title of what would change each so.
        remedies: (p,) what to do about that.
    """

    terms: tuple[Lacking, ...]
    instead: tuple[str, ...]
    shift: Array
    whose: tuple[str, ...]
    remedies: tuple[str, ...] = ()


def lacking(linear: Linear, terms: Sequence[Term]) -> Lacks:
    """Find the terms that residuals follow, and how far parameters would move with them.

    A term is one more parameter that is zero: its amount is what one Gauss-Newton step makes of it,
    its standard error that which the noise inside of recordings gives it, as with a right model
    nothing else makes it differ from zero. Noise is what is left beside the term (a Wald test; A.
    Wald, Transactions of the American Mathematical Society 54, 1943). The most significant is taken
    into the model, or those that all joints have at once, and the others are tried again. What a
    model lacks is seldom just one of the terms, and several may explain the residuals about as
    well: the parameters may have to move as any of them would move them.

    Args:
        linear: The problem at the optimum, of p parameters.
        terms: What is tried.
    """
    count = len(linear.x)
    search = _Search(linear, terms) if terms else None
    chosen, instead = search.selected() if search else ([], [])
    if search is None or not chosen:
        return Lacks((), (), np.zeros(count), ())
    chosen = search.by_kind(chosen)
    named = [terms[place] for place in chosen]
    steps = np.array([search.step(chosen[:number]) for number in range(len(chosen) + 1)])
    ways, sigmas = steps[:, :count], search.trial(chosen).sigmas
    costs = np.array([search.cost(chosen[:number]) for number in range(len(chosen) + 1)])
    shares = (costs[:-1] - costs[1:]) / costs[0]
    # Steps are how far what is there is above the optimum.
    amounts = -steps[-1, count + np.array(chosen)]
    lacks = tuple(
        Lacking(
            term.lack,
            term.title,
            float(sigma),
            float(share),
            own,
            _clock(term, float(amount), float(sigma)),
        )
        for term, sigma, share, own, amount in zip(
            named, sigmas, shares, ways[:-1] - ways[1:], amounts, strict=True
        )
    )
    told = {_title([term]) for term in named}
    told |= {_title([named[k] for k in each]) for each in _together(named)}
    others = [(each, own) for each, own in instead if _title(each) not in told]
    shifts = np.array([ways[0] - ways[-1], *(own for _, own in others)])
    most = np.argmax(np.abs(shifts), axis=0)
    mainly = np.argmax(np.abs([term.own for term in lacks]), axis=0)
    causes = [others[m - 1][0] if m else [named[k]] for m, k in zip(most, mainly, strict=True)]
    return Lacks(
        lacks,
        tuple(_title(each) for each, _ in others),
        shifts[most, np.arange(count)],
        tuple(_title(each) for each in causes),
        tuple(each[0].lack.remedy for each in causes),
    )


def _clock(term: Term, amount: float, sigmas: float) -> str:
    """Say what is wrong with the stamps of a recording, if that is what a term is."""
    said = term.lack.measured(amount, abs(amount) / sigmas if sigmas else np.inf)
    return said and f'Stamps of {term.where!r} {said} against its commands: {term.lack.remedy}.'


class _Trial(NamedTuple):
    """The fit with k terms as parameters, their columns scaled to length 1.

    Attributes:
        amounts: (k,) of the terms.
        covariance: (k, k) of these, from the noise inside of recordings.
        sigmas: (k,) by how many standard errors each is not zero.
    """

    amounts: Array
    covariance: Array
    sigmas: Array


class _Search:
    """The terms as columns beside the parameters, of which products are all that most needs."""

    def __init__(self, linear: Linear, terms: Sequence[Term]) -> None:
        self._terms = terms
        self._held = linear.beside([term.change for term in terms])
        self._pull = self._held.unit.T @ linear.residual
        self._series = series_of(linear.samples)
        self._trials: dict[tuple[int, ...], _Trial] = {}

    def selected(self) -> tuple[list[int], list[tuple[list[Term], Array]]]:
        """Return the terms that residuals follow, in the order in which they were found.

        And what explains them nearly as well as the first, with the (p,) changes of the parameters.
        """
        chosen: list[int] = []
        instead: list[tuple[list[Term], Array]] = []
        left = _together(self._terms)
        for _ in range(_MOST):
            if not left:
                break
            sigmas, shifts = self._screened(chosen, left)
            if not chosen:
                near = _nearly_as_well([self._of(each) for each in left], sigmas)
                instead = [(self._of(left[k]), shifts[k]) for k in near]
            best = int(np.argmax(sigmas))
            if self._by_chance(sigmas[best]):
                break
            more = [place for place in left[best] if place not in chosen]
            left = [each for each in left if not set(each) <= set(more)]
            # What stood in for the new ones goes, unless they go themselves.
            found = self._certain([*chosen, *more])
            if set(more) & set(found):
                chosen = found
        return chosen, instead

    def by_kind(self, chosen: Sequence[int]) -> list[int]:
        """Return terms in the order of how certain those of their kind are, then each is."""
        trial = self.trial(chosen)
        kinds: dict[TermKind, list[int]] = {}
        for number, place in enumerate(chosen):
            kinds.setdefault(self._terms[place].lack, []).append(number)
        sigmas = {}
        for kind, own in kinds.items():
            inverse = np.linalg.pinv(trial.covariance[np.ix_(own, own)], hermitian=True)
            squares = float(trial.amounts[own] @ inverse @ trial.amounts[own])
            sigmas[kind] = _as_sigmas(max(squares, 0.0), len(own))
        alone = dict(zip(chosen, trial.sigmas.tolist(), strict=True))
        return sorted(chosen, key=lambda k: (-sigmas[self._terms[k].lack], -alone[k]))

    def step(self, chosen: Sequence[int]) -> Array:
        """Return how far parameters and all terms are above their optimum with some of these."""
        problem = self._with(chosen)
        found = np.zeros(len(self._held.scale))
        found[problem.free] = problem.inverse @ self._pull[problem.free]
        return np.asarray(found / self._held.scale)

    def cost(self, chosen: Sequence[int]) -> float:
        """Return the sum of squares that is left with terms beside the parameters."""
        left = self._with(chosen).left
        return float(left @ left)

    def trial(self, chosen: Sequence[int]) -> _Trial:
        """Fit with some terms beside the parameters; what they explain is no noise."""
        order = tuple(sorted(chosen))
        if order not in self._trials:
            problem, count = self._with(order), len(order)
            noises = channel_noises(problem, self._series.channels, problem.left)
            covariance, freedom = inside(problem, self._series, noises, problem.left, last=count)
            amounts = (problem.inverse @ self._pull[problem.free])[-count:]
            student = scipy.special.stdtrit(freedom, (1 + LEVEL) / 2) / QUANTILE
            with np.errstate(invalid='ignore', divide='ignore'):
                sigmas = np.abs(amounts) / (np.sqrt(np.diag(covariance)) * student)
            sigmas = np.nan_to_num(sigmas, nan=0.0, posinf=0.0)
            self._trials[order] = _Trial(amounts, covariance, sigmas)
        amounts, covariance, sigmas = self._trials[order]
        own = np.searchsorted(order, chosen)
        return _Trial(amounts[own], covariance[np.ix_(own, own)], sigmas[own])

    def _with(self, chosen: Sequence[int]) -> Linear:
        return self._held.freed(len(self._held.x) + np.array(chosen, dtype=np.int64))

    def _of(self, places: Sequence[int]) -> list[Term]:
        return [self._terms[place] for place in places]

    def _by_chance(self, sigmas: float) -> bool:
        return bool(2 * scipy.special.ndtr(-sigmas) * len(self._terms) > _CHANCE)

    def _certain(self, tried: list[int]) -> list[int]:
        """Leave out what may be zero: what is alike in two terms is certain of neither."""
        while tried:
            sigmas = self.trial(tried).sigmas
            least = int(np.argmin(sigmas))
            if not self._by_chance(sigmas[least]):
                break
            tried = [*tried[:least], *tried[least + 1 :]]
        return tried

    def _screened(
        self, chosen: Sequence[int], choices: Sequence[Sequence[int]]
    ) -> tuple[Array, Array]:
        """Return (k,) by how many standard errors terms are not zero, beside those there are.

        And (k, p) by how much parameters would change with them. Several terms at once count as
        many standard errors as are as improbable.

        What those and the terms explain is no noise: a term that explains most of the residuals
        would else make them look like noise with a long memory, in which nothing is certain.
        """
        problem, count = self._with(chosen), len(self._held.x)
        scaled, residual = problem.scaled, problem.left
        noises = channel_noises(problem, self._series.channels, residual)
        alike = longest_memory(noises.values())
        found, shifts = np.zeros(len(choices)), np.zeros((len(choices), len(self._held.scale)))
        for batch, numbers in _side_by_side(choices):
            columns = count + np.array(batch)
            follows = problem.inverse @ self._held.gram[np.ix_(problem.free, columns)]
            every = self._held.unit.T[columns] - follows.T @ scaled.T
            for number in numbers:
                own = [batch.index(place) for place in choices[number]]
                rest = every[own].T
                alike_in = rest.T @ rest
                score = rest.T @ residual
                amount = -np.linalg.pinv(alike_in, hermitian=True) @ score
                shifts[number, problem.free] = -(follows[:, own] @ amount)
                if np.linalg.eigvalsh(alike_in)[0] <= _OWN:
                    continue
                variance = _variance(rest, residual + rest @ amount, self._series.instants, alike)
                size = np.sqrt(np.maximum(np.diag(variance), 1e-300))
                whitened = np.linalg.pinv(variance / np.outer(size, size), hermitian=True)
                squares = float((score / size) @ whitened @ (score / size))
                found[number] = _as_sigmas(max(squares, 0.0), len(own))
        return found, (shifts / self._held.scale)[:, :count]


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


def _nearly_as_well(terms: Sequence[Sequence[Term]], sigmas: Array) -> list[int]:
    """Return which explain the residuals nearly as well as the best, of a kind the fewest."""
    order = np.argsort(-sigmas)[: int(np.sum(sigmas >= _NEARLY * sigmas.max()))].tolist()
    alone = {terms[k][0].lack for k in order if len(terms[k]) == 1}
    return [k for k in order if len(terms[k]) == 1 or terms[k][0].lack not in alone]


def _title(terms: Sequence[Term]) -> str:
    """Say what terms of a kind are."""
    places = [repr(term.where) for term in terms if term.where]
    return f'{terms[0].lack} of {some(places)}' if places else terms[0].title


def _side_by_side(choices: Sequence[Sequence[int]]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield terms that are looked at at once, and which of the choices are among them."""
    groups = [list(each) for each in choices if len(each) > 1]
    grouped = set().union(*groups)
    alone = [each[0] for each in choices if len(each) == 1 and each[0] not in grouped]
    batches = groups + [alone[k : k + _AT_ONCE] for k in range(0, len(alone), _AT_ONCE)]
    seen: set[int] = set()
    for batch in batches:
        own = set(batch)
        numbers = [n for n, each in enumerate(choices) if n not in seen and own.issuperset(each)]
        seen.update(numbers)
        yield batch, numbers


def _variance(
    rest: Array, left: Array, instants: Sequence[scipy.sparse.csr_array], alike: float
) -> Array:
    """Return the (k, k) covariance of the scores of (n, k) terms, with what they leave as noise."""
    variance = np.zeros((rest.shape[1],) * 2)
    products = rest * left[:, None]
    for instant in instants:
        series = instant @ products
        # Over longer times, what terms have explained adds up to nothing.
        reach = min(alike, _LONGEST_MEMORY * len(series))
        own = series.T @ smoothed(series, reach)
        least, size = np.sum(series**2, axis=0), np.maximum(np.diag(own), 1e-300)
        growth = np.sqrt(np.maximum(least / size, 1.0))
        variance += own * np.outer(growth, growth)
    return variance


def _as_sigmas(squares: float, freedom: int) -> float:
    """Return by how many standard errors one number is off that is as improbable as χ² is.

    By the leading terms of both tails (M. Abramowitz and I. A. Stegun, Handbook of Mathematical
    Functions, 1964, 6.5.32 and 26.2.12), as probabilities are too small to be written.
    """
    if freedom == 1:
        return float(np.sqrt(squares))
    half = freedom / 2
    same = squares - (freedom - 1) * np.log(max(squares, 2.0) / 2)
    same += 2 * scipy.special.gammaln(half) - np.log(np.pi)
    return float(np.sqrt(max(min(same, squares), 0.0)))

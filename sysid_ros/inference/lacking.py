# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether residuals follow something that the model lacks, and how far that moves parameters."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.special

from sysid_ros.errors import some
from sysid_ros.estimation.terms import TermKind
from sysid_ros.inference.linear import linearised
from sysid_ros.inference.spread import QUANTILE, smoothed, spread
from sysid_ros.inference.stationary import channel_noises, longest_memory
from sysid_ros.model.unknown import Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from sysid_ros.config.calibration import Loss
    from sysid_ros.estimation.layout import Samples
    from sysid_ros.estimation.solver.least_squares import Solution
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
#: Terms have no bounds.
_FAR = 1e100
#: Noise is taken to be alike over this part of a recording at most.
_LONGEST_MEMORY = 0.1


class Lacking(NamedTuple):
    """A term that the residuals follow.

    Attributes:
        title: What it is and where, for people.
        sigmas: How many standard errors its amount is from none.
        own: (p,) by how much parameters would change with it, more than with those before it.
        clock: What is wrong with a recording's stamps, and what to do about it; else empty.
    """

    title: str
    sigmas: float
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


def lacking(
    solution: Solution,
    jacobian: Array,
    unknowns: Sequence[Unknown],
    samples: Samples,
    terms: Sequence[Term],
    loss: Loss = 'linear',
) -> Lacks:
    """Find the terms that residuals follow, and how far parameters would move with them.

    A term is one more parameter that is zero: its amount is what one Gauss-Newton step makes of it,
    its standard error that which the noise inside of recordings gives it, as with a right model
    nothing else makes it differ from zero. Noise is what is left beside the term (a Wald test; A.
    Wald, Transactions of the American Mathematical Society 54, 1943). The most significant is taken
    into the model, or those that all joints have at once, and the others are tried again. What a
    model lacks is seldom just one of the terms, and several may explain the residuals about as
    well: the parameters may have to move as any of them would move them.

    Args:
        solution: Where the solver ended.
        jacobian: (n, p) derivative of the residuals there, per unit of each parameter.
        unknowns: The parameters, p of them.
        samples: What each residual is.
        terms: What is tried.
        loss: Of the fit.
    """
    # All recordings are one: their disagreement may be what a term explains.
    samples = dataclasses.replace(samples, bags=('all',) * int(samples.sequence.max() + 1))

    def problem(chosen: Sequence[Term]) -> Linear:
        return _with(solution, jacobian, unknowns, samples, chosen, loss)

    chosen, instead = _selected(problem, terms, len(unknowns))
    if not chosen:
        return Lacks((), (), np.zeros(len(unknowns)), ())
    chosen = _by_kind(problem(chosen), chosen)
    sigmas = _sigmas(problem(chosen), len(unknowns))
    steps = [_step(problem(chosen[:count])) for count in range(len(chosen) + 1)]
    ways = np.array([step[: len(unknowns)] for step in steps])
    # Steps are how far what is there is above the optimum.
    amounts = -steps[-1][len(unknowns) :]
    lacks = tuple(
        Lacking(term.title, sigma, own, _clock(term, amount, sigma))
        for term, sigma, own, amount in zip(
            chosen, sigmas.tolist(), ways[:-1] - ways[1:], amounts.tolist(), strict=True
        )
    )
    told = {_title([term]) for term in chosen} | {_title(each) for each in _together(chosen)}
    others = [(each, own) for each, own in instead if _title(each) not in told]
    shifts = np.array([ways[0] - ways[-1], *(own for _, own in others)])
    most = np.argmax(np.abs(shifts), axis=0)
    mainly = np.argmax(np.abs([term.own for term in lacks]), axis=0)
    causes = [others[m - 1][0] if m else [chosen[k]] for m, k in zip(most, mainly, strict=True)]
    return Lacks(
        lacks,
        tuple(_title(each) for each, _ in others),
        shifts[most, np.arange(len(unknowns))],
        tuple(_title(each) for each in causes),
        tuple(each[0].lack.remedy for each in causes),
    )


def _clock(term: Term, amount: float, sigmas: float) -> str:
    """Say what is wrong with the stamps of a recording, if that is what a term is."""
    said = term.lack.measured(amount, abs(amount) / sigmas if sigmas else np.inf)
    if not said:
        return ''
    return f'Stamps of {term.where!r} {said} against its commands: {term.lack.remedy}.'


def _selected(
    problem: Callable[[Sequence[Term]], Linear], terms: Sequence[Term], count: int
) -> tuple[list[Term], list[tuple[Sequence[Term], Array]]]:
    """Return the terms that residuals follow, in the order in which they were found.

    And what explains them nearly as well as the first, with the (count,) changes of the parameters.
    """

    def by_chance(sigmas: float) -> bool:
        return bool(2 * scipy.special.ndtr(-sigmas) * len(terms) > _CHANCE)

    def certain(tried: list[Term]) -> list[Term]:
        """Leave out what may be zero: what is alike in two terms is certain of neither."""
        while tried:
            sigmas = _sigmas(problem(tried), count)
            least = int(np.argmin(sigmas))
            if not by_chance(sigmas[least]):
                break
            tried = [*tried[:least], *tried[least + 1 :]]
        return tried

    chosen: list[Term] = []
    instead: list[tuple[Sequence[Term], Array]] = []
    left = _together(terms)
    for _ in range(_MOST):
        if not left:
            break
        sigmas, shifts = _screened(problem(chosen), left)
        if not chosen:
            near = _nearly_as_well(left, sigmas)
            instead = [(left[k], shifts[k, :count]) for k in near]
        best = int(np.argmax(sigmas))
        if by_chance(sigmas[best]):
            break
        more = [term for term in left[best] if not _among(term, chosen)]
        left = [each for each in left if not all(_among(term, more) for term in each)]
        # What stood in for the new ones goes, unless they go themselves.
        found = certain([*chosen, *more])
        if any(_among(term, found) for term in more):
            chosen = found
    return chosen, instead


def _by_kind(linear: Linear, terms: Sequence[Term]) -> list[Term]:
    """Return terms in the order of how certain those of their kind are together, then each is."""
    count = len(linear.x) - len(terms)
    amounts = _step(linear)[count:]
    known = spread(dataclasses.replace(linear, residual=linear.left)).covariance[count:, count:]
    kinds: dict[TermKind, list[int]] = {}
    for place, term in enumerate(terms):
        kinds.setdefault(term.lack, []).append(place)
    sigmas = {}
    for kind, places in kinds.items():
        covariance = np.nan_to_num(known[np.ix_(places, places)])
        squares = amounts[places] @ np.linalg.pinv(covariance, hermitian=True) @ amounts[places]
        sigmas[kind] = _as_sigmas(max(float(squares), 0.0), len(places))
    own = np.nan_to_num(np.abs(amounts) / np.sqrt(np.diag(known)))
    order = sorted(range(len(terms)), key=lambda place: (-sigmas[terms[place].lack], -own[place]))
    return [terms[place] for place in order]


def _among(term: Term, terms: Sequence[Term]) -> bool:
    return any(term is each for each in terms)


def _step(linear: Linear) -> Array:
    """Return how far all parameters are above their optimum, none of them at a bound."""
    found = np.zeros(len(linear.x))
    found[linear.free] = linear.step
    return found


def _sigmas(linear: Linear, count: int) -> Array:
    """Return by how many standard errors each term, after so many parameters, is not zero."""
    # What the terms explain is no noise.
    half = spread(dataclasses.replace(linear, residual=linear.left)).half[count:]
    with np.errstate(invalid='ignore', divide='ignore'):
        found = np.abs(_step(linear)[count:]) / half * QUANTILE
    return np.nan_to_num(found, nan=0.0, posinf=0.0)


def _with(
    solution: Solution,
    jacobian: Array,
    unknowns: Sequence[Unknown],
    samples: Samples,
    terms: Sequence[Term],
    loss: Loss,
) -> Linear:
    """Return the linearised problem with terms as parameters that are zero."""
    more = tuple(Unknown(f'term {k}', (), 0.0, -_FAR, _FAR) for k in range(len(terms)))
    return linearised(
        dataclasses.replace(solution, x=np.concatenate([solution.x, np.zeros(len(more))])),
        np.concatenate([jacobian, *(term.change[:, None] for term in terms)], axis=1),
        (*unknowns, *more),
        samples,
        loss,
    )


def _together(terms: Sequence[Term]) -> list[list[Term]]:
    """Return each term by itself, and those that all joints have, or all axes, at once.

    What a robot has in one joint, as elasticity, it often has in all.
    """
    kinds: dict[tuple[TermKind, int], list[Term]] = {}
    seen: dict[tuple[TermKind, str], int] = {}
    for term in terms:
        # Of those of a kind and a joint, the first of one joint belongs to the first of another.
        number = seen[term.lack, term.where] = seen.get((term.lack, term.where), -1) + 1
        if term.lack is not TermKind.PAYLOAD:
            kinds.setdefault((term.lack, number if term.where else 0), []).append(term)
    return [[term] for term in terms] + [each for each in kinds.values() if len(each) > 1]


def _nearly_as_well(terms: Sequence[Sequence[Term]], sigmas: Array) -> list[int]:
    """Return which explain the residuals nearly as well as the best, of a kind the fewest."""
    order = np.argsort(-sigmas)[: int(np.sum(sigmas >= _NEARLY * sigmas.max()))].tolist()
    alone = {terms[k][0].lack for k in order if len(terms[k]) == 1}
    return [k for k in order if len(terms[k]) == 1 or terms[k][0].lack not in alone]


def _title(terms: Sequence[Term]) -> str:
    """Say what terms of a kind are."""
    places = [repr(term.where) for term in terms if term.where]
    return f'{terms[0].lack} of {some(places)}' if places else terms[0].title


def _screened(linear: Linear, terms: Sequence[Sequence[Term]]) -> tuple[Array, Array]:
    """Return (k,) by how many standard errors terms are not zero, beside those there are.

    And (k, p) by how much parameters would change with them. Several terms at once count as many
    standard errors as are as improbable.

    What those and the terms explain is no noise: a term that explains most of the residuals would
    else make them look like noise with a long memory, in which nothing is certain.
    """
    scaled, samples = linear.scaled, linear.samples
    residual = linear.left
    noises = channel_noises(dataclasses.replace(linear, residual=residual))
    alike = longest_memory(noises.values())
    measured = samples.sensor >= 0
    instants = []
    for sequence in np.unique(samples.sequence[measured]):
        rows = np.flatnonzero((samples.sequence == sequence) & measured)
        instants.append((rows, np.unique(samples.time[rows], return_inverse=True)[1]))
    found, shifts = np.zeros(len(terms)), np.zeros((len(terms), len(linear.x)))
    for batch, places in _side_by_side(terms):
        every = np.stack([term.change for term in batch], axis=1)
        every /= np.sqrt(np.einsum('ij,ij->j', every, every))
        follows = linear.inverse @ (scaled.T @ every)
        every -= scaled @ follows
        for place in places:
            own = [k for k, term in enumerate(batch) if _among(term, terms[place])]
            rest = every[:, own]
            alike_in = rest.T @ rest
            score = rest.T @ residual
            amount = -np.linalg.pinv(alike_in, hermitian=True) @ score
            shift = -(follows[:, own] @ amount) / linear.scale[linear.free]
            shifts[place, linear.free] = shift
            if np.linalg.eigvalsh(alike_in)[0] <= _OWN:
                continue
            variance = _variance(rest, residual + rest @ amount, instants, alike)
            size = np.sqrt(np.maximum(np.diag(variance), 1e-300))
            whitened = np.linalg.pinv(variance / np.outer(size, size), hermitian=True)
            squares = float((score / size) @ whitened @ (score / size))
            found[place] = _as_sigmas(max(squares, 0.0), len(own))
    return found, shifts


def _side_by_side(terms: Sequence[Sequence[Term]]) -> Iterator[tuple[Sequence[Term], list[int]]]:
    """Yield terms that are looked at at once, and which of the choices are among them."""
    groups = [list(each) for each in terms if len(each) > 1]
    alone = [
        each[0]
        for each in terms
        if len(each) == 1 and not any(_among(each[0], group) for group in groups)
    ]
    batches = groups + [alone[k : k + _AT_ONCE] for k in range(0, len(alone), _AT_ONCE)]
    seen: set[int] = set()
    for batch in batches:
        places = [
            place
            for place, each in enumerate(terms)
            if place not in seen and all(_among(term, batch) for term in each)
        ]
        seen.update(places)
        yield batch, places


def _variance(
    rest: Array,
    left: Array,
    instants: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
    alike: float,
) -> Array:
    """Return the (k, k) covariance of the scores of (n, k) terms, with what they leave as noise."""
    variance = np.zeros((rest.shape[1],) * 2)
    for rows, instant in instants:
        products = rest[rows] * left[rows, None]
        sums = [np.bincount(instant, column) for column in products.T]
        series = np.stack(sums, axis=1).astype(np.float64)
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

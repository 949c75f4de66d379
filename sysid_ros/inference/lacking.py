# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether residuals follow something that the model lacks, and how far that moves parameters."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.special

from sysid_ros.inference.linear import linearised
from sysid_ros.inference.spread import QUANTILE, bartlett, spread
from sysid_ros.inference.stationary import channel_noises, longest_memory
from sysid_ros.model.unknown import Unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

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
#: So many terms are found at most.
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
#: So many terms are looked at side by side.
_SIDE_BY_SIDE = 8


class Lacking(NamedTuple):
    """A term that the residuals follow.

    Attributes:
        title: What it is and where, for people.
        sigmas: How many standard errors its amount is from none.
        own: (p,) by how much parameters would change with it, more than with those before it.
    """

    title: str
    sigmas: float
    own: Array


class Lacks(NamedTuple):
    """What residuals follow that the model lacks.

    Attributes:
        terms: The most certain first; none where residuals are noise.
        instead: Titles of what explains them nearly as well as the first.
        shift: (p,) the most that parameters would change, with all terms or what there is instead.
        whose: (p,) title of what would change each so.
    """

    terms: tuple[Lacking, ...]
    instead: tuple[str, ...]
    shift: Array
    whose: tuple[str, ...]


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
    into the model, and the others are tried again. What a model lacks is seldom just one of the
    terms, and several may explain the residuals about as well: the parameters may have to move as
    any of them would move them.

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

    def certain(chosen: Sequence[Term]) -> Array:
        """Return which terms noise does not make differ from zero, by their standard errors."""
        sigmas = _sigmas(problem(chosen), len(unknowns))
        return np.where(2 * scipy.special.ndtr(-sigmas) * len(terms) < _CHANCE, sigmas, 0.0)

    chosen: list[Term] = []
    left = list(terms)
    instead: list[tuple[str, Array]] = []
    while left and len(chosen) < _MOST:
        sigmas, shifts = _screened(problem(chosen), left)
        if not chosen:
            near = np.argsort(-sigmas)[: int(np.sum(sigmas >= _NEARLY * sigmas.max()))]
            instead = [(left[k].title, shifts[k, : len(unknowns)]) for k in near]
        best = int(np.argmax(sigmas))
        term = left.pop(best)
        if 2 * scipy.special.ndtr(-sigmas[best]) * len(terms) > _CHANCE:
            break
        sigmas = certain([*chosen, term])
        if sigmas[-1]:
            # What stood in for the new one goes.
            chosen = [each for each, own in zip([*chosen, term], sigmas, strict=True) if own]
    if not chosen:
        return Lacks((), (), np.zeros(len(unknowns)), ())
    sigmas = _sigmas(problem(chosen), len(unknowns))
    order = np.argsort(-sigmas)
    steps = [_step(problem([chosen[k] for k in order[:count]])) for count in range(len(order) + 1)]
    ways = np.array([step[: len(unknowns)] for step in steps])
    found = tuple(
        Lacking(chosen[k].title, float(sigmas[k]), own)
        for k, own in zip(order, ways[:-1] - ways[1:], strict=True)
    )
    others = [(title, own) for title, own in instead if title not in {t.title for t in found}]
    shifts = np.array([ways[0] - ways[-1], *(own for _, own in others)])
    most = np.argmax(np.abs(shifts), axis=0)
    mainly = np.argmax(np.abs([term.own for term in found]), axis=0)
    return Lacks(
        found,
        tuple(title for title, _ in others),
        shifts[most, np.arange(len(unknowns))],
        tuple(others[m - 1][0] if m else found[k].title for m, k in zip(most, mainly, strict=True)),
    )


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


def _screened(linear: Linear, terms: Sequence[Term]) -> tuple[Array, Array]:
    """Return (k,) by how many standard errors each term is not zero, beside those there are.

    And (k, p) by how much parameters would change with each.

    What those and the term explain is no noise: a term that explains most of the residuals would
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
    for first in range(0, len(terms), _SIDE_BY_SIDE):
        some = slice(first, first + _SIDE_BY_SIDE)
        rest = np.stack([term.change for term in terms[some]], axis=1)
        rest /= np.sqrt(np.einsum('ij,ij->j', rest, rest))
        follow = linear.inverse @ (scaled.T @ rest)
        rest -= scaled @ follow
        own = np.einsum('ij,ij->j', rest, rest)
        score = rest.T @ residual
        amount = -score / np.maximum(own, 1e-300)
        shifts[some, linear.free] = -(follow * amount).T / linear.scale[linear.free]
        variance = np.zeros(len(score))
        left = residual[:, None] + rest * amount
        for rows, instant in instants:
            products = rest[rows] * left[rows]
            sums = [np.bincount(instant, column) for column in products.T]
            series = np.stack(sums, axis=1).astype(np.float64)
            # Over longer times, what a term has explained adds up to nothing.
            reach = min(alike, _LONGEST_MEMORY * len(series))
            variance += np.maximum(bartlett(series, reach), np.sum(series**2, axis=0))
        sigmas = np.abs(score) / np.sqrt(np.maximum(variance, 1e-300))
        found[some] = np.where(own > _OWN, sigmas, 0.0)
    return found, shifts

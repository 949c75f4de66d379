# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The search for the coefficients of a motion, on a quick guess of what motions say."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.optimize
import scipy.special

from sysid_ros.excitation.surrogate import Surrogate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sysid_ros.excitation.experiment import Experiment
    from sysid_ros.excitation.fourier import Plan

#: Random motions of each plan; the search improves the best of them.
_SCREENED = 40
#: Iterations that compare plans, and iterations that improve the best.
_COMPARED, _IMPROVED = 8, 50
#: Share of the widest relative interval in the criterion, the rest being the mean of all …
_WIDEST = 0.5
#: … where "widest" is a mean of this power, so that it has a derivative.
_POWER = 6.0
#: What a limit costs that is exceeded by all of itself.
_PENALTY = 100.0
#: Information below this share of a parameter's size is none.
_NOTHING = 1e-9
#: Amplitudes of the random motions, and reach of their centres, in units of half of the actuators'
#: ranges.
_SIZE, _CENTRES = 0.3, 0.3
_SCALINGS = 4


class Found(NamedTuple):
    """A plan, its coefficients, and their cost."""

    plan: Plan
    x: NDArray[np.float64]
    cost: float


def cost(information: NDArray[np.float64], sizes: NDArray[np.float64]) -> float:
    """Return the logarithm of how wide intervals are: the mean of all, mixed with the widest.

    The first is D-optimality where parameters hardly depend on each other; the second is what a
    user sees first. Infinite where the information does not determine all parameters.

    Args:
        information: (p, p) per unit of the parameters.
        sizes: (p,) what intervals are relative to, in the parameters' units.
    """
    scaled = information * np.outer(sizes, sizes)
    size = np.sqrt(np.diag(scaled))
    if not np.all(np.isfinite(scaled)) or not np.all(size > 0):
        return np.inf
    values, vectors = np.linalg.eigh(scaled / np.outer(size, size))
    if values[0] <= 0:
        return np.inf
    widths = np.log(np.sum(vectors**2 / values, axis=1)) / 2 - np.log(size)
    widest = (scipy.special.logsumexp(_POWER * widths) - np.log(len(widths))) / _POWER
    return float((1 - _WIDEST) * np.mean(widths) + _WIDEST * widest)


def random(plan: Plan, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return random coefficients of a plan."""
    x: NDArray[np.float64] = rng.standard_normal(plan.shape) * _SIZE / np.sqrt(plan.shape[1])
    x[:, 0] = rng.uniform(-_CENTRES, _CENTRES, len(x))
    return x


def find(
    experiment: Experiment,
    plans: Sequence[Plan],
    kept: NDArray[np.int64],
    sizes: NDArray[np.float64],
    rng: np.random.Generator,
    tell: Callable[[float], None],
) -> Found:
    """Return the plan and the coefficients that say most, with limits kept about.

    Args:
        experiment: Model, parameters, limits and sensors.
        plans: Families of motions of the same length.
        kept: Rows of the parameters that count.
        sizes: (p,) what intervals are relative to.
        rng: Chooses the starts.
        tell: Is told the part that is done.
    """
    trials = [_Trial(experiment, plan, kept, sizes) for plan in plans]
    total = max(len(trials) * _COMPARED + _IMPROVED, 1)
    found = []
    for number, trial in enumerate(trials):
        start = min((trial.inside(random(trial.plan, rng)) for _ in range(_SCREENED)), key=trial)
        x = trial.improved(start, _COMPARED)
        found.append((trial(x), number, x))
        tell((number + 1) * _COMPARED / total)
    _, number, x = min(found)
    best = trials[number]
    done = len(trials) * _COMPARED
    x = best.improved(x, _IMPROVED, lambda count: tell(min(done + count, total) / total))
    return Found(best.plan, x, best(x))


class _Trial:
    """The cost of a plan's coefficients."""

    def __init__(
        self,
        experiment: Experiment,
        plan: Plan,
        kept: NDArray[np.int64],
        sizes: NDArray[np.float64],
    ) -> None:
        self.plan = plan
        self._quick = Surrogate(experiment, plan)
        self._allowed = experiment.limits.allowed
        still = np.zeros(plan.shape)
        self._samples = experiment.rate * plan.periods * plan.period
        self._also = np.zeros((len(sizes), len(sizes)))
        if plan.sweep:
            since = 2 * plan.ramp + plan.periods * plan.period
            self._also = experiment.information(plan.motion(still), since)
        sample = self._quick.information(random(plan, np.random.default_rng(0)))
        # What the linear model leaves out, as delays, follows what it has.
        told = np.diag(sample)[kept] * sizes[kept] ** 2 > _NOTHING
        self._kept = kept[told] if np.any(told) else kept
        self._sizes = sizes[self._kept]

    def __call__(self, x: NDArray[np.float64]) -> float:
        """Return the cost, with what limits add that are exceeded."""
        information = self._also + self._samples * self._quick.information(x)
        over = np.maximum(self._quick.parts(x) / self._allowed - 1, 0.0)
        found = cost(information[np.ix_(self._kept, self._kept)], self._sizes)
        return min(found, _PENALTY) + _PENALTY * float(np.sum(over**2))

    def inside(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the coefficients scaled until no limit is exceeded, the tightest being reached."""
        for _ in range(_SCALINGS):
            used = float(np.max(self._quick.parts(x) / self._allowed))
            x = x * np.clip(1 / used, 0.3, 1.5)
        return x

    def improved(
        self,
        start: NDArray[np.float64],
        iterations: int,
        tell: Callable[[int], None] = lambda _count: None,
    ) -> NDArray[np.float64]:
        """Return better coefficients, by L-BFGS (Liu and Nocedal 1989) with differences."""
        if not iterations:
            return start
        count = 0

        def after(_: NDArray[np.float64]) -> None:
            nonlocal count
            count += 1
            tell(count)

        unit = max(float(np.abs(start[:, 1:]).mean()), 1e-3)
        result = scipy.optimize.minimize(
            lambda z: self(unit * z.reshape(start.shape)),
            (start / unit).reshape(-1),
            method='L-BFGS-B',
            callback=after,
            options={'maxiter': iterations, 'maxfun': 10**9, 'eps': 1e-5},
        )
        found: NDArray[np.float64] = unit * result.x.reshape(start.shape)
        return found

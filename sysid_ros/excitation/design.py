# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The motion that says most about parameters, inside of all limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.special

from sysid_ros.errors import ModelError, ParameterError
from sysid_ros.estimation.solver.differences import scales
from sysid_ros.excitation.drives import drives
from sysid_ros.excitation.experiment import QUANTILE
from sysid_ros.excitation.motion import Motion
from sysid_ros.excitation.surrogate import Surrogate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sysid_ros.excitation.experiment import Excursion, Experiment
    from sysid_ros.excitation.fourier import Plan
    from sysid_ros.excitation.limits import Usage
    from sysid_ros.model.unknown import Unknown

    #: Called with what happens, and which part of the work is done.
    Observer = Callable[[str, float], None]

#: Random motions of each plan; the search improves the best of them.
_SCREENED = 40
#: Iterations that compare plans, and iterations that improve the best.
_COMPARED, _IMPROVED = 8, 50
#: Share of the widest relative interval in the criterion; the rest is the mean of all.
_WIDEST = 0.5
#: The widest interval is a mean of this power, so that it has a derivative.
_POWER = 6.0
#: What a limit costs that is exceeded by all of itself.
_PENALTY = 100.0
#: Information below this share of a parameter's size is none.
_NOTHING = 1e-9
#: Amplitudes of random motions, and reach of their centres, in halves of the actuators' ranges.
_SIZE, _CENTRES = 0.3, 0.3
#: The search scales a start so often until no limit is exceeded.
_SCALINGS = 4
#: How far the true parameters may be off while no limit is broken.
UNCERTAINTY = 0.2
#: The search tries a motion on so many models whose parameters are that far off.
_TRIED = 4
#: The motion that the search finds is checked on so many of them.
_CHECKED = 32
#: So many random motions show which parameters none excites.
_LOOKED = 2
#: The amplitudes of the whole motion are fitted to the limits so often, up by at most this factor.
_FITS, _MOST_LARGER = 4, 1.3
#: A motion that then breaks a limit is made smaller by this factor, at most so many times.
_SHRINK, _MOST_SHRINKS = 0.97, 80
#: Rounds in which the amplitudes of a comparison motion are fitted to its torques.
_ROUNDS = 16
#: Rounds in which the amplitudes of random motions are fitted to the limits.
_FEW_ROUNDS = 4
#: Directions with less of the information than this are none; as in the verdicts of a fit.
_RANK = 1e-6
#: A parameter stands for another one by more than this share.
_SHARE = 0.1


class FoundMotion(NamedTuple):
    """A plan, its coefficients, and their cost."""

    plan: Plan
    x: NDArray[np.float64]
    cost: float


def width_cost(information: NDArray[np.float64], sizes: NDArray[np.float64]) -> float:
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


def random_coefficients(plan: Plan, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return random coefficients of a plan."""
    x: NDArray[np.float64] = rng.standard_normal(plan.shape) * _SIZE / np.sqrt(plan.shape[1])
    x[:, 0] = rng.uniform(-_CENTRES, _CENTRES, len(x))
    return x


def best_coefficients(
    experiment: Experiment,
    plans: Sequence[Plan],
    kept: NDArray[np.int64],
    sizes: NDArray[np.float64],
    rng: np.random.Generator,
    tell: Callable[[float], None],
) -> FoundMotion:
    """Return the plan and the coefficients that say most, with limits kept about.

    Args:
        experiment: Model, parameters, limits and sensors.
        plans: Families of motions of the same length.
        kept: Rows of the parameters that count.
        sizes: (p,) what intervals are relative to.
        rng: Chooses the starts.
        tell: Called with the part that is done.
    """
    trials = [_Trial(experiment, plan, kept, sizes) for plan in plans]
    total = max(len(trials) * _COMPARED + _IMPROVED, 1)
    found = []
    for number, trial in enumerate(trials):
        start = min(
            (trial.inside(random_coefficients(trial.plan, rng)) for _ in range(_SCREENED)),
            key=trial,
        )
        x = trial.improved(start, _COMPARED)
        found.append((trial(x), number, x))
        tell((number + 1) * _COMPARED / total)
    _, number, x = min(found)
    best = trials[number]
    done = len(trials) * _COMPARED
    x = best.improved(x, _IMPROVED, lambda count: tell(min(done + count, total) / total))
    return FoundMotion(best.plan, x, best(x))


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
        at_rest = np.zeros(plan.shape)
        self._samples = experiment.rate * plan.periods * plan.period
        self._also = np.zeros((len(sizes), len(sizes)))
        if plan.sweep:
            since = 2 * plan.ramp + plan.periods * plan.period
            self._also = experiment.information(plan.motion(at_rest), since)
        sample = self._quick.information(random_coefficients(plan, np.random.default_rng(0)))
        # What the linear model leaves out, as delays, follows what it has.
        seen = np.diag(sample)[kept] * sizes[kept] ** 2 > _NOTHING
        self._kept = kept[seen] if np.any(seen) else kept
        self._sizes = sizes[self._kept]

    def __call__(self, x: NDArray[np.float64]) -> float:
        """Return the cost, with what limits add that are exceeded."""
        information = self._also + self._samples * self._quick.information(x)
        over = np.maximum(self._quick.parts(x) / self._allowed - 1, 0.0)
        found = width_cost(information[np.ix_(self._kept, self._kept)], self._sizes)
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


@dataclass(frozen=True)
class Unexcited:
    """A parameter that no motion of the family says anything about, and why."""

    parameter: Unknown
    reason: str


@dataclass(frozen=True)
class Design:
    """A motion worth recording.

    Attributes:
        motion: The motion.
        parameters: What it was designed for: all but the unexcited.
        half: (p,) predicted half-widths of their 95 % intervals, in their units.
        usage: How much of each limit it uses at most, over all models that were tried.
        distance: Least distance of bodies that may collide, m; infinite where none is near.
        torques: (nu,) largest force of each actuator with the nominal parameters.
        unexcited: Parameters that were asked for in vain.
        models: Number of models, with parameters off, that the limits were checked on.
    """

    motion: Motion
    parameters: tuple[Unknown, ...]
    half: NDArray[np.float64]
    usage: tuple[Usage, ...]
    distance: float
    torques: NDArray[np.float64]
    unexcited: tuple[Unexcited, ...]
    models: int


def design(
    experiment: Experiment, plan: Plan, *, seed: int = 0, observe: Observer | None = None
) -> Design:
    """Find the coefficients of a plan with the greatest information inside the limits.

    The criterion is a mean of the logarithms of the intervals' widths and of the widest, relative
    to the parameters' nominal values. The search goes by a linear model of the robot in its servos
    that is disturbed by what parameters change; everything else by simulations: the whole motion,
    with ramps and sweeps, is tried on many models whose parameters are off, made smaller until
    none breaks a limit, and its intervals are those of the Jacobian of a fit.

    Args:
        experiment: Model, parameters, limits and sensors.
        plan: The family of motions.
        seed: Equal seeds give equal motions.
        observe: Called with what happens and the part that is done.

    Raises:
        ModelError: The limits leave no room for any motion.
        ParameterError: No parameter can be excited.
    """
    tell = observe or (lambda _text, _part: None)
    rng = np.random.default_rng(seed)
    search = _DesignSearch(experiment, plan, off(experiment, _TRIED, rng))
    search.check_room()
    starts = []
    for number in range(_LOOKED):
        tell('trying random motions', number / _LOOKED)
        starts.append(search.fitted(random_coefficients(plan, rng)))
    unexcited = _unexcited(
        experiment.unknowns, np.sum([search.information(x) for x in starts], axis=0)
    )
    kept = _kept(experiment.unknowns, unexcited)
    found = best_coefficients(
        experiment,
        plan.alternatives(),
        kept,
        scales(experiment.unknowns),
        rng,
        lambda part: tell('searching', part),
    )
    tell('checking the limits', 0.0)
    candidates = off(experiment, _CHECKED, rng)
    search = _DesignSearch(experiment, found.plan, search.candidates)
    best, worst = _inside(search, found.x, candidates)
    motion = found.plan.motion(best)
    information = experiment.information(motion)
    nominal = experiment.excursion(motion, experiment.nominal[None])
    return Design(
        motion,
        tuple(experiment.unknowns[row] for row in kept),
        half_widths(information[np.ix_(kept, kept)]),
        experiment.limits.usage(worst.parts),
        worst.distance,
        nominal.torques,
        unexcited,
        len(candidates),
    )


def off(experiment: Experiment, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return (1 + count, p) parameters: the nominal ones, and all 20 % off, up or down at random.

    Args:
        experiment: Has the parameters and their bounds.
        count: Number of others.
        rng: Chooses the directions.
    """
    nominal = experiment.nominal
    signs = rng.choice([-1.0, 1.0], (count, len(nominal)))
    lower = [unknown.min_value for unknown in experiment.unknowns]
    upper = [unknown.max_value for unknown in experiment.unknowns]
    moved = np.clip(nominal * (1 + UNCERTAINTY * signs), lower, upper)
    return np.concatenate([nominal[None], moved])


def half_widths(information: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the (p,) half-widths of 95 % intervals of a (p, p) information.

    They are NaN where the information does not determine all parameters.
    """
    size = np.sqrt(np.diag(information))
    if not np.all(np.isfinite(size)) or not np.all(size > 0):
        return np.full(len(size), np.nan)
    try:
        inverse = np.linalg.inv(information / np.outer(size, size))
    except np.linalg.LinAlgError:
        return np.full(len(size), np.nan)
    with np.errstate(invalid='ignore'):
        half: NDArray[np.float64] = QUANTILE * np.sqrt(np.diag(inverse)) / size
    return half


class _DesignSearch:
    """Evaluates coefficients on a single period."""

    def __init__(self, experiment: Experiment, plan: Plan, candidates: NDArray[np.float64]) -> None:
        self.experiment = experiment
        self.plan = plan
        self.allowed = experiment.limits.allowed
        self.candidates = candidates
        self.owners = _owners(experiment)

    def check_room(self) -> None:
        """Refuse limits that are used up when nothing moves."""
        at_rest = self.plan.one_period(np.zeros(self.plan.shape))
        rest = self.experiment.excursion(at_rest, self.candidates)
        full = [use for use in self.experiment.limits.usage(rest.parts) if use.part >= 1]
        if full:
            use = full[0]
            msg = (
                f'Expected room for a motion around the home pose, found the {use.what} of '
                f'{use.name!r} at {100 * use.part:.0f} % of its limit while nothing moves.'
            )
            raise ModelError(msg)
        if rest.distance < self.experiment.limits.clearance:
            msg = (
                'Expected room for a motion around the home pose, found bodies '
                f'{1e3 * rest.distance:.1f} mm apart there.'
            )
            raise ModelError(msg)

    def fitted(self, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scale each actuator's amplitudes so that a limit of its own is just reached."""
        x: NDArray[np.float64] = coefficients.copy()
        for _ in range(_FEW_ROUNDS):
            reached = self.excursion(x)
            factor = self.used(reached)
            step = np.clip(1 / factor, 0.4, 1.5)
            x[:, 1:] *= step[:, None]
            if self.blocked(reached):
                x *= 0.8
            # A centre outside of the limits comes back.
            x[:, 0] *= np.where(step < 1, np.sqrt(step), 1.0)
        return x

    def used(self, reached: Excursion) -> NDArray[np.float64]:
        """Return (nu,) the largest used part of each actuator's own limits, .1 at least."""
        used = reached.parts / self.allowed
        return np.array([float(np.max(used[owned], initial=0.1)) for owned in self.owners])

    def blocked(self, reached: Excursion) -> bool:
        return reached.diverged or reached.distance < self.experiment.limits.clearance

    def excursion(self, x: NDArray[np.float64]) -> Excursion:
        """Return how far one period goes on the models that are tried."""
        return self.experiment.excursion(self.plan.one_period(x), self.candidates)

    def information(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (p, p) information of one period, per unit of the parameters."""
        return self.experiment.information(self.plan.one_period(x), self.plan.ramp)


def _owners(experiment: Experiment) -> list[NDArray[np.int64]]:
    """Return, per actuator, the limits that its amplitude is to respect."""
    model = experiment.limits.model
    usage = experiment.limits.usage(experiment.limits.allowed)
    found = []
    for drive in drives(model):
        own = [
            row
            for row, use in enumerate(usage)
            if use.name in (drive.actuator, drive.joint) or (not drive.joint)
        ]
        found.append(np.array(own, dtype=np.int64))
    return found


def _inside(
    search: _DesignSearch, x: NDArray[np.float64], candidates: NDArray[np.float64]
) -> tuple[NDArray[np.float64], Excursion]:
    """Fit the whole motion to the limits of all models, then make it smaller until none breaks."""
    experiment, allowed, x = search.experiment, search.allowed, x.copy()
    for number in range(_FITS + _MOST_SHRINKS):
        worst = experiment.excursion(search.plan.motion(x), candidates)
        if not np.any(worst.parts > allowed) and not search.blocked(worst) and number >= _FITS:
            return x, worst
        factor = search.used(worst)
        if search.blocked(worst):
            x *= _SHRINK**2
        elif number < _FITS:
            x[:, 1:] *= np.clip(1 / factor, 0.5, _MOST_LARGER)[:, None]
        else:
            x[factor > 1] *= _SHRINK
    msg = (
        'Expected room for a motion around the home pose, found that even a small one breaks '
        f'{worst.broken(experiment.limits)}.'
    )
    raise ModelError(msg)


def _unexcited(
    unknowns: tuple[Unknown, ...], information: NDArray[np.float64]
) -> tuple[Unexcited, ...]:
    """Return the parameters without effect, and those that others stand for completely."""
    if not np.all(np.isfinite(information)):
        msg = 'Expected simulations that stay stable with small motions, found none that did.'
        raise ModelError(msg)
    spans = np.array([unknown.max_value - unknown.min_value for unknown in unknowns])
    size = np.sqrt(np.diag(information))
    # Even with all others known the interval would be as wide as the bounds.
    seen = np.flatnonzero(size * spans > QUANTILE)
    found = [
        Unexcited(unknown, 'no motion of the actuators shows in a sensor')
        for row, unknown in enumerate(unknowns)
        if row not in seen
    ]
    scaled = information[np.ix_(seen, seen)] / np.outer(size[seen], size[seen])
    values, vectors = np.linalg.eigh(scaled)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    factor, order = scipy.linalg.qr(root.T, mode='r', pivoting=True)
    weight = np.abs(np.diag(factor[: len(seen)]))
    rank = int(np.sum(weight > _RANK * weight[0])) if len(weight) else 0
    for place in range(rank, len(seen)):
        row = int(seen[order[place]])
        shares = np.abs(np.linalg.lstsq(factor[:rank, :rank], factor[:rank, place], rcond=None)[0])
        names = [unknowns[seen[order[k]]].name for k in np.flatnonzero(shares > _SHARE)]
        reason = f'only together with {", ".join(names)}'
        found.append(Unexcited(unknowns[row], reason))
    return tuple(found)


def _kept(unknowns: tuple[Unknown, ...], unexcited: tuple[Unexcited, ...]) -> NDArray[np.int64]:
    lost = {item.parameter.name for item in unexcited}
    kept = [row for row, unknown in enumerate(unknowns) if unknown.name not in lost]
    if not kept:
        names = ', '.join(sorted(lost))
        msg = f'Expected a parameter that motion can tell, found none: {names}.'
        raise ParameterError(msg)
    return np.array(kept, dtype=np.int64)


def matched(experiment: Experiment, motion: Motion, torques: NDArray[np.float64]) -> Motion:
    """Give each actuator of a motion the amplitude with which its peak torque is a given one.

    Where that would be above the part of another limit that may be used, the limit decides.

    Args:
        experiment: The model.
        motion: Starts in the pose around which amplitudes are changed.
        torques: (nu,) peak force of each actuator with the nominal parameters.
    """
    limits, allowed, owners = experiment.limits, experiment.limits.allowed, _owners(experiment)
    first = motion.commands[0]
    scale = np.ones(len(first))
    for _ in range(_ROUNDS):
        scaled = Motion(motion.times, first + scale * (motion.commands - first), motion.actuators)
        reached = experiment.excursion(scaled, experiment.nominal[None])
        used = reached.parts / allowed
        limited = np.array([float(np.max(used[owned], initial=0.0)) for owned in owners])
        most = np.maximum(limited, reached.torques / np.maximum(torques, 1e-9))
        if reached.diverged or reached.distance < limits.clearance:
            most = np.maximum(most, 1.25)
        scale *= np.clip(1 / np.maximum(most, 1e-9), 0.5, 1.5) ** 0.8
    return scaled

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The motion that says most about parameters, inside of all limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from sysid_ros.errors import ModelError, ParameterError
from sysid_ros.estimation.solver.differences import scales
from sysid_ros.excitation.drives import drives
from sysid_ros.excitation.experiment import QUANTILE
from sysid_ros.excitation.motion import Motion
from sysid_ros.excitation.search import find, random

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sysid_ros.excitation.experiment import Excursion, Experiment
    from sysid_ros.excitation.fourier import Plan
    from sysid_ros.excitation.limits import Usage
    from sysid_ros.model.unknown import Unknown

    #: Is told what happens, and which part of the work is done.
    Observer = Callable[[str, float], None]

#: How far the true parameters may be off while no limit is broken.
UNCERTAINTY = 0.2
#: Models with parameters that far off that are tried in the search, …
_TRIED = 4
#: … and with the motion that it finds.
_CHECKED = 32
#: Random motions on which is looked for parameters that none excites.
_LOOKED = 2
#: A motion that breaks a limit is made smaller by this factor, and at most so many times.
_SHRINK = 0.97
#: … after its amplitudes were fitted to the limits so often, up by no more than this factor a time.
_FITS = 4
_GROWTH = 1.3
_MOST_SHRINKS = 80
#: Rounds in which amplitudes are fitted to the limits.
_ROUNDS = 8
#: … and in which those of random motions are, of which not much is asked.
_FEW_ROUNDS = 4
#: Directions with less of the information than this are none; as in the verdicts of a fit.
_RANK = 1e-6
#: A parameter stands for another one by more than this share.
_SHARE = 0.1


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
        observe: Is told of the progress.

    Raises:
        ModelError: The limits leave no room for any motion.
        ParameterError: No parameter can be excited.
    """
    tell = observe or (lambda _text, _part: None)
    rng = np.random.default_rng(seed)
    search = _Search(experiment, plan, off(experiment, _TRIED, rng))
    search.check_room()
    starts = []
    for number in range(_LOOKED):
        tell('trying random motions', number / _LOOKED)
        starts.append(search.fitted(random(plan, rng)))
    unexcited = _unexcited(
        experiment.unknowns, np.sum([search.information(x) for x in starts], axis=0)
    )
    kept = _kept(experiment.unknowns, unexcited)
    found = find(
        experiment,
        plan.alternatives(),
        kept,
        scales(experiment.unknowns),
        rng,
        lambda part: tell('searching', part),
    )
    tell('checking the limits', 0.0)
    candidates = off(experiment, _CHECKED, rng)
    search = _Search(experiment, found.plan, search.candidates)
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


class _Search:
    """Evaluates coefficients on a single period."""

    def __init__(self, experiment: Experiment, plan: Plan, candidates: NDArray[np.float64]) -> None:
        self.experiment = experiment
        self.plan = plan
        self.allowed = experiment.limits.allowed
        self.candidates = candidates
        self.owners = _owners(experiment)

    def check_room(self) -> None:
        """Refuse limits that are used up when nothing moves."""
        still = self.plan.one_period(np.zeros(self.plan.shape))
        rest = self.experiment.excursion(still, self.candidates)
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
            used = reached.parts / self.allowed
            factor = np.array([float(np.max(used[owned], initial=0.1)) for owned in self.owners])
            step = np.clip(1 / factor, 0.4, 1.5)
            x[:, 1:] *= step[:, None]
            if self.blocked(reached):
                x *= 0.8
            # A centre outside of the limits comes back.
            x[:, 0] *= np.where(step < 1, np.sqrt(step), 1.0)
        return x

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
    search: _Search, x: NDArray[np.float64], candidates: NDArray[np.float64]
) -> tuple[NDArray[np.float64], Excursion]:
    """Fit the whole motion to the limits of all models, then make it smaller until none breaks."""
    experiment, allowed, x = search.experiment, search.allowed, x.copy()
    for number in range(_FITS + _MOST_SHRINKS):
        worst = experiment.excursion(search.plan.motion(x), candidates)
        if not np.any(worst.parts > allowed) and not search.blocked(worst) and number >= _FITS:
            return x, worst
        used = worst.parts / allowed
        factor = np.array([float(np.max(used[owned], initial=0.1)) for owned in search.owners])
        if search.blocked(worst):
            x *= _SHRINK**2
        elif number < _FITS:
            x[:, 1:] *= np.clip(1 / factor, 0.5, _GROWTH)[:, None]
        else:
            x[factor > 1] *= _SHRINK
    msg = (
        'Expected room for a motion around the home pose, found that even a small one breaks a '
        f'limit: {_tightest(experiment, worst)}.'
    )
    raise ModelError(msg)


def _tightest(experiment: Experiment, worst: Excursion) -> str:
    usage = experiment.limits.usage(worst.parts)
    most = max(usage, key=lambda use: use.part / use.allowed)
    if most.kept:
        return f'bodies come as near as {1e3 * worst.distance:.1f} mm'
    return f'{most.what} of {most.name!r} at {100 * most.part:.0f} %'


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
    for _ in range(2 * _ROUNDS):
        scaled = Motion(motion.times, first + scale * (motion.commands - first), motion.actuators)
        reached = experiment.excursion(scaled, experiment.nominal[None])
        used = reached.parts / allowed
        limited = np.array([float(np.max(used[owned], initial=0.0)) for owned in owners])
        most = np.maximum(limited, reached.torques / np.maximum(torques, 1e-9))
        if reached.diverged or reached.distance < limits.clearance:
            most = np.maximum(most, 1.25)
        scale *= np.clip(1 / np.maximum(most, 1e-9), 0.5, 1.5) ** 0.8
    return scaled

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The motion that says most about parameters, inside of all limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sysid_ros.errors import ConfigError, ModelError, ParameterError
from sysid_ros.estimation.differences import scales
from sysid_ros.excitation.drives import Drive, drives
from sysid_ros.excitation.experiment import QUANTILE, Excursion, Experiment
from sysid_ros.excitation.limits import Usage
from sysid_ros.excitation.motion import Motion, quintic, ramp_window, sample_times
from sysid_ros.model.unknown import Unknown

#: Called with what happens, and which part of the work is done.
Observer = Callable[[str, float], None]

#: Seconds over which a motion fades in, and out.
RAMP = 1.0
#: Seconds of one period, about: short enough to repeat, long enough for slow and fast sines.
_PERIOD = 5.0
#: Sines per actuator (Swevers et al., IEEE Trans. Robotics and Automation 13, 1997, use 5).
_HARMONICS = 5
#: The unit of a sine falls with its frequency to this power: as of `sum_of_sines`.
_UNIT_POWER = 0.75
#: Poses in a period, and the part of the time from pose to pose that a move takes.
_POSES, _MOVE = 4, 0.6
#: Motions are drawn at random so often, and so often the best one is changed at random.
_RANDOM, _CHANGED = 40, 110
#: Part of the coefficients that a change is about, and its size where it begins and where it ends,
#: as a part of the coefficients' own; a success makes it larger, a failure smaller.
_SHARE_CHANGED, _LARGEST, _SMALLEST, _GROW, _FALL = 0.3, 1.0, 0.05, 1.5, 0.93
#: The criterion is the sum of the relative widths to this power: 2 is A-optimality, more looks at
#: the widest. That of two links in `benchmarks/excitation.py` is .87 times as wide as with 2 (three
#: seeds).
_POWER = 6
#: So many random motions show which parameters none excites.
_LOOKED = 2
#: How far the true parameters may be off while no limit is broken, as a part of their values, and
#: on how many models with such parameters the motion is checked.
UNCERTAINTY, _CHECKED = 0.2, 8
#: Amplitudes are fitted to the limits so often, by at most these factors.
_FITS, _SMALLER, _LARGER = 3, 0.4, 1.5
#: A motion that then breaks a limit is made smaller by this factor, at most so many times.
_SHRINK, _MOST_SHRINKS = 0.97, 80
#: Directions with less of the information than this are none; as in the verdicts of a fit.
_RANK = 1e-6
#: A parameter stands for another one by more than this share.
_SHARE = 0.1


@dataclass(frozen=True)
class Plan:
    """A family of motions: all coefficients of some shapes in time.

    The command of actuator j is ``home_j + span_j * shapes @ x_j``. The shapes are a ramped
    constant, then sines and cosines over whole periods, then moves from pose to pose, which visit
    each once in a period. All begin and end at rest and at zero.

    Attributes:
        drives: The actuators.
        times: (n,) of the commands, s.
        shapes: (n, m).
        period: Seconds.
        periods: Number of periods between the ramps.
    """

    drives: tuple[Drive, ...]
    times: NDArray[np.float64]
    shapes: NDArray[np.float64]
    period: float
    periods: int

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (nu, m) of the coefficients."""
        return len(self.drives), self.shapes.shape[1]

    def motion(self, x: NDArray[np.float64], seconds: float = np.inf) -> Motion:
        """Return the motion of (nu, m) coefficients, or its first seconds."""
        count = int(np.searchsorted(self.times, seconds + 1e-9))
        home = np.array([drive.home for drive in self.drives])
        spans = np.array([(drive.upper - drive.lower) / 2 for drive in self.drives])
        names = tuple(drive.actuator for drive in self.drives)
        return Motion(self.times[:count].copy(), home + spans * (self.shapes[:count] @ x.T), names)

    def random(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return random coefficients: slow and fast sines and poses in any proportion."""
        x: NDArray[np.float64] = 0.1 * rng.standard_normal(self.shape)
        sines = rng.uniform()
        # Of each actuator, slow sines or fast ones may be up to seven times larger.
        numbers = np.linspace(-1.0, 1.0, (self.shape[1] - 1 - _POSES) // 2)
        tilts = np.exp(rng.uniform(-1.0, 1.0, len(x))[:, None] * np.tile(numbers, 2))
        x[:, 1:-_POSES] *= sines * tilts
        x[:, -_POSES:] *= 3 * (1 - sines)
        x[:, 0] = rng.uniform(-0.3, 0.3, len(x))
        return x


def make_plan(
    chosen: Sequence[Drive], *, duration: float, rate: float, max_frequency: float
) -> Plan:
    """Divide a duration in s into ramps and whole periods; rates and frequencies are in Hz.

    Raises:
        ConfigError: The duration is too short for a period at that frequency.
    """
    between = duration - 2 * RAMP
    periods = max(round(between / _PERIOD), 1)
    period = between / periods
    highest = int(period * max_frequency + 1e-9)
    if highest < 1:
        raise ConfigError(
            f'Expected a duration of at least {2 * RAMP + 1 / max_frequency:.3g} s for sines of up '
            f'to {max_frequency:g} Hz, found {duration:g} s.'
        )
    times = sample_times(duration, rate)
    phase = (times - RAMP) / period
    numbers = np.unique(np.round(np.geomspace(1, highest, min(_HARMONICS, highest))))
    angles = 2 * np.pi * phase[:, None] * numbers
    sines = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    sines *= np.tile(numbers**-_UNIT_POWER, 2)
    # How far each instant is from each pose, in moves.
    slots = phase[:, None] * _POSES - np.arange(_POSES)
    away = np.abs((slots + _POSES / 2) % _POSES - _POSES / 2)
    poses = quintic((0.5 + _MOVE / 2 - away) / _MOVE)
    shapes = np.concatenate([np.ones((len(times), 1)), sines, poses], axis=1)
    shapes *= ramp_window(times, 0.0, duration, RAMP)[:, None]
    return Plan(tuple(chosen), times, shapes, period, periods)


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
        unexcited: Parameters that were asked for in vain.
        models: Number of models, with parameters off, that the limits were checked on.
    """

    motion: Motion
    parameters: tuple[Unknown, ...]
    half: NDArray[np.float64]
    usage: tuple[Usage, ...]
    distance: float
    unexcited: tuple[Unexcited, ...]
    models: int


def design(
    experiment: Experiment, plan: Plan, *, seed: int = 0, observe: Observer | None = None
) -> Design:
    """Find the motion of a plan with the narrowest intervals inside the limits.

    Random motions, then random changes of the best, each with amplitudes that just reach the
    limits, are compared by the information of a period: by a high power of the widths of intervals,
    relative to the parameters' scales. The best one is then made smaller until models whose
    parameters are off keep all limits.

    Equal seeds give equal motions; ``observe`` is called with what happens and the part done.

    Raises:
        ModelError: The limits leave no room for any motion.
        ParameterError: No parameter can be excited.
    """
    tell = observe or (lambda _text, _part: None)
    rng = np.random.default_rng(seed)
    search = _Search(experiment, plan)
    search.check_room()
    tell('trying random motions', 0.0)
    looked = [search.information(search.fitted(plan.random(rng))) for _ in range(_LOOKED)]
    unexcited = _unexcited(experiment.unknowns, np.sum(looked, axis=0))
    lost = [item.parameter.name for item in unexcited]
    kept = np.flatnonzero([unknown.name not in lost for unknown in experiment.unknowns])
    if not len(kept):
        names = ', '.join(sorted(lost))
        raise ParameterError(f'Expected a parameter that motion can tell, found none: {names}.')
    best = search.best(kept, rng, lambda part: tell('searching', part))
    tell('checking the limits', 0.0)
    candidates = off(experiment, _CHECKED, rng)
    best, worst = search.inside(best, candidates)
    motion = plan.motion(best)
    return Design(
        motion,
        tuple(experiment.unknowns[row] for row in kept),
        half_widths(experiment.information(motion)[np.ix_(kept, kept)]),
        experiment.limits.usage(worst.parts),
        worst.distance,
        unexcited,
        len(candidates),
    )


def off(experiment: Experiment, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return (1 + count, p) parameters: nominal, then all 20 % off, up or down at random."""
    nominal = experiment.nominal
    signs = rng.choice([-1.0, 1.0], (count, len(nominal)))
    moved = np.clip(nominal * (1 + UNCERTAINTY * signs), experiment.lower, experiment.upper)
    return np.concatenate([nominal[None], moved])


def half_widths(information: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the (p,) half-widths of 95 % intervals of a (p, p) information.

    They are NaN where the information does not determine all parameters.
    """
    size = np.sqrt(np.diag(information))
    undetermined = np.full(len(size), np.nan)
    if not np.all(np.isfinite(size)) or not np.all(size > 0):
        return undetermined
    try:
        inverse = np.linalg.inv(information / np.outer(size, size))
    except np.linalg.LinAlgError:
        return undetermined
    with np.errstate(invalid='ignore'):
        half: NDArray[np.float64] = QUANTILE * np.sqrt(np.diag(inverse)) / size
    return half


class _Search:
    """Finds coefficients of a plan, by the first ramp and period of their motions."""

    def __init__(self, experiment: Experiment, plan: Plan) -> None:
        self._experiment = experiment
        self._plan = plan
        # Per actuator, the limits that its amplitude is to respect.
        usage = experiment.limits.usage(experiment.limits.allowed)
        self._owners = [
            [
                row
                for row, use in enumerate(usage)
                if not drive.joint or use.name in (drive.actuator, drive.joint)
            ]
            for drive in drives(experiment.limits.model)
        ]

    def check_room(self) -> None:
        """Refuse limits that are used up when nothing moves."""
        rest = self._reached(np.zeros(self._plan.shape))
        broken = rest.broken(self._experiment.limits)
        if broken:
            raise ModelError(
                f'Expected room for a motion around the home pose, found that rest breaks {broken}.'
            )

    def best(
        self, kept: NDArray[np.int64], rng: np.random.Generator, tell: Callable[[float], None]
    ) -> NDArray[np.float64]:
        """Return the (nu, m) coefficients that say most about the kept parameters."""
        plan = self._plan
        sizes = scales(self._experiment.unknowns)[kept]
        best, least, step = np.zeros(plan.shape), np.inf, _LARGEST / 2
        for number in range(_RANDOM + _CHANGED):
            x = plan.random(rng)
            if number >= _RANDOM and np.isfinite(least):
                changed = rng.uniform(size=plan.shape) < _SHARE_CHANGED
                size = np.maximum(np.mean(np.abs(best), axis=0), 1e-2)
                x = best + step * changed * size * rng.standard_normal(plan.shape)
            x = self.fitted(x)
            widths = half_widths(self.information(x)[np.ix_(kept, kept)]) / sizes
            cost = np.sum(widths**_POWER)
            if cost < least:
                best, least, step = x, cost, min(_GROW * step, _LARGEST)
            elif number >= _RANDOM:
                step = max(_FALL * step, _SMALLEST)
            tell((number + 1) / (_RANDOM + _CHANGED))
        if not np.isfinite(least):
            raise ModelError('Expected a motion whose simulation stays stable, found none.')
        return best

    def fitted(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return coefficients with which each actuator just reaches a limit of its own."""
        for _ in range(_FITS):
            x = self._scaled(x, self._reached(x))
        return x

    def inside(
        self, x: NDArray[np.float64], candidates: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], Excursion]:
        """Fit the whole motion to the limits of all models, then shrink it until none breaks."""
        limits = self._experiment.limits
        for number in range(_FITS + _MOST_SHRINKS):
            worst = self._experiment.excursion(self._plan.motion(x), candidates)
            if number < _FITS:
                x = self._scaled(x, worst)
            elif worst.broken(limits):
                x = x.copy()
                x[(self._used(worst) > 1) | worst.blocked(limits)] *= _SHRINK
            else:
                return x, worst
        raise ModelError(
            'Expected room for a motion around the home pose, found that even a small one breaks '
            f'{worst.broken(limits)}.'
        )

    def information(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (p, p) information of one period, per unit of the parameters."""
        return self._experiment.information(self._period(x), RAMP)

    def _period(self, x: NDArray[np.float64]) -> Motion:
        return self._plan.motion(x, RAMP + self._plan.period)

    def _reached(self, x: NDArray[np.float64]) -> Excursion:
        return self._experiment.excursion(self._period(x), self._experiment.nominal[None])

    def _used(self, reached: Excursion) -> NDArray[np.float64]:
        """Return (nu,) the largest used part of what each actuator's limits allow, .1 at least."""
        used = reached.parts / self._experiment.limits.allowed
        return np.array([np.max(used[owned], initial=0.1) for owned in self._owners])

    def _scaled(self, x: NDArray[np.float64], reached: Excursion) -> NDArray[np.float64]:
        """Return coefficients whose amplitudes use what the limits allow, if all were linear."""
        step = np.clip(1 / self._used(reached), _SMALLER, _LARGER)
        if reached.blocked(self._experiment.limits):
            step = np.minimum(step, 0.8)
        # A centre outside of the limits comes back.
        centre = np.sqrt(np.minimum(step, 1.0))
        factors = np.concatenate([centre[:, None], np.tile(step[:, None], x.shape[1] - 1)], axis=1)
        scaled: NDArray[np.float64] = x * factors
        return scaled


def _unexcited(
    unknowns: tuple[Unknown, ...], information: NDArray[np.float64]
) -> tuple[Unexcited, ...]:
    """Return the parameters without effect, and those that others stand for completely."""
    if not np.all(np.isfinite(information)):
        raise ModelError('Expected simulations that stay stable with small motions, found none.')
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
        shares = np.abs(np.linalg.lstsq(factor[:rank, :rank], factor[:rank, place], rcond=None)[0])
        names = [unknowns[seen[order[k]]].name for k in np.flatnonzero(shares > _SHARE)]
        lost = unknowns[seen[order[place]]]
        found.append(Unexcited(lost, f'only together with {", ".join(names)}'))
    return tuple(found)

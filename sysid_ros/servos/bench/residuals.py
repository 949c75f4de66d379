# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Measured minus predicted positions of all logs, as a solver and the statistics need them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.estimation.layout import PRIOR, Samples
from sysid_ros.estimation.priors import prior_rows
from sysid_ros.estimation.solver.least_squares import Solution
from sysid_ros.estimation.solver.problem import FunctionResiduals, StepChanges
from sysid_ros.model.targets import Target
from sysid_ros.model.unknown import Unknown
from sysid_ros.servos.bench.pendulum import PendulumLogs, simulate
from sysid_ros.servos.laws.friction import UNITS
from sysid_ros.servos.laws.servo import Servo

Array = NDArray[np.float64]

#: Coefficients that a model has elsewhere or by another name: element and attribute.
_PLACES = {
    'armature': ('joint', 'armature'),
    'q_offset': ('joint', 'ref'),
    'command_delay': ('actuator', 'delay'),
}
#: The one thing that is compared, by its name in results.
POSITION = 'position'
#: A start is known from its first sample to so many standard deviations of the noise.
_START_DEVIATIONS = 3.0
#: The velocity at a start is known to those standard deviations over this time, s.
_SLOPE_WINDOW = 0.025
#: Starts are sought within so many of the deviations that they are known to.
_START_REACH = 10.0
#: A joint that does not move over so many samples is at rest at the first.
_AT_REST = 10


def unknowns_of(servo: Servo, fixed: Mapping[str, float]) -> tuple[Unknown, ...]:
    """Return the coefficients that are to be found, those that are fixed left out.

    In a model of the servo, each is of its actuator or its joint.
    """
    found = []
    for name, (initial, low, high) in servo.coefficients.items():
        if name not in fixed:
            element, attribute = _PLACES.get(name, ('actuator', name))
            target = Target(element, servo.type.name, attribute, None, -1, UNITS[name])
            found.append(Unknown(name, (target,), initial, low, high))
    return tuple(found)


class Starts(NamedTuple):
    """States at the starts of logs that are unknown.

    Attributes:
        unknowns: Positions, then velocities.
        log: The index of each one's log.
        positions: How many of them are positions.
    """

    unknowns: tuple[Unknown, ...]
    log: NDArray[np.int64]
    positions: int


def starts_of(bench: PendulumLogs, names: Sequence[str], noise: float) -> Starts:
    """Return position and velocity at the start of each log, near what was measured.

    What follows from an error of the start is no noise: it goes on through the whole prediction.
    Where nothing moves at first, dry friction holds the joint: it is at rest.
    ``noise`` is the standard deviation of a measured position, rad.
    """
    every = np.arange(len(names))
    moving = every[np.ptp(bench.readings.position[:_AT_REST], axis=0) > 0]
    wide = _START_DEVIATIONS * noise
    parts = (
        ('initial_qpos', 'rad', bench.position[0], wide, every),
        ('initial_qvel', 'rad/s', bench.speed[0], wide / _SLOPE_WINDOW, moving),
    )
    unknowns = tuple(
        Unknown(
            f'{attribute} of {names[log]}',
            (Target('sequence', names[log], attribute, 0, 0, unit),),
            float(values[log]),
            float(values[log]) - _START_REACH * deviation,
            float(values[log]) + _START_REACH * deviation,
            prior=(float(values[log]), deviation),
        )
        for attribute, unit, values, deviation, logs in parts
        for log in logs.tolist()
    )
    return Starts(unknowns, np.concatenate([every, moving]), len(every))


class LogResiduals(FunctionResiduals):
    """The residual vector of a set of logs as a function of the candidates.

    Residuals are ordered by log, then time; the rows of priors follow. Of an encoder at rest, one
    reading counts: see `PendulumLogs.repeated`. Starts belong to one log each, so that those of all
    logs are moved together for their derivatives.

    Attributes:
        unknowns: Coefficients, then starts, positions before velocities, where wanted.
        noise: Standard deviation of a measured position, rad.
        samples: What each residual is.
        prior_rows: Where the residuals of priors are.
        at_once: Candidates are moved together, in arrays so short that a few dozen take no longer.
    """

    at_once = 64

    def __init__(
        self,
        servo: Servo,
        bench: PendulumLogs,
        names: Sequence[str],
        noise: float,
        *,
        fixed: Mapping[str, float] | None = None,
        starts: bool = False,
        reset_period: float | None = None,
    ) -> None:
        """Lay out the residual vector.

        Args:
            servo: The laws.
            bench: The logs.
            names: Of the logs.
            noise: Standard deviation of a measured position, rad.
            fixed: Coefficients that are not to be found.
            starts: Whether the states at the starts are unknown; as measured otherwise.
            reset_period: Every so many seconds the state is set to the measured one.
        """
        self.servo, self.bench, self.names = servo, bench, tuple(names)
        self._fixed = dict(fixed or {})
        self._reset_period = reset_period
        own = unknowns_of(servo, self._fixed)
        self._count = len(own)
        self._starts = starts_of(bench, names, noise) if starts else None
        super().__init__(self._errors, own + (self._starts.unknowns if self._starts else ()))
        self.noise = noise
        self._priors = prior_rows(self.unknowns)
        counted = (bench.readings.counted & ~bench.repeated).T  # by log, then time
        self._counted = counted
        log = np.nonzero(counted)[0]
        times = ((bench.readings.row + bench.readings.part) * bench.dt).T[counted]
        about = len(self._priors.unknown)
        owner = self._starts.log if self._starts else np.zeros(0, dtype=np.int64)
        self.samples = Samples(
            np.concatenate([log, owner]),
            np.concatenate([times, np.zeros(about)]),
            np.concatenate([np.zeros(len(log), dtype=np.int64), np.full(about, PRIOR)]),
            (POSITION,),
            np.concatenate([np.ones(len(log)), self._priors.variance]),
            self.names,
        )
        self.prior_rows = slice(len(log), len(log) + about)
        # Rows of the samples of each log.
        self._ends = np.cumsum([0, *counted.sum(axis=1).tolist()])

    def _errors(self, candidates: Array) -> Array:
        """Return the (n, m) residuals of (m, p) candidates, dimensionless."""
        position = velocity = None
        if self._starts is not None:
            split = self._count + self._starts.positions
            position = candidates[:, self._count : split]
            velocity = np.tile(self.bench.speed[0], (len(candidates), 1))
            velocity[:, self._starts.log[self._starts.positions :]] = candidates[:, split:]
        motion = simulate(
            self.servo,
            self.bench,
            self.values(candidates),
            position=position,
            velocity=velocity,
            reset_period=self._reset_period,
        )
        measured = self.bench.readings.position[:, None]
        error = (measured - self.bench.read(motion.position)) / self.noise
        found = np.empty((len(candidates), len(self.samples.time)))
        found[:, : self.prior_rows.start] = error.transpose(1, 2, 0)[:, self._counted]
        found[:, self.prior_rows] = self._priors.residual(candidates)
        residual: Array = found.T
        return residual

    def values(self, candidates: Array) -> Array:
        """Return the (m, c) coefficients of (m, p) candidates, with those that are fixed."""
        columns = iter(candidates[:, : self._count].T)
        every = [
            np.full(len(candidates), self._fixed[name]) if name in self._fixed else next(columns)
            for name in self.servo.coefficients
        ]
        return np.stack(every, axis=1)

    def step_changes(
        self,
        x: Array,
        steps: Array,
        columns: NDArray[np.bool_] | None = None,
        base: Array | None = None,
    ) -> StepChanges:
        """Evaluate a candidate and its neighbours in one batch, as of `ResidualLike`."""
        wanted = np.ones(len(x), dtype=bool) if columns is None else columns
        groups = [np.array([j]) for j in range(self._count)]
        if self._starts is not None:
            split = self._count + self._starts.positions
            groups += [np.arange(self._count, split), np.arange(split, len(x))]
        probes = [group[wanted[group]] for group in groups if wanted[group].any()]
        candidates = np.tile(x, (len(probes) + (base is None), 1))
        first = len(candidates) - len(probes)
        for row, probe in enumerate(probes, start=first):
            candidates[row, probe] += steps[probe]
        values = self(candidates) if len(candidates) else np.zeros((len(self.samples.time), 0))
        residual = values[:, 0] if base is None else base
        changes = np.zeros((len(residual), len(x)))
        for row, probe in enumerate(probes, start=first):
            change = values[:, row] - residual
            if self._starts is None or probe[0] < self._count:
                changes[:, probe[0]] = change
                continue
            for j in probe.tolist():
                log = int(self._starts.log[j - self._count])
                own = slice(self._ends[log], self._ends[log + 1])
                changes[own, j] = change[own]
        changes[self.prior_rows] = -self._priors.matrix * np.where(wanted, steps, 0.0)
        return StepChanges(residual, changes, np.zeros(len(x), dtype=bool), unstable=False)

    def windows(self, length: int) -> LogResiduals:
        """Return the same for windows of so many samples, each from its measured state.

        Raises:
            FitError: No log is as long.
        """
        windows = self.bench.windows(length)
        names = [str(number) for number in range(len(windows.lengths))]
        return LogResiduals(self.servo, windows, names, self.noise, fixed=self._fixed)

    def rescaled(self, solution: Solution, noise: float) -> Solution:
        """Change the noise, rad, and return a solution in the new unit."""
        factor = np.where(self.samples.sensor < 0, 1.0, self.noise / noise)
        self.noise = noise
        return dataclasses.replace(
            solution,
            residual=solution.residual * factor,
            jacobian=solution.jacobian * factor[:, None],
        )

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Find the coefficients of a servo from logs of its pendulum."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import CancelledError, FitError, ParameterError, nearest
from sysid_ros.fit.differences import PRIOR, FunctionResiduals, Samples, Sharing, StepChanges
from sysid_ros.fit.fit import Fit
from sysid_ros.fit.linear import sharpened
from sysid_ros.fit.noise import encoder_step, noise_of, prior_rows
from sysid_ros.fit.solver import ROUGH_TOLERANCE, Iteration, Solution, SolverSettings, solve
from sysid_ros.fit.solver import FitLog as Trace
from sysid_ros.fit.start import Attempt
from sysid_ros.fit.start import starts as spread
from sysid_ros.model.targets import Target, Unknown
from sysid_ros.servos.logs import ServoLog
from sysid_ros.servos.pendulum import FEWEST, REST, ROUNDING, PendulumLogs, simulate, stack_logs
from sysid_ros.simulation.servo import UNITS, Servo
from sysid_ros.uncertainty.inference import Identification, inferred

Array = NDArray[np.float64]

#: Coefficients that a model has elsewhere or by another name: element and attribute.
_PLACES = {
    'armature': ('joint', 'armature'),
    'q_offset': ('joint', 'ref'),
    'command_delay': ('actuator', 'delay'),
}
#: The one thing that is compared, by its name in results.
POSITION = 'position'
#: The start of a log is known from its first sample to so many standard deviations of the noise,
#: and the velocity there to those over `REST`.
_START_DEVIATIONS = 3.0
#: Lengths of windows, s, and how many starts go on from each.
_WINDOWS = ((0.1, 3), (0.3, 2), (1.0, 2))
#: Most iterations of a solve that leads to a start, or of a turn with unknown starts.
_ITERATIONS = 15
#: Most turns. The noise is estimated after each; none follows one that changed it by less than the
#: part.
_TURNS, _SAME_NOISE = 4, 0.01


def _starts_of(
    bench: PendulumLogs, names: Sequence[str], noise: float
) -> tuple[list[Unknown], NDArray[np.int64]]:
    """Return positions, then velocities at the starts of logs, and the log of each.

    What follows from an error of the start is no noise: it goes on through the whole prediction.
    Where nothing moves at first, dry friction holds the joint: it is at rest.
    """
    every = np.arange(len(names))
    moving = every[np.ptp(bench.readings.position[: bench.resting], axis=0) > 0]
    wide = _START_DEVIATIONS * noise
    parts = (
        ('initial_qpos', 'rad', bench.position[0], wide, every),
        ('initial_qvel', 'rad/s', bench.speed[0], wide / REST, moving),
    )
    unknowns = [
        Unknown(
            f'{attribute} of {names[log]}',
            (Target('sequence', names[log], attribute, 0, 0, unit),),
            float(values[log]),
            -np.inf,
            np.inf,
            prior=(float(values[log]), deviation),
        )
        for attribute, unit, values, deviation, logs in parts
        for log in logs.tolist()
    ]
    return unknowns, np.concatenate([every, moving])


class LogResiduals(FunctionResiduals):
    """The residual vector of a set of logs as a function of the candidates.

    Residuals are ordered by log, then time; the rows of priors follow. Of an encoder at rest, one
    reading counts: see `PendulumLogs.repeated`.

    Attributes:
        unknowns: Coefficients, then starts, positions before velocities, where wanted.
        noise: Standard deviation of a measured position, rad.
        samples: What each residual is.
        prior_rows: Where the residuals of priors are.
    """

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
        """Lay out the residuals; with ``starts``, states at the starts are unknown as well."""
        self.servo, self.bench, self.names = servo, bench, tuple(names)
        self._fixed = dict(fixed or {})
        self._reset_period = reset_period
        own = []
        for name, (initial, low, high) in servo.coefficients.items():
            if name not in self._fixed:
                element, attribute = _PLACES.get(name, ('actuator', name))
                target = Target(element, servo.type.name, attribute, None, -1, UNITS[name])
                own.append(Unknown(name, (target,), initial, low, high))
        self._count = len(own)
        # Positions at the starts end there; velocities follow.
        self._split = len(own) + (len(names) if starts else 0)
        more, self._owner = (
            _starts_of(bench, names, noise) if starts else ([], np.zeros(0, dtype=np.int64))
        )
        super().__init__(self._errors, own + more)
        self.noise = noise
        self._priors = prior_rows(self.unknowns)
        counted = (bench.readings.counted & ~bench.repeated).T  # by log, then time
        self._counted = counted
        log = np.nonzero(counted)[0]
        times = ((bench.readings.row + bench.readings.part) * bench.dt).T[counted]
        about = len(self._priors.unknown)
        self.samples = Samples(
            np.concatenate([log, self._owner]),
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
        if len(self._owner):
            position = candidates[:, self._count : self._split]
            velocity = np.tile(self.bench.speed[0], (len(candidates), 1))
            velocity[:, self._owner[len(self.names) :]] = candidates[:, self._split :]
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
        sharing: Sharing | None = None,  # noqa: ARG002 (one joint moves)
    ) -> StepChanges:
        """Evaluate a candidate and its neighbours in one batch, as of `ResidualLike`.

        A start belongs to one log: those of all logs are moved together.
        """
        wanted = np.ones(len(x), dtype=bool) if columns is None else columns
        groups = np.split(np.arange(len(x)), [*range(1, self._count + 1), self._split])
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
            if probe[0] < self._count:
                changes[:, probe[0]] = change
                continue
            for j in probe.tolist():
                log = int(self._owner[j - self._count])
                own = slice(self._ends[log], self._ends[log + 1])
                changes[own, j] = change[own]
        changes[self.prior_rows] = -self._priors.matrix * np.where(wanted, steps, 0.0)
        return StepChanges(residual, changes, np.zeros(len(x), dtype=bool), unstable=False)

    def windows(self, length: int) -> LogResiduals:
        """Return the same for windows of so many samples, each from its measured state."""
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


def fit_servo(  # noqa: PLR0913 (documented API)
    servo: Servo,
    logs: Sequence[ServoLog],
    *,
    starts: int = 8,
    seed: int = 0,
    fixed: Mapping[str, float] | None = None,
    first: Mapping[str, float] | None = None,
    reset_period: float | None = None,
    cancel: threading.Event | None = None,
    observe: Callable[[Iteration], None] | None = None,
) -> Identification:
    """Find the coefficients of a servo by least squares of positions.

    From several starts, over windows that grow, then over whole logs, whose states at the start
    are unknown in the end. Intervals and verdicts are those of every other identification.

    Args:
        servo: In the steps that `servo_for` gives for the logs.
        logs: Of one sampling period, or raw.
        starts: Number of starts, spread over the bounds; the first is the servo's usual one.
        seed: Of the others.
        fixed: Coefficients that are known, by name.
        first: Values to begin with in place of the usual ones, by name; others stay the usual.
        reset_period: Every so many seconds predictions go on from the measured state, s.
        cancel: Ends it when set.
        observe: Called after every iteration over whole logs.

    Raises:
        FitError: There is nothing to fit, periods differ, or logs are too short.
        ParameterError: A fixed or first coefficient is not one of the servo's.
        CancelledError: ``cancel`` was set.
    """
    fixed = checked(servo, fixed or {})
    if not logs or len(fixed) == len(servo.coefficients):
        raise FitError(f'Nothing to fit: {len(logs)} logs, and {len(fixed)} coefficients fixed.')
    trace = Trace(observe)
    names = tuple(log.name for log in logs)
    noise = noise_of([log.position for log in logs])
    # What only leads to a start is as good in long steps.
    quick, whole = (
        LogResiduals(
            servo, bench, names, noise, fixed=fixed, starts=free, reset_period=reset_period
        )
        for bench, free in (
            (stack_logs(servo, logs, steps=1), False),
            (stack_logs(servo, logs), True),
        )
    )
    values = list(spread(quick.unknowns, starts, seed=seed))
    if first is not None:
        given = [checked(servo, first).get(u.name, u.nominal) for u in quick.unknowns]
        bounds = np.array([(u.min_value, u.max_value) for u in quick.unknowns])
        values[0] = np.clip(given, *bounds.T)
    beginnings, attempts = _grow_windows(quick, values, cancel)
    # Windows may lead away from values that were good for whole logs.
    beginnings += [] if first is None else values[:1]
    ends = (_roughly(quick, x, cancel) for x in beginnings)
    best = min(ends, key=lambda end: end.cost)
    solution = _settle(whole, best.x, trace, cancel)
    step = encoder_step(np.concatenate([log.position for log in logs]))
    encoder_steps = {} if step is None else {POSITION: step / whole.noise}
    solution = sharpened(whole, solution)
    count = len(quick.unknowns)
    found = Fit(
        parameters=quick.unknowns,
        unknowns=whole.unknowns,
        values=solution.x,
        solution=dataclasses.replace(solution, x=solution.x[:count], trace=tuple(trace.trace)),
        samples=dataclasses.replace(whole.samples, encoder_steps=encoder_steps),
        noise={POSITION: whole.noise},
        rollouts=(quick.evaluations + whole.evaluations) * len(logs),
        diverged=0,
        seconds=trace.seconds,
        sequences=names,
        attempts=attempts if starts > 1 else (),
        start='windows',
        start_sentence=(
            f'the best of {starts} starts over windows of a tenth of a second that grew '
            'to whole logs'
        ),
    )
    return inferred(found)


def values_of(servo: Servo, fit: Identification, fixed: Mapping[str, float]) -> dict[str, float]:
    """Return all coefficients: those that were found and those that were known."""
    found = {u.name: float(v) for u, v in zip(fit.parameters, fit.solution.x, strict=True)}
    return {name: {**fixed, **found}[name] for name in servo.coefficients}


def checked(servo: Servo, values: Mapping[str, float]) -> dict[str, float]:
    """Return values of coefficients, or raise a ParameterError where the servo lacks one."""
    for name in values:
        if name not in servo.coefficients:
            hint = nearest(name, servo.coefficients)
            raise ParameterError(f'{servo.name} has no coefficient {name!r}; {hint}.')
    return dict(values)


def _first(residuals: LogResiduals, values: Mapping[str, float] | None) -> Array | None:
    if values is None:
        return None
    known = checked(residuals.servo, values)
    return np.array(
        [
            np.clip(known.get(u.name, u.nominal), u.min_value, u.max_value)
            for u in residuals.unknowns
        ]
    )


def _grow_windows(
    whole: LogResiduals, values: Sequence[Array], cancel: threading.Event | None
) -> tuple[list[Array], tuple[Attempt, ...]]:
    """Return the best values for windows that grow, and what became of all starts.

    Over a whole log the cost has many minima: where the joint sticks decides what comes after. Over
    a tenth of a second, from the measured state, it is nearly that of a linear problem. Each
    horizon leads the fit into the valley of the next. Solved over whole logs, half of the starts of
    m6 that are spread over the bounds find nothing better than where they are.
    """
    span = np.array([unknown.max_value - unknown.min_value for unknown in whole.unknowns])
    attempts: list[Attempt] = []
    for seconds, kept in _WINDOWS:
        samples = max(round(seconds / whole.bench.dt), FEWEST * whole.bench.readings.period)
        if attempts and samples > int(whole.bench.lengths.max()):
            break
        windows = whole.windows(samples)
        ends = [_roughly(windows, x, cancel) for x in values]
        if not attempts:
            attempts = [
                Attempt(x, end.trace[0].cost, False, 'windows', end.cost, end.x)  # noqa: FBT003
                for x, end in zip(values, ends, strict=True)
            ]
        kept_values: list[Array] = []
        for end in sorted(ends, key=lambda end: end.cost)[:kept]:
            # Several starts may lead to one place.
            if all(np.any(np.abs(end.x - x) > ROUNDING * span) for x in kept_values):
                kept_values.append(end.x)
        values = kept_values
    return kept_values, tuple(sorted(attempts, key=lambda attempt: attempt.start_cost))


def _roughly(residuals: LogResiduals, x: Array, cancel: threading.Event | None) -> Solution:
    """Return a solution that only serves as a start."""
    settings = SolverSettings(max_iterations=_ITERATIONS, rough=True)
    return solve(residuals, x, settings=settings, tolerance=ROUGH_TOLERANCE, cancel=cancel)


def _settle(
    residuals: LogResiduals, x: Array, trace: Trace, cancel: threading.Event | None
) -> Solution:
    """Solve with unknown starts, and estimate the noise, in turns."""
    point = np.array([*x, *(unknown.nominal for unknown in residuals.unknowns[len(x) :])])
    rough = SolverSettings(max_iterations=_ITERATIONS, rough=True)
    for turn in range(_TURNS):
        # Differences are checked where the noise is nearly known.
        settings = rough if turn == 0 else SolverSettings(max_iterations=_ITERATIONS)
        try:
            solution = solve(residuals, point, settings=settings, cancel=cancel, observe=trace)
        except CancelledError:
            raise
        except FitError:
            # A coefficient without any effect ends no fit of a servo: it is called not excited.
            solution = solve(residuals, point, settings=rough, cancel=cancel, observe=trace)
        measured = solution.residual[: residuals.prior_rows.start]
        ratio = float(np.sqrt(np.mean(measured**2)))
        solution = residuals.rescaled(solution, residuals.noise * ratio)
        point = solution.x
        if turn > 0 and abs(ratio - 1) < _SAME_NOISE:
            break
    return solution

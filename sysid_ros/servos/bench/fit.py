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
from sysid_ros.estimation.noise import encoder_step, noise_of
from sysid_ros.estimation.solver.least_squares import Solution, SolverSettings, solve
from sysid_ros.estimation.solver.problem import FitLog as Trace
from sysid_ros.estimation.solver.problem import Iteration
from sysid_ros.estimation.solver.starts import Attempt, starts
from sysid_ros.estimation.start import ROUGH_TOLERANCE
from sysid_ros.identification.fit import Fit
from sysid_ros.inference import infer, sharpened
from sysid_ros.servos.bench.pendulum import stack_logs
from sysid_ros.servos.bench.residuals import POSITION, LogResiduals
from sysid_ros.servos.formats.logs import ServoLog
from sysid_ros.servos.laws.servo import Servo

Array = NDArray[np.float64]

#: Lengths of windows, s, and how many starts go on from each.
_WINDOWS = ((0.1, 3), (0.3, 2), (1.0, 2))
#: Windows of fewer samples say little of forces.
_FEWEST_SAMPLES = 4
#: Ends that are nearer to each other, in parts of the bounds' distance, are one.
_SAME = 1e-6
#: Most iterations over windows, and over whole logs with starts as measured.
_IN_WINDOWS, _ITERATIONS = 15, 25
#: Most iterations of a turn with unknown starts, and most turns. The noise is estimated after each.
_TURN, _TURNS = 12, 4
#: No turn follows one that changed the estimate of the noise by less than this part.
_SAME_NOISE = 0.01


@dataclasses.dataclass(frozen=True)
class ServoFitSettings:
    """How a servo is fitted.

    Attributes:
        starts: Number of starts, spread over the bounds; the first is the servo's usual one.
        seed: Of the others.
        fixed: Coefficients that are known, by name.
        first: Values to begin with in place of the usual ones, by name; others stay the usual.
        reset_period: Every so many seconds predictions go on from the measured state, s.
    """

    starts: int = 8
    seed: int = 0
    fixed: Mapping[str, float] = dataclasses.field(default_factory=dict)
    first: Mapping[str, float] | None = None
    reset_period: float | None = None


def fit_servo(
    servo: Servo,
    logs: Sequence[ServoLog],
    *,
    settings: ServoFitSettings | None = None,
    cancel: threading.Event | None = None,
    observe: Callable[[Iteration], None] | None = None,
) -> Fit:
    """Find the coefficients of a servo by least squares of positions.

    From several starts, over windows that grow, then over whole logs, whose states at the start
    are unknown in the end. Intervals and verdicts are those of every other identification.

    Args:
        servo: The kind of servo and its friction law, in the steps that `servo_for` gives for logs.
        logs: At least one, of one sampling period, or raw ones.
        settings: How.
        cancel: Ends the fit when it is set.
        observe: Called after every iteration over whole logs.

    Raises:
        FitError: There is nothing to fit, periods differ, or logs are too short.
        ParameterError: A fixed or first coefficient is not one of the servo's.
        CancelledError: ``cancel`` was set.
    """
    settings = settings or ServoFitSettings()
    fixed = checked(servo, settings.fixed)
    if not logs or len(fixed) == len(servo.coefficients):
        raise FitError(f'Nothing to fit: {len(logs)} logs, and {len(fixed)} coefficients fixed.')
    trace = Trace(observe)
    names = tuple(log.name for log in logs)
    noise = noise_of([log.position for log in logs])
    # What only leads to a start is as good in long steps.
    quick, whole = (
        LogResiduals(
            servo,
            bench,
            names,
            noise,
            fixed=fixed,
            starts=free,
            reset_period=settings.reset_period,
        )
        for bench, free in (
            (stack_logs(servo, logs, steps=1), False),
            (stack_logs(servo, logs), True),
        )
    )
    first = _first(quick, settings.first)
    beginnings, attempts = _grow_windows(quick, settings, first, cancel)
    # Windows may lead away from values that were good for whole logs.
    beginnings += [] if first is None else [first]
    ends = (_roughly(quick, x, _ITERATIONS, cancel) for x in beginnings)
    best = min(ends, key=lambda end: end.cost)
    solution = _settle(whole, best.x, trace, cancel)
    step = encoder_step(np.concatenate([log.position for log in logs]))
    encoder_steps = {} if step is None else {POSITION: step / whole.noise}
    found = infer(
        solution,
        sharpened(whole, solution),
        whole.unknowns,
        dataclasses.replace(whole.samples, encoder_steps=encoder_steps),
    )
    count = len(quick.unknowns)
    return Fit(
        parameters=quick.unknowns,
        solution=dataclasses.replace(solution, x=solution.x[:count], trace=tuple(trace.trace)),
        inference=found,
        offsets={},
        noise={POSITION: whole.noise},
        rollouts=(quick.evaluations + whole.evaluations) * len(logs),
        diverged=0,
        seconds=trace.seconds,
        sequences=names,
        attempts=attempts if settings.starts > 1 else (),
        start='windows',
        start_sentence=(
            f'the best of {settings.starts} starts over windows of a tenth of a second that grew '
            'to whole logs'
        ),
        unknowns=whole.unknowns,
        values=solution.x,
    )


def values_of(servo: Servo, fit: Fit, fixed: Mapping[str, float]) -> dict[str, float]:
    """Return all coefficients: those that were found and those that were known."""
    found = {u.name: float(v) for u, v in zip(fit.parameters, fit.solution.x, strict=True)}
    return {name: {**fixed, **found}[name] for name in servo.coefficients}


def checked(servo: Servo, values: Mapping[str, float]) -> dict[str, float]:
    """Return values of coefficients, all of which the servo has.

    Raises:
        ParameterError: It does not have one of them.
    """
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
    whole: LogResiduals,
    settings: ServoFitSettings,
    first: Array | None,
    cancel: threading.Event | None,
) -> tuple[list[Array], tuple[Attempt, ...]]:
    """Return the best values for windows that grow, and what became of all starts.

    Over a whole log the cost has many minima: where the joint sticks decides what comes after. Over
    a tenth of a second, from the measured state, it is nearly that of a linear problem. Each
    horizon leads the fit into the valley of the next. Solved over whole logs, half of the starts of
    m6 that are spread over the bounds find nothing better than where they are.
    """
    unknowns = whole.unknowns
    span = np.array([unknown.max_value - unknown.min_value for unknown in unknowns])
    values = list(starts(unknowns, settings.starts, seed=settings.seed))
    if first is not None:
        values[0] = first
    attempts: list[Attempt] = []
    for seconds, kept in _WINDOWS:
        fewest = _FEWEST_SAMPLES * whole.bench.readings.period
        samples = max(round(seconds / whole.bench.dt), fewest)
        if attempts and samples > int(whole.bench.lengths.max()):
            break
        windows = whole.windows(samples)
        ends = [_roughly(windows, x, _IN_WINDOWS, cancel) for x in values]
        if not attempts:
            attempts = [
                Attempt(x, end.trace[0].cost, False, 'windows', end.cost, end.x)  # noqa: FBT003
                for x, end in zip(values, ends, strict=True)
            ]
        values = []
        for end in sorted(ends, key=lambda end: end.cost)[:kept]:
            # Several starts may lead to one place.
            if all(np.any(np.abs(end.x - other) > _SAME * span) for other in values):
                values.append(end.x)
    return values, tuple(sorted(attempts, key=lambda attempt: attempt.start_cost))


def _roughly(
    residuals: LogResiduals, x: Array, limit: int, cancel: threading.Event | None
) -> Solution:
    """Return a solution that only serves as a start."""
    settings = SolverSettings(max_iterations=limit, rough=True)
    return solve(residuals, x, settings=settings, tolerance=ROUGH_TOLERANCE, cancel=cancel)


def _settle(
    residuals: LogResiduals, x: Array, trace: Trace, cancel: threading.Event | None
) -> Solution:
    """Solve with unknown starts, and estimate the noise, in turns."""
    point = np.array([*x, *(unknown.nominal for unknown in residuals.unknowns[len(x) :])])
    rough = SolverSettings(max_iterations=_TURN, rough=True)
    for turn in range(_TURNS):
        # Differences are checked where the noise is nearly known.
        settings = rough if turn == 0 else SolverSettings(max_iterations=_TURN)
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

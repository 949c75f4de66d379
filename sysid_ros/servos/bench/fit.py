# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Find the coefficients of a servo from logs of its pendulum."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.errors import ParameterError, nearest
from sysid_ros.estimation.context import FitLog as Trace
from sysid_ros.estimation.noise import encoder_step, noise_of
from sysid_ros.identification.fit import Fit
from sysid_ros.inference import infer, sharpened
from sysid_ros.servos.bench.descent import descend
from sysid_ros.servos.bench.horizon import find_starts
from sysid_ros.servos.bench.pendulum import bench as make_bench
from sysid_ros.servos.bench.residuals import POSITION, LogResiduals

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.estimation.solver.least_squares import Solution
    from sysid_ros.estimation.solver.problem import Iteration
    from sysid_ros.estimation.solver.starts import Attempt
    from sysid_ros.inference import IntervalMethod
    from sysid_ros.servos.formats.log import Log
    from sysid_ros.servos.laws.servo import Servo

    Array = NDArray[np.float64]

#: Steps over whole logs with starts as measured, from each of the best windows.
_STEPS = 25
#: With unknown starts, the same in turns between which the noise is estimated anew …
_TURN, _TURNS = 12, 4
#: … until its estimate stands still but for this part.
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
        intervals: How intervals are found; sandwich unless given.
    """

    starts: int = 8
    seed: int = 0
    fixed: Mapping[str, float] = dataclasses.field(default_factory=dict)
    first: Mapping[str, float] | None = None
    reset_period: float | None = None
    intervals: IntervalMethod | None = None


@dataclasses.dataclass(frozen=True)
class SolvedServo:
    """Values of coefficients that predict logs best, without intervals.

    Attributes:
        residuals: Of whole logs with unknown starts, in units of the noise that was found.
        solution: Coefficients, then starts.
        count: How many of them are coefficients.
        trace: The iterations over whole logs.
        attempts: What became of each start over the shortest windows.
        evaluations: Simulations of whole logs.
    """

    residuals: LogResiduals
    solution: Solution
    count: int
    trace: Trace
    attempts: tuple[Attempt, ...]
    evaluations: int

    @property
    def values(self) -> dict[str, float]:
        """All coefficients by name, those that were fixed as well."""
        found = self.residuals.values(self.solution.x[None])[0]
        return dict(zip(self.residuals.servo.coefficients, found.tolist(), strict=True))


def fit_servo(
    servo: Servo,
    logs: Sequence[Log],
    *,
    settings: ServoFitSettings | None = None,
    cancel: threading.Event | None = None,
    observe: Callable[[Iteration], None] | None = None,
) -> Fit:
    """Find the coefficients of a servo by least squares of positions.

    From several starts, over windows that grow, then over whole logs, whose states at the start
    are unknown in the end. Intervals and verdicts are those of every other identification.

    Args:
        servo: The kind of servo and its friction law.
        logs: At least one, of one sampling period.
        settings: How.
        cancel: Ends the fit when it is set.
        observe: Called after every iteration over whole logs.

    Raises:
        FitError: There is nothing to fit, periods differ, or logs are too short.
        ParameterError: A fixed or first coefficient is not one of the servo's.
        CancelledError: ``cancel`` was set.
    """
    settings = settings or ServoFitSettings()
    solved = solve_servo(servo, logs, settings=settings, cancel=cancel, observe=observe)
    residuals, solution = solved.residuals, solved.solution
    found = infer(
        solution,
        sharpened(residuals, solution),
        residuals.unknowns,
        dataclasses.replace(residuals.samples, encoder_steps=_encoder(logs, residuals.noise)),
        method=settings.intervals,
        residuals=residuals,
        cancel=cancel,
    )
    return Fit(
        parameters=residuals.unknowns[: solved.count],
        solution=dataclasses.replace(
            solution, x=solution.x[: solved.count], trace=tuple(solved.trace.trace)
        ),
        inference=found,
        offsets={},
        noise={POSITION: residuals.noise},
        rollouts=solved.evaluations,
        diverged=0,
        seconds=solved.trace.seconds,
        sequences=residuals.names,
        attempts=solved.attempts if settings.starts > 1 else (),
        start='windows',
        start_sentence=(
            f'the best of {settings.starts} starts over windows of a tenth of a second that grew '
            'to whole logs'
        ),
        unknowns=residuals.unknowns,
        values=solution.x,
    )


def solve_servo(
    servo: Servo,
    logs: Sequence[Log],
    *,
    settings: ServoFitSettings | None = None,
    cancel: threading.Event | None = None,
    observe: Callable[[Iteration], None] | None = None,
) -> SolvedServo:
    """Find the same values as `fit_servo` without asking how sure they are.

    Args and errors are those of `fit_servo`.
    """
    settings = settings or ServoFitSettings()
    fixed = checked(servo, settings.fixed)
    bench = make_bench(servo, logs)
    trace = Trace(_TURN * _TURNS, observe)
    names = tuple(log.name for log in logs)
    noise = noise_of([log.position for log in logs])
    whole = LogResiduals(
        servo, bench, names, noise, fixed=fixed, reset_period=settings.reset_period
    )
    first = _first(whole, settings.first)
    begun, attempts = find_starts(
        servo,
        bench,
        noise,
        fixed=fixed,
        count=settings.starts,
        seed=settings.seed,
        first=first,
        cancel=cancel,
    )
    # Windows may lead away from values that were good for whole logs.
    beginnings = [start.x for start in begun] + ([] if first is None else [first])
    best = min(
        (descend(whole, x, limit=_STEPS, cancel=cancel) for x in beginnings),
        key=lambda end: end.cost,
    )
    freed = LogResiduals(
        servo, bench, names, noise, fixed=fixed, reset_period=settings.reset_period, starts=True
    )
    solution = _settle(freed, best.x, trace, cancel)
    evaluations = whole.evaluations + freed.evaluations
    return SolvedServo(freed, solution, len(whole.unknowns), trace, attempts, evaluations)


def values_of(servo: Servo, fit: Fit, fixed: Mapping[str, float]) -> dict[str, float]:
    """Return all coefficients: those that were found and those that were known."""
    found = {u.name: float(v) for u, v in zip(fit.parameters, fit.solution.x, strict=True)}
    return {name: {**fixed, **found}[name] for name in servo.coefficients}


def _settle(
    residuals: LogResiduals, x: Array, trace: Trace, cancel: threading.Event | None
) -> Solution:
    """Solve with unknown starts, and estimate the noise, in turns."""
    starts = [unknown.nominal for unknown in residuals.unknowns[len(x) :]]
    point = np.concatenate([x, starts])
    for turn in range(_TURNS):
        solution = descend(
            residuals, point, limit=_TURN, central=turn > 0, cancel=cancel, observe=trace
        )
        measured = solution.residual[: residuals.prior_rows.start]
        ratio = float(np.sqrt(np.mean(measured**2)))
        solution = residuals.rescaled(solution, residuals.noise * ratio)
        point = solution.x
        if turn > 0 and abs(ratio - 1) < _SAME_NOISE:
            break
    return solution


def checked(servo: Servo, values: Mapping[str, float]) -> dict[str, float]:
    """Return values of coefficients, all of which the servo has.

    Raises:
        ParameterError: It does not have one of them.
    """
    for name in values:
        if name not in servo.coefficients:
            hint = nearest(name, servo.coefficients)
            msg = f'{servo.name} has no coefficient {name!r}; {hint}.'
            raise ParameterError(msg)
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


def _encoder(logs: Sequence[Log], noise: float) -> dict[str, float]:
    """Return the step of the encoder in units of the noise, where positions are whole steps."""
    step = encoder_step(np.concatenate([log.position for log in logs]))
    return {} if step is None else {POSITION: step / noise}

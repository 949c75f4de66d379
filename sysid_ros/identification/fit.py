# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Identify the parameters of a model from sequences."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.errors import FitError
from sysid_ros.identification.descent import TOLERANCE
from sysid_ros.identification.least_squares import SolverSettings, solve
from sysid_ros.identification.noise import arrival_jitter, estimate_noise, smallest_noise
from sysid_ros.identification.residuals import Residuals
from sysid_ros.identification.simulation import Simulator
from sysid_ros.identification.statistics import intervals
from sysid_ros.identification.targets import Target
from sysid_ros.identification.unknown import Unknown, check_distinct

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from collections.abc import Sequence as Many

    import mujoco
    from numpy.typing import NDArray

    from sysid_ros.identification.least_squares import Solution
    from sysid_ros.identification.problem import Iteration
    from sysid_ros.identification.sequence import Sequence
    from sysid_ros.identification.simulation import Prediction
    from sysid_ros.identification.statistics import Interval

#: The noise of each sensor is estimated anew from the residuals at most so often.
_WEIGHTINGS = 4
#: … and not again once no estimate moved by more than this fraction.
_WEIGHT_TOLERANCE = 0.02
#: Until then a fit ends when the next step would be shorter than this, in standard errors.
_ROUGH_TOLERANCE = 0.1


#: Farther than this no command is moved, s. (It also sets the step of the differences.)
_OFFSET_BOUND = 0.025


@dataclass(frozen=True)
class Fit:
    """What an identification found.

    Attributes:
        parameters: The unknowns.
        solution: Values, residuals, Jacobian and trace.
        intervals: Interval and verdict of each parameter.
        offsets: Sequence name to the seconds by which its commands were found to act later than
            their stamps and the delay say; empty where stamps are regular.
        noise: Sensor name to the standard deviation that its residuals were divided by.
        rollouts: Number of simulations that were run.
        diverged: How many of them became unstable.
        seconds: Wall time.
    """

    parameters: tuple[Unknown, ...]
    solution: Solution
    intervals: tuple[Interval, ...]
    offsets: dict[str, float]
    noise: dict[str, float]
    rollouts: int
    diverged: int
    seconds: float


def fit(
    model: mujoco.MjModel,
    parameters: Many[Unknown],
    sequences: Many[Sequence],
    *,
    settings: SolverSettings | None = None,
    threads: int = 0,
    cancel: threading.Event | None = None,
    observe: Callable[[Iteration], None] | None = None,
) -> Fit:
    """Fit parameters by weighted nonlinear least squares.

    The first weights come from the roughness of the measurements. Then each sensor's noise is
    estimated from its own residuals and the fit repeated from where it was, until the weights
    stand still: iterated maximum likelihood for normal noise of unknown size per sensor (Aitken's
    feasible generalised least squares).

    Args:
        model: The compiled nominal model; it is not changed.
        parameters: The unknowns.
        sequences: The training data.
        settings: Solver, loss and the limit of iterations over all weightings together.
        threads: Simulation threads; 0 means one per core.
        cancel: Ends the fit when it is set.
        observe: Called after every iteration.

    Raises:
        FitError: There is nothing to fit, or a parameter has no effect.
        CancelledError: ``cancel`` was set.
    """
    settings = settings or SolverSettings()
    check_distinct(parameters)
    if not sequences or not parameters:
        msg = f'Nothing to fit: {len(sequences)} sequences and {len(parameters)} parameters.'
        raise FitError(msg)
    started = time.monotonic()
    trace: list[Iteration] = []

    def note(iteration: Iteration) -> None:
        shown = iteration._replace(
            number=len(trace),
            seconds=time.monotonic() - started,
            limit=settings.max_iterations,
        )
        trace.append(shown)
        if observe is not None:
            observe(shown)

    unknowns = (*parameters, *arrival_offsets(sequences))
    with Simulator(model, unknowns, sequences, threads) as simulator:
        residuals = Residuals(simulator, estimate_noise(simulator.runs))
        floors = smallest_noise(simulator.runs)
        moved = np.inf
        solution = None
        x = np.array([unknown.nominal for unknown in unknowns])
        for weighting in range(_WEIGHTINGS + 1):
            # Weights that are to change again are not worth the last digits.
            settled = weighting == _WEIGHTINGS or moved < _WEIGHT_TOLERANCE
            solution = solve(
                residuals,
                x,
                settings=dataclasses.replace(
                    settings, max_iterations=max(settings.max_iterations - len(trace), 1)
                ),
                tolerance=TOLERANCE if settled else _ROUGH_TOLERANCE,
                known=solution,
                cancel=cancel,
                observe=note,
            )
            x = solution.x
            if settled or len(trace) >= settings.max_iterations:
                break
            spread = residuals.spread(solution.residual, robust=settings.loss != 'linear')
            moved = max(abs(value - 1.0) for value in spread.values())
            noise = {s: max(residuals.noise[s] * spread[s], floors[s]) for s in spread}
            solution = residuals.rescaled(solution, noise)
        found = intervals(
            solution, solution.jacobian, unknowns, residuals.samples, loss=settings.loss
        )
        count = len(parameters)
        names = [sequence.name for sequence in sequences]
        return Fit(
            parameters=tuple(parameters),
            solution=dataclasses.replace(solution, x=x[:count], trace=tuple(trace)),
            intervals=found[:count],
            offsets=dict(zip(names, x[count:].tolist(), strict=False)),
            noise=residuals.noise,
            rollouts=simulator.rollouts,
            diverged=residuals.diverged,
            seconds=time.monotonic() - started,
        )


def arrival_offsets(sequences: Many[Sequence]) -> tuple[Unknown, ...]:
    """Return an unknown offset of the commands for each sequence, or none without jitter.

    Commands that are stamped on arrival reach robot and recorder at slightly different moments,
    earlier or later by another amount in every recording. Where their arrivals jitter, each
    sequence therefore has an unknown offset of its own, which the size of the jitter keeps near
    zero. Left out, a common delay that fits no sequence would bend the other parameters.
    """
    jitter = arrival_jitter(sequences)
    if not jitter:
        return ()
    return tuple(
        Unknown(
            f'arrival offset in {sequence.name}',
            (Target('sequence', sequence.name, 'arrival_offset', None, 0, 's'),),
            0.0,
            -_OFFSET_BOUND,
            _OFFSET_BOUND,
            prior=(0.0, jitter),
        )
        for sequence in sequences
    )


def predict(
    model: mujoco.MjModel,
    sequences: Many[Sequence],
    parameters: Many[Unknown] = (),
    values: NDArray[np.float64] | None = None,
    threads: int = 0,
) -> tuple[Prediction, ...]:
    """Simulate sequences with a model as it is, or with parameters set to values.

    Args:
        model: The compiled model.
        sequences: What is simulated.
        parameters: What the values are.
        values: (p,) parameter values.
        threads: Simulation threads; 0 means one per core.

    Returns:
        One prediction per sequence, of a single candidate.
    """
    candidates = np.zeros((1, 0)) if values is None else values[None, :]
    with Simulator(model, parameters, sequences, threads) as simulator:
        return simulator.predict(candidates)

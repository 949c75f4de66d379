# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A time step for the fit: a larger one costs less, and is good enough where errors are larger."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from sysid_ros.errors import ModelError
from sysid_ros.rollout.prediction import predict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sysid_ros.config.calibration import SolverConfig
    from sysid_ros.identification.fit import Fit
    from sysid_ros.pipeline.loading import Problem
    from sysid_ros.signals.trajectory import Trajectory

#: Steps that are tried, in units of the model's; none is longer than the second, s.
_FACTORS, _LONGEST = (10, 8, 5, 4, 3, 2), 0.01
#: Predictions of what was found may change by the first part of what the model leaves unexplained,
#: root mean square: the cost then changes by its square, 1 %. Those of nominal values, which are
#: often stiffer than what is found, by the second.
_CHANGE, _NOMINAL_CHANGE = 0.1, 0.3
#: The steps are tried on so many of the sequences.
_TRIED = 4


def with_timestep(problem: Problem, solver: SolverConfig, fit: Fit | None = None) -> Problem:
    """Return a problem whose model has the time step to fit with.

    ``auto`` takes the longest at which predictions change little beside what they leave
    unexplained: those of the nominal values, or those of a fit. Dampers are then implicit, so that
    it is stable.

    Args:
        problem: What is to be identified, with the model's own step.
        solver: ``timestep`` says which: ``model``, ``auto`` or seconds.
        fit: What was found with a step that may be too long.

    Raises:
        ModelError: The model does not simulate with the step that was asked for.
    """
    own = float(problem.model.opt.timestep)
    if solver.timestep == 'model':
        return problem
    if solver.timestep != 'auto':
        return stepped(problem, solver.timestep)
    sequences = problem.sequences('train')
    # What delays commands inside of the model counts its steps, and servos' laws have their own.
    if problem.model.nhistory or problem.servos is not None or any(s.motion for s in sequences):
        return problem
    tried = sequences[:: max(len(sequences) // _TRIED, 1)]
    limit = _NOMINAL_CHANGE if fit is None else _CHANGE
    for factor in _FACTORS:
        if factor * own <= _LONGEST:
            coarse = stepped(problem, factor * own)
            if _change(problem, coarse, tried, fit, solver.threads) <= limit:
                return coarse
    return problem


def timestep_note(problem: Problem, fitted: Problem, fit: Fit, threads: int) -> tuple[str, ...]:
    """Say what the step of the fit changes in what the fitted model predicts, if it is another.

    Args:
        problem: With the model's own step.
        fitted: With that of the fit.
        fit: What was found.
        threads: Simulation threads; 0 means one per core.
    """
    if fitted is problem:
        return ()
    change = _change(problem, fitted, fit.as_arrived(problem.sequences('train')), fit, threads)
    sentence = (
        f'The fit simulated with a time step of {fitted.model.opt.timestep:g} s; that of the '
        f'model, {problem.model.opt.timestep:g} s, changes its predictions by '
        f'{100 * change:.2g} % of what they leave unexplained.'
    )
    return (sentence,)


def stepped(problem: Problem, seconds: float) -> Problem:
    """Return the problem with another time step; dampers are then implicit.

    Raises:
        ModelError: The model does not compile with it.
    """
    spec = problem.spec.copy()
    spec.option.timestep = seconds
    if spec.option.integrator == mujoco.mjtIntegrator.mjINT_EULER:
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    try:
        model = spec.compile()
    except ValueError as err:
        msg = f'The model does not compile with a time step of {seconds:g} s: {err}.'
        raise ModelError(msg) from err
    return dataclasses.replace(problem, spec=spec, model=model)


def _change(
    problem: Problem,
    coarse: Problem,
    sequences: Sequence[Trajectory],
    fit: Fit | None,
    threads: int,
) -> float:
    """Return by what part of the unexplained a step changes predictions, root mean square.

    Of the sensors, the one that changes most counts.
    """
    unknowns = () if fit is None else fit.parameters
    x = None if fit is None else fit.solution.x
    one, other = (
        predict(each.spec, sequences, unknowns, x, threads=threads) for each in (problem, coarse)
    )
    changed: dict[str, float] = {}
    missed: dict[str, float] = {}
    for sequence, fine, rough in zip(sequences, one, other, strict=True):
        if fine.diverged or rough.diverged:
            return np.inf
        for series, here, there in zip(
            sequence.measurements, fine.channels, rough.channels, strict=True
        ):
            place = 0
            for name, (_, columns) in series.signal_mapping.items():
                for column in columns:
                    both = here[0][:, place], there[0][:, place]
                    place += 1
                    known = np.isfinite(series.data[:, column] + both[0] + both[1])
                    measured = series.data[known, column]
                    changed[name] = changed.get(name, 0.0) + _power(both[1][known] - both[0][known])
                    missed[name] = missed.get(name, 0.0) + _power(both[0][known] - measured)
    return max(
        (float(np.sqrt(changed[name] / missed[name])) for name in missed if missed[name] > 0),
        default=np.inf,
    )


def _power(values: np.ndarray) -> float:
    return float(values @ values)

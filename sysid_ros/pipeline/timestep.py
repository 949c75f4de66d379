# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The time step of a fit, and what it changes.

Simulations with a longer step cost less. What a step changes in predictions hardly depends on the
parameters, so that a fit simulates with a long one, and what a shorter one adds at the values that
were found is added to its predictions until nothing changes (deferred correction: V. Pereyra,
"Iterated deferred corrections for nonlinear operator equations", Numer. Math. 10, 1967).

No robot integrates with the step of its model. A servo whose damping is implicit acts as if it had
kp h/2 of damping and kv h/2 of armature less; where the recordings tell a shorter step from the
model's own, predictions are made with that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.calibration import SolverConfig
from sysid_ros.errors import ModelError
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver.solver import LIMITS
from sysid_ros.identification.fit import Fit
from sysid_ros.rollout.prediction import make_simulator, predict
from sysid_ros.signals.trajectory import Trajectory

if TYPE_CHECKING:
    from sysid_ros.pipeline.loading import Problem

#: Steps that are tried for recordings of more steps than the last, in units of the model's; none is
#: longer than the second, s.
_FACTORS, _LONGEST, _MANY_STEPS = (10, 8, 5, 4, 3, 2), 0.01, 2e5
#: A longer step may change predictions by this part of what the nominal values leave unexplained,
#: root mean square; what it changes at the values that are found is corrected.
_CHANGE = 0.3
#: The steps are tried on so many of the sequences.
_TRIED = 4
#: The model's step is compared with this part of it.
_FINER = 0.25
#: Residuals tell the shorter step where they follow what it changes by one time that, give or take
#: this, and by so many standard errors.
_ALIKE, _SURELY = 0.5, 4.0
#: A fit is corrected so often: the second time for what the first has moved.
CORRECTIONS = 2


def with_timestep(problem: Problem, solver: SolverConfig) -> Problem:
    """Return a problem whose model has the time step to fit with.

    ``auto`` takes the model's own or, of long recordings, the longest at which predictions of the
    nominal values change little beside what they leave unexplained. Dampers are then implicit, so
    that it is stable.

    Args:
        problem: What is to be identified, with the model's own step.
        solver: ``timestep`` says which: ``model``, ``auto`` or seconds.

    Raises:
        ModelError: The model does not simulate with the step that was asked for.
    """
    if solver.timestep == 'model':
        return problem
    if solver.timestep != 'auto':
        return stepped(problem, solver.timestep)
    own, sequences = float(problem.model.opt.timestep), problem.sequences('train')
    steps = sum(sequence.duration for sequence in sequences) / own
    if steps <= _MANY_STEPS or not _may_change(problem, sequences):
        return problem
    tried = sequences[:: max(len(sequences) // _TRIED, 1)]
    for factor in _FACTORS:
        if factor * own <= _LONGEST:
            coarse = stepped(problem, factor * own)
            if _change(problem, coarse, tried, None, solver.threads) <= _CHANGE:
                return coarse
    return problem


def _may_change(problem: Problem, sequences: Sequence[Trajectory]) -> bool:
    """Return whether simulations with another step are of the same model.

    What delays commands inside of the model counts its steps, and servos' laws have their own.
    """
    bound = problem.model.nhistory or problem.servos is not None
    return not bound and not any(sequence.motion is not None for sequence in sequences)


def may_correct(problem: Problem, solver: SolverConfig) -> bool:
    """Return whether a fit may have to be corrected for its time step.

    Args:
        problem: What is to be identified.
        solver: ``timestep``; the model's own, where it is asked for, is taken at its word.
    """
    return solver.timestep != 'model' and _may_change(problem, problem.sequences('train'))


def spoken_for(problem: Problem, fitted: Problem, fit: Fit, solver: SolverConfig) -> Problem:
    """Return the problem with the step that recordings speak for: the model's own, or a shorter.

    Args:
        problem: With the model's own step.
        fitted: With that of the fit.
        fit: What was found.
        solver: ``timestep``; another than ``auto`` is taken at its word.
    """
    whole = fit.window is None and not fit.arrival_errors
    if solver.timestep != 'auto' or not whole or fit.solution.status in LIMITS:
        return problem
    finer = stepped(problem, _FINER * float(problem.model.opt.timestep))
    changed = corrected(finer, fitted, fit, solver.threads)
    with make_simulator(
        fitted.spec, fit.unknowns, fit.as_fitted(changed.sequences('train')), solver.threads
    ) as simulator:
        residuals = Residuals(simulator, fit.noise, memory=fit.memory)
        without = residuals(fit.values[None])[:, 0]
    table = np.column_stack([fit.solution.jacobian, fit.solution.residual - without])
    if len(table) != len(without) or not np.isfinite(table).all() or not table[:, -1].any():
        return problem
    triangle = np.asarray(np.linalg.qr(np.column_stack([table, fit.solution.residual]), mode='r'))
    follows = triangle[-2, -1] / triangle[-2, -2]
    error = abs(triangle[-1, -1] / triangle[-2, -2]) / np.sqrt(fit.inference.effective)
    speaks = abs(follows - 1) < _ALIKE and follows > _SURELY * error
    return finer if speaks else problem


def corrected(exact: Problem, coarse: Problem, fit: Fit, threads: int) -> Problem:
    """Return a problem to be fitted with a step, as if it were simulated with another.

    What the other step adds to predictions is subtracted from what was measured.

    Args:
        exact: With the step that predictions are to have.
        coarse: With the step of the fit.
        fit: What was found.
        threads: Simulation threads; 0 means one per core.
    """
    sequences = fit.as_arrived(exact.sequences('train'))
    changes = {
        sequence.name: [np.nan_to_num(fine - rough) for _, fine, rough in each]
        for sequence, each in zip(
            sequences, _both(exact, coarse, sequences, fit, threads), strict=True
        )
    }
    recordings = tuple(
        dataclasses.replace(
            recording,
            alignment=dataclasses.replace(
                recording.alignment,
                sequences=tuple(
                    _less(sequence, changes[sequence.name])
                    if sequence.name in changes
                    else sequence
                    for sequence in recording.alignment.sequences
                ),
            ),
        )
        for recording in coarse.recordings
    )
    return dataclasses.replace(coarse, recordings=recordings)


def _less(sequence: Trajectory, changes: Sequence[NDArray[np.float64]]) -> Trajectory:
    """Return a sequence with less in the columns of its series that are compared."""
    measurements = []
    for series, change in zip(sequence.measurements, changes, strict=True):
        columns = [column for _, own in series.signal_mapping.values() for column in own]
        data = np.array(series.data)
        data[:, columns] -= change
        measurements.append(dataclasses.replace(series, data=data))
    return dataclasses.replace(sequence, measurements=tuple(measurements))


def timestep_change(
    problem: Problem, exact: Problem, fitted: Problem, fit: Fit, threads: int
) -> float:
    """Return by what part of the unexplained the model's own time step changes predictions.

    It is compared with the step of the predictions or, where those have it, of the fit.

    Args:
        problem: With the model's own step.
        exact: With that of the predictions.
        fitted: With that of the fit.
        fit: What was found.
        threads: Simulation threads; 0 means one per core.
    """
    own = problem.model.opt.timestep
    other = fitted if exact.model.opt.timestep == own else exact
    if other.model.opt.timestep == own:
        return 0.0
    sequences = fit.as_arrived(problem.sequences('train'))
    return _change(other, problem, sequences, fit, threads)


def timestep_note(problem: Problem, fitted: Problem, change: float) -> tuple[str, ...]:
    """Say what a longer step of the fit than the model's was corrected for."""
    own, step = (each.model.opt.timestep for each in (problem, fitted))
    if step <= own:
        return ()
    sentence = (
        f'The fit simulated with a time step of {step:g} s and was corrected for what that of the '
        f'model, {own:g} s, changes: {100 * change:.2g} % of what is left unexplained.'
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
        raise ModelError(
            f'The model does not compile with a time step of {seconds:g} s: {err}.'
        ) from err
    return dataclasses.replace(problem, spec=spec, model=model)


def _both(
    one: Problem,
    other: Problem,
    sequences: Sequence[Trajectory],
    fit: Fit | None,
    threads: int,
) -> Iterator[list[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]]]:
    """Yield for each sequence and series the (n, k) measured values and two predictions of them.

    They are infinite where a simulation became unstable.
    """
    unknowns = () if fit is None else fit.unknowns
    x = None if fit is None else fit.values
    predictions = [
        predict(each.spec, sequences, unknowns, x, threads=threads) for each in (one, other)
    ]
    for sequence, first, second in zip(sequences, *predictions, strict=True):
        unstable = first.diverged[0] or second.diverged[0]
        rows = []
        for series, here, there in zip(
            sequence.measurements, first.channels, second.channels, strict=True
        ):
            columns = [column for _, own in series.signal_mapping.values() for column in own]
            rough = np.full_like(there[0], np.inf) if unstable else there[0]
            rows.append((series.data[:, columns], here[0], rough))
        yield rows


def _change(
    problem: Problem,
    other: Problem,
    sequences: Sequence[Trajectory],
    fit: Fit | None,
    threads: int,
) -> float:
    """Return by what part of the unexplained a step changes predictions, root mean square.

    Of the channels, the one that changes most counts.
    """
    largest = 0.0
    changed: dict[int, NDArray[np.float64]] = {}
    missed: dict[int, NDArray[np.float64]] = {}
    for rows in _both(problem, other, sequences, fit, threads):
        for number, (measured, here, there) in enumerate(rows):
            known = np.isfinite(measured + here)
            for into, difference in ((changed, there - here), (missed, measured - here)):
                squares = np.sum(np.where(known, difference, 0.0) ** 2, axis=0)
                into[number] = into.get(number, 0.0) + squares
    for number, squares in changed.items():
        moved = missed[number] > 0
        largest = max(largest, *np.sqrt(squares[moved] / missed[number][moved]), 0.0)
    return largest

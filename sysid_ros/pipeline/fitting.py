# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The fit that a configuration asks for, and its time step.

Simulations with a longer step cost less. What a step changes in predictions hardly depends on the
parameters, so that a fit simulates with a long one, and what a shorter one adds at the values that
were found is added to its predictions (deferred correction: V. Pereyra, "Iterated deferred
corrections for nonlinear operator equations", Numer. Math. 10, 1967).

No robot integrates with the step of its model. A servo whose damping is implicit acts as if it had
kp h/2 of damping and kv h/2 of armature less; where the recordings tell a shorter step from the
model's own, predictions are made with that.
"""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from fnmatch import fnmatchcase
from functools import partial
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.config import CalibrationConfig
from sysid_ros.config.calibration import SolverConfig
from sysid_ros.errors import CancelledError, ConfigError, FitError, ModelError, nearest
from sysid_ros.estimation.noise import JointPrior
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver import LIMITS, SolverSettings
from sysid_ros.identification.fit import Fit, FitOptions, fit
from sysid_ros.identification.observer import Observer
from sysid_ros.model.targets import Target
from sysid_ros.pipeline.estimators import with_trajectories
from sysid_ros.pipeline.predictions import Predictions, Predictor
from sysid_ros.pipeline.problem import Problem
from sysid_ros.rollout.prediction import make_simulator, predict
from sysid_ros.signals.trajectory import Trajectory

#: A fit that another one follows ends this near its optimum, in standard errors.
_UNJUDGED = 0.3
#: Longer steps are tried for recordings of more steps than the last: from the first, in units of
#: the model's, or the second, s, on, halved each time.
_MOST_TIMES, _LONGEST, _MANY_STEPS = 10, 0.01, 2e5
#: A longer step may change predictions by this part of what the nominal values leave unexplained,
#: root mean square; what it changes at the values that are found is corrected.
_CHANGE = 0.3
#: The model's step is compared with this part of it.
_FINER = 0.25
#: Residuals tell the shorter step where they follow what it changes by one time that, give or take
#: this, and by so many standard errors.
_ALIKE, _SURELY = 0.5, 4.0


class Fitted(NamedTuple):
    """A fit, and the problem before and after the correction for its time step.

    Attributes:
        fit: What was found.
        problem: What was to be identified, with the time step of predictions.
        refit: What was fitted in the end: with its own time step, and measurements less what that
            of predictions changes.
    """

    fit: Fit
    problem: Problem
    refit: Problem

    @property
    def values(self) -> list[tuple[Target, float]]:
        """What was found for each target, in SI units."""
        found = zip(self.fit.parameters, self.fit.solution.x.tolist(), strict=True)
        return [(target, value) for parameter, value in found for target in parameter.targets]

    def predictor(self, threads: int) -> Predictor:
        """Return what predicts with the values that were found."""
        problem = self.problem
        parameters, values = self.fit.predicting(problem.sequences('train'))
        return Predictor(problem.spec, parameters, values, threads, problem.servos)


def fit_and_correct(
    config: CalibrationConfig,
    problem: Problem,
    observer: Observer,
    cancel: threading.Event | None = None,
    deadline: float = math.inf,
) -> Fitted:
    """Fit a problem, and correct the fit for the time step that recordings speak for.

    Arguments are those of `fit_training`.
    """
    fit_to = partial(fit_training, config, observer=observer, cancel=cancel, deadline=deadline)
    fitted = with_timestep(problem, config.solver)
    may_correct = config.solver.timestep != 'model' and config.estimator != 'windows'
    if not may_correct or not _may_change(problem):
        return Fitted(fit_to(fitted), problem, fitted)
    found = fit_to(fitted, judged=False)
    if found.solution.status in LIMITS:
        return Fitted(found, problem, fitted)
    exact = spoken_for(problem, found, config.solver)
    if exact.model is fitted.model:
        return Fitted(fit_to(fitted, begun=found), exact, fitted)
    refit = fitted
    for judged in (False, True):  # the second time for what the first has moved
        if found.solution.status not in LIMITS:
            observer.stage(f'correcting for a time step of {exact.model.opt.timestep:g} s')
            refit = corrected(exact, fitted, found, config.solver.threads)
            found = fit_to(refit, begun=found, judged=judged)
    return Fitted(found, exact, refit)


def fit_training(
    config: CalibrationConfig,
    problem: Problem,
    observer: Observer,
    cancel: threading.Event | None = None,
    *,
    memory: JointPrior | None = None,
    deadline: float | None = None,
    begun: Fit | None = None,
    judged: bool = True,
) -> Fit:
    """Fit the parameters of a problem to its training sequences.

    Args:
        config: The solver, its loss, starts and limits.
        problem: What is to be identified, from what.
        observer: Is told of iterations.
        cancel: Ends the fit when it is set.
        memory: What is known of some parameters together.
        deadline: When it is to be done, in ``time.monotonic()``; ``solver.time`` from now unless
            given.
        begun: A fit to the same data, from which this one goes on.
        judged: Whether to look for what the model lacks.

    Raises:
        ConfigError: ``statistics.noise`` names no sensor that is compared.
        FitError: There is nothing to fit, or no parameter has an effect.
    """
    solver = config.solver
    try:
        return fit(
            problem.spec,
            problem.parameters,
            problem.sequences('train'),
            options=FitOptions(
                settings=SolverSettings(
                    solver.loss,
                    solver.max_iterations,
                    solver.accuracy if judged else max(solver.accuracy, _UNJUDGED),
                    deadline=deadline_of(config) if deadline is None else deadline,
                ),
                start=solver.start,
                windowed=config.estimator == 'windows',
                starts=solver.starts,
                seed=solver.seed,
                threads=solver.threads,
                noise=known_noise(config.statistics.noise, problem),
                drives=problem.servos,
                judged=judged,
            ),
            prior=memory,
            cancel=cancel,
            observer=observer,
            begun=begun,
        )
    except CancelledError:
        raise
    except FitError as err:
        # Without commands little moves: that is then what the user has to know.
        idle = next(filter(None, (bag.idle_actuators for bag in problem.recordings)), '')
        if not idle:
            raise
        raise FitError(f'{str(err).rstrip(".")}; bag {idle}.') from err


def deadline_of(config: CalibrationConfig) -> float:
    """Return when a fit that begins now is to be done, in ``time.monotonic()``."""
    return math.inf if config.solver.time is None else time.monotonic() + config.solver.time


def known_noise(given: dict[str, float], problem: Problem) -> dict[str, float]:
    """Return the noise of each sensor that a name or pattern is of; later ones override."""
    training = problem.sequences('train')
    sensors = sorted({name for each in training for m in each.measurements for name in m.names})
    found: dict[str, float] = {}
    for pattern, sigma in given.items():
        matching = [sensor for sensor in sensors if fnmatchcase(sensor, pattern)]
        if not matching:
            hint = nearest(pattern, sensors)
            raise ConfigError(
                f'Expected a compared sensor in statistics.noise, found {pattern!r}; {hint}.'
            )
        found.update(dict.fromkeys(matching, sigma))
    return found


def with_timestep(problem: Problem, solver: SolverConfig) -> Problem:
    """Return a problem whose model has the time step to fit with.

    ``auto`` takes the model's own or, of long recordings, the longest at which predictions of the
    nominal values change little beside what they leave unexplained.

    Raises:
        ModelError: The model does not simulate with the step that was asked for.
    """
    if solver.timestep == 'model':
        return problem
    if solver.timestep != 'auto':
        return stepped(problem, solver.timestep)
    own, trajectories = float(problem.model.opt.timestep), problem.sequences('train')
    steps = sum(trajectory.duration for trajectory in trajectories) / own
    if steps <= _MANY_STEPS or not _may_change(problem):
        return problem
    exact = Predictor(problem.spec, threads=solver.threads).predict(trajectories)
    step = min(_LONGEST, _MOST_TIMES * own)
    while step >= 2 * own:
        coarse = stepped(problem, step)
        moved = Predictor(coarse.spec, threads=solver.threads).predict(trajectories)
        if change_of(Predictions(trajectories, exact, moved)) <= _CHANGE:
            return coarse
        step /= 2
    return problem


def _may_change(problem: Problem) -> bool:
    """Return whether simulations with another step are of the same model.

    What delays commands inside of the model counts its steps, and servos' laws have their own.
    """
    bound = problem.model.nhistory or problem.servos is not None
    return not bound and not any(each.motion is not None for each in problem.sequences('train'))


def spoken_for(problem: Problem, found: Fit, solver: SolverConfig) -> Problem:
    """Return the problem with the step that recordings speak for: the model's own, or a shorter.

    The residuals are regressed on the Jacobian and on what the shorter step changes in them. A step
    that was asked for is taken at its word.
    """
    if solver.timestep != 'auto' or found.window is not None or found.arrival_errors:
        return problem
    finer = stepped(problem, _FINER * float(problem.model.opt.timestep))
    trajectories = found.as_fitted(problem.sequences('train'))
    with make_simulator(finer.spec, found.unknowns, trajectories, solver.threads) as simulator:
        residuals = Residuals(simulator, found.noise, memory=found.memory)
        without = residuals(found.values[None])[:, 0]
    table = np.column_stack([found.solution.jacobian, found.solution.residual - without])
    if not np.isfinite(table).all() or not table[:, -1].any():
        return problem
    triangle = np.asarray(np.linalg.qr(np.column_stack([table, found.solution.residual]), mode='r'))
    follows = triangle[-2, -1] / triangle[-2, -2]
    error = abs(triangle[-1, -1] / triangle[-2, -2]) / np.sqrt(found.inference.effective)
    speaks = abs(follows - 1) < _ALIKE and follows > _SURELY * error
    return finer if speaks else problem


def corrected(exact: Problem, coarse: Problem, found: Fit, threads: int) -> Problem:
    """Return a problem to be fitted with a step, as if it were simulated with another.

    What the step of ``exact`` adds to predictions of the fit, which has that of ``coarse``, is
    subtracted from what was measured.
    """
    trajectories = exact.sequences('train')
    fine, rough = (
        predict(each.spec, found.as_arrived(trajectories), found.unknowns, found.values, threads)
        for each in (exact, coarse)
    )
    names = (each.name for each in trajectories)
    less = dict(zip(names, zip(fine, rough, strict=True), strict=True))

    def change(trajectory: Trajectory) -> Trajectory:
        if trajectory.name not in less:
            return trajectory
        there, here = less[trajectory.name]
        if there.diverged[0] or here.diverged[0]:
            return trajectory
        measurements = []
        for series, one, other in zip(
            trajectory.measurements, there.channels, here.channels, strict=True
        ):
            columns = [column for _, own in series.signal_mapping.values() for column in own]
            data = np.array(series.data)
            data[:, columns] -= np.nan_to_num(one[0] - other[0])
            measurements.append(dataclasses.replace(series, data=data))
        return dataclasses.replace(trajectory, measurements=tuple(measurements))

    return with_trajectories(coarse, change)


def timestep_change(problem: Problem, fitted: Fitted, table: Predictions, threads: int) -> float:
    """Return by what part of the unexplained the model's own time step changes predictions.

    It is compared with the step of the predictions, which are in the table, or, where those have
    it, of the fit.
    """
    own = problem.model.opt.timestep
    other = fitted.refit if fitted.problem.model.opt.timestep == own else problem
    if other.model.opt.timestep == fitted.problem.model.opt.timestep:
        return 0.0
    training = {each.name for each in problem.sequences('train')}
    kept = [i for i, each in enumerate(table.trajectories) if each.name in training]
    trajectories = [table.trajectories[i] for i in kept]
    predictor = fitted.predictor(threads)._replace(model=other.spec)
    there = predictor.predict(trajectories, fitted.fit.window, fitted.fit.noise)
    here = [table.fitted[i] for i in kept]
    both = (here, there) if other is problem else (there, here)
    return change_of(Predictions(trajectories, *both))


def timestep_note(problem: Problem, fitted: Fitted, change: float) -> tuple[str, ...]:
    """Say what a longer step of the fit than the model's was corrected for."""
    own, step = (each.model.opt.timestep for each in (problem, fitted.refit))
    if step <= own:
        return ()
    sentence = (
        f'The fit simulated with a time step of {step:g} s and was corrected for what that of the '
        f'model, {own:g} s, changes: {100 * change:.2g} % of what is left unexplained.'
    )
    return (sentence,)


def stepped(problem: Problem, seconds: float) -> Problem:
    """Return the problem with another time step; dampers are then implicit, so that it is stable.

    Raises:
        ModelError: The model does not compile with it.
    """
    spec = problem.spec.copy()
    spec.option.timestep = seconds
    if spec.option.integrator == mujoco.mjtIntegrator.mjINT_EULER:
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    try:
        return dataclasses.replace(problem, spec=spec, model=spec.compile())
    except ValueError as err:
        raise ModelError(
            f'The model does not compile with a time step of {seconds:g} s: {err}.'
        ) from err


def change_of(table: Predictions) -> float:
    """Return by what part of the unexplained the second predictions differ, root mean square.

    What is unexplained is what the first ones leave. Of the channels, the one that changes most
    counts.
    """
    squares: dict[str, NDArray[np.float64]] = {}
    for signal in table.signals():
        moved = signal.fitted - signal.nominal
        if any(signal.diverged):
            moved = np.full_like(moved, np.inf)
        missed = signal.measured - signal.nominal
        known = np.isfinite(missed)
        sums = np.array([np.sum(moved[known] ** 2), np.sum(missed[known] ** 2)])
        squares[signal.name] = squares.get(signal.name, 0.0) + sums
    shares = [moved / missed for moved, missed in squares.values() if missed > 0]
    return float(np.sqrt(max(shares, default=0.0)))

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The fit that a configuration asks for: its time step, and what an earlier result knew.

Simulations with a longer step cost less, and a robot integrates with none. What a step changes in
predictions hardly depends on the parameters, so that a fit simulates with one step, and what
another one adds at the values that were found is subtracted from what was measured (deferred
correction: V. Pereyra, "Iterated deferred corrections for nonlinear operator equations", Numer.
Math. 10, 1967). A servo whose damping is implicit acts as if it had kp h/2 of damping and kv h/2 of
armature less; where the recordings tell a shorter step from the model's own, predictions are made
with that.
"""

from __future__ import annotations

import dataclasses
import glob
import math
import threading
import time
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Self

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.segments import initial_state
from sysid_ros.config.schema import BagSelection, CalibrationConfig, SolverConfig, VerdictKind
from sysid_ros.errors import ConfigError, FitError, ModelError, ResultError, listed
from sysid_ros.files import files_in, sha256
from sysid_ros.fit.context import FitContext
from sysid_ros.fit.fit import Fit, FitOptions, fit, with_arrivals_in
from sysid_ros.fit.motion import standing
from sysid_ros.fit.noise import JointPrior, estimate_noise
from sysid_ros.fit.observer import Observer
from sysid_ros.fit.residuals import Residuals
from sysid_ros.fit.solver import LIMITS, PROMISED, ROUGH_TOLERANCE, FitLog, SolverSettings
from sysid_ros.fit.start import lead, lead_from
from sysid_ros.fit.windows import cut
from sysid_ros.model.kinds import Role as Acting
from sysid_ros.model.targets import Unknown, of_sequence
from sysid_ros.results.comparison import describe, known_of
from sysid_ros.results.result import CalibrationResult, StartKind
from sysid_ros.results.store import Memory, find, named
from sysid_ros.signals import Trajectory
from sysid_ros.simulation.prediction import make_simulator, predict
from sysid_ros.uncertainty.covariance import Difference, Known, difference
from sysid_ros.uncertainty.inference import Identification, data_only, inferred
from sysid_ros.workflows.predictions import Fitted, Predictions, Predictor
from sysid_ros.workflows.problem import Problem, bags_of, carried_on, matched_names
from sysid_ros.workflows.resuming import Iterates, Keeping

#: Recordings of more time steps are long.
_MANY_STEPS = 2e5
#: Pieces of long recordings, each so long, s: a fit begins on so many, and goes on with so many or
#: one for each recording.
_PIECE, _FIRST_PIECES, _FEWEST_PIECES = 5.0, 5, 10
#: Longer steps are tried for long recordings: from this one, s, on, halved each time.
_LONGEST = 0.01
#: A longer step may change predictions by this part of what the start values leave unexplained,
#: root mean square; what it changes at the values that are found is corrected.
_CHANGE = 0.5
#: The model's step is compared with this part of it.
_FINER = 0.25
#: Residuals tell the shorter step where they follow what it changes by so many standard errors.
_SURELY = 4.0
#: So much of the earlier information only keeps the new data's own fit from running away where
#: they say nothing; what they say is computed without it.
_ANCHOR = 1e-3
#: Where a fit that was interrupted begins again, for people.
_RESUMED = 'the last values of a fit that was interrupted'


class Job(NamedTuple):
    """A configuration that is fitted, who watches that, and what ends it."""

    config: CalibrationConfig
    observer: Observer
    cancel: threading.Event | None = None
    deadline: float = math.inf  # in ``time.monotonic()``
    iterates: Iterates | None = None  # keeps its last values
    resumed: Mapping[str, float] = MappingProxyType({})  # values that it goes on from, by name

    @classmethod
    def begin(
        cls, config: CalibrationConfig, observer: Observer, cancel: threading.Event | None = None
    ) -> Self:
        """Return a job that begins now, and ends after the time that its configuration allows."""
        limit = math.inf if config.solver.time is None else config.solver.time
        return cls(config, observer, cancel, time.monotonic() + limit)


def fit_problem(job: Job, problem: Problem, memory: Memory | None) -> Fitted:
    """Fit a problem, with an earlier result or without.

    Where commands were found to have arrived late, those of held-out recordings are looked at, too.
    """
    if job.iterates is not None:
        names = [parameter.name for parameter in problem.parameters]
        job = job._replace(observer=Keeping(job.iterates, job.observer, names))
    if memory is None:
        fitted = fit_and_correct(job, problem)
    else:
        fitted = _fit_with_memory(job, problem, memory)
    held_out = problem.sequences('validate')
    if fitted.fit.arrival_errors and held_out:
        job.observer.stage('finding when commands of held-out recordings acted')
        found = with_arrivals_in(
            fitted.fit,
            fitted.refit.spec,
            held_out,
            threads=job.config.solver.threads,
            cancel=job.cancel,
            deadline=job.deadline,
        )
        fitted = fitted._replace(fit=found)
    return fitted


def fit_and_correct(job: Job, problem: Problem) -> Fitted:
    """Fit a problem, and correct the fit for the time step that recordings speak for."""
    config, own = job.config, problem
    if job.resumed:
        problem, sentence = begun_at(problem, job.resumed), _RESUMED
    else:
        problem, sentence = led_by_parts(job, problem)
    problem, warning = thinned(problem)

    def fit_to(stepped: Problem, *, begun: Fit | None = None, judged: bool = True) -> Fit:
        found = _fit_training(job, stepped, begun=begun, judged=judged, led=bool(sentence))
        if sentence and found.start == StartKind.NOMINAL:
            found = dataclasses.replace(found, start_sentence=sentence)
        return dataclasses.replace(found, parameters=own.parameters)

    def fitted_with(found: Fit, exact: Problem, refit: Problem) -> Fitted:
        whole = dataclasses.replace(own, spec=exact.spec, model=exact.model)
        return Fitted(inferred(found), whole, refit, None, warning)

    fitted = with_timestep(problem, config.solver, long=bool(warning))
    may_correct = config.solver.timestep != 'model' and config.estimator != 'windows'
    if not may_correct or not _may_change(problem):
        return fitted_with(fit_to(fitted), problem, fitted)
    found = fit_to(fitted, judged=False)
    if found.solution.status in LIMITS:
        return fitted_with(found, problem, fitted)
    exact = spoken_for(problem, found, config.solver)
    if exact.model is fitted.model:
        return fitted_with(fit_to(fitted, begun=found), exact, fitted)
    refit = fitted
    for judged in (False, True):  # the second time for what the first has moved
        if found.solution.status not in LIMITS:
            job.observer.stage(f'correcting for a time step of {exact.model.opt.timestep:g} s')
            refit = corrected(exact, fitted, found, config.solver.threads)
            found = fit_to(refit, begun=found, judged=judged)
    return fitted_with(found, exact, refit)


def fit_training(
    job: Job,
    problem: Problem,
    *,
    memory: JointPrior | None = None,
    led: bool = False,
) -> Identification:
    """Fit the parameters of a problem to its training sequences, and say how sure of them it is."""
    return inferred(_fit_training(job, problem, memory=memory, led=led))


def _fit_training(
    job: Job,
    problem: Problem,
    *,
    memory: JointPrior | None = None,
    begun: Fit | None = None,
    judged: bool = True,
    led: bool = False,
) -> Fit:
    options = dataclasses.replace(options_of(job, problem), led=led)
    if not judged:
        rough = max(options.settings.accuracy, ROUGH_TOLERANCE)
        settings = dataclasses.replace(options.settings, accuracy=rough, promised=PROMISED)
        options = dataclasses.replace(options, settings=settings, judged=False)
    return fit(
        problem.spec,
        problem.parameters,
        problem.sequences('train'),
        options=options,
        prior=memory,
        cancel=job.cancel,
        observer=job.observer,
        begun=begun,
    )


def options_of(job: Job, problem: Problem) -> FitOptions:
    """Return how a configuration has a problem fitted."""
    config, solver = job.config, job.config.solver
    return FitOptions(
        SolverSettings(solver.loss, solver.max_iterations, solver.accuracy, deadline=job.deadline),
        start=solver.start,
        windowed=config.estimator == 'windows',
        starts=1 if job.resumed else solver.starts,
        seed=solver.seed,
        threads=solver.threads,
        noise=known_noise(config.statistics.noise, problem),
        drives=problem.servos,
    )


def known_noise(given: dict[str, float], problem: Problem) -> dict[str, float]:
    """Return the noise of each sensor that a name or pattern is of; later ones override."""
    training = problem.sequences('train')
    sensors = sorted({name for each in training for m in each.measurements for name in m.names})
    found: dict[str, float] = {}
    for pattern, sigma in given.items():
        names = matched_names(pattern, sensors, 'compared sensor', 'statistics.noise')
        found.update(dict.fromkeys(names, sigma))
    return found


def with_timestep(problem: Problem, solver: SolverConfig, *, long: bool = False) -> Problem:
    """Return a problem whose model has the time step to fit with.

    ``auto`` takes the model's own or, of long recordings, the longest at which predictions by the
    start values change little beside what they leave unexplained.
    """
    if solver.timestep == 'model':
        return problem
    if solver.timestep != 'auto':
        return stepped(problem, solver.timestep)
    own = float(problem.model.opt.timestep)
    if not long or not _may_change(problem):
        return problem
    trajectories = problem.sequences('train')
    values = np.array([unknown.nominal for unknown in problem.parameters])
    predictor = Predictor(problem.spec, problem.parameters, values, solver.threads)
    exact = predictor.predict(trajectories)
    step = _LONGEST
    while step >= 2 * own:
        coarse = stepped(problem, step)
        moved = predictor._replace(model=coarse.spec).predict(trajectories)
        if change_of(Predictions(trajectories, exact, moved)) <= _CHANGE:
            return coarse
        step /= 2
    return problem


def is_long(problem: Problem) -> bool:
    """Return whether the training recordings are of more steps than a fit simulates each time.

    Pieces of them begin where the robot was measured to be, which says nothing of activations; what
    is unknown of a whole recording cannot be told from them.
    """
    seconds = sum(trajectory.duration for trajectory in problem.sequences('train'))
    return bool(
        seconds > _MANY_STEPS * problem.model.opt.timestep
        and not problem.model.na
        and not standing(problem.model, problem.sequences('train'))
        and not any(each.motion is not None for each in problem.sequences('train'))
        and not any(
            target.role is Acting.SEQUENCE for u in problem.parameters for target in u.targets
        )
    )


def thinned(problem: Problem) -> tuple[Problem, tuple[str, ...]]:
    """Return a problem whose long training recordings are pieces of them, and what is to be known.

    What a model lacks moves its values by as much, however many minutes show it: of an arm of hobby
    servos 50 s of 970 led to the same errors of all as 200 s.
    """
    if not is_long(problem):
        return problem, ()
    recordings = sum(recording.role == 'train' for recording in problem.recordings)
    found = of_pieces(problem, max(_FEWEST_PIECES, recordings))
    pieces = found.sequences('train')
    seconds = sum(each.duration for each in problem.sequences('train'))
    taken = sum(each.duration for each in pieces)
    warning = (
        f'The recordings are long: {len(pieces)} pieces of them that are laid evenly, {taken:.0f} '
        f'of {seconds:.0f} s, were fitted; errors are those of all.'
    )
    return found, (warning,)


def of_pieces(problem: Problem, count: int) -> Problem:
    """Return a problem whose training recordings are so many pieces, laid evenly over them."""
    seconds = sum(each.duration for each in problem.sequences('train'))
    middles = (np.arange(count) + 0.5) * seconds / count
    ended = 0.0
    recordings = []
    for recording in problem.recordings:
        pieces: list[Trajectory] = []
        for each in recording.alignment.sequences if recording.role == 'train' else ():
            inside = middles[(middles >= ended) & (middles < ended + each.duration)] - ended
            last = max(each.duration - _PIECE, 0.0)
            for begin in np.clip(inside - _PIECE / 2, 0.0, last).tolist():
                qpos, qvel, _ = initial_state(problem.model, each.measurements, begin)
                pieces.append(cut(each, begin, begin + _PIECE, (qpos, qvel) if begin else None))
            ended += each.duration
        if recording.role == 'train':
            kept = tuple(piece for piece in pieces if piece.measurements)
            alignment = dataclasses.replace(recording.alignment, sequences=kept)
            recording = dataclasses.replace(recording, alignment=alignment)  # noqa: PLW2901
        recordings.append(recording)
    return dataclasses.replace(problem, recordings=tuple(recordings))


def led_by_parts(job: Job, problem: Problem) -> tuple[Problem, str]:
    """Return the problem with start values that a few pieces of long recordings lead to.

    Far from the optimum a little of the data says the same as all of them. Where they are from is
    returned, too; nothing where recordings are not long.
    """
    solver = job.config.solver
    if not is_long(problem) or solver.start != 'auto' or not _may_change(problem):
        return problem, ''
    pieces = of_pieces(problem, _FIRST_PIECES)
    sequences = pieces.sequences('train')
    options = options_of(job, problem)
    job.observer.stage(f'starting on {len(sequences)} pieces of {_PIECE:g} s')
    names = [unknown.name for unknown in problem.parameters]
    with ExitStack() as opened:
        context = FitContext(
            partial(make_simulator, problem.spec, threads=solver.threads),
            options.settings,
            FitLog(None),
            known_noise=options.noise,
            cancel=job.cancel,
            opened=opened,
        )
        simulator = context.simulator(problem.parameters, sequences)
        try:
            noise = {**estimate_noise(simulator.runs), **options.noise}
            residuals = Residuals(simulator, noise)
        except FitError:  # nothing moves in them
            return problem, ''
        start = lead_from(context, residuals)
        if start is None:
            return problem, ''
        # Which longer step serves depends on the values.
        pieces = begun_at(pieces, dict(zip(names, start.x.tolist(), strict=True)))
        spec = with_timestep(pieces, solver, long=True).spec
        simulator = make_simulator(spec, problem.parameters, sequences, solver.threads)
        opened.enter_context(simulator)
        found = lead(context, Residuals(simulator, residuals.noise), start)
    if found is None:
        return problem, ''
    sentence = f'{len(sequences)} pieces of {_PIECE:g} s, from {found.sentence}'
    return begun_at(problem, dict(zip(names, found.x.tolist(), strict=True))), sentence


def begun_at(problem: Problem, values: Mapping[str, float]) -> Problem:
    """Return the problem with other start values of its parameters, by name."""
    parameters = tuple(
        dataclasses.replace(unknown, nominal=values.get(unknown.name, unknown.nominal))
        for unknown in problem.parameters
    )
    return dataclasses.replace(problem, parameters=parameters)


def _may_change(problem: Problem) -> bool:
    """Return whether simulations with another step are of the same model.

    What delays commands inside of the model counts its steps, and servos' laws have their own.
    """
    bound = problem.model.nhistory or problem.servos is not None
    return not bound and not any(each.motion is not None for each in problem.sequences('train'))


def spoken_for(problem: Problem, found: Fit, solver: SolverConfig) -> Problem:
    """Return the problem with the step that recordings speak for: the model's own, or a shorter.

    Residuals with the model's own step, which may be shorter than that of the fit, are regressed on
    the Jacobian and on what the shorter step changes in them. A step that was asked for is taken at
    its word.
    """
    if solver.timestep != 'auto' or found.window is not None or found.arrival_errors:
        return problem
    finer = stepped(problem, _FINER * float(problem.model.opt.timestep))
    trajectories = found.as_fitted(problem.sequences('train'))
    left = []
    for each in (problem, finer):
        with make_simulator(each.spec, found.unknowns, trajectories, solver.threads) as simulator:
            residuals = Residuals(simulator, found.noise, memory=found.memory)
            left.append(residuals(found.values[None])[:, 0])
    own, without = left
    table = np.column_stack([found.solution.jacobian, own - without])
    if not np.isfinite(table).all() or not table[:, -1].any():
        return problem
    triangle = np.asarray(np.linalg.qr(np.column_stack([table, own]), mode='r'))
    follows = triangle[-2, -1] / triangle[-2, -2]
    if round(follows) != 1:
        return problem
    error = abs(triangle[-1, -1] / triangle[-2, -2])
    error /= np.sqrt(inferred(found).inference.effective)
    return finer if follows > _SURELY * error else problem


def corrected(exact: Problem, coarse: Problem, found: Fit, threads: int) -> Problem:
    """Return a problem to be fitted with a step, as if it were simulated with another.

    What the step of ``exact`` adds to predictions of the fit, which has that of ``coarse``, is
    subtracted from what was measured by the sensors that were compared: others may be dead.
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
            added, data = np.nan_to_num(one[0] - other[0]), np.array(series.data)
            place = 0
            for sensor, (_, columns) in series.signal_mapping.items():
                if sensor in found.noise:
                    data[:, columns] -= added[:, place : place + len(columns)]
                place += len(columns)
            measurements.append(dataclasses.replace(series, data=data))
        return dataclasses.replace(trajectory, measurements=tuple(measurements))

    return coarse.with_trajectories(change)


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


def stepped(problem: Problem, seconds: float) -> Problem:
    """Return the problem with another time step, and dampers that are then implicit."""
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


def recall(config: CalibrationConfig) -> tuple[Memory | None, CalibrationConfig, tuple[str, ...]]:
    """Read the earlier result that a configuration names, if any.

    ``auto`` means the current one; where there is none yet, or none that can be continued, memory
    begins anew. The returned configuration is without the bags that the earlier result learned
    from: nothing is learned twice. Sentences tell of both.
    """
    previous = config.memory.previous
    begins = previous == 'auto'
    path = find(config.output if begins else Path(previous))
    if previous == 'none' or (begins and not path.exists()):
        return None, config, ()
    path = named(path.parent) / path.name
    try:
        memory = Memory(path, _usable(path))
    except (ConfigError, ResultError) as err:
        if not begins:
            raise
        return None, config, (f'Memory begins anew: {err}',)
    return memory, *_without_known_bags(config, memory)


def _usable(path: Path) -> CalibrationResult:
    result = CalibrationResult.load(path)
    if not result.accepted:
        reason = result.acceptance.rstrip('.')
        raise ConfigError(
            f'Expected an accepted result to continue, but {str(path)!r} was rejected: {reason}.'
        )
    if result.inference is None:
        raise ConfigError(
            f'Expected a result with a covariance to continue, found none in {str(path)!r}.'
        )
    return result


def _without_known_bags(
    config: CalibrationConfig, memory: Memory
) -> tuple[CalibrationConfig, tuple[str, ...]]:
    known = {file.sha256 for file in memory.trained}
    kept, left_out = [], []
    for path, role in bags_of(config):
        data = [file for file in files_in(path) if file.name != 'metadata.yaml']
        if not any(sha256(file) in known for file in data):
            kept.append((path, role))
        elif role == 'train':
            left_out.append(path.name)
        else:
            raise ConfigError(
                f'Expected unseen data in the validation bag {str(path)!r}, but the earlier '
                f'result {str(memory.path)!r} was fitted to it; choose another bag.'
            )
    if not left_out:
        return config, ()
    if not any(role == 'train' for _, role in kept):
        raise ConfigError(
            f'Expected a training bag that the earlier result {str(memory.path)!r} does not know, '
            f'found only {listed(left_out)}; record another or set memory.previous to none.'
        )
    chosen = tuple(BagSelection(path=glob.escape(str(path)), role=role) for path, role in kept)
    sentence = f'Known from the earlier result and not read again: {listed(left_out)}.'
    # Parts that are to be left out in turn may be bags that are not read.
    validation = config.validation
    if validation.leave_out != 'none':
        validation = validation.model_copy(update={'leave_out': 'auto'})
    update = {'bags': chosen, 'validation': validation}
    return config.model_copy(update=update), (sentence,)


def _fit_with_memory(job: Job, problem: Problem, memory: Memory) -> Fitted:
    """Fit to new data and what was known before, unless the robot changed."""
    config = job.config
    fewer, long = thinned(problem)
    stepped_problem = with_timestep(fewer, config.solver, long=bool(long))

    def fit_from(
        parameters: tuple[Unknown, ...], prior: JointPrior | None, earlier: Identification | None
    ) -> Identification:
        chosen = config
        if earlier is not None:
            job.observer.stage(f'continuing {memory.place}')
            start = StartKind.NOMINAL if earlier.window is None else config.solver.start
            solver = config.solver.model_copy(update={'start': start, 'starts': 1})
            chosen = config.model_copy(update={'solver': solver})
        moved = dataclasses.replace(stepped_problem, parameters=parameters)
        if led := earlier is None and bool(job.resumed):
            moved = begun_at(moved, job.resumed)
        return fit_training(job._replace(config=chosen), moved, memory=prior, led=led)

    parameters = problem.parameters
    now = {p.name: {target.path for target in p.targets} for p in parameters}
    # What a file that carries on the rest asks for is another now, as of a tool that holds a load.
    new = {n for n, p in now.items() if config.memory.carry and not carried_on(p, config)}
    same = {name: paths for name, paths in now.items() if name not in new}
    anew = {path for name in new for path in now[name]}
    warnings = _unmatched(memory.result, now, problem.source.description.sha256, anew)
    known = known_of(memory.result, same, config.memory.wander)
    if not known.names:
        found = fit_from(parameters, None, None)
        return Fitted(found, problem, stepped_problem, None, (*warnings, *long))
    found, seen = continue_from(
        known, parameters, fit_from, forgetting=config.memory.forgetting, level=config.memory.level
    )
    if found.start == StartKind.NOMINAL:
        sentence = _RESUMED if job.resumed else f'the values of {memory.place}'
        found = dataclasses.replace(found, start_sentence=sentence)
    values = dict(zip((p.name for p in found.parameters), found.solution.x.tolist(), strict=True))
    drift = describe(
        memory.place,
        known,
        np.array([values[name] for name in known.names]),
        {p.name: p.unit for p in found.parameters},
        seen,
        'what was known of it before is dropped',
    )
    if drift.changed or math.isnan(drift.p_value):
        warnings.insert(0, drift.sentence)
    return Fitted(found, problem, stepped_problem, drift, (*warnings, *long))


def _unmatched(
    result: CalibrationResult, now: Mapping[str, set[str]], model: str, anew: Iterable[str]
) -> list[str]:
    """Say what of an earlier result is not true of now, by names with their targets.

    What it knew of elements of which targets are found ``anew`` is not held to be true.
    """
    found = []
    elements = {path.rpartition('/')[0] for path in anew}
    gone = [
        p.name
        for p in result.parameters
        if not of_sequence(p.targets[0])
        and now.get(p.name) != set(p.targets)
        and not {path.rpartition('/')[0] for path in p.targets} <= elements
    ]
    if gone:
        found.append(
            f'No longer identified, so that what the earlier result knew holds only if the '
            f'model has their values: {listed(gone)}.'
        )
    if model not in {file.sha256 for file in result.provenance.files if file.role == 'model'}:
        found.append(
            'The model is not the one of the earlier result: if more than the identified '
            'parameters differs, what was known before is not true of it.'
        )
    return found


def continue_from(
    known: Known,
    parameters: tuple[Unknown, ...],
    fit: Callable[[tuple[Unknown, ...], JointPrior | None, Identification | None], Identification],
    *,
    forgetting: float,
    level: float,
) -> tuple[Identification, Difference]:
    """Fit to new data and earlier estimates; return how the new data's own differ from these, too.

    The new data are fitted alone first. Where what they say differs from the earlier estimates by
    more than chance, the earlier knowledge of the parameters that changed is dropped, so that it
    does not bend the new values. With the rest of it, N(x, Σ / forgetting), the fit goes on.

    Residuals resemble their neighbours, and least squares takes them for independent: the new data
    count as more than they say. The earlier knowledge is weighted up by the same factor.

    ``fit`` fits the new data with a prior, from an earlier fit. The earlier information has a
    weight of ``forgetting``, 0 to 1; ``level`` is how often a change is seen where there is none.
    """

    def starting(x: NDArray[np.float64], without: Container[str] = ()) -> tuple[Unknown, ...]:
        """Return the parameters at (p,) values, some without priors of their own."""
        return tuple(
            dataclasses.replace(
                p,
                nominal=float(np.clip(value, p.min_value, p.max_value)),
                prior=None if p.name in without else p.prior,
            )
            for p, value in zip(parameters, x, strict=True)
        )

    columns = [[p.name for p in parameters].index(name) for name in known.names]
    x = np.array([unknown.nominal for unknown in parameters])
    x[columns] = known.estimate.x
    first = fit(starting(x), known.prior().weighted(_ANCHOR), None)
    found = data_only(first)
    seen = difference(known.estimate, found.of(columns), level)
    kept = np.flatnonzero(~seen.changed)
    prior = None
    if len(kept):
        weight = forgetting * found.inflation
        prior = known.prior(kept).weighted(weight, variance=found.inflation)
    # The earlier estimates know a parameter's own prior already.
    last = fit(starting(first.solution.x, prior.names if prior else ()), prior, first)
    # After many recordings most of what is known is from the earlier ones, which were data, too:
    # where the new data alone identify a parameter, memory is no prior.
    intervals = tuple(
        dataclasses.replace(own, verdict_kind=VerdictKind.IDENTIFIED, explanation='')
        if own.verdict_kind is VerdictKind.PRIOR_DOMINATED
        and alone.verdict_kind is VerdictKind.IDENTIFIED
        else own
        for own, alone in zip(last.intervals, first.intervals, strict=True)
    )
    last = dataclasses.replace(
        last,
        parameters=parameters,
        inference=dataclasses.replace(last.inference, intervals=intervals),
        rollouts=first.rollouts + last.rollouts,
        diverged=first.diverged + last.diverged,
        seconds=first.seconds + last.seconds,
        attempts=first.attempts,
        start=first.start,
        start_sentence=first.start_sentence,
    )
    return last, seen

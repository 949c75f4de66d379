# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What real joints do and the model does not: which joint needs it, by held-out evidence."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np
import scipy.special

from sysid_ros.errors import ConfigError, FitError, ModelError
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver.differences import Differences
from sysid_ros.estimation.solver.least_squares import Solution, SolverSettings, attempt
from sysid_ros.model.description import Description
from sysid_ros.model.loading import RobotModel, compile_spec
from sysid_ros.model.variants import as_stiff, extra_unknowns, moved, started, variants
from sysid_ros.pipeline.fitting import fit_training
from sysid_ros.pipeline.loading import load
from sysid_ros.pipeline.timestep import stepped
from sysid_ros.rollout.prediction import make_simulator

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sysid_ros.config import CalibrationConfig
    from sysid_ros.identification.observer import Observer
    from sysid_ros.model.targets import Target
    from sysid_ros.model.unknown import Unknown
    from sysid_ros.model.variants import Variant
    from sysid_ros.pipeline.loading import Problem
    from sysid_ros.signals.trajectory import Trajectory

#: Probability to name anything where nothing is missing, over all variants.
_FALSE_ALARM = 0.01
#: One variant predicts worse than another below this probability.
_WORSE = 0.05
#: Residuals this many seconds apart count as independent.
_BLOCK = 0.25
#: Errors of the measured start, and where play was then, are not judged, s.
_SETTLING = 0.5
#: A standard error needs so many blocks.
_FEWEST_BLOCKS = 6
#: So many variants are fitted in full.
_MOST_FITS = 4
#: Two tests of each value, and both signs of a slope.
_TESTS = 4.0
#: A step is believed up to so many times its size when it was tried.
_FARTHEST = 2.0
#: A variant is begun from so many of its sizes, for so many iterations; the best goes on.
_BEGUN, _FIRST = 2, 3
_ITERATIONS = 12
#: A fit ends when the next step would be shorter than this, in standard errors.
_TOLERANCE = 0.3
#: A shorter time step is worth its price where the error of a sensor falls by this part.
#: Each halving costs twice the one before: so many at most.
_STEP_ERROR, _HALVINGS = 0.05, 4
#: A value is at its bound within this part of it.
_AT_BOUND = 0.01
#: Columns are dependent below this, relative to the largest.
_BLIND = 1e-9


class Score(NamedTuple):
    """What one step of Gauss and Newton says of a variant, before any fit.

    Attributes:
        variant: Which.
        gain: By how much half the sum of squares would fall.
        p_value: Of so steady a slope, or of such a gain, by chance, one value of the variant tried.
        start: Where its first parameter would go.
    """

    variant: Variant
    gain: float
    p_value: float
    start: float


@dataclass(frozen=True)
class Value:
    """A parameter that a variant has more, where the fit has put it."""

    target: str
    value: float
    bounds: tuple[float, float]
    log: bool


@dataclass(frozen=True)
class Trial:
    """A variant that was fitted.

    Attributes:
        title: What the joint has, for people.
        lack: Which kind of thing it has.
        joint: Name of the joint.
        reads: What its encoder reads: ``rotor``, ``link``, or empty where that is the same.
        values: What the fit found for what it has more.
        training: Root mean square error on the training data, in units of the noise.
        held_out: The same on the data held out.
        better: Mean logarithm of the ratio by which the mean square falls on parts of what is held
            out, …
        standard_error: … and the standard error of that.
        p_value: Of a fall as steady as this by chance.
    """

    title: str
    lack: str
    joint: str
    reads: str
    values: tuple[Value, ...]
    training: float
    held_out: float
    better: float
    standard_error: float
    p_value: float


@dataclass(frozen=True)
class Missing:
    """What the model lacks.

    Attributes:
        named: What it is; None where nothing predicts better beyond doubt.
        trials: All that were fitted, the best on held-out data first.
        screened: Number of variants that were looked at.
        training: Root mean square error of the model as it is, in units of the noise.
        held_out: The same on the data held out.
        reason: Why, in a sentence.
        as_good: Titles of others that predict better than the model as it is, and no worse beyond
            chance than the one that is named: the recordings do not tell them apart.
        replaced: Target of the model to what it is in the variant that is named.
        note: That the time step was shorter than the model's, and why; empty where it was not.
    """

    named: Trial | None
    trials: tuple[Trial, ...]
    screened: int
    training: float
    held_out: float
    reason: str
    as_good: tuple[str, ...]
    replaced: dict[str, str]
    note: str = ''


class Changed(NamedTuple):
    """The variant that is named.

    Attributes:
        model: As it would be read from a file.
        values: What was found for its parameters.
    """

    model: RobotModel
    values: tuple[tuple[Target, float], ...]


class Found(NamedTuple):
    """What the model lacks, and the model that has it where something is named."""

    missing: Missing
    changed: Changed | None


class _Case(NamedTuple):
    """The model as it is, fitted.

    Attributes:
        problem: With the time step of all that follows.
        unknowns: Its parameters, and what each recording has of its own, …
        values: … and what was found for them.
        noise: Of each sensor.
        share: Of the residuals, those that are independent.
        training: What was fitted.
        held_out: What was not.
        threads: Simulation threads.
    """

    problem: Problem
    unknowns: tuple[Unknown, ...]
    values: NDArray[np.float64]
    noise: dict[str, float]
    share: float
    training: tuple[Trajectory, ...]
    held_out: tuple[Trajectory, ...]
    threads: int


class _Tried(NamedTuple):
    """A variant that was fitted, with all of its values, and its squares on what is held out."""

    trial: Trial
    spec: mujoco.MjSpec
    unknowns: tuple[Unknown, ...]
    x: NDArray[np.float64]
    parts: NDArray[np.float64]


def find_missing(
    config: CalibrationConfig, observer: Observer, cancel: threading.Event | None = None
) -> Found:
    """Find what real joints do and the model does not.

    The model is fitted as it is. Every variant, of every joint that a position servo drives, is
    then simulated with those values: the change of the residuals is one more column of the
    Jacobian, by which the cost would fall (the score test of Rao, Proceedings of the Cambridge
    Philosophical Society 44, 1948, with a finite step, as play and dead bands have no slope at
    zero). Those that would gain most, beyond chance, are fitted. Named is the one that predicts
    the validation bags best, if it does so better than the model as it is, by a paired test over
    parts of a quarter of a second (Diebold and Mariano, Journal of Business & Economic Statistics
    13, 1995).

    Args:
        config: The calibration to go on from.
        observer: Is told of stages and iterations.
        cancel: Ends it when it is set.

    Raises:
        ConfigError: Nothing is held out, or laws of servos drive the model.
        FitError: No joint is driven by a position servo, or whole recordings cannot be predicted.
        CancelledError: ``cancel`` was set.
    """
    return missing_in(config, load(config, observer), observer, cancel)


def missing_in(
    config: CalibrationConfig,
    problem: Problem,
    observer: Observer,
    cancel: threading.Event | None = None,
) -> Found:
    """Do the same with data that are read already."""
    held_out = problem.sequences('validate')
    if not held_out:
        msg = (
            'What a model lacks shows on data that were not fitted: expected a bag with role '
            'validate, found none.'
        )
        raise ConfigError(msg)
    if problem.servos is not None:
        msg = 'Expected a model without servos: their laws say what --missing looks for.'
        raise ConfigError(msg)
    if next(variants(problem.spec, problem.model), None) is None:
        msg = (
            'Expected a named joint that a position servo drives (kp, joint), found none: nothing '
            'that --missing knows can be added.'
        )
        raise FitError(msg)
    problem = _anchored(problem)
    observer.stage(f'fitting the model as it is, {len(problem.parameters)} parameters')
    fit = fit_training(config, problem, observer, cancel)
    if fit.window is not None:
        msg = 'The fit rests on windows, so that whole recordings cannot be predicted: set window.'
        raise FitError(msg)
    case = _Case(
        problem,
        fit.unknowns,
        fit.values,
        fit.noise,
        min(fit.inference.effective / len(fit.solution.residual), 1.0),
        tuple(fit.as_fitted(problem.sequences('train'))),
        held_out,
        config.solver.threads,
    )
    case, note = _fine_enough(case, observer, cancel)
    possible = list(variants(case.problem.spec, case.problem.model))
    observer.stage(f'screening {len(possible)} variants')
    residual, promising = _screened(case, possible)
    before = _held_out(case, case.problem.spec, held_out, case.unknowns, case.values)
    error = _rms(residual)
    tried: list[_Tried] = []
    for score in promising:
        observer.stage(f'fitting {score.variant.title}')
        found = _try(case, score, residual, before, cancel)
        if found is not None:
            tried.append(found)
    tried = _ordered(tried)
    trials = tuple(item.trial for item in tried)
    best = tried[0] if tried else None
    named = None
    if not promising:
        reason = (
            f'none of {len(possible)} variants would lower the error beyond chance '
            f'({100 * _FALSE_ALARM:g} % over all)'
        )
    elif best is None:
        reason = (
            f'of {len(possible)} variants {len(promising)} looked better on the training data, and '
            'none is when it is fitted'
        )
    elif best.trial.p_value >= _FALSE_ALARM:
        reason = (
            f'of {len(possible)} variants {len(tried)} looked better on the training data, and '
            f'none predicts held-out data better beyond chance (p = {best.trial.p_value:.1g})'
        )
    else:
        named = best
        reason = (
            f'with it the error on held-out data falls from {_root(before):.3g} to '
            f'{best.trial.held_out:.3g} times the noise (p = {best.trial.p_value:.1g})'
        )
    missing = Missing(
        named.trial if named else None,
        trials,
        len(possible),
        error,
        _root(before),
        reason,
        tuple(other.trial.title for other in _as_good(tried)) if named else (),
        _replaced(case, named) if named else {},
        note,
    )
    return Found(missing, _model(case, named) if named else None)


def _anchored(problem: Problem) -> Problem:
    """Return a problem whose parameters stay near the model's where the data do not say.

    Motion alone does not say how large all masses, gains and frictions are together, and a fit may
    go to any multiple of the true ones: a spring between true ones would not be recognised there.
    """
    parameters = [
        unknown
        if unknown.prior is not None or not unknown.nominal
        else dataclasses.replace(unknown, prior=(unknown.nominal, abs(unknown.nominal)))
        for unknown in problem.parameters
    ]
    return dataclasses.replace(problem, parameters=tuple(parameters))


def _fine_enough(
    case: _Case, observer: Observer, cancel: threading.Event | None
) -> tuple[_Case, str]:
    """Return a case whose time step is not taken for what is missing, and what is to be said of it.

    A long step changes the lag of a joint, as a stiff spring does. Steps are halved as long as the
    next would explain more: its error is taken to be of first order, and its square to fall to a
    quarter with each.
    """
    own, note = case.problem.model.opt.timestep, ''
    if case.problem.model.nhistory:  # what delays commands inside of the model counts its steps
        return case, note
    for _ in range(_HALVINGS):
        step = case.problem.model.opt.timestep / 2
        observer.stage(f'fitting the model as it is with a time step of {step:g} s')
        finer = _again(case, stepped(case.problem, step), cancel)
        if finer is None:
            break
        fallen = {
            name: (case.noise[name] ** 2 - noise**2) / noise**2
            for name, noise in finer.noise.items()
        }
        name, most = max(fallen.items(), key=lambda item: item[1])
        if most < 2 * _STEP_ERROR:
            break
        case = finer
        note = note or (
            f'With half of the time step of the model, {own:g} s, the error of {name} is '
            f'{100 * (1.0 - 1.0 / math.sqrt(1.0 + most)):.2g} % less'
        )
        if most / 4 < 2 * _STEP_ERROR:
            break
    if note:
        note = f'{note}: all that is said here is with {case.problem.model.opt.timestep:g} s.'
    return case, note


def _solved(
    residuals: Residuals, start: NDArray[np.float64], most: int, cancel: threading.Event | None
) -> Solution | None:
    """Fit from a start in so many iterations at most; None where it is not stable."""
    found = attempt(
        residuals,
        start,
        settings=SolverSettings(max_iterations=most, rough=True),
        tolerance=_TOLERANCE,
        cancel=cancel,
    )
    return None if isinstance(found, FitError) else found


def _again(case: _Case, problem: Problem, cancel: threading.Event | None) -> _Case | None:
    """Fit once more with another time step; None where that is not stable."""
    with make_simulator(problem.spec, case.unknowns, case.training, case.threads) as simulator:
        residuals = Residuals(simulator, case.noise)
        solution = _solved(residuals, case.values, _ITERATIONS, cancel)
        samples = residuals.samples
    if solution is None:
        return None
    noise = {
        name: case.noise[name] * _rms(solution.residual[samples.sensor == place])
        for place, name in enumerate(samples.sensors)
    }
    return case._replace(problem=problem, values=solution.x, noise=noise)


def _ordered(tried: Sequence[_Tried]) -> list[_Tried]:
    """Return variants, the one first that explains most of those that predict best.

    Several may predict as well as the best does, beyond chance: the data that were fitted then say
    more than those held out.
    """
    found = sorted(tried, key=lambda item: -item.trial.better)
    if not found:
        return []
    best = min((found[0], *_as_good(found)), key=lambda item: item.trial.training)
    return [best, *(item for item in found if item is not best)]


def _as_good(tried: Sequence[_Tried]) -> list[_Tried]:
    """Return which of the others predict better than the model, and no worse than the first."""
    best, *others = tried
    return [
        other
        for other in others
        if other.trial.p_value < _FALSE_ALARM
        and _p_value(np.log(other.parts / best.parts)) >= _WORSE
    ]


def _replaced(case: _Case, tried: _Tried) -> dict[str, str]:
    """Return what each target of the robot became that the variant has in another place."""
    return {
        old.path: new.path
        for before, after in zip(case.unknowns, tried.unknowns, strict=False)
        for old, new in zip(before.targets, after.targets, strict=False)
        if old.path != new.path
    }


def _basis(jacobian: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return orthonormal columns that span those of a Jacobian."""
    norms = np.linalg.norm(jacobian, axis=0)
    columns = jacobian[:, norms > 0] / norms[norms > 0]
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(left[:, sizes > _BLIND * sizes[0]])


def _blocks(sequence: NDArray[np.int64], time: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return for each residual the number of its part of a recording."""
    parts = np.stack([sequence, np.floor(time / _BLOCK).astype(np.int64)], axis=1)
    return np.asarray(np.unique(parts, axis=0, return_inverse=True)[1]).reshape(-1)


def _rms(values: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _root(parts: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(parts)))


def _begun(
    case: _Case, variant: Variant, sizes: Sequence[float]
) -> tuple[tuple[Unknown, ...], NDArray[np.float64]]:
    """Return the unknowns of a variant, and (n, k) where a fit of each size begins."""
    made = compile_spec(variant.spec, case.problem.source.description.path)
    old, model = case.unknowns, case.problem.model
    starts = []
    for size in sizes:
        values = as_stiff(variant, old, case.values, size)
        unknowns = (
            *moved(variant, model, made, old, values.tolist()),
            *extra_unknowns(variant, made, size),
        )
        starts.append([unknown.nominal for unknown in unknowns])
    return unknowns, np.array(starts)


def _screened(case: _Case, possible: Sequence[Variant]) -> tuple[NDArray[np.float64], list[Score]]:
    """Return the residuals of the model as it is, and which variants would lower them most."""
    with make_simulator(case.problem.spec, case.unknowns, case.training, case.threads) as simulator:
        base = Residuals(simulator, case.noise)
        residual = base(case.values[None, :])[:, 0].copy()
        differences = Differences(base)
        jacobian = differences.at(case.values, residual).jacobian
        blocks = _blocks(base.samples.sequence, base.samples.time)
    basis = _basis(jacobian)
    scores = [
        score
        for variant in possible
        if (score := _score(case, variant, residual, basis, blocks)) is not None
    ]
    tests = sum(len(variant.extras[0].tries) for variant in possible)
    promising = [score for score in scores if score.p_value < _FALSE_ALARM / tests]
    return residual, sorted(promising, key=lambda score: -score.gain)[:_MOST_FITS]


def _score(
    case: _Case,
    variant: Variant,
    residual: NDArray[np.float64],
    basis: NDArray[np.float64],
    blocks: NDArray[np.int64],
) -> Score | None:
    """Say what a variant would gain; None where it cannot be simulated."""
    extra = variant.extras[0]
    unknowns, candidates = _begun(case, variant, extra.tries)
    runs = [started(variant, case.problem.model, run) for run in case.training]
    try:
        with make_simulator(variant.spec, unknowns, runs, case.threads) as simulator:
            residuals = Residuals(simulator, case.noise)
            found = residuals(candidates)
            unstable = residuals.unstable
    except (FitError, ModelError):
        return None
    if len(found) != len(residual):
        return None
    best: Score | None = None
    signed = extra.bounds[0] < 0
    for place, value in enumerate(extra.tries):
        if unstable[place]:
            continue
        change = found[:, place] - residual
        change = change - basis @ (basis.T @ change)
        size = float(change @ change)
        if size <= 0:
            continue
        length = -float(change @ residual) / size
        if not signed:
            length = float(np.clip(length, 0.0, _FARTHEST))
        gain = -(0.5 * length**2 * size + length * float(change @ residual))
        slopes = -np.bincount(blocks, change * residual)
        steady = _p_value(np.asarray(np.sign(length) * slopes if signed else slopes, float))
        # One value may be decided by few moments, which no test over parts sees.
        likely = float(scipy.special.chdtrc(1, 2.0 * gain * case.share))
        p_value = min(_TESTS * min(steady, likely), 1.0)
        where = value if extra.log else value * length
        if gain > 0 and (best is None or gain > best.gain):
            best = Score(variant, gain, p_value, where)
    return best


def _p_value(parts: NDArray[np.float64]) -> float:
    """Return the probability of a mean as large as that of parts if it is not above zero."""
    count = len(parts)
    if count < _FEWEST_BLOCKS:
        return 1.0
    error = float(parts.std(ddof=1)) / math.sqrt(count)
    if error <= 0:
        return 1.0
    return float(scipy.special.stdtr(count - 1, -float(parts.mean()) / error))


def _try(
    case: _Case,
    score: Score,
    residual: NDArray[np.float64],
    before: NDArray[np.float64],
    cancel: threading.Event | None,
) -> _Tried | None:
    """Fit a variant and judge it.

    Returns:
        None where no simulation of it is stable, where it explains less than the model does, or
        where the fit would go on beyond what can be simulated.
    """
    variant, model = score.variant, case.problem.model
    cost = 0.5 * float(residual @ residual)
    extra = variant.extras[0]
    unknowns, starts = _begun(case, variant, tuple(dict.fromkeys((score.start, *extra.tries))))
    runs = [started(variant, model, run) for run in case.training]
    with make_simulator(variant.spec, unknowns, runs, case.threads) as simulator:
        residuals = Residuals(simulator, case.noise)
        near = np.argsort(np.sum(residuals(starts) ** 2, axis=0))[:_BEGUN]
        begun = (_solved(residuals, start, _FIRST, cancel) for start in starts[near])
        ends = [end for end in begun if end is not None]
        if not ends:
            return None
        best = min(ends, key=lambda end: end.cost)
        solution = _solved(residuals, best.x, _ITERATIONS - _FIRST, cancel)
    if solution is None or solution.cost > cost:
        return None
    size = float(solution.x[len(case.unknowns)])
    if min(abs(size - bound) for bound in extra.bounds) <= _AT_BOUND * abs(size):
        return None
    held_out = [started(variant, model, run) for run in case.held_out]
    after = _held_out(case, variant.spec, held_out, unknowns, solution.x)
    # Parts where the robot starts, or is fast, would outweigh all others in plain differences.
    difference = np.log(before / after)
    count = len(case.unknowns)
    values = tuple(
        Value(extra.target, float(value), extra.bounds, extra.log)
        for extra, value in zip(variant.extras, solution.x[count:], strict=True)
    )
    error = (
        float(difference.std(ddof=1)) / math.sqrt(len(difference))
        if len(difference) > 1
        else math.nan
    )
    trial = Trial(
        variant.title,
        str(variant.lack),
        variant.joint,
        variant.reads,
        values,
        _rms(solution.residual),
        _root(after),
        float(difference.mean()),
        error,
        _p_value(difference),
    )
    return _Tried(trial, variant.spec, unknowns, solution.x, after)


def _held_out(
    case: _Case,
    spec: mujoco.MjSpec,
    runs: Sequence[Trajectory],
    unknowns: Sequence[Unknown],
    x: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the (k,) mean squares of parts of what is held out, in units of the noise's."""
    robot = [place for place, unknown in enumerate(unknowns) if not unknown.of_single_runs]
    noise = case.noise
    with make_simulator(spec, [unknowns[i] for i in robot], runs, case.threads) as simulator:
        residuals = Residuals(simulator, noise, enabled=[noise.__contains__])
        squares = residuals(x[None, robot])[: residuals.prior_rows.start, 0] ** 2
    sequence = residuals.samples.sequence[: len(squares)]
    time = residuals.samples.time[: len(squares)]
    settled = time >= min(_SETTLING, 0.5 * float(time.max()))
    blocks = _blocks(sequence[settled], time[settled])
    return np.asarray(np.bincount(blocks, squares[settled]) / np.bincount(blocks))


def _model(case: _Case, tried: _Tried) -> Changed:
    """Return a variant as it would be read from a file, and all values found that it can hold."""
    path = case.problem.source.description.path
    text = tried.spec.to_xml()
    spec = mujoco.MjSpec.from_string(text)
    spec.modelfiledir = str(path.parent)
    values = tuple(
        (target, float(value))
        for unknown, value in zip(tried.unknowns, tried.x, strict=True)
        for target in unknown.targets
        if target.in_mjcf
    )
    return Changed(RobotModel(Description(path, text), spec), values)

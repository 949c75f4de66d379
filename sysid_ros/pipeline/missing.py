# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What real joints do and the model does not: which joint needs it, by held-out evidence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np
import scipy.special

from sysid_ros.errors import ConfigError, FitError, ModelError
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver.differences import Differences
from sysid_ros.estimation.solver.least_squares import SolverSettings, attempt
from sysid_ros.model.description import Description
from sysid_ros.model.loading import RobotModel, compile_spec
from sysid_ros.model.variants import extra_unknowns, moved, started, variants
from sysid_ros.pipeline.fitting import fit_training
from sysid_ros.pipeline.loading import load
from sysid_ros.rollout.prediction import make_simulator

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sysid_ros.config import CalibrationConfig
    from sysid_ros.identification.fit import Fit
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
_ITERATIONS = 12
#: A fit ends when the next step would be shorter than this, in standard errors.
_TOLERANCE = 0.3
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
    """

    named: Trial | None
    trials: tuple[Trial, ...]
    screened: int
    training: float
    held_out: float
    reason: str
    as_good: tuple[str, ...]
    replaced: dict[str, str]


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
    """The model as it is, fitted."""

    problem: Problem
    fit: Fit
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
    possible = list(variants(problem.spec, problem.model))
    if not possible:
        msg = (
            'Expected a named joint that a position servo drives (kp, joint), found none: nothing '
            'that --missing knows can be added.'
        )
        raise FitError(msg)
    observer.stage(f'fitting the model as it is, {len(problem.parameters)} parameters')
    fit = fit_training(config, problem, observer, cancel)
    if fit.window is not None:
        msg = 'The fit rests on windows, so that whole recordings cannot be predicted: set window.'
        raise FitError(msg)
    training = tuple(fit.as_arrived(problem.sequences('train')))
    case = _Case(problem, fit, training, held_out, config.solver.threads)
    observer.stage(f'screening {len(possible)} variants')
    with make_simulator(problem.spec, fit.unknowns, training, case.threads) as simulator:
        base = Residuals(simulator, fit.noise)
        residual = base(fit.values[None, :])[:, 0].copy()
        differences = Differences(base)
        jacobian = differences.at(fit.values, residual).jacobian
        blocks = _blocks(base.samples.sequence, base.samples.time)
    basis = _basis(jacobian)
    scores = [
        score
        for variant in possible
        if (score := _score(case, variant, residual, basis, blocks)) is not None
    ]
    tests = sum(len(variant.extras[0].tries) for variant in possible)
    promising = sorted(
        (score for score in scores if score.p_value < _FALSE_ALARM / tests),
        key=lambda score: -score.gain,
    )[:_MOST_FITS]
    before = _held_out(case, problem.spec, held_out, fit.unknowns, fit.values)
    error = _rms(residual)
    tried: list[_Tried] = []
    for score in promising:
        observer.stage(f'fitting {score.variant.title}')
        found = _try(case, score, before, cancel)
        if found is not None:
            tried.append(found)
    tried.sort(key=lambda item: -item.trial.better)
    trials = tuple(item.trial for item in tried)
    best = tried[0] if tried else None
    named = None
    if best is None:
        reason = (
            f'none of {len(possible)} variants would lower the error beyond chance '
            f'({100 * _FALSE_ALARM:g} % over all)'
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
        _as_good(tried) if named else (),
        _replaced(case, named) if named else {},
    )
    return Found(missing, _model(case, named) if named else None)


def _as_good(tried: Sequence[_Tried]) -> tuple[str, ...]:
    """Return which of the others predict better than the model, and no worse than the first."""
    best, *others = tried
    return tuple(
        other.trial.title
        for other in others
        if other.trial.p_value < _FALSE_ALARM
        and _p_value(np.log(other.parts / best.parts)) >= _WORSE
    )


def _replaced(case: _Case, tried: _Tried) -> dict[str, str]:
    """Return what each target of the robot became that the variant has in another place."""
    return {
        old.path: new.path
        for before, after in zip(case.fit.unknowns, tried.unknowns, strict=False)
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


def _score(
    case: _Case,
    variant: Variant,
    residual: NDArray[np.float64],
    basis: NDArray[np.float64],
    blocks: NDArray[np.int64],
) -> Score | None:
    """Say what a variant would gain; None where it cannot be simulated."""
    extra = variant.extras[0]
    made = compile_spec(variant.spec, case.problem.source.description.path)
    model, fit = case.problem.model, case.fit
    unknowns = (
        *moved(variant, model, made, fit.unknowns, fit.values.tolist()),
        *extra_unknowns(variant, made, extra.tries[0]),
    )
    runs = [started(variant, model, run) for run in case.training]
    start = np.array([unknown.nominal for unknown in unknowns])
    candidates = np.tile(start, (len(extra.tries), 1))
    candidates[:, len(fit.unknowns)] = extra.tries
    try:
        with make_simulator(variant.spec, unknowns, runs, case.threads) as simulator:
            residuals = Residuals(simulator, fit.noise)
            found = residuals(candidates)
            unstable = residuals.unstable
    except (FitError, ModelError):
        return None
    if len(found) != len(residual):
        return None
    best: Score | None = None
    signed = extra.bounds[0] < 0
    share = min(fit.inference.effective / len(fit.solution.residual), 1.0)
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
        likely = float(scipy.special.chdtrc(1, 2.0 * gain * share))
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
    before: NDArray[np.float64],
    cancel: threading.Event | None,
) -> _Tried | None:
    """Fit a variant and judge it; None where no simulation of it is stable."""
    variant, fit, model = score.variant, case.fit, case.problem.model
    made = compile_spec(variant.spec, case.problem.source.description.path)
    unknowns = (
        *moved(variant, model, made, fit.unknowns, fit.values.tolist()),
        *extra_unknowns(variant, made, score.start),
    )
    runs = [started(variant, model, run) for run in case.training]
    start = np.array([unknown.nominal for unknown in unknowns])
    with make_simulator(variant.spec, unknowns, runs, case.threads) as simulator:
        residuals = Residuals(simulator, fit.noise)
        solution = attempt(
            residuals,
            start,
            settings=SolverSettings(max_iterations=_ITERATIONS, rough=True),
            tolerance=_TOLERANCE,
            cancel=cancel,
        )
    if isinstance(solution, FitError):
        return None
    held_out = [started(variant, model, run) for run in case.held_out]
    after = _held_out(case, variant.spec, held_out, unknowns, solution.x)
    # Parts where the robot starts, or is fast, would outweigh all others in plain differences.
    difference = np.log(before / after)
    count = len(fit.unknowns)
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
    noise = case.fit.noise
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

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which of several models or sets of parameters to use: the simplest that predicts as well."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.schema import CalibrationConfig
from sysid_ros.errors import ConfigError, FitError, nearest
from sysid_ros.fit.observer import Observer, counted
from sysid_ros.results.result import ROLES
from sysid_ros.uncertainty.covariance import FEWEST_PARTS, paired
from sysid_ros.uncertainty.inference import Identification
from sysid_ros.workflows.fitting import Job, fit_training
from sysid_ros.workflows.predictions import Predictor, residuals_of, rms
from sysid_ros.workflows.problem import Problem, load
from sysid_ros.workflows.validation import error_without, families_of, leave_out, training_bags

#: Mean squares below this are rounding: their logarithm would decide everything.
_TINY = 1e-24


class Candidate(NamedTuple):
    """A model to compare."""

    name: str
    config: CalibrationConfig
    drop: tuple[str, ...] = ()  # patterns of parameters that are left out


class HeldOut(NamedTuple):
    """Error on data that were not fitted, in units of the noise; ``bag`` may be a family."""

    bag: str
    error: float


class ModelScore(NamedTuple):
    """How well one model predicts, in units of the noise, the same units for all models."""

    name: str
    parameters: int  # number of them
    training: float  # error on the data that it was fitted to
    parts: tuple[HeldOut, ...]  # errors on data that were held out
    held_out: float  # their mean; NaN without any
    difference: float  # by how much that is larger than that of the best model, …
    standard_error: float  # … and how sure that is, from the differences on each part
    bic: float  # Schwarz's criterion, from the effective samples, above that of the best model
    adequate: bool  # whether it predicts as well as the best, up to a standard error


class ModelComparison(NamedTuple):
    """Several models on the same data, in the order given."""

    models: tuple[ModelScore, ...]
    recommended: str  # name of the simplest adequate one
    reason: str  # why, in a clause
    effective: float  # number of independent samples that say as much as the training data


class _Fitted(NamedTuple):
    """A model and its fit to all training data."""

    candidate: Candidate
    problem: Problem
    fit: Identification

    @property
    def predictor(self) -> Predictor:
        """The model with what was found."""
        threads = self.candidate.config.solver.threads
        return Predictor(
            self.problem.spec, self.fit.parameters, self.fit.solution.x, threads, self.fit.drives
        )


def compare_models(candidates: Sequence[Candidate], observer: Observer) -> ModelComparison:
    """Fit several models to the same bags and recommend the simplest that predicts as well.

    Each is judged on the validation bags, and without each training bag (or family of them) on
    that. The one with the fewest parameters is recommended whose mean error is within one standard
    error of the best model's, the standard error being that of the differences between the two on
    the same data (the one-standard-error rule of Breiman et al. 1984, paired). Where nothing can
    be held out, Schwarz's criterion decides.

    Raises:
        ConfigError: There is one model only, or they differ in their bags, sequences or sensors,
            or nothing matches a pattern.
    """
    if len(candidates) < FEWEST_PARTS:
        raise ConfigError(
            'Expected two models or more to compare, as A.yaml B.yaml or --drop PATTERN, got one.'
        )
    return compare_problems(candidates, _problems(candidates, observer), observer)


def compare_problems(
    candidates: Sequence[Candidate], problems: Sequence[Problem], observer: Observer
) -> ModelComparison:
    """Do the same with what each of the models identifies from the same data."""
    fitted = []
    for candidate, problem in zip(candidates, problems, strict=True):
        observer.stage(f'fitting {candidate.name}, {len(problem.parameters)} parameters')
        for refused in problem.refused:
            raise refused
        fit = fit_training(Job.begin(candidate.config, observer), problem)
        if fit.window is not None:
            raise FitError(
                f'The fit of {candidate.name!r} rests on windows, so that whole recordings cannot '
                'be predicted to compare models; expected shorter ones: set window in segments.'
            )
        fitted.append(_Fitted(candidate, problem, fit))
    return _judged(fitted, observer)


def _problems(candidates: Sequence[Candidate], observer: Observer) -> list[Problem]:
    """Load each configuration once, and leave out what is to be dropped."""
    loaded: dict[int, Problem] = {}
    first: dict[str, set[str]] = {}
    for candidate in candidates:
        if id(candidate.config) in loaded:
            continue
        problem = loaded[id(candidate.config)] = load(candidate.config, observer)
        sequences = [s for role in ROLES for s in problem.sequences(role)]
        contents = {
            'bags': {f'{r.path.resolve()} ({r.role})' for r in problem.recordings},
            'sequences': {s.name for s in problem.sequences('train')},
            'sensors': {n for s in sequences for series in s.measurements for n in series.names},
        }
        first = first or contents
        for what, found in contents.items():
            if first[what] != found:
                odd = min(first[what] ^ found)
                raise ConfigError(
                    f'Models can be compared on the same {what} only: {odd!r} is in one of '
                    f'the first and {candidate.name!r}, not in both.'
                )
    return [without(loaded[id(c.config)], c.drop) for c in candidates]


def without(problem: Problem, drop: Sequence[str]) -> Problem:
    """Leave parameters out, by patterns of their names or targets: they stay what they are."""
    dropped: set[str] = set()
    for pattern in drop:
        matches = {
            parameter.name
            for parameter in problem.parameters
            if fnmatch.fnmatchcase(parameter.name, pattern)
            or all(
                fnmatch.fnmatchcase(target.path.partition('[')[0], pattern)
                for target in parameter.targets
            )
        }
        if not matches:
            hint = nearest(pattern, [parameter.name for parameter in problem.parameters])
            raise ConfigError(f'No parameter to drop matches {pattern!r}; {hint}.')
        dropped |= matches
    kept = tuple(p for p in problem.parameters if p.name not in dropped)
    if not kept:
        raise ConfigError(f'Dropping {", ".join(drop)} leaves no parameter to fit; drop fewer.')
    return dataclasses.replace(problem, parameters=kept)


def _judged(fitted: list[_Fitted], observer: Observer) -> ModelComparison:
    sensors = sorted(set.intersection(*(set(model.fit.noise) for model in fitted)))
    squares, counts = _mean_squares(fitted, sensors)
    # The model that leaves the least is the one whose residuals are most nearly noise.
    least = int(np.argmin(np.log(squares) @ counts))
    noise = dict(zip(sensors, np.sqrt(squares[least]).tolist(), strict=True))
    inference, residual = fitted[least].fit.inference, fitted[least].fit.solution.residual
    # A fit may leave samples out.
    share = inference.effective / max(len(residual), float(counts.sum()))
    effective = float(counts.sum()) * share
    sizes = np.array([len(model.problem.parameters) for model in fitted])
    bic = share * np.log(squares) @ counts + np.log(max(effective, 2.0)) * sizes
    bic -= bic.min()
    training = np.sqrt(squares / squares[least] @ counts / counts.sum())
    parts = []
    for model in fitted:
        observer.stage(f'predicting what is held out with {model.candidate.name}')
        parts.append(_held_out(model, noise, observer))
    errors = np.array([[part.error for part in own] for own in parts])
    errors = errors[:, np.isfinite(errors).all(axis=0)]
    count = errors.shape[1]
    held_out = errors.mean(axis=1) if count else np.full(len(fitted), np.nan)
    best = int(np.argmin(held_out if count else bic))
    difference, standard_error = paired(errors, best)
    adequate = difference <= standard_error if count >= FEWEST_PARTS else bic <= 0
    scores = tuple(
        ModelScore(
            model.candidate.name,
            int(sizes[i]),
            float(training[i]),
            parts[i],
            float(held_out[i]),
            float(difference[i]),
            float(standard_error[i]),
            float(bic[i]),
            bool(adequate[i]),
        )
        for i, model in enumerate(fitted)
    )
    chosen = min(
        (score for score in scores if score.adequate),
        key=lambda score: (score.parameters, score.held_out if count else score.bic),
    )
    return ModelComparison(scores, chosen.name, _reason(chosen, scores[best], count), effective)


def _mean_squares(
    fitted: list[_Fitted], sensors: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (m, k) mean square residual of each model and sensor, and (k,) their numbers."""
    ones = dict.fromkeys(sensors, 1.0)
    rows = []
    for model in fitted:
        found = residuals_of(model.predictor, model.problem.sequences('train'), ones)
        joined = [np.concatenate([part[s] for part in found if s in part]) for s in sensors]
        rows.append([max(float(np.mean(values**2)), _TINY) for values in joined])
    return np.array(rows), np.array([float(len(values)) for values in joined])


def _held_out(model: _Fitted, noise: dict[str, float], observer: Observer) -> tuple[HeldOut, ...]:
    """Return the errors on validation bags, and on what is left out of the fit in turn."""
    problem, config = model.problem, model.candidate.config
    found = []
    for recording in problem.recordings:
        if recording.role == 'validate' and recording.alignment.sequences:
            residuals = residuals_of(model.predictor, recording.alignment.sequences, noise)
            found.append(HeldOut(recording.path.name, rms(residuals)))
    bags = training_bags(problem)
    asked = config.validation.leave_out
    if asked == 'auto':
        asked = 'bag' if sum(map(bool, bags.values())) >= FEWEST_PARTS else 'none'
    families = families_of(asked, bags)
    sequences = problem.sequences('train')
    left_out = leave_out(problem.spec, sequences, families, model.fit, config.solver)
    for name, values in counted(observer, left_out, len(families)):
        error = error_without(model.predictor, model.fit, values, families[name], noise)
        found.append(HeldOut(f'{name}, left out', error))
    return tuple(found)


def _reason(chosen: ModelScore, best: ModelScore, count: int) -> str:
    """Say why a model is recommended, by so many held-out parts."""
    if count < FEWEST_PARTS:
        held_out = 'nothing is held out' if not count else 'one bag only is held out'
        return (
            f'it has the least BIC ({held_out}, so that held-out errors have no standard error; '
            'record more bags)'
        )
    if chosen is not best:
        return (
            f'it is the simplest whose held-out error is within one standard error of that of '
            f'{best.name!r}: {chosen.difference:+.2g} ± {chosen.standard_error:.2g} times the '
            f'noise over {count} held-out parts'
        )
    return (
        f'it has the least held-out error over {count} parts, and no simpler one is within one '
        'standard error of it'
    )

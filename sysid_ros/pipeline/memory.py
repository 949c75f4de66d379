# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A fit that continues an earlier result: a prior, and a test whether each parameter changed."""

from __future__ import annotations

import dataclasses
import glob
import math
import threading
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sysid_ros.config import CalibrationConfig, MemoryConfig
from sysid_ros.config.calibration import VerdictKind
from sysid_ros.errors import ConfigError, FitError, ResultError, listed
from sysid_ros.estimation.noise import JointPrior
from sysid_ros.files import files_in, sha256
from sysid_ros.identification.fit import Fit
from sysid_ros.identification.observer import Observer
from sysid_ros.inference.drift import Difference, Known, difference
from sysid_ros.model.targets import of_sequence
from sysid_ros.model.unknown import Unknown
from sysid_ros.pipeline.fitting import fit_training
from sysid_ros.pipeline.problem import Problem, bags_of
from sysid_ros.results.comparison import describe, known_of
from sysid_ros.results.result import (
    CalibrationResult,
    Drift,
    FileHash,
    Provenance,
    StartKind,
)
from sysid_ros.results.store import RESULT, find, named

_TRAINED = ('train', 'memory')
#: So much of the earlier information only keeps the new data's own fit from running away where
#: they say nothing; what they say is computed without it.
_ANCHOR = 1e-3


@dataclass(frozen=True)
class Memory:
    """An earlier result, the file that it is in, and the hash of that."""

    path: Path
    sha256: str
    result: CalibrationResult

    @property
    def place(self) -> str:
        """The folder that it is in; the file, where that has another name than usual."""
        return str(self.path.parent if self.path.name == RESULT else self.path)

    @property
    def trained(self) -> frozenset[str]:
        """SHA-256 of every file that it, or what it continued, learned from."""
        files = self.result.provenance.files
        return frozenset(file.sha256 for file in files if file.role in _TRAINED)


@dataclass(frozen=True)
class Remembered:
    """What an earlier result has to do with one, and what a reader has to know of that."""

    memory: Memory | None = None  # None where there is none that can be continued
    drift: Drift | None = None
    warnings: tuple[str, ...] = ()

    def provenance(self, own: Provenance) -> Provenance:
        """Return where a result comes from, given what it was made from itself."""
        memory = self.memory
        if memory is None:
            return own
        before = [
            file.model_copy(update={'role': 'memory'})
            for file in memory.result.provenance.files
            if file.role in _TRAINED
        ]
        previous = FileHash(path=str(memory.path), role='previous', sha256=memory.sha256)
        return own.model_copy(update={'files': (*own.files, previous, *before)})


@dataclass(frozen=True)
class Continued:
    """A fit that continues earlier estimates, and how the new data's own differ from those."""

    fit: Fit
    difference: Difference


def recall(memory: MemoryConfig, latest: Path) -> tuple[Memory | None, tuple[str, ...]]:
    """Read the earlier result that a configuration names.

    Args:
        memory: Its section.
        latest: The result that ``auto`` means. Where there is none yet, or none that can be
            continued, memory begins anew.

    Returns:
        The earlier result, if any, and sentences about why there is none.

    Raises:
        ResultError: A result that is named cannot be read.
        ConfigError: It was rejected, or does not say how sure it is.
    """
    if memory.previous == 'none':
        return None, ()
    if memory.previous != 'auto':
        path = find(Path(memory.previous))
        path = named(path.parent) / path.name
        result = _usable(CalibrationResult.load(path), path)
        return Memory(path, sha256(path), result), ()
    if not latest.exists():
        return None, ()
    try:
        found = _usable(CalibrationResult.load(latest), latest)
    except (ConfigError, ResultError) as err:
        return None, (f'Memory begins anew: {err}',)
    return Memory(latest, sha256(latest), found), ()


def _usable(result: CalibrationResult, path: Path) -> CalibrationResult:
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


def without_known_bags(
    config: CalibrationConfig, memory: Memory
) -> tuple[CalibrationConfig, tuple[str, ...]]:
    """Leave out the bags that the earlier result learned from: nothing is learned twice.

    Returns:
        The configuration with the other bags, and a sentence about those left out.

    Raises:
        ConfigError: There is no other training bag, or a known bag is to be held out.
    """
    known = memory.trained
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
    chosen = tuple(
        config.bags[0].model_copy(update={'path': glob.escape(str(path)), 'role': role})
        for path, role in kept
    )
    sentence = f'Known from the earlier result and not read again: {listed(left_out)}.'
    return config.model_copy(update={'bags': chosen}), (sentence,)


def fit_with_memory(
    config: CalibrationConfig,
    problem: Problem,
    memory: Memory,
    observer: Observer,
    cancel: threading.Event | None = None,
    deadline: float | None = None,
) -> tuple[Fit, Remembered]:
    """Fit to new data and what was known before, unless the robot changed; see `fit_training`."""

    def fit(parameters: tuple[Unknown, ...], prior: JointPrior | None, earlier: Fit | None) -> Fit:
        chosen = config
        if earlier is not None:
            observer.stage(f'continuing {memory.place}')
            start = StartKind.NOMINAL if earlier.window is None else config.solver.start
            solver = config.solver.model_copy(update={'start': start, 'starts': 1})
            chosen = config.model_copy(update={'solver': solver})
        moved = dataclasses.replace(problem, parameters=parameters)
        return fit_training(chosen, moved, observer, cancel, memory=prior, deadline=deadline)

    parameters = problem.parameters
    warnings = list(_unmatched(memory.result, problem))
    now = {p.name: {target.path for target in p.targets} for p in parameters}
    known = known_of(memory.result, now, config.memory.wander)
    if not known.names:
        return fit(parameters, None, None), Remembered(memory, None, tuple(warnings))
    done = continue_from(
        known, parameters, fit, forgetting=config.memory.forgetting, level=config.memory.level
    )
    found = done.fit
    if found.start == StartKind.NOMINAL:
        found = dataclasses.replace(found, start_sentence=f'the values of {memory.place}')
    values = dict(zip((p.name for p in found.parameters), found.solution.x.tolist(), strict=True))
    drift = describe(
        memory.place,
        known,
        np.array([values[name] for name in known.names]),
        {p.name: p.unit for p in found.parameters},
        done.difference,
        'what was known of it before is dropped',
    )
    if drift.changed or math.isnan(drift.p_value):
        warnings.insert(0, drift.sentence)
    return found, Remembered(memory, drift, tuple(warnings))


def _unmatched(result: CalibrationResult, problem: Problem) -> list[str]:
    """Say which parameters were, or are, others than now; those of single runs always are."""
    earlier = {p.name: set(p.targets) for p in result.parameters if not of_sequence(p.targets[0])}
    now = {
        p.name: {target.path for target in p.targets}
        for p in problem.parameters
        if not of_sequence(p.targets[0].path)
    }
    found = []
    new = [name for name, targets in now.items() if earlier.get(name) != targets]
    if new:
        found.append(f'Unknown to the earlier result: {listed(new)}.')
    gone = [name for name, targets in earlier.items() if now.get(name) != targets]
    if gone:
        found.append(
            f'No longer identified, so that what the earlier result knew holds only if the '
            f'model has their values: {listed(gone)}.'
        )
    models = {file.sha256 for file in result.provenance.files if file.role == 'model'}
    if problem.source.description.sha256 not in models:
        found.append(
            'The model is not the one of the earlier result: if more than the identified '
            'parameters differs, what was known before is not true of it.'
        )
    return found


def continue_from(
    known: Known,
    parameters: tuple[Unknown, ...],
    fit: Callable[[tuple[Unknown, ...], JointPrior | None, Fit | None], Fit],
    *,
    forgetting: float,
    level: float,
) -> Continued:
    """Fit to new data and earlier estimates.

    The new data are fitted alone first. Where what they say differs from the earlier estimates by
    more than chance, the earlier knowledge of the parameters that changed is dropped, so that it
    does not bend the new values. With the rest of it, N(x, Σ / forgetting), the fit goes on.

    Residuals resemble their neighbours, and least squares takes them for independent: the new data
    count as more than they say. The earlier knowledge is weighted up by the same factor.

    Args:
        known: The earlier estimates, at least one, of some of the parameters.
        parameters: The unknowns.
        fit: Fits the new data with a prior, from an earlier fit.
        forgetting: Weight of the earlier information, 0 to 1.
        level: Probability of seeing a change where there is none.

    Raises:
        FitError: There is nothing to fit, or no parameter has an effect.
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
    found = first.data_only
    if found is None:
        raise FitError('Expected a fit with what the data alone say, found one without.')
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
    return Continued(last, seen)

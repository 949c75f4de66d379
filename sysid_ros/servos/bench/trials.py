# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Find the coefficients of a servo by trials: CMA-ES, random search and NSGA-II of Optuna.

What is minimised is what BAM minimises, the mean over logs of the mean absolute position error.
One sampler in memory is asked for many trials at once, which processes simulate side by side; those
that are done are added to a study in Optuna's journal, which its dashboard shows as well. As
everywhere in Optuna, the state of CMA-ES in it is a pickle: go on with studies of your own only.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import importlib
import json
import math
import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from sysid_ros.errors import CancelledError, ConfigError, FitError, ResultError, nearest
from sysid_ros.servos.bench.fit import checked
from sysid_ros.servos.bench.pendulum import mean_absolute_errors, stack_logs
from sysid_ros.servos.bench.processes import FitProcesses
from sysid_ros.servos.laws.servo import Scheme

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from sysid_ros.servos.formats.logs import ServoLog
    from sysid_ros.servos.laws.servo import Servo

    Array = NDArray[np.float64]

Method = Literal['cmaes', 'random', 'nsgaii']
METHODS: tuple[Method, ...] = get_args(Method)
#: What samples, by the names of the packages.
LIBRARIES = ('optuna', 'cmaes')
#: Trials by default: with twelve logs of an xl330, CMA-ES is at the noise floor after 2000 where
#: six coefficients are sought, and where fifteen are, at some eight times it after 4500.
TRIALS = 5000
#: CMA-ES asks for so many times its usual population, 4 + 3 ln n (Hansen): simulating twice as many
#: at once takes little longer, and a small population often ends in a valley beside the best.
_MORE = 2
#: Optuna's usual population of NSGA-II.
_NSGAII_POPULATION = 50
_RANDOM_BATCH = 64
#: A message names so many studies where the one that was asked for is not there.
_HINTS = 5
#: Digits of digests that say whether two problems are the same.
_DIGITS = 12


@dataclasses.dataclass(frozen=True)
class TrialSettings:
    """How a servo is fitted by trials.

    Attributes:
        method: The sampler.
        trials: How many there shall be in the study, those of an earlier run counted.
        workers: Number of processes that simulate; the population grows with it.
        seed: Of the sampler.
        fixed: Coefficients that are known, by name.
        reset_period: Every so many seconds predictions go on from the measured state, s.
        seconds: Ends it earlier, with what was found until then.
        study: Where trials are kept, from `open_study`; in memory only unless given.
    """

    method: Method = 'cmaes'
    trials: int = TRIALS
    workers: int = 1
    seed: int = 0
    fixed: Mapping[str, float] = dataclasses.field(default_factory=dict)
    reset_period: float | None = None
    seconds: float | None = None
    study: Any = None


class BestTrial(NamedTuple):
    """What trials found.

    Attributes:
        values: All coefficients of the best trial, those that were fixed as well.
        error: Mean over logs of its mean absolute position error, rad.
        trials: How many there are in the study.
        new: How many of them are of this run.
        seconds: Wall time of this run.
    """

    values: dict[str, float]
    error: float
    trials: int
    new: int
    seconds: float


class _TrialJob(NamedTuple):
    """(m, p) values of all coefficients to simulate."""

    servo: Servo
    logs: tuple[ServoLog, ...]
    reset_period: float | None
    values: Array


def sample_servo(
    servo: Servo,
    logs: Sequence[ServoLog],
    *,
    settings: TrialSettings | None = None,
    cancel: threading.Event | None = None,
    observe: Callable[[BestTrial], None] | None = None,
) -> BestTrial:
    """Find the coefficients of a servo by trials inside their bounds.

    Without earlier trials, equal seeds and numbers of workers give equal values.

    Args:
        servo: The kind of servo and its friction law.
        logs: At least one, of one sampling period.
        settings: How.
        cancel: Ends it when it is set.
        observe: Is told after each simulation what is best so far.

    Raises:
        ConfigError: Optuna is not installed.
        FitError: There is nothing to fit, periods differ, or a process ended unexpectedly.
        ParameterError: A fixed coefficient is not one of the servo's.
        ResultError: The study cannot be written.
        CancelledError: ``cancel`` was set.
    """
    settings = settings or TrialSettings()
    began = time.monotonic()
    fixed = checked(servo, settings.fixed)
    space = {name: usual for name, usual in servo.coefficients.items() if name not in fixed}
    if not space:
        msg = 'Nothing to fit: every coefficient is fixed.'
        raise FitError(msg)
    optuna = import_optuna(settings.method)
    distributions = {
        name: optuna.distributions.FloatDistribution(low, high)
        for name, (_, low, high) in space.items()
    }
    known = []
    if settings.study is not None:
        complete = (optuna.trial.TrialState.COMPLETE,)
        known = settings.study.get_trials(deepcopy=False, states=complete)
    seed = np.random.SeedSequence([settings.seed, 0, len(known)]).generate_state(1)[0]
    sampler, batch = _sampler(optuna, settings, len(space), int(seed))
    study = optuna.create_study(sampler=sampler)
    study.add_trials(known)
    count = len(known)

    def best() -> BestTrial:
        found = {**fixed, **study.best_params}
        values = {name: float(found[name]) for name in servo.coefficients}
        seconds = time.monotonic() - began
        return BestTrial(values, float(study.best_value), count, count - len(known), seconds)

    with FitProcesses(settings.workers) as processes:
        while count < settings.trials:
            if cancel is not None and cancel.is_set():
                msg = 'The fit was cancelled.'
                raise CancelledError(msg)
            late = settings.seconds is not None and time.monotonic() - began > settings.seconds
            if late and count:
                break
            size = min(batch, settings.trials - count)
            asked = [study.ask(distributions) for _ in range(size)]
            values = np.array(
                [[{**fixed, **t.params}[name] for name in servo.coefficients] for t in asked]
            )
            jobs = [
                _TrialJob(servo, tuple(logs), settings.reset_period, part)
                for part in np.array_split(values, min(settings.workers, size))
            ]
            errors = np.concatenate(processes.do(_errors, jobs, cancel=cancel))
            # A sampler can do with what is infinite, but not with what is no number.
            errors = np.where(np.isfinite(errors), errors, np.inf)
            done = [study.tell(*pair) for pair in zip(asked, errors.tolist(), strict=True)]
            count += size
            if settings.study is not None:
                _keep(optuna, settings.study, done)
            if observe is not None:
                observe(best())
    return best()


def open_study(path: Path, name: str | None, method: Method, about: Mapping[str, str]) -> Any:
    """Begin a study of Optuna in a file, named after the time as in BAM, or go on with one.

    Args:
        path: The file; it may hold several studies.
        name: Of the study to go on with; None begins one.
        method: Of its trials.
        about: What trials are of, from `subject`; the same as an earlier study's.

    Raises:
        ConfigError: Optuna is not installed.
        ResultError: The file cannot be written or is none of studies; there is no such study, or
            it is about something else.
    """
    optuna = import_optuna(method)
    if name is None:
        storage = _storage(optuna, path)
        known = optuna.get_all_study_names(storage)
        stem = f'study_{dt.datetime.now().astimezone():%Y%m%d_%H%M%S}'
        others = sum(one.startswith(stem) for one in known)
        fresh = f'{stem}_{others + 1}' if others else stem
        study = optuna.create_study(storage=storage, study_name=fresh)
        for key, text in about.items():
            study.set_user_attr(key, text)
        return study
    # Opening a storage makes its file.
    storage = _storage(optuna, path) if path.is_file() else None
    known = [] if storage is None else optuna.get_all_study_names(storage)
    if name not in known:
        msg = f'There is no study {name!r} in {str(path)!r}; {nearest(name, known, _HINTS)}.'
        raise ResultError(msg)
    study = optuna.load_study(study_name=name, storage=storage)
    for key, text in about.items():
        found = study.user_attrs.get(key, text)
        if found != text:
            msg = (
                f'Expected the study {name!r} to be about the {key} {text}, found {found}: begin a '
                'new one.'
            )
            raise ResultError(msg)
    return study


def import_optuna(method: str) -> Any:
    """Return Optuna, which is an extra.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        optuna, *_ = map(importlib.import_module, LIBRARIES)
    except ImportError as err:
        msg = (
            f'Expected the Python packages optuna and cmaes for the method {method}, found no '
            f"{err.name}; get them with `pip install 'sysid_ros[servo]'`, or choose least-squares."
        )
        raise ConfigError(msg) from err
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def subject(
    servo: Servo,
    logs: Sequence[ServoLog],
    fixed: Mapping[str, float],
    reset_period: float | None = None,
) -> dict[str, str]:
    """Return what trials are about, by name: only equal ones belong to one study."""
    bounds = [(name, *limits[1:]) for name, limits in servo.coefficients.items()]
    known = ', '.join(f'{name}={value:g}' for name, value in sorted(fixed.items()))
    described = []
    for log in logs:
        about = [log.mass, log.arm_mass, log.length, log.dt, dict(log.constants)]
        series = np.stack([log.position, log.goal, log.enabled])
        if log.stamps is not None:
            about += [log.stamps.tolist(), [own.tolist() for own in log.commands or ()]]
        described.append([about, hashlib.sha256(series.tobytes()).hexdigest()])
    return {
        'servo': servo.name,
        'definition': _digest(
            [bounds, dict(servo.type.constants), servo.substeps, *_scheme(servo)]
        ),
        'logs': _digest(described),
        'fixed coefficients': known or 'none',
        'reset period': 'none' if reset_period is None else f'{reset_period:g} s',
    }


def _scheme(servo: Servo) -> list[str]:
    # Studies of processed logs were begun before there was another one.
    return [] if servo.scheme is Scheme.BAM else [servo.scheme.value]


def _digest(numbers: object) -> str:
    return hashlib.sha256(json.dumps(numbers).encode()).hexdigest()[:_DIGITS]


def _errors(job: _TrialJob, _: threading.Event) -> Array:
    """Return the (m,) means over logs of the mean absolute error, rad."""
    logs = stack_logs(job.servo, job.logs)
    errors = mean_absolute_errors(job.servo, logs, job.values, job.reset_period)
    found: Array = errors.mean(axis=1)
    return found


def _keep(optuna: Any, study: Any, done: Sequence[Any]) -> None:
    """Add trials to a file; CMA-ES leaves its state in each, of which the last is enough."""
    try:
        for trial in done:
            state = {
                key: value
                for key, value in trial.system_attrs.items()
                if trial is done[-1] or ':optimizer' not in key
            }
            study.add_trial(
                optuna.trial.create_trial(
                    params=trial.params,
                    distributions=trial.distributions,
                    value=trial.value,
                    system_attrs=state,
                )
            )
    except OSError as err:
        msg = f'Cannot write trials of the study {study.study_name!r}: {err.strerror}.'
        raise ResultError(msg) from err


def _storage(optuna: Any, path: Path) -> Any:
    journal = importlib.import_module('optuna.storages.journal')
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path.read_bytes() if path.is_file() else b''
        if not written or written.endswith(b'\n'):
            return optuna.storages.JournalStorage(journal.JournalFileBackend(str(path)))
        reason = 'its last line is not whole; without that line, the rest can be read'
    except OSError as err:
        msg = f'Cannot write {str(path)!r}: {err.strerror}.'
        raise ResultError(msg) from err
    except (ValueError, KeyError, TypeError) as err:
        reason = ' '.join(str(err).split())
    msg = f'Cannot read studies from {str(path)!r}: {reason}.'
    raise ResultError(msg)


def _sampler(optuna: Any, settings: TrialSettings, size: int, seed: int) -> tuple[Any, int]:
    """Return what samples so many coefficients, and how many trials it asks for at once."""
    samplers = optuna.samplers
    if settings.method == 'random':
        return samplers.RandomSampler(seed=seed), settings.workers * _RANDOM_BATCH
    if settings.method == 'nsgaii':
        sampler = samplers.NSGAIISampler(seed=seed, population_size=_NSGAII_POPULATION)
        return sampler, settings.workers * _NSGAII_POPULATION
    batch = settings.workers * _MORE * (4 + math.floor(3 * math.log(size)))
    return samplers.CmaEsSampler(seed=seed, popsize=batch), batch

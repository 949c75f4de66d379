# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Find the coefficients of a servo by trials: CMA-ES, random search and NSGA-II of Optuna.

What is minimised is what BAM minimises, the mean over logs of the mean absolute position error.
Trials are kept in Optuna's own storage, which its dashboard shows as well. As everywhere in Optuna,
the state of CMA-ES in it is a pickle: go on with studies of your own only.
"""

from __future__ import annotations

import datetime as dt
import importlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from sysid_ros.errors import CancelledError, ConfigError, FitError, ResultError, nearest
from sysid_ros.files import check_file
from sysid_ros.servos.fit import checked
from sysid_ros.servos.logs import ServoLog
from sysid_ros.servos.pendulum import errors_by_log, mean_error
from sysid_ros.simulation.servo import Servo

Method = Literal['cmaes', 'random', 'nsgaii']
#: What samples, by the names of the packages.
LIBRARIES = ('optuna', 'cmaes')
#: Trials by default: with twelve logs of an xl330, CMA-ES is at the noise floor after 2000 where
#: six coefficients are sought, and where fifteen are, at some eight times it after 4500.
TRIALS = 5000
#: How a file of SQLite begins; other files of studies are journals.
_SQLITE = b'SQLite format 3'
#: Attribute of a study that says what it is about.
_SERVO = 'servo'


class BestTrial(NamedTuple):
    """What trials found: all coefficients of the best one and its error, rad.

    ``trials`` are in the study, ``new`` ones of this run, which took so many seconds.
    """

    values: dict[str, float]
    error: float
    trials: int
    new: int
    seconds: float


def import_optuna(method: str) -> Any:
    """Return Optuna, which is an extra, or raise a ConfigError that says how to install it."""
    try:
        optuna, *_ = map(importlib.import_module, LIBRARIES)
    except ImportError as err:
        raise ConfigError(
            f'Expected the Python packages optuna and cmaes for the method {method}, found no '
            f"{err.name}; get them with `pip install 'sysid_ros[servo]'`, or choose least-squares."
        ) from err
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def open_study(path: Path, load: str | None, method: Method, servo: Servo, *, seed: int = 0) -> Any:
    """Begin a study of Optuna, named after the time as in BAM, or go on with one.

    Args:
        path: The journal in which studies begin; it may hold several.
        load: Name of a study in the journal to go on with, or a file of studies, a journal or
            SQLite, whose last one goes on; None begins one.
        method: Of its trials, whose sampler has the seed.
        servo: What it is about.
        seed: A whole number.

    Raises:
        ConfigError: Optuna is not installed.
        ResultError: The file cannot be read or written, there is no such study, or it is about
            another servo.
    """
    optuna = import_optuna(method)
    samplers = optuna.samplers
    sampler = {
        'cmaes': lambda: samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False),
        'random': lambda: samplers.RandomSampler(seed=seed),
        'nsgaii': lambda: samplers.NSGAIISampler(seed=seed),
    }[method]()
    is_file = load is not None and Path(load).is_file()
    path = Path(load) if load is not None and is_file else path
    if load is not None and not path.is_file():  # opening a storage would make its file
        raise ResultError(f'There is no study {load!r}: there is no file {str(path)!r}.')
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        storage = _storage(optuna, path)
        known = optuna.get_all_study_names(storage)
        if load is None:
            name = f'study_{dt.datetime.now().astimezone():%Y%m%d_%H%M%S_%f}'
            study = optuna.create_study(storage=storage, sampler=sampler, study_name=name)
            study.set_user_attr(_SERVO, servo.name)
            return study
        name = known[-1] if is_file and known else load
        if name not in known:
            hint = nearest(name, known)
            raise ResultError(f'There is no study {name!r} in {str(path)!r}; {hint}.')
        study = optuna.load_study(study_name=name, storage=storage, sampler=sampler)
        found = study.user_attrs.get(_SERVO, servo.name)
    except OSError as err:
        raise ResultError(f'Cannot use {str(path)!r}: {err.strerror}.') from err
    except (ValueError, KeyError, TypeError, optuna.exceptions.OptunaError) as err:
        if isinstance(err, ResultError):
            raise
        reason = ' '.join(str(err).split())
        raise ResultError(f'Cannot read studies from {str(path)!r}: {reason}.') from err
    if found != servo.name:
        raise ResultError(
            f'Expected the study {name!r} to be about {servo.name}, found {found}: begin a new one.'
        )
    return study


def _storage(optuna: Any, path: Path) -> Any:
    if path.exists():
        check_file(path)
        if path.read_bytes().startswith(_SQLITE):
            return optuna.storages.RDBStorage(f'sqlite:///{path}')
    journal = importlib.import_module('optuna.storages.journal')
    return optuna.storages.JournalStorage(journal.JournalFileBackend(str(path)))


def _count(study: Any) -> int:
    """Return the number of trials that ended; a program that was killed leaves others."""
    return sum(trial.value is not None for trial in study.get_trials(deepcopy=False))


def sample_servo(  # noqa: PLR0913 (documented API)
    servo: Servo,
    logs: Sequence[ServoLog],
    study: Any,
    *,
    trials: int = TRIALS,
    workers: int = 1,
    fixed: Mapping[str, float] | None = None,
    reset_period: float | None = None,
    seconds: float | None = None,
    cancel: threading.Event | None = None,
    observe: Callable[[BestTrial], None] | None = None,
) -> BestTrial:
    """Return the best of many trials of values.

    Args:
        servo: The kind of servo and its friction law.
        logs: At least one, of one sampling period, or raw ones.
        study: Optuna's; with its sampler, and trials of earlier runs.
        trials: How many there shall be in the study.
        workers: How many trials run at a time, in threads of Optuna.
        fixed: Coefficients that are known, by name.
        reset_period: Every so many seconds predictions go on from the measured state, s.
        seconds: Ends it earlier, with what was found until then.
        cancel: Ends it when set.
        observe: Called after each trial.

    Raises:
        FitError: There is nothing to fit, or periods differ.
        ParameterError: A fixed coefficient is not one of the servo's.
        ResultError: The study cannot be written.
        CancelledError: ``cancel`` was set.
    """
    began = time.monotonic()
    known = checked(servo, fixed or {})
    space = {name: usual for name, usual in servo.coefficients.items() if name not in known}
    if not space:
        raise FitError('Nothing to fit: every coefficient is fixed.')
    before = _count(study)

    def error(trial: Any) -> float:
        values = {name: trial.suggest_float(name, own.low, own.high) for name, own in space.items()}
        return mean_error(errors_by_log(servo, {**known, **values}, logs, reset_period))

    def best() -> BestTrial:
        found = {**known, **study.best_params}
        values = {name: float(found[name]) for name in servo.coefficients}
        done, took = _count(study), time.monotonic() - began
        return BestTrial(values, float(study.best_value), done, done - before, took)

    def told(study: Any, _: Any) -> None:
        if cancel is not None and cancel.is_set():
            study.stop()
        elif observe is not None:
            observe(best())

    try:
        if trials > before:
            study.optimize(
                error, n_trials=trials - before, timeout=seconds, n_jobs=workers, callbacks=[told]
            )
    except OSError as err:
        raise ResultError(
            f'Cannot write trials of the study {study.study_name!r}: {err.strerror}.'
        ) from err
    if cancel is not None and cancel.is_set():
        raise CancelledError('The fit was cancelled.')
    return best()

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From logs of a pendulum to the coefficients of its servo, with report, or of several laws."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any, Self

from sysid_ros.config.schema import Role
from sysid_ros.config.servos import ServoFitConfig
from sysid_ros.errors import ConfigError, ResultError, how_many
from sysid_ros.files import check_writable, sha256
from sysid_ros.fit.observer import Nobody, Observer
from sysid_ros.fit.solver import Iteration
from sysid_ros.report import write_report
from sysid_ros.results.checks import judge
from sysid_ros.results.result import CalibrationResult, FileHash, StartKind
from sysid_ros.results.summary import SignalCurve, provenance_now, summarise
from sysid_ros.servos.fit import POSITION, checked, fit_servo, values_of
from sysid_ros.servos.logs import ServoLog, check_motor, read_logs, split
from sysid_ros.servos.pendulum import errors_by_log, mean_error, predict, servo_for
from sysid_ros.servos.trials import LIBRARIES, TRIALS, BestTrial, open_study, sample_servo
from sysid_ros.simulation.servo import Servo, write_parameters
from sysid_ros.uncertainty.inference import Identification

#: File beside the coefficients in which studies of trials begin.
_STUDIES = 'study.journal'
#: The values of a fit are written this often, s.
_PERIOD = 2.0
_SOLVER = 'mujoco'
#: Loads that differ by this factor tell what depends on them.
_OTHER_LOAD = 1.5
_LOADS = f'logs with at least two masses or lengths that differ by a factor of {_OTHER_LOAD}'
_OFF_LOGS = 'lift_and_drop, where the motor is switched off and back-EMF vanishes'
_SLOW = 'slow motion through rest under load: up_and_down, half_sine'
_FAST = 'fast motion with a light load: sin_time_square'
#: What to record for coefficients whose names begin so; for those of the motor, several gains.
_RECORD = {
    'load_': f'{_LOADS}, moving slowly and driven by the load: up_and_down, lift_and_drop',
    'friction_viscous': f'{_FAST}, and {_OFF_LOGS}',
    'friction_': _SLOW,
    'dtheta_stribeck': f'{_SLOW}, and sin_sin for the speeds above',
    'alpha': f'{_SLOW}, and sin_sin for the speeds above',
    'armature': _FAST,
    'command_delay': _FAST,
    'q_offset': 'swings to both sides: sin_sin',
    '': f'several gains kp, goals that jump (steps), and {_OFF_LOGS}',
}


@dataclass(frozen=True)
class ServoCalibration:
    """A fit of a servo and where it was written; errors are mean absolute ones by log, rad."""

    servo: Servo
    values: Mapping[str, float]
    result: CalibrationResult
    errors: Mapping[str, float]
    parameters_path: Path
    result_path: Path
    report_path: Path


def calibrate_servo(
    config: ServoFitConfig,
    *,
    command: str = '',
    observer: Observer | None = None,
    cancel: threading.Event | None = None,
) -> ServoCalibration:
    """Fit a servo to logs and write coefficients, result and report.

    As in BAM, the file of coefficients holds the values of the fit while it runs, too. ``command``
    is the user's command line, for the provenance.
    """
    observer = observer or Nobody()
    training, held_out = _read(config)
    servo = servo_for(Servo.named(config.actuator, config.model), training)
    output = config.output
    if output.is_dir():
        raise ResultError(
            f'Expected a file for the coefficients, found the folder {str(output)!r}.'
        )
    check_writable(output.parent)
    with _Progress(config, servo, observer, training, held_out) as progress:
        observer.stage(f'fitting {servo.name} to {how_many(training, "log")}')
        if config.method == 'least-squares':
            fit = fit_servo(
                servo,
                training,
                starts=config.starts,
                seed=config.seed,
                fixed=config.fixed,
                reset_period=config.reset_period,
                cancel=cancel,
                observe=progress.iteration,
            )
        else:
            fit = _fit_by_trials(config, servo, training, progress, cancel)
        result = _result_of(config, command, servo, training, held_out, fit)
        values = values_of(servo, fit, config.fixed)
        result_path = output.with_suffix('.result.json')
        report_path = output.with_suffix('.report.html')
        result.save(result_path)
        write_report(result, report_path)
        write_parameters(output, servo, values)
        progress.log(values)
    errors = errors_by_log(servo, values, (*training, *held_out), config.reset_period)
    return ServoCalibration(servo, values, result, errors, output, result_path, report_path)


def _fit_by_trials(
    config: ServoFitConfig,
    servo: Servo,
    training: Sequence[ServoLog],
    progress: _Progress,
    cancel: threading.Event | None,
) -> Identification:
    """Find coefficients by trials and refine them by least squares, which also says how sure.

    Intervals hold at the least squares only, from which the best trial is some way off.
    """
    method, observer = config.method, progress.observer
    assert method != 'least-squares'  # noqa: S101 (asked before)
    path = config.output.parent / _STUDIES
    study = open_study(path, config.load_study, method, servo, seed=config.seed)
    count = config.trials or TRIALS
    observer.stage(
        f'{method} with {count} trials; if interrupted, it goes on with --load-study '
        f'{study.study_name}'
    )
    found = sample_servo(
        servo,
        training,
        study,
        trials=count,
        workers=config.workers,
        fixed=config.fixed,
        reset_period=config.reset_period,
        cancel=cancel,
        observe=progress.sampled,
    )
    observer.stage('least squares from the best trial')
    fit = fit_servo(
        servo,
        training,
        starts=1,
        fixed=config.fixed,
        first=found.values,
        reset_period=config.reset_period,
        cancel=cancel,
        observe=progress.iteration,
    )
    values = values_of(servo, fit, config.fixed)
    after = mean_error(errors_by_log(servo, values, training, config.reset_period))
    return dataclasses.replace(
        fit,
        start=StartKind.SAMPLED,
        start_sentence=(
            f'the best of {found.trials} trials of {method}, with a mean absolute error of '
            f'{1e3 * found.error:.4g} mrad; least squares from there led to {1e3 * after:.4g}'
            ' mrad'
        ),
        rollouts=fit.rollouts + found.new * len(training),
        seconds=fit.seconds + found.seconds,
    )


def _read(config: ServoFitConfig) -> tuple[tuple[ServoLog, ...], tuple[ServoLog, ...]]:
    """Return the logs that are fitted, and those that are held out."""
    logs = read_logs(config.logdir)
    check_motor(logs, config.actuator)
    return (logs, ()) if config.validation_kp is None else split(logs, config.validation_kp)


def _result_of(
    config: ServoFitConfig,
    command: str,
    servo: Servo,
    training: Sequence[ServoLog],
    held_out: Sequence[ServoLog],
    fit: Identification,
) -> CalibrationResult:
    """Return the judged result of a fit."""
    logs = (*training, *held_out)
    roles: list[Role] = ['train' for _ in training]
    roles += ['validate' for _ in held_out]
    files = [
        FileHash(path=str(log.path), role=role, sha256=sha256(log.path))
        for log, role in zip(logs, roles, strict=True)
        if log.path is not None
    ]
    before, after = (
        predict(servo, values, logs, config.reset_period)
        for values in (config.fixed, values_of(servo, fit, config.fixed))
    )
    curves = [
        SignalCurve(
            log.name, role, POSITION, POSITION, log.times, log.position, old, new, diverged=False
        )
        for log, role, old, new in zip(logs, roles, before, after, strict=True)
    ]
    sampled = fit.start == StartKind.SAMPLED
    found = summarise(
        servo.name,
        fit,
        curves,
        {POSITION: 'rad'},
        provenance_now(
            command,
            config.model_dump(mode='json'),
            tuple(files),
            'recorded goals drive the servo of the pendulum',
            {name: importlib.metadata.version(name) for name in LIBRARIES} if sampled else None,
        ),
        backend=f'optuna-{config.method}, {_SOLVER}' if sampled else _SOLVER,
        loss='linear',
        advice=_advice,
    )
    warnings = () if fit.solution.success else (fit.solution.message,)
    warnings = (*warnings, *_gaps(servo, training, held_out))
    return judge(found.with_warnings(warnings), config.gate)


def _advice(coefficient: str) -> str:
    """Say on which motions and loads a coefficient acts most."""
    found = next(what for start, what in _RECORD.items() if coefficient.startswith(start))
    return f'On the bench: {found}.'


def _gaps(
    servo: Servo, training: Sequence[ServoLog], held_out: Sequence[ServoLog]
) -> Iterator[str]:
    """Yield a sentence for each thing that logs lack for the coefficients of a servo."""
    if not held_out:
        yield 'Nothing is held out: --validation-kp says which logs shall be.'
    # Torques of gravity where the pendulum is level, over g: kg·m.
    loads = [(log.mass + log.arm_mass / 2) * log.length for log in training]
    if servo.friction.load and max(loads) < _OTHER_LOAD * min(loads):
        names = ', '.join(name for name in servo.coefficients if name.startswith('load_'))
        yield (
            f'All logs have about one load, from which friction that depends on load ({names}) is '
            f'told by the form of the law alone: record {_LOADS}.'
        )
    if 'kt' in servo.coefficients and all(log.enabled.all() for log in training):
        yield (
            'The motor is never off: viscous friction and back-EMF brake alike, and only the form '
            f'of the law tells kt, R and friction_viscous apart; record {_OFF_LOGS}.'
        )


class _Progress:
    """Writes the values of a fit every few seconds; Weights & Biases is told as well."""

    def __init__(
        self,
        config: ServoFitConfig,
        servo: Servo,
        observer: Observer,
        training: Sequence[ServoLog],
        held_out: Sequence[ServoLog],
    ) -> None:
        self.observer = observer
        self._config, self._servo = config, servo
        self._names = [name for name in servo.coefficients if name not in config.fixed]
        self._written = time.monotonic()
        self._number = 0
        self._logs = {'optim/best_value': training, 'optim/val_best_value': held_out}
        self._run = _begin_run(config, servo) if config.wandb else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._run is not None:
            self._run.finish()

    def iteration(self, iteration: Iteration) -> None:
        self.observer.iteration(iteration)
        self._number += 1
        found = dict(zip(self._names, iteration.x, strict=False))
        self._write({**self._config.fixed, **found})

    def sampled(self, found: BestTrial) -> None:
        self._number = found.trials
        if self._write(found.values):
            self.observer.stage(
                f'trial {found.trials}: best mean absolute error {1e3 * found.error:.4g} mrad'
            )

    def _write(self, values: Mapping[str, float]) -> bool:
        if time.monotonic() - self._written < _PERIOD:
            return False
        self._written = time.monotonic()
        write_parameters(self._config.output, self._servo, values)
        self.log(values)
        return True

    def log(self, values: Mapping[str, float]) -> None:
        """Tell Weights & Biases the best values until now and their errors, rad, as BAM does."""
        if self._run is None:
            return
        shown = {
            'optim/trial_number': self._number,
            **{f'params/{name}': value for name, value in values.items()},
        }
        for name, logs in self._logs.items():
            if logs:
                errors = errors_by_log(self._servo, values, logs, self._config.reset_period)
                shown[name] = mean_error(errors)
        self._run.log(shown)


def _begin_run(config: ServoFitConfig, servo: Servo) -> Any:
    """Begin a run on Weights & Biases, which is an extra."""
    try:
        wandb = importlib.import_module('wandb')
    except ImportError as err:
        raise ConfigError(
            'Expected the Python package wandb for --wandb, found none; get it with '
            "`pip install 'sysid_ros[wandb]'`, or leave the flag out."
        ) from err
    return wandb.init(
        project=f'{servo.type.name}_identification',
        name=f'{config.output}_{config.model}_{config.logdir}',
        config={
            'logdir': str(config.logdir),
            'model': config.model,
            'hostname': socket.gethostname(),
        },
    )


@dataclass(frozen=True)
class LawErrors:
    """How well one friction law predicts, from the first sample of a log as measured.

    Errors are mean absolute ones on the logs that were fitted and that were held out, rad, NaN
    where none were; ``fitted`` is the number of coefficients that were found.
    """

    name: str
    values: Mapping[str, float]
    fitted: int
    training: float
    held_out: float
    seconds: float


@dataclass(frozen=True)
class LawComparison:
    """Several friction laws on the same logs: the servo, the laws in the order given, warnings."""

    actuator: str
    models: tuple[LawErrors, ...]
    warnings: tuple[str, ...]


def compare_laws(
    config: ServoFitConfig,
    models: Sequence[str],
    *,
    output: Path | None = None,
    observer: Observer | None = None,
    cancel: threading.Event | None = None,
) -> LawComparison:
    """Fit several friction laws to the same logs; model and output of the request do not matter.

    Coefficients of each are written into a folder, ``m1.json`` and so on, where one is given.
    """
    observer = observer or Nobody()
    training, held_out = _read(config)
    servos = [
        servo_for(Servo.named(config.actuator, name), training) for name in dict.fromkeys(models)
    ]
    if not servos:
        raise ConfigError('Expected friction models to compare, as m1,m4,m6, found none.')
    largest = max(servos, key=lambda servo: len(servo.coefficients))
    known = {name for servo in servos for name in servo.coefficients}
    checked(largest, {name: value for name, value in config.fixed.items() if name not in known})
    if output is not None:
        check_writable(output)
    found = []
    for servo in servos:
        observer.stage(f'fitting {servo.name} to {how_many(training, "log")}')
        fixed = {name: v for name, v in config.fixed.items() if name in servo.coefficients}
        fit = fit_servo(
            servo,
            training,
            starts=config.starts,
            seed=config.seed,
            fixed=fixed,
            reset_period=config.reset_period,
            cancel=cancel,
        )
        values = values_of(servo, fit, fixed)
        training_error, held_out_error = (
            mean_error(errors_by_log(servo, values, logs, config.reset_period)) if logs else nan
            for logs in (training, held_out)
        )
        name, count = servo.friction.name, len(fit.parameters)
        found.append(LawErrors(name, values, count, training_error, held_out_error, fit.seconds))
        if output is not None:
            write_parameters(output / f'{name}.json', servo, values)
    warnings = tuple(_gaps(largest, training, held_out))
    return LawComparison(servos[0].type.name, tuple(found), warnings)

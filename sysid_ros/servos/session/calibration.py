# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From logs of a pendulum to the coefficients of its servo, with report."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import math
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sysid_ros.errors import ConfigError, ResultError, how_many
from sysid_ros.estimation.solver.least_squares import SolverSettings
from sysid_ros.files import check_writable, sha256
from sysid_ros.identification.observer import Nobody
from sysid_ros.report import write_report
from sysid_ros.results.diagnostics import SignalCurve
from sysid_ros.results.gate import judge
from sysid_ros.results.result import FileHash, StartKind
from sysid_ros.results.summary import provenance_now, summarise
from sysid_ros.servos.bench.coverage import gaps, what_to_record
from sysid_ros.servos.bench.fit import ServoFitSettings, fit_servo, values_of
from sysid_ros.servos.bench.law_fits import settings_for
from sysid_ros.servos.bench.pendulum import errors_by_log, predict, servo_for, stepped_servo
from sysid_ros.servos.bench.residuals import POSITION
from sysid_ros.servos.bench.trials import (
    LIBRARIES,
    TRIALS,
    TrialSettings,
    open_study,
    sample_servo,
    subject,
)
from sysid_ros.servos.formats.logs import check_motor, read_logs, split
from sysid_ros.servos.formats.parameter_file import read_parameters, write_parameters
from sysid_ros.servos.laws.servo import Scheme, Servo

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Self

    from sysid_ros.config import ServoFitConfig
    from sysid_ros.config.calibration import Role
    from sysid_ros.estimation.solver.problem import Iteration
    from sysid_ros.identification.fit import Fit
    from sysid_ros.identification.observer import Observer
    from sysid_ros.results.result import CalibrationResult
    from sysid_ros.servos.bench.trials import BestTrial, Method
    from sysid_ros.servos.formats.logs import ServoLog

#: File beside the coefficients with all trials.
_STUDIES = 'study.journal'
#: Where a fit is, is written this often, s.
_PERIOD = 2.0
_MILLI = 1e3
_UNIT = 'rad'
_SOLVER = SolverSettings().backend


@dataclass(frozen=True)
class ServoCalibration:
    """A fit of a servo and where it was written.

    Attributes:
        servo: The kind of servo and its friction law.
        values: Its coefficients.
        result: Everything that was found, with intervals and verdicts.
        errors: ServoLog name to its mean absolute error, rad.
        parameters_path: The file of coefficients; None where the result was rejected.
        result_path: The result as JSON.
        report_path: The report.
    """

    servo: Servo
    values: Mapping[str, float]
    result: CalibrationResult
    errors: Mapping[str, float]
    parameters_path: Path | None
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

    A rejected result writes no coefficients: a file of an earlier, accepted one stays as it is.

    Args:
        config: The validated request.
        command: How the user asked for it, for the provenance.
        observer: Is told of stages and iterations.
        cancel: Ends the fit when it is set.

    Raises:
        SysidError: In one sentence, what is wrong; nothing was written.
    """
    observer = observer or Nobody()
    servo = Servo.named(config.actuator, config.model)
    training, held_out = read_training(config)
    servo = servo_for(servo, training, config.substeps)
    check_output(config.output)
    kind = 'raw log' if servo.scheme is Scheme.LEAPFROG else 'log'
    observer.stage(f'fitting {servo.name} to {how_many(training, kind)}')
    with _FitProgress(config, servo, observer, training, held_out) as progress:
        first = progress.last() if config.resume else None
        settings = dataclasses.replace(settings_of(config), first=first)
        if config.method == 'least-squares':
            found = fit_servo(
                servo, training, settings=settings, cancel=cancel, observe=progress.iteration
            )
            stepped = stepped_servo(
                servo, (*training, *held_out), values_of(servo, found, config.fixed)
            )
            if stepped is not None:
                observer.stage(f'fitting {stepped.name} in the long steps that it seems to take')
                again = fit_servo(
                    stepped,
                    training,
                    settings=settings_for(stepped, settings),
                    cancel=cancel,
                    observe=observer.iteration,
                )
                if again.noise[POSITION] < found.noise[POSITION]:
                    servo, found = stepped, again
        else:
            found = _fit_by_trials(
                config,
                servo,
                training,
                config.method,
                settings=settings,
                observer=observer,
                progress=progress,
                cancel=cancel,
            )
        done = write_servo(config, command, servo, training, held_out, found)
        progress.end(done.values)
    return done


def _fit_by_trials(
    config: ServoFitConfig,
    servo: Servo,
    training: Sequence[ServoLog],
    method: Method,
    *,
    settings: ServoFitSettings,
    observer: Observer,
    progress: _FitProgress,
    cancel: threading.Event | None = None,
) -> Fit:
    """Find coefficients by trials and refine them by least squares, which also says how sure.

    Intervals hold at the least squares only, from which the best trial is some way off.

    Args:
        config: The validated request.
        servo: The kind of servo and its friction law.
        training: What it is fitted to.
        method: The sampler.
        settings: How it is refined; where from is not asked.
        observer: Is told of stages.
        progress: Is told of what is best so far.
        cancel: Ends it when it is set.

    Raises:
        SysidError: In one sentence, why it is not possible; trials in the study stay there.
    """
    count = config.trials or TRIALS
    about = subject(servo, training, config.fixed, config.reset_period)
    path = config.output.parent / _STUDIES
    study = open_study(path, config.load_study, method, about)
    observer.stage(
        f'{method} with {count} trials; if interrupted, it goes on with --load-study '
        f'{study.study_name}'
    )
    found = sample_servo(
        servo,
        training,
        settings=TrialSettings(
            method=method,
            trials=count,
            workers=config.workers,
            seed=config.seed,
            fixed=config.fixed,
            reset_period=config.reset_period,
            study=study,
        ),
        cancel=cancel,
        observe=progress.sampled,
    )
    observer.stage('least squares from the best trial')
    fit = fit_servo(
        servo,
        training,
        settings=dataclasses.replace(settings, starts=1, first=found.values),
        cancel=cancel,
        observe=progress.iteration,
    )
    values = values_of(servo, fit, config.fixed)
    errors = errors_by_log(servo, values, training, config.reset_period)
    after = sum(errors.values()) / len(errors)
    return dataclasses.replace(
        fit,
        start=StartKind.SAMPLED,
        start_sentence=(
            f'the best of {found.trials} trials of {method}, with a mean absolute error of '
            f'{_MILLI * found.error:.4g} mrad; least squares from there led to {_MILLI * after:.4g}'
            ' mrad'
        ),
        rollouts=fit.rollouts + found.new * len(training),
        seconds=fit.seconds + found.seconds,
    )


def write_servo(
    config: ServoFitConfig,
    command: str,
    servo: Servo,
    training: Sequence[ServoLog],
    held_out: Sequence[ServoLog],
    fit: Fit,
) -> ServoCalibration:
    """Judge a fit, and write result, report and, if it is accepted, coefficients.

    Args:
        config: The validated request.
        command: How the user asked for it, for the provenance.
        servo: The kind of servo and its friction law.
        training: What it was fitted to.
        held_out: What it was not.
        fit: What was found.

    Raises:
        ResultError: The folder cannot be written.
    """
    result = result_of(config, command, servo, training, held_out, fit)
    values = values_of(servo, fit, config.fixed)
    errors = errors_by_log(servo, values, (*training, *held_out), config.reset_period)
    result_path = config.output.with_suffix('.result.json')
    report_path = config.output.with_suffix('.report.html')
    result.save(result_path)
    write_report(result, report_path)
    if result.accepted:
        write_parameters(config.output, servo, values)
    return ServoCalibration(
        servo,
        values,
        result,
        errors,
        config.output if result.accepted else None,
        result_path,
        report_path,
    )


def settings_of(config: ServoFitConfig) -> ServoFitSettings:
    """Return how a request fits."""
    return ServoFitSettings(
        starts=config.starts,
        seed=config.seed,
        fixed=config.fixed,
        reset_period=config.reset_period,
    )


def read_training(config: ServoFitConfig) -> tuple[tuple[ServoLog, ...], tuple[ServoLog, ...]]:
    """Return the logs of a request that are fitted, and those that are held out.

    Raises:
        LogError: They cannot be read, are of another servo, or a side is empty.
    """
    logs = read_logs(config.logdir)
    check_motor(logs, config.actuator)
    if config.validation_kp is None:
        return logs, ()
    return split(logs, config.validation_kp)


def check_output(path: Path) -> None:
    """Check, before any work, that a file can be written.

    Raises:
        ResultError: It cannot.
    """
    if path.is_dir():
        msg = f'Expected a file for the coefficients, found the folder {str(path)!r}.'
        raise ResultError(msg)
    check_writable(path.parent)


def result_of(
    config: ServoFitConfig,
    command: str,
    servo: Servo,
    training: Sequence[ServoLog],
    held_out: Sequence[ServoLog],
    fit: Fit,
) -> CalibrationResult:
    """Return the judged result of a fit."""
    roles: list[tuple[ServoLog, Role]] = [(log, 'train') for log in training]
    roles += [(log, 'validate') for log in held_out]
    files = [
        FileHash(path=str(log.path), role=role, sha256=sha256(log.path))
        for log, role in roles
        if log.path is not None
    ]
    sampled = fit.start == StartKind.SAMPLED
    found = summarise(
        servo.name,
        fit,
        list(_curves(servo, roles, fit, config)),
        {POSITION: _UNIT},
        provenance_now(
            command,
            config.model_dump(mode='json'),
            tuple(files),
            'recorded goals drive the servo of the pendulum',
            {name: importlib.metadata.version(name) for name in LIBRARIES} if sampled else None,
        ),
        backend=f'optuna-{config.method}, {_SOLVER}' if sampled else _SOLVER,
        loss='linear',
        advice=lambda name: f'On the bench: {what_to_record(name)}.',
    )
    warnings = []
    if not fit.solution.success:
        warnings.append(fit.solution.message)
    if math.isnan(found.held_out_before):
        warnings.append('Nothing is held out: --validation-kp says which logs shall be.')
    warnings.extend(gaps(servo, training))
    return judge(found.model_copy(update={'warnings': tuple(warnings)}), config.gate)


def _curves(
    servo: Servo, roles: Sequence[tuple[ServoLog, Role]], fit: Fit, config: ServoFitConfig
) -> Iterator[SignalCurve]:
    logs = [log for log, _ in roles]
    before = predict(servo, config.fixed, logs, config.reset_period)
    after = predict(servo, values_of(servo, fit, config.fixed), logs, config.reset_period)
    for (log, role), old, new in zip(roles, before, after, strict=True):
        yield SignalCurve(
            log.name,
            role,
            POSITION,
            POSITION,
            log.times,
            log.position,
            old,
            new,
            diverged=False,
        )


class _FitProgress:
    """Writes every few seconds where a fit is, to go on from; Weights & Biases is told as well."""

    def __init__(
        self,
        config: ServoFitConfig,
        servo: Servo,
        observer: Observer,
        training: Sequence[ServoLog],
        held_out: Sequence[ServoLog],
    ) -> None:
        """Begin to watch a fit.

        Raises:
            ConfigError: The package wandb is asked for and not installed.
        """
        self._config, self._servo, self._observer = config, servo, observer
        self._path = config.output.with_suffix('.progress.json')
        self._names = [name for name in servo.coefficients if name not in config.fixed]
        self._written = time.monotonic()
        self._number = 0
        self._training, self._held_out = training, held_out
        self._run = _begin_run(config, servo) if config.wandb else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._run is not None:
            self._run.finish()

    def last(self) -> dict[str, float] | None:
        """Return the values that an earlier fit was at; None where there was none."""
        if not self._path.exists():
            return None
        _, values = read_parameters(self._path, self._config.actuator)
        return {name: value for name, value in values.items() if name in self._names}

    def iteration(self, iteration: Iteration) -> None:
        """Write the values of an iteration, if it is time."""
        self._observer.iteration(iteration)
        self._number += 1
        found = dict(zip(self._names, iteration.x, strict=False))
        self._write({**self._config.fixed, **found})

    def sampled(self, found: BestTrial) -> None:
        """Write the best values of trials, and say how good they are, if it is time."""
        self._number = found.trials
        if self._write(found.values):
            self._observer.stage(
                f'trial {found.trials}: best mean absolute error {_MILLI * found.error:.4g} mrad'
            )

    def end(self, values: Mapping[str, float]) -> None:
        """Remove the file: the fit is done, with these values."""
        self._log(values)
        self._path.unlink(missing_ok=True)

    def _write(self, values: Mapping[str, float]) -> bool:
        if time.monotonic() - self._written < _PERIOD:
            return False
        self._written = time.monotonic()
        write_parameters(self._path, self._servo, values)
        self._log(values)
        return True

    def _log(self, values: Mapping[str, float]) -> None:
        """Tell Weights & Biases the best values until now and their errors, rad, as BAM does."""
        if self._run is None:
            return
        shown = {
            'optim/trial_number': self._number,
            'optim/best_value': self._error(values, self._training),
            **{f'params/{name}': value for name, value in values.items()},
        }
        if self._held_out:
            shown['optim/val_best_value'] = self._error(values, self._held_out)
        self._run.log(shown)

    def _error(self, values: Mapping[str, float], logs: Sequence[ServoLog]) -> float:
        errors = errors_by_log(self._servo, values, logs, self._config.reset_period)
        return sum(errors.values()) / len(errors)


def _begin_run(config: ServoFitConfig, servo: Servo) -> Any:
    """Begin a run on Weights & Biases.

    Raises:
        ConfigError: The package wandb, which is an extra, is not installed.
    """
    try:
        wandb = importlib.import_module('wandb')
    except ImportError as err:
        msg = (
            'Expected the Python package wandb for --wandb, found none; get it with '
            "`pip install 'sysid_ros[wandb]'`, or leave the flag out."
        )
        raise ConfigError(msg) from err
    return wandb.init(
        project=f'{servo.type.name}_identification',
        name=f'{config.output}_{config.model}_{config.logdir}',
        config={
            'logdir': str(config.logdir),
            'model': config.model,
            'hostname': socket.gethostname(),
        },
    )

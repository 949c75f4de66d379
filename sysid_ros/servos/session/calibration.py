# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From logs of a pendulum to the coefficients of its servo, with report."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.errors import ResultError
from sysid_ros.files import sha256
from sysid_ros.identification.observer import Nobody
from sysid_ros.inference import IntervalMethod
from sysid_ros.report import write_report
from sysid_ros.results.diagnostics import Curve
from sysid_ros.results.gate import judge
from sysid_ros.results.result import FileHash
from sysid_ros.results.summary import solver_of, summarise, told
from sysid_ros.servos.bench.advice import gaps, what_to_record
from sysid_ros.servos.bench.fit import ServoFitSettings, fit_servo, values_of
from sysid_ros.servos.bench.residuals import POSITION
from sysid_ros.servos.bench.score import errors_by_log, predict
from sysid_ros.servos.formats.logs import check_motor, read_logs, split
from sysid_ros.servos.formats.parameter_file import write_parameters
from sysid_ros.servos.laws.servo import Servo
from sysid_ros.servos.session.progress import ServoProgress
from sysid_ros.servos.session.sampling import SAMPLED, sampled_fit, sampler_versions

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from sysid_ros.config.servo_fit import ServoFitConfig
    from sysid_ros.identification.fit import Fit
    from sysid_ros.identification.observer import Observer
    from sysid_ros.results.result import CalibrationResult, Role
    from sysid_ros.servos.formats.log import Log

_UNIT = 'rad'
_SOLVER = 'scipy-trf'


@dataclass(frozen=True)
class ServoCalibration:
    """A fit of a servo and where it was written.

    Attributes:
        servo: The kind of servo and its friction law.
        values: Its coefficients.
        result: Everything that was found, with intervals and verdicts.
        errors: Log name to its mean absolute error, rad.
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
    servo = Servo.named(config.actuator, config.model, config.substeps)
    training, held_out = read_training(config)
    check_output(config.output)
    observer.stage(f'fitting {servo.name} to {_count(training)}')
    with ServoProgress(config, servo, observer, training, held_out) as progress:
        settings = ServoFitSettings(
            starts=config.starts,
            seed=config.seed,
            fixed=config.fixed,
            first=progress.last() if config.resume else None,
            reset_period=config.reset_period,
            intervals=IntervalMethod(config.intervals),
        )
        if config.method == 'least-squares':
            found = fit_servo(
                servo, training, settings=settings, cancel=cancel, observe=progress.iteration
            )
        else:
            found = sampled_fit(
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


def write_servo(
    config: ServoFitConfig,
    command: str,
    servo: Servo,
    training: Sequence[Log],
    held_out: Sequence[Log],
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
    every = (*training, *held_out)
    errors = errors_by_log(servo, values, every, config.reset_period)
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


def read_training(config: ServoFitConfig) -> tuple[tuple[Log, ...], tuple[Log, ...]]:
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
    folder = path.parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        msg = f'Cannot write {str(path)!r}: {str(folder)!r} is not a folder.'
        raise ResultError(msg)


def result_of(
    config: ServoFitConfig,
    command: str,
    servo: Servo,
    training: Sequence[Log],
    held_out: Sequence[Log],
    fit: Fit,
) -> CalibrationResult:
    """Return the judged result of a fit."""
    roles: list[tuple[Log, Role]] = [(log, 'train') for log in training]
    roles += [(log, 'validate') for log in held_out]
    files = [
        FileHash(path=str(log.path), role=role, sha256=sha256(log.path))
        for log, role in roles
        if log.path is not None
    ]
    provenance = told(
        command,
        config.model_dump(mode='json'),
        tuple(files),
        'recorded goals drive the servo of the pendulum',
    )
    sampled = fit.start == SAMPLED
    result = summarise(
        servo.name,
        fit,
        list(_curves(servo, roles, fit, config)),
        {POSITION: _UNIT},
        solver_of(fit, f'optuna-{config.method}, {_SOLVER}' if sampled else _SOLVER, 'linear'),
        provenance.model_copy(
            update={'versions': {**provenance.versions, **(sampler_versions() if sampled else {})}}
        ),
    )
    parameters = tuple(
        parameter
        if parameter.identified
        else parameter.model_copy(
            update={
                'explanation': f'{parameter.explanation} On the bench: '
                f'{what_to_record(parameter.name)}.'.strip()
            }
        )
        for parameter in result.parameters
    )
    result = result.model_copy(
        update={
            'parameters': parameters,
            'warnings': tuple(_warnings(servo, training, result, fit)),
        }
    )
    return judge(result, config.gate)


def _curves(
    servo: Servo, roles: Sequence[tuple[Log, Role]], fit: Fit, config: ServoFitConfig
) -> Iterator[Curve]:
    logs = [log for log, _ in roles]
    before = predict(servo, config.fixed, logs, config.reset_period)
    after = predict(servo, values_of(servo, fit, config.fixed), logs, config.reset_period)
    for (log, role), old, new in zip(roles, before, after, strict=True):
        yield Curve(
            log.name,
            role,
            POSITION,
            POSITION,
            np.arange(len(log), dtype=np.float64) * log.dt,
            log.position,
            old,
            new,
            diverged=False,
        )


def _warnings(
    servo: Servo, training: Sequence[Log], result: CalibrationResult, fit: Fit
) -> Iterator[str]:
    if not fit.solution.success:
        yield fit.solution.message
    if math.isnan(result.held_out_before):
        yield 'Nothing is held out: --validation-kp says which logs shall be.'
    yield from gaps(servo, training)
    doubtful = [p.name for p in result.parameters if not p.identified]
    if doubtful:
        yield f'Not identified: {", ".join(doubtful)}.'


def _count(logs: Sequence[Log]) -> str:
    return '1 log' if len(logs) == 1 else f'{len(logs)} logs'

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which friction law logs of a servo need: the simplest that predicts other logs as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.errors import ConfigError
from sysid_ros.identification.observer import Nobody
from sysid_ros.inference import IntervalMethod
from sysid_ros.servos.bench.coverage import PLURALS, gaps, group, limits
from sysid_ros.servos.bench.fit import ServoFitSettings, checked, values_of
from sysid_ros.servos.bench.law_fits import (
    FitJob,
    fit_all,
    refit_all,
    settings_for,
    without,
)
from sysid_ros.servos.bench.pendulum import predict
from sysid_ros.servos.bench.processes import FitProcesses
from sysid_ros.servos.formats.parameter_file import write_parameters
from sysid_ros.servos.laws.friction import MODELS
from sysid_ros.servos.laws.servo import Servo
from sysid_ros.servos.session.calibration import check_output, read_training, write_servo
from sysid_ros.servos.session.comparison import Judged, ServoComparison, recommend, scores

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from sysid_ros.config import ServoFitConfig
    from sysid_ros.identification.fit import Fit
    from sysid_ros.identification.observer import Observer
    from sysid_ros.servos.bench.coverage import Grouping
    from sysid_ros.servos.bench.law_fits import FoldFit
    from sysid_ros.servos.formats.logs import ServoLog
    from sysid_ros.servos.session.calibration import ServoCalibration

    Array = NDArray[np.float64]

_FEWEST_MODELS = 2


class FittedServos(NamedTuple):
    """Friction laws, their fits to all logs, and how they compare.

    Attributes:
        comparison: Of the laws.
        servos: The kind of servo with each of them.
        fits: Theirs.
        training: The logs that they were fitted to.
        held_out: Those that were in no fit.
    """

    comparison: ServoComparison
    servos: tuple[Servo, ...]
    fits: tuple[Fit, ...]
    training: tuple[ServoLog, ...]
    held_out: tuple[ServoLog, ...]


def compare_servos(
    config: ServoFitConfig,
    models: Sequence[str] = MODELS,
    *,
    by: str | None = None,
    observer: Observer | None = None,
    cancel: threading.Event | None = None,
    workers: int = 0,
) -> ServoComparison:
    """Fit several friction laws and recommend the simplest that predicts other logs as well.

    Args and errors are those of `fit_servos`.
    """
    return fit_servos(
        config, models, by=by, observer=observer, cancel=cancel, workers=workers
    ).comparison


def fit_servos(
    config: ServoFitConfig,
    models: Sequence[str] = MODELS,
    *,
    by: str | None = None,
    observer: Observer | None = None,
    cancel: threading.Event | None = None,
    workers: int = 0,
) -> FittedServos:
    """Fit several friction laws to all logs, and to those without each group of logs in turn.

    Each is judged on the logs that were left out, and on those with the gain for validation. The
    one with the fewest coefficients is recommended whose mean error is within one standard error
    of the best one's, the standard error being that of the differences between the two on the same
    logs (the one-standard-error rule of Breiman et al. 1984, paired), or within 1 % of it.

    Args:
        config: The validated request; its model and output do not matter.
        models: Names of two laws or more.
        by: ``load``, ``kp`` or ``trajectory``: what logs that are left out together have in
            common. By default load, where there are several.
        observer: Is told of stages.
        cancel: Ends it when it is set.
        workers: Number of processes; 0 is one for each core.

    Raises:
        ConfigError: There are less than two laws, or logs cannot be grouped so.
        LogError: Logs cannot be read, are of another servo, or there is only one group of them.
        ParameterError: There is no such law, or a known coefficient is of none of them.
        SysidError: A fit is not possible.
    """
    observer = observer or Nobody()
    servos = _servos(config, models)
    training, held_out = read_training(config)
    grouping = group(servos[0], training, by)
    settings = settings_of(config)
    jobs = [FitJob(servo, training, settings_for(servo, settings)) for servo in servos]
    with FitProcesses(workers) as pool:
        names = ', '.join(servo.friction.name for servo in servos)
        observer.stage(f'fitting {servos[0].type.name} with {names} to {len(training)} logs')
        fits = fit_all(jobs, pool, observer.stage, cancel)
        count = len(grouping.groups)
        observer.stage(f'fitting each without one of {count} {PLURALS[grouping.by]}')
        folds = [
            without(job, fit, name, logs)
            for job, fit in zip(jobs, fits, strict=True)
            for name, logs in grouping.groups.items()
        ]
        refits = refit_all(folds, pool, observer.stage, cancel)
    judged = [
        _judged(job, fit, refits[count * place : count * (place + 1)], grouping, held_out)
        for place, (job, fit) in enumerate(zip(jobs, fits, strict=True))
    ]
    groups = {name: len(logs) for name, logs in grouping.groups.items()}
    if held_out:
        groups[f'kp {config.validation_kp:g}, in no fit'] = len(held_out)
    models_found, effective = scores(judged, groups)
    recommended, reason = recommend(models_found, grouping.by)
    largest = max(servos, key=lambda servo: len(servo.coefficients))
    comparison = ServoComparison(
        servos[0].type.name,
        grouping.by,
        grouping.why,
        models_found,
        recommended,
        reason,
        effective,
        (*gaps(largest, training), *limits(servos[0], grouping)),
    )
    return FittedServos(comparison, servos, tuple(fits), training, held_out)


def servo_of(config: ServoFitConfig, model: str) -> Servo:
    """Return the servo of a request with a friction law.

    Raises:
        ParameterError: There is no such servo or law.
    """
    return Servo.named(config.actuator, model, config.substeps)


def settings_of(config: ServoFitConfig) -> ServoFitSettings:
    """Return how each law is fitted."""
    return ServoFitSettings(
        starts=config.starts,
        seed=config.seed,
        fixed=config.fixed,
        reset_period=config.reset_period,
        intervals=IntervalMethod(config.intervals),
    )


def _servos(config: ServoFitConfig, models: Sequence[str]) -> tuple[Servo, ...]:
    """Return the kind of servo with each law, once.

    Raises:
        ConfigError: There are less than two laws.
        ParameterError: There is no such law, or a known coefficient is of none of them.
    """
    servos = tuple(servo_of(config, name) for name in dict.fromkeys(models))
    if len(servos) < _FEWEST_MODELS:
        found = ', '.join(models) or 'none'
        msg = f'Expected two friction models or more to compare, as m1,m4,m6, found {found}.'
        raise ConfigError(msg)
    largest = max(servos, key=lambda servo: len(servo.coefficients))
    known = {name for servo in servos for name in servo.coefficients}
    checked(largest, {name: v for name, v in config.fixed.items() if name not in known})
    return servos


def _judged(
    job: FitJob,
    fit: Fit,
    refits: Sequence[FoldFit],
    grouping: Grouping,
    held_out: Sequence[ServoLog],
) -> Judged:
    """Return the errors of a law on its own logs and on those that were not fitted."""
    values = values_of(job.servo, fit, job.settings.fixed)
    parts = [
        _errors(job, refit.values, logs)
        for refit, logs in zip(refits, grouping.groups.values(), strict=True)
    ]
    if held_out:
        parts.append(_errors(job, values, held_out))
    absolute, square = np.concatenate(parts).T
    return Judged(
        name=job.servo.friction.name,
        values=values,
        fit=fit,
        training=float(_errors(job, values, job.logs)[:, 0].mean()),
        absolute=absolute,
        square=square,
        seconds=fit.seconds + sum(refit.seconds for refit in refits),
    )


def _errors(job: FitJob, values: Mapping[str, float], logs: Sequence[ServoLog]) -> Array:
    """Return (L, 2) mean absolute and mean square errors of logs, rad and rad²."""
    predictions = predict(job.servo, values, logs, job.settings.reset_period)
    missed = [p - log.position for p, log in zip(predictions, logs, strict=True)]
    return np.array([(np.mean(np.abs(own)), np.mean(own**2)) for own in missed])


@dataclass(frozen=True)
class ServoChoice:
    """Fits of several friction laws, and which one to use.

    Attributes:
        comparison: Of the laws.
        calibrations: What was found with each, and where it was written.
        parameters_path: The coefficients of the recommended law; None where it was rejected.
        comparison_path: The comparison as JSON.
    """

    comparison: ServoComparison
    calibrations: tuple[ServoCalibration, ...]
    parameters_path: Path | None
    comparison_path: Path


def choose_servo(
    config: ServoFitConfig,
    models: Sequence[str] = MODELS,
    *,
    by: str | None = None,
    command: str = '',
    observer: Observer | None = None,
    cancel: threading.Event | None = None,
    workers: int = 0,
) -> ServoChoice:
    """Fit a servo with several friction laws, and write what was found with each.

    Beside the output, coefficients, result and report of the law m1 are ``OUTPUT_m1.*``, and so
    on. The output itself gets the coefficients of the recommended law, unless it was rejected.

    Args:
        config: The validated request; its model does not matter.
        models: Names of two laws or more.
        by: What logs that are left out together have in common; see `fit_servos`.
        command: How the user asked for it, for the provenance.
        observer: Is told of stages.
        cancel: Ends it when it is set.
        workers: Number of processes; 0 is one for each core.

    Raises:
        ConfigError: The request is about a single fit, or as told by `fit_servos`.
        SysidError: In one sentence, what is wrong; nothing was written.
    """
    if config.resume or config.method != 'least-squares':
        what = 'resume' if config.resume else f'method {config.method}'
        msg = f'Expected one friction model with {what}, found several to choose from.'
        raise ConfigError(msg)
    check_output(config.output)
    fitted = fit_servos(config, models, by=by, observer=observer, cancel=cancel, workers=workers)
    calibrations = []
    for servo, fit in zip(fitted.servos, fitted.fits, strict=True):
        own = config.model_copy(
            update={
                'model': servo.friction.name,
                'output': _beside(config.output, servo.friction.name),
                'fixed': settings_for(servo, settings_of(config)).fixed,
            }
        )
        calibrations.append(write_servo(own, command, servo, fitted.training, fitted.held_out, fit))
    comparison = fitted.comparison
    chosen = next(
        done for done in calibrations if done.servo.friction.name == comparison.recommended
    )
    if chosen.result.accepted:
        write_parameters(config.output, chosen.servo, chosen.values)
    comparison_path = comparison_path_of(config.output)
    comparison.save(comparison_path)
    return ServoChoice(
        comparison,
        tuple(calibrations),
        config.output if chosen.result.accepted else None,
        comparison_path,
    )


def write_recommended(config: ServoFitConfig, comparison: ServoComparison) -> Path:
    """Write the coefficients of the recommended law to the output, and the comparison beside it.

    Args:
        config: The validated request.
        comparison: Of its logs.

    Returns:
        Where the comparison is.

    Raises:
        ResultError: The folder cannot be written.
    """
    chosen = comparison.chosen
    write_parameters(config.output, servo_of(config, chosen.name), chosen.values)
    path = comparison_path_of(config.output)
    comparison.save(path)
    return path


def comparison_path_of(output: Path) -> Path:
    """Return where the comparison of friction laws is, beside the coefficients of one."""
    return output.with_suffix('.comparison.json')


def _beside(path: Path, model: str) -> Path:
    return path.with_name(f'{path.stem}_{model}{path.suffix or ".json"}')

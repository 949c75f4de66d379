# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which friction law logs of a servo need: the simplest that predicts other logs as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.errors import ConfigError
from sysid_ros.files import replace_file
from sysid_ros.identification.observer import Nobody
from sysid_ros.inference.drift import paired
from sysid_ros.json_text import to_json as json_of
from sysid_ros.servos.bench.coverage import PLURALS, gaps, group, limits
from sysid_ros.servos.bench.fit import checked, values_of
from sysid_ros.servos.bench.law_fits import (
    FitJob,
    fit_all,
    refit_all,
    settings_for,
    without,
)
from sysid_ros.servos.bench.pendulum import predict, servo_for
from sysid_ros.servos.bench.processes import FitProcesses
from sysid_ros.servos.bench.residuals import POSITION
from sysid_ros.servos.formats.parameter_file import write_parameters
from sysid_ros.servos.laws.friction import MODELS
from sysid_ros.servos.laws.servo import Servo
from sysid_ros.servos.session.calibration import (
    check_output,
    read_training,
    settings_of,
    write_servo,
)

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from sysid_ros.config import ServoFitConfig
    from sysid_ros.identification.fit import Fit
    from sysid_ros.identification.observer import Observer
    from sysid_ros.servos.bench.coverage import By
    from sysid_ros.servos.bench.law_fits import FoldFit
    from sysid_ros.servos.formats.logs import ServoLog
    from sysid_ros.servos.session.calibration import ServoCalibration

    Array = NDArray[np.float64]

_FEWEST_MODELS = 2
#: Mean squares below this, rad², are rounding: their logarithm would decide everything.
_TINY = 1e-24
#: Errors that differ by less than this part are the same, however surely they differ: laws that
#: contain each other end so near that a hundredth of a percent is many standard errors.
_SAME = 0.01
#: A simpler law that errs so many times as much is named as one that lacks something.
_FAR = 1.5
_MILLI = 1e3
#: Logs that were not fitted, for people.
_OTHERS: dict[By, str] = {'load': 'loads', 'kp': 'gains', 'trajectory': 'motions'}


@dataclass(frozen=True)
class GroupError:
    """Mean absolute error on logs that were not fitted, rad.

    Attributes:
        group: Name of the logs.
        logs: How many they are.
        error: The mean of theirs.
    """

    group: str
    logs: int
    error: float


@dataclass(frozen=True)
class ServoScore:
    """How well one friction law predicts.

    Errors are from the first sample of a log, as measured, in rad.

    Attributes:
        name: Of the law.
        values: Its coefficients, fitted to all logs.
        fitted: How many of them were found.
        training: Mean absolute error on the logs that it was fitted to.
        groups: Errors on logs that were not fitted.
        held_out: Mean absolute error on all of those logs.
        held_out_rms: Root mean square error on them.
        difference: By how much ``held_out`` is larger than that of the best law.
        standard_error: Of the difference, from the differences on each log.
        aic: Akaike's information criterion above that of the law with the least, from the
            effective number of samples.
        bic: The same for Schwarz's.
        adequate: Whether it predicts as well as the best, up to a standard error or one percent.
        seconds: What all its fits took.
    """

    name: str
    values: Mapping[str, float]
    fitted: int
    training: float
    groups: tuple[GroupError, ...]
    held_out: float
    held_out_rms: float
    difference: float
    standard_error: float
    aic: float
    bic: float
    adequate: bool
    seconds: float


@dataclass(frozen=True)
class ServoComparison:
    """Several friction laws on the same logs.

    Attributes:
        actuator: The kind of servo.
        by: What logs that were left out together have in common.
        why: Why they were grouped by that, in a clause.
        models: In the order given.
        recommended: Name of the simplest adequate one.
        reason: Why, in a clause.
        effective: Number of independent samples that say as much as all that were fitted.
        warnings: What limits the comparison, a sentence each.
    """

    actuator: str
    by: By
    why: str
    models: tuple[ServoScore, ...]
    recommended: str
    reason: str
    effective: float
    warnings: tuple[str, ...]

    @property
    def chosen(self) -> ServoScore:
        """The recommended law."""
        return next(model for model in self.models if model.name == self.recommended)

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json_of(self, indent=2)


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

    Each is fitted to all logs, and to those without each group of logs in turn. It is judged on the
    logs that were left out, and on those with the gain for validation. The one with the fewest
    coefficients is recommended whose mean error is within one standard error of the best one's, the
    standard error being that of the differences between the two on the same logs (the
    one-standard-error rule of Breiman et al. 1984, paired), or within 1 % of it.

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
    servos, logs = _servos(config, models), read_training(config)
    return _fit_and_compare(config, servos, logs, by, observer or Nobody(), cancel, workers)[0]


def _fit_and_compare(
    config: ServoFitConfig,
    servos: Sequence[Servo],
    logs: tuple[tuple[ServoLog, ...], tuple[ServoLog, ...]],
    by: str | None,
    observer: Observer,
    cancel: threading.Event | None,
    workers: int,
) -> tuple[ServoComparison, list[Fit]]:
    """Return how laws compare on logs (training, held out), and their fits to all training logs."""
    training, held_out = logs
    servos = [servo_for(servo, training, config.substeps) for servo in servos]
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
            without(job, fit, name, own)
            for job, fit in zip(jobs, fits, strict=True)
            for name, own in grouping.groups.items()
        ]
        refits = refit_all(folds, pool, observer.stage, cancel)
    by_law = [refits[count * place : count * (place + 1)] for place in range(len(jobs))]
    groups = dict(grouping.groups)
    if held_out:
        groups[f'kp {config.validation_kp:g}, in no fit'] = held_out
    models = _scores(jobs, fits, by_law, groups)
    recommended, reason = recommend(models, grouping.by)
    largest = max(servos, key=lambda servo: len(servo.coefficients))
    comparison = ServoComparison(
        servos[0].type.name,
        grouping.by,
        grouping.why,
        models,
        recommended,
        reason,
        _least(fits).inference.effective,
        (*gaps(largest, training), *limits(servos[0], grouping)),
    )
    return comparison, fits


def _servos(config: ServoFitConfig, models: Sequence[str]) -> tuple[Servo, ...]:
    """Return the kind of servo with each law, once.

    Raises:
        ConfigError: There are less than two laws.
        ParameterError: There is no such law, or a known coefficient is of none of them.
    """
    servos = tuple(Servo.named(config.actuator, name) for name in dict.fromkeys(models))
    if len(servos) < _FEWEST_MODELS:
        found = ', '.join(models) or 'none'
        msg = f'Expected two friction models or more to compare, as m1,m4,m6, found {found}.'
        raise ConfigError(msg)
    largest = max(servos, key=lambda servo: len(servo.coefficients))
    known = {name for servo in servos for name in servo.coefficients}
    checked(largest, {name: v for name, v in config.fixed.items() if name not in known})
    return servos


def _scores(
    jobs: Sequence[FitJob],
    fits: Sequence[Fit],
    refits: Sequence[Sequence[FoldFit]],
    groups: Mapping[str, tuple[ServoLog, ...]],
) -> tuple[ServoScore, ...]:
    """Return how well each law predicts.

    Args:
        jobs: The laws.
        fits: Each to all logs.
        refits: Of each law, the fits without each of the first groups.
        groups: Logs that were not fitted by name: each group that was left out, then, where there
            are any, those that are in no fit.
    """
    fitted, missed = [], []
    for job, fit, own in zip(jobs, fits, refits, strict=True):
        values = values_of(job.servo, fit, job.settings.fixed)
        by_group = [refit.values for refit in own]
        by_group += [values] * (len(groups) - len(own))
        parts = [
            _errors(job, used, logs) for used, logs in zip(by_group, groups.values(), strict=True)
        ]
        fitted.append(values)
        missed.append(np.concatenate(parts).T)
    errors = np.array([absolute for absolute, _ in missed])
    held_out = errors.mean(axis=1)
    difference, standard_error = paired(errors, int(np.argmin(held_out)))
    allowed = np.maximum(standard_error, _SAME * held_out.min())
    effective = _least(fits).inference.effective
    sizes = np.array([len(fit.parameters) for fit in fits])
    deviance = effective * np.log([_mean_square(fit) for fit in fits])
    aic = deviance + 2 * sizes
    bic = deviance + np.log(max(effective, 2.0)) * sizes
    ends = np.cumsum([len(logs) for logs in groups.values()])[:-1]
    return tuple(
        ServoScore(
            name=job.servo.friction.name,
            values=fitted[place],
            fitted=len(fit.parameters),
            training=float(_errors(job, fitted[place], job.logs)[:, 0].mean()),
            groups=tuple(
                GroupError(name, len(own), float(own.mean()))
                for name, own in zip(groups, np.split(missed[place][0], ends), strict=True)
            ),
            held_out=float(held_out[place]),
            held_out_rms=float(np.sqrt(missed[place][1].mean())),
            difference=float(difference[place]),
            standard_error=float(standard_error[place]),
            aic=float(aic[place] - aic.min()),
            bic=float(bic[place] - bic.min()),
            adequate=bool(difference[place] <= allowed[place]),
            seconds=fit.seconds + sum(refit.seconds for refit in refits[place]),
        )
        for place, (job, fit) in enumerate(zip(jobs, fits, strict=True))
    )


def _mean_square(fit: Fit) -> float:
    return max(fit.noise[POSITION] ** 2, _TINY)


def _least(fits: Sequence[Fit]) -> Fit:
    """Return the fit that leaves the least: its residuals are most nearly noise.

    It tells how many of the samples are independent.
    """
    return min(fits, key=_mean_square)


def _errors(job: FitJob, values: Mapping[str, float], logs: Sequence[ServoLog]) -> Array:
    """Return (L, 2) mean absolute and mean square errors of logs, rad and rad²."""
    predictions = predict(job.servo, values, logs, job.settings.reset_period)
    missed = [p - log.position for p, log in zip(predictions, logs, strict=True)]
    return np.array([(np.mean(np.abs(own)), np.mean(own**2)) for own in missed])


def recommend(models: Sequence[ServoScore], by: By) -> tuple[str, str]:
    """Return the simplest law that is adequate, and why, in a clause.

    Args:
        models: All of them.
        by: What logs that were left out together have in common.
    """
    chosen = min(
        (model for model in models if model.adequate),
        key=lambda model: (model.fitted, model.held_out),
    )
    best = min(models, key=lambda model: model.held_out)
    simpler = [model for model in models if model.fitted < chosen.fitted]
    count = sum(part.logs for part in chosen.groups)
    on = f'{count} logs of other {_OTHERS[by]}'
    if chosen is best and not simpler:
        return chosen.name, f'it has the least held-out error on {on}, and none is simpler'
    nearest_simpler: ServoScore | None = None
    if chosen is best:
        nearest_simpler = min(simpler, key=lambda model: model.difference)
        reason = (
            'it has the least held-out error, and no simpler law is within one standard error or '
            f'1 % of it: {nearest_simpler.name} errs {_times(nearest_simpler, chosen)} '
            f'({_more(nearest_simpler)}) on {on}'
        )
    else:
        reason = (
            'it is the simplest whose held-out error is within one standard error or 1 % of that '
            f'of {best.name}: {_MILLI * chosen.held_out:.4g} against {_MILLI * best.held_out:.4g} '
            f'mrad ({_more(chosen)}) on {on}'
        )
    far = [model for model in simpler if model.held_out > _FAR * chosen.held_out]
    lacking = min(far, key=lambda model: model.held_out) if far else None
    if lacking is not None and lacking is not nearest_simpler:
        reason = f'{reason}; {lacking.name} errs {_times(lacking, chosen)}'
    return chosen.name, reason


def _times(model: ServoScore, other: ServoScore) -> str:
    return f'{model.held_out / other.held_out:.3g} times as much'


def _more(model: ServoScore) -> str:
    difference, error = _MILLI * model.difference, _MILLI * model.standard_error
    return f'{difference:.2g} ± {error:.2g} mrad more'


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
        by: What logs that are left out together have in common; see `compare_servos`.
        command: How the user asked for it, for the provenance.
        observer: Is told of stages.
        cancel: Ends it when it is set.
        workers: Number of processes; 0 is one for each core.

    Raises:
        ConfigError: The request is about a single fit, or as told by `compare_servos`.
        SysidError: In one sentence, what is wrong; nothing was written.
    """
    if config.resume or config.method != 'least-squares':
        what = 'resume' if config.resume else f'method {config.method}'
        msg = f'Expected one friction model with {what}, found several to choose from.'
        raise ConfigError(msg)
    check_output(config.output)
    servos, logs = _servos(config, models), read_training(config)
    comparison, fits = _fit_and_compare(
        config, servos, logs, by, observer or Nobody(), cancel, workers
    )
    calibrations = []
    output = config.output
    for servo, fit in zip(servos, fits, strict=True):
        name = servo.friction.name
        own = config.model_copy(
            update={
                'model': name,
                'output': output.with_name(f'{output.stem}_{name}{output.suffix or ".json"}'),
                'fixed': settings_for(servo, settings_of(config)).fixed,
            }
        )
        calibrations.append(write_servo(own, command, servo, *logs, fit))
    chosen = next(
        done for done in calibrations if done.servo.friction.name == comparison.recommended
    )
    if chosen.result.accepted:
        write_parameters(config.output, chosen.servo, chosen.values)
    comparison_path = _save_beside(output, comparison)
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
    training, _ = read_training(config)
    servo = servo_for(Servo.named(config.actuator, chosen.name), training, config.substeps)
    write_parameters(config.output, servo, chosen.values)
    return _save_beside(config.output, comparison)


def _save_beside(output: Path, comparison: ServoComparison) -> Path:
    """Write a comparison beside the coefficients of the recommended law; return where."""
    path = output.with_suffix('.comparison.json')
    replace_file(path, f'{comparison.to_json()}\n'.encode())
    return path

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fit a servo by trials, then by least squares from the best of them."""

from __future__ import annotations

import dataclasses
import importlib.metadata
from typing import TYPE_CHECKING

from sysid_ros.servos.bench.fit import fit_servo, values_of
from sysid_ros.servos.bench.samplers import TRIALS, SamplerSettings, sample_servo, subject
from sysid_ros.servos.bench.score import errors_by_log
from sysid_ros.servos.bench.study import loaded_study, new_study

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from sysid_ros.config.servo_fit import ServoFitConfig
    from sysid_ros.identification.fit import Fit
    from sysid_ros.identification.observer import Observer
    from sysid_ros.servos.bench.fit import ServoFitSettings
    from sysid_ros.servos.bench.study import Method
    from sysid_ros.servos.formats.log import Log
    from sysid_ros.servos.laws.servo import Servo
    from sysid_ros.servos.session.progress import ServoProgress

#: File beside the coefficients with all trials.
STUDIES = 'study.journal'
#: Word of a result for where its fit started.
SAMPLED = 'sampled'
_LIBRARIES = ('optuna', 'cmaes')
_MILLI = 1e3


def sampled_fit(
    config: ServoFitConfig,
    servo: Servo,
    training: Sequence[Log],
    method: Method,
    *,
    settings: ServoFitSettings,
    observer: Observer,
    progress: ServoProgress,
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
    path = config.output.parent / STUDIES
    if config.load_study is None:
        study = new_study(path, method, about)
    else:
        study = loaded_study(path, config.load_study, method, about)
    observer.stage(
        f'{method} with {count} trials; if interrupted, it goes on with --load-study {study.name}'
    )
    found = sample_servo(
        servo,
        training,
        settings=SamplerSettings(
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
        start=SAMPLED,
        start_sentence=(
            f'the best of {found.trials} trials of {method}, with a mean absolute error of '
            f'{_MILLI * found.error:.4g} mrad; least squares from there led to {_MILLI * after:.4g}'
            ' mrad'
        ),
        rollouts=fit.rollouts + found.new * len(training),
        seconds=fit.seconds + found.seconds,
    )


def sampler_versions() -> dict[str, str]:
    """Return the versions of what samples, by package."""
    return {name: importlib.metadata.version(name) for name in _LIBRARIES}

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From logs of a pendulum to the coefficients of its servo with the friction law that they need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sysid_ros.errors import ConfigError
from sysid_ros.servos.bench.several import settings_for
from sysid_ros.servos.formats.parameter_file import write_parameters
from sysid_ros.servos.laws.friction import MODELS
from sysid_ros.servos.session.calibration import check_output, write_servo
from sysid_ros.servos.session.models import fit_servos, servo_of, settings_of

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence
    from pathlib import Path

    from sysid_ros.config.servo_fit import ServoFitConfig
    from sysid_ros.identification.observer import Observer
    from sysid_ros.servos.session.calibration import ServoCalibration
    from sysid_ros.servos.session.comparison import ServoComparison


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

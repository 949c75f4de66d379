# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The fit of a servo on Weights & Biases, under the names that BAM has for it."""

from __future__ import annotations

import importlib
import socket
from typing import TYPE_CHECKING, Any

from sysid_ros.errors import ConfigError
from sysid_ros.servos.bench.score import errors_by_log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sysid_ros.config.servo_fit import ServoFitConfig
    from sysid_ros.servos.formats.log import Log
    from sysid_ros.servos.laws.servo import Servo


class WandbRun:
    """One run, which is told the best values from time to time."""

    def __init__(
        self,
        config: ServoFitConfig,
        servo: Servo,
        training: Sequence[Log],
        held_out: Sequence[Log],
    ) -> None:
        """Begin a run.

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
        self._servo, self._training, self._held_out = servo, training, held_out
        self._reset_period = config.reset_period
        self._run: Any = wandb.init(
            project=f'{servo.type.name}_identification',
            name=f'{config.output}_{config.model}_{config.logdir}',
            config={
                'logdir': str(config.logdir),
                'model': config.model,
                'hostname': socket.gethostname(),
            },
        )

    def log(self, number: int, values: Mapping[str, float]) -> None:
        """Log the best values after so many trials or iterations, and their errors, rad."""
        shown = {
            'optim/trial_number': number,
            'optim/best_value': self._error(values, self._training),
            **{f'params/{name}': value for name, value in values.items()},
        }
        if self._held_out:
            shown['optim/val_best_value'] = self._error(values, self._held_out)
        self._run.log(shown)

    def end(self) -> None:
        """Say that no more comes."""
        self._run.finish()

    def _error(self, values: Mapping[str, float], logs: Sequence[Log]) -> float:
        errors = errors_by_log(self._servo, values, logs, self._reset_period)
        return sum(errors.values()) / len(errors)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where the fit of a servo is: for those who wait, to go on from, and on Weights & Biases."""

from __future__ import annotations

import importlib
import socket
import time
from typing import TYPE_CHECKING, Any

from sysid_ros.errors import ConfigError
from sysid_ros.servos.bench.pendulum import errors_by_log
from sysid_ros.servos.formats.parameter_file import read_parameters, write_parameters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from sysid_ros.config import ServoFitConfig
    from sysid_ros.estimation.solver.problem import Iteration
    from sysid_ros.identification.observer import Observer
    from sysid_ros.servos.bench.trials import BestTrial
    from sysid_ros.servos.formats.logs import ServoLog
    from sysid_ros.servos.laws.servo import Servo

#: Where a fit is, is written this often, s.
_PERIOD = 2.0
_MILLI = 1e3


class WandbRun:
    """One run, which is told the best values from time to time."""

    def __init__(
        self,
        config: ServoFitConfig,
        servo: Servo,
        training: Sequence[ServoLog],
        held_out: Sequence[ServoLog],
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

    def _error(self, values: Mapping[str, float], logs: Sequence[ServoLog]) -> float:
        errors = errors_by_log(self._servo, values, logs, self._reset_period)
        return sum(errors.values()) / len(errors)


class ServoProgress:
    """Writes where a fit is every few seconds; as a context, it ends what shows that."""

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
        self._run = WandbRun(config, servo, training, held_out) if config.wandb else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._run is not None:
            self._run.end()

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
        if self._run is not None:
            self._run.log(self._number, values)
        self._path.unlink(missing_ok=True)

    def _write(self, values: Mapping[str, float]) -> bool:
        if time.monotonic() - self._written < _PERIOD:
            return False
        self._written = time.monotonic()
        write_parameters(self._path, self._servo, values)
        if self._run is not None:
            self._run.log(self._number, values)
        return True

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where the fit of a servo is, for those who wait for it and to go on from there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sysid_ros.servos.formats.parameter_file import read_parameters, write_parameters
from sysid_ros.servos.session.wandb import WandbRun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from sysid_ros.config.servo_fit import ServoFitConfig
    from sysid_ros.estimation.solver.problem import Iteration
    from sysid_ros.identification.observer import Observer
    from sysid_ros.servos.bench.samplers import Sampled
    from sysid_ros.servos.formats.log import Log
    from sysid_ros.servos.laws.servo import Servo

#: Where a fit is, is written this often, s.
_PERIOD = 2.0
_MILLI = 1e3


class ServoProgress:
    """Writes where a fit is every few seconds; as a context, it ends what shows that."""

    def __init__(
        self,
        config: ServoFitConfig,
        servo: Servo,
        observer: Observer,
        training: Sequence[Log],
        held_out: Sequence[Log],
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

    def sampled(self, found: Sampled) -> None:
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

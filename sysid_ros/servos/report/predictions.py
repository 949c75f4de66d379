# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What parameter files predict for logs of servos."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.errors import ParameterError
from sysid_ros.servos.bench.pendulum import simulate, stack_logs
from sysid_ros.servos.formats.logs import check_motor
from sysid_ros.servos.formats.parameter_file import read_parameters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from sysid_ros.servos.formats.logs import ServoLog
    from sysid_ros.servos.laws.servo import Servo

    Array = NDArray[np.float64]


class ParameterFile(NamedTuple):
    """A parameter file.

    Attributes:
        name: Its stem, or its path where stems are not unique.
        servo: The laws.
        values: Of ``servo.coefficients``.
    """

    name: str
    servo: Servo
    values: Mapping[str, float]


class Predictions(NamedTuple):
    """What C parameter files say about L logs.

    Attributes:
        names: Of the parameter files.
        logs: Names of the logs.
        positions: C times L arrays (n,), rad.
        errors: (C, L) mean absolute errors, rad.
    """

    names: tuple[str, ...]
    logs: tuple[str, ...]
    positions: tuple[tuple[Array, ...], ...]
    errors: Array


def read_candidates(
    paths: Sequence[Path], actuator: str | None = None
) -> tuple[ParameterFile, ...]:
    """Read parameter files.

    Args:
        paths: Files, or folders of them.
        actuator: A YAML file that defines the servo, where the catalogue has none of its name.

    Raises:
        ParameterError: A folder holds no parameter files, or a file cannot be used.
    """
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob('*.json')) if path.is_dir() else [path]
        if not found:
            msg = f'Expected parameter files *.json in {str(path)!r}, found none.'
            raise ParameterError(msg)
        files += found
    files = list(dict.fromkeys(files))
    unique = len({path.stem for path in files}) == len(files)
    return tuple(
        ParameterFile(path.stem if unique else str(path), *read_parameters(path, actuator))
        for path in files
    )


def predict(
    candidates: Sequence[ParameterFile], logs: Sequence[ServoLog], reset_period: float | None = None
) -> Predictions:
    """Simulate logs with parameter files.

    Args:
        candidates: At least one.
        logs: At least one; their sampling periods may differ.
        reset_period: Every so many seconds the state is set to the measured one.

    Raises:
        LogError: A log is of another servo.
    """
    positions = tuple(_predicted(item, logs, reset_period) for item in candidates)
    errors = [
        [float(np.mean(np.abs(q - log.position))) for q, log in zip(row, logs, strict=True)]
        for row in positions
    ]
    return Predictions(
        tuple(item.name for item in candidates),
        tuple(log.name for log in logs),
        positions,
        np.array(errors),
    )


def _predicted(
    candidate: ParameterFile, logs: Sequence[ServoLog], reset_period: float | None
) -> tuple[Array, ...]:
    _, servo, values = candidate
    check_motor(logs, servo.type.name)
    numbers = np.array([[values[name] for name in servo.coefficients]])
    found: dict[int, Array] = {}
    for dt in dict.fromkeys(log.dt for log in logs):
        places = [place for place, log in enumerate(logs) if log.dt == dt]
        bench = stack_logs(servo, [logs[place] for place in places])
        motion = simulate(servo, bench, numbers, reset_period=reset_period).position[:, 0]
        for column, place in enumerate(places):
            found[place] = motion[: len(logs[place]), column]
    return tuple(found[place] for place in range(len(logs)))

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Logs of servos beside what parameter files predict, as numbers and as pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import numpy as np

from sysid_ros.errors import ParameterError
from sysid_ros.files import replace_file
from sysid_ros.servos.bench.pendulum import bench as make_bench
from sysid_ros.servos.bench.simulator import simulate
from sysid_ros.servos.formats.logs import check_motor
from sysid_ros.servos.formats.parameter_file import read_parameters
from sysid_ros.servos.laws.drive import drive_diagram, friction_under_load
from sysid_ros.servos.report.figures import LogPicture, Prediction, draw_errors, draw_log
from sysid_ros.servos.report.friction_figures import (
    DriveCurves,
    FrictionCurves,
    draw_drive,
    draw_friction,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from sysid_ros.servos.formats.log import Log
    from sysid_ros.servos.laws.servo import Servo

    Array = NDArray[np.float64]

#: Points of a curve.
_POINTS = 200
#: Friction near rest is gone at this multiple of its typical speed.
_FAR_FROM_REST = 10.0


class Candidate(NamedTuple):
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


def read_candidates(paths: Sequence[Path], actuator: str | None = None) -> tuple[Candidate, ...]:
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
        Candidate(path.stem if unique else str(path), *read_parameters(path, actuator))
        for path in files
    )


def predict(
    candidates: Sequence[Candidate], logs: Sequence[Log], reset_period: float | None = None
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
    candidate: Candidate, logs: Sequence[Log], reset_period: float | None
) -> tuple[Array, ...]:
    _, servo, values = candidate
    check_motor(logs, servo.type.name)
    numbers = np.array([[values[name] for name in servo.coefficients]])
    found: dict[int, Array] = {}
    for dt in dict.fromkeys(log.dt for log in logs):
        places = [place for place, log in enumerate(logs) if log.dt == dt]
        bench = make_bench(servo, [logs[place] for place in places])
        motion = simulate(servo, bench, numbers, reset_period=reset_period).position[:, 0]
        for column, place in enumerate(places):
            found[place] = motion[: len(logs[place]), column]
    return tuple(found[place] for place in range(len(logs)))


def write_pictures(
    folder: Path,
    logs: Sequence[Log],
    candidates: Sequence[Candidate] = (),
    predictions: Predictions | None = None,
    observe: Callable[[Path], None] = lambda _: None,
) -> tuple[Path, ...]:
    """Write a picture per log, and of the candidates their friction, loads and errors.

    Args:
        folder: Where they go; made if it is not there.
        logs: At least one.
        candidates: What to draw friction of.
        predictions: Of the same candidates for the same logs, where they are wanted.
        observe: Called with each file written.

    Returns:
        The files: ``LOG.png`` each, ``friction.png``, ``drive_backdrive.png`` and ``mae.png``.

    Raises:
        ResultError: The folder cannot be written.
    """
    written: list[Path] = []

    def write(name: str, content: bytes) -> None:
        path = folder / name
        replace_file(path, content)
        written.append(path)
        observe(path)

    for place, log in enumerate(logs):
        # Names may hold what a file's name must not.
        name = f'{quote(log.name, safe=" ")}.png'
        write(
            f'log_{name}' if name in _TAKEN else name, draw_log(_picture(log, place, predictions))
        )
    if candidates:
        speed, load = _fastest(logs), _heaviest(candidates[0].servo, logs)
        write('friction.png', draw_friction([_friction(item, speed, load) for item in candidates]))
        write('drive_backdrive.png', draw_drive([_drive(item, load) for item in candidates]))
    if predictions is not None:
        write('mae.png', draw_errors(predictions.logs, predictions.names, predictions.errors))
    return tuple(written)


_TAKEN = frozenset({'friction.png', 'drive_backdrive.png', 'mae.png'})


def _picture(log: Log, place: int, predictions: Predictions | None) -> LogPicture:
    facts = [log.name, *(text for text in (log.motor, log.trajectory) if text)]
    facts += [f'{log.mass:g} kg at {log.length:g} m']
    facts += [f'{name} {value:g}' for name, value in log.constants.items() if name == 'kp']
    shown = []
    if predictions is not None:
        shown = [
            Prediction(name, row[place], float(error))
            for name, row, error in zip(
                predictions.names,
                predictions.positions,
                predictions.errors[:, place],
                strict=True,
            )
        ]
    return LogPicture(
        ' · '.join(facts),
        np.arange(len(log), dtype=np.float64) * log.dt,
        log.position,
        log.goal,
        log.enabled,
        shown,
    )


def _friction(candidate: Candidate, speed: float, load: float) -> FrictionCurves:
    name, servo, values = candidate
    speeds, loads = np.linspace(0.0, speed, _POINTS), np.linspace(0.0, load, _POINTS)

    def curve(carried: Array, velocity: Array) -> Array:
        return friction_under_load(servo.friction, values, carried, velocity)

    return FrictionCurves(
        name,
        speeds,
        curve(np.array([[0.0], [load]]), speeds),
        loads,
        curve(loads, np.array([[0.0], [speed]])),
    )


def _drive(candidate: Candidate, load: float) -> DriveCurves:
    name, servo, values = candidate
    velocities = [0.0]
    if servo.friction.stribeck:
        velocities.append(_FAR_FROM_REST * values['dtheta_stribeck'])
    found = drive_diagram(servo.friction, values, np.linspace(0.0, load, _POINTS), velocities)
    return DriveCurves(name, found.loads, found.drive, found.backdrive)


def _fastest(logs: Sequence[Log]) -> float:
    """Return the largest speed of the logs, rad/s; 1 where nothing moves."""
    speeds = [
        np.abs(log.position[1:] - log.position[:-1]).max(initial=0.0) / log.dt for log in logs
    ]
    measured = [np.abs(log.speed).max(initial=0.0) for log in logs if log.speed is not None]
    return float(max(measured or speeds)) or 1.0


def _heaviest(servo: Servo, logs: Sequence[Log]) -> float:
    """Return the largest torque of gravity in the logs, N·m; 1 where there is none."""
    return float(max(make_bench(servo, [log]).weight[0] for log in logs)) or 1.0

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Logs of servos on pendulums in BAM's format, raw and processed: read, checked, written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from sysid_ros.config.schema import explain
from sysid_ros.errors import LogError, listed, nearest
from sysid_ros.files import read_object, replace_file
from sysid_ros.simulation.servo import ACTUATORS, CONSTANT_UNITS

#: Names in the catalogue that are laws for one and the same servo.
_SAME_SERVO = (frozenset({'xl330', 'xl330i'}),)
#: Time between samples that BAM's tools and recordings have, s.
PERIOD = 0.005
#: Readings of a raw log are not farther apart on average, s: such stamps have another unit.
_FARTHEST = 0.5

Array = NDArray[np.float64]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]


class _Strict(BaseModel):
    """Numbers of a file are finite and no texts; what a log has no place for is left out."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Entry(_Strict):
    """What was read together; other columns may have been recorded."""

    position: float
    goal_position: float
    torque_enable: bool | float
    timestamp: float | None = None
    speed: float | None = None


class _Commands(_Strict):
    """Commands of a raw log with stamps of their own."""

    timestamp: list[float] = Field(min_length=1)
    goal_position: list[float]
    torque_enable: list[bool | float]


class _File(_Strict):
    """What a log says; recorders of Dynamixels write arm-mass."""

    mass: Positive
    arm_mass: NotNegative = Field(
        default=0.0, validation_alias=AliasChoices('arm_mass', 'arm-mass')
    )
    length: Positive
    kp: NotNegative
    vin: Positive | None = None
    damping: NotNegative | None = None
    error_gain: float | None = None
    max_pwm: float | None = None
    max_amps: float | None = None
    max_volts: float | None = None
    motor: str = ''
    trajectory: str = ''
    dt: Positive | None = None
    commands: _Commands | None = None
    entries: list[_Entry] = Field(min_length=1)

    def column(self, name: str) -> Array | None:
        """Return (n,) numbers, one of each entry; None where an entry lacks it."""
        values = [getattr(entry, name) for entry in self.entries]
        return None if None in values else np.array(values, dtype=np.float64)


class Commands(NamedTuple):
    """What a servo was told, each command held until the next.

    Attributes:
        times: (c,) s since the first reading, increasing.
        goal: (c,) rad.
        enabled: (c,) 1 where the motor is powered, else 0.
    """

    times: Array
    goal: Array
    enabled: Array


@dataclass(frozen=True)
class ServoLog:
    """What a servo was told and where it was.

    A processed log is evenly sampled. A raw one has the times at which the encoder was read, and
    nothing in it was interpolated.

    Attributes:
        name: Of the file, without folder and suffix.
        motor: The servo, as the log says.
        trajectory: Name of the motion.
        mass: At the end of the arm, kg.
        arm_mass: Of the arm, evenly distributed, kg.
        length: Of the arm, m.
        constants: Gains and supply during this log by name, as ``kp`` and ``vin`` (V).
        dt: Time between samples, s; in a raw log `PERIOD`, which the steps of a simulation divide.
        position: (n,) rad; 0 hangs down.
        goal: (n,) commanded position, rad, held from each sample to the next.
        enabled: (n,) 1 where the motor is powered, else 0.
        speed: (n,) rad/s, where it was recorded.
        path: Of the file, where there is one.
        stamps: (n,) of a raw log, s since its first reading, increasing; None in a processed one.
        commands: Of a raw log, where they have times of their own.
    """

    name: str
    motor: str
    trajectory: str
    mass: float
    arm_mass: float
    length: float
    constants: Mapping[str, float]
    dt: float
    position: Array
    goal: Array
    enabled: Array
    speed: Array | None = None
    path: Path | None = None
    stamps: Array | None = None
    commands: Commands | None = None

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.position)

    @property
    def times(self) -> Array:
        """(n,) s from the first sample to each."""
        if self.stamps is not None:
            return self.stamps
        found: Array = np.arange(len(self), dtype=np.float64) * self.dt
        return found


def read_log(path: Path) -> ServoLog:
    """Read a raw or processed log, or raise a LogError.

    ``dt`` says how far the samples of a processed one are apart; a log without it is a raw one,
    whose entries have stamps. A column that some entries lack was not recorded.
    """
    try:
        file = _File.model_validate(read_object(path, LogError))
    except ValidationError as err:
        raise LogError(explain(err, _File, f'the log {str(path)!r}')) from err
    stamps = None if file.dt is not None else _stamps(path, file)
    columns = {name: file.column(name) for name in _Entry.model_fields}
    return ServoLog(
        name=path.stem,
        motor=file.motor,
        trajectory=file.trajectory,
        mass=file.mass,
        arm_mass=file.arm_mass,
        length=file.length,
        constants={
            name: value for name in CONSTANT_UNITS if (value := getattr(file, name)) is not None
        },
        dt=file.dt or PERIOD,
        position=np.asarray(columns['position']),
        goal=np.asarray(columns['goal_position']),
        enabled=(np.asarray(columns['torque_enable']) != 0).astype(np.float64),
        speed=columns['speed'],
        path=path,
        stamps=None if stamps is None else stamps - stamps[0],
        commands=None if stamps is None else _commands(path, file, stamps[0]),
    )


def read_logs(folder: Path) -> tuple[ServoLog, ...]:
    """Read all logs ``*.json`` of a folder, by name, or raise a LogError."""
    if not folder.is_dir():
        parent = folder.parent.iterdir() if folder.parent.is_dir() else ()
        beside = sorted(place.name for place in parent if place.is_dir())
        found = 'a file' if folder.exists() else 'nothing'
        raise LogError(
            f'Expected a folder of logs {str(folder)!r}, found {found}; '
            f'{nearest(folder.name, beside)}.'
        )
    inside = sorted(place for place in folder.iterdir() if not place.name.startswith('.'))
    paths = [place for place in inside if place.suffix == '.json' and place.is_file()]
    if not paths:
        names = listed(place.name for place in inside)
        raise LogError(f'Expected logs *.json in {str(folder)!r}, found {names or "nothing"}.')
    return tuple(map(read_log, paths))


def _stamps(path: Path, file: _File) -> Array:
    """Return the (n,) stamps of a raw log, s."""
    stamps = file.column('timestamp')
    if stamps is None or len(stamps) < 2:  # noqa: PLR2004 (samples have a time between them)
        raise LogError(
            f'Expected dt, or two entries or more that all have a timestamp, in {str(path)!r}, '
            'found neither.'
        )
    _check_increasing(path, stamps, 'entry')
    apart = float(stamps[-1] - stamps[0]) / (len(stamps) - 1)
    if apart > _FARTHEST:
        raise LogError(
            f'Expected stamps in seconds in {str(path)!r}, at most {_FARTHEST:g} s apart on '
            f'average, found {apart:g} s.'
        )
    return stamps


def _check_increasing(path: Path, stamps: Array, what: str) -> None:
    late = np.flatnonzero(np.diff(stamps) <= 0)
    if len(late):
        before, after = stamps[late[0]], stamps[late[0] + 1]
        raise LogError(
            f'Expected increasing stamps in {str(path)!r}, found {after:g} s in {what} '
            f'{late[0] + 1} after {before:g} s.'
        )


def _commands(path: Path, file: _File, origin: float) -> Commands | None:
    if file.commands is None:
        return None
    columns = (file.commands.timestamp, file.commands.goal_position, file.commands.torque_enable)
    counts = [len(column) for column in columns]
    if len(set(counts)) > 1:
        raise LogError(
            f'Expected as many stamps, goals and switches of commands in {str(path)!r}, found '
            f'{counts[0]}, {counts[1]} and {counts[2]}.'
        )
    stamps, goal, on = (np.array(column, dtype=np.float64) for column in columns)
    _check_increasing(path, stamps, 'command')
    return Commands(stamps - origin, goal, (on != 0).astype(np.float64))


def write_log(path: Path, log: ServoLog) -> None:
    """Write a log, raw or processed as it is; what was not recorded is left out."""
    signals = {
        'position': log.position,
        'speed': log.speed,
        'goal_position': log.goal,
        'torque_enable': log.enabled != 0,
        'timestamp': log.times,
    }
    columns = {name: values.tolist() for name, values in signals.items() if values is not None}
    texts = {'motor': log.motor, 'trajectory': log.trajectory}
    document: dict[str, Any] = {
        'mass': float(log.mass),
        'arm_mass': float(log.arm_mass),
        'length': float(log.length),
        **{name: float(value) for name, value in log.constants.items()},
        **{key: text for key, text in texts.items() if text},
    }
    if log.stamps is None:
        document['dt'] = float(log.dt)
    if log.commands is not None:
        document['commands'] = {
            'timestamp': log.commands.times.tolist(),
            'goal_position': log.commands.goal.tolist(),
            'torque_enable': (log.commands.enabled != 0).tolist(),
        }
    document['entries'] = [
        dict(zip(columns, sample, strict=True)) for sample in zip(*columns.values(), strict=True)
    ]
    replace_file(path, json.dumps(document).encode())


def split(
    logs: Sequence[ServoLog], validation_kp: float
) -> tuple[tuple[ServoLog, ...], tuple[ServoLog, ...]]:
    """Return the logs to fit, and those of one gain, which are held out; neither may be empty."""
    held_out = tuple(log for log in logs if log.constants.get('kp') == validation_kp)
    training = tuple(log for log in logs if log.constants.get('kp') != validation_kp)
    if held_out and training:
        return training, held_out
    found = sorted({log.constants['kp'] for log in logs if 'kp' in log.constants})
    raise LogError(
        f'Expected logs of kp {validation_kp:g} to hold out and others to fit, found '
        f'{", ".join(f"{kp:g}" for kp in found) or "none"}.'
    )


def check_motor(logs: Sequence[ServoLog], name: str) -> None:
    """Refuse logs of another servo; only names of the catalogue can contradict each other."""
    if name not in ACTUATORS:
        return
    known = {re.sub('[-_ ]', '', kind): kind for kind in ACTUATORS}
    alike = {name}.union(*(names for names in _SAME_SERVO if name in names))
    found = [(log, known.get(re.sub('[-_ ]', '', log.motor.lower()), name)) for log in logs]
    wrong = [(log, kind) for log, kind in found if kind not in alike]
    if wrong:
        log, kind = wrong[0]
        raise LogError(
            f'Expected logs of the servo {name}, found {kind} in {log.name!r}, and {len(wrong)} of '
            f'{len(logs)} logs of another servo: ask for that one, or leave them out.'
        )

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Aligned data as files: the series, what each column is, and what was done to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import mujoco

from sysid_ros.alignment.formats import (
    WRITERS,
    Column,
    Format,
    Table,
    as_npz_start,
    check_available,
)
from sysid_ros.alignment.mapping.by_name import command_field
from sysid_ros.alignment.pairs import Role
from sysid_ros.files import replace_file
from sysid_ros.json_text import to_json
from sysid_ros.model.units import component_label, sensor_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from sysid_ros.alignment.health import HealthFinding, TopicRate
    from sysid_ros.alignment.pairs import Pair, Unmapped
    from sysid_ros.alignment.sequences import Alignment
    from sysid_ros.signals import TimeSeries
    from sysid_ros.signals.trajectory import Trajectory

#: Unit of what an actuator is told, at a hinge and at a slide.
_COMMAND_UNITS = {
    'position': ('rad', 'm'),
    'velocity': ('rad/s', 'm/s'),
    'effort': ('N·m', 'N'),
}
_JOINT_TRANSMISSIONS = (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT)


@dataclass(frozen=True)
class _Start:
    """Where a sequence begins: its origin and the state of the model there."""

    name: str
    origin_ns: int
    duration: float
    initial_qpos: NDArray[np.float64]
    initial_qvel: NDArray[np.float64]
    tables: tuple[str, ...]


@dataclass(frozen=True)
class _Record:
    """Everything beside the numbers: ``NAME_health.json``."""

    bag: str
    sequences: tuple[_Start, ...]
    columns: tuple[Column, ...]
    unmapped: tuple[Unmapped, ...]
    topics: tuple[TopicRate, ...]
    health: tuple[HealthFinding, ...]


class _Named(NamedTuple):
    stem: str
    series: TimeSeries
    role: Role


def write_series(
    folder: Path,
    alignment: Alignment,
    model: mujoco.MjModel,
    formats: Iterable[Format] = (Format.NPZ, Format.CSV),
) -> tuple[Path, ...]:
    """Write the sequences of a bag, each series into a file of its own per format.

    ``NAME_commands_0`` and ``NAME_measurements_0`` hold time in s from the sequence's origin and
    one column per value; :mod:`~sysid_ros.alignment.formats` tells how each format describes its
    columns. ``NAME_health.json`` of the bag holds what is not a number in a column: origin and
    initial state of each sequence, source of each column, what was found, masked, cut, flipped or
    shifted, and what was not used. npz keeps the initial state in ``NAME_initial.npz`` as well.

    Args:
        folder: Where to; it is made.
        alignment: The aligned bag.
        model: The model it was aligned with.
        formats: Which formats.

    Returns:
        The files.

    Raises:
        ResultError: The folder cannot be written, or a format needs what is not installed.
    """
    wanted = tuple(dict.fromkeys(formats))
    for chosen in wanted:
        check_available(chosen)
    written: list[Path] = []
    starts: list[_Start] = []
    described: dict[tuple[str, str], Column] = {}
    for sequence in alignment.sequences:
        stems = []
        for stem, series, role in _all_series(sequence):
            columns = _columns(series, role, alignment.pairs, model)
            described.update({(column.element, column.name): column for column in columns})
            table = Table(series.times, series.data, columns, _mapping(series), sequence.origin_ns)
            for chosen in wanted:
                for suffix, content in WRITERS[chosen](table):
                    path = folder / f'{stem}{suffix}'
                    replace_file(path, content)
                    written.append(path)
            stems.append(stem)
        if Format.NPZ in wanted:
            path = folder / f'{sequence.name}_initial.npz'
            replace_file(path, as_npz_start(sequence))
            written.append(path)
        starts.append(
            _Start(
                sequence.name,
                sequence.origin_ns,
                sequence.duration,
                sequence.initial_qpos,
                sequence.initial_qvel,
                tuple(stems),
            )
        )
    record = _Record(
        alignment.bag,
        tuple(starts),
        tuple(described.values()),
        alignment.unmapped,
        alignment.topics,
        alignment.health,
    )
    path = folder / f'{alignment.bag}_health.json'
    replace_file(path, (to_json(record, indent=1) + '\n').encode())
    return (*written, path)


def _all_series(sequence: Trajectory) -> Iterator[_Named]:
    for what, role, several in (
        ('commands', Role.ACTUATOR, sequence.commands),
        ('measurements', Role.SENSOR, sequence.measurements),
    ):
        for number, series in enumerate(several):
            yield _Named(f'{sequence.name}_{what}_{number}', series, role)


def _mapping(series: TimeSeries) -> str:
    return to_json(
        {name: [kind.value, indices] for name, (kind, indices) in series.signal_mapping.items()}
    )


def _columns(
    series: TimeSeries, role: Role, pairs: tuple[Pair, ...], model: mujoco.MjModel
) -> tuple[Column, ...]:
    """Describe the columns of a series, in order."""
    found: dict[int, Column] = {}
    for name, (_, indices) in series.signal_mapping.items():
        sources = sorted(
            (pair for pair in pairs if (pair.role, pair.name) == (role, name)),
            key=lambda pair: pair.component,
        )
        unit = sensor_unit(model, name) if role is Role.SENSOR else _command_unit(model, name)
        for place, (index, pair) in enumerate(zip(indices.tolist(), sources, strict=True)):
            found[index] = Column(
                component_label(name, place, len(sources)),
                unit,
                f'{role.value}/{name}',
                _acts_on(model, role, name),
                pair.topic,
                pair.field,
                pair.label,
                pair.scale,
                pair.offset,
            )
    return tuple(found[index] for index in sorted(found))


def _command_unit(model: mujoco.MjModel, name: str) -> str:
    """Return the unit of an actuator's control, empty where its gain or gear decides it."""
    actuator = model.actuator(name)
    if int(actuator.trntype[0]) not in map(int, _JOINT_TRANSMISSIONS) or actuator.gear[0] != 1:
        return ''
    field = command_field(model, actuator.id)
    if field == 'effort' and actuator.gainprm[0] != 1:
        return ''
    kind = model.jnt_type[int(actuator.trnid[0])]
    slide = kind == mujoco.mjtJoint.mjJNT_SLIDE
    return _COMMAND_UNITS[field][int(slide)]


def _acts_on(model: mujoco.MjModel, role: Role, name: str) -> str:
    """Return the element that a sensor measures or an actuator drives, as ``joint/elbow``."""
    if role is Role.SENSOR:
        sensor = model.sensor(name)
        kind, index = int(sensor.objtype[0]), int(sensor.objid[0])
    else:
        actuator = model.actuator(name)
        if int(actuator.trntype[0]) not in map(int, _JOINT_TRANSMISSIONS):
            return ''
        kind, index = int(mujoco.mjtObj.mjOBJ_JOINT), int(actuator.trnid[0])
    found = mujoco.mj_id2name(model, kind, index) if index >= 0 else None
    return f'{mujoco.mju_type2Str(kind)}/{found}' if found else ''

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""An aligned bag as files."""

from __future__ import annotations

import csv
import enum
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from sysid_ros.alignment.pairs import Pair, PairRole, command_quantity, drives_joint
from sysid_ros.alignment.trajectories import Alignment
from sysid_ros.files import replace_file, write_arrays
from sysid_ros.model.elements import component_label, sensor_unit
from sysid_ros.signals import TimeSeries
from sysid_ros.text import csv_header, to_json
from sysid_ros.vocabulary import Quantity


class Format(enum.Enum):
    """How a table is written."""

    NPZ = 'npz'
    CSV = 'csv'


@dataclass(frozen=True)
class ColumnDescription:
    """What one column of a table is.

    The values, ``scale * bag value + offset`` in a unit that is empty where none is known, come
    from a topic, a field of its messages and a column of that. They belong to an element of the
    MJCF, as ``sensor/elbow_position``, which measures or drives another, as ``joint/elbow``.
    """

    name: str
    unit: str
    element: str
    of: str
    topic: str
    field: str
    label: str
    scale: float
    offset: float


def _write_table(
    path: Path, series: TimeSeries, columns: tuple[ColumnDescription, ...], origin_ns: int
) -> list[Path]:
    """Write a series in the format of the path's suffix.

    ``.npz`` is readable without pickle, also by MuJoCo's sysid toolbox: ``times`` (n,) s, ``data``
    (n, k), ``signal_mapping``, ``columns``, a JSON list with one object per column, and
    ``origin_ns``. ``.csv`` has one header line and exact numbers, first the ``time`` in s, and the
    origin and the columns after the first in ``.csv.json`` beside it.
    """
    if path.suffix == '.npz':
        described = {'columns': np.asarray(to_json(columns)), 'origin_ns': np.asarray(origin_ns)}
        write_arrays(path, {**series.arrays(), **described})
        return [path]
    stream = io.StringIO(newline='')
    stream.write(csv_header(['time', *(column.name for column in columns)]))
    # The writer takes repr() of floats: the shortest text that reads as the same number.
    rows = np.column_stack([series.times, series.data]).tolist()
    csv.writer(stream, lineterminator='\n').writerows(rows)
    beside = path.with_name(f'{path.name}.json')
    replace_file(path, stream.getvalue().encode())
    text = to_json({'origin_ns': origin_ns, 'columns': columns}, indent=1)
    replace_file(beside, f'{text}\n'.encode())
    return [path, beside]


def write_series(
    folder: Path,
    alignment: Alignment,
    model: mujoco.MjModel,
    formats: Iterable[Format] = (Format.NPZ, Format.CSV),
) -> tuple[Path, ...]:
    """Write the sequences of a bag, each series into a file of its own per format.

    ``NAME_commands_0`` and ``NAME_measurements_0`` hold time in s from the sequence's origin and
    one column per value. ``NAME_health.json`` of the bag holds what is not a number in a column:
    origin and initial state of each sequence, actuators whose commands are interpolated between
    rows and not held, source of each column, what was found, masked, cut, flipped or shifted, and
    what was not used. npz keeps the initial state in ``NAME_initial.npz`` as well.

    The folder is made where there is none. The files are returned.

    Raises:
        ResultError: The folder cannot be written.
    """
    chosen = tuple(dict.fromkeys(formats))
    written: list[Path] = []
    starts: list[dict[str, Any]] = []
    described: dict[tuple[str, str], ColumnDescription] = {}
    for sequence in alignment.sequences:
        stems = []
        for what, role, several in (
            ('commands', PairRole.ACTUATOR, sequence.commands),
            ('measurements', PairRole.SENSOR, sequence.measurements),
        ):
            for number, series in enumerate(several):
                stems.append(f'{sequence.name}_{what}_{number}')
                columns = _columns(series, role, alignment.pairs, model)
                described.update({(column.element, column.name): column for column in columns})
                for item in chosen:
                    path = folder / f'{stems[-1]}.{item.value}'
                    written += _write_table(path, series, columns, sequence.origin_ns)
        if Format.NPZ in chosen:
            path = folder / f'{sequence.name}_initial.npz'
            start = {'qpos': sequence.initial_qpos, 'qvel': sequence.initial_qvel}
            write_arrays(path, {**start, 'origin_ns': np.asarray(sequence.origin_ns)})
            written.append(path)
        starts.append(
            {
                'name': sequence.name,
                'origin_ns': sequence.origin_ns,
                'duration': sequence.duration,
                'initial_qpos': sequence.initial_qpos,
                'initial_qvel': sequence.initial_qvel,
                'tables': stems,
                'interpolated': sorted(sequence.interpolated),
                'applied': sorted(sequence.applied),
            }
        )
    record = {
        'bag': alignment.bag,
        'sequences': starts,
        'columns': list(described.values()),
        'unmapped': alignment.unmapped,
        'topics': alignment.topics,
        'health': alignment.health,
    }
    path = folder / f'{alignment.bag}_health.json'
    replace_file(path, (to_json(record, indent=1) + '\n').encode())
    return (*written, path)


def _columns(
    series: TimeSeries, role: PairRole, pairs: tuple[Pair, ...], model: mujoco.MjModel
) -> tuple[ColumnDescription, ...]:
    """Describe the columns of a series, in order."""
    found: dict[int, ColumnDescription] = {}
    for name, (_, indices) in series.signal_mapping.items():
        sources = sorted(
            (pair for pair in pairs if (pair.role, pair.name) == (role, name)),
            key=lambda pair: pair.component,
        )
        unit, target = _unit_and_target(model, role, name)
        for place, (index, pair) in enumerate(zip(indices.tolist(), sources, strict=True)):
            found[index] = ColumnDescription(
                component_label(name, place, len(sources)),
                unit,
                f'{role.value}/{name}',
                target,
                pair.topic,
                pair.field,
                pair.label,
                pair.scale,
                pair.offset,
            )
    return tuple(found[index] for index in sorted(found))


def _unit_and_target(model: mujoco.MjModel, role: PairRole, name: str) -> tuple[str, str]:
    """Return the unit of a sensor or control and the element it belongs to, as ``joint/elbow``.

    Both are empty where the model does not say; of a control, gain or gear may decide the unit.
    """
    if role is PairRole.SENSOR:
        sensor = model.sensor(name)
        unit, kind, index = sensor_unit(model, name), int(sensor.objtype[0]), int(sensor.objid[0])
    else:
        actuator = model.actuator(name)
        if not drives_joint(model, actuator.id):
            return '', ''
        kind, index = int(mujoco.mjtObj.mjOBJ_JOINT), int(actuator.trnid[0])
        commanded = command_quantity(model, actuator.id)
        scaled = commanded is Quantity.EFFORT and actuator.gainprm[0] != 1
        slide = bool(model.jnt_type[index] == mujoco.mjtJoint.mjJNT_SLIDE)
        unit = '' if scaled or actuator.gear[0] != 1 else commanded.unit(slide=slide)
    found = mujoco.mj_id2name(model, kind, index) if index >= 0 else None
    return unit, f'{mujoco.mju_type2Str(kind)}/{found}' if found else ''

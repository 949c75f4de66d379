# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One table of numbers in each of the formats that series are written in."""

from __future__ import annotations

import csv
import enum
import importlib.util
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sysid_ros.errors import ResultError
from sysid_ros.json_text import to_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.signals.trajectory import Trajectory


class Format(enum.Enum):
    """How a table is written."""

    NPZ = 'npz'
    CSV = 'csv'
    PARQUET = 'parquet'


@dataclass(frozen=True)
class Column:
    """What one column of a table is.

    The values are ``scale * bag value + offset``.

    Attributes:
        name: Name of the sensor or actuator, with the component where it has several.
        unit: Unit of the values; empty where none is known.
        element: The element of the MJCF: ``sensor/elbow_position``, ``actuator/elbow``.
        of: What it measures or drives: ``joint/elbow``; empty where unnamed.
        topic: Topic that the values come from.
        field: Field of its messages.
        label: Column of the field.
        scale: Unit per unit in the bag.
        offset: In ``unit``.
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


@dataclass(frozen=True)
class Table:
    """A series to write.

    Attributes:
        times: (n,) s from the origin.
        data: (n, k).
        columns: What each of the k columns is.
        signal_mapping: JSON of name to [type, columns], as MuJoCo's sysid toolbox stores it.
        origin_ns: Time zero, ns since the epoch.
    """

    times: NDArray[np.float64]
    data: NDArray[np.float64]
    columns: tuple[Column, ...]
    signal_mapping: str
    origin_ns: int


Writer = Callable[[Table], tuple[tuple[str, bytes], ...]]


def check_available(chosen: Format) -> None:
    """Check that what a format needs is installed.

    Raises:
        ResultError: It is not; the sentence says how to get it.
    """
    if chosen is Format.PARQUET and importlib.util.find_spec('pyarrow') is None:
        msg = (
            'Expected the Python package pyarrow to write Parquet, found none; get it with '
            "`pip install 'sysid_ros[parquet]'`, or choose npz or csv."
        )
        raise ResultError(msg)


def as_npz(table: Table) -> tuple[tuple[str, bytes], ...]:
    """Return one ``.npz``, readable without pickle.

    It holds ``times`` (n,) s, ``data`` (n, k), ``signal_mapping`` (so that MuJoCo's sysid toolbox
    reads the file), ``columns``, a JSON list with one object per column, and ``origin_ns``.
    """
    stream = io.BytesIO()
    content: dict[str, Any] = {
        'times': table.times,
        'data': table.data,
        'signal_mapping': np.asarray(table.signal_mapping),
        'columns': np.asarray(to_json(table.columns)),
        'origin_ns': np.int64(table.origin_ns),
    }
    np.savez(stream, **content)
    return (('.npz', stream.getvalue()),)


def as_npz_start(sequence: Trajectory) -> bytes:
    """Return where a sequence begins as ``.npz``: ``qpos``, ``qvel`` and ``origin_ns``."""
    stream = io.BytesIO()
    np.savez(
        stream,
        qpos=sequence.initial_qpos,
        qvel=sequence.initial_qvel,
        origin_ns=np.int64(sequence.origin_ns),
    )
    return stream.getvalue()


def as_csv(table: Table) -> tuple[tuple[str, bytes], ...]:
    """Return a ``.csv`` with one header line and exact numbers, and ``.csv.json`` beside it.

    The first column is ``time`` in s. The JSON has ``origin_ns`` and ``columns``, one object per
    column after the first.
    """
    stream = io.StringIO(newline='')
    rows = csv.writer(stream, lineterminator='\n')
    rows.writerow(['time', *(column.name for column in table.columns)])
    # The writer takes repr() of floats: the shortest text that reads as the same number.
    rows.writerows(np.column_stack([table.times, table.data]).tolist())
    beside = {'origin_ns': table.origin_ns, 'columns': table.columns}
    return (
        ('.csv', stream.getvalue().encode()),
        ('.csv.json', (to_json(beside, indent=1) + '\n').encode()),
    )


def as_parquet(table: Table) -> tuple[tuple[str, bytes], ...]:
    """Return one ``.parquet`` whose fields carry what their column is as metadata.

    The first field is ``time`` in s; the schema's metadata has ``origin_ns``.
    """
    import pyarrow as pa  # noqa: PLC0415 (an extra)
    import pyarrow.parquet as pq  # noqa: PLC0415

    fields = [pa.field('time', pa.float64(), nullable=False, metadata={'unit': 's'})]
    for column in table.columns:
        metadata = {key: str(value) for key, value in vars(column).items()}
        fields.append(pa.field(column.name, pa.float64(), nullable=False, metadata=metadata))
    schema = pa.schema(fields, metadata={'origin_ns': str(table.origin_ns)})
    stream = io.BytesIO()
    arrays = [pa.array(values) for values in (table.times, *table.data.T)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), stream)
    return (('.parquet', stream.getvalue()),)


WRITERS: dict[Format, Writer] = {
    Format.NPZ: as_npz,
    Format.CSV: as_csv,
    Format.PARQUET: as_parquet,
}

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Channels that share their stamps, and how arrays are written to disk."""

from __future__ import annotations

import enum
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysid_ros.errors import SignalError, nearest
from sysid_ros.files import replace_file

Instants = float | Sequence[float] | NDArray[np.float64]
#: Straight lines between samples, or the latest sample.
Method = Literal['linear', 'zoh']


class SignalType(enum.Enum):
    """What a channel is in the model, named as in MuJoCo's sysid toolbox."""

    MjSensor = 0
    CustomObs = 1
    MjStateQPos = 2
    MjStateQVel = 3
    MjStateAct = 4
    MjCtrl = 5


#: Name of each signal to its kind and its columns in the data.
SignalMapping = Mapping[str, tuple[SignalType, NDArray[np.int64]]]


@dataclass(frozen=True, repr=False)
class TimeSeries:
    """Named channels sampled at common instants; immutable.

    Attributes:
        times: (n,) float64, seconds, strictly increasing.
        data: (n, k) float64, in the unit of each channel; NaN where there is no sample. One
            channel may be (n,).
        signal_mapping: Name of each signal to its type and its columns in ``data``; empty, or
            None when it is given, for columns without names.
    """

    times: NDArray[np.float64]
    data: NDArray[np.float64]
    signal_mapping: SignalMapping = field(default_factory=dict)

    def __post_init__(self) -> None:
        times = np.array(self.times, dtype=np.float64)
        data = np.array(self.data, dtype=np.float64)
        if times.ndim != 1:
            raise SignalError(f'Expected times to be a 1D array, found one of shape {times.shape}.')
        if data.ndim not in {1, 2}:
            raise SignalError(f'Expected data of shape (n, k) or (n,), found {data.shape}.')
        if len(times) != len(data):
            raise SignalError(f'Length of times ({len(times)}) and data ({len(data)}) must match.')
        if not np.all(np.isfinite(times)) or np.any(np.diff(times) <= 0):
            raise SignalError('The times of a time series must be finite and strictly increasing.')
        width = 1 if data.ndim == 1 else data.shape[1]
        mapping = {}
        for name, (kind, given) in (self.signal_mapping or {}).items():
            columns = np.array(given, dtype=np.int64, ndmin=1)
            if np.any(columns >= width) or np.any(columns < 0):
                raise SignalError(
                    f'Signal {name!r} names columns {columns}, but there are {width}.'
                )
            columns.setflags(write=False)
            mapping[name] = (kind, columns)
        times.setflags(write=False)
        data.setflags(write=False)
        object.__setattr__(self, 'times', times)
        object.__setattr__(self, 'data', data)
        object.__setattr__(self, 'signal_mapping', mapping)

    def __len__(self) -> int:
        return len(self.times)

    def __repr__(self) -> str:
        span = f', {self.times[0]:g} to {self.times[-1]:g} s' if len(self) else ''
        names = f': {", ".join(self.names)}' if self.signal_mapping else ''
        return f'TimeSeries({len(self)} x {self.matrix.shape[1]}{span}{names})'

    @classmethod
    def from_columns(
        cls,
        times: ArrayLike,
        data: ArrayLike,
        names: Sequence[str],
        kind: SignalType = SignalType.MjSensor,
    ) -> Self:
        """Build a series of scalar channels of one kind, (n, k) data with one name per column."""
        mapping = {name: (kind, np.array([column])) for column, name in enumerate(names)}
        return cls(np.asarray(times), np.asarray(data), mapping)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The data as (n, k) numbers, whatever their shape."""
        return self.data[:, None] if self.data.ndim == 1 else self.data

    def as_columns(self) -> TimeSeries:
        """Return the series with data of shape (n, k): itself where they have it already."""
        if self.data.ndim > 1:
            return self
        return TimeSeries(self.times, self.matrix, self.signal_mapping)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the signals, in mapping order."""
        return tuple(self.signal_mapping)

    def get_indices(self, obs_name: str) -> tuple[SignalType, NDArray[np.int64]]:
        """Return the type of one signal and its (d,) columns.

        Raises:
            SignalError: There is no signal of that name.
        """
        if obs_name not in self.signal_mapping:
            raise SignalError(
                f'There is no signal {obs_name!r} here; {nearest(obs_name, self.signal_mapping)}.'
            )
        return self.signal_mapping[obs_name]

    def get(self, name: str) -> NDArray[np.float64]:
        """Return the (n, d) samples of one signal.

        Raises:
            SignalError: There is no signal of that name.
        """
        return self.matrix[:, self.get_indices(name)[1]]

    def interpolate(self, t: Instants, method: Method = 'linear') -> NDArray[np.float64]:
        """Evaluate all columns at one instant or at (m,) of them, s.

        Before the first sample its value is returned, after the last that one. A sample that is
        NaN makes NaN of the instants whose neighbour it is (with a hold: that it holds for).

        Returns:
            (m, k) values, (1, k) for one instant; (m,) where the data are (n,).

        Raises:
            SignalError: There is no sample, or an instant is not finite.
        """
        at = np.atleast_1d(np.asarray(t, dtype=np.float64))
        if not np.all(np.isfinite(at)):
            raise SignalError('Expected finite instants to interpolate at, found NaN or infinity.')
        if not len(self):
            raise SignalError(f'Interpolation {method!r} needs 1 sample, found 0.')
        before = np.clip(np.searchsorted(self.times, at, side='right') - 1, 0, None)
        values = self.matrix[before]
        if method == 'linear':
            after = np.minimum(before + 1, len(self) - 1)
            gap = self.times[after] - self.times[before]
            passed = np.clip(at, self.times[0], self.times[-1]) - self.times[before]
            share = np.divide(passed, gap, out=np.zeros(len(at)), where=gap > 0)[:, None]
            # At a sample its neighbour does not count, whatever it is.
            values = np.where(share > 0, values + share * (self.matrix[after] - values), values)
        return values.reshape(len(at), *self.data.shape[1:])

    def arrays(self, prefix: str = '') -> dict[str, NDArray[Any]]:
        """Return the arrays as files hold them, each name with a prefix such as ``control_``."""
        arrays: dict[str, NDArray[Any]] = {f'{prefix}times': self.times, f'{prefix}data': self.data}
        if self.signal_mapping:
            encoded = json.dumps(
                {
                    name: [kind.value, at.tolist()]
                    for name, (kind, at) in self.signal_mapping.items()
                }
            )
            arrays[f'{prefix}signal_mapping'] = np.asarray(encoded)
        return arrays


def write_arrays(path: str | PathLike[str], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays whole or not at all; ``.npz`` is appended to a name without it.

    Raises:
        ResultError: The folder cannot be written.
    """
    path = Path(path)
    stream = io.BytesIO()
    content: dict[str, Any] = dict(arrays)
    np.savez(stream, **content)
    if not path.name.endswith('.npz'):
        path = path.with_name(f'{path.name}.npz')
    replace_file(path, stream.getvalue())

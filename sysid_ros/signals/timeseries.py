# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Channels that share their stamps."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Self, overload

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysid_ros.errors import SignalError, nearest
from sysid_ros.files import replace_file
from sysid_ros.signals import storage
from sysid_ros.signals.mapping import (
    CONTROLS,
    OBSERVATIONS,
    SignalDict,
    SignalMapping,
    SignalType,
    control_mapping,
    encode_signal_mapping,
    find_signals,
    sensor_mapping,
    state_mappings,
)
from sysid_ros.signals.resampling import (
    InterpolationMethod,
    interpolate,
    regular_grid,
    slack,
    snapped,
)

Instants = float | Sequence[float] | NDArray[np.float64]

__all__ = ['InterpolationMethod', 'SignalMapping', 'SignalType', 'TimeSeries']


@dataclass(frozen=True, repr=False)
class TimeSeries:
    """Named channels sampled at common instants; immutable.

    The constructors have the names of MuJoCo's sysid toolbox. ``times`` is (n,) in seconds, and
    ``data`` (n, k), or (n,) for one column.

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
    def create(
        cls,
        times: ArrayLike,
        data: ArrayLike,
        signal_mapping: Mapping[str, tuple[SignalType, ArrayLike]],
    ) -> Self:
        """Build a series whose columns may be given as an index, a list or an array."""
        mapping = {name: (kind, np.atleast_1d(at)) for name, (kind, at) in signal_mapping.items()}
        return cls(np.asarray(times), np.asarray(data), mapping)

    @classmethod
    def from_columns(
        cls,
        times: ArrayLike,
        data: ArrayLike,
        names: Sequence[str],
        kind: SignalType = SignalType.MjSensor,
    ) -> Self:
        """Build a series of scalar channels, one name per column.

        Args:
            times: (n,) seconds.
            data: (n, k) values.
            names: k names, in column order.
            kind: What all of them are.
        """
        mapping = {name: (kind, np.array([column])) for column, name in enumerate(names)}
        return cls(np.asarray(times), np.asarray(data), mapping)

    @classmethod
    def from_custom_map(
        cls,
        times: ArrayLike,
        data: ArrayLike,
        signals: Sequence[str | tuple[str, int, SignalType]],
    ) -> Self:
        """Build a series of signals that the model need not have.

        Args:
            times: (n,) seconds.
            data: (n, k) values.
            signals: What the columns are, in order: a name (one column, ``CustomObs``), or name,
                number of columns and kind.

        Raises:
            SignalError: A width is not positive, a name comes twice, or the widths do not add up
                to the columns.
        """
        mapping: SignalDict = {}
        begin = 0
        for item in signals:
            name, width, kind = (item, 1, SignalType.CustomObs) if isinstance(item, str) else item
            if width <= 0 or name in mapping:
                raise SignalError(
                    f'Signal {name!r} must come once and have positive width, got {width}.'
                )
            mapping[name] = (kind, np.arange(begin, begin + width))
            begin += width
        return cls._of_signals(times, data, mapping)

    @classmethod
    def from_names(
        cls,
        times: ArrayLike,
        data: ArrayLike,
        model: mujoco.MjModel,
        names: Sequence[str | tuple[str, SignalType]] | None = None,
    ) -> Self:
        """Build a series of sensors and states of a model.

        Args:
            times: (n,) seconds.
            data: (n, k) values.
            model: The model that has the signals.
            names: What the columns are, in order: names of sensors, or of joints, free bodies and
                actuators with activation, with or without ``_qpos``, ``_qvel``, ``_act``; a pair
                of name and kind where the name alone is ambiguous. All sensors in the model's
                order by default.

        Raises:
            SignalError: The model has no such signal, it comes twice or is a control (see
                ``from_control_names``), or their widths do not add up to the columns.
        """
        if names is None:
            return cls._of_signals(times, data, sensor_mapping(model))
        return cls._of_signals(times, data, find_signals(model, names, OBSERVATIONS))

    @classmethod
    def from_control_names(
        cls,
        times: ArrayLike,
        data: ArrayLike,
        model: mujoco.MjModel,
        names: Sequence[str | tuple[str, SignalType]] | None = None,
    ) -> Self:
        """Build a series of controls of a model.

        Args:
            times: (n,) seconds.
            data: (n, k) values.
            model: The model that has the actuators.
            names: What the columns are, in order: names of actuators, with or without ``_ctrl``.
                All actuators in the model's order by default.

        Raises:
            SignalError: The model has no such actuator, it comes twice, or the number of controls
                is not that of the columns.
        """
        if names is None:
            return cls._of_signals(times, data, control_mapping(model))
        return cls._of_signals(times, data, find_signals(model, names, CONTROLS))

    @staticmethod
    def compute_all_sensor_mapping(model: mujoco.MjModel) -> SignalDict:
        """Map every sensor of the model to its columns in ``sensordata``."""
        return sensor_mapping(model)

    @staticmethod
    def compute_all_control_mapping(model: mujoco.MjModel) -> SignalDict:
        """Map every actuator of the model, as ``NAME_ctrl``, to its columns in ``ctrl``."""
        return control_mapping(model)

    @staticmethod
    def compute_all_state_mappings(
        model: mujoco.MjModel,
    ) -> tuple[SignalDict, SignalDict, SignalDict, SignalDict]:
        """Map ``qpos``, ``qvel``, ``act`` and ``ctrl`` of the model.

        The columns of the first three count in the full physics state without its first number,
        the time; those of the last in ``ctrl``.
        """
        return *state_mappings(model), control_mapping(model)

    @classmethod
    def _of_signals(cls, times: ArrayLike, data: ArrayLike, mapping: SignalMapping) -> Self:
        """Build a series whose columns are those of its signals, and no others."""
        width = sum(len(columns) for _, columns in mapping.values())
        values = np.asarray(data, dtype=np.float64)
        if values.ndim == 1:
            values = values[:, None]
        if values.ndim != 2 or values.shape[1] != width:  # noqa: PLR2004 (rows and columns)
            raise SignalError(
                f'Expected data of shape (n, {width}) for the signals {", ".join(mapping)}, '
                f'found {np.shape(data)}.'
            )
        return cls(np.asarray(times), values, mapping)

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

    @property
    def duration(self) -> float:
        """Seconds between the first and the last sample."""
        return float(self.times[-1] - self.times[0]) if len(self.times) else 0.0

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

    @overload
    def get(self, t: str) -> NDArray[np.float64]: ...
    @overload
    def get(
        self, t: Instants, method: InterpolationMethod = 'linear'
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def get(
        self, t: str | Instants, method: InterpolationMethod = 'linear'
    ) -> NDArray[np.float64] | tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the samples of one signal, or all signals at given instants.

        Args:
            t: The name of a signal; or one instant or (m,) of them, seconds.
            method: How to interpolate between samples, for instants.

        Returns:
            For a name its (n, d) samples. For instants the pair of them as an array and the
            (m, k) values, (k,) for a single one; see ``interpolate``.

        Raises:
            SignalError: There is no signal of that name, or see ``interpolate``.
        """
        if isinstance(t, str):
            return self.matrix[:, self.get_indices(t)[1]]
        at = np.asarray(t, dtype=np.float64)
        values = self.interpolate(at, method)
        return at, values if at.ndim else values[0]

    def slice_by_name(self, enabled_sensors: Iterable[str]) -> TimeSeries:
        """Keep only some signals.

        ``TimeSeries.slice_by_name(series, names)`` and ``series.slice_by_name(names)`` are the
        same.

        Args:
            enabled_sensors: Names of the signals to keep, in the order of the new mapping. Their
                columns stay in the order in which the signals of this series are mapped.

        Raises:
            SignalError: There is no signal of a name.
        """
        wanted = list(dict.fromkeys(enabled_sensors))
        kept = {int(column) for name in wanted for column in self.get_indices(name)[1]}
        mapped = (int(column) for _, at in self.signal_mapping.values() for column in at)
        order = [column for column in dict.fromkeys(mapped) if column in kept]
        place = {column: index for index, column in enumerate(order)}
        mapping = {
            name: (kind, np.array([place[int(column)] for column in at], dtype=np.int64))
            for name, (kind, at) in ((name, self.signal_mapping[name]) for name in wanted)
        }
        return TimeSeries(self.times, self.matrix[:, order], mapping)

    def interpolate(
        self, t: Instants, method: InterpolationMethod = 'linear'
    ) -> NDArray[np.float64]:
        """Evaluate all columns at other instants.

        Before the first sample its value is returned, after the last that one. NaN samples stay
        NaN locally (``sysid_ros.signals.resampling.interpolate``).

        Args:
            t: One instant or (m,) of them, seconds.
            method: ``linear``, ``quadratic``, ``cubic``, ``quintic``, ``zero_order_hold``, ``zoh``.

        Returns:
            (m, k) values, (1, k) for one instant; (m,) where the data are (n,).

        Raises:
            SignalError: There are too few samples for the method, an instant is not finite, or
                there is no such method.
        """
        at = np.atleast_1d(np.asarray(t, dtype=np.float64))
        values = interpolate(self.times, self.matrix, at, method)
        return values.reshape(len(at), *self.data.shape[1:])

    def resample(
        self,
        new_times: ArrayLike | None = None,
        target_dt: float | None = None,
        method: InterpolationMethod = 'linear',
    ) -> TimeSeries:
        """Interpolate to other stamps.

        Args:
            new_times: (m,) seconds, strictly increasing.
            target_dt: Instead of them, their distance in s: the new stamps are
                ``times[0] + k * target_dt``, exactly, as far as the last sample. Samples that are
                on this grid but for the rounding of their stamps are taken as they are.
            method: How to interpolate, see ``interpolate``.

        Raises:
            SignalError: Neither is given, ``target_dt`` is not positive, ``new_times`` are not
                strictly increasing, or see ``interpolate``.
        """
        if new_times is not None:
            stamps = np.asarray(new_times, dtype=np.float64)
            if stamps.ndim != 1:
                raise SignalError(f'Expected new_times of shape (m,), found {stamps.shape}.')
            return TimeSeries(stamps, self.interpolate(stamps, method), self.signal_mapping)
        if target_dt is None:
            raise SignalError('Expected new_times or target_dt, found neither.')
        if not (target_dt > 0 and np.isfinite(target_dt)):
            raise SignalError(f'Expected a positive target_dt, found {target_dt}.')
        self._needs_samples(1)
        stamps = regular_grid(self.times, float(target_dt))
        at = snapped(stamps, self.times, float(target_dt))
        return TimeSeries(stamps, self.interpolate(at, method), self.signal_mapping)

    def remove_from_beginning(self, time_to_remove_s: float) -> TimeSeries:
        """Drop the first seconds and set the clock back by as much.

        A sample keeps its distance to the samples of another series that is shortened by the same
        time, whatever the rates of the two.

        Args:
            time_to_remove_s: Seconds after the first stamp; a sample at just that time is kept.

        Raises:
            SignalError: It is negative, or nothing would be left.
        """
        if not 0 <= time_to_remove_s <= self.duration:
            raise SignalError(
                f'Expected 0 to {self.duration:g} s to remove, found {time_to_remove_s:g} s.'
            )
        self._needs_samples(1)
        begin = self.times[0] + time_to_remove_s
        period = self.duration / max(len(self) - 1, 1)
        first = int(np.searchsorted(self.times, begin - slack(self.times[[0, -1]], period)))
        return TimeSeries(
            self.times[first:] - time_to_remove_s, self.data[first:], self.signal_mapping
        )

    def dt_statistics(self) -> dict[str, float]:
        """Return mean, median, std, min and max of the intervals between stamps, seconds.

        Raises:
            SignalError: There are fewer than two samples.
        """
        self._needs_samples(2)
        intervals = np.diff(self.times)
        return {
            'mean': float(np.mean(intervals)),
            'median': float(np.median(intervals)),
            'std': float(np.std(intervals)),
            'min': float(np.min(intervals)),
            'max': float(np.max(intervals)),
        }

    def arrays(self, prefix: str = '') -> dict[str, NDArray[Any]]:
        """Return the arrays as files hold them, each name with a prefix such as ``control_``."""
        arrays: dict[str, NDArray[Any]] = {f'{prefix}times': self.times, f'{prefix}data': self.data}
        if self.signal_mapping:
            encoded = encode_signal_mapping(self.signal_mapping)
            arrays[f'{prefix}signal_mapping'] = np.asarray(encoded)
        return arrays

    def save_to_disk(self, path: str | PathLike[str]) -> None:
        """Write an ``.npz`` file, without pickle, that MuJoCo's sysid toolbox reads as well.

        Raises:
            ResultError: The folder cannot be written.
        """
        storage.write_arrays(path, self.arrays())

    def save_to_csv(self, path: str | PathLike[str]) -> None:
        """Write time and data as comma-separated numbers without a header.

        Raises:
            ResultError: The folder cannot be written.
        """
        stream = io.BytesIO()
        np.savetxt(stream, np.column_stack([self.times, self.matrix]), delimiter=',')
        replace_file(Path(path), stream.getvalue())

    @classmethod
    def load_from_disk(cls, path: str | PathLike[str]) -> TimeSeries:
        """Read what ``save_to_disk`` wrote, here or in MuJoCo's sysid toolbox.

        Raises:
            SignalError: There is no such file, or it holds no series.
        """
        arrays = storage.read_arrays(path, ('times', 'data'))
        return cls(arrays['times'], arrays['data'], storage.stored_mapping(arrays))

    def _needs_samples(self, count: int) -> None:
        if len(self) < count:
            raise SignalError(
                f'Expected a time series of at least {count} samples, found {len(self)}.'
            )

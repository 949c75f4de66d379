# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Time series: named channels that share their stamps; trajectories: continuous runs of a robot."""

from __future__ import annotations

import enum
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysid_ros.errors import SignalError, nearest

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


#: No controller updates less often than this, s: a hundred a second is the default
#: (https://control.ros.org/jazzy/doc/ros2_control/controller_manager/doc/userdoc.html).
SLOWEST_UPDATE = 0.01


@dataclass(frozen=True, eq=False)
class PrescribedMotion:
    """How all joints moved, on an even grid whose row k is at ``(first + k) * interval``.

    Forces that were measured along it have passed a low-pass, and so do those that are predicted;
    of what comes out, one row in ``stride`` is kept.

    Attributes:
        interval: Seconds between rows.
        first: Number of the first row, counted from the trajectory's time zero.
        qpos: (n, nv) rad or m, of joints of one axis each.
        qvel: (n, nv) rad/s or m/s.
        qacc: (n, nv) rad/s² or m/s².
        slow: (nv,) speeds below which the direction of motion is not known.
        low_pass: Second-order sections; run forwards and backwards.
        cutoff: Of the low-pass, Hz.
        stride: Rows from one kept row to the next; the first kept is a multiple of it.
    """

    interval: float
    first: int
    qpos: NDArray[np.float64]
    qvel: NDArray[np.float64]
    qacc: NDArray[np.float64]
    slow: NDArray[np.float64]
    low_pass: NDArray[np.float64]
    cutoff: float
    stride: int

    @property
    def times(self) -> NDArray[np.float64]:
        """(n,) seconds from the trajectory's time zero."""
        rows: NDArray[np.float64] = self.first + np.arange(len(self.qpos), dtype=np.float64)
        return self.interval * rows


@dataclass(frozen=True)
class Trajectory:
    """One continuous run: where it starts, what was commanded, what was measured.

    Every series keeps its own stamps, in seconds from the sequence's origin; nothing is resampled.

    Attributes:
        name: Unique name.
        origin_ns: Time zero of the sequence, ns since the epoch.
        initial_qpos: (nq,) configuration at time zero.
        initial_qvel: (nv,) velocity at time zero.
        commands: Series whose signals are named after actuators; each sample holds until the next,
            and the first also before it. Samples before time zero are allowed.
        measurements: Series whose signals are named after sensors or, by their signal type, are
            parts of the state; samples at or after time zero, NaN where a channel was not measured.
        initial_act: (na,) activation at time zero; None for filters that are at rest under the
            first command.
        bag: The recording that it is from; empty where it is one by itself.
        interpolated: Actuators whose commands do not hold, but change linearly from sample to
            sample.
        motion: How the joints moved, where that is prescribed: nothing is simulated then, and the
            measurements are forces that the motion needs.
        applied: Actuators whose commands are stamped as they came to act, by whoever made them.
        replaced: (k, 2) when what is interpolated leaves one message for the next, and when it has
            reached the first point of that, s; messages may be late by different times.
        sampled: Whether measured forces of actuators are read at their stamps, under the command
            that is in force at that instant, and not averaged over a time step.
        base: Where floating bodies are, if their motion is prescribed: of each, by its name, seven
            columns, position in m and quaternion.
    """

    name: str
    origin_ns: int
    initial_qpos: NDArray[np.float64]
    initial_qvel: NDArray[np.float64]
    commands: tuple[TimeSeries, ...]
    measurements: tuple[TimeSeries, ...]
    initial_act: NDArray[np.float64] | None = None
    bag: str = ''
    interpolated: frozenset[str] = frozenset()
    motion: PrescribedMotion | None = None
    applied: frozenset[str] = frozenset()
    replaced: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 2)))
    sampled: bool = False
    base: TimeSeries | None = None

    def __post_init__(self) -> None:
        for name in ('commands', 'measurements'):
            columns = tuple(series.as_columns() for series in getattr(self, name))
            object.__setattr__(self, name, columns)

    @property
    def duration(self) -> float:
        """Seconds from time zero to the last measured sample."""
        return max((float(series.times[-1]) for series in self.measurements), default=0.0)

    @functools.cached_property
    def updates(self) -> NDArray[np.float64]:
        """(n,) when a controller is taken to have updated, but for a common part of its period, s.

        A controller_manager reads the joints, lets its controllers say what they ask for, and sends
        that: once in each update, so that measurements come at its updates. If they come too
        seldom for that, it made several from one to the next.
        """
        times = max((series.times for series in self.measurements), key=len)
        if len(times) == 1:
            times = times + np.array([0.0, SLOWEST_UPDATE])
        gaps = np.diff(times)
        period = float(np.median(gaps))
        each = np.ceil(np.round(period / SLOWEST_UPDATE, 3))
        places = np.cumsum([0.0, *np.maximum(np.round(each * gaps / period), 1.0)])
        inside = np.interp(np.arange(places[-1] + 1), places, times)
        return np.concatenate([[inside[0] - period / each], inside])

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Time series with the constructors and methods of MuJoCo's sysid toolbox.

A sensor is called by its own name, a control ``NAME_ctrl``, states ``NAME_qpos``, ``NAME_qvel`` and
``NAME_act``. A free joint is named after its body. An element without a name is called
``sensor[2]``, ``actuator[0]``, ``joint[1]``, with its index.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, get_args, overload

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysid_ros import signals
from sysid_ros.errors import SignalError, nearest
from sysid_ros.files import replace_file
from sysid_ros.signals.timeseries import Instants, SignalMapping, SignalType, write_arrays

InterpolationMethod = Literal['linear', 'cubic', 'quadratic', 'quintic', 'zero_order_hold', 'zoh']
SignalDict = dict[str, tuple[SignalType, NDArray[np.int64]]]
Names = Sequence[str | tuple[str, SignalType]]

_DEGREES = {'quadratic': 2, 'cubic': 3, 'quintic': 5}
_SUFFIXES = {
    SignalType.MjSensor: '',
    SignalType.MjStateQPos: '_qpos',
    SignalType.MjStateQVel: '_qvel',
    SignalType.MjStateAct: '_act',
    SignalType.MjCtrl: '_ctrl',
}
STATES = (SignalType.MjStateQPos, SignalType.MjStateQVel, SignalType.MjStateAct)
#: What a model's observations can be, in the order in which a bare name is tried.
OBSERVATIONS = (SignalType.MjSensor, *STATES)
#: Coordinates of a free joint: position and quaternion.
_FREE_QPOS = 7
#: Stamps mean the same instant where they differ by less than the sum of this fraction of a period
#: and so many steps to the neighbouring float: 1 µs for seconds since the epoch.
_SAME_INSTANT = 1e-6
_ROUNDING_STEPS = 4
#: No rounding is taken for more than this fraction of a period.
_LARGEST_SLACK = 0.25


class Signal(NamedTuple):
    """One signal of a model: its full name, its kind, and its (d,) columns.

    The columns are those of ``sensordata`` for a sensor, of ``ctrl`` for a control, and of the full
    physics state without its first number, the time, for a state.
    """

    name: str
    kind: SignalType
    columns: NDArray[np.int64]


def sensor_mapping(model: mujoco.MjModel) -> SignalDict:
    """Map every sensor of a model to its columns in ``sensordata``."""
    names = _names(model, 'sensor', model.nsensor)
    return _spans(names, SignalType.MjSensor, model.sensor_adr, model.sensor_dim)


def control_mapping(model: mujoco.MjModel) -> SignalDict:
    """Map every actuator of a model to its columns in ``ctrl``, of which it may have several."""
    names = _names(model, 'actuator', model.nactuator)
    return _spans(names, SignalType.MjCtrl, model.actuator_ctrladr, model.actuator_ctrlnum)


def state_mappings(model: mujoco.MjModel) -> tuple[SignalDict, SignalDict, SignalDict]:
    """Map ``qpos``, ``qvel`` and ``act`` to columns of the full physics state without the time."""
    nq, nv = model.nq, model.nv
    widths = np.diff(np.append(model.jnt_qposadr, nq)), np.diff(np.append(model.jnt_dofadr, nv))
    names = _joint_signal_names(model)
    actuators = _names(model, 'actuator', model.nactuator)
    stateful = np.flatnonzero(model.actuator_actnum > 0)
    return (
        _spans(names, SignalType.MjStateQPos, model.jnt_qposadr, widths[0]),
        _spans(names, SignalType.MjStateQVel, model.jnt_dofadr + nq, widths[1]),
        _spans(
            [actuators[index] for index in stateful],
            SignalType.MjStateAct,
            model.actuator_actadr[stateful] + nq + nv,
            model.actuator_actnum[stateful],
        ),
    )


def find_signal(
    model: mujoco.MjModel, name: str, kinds: Iterable[SignalType] = OBSERVATIONS
) -> Signal:
    """Find a signal by its name, with or without its suffix; the first kind that has it counts.

    Raises:
        SignalError: The model has no such signal.
    """
    tables = {kind: _table(model, kind) for kind in kinds}
    for kind, table in tables.items():
        for full in (name, name + _SUFFIXES[kind]):
            if full in table:
                return Signal(full, kind, table[full][1])
    # Suggest what looks like what was written: with its suffix or without.
    known = [
        full if name.endswith(_SUFFIXES[kind]) else full.removesuffix(_SUFFIXES[kind])
        for kind, table in tables.items()
        for full in table
    ]
    wanted = ' or '.join(kind.name for kind in tables)
    raise SignalError(
        f'Could not resolve signal {name!r} as {wanted} of the model; {nearest(name, known)}.'
    )


def _find_signals(model: mujoco.MjModel, names: Names, kinds: tuple[SignalType, ...]) -> SignalDict:
    """Lay out named signals side by side, in the order given."""
    found: SignalDict = {}
    begin = 0
    for item in names:
        name, hint = (item, None) if isinstance(item, str) else item
        if hint is not None and hint not in kinds:
            allowed = ', '.join(kind.name for kind in kinds)
            raise SignalError(
                f'Signal {name!r} has type {hint.name} which is not allowed here; use {allowed}.'
            )
        signal = find_signal(model, name, kinds if hint is None else (hint,))
        if signal.name in found:
            raise SignalError(f'Expected each signal once, found {signal.name!r} twice.')
        end = begin + len(signal.columns)
        found[signal.name] = (signal.kind, np.arange(begin, end))
        begin = end
    return found


def _table(model: mujoco.MjModel, kind: SignalType) -> SignalDict:
    """Return the signals of one kind, free joints also under their own names."""
    if kind is SignalType.MjSensor:
        return sensor_mapping(model)
    if kind is SignalType.MjCtrl:
        return control_mapping(model)
    if kind not in STATES:
        return {}
    table = state_mappings(model)[STATES.index(kind)]
    if kind is not SignalType.MjStateAct:
        suffix = _SUFFIXES[kind]
        for index, name in enumerate(_joint_signal_names(model)):
            table.setdefault(model.joint(index).name + suffix, table[name + suffix])
    return table


def _names(model: mujoco.MjModel, element: str, count: int) -> list[str]:
    accessor = getattr(model, element)
    return [accessor(index).name or f'{element}[{index}]' for index in range(count)]


def _joint_signal_names(model: mujoco.MjModel) -> list[str]:
    """Name each joint's signals: after the joint, for a free one after its body.

    Where another joint has the body's name, or the body has none, the free joint's own is taken.
    """
    names = _names(model, 'joint', model.njnt)
    widths = np.diff(np.append(model.jnt_qposadr, model.nq))
    for index in np.flatnonzero(widths == _FREE_QPOS):
        body = model.body(int(model.jnt_bodyid[index])).name
        if body and body not in names:
            names[index] = body
    return names


def _spans(
    names: Iterable[str], kind: SignalType, begins: Iterable[int], widths: Iterable[int]
) -> SignalDict:
    return {
        name + _SUFFIXES[kind]: (kind, np.arange(begin, begin + width, dtype=np.int64))
        for name, begin, width in zip(names, begins, widths, strict=True)
    }


class TimeSeries(signals.TimeSeries):
    """Named channels sampled at common instants; immutable."""

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
        cls, times: ArrayLike, data: ArrayLike, model: mujoco.MjModel, names: Names | None = None
    ) -> Self:
        """Build a series of sensors and states of a model, by default of all sensors.

        Args:
            times: (n,) seconds.
            data: (n, k) values.
            model: The model that has the signals.
            names: What the columns are, in order: names of sensors, or of joints, free bodies and
                actuators with activation, with or without ``_qpos``, ``_qvel``, ``_act``; a pair
                of name and kind where the name alone is ambiguous.

        Raises:
            SignalError: The model has no such signal, it comes twice or is a control (see
                ``from_control_names``), or their widths do not add up to the columns.
        """
        if names is None:
            return cls._of_signals(times, data, sensor_mapping(model))
        return cls._of_signals(times, data, _find_signals(model, names, OBSERVATIONS))

    @classmethod
    def from_control_names(
        cls, times: ArrayLike, data: ArrayLike, model: mujoco.MjModel, names: Names | None = None
    ) -> Self:
        """Build a series of controls, of all actuators or of those named, as ``from_names``."""
        if names is None:
            return cls._of_signals(times, data, control_mapping(model))
        return cls._of_signals(times, data, _find_signals(model, names, (SignalType.MjCtrl,)))

    compute_all_sensor_mapping = staticmethod(sensor_mapping)
    compute_all_control_mapping = staticmethod(control_mapping)

    @staticmethod
    def compute_all_state_mappings(
        model: mujoco.MjModel,
    ) -> tuple[SignalDict, SignalDict, SignalDict, SignalDict]:
        """Map ``qpos``, ``qvel``, ``act`` (see ``state_mappings``) and ``ctrl`` of the model."""
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
    def duration(self) -> float:
        """Seconds between the first and the last sample."""
        return float(self.times[-1] - self.times[0]) if len(self) else 0.0

    @overload
    def get(self, t: str) -> NDArray[np.float64]: ...
    @overload
    def get(
        self, t: Instants, method: InterpolationMethod = 'linear'
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def get(
        self, t: str | Instants, method: InterpolationMethod = 'linear'
    ) -> NDArray[np.float64] | tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the (n, d) samples of a signal, or one instant or (m,) of them and their values.

        Raises:
            SignalError: There is no signal of that name, or see ``interpolate``.
        """
        if isinstance(t, str):
            return super().get(t)
        at = np.asarray(t, dtype=np.float64)
        values = self.interpolate(at, method)
        return at, values if at.ndim else values[0]

    def slice_by_name(self, enabled_sensors: Iterable[str]) -> TimeSeries:
        """Keep only some signals: ``TimeSeries.slice_by_name(series, names)`` works as well.

        The names are the order of the new mapping; columns stay in the order of this mapping.

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
        """Evaluate all columns at other instants, as the base class does, or by splines.

        ``quadratic``, ``cubic`` and ``quintic`` are splines of degree 2, 3, 5 with not-a-knot ends
        through the samples that are there. A column with fewer of these than the spline needs is
        interpolated linearly.

        Raises:
            SignalError: There are too few samples for the method, an instant is not finite, or
                there is no such method.
        """
        methods = get_args(InterpolationMethod)
        if method not in methods:
            raise SignalError(f'No interpolation method {method!r}; {nearest(method, methods)}.')
        if method in {'zoh', 'zero_order_hold'}:
            return super().interpolate(t, 'zoh')
        linear = super().interpolate(t)
        if method == 'linear':
            return linear
        from scipy.interpolate import make_interp_spline  # noqa: PLC0415 (slow to import)

        degree = _DEGREES[method]
        if len(self) <= degree:
            raise SignalError(
                f'Interpolation {method!r} needs {degree + 1} samples, found {len(self)}.'
            )
        at = np.clip(np.atleast_1d(np.asarray(t, dtype=np.float64)), *self.times[[0, -1]])
        origin, values = self.times[0], linear.reshape(len(at), -1).copy()
        for column, samples in enumerate(self.matrix.T):
            there, known = np.isfinite(samples), np.isfinite(values[:, column])
            if np.count_nonzero(there) > degree:
                spline = make_interp_spline(self.times[there] - origin, samples[there], degree)
                values[known, column] = spline(at[known] - origin)
        return values.reshape(linear.shape)

    def resample(
        self,
        new_times: ArrayLike | None = None,
        target_dt: float | None = None,
        method: InterpolationMethod = 'linear',
    ) -> TimeSeries:
        """Interpolate to (m,) strictly increasing stamps, or to a grid of ``target_dt`` seconds.

        The grid is ``times[0] + k * target_dt``, exactly, as far as the last sample. Samples that
        are on it but for the rounding of their stamps are taken as they are.

        Raises:
            SignalError: Neither is given, ``target_dt`` is not positive, ``new_times`` are not
                strictly increasing, or see ``interpolate``.
        """
        if new_times is not None:
            stamps = np.asarray(new_times, dtype=np.float64)
            if stamps.ndim != 1:
                raise SignalError(f'Expected new_times of shape (m,), found {stamps.shape}.')
            return TimeSeries(stamps, self.interpolate(stamps, method), self.signal_mapping)
        if target_dt is None or not (target_dt > 0 and np.isfinite(target_dt)):
            raise SignalError(f'Expected new_times or a positive target_dt, found {target_dt}.')
        self._needs_samples(1)
        stamps = regular_grid(self.times, float(target_dt))
        at = snapped(stamps, self.times, float(target_dt))
        return TimeSeries(stamps, self.interpolate(at, method), self.signal_mapping)

    def remove_from_beginning(self, time_to_remove_s: float) -> TimeSeries:
        """Drop the first seconds and set the clock back by as much.

        A sample keeps its distance to the samples of another series that is shortened by the same
        time, whatever the rates of the two. A sample at just that time is kept.

        Raises:
            SignalError: The time is negative, or nothing would be left.
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

    def save_to_disk(self, path: str | PathLike[str]) -> None:
        """Write an ``.npz`` file, without pickle, that MuJoCo's sysid toolbox reads as well.

        Raises:
            ResultError: The folder cannot be written.
        """
        write_arrays(path, self.arrays())

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
        arrays = read_arrays(path, ('times', 'data'))
        return cls(arrays['times'], arrays['data'], stored_mapping(arrays))

    def _needs_samples(self, count: int) -> None:
        if len(self) < count:
            raise SignalError(
                f'Expected a time series of at least {count} samples, found {len(self)}.'
            )


def slack(times: NDArray[np.float64], period: float) -> float:
    """Return by how much (n,) stamps may differ from a grid of a period and be on it, s."""
    rounding = _ROUNDING_STEPS * float(np.spacing(np.max(np.abs(times))))
    return min(_SAME_INSTANT * period + rounding, _LARGEST_SLACK * period)


def regular_grid(times: NDArray[np.float64], period: float) -> NDArray[np.float64]:
    """Return the instants ``times[0] + k * period`` up to the last stamp.

    A last stamp that misses the grid only by the rounding of its digits is on it, so that samples
    taken with the period give as many instants as there are samples, also where the stamps count
    from the epoch.
    """
    span = times[-1] - times[0]
    steps = int(np.floor((span + slack(times[[0, -1]], period)) / period))
    grid: NDArray[np.float64] = times[0] + np.arange(steps + 1) * period
    return grid


def snapped(
    at: NDArray[np.float64], times: NDArray[np.float64], period: float
) -> NDArray[np.float64]:
    """Move (m,) instants, a period apart, onto the stamps that they miss only by rounding."""
    after = np.clip(np.searchsorted(times, at), 0, len(times) - 1)
    before = np.clip(after - 1, 0, None)
    stamp = np.where(at - times[before] < times[after] - at, times[before], times[after])
    near = np.abs(stamp - at) <= slack(np.append(times[[0, -1]], at[[0, -1]]), period)
    moved: NDArray[np.float64] = np.where(near, stamp, at)
    return moved


def held_means(
    times: NDArray[np.float64], data: NDArray[np.float64], edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the (m, k) means over steps of (n, k) samples that hold until the next.

    A simulation takes one value per step; with the mean, a change inside a step has its exact
    impulse. Where nothing changes, the value is the sample itself, bit by bit. The steps have
    (m + 1,) increasing limits; the first sample holds also before it.
    """
    index = np.clip(np.searchsorted(times, edges, side='right') - 1, 0, None)
    held = data[index]
    areas = np.zeros_like(data)
    np.cumsum(data[:-1] * np.diff(times)[:, None], axis=0, out=areas[1:])
    integral = areas[index] + held * (edges - times[index])[:, None]
    # A change exactly at the end of a step belongs to the next one.
    last = np.clip(np.searchsorted(times, edges[1:], side='left') - 1, 0, None)
    same = (last <= index[:-1])[:, None]
    means: NDArray[np.float64] = np.diff(integral, axis=0) / np.diff(edges)[:, None]
    controls: NDArray[np.float64] = np.where(same, held[:-1], means)
    return controls


def stored_mapping(arrays: Mapping[str, NDArray[Any]], prefix: str = '') -> SignalDict:
    """Read the mapping of a stored series; it is empty where the file has none.

    Raises:
        SignalError: It is malformed.
    """
    encoded = str(arrays.get(f'{prefix}signal_mapping', '{}'))
    try:
        return {
            name: (SignalType(kind), np.asarray(columns, dtype=np.int64))
            for name, (kind, columns) in json.loads(encoded).items()
        }
    except (ValueError, TypeError, AttributeError) as err:
        raise SignalError(
            f'Expected a signal mapping as JSON, name to [type, columns], found {encoded[:60]!r}.'
        ) from err


def read_arrays(path: str | PathLike[str], needed: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Read the arrays of an ``.npz`` file, whose suffix may be left out, unpickling nothing.

    Raises:
        SignalError: There is no such file, it is not of this kind, or a needed array is missing.
    """
    path = Path(path)
    if not path.is_file() and not path.name.endswith('.npz'):
        path = path.with_name(f'{path.name}.npz')
    if not path.is_file():
        siblings = sorted(entry.name for entry in path.parent.glob('*.npz'))
        raise SignalError(f'No file {str(path)!r}; {nearest(path.name, siblings)}.')
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, AttributeError, EOFError, zipfile.BadZipFile) as err:
        raise SignalError(
            f'Expected a .npz file of numeric arrays, found something else in {str(path)!r}.'
        ) from err
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise SignalError(
            f'Expected {", ".join(missing)} in {str(path)!r}, found {", ".join(arrays) or "none"}.'
        )
    return arrays

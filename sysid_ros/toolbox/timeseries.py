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
from sysid_ros.files import replace_file, write_arrays
from sysid_ros.signals import Instants, SignalMapping, SignalType

Array = NDArray[np.float64]
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
    """Find a signal by its name, with or without its suffix; the first kind that has it counts."""
    tables = {kind: _signals(model, kind) for kind in kinds}
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


def _signals(model: mujoco.MjModel, kind: SignalType) -> SignalDict:
    """Return the signals of one kind, free joints also under their own names."""
    if kind in STATES:
        table = state_mappings(model)[STATES.index(kind)]
        for index, name in enumerate(_joint_signal_names(model)):
            if kind is not SignalType.MjStateAct:
                suffix = _SUFFIXES[kind]
                table.setdefault(model.joint(index).name + suffix, table[name + suffix])
        return table
    tables = {SignalType.MjSensor: sensor_mapping, SignalType.MjCtrl: control_mapping}
    return tables[kind](model) if kind in tables else {}


def _names(model: mujoco.MjModel, element: str, count: int) -> list[str]:
    accessor = getattr(model, element)
    return [accessor(index).name or f'{element}[{index}]' for index in range(count)]


def _joint_signal_names(model: mujoco.MjModel) -> list[str]:
    """Name each joint's signals: after the joint, for a free one after its body.

    Where another joint has the body's name, or the body has none, the free joint's own is taken.
    """
    names = _names(model, 'joint', model.njnt)
    for index in np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE.value):
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


def _side_by_side(signals: Iterable[tuple[str, SignalType, int]]) -> SignalDict:
    """Lay out signals of names, kinds and widths side by side, in the order given."""
    mapping: SignalDict = {}
    begin = 0
    for name, kind, width in signals:
        if width <= 0 or name in mapping:
            raise SignalError(
                f'Signal {name!r} must come once and have positive width, got {width}.'
            )
        mapping[name] = (kind, np.arange(begin, begin + width))
        begin += width
    return mapping


class TimeSeries(signals.TimeSeries):
    """Named channels sampled at common instants; immutable, and never empty."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not len(self.times):
            raise SignalError('Empty arrays are not allowed in a time series, expected samples.')

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
        """Build a series of (n, k) values of signals that the model need not have.

        ``signals`` says what the columns are, in order: a name (one column, ``CustomObs``), or
        name, number of columns and kind.
        """
        named = [(s, 1, SignalType.CustomObs) if isinstance(s, str) else s for s in signals]
        mapping = _side_by_side((name, kind, width) for name, width, kind in named)
        return cls._of_signals(times, data, mapping)

    @classmethod
    def from_names(
        cls, times: ArrayLike, data: ArrayLike, model: mujoco.MjModel, names: Names | None = None
    ) -> Self:
        """Build a series of (n, k) values of sensors and states, by default of all sensors.

        ``names`` says what the columns are, in order: sensors, or joints, free bodies and
        actuators with activation, with or without ``_qpos``, ``_qvel``, ``_act``; a pair of name
        and kind where the name alone is ambiguous.
        """
        return cls._of_model(times, data, model, names, OBSERVATIONS)

    @classmethod
    def from_control_names(
        cls, times: ArrayLike, data: ArrayLike, model: mujoco.MjModel, names: Names | None = None
    ) -> Self:
        """Build a series of controls, of all actuators or of those named, as ``from_names``."""
        return cls._of_model(times, data, model, names, (SignalType.MjCtrl,))

    @classmethod
    def _of_model(
        cls,
        times: ArrayLike,
        data: ArrayLike,
        model: mujoco.MjModel,
        names: Names | None,
        kinds: tuple[SignalType, ...],
    ) -> Self:
        if names is None:
            return cls._of_signals(times, data, _signals(model, kinds[0]))
        found = []
        for item in names:
            name, hint = (item, None) if isinstance(item, str) else item
            if hint is not None and hint not in kinds:
                allowed = ', '.join(kind.name for kind in kinds)
                raise SignalError(
                    f'Signal {name!r} has type {hint.name} which is not allowed here; use '
                    f'{allowed}.'
                )
            found.append(find_signal(model, name, kinds if hint is None else (hint,)))
        mapping = _side_by_side((s.name, s.kind, len(s.columns)) for s in found)
        return cls._of_signals(times, data, mapping)

    @classmethod
    def _of_signals(cls, times: ArrayLike, data: ArrayLike, mapping: SignalMapping) -> Self:
        """Build a series whose columns are those of its signals, and no others."""
        width = sum(len(columns) for _, columns in mapping.values())
        values = np.asarray(data, dtype=np.float64)
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or values.shape[1] != width:  # noqa: PLR2004 (rows and columns)
            raise SignalError(
                f'Expected data of shape (n, {width}) for the signals {", ".join(mapping)}, '
                f'found {np.shape(data)}.'
            )
        return cls(np.asarray(times), values, mapping)

    compute_all_sensor_mapping = staticmethod(sensor_mapping)
    compute_all_control_mapping = staticmethod(control_mapping)

    @staticmethod
    def compute_all_state_mappings(
        model: mujoco.MjModel,
    ) -> tuple[SignalDict, SignalDict, SignalDict, SignalDict]:
        """Map ``qpos``, ``qvel``, ``act`` (see ``state_mappings``) and ``ctrl`` of the model."""
        return *state_mappings(model), control_mapping(model)

    @property
    def duration(self) -> float:
        """Seconds between the first and the last sample."""
        return float(self.times[-1] - self.times[0])

    def rows(self, chosen: slice | NDArray[Any]) -> TimeSeries:
        """Keep some of the samples."""
        return TimeSeries(self.times[chosen], self.data[chosen], self.signal_mapping)

    @overload
    def get(self, t: str) -> Array: ...
    @overload
    def get(self, t: Instants, method: InterpolationMethod = 'linear') -> tuple[Array, Array]: ...
    def get(
        self, t: str | Instants, method: InterpolationMethod = 'linear'
    ) -> Array | tuple[Array, Array]:
        """Return (n, d) samples of a signal, or one instant or (m,) of them and their values."""
        if isinstance(t, str):
            return super().get(t)
        at = np.asarray(t, dtype=np.float64)
        values = self.interpolate(at, method)
        return at, values if at.ndim else values[0]

    def slice_by_name(ts, enabled_sensors: Iterable[str]) -> TimeSeries:  # noqa: N805
        """Keep only some signals; ``TimeSeries.slice_by_name(ts=…, …)`` works as well.

        The names are the order of the new mapping; columns stay in the order of this mapping.
        """
        if not ts.signal_mapping:
            return ts
        wanted = list(dict.fromkeys(enabled_sensors))
        kept = {int(column) for name in wanted for column in ts.get_indices(name)[1]}
        mapped = (int(column) for _, at in ts.signal_mapping.values() for column in at)
        order = [column for column in dict.fromkeys(mapped) if column in kept]
        mapping = {}
        for name in wanted:
            kind, columns = ts.signal_mapping[name]
            mapping[name] = (kind, np.array([order.index(c) for c in columns], dtype=np.int64))
        return TimeSeries(ts.times, ts.matrix[:, order], mapping)

    def interpolate(self, t: Instants, method: InterpolationMethod = 'linear') -> Array:
        """Evaluate all columns at other instants, as the base class does, or by splines.

        A column with fewer samples than the spline needs is interpolated linearly.
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
        """
        if new_times is not None:
            stamps = np.asarray(new_times, dtype=np.float64)
            if stamps.ndim != 1:
                raise SignalError(f'Expected new_times of shape (m,), found {stamps.shape}.')
            return TimeSeries(stamps, self.interpolate(stamps, method), self.signal_mapping)
        if target_dt is None or not (target_dt > 0 and np.isfinite(target_dt)):
            raise SignalError(f'Expected new_times or a positive target_dt, found {target_dt}.')
        stamps = regular_grid(self.times, float(target_dt))
        at = snapped(stamps, self.times, float(target_dt))
        return TimeSeries(stamps, self.interpolate(at, method), self.signal_mapping)

    def remove_from_beginning(self, time_to_remove_s: float) -> TimeSeries:
        """Drop the first seconds and set the clock back by as much.

        A sample keeps its distance to the samples of another series that is shortened by the same
        time, whatever the rates of the two. A sample at just that time is kept.
        """
        if not 0 <= time_to_remove_s <= self.duration:
            raise SignalError(
                f'Expected 0 to {self.duration:g} s to remove, found {time_to_remove_s:g} s.'
            )
        begin = self.times[0] + time_to_remove_s
        period = self.duration / max(len(self) - 1, 1)
        first = int(np.searchsorted(self.times, begin - slack(self.times[[0, -1]], period)))
        return TimeSeries(
            self.times[first:] - time_to_remove_s, self.data[first:], self.signal_mapping
        )

    def dt_statistics(self) -> dict[str, float]:
        """Return mean, median, std, min and max of the intervals between stamps, seconds."""
        if len(self) == 1:
            raise SignalError('Expected a time series of at least 2 samples, found 1.')
        gaps = np.diff(self.times)
        return {
            word: float(getattr(np, word)(gaps)) for word in ('mean', 'median', 'std', 'min', 'max')
        }

    def save_to_disk(self, path: str | PathLike[str]) -> None:
        """Write an ``.npz`` file, without pickle, that MuJoCo's sysid toolbox reads as well."""
        write_arrays(path, self.arrays())

    def save_to_csv(self, path: str | PathLike[str]) -> None:
        """Write time and data as comma-separated numbers without a header."""
        stream = io.BytesIO()
        np.savetxt(stream, np.column_stack([self.times, self.matrix]), delimiter=',')
        replace_file(Path(path), stream.getvalue())

    @classmethod
    def load_from_disk(cls, path: str | PathLike[str]) -> TimeSeries:
        """Read what ``save_to_disk`` wrote, here or in MuJoCo's sysid toolbox."""
        return stored_series(read_arrays(path, ('times', 'data')))


def slack(times: Array, period: float) -> float:
    """Return by how much (n,) stamps may differ from a grid of a period and be on it, s.

    It is a millionth of the period and four steps to the neighbouring float, 1 µs for seconds since
    the epoch, but at most a quarter of the period.
    """
    return float(min(1e-6 * period + 4 * np.spacing(np.max(np.abs(times))), period / 4))


def regular_grid(times: Array, period: float) -> Array:
    """Return the instants ``times[0] + k * period`` up to the last stamp.

    A last stamp that misses the grid only by the rounding of its digits is on it, so that samples
    taken with the period give as many instants as there are samples.
    """
    span = times[-1] - times[0]
    steps = int(np.floor((span + slack(times[[0, -1]], period)) / period))
    grid: Array = times[0] + np.arange(steps + 1) * period
    return grid


def snapped(at: Array, times: Array, period: float) -> Array:
    """Move (m,) instants, a period apart, onto the stamps that they miss only by rounding."""
    after = np.clip(np.searchsorted(times, at), 0, len(times) - 1)
    before = np.clip(after - 1, 0, None)
    stamp = np.where(at - times[before] < times[after] - at, times[before], times[after])
    near = np.abs(stamp - at) <= slack(np.append(times[[0, -1]], at[[0, -1]]), period)
    moved: Array = np.where(near, stamp, at)
    return moved


def stored_series(arrays: Mapping[str, NDArray[Any]], prefix: str = '') -> TimeSeries:
    """Return a stored series; its mapping is empty where the file has none."""
    encoded = str(arrays.get(f'{prefix}signal_mapping', '{}'))
    try:
        mapping = {
            name: (SignalType(kind), np.asarray(columns, dtype=np.int64))
            for name, (kind, columns) in json.loads(encoded).items()
        }
    except (ValueError, TypeError, AttributeError) as err:
        raise SignalError(
            f'Expected a signal mapping as JSON, name to [type, columns], found {encoded[:60]!r}.'
        ) from err
    return TimeSeries(arrays[f'{prefix}times'], arrays[f'{prefix}data'], mapping)


def read_arrays(path: str | PathLike[str], needed: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Read the arrays of an ``.npz`` file, whose suffix may be left out, unpickling nothing."""
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

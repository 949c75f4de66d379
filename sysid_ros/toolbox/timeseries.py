# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Time series of MuJoCo's sysid toolbox, and what is done with their signals, always by name.

A sensor is called by its own name, a control ``NAME_ctrl``, states ``NAME_qpos``, ``NAME_qvel`` and
``NAME_act``. A free joint is named after its body. An element without a name is called
``sensor[2]``, ``actuator[0]``, ``joint[1]``, with its index.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, get_args, overload

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysid_ros import signals
from sysid_ros.bags.budget import Budget
from sysid_ros.errors import SignalError, nearest
from sysid_ros.files import beside, check_file, replace_file, write_arrays
from sysid_ros.signals import Instants, SignalType
from sysid_ros.toolbox.parameter import Parameter

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


def signals_of(model: mujoco.MjModel, kind: SignalType) -> SignalDict:
    """Map every signal of a kind to its columns, of which it may have several.

    They are those of ``sensordata`` for a sensor, of ``ctrl`` for a control, and for a state those
    of the full physics state without its first number, the time.
    """
    nq, nv = model.nq, model.nv
    if kind is SignalType.MjSensor:
        names = _names(model, 'sensor', model.nsensor)
        begins, widths = model.sensor_adr, model.sensor_dim
    elif kind is SignalType.MjStateQPos:
        names, begins = _joint_signal_names(model), model.jnt_qposadr
        widths = np.diff(begins, append=nq)
    elif kind is SignalType.MjStateQVel:
        names, begins = _joint_signal_names(model), model.jnt_dofadr + nq
        widths = np.diff(begins, append=nq + nv)
    else:
        names = _names(model, 'actuator', model.nactuator)
        begins, widths = model.actuator_ctrladr, model.actuator_ctrlnum
        if kind is SignalType.MjStateAct:
            begins, widths = model.actuator_actadr + nq + nv, model.actuator_actnum
    return {
        name + _SUFFIXES[kind]: (kind, np.arange(begin, begin + width, dtype=np.int64))
        for name, begin, width in zip(names, begins, widths, strict=True)
        if width > 0
    }


def sensor_mapping(model: mujoco.MjModel) -> SignalDict:
    """Map every sensor of a model to its columns in ``sensordata``."""
    return signals_of(model, SignalType.MjSensor)


def control_mapping(model: mujoco.MjModel) -> SignalDict:
    """Map every actuator of a model to its columns in ``ctrl``."""
    return signals_of(model, SignalType.MjCtrl)


def state_mapping(model: mujoco.MjModel) -> SignalDict:
    """Map every part of the state of a model to its columns in it, not counting the time."""
    return {name: entry for kind in STATES for name, entry in signals_of(model, kind).items()}


def find_signal(
    model: mujoco.MjModel, name: str, kinds: Iterable[SignalType] = OBSERVATIONS
) -> tuple[str, SignalType, NDArray[np.int64]]:
    """Return full name, kind and columns of a signal; its name may be without the suffix.

    The first kind that has it counts; free joints are found under their own names, too.
    """
    kinds = tuple(kinds)
    known: list[str] = []
    for kind in kinds:
        suffix, table = _SUFFIXES[kind], signals_of(model, kind)
        if kind in STATES[:2]:
            for joint, signal in enumerate(_joint_signal_names(model)):
                table.setdefault(model.joint(joint).name + suffix, table[signal + suffix])
        for full in (name, name + suffix):
            if full in table:
                return full, kind, table[full][1]
        # Suggest what looks like what was written: with its suffix or without.
        known += [n if name.endswith(suffix) else n.removesuffix(suffix) for n in table]
    wanted = ' or '.join(kind.name for kind in kinds)
    raise SignalError(
        f'Could not resolve signal {name!r} as {wanted} of the model; {nearest(name, known)}.'
    )


def _names(model: mujoco.MjModel, element: str, count: int) -> list[str]:
    accessor = getattr(model, element)
    return [accessor(index).name or f'{element}[{index}]' for index in range(count)]


def _joint_signal_names(model: mujoco.MjModel) -> list[str]:
    """Name each joint's signals: after the joint, for a free one after its body if that is new."""
    names = _names(model, 'joint', model.njnt)
    for index in np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE.value):
        body = model.body(int(model.jnt_bodyid[index])).name
        if body and body not in names:
            names[index] = body
    return names


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
        cls, times: ArrayLike, data: ArrayLike, signals: Sequence[str | tuple[str, int, SignalType]]
    ) -> Self:
        """Build a series of (n, k) values of signals that the model need not have.

        ``signals`` says what the columns are, in order: a name (one column, ``CustomObs``), or
        name, number of columns and kind.
        """
        mapping: SignalDict = {}
        begin = 0
        for signal in signals:
            name, width, kind = (
                (signal, 1, SignalType.CustomObs) if isinstance(signal, str) else signal
            )
            if width <= 0 or name in mapping:
                raise SignalError(
                    f'Signal {name!r} must come once and have positive width, got {width}.'
                )
            mapping[name] = (kind, np.arange(begin, begin + width))
            begin += width
        values = np.asarray(data, dtype=np.float64)
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or values.shape[1] != begin:  # noqa: PLR2004 (rows and columns)
            raise SignalError(
                f'Expected data of shape (n, {begin}) for the signals {", ".join(mapping)}, '
                f'found {np.shape(data)}.'
            )
        return cls(np.asarray(times), values, mapping)

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
        every = signals_of(model, kinds[0]) if names is None else {}
        found = [(name, len(at), kind) for name, (kind, at) in every.items()]
        for item in names or ():
            name, hint = (item, None) if isinstance(item, str) else item
            if hint is not None and hint not in kinds:
                allowed = ', '.join(kind.name for kind in kinds)
                raise SignalError(
                    f'Signal {name!r} has type {hint.name} which is not allowed here; use '
                    f'{allowed}.'
                )
            full, kind, at = find_signal(model, name, kinds if hint is None else (hint,))
            found.append((full, len(at), kind))
        return cls.from_custom_map(times, data, found)

    compute_all_sensor_mapping = staticmethod(sensor_mapping)
    compute_all_control_mapping = staticmethod(control_mapping)

    @staticmethod
    def compute_all_state_mappings(
        model: mujoco.MjModel,
    ) -> tuple[SignalDict, SignalDict, SignalDict, SignalDict]:
        """Map ``qpos``, ``qvel``, ``act`` and ``ctrl`` of the model."""
        qpos, qvel, act, ctrl = (signals_of(model, k) for k in (*STATES, SignalType.MjCtrl))
        return qpos, qvel, act, ctrl

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
        wanted = {name: ts.get_indices(name) for name in enabled_sensors}
        kept = [
            column for name, (_, at) in ts.signal_mapping.items() if name in wanted for column in at
        ]
        order = list(dict.fromkeys(kept))
        mapping = {n: (kind, [order.index(at) for at in own]) for n, (kind, own) in wanted.items()}
        return TimeSeries.create(ts.times, ts.matrix[:, np.array(order, dtype=np.int64)], mapping)

    def interpolate(self, t: Instants, method: InterpolationMethod = 'linear') -> Array:
        """Evaluate all columns at other instants, those with few samples linearly at any rate."""
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

        The grid is ``times[0] + k * target_dt``, exactly, as far as the last sample, which may miss
        it by rounding.
        """
        if new_times is not None:
            stamps = np.asarray(new_times, dtype=np.float64)
            if stamps.ndim != 1:
                raise SignalError(f'Expected new_times of shape (m,), found {stamps.shape}.')
            return TimeSeries(stamps, self.interpolate(stamps, method), self.signal_mapping)
        if target_dt is None or not 0 < target_dt < np.inf:
            raise SignalError(f'Expected new_times or a positive target_dt, found {target_dt}.')
        rounding = slack(self.times[[0, -1]], target_dt)
        count = 1 + int(np.floor((self.duration + rounding) / target_dt))
        stamps = self.times[0] + np.arange(count) * target_dt
        # A held value is that of the sample that is meant, also just before it.
        held = rounding if method in {'zoh', 'zero_order_hold'} else 0.0
        return TimeSeries(stamps, self.interpolate(stamps + held, method), self.signal_mapping)

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
    """Return by how much (n,) stamps may differ from a grid of a period and be on it, s."""
    # Four steps to the neighbouring float are 1 µs for seconds since the epoch.
    return float(min(1e-6 * period + 4 * np.spacing(np.max(np.abs(times))), period / 4))


def since(times: Array, origin: float, timestep: float) -> Array:
    """Return stamps in seconds from an origin; what misses a step only by rounding is on it."""
    late = times - origin
    steps = timestep * np.rint(late / timestep)
    near = np.abs(late - steps) <= slack(np.append(times[[0, -1]], origin), timestep)
    return np.where(near, steps, late)


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
        raise SignalError(f'No file {str(path)!r}; {beside(path)}.')
    try:
        check_file(path, math.inf)
        with np.load(path, allow_pickle=False) as stored:
            sizes = (entry.file_size for entry in stored.zip.infolist())
            Budget(path.stat().st_size).take(sum(sizes))
            arrays = {name: stored[name] for name in stored.files}
    # NumPy lets everything through that damaged bytes can cause.
    except Exception as err:
        raise SignalError(
            f'Expected a .npz file of numeric arrays, found something else in {str(path)!r}.'
        ) from err
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise SignalError(
            f'Expected {", ".join(missing)} in {str(path)!r}, found {", ".join(arrays) or "none"}.'
        )
    return arrays


def get_sensor_indices(
    model: mujoco.MjModel, sensor_name: str | Sequence[str], sort: bool = False
) -> list[int]:
    """Return the places of one or several sensors in ``sensordata``, in the order of the names."""
    names = [sensor_name] if isinstance(sensor_name, str) else sensor_name
    found = [find_signal(model, name, (SignalType.MjSensor,))[2] for name in names]
    places: list[int] = np.concatenate([np.zeros(0, dtype=np.int64), *found]).tolist()
    return sorted(places) if sort else places


def apply_bias(ts: TimeSeries, sensor_name: str, bias: Parameter) -> TimeSeries:
    """Add a parameter's value, one for all columns of a signal or one for each, in its unit."""
    return corrected(ts, sensor_name, [], [bias])


def apply_gain(ts: TimeSeries, sensor_name: str, gain: Parameter) -> TimeSeries:
    """Multiply a signal by a parameter's value, one for all of its columns or one for each."""
    return corrected(ts, sensor_name, [gain], [])


def corrected(
    ts: TimeSeries, signal: str, gains: Iterable[Parameter], biases: Iterable[Parameter]
) -> TimeSeries:
    """Multiply a signal by parameters and then add others."""
    columns = ts.get_indices(signal)[1]
    data = np.array(ts.matrix)
    for gain in gains:
        data[:, columns] *= _per_column(gain, signal, len(columns))
    for bias in biases:
        data[:, columns] += _per_column(bias, signal, len(columns))
    return TimeSeries(ts.times, data.reshape(ts.data.shape), ts.signal_mapping)


def _per_column(parameter: Parameter, signal: str, width: int) -> Array:
    value = parameter.as_vector()
    if len(value) not in {1, width}:
        expected = '1 value' if width == 1 else f'1 or {width} values'
        raise SignalError(
            f'Parameter {parameter.name!r} acts on signal {signal!r}, '
            f'expected {expected}, found {len(value)}.'
        )
    return value


def apply_delay(ts: TimeSeries, sensor_name: str, delay: Parameter) -> TimeSeries:
    """Delay a signal by a parameter in seconds: out(t) = in(t - d), linear between samples."""
    value = float(_per_column(delay, sensor_name, 1)[0])
    return apply_resample_and_delay(ts, ts.times, 0.0, {sensor_name: value})


def apply_time_window(ts: TimeSeries, min_t: float, max_t: float) -> TimeSeries:
    """Keep the samples from one instant to another, s; a stamp just beside one is on it."""
    rounding = slack(ts.times[[0, -1]], ts.duration / max(len(ts) - 1, 1))
    inside = (ts.times >= min_t - rounding) & (ts.times <= max_t + rounding)
    if not inside.any():
        raise SignalError(
            f'Expected samples between {min_t:g} and {max_t:g} s, found {ts.times[0]:g} to '
            f'{ts.times[-1]:g} s.'
        )
    return ts.rows(inside)


def apply_delayed_ts_window(
    ts: TimeSeries, ts_delayed: TimeSeries, min_delay: float, max_delay: float
) -> TimeSeries:
    """Keep the samples that can be compared with a series whatever its delay.

    A series from t₀ to t₁ that is delayed by d is known from t₀ + d to t₁ + d; for every d between
    the two delays, in seconds, it is known from t₀ + max_delay to t₁ + min_delay.
    """
    if min_delay > max_delay:
        raise SignalError(
            f'Expected min_delay up to max_delay, found {min_delay:g} and {max_delay:g} s.'
        )
    return apply_time_window(ts, ts_delayed.times[0] + max_delay, ts_delayed.times[-1] + min_delay)


def apply_resample_and_delay(
    ts: TimeSeries,
    times: ArrayLike,
    default_delay: float,
    sensor_delays: Mapping[str, float] | None = None,
    predicted_data: bool = True,
) -> TimeSeries:
    """Evaluate a series at other (m,) instants, s, each signal delayed by its own time.

    ``default_delay``, s, is that of all signals that ``sensor_delays`` does not name. Without
    ``predicted_data`` the series is delayed already, as measurements are, and the delay is taken
    out: out(t) = in(t + d).
    """
    stamps = np.asarray(times, dtype=np.float64)
    delays = np.full(ts.matrix.shape[1], float(default_delay))
    for name, delay in (sensor_delays or {}).items():
        delays[ts.get_indices(name)[1]] = delay
    sign = -1.0 if predicted_data else 1.0
    data = np.empty((len(stamps), len(delays)))
    for delay in np.unique(delays):
        columns = np.flatnonzero(delays == delay)
        own = TimeSeries(ts.times, ts.matrix[:, columns])
        data[:, columns] = own.interpolate(stamps + sign * delay)
    return TimeSeries(stamps, data.reshape(len(stamps), *ts.data.shape[1:]), ts.signal_mapping)


def weighted_diff(
    predicted_data: Array | TimeSeries,
    measured_data: Array | TimeSeries,
    model: mujoco.MjModel | None = None,
    sensor_weights: Mapping[str, float] | Array | None = None,
) -> Array:
    """Return measured minus predicted times weights, (n, k) in the order of the measured columns.

    Series that name their signals are compared signal by signal, and weights are looked up by name,
    so that neither the order of the columns nor missing sensors matter; the columns of other data
    are those of the model's sensors. What has no weight has 1, and NaN stays NaN.
    """
    mapping = measured_data.signal_mapping if isinstance(measured_data, TimeSeries) else {}
    measured, predicted = (
        np.asarray(part.matrix if isinstance(part, TimeSeries) else part, dtype=np.float64)
        for part in (measured_data, predicted_data)
    )
    if mapping and isinstance(predicted_data, TimeSeries) and predicted_data.signal_mapping:
        predicted = np.full((len(predicted), measured.shape[1]), np.nan)
        for name, (_, columns) in mapping.items():
            predicted[:, columns] = predicted_data.get(name)
    if predicted.shape != measured.shape:
        raise SignalError(
            f'Expected predicted and measured data of the same shape, '
            f'found {predicted.shape} and {measured.shape}.'
        )
    weights = np.ones(measured.shape[-1])
    if isinstance(sensor_weights, Mapping):
        for name, weight in sensor_weights.items():
            if name in mapping:
                weights[mapping[name][1]] = weight
            elif model is None:
                raise SignalError(
                    f'There is no signal {name!r} to weight; {nearest(name, mapping)}.'
                )
            else:  # of sensors of the model, some need not be measured
                places = get_sensor_indices(model, name)
                weights[[] if mapping else places] = weight
    elif sensor_weights is not None:
        weights = np.asarray(sensor_weights, dtype=np.float64)
    difference: Array = (measured - predicted) * weights
    return difference


def normalize_residual(residual: Array, measured_data: Array) -> Array:
    """Divide each channel's residual by the norm of what was measured, over √2; (n, k) each.

    NaN samples do not count. A channel of zeros says nothing about the model: its residual becomes
    zero.
    """
    norms = np.sqrt(np.nansum(np.square(np.asarray(measured_data, dtype=np.float64)), axis=0) / 2)
    found: Array = np.where(norms > 0, residual / np.where(norms > 0, norms, 1.0), 0.0)
    return found

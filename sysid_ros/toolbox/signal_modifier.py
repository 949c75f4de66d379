# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Gains, biases, delays and weights of measured and predicted signals, always by name.

The names and signatures are those of MuJoCo's sysid toolbox; no function changes what it is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysid_ros.errors import SignalError, nearest
from sysid_ros.signals import SignalMapping
from sysid_ros.toolbox.timeseries import TimeSeries, slack

if TYPE_CHECKING:
    from sysid_ros.toolbox.parameter import Parameter

#: A channel that varies by less than this fraction of its largest value is dead: it varies by no
#: more than float32 rounds.
_DEAD = 1e-6
#: The same for a channel around zero, in SI units.
_DEAD_AROUND_ZERO = 1e-12


def get_sensor_indices(
    model: mujoco.MjModel,
    sensor_name: str | Sequence[str],
    sort: bool = False,  # noqa: FBT002 (the toolbox's signature)
) -> list[int]:
    """Return the places of one or several sensors in ``sensordata``, in the order of the names.

    Raises:
        SignalError: The model has no sensor of a name.
    """
    names = [sensor_name] if isinstance(sensor_name, str) else sensor_name
    places: list[int] = []
    for name in names:
        sensor = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, name)
        if sensor < 0:
            known = filter(None, (model.sensor(row).name for row in range(model.nsensor)))
            raise SignalError(f'The model has no sensor {name!r}; {nearest(name, known)}.')
        first = int(model.sensor_adr[sensor])
        places.extend(range(first, first + int(model.sensor_dim[sensor])))
    return sorted(places) if sort else places


def apply_bias(ts: TimeSeries, sensor_name: str, bias: Parameter) -> TimeSeries:
    """Add a parameter's value, one for all columns of a signal or one for each, in its unit.

    Raises:
        SignalError: There is no such signal, or the parameter has another size.
    """
    return corrected(ts, sensor_name, [], [bias])


def apply_gain(ts: TimeSeries, sensor_name: str, gain: Parameter) -> TimeSeries:
    """Multiply a signal by a parameter's value, one for all of its columns or one for each.

    Raises:
        SignalError: There is no such signal, or the parameter has another size.
    """
    return corrected(ts, sensor_name, [gain], [])


def corrected(
    ts: TimeSeries, signal: str, gains: Sequence[Parameter], biases: Sequence[Parameter]
) -> TimeSeries:
    """Multiply a signal by parameters and then add others."""
    columns = ts.get_indices(signal)[1]
    data = np.array(ts.matrix)
    for gain in gains:
        data[:, columns] *= per_column(gain, signal, len(columns))
    for bias in biases:
        data[:, columns] += per_column(bias, signal, len(columns))
    return TimeSeries(ts.times, data.reshape(ts.data.shape), ts.signal_mapping)


def per_column(parameter: Parameter, signal: str, width: int) -> NDArray[np.float64]:
    """Return a parameter's value as one number for all columns of a signal or one for each."""
    value = np.ravel(parameter.value).astype(np.float64)
    if len(value) not in {1, width}:
        expected = '1 value' if width == 1 else f'1 or {width} values'
        raise SignalError(
            f'Parameter {parameter.name!r} acts on signal {signal!r}, '
            f'expected {expected}, found {len(value)}.'
        )
    return value


def apply_delay(ts: TimeSeries, sensor_name: str, delay: Parameter) -> TimeSeries:
    """Delay a signal: out(t) = in(t - d), linear between samples; the others stay as they are.

    Before the first sample that arrives, its value is returned. NaN samples stay NaN locally. The
    parameter has one element, in seconds, negative to advance the signal.

    Raises:
        SignalError: There is no such signal, or the parameter has another size.
    """
    return apply_resample_and_delay(
        ts, ts.times, 0.0, {sensor_name: float(per_column(delay, sensor_name, 1)[0])}
    )


def apply_time_window(ts: TimeSeries, min_t: float, max_t: float) -> TimeSeries:
    """Keep the samples from one instant to another, s; a stamp just beside one is on it.

    Raises:
        SignalError: No sample would be left.
    """
    if len(ts):
        rounding = slack(ts.times[[0, -1]], ts.duration / max(len(ts) - 1, 1))
        first = int(np.searchsorted(ts.times, min_t - rounding, side='left'))
        last = int(np.searchsorted(ts.times, max_t + rounding, side='right'))
        if first < last:
            return TimeSeries(ts.times[first:last], ts.data[first:last], ts.signal_mapping)
    span = f'{ts.times[0]:g} to {ts.times[-1]:g} s' if len(ts) else 'none at all'
    raise SignalError(f'Expected samples between {min_t:g} and {max_t:g} s, found {span}.')


def apply_delayed_ts_window(
    ts: TimeSeries, ts_delayed: TimeSeries, min_delay: float, max_delay: float
) -> TimeSeries:
    """Keep the samples that can be compared with a series whatever its delay.

    A series from t₀ to t₁ that is delayed by d is known from t₀ + d to t₁ + d; for every d between
    the two delays, in seconds, it is known from t₀ + max_delay to t₁ + min_delay.

    Raises:
        SignalError: The delays are in the wrong order, or no sample would be left.
    """
    if min_delay > max_delay:
        raise SignalError(
            f'Expected min_delay up to max_delay, found {min_delay:g} and {max_delay:g} s.'
        )
    if not len(ts_delayed):
        raise SignalError('Expected samples in the series to delay, found none.')
    return apply_time_window(ts, ts_delayed.times[0] + max_delay, ts_delayed.times[-1] + min_delay)


def apply_resample_and_delay(
    ts: TimeSeries,
    times: ArrayLike,
    default_delay: float,
    sensor_delays: Mapping[str, float] | None = None,
    predicted_data: bool = True,  # noqa: FBT002 (the toolbox's signature)
) -> TimeSeries:
    """Evaluate a series at other instants, each signal delayed by its own time.

    It is linear between samples, held before the first and after the last.

    Args:
        ts: The series.
        times: (m,) instants, seconds, strictly increasing.
        default_delay: Delay of all signals that have none of their own, seconds.
        sensor_delays: Name of a signal to its delay, seconds.
        predicted_data: Whether the series is to be delayed, out(t) = in(t - d). Otherwise it is
            delayed already, as measurements are, and the delay is taken out: out(t) = in(t + d).

    Raises:
        SignalError: There is no such signal, or the instants do not increase.
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


def prepare_sensor_weights(
    sensor_weights: Mapping[str, float] | NDArray[np.float64],
    n_sensors: int,
    model: mujoco.MjModel | None = None,
    *,
    signal_mapping: SignalMapping | None = None,
) -> NDArray[np.float64]:
    """Return one weight for each of (k,) columns; 1 for those that are not named.

    Weights are those numbers themselves, or go by the name of a signal, all columns of which get
    one. Names are looked up in the mapping, and without one in the model, of whose ``sensordata``
    the columns then are. With a mapping, sensors of the model that it lacks are passed over.

    Raises:
        SignalError: A name is unknown, the number of weights is wrong, or a weight is negative or
            not finite.
    """
    if isinstance(sensor_weights, Mapping):
        weights = np.ones(n_sensors)
        for name, weight in sensor_weights.items():
            if signal_mapping and name in signal_mapping:
                weights[signal_mapping[name][1]] = weight
            elif model is not None:
                places = get_sensor_indices(model, name)
                if signal_mapping:
                    continue
                if max(places) >= n_sensors:
                    raise SignalError(
                        f'Sensor {name!r} has column {max(places)} in the model, but there are '
                        f'{n_sensors} columns: pass series that name their signals.'
                    )
                weights[places] = weight
            else:
                raise SignalError(
                    f'There is no signal {name!r} to weight; {nearest(name, signal_mapping or ())}.'
                )
    else:
        weights = np.array(sensor_weights, dtype=np.float64)
        if weights.shape != (n_sensors,):
            raise SignalError(
                f'Expected sensor weights of shape ({n_sensors},), found {weights.shape}.'
            )
    if not np.all(np.isfinite(weights) & (weights >= 0)):
        raise SignalError(f'Expected finite sensor weights of at least 0, found {weights}.')
    return weights


def weighted_diff(
    predicted_data: NDArray[np.float64] | TimeSeries,
    measured_data: NDArray[np.float64] | TimeSeries,
    model: mujoco.MjModel | None = None,
    sensor_weights: Mapping[str, float] | NDArray[np.float64] | None = None,
    *,
    signal_mapping: SignalMapping | None = None,
) -> NDArray[np.float64]:
    """Return measured minus predicted times weights, (n, k) in the order of the measured columns.

    Series that name their signals are compared signal by signal, and weights are looked up by
    name, so that neither the order of the columns nor missing sensors matter. Arrays are (n, k),
    and ``signal_mapping`` may name their columns. NaN stays NaN.

    Raises:
        SignalError: The shapes differ, a measured signal is not predicted, or see
            ``prepare_sensor_weights``.
    """
    if isinstance(measured_data, TimeSeries):
        signal_mapping = signal_mapping or measured_data.signal_mapping
        if isinstance(predicted_data, TimeSeries):
            predicted_data = in_order_of(predicted_data, measured_data)
    predicted, measured = _values(predicted_data), _values(measured_data)
    if predicted.shape != measured.shape:
        raise SignalError(
            f'Expected predicted and measured data of the same shape, '
            f'found {predicted.shape} and {measured.shape}.'
        )
    difference: NDArray[np.float64] = measured - predicted
    if sensor_weights is None:
        return difference
    if isinstance(sensor_weights, Mapping) and model is None and not signal_mapping:
        raise SignalError(
            'Expected a model or named signals to look sensor weights up in, found neither.'
        )
    weights = prepare_sensor_weights(
        sensor_weights, difference.shape[-1], model, signal_mapping=signal_mapping
    )
    return difference * weights


def _values(data: NDArray[np.float64] | TimeSeries) -> NDArray[np.float64]:
    return data.matrix if isinstance(data, TimeSeries) else np.asarray(data, dtype=np.float64)


def in_order_of(ts: TimeSeries, other: TimeSeries) -> TimeSeries:
    """Return the signals of another series out of a series, in that one's columns.

    Series without names are taken as they are.
    """
    if not (ts.signal_mapping and other.signal_mapping):
        return ts
    data = np.full((len(ts), other.matrix.shape[1]), np.nan)
    for name, (_, columns) in other.signal_mapping.items():
        own = ts.get_indices(name)[1]
        if len(own) != len(columns):
            raise SignalError(
                f'Signal {name!r} was measured with {len(columns)} columns, but has {len(own)}.'
            )
        data[:, columns] = ts.matrix[:, own]
    return TimeSeries(ts.times, data, other.signal_mapping)


def normalize_residual(
    residual: NDArray[np.float64], measured_data: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Divide each channel's residual by how much the channel varies; (n, k) each.

    The scale is the standard deviation of the measured samples around their mean, so that neither
    an offset nor the length of the recording changes a residual; NaN samples do not count. A
    channel that does not vary says nothing about the model: its residual becomes zero.
    """
    measured = np.asarray(measured_data, dtype=np.float64)
    known = np.isfinite(measured)
    count = np.maximum(known.sum(axis=0), 1)
    samples = np.where(known, measured, 0.0)
    deviation = np.where(known, samples - samples.sum(axis=0) / count, 0.0)
    scale = np.sqrt(np.sum(deviation**2, axis=0) / count)
    largest = np.abs(samples).max(axis=0, initial=0.0)
    alive = scale > np.maximum(_DEAD * largest, _DEAD_AROUND_ZERO)
    result: NDArray[np.float64] = np.where(alive, residual / np.where(alive, scale, 1.0), 0.0)
    return result

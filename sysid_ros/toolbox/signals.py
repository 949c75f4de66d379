# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Gains, biases, delays and weights of measured and predicted signals, always by name.

The names and signatures are those of MuJoCo's sysid toolbox; no function changes what it is given.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysid_ros.errors import ParameterError, SignalError, nearest
from sysid_ros.signals import SignalMapping
from sysid_ros.toolbox.parameter import Parameter, ParameterDict
from sysid_ros.toolbox.timeseries import TimeSeries, sensor_mapping, slack

Array = NDArray[np.float64]
Side = Literal['predicted', 'measured', 'both']


def get_sensor_indices(
    model: mujoco.MjModel,
    sensor_name: str | Sequence[str],
    sort: bool = False,  # noqa: FBT002 (the toolbox's signature)
) -> list[int]:
    """Return the places of one or several sensors in ``sensordata``, in the order of the names."""
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
    """Add a parameter's value, one for all columns of a signal or one for each, in its unit."""
    return _corrected(ts, sensor_name, [], [bias])


def apply_gain(ts: TimeSeries, sensor_name: str, gain: Parameter) -> TimeSeries:
    """Multiply a signal by a parameter's value, one for all of its columns or one for each."""
    return _corrected(ts, sensor_name, [gain], [])


def _corrected(
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
    """Delay a signal by a parameter in seconds: out(t) = in(t - d), linear between samples.

    Before the first sample that arrives, its value is returned. NaN samples stay NaN locally.
    """
    value = float(_per_column(delay, sensor_name, 1)[0])
    return apply_resample_and_delay(ts, ts.times, 0.0, {sensor_name: value})


def apply_time_window(ts: TimeSeries, min_t: float, max_t: float) -> TimeSeries:
    """Keep the samples from one instant to another, s; a stamp just beside one is on it."""
    rounding = slack(ts.times[[0, -1]], ts.duration / max(len(ts) - 1, 1))
    first = int(np.searchsorted(ts.times, min_t - rounding, side='left'))
    last = int(np.searchsorted(ts.times, max_t + rounding, side='right'))
    if first >= last:
        raise SignalError(
            f'Expected samples between {min_t:g} and {max_t:g} s, found {ts.times[0]:g} to '
            f'{ts.times[-1]:g} s.'
        )
    return ts.rows(slice(first, last))


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
    predicted_data: bool = True,  # noqa: FBT002 (the toolbox's signature)
) -> TimeSeries:
    """Evaluate a series at other (m,) instants, s, each signal delayed by its own time.

    It is linear between samples, held before the first and after the last. ``default_delay``, s, is
    that of all signals that ``sensor_delays`` does not name. Without ``predicted_data`` the series
    is delayed already, as measurements are, and the delay is taken out: out(t) = in(t + d).
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
    sensor_weights: Mapping[str, float] | Array,
    n_sensors: int,
    model: mujoco.MjModel | None = None,
    *,
    signal_mapping: SignalMapping | None = None,
) -> Array:
    """Return one weight for each of (k,) columns; 1 for those that are not named.

    Weights are those numbers themselves, or go by the name of a signal, all columns of which get
    one. Names are looked up in the mapping, and without one in the model, of whose ``sensordata``
    the columns then are. With a mapping, sensors of the model that it lacks are passed over.
    """
    weights = np.ones(n_sensors)
    if not isinstance(sensor_weights, Mapping):
        weights = np.array(sensor_weights, dtype=np.float64)
        if weights.shape != (n_sensors,):
            raise SignalError(
                f'Expected sensor weights of shape ({n_sensors},), found {weights.shape}.'
            )
        sensor_weights = {}
    for name, weight in sensor_weights.items():
        if signal_mapping and name in signal_mapping:
            weights[signal_mapping[name][1]] = weight
            continue
        if model is None:
            raise SignalError(
                f'There is no signal {name!r} to weight; {nearest(name, signal_mapping or ())}.'
            )
        places = get_sensor_indices(model, name)
        if not signal_mapping and max(places) >= n_sensors:
            raise SignalError(
                f'Sensor {name!r} has column {max(places)} in the model, but there are '
                f'{n_sensors} columns: pass series that name their signals.'
            )
        if not signal_mapping:
            weights[places] = weight
    if not np.all(np.isfinite(weights) & (weights >= 0)):
        raise SignalError(f'Expected finite sensor weights of at least 0, found {weights}.')
    return weights


def weighted_diff(
    predicted_data: Array | TimeSeries,
    measured_data: Array | TimeSeries,
    model: mujoco.MjModel | None = None,
    sensor_weights: Mapping[str, float] | Array | None = None,
) -> Array:
    """Return measured minus predicted times weights, (n, k) in the order of the measured columns.

    Series that name their signals are compared signal by signal, and weights are looked up by
    name, so that neither the order of the columns nor missing sensors matter. NaN stays NaN.
    """
    mapping: SignalMapping = {}
    if isinstance(measured_data, TimeSeries):
        mapping = measured_data.signal_mapping
        if isinstance(predicted_data, TimeSeries):
            predicted_data = _in_order_of(predicted_data, measured_data)
        measured_data = measured_data.matrix
    if isinstance(predicted_data, TimeSeries):
        predicted_data = predicted_data.matrix
    predicted, measured = np.asarray(predicted_data), np.asarray(measured_data)
    if predicted.shape != measured.shape:
        raise SignalError(
            f'Expected predicted and measured data of the same shape, '
            f'found {predicted.shape} and {measured.shape}.'
        )
    difference: Array = measured - predicted
    if sensor_weights is None:
        return difference
    if isinstance(sensor_weights, Mapping) and model is None and not mapping:
        raise SignalError(
            'Expected a model or named signals to look sensor weights up in, found neither.'
        )
    weights = prepare_sensor_weights(
        sensor_weights, difference.shape[-1], model, signal_mapping=mapping
    )
    return difference * weights


def _in_order_of(ts: TimeSeries, other: TimeSeries) -> TimeSeries:
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


def normalize_residual(residual: Array, measured_data: Array) -> Array:
    """Divide each channel's residual by the norm of what was measured, over √2; (n, k) each.

    NaN samples do not count. A channel of zeros says nothing about the model: its residual becomes
    zero.
    """
    norms = np.sqrt(np.nansum(np.square(np.asarray(measured_data, dtype=np.float64)), axis=0) / 2)
    found: Array = np.where(norms > 0, residual / np.where(norms > 0, norms, 1.0), 0.0)
    return found


class SensorParameters(NamedTuple):
    """Names of the parameters that act on one sensor.

    The residual of a sample y at time t is ((g_m·y + b_m) − (g_p·p(t − d) + b_p))/(g_m·σ), where
    gains are products and biases sums of values: what multiplies a measurement multiplies its
    noise, too.
    """

    predicted_gains: tuple[str, ...] = ()
    measured_gains: tuple[str, ...] = ()
    predicted_biases: tuple[str, ...] = ()
    measured_biases: tuple[str, ...] = ()
    delay: str | None = None


class _Rule(NamedTuple):
    """A parameter for the sensors that a pattern matches."""

    kind: Literal['delay', 'gain', 'bias']
    pattern: str
    parameter: str
    side: Side


class SignalTransform:
    """Delays, gains and biases of sensors, for ``build_residual_fn(signal_transform=…)``.

    Example::

        transform = SignalTransform()
        transform.delay('*_pos', params['delay_pos'])
        transform.gain('*_torque', params['torque_scale'], target='predicted')
        transform.enable_sensors(['joint1_pos', 'joint1_torque'])

    Patterns are those of ``fnmatch``, in which upper and lower case differ. Of the delays that
    match a sensor the last one counts; gains multiply and biases add up, gains before biases.

    Attributes:
        normalize: Whether ``apply`` divides residuals as ``normalize_residual`` does.
        enabled: Names of the sensors that count; None for all.
        weights: Name of a sensor to the factor of its residuals, 1 for the others; None for all 1.
    """

    def __init__(self, normalize: bool = True) -> None:  # noqa: FBT002 (the toolbox's signature)
        """Start without any rule."""
        self.normalize = normalize
        self._rules: list[_Rule] = []
        self.enabled: tuple[str, ...] | None = None
        self.weights: dict[str, float] | None = None

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of all parameters that act on some sensor."""
        return tuple(dict.fromkeys(rule.parameter for rule in self._rules))

    def delay(self, pattern: str, param: Parameter) -> None:
        """Delay sensors: a sample describes the state of the model ``param.value`` seconds before.

        The parameter's bounds decide which samples are compared.
        """
        if param.size != 1:
            raise ParameterError(
                f'Expected a delay of 1 component, found {param.size} in {param.name!r}.'
            )
        self._add(_Rule('delay', pattern, param.name, 'predicted'))

    def gain(self, pattern: str, param: Parameter, target: Side = 'both') -> None:
        """Multiply sensors by a parameter, one factor for all columns of a sensor or one for each.

        ``target`` is whether what is ``'predicted'``, what was ``'measured'``, or ``'both'``, which
        without a bias of one of them changes nothing.
        """
        self._add(_Rule('gain', pattern, param.name, target))

    def bias(self, pattern: str, param: Parameter, target: Side = 'both') -> None:
        """Add a parameter to sensors, one value in their unit for all columns or one for each."""
        self._add(_Rule('bias', pattern, param.name, target))

    def enable_sensors(self, sensor_names: Iterable[str]) -> None:
        """Let only some sensors count, in the order of the residual's columns."""
        names = [sensor_names] if isinstance(sensor_names, str) else sensor_names
        self.enabled = tuple(dict.fromkeys(names))
        if not self.enabled:
            raise SignalError('Expected the name of at least one sensor to enable, found none.')

    def set_sensor_weights(self, weights: Mapping[str, float]) -> None:
        """Set the factors of residuals: name of a sensor to 0 or more, 1 for the others."""
        for name, weight in weights.items():
            if not (np.isfinite(weight) and weight >= 0):
                raise SignalError(
                    f'Expected a finite weight of at least 0 for {name!r}, found {weight}.'
                )
        self.weights = {name: float(weight) for name, weight in weights.items()}

    def _add(self, rule: _Rule) -> None:
        if rule.side not in get_args(Side):
            raise SignalError(
                "target must be 'predicted', 'measured' or 'both', "
                f'found {rule.side!r}; {nearest(str(rule.side), get_args(Side))}.'
            )
        self._rules.append(rule)

    def check(self, sensor_names: Sequence[str]) -> None:
        """Check that every pattern and name means a sensor of those of all models."""
        for rule in self._rules:
            if not fnmatch.filter(sensor_names, rule.pattern):
                raise SignalError(
                    f'Pattern {rule.pattern!r} of parameter {rule.parameter!r} matches no sensor; '
                    f'{nearest(rule.pattern, sensor_names)}.'
                )
        for what, names in (('enable', self.enabled or ()), ('weight', self.weights or ())):
            for name in names:
                if name not in sensor_names:
                    raise SignalError(
                        f'There is no sensor {name!r} to {what}; {nearest(name, sensor_names)}.'
                    )

    def acting_on(self, sensor: str) -> SensorParameters:
        """Return what acts on a sensor."""
        rules = [rule for rule in self._rules if fnmatch.fnmatchcase(sensor, rule.pattern)]

        def names(kind: str, side: str) -> tuple[str, ...]:
            return tuple(r.parameter for r in rules if r.kind == kind and r.side in {side, 'both'})

        return SensorParameters(
            names('gain', 'predicted'),
            names('gain', 'measured'),
            names('bias', 'predicted'),
            names('bias', 'measured'),
            next(reversed(names('delay', 'predicted')), None),
        )

    def linear_law(self, sensor: str) -> SensorParameters | None:
        """Return the same without what cancels out; None where measurements are multiplied."""
        law = self.acting_on(sensor)
        if law.predicted_biases == law.measured_biases:
            law = law._replace(predicted_biases=(), measured_biases=())
            if law.predicted_gains == law.measured_gains:
                law = law._replace(predicted_gains=(), measured_gains=())
        return None if law.measured_gains else law

    def delay_bounds(
        self, params: ParameterDict, sensor_names: Sequence[str] | None = None
    ) -> tuple[float, float]:
        """Return the smallest and the largest delay that any of the sensors may have, seconds.

        A sensor without delay has 0, a frozen parameter its value. Where sensors are not given,
        some may have no delay.
        """
        every = [rule.parameter for rule in self._rules if rule.kind == 'delay']
        names: set[str | None] = {None, *every}
        if sensor_names:
            names = {self.acting_on(sensor).delay for sensor in sensor_names}
        limits: list[float] = []
        for name in names:
            if name is None:
                limits.append(0.0)
            elif params[name].frozen:
                limits.append(float(params[name].value.item()))
            else:
                limits.extend(float(bound.item()) for bound in params[name].get_bounds())
        return min(limits), max(limits)

    def apply(
        self,
        params: ParameterDict,
        sensordata_predicted: TimeSeries,
        sensordata_measured: TimeSeries,
        model: mujoco.MjModel,
        return_pred_all: bool = False,  # noqa: FBT002 (the toolbox's signature)
        state: Array | None = None,
        sensor_weights: Mapping[str, float] | None = None,
    ) -> tuple[Array, TimeSeries, TimeSeries]:
        """Compare one rollout with its measurements, as ``modify_residual`` callbacks do.

        Measurements are compared at their own times, where every delay within the bounds is
        predicted. Samples that were not measured (NaN) have residual zero. ``return_pred_all``
        keeps sensors that are not enabled, ``sensor_weights`` replace ``set_sensor_weights``.

        Returns:
            (m, k) residuals, and the two series with m samples of the k columns.
        """
        del state
        mapping = sensordata_predicted.signal_mapping or sensor_mapping(model)
        predicted = _named(sensordata_predicted, mapping)
        measured = _named(sensordata_measured, mapping)
        self.check(predicted.names)
        names = measured.names
        if not return_pred_all and self.enabled is not None:
            names = tuple(name for name in self.enabled if name in names)
        if not names:
            raise SignalError(
                f'None of the enabled sensors was measured; {nearest(" ", measured.names)}.'
            )
        window = self.delay_bounds(params, names)
        measured = apply_delayed_ts_window(_only(measured, names), predicted, *window)
        predicted = _in_order_of(predicted, measured)
        laws = {name: self.acting_on(name) for name in names}
        delays = {
            name: float(params[law.delay].value.item())
            for name, law in laws.items()
            if law.delay is not None
        }
        predicted = apply_resample_and_delay(predicted, measured.times, 0.0, delays)
        for name, law in laws.items():
            own = [[params[parameter] for parameter in some] for some in law[:4]]
            predicted = _corrected(predicted, name, own[0], own[2])
            measured = _corrected(measured, name, own[1], own[3])
        residual = weighted_diff(predicted, measured, model, sensor_weights or self.weights or None)
        if self.normalize:
            residual = normalize_residual(residual, measured.data)
        return np.where(np.isfinite(measured.data), residual, 0.0), predicted, measured


def _named(series: TimeSeries, mapping: SignalMapping) -> TimeSeries:
    """Return a series with names; columns without them are those of a mapping."""
    width = 1 + max((int(columns.max()) for _, columns in mapping.values()), default=-1)
    if not series.signal_mapping and series.matrix.shape[1] != width:
        raise SignalError(
            f'Expected {width} columns, one for each value of the sensors, or named signals, '
            f'found {series.matrix.shape[1]} columns.'
        )
    return TimeSeries(series.times, series.data, series.signal_mapping or mapping)


def _only(series: TimeSeries, names: Sequence[str]) -> TimeSeries:
    """Return some signals of a series, their columns in the order of the names."""
    mapping, parts, begin = {}, [], 0
    for name in names:
        kind, columns = series.get_indices(name)
        mapping[name] = (kind, np.arange(begin, begin + len(columns)))
        parts.append(series.matrix[:, columns])
        begin += len(columns)
    return TimeSeries(series.times, np.hstack(parts), mapping)

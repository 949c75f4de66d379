# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which parameters delay, scale and offset which sensors, said once for patterns of names."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from sysid_ros.errors import ParameterError, SignalError, nearest
from sysid_ros.toolbox.signal_modifier import (
    apply_delayed_ts_window,
    apply_resample_and_delay,
    corrected,
    in_order_of,
    normalize_residual,
    weighted_diff,
)
from sysid_ros.toolbox.timeseries import TimeSeries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import mujoco
    from numpy.typing import NDArray

    from sysid_ros.toolbox.parameter import Parameter, ParameterDict

    Side = Literal['predicted', 'measured', 'both']

_SIDES = ('predicted', 'measured', 'both')


class SensorParameters(NamedTuple):
    """The parameters that act on one sensor.

    The residual of a sample y at time t is w·((g_m·y + b_m) − (g_p·p(t − d) + b_p))/σ, where the
    gains are products and the biases sums of the values of the parameters named here.

    Attributes:
        sensor: Name of the sensor.
        predicted_gains: Names of the parameters whose product is g_p.
        measured_gains: Names of the parameters whose product is g_m.
        predicted_biases: Names of the parameters whose sum is b_p.
        measured_biases: Names of the parameters whose sum is b_m.
        delay: Name of the parameter that is d, seconds; None without delay.
    """

    sensor: str
    predicted_gains: tuple[str, ...] = ()
    measured_gains: tuple[str, ...] = ()
    predicted_biases: tuple[str, ...] = ()
    measured_biases: tuple[str, ...] = ()
    delay: str | None = None


class _Rule(NamedTuple):
    """A parameter for the sensors that a pattern matches."""

    pattern: str
    parameter: str
    side: Side

    def acts_on(self, sensor: str, side: Side) -> bool:
        return self.side in {side, 'both'} and fnmatch.fnmatchcase(sensor, self.pattern)


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
        normalize: Whether ``apply`` divides residuals by how much each channel varies.
        enabled: Names of the sensors that count; None for all.
        weights: Name of a sensor to the factor of its residuals, 1 for the others; None for all 1.
    """

    def __init__(self, normalize: bool = True) -> None:  # noqa: FBT002 (the toolbox's signature)
        """Start without any rule."""
        self.normalize = normalize
        self._delays: list[_Rule] = []
        self._gains: list[_Rule] = []
        self._biases: list[_Rule] = []
        self.enabled: tuple[str, ...] | None = None
        self.weights: dict[str, float] | None = None
        self._checked = False

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of all parameters that act on some sensor."""
        rules = (*self._delays, *self._gains, *self._biases)
        return tuple(dict.fromkeys(rule.parameter for rule in rules))

    def delay(self, pattern: str, param: Parameter) -> None:
        """Delay sensors: a sample describes the state of the model ``param.value`` seconds before.

        The parameter's bounds decide which samples are compared.

        Raises:
            ParameterError: The parameter has more than one component.
        """
        if param.size != 1:
            raise ParameterError(
                f'Expected a delay of 1 component, found {param.size} in {param.name!r}.'
            )
        self._add(self._delays, pattern, param, 'predicted')

    def gain(self, pattern: str, param: Parameter, target: Side = 'both') -> None:
        """Multiply sensors by a parameter, one factor for all columns of a sensor or one for each.

        ``target`` is whether what is ``'predicted'``, what was ``'measured'``, or ``'both'``.

        Raises:
            SignalError: ``target`` is none of these.
        """
        self._add(self._gains, pattern, param, target)

    def bias(self, pattern: str, param: Parameter, target: Side = 'both') -> None:
        """Add a parameter to sensors, one value in their unit for all columns or one for each.

        ``target`` is whether to what is ``'predicted'``, what was ``'measured'``, or ``'both'``.

        Raises:
            SignalError: ``target`` is none of these.
        """
        self._add(self._biases, pattern, param, target)

    def enable_sensors(self, sensor_names: Iterable[str]) -> None:
        """Let only some sensors count, in the order of the residual's columns.

        Raises:
            SignalError: There is none.
        """
        names = [sensor_names] if isinstance(sensor_names, str) else sensor_names
        self.enabled = tuple(dict.fromkeys(names))
        self._checked = False
        if not self.enabled:
            raise SignalError('Expected the name of at least one sensor to enable, found none.')

    def set_sensor_weights(self, weights: Mapping[str, float]) -> None:
        """Set the factors of residuals: name of a sensor to 0 or more, 1 for the others.

        Raises:
            SignalError: A weight is negative or not finite.
        """
        for name, weight in weights.items():
            if not (np.isfinite(weight) and weight >= 0):
                raise SignalError(
                    f'Expected a finite weight of at least 0 for {name!r}, found {weight}.'
                )
        self.weights = {name: float(weight) for name, weight in weights.items()}
        self._checked = False

    def _add(self, rules: list[_Rule], pattern: str, param: Parameter, side: Side) -> None:
        if side not in _SIDES:
            raise SignalError(
                "target must be 'predicted', 'measured' or 'both', "
                f'found {side!r}; {nearest(str(side), _SIDES)}.'
            )
        rules.append(_Rule(pattern, param.name, side))
        self._checked = False

    def check(self, sensor_names: Sequence[str]) -> None:
        """Check that every pattern and name means a sensor.

        Where several models have different sensors, this is called with those of all of them;
        ``apply`` then accepts that a model lacks some.

        Raises:
            SignalError: A pattern matches no sensor, or an enabled or weighted one is missing.
        """
        for rule in (*self._delays, *self._gains, *self._biases):
            if not any(rule.acts_on(name, rule.side) for name in sensor_names):
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
        self._checked = True

    def sensor_parameters(self, sensor_names: Sequence[str]) -> tuple[SensorParameters, ...]:
        """Return what acts on each sensor."""
        self.check(sensor_names)
        return tuple(self._acting_on(name) for name in sensor_names)

    def _acting_on(self, sensor: str) -> SensorParameters:
        def acting(rules: list[_Rule], side: Side) -> tuple[str, ...]:
            return tuple(rule.parameter for rule in rules if rule.acts_on(sensor, side))

        delays = acting(self._delays, 'predicted')
        return SensorParameters(
            sensor,
            acting(self._gains, 'predicted'),
            acting(self._gains, 'measured'),
            acting(self._biases, 'predicted'),
            acting(self._biases, 'measured'),
            delays[-1] if delays else None,
        )

    def delay_bounds(
        self, params: ParameterDict, sensor_names: Sequence[str] | None = None
    ) -> tuple[float, float]:
        """Return the smallest and the largest delay that any of the sensors may have, seconds.

        A sensor without delay has 0, a frozen parameter its value. Where sensors are not given,
        some may have no delay.

        Raises:
            ParameterError: A delay's parameter is not among them.
        """
        if sensor_names is None:
            names: set[str | None] = {None, *(rule.parameter for rule in self._delays)}
        else:
            names = {self._acting_on(sensor).delay for sensor in sensor_names} or {None}
        limits: list[float] = []
        for name in names:
            if name is None:
                limits.append(0.0)
                continue
            param = params[name]
            bounds = (param.value,) if param.frozen else (param.min_value, param.max_value)
            limits.extend(float(np.ravel(bound)[0]) for bound in bounds)
        return min(limits), max(limits)

    def apply(
        self,
        params: ParameterDict,
        sensordata_predicted: TimeSeries,
        sensordata_measured: TimeSeries,
        model: mujoco.MjModel,
        return_pred_all: bool = False,  # noqa: FBT002 (the toolbox's signature)
        state: NDArray[np.float64] | None = None,
        sensor_weights: Mapping[str, float] | None = None,
    ) -> tuple[NDArray[np.float64], TimeSeries, TimeSeries]:
        """Compare one rollout with its measurements, as ``modify_residual`` callbacks do.

        Measurements are compared at their own times, from the start of the rollout plus the
        largest delay to its end plus the smallest; the sensors of the two series are paired by
        name. Samples that were not measured (NaN) have residual zero. ``return_pred_all`` keeps
        sensors that are not enabled, ``sensor_weights`` take the place of ``set_sensor_weights``.

        Returns:
            (m, k) residuals, and the two series with m samples of the k columns.

        Raises:
            SignalError: A pattern or name means no sensor, a measured signal is not predicted, or
                rollout and measurements share no time.
            ParameterError: A parameter is missing.
        """
        del state
        predicted, measured = _named_series(sensordata_predicted, sensordata_measured, model)
        if not self._checked:
            self.check(predicted.names)
        names = measured.names
        if not return_pred_all and self.enabled is not None:
            names = tuple(name for name in self.enabled if name in names)
        if not names:
            raise SignalError(
                f'None of the enabled sensors was measured; {nearest(" ", measured.names)}.'
            )
        measured = _only(measured, names)
        predicted = in_order_of(predicted, measured)
        sensors = [self._acting_on(name) for name in measured.names]
        window = self.delay_bounds(params, measured.names)
        measured = apply_delayed_ts_window(measured, predicted, *window)
        delays = {
            acting.sensor: float(np.ravel(params[acting.delay].value)[0])
            for acting in sensors
            if acting.delay is not None
        }
        predicted = apply_resample_and_delay(predicted, measured.times, 0.0, delays)
        for own in sensors:
            predicted = corrected(
                predicted,
                own.sensor,
                [params[name] for name in own.predicted_gains],
                [params[name] for name in own.predicted_biases],
            )
            measured = corrected(
                measured,
                own.sensor,
                [params[name] for name in own.measured_gains],
                [params[name] for name in own.measured_biases],
            )
        residual = weighted_diff(predicted, measured, model, sensor_weights or self.weights or None)
        if self.normalize:
            residual = normalize_residual(residual, measured.data)
        return np.where(np.isfinite(measured.data), residual, 0.0), predicted, measured


def _named_series(
    predicted: TimeSeries, measured: TimeSeries, model: mujoco.MjModel
) -> tuple[TimeSeries, TimeSeries]:
    """Return both with names; columns without them are the model's sensors."""
    mapping = predicted.signal_mapping or TimeSeries.compute_all_sensor_mapping(model)
    width = 1 + max((int(columns.max()) for _, columns in mapping.values()), default=-1)
    named = []
    for series in (predicted, measured):
        if series.signal_mapping:
            named.append(series)
            continue
        if series.matrix.shape[1] != width:
            raise SignalError(
                f'Expected {width} columns, one for each value of the sensors, or named signals, '
                f'found {series.matrix.shape[1]} columns.'
            )
        named.append(TimeSeries(series.times, series.data, mapping))
    return named[0], named[1]


def _only(series: TimeSeries, names: Sequence[str]) -> TimeSeries:
    """Return some signals of a series, their columns in the order of the names."""
    found = [series.get_indices(name) for name in names]
    ends = np.cumsum([len(columns) for _, columns in found])
    mapping = {
        name: (kind, np.arange(end - len(columns), end))
        for name, (kind, columns), end in zip(names, found, ends, strict=True)
    }
    data = np.hstack([series.matrix[:, columns] for _, columns in found])
    return TimeSeries(series.times, data, mapping)

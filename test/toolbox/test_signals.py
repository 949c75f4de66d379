# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Signals are delayed, scaled, weighted and compared by name, in the right direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
import pytest

from sysid_ros.errors import SignalError
from sysid_ros.signals import SignalType
from sysid_ros.toolbox.parameter import Parameter, ParameterDict
from sysid_ros.toolbox.residual import SignalTransform
from sysid_ros.toolbox.timeseries import (
    TimeSeries,
    apply_delay,
    apply_delayed_ts_window,
    apply_gain,
    apply_resample_and_delay,
    apply_time_window,
    get_sensor_indices,
    normalize_residual,
    weighted_diff,
)

WORLD = """
<mujoco>
  <worldbody>
    <body><joint name="j1"/><geom size=".1"/><site name="imu"/>
      <body pos="0 0 1"><joint name="j2"/><geom size=".1"/></body>
    </body>
  </worldbody>
  <actuator><motor name="m" joint="j1"/></actuator>
  <sensor>{}</sensor>
</mujoco>
"""
MODEL = mujoco.MjModel.from_xml_string(
    WORLD.format(
        '<jointpos name="pos1" joint="j1"/><gyro name="gyro" site="imu"/>'
        '<jointpos name="pos2" joint="j2"/>'
    )
)


def series(count: int = 50, start: float = 0.0) -> TimeSeries:
    """Two scalars around a three-axis signal."""
    data = np.random.default_rng(0).standard_normal((count, 5))
    return TimeSeries.from_names(start + 0.01 * np.arange(count), data, MODEL)


TWO = Parameter('p', [1.0, 2.0], 0.0, 3.0)


@pytest.mark.parametrize(
    ('call', 'message'),
    [
        (lambda: get_sensor_indices(MODEL, 'gyroo'), 'gyroo.*nearest: gyro'),
        (lambda: apply_gain(series(), 'gyro', TWO), '1 or 3 values, found 2'),
        (lambda: apply_delay(series(), 'gyro', TWO), 'expected 1 value, found 2'),
        (lambda: apply_time_window(series(), 2.0, 3.0), r'2 and 3 s, found 0 to 0\.49 s'),
        (lambda: apply_delayed_ts_window(series(), series(), 0.1, 0.0), 'min_delay'),
        (lambda: weighted_diff(series(), series(), None, {'pos3': 1.0}), 'pos3.*nearest: pos'),
        (lambda: weighted_diff(series(), scalar('pos11')), r'pos11.*nearest: pos1'),
        (lambda: weighted_diff(np.zeros((2, 1)), np.zeros((3, 1))), r'\(2, 1\) and \(3, 1\)'),
    ],
)
def test_bad_arguments_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(SignalError, match=message):
        call()


def scalar(name: str) -> TimeSeries:
    return TimeSeries.from_columns([0.0, 1.0], np.zeros((2, 1)), [name])


def test_a_delayed_signal_shows_what_was_before() -> None:
    ts = series()
    delayed = apply_delay(ts, 'gyro', Parameter('d', 0.03, 0.0, 0.1))
    np.testing.assert_allclose(delayed.data[3:, 1:4], ts.data[:-3, 1:4], atol=1e-12)
    np.testing.assert_array_equal(delayed.data[:3, 1:4], np.tile(ts.data[0, 1:4], (3, 1)))


@pytest.mark.parametrize(('low', 'high'), [(0.0, 0.0), (0.02, 0.05), (-0.05, -0.02), (-0.1, 0.05)])
def test_the_window_of_a_delay_holds_only_times_that_are_predicted(low: float, high: float) -> None:
    # The reference starts at t0 - min d and ends at t1 - max d.
    measured, predicted = series(), series(40, start=0.05)
    window = apply_delayed_ts_window(measured, predicted, low, high)
    begin, end = predicted.times[0] + high, predicted.times[-1] + low
    assert window.times[0] == pytest.approx(max(begin, 0.0))
    assert window.times[-1] == pytest.approx(min(end, measured.times[-1]))
    for delay in (low, high):
        asked = window.times - delay
        assert asked.min() >= predicted.times[0] - 1e-12
        assert asked.max() <= predicted.times[-1] + 1e-12


@pytest.mark.parametrize('predicted_data', [True, False])
def test_signals_are_resampled_each_with_its_delay(predicted_data: bool) -> None:
    ts = series()
    at = np.linspace(0.1, 0.4, 77)
    delays = {'gyro': 0.013, 'pos2': -0.02}
    ours = apply_resample_and_delay(ts, at, 0.004, delays, predicted_data)
    sign = -1 if predicted_data else 1
    for column, delay in enumerate([0.004, 0.013, 0.013, 0.013, -0.02]):
        expected = np.interp(at + sign * delay, ts.times, ts.data[:, column])
        np.testing.assert_allclose(ours.data[:, column], expected, atol=1e-12)


def test_all_columns_of_a_sensor_get_its_weight() -> None:
    # The reference raises for a sensor with several columns.
    weighted = weighted_diff(np.zeros((1, 5)), np.ones((1, 5)), MODEL, {'gyro': 0.5, 'pos2': 2.0})
    np.testing.assert_array_equal(weighted, [[1.0, 0.5, 0.5, 0.5, 2.0]])


def test_series_are_compared_by_name_whatever_the_order_of_their_columns() -> None:
    # The reference compares column by column.
    predicted = series()
    data = predicted.data[:, [4, 0]] + [1.0, 0.0]
    measured = TimeSeries.from_columns(predicted.times, data, ['pos2', 'pos1'])
    weighted = weighted_diff(predicted, measured, None, {'pos2': 3.0})
    np.testing.assert_allclose(weighted, np.tile([3.0, 0.0], (50, 1)))


def test_residuals_are_normalised_as_by_the_toolbox_and_silence_does_not_count() -> None:
    measured = np.array([[1.0, 0.0, np.nan], [3.0, 0.0, 2.0]])
    found = normalize_residual(np.ones((2, 3)), measured)
    np.testing.assert_allclose(found[0], [np.sqrt(2 / 10), 0.0, np.sqrt(2) / 2])


NAMES = ['j1_pos', 'j2_pos', 'j1_vel', 'j2_vel', 'j1_torque']
ARM = mujoco.MjModel.from_xml_string(
    WORLD.format(
        '<jointpos name="j1_pos" joint="j1"/><jointpos name="j2_pos" joint="j2"/>'
        '<jointvel name="j1_vel" joint="j1"/><jointvel name="j2_vel" joint="j2"/>'
        '<actuatorfrc name="j1_torque" actuator="m"/>'
    )
)


def parameters(**values: tuple[float, float, float]) -> ParameterDict:
    """Value, lower and upper bound by name."""
    found = ParameterDict()
    for name, (value, low, high) in values.items():
        found.add(Parameter(name, value, low, high))
    return found


def wave(at: np.ndarray, column: int) -> np.ndarray:
    return np.sin(3 * at + column) + 0.2 * column * np.cos(7 * at)


def predicted_series(count: int = 400) -> TimeSeries:
    times = 0.005 * np.arange(count)
    data = np.column_stack([wave(times, k) for k in range(len(NAMES))])
    return TimeSeries.from_columns(times, data, NAMES)


def measured_series(names: list[str] = NAMES) -> TimeSeries:
    times = 0.0137 * np.arange(140)
    data = [1.1 * wave(times - 0.01, NAMES.index(name)) + 0.3 for name in names]
    return TimeSeries.from_columns(times, np.column_stack(data), names)


def full() -> tuple[SignalTransform, ParameterDict]:
    """A transform in which everything acts."""
    params = parameters(
        d=(0.012, -0.01, 0.03),
        d_torque=(0.021, 0.0, 0.05),
        g=(1.3, 0.5, 2.0),
        g_all=(0.9, 0.5, 2.0),
        b=(0.2, -1.0, 1.0),
        b_measured=(-0.4, -1.0, 1.0),
    )
    transform = SignalTransform()
    transform.delay('*', params['d'])
    transform.delay('*_torque', params['d_torque'])
    transform.gain('j1_*', params['g'], target='predicted')
    transform.gain('*', params['g_all'])
    transform.bias('*_vel', params['b'])
    transform.bias('j2_*', params['b_measured'], target='measured')
    transform.set_sensor_weights({'j2_vel': 3.0, 'j1_torque': 0.0})
    return transform, params


def by_formula(
    transform: SignalTransform, params: ParameterDict, sensor: str, times: np.ndarray
) -> np.ndarray:
    """Return w·((g_m·y + b_m) − (g_p·p(t − d) + b_p)) from the declared law."""
    value = {name: float(params[name].value[0]) for name in params}

    def acting(kind: str, side: str = 'predicted') -> list[float]:
        return [value[name] for name in transform.acting(sensor, kind, side)]

    predicted, measured = predicted_series(), measured_series()
    y = np.interp(times, measured.times, measured.get(sensor)[:, 0])
    delay = (acting('delay') or [0.0])[-1]
    p = np.interp(times - delay, predicted.times, predicted.get(sensor)[:, 0])
    left = y * np.prod(acting('gain', 'measured')) + sum(acting('bias', 'measured'))
    right = p * np.prod(acting('gain')) + sum(acting('bias'))
    return transform.weights.get(sensor, 1.0) * (left - right)


def test_applying_a_transform_gives_the_residual_of_its_laws() -> None:
    transform, params = full()
    transform.normalize = False
    # The reference compares in the order of the model.
    names = ['j1_torque', 'j2_vel', 'j1_pos', 'j1_vel']
    residual, predicted, measured = transform.apply(
        params, predicted_series(), measured_series(names), ARM
    )
    assert predicted.names == measured.names == tuple(names)
    # All delays in the bounds are predicted.
    assert 0.05 <= measured.times[0] < 0.05 + 0.0137
    assert measured.times[-1] <= predicted_series().times[-1] - 0.01
    for column, name in enumerate(names):
        expected = by_formula(transform, params, name, measured.times)
        np.testing.assert_allclose(residual[:, column], expected, atol=1e-12)


def test_the_law_of_each_sensor_names_what_acts_on_it() -> None:
    transform, _ = full()
    assert transform.acting('j1_pos', 'gain') == ('g', 'g_all')
    assert transform.acting('j1_pos', 'gain', 'measured') == ('g_all',)
    assert transform.acting('j2_vel', 'bias', 'measured') == ('b', 'b_measured')
    assert transform.acting('j1_torque', 'delay') == ('d', 'd_torque')


@pytest.mark.parametrize('kind', ['delay', 'gain', 'bias'])
def test_a_pattern_that_matches_nothing_is_an_error(kind: str) -> None:
    # The reference ignores it.
    params = parameters(p=(0.02, 0.0, 0.05))
    transform = SignalTransform()
    getattr(transform, kind)('j1_poss', params['p'])
    with pytest.raises(SignalError, match=r"'j1_poss' of parameter 'p'.*nearest: j1_pos"):
        transform.check(NAMES)
    with pytest.raises(SignalError, match='matches no sensor'):
        transform.apply(params, predicted_series(), measured_series(), ARM)


def test_enabled_sensors_keep_their_names_and_order() -> None:
    # The reference drops the names of what it keeps.
    transform, params = full()
    chosen = ['j2_vel', 'j1_pos']
    transform.enable_sensors(chosen)
    chosen.append('j2_pos')
    assert transform.enabled == ('j2_vel', 'j1_pos')
    residual, predicted, measured = transform.apply(
        params, predicted_series(), measured_series(), ARM
    )
    assert residual.shape == measured.data.shape == predicted.data.shape
    assert predicted.names == measured.names == ('j2_vel', 'j1_pos')
    assert measured.get_indices('j1_pos')[0] is SignalType.MjSensor
    everything, _, whole = transform.apply(
        params, predicted_series(), measured_series(), ARM, return_pred_all=True
    )
    assert everything.shape[1] == 5
    assert whole.names == tuple(NAMES)


@pytest.mark.parametrize(
    ('use', 'message'),
    [
        (lambda t, _: t.enable_sensors(['j1_poss']), 'to enable; nearest: j1_pos'),
        (lambda t, _: t.set_sensor_weights({'j1_poss': 2.0}), 'to weight; nearest: j1_pos'),
        (lambda t, _: t.set_sensor_weights({'j1_pos': -2.0}), 'at least 0'),
        (lambda t, _: t.enable_sensors([]), 'at least one sensor'),
        (lambda t, p: t.gain('J1_*', p), 'matches no sensor'),
        (lambda t, p: t.gain('*', p, target='predict'), 'target must be.*nearest: predicted'),
        (lambda t, p: t.bias('*', p, target='neither'), 'target must be'),
    ],
)
def test_rules_that_make_no_sense_are_refused(use: Any, message: str) -> None:
    def checked(transform: SignalTransform) -> None:
        use(transform, Parameter('g', 1.0, 0.5, 2.0))
        transform.check(NAMES)

    with pytest.raises(SignalError, match=message):
        checked(SignalTransform())


def test_samples_that_were_not_measured_have_no_residual() -> None:
    # The reference passes one NaN on to the whole fit.
    transform, params = full()
    source = measured_series()
    data = np.array(source.data)
    data[40, 1] = np.nan
    holed = TimeSeries(source.times, data, source.signal_mapping)
    residual, _, measured = transform.apply(params, predicted_series(), holed, ARM)
    assert np.isfinite(residual).all()
    assert residual[np.isnan(measured.data[:, 1]), 1] == [0.0]


def test_a_gain_may_have_one_value_for_each_axis() -> None:
    times = np.linspace(0, 1, 20)
    mapping = {'gyro': (SignalType.MjSensor, np.arange(3))}
    source = TimeSeries(times, np.random.default_rng(0).standard_normal((20, 3)), mapping)
    params = ParameterDict()
    params.add(Parameter('g', [1.0, 2.0, 3.0], 0.1, 5.0))
    transform = SignalTransform(normalize=False)
    transform.gain('gyro', params['g'], target='predicted')
    residual, predicted, _ = transform.apply(params, source, source, None)
    np.testing.assert_allclose(predicted.data, source.data * [1.0, 2.0, 3.0])
    np.testing.assert_allclose(residual, source.data * [0.0, -1.0, -2.0])

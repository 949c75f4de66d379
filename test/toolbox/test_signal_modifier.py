# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Signals are delayed, scaled, weighted and compared by name, in the right direction."""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np
import pytest

from sysid_ros.errors import SignalError
from sysid_ros.signals import SignalType
from sysid_ros.toolbox.parameter import Parameter
from sysid_ros.toolbox.signals import (
    apply_delay,
    apply_delayed_ts_window,
    apply_gain,
    apply_resample_and_delay,
    apply_time_window,
    get_sensor_indices,
    normalize_residual,
    prepare_sensor_weights,
    weighted_diff,
)
from sysid_ros.toolbox.timeseries import TimeSeries

MJCF = """
<mujoco>
  <worldbody>
    <body>
      <joint name="j1" axis="0 1 0"/>
      <geom size=".1"/>
      <site name="imu"/>
      <body pos="0 0 1"><joint name="j2" axis="0 1 0"/><geom size=".1"/></body>
    </body>
  </worldbody>
  <sensor>
    <jointpos name="pos1" joint="j1"/>
    <gyro name="gyro" site="imu"/>
    <jointpos name="pos2" joint="j2"/>
  </sensor>
</mujoco>
"""
MODEL = mujoco.MjModel.from_xml_string(MJCF)


def series(count: int = 50, start: float = 0.0) -> TimeSeries:
    """Two scalars around a three-axis signal."""
    times = start + 0.01 * np.arange(count)
    data = np.random.default_rng(0).standard_normal((count, 5))
    kind = SignalType.MjSensor
    mapping = {
        'pos1': (kind, np.array([0])),
        'gyro': (kind, np.array([1, 2, 3])),
        'pos2': (kind, np.array([4])),
    }
    return TimeSeries(times, data, mapping)


TWO = Parameter('p', [1.0, 2.0], 0.0, 3.0)


@pytest.mark.parametrize(
    ('call', 'message'),
    [
        (lambda: get_sensor_indices(MODEL, 'gyroo'), 'gyroo.*nearest: gyro'),
        (lambda: apply_gain(series(), 'gyro', TWO), '1 or 3 values, found 2'),
        (lambda: apply_delay(series(), 'gyro', TWO), 'expected 1 value, found 2'),
        (lambda: apply_time_window(series(), 2.0, 3.0), r'2 and 3 s, found 0 to 0\.49 s'),
        (lambda: apply_delayed_ts_window(series(), series(), 0.1, 0.0), 'min_delay'),
        (lambda: prepare_sensor_weights({'pos3': 1.0}, 5, MODEL), 'pos3.*nearest: pos'),
        (lambda: prepare_sensor_weights({'pos1': -1.0}, 5, MODEL), 'at least 0'),
        (lambda: prepare_sensor_weights({'pos1': np.nan}, 5, MODEL), 'finite'),
        (lambda: prepare_sensor_weights(np.ones(4), 5, MODEL), r'\(5,\), found \(4,\)'),
        (lambda: weighted_diff(np.ones((3, 2)), np.ones((3, 2)), MODEL, {'pos2': 2.0}), 'name'),
        (lambda: weighted_diff(series(), scalar('pos11')), r'pos11.*nearest: pos1'),
        (lambda: weighted_diff(np.zeros((2, 1)), np.zeros((3, 1))), r'\(2, 1\) and \(3, 1\)'),
        (lambda: weighted_diff(np.ones((3, 5)), np.ones((3, 5)), None, {'gyro': 1}), 'neither'),
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


@pytest.mark.parametrize('start', [0.0, 0.3, 1.7e9])
def test_a_time_window_has_both_its_ends(start: float) -> None:
    ts = series(start=start)
    window = apply_time_window(ts, start + 0.1, start + 0.3)
    np.testing.assert_array_equal(window.data, ts.data[10:31])
    assert window.names == ts.names


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
    weights = prepare_sensor_weights({'gyro': 0.5, 'pos2': 2.0}, 5, MODEL)
    np.testing.assert_array_equal(weights, [1.0, 0.5, 0.5, 0.5, 2.0])


def test_series_are_compared_by_name_whatever_the_order_of_their_columns() -> None:
    # The reference compares column by column.
    predicted = series()
    mapping = {
        'pos2': (SignalType.MjSensor, np.array([0])),
        'pos1': (SignalType.MjSensor, np.array([1])),
    }
    measured = TimeSeries(predicted.times, predicted.data[:, [4, 0]], mapping)
    difference = weighted_diff(predicted, measured)
    np.testing.assert_array_equal(difference, np.zeros((50, 2)))
    shifted = TimeSeries(measured.times, np.add(measured.data, [1.0, 0.0]), mapping)
    weighted = weighted_diff(predicted, shifted, None, {'pos2': 3.0})
    np.testing.assert_allclose(weighted, np.tile([3.0, 0.0], (50, 1)))


def test_residuals_are_normalised_as_by_the_toolbox_and_silence_does_not_count() -> None:
    measured = np.array([[1.0, 0.0, np.nan], [3.0, 0.0, 2.0]])
    found = normalize_residual(np.ones((2, 3)), measured)
    np.testing.assert_allclose(found[0], [np.sqrt(2 / 10), 0.0, np.sqrt(2) / 2])

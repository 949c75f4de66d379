# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Channels that share their stamps."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sysid_ros.errors import SignalError
from sysid_ros.signals.timeseries import SignalType, TimeSeries

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def test_a_signal_is_found_by_name() -> None:
    series = TimeSeries.from_columns([0.0, 0.5], [[1.0, 2.0], [3.0, 4.0]], ['a', 'b'])
    assert series.get('b').tolist() == [[2.0], [4.0]]
    assert series.names == ('a', 'b')
    assert len(series) == 2
    assert series.duration == 0.5


def test_a_signal_may_span_columns() -> None:
    mapping = {'gyro': (SignalType.MjSensor, np.array([2, 0]))}
    series = TimeSeries([0.0], [[1.0, 2.0, 3.0]], mapping)
    assert series.get('gyro').tolist() == [[3.0, 1.0]]


def test_one_column_may_be_given_flat() -> None:
    assert TimeSeries([0.0, 1.0], [5.0, 6.0]).data.shape == (2, 1)


def test_a_series_without_samples_lasts_no_time() -> None:
    series = TimeSeries(np.zeros(0), np.zeros((0, 2)))
    assert (len(series), series.duration) == (0, 0.0)


def test_the_callers_arrays_stay_apart_from_the_series() -> None:
    times, data = np.array([0.0, 1.0]), np.array([[1.0], [2.0]])
    series = TimeSeries(times, data)
    data[0] = 9.0
    times[0] = -1.0
    assert series.data[0, 0] == 1.0
    assert series.times[0] == 0.0
    data[0] = 1.0  # still writable


def test_a_series_cannot_be_changed() -> None:
    series = TimeSeries([0.0, 1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match='read-only'):
        series.data[0] = 5.0
    with pytest.raises(ValueError, match='read-only'):
        series.times[0] = 5.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        series.times = np.zeros(2)  # type: ignore[misc]


def test_samples_may_be_missing_but_stamps_may_not() -> None:
    assert np.isnan(TimeSeries([0.0, 1.0], [np.nan, 2.0]).data[0, 0])
    with pytest.raises(SignalError, match='finite and strictly increasing'):
        TimeSeries([0.0, np.nan], [1.0, 2.0])


@pytest.mark.parametrize('times', [[0.0, 0.0], [1.0, 0.0], [0.0, np.inf]])
def test_stamps_must_increase(times: ArrayLike) -> None:
    with pytest.raises(SignalError, match='finite and strictly increasing'):
        TimeSeries(times, [1.0, 2.0])


@pytest.mark.parametrize(
    ('times', 'data'),
    [([0.0, 1.0], [1.0]), ([[0.0]], [[1.0]]), ([0.0], np.zeros((1, 1, 1))), (0.0, [1.0])],
)
def test_shapes_that_do_not_fit_are_named(times: ArrayLike, data: ArrayLike) -> None:
    with pytest.raises(SignalError, match=r'times of shape \(n,\) and data of shape \(n, k\), got'):
        TimeSeries(times, data)


@pytest.mark.parametrize('column', [-1, 2])
def test_a_signal_cannot_name_a_column_that_is_not_there(column: int) -> None:
    mapping = {'x': (SignalType.MjSensor, np.array([column]))}
    with pytest.raises(SignalError, match=r"Signal 'x' names columns .* there are 2"):
        TimeSeries([0.0], [[1.0, 2.0]], mapping)


def test_an_unknown_signal_names_the_nearest() -> None:
    series = TimeSeries.from_columns([0.0], [[1.0, 2.0]], ['elbow_pos', 'wrist_pos'])
    with pytest.raises(SignalError, match="no signal 'elbow_po' here; nearest: elbow_pos"):
        series.get('elbow_po')

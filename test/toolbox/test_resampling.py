# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Values between samples, and grids of instants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysid_ros.errors import SignalError
from sysid_ros.toolbox.timeseries import TimeSeries, snapped

SQUARES = TimeSeries([0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 4.0, 9.0, 16.0])
STARTS = st.one_of(st.just(0.0), st.just(0.3), st.floats(-1e3, 1e3), st.floats(1.6e9, 1.8e9))


@pytest.mark.slow
@given(start=STARTS, period=st.sampled_from([1e-3, 2e-3, 1 / 300, 0.01, 0.02]), count=st.data())
@settings(max_examples=100, deadline=None)
def test_an_exact_grid_is_resampled_to_itself_at_any_start_time(
    start: float, period: float, count: Any
):
    n = count.draw(st.integers(1, 3000))
    times = start + np.arange(n) * period
    data = np.arange(n, dtype=float)

    for method in ('linear', 'zoh'):
        resampled = TimeSeries(times, data).resample(target_dt=period, method=method)
        np.testing.assert_array_equal(resampled.times, start + np.arange(n) * period)
        np.testing.assert_array_equal(resampled.data, data)


@pytest.mark.slow
@pytest.mark.parametrize('method', ['linear', 'quadratic', 'cubic', 'zoh'])
def test_values_are_those_of_the_sysid_toolbox(method: Any):
    reference = pytest.importorskip('mujoco.sysid._src.timeseries')
    rng = np.random.default_rng(3)
    times = np.cumsum(rng.uniform(0.01, 0.1, 40))
    data = rng.normal(size=(40, 3))
    at = np.linspace(times[0] - 0.1, times[-1] + 0.1, 333)
    np.testing.assert_allclose(
        TimeSeries(times, data).interpolate(at, method),
        reference.TimeSeries(times, data).interpolate(at, method),
        atol=1e-10,
    )


@pytest.mark.parametrize('method', ['linear', 'quadratic', 'cubic', 'quintic', 'zoh'])
def test_a_missing_sample_spoils_only_its_neighbourhood(method: Any):
    times = np.arange(12.0)
    data = np.column_stack([np.sin(times), np.cos(times)])
    data[5, 0] = np.nan
    values = TimeSeries(times, data).interpolate(np.arange(0, 11.25, 0.25), method)
    spoiled = np.flatnonzero(np.isnan(values[:, 0])) / 4

    assert not np.isnan(values[:, 1]).any()
    assert spoiled.min() >= 4.25
    assert spoiled.max() <= 5.75
    assert 5.0 in spoiled
    assert values[16, 0] == pytest.approx(np.sin(4.0))


@pytest.mark.parametrize(
    ('at', 'method', 'message'),
    [
        ([np.nan], 'linear', 'finite instants'),
        ([0.5], 'cubik', 'nearest: cubic'),
        ([0.5], 'quintic', 'needs 6 samples, found 5'),
    ],
)
def test_what_cannot_be_interpolated_is_said(at: Any, method: Any, message: str):
    with pytest.raises(SignalError, match=message):
        SQUARES.interpolate(at, method)


def test_only_rounding_moves_an_instant_onto_a_stamp():
    times = np.array([0.0, 0.1, 0.3])
    at = np.array([0.1 - 1e-12, 0.15, 0.3 - 1e-4])
    np.testing.assert_array_equal(snapped(at, times, 0.05), [0.1, 0.15, 0.3 - 1e-4])

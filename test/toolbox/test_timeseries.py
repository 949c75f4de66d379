# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Channels that share their stamps: made, taken apart and resampled."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from numpy.typing import ArrayLike

from sysid_ros.errors import SignalError
from sysid_ros.signals import SignalType
from sysid_ros.toolbox.timeseries import TimeSeries

MODEL = mujoco.MjModel.from_xml_string("""
<mujoco>
  <worldbody>
    <body><joint name="a"/><geom size=".1" pos=".1 0 0"/><site name="s"/>
      <body><joint name="b"/><geom size=".1" pos=".1 0 0"/></body>
    </body>
  </worldbody>
  <actuator><motor name="m1" joint="a"/><motor name="m2" joint="b"/></actuator>
  <sensor><gyro name="gyro" site="s"/><jointpos name="pos" joint="a"/></sensor>
</mujoco>
""")


def test_one_channel_given_flat_stays_flat(tmp_path: Path) -> None:
    mapping = {'q': (SignalType.MjSensor, np.array([0]))}
    flat = TimeSeries([0.0, 1.0, 2.0], [0.0, 1.0, 4.0], mapping)
    flat.save_to_disk(tmp_path / 'flat.npz')
    assert flat.data.shape == (3,)
    assert TimeSeries.load_from_disk(tmp_path / 'flat.npz').data.shape == (3,)
    assert flat.interpolate([0.5, 1.5]).tolist() == [0.5, 2.5]
    assert flat.get(1.5)[1] == 2.5
    assert flat.resample(target_dt=0.5).data.tolist() == [0.0, 0.5, 1.0, 2.5, 4.0]
    assert flat.remove_from_beginning(1.0).data.tolist() == [1.0, 4.0]
    assert flat.get('q').tolist() == flat.matrix.tolist() == [[0.0], [1.0], [4.0]]
    assert repr(flat) == 'TimeSeries(3 x 1, 0 to 2 s: q)'


def test_a_series_cannot_be_changed() -> None:
    series = TimeSeries([0.0, 1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match='read-only'):
        series.data[0] = 5.0
    with pytest.raises(ValueError, match='read-only'):
        series.times[0] = 5.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        series.times = np.zeros(2)  # type: ignore[misc]


@pytest.mark.parametrize(
    ('times', 'data', 'complaint'),
    [
        ([0.0, 1.0], [1.0], r'Length of times \(2\) and data \(1\) must match'),
        ([[0.0]], [[1.0]], r'times to be a 1D array, found one of shape \(1, 1\)'),
        (0.0, [1.0], r'times to be a 1D array, found one of shape \(\)'),
        ([0.0], np.zeros((1, 1, 1)), r'data of shape \(n, k\) or \(n,\), found \(1, 1, 1\)'),
        ([0.0], 1.0, r'data of shape \(n, k\) or \(n,\), found \(\)'),
    ],
)
def test_shapes_that_do_not_fit_are_named(
    times: ArrayLike, data: ArrayLike, complaint: str
) -> None:
    with pytest.raises(SignalError, match=complaint):
        TimeSeries(times, data)


def test_custom_signals_have_widths_and_types():
    series = TimeSeries.from_custom_map([0.0], [[1, 2, 3]], ['a', ('b', 2, SignalType.MjStateQPos)])
    assert series.get('b').tolist() == [[2, 3]]
    assert series.get_indices('a')[0] is SignalType.CustomObs


@pytest.mark.slow
@pytest.mark.parametrize(
    'signals',
    [['a'], ['a', 'a', 'c'], [('a', 0, SignalType.CustomObs), 'b', 'c', 'd']],
)
def test_custom_signals_have_to_fit_the_columns(signals: Any):
    with pytest.raises(SignalError, match=r'Expected data of shape|positive width'):
        TimeSeries.from_custom_map([0.0], [[1, 2, 3]], signals)


def test_a_slice_is_that_of_the_sysid_toolbox():
    reference = pytest.importorskip('mujoco.sysid._src.timeseries')
    data = np.random.default_rng(1).normal(size=(3, 5))
    ours = TimeSeries.from_names(np.arange(3.0), data, MODEL, ['pos', 'gyro', 'b_qvel'])
    theirs = reference.TimeSeries.from_names(np.arange(3.0), data, MODEL, ['pos', 'gyro', 'b_qvel'])
    for names in (['gyro'], ['b_qvel', 'pos'], ['pos', 'gyro', 'b_qvel']):
        mine = TimeSeries.slice_by_name(ours, names)
        other = reference.TimeSeries.slice_by_name(theirs, names)
        np.testing.assert_array_equal(mine.data, other.data)
        for name in names:
            np.testing.assert_array_equal(mine.get_indices(name)[1], other.get_indices(name)[1])


def test_get_takes_names_and_instants():
    series = TimeSeries.from_columns([0.0, 1.0], [[0.0, 1.0], [2.0, 5.0]], ['a', 'b'])
    at, values = series.get(0.5)
    assert (at.shape, values.tolist()) == ((), [1.0, 3.0])
    at, values = series.get([0.0, 0.9], method='zoh')
    assert at.tolist() == [0.0, 0.9]
    assert values.tolist() == [[0.0, 1.0], [0.0, 1.0]]
    assert series.get('b').tolist() == [[1.0], [5.0]]


def test_resampling_keeps_the_names_and_takes_either_form():
    series = TimeSeries.from_columns([0.0, 1.0], [0.0, 2.0], ['a'])
    assert series.resample([0.25, 0.5]).get('a')[:, 0].tolist() == [0.5, 1.0]
    assert series.resample(target_dt=0.4).times.tolist() == [0.0, 0.4, 0.8]
    for wrong in ({}, {'target_dt': -0.5}, {'target_dt': np.nan}, {'new_times': [[0.0]]}):
        with pytest.raises(SignalError, match='Expected'):
            series.resample(**wrong)  # type: ignore[arg-type]
    with pytest.raises(SignalError, match='strictly increasing'):
        series.resample([0.5, 0.2])


def test_cut_series_of_different_rates_stay_together():
    fast = TimeSeries(0.3 + np.arange(1001) * 0.001, np.arange(1001)[:, None])
    slow = TimeSeries(0.3 + np.arange(51) * 0.02, np.arange(51)[:, None])
    cut_fast, cut_slow = (series.remove_from_beginning(0.505) for series in (fast, slow))
    assert (cut_fast.data[0, 0], cut_slow.data[0, 0]) == (505, 26)
    assert cut_fast.times[0] == pytest.approx(0.3)
    assert cut_slow.times[0] - cut_fast.times[0] == pytest.approx(0.015)
    for wrong in (-0.1, 1.2):
        with pytest.raises(SignalError, match='Expected 0 to 1 s to remove'):
            slow.remove_from_beginning(wrong)

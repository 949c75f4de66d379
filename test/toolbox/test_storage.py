# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Series on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysid_ros.errors import SignalError
from sysid_ros.signals import SignalType
from sysid_ros.toolbox.timeseries import TimeSeries


@pytest.fixture
def series() -> TimeSeries:
    """Return a series whose columns are not in the order of its names."""
    mapping = {
        'gyro': (SignalType.MjSensor, np.array([2, 0])),
        'push_ctrl': (SignalType.MjCtrl, np.array([1])),
    }
    data = np.random.default_rng(0).normal(size=(4, 3))
    return TimeSeries(1.7e9 + np.arange(4) * 0.1, data, mapping)


@pytest.fixture
def reference() -> Any:
    """Return the class of MuJoCo's sysid toolbox."""
    return pytest.importorskip('mujoco.sysid._src.timeseries').TimeSeries


def assert_same(a: Any, b: Any) -> None:
    np.testing.assert_array_equal(a.times, b.times)
    np.testing.assert_array_equal(a.data, b.data)
    plain = [
        {name: (kind.name, at.tolist()) for name, (kind, at) in s.signal_mapping.items()}
        for s in (a, b)
    ]
    assert plain[0] == plain[1]


def test_a_series_comes_back_exactly(series: TimeSeries, tmp_path: Path):
    series.save_to_disk(tmp_path / 'a.npz')
    assert_same(TimeSeries.load_from_disk(tmp_path / 'a.npz'), series)
    with np.load(tmp_path / 'a.npz', allow_pickle=False) as stored:
        assert set(stored.files) == {'times', 'data', 'signal_mapping'}


def test_we_read_the_files_of_the_sysid_toolbox(series: TimeSeries, reference: Any, tmp_path: Path):
    reference(series.times, series.data, dict(series.signal_mapping)).save_to_disk(
        tmp_path / 'a.npz'
    )
    assert_same(TimeSeries.load_from_disk(tmp_path / 'a.npz'), series)


def test_a_missing_file_names_its_neighbours(series: TimeSeries, tmp_path: Path):
    series.save_to_disk(tmp_path / 'run_1.npz')
    with pytest.raises(SignalError, match=r'No file .*run_2.npz.*nearest: run_1.npz'):
        TimeSeries.load_from_disk(tmp_path / 'run_2')


@pytest.mark.parametrize('content', [b'', b'not a file of arrays', b'PK\x03\x04broken'])
def test_a_file_of_another_kind_is_told(content: bytes, tmp_path: Path):
    path = tmp_path / 'a.npz'
    path.write_bytes(content)
    with pytest.raises(SignalError, match=r'Expected a .npz file of numeric arrays'):
        TimeSeries.load_from_disk(path)


def test_pickled_arrays_are_not_read(tmp_path: Path):
    path = tmp_path / 'a.npz'
    np.savez(path, times=np.array([{}], dtype=object), data=np.zeros(1))
    with pytest.raises(SignalError, match='numeric arrays'):
        TimeSeries.load_from_disk(path)

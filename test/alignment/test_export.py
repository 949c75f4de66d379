# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Aligned data as files and text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysid_ros.alignment import Alignment, Format, align, write_series
from sysid_ros.alignment.pairing import map_columns

TIMES = np.arange(0, 1, 0.01)


@pytest.fixture
def alignment(arm: Any, columns: Any) -> Alignment:
    """Return a small aligned bag."""
    bag = columns.bag(
        columns.state(TIMES), columns.array([-0.1, 0.5]), columns.state(TIMES, '/copy_of_states')
    )
    return align(bag, arm, map_columns(bag, arm, 'auto'), 'auto')


def test_npz_files_come_back_without_pickle(alignment: Alignment, arm: Any, tmp_path: Path):
    written = write_series(tmp_path / 'new', alignment, arm, [Format.NPZ])
    names = ['run_commands_0.npz', 'run_measurements_0.npz', 'run_health.json']
    assert [path.name for path in written] == names
    sequence = alignment.sequences[0]
    with np.load(written[1], allow_pickle=False) as stored:
        np.testing.assert_array_equal(stored['times'], sequence.measurements[0].times)
        np.testing.assert_array_equal(stored['data'], sequence.measurements[0].data)
        assert int(stored['origin_ns']) == sequence.origin_ns
        assert json.loads(str(stored['signal_mapping']))['s3'] == [0, [0]]
    first = [path.read_bytes() for path in written]
    again = write_series(tmp_path, alignment, arm, [Format.NPZ])
    assert [path.read_bytes() for path in again] == first


def test_csv_files_hold_exact_numbers_under_names(alignment: Alignment, arm: Any, tmp_path: Path):
    *_, path, _ = write_series(tmp_path, alignment, arm, [Format.CSV])
    lines = path.read_text().splitlines()
    series = alignment.sequences[0].measurements[0]
    assert lines[0] == 'time,' + ','.join(series.names)
    numbers = np.array([[float(cell) for cell in line.split(',')] for line in lines[1:]])
    np.testing.assert_array_equal(numbers, np.column_stack([series.times, series.data]))


def test_what_was_done_to_the_recording_goes_along(alignment: Alignment, arm: Any, tmp_path: Path):
    *_, path = write_series(tmp_path, alignment, arm)
    record = json.loads(path.read_text())
    health = [vars(finding) | {'spans': list(finding.spans)} for finding in alignment.health]
    assert record['health'] == health
    assert 'assumed order' in {item['kind'] for item in record['health']}
    (sequence,) = record['sequences']
    assert sequence['tables'] == ['run_commands_0', 'run_measurements_0']
    assert sequence['initial_qpos'] == alignment.sequences[0].initial_qpos.tolist()
    assert len(record['columns']) == len(alignment.pairs)
    assert {
        'name': 's3',
        'unit': 'rad/s',
        'element': 'sensor/s3',
        'of': 'joint/elbow',
        'topic': '/joint_states',
        'field': 'velocity',
        'label': 'elbow',
        'scale': 1.0,
        'offset': 0.0,
    } in record['columns']
    assert '/copy_of_states' in {item['name'] for item in record['unmapped']}


def test_the_sysid_toolbox_reads_the_npz_files(alignment: Alignment, arm: Any, tmp_path: Path):
    # The public package hides everything when one of its many optional dependencies is absent.
    sysid = pytest.importorskip('mujoco.sysid._src.timeseries')
    written = write_series(tmp_path, alignment, arm, [Format.NPZ])
    series = sysid.TimeSeries.load_from_disk(written[0])
    ours = alignment.sequences[0].commands[0]
    np.testing.assert_array_equal(series.data, ours.data)
    assert list(series.signal_mapping) == list(ours.names)
    assert {kind.name for kind, _ in series.signal_mapping.values()} == {'MjCtrl'}

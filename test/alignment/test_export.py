# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Aligned data as files and text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sysid_ros.alignment import align, describe, map_columns, write_csv, write_npz

if TYPE_CHECKING:
    from pathlib import Path

    from sysid_ros.alignment import Alignment

TIMES = np.arange(0, 1, 0.01)


@pytest.fixture
def alignment(arm: Any, columns: Any) -> Alignment:
    """Return a small aligned bag."""
    bag = columns.bag(
        columns.state(TIMES), columns.array([-0.1, 0.5]), columns.state(TIMES, '/copy_of_states')
    )
    return align(bag, arm, map_columns(bag, arm, 'auto'), 'auto')


def test_npz_files_come_back_without_pickle(alignment: Alignment, tmp_path: Path):
    written = write_npz(tmp_path / 'new', alignment.sequences)
    assert [path.name for path in written] == [
        'run_commands_0.npz',
        'run_measurements_0.npz',
        'run_initial.npz',
    ]
    sequence = alignment.sequences[0]
    with np.load(written[1], allow_pickle=False) as stored:
        np.testing.assert_array_equal(stored['times'], sequence.measurements[0].times)
        np.testing.assert_array_equal(stored['data'], sequence.measurements[0].data)
        mapping = json.loads(str(stored['signal_mapping']))
    assert mapping['s3'] == [0, [0]]
    with np.load(written[2], allow_pickle=False) as stored:
        assert int(stored['origin_ns']) == sequence.origin_ns
        np.testing.assert_array_equal(stored['qpos'], sequence.initial_qpos)
    first = [path.read_bytes() for path in written]
    assert [path.read_bytes() for path in write_npz(tmp_path, alignment.sequences)] == first


def test_the_sysid_toolbox_reads_the_npz_files(alignment: Alignment, tmp_path: Path):
    # The public package hides everything when one of its many optional dependencies is absent.
    sysid = pytest.importorskip('mujoco.sysid._src.timeseries')
    written = write_npz(tmp_path, alignment.sequences)
    series = sysid.TimeSeries.load_from_disk(written[0])
    ours = alignment.sequences[0].commands[0]
    np.testing.assert_array_equal(series.data, ours.data)
    assert list(series.signal_mapping) == list(ours.names)
    assert {kind.name for kind, _ in series.signal_mapping.values()} == {'MjCtrl'}


def test_csv_files_hold_exact_numbers_under_names(alignment: Alignment, tmp_path: Path):
    _, path = write_csv(tmp_path, alignment.sequences)
    lines = path.read_text().splitlines()
    series = alignment.sequences[0].measurements[0]
    assert lines[0] == 'time,' + ','.join(series.names)
    numbers = np.array([[float(cell) for cell in line.split(',')] for line in lines[1:]])
    np.testing.assert_array_equal(numbers, np.column_stack([series.times, series.data]))


def test_the_description_says_what_was_mapped_and_what_was_not(alignment: Alignment):
    text = describe(alignment)
    assert '/joint_states position[elbow]' in text
    assert '/joint_states is taken for the measured state' in text
    assert 'assumed order' in text
    assert '100.00' in text
    assert max(map(len, text.splitlines())) < 200

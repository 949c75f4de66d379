# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Results over time."""

from __future__ import annotations

from pathlib import Path

from builders.histories import keep, make_result
from sysid_ros.results.drift import drift_between
from sysid_ros.results.history import read_history

WORN = (0.05, 0.7, 4.2)


def test_each_accepted_result_is_compared_with_the_accepted_one_before(tmp_path: Path):
    first = keep(tmp_path, make_result())
    keep(tmp_path, make_result(*WORN, accepted=False))
    second = keep(tmp_path, make_result(*WORN))
    keep(tmp_path, make_result(*WORN))

    entries = read_history(tmp_path)

    assert [entry.changed.partition(' ')[0] for entry in entries] == [
        '',
        '',
        'joint/elbow/frictionloss',
        'nothing',
    ]
    drifts = [entry.drift for entry in entries]
    assert drifts[0] is drifts[1] is None
    assert drifts[2] is not None
    assert drifts[2].previous == first.name
    assert drifts[3] is not None
    assert drifts[3].previous == second.name
    assert [entry.current for entry in entries] == [False, False, False, True]


def test_a_result_that_was_fitted_with_memory_says_itself_what_changed(tmp_path: Path):
    keep(tmp_path, make_result())
    own = drift_between(make_result(), make_result(*WORN), 'elsewhere')
    keep(tmp_path, make_result(drift=own))

    assert read_history(tmp_path)[1].drift == own


def test_the_error_is_the_held_out_one_or_said_to_be_of_training(tmp_path: Path):
    keep(tmp_path, make_result())
    keep(tmp_path, make_result(held_out_after=float('nan')))

    assert [entry.error for entry in read_history(tmp_path)] == [
        '2 mrad',
        '1 times the noise (training)',
    ]

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Results beside each other: what agrees, what differs, and what only one of them has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builders.histories import NAMES, VALUES, keep, make_result
from sysid_ros.errors import ResultError
from sysid_ros.results.result import FileHash, ParameterResult
from sysid_ros.results.side_by_side import read_side_by_side, side_by_side

if TYPE_CHECKING:
    from pathlib import Path

    from sysid_ros.results.result import CalibrationResult

#: Seven standard errors more friction, which in a difference of two is 4.9.
WORN = (*VALUES[:2], VALUES[2] + 0.7)


def _from(result: CalibrationResult, **changes: object) -> CalibrationResult:
    return result.model_copy(update={'provenance': result.provenance.model_copy(update=changes)})


def test_a_parameter_that_moved_differs_in_standard_errors_and_the_others_agree():
    found = side_by_side(('A', 'B', 'C'), (make_result(), make_result(*WORN), make_result()))

    drifts = {name: found.drifted(name) for name in NAMES}
    assert [[row.changed for row in rows if row] for rows in drifts.values()] == [
        [False, False],
        [False, False],
        [True, False],
    ]
    friction, _ = drifts[NAMES[2]]
    assert friction is not None
    assert friction.deviations == pytest.approx(0.7 / (2**0.5 * 0.1), rel=1e-3)
    assert found.sentences == (
        'B against A: joint/elbow/frictionloss from 3.5 to 4.2 N·m (+20 %), 4.9 standard errors.',
        'C against A: 3 parameters agree, p = 1.',
    )


def test_what_one_result_does_not_fit_has_no_side_and_no_difference():
    whole = make_result()
    inference = whole.inference
    assert inference is not None
    few = whole.model_copy(
        update={
            'parameters': whole.parameters[:2],
            'inference': inference.model_copy(
                update={'covariance': tuple(row[:2] for row in inference.covariance[:2])}
            ),
        }
    )

    found = side_by_side(('A', 'B'), (few, whole))

    friction = found.parameters[2]
    assert (friction.name, friction.sides) == (NAMES[2], (None, whole.parameters[2]))
    assert found.drifted(NAMES[2]) == (None,)
    assert [(row.name, row.sides) for row in found.targets] == [(NAMES[2], (None, VALUES[2]))]


def test_models_state_otherwise_what_is_not_equal_but_for_rounding():
    found = side_by_side(
        ('A', 'B'), (make_result(), make_result(VALUES[0] * (1 + 1e-9), VALUES[1], 4.0))
    )

    assert [(row.name, row.sides) for row in found.targets] == [(NAMES[2], (VALUES[2], 4.0))]


def test_where_both_determine_nothing_nothing_is_said_to_agree():
    blank = make_result(inference=None)

    found = side_by_side(('A', 'B'), (blank, blank))

    assert found.sentences == ('B against A: no parameter is determined by both.',)


def test_recordings_of_one_name_and_other_content_are_told_apart():
    def hashes(train: str) -> tuple[FileHash, ...]:
        return (
            FileHash(path='bags/train_1/train_1.mcap', role='train', sha256=train * 64),
            FileHash(path='bags/held/held.mcap', role='validate', sha256='c' * 64),
        )

    results = [_from(make_result(), files=hashes(letter)) for letter in 'ab']
    found = side_by_side(('A', 'B', 'C'), (*results, make_result()))

    assert [tuple(row) for row in found.recordings] == [
        ('train_1', ('training, SHA-256 ' + 'a' * 12, 'training, SHA-256 ' + 'b' * 12, None)),
        ('held', ('held out', 'held out', None)),
    ]
    assert found.causes[0] == ('1 of 2 files of recordings are other ones.',)


def test_versions_that_differ_are_known():
    found = side_by_side(
        ('A', 'B'),
        tuple(_from(make_result(), versions={'mujoco': '4.0.1', 'numpy': v}) for v in ('1', '2')),
    )

    assert [(row.name, row.differs) for row in found.versions] == [
        ('mujoco', False),
        ('numpy', True),
    ]


def test_errors_are_of_held_out_recordings_unless_no_result_has_any():
    held_out = make_result()
    [error] = held_out.errors
    training = held_out.model_copy(update={'errors': (error.model_copy(update={'role': 'train'}),)})

    mixed = side_by_side(('A', 'B'), (held_out, training))
    alike = side_by_side(('A', 'B'), (training, training))

    assert (mixed.role, [row.sides for row in mixed.errors]) == ('validate', [(error, None)])
    assert (alike.role, len(alike.errors)) == ('train', 1)


def test_a_result_is_found_by_file_by_dated_folder_and_by_the_link_to_it(tmp_path: Path):
    folder = keep(tmp_path / 'out', make_result())

    found = read_side_by_side(
        [folder / 'result.json', tmp_path / 'out' / 'current', tmp_path / 'out']
    )

    assert found.names == (str(folder), str(tmp_path / 'out' / 'current'), str(tmp_path / 'out'))
    assert all(isinstance(side, ParameterResult) for side in found.parameters[0].sides)


def test_a_folder_without_a_result_is_told(tmp_path: Path):
    with pytest.raises(ResultError, match='There is no result'):
        read_side_by_side([tmp_path, tmp_path])

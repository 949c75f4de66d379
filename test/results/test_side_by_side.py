# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Results beside each other: what agrees, what differs, and what only one of them has."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from builders.histories import NAMES, VALUES, keep, make_result
from sysid_ros.errors import ResultError
from sysid_ros.report.tables import LiteralConsole, print_side_by_side
from sysid_ros.results.result import CalibrationResult, FileHash
from sysid_ros.results.side_by_side import read_side_by_side, side_by_side

#: Seven standard errors more friction, which in a difference of two is 4.9.
WORN = (*VALUES[:2], VALUES[2] + 0.7)


def _from(result: CalibrationResult, **changes: object) -> CalibrationResult:
    return result.model_copy(update={'provenance': result.provenance.model_copy(update=changes)})


def test_a_parameter_that_moved_differs_in_standard_errors_and_the_others_agree():
    found = side_by_side(('A', 'B', 'C'), (make_result(), make_result(*WORN), make_result()))

    assert [row.name for row in found.parameters] == list(NAMES)
    assert [row.changed for row in found.parameters] == [
        (False, False),
        (False, False),
        (True, False),
    ]
    assert found.parameters[2].deviations[0] == pytest.approx(0.7 / (2**0.5 * 0.1), rel=1e-3)
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
    assert (friction.name, friction.deviations, friction.changed) == (NAMES[2], (None,), (None,))
    nothing, whole_side = friction.sides
    assert nothing is None
    assert whole_side is not None
    assert whole_side.value == VALUES[2]


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

    assert [tuple(row) for row in found.different] == [
        ('train_1', ('training, SHA-256 ' + 'a' * 12, 'training, SHA-256 ' + 'b' * 12, None)),
        ('held', ('held out', 'held out', None)),
    ]
    assert found.sentences[0].endswith('1 of 2 files of recordings are other ones.')


def test_versions_that_differ_are_known():
    found = side_by_side(
        ('A', 'B'),
        tuple(_from(make_result(), versions={'mujoco': '4.0.1', 'numpy': v}) for v in ('1', '2')),
    )

    assert [tuple(row) for row in found.different] == [('numpy', ('1', '2'))]


def test_errors_are_of_held_out_recordings_unless_no_result_has_any():
    held_out = make_result()
    [error] = held_out.errors
    training = held_out.model_copy(update={'errors': (error.model_copy(update={'role': 'train'}),)})

    mixed = side_by_side(('A', 'B'), (held_out, training))
    alike = side_by_side(('A', 'B'), (training, training))

    pair = (error.before, error.after)
    assert (mixed.role, [row.sides for row in mixed.errors]) == ('validate', [(pair, None)])
    assert (alike.role, len(alike.errors)) == ('train', 1)


def test_a_result_is_found_by_file_by_dated_folder_and_by_the_link_to_it(tmp_path: Path):
    folder = keep(tmp_path / 'out', make_result())

    found = read_side_by_side(
        [folder / 'result.json', tmp_path / 'out' / 'current', tmp_path / 'out']
    )

    names = [str(folder), str(tmp_path / 'out' / 'current'), str(tmp_path / 'out')]
    assert [result.name for result in found.results] == names
    assert len(set(found.parameters[0].sides)) == 1


def test_a_folder_without_a_result_is_told(tmp_path: Path):
    with pytest.raises(ResultError, match='There is no result'):
        read_side_by_side([tmp_path, tmp_path])


def test_the_console_says_the_same():
    found = side_by_side(('out/<b>old', 'out/current'), (make_result(), make_result(*WORN)))
    stream = io.StringIO()

    print_side_by_side(LiteralConsole(stream, 200), found)

    lines = stream.getvalue().splitlines()
    [friction] = [line for line in lines if line.startswith(NAMES[2])]
    numbers = '3.50 [3.30, 3.70] 4.20 [4.00, 4.40] 4.9 differs N·m'
    assert ' '.join(friction.split()) == f'{NAMES[2]} {numbers}'
    assert any(re.match(r'elbow_position +0.0200 → 0.00200 ', line) for line in lines)
    assert lines[-1].startswith('out/current against out/<b>old: joint/elbow/frictionloss from 3.5')

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Results of older versions are read, rendered and compared for good."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

from sysid_ros.config.calibration import VerdictKind
from sysid_ros.errors import ResultError
from sysid_ros.report import render_report
from sysid_ros.report.tables import LiteralConsole, print_result
from sysid_ros.results.comparison import compare
from sysid_ros.results.result import CalibrationResult

FOLDER = Path(__file__).parents[1] / 'data' / 'results'
PENDULUM = FOLDER / 'pendulum_schema_3.json'
SERVO = FOLDER / 'servo_schema_3.json'


def saved(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document))
    return path


def test_the_numbers_of_an_old_calibration_are_read() -> None:
    result = CalibrationResult.load(PENDULUM)
    assert result.schema_minor == 0
    assert result.parameter('tip_mass').value == 0.450044191195836
    assert result.parameter('tip_mass').verdict_kind is VerdictKind.IDENTIFIED
    assert result.parameter('command_delay').high == pytest.approx(0.005997118748114958, rel=0.1)
    assert result.held_out_after == 1.0636627851869997
    assert [finding.kind for finding in result.health].count('assumed order') == 2
    assert result.diagnostics.sequences == ()
    assert all(math.isnan(error.measured_deviation) for error in result.errors)


@pytest.mark.slow
@pytest.mark.parametrize('path', [PENDULUM, SERVO])
def test_an_old_result_is_rendered_compared_and_stored_again(path: Path, tmp_path: Path) -> None:
    result = CalibrationResult.load(path)
    page = render_report(result)
    stream = io.StringIO()
    print_result(LiteralConsole(stream, 200), result)
    for parameter in result.parameters:
        assert parameter.name in stream.getvalue()
        assert repr(parameter.value) in page
    assert 'ACCEPTED' in stream.getvalue()
    rows = compare(result, result, {}, 1.1)
    assert [row.name for row in rows[:-1]] == [parameter.name for parameter in result.parameters]
    assert all(row.agrees for row in rows)
    result.save(tmp_path / 'again.json')
    assert CalibrationResult.load(tmp_path / 'again.json').to_json() == result.to_json()


def test_the_verdict_of_an_old_result_is_taken_apart(tmp_path: Path) -> None:
    document = json.loads(PENDULUM.read_text())
    document['parameters'][0]['verdict'] = 'confounded with tip_mass, joint/elbow/damping'
    document['parameters'][1]['verdict'] = 'prior-dominated'
    first, second, *_ = CalibrationResult.load(saved(tmp_path / 'r.json', document)).parameters
    assert first.verdict_kind is VerdictKind.CONFOUNDED
    assert first.confounded_with == ('tip_mass', 'joint/elbow/damping')
    assert first.verdict == 'confounded with tip_mass, joint/elbow/damping'
    assert second.verdict_kind is VerdictKind.PRIOR_DOMINATED


def test_names_with_commas_are_whole_in_results_of_today(tmp_path: Path) -> None:
    result = CalibrationResult.load(PENDULUM)
    odd = result.parameters[0].model_copy(
        update={'verdict_kind': VerdictKind.CONFOUNDED, 'confounded_with': ('a, b', 'c')}
    )
    result.model_copy(update={'parameters': (odd,)}).save(tmp_path / 'r.json')
    (again,) = CalibrationResult.load(tmp_path / 'r.json').parameters
    assert again.confounded_with == ('a, b', 'c')


@pytest.mark.parametrize('version', [1, 2])
def test_versions_that_lack_fields_are_read(tmp_path: Path, version: int) -> None:
    document = json.loads(PENDULUM.read_text())
    document['schema_version'] = version
    for name in ('inference', 'combinations', 'gate', 'folds', 'horizon', 'windows', 'diverged'):
        document.pop(name, None)
    del document['solver']['starts']
    result = CalibrationResult.load(saved(tmp_path / 'r.json', document))
    assert result.parameter('tip_mass').value == 0.450044191195836
    assert result.inference is None


def test_fields_of_other_versions_are_left_aside(tmp_path: Path) -> None:
    document = json.loads(PENDULUM.read_text())
    document['surprise'] = {'a': 1}
    document['parameters'][2]['colour'] = 'red'
    sequence = {'sequence': 'run', 'role': 'train', 'error': 1.0, 'worst_start': 0.5}
    improvement = {'role': 'train', 'stretches': 12, 'fallen': 11, 'p_value': 0.01}
    document['diagnostics'] = {'sequences': [sequence], 'improvements': [improvement]}
    result = CalibrationResult.load(saved(tmp_path / 'later.json', document))
    assert result.diagnostics.sequences[0].error == 1.0
    assert result.diagnostics.improvements[0].p_value == 0.01
    assert result.parameters == CalibrationResult.load(PENDULUM).parameters
    document['held_out_after'] = 'soon'
    with pytest.raises(ResultError, match="Bad value 'soon' for 'held_out_after'"):
        CalibrationResult.load(saved(tmp_path / 'damaged.json', document))

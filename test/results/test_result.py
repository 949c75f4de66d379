# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The result of a calibration, on disk and back."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from builders.bare_results import parameter, rejected, sensor_error
from builders.told_results import arm
from sysid_ros.alignment.health import FindingKind, HealthFinding, TopicRate
from sysid_ros.config.schema import VerdictKind
from sysid_ros.errors import ResultError
from sysid_ros.results.result import CalibrationResult, NoiseScale, SignalPlot, TraceEntry
from sysid_ros.uncertainty.verdicts import Combination

NAN = float('nan')


def make() -> CalibrationResult:
    """Return a result with every field filled, NaN where one may be."""
    q = {'sensor': 'q', 'unit': 'rad'}
    error = sensor_error('q', 'rad', 'train', 0.1 + 0.2, NAN)
    noise = NoiseScale(**q, sigma=1e-300, source='residuals', samples=4, effective=2.5)
    plot = SignalPlot(
        **q,
        sequence='s',
        role='validate',
        times=(0.0, 1 / 3, 1e9),
        measured=(1.0, NAN, -0.0),
        before=(math.inf, 2.0, 3.0),
        after=(NAN, NAN, NAN),
    )
    trace = (TraceEntry(number=0, cost=1.0, step=NAN, rollouts=3, diverged=0),)
    solver = arm().solver.model_copy(update={'initial_cost': math.inf, 'trace': trace})
    return arm(
        parameters=(
            parameter('joint/elbow/armature', 0.1, 0.01, unit='kg·m²', noise_low=0.095),
            parameter('b', 0.1, NAN, verdict_kind=VerdictKind.AT_BOUND),
        ),
        held_out_before=NAN,
        held_out_after=NAN,
        errors=(error,),
        noise=(noise,),
        plots=(plot,),
        topics=(TopicRate('b', '/joint_states', 1, NAN, NAN),),
        health=(HealthFinding('b', 'q', FindingKind.GAP, 2, '“long”'),),
        solver=solver,
        combinations=(Combination(('a', 'b'), 'a/b', 1.0, NAN, NAN),),
        provenance=arm().provenance.model_copy(update={'config': {'bags': ['a', None, 3]}}),
    )


def test_what_is_saved_is_read_again(tmp_path: Path) -> None:
    result = make()
    path = tmp_path / 'result.json'
    result.save(path)
    again = CalibrationResult.load(path)
    # NaN equals nothing, so the texts are compared, and what is finite below.
    assert again.to_json() == result.to_json()
    assert again.parameters[0] == result.parameters[0]
    for name in ('health', 'noise', 'provenance'):
        assert getattr(again, name) == getattr(result, name)


def test_what_is_not_a_number_is_null_on_disk_and_nan_again(tmp_path: Path) -> None:
    path = tmp_path / 'result.json'
    make().save(path)
    document = json.loads(path.read_text(encoding='utf-8'), parse_constant=pytest.fail)
    assert document['parameters'][1]['low'] is None
    assert document['plots'][0]['measured'] == [1.0, None, 0.0]
    assert document['plots'][0]['before'] == [None, 2.0, 3.0]
    assert document['solver']['initial_cost'] is None
    again = CalibrationResult.load(path)
    assert math.isnan(again.parameters[1].half_width)
    assert math.isnan(again.held_out_after)
    assert math.isnan(again.plots[0].measured[1])
    assert math.isnan(again.solver.trace[0].step)
    assert math.isnan(again.combinations[0].low)


def test_a_parameter_is_found_by_name() -> None:
    assert make().parameter('b').verdict == 'at bound'
    with pytest.raises(KeyError, match='c'):
        make().parameter('c')


def test_a_file_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / 'result.json'
    make().save(path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, 'No space left on device')

    with monkeypatch.context() as patch:
        patch.setattr('pathlib.Path.replace', fail)
        with pytest.raises(ResultError, match='No space left on device'):
            rejected(make()).save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ['result.json']
    rejected(make()).save(path)
    assert not CalibrationResult.load(path).accepted


def test_no_file_is_an_error(tmp_path: Path) -> None:
    make().save(tmp_path / 'result.json')
    for name, said in (('resul.json', r'nearest: result\.json'), ('nowhere/a', 'no folder')):
        with pytest.raises(ResultError, match=rf"There is no result '.*{name}'; .*{said}"):
            CalibrationResult.load(tmp_path / name)


@pytest.mark.parametrize(
    ('content', 'sentence'),
    [
        (b'{"schema_version": 1', "'.*result.json' is not valid JSON: "),
        (b'\xff\xfe', "'.*result.json' is not valid JSON: "),
        (b'{"schema_version": 99}', 'has schema_version 99; this version reads 4'),
        (b'{"schema_version": "1"}', "has schema_version '1'; this version reads 4"),
        (b'{}', "result.json' is not a sysid_ros result: it has no schema_version"),
        (b'[]', r"Expected keys and values in '.*result.json', found \[\]"),
    ],
)
def test_what_is_no_result_of_this_version_is_one_sentence(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    path = tmp_path / 'result.json'
    path.write_bytes(content)
    with pytest.raises(ResultError, match=sentence) as caught:
        CalibrationResult.load(path)
    assert '\n' not in str(caught.value)


@pytest.mark.parametrize(
    ('place', 'value', 'complaint'),
    [
        (('parameters', 0, 'value'), 'much', "'much' for 'parameters.0.value' in .*: expected"),
        (('plots', 0, 'measured'), [1, 'x', None], r"Bad value 'x' for 'plots.0.measured.1' in "),
        (('errors', 0, 'role'), 'test', "Expected train or validate for 'errors.0.role' in .*"),
        (('solver', 'trace'), None, r"Bad value null for 'solver.trace' in .*: expected a list"),
    ],
)
def test_damage_is_told_with_its_place(
    tmp_path: Path, place: tuple[Any, ...], value: object, complaint: str
) -> None:
    document: Any = json.loads(make().to_json())
    inner = document
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    path = tmp_path / 'result.json'
    path.write_text(json.dumps(document))
    with pytest.raises(ResultError, match=f'The result is damaged: .*{complaint}'):
        CalibrationResult.load(path)

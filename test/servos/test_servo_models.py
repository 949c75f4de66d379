# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which friction law is recommended."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from builders.recordings import M1, RUNS, record
from sysid_ros.config import ServoFitConfig
from sysid_ros.errors import ConfigError, LogError, ParameterError
from sysid_ros.servos.bench.coverage import group, limits
from sysid_ros.servos.formats.logs import write_log
from sysid_ros.servos.formats.parameter_file import read_parameters
from sysid_ros.servos.laws.servo import Servo
from sysid_ros.servos.session.choice import (
    GroupError,
    ServoScore,
    choose_servo,
    compare_servos,
    recommend,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sysid_ros.servos.formats.logs import ServoLog
    from sysid_ros.servos.session.choice import ServoComparison

SERVO = Servo.named('xl330', 'm1')
#: Friction of gears that bear much.
M3 = {**M1, 'friction_base': 0.005, 'load_friction_base': 0.2}
MOTIONS = ('sin_sin', 'up_and_down', 'sin_time_square')
#: The second load with both gains.
CROSSED = (*RUNS, (0.3, 0.15, 400.0))
ONE_LOAD = ((0.3, 0.15, 400.0), (0.3, 0.15, 200.0))
FIXED = {'R': M1['R'], 'q_offset': M1['q_offset']}


def _write(folder: Path, logs: Sequence[ServoLog]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for log in logs:
        write_log(folder / f'{log.name}.json', log)
    return folder


def _request(folder: Path, logs: Sequence[ServoLog]) -> ServoFitConfig:
    return ServoFitConfig(
        actuator='xl330',
        logdir=_write(folder / 'logs', logs),
        output=folder / 'out' / 'servo.json',
        starts=1,
        fixed=FIXED,
    )


def _short(**how: object) -> list[ServoLog]:
    return record(SERVO, M1, seconds=0.5, **how)  # type: ignore[arg-type]


@pytest.fixture(scope='module')
def simple(tmp_path_factory: pytest.TempPathFactory) -> ServoComparison:
    """Return the comparison of M1 and M3 on logs of M1."""
    logs = record(SERVO, M1, motions=MOTIONS, seconds=2.0)
    return compare_servos(_request(tmp_path_factory.mktemp('m1'), logs), ('m3', 'm1'), workers=1)


@pytest.fixture(scope='module')
def loaded(tmp_path_factory: pytest.TempPathFactory) -> ServoComparison:
    """Return the same on logs of M3, with the logs of a gain in no fit."""
    logs = record(Servo.named('xl330', 'm3'), M3, motions=MOTIONS[:2], runs=CROSSED, seconds=2.0)
    light = record(
        Servo.named('xl330', 'm3'), M3, motions=MOTIONS[:1], runs=((0.3, 0.1, 300.0),), seconds=2.0
    )
    request = _request(tmp_path_factory.mktemp('m3'), [*logs, *light])
    request = request.model_copy(update={'validation_kp': 300.0})
    return compare_servos(request, ('m1', 'm3'), workers=1)


@pytest.mark.slow
def test_a_law_that_the_logs_do_not_need_is_not_recommended(simple: ServoComparison):
    assert simple.recommended == 'm1'
    assert [model.name for model in simple.models] == ['m3', 'm1']
    assert [model.fitted for model in simple.models] == [5, 4]
    assert all(model.adequate for model in simple.models)
    assert all(3e-4 < model.held_out < 5e-4 for model in simple.models)
    assert simple.chosen.values == pytest.approx(M1, rel=0.05)
    assert simple.chosen.bic == 0.0


@pytest.mark.slow
def test_a_law_that_the_logs_need_is_recommended_with_what_the_other_lacks(
    loaded: ServoComparison,
):
    poor, good = loaded.models
    assert loaded.recommended == 'm3'
    assert not poor.adequate
    assert poor.difference > 5 * poor.standard_error > 0
    assert poor.held_out > 10 * good.held_out
    assert poor.held_out_rms > poor.held_out
    assert (good.difference, good.standard_error, good.aic, good.bic) == (0.0, 0.0, 0.0, 0.0)
    times = poor.held_out / good.held_out
    assert f'm1 errs {times:.3g} times as much' in loaded.reason
    assert 'other loads' in loaded.reason


@pytest.mark.slow
def test_every_group_of_logs_is_judged_once(loaded: ServoComparison):
    assert (loaded.by, loaded.why) == ('load', 'as it is load that friction laws differ in')
    for model in loaded.models:
        assert [(part.group, part.logs) for part in model.groups] == [
            ('0.016 kg·m', 2),
            ('0.0465 kg·m', 4),
            ('kp 300, in no fit', 1),
        ]
        mean = np.average(
            [part.error for part in model.groups], weights=[part.logs for part in model.groups]
        )
        assert model.held_out == pytest.approx(mean)


@pytest.mark.slow
def test_a_comparison_is_plain_json(simple: ServoComparison):
    document = json.loads(simple.to_json())
    assert document['recommended'] == 'm1'
    assert document['models'][1]['values'] == simple.models[1].values
    assert document['models'][0]['groups'][0] == {
        'group': '0.016 kg·m',
        'logs': 3,
        'error': simple.models[0].groups[0].error,
    }


@pytest.mark.slow
def test_two_groups_and_groups_that_change_together_are_told(simple: ServoComparison):
    said = ' '.join(simple.warnings)
    assert 'only two loads' in said
    assert 'Loads and gains kp change together' in said
    assert 'The motor is never off' in said


@pytest.mark.slow
def test_one_load_is_told_and_gains_are_left_out_instead(tmp_path: Path):
    logs = record(SERVO, M1, motions=MOTIONS[:1], runs=ONE_LOAD, seconds=1.0)
    found = compare_servos(_request(tmp_path, logs), ('m1', 'm3'), workers=1)
    assert (found.by, found.why) == ('kp', 'as all have one load')
    assert [part.group for part in found.models[0].groups] == ['kp 200', 'kp 400']
    assert any('All logs have one load' in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ('by', 'names'),
    [
        ('load', ['0.016 kg·m', '0.0465 kg·m']),
        ('kp', ['kp 200', 'kp 400']),
        ('trajectory', ['sin_sin', 'up_and_down', 'sin_time_square']),
    ],
)
def test_logs_are_grouped_by_what_is_asked_for(by: str, names: list[str]):
    logs = _short(motions=MOTIONS, runs=CROSSED)
    found = group(SERVO, logs, by)
    assert (found.by, found.why) == (by, 'as asked for')
    assert list(found.groups) == names
    every = [log.name for logs in found.groups.values() for log in logs]
    assert sorted(every) == sorted(log.name for log in logs)


def test_logs_of_one_load_and_gain_are_grouped_by_motion():
    found = group(SERVO, _short(motions=MOTIONS, runs=RUNS[:1]))
    assert found.by == 'trajectory'
    assert not list(limits(SERVO, found))


def test_a_log_that_says_no_gain_has_the_usual_one():
    logs = _short(motions=MOTIONS[:1])
    silent = dataclasses.replace(logs[0], constants={'vin': 7.5})
    groups = group(SERVO, [silent, logs[1]], 'kp').groups
    assert [(name, own[0].name) for name, own in groups.items()] == [
        ('kp 200', logs[1].name),
        ('kp 400', silent.name),
    ]


@pytest.mark.parametrize(
    ('by', 'runs', 'said'),
    [
        ('load', ONE_LOAD, r'two loads .* found only 0.0465 kg·m; .* kp \(2 groups\)'),
        ('trajectory', RUNS, r'only sin_sin; by load \(2 groups\) or kp \(2 groups\)'),
        ('kp', RUNS[:1], r'only kp 400; nor do they differ otherwise'),
        (None, RUNS[:1], r'at least two loads, gains kp or trajectories .*, found 1 of one'),
    ],
)
def test_one_group_is_too_few(
    by: str | None, runs: Sequence[tuple[float, float, float]], said: str
):
    with pytest.raises(LogError, match=said):
        group(SERVO, _short(motions=MOTIONS[:1], runs=runs), by)


def test_other_groups_are_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="grouped by 'loads'; nearest: load"):
        group(SERVO, _short(), 'loads')


def test_models_and_coefficients_are_checked_before_any_fit(tmp_path: Path):
    request = _request(tmp_path, _short())
    with pytest.raises(ParameterError, match="no friction model 'm7'; nearest: m"):
        compare_servos(request, ('m1', 'm7'))
    with pytest.raises(ConfigError, match=r'two friction models or more .*, found m1, m1'):
        compare_servos(request, ('m1', 'm1'))
    strange = request.model_copy(update={'fixed': {'load_friction': 1.0}})
    with pytest.raises(ParameterError, match="no coefficient 'load_friction'"):
        compare_servos(strange, ('m1', 'm3'))


@pytest.mark.slow
def test_every_law_is_written_and_the_recommended_one_to_the_output(tmp_path: Path):
    logs = record(SERVO, M1, motions=MOTIONS[:1], seconds=1.5)
    request = _request(tmp_path, logs)
    done = choose_servo(request, ('m1', 'm3'), workers=1, command='sysid fit-actuator')
    assert done.comparison.recommended == 'm1'
    assert sorted(path.name for path in request.output.parent.iterdir()) == [
        'servo.comparison.json',
        'servo.json',
        *(
            f'servo_{m}.{end}'
            for m in ('m1', 'm3')
            for end in ('json', 'report.html', 'result.json')
        ),
    ]
    servo, values = read_parameters(request.output)
    assert servo == SERVO
    assert values == done.comparison.chosen.values
    assert done.comparison_path.read_text('utf-8') == f'{done.comparison.to_json()}\n'
    assert read_parameters(tmp_path / 'out' / 'servo_m3.json')[0].friction.name == 'm3'


@pytest.mark.parametrize('what', [{'resume': True}, {'method': 'cmaes'}])
def test_what_is_about_one_fit_is_refused(tmp_path: Path, what: dict[str, object]):
    request = _request(tmp_path, []).model_copy(update=what)
    with pytest.raises(ConfigError, match='Expected one friction model with'):
        choose_servo(request)


def _score(name: str, fitted: int, held_out: float, difference: float, error: float) -> ServoScore:
    adequate = difference <= error
    groups = (GroupError('0.1 kg·m', 12, held_out),)
    return ServoScore(
        name, {}, fitted, 0.0, groups, held_out, 0.0, difference, error, 0.0, 0.0, adequate, 0.0
    )


def test_the_simplest_of_the_adequate_is_recommended_with_numbers():
    models = [
        _score('m1', 6, 9e-3, 8e-3, 1e-3),
        _score('m5', 13, 1.01e-3, 1e-5, 2e-5),
        _score('m6', 15, 1.00e-3, 0.0, 0.0),
    ]
    assert recommend(models, 'load') == (
        'm5',
        (
            'it is the simplest whose held-out error is within one standard error or 1 % of that '
            'of m6: 1.01 against 1 mrad (0.01 ± 0.02 mrad more) on 12 logs of other loads; m1 errs '
            '8.91 times as much'
        ),
    )
    assert recommend(models[::2], 'kp') == (
        'm6',
        (
            'it has the least held-out error, and no simpler law is within one standard error or '
            '1 % of it: m1 errs 9 times as much (8 ± 1 mrad more) on 12 logs of other gains'
        ),
    )
    assert recommend(models[2:], 'trajectory') == (
        'm6',
        'it has the least held-out error on 12 logs of other motions, and none is simpler',
    )

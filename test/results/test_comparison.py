# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Results compared: in standard errors, with a baseline, beside each other and over time."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders.bare_results import bare_result, verdict
from builders.bare_results import parameter as built
from builders.histories import ERRORS, NAMES, VALUES, keep, make_result
from sysid_ros.config.schema import VerdictKind
from sysid_ros.errors import ResultError
from sysid_ros.report.tables import LiteralConsole, print_side_by_side
from sysid_ros.results.comparison import (
    Case,
    agreement,
    changes,
    compare,
    known_of,
    read_history,
    side_by_side,
)
from sysid_ros.results.result import CalibrationResult, FileHash, ParameterResult

NAN = math.nan
TARGETS = {name: {name} for name in NAMES}
#: Seven standard errors more friction, which in a difference of two is 4.9.
WORN = (*VALUES[:2], VALUES[2] + 0.7)


# In standard errors


def test_a_change_beyond_chance_is_named_with_percent_and_standard_errors() -> None:
    drift = compare(make_result(), make_result(*WORN), 'before')
    assert (drift.previous, drift.changed) == ('before', True)
    # Independent estimates: the variance of the difference is the sum of both.
    assert drift.parameters[2].deviations == pytest.approx(0.7 / (np.sqrt(2) * ERRORS[2]))
    assert [row.changed for row in drift.parameters] == [False, False, True]
    said = 'joint/elbow/frictionloss from 3.5 to 4.2 N·m (+20 %), 4.9 standard errors'
    assert drift.sentence == f'The robot changed: {said}; nothing else did.'
    assert changes(drift.parameters) == said
    chance = compare(make_result(), make_result(0.051, 0.7, 3.6))
    assert not chance.changed
    assert chance.sentence.startswith('The robot did not change by more than chance: 3 compared')
    assert changes(chance.parameters) == ''


def test_the_statistic_is_the_mahalanobis_distance() -> None:
    later = make_result(0.05, 0.71, 3.45, correlation=-0.8)
    drift = compare(make_result(correlation=-0.8), later)
    step = np.array([0.0, 0.01, -0.05]) / np.array(ERRORS)
    mixed = np.array([[1, 0, 0], [0, 1, -0.8], [0, -0.8, 1]])
    assert drift.statistic == pytest.approx(step @ np.linalg.inv(2 * mixed) @ step)


def _from(result: CalibrationResult, **changes: object) -> CalibrationResult:
    return result.model_copy(update={'provenance': result.provenance.model_copy(update=changes)})


def test_the_configuration_says_how_much_an_unchanged_robot_wanders() -> None:
    later = _from(make_result(*WORN), config={'memory': {'previous': 'none', 'wander': 0.2}})
    assert not compare(make_result(), later).changed


def _with_covariance(*rows: tuple[float, ...]) -> CalibrationResult:
    result = make_result()
    assert result.inference is not None
    inference = result.inference.model_copy(update={'covariance': rows})
    return result.model_copy(update={'inference': inference})


def test_only_what_is_the_same_and_was_determined_is_known() -> None:
    result = make_result()
    assert known_of(result, TARGETS).names == NAMES
    np.testing.assert_allclose(known_of(result, TARGETS).estimate.x, VALUES)
    moved = {**TARGETS, NAMES[0]: {'joint/elbow/stiffness'}}
    assert known_of(result, moved).names == NAMES[1:]
    unsure = _with_covariance((NAN, NAN, NAN), (NAN, 1e-4, 0.0), (NAN, 0.0, 1e-2))
    assert known_of(unsure, TARGETS).names == NAMES[1:]


def _of_recording() -> CalibrationResult:
    result = make_result()
    start = {'name': 'start', 'targets': ('sequence/run/initial_qpos[0]',)}
    first = result.parameters[0].model_copy(update=start)
    return result.model_copy(update={'parameters': (first, *result.parameters[1:])})


@pytest.mark.parametrize(
    ('result', 'compared'),
    [
        (_of_recording(), 2),  # what belongs to one recording never is
        (make_result(inference=None), 0),
        # One follows from another; whole numbers, so that no rounding hides it.
        (_with_covariance((1.0, 0.0, 0.0), (0.0, 1.0, 1.0), (0.0, 1.0, 1.0)), 0),
    ],
)
def test_what_cannot_be_compared_has_no_deviation(result: CalibrationResult, compared: int) -> None:
    drift = compare(result, result)
    assert len(drift.parameters) == 3
    assert sum(math.isfinite(row.deviations) for row in drift.parameters) == compared
    assert (drift.changed, drift.freedom) == (False, compared)
    assert drift.sentence.startswith('Whether the robot changed cannot be told') == (not compared)


# With a baseline


def parameter(name: str, value: float, low: float, high: float, **changes: Any) -> ParameterResult:
    return built(name, value, initial=0.0, low=low, high=high, **changes)


def make(*parameters: ParameterResult, **changes: Any) -> CalibrationResult:
    return bare_result(parameters=parameters, **changes)


BASELINE = make(parameter('a', 2.0, 1.5, 2.5), parameter('b', 5.0, 4.0, 6.0))


def cases(
    result: CalibrationResult,
    baseline: CalibrationResult = BASELINE,
    tolerance: dict[str, float] | None = None,
    factor: float = 1.1,
) -> dict[str, Case]:
    return {case.name: case for case in agreement(result, baseline, tolerance or {}, factor)}


def with_a(value: float, **changes: Any) -> CalibrationResult:
    return make(parameter('a', value, value - 0.1, value + 0.1, **changes), BASELINE.parameters[1])


def test_a_result_agrees_with_itself() -> None:
    found = cases(BASELINE)
    assert list(found) == ['a', 'b', 'held-out error']
    assert all(case.passed and not case.sentence for case in found.values())


@pytest.mark.parametrize(
    ('value', 'passed'), [(1.5, True), (1.9, True), (2.5, True), (1.49, False), (2.51, False)]
)
def test_a_value_agrees_within_the_interval(value: float, passed: bool) -> None:
    found = cases(with_a(value))
    assert [case.passed for case in found.values()] == [passed, True, True]
    case = found['a']
    assert (case.baseline, case.value, case.limit) == (2.0, value, 0.5)
    assert (case.low, case.high) == (value - 0.1, value + 0.1)
    assert ('allowed 0.5' in case.sentence) is not passed


@pytest.mark.parametrize(
    ('before', 'value', 'passed'),
    [
        (parameter('a', 0.5, 0.0, 3.5), 0.0, True),  # an interval that ends at a bound
        (parameter('a', 0.5, 0.0, 3.5), 3.4, True),
        (parameter('a', 0.5, 0.0, 3.5), 3.6, False),
        # What the model lacks hides no change.
        (parameter('a', 2.0, 0.5, 3.5, noise_low=1.9, noise_high=2.1), 2.05, True),
        (parameter('a', 2.0, 0.5, 3.5, noise_low=1.9, noise_high=2.1), 2.2, False),
        # A rerun elsewhere rounds differently; nothing more is known without an interval.
        (parameter('a', 2.0, NAN, NAN), 2.0 + 1e-12, True),
        (parameter('a', 2.0, NAN, NAN), 2.0001, False),
    ],
)
def test_an_interval_may_be_short_of_noise_alone_or_none(
    before: ParameterResult, value: float, passed: bool
) -> None:
    assert cases(make(parameter('a', value, 0.0, 9.0)), make(before))['a'].passed is passed


def test_a_wider_tolerance_by_name_or_pattern_counts_instead_of_the_interval() -> None:
    assert cases(with_a(2.9), tolerance={'a': 1.0})['a'].passed
    assert not cases(with_a(3.1), tolerance={'a': 1.0})['a'].passed
    found = cases(with_a(2.9), tolerance={'*': 1.0, 'b': 3.0})
    assert (found['a'].limit, found['b'].limit) == (1.0, 3.0)
    with pytest.raises(ResultError, match=r"for 'c\*' matches no parameter; available: a, b"):
        cases(BASELINE, tolerance={'a': 1.0, 'c*': 1.0})


def test_a_parameter_that_is_gone_or_new_or_judged_otherwise_is_said() -> None:
    gone = cases(make(BASELINE.parameters[1]))['a']
    assert (gone.passed, gone.sentence) == (False, 'no longer identified')
    assert math.isnan(gone.value)
    new = cases(make(*BASELINE.parameters, parameter('c', 1.0, 0.9, 1.1)))['c']
    assert (new.passed, new.sentence) == (False, 'not in the baseline')
    assert math.isnan(new.baseline)
    blind = cases(with_a(2.0, verdict_kind=VerdictKind.NOT_EXCITED))['a']
    assert (blind.passed, blind.sentence) == (True, 'now not excited')


@pytest.mark.parametrize(
    ('after', 'passed'), [(0.2, True), (1.2, True), (1.21, False), (NAN, False)]
)
def test_held_out_error_may_grow_by_the_factor(after: float, passed: bool) -> None:
    result = make(*BASELINE.parameters, held_out_after=after, training_after=99.0)
    case = cases(result, factor=1.2)['held-out error']
    assert (case.passed, case.baseline) == (passed, 1.0)
    assert case.limit == pytest.approx(0.2)


def test_where_nothing_is_held_out_training_error_counts() -> None:
    baseline = make(held_out_after=NAN, training_after=2.0)
    (case,) = cases(make(held_out_after=0.0, training_after=2.3), baseline).values()
    assert (case.name, case.passed) == ('training error', False)


def test_a_condition_that_is_no_longer_met_is_a_case() -> None:
    worse = make(*BASELINE.parameters, checks=verdict('It did not fall.', accepted=False))
    case = cases(worse)['better than nominal']
    assert (case.kind, case.passed, case.sentence) == ('check', False, 'It did not fall.')
    assert list(cases(worse, worse)) == ['a', 'b', 'held-out error']


# Beside each other


def test_a_parameter_that_moved_differs_and_the_others_agree() -> None:
    found = side_by_side(('A', 'B', 'C'), (make_result(), make_result(*WORN), make_result()))
    first, second, third = found.results
    assert first.drift is None
    assert second.drift is not None
    assert [row.changed for row in second.drift.parameters] == [False, False, True]
    assert second.sentence == (
        'B against A: joint/elbow/frictionloss from 3.5 to 4.2 N·m (+20 %), 4.9 standard errors.'
    )
    assert third.sentence == 'C against A: 3 parameters agree, p = 1.'
    blank = make_result(inference=None)
    _, second = side_by_side(('A', 'B'), (blank, blank)).results
    assert second.sentence == 'B against A: no parameter is determined by both.'


def test_recordings_of_one_name_and_other_content_are_told_apart() -> None:
    def hashes(train: str) -> tuple[FileHash, ...]:
        return (
            FileHash(path='bags/train_1/train_1.mcap', role='train', sha256=train * 64),
            FileHash(path='bags/held/held.mcap', role='validate', sha256='c' * 64),
        )

    first, other = (_from(make_result(), files=hashes(letter)) for letter in 'ab')
    found = side_by_side(('A', 'B'), (first, _from(other, versions={'mujoco': '9'})))
    said = found.results[1].sentence
    assert 'Recordings changed: train_1.' in said
    assert 'Versions changed: mujoco' in said
    assert said.endswith(' → 9.')


def test_errors_are_of_held_out_recordings_unless_no_result_has_any() -> None:
    held_out = make_result()
    [error] = held_out.errors
    training = held_out.model_copy(update={'errors': (error.model_copy(update={'role': 'train'}),)})
    mixed = side_by_side(('A', 'B'), (held_out, training))
    alike = side_by_side(('A', 'B'), (training, training))
    assert (mixed.role, mixed.errors) == ('validate', {error.sensor: (error, None)})
    assert (alike.role, len(alike.errors)) == ('train', 1)


def test_the_console_says_the_same_and_what_one_result_does_not_fit_has_no_value() -> None:
    whole = make_result()
    assert whole.inference is not None
    covariance = tuple(row[:2] for row in whole.inference.covariance[:2])
    few = whole.model_copy(
        update={
            'parameters': whole.parameters[:2],
            'inference': whole.inference.model_copy(update={'covariance': covariance}),
        }
    )
    names = ('out/<b>old', 'out/current', 'out/few')
    found = side_by_side(names, (whole, make_result(*WORN), few))
    stream = io.StringIO()
    print_side_by_side(LiteralConsole(stream, 200), found)
    lines = stream.getvalue().splitlines()
    [friction] = [line for line in lines if line.startswith(NAMES[2])]
    numbers = '3.50 [3.30, 3.70] 4.20 [4.00, 4.40] – 4.9 differs – N·m'  # noqa: RUF001
    assert ' '.join(friction.split()) == f'{NAMES[2]} {numbers}'
    assert any(re.match(r'elbow_position +0.0200 → 0.00200 ', line) for line in lines)
    assert lines[-2].startswith('out/current against out/<b>old: joint/elbow/frictionloss from 3.5')


# Over time


def test_each_accepted_result_is_compared_with_the_accepted_one_before(tmp_path: Path) -> None:
    first = keep(tmp_path, make_result())
    keep(tmp_path, make_result(*WORN, checks=verdict(accepted=False)))
    second = keep(tmp_path, make_result(*WORN))
    keep(tmp_path, make_result(*WORN))
    entries = read_history(tmp_path)
    said = [entry.sentence.partition(' ')[0] for entry in entries]
    assert said == ['', '', 'joint/elbow/frictionloss', 'nothing']
    against = [entry.drift.previous if entry.drift else None for entry in entries]
    assert against == [None, None, first.name, second.name]
    assert [entry.current for entry in entries] == [False, False, False, True]


def test_a_result_says_itself_what_changed_and_of_what_its_error_is(tmp_path: Path) -> None:
    keep(tmp_path, make_result())
    own = compare(make_result(), make_result(*WORN), 'elsewhere')
    keep(tmp_path, make_result(drift=own, held_out_after=NAN))
    first, second = read_history(tmp_path)
    assert second.drift == own
    assert (first.error, second.error) == ('2 mrad', '1 times the noise (training)')

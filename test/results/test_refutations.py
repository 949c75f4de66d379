# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A result that its own tests refute identifies nothing, and says what refutes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysid_ros.config import GateConfig
from sysid_ros.config.calibration import VerdictKind
from sysid_ros.inference.model_errors import TermKind
from sysid_ros.results.diagnostics import SignalCurve, sensor_errors
from sysid_ros.results.gate import Condition, judge
from sysid_ros.results.refutations import refuted
from sysid_ros.results.result import (
    CalibrationResult,
    InferenceSummary,
    LackingTerm,
    SensorError,
    SolverStatus,
)

BASELINE = CalibrationResult.load(Path(__file__).parents[1] / 'data' / 'pendulum' / 'baseline.json')
TIMES = np.arange(0.0, 6.0, 0.01)


def stopped(status: SolverStatus, left: float) -> dict[str, Any]:
    update = {'success': False, 'status': status, 'left': left, 'message': 'The limit is reached.'}
    return {'solver': BASELINE.solver.model_copy(update=update)}


def lacks(kind: str, *shares: float) -> dict[str, Any]:
    terms = [LackingTerm(kind=kind, title=f'{kind} {n}', share=s) for n, s in enumerate(shares)]
    summary = InferenceSummary(
        method='',
        samples=1,
        effective_samples=1.0,
        covariance=(),
        correlation=(),
        lacking=tuple(terms),
    )
    return {'inference': summary}


def predicted(
    after: float, *, role: str = 'validate', often: float = 1.0, **more: Any
) -> dict[str, Any]:
    """Return what a sensor's curve says whose nominal error is 1 in so much of the time."""
    rng = np.random.default_rng(3)
    noise = 0.1 * rng.standard_normal((2, len(TIMES)))
    grown = np.where((1.0 - often) * TIMES[-1] <= TIMES, after, 1.0)
    values = TIMES, 0.0 * TIMES, 1.0 + noise[0], grown + noise[1]
    curve = SignalCurve('held', 'validate', 'q', 'q', *values, diverged=False)
    (error,) = sensor_errors([curve], {'q': 'rad'})
    return {'errors': (error.model_copy(update={'role': role, **more}),)}


def beyond(times: float, *, alike: float = 0.9, moves: float = 1.0) -> dict[str, Any]:
    """Return residuals of training that are so many times what the sensor errs by."""
    figures = {'usual': 1e-3 * times, 'scatter': 1e-3, 'autocorrelation': alike}
    return predicted(0.5, role='train', measured_deviation=moves, **figures)


def asking(value: float | None) -> dict[str, Any]:
    """Return another parameter that the data would have somewhere beyond its lower bound of 0."""
    first = BASELINE.parameters[0]
    update = {'value': 0.0, 'verdict_kind': VerdictKind.AT_BOUND, 'asked': value, 'name': 'loss'}
    return {'parameters': (*BASELINE.parameters, first.model_copy(update=update))}


@pytest.mark.parametrize(
    ('change', 'said'),
    [
        (stopped(SolverStatus.TIME, 3.0), 'The solver did not converge: The limit is reached.'),
        (stopped(SolverStatus.ITERATIONS, 3.0), 'The solver did not converge'),
        (predicted(1.5), 'The nominal model predicts q better, 1.01 to 1.5 rad.'),
        (lacks(TermKind.DELAY, 0.06, 0.07), 'another delay of the commands 1: 13 % of the'),
        (beyond(60.0), 'Residuals of q are 60 times what the sensor errs by.'),
        (beyond(3.0, moves=2e-3), 'Residuals of q are 1.5 times how it moves.'),
        (asking(-1.5), 'The data ask for loss = -1.5, beyond its bound 0, and other values make'),
    ],
)
def test_what_its_own_tests_refute_identifies_nothing_and_names_the_finding(
    change: dict[str, Any], said: str
) -> None:
    result = BASELINE.model_copy(update=change)
    assert any(own.identified for own in result.parameters)
    for before, after in zip(result.parameters, refuted(result, ()).parameters, strict=True):
        if before.identified:
            assert after.verdict_kind is VerdictKind.MODEL_LIMITED
            assert said in after.explanation
        else:
            assert after == before


@pytest.mark.parametrize(
    'change',
    [
        {},
        stopped(SolverStatus.TIME, 0.5),
        stopped(SolverStatus.STALLED, 3.0),
        predicted(1.04),  # no more than is of no interest
        predicted(1.5, role='train', scatter=0.1),  # beside what is held out
        predicted(3.0, often=0.2),  # in a fifth of the time: that may be chance
        lacks(TermKind.DELAY, 0.06),
        lacks(TermKind.SPRING, 0.9),  # models of real robots all lack something
        beyond(40.0),
        beyond(60.0, alike=0.1),
        beyond(3.0, alike=0.1, moves=2e-3),  # noise that hides the motion
        asking(None),
    ],
)
def test_what_they_do_not_refute_is_left_as_it_is(change: dict[str, Any]) -> None:
    result = BASELINE.model_copy(update=change)
    assert refuted(result, ()) == result


def test_conditions_on_the_fit_refute_it_and_those_on_single_parameters_do_not() -> None:
    bad = judge(BASELINE.model_copy(update={'diverged': ('held',)}), GateConfig())
    assert not any(own.identified for own in bad.parameters)
    assert 'becomes unstable in held' in bad.parameters[0].explanation
    # A model that was right already got no better.
    same = {'held_out_after': BASELINE.held_out_before}
    same_as_nominal = judge(BASELINE.model_copy(update=same), GateConfig())
    assert not same_as_nominal.accepted
    assert same_as_nominal.parameters == BASELINE.parameters


def test_another_delay_rejects_a_result_of_which_a_delay_is_a_parameter() -> None:
    def unmet(targets: tuple[str, ...]) -> list[str]:
        first, *others = BASELINE.parameters
        parameters = (first.model_copy(update={'targets': targets}), *others[:0])
        change = {**lacks(TermKind.DELAY, 0.2), 'parameters': parameters}
        judged = judge(BASELINE.model_copy(update=change), GateConfig())
        assert not any(own.identified for own in judged.parameters)
        return [check.name for check in judged.gate if not check.passed]

    assert unmet(('actuator/elbow/delay',)) == [Condition.TIMES]
    assert unmet(('joint/elbow/damping',)) == []


def test_errors_of_older_results_count_as_no_chance() -> None:
    error = SensorError(sensor='q', unit='rad', role='validate', before=1.0, after=1.5, samples=9)
    found = refuted(BASELINE.model_copy(update={'errors': (error,)}), ())
    assert not any(own.identified for own in found.parameters)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What refutes the values of a result, what is reserved about it, and what to do next."""

from __future__ import annotations

import io
import math
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lxml.etree
import numpy as np
import pytest
import yaml

from builders.bare_results import verdict
from builders.commands import parse
from builders.told_results import arm
from sysid_ros.alignment.health import FindingKind, HealthFinding
from sysid_ros.config.schema import CalibrationConfig, GateConfig, ParameterConfig, VerdictKind
from sysid_ros.fit.terms import TermKind
from sysid_ros.report.tables import LiteralConsole, print_result
from sysid_ros.results.checks import headline, judge, next_steps
from sysid_ros.results.result import (
    Action,
    CalibrationResult,
    Check,
    Disagreement,
    EstimatorKind,
    Fold,
    HorizonJoint,
    HorizonPoint,
    InferenceSummary,
    LackingTerm,
    Level,
    Likeness,
    NoiseScale,
    SolverStatus,
    Standing,
)
from sysid_ros.results.summary import SignalCurve, sensor_errors

NAN = math.nan
LAUNCH = Path(__file__).parents[2] / 'launch'
BASELINE = CalibrationResult.load(Path(__file__).parents[1] / 'data' / 'pendulum' / 'baseline.json')
HONEST = BASELINE.model_copy(update={'training_after': 1.0, 'held_out_after': 1.3, 'health': ()})
TIMES = np.arange(0.0, 6.0, 0.01)


def judged(gate: dict[str, Any] | None = None, **update: Any) -> CalibrationResult:
    return judge(HONEST.model_copy(update=update), GateConfig(**(gate or {})))


def reserved(**update: Any) -> list[str]:
    return [check.name for check in judged(**update).reservations]


def solver(**update: Any) -> dict[str, Any]:
    return {'solver': HONEST.solver.model_copy(update=update)}


def stopped(status: SolverStatus, left: float) -> dict[str, Any]:
    return solver(success=False, status=status, left=left, message='The limit is reached.')


def inferred(**update: Any) -> dict[str, Any]:
    fields = {'method': '', 'samples': 1, 'effective_samples': 1.0}
    return {'inference': InferenceSummary(**fields, covariance=(), correlation=(), **update)}


def lacks(kind: str, *shares: float) -> dict[str, Any]:
    terms = [LackingTerm(lack=kind, title=f'{kind} {n}', share=s) for n, s in enumerate(shares)]
    return inferred(lacking=tuple(terms))


def predicted(after: float, *, role: str = 'validate', **more: Any) -> dict[str, Any]:
    """Return what a sensor's curve says whose nominal error is 1."""
    rng = np.random.default_rng(3)
    noise = 0.1 * rng.standard_normal((2, len(TIMES)))
    values = TIMES, 0.0 * TIMES, 1.0 + noise[0], after + noise[1]
    curve = SignalCurve('held', 'validate', 'q', 'q', *values, diverged=False)
    (error,) = sensor_errors([curve], {'q': 'rad'})
    update = {'role': role, 'measured_deviation': NAN, **more}
    noise = NoiseScale(sensor='q', unit='rad', sigma=0.1, source='told')
    return {'errors': (error.model_copy(update=update),), 'noise': (noise,)}


def beyond(times: float, *, alike: float = 0.9, moves: float = 1.0) -> dict[str, Any]:
    """Return residuals of training that are so many times what the sensor errs by."""
    figures = {'usual': 1e-3 * times, 'scatter': 1e-3, 'autocorrelation': alike}
    return predicted(0.5, role='train', measured_deviation=moves, **figures)


def asking(value: float | None) -> dict[str, Any]:
    """Return another parameter that the data would have somewhere beyond its lower bound of 0."""
    update = {'value': 0.0, 'verdict_kind': VerdictKind.AT_BOUND, 'asked': value, 'name': 'loss'}
    update |= {'targets': ('joint/elbow/damping',), 'bounds': (0.0, 1.0)}
    return {'parameters': (*HONEST.parameters, HONEST.parameters[0].model_copy(update=update))}


def of_kind(kind: VerdictKind, count: int = 99) -> dict[str, Any]:
    own, others = HONEST.parameters[:count], HONEST.parameters[count:]
    return {'parameters': (*(p.model_copy(update={'verdict_kind': kind}) for p in own), *others)}


# What refutes


@pytest.mark.parametrize(
    ('change', 'said'),
    [
        (stopped(SolverStatus.TIME, 3.0), 'The solver did not converge: The limit is reached.'),
        (stopped(SolverStatus.ITERATIONS, NAN), 'The solver did not converge'),
        (predicted(1.5), 'The error of q grew, 1.01 to 1.5 rad'),
        (lacks(TermKind.DELAY, 0.06, 0.07), 'another delay of the commands 1: 13 % of the'),
        (beyond(60.0), 'Residuals of q are 60 times what the sensor errs by'),
        (beyond(3.0, moves=2e-3), 'which moves by 0.002 rad.'),
        (asking(-1.5), 'The data ask for loss = -1.5, beyond its bound 0, and other values make'),
        ({'diverged': ('held',)}, 'becomes unstable in held'),
    ],
)
@pytest.mark.parametrize('converged', [True, False])
def test_what_its_own_tests_refute_identifies_nothing_and_names_the_finding(
    change: dict[str, Any], said: str, converged: bool
) -> None:
    found = judged({'converged': converged}, **change)
    before = HONEST.model_copy(update=change).parameters
    assert any(own.identified for own in before)
    for old, new in zip(before, found.parameters, strict=True):
        if old.identified:
            assert new.verdict_kind is VerdictKind.MODEL_LIMITED
            assert said in new.explanation
        else:
            assert new == old
    (check,) = (check for check in found.checks if said in check.text and not check.passed)
    notes = {'residuals', 'asked', *(['converged'] if not converged else [])}
    assert (check.level is Level.NOTE) == (check.name in notes)


@pytest.mark.parametrize(
    'change',
    [
        {},
        stopped(SolverStatus.TIME, 0.5),
        stopped(SolverStatus.STALLED, 3.0),
        predicted(1.04),  # no more than is of no interest
        predicted(1.5, role='train', scatter=0.1, autocorrelation=NAN),  # beside what is held out
        lacks(TermKind.DELAY, 0.06),
        lacks(TermKind.SPRING, 0.9),  # models of real robots all lack something
        beyond(40.0),
        beyond(60.0, alike=0.1),
        beyond(3.0, alike=0.1, moves=2e-3),  # noise that hides the motion
        asking(None),
        {'held_out_after': HONEST.held_out_before},  # a model that was right already got no better
    ],
)
def test_what_they_do_not_refute_is_left_as_it_is(change: dict[str, Any]) -> None:
    assert judged(**change).parameters == HONEST.model_copy(update=change).parameters


@pytest.mark.parametrize(
    ('target', 'low', 'level'),
    [
        ('actuator/elbow/delay', 0.005, Level.FAIL),
        ('actuator/elbow/delay', 0.0, Level.NOTE),
        ('joint/elbow/damping', 0.005, Level.NOTE),
    ],
)
def test_another_delay_rejects_a_result_that_shows_a_delay(
    target: str, low: float, level: Level
) -> None:
    update = {'targets': (target,), 'value': 0.01, 'low': low, 'high': 0.015}
    own = HONEST.parameters[0].model_copy(update=update)
    found = judged(**lacks(TermKind.DELAY, 0.2), parameters=(own,))
    (check,) = [check for check in found.checks if check.name == 'times']
    assert (check.level, check.passed, found.accepted) == (level, False, level is Level.NOTE)


# Reservations


def ahead(before: float, after: float, coasting: float, seconds: float = 0.5) -> dict[str, Any]:
    joint = HorizonJoint(sensor='q', unit='rad', before=before, after=after, coasting=coasting)
    point = HorizonPoint(seconds=seconds, role='validate', before=2.0, after=1.0, joints=(joint,))
    return {'horizon': (point,)}


def jumping_clock() -> dict[str, Any]:
    finding = HealthFinding('train_1', '/joint_states', FindingKind.SPIKES, 1, '.244 s')
    return {'health': (finding,)}


def assumed(second: float, kind: FindingKind = FindingKind.ASSUMED_ORDER) -> dict[str, Any]:
    """Return a joint whose command was guessed, and how much another one moves like it."""
    like = Likeness(own=0.99, best='q', correlation=0.99, second=second)
    sensor = HONEST.errors[0].model_copy(update={'likeness': like, 'role': 'train'})
    finding = HealthFinding('train_1', '/goals', kind, 1, 'taken in the order of the model')
    return {'errors': (sensor, *HONEST.errors[1:]), 'health': (finding,)}


def test_an_honest_result_has_none() -> None:
    assert judged().standing is Standing.ACCEPTED


@pytest.mark.parametrize(
    ('expected', 'change'),
    [
        ('held out', lambda: {'held_out_after': NAN, 'folds': ()}),
        ('generalises', lambda: {'held_out_after': 5.36, 'training_after': 1.01}),
        ('generalises', lambda: {**solver(window=0.5), 'held_out_after': 50.0}),
        ('identified', lambda: of_kind(VerdictKind.CONFOUNDED)),
        ('model', lambda: of_kind(VerdictKind.MODEL_LIMITED, 1)),
        ('agreement', lambda: inferred(disagreement=Disagreement(recordings=2, times=3, most='x'))),
        ('optimum', lambda: stopped(SolverStatus.ITERATIONS, 0.4)),
        ('optimum', lambda: stopped(SolverStatus.TIME, 0.4)),
        ('time step', lambda: solver(timestep=5e-4, timestep_change=2.0)),
        ('time step', lambda: solver(timestep=5e-4, timestep_change=NAN)),  # unstable, once stored
        ('recordings', jumping_clock),
        ('residuals', lambda: beyond(3.0)),
        ('residuals', lambda: beyond(5.0) | solver(estimator=EstimatorKind.TORQUE)),
        ('mapping', lambda: assumed(0.98)),
        ('motion ahead', lambda: ahead(0.01, 0.02, 0.03)),
        ('motion ahead', lambda: ahead(0.03, 0.02, 0.01)),
    ],
)
def test_each_reason_is_found(expected: str, change: Callable[[], dict[str, Any]]) -> None:
    found = judged(**change())
    assert expected in [check.name for check in found.reservations]
    assert found.standing is Standing.RESERVED


@pytest.mark.parametrize(
    'change',
    [
        solver(timestep=5e-4, timestep_change=0.1),
        beyond(1.3),
        beyond(3.0, alike=0.1),
        beyond(3.0, alike=NAN),
        beyond(3.0) | solver(estimator=EstimatorKind.TORQUE),  # as smooth as the low-pass makes it
        assumed(0.5),
        assumed(0.98, FindingKind.NOT_MEASURED),
        ahead(0.03, 0.01, 0.02),
        ahead(0.0100, 0.0104, 0.0100),  # no more than chance
        ahead(0.01, 0.02, 0.03, 1.0),  # small errors have grown
        {'held_out_after': NAN, 'folds': (Fold(name='t', before=3.0, after=1.0, values=(1.0,)),)},
    ],
)
def test_what_is_small_or_of_another_cause_is_none(change: dict[str, Any]) -> None:
    assert reserved(**change) == []


def test_a_reservation_says_what_and_by_how_much_and_saves_nothing() -> None:
    (check,) = judged(**ahead(0.03, 0.02, 0.01)).reservations
    assert 'keeping its velocity predicts better: q (0.01 to 0.02 rad at 0.5 s)' in check.text
    assert judged(held_out_after=1e9, **jumping_clock()).standing is Standing.REJECTED


# What to do next


def doubtful() -> dict[str, Any]:
    like = Likeness(own=-0.95, best='elbow_position', correlation=-0.95)
    first, *others = arm().errors
    return {'errors': (first.model_copy(update={'likeness': like}), *others)}


def of(kind: VerdictKind, **more: Any) -> dict[str, Any]:
    (own,) = arm().parameters
    return {'parameters': (own.model_copy(update={'verdict_kind': kind, **more}),)}


UNKNOWN = {'held_out_after': NAN, 'held_out_before': NAN}
AGAIN = 'sysid calibrate arm/calibration.yaml'
INSPECT = 'sysid inspect arm/bags/train_1 arm/arm.xml'
#: What is wrong with a result, what helps, and how the first command begins.
REASONS: list[tuple[dict[str, Any], Action, str]] = [
    ({}, Action.USE, 'cp -r arm/out/current/mjcf arm/arm_fitted'),
    (UNKNOWN, Action.RECORD, 'ros2 launch sysid_ros record.launch.xml output:=arm/bags/validate_2'),
    ({'held_out_after': 5.0}, Action.SEARCH, INSPECT),
    ({'held_out_after': 5.0, **doubtful()}, Action.MAP, 'sysid map arm/bags/train_1 arm/arm.xml'),
    (jumping_clock(), Action.LOOK, INSPECT),
    (of(VerdictKind.NOT_EXCITED), Action.EXCITE, 'sysid excite arm/arm.xml --config arm/calibrati'),
    (stopped(SolverStatus.ITERATIONS, 3.0), Action.GO_ON, f'{AGAIN} --set solver.max_iterations='),
    (stopped(SolverStatus.TIME, 3.0), Action.GO_ON, f'{AGAIN} --set solver.time='),
    (of(VerdictKind.AT_BOUND, value=5.0), Action.WIDEN, AGAIN),
    (lacks(TermKind.DELAY, 0.4), Action.FREE, AGAIN),
]


def advised(change: dict[str, Any]) -> CalibrationResult:
    return judge(arm(**change), GateConfig())


@pytest.mark.parametrize(('change', 'action', 'first'), REASONS)
def test_what_helps_most_comes_first_with_a_command(
    change: dict[str, Any], action: Action, first: str
) -> None:
    result = advised(change)
    steps = next_steps(result)
    assert steps[0].action is action
    assert steps[0].commands[0].startswith(first)
    assert 1 <= len(steps) <= 3
    assert (steps[-1].action is Action.USE) == (
        result.accepted and any(own.identified for own in result.parameters)
    )


def test_every_command_can_be_typed() -> None:
    """Of ours the parser is asked, of a launch file its arguments."""
    commands = {
        command
        for change, *_ in REASONS
        for step in next_steps(advised(change))
        for command in step.commands
    }
    programs = set()
    for command in commands:
        program, *words = shlex.split(command)
        programs.add(program)
        if program == 'sysid':
            _, given = parse(words)
            for pair in given.get('settings', []):
                section, _, key = pair.partition('=')[0].partition('.')
                field = CalibrationConfig.model_fields[section]
                assert not key or key in field.annotation.model_fields  # type: ignore[union-attr]
        elif program == 'ros2':
            verb, package, file, *arguments = words
            assert (verb, package) == ('launch', 'sysid_ros')
            names = lxml.etree.parse(LAUNCH / file).xpath('//arg/@name')
            assert {argument.partition(':=')[0] for argument in arguments} <= set(names)
    assert programs == {'sysid', 'ros2', 'cp'}


def test_what_to_change_is_said_as_a_configuration_may_have_it() -> None:
    first, *_ = next_steps(advised(predicted(1.5)))
    assert 'leave q out of sensors' in first.sentence
    first, *_ = next_steps(advised(lacks(TermKind.DELAY, 0.4)))
    assert 'another delay of the commands' in first.sentence
    entry = '{target: actuator/*/delay, shared: true, bounds: [0.0, 0.1]}'
    assert entry in first.sentence
    assert ParameterConfig.model_validate(yaml.safe_load(entry)).shared
    delay = of(VerdictKind.IDENTIFIED, targets=('actuator/elbow/delay',))
    first, *_ = next_steps(advised(lacks(TermKind.DELAY, 0.4) | delay))
    assert first.sentence.startswith('Stamp commands and states by one clock')


def test_without_a_configuration_there_are_sentences_only() -> None:
    made_in_python = arm().provenance.model_copy(update={'command': 'sysid_ros.calibrate'})
    (step,) = next_steps(advised({'provenance': made_in_python}))
    assert step.sentence
    assert step.commands == ()
    servo = arm().provenance.model_copy(update={'config': {}})
    assert next_steps(advised({'provenance': servo, 'held_out_after': 5.0})) == ()


# What is said first

ERRORS = 'Held-out error, nominal → fitted: positions 88 → 2.2 mrad, velocities 0.55 → 0.033 rad/s'
MORE = ('Held-out over training error: 1.20.', ': 40 → 1.2 times the noise (estimated from these')
USE = (
    'Take the fitted model into use',
    'cp -r arm/out/current/mjcf',
    'sysid check arm/calibration',
)


def rejected() -> CalibrationResult:
    numbers = {'measured': 88.0, 'limit': 50.0, 'unit': '% not explained'}
    text = 'Only 12 % is predicted.'
    check = Check(name='explained', level=Level.FAIL, passed=False, text=text, **numbers)
    return arm(checks=(check,))


@pytest.mark.parametrize(
    ('result', 'parts'),
    [
        (arm(), ('\nACCEPTED\n', ERRORS, *MORE, 'Next:\n', '1. ', *USE)),
        (
            judge(arm(**jumping_clock()), GateConfig()),
            (
                *(
                    '\nACCEPTED WITH RESERVATIONS\n',
                    ERRORS,
                    *MORE,
                    'have faults: spikes in train_1.',
                ),
                *('Next:\n', '1. Look at spikes', 'sysid inspect arm/bags/train_1', '2. ', *USE),
            ),
        ),
        (
            arm(held_out_before=NAN, held_out_after=NAN),
            (
                '\nACCEPTED\n',
                'Training error (nothing is held out)',
                '80 → 2 mrad',
                ': 9 → 1 times',
            ),
        ),
        (rejected(), ('\nREJECTED: ', ERRORS, *MORE, '(88 % not explained, at most 50 %')),
    ],
)
def test_the_console_says_standing_errors_reasons_and_what_to_do(
    result: CalibrationResult, parts: tuple[str, ...]
) -> None:
    stream = io.StringIO()
    print_result(LiteralConsole(stream, 1000), result)
    rest = '\n'.join(line.rstrip() for line in stream.getvalue().splitlines())
    for part in parts:
        _, found, rest = rest.partition(part)
        assert found, part
    assert 'noise' not in headline(result).lines[0]


def test_a_noise_that_was_given_is_said_to_be() -> None:
    known = NoiseScale(sensor='q', unit='rad', sigma=1e-3, source='configuration')
    assert 'noise (from configuration)' in headline(arm(noise=(known,))).lines[-1]


def test_warnings_are_notes_of_the_table_and_stay_when_a_result_is_judged() -> None:
    found = judge(arm().with_warnings(['One.', 'Two.', 'One.']), GateConfig())
    assert found.warnings == ('One.', 'Two.')
    assert found.with_warnings(['Two.']).warnings == ('One.', 'Two.')
    assert found.standing is Standing.ACCEPTED
    assert arm(checks=verdict('Worse.', accepted=False)).acceptance == 'Worse.'

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What to do next: ranked, and every command is one that can be typed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import lxml.etree
import pytest

from builders.commands import parse
from builders.told_results import arm
from sysid_ros.config import CalibrationConfig
from sysid_ros.config.calibration import ParameterConfig, VerdictKind
from sysid_ros.inference.model_errors import TermKind
from sysid_ros.results.gate import Condition
from sysid_ros.results.next_steps import next_steps
from sysid_ros.results.reservations import Reservation
from sysid_ros.results.result import (
    CalibrationResult,
    GateCheck,
    InferenceSummary,
    LackingTerm,
    Likeness,
    ParameterResult,
    SolverStatus,
)
from sysid_ros.yaml_text import parse_yaml

LAUNCH = Path(__file__).parents[2] / 'launch'


def failing(name: str) -> GateCheck:
    return GateCheck(name=name, passed=False, detail='')


def stopped() -> dict[str, Any]:
    return {'solver': arm().solver.model_copy(update={'status': SolverStatus.TIME, 'seconds': 3.0})}


def turned() -> dict[str, Any]:
    like = Likeness(own=-0.95, best='elbow_position', correlation=-0.95)
    first, *others = arm().errors
    return {'errors': (first.model_copy(update={'likeness': like}), *others)}


def bounded(kind: VerdictKind) -> dict[str, Any]:
    parameter = ParameterResult(
        name='tool mass',
        targets=('body/tool/mass',),
        unit='kg',
        initial=1.0,
        value=2.0,
        low=1.9,
        high=2.0,
        bounds=(0.1, 2.0),
        verdict_kind=kind,
    )
    return {'parameters': (parameter,)}


def made(*reasons: str, **changes: Any) -> CalibrationResult:
    """Return a result with conditions that are not met, or with reservations."""
    gate = tuple(failing(name) for name in reasons if name in list(Condition))
    reserved = tuple(failing(name) for name in reasons if name in list(Reservation))
    return arm(gate=gate, reservations=reserved, accepted=not gate, **changes)


@pytest.mark.parametrize(
    ('reasons', 'changes', 'first'),
    [
        ([], {}, 'cp -r arm/out/current/mjcf arm/arm_fitted'),
        ([Reservation.HELD_OUT], {}, 'ros2 launch sysid_ros record.launch.xml'),
        ([Reservation.GENERALISES], {}, 'sysid inspect arm/bags/train_1 arm/arm.xml'),
        ([Reservation.RECORDINGS], {}, 'sysid inspect arm/bags/train_1 arm/arm.xml'),
        ([Reservation.MAPPING], {}, 'sysid map arm/bags/train_1 arm/arm.xml -o mapping.yaml'),
        ([Condition.EXPLAINED], turned(), 'sysid map arm/bags/train_1 arm/arm.xml'),
        ([Condition.EXPLAINED], {}, 'sysid inspect arm/bags/train_1 arm/arm.xml'),
        ([Condition.VERDICTS], {}, 'sysid excite arm/arm.xml --config arm/calibration.yaml'),
        ([Condition.CONVERGED], {}, 'sysid calibrate arm/calibration.yaml --set solver.max_iter'),
        ([Condition.CONVERGED], stopped(), 'sysid calibrate arm/calibration.yaml --set solver.tim'),
        ([Condition.BOUNDS], bounded(VerdictKind.AT_BOUND), 'sysid calibrate arm/calibration.yaml'),
    ],
)
def test_what_helps_most_comes_first(
    reasons: list[str], changes: dict[str, Any], first: str
) -> None:
    steps = next_steps(made(*reasons, **changes))
    assert steps[0].commands[0].startswith(first)
    assert 1 <= len(steps) <= 3


@pytest.mark.parametrize('reason', [*Condition, *Reservation])
def test_every_reason_leads_to_a_command(reason: str) -> None:
    steps = next_steps(made(reason))
    assert steps
    assert steps[0].commands


def test_every_command_can_be_typed() -> None:
    """Of ours the parser is asked, of a launch file its arguments."""
    commands = {
        command
        for reason in (*Condition, *Reservation)
        for changes in ({}, stopped())
        for step in next_steps(made(reason, **changes))
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


def test_without_a_configuration_there_are_sentences_only() -> None:
    made_in_python = arm().provenance.model_copy(update={'command': 'sysid_ros.calibrate'})
    (step,) = next_steps(arm(provenance=made_in_python))
    assert step.sentence
    assert step.commands == ()
    servo = arm().provenance.model_copy(update={'config': {}})
    assert next_steps(arm(provenance=servo)) == ()


ENTRIES = [
    {'target': 'joint/*/damping', 'name': None, 'bounds': [0.0, 5.0], 'shared': False},
    {'target': 'body/tool/mass', 'name': 'payload', 'bounds': [0.1, 2.0], 'scale': 'log'},
]


def asked(*parameters: ParameterResult) -> dict[str, Any]:
    """Return parameters, and the entries of the configuration that asked for them."""
    config = {**arm().provenance.config, 'parameters': ENTRIES}
    provenance = arm().provenance.model_copy(update={'config': config})
    return {'parameters': parameters, 'provenance': provenance}


def of(kind: VerdictKind, target: str, name: str = '', **more: Any) -> ParameterResult:
    (own,) = arm().parameters
    update = {'name': name or target, 'targets': (target,), 'verdict_kind': kind, **more}
    return own.model_copy(update=update)


def test_what_is_not_excited_is_to_be_taken_out_of_the_entry_that_asked_for_it() -> None:
    idle = of(VerdictKind.NOT_EXCITED, 'joint/wrist/damping')
    found = of(VerdictKind.IDENTIFIED, 'joint/elbow/damping')
    (step,) = next_steps(made(Condition.VERDICTS, **asked(idle, found)))
    assert step.yaml == (
        '# in arm/calibration.yaml',
        'parameters:',
        '  # instead of {target: joint/*/damping, bounds: [0.0, 5.0]}',
        '  - {target: joint/elbow/damping, bounds: [0.0, 5.0]}',
    )


def test_bounds_are_to_be_wider_where_a_value_lies_on_them() -> None:
    mass = of(VerdictKind.AT_BOUND, 'body/tool/mass', 'payload', bounds=(0.1, 2.0), value=2.0)
    (step,) = next_steps(made(Condition.BOUNDS, **asked(mass)))
    assert step.yaml[-1] == (
        '  - {target: body/tool/mass, name: payload, bounds: [0.1, 3.9], scale: log}'
    )


def test_a_delay_that_is_missing_is_to_be_a_parameter_before_anything_else() -> None:
    term = LackingTerm(kind=TermKind.DELAY, title='another delay of the commands', share=0.4)
    summary = InferenceSummary(
        method='', samples=1, effective_samples=1.0, covariance=(), correlation=(), lacking=(term,)
    )
    first, *_ = next_steps(made(Reservation.HELD_OUT, Reservation.MODEL, inference=summary))
    assert 'another delay of the commands' in first.sentence
    assert first.yaml[1:] == (
        'parameters:',
        '  - {target: actuator/*/delay, shared: true, bounds: [0.0, 0.1]}',
    )
    # It is what a configuration may say.
    (entry,) = parse_yaml('\n'.join(first.yaml))['parameters']
    assert ParameterConfig.model_validate(entry).shared


def test_sensors_that_the_nominal_model_predicts_better_may_be_left_out() -> None:
    errors = [
        error.model_copy(update={'after': 2 * error.before})
        if error.sensor == 'elbow_effort'
        else error
        for error in arm().errors
    ]
    (step, *_) = next_steps(made(Reservation.EACH_SENSOR, errors=tuple(errors)))
    assert step.yaml[-1] == 'sensors: [elbow_position, elbow_velocity]'

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid preflight`` and ``sysid excite``: what recordings say, and which would say more."""

from __future__ import annotations

import dataclasses
import io
import json
import math

import pytest

from builders.cli_project import Project, Sysid
from sysid_ros.alignment.health import FindingKind, HealthFinding
from sysid_ros.cli.tables import print_preflight
from sysid_ros.config.schema import VerdictKind
from sysid_ros.report.tables import LiteralConsole
from sysid_ros.uncertainty.verdicts import Combination
from sysid_ros.workflows.preflight import InformationSource, PredictedParameter, Preflight


def _parameter(
    name: str, unit: str, value: float, half: float = math.nan, with_: str = ''
) -> PredictedParameter:
    kind = VerdictKind.CONFOUNDED if with_ else VerdictKind.IDENTIFIED
    said = f'confounded with {with_}' if with_ else 'identified'
    explanation = 'Only a ratio.' if with_ else ''
    return PredictedParameter(name, unit, value, half, said, explanation, kind)


def _source(name: str, *growth: float) -> InformationSource:
    return InformationSource(name, (*growth, math.nan, math.nan))


FOUND = Preflight(
    parameters=(
        _parameter('damping', 'N·m·s/rad', 2.0, 0.02),
        _parameter('friction', 'N·m', 0.0, 0.003),
        _parameter('mass', 'kg', 1.0, with_='gear'),
        _parameter('gear', '', 1.0, with_='mass'),
    ),
    combinations=(Combination(('mass', 'gear'), 'mass/gear', 1.0, 0.9, 1.1),),
    sensors=(_source('q', math.inf, 3.0), _source('v', 1.0, 1.01)),
    bags=(_source('first', 1.2, 2.5), _source('second', math.inf, 1.5)),
    noise={'q': 1e-3, 'v': 1e-2},
    health=(HealthFinding('first', 'first', FindingKind.GAP, 2, '0.3 s'),),
    unstable=('wild',),
    dead=('effort',),
    samples=1234,
)


def _printed(found: Preflight) -> list[str]:
    stream = io.StringIO()
    print_preflight(LiteralConsole(stream, 150), found)
    return [' '.join(line.split()) for line in stream.getvalue().splitlines()]


def test_parameters_are_printed_with_what_tells_them():
    lines = _printed(FOUND)
    assert 'damping 2.000 0.02 1 % N·m·s/rad identified q alone' in lines
    assert 'friction 0 0.003 - N·m identified q 3' in lines
    assert 'mass 1 - - kg confounded with gear -' in lines
    assert 'mass, gear: Only a ratio.' in lines
    assert any(line.startswith('determined is mass/gear: 1.0') for line in lines)
    assert lines[-1] == 'Not identified by these bags: mass, gear.'


def test_links_that_are_alike_are_one_line():
    kinds = {body: [VerdictKind.PRIOR_DOMINATED] * 10 for body in ('upper', 'fore', 'hand')}
    kinds['hand'][0] = VerdictKind.IDENTIFIED
    numbers = [
        PredictedParameter(f'body/{body}/inertia[{i}]', '1', 0.0, 0.5, str(kind), 'Prior.', kind)
        for body, own in kinds.items()
        for i, kind in enumerate(own)
    ]
    of_links = Combination((numbers[0].name, numbers[1].name), 'a + b', 1.0, 0.9, 1.1)
    found = dataclasses.replace(
        FOUND,
        parameters=(*FOUND.parameters, *numbers),
        combinations=(*FOUND.combinations, of_links),
        sensors=tuple(s._replace(growth=(*s.growth, *[1.0] * 30)) for s in FOUND.sensors),
        bags=tuple(s._replace(growth=(*s.growth, *[1.0] * 30)) for s in FOUND.bags),
    )
    lines = _printed(found)
    assert 'upper, fore: 10 prior-dominated' in lines
    assert 'hand: 9 prior-dominated, 1 identified' in lines
    assert not any('inertia[' in line for line in lines)
    assert not any('a + b' in line for line in lines)
    assert 'Not identified by these bags: mass, gear, 29 of 30 numbers of links.' in lines


def test_sources_and_trouble_are_printed():
    lines = _printed(FOUND)
    for expected in (
        'bag first: without it friction would be known 2.5 times worse',
        'bag second: without it damping would be lost',
        'adds nothing (no interval 5 % wider without): sensor v',
        'never moves, left out: effort',
        'wild: simulations of the nominal model diverge; left out here',
        'caution: gap: first (2): 0.3 s',
    ):
        assert expected in lines


def test_of_simulations_that_diverge_nothing_is_said_but_what_to_do():
    lost = PredictedParameter('damping', 'N·m·s/rad', 2.0, math.nan, 'diverging', '', None)
    lines = _printed(Preflight((lost,), diverging='Simulations diverge.'))
    assert lines[0] == 'Simulations diverge.'
    assert 'What a fit could say' not in ' '.join(lines)
    assert lines[-1] == 'Not identified by these bags: damping.'


@pytest.mark.slow
def test_what_a_fit_would_say_is_told_before_it(project: Project, sysid: Sysid):
    project.change(parameters=[{'target': 'joint/*/damping'}, {'target': 'body/tip/mass'}])
    done = sysid('preflight', project.config, '--json')
    assert (done.code, done.err.splitlines()[0].split()[0]) == (0, 'reading')
    found = json.loads(done.out)
    assert [p['verdict'] for p in found['parameters']] == ['identified'] * 3
    assert all(p['half'] > 0 for p in found['parameters'])
    assert found['sensors']
    assert found['bags']


@pytest.mark.slow
def test_doubt_is_told_by_the_exit_code(project: Project, sysid: Sysid):
    # Only efforts and velocities tell the stiffness of a servo from the inertia that it moves.
    project.make_quick()
    project.change(parameters=[{'target': 'actuator/elbow/kp'}, {'target': 'joint/elbow/armature'}])
    assert sysid('preflight', project.config).code == 0
    project.change(sensors=['elbow_position'])
    done = sysid('preflight', project.config, '--quiet')
    assert (done.code, done.err, done.out.count('\n')) == (1, '', 1)
    names = 'actuator/elbow/kp, joint/elbow/armature'
    assert done.out.splitlines()[-1] == f'Not identified by these bags: {names}.'


@pytest.mark.slow
def test_an_excitation_is_one_document(
    project: Project, sysid: Sysid, monkeypatch: pytest.MonkeyPatch
):
    for name, value in (('_RANDOM', 3), ('_CHANGED', 1), ('_CHECKED', 2)):
        monkeypatch.setattr(f'sysid_ros.workflows.excitation.design.{name}', value)
    asked = ('--for', 'joint/elbow/armature', '--duration', '3', '--rate', '20')
    done = sysid('excite', 'arm.xml', *asked, '-o', 'motion.csv', '--quiet', '--json')
    assert (done.code, done.err) == (0, '')
    found = json.loads(done.out)
    assert found['file'] == 'motion.csv'
    assert (project.folder / 'motion.csv').is_file()
    (told,) = found['parameters']
    assert (told['name'], told['unit']) == ('joint/elbow/armature', 'kg·m²')
    assert told['half_width'] > 0
    assert {limit['name'] for limit in found['limits']} == {'shoulder', 'elbow'}

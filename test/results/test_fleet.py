# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What results of many robots say together."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from builders.fleet_results import robot_result
from sysid_ros.results.fleet import RobotOutcome, summarise_fleet

if TYPE_CHECKING:
    from pathlib import Path

    from sysid_ros.results.fleet import FleetResult

RNG = np.random.default_rng(5)
#: Of ten robots: one value of a, and values of b that differ; all to .01 and .02.
A = 1.0 + 0.01 * RNG.standard_normal(10)
B = 5.0 + 0.5 * RNG.standard_normal(10) + 0.02 * RNG.standard_normal(10)
NAMES = [f'r{number}' for number in range(10)]


def summary(**instead: RobotOutcome) -> FleetResult:
    outcomes = {
        name: RobotOutcome(robot_result({'a': (a, 0.01), 'b': (b, 0.02)}))
        for name, a, b in zip(NAMES, A, B, strict=True)
    }
    return summarise_fleet({**outcomes, **instead}, 'sysid fleet', {'sysid_ros': '0'})


def of(fleet: FleetResult, robot: str, parameter: str) -> Any:
    return next(v for v in fleet.robot(robot).values if v.parameter == parameter)


def test_parameters_that_robots_share_are_told_from_those_they_do_not():
    fleet = summary()

    assert [(p.name, p.spread, p.robots) for p in fleet.parameters] == [
        ('a', 'shared', 10),
        ('b', 'differs', 10),
    ]
    assert fleet.parameter('a').low <= 1.0 <= fleet.parameter('a').high
    assert fleet.parameter('b').tau_low <= 0.5 <= fleet.parameter('b').tau_high
    assert fleet.heterogeneity.freedom == 18
    assert fleet.heterogeneity.p_value < 1e-6
    assert fleet.complete


def test_values_are_drawn_to_the_population_where_they_are_shared():
    fleet = summary()
    mean = fleet.parameter('a').mean

    assert abs(of(fleet, 'r0', 'a').shrunken - mean) < 0.5 * abs(A[0] - mean)
    assert of(fleet, 'r0', 'b').shrunken == pytest.approx(B[0], abs=0.01)


def test_an_odd_robot_is_named_with_its_parameter_and_left_out_of_it_alone():
    fleet = summary(r3=RobotOutcome(robot_result({'a': (A[3], 0.01), 'b': (12.0, 0.02)})))

    assert [robot.name for robot in fleet.robots if robot.odd] == ['r3']
    assert fleet.robot('r3').odd == ('b',)
    assert fleet.parameter('b').odd == ('r3',)
    assert (fleet.parameter('a').robots, fleet.parameter('b').robots) == (10, 9)
    assert fleet.parameter('b').high < 6
    found = of(fleet, 'r3', 'b')
    assert found.deviation > 8
    assert found.p_value < 0.05
    assert found.shrunken == pytest.approx(12.0, abs=0.1)


@pytest.mark.parametrize(
    ('verdict', 'compared'),
    [
        ('identified', True),
        ('model-limited', True),
        ('at bound', False),
        ('not excited', False),
        ('prior-dominated', False),
        ('confounded with b', False),
    ],
)
def test_what_a_robot_does_not_determine_is_left_out_and_counted(verdict: str, compared: bool):
    own = robot_result({'a': (90.0, 0.01), 'b': (B[0], 0.02)}, verdicts={'a': verdict})

    fleet = summary(r0=RobotOutcome(own))

    assert of(fleet, 'r0', 'a').compared is compared
    assert fleet.parameter('a').undetermined == (() if compared else ('r0',))
    # Compared, it would be odd: 90 among values of 1.
    assert fleet.parameter('a').odd == (('r0',) if compared else ())
    assert fleet.parameter('a').robots == 9
    assert fleet.parameter('b').robots == 10


def test_failed_and_rejected_robots_do_not_count():
    rejected = robot_result({'a': (90.0, 0.01), 'b': (B[1], 0.02)}, accepted=False)
    fleet = summary(r0=RobotOutcome(None, 'No bag matches.'), r1=RobotOutcome(rejected))

    assert [(r.name, r.standing) for r in fleet.robots[:2]] == [
        ('r0', 'failed'),
        ('r1', 'rejected'),
    ]
    assert fleet.robot('r0').sentence == 'No bag matches.'
    assert of(fleet, 'r1', 'a').value == 90.0
    assert not of(fleet, 'r1', 'a').compared
    assert fleet.parameter('a').robots == 8
    assert not fleet.complete


def test_numbers_of_a_recording_are_no_robots():
    target = 'sequence/train/initial_qvel[0]'
    own = [robot_result({target: (0.1, 0.01)}) for _ in range(4)]

    fleet = summarise_fleet({str(n): RobotOutcome(r) for n, r in enumerate(own)}, '', {})

    assert fleet.parameter(target).robots == 0


def test_robots_without_any_result_are_a_fleet_without_parameters():
    fleet = summarise_fleet(
        {'a': RobotOutcome(None, 'No.'), 'b': RobotOutcome(None, 'No.')}, '', {}
    )

    assert fleet.parameters == ()
    assert fleet.heterogeneity.freedom == 0
    assert fleet.heterogeneity.p_value == 1


def test_one_robot_has_its_own_values(tmp_path: Path):
    fleet = summarise_fleet({'a': RobotOutcome(robot_result({'a': (2.0, 0.1)}))}, '', {})

    assert fleet.parameter('a').mean == 2.0
    assert fleet.parameter('a').spread == 'unknown'
    assert of(fleet, 'a', 'a').shrunken == 2.0
    fleet.save(tmp_path / 'fleet.json')
    document = json.loads((tmp_path / 'fleet.json').read_text())
    assert document['schema_version'] == 1
    assert document['parameters'][0]['tau'] is None
    assert math.isnan(type(fleet).model_validate(document).parameter('a').tau)

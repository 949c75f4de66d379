# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What results of many robots say together, against published numbers and simulated truth."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from builders.fleet_results import robot_result
from sysid_ros.config.schema import VerdictKind
from sysid_ros.results.result import CalibrationResult
from sysid_ros.workflows.fleet import FleetResult, population, summarise_fleet

#: Thirteen trials of a vaccine: ill and well with and without it, `dat.bcg` of R's metafor.
BCG = np.array(
    [
        (4, 119, 11, 128),
        (6, 300, 29, 274),
        (3, 228, 11, 209),
        (62, 13536, 248, 12619),
        (33, 5036, 47, 5761),
        (180, 1361, 372, 1079),
        (8, 2537, 10, 619),
        (505, 87886, 499, 87892),
        (29, 7470, 45, 7232),
        (17, 1699, 65, 1600),
        (186, 50448, 141, 27197),
        (5, 2493, 3, 2338),
        (27, 16886, 29, 17825),
    ],
    dtype=float,
)
RNG = np.random.default_rng(5)
#: Of ten robots: one value of a, and values of b that differ; all to .01 and .02.
A = 1.0 + 0.01 * RNG.standard_normal(10)
B = 5.0 + 0.5 * RNG.standard_normal(10) + 0.02 * RNG.standard_normal(10)


def test_a_published_meta_analysis_is_reproduced():
    a, b, c, d = BCG.T
    values = np.log(a / (a + b)) - np.log(c / (c + d))
    found = population(values, 1 / a - 1 / (a + b) + 1 / c - 1 / (c + d))
    # metafor: rma(ai, bi, ci, di, measure='RR', method='DL').
    assert found.mean == pytest.approx(-0.7141, abs=5e-5)
    assert found.tau**2 == pytest.approx(0.3088, abs=5e-5)
    assert found.p_value < 1e-4


@pytest.mark.parametrize('tau', [0.0, 2.0])
def test_intervals_hold_the_mean_of_a_population_as_often_as_they_say(tau: float):
    rng = np.random.default_rng(3)
    draws, held = 600, 0
    for _ in range(draws):
        errors = rng.uniform(0.5, 2.0, 6)
        values = 3.0 + tau * rng.standard_normal(6) + errors * rng.standard_normal(6)
        found = population(values, errors**2)
        held += found.low <= 3.0 <= found.high
    assert binom.cdf(held, draws, 0.95) > 1e-3


def _summary(**instead: CalibrationResult | str) -> FleetResult:
    outcomes = {
        f'r{number}': robot_result({'a': (a, 0.01), 'b': (b, 0.02)})
        for number, (a, b) in enumerate(zip(A, B, strict=True))
    }
    return summarise_fleet({**outcomes, **instead}, 'sysid fleet')


def test_parameters_that_robots_share_are_told_from_those_they_do_not():
    fleet = _summary()
    shared, differing = fleet.parameter('a'), fleet.parameter('b')
    assert shared.p_value > 0.05
    assert differing.p_value < 1e-6
    assert shared.low <= 1.0 <= shared.high
    assert differing.tau == pytest.approx(0.5, rel=0.5)
    assert not shared.odd + differing.odd
    assert fleet.complete


def test_an_odd_robot_is_named_with_its_parameter_and_left_out_of_it_alone():
    fleet = _summary(r3=robot_result({'a': (A[3], 0.01), 'b': (12.0, 0.02)}))
    (odd,) = fleet.parameter('b').odd
    assert (odd.robot, odd.value) == ('r3', 12.0)
    assert odd.deviation > 8
    assert fleet.parameter('b').high < 6
    assert fleet.parameter('a').odd == ()


def test_in_fleets_without_odd_robots_one_is_seldom_named():
    rng = np.random.default_rng(8)
    draws, named = 200, 0
    for _ in range(draws):
        outcomes = {
            str(robot): robot_result({'a': (float(value), 0.1), 'b': (float(other), 0.1)})
            for robot, (value, other) in enumerate(10 + rng.standard_normal((8, 2)))
        }
        fleet = summarise_fleet(outcomes, '')
        named += any(parameter.odd for parameter in fleet.parameters)
    assert binom.sf(named - 1, draws, 0.05) > 1e-3


@pytest.mark.parametrize(
    ('verdict', 'compared'),
    [
        (VerdictKind.IDENTIFIED, True),
        (VerdictKind.MODEL_LIMITED, True),
        (VerdictKind.AT_BOUND, False),
        (VerdictKind.NOT_EXCITED, False),
        (VerdictKind.PRIOR_DOMINATED, False),
        (VerdictKind.CONFOUNDED, False),
    ],
)
def test_what_a_robot_does_not_determine_is_not_compared(verdict: VerdictKind, compared: bool):
    own = robot_result({'a': (90.0, 0.01), 'b': (B[0], 0.02)}, verdicts={'a': verdict})
    fleet = _summary(r0=own)
    # Compared, it is odd: 90 among values of 1.
    assert [odd.robot for odd in fleet.parameter('a').odd] == (['r0'] if compared else [])
    assert len(fleet.parameter('a').values) == (10 if compared else 9)
    assert len(fleet.parameter('b').values) == 10


def test_failed_and_rejected_robots_do_not_count():
    rejected = robot_result({'a': (90.0, 0.01), 'b': (B[1], 0.02)}, accepted=False)
    fleet = _summary(r0='No bag matches.', r1=rejected)
    found = [(robot.name, robot.standing) for robot in fleet.robots[:2]]
    assert found == [('r0', 'failed'), ('r1', 'rejected')]
    assert fleet.robots[0].sentence == 'No bag matches.'
    assert len(fleet.parameter('a').values) == 8
    assert not fleet.complete


def test_numbers_of_a_recording_are_no_robots():
    own = {str(n): robot_result({'sequence/train/initial_qvel[0]': (0.1, 0.01)}) for n in range(4)}
    assert summarise_fleet(own, '').parameters == ()


def test_one_robot_has_its_own_value_and_no_spread(tmp_path: Path):
    fleet = summarise_fleet({'a': robot_result({'a': (2.0, 0.1)}), 'b': 'No.'}, '')
    assert fleet.parameter('a').mean == 2.0
    fleet.save(tmp_path / 'fleet.json')
    document = json.loads((tmp_path / 'fleet.json').read_text())
    assert document['schema_version'] == 1
    assert document['parameters'][0]['tau'] is None
    assert math.isnan(FleetResult.model_validate(document).parameter('a').tau)

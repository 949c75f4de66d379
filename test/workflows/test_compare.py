# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which of several sets of parameters is recommended."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sysid_ros.errors import ConfigError
from sysid_ros.fit.observer import Nobody
from sysid_ros.workflows.compare import (
    Candidate,
    ModelComparison,
    compare_models,
    compare_problems,
    without,
)
from sysid_ros.workflows.problem import Problem

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('undrawn')]


TARGETS = ('joint/j/damping', 'body/bob/mass', 'joint/j/frictionloss')
DROP = ('joint/*/frictionloss',)


def _compared(workshop: Any, problem: Problem) -> ModelComparison:
    candidates = (Candidate('full', workshop.config), Candidate('smooth', workshop.config, DROP))
    return compare_problems(candidates, (problem, without(problem, DROP)), Nobody())


def _problem(workshop: Any, friction: float, seed: int, bags: int = 4) -> Problem:
    truth = workshop.spec(damping=0.15, friction=friction)
    runs = [workshop.sequence(truth, f'b{i}', seed + i) for i in range(bags)]
    return workshop.problem(workshop.spec(), TARGETS, *runs, held_out=1)  # type: ignore[no-any-return]


def test_friction_that_is_there_is_kept(workshop: Any):
    found = _compared(workshop, _problem(workshop, 0.03, 0))
    full, smooth = found.models
    assert found.recommended == 'full'
    assert not smooth.adequate
    assert smooth.held_out > full.held_out
    assert smooth.difference > smooth.standard_error > 0
    assert full.bic == 0.0 < smooth.bic
    assert 'no simpler one is within one standard error' in found.reason
    assert [part.bag for part in full.parts] == [
        'b3',
        'b0, left out',
        'b1, left out',
        'b2, left out',
    ]


@pytest.mark.parametrize('seed', [0, 50])
def test_friction_that_is_not_there_is_left_out(workshop: Any, seed: int):
    found = _compared(workshop, _problem(workshop, 0.0, seed))
    assert found.recommended == 'smooth'
    assert found.models[1].bic == 0.0
    assert found.models[1].parameters == 2


def test_with_one_bag_the_criterion_decides_and_says_so(workshop: Any):
    truth = workshop.spec(damping=0.15)
    problem = workshop.problem(workshop.spec(), TARGETS, workshop.sequence(truth, 'b', 3))
    found = _compared(workshop, problem)
    assert found.recommended == 'smooth'
    assert 'nothing is held out' in found.reason
    assert np.isnan(found.models[0].held_out)


def test_patterns_match_names_and_targets(workshop: Any):
    problem = _problem(workshop, 0.0, 0, bags=2)
    names = [p.name for p in without(problem, ('joint/*', 'nothing*')[:1]).parameters]
    assert names == ['body/bob/mass']
    with pytest.raises(ConfigError, match="No parameter to drop matches 'joint/k/damping'"):
        without(problem, ('joint/k/damping',))
    with pytest.raises(ConfigError, match='leaves no parameter'):
        without(problem, ('*',))


def test_one_model_cannot_be_compared(workshop: Any):
    with pytest.raises(ConfigError, match='two models or more'):
        compare_models([Candidate('only', workshop.config)], Nobody())

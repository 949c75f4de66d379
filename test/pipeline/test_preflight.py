# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a fit would be able to say."""

from __future__ import annotations

from typing import Any

from sysid_ros.pipeline.fitting import fit_training
from sysid_ros.pipeline.loading import Nobody
from sysid_ros.pipeline.preflight import predicted

TARGETS = ('joint/j/damping', 'body/bob/mass')


def test_predicted_intervals_are_those_of_the_fit(workshop: Any):
    truth = workshop.spec(damping=0.11, mass=1.05)
    runs = [workshop.sequence(truth, f'b{i}', i) for i in range(2)]
    problem = workshop.problem(workshop.spec(), TARGETS, *runs)
    found = predicted(problem, runs, threads=1)
    after = fit_training(workshop.config, problem, Nobody()).intervals
    for before, fitted in zip(found.parameters, after, strict=True):
        ratio = before.half / ((fitted.high - fitted.low) / 2)
        assert 1 / 1.5 < ratio < 1.5
        assert before.verdict == fitted.verdict == 'identified'


def test_a_nominal_value_of_zero_does_not_hide_what_is_known_well(workshop: Any):
    runs = [workshop.sequence(workshop.spec(friction=0.05), 'b', 1)]
    problem = workshop.problem(workshop.spec(), ('joint/j/frictionloss',), *runs)
    (found,) = predicted(problem, runs, threads=1).parameters
    assert found.verdict == 'identified'
    assert found.nominal == 0

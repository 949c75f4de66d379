# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a fit would be able to say."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from sysid_ros.errors import FitError
from sysid_ros.fit.observer import Nobody
from sysid_ros.signals import Trajectory
from sysid_ros.workflows.fitting import Job, fit_training
from sysid_ros.workflows.preflight import Preflight, predicted

TARGETS = ('joint/j/damping', 'body/bob/mass')


def _expected(workshop: Any, problem: Any) -> Preflight:
    return predicted(workshop.config, problem, Nobody())[0]


def _wild(sequence: Trajectory) -> Trajectory:
    """Return a sequence whose commands throw every model about."""
    (commands,) = sequence.commands
    far = dataclasses.replace(commands, data=1e13 * commands.data)
    return dataclasses.replace(sequence, name='wild', commands=(far,))


@pytest.mark.slow
def test_predicted_intervals_are_those_of_the_fit(workshop: Any):
    # Of a heavier bob the inertia would be another as well, which the mass alone does not change.
    truth = workshop.spec(damping=0.11)
    runs = [workshop.sequence(truth, f'b{i}', i) for i in range(2)]
    problem = workshop.problem(workshop.spec(), TARGETS, *runs)
    found = _expected(workshop, problem)
    after = fit_training(Job.begin(workshop.config, Nobody()), problem).intervals
    for before, fitted in zip(found.parameters, after, strict=True):
        ratio = before.half / ((fitted.high - fitted.low) / 2)
        assert 1 / 1.5 < ratio < 1.5
        assert before.verdict == fitted.verdict == 'identified'


def test_a_nominal_value_of_zero_does_not_hide_what_is_known_well(workshop: Any):
    runs = [workshop.sequence(workshop.spec(friction=0.05), 'b', 1)]
    problem = workshop.problem(workshop.spec(), ('joint/j/frictionloss',), *runs)
    (found,) = _expected(workshop, problem).parameters
    assert found.verdict == 'identified'
    assert found.nominal == 0


def test_what_cannot_be_told_apart_is_said_before_the_fit(workshop: Any):
    runs = [workshop.sequence(workshop.spec(), 'b', 1)]
    targets = ('joint/j/damping', 'body/bob/mass_scaled', 'actuator/m/gear[0]')
    found = _expected(workshop, workshop.problem(workshop.spec(), targets, *runs))
    assert found.doubtful == tuple(item.name for item in found.parameters)
    for item in found.parameters:
        assert item.verdict.startswith('confounded with')
        assert np.isnan(item.half)
        assert item.explanation
    assert len(found.combinations) == 2


def test_what_the_model_lacks_makes_predicted_intervals_wider(workshop: Any):
    def halves(friction: float) -> list[float]:
        runs = [workshop.sequence(workshop.spec(friction=friction), f'b{i}', i) for i in range(2)]
        found = _expected(workshop, workshop.problem(workshop.spec(), TARGETS, *runs))
        return [parameter.half for parameter in found.parameters]

    lacking, complete = halves(0.05), halves(0.0)
    assert all(a > 3 * b for a, b in zip(lacking, complete, strict=True))


def test_what_may_end_at_its_bound_is_not_promised(workshop: Any):
    runs = [workshop.sequence(workshop.spec(), 'b', 1)]
    problem = workshop.problem(workshop.spec(), ('joint/j/damping',), *runs)
    (free,) = _expected(workshop, problem).parameters
    assert free.verdict == 'identified'
    (damping,) = problem.parameters
    near = dataclasses.replace(damping, min_value=free.value - free.half / 2, max_value=0.2)
    problem = dataclasses.replace(problem, parameters=(near,))
    (found,) = _expected(workshop, problem).parameters
    assert found.value > near.min_value
    assert found.verdict == 'at bound'
    assert f'reaches its bound {near.min_value:g}' in found.explanation


def test_nothing_is_promised_where_simulations_diverge(workshop: Any):
    hanging = workshop.sequence(workshop.spec(), 'hanging', 1)
    tame = _expected(workshop, workshop.problem(workshop.spec(), TARGETS, hanging))
    assert not tame.diverging
    assert tame.doubtful == ()
    loose = workshop.spec(damping=0.001)
    tumbling = workshop.sequence(loose, 'tumbling', 1, seconds=20, start=3.1)
    found = _expected(workshop, workshop.problem(loose, TARGETS, tumbling))
    assert 'set estimator: windows' in found.diverging
    assert found.instead == 'windows'
    assert found.doubtful == tuple(item.name for item in found.parameters)


@pytest.mark.slow
def test_windows_are_looked_at_where_they_are_asked_for(workshop: Any):
    loose = workshop.spec(damping=0.001)
    runs = [workshop.sequence(loose, f'b{i}', i, seconds=10, start=3.1) for i in range(2)]
    config = workshop.config.model_copy(update={'estimator': 'windows'})
    problem = workshop.problem(workshop.spec(damping=0.003, mass=1.1), TARGETS, *runs)
    found = predicted(config, problem, Nobody())[0]
    assert not found.sensors
    assert not found.diverging
    after = fit_training(Job.begin(config, Nobody()), problem).intervals
    for before, fitted in zip(found.parameters, after, strict=True):
        assert before.verdict_kind is fitted.verdict_kind


def test_a_sequence_on_which_the_model_is_unstable_is_named_and_left_out(workshop: Any):
    good = workshop.sequence(workshop.spec(), 'good', 1)
    problem = workshop.problem(workshop.spec(), TARGETS, good, _wild(good))
    found = _expected(workshop, problem)
    alone = _expected(workshop, workshop.problem(workshop.spec(), TARGETS, good))
    assert found.unstable == ('wild',)
    assert [p.half for p in found.parameters] == [p.half for p in alone.parameters]


def test_a_recording_in_which_nothing_moves_is_in_nobodys_way(workshop: Any):
    moving = workshop.sequence(workshop.spec(), 'moving', 1)
    (series,) = moving.measurements
    held = dataclasses.replace(series, data=np.broadcast_to(series.data[:1], series.data.shape))
    still = dataclasses.replace(moving, name='still', measurements=(held,))
    problem = workshop.problem(workshop.spec(), TARGETS, moving, still)
    found = _expected(workshop, problem)
    assert not found.diverging
    assert all(np.isfinite(item.half) for item in found.parameters)


def test_a_model_that_is_unstable_everywhere_is_refused(workshop: Any):
    wild = _wild(workshop.sequence(workshop.spec(), 'good', 1))
    problem = workshop.problem(workshop.spec(), TARGETS, wild)
    with pytest.raises(FitError, match=r"of every training sequence becomes unstable .* 'wild'"):
        _expected(workshop, problem)


def test_what_a_source_tells_is_missed_without_it(workshop: Any):
    runs = [workshop.sequence(workshop.spec(), f'b{i}', i) for i in range(2)]
    both, one = (
        _expected(workshop, workshop.problem(workshop.spec(), TARGETS, *chosen))
        for chosen in (runs, runs[:1])
    )
    (growth,) = (bag.growth for bag in both.bags if bag.name == 'b1')
    measured = [a.half / b.half for a, b in zip(one.parameters, both.parameters, strict=True)]
    # The noise of the sensors and its correlation are estimated from fewer samples then.
    assert growth == pytest.approx(measured, rel=0.2)
    (only,) = one.bags
    assert np.isinf(only.growth).all()

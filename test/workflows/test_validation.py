# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fits without some bags, and errors over the horizon."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from sysid_ros.config.schema import ValidationConfig
from sysid_ros.errors import ConfigError
from sysid_ros.fit.fit import FitOptions
from sysid_ros.fit.observer import Nobody
from sysid_ros.results.summary import Validation
from sysid_ros.uncertainty.inference import Identification, identify
from sysid_ros.workflows.fitting import Job, fit_training
from sysid_ros.workflows.predictions import Fitted, Predictor, simulate
from sysid_ros.workflows.problem import Problem
from sysid_ros.workflows.validation import (
    families_of,
    horizon_errors,
    training_bags,
    validate,
)

TARGETS = ('joint/j/damping', 'body/bob/mass')


def _validated(
    workshop: Any, problem: Problem, deadline: float = math.inf, **keys: Any
) -> tuple[Identification, Validation]:
    validation = ValidationConfig(**{'leave_out': 'none', 'horizon': (), **keys})
    config = workshop.config.model_copy(update={'validation': validation})
    found = fit_training(Job.begin(config, Nobody()), problem)
    fitted = Fitted(found, problem, problem)
    table = simulate(fitted.predictor(1), problem.sequences('train'))
    families = families_of(validation.leave_out, training_bags(problem))
    return found, validate(config, problem, fitted, families, table, Nobody(), deadline=deadline)


def test_auto_leaves_each_bag_out_from_three_bags_on():
    bags: Any = {name: (object(),) for name in 'abc'}
    assert list(families_of('auto', bags)) == ['a', 'b', 'c']
    assert families_of('auto', {'a': bags['a'], 'b': bags['b']}) == {}
    assert list(families_of('bag', {'a': bags['a'], 'b': bags['b']})) == ['a', 'b']


def test_of_many_bags_neighbours_are_left_out_together():
    bags: Any = {f'b{i}': (i,) for i in range(20)}
    found = families_of('bag', bags)
    assert len(found) == 8
    assert [int(str(s)) for own in found.values() for s in own] == list(range(20))
    assert next(iter(found)) == 'b0 … b2'


def test_one_bag_cannot_be_left_out_of_one():
    bags: Any = {'a': (1,)}
    with pytest.raises(ConfigError, match='two training bags'):
        families_of('bag', bags)


@pytest.mark.slow
def test_a_fold_is_the_fit_to_the_other_bags(workshop: Any):
    truth = workshop.spec(damping=0.15, mass=1.2)
    runs = [workshop.sequence(truth, f'b{i}', i) for i in range(3)]
    problem = workshop.problem(workshop.spec(), TARGETS, *runs)
    full, found = _validated(workshop, problem, leave_out='bag')
    assert [fold.name for fold in found.folds] == ['b0', 'b1', 'b2']
    error = np.sqrt(np.diag(full.inference.covariance)[:2])
    for place, fold in enumerate(found.folds):
        rest = [run for i, run in enumerate(runs) if i != place]
        alone = identify(
            problem.spec, problem.parameters, rest, options=FitOptions(threads=1)
        ).solution.x
        assert np.all(np.abs(np.array(fold.values) - alone) < 0.25 * error)
        # Errors of the values, from two bags, come on top of the noise.
        assert 0.8 < fold.after < 2 < fold.before
    assert found.warnings == ()


@pytest.mark.slow
def test_no_other_fit_begins_after_the_limit_of_time(workshop: Any):
    runs = [workshop.sequence(workshop.spec(), f'b{i}', i) for i in range(3)]
    problem = workshop.problem(workshop.spec(), TARGETS, *runs)
    _, found = _validated(workshop, problem, deadline=0.0, leave_out='bag')
    assert found.folds == ()
    (warning,) = found.warnings
    assert warning.startswith('0 of 3 parts of the data were left out in turn')


@pytest.mark.slow
def test_what_only_one_bag_tells_has_no_value_without_it(workshop: Any):
    truth = workshop.spec(damping=0.15)
    runs = [workshop.sequence(truth, f'b{i}', i, seconds=1.5) for i in range(3)]
    targets = ('joint/j/damping', 'sequence/b1/initial_qvel')
    problem = workshop.problem(workshop.spec(), targets, *runs)
    _, found = _validated(workshop, problem, leave_out='bag')
    assert [bool(np.isnan(fold.values[1])) for fold in found.folds] == [False, True, False]
    assert all(np.isfinite(fold.after) for fold in found.folds)


def test_the_true_model_predicts_at_every_horizon(workshop: Any):
    run = workshop.sequence(workshop.spec(damping=0.15), 'b', 1, noise=0.0)
    problem = workshop.problem(workshop.spec(damping=0.4), ('joint/j/damping',), run)
    fitted = Predictor(problem.spec, problem.parameters, np.array([0.15]), threads=1)
    points = horizon_errors(problem, fitted, {'q': 1e-3, 'v': 1e-2}, (0.2, 0.5, 1.0, 30.0))
    assert [point.seconds for point in points] == [0.2, 0.5, 1.0]
    # What is left is the error of the state at the starts, from straight lines over 40 ms.
    assert all(point.after < 1.5 for point in points)
    assert all(point.before > 5 for point in points)
    for point in points:
        (joint,) = point.joints
        assert (joint.sensor, joint.unit) == ('q', 'rad')
        assert joint.after < joint.before
        assert joint.after < 0.5 * joint.coasting


@pytest.mark.slow
def test_without_a_measured_position_there_is_no_horizon(workshop: Any):
    run = workshop.sequence(workshop.spec(), 'b', 1)
    series = run.measurements[0]
    mapping = {'v': series.signal_mapping['v']}
    blind = dataclasses.replace(
        run, measurements=(type(series)(series.times, series.data, mapping),)
    )
    problem = workshop.problem(workshop.spec(damping=0.2), ('joint/j/damping',), blind)
    _, found = _validated(workshop, problem, horizon=(0.5,))
    assert found.horizon == ()

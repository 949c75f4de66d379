# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Differences between two results."""

from __future__ import annotations

import numpy as np
import pytest

from builders.histories import ERRORS, NAMES, VALUES, make_result
from sysid_ros.results.drift import changes, drift_between, known_of

TARGETS = {name: {name} for name in NAMES}


def test_a_change_is_named_with_percent_and_standard_errors_of_the_difference():
    drift = drift_between(make_result(), make_result(0.05, 0.7, 4.2), 'before')

    assert drift.previous == 'before'
    assert drift.changed
    friction = drift.parameters[2]
    # Independent estimates: the variance of the difference is the sum of both.
    assert friction.deviations == pytest.approx(0.7 / (np.sqrt(2) * ERRORS[2]))
    assert [row.changed for row in drift.parameters] == [False, False, True]
    assert drift.sentence == (
        'The robot changed: joint/elbow/frictionloss from 3.5 to 4.2 N·m (+20 %), '
        '4.9 standard errors; nothing else did.'
    )
    assert changes(drift, {NAMES[2]: 'N·m'}).startswith('joint/elbow/frictionloss from 3.5')


def test_what_may_be_chance_is_no_change():
    drift = drift_between(make_result(), make_result(0.051, 0.7, 3.6), 'before')

    assert not drift.changed
    assert drift.sentence.startswith('The robot did not change by more than chance: 3 compared')
    assert changes(drift, {}) == ''


def test_statistic_is_the_mahalanobis_distance():
    drift = drift_between(
        make_result(correlation=-0.8), make_result(0.05, 0.71, 3.45, correlation=-0.8), 'before'
    )

    step = np.array([0.0, 0.01, -0.05]) / np.array(ERRORS)
    mixed = np.array([[1, 0, 0], [0, 1, -0.8], [0, -0.8, 1]])
    assert drift.statistic == pytest.approx(step @ np.linalg.inv(2 * mixed) @ step)


def test_the_configuration_says_how_much_an_unchanged_robot_wanders():
    later = make_result(0.05, 0.7, 4.2)
    config = {'memory': {'previous': 'none', 'wander': 0.2}}
    provenance = later.provenance.model_copy(update={'config': config})

    drift = drift_between(
        make_result(), later.model_copy(update={'provenance': provenance}), 'before'
    )

    assert not drift.changed


def test_only_what_is_the_same_and_was_determined_is_known():
    result = make_result()
    assert known_of(result, TARGETS).names == NAMES
    np.testing.assert_allclose(known_of(result, TARGETS).estimate.x, VALUES)
    moved = {**TARGETS, NAMES[0]: {'joint/elbow/stiffness'}}
    assert known_of(result, moved).names == NAMES[1:]
    assert result.inference is not None
    covariance = np.array(result.inference.covariance)
    covariance[0] = covariance[:, 0] = np.nan
    blind = result.inference.model_copy(update={'covariance': tuple(map(tuple, covariance))})
    unsure = result.model_copy(update={'inference': blind})
    assert known_of(unsure, TARGETS).names == NAMES[1:]
    assert not known_of(result.model_copy(update={'inference': None}), TARGETS).names


def test_what_belongs_to_one_recording_is_never_compared():
    result = make_result()
    start = {'name': 'start', 'targets': ('sequence/run/initial_qpos[0]',)}
    first = result.parameters[0].model_copy(update=start)
    own = result.model_copy(update={'parameters': (first, *result.parameters[1:])})

    drift = drift_between(own, own, 'before')

    assert [row.name for row in drift.parameters] == list(NAMES[1:])


def test_results_without_covariances_cannot_be_compared():
    bare = make_result(inference=None)

    drift = drift_between(bare, bare, 'before')

    assert (drift.changed, drift.parameters) == (False, ())
    assert drift.sentence.startswith('Whether the robot changed cannot be told')


def test_estimates_that_follow_from_each_other_are_not_compared():
    result = make_result()
    assert result.inference is not None
    # Of whole numbers, so that no rounding hides that there is no inverse.
    covariance = ((1.0, 0.0, 0.0), (0.0, 1.0, 1.0), (0.0, 1.0, 1.0))
    inference = result.inference.model_copy(update={'covariance': covariance})
    tied = result.model_copy(update={'inference': inference})

    drift = drift_between(tied, tied, 'before')

    assert (drift.changed, drift.parameters) == (False, ())

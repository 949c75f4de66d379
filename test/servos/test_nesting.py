# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Laws that are others with some coefficients at nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from builders.recordings import record
from sysid_ros.servos.bench.pendulum import simulate, stack_logs
from sysid_ros.servos.laws.friction import FRICTION_LAWS, MODELS, contains, widened
from sysid_ros.servos.laws.servo import Servo

PAIRS = [
    (small, large)
    for small, large in itertools.permutations(FRICTION_LAWS, 2)
    if contains(FRICTION_LAWS[large], FRICTION_LAWS[small])
]


def test_of_the_six_only_stribeck_and_load_do_not_contain_each_other():
    inside = {pair for pair in PAIRS if set(pair) <= set(MODELS)}
    assert inside == set(itertools.combinations(MODELS, 2)) - {('m2', 'm3')}


@pytest.mark.slow
@pytest.mark.parametrize(('small', 'large'), PAIRS)
def test_a_widened_servo_is_the_same_servo(small: str, large: str):
    inner, outer = Servo.named('xl330', small), Servo.named('xl330', large)
    random = np.random.default_rng(0)
    bounds = np.array([(c.low, c.high) for c in inner.coefficients.values()])
    drawn = random.uniform(bounds[:, 0], bounds.mean(axis=1))
    values = dict(zip(inner.coefficients, drawn.tolist(), strict=True))
    logs = stack_logs(inner, record(inner, values, seconds=0.5, motions=('sin_sin', 'steps')))
    wide = widened(values, outer.coefficients)
    assert list(wide) == list(outer.coefficients)
    expected = simulate(inner, logs, drawn[None]).position
    found = simulate(outer, logs, np.array([list(wide.values())])).position
    assert found == pytest.approx(expected, abs=1e-9)
    assert np.ptp(expected) > 0.1

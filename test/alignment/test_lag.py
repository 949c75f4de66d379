# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The lag of a response behind its command comes back from irregular samples."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from sysid_ros.alignment.lag import lag


def commands(
    generator: np.random.Generator, period: float = 0.02
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return 20 s of commands, a sum of six sines, sent with a jitter of 1 ms."""
    count = round(20 / period)
    times = np.sort(np.arange(count) * period + generator.normal(0, 1e-3, count))
    frequencies, phases = generator.uniform(0.2, 2.5, 6), generator.uniform(0, 2 * np.pi, 6)
    return times, np.sin(2 * np.pi * np.outer(times, frequencies) + phases).mean(axis=1)


def held(
    times: NDArray[np.float64], values: NDArray[np.float64], at: NDArray[np.float64]
) -> NDArray[np.float64]:
    places = np.clip(np.searchsorted(times, at, side='right') - 1, 0, None)
    return np.asarray(values[places])


@pytest.mark.parametrize('seed', range(10))
def test_a_lag_comes_back_within_a_millisecond_from_jittered_lossy_coarse_samples(seed: int):
    generator = np.random.default_rng(seed)
    true = generator.uniform(0, 0.15)
    sent, values = commands(generator)
    instants = np.arange(0.0, 20.0, 0.002)
    step = 2 * np.pi / 2**14
    position = np.round(held(sent, values, instants - true) / step) * step
    stamps = np.maximum.accumulate(instants + generator.normal(0, 1e-3, len(instants)))
    kept = (generator.random(len(stamps)) > 0.02) & (np.diff(stamps, prepend=-1) > 0)
    found = lag(sent, values, stamps[kept], position[kept])
    assert found is not None
    assert abs(found.seconds - true) < 1e-3
    assert abs(found.seconds - true) < 5 * found.deviation
    assert found.gain == pytest.approx(1, abs=0.01)


def test_the_time_that_a_first_order_servo_needs_is_in_the_lag():
    generator = np.random.default_rng(5)
    sent, values = commands(generator)
    instants = np.arange(0.0, 20.0, 0.001)
    target, position = held(sent, values, instants - 0.01), np.zeros(len(instants))
    for k in range(1, len(instants)):
        position[k] = position[k - 1] + (target[k - 1] - position[k - 1]) * 0.001 / 0.02
    found = lag(sent, values, instants, position)
    assert found is not None
    assert found.seconds == pytest.approx(0.03, abs=3e-3)


def test_a_response_that_does_not_follow_has_no_lag():
    generator = np.random.default_rng(6)
    sent, values = commands(generator)
    instants = np.arange(0.0, 20.0, 0.002)
    other = commands(generator)
    assert lag(sent, values, instants, held(*other, instants)) is None
    assert lag(sent, values, instants, np.zeros(len(instants))) is None

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""An encoder's error comes back with the position, and intervals know it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from sysid_ros.estimation.noise import encoder_steps
from sysid_ros.inference.covariance import sawtooth

TIMES = np.arange(600) / 100
#: Swings to and fro over some steps of the encoder: the same positions again and again.
POSITION = 3.3 * np.sin(2 * np.pi * 0.5 * TIMES)
#: Weights as those of dry friction: the sign of the speed, and a part that does not repeat.
WEIGHTS = np.stack([np.sign(np.cos(2 * np.pi * 0.5 * TIMES)), np.cos(7.1 * TIMES)], axis=1)


def reading(
    rng: np.random.Generator, noise: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what an encoder with steps of 1 says, its zero being anywhere, and its error."""
    zero = rng.uniform()
    said = np.round(POSITION + noise * rng.normal(size=len(TIMES)) + zero) - zero
    return said, said - POSITION


@pytest.mark.slow
@pytest.mark.parametrize('noise', [0.1, 0.2, 0.5])
def test_the_variance_over_zeros_is_that_of_many_draws(noise: float) -> None:
    rng = np.random.default_rng(3)
    errors = np.array([reading(rng, noise)[1] @ WEIGHTS for _ in range(3000)])
    told = [sawtooth(reading(rng, noise)[1], WEIGHTS, 1.0) for _ in range(50)]
    assert np.mean(told, axis=0) == pytest.approx(errors.var(axis=0), rel=0.1)


def test_without_noise_the_variance_is_not_too_small() -> None:
    rng = np.random.default_rng(3)
    errors = np.array([reading(rng, 0.0)[1] @ WEIGHTS for _ in range(1000)])
    told = np.mean([sawtooth(reading(rng, 0.0)[1], WEIGHTS, 1.0) for _ in range(50)], axis=0)
    assert np.all(told > 0.9 * errors.var(axis=0))
    assert np.all(told < np.sum(WEIGHTS**2, axis=0) / 12.0)


def test_white_noise_of_the_same_size_would_be_far_off() -> None:
    rng = np.random.default_rng(3)
    errors = np.array([reading(rng, 0.0)[1] @ WEIGHTS for _ in range(1000)])
    white = np.sum(WEIGHTS**2, axis=0) / 12.0
    ratio = errors.var(axis=0) / white
    assert np.abs(np.log(ratio)).max() > np.log(1.5)


def _runs(values: Any) -> Any:
    readings = SimpleNamespace(sensors=('q',), measured=values[:, None])
    return cast('Any', [SimpleNamespace(readings=(readings,))])


def test_readings_in_whole_steps_are_an_encoders() -> None:
    step = 2 * np.pi / 4096
    said = step * np.round(0.4 * np.sin(TIMES) / step) + 0.1234
    assert encoder_steps(_runs(said)) == {'q': pytest.approx(step, rel=1e-9)}


def test_readings_without_a_grid_are_not() -> None:
    noise = np.random.default_rng(0).normal(size=len(TIMES))
    assert encoder_steps(_runs(np.sin(TIMES) + 1e-3 * noise)) == {}
    assert encoder_steps(_runs(np.round(np.sin(TIMES)))) == {}

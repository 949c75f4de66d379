# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Steps and limits of what measured a channel."""

from __future__ import annotations

import numpy as np
import pytest

from sysid_ros.alignment.inspection import clipped, quantisation_step

TIMES = np.arange(0, 20, 0.002)
STEP = 2 * np.pi / 2**14
SEEDS = range(20)


def _motion(seed: int) -> np.ndarray:
    return np.sin(TIMES * (1 + seed / 10)) + 0.3 * np.sin(3.3 * TIMES)


def test_an_encoders_step_is_found():
    for seed in SEEDS:
        noise = np.random.default_rng(seed).normal(0, 1e-4, len(TIMES))
        for values in (_motion(seed), _motion(seed) + noise, np.clip(_motion(seed), -0.9, 0.8)):
            counted = np.round(values / STEP) * STEP + 0.1
            assert quantisation_step(counted) == pytest.approx(STEP, rel=1e-6)
            # As numbers of single precision, too.
            single = counted.astype(np.float32).astype(float)
            assert quantisation_step(single) == pytest.approx(STEP, rel=1e-3)


def test_values_at_a_limit_are_counted():
    for seed in SEEDS:
        noise = np.random.default_rng(seed).normal(0, 0.01, len(TIMES))
        values = np.clip(_motion(seed) + noise, -0.8, 0.8)
        at_limit = np.count_nonzero(np.abs(values) == 0.8)
        assert 0.8 * at_limit < clipped(values, np.nan) <= at_limit


def test_turning_points_and_rest_are_no_limits():
    for seed in SEEDS:
        counted = np.round(_motion(seed) / STEP) * STEP
        assert clipped(counted, STEP) == 0
        resting = np.concatenate([np.zeros(2000), np.abs(np.sin(TIMES)), np.zeros(2000)])
        assert clipped(np.round(resting / STEP) * STEP, STEP) == 0
        assert clipped(np.zeros(100), np.nan) == 0
        assert clipped(np.empty(0), np.nan) == 0

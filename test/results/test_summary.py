# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The memory of residuals, and what of curves is kept for plots."""

from __future__ import annotations

import numpy as np
import pytest

from sysid_ros.results.summary import SignalCurve, memory, thinned_plots

TIMES = np.arange(8000) / 500.0


def _left(residual: np.ndarray) -> SignalCurve:
    zeros, times = np.zeros(len(residual)), TIMES[: len(residual)]
    return SignalCurve('one', 'train', 's', 's', times, residual, zeros, zeros, diverged=False)


def test_what_decays_by_a_tenth_per_sample_is_found_to() -> None:
    rng = np.random.default_rng(5)
    residual = np.zeros(len(TIMES))
    for k in range(1, len(TIMES)):
        residual[k] = 0.9 * residual[k - 1] + rng.standard_normal()
    lags, found = memory(_left(residual))
    steps = np.round(lags * 500.0)
    assert (steps[0], steps[-1]) == (1, 800)
    assert len(steps) <= 40
    np.testing.assert_allclose(found, 0.9**steps, atol=0.12)


def test_a_constant_error_is_remembered_beyond_a_gap() -> None:
    residual = np.full(1000, 0.3)
    residual[400:410] = np.nan
    _, found = memory(_left(residual))
    assert found[0] == pytest.approx(1.0, abs=0.02)
    assert found[-1] == pytest.approx(0.89, abs=0.02)


@pytest.mark.parametrize('residual', [np.zeros(100), np.full(100, np.nan), np.ones(2)])
def test_where_there_is_nothing_to_remember_there_are_no_lags(residual: np.ndarray) -> None:
    lags, found = memory(_left(residual))
    assert len(lags) == len(found) == 0


def test_plots_are_thinned_and_their_memory_is_not() -> None:
    curve = _left(np.random.default_rng(4).standard_normal(len(TIMES)))
    (plot,) = thinned_plots([curve], {'s': 'rad'})
    assert (len(plot.times), plot.samples, plot.command) == (1000, 8000, ())
    assert plot.lags[0] == pytest.approx(0.002)

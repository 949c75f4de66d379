# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Intervals from fits with one value held, compared with profiles that are computed otherwise."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.optimize import brentq

from sysid_ros.errors import CancelledError
from sysid_ros.estimation.layout import Samples
from sysid_ros.estimation.solver.least_squares import solve
from sysid_ros.estimation.solver.problem import FunctionResiduals
from sysid_ros.inference import IntervalMethod, infer
from sysid_ros.model.unknown import Unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sysid_ros.estimation.solver.least_squares import Solution
    from sysid_ros.inference import Inference

    Model = Callable[[NDArray[np.float64]], NDArray[np.float64]]

COUNT = 150
T = np.linspace(0.0, 1.0, COUNT)
SAMPLES = Samples(np.zeros(COUNT, dtype=np.int64), T, np.zeros(COUNT, dtype=np.int64), ('q',))
#: The noise is 1: residuals are in its units.
SIGMA = 0.05
CHARGING = [Unknown('amplitude', (), 2.0, 0.0, 1e3), Unknown('tau', (), 1.0, 1e-3, 1e3)]


def charging(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (n, m) predictions of (m, 2) candidates; too short to see where it ends."""
    found: NDArray[np.float64] = x[:, 0] * (1 - np.exp(-T[:, None] / x[:, 1])) / SIGMA
    return found


def waves(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the same of a linear model."""
    found: NDArray[np.float64] = x[:, 0] * np.sin(5 * T[:, None]) + x[:, 1] * np.cos(3 * T[:, None])
    return found


def both(
    model: Model, unknowns: list[Unknown], measured: NDArray[np.float64]
) -> tuple[Solution, Inference, Inference]:
    """Return the fit, and what is inferred by default and by profiles."""
    residuals = FunctionResiduals(lambda x: model(x) - measured[:, None], unknowns)
    found = solve(residuals, np.array([unknown.nominal for unknown in unknowns]))
    plain, profiled = (
        infer(found, found.jacobian, unknowns, SAMPLES, method=method, residuals=residuals)
        for method in (IntervalMethod(), IntervalMethod('profile'))
    )
    return found, plain, profiled


def noisy(model: Model, truth: list[float], seed: int) -> NDArray[np.float64]:
    noise = np.random.default_rng(seed).standard_normal(COUNT)
    found: NDArray[np.float64] = model(np.array([truth]))[:, 0] + noise
    return found


def test_the_ends_are_where_a_profile_by_regression_has_them() -> None:
    measured = noisy(charging, [3.0, 2.0], 0)
    found, plain, profiled = both(charging, CHARGING, measured)
    information = np.linalg.inv(found.jacobian.T @ found.jacobian)
    before, row = plain.intervals[1], profiled.intervals[1]
    half = (before.high - before.low) / 2
    far = half**2 / information[1, 1]

    def above(tau: float) -> float:
        """Return the rise beyond the end; the amplitude follows by linear regression."""
        column = charging(np.array([[1.0, tau]]))[:, 0]
        residual = measured - column * (column @ measured) / (column @ column)
        return float(residual @ residual - 2 * found.cost - far)

    assert row.low == pytest.approx(brentq(above, 0.5, found.x[1]), abs=0.03 * half)
    assert row.high == pytest.approx(brentq(above, found.x[1], 9.0), abs=0.05 * half)
    # Longer time constants are hardly told apart, shorter ones are.
    assert row.high - found.x[1] > 1.2 * (found.x[1] - row.low)
    assert 'tau' in profiled.method
    assert not profiled.notes


def test_a_linear_problem_keeps_its_intervals() -> None:
    unknowns = [Unknown(name, (), 1.0, -1e3, 1e3) for name in 'ab']
    _, plain, profiled = both(waves, unknowns, noisy(waves, [2.0, 1.0], 1))
    for row, other in zip(plain.intervals, profiled.intervals, strict=True):
        assert (other.low, other.high) == pytest.approx((row.low, row.high), rel=1e-3)


def test_one_parameter_alone_keeps_its_interval() -> None:
    unknowns = [Unknown('a', (), 1.0, -1e3, 1e3)]

    def model(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return waves(np.insert(x, 1, 0.0, axis=1))

    _, plain, profiled = both(model, unknowns, noisy(model, [2.0], 2))
    assert profiled.intervals[0].low == pytest.approx(plain.intervals[0].low, rel=1e-3)
    assert profiled.intervals[0].high == pytest.approx(plain.intervals[0].high, rel=1e-3)


def at_zero(shift: float) -> tuple[Solution, Inference, Inference]:
    """Fit a second parameter that would be so many standard errors below its bound of zero."""
    unknowns = [Unknown('a', (), 1.0, -1e3, 1e3), Unknown('b', (), 4.0, 0.0, 1e3)]
    noise = np.random.default_rng(3).standard_normal(COUNT)
    columns = waves(np.eye(2))
    free = np.linalg.lstsq(columns, noise, rcond=None)[0]
    deviation = float(np.sqrt(np.linalg.inv(columns.T @ columns)[1, 1]))
    return both(waves, unknowns, noise + columns @ (np.array([2.0, shift * deviation]) - free))


def test_a_value_that_noise_put_at_zero_has_an_upper_end() -> None:
    found, plain, profiled = at_zero(-0.5)
    deviation = np.sqrt(np.linalg.inv(found.jacobian.T @ found.jacobian)[1, 1])
    for row in (plain.intervals[1], profiled.intervals[1]):
        assert row.verdict == 'at bound'
        assert row.low == 0.0
        # The unbounded problem would end 1.46 above; fits compared with that at zero see a bit
        # more, and so does what is above zero of a normal distribution.
        assert 1.4 < row.high / deviation < 2.2


def test_a_value_that_data_push_to_zero_has_no_interval() -> None:
    _, plain, profiled = at_zero(-4.0)
    assert np.isnan(plain.intervals[1].high)
    assert np.isnan(profiled.intervals[1].high)


def test_an_interval_that_no_fit_closes_ends_at_the_bound() -> None:
    """The record is so short against the time constant that it hardly bends."""
    unknowns = [Unknown('amplitude', (), 2.0, 0.0, 1e4), Unknown('tau', (), 4.0, 1e-3, 60.0)]
    found, plain, profiled = both(charging, unknowns, noisy(charging, [6.0, 4.0], 5))
    assert profiled.intervals[1].high == 60.0
    # The covariance is blind for that, and for how soon it would bend too much.
    assert plain.intervals[1].high < 30.0
    assert plain.intervals[1].low < 1.5 < profiled.intervals[1].low < found.x[1]


def test_a_profile_ends_when_it_is_cancelled() -> None:
    measured = noisy(charging, [3.0, 2.0], 5)
    residuals = FunctionResiduals(lambda x: charging(x) - measured[:, None], CHARGING)
    found = solve(residuals, np.array([2.0, 1.0]))
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(CancelledError):
        infer(
            found,
            found.jacobian,
            CHARGING,
            SAMPLES,
            method=IntervalMethod('profile'),
            residuals=residuals,
            cancel=cancel,
        )

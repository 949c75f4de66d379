# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The solver against the certified values of NIST's StRD nonlinear regression data sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from sysid_ros.estimation.differences import FunctionResiduals
from sysid_ros.estimation.solver import SolverSettings, solve
from sysid_ros.model.unknown import Unknown

pytestmark = pytest.mark.slow


class Problem(NamedTuple):
    """Pairs (y, x), a model, two starts, certified values, standard errors and residual sum."""

    pairs: tuple[float, ...]
    model: Callable[[Any, Any], Any]
    starts: tuple[tuple[float, ...], tuple[float, ...]]
    values: tuple[float, ...]
    errors: tuple[float, ...]
    residual_sum: float


def _mgh09(b: Any, x: Any) -> Any:
    return b[0] * (x**2 + x * b[1]) / (x**2 + x * b[2] + b[3])


def _thurber(b: Any, x: Any) -> Any:
    above = b[0] + b[1] * x + b[2] * x**2 + b[3] * x**3
    return above / (1 + b[4] * x + b[5] * x**2 + b[6] * x**3)


# fmt: off
PROBLEMS = {
    'MGH09': Problem(
        (0.1957, 4.0, 0.1947, 2.0, 0.1735, 1.0, 0.16, 0.5, 0.0844, 0.25, 0.0627, 0.167,
         0.0456, 0.125, 0.0342, 0.1, 0.0323, 0.0833, 0.0235, 0.0714, 0.0246, 0.0625),
        _mgh09,
        ((25.0, 39.0, 41.5, 39.0), (0.25, 0.39, 0.415, 0.39)),
        (1.9280693458e-1, 1.9128232873e-1, 1.2305650693e-1, 1.3606233068e-1),
        (1.1435312227e-2, 1.9633220911e-1, 8.0842031232e-2, 9.0025542308e-2),
        3.0750560385e-4,
    ),
    'Thurber': Problem(
        (80.574, -3.067, 84.248, -2.981, 87.264, -2.921, 87.195, -2.912, 89.076, -2.840,
         89.608, -2.797, 89.868, -2.702, 90.101, -2.699, 92.405, -2.633, 95.854, -2.481,
         100.696, -2.363, 101.060, -2.322, 401.672, -1.501, 390.724, -1.460, 567.534, -1.274,
         635.316, -1.212, 733.054, -1.100, 759.087, -1.046, 894.206, -0.915, 990.785, -0.714,
         1090.109, -0.566, 1080.914, -0.545, 1122.643, -0.400, 1178.351, -0.309,
         1260.531, -0.109, 1273.514, -0.103, 1288.339, 0.010, 1327.543, 0.119,
         1353.863, 0.377, 1414.509, 0.790, 1425.208, 0.963, 1421.384, 1.006, 1442.962, 1.115,
         1464.350, 1.572, 1468.705, 1.841, 1447.894, 2.047, 1457.628, 2.200),
        _thurber,
        ((1000.0, 1000.0, 400.0, 40.0, 0.7, 0.3, 0.03),
         (1300.0, 1500.0, 500.0, 75.0, 1.0, 0.4, 0.05)),
        (1.2881396800e3, 1.4910792535e3, 5.8323836877e2, 7.5416644291e1, 9.6629502864e-1,
         3.9797285797e-1, 4.9727297349e-2),
        (4.6647963344, 3.9571156086e1, 2.8698696102e1, 5.5675370270, 3.1333340687e-2,
         1.4984928198e-2, 6.5842344623e-3),
        5.6427082397e3,
    ),
}
# fmt: on


@pytest.mark.parametrize('start', [0, 1])
@pytest.mark.parametrize('name', PROBLEMS)
def test_values_errors_and_residuals_are_the_certified_ones(name: str, start: int) -> None:
    problem = PROBLEMS[name]
    y, x = np.array(problem.pairs).reshape(-1, 2).T[:, :, None]
    begin = np.array(problem.starts[start])
    unknowns = [Unknown(f'b{k}', (), value, -np.inf, np.inf) for k, value in enumerate(begin)]

    def residual(candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(all='ignore'):
            return y - problem.model(candidates.T[:, None, :], x)

    solution = solve(
        FunctionResiduals(residual, unknowns),
        begin,
        settings=SolverSettings(max_iterations=500),
        tolerance=1e-7,
    )
    assert solution.success
    # Differences tell the gradient to so much: 1e-5 of a standard error.
    away = np.abs(solution.x - problem.values)
    assert np.all(away < 1e-6 * np.abs(problem.values) + 1e-5 * np.array(problem.errors))
    assert 2 * solution.cost == pytest.approx(problem.residual_sum, rel=1e-9)
    variance = 2 * solution.cost / (len(y) - len(begin))
    covariance = variance * np.linalg.inv(solution.jacobian.T @ solution.jacobian)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), problem.errors, rtol=1e-4)


@pytest.mark.parametrize('bound', [10.0, np.inf])
def test_the_valley_of_rosenbrock_is_followed_to_its_end(bound: float) -> None:
    def residual(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.stack([10 * (x[:, 1] - x[:, 0] ** 2), 1 - x[:, 0]])

    unknowns = [Unknown('x', (), -1.2, -bound, bound), Unknown('y', (), 1.0, -bound, bound)]
    solution = solve(FunctionResiduals(residual, unknowns), np.array([-1.2, 1.0]))
    assert solution.success
    np.testing.assert_allclose(solution.x, 1.0, atol=1e-9)

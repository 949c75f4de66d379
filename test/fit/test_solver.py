# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The solver: it agrees with SciPy and with certified values, and ends as its settings say."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mujoco
import numpy as np
import pytest
import scipy.optimize
from numpy.typing import NDArray

from builders.jacobians import linearise
from builders.models import rod
from builders.trajectories import measure, sweep
from sysid_ros.errors import FitError
from sysid_ros.fit.differences import FunctionResiduals
from sysid_ros.fit.residuals import Residuals
from sysid_ros.fit.solver import Solution, SolverSettings, one_step, rho, solve
from sysid_ros.model.targets import Unknown, make_unknowns
from sysid_ros.signals import Trajectory
from sysid_ros.simulation.simulator import Simulator

TRUTH = {'joint/j/armature': 0.09, 'joint/j/damping': 0.5, 'actuator/a/kp': 33.0}
NOISE = {'q': 2e-3, 'v': 3e-2}
ROBUST: list[Any] = ['huber', 'soft_l1']
#: In standard errors: what is compared with other solvers is solved more sharply than fits are.
SHARP = 2e-5
MODEL = mujoco.MjModel.from_xml_string(rod(timestep=0.005, damping=0.2, armature=0.05))
RUN = measure(MODEL, TRUTH, commands=sweep('a'), noise=NOISE)
UNKNOWNS = [p for path in TRUTH for p in make_unknowns(path, MODEL)]


def problem(unknowns: Sequence[Unknown] = tuple(UNKNOWNS), run: Trajectory = RUN) -> Residuals:
    return Residuals(Simulator(MODEL, unknowns, [run], threads=1), NOISE)


def start(parameters: list[Unknown]) -> NDArray[np.float64]:
    return np.array([parameter.nominal for parameter in parameters])


def standard_errors(solution: Solution) -> NDArray[np.float64]:
    """Return (p,) standard errors for noise of the size that the residuals are divided by."""
    return np.sqrt(np.diag(np.linalg.inv(solution.jacobian.T @ solution.jacobian)))


@pytest.mark.parametrize('loss', ['linear', *ROBUST])
def test_scipy_finds_the_same_optimum(loss: Any) -> None:
    residuals = problem()
    ours = solve(residuals, start(UNKNOWNS), settings=SolverSettings(loss, accuracy=SHARP))
    errors = standard_errors(ours)
    outcome = scipy.optimize.least_squares(
        lambda x: residuals(x[None])[:, 0],
        ours.x + 0.3 * errors,
        lambda x: linearise(residuals, x),
        bounds=[[getattr(u, name) for u in UNKNOWNS] for name in ('min_value', 'max_value')],
        x_scale=errors,
        loss=loss,
        xtol=1e-12,
        ftol=1e-12,
        gtol=1e-12,
    )
    assert ours.success
    assert np.max(np.abs(ours.x - outcome.x) / errors) < 1e-4
    assert ours.cost == pytest.approx(outcome.cost, rel=1e-9)
    assert ours.cost < 0.2 * ours.trace[0].cost


def test_the_jacobian_is_the_derivative_of_the_residuals() -> None:
    residuals = problem()
    x = np.array([0.07, 0.4, 27.0])
    jacobian = linearise(residuals, x)
    for column, step in enumerate([1e-6, 1e-5, 1e-4]):
        move = np.zeros(3)
        move[column] = step
        above, below = residuals(np.stack([x + move, x - move])).T
        central = (above - below) / (2 * step)
        error = np.linalg.norm(jacobian[:, column] - central)
        assert error < 1e-3 * np.linalg.norm(central)


def test_a_start_at_a_bound_is_left() -> None:
    run = measure(MODEL, {'actuator/a/delay': 0.0123}, commands=sweep('a'))
    parameters = make_unknowns('actuator/a/delay', MODEL, bounds=(0, 0.05))
    solution = solve(problem(parameters, run), np.zeros(1))
    assert solution.x[0] == pytest.approx(0.0123, abs=1e-9)


def test_costs_never_rise_from_one_iteration_to_the_next() -> None:
    residuals = problem()
    solution = solve(residuals, start(UNKNOWNS))
    costs = [iteration.cost for iteration in solution.trace]
    assert costs == sorted(costs, reverse=True)
    at_start = residuals(start(UNKNOWNS)[None, :])
    assert costs[0] == pytest.approx(0.5 * np.sum(at_start**2), rel=1e-9)
    assert [iteration.number for iteration in solution.trace] == list(range(len(costs)))


@pytest.mark.parametrize('loss', ['linear', *ROBUST])
def test_the_losses_are_those_of_scipy(loss: Any) -> None:
    residual = np.array([-30.0, -1.0, -0.3, 0.0, 0.5, 1.0, 4.0])
    value, weight = rho(residual, loss)
    outcome = scipy.optimize.least_squares(
        lambda _: residual, [0.0], jac=lambda _: np.zeros((7, 1)), loss=loss
    )
    assert 0.5 * value.sum() == pytest.approx(outcome.cost, rel=1e-12)
    slope = (rho(residual + 1e-6, loss)[0] - rho(residual - 1e-6, loss)[0]) / 2e-6
    smooth = np.abs(np.abs(residual) - 1) > 1e-3
    np.testing.assert_allclose((2 * weight * residual)[smooth], slope[smooth], atol=1e-4)


def test_friction_that_locks_a_joint_is_let_go() -> None:
    parameters = [
        *make_unknowns('joint/j/frictionloss', MODEL, bounds=(0.0, 100.0), initial=100.0),
        *make_unknowns('joint/j/damping', MODEL),
    ]
    residuals, begin = problem(parameters), start(parameters)
    nearly = np.array([[99.0, begin[1]]])
    np.testing.assert_allclose(residuals(nearly), residuals(begin[None]), atol=1e-6)
    found = solve(residuals, begin)
    assert found.x[0] < 1.0
    assert found.cost < 0.01 * found.trace[0].cost


def decay(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (40, m) noisy residuals of m amplitudes and rates of an exponential."""
    times = np.linspace(0, 4, 40)
    measured = 2.0 * np.exp(-0.7 * times) + 0.05 * np.random.default_rng(3).normal(size=40)
    return (measured[:, None] - x[:, 0] * np.exp(-x[:, 1] * times[:, None])) / 0.05


AMPLITUDE = Unknown('amplitude', (), 1.0, 0.0, 10.0)
RATE = Unknown('rate', (), 0.2, 0.0, 5.0)
DECAY = np.array([1.0, 0.2])


def solved(function: Callable[..., Any], unknowns: list[Unknown], **more: Any) -> Solution:
    settings = SolverSettings(accuracy=SHARP, **more)
    return solve(FunctionResiduals(function, unknowns), start(unknowns), settings=settings)


def test_unknowns_may_have_no_bounds_or_one() -> None:
    inf = np.inf
    bounded = solved(decay, [AMPLITUDE, RATE])
    for low, high in ((-inf, inf), (0.0, inf), (-inf, 10.0)):
        free = [dataclasses.replace(u, min_value=low, max_value=high) for u in (AMPLITUDE, RATE)]
        solution = solved(decay, free)
        assert solution.success
        np.testing.assert_allclose(solution.x, bounded.x, rtol=1e-5)


def test_the_solution_holds_jacobian_gradient_and_counts() -> None:
    residuals = FunctionResiduals(decay, [AMPLITUDE, RATE])
    solution = solve(residuals, DECAY, settings=SolverSettings('huber'))
    np.testing.assert_array_equal(solution.residual, decay(solution.x[None, :])[:, 0])
    steps = 1e-6 * np.eye(2)
    central = (decay(solution.x + steps) - decay(solution.x - steps)) / 2e-6
    np.testing.assert_allclose(solution.jacobian, central, rtol=1e-2, atol=0.05)
    influence = rho(solution.residual, 'huber')[1] * solution.residual
    np.testing.assert_allclose(solution.gradient, solution.jacobian.T @ influence, rtol=1e-9)
    assert solution.evaluations == residuals.evaluations
    assert solution.iterations == len(solution.trace) - 1
    assert solution.trace[-1].cost == solution.cost
    assert {iteration.jacobian for iteration in solution.trace} <= {'forward', 'kept'}


def test_residuals_that_are_not_finite_are_stepped_back_from() -> None:
    def guarded(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(x[:, 1] > 0.9, np.nan, decay(x))

    solution = solved(guarded, [AMPLITUDE, dataclasses.replace(RATE, nominal=0.85)])
    assert solution.success
    np.testing.assert_allclose(solution.x, solved(decay, [AMPLITUDE, RATE]).x, rtol=1e-4)


def test_an_unknown_loss_is_answered_with_the_nearest() -> None:
    with pytest.raises(FitError, match=r"no loss 'hubber'; nearest: huber"):
        SolverSettings('hubber')  # type: ignore[arg-type]


class Uphill(FunctionResiduals):
    """Residuals that give a derivative of the wrong sign as exact."""

    exact = np.array([True])

    def step_changes(self, *args: Any) -> Any:
        """Return the changes with their signs reversed."""
        around = super().step_changes(*args)
        return around._replace(changes=-around.changes)


def test_status_words_say_how_a_solve_ended() -> None:
    line = [Unknown('x', (), 1.0, 0.0, 10.0)]
    wrong = Uphill(lambda x: np.stack([x[:, 0] - 3.0, np.ones(len(x))]), line)
    wrong.exact = np.array([True])
    lost = solve(wrong, np.array([1.0]))
    assert (lost.status, lost.success) == ('stalled', False)
    assert lost.message == 'Stopped: no step lowers the cost further.'
    assert lost.x[0] == 1.0
    short = solved(decay, [AMPLITUDE, RATE], max_iterations=1)
    assert (short.status, short.success) == ('iterations', False)
    noisy = solved(decay, [AMPLITUDE, RATE])
    assert (noisy.status, noisy.success) == ('gradient', True)
    exact = solved(lambda x: x.T - np.pi * np.ones((3, 1)), line)
    assert exact.status in {'step', 'cost'}
    assert exact.x[0] == pytest.approx(np.pi, rel=1e-9)


def sawtooth(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (200, m) residuals that rise by 30 x and fall by .02 every .001: 10 x in all."""
    phases = np.random.default_rng(1).uniform(size=(200, 1))
    teeth = np.floor(x[:, 0] / 1e-3 + phases)
    noise = np.random.default_rng(2).normal(size=(200, 1))
    return 30 * x[:, 0] - 0.02 * (teeth - phases) + noise


def test_the_slope_is_that_over_a_standard_error_not_that_between_jumps() -> None:
    height = Unknown('height', (), 0.5, -1.0, 1.0)
    solution = solve(FunctionResiduals(sawtooth, [height]), np.array([0.5]))
    error = 1 / (10 * np.sqrt(200))
    expected = -np.random.default_rng(2).normal(size=200).mean() / 10
    assert abs(solution.x[0] - expected) < 0.3 * error
    assert np.mean(solution.jacobian) == pytest.approx(10, rel=0.1)


@pytest.mark.parametrize('seed', range(5))
def test_a_fit_ends_within_its_accuracy_in_standard_errors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    times = np.linspace(0.0, 4.0, 60)[:, None]
    truth = rng.uniform((0.5, 0.2), (5.0, 2.0))
    measured = truth[0] * np.exp(-truth[1] * times) + rng.normal(0.0, 0.2, times.shape)
    count = 0

    def residual(x: NDArray[np.float64]) -> NDArray[np.float64]:
        nonlocal count
        count += len(x)
        return (measured - x[:, 0] * np.exp(-x[:, 1] * times)) / 0.2

    def end(accuracy: float) -> tuple[Solution, int]:
        nonlocal count
        count = 0
        settings = SolverSettings(accuracy=accuracy)
        problem = FunctionResiduals(residual, [AMPLITUDE, RATE])
        return solve(problem, DECAY, settings=settings), count

    (sharp, most), (usual, fewer), (rough, fewest) = map(end, (1e-7, 1e-2, 0.3))
    errors = standard_errors(sharp)
    assert sharp.success and usual.success and rough.success  # noqa: PT018
    assert np.max(np.abs(usual.x - sharp.x) / errors) < 1e-2
    assert np.max(np.abs(rough.x - sharp.x) / errors) < 0.3
    assert fewest <= fewer < most


def test_exact_data_are_fitted_to_the_seventh_digit_however_far_bounds_are() -> None:
    wide = [Unknown('amplitude', (), 1.0, -1e6, 1e6), Unknown('rate', (), 0.2, -50.0, 1e6)]
    times = np.linspace(0.0, 4.0, 60)[:, None]

    def exact(x: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(over='ignore', invalid='ignore'):
            return 1e3 * (2.0 * np.exp(-0.7 * times) - x[:, 0] * np.exp(-x[:, 1] * times))

    solution = solve(FunctionResiduals(exact, wide), DECAY)
    assert solution.success
    np.testing.assert_allclose(solution.x, [2.0, 0.7], rtol=1e-7)


class Problem(NamedTuple):
    """A nonlinear regression data set of NIST's StRD, with its certified values.

    Pairs (y, x), a model, two starts, certified values, standard errors and residual sum.
    """

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


@pytest.mark.slow
@pytest.mark.parametrize('number', [0, 1])
@pytest.mark.parametrize('name', PROBLEMS)
def test_values_errors_and_residuals_are_the_certified_ones(name: str, number: int) -> None:
    known = PROBLEMS[name]
    y, x = np.array(known.pairs).reshape(-1, 2).T[:, :, None]
    begin = np.array(known.starts[number])
    unknowns = [Unknown(f'b{k}', (), value, -np.inf, np.inf) for k, value in enumerate(begin)]

    def residual(candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(all='ignore'):
            return y - known.model(candidates.T[:, None, :], x)

    solution = solve(
        FunctionResiduals(residual, unknowns),
        begin,
        settings=SolverSettings(max_iterations=500),
        tolerance=1e-7,
    )
    assert solution.success
    # Differences tell the gradient to so much: 1e-5 of a standard error.
    away = np.abs(solution.x - known.values)
    assert np.all(away < 1e-6 * np.abs(known.values) + 1e-5 * np.array(known.errors))
    assert 2 * solution.cost == pytest.approx(known.residual_sum, rel=1e-9)
    variance = 2 * solution.cost / (len(y) - len(begin))
    covariance = variance * np.linalg.inv(solution.jacobian.T @ solution.jacobian)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), known.errors, rtol=1e-4)


@pytest.mark.parametrize('bound', [10.0, np.inf])
def test_the_valley_of_rosenbrock_is_followed_to_its_end(bound: float) -> None:
    def residual(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.stack([10 * (x[:, 1] - x[:, 0] ** 2), 1 - x[:, 0]])

    unknowns = [Unknown('x', (), -1.2, -bound, bound), Unknown('y', (), 1.0, -bound, bound)]
    solution = solve(FunctionResiduals(residual, unknowns), np.array([-1.2, 1.0]))
    assert solution.success
    np.testing.assert_allclose(solution.x, 1.0, atol=1e-9)


def test_a_valley_a_thousandth_as_wide_as_long_is_followed() -> None:
    """Damping that begins at a ten-thousandth leaves this one creeping after 1000 iterations."""

    def residual(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.stack([1000 * (x[:, 1] - x[:, 0] ** 2), 1 - x[:, 0]])

    unknowns = [Unknown('x', (), -1.2, -10.0, 10.0), Unknown('y', (), 1.0, -10.0, 10.0)]
    settings = SolverSettings(max_iterations=1000)
    solution = solve(FunctionResiduals(residual, unknowns), np.array([-1.2, 1]), settings=settings)
    assert solution.success
    np.testing.assert_allclose(solution.x, 1.0, atol=1e-6)


def test_what_has_no_effect_damps_no_step() -> None:
    table = np.random.default_rng(0).normal(size=(40, 2))
    measured = table @ [1.0, 2.0] + 0.1 * np.random.default_rng(1).normal(size=40)
    names = [Unknown(name, (), 0.5, -10.0, 10.0) for name in 'abc']
    residuals = FunctionResiduals(lambda x: measured[:, None] - table @ x[:, :2].T, names)
    solution = solve(residuals, np.full(3, 0.5))
    assert solution.success
    assert solution.trace[1].regulariser == 0.0
    np.testing.assert_allclose(solution.x[:2], np.linalg.lstsq(table, measured)[0], atol=1e-6)


@pytest.mark.parametrize('factor', [0.2, 5.0])
def test_a_servo_of_which_all_is_wrong_alike_is_a_straight_valley(factor: float) -> None:
    # Without a load only friction and armature in parts of the stiffness move the joint.
    def servo(x: NDArray[np.float64]) -> NDArray[np.float64]:
        kp, armature, friction = x.T
        ratios = armature / kp / 1e-3 - 1, friction / kp / 1e-2 - 1
        return np.array([10 * ratios[0], 10 * ratios[1], np.log(kp / 10)])

    start = factor * np.array([10.0, 0.01, 0.1])
    bounds = [(1e-2, 1e4), (0.0, 1e2), (0.0, 1e3)]
    unknowns = [
        Unknown(name, (), value, low, high, scale='log')
        for name, value, (low, high) in zip('kaf', start, bounds, strict=True)
    ]
    found = solve(FunctionResiduals(servo, unknowns), start)
    np.testing.assert_allclose(found.x, [10.0, 0.01, 0.1], rtol=1e-3)
    assert found.success
    assert found.iterations < 10  # 17 and 18 by the values themselves


def test_a_step_without_a_part_of_the_data_follows_what_that_part_pulled() -> None:
    # The fit to all settled where its slopes promise more, which no step kept.
    rng = np.random.default_rng(3)
    rest, part = rng.standard_normal((40, 2)), rng.standard_normal((10, 2))
    x, aim = np.array([1.0, -2.0]), rng.standard_normal((50, 1))
    function = FunctionResiduals(
        lambda candidates: rest @ candidates.T - aim[:40],
        [Unknown(name, (), 1.0, -np.inf, np.inf) for name in ('a', 'b')],
    )
    pulls = [
        own.T @ (own @ x - own_aim[:, 0]) for own, own_aim in ((rest, aim[:40]), (part, aim[40:]))
    ]
    found = one_step(function, x, 'linear', settled=sum(pulls))
    expected = x + np.linalg.solve(rest.T @ rest, pulls[1])
    np.testing.assert_allclose(found.x, expected, rtol=1e-5)

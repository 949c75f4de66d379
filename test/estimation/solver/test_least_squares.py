# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The solvers: they agree, with each other and with one called by hand."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import mujoco
import numpy as np
import pytest
import scipy.optimize
from numpy.typing import NDArray

from builders.models import rod
from builders.trajectories import Measure, Sweep
from sysid_ros.errors import CancelledError, FitError
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver.descent import Descent
from sysid_ros.estimation.solver.least_squares import Solution, SolverSettings, linearise, solve
from sysid_ros.estimation.solver.losses import cost, curvature, rho, root
from sysid_ros.estimation.solver.problem import FunctionResiduals
from sysid_ros.model.unknown import Unknown, make_unknowns
from sysid_ros.rollout.runs import HeldCommand
from sysid_ros.rollout.simulation import Simulator
from sysid_ros.signals.timeseries import TimeSeries
from sysid_ros.signals.trajectory import Trajectory

TIMESTEP = 0.005
PENDULUM = rod(timestep=TIMESTEP, damping=0.2, armature=0.05)
TRUTH = {'joint/j/armature': 0.09, 'joint/j/damping': 0.5, 'actuator/a/kp': 33.0}
NOISE = {'q': 2e-3, 'v': 3e-2}
BACKENDS: list[Any] = ['mujoco', 'scipy-trf', 'scipy-dogbox', 'scipy-lm']
ROBUST: list[Any] = ['huber', 'soft_l1', 'cauchy', 'arctan']
#: In standard errors: what is compared with other solvers is solved more sharply than fits are.
SHARP = 2e-5


@pytest.fixture(scope='module')
def model() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(PENDULUM)


@pytest.fixture(scope='module')
def run(model: mujoco.MjModel, measure: Measure, sweep: Sweep) -> Trajectory:
    return measure(model, TRUTH, commands=sweep('a'), noise=NOISE)


@pytest.fixture(scope='module')
def parameters(model: mujoco.MjModel) -> list[Unknown]:
    return [p for path in TRUTH for p in make_unknowns(path, model)]


@pytest.fixture(scope='module')
def residuals(
    model: mujoco.MjModel, run: Trajectory, parameters: list[Unknown]
) -> Iterator[Residuals]:
    with Simulator(model, parameters, [run], threads=1) as simulator:
        yield Residuals(simulator, NOISE)


def start(parameters: list[Unknown]) -> NDArray[np.float64]:
    return np.array([parameter.nominal for parameter in parameters])


def standard_errors(solution: Solution) -> NDArray[np.float64]:
    """Return (p,) standard errors for noise of the size that the residuals are divided by."""
    return np.sqrt(np.diag(np.linalg.inv(solution.jacobian.T @ solution.jacobian)))


@pytest.mark.slow
@pytest.mark.parametrize('loss', ['linear', *ROBUST])
def test_all_solvers_find_the_same_optimum(
    residuals: Residuals, parameters: list[Unknown], loss: Any
) -> None:
    first, *others = (
        solve(residuals, start(parameters), settings=SolverSettings(backend, loss, accuracy=SHARP))
        for backend in BACKENDS
    )
    assert first.success
    errors = standard_errors(first)
    for other in others:
        assert other.success
        assert np.max(np.abs(first.x - other.x) / errors) < 1e-4
        assert first.cost == pytest.approx(other.cost, rel=1e-9)
    assert first.cost < 0.2 * first.trace[0].cost
    # 400 residuals with a standard deviation of one.
    assert loss != 'linear' or first.cost == pytest.approx(200, rel=0.2)


@pytest.mark.slow
def test_scipy_called_by_hand_finds_the_same_optimum(
    run: Trajectory, residuals: Residuals, parameters: list[Unknown]
) -> None:
    """The residual function here shares no code with the package but the averaged commands."""
    (series,) = run.measurements
    (command,) = run.commands
    steps = 400
    edges = np.arange(steps + 1) * TIMESTEP
    control = HeldCommand(command.times, command.get('a')[:, 0]).means(edges, 0.0)

    def by_hand(x: NDArray[np.float64]) -> NDArray[np.float64]:
        spec = mujoco.MjSpec.from_string(PENDULUM)
        spec.joint('j').armature = x[0]
        spec.joint('j').damping[0] = x[1]
        spec.actuator('a').gainprm[0], spec.actuator('a').biasprm[1] = x[2], -x[2]
        model = spec.compile()
        data = mujoco.MjData(model)
        rows = []
        for value in control:
            data.ctrl[0] = value
            mujoco.mj_step(model, data)
            rows.append(data.sensordata.copy())
        predicted = np.array(rows)[::2]  # 100 Hz of 200 Hz
        return ((series.data - predicted) / [NOISE['q'], NOISE['v']]).ravel()

    scale = np.array(start(parameters))
    outcome = scipy.optimize.least_squares(
        by_hand,
        scale,
        x_scale=scale,
        jac='3-point',
        method='lm',
        xtol=1e-15,
        ftol=1e-15,
        gtol=1e-15,
    )
    ours = solve(residuals, start(parameters), settings=SolverSettings('mujoco', accuracy=SHARP))
    assert np.max(np.abs(ours.x - outcome.x) / standard_errors(ours)) < 1e-4
    assert ours.cost == pytest.approx(outcome.cost, rel=1e-9)


def test_the_jacobian_is_the_derivative_of_the_residuals(
    residuals: Residuals,
) -> None:
    x = np.array([0.07, 0.4, 27.0])
    jacobian = linearise(residuals, x)
    for column, step in enumerate([1e-6, 1e-5, 1e-4]):
        move = np.zeros(3)
        move[column] = step
        above, below = residuals(np.stack([x + move, x - move])).T
        central = (above - below) / (2 * step)
        error = np.linalg.norm(jacobian[:, column] - central)
        assert error < 1e-3 * np.linalg.norm(central)


@pytest.mark.parametrize('x', [0.01, 0.09])
def test_the_jacobian_at_a_bound_looks_inwards(
    model: mujoco.MjModel, run: Trajectory, x: float
) -> None:
    """Between bounds that are closer than a difference step, too."""
    derivatives = []
    for width in (1e-2, 1e-9):
        bounds = (x, x + width) if x < 0.05 else (x - width, x)
        parameters = make_unknowns('joint/j/armature', model, bounds=bounds, initial=x)
        with Simulator(model, parameters, [run], threads=1) as simulator:
            residuals = Residuals(simulator, NOISE)
            derivatives.append(linearise(residuals, np.array([x])))
            assert residuals.diverged == 0
    wide, narrow = derivatives
    assert np.linalg.norm(wide - narrow) < 1e-3 * np.linalg.norm(wide)


@pytest.mark.slow
@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('loss', ROBUST)
def test_robust_losses_resist_outliers(
    model: mujoco.MjModel, run: Trajectory, parameters: list[Unknown], backend: Any, loss: Any
) -> None:
    (series,) = run.measurements
    data = series.data.copy()
    data[::100] += [1.0, -20.0]  # one percent, off by hundreds of standard deviations
    spoilt = dataclasses.replace(
        run, measurements=(TimeSeries(series.times, data, series.signal_mapping),)
    )
    with Simulator(model, parameters, [spoilt], threads=1) as simulator:
        residuals = Residuals(simulator, NOISE)
        robust, least = (
            solve(residuals, start(parameters), settings=SolverSettings(backend, choice))
            for choice in (loss, 'linear')
        )
        errors = standard_errors(robust)
    truth = np.array(list(TRUTH.values()))
    assert np.max(np.abs(robust.x - truth) / errors) < 4
    assert np.max(np.abs(least.x - truth) / errors) > 10


@pytest.mark.parametrize('backend', BACKENDS)
def test_a_start_at_a_bound_is_left(
    model: mujoco.MjModel, measure: Measure, sweep: Sweep, backend: Any
) -> None:
    run = measure(model, {'actuator/a/delay': 0.0123}, commands=sweep('a'))
    parameters = make_unknowns('actuator/a/delay', model, bounds=(0, 0.05))
    with Simulator(model, parameters, [run], threads=1) as simulator:
        solution = solve(
            Residuals(simulator, NOISE),
            np.array([0.0]),
            settings=SolverSettings(backend),
        )
    assert solution.x[0] == pytest.approx(0.0123, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize('backend', BACKENDS)
def test_an_optimum_outside_of_the_bounds_ends_at_the_bound(
    model: mujoco.MjModel, run: Trajectory, backend: Any
) -> None:
    parameters = [
        *make_unknowns('joint/j/armature', model, bounds=(0, 0.06)),
        *make_unknowns('joint/j/damping', model),
        *make_unknowns('actuator/a/kp', model),
    ]
    with Simulator(model, parameters, [run], threads=1) as simulator:
        solution = solve(
            Residuals(simulator, NOISE),
            start(parameters),
            settings=SolverSettings(backend),
        )
    assert solution.x[0] == pytest.approx(0.06, rel=1e-6)
    assert solution.x[0] <= 0.06


@pytest.mark.parametrize('backend', BACKENDS)
def test_the_limit_of_iterations_is_told_apart_from_convergence(
    residuals: Residuals, parameters: list[Unknown], backend: Any
) -> None:
    stopped, converged = (
        solve(
            residuals,
            start(parameters),
            settings=SolverSettings(backend, max_iterations=limit),
        )
        for limit in (2, 50)
    )
    assert (stopped.status, stopped.success) == ('iterations', False)
    assert stopped.message.startswith('Stopped at the limit')
    assert converged.success
    assert converged.status in {'step', 'cost', 'gradient'}
    assert converged.message.startswith('Converged')


@pytest.mark.parametrize('backend', BACKENDS)
def test_a_solve_without_time_takes_a_few_steps_along_the_slopes_at_its_start(
    residuals: Residuals, parameters: list[Unknown], backend: Any
) -> None:
    settings = SolverSettings(backend, deadline=time.monotonic())
    solution = solve(residuals, start(parameters), settings=settings)
    assert (solution.status, solution.success) == ('time', False)
    assert solution.message == 'Stopped at the limit of time before convergence.'
    first, *last = solution.trace
    assert 1 <= len(last) <= 3
    assert last[-1].cost < first.cost
    assert {iteration.jacobian for iteration in last} == {'kept'}
    assert np.all(np.linalg.norm(solution.jacobian, axis=0) > 0)


@pytest.mark.parametrize('backend', BACKENDS)
def test_costs_never_rise_from_one_iteration_to_the_next(
    residuals: Residuals, parameters: list[Unknown], backend: Any
) -> None:
    solution = solve(residuals, start(parameters), settings=SolverSettings(backend))
    costs = [iteration.cost for iteration in solution.trace]
    assert costs == sorted(costs, reverse=True)
    at_start = residuals(start(parameters)[None, :])
    assert costs[0] == pytest.approx(0.5 * np.sum(at_start**2), rel=1e-9)
    assert solution.cost <= costs[-1] * (1 + 1e-12)
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


def test_parameters_that_move_nothing_are_held_and_others_found(run: Trajectory) -> None:
    two = mujoco.MjModel.from_xml_string(
        PENDULUM.replace(
            '</worldbody>',
            '<body name="other" pos="0 0 5"><joint name="k"/><geom size=".1" mass="1"/></body>'
            '</worldbody>',
        )
    )
    live = [p for path in TRUTH for p in make_unknowns(path, two)]
    dead = [
        *make_unknowns('joint/k/damping', two),
        *make_unknowns('body/other/mass', two, name='load'),
    ]
    both = dataclasses.replace(run, initial_qpos=np.zeros(2), initial_qvel=np.zeros(2))
    accuracy = SolverSettings().accuracy
    with Simulator(two, live, [both], threads=1) as simulator:
        alone = solve(Residuals(simulator, NOISE), start(live))
    with Simulator(two, [*dead, *live], [both], threads=1) as simulator:
        found = solve(Residuals(simulator, NOISE), start([*dead, *live]))
    assert found.success
    np.testing.assert_allclose(found.x[:2], start(dead), rtol=1e-15)
    assert np.all(np.abs(found.x[2:] - alone.x) <= 2 * accuracy * standard_errors(alone))
    with (
        Simulator(two, dead, [both], threads=1) as simulator,
        pytest.raises(FitError, match=r"with any parameter \('joint/k/damping', 'load'\); record"),
    ):
        solve(Residuals(simulator, NOISE), start(dead))


def test_friction_that_locks_a_joint_is_let_go(model: mujoco.MjModel, run: Trajectory) -> None:
    """Nothing changes with it, nor with the damping of a joint that does not move."""
    parameters = [
        *make_unknowns('joint/j/frictionloss', model, bounds=(0.0, 100.0), initial=100.0),
        *make_unknowns('joint/j/damping', model),
    ]
    with Simulator(model, parameters, [run], threads=1) as simulator:
        residuals = Residuals(simulator, NOISE)
        begin = start(parameters)
        nearly = np.array([[99.0, begin[1]]])
        np.testing.assert_allclose(residuals(nearly), residuals(begin[None]), atol=1e-6)
        found = solve(residuals, begin)
    assert found.x[0] < 1.0
    assert found.cost < 0.01 * found.trace[0].cost


def test_a_start_that_is_unstable_everywhere_is_an_error(
    model: mujoco.MjModel, run: Trajectory
) -> None:
    parameters = make_unknowns('actuator/a/kp', model, bounds=(0, 1e12), initial=1e11)
    with Simulator(model, parameters, [run], threads=1) as simulator:
        residuals = Residuals(simulator, NOISE)
        with pytest.raises(FitError, match='unstable at the start values on every sequence'):
            solve(residuals, start(list(parameters)))


def decay(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (40, m) noisy residuals of m amplitudes and rates of an exponential."""
    times = np.linspace(0, 4, 40)
    measured = 2.0 * np.exp(-0.7 * times) + 0.05 * np.random.default_rng(3).normal(size=40)
    return (measured[:, None] - x[:, 0] * np.exp(-x[:, 1] * times[:, None])) / 0.05


AMPLITUDE = Unknown('amplitude', (), 1.0, 0.0, 10.0)
RATE = Unknown('rate', (), 0.2, 0.0, 5.0)
DECAY = np.array([1.0, 0.2])


def solved(
    function: Callable[..., Any], unknowns: list[Unknown], backend: Any = 'mujoco', **more: Any
) -> Solution:
    settings = SolverSettings(backend, accuracy=SHARP, **more)
    return solve(FunctionResiduals(function, unknowns), start(unknowns), settings=settings)


@pytest.mark.slow
@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('loss', ROBUST)
def test_robust_losses_have_the_optimum_of_scipy(backend: Any, loss: Any) -> None:
    def spoilt(x: NDArray[np.float64]) -> NDArray[np.float64]:
        residual = decay(x)
        residual[::9] += 20.0
        return residual

    ours = solved(spoilt, [AMPLITUDE, RATE], backend, loss=loss)
    outcome = scipy.optimize.least_squares(
        lambda x: spoilt(x[None, :])[:, 0],
        ours.x,
        jac='3-point',
        loss=loss,
        xtol=1e-15,
        ftol=1e-15,
        gtol=1e-12,
    )
    assert ours.success
    assert ours.cost == pytest.approx(outcome.cost, rel=1e-9)
    assert np.max(np.abs(ours.x - outcome.x) / standard_errors(ours)) < 1e-4


def test_the_curvature_of_a_loss_is_its_second_derivative() -> None:
    residual = np.array([-0.9, -0.3, 0.0, 0.2, 0.5])
    for loss in ROBUST:
        ahead, back = ((rho(residual + h, loss)[1] * (residual + h)) for h in (1e-6, -1e-6))
        expected = (ahead - back) / 2e-6
        found = curvature(residual, loss)
        floor = found < 0.0501 * rho(residual, loss)[1]
        np.testing.assert_allclose(found[~floor], expected[~floor], atol=1e-6)
        assert np.all(found > 0)


@pytest.mark.parametrize('loss', ['linear', *ROBUST])
def test_the_squares_of_a_losses_roots_are_the_losses(loss: Any) -> None:
    residual = np.array([-30.0, -0.3, 0.0, 1e-9, 0.5, 4.0])
    value, slope = root(residual, loss)
    np.testing.assert_allclose(value**2, rho(residual, loss)[0], rtol=1e-12)
    ahead, back = (root(residual + h, loss)[0] for h in (1e-6, -1e-6))
    np.testing.assert_allclose(slope, (ahead - back) / 2e-6, atol=1e-5)
    assert 0.5 * np.sum(value**2) == pytest.approx(cost(residual, loss))


@pytest.mark.parametrize('backend', BACKENDS)
def test_data_without_noise_give_the_truth_to_nine_digits(backend: Any) -> None:
    times = np.linspace(0, 4, 40)[:, None]

    def exact(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return 2.0 * np.exp(-0.7 * times) - x[:, 0] * np.exp(-x[:, 1] * times)

    solution = solved(exact, [AMPLITUDE, RATE], backend)
    np.testing.assert_allclose(solution.x, [2.0, 0.7], rtol=1e-9)
    assert solution.status in {'step', 'cost'}


@pytest.mark.parametrize('backend', BACKENDS)
def test_unknowns_may_have_no_bounds_or_one(backend: Any) -> None:
    inf = np.inf
    bounded = solved(decay, [AMPLITUDE, RATE], backend)
    for low, high in ((-inf, inf), (0.0, inf), (-inf, 10.0)):
        free = [dataclasses.replace(u, min_value=low, max_value=high) for u in (AMPLITUDE, RATE)]
        solution = solved(decay, free, backend)
        assert solution.success
        np.testing.assert_allclose(solution.x, bounded.x, rtol=1e-5)


@pytest.mark.parametrize('backend', BACKENDS)
def test_a_logarithmic_scale_has_the_same_optimum(backend: Any) -> None:
    linear = solved(decay, [AMPLITUDE, RATE], backend)
    log = [dataclasses.replace(u, scale='log', min_value=1e-4) for u in (AMPLITUDE, RATE)]
    solution = solved(decay, log, backend)
    np.testing.assert_allclose(solution.x, linear.x, rtol=1e-5)
    np.testing.assert_allclose(solution.jacobian, linear.jacobian, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize('backend', BACKENDS)
def test_the_solution_holds_jacobian_gradient_and_counts(backend: Any) -> None:
    residuals = FunctionResiduals(decay, [AMPLITUDE, RATE])
    solution = solve(residuals, DECAY, settings=SolverSettings(backend, 'huber'))
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


def test_a_solve_goes_on_from_a_solution_without_a_batch_at_the_start() -> None:
    residuals = FunctionResiduals(decay, [AMPLITUDE, RATE])
    first = solve(residuals, DECAY, tolerance=0.1)
    scaled = dataclasses.replace(first, residual=2 * first.residual, jacobian=2 * first.jacobian)
    twice = FunctionResiduals(lambda x: 2 * decay(x), [AMPLITUDE, RATE])
    second = solve(twice, first.x, known=scaled, tolerance=SHARP)
    alone = solve(twice, first.x, tolerance=SHARP)
    np.testing.assert_allclose(second.x, alone.x, rtol=1e-6)
    assert second.evaluations <= alone.evaluations - 3
    assert second.trace[0].rollouts == 0


def test_reruns_are_equal_to_the_last_bit() -> None:
    first, second = (solved(decay, [AMPLITUDE, RATE]) for _ in range(2))
    assert np.array_equal(first.x, second.x)
    assert np.array_equal(first.jacobian, second.jacobian)
    assert [i.cost for i in first.trace] == [i.cost for i in second.trace]


@pytest.mark.parametrize('backend', BACKENDS)
def test_residuals_that_are_not_finite_are_stepped_back_from(backend: Any) -> None:
    def guarded(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(x[:, 1] > 0.9, np.nan, decay(x))

    solution = solved(guarded, [AMPLITUDE, dataclasses.replace(RATE, nominal=0.85)], backend)
    assert solution.success
    np.testing.assert_allclose(solution.x, solved(decay, [AMPLITUDE, RATE]).x, rtol=1e-4)


def test_a_residual_that_is_not_finite_at_the_start_is_named() -> None:
    def broken(x: NDArray[np.float64]) -> NDArray[np.float64]:
        residual = decay(x)
        residual[[17, 30]] = np.nan
        return residual

    with pytest.raises(FitError, match='found 2 of 40 that are nan, the first at index 17'):
        solved(broken, [AMPLITUDE, RATE])


def test_a_parameter_that_acts_only_later_is_not_said_to_have_no_effect() -> None:
    def late(x: NDArray[np.float64]) -> NDArray[np.float64]:
        limited = np.minimum(x[:, 2], 0.99)  # without effect at the start, 1.0
        return np.concatenate([decay(x[:, :2]), limited[None, :] - 0.5])

    limit = Unknown('limit', (), 1.0, 0.0, 1.01)
    assert solved(late, [AMPLITUDE, RATE, limit]).success


def test_a_solve_is_cancelled_between_batches() -> None:
    cancel = threading.Event()
    seen = []

    def observe(iteration: Any) -> None:
        seen.append(iteration.number)
        if iteration.number == 1:
            cancel.set()

    with pytest.raises(CancelledError, match='cancelled'):
        solve(FunctionResiduals(decay, [AMPLITUDE, RATE]), DECAY, cancel=cancel, observe=observe)
    assert seen == [0, 1]


@pytest.mark.parametrize(
    ('settings', 'message'),
    [
        ({'backend': 'scipy-trust'}, r"no solver 'scipy-trust'; nearest: scipy-trf"),
        ({'loss': 'hubber'}, r"no loss 'hubber'; nearest: huber"),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(settings: Any, message: str) -> None:
    with pytest.raises(FitError, match=message):
        SolverSettings(**settings)


def test_too_few_residuals_for_the_levenberg_solver_are_an_error() -> None:
    with pytest.raises(FitError, match='at least as many residuals as parameters, got 1 for 2'):
        solved(lambda x: decay(x)[5:6], [AMPLITUDE, RATE], 'scipy-lm')


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


class Sticking(FunctionResiduals):
    """Residuals of a model that lacks something, with breakaways that any step moves.

    What it lacks stays alike over many samples. Breakaways change residuals by as much as they ever
    do for the smallest step, at random.
    """

    COLUMNS = np.random.default_rng(4).normal(size=(3, 40)).repeat(100, axis=1)
    LACK = 3.0 * np.random.default_rng(5).normal(size=80).repeat(50)
    BREAKAWAYS = 0.05

    def __init__(self) -> None:
        """Lay out three parameters."""
        unknowns = [Unknown(name, (), 1.0, 0.0, 10.0) for name in 'abc']
        super().__init__(self._at, unknowns)

    def _at(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        rows = []
        for one in x:
            broken = np.random.default_rng(np.abs(one.view(np.int64))).normal(size=4000)
            rows.append(one @ self.COLUMNS + self.LACK + self.BREAKAWAYS * broken)
        return np.array(rows).T

    @classmethod
    def optimum(cls) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the least-squares values, and their standard errors that know the memory."""
        inverse = np.linalg.inv(cls.COLUMNS @ cls.COLUMNS.T)
        x = -inverse @ cls.COLUMNS @ cls.LACK
        lack = cls.LACK + x @ cls.COLUMNS
        scores = (cls.COLUMNS * lack).reshape(3, 40, 100).sum(axis=2)
        return x, np.sqrt(np.diag(inverse @ scores @ scores.T @ inverse))


def test_a_solve_goes_on_where_every_step_moves_breakaways() -> None:
    x, errors = Sticking.optimum()
    nominal = x + 40 * errors
    problem = Sticking()
    problem.unknowns = [
        Unknown(name, (), value, value - 50, value + 50)
        for name, value in zip('abc', nominal, strict=True)
    ]
    found = solve(problem, nominal, settings=SolverSettings(loss='soft_l1'))
    assert found.jumps
    assert np.max(np.abs(found.x - x) / errors) < 1.5  # a robust loss has another optimum
    norms, true = np.linalg.norm(found.jacobian, axis=0), np.linalg.norm(Sticking.COLUMNS, axis=1)
    np.testing.assert_allclose(norms, true, rtol=0.2)
    assert problem.evaluations < 300


def test_a_solve_ends_where_what_is_doubted_cannot_be_mended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    doubts = 0

    def doubtful(_: Descent) -> bool:
        nonlocal doubts
        doubts += 1
        assert doubts < 100
        return True

    monkeypatch.setattr(Descent, 'doubtful', property(doubtful))
    monkeypatch.setattr(Descent, 'mend', lambda _: False)
    monkeypatch.setattr(Descent, 'at_precision', property(lambda _: False))
    line = [Unknown('x', (), 1.0, 0.0, 10.0)]
    wrong = Uphill(lambda x: np.stack([x[:, 0] - 3.0, np.ones(len(x))]), line)
    wrong.exact = np.array([True])
    assert solve(wrong, np.array([1.0])).status == 'stalled'


@pytest.mark.parametrize('seed', range(5))
@pytest.mark.parametrize('backend', BACKENDS)
def test_a_fit_ends_within_its_accuracy_in_standard_errors(backend: Any, seed: int) -> None:
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
        settings = SolverSettings(backend, accuracy=accuracy)
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


def test_steps_that_gain_nothing_are_not_tried() -> None:
    """Of a kink, one side says that the other gains: no step does."""
    calls = 0

    def kinked(x: NDArray[np.float64]) -> NDArray[np.float64]:
        nonlocal calls
        calls += len(x)
        noise = np.random.default_rng(3).normal(size=(100, 1))
        return noise + 0.5 * np.abs(x[:, 0] - 0.25) + 2.0

    line = [Unknown('x', (), 0.25 + 1e-9, 0.0, 1.0)]
    solution = solve(FunctionResiduals(kinked, line), np.array([0.25 + 1e-9]))
    assert solution.x[0] == pytest.approx(0.25, abs=1e-6)
    assert calls < 80


@pytest.mark.parametrize(('bend', 'kept'), [(1e-3, True), (0.1, False)])
def test_a_jacobian_serves_after_a_step_that_hardly_bends(bend: float, kept: bool) -> None:
    rng = np.random.default_rng(3)
    slopes, noise = rng.normal(size=(200, 4)), rng.normal(size=(200, 1))
    curved = rng.normal(size=(200, 4))

    def residual(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return slopes @ x.T + bend * (curved @ x.T) ** 2 + noise

    line = [Unknown(name, (), 0.3, -5.0, 5.0) for name in 'abcd']
    solution = solve(FunctionResiduals(residual, line), np.full(4, 0.3))
    exact = solve(FunctionResiduals(residual, line), np.full(4, 0.3), tolerance=1e-7)
    errors = standard_errors(exact)
    assert solution.success
    assert np.linalg.norm((solution.x - exact.x) / errors) < 0.02
    # A point with its Jacobian, four steps beside it, and whether differences add up.
    assert (solution.evaluations == 1 + 4 + 4 + 1) == kept
    assert (solution.trace[1].jacobian == 'kept') == kept


@pytest.mark.parametrize('narrow', [600.0, 1000.0])
def test_a_narrow_curved_valley_is_followed_in_few_steps(narrow: float) -> None:
    """Straight steps alone take 48 and 92, each with a Jacobian of its own."""
    unknowns = [Unknown('a', (), -1.2, -5.0, 5.0), Unknown('b', (), 1.0, -5.0, 5.0)]
    unknowns += [Unknown(f'c{number}', (), 0.5, -5.0, 5.0) for number in range(8)]

    def valley(x: NDArray[np.float64]) -> NDArray[np.float64]:
        along, across = 10 * (1 - x[:, 0]), narrow * (x[:, 1] - x[:, 0] ** 2)
        return np.concatenate([[along, across], 3 * x[:, 2:].T])

    solution = solved(valley, unknowns)
    assert solution.success
    np.testing.assert_allclose(solution.x, [1.0, 1.0] + 8 * [0.0], atol=1e-6)
    assert solution.iterations <= 35


def test_an_optimum_that_the_data_hardly_tell_is_reached_inside_of_bounds() -> None:
    """Three exponentials: along the weakest direction the curvature is 1e-9 of the others."""
    times = np.linspace(0, 4, 400)
    noise = np.random.default_rng(3).normal(size=400)

    def decays(x: NDArray[np.float64]) -> NDArray[np.float64]:
        amplitudes, rates = x[:, ::2, None], x[:, 1::2, None]
        return np.sum(amplitudes * np.exp(-rates * times), axis=1).T / 0.01

    truth = np.array([[1.0, 0.7, 1.5, 0.945, 2.0, 1.27575]])
    measured = decays(truth) + noise[:, None]
    unknowns = [
        Unknown(f'{name} {number}', (), value, 0.0, 20.0)
        for number, rate in enumerate((0.5, 0.8, 1.28))
        for name, value in (('amplitude', 1.0), ('rate', rate))
    ]
    residuals = FunctionResiduals(lambda x: decays(x) - measured, unknowns)
    solution = solve(residuals, start(unknowns))
    best = scipy.optimize.least_squares(
        lambda x: (decays(x[None]) - measured)[:, 0], truth[0], jac='3-point', x_scale='jac',
        xtol=1e-15, ftol=1e-15, gtol=1e-12, max_nfev=10000,
    )  # fmt: skip
    assert solution.success
    assert solution.cost < best.cost + 0.5  # one standard error

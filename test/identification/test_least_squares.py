# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The solvers: they agree, with each other and with one called by hand."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import pytest
import scipy.optimize

from sysid_ros.errors import FitError
from sysid_ros.identification.commands import HeldCommand
from sysid_ros.identification.least_squares import SolverSettings, solve
from sysid_ros.identification.losses import rho
from sysid_ros.identification.problem import check_start, linearise
from sysid_ros.identification.residuals import Residuals
from sysid_ros.identification.simulation import Simulator
from sysid_ros.identification.unknown import Unknown, make_unknowns
from sysid_ros.signals.timeseries import TimeSeries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from sysid_ros.identification.least_squares import Solution
    from sysid_ros.identification.sequence import Sequence

    Measure = Callable[..., Sequence]
    Sweep = Callable[..., TimeSeries]

TIMESTEP = 0.005
PENDULUM = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <body><joint name="j" axis="0 1 0" damping=".2" armature=".05"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass="1"/></body>
  </worldbody>
  <actuator><position name="a" joint="j" kp="20" kv="1"/></actuator>
  <sensor><jointpos name="q" joint="j"/><jointvel name="v" joint="j"/></sensor>
</mujoco>
"""
TRUTH = {'joint/j/armature': 0.09, 'joint/j/damping': 0.5, 'actuator/a/kp': 33.0}
NOISE = {'q': 2e-3, 'v': 3e-2}
BACKENDS: list[Any] = ['mujoco', 'scipy']
ROBUST: list[Any] = ['huber', 'soft_l1', 'cauchy']


@pytest.fixture(scope='module')
def model() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(PENDULUM)


@pytest.fixture(scope='module')
def run(model: mujoco.MjModel, measure: Measure, sweep: Sweep) -> Sequence:
    return measure(model, TRUTH, commands=sweep('a'), noise=NOISE)


@pytest.fixture(scope='module')
def parameters(model: mujoco.MjModel) -> list[Unknown]:
    return [p for path in TRUTH for p in make_unknowns(path, model)]


@pytest.fixture(scope='module')
def residuals(
    model: mujoco.MjModel, run: Sequence, parameters: list[Unknown]
) -> Iterator[Residuals]:
    with Simulator(model, parameters, [run], threads=1) as simulator:
        yield Residuals(simulator, NOISE)


def start(parameters: list[Unknown]) -> NDArray[np.float64]:
    return np.array([parameter.nominal for parameter in parameters])


def standard_errors(
    residuals: Residuals, parameters: list[Unknown], solution: Solution
) -> NDArray[np.float64]:
    """Return (p,) standard errors for noise of the size that the residuals are divided by."""
    weight = rho(solution.residual, 'linear')[1]
    jacobian = linearise(residuals, parameters, solution.x)
    return np.sqrt(np.diag(np.linalg.inv(jacobian.T @ (weight[:, None] * jacobian))))


@pytest.mark.parametrize('loss', ['linear', *ROBUST])
def test_both_solvers_find_the_same_optimum(
    residuals: Residuals, parameters: list[Unknown], loss: Any
) -> None:
    a, b = (
        solve(residuals, parameters, start(parameters), settings=SolverSettings(backend, loss))
        for backend in BACKENDS
    )
    assert a.success
    assert b.success
    errors = standard_errors(residuals, parameters, a)
    # Reweighting converges linearly, so robust losses stop a little earlier.
    assert np.max(np.abs(a.x - b.x) / errors) < (1e-4 if loss == 'linear' else 2e-3)
    assert a.cost == pytest.approx(b.cost, rel=1e-6)
    assert a.cost < 0.1 * a.trace[0].cost
    # 400 residuals with a standard deviation of one.
    assert loss != 'linear' or a.cost == pytest.approx(200, rel=0.2)


def test_scipy_called_by_hand_finds_the_same_optimum(
    run: Sequence, residuals: Residuals, parameters: list[Unknown]
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
        return ((predicted - series.data) / [NOISE['q'], NOISE['v']]).ravel()

    scale = np.array(start(parameters))
    outcome = scipy.optimize.least_squares(
        by_hand, scale, x_scale=scale, jac='3-point', method='lm', xtol=1e-12, ftol=1e-12
    )
    ours = solve(residuals, parameters, start(parameters), settings=SolverSettings('mujoco'))
    errors = standard_errors(residuals, parameters, ours)
    assert np.max(np.abs(ours.x - outcome.x) / errors) < 5e-3
    assert ours.cost == pytest.approx(outcome.cost, rel=1e-6)


def test_the_jacobian_is_the_derivative_of_the_residuals(
    residuals: Residuals, parameters: list[Unknown]
) -> None:
    x = np.array([0.07, 0.4, 27.0])
    jacobian = linearise(residuals, parameters, x)
    for column, step in enumerate([1e-6, 1e-5, 1e-4]):
        move = np.zeros(3)
        move[column] = step
        above, below = residuals(np.stack([x + move, x - move])).T
        central = (above - below) / (2 * step)
        error = np.linalg.norm(jacobian[:, column] - central)
        assert error < 1e-3 * np.linalg.norm(central)


@pytest.mark.parametrize('x', [0.01, 0.09])
def test_the_jacobian_at_a_bound_looks_inwards(
    model: mujoco.MjModel, run: Sequence, x: float
) -> None:
    """Between bounds that are closer than a difference step, too."""
    derivatives = []
    for width in (1e-2, 1e-9):
        bounds = (x, x + width) if x < 0.05 else (x - width, x)
        parameters = make_unknowns('joint/j/armature', model, bounds=bounds, initial=x)
        with Simulator(model, parameters, [run], threads=1) as simulator:
            residuals = Residuals(simulator, NOISE)
            derivatives.append(linearise(residuals, parameters, np.array([x])))
            assert residuals.diverged == 0
    wide, narrow = derivatives
    assert np.linalg.norm(wide - narrow) < 1e-3 * np.linalg.norm(wide)


def test_a_neighbour_that_diverges_is_not_used_for_the_jacobian(
    model: mujoco.MjModel, measure: Measure
) -> None:
    run = measure(model, times=np.arange(0, 0.5, 0.01), start=([1], [0]))
    parameters = make_unknowns('actuator/a/kp', model, bounds=(0, 1e9))
    with Simulator(model, parameters, [run], threads=1) as simulator:
        residuals = Residuals(simulator, NOISE)
        stable, unstable = 20.0, 1e9
        for _ in range(60):  # up to the edge of stability
            middle = np.sqrt(stable * unstable)
            residuals(np.array([[middle]]))
            stable, unstable = (stable, middle) if residuals.unstable[0] else (middle, unstable)
        x = np.array([stable * (1 - 1e-12)])
        beyond = residuals(x[None, :] * (1 + 1e-4))
        assert residuals.unstable[0]
        jacobian = linearise(residuals, parameters, x)
        largest = np.max(np.abs(beyond)) / (1e-4 * x[0])
    assert np.all(np.isfinite(jacobian))
    assert np.max(np.abs(jacobian)) < largest


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('loss', ROBUST)
def test_robust_losses_resist_outliers(
    model: mujoco.MjModel, run: Sequence, parameters: list[Unknown], backend: Any, loss: Any
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
            solve(
                residuals, parameters, start(parameters), settings=SolverSettings(backend, choice)
            )
            for choice in (loss, 'linear')
        )
        errors = standard_errors(residuals, parameters, robust)
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
            parameters,
            np.array([0.0]),
            settings=SolverSettings(backend),
        )
    assert solution.x[0] == pytest.approx(0.0123, abs=1e-9)


@pytest.mark.parametrize('backend', BACKENDS)
def test_an_optimum_outside_of_the_bounds_ends_at_the_bound(
    model: mujoco.MjModel, run: Sequence, backend: Any
) -> None:
    parameters = [
        *make_unknowns('joint/j/armature', model, bounds=(0, 0.06)),
        *make_unknowns('joint/j/damping', model),
        *make_unknowns('actuator/a/kp', model),
    ]
    with Simulator(model, parameters, [run], threads=1) as simulator:
        solution = solve(
            Residuals(simulator, NOISE),
            parameters,
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
            parameters,
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
def test_costs_never_rise_from_one_iteration_to_the_next(
    residuals: Residuals, parameters: list[Unknown], backend: Any
) -> None:
    solution = solve(residuals, parameters, start(parameters), settings=SolverSettings(backend))
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


def test_parameters_that_move_nothing_are_named(run: Sequence) -> None:
    two = mujoco.MjModel.from_xml_string(
        PENDULUM.replace(
            '</worldbody>',
            '<body name="other" pos="0 0 5"><joint name="k"/><geom size=".1" mass="1"/></body>'
            '</worldbody>',
        )
    )
    parameters = [
        *make_unknowns('joint/j/armature', two),
        *make_unknowns('joint/k/damping', two),
        *make_unknowns('body/other/mass', two, name='load'),
    ]
    both = dataclasses.replace(run, initial_qpos=np.zeros(2), initial_qvel=np.zeros(2))
    with Simulator(two, parameters, [both], threads=1) as simulator:
        residuals = Residuals(simulator, NOISE)
        with pytest.raises(
            FitError,
            match=r"changes with parameter 'joint/k/damping', 'load'; remove it or record",
        ):
            check_start(residuals, parameters, start(parameters))


def test_a_start_that_is_unstable_everywhere_is_an_error(
    model: mujoco.MjModel, run: Sequence
) -> None:
    parameters = make_unknowns('actuator/a/kp', model, bounds=(0, 1e12), initial=1e11)
    with Simulator(model, parameters, [run], threads=1) as simulator:
        residuals = Residuals(simulator, NOISE)
        with pytest.raises(FitError, match='unstable at the start values on every sequence'):
            check_start(residuals, parameters, start(list(parameters)))


class Valley:
    """Residuals of one parameter with a sharp valley at 1, where the slope never vanishes."""

    offsets = ()
    diverged = 0
    simulator = SimpleNamespace(rollouts=0)

    def __call__(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (1, m) residuals of (m, 1) candidates."""
        self.unstable = np.zeros(len(candidates), dtype=bool)
        return 1.0 + np.abs(candidates.T - 1.0)


def test_a_valley_that_no_step_descends_is_told_as_a_stall() -> None:
    valley: Any = Valley()
    parameters = [Unknown('x', (), 1.0, 0.0, 10.0)]
    solution = solve(valley, parameters, np.array([1.0]), settings=SolverSettings('mujoco'))
    assert solution.status == 'stalled'
    assert solution.message == 'Stopped: no step lowers the cost further.'
    assert solution.x[0] == 1.0

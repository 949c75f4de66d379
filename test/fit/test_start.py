# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where fits start: the start of use, and the best of several."""

from __future__ import annotations

from functools import partial
from typing import Any

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from builders.trajectories import measure, sweep
from sysid_ros.errors import FitError
from sysid_ros.fit.context import FitContext
from sysid_ros.fit.differences import FunctionResiduals
from sysid_ros.fit.noise import estimate_noise
from sysid_ros.fit.residuals import Residuals
from sysid_ros.fit.solver import FitLog, SolverSettings
from sysid_ros.fit.start import Start, choose, solve_from, starts
from sysid_ros.model.targets import Unknown, make_unknowns
from sysid_ros.signals import Trajectory
from sysid_ros.simulation.prediction import make_simulator

MODEL = mujoco.MjModel.from_xml_string(
    """<mujoco><option timestep=".002" integrator="implicitfast"/><worldbody><body>
    <inertial mass="1" pos=".1 0 -.2" diaginertia=".02 .02 .02"/>
    <joint name="j" axis="0 1 0" armature=".1" damping=".2"/></body></worldbody>
    <actuator><motor name="a" joint="j"/></actuator>
    <sensor><jointpos name="j_position" joint="j"/></sensor></mujoco>"""
)
PATHS = ('joint/j/armature', 'joint/j/damping')


@pytest.fixture(scope='module')
def runs() -> tuple[Trajectory, ...]:
    return tuple(
        measure(
            MODEL,
            name=f'run {seed}',
            commands=sweep('a', amplitude=size),
            noise={'j_position': 1e-4},
            seed=seed,
        )
        for seed, size in enumerate((2.0, -1.5))
    )


def chosen(runs: tuple[Trajectory, ...], choice: Any, **options: Any) -> Start:
    unknowns = [p for path in PATHS for p in make_unknowns(path, MODEL, **options)]
    context = FitContext(partial(make_simulator, MODEL, threads=1), SolverSettings(), FitLog(None))
    with context.opened:
        simulator = context.simulator(unknowns, runs)
        residuals = Residuals(simulator, estimate_noise(simulator.runs))
        return choose(context, residuals, choice)


def test_values_that_are_near_stay(runs: tuple[Trajectory, ...]) -> None:
    start = chosen(runs, 'auto')
    assert start.name == 'nominal'
    np.testing.assert_array_equal(start.x, [0.1, 0.2])


def test_values_that_are_far_give_way_to_the_regression(runs: tuple[Trajectory, ...]) -> None:
    start = chosen(runs, 'auto', initial=3.0)
    assert start.name == 'regression'
    assert not start.rough.any()
    np.testing.assert_allclose(start.x, [0.1, 0.2], rtol=0.05)


def test_what_was_asked_for_is_done(runs: tuple[Trajectory, ...]) -> None:
    assert chosen(runs, 'nominal', initial=3.0).name == 'nominal'
    assert chosen(runs, 'regression').name == 'regression'
    assert chosen(runs, 'windows').rough.all()


@pytest.mark.parametrize(('kp', 'factor'), [(20, 1.0), (2000, 0.01)])
def test_gains_that_are_wrong_by_the_same_factor_begin_scaled(kp: float, factor: float) -> None:
    def servos(kp: float) -> mujoco.MjModel:
        return mujoco.MjModel.from_xml_string(
            f"""<mujoco><option timestep=".002" integrator="implicitfast"/><worldbody><body>
            <inertial mass="1" pos=".1 0 -.2" diaginertia=".02 .02 .02"/>
            <joint name="j" axis="0 1 0" armature=".1" frictionloss=".3"/></body></worldbody>
            <actuator><position name="a" joint="j" kp="{kp}" kv="2"/></actuator>
            <sensor><jointpos name="j_position" joint="j"/></sensor></mujoco>"""
        )

    noise = {'j_position': 1e-3}
    run = measure(servos(20), name='run', commands=sweep('a', amplitude=0.5), noise=noise)
    model = servos(kp)
    gains = [u for k in ('kp', 'kv') for u in make_unknowns(f'actuator/a/{k}', model, scale='log')]
    context = FitContext(partial(make_simulator, model, threads=1), SolverSettings(), FitLog(None))
    with context.opened:
        residuals = Residuals(context.simulator(gains, [run]), noise)
        start = choose(context, residuals, 'auto')
    assert start.name == 'nominal'
    assert ('all kp times 0.01' in start.sentence) == (factor != 1)
    np.testing.assert_allclose(start.x, [kp * factor, 2.0])


TIMES = np.linspace(0, 4, 80)[:, None]
FREQUENCY = Unknown('frequency', (), 1.0, 0.5, 20.0)
GAIN = Unknown('gain', (), 1.0, 0.01, 100.0, scale='log')


def tone(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the residuals of a sine, which has an optimum near every false frequency."""
    return np.sin(7.0 * TIMES) - np.sin(x[:, 0] * TIMES)


def test_starts_are_spread_over_the_bounds_and_begin_with_the_nominal_one() -> None:
    found = starts([FREQUENCY, GAIN], 17)
    assert found.shape == (17, 2)
    np.testing.assert_array_equal(found[0], [1.0, 1.0])
    assert np.all((found >= [0.5, 0.01]) & (found <= [20.0, 100.0]))
    # A quarter of the sixteen others in each quarter of the bounds, of the logarithm for the gain.
    unit = np.stack([(found[1:, 0] - 0.5) / 19.5, np.log(found[1:, 1] / 0.01) / np.log(1e4)])
    for row in unit:
        assert np.histogram(row, 4, (0, 1))[0].tolist() == [4, 4, 4, 4]
    np.testing.assert_array_equal(found, starts([FREQUENCY, GAIN], 17))
    assert not np.array_equal(found, starts([FREQUENCY, GAIN], 17, seed=1))


def test_starts_that_cannot_be_spread_are_an_error() -> None:
    free = Unknown('mass', (), 1.0, 0.0, np.inf)
    with pytest.raises(FitError, match=r"expected to be finite; those of parameter 'mass'"):
        starts([free], 4)
    with pytest.raises(FitError, match="finite and not negative; those of parameter 'gain'"):
        starts([Unknown('gain', (), 1.0, -1.0, 2.0, scale='log')], 4)
    with pytest.raises(FitError, match='at least one start, got 0'):
        starts([GAIN], 0)


def test_the_best_of_several_starts_finds_what_one_misses() -> None:
    shapes = []

    def function(x: NDArray[np.float64]) -> NDArray[np.float64]:
        shapes.append(len(x))
        return tone(x)

    residuals = FunctionResiduals(function, [FREQUENCY])
    found = solve_from(residuals, starts([FREQUENCY], 32))
    assert shapes[0] == 32  # one batch
    assert found.solution.x[0] == pytest.approx(7.0, rel=1e-9)
    alone = solve_from(residuals, starts([FREQUENCY], 1))
    assert abs(alone.solution.x[0] - 7.0) > 1.0
    assert len(found.attempts) == 32
    assert [a.status != 'not solved' for a in found.attempts] == [True] * 3 + [False] * 29
    costs = [attempt.start_cost for attempt in found.attempts]
    assert costs == sorted(costs)
    assert min(a.cost for a in found.attempts[:3]) == found.solution.cost
    assert np.isnan(found.attempts[-1].cost)


def test_starts_that_are_unstable_come_last_and_do_not_end_the_others() -> None:
    def fragile(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(x[:, 0] < 2.0, np.nan, tone(x))

    residuals = FunctionResiduals(fragile, [FREQUENCY])
    candidates = np.array([[1.0], [6.9], [1.5]])
    found = solve_from(residuals, candidates)
    assert found.solution.x[0] == pytest.approx(7.0, rel=1e-6)
    assert [a.status for a in found.attempts[1:]] == ['failed', 'failed']
    assert [a.unstable for a in found.attempts] == [False, True, True]
    with pytest.raises(FitError, match='found 80 of 80 that are nan'):
        solve_from(residuals, candidates[::2])

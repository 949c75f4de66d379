# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fits that begin on short parts: windows of chaotic motion, and beginnings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import Any

import mujoco
import numpy as np
import pytest

from builders.models import Drive, rod
from builders.trajectories import measure, sweep
from sysid_ros.errors import FitError
from sysid_ros.fit.context import FitContext
from sysid_ros.fit.fit import FitOptions
from sysid_ros.fit.noise import estimate_noise
from sysid_ros.fit.residuals import Residuals
from sysid_ros.fit.solver import FitLog, SolverSettings, solve
from sysid_ros.fit.start import Start, led_by_smooth
from sysid_ros.fit.windows import (
    PARTS,
    ROUGH,
    Cutter,
    judged,
    parts_of,
    roughness_at,
    solve_in_stages,
)
from sysid_ros.model.targets import Target, Unknown, make_unknowns
from sysid_ros.signals import TimeSeries, Trajectory
from sysid_ros.simulation.prediction import make_simulator
from sysid_ros.simulation.simulator import Simulator
from sysid_ros.uncertainty.inference import identify

#: A double pendulum that falls from above.
CHAOTIC = mujoco.MjModel.from_xml_string(
    """<mujoco><compiler angle="radian"/><option timestep=".005" integrator="RK4"/><worldbody>
    <body><inertial mass="1" pos="0 0 -.25" diaginertia=".02 .02 .001"/>
    <joint name="j" axis="0 1 0" damping=".1"/>
    <body name="lower" pos="0 0 -.5"><inertial mass="1" pos="0 0 -.25" diaginertia=".02 .02 .001"/>
    <joint name="k" axis="0 1 0" damping=".02"/></body></body></worldbody>
    <sensor><jointpos name="j_position" joint="j"/><jointpos name="k_position" joint="k"/></sensor>
    </mujoco>"""
)
TRUTH = {'body/lower/mass': 0.7, 'joint/j/damping': 0.02}
NOISE = {'j_position': 0.005, 'k_position': 0.005}
ABOVE = ([2.6, 0.4], [0.0, 0.0])


@pytest.fixture(scope='module')
def tumbling() -> Trajectory:
    times = np.arange(0, 8, 0.01)
    return measure(CHAOTIC, TRUTH, times=times, start=ABOVE, noise=NOISE)


def unknowns(**options: Any) -> list[Unknown]:
    return [
        *make_unknowns('body/lower/mass', CHAOTIC, bounds=(0.1, 3.0), **options),
        *make_unknowns('joint/j/damping', CHAOTIC, bounds=(0.0, 0.5)),
    ]


@pytest.fixture
def whole(tumbling: Trajectory) -> Iterator[Residuals]:
    offset = Unknown(
        'offset', (Target('sequence', 'run', 'arrival_offset', None, 0, 's'),), 0.0, -0.01, 0.01
    )
    with make_simulator(CHAOTIC, [*unknowns(), offset], [tumbling], 1) as simulator:
        yield Residuals(simulator, estimate_noise(simulator.runs))


def test_windows_hold_every_sample_once(whole: Residuals, tumbling: Trajectory) -> None:
    windows = Cutter(whole).cut(0.5)
    assert windows is not None
    assert windows.taken == pytest.approx(1.0)
    assert len(windows.sequences) == 15  # the rest after 7.5 s belongs to the last one
    data = np.concatenate([window.measurements[0].data for window in windows.sequences])
    np.testing.assert_array_equal(data, tumbling.measurements[0].data)
    begins = [1e-9 * (w.origin_ns - tumbling.origin_ns) for w in windows.sequences]
    assert begins == pytest.approx([0.5 * k for k in range(15)])


def test_windows_start_where_the_robot_was(whole: Residuals) -> None:
    clean = measure(CHAOTIC, TRUTH, times=np.arange(0, 8, 0.005), start=ABOVE)
    truth = clean.measurements[0].data
    rates = np.gradient(truth, 0.005, axis=0)
    windows = Cutter(whole).cut(0.5)
    assert windows is not None
    for number, window in enumerate(windows.sequences):
        np.testing.assert_allclose(window.initial_qpos, truth[100 * number], atol=0.05)
        np.testing.assert_allclose(window.initial_qvel, rates[100 * number], atol=1.0)


def test_chaos_is_rough_and_an_overdamped_pendulum_is_not(whole: Residuals) -> None:
    assert roughness_at(whole, np.array([0.7, 0.02, 0.0]), 2) > 1.0
    assert roughness_at(whole, np.array([0.7, 5.0, 0.0]), 2) < ROUGH


def test_of_several_recordings_each_is_rough_for_itself() -> None:
    times = np.arange(0, 5, 0.02)
    runs = [
        measure(CHAOTIC, TRUTH, times=times, start=start, noise=NOISE, seed=seed, name=name)
        for seed, (name, start) in enumerate((('falls', ABOVE), ('swings', ([0.5, 0.2], [0, 0]))))
    ]
    with make_simulator(CHAOTIC, unknowns(), runs, 1) as simulator:
        whole = Residuals(simulator, NOISE)
        found = judged(whole, np.array([0.9, 0.02]), 1.0)
        assert found.rough.tolist() == [True, False]
        assert found.follows.tolist() == [False, True]
        # Those that are smooth lead to values that serve all.
        context = FitContext(
            partial(make_simulator, CHAOTIC, threads=1), SolverSettings(), FitLog(None)
        )
        with context.opened:
            start = led_by_smooth(
                context, whole, Start('nominal', np.array([1.0, 0.1]), '', found.rough)
            )
    np.testing.assert_allclose(start.x, list(TRUTH.values()), rtol=0.1)
    assert not start.rough.any()


@pytest.mark.slow
@pytest.mark.parametrize('seed', [0, 3])
def test_windows_recover_what_whole_sequences_lose(seed: int) -> None:
    times = np.arange(0, 5, 0.02)
    run = measure(CHAOTIC, TRUTH, times=times, start=ABOVE, noise=NOISE, seed=seed)
    found = identify(
        CHAOTIC, unknowns(initial=2.0), [run], options=FitOptions(threads=1, start='windows')
    )
    assert found.start == 'windows'
    assert found.solution.success or found.solution.status == 'stalled'  # noise of chaos
    for value, truth, interval in zip(
        found.solution.x, TRUTH.values(), found.intervals, strict=True
    ):
        assert value == pytest.approx(truth, rel=0.05)
        assert abs(value - truth) < 0.75 * (interval.high - interval.low)  # 3 standard errors


def test_a_start_that_is_a_parameter_is_unknown_once(tumbling: Trajectory) -> None:
    start = Unknown(
        'start', (Target('sequence', 'run', 'initial_qpos', 1, 0, 'rad'),), 0.4, -1.0, 1.0
    )
    with make_simulator(CHAOTIC, [*unknowns(), start], [tumbling], 1) as simulator:
        windows = Cutter(Residuals(simulator, estimate_noise(simulator.runs))).cut(0.5)
    assert windows is not None
    written = [target for unknown in windows.unknowns for target in unknown.targets]
    assert len({(t.name, t.attribute, t.index) for t in written}) == len(written)
    assert len(windows.unknowns) == 3 + 15 * 4 - 1


def test_windows_are_stayed_with_where_that_is_asked_for() -> None:
    times = np.arange(0, 5, 0.02)
    calm = measure(CHAOTIC, TRUTH, times=times, start=([0.4, 0.2], [0.0, 0.0]), noise=NOISE)
    free = identify(CHAOTIC, unknowns(), [calm], options=FitOptions(threads=1))
    asked = identify(CHAOTIC, unknowns(), [calm], options=FitOptions(threads=1, windowed=True))
    assert free.window is None
    assert asked.window is not None
    for value, truth, interval in zip(
        asked.solution.x, TRUTH.values(), asked.intervals, strict=True
    ):
        assert abs(value - truth) < 0.75 * (interval.high - interval.low)
    with pytest.raises(FitError, match='expected starts of 1 with them, found 2'):
        identify(
            CHAOTIC, unknowns(), [calm], options=FitOptions(threads=1, windowed=True, starts=2)
        )


def test_windows_that_are_asked_for_need_measured_positions() -> None:
    run = measure(CHAOTIC, TRUTH, times=np.arange(0, 2, 0.02), start=ABOVE, noise=NOISE)
    (series,) = run.measurements
    mapping = {'j_position': series.signal_mapping['j_position']}
    blind = TimeSeries(series.times, series.data[:, :1], mapping)
    run = dataclasses.replace(run, measurements=(blind,))
    with pytest.raises(FitError, match=r"Windows are not possible: .*joint 'k'"):
        identify(CHAOTIC, unknowns(), [run], options=FitOptions(threads=1, windowed=True))


ROD_TEXT = rod(timestep=0.002, damping=0.3, armature=0.01, drive=Drive.MOTOR)
SWUNG = {'joint/j/damping': 0.8, 'joint/j/armature': 0.1}
ROD = mujoco.MjModel.from_xml_string(ROD_TEXT)


def residuals(count: int = 1, duration: float = 2.0) -> tuple[Residuals, np.ndarray]:
    unknowns = [u for path in SWUNG for u in make_unknowns(path, ROD, bounds=(0.001, 5))]
    runs = [
        measure(
            ROD,
            SWUNG,
            name=str(seed),
            times=np.arange(0, duration, 0.004),
            commands=sweep('a', amplitude=2.0 + seed),
            noise={'q': 0.01, 'v': 0.1},
            seed=seed,
        )
        for seed in range(count)
    ]
    simulator = Simulator(ROD, unknowns, runs, threads=2)
    made = Residuals(simulator, estimate_noise(simulator.runs))
    return made, np.array([unknown.nominal for unknown in unknowns])


@pytest.mark.slow
@pytest.mark.parametrize('count', [1, 6])
def test_the_optimum_is_that_of_all_data(count: int) -> None:
    whole, start = residuals(count)
    plain = solve(residuals(count)[0], start, tolerance=2e-5)
    staged = solve_in_stages(whole, start, tolerance=2e-5)
    spread = np.sqrt(np.diag(np.linalg.inv(plain.jacobian.T @ plain.jacobian)))
    assert np.max(np.abs(staged.x - plain.x) / spread) < 1e-4
    assert staged.residual.shape == plain.residual.shape
    assert staged.success


def test_few_data_are_fitted_at_once() -> None:
    few, start = residuals(1, 0.1)
    assert parts_of(few) == []
    assert all(entry.jacobian != PARTS for entry in solve_in_stages(few, start).trace)

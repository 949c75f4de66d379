# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Measured minus predicted, in units of each sensor's noise."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from builders.models import rod
from builders.trajectories import measure
from sysid_ros.fit.noise import estimate_noise, smallest_noise
from sysid_ros.fit.residuals import DIVERGED, Residuals
from sysid_ros.model.targets import make_unknowns
from sysid_ros.signals import TimeSeries, Trajectory
from sysid_ros.simulation.simulator import Simulator

PENDULUM = rod(timestep=0.002, damping=0.1)
MODEL = mujoco.MjModel.from_xml_string(PENDULUM)


def with_samples(
    run: Trajectory, change: Callable[[NDArray[np.float64]], NDArray[np.float64]], name: str = 'run'
) -> Trajectory:
    """Return the run with other samples in its only series."""
    (series,) = run.measurements
    changed = TimeSeries(series.times, change(series.data.copy()), series.signal_mapping)
    return dataclasses.replace(run, name=name, measurements=(changed,))


def without(run: Trajectory, column: int, name: str = 'run') -> Trajectory:
    """Return the run with one channel not measured at all."""

    def change(data: NDArray[np.float64]) -> NDArray[np.float64]:
        data[:, column] = np.nan
        return data

    return with_samples(run, change, name)


def simulate(*runs: Trajectory) -> Simulator:
    return Simulator(
        MODEL, make_unknowns('actuator/a/kp', MODEL, bounds=(0, 1e12)), runs, threads=1
    )


def nominal(simulator: Simulator) -> NDArray[np.float64]:
    return np.array([[parameter.nominal for parameter in simulator.parameters]])


def test_residuals_are_differences_in_units_of_the_noise() -> None:
    run = with_samples(measure(MODEL), lambda data: data + np.array([0.5, -3.0]))
    simulator = simulate(run)
    residuals = Residuals(simulator, {'q': 0.1, 'v': 2.0})
    (values,) = residuals(nominal(simulator)).T
    np.testing.assert_allclose(values[residuals.samples.sensor == 0], 5.0, atol=1e-9)
    np.testing.assert_allclose(values[residuals.samples.sensor == 1], -1.5, atol=1e-9)


def test_samples_that_were_not_measured_are_left_out() -> None:
    def punch(data: NDArray[np.float64]) -> NDArray[np.float64]:
        data[3:7, 0] = np.nan
        data[5, 1] = np.nan
        return data

    run = measure(MODEL)
    simulator = simulate(with_samples(run, punch))
    residuals = Residuals(simulator, {'q': 1.0, 'v': 1.0})
    values = residuals(nominal(simulator))
    samples = residuals.samples
    assert values.shape == (2 * 200 - 5, 1)
    assert np.all(np.isfinite(values))
    assert samples.sensors == ('q', 'v')
    position = np.delete(np.arange(200), range(3, 7)) * 0.01
    np.testing.assert_array_equal(samples.time[samples.sensor == 0], position)
    np.testing.assert_array_equal(
        samples.time[samples.sensor == 1], np.delete(np.arange(200), 5) * 0.01
    )
    # Every residual belongs to the sample that the layout says.
    whole = Residuals(simulate(run), {'q': 1.0, 'v': 1.0})
    moved = nominal(simulator) + 3.0
    kept = np.isin(np.arange(400), [*range(6, 13, 2), 11], invert=True)
    np.testing.assert_array_equal(residuals(moved), whole(moved)[kept])


def test_white_noise_is_estimated_near_its_truth() -> None:
    run = measure(MODEL, start=([1], [0]), noise={'q': 3e-3, 'v': 0.2})
    noise = estimate_noise(simulate(run).runs)
    assert noise['q'] == pytest.approx(3e-3, rel=0.15)
    assert noise['v'] == pytest.approx(0.2, rel=0.15)


def test_quantisation_is_estimated_as_a_uniform_error() -> None:
    step = 2 * np.pi / 2**12
    # Slow compared with the samples: most neighbours are equal.
    run = with_samples(
        measure(MODEL),
        lambda data: np.round(np.linspace(0, 0.02, 200)[:, None] / step) * step + 0 * data,
    )
    noise = estimate_noise(simulate(run).runs)
    assert noise['q'] == pytest.approx(step / np.sqrt(12), rel=1e-6)


def test_a_channel_that_never_moves_has_a_noise_above_zero() -> None:
    simulator = simulate(with_samples(measure(MODEL), lambda data: 0 * data + 2.0))
    assert estimate_noise(simulator.runs) == {'q': 1e-9, 'v': 1e-9}
    assert smallest_noise(simulator.runs) == {'q': 1e-9, 'v': 1e-9}


def test_a_channel_missing_in_one_run_still_counts_in_the_other() -> None:
    run = measure(MODEL, noise={'q': 3e-3, 'v': 0.2})
    (series,) = run.measurements
    only = TimeSeries.from_columns(series.times, series.get('q')[:, 0], ['q'])
    simulator = simulate(run, dataclasses.replace(run, name='q', measurements=(only,)))
    residuals = Residuals(simulator, estimate_noise(simulator.runs))
    samples = residuals.samples
    assert np.count_nonzero(samples.sensor == 0) == 400
    assert np.count_nonzero(samples.sensor == 1) == 200
    assert residuals(nominal(simulator)).shape == (600, 1)


def test_a_sensor_that_no_run_measured_has_no_part_in_anything() -> None:
    run = measure(MODEL, noise={'q': 3e-3})
    simulator = simulate(without(run, 1))
    residuals = Residuals(simulator, estimate_noise(simulator.runs))
    assert set(residuals.noise) == {'q'}
    assert set(residuals.spread(residuals(nominal(simulator))[:, 0])) == {'q'}


def test_a_diverged_candidate_has_large_finite_residuals_and_is_counted() -> None:
    simulator = simulate(measure(MODEL, start=([1], [0])))
    residuals = Residuals(simulator, {'q': 1e-3, 'v': 1e-2})
    values = residuals(np.array([[20.0], [1e11], [21.0]]))
    assert np.all(np.isfinite(values))
    assert np.all(np.abs(values[:, 1]) >= DIVERGED)
    assert np.all(np.abs(values[:, [0, 2]]) < 1000)
    assert residuals.diverged == 1


def test_a_wrong_prediction_is_never_cut_off_where_a_parameter_can_mend_it() -> None:
    """Samples without noise are trusted so much that being wrong by their range is 1e5 sigma."""
    simulator = simulate(measure(MODEL, {'actuator/a/kp': 60.0}, start=([1.5], [0])))
    residuals = Residuals(simulator, smallest_noise(simulator.runs))
    before, after, diverged = residuals(np.array([[20.0], [20.1], [1e11]])).T
    assert np.max(np.abs(before)) > 4e4
    assert np.count_nonzero(before == after) <= 2  # only the initial state
    assert np.sum(diverged**2) > 10 * np.sum(before**2)


def test_the_spread_is_the_scatter_around_zero() -> None:
    residuals = Residuals(simulate(measure(MODEL)), {'q': 1.0, 'v': 1.0})
    values = np.random.default_rng(1).normal(size=400) * np.tile([2.0, 5.0], 200)
    assert residuals.spread(values) == pytest.approx({'q': 2.0, 'v': 5.0}, rel=0.15)
    values[:8] = 1e6  # four outliers in each
    robust = residuals.spread(values, robust=True)
    assert robust == pytest.approx({'q': 2.0, 'v': 5.0}, rel=0.2)
    assert residuals.spread(values)['q'] > 1e4

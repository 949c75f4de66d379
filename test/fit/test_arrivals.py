# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fits to commands that robot and recorder received at different moments."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray
from scipy.stats import chi2

from builders.jacobians import linearise
from builders.trajectories import measure
from sysid_ros.fit.arrivals import Arrivals, locate, whitened
from sysid_ros.fit.fit import FitOptions, with_arrivals_in
from sysid_ros.fit.nuisances import command_timings
from sysid_ros.fit.residuals import Residuals
from sysid_ros.fit.solver import Solution, SolverSettings
from sysid_ros.model.targets import Unknown, make_unknowns
from sysid_ros.signals import SignalType, TimeSeries, Trajectory
from sysid_ros.simulation.prediction import make_simulator
from sysid_ros.uncertainty.inference import Identification, identify
from sysid_ros.workflows.predictions import Predictor, residuals_of, rms

pytestmark = pytest.mark.slow


ARM = """
<mujoco>
  <option timestep="0.002" integrator="implicitfast"/>
  <worldbody>
    <body><joint name="j" axis="0 1 0" damping="1" armature=".1"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass="1" contype="0"/>
      <body pos=".3 0 0"><joint name="k" axis="0 1 0" damping=".5" armature=".05"/>
        <geom type="capsule" fromto="0 0 0 .2 0 0" size=".02" mass=".5" contype="0"/></body></body>
  </worldbody>
  <actuator>
    <position name="a" joint="j" kp="2000" kv="80"/><position name="b" joint="k" kp="800" kv="30"/>
  </actuator>
  <sensor>
    <jointpos name="q" joint="j"/><jointvel name="v" joint="j"/><actuatorfrc name="e" actuator="a"/>
    <jointpos name="p" joint="k"/><jointvel name="u" joint="k"/><actuatorfrc name="f" actuator="b"/>
  </sensor>
</mujoco>
"""
TRUTH = {
    'joint/j/armature': 0.14,
    'joint/j/damping': 1.6,
    'joint/k/armature': 0.07,
    'joint/k/damping': 0.7,
}
DELAY = 0.0073
DELAYS = {'actuator/a/delay': DELAY, 'actuator/b/delay': DELAY}
NOISE = {'q': 2e-4, 'v': 5e-3, 'e': 0.05, 'p': 2e-4, 'u': 5e-3, 'f': 0.05}
#: Of the motion, Hz.
FREQUENCIES = (0.7, 1.1, 1.9, 0.5)
#: Robot and recorder each receive messages so much later than they were sent, on average, s.
JITTER = 4e-5
MODEL = mujoco.MjModel.from_xml_string(ARM)


def shared_delay() -> tuple[Unknown, ...]:
    return make_unknowns('actuator/*/delay', MODEL, name='delay', shared=True, bounds=(0, 0.02))


def own_delays() -> tuple[Unknown, ...]:
    return make_unknowns('actuator/*/delay', MODEL, bounds=(0, 0.02))


def constants() -> list[Unknown]:
    return [
        unknown
        for path, true in TRUTH.items()
        for unknown in make_unknowns(path, MODEL, bounds=(0.2 * true, 3 * true))
    ]


def record(
    seed: int,
    *,
    name: str = 'run',
    late: dict[int, float] | None = None,
    rests: bool = False,
    friction: float = 0.0,
    seconds: float = 2.0,
) -> tuple[Trajectory, NDArray[np.float64]]:
    """Return a recording, and how much later than its stamp each message acted.

    Messages of ``late`` reach the robot later by so many seconds; the model lacks ``friction``.
    """
    rng = np.random.default_rng(seed)
    sent = np.arange(-0.05, seconds, 0.01)
    phase = rng.uniform(0, 2 * np.pi, 4)
    waves = [np.sin(2 * np.pi * f * sent + p) for f, p in zip(FREQUENCIES, phase, strict=True)]
    values = np.stack([0.5 * waves[0] + 0.2 * waves[1], 0.4 * waves[2] + 0.3 * waves[3]], axis=1)
    values = np.zeros_like(values) if rests else values
    robot, recorder = sent + np.abs(rng.normal(0.0, JITTER, (2, len(sent))))
    for place, more in (late or {}).items():
        robot[place] += more
    command = TimeSeries.from_columns(robot, values, ['a', 'b'], SignalType.MjCtrl)
    truth = {**TRUTH, **DELAYS, 'joint/j/frictionloss': friction}
    times, start = np.arange(0.0, seconds, 0.002), (values[0], np.zeros(2))
    more: dict[str, Any] = {'times': times, 'commands': command, 'start': start, 'noise': NOISE}
    sequence = measure(MODEL, truth, name=name, seed=seed, **more)
    stamped = TimeSeries.from_columns(recorder, values, ['a', 'b'], SignalType.MjCtrl)
    return dataclasses.replace(sequence, commands=(stamped,)), robot - recorder


def held_up(
    recorded: tuple[Trajectory, NDArray[np.float64]], stalls: dict[int, int]
) -> tuple[Trajectory, NDArray[np.float64]]:
    """Return a recording whose recorder got so many messages at once from each place on."""
    sequence, errors = recorded
    (command,) = sequence.commands
    times = command.times.copy()
    for place, count in stalls.items():
        last = times[place + count - 1]
        times[place : place + count] = last + 1e-3 + 2e-4 * np.arange(count)
    stamped = dataclasses.replace(command, times=times)
    return dataclasses.replace(sequence, commands=(stamped,)), errors - (times - command.times)


def at_truth(unknowns: list[Unknown], sequences: list[Trajectory]) -> tuple[Residuals, Solution]:
    """Return the residuals as they are, and those at the truth as a solution."""
    every = [*unknowns, *command_timings(sequences)]
    bare = Residuals(make_simulator(MODEL, every, sequences, 1), NOISE)
    known = {**TRUTH, **DELAYS, 'delay': DELAY}
    x = np.array([known.get(unknown.name, 0.0) for unknown in every])
    residual = bare(x[None])[:, 0]
    jacobian = linearise(bare, x)
    return bare, Solution(x, residual, 0.0, '', '', success=True, trace=(), jacobian=jacobian)


def located(
    unknowns: list[Unknown], sequences: list[Trajectory]
) -> tuple[Arrivals, Residuals, Solution]:
    """Return the arrivals found at the truth, the residuals with them, and the solution."""
    found = locate(*at_truth(unknowns, sequences), JITTER)
    assert found is not None
    return found


def test_whitening_is_the_root_of_the_inverse_covariance() -> None:
    rng = np.random.default_rng(3)
    responses = np.zeros((60, 12))
    for column in range(12):
        responses[4 * column : 4 * column + 9, column] = rng.standard_normal(9)
    root = whitened(scipy.sparse.csr_array(responses), np.eye(60))
    covariance = np.eye(60) + responses @ responses.T
    np.testing.assert_allclose(root @ covariance @ root.T, np.eye(60), atol=1e-12)


def test_errors_of_arrival_are_found() -> None:
    sequence, errors = record(1)
    arrivals, residuals, solution = located([*constants(), *shared_delay()], [sequence])
    (found,) = arrivals.by_sequence()['run']
    # Where the robot hardly moves nothing tells; elsewhere an effort of 0.05 N·m tells some µs.
    speed = np.abs(np.diff(sequence.commands[0].data[:, 0], prepend=0.0)) / 0.01
    moving = (speed > 1.0) & (found != 0)
    assert np.sum(moving) > 50
    apart = (found - errors)[moving]
    assert np.std(apart) < 0.3 * np.std(errors[moving])
    # What is left is the noise of the sensors.
    spread = residuals.spread(arrivals.whitened(residuals, solution.residual))
    assert spread == {sensor: pytest.approx(1.0, abs=0.05) for sensor in NOISE}


@pytest.mark.parametrize('delays', [shared_delay, own_delays])
def test_residuals_are_those_of_the_commands_as_they_arrived(
    delays: Callable[..., tuple[Unknown, ...]],
) -> None:
    runs = [record(seed, name=f'run_{seed}')[0] for seed in (3, 4)]
    _, residuals, solution = located([*constants(), *delays()], runs)
    np.testing.assert_allclose(
        residuals(solution.x[None])[:, 0], solution.residual, atol=1e-9, rtol=0
    )


def test_a_message_that_came_far_too_late_is_found() -> None:
    sequence, errors = record(6, late={90: 0.0065})
    found = fit_of([sequence])
    (own,) = found.arrival_errors['run']
    assert own[90] == pytest.approx(errors[90], abs=3e-4)
    assert found.noise['e'] == pytest.approx(NOISE['e'], rel=0.2)


def test_the_last_message_may_be_late_beyond_the_last_sample() -> None:
    # By its stamp it acts 1.3 ms after the last sample, which is at the begin of that time step.
    sequence, _ = record(6, late={204: 0.003}, seconds=1.998)
    assert sequence.duration < sequence.commands[0].times[204] + DELAY < sequence.duration + 0.002
    found = fit_of([sequence])
    assert found.noise['e'] == pytest.approx(NOISE['e'], rel=0.1)


def test_a_recorder_that_stalls_widens_no_interval() -> None:
    # Messages that are stamped alike hide each other: what one of them does says nothing.
    even = record(6)
    stalled, errors = held_up(even, {40: 3, 90: 2, 130: 3})
    found, known = fit_of([stalled]), fit_of([even[0]])
    (own,) = found.arrival_errors['run']
    assert own[40] == pytest.approx(errors[40], abs=5e-4)
    assert errors[40] < -0.02
    assert found.noise == pytest.approx(known.noise, rel=0.1)
    for one, other in zip(found.intervals, known.intervals, strict=True):
        assert one.high - one.low == pytest.approx(other.high - other.low, rel=0.2)


def fit_of(sequences: list[Trajectory], **choices: Any) -> Identification:
    return identify(
        MODEL, [*constants(), *shared_delay()], sequences, options=FitOptions(threads=1, **choices)
    )


@pytest.fixture(scope='module')
def fits() -> list[tuple[Trajectory, Identification]]:
    """Return recordings and the fits to each; benchmarks/timing.py takes a hundred."""
    runs = [record(seed)[0] for seed in (11, 21)]
    return [(run, fit_of([run])) for run in runs]


def test_intervals_hold_the_truth(fits: list[tuple[Trajectory, Identification]]) -> None:
    scores = []
    for _, found in fits:
        for parameter, value, interval in zip(
            found.parameters, found.solution.x, found.intervals, strict=True
        ):
            half = (interval.high - interval.low) / 2
            if parameter.name in TRUTH:
                scores.append(1.96 * (value - TRUTH[parameter.name]) / half)
        assert found.noise == pytest.approx(NOISE, rel=0.1)
    low, high = chi2.ppf([0.001, 0.999], len(scores))
    assert low < np.sum(np.square(scores)) < high


def test_even_stamps_have_no_errors() -> None:
    sequence, _ = record(7)
    series = sequence.commands[0]
    even = TimeSeries(np.round(series.times, 2), series.data, series.signal_mapping)
    found = fit_of([dataclasses.replace(sequence, commands=(even,))])
    assert found.arrival_errors == {}
    assert found.as_arrived([sequence]) == [sequence]


def test_a_robot_at_rest_tells_nothing() -> None:
    moving, _ = record(8, name='moving')
    resting, _ = record(9, name='resting', rests=True)
    unknowns = [*constants(), *shared_delay()]
    arrivals, _, _ = located(unknowns, [moving, resting])
    assert not arrivals.by_sequence()['resting'][0].any()
    assert arrivals.by_sequence()['moving'][0].any()
    assert locate(*at_truth(unknowns, [resting]), JITTER) is None


def test_what_the_model_lacks_does_not_pass_for_errors_of_arrival() -> None:
    sequence, errors = record(10, friction=3.0)
    found = fit_of([sequence])
    # Far from the truth, with a residual of many times the noise, …
    assert found.noise['e'] > 5 * NOISE['e']
    # … and yet messages are taken to be as far off as they are, but for some where friction turns.
    own = np.abs(np.concatenate([*found.arrival_errors.get('run', ()), np.zeros(1)]))
    assert np.percentile(own, 90) < 1.5 * np.percentile(np.abs(errors), 90)


def test_a_robust_loss_takes_late_commands_for_outliers() -> None:
    sequence, _ = record(12)
    found = fit_of([sequence], settings=SolverSettings(loss='huber'))
    assert found.arrival_errors == {}


def test_sequences_as_they_arrived_are_those_that_were_fitted(
    fits: list[tuple[Trajectory, Identification]],
) -> None:
    sequence, found = fits[0]
    (moved,) = found.as_arrived([sequence])
    expected = sequence.commands[0].times + found.arrival_errors['run'][0]
    np.testing.assert_array_equal(moved.commands[0].times, expected)
    assert np.any(moved.commands[0].times != sequence.commands[0].times)
    # Their own fit finds the same, without anything to move.
    again = fit_of([dataclasses.replace(moved)])
    assert again.solution.x[:4] == pytest.approx(found.solution.x[:4], rel=0.01)


def errors_in_effort(found: Identification, sequence: Trajectory) -> tuple[float, float]:
    """Return the error of a recording as it is stamped, and as commands were found to arrive."""
    fitted = Predictor(MODEL, found.parameters, found.solution.x)
    ways = [sequence], found.as_arrived([sequence], offsets=True)
    stamped, arrived = (rms(residuals_of(fitted, way, {'e': NOISE['e']})) for way in ways)
    return stamped, arrived


def test_predictions_with_the_found_arrivals_are_off_by_the_noise_alone(
    fits: list[tuple[Trajectory, Identification]],
) -> None:
    sequence, found = fits[0]
    stamped, arrived = errors_in_effort(found, sequence)
    assert stamped > 1.5
    assert arrived == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize('late', [{40: 0.003, 90: 0.0065}, {60: 0.003}, {40: 0.004}, {}])
def test_commands_that_came_late_are_found_in_a_recording_that_was_not_fitted(
    fits: list[tuple[Trajectory, Identification]], late: dict[int, float]
) -> None:
    found = fits[0][1]
    sequence, errors = record(77, name='unseen', late=late)
    aware = with_arrivals_in(found, MODEL, [sequence])
    np.testing.assert_array_equal(aware.solution.x, found.solution.x)
    (own,) = aware.arrival_errors['unseen']
    places = list(late)
    assert own[places] == pytest.approx(errors[places], abs=3e-5)
    stamped, arrived = errors_in_effort(aware, sequence)
    assert stamped > 5.0
    assert arrived == pytest.approx(1.0, abs=0.05)


def test_a_robot_that_has_changed_does_not_pass_for_late_commands(
    fits: list[tuple[Trajectory, Identification]],
) -> None:
    sequence, _ = record(77, name='unseen', friction=0.5)
    aware = with_arrivals_in(fits[0][1], MODEL, [sequence])
    stamped, arrived = errors_in_effort(aware, sequence)
    assert stamped > 10.0
    assert arrived > 0.75 * stamped

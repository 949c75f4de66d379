# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fits to commands that robot and recorder received at different moments."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from builders.trajectories import Measure
from sysid_ros.estimation.arrivals import WithArrivals
from sysid_ros.estimation.arrivals.pulses import Pulses
from sysid_ros.estimation.nuisances import command_timings
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver.least_squares import Solution, SolverSettings, linearise
from sysid_ros.identification.fit import Fit, fit
from sysid_ros.identification.held_out import with_arrivals_in
from sysid_ros.model.unknown import Unknown, make_unknowns
from sysid_ros.pipeline.validation import Predictor, residuals_of, rms
from sysid_ros.rollout.prediction import make_simulator
from sysid_ros.signals.timeseries import SignalType, TimeSeries
from sysid_ros.signals.trajectory import Trajectory

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
NOISE = {'q': 2e-4, 'v': 5e-3, 'e': 0.05, 'p': 2e-4, 'u': 5e-3, 'f': 0.05}
#: Of the motion, Hz.
FREQUENCIES = (0.7, 1.1, 1.9, 0.5)
#: Robot and recorder each receive messages so much later than they were sent, on average, s.
JITTER = 4e-5


@pytest.fixture(scope='module')
def arm() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(ARM)


def shared_delay(model: mujoco.MjModel) -> tuple[Unknown, ...]:
    return make_unknowns('actuator/*/delay', model, name='delay', shared=True, bounds=(0, 0.02))


def own_delays(model: mujoco.MjModel) -> tuple[Unknown, ...]:
    return make_unknowns('actuator/*/delay', model, bounds=(0, 0.02))


def constants(model: mujoco.MjModel) -> list[Unknown]:
    return [
        unknown
        for path, true in TRUTH.items()
        for unknown in make_unknowns(path, model, bounds=(0.2 * true, 3 * true))
    ]


def record(
    model: mujoco.MjModel,
    measure: Measure,
    seed: int,
    *,
    name: str = 'run',
    late: dict[int, float] | None = None,
    rests: bool = False,
    friction: float = 0.0,
    seconds: float = 2.0,
) -> tuple[Trajectory, NDArray[np.float64]]:
    """Return a recording, and how much later than its stamp each message acted.

    Args:
        model: The nominal model.
        measure: Simulates the true one.
        seed: Of motion, arrivals and noise.
        name: Of the sequence.
        late: Message to the seconds by which the robot received it later still.
        rests: Whether all commands are the same.
        friction: Of the first joint, which the model lacks, N·m.
        seconds: How long it is, s.
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
    truth = {**TRUTH, 'actuator/a/delay': DELAY, 'actuator/b/delay': DELAY}
    sequence = measure(
        model,
        {**truth, 'joint/j/frictionloss': friction},
        name=name,
        times=np.arange(0.0, seconds, 0.002),
        commands=command,
        start=(values[0], np.zeros(2)),
        noise=NOISE,
        seed=seed,
    )
    stamped = TimeSeries.from_columns(recorder, values, ['a', 'b'], SignalType.MjCtrl)
    return dataclasses.replace(sequence, commands=(stamped,)), robot - recorder


def held_up(
    recorded: tuple[Trajectory, NDArray[np.float64]], stalls: dict[int, int]
) -> tuple[Trajectory, NDArray[np.float64]]:
    """Return a recording whose recorder received some messages at once.

    Args:
        recorded: The same without that.
        stalls: Message to the number of messages, held up until shortly after the last was sent.
    """
    sequence, errors = recorded
    (command,) = sequence.commands
    times = command.times.copy()
    for place, count in stalls.items():
        last = times[place + count - 1]
        times[place : place + count] = last + 1e-3 + 2e-4 * np.arange(count)
    stamped = dataclasses.replace(command, times=times)
    return dataclasses.replace(sequence, commands=(stamped,)), errors - (times - command.times)


def at_truth(
    model: mujoco.MjModel, unknowns: list[Unknown], sequences: list[Trajectory]
) -> tuple[Residuals, Solution]:
    """Return the residuals as they are, and those at the truth as a solution."""
    every = [*unknowns, *command_timings(sequences)]
    bare = Residuals(make_simulator(model, every, sequences, 1), NOISE)
    known = {**TRUTH, 'delay': DELAY, 'actuator/a/delay': DELAY, 'actuator/b/delay': DELAY}
    x = np.array([known.get(unknown.name, 0.0) for unknown in every])
    residual = bare(x[None])[:, 0]
    jacobian = linearise(bare, x)
    return bare, Solution(x, residual, 0.0, '', '', success=True, trace=(), jacobian=jacobian)


def located(
    model: mujoco.MjModel, unknowns: list[Unknown], sequences: list[Trajectory]
) -> tuple[WithArrivals, Solution]:
    """Return the residuals at the truth, with the arrivals found there."""
    bare, solution = at_truth(model, unknowns, sequences)
    found = WithArrivals(bare, solution, JITTER)
    told = found.tell(solution)
    assert told is not None
    return found, told


def test_errors_of_arrival_are_found(arm: mujoco.MjModel, measure: Measure) -> None:
    sequence, errors = record(arm, measure, 1)
    residuals, solution = located(arm, [*constants(arm), *shared_delay(arm)], [sequence])
    (found,) = residuals.errors()['run']
    # Where the robot hardly moves nothing tells; elsewhere an effort of 0.05 N·m tells some µs.
    speed = np.abs(np.diff(sequence.commands[0].data[:, 0], prepend=0.0)) / 0.01
    moving = (speed > 1.0) & (found != 0)
    assert np.sum(moving) > 50
    apart = (found - errors)[moving]
    assert np.std(apart) < 0.3 * np.std(errors[moving])
    # What is left is the noise of the sensors.
    spread = residuals.spread(solution.residual)
    assert spread == {sensor: pytest.approx(1.0, abs=0.05) for sensor in NOISE}


def test_residuals_are_those_of_weighted_least_squares(
    arm: mujoco.MjModel, measure: Measure
) -> None:
    sequence, _ = record(arm, measure, 2, seconds=0.8)
    residuals, solution = located(arm, [*constants(arm), *shared_delay(arm)], [sequence])
    count = len(residuals.bare.samples.time)
    messages, system = residuals._messages[0], residuals._systems[0]
    rows = residuals.bare.rows(0)
    bare = residuals.bare(solution.x[None])[:, 0]
    answers = system.responses.toarray()
    covariance = np.eye(rows.stop - rows.start) + answers @ answers.T
    apart = bare[rows] - answers @ messages.known
    others = np.delete(bare, np.arange(rows.start, rows.stop))
    expected = apart @ np.linalg.solve(covariance, apart) + others @ others
    assert solution.residual @ solution.residual == pytest.approx(expected, rel=1e-9)
    assert len(solution.residual) == count + len(messages.effect)
    assert np.sum(residuals.samples.sensor == -2) == len(messages.effect)


@pytest.mark.parametrize('delays', [shared_delay, own_delays])
def test_derivatives_are_those_of_the_function(
    arm: mujoco.MjModel, measure: Measure, delays: Callable[..., tuple[Unknown, ...]]
) -> None:
    runs = [record(arm, measure, seed, name=f'run_{seed}')[0] for seed in (3, 4)]
    unknowns = [*constants(arm), *delays(arm)]
    residuals, solution = located(arm, unknowns, runs)
    np.testing.assert_allclose(
        residuals(solution.x[None])[:, 0], solution.residual, atol=1e-9, rtol=0
    )
    jacobian = linearise(residuals, solution.x)
    size = np.linalg.norm(jacobian, axis=0)
    # Taken over from commands at their stamps.
    known = np.linalg.norm(solution.jacobian - jacobian, axis=0)
    assert np.all(known < 0.02 * size)
    for column, unknown in enumerate(residuals.unknowns):
        # A thousandth of a standard error: no command crosses a time step on the way.
        step = 1e-3 / size[column]
        pair = np.stack([solution.x, solution.x])
        pair[:, column] += step, -step
        ahead, back = residuals(pair).T
        expected = (ahead - back) / (2 * step)
        far = np.linalg.norm(jacobian[:, column] - expected) / size[column]
        assert far < 1e-3, unknown.name


def test_other_scales_are_those_of_a_new_start(arm: mujoco.MjModel, measure: Measure) -> None:
    sequence, _ = record(arm, measure, 5)
    residuals, solution = located(arm, [*constants(arm), *shared_delay(arm)], [sequence])
    solution = dataclasses.replace(solution, jacobian=linearise(residuals, solution.x))
    louder = {sensor: 1.7 * noise for sensor, noise in NOISE.items()}
    changed = residuals.rescaled(solution, louder)
    np.testing.assert_allclose(
        residuals(solution.x[None])[:, 0], changed.residual, atol=1e-9, rtol=0
    )
    np.testing.assert_allclose(
        linearise(residuals, solution.x, solution.differences)[:, 0],
        changed.jacobian[:, 0],
        rtol=1e-3,
        atol=1e-4 * np.abs(changed.jacobian[:, 0]).max(),
    )
    assert residuals.noise == pytest.approx(louder)


def test_a_message_that_came_far_too_late_is_found(arm: mujoco.MjModel, measure: Measure) -> None:
    sequence, errors = record(arm, measure, 6, late={90: 0.0065})
    found = fit_of(arm, [sequence])
    (own,) = found.arrival_errors['run']
    assert own[90] == pytest.approx(errors[90], abs=3e-4)
    assert found.noise['e'] == pytest.approx(NOISE['e'], rel=0.2)


def test_the_last_message_may_be_late_beyond_the_last_sample(
    arm: mujoco.MjModel, measure: Measure
) -> None:
    # By its stamp it acts 1.3 ms after the last sample, which is at the begin of that time step.
    sequence, _ = record(arm, measure, 6, late={204: 0.003}, seconds=1.998)
    assert sequence.duration < sequence.commands[0].times[204] + DELAY < sequence.duration + 0.002
    found = fit_of(arm, [sequence])
    assert found.noise['e'] == pytest.approx(NOISE['e'], rel=0.1)


def test_the_last_message_may_have_acted_before_an_end_that_it_is_stamped_after(
    arm: mujoco.MjModel, measure: Measure
) -> None:
    sequence, _ = record(arm, measure, 6, seconds=1.998)
    (command,) = sequence.commands
    times = command.times.copy()
    assert times[204] + DELAY < sequence.duration + 0.002
    times[204] += 0.003
    assert times[204] + DELAY > sequence.duration + 0.002
    stamped = dataclasses.replace(command, times=times)
    found = fit_of(arm, [dataclasses.replace(sequence, commands=(stamped,))])
    assert found.noise['e'] == pytest.approx(NOISE['e'], rel=0.1)


def test_a_message_may_have_acted_just_after_the_start_that_it_is_stamped_before(
    arm: mujoco.MjModel, measure: Measure
) -> None:
    # Message 4 would act at -2.7 ms: it was held up until 0.2 ms.
    sequence, errors = record(arm, measure, 6, late={4: 0.0029})
    found = fit_of(arm, [sequence])
    (own,) = found.arrival_errors['run']
    assert own[4] == pytest.approx(errors[4], abs=1e-4)
    assert found.noise['e'] == pytest.approx(NOISE['e'], rel=0.1)


def test_a_recorder_that_stalls_widens_no_interval(arm: mujoco.MjModel, measure: Measure) -> None:
    # Messages that are stamped alike hide each other: what one of them does says nothing.
    even = record(arm, measure, 6)
    stalled, errors = held_up(even, {40: 3, 90: 2, 130: 3})
    found, known = fit_of(arm, [stalled]), fit_of(arm, [even[0]])
    (own,) = found.arrival_errors['run']
    assert own[40] == pytest.approx(errors[40], abs=5e-4)
    assert errors[40] < -0.02
    assert found.noise == pytest.approx(known.noise, rel=0.1)
    for one, other in zip(found.intervals, known.intervals, strict=True):
        assert one.high - one.low == pytest.approx(other.high - other.low, rel=0.2)


def test_robot_and_recorder_may_be_held_up_in_turn(arm: mujoco.MjModel, measure: Measure) -> None:
    late = {92: 0.0212, 93: 0.0114, 94: 0.0016, 104: 0.0167, 105: 0.0069, 152: 0.0042}
    sequence, _ = held_up(record(arm, measure, 26, late=late), {74: 2, 98: 2, 182: 2})
    residuals, solution = located(arm, [*constants(arm), *shared_delay(arm)], [sequence])
    spread = residuals.spread(residuals.locate(solution).residual)
    assert spread == {sensor: pytest.approx(1.0, abs=0.1) for sensor in NOISE}


def test_no_round_makes_the_whole_less_likely(arm: mujoco.MjModel, measure: Measure) -> None:
    recorded = record(arm, measure, 6, late={60: 0.012, 61: 0.003})
    sequence, _ = held_up(recorded, {90: 2, 130: 3})
    bare, solution = at_truth(arm, [*constants(arm), *shared_delay(arm)], [sequence])
    found = WithArrivals(bare, solution, JITTER)
    costs = [float(solution.residual @ solution.residual)]
    told = found.tell(solution)
    for _ in range(3):
        assert told is not None
        costs.append(float(told.residual @ told.residual))
        told = found.locate(told)
    assert all(after <= 1.01 * before for before, after in itertools.pairwise(costs))
    assert costs[-1] < 0.01 * costs[0]


def test_a_stretch_that_no_late_command_explains_is_searched_once(
    arm: mujoco.MjModel, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = []
    at = Pulses.at

    def counted(*arguments: Any) -> NDArray[np.float64]:
        trials.append(arguments)
        return at(*arguments)

    monkeypatch.setattr(Pulses, 'at', counted)
    sequence, _ = record(arm, measure, 6)
    pushed = []
    for series in sequence.measurements:
        data = series.data.copy()
        data[(series.times > 1.0) & (series.times < 1.02)] += 0.1
        pushed.append(dataclasses.replace(series, data=data))
    sequence = dataclasses.replace(sequence, measurements=tuple(pushed))
    bare, solution = at_truth(arm, [*constants(arm), *shared_delay(arm)], [sequence])
    found = WithArrivals(bare, solution, JITTER)
    told = found.tell(solution)
    assert told is not None
    rounds = []
    for _ in range(6):
        before = len(trials)
        told = found.locate(told)
        rounds.append(len(trials) - before)
    assert rounds[-1] < 0.5 * rounds[0]


def fit_of(arm: mujoco.MjModel, sequences: list[Trajectory], **choices: Any) -> Fit:
    return fit(arm, [*constants(arm), *shared_delay(arm)], sequences, threads=1, **choices)


@pytest.fixture(scope='module')
def fits(arm: mujoco.MjModel, measure: Measure) -> list[tuple[Trajectory, Fit]]:
    """Return recordings and the fits to each; benchmarks/timing.py takes a hundred."""
    runs = [record(arm, measure, seed)[0] for seed in (11, 21)]
    return [(run, fit_of(arm, [run])) for run in runs]


def test_intervals_hold_the_truth(fits: list[tuple[Trajectory, Fit]]) -> None:
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


def test_even_stamps_have_no_errors(arm: mujoco.MjModel, measure: Measure) -> None:
    sequence, _ = record(arm, measure, 7)
    series = sequence.commands[0]
    even = TimeSeries(np.round(series.times, 2), series.data, series.signal_mapping)
    found = fit_of(arm, [dataclasses.replace(sequence, commands=(even,))])
    assert found.arrival_errors == {}
    assert found.as_arrived([sequence]) == [sequence]


def test_a_robot_at_rest_tells_nothing(arm: mujoco.MjModel, measure: Measure) -> None:
    moving, _ = record(arm, measure, 8, name='moving')
    resting, _ = record(arm, measure, 9, name='resting', rests=True)
    unknowns = [*constants(arm), *shared_delay(arm)]
    residuals, _ = located(arm, unknowns, [moving, resting])
    assert not residuals.errors()['resting'][0].any()
    assert residuals.errors()['moving'][0].any()
    bare, solution = at_truth(arm, unknowns, [resting])
    assert WithArrivals(bare, solution, JITTER).tell(solution) is None


def test_what_the_model_lacks_does_not_pass_for_errors_of_arrival(
    arm: mujoco.MjModel, measure: Measure
) -> None:
    sequence, errors = record(arm, measure, 10, friction=3.0)
    found = fit_of(arm, [sequence])
    # Far from the truth, with a residual of many times the noise, …
    assert found.noise['e'] > 5 * NOISE['e']
    # … and yet messages are taken to be as far off as they are, but for some where friction turns.
    own = np.abs(np.concatenate([*found.arrival_errors.get('run', ()), np.zeros(1)]))
    assert np.percentile(own, 90) < 1.5 * np.percentile(np.abs(errors), 90)


def test_errors_that_would_be_far_too_large_are_not_told(
    arm: mujoco.MjModel, measure: Measure
) -> None:
    sequence, _ = record(arm, measure, 10)
    unknowns = [*constants(arm), *shared_delay(arm)]
    bare, solution = at_truth(arm, unknowns, [sequence])
    wrong = solution.x.copy()
    wrong[:4] *= 20.0
    before = bare(wrong[None])[:, 0]
    start = dataclasses.replace(solution, x=wrong, residual=before)
    assert WithArrivals(bare, start, JITTER).tell(start) is None
    # The simulations are again what the stamps say.
    np.testing.assert_array_equal(bare(wrong[None])[:, 0], before)


def test_a_robust_loss_takes_late_commands_for_outliers(
    arm: mujoco.MjModel, measure: Measure
) -> None:
    sequence, _ = record(arm, measure, 12)
    found = fit_of(arm, [sequence], settings=SolverSettings(loss='huber'))
    assert found.arrival_errors == {}


def test_sequences_as_they_arrived_are_those_that_were_fitted(
    arm: mujoco.MjModel, fits: list[tuple[Trajectory, Fit]]
) -> None:
    sequence, found = fits[0]
    (moved,) = found.as_arrived([sequence])
    expected = sequence.commands[0].times + found.arrival_errors['run'][0]
    np.testing.assert_array_equal(moved.commands[0].times, expected)
    assert np.any(moved.commands[0].times != sequence.commands[0].times)
    # Their own fit finds the same, without anything to move.
    again = fit_of(arm, [dataclasses.replace(moved)])
    assert again.solution.x[:4] == pytest.approx(found.solution.x[:4], rel=0.01)


def test_predictions_with_the_found_arrivals_are_off_by_the_noise_alone(
    arm: mujoco.MjModel, fits: list[tuple[Trajectory, Fit]]
) -> None:
    sequence, found = fits[0]

    def error(sequences: list[Trajectory]) -> float:
        fitted = Predictor(arm, found.parameters, found.solution.x)
        (told,) = residuals_of(fitted, sequences, {'e': NOISE['e']})
        return rms([told])

    assert error([sequence]) > 1.5
    assert error(found.as_arrived([sequence], offsets=True)) == pytest.approx(1.0, abs=0.1)


def errors_in_effort(
    model: mujoco.MjModel, found: Fit, sequence: Trajectory
) -> tuple[float, float]:
    """Return the error of an unseen recording as it is stamped, and as it was found to arrive."""
    fitted = Predictor(model, found.parameters, found.solution.x)
    aware = with_arrivals_in(found, model, [sequence])
    np.testing.assert_array_equal(aware.solution.x, found.solution.x)
    ways = [sequence], aware.as_arrived([sequence], offsets=True)
    stamped, arrived = (rms(residuals_of(fitted, way, {'e': NOISE['e']})) for way in ways)
    return stamped, arrived


@pytest.mark.parametrize('late', [{40: 0.003, 90: 0.0065}, {60: 0.003}, {40: 0.004}, {}])
def test_commands_that_came_late_are_found_in_a_recording_that_was_not_fitted(
    arm: mujoco.MjModel,
    measure: Measure,
    fits: list[tuple[Trajectory, Fit]],
    late: dict[int, float],
) -> None:
    found = fits[0][1]
    sequence, errors = record(arm, measure, 77, name='unseen', late=late)
    (own,) = with_arrivals_in(found, arm, [sequence]).arrival_errors['unseen']
    places = list(late)
    assert own[places] == pytest.approx(errors[places], abs=3e-5)
    stamped, arrived = errors_in_effort(arm, found, sequence)
    assert stamped > 5.0
    assert arrived == pytest.approx(1.0, abs=0.05)


def test_a_robot_that_has_changed_does_not_pass_for_late_commands(
    arm: mujoco.MjModel, measure: Measure, fits: list[tuple[Trajectory, Fit]]
) -> None:
    found = fits[0][1]
    sequence, _ = record(arm, measure, 77, name='unseen', friction=0.5)
    stamped, arrived = errors_in_effort(arm, found, sequence)
    assert stamped > 10.0
    assert arrived > 0.75 * stamped


def test_a_fit_without_such_errors_looks_for_none(
    arm: mujoco.MjModel, measure: Measure, fits: list[tuple[Trajectory, Fit]]
) -> None:
    found = dataclasses.replace(fits[0][1], arrival_errors={})
    sequence, _ = record(arm, measure, 77, name='unseen')
    assert with_arrivals_in(found, arm, [sequence]) is found


def test_the_error_of_a_single_step_is_that_of_its_recording(
    arm: mujoco.MjModel, measure: Measure
) -> None:
    sequence, _ = record(arm, measure, 13, rests=True)
    stamps = sequence.commands[0].times
    values = np.where(stamps[:, None] > 1.0, [0.1, 0.1], 0.0)
    series = TimeSeries.from_columns(stamps, values, ['a', 'b'], SignalType.MjCtrl)
    truth = {**TRUTH, 'actuator/a/delay': DELAY, 'actuator/b/delay': DELAY}
    step = measure(
        arm, truth, times=sequence.measurements[0].times, commands=series, noise=NOISE, seed=13
    )
    found = fit_of(arm, [step])
    assert not found.arrival_errors
    assert abs(found.offsets['run']) < 5 * JITTER

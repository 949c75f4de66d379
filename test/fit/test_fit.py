# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fits of sequences whose truth is known."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pytest

from builders.trajectories import measure, sweep
from sysid_ros.config.schema import VerdictKind
from sysid_ros.errors import CancelledError, FitError, ParameterError
from sysid_ros.fit.fit import FitOptions
from sysid_ros.fit.solver import Iteration, SolverSettings
from sysid_ros.model.targets import Scope, Unknown, make_unknowns
from sysid_ros.signals import SignalType, TimeSeries, Trajectory
from sysid_ros.simulation.prediction import predict
from sysid_ros.uncertainty.inference import Identification, identify

pytestmark = pytest.mark.slow


ARM = """
<mujoco>
  <option timestep="0.005" integrator="implicitfast"/>
  <worldbody>
    <body name="upper">
      <joint name="j" axis="0 1 0" damping=".3" armature=".05" frictionloss=".2" stiffness="1"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass="1" contype="0"/>
      <body name="lower" pos=".3 0 0"><joint name="k" axis="0 1 0" damping=".1" armature=".01"/>
        <geom type="capsule" fromto="0 0 0 .2 0 0" size=".02" mass=".5" contype="0"/></body></body>
    <body pos="0 2 0"><joint name="s" type="slide" axis="1 0 0" damping=".2"/>
      <geom size=".05" mass=".5"/></body>
  </worldbody>
  <actuator>
    <motor name="a" joint="j" gear="3"/>
    <position name="b" joint="k" kp="8" kv=".4"/>
    <velocity name="w" joint="k" kv=".1"/>
    <general name="g" joint="j" dyntype="filter" dynprm=".05" biastype="affine"
             gainprm="1" biasprm="0 -.5 -.1"/>
    <motor name="push" joint="s" gear="4"/>
  </actuator>
  <sensor>
    <jointpos name="q" joint="j"/><jointvel name="v" joint="j"/>
    <jointpos name="p" joint="k"/><jointvel name="u" joint="k"/>
    <jointpos name="x" joint="s"/><jointvel name="y" joint="s"/>
  </sensor>
</mujoco>
"""
SEVERAL = {'joint/j/armature': 0.09, 'joint/j/damping': 0.55, 'actuator/b/kp': 12.0}
NOISE = {'q': 1e-3, 'v': 1e-2, 'p': 1e-3, 'u': 1e-2, 'x': 1e-3, 'y': 1e-2}
MODEL = mujoco.MjModel.from_xml_string(ARM)
COMMANDS = sweep('a', 'b', 'w', 'g', 'push')


def unknowns(*paths: str) -> list[Unknown]:
    return [parameter for path in paths for parameter in make_unknowns(path, MODEL)]


FREE = unknowns(*SEVERAL)
NOISY = measure(MODEL, SEVERAL, commands=COMMANDS, noise=NOISE)


def quick(
    model: mujoco.MjModel | mujoco.MjSpec,
    parameters: Any,
    sequences: Any,
    *,
    begun: Identification | None = None,
    cancel: threading.Event | None = None,
    observe: Callable[[Iteration], None] = lambda _: None,
    **options: Any,
) -> Identification:
    observer = SimpleNamespace(stage=lambda _: None, iteration=observe)
    chosen = FitOptions(threads=1, **options)
    return identify(
        model, parameters, sequences, options=chosen, begun=begun, observer=observer, cancel=cancel
    )


def values(found: Identification) -> dict[str, float]:
    return {p.name: float(x) for p, x in zip(found.parameters, found.solution.x, strict=True)}


def test_truth_lies_within_the_intervals_of_noisy_runs() -> None:
    inside = 0
    times = np.arange(0, 1, 0.01)
    for seed in range(4):
        run = measure(MODEL, SEVERAL, times=times, commands=COMMANDS, noise=NOISE, seed=seed)
        found = quick(MODEL, FREE, [run])
        inside += sum(
            i.low <= truth <= i.high
            for i, truth in zip(found.intervals, SEVERAL.values(), strict=True)
        )
        assert found.noise == pytest.approx(NOISE, rel=0.25)
    assert inside >= 10  # of 12; 95 % would be 11.4


def test_a_fit_goes_on_from_one_of_other_parameters() -> None:
    run, asked = NOISY, list(FREE)
    begun = quick(MODEL, [*unknowns('joint/k/damping'), *asked], [run])
    asked[1] = dataclasses.replace(asked[1], prior=(SEVERAL[asked[1].name], 0.001))
    alone, on = (quick(MODEL, asked, [run], begun=each) for each in (None, begun))
    assert values(on) == pytest.approx(values(alone), rel=1e-3)
    widths = [[i.high - i.low for i in each.intervals] for each in (on, alone)]
    assert widths[0] == pytest.approx(widths[1], rel=0.1)
    assert on.rollouts - begun.rollouts < alone.rollouts


def test_sequences_of_different_lengths_are_fitted_together() -> None:
    runs = [
        measure(
            MODEL,
            SEVERAL,
            name=str(end),
            times=np.arange(0, end, 0.007),
            commands=COMMANDS,
            start=([0.1 * end, 0, 0], [0, 0, 0]),
        )
        for end in (0.4, 1.3, 0.9)
    ]
    found = quick(MODEL, FREE, runs)
    assert values(found) == pytest.approx(SEVERAL, rel=1e-6)


def test_recordings_too_long_for_memory_lose_samples_and_intervals_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = np.arange(0, 2, 0.002)
    run = measure(MODEL, SEVERAL, times=times, commands=COMMANDS, noise=NOISE, seed=3)
    (often,) = run.measurements
    seldom = TimeSeries(
        often.times[::50], often.data[::50, :1], {'q': (SignalType.MjSensor, np.array([0]))}
    )
    names = [name for name in often.names if name != 'q']
    values = np.hstack([often.get(name) for name in names])
    rest = TimeSeries.from_columns(often.times, values, names)
    run = dataclasses.replace(run, measurements=(seldom, rest))
    whole = quick(MODEL, FREE, [run])
    assert whole.strides == {}
    monkeypatch.setattr('sysid_ros.fit.fit.MOST_NUMBERS', 2e3)
    fewer = quick(MODEL, FREE, [run])
    samples = fewer.samples
    sensors = dict(enumerate(samples.sensors))
    counts = {sensors[k]: int(np.sum(samples.sensor == k)) for k in sensors}
    assert counts['q'] == len(seldom)  # what is read seldom is kept
    assert sum(counts.values()) * len(SEVERAL) <= 2e3
    (kept,) = fewer.as_fitted([run])
    assert sum(series.data.size for series in kept.measurements) == sum(counts.values())
    for one, other in zip(whole.intervals, fewer.intervals, strict=True):
        assert 2.0 < (other.high - other.low) / (one.high - one.low) < 6.0
    assert len(run.measurements[1]) == len(times)


@pytest.fixture(scope='module')
def spoilt() -> Trajectory:
    """Return a run of which one percent of the samples are far off."""
    run = NOISY
    (series,) = run.measurements
    data = series.data.copy()
    data[::100] += [1.0, -20.0, -1.0, 20.0, 1.0, 20.0]
    bad = TimeSeries(series.times, data, series.signal_mapping)
    return dataclasses.replace(run, measurements=(bad,))


def error_of(found: Identification) -> float:
    """Return the largest error of a value, in parts of it."""
    truth = np.array([SEVERAL[parameter.name] for parameter in found.parameters])
    return float(np.max(np.abs(found.solution.x / truth - 1)))


@pytest.fixture(scope='module')
def error_of_least_squares(spoilt: Trajectory) -> float:
    """Return how far a fit is off that takes all samples for equally good."""
    return error_of(quick(MODEL, FREE, [spoilt]))


@pytest.mark.parametrize('loss', ['huber', 'soft_l1'])
def test_a_robust_fit_survives_one_percent_of_outliers(
    spoilt: Trajectory, error_of_least_squares: float, loss: Any
) -> None:
    robust = quick(MODEL, FREE, [spoilt], settings=SolverSettings(loss))
    assert error_of(robust) < 0.01
    assert error_of_least_squares > 10 * error_of(robust)
    assert robust.noise == pytest.approx(NOISE, rel=0.3)


def test_runs_that_miss_a_channel_or_samples_are_fitted_with_the_rest() -> None:
    whole = measure(MODEL, SEVERAL, name='whole', commands=COMMANDS)
    (series,) = whole.measurements
    data = series.data.copy()
    data[:, 1] = np.nan
    data[20:60, 2] = np.nan
    holed = TimeSeries(series.times, data, series.signal_mapping)
    gone = dataclasses.replace(whole, name='holed', measurements=(holed,))
    empty = dataclasses.replace(whole, name='empty', measurements=())
    for runs in ([gone], [whole, gone], [gone, empty]):
        found = quick(MODEL, FREE, runs)
        assert values(found) == pytest.approx(SEVERAL, rel=1e-6)
        assert all(sigma > 0 for sigma in found.noise.values())
        assert ('v' in found.noise) == (whole in runs)


def test_a_gear_and_a_gain_of_which_only_the_product_acts_name_each_other() -> None:
    run = measure(MODEL, {'actuator/a/gear': 2.0}, commands=COMMANDS, noise=NOISE)
    parameters = unknowns('actuator/a/gear', 'actuator/a/gainprm', 'joint/j/armature')
    gear, gain, armature = quick(MODEL, parameters, [run]).intervals
    assert gear.verdict == 'confounded with actuator/a/gainprm[0]'
    assert gain.verdict == 'confounded with actuator/a/gear[0]'
    assert np.isnan([gear.low, gear.high, gain.low, gain.high]).all()
    assert armature.verdict == 'identified'
    assert armature.low < 0.05 < armature.high


def test_a_fit_survives_candidates_that_diverge() -> None:
    """Positive velocity feedback above what damps the joint runs away."""
    path = 'actuator/g/biasprm[2]'
    run = measure(MODEL, {path: 0.15}, commands=COMMANDS)
    parameters = make_unknowns(path, MODEL, bounds=(-50, 400), initial=-5.0)
    found = quick(MODEL, parameters, [run])
    assert found.diverged > 0
    assert found.solution.x[0] == pytest.approx(0.15, rel=1e-6)
    assert np.all(np.isfinite(found.solution.residual))
    assert found.solution.trace[-1].diverged <= found.diverged


def test_a_parameter_that_moves_nothing_is_held_and_said_to_be_not_excited() -> None:
    parameters = unknowns('joint/j/armature', 'joint/k/springref')
    run = measure(MODEL, {'joint/j/armature': 0.2}, commands=COMMANDS)
    found = quick(MODEL, parameters, [run])
    assert values(found)['joint/j/armature'] == pytest.approx(0.2)
    assert values(found)['joint/k/springref'] == parameters[1].nominal
    armature, spring = found.intervals
    assert armature.verdict_kind is VerdictKind.IDENTIFIED
    assert spring.verdict_kind is VerdictKind.NOT_EXCITED
    assert spring.explanation.startswith('No residual changes with it, and it is held at 0;')


@pytest.mark.parametrize(
    ('parameters', 'runs', 'complaint'),
    [(1, 0, '0 sequences and 1 parameters'), (0, 1, '1 sequences and 0 parameters')],
)
def test_nothing_to_fit_is_an_error(parameters: int, runs: int, complaint: str) -> None:
    with pytest.raises(FitError, match=f'Nothing to fit: {complaint}'):
        quick(MODEL, FREE[:parameters], [NOISY] * runs)


def test_runs_without_a_single_sample_are_an_error() -> None:
    run = measure(MODEL)
    nothing = TimeSeries.from_columns([0.0, 1.0], [np.nan, np.nan], ['q'])
    runs = [dataclasses.replace(run, measurements=m) for m in ((), (nothing,))]
    with pytest.raises(FitError, match='Nothing to fit: 2 sequences without a measured sample'):
        quick(MODEL, unknowns('joint/j/damping'), runs)


def test_parameters_that_write_the_same_are_refused_before_any_work() -> None:
    twice = [*make_unknowns('joint/j/damping', MODEL)] * 2
    with pytest.raises(ParameterError, match='Two parameters are named'):
        quick(MODEL, twice, [measure(MODEL)])


@pytest.mark.parametrize('after', [0, 2])
def test_a_cancelled_fit_ends_at_once(after: int) -> None:
    cancel = threading.Event()
    seen: list[Iteration] = []

    def observe(iteration: Iteration) -> None:
        seen.append(iteration)
        if len(seen) >= after:
            cancel.set()

    if not after:
        cancel.set()
    with pytest.raises(CancelledError, match='cancelled'):
        quick(MODEL, FREE, [NOISY], cancel=cancel, observe=observe)
    assert len(seen) == after


def test_an_observer_sees_every_iteration_once() -> None:
    seen: list[Iteration] = []
    found = quick(MODEL, FREE, [NOISY], observe=seen.append)
    assert tuple(seen) == found.solution.trace
    assert [iteration.number for iteration in seen] == list(range(len(seen)))
    assert [i.rollouts for i in seen] == sorted(i.rollouts for i in seen)
    assert [i.seconds for i in seen] == sorted(i.seconds for i in seen)
    assert all(np.isfinite([i.cost, i.step]).all() for i in seen)
    assert found.rollouts >= seen[-1].rollouts


def test_the_limit_of_time_holds_over_all_stages_and_leaves_intervals() -> None:
    settings = (SolverSettings(deadline=time.monotonic() + seconds) for seconds in (0.0, 600.0))
    late, done = (quick(MODEL, FREE, [NOISY], settings=each) for each in settings)
    assert late.solution.status == 'time'
    assert done.solution.success
    assert late.rollouts < done.rollouts
    assert late.inference.left > 1.0 > done.inference.left
    for interval in late.intervals:
        assert interval.low < interval.high
    assert any('standard errors from the optimum' in note for note in late.inference.notes)


def test_a_rerun_gives_the_same_to_the_last_bit() -> None:
    runs = [
        measure(MODEL, SEVERAL, name=str(n), commands=COMMANDS, noise=NOISE, seed=n)
        for n in range(2)
    ]
    first, second = (
        identify(MODEL, FREE, runs, options=FitOptions(threads=threads)) for threads in (1, 3)
    )
    np.testing.assert_array_equal(first.solution.x, second.solution.x)
    np.testing.assert_array_equal(first.solution.residual, second.solution.residual)
    assert first.intervals == second.intervals
    assert first.noise == second.noise
    assert first.rollouts == second.rollouts


def test_a_delay_between_jittering_commands_is_as_uncertain_as_they_are() -> None:
    """The robot gets every command at its time, the recorder stamps it a little later."""
    even = sweep('a')
    jitter = np.random.default_rng(2).normal(0.0, 3e-4, len(even))
    stamped = TimeSeries(even.times + jitter, even.data, even.signal_mapping)
    run = measure(MODEL, {'actuator/a/delay': 0.0123}, commands=even, noise=NOISE)
    parameters = unknowns('actuator/a/delay', 'joint/j/damping')
    known = quick(MODEL, parameters, [run])
    found = quick(MODEL, parameters, [dataclasses.replace(run, commands=(stamped,))])
    assert set(found.offsets) == {'run'}
    assert abs(found.offsets['run']) < 1.5e-3
    width, narrow = (f.intervals[0].high - f.intervals[0].low for f in (found, known))
    assert width > 2 * narrow
    assert width > 2 * 3e-4
    assert found.intervals[0].low < 0.0123 < found.intervals[0].high
    assert len(found.solution.x) == len(found.intervals) == 2


def test_what_only_the_compiler_reads_is_found_from_a_spec() -> None:
    spec = mujoco.MjSpec.from_string(ARM)
    before = spec.to_xml()
    moved = spec.copy()
    moved.joint('k').ref = np.rad2deg(0.3)
    run = measure(moved.compile(), {'actuator/b/kp': 12.0}, commands=COMMANDS)
    run = dataclasses.replace(run, initial_qpos=np.array([0.0, 0.3, 0.0]))
    parameters = [
        *make_unknowns('joint/k/ref', Scope(MODEL, spec), bounds=(-1, 1)),
        *make_unknowns('actuator/b/kp', MODEL),
    ]
    with pytest.raises(FitError, match=r"'joint/k/ref' is read by the compiler: expected the spec"):
        quick(MODEL, parameters, [run])
    found = quick(spec, parameters, [run])
    assert values(found) == pytest.approx({'joint/k/ref': 0.3, 'actuator/b/kp': 12.0}, rel=1e-5)
    assert spec.to_xml() == before
    (after,) = predict(spec, [run], parameters, found.solution.x, threads=1)
    np.testing.assert_allclose(after.channels[0][0], run.measurements[0].data, atol=1e-5)


def test_a_delay_that_is_identified_replaces_the_models_own() -> None:
    """Also where the model has to be compiled again for each candidate."""
    late = ARM.replace('joint="j" gear="3"', 'joint="j" gear="3" delay=".02" nsample="8"')
    spec = mujoco.MjSpec.from_string(late)
    model = spec.copy().compile()
    run = measure(model, {'actuator/a/delay': 0.0123}, commands=COMMANDS)
    parameters = [
        *make_unknowns('actuator/a/delay', model),
        *make_unknowns('joint/k/ref', Scope(model, spec), bounds=(-1, 1)),
    ]
    found = quick(spec, parameters, [run])
    assert found.solution.x[0] == pytest.approx(0.0123, rel=1e-5)
    assert found.solution.x[1] == pytest.approx(0.0, abs=1e-6)


def test_samples_that_a_delay_may_place_outside_are_counted() -> None:
    run = measure(MODEL, {'sensor/v/delay': 0.004}, commands=COMMANDS)
    delay = make_unknowns('sensor/v/delay', MODEL, bounds=(-0.05, 0.05))
    found = quick(MODEL, delay, [run])
    # Those at 10 to 40 ms; there is none at 0, and to the end it is simulated.
    assert found.left_out == {'run': 4}
    assert found.solution.x[0] == pytest.approx(0.004, rel=1e-6)
    (after,) = predict(MODEL, [run], delay, found.solution.x, threads=1)
    np.testing.assert_array_equal(np.argwhere(np.isnan(after.channels[0][0])), [[0, 1]])
    np.testing.assert_allclose(after.channels[0][0, 1:], run.measurements[0].data[1:], atol=1e-6)


def test_a_sensor_that_never_moves_is_named_and_left_out() -> None:
    run = measure(MODEL, SEVERAL, commands=COMMANDS)
    (series,) = run.measurements
    data = series.data.copy()
    data[:, 5] = 0.25
    stuck = TimeSeries(series.times, data, series.signal_mapping)
    found = quick(MODEL, FREE, [dataclasses.replace(run, measurements=(stuck,))])
    assert found.dead == ('y',)
    assert found.left_out == {}
    assert values(found) == pytest.approx(SEVERAL, rel=1e-6)


def test_one_of_several_starts_finds_what_the_first_does_not() -> None:
    """Half a turn of the spring's rest away, the joint swings the other way."""
    run = measure(
        MODEL, {'joint/j/springref': 2.0, 'joint/j/stiffness': 6.0}, commands=COMMANDS, noise=NOISE
    )
    parameters = [
        *make_unknowns('joint/j/springref', MODEL, bounds=(-6, 6), initial=-5.5),
        *make_unknowns('joint/j/stiffness', MODEL, bounds=(0.1, 50), initial=40.0, scale='log'),
    ]
    seen: list[Iteration] = []
    found = quick(MODEL, parameters, [run], starts=12, observe=seen.append)
    assert found.solution.x == pytest.approx([2.0, 6.0], rel=1e-2)
    assert len(found.attempts) == 12
    assert sum(np.isfinite(attempt.cost) for attempt in found.attempts) == 3
    starts = {tuple(attempt.start) for attempt in found.attempts}
    assert (-5.5, 40.0) in starts
    assert len(starts) == 12
    assert [i.number for i in seen] == list(range(len(seen)))
    assert [i.number for i in found.solution.trace] == list(range(len(found.solution.trace)))
    assert len(found.solution.trace) < len(seen)
    again = quick(MODEL, parameters, [run], starts=12)
    np.testing.assert_array_equal(again.solution.x, found.solution.x)


def test_what_belongs_to_one_sequence_starts_where_it_was_measured() -> None:
    run = measure(MODEL, {'joint/j/damping': 0.55}, commands=COMMANDS, start=([0, 0, 0], [1, 0, 0]))
    guessed = dataclasses.replace(run, initial_qvel=np.array([0.9, 0.0, 0.0]))
    parameters = [
        *make_unknowns('joint/j/damping', MODEL, bounds=(0, 5)),
        *make_unknowns('sequence/run/initial_qvel[0]', Scope(MODEL, sequences=[guessed])),
    ]
    found = quick(MODEL, parameters, [guessed], starts=4)
    assert {attempt.start[1] for attempt in found.attempts} == {0.9}
    assert found.solution.x == pytest.approx([0.55, 1.0], rel=1e-6)

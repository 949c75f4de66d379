# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Measured motions, and what the forces along them tell."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from builders.trajectories import measure
from sysid_ros.fit.motion import (
    as_torques,
    disturbed,
    measured_joints,
    not_prescribable,
    smoothed,
    standing,
    with_inertial_priors,
)
from sysid_ros.model.targets import make_unknowns
from sysid_ros.signals import PrescribedMotion, SignalType, TimeSeries, Trajectory
from sysid_ros.simulation.prediction import make_simulator, predict
from sysid_ros.uncertainty.inference import Identification, identify

MODEL = mujoco.MjModel.from_xml_string(
    """<mujoco><option timestep=".001" integrator="RK4"/><worldbody><body>
    <inertial mass="1" pos="0 0 -.2" diaginertia=".02 .02 .02"/><joint name="j" axis="0 1 0"/>
    </body></worldbody><sensor><jointpos name="position" joint="j"/>
    </sensor></mujoco>"""
)
#: rad and rad/s.
AMPLITUDE, FREQUENCY = 0.5, 2 * np.pi


def moved(
    times: NDArray[np.float64], sigma: float = 0.0, *, walks: bool = False
) -> tuple[PrescribedMotion, NDArray[np.bool_]]:
    noise = sigma * np.random.default_rng(0).normal(size=len(times))
    if walks:
        noise = np.cumsum(noise)
    measured = AMPLITUDE * np.sin(FREQUENCY * times) + noise
    series = TimeSeries.from_columns(times, measured[:, None], ['position'])
    run = Trajectory('run', 0, np.zeros(1), np.zeros(1), (), (series,))
    with make_simulator(MODEL, [], [run], 1) as simulator:
        positions = measured_joints(simulator.model, simulator.runs[0]).position
        found = smoothed(simulator.model, positions, np.zeros(1), by_forces=walks)
    assert found is not None
    return found, ~disturbed(MODEL, found, positions.values())


def wrong(motion: PrescribedMotion, sound: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Return root mean square errors of position, velocity, acceleration, in amplitudes."""
    phase = FREQUENCY * motion.times
    truth = (np.sin(phase), FREQUENCY * np.cos(phase), -(FREQUENCY**2) * np.sin(phase))
    values = (motion.qpos, motion.qvel, motion.qacc)
    position, velocity, acceleration = (
        float(np.std((v[:, 0] / AMPLITUDE - t)[sound]) / FREQUENCY**order)
        for order, (v, t) in enumerate(zip(values, truth, strict=True))
    )
    return position, velocity, acceleration


def test_a_sine_is_differentiated_between_irregular_samples() -> None:
    times = np.cumsum(np.random.default_rng(1).uniform(0.006, 0.014, 500))
    assert max(wrong(*moved(times))) < 0.01


def test_noise_is_kept_out_of_the_accelerations() -> None:
    motion, sound = moved(np.arange(0, 10, 0.005), sigma=1e-3)
    assert motion.cutoff < 8.0
    assert max(wrong(motion, sound)) < 0.05
    raw = np.gradient(np.gradient(np.random.default_rng(0).normal(size=2000), 0.005), 0.005)
    assert np.std(raw) * 1e-3 > AMPLITUDE * FREQUENCY**2  # what would be left of it otherwise


def test_noise_that_is_not_white_is_kept_out_too() -> None:
    motion, sound = moved(np.arange(0, 10, 0.005), sigma=3e-4, walks=True)
    assert motion.cutoff < 8.0
    assert wrong(motion, sound)[2] < 0.02


def test_what_is_beside_a_gap_or_an_end_does_not_count() -> None:
    times = np.arange(0, 6, 0.01)
    times = times[(times < 2) | (times > 3)]
    motion, kept = moved(times)
    sound = motion.times[kept]
    assert not np.any((sound > 1.99) & (sound < 3.01))
    assert sound[0] > 0.01
    assert sound[-1] < 5.98
    assert len(sound) > 300


ARM = """
<mujoco><option timestep=".001" integrator="implicitfast"/><worldbody>
  <body name="link"><inertial mass="1" pos=".1 0 -.2" diaginertia=".02 .02 .02"/>
    <site name="a"/><site name="b" pos="0 0 1"/>
    <joint name="j" axis="0 1 0" armature=".3" damping=".4" {}/>
    <body name="tip" pos="0 0 -.4">
      <inertial mass=".3" pos=".1 .02 -.1" diaginertia=".004 .003 .002"/>
      <joint name="k" axis="0 1 0" armature=".2" damping=".6"/></body></body></worldbody>
  <actuator><motor name="a" joint="j"/><motor name="b" joint="k" gear="3"/></actuator>
  <sensor><jointpos name="qj" joint="j"/><jointpos name="qk" joint="k"/>
    <jointvel name="vj" joint="j"/><jointvel name="vk" joint="k"/>
    <jointactuatorfrc name="fj" joint="j"/><actuatorfrc name="fk" actuator="b"/></sensor>
  {}
</mujoco>
"""
#: What the recordings are made with; the model says otherwise.
TRUTH = {
    'joint/j/armature': 0.12,
    'joint/k/armature': 0.05,
    'joint/j/damping': 0.8,
    'joint/k/damping': 0.25,
    'joint/j/frictionloss': 0.3,
    'joint/k/frictionloss': 0.15,
    'body/tip/mass': 0.8,
}
NOISE = {'qj': 2e-5, 'qk': 2e-5, 'vj': 1e-3, 'vk': 1e-3, 'fj': 0.02, 'fk': 0.01}
SECONDS = 8.0


def arm(joint: str = '', more: str = '') -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(ARM.format(joint, more))


def pushes(seed: int) -> TimeSeries:
    """Return commands that swing both joints with many frequencies."""
    rng = np.random.default_rng(seed)
    times = np.arange(0, SECONDS, 0.001)
    rates = 2 * np.pi * rng.uniform(0.3, 2.0, (2, 4))
    phases = rng.uniform(0, 2 * np.pi, (2, 4))
    waves = np.sin(rates[:, :, None] * times + phases[:, :, None]).sum(axis=1)
    mapping = {name: (SignalType.MjCtrl, np.array([i])) for i, name in enumerate('ab')}
    return TimeSeries(times, (waves * [[1.2], [0.3]]).T, mapping)


def recorded(
    model: mujoco.MjModel, seed: int, truth: dict[str, float] = TRUTH, **noise: float
) -> Trajectory:
    """Return a run at 500 Hz."""
    times = np.arange(0, SECONDS, 0.002)
    more: dict[str, Any] = {'times': times, 'commands': pushes(seed), 'noise': NOISE | noise}
    return measure(model, truth, name=f'run {seed}', seed=seed, **more)


def only(series: TimeSeries, names: Collection[str], count: int | None = None) -> TimeSeries:
    """Return the first samples of some signals."""
    kept = {n: entry for n, entry in series.signal_mapping.items() if n in names}
    return TimeSeries(series.times[:count], series.data[:count], kept)


def torques(model: mujoco.MjModel, runs: list[Trajectory], unknowns: Any) -> list[Trajectory]:
    found = [as_torques(model, run, unknowns) for run in runs]
    assert None not in found
    return [run for run in found if run is not None]


def assert_true(found: Identification, truth: dict[str, float]) -> None:
    values = np.array(list(truth.values()))
    errors = np.array([(i.high - i.low) / 3.92 for i in found.intervals])
    # Of seven independent normal errors, the largest is below this in 99 %.
    assert np.max(np.abs(found.solution.x - values) / errors) < 3.2
    np.testing.assert_allclose(found.solution.x, values, rtol=0.05)


@pytest.mark.slow
def test_forces_tell_what_made_them_in_every_sequence() -> None:
    model = arm()
    unknowns = [u for path in TRUTH for u in make_unknowns(path, model)]
    runs = torques(model, [recorded(model, seed) for seed in (1, 2, 3)], unknowns)
    assert_true(identify(model, unknowns, runs), TRUTH)


@pytest.mark.slow
def test_a_delay_of_the_forces_is_found_and_does_not_look_like_damping() -> None:
    model = arm()
    unknowns = [u for path in TRUTH for u in make_unknowns(path, model)]
    forces = ('fj', 'fk')
    late = []
    for seed in (4, 14):
        run = recorded(model, seed)
        (series,) = run.measurements
        some = only(series, forces, -50)
        some = dataclasses.replace(some, times=some.times + 0.004)
        rest = only(series, series.signal_mapping.keys() - forces)
        late.append(dataclasses.replace(run, measurements=(rest, some)))
    moved = torques(model, late, unknowns)
    found = identify(model, unknowns, moved)
    assert found.force_delay == pytest.approx(0.004, abs=4e-4)
    np.testing.assert_allclose(found.solution.x, list(TRUTH.values()), rtol=0.07)
    # What is predicted for the same recordings has the same time.
    predictions = predict(model, found.as_timed(moved), unknowns, found.solution.x)
    for one, after in zip(moved, predictions, strict=True):
        left = np.nanstd(after.channels[0][0] - one.measurements[0].data, axis=0)
        assert np.all(left < 2 * np.array([found.noise[name] for name in forces]))


def test_links_stay_physical_and_near_where_the_motion_tells_nothing() -> None:
    model = arm()
    paths = [path for path in TRUTH if path != 'body/tip/mass']
    unknowns = [u for path in (*paths, 'body/*/inertia') for u in make_unknowns(path, model)]
    priors = with_inertial_priors(unknowns)
    assert [u.prior is None for u in priors] == [not u.name.startswith('body') for u in priors]
    runs = torques(model, [recorded(model, seed) for seed in (5, 15)], unknowns)
    found = identify(model, priors, runs)
    # In a plane, a mass along the axis of both joints is nowhere to be seen.
    (across,) = [j for j, u in enumerate(priors) if u.name == 'body/tip/inertia[8]']
    assert found.solution.x[across] == pytest.approx(0.02, abs=1e-3)
    assert found.intervals[across].verdict == 'prior-dominated'
    before = predict(model, runs)
    after = predict(model, found.as_timed(runs), priors, found.solution.x)
    for run, wrong, right in zip(runs, before, after, strict=True):
        measured = run.measurements[0].data
        left, was = (np.nanstd(each.channels[0][0] - measured) for each in (right, wrong))
        assert left < 0.1 * was


def test_what_a_limit_or_standstill_disturbs_is_left_out() -> None:
    free, stopped = arm(), arm(joint='limited="true" range="-20 20"')
    run = recorded(free, 6)
    dry = make_unknowns('joint/j/frictionloss', free)
    counts = [
        np.isfinite(torques(model, [run], unknowns)[0].measurements[0].data).sum(axis=0)
        for model, unknowns in ((free, ()), (stopped, ()), (free, dry))
    ]
    assert np.all(counts[1] < counts[0])
    # Only the joint that may have dry friction says nothing where it turns round.
    assert counts[2][0] < counts[0][0]
    assert counts[2][1] == counts[0][1]


def test_it_says_why_forces_are_not_enough() -> None:
    model = arm()
    run = recorded(model, 7)
    (series,) = run.measurements

    def without(*names: str) -> Trajectory:
        kept = only(series, series.signal_mapping.keys() - names)
        return dataclasses.replace(run, measurements=(kept,))

    assert not_prescribable(model, [run]) is None
    assert 'no force' in str(not_prescribable(model, [without('fj', 'fk')]))
    assert "position of joint 'k'" in str(not_prescribable(model, [without('qk')]))
    assert standing(model, [without('qk', 'fk')]) == ['k']
    tied = arm(more='<equality><weld body1="tip"/></equality>')
    assert 'equality' in str(not_prescribable(tied, [run]))
    hung = arm(more='<tendon><spatial><site site="a"/><site site="b"/></spatial></tendon>')
    assert 'spatial tendons' in str(not_prescribable(hung, [run]))
    short = dataclasses.replace(run, measurements=(only(series, series.signal_mapping, 20),))
    assert as_torques(model, short, ()) is None


WRIST = """
<mujoco><option timestep=".001" integrator="implicitfast"/><worldbody>
  <body name="link"><inertial mass="1" pos=".1 0 -.2" diaginertia=".02 .02 .02"/>
    <joint name="j" axis="0 1 0" armature=".1" damping=".4"/>
    <body name="tip" pos="0 0 -.4">
      <inertial mass=".3" pos=".1 .02 -.1" diaginertia=".004 .003 .002"/>
      <joint name="k" axis="0 1 0"/></body></body></worldbody>
  <tendon><fixed name="both" armature=".02" damping=".1">
    <joint joint="j" coef="1"/><joint joint="k" coef="1"/></fixed></tendon>
  <actuator><motor name="a" joint="j" gear="2"/><motor name="b" tendon="both" gear="3"/></actuator>
  <sensor><jointpos name="qj" joint="j"/><jointpos name="qk" joint="k"/>
    <jointvel name="vj" joint="j"/><jointvel name="vk" joint="k"/>
    <actuatorfrc name="fj" actuator="a"/><actuatorfrc name="fk" actuator="b"/></sensor>
</mujoco>
"""


@pytest.mark.slow
@pytest.mark.parametrize('gear', [(), ('actuator/b/gear[0]',)])
def test_a_motor_that_turns_two_joints_is_found(gear: tuple[str, ...]) -> None:
    model = mujoco.MjModel.from_xml_string(WRIST)
    truth = {
        'joint/j/armature': 0.05,
        'joint/j/damping': 0.7,
        'tendon/both/armature': 0.06,
        'tendon/both/damping': 0.3,
        'tendon/both/frictionloss': 0.2,
        **dict.fromkeys(gear, 3.6),
    }
    unknowns = [u for path in truth for u in make_unknowns(path, model)]
    runs = [recorded(model, seed, truth, fj=5e-3, fk=5e-3) for seed in (5, 15)]
    assert not_prescribable(model, runs) is None
    compared = torques(model, runs, unknowns)
    # Which way the tendon moves decides where its friction pulls.
    assert all(np.isnan(run.measurements[0].get('fk')).sum() > 10 for run in compared)
    assert_true(identify(model, unknowns, compared), truth)

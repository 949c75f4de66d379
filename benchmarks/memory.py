# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Refits with memory: do they see what changed, only that, and know as much as one fit of all?

``python benchmarks/memory.py [drift] [power] [sequential] [--draws N] [--seed S]``

A two-joint arm is recorded again and again, 4 s at 100 Hz, with noise that is white or an AR(1)
with a coefficient of 0.9 (``--rho``).
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping

import mujoco
import numpy as np
import scipy.signal
import scipy.stats

from sysid_ros.estimation.priors import JointPrior
from sysid_ros.identification.continuing import Continued, Known, continue_from
from sysid_ros.identification.fit import Fit, fit
from sysid_ros.inference.drift import JointEstimate
from sysid_ros.model.unknown import Unknown, make_unknowns
from sysid_ros.rollout.prediction import predict
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.signals.trajectory import Trajectory

ARM = """
<mujoco>
  <option timestep="0.005" integrator="implicitfast"/>
  <worldbody>
    <body>
      <joint name="shoulder" axis="0 1 0" armature=".05" damping="1.0" frictionloss=".3"/>
      <geom type="capsule" fromto="0 0 0 .4 0 0" size=".03" mass="1.6"/>
      <body pos=".4 0 0">
        <joint name="elbow" axis="0 1 0" armature=".02" damping=".4" frictionloss=".15"/>
        <geom type="capsule" fromto="0 0 0 .3 0 0" size=".025" mass=".8"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="drive_shoulder" joint="shoulder" kp="120"/>
    <position name="drive_elbow" joint="elbow" kp="50"/>
  </actuator>
  <sensor>
    <jointpos name="position_shoulder" joint="shoulder"/>
    <jointpos name="position_elbow" joint="elbow"/>
    <jointvel name="velocity_shoulder" joint="shoulder"/>
    <jointvel name="velocity_elbow" joint="elbow"/>
  </sensor>
</mujoco>
"""
NOISE = {
    'position_shoulder': 2e-3,
    'position_elbow': 2e-3,
    'velocity_shoulder': 3e-2,
    'velocity_elbow': 3e-2,
}
TRUTH = {
    'joint/shoulder/armature': 0.07,
    'joint/elbow/armature': 0.028,
    'joint/shoulder/damping': 1.3,
    'joint/elbow/damping': 0.5,
    'joint/shoulder/frictionloss': 0.45,
    'joint/elbow/frictionloss': 0.2,
}
CHANGED = 'joint/elbow/frictionloss'
DURATION, RATE, COMMAND_RATE = 4.0, 100.0, 50.0
LEVEL = 0.01

MODEL = mujoco.MjModel.from_xml_string(ARM)
PARAMETERS: tuple[Unknown, ...] = tuple(p for path in TRUTH for p in make_unknowns(path, MODEL))


def record(name: str, truth: Mapping[str, float], seed: int, rho: float) -> Trajectory:
    """Return a recording with its own motion and noise."""
    rng = np.random.default_rng(seed)
    times = np.arange(-0.1, DURATION + 0.1, 1 / COMMAND_RATE)
    rates = rng.uniform(0.4, 1.6, (3, 2))
    phases = rng.uniform(0, 2 * np.pi, (3, 2))
    angles = 2 * np.pi * times[:, None, None] * rates + phases
    values = 0.3 * (np.sin(angles) - np.sin(phases)).sum(axis=1)
    names = ('drive_shoulder', 'drive_elbow')
    commands = TimeSeries.from_columns(times, values, names, SignalType.MjCtrl)
    stamps = np.arange(0.0, DURATION, 1 / RATE)
    empty = TimeSeries.from_columns(stamps, np.zeros((len(stamps), len(NOISE))), list(NOISE))
    run = Trajectory(name, 0, MODEL.qpos0, np.zeros(MODEL.nv), (commands,), (empty,))
    x = np.array([truth[p.name] for p in PARAMETERS])
    clean = predict(MODEL, [run], PARAMETERS, x, threads=1)[0].channels[0][0]
    white = rng.standard_normal((len(stamps) + 200, len(NOISE)))
    colour = scipy.signal.lfilter([np.sqrt(1 - rho**2)], [1, -rho], white, axis=0)[200:]
    noisy = clean + colour * np.array(list(NOISE.values()))
    series = TimeSeries.from_columns(stamps, noisy, list(NOISE))
    return dataclasses.replace(run, measurements=(series,))


def fit_all(runs: list[Trajectory]) -> Fit:
    """Fit without memory."""
    return fit(MODEL, PARAMETERS, runs, threads=1, start='nominal')


def known_of(found: Fit) -> Known:
    """Return what a later fit may continue."""
    count = len(PARAMETERS)
    inference = found.inference
    covariance = inference.covariance[:count, :count]
    estimate = JointEstimate(found.solution.x, covariance, max(inference.effective - 1.0, 1.0))
    return Known(tuple(p.name for p in PARAMETERS), estimate)


def continued(known: Known, runs: list[Trajectory], forgetting: float) -> Continued:
    """Fit with memory."""

    def again(
        parameters: tuple[Unknown, ...], memory: JointPrior | None, earlier: Fit | None
    ) -> Fit:
        del earlier
        return fit(MODEL, parameters, runs, threads=1, start='nominal', memory=memory)

    return continue_from(known, PARAMETERS, again, forgetting=forgetting, level=LEVEL)


def drift(draws: int, seed: int, rho: float, factor: float = 1.0) -> None:
    """Count how often a change is seen, and which."""
    changed = dict(TRUTH)
    changed[CHANGED] *= factor
    seen = exact = named = 0
    p_values, inside = [], np.zeros(len(PARAMETERS), dtype=int)
    for draw in range(draws):
        base = seed + 10 * draw
        known = known_of(fit_all([record('before', TRUTH, base, rho)]))
        done = continued(known, [record('after', changed, base + 1, rho)], 0.9)
        names = [n for n, c in zip(known.names, done.difference.changed, strict=True) if c]
        seen += bool(names)
        named += CHANGED in names
        exact += names == [CHANGED]
        p_values.append(done.difference.p_value)
        inside += [
            i.low <= changed[p.name] <= i.high
            for i, p in zip(done.fit.intervals, PARAMETERS, strict=True)
        ]
    print(f'{CHANGED} times {factor:g}, noise AR(1) {rho:g}, {draws} draws from seed {seed}:')
    print(f'  a change seen in {seen}, {CHANGED} named in {named}, it alone in {exact}')
    if factor == 1.0:
        tail = scipy.stats.binom.sf(seen - 1, draws, LEVEL)
        print(f'  chance of {seen} or more at a level of {LEVEL:g}: {tail:.2g}')
    quantiles = np.quantile(p_values, [0.05, 0.25, 0.5, 0.75, 0.95])
    print('  p-values at 5, 25, 50, 75, 95 %:', *(f'{value:.2g}' for value in quantiles))
    print('  truth inside the 95 % intervals:', *(f'{count}' for count in inside))


def sequential(seed: int, rho: float, bags: int = 10) -> None:
    """Compare one fit of all recordings with refits one after another."""
    runs = [record(f'run {i}', TRUTH, seed + i, rho) for i in range(bags)]
    whole = fit_all(runs)
    one = fit_all(runs[:1])
    halves = np.array([i.high - i.low for i in whole.intervals]) / 2
    single = np.array([i.high - i.low for i in one.intervals]) / 2
    deviation = np.sqrt(np.diag(whole.inference.covariance)[: len(PARAMETERS)])
    print(f'{bags} recordings, noise AR(1) {rho:g}, seed {seed}; half-widths relative to those of')
    print(f'one fit of all, whose own are {np.mean(single / halves):.2f} times less than one bag`s')
    for forgetting in (1.0, 0.9, 0.5):
        found, changes = one, 0
        for run in runs[1:]:
            done = continued(known_of(found), [run], forgetting)
            found, changes = done.fit, changes + int(done.difference.changed.any())
        off = (found.solution.x - whole.solution.x) / deviation
        width = np.array([i.high - i.low for i in found.intervals]) / 2 / halves
        print(
            f'  forgetting {forgetting:g}: off by', *(f'{value:+.2f}' for value in off),
            f'standard errors; {width.min():.2f} to {width.max():.2f} as wide; '
            f'{changes} changes seen; verdicts {sorted({i.verdict for i in found.intervals})}',
        )  # fmt: skip


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('what', nargs='*', default=['drift', 'power', 'sequential'])
    parser.add_argument('--draws', type=int, default=100)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--rho', type=float, default=0.0)
    args = parser.parse_args()
    if 'drift' in args.what:
        drift(args.draws, args.seed, args.rho)
    if 'power' in args.what:
        drift(20, args.seed, args.rho, factor=1.2)
    if 'sequential' in args.what:
        sequential(args.seed, args.rho)


if __name__ == '__main__':
    main()

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Intervals from commands that robot and recorder received at different moments.

An arm of two joints with stiff position servos and effort sensors is recorded again and again.
Robot and recorder receive each command some tens of µs apart, every fiftieth by up to milliseconds,
as two processes do over ROS. Per parameter: the share of draws whose 95 % interval holds the truth,
the mean half-width over 1.96 standard deviations of the estimates, and the standard deviation over
that of fits to commands which are stamped as the robot received them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.identification.fit import fit
from sysid_ros.model.unknown import Unknown, make_unknowns
from sysid_ros.rollout.prediction import predict
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.signals.trajectory import Trajectory

DRAWS = 100
ARM = """
<mujoco>
  <option timestep="0.002" integrator="implicitfast"/>
  <worldbody>
    <body><joint name="shoulder" axis="0 1 0" damping="2" armature=".2" frictionloss=".5"/>
      <geom type="capsule" fromto="0 0 0 .4 0 0" size=".03" mass="1.6" contype="0"/>
      <body pos=".4 0 0"><joint name="elbow" axis="0 1 0" damping="1" armature=".1"
                                frictionloss=".3"/>
        <geom type="capsule" fromto="0 0 0 .3 0 0" size=".025" mass=".8" contype="0"/></body></body>
  </worldbody>
  <actuator>
    <position name="a" joint="shoulder" kp="2000" kv="80"/>
    <position name="b" joint="elbow" kp="800" kv="30"/>
  </actuator>
  <sensor>
    <jointpos name="p" joint="shoulder"/><jointpos name="q" joint="elbow"/>
    <jointvel name="u" joint="shoulder"/><jointvel name="v" joint="elbow"/>
    <actuatorfrc name="e" actuator="a"/><actuatorfrc name="f" actuator="b"/>
  </sensor>
</mujoco>
"""
TRUTH = {
    'joint/shoulder/armature': 0.25,
    'joint/elbow/armature': 0.13,
    'joint/shoulder/damping': 2.6,
    'joint/elbow/damping': 1.3,
    'joint/shoulder/frictionloss': 0.7,
    'joint/elbow/frictionloss': 0.4,
    'delay': 0.008,
}
NOISE = np.array([1.5e-4, 1.5e-4, 5e-3, 5e-3, 0.05, 0.05])
BAGS, DURATION, COMMAND_PERIOD = 2, 3.0, 0.01
#: Delay of each arrival: half-normal, s; part of the messages that are held up, and for how long.
_JITTER, _HELD_UP, _LONG = 3e-5, 0.02, 1e-3
#: How much farther the robot is from the sender than the recorder, in a recording: normal, s.
_FARTHER = 2e-5
_SHARE, _WIDE = (0.91, 0.98), (0.9, 1.3)


class Draw(NamedTuple):
    """One data set: (p,) estimates and half-widths; the same where arrivals are known."""

    values: NDArray[np.float64]
    half: NDArray[np.float64]
    known: NDArray[np.float64]
    seconds: float


def unknowns(model: mujoco.MjModel) -> tuple[Unknown, ...]:
    """Return what is identified, from a start that is off by 20 %."""
    constants = [
        unknown
        for target, value in TRUTH.items()
        if '/' in target
        for unknown in make_unknowns(target, model, initial=1.2 * value)
    ]
    delay = make_unknowns('actuator/*/delay', model, name='delay', shared=True, bounds=(0, 0.02))
    return (*constants, *delay)


def _arrivals(sent: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    late = np.abs(rng.normal(0.0, _JITTER, len(sent)))
    held_up = rng.uniform(size=len(sent)) < _HELD_UP
    return sent + np.where(held_up, late + rng.exponential(_LONG, len(sent)), late)


def record(
    model: mujoco.MjModel, rng: np.random.Generator, phases: np.random.Generator, name: str
) -> tuple[Trajectory, Trajectory]:
    """Return a recording, and the same with the stamps of the robot."""
    sent = np.arange(-0.1, DURATION, COMMAND_PERIOD)
    values = np.zeros((len(sent), 2))
    for joint in range(2):
        for frequency in phases.uniform(0.2, 1.5, 4):
            wave = np.sin(2 * np.pi * frequency * sent + phases.uniform(0, 2 * np.pi))
            values[:, joint] += phases.uniform(0.1, 0.25) * wave
    times = np.arange(0.0, DURATION, model.opt.timestep)
    names = [model.sensor(index).name for index in range(model.nsensor)]

    def run(stamps: NDArray[np.float64], measured: NDArray[np.float64]) -> Trajectory:
        commands = TimeSeries.from_columns(stamps, values, ['a', 'b'], SignalType.MjCtrl)
        series = TimeSeries.from_columns(times, measured, names)
        return Trajectory(name, 0, values[0], np.zeros(2), (commands,), (series,))

    robot, recorder = _arrivals(sent, rng) + rng.normal(0.0, _FARTHER), _arrivals(sent, rng)
    asked = run(robot, np.zeros((len(times), len(names))))
    clean = predict(model, [asked], unknowns(model), np.array(list(TRUTH.values())), threads=1)
    measured = clean[0].channels[0][0] + NOISE * rng.standard_normal((len(times), len(names)))
    return run(recorder, measured), run(robot, measured)


def _fit_one(seed: int, draw: int) -> Draw:
    model = mujoco.MjModel.from_xml_string(ARM)
    rng, phases = np.random.default_rng([seed, draw]), np.random.default_rng([seed, 10**6])
    pairs = [record(model, rng, phases, f'bag_{k}') for k in range(BAGS)]
    began = time.perf_counter()
    found = fit(model, unknowns(model), [stamped for stamped, _ in pairs], threads=1)
    seconds = time.perf_counter() - began
    known = fit(model, unknowns(model), [true for _, true in pairs], threads=1)
    half = np.array([(interval.high - interval.low) / 2 for interval in found.intervals])
    return Draw(found.solution.x, half, known.solution.x, seconds)


def report(draws: list[Draw]) -> bool:
    """Print the figures; return whether all are in the limits."""
    held = np.array(list(TRUTH.values()))
    values = np.array([draw.values for draw in draws])
    half = np.array([draw.half for draw in draws])
    deviation = values.std(axis=0, ddof=1)
    inside = np.mean(np.abs(values - held) <= half, axis=0)
    width = half.mean(axis=0) / (1.96 * deviation)
    wider = deviation / np.array([draw.known for draw in draws]).std(axis=0, ddof=1)
    print(f'{len(draws)} data sets, {np.median([d.seconds for d in draws]):.1f} s each')
    print(f'{"":30s} {"truth":>8s} {"sd":>9s} {"held":>7s} {"width":>6s} {"sd/known":>9s}')
    passed = True
    for place, label in enumerate(TRUTH):
        good = _SHARE[0] <= inside[place] <= _SHARE[1] and _WIDE[0] <= width[place] <= _WIDE[1]
        passed &= bool(good)
        print(
            f'{label:30s} {held[place]:8.4f} {deviation[place]:9.2g} {inside[place]:7.1%} '
            f'{width[place]:6.2f} {wider[place]:9.2f}{"" if good else "  <"}'
        )
    print(f'{"PASS" if passed else "MISS"} ({_SHARE[0]:.0%} to {_SHARE[1]:.0%}', end='')
    print(f', width {_WIDE[0]} to {_WIDE[1]})')
    return passed


def main() -> int:
    """Run the draws."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('--draws', type=int, default=DRAWS)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--processes', type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    jobs = [(arguments.seed, draw) for draw in range(arguments.draws)]
    with multiprocessing.get_context('spawn').Pool(arguments.processes) as pool:
        draws = pool.starmap(_fit_one, jobs, chunksize=2)
    return 0 if report(draws) else 1


if __name__ == '__main__':
    sys.exit(main())

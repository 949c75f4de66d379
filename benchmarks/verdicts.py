# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Verdicts on problems whose answer is known, and on an arm that has nothing to complain of.

Every problem is simulated with its true values and white noise, and fitted. PASS needs every
verdict, with all partners named and no other, and every combination with the truth within twice
the half-width of its interval. Of the arm, all parameters must be identified in every draw.
"""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

import mujoco
import numpy as np
from cases.doubtful import PROBLEMS, Doubtful

from sysid_ros.excitation import sum_of_sines
from sysid_ros.identification.fit import Fit, fit
from sysid_ros.model.unknown import Unknown, make_unknowns
from sysid_ros.rollout.prediction import predict
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.signals.trajectory import Trajectory
from sysid_ros.virtual_robot import load_truth

DEMO = Path(__file__).resolve().parents[1] / 'config' / 'demo'
DRAWS = 20
#: rad, rad/s and N·m, as those of the demo's simulated robot.
_NOISE = {'position': 1e-4, 'velocity': 2e-3, 'effort': 0.1}
_ARM_SECONDS = 8.0
_WIDTH = 100


def same(expected: str, found: str) -> bool:
    """Return whether a verdict is the expected one, partners in any order."""
    if not expected.startswith('confounded'):
        return expected == found
    return set(expected.replace(',', '').split()) == set(found.replace(',', '').split())


def judge(problem: Doubtful, seed: int, *, quiet: bool) -> bool:
    """Fit a problem and print what was found."""
    model = mujoco.MjModel.from_xml_string(problem.xml)
    found = fit(
        model,
        problem.unknowns(model),
        [problem.sequence(model, seed)],
        start='nominal',
        threads=1,
    )
    rows = list(zip(problem.free, found.intervals, strict=True))
    passed = all(same(free.verdict, row.verdict) for free, row in rows)
    told = {c.expression: c for c in found.inference.combinations}
    for expression, truth in problem.determined.items():
        one = told.get(expression)
        near = one is not None and abs(one.value - truth) <= one.high - one.low
        passed &= near
    if quiet and passed:
        return True
    print(f'{"PASS" if passed else "MISS"}  {problem.name} (seed {seed})')
    for free, row in rows:
        mark = ' ' if same(free.verdict, row.verdict) else '!'
        print(f'    {mark} {free.name}: {row.verdict} (expected {free.verdict})')
        print(
            textwrap.fill(
                row.explanation, _WIDTH, initial_indent=' ' * 8, subsequent_indent=' ' * 8
            )
        )
    for expression, truth in problem.determined.items():
        if expression not in told:
            print(f'    ! {expression} = {truth:g} is not told; told: {", ".join(told)}')
    return passed


def arm(draws: int) -> bool:
    """Fit the demo's arm to several draws of motion and noise; print what is not identified."""
    model = mujoco.MjModel.from_xml_path(str(DEMO / 'arm.xml'))
    truth = load_truth(DEMO / 'truth.yaml')
    unknowns: list[Unknown] = []
    for pattern, bounds in (
        ('joint/*/armature', (0.0, 3.0)),
        ('joint/*/damping', (0.0, 60.0)),
        ('joint/*/frictionloss', (0.0, 30.0)),
        ('body/tool/mass', (0.1, 5.0)),
    ):
        unknowns.extend(make_unknowns(pattern, model, bounds=bounds))
    unknowns.extend(make_unknowns('actuator/*/delay', model, shared=True, bounds=(0.0, 0.05)))
    values = np.array([truth[unknown.name] for unknown in unknowns])
    fine = 0
    for draw in range(draws):
        found = _fit_arm(model, tuple(unknowns), values, draw)
        bad = [
            f'{unknown.name}: {row.verdict}; {row.explanation}'
            for unknown, row in zip(unknowns, found.intervals, strict=True)
            if row.verdict != 'identified'
        ]
        fine += not bad
        widest = max(
            (row.high - row.low) / 2 / value
            for row, value in zip(found.intervals, values, strict=True)
        )
        print(
            f'    draw {draw}: {len(unknowns) - len(bad)} of {len(unknowns)} identified, widest '
            f'interval ±{100 * widest:.1f} %, {found.seconds:.0f} s'
        )
        for line in bad:
            print(f'      ! {line}')
    print(f'{"PASS" if fine == draws else "MISS"}  demo arm: all identified in {fine} of {draws}')
    return fine == draws


def _fit_arm(
    model: mujoco.MjModel, unknowns: tuple[Unknown, ...], values: np.ndarray, seed: int
) -> Fit:
    motion = sum_of_sines(model, duration=_ARM_SECONDS, seed=seed)
    commands = TimeSeries.from_columns(
        motion.times, motion.commands, motion.actuators, SignalType.MjCtrl
    )
    times = np.arange(0.0, _ARM_SECONDS - 0.1, 0.01)
    sensors = [model.sensor(index).name for index in range(model.nsensor)]
    home = model.key_qpos[0]

    def sequence(samples: np.ndarray) -> Trajectory:
        series = TimeSeries.from_columns(times, samples, sensors)
        return Trajectory('run', 0, home, np.zeros(model.nv), (commands,), (series,))

    empty = sequence(np.zeros((len(times), len(sensors))))
    clean = predict(model, [empty], unknowns, values, threads=1)[0].channels[0][0]
    sigma = np.array([_NOISE[sensor.rpartition('_')[2]] for sensor in sensors])
    noise = sigma * np.random.default_rng(seed).standard_normal(clean.shape)
    return fit(model, unknowns, [sequence(clean + noise)], start='nominal', threads=1)


def main() -> None:
    """Print every problem, then the arm."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('--only', default='', help='problems whose name contains this')
    parser.add_argument('--seeds', type=int, default=1, help='draws of noise for each problem')
    parser.add_argument('--draws', type=int, default=DRAWS, help='draws of the arm; 0 for none')
    arguments = parser.parse_args()
    chosen = [problem for problem in PROBLEMS if arguments.only in problem.name]
    passed = 0
    for problem in chosen:
        fine = [judge(problem, seed, quiet=seed > 0) for seed in range(arguments.seeds)]
        if arguments.seeds > 1:
            print(f'    {sum(fine)} of {len(fine)} draws')
        passed += all(fine)
    print(f'{passed} of {len(chosen)} problems named right')
    if arguments.draws:
        arm(arguments.draws)


if __name__ == '__main__':
    main()

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Raw servo logs as a recorder writes them, fitted without `sysid process`, against their floor.

A servo near a published one is simulated in steps of .1 ms while a loop of 8 ms with jitter and
stalls writes goals, reads a shaken encoder of 4096 counts up to 4 ms later, and stamps that: four
motions with three loads and gains to fit, and with two others to predict. The floor is the mean
absolute error that the true motion leaves there. Printed are, per law and draw, over that floor:
what the fit to raw logs, the true coefficients in the same steps, and a fit after `sysid process`
leave of the other loads; the command delay that was found and the true one; processor seconds, and
those per reading or sample; and the worst.

``--data`` is a folder of logs with even samples of an encoder, as simulated in BAM's steps: a third
of the readings is left out at random, commands keep their stamps. Each load in turn is predicted
from the others, raw in steps like BAM's and in short ones, processed, and from all the readings.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sysid_ros.servos.bench.fit import fit_servo, values_of
from sysid_ros.servos.bench.motions import STANDARD, TRAJECTORIES
from sysid_ros.servos.bench.pendulum import (
    candidate,
    errors_by_log,
    servo_for,
    simulate,
    stack_logs,
)
from sysid_ros.servos.formats.logs import (
    PERIOD,
    Commands,
    ServoLog,
    process,
    read_logs,
    write_log,
)
from sysid_ros.servos.laws.servo import Scheme, Servo

#: Published coefficients of an xl330 for each law, rounded; each draw changes them by up to 10 %.
_M1 = {'kt': 0.387, 'R': 4.0, 'armature': 0.0018, 'q_offset': 0.03, 'friction_base': 0.0128}
_M5 = {
    'kt': 0.362,
    'R': 2.75,
    'armature': 0.00185,
    'q_offset': 0.029,
    'friction_base': 0.0004,
    'friction_stribeck': 0.0087,
    'load_friction_motor': 0.29,
    'load_friction_external': 0.0,
    'load_friction_motor_stribeck': 0.0,
    'load_friction_external_stribeck': 0.059,
    'dtheta_stribeck': 2.9,
    'alpha': 3.0,
    'friction_viscous': 0.0063,
}
_TRUTH = {
    'm1': {**_M1, 'friction_viscous': 0.0037},
    'm2': {
        **_M1,
        'friction_base': 0.004,
        'friction_stribeck': 0.0087,
        'dtheta_stribeck': 2.0,
        'alpha': 1.36,
        'friction_viscous': 0.0056,
    },
    'm3': {
        **_M1,
        'R': 3.38,
        'friction_base': 0.0089,
        'load_friction_base': 0.122,
        'friction_viscous': 0.0044,
    },
    'm4': {
        **_M1,
        'R': 3.4,
        'friction_base': 0.0088,
        'friction_stribeck': 0.004,
        'load_friction_base': 0.068,
        'load_friction_stribeck': 0.074,
        'dtheta_stribeck': 1.5,
        'alpha': 1.6,
        'friction_viscous': 0.0046,
    },
    'm5': _M5,
    'm6': {
        **_M5,
        'friction_base': 0.0048,
        'friction_stribeck': 0.0047,
        'load_friction_motor': 0.267,
        'load_friction_external_stribeck': 0.081,
        'load_friction_motor_quad': 0.0099,
        'load_friction_external_quad': 0.0049,
        'alpha': 6.0,
    },
}
_VARIETY = 0.1
#: Mass, kg, length, m, and gain, of logs that are fitted and of those that are predicted.
_FITTED = ((0.15, 0.1, 400.0), (0.3, 0.13, 200.0), (0.3, 0.17, 100.0))
_PREDICTED = ((0.22, 0.12, 300.0), (0.4, 0.15, 150.0))
_ARM = 0.02
_STEP = 1e-4
_COUNT = 2 * np.pi / 4096
#: Standard deviation of what shakes the encoder, counts.
_NOISE = 0.2
#: Step of the measured speed, rad/s.
_SPEED_STEP = 0.229 * 2 * np.pi / 60
#: Shortest turn of the recorder's loop, mean of what comes on top, and its rare stalls, s.
_LOOP, _JITTER, _STALL = 0.0075, 0.0005, 0.015
_STALLS = 0.005
#: Longest time from writing a goal to reading the encoder, s.
_LEAD = 0.004
_LIMIT = 1.2


class Recorded(NamedTuple):
    """Raw logs, and what the true motion leaves of each, rad."""

    logs: tuple[ServoLog, ...]
    floors: np.ndarray


def record(
    servo: Servo,
    truth: np.ndarray,
    loads: tuple[tuple[float, float, float], ...],
    rng: np.random.Generator,
    lead: float,
    step: float | None,
) -> Recorded:
    """Play the standard motions with each load.

    Goals are written ``lead`` s before the stamps. The servo takes BAM's steps of ``step`` s.
    """
    blank = []
    for name in STANDARD:
        motion = TRAJECTORIES[name]
        for mass, length, kp in loads:
            turn = _LOOP + rng.exponential(_JITTER, 800)
            turn += _STALL * (rng.uniform(size=800) < _STALLS)
            clock = np.cumsum(turn)
            clock = clock[clock < motion.duration]
            stamps = clock - clock[0]
            goal, on = motion.goal(clock), motion.enabled(clock).astype(np.float64)
            none = np.zeros(len(clock))
            blank.append(
                ServoLog(
                    f'{name}_m{mass}_l{length}_kp{kp:g}',
                    servo.type.name,
                    name,
                    mass,
                    _ARM,
                    length,
                    {'kp': kp, 'vin': 7.5},
                    PERIOD,
                    none,
                    goal,
                    on,
                    none,
                    stamps=stamps,
                    commands=Commands(stamps - lead, goal, on),
                )
            )
    steps = round(PERIOD / (step or _STEP))
    plant = dataclasses.replace(
        servo, substeps=steps, scheme=Scheme.LEAPFROG if step is None else Scheme.BAM
    )
    bench = stack_logs(plant, blank)
    moved = simulate(
        plant,
        bench,
        candidate(plant, dict(zip(servo.coefficients, truth.tolist(), strict=True))),
        velocities=True,
    )
    positions = bench.read(moved.position)
    speeds = bench.read(np.asarray(moved.velocity))
    made, floors = [], []
    for column, log in enumerate(blank):
        true = positions[: len(log), 0, column]
        read = true + _NOISE * _COUNT * rng.normal(size=len(log))
        position = np.round(read / _COUNT) * _COUNT
        speed = np.round(speeds[: len(log), 0, column] / _SPEED_STEP) * _SPEED_STEP
        made.append(dataclasses.replace(log, position=position, speed=speed, commands=None))
        floors.append(np.abs(position - true).mean())
    return Recorded(tuple(made), np.array(floors))


def processed(logs: tuple[ServoLog, ...]) -> tuple[ServoLog, ...]:
    """Return logs as `sysid process` makes them even."""
    with tempfile.TemporaryDirectory() as folder:
        for log in logs:
            write_log(Path(folder, 'raw', f'{log.name}.json'), log)
        process(Path(folder, 'raw'), Path(folder, 'even'))
        found = {log.name: log for log in read_logs(Path(folder, 'even'))}
    return tuple(found[log.name] for log in logs)


def fitted(
    servo: Servo, logs: tuple[ServoLog, ...], other: tuple[ServoLog, ...]
) -> tuple[float, float, dict[str, float]]:
    """Return the mean absolute error of other logs, rad, the processor seconds, and the values."""
    began = time.process_time()
    fit = fit_servo(servo, logs)
    took = time.process_time() - began
    values = values_of(servo, fit, {})
    return float(np.mean(list(errors_by_log(servo, values, other).values()))), took, values


def thinned(log: ServoLog, rng: np.random.Generator) -> ServoLog:
    """Return a raw log with two thirds of the readings of an even one and all its commands."""
    kept = rng.uniform(size=len(log)) > 1 / 3
    kept[[0, 1, -1]] = True, True, True
    speed = None if log.speed is None else log.speed[kept]
    return dataclasses.replace(
        log,
        position=log.position[kept],
        goal=log.goal[kept],
        enabled=log.enabled[kept],
        speed=speed,
        load=None,
        control=None,
        stamps=log.times[kept],
        commands=Commands(log.times, log.goal, log.enabled),
    )


def on_data(data: Path, model: str, seed: int) -> None:
    """Print what fits to the logs of all loads but one leave of that one, mrad."""
    rng = np.random.default_rng(seed)
    even = Servo.named('xl330', model)
    logs = read_logs(data)
    thin = tuple(thinned(log, rng) for log in logs)
    kinds = {
        'raw, BAM steps': (even, thin),
        'raw': (servo_for(even, thin), thin),
        'processed': (even, processed(thin)),
        'all readings': (even, logs),
    }
    print(f'{data}: mean absolute error of the load left out, mrad')
    for name, (servo, own) in kinds.items():
        line = []
        for load in dict.fromkeys((log.mass, log.length) for log in logs):
            train = tuple(log for log in own if (log.mass, log.length) != load)
            other = tuple(log for log in own if (log.mass, log.length) == load)
            error, took, _ = fitted(servo, train, other)
            line.append(f'{1e3 * error:8.3f} ({took:4.1f} s)')
        print(f'{name:16}', *line, flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--models', default=','.join(_TRUTH))
    parser.add_argument('--draws', type=int, default=3)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--substeps', type=int)
    parser.add_argument('--step', type=float, help="s, of BAM's that the plant takes; default none")
    parser.add_argument('--no-process', action='store_true', help='fit raw logs only')
    parser.add_argument('--data', type=Path, help='folder of folders m1, … of even logs')
    args = parser.parse_args()
    if args.data is not None:
        for model in args.models.split(','):
            if (args.data / model).is_dir():
                on_data(args.data / model, model, args.seed)
        return
    worst = 0.0
    spent = {'raw': [0.0, 0], 'processed': [0.0, 0]}
    print(
        f'{"law":4}{"draw":>5}{"floor":>7}{"raw":>7}{"truth":>7}{"processed":>11}'
        f'{"delay":>14}{"seconds":>13}   floor in mrad, delay in ms'
    )
    for model in args.models.split(','):
        for draw in range(args.draws):
            rng = np.random.default_rng([args.seed, draw])
            even = Servo.named('xl330', model)
            usual = np.array([_TRUTH[model][name] for name in even.coefficients])
            truth = usual * (1 + _VARIETY * rng.uniform(-1, 1, len(usual)))
            lead = rng.uniform(0, _LEAD)
            train = record(even, truth, _FITTED, rng, lead, args.step)
            other = record(even, truth, _PREDICTED, rng, lead, args.step)
            servo = servo_for(even, train.logs, args.substeps)
            floor = float(other.floors.mean())
            error, took, values = fitted(servo, train.logs, other.logs)
            spent['raw'][0] += took
            spent['raw'][1] += sum(map(len, train.logs))
            known = dict(zip(even.coefficients, truth.tolist(), strict=True))
            known |= {'command_delay': -lead, 'law_step': args.step or 0.0}
            own = float(np.mean(list(errors_by_log(servo, known, other.logs).values())))
            worst = max(worst, error / floor)
            found, slow = np.nan, np.nan
            if not args.no_process:
                evened = processed(train.logs)
                found, slow, _ = fitted(even, evened, processed(other.logs))
                spent['processed'][0] += slow
                spent['processed'][1] += sum(map(len, evened))
            print(
                f'{model:4}{draw:5}{1e3 * floor:7.3f}{error / floor:7.2f}{own / floor:7.2f}'
                f'{found / floor:11.2f}{1e3 * values["command_delay"]:7.2f}{-1e3 * lead:7.2f}'
                f'{took:7.1f}{slow:6.1f}',
                flush=True,
            )
    for name, (seconds, count) in spent.items():
        if count:
            print(f'{name}: {1e6 * seconds / count:.0f} µs of processor per sample')
    print(f'worst {worst:.2f}: {"PASS" if worst <= _LIMIT else "MISS"}')


if __name__ == '__main__':
    main()

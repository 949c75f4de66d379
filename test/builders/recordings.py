# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Short logs of a simulated servo, read by its encoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sysid_ros.servos.logs import PERIOD, Commands, ServoLog
from sysid_ros.servos.pendulum import candidate, simulate, stack_logs
from sysid_ros.simulation.servo import Scheme, Servo

COUNT = 2 * np.pi / 4096
#: Published coefficients of an xl330, rounded.
M1 = {
    'kt': 0.387,
    'R': 4.0,
    'armature': 0.0018,
    'q_offset': 0.03,
    'friction_base': 0.0128,
    'friction_viscous': 0.0037,
}
#: Motions of BAM: times, s, to goals, rad; 0 hangs down.
MOTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    'sin_time_square': lambda t: np.sin(t**2),
    'sin_sin': lambda t: np.sin(t) * np.pi / 2 + np.sin(5 * t) * 0.5 * np.sin(2 * t),
    'lift_and_drop': lambda t: -np.pi / 2 * _eased(t / 2),
    'up_and_down': lambda t: np.pi / 2 * (_eased(t / 3) - 0.2 * _eased(t / 3 - 1)),
}
#: The motor is off from this time on in ``lift_and_drop``, s.
DROP = 2.0
RUNS = ((0.15, 0.1, 400.0), (0.3, 0.15, 200.0))


def _eased(phase: np.ndarray) -> np.ndarray:
    """Return 0 to 1 along a cubic, at rest at both ends."""
    phase = np.clip(phase, 0.0, 1.0)
    return phase**2 * (3 - 2 * phase)


def _enabled(motion: str, times: np.ndarray) -> np.ndarray:
    return np.where((motion == 'lift_and_drop') & (times >= DROP), 0.0, 1.0)


def record(
    servo: Servo,
    values: Mapping[str, float],
    *,
    motions: Sequence[str] = ('sin_time_square', 'lift_and_drop', 'up_and_down'),
    runs: Sequence[tuple[float, float, float]] = RUNS,
    dt: float = 0.01,
    seconds: float = 4.0,
    noise: float = 0.2,
    seed: int = 0,
) -> list[ServoLog]:
    """Return a log for each motion and run, a run being mass in kg, length in m and gain."""
    rng = np.random.default_rng(seed)
    times = np.arange(round(seconds / dt)) * dt
    truth = np.array([[values[name] for name in servo.coefficients]])
    logs = [
        ServoLog(
            name=f'{name}_m{mass}_l{length}_kp{kp:g}',
            motor=servo.type.name,
            trajectory=name,
            mass=mass,
            arm_mass=0.02,
            length=length,
            constants={'kp': kp, 'vin': 7.5},
            dt=dt,
            position=np.zeros(len(times)),
            goal=MOTIONS[name](times),
            enabled=_enabled(name, times),
            speed=np.zeros(len(times)),
        )
        for name in motions
        for mass, length, kp in runs
    ]
    moved = simulate(servo, stack_logs(servo, logs), truth, velocities=True)
    assert moved.velocity is not None
    made = []
    for column, log in enumerate(logs):
        read = moved.position[:, 0, column] + noise * COUNT * rng.normal(size=len(times))
        speed = moved.velocity[:, 0, column]
        made.append(dataclasses.replace(log, position=np.round(read / COUNT) * COUNT, speed=speed))
    return made


def record_raw(
    servo: Servo,
    values: Mapping[str, float],
    *,
    motions: Sequence[str] = ('sin_time_square', 'lift_and_drop', 'up_and_down'),
    runs: Sequence[tuple[float, float, float]] = RUNS,
    seconds: float = 4.0,
    lead: float = 0.0,
    seed: int = 0,
) -> tuple[list[ServoLog], list[float]]:
    """Return logs as a loop of 8 ms with jitter writes them, and the floor of each, rad.

    The floor is the mean absolute error that the true motion leaves, in steps of .1 ms.

    Args:
        servo: The laws.
        values: Its true coefficients.
        motions: Names of the motions.
        runs: Mass in kg, length in m, gain kp.
        seconds: Of each log.
        lead: From writing a goal to reading the encoder, whose time is the stamp, s.
        seed: Of noise and jitter.
    """
    rng = np.random.default_rng(seed)
    blank = []
    for name in motions:
        for mass, length, kp in runs:
            clock = np.cumsum(0.0075 + rng.exponential(0.0005, round(seconds / 0.008)))
            goal = MOTIONS[name](clock)
            on = _enabled(name, clock)
            stamps, none = clock - clock[0], np.zeros(len(clock))
            about = {'kp': kp, 'vin': 7.5}
            told = Commands(stamps - lead, goal, on)
            blank.append(
                ServoLog(
                    name=f'{name}_m{mass}_l{length}_kp{kp:g}',
                    motor=servo.type.name,
                    trajectory=name,
                    mass=mass,
                    arm_mass=0.02,
                    length=length,
                    constants=about,
                    dt=PERIOD,
                    position=none,
                    goal=goal,
                    enabled=on,
                    speed=none,
                    stamps=stamps,
                    commands=told,
                )
            )
    plant = dataclasses.replace(servo, scheme=Scheme.LEAPFROG)
    bench = stack_logs(plant, blank, steps=50)
    moved = simulate(plant, bench, candidate(plant, values), velocities=True)
    positions, speeds = bench.read(moved.position), bench.read(np.asarray(moved.velocity))
    made, floors = [], []
    for column, log in enumerate(blank):
        true = positions[: len(log), 0, column]
        shaken = true + 0.2 * COUNT * rng.normal(size=len(log))
        read = np.round(shaken / COUNT) * COUNT
        speed = speeds[: len(log), 0, column]
        made.append(dataclasses.replace(log, position=read, speed=speed, commands=None))
        floors.append(float(np.abs(read - true).mean()))
    return made, floors

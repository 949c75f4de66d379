# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Logs of simulated servos on pendulums: BAM's motions, published coefficients, an encoder."""

from __future__ import annotations

import dataclasses

import numpy as np

from sysid_ros.servos.logs import PERIOD, Commands, ServoLog
from sysid_ros.servos.pendulum import simulate, stack_logs
from sysid_ros.simulation.servo import Scheme, Servo

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
#: Published coefficients of an xl330 for each law, rounded; what M4 lacks there made visible.
TRUTH = {
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
#: Truths differ by up to this part from draw to draw.
_VARIETY = 0.1
#: Mass, kg, length, m, and gain, of logs that are fitted and of those that are predicted.
FITTED = ((0.15, 0.1, 400.0), (0.3, 0.13, 200.0), (0.3, 0.17, 100.0))
PREDICTED = ((0.22, 0.12, 300.0), (0.4, 0.15, 150.0))
_ARM = 0.02
_DURATION = 6.0
_COUNT = 2 * np.pi / 4096
#: Standard deviation of what shakes the encoder, counts.
_NOISE = 0.2
#: Step of the measured speed, rad/s.
_SPEED_STEP = 0.229 * 2 * np.pi / 60
#: Steps of the true motion in each of BAM's periods.
_STEPS = 50
#: The motor is off from this time on in ``lift_and_drop``, s.
_DROP = 2.0


def _eased(phase: np.ndarray) -> np.ndarray:
    phase = np.clip(phase, 0.0, 1.0)
    return phase**2 * (3 - 2 * phase)


#: BAM's standard motions: times, s, to goals, rad; 0 hangs down.
MOTIONS = {
    'sin_sin': lambda t: np.sin(t) * np.pi / 2 + np.sin(5 * t) * 0.5 * np.sin(2 * t),
    'lift_and_drop': lambda t: -np.pi / 2 * _eased(t / 2),
    'up_and_down': lambda t: np.pi / 2 * (_eased(t / 3) - 0.2 * _eased(t / 3 - 1)),
    'sin_time_square': lambda t: np.sin(t**2),
}


def near(servo: Servo, rng: np.random.Generator) -> dict[str, float]:
    """Return coefficients near the published ones."""
    usual = TRUTH[servo.friction.name]
    return {name: usual[name] * (1 + _VARIETY * rng.uniform(-1, 1)) for name in servo.coefficients}


def record(
    servo: Servo,
    truth: dict[str, float],
    rng: np.random.Generator,
    *,
    loads: tuple[tuple[float, float, float], ...] = FITTED,
    clock: np.ndarray | None = None,
    lead: float = 0.0,
) -> tuple[list[ServoLog], np.ndarray]:
    """Return logs of the standard motions, and the mean absolute error of the true motion, rad.

    Args:
        servo: The laws.
        truth: Its coefficients.
        rng: Shakes the encoder.
        loads: Mass, length and gain.
        clock: Times at which a raw log is written, s; processed logs unless given.
        lead: Goals are told so long before the stamps, s.
    """
    times = np.arange(0.0, _DURATION, PERIOD) if clock is None else clock[clock < _DURATION]
    stamps = None if clock is None else times - times[0]
    blank = []
    for name, motion in MOTIONS.items():
        for mass, length, kp in loads:
            goal = motion(times)
            on = np.where((name == 'lift_and_drop') & (times >= _DROP), 0.0, 1.0)
            none, constants = np.zeros(len(times)), {'kp': kp, 'vin': 7.5}
            told = None if stamps is None else Commands(stamps - lead, goal, on)
            about = (f'{name}_m{mass}_l{length}_kp{kp:g}', servo.type.name, name)
            load = (mass, _ARM, length, constants, PERIOD)
            blank.append(
                ServoLog(*about, *load, none, goal, on, none, stamps=stamps, commands=told)
            )
    scheme = Scheme.BAM if clock is None else Scheme.LEAPFROG
    plant = dataclasses.replace(servo, scheme=scheme)
    bench = stack_logs(plant, blank, _STEPS)
    row = [truth.get(name, 0.0) for name in plant.coefficients]
    moved = simulate(plant, bench, np.array([row]), velocities=True)
    positions, speeds = bench.read(moved.position), bench.read(np.asarray(moved.velocity))
    made, floors = [], []
    for column, log in enumerate(blank):
        true = positions[: len(log), 0, column]
        read = true + _NOISE * _COUNT * rng.normal(size=len(log))
        position = np.round(read / _COUNT) * _COUNT
        speed = np.round(speeds[: len(log), 0, column] / _SPEED_STEP) * _SPEED_STEP
        made.append(dataclasses.replace(log, position=position, speed=speed, commands=None))
        floors.append(np.abs(position - true).mean())
    return made, np.array(floors)

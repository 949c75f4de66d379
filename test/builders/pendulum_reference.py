# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A servo on a pendulum in plain Python: one log, one candidate, one number at a time.

Written from the equations that BAM's authors published (Duclusaud and Passault, "Extended friction
models for the physics simulation of servo actuators", 2024; https://github.com/Rhoban/bam), apart
from the package's own code, which it is there to check.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from sysid_ros.servos.logs import ServoLog

GRAVITY = 9.80665
FASTEST = 100.0


class Rollout(NamedTuple):
    """What a pendulum does, and which limits its servo was at in each step."""

    position: list[float]
    velocity: list[float]
    limits: list[set[str]]


class Motor:
    """Firmware and motor of a servo, by the name of its law; ``limits`` are those just reached."""

    def __init__(self, law: str, p: Mapping[str, float]) -> None:
        self.law = law
        self.p = p
        self.limits: set[str] = set()
        self.goal = 0.0

    def _within(self, limit: str, value: float, low: float, high: float) -> float:
        if low <= value <= high:
            return value
        self.limits.add(limit)
        return low if value < low else high

    def torque(self, goal: float, q: float, dq: float, dt: float, *, enabled: bool) -> float:
        """Return the torque at the joint, N·m, and remember the goal."""
        self.limits = set()
        return getattr(self, f'_{self.law}')(goal, q, dq, dt, 1.0 if enabled else 0.0)

    def _voltage(self, goal: float, q: float, dq: float, dt: float, enabled: float) -> float:
        p = self.p
        if 'max_velocity' in p:
            step = p['max_velocity'] * dt
            self.goal = self._within('velocity', goal, self.goal - step, self.goal + step)
            goal = self.goal
        duty = p['error_gain'] * p.get('error_gain_ratio', 1.0) * p['kp'] * (goal - q)
        if 'current_limit' in p:
            low = (p['kt'] * dq - p['R'] * p['current_limit']) / p['vin']
            high = (p['kt'] * dq + p['R'] * p['current_limit']) / p['vin']
            duty = self._within('current', duty, low, high)
        volts = p['vin'] * self._within('pwm', duty, -p['max_pwm'], p['max_pwm'])
        return enabled * p['kt'] * (volts - p['kt'] * dq) / p['R']

    def _amps(self, goal: float, q: float, dq: float) -> float:
        p = self.p
        amps = p['error_gain'] * p['kp'] * (goal - q)
        low, high = ((volts - p['kt'] * dq) / p['R'] for volts in (-p['vin'], p['vin']))
        amps = self._within('voltage', amps, low, high)
        return self._within('current', amps, -p['current_limit'], p['current_limit'])

    def _current(self, goal: float, q: float, dq: float, _dt: float, enabled: float) -> float:
        return enabled * self.p['kt'] * self._amps(goal, q, dq)

    def _bus_current(self, goal: float, q: float, dq: float, _dt: float, enabled: float) -> float:
        p = self.p
        bus = self._amps(goal, q, dq)
        # The power that is drawn is that of the winding: vin |bus| = vin duty (vin duty - kt dq)/R.
        half = p['kt'] * dq / (2 * p['vin'])
        root = math.sqrt(half**2 + p['R'] * abs(bus) / p['vin'])
        duty = half + (math.copysign(root, bus) if bus else 0.0)
        duty = self._within('pwm', duty, -1.0, 1.0)
        return enabled * p['kt'] * (p['vin'] * duty - p['kt'] * dq) / p['R']

    def _damped_current(
        self, goal: float, q: float, dq: float, _dt: float, enabled: float
    ) -> float:
        p = self.p
        amps = p['kp'] * (goal - q) - p['damping'] * math.sqrt(p['kp']) * dq
        amps = enabled * self._within('current', amps, -p['max_amps'], p['max_amps'])
        low, high = (
            p['kt'] * (v - p['kt'] * dq) / p['R'] for v in (-p['max_volts'], p['max_volts'])
        )
        return self._within('voltage', p['kt'] * amps, low, high)

    def _torque(self, goal: float, q: float, dq: float, _dt: float, enabled: float) -> float:
        p = self.p
        torque = p['ratio'] * p['kp'] * (goal - q) - p['damping'] * dq
        return enabled * self._within('torque', torque, -p['max_torque'], p['max_torque'])


def friction(model: str, p: Mapping[str, float], motor: float, external: float, dq: float) -> float:
    """Return the largest friction, N·m, of m1 to m6, the viscous part among it."""
    found = p['friction_base'] + p['friction_viscous'] * abs(dq)
    if model in {'m3', 'm4'}:
        found += p['load_friction_base'] * abs(motor - external)
    if model in {'m5', 'm6'}:
        found += abs(p['load_friction_external'] * external - p['load_friction_motor'] * motor)
    if model in {'m1', 'm3'}:
        return found
    s = math.exp(-((abs(dq) / p['dtheta_stribeck']) ** p['alpha']))
    found += s * p['friction_stribeck']
    if model == 'm4':
        found += s * p['load_friction_stribeck'] * abs(motor - external)
    if model in {'m5', 'm6'}:
        from_outside = p['load_friction_external_stribeck'] * external
        found += s * abs(from_outside - p['load_friction_motor_stribeck'] * motor)
    if model == 'm6' and _sign(external) != _sign(motor):
        if abs(external) < abs(motor):
            found += s * p['load_friction_external_quad'] * external * external
        if abs(external) > abs(motor):
            found += s * p['load_friction_motor_quad'] * motor * motor
    return found


def _sign(x: float) -> int:
    return (x > 0) - (x < 0)


def simulate(
    law: str, model: str, p: Mapping[str, float], log: ServoLog, reset_period: float | None = None
) -> Rollout:
    """Simulate one log with one candidate, whose constants are among the numbers."""
    motor = Motor(law, p)
    arm_inertia = log.arm_mass * log.length * log.length / 3
    inertia = log.mass * log.length * log.length + arm_inertia + p['armature']
    lever = log.mass * log.length + log.arm_mass * log.length / 2
    dt = log.dt
    found = Rollout([], [], [])
    q, dq = float(log.position[0]), float(log.speed[0])
    since = 0.0
    for goal, enabled, measured, speed in zip(
        log.goal.tolist(),
        log.enabled.tolist(),
        log.position.tolist(),
        log.speed.tolist(),
        strict=True,
    ):
        since += dt
        if reset_period is not None and since > reset_period:
            # What the firmware remembers stays.
            since, q, dq = 0.0, measured, speed
        found.position.append(q)
        found.velocity.append(dq)
        driving = motor.torque(goal, q, dq, dt, enabled=bool(enabled))
        found.limits.append(motor.limits)
        gravity = -lever * GRAVITY * math.sin(q + p['q_offset'])
        net = driving + gravity
        stopping = inertia / dt * dq + net
        resisting = min(abs(stopping), friction(model, p, driving, gravity, dq))
        acceleration = (net - _sign(stopping) * resisting) / inertia
        dq = max(-FASTEST, min(FASTEST, dq + acceleration * dt))
        q += dq * dt + acceleration * dt * dt / 2
    return found

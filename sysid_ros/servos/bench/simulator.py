# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Pendulums driven by servos: all logs with all candidates at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.servos.laws.motors import within

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sysid_ros.servos.bench.pendulum import Bench
    from sysid_ros.servos.laws.servo import Servo

    Array = NDArray[np.float64]

#: No joint turns faster, rad/s: what a candidate far off makes stays finite.
_FASTEST = 100.0


class Motion(NamedTuple):
    """What candidates predict: (T, m, L) positions and velocities, rad and rad/s.

    Row k is the state when sample k was taken.
    """

    position: Array
    velocity: Array | None


class State(NamedTuple):
    """Position in rad, velocity in rad/s, what the firmware remembers, and the motor's torque."""

    q: Array
    dq: Array
    memory: Array | None = None
    torque: Array | float = 0.0


class Stepper:
    """Makes steps of one length with pendulums whose numbers do not change.

    In each step of length dt, the motor's torque τm and that of gravity τe = -weight sin(q +
    q_offset) are those of the state before it. With τ = J dq / dt + τm + τe the torque that keeps
    the joint from moving is -τ; friction is as much of it as its law allows. Then, with the
    acceleration a, dq += a dt and q += dq dt + ½ a dt².
    """

    def __init__(
        self, servo: Servo, p: Mapping[str, Array], inertia: Array, weight: Array, dt: float
    ) -> None:
        """Prepare what all steps have in common.

        Args:
            servo: The laws.
            p: Coefficients and constants, arrays of one shape or that broadcast.
            inertia: Of the pendulum without armature, kg·m².
            weight: Torque of gravity where it is level, N·m.
            dt: Of a step, s.
        """
        self._law, self._friction, self._p, self._dt = servo.type.law, servo.friction, p, dt
        inertia = inertia + p['armature']
        self._to_stop, self._mobility, self._half_square = inertia / dt, 1 / inertia, 0.5 * dt**2
        self._gravity = -weight
        self._offset, self._slope = p['q_offset'], servo.friction.viscous_slope(p)

    def step(self, state: State, goal: Array, enabled: Array | float) -> State:
        """Return the state after a step; the torque is that during it.

        Args:
            state: Before it.
            goal: Commanded position, rad.
            enabled: 1 where the motor is powered, else 0.
        """
        q, dq, dt = state.q, state.dq, self._dt
        control, memory = self._law.drive(self._p, goal, q, dq, dt, state.memory)
        motor = self._law.torque(self._p, control, enabled, dq)
        external = self._gravity * np.sin(q + self._offset)
        most = self._friction.dry(self._p, motor, external, dq) + self._slope * np.abs(dq)
        net = motor + external
        acceleration = (net - within(self._to_stop * dq + net, -most, most)) * self._mobility
        dq = within(dq + acceleration * dt, -_FASTEST, _FASTEST)
        return State(q + dq * dt + acceleration * self._half_square, dq, memory, motor)


def simulate(
    servo: Servo,
    bench: Bench,
    candidates: Array,
    *,
    position: Array | None = None,
    velocity: Array | None = None,
    reset_period: float | None = None,
    velocities: bool = False,
) -> Motion:
    """Simulate every log with every candidate.

    Goals are held from sample to sample; ``servo.substeps`` steps lead from one to the next.

    Args:
        servo: The laws.
        bench: The logs.
        candidates: (m, p) values of ``servo.coefficients``, in their order.
        position: (m, L) where each starts; as measured unless given.
        velocity: (m, L) the same for the velocity.
        reset_period: Every so many seconds the state is set to the measured one.
        velocities: Whether velocities are wanted as well.

    Returns:
        Positions, and velocities where wanted.
    """
    shape = (len(candidates), bench.position.shape[1])
    p = _numbers(servo, bench, candidates)
    q = np.broadcast_to(bench.position[0] if position is None else position, shape)
    dq = np.broadcast_to(bench.speed[0] if velocity is None else velocity, shape)
    positions = np.empty((len(bench.position), *shape))
    speeds = np.empty_like(positions) if velocities else None
    resets = _resets(bench, reset_period)
    stepper = Stepper(
        servo, p, _full(bench.inertia, shape), _full(bench.weight, shape), bench.dt / servo.substeps
    )
    state = State(q, dq, bench.last_goal)
    for row, (goal, enabled) in enumerate(zip(bench.goal, bench.enabled, strict=True)):
        if resets[row]:
            # What the firmware remembers stays.
            state = State(
                np.broadcast_to(bench.position[row], shape),
                np.broadcast_to(bench.speed[row], shape),
                state.memory,
            )
        positions[row] = state.q
        if speeds is not None:
            speeds[row] = state.dq
        for _ in range(servo.substeps):
            state = stepper.step(state, goal, enabled)
    return Motion(positions, speeds)


def _numbers(servo: Servo, bench: Bench, candidates: Array) -> dict[str, Array]:
    """Return coefficients and constants as (m, L) arrays."""
    shape = (len(candidates), bench.position.shape[1])
    named = {name: candidates[:, [j]] for j, name in enumerate(servo.coefficients)}
    return {name: _full(values, shape) for name, values in {**bench.constants, **named}.items()}


def _full(values: Array, shape: tuple[int, int]) -> Array:
    """Repeat values: on small arrays, NumPy takes twice as long where it must broadcast."""
    found: Array = np.broadcast_to(values, shape).copy()
    return found


def _resets(bench: Bench, period: float | None) -> NDArray[np.bool_]:
    """Return (T,) where the state is set to the measured one, counted as BAM does."""
    found = np.zeros(len(bench.position), dtype=bool)
    if period is None:
        return found
    passed = 0.0
    for row in range(len(found)):
        passed += bench.dt
        if passed > period:
            passed = 0.0
            found[row] = True
    return found

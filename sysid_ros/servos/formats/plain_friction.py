# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The friction that plain MJCF holds: one torque of dry friction, one viscous slope."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import least_squares, nnls

from sysid_ros.errors import FitError
from sysid_ros.servos.bench.pendulum import bench as make_bench
from sysid_ros.servos.bench.simulator import simulate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.servos.bench.pendulum import Bench
    from sysid_ros.servos.formats.log import Log
    from sysid_ros.servos.laws.servo import Servo

    Array = NDArray[np.float64]

#: Slower joints may be sticking: how large friction could be does not show there, rad/s.
_MOVING = 0.01
#: Frictionloss and damping below this are none: servos for a fly have more, N·m and N·m·s/rad.
_NOTHING = 1e-9
#: Typical sizes of frictionloss, damping and the motor's part: steps of the search, not limits.
_SCALES = (0.01, 0.01, 0.1)


class PlainFriction(NamedTuple):
    """What stands for a friction law in plain MJCF.

    Attributes:
        frictionloss: N·m.
        damping: N·m·s/rad.
        motor: The motor's torque is multiplied by this: friction that grows with the torque that
            gears pass on acts much like a weaker motor.
        error: Root mean square of the torque that is wrong, N·m; NaN where it is not known.
        usual: Root mean square of the friction torque itself, N·m; NaN where it is not known.
        note: What is lost; empty where nothing is.
    """

    frictionloss: float
    damping: float
    motor: float = 1.0
    error: float = math.nan
    usual: float = math.nan
    note: str = ''


class _States(NamedTuple):
    """Torques and velocities of all powered samples, (n,) each: N·m and rad/s."""

    motor: Array
    external: Array
    momentum: Array
    speed: Array
    limit: Array


def plain_friction(
    servo: Servo, values: Mapping[str, float], logs: Sequence[Log] = ()
) -> PlainFriction:
    """Return what stands for a friction law in plain MJCF.

    Coulomb and viscous friction are held exactly. Others are replaced by what is best in the
    least-squares sense for the torques of the logs' motions, as the law itself predicts them, while
    the motor is powered: dry friction, damping and the part of the motor's torque that arrives.

    Args:
        servo: The laws.
        values: Of ``servo.coefficients``.
        logs: Motions and loads that the friction is to be right for. Without them only the parts
            without load and Stribeck effect are kept.

    Raises:
        FitError: The motor is never powered in the logs, or their sampling periods differ.
    """
    law = servo.friction
    base = float(values['friction_base']) if law.coulomb else 0.0
    slope = float(law.viscous_slope(values))
    if not (law.stribeck or law.load):
        return PlainFriction(base, slope, error=0.0)
    if not logs:
        note = (
            f'Of the friction of {servo.name} only friction_base and friction_viscous are kept: '
            'give logs, so that friction is right for their loads and speeds.'
        )
        return PlainFriction(base, slope, note=note)
    return _nearest(servo, _states(servo, values, make_bench(servo, logs)))


def _nearest(servo: Servo, states: _States) -> PlainFriction:
    """Find the plain friction whose torques are nearest."""
    motor, external, momentum, speed, limit = states
    stopping = momentum + motor + external
    acting = np.clip(stopping, -limit, limit)
    wanted = motor - acting

    def missed(x: Array) -> Array:
        most = x[0] + x[1] * np.abs(speed)
        pushed = x[2] * motor
        found: Array = pushed - np.clip(momentum + pushed + external, -most, most) - wanted
        return found

    # Where the joint moves, the torque is linear in the three.
    moving = np.abs(speed) > _MOVING
    columns = np.stack([-np.sign(speed), -speed, motor], axis=1)[moving]
    start = nnls(columns, wanted[moving])[0] if moving.any() else np.array([0.0, 0.0, 1.0])
    found = least_squares(missed, start, bounds=(0.0, np.inf), x_scale=_SCALES)
    # The search ends beside a bound, not on it.
    frictionloss, damping, part = (float(x) for x in np.where(found.x > _NOTHING, found.x, 0.0))
    error = float(np.sqrt(np.mean(found.fun**2)))
    usual = float(np.sqrt(np.mean(acting**2)))
    note = (
        f'Plain friction stands for the friction of {servo.name}: dry friction {frictionloss:.4g} '
        f'N·m, damping {damping:.4g} N·m·s/rad and {100 * part:.3g} % of the motor. It misses '
        f'{error:.3g} N·m of the friction torque of {usual:.3g} N·m (root mean square over the '
        'powered samples of the logs).'
    )
    return PlainFriction(frictionloss, damping, part, error, usual, note)


def _states(servo: Servo, values: Mapping[str, float], bench: Bench) -> _States:
    """Return torques and velocities as the law predicts them, where the motor is powered."""
    candidate = np.array([[values[name] for name in servo.coefficients]])
    predicted = simulate(servo, bench, candidate, velocities=True)
    assert predicted.velocity is not None  # noqa: S101 (asked for)
    position, velocity = predicted.position[:, 0], predicted.velocity[:, 0]
    p: dict[str, Array | float] = {**bench.constants, **values}
    motor = np.empty_like(position)
    memory: Array | None = bench.last_goal
    rows = zip(bench.goal, bench.enabled, position, velocity, strict=True)
    for row, (goal, enabled, q, dq) in enumerate(rows):
        control, memory = servo.type.law.drive(p, goal, q, dq, bench.dt, memory)
        motor[row] = servo.type.law.torque(p, control, enabled, dq)
    external = -bench.weight * np.sin(position + p['q_offset'])
    law = servo.friction
    limit = law.dry(p, motor, external, velocity) + law.viscous_slope(p) * np.abs(velocity)
    momentum = (bench.inertia + p['armature']) / bench.dt * velocity
    powered = bench.counted & (bench.enabled > 0)
    if not powered.any():
        msg = 'Expected logs with a powered motor, found none in which it ever is.'
        raise FitError(msg)
    series = (motor, external, momentum, velocity, np.broadcast_to(limit, motor.shape))
    return _States(*(values[powered] for values in series))

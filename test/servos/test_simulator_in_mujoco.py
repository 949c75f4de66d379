# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""With small steps the simulator and MuJoCo agree, where MuJoCo has the same law."""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from sysid_ros.servos.bench.pendulum import simulate, stack_logs
from sysid_ros.servos.formats.logs import ServoLog
from sysid_ros.servos.laws.servo import Servo

pytestmark = pytest.mark.slow


SERVO = Servo.named('xl330', 'm1')
MASS, ARM_MASS, LENGTH = 0.5, 0.08, 0.15
KP, VIN = 400.0, 7.5
DURATION = 0.8
#: Periods of our simulator, s. Samples are compared at the times of the longest.
PERIODS = (4e-4, 2e-4, 1e-4)

# The constraints are so rigid that dry friction hardly creeps.
PENDULUM = """
<mujoco>
  <option timestep="{timestep}" integrator="{integrator}" gravity="0 0 -9.80665"/>
  <worldbody>
    <body euler="0 {offset} 0">
      <joint name="shaft" axis="0 1 0" armature="{armature}" damping="{damping}"
             frictionloss="{frictionloss}" solreffriction="{stiff} 1"
             solimpfriction=".9999 .9999 .001 .5 2"/>
      <inertial pos="0 0 {centre}" mass="{mass}" diaginertia="{inertia} {inertia} 1e-9"/>
    </body>
  </worldbody>
</mujoco>
"""
DEFAULTS = {
    'kt': 0.6,
    'R': 3.0,
    'armature': 0.004,
    'q_offset': 0.0,
    'friction_base': 0.0,
    'friction_viscous': 0.0,
}


class Start(NamedTuple):
    """Angle, rad, and velocity, rad/s."""

    q: float
    dq: float


def _ours(start: Start, period: float, **numbers: float) -> NDArray[np.float64]:
    count = round(DURATION / period) + 1
    log = ServoLog(
        name='limit',
        motor='xl330',
        trajectory='constant',
        mass=MASS,
        arm_mass=ARM_MASS,
        length=LENGTH,
        constants={'kp': KP, 'vin': VIN},
        dt=period,
        position=np.full(count, start.q),
        goal=np.zeros(count),
        enabled=np.zeros(count),
        speed=np.full(count, start.dq),
    )
    values = {**DEFAULTS, **numbers}
    candidate = np.array([[values[name] for name in SERVO.coefficients]])
    return simulate(SERVO, stack_logs(SERVO, [log]), candidate).position[:, 0, 0]


def _theirs(
    start: Start, timestep: float, integrator: str, **numbers: float
) -> NDArray[np.float64]:
    """Return MuJoCo's angles at the longest of the periods."""
    values = {**DEFAULTS, **numbers}
    mass = MASS + ARM_MASS
    centre = (MASS + ARM_MASS / 2) * LENGTH / mass
    text = PENDULUM.format(
        timestep=timestep,
        integrator=integrator,
        offset=np.degrees(values['q_offset']),
        armature=values['armature'],
        damping=values['friction_viscous'],
        frictionloss=values['friction_base'],
        stiff=2 * timestep,
        centre=-centre,
        mass=mass,
        inertia=(MASS + ARM_MASS / 3) * LENGTH**2 - mass * centre**2,
    )
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    data.qpos, data.qvel = start.q, start.dq
    found = np.empty(round(DURATION / PERIODS[0]) + 1)
    for row in range(len(found)):
        found[row] = data.qpos[0]
        mujoco.mj_step(model, data, round(PERIODS[0] / timestep))
    return found


def _assert_differ_by_the_step(start: Start, theirs: NDArray[np.float64], **numbers: float) -> None:
    """Assert that the largest difference is of the order of the step, and halves with it."""
    differences = []
    for period in PERIODS:
        found = _ours(start, period, **numbers)[:: round(PERIODS[0] / period)]
        differences.append(np.abs(found - theirs).max())
    # Speeds are some rad/s, so that a step is some mrad long.
    assert differences[0] < 15 * PERIODS[0]
    np.testing.assert_allclose(np.divide(differences[:-1], differences[1:]), 2.0, rtol=0.05)


def test_a_viscous_pendulum_swings_as_in_mujoco():
    start = Start(1.2, 3.0)
    numbers = {'friction_viscous': 0.02, 'q_offset': 0.1}
    theirs = _theirs(start, PERIODS[-1], 'RK4', **numbers)
    assert np.ptp(theirs) > 2.0
    _assert_differ_by_the_step(start, theirs, **numbers)


def test_a_dry_pendulum_comes_to_rest_where_it_does_in_mujoco():
    start = Start(1.2, 3.0)
    theirs = _theirs(start, 2e-5, 'implicitfast', friction_base=0.35)
    assert np.ptp(theirs) > 1.0
    assert np.ptp(theirs[-500:]) < 1e-7
    assert abs(theirs[-1]) > 0.2
    assert np.ptp(_ours(start, PERIODS[-1], friction_base=0.35)[-2000:]) == 0.0
    _assert_differ_by_the_step(start, theirs, friction_base=0.35)


def test_a_pendulum_held_by_dry_friction_does_not_move_at_all():
    start = Start(0.5, 0.0)
    torque = (MASS + ARM_MASS / 2) * 9.80665 * LENGTH * np.sin(0.5)
    assert np.ptp(_ours(start, 0.005, friction_base=1.001 * torque)) == 0.0
    assert np.ptp(_ours(start, 0.005, friction_base=0.999 * torque)) > 1e-4
    held = _theirs(start, 1e-4, 'implicitfast', friction_base=1.001 * torque)
    assert np.ptp(held) < 1e-6

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Why an element of a model has no value of some kind.

Each function takes a compiled model, the row of an element and a component, and returns None where
the element has such a value, else what it would have to be: the end of "joint 'j' is not …".
"""

from __future__ import annotations

from collections.abc import Callable

import mujoco

from sysid_ros.errors import ParameterError
from sysid_ros.model.inertia import Inertial, theta_from_body
from sysid_ros.model.joints import SCALAR_JOINTS, TO_JOINT

Need = Callable[[mujoco.MjModel, int, int], str | None]

#: Components of ``eq_data`` that the user sets, by type: the others are derived from them, or say
#: which way they are (MuJoCo 4.0).
_EQUALITY_DATA = {
    mujoco.mjtEq.mjEQ_CONNECT: (0, 1, 2),
    mujoco.mjtEq.mjEQ_WELD: (0, 1, 2, 10),
    mujoco.mjtEq.mjEQ_JOINT: (0, 1, 2, 3, 4),
    mujoco.mjtEq.mjEQ_TENDON: (0, 1, 2, 3, 4),
}


def _is(value: object, *members: object) -> bool:
    # An enum of MuJoCo equals no NumPy integer to its right.
    return any(value == member for member in members)


def position_servo(model: mujoco.MjModel, actuator: int, _: int) -> str | None:
    """Expect gain kp and bias -kp, or a PID."""
    affine = _is(model.actuator_biastype[actuator], mujoco.mjtBias.mjBIAS_AFFINE)
    gain, bias = model.actuator_gainprm[actuator, 0], model.actuator_biasprm[actuator, 1]
    kind = model.actuator_gaintype[actuator]
    servo = _is(kind, mujoco.mjtGain.mjGAIN_FIXED) and gain == -bias
    if affine and (servo or _is(kind, mujoco.mjtGain.mjGAIN_PID)):
        return None
    return 'a position actuator (gain kp, bias -kp)'


def on_scalar_joint(model: mujoco.MjModel, actuator: int, _: int) -> str | None:
    """Expect an actuator that turns or moves one degree of freedom."""
    if model.actuator_trntype[actuator] in TO_JOINT:
        joint = int(model.actuator_trnid[actuator, 0])
        if scalar_joint(model, joint, 0) is None:
            return None
    return 'an actuator of a hinge or slide joint'


def affine_bias(model: mujoco.MjModel, actuator: int, _: int) -> str | None:
    """Expect a bias that is linear in length and velocity."""
    affine = _is(model.actuator_biastype[actuator], mujoco.mjtBias.mjBIAS_AFFINE)
    return None if affine else 'an actuator with an affine bias'


def scalar_joint(model: mujoco.MjModel, joint: int, _: int) -> str | None:
    """Expect one degree of freedom."""
    return None if model.jnt_type[joint] in SCALAR_JOINTS else 'a hinge or slide joint'


def drive(model: mujoco.MjModel, joint: int, _: int) -> str | None:
    """Expect a joint of the robot, which ``joint/*`` is meant for, not a <freejoint>."""
    free = _is(model.jnt_type[joint], mujoco.mjtJoint.mjJNT_FREE)
    return 'a hinge, slide or ball joint' if free else None


def limits(
    flag: str, what: str, *, row: Callable[[mujoco.MjModel, int], int] | None = None
) -> Need:
    """Expect a range that is switched on: the compiler decides that, not the range itself."""

    def need(model: mujoco.MjModel, element: int, _: int) -> str | None:
        place = row(model, element) if row else element
        return None if getattr(model, flag)[place] else what

    return need


def symmetric(field: str, what: str) -> Need:
    """Expect a range that is there, as far on both sides of zero."""

    def need(model: mujoco.MjModel, element: int, _: int) -> str | None:
        low, high = getattr(model, field)[element]
        return None if low == -high != 0 else what

    return need


def joint_range(model: mujoco.MjModel, joint: int, index: int) -> str | None:
    """Expect limits; those of a ball joint are one angle, the second component."""
    if _is(model.jnt_type[joint], mujoco.mjtJoint.mjJNT_BALL) and index == 0:
        return 'a joint with a lower limit'
    return None if model.jnt_limited[joint] else 'a joint with limits'


def stateless(field: str) -> Need:
    """Expect a number that adds no activation state: in a PID or DC motor, those above 0 may."""
    stateful = (mujoco.mjtGain.mjGAIN_PID, mujoco.mjtGain.mjGAIN_DCMOTOR)

    def need(model: mujoco.MjModel, actuator: int, index: int) -> str | None:
        feature = _is(model.actuator_gaintype[actuator], *stateful)
        if feature and getattr(model, field)[actuator, index] == 0:
            return f'an actuator that uses {field.removeprefix("actuator_")}[{index}]'
        return None

    return need


def massive(model: mujoco.MjModel, body: int, _: int) -> str | None:
    """Expect a mass, which a factor can scale."""
    return None if model.body_mass[body] > 0 else 'a body with mass'


def voluminous(model: mujoco.MjModel, body: int, _: int) -> str | None:
    """Expect an inertia that θ can express."""
    try:
        theta_from_body(*Inertial.of_body(model, body))
    except ParameterError:
        return 'a body whose mass is positive and any two of whose moments exceed the third'
    return None


def fixed_start(model: mujoco.MjModel, body: int, _: int) -> str | None:
    """Expect a body whose pose is not the start of a free joint."""
    first = model.body_jntadr[body]
    free = first >= 0 and _is(model.jnt_type[first], mujoco.mjtJoint.mjJNT_FREE)
    return 'a body without a free joint' if free else None


def equality_data(model: mujoco.MjModel, equality: int, index: int) -> str | None:
    """Expect a component that the user sets."""
    known = _EQUALITY_DATA.get(mujoco.mjtEq(model.eq_type[equality]), ())
    if _is(model.eq_objtype[equality], mujoco.mjtObj.mjOBJ_SITE):
        known = tuple(component for component in known if component > 2)  # noqa: PLR2004 (x y z)
    return None if index in known else f'an equality whose data[{index}] is set by the user'


def pid(model: mujoco.MjModel, actuator: int, _: int) -> str | None:
    """Expect integral action, which cannot be switched on without another activation state."""
    integral = _is(model.actuator_gaintype[actuator], mujoco.mjtGain.mjGAIN_PID)
    integral = integral and model.actuator_gainprm[actuator, 0] != 0
    return None if integral else 'a PID actuator with integral action'

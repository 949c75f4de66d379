# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where a compiled model holds a value, and why an element of it has no such value.

A need takes a compiled model, the row of an element and a component, and returns None where the
element has such a value, else what it would have to be: the end of "joint 'j' is not …".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysid_ros.errors import ParameterError
from sysid_ros.model.inertia import Inertial, theta_from_body
from sysid_ros.model.joints import SCALAR_JOINTS, TO_JOINT

SlotsOf = Callable[[mujoco.MjModel, int, int], 'list[Slot]']

#: Options of a model are named as in ``mujoco.batch.MODEL_FIELDS``.
_OPTION = 'opt.'


class Slot(NamedTuple):
    """One number of a compiled model that follows a value: ``factor * value``."""

    field: str  # as in ``mujoco.batch.MODEL_FIELDS``: ``dof_armature``, ``opt.gravity``
    place: int  # flat index into the field
    factor: float = 1.0


class Assignment(NamedTuple):
    """Numbers (m, k) that m candidates put into k flat indices of one field of a model."""

    field: str
    index: NDArray[np.int64]  # type: ignore[assignment]  # hides tuple.index
    data: NDArray[np.float64]


def read_field(model: mujoco.MjModel, field: str) -> NDArray[np.float64]:
    """Return a copy of a field of a model, or of its options, as a flat array."""
    return np.array(_get(model, field), dtype=np.float64).reshape(-1)


def write_field(
    model: mujoco.MjModel, field: str, index: NDArray[np.int64], values: ArrayLike
) -> None:
    """Set numbers of a field of a model or of its options."""
    numbers = _get(model, field)
    if isinstance(numbers, np.ndarray):
        numbers.reshape(-1)[index] = values  # a view: fields of a model are contiguous
    else:
        setattr(model.opt, field.removeprefix(_OPTION), float(np.asarray(values).item()))


def _get(model: mujoco.MjModel, field: str) -> Any:
    owner = model.opt if field.startswith(_OPTION) else model
    return getattr(owner, field.removeprefix(_OPTION))


def row(field: str, *, factor: float = 1.0) -> SlotsOf:
    """Return the slots of a field that has one row per element."""

    def slots(model: mujoco.MjModel, element: int, index: int) -> list[Slot]:
        width = int(np.prod(getattr(model, field).shape[1:]))
        return [Slot(field, element * width + index, factor)]

    return slots


def option(name: str) -> SlotsOf:
    """Return the slots of an option of the model."""
    return lambda _model, _element, index: [Slot(_OPTION + name, index)]


def dofs(model: mujoco.MjModel, joint: int) -> range:
    """Return the degrees of freedom of a joint."""
    start = int(model.jnt_dofadr[joint])
    width = {
        mujoco.mjtJoint.mjJNT_FREE: 6,
        mujoco.mjtJoint.mjJNT_BALL: 3,
    }.get(mujoco.mjtJoint(model.jnt_type[joint]), 1)
    return range(start, start + width)


def dof(field: str) -> SlotsOf:
    """Return the slots of a field with one row per degree of freedom, all of a joint alike."""

    def slots(model: mujoco.MjModel, joint: int, index: int) -> list[Slot]:
        width = int(np.prod(getattr(model, field).shape[1:]))
        return [Slot(field, number * width + index) for number in dofs(model, joint)]

    return slots


def polynomial(linear: SlotsOf, higher: SlotsOf) -> SlotsOf:
    """Return the slots of a polynomial whose first coefficient has a field of its own."""
    return lambda model, element, index: (
        higher(model, element, index - 1) if index else linear(model, element, 0)
    )


def row_polynomial(field: str) -> SlotsOf:
    """Return the slots of a polynomial with one row per element in two fields."""
    return polynomial(row(field), row(f'{field}poly'))


def of_joint(field: str) -> SlotsOf:
    """Return the slot of a position of a hinge or slide."""
    return lambda model, joint, _: [Slot(field, int(model.jnt_qposadr[joint]))]


def around_zero(field: str, share: float = 0.5) -> SlotsOf:
    """Return the slots of a range around zero: of its width or, with a share of 1, of its ends."""

    def slots(_: mujoco.MjModel, element: int, __: int) -> list[Slot]:
        return [Slot(field, 2 * element, -share), Slot(field, 2 * element + 1, share)]

    return slots


def kp(model: mujoco.MjModel, actuator: int, _: int) -> list[Slot]:
    """Return the slots of a position gain: gain kp and bias -kp, or in a PID only the bias."""
    bias = row('actuator_biasprm', factor=-1.0)(model, actuator, 1)
    if model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_PID:
        return bias
    return [*row('actuator_gainprm')(model, actuator, 0), *bias]


def kv(model: mujoco.MjModel, actuator: int, _: int) -> list[Slot]:
    """Return the slots of a velocity gain: bias -kv, and in <velocity> also gain kv."""
    slots = row('actuator_biasprm', factor=-1.0)(model, actuator, 2)
    if (
        model.actuator_ctrlspec[actuator] == mujoco.mjtCtrlInput.mjINPUT_VEL
        and model.actuator_dyntype[actuator] == mujoco.mjtDyn.mjDYN_NONE
        and model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_FIXED
    ):
        slots += row('actuator_gainprm')(model, actuator, 0)
    return slots


def gear(model: mujoco.MjModel, actuator: int, index: int) -> list[Slot]:
    """Return the slot of the gear of an actuator's first force output; it may have several."""
    return [Slot('actuator_gear', 6 * int(model.actuator_outadr[actuator]) + index)]


def control_range(model: mujoco.MjModel, actuator: int, index: int) -> list[Slot]:
    """Return the slot of the range of an actuator's first control; it may have several."""
    return [Slot('actuator_ctrlrange', 2 * int(model.actuator_ctrladr[actuator]) + index)]


def mass_scaled(model: mujoco.MjModel, body: int, _: int) -> list[Slot]:
    """Return the slots of a mass with its inertia, which scales with it."""
    moments = model.body_inertia[body] / model.body_mass[body]
    return [
        Slot('body_mass', body),
        *(Slot('body_inertia', 3 * body + axis, float(moments[axis])) for axis in range(3)),
    ]


def mass_ipos(mass_slots: SlotsOf) -> SlotsOf:
    """Return the slots of a mass (component 0) and its centre (components 1 to 3)."""
    return lambda model, body, index: (
        row('body_ipos')(model, body, index - 1) if index else mass_slots(model, body, 0)
    )


def subtree(model: mujoco.MjModel, body: int) -> tuple[int, ...]:
    """Return a body and everything below it."""
    inside = [body]
    for other in range(body + 1, model.nbody):
        if model.body_parentid[other] in inside:
            inside.append(other)
    return tuple(inside)


Need = Callable[[mujoco.MjModel, int, int], str | None]

#: Components of ``eq_data`` that the user sets, by type: the others are derived from them, or say
#: which way they are (MuJoCo 4.0).
_EQUALITY_DATA = {
    mujoco.mjtEq.mjEQ_CONNECT: (0, 1, 2),
    mujoco.mjtEq.mjEQ_WELD: (0, 1, 2, 10),
    mujoco.mjtEq.mjEQ_JOINT: (0, 1, 2, 3, 4),
    mujoco.mjtEq.mjEQ_TENDON: (0, 1, 2, 3, 4),
}


def _need(what: str, fits: Callable[[mujoco.MjModel, int], bool]) -> Need:
    """Return why an element has no value of some kind: what it would have to be, else None."""
    return lambda model, row, _: None if fits(model, row) else what


def _is(value: object, *members: object) -> bool:
    # An enum of MuJoCo equals no NumPy integer to its right.
    return any(value == member for member in members)


def _on_scalar_joint(model: mujoco.MjModel, actuator: int) -> bool:
    joint = model.actuator_trnid[actuator, 0]
    return model.actuator_trntype[actuator] in TO_JOINT and model.jnt_type[joint] in SCALAR_JOINTS


def _affine(model: mujoco.MjModel, actuator: int) -> bool:
    return _is(model.actuator_biastype[actuator], mujoco.mjtBias.mjBIAS_AFFINE)


def _position_servo(model: mujoco.MjModel, actuator: int) -> bool:
    gain, bias = model.actuator_gainprm[actuator, 0], model.actuator_biasprm[actuator, 1]
    kind = model.actuator_gaintype[actuator]
    servo = _is(kind, mujoco.mjtGain.mjGAIN_FIXED) and gain == -bias
    return _affine(model, actuator) and bool(servo or _is(kind, mujoco.mjtGain.mjGAIN_PID))


def _voluminous(model: mujoco.MjModel, body: int) -> bool:
    try:
        theta_from_body(*Inertial.of_body(model, body))
    except ParameterError:
        return False
    return True


def _floats(model: mujoco.MjModel, body: int) -> bool:
    first = model.body_jntadr[body]
    return bool(first >= 0 and _is(model.jnt_type[first], mujoco.mjtJoint.mjJNT_FREE))


POSITION_SERVO = _need('a position actuator (gain kp, bias -kp)', _position_servo)
ON_SCALAR_JOINT = _need('an actuator of a hinge or slide joint', _on_scalar_joint)
AFFINE_BIAS = _need('an actuator with an affine bias', _affine)
SCALAR_JOINT = _need(
    'a hinge or slide joint', lambda model, joint: bool(model.jnt_type[joint] in SCALAR_JOINTS)
)
#: A joint of the robot, which ``joint/*`` is meant for, not a <freejoint>.
NOT_FREE = _need(
    'a hinge, slide or ball joint',
    lambda model, joint: not _is(model.jnt_type[joint], mujoco.mjtJoint.mjJNT_FREE),
)
MASSIVE = _need('a body with mass', lambda model, body: bool(model.body_mass[body] > 0))
#: An inertia that θ can express.
VOLUMINOUS = _need(
    'a body whose mass is positive and any two of whose moments exceed the third', _voluminous
)
#: A body whose pose is not the start of a free joint.
FIXED_START = _need('a body without a free joint', lambda model, body: not _floats(model, body))
#: Integral action cannot be switched on without another activation state.
PID = _need(
    'a PID actuator with integral action',
    lambda model, actuator: bool(
        _is(model.actuator_gaintype[actuator], mujoco.mjtGain.mjGAIN_PID)
        and model.actuator_gainprm[actuator, 0] != 0
    ),
)


def limits(flag: str, what: str) -> Need:
    """Expect a range that is switched on: the compiler decides that, not the range itself."""
    return _need(what, lambda model, row: bool(getattr(model, flag)[row]))


def control_limits(what: str) -> Need:
    """Expect a range of an actuator's first control."""
    return _need(
        what, lambda model, row: bool(model.actuator_ctrllimited[model.actuator_ctrladr[row]])
    )


def symmetric(field: str, what: str) -> Need:
    """Expect a range that is there, as far on both sides of zero."""

    def fits(model: mujoco.MjModel, row: int) -> bool:
        low, high = getattr(model, field)[row]
        return bool(low == -high != 0)

    return _need(what, fits)


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


def equality_data(model: mujoco.MjModel, equality: int, index: int) -> str | None:
    """Expect a component that the user sets."""
    known = _EQUALITY_DATA.get(mujoco.mjtEq(model.eq_type[equality]), ())
    if _is(model.eq_objtype[equality], mujoco.mjtObj.mjOBJ_SITE):
        known = tuple(component for component in known if component > 2)  # noqa: PLR2004 (x y z)
    return None if index in known else f'an equality whose data[{index}] is set by the user'

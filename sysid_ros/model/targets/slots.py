# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where a compiled model holds a value: fields, flat indices and factors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

SlotsOf = Callable[[mujoco.MjModel, int, int], 'list[Slot]']

#: Options of a model are named as in ``mujoco.batch.MODEL_FIELDS``.
_OPTION = 'opt.'


class Slot(NamedTuple):
    """One number of a compiled model that follows a value: ``factor * value``.

    Attributes:
        field: As in ``mujoco.batch.MODEL_FIELDS``: ``dof_armature``, ``opt.gravity``.
        place: Flat index into the field.
        factor: What one unit of the value makes.
    """

    field: str
    place: int
    factor: float = 1.0


class Assignment(NamedTuple):
    """Numbers that candidates put into one field of a model.

    Attributes:
        field: As in ``mujoco.batch.MODEL_FIELDS``: ``dof_armature``, ``opt.gravity``.
        index: (k,) flat indices into that field of one model.
        data: (m, k) numbers of m candidates.
    """

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


def springref(model: mujoco.MjModel, joint: int, _: int) -> list[Slot]:
    """Return the slot of the reference of a hinge's or slide's spring."""
    return [Slot('qpos_spring', int(model.jnt_qposadr[joint]))]


def zero(model: mujoco.MjModel, joint: int, _: int) -> list[Slot]:
    """Return the slot of what a hinge or slide reads where the model draws it: ``ref`` in MJCF."""
    return [Slot('qpos0', int(model.jnt_qposadr[joint]))]


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


def sensor_size(model: mujoco.MjModel, sensor: int) -> int:
    """Return how many numbers a sensor gives."""
    return int(model.sensor_dim[sensor])

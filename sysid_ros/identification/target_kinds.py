# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The kinds of targets: unit, bounds, and which numbers of a model each of them writes."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import mujoco

from sysid_ros.identification import target_slots as slots

if TYPE_CHECKING:
    from collections.abc import Callable

    from sysid_ros.identification.target_slots import SlotsOf

INFINITY = math.inf

Bounds = tuple[float, float]


class Role(enum.Enum):
    """Where a value acts.

    ``FIELD``: a number of the compiled model, or several that are written together. ``SPEC``: an
    attribute that the compiler has to see again. ``COMMAND``: gain, bias and delay of an
    actuator's commands. ``SENSOR``: gain, bias and delay of a sensor's predictions.
    ``SEQUENCE``: the state in which a sequence starts.
    """

    FIELD = 'field'
    SPEC = 'spec'
    COMMAND = 'command'
    SENSOR = 'sensor'
    SEQUENCE = 'sequence'


class Coupling(enum.Enum):
    """How components become numbers of the model that no single component gives."""

    THETA = 'theta'  # ten log-Cholesky parameters of a body's inertia
    UNIT = 'unit'  # a quaternion, normalised
    SCALE = 'scale'  # a factor on mass and inertia of a subtree


@dataclass(frozen=True)
class Kind:
    """One kind of target.

    Attributes:
        unit: SI unit of the value, for joints that of a hinge; one per component where they differ.
        bounds: What physics allows; one pair per component where they differ.
        slots: The numbers of a compiled model that follow the value linearly.
        role: Where the value acts.
        coupling: For numbers that follow several components together, instead of ``slots``.
        size: Number of components; 0 where it depends on the element, see ``count``.
        bare: What a path without an index means where there are several components: the first,
            each of them, or one value for all.
        slide_unit: Unit at a slide joint, where it differs.
        needs: Why an element has no such value: ``needs(model, row, index)`` completes "is not …".
        count: Number of components of an element, where it depends on the element.
        reach: Bounds by default around a start, for values that physics leaves open.
        nominal: The value where no model holds one.
    """

    unit: str | tuple[str, ...]
    bounds: Bounds | tuple[Bounds, ...]
    slots: SlotsOf | None = None
    role: Role = Role.FIELD
    coupling: Coupling | None = None
    size: int = 1
    bare: Literal['first', 'each', 'all'] = 'first'
    slide_unit: str | tuple[str, ...] | None = None
    needs: Callable[[mujoco.MjModel, int, int], str | None] | None = None
    count: Callable[[mujoco.MjModel, int], int] | None = None
    reach: Callable[[float, int], Bounds] | None = None
    nominal: float = 0.0

    def component_unit(self, index: int, *, slide: bool = False) -> str:
        """Return the unit of one component."""
        unit = self.slide_unit if slide and self.slide_unit else self.unit
        return unit if isinstance(unit, str) else unit[index]

    def component_bounds(self, index: int) -> Bounds:
        """Return what physics allows for one component."""
        bounds = self.bounds[index] if isinstance(self.bounds[0], tuple) else self.bounds
        low, high = bounds
        return float(low), float(high)


def _is(value: object, *members: object) -> bool:
    # An enum of MuJoCo equals no NumPy integer to its right.
    return any(value == member for member in members)


def _needs_position_servo(model: mujoco.MjModel, actuator: int, _: int) -> str | None:
    affine = _is(model.actuator_biastype[actuator], mujoco.mjtBias.mjBIAS_AFFINE)
    gain, bias = model.actuator_gainprm[actuator, 0], model.actuator_biasprm[actuator, 1]
    kind = model.actuator_gaintype[actuator]
    servo = _is(kind, mujoco.mjtGain.mjGAIN_FIXED) and gain == -bias
    if affine and (servo or _is(kind, mujoco.mjtGain.mjGAIN_PID)):
        return None
    return 'a position actuator (gain kp, bias -kp)'


def _needs_affine_bias(model: mujoco.MjModel, actuator: int, _: int) -> str | None:
    affine = _is(model.actuator_biastype[actuator], mujoco.mjtBias.mjBIAS_AFFINE)
    return None if affine else 'an actuator with an affine bias'


def _needs_scalar_joint(model: mujoco.MjModel, joint: int, _: int) -> str | None:
    scalar = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
    return None if _is(model.jnt_type[joint], *scalar) else 'a hinge or slide joint'


def _needs_drive(model: mujoco.MjModel, joint: int, _: int) -> str | None:
    # A <freejoint> has no such attributes, and joint/* is meant for the joints of the robot.
    free = _is(model.jnt_type[joint], mujoco.mjtJoint.mjJNT_FREE)
    return 'a hinge, slide or ball joint' if free else None


_NONNEGATIVE = (0.0, INFINITY)
_ANY = (-INFINITY, INFINITY)
#: A body must have mass to move: MuJoCo refuses moving bodies below mjMINVAL.
_SMALLEST_MASS = 1e-6
_MASS = (_SMALLEST_MASS, INFINITY)
#: A delay is not longer than this unless told otherwise, s.
_LONGEST_DELAY = 0.1


def _delay_reach(nominal: float, _: int) -> Bounds:
    return (0.0, max(_LONGEST_DELAY, 2 * nominal))


KINDS: dict[tuple[str, str], Kind] = {
    ('joint', 'armature'): Kind(
        'kg·m²', _NONNEGATIVE, slots.dof('dof_armature'), slide_unit='kg', needs=_needs_drive
    ),
    ('joint', 'damping'): Kind(
        'N·m·s/rad',
        _NONNEGATIVE,
        slots.dof('dof_damping'),
        slide_unit='N·s/m',
        needs=_needs_drive,
    ),
    ('joint', 'frictionloss'): Kind(
        'N·m', _NONNEGATIVE, slots.dof('dof_frictionloss'), slide_unit='N', needs=_needs_drive
    ),
    ('joint', 'stiffness'): Kind(
        'N·m/rad', _NONNEGATIVE, slots.row('jnt_stiffness'), slide_unit='N/m', needs=_needs_drive
    ),
    ('joint', 'springref'): Kind(
        'rad', _ANY, slots.springref, slide_unit='m', needs=_needs_scalar_joint
    ),
    ('body', 'mass'): Kind('kg', _MASS, slots.row('body_mass')),
    ('geom', 'friction'): Kind('1', _NONNEGATIVE, slots.row('geom_friction'), size=3),
    ('actuator', 'kp'): Kind('N·m/rad', _NONNEGATIVE, slots.kp, needs=_needs_position_servo),
    ('actuator', 'kv'): Kind('N·m·s/rad', _NONNEGATIVE, slots.kv, needs=_needs_affine_bias),
    ('actuator', 'gear'): Kind('1', _ANY, slots.row('actuator_gear'), size=6),
    ('actuator', 'gainprm'): Kind('', _ANY, slots.row('actuator_gainprm'), size=10),
    ('actuator', 'biasprm'): Kind('', _ANY, slots.row('actuator_biasprm'), size=10),
    ('actuator', 'dynprm'): Kind('', _ANY, slots.row('actuator_dynprm'), size=10),
    ('actuator', 'delay'): Kind('s', _NONNEGATIVE, role=Role.COMMAND, reach=_delay_reach),
    ('option', 'gravity'): Kind('m/s²', _ANY, slots.option('gravity'), size=3),
}

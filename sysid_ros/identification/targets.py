# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a parameter writes: one numeric attribute of one named MJCF element.

A target is written as a path, ``element/name/attribute`` with an optional index:
``joint/elbow/armature``, ``body/tool/mass``, ``actuator/a1/kp``, ``geom/foot/friction[0]``,
``option/gravity[2]``. Each kind of target knows its unit, the bounds that physics sets, and how to
write a compiled model. Writing the MJCF text is the business of ``sysid_ros.results.mjcf``.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sysid_ros.errors import ParameterError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

INFINITY = float('inf')

_PATH = re.compile(
    r'^(?P<element>[a-z]+)/(?:(?P<name>.+)/)?(?P<attribute>[a-z_]+)(?:\[(?P<index>\d+)\])?$'
)


class Kind(NamedTuple):
    """One kind of target.

    Attributes:
        unit: SI unit of the value, for hinge joints where it depends on the joint.
        bounds: What physics allows.
        slots: Views into a model's arrays that hold the value, each with a factor: the slot is
            set to ``factor * value``. Empty for what is not a field of the compiled model.
        size: Number of components; an index is needed where it is above 1.
    """

    unit: str
    bounds: tuple[float, float]
    slots: Callable[[mujoco.MjModel, int, int], list[tuple[NDArray[np.float64], float]]] | None
    size: int = 1
    slide_unit: str | None = None
    needs: Callable[[mujoco.MjModel, int], str | None] | None = None


def _dofs(model: mujoco.MjModel, joint: int) -> slice:
    start = int(model.jnt_dofadr[joint])
    width = {
        mujoco.mjtJoint.mjJNT_FREE: 6,
        mujoco.mjtJoint.mjJNT_BALL: 3,
    }.get(mujoco.mjtJoint(model.jnt_type[joint]), 1)
    return slice(start, start + width)


def _dof_field(field: str) -> Callable[..., list[tuple[NDArray[np.float64], float]]]:
    def slots(model: mujoco.MjModel, joint: int, _: int) -> list[tuple[NDArray[np.float64], float]]:
        return [(getattr(model, field)[_dofs(model, joint)], 1.0)]

    return slots


def _row(field: str) -> Callable[..., list[tuple[NDArray[np.float64], float]]]:
    def slots(
        model: mujoco.MjModel, row: int, index: int
    ) -> list[tuple[NDArray[np.float64], float]]:
        return [(np.atleast_2d(getattr(model, field).T).T[row, index : index + 1], 1.0)]

    return slots


def _springref(
    model: mujoco.MjModel, joint: int, _: int
) -> list[tuple[NDArray[np.float64], float]]:
    address = int(model.jnt_qposadr[joint])
    return [(model.qpos_spring[address : address + 1], 1.0)]


def _kp(model: mujoco.MjModel, actuator: int, _: int) -> list[tuple[NDArray[np.float64], float]]:
    return [
        (model.actuator_gainprm[actuator, 0:1], 1.0),
        (model.actuator_biasprm[actuator, 1:2], -1.0),
    ]


def _kv(model: mujoco.MjModel, actuator: int, _: int) -> list[tuple[NDArray[np.float64], float]]:
    slots = [(model.actuator_biasprm[actuator, 2:3], -1.0)]
    if (
        model.actuator_ctrlspec[actuator] == mujoco.mjtCtrlInput.mjINPUT_VEL
        and model.actuator_dyntype[actuator] == mujoco.mjtDyn.mjDYN_NONE
        and model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_FIXED
    ):  # <velocity kv>: gain kv, bias -kv
        slots.append((model.actuator_gainprm[actuator, 0:1], 1.0))
    return slots


def _gravity(model: mujoco.MjModel, _: int, index: int) -> list[tuple[NDArray[np.float64], float]]:
    return [(model.opt.gravity[index : index + 1], 1.0)]


def _needs_position_servo(model: mujoco.MjModel, actuator: int) -> str | None:
    fixed = model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_FIXED
    affine = model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_AFFINE
    if (
        fixed
        and affine
        and model.actuator_gainprm[actuator, 0] == -model.actuator_biasprm[actuator, 1]
    ):
        return None
    return 'a position actuator (gain kp, bias -kp)'


def _needs_affine_bias(model: mujoco.MjModel, actuator: int) -> str | None:
    if model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_AFFINE:
        return None
    return 'an actuator with an affine bias'


def _needs_scalar_joint(model: mujoco.MjModel, joint: int) -> str | None:
    scalar = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
    kind = mujoco.mjtJoint(model.jnt_type[joint])  # an enum equals no NumPy integer to its right
    return None if kind in scalar else 'a hinge or slide joint'


def _needs_drive(model: mujoco.MjModel, joint: int) -> str | None:
    # A <freejoint> has no such attributes, and joint/* is meant for the joints of the robot.
    free = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE
    return 'a hinge, slide or ball joint' if free else None


_NONNEGATIVE = (0.0, INFINITY)
_ANY = (-INFINITY, INFINITY)
#: A body must have mass to move: MuJoCo refuses moving bodies below mjMINVAL.
_SMALLEST_MASS = 1e-6

KINDS: dict[tuple[str, str], Kind] = {
    ('joint', 'armature'): Kind(
        'kg·m²', _NONNEGATIVE, _dof_field('dof_armature'), slide_unit='kg', needs=_needs_drive
    ),
    ('joint', 'damping'): Kind(
        'N·m·s/rad', _NONNEGATIVE, _dof_field('dof_damping'), slide_unit='N·s/m', needs=_needs_drive
    ),
    ('joint', 'frictionloss'): Kind(
        'N·m', _NONNEGATIVE, _dof_field('dof_frictionloss'), slide_unit='N', needs=_needs_drive
    ),
    ('joint', 'stiffness'): Kind(
        'N·m/rad', _NONNEGATIVE, _row('jnt_stiffness'), slide_unit='N/m', needs=_needs_drive
    ),
    ('joint', 'springref'): Kind(
        'rad', _ANY, _springref, slide_unit='m', needs=_needs_scalar_joint
    ),
    ('body', 'mass'): Kind('kg', (_SMALLEST_MASS, INFINITY), _row('body_mass')),
    ('geom', 'friction'): Kind('1', _NONNEGATIVE, _row('geom_friction'), size=3),
    ('actuator', 'kp'): Kind('N·m/rad', _NONNEGATIVE, _kp, needs=_needs_position_servo),
    ('actuator', 'kv'): Kind('N·m·s/rad', _NONNEGATIVE, _kv, needs=_needs_affine_bias),
    ('actuator', 'gear'): Kind('1', _ANY, _row('actuator_gear'), size=6),
    ('actuator', 'gainprm'): Kind('', _ANY, _row('actuator_gainprm'), size=10),
    ('actuator', 'biasprm'): Kind('', _ANY, _row('actuator_biasprm'), size=10),
    ('actuator', 'dynprm'): Kind('', _ANY, _row('actuator_dynprm'), size=10),
    ('actuator', 'delay'): Kind('s', _NONNEGATIVE, None),
    ('option', 'gravity'): Kind('m/s²', _ANY, _gravity, size=3),
}

_OBJECTS = {
    'joint': mujoco.mjtObj.mjOBJ_JOINT,
    'body': mujoco.mjtObj.mjOBJ_BODY,
    'geom': mujoco.mjtObj.mjOBJ_GEOM,
    'actuator': mujoco.mjtObj.mjOBJ_ACTUATOR,
}


@dataclass(frozen=True)
class Target:
    """One scalar that a parameter writes.

    Attributes:
        element: Kind of MJCF element: ``joint``, ``body``, ``geom``, ``actuator``, ``option``.
        name: Name of the element; empty for ``option``.
        attribute: The attribute, as in MJCF.
        index: Component of a vector attribute; None for a scalar one.
        row: Id of the element in the compiled model.
        unit: SI unit.
    """

    element: str
    name: str
    attribute: str
    index: int | None
    row: int
    unit: str

    @property
    def kind(self) -> Kind:
        """The kind of target, from the table above."""
        return KINDS[self.element, self.attribute]

    @property
    def path(self) -> str:
        """The target as it is written in a configuration file."""
        name = f'{self.name}/' if self.name else ''
        index = '' if self.index is None else f'[{self.index}]'
        return f'{self.element}/{name}{self.attribute}{index}'

    @property
    def in_model(self) -> bool:
        """Whether the value is a field of the compiled model (a delay is not)."""
        return self.kind.slots is not None

    def slots(self, model: mujoco.MjModel) -> list[tuple[NDArray[np.float64], float]]:
        """Return the views into a model that hold the value, each with its factor."""
        if self.kind.slots is None:
            return []
        return self.kind.slots(model, self.row, self.index or 0)

    def read(self, model: mujoco.MjModel) -> float:
        """Return the value that a model has now."""
        if self.kind.slots is None:
            return float(model.actuator_delay[self.row])
        view, factor = self.slots(model)[0]
        return float(view[0]) / factor

    def write(self, model: mujoco.MjModel, value: float) -> None:
        """Set the value in a model. The caller runs ``mj_setConst`` once after all writes."""
        for view, factor in self.slots(model):
            view[:] = factor * value


def element_names(model: mujoco.MjModel, element: str) -> list[str]:
    """Return the names of all elements of one kind, in model order, the unnamed left out."""
    count = {
        'joint': model.njnt,
        'body': model.nbody,
        'geom': model.ngeom,
        'actuator': model.nactuator,  # an actuator may have several controls
    }
    names = (mujoco.mj_id2name(model, _OBJECTS[element], index) for index in range(count[element]))
    return [name for name in names if name and name != 'world']


def object_id(model: mujoco.MjModel, element: str, name: str) -> int:
    """Return the row of a named element in a compiled model; -1 where there is none."""
    return int(mujoco.mj_name2id(model, _OBJECTS[element], name))


def resolve(pattern: str, model: mujoco.MjModel) -> tuple[Target, ...]:
    """Find every target that a path or pattern names, in model order.

    Args:
        pattern: A path; its name may hold shell wildcards: ``joint/*/armature``.
        model: The compiled model.

    Raises:
        ParameterError: The path is malformed, or nothing in the model matches it.
    """
    match = _PATH.match(pattern)
    elements = sorted({element for element, _ in KINDS})
    if match is None or (match['name'] is None) != (match['element'] == 'option'):
        msg = (
            f'Expected a target such as joint/elbow/armature or option/gravity[2], got {pattern!r}.'
        )
        raise ParameterError(msg)
    element, attribute = match['element'], match['attribute']
    if element not in elements:
        msg = f'Unknown element {element!r} in target {pattern!r}; {nearest(element, elements)}.'
        raise ParameterError(msg)
    if (element, attribute) not in KINDS:
        known = [name for kind, name in KINDS if kind == element]
        hint = nearest(attribute, known, 9)
        msg = f'Unknown attribute {attribute!r} in target {pattern!r}; {hint}.'
        raise ParameterError(msg)
    kind = KINDS[element, attribute]
    index = _index(pattern, match['index'], kind)
    if element == 'option':
        return (Target(element, '', attribute, index, 0, kind.unit),)
    names = element_names(model, element)
    wanted = match['name']
    exact = [name for name in names if name == wanted]  # a name may hold brackets
    found = exact or [name for name in names if fnmatch.fnmatchcase(name, wanted)]
    if not found:
        msg = f'No {element} matches {wanted!r} in target {pattern!r}; {nearest(wanted, names)}.'
        raise ParameterError(msg)
    return tuple(_targets(pattern, element, attribute, index, kind, found, model))


def _index(pattern: str, text: str | None, kind: Kind) -> int | None:
    if text is None:
        return None if kind.size == 1 else 0
    if int(text) >= kind.size:
        msg = f'Target {pattern!r} has index {text}, expected 0 to {kind.size - 1}.'
        raise ParameterError(msg)
    return None if kind.size == 1 else int(text)


def _targets(
    pattern: str,
    element: str,
    attribute: str,
    index: int | None,
    kind: Kind,
    names: list[str],
    model: mujoco.MjModel,
) -> Iterable[Target]:
    refused: list[str] = []
    some = False
    for name in names:
        row = object_id(model, element, name)
        complaint = kind.needs(model, row) if kind.needs else None
        if complaint:
            refused.append(f'{element} {name!r} is not {complaint}')
            continue
        some = True
        slide = element == 'joint' and model.jnt_type[row] == mujoco.mjtJoint.mjJNT_SLIDE
        unit = kind.slide_unit if slide and kind.slide_unit else kind.unit
        yield Target(element, name, attribute, index, row, unit)
    if not some:
        msg = f'Target {pattern!r} cannot be used: {refused[0]}.'
        raise ParameterError(msg)

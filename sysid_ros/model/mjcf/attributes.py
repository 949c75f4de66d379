# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Attributes that MJCF holds as a spec does: one number, or one component of several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import mujoco
import numpy as np

from sysid_ros.model.mjcf.numbers import set_component, set_scalar

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.model.mjcf.numbers import Editable

#: Attributes of a spec whose name in MJCF is another one.
_MJCF_NAMES = {
    'actfrcrange': 'actuatorfrcrange',
    'solref_limit': 'solreflimit',
    'solimp_limit': 'solimplimit',
    'solref_friction': 'solreffriction',
    'solimp_friction': 'solimpfriction',
    'fluid_coefs': 'fluidcoef',
}
_SPEC_NAMES = {name: spelled for spelled, name in _MJCF_NAMES.items()}
#: Vectors of which the text may give the first components only; the others are zero.
_OPEN = frozenset({'damping', 'stiffness', 'gear', 'size', 'gainprm', 'biasprm', 'dynprm'})
#: Angles, which the text has in degrees where ``compiler/angle`` says so, of joints that turn.
_ANGLES = frozenset({'range', 'ref', 'springref'})
_TURNING = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_BALL)
#: Where the data of an equality of two bodies has the torque scale of a weld.
_TORQUESCALE = 10
_ANCHOR = 3
_POLYNOMIAL = 5


class Place(NamedTuple):
    """Where the text of an element has a number.

    Attributes:
        name: The attribute.
        index: Its component; None where it is a single number.
        vector: All components as they are, in the unit of the text, for those that it leaves to
            defaults.
        unit: What one unit of the text is in SI units.
    """

    name: str
    index: int | None  # type: ignore[assignment]  # hides tuple.index
    vector: NDArray[np.float64]
    unit: float = 1.0

    def write(self, element: Editable, value: float) -> None:
        """Write the number, given in SI units."""
        written = value / self.unit
        if self.index is None:
            set_scalar(element, self.name, written)
        else:
            least = 1 if self.name in _OPEN else len(self.vector)
            set_component(element, self.name, self.index, written, self.vector, least)


def attribute_place(
    owner: Any,
    element: str,
    attribute: str,
    index: int,
    *,
    degrees: bool,
) -> Place:
    """Find where the text has a component of an attribute.

    Args:
        owner: The element of the spec, or of a class.
        element: Its kind.
        attribute: As in a target.
        index: The component.
        degrees: Whether the text has this attribute in degrees if it is an angle.
    """
    if element == 'equality' and attribute == 'data':
        return _equality(owner, index)
    spelled = attribute if element == 'pair' else _SPEC_NAMES.get(attribute, attribute)
    values = getattr(owner, spelled)
    name = _MJCF_NAMES.get(spelled, spelled)
    unit = float(np.pi / 180) if degrees and attribute in _ANGLES else 1.0
    if isinstance(values, np.ndarray):
        return Place(name, index, np.array(values, dtype=np.float64), unit)
    return Place(name, None, np.array([values], dtype=np.float64), unit)


def turns(model: mujoco.MjModel, joint: int) -> bool:
    """Whether a joint's position is an angle."""
    return any(model.jnt_type[joint] == kind for kind in _TURNING)


def _equality(owner: mujoco.MjsEquality, index: int) -> Place:
    if owner.type in (mujoco.mjtEq.mjEQ_JOINT, mujoco.mjtEq.mjEQ_TENDON):
        return Place('polycoef', index, np.array(owner.data[:_POLYNOMIAL]))
    if index == _TORQUESCALE:
        return Place('torquescale', None, np.array(owner.data[index : index + 1]))
    return Place('anchor', index, np.array(owner.data[:_ANCHOR]))

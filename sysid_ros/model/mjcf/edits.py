# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Put each identified value where MJCF has it: in elements, ``<inertial>``, options and classes.

What is rare is not written right here, as places inside of a ``<frame>``: the caller compares what
the new text compiles to.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysid_ros.errors import ModelError, listed
from sysid_ros.model.inertia import Inertial, full_inertia, principal_axes
from sysid_ros.model.loading import native_delay
from sysid_ros.model.mjcf.source import Rewrite
from sysid_ros.model.mjcf.text import (
    Element,
    join,
    number,
    numbers_of,
    set_component,
    set_scalar,
    set_vector,
)
from sysid_ros.model.targets import Role, Target, read_spec, subtree
from sysid_ros.model.targets.kinds import MJCF_NAMES, spec_name
from sysid_ros.model.targets.target import ANGLES, TURNING

_MAIN = 'main'
#: Attributes of a body that are written into its ``<inertial>``.
INERTIAL = (
    'mass',
    'mass_scaled',
    'ipos',
    'mass_ipos',
    'mass_ipos_scaled',
    'inertia',
    'subtree_mass',
)
#: Rows and columns of the numbers of a ``fullinertia``.
_FULL = ((0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2))
#: Numbers below this share of the largest are rounding errors of zeros.
_ZERO = 1e-15
#: A full inertia must give principal axes and moments this closely, relative to the largest.
_ACCURACY = 1e-11
#: How MJCF spells an orientation.
_ORIENTATIONS = ('quat', 'axisangle', 'xyaxes', 'zaxis', 'euler')
#: Widths and ends of ranges around zero: the attributes that are those ranges, and their upper end.
_AROUND_ZERO = {
    ('tendon', 'play'): ('range', 0.5),
    ('tendon', 'deadband'): ('springlength', 0.5),
    ('actuator', 'forcelimit'): ('forcerange', 1.0),
}
#: Attributes of actuators that shortcuts spell in their own ways.
_GAINS = ('kp', 'kv', 'ki', 'gainprm', 'biasprm', 'dynprm')
#: Gains that elements have an attribute of the same name for.
_OWN_GAINS = {
    'position': ('kp', 'kv'),
    'intvelocity': ('kp', 'kv'),
    'orientation': ('kp', 'kv'),
    'pid': ('kp', 'kv', 'ki'),
    'velocity': ('kv',),
}
#: All elements that make an actuator.
_ACTUATORS = (
    *('general', 'motor', 'damper', 'cylinder', 'muscle', 'adhesion', 'dcmotor'),
    *_OWN_GAINS,
)
#: Width of gainprm, biasprm and dynprm.
_WIDTH = 10
#: Vectors of which the text may give the first components only; the others are zero.
_OPEN = frozenset({'damping', 'stiffness', 'gear', 'size', 'gainprm', 'biasprm', 'dynprm'})
#: Where the data of an equality of two bodies has the torque scale of a weld.
_TORQUESCALE = 10
#: So many numbers of an equality's data are an anchor or a polynomial.
_ANCHOR, _POLYNOMIAL = 3, 5


class _Place(NamedTuple):
    """Where the text of an element has a number: an attribute, or a component of it.

    The vector has all components in the unit of the text, for those that it leaves to defaults; the
    unit is what one of the text is in SI units.
    """

    name: str
    index: int | None  # type: ignore[assignment]  # hides tuple.index
    vector: NDArray[np.float64]
    unit: float = 1.0

    def write(self, element: Element, value: float) -> None:
        """Write the number, given in SI units."""
        written = value / self.unit
        if self.index is None:
            set_scalar(element, self.name, written)
        else:
            least = 1 if self.name in _OPEN else len(self.vector)
            set_component(element, self.name, self.index, written, self.vector, least)


def write_values(rewrite: Rewrite, values: Iterable[tuple[Target, float]]) -> None:
    """Write values into the text of a model; a ModelError where it cannot hold one."""
    changed = [(target, value) for target, value in values if _present(rewrite, target) != value]
    _write_inertials(rewrite, [target for target, _ in changed if _is_inertial(target)])
    added: dict[str, Element] = {}
    for target, value in changed:
        if _is_inertial(target):
            continue
        if target.element == 'option':
            node = _option(rewrite, target, added)
        elif target.element == 'default':
            node = _class(rewrite, target, added)
        else:
            node = rewrite.source.find(target.element, target.name)
        _write(rewrite, node, target, value)


def _present(rewrite: Rewrite, target: Target) -> float | None:
    """Return what the model says of a target, None where that is left open."""
    if target.role is Role.FIELD:
        return target.read(rewrite.nominal)
    return read_spec(rewrite.spec, target) if target.role is Role.SPEC else None


def _is_inertial(target: Target) -> bool:
    return target.element == 'body' and target.attribute in INERTIAL


def _write(rewrite: Rewrite, node: Element, target: Target, value: float) -> None:
    element, attribute = target.element_and_attribute
    if node.tag == 'freejoint':
        raise ModelError(f'{target.path!r} is of a <freejoint>, which has no attributes.')
    if element == 'actuator' and attribute == 'delay':
        _write_delay(rewrite, node, target, value)
    elif attribute == 'quat':
        _set_orientation(node, getattr(rewrite.fitted, f'{element}_quat')[target.row])
    elif (element, attribute) == ('tendon', 'springlength'):
        ends = [float(end) for end in rewrite.fitted.tendon_lengthspring[target.row]]
        one = len(numbers_of(node, 'springlength')) <= 1 and ends[0] == ends[1]
        set_vector(node, 'springlength', ends[:1] if one else ends)
    elif (element, attribute) in _AROUND_ZERO:
        name, share = _AROUND_ZERO[element, attribute]
        set_vector(node, name, [-share * value, share * value])
    else:
        for place in _places(rewrite, node, target):
            place.write(node, value)


def _places(rewrite: Rewrite, node: Element, target: Target) -> list[_Place]:
    """Return where the text of an element has the numbers of a target."""
    element, attribute = target.element_and_attribute
    if element == 'option':
        owner = rewrite.spec.option
    elif target.element == 'default':
        owner = getattr(rewrite.spec.find_default(target.name), element)
    else:
        owner = getattr(rewrite.spec, element)(target.name)
    index = target.index or 0
    if element == 'actuator' and attribute in _GAINS:
        return _gain_places(rewrite, node, target, owner)
    if element == 'equality' and attribute == 'data':
        if owner.type in (mujoco.mjtEq.mjEQ_JOINT, mujoco.mjtEq.mjEQ_TENDON):
            return [_Place('polycoef', index, np.array(owner.data[:_POLYNOMIAL]))]
        if index == _TORQUESCALE:
            return [_Place('torquescale', None, np.array(owner.data[index : index + 1]))]
        return [_Place('anchor', index, np.array(owner.data[:_ANCHOR]))]
    spelled = spec_name(element, attribute)
    values = np.array(getattr(owner, spelled), dtype=np.float64)
    name = MJCF_NAMES.get(spelled, spelled)
    degrees = rewrite.spec.compiler.degree and element == 'joint' and attribute in ANGLES
    unit = np.pi / 180 if degrees and _turns(rewrite, target) else 1.0
    return [_Place(name, index if values.ndim else None, values, unit)]


def _turns(rewrite: Rewrite, target: Target) -> bool:
    """Whether the position of a joint, or of the first that follows a class, is an angle."""
    row = target.rows[0] if target.rows else target.row
    if target.rows and target.role is Role.SPEC:  # positions in the spec
        row = int(rewrite.spec.joints[row].id)
    return mujoco.mjtJoint(rewrite.nominal.jnt_type[row]) in TURNING


def _gain_places(rewrite: Rewrite, node: Element, target: Target, owner: Any) -> list[_Place]:
    """Return where an actuator's element has a gain: in its own attribute or in <general>'s."""
    attribute = target.element_and_attribute[1]
    if attribute in _OWN_GAINS.get(node.tag, ()):
        return [_Place(attribute, None, np.zeros(1))]
    if node.tag != 'general':
        raise ModelError(f'<{node.tag}> has no attribute for {target.path!r}.')
    first = target.rows[0] if target.rows else target.row
    found = []
    for field, place, factor in target.slots(rewrite.nominal):
        row, index = divmod(place, _WIDTH)
        name = field.removeprefix('actuator_')
        # What the text leaves out comes from the class, or from what the element compiles to.
        whole = getattr(owner, name) if target.rows else getattr(rewrite.nominal, field)[row]
        if row == first:
            found.append(_Place(name, index, np.array(whole, dtype=np.float64), factor))
    return found


def _option(rewrite: Rewrite, target: Target, added: dict[str, Element]) -> Element:
    """Return the <option> where an attribute counts, which is added where there is none."""
    options = [node for node in rewrite.source.nodes if node.tag == 'option']
    if not options:
        if 'option' not in added:
            added['option'] = rewrite.source.nodes[0].add(Element('option'))
        return added['option']
    (place,) = _places(rewrite, options[-1], target)
    # The last one that sets an attribute wins.
    return ([node for node in options if node.get(place.name) is not None] or options)[-1]


def _class(rewrite: Rewrite, target: Target, added: dict[str, Element]) -> Element:
    """Return the element of a default class that gives an attribute, added where there is none."""
    element, _ = target.element_and_attribute
    nodes = rewrite.source.nodes
    classes = [n for n in nodes if n.tag == 'default' and (n.get('class') or _MAIN) == target.name]
    if not classes and target.name != _MAIN:
        # It comes with an attached model.
        raise ModelError(f'{target.path!r} is of a class that the MJCF text does not have.')
    tags = _ACTUATORS if element == 'actuator' else (element,)
    own = [node for node in nodes if node.parent in classes and node.tag in tags]
    if own:
        return ([node for node in own if _says(rewrite, node, target)] or own)[-1]
    key = f'{target.name}/{element}'
    if key not in added:
        around = classes[-1] if classes else nodes[0].add(Element('default'))
        added[key] = around.add(Element('general' if element == 'actuator' else element))
    return added[key]


def _says(rewrite: Rewrite, node: Element, target: Target) -> bool:
    """Whether an element of a class gives a number of a target."""
    try:
        places = _places(rewrite, node, target)
    except ModelError:
        return False
    return any((place.index or 0) < len(numbers_of(node, place.name)) for place in places)


def _write_delay(rewrite: Rewrite, node: Element, target: Target, value: float) -> None:
    """Write a delay as MuJoCo's own, and a note where that is another one."""
    actuator = rewrite.spec.actuator(target.name)
    timestep = float(rewrite.fitted.opt.timestep)
    wanted = native_delay(value, timestep)
    if wanted.delay:
        set_scalar(node, 'delay', wanted.delay)
        set_scalar(node, 'nsample', max(wanted.nsample, actuator.nsample))
        node.set('interp', 'linear')
    elif actuator.delay:
        for name, none in (('delay', '0'), ('nsample', '0'), ('interp', 'zoh')):
            if getattr(actuator.classname.actuator, name):
                node.set(name, none)
            else:
                node.remove(name)
    if wanted.effective != value:
        rewrite.notes.append(
            f'Actuator {target.name!r} has an identified delay of {value:.6g} s; MuJoCo '
            f'simulates {wanted.effective:.6g} s at a timestep of {timestep:.6g} s.'
        )


def write_bias(rewrite: Rewrite, name: str) -> None:
    """Write the constant force of an actuator that exerts nothing else but its command's."""
    node = rewrite.source.find('actuator', name)
    row = rewrite.fitted.actuator(name).id
    node.retag('general')
    for attribute, word in (('dyntype', 'none'), ('gaintype', 'fixed'), ('biastype', 'affine')):
        node.set(attribute, word)
    inherited = rewrite.spec.actuator(name).classname.actuator
    for attribute, count in (('gainprm', 1), ('biasprm', 3)):
        values = getattr(rewrite.fitted, f'actuator_{attribute}')[row]
        # A class gives what the text does not.
        plain = not np.any(getattr(inherited, attribute)[count:])
        node.set(attribute, join(values[:count] if plain else values))


def _set_orientation(element: Element, quat: ArrayLike) -> None:
    """Write an orientation as a quaternion, in the place of any other spelling."""
    values = np.asarray(quat, dtype=np.float64)
    found = [name for name in _ORIENTATIONS if element.get(name) is not None]
    if 'quat' in found or not found:
        set_vector(element, 'quat', values)
    else:
        element.rename(found[0], 'quat', join(values))


def _write_inertials(rewrite: Rewrite, targets: Iterable[Target]) -> None:
    """Write the identified inertias of all bodies that targets change."""
    rows: dict[int, None] = {}
    for target in targets:
        inside = target.attribute == 'subtree_mass'
        rows |= dict.fromkeys(subtree(rewrite.nominal, target.row) if inside else (target.row,))
    inserted = []
    for row in rows:
        nominal, fitted = (Inertial.of_body(m, row) for m in (rewrite.nominal, rewrite.fitted))
        if all(map(np.array_equal, nominal, fitted)):
            continue
        name = rewrite.nominal.body(row).name
        body = rewrite.source.find('body', name)
        own = (node for node in rewrite.source.nodes if node.parent is body)
        inertial = next((node for node in own if node.tag == 'inertial'), None)
        if inertial is not None:
            _change_inertial(inertial, nominal, fitted)
            continue
        inserted.append(name)
        body.add(
            Element(
                'inertial',
                pos=join(fitted.ipos),
                quat=join(fitted.iquat),
                mass=number(float(fitted.mass)),
                diaginertia=join(fitted.inertia),
            )
        )
    if inserted:
        rewrite.notes.append(
            f'{listed(map(repr, inserted))}: an <inertial> is there now, with all of its numbers, '
            'as what is identified came from geoms.'
        )


def _change_inertial(inertial: Element, nominal: Inertial, fitted: Inertial) -> None:
    """Change an ``<inertial>`` where it differs from what it gave so far."""
    if fitted.mass != nominal.mass:
        set_scalar(inertial, 'mass', float(fitted.mass))
    for axis in np.flatnonzero(fitted.ipos != nominal.ipos):
        set_component(inertial, 'pos', int(axis), float(fitted.ipos[axis]), fitted.ipos, 3)
    turned = not np.array_equal(fitted.iquat, nominal.iquat)
    if not turned and np.array_equal(fitted.inertia, nominal.inertia):
        return
    if inertial.get('fullinertia') is not None:
        if not _set_full(inertial, fitted):
            inertial.rename('fullinertia', 'diaginertia', join(fitted.inertia))
            _set_orientation(inertial, fitted.iquat)
        return
    set_vector(inertial, 'diaginertia', fitted.inertia)
    if turned:
        _set_orientation(inertial, fitted.iquat)


def _set_full(inertial: Element, wanted: Inertial) -> bool:
    """Write six numbers, unless nearly equal moments leave the axes to rounding errors."""
    full = full_inertia(wanted.iquat, wanted.inertia)
    full[np.abs(full) < _ZERO * np.abs(full).max()] = 0.0
    six = full[_FULL]
    symmetric = np.empty((3, 3))
    symmetric[_FULL] = symmetric[_FULL[::-1]] = six
    moments, quat = principal_axes(symmetric)
    if (
        np.abs(moments - wanted.inertia).max() > _ACCURACY * float(wanted.inertia.max())
        or np.abs(quat - wanted.iquat).max() > _ACCURACY
        or any(inertial.get(name) is not None for name in _ORIENTATIONS)
    ):
        return False
    set_vector(inertial, 'fullinertia', six)
    return True

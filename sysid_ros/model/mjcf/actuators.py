# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How the text of actuators spells gains and delays."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ModelError
from sysid_ros.model.loading import native_delay
from sysid_ros.model.mjcf.attributes import join, set_component, set_scalar
from sysid_ros.model.mjcf.source import Rewrite
from sysid_ros.model.mjcf.text import Element
from sysid_ros.model.targets import Target

#: All elements that make an actuator, the one first that spells everything.
TAGS = (
    'general',
    'motor',
    'position',
    'velocity',
    'intvelocity',
    'pid',
    'orientation',
    'damper',
    'cylinder',
    'muscle',
    'adhesion',
    'dcmotor',
)
#: Attributes that shortcuts spell in their own ways.
GAINS = ('kp', 'kv', 'ki', 'gainprm', 'biasprm', 'dynprm')
#: Gains that elements have an attribute of the same name for.
_OWN = {
    'position': ('kp', 'kv'),
    'intvelocity': ('kp', 'kv'),
    'orientation': ('kp', 'kv'),
    'pid': ('kp', 'kv', 'ki'),
    'velocity': ('kv',),
}
_WIDTH = 10


class Spelling(NamedTuple):
    """An attribute for a gain: its name, its component (None for a scalar), and its factor."""

    attribute: str
    place: int | None = None
    factor: float = 1.0


def spells_gain(tag: str, rewrite: Rewrite, target: Target) -> tuple[Spelling, ...]:
    """Return what an element writes a gain to; nothing where it has no plain attribute for that."""
    attribute = target.element_and_attribute[1]
    if attribute in _OWN.get(tag, ()):
        return (Spelling(attribute),)
    if tag != 'general':
        return ()
    first = target.rows[0] if target.rows else target.row
    return tuple(
        Spelling(slot.field.removeprefix('actuator_'), slot.place % _WIDTH, slot.factor)
        for slot in target.slots(rewrite.nominal)
        if slot.place // _WIDTH == first
    )


def write_gain(
    rewrite: Rewrite,
    element: Element,
    target: Target,
    value: float,
    parameters: Callable[[str], NDArray[np.float64]],
) -> None:
    """Write a gain, or a component of ``gainprm``, ``biasprm`` or ``dynprm``, as it is spelled.

    ``parameters`` gives whole arrays, by name, for components that the text leaves to defaults.

    Raises:
        ModelError: The element has no attribute for it.
    """
    spellings = spells_gain(element.tag, rewrite, target)
    if not spellings:
        raise ModelError(f'<{element.tag}> has no attribute for {target.path!r}.')
    for attribute, place, factor in spellings:
        if place is None:
            set_scalar(element, attribute, factor * value)
        else:
            set_component(element, attribute, place, factor * value, parameters(attribute))


def write_delay(rewrite: Rewrite, node: Element, target: Target, value: float) -> None:
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
    """Write the constant force of an actuator that exerts nothing else but its command's.

    Raises:
        ModelError: The text does not spell the actuator.
    """
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

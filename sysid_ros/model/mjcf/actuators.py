# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How actuators spell their gains, delays and ranges, and what has to be pinned in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ModelError
from sysid_ros.model.loading import native_delay
from sysid_ros.model.mjcf.attributes import join, number, numbers_of, set_component, set_scalar
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
_PARAMETERS = ('gainprm', 'biasprm', 'dynprm')

Number = tuple[str, int]


class Spelling(NamedTuple):
    """An attribute for a number of gainprm, biasprm or dynprm.

    Attributes:
        attribute: Its name.
        place: Its component; None for a scalar, which replaces whatever the text says.
        vector: The numbers that all of its components are.
        factor: What one unit of the number makes.
    """

    attribute: str
    place: int | None = None
    vector: tuple[Number, ...] = ()
    factor: float = 1.0


def _each(tag: str, attribute: str, *vector: Number) -> dict[tuple[str, str, int], Spelling]:
    return {(tag, *entry): Spelling(attribute, place, vector) for place, entry in enumerate(vector)}


def _span(name: str, *places: int) -> tuple[Number, ...]:
    return tuple((name, place) for place in places)


_SHORTCUTS: dict[tuple[str, str, int], Spelling] = {
    ('position', 'dynprm', 0): Spelling('timeconst'),
    ('position', 'biasprm', 2): Spelling('kv', factor=-1.0),
    ('intvelocity', 'biasprm', 2): Spelling('kv', factor=-1.0),
    ('orientation', 'biasprm', 2): Spelling('kv', factor=-1.0),
    ('pid', 'biasprm', 2): Spelling('kv', factor=-1.0),
    ('pid', 'biasprm', 1): Spelling('kp', factor=-1.0),
    ('pid', 'gainprm', 0): Spelling('ki'),
    ('pid', 'dynprm', 0): Spelling('imax'),
    ('pid', 'dynprm', 1): Spelling('slewmax'),
    ('damper', 'gainprm', 2): Spelling('kv', factor=-1.0),
    ('cylinder', 'dynprm', 0): Spelling('timeconst'),
    ('cylinder', 'gainprm', 0): Spelling('area'),
    **_each('cylinder', 'bias', *_span('biasprm', 0, 1, 2)),
    ('adhesion', 'gainprm', 0): Spelling('gain'),
    **_each('muscle', 'timeconst', *_span('dynprm', 0, 1)),
    ('muscle', 'dynprm', 2): Spelling('tausmooth'),
    ('dcmotor', 'gainprm', 0): Spelling('resistance'),
    ('dcmotor', 'gainprm', 1): Spelling('motorconst'),
    **_each('dcmotor', 'cogging', *_span('biasprm', 0, 1, 2)),
    **_each('dcmotor', 'lugre', *_span('dynprm', 5, 6), *_span('biasprm', 3, 4, 5)),
    **_each(
        'dcmotor', 'controller', *_span('gainprm', 4, 5, 6), *_span('dynprm', 7, 8), ('gainprm', 7)
    ),
}
#: Position servos whose ``kp`` is gain and bias alike.
_SERVOS = ('position', 'intvelocity', 'orientation')


def spells_gain(tag: str, rewrite: Rewrite, target: Target, row: int) -> tuple[Spelling, ...]:
    """Return what an element writes a gain to; nothing where it has no attribute for that.

    ``row`` is the actuator, or one that takes the value from a class.
    """
    nominal = rewrite.nominal
    attribute, index = target.element_and_attribute[1], target.index or 0
    if attribute == 'kp' and tag in _SERVOS:
        return (Spelling('kp'),)
    if attribute == 'kv' and tag == 'velocity':
        return (Spelling('kv'),)
    # In a PID the position gain is in the bias only; a velocity gain may be gain and bias alike.
    pid = nominal.actuator_gaintype[row] == mujoco.mjtGain.mjGAIN_PID
    drives_velocity = len(target.slots(nominal)) > len(target.rows or (0,))
    numbers: list[tuple[str, int, float]] = {
        'kp': [('biasprm', 1, -1.0)] if pid else [('gainprm', 0, 1.0), ('biasprm', 1, -1.0)],
        'kv': [('biasprm', 2, -1.0), *([('gainprm', 0, 1.0)] if drives_velocity else [])],
        'ki': [('gainprm', 0, 1.0)],
    }.get(attribute, [(attribute, index, 1.0)])
    if tag == 'general':
        return tuple(
            Spelling(name, place, _span(name, *range(10)), factor)
            for name, place, factor in numbers
        )
    found = []
    for name, place, factor in numbers:
        spelling = _SHORTCUTS.get((tag, name, place))
        # A first timeconst would add a filter and its state, which the fit did not have.
        unfiltered = nominal.actuator_dyntype[row] == mujoco.mjtDyn.mjDYN_NONE
        if spelling is None or (unfiltered and spelling.attribute == 'timeconst'):
            return ()
        found.append(spelling._replace(factor=spelling.factor * factor))
    return tuple(found)


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
    row = target.rows[0] if target.rows else target.row
    spellings = spells_gain(element.tag, rewrite, target, row)
    if not spellings:
        attribute = target.element_and_attribute[1]
        what = f'{attribute}[{target.index or 0}]' if attribute in _PARAMETERS else attribute
        raise ModelError(
            f'Cannot write {target.path!r} back: <{element.tag}> has no attribute for '
            f'{what}; write the actuator as <general>.'
        )
    for spelling in spellings:
        written = spelling.factor * value
        if spelling.place is not None:
            vector = [parameters(name)[place] for name, place in spelling.vector]
            set_component(element, spelling.attribute, spelling.place, written, vector)
        elif spelling.attribute == 'kv' and element.get('dampratio') is not None:
            element.rename('dampratio', 'kv', number(written))
        elif spelling.attribute == 'motorconst' and element.get('motorconst'):
            element.set('motorconst', number(written))  # one number is the constant itself
        else:
            set_scalar(element, spelling.attribute, written)
    if element.tag == 'dcmotor' and any(numbers_of(element, 'inductance')[:1]):
        # The electrical time constant, which the model has, would follow the resistance.
        constant = float(rewrite.fitted.actuator_dynprm[row, 0])
        element.set('inductance', join((0.0, constant)))


def write_delay(rewrite: Rewrite, node: Element, target: Target, value: float) -> None:
    """Write a delay as MuJoCo's own, and a note where that is another one."""
    actuator = rewrite.spec.actuator(target.name)
    inherited = actuator.classname.actuator
    timestep = float(rewrite.fitted.opt.timestep)
    wanted = native_delay(value, timestep)
    if wanted.delay:
        set_scalar(node, 'delay', wanted.delay)
        set_scalar(node, 'nsample', max(wanted.nsample, actuator.nsample))
        node.set('interp', 'linear')
    elif actuator.delay:
        for name, none in (('delay', '0'), ('nsample', '0'), ('interp', 'zoh')):
            if getattr(inherited, name):
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
    node = rewrite.source.find('actuator', name, f'actuator/{name}/biasprm')
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


def own_range(rewrite: Rewrite, node: Element, row: int) -> bool:
    """Write the range of an actuator that took it from its joint; return whether it did."""
    name = 'actrange' if node.tag == 'intvelocity' else 'ctrlrange'
    if rewrite.spec.actuators[row].inheritrange <= 0 or node.get(name) is not None:
        return False
    vectors = {
        'actrange': rewrite.fitted.actuator_actrange[row],
        'ctrlrange': rewrite.fitted.actuator_ctrlrange[int(rewrite.fitted.actuator_ctrladr[row])],
    }
    inherited = node.get('inheritrange') is None
    node.rename('inheritrange', name, join(vectors[name]))
    if inherited:
        node.set('inheritrange', '0')
    return True


def pin_actuators(rewrite: Rewrite, written: mujoco.MjModel) -> bool:
    """Pin what the compiler would take from identified values now, but the fit held.

    These are the velocity gains that come from a ``dampratio``, and the ranges that come from
    those of joints.

    Raises:
        ModelError: An actuator cannot be found, as it has no name.
    """
    fitted, pinned = rewrite.fitted, False
    for row, actuator in enumerate(rewrite.spec.actuators):
        prm = actuator.biasprm
        # The parser keeps a damping ratio as a positive biasprm[2] of a position servo.
        pid = actuator.gaintype == mujoco.mjtGain.mjGAIN_PID
        ratio = prm[2] > 0 and (pid or prm[1] == -actuator.gainprm[0])
        if ratio and written.actuator_biasprm[row, 2] != fitted.actuator_biasprm[row, 2]:
            node, name = _node(rewrite, row, 'kv', 'dampratio')
            kv = -float(fitted.actuator_biasprm[row, 2])
            if node.tag in (*_SERVOS, 'pid'):
                node.rename('dampratio', 'kv', number(kv))
            else:
                set_component(node, 'biasprm', 2, -kv, fitted.actuator_biasprm[row])
            rewrite.notes.append(
                f'Actuator {name!r} keeps kv {kv:.6g}, which its dampratio compiled to '
                'before masses, inertias or gains were identified.'
            )
            pinned = True
        control = int(fitted.actuator_ctrladr[row])
        if actuator.inheritrange > 0 and not (
            np.array_equal(written.actuator_ctrlrange[control], fitted.actuator_ctrlrange[control])
            and np.array_equal(written.actuator_actrange[row], fitted.actuator_actrange[row])
        ):
            node, name = _node(rewrite, row, 'range', 'inheritrange')
            own_range(rewrite, node, row)
            rewrite.notes.append(
                f'Actuator {name!r} keeps the range that it took from its joint before that was '
                'identified.'
            )
            pinned = True
    return pinned


def _node(rewrite: Rewrite, row: int, what: str, source: str) -> tuple[Element, str | int]:
    name = mujoco.mj_id2name(rewrite.nominal, mujoco.mjtObj.mjOBJ_ACTUATOR, row)
    nodes = rewrite.source.of_kind('actuator')
    if name:
        return rewrite.source.find('actuator', name, f'actuator/{name}/{what}'), name
    if len(nodes) == rewrite.nominal.nactuator:
        return nodes[row], row
    raise ModelError(f'Cannot keep the {what} of actuator {row}, which has a {source}: name it.')

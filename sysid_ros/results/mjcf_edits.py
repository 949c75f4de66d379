# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How each kind of target is spelled in MJCF."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco

from sysid_ros.errors import ModelError, nearest
from sysid_ros.identification.models import native_delay

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sysid_ros.identification.targets import Target
    from sysid_ros.results.mjcf_source import Node, Source

#: What can be written into the text of a model.
WRITABLE = {
    'joint': ('armature', 'damping', 'frictionloss', 'stiffness', 'springref', 'margin'),
    'body': ('mass',),
    'geom': ('friction',),
    'actuator': ('kp', 'kv', 'gear', 'gainprm', 'biasprm', 'dynprm', 'delay'),
    'option': ('gravity',),
}
_NUMBER = re.compile(r'\S+')
#: ``mjsCompiler.inertiafromgeom`` as ``true``: geoms override every ``<inertial>``.
_INERTIA_ALWAYS_FROM_GEOMS = 1


@dataclass(frozen=True)
class _Spelling:
    """An attribute of a shortcut, for one component of gainprm, biasprm or dynprm."""

    attribute: str
    index: int | None = None
    size: int = 1
    factor: float = 1.0


_SHORTCUTS: dict[tuple[str, str, int], _Spelling] = {
    ('position', 'dynprm', 0): _Spelling('timeconst'),
    ('position', 'biasprm', 2): _Spelling('kv', factor=-1.0),
    ('intvelocity', 'biasprm', 2): _Spelling('kv', factor=-1.0),
    ('pid', 'biasprm', 2): _Spelling('kv', factor=-1.0),
    ('pid', 'biasprm', 1): _Spelling('kp', factor=-1.0),
    ('damper', 'gainprm', 2): _Spelling('kv', factor=-1.0),
    ('cylinder', 'dynprm', 0): _Spelling('timeconst'),
    ('cylinder', 'gainprm', 0): _Spelling('area'),
    ('cylinder', 'biasprm', 0): _Spelling('bias', 0, size=3),
    ('cylinder', 'biasprm', 1): _Spelling('bias', 1, size=3),
    ('cylinder', 'biasprm', 2): _Spelling('bias', 2, size=3),
    ('adhesion', 'gainprm', 0): _Spelling('gain'),
    ('muscle', 'dynprm', 0): _Spelling('timeconst', 0, size=2),
    ('muscle', 'dynprm', 1): _Spelling('timeconst', 1, size=2),
    ('muscle', 'dynprm', 2): _Spelling('tausmooth'),
}


def number(value: float) -> str:
    """Write a number with the fewest digits that read back as the same double."""
    return repr(float(value)).removesuffix('.0')


@dataclass(frozen=True)
class Editor:
    """Writes values into the text of a model.

    Attributes:
        source: The text.
        spec: The model as parsed.
        nominal: The model as compiled before any change.
        notes: Filled with what a reader of the new files must know.
    """

    source: Source
    spec: mujoco.MjSpec
    nominal: mujoco.MjModel
    notes: list[str]

    def write(self, values: Iterable[tuple[Target, float]]) -> None:
        """Write values.

        Args:
            values: What is written, with rows of ``nominal``, and the values in SI units.

        Raises:
            ModelError: The text cannot hold a value.
        """
        gravity: dict[int, float] = {}
        for target, value in values:
            if target.in_model and target.read(self.nominal) == value:
                continue
            if target.attribute not in WRITABLE.get(target.element, ()):
                known = [
                    f'{element}/{name}' for element, names in WRITABLE.items() for name in names
                ]
                hint = nearest(f'{target.element}/{target.attribute}', known)
                msg = f'Cannot write {target.path!r} back into MJCF text; {hint}.'
                raise ModelError(msg)
            if target.element == 'option':
                gravity[target.index or 0] = value
            else:
                self._write_named(target, value)
        if gravity:
            self._gravity(gravity)

    def _write_named(self, target: Target, value: float) -> None:
        node = self.source.find(target.element, target.name, target.path)
        if target.element == 'joint':
            self._joint(node, target, value)
        elif target.element == 'body':
            self._mass(node, target, value)
        elif target.element == 'geom':
            self._component(node, target, value, self.nominal.geom_friction[target.row], least=3)
        else:
            self._actuator(node, target, value)

    def pin_kv(self, actuator: int) -> None:
        """Replace an actuator's ``dampratio`` by the velocity gain that it compiles to."""
        name = mujoco.mj_id2name(self.nominal, mujoco.mjtObj.mjOBJ_ACTUATOR, actuator)
        nodes = self.source.of_kind('actuator')
        if name:
            node = self.source.find('actuator', name, f'actuator/{name}/kv')
        elif len(nodes) == self.nominal.nactuator:
            node = nodes[actuator]
        else:
            msg = f'Cannot keep the kv of actuator {actuator}, which has a dampratio: name it.'
            raise ModelError(msg)
        kv = -float(self.nominal.actuator_biasprm[actuator, 2])
        if node.tag in ('position', 'intvelocity', 'pid'):
            node.document.rename(node.index, 'dampratio', 'kv', number(kv))
        else:
            set_component(node, 'biasprm', 2, -kv, self.nominal.actuator_biasprm[actuator])
        self.notes.append(
            f'Actuator {name or actuator!r} keeps kv {kv:.6g}, which its dampratio compiled to '
            'before masses, inertias or gains were identified.'
        )

    def _gravity(self, components: dict[int, float]) -> None:
        options = [node for node in self.source.nodes if node.tag == 'option']
        if options:
            # The last one that sets an attribute wins.
            holders = [node for node in options if node.get('gravity') is not None]
            for index, value in components.items():
                node = (holders or options)[-1]
                set_component(node, 'gravity', index, value, self.nominal.opt.gravity, least=3)
            return
        vector = self.nominal.opt.gravity.copy()
        for index, value in components.items():
            vector[index] = value
        root = self.source.nodes[0]
        root.document.insert_child(root.index, f'<option gravity="{_join(vector)}"/>')

    def _joint(self, node: Node, target: Target, value: float) -> None:
        dof = int(self.nominal.jnt_dofadr[target.row])
        if target.attribute == 'damping':
            rest = self.nominal.dof_dampingpoly[dof]
            self._component(node, target, value, (self.nominal.dof_damping[dof], *rest))
        elif target.attribute == 'stiffness':
            rest = self.nominal.jnt_stiffnesspoly[target.row]
            self._component(node, target, value, (self.nominal.jnt_stiffness[target.row], *rest))
        elif target.attribute == 'springref':
            hinge = self.nominal.jnt_type[target.row] == mujoco.mjtJoint.mjJNT_HINGE
            degrees = hinge and self.spec.compiler.degree
            set_scalar(node, 'springref', math.degrees(value) if degrees else value)
        else:
            set_scalar(node, target.attribute, value)

    def _mass(self, node: Node, target: Target, value: float) -> None:
        compiler = self.spec.compiler
        if compiler.inertiafromgeom == _INERTIA_ALWAYS_FROM_GEOMS:
            msg = (
                f'Cannot write {target.path!r} back: expected compiler inertiafromgeom "auto" or '
                '"false", found "true", which overrides every <inertial>.'
            )
            raise ModelError(msg)
        if compiler.settotalmass > 0:
            msg = (
                f'Cannot write {target.path!r} back: compiler settotalmass would scale it; '
                'remove settotalmass.'
            )
            raise ModelError(msg)
        inertial = self.source.inertial(node)
        if inertial is not None:
            set_scalar(inertial, 'mass', value)
            return
        row, model = target.row, self.nominal
        node.document.insert_child(
            node.index,
            f'<inertial pos="{_join(model.body_ipos[row])}" quat="{_join(model.body_iquat[row])}" '
            f'mass="{number(value)}" diaginertia="{_join(model.body_inertia[row])}"/>',
        )
        self.notes.append(
            f'Body {target.name!r} has an <inertial> now: its mass came from its geoms, and its '
            'inertia is held at what they gave.'
        )

    def _actuator(self, node: Node, target: Target, value: float) -> None:
        row, index = target.row, target.index or 0
        gain, bias = self.nominal.actuator_gainprm[row], self.nominal.actuator_biasprm[row]
        if target.attribute == 'delay':
            self._delay(node, target, value)
        elif target.attribute == 'gear':
            self._component(node, target, value, self.nominal.actuator_gear[row])
        elif target.attribute == 'kp' and node.tag in ('position', 'intvelocity'):
            set_scalar(node, 'kp', value)
        elif target.attribute == 'kp' and node.tag == 'general':
            set_component(node, 'gainprm', 0, value, gain)
            set_component(node, 'biasprm', 1, -value, bias)
        elif target.attribute == 'kv' and node.tag == 'velocity':
            set_scalar(node, 'kv', value)
        elif target.attribute == 'kv' and node.tag == 'general':
            set_component(node, 'biasprm', 2, -value, bias)
            if len(target.slots(self.nominal)) > 1:
                set_component(node, 'gainprm', 0, value, gain)
        elif target.attribute in ('kp', 'kv'):
            self._shortcut(node, target, -value, 'biasprm', {'kp': 1, 'kv': 2}[target.attribute])
        elif node.tag == 'general':
            vector = getattr(self.nominal, f'actuator_{target.attribute}')[row]
            self._component(node, target, value, vector)
        else:
            self._shortcut(node, target, value, target.attribute, index)

    def _shortcut(
        self, node: Node, target: Target, value: float, parameter: str, index: int
    ) -> None:
        """Write a component of ``gainprm``, ``biasprm`` or ``dynprm`` of a shortcut."""
        spelling = _SHORTCUTS.get((node.tag, parameter, index))
        dynamics = self.nominal.actuator_dyntype[target.row]
        if spelling is None or (
            # A first timeconst would add a filter and its state, which the fit did not have.
            spelling.attribute == 'timeconst' and dynamics == mujoco.mjtDyn.mjDYN_NONE
        ):
            msg = (
                f'Cannot write {target.path!r} back: <{node.tag}> has no attribute for '
                f'{parameter}[{index}]; write the actuator as <general>.'
            )
            raise ModelError(msg)
        written = spelling.factor * value
        if spelling.index is not None:
            vector = getattr(self.nominal, f'actuator_{parameter}')[target.row]
            vector = vector[: spelling.size]
            set_component(node, spelling.attribute, spelling.index, written, vector)
        elif spelling.attribute == 'kv' and node.get('dampratio') is not None:
            node.document.rename(node.index, 'dampratio', 'kv', number(written))
        else:
            set_scalar(node, spelling.attribute, written)

    def _delay(self, node: Node, target: Target, value: float) -> None:
        actuator = self.spec.actuator(target.name)
        inherited = actuator.classname.actuator
        timestep = float(self.nominal.opt.timestep)
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
            self.notes.append(
                f'Actuator {target.name!r} has an identified delay of {value:.6g} s; MuJoCo '
                f'simulates {wanted.effective:.6g} s at a timestep of {timestep:.6g} s.'
            )

    def _component(
        self, node: Node, target: Target, value: float, vector: Iterable[float], least: int = 1
    ) -> None:
        set_component(node, target.attribute, target.index or 0, value, vector, least)


def set_scalar(node: Node, name: str, value: float) -> None:
    """Write a number, unless the text says the same number already."""
    text = node.get(name)
    if text is None or not _same(text, value):
        node.set(name, number(value))


def set_component(
    node: Node, name: str, index: int, value: float, nominal: Iterable[float], least: int = 1
) -> None:
    """Write one component of a vector attribute and leave the others' text.

    Args:
        node: The element.
        name: The attribute.
        index: The component.
        value: Its value.
        nominal: The whole vector, for components that the text leaves to defaults.
        least: The attribute needs at least so many components.
    """
    vector = [float(entry) for entry in nominal]
    text = node.get(name)
    if text is None:
        used = [place for place, entry in enumerate(vector) if entry != 0]
        vector[index] = value
        count = max(index + 1, least, *(place + 1 for place in used))
        node.set(name, _join(vector[:count]))
        return
    numbers = list(_NUMBER.finditer(text))
    if index < len(numbers):
        match = numbers[index]
        if not _same(match[0], value):
            node.set(name, text[: match.start()] + number(value) + text[match.end() :])
        return
    added = [*vector[len(numbers) : index], value]
    node.set(name, f'{text.rstrip()} {_join(added)}'.lstrip())


def _same(text: str, value: float) -> bool:
    try:
        return float(text) == value
    except ValueError:
        return False


def _join(values: Iterable[float]) -> str:
    return ' '.join(number(value) for value in values)

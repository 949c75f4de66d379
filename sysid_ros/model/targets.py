# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The unknowns of an identification, and the targets: the numbers of a model that they write.

A target is one numeric attribute of one named MJCF element, written as a path,
``element/name/attribute`` with an optional index: ``joint/elbow/armature``, ``actuator/a1/kp``,
``geom/foot/friction[0]``, ``option/gravity[2]``, ``default/leg/joint/damping``,
``sequence/run_1/initial_qpos[3]``.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.schema import Scale
from sysid_ros.errors import ParameterError, nearest
from sysid_ros.model.elements import OBJECTS, SCALAR_JOINTS, element_names, object_id, subtree
from sysid_ros.model.inertia import Inertial, theta_from_body
from sysid_ros.model.kinds import (
    KINDS,
    MJCF_NAMES,
    Coupling,
    Kind,
    Role,
    Slot,
    kind_of,
    read_field,
    spec_attributes,
    spec_name,
)
from sysid_ros.signals import Trajectory

#: Attributes that MJCF gives in degrees where ``compiler/angle`` says so, of joints that turn.
ANGLES = frozenset({'range', 'ref', 'springref', 'zero'})
TURNING = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_BALL)
#: Elements whose attributes default classes hold.
_OF_CLASSES = ('joint', 'geom', 'site', 'pair', 'tendon', 'equality', 'actuator')
#: The lists of a spec that hold all elements of a kind.
LISTS = {
    **{element: f'{element}s' for element in (*_OF_CLASSES, 'sensor')},
    'body': 'bodies',
    'equality': 'equalities',
}
_MAIN = 'main'
#: What kp, kv and ki are in a spec: array and component.
_GAINS = {'kp': ('gainprm', 0), 'kv': ('biasprm', 2), 'ki': ('gainprm', 0)}
_PATH = re.compile(
    r'^(?P<element>[a-z]+)/(?:(?P<name>.+)/)?(?P<attribute>[A-Za-z][A-Za-z0-9_]*)'
    r'(?:\[(?P<index>\d+|\*|\d*:\d*)\])?$'
)
_ELEMENTS = (*OBJECTS, 'option', 'default', 'sequence')
_SLIDE = mujoco.mjtJoint.mjJNT_SLIDE


@dataclass(frozen=True)
class Target:
    """One scalar that a parameter writes."""

    element: str  # of MJCF; ``default`` for a class, ``sequence`` for the start of a run
    name: str  # of the element, class or sequence; empty for ``option``
    attribute: str  # as in MJCF; with its element, ``joint/damping``, for a class
    index: int | None  # component of a vector; None for a scalar, or for all alike
    row: int  # id of the element in the compiled model; -1 where it has none
    unit: str
    #: Elements that take the value from a class: their ids in the compiled model, or, where the
    #: model has to be compiled again, their positions in the spec.
    rows: tuple[int, ...] = ()
    #: The value of what no compiled model holds, where it is known.
    start: float | None = field(default=None, compare=False)

    @property
    def element_and_attribute(self) -> tuple[str, str]:
        """The element that has the attribute, and the attribute: those of a class, split."""
        if self.element == 'default':
            element, _, attribute = self.attribute.partition('/')
            return element, attribute
        return self.element, self.attribute

    @property
    def kind(self) -> Kind:
        """The kind of target."""
        kind = kind_of(*self.element_and_attribute)
        if kind is None:
            raise ParameterError(f'Target {self.path!r} is of no kind that a parameter can write.')
        return kind

    @property
    def path(self) -> str:
        """The target as it is written in a configuration file."""
        name = f'{self.name}/' if self.name else ''
        index = '' if self.index is None else f'[{self.index}]'
        return f'{self.element}/{name}{self.attribute}{index}'

    @property
    def role(self) -> Role:
        """Where the value acts."""
        return self.kind.role

    @property
    def bounds(self) -> tuple[float, float]:
        """What physics allows."""
        return self.kind.component_bounds(self.index or 0)

    @property
    def in_model(self) -> bool:
        """Whether the value is a field of the compiled model."""
        return self.role is Role.FIELD

    @property
    def in_mjcf(self) -> bool:
        """Whether a model can hold the value: states, gains of signals and laws, it cannot."""
        delay = self.role is Role.COMMAND and self.attribute == 'delay'
        return delay or self.role in (Role.FIELD, Role.SPEC)

    def slots(self, model: mujoco.MjModel) -> list[Slot]:
        """Return the numbers of a compiled model that follow the value linearly."""
        kind = self.kind
        if kind.slots is None:
            return []
        if self.index is None and kind.bare == 'all':
            indices = range(kind.components(model, self.row))
        else:
            indices = range(self.index or 0, (self.index or 0) + 1)
        rows = self.rows if self.element == 'default' else (self.row,)
        return [slot for row in rows for i in indices for slot in kind.slots(model, row, i)]

    def fields(self, model: mujoco.MjModel) -> set[str]:
        """Return the fields of a compiled model in which the value alone decides numbers."""
        if self.kind.coupling is Coupling.TURN:
            return {f'{self.element}_quat'}
        return {slot.field for slot in self.slots(model)}

    def claims(self, model: mujoco.MjModel) -> dict[tuple[str, int], str]:
        """Return which numbers of a model the value decides, and in whose name.

        Two targets may decide one number, a field and a flat index, together in the same name only:
        components of one inertia, or factors of nested subtrees.
        """
        kind = self.kind
        if kind.coupling is None:
            return {(slot.field, slot.place): self.path for slot in self.slots(model)}
        theta, whole = kind.coupling is Coupling.THETA, self.path.partition('[')[0]
        if kind.coupling is Coupling.TURN:
            places = range(4 * self.row, 4 * self.row + 4)
            return {(f'{self.element}_quat', place): whole for place in places}
        bodies = (self.row,) if theta else subtree(model, self.row)
        fields = {'body_mass': 1, 'body_inertia': 3} | ({'body_ipos': 3} if theta else {})
        name = whole if theta else self.attribute
        return {
            (field, width * body + axis): name
            for body in bodies
            for field, width in fields.items()
            for axis in range(width)
        }

    def read(self, model: mujoco.MjModel) -> float:
        """Return the value that a model has now, or that changes nothing.

        A number of a servo's law, or one that only the spec could tell, is a ParameterError.
        """
        kind = self.kind
        if kind.coupling is Coupling.THETA:
            theta = theta_from_body(*Inertial.of_body(model, self.row))
            return float(theta[self.index or 0])
        slots = self.slots(model)
        if slots:
            return float(read_field(model, slots[0].field)[slots[0].place]) / slots[0].factor
        if self.start is not None:
            return self.start
        if self.attribute == 'delay':
            delays = model.actuator_delay if self.element == 'actuator' else model.sensor_delay
            return float(delays[self.row])
        if kind.role in (Role.SPEC, Role.LAW):
            raise ParameterError(
                f'The model gives no value for {self.path!r}: expected an initial value.'
            )
        if self.attribute == 'initial_qpos':
            return float(model.qpos0[self.index or 0])
        return kind.nominal


def _spec_component(element: str, attribute: str, index: int) -> tuple[str, int]:
    """Return the array of a spec that holds a component of an attribute, and where."""
    if element == 'actuator' and attribute in _GAINS:
        return _GAINS[attribute]
    return spec_name(element, attribute), index


def read_spec(spec: mujoco.MjSpec, target: Target) -> float | None:
    """Return the value of a target in a spec, in its unit; None where the spec leaves it open."""
    name, index = _spec_component(*target.element_and_attribute, target.index or 0)
    owner = _elements(spec, target)[0]
    value = float(np.ravel(getattr(owner, name))[index])
    return value * _unit_in_spec(spec, owner, name) if np.isfinite(value) else None


def write_spec(spec: mujoco.MjSpec, target: Target, value: float) -> None:
    """Set the value of a target, in its unit, in a spec, which has to be compiled again."""
    name, index = _spec_component(*target.element_and_attribute, target.index or 0)
    for owner in _elements(spec, target):
        written = value / _unit_in_spec(spec, owner, name)
        if isinstance(getattr(owner, name), np.ndarray):
            getattr(owner, name)[index] = written
        else:
            setattr(owner, name, written)


def _elements(spec: mujoco.MjSpec, target: Target) -> list[Any]:
    element, _ = target.element_and_attribute
    if element == 'option':
        return [spec.option]
    if target.element == 'default':
        every = getattr(spec, LISTS[element])
        return [every[position] for position in target.rows]
    found = getattr(spec, element)(target.name)
    if found is None:
        raise ParameterError(
            f'Expected {element} {target.name!r} of target {target.path!r} in the spec, found none.'
        )
    return [found]


def _unit_in_spec(spec: mujoco.MjSpec, owner: Any, name: str) -> float:
    """Return what one unit in the spec is in SI units."""
    turns = isinstance(owner, mujoco.MjsJoint) and owner.type in TURNING and name in ANGLES
    return float(np.pi / 180) if turns and spec.compiler.degree else 1.0


def _followers(
    spec: mujoco.MjSpec, class_name: str, element: str, attribute: str, index: int
) -> tuple[int, ...]:
    """Find the elements that take one component of an attribute from a class.

    An ``mjSpec`` applies classes when it reads an element, and forgets which attributes the element
    had of its own. So the class is changed in the text that the spec writes, the text is read again
    (which loads no assets), and the positions of the elements that changed are returned, whatever
    the inheritance between classes. An element that repeats its class's value counts, too.
    """
    if element not in _OF_CLASSES:
        raise ParameterError(
            f'Default classes hold no attributes of a {element}; {nearest(element, _OF_CLASSES)}.'
        )
    name, component = _spec_component(element, attribute, index)
    # With degrees, MuJoCo 4.0 would write elements in radians but classes not: none would follow.
    radians = spec.copy()
    radians.compiler.degree = False
    text = str(radians.to_xml())
    before = mujoco.MjSpec.from_string(text)
    values = np.ravel(getattr(getattr(before.find_default(class_name), element), name)).copy()
    values[component] = values[component] + 1.0 if np.isfinite(values[component]) else 1.0
    try:
        after = mujoco.MjSpec.from_string(_changed(text, class_name, element, name, values))
    except ValueError as err:
        raise ParameterError(
            f'Default classes hold no attribute {attribute!r} of {element}.'
        ) from err
    pairs = zip(getattr(before, LISTS[element]), getattr(after, LISTS[element]), strict=True)
    found = tuple(
        position
        for position, (old, new) in enumerate(pairs)
        if _component(old, name, component) != _component(new, name, component)
    )
    if not found:
        raise ParameterError(
            f'No {element} takes {attribute} from the default class {class_name!r}.'
        )
    return found


def _component(owner: Any, name: str, component: int) -> float | None:
    value = float(np.ravel(getattr(owner, name))[component])
    return value if np.isfinite(value) else None


def _changed(
    text: str, class_name: str, element: str, name: str, values: NDArray[np.float64]
) -> str:
    """Return the text of a model with another value in a class."""
    root = ET.fromstring(text)  # noqa: S314 (written by MuJoCo from a spec in memory)
    holder = next((e for e in root.iter('default') if e.get('class', _MAIN) == class_name), None)
    if holder is None:  # the main class without any attributes is not written
        holder = ET.Element('default')
        root.insert(0, holder)
    kind = 'general' if element == 'actuator' else element
    tag = holder.find(kind)
    if tag is None:
        tag = ET.SubElement(holder, kind)
    tag.set(MJCF_NAMES.get(name, name), ' '.join(repr(float(value)) for value in values))
    return ET.tostring(root, encoding='unicode')


class _Path(NamedTuple):
    """A path, taken apart: of a class, the element and attribute are those that it gives."""

    pattern: str
    owner: str
    element: str
    name: str
    attribute: str
    indices: str | None
    kind: Kind


def of_sequence(path: str) -> bool:
    """Whether a target, as it is written, is of a sequence: known only when the bags were read."""
    return path.partition('/')[0] == 'sequence'


def resolve(
    pattern: str,
    model: mujoco.MjModel,
    sequences: Iterable[str | Trajectory] = (),
    spec: mujoco.MjSpec | None = None,
) -> tuple[Target, ...]:
    """Find every target that a path or pattern names, in model order.

    Args:
        pattern: A path; its name may hold shell wildcards: ``joint/*/armature``. An index may be a
            number, a range as in Python (``[0:3]``) or ``[*]``. Without one, a vector attribute
            means its first component, or each of them where they belong together: ``inertia``,
            ``ipos``, ``mass_ipos``, ``pos``, ``quat``, a sensor's ``bias`` and initial states.
        model: The compiled model.
        sequences: The runs whose starts can be named; those given as objects say what it is.
        spec: What the model was compiled from: needed for default classes, and for the values of
            attributes that only the compiler sees.

    Raises:
        ParameterError: The path is malformed, or nothing in the model matches it.
    """
    path = _split(pattern)
    if path.owner == 'default':
        return _of_classes(path, model, spec)
    if path.owner == 'option':
        found = _indexed(path, Target('option', '', path.attribute, None, 0, ''), model)
        return tuple(_with_start(target, spec) for target in found)
    runs = {run if isinstance(run, str) else run.name: run for run in sequences}
    names = list(runs) if path.owner == 'sequence' else element_names(model, path.element)
    targets: list[Target] = []
    refused: list[str] = []
    for name in _matching(path, names):
        row = -1 if path.owner == 'sequence' else object_id(model, path.element, name)
        bare = Target(path.owner, name, path.attribute, None, row, '')
        for target in _indexed(path, bare, model):
            needs = path.kind.needs
            complaint = needs(model, row, target.index or 0) if needs else None
            if complaint:
                refused.append(f'{path.element} {name!r} is not {complaint}')
            elif path.owner == 'sequence':
                state = getattr(runs[name], target.attribute, None)
                start = None if state is None else float(state[target.index or 0])
                targets.append(dataclasses.replace(target, start=start))
            else:
                targets.append(_with_start(target, spec))
    if not targets:
        reason = refused[0] if refused else f'{path.attribute} has no components here'
        raise ParameterError(f'Target {pattern!r} cannot be used: {reason}.')
    return tuple(targets)


def _split(pattern: str) -> _Path:
    match = _PATH.match(pattern)
    owner = match['element'] if match else ''
    if owner and owner not in _ELEMENTS:
        raise ParameterError(
            f'Unknown element {owner!r} in target {pattern!r}; {nearest(owner, _ELEMENTS)}.'
        )
    name, element = (match['name'], owner) if match else (None, '')
    if owner == 'default' and name is not None:
        name, _, element = name.rpartition('/')
    if match is None or bool(name) == (owner == 'option'):
        example = 'default/CLASS/joint/damping' if owner == 'default' else 'joint/elbow/armature'
        raise ParameterError(
            f'Expected a target such as {example} or option/gravity[2], got {pattern!r}.'
        )
    kind = kind_of(element, match['attribute'])
    if kind is None:
        known = [attribute for other, attribute in KINDS if other == element]
        others = [name for name in spec_attributes(element) if name not in known]
        hint = nearest(match['attribute'], known + others, 9)
        raise ParameterError(
            f'Unknown attribute {match["attribute"]!r} in target {pattern!r}; {hint}.'
        )
    return _Path(pattern, owner, element, name or '', match['attribute'], match['index'], kind)


def _matching(path: _Path, names: list[str]) -> list[str]:
    exact = [name for name in names if name == path.name]  # a name may hold brackets
    found = exact or [name for name in names if fnmatch.fnmatchcase(name, path.name)]
    if not found:
        what = 'default class' if path.owner == 'default' else path.element
        hint = nearest(path.name, names)
        raise ParameterError(f'No {what} matches {path.name!r} in target {path.pattern!r}; {hint}.')
    return found


def _indexed(path: _Path, bare: Target, model: mujoco.MjModel) -> Iterator[Target]:
    """Give a target the indices that its path means, each with its unit."""
    row = bare.rows[0] if bare.rows else bare.row
    size = path.kind.components(model, row)
    for index in _indices(path, size):
        hidden = size == 1 or (path.kind.scalar and index == 0)
        unit = _unit(path, model, row, index or 0)
        yield dataclasses.replace(bare, index=None if hidden else index, unit=unit)


def _indices(path: _Path, size: int) -> Iterable[int | None]:
    text, kind = path.indices, path.kind
    if text is None:
        if size == 1:
            return (0,)
        return {'first': (0,), 'each': range(size), 'all': (None,)}[kind.bare]
    if text == '*':
        return range(size)
    if ':' in text:
        low, high = (int(part) if part else None for part in text.split(':'))
        chosen = range(size)[low:high]
    else:
        chosen = range(size)[int(text) : int(text) + 1]
    if not chosen:
        raise ParameterError(f'Target {path.pattern!r} has index {text}, expected 0 to {size - 1}.')
    return chosen


def _unit(path: _Path, model: mujoco.MjModel, row: int, index: int) -> str:
    """Return the unit of a component: of a joint, or of a state, it depends on the joint."""
    kind, joint = path.kind, row
    if path.element == 'sequence':
        if path.attribute not in ('initial_qpos', 'initial_qvel'):
            return kind.component_unit(0)
        of_position = path.attribute == 'initial_qpos'
        starts = model.jnt_qposadr if of_position else model.jnt_dofadr
        joint = max(joint for joint in range(model.njnt) if starts[joint] <= index)
        free_part = index - int(starts[joint])
        if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE and free_part < 3:  # noqa: PLR2004
            return kind.component_unit(0, slide=True)
        if of_position and model.jnt_type[joint] not in SCALAR_JOINTS:
            return '1'  # of a quaternion
    elif path.element != 'joint' or path.owner == 'default':
        return kind.component_unit(index)
    component = 0 if path.element == 'sequence' else index
    return kind.component_unit(component, slide=bool(model.jnt_type[joint] == _SLIDE))


def _with_start(target: Target, spec: mujoco.MjSpec | None) -> Target:
    if spec is None or target.role is not Role.SPEC:
        return target
    return dataclasses.replace(target, start=read_spec(spec, target))


def _of_classes(
    path: _Path, model: mujoco.MjModel, spec: mujoco.MjSpec | None
) -> tuple[Target, ...]:
    if spec is None:
        raise ParameterError(
            f'Target {path.pattern!r} needs the spec that the model was compiled from.'
        )
    if path.kind.role not in (Role.FIELD, Role.SPEC) or path.kind.coupling is not None:
        raise ParameterError(f'Target {path.pattern!r} is no attribute of a default class.')
    root = ET.fromstring(spec.to_xml())  # noqa: S314 (written by MuJoCo from a spec in memory)
    names = dict.fromkeys([_MAIN, *(entry.get('class', _MAIN) for entry in root.iter('default'))])
    found: list[Target] = []
    refused: list[ParameterError] = []
    for name in _matching(path, list(names)):
        try:
            found += _of_class(path, name, model, spec)
        except ParameterError as err:
            refused.append(err)
    if refused and not found:
        raise refused[0]
    return tuple(found)


def _of_class(path: _Path, name: str, model: mujoco.MjModel, spec: mujoco.MjSpec) -> list[Target]:
    attribute, needs = f'{path.element}/{path.attribute}', path.kind.needs
    made: list[Target] = []
    for bare in _indexed(path, Target('default', name, attribute, None, -1, ''), model):
        index = bare.index or 0
        positions = _followers(spec, name, path.element, path.attribute, index)
        if path.kind.role is Role.SPEC:
            made.append(_with_start(dataclasses.replace(bare, rows=positions), spec))
            continue
        compiled = spec.copy()
        compiled.compile()
        every = getattr(compiled, LISTS[path.element])
        rows = [int(every[position].id) for position in positions]
        complaints = [needs(model, row, index) if needs else None for row in rows]
        fitting = [row for row, complaint in zip(rows, complaints, strict=True) if not complaint]
        if not fitting:
            raise ParameterError(
                f'Target {path.pattern!r} cannot be used: no {path.element} is {complaints[0]}.'
            )
        slide = path.element == 'joint' and model.jnt_type[fitting[0]] == _SLIDE
        unit = path.kind.component_unit(index, slide=bool(slide))
        made.append(dataclasses.replace(bare, rows=tuple(fitting), unit=unit))
    return made


#: Where neither user nor physics bounds a parameter, it may reach this multiple of its start.
_OPEN_BOUND_FACTOR = 100.0


@dataclass(frozen=True)
class Unknown:
    """One scalar unknown: a value, its bounds and what it writes, all in the targets' unit."""

    name: str  # unique
    targets: tuple[Target, ...]  # at least one, all of the same unit
    nominal: float  # start value
    min_value: float  # finite
    max_value: float  # finite
    #: Whether the solver moves the value itself or, for positive values that may be wrong by a
    #: factor, its logarithm.
    scale: Scale = 'linear'
    prior: tuple[float, float] | None = None  # mean and standard deviation known before the fit
    #: Of a delay, between which delays the command acts that forces are read under; None where the
    #: delay itself says which.
    in_force: tuple[float, float] | None = None

    @property
    def unit(self) -> str:
        """SI unit of the value."""
        return self.targets[0].unit

    @property
    def of_single_runs(self) -> bool:
        """Whether it describes single runs, as where they start, rather than the robot."""
        return bool(self.targets) and all(t.role is Role.SEQUENCE for t in self.targets)


@dataclass(frozen=True)
class Scope:
    """Where the targets of a pattern are looked for."""

    model: mujoco.MjModel  # nominal
    spec: mujoco.MjSpec | None = None  # what it was compiled from, for what the compiler reads
    sequences: Sequence[str | Trajectory] = ()  # runs whose starts can be named
    #: Start and bounds of targets that no model holds; None for others.
    usual: Callable[[Target], tuple[float, float, float] | None] = lambda _: None


def make_unknowns(
    pattern: str,
    scope: Scope | mujoco.MjModel,
    *,
    name: str | None = None,
    initial: float | None = None,
    bounds: tuple[float, float] | None = None,
    shared: bool = False,
    scale: Scale = 'linear',
    prior: tuple[float | None, float] | None = None,
) -> tuple[Unknown, ...]:
    """Turn a target or a pattern of targets into parameters.

    Args:
        pattern: Target path, with wildcards for several.
        scope: Where it is looked for; a compiled model is enough for its own numbers.
        name: Name of the parameter; with several elements, a prefix of their names, and with
            several components of each, followed by the index. The default is the target's path.
        initial: Start value; the default is the model's.
        bounds: Lower and upper bound; the default is what physics allows.
        shared: One parameter for all matching elements instead of one for each; components of a
            vector stay apart.
        scale: Whether the solver moves the value or its logarithm.
        prior: Mean and standard deviation of what is known before the fit; a mean of None is the
            start value.

    Raises:
        ParameterError: Nothing matches, matches of different units are shared, bounds are
            reversed, the start is outside of them, a value on a log scale can be negative or starts
            at zero, or the standard deviation of a prior is not positive.
    """
    where = scope if isinstance(scope, Scope) else Scope(scope)
    targets = resolve(pattern, where.model, where.sequences, where.spec)
    elements = list(dict.fromkeys(target.name for target in targets))
    vector = len(targets) > len(elements)
    groups: dict[str, list[Target]] = {}
    for target in targets:
        index = f'[{target.index or 0}]' if vector else ''
        label = target.path
        if shared:
            stem = pattern[: pattern.rindex('[')] if vector and pattern.endswith(']') else pattern
            label = f'{name or stem}{index}'
        elif name is not None:
            label = f'{name}{index}' if len(elements) == 1 else f'{name}/{target.name}{index}'
        groups.setdefault(label, []).append(target)
    found = []
    for label, group in groups.items():
        units = list(dict.fromkeys(target.unit for target in group))
        if len(units) > 1:
            raise ParameterError(
                f'The matches of {pattern!r} cannot share a value of different units: '
                f'{", ".join(units)}.'
            )
        start, limits, usual = initial, bounds, where.usual(group[0])
        if usual is not None:
            start = usual[0] if start is None else start
            limits = limits or (min(usual[1], start), max(usual[2], start))
        if start is None:
            nominal = float(sum(target.read(where.model) for target in group) / len(group))
        else:
            nominal = float(start)
        low, high = limits or _default_bounds(group[0], nominal, scale)
        known = None if prior is None else (nominal if prior[0] is None else prior[0], prior[1])
        unknown = Unknown(label, tuple(group), nominal, low, high, scale, known)
        _check_values(unknown, "the model's value" if start is None else 'initial')
        found.append(unknown)
    return tuple(found)


def _check_values(unknown: Unknown, origin: str) -> None:
    """Check start, bounds and prior of an unknown; ``origin`` says where its start is from."""
    name, nominal = unknown.name, unknown.nominal
    low, high = unknown.min_value, unknown.max_value
    least, most = unknown.targets[0].bounds
    mean, deviation = unknown.prior or (0.0, 1.0)
    if not (math.isfinite(low) and math.isfinite(high) and math.isfinite(nominal)):
        wrong = (
            f'Parameter {name!r} needs finite bounds and start, got [{low:g}, {high:g}] and '
            f'{nominal}.'
        )
    elif low >= high:
        wrong = (
            f'The bounds of parameter {name!r} are reversed: expected lower < upper, got '
            f'[{low:g}, {high:g}].'
        )
    elif low < least or high > most:
        wrong = (
            f'The bounds [{low:g}, {high:g}] of parameter {name!r} leave what is physical: '
            f'[{least:g}, {most:g}].'
        )
    elif not low <= nominal <= high:
        wrong = (
            f'Parameter {name!r} starts at {nominal:g} ({origin}), outside its bounds '
            f'[{low:g}, {high:g}].'
        )
    elif unknown.scale == 'log' and (low < 0 or nominal <= 0):
        wrong = (
            f'Parameter {name!r} has a log scale: expected bounds of 0 or more and a start above '
            f'0, got [{low:g}, {high:g}] and {nominal:g}.'
        )
    elif not (math.isfinite(mean) and 0 < deviation < math.inf):
        wrong = (
            f'The prior of parameter {name!r} needs a finite mean and a standard deviation above '
            f'0, got {mean:g} and {deviation:g}.'
        )
    else:
        return
    raise ParameterError(wrong)


def _default_bounds(target: Target, nominal: float, scale: Scale) -> tuple[float, float]:
    """Return bounds for a parameter that has none: what physics allows, made finite."""
    physical_low, physical_high = target.bounds
    if scale == 'log' and nominal > 0:
        low, high = nominal / _OPEN_BOUND_FACTOR, nominal * _OPEN_BOUND_FACTOR
    elif target.kind.reach is not None:
        low, high = target.kind.reach(nominal, target.index or 0)
    else:
        high = _OPEN_BOUND_FACTOR * max(abs(nominal), 1.0)
        low = -high
    return max(physical_low, low), min(physical_high, high)


def check_distinct(parameters: Iterable[Unknown], model: mujoco.MjModel | None = None) -> None:
    """Check that names are unique and that nothing is written twice.

    With a compiled model, targets of different kinds that write the same number are found, too:
    ``actuator/a/kp`` and ``actuator/a/gainprm``.
    """
    names: set[str] = set()
    paths: dict[str, str] = {}
    taken: dict[tuple[str, int], tuple[str, str, str]] = {}
    for parameter in parameters:
        if parameter.name in names:
            raise ParameterError(
                f'Two parameters are named {parameter.name!r}; give one of them another name.'
            )
        names.add(parameter.name)
        for target in parameter.targets:
            if paths.setdefault(target.path, parameter.name) != parameter.name:
                raise ParameterError(
                    f'Target {target.path!r} is written by two parameters, '
                    f'{paths[target.path]!r} and {parameter.name!r}.'
                )
            for place, claim in (target.claims(model) if model else {}).items():
                other, path, owner = taken.setdefault(place, (claim, target.path, parameter.name))
                if other != claim:
                    raise ParameterError(
                        f'Parameters {owner!r} and {parameter.name!r} write the same number '
                        f'of the model, as {path!r} and as {target.path!r}.'
                    )

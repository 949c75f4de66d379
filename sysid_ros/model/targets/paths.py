# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From a path or pattern to the targets that it names in a model."""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import mujoco

from sysid_ros.errors import ParameterError, nearest
from sysid_ros.model.targets.kinds import Kind, Role, spec_attributes
from sysid_ros.model.targets.spec import class_names, compiled_ids, followers, read_spec
from sysid_ros.model.targets.table import KINDS
from sysid_ros.model.targets.target import Target, kind_of
from sysid_ros.signals.trajectory import Trajectory

_PATH = re.compile(
    r'^(?P<element>[a-z]+)/(?:(?P<name>.+)/)?(?P<attribute>[A-Za-z][A-Za-z0-9_]*)'
    r'(?:\[(?P<index>\d+|\*|\d*:\d*)\])?$'
)
_OBJECTS = {
    'joint': (mujoco.mjtObj.mjOBJ_JOINT, 'njnt'),
    'body': (mujoco.mjtObj.mjOBJ_BODY, 'nbody'),
    'geom': (mujoco.mjtObj.mjOBJ_GEOM, 'ngeom'),
    'site': (mujoco.mjtObj.mjOBJ_SITE, 'nsite'),
    'pair': (mujoco.mjtObj.mjOBJ_PAIR, 'npair'),
    'tendon': (mujoco.mjtObj.mjOBJ_TENDON, 'ntendon'),
    'equality': (mujoco.mjtObj.mjOBJ_EQUALITY, 'neq'),
    'actuator': (mujoco.mjtObj.mjOBJ_ACTUATOR, 'nactuator'),  # each may have several controls
    'sensor': (mujoco.mjtObj.mjOBJ_SENSOR, 'nsensor'),
}
_ELEMENTS = (*_OBJECTS, 'option', 'default', 'sequence')
_SLIDE = mujoco.mjtJoint.mjJNT_SLIDE
_TURNING = (mujoco.mjtJoint.mjJNT_FREE, mujoco.mjtJoint.mjJNT_BALL)


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


def element_names(model: mujoco.MjModel, element: str) -> list[str]:
    """Return the names of all elements of one kind, in model order, the unnamed left out."""
    kind, count = _OBJECTS[element]
    names = (mujoco.mj_id2name(model, kind, index) for index in range(getattr(model, count)))
    return [name for name in names if name and name != 'world']


def object_id(model: mujoco.MjModel, element: str, name: str) -> int:
    """Return the row of a named element in a compiled model; -1 where there is none."""
    return int(mujoco.mj_name2id(model, _OBJECTS[element][0], name))


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
        return tuple(_of_classes(path, model, spec))
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
        if of_position and any(model.jnt_type[joint] == turning for turning in _TURNING):
            return '1'  # of a quaternion
    elif path.element != 'joint' or path.owner == 'default':
        return kind.component_unit(index)
    component = 0 if path.element == 'sequence' else index
    return kind.component_unit(component, slide=bool(model.jnt_type[joint] == _SLIDE))


def _with_start(target: Target, spec: mujoco.MjSpec | None) -> Target:
    if spec is None or target.role is not Role.SPEC:
        return target
    return dataclasses.replace(target, start=read_spec(spec, target))


def _of_classes(path: _Path, model: mujoco.MjModel, spec: mujoco.MjSpec | None) -> Iterator[Target]:
    if spec is None:
        raise ParameterError(
            f'Target {path.pattern!r} needs the spec that the model was compiled from.'
        )
    if path.kind.role not in (Role.FIELD, Role.SPEC):
        raise ParameterError(f'Target {path.pattern!r} is no attribute of a default class.')
    refused: ParameterError | None = None
    some = False
    for name in _matching(path, class_names(spec)):
        try:
            yield from _of_class(path, name, model, spec)
            some = True
        except ParameterError as err:
            refused = refused or err
    if refused is not None and not some:
        raise refused


def _of_class(path: _Path, name: str, model: mujoco.MjModel, spec: mujoco.MjSpec) -> list[Target]:
    """Return the targets of one class.

    Raises:
        ParameterError: No element takes the attribute from it, or none has the attribute.
    """
    attribute, needs = f'{path.element}/{path.attribute}', path.kind.needs
    made: list[Target] = []
    for bare in _indexed(path, Target('default', name, attribute, None, -1, ''), model):
        index = bare.index or 0
        positions = followers(spec, name, path.element, path.attribute, index)
        if path.kind.role is Role.SPEC:
            made.append(_with_start(dataclasses.replace(bare, rows=positions), spec))
            continue
        rows = compiled_ids(spec, path.element, positions)
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

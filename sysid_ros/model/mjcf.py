# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Write the identified model: the user's files with only the identified attributes changed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysid_ros.errors import ModelError, listed, one_sentence
from sysid_ros.files import read_bytes
from sysid_ros.model.description import Description
from sysid_ros.model.elements import ROUNDING, subtree
from sysid_ros.model.inertia import Inertial, full_inertia, principal_axes
from sysid_ros.model.kinds import EQUALITY_DATA, INERTIAL, MJCF_NAMES, Role, spec_name
from sysid_ros.model.loading import (
    RobotModel,
    actuators_text,
    compile_spec,
    differing_fields,
    drop_implied,
    fitted_model,
    found_target,
    implied_actuators,
    load_model,
    native_delay,
    read_model,
    write_delays,
)
from sysid_ros.model.targets import ANGLES, TURNING, Target, read_spec, write_spec
from sysid_ros.model.urdf import Urdf, not_held, write_urdf
from sysid_ros.model.xml_text import (
    Element,
    Source,
    absolute,
    decode,
    encode,
    exact_xml,
    exact_xml_of_last,
    join,
    number,
    numbers_of,
    set_component,
    set_scalar,
    set_vector,
)

_MAIN = 'main'
#: Rows and columns of the numbers of a ``fullinertia``.
_FULL = ((0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2))
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
#: Vectors of which the text may give the first components only; the others are zero.
_OPEN = frozenset({'damping', 'stiffness', 'gear', 'size', 'gainprm', 'biasprm', 'dynprm'})


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
    """Write values into the text of a model; a ModelError where it cannot hold one.

    What is rare is not written right here, as places inside of a ``<frame>``: the caller compares
    what the new text compiles to.
    """
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
        known = EQUALITY_DATA[mujoco.mjtEq(owner.type)]
        if owner.type == mujoco.mjtEq.mjEQ_WELD:
            if index == known[-1]:
                return [_Place('torquescale', None, np.array([owner.data[index]]))]
            known = known[:-1]
        of_bodies = owner.type in (mujoco.mjtEq.mjEQ_CONNECT, mujoco.mjtEq.mjEQ_WELD)
        name = 'anchor' if of_bodies else 'polycoef'
        return [_Place(name, index, np.array(owner.data[list(known)]))]
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
        row, index = divmod(place, mujoco.mjNGAIN)
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
    full[np.abs(full) < ROUNDING * np.abs(full).max()] = 0.0
    six = full[_FULL]
    symmetric = np.empty((3, 3))
    symmetric[_FULL] = symmetric[_FULL[::-1]] = six
    moments, quat = principal_axes(symmetric)
    if (
        np.abs(moments - wanted.inertia).max() > ROUNDING * float(wanted.inertia.max())
        or np.abs(quat - wanted.iquat).max() > ROUNDING
        or any(inertial.get(name) is not None for name in _ORIENTATIONS)
    ):
        return False
    set_vector(inertial, 'fullinertia', six)
    return True


@dataclass(frozen=True)
class Rewrite:
    """The text of a model, and what it means before and after it is identified.

    The notes are filled with what a reader of the new files must know.
    """

    source: Source
    spec: mujoco.MjSpec
    nominal: mujoco.MjModel
    fitted: mujoco.MjModel
    notes: list[str]


#: What the compiler derives from the numbers that are compared, by the beginnings of names: for
#: viewers, with the rounding of an inverse, which a light gripper on a heavy arm makes large, and
#: what it decides by inertias: which bodies are "simple", and how boxes around geoms are arranged.
_DERIVED = (
    *('stat.', 'body_invweight0', 'dof_invweight0', 'tendon_invweight0', 'actuator_acc0'),
    *('bvh_', 'body_simple', 'dof_simplenum', 'nC', 'M_', 'map'),
)
#: Attributes that MuJoCo does not take back from a compiled model.
_IN_SPEC = frozenset({'gravcomp', 'actuatorfrcrange'})
#: What each role is called that no MJCF holds.
_OMITTED = {
    Role.COMMAND: 'gains and biases of commands',
    Role.SENSOR: 'gains, biases and delays of recorded readings',
    Role.SEQUENCE: 'the start of a recording',
    Role.LAW: "numbers of servos' laws",
}


def left_out(values: Iterable[tuple[Target, float]]) -> list[str]:
    """Describe the values that no MJCF holds, each with its value.

    A sensor's delay is one of them although sensors of MuJoCo can have a delay: what is identified
    is how late a stamp is, on top of what the model simulates, and a controller that reads the
    model's sensors must not see the age of a recording's stamps.
    """
    found: dict[Role, list[str]] = {}
    for target, value in values:
        if not target.in_mjcf:
            unit = f' {target.unit}' if target.unit not in ('', '1') else ''
            found.setdefault(target.role, []).append(f'{target.path} {value:.6g}{unit}')
    return [f'The MJCF does not hold {_OMITTED[r]}: {listed(each)}.' for r, each in found.items()]


class WrittenModel(NamedTuple):
    """An identified model on disk."""

    path: Path  # the main MJCF file; where the model is a URDF, the identified URDF is beside it
    notes: tuple[str, ...]  # what a reader of the files must know, a sentence each
    edited: bool = True  # whether it is the user's text; else MuJoCo has written it


def write_model(
    source: Path | RobotModel,
    values: Sequence[tuple[Target, float]],
    folder: Path,
    biases: Mapping[str, float] | None = None,
) -> WrittenModel:
    """Write a self-contained folder with the identified model.

    All files that the model needs keep their places relative to each other. Files without an
    identified attribute are copied byte for byte; in the others only the attributes change. What
    was written is loaded again and compared, number by number, with the model that was identified.
    Actuators that are implied are written, as the model would not move without them.

    A URDF becomes MJCF, with a URDF beside it that has what it can hold; its meshes stay where they
    are.

    Args:
        source: The user's model, as it was read; a path is read here. It is not changed.
        values: Targets and their values in SI units.
        folder: The new folder; an existing one is replaced once the new one is complete.
        biases: Name of an actuator to the constant force that it exerts beside its command's, N·m
            or N, before its gear.

    Raises:
        ModelError: A value cannot be written back, or the folder cannot be written; nothing is
            left behind and an existing folder stays.
        ParameterError: A target is not in the model, or a value is not finite.
    """
    folder = absolute(folder)
    described, spec = read_model(source) if isinstance(source, Path) else source
    main = absolute(described.path.with_name(described.name))
    spec = biased(spec, biases or {})
    fitted = fitted_model(described.path, values, spec)
    nominal = compile_spec(spec, main)
    latest = {target.path: (target, float(value)) for target, value in values}
    held = [
        (found_target(target, nominal, spec), value)
        for target, value in latest.values()
        if target.in_mjcf
    ]
    layout = _Layout.of(main, described, actuators_text(spec))
    _refuse_own_source(layout, folder)
    rewrite = Rewrite(layout.text, spec, nominal, fitted, list(layout.notes))
    beside: dict[str, str] = {}
    if described.urdf is not None:
        name = main.with_suffix('.urdf').name
        beside[name] = write_urdf(described.urdf, described.path, nominal, fitted)
        paths = not_held([target for target, _ in held], Urdf(beside[name]))
        if actuators := implied_actuators(spec):
            paths = [path for path in paths if not path.startswith('actuator/')]
            paths.append(f'{len(actuators)} implied actuators')
        if paths:
            rewrite.notes.append(
                'A URDF has no place for what only the MJCF beside '
                f'{name} holds: {", ".join(paths)}.'
            )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(
            dir=folder.parent, prefix=f'.{folder.name}.', ignore_cleanup_errors=True
        ) as temporary:
            new = Path(temporary) / 'new'
            new.mkdir()
            edited = _write_checked(layout, rewrite, held, list(biases or {}), new)
            for name, text in beside.items():
                (new / name).write_bytes(encode(text))
            _replace(new, folder)
    except OSError as err:
        raise ModelError(f'Cannot write the model folder {str(folder)!r}: {err.strerror}.') from err
    notes = (*rewrite.notes, *left_out(latest.values()))
    return WrittenModel(folder / layout.inside(main), notes, edited)


def _write_checked(
    layout: _Layout,
    rewrite: Rewrite,
    values: Sequence[tuple[Target, float]],
    biases: Sequence[str],
    root: Path,
) -> bool:
    """Write the files of a model below a folder; return whether its text could be edited.

    Where the edited text does not mean the identified model, as where values are spelled in ways
    that are not edited here, MuJoCo writes all of the model into the main file.
    """
    path = root / layout.inside(layout.text.path)
    told = len(rewrite.notes)
    try:
        write_values(rewrite, values)
        for name in biases:
            write_bias(rewrite, name)
        layout.write(root)
        _check_meaning(path, rewrite.fitted)
    except ModelError as err:
        del rewrite.notes[told:]
        layout.write(root, assets_only=True)
        source = str(layout.text.path)
        try:
            _write_whole(rewrite.spec, rewrite.fitted, values, path)
            _check_meaning(path, rewrite.fitted)
        except (ModelError, ValueError, mujoco.FatalError) as refused:
            raise ModelError(f'Cannot write {source!r} back: {one_sentence(refused)}.') from err
        rewrite.notes.append(
            f'{path.name!r} is written anew by MuJoCo, without comments and includes, as its own '
            f'text cannot be edited: {one_sentence(err)}.'
        )
        return False
    return True


def _write_whole(
    spec: mujoco.MjSpec,
    fitted: mujoco.MjModel,
    values: Sequence[tuple[Target, float]],
    path: Path,
) -> None:
    """Let MuJoCo write an identified model into one file, without includes and comments.

    MuJoCo may refuse what it wrote, with a ValueError.
    """
    copy = spec.copy()
    drop_implied(copy)
    for target, value in values:
        if target.role is Role.SPEC or target.element == 'option' or target.attribute in _IN_SPEC:
            write_spec(copy, target, value)
    write_delays(copy, fitted, [entry for entry in values if entry[0].role is Role.COMMAND])
    _compute_nothing(copy, fitted)
    path.write_text(exact_xml(copy), 'utf-8')
    model = mujoco.MjModel.from_xml_path(str(path))
    for field in mujoco.MjModel._all_fields:  # noqa: SLF001 (named nowhere else)
        new, old = getattr(fitted, field), getattr(model, field)
        if isinstance(old, np.ndarray) and old.dtype.kind == 'f' and old.shape == new.shape:
            old[:] = new
    path.write_text(exact_xml_of_last(model, path), 'utf-8')


def _compute_nothing(spec: mujoco.MjSpec, fitted: mujoco.MjModel) -> None:
    """Put what the compiler computes into a spec as the identified model has it."""
    spec.compiler.settotalmass = -1.0
    spec.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_AUTO
    for joint in spec.joints:
        joint.springdamper = np.zeros(2)
        joint.align = mujoco.mjtAlignFree.mjALIGNFREE_FALSE
    compiled = spec.copy()
    compiled.compile()
    for actuator, twin in zip(spec.actuators, compiled.actuators, strict=True):
        if actuator.inheritrange > 0:
            actuator.inheritrange = 0.0
            actuator.ctrlrange = fitted.actuator_ctrlrange[int(fitted.actuator_ctrladr[twin.id])]
            actuator.actrange = fitted.actuator_actrange[twin.id]
    for body, row in zip(spec.bodies, [body.id for body in compiled.bodies], strict=True):
        if fitted.body_mass[row] > 0:
            body.mass, body.explicitinertial = float(fitted.body_mass[row]), True
            body.fullinertia = np.full(6, np.nan)
            for name in ('ipos', 'iquat', 'inertia'):
                setattr(body, name, getattr(fitted, f'body_{name}')[row])


def write_variant(
    source: RobotModel,
    values: Sequence[tuple[Target, float]],
    written: Path,
    name: str,
    biases: Mapping[str, float] | None = None,
) -> Path:
    """Write a model with other values beside a written one, whose meshes and so on it shares."""
    path, spec = written.with_name(f'{name}.xml'), biased(source.spec, biases or {})
    fitted = fitted_model(source.description.path, values, spec)
    held = [(found_target(t, fitted, spec), float(v)) for t, v in values if t.in_mjcf]
    try:
        _write_whole(spec, fitted, held, path)
        _check_meaning(path, fitted)
    except (ModelError, ValueError, mujoco.FatalError) as err:
        path.unlink(missing_ok=True)
        raise ModelError(f'Cannot write {path.name!r}: {one_sentence(err)}.') from err
    return path


def biased(spec: mujoco.MjSpec, biases: Mapping[str, float]) -> mujoco.MjSpec:
    """Return a copy of a spec whose actuators exert constant forces beside their commands'."""
    copy = spec.copy() if biases else spec
    for name, bias in biases.items():
        actuator = copy.actuator(name)
        actuator.biastype = mujoco.mjtBias.mjBIAS_AFFINE
        actuator.biasprm[0] = bias
    return copy


class _Layout(NamedTuple):
    """The files of a model and the folder that is around all of them."""

    text: Source
    files: tuple[Path, ...]
    root: Path
    notes: tuple[str, ...]

    @classmethod
    def of(cls, source: Path, described: Description, actuators: str) -> _Layout:
        """Collect the files."""
        own = described.mjcf
        if actuators:
            own = decode(read_bytes(source)) if own is None else own
            own = _with_actuators(own, actuators)
        text = Source(source, own)
        if described.mjcf is not None:
            return cls(text, tuple(sorted(text.documents)), source.parent, ())
        try:
            listed = mujoco.mju_getXMLDependencies(str(source))
        except (ValueError, mujoco.FatalError) as err:
            raise ModelError(f'Cannot list the files of the model {str(source)!r}: {err}.') from err
        # A path in the list is relative to the working directory, like the one that was asked for.
        files = {absolute(Path(name)) for name in listed} | set(text.documents)
        outside = text.absolute_references()
        files = {
            file
            for file in files
            if file in text.documents or not any(file.is_relative_to(path) for path in outside)
        }
        root = Path(os.path.commonpath([file.parent for file in files]))
        notes = tuple(
            f'The model refers to {path!r} by an absolute path, which was kept and not copied.'
            for path in outside
        )
        return cls(text, tuple(sorted(files)), root, notes)

    def inside(self, file: Path) -> Path:
        return file.relative_to(self.root)

    def write(self, folder: Path, *, assets_only: bool = False) -> None:
        """Write all files below a folder, or only those that are no text of the model."""
        for file in self.files:
            document = self.text.documents.get(file)
            place = folder / self.inside(file)
            if assets_only and document is not None:
                place.unlink(missing_ok=True)
                continue
            if document is None and not file.exists():
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            if document is not None:
                place.write_bytes(encode(document.render()))
            else:
                shutil.copyfile(file, place)


def _with_actuators(text: str, actuators: str) -> str:
    """Put actuators behind all else in an MJCF text."""
    end = text.rfind('</')
    line = '\r\n' if '\r\n' in text else '\n'
    gap = '' if text[:end].endswith('\n') else line
    lines = ['  <actuator>', *actuators.splitlines(), '  </actuator>', '']
    return text[:end] + gap + line.join(lines) + text[end:]


def _refuse_own_source(layout: _Layout, folder: Path) -> None:
    """Never replace a folder that holds the user's model."""
    if folder.exists() and not folder.is_dir():
        raise ModelError(
            f'Expected a folder for the identified model, found the file {str(folder)!r}.'
        )
    place = folder.resolve()
    for file in layout.files:
        if file.resolve().is_relative_to(place):
            raise ModelError(
                f'Expected another folder for the identified model than {str(folder)!r}, '
                f'which holds {file.name!r} of the model itself.'
            )


def _check_meaning(path: Path, fitted: mujoco.MjModel) -> None:
    """Check that a file compiles to the identified model."""
    differing = differing_fields(load_model(path), fitted)
    fields = [field for field in differing if not field.startswith(_DERIVED)]
    if fields:
        raise ModelError(
            'expected a text that compiles to the identified model, found differences in '
            f'{listed(fields)}'
        )


def _replace(new: Path, folder: Path) -> None:
    """Put a complete folder into its place; an old one comes back if that fails."""
    old = new.with_name('old')
    if folder.exists():
        folder.rename(old)
    try:
        new.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise

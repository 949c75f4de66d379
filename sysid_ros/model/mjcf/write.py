# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Write the identified model: the user's files with only the identified attributes changed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np

from sysid_ros.errors import MOST_NAMED, ModelError, listed
from sysid_ros.model.description import Description
from sysid_ros.model.implied import actuators_text, drop_implied, implied_actuators
from sysid_ros.model.loading import (
    RobotModel,
    compile_spec,
    differing_fields,
    fitted_model,
    found_target,
    load_model,
    read_model,
    write_delays,
)
from sysid_ros.model.mjcf.edits import write_bias, write_values
from sysid_ros.model.mjcf.exact import exact_xml, exact_xml_of_last
from sysid_ros.model.mjcf.source import Rewrite, Source, absolute
from sysid_ros.model.mjcf.text import decode, encode
from sysid_ros.model.targets import Role, Target, write_spec
from sysid_ros.model.urdf.write import Urdf, not_held, write_urdf
from sysid_ros.text import one_sentence

#: The files written must compile to the identified model this closely, relative to numbers above 1.
TOLERANCE = 1e-9
#: What the compiler derives from the numbers that are compared, by the beginnings of names: for
#: viewers, with the rounding of an inverse, which a light gripper on a heavy arm makes large, and
#: what it decides by inertias: which bodies are "simple", and how boxes around geoms are arranged.
_DERIVED = (
    *('stat.', 'body_invweight0', 'dof_invweight0', 'tendon_invweight0', 'actuator_acc0'),
    *('bvh_', 'body_simple', 'dof_simplenum', 'nC', 'M_', 'map'),
)
#: Attributes that MuJoCo does not take back from a compiled model.
_IN_SPEC = frozenset({'gravcomp', 'actuatorfrcrange'})
_FOLDER_MODE = 0o755
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
    notes = []
    for role, entries in found.items():
        shown = entries[:MOST_NAMED] if role is Role.SEQUENCE else entries
        more = len(entries) - len(shown)
        listed = ', '.join(shown) + (f' and {more} more' if more else '')
        notes.append(f'The MJCF does not hold {_OMITTED[role]}: {listed}.')
    return notes


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
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f'.{folder.name}.'))
        try:
            edited = _write_checked(layout, rewrite, held, list(biases or {}), temporary)
            for name, text in beside.items():
                (temporary / name).write_bytes(encode(text))
            temporary.chmod(_FOLDER_MODE)
            _replace(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
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
    """Write a model with other values beside one that is written, whose meshes and so on it shares.

    Args:
        source: The user's model, as it was read. It is not changed.
        values: Targets and their values in SI units.
        written: The main MJCF file of what `write_model` wrote.
        name: Of the new main file, without its end: MuJoCo writes all of the model into it.
        biases: As for `write_model`.
    """
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
            own = decode(source.read_bytes()) if own is None else own
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
    differing = differing_fields(load_model(path), fitted, TOLERANCE)
    fields = [field for field in differing if not field.startswith(_DERIVED)]
    if fields:
        raise ModelError(
            'expected a text that compiles to the identified model, found differences in '
            f'{listed(fields)}'
        )


def _replace(new: Path, folder: Path) -> None:
    """Put a complete folder into its place; an old one comes back if that fails."""
    if not folder.exists():
        new.rename(folder)
        return
    old = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f'.{folder.name}.'))
    folder.rename(old / folder.name)
    try:
        new.rename(folder)
    except OSError:
        (old / folder.name).rename(folder)
        old.rmdir()
        raise
    shutil.rmtree(old, ignore_errors=True)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Write the identified model: the user's files with only the identified attributes changed."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import mujoco

from sysid_ros.errors import ModelError
from sysid_ros.model.loading import (
    compile_spec,
    differing_fields,
    fitted_model,
    found_target,
    load_model,
    load_spec,
)
from sysid_ros.model.mjcf.actuators import pin_actuators
from sysid_ros.model.mjcf.edits import Editor
from sysid_ros.model.mjcf.source import Rewrite, Source, absolute
from sysid_ros.model.mjcf.text import encode
from sysid_ros.model.targets import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sysid_ros.model.targets import Target


_OMITTED = {
    Role.COMMAND: 'gains and biases of commands',
    Role.SENSOR: 'gains, biases and delays of recorded readings',
    Role.SEQUENCE: 'the start of a recording',
    Role.LAW: "numbers of servos' laws",
}
#: At most so many starts of recordings are named; gains, biases and delays are named in full.
_NAMED_STARTS = 6


def left_out(values: Iterable[tuple[Target, float]]) -> list[str]:
    """Describe the values that no MJCF holds, each with its value.

    A sensor's delay is one of them although sensors of MuJoCo can have a delay: what is identified
    is how late a stamp is, on top of what the model simulates, and a controller that reads the
    model's sensors must not see the age of a recording's stamps.

    Returns:
        One sentence per role.
    """
    found: dict[Role, list[str]] = {}
    for target, value in values:
        if not target.in_mjcf:
            unit = f' {target.unit}' if target.unit not in ('', '1') else ''
            found.setdefault(target.role, []).append(f'{target.path} {value:.6g}{unit}')
    notes = []
    for role, entries in found.items():
        shown = entries[:_NAMED_STARTS] if role is Role.SEQUENCE else entries
        more = len(entries) - len(shown)
        listed = ', '.join(shown) + (f' and {more} more' if more else '')
        notes.append(f'The MJCF does not hold {_OMITTED[role]}: {listed}.')
    return notes


__all__ = ['WrittenModel', 'differing_fields', 'write_model']

#: The files written must compile to the identified model this closely, relative to numbers above 1.
TOLERANCE = 1e-9
#: What the compiler derives for viewers from numbers that are compared; nothing moves by them.
_VIEWED = frozenset({'stat.center', 'stat.extent', 'stat.meansize'})
#: At most so many differing fields are named in an error.
_NAMED_FIELDS = 5
_FOLDER_MODE = 0o755


class WrittenModel(NamedTuple):
    """An identified model on disk.

    Attributes:
        path: The main MJCF file.
        notes: Sentences on what a reader of the files must know: gains that were pinned, delays
            that MuJoCo rounds, references that leave the folder.
    """

    path: Path
    notes: tuple[str, ...]


def write_model(
    source: Path,
    values: Sequence[tuple[Target, float]],
    folder: Path,
    spec: mujoco.MjSpec | None = None,
) -> WrittenModel:
    """Write a self-contained folder with the identified model.

    All files that the model needs keep their places relative to each other. Files without an
    identified attribute are copied byte for byte; in the others only the attributes change. What
    was written is loaded again and compared, number by number, with the model that was identified.

    Args:
        source: The user's MJCF file.
        values: Targets and their values in SI units.
        folder: The new folder; an existing one is replaced once the new one is complete.
        spec: What the file was parsed to; parsed here unless given, and not changed.

    Returns:
        The main MJCF file in the folder, and notes.

    Raises:
        ModelError: A value cannot be written back, or the folder cannot be written; nothing is
            left behind and an existing folder stays.
        ParameterError: A target is not in the model, or a value is not finite.
    """
    spec = spec or load_spec(source)
    fitted = fitted_model(source, values, spec)
    source, folder = absolute(source), absolute(folder)
    layout = _Layout.of(source)
    _refuse_own_source(layout, folder)
    nominal = compile_spec(spec, source)
    rewrite = Rewrite(layout.text, spec, nominal, fitted, list(layout.notes))
    latest = {target.path: (target, value) for target, value in values}
    held = [(target, value) for target, value in latest.values() if target.in_mjcf]
    Editor(rewrite).write((found_target(t, nominal, spec), float(value)) for t, value in held)
    rewrite.notes.extend(left_out(latest.values()))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f'.{folder.name}.'))
        try:
            layout.write(temporary)
            main = temporary / layout.inside(source)
            written = _load_written(main, source)
            if pin_actuators(rewrite, written):
                layout.write(temporary)
                written = _load_written(main, source)
            _compare(written, fitted, source)
            temporary.chmod(_FOLDER_MODE)
            _replace(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as err:
        msg = f'Cannot write the model folder {str(folder)!r}: {err.strerror}.'
        raise ModelError(msg) from err
    return WrittenModel(folder / layout.inside(source), tuple(rewrite.notes))


class _Layout(NamedTuple):
    """The files of a model and the folder that is around all of them."""

    text: Source
    files: tuple[Path, ...]
    root: Path
    notes: tuple[str, ...]

    @classmethod
    def of(cls, source: Path) -> _Layout:
        text = Source(source)
        try:
            listed = mujoco.mju_getXMLDependencies(str(source))
        except (ValueError, mujoco.FatalError) as err:
            msg = f'Cannot list the files of the model {str(source)!r}: {err}.'
            raise ModelError(msg) from err
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

    def write(self, folder: Path) -> None:
        """Write all files below a folder."""
        for file in self.files:
            place = folder / self.inside(file)
            place.parent.mkdir(parents=True, exist_ok=True)
            document = self.text.documents.get(file)
            if document is not None and document.changed:
                place.write_bytes(encode(document.render()))
            else:
                shutil.copyfile(file, place)


def _refuse_own_source(layout: _Layout, folder: Path) -> None:
    """Never replace a folder that holds the user's model."""
    if folder.exists() and not folder.is_dir():
        msg = f'Expected a folder for the identified model, found the file {str(folder)!r}.'
        raise ModelError(msg)
    place = folder.resolve()
    for file in layout.files:
        if file.resolve().is_relative_to(place):
            msg = (
                f'Expected another folder for the identified model than {str(folder)!r}, '
                f'which holds {file.name!r} of the model itself.'
            )
            raise ModelError(msg)


def _load_written(main: Path, source: Path) -> mujoco.MjModel:
    try:
        return load_model(main)
    except ModelError as err:
        reason = str(err).replace(str(main), main.name)
        msg = f'Cannot write {str(source)!r} back: the new text was refused: {reason}'
        raise ModelError(msg) from err


def _compare(written: mujoco.MjModel, fitted: mujoco.MjModel, source: Path) -> None:
    fields = [f for f in differing_fields(written, fitted, TOLERANCE) if f not in _VIEWED]
    if fields:
        named = ', '.join(fields[:_NAMED_FIELDS]) + (', …' if len(fields) > _NAMED_FIELDS else '')
        msg = (
            f'Cannot write {str(source)!r} back: expected the new files to compile to the '
            f'identified model, found differences in {named}.'
        )
        raise ModelError(msg)


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

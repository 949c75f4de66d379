# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Write an identified model in another format, and say what that does not hold."""

from __future__ import annotations

import csv
import io
import shutil
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from sysid_ros.errors import ConfigError, ModelError, ResultError, some
from sysid_ros.export.actuators import actuators_text, drives_of, held_by_actuators
from sysid_ros.export.samples import Drawn, Posterior, samples_text, write_samples
from sysid_ros.export.stored import Stored, load_stored
from sysid_ros.files import check_new, check_writable, replace_file
from sysid_ros.model.description import read_description
from sysid_ros.model.mjcf.source import absolute
from sysid_ros.model.mjcf.text import Document, encode
from sysid_ros.model.mjcf.write import WrittenModel, left_out, write_model
from sysid_ros.model.targets import Target
from sysid_ros.model.urdf.write import Urdf, carried_over, not_held, write_urdf

#: What is beside drawn models: what was found of each parameter, and its values in each model.
PARAMETERS, SAMPLES = 'parameters.csv', 'samples.csv'


class ExportFormat(StrEnum):
    """What can be written."""

    MJCF = 'mjcf'
    URDF = 'urdf'
    CSV = 'csv'
    ACTUATORS = 'actuators'


@dataclass(frozen=True)
class Samples:
    """How many models to draw, and from which seed."""

    count: int
    seed: int = 0


@dataclass(frozen=True)
class ExportRequest:
    """What is to be written.

    Attributes:
        format: The format.
        output: The new file, or the new folder for ``mjcf``.
        model: Where the model that was calibrated is now, if it was moved.
        urdf: The URDF to write into, where the model is none.
        packages: Folders of packages that it refers to.
        samples: Models to draw from what the data leave open, for ``mjcf``.
    """

    format: ExportFormat
    output: Path
    model: Path | None = None
    urdf: Path | None = None
    packages: tuple[Path, ...] = ()
    samples: Samples | None = None


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        format: The format.
        files: The new files that matter, the main one first.
        lost: Identified values that they do not hold, each with its unit.
        notes: What to know of them, a sentence each.
        drawn: How samples were drawn; None without any.
    """

    format: ExportFormat
    files: tuple[Path, ...]
    lost: tuple[str, ...]
    notes: tuple[str, ...]
    drawn: Drawn | None = None


def export(result: Path, request: ExportRequest) -> Exported:
    """Write what a calibration found in a format of others.

    Args:
        result: ``result.json``, or a folder that holds it.
        request: What is to be written.

    Raises:
        ConfigError: The request contradicts itself, or the output exists.
        SysidError: In one sentence, what is wrong with the result, its model or the URDF; nothing
            was written.
    """
    _check(request)
    stored = load_stored(result, request.model)
    source = f'{stored.path} of {Path(stored.record.model).name}'
    notes = list(_remarks(stored))
    lost: Collection[str] = set()
    if request.format is ExportFormat.MJCF:
        return _export_mjcf(stored, request, notes)
    if request.format is ExportFormat.CSV:
        text = parameters_text(stored)
    elif request.format is ExportFormat.URDF:
        text, lost, more = _urdf_text(stored, request)
        notes += more
        head = '\n'.join((f'Identified by sysid_ros: {source}.', *_values(stored, lost)))
        text = Document(text).headed(head)
    else:
        drives, more = drives_of(stored.fitted)
        if not drives:
            raise ResultError(
                f'Expected a joint with a servo or motor of its own, found {some(more) or "none"}.'
            )
        text = actuators_text(drives, source)
        lost = {target.path for target, _ in stored.values} - held_by_actuators(stored, drives)
        notes += more
    replace_file(request.output, encode(text))
    return Exported(request.format, (request.output,), _values(stored, lost), tuple(notes))


def _urdf_text(stored: Stored, request: ExportRequest) -> tuple[str, set[str], list[str]]:
    """Return a URDF, the paths of the targets that it does not hold, and what to know of it."""
    described, nominal, fitted = stored.robot.description, stored.nominal, stored.fitted
    if request.urdf is not None:
        described = read_description(request.urdf, request.packages)
    if described.urdf is None:
        path = str(described.path)
        raise ModelError(
            f'The model {path!r} is no URDF; expected --urdf FILE, with one whose links and joints '
            'have the names of its bodies and joints.'
            if request.urdf is None
            else f'Expected a URDF as --urdf, found {path!r}, which is none.'
        )
    if request.urdf is not None:
        nominal, fitted = carried_over(nominal, fitted, described)
    text = write_urdf(described.urdf, described.path, nominal, fitted)
    urdf = Urdf(text)
    targets = [target for target, _ in stored.values]
    notes = ['A URDF has no place for actuators, armatures, springs and tendons of a model.']
    if described.path.suffix != '.urdf':
        notes.append(f'The URDF is that of {str(described.path)!r}, as it was read.')
    meshes = (node.get('filename') for node in urdf.document.elements if node.tag == 'mesh')
    beside = [name for name in meshes if name and '://' not in name and not name.startswith('/')]
    if beside:
        notes.append(
            f'Meshes are named by their place beside {described.path.name!r} ({some(beside)}): put '
            'the file there.'
        )
    return text, {*not_held(targets, urdf), *_not_moved(targets, stored.fitted, fitted)}, notes


def _not_moved(
    targets: list[Target], fitted: mujoco.MjModel, written: mujoco.MjModel
) -> Iterator[str]:
    """Yield identified places of bodies that the URDF did not take."""
    for target in targets:
        if target.element == 'body' and target.attribute in {'pos', 'quat'}:
            row = mujoco.mj_name2id(written, mujoco.mjtObj.mjOBJ_BODY, target.name)
            if row < 0 or not all(
                np.allclose(getattr(written, field)[row], getattr(fitted, field)[target.row])
                for field in ('body_pos', 'body_quat')
            ):
                yield target.path


def _values(stored: Stored, paths: Collection[str]) -> tuple[str, ...]:
    """Return targets with their identified values."""
    return tuple(
        f'{target.path} {value:.6g} {"" if target.unit == "1" else target.unit}'.rstrip()
        for target, value in dict(stored.values).items()
        if target.path in paths
    )


def _remarks(stored: Stored) -> Iterator[str]:
    """Say what there is to know of a result, whatever it is written as."""
    for check in stored.record.reservations:
        yield f'The result is {stored.record.standing}: {check.detail}'
    servos: Any = stored.record.provenance.config.get('servos', ())
    driven = ', '.join(name for entry in servos for name in entry['actuators'])
    if driven:
        yield (
            f'Laws of servos drive {driven} in the fit; what is written has none of them, and '
            'their coefficients are beside the result, in servos/.'
        )


def _check(request: ExportRequest) -> None:
    """Check what can be checked before any work.

    Raises:
        ConfigError: Options do not fit together, or the output exists.
        ResultError: The output cannot be written.
    """
    if request.samples is not None and request.format is not ExportFormat.MJCF:
        raise ConfigError(
            f'Samples are MJCF: expected --format mjcf with them, found {request.format}.'
        )
    if request.samples is not None and request.samples.count < 1:
        raise ConfigError(f'Expected one sample or more, found {request.samples.count}.')
    if request.urdf is not None and request.format is not ExportFormat.URDF:
        raise ConfigError(
            f'--urdf is what --format urdf writes into; found it with {request.format}.'
        )
    output = request.output
    folder = request.format is ExportFormat.MJCF
    if not (folder and output.is_dir() and not any(output.iterdir())):
        check_new(output)
    check_writable(output.parent)


def parameters_text(stored: Stored) -> str:
    """Return CSV with what was found of each parameter, in SI units."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator='\n')
    table.writerow(('name', 'targets', 'unit', 'value', 'low_95', 'high_95', 'initial', 'verdict'))
    for found in stored.record.parameters:
        numbers = (found.value, found.low, found.high, found.initial)
        table.writerow(
            (found.name, ' '.join(found.targets), found.unit, *map(_plain, numbers), found.verdict)
        )
    return text.getvalue()


def _plain(value: float) -> str:
    """Write a number; nothing where there is none."""
    return repr(value) if value == value else ''  # noqa: PLR0124 (NaN equals nothing)


def _export_mjcf(stored: Stored, request: ExportRequest, notes: list[str]) -> Exported:
    """Write the identified MJCF and what it needs, and models drawn around it."""
    output = request.output
    absent = {target.path for target, _ in stored.values if not target.in_mjcf}
    lost = _values(stored, absent)
    if request.samples is None:
        written = write_model(stored.robot, stored.values, output, stored.biases)
        main = written.path.relative_to(absolute(output))
        notes += _new(written, stored)
        return Exported(request.format, _beside(output / main), lost, tuple(notes))
    posterior = Posterior.of(stored)
    temporary = Path(tempfile.mkdtemp(dir=output.parent, prefix=f'.{output.name}.'))
    try:
        made = temporary / 'made'
        written = write_model(stored.robot, stored.values, made, stored.biases)
        samples = request.samples
        drawn = write_samples(stored, posterior, written.path, samples.count, samples.seed)
        main = written.path.relative_to(absolute(made))
        (made / PARAMETERS).write_text(parameters_text(stored), 'utf-8')
        (made / SAMPLES).write_text(samples_text(posterior, drawn), 'utf-8')
        if output.exists():
            output.rmdir()
        made.rename(output)
    except OSError as err:
        raise ResultError(f'Cannot write {str(output)!r}: {err.strerror}.') from err
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    files = (output / PARAMETERS, output / SAMPLES, *_beside(output / main))
    notes += (*_new(written, stored), *drawn.notes)
    return Exported(request.format, files, lost, tuple(notes), drawn)


def _new(written: WrittenModel, stored: Stored) -> tuple[str, ...]:
    """Return the notes on a written model without those that say what is lost."""
    told = left_out(stored.values)
    return tuple(note for note in written.notes if note not in told)


def _beside(main: Path) -> tuple[Path, ...]:
    """Return a main file, and the URDF beside it where there is one."""
    also = main.with_suffix('.urdf')
    return (main, also) if also.exists() else (main,)

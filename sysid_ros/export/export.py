# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Write an identified model in another format, and say what that does not hold."""

from __future__ import annotations

import csv
import io
import math
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np

from sysid_ros.errors import ConfigError, ModelError, ResultError, listed
from sysid_ros.export.actuators import actuators_text, drives_of, held_by_actuators
from sysid_ros.export.samples import Drawn, Posterior, samples_text, write_samples
from sysid_ros.export.stored import Stored, load_stored
from sysid_ros.files import check_new, check_writable, replace_file
from sysid_ros.model.description import read_description
from sysid_ros.model.mjcf.source import absolute
from sysid_ros.model.mjcf.text import Document, encode
from sysid_ros.model.mjcf.write import left_out, write_model
from sysid_ros.model.targets import Target
from sysid_ros.model.urdf.write import Urdf, carried_over, not_held, write_urdf
from sysid_ros.results.result import CalibrationResult

#: What is beside drawn models: what was found of each parameter, and its values in each model.
PARAMETERS, SAMPLES = 'parameters.csv', 'samples.csv'


class ExportFormat(StrEnum):
    """What can be written."""

    MJCF = 'mjcf'
    URDF = 'urdf'
    CSV = 'csv'
    ACTUATORS = 'actuators'


class Exported(NamedTuple):
    """What was written.

    Attributes:
        files: The new files that matter, the main one first.
        lost: Identified values that they do not hold, each with its unit.
        notes: What to know of them, a sentence each.
        drawn: How samples were drawn; None without any.
    """

    files: tuple[Path, ...]
    lost: tuple[str, ...]
    notes: tuple[str, ...]
    drawn: Drawn | None = None


def export(
    result: Path,
    form: ExportFormat,
    output: Path,
    *,
    model: Path | None = None,
    urdf: Path | None = None,
    packages: Sequence[Path] = (),
    samples: int | None = None,
    seed: int = 0,
) -> Exported:
    """Write what a calibration found in a format of others.

    Args:
        result: ``result.json``, or a folder that holds it.
        form: The format.
        output: The new file, or the new folder for MJCF.
        model: Where the model that was calibrated is now, if it was moved.
        urdf: The URDF to write into, where the model is none.
        packages: Folders of packages that it refers to.
        samples: How many models to draw from what the data leave open, for MJCF.
        seed: Of these draws.

    Raises:
        ConfigError: The options do not fit together, or the output exists.
        SysidError: In one sentence, what is wrong with the result, its model or the URDF; nothing
            was written.
    """
    if samples is not None and form is not ExportFormat.MJCF:
        raise ConfigError(f'Samples are MJCF: expected --format mjcf with them, found {form}.')
    if samples is not None and samples < 1:
        raise ConfigError(f'Expected one sample or more, found {samples}.')
    if urdf is not None and form is not ExportFormat.URDF:
        raise ConfigError(f'--urdf is what --format urdf writes into; found it with {form}.')
    if not (form is ExportFormat.MJCF and output.is_dir() and not any(output.iterdir())):
        check_new(output)
    check_writable(output.parent)
    stored = load_stored(result, model)
    source = f'{stored.path} of {Path(stored.record.model).name}'
    notes = list(_remarks(stored))
    if form is ExportFormat.MJCF:
        return _export_mjcf(stored, output, notes, samples, seed)
    lost: Collection[str] = set()
    if form is ExportFormat.CSV:
        text = parameters_text(stored.record)
    elif form is ExportFormat.URDF:
        text, lost, more = _urdf_text(stored, urdf, packages)
        notes += more
        head = '\n'.join((f'Identified by sysid_ros: {source}.', *_values(stored, lost)))
        text = Document(text).headed(head)
    else:
        drives, more = drives_of(stored.fitted)
        if not drives:
            raise ResultError(
                'Expected a joint with a servo or motor of its own, found '
                f'{listed(more) or "none"}.'
            )
        text = actuators_text(drives, source)
        lost = {target.path for target, _ in stored.values} - held_by_actuators(stored, drives)
        notes += more
    replace_file(output, encode(text))
    return Exported((output,), _values(stored, lost), tuple(notes))


def _urdf_text(
    stored: Stored, file: Path | None, packages: Sequence[Path]
) -> tuple[str, set[str], list[str]]:
    """Return a URDF, the paths of the targets that it does not hold, and what to know of it."""
    described, nominal, fitted = stored.robot.description, stored.nominal, stored.fitted
    if file is not None:
        described = read_description(file, packages)
    if described.urdf is None:
        path = str(described.path)
        raise ModelError(
            f'The model {path!r} is no URDF; expected --urdf FILE, with one whose links and joints '
            'have the names of its bodies and joints.'
            if file is None
            else f'Expected a URDF as --urdf, found {path!r}, which is none.'
        )
    if file is not None:
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
            f'Meshes are named by their place beside {described.path.name!r} ({listed(beside)}): '
            'put the file there.'
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
        yield f'The result is {stored.record.standing}: {check.text}'
    servos: Any = stored.record.provenance.config.get('servos', ())
    driven = ', '.join(name for entry in servos for name in entry['actuators'])
    if driven:
        yield (
            f'Laws of servos drive {driven} in the fit; what is written has none of them, and '
            'their coefficients are beside the result, in servos/.'
        )


def parameters_text(record: CalibrationResult) -> str:
    """Return CSV with what was found of each parameter, in SI units."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator='\n')
    table.writerow(('name', 'targets', 'unit', 'value', 'low_95', 'high_95', 'initial', 'verdict'))
    for found in record.parameters:
        numbers = (found.value, found.low, found.high, found.initial)
        known = ('' if math.isnan(x) else repr(x) for x in numbers)
        table.writerow((found.name, ' '.join(found.targets), found.unit, *known, found.verdict))
    return text.getvalue()


def _export_mjcf(
    stored: Stored, output: Path, notes: list[str], samples: int | None, seed: int
) -> Exported:
    """Write the identified MJCF and what it needs, and models drawn around it."""
    lost = _values(stored, {target.path for target, _ in stored.values if not target.in_mjcf})
    told = left_out(stored.values)  # These are in ``lost``.
    if samples is None:
        written = write_model(stored.robot, stored.values, output, stored.biases)
        notes += [note for note in written.notes if note not in told]
        return Exported(_beside(written.path, output, output), lost, tuple(notes))
    posterior = Posterior.of(stored)
    temporary = Path(tempfile.mkdtemp(dir=output.parent, prefix=f'.{output.name}.'))
    try:
        made = temporary / 'made'
        written = write_model(stored.robot, stored.values, made, stored.biases)
        drawn = write_samples(stored, posterior, written.path, samples, seed)
        (made / PARAMETERS).write_text(parameters_text(stored.record), 'utf-8')
        (made / SAMPLES).write_text(samples_text(posterior, drawn), 'utf-8')
        if output.exists():
            output.rmdir()
        made.rename(output)
    except OSError as err:
        raise ResultError(f'Cannot write {str(output)!r}: {err.strerror}.') from err
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    files = (output / PARAMETERS, output / SAMPLES, *_beside(written.path, made, output))
    notes += [*(note for note in written.notes if note not in told), *drawn.notes]
    return Exported(files, lost, tuple(notes), drawn)


def _beside(written: Path, made: Path, output: Path) -> tuple[Path, ...]:
    """Return where a file of one folder is in another, and the URDF beside it if there is one."""
    main = output / written.relative_to(absolute(made))
    also = main.with_suffix('.urdf')
    return (main, also) if also.exists() else (main,)

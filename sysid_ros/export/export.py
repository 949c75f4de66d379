# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Write an identified model in another format, and say what that does not hold."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from sysid_ros.errors import ConfigError, ResultError, some
from sysid_ros.export import isaaclab, mjlab, ros2_control, urdf
from sysid_ros.export.lost import Lost, identified_lost
from sysid_ros.export.posterior import Posterior
from sysid_ros.export.rendered import Rendered
from sysid_ros.export.samples import Drawn, ranges_text, write_samples
from sysid_ros.export.stored import Stored, load_stored
from sysid_ros.files import check_new, check_writable, replace_file
from sysid_ros.model.mjcf.source import absolute
from sysid_ros.model.mjcf.text import encode
from sysid_ros.model.mjcf.write import WrittenModel, left_out, write_model

#: What says how samples were drawn, in their folder.
RANGES = 'ranges.yaml'


class ExportFormat(StrEnum):
    """What can be written."""

    MJCF = 'mjcf'
    URDF = 'urdf'
    ROS2_CONTROL = 'ros2-control'
    ISAACLAB = 'isaaclab'
    MJLAB = 'mjlab'


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
        lost: What they do not hold.
        notes: What to know of them, a sentence each.
        drawn: How samples were drawn; None without any.
    """

    format: ExportFormat
    files: tuple[Path, ...]
    lost: tuple[Lost, ...]
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
    said = tuple(_remarks(stored))
    if request.format is ExportFormat.MJCF:
        done = _export_mjcf(stored, request)
        return dataclasses.replace(done, notes=(*said, *done.notes))
    made = _rendered(stored, request)
    if made.empty:
        parts = (str(entry) for entry in made.lost if not entry.identified)
        raise ResultError(
            f'Expected a joint with an actuator that {request.format} can describe, found '
            f'{some(parts) or "none"}.'
        )
    replace_file(request.output, encode(made.text))
    return Exported(request.format, (request.output,), made.lost, (*said, *made.notes))


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
    empty = folder and output.is_dir() and not any(output.iterdir())
    if not empty:
        check_new(output)
    check_writable(output.parent)


def _rendered(stored: Stored, request: ExportRequest) -> Rendered:
    source = f'{stored.path} of {Path(stored.record.model).name}'
    if request.format is ExportFormat.URDF:
        return urdf.render(stored, source, request.urdf, request.packages)
    renderers = {
        ExportFormat.ROS2_CONTROL: ros2_control.render,
        ExportFormat.ISAACLAB: isaaclab.render,
        ExportFormat.MJLAB: mjlab.render,
    }
    return renderers[request.format](stored, source)


def _export_mjcf(stored: Stored, request: ExportRequest) -> Exported:
    """Write the identified MJCF and what it needs, and models drawn around it."""
    output = request.output
    lost = tuple(identified_lost(stored, lambda target: target.in_mjcf))
    if request.samples is None:
        written = write_model(stored.robot, stored.values, output, stored.biases)
        main = written.path.relative_to(absolute(output))
        return Exported(request.format, _beside(output / main), lost, _new(written, stored))
    posterior = Posterior.of(stored)
    temporary = Path(tempfile.mkdtemp(dir=output.parent, prefix=f'.{output.name}.'))
    try:
        made = temporary / 'made'
        written = write_model(stored.robot, stored.values, made, stored.biases)
        drawn = write_samples(
            stored, posterior, written.path, request.samples.count, request.samples.seed
        )
        main = written.path.relative_to(absolute(made))
        text = ranges_text(stored, posterior, drawn, main.as_posix(), request.samples.seed)
        (made / RANGES).write_bytes(text.encode())
        if output.exists():
            output.rmdir()
        made.rename(output)
    except OSError as err:
        raise ResultError(f'Cannot write {str(output)!r}: {err.strerror}.') from err
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    files = (output / RANGES, *_beside(output / main))
    return Exported(request.format, files, lost, (*_new(written, stored), *drawn.notes), drawn)


def _new(written: WrittenModel, stored: Stored) -> tuple[str, ...]:
    """Return the notes on a written model without those that say what is lost."""
    told = left_out(stored.values)
    return tuple(note for note in written.notes if note not in told)


def _beside(main: Path) -> tuple[Path, ...]:
    """Return a main file, and the URDF beside it where there is one."""
    also = main.with_suffix('.urdf')
    return (main, also) if also.exists() else (main,)

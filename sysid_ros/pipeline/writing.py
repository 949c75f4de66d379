# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a calibration writes: result, report, and of an accepted one MJCF and servos' files."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sysid_ros.config import CalibrationConfig
from sysid_ros.errors import listed
from sysid_ros.model.description import Description
from sysid_ros.model.loading import RobotModel, compile_spec, read_model
from sysid_ros.model.mjcf.source import absolute
from sysid_ros.model.mjcf.text import decode
from sysid_ros.model.mjcf.write import write_model
from sysid_ros.model.stated import changed
from sysid_ros.model.targets import Target
from sysid_ros.pipeline.estimators import motor_biases
from sysid_ros.pipeline.film import Motion, draw_motion
from sysid_ros.pipeline.problem import parameters_of
from sysid_ros.results.result import CalibrationResult, EstimatorKind, ModelChange
from sysid_ros.results.store import CURRENT, REJECTED, RESULT, draft
from sysid_ros.servos.formats.parameter_file import write_servos
from sysid_ros.servos.laws.joints import ServoJoints

REPORT = 'report.html'
MODEL = 'mjcf'
#: Folder for the coefficients of servos, a file for each actuator.
SERVOS = 'servos'

#: The MJCF text has to take a change of a parameter by this part of its value, or of 1 if that is
#: more.
_NUDGE = 1e-6


@dataclass(frozen=True)
class Identified:
    """A judged result, and what an accepted one needs for its files; nothing is on disk yet.

    Values are in SI units; the nominal model is read again from its file unless given.
    """

    result: CalibrationResult
    values: Sequence[tuple[Target, float]] = ()
    model: RobotModel | None = None
    servos: ServoJoints | None = None
    motion: Motion | None = None


@dataclass(frozen=True)
class Calibration:
    """A result and the dated folder that it was written to, which never changes."""

    result: CalibrationResult
    folder: Path

    @classmethod
    def load(cls, folder: Path) -> Calibration:
        """Read what was written into a dated folder.

        Raises:
            ResultError: It cannot be read.
        """
        return cls(CalibrationResult.load(folder / RESULT), folder)

    @property
    def result_path(self) -> Path:
        """The result as JSON."""
        return self.folder / RESULT

    @property
    def report_path(self) -> Path:
        """The report."""
        return self.folder / REPORT

    @property
    def mjcf_path(self) -> Path | None:
        """Main file of the identified model; None when the result was rejected."""
        return self.folder / self.result.mjcf if self.result.mjcf else None

    @property
    def paths(self) -> dict[str, Path]:
        """What a person opens, by what it is; through the link, which later results move."""
        link = self.folder.parent / (CURRENT if self.result.accepted else REJECTED)
        mjcf = self.result.mjcf
        model = {'identified MJCF': link / mjcf} if mjcf else {}
        return {
            **model,
            'result': link / RESULT,
            'report': link / REPORT,
            'kept in': self.folder,
        }


def write(
    identified: Identified, output: Path, truth: Mapping[str, float] | None = None
) -> Calibration:
    """Write result and report; of an accepted result also the MJCF and servos' files.

    Args:
        identified: What was found.
        output: Gets a new, dated folder, whole or not at all, and a link to it: ``current``, or
            ``rejected``; see `sysid_ros.results.store`.
        truth: True values by name where they are known, for the report.

    Raises:
        SysidError: In one sentence, what cannot be written.
    """
    # Drawing takes long to import, and who only asks for a calibration later should not wait.
    from sysid_ros.report import write_report  # noqa: PLC0415

    result = identified.result
    with draft(output) as begun:
        if result.accepted:
            mjcf, notes, changes = _write_model(identified, begun.folder)
            written = {'mjcf': str(mjcf), 'changes': changes}
            result = result.with_warnings(notes).model_copy(update=written)
        result.save(begun.folder / RESULT)
        films, no_film = draw_motion(identified.motion)
        write_report(result, begun.folder / REPORT, truth=truth, films=films, no_film=no_film)
        return Calibration(result, begun.keep(accepted=result.accepted))


def _write_model(
    identified: Identified, folder: Path
) -> tuple[Path, list[str], tuple[ModelChange, ...]]:
    """Write MJCF and servos' files; return the main file's place, notes, and what changed."""
    result = identified.result
    source = identified.model or read_model(Path(result.model))
    values, biases = with_biases(result, source, identified.values)
    written = write_model(source, values, folder / MODEL, biases)
    if identified.servos is not None:
        named = {target.path: value for target, value in values}
        write_servos(folder / SERVOS, identified.servos, named)
    notes = list(written.notes)
    if biases:
        shown = listed(f'{name} {bias:.4g}' for name, bias in biases.items())
        notes.append(f'Offsets of efforts are constant forces of the motors in the MJCF: {shown}.')
    changes: tuple[ModelChange, ...] = ()
    if written.edited:
        urdf = None  # of a URDF, what changes is in that beside the MJCF
        if source.description.urdf is not None:
            urdf = decode(written.path.with_suffix('.urdf').read_bytes())
        changes = tuple(
            ModelChange(**{**change._asdict(), 'file': str(change.file)})
            for change in changed(source.description, Description(written.path, urdf=urdf))
        )
    return written.path.relative_to(absolute(folder)), notes, changes


def with_biases(
    result: CalibrationResult, source: RobotModel, values: Sequence[tuple[Target, float]]
) -> tuple[list[tuple[Target, float]], dict[str, float]]:
    """Turn offsets of efforts into constant forces of motors, where the fit was one of efforts.

    Returns:
        The other values, and actuators with the constant forces that they exert.
    """
    if result.solver is None or result.solver.estimator is not EstimatorKind.TORQUE:
        return list(values), {}
    biases, read = motor_biases(compile_spec(source.spec, Path(result.model)), values)
    return [v for v in values if v[0].name not in read or v[0].attribute != 'bias'], biases


def check_written_back(config: CalibrationConfig, model: RobotModel) -> None:
    """Check, before any work, that the MJCF text can take values for all parameters.

    Raises:
        ModelError: It cannot: an element is generated, say.
    """
    spec = model.spec
    values: list[tuple[Target, float]] = []
    for parameter in parameters_of(config, compile_spec(spec, config.model), spec):
        # A value inside the bounds that is not the one in the text.
        step = _NUDGE * max(abs(parameter.nominal), 1.0)
        nudged = min(parameter.nominal + step, parameter.max_value)
        if nudged == parameter.nominal:
            nudged = max(parameter.nominal - step, parameter.min_value)
        values.extend((target, nudged) for target in parameter.targets)
    with tempfile.TemporaryDirectory() as folder:
        biases: dict[str, float] = {}
        if config.estimator != 'simulation':
            biases, _ = motor_biases(compile_spec(spec, config.model), values)
        write_model(model, values, Path(folder) / MODEL, biases)

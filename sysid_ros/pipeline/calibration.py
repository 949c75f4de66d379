# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The whole way from bags to a result: configuration in, result out."""

from __future__ import annotations

import dataclasses
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sysid_ros.alignment import Alignment, Format, write_series
from sysid_ros.config import CalibrationConfig, MemoryConfig
from sysid_ros.errors import how_many, listed
from sysid_ros.estimation.solver.solver import LIMITS
from sysid_ros.files import check_writable
from sysid_ros.identification.fit import Fit
from sysid_ros.identification.held_out import with_arrivals_in
from sysid_ros.identification.observer import Nobody, Observer
from sysid_ros.model.description import Description
from sysid_ros.model.loading import RobotModel, compile_spec, read_model
from sysid_ros.model.mjcf.source import absolute
from sysid_ros.model.mjcf.text import decode
from sysid_ros.model.mjcf.write import write_model
from sysid_ros.model.stated import changed, stated
from sysid_ros.model.targets import Target
from sysid_ros.pipeline.assembly import assemble
from sysid_ros.pipeline.estimators import driven, estimated, motor_biases, with_motors
from sysid_ros.pipeline.film import draw_motion, motion_of
from sysid_ros.pipeline.fitting import deadline_of, fit_training
from sysid_ros.pipeline.loading import (
    ReadOptions,
    load,
    parameters_of,
    read_aligned,
    subject_of,
)
from sysid_ros.pipeline.memory import Remembered, fit_with_memory, recall, without_known_bags
from sysid_ros.pipeline.servos import write_servos
from sysid_ros.pipeline.timestep import (
    CORRECTIONS,
    corrected,
    may_correct,
    spoken_for,
    timestep_change,
    timestep_note,
    with_timestep,
)
from sysid_ros.pipeline.validation import check_families, validate
from sysid_ros.results.case import Case, Place, parameter_cases
from sysid_ros.results.comparison import ComparedQuantity, causes, check_tolerance, compare
from sysid_ros.results.result import CalibrationResult, EstimatorKind, ModelChange
from sysid_ros.results.store import CURRENT, REJECTED, RESULT, draft, find
from sysid_ros.servos.laws.joints import ServoJoints

if TYPE_CHECKING:
    from sysid_ros.pipeline.film import Motion
    from sysid_ros.pipeline.loading import Problem, Subject

#: The stages after a fit, which end in a result.
ENDING = ('predicting all recordings, nominal and fitted', 'writing result, report and model')
REPORT = 'report.html'
MODEL = 'mjcf'
#: Folder for the coefficients of servos, a file for each actuator.
SERVOS = 'servos'

#: The MJCF text has to take a change of a parameter by this part of its value, or of 1 if that is
#: more, and at most by this part of the distance of its bounds.
_NUDGE = 1e-6
_NUDGE_OF_BOUNDS = 1e-3


@dataclass(frozen=True)
class Identified:
    """A judged result, and what an accepted one needs for its files; nothing is on disk yet.

    Attributes:
        result: What was found.
        values: Targets and their values in SI units.
        model: The nominal one; read again from its file unless given.
        servos: The joints that servos drive, if any.
        motion: What its film shows, if it gets one.
    """

    result: CalibrationResult
    values: Sequence[tuple[Target, float]] = ()
    model: RobotModel | None = None
    servos: ServoJoints | None = None
    motion: Motion | None = None


class Checked(NamedTuple):
    """A fit beside a baseline.

    Attributes:
        identified: What was found.
        rows: Each quantity beside the baseline's.
        cases: The same as cases, with places in the model.
        notes: What is another than when the baseline was made, a sentence each.
    """

    identified: Identified
    rows: tuple[ComparedQuantity, ...]
    cases: tuple[Case, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Calibration:
    """A result and where it was written.

    Attributes:
        result: What was found.
        folder: The dated folder; what is in it never changes.
    """

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


def convert(
    bag: Path,
    model: Path,
    output: Path | None,
    options: ReadOptions | None = None,
    formats: Sequence[Format] = (Format.NPZ, Format.CSV),
) -> tuple[Alignment, tuple[Path, ...]]:
    """Turn a bag into time series aligned with a model.

    Args:
        bag: Bag folder.
        model: MJCF, URDF or xacro file, or a bag with a ``robot_description``.
        output: Folder for the series; None writes nothing.
        options: How the bag is read; by names, all of it, unless told otherwise.
        formats: How the series are written.

    Returns:
        The aligned sequences with everything that is to be said about them, and the new files.

    Raises:
        SysidError: In one sentence, what is wrong with the bag, the model or the mapping.
    """
    alignment, compiled = read_aligned(bag, model, options or ReadOptions())
    if output is None:
        return alignment, ()
    check_writable(output)
    return alignment, write_series(output, alignment, compiled, formats)


def calibrate(
    config: CalibrationConfig,
    *,
    command: str = '',
    observer: Observer | None = None,
    cancel: threading.Event | None = None,
) -> Calibration:
    """Identify the parameters of a configuration and write result, report and MJCF.

    Nothing is written before the fit has succeeded. Every result has a folder of its own, and a
    rejected one never becomes the current one.

    Args:
        config: The validated configuration.
        command: How the user asked for it, for the provenance.
        observer: Is told of stages and iterations.
        cancel: Ends the fit when it is set.

    Raises:
        SysidError: In one sentence, what is wrong; nothing was written.
    """
    observer = observer or Nobody()
    check_writable(config.output)
    subject = subject_of(config)
    _check_written_back(config, subject.model)
    identified = identify(
        config, command=command, observer=observer, cancel=cancel, subject=subject
    )
    observer.stage(ENDING[1])
    return write(identified, config.output)


def identify(
    config: CalibrationConfig,
    *,
    command: str = '',
    observer: Observer | None = None,
    cancel: threading.Event | None = None,
    subject: Subject | None = None,
) -> Identified:
    """Identify the parameters of a configuration; reads files and writes none.

    Args:
        config: The validated configuration.
        command: How the user asked for it, for the provenance.
        observer: Is told of stages and iterations.
        cancel: Ends the fit when it is set.
        subject: What was read of the model already; read here unless given.

    Raises:
        SysidError: In one sentence, what is wrong.
    """
    deadline = deadline_of(config)
    observer = observer or Nobody()
    memory, warnings = recall(config.memory, find(config.output))
    if memory is not None:
        config, warnings = without_known_bags(config, memory)
    problem = load(config, observer, subject=subject)
    seen = estimated(config, problem)
    fitted = with_timestep(seen.problem, config.solver)
    training = fitted.sequences('train')
    count = how_many(problem.parameters, 'parameter')
    observer.stage(f'fitting {count} to {how_many(training, "sequence")}')
    remembered, exact, as_fitted = Remembered(), seen.problem, fitted
    if memory is None:
        check_families(config, seen.problem)
        found, exact, as_fitted = _fitted(config, seen.problem, fitted, observer, cancel, deadline)
    else:
        found, remembered = fit_with_memory(config, fitted, memory, observer, cancel, deadline)
    change = timestep_change(seen.problem, exact, fitted, found, config.solver.threads)
    step = timestep_note(seen.problem, fitted, change)
    warnings = (*warnings, *remembered.warnings, *problem.notes, *step)
    remembered = dataclasses.replace(remembered, warnings=warnings)
    compared = recorded = exact
    if seen.kind is EstimatorKind.TORQUE:
        compared, recorded = with_motors(exact), with_motors(problem)
        # Motors are told what was measured less the offsets that were found.
        offsets = zip(found.parameters, found.solution.x.tolist(), strict=True)
        recorded = driven(recorded, [(t, value) for own, value in offsets for t in own.targets])
    unseen = fitted.sequences('validate')
    if found.arrival_errors and unseen:
        observer.stage('finding when commands of held-out recordings acted')
        threads = config.solver.threads
        found = with_arrivals_in(
            found, fitted.spec, unseen, threads=threads, cancel=cancel, deadline=deadline
        )
    tested = validate(
        config,
        compared,
        found,
        observer,
        cancel,
        recorded=recorded,
        refitted=with_motors(as_fitted) if seen.kind is EstimatorKind.TORQUE else as_fitted,
        deadline=deadline,
    )
    observer.stage(ENDING[0])
    result = assemble(
        config,
        command,
        seen,
        found,
        exact=None if exact.model is seen.problem.model else (exact, change),
        validation=tested,
        remembered=remembered,
    )
    values = [
        (target, found.value)
        for parameter, found in zip(seen.problem.parameters, result.parameters, strict=True)
        for target in parameter.targets
    ]
    motion = None
    if config.report.film:
        motion = motion_of(seen, found, result.diagnostics, config.solver.threads)
    return Identified(result, values, problem.source, problem.servos, motion)


def _fitted(
    config: CalibrationConfig,
    problem: Problem,
    fitted: Problem,
    observer: Observer,
    cancel: threading.Event | None,
    deadline: float,
) -> tuple[Fit, Problem, Problem]:
    """Fit with one time step, corrected for that which recordings speak for.

    Args:
        config: The configuration.
        problem: What is to be identified, with the model's own time step.
        fitted: The same with that of the fit.
        observer: Is told of stages and iterations.
        cancel: Ends the fit when it is set.
        deadline: When it is to be done, in ``time.monotonic()``.

    Returns:
        What was found, the problem with the step of predictions, and what was fitted in the end.
    """
    fit_to = partial(fit_training, config, observer=observer, cancel=cancel, deadline=deadline)
    if config.estimator == 'windows' or not may_correct(problem, config.solver):
        return fit_to(fitted), problem, fitted
    found = fit_to(fitted, judged=False)
    exact, like = spoken_for(problem, fitted, found, config.solver), fitted
    for last in range(CORRECTIONS) if exact.model is not fitted.model else ():
        if found.solution.status in LIMITS:
            break
        observer.stage(f'correcting for a time step of {exact.model.opt.timestep:g} s')
        like = corrected(exact, fitted, found, config.solver.threads)
        found = fit_to(like, begun=found, judged=last + 1 == CORRECTIONS)
    # A fit that reached its limit ends there.
    if like is fitted and found.solution.status not in LIMITS:
        found = fit_to(fitted, begun=found)
    return found, exact, like


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
    changes = _changes(source, written.path) if written.edited else ()
    return written.path.relative_to(absolute(folder)), notes, changes


def _changes(source: RobotModel, written: Path) -> tuple[ModelChange, ...]:
    """Return what a written model changes in the user's text, of a URDF in that beside it."""
    fitted = Description(written)
    if source.description.urdf is not None:
        fitted = Description(written, urdf=decode(written.with_suffix('.urdf').read_bytes()))
    return tuple(
        ModelChange(**{**change._asdict(), 'file': str(change.file)})
        for change in changed(source.description, fitted)
    )


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


def check(
    config: CalibrationConfig,
    baseline: Path,
    *,
    command: str = '',
    observer: Observer | None = None,
) -> Checked:
    """Convert and fit again, and compare with an earlier result; writes nothing.

    Args:
        config: The validated configuration.
        baseline: ``result.json`` of the calibration that is the reference, or a folder of it.
        command: How the user asked for it, for the provenance.
        observer: Is told of stages and iterations.

    Raises:
        SysidError: In one sentence, what is wrong with the input.
    """
    reference = CalibrationResult.load(find(baseline))
    check_tolerance(config.check.tolerance, reference)
    if config.memory.previous == 'auto':
        # The latest result is, or knows the bags of, the one that is to be reproduced.
        config = config.model_copy(update={'memory': MemoryConfig()})
    found = identify(config, command=command, observer=observer)
    rows = compare(found.result, reference, config.check.tolerance, config.check.held_out_factor)
    places = {'': Place(str(config.model), 0)}
    for entry in stated(found.model.description) if found.model is not None else ():
        place = Place(str(entry.file), entry.line)
        places.setdefault(entry.key.rpartition('/')[0], place)
    cases = parameter_cases(rows, found.result, places)
    return Checked(found, rows, cases, tuple(causes(found.result, reference, rows)))


def _check_written_back(config: CalibrationConfig, model: RobotModel) -> None:
    """Check, before any work, that the MJCF text can take values for all parameters.

    Raises:
        ModelError: It cannot: an element is generated, say.
    """
    spec = model.spec
    values: list[tuple[Target, float]] = []
    for parameter in parameters_of(config, compile_spec(spec, config.model), spec):
        # A value inside the bounds that is not the one in the text.
        nominal, low, high = parameter.nominal, parameter.min_value, parameter.max_value
        step = min(_NUDGE * max(abs(nominal), 1.0), _NUDGE_OF_BOUNDS * (high - low))
        nudged = nominal + step if nominal + step <= high else nominal - step
        values.extend((target, nudged) for target in parameter.targets)
    with tempfile.TemporaryDirectory() as folder:
        biases: dict[str, float] = {}
        if config.estimator != 'simulation':
            biases, _ = motor_biases(compile_spec(spec, config.model), values)
        write_model(model, values, Path(folder) / MODEL, biases)

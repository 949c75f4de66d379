# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The whole way from bags to a result: configuration in, result out."""

from __future__ import annotations

import dataclasses
import glob
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from sysid_ros.alignment import Format, align, map_columns, write_series
from sysid_ros.assembly import Nominal, assemble
from sysid_ros.bags import read_bag
from sysid_ros.config import load_mapping
from sysid_ros.errors import (
    BagError,
    CancelledError,
    ConfigError,
    FitError,
    ResultError,
    nearest,
)
from sysid_ros.findings import Recording, idle_actuators
from sysid_ros.identification.fit import fit
from sysid_ros.identification.models import compile_spec, load_model, load_spec
from sysid_ros.identification.solver.least_squares import SolverSettings
from sysid_ros.identification.targets import Role as Acting
from sysid_ros.identification.unknown import check_distinct, make_unknowns
from sysid_ros.report import write_figures, write_report
from sysid_ros.results.comparison import check_tolerance, compare
from sysid_ros.results.mjcf import write_model
from sysid_ros.results.mjcf_source import absolute
from sysid_ros.results.result import CalibrationResult, Role
from sysid_ros.signals import TimeSeries

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    import mujoco

    from sysid_ros.alignment import Alignment
    from sysid_ros.config import CalibrationConfig, MappingConfig, SegmentsConfig, StampChoice
    from sysid_ros.identification.sequence import Sequence as Run
    from sysid_ros.identification.solver.problem import Iteration
    from sysid_ros.identification.unknown import Unknown
    from sysid_ros.results.comparison import Comparison

RESULT = 'result.json'
REPORT = 'report.html'
FIGURES = 'figures'
MODEL = 'mjcf'

#: A change of a parameter that the MJCF text has to take, as a part of the value or of 1, …
_NUDGE = 1e-6
#: … and at most of the bounds' distance.
_NUDGE_OF_BOUNDS = 1e-3
#: Targets whose elements are known only when the bags were read.
_OF_SEQUENCES = 'sequence/'


class Observer(Protocol):
    """Someone who watches a calibration."""

    def stage(self, text: str) -> None:
        """A new stage begins."""

    def iteration(self, iteration: Iteration) -> None:
        """The solver made an iteration."""


class _Nobody:
    def stage(self, text: str) -> None:
        """Ignore it."""

    def iteration(self, iteration: Iteration) -> None:
        """Ignore it."""


@dataclass(frozen=True)
class Calibration:
    """A result and where it was written; ``mjcf`` is None when the result was rejected."""

    result: CalibrationResult
    result_path: Path
    report_path: Path
    mjcf_path: Path | None


def convert(
    bag: Path,
    model: Path,
    output: Path | None,
    *,
    mapping: str = 'auto',
    stamps: StampChoice = 'auto',
    segments: SegmentsConfig | None = None,
    formats: Sequence[Format] = (Format.NPZ, Format.CSV),
) -> tuple[Alignment, tuple[Path, ...]]:
    """Turn a bag into time series aligned with a model.

    Args:
        bag: Bag folder.
        model: MJCF file.
        output: Folder for the series; None writes nothing.
        mapping: ``auto``, or the path of a mapping file.
        stamps: Which time of a message counts.
        segments: What becomes sequences; by default all, cut at gaps.
        formats: How the series are written.

    Returns:
        The aligned sequences with everything that is to be said about them, and the new files.

    Raises:
        SysidError: In one sentence, what is wrong with the bag, the model or the mapping.
    """
    compiled = load_model(model)
    chosen: Literal['auto'] | MappingConfig = 'auto'
    if mapping != 'auto':
        chosen = load_mapping(Path(mapping))
    alignment = _align(bag, compiled, chosen, stamps, segments)
    if output is None:
        return alignment, ()
    _check_writable(output)
    return alignment, write_series(output, alignment, compiled, formats)


def calibrate(
    config: CalibrationConfig,
    *,
    command: str = '',
    observer: Observer | None = None,
    cancel: threading.Event | None = None,
) -> Calibration:
    """Identify the parameters of a configuration and write result, report and MJCF.

    Nothing is written before the fit has succeeded. A rejected result is written too, but the MJCF
    of an earlier, accepted one stays as it is.

    Args:
        config: The validated configuration.
        command: How the user asked for it, for the provenance.
        observer: Is told of stages and iterations.
        cancel: Ends the fit when it is set.

    Raises:
        SysidError: In one sentence, what is wrong; nothing was written.
    """
    observer = observer or _Nobody()
    _check_writable(config.output)
    _check_written_back(config)
    result, parameters = _fit(config, command, observer, cancel)
    observer.stage('writing result, report and model')
    mjcf = None
    if result.accepted:
        values = [
            (target, found.value)
            for parameter, found in zip(parameters, result.parameters, strict=True)
            for target in parameter.targets
        ]
        written = write_model(config.model, values, config.output / MODEL)
        mjcf = config.output / MODEL / written.path.relative_to(absolute(config.output / MODEL))
        result = result.model_copy(update={'warnings': (*result.warnings, *written.notes)})
    result.save(config.output / RESULT)
    write_figures(result, config.output / FIGURES)
    write_report(result, config.output / REPORT)
    return Calibration(result, config.output / RESULT, config.output / REPORT, mjcf)


def check(
    config: CalibrationConfig,
    baseline: Path,
    *,
    command: str = '',
    observer: Observer | None = None,
) -> tuple[CalibrationResult, tuple[Comparison, ...]]:
    """Convert and fit again, and compare with an earlier result; writes nothing.

    Args:
        config: The validated configuration.
        baseline: ``result.json`` of the calibration that is the reference.
        command: How the user asked for it, for the provenance.
        observer: Is told of stages and iterations.

    Raises:
        SysidError: In one sentence, what is wrong with the input.
    """
    reference = CalibrationResult.load(baseline)
    check_tolerance(config.check.tolerance, reference)
    result, _ = _fit(config, command, observer or _Nobody(), None)
    return result, compare(result, reference, config.check.tolerance, config.check.held_out_factor)


def _fit(
    config: CalibrationConfig,
    command: str,
    observer: Observer,
    cancel: threading.Event | None,
) -> tuple[CalibrationResult, tuple[Unknown, ...]]:
    spec = load_spec(config.model)
    model = compile_spec(spec, config.model)
    early = _parameters(config, model, spec)
    mapping = load_mapping(config.mapping) if isinstance(config.mapping, Path) else config.mapping
    recordings = []
    for path, role in _bags(config):
        observer.stage(f'reading {path}')
        alignment = _align(
            path, model, mapping, config.stamps, config.segments, _longest_delay(early)
        )
        if config.sensors is not None:
            alignment = _select(alignment, config.sensors)
        recordings.append(Recording(path, role, alignment))
    training = [
        sequence
        for recording in recordings
        if recording.role == 'train'
        for sequence in recording.alignment.sequences
    ]
    parameters = _parameters(config, model, spec, training)
    observer.stage(f'fitting {_count(parameters, "parameter")} to {_count(training, "sequence")}')
    try:
        found = fit(
            spec,
            parameters,
            training,
            settings=SolverSettings(
                config.solver.backend, config.solver.loss, config.solver.max_iterations
            ),
            starts=config.solver.starts,
            seed=config.solver.seed,
            threads=config.solver.threads,
            cancel=cancel,
            observe=observer.iteration,
        )
    except CancelledError:
        raise
    except FitError as err:
        # Without commands little moves: that is then what the user has to know.
        idle = [text for recording in recordings for text in idle_actuators(recording)]
        if not idle:
            raise
        msg = f'{str(err).rstrip(".")}; bag {idle[0]}.'
        raise FitError(msg) from err
    return assemble(config, command, Nominal(spec, model), recordings, found), parameters


def _align(
    bag: Path,
    model: mujoco.MjModel,
    mapping: Literal['auto'] | MappingConfig,
    stamps: StampChoice,
    segments: SegmentsConfig | None,
    longest_delay: float = 0.0,
) -> Alignment:
    columns = read_bag(bag)
    pairing = map_columns(columns, model, mapping)
    return align(columns, model, pairing, stamps, segments=segments, longest_delay=longest_delay)


def _select(alignment: Alignment, sensors: tuple[str, ...]) -> Alignment:
    """Keep only some sensors.

    Raises:
        ConfigError: One of them is not mapped in this bag.
    """
    mapped = {name for s in alignment.sequences for m in s.measurements for name in m.names}
    for sensor in sensors:
        if sensor not in mapped:
            hint = nearest(sensor, sorted(mapped))
            msg = f'Sensor {sensor!r} in sensors is not mapped in bag {alignment.bag!r}; {hint}.'
            raise ConfigError(msg)
    sequences = []
    for sequence in alignment.sequences:
        kept = (_keep(series, sensors) for series in sequence.measurements)
        measurements = tuple(series for series in kept if series.names)
        if measurements:
            sequences.append(dataclasses.replace(sequence, measurements=measurements))
    return dataclasses.replace(alignment, sequences=tuple(sequences))


def _keep(series: TimeSeries, names: tuple[str, ...]) -> TimeSeries:
    kept = {name: entry for name, entry in series.signal_mapping.items() if name in names}
    return TimeSeries(series.times, series.data, kept)


def _longest_delay(parameters: tuple[Unknown, ...]) -> float:
    """Return the largest delay that any actuator may be found to have, s."""
    delays = (
        parameter.max_value
        for parameter in parameters
        for target in parameter.targets
        if target.role is Acting.COMMAND and target.attribute == 'delay'
    )
    return max(delays, default=0.0)


def _parameters(
    config: CalibrationConfig,
    model: mujoco.MjModel,
    spec: mujoco.MjSpec,
    training: Sequence[Run] | None = None,
) -> tuple[Unknown, ...]:
    """Turn the entries of a configuration into unknowns.

    Args:
        config: The configuration.
        model: The compiled nominal model.
        spec: What it was compiled from.
        training: The sequences whose starts may be unknown; None before the bags are read, when
            entries for them are left out.
    """
    found: list[Unknown] = []
    for entry in config.parameters:
        if training is None and entry.target.startswith(_OF_SEQUENCES):
            continue
        found.extend(
            make_unknowns(
                entry.target,
                model,
                name=entry.name,
                initial=entry.initial,
                bounds=entry.bounds,
                shared=entry.shared,
                scale=entry.scale,
                prior=None if entry.prior is None else (entry.prior.mean, entry.prior.std),
                sequences=training or (),
                spec=spec,
            )
        )
    check_distinct(found, model)
    return tuple(found)


def _bags(config: CalibrationConfig) -> list[tuple[Path, Role]]:
    """Return every bag with its role, patterns expanded in alphabetical order."""
    found: dict[Path, Role] = {}
    for selection in config.bags:
        matches = sorted(glob.glob(selection.path)) if _is_pattern(selection.path) else []  # noqa: PTH207 (the pattern may be absolute)
        if _is_pattern(selection.path) and not matches:
            folder = Path(selection.path).parent
            near = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
            hint = nearest(Path(selection.path).name, near)
            msg = f'No bag matches {selection.path!r}; {hint}.'
            raise BagError(msg)
        for match in matches or [selection.path]:
            path = Path(match)
            if found.setdefault(path, selection.role) != selection.role:
                msg = f'Bag {str(path)!r} is both training and validation data; choose one role.'
                raise ConfigError(msg)
    return list(found.items())


def _count(things: Sequence[object], what: str) -> str:
    return f'{len(things)} {what}' if len(things) == 1 else f'{len(things)} {what}s'


def _is_pattern(path: str) -> bool:
    return any(character in path for character in '*?[')


def _check_written_back(config: CalibrationConfig) -> None:
    """Check, before any work, that the MJCF text can take values for all parameters.

    Raises:
        ModelError: It cannot: an element is generated, say.
    """
    spec = load_spec(config.model)
    values = [
        (target, _nudged(parameter))
        for parameter in _parameters(config, compile_spec(spec, config.model), spec)
        for target in parameter.targets
    ]
    with tempfile.TemporaryDirectory() as folder:
        write_model(config.model, values, Path(folder) / MODEL)


def _nudged(parameter: Unknown) -> float:
    """Return a value inside the bounds that is not the one in the text."""
    step = min(
        _NUDGE * max(abs(parameter.nominal), 1.0),
        _NUDGE_OF_BOUNDS * (parameter.max_value - parameter.min_value),
    )
    inside = parameter.nominal + step <= parameter.max_value
    return parameter.nominal + step if inside else parameter.nominal - step


def _check_writable(folder: Path) -> None:
    """Check, before any work, that a folder can be made or written to.

    Raises:
        ResultError: It cannot.
    """
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        msg = f'Cannot write into {str(folder)!r}: {str(existing)!r} is not a folder.'
        raise ResultError(msg)
    try:
        Path(tempfile.mkdtemp(dir=existing)).rmdir()
    except OSError as err:
        msg = f'Cannot write into {str(folder)!r}: {err.strerror} in {str(existing)!r}.'
        raise ResultError(msg) from err

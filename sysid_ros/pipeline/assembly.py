# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Put together what a calibration found into one CalibrationResult."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysid_ros.files import sha256
from sysid_ros.model.units import component_label, sensor_unit
from sysid_ros.pipeline.findings import findings, stuck, warnings
from sysid_ros.pipeline.memory import Remembered
from sysid_ros.results.diagnostics import Curve
from sysid_ros.results.result import FileHash
from sysid_ros.results.summary import judged_result, provenance_now, summarise
from sysid_ros.rollout.prediction import predict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sysid_ros.config import CalibrationConfig
    from sysid_ros.identification.fit import Fit
    from sysid_ros.pipeline.findings import Recording
    from sysid_ros.pipeline.loading import Problem
    from sysid_ros.results.result import CalibrationResult, Provenance
    from sysid_ros.results.summary import Validation


def assemble(
    config: CalibrationConfig,
    command: str,
    problem: Problem,
    fit: Fit,
    *,
    validation: Validation | None = None,
    remembered: Remembered | None = None,
) -> CalibrationResult:
    """Build the judged result of a fit.

    Args:
        config: What was asked for.
        command: How it was asked for.
        problem: The model and the data.
        fit: What was found.
        validation: What it is worth on data that it did not see.
        remembered: What an earlier result has to do with it.
    """
    recordings = problem.recordings
    curves = list(_curves(problem, fit, config.solver.threads))
    summary = summarise(
        str(config.model),
        fit,
        curves,
        {curve.sensor: sensor_unit(problem.model, curve.sensor) for curve in curves},
        backend=config.solver.backend,
        loss=config.solver.loss,
    )
    provenance = _provenance(config, command, recordings)
    remembered = remembered or Remembered()
    return judged_result(
        summary,
        config.gate,
        provenance=remembered.provenance(provenance),
        warnings=(
            *remembered.warnings,
            *warnings(problem.model, fit, recordings, summary.held_out),
            *(validation.warnings if validation else ()),
        ),
        topics=tuple(rate for recording in recordings for rate in recording.alignment.topics),
        health=(*findings(fit, recordings), *stuck(problem.model, recordings)),
        validation=validation,
        drift=remembered.drift,
    )


def _curves(problem: Problem, fit: Fit, threads: int) -> Iterator[Curve]:
    sequences = [(s, r.role) for r in problem.recordings for s in r.alignment.sequences]
    # Commands act when the fit found them to, which it knows of training data only.
    bare = fit.as_arrived([sequence for sequence, _ in sequences], offsets=True)
    drives = problem.servos
    before = predict(problem.model, bare, threads=threads, drives=drives)
    after = predict(
        problem.spec, bare, fit.parameters, fit.solution.x, threads=threads, drives=drives
    )
    for (sequence, role), old, new in zip(sequences, before, after, strict=True):
        for series, old_values, new_values in zip(
            sequence.measurements, old.channels, new.channels, strict=True
        ):
            columns = [
                (sensor, component_label(sensor, place, len(own)), int(column))
                for sensor, (_, own) in series.signal_mapping.items()
                for place, column in enumerate(own)
            ]
            for predicted, (sensor, name, column) in enumerate(columns):
                yield Curve(
                    sequence.name,
                    role,
                    sensor,
                    name,
                    series.times,
                    series.data[:, column],
                    old_values[0, :, predicted],
                    new_values[0, :, predicted],
                    bool(new.diverged[0]),
                )


def _provenance(
    config: CalibrationConfig, command: str, recordings: Sequence[Recording]
) -> Provenance:
    files = [FileHash(path=str(config.model), role='model', sha256=sha256(config.model))]
    for recording in recordings:
        inside = [recording.path] if recording.path.is_file() else sorted(recording.path.iterdir())
        files.extend(
            FileHash(path=str(path), role=recording.role, sha256=sha256(path))
            for path in inside
            if path.is_file()
        )
    return provenance_now(
        command,
        config.model_dump(mode='json'),
        tuple(files),
        'recorded commands, zero-order held, drive the actuators of the model',
    )

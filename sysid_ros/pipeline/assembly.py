# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Put together what a calibration found into one CalibrationResult."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sysid_ros.files import sha256
from sysid_ros.model.units import component_label, sensor_unit
from sysid_ros.pipeline.findings import findings, stuck, warnings
from sysid_ros.results.diagnostics import Curve
from sysid_ros.results.result import CalibrationResult, FileHash
from sysid_ros.results.summary import solver_of, summarise, told
from sysid_ros.rollout.prediction import predict

if TYPE_CHECKING:
    from collections.abc import Iterator

    import mujoco

    from sysid_ros.config import CalibrationConfig
    from sysid_ros.identification.fit import Fit
    from sysid_ros.pipeline.findings import Recording
    from sysid_ros.results.result import Provenance
    from sysid_ros.rollout.drives import Drives


class Nominal(NamedTuple):
    """The user's model, what it compiles to, and what drives it beside its own actuators."""

    spec: mujoco.MjSpec
    model: mujoco.MjModel
    drives: Drives | None = None


def assemble(
    config: CalibrationConfig,
    command: str,
    nominal: Nominal,
    recordings: list[Recording],
    fit: Fit,
) -> CalibrationResult:
    """Build the result of a fit, which is not judged yet.

    Args:
        config: What was asked for.
        command: How it was asked for.
        nominal: The model as it is.
        recordings: All bags, aligned.
        fit: What was found.
    """
    curves = list(_curves(nominal, recordings, fit, config.solver.threads))
    units = {curve.sensor: sensor_unit(nominal.model, curve.sensor) for curve in curves}
    result = summarise(
        str(config.model),
        fit,
        curves,
        units,
        solver_of(fit, config.solver.backend, config.solver.loss),
        _provenance(config, command, recordings),
    )
    held_out = (result.held_out_before, result.held_out_after)
    return result.model_copy(
        update={
            'topics': tuple(rate for r in recordings for rate in r.alignment.topics),
            'health': (*findings(fit, recordings), *stuck(nominal.model, recordings)),
            'warnings': tuple(warnings(nominal.model, fit, recordings, held_out)),
        }
    )


def _curves(
    nominal: Nominal, recordings: list[Recording], fit: Fit, threads: int
) -> Iterator[Curve]:
    sequences = [(s, r.role) for r in recordings for s in r.alignment.sequences]
    # Commands act when the fit found them to, which it knows of training data only.
    bare = fit.as_arrived([sequence for sequence, _ in sequences], offsets=True)
    drives = nominal.drives
    before = predict(nominal.model, bare, threads=threads, drives=drives)
    after = predict(
        nominal.spec, bare, fit.parameters, fit.solution.x, threads=threads, drives=drives
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


def _provenance(config: CalibrationConfig, command: str, recordings: list[Recording]) -> Provenance:
    files = [FileHash(path=str(config.model), role='model', sha256=sha256(config.model))]
    for recording in recordings:
        inside = [recording.path] if recording.path.is_file() else sorted(recording.path.iterdir())
        files.extend(
            FileHash(path=str(path), role=recording.role, sha256=sha256(path))
            for path in inside
            if path.is_file()
        )
    return told(
        command,
        config.model_dump(mode='json'),
        tuple(files),
        'recorded commands, zero-order held, drive the actuators of the model',
    )

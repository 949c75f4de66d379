# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Stored results with values and covariances that a test knows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from builders.bare_results import parameter, verdict
from sysid_ros.files import sha256
from sysid_ros.model.loading import add_actuators, compile_spec, read_model
from sysid_ros.model.targets import resolve
from sysid_ros.results.result import CalibrationResult, FileHash, InferenceSummary

#: A calibration of another model: what a test does not say is from there.
_RECORD = Path(__file__).parents[1] / 'data' / 'pendulum' / 'baseline.json'


@dataclasses.dataclass(frozen=True)
class Found:
    """What was found for a parameter: NaN deviations are those of no interval."""

    value: float
    deviation: float = float('nan')
    bounds: tuple[float, float] = (-100.0, 100.0)


def store(
    folder: Path,
    model: Path,
    found: Mapping[str, Found | float],
    *,
    correlation: NDArray[np.float64] | None = None,
    servos: tuple[str, ...] = (),
    accepted: bool = True,
) -> Path:
    """Store what was found for the targets of a model, and return the path of the result."""
    entries = {
        name: entry if isinstance(entry, Found) else Found(entry) for name, entry in found.items()
    }
    spec = read_model(model).spec
    add_actuators(spec, servos)
    compiled = compile_spec(spec, model)
    parameters = [
        parameter(
            name,
            entry.value,
            1.96 * entry.deviation,
            unit=resolve(name, compiled, spec=spec)[0].unit,
            initial=entry.value,
            bounds=entry.bounds,
            verdict_kind='identified' if np.isfinite(entry.deviation) else 'not excited',
        )
        for name, entry in entries.items()
    ]
    deviation = np.array([entry.deviation for entry in entries.values()])
    matrix = np.eye(len(entries)) if correlation is None else correlation
    covariance = matrix * np.outer(deviation, deviation)
    covariance[np.isnan(deviation)] = covariance[:, np.isnan(deviation)] = np.nan
    record = CalibrationResult.load(_RECORD)
    hashes = (FileHash(path=str(model), role='model', sha256=sha256(model)),)
    record = record.model_copy(
        update={
            'model': str(model),
            'parameters': tuple(parameters),
            'checks': verdict(accepted=accepted),
            'implied_actuators': servos,
            'inference': InferenceSummary(
                method='a test',
                samples=1000,
                effective_samples=1000.0,
                covariance=tuple(map(tuple, covariance.tolist())),
                correlation=tuple(map(tuple, matrix.tolist())),
            ),
            'provenance': record.provenance.model_copy(update={'files': hashes}),
        }
    )
    path = folder / 'result.json'
    record.save(path)
    return path

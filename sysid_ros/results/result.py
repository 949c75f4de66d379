# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The result of a calibration: the one object that everything else renders."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003 (pydantic resolves annotations at run time)

from pydantic import ValidationError

from sysid_ros.config.section import explain
from sysid_ros.errors import ResultError, nearest
from sysid_ros.files import replace_file
from sysid_ros.results.parts import (
    CombinationResult,
    Drift,
    DriftedParameter,
    FileHash,
    FitDiagnostics,
    Fold,
    Frozen,
    GateCheck,
    HealthFinding,
    HorizonPoint,
    Improvement,
    InferenceSummary,
    Likeness,
    MaybeFloat,
    NoiseScale,
    ParameterResult,
    Provenance,
    Role,
    Samples,
    SensorError,
    SequenceError,
    SignalPlot,
    SolverStatus,
    SolverSummary,
    Standstill,
    StartEntry,
    StartKind,
    TopicRate,
    TraceEntry,
    WindowFit,
)

SCHEMA_VERSION = 3

__all__ = [
    'SCHEMA_VERSION',
    'CalibrationResult',
    'CombinationResult',
    'Drift',
    'DriftedParameter',
    'FileHash',
    'FitDiagnostics',
    'Fold',
    'GateCheck',
    'HealthFinding',
    'HorizonPoint',
    'Improvement',
    'InferenceSummary',
    'Likeness',
    'MaybeFloat',
    'NoiseScale',
    'ParameterResult',
    'Provenance',
    'Role',
    'Samples',
    'SensorError',
    'SequenceError',
    'SignalPlot',
    'SolverStatus',
    'SolverSummary',
    'Standstill',
    'StartEntry',
    'StartKind',
    'TopicRate',
    'TraceEntry',
    'WindowFit',
]


class CalibrationResult(Frozen):
    """Everything a calibration found, immutable and versioned.

    ``accepted`` is whether all conditions in ``gate`` are met; the reason is in ``acceptance``.
    ``held_out_before`` and ``held_out_after`` are the root mean square of the residuals on
    validation sequences in units of the noise scale (dimensionless), NaN when there are none.
    ``diverged`` names the sequences in which the fitted model becomes unstable.
    """

    schema_version: int = SCHEMA_VERSION
    model: str
    parameters: tuple[ParameterResult, ...]
    accepted: bool
    acceptance: str
    held_out_before: MaybeFloat
    held_out_after: MaybeFloat
    training_before: MaybeFloat
    training_after: MaybeFloat
    errors: tuple[SensorError, ...]
    noise: tuple[NoiseScale, ...]
    plots: tuple[SignalPlot, ...]
    topics: tuple[TopicRate, ...]
    health: tuple[HealthFinding, ...]
    solver: SolverSummary
    warnings: tuple[str, ...]
    provenance: Provenance
    inference: InferenceSummary | None = None
    combinations: tuple[CombinationResult, ...] = ()
    gate: tuple[GateCheck, ...] = ()
    folds: tuple[Fold, ...] = ()
    horizon: tuple[HorizonPoint, ...] = ()
    windows: tuple[WindowFit, ...] = ()
    drift: Drift | None = None
    diverged: tuple[str, ...] = ()
    diagnostics: FitDiagnostics = FitDiagnostics()

    def parameter(self, name: str) -> ParameterResult:
        """Return a parameter by name.

        Raises:
            KeyError: There is none of that name.
        """
        return {parameter.name: parameter for parameter in self.parameters}[name]

    def to_json(self) -> str:
        """Return the result as JSON text."""
        return self.model_dump_json(indent=1) + '\n'

    def save(self, path: Path) -> None:
        """Write the result as JSON; an existing file is replaced only when all is written."""
        replace_file(path, self.to_json().encode())

    @classmethod
    def load(cls, path: Path) -> CalibrationResult:
        """Read a stored result.

        Raises:
            ResultError: There is no such file, or it is not a result of this version.
        """
        try:
            document = json.loads(path.read_text('utf-8'))
        except FileNotFoundError as err:
            near = path.parent.glob('*.json') if path.parent.is_dir() else []
            hint = nearest(path.name, sorted(entry.name for entry in near))
            msg = f'There is no result {str(path)!r}; {hint}.'
            raise ResultError(msg) from err
        except OSError as err:
            msg = f'Cannot read the result {str(path)!r}: {err.strerror}.'
            raise ResultError(msg) from err
        except json.JSONDecodeError as err:
            what = f'{err.msg.lower()} (line {err.lineno}, column {err.colno})'
            msg = f'The result {str(path)!r} is not JSON: {what}.'
            raise ResultError(msg) from err
        except UnicodeDecodeError as err:
            msg = f'The result {str(path)!r} is not JSON: byte {err.start} is not UTF-8 text.'
            raise ResultError(msg) from err
        found = document.get('schema_version') if isinstance(document, dict) else None
        if found is None:
            msg = f'{str(path)!r} is not a result of a calibration: it has no schema_version.'
            raise ResultError(msg)
        if found != SCHEMA_VERSION:
            msg = (
                f'The result {str(path)!r} has schema_version {found!r}; '
                f'this version reads {SCHEMA_VERSION}.'
            )
            raise ResultError(msg)
        try:
            return cls.model_validate(document)
        except ValidationError as err:
            msg = f'The result is damaged: {explain(err, cls, str(path))}'
            raise ResultError(msg) from err

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The result of a calibration: the one object that everything else renders."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 (pydantic resolves annotations at run time)
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from sysid_ros.alignment.health import FindingKind, HealthFinding, TopicRate
from sysid_ros.config.calibration import Role
from sysid_ros.config.section import explain
from sysid_ros.errors import ResultError
from sysid_ros.files import replace_file
from sysid_ros.json_text import read_object
from sysid_ros.results.parts import (
    CombinationResult,
    Drift,
    DriftedParameter,
    FileHash,
    FitDiagnostics,
    Fold,
    Frozen,
    GateCheck,
    HorizonPoint,
    Improvement,
    InferenceSummary,
    Likeness,
    MaybeFloat,
    NoiseScale,
    ParameterResult,
    Provenance,
    Samples,
    SensorError,
    SequenceError,
    SignalPlot,
    SolverStatus,
    SolverSummary,
    Standstill,
    StartEntry,
    StartKind,
    StoredTopicRate,
    TraceEntry,
    WindowFit,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Changes when files of before cannot be read any more as what they say.
SCHEMA_VERSION = 3
#: Counts the fields that were added since; each has a default for files that lack it.
SCHEMA_MINOR = 1
#: The versions that can be read: what was added between them has defaults.
_READABLE = (1, 2, SCHEMA_VERSION)

__all__ = [
    'SCHEMA_MINOR',
    'SCHEMA_VERSION',
    'CalibrationResult',
    'CombinationResult',
    'Drift',
    'DriftedParameter',
    'FileHash',
    'FindingKind',
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
    'UnjudgedResult',
    'WindowFit',
]


class UnjudgedResult(Frozen):
    """Everything a calibration found, before the conditions for using it are looked at.

    ``held_out_before`` and ``held_out_after`` are the root mean square of the residuals on
    validation sequences in units of the noise scale (dimensionless), NaN when there are none.
    ``diverged`` names the sequences in which the fitted model becomes unstable. ``schema_minor``
    says which fields its maker knew.
    """

    schema_version: int = SCHEMA_VERSION
    schema_minor: int = SCHEMA_MINOR
    model: str
    parameters: tuple[ParameterResult, ...]
    held_out_before: MaybeFloat
    held_out_after: MaybeFloat
    training_before: MaybeFloat
    training_after: MaybeFloat
    errors: tuple[SensorError, ...]
    noise: tuple[NoiseScale, ...]
    plots: tuple[SignalPlot, ...]
    topics: tuple[StoredTopicRate, ...]
    health: tuple[HealthFinding, ...]
    solver: SolverSummary
    warnings: tuple[str, ...]
    provenance: Provenance
    inference: InferenceSummary | None = None
    combinations: tuple[CombinationResult, ...] = ()
    folds: tuple[Fold, ...] = ()
    horizon: tuple[HorizonPoint, ...] = ()
    windows: tuple[WindowFit, ...] = ()
    drift: Drift | None = None
    diverged: tuple[str, ...] = ()
    diagnostics: FitDiagnostics = FitDiagnostics()


class CalibrationResult(UnjudgedResult):
    """Everything a calibration found, immutable and versioned.

    ``accepted`` is whether all conditions in ``gate`` are met; the reason is in ``acceptance``.
    """

    accepted: bool
    acceptance: str
    gate: tuple[GateCheck, ...] = ()

    def with_warnings(self, more: Iterable[str]) -> CalibrationResult:
        """Return the same result with warnings that it has not got yet."""
        warnings = tuple(dict.fromkeys((*self.warnings, *more)))
        return self.model_copy(update={'warnings': warnings})

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
        """Read a stored result, of this version, an older one, or one with fields added later.

        Raises:
            ResultError: There is no such file, or it is not a result that this version can read.
        """
        document = read_object(path, ResultError, 'result')
        found = document.get('schema_version')
        if found is None:
            msg = f'{str(path)!r} is not a result of a calibration: it has no schema_version.'
            raise ResultError(msg)
        if found not in _READABLE:
            msg = (
                f'The result {str(path)!r} has schema_version {found!r}; '
                f'this version reads {SCHEMA_VERSION}.'
            )
            raise ResultError(msg)
        document.setdefault('schema_minor', 0)
        try:
            try:
                return cls.model_validate(document)
            except ValidationError as err:
                minor = document['schema_minor']
                if not (isinstance(minor, int) and minor > SCHEMA_MINOR):
                    raise
                # A version that knows more fields than this one wrote it.
                _drop_unknown(document, err)
                return cls.model_validate(document)
        except ValidationError as err:
            msg = f'The result is damaged: {explain(err, cls, str(path))}'
            raise ResultError(msg) from err


def _drop_unknown(document: Any, error: ValidationError) -> None:
    """Remove the fields of a document that this version does not know."""
    for complaint in error.errors():
        if complaint['type'] == 'extra_forbidden':
            *place, name = complaint['loc']
            holder = document
            for step in place:
                holder = holder[step]
            del holder[name]

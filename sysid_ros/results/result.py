# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The result of a calibration: the one object that everything else renders."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003 (pydantic resolves annotations at run time)
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, ValidationError

from sysid_ros.complaints import explain
from sysid_ros.errors import ResultError, nearest
from sysid_ros.files import replace_file

SCHEMA_VERSION = 2

Role = Literal['train', 'validate']


def _encode(values: tuple[float, ...]) -> list[float | None]:
    return [None if not np.isfinite(value) else value for value in values]


def _decode(values: object) -> object:
    if isinstance(values, (list, tuple)):
        return tuple(float('nan') if value is None else value for value in values)
    return values


def _encode_one(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _decode_one(value: object) -> object:
    return float('nan') if value is None else value


#: A float that may be NaN or infinite; JSON has neither, so it is null on disk and NaN again here.
MaybeFloat = Annotated[float, BeforeValidator(_decode_one), PlainSerializer(_encode_one)]
#: Samples of a curve; gaps are NaN here and null on disk.
Samples = Annotated[tuple[float, ...], BeforeValidator(_decode), PlainSerializer(_encode)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra='forbid')


class ParameterResult(_Frozen):
    """One identified parameter.

    ``low`` and ``high`` bound the 95 % interval; both are NaN when the data do not determine it.
    ``verdict`` is ``identified``, ``at bound``, ``not excited``, ``prior-dominated`` or
    ``confounded with NAME, …``.
    ``targets`` are the paths that the value was written to, as ``joint/elbow/armature``.
    """

    name: str
    targets: tuple[str, ...]
    unit: str
    initial: float
    value: float
    low: MaybeFloat
    high: MaybeFloat
    bounds: tuple[float, float]
    verdict: str

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval; NaN when there is none."""
        return (self.high - self.low) / 2


class SensorError(_Frozen):
    """Error of one sensor over all sequences of one role: root mean square, sensor's unit."""

    sensor: str
    unit: str
    role: Role
    before: MaybeFloat
    after: MaybeFloat
    samples: int


class SignalPlot(_Frozen):
    """Measured and predicted samples of one sensor in one sequence, thinned for display.

    ``times`` are seconds from the start of the sequence; the four have equal length.
    """

    sequence: str
    role: Role
    sensor: str
    unit: str
    times: Samples
    measured: Samples
    before: Samples
    after: Samples


class HealthFinding(_Frozen):
    """Something about a recording that a reader of the result must know.

    ``subject`` is a topic, a channel or a sequence; ``kind`` a short fixed word such as ``gap``,
    ``dead channel``, ``clock jump``, ``duplicate stamp``, ``masked``, ``unmapped``, ``shift``.
    """

    bag: str
    subject: str
    kind: str
    count: int
    detail: str


class TopicRate(_Frozen):
    """What arrived on one topic of one bag. ``rate`` in Hz, ``longest_gap`` in seconds."""

    bag: str
    topic: str
    messages: int
    rate: MaybeFloat
    longest_gap: MaybeFloat


class TraceEntry(_Frozen):
    """One iteration of the solver.

    ``jacobian`` says how the derivative came about: ``forward`` differences, ``central`` ones where
    a column is, or another word of the solver's. ``regulariser`` is the damping of the step
    relative to the Hessian's diagonal; NaN for solvers that limit the step's length instead.
    """

    iteration: int
    cost: MaybeFloat
    step: MaybeFloat
    rollouts: int
    diverged: int
    jacobian: str = ''
    regulariser: MaybeFloat = float('nan')


class StartEntry(_Frozen):
    """One of several starts: its cost there and at the end, with the first noise scales.

    ``status`` is the solver's word, ``not solved`` for those that were too bad to go on with
    (``final_cost`` is NaN then), or ``failed``.
    """

    initial_cost: MaybeFloat
    final_cost: MaybeFloat
    status: str


class SolverSummary(_Frozen):
    """How the fit went. ``seconds`` is wall time; it is the one field that a rerun may change.

    ``central`` names the parameters that were differenced centrally at the end. ``starts`` is
    empty for one start, else in the order of the costs there.
    """

    backend: str
    loss: str
    status: str
    message: str
    success: bool
    iterations: int
    rollouts: int
    diverged: int
    initial_cost: MaybeFloat
    final_cost: MaybeFloat
    seconds: float
    trace: tuple[TraceEntry, ...]
    central: tuple[str, ...] = ()
    starts: tuple[StartEntry, ...] = ()


class NoiseScale(_Frozen):
    """Standard deviation by which one sensor's residuals were divided, and where it came from."""

    sensor: str
    unit: str
    sigma: float
    source: str


class FileHash(_Frozen):
    """One input file and its SHA-256."""

    path: str
    role: str
    sha256: str


class Provenance(_Frozen):
    """What the result was made from."""

    created: str
    versions: dict[str, str]
    files: tuple[FileHash, ...]
    command: str
    config: dict[str, object]
    input_mode: str


class CalibrationResult(_Frozen):
    """Everything a calibration found, immutable and versioned.

    ``accepted`` is whether held-out error (training error where nothing is held out) fell; the
    reason is in ``acceptance``. ``held_out_before`` and ``held_out_after`` are the root mean square
    of the residuals on validation sequences in units of the noise scale (dimensionless), NaN when
    there are none.
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

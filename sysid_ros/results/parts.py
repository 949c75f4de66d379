# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The parts of a result of a calibration."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    computed_field,
    model_validator,
)

from sysid_ros.alignment.health import TopicRate
from sysid_ros.config.calibration import Role, VerdictKind

ROLES: tuple[Role, ...] = ('train', 'validate')


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


def _null_is_nan(fields: object) -> object:
    if not isinstance(fields, dict):
        return fields
    return {name: float('nan') if value is None else value for name, value in fields.items()}


#: What arrived on a topic; a rate that is NaN here is null on disk.
StoredTopicRate = Annotated[TopicRate, BeforeValidator(_null_is_nan)]
#: A float that may be NaN or infinite; JSON has neither, so it is null on disk and NaN again here.
MaybeFloat = Annotated[float, BeforeValidator(_decode_one), PlainSerializer(_encode_one)]
#: Samples of a curve; gaps are NaN here and null on disk.
Samples = Annotated[tuple[float, ...], BeforeValidator(_decode), PlainSerializer(_encode)]


class Frozen(BaseModel):
    """A part of a result: it does not change, and has no other fields."""

    model_config = ConfigDict(frozen=True, extra='forbid')


class ParameterResult(Frozen):
    """One identified parameter.

    ``low`` and ``high`` bound the 95 % interval; both are NaN when the data do not determine it.
    ``confounded_with`` names the parameters that it cannot be told from, and ``verdict`` says
    ``verdict_kind`` and them in words.
    ``explanation`` says what is determined instead and what would help; empty where identified.
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
    verdict_kind: VerdictKind
    confounded_with: tuple[str, ...] = ()
    explanation: str = ''

    @model_validator(mode='before')
    @classmethod
    def _read_verdict(cls, fields: Any) -> Any:
        """Read the verdict in words, which is all that older results have."""
        if not isinstance(fields, dict) or 'verdict' not in fields:
            return fields
        found = {name: value for name, value in fields.items() if name != 'verdict'}
        if 'verdict_kind' not in fields:
            kind, _, others = str(fields['verdict']).partition(' with ')
            found |= {'verdict_kind': kind, 'confounded_with': others.split(', ') if others else ()}
        return found

    @computed_field  # type: ignore[prop-decorator]
    @property
    def verdict(self) -> str:
        """The verdict in words: ``identified``, ``confounded with NAME, …`` and so on."""
        return self.verdict_kind.among(self.confounded_with)

    @property
    def identified(self) -> bool:
        """Whether the data determine it."""
        return self.verdict_kind is VerdictKind.IDENTIFIED

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval; NaN when there is none."""
        return (self.high - self.low) / 2


class CombinationResult(Frozen):
    """What is determined of parameters that cannot be told apart, as ``gear/mass``.

    ``low`` and ``high`` bound the 95 % interval of the expression.
    """

    parameters: tuple[str, ...]
    expression: str
    value: float
    low: MaybeFloat
    high: MaybeFloat


class InferenceSummary(Frozen):
    """How intervals were found.

    ``effective_samples`` is the number of independent samples that say as much as the ``samples``
    residuals do. ``covariance`` and ``correlation`` are p × p in the order of the parameters, the
    former in their units; rows of parameters without interval are NaN. ``notes`` are sentences
    that a reader of the intervals has to know.
    """

    method: str
    samples: int
    effective_samples: MaybeFloat
    covariance: tuple[Samples, ...]
    correlation: tuple[Samples, ...]
    notes: tuple[str, ...] = ()


class Fold(Frozen):
    """A fit without some bags, judged on them.

    ``name`` is what was held out: a bag, or a family of bags. ``before`` and ``after`` are the
    root mean square residuals on it, in units of the noise, of the nominal model and of the fit
    to all other bags; ``values`` are that fit's parameters, in the result's order.
    """

    name: str
    before: MaybeFloat
    after: MaybeFloat
    values: Samples


class HorizonPoint(Frozen):
    """Error of predictions so many seconds after a start from the measured state.

    Root mean square in units of the noise over all starts, of the nominal model and the fitted.
    """

    seconds: float
    role: Role
    before: MaybeFloat
    after: MaybeFloat


class WindowFit(Frozen):
    """A fit to windows of so many seconds, each from its measured state: values and half-widths."""

    seconds: float
    values: Samples
    half_widths: Samples


class GateCheck(Frozen):
    """One condition for accepting a result."""

    name: str
    passed: bool
    detail: str


class DriftedParameter(Frozen):
    """A parameter then and now; ``deviations`` is the change in its standard errors."""

    name: str
    previous: float
    value: float
    deviations: MaybeFloat
    changed: bool


class Drift(Frozen):
    """Whether the robot changed since an earlier result.

    ``statistic`` is the squared Mahalanobis distance between the earlier values and those that
    the new data alone say, chi-squared with ``freedom`` degrees of freedom if nothing changed.
    """

    previous: str
    statistic: MaybeFloat
    freedom: int
    p_value: MaybeFloat
    changed: bool
    sentence: str
    parameters: tuple[DriftedParameter, ...]


class Likeness(Frozen):
    """How a sensor moves beside what the nominal model predicts for it, as correlations.

    ``own`` is the correlation of that prediction with the sensor, ``correlation`` that with the
    sensor ``best``, the one of the same unit that moves most like it, in either direction.
    """

    own: float
    best: str
    correlation: float


class SensorError(Frozen):
    """Error of one sensor over all sequences of one role: root mean square, sensor's unit.

    ``measured_deviation`` and ``predicted_deviation`` are standard deviations of what was measured
    and of what the fitted model predicts, in the sensor's unit; NaN in results of older versions.
    ``likeness`` is known of positions and velocities.
    """

    sensor: str
    unit: str
    role: Role
    before: MaybeFloat
    after: MaybeFloat
    samples: int
    measured_deviation: MaybeFloat = float('nan')
    predicted_deviation: MaybeFloat = float('nan')
    likeness: Likeness | None = None

    @property
    def explained(self) -> float:
        """The part of the measured variance that is predicted, at most 1."""
        return 1 - (self.after / self.measured_deviation) ** 2


class Improvement(Frozen):
    """How errors fell on stretches of time in the sequences of one role.

    ``fallen`` of the ``stretches`` have a smaller mean square after the fit; ``p_value`` is how
    likely that is by chance (signed-rank test).
    """

    role: Role
    stretches: int
    fallen: int
    p_value: float


class SequenceError(Frozen):
    """Error of the fitted model in one sequence, all sensors together, in units of the noise.

    ``error`` leaves the worst quarter of the time aside. The worst hundredth of the time is from
    ``worst_start`` to ``worst_end``, s from the start of the sequence.
    """

    sequence: str
    role: Role
    error: float
    worst_start: float
    worst_end: float
    worst_error: float


class Standstill(Frozen):
    """Of one position, the stretch of equal values in which it should move most.

    ``start`` is in s from the start of the sequence, ``predicted_movement`` what the fitted model
    moves by meanwhile, ``measured_range`` all that the sensor moves by in any sequence, and
    ``resolution`` the smallest change between neighbouring samples.
    """

    sensor: str
    unit: str
    sequence: str
    role: Role
    start: float
    seconds: float
    predicted_movement: float
    measured_range: float
    resolution: float


class FitDiagnostics(Frozen):
    """What the curves of a fit say beyond the errors of single sensors.

    All of it is computed from every sample that was compared, not from the plots of the result,
    which are thinned.
    """

    improvements: tuple[Improvement, ...] = ()
    sequences: tuple[SequenceError, ...] = ()
    standstills: tuple[Standstill, ...] = ()


class SignalPlot(Frozen):
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


class TraceEntry(Frozen):
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


class StartEntry(Frozen):
    """One of several starts: its cost there and at the end, with the first noise scales.

    ``status`` is the solver's word, ``not solved`` for those that were too bad to go on with
    (``final_cost`` is NaN then), or ``failed``.
    """

    initial_cost: MaybeFloat
    final_cost: MaybeFloat
    status: str


class SolverStatus(StrEnum):
    """How a solve may have ended without converging."""

    STALLED = 'stalled'
    ITERATIONS = 'iterations'


class StartKind(StrEnum):
    """Where a fit began."""

    NOMINAL = 'nominal'
    REGRESSION = 'regression'
    WINDOWS = 'windows'
    SPREAD = 'spread'
    SAMPLED = 'sampled'


class SolverSummary(Frozen):
    """How the fit went. ``seconds`` is wall time; it is the one field that a rerun may change.

    ``central`` names the parameters that were differenced centrally at the end. ``starts`` is
    empty for one start, else in the order of the costs there. ``start`` says where the fit began,
    ``start_sentence`` where those values are from. ``window`` is the length of the windows that
    the values rest on, s, where the motion cannot be predicted over whole sequences.
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
    start: StartKind = StartKind.NOMINAL
    start_sentence: str = ''
    window: float | None = None


class NoiseScale(Frozen):
    """Standard deviation by which one sensor's residuals were divided, and where it came from.

    ``autocorrelation`` is that of neighbouring residuals at the end, ``effective`` the number of
    independent samples that say as much as the ``samples`` that there are.
    """

    sensor: str
    unit: str
    sigma: float
    source: str
    samples: int = 0
    effective: MaybeFloat = float('nan')
    autocorrelation: MaybeFloat = float('nan')


class FileHash(Frozen):
    """One input file and its SHA-256."""

    path: str
    role: str
    sha256: str


class Provenance(Frozen):
    """What the result was made from."""

    created: str
    versions: dict[str, str]
    files: tuple[FileHash, ...]
    command: str
    config: dict[str, object]
    input_mode: str

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The result of a calibration, the one object that everything else renders, and its parts.

Errors are root mean squares, ``before`` of the nominal model and ``after`` of the fitted one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, computed_field

from sysid_ros.alignment.health import HealthFinding, TopicRate
from sysid_ros.config.schema import Role, VerdictKind, explain
from sysid_ros.errors import ResultError
from sysid_ros.files import read_object, replace_file
from sysid_ros.text import in_json
from sysid_ros.uncertainty.verdicts import Combination

ROLES: tuple[Role, ...] = ('train', 'validate')
#: Their data in words.
ROLE_NAMES: dict[Role, str] = {'train': 'training', 'validate': 'held out'}
#: Predictions that are right hold so far ahead, s; longer, small errors grow.
SHORT_HORIZON = 0.5
#: What part of a whole is worth naming, is much of it, and is most of it.
SOME, MUCH, MOST = 0.1, 0.5, 0.8
#: What is larger than another by more than this factor is not alike.
MORE = 2.0
#: So many values at least say how far they are apart.
FEWEST = 4
#: Name of the file of a result in its folder, and of the links to the last ones that count.
RESULT, CURRENT, REJECTED = 'result.json', 'current', 'rejected'
#: Numbers that differ by less than this part are one: another machine rounds otherwise.
ROUNDING = 1e-6


def _nan_for_null(value: object) -> object:
    """Read null as NaN, also inside of arrays and objects: JSON has no NaN."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_nan_for_null, value))
    if isinstance(value, dict):
        return {name: _nan_for_null(item) for name, item in value.items()}
    return math.nan if value is None else value


_WITH_NAN = BeforeValidator(_nan_for_null)
#: A float that may be NaN or infinite; it is null on disk and NaN again here.
MaybeFloat = Annotated[float, _WITH_NAN]
#: Samples of a curve; gaps are NaN here and null on disk.
Samples = Annotated[tuple[float, ...], _WITH_NAN]


class Frozen(BaseModel):
    """A part of a result: it does not change, and is read from an object of the engine like it."""

    model_config = ConfigDict(frozen=True, extra='ignore', from_attributes=True)


class Document(Frozen):
    """What is a JSON file of its own."""

    schema_version: int

    def to_json(self) -> str:
        """Return it as JSON text."""
        return in_json(self.model_dump_json(indent=1)) + '\n'

    def save(self, path: Path) -> None:
        """Write it as JSON; an existing file is replaced only when all is written."""
        replace_file(path, self.to_json().encode())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote.

        Raises:
            ResultError: There is no such file, or it is not one that this version can read.
        """
        what = cls.__name__.removeprefix('Calibration').lower()
        document = read_object(path, ResultError, what)
        readable = cls.model_fields['schema_version'].default
        if 'schema_version' not in document:
            raise ResultError(f'{str(path)!r} is not a sysid_ros {what}: it has no schema_version.')
        if (found := document['schema_version']) != readable:
            raise ResultError(
                f'The {what} {str(path)!r} has schema_version {found!r}; '
                f'this version reads {readable}.'
            )
        try:
            return cls.model_validate(document)
        except ValidationError as err:
            raise ResultError(f'The {what} is damaged: {explain(err, cls, str(path))}') from err


class WithInterval(Frozen):
    """A value with a 95 % interval, NaN where there is none."""

    unit: str
    value: float
    low: MaybeFloat
    high: MaybeFloat

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2


class ParameterResult(WithInterval):
    """One parameter with its 95 % interval, NaN where the data do not determine it."""

    name: str
    targets: tuple[str, ...]  # the paths that the value is written to, as ``joint/elbow/armature``
    initial: float
    bounds: tuple[float, float]
    verdict_kind: VerdictKind
    confounded_with: tuple[str, ...] = ()  # names of the parameters that it cannot be told from
    explanation: str = ''  # what is determined instead and what would help; empty where identified
    noise_low: MaybeFloat = math.nan  # the interval if the model lacked nothing, and …
    noise_high: MaybeFloat = math.nan  # … few recordings agreed
    asked: float | None = None  # what the data ask for far beyond a bound; None where they do not

    @computed_field  # type: ignore[prop-decorator]
    @property
    def verdict(self) -> str:
        """The verdict in words: ``identified``, ``confounded with NAME, …`` and so on."""
        return self.verdict_kind.among(self.confounded_with)

    @property
    def identified(self) -> bool:
        """Whether the data determine it."""
        return self.verdict_kind is VerdictKind.IDENTIFIED


#: A link's centre of mass is known within so many m: priors alone leave 10 cm.
_KNOWN_PLACE = 0.01


class LinkNumber(WithInterval):
    """A number of a link: mass, place of its centre of mass, or principal moment of inertia."""

    name: str
    initial: float

    @property
    def known(self) -> bool:
        """Whether its interval is narrow enough to be of use."""
        if self.unit == 'm':
            return self.half_width <= _KNOWN_PLACE
        return self.high <= MORE * self.low


class LinkResult(Frozen):
    """What the ten ``parameters`` of a link's inertia say of it, in the frame of its body."""

    body: str
    parameters: tuple[str, ...]
    numbers: tuple[LinkNumber, ...]


class BaseParameter(WithInterval):
    """A sum of inertial numbers that the forces of a chain can determine, as Izz + 0.1·m·cx + ….

    Terms are masses ``m``, first moments ``m·c`` and moments of inertia ``I`` of links about the
    origin and axes of their bodies, and armatures of joints.
    """

    parameters: tuple[str, ...]  # those that the sum was computed from
    terms: tuple[str, ...]  # with signs and factors
    largest: float  # size of the largest term

    @property
    def known(self) -> bool:
        """Whether its interval is narrow against its largest term."""
        return self.half_width <= SOME * self.largest

    @property
    def expression(self) -> str:
        """The sum as it is written."""
        return ' '.join(self.terms)


class Disagreement(Frozen):
    """A few recordings are ``times`` as far apart as noise has them, most about ``most``."""

    recordings: int
    times: float
    most: str


class LackingTerm(Frozen):
    """A term that the model lacks: it removes ``share`` of the cost left by those before it."""

    lack: str
    title: str
    share: float


class InferenceSummary(Frozen):
    """How intervals were found."""

    method: str
    samples: int  # number of residuals
    effective_samples: MaybeFloat  # number of independent samples that say as much
    #: (p, p) in the order and the units of the parameters; NaN rows without interval.
    covariance: tuple[Samples, ...]
    correlation: tuple[Samples, ...]  # the same without units
    notes: tuple[str, ...] = ()  # sentences that a reader of the intervals has to know
    all_at_once: float | None = None  # half-widths times this hold all parameters at once
    disagreement: Disagreement | None = None
    lacking: tuple[LackingTerm, ...] = ()


class Fold(Frozen):
    """A fit without a bag or a family of bags, judged on that in units of the noise."""

    name: str
    before: MaybeFloat
    after: MaybeFloat
    values: Samples  # of its parameters, in the result's order


class HorizonJoint(Frozen):
    """Error of one position so far ahead, also of a joint that coasts: keeps its velocity."""

    sensor: str
    unit: str
    before: MaybeFloat
    after: MaybeFloat
    coasting: MaybeFloat


class HorizonPoint(Frozen):
    """Error, in units of the noise, so many seconds after starts from measured states."""

    seconds: float
    role: Role
    before: MaybeFloat
    after: MaybeFloat
    joints: tuple[HorizonJoint, ...] = ()


class Standing(StrEnum):
    """Whether a result may be used, in the words that console, report and topics share."""

    ACCEPTED = 'accepted'
    RESERVED = 'accepted with reservations'
    REJECTED = 'rejected'


class ModelChange(Frozen):
    """An attribute of another value in the text of the fitted model, empty where it has none."""

    file: str
    line: int  # of the user's file, 0 where that has none
    element: str  # as ``joint/elbow``
    attribute: str
    old: str
    new: str


class Level(StrEnum):
    """What becomes of a result that does not meet a check."""

    FAIL = 'fail'  # it is rejected
    RESERVE = 'reserve'  # it is accepted with a reservation
    NOTE = 'note'  # its reader is told


class Action(StrEnum):
    """What may be done next, what helps most first."""

    MAP = 'map'
    FREE = 'free'
    LOOK = 'look'
    GO_ON = 'go on'
    WIDEN = 'widen'
    RECORD = 'record'
    EXCITE = 'excite'
    SEARCH = 'search'
    USE = 'use'


class NextStep(Frozen):
    """One thing to do: a sentence, and commands to type."""

    action: Action
    sentence: str
    commands: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return it in one line."""
        return ' '.join([self.sentence, *(f'`{command}`' for command in self.commands)])


class Check(Frozen):
    """One thing that was looked at: ``measured`` may be ``limit`` at most, NaN without number."""

    name: str
    level: Level
    passed: bool
    text: str
    measured: MaybeFloat = math.nan
    limit: MaybeFloat = math.nan
    unit: str = ''
    remedy: NextStep | None = None

    @property
    def margin(self) -> float:
        """How far the number is below its limit; negative where the check is not passed."""
        return self.limit - self.measured


class Compared(Frozen):
    """A parameter in two results; NaN where one of them has none."""

    name: str
    unit: str
    before: MaybeFloat
    after: MaybeFloat
    deviations: MaybeFloat = math.nan  # the change in its standard errors, if both determine it
    changed: bool = False  # whether that is more than chance
    allowed: MaybeFloat = math.nan  # how far noise alone may move it


class Drift(Frozen):
    """Whether the robot changed since an earlier result, by what the new data alone say."""

    previous: str
    statistic: MaybeFloat  # squared Mahalanobis distance between the values …
    freedom: int  # … of so many parameters, which both determine
    p_value: MaybeFloat
    changed: bool
    sentence: str
    parameters: tuple[Compared, ...]


class Likeness(Frozen):
    """Correlations of what the nominal model predicts for a sensor with its like."""

    own: float  # with the sensor itself
    best: str  # the sensor of the same unit that moves most like it, in either direction
    correlation: float  # with that
    second: MaybeFloat = math.nan  # its size with the most alike of the other sensors, if any


class SensorError(Frozen):
    """Error of one sensor over all sequences of one role, in the sensor's unit."""

    sensor: str
    unit: str
    role: Role
    before: MaybeFloat
    after: MaybeFloat
    samples: int
    measured_deviation: MaybeFloat = math.nan  # standard deviation of what was measured
    predicted_deviation: MaybeFloat = math.nan  # that of what the fitted model predicts
    inside: MaybeFloat = math.nan  # part of the measured samples in bands that should hold 95 %
    likeness: Likeness | None = None  # known of positions and velocities
    scatter: MaybeFloat = math.nan  # its own noise: neither motion nor a smooth error adds to it
    usual: MaybeFloat = math.nan  # ``after`` by the median: a short disturbance does not add to it
    autocorrelation: MaybeFloat = math.nan  # of neighbouring residuals

    @property
    def explained(self) -> float:
        """The part of the measured variance that is predicted, at most 1."""
        return 1 - (self.after / self.measured_deviation) ** 2


#: Units of positions, and of positions and velocities.
POSITIONS = frozenset({'rad', 'm'})
MOTION = POSITIONS | {'rad/s', 'm/s'}


def moving(errors: Sequence[SensorError]) -> list[SensorError]:
    """Return the positions and velocities that move by a share of the most of their kind.

    Where neither was compared, it is the forces that change so. It is enough that they should move;
    those that never do are not among them.
    """
    most: dict[str, float] = {}
    for error in errors:
        most[error.unit] = float(np.fmax(most.get(error.unit, 0.0), error.measured_deviation))
    compared = MOTION if most.keys() & MOTION else most.keys()
    return [
        error
        for error in errors
        if error.unit in compared
        and error.measured_deviation > 0
        and max(error.measured_deviation, error.predicted_deviation) > SOME * most[error.unit]
    ]


class Improvement(Frozen):
    """How likely it is by chance that errors fell so in the sequences of one role."""

    role: Role
    p_value: float


class SequenceError(Frozen):
    """Error of all sensors in one sequence in units of the noise, without the worst of the time."""

    sequence: str
    role: Role
    error: float
    before: MaybeFloat = math.nan  # the nominal model's


class Standstill(Frozen):
    """Of one position, the stretch of equal values in which it should move most."""

    sensor: str
    unit: str
    sequence: str
    role: Role
    start: float  # in s from the start of the sequence
    seconds: float
    predicted_movement: float  # what the fitted model moves by meanwhile
    measured_range: float  # all that the sensor moves by in any sequence
    resolution: float  # the smallest change between neighbouring samples

    def least_movement(self, share: float) -> float:
        """Return the movement beyond which it is no rest: a share of its range, or more than steps.

        A coarse encoder says the same until its next step, which is no standstill.
        """
        return max(share * self.measured_range, MORE * self.resolution)


class Burst(Frozen):
    """The stretch of a sequence, in s from its start, whose errors are so many times as usual."""

    sequence: str
    begin: float
    end: float
    times: float


class FitDiagnostics(Frozen):
    """What all samples say beyond the errors of single sensors; the plots are thinned."""

    improvements: tuple[Improvement, ...] = ()
    sequences: tuple[SequenceError, ...] = ()
    standstills: tuple[Standstill, ...] = ()
    burst: Burst | None = None


class RecordedSequence(Frozen):
    """A continuous run of a bag: begin and end in s from the bag's first measurement."""

    name: str
    begin: float
    end: float


class RecordedBag(Frozen):
    """How long a bag is, from its first to its last measurement, and its sequences."""

    bag: str
    role: Role
    seconds: float
    sequences: tuple[RecordedSequence, ...]


class SignalPlot(Frozen):
    """Measured and predicted samples of one sensor in one sequence, thinned for display."""

    sequence: str
    role: Role
    sensor: str
    unit: str
    times: Samples  # in s from the start of the sequence
    measured: Samples
    before: Samples
    after: Samples
    band: Samples = ()  # how far measured samples are from those after the fit at most, with 95 %
    command: Samples = ()  # to the actuator of the sensor's joint
    command_unit: str = ''  # empty where that is none of the joint's
    lags: Samples = ()  # in s, of the ``autocorrelation`` of all ``samples``
    autocorrelation: Samples = ()
    samples: int = 0


class TraceEntry(Frozen):
    """One iteration of the solver."""

    number: int
    cost: MaybeFloat
    step: MaybeFloat
    rollouts: int
    diverged: int
    jacobian: str = ''  # how the derivative came about, in the solver's word
    regulariser: MaybeFloat = math.nan  # damping of the step relative to the Hessian's diagonal


class StartEntry(Frozen):
    """One of several starts: its cost there and at the end, NaN where it was not solved."""

    start_cost: MaybeFloat
    cost: MaybeFloat
    status: str


class SolverStatus(StrEnum):
    """How a solve ended."""

    GRADIENT = 'gradient'
    STEP = 'step'
    COST = 'cost'
    STALLED = 'stalled'
    ITERATIONS = 'iterations'
    TIME = 'time'


class EstimatorKind(StrEnum):
    """What was compared: whole simulations, such of windows, or forces along the motion."""

    SIMULATION = 'simulation'
    TORQUE = 'torque'
    WINDOWS = 'windows'


class StartKind(StrEnum):
    """Where a fit began."""

    NOMINAL = 'nominal'
    REGRESSION = 'regression'
    WINDOWS = 'windows'
    SPREAD = 'spread'
    SAMPLED = 'sampled'


class SolverSummary(Frozen):
    """How the fit went."""

    backend: str
    loss: str
    status: Annotated[SolverStatus | str, Field(union_mode='left_to_right')]
    message: str
    success: bool
    iterations: int
    rollouts: int
    diverged: int
    initial_cost: MaybeFloat
    final_cost: MaybeFloat
    seconds: float  # wall time, the one field that a rerun may change
    trace: tuple[TraceEntry, ...]
    central: tuple[str, ...] = ()  # parameters that were differenced centrally at the end
    starts: tuple[StartEntry, ...] = ()  # in the order of the costs there; empty for one start
    start: StartKind = StartKind.NOMINAL
    start_sentence: str = ''  # where the values are from with which the fit began
    window: float | None = None  # over which errors are given, s; None for whole sequences
    estimator: EstimatorKind = EstimatorKind.SIMULATION
    estimator_sentence: str = ''  # why the model was compared with that
    left: MaybeFloat = math.nan  # how far the fit ended from the optimum, in standard errors
    timestep: float | None = None  # of the predictions, s, where it is not the model's own
    #: By what part of what they leave unexplained the model's own changes them; not finite where
    #: that is unstable.
    timestep_change: MaybeFloat = 0.0

    @property
    def over_windows(self) -> str:
        """A clause that says over what errors are given where these are not whole sequences."""
        return '' if self.window is None else f' over windows of {self.window:g} s'


class NoiseScale(Frozen):
    """Standard deviation by which one sensor's residuals were divided, and where it came from."""

    sensor: str
    unit: str
    sigma: float
    source: str
    samples: int = 0
    effective: MaybeFloat = math.nan  # number of independent samples that say as much
    autocorrelation: MaybeFloat = math.nan  # of neighbouring residuals


#: `NoiseScale.source` of a scale that the residuals gave.
FROM_RESIDUALS = 'estimated from residuals'


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


class CalibrationResult(Document):
    """Everything a calibration found, immutable and versioned."""

    schema_version: int = 4
    model: str
    parameters: tuple[ParameterResult, ...]
    checks: tuple[Check, ...] = ()
    #: Errors in units of the noise; of held-out sequences, NaN where there are none.
    held_out_before: MaybeFloat
    held_out_after: MaybeFloat
    training_before: MaybeFloat
    training_after: MaybeFloat
    errors: tuple[SensorError, ...]
    noise: tuple[NoiseScale, ...]
    plots: tuple[SignalPlot, ...]
    topics: Annotated[tuple[TopicRate, ...], _WITH_NAN]
    health: tuple[HealthFinding, ...]
    solver: SolverSummary
    provenance: Provenance
    inference: InferenceSummary | None = None
    implied_actuators: tuple[str, ...] = ()
    combinations: Annotated[tuple[Combination, ...], _WITH_NAN] = ()
    links: tuple[LinkResult, ...] = ()
    bases: tuple[BaseParameter, ...] = ()
    folds: tuple[Fold, ...] = ()
    horizon: tuple[HorizonPoint, ...] = ()
    drift: Drift | None = None
    diverged: tuple[str, ...] = ()  # sequences in which the fitted model becomes unstable
    diagnostics: FitDiagnostics = FitDiagnostics()
    recordings: tuple[RecordedBag, ...] = ()
    mjcf: str = ''  # main file of the identified model, from the result's own folder, if any
    changes: tuple[ModelChange, ...] = ()  # what that changes in the text of the nominal one

    @computed_field  # type: ignore[prop-decorator]
    @property
    def accepted(self) -> bool:
        """Whether the result may be used: it meets all conditions."""
        return all(check.passed for check in self.gate)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def reservations(self) -> tuple[Check, ...]:
        """What a reader has to know before relying on the result, though it may be used."""
        return self._unmet(Level.RESERVE)

    @property
    def gate(self) -> tuple[Check, ...]:
        """The conditions for accepting the result, met or not."""
        return tuple(check for check in self.checks if check.level is Level.FAIL)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What else a reader has to know, a sentence each."""
        return tuple(check.text for check in self._unmet(Level.NOTE))

    @property
    def acceptance(self) -> str:
        """Why the result is accepted or rejected."""
        return ' '.join(c.text for c in self._unmet(Level.FAIL) or self.gate[:1])

    @property
    def standing(self) -> Standing:
        """Whether the result may be used, and relied on."""
        if not self.accepted:
            return Standing.REJECTED
        return Standing.RESERVED if self.reservations else Standing.ACCEPTED

    def _unmet(self, level: Level) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.level is level and not check.passed)

    @property
    def judged_role(self) -> Role:
        """Whose errors count: held-out data, or training data where nothing is held out."""
        return 'train' if math.isnan(self.held_out_after) else 'validate'

    @property
    def growth(self) -> float:
        """Held-out over training error; NaN where nothing is held out."""
        return self.held_out_after / self.training_after if self.training_after else math.nan

    @property
    def positions_ahead(self) -> tuple[tuple[float, HorizonJoint], ...]:
        """Seconds and errors of positions soon after measured states, held out if anything is."""
        return tuple(
            (point.seconds, joint)
            for point in self.horizon
            for joint in point.joints
            if point.role == self.judged_role and point.seconds <= SHORT_HORIZON
        )

    @property
    def of_links(self) -> frozenset[str]:
        """Names of the parameters that are shown as links."""
        return frozenset(name for link in self.links for name in link.parameters)

    @property
    def combinations_beside_links(self) -> tuple[Combination, ...]:
        """Of parameters that are not shown as links, for which ``bases`` stand."""
        numbers = self.of_links
        return tuple(
            found
            for found in self.combinations
            if numbers.isdisjoint(found.parameters) and (len(found.parameters) > 1 or not numbers)
        )

    def without_curves(self) -> CalibrationResult:
        """Return the same result without its curves, which are most of it."""
        return self.model_copy(update={'plots': ()})

    def with_warnings(self, more: Iterable[str]) -> CalibrationResult:
        """Return the same result with warnings that it has not got yet."""
        new = dict.fromkeys(text for text in more if text not in self.warnings)
        notes = [Check(name='warning', level=Level.NOTE, passed=False, text=text) for text in new]
        return self.model_copy(update={'checks': (*self.checks, *notes)})

    def parameter(self, name: str) -> ParameterResult:
        """Return a parameter by name.

        Raises:
            KeyError: There is none of that name.
        """
        return {parameter.name: parameter for parameter in self.parameters}[name]

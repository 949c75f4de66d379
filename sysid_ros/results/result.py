# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The result of a calibration, the one object that everything else renders, and its parts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    computed_field,
)

from sysid_ros.alignment.health import HealthFinding, TopicRate
from sysid_ros.config.calibration import Role, VerdictKind
from sysid_ros.config.section import explain
from sysid_ros.errors import ResultError
from sysid_ros.files import replace_file
from sysid_ros.inference.verdicts import Combination
from sysid_ros.json_text import read_object
from sysid_ros.text import in_json

ROLES: tuple[Role, ...] = ('train', 'validate')
#: Their data in words.
ROLE_NAMES: dict[Role, str] = {'train': 'training', 'validate': 'held out'}
#: Predictions that are right hold so far ahead, s; longer, small errors grow.
SHORT_HORIZON = 0.5


def _nan_for_null(value: object) -> object:
    """Read null as NaN, also inside of arrays and objects: JSON has no NaN and no infinity."""
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


class ParameterResult(Frozen):
    """One identified parameter.

    ``low`` and ``high`` bound the 95 % interval; both are NaN when the data do not determine it.
    ``noise_low`` and ``noise_high`` would bound it if the model lacked nothing and few recordings
    agreed. ``confounded_with`` names the parameters that it cannot be told from. ``explanation``
    says what is determined instead and what would help; empty where identified. ``targets`` are
    the paths that the value is written to, as ``joint/elbow/armature``. ``asked`` is the value
    that the data ask for far beyond a bound; None where they do not.
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
    noise_low: MaybeFloat = math.nan
    noise_high: MaybeFloat = math.nan
    asked: float | None = None

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


#: A link's mass or moment is known when its interval is narrower than this factor, and its centre
#: of mass when it is within so many m: priors alone leave a factor of 10 and 10 cm.
_KNOWN_FACTOR, _KNOWN_PLACE = 1.5, 0.01


class LinkNumber(Frozen):
    """A number of a link: its mass, where its centre of mass is, or a principal moment of inertia.

    ``low`` and ``high`` bound the 95 % interval; NaN where there is none.
    """

    name: str
    unit: str
    value: float
    initial: float
    low: MaybeFloat
    high: MaybeFloat

    @property
    def known(self) -> bool:
        """Whether its interval is narrow enough to be of use."""
        if self.unit == 'm':
            return (self.high - self.low) / 2 <= _KNOWN_PLACE
        return self.high <= _KNOWN_FACTOR * self.low


class LinkResult(Frozen):
    """What the ten numbers that a link's inertia was fitted by say of it.

    ``parameters`` are their names; the centre of mass is in the frame of the body.
    """

    body: str
    parameters: tuple[str, ...]
    numbers: tuple[LinkNumber, ...]


#: A sum is known when its half-width is at most this part of its largest term.
_KNOWN_SHARE = 0.1


class BaseParameter(Frozen):
    """A sum of inertial numbers that the forces of a chain can determine, as Izz + 0.1·m·cx + ….

    ``terms`` are written with their signs and factors: ``m`` masses, ``m·c`` first moments and
    ``I`` moments of inertia of links about the origin and axes of their bodies, and armatures of
    joints. ``parameters`` are those that the sum was computed from; ``low`` and ``high`` bound the
    95 % interval, and ``largest`` is the size of its largest term.
    """

    parameters: tuple[str, ...]
    terms: tuple[str, ...]
    unit: str
    value: float
    low: float
    high: float
    largest: float

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval."""
        return (self.high - self.low) / 2

    @property
    def known(self) -> bool:
        """Whether its interval is narrow against its largest term."""
        return self.half_width <= _KNOWN_SHARE * self.largest

    def expression(self, most: int | None = None) -> str:
        """Return the sum, of more terms than ``most`` the first."""
        shown = self.terms[:most]
        return ' '.join(shown) + (' + …' if len(shown) < len(self.terms) else '')


class Disagreement(Frozen):
    """A few recordings disagree by more than noise explains; intervals allow for it.

    They are ``times`` as far apart as noise would have them, over all parameters, and disagree most
    about ``most``.
    """

    recordings: int
    times: float
    most: str


class LackingTerm(Frozen):
    """A term that the model lacks and residuals follow.

    ``lack`` is what it is, ``title`` that and where, ``share`` the part of the remaining cost that
    it removes after those before it.
    """

    lack: str
    title: str
    share: float


class InferenceSummary(Frozen):
    """How intervals were found.

    ``effective_samples`` is the number of independent samples that say as much as the ``samples``
    residuals do. ``covariance`` and ``correlation`` are p × p in the order of the parameters, the
    former in their units; rows of parameters without interval are NaN. ``notes`` are sentences
    that a reader of the intervals has to know. Half-widths times ``all_at_once`` hold all
    parameters at once. ``disagreement`` is of few recordings, where there is any.
    """

    method: str
    samples: int
    effective_samples: MaybeFloat
    covariance: tuple[Samples, ...]
    correlation: tuple[Samples, ...]
    notes: tuple[str, ...] = ()
    all_at_once: float | None = None
    disagreement: Disagreement | None = None
    lacking: tuple[LackingTerm, ...] = ()


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


class HorizonJoint(Frozen):
    """Error of one position so far ahead, root mean square in its unit.

    Of the nominal model, of the fitted one, and of a joint that ``coasts``: keeps its velocity.
    """

    sensor: str
    unit: str
    before: MaybeFloat
    after: MaybeFloat
    coasting: MaybeFloat


class HorizonPoint(Frozen):
    """Error of predictions so many seconds after a start from the measured state.

    Root mean square in units of the noise over all starts, of the nominal model and the fitted;
    ``joints`` says the same of each position.
    """

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
    """An attribute that the text of the fitted model has another value of, empty where none.

    ``file`` and ``line`` are of the user's text, ``line`` 0 where that is in no file; ``element``
    is as ``joint/elbow`` or ``option``.
    """

    file: str
    line: int
    element: str
    attribute: str
    old: str
    new: str


class Level(StrEnum):
    """What becomes of a result that does not meet a check."""

    #: It is rejected.
    FAIL = 'fail'
    #: It is accepted with a reservation.
    RESERVE = 'reserve'
    #: Its reader is told.
    NOTE = 'note'


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
    """One thing that was looked at, whether it is as it has to be, and what helps if it is not.

    ``measured`` is the number that may be ``limit`` at most, both in ``unit``; NaN where there is
    no number.
    """

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
    """A parameter in two results; NaN where one of them has none.

    ``deviations`` is the change in its standard errors, NaN unless both determine it, ``changed``
    whether it is more than chance. ``allowed`` is how far noise alone may move it.
    """

    name: str
    unit: str
    before: MaybeFloat
    after: MaybeFloat
    deviations: MaybeFloat = math.nan
    changed: bool = False
    allowed: MaybeFloat = math.nan


class Drift(Frozen):
    """Whether the robot changed since an earlier result.

    ``statistic`` is the squared Mahalanobis distance between the earlier values and those that
    the new data alone say, chi-squared with ``freedom`` degrees of freedom if nothing changed.
    It is over the ``parameters`` with deviations, which both determine.
    """

    previous: str
    statistic: MaybeFloat
    freedom: int
    p_value: MaybeFloat
    changed: bool
    sentence: str
    parameters: tuple[Compared, ...]


class Likeness(Frozen):
    """How a sensor moves beside what the nominal model predicts for it, as correlations.

    ``own`` is the correlation of that prediction with the sensor, ``correlation`` that with the
    sensor ``best``, the one of the same unit that moves most like it, in either direction.
    ``second`` is the size of that with the most alike of the other sensors; NaN where there are
    none.
    """

    own: float
    best: str
    correlation: float
    second: MaybeFloat = math.nan


class SensorError(Frozen):
    """Error of one sensor over all sequences of one role: root mean square, sensor's unit.

    ``measured_deviation`` and ``predicted_deviation`` are standard deviations of what was measured
    and of what the fitted model predicts. ``inside`` is the part of the measured samples in bands
    that should hold 95 %. ``scatter`` is the sensor's own noise, a standard deviation to which
    neither motion nor a smooth error of the model adds; ``usual`` is ``after`` by the median, to
    which a short disturbance does not add; ``autocorrelation`` is that of neighbouring residuals.
    ``by_chance`` is how likely chance lets the error grow so from the nominal model's.
    ``likeness`` is known of positions and velocities.
    """

    sensor: str
    unit: str
    role: Role
    before: MaybeFloat
    after: MaybeFloat
    samples: int
    measured_deviation: MaybeFloat = math.nan
    predicted_deviation: MaybeFloat = math.nan
    inside: MaybeFloat = math.nan
    likeness: Likeness | None = None
    scatter: MaybeFloat = math.nan
    usual: MaybeFloat = math.nan
    autocorrelation: MaybeFloat = math.nan
    by_chance: MaybeFloat = math.nan

    @property
    def explained(self) -> float:
        """The part of the measured variance that is predicted, at most 1."""
        return 1 - (self.after / self.measured_deviation) ** 2


class ToolError(Frozen):
    """How far a point is from where the measured joint positions put it, root mean square, m.

    ``point`` is ``site/NAME``, or ``body/NAME`` for the centre of mass of the last body; ``poses``
    is how many were compared.
    """

    point: str
    role: Role
    before: float
    after: float
    poses: int


class Improvement(Frozen):
    """How likely it is by chance that errors fell so in the sequences of one role."""

    role: Role
    p_value: float


class SequenceError(Frozen):
    """Error of the fitted model in one sequence, all sensors together, in units of the noise.

    ``error`` leaves the worst quarter of the time aside; ``before`` is the nominal model's.
    """

    sequence: str
    role: Role
    error: float
    before: MaybeFloat = math.nan


#: Steps of an encoder that a position may move by before the encoder says so.
_STEPS = 3.0


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

    def least_movement(self, share: float) -> float:
        """Return the movement beyond which it is no rest: a share of its range, or a few steps.

        A coarse encoder says the same until its next step, which is no standstill.
        """
        return max(share * self.measured_range, _STEPS * self.resolution)


class FitDiagnostics(Frozen):
    """What the curves of a fit say beyond the errors of single sensors.

    All of it is computed from every sample that was compared, not from the plots of the result,
    which are thinned.
    """

    improvements: tuple[Improvement, ...] = ()
    sequences: tuple[SequenceError, ...] = ()
    standstills: tuple[Standstill, ...] = ()


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
    """Measured and predicted samples of one sensor in one sequence, thinned for display.

    ``times`` are seconds from the start of the sequence. ``band`` is how far measured samples are
    from those after the fit at most, with 95 %. ``command`` is what the actuator of the sensor's
    joint was told, in ``command_unit``, empty where that is none of the joint's.
    ``autocorrelation`` is that of the residuals at ``lags`` in s, of all ``samples``.
    """

    sequence: str
    role: Role
    sensor: str
    unit: str
    times: Samples
    measured: Samples
    before: Samples
    after: Samples
    band: Samples = ()
    command: Samples = ()
    command_unit: str = ''
    lags: Samples = ()
    autocorrelation: Samples = ()
    samples: int = 0


class TraceEntry(Frozen):
    """One iteration of the solver.

    ``jacobian`` says how the derivative came about: ``forward`` differences, ``central`` ones where
    a column is, or another word of the solver's. ``regulariser`` is the damping of the step
    relative to the Hessian's diagonal; NaN for solvers that limit the step's length instead.
    """

    number: int
    cost: MaybeFloat
    step: MaybeFloat
    rollouts: int
    diverged: int
    jacobian: str = ''
    regulariser: MaybeFloat = math.nan


class StartEntry(Frozen):
    """One of several starts: its cost there and at the end, with the first noise scales.

    ``status`` is the solver's word, ``not solved`` for those that were too bad to go on with
    (``cost`` is NaN then), or ``failed``.
    """

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
    """How the fit went. ``seconds`` is wall time; it is the one field that a rerun may change.

    ``central`` names the parameters that were differenced centrally at the end. ``starts`` is
    empty for one start, else in the order of the costs there. ``start`` says where the fit began,
    ``start_sentence`` where those values are from. ``window`` is the length of the windows that
    the values rest on, s, and of those over which errors are given; None where these are whole
    sequences. ``estimator`` is what the model was compared with, ``estimator_sentence`` why.
    ``left`` is how far the fit ended from the optimum, in standard errors. ``timestep`` is that of
    the predictions, s, where it is not the model's own, ``timestep_change`` by what part of what
    they leave unexplained the model's own changes them; not finite where it is unstable.
    """

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
    seconds: float
    trace: tuple[TraceEntry, ...]
    central: tuple[str, ...] = ()
    starts: tuple[StartEntry, ...] = ()
    start: StartKind = StartKind.NOMINAL
    start_sentence: str = ''
    window: float | None = None
    estimator: EstimatorKind = EstimatorKind.SIMULATION
    estimator_sentence: str = ''
    left: MaybeFloat = math.nan
    timestep: float | None = None
    timestep_change: MaybeFloat = 0.0

    @property
    def over_windows(self) -> str:
        """A clause that says over what errors are given where these are not whole sequences."""
        return '' if self.window is None else f' over windows of {self.window:g} s'


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
    effective: MaybeFloat = math.nan
    autocorrelation: MaybeFloat = math.nan


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
    """Everything a calibration found, immutable and versioned.

    ``held_out_before`` and ``held_out_after`` are the root mean square of the residuals on
    validation sequences in units of the noise scale (dimensionless), NaN when there are none.
    ``checks`` are all that were made; the result is accepted when none of level ``fail`` is left.
    ``diverged`` names the sequences in which the fitted model becomes unstable. ``mjcf`` is the
    main file of the identified model, from the result's own folder; empty where there is none.
    ``changes`` is what it changes in the text of the nominal one.
    """

    schema_version: int = 4
    model: str
    parameters: tuple[ParameterResult, ...]
    checks: tuple[Check, ...] = ()
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
    diverged: tuple[str, ...] = ()
    diagnostics: FitDiagnostics = FitDiagnostics()
    recordings: tuple[RecordedBag, ...] = ()
    tool: tuple[ToolError, ...] = ()
    mjcf: str = ''
    changes: tuple[ModelChange, ...] = ()

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

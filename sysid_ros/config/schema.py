# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The schema of ``calibration.yaml``, ``fleet.yaml``, thresholds and mappings.

Each model is at once the schema of a YAML file, the source of the command line's overrides and, for
the nodes, of the declared ROS parameters: a field's description becomes the parameter's descriptor
and its limits the parameter's range.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from sysid_ros.errors import listed, nearest, short

#: Types of pydantic's complaints, or how they begin, and what was expected.
_EXPECTED = {
    'tuple_type': 'a list',
    'list_type': 'a list',
    'dict_type': 'keys and values',
    'string': 'text',
    'float': 'a number',
    'finite_number': 'a finite number',
    'int': 'a whole number',
    'bool': 'true or false',
    'path_type': 'the name of a file',
    'greater_than_equal': 'at least {ge:g}',
    'greater_than': 'more than {gt:g}',
    'less_than_equal': 'at most {le:g}',
    'less_than': 'less than {lt:g}',
    'too_long': 'at most {max_length} values',
    'too_short': 'at least {min_length} values',
}


class Section(BaseModel):
    """A section of a configuration: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra='forbid', frozen=True)

    @field_validator('*')
    @classmethod
    def _may_be_a_file(cls, value: object) -> object:
        if isinstance(value, Path) and '\0' in str(value):
            raise ValueError(f'Expected the name of a file, found {str(value)!r}')
        return value


def explain(error: ValidationError, schema: type[BaseModel], where: str) -> str:
    """Turn the first complaint of a validation into one sentence."""
    complaints = error.errors()
    # Complaints of union members that were not meant come first.
    first = next((item for item in complaints if not _is_tag(item['loc'][-1:])), complaints[0])
    parts = [part for part in first['loc'] if not _is_tag(part)]
    place = '.'.join(map(str, parts))
    kind, context = first['type'], first.get('ctx', {})
    if kind == 'extra_forbidden':
        hint = nearest(str(parts[-1]), _keys(schema, parts[:-1]))
        return f'Unknown key {place!r} in {where}; {hint}.'
    if kind == 'missing' and isinstance(parts[-1], int):
        place = '.'.join(map(str, parts[:-1]))
        return f'Expected more than {parts[-1]} values for {place!r} in {where}.'
    if kind == 'missing':
        return f'Missing key {place!r} in {where}.'
    if kind == 'value_error':
        return f'{context["error"]}, in {where}.'
    if kind in {'literal_error', 'enum'}:
        expected = context['expected'].replace("'", '')
        choices = [word for part in expected.split(', ') for word in part.split(' or ')]
        value = _shown(first['input'])
        hint = nearest(str(first['input']), choices)
        return f'Expected {expected} for {place!r} in {where}, found {value}; {hint}.'
    expected = _expected(first, _keys(schema, parts))
    return f'Bad value {_shown(first["input"])} for {place!r} in {where}: expected {expected}.'


def _is_tag(part: Any) -> bool:
    """Tell names that pydantic puts into a location for the members of a union."""
    if isinstance(part, tuple):
        return bool(part) and _is_tag(part[0])
    return isinstance(part, str) and ('[' in part or part.endswith('Config'))


def _expected(complaint: Any, keys: list[str]) -> str:
    kind = complaint['type']
    if kind in {'model_type', 'model_attributes_type'}:
        return f'keys and values ({", ".join(keys)})'
    text = _EXPECTED.get(kind) or _EXPECTED.get(kind.split('_')[0])
    if text is None:
        return str(complaint['msg']).removeprefix('Input should be ').rstrip('.')
    return text.format(**complaint.get('ctx', {}))


def _shown(value: object) -> str:
    """Return a value as YAML has it, cut where it is long."""
    if value is None or isinstance(value, bool):
        return {None: 'null', True: 'true', False: 'false'}[value]
    return short(repr(value))


def _keys(schema: type[BaseModel], parts: list[int | str]) -> list[str]:
    """Return the valid keys at a location inside a schema."""
    current: Any = schema
    for part in parts:
        if isinstance(part, int):
            continue
        fields = getattr(current, 'model_fields', {})
        current = _section(fields[part].annotation) if part in fields else current
    fields = getattr(current, 'model_fields', {})
    return [field.alias or name for name, field in fields.items()]


def _section(annotation: Any) -> Any:
    """Return the section inside an annotation such as ``tuple[Section, ...]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, '__args__', ()):
        found = _section(inner)
        if found is not None:
            return found
    return None


#: A channel in one string: a topic's name has no dots, a label is in the last pair of brackets and
#: may hold brackets itself.
_CHANNEL = re.compile(
    r'(?P<topic>/[^.\[\]]*)\.(?P<field>.+?)(?:\[(?P<label>(?:[^\[\]]|\[[^\[\]]*\])*)\])?'
)
#: Pairs of a start and an end, s.
Ranges = tuple[tuple[float, float], ...]


class ChannelMapping(Section):
    """Columns of a bag and the sensor or actuator that they are.

    The short form of a channel is one string, ``/gripper/state.position[0]``.
    """

    topic: str = Field(description='topic in the bag')
    field: str = Field(description='field of the message: position, velocity, effort, data, …')
    label: str | None = Field(
        default=None,
        description='joint name in the message, or the index of the element; default all in order',
        coerce_numbers_to_str=True,
    )
    labels: tuple[Annotated[str, Field(coerce_numbers_to_str=True)], ...] | None = Field(
        default=None, description='columns of a sensor with several values, in its own order'
    )
    scale: float = Field(default=1.0, description='model value = scale * bag value + offset')
    offset: float = 0.0
    kind: Literal['torque', 'current', 'pwm'] = Field(
        default='torque', description='of an effort; the scale of a current or PWM is identified'
    )

    @model_validator(mode='before')
    @classmethod
    def _from_path(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        found = _CHANNEL.fullmatch(value)
        if found is None:
            raise ValueError(f'Expected a channel as /topic.field[label], found {value!r}')
        return {key: part for key, part in found.groupdict().items() if part is not None}

    @model_validator(mode='after')
    def _has_one_choice(self) -> ChannelMapping:
        if self.label is not None and self.labels is not None:
            raise ValueError(f'Expected label or labels for {self.topic} {self.field}, found both')
        return self


class MappingConfig(Section):
    """An explicit pairing of bag columns with the model, instead of ``mapping: auto``."""

    sensors: dict[str, ChannelMapping] = Field(default_factory=dict)
    actuators: dict[str, ChannelMapping] = Field(default_factory=dict)


class MarkerConfig(Section):
    """A topic that says when; the short form is its name.

    A ``std_msgs/Bool``, or any message of one number, is on while it is not zero. A
    ``std_msgs/String`` is on from a message with a matching text to the next without.
    """

    topic: str = Field(description='std_msgs/Bool, std_msgs/String, or one number')
    text: str = Field(
        default='?*', description='texts that switch on, as a pattern; default all but empty ones'
    )

    @model_validator(mode='before')
    @classmethod
    def _from_name(cls, value: object) -> object:
        return {'topic': value} if isinstance(value, str) else value


class SegmentsConfig(Section):
    """What of a bag becomes sequences, and where it is cut; times are s from the first sample.

    Times are for all bags, or by the name of a bag or a pattern of names.
    """

    gap: Annotated[float, Field(gt=0, le=1e6)] = Field(
        default=1.0, description='cut where nothing is measured for longer, s'
    )
    stops: bool = Field(default=False, description='leave out emergency stops')
    moving: bool = Field(default=False, description='keep only where joints move')
    times: Ranges | dict[str, Ranges] | None = Field(
        default=None, description='keep only from … to …, s; default all'
    )
    without: Ranges | dict[str, Ranges] = Field(
        default=(), description='leave out from … to …, s: contacts, for example'
    )
    marker: MarkerConfig | None = Field(default=None, description='keep only while it is on')
    contacts: MarkerConfig | None = Field(default=None, description='leave out while it is on')
    window: Annotated[float, Field(ge=0.01, le=1e6)] | None = Field(
        default=None, description='length of each sequence, s; default as long as it goes'
    )

    @field_validator('times', 'without', mode='before')
    @classmethod
    def _are_ranges(cls, value: object, info: ValidationInfo) -> object:
        several = value.values() if isinstance(value, dict) else [value or ()]
        for ranges in several:
            for item in ranges if isinstance(ranges, (list, tuple)) else [ranges]:
                if not _is_range(item):
                    raise ValueError(
                        f'Expected ranges as [[2.0, 30.5]] for {info.field_name!r}, each from an '
                        f'earlier to a later time, or a bag and its ranges, found {item!r}'
                    )
        return value


def _is_range(value: object) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) == 2  # noqa: PLR2004 - from and to
        and all(isinstance(time, (int, float)) for time in value)
        and value[0] < value[1]
    )


Share = Annotated[float, Field(ge=0, lt=1)]
Sigma = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0.01, le=1e4)]

Stamps = Literal['auto', 'header', 'receive']
#: One for all topics, or by topic; those that are not named are ``auto``.
StampChoice = Stamps | dict[str, Stamps]
#: Loss on residuals in units of their noise, named as in scipy.
Loss = Literal['linear', 'huber', 'soft_l1']
#: Where a fit begins; ``auto`` takes what is of use.
StartChoice = Literal['auto', 'nominal', 'regression', 'windows']
#: Whether a solver moves a value itself or its logarithm.
Scale = Literal['linear', 'log']
#: How near to the optimum a fit ends, in standard errors: farther off, an interval would hold the
#: truth in another thousandth of a percent of cases.
ACCURACY = 0.01


class VerdictKind(StrEnum):
    """What the data say about a parameter."""

    IDENTIFIED = 'identified'
    AT_BOUND = 'at bound'
    NOT_EXCITED = 'not excited'
    CONFOUNDED = 'confounded'
    PRIOR_DOMINATED = 'prior-dominated'
    MODEL_LIMITED = 'model-limited'

    def among(self, others: Sequence[str]) -> str:
        """Return the verdict in words, with the parameters that one is confounded with."""
        return f'{self} with {listed(others)}' if others else str(self)


class GateConfig(Section):
    """Conditions for accepting a result; a rejected one changes no file in use."""

    margin: Share = Field(
        default=0.02,
        description='part by which the held-out error must fall below that of the nominal model',
    )
    significance: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.05, description='largest probability that the error fell by chance'
    )
    converged: bool = Field(default=True, description='whether the solver must have converged')
    sensor_growth: Annotated[float, Field(ge=0)] = Field(
        default=0.1, description="part by which one sensor's held-out error may grow"
    )
    sequence_growth: Annotated[float, Field(ge=1)] = Field(
        default=4.0,
        description="times the training sequences' median error that a sequence's may be",
    )
    least_explained: Annotated[float, Field(le=1)] = Field(
        default=0.5,
        description='part of the variance of each moving position and velocity to be predicted',
    )
    stuck_share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.2,
        description='part of its range that a position may be predicted to move while measured '
        'values stand still',
    )


class MemoryConfig(Section):
    """The earlier result that a fit continues; the short form is ``previous`` alone."""

    previous: Literal['none', 'auto'] | Path = Field(
        default='none',
        description='none, an earlier result.json or its folder, or auto: the current one',
    )
    forgetting: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.9, description='weight of what the earlier result knew; 1 forgets nothing'
    )
    wander: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0,
        description='part of its value by which a parameter of an unchanged robot may differ from '
        'one recording to the next, one standard deviation',
    )
    level: Annotated[float, Field(gt=0, lt=0.5)] = Field(
        default=0.01, description='probability of seeing a change of the robot where there is none'
    )
    carry: bool = Field(
        default=False,
        description='whether what this file does not say is as in the configuration of the earlier '
        'result, and the parameters of that are carried on beside those here',
    )

    @model_validator(mode='before')
    @classmethod
    def _from_path(cls, value: object) -> object:
        return {'previous': value} if isinstance(value, (str, Path)) else value

    @model_validator(mode='after')
    def _carries_what_is_named(self) -> MemoryConfig:
        if self.carry and not isinstance(self.previous, Path):
            raise ValueError(
                'Expected an earlier result in memory.previous, whose parameters carry takes over, '
                f'found {self.previous!r}'
            )
        return self


class StatisticsConfig(Section):
    """What the weights of measurements, and so the intervals, rest on."""

    noise: dict[str, Sigma] = Field(
        default_factory=dict,
        description='sensor or pattern to the standard deviation of its noise, in SI units, as of '
        'a datasheet; the others are estimated',
    )


class ValidationConfig(Section):
    """What is refitted, and predicted, to see how far a fit can be trusted."""

    leave_out: Literal['auto', 'none', 'bag'] = Field(
        default='auto',
        description='what is held out in turn: each bag, or nothing; auto is bag from three '
        'training bags on',
    )
    horizon: tuple[Seconds, ...] = Field(
        default=(0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
        description='seconds after starts from the measured state at which errors are given',
    )


#: What a bag is for: to fit to, or to judge the fit on.
Role = Literal['train', 'validate']


class BagSelection(Section):
    """Bags and what they are for."""

    path: str = Field(description='bag folder, or a pattern such as bags/train_*')
    role: Role = Field(default='train', description='train or validate')


class PriorConfig(Section):
    """What is known of a parameter before the fit, in its unit."""

    mean: float | None = Field(
        default=None, description='most likely value; default where the parameter starts'
    )
    std: Annotated[float, Field(gt=0)] = Field(description='standard deviation')


class ParameterConfig(Section):
    """One entry of ``parameters``: a target or a pattern of targets.

    What it says holds for each component of a vector, and for each match of a pattern.
    """

    target: str = Field(description='what is written, as joint/*/armature')
    name: str | None = Field(default=None, description='name in the result; default the target')
    initial: float | None = Field(default=None, description="nominal value; default the model's")
    bounds: tuple[float, float] | None = Field(default=None, description='lower and upper bound')
    shared: bool = Field(default=False, description='one value for all matches')
    scale: Scale = Field(
        default='linear', description='log for positive values that may be wrong by a factor'
    )
    prior: PriorConfig | None = Field(default=None, description='what is known before the fit')


class CarriedParameter(ParameterConfig):
    """An entry of an earlier result's configuration; what entries of the file itself write wins."""


class ServoConfig(Section):
    """One entry of ``servos``: actuators that servos of one kind drive."""

    actuators: tuple[str, ...] = Field(description="names or patterns, as ['shoulder_*', elbow]")
    type: str | None = Field(
        default=None, description='kind of servo, as xl330, or a YAML file that defines one'
    )
    model: str | None = Field(default=None, description='friction law: m1 to m6, or a part of them')
    params: Path | None = Field(
        default=None, description='file of coefficients to start from; it says type and model'
    )
    values: dict[str, float] = Field(
        default_factory=dict, description='coefficients to start from; they win over the file'
    )
    constants: dict[str, float] = Field(
        default_factory=dict, description="what differs from the kind's, as kp and vin"
    )
    identify: Literal['all', 'none'] | tuple[str, ...] = Field(
        default='all', description='coefficients that are to be found'
    )
    shared: bool = Field(default=False, description='one value for all actuators of the entry')

    @model_validator(mode='after')
    def _is_complete(self) -> ServoConfig:
        if self.params is None and (self.type is None or self.model is None):
            raise ValueError('Expected type and model, or params, in servos, found neither')
        return self


class SolverConfig(Section):
    """How the least-squares problem is solved."""

    loss: Loss = Field(default='linear', description='loss on residuals in units of their noise')
    max_iterations: Annotated[int, Field(ge=1, le=10000)] = 200
    time: Seconds | None = Field(
        default=None, description='limit of time, s; the best values by then count'
    )
    accuracy: Annotated[float, Field(gt=0, le=1)] = Field(
        default=ACCURACY, description='largest step left at the end, in standard errors'
    )
    start: StartChoice = Field(
        default='auto', description='where the fit begins; auto takes what is of use'
    )
    starts: Annotated[int, Field(ge=1, le=10000)] = Field(
        default=1, description='number of starts, spread over the bounds'
    )
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = Field(
        default=0, description='of all starts but the first, which is the nominal values'
    )
    threads: Annotated[int, Field(ge=0, le=1024, description='0 means one per core')] = 0
    timestep: Literal['model', 'auto'] | Annotated[float, Field(gt=0, le=0.1)] = Field(
        default='auto', description='of the simulations, s; auto takes what the recordings bear'
    )


class CheckConfig(Section):
    """What ``sysid check`` tolerates beside the intervals."""

    tolerance: dict[str, Annotated[float, Field(ge=0)]] = Field(
        default_factory=dict,
        description='parameter name or pattern to the absolute difference that is allowed',
    )
    held_out_factor: Annotated[float, Field(ge=1)] = Field(
        default=1.1, description='held-out error may grow by this factor'
    )


class ReportConfig(Section):
    """What the report holds beside the numbers."""

    film: bool = Field(
        default=True,
        description='whether it has a film of measured, nominal and fitted, which takes some '
        'seconds to draw',
    )


class DataConfig(Section):
    """How recordings are read and compared with a model."""

    package_path: tuple[Path, ...] = Field(
        default=(),
        description='folders of ROS packages that a URDF refers to, beside the ament index',
    )
    estimator: Literal['auto', 'simulation', 'torque', 'windows'] = Field(
        default='auto',
        description='what the model is compared with: simulations of whole recordings or of '
        'windows that start where the robot was, or the forces that the measured motion needs; '
        'auto is torque where only forces drive the joints and they are measured, and windows '
        'where simulations of whole recordings say nothing',
    )
    mapping: Literal['auto'] | MappingConfig | Path = Field(
        default='auto', description='auto, a mapping, or a YAML file that holds one'
    )
    namespace: str = Field(
        default='', description='of several arms in a bag this one: words of its topics or joints'
    )
    stamps: StampChoice = Field(
        default='auto',
        description='time of a message: header stamp, else when it was sent or received, or as '
        'told, for all or by topic',
    )
    segments: SegmentsConfig = SegmentsConfig()
    servos: tuple[ServoConfig, ...] = Field(
        default=(), description='actuators that servos drive, whose laws MuJoCo does not have'
    )
    undriven: tuple[str, ...] = Field(
        default=(),
        description='actuators that were off, names or patterns: they exert nothing and need no '
        'commands',
    )
    base: Literal['free', 'measured', 'fixed'] = Field(
        default='free',
        description='what the base of a robot does that floats in the model: that, what was '
        'measured of it, or nothing, as on a stand',
    )
    sensors: Annotated[tuple[str, ...], Field(min_length=1)] | None = Field(
        default=None, description='sensors that are compared, names or patterns; default all mapped'
    )

    @field_validator('mapping', mode='before')
    @classmethod
    def _is_a_mapping(cls, mapping: object) -> object:
        if isinstance(mapping, (str, dict, Path, MappingConfig)):
            return mapping
        raise ValueError(
            f'Expected auto, a mapping or the name of a mapping file, found {mapping!r}'
        )


class CalibrationConfig(DataConfig):
    """``calibration.yaml``: from bags to an identified model."""

    model: Path = Field(
        default=Path(),
        description='MJCF, URDF or xacro file; default the robot_description in the first bag',
    )
    bags: tuple[BagSelection, ...] = Field(description='recordings and their roles')
    parameters: tuple[ParameterConfig, ...] = Field(default=(), description='what to identify')
    solver: SolverConfig = SolverConfig()
    statistics: StatisticsConfig = StatisticsConfig()
    validation: ValidationConfig = ValidationConfig()
    memory: MemoryConfig = MemoryConfig()
    gate: GateConfig = GateConfig()
    check: CheckConfig = CheckConfig()
    report: ReportConfig = ReportConfig()
    output: Path = Field(default=Path('out'), description='folder for model, result and report')

    @model_validator(mode='after')
    def _is_complete(self) -> CalibrationConfig:
        if not any(bag.role == 'train' for bag in self.bags):
            raise ValueError('Expected at least one bag with role train in bags, found none')
        found = any(servo.identify not in ('none', ()) for servo in self.servos)
        if not self.parameters and not found:
            raise ValueError(
                'Expected at least one entry in parameters (evaluate needs none), found none'
            )
        return self


#: Largest error of a sensor, by its name or a pattern, in its SI unit.
Limits = dict[str, Annotated[float, Field(gt=0)]]


class ThresholdsConfig(DataConfig):
    """A ``*.sysid.yaml``: how well a model has to predict recordings, without any fit.

    What of the recordings it does not say is as in ``calibration``, where that is given.
    """

    model: Path | None = Field(
        default=None, description='MJCF, URDF or xacro file, or a result: what is evaluated'
    )
    bags: tuple[str, ...] = Field(
        default=(), description='recordings to predict, folders or patterns'
    )
    calibration: Path | None = Field(
        default=None, description='calibration.yaml that is fitted again, and read like'
    )
    baseline: Path | None = Field(
        default=None, description='folder of what was found before; written by sysid check --update'
    )
    limits: Limits = Field(
        default_factory=dict,
        description='largest root mean square error over a whole recording, by sensor or pattern',
    )
    horizon: dict[Seconds, Limits] = Field(
        default_factory=dict,
        description='the same of positions so many seconds after measured states',
    )
    growth: Annotated[float, Field(ge=1)] = Field(
        default=1.1, description='errors may be so many times those of the baseline'
    )


#: One name or pattern, or several.
Patterns = Annotated[
    tuple[str, ...], BeforeValidator(lambda said: (said,) if isinstance(said, str) else said)
]


class RobotConfig(Section):
    """One robot: its bags, and what of the shared calibration is another for it."""

    name: str = Field(description='of its row and its folder')
    train: Annotated[Patterns, Field(min_length=1)] = Field(
        description='bags to fit to, or patterns such as bags/r1/train_*'
    )
    validate_: Patterns = Field(default=(), alias='validate', description='bags to judge it on')
    overrides: dict[str, Any] = Field(
        default_factory=dict,
        description='keys of calibration.yaml to values, as {model: b.xml, solver.loss: huber}',
    )


class FleetConfig(Section):
    """``fleet.yaml``; the bags of ``base`` are left aside."""

    base: Path | dict[str, Any] = Field(
        description='calibration.yaml whose keys hold for all robots, or those keys themselves'
    )
    robots: Annotated[tuple[RobotConfig, ...], Field(min_length=1)] = Field(
        description='robots and their bags'
    )
    output: Path = Field(default=Path('fleet'), description='folder for all results')

    @field_validator('robots')
    @classmethod
    def _have_names_of_their_own(cls, robots: tuple[RobotConfig, ...]) -> tuple[RobotConfig, ...]:
        names = [robot.name for robot in robots]
        for name in names:
            # It is the name of a folder, too.
            if names.count(name) > 1 or not re.fullmatch(r'\w[\w.-]*', name):
                twice = ' twice' * (names.count(name) > 1)
                raise ValueError(
                    'Expected a name of letters, digits, _, - and . for each robot, found '
                    f'{name!r}{twice}'
                )
        return robots


class Fleet(NamedTuple):
    """What a ``fleet.yaml`` means."""

    folder: Path  # of the file, absolute
    output: Path  # folder for all results, absolute
    robots: dict[str, CalibrationConfig]  # the calibration of each by name, all paths absolute

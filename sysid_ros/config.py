# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One validated schema for configuration files, command-line flags and node parameters.

Each model below is at once the schema of a YAML file, the source of the command line's overrides
and, for the nodes, of the declared ROS parameters: a field's description becomes the parameter's
descriptor and its limits the parameter's range.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from sysid_ros.complaints import explain
from sysid_ros.errors import ConfigError, nearest

T = TypeVar('T', bound=BaseModel)

Stamps = Literal['auto', 'header', 'receive']
#: One for all topics, or by topic; those that are not named are ``auto``.
StampChoice = Stamps | dict[str, Stamps]
#: Pairs of a start and an end, s.
Ranges = tuple[tuple[float, float], ...]
Storage = Literal['mcap', 'sqlite3']

#: A channel in one string, as ``bags.parse_channel`` reads it: a topic's name has no dots, a label
#: is in the last pair of brackets and may hold brackets itself.
_CHANNEL = re.compile(
    r'(?P<topic>/[^.\[\]]*)\.(?P<field>.+?)(?:\[(?P<label>(?:[^\[\]]|\[[^\[\]]*\])*)\])?'
)


class Section(BaseModel):
    """A section of a configuration: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra='forbid', frozen=True)


class BagSelection(Section):
    """Bags and what they are for."""

    path: str = Field(description='bag folder, or a pattern such as bags/train_*')
    role: Literal['train', 'validate'] = Field(default='train', description='train or validate')


class PriorConfig(Section):
    """What is known of a parameter before the fit, in its unit."""

    mean: float = Field(description='most likely value')
    std: Annotated[float, Field(gt=0)] = Field(description='standard deviation')


class ParameterConfig(Section):
    """One entry of ``parameters``: a target or a pattern of targets.

    What it says holds for each component of a vector, and for each match of a pattern.
    """

    target: str = Field(description='what is written, as joint/*/armature')
    name: str | None = Field(default=None, description='name in the result; default the target')
    initial: float | None = Field(default=None, description="start value; default the model's")
    bounds: tuple[float, float] | None = Field(default=None, description='lower and upper bound')
    shared: bool = Field(default=False, description='one value for all matches')
    scale: Literal['linear', 'log'] = Field(
        default='linear', description='log for positive values that may be wrong by a factor'
    )
    prior: PriorConfig | None = Field(default=None, description='what is known before the fit')


class SolverConfig(Section):
    """How the least-squares problem is solved."""

    backend: Literal['mujoco', 'scipy', 'scipy-trf', 'scipy-dogbox', 'scipy-lm'] = Field(
        default='mujoco', description='which solver; scipy is scipy-dogbox'
    )
    loss: Literal['linear', 'huber', 'soft_l1', 'cauchy', 'arctan'] = Field(
        default='linear', description='loss on residuals in units of their noise'
    )
    max_iterations: Annotated[int, Field(ge=1, le=10000)] = 50
    starts: Annotated[int, Field(ge=1, le=10000)] = Field(
        default=1, description='number of starts, spread over the bounds'
    )
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = Field(
        default=0, description='of all starts but the first, which is the initial values'
    )
    threads: Annotated[int, Field(ge=0, le=1024, description='0 means one per core')] = 0


class CheckConfig(Section):
    """What ``sysid check`` tolerates beside the intervals."""

    tolerance: dict[str, Annotated[float, Field(ge=0)]] = Field(
        default_factory=dict,
        description='parameter name or pattern to the absolute difference that is allowed',
    )
    held_out_factor: Annotated[float, Field(ge=1)] = Field(
        default=1.1, description='held-out error may grow by this factor'
    )


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

    @model_validator(mode='before')
    @classmethod
    def _from_path(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        found = _CHANNEL.fullmatch(value)
        if found is None:
            msg = f'Expected a channel as /topic.field[label], found {value!r}'
            raise ValueError(msg)
        return {key: part for key, part in found.groupdict().items() if part is not None}

    @model_validator(mode='after')
    def _has_one_choice(self) -> ChannelMapping:
        if self.label is not None and self.labels is not None:
            msg = f'Expected label or labels for {self.topic} {self.field}, found both'
            raise ValueError(msg)
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
                    msg = (
                        f'Expected ranges as [[2.0, 30.5]] for {info.field_name!r}, each from an '
                        f'earlier to a later time, or a bag and its ranges, found {item!r}'
                    )
                    raise ValueError(msg)
        return value


def _is_range(value: object) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) == 2  # noqa: PLR2004 - from and to
        and all(isinstance(time, (int, float)) for time in value)
        and value[0] < value[1]
    )


class CalibrationConfig(Section):
    """``calibration.yaml``: from bags to an identified model."""

    model: Path = Field(description='MJCF file')
    bags: tuple[BagSelection, ...] = Field(description='recordings and their roles')
    mapping: Literal['auto'] | MappingConfig | Path = Field(
        default='auto', description='auto, a mapping, or a YAML file that holds one'
    )
    stamps: StampChoice = Field(
        default='auto',
        description='time of a message: header stamp unless zero, or as told, for all or by topic',
    )
    segments: SegmentsConfig = SegmentsConfig()
    parameters: tuple[ParameterConfig, ...] = Field(description='what to identify')
    sensors: tuple[str, ...] | None = Field(
        default=None, description='sensors that are compared; default all that are mapped'
    )
    solver: SolverConfig = SolverConfig()
    check: CheckConfig = CheckConfig()
    output: Path = Field(default=Path('out'), description='folder for model, result and report')

    @field_validator('mapping', mode='before')
    @classmethod
    def _is_a_mapping(cls, mapping: object) -> object:
        if isinstance(mapping, (str, dict, Path, MappingConfig)):
            return mapping
        msg = f'Expected auto, a mapping or the name of a mapping file, found {mapping!r}'
        raise ValueError(msg)

    @model_validator(mode='after')
    def _is_complete(self) -> CalibrationConfig:
        if self.sensors is not None and not self.sensors:
            msg = 'Expected at least one name in sensors, or no such key, found none'
            raise ValueError(msg)
        if not any(bag.role == 'train' for bag in self.bags):
            msg = 'Expected at least one bag with role train in bags, found none'
            raise ValueError(msg)
        if not self.parameters:
            msg = 'Expected at least one entry in parameters, found none'
            raise ValueError(msg)
        return self


class RecorderConfig(Section):
    """Parameters of the ``recorder`` node."""

    output: str = Field(default='', description='folder of the new bag; required')
    topics: tuple[str, ...] = Field(
        default=(),
        description='topics to record; default /joint_states and the command topics in the graph',
    )
    regex: str = Field(
        default='', description='record topics in whose name this regular expression is found'
    )
    all: bool = Field(default=False, description='record every topic')
    exclude: str = Field(
        default='', description='but none in whose name this regular expression is found'
    )
    wait_for: tuple[str, ...] = Field(
        default=(),
        description='topics that must have sent a message; default those in topics, published',
    )
    start_paused: bool = Field(default=False, description='wait for ~/start or ~/resume')
    max_duration: Annotated[float, Field(ge=0, le=1e6)] = Field(
        default=0.0, description='stop after so many seconds of recording; 0 means never'
    )
    storage: Storage = Field(default='mcap', description='mcap or sqlite3')
    compression: Literal['none', 'zstd'] = Field(
        default='none', description='none, or zstd for the chunks of mcap'
    )
    max_bag_size: Annotated[int, Field(ge=0, le=10**15)] = Field(
        default=0, description='bytes after which the next file of the bag begins; 0 means never'
    )
    max_bag_duration: Annotated[float, Field(ge=0, le=1e6)] = Field(
        default=0.0, description='seconds after which the next file begins; 0 means never'
    )
    queue_seconds: Annotated[float, Field(ge=0.1, le=3600)] = Field(
        default=30.0, description='how long messages wait for a slow disk before they are dropped'
    )
    sync_seconds: Annotated[float, Field(ge=0, le=3600)] = Field(
        default=5.0, description='how often the disk is waited for (fsync); 0 means never'
    )
    qos_overrides: str = Field(
        default='', description='YAML file of topics and QoS, as ros2 bag record takes it'
    )
    notes: str = Field(default='', description='free text that goes into the bag')
    quality: bool = Field(
        default=True, description='inspect the last seconds while recording, for /diagnostics'
    )
    model: str = Field(
        default='', description='MJCF file, for the joints and their ranges in the quality'
    )
    panel: bool = Field(default=False, description='show the quality as a table in the terminal')

    @field_validator('topics', 'wait_for')
    @classmethod
    def _without_empty_names(cls, topics: tuple[str, ...]) -> tuple[str, ...]:
        # A launch file cannot pass an empty list; it passes an empty string.
        return tuple(topic for topic in topics if topic)

    @field_validator('regex', 'exclude')
    @classmethod
    def _is_an_expression(cls, expression: str, info: ValidationInfo) -> str:
        try:
            re.compile(expression)
        except re.error as err:
            msg = (
                f'Expected a regular expression for {info.field_name!r}, found {expression!r} '
                f'({err})'
            )
            raise ValueError(msg) from err
        return expression


class SimulatedRobotConfig(Section):
    """Parameters of the ``simulated_robot`` node."""

    model: str = Field(default='', description='MJCF file; required')
    truth: str = Field(default='', description='YAML file of target: value that the robot hides')
    rate: Annotated[float, Field(ge=1, le=10_000)] = Field(
        default=500.0, description='joint state messages per second'
    )
    encoder_bits: Annotated[int, Field(ge=0, le=32)] = Field(
        default=14, description='encoder counts per turn are 2^bits; 0 means exact'
    )
    position_noise: Annotated[float, Field(ge=0, le=1e3)] = Field(
        default=1e-4, description='standard deviation before the encoder, rad or m'
    )
    velocity_noise: Annotated[float, Field(ge=0, le=1e3)] = Field(
        default=5e-3, description='standard deviation, rad/s or m/s'
    )
    effort_noise: Annotated[float, Field(ge=0, le=1e6)] = Field(
        default=5e-2, description='standard deviation, N·m or N'
    )
    stamp_jitter: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0, description='standard deviation of the stamps, s; they stay in order'
    )
    loss: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0, description='part of the joint state messages that never leave'
    )
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = Field(default=0, description='of the noise')
    joint_states_topic: str = Field(default='/joint_states', description='topic of the state')
    commands_topic: str = Field(
        default='/forward_position_controller/commands',
        description='Float64MultiArray, one value per actuator in model order',
    )
    trajectory_topic: str = Field(
        default='/joint_trajectory_controller/joint_trajectory',
        description='JointTrajectory, joints by name',
    )


class ExciterConfig(Section):
    """Parameters of the ``exciter`` node."""

    model: str = Field(default='', description='MJCF file; required')
    motion: str = Field(
        default='', description='CSV or YAML file of waypoints; default a sum of sines'
    )
    duration: Annotated[float, Field(ge=0.1, le=86_400)] = Field(
        default=15.0, description='seconds, ramps included'
    )
    ramp: Annotated[float, Field(ge=0, le=600)] = Field(
        default=1.0, description='seconds over which the motion fades in and out'
    )
    amplitude: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.4, description="peak as a fraction of half of each actuator's range"
    )
    max_frequency: Annotated[float, Field(gt=0, le=100)] = Field(
        default=1.5, description='highest frequency of the sines, Hz'
    )
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = Field(
        default=0, description='of phases and frequencies'
    )
    rate: Annotated[float, Field(ge=1, le=5_000)] = Field(
        default=100.0, description='commands per second'
    )
    message: Literal['Float64MultiArray', 'JointTrajectory'] = Field(
        default='Float64MultiArray', description='type of the command messages'
    )
    commands_topic: str = Field(
        default='', description="where commands go; default ros2_control's topic for the type"
    )
    wait_for: str = Field(
        default='/joint_states', description='topic that must have a publisher before it starts'
    )


class CalibratorConfig(Section):
    """Parameters of the ``calibrator`` node."""

    config: str = Field(default='', description='calibration.yaml; required')
    output: str = Field(default='', description="folder for results; default the file's")


class RefitConfig(Section):
    """Parameters of the ``refit`` node."""

    calibrator: str = Field(default='/calibrator', description='full name of the calibrator node')
    timeout: Annotated[float, Field(gt=0, le=3600)] = Field(
        default=10.0, description='seconds to wait for the service to appear'
    )


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file that holds one mapping.

    Raises:
        ConfigError: There is no such file, it is not YAML, or not a mapping.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding='utf-8'))
    except FileNotFoundError as err:
        near = path.parent.glob(f'*{path.suffix}') if path.parent.is_dir() else []
        hint = nearest(path.name, sorted(entry.name for entry in near))
        msg = f'There is no file {str(path)!r}; {hint}.'
        raise ConfigError(msg) from err
    except OSError as err:
        msg = f'Cannot read {str(path)!r}: {err.strerror}.'
        raise ConfigError(msg) from err
    except UnicodeDecodeError as err:
        msg = f'{str(path)!r} is not valid YAML: byte {err.start} is not UTF-8 text.'
        raise ConfigError(msg) from err
    except yaml.YAMLError as err:
        msg = f'{str(path)!r} is not valid YAML: {_yaml_complaint(err)}.'
        raise ConfigError(msg) from err
    if not isinstance(document, dict):
        found = {type(None): 'nothing', list: 'a list'}.get(type(document), repr(document))
        msg = f'Expected keys and values in {str(path)!r}, found {found}.'
        raise ConfigError(msg)
    return document


def _yaml_complaint(error: yaml.YAMLError) -> str:
    """Return what is wrong and where, without the excerpts that span lines."""
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    if mark is None or not isinstance(error, yaml.MarkedYAMLError):
        return ' '.join(str(error).split())
    return f'{error.problem} in line {mark.line + 1}, column {mark.column + 1}'


def validate(schema: type[T], values: dict[str, Any], where: str) -> T:
    """Validate values against a schema.

    Raises:
        ConfigError: A sentence about the first value that does not fit.
    """
    try:
        return schema.model_validate(values)
    except ValidationError as err:
        raise ConfigError(explain(err, schema, where)) from err


def load_calibration(path: Path, overrides: dict[str, Any] | None = None) -> CalibrationConfig:
    """Read ``calibration.yaml``; relative paths inside are relative to the file's folder.

    They stay relative when the file's own path is, so that results do not depend on where the
    folder lies on a machine.

    Args:
        path: The file.
        overrides: Dotted keys to values that replace the file's, as ``{'solver.loss': 'huber'}``;
            relative paths among them are relative to the working directory.

    Raises:
        ConfigError: The file cannot be read or is not valid.
    """
    values = read_yaml(path)
    folder = path.parent
    given = dict(overrides or {})
    for key, value in given.items():
        _put(values, key, value)
    config = validate(CalibrationConfig, values, str(path))
    here = Path()
    mapping = config.mapping
    return config.model_copy(
        update={
            'model': (here if 'model' in given else folder) / config.model,
            'output': (here if 'output' in given else folder) / config.output,
            'bags': tuple(
                bag.model_copy(
                    update={'path': str((here if 'bags' in given else folder) / bag.path)}
                )
                for bag in config.bags
            ),
            'mapping': (here if 'mapping' in given else folder) / mapping
            if isinstance(mapping, Path)
            else mapping,
        }
    )


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    *sections, last = key.split('.')
    for section in sections:
        inner = values.setdefault(section, {})
        if not isinstance(inner, dict):
            msg = f'Cannot set {key!r}: {section!r} is not a section.'
            raise ConfigError(msg)
        values = inner
    values[last] = value


def load_mapping(path: Path) -> MappingConfig:
    """Read a mapping file.

    Raises:
        ConfigError: The file cannot be read or is not valid.
    """
    return validate(MappingConfig, read_yaml(path), str(path))


def load_segments(path: Path) -> SegmentsConfig:
    """Read the section ``segments`` of a file, a calibration.yaml for example.

    Raises:
        ConfigError: The file cannot be read, has no such section, or it is not valid.
    """
    values = read_yaml(path)
    if 'segments' not in values:
        msg = f'Expected the section segments in {str(path)!r}; {nearest("segments", values)}.'
        raise ConfigError(msg)
    section = values['segments']
    if not isinstance(section, dict):
        msg = f'Expected keys and values for segments in {str(path)!r}, found {section!r}.'
        raise ConfigError(msg)
    return validate(SegmentsConfig, section, f'segments in {path}')

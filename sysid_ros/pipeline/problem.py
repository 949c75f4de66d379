# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From a configuration and its bags to a `Problem`: what is to be identified, from what."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import mujoco
import numpy as np

from sysid_ros.alignment import Alignment, align, map_columns
from sysid_ros.alignment.health import FindingKind, HealthFinding
from sysid_ros.alignment.mapping.arms import in_namespace
from sysid_ros.alignment.mapping.proposal import imply_actuators
from sysid_ros.alignment.pairs import (
    SENSOR_FIELDS,
    actuator_names,
    sensor_names,
)
from sysid_ros.alignment.stamps import StampSource
from sysid_ros.bags import BagColumns, read_bag
from sysid_ros.config import (
    CalibrationConfig,
    MappingConfig,
    ParameterConfig,
    SegmentsConfig,
    ServoConfig,
    StampChoice,
    load_mapping,
)
from sysid_ros.config.calibration import Role
from sysid_ros.errors import (
    BagError,
    ConfigError,
    ParameterError,
    listed,
    nearest,
)
from sysid_ros.estimation.noise import arrival_jitter
from sysid_ros.files import matching
from sysid_ros.identification.observer import Observer
from sysid_ros.inspection.lag import late_velocities, only, without_late
from sysid_ros.model.implied import (
    add_actuators,
    implied_actuators,
    implied_sentence,
    takes_efforts,
)
from sysid_ros.model.loading import RobotModel, compile_spec, load_spec, read_model
from sysid_ros.model.targets import Role as Acting
from sysid_ros.model.targets import Target, of_sequence, resolve
from sysid_ros.model.unknown import Scope, Unknown, check_distinct, make_unknowns
from sysid_ros.pipeline.driven import (
    NotToldError,
    check_driven,
    switched_off,
    without_undriven,
)
from sysid_ros.rollout.pool import no_law
from sysid_ros.servos.formats.parameter_file import read_parameters
from sysid_ros.servos.laws.friction import Coefficient
from sysid_ros.servos.laws.joints import ServoDrive, ServoJoints, starting_values
from sysid_ros.servos.laws.servo import Servo
from sysid_ros.signals.trajectory import Trajectory

#: Ends of the names of files in MJCF.
_MJCF = frozenset({'.xml', '.mjcf'})


@dataclass(frozen=True)
class CalibrationBag:
    """One bag, what it is for, and its sequences."""

    path: Path
    role: Role
    alignment: Alignment

    @property
    def idle_actuators(self) -> str:
        """Which actuators the bag holds no commands for, in one clause; empty where none."""
        names = [
            item.subject for item in self.alignment.health if item.kind is FindingKind.UNMAPPED
        ]
        if not names:
            return ''
        return f'{self.path.name!r} holds no commands for {listed(names)}; they stay 0'


@dataclass(frozen=True)
class Problem:
    """What is to be identified, from what.

    Attributes:
        spec: The nominal model, not compiled.
        model: The same, compiled.
        recordings: All bags of the configuration, aligned.
        parameters: The unknowns.
        source: The model as it was read, with all actuators where some of ``spec`` are off.
        servos: The joints that servos drive, if any.
        refused: Why a simulation cannot explain a bag, where forces along its motion may.
    """

    spec: mujoco.MjSpec
    model: mujoco.MjModel
    recordings: tuple[CalibrationBag, ...]
    parameters: tuple[Unknown, ...]
    source: RobotModel
    servos: ServoJoints | None = None
    refused: tuple[NotToldError, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known of the model beside its file, a sentence each."""
        sensors = {
            name
            for recording in self.recordings
            for sequence in recording.alignment.sequences
            for series in sequence.measurements
            for name in series.names
        }
        falls = falling_base(self.model, sensors)
        found = *self.source.description.notes, implied_sentence(self.spec), falls
        return tuple(filter(None, found))

    def sequences(self, role: Role) -> tuple[Trajectory, ...]:
        """Return the sequences of all bags with a role, in the bags' order."""
        return tuple(
            sequence
            for recording in self.recordings
            if recording.role == role
            for sequence in recording.alignment.sequences
        )


def falling_base(model: mujoco.MjModel, measured: Collection[str]) -> str:
    """Say that a base falls whose position no sensor measures; empty where none does."""
    free = np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
    names = sensor_names(model)
    kinds = {mujoco.mjtSensor(model.sensor_type[names.index(name)]) for name in measured}
    if not len(free) or not kinds <= SENSOR_FIELDS.keys():
        return ''
    return (
        f'Nothing measured says where {model.body(model.jnt_bodyid[free[0]]).name!r} is, which '
        'floats: in the simulation it falls until it touches something. Where the robot hung '
        'or stood on a stand, take a copy of the model without this free joint.'
    )


def unlike_stamps(recordings: Sequence[CalibrationBag]) -> Iterator[HealthFinding]:
    """Find topics whose times are of another kind in one bag than in others.

    Each kind is late in its own way, and one delay is then right for some bags only.
    """
    kinds: dict[str, dict[StampSource, list[str]]] = {}
    for recording in recordings:
        for topic, source in recording.alignment.stamps:
            # When messages were sent is moved to when they are usually received.
            kind: StampSource = 'receive' if source == 'sent' else source
            kinds.setdefault(topic, {}).setdefault(kind, []).append(recording.path.name)
    for topic, bags in kinds.items():
        if len(bags) > 1:
            said = '; '.join(f'{kind} in {listed(names)}' for kind, names in bags.items())
            detail = f'{said}; no delay is right for all: set stamps or leave bags out'
            first = next(iter(bags.values()))[0]
            yield HealthFinding(first, topic, FindingKind.UNLIKE_STAMPS, len(bags), detail)


class Subject(NamedTuple):
    """The model of a configuration, and what was read to know what drives it.

    Attributes:
        model: With actuators, which are implied where the file has none.
        bags: The columns of the bags that were read; each is taken out where it is used.
    """

    model: RobotModel
    bags: dict[Path, BagColumns]


def subject_of(config: CalibrationConfig) -> Subject:
    """Read the model of a configuration; actuators for the commands of a bag may be implied.

    Raises:
        SysidError: In one sentence, what is wrong with the model, the mapping or the first bag.
    """
    found = Subject(read_model(config.model, config.package_path), {})
    spec = found.model.spec
    mapping = mapping_of(config)
    if mapping != 'auto':
        add_actuators(spec, mapping.actuators)
    elif takes_efforts(spec):
        path = next(path for path, role in bags_of(config) if role == 'train')
        found.bags[path] = in_namespace(read_bag(path), config.namespace)
        imply_actuators(spec, config.model, found.bags[path])
    return found


def mapping_of(config: CalibrationConfig) -> Literal['auto'] | MappingConfig:
    """Return the mapping of a configuration, read where it is a file."""
    return load_mapping(config.mapping) if isinstance(config.mapping, Path) else config.mapping


def load(
    config: CalibrationConfig,
    observer: Observer,
    look: Callable[[BagColumns, Role, mujoco.MjModel], None] | None = None,
    subject: Subject | None = None,
) -> Problem:
    """Read the model and all bags of a configuration.

    Args:
        config: The validated configuration.
        observer: Is told of every bag.
        look: Is shown the columns of every bag, its role and the compiled nominal model.
        subject: What was read of it already; read here unless given.

    Raises:
        SysidError: In one sentence, what is wrong with model, parameters, mapping or a bag.
    """
    source, bags_read = subject or subject_of(config)
    spec = source.spec
    model = compile_spec(spec, config.model)
    if config.undriven:
        servos = joints_of(config.servos, model)
        spec = switched_off(spec, model, config.undriven, servos.actuators if servos else ())
        model = compile_spec(spec, config.model)
    early = parameters_of(config, model, spec)
    delays = {
        role: {
            target.name: parameter.max_value
            for parameter in early
            for target in parameter.targets
            if target.role is role and target.attribute == 'delay'
        }
        for role in (Acting.COMMAND, Acting.SENSOR)
    }
    mapping = mapping_of(config)
    bags = bags_of(config)
    _check_segments(config.segments, [path.name for path, _ in bags])
    # Only MJCF can say that a robot has no actuators, and it does not where some are implied.
    described = config.model.suffix in _MJCF and not implied_actuators(spec)
    undriven = ('*',) if described else config.undriven
    read, refused = [], []
    for path, role in bags:
        observer.stage(f'reading {path}')
        columns = bags_read.pop(path, None) or in_namespace(read_bag(path), config.namespace)
        pairing = without_undriven(map_columns(columns, model, mapping), model)
        try:
            check_driven(columns, model, pairing, undriven)
        except NotToldError as err:
            # Forces may tell what drove the robot, which is known when the estimator is chosen.
            if config.estimator in ('simulation', 'windows'):
                raise
            refused.append(err)
        if look is not None:
            look(columns, role, model)
        alignment = align(
            columns,
            model,
            pairing,
            config.stamps,
            segments=config.segments,
            longest_delay=max(delays[Acting.COMMAND].values(), default=0.0),
        )
        del columns  # before the next bag is read
        for item in alignment.health:
            if item.kind is FindingKind.SIMULATED_TIME:
                observer.stage(f'{item.subject}: {item.detail}')
        read.append((path, role, _as_sampled(alignment)))
    late = late_velocities(model, [alignment for *_, alignment in read], set(delays[Acting.SENSOR]))
    recordings = tuple(
        CalibrationBag(path, role, without_late(_compared(alignment, config), model, late))
        for path, role, alignment in read
    )
    servos = joints_of(config.servos, model)
    problem = Problem(spec, model, recordings, early, source, servos, tuple(refused))
    parameters = parameters_of(config, model, spec, problem.sequences('train'))
    return dataclasses.replace(problem, parameters=parameters)


class ReadOptions(NamedTuple):
    """How a bag is read and aligned, as calibration.yaml says it.

    Attributes:
        mapping: ``auto``, or the path of a mapping file.
        stamps: Which time of a message counts.
        segments: What becomes sequences; by default all, cut at gaps.
        namespace: Of several arms in the bag this one.
        packages: Folders of ROS packages that a URDF refers to.
    """

    mapping: str | Path = 'auto'
    stamps: StampChoice = 'auto'
    segments: SegmentsConfig | None = None
    namespace: str = ''
    packages: Sequence[Path] = ()


def read_aligned(
    bag: Path, model: mujoco.MjModel | Path, options: ReadOptions
) -> tuple[Alignment, mujoco.MjModel]:
    """Read a bag, or one arm of it, and align it with a model.

    Returns:
        What was read, and the model as it was compiled: from a file, with implied actuators.
    """
    chosen: Literal['auto'] | MappingConfig = 'auto'
    if options.mapping != 'auto':
        chosen = load_mapping(Path(options.mapping))
    columns = in_namespace(read_bag(bag), options.namespace)
    if isinstance(model, Path):
        spec = load_spec(model, options.packages)
        imply_actuators(spec, model, columns, chosen)
        model = compile_spec(spec, model)
    pairing = map_columns(columns, model, chosen)
    alignment = align(columns, model, pairing, options.stamps, segments=options.segments)
    return _as_sampled(alignment), model


def _as_sampled(alignment: Alignment) -> Alignment:
    """Let forces be read under the command in force where it is known when commands came."""
    if arrival_jitter(alignment.sequences):
        return alignment
    sequences = (dataclasses.replace(each, sampled=True) for each in alignment.sequences)
    return dataclasses.replace(alignment, sequences=tuple(sequences))


def _is_any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _compared(alignment: Alignment, config: CalibrationConfig) -> Alignment:
    """Keep only the sensors of a configuration, names or patterns.

    Raises:
        ConfigError: One of them is not mapped in this bag.
    """
    if config.sensors is None:
        return alignment
    sensors = config.sensors
    mapped = {name for s in alignment.sequences for m in s.measurements for name in m.names}
    for sensor in sensors:
        if not any(fnmatchcase(name, sensor) for name in mapped):
            hint = nearest(sensor, sorted(mapped))
            raise ConfigError(
                f'Sensor {sensor!r} in sensors is not mapped in bag {alignment.bag!r}; {hint}.'
            )
    kept = []
    for sequence, begin in zip(alignment.sequences, alignment.begins, strict=True):
        measurements = only(sequence.measurements, lambda name: _is_any(name, sensors))
        if measurements:
            kept.append((dataclasses.replace(sequence, measurements=measurements), begin))
    sequences, begins = zip(*kept, strict=True) if kept else ((), ())
    return dataclasses.replace(alignment, sequences=sequences, begins=begins)


def parameters_of(
    config: CalibrationConfig,
    model: mujoco.MjModel,
    spec: mujoco.MjSpec,
    training: Sequence[Trajectory] | None = None,
) -> tuple[Unknown, ...]:
    """Turn the entries of a configuration into unknowns.

    Args:
        config: The configuration.
        model: The compiled nominal model.
        spec: What it was compiled from.
        training: The sequences whose starts may be unknown; None before the bags are read, when
            entries for them are left out.
    """
    found: list[Unknown] = []
    joints = joints_of(config.servos, model)
    scope = Scope(model, spec, training or (), partial(start_of, joints))
    for entry in (*config.parameters, *_effort_scales(config)):
        if training is None and of_sequence(entry.target):
            continue
        found.extend(
            make_unknowns(
                entry.target,
                scope,
                name=entry.name,
                initial=entry.initial,
                bounds=entry.bounds,
                shared=entry.shared,
                scale=entry.scale,
                prior=None if entry.prior is None else (entry.prior.mean, entry.prior.std),
            )
        )
    given = {target.path for unknown in found for target in unknown.targets}
    for servo in config.servos:
        if servo.identify != 'none':
            names = None if servo.identify == 'all' else servo.identify
            own = servo_unknowns(
                ServoJoints(model, [_drive(servo, model)]), names, shared=servo.shared
            )
            found += [u for u in own if not given & {target.path for target in u.targets}]
    check_distinct(found, model)
    return tuple(found)


def _effort_scales(config: CalibrationConfig) -> list[ParameterConfig]:
    """Return an unknown for the scale of each mapped current or PWM that no entry asks for.

    What a current is in N·m depends on the motor and its gear; the mapping's scale is a guess.
    """
    mapping = mapping_of(config)
    if mapping == 'auto':
        return []
    wanted = [
        f'sensor/{name}/gain'
        for name, item in mapping.sensors.items()
        if item.kind != 'torque' and (config.sensors is None or _is_any(name, config.sensors))
    ]
    asked = [entry.target for entry in config.parameters]
    return [ParameterConfig(target=target) for target in wanted if not _is_any(target, asked)]


def bags_of(config: CalibrationConfig) -> list[tuple[Path, Role]]:
    """Return every bag with its role, patterns expanded in alphabetical order.

    Raises:
        BagError: A pattern matches nothing.
        ConfigError: A bag has two roles.
    """
    found: dict[Path, Role] = {}
    for selection in config.bags:
        matches = matching(selection.path)
        if not matches:
            folder = Path(selection.path).parent
            near = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
            hint = nearest(Path(selection.path).name, near)
            raise BagError(f'No bag matches {selection.path!r}; {hint}.')
        for match in matches:
            path = Path(match)
            if found.setdefault(path, selection.role) != selection.role:
                raise ConfigError(
                    f'Bag {str(path)!r} is both training and validation data; choose one role.'
                )
    return list(found.items())


def _check_segments(segments: SegmentsConfig, bags: list[str]) -> None:
    """Check that every name and pattern in ``times`` and ``without`` matches a bag."""
    for key, ranges in (('times', segments.times), ('without', segments.without)):
        for name in ranges if isinstance(ranges, dict) else ():
            if not any(fnmatchcase(bag, name) for bag in bags):
                raise ConfigError(
                    f'No bag matches {name!r} in segments.{key}; {nearest(name, bags)}.'
                )


def joints_of(entries: Sequence[ServoConfig], model: mujoco.MjModel) -> ServoJoints | None:
    """Return the joints that servos drive; None where there are no servos.

    Args:
        entries: The section ``servos`` of a configuration.
        model: The compiled nominal model.

    Raises:
        ConfigError: A pattern matches no actuator.
        ParameterError: A kind, law or coefficient is unknown, or an actuator cannot be driven so.
    """
    return ServoJoints(model, [_drive(entry, model) for entry in entries]) if entries else None


def servo_unknowns(
    joints: ServoJoints, names: Sequence[str] | None = None, *, shared: bool = False
) -> tuple[Unknown, ...]:
    """Make unknowns of coefficients of servos.

    They start at the values of the drives, and their bounds are those of the coefficients, widened
    to hold the start. The armature is that of the joint.

    Args:
        joints: The driven joints.
        names: The coefficients; all that the servos have unless given.
        shared: Whether all actuators of a drive share a value. Else each has its own.

    Raises:
        ParameterError: No servo has such a coefficient.
    """
    known = {name for drive in joints.drives for name in _coefficients(drive, joints)}
    for name in names or ():
        if name not in known:
            raise ParameterError(
                f'No servo here has the coefficient {name!r}; {nearest(name, sorted(known))}.'
            )
    found: list[Unknown] = []
    for drive in joints.drives:
        for name, usual in _coefficients(drive, joints).items():
            if names is not None and name not in names:
                continue
            targets: list[Target] = []
            for actuator in drive.actuators:
                path = f'actuator/{actuator}/{name}'
                if name == 'armature':
                    path = f'joint/{joints.joints[joints.place(actuator)]}/{name}'
                targets.extend(resolve(path, joints.model))
            if shared and len(targets) > 1:
                label = f'actuator/{{{",".join(drive.actuators)}}}/{name}'
                found.append(Unknown(label, tuple(targets), *usual))
            else:
                found.extend(Unknown(target.path, (target,), *usual) for target in targets)
    return tuple(found)


def start_of(joints: ServoJoints | None, target: Target) -> Coefficient | None:
    """Return start and bounds of a number of a servo's law; None for other targets.

    Raises:
        ParameterError: No servo drives the actuator, or it has no such number.
    """
    if target.role is not Acting.LAW:
        return None
    if joints is None:
        raise no_law(target)
    drive = joints.drive_of(target.name)
    usual = _coefficients(drive, joints)
    if target.attribute not in usual:
        raise ParameterError(
            f'The servo {drive.servo.name!r} of actuator {target.name!r} has no '
            f'{target.attribute!r}; {nearest(target.attribute, usual)}.'
        )
    return usual[target.attribute]


def _coefficients(drive: ServoDrive, joints: ServoJoints) -> dict[str, Coefficient]:
    """Return starts and bounds of the coefficients of a drive, by name."""
    found = {}
    for name, (_, low, high) in drive.servo.coefficients.items():
        if name == 'q_offset':  # of a pendulum, not of a joint of a robot
            continue
        if name in drive.values:
            start = float(drive.values[name])
        elif name == 'armature':
            dof = joints.dofs[joints.place(drive.actuators[0])]
            start = float(joints.model.dof_armature[dof])
        else:
            start = drive.numbers[name]
        found[name] = Coefficient(start, min(low, start), max(high, start))
    return found


def _drive(entry: ServoConfig, model: mujoco.MjModel) -> ServoDrive:
    """Return the servos of an entry, with the coefficients that they start from."""
    known: dict[str, float] = {}
    if entry.params is not None:
        servo, known = read_parameters(entry.params, entry.type)
        # The command delay of the pendulum's logs is not the robot's.
        servo = Servo(servo.type, servo.friction)
        if entry.model is not None and entry.model != servo.friction.name:
            servo = Servo.named(entry.type or servo.type.name, entry.model)
    else:
        assert entry.type is not None  # noqa: S101 (the configuration is complete)
        assert entry.model is not None  # noqa: S101
        servo = Servo.named(entry.type, entry.model)
    started = {n: known.get(n, start) for n, start in starting_values(servo).items()}
    started.pop('q_offset', None)
    names = actuator_names(model)
    actuators: dict[str, None] = {}
    for pattern in entry.actuators:
        matches = [name for name in names if fnmatchcase(name, pattern)]
        if not matches:
            raise ConfigError(
                f'No actuator matches {pattern!r} in servos; {nearest(pattern, names)}.'
            )
        actuators.update(dict.fromkeys(matches))
    return ServoDrive(tuple(actuators), servo, {**started, **entry.values}, entry.constants)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From a configuration and its bags to a `Problem`: what is to be identified, from what.

A model whose actuators get no commands still moves, by gravity and from where it started, and its
parameters bend until that looks like the recording. So a bag is refused before any simulation when
an actuator has no commands although its joint moves, or when no joint follows its position
commands, as with motors that are off.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import mujoco
import numpy as np
from scipy.special import fdtrc

from sysid_ros.alignment import Alignment, align
from sysid_ros.alignment.health import FindingKind, HealthFinding
from sysid_ros.alignment.inspection import column_faults
from sysid_ros.alignment.lag import late_velocities, only, without_late
from sysid_ros.alignment.pairing import imply_actuators, map_columns
from sysid_ros.alignment.pairs import (
    SENSOR_FIELDS,
    Pair,
    PairRole,
    UnmappedKind,
    actuator_names,
    command_quantity,
    model_values,
    scalar_joints,
    topic_columns,
)
from sysid_ros.alignment.pairs import Mapping as Pairing
from sysid_ros.alignment.search import Mechanism
from sysid_ros.alignment.stamps import StampSource
from sysid_ros.alignment.trajectories import NothingLeftError, kept_columns
from sysid_ros.alignment.turns import read_columns
from sysid_ros.bags import BagColumns
from sysid_ros.bags.tables import recordings
from sysid_ros.config.files import load_mapping
from sysid_ros.config.schema import (
    CalibrationConfig,
    CarriedParameter,
    MappingConfig,
    ParameterConfig,
    Role,
    SegmentsConfig,
    ServoConfig,
    StampChoice,
)
from sysid_ros.errors import BagError, ConfigError, FitError, ParameterError, listed, nearest
from sysid_ros.files import beside
from sysid_ros.fit.motion import with_inertial_priors, with_measured_bases
from sysid_ros.fit.noise import arrival_jitter
from sysid_ros.fit.observer import Observer
from sysid_ros.model.elements import driven_joint, position_joint
from sysid_ros.model.inertia import THETA_NAMES
from sysid_ros.model.kinds import Role as Acting
from sysid_ros.model.loading import (
    RobotModel,
    add_actuators,
    compile_spec,
    implied_actuators,
    implied_sentence,
    load_spec,
    read_model,
    takes_efforts,
)
from sysid_ros.model.targets import (
    Scope,
    Target,
    Unknown,
    check_distinct,
    make_unknowns,
    of_sequence,
    resolve,
)
from sysid_ros.signals import Trajectory
from sysid_ros.simulation.servo import Coefficient, Servo, read_parameters
from sysid_ros.simulation.servo_joints import ServoDrive, ServoJoints, starting_values
from sysid_ros.simulation.simulator import no_law
from sysid_ros.vocabulary import SECOND_NS, Quantity, is_command

#: A joint moves from these ranges on, rad (2°) and m: brakes and servos give.
_MOVES_RAD, _MOVES_M = 0.035, 0.005
#: Range of a signal, in percentiles: single wrong values are no motion.
_RANGE = (0.1, 99.9)
#: A joint that moves by less than this part of its command's range does not follow it.
_FOLLOWS = 0.1
#: A joint's next step of this length, s, is predicted from so many of its own steps and as many of
#: its command.
_STEP_S, _LAGS = 0.1, 10
#: A recording that disagrees is left out where so many others agree.
_OTHERS = 3
#: Level of the test whether commands help in that: of 55 motions of joints of a real arm the least
#: sure one has 4e-25.
_LEVEL = 1e-5
#: What is known of the ten numbers of a load, as standard deviations: a factor of 7 in mass and 2.7
#: in size, and a metre. It leads back from bounds, where the logarithm of a size changes nothing.
_LOAD = (1.0,) * len(THETA_NAMES)


#: Bounds of the scale of a current that nobody has guessed: joints have .01 to 100 N·m per A.
UNSCALED = (1e-2, 1e2)


class NotToldError(FitError):
    """A bag holds no commands for an actuator, so that no simulation can explain it."""


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
    """What is to be identified, from what."""

    spec: mujoco.MjSpec  # the nominal model, not compiled
    model: mujoco.MjModel  # the same, compiled
    recordings: tuple[CalibrationBag, ...]  # all bags of the configuration, aligned
    parameters: tuple[Unknown, ...]
    source: RobotModel  # as it was read, with all actuators where some of ``spec`` are off
    servos: ServoJoints | None = None  # the joints that servos drive
    refused: tuple[NotToldError, ...] = ()  # no simulation explains these bags; forces may
    left_out: str = ''  # how many bags are not among these, and why, in a sentence

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known of the model beside its file, and of bags, a sentence each."""
        found = *self.source.description.notes, implied_sentence(self.spec), self.left_out
        return tuple(filter(None, found))

    def sequences(self, role: Role) -> tuple[Trajectory, ...]:
        """Return the sequences of all bags with a role, in the bags' order."""
        return tuple(
            sequence
            for recording in self.recordings
            if recording.role == role
            for sequence in recording.alignment.sequences
        )

    def with_trajectories(self, change: Callable[[Trajectory], Trajectory | None]) -> Problem:
        """Return the problem with every sequence changed, without those that became None."""

        def of(recording: CalibrationBag) -> CalibrationBag:
            sequences = tuple(filter(None, map(change, recording.alignment.sequences)))
            alignment = dataclasses.replace(recording.alignment, sequences=sequences)
            return dataclasses.replace(recording, alignment=alignment)

        return dataclasses.replace(self, recordings=tuple(map(of, self.recordings)))

    def without(self, sequences: Collection[str]) -> Problem:
        """Return the problem without the training bags that these sequences are of.

        What is left says so. All stay where fewer than three others are left for each of them.
        """

        def is_one(recording: CalibrationBag) -> bool:
            names = {sequence.name for sequence in recording.alignment.sequences}
            return recording.role == 'train' and not names.isdisjoint(sequences)

        trained = sum(recording.role == 'train' for recording in self.recordings)
        apart = [recording for recording in self.recordings if is_one(recording)]
        if not apart or _OTHERS * len(apart) > trained - len(apart):
            return self
        findings = tuple(
            HealthFinding(
                recording.alignment.bag,
                recording.alignment.bag,
                FindingKind.DISAGREES,
                1,
                'a fit to all explains it far worse than the others',
            )
            for recording in apart
        )
        first, *others = (recording for recording in self.recordings if recording not in apart)
        alignment = dataclasses.replace(
            first.alignment, health=(*first.alignment.health, *findings)
        )
        first = dataclasses.replace(first, alignment=alignment)
        return dataclasses.replace(self, recordings=(first, *others))


def check_base(model: mujoco.MjModel, mapping: Pairing, base: str) -> None:
    """Refuse a robot on a base that floats, where nothing but its joints is measured.

    Raises:
        FitError: In a simulation the base would fall, whatever held it.
    """
    measured = [pair.name for pair in mapping.pairs if pair.role is PairRole.SENSOR]
    for name in floating_bases(model, measured).values() if base == 'free' else ():
        raise FitError(
            f'Expected a base that is fixed or measured, found that {name!r} floats and nothing '
            'recorded says where it is, so that it falls in a simulation: where the robot hung or '
            'stood fixed, say base: fixed in the configuration; else record the pose, and map it '
            'to sensors framepos and framequat of that body.'
        )


def floating_bases(model: mujoco.MjModel, measured: Collection[str]) -> dict[int, str]:
    """Return the free joints of robots, and their bodies, if only joints of these are measured."""
    kinds = {mujoco.mjtSensor(int(model.sensor(name).type[0])) for name in measured}
    if not kinds <= SENSOR_FIELDS.keys():
        return {}
    roots = model.body_rootid[model.jnt_bodyid].tolist()
    free = np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE).tolist()
    found = {joint: int(model.jnt_bodyid[joint]) for joint in free}
    # A free body without joints is no robot.
    return {joint: model.body(base).name for joint, base in found.items() if roots.count(base) > 1}


def on_fixed_base(spec: mujoco.MjSpec, model: mujoco.MjModel) -> mujoco.MjSpec:
    """Return a copy of a model whose robots stand where the model has them, without free joints.

    What the base carries does not touch it: MuJoCo lets parents and children touch only where the
    parent is fixed to the world.
    """
    copy = spec.copy()
    rows = [body.first_joint() for body in copy.bodies]
    free = {int(model.jnt_bodyid[joint]): joint for joint in floating_bases(model, ())}
    positions = [model.jnt_qposadr[joint] + np.arange(7) for joint in free.values()]
    speeds = [model.jnt_dofadr[joint] + np.arange(6) for joint in free.values()]
    for body, joint in zip(list(copy.bodies), rows, strict=True):
        if body.id in free:
            copy.delete(joint)
            for child in body.bodies:
                if body.name and child.name:
                    copy.add_exclude(bodyname1=body.name, bodyname2=child.name)
    for key in copy.keys if free else ():
        for name, gone in (('qpos', positions), ('qvel', speeds)):
            values = np.array(getattr(key, name))
            if values.size:
                setattr(key, name, np.delete(values, np.concatenate(gone)))
    return copy


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
    """The model of a configuration, and what was read to know what drives it."""

    model: RobotModel  # with actuators, which are implied where the file has none
    bags: dict[Path, BagColumns]  # that were read; each is taken out where it is used


def subject_of(config: CalibrationConfig) -> Subject:
    """Read the model of a configuration; actuators for the commands of a bag may be implied."""
    found = Subject(read_model(config.model, config.package_path), {})
    spec = found.model.spec
    mapping = mapping_of(config)
    if mapping != 'auto':
        add_actuators(spec, mapping.actuators)
    elif takes_efforts(spec):
        path = next(path for path, role in bags_of(config) if role == 'train')
        found.bags[path] = read_columns(path, config.namespace)
        imply_actuators(spec, config.model, found.bags[path])
    return found


def mapping_of(config: CalibrationConfig) -> Literal['auto'] | MappingConfig:
    """Return the mapping of a configuration, read where it is a file."""
    return load_mapping(config.mapping) if isinstance(config.mapping, Path) else config.mapping


def _as_recorded(
    config: CalibrationConfig, spec: mujoco.MjSpec
) -> tuple[mujoco.MjSpec, mujoco.MjModel]:
    """Return a model as the robot was recorded: its base fixed, some of its motors off."""
    model = compile_spec(spec, config.model)
    if config.base == 'fixed':
        spec = on_fixed_base(spec, model)
        model = compile_spec(spec, config.model)
    if config.undriven:
        servos = joints_of(config.servos, model)
        spec = switched_off(spec, model, config.undriven, servos.actuators if servos else ())
        model = compile_spec(spec, config.model)
    return spec, model


def load(
    config: CalibrationConfig,
    observer: Observer,
    look: Callable[[BagColumns, Role, mujoco.MjModel], None] | None = None,
    subject: Subject | None = None,
) -> Problem:
    """Read the model and all bags of a configuration.

    The columns of every bag, its role and the compiled nominal model are shown to ``look``. What
    was read already is the ``subject``; it is read here unless given.
    """
    source, bags_read = subject or subject_of(config)
    spec, model = _as_recorded(config, source.spec)
    early = parameters_of(config, model, spec)
    delays = [(t, p.max_value) for p in early for t in p.targets if t.attribute == 'delay']
    longest = max((most for t, most in delays if t.role is Acting.COMMAND), default=0.0)
    mapping = mapping_of(config)
    bags = bags_of(config)
    _check_segments(config.segments, [path.name for path, _ in bags])
    # Only MJCF can say that a robot has no actuators, and it does not where some are implied.
    described = config.model.suffix in {'.xml', '.mjcf'} and not implied_actuators(spec)
    undriven = ('*',) if described else config.undriven
    read, refused, short = [], [], []
    for path, role in bags:
        observer.stage(f'reading {path}')
        columns = bags_read.pop(path, None) or read_columns(path, config.namespace)
        pairing = without_undriven(map_columns(columns, model, mapping), model)
        check_base(model, pairing, config.base)
        if look is not None:
            look(columns, role, model)
        try:
            alignment = align(
                columns,
                model,
                pairing,
                config.stamps,
                segments=config.segments,
                longest_delay=longest,
            )
        except NothingLeftError as err:
            short.append((role, err))
            continue
        kept = kept_columns(columns, alignment, config.stamps, config.segments)
        faults = column_faults(kept, model, pairing, config.stamps)
        alignment = dataclasses.replace(alignment, health=(*alignment.health, *faults))
        try:
            check_driven(kept, model, pairing, undriven)
        except NotToldError as err:
            # Forces may tell what drove the robot, which is known when the estimator is chosen.
            if config.estimator in ('simulation', 'windows'):
                raise
            refused.append(err)
        del columns, kept  # before the next bag is read
        for item in alignment.health:
            if item.kind is FindingKind.SIMULATED_TIME:
                observer.stage(f'{item.subject}: {item.detail}')
        read.append((path, role, _as_sampled(alignment)))
    if short and not any(role == 'train' for _, role, _ in read):
        raise next((err for role, err in short if role == 'train'), short[0][1])
    delayed = {t.name for t, _ in delays if t.role is Acting.SENSOR}
    late = late_velocities(model, [alignment for *_, alignment in read], delayed)
    recordings = tuple(
        CalibrationBag(
            path,
            role,
            _followed(without_late(_compared(alignment, config), model, late), model, config),
        )
        for path, role, alignment in read
    )
    servos = joints_of(config.servos, model)
    left_out = f'{len(short)} of {len(bags)} bags are left out: {short[0][1]}' if short else ''
    problem = Problem(spec, model, recordings, early, source, servos, tuple(refused), left_out)
    parameters = parameters_of(config, model, spec, problem.sequences('train'))
    return dataclasses.replace(problem, parameters=parameters)


def read_aligned(
    bag: Path,
    model: mujoco.MjModel | Path,
    *,
    mapping: str | Path = 'auto',
    stamps: StampChoice = 'auto',
    segments: SegmentsConfig | None = None,
    namespace: str = '',
    packages: Sequence[Path] = (),
) -> tuple[Alignment, mujoco.MjModel]:
    """Read a bag and align it with a model, as calibration.yaml says it; return both.

    A model that is read from a file gets the actuators that the bag implies.
    """
    chosen: Literal['auto'] | MappingConfig = 'auto'
    if mapping != 'auto':
        chosen = load_mapping(Path(mapping))
    columns = read_columns(bag, namespace)
    if isinstance(model, Path):
        spec = load_spec(model, packages)
        imply_actuators(spec, model, columns, chosen)
        model = compile_spec(spec, model)
    pairing = map_columns(columns, model, chosen)
    return _as_sampled(align(columns, model, pairing, stamps, segments=segments)), model


def _as_sampled(alignment: Alignment) -> Alignment:
    """Let forces be read under the command in force where it is known when commands came."""
    if arrival_jitter(alignment.sequences):
        return alignment
    sequences = (dataclasses.replace(each, sampled=True) for each in alignment.sequences)
    return dataclasses.replace(alignment, sequences=tuple(sequences))


def _is_any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def matched_names(pattern: str, names: Iterable[str], what: str, section: str) -> list[str]:
    """Return the names of things that a pattern in a section of a configuration is of."""
    every = list(names)
    found = [name for name in every if fnmatchcase(name, pattern)]
    if not found:
        hint = nearest(pattern, filter(None, every))
        raise ConfigError(f'No {what} matches {pattern!r} in {section}; {hint}.')
    return found


def _compared(alignment: Alignment, config: CalibrationConfig) -> Alignment:
    """Keep only the sensors of a configuration, names or patterns."""
    sensors = config.sensors
    if sensors is None:
        return alignment
    mapped = {name for s in alignment.sequences for m in s.measurements for name in m.names}
    for sensor in sensors:
        matched_names(
            sensor, sorted(mapped), f'sensor that is mapped in bag {alignment.bag!r}', 'sensors'
        )
    kept = []
    for sequence, begin in zip(alignment.sequences, alignment.begins, strict=True):
        measurements = only(sequence.measurements, lambda name: _is_any(name, sensors))
        if measurements:
            kept.append((dataclasses.replace(sequence, measurements=measurements), begin))
    sequences, begins = zip(*kept, strict=True) if kept else ((), ())
    return dataclasses.replace(alignment, sequences=sequences, begins=begins)


def _followed(alignment: Alignment, model: mujoco.MjModel, config: CalibrationConfig) -> Alignment:
    """Let bases move as they were measured, where a configuration asks for that."""
    if config.base != 'measured':
        return alignment
    bases = floating_bases(model, ())
    sequences = (with_measured_bases(model, each, bases) for each in alignment.sequences)
    return dataclasses.replace(alignment, sequences=tuple(sequences))


def parameters_of(
    config: CalibrationConfig,
    model: mujoco.MjModel,
    spec: mujoco.MjSpec,
    training: Sequence[Trajectory] | None = None,
) -> tuple[Unknown, ...]:
    """Turn the entries of a configuration into unknowns.

    Before the bags are read there are no training sequences, and entries for these are left out.
    """
    found: list[Unknown] = []
    joints = joints_of(config.servos, model)
    scope = Scope(model, spec, training or (), partial(start_of, joints))
    for entry in (*config.parameters, *_effort_scales(config)):
        if training is None and of_sequence(entry.target):
            continue
        made = make_unknowns(
            entry.target,
            scope,
            name=entry.name,
            initial=entry.initial,
            bounds=entry.bounds,
            shared=entry.shared,
            scale=entry.scale,
            prior=None if entry.prior is None else (entry.prior.mean, entry.prior.std),
        )
        if isinstance(entry, CarriedParameter):
            taken = _written(found, model)
            made = tuple(u for u in made if not _written([u], model) <= taken)
        elif config.memory.carry:
            made = with_inertial_priors(made, _LOAD)
        found.extend(made)
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


def _written(unknowns: Iterable[Unknown], model: mujoco.MjModel) -> set[object]:
    """Return the numbers of a model that unknowns decide, or their paths where it has none."""
    targets = [target for unknown in unknowns for target in unknown.targets]
    return {place for t in targets for place in tuple(t.claims(model)) or (t.path,)}


def carried_on(targets: Collection[str], config: CalibrationConfig) -> bool:
    """Whether a file that carries on an earlier result asks for none of these targets itself."""
    own = [e.target for e in config.parameters if not isinstance(e, CarriedParameter)]
    attributes = [target.partition('[')[0] for target in own]
    return not any(_is_any(target.partition('[')[0], attributes) for target in targets)


def _effort_scales(config: CalibrationConfig) -> list[ParameterConfig]:
    """Return an unknown for the scale of each mapped current or PWM that no entry asks for.

    What a current is in N·m depends on the motor and its gear; the mapping's scale is a guess, and
    where it has none nothing is known of it.
    """
    mapping = mapping_of(config)
    if mapping == 'auto':
        return []
    wanted = {
        f'sensor/{name}/gain': None if item.scale != 1 else UNSCALED
        for name, item in mapping.sensors.items()
        if item.kind != 'torque' and (config.sensors is None or _is_any(name, config.sensors))
    }
    asked = [entry.target for entry in config.parameters]
    return [
        ParameterConfig(target=target, bounds=bounds)
        for target, bounds in wanted.items()
        if not _is_any(target, asked)
    ]


def bags_of(config: CalibrationConfig) -> list[tuple[Path, Role]]:
    """Return every bag with its role, patterns expanded in alphabetical order."""
    found: dict[Path, Role] = {}
    for selection in config.bags:
        matches = recordings(selection.path)
        if not matches:
            hint = beside(Path(selection.path))
            raise BagError(f'No bag matches {selection.path!r}; {hint}.')
        for path in matches:
            if found.setdefault(path, selection.role) != selection.role:
                raise ConfigError(
                    f'Bag {str(path)!r} is both training and validation data; choose one role.'
                )
    return list(found.items())


def _check_segments(segments: SegmentsConfig, bags: list[str]) -> None:
    """Check that every name and pattern in ``times`` and ``without`` matches a bag."""
    for key, ranges in (('times', segments.times), ('without', segments.without)):
        for name in ranges if isinstance(ranges, dict) else ():
            matched_names(name, bags, 'bag', f'segments.{key}')


def joints_of(entries: Sequence[ServoConfig], model: mujoco.MjModel) -> ServoJoints | None:
    """Return the joints that the section ``servos`` of a configuration drives, if any."""
    return ServoJoints(model, [_drive(entry, model) for entry in entries]) if entries else None


def servo_unknowns(
    joints: ServoJoints, names: Sequence[str] | None = None, *, shared: bool = False
) -> tuple[Unknown, ...]:
    """Make unknowns of coefficients of servos, all unless named; the armature is the joint's.

    All actuators of a drive share a value, or each has its own.
    """
    usual = [(drive, _coefficients(drive, joints)) for drive in joints.drives]
    known = {name for _, own in usual for name in own}
    for name in names or ():
        if name not in known:
            raise ParameterError(
                f'No servo here has the coefficient {name!r}; {nearest(name, sorted(known))}.'
            )
    found: list[Unknown] = []
    for drive, own in usual:
        owners = [f'actuator/{actuator}' for actuator in drive.actuators]
        driven = [f'joint/{joints.joints[joints.place(each)]}' for each in drive.actuators]
        for name in own:
            if names is not None and name not in names:
                continue
            paths = [f'{owner}/{name}' for owner in (driven if name == 'armature' else owners)]
            targets = [target for path in paths for target in resolve(path, joints.model)]
            if shared and len(targets) > 1:
                label = f'actuator/{{{",".join(drive.actuators)}}}/{name}'
                found.append(Unknown(label, tuple(targets), *own[name]))
            else:
                found.extend(Unknown(target.path, (target,), *own[name]) for target in targets)
    return tuple(found)


def start_of(joints: ServoJoints | None, target: Target) -> Coefficient | None:
    """Return start and bounds of a number of a servo's law; None for other targets."""
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
    """Return starts and bounds of the coefficients of a drive, widened to hold its start."""
    dof = joints.dofs[joints.place(drive.actuators[0])]
    own = {'armature': joints.model.dof_armature[dof], **drive.numbers, **drive.values}
    found = {}
    for name, (_, low, high) in drive.servo.coefficients.items():
        if name != 'q_offset':  # of a pendulum, not of a joint of a robot
            start = float(own[name])
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
    matches = (matched_names(pattern, names, 'actuator', 'servos') for pattern in entry.actuators)
    actuators = tuple(dict.fromkeys(itertools.chain.from_iterable(matches)))
    return ServoDrive(actuators, servo, {**started, **entry.values}, entry.constants)


def switched_off(
    spec: mujoco.MjSpec,
    model: mujoco.MjModel,
    patterns: Sequence[str],
    servos: Sequence[str] = (),
) -> mujoco.MjSpec:
    """Return a copy of a model in which actuators are in a group that is off: they exert nothing.

    The patterns are of actuators, or of joints without one. Those in ``servos`` cannot be off.
    """
    names = [*actuator_names(model), *scalar_joints(model)]
    for pattern in patterns:
        for name in matched_names(pattern, names, 'actuator of the model', 'undriven'):
            if name in servos:
                raise ConfigError(f'Actuator {name!r} is in servos and in undriven; choose one.')
    used = set(model.actuator_group.tolist())
    off = next(group for group in itertools.count() if group not in used)
    copy = spec.copy()
    copy.option.disableactuator |= 1 << off
    for actuator in copy.actuators:
        if _is_any(actuator.name, patterns):
            actuator.group = off
    return copy


def _off(model: mujoco.MjModel, actuator: int) -> bool:
    group = int(model.actuator_group[actuator])
    return group >= 0 and bool(int(model.opt.disableactuator) >> group & 1)


def without_undriven(mapping: Pairing, model: mujoco.MjModel) -> Pairing:
    """Return a mapping without commands for actuators that are off, and without complaints."""
    off = {name for actuator, name in enumerate(actuator_names(model)) if _off(model, actuator)}
    return Pairing(
        tuple(p for p in mapping.pairs if p.role is not PairRole.ACTUATOR or p.name not in off),
        mapping.unmapped,
        tuple(
            h for h in mapping.health if h.kind is not FindingKind.UNMAPPED or h.subject not in off
        ),
    )


def check_driven(
    bag: BagColumns, model: mujoco.MjModel, mapping: Pairing, undriven: Sequence[str] = ('*',)
) -> None:
    """Refuse a bag that does not say what drove the robot; actuators that are off need no commands.

    Joints that match ``undriven`` are known to have no actuator: all of them where the model says
    so itself, which a URDF cannot.

    Raises:
        NotToldError: An actuator has no commands although its joint moves, or none has any and no
            other joint is known to swing alone.
        FitError: No joint follows its commands.
    """
    positions = {
        joint: pair
        for pair in mapping.pairs
        if pair.role is PairRole.SENSOR and (joint := position_joint(model, pair.name)) >= 0
    }
    motions = {joint: _extent(bag, pair) for joint, pair in positions.items()}
    moving = {joint for joint, extent in motions.items() if moves(model, joint, extent)}
    commands = {pair.name: pair for pair in mapping.pairs if pair.role is PairRole.ACTUATOR}
    names = actuator_names(model)
    joints = [driven_joint(model, actuator) for actuator in range(model.nactuator)]
    driven = {joint for joint, name in zip(joints, names, strict=True) if name in commands} - {-1}
    silent = {
        name or f'(unnamed {actuator})': joints[actuator]
        for actuator, name in enumerate(names)
        if name not in commands and joints[actuator] not in driven and not _off(model, actuator)
    }
    silent |= {
        name: joint
        for name, joint in scalar_joints(model).items()
        if joint in motions and joint not in joints and not _is_any(name, undriven)
    }
    refused = {name: joint for name, joint in silent.items() if joint in moving}
    if not commands:
        # Other joints may swing by themselves, while those with an actuator are known to rest.
        swings = moving and set(silent.values()) <= motions.keys()
        refused = silent if refused or not swings else {}
    if refused:
        raise NotToldError(_no_commands(bag, model, mapping, refused, motions))
    _check_followed(bag, model, commands, positions)


def _extent(bag: BagColumns, pair: Pair) -> float:
    """Return how far the values of a column are apart; 0 where there are none."""
    values = model_values(bag, pair)
    known = values[np.isfinite(values)]
    return float(np.subtract(*np.percentile(known, _RANGE[::-1]))) if len(known) else 0.0


def moves(model: mujoco.MjModel, joint: int, extent: float) -> bool:
    """Whether a joint moves, by the range of its positions, rad or m."""
    return extent > (_MOVES_RAD if _unit(model, joint) == 'rad' else _MOVES_M)


def _unit(model: mujoco.MjModel, joint: int) -> str:
    return 'rad' if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE else 'm'


def _no_commands(
    bag: BagColumns,
    model: mujoco.MjModel,
    mapping: Pairing,
    silent: Mapping[str, int],
    motions: Mapping[int, float],
) -> str:
    """Say which actuators have no commands, and what to do."""
    most = max(silent.values(), key=lambda joint: motions.get(joint, 0.0))
    motion = ''
    if motions.get(most, 0.0) > 0:
        whose = 'whose joint moves by' if len(silent) == 1 else 'whose joints move by up to'
        motion = f', {whose} {motions[most]:.2g} {_unit(model, most)}'
    # Another column of a joint that has commands is no command of a joint that has none.
    known = tuple(f'[{pair.label}]' for pair in mapping.pairs if pair.role is PairRole.ACTUATOR)
    unused = (
        f' ({item.name} is not used: {item.reason})'
        for item in mapping.unmapped
        if is_command(item.name)
        and item.kind in (UnmappedKind.TOPIC, UnmappedKind.COLUMN)
        and not (item.kind is UnmappedKind.COLUMN and item.name.endswith(known))
    )
    motors = any(command_quantity(model, a) is Quantity.EFFORT for a in range(model.nactuator))
    by_efforts = ', or let measured efforts drive the motors by the mapping' if motors else ''
    off = "'*'" if len(silent) >= model.nactuator else ', '.join(silent)
    return (
        f'Expected commands for every actuator in bag {bag.path.name!r}, found none for '
        f'{listed(silent)}{motion}{next(unused, "")}: record them or map them, as '
        f'`sysid map BAG MODEL` proposes{by_efforts}; if the motors were off, say '
        f'undriven: [{off}] in the configuration.'
    )


def _check_followed(
    bag: BagColumns,
    model: mujoco.MjModel,
    commands: Mapping[str, Pair],
    positions: Mapping[int, Pair],
) -> None:
    """Refuse a bag with position commands that no joint follows."""
    still = []
    for joint in Mechanism(model).joints:
        drive, position = joint.drive, positions.get(joint.id)
        if drive is None or not drive.known or drive.commanded is not Quantity.POSITION:
            continue
        command = commands.get(drive.name)
        if command is None or position is None:
            continue
        asked = _extent(bag, command) / abs(drive.slope)
        if not moves(model, joint.id, asked):
            continue
        moved = _extent(bag, position)
        if moved > _FOLLOWS * asked and _follows(bag, command, position):
            return
        unit = _unit(model, joint.id)
        still.append(
            f'{joint.name} is told to move by {asked:.2g} {unit}, and moves by {moved:.2g}'
        )
    if still:
        raise FitError(
            f'No joint follows its commands in bag {bag.path.name!r}, {"; ".join(still[:2])}: '
            'record with the motors on, correct the mapping as `sysid map BAG MODEL` proposes, or '
            "say undriven: ['*'] in the configuration if the motors were off."
        )


def _follows(bag: BagColumns, command: Pair, position: Pair) -> bool:
    """Return whether commands help to predict where a joint goes next, from where it was.

    Whatever moves slowly is like any other slow motion at some lag, so that correlations say
    little. The F-test of the commands' part in a linear prediction decides (Granger, Econometrica
    37(3), 1969); of recordings that are too short for it joints follow.
    """
    sides = []
    for pair in (command, position):
        values = model_values(bag, pair)
        known = np.isfinite(values)
        sides.append((topic_columns(bag, pair.topic).receive_ns[known], values[known]))
    start = max(times[0] for times, _ in sides)
    grid = np.arange(start, min(times[-1] for times, _ in sides), int(_STEP_S * SECOND_NS))
    places = [np.maximum(np.searchsorted(times, grid, side='right') - 1, 0) for times, _ in sides]
    # Between runs of one recording a joint may be anywhere.
    stamps = sides[1][0]
    longest = max(_STEP_S * SECOND_NS, 4 * float(np.median(np.diff(stamps))))
    away = grid - stamps[places[1]] > longest
    told, went = (values[place] for (_, values), place in zip(sides, places, strict=True))
    rows = np.arange(_LAGS + 1, len(grid))
    rows = rows[[not away[row - _LAGS - 1 : row + 1].any() for row in rows]]
    freedom = len(rows) - 2 * (_LAGS + 1)
    if freedom < len(rows) / 2 or not np.ptp(told):
        return True
    if not np.ptp(went):
        return False
    told, went = ((side - side.mean()) / side.std() for side in (told, went))
    moved = np.diff(went, prepend=went[0])
    own = [np.ones(len(rows)), went[rows - 1], *(moved[rows - k] for k in range(1, _LAGS + 1))]
    asked = [told[rows - k] for k in range(_LAGS)]
    left = []
    for columns in (own, own + asked):
        table = np.column_stack(columns)
        rest = moved[rows] - table @ np.linalg.lstsq(table, moved[rows])[0]
        left.append(float(rest @ rest))
    if not left[1] > 0:
        return True
    return bool(fdtrc(_LAGS, freedom, (left[0] / left[1] - 1) * freedom / _LAGS) < _LEVEL)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A calibration for recordings and a model: roles, mapping, and what these recordings can tell.

What is proposed is tried: the first steps of a fit are taken, as ``preflight`` does, and what the
recordings cannot tell is left out with the reason. See `proposal_text` for the file.
"""

from __future__ import annotations

import dataclasses
import glob
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np

from sysid_ros.alignment.health import FindingKind, aggregated, dead_columns
from sysid_ros.alignment.mapping.arms import in_namespace
from sysid_ros.alignment.mapping.axes import EffortKind
from sysid_ros.alignment.mapping.names import similarities
from sysid_ros.alignment.mapping.pairing import map_columns
from sysid_ros.alignment.mapping.proposal import (
    Proposal,
    ProposedPair,
    imply_actuators,
    mapping_of,
    propose_with_actuators,
)
from sysid_ros.alignment.pairs import PairRole, column_name
from sysid_ros.bags import BagColumns, read_bag
from sysid_ros.bags.storage import CSV, METADATA, natural_order, suffix
from sysid_ros.bags.tables import table_files
from sysid_ros.config import CalibrationConfig
from sysid_ros.config.calibration import Role, VerdictKind
from sysid_ros.errors import AlignmentError, BagError, ConfigError, ParameterError, SysidError, some
from sysid_ros.estimation.noise import estimate_noise
from sysid_ros.estimation.regression import servo_gains
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.files import matching
from sysid_ros.identification.fit import Fit
from sysid_ros.identification.observer import Observer
from sysid_ros.inference.verdicts import widest
from sysid_ros.inspection.inspection import Inspection, JointReport, inspect
from sysid_ros.model.implied import (
    add_actuators,
    free_joints,
    implied_actuators,
    implied_sensors,
)
from sysid_ros.model.loading import compile_spec, read_model
from sysid_ros.model.targets import resolve
from sysid_ros.model.unknown import Unknown
from sysid_ros.pipeline.estimators import estimated
from sysid_ros.pipeline.loading import Problem, falling_base, load
from sysid_ros.pipeline.preflight import PredictedParameter, Preflight, predicted
from sysid_ros.pipeline.timestep import with_timestep
from sysid_ros.rollout.prediction import make_simulator

#: Words in the name of a recording by which it is held out.
_HELD_OUT = re.compile(r'(?<![a-z])(valid\w*|val|test|held|holdout|heldout|eval\w*)(?![a-z])')
#: Without such a name one recording of so many is held out, ...
_ONE_OF = 5
#: ... the last, but not the longest, that lasts this part of what they last in the median.
_SENSIBLE = 0.25
#: A joint moves from this range on, rad or m.
_MOVES = 5e-3
#: The mapping is looked for in so many recordings.
_LOOKED_AT = 3
#: So many findings of a recording are told, and so many joints named.
_TOLD, _NAMED = 4, 6
#: What is proposed is tried so often, on so many seconds in all, and not for longer, s, each time.
_ROUNDS = 4
_TRIED_S = 90.0
_LONGEST_S = 120.0
#: A hinge may have this much rotor inertia whatever its model says, kg·m²; a slide as many kg.
_ARMATURE = 0.2
#: A servo's stiffness is another one where forces show one that differs by this factor.
_OTHER_GAINS = 1.15
#: A servo follows faster than that, Hz, and is damped to come after its command by less, s.
_SLOWEST, _LATEST = 2.0, 0.1
#: Bounds are so many times the model's own number, or inertia.
_TIMES = 10.0
#: Gains of shipped models may be far too large: they are made for following well. These parts of
#: them are tried, with these parts of the delay of the motion; a servo that is softer lags, too.
_SOFTER, _DELAYS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003), (0.0, 0.5, 1.0)
#: A part is begun at where errors are below this part of those with all of the gains.
_FAR_BETTER = 0.8
#: Recordings are long where a derivative takes so many steps of the simulation: half a minute.
_MANY_STEPS = 3e6
#: Part of the greatest force of a joint that its dry friction may be.
_FRICTION = 0.2
#: Commands are at most so late where nothing is measured of it, s, and at the very most.
_DELAY, _LONGEST_DELAY = 0.05, 0.5
#: What gets a prior first where the recordings cannot tell parameters apart: of a servo that no
#: weight loads only ratios to its stiffness, which its controller sets. A mass gets none: a payload
#: may be anything.
_RANKS = ('kp', 'kv', 'mass_scaled', 'armature', 'damping', 'frictionloss', 'delay')
#: What recordings cannot tell apart is known from the model so well: a standard deviation in units
#: of its value. Gains are set by somebody; the rest of a drive is hardly ever known.
_BELIEVED, _GUESSED = 0.3, 1.0
_BELIEF = (
    "The model's value is believed to {:.0f} % (prior): say how well you know it, or hold it (#)."
)
#: Why gains are left out that measured forces do not contradict.
_TRUSTED = "the model's own gains are taken as they are; drop the # where they are guesses"
#: What is wrong with every recording is not said of each.
_USUAL = frozenset({FindingKind.UNMAPPED, FindingKind.BEFORE_FIRST_COMMAND})
_MODEL_ENDS = frozenset({'.xml', '.mjcf', '.urdf', '.xacro'})


class ProposedBag(NamedTuple):
    """A recording and what it is for.

    Attributes:
        path: Folder or file.
        role: What it is for; None where it cannot be used.
        why: Why it has this role.
        seconds: How long it is.
        moving: Joints of the model that move in it.
        commanded: So many of its joints have commands.
        lag: By which positions follow commands, in the median of the joints, s; NaN if unknown.
        findings: What is wrong with it, a sentence each.
    """

    path: Path
    role: Role | None
    why: str
    seconds: float = 0.0
    moving: tuple[str, ...] = ()
    commanded: int = 0
    lag: float = math.nan
    findings: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProposedTarget:
    """What may be identified.

    Attributes:
        target: Of one element, or the pattern of all.
        bounds: In the target's unit.
        name: In the result; empty for the target.
        shared: Whether the pattern has one value.
        elements: So many the pattern of all elements means; 0 where not all are proposed.
        left_out: Why it is not identified, in a few words; empty where it is.
        note: What the first steps of a fit say of it; empty where it is simply identified.
        initial: Where it begins; None for the model's own value.
        deviation: Standard deviation of what is known of it before the fit; None for nothing.
    """

    target: str
    bounds: tuple[float, float]
    name: str = ''
    shared: bool = False
    elements: int = 0
    left_out: str = ''
    note: str = ''
    initial: float | None = None
    deviation: float | None = None

    @property
    def attribute(self) -> str:
        """What of the element it is."""
        return self.target.rsplit('/', 1)[-1]

    @property
    def pattern(self) -> str:
        """The same of all elements."""
        return f'{self.target.partition("/")[0]}/*/{self.attribute}'

    @property
    def entry(self) -> dict[str, Any]:
        """The entry of ``parameters``."""
        found: dict[str, Any] = {'name': self.name} if self.name else {}
        found |= {'target': self.target, 'bounds': list(self.bounds)}
        found |= {'shared': True} if self.shared else {}
        found |= {} if self.initial is None else {'initial': self.initial}
        found |= {} if self.deviation is None else {'prior': {'std': self.deviation}}
        return found


@dataclass(frozen=True)
class CalibrationProposal:
    """What ``sysid init`` writes.

    Attributes:
        model: MJCF, URDF or xacro; a recording where its ``robot_description`` is the model.
        model_notes: What a reader has to know of the model, a sentence each.
        bags: All recordings, with those that cannot be used.
        mapping: What a mapping file holds; None where names agree.
        estimator: ``auto``, or what these recordings need.
        targets: What is identified, and what could be.
        notes: What a reader has to know of the recordings and of the first steps, a sentence each.
        packages: Folders of ROS packages that the model refers to.
        namespace: Of several arms in a recording this one.
        problem: Why nothing could be tried; empty where it was.
        hurried: Whether the recordings are so long that time is limited.
        sensors: Those that are compared; empty for all that are mapped.
        question: What nobody but the user knows of the mapping; empty where there is none.
    """

    model: Path
    model_notes: tuple[str, ...]
    bags: tuple[ProposedBag, ...]
    mapping: Proposal | None
    estimator: str
    targets: tuple[ProposedTarget, ...]
    notes: tuple[str, ...]
    packages: tuple[Path, ...] = ()
    namespace: str = ''
    problem: str = ''
    hurried: bool = False
    sensors: tuple[str, ...] = ()
    question: str = ''

    @property
    def chosen(self) -> tuple[ProposedTarget, ...]:
        """What is identified."""
        return tuple(item for item in self.targets if not item.left_out)

    @property
    def guessed(self) -> tuple[ProposedPair, ...]:
        """Pairs of sensors that are used although nothing in their names is alike."""
        pairs = self.mapping.pairs if self.mapping else ()
        return tuple(
            pair
            for pair in pairs
            if pair.confident
            and pair.role is PairRole.SENSOR
            and not similarities(pair.labels, [pair.name]).any()
        )

    @property
    def solver(self) -> dict[str, Any]:
        """The section ``solver``."""
        return {'time': _LONGEST_S} if self.hurried else {}

    def of_role(self, role: Role) -> tuple[ProposedBag, ...]:
        """Return the recordings with a role."""
        return tuple(bag for bag in self.bags if bag.role == role)


class InitOptions(NamedTuple):
    """What a caller knows beside recordings and model."""

    packages: tuple[Path, ...] = ()
    namespace: str = ''


def sort_arguments(paths: Sequence[str]) -> tuple[list[Path], Path | None]:
    """Tell the model from the recordings; None where its description is in one of them.

    Raises:
        ConfigError: There are several models or no recording.
        BagError: A pattern matches nothing.
    """
    models = [path for path in paths if Path(path).suffix.lower() in _MODEL_ENDS]
    if len(models) > 1:
        raise ConfigError(f'Expected one model beside the recordings, found {", ".join(models)}.')
    bags = [bag for path in paths if path not in models for bag in find_bags(path)]
    if not bags:
        raise ConfigError(
            f'Expected recordings beside {models[0]!r}, as sysid init BAG… MODEL, found none.'
        )
    return list(dict.fromkeys(bags)), Path(models[0]) if models else None


def find_bags(pattern: str) -> list[Path]:
    """Return the recordings that a path or a pattern means: itself, or those in a folder.

    Raises:
        BagError: There is none.
    """
    found = []
    for match in matching(pattern):
        path = Path(match)
        if path.is_dir() and not _is_bag(path):
            inside = sorted((item for item in path.iterdir() if _is_bag(item)), key=natural_order)
            if not inside:
                raise BagError(f'Expected recordings in the folder {match!r}, found none.')
            found += inside
        else:
            found.append(path)
    if not found:
        raise BagError(f'No recording matches {pattern!r}.')
    return found


def _is_bag(path: Path) -> bool:
    if path.is_file():
        return bool(suffix(path) or table_files(path))
    if (path / METADATA).exists() or any(suffix(item) for item in path.iterdir()):
        return True
    return (path / 'meta/info.json').exists() or _in_several_files(table_files(path))


def _in_several_files(tables: Sequence[Path]) -> bool:
    """Whether tables are parts of one recording: those with equal columns are recordings each."""
    if len(tables) < 2 or any(path.suffix != CSV for path in tables):  # noqa: PLR2004 (two parts)
        return False
    headings = set()
    for path in tables:
        with path.open('rb') as stream:
            headings.add(stream.readline())
    return len(headings) > 1


def propose_calibration(
    paths: Sequence[Path], model: Path | None, options: InitOptions, observer: Observer
) -> CalibrationProposal:
    """Propose a calibration of a model from recordings.

    Args:
        paths: Recordings.
        model: MJCF, URDF or xacro; None for the ``robot_description`` in the first recording.
        options: What else is known.
        observer: Is told of what is looked at.

    Raises:
        SysidError: No recording can be read, or nothing in one belongs to the model.
    """
    columns, unread = _read(paths, options.namespace, observer)
    model = model or next(iter(columns))
    roles = roles_of(list(columns), [_seconds(bag) for bag in columns.values()])
    training = [bag for path, bag in columns.items() if roles[path][0] == 'train']
    source = read_model(model, options.packages)
    observer.stage('looking for the joints of the model')
    mapping = _mapping(model, options, training)
    spec = source.spec
    asked: Any = 'auto' if mapping is None else mapping_of(mapping)
    if mapping is None:
        imply_actuators(spec, model, training[0])
    else:
        add_actuators(spec, asked.actuators)
    compiled = compile_spec(spec, model)
    looked = [_looked_at(bag, compiled, asked, *roles[path]) for path, bag in columns.items()]
    bags = (*(bag for bag, _ in looked), *unread)
    reports = [found for bag, found in looked if bag.role == 'train' and found is not None]
    measured = _sensors(reports)
    falls = falling_base(compiled, measured)
    del columns, training
    proposal = CalibrationProposal(
        model,
        (*_about(source.description.notes, spec), *filter(None, [falls])),
        bags,
        mapping,
        'auto',
        _targets(spec, compiled, bags, reports),
        tuple(_about_joints(spec, bags)),
        options.packages,
        options.namespace,
    )
    steps = sum(bag.seconds for bag in proposal.of_role('train')) / compiled.opt.timestep
    hurried = steps * (1 + len(proposal.chosen)) > _MANY_STEPS
    sensors = () if _tell_efforts(reports) else _positions(compiled, measured)
    question = question_of(mapping, reports)
    return _tried(
        dataclasses.replace(proposal, hurried=hurried, sensors=sensors, question=question), observer
    )


def _read(
    paths: Sequence[Path], namespace: str, observer: Observer
) -> tuple[dict[Path, BagColumns], list[ProposedBag]]:
    """Read recordings; of several those that cannot be read are told.

    Raises:
        BagError: None can be read.
    """
    found, unread = {}, []
    for path in paths:
        observer.stage(f'reading {path}')
        try:
            found[path] = in_namespace(read_bag(path), namespace)
        except BagError as err:
            if len(paths) == 1:
                raise
            unread.append(ProposedBag(path, None, str(err)))
    if not found:
        raise BagError(unread[0].why)
    return found, unread


def _seconds(bag: BagColumns) -> float:
    stamps = [topic.receive_ns for topic in bag.topics if len(topic.receive_ns)]
    if not stamps:
        return 0.0
    return float(max(s.max() for s in stamps) - min(s.min() for s in stamps)) / 1e9


def roles_of(paths: Sequence[Path], seconds: Sequence[float]) -> dict[Path, tuple[Role, str]]:
    """Return what each recording is for, and why.

    Args:
        paths: Recordings, in order.
        seconds: How long each is.
    """
    named = [bool(_HELD_OUT.search(path.name.lower())) for path in paths]
    if any(named) and not all(named):
        return {
            path: ('validate', 'by its name') if held else ('train', '')
            for path, held in zip(paths, named, strict=True)
        }
    usual = _SENSIBLE * float(np.median(seconds))
    longest = int(np.argmax(seconds))
    others = [
        path
        for row, (path, own) in enumerate(zip(paths, seconds, strict=True))
        if row != longest and own >= usual
    ]
    held_out = others[-max(1, len(paths) // _ONE_OF) :]
    return {
        path: ('validate', 'held out because it is the last') if path in held_out else ('train', '')
        for path in paths
    }


def _mapping(model: Path, options: InitOptions, training: Sequence[BagColumns]) -> Proposal | None:
    """Return the mapping that the recordings need, or None where names agree.

    Raises:
        AlignmentError: Nothing in the recordings belongs to the model.
    """
    proposals = []
    problem: AlignmentError | None = None
    for bag in training[:_LOOKED_AT]:
        spec = read_model(model, options.packages).spec
        try:
            proposals.append((bag, propose_with_actuators(spec, model, bag)))
        except AlignmentError as err:
            problem = problem or err
    if problem is not None and not proposals:
        raise problem
    # A joint that stands still in one recording may move in another.
    bag, best = max(proposals, key=lambda item: sum(pair.confident for pair in item[1].pairs))
    best = _alive(best, bag)
    spec = read_model(model, options.packages).spec
    try:
        imply_actuators(spec, model, bag)
        named = map_columns(bag, compile_spec(spec, model), 'auto').pairs
    except AlignmentError as err:
        if not mapping_of(best).sensors:
            raise AlignmentError(
                f'Nothing in {bag.path.name!r} is a joint of the model {model.name!r} '
                f'({some(joint.name for joint in spec.joints)}); name the right model, or write '
                'what belongs together after the proposal of `sysid map BAG MODEL`.'
            ) from err
        return best
    known = {(pair.role, pair.name, pair.topic, pair.field, pair.label) for pair in named}
    for pair in best.pairs:
        plain = len(pair.labels) == 1 and (pair.scale, pair.offset) == (1.0, 0.0)
        same = (pair.role, pair.name, pair.topic, pair.field, pair.labels[0]) in known
        if pair.confident and not (plain and same):
            return best
    return None


def _alive(proposal: Proposal, bag: BagColumns) -> Proposal:
    """Return a mapping without sensors whose columns never change: they say nothing."""
    dead = {
        (topic.topic, field.name, label)
        for topic in bag.topics
        for field, label in dead_columns(topic)
    }
    pairs = tuple(
        pair
        for pair in proposal.pairs
        if pair.role is not PairRole.SENSOR
        or not {(pair.topic, pair.field, label) for label in pair.labels} <= dead
    )
    return dataclasses.replace(proposal, pairs=pairs)


def _looked_at(
    bag: BagColumns, model: mujoco.MjModel, mapping: Any, role: Role, why: str
) -> tuple[ProposedBag, Inspection | None]:
    """Say what is in a recording; one that lacks what is mapped cannot be used."""
    try:
        found = inspect(bag, model, mapping=mapping)
    except AlignmentError as err:
        return ProposedBag(bag.path, None, str(err)), None
    if found.mapping is not None and found.mapping.problem:
        return ProposedBag(bag.path, None, found.mapping.problem), None
    lags = [joint.lag.seconds for joint in found.joints if joint.lag is not None]
    findings = list(_findings(found))
    if len(findings) > _TOLD:
        more = len(findings) - _TOLD
        findings[_TOLD:] = [f'{more} more: `sysid inspect {bag.path}` tells them']
    return (
        ProposedBag(
            bag.path,
            role,
            why,
            found.bag.duration,
            tuple(joint.name for joint in found.joints if _moves(joint)),
            sum(bool(joint.command) for joint in found.joints),
            float(np.median(lags)) if lags else math.nan,
            tuple(findings),
        ),
        found,
    )


def _findings(found: Inspection) -> Iterator[str]:
    """Yield what is wrong with what is used of a recording, a sentence for each kind."""
    pairs = found.mapping.pairs if found.mapping else ()
    used = {column_name(pair.topic, pair.field, pair.label) for pair in pairs}
    columns = {item.channel for item in found.channels}
    for group in aggregated(
        item
        for item in found.findings
        if item.kind not in _USUAL
        and (item.left_out or item.subject not in columns or item.subject in used)
    ):
        yield f'{group.kind.grade}: {group.kind}: {group.text(bags=False)}'


def question_of(mapping: Proposal | None, reports: Sequence[Inspection]) -> str:
    """Ask for the unit of efforts that are no torques."""
    lines = '`sysid map BAG MODEL -o mapping.yaml` writes lines for them'
    columns = [
        item.subject
        for found in reports
        for item in found.findings
        if item.kind is FindingKind.NO_TORQUE
    ]
    if mapping is not None:
        columns = [
            column_name(pair.topic, pair.field, pair.labels[0])
            for pair in mapping.pairs
            if pair.kind in {EffortKind.CURRENT, EffortKind.PWM} and not pair.confident
        ]
        lines = 'the mapping has lines for them, which are commented out'
    if not columns:
        return ''
    return (
        f'How many N·m (N) is a unit of {some(dict.fromkeys(columns), _NAMED)}? They are no '
        f'torques of this model, and no efforts of their message are compared: {lines}, where that '
        'is the scale.'
    )


def _sensors(reports: Sequence[Inspection]) -> set[str]:
    """Return the sensors of the model that something was measured of."""
    return {
        pair.name
        for found in reports
        for pair in (found.mapping.pairs if found.mapping else ())
        if pair.role is PairRole.SENSOR
    }


def _positions(model: mujoco.MjModel, measured: Collection[str]) -> tuple[str, ...]:
    """Return sensors other than of velocities; none where there are no such or no others."""
    velocity = model.sensor_type == mujoco.mjtSensor.mjSENS_JOINTVEL
    names = [model.sensor(row).name for row in range(model.nsensor)]
    kinds = {name: bool(own) for name, own in zip(names, velocity, strict=True) if name in measured}
    return tuple(name for name, own in kinds.items() if not own) if any(kinds.values()) else ()


def _tell_efforts(reports: Sequence[Inspection]) -> bool:
    return any(joint.effort for found in reports for joint in found.joints)


def _moves(joint: JointReport) -> bool:
    return joint.high - joint.low > _MOVES


def _about(notes: Iterable[str], spec: mujoco.MjSpec) -> tuple[str, ...]:
    """Say what of the model is not in its file."""
    found = list(notes)
    if implied_sensors(spec):
        found.append(
            'It has no sensors of its joints: position, velocity and effort of each are implied.'
        )
    guessed = implied_actuators(spec)
    if guessed:
        found.append(
            f'It has no actuators that take these commands: {", ".join(guessed)} are implied, '
            'with gains that are guesses.'
        )
    return tuple(found)


def _about_joints(spec: mujoco.MjSpec, bags: Sequence[ProposedBag]) -> Iterable[str]:
    """Say which joints these recordings say nothing of."""
    moving = {name for bag in bags if bag.role == 'train' for name in bag.moving}
    joints = free_joints(spec)
    still = [name for name in joints if name not in moving]
    if still and moving:
        yield (
            f'{len(still)} of the {len(joints)} joints of the model never move in the training '
            f'recordings, so nothing of them is identified ({some(still, _NAMED)}): is an encoder '
            'silent, or is this the model of another robot?'
        )


def _targets(
    spec: mujoco.MjSpec,
    model: mujoco.MjModel,
    bags: Sequence[ProposedBag],
    reports: Sequence[Inspection],
) -> tuple[ProposedTarget, ...]:
    """Return what may be identified of the joints that move, most important first."""
    moving = {name for bag in bags if bag.role == 'train' for name in bag.moving}
    joints = [name for name in free_joints(spec) if name in moving]
    told = _tell_efforts(reports)
    dofs = [int(model.joint(name).dofadr[0]) for name in joints]
    if not joints:
        return ()
    gains = [_gains(model, name) for name in joints]
    commanded = {joint.name for found in reports for joint in found.joints if joint.command}
    # A servo whose gains are guesses may be as stiff as the stiffest of them may be.
    guessed = implied_actuators(spec)
    stiffest = _TIMES * max((kp for name, kp, _ in gains if name in guessed), default=0.0)
    servos = [(name, stiffest if name in guessed else kp, kv) for name, kp, kv in gains]
    limits = most_of(model, dofs, servos)
    # Without efforts only the sum of both is told: the larger one can make up for the other.
    by_servo = {
        name: actuator
        for name, dof, (actuator, _, kv) in zip(joints, dofs, gains, strict=True)
        if not told and actuator not in guessed and kv > float(model.dof_damping[dof])
        if name in commanded
    }
    found = [
        ProposedTarget(
            f'joint/{name}/{attribute}',
            (0.0, _rounded_up(limit)),
            left_out="cannot be told from the servo's kv without efforts"
            if attribute == 'damping' and name in by_servo
            else '',
        )
        for attribute, each in limits.items()
        for name, limit in zip(joints, each, strict=True)
    ]
    gains = [gain for name, gain in zip(joints, gains, strict=True) if name in commanded]
    for attribute, place in (('kp', 1), ('kv', 2)):
        values = {gain[0]: float(gain[place]) for gain in gains if gain[place]}
        trusted = () if attribute == 'kp' else set(values) - set(by_servo.values())
        found += _of_servos(attribute, values, guessed, told=told, trusted=trusted)
    if any(bag.commanded for bag in bags) and model.nactuator:
        lags = [bag.lag for bag in bags if not math.isnan(bag.lag)]
        latest = min(max(_DELAY, *(1.5 * lag for lag in lags), 0.0), _LONGEST_DELAY)
        found.append(
            ProposedTarget(
                'actuator/*/delay', (0.0, _rounded_up(latest)), name='command_delay', shared=True
            )
        )
    for tool in last_bodies(model, joints):
        mass = float(model.body(tool).mass[0])
        bounds = _two_digits(0.1 * mass), _two_digits(_TIMES * mass)
        # What is heavier than believed has a larger inertia, too.
        found.append(ProposedTarget(f'body/{tool}/mass_scaled', bounds))
    return tuple(_with_patterns(found, spec, model))


def most_of(
    model: mujoco.MjModel, dofs: Sequence[int], gains: Sequence[tuple[str, float, float]]
) -> dict[str, list[float]]:
    """Return attribute to the most of it that each joint may have, by its servo and the model."""
    forces, inertia = _forces(model), _inertia(model)
    found: dict[str, list[float]] = {'armature': [], 'damping': [], 'frictionloss': []}
    for dof, (_, kp, kv) in zip(dofs, gains, strict=True):
        damping, friction = float(model.dof_damping[dof]), float(model.dof_frictionloss[dof])
        found['armature'].append(
            max(_TIMES * inertia[dof], _ARMATURE, kp / (2 * math.pi * _SLOWEST) ** 2)
        )
        found['damping'].append(max(_TIMES * damping, 1.0, 2 * kv, _LATEST * kp))
        found['frictionloss'].append(max(_FRICTION * forces[dof], _TIMES * friction, 0.1))
    return found


def _with_patterns(
    found: list[ProposedTarget], spec: mujoco.MjSpec, model: mujoco.MjModel
) -> Iterator[ProposedTarget]:
    """Mark those that a pattern of all elements stands for."""
    named: dict[str, set[str]] = {}
    for item in found:
        named.setdefault(item.pattern, set()).add(item.target)
    for item in found:
        try:
            every = {target.path for target in resolve(item.pattern, model, (), spec)}
        except ParameterError:
            every = set()
        whole = every == named[item.pattern]
        yield dataclasses.replace(item, elements=len(every) if whole else 0)


def _two_digits(value: float) -> float:
    return float(f'{value:.2g}')


def _of_servos(
    attribute: str,
    values: dict[str, float],
    guessed: Sequence[str],
    *,
    told: bool,
    trusted: Collection[str],
) -> Iterator[ProposedTarget]:
    """Yield a gain of servos; one of the model's own is trusted where efforts tell the rest."""
    for actuator in values:
        why = ''
        if actuator not in guessed and told:
            why = _TRUSTED
        elif actuator not in guessed and actuator in trusted:
            why = "cannot be told from the joint's damping without efforts"
        bounds = (
            _two_digits(min(values.values()) / _TIMES),
            _two_digits(max(values.values()) * _TIMES),
        )
        yield ProposedTarget(f'actuator/{actuator}/{attribute}', bounds, left_out=why)


def _gains(model: mujoco.MjModel, joint: str) -> tuple[str, float, float]:
    """Return the named servo on a joint, its kp and kv; 0 where it has none."""
    number = model.joint(joint).id
    for actuator in range(model.nactuator):
        on_joint = model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_JOINT
        affine = model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_AFFINE
        name = model.actuator(actuator).name
        if name and on_joint and affine and model.actuator_trnid[actuator, 0] == number:
            _, kp, kv = (-float(x) for x in model.actuator_biasprm[actuator, :3])
            is_servo = kp > 0 and math.isclose(kp, float(model.actuator_gainprm[actuator, 0]))
            return name, kp if is_servo else 0.0, max(kv, 0.0)
    return '', 0.0, 0.0


def _inertia(model: mujoco.MjModel) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the (nv,) inertia that each joint moves at the reference position."""
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    whole = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, whole)
    return np.asarray(np.diag(whole))


def _forces(model: mujoco.MjModel) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the (nv,) greatest force of each joint: its limits, else about what gravity needs."""
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    reach = np.linalg.norm(np.ptp(data.xpos[1:], axis=0)) if model.nbody > 2 else 1.0  # noqa: PLR2004 (a world and a body)
    weight = np.linalg.norm(model.opt.gravity) * model.body_mass.sum() * max(float(reach), 0.1)
    found = np.full(model.nv, min(np.abs(data.qfrc_bias).max(initial=0.0) * 2 or weight, weight))
    for joint in range(model.njnt):
        if model.jnt_actfrclimited[joint]:
            found[model.jnt_dofadr[joint]] = np.abs(model.jnt_actfrcrange[joint]).max()
    for actuator in range(model.nactuator):
        on_joint = model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_JOINT
        if on_joint and model.actuator_forcelimited[actuator]:
            dof = model.jnt_dofadr[model.actuator_trnid[actuator, 0]]
            gear = abs(float(model.actuator_gear[actuator, 0]))
            found[dof] = gear * np.abs(model.actuator_forcerange[actuator]).max()
    return found


def last_bodies(model: mujoco.MjModel, joints: Sequence[str]) -> tuple[str, ...]:
    """Return the last body with a mass of each chain that moves: what may carry a payload.

    Joints that end chains on the same moving link are the fingers of a hand, which is one chain.
    """
    parents = model.body_parentid
    owners = {int(model.jnt_bodyid[model.joint(name).id]) for name in joints}
    depths, movers = np.zeros(model.nbody, int), np.zeros(model.nbody, int)
    for body in range(1, model.nbody):
        depths[body] = depths[parents[body]] + 1
        movers[body] = parents[body] if parents[body] in owners else movers[parents[body]]
    chains: dict[int, int] = {}
    for owner in sorted(owners - set(movers[sorted(owners)]), key=depths.item):
        chains[int(movers[owner]) or owner] = owner
    found = []
    for owner in chains.values():
        fixed = np.flatnonzero(model.body_weldid == owner)
        heavy = [body for body in fixed if model.body(body).name and model.body_mass[body] > 0]
        if heavy:
            found.append(str(model.body(max(heavy, key=depths.item)).name))
    return tuple(found)


def _rounded_up(value: float) -> float:
    """Return the next number with one digit."""
    unit = 10.0 ** math.floor(math.log10(value))
    return float(f'{math.ceil(value / unit - 1e-9) * unit:.1g}')


def parts_tried(bags: Sequence[ProposedBag]) -> dict[str, tuple[tuple[float, float], ...]] | None:
    """Return bag to the part of it that the first steps look at; None where that is all.

    Where recordings are long it is the middle of each.
    """
    each = _TRIED_S / max(len(bags), 1)
    if sum(bag.seconds for bag in bags) <= _TRIED_S:
        return None
    middles = {bag.path.name: bag.seconds / 2 for bag in bags if bag.seconds > each}
    return {name: ((at - each / 2, at + each / 2),) for name, at in middles.items()}


def trial_of(proposal: CalibrationProposal) -> CalibrationConfig:
    """Return the proposal as a configuration, without what the first steps need not.

    Held-out recordings are not looked at, and of long ones a part.
    """
    return CalibrationConfig.model_validate(
        {
            'solver': {**proposal.solver, 'time': _LONGEST_S},
            'sensors': proposal.sensors or None,
            'segments': {'times': parts_tried(proposal.of_role('train'))},
            'model': proposal.model,
            'package_path': proposal.packages,
            'namespace': proposal.namespace,
            'estimator': proposal.estimator,
            'bags': [
                {'path': glob.escape(str(bag.path)), 'role': 'train'}
                for bag in proposal.of_role('train')
            ],
            'mapping': 'auto' if proposal.mapping is None else mapping_of(proposal.mapping),
            'parameters': [item.entry for item in proposal.chosen],
        }
    )


def _tried(proposal: CalibrationProposal, observer: Observer) -> CalibrationProposal:
    """Take the first steps of a fit, and leave out what they say that cannot be told."""
    if not any(bag.role == 'train' for bag in proposal.bags):
        bag = next(bag for bag in proposal.bags if bag.role is None)
        raise AlignmentError(bag.why)
    if not proposal.chosen:
        longest = max(bag.seconds for bag in proposal.of_role('train'))
        problem = f'No joint of the model moves in the training recordings, {longest:.2g} s long.'
        return dataclasses.replace(proposal, problem=problem)
    try:
        proposal = _with_gains(_softened(proposal, observer), observer)
        steps = None
        for _ in range(_ROUNDS):
            found, steps = _first_steps(proposal, observer, steps)
            slow = found.seconds > _LONGEST_S
            changed = _judged(proposal, found)
            settled = trial_of(changed) == trial_of(proposal)
            proposal = changed
            if settled or slow or not changed.chosen:
                break
    except SysidError as err:
        return dataclasses.replace(proposal, problem=str(err))
    return proposal


def _softened(proposal: CalibrationProposal, observer: Observer) -> CalibrationProposal:
    """Begin at a part of the servos' gains where the model moves far more like the robot with it.

    From gains that are far too large a fit hardly gets away: servos at the limits of their force
    follow anything. Equal servos then share their gains and the inertia of their motors: positions
    tell the stiffness only of those that gravity loads.
    """
    gains = [item for item in proposal.chosen if item.attribute == 'kp']
    if not gains:
        return proposal
    config = trial_of(proposal)
    problem = load(config, observer)
    guessed = implied_actuators(problem.spec)
    if any(item.target.split('/')[1] in guessed for item in gains):
        return proposal
    observer.stage('looking for how stiff the servos are')
    lags = [bag.lag for bag in proposal.of_role('train') if not math.isnan(bag.lag)]
    part = best_part(with_timestep(problem, config.solver), float(np.median(lags or [0.0])))
    if part == 1.0:
        return proposal
    nominal = {unknown.name: unknown.nominal for unknown in problem.parameters}
    targets = [
        dataclasses.replace(
            item,
            bounds=(_two_digits(part * item.bounds[0]), item.bounds[1]),
            initial=_two_digits(part * nominal[item.target]),
        )
        if item.attribute in {'kp', 'kv'} and not item.left_out
        else item
        for item in proposal.targets
    ]
    for attribute in ('armature', 'kp', 'kv'):
        targets = _as_one(attribute, targets, nominal)
    note = (
        f'With {100 * part:g} % of the stiffness and damping of its servos the model moves far '
        'more like the robot: the fit begins there.'
    )
    return dataclasses.replace(proposal, targets=tuple(targets), notes=(*proposal.notes, note))


def _with_gains(proposal: CalibrationProposal, observer: Observer) -> CalibrationProposal:
    """Identify the gains of servos, too, where measured forces show others."""
    trusted = [item for item in proposal.targets if item.left_out == _TRUSTED]
    if not trusted or not gains_contradicted(load(trial_of(proposal), observer)):
        return proposal
    targets = tuple(
        dataclasses.replace(item, left_out='') if item in trusted else item
        for item in proposal.targets
    )
    note = (
        'Measured forces show other stiffnesses of the servos than the model has: their gains are '
        'identified, too.'
    )
    return dataclasses.replace(proposal, targets=targets, notes=(*proposal.notes, note))


def gains_contradicted(problem: Problem) -> bool:
    """Return whether measured forces show most servos to be stiffer than the model's, or softer."""
    model = problem.model
    found = servo_gains(model, problem.sequences('train'))
    ratios = [
        (gains.low / own, gains.high / own)
        for actuator, gains in found.items()
        if (own := _gains(model, model.joint(int(model.actuator_trnid[actuator, 0])).name)[1])
    ]
    stiffer = sum(low > _OTHER_GAINS for low, _ in ratios)
    softer = sum(high < 1 / _OTHER_GAINS for _, high in ratios)
    return 2 * max(stiffer, softer) > len(ratios)


def _as_one(
    attribute: str, targets: Sequence[ProposedTarget], nominal: Mapping[str, float]
) -> list[ProposedTarget]:
    """Return targets with one for all elements where these are equal in the model."""
    own = [i for i in targets if i.attribute == attribute and not i.left_out]
    alike = len({nominal[item.target] for item in own}) == 1 < len(own)
    if not alike or len(own) != own[0].elements:
        return list(targets)
    one = dataclasses.replace(
        own[0], target=own[0].pattern, name=attribute, shared=True, elements=0
    )
    return [one if item is own[0] else item for item in targets if item not in own[1:]]


def best_part(problem: Problem, lag: float) -> float:
    """Return the part of the gains with which errors are least, 1 where that is not far better."""
    nominal = np.array([unknown.nominal for unknown in problem.parameters])
    kinds = [unknown.targets[0].attribute for unknown in problem.parameters]
    servos, delays = (np.isin(kinds, names) for names in (['kp', 'kv'], ['delay']))
    candidates = np.array(
        [
            np.where(servos, part * nominal, np.where(delays, late * lag, nominal))
            for part in _SOFTER
            for late in _DELAYS
        ]
    )
    with make_simulator(problem.spec, problem.parameters, problem.sequences('train')) as simulator:
        residuals = Residuals(simulator, estimate_noise(simulator.runs))
        squares = residuals(candidates) ** 2
    sensors = residuals.samples.sensor
    each = np.array(
        [squares[sensors == place].sum(axis=0) for place in np.unique(sensors[sensors >= 0])]
    )
    # All sensors count alike: the noise of some is small.
    errors = np.sqrt(each / each[:, :1]).mean(axis=0).reshape(len(_SOFTER), -1).min(axis=1)
    best = int(np.argmin(errors))
    return _SOFTER[best] if errors[best] < _FAR_BETTER * errors[0] else 1.0


def _first_steps(
    proposal: CalibrationProposal, observer: Observer, begun: Fit | None
) -> tuple[Preflight, Fit | None]:
    """Return what first steps say, and those; they begin where others ended, if there are any."""
    config = trial_of(proposal)
    problem = load(config, observer)
    seen = estimated(config, problem)
    count = len(seen.problem.parameters)
    observer.stage(f'taking the first steps of a fit, {count} parameters')
    found, steps = predicted(config, with_timestep(seen.problem, config.solver), observer, begun)
    whole = sum(bag.seconds for bag in proposal.of_role('train'))
    share = min(_TRIED_S / whole, 1.0) if whole else 1.0
    by_name = {unknown.name: unknown for unknown in seen.problem.parameters}
    expected = tuple(of_all(item, by_name[item.name], share) for item in found.parameters)
    return dataclasses.replace(found, parameters=expected), steps


def of_all(said: PredictedParameter, unknown: Unknown, share: float) -> PredictedParameter:
    """Return what all recordings are expected to say, of which a share was looked at.

    What nothing but the bounds limits stays unknown.
    """
    room = max(unknown.max_value - said.value, said.value - unknown.min_value)
    half = said.half * math.sqrt(share)
    if said.verdict_kind is not VerdictKind.NOT_EXCITED or not said.half < room:
        return said
    if half > widest(said.value, unknown):
        return said
    kind = VerdictKind.IDENTIFIED
    return said._replace(half=half, verdict=str(kind), explanation='', verdict_kind=kind)


def _judged(proposal: CalibrationProposal, found: Preflight) -> CalibrationProposal:
    """Leave out what the first steps of a fit cannot tell, of what is confounded the least."""
    if found.sensitivity is not None:
        instead = 'torque' if found.sensitivity.forces_tell else 'windows'
        return dataclasses.replace(proposal, estimator=instead)
    by_name = {item.name: item for item in found.parameters}
    confounded = [
        item
        for item in proposal.chosen
        if (said := by_name.get(item.name or item.target)) is not None
        and said.verdict_kind is VerdictKind.CONFOUNDED
        and item.deviation is None
    ]
    worst = min((item.attribute for item in confounded), key=_RANKS.index, default='')
    targets = [
        item if item.left_out else after_steps(item, by_name.get(item.name or item.target), worst)
        for item in proposal.targets
    ]
    return dataclasses.replace(proposal, targets=tuple(targets))


def after_steps(
    item: ProposedTarget, said: PredictedParameter | None, worst: str
) -> ProposedTarget:
    """Return what becomes of a candidate by what the first steps of a fit say.

    What is not excited is left out. What is confounded is not: held, it would decide on all that
    cannot be told from it, whose intervals would not know that. The least important of it gets a
    prior around the model's value instead.

    Args:
        item: The candidate.
        said: What is said of it; None where nothing is.
        worst: The least important attribute of what is confounded.
    """
    if said is None or said.verdict_kind in (VerdictKind.IDENTIFIED, None):
        return dataclasses.replace(item, note='')
    told = f'{said.verdict}: {said.explanation}' if said.explanation else said.verdict
    lost = said.verdict_kind is VerdictKind.NOT_EXCITED
    last = said.verdict_kind is VerdictKind.CONFOUNDED and item.attribute == worst != 'mass_scaled'
    # What begins elsewhere would be at the model's own value again.
    if item.initial is not None or not (lost or last):
        return dataclasses.replace(item, note=told)
    if lost or not said.nominal:
        return dataclasses.replace(item, left_out=str(said.verdict_kind), note=told)
    part = _BELIEVED if item.attribute in {'kp', 'kv'} else _GUESSED
    note = f'{told} {_BELIEF.format(100 * part)}'
    deviation = _two_digits(part * abs(said.nominal))
    return dataclasses.replace(item, deviation=deviation, note=note)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A calibration for recordings and a model: roles, mapping, and what these recordings can tell.

Parameters are tried as ``preflight`` does; what the recordings cannot tell is left out, with the
reason.
"""

from __future__ import annotations

import dataclasses
import glob
import math
import os
import re
import shlex
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import mujoco
import numpy as np
import yaml

from sysid_ros.alignment.axes import EffortKind
from sysid_ros.alignment.health import FindingKind, aggregated
from sysid_ros.alignment.inspection import Inspection, inspect
from sysid_ros.alignment.pairing import imply_actuators, map_columns
from sysid_ros.alignment.pairs import PairRole, actuator_names, column_name, similarities
from sysid_ros.alignment.proposal import Proposal, mapping_of, propose_with_actuators
from sysid_ros.alignment.turns import read_columns
from sysid_ros.alignment.vectors import vector_pairs
from sysid_ros.bags import BagColumns
from sysid_ros.bags.storage import CSV, METADATA, natural_order, suffix
from sysid_ros.bags.tables import episodes_in, recordings, table_files
from sysid_ros.config.schema import CalibrationConfig, MappingConfig, Role, VerdictKind
from sysid_ros.errors import (
    AlignmentError,
    BagError,
    ConfigError,
    SysidError,
    how_many,
    listed,
    one_line,
)
from sysid_ros.fit.observer import Observer
from sysid_ros.fit.regression import servo_gains
from sysid_ros.model.elements import driven_joint, is_orientation, posed_joint
from sysid_ros.model.loading import (
    compile_spec,
    free_joints,
    implied_actuators,
    implied_sensors,
    implied_sentence,
    read_model,
)
from sysid_ros.simulation.inverse import force_weights
from sysid_ros.text import scalar
from sysid_ros.vocabulary import SECOND_NS, Quantity
from sysid_ros.workflows.estimators import estimated
from sysid_ros.workflows.preflight import PredictedParameter, predicted
from sysid_ros.workflows.problem import (
    UNSCALED,
    Problem,
    floating_bases,
    load,
    moves,
    on_fixed_base,
    parameters_of,
)

_MODEL_ENDS = frozenset({'.xml', '.mjcf', '.urdf', '.xacro'})
#: Words in the name of a recording by which it is held out.
_HELD_OUT = re.compile(r'(?<![a-z])(valid\w*|val|test|held|holdout|heldout|eval\w*)(?![a-z])')
#: No parameters are tried after this time, s, nor longer at once.
_LONGEST_S = 120.0
#: Bounds are so many times the model's own number, or inertia.
_TIMES = 10.0
#: A hinge may have this much rotor inertia whatever its model says, kg·m²; a slide as many kg.
_ARMATURE = 0.2
#: A servo that is not known better follows its command within this time, s: bounds of its delay,
#: and of inertia and damping by its stiffness.
_LATEST = 0.1
#: Part of the greatest force of a joint that its dry friction may be.
_FRICTION = 0.5
#: A servo's stiffness is another one where forces show one that differs by this factor.
_OTHER_GAINS = 1.15
#: What gets a prior first where the recordings cannot tell parameters apart: of a servo that no
#: weight loads only ratios to its stiffness, which its controller sets. A mass gets none: a payload
#: may be anything, and what is not here has a prior of its own, or is a sensor's.
_RANKS = ('kp', 'kv', 'mass_scaled', 'armature', 'damping', 'frictionloss', 'delay')
#: The prior is as wide as the model's value, that of gains this part of it: somebody set them.
_BELIEVED = 0.3
#: Values of a kind are refuted where the first steps move most by so many widths of a prior.
_FARTHEST = 3.0
#: Why gains are left out that measured forces do not contradict, and one of two dampings.
_TRUSTED = "the model's own gains are taken as they are; drop the # where they are guesses"
_ALIKE = 'cannot be told from the {} without efforts'
#: Joints that stick creep in MuJoCo, the less the nearer this is to one, which it clips here.
_LEAST_IMPEDANCE, _MOST_IMPEDANCE = 0.5, 0.9999
_AS_IT_IS = "the recordings do not contradict the model's value"
_MEANINGS = {
    'armature': 'Inertia of motor and gear at the joint, kg·m² (kg at a slide).',
    'damping': 'Friction that grows with speed, N·m·s/rad (N·s/m at a slide).',
    'frictionloss': 'Dry friction, N·m (N at a slide).',
    'solimpfriction': 'How little a joint creeps that dry friction holds: MuJoCo lets it creep, '
    'real ones hardly do.',
    'kp': 'Stiffness of the position servos, N·m/rad.',
    'kv': 'Damping of the servos, N·m·s/rad.',
    'delay': 'From the stamp of a command to the servo, s: one for all.',
    'mass_scaled': 'What the last body weighs, kg, with the inertia of that: a tool or payload.',
    'bias': 'What an effort reads beside the force: a cable, a zero, friction unlike by direction.',
    'gain': 'What an effort reads for a force, as part of what its mapping says.',
    'inertia': 'Mass, centre of mass and moments of each link; what the motion does not tell stays '
    "near the model's.",
    'pos': 'Where a sensor is mounted, m.',
    'quat': 'How a sensor is mounted: a rotation vector from where the model has it, rad.',
}
#: What of a sensor's mounting its readings depend on.
_TURN, _POSE = ('quat',), ('pos', 'quat')
_MOUNTINGS = {
    mujoco.mjtSensor.mjSENS_GYRO: _TURN,
    mujoco.mjtSensor.mjSENS_ACCELEROMETER: _POSE,
    mujoco.mjtSensor.mjSENS_VELOCIMETER: _POSE,
    mujoco.mjtSensor.mjSENS_MAGNETOMETER: _TURN,
    mujoco.mjtSensor.mjSENS_FRAMEQUAT: _TURN,
    mujoco.mjtSensor.mjSENS_FRAMEPOS: ('pos',),
}
#: How far a sensor may be from where the model has it, m and rad.
_MOUNTED = {'pos': 0.3, 'quat': 3.2}


class ProposedBag(NamedTuple):
    """A recording and what it is for."""

    path: Path
    role: Role | None  # None where it cannot be used
    why: str  # it has this role
    seconds: float = 0.0
    moving: tuple[str, ...] = ()  # joints of the model that move in it
    commanded: int = 0  # number of its joints with commands
    lag: float = math.nan  # of positions behind commands, in the median of the joints, s
    findings: tuple[str, ...] = ()  # a sentence each

    @property
    def summary(self) -> str:
        """What is in it, on one line."""
        length = f'{self.seconds:.0f} s' if self.seconds >= 1 else f'{self.seconds:.2g} s'
        told = f'{self.commanded} with commands' if self.commanded else 'no commands'
        parts = [length, f'{how_many(self.moving, "moving joint")}', told]
        if not math.isnan(self.lag):
            parts.append(f'they follow after {1e3 * self.lag:.0f} ms')
        return ', '.join(parts) + (f'; {self.why}' if self.why else '')


@dataclass(frozen=True)
class ProposedTarget:
    """What may be identified."""

    target: str
    bounds: tuple[float, float] | None = None  # in the target's unit; None for what physics allows
    name: str = ''  # of the one value that all elements of the target share; else empty
    left_out: str = ''  # why it is not identified; empty where it is
    note: str = ''  # what the first steps of a fit say; empty where it is simply identified
    deviation: float | None = None  # of the prior around the model's value; None for no prior
    log: bool = False  # whether it may be wrong by a factor
    trusted: bool = False  # whether the model's value holds unless recordings contradict it

    @property
    def attribute(self) -> str:
        """What of the element it is."""
        return self.target.rsplit('/', 1)[-1].partition('[')[0]

    @property
    def parameter(self) -> str:
        """Name of the parameter that it becomes."""
        return self.name or self.target

    @property
    def entry(self) -> dict[str, Any]:
        """The entry of ``parameters``."""
        found: dict[str, Any] = {'target': self.target}
        if self.bounds:
            found['bounds'] = list(self.bounds)
        if self.name:
            found = {'name': self.name, **found, 'shared': True}
        if self.log:
            found['scale'] = 'log'
        return found | ({'prior': {'std': self.deviation}} if self.deviation else {})


@dataclass(frozen=True)
class CalibrationProposal:
    """What ``sysid init`` writes."""

    model: Path  # a recording where its robot_description is the model
    model_notes: tuple[str, ...]
    bags: tuple[ProposedBag, ...]  # with those that cannot be used
    mapping: Proposal | None  # what a mapping file holds; None where names agree
    targets: tuple[ProposedTarget, ...]  # what is identified, and what could be
    notes: tuple[str, ...] = ()  # of the recordings
    questions: tuple[str, ...] = ()  # what only the user knows of the mapping
    packages: tuple[Path, ...] = ()
    namespace: str = ''
    sensors: tuple[str, ...] = ()  # that are compared; empty for all
    estimator: str = 'auto'
    base: Literal['free', 'measured', 'fixed'] = 'free'  # see `CalibrationConfig`
    floating: str = ''  # the bodies that float in the model, of which that says something else
    problem: str = ''  # why nothing could be tried; empty where it was

    @property
    def chosen(self) -> tuple[ProposedTarget, ...]:
        """What is identified."""
        return tuple(item for item in self.targets if not item.left_out)

    def of_role(self, role: Role) -> tuple[ProposedBag, ...]:
        """Return the recordings with a role."""
        return tuple(bag for bag in self.bags if bag.role == role)


def sort_arguments(paths: Sequence[str]) -> tuple[list[Path], Path | None]:
    """Tell the model from the recordings; None where its description is in one of them."""
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
    """Return the recordings that a path or a pattern means: itself, or those in a folder."""
    found: list[Path] = []
    for path in recordings(pattern):
        if path.is_dir() and not _is_bag(path):
            inside = sorted((item for item in path.iterdir() if _is_bag(item)), key=natural_order)
            if not inside:
                raise BagError(f'Expected recordings in the folder {str(path)!r}, found none.')
            found += [path for item in inside for path in episodes_in(item) or [item]]
        else:
            found.append(path)
    if not found:
        raise BagError(f'No recording matches {pattern!r}.')
    return found


def _is_bag(path: Path) -> bool:
    tables = table_files(path)
    if path.is_file():
        return bool(suffix(path) or tables)
    if any((path / name).exists() for name in (METADATA, 'meta/info.json')):
        return True
    if any(map(suffix, path.iterdir())):
        return True
    # Tables are parts of one recording, but those with equal columns are recordings each.
    headings = set()
    for table in tables:
        with table.open('rb') as stream:
            headings.add(stream.readline(1 << 20))
    return len(headings) > 1 and all(table.suffix == CSV for table in tables)


def propose_calibration(
    paths: Sequence[Path],
    model: Path | None,
    observer: Observer,
    *,
    packages: tuple[Path, ...] = (),
    namespace: str = '',
) -> CalibrationProposal:
    """Propose a calibration of a model from recordings, of several arms in them of one namespace.

    The model is None for the ``robot_description`` in the first recording.

    Raises:
        SysidError: No recording can be read, nothing in one belongs to the model, or they tell
            nothing of it.
    """
    columns: dict[Path, BagColumns] = {}
    unread = []
    for path in paths:
        observer.stage(f'reading {path}')
        try:
            columns[path] = read_columns(path, namespace)
        except BagError as err:
            unread.append(ProposedBag(path, None, str(err)))
            if len(unread) == len(paths):
                raise
    model = model or next(iter(columns))
    roles = roles_of(list(columns), [_seconds(bag) for bag in columns.values()])
    training = [bag for path, bag in columns.items() if roles[path][0] == 'train']
    observer.stage('looking for the joints of the model')
    source = read_model(model, packages)
    spec, base, floating = _based(source.spec, model, training[0])
    mapping = _mapping(spec, model, max(training, key=_seconds))
    unanswered = [
        pair.name
        for pair in (mapping.pairs if mapping else ())
        if pair.question and pair.role is PairRole.SENSOR and pair.field == Quantity.POSITION
    ]
    asked: Literal['auto'] | MappingConfig = 'auto'
    if mapping is not None:
        asked = mapping_of(mapping, asked=bool(unanswered))
    imply_actuators(spec, model, training[0], asked)
    compiled = compile_spec(spec, model)
    looked = [_looked_at(bag, compiled, asked, *roles[path]) for path, bag in columns.items()]
    bags = (*(bag for bag, _ in looked), *unread)
    reports = [found for bag, found in looked if bag.role == 'train' and found is not None]
    del columns, training
    if not reports:
        raise AlignmentError(next(bag.why for bag in bags if bag.role is None))
    moving = {name for bag in bags if bag.role == 'train' for name in bag.moving}
    joints = free_joints(spec)
    moved = [name for name in joints if name in moving]
    still = [name for name in joints if name not in moving]
    if not moved:
        longest = max(bag.seconds for bag in bags if bag.role == 'train')
        raise _told_nothing(model, f'no joint that moves in {longest:.2g} s')
    measured = dict.fromkeys(
        pair.name
        for found in reports
        for pair in (found.mapping.pairs if found.mapping else ())
        if pair.role is PairRole.SENSOR
    )
    speed = mujoco.mjtSensor.mjSENS_JOINTVEL
    others = [name for name in measured if compiled.sensor(name).type[0] != speed]
    efforts = any(joint.effort for found in reports for joint in found.joints)
    implied = [name for name in implied_sensors(spec) if posed_joint(compiled, name) < 0]
    lacks = listed(dict.fromkeys(name.rsplit('_', 1)[-1] for name in implied))
    notes = (
        *source.description.notes,
        f'It has no sensors of {lacks} of its joints: these are implied.' if lacks else '',
        implied_sentence(spec),
    )
    silent = (
        f'{len(still)} of the {len(joints)} joints of the model never move in the training '
        f'recordings, so nothing of them is identified ({listed(still)}): is an encoder '
        'silent, or is this the model of another robot?'
    )
    proposal = CalibrationProposal(
        model=model,
        model_notes=tuple(filter(None, notes)),
        bags=bags,
        mapping=mapping,
        targets=(
            targets_of_forces(compiled, moved, measured, asked)
            if _by_forces(compiled, reports)
            else _targets(
                compiled, moved, measured, implied_actuators(spec), bags, reports, efforts=efforts
            )
        ),
        notes=(silent,) if still else (),
        base=base,
        floating=floating,
        questions=tuple(_questions(mapping, reports)),
        packages=packages,
        namespace=namespace,
        # Drivers that report no efforts derive velocities from positions, and filter them.
        sensors=() if efforts or len(others) == len(measured) else tuple(others),
    )
    if unanswered:
        asks = 'The mapping says what it may be: correct its lines, and drop their #.'
        found = f'In which unit are {listed(unanswered)}? {asks}'
        return dataclasses.replace(proposal, problem=found)
    return _tried(proposal, observer)


def _based(
    spec: mujoco.MjSpec, path: Path, bag: BagColumns
) -> tuple[mujoco.MjSpec, Literal['free', 'measured', 'fixed'], str]:
    """Return a model as its robot stands, what its base does, and the bodies that float.

    It is fixed where nothing measures it, and moves as measured where all of its pose is and there
    is nothing in the world for a robot to stand on, which would have to be as high to the tenth of
    a millimetre.
    """
    model = compile_spec(spec, path)
    names = [pair.name for pair in vector_pairs(bag, model)]
    if fixed := floating_bases(model, names):
        return on_fixed_base(spec, model), 'fixed', listed(fixed.values())
    floating = floating_bases(model, ())
    told = {(posed_joint(model, name), is_orientation(model, name)) for name in names}
    solid = (model.geom_contype | model.geom_conaffinity) > 0
    stands = np.any(solid & (model.body_weldid[model.geom_bodyid] == 0))
    measured = all({(joint, False), (joint, True)} <= told for joint in floating)
    if floating and measured and not stands:
        return spec, 'measured', listed(floating.values())
    return spec, 'free', ''


def _told_nothing(model: Path, found: str) -> AlignmentError:
    return AlignmentError(
        f'Expected recordings that tell something of {str(model)!r}, found {found}: name the right '
        'model, or record a motion of 10 s or longer, as '
        f"`sysid excite {shlex.quote(str(model))} --for 'joint/*/armature' -o motion.csv` designs."
    )


def _seconds(bag: BagColumns) -> float:
    stamps = np.concatenate([np.zeros(0, int), *(topic.receive_ns for topic in bag.topics)])
    return float(np.ptp(stamps)) / SECOND_NS if len(stamps) else 0.0


def roles_of(paths: Sequence[Path], seconds: Sequence[float]) -> dict[Path, tuple[Role, str]]:
    """Return what each recording is for, and why: held out are those that are named so.

    Without such names it is the last third, at least one and not the longest.
    """
    named = [bool(_HELD_OUT.search(path.name.lower())) for path in paths]
    why = 'by its name'
    if len(paths) == 1:
        named = [False]
    elif all(named) == any(named):
        count = max(len(paths) // 3, 1)
        others = np.delete(np.arange(len(paths)), int(np.argmax(seconds)))
        named = np.isin(np.arange(len(paths)), others[-count:]).tolist()
        why = f'held out because it is {"the last" if count == 1 else "in the last third"}'
    return {
        path: ('validate', why) if held else ('train', '')
        for path, held in zip(paths, named, strict=True)
    }


def _mapping(spec: mujoco.MjSpec, model: Path, bag: BagColumns) -> Proposal | None:
    """Return the mapping that a recording needs, or None where names agree."""
    best = propose_with_actuators(spec.copy(), model, bag)
    spec = spec.copy()
    try:
        imply_actuators(spec, model, bag)
        named = map_columns(bag, compile_spec(spec, model), 'auto').pairs
    except AlignmentError as err:
        if not mapping_of(best, asked=True).sensors:
            raise AlignmentError(
                f'Nothing in {bag.path.name!r} is a joint of the model {model.name!r} '
                f'({listed(joint.name for joint in spec.joints)}); name the right model, or write '
                'what belongs together after the proposal of `sysid map BAG MODEL`.'
            ) from err
        return best
    known = {(pair.role, pair.name, pair.topic, pair.field, (pair.label,)) for pair in named}
    for pair in best.pairs:
        plain = (pair.scale, pair.offset) == (1.0, 0.0)
        same = (pair.role, pair.name, pair.topic, pair.field, tuple(pair.labels)) in known
        if (pair.confident or pair.question) and not (plain and same):
            return best
    return None


def _looked_at(
    bag: BagColumns, model: mujoco.MjModel, mapping: Any, role: Role, why: str
) -> tuple[ProposedBag, Inspection | None]:
    """Say what is in a recording; one that lacks what is mapped cannot be used."""
    try:
        found = inspect(bag, model, mapping=mapping)
    except AlignmentError as err:
        return ProposedBag(bag.path, None, str(err)), None
    assert found.mapping is not None  # noqa: S101 (there is a model)
    if found.mapping.problem:
        return ProposedBag(bag.path, None, found.mapping.problem), None
    lags = [joint.lag.seconds for joint in found.joints if joint.lag is not None]
    used = {column_name(pair.topic, pair.field, pair.label) for pair in found.mapping.pairs}
    unused = {item.channel for item in found.channels} - used
    # What is wrong with every recording is not said of each.
    usual = (FindingKind.UNMAPPED, FindingKind.BEFORE_FIRST_COMMAND)
    kept = (
        item
        for item in found.findings
        if item.kind not in usual and (item.left_out or item.subject not in unused)
    )
    proposed = ProposedBag(
        bag.path,
        role,
        why,
        found.bag.duration,
        tuple(
            joint.name
            for joint in found.joints
            if moves(model, model.joint(joint.name).id, joint.high - joint.low)
        ),
        sum(pair.role is PairRole.ACTUATOR for pair in found.mapping.pairs),
        float(np.median(lags)) if lags else math.nan,
        tuple(f'{g.kind.grade}: {g.kind}: {g.text(bags=False)}' for g in aggregated(kept)),
    )
    return proposed, found


def _questions(mapping: Proposal | None, reports: Sequence[Inspection]) -> Iterator[str]:
    """Ask what only the user knows: whether pairs by motion alone are right, and units."""
    pairs = [pair for pair in mapping.pairs if pair.confident] if mapping else []
    guessed = [
        pair
        for pair in pairs
        if pair.role is PairRole.SENSOR and len(pair.labels) == 1
        if not similarities(pair.labels, [pair.name]).any()
    ]
    if guessed:
        # Of an array of structures the element says which joint it is, not the label.
        elements = {pair.field: f'{pair.field}.' * pair.field.endswith(']') for pair in guessed}
        named = listed(
            f'{pair.name} is {elements[pair.field]}{",".join(pair.labels)}' for pair in guessed
        )
        least = min(pair.score for pair in guessed)
        yield (
            'Is that right? Guessed from motion and order, not from names, scores from '
            f'{least:.2f}: {named}.'
        )
    found = [item for each in reports for item in each.findings]
    columns = [item.subject for item in found if item.kind is FindingKind.NO_TORQUE]
    lines = '`sysid map BAG MODEL -o mapping.yaml` writes lines for them'
    if mapping is not None:
        columns = [
            column_name(pair.topic, pair.field, pair.labels[0])
            for pair in mapping.pairs
            if pair.kind in {EffortKind.CURRENT, EffortKind.PWM} and not pair.confident
        ]
        lines = 'the mapping has lines for them, which are commented out'
    if columns:
        yield (
            f'How many N·m (N) is a unit of {listed(dict.fromkeys(columns))}? They are no torques '
            f'of this model, and no efforts of their message are compared: {lines}, where that is '
            'the scale.'
        )


def _targets(
    model: mujoco.MjModel,
    joints: Sequence[str],
    measured: Iterable[str],
    guessed: Sequence[str],
    bags: Sequence[ProposedBag],
    reports: Sequence[Inspection],
    *,
    efforts: bool,
) -> tuple[ProposedTarget, ...]:
    """Return what may be identified of joints that move, most important first.

    The gains of some actuators are ``guessed``, and ``efforts`` are measured or not.
    """
    force = mujoco.mjtSensor.mjSENS_FORCE
    weighed = {
        int(model.site_bodyid[int(model.sensor(name).objid[0])])
        for name in measured
        if model.sensor(name).type[0] == force
    }
    servos = {name: _servo(model, name) for name in joints}
    commanded = {joint.name for found in reports for joint in found.joints if joint.command}
    # A servo whose gains are guesses may be as stiff as the stiffest of them may be.
    stiffest = _TIMES * max((kp for name, kp, _ in servos.values() if name in guessed), default=0.0)
    found: dict[str, list[ProposedTarget]] = {}
    for joint, (actuator, kp, kv) in servos.items():
        own = actuator not in guessed
        dof = int(model.joint(joint).dofadr[0])
        # A servo's gains and what acts against it may all be wrong by the same factor.
        scaled = kp > 0 and joint in commanded and not (own and efforts)
        # Without efforts only the sum of both dampings is told: the larger makes up for the other.
        alike = own and not efforts and joint in commanded and kv > 0
        by_servo = alike and kv > model.dof_damping[dof]
        for attribute, most in most_of(model, dof, kp if own else stiffest, kv).items():
            why = _ALIKE.format("servo's kv") if by_servo and attribute == 'damping' else ''
            target = f'joint/{joint}/{attribute}'
            log = scaled and float(getattr(model, f'dof_{attribute}')[dof]) > 0
            item = ProposedTarget(target, (0.0, _rounded_up(most)), left_out=why, log=log)
            found.setdefault(attribute, []).append(item)
        for attribute, gain in (('kp', kp), ('kv', kv)):
            why = _TRUSTED if own and efforts else ''
            if attribute == 'kv' and alike and not by_servo:
                why = _ALIKE.format("joint's damping")
            if gain and joint in commanded:
                item = ProposedTarget(f'actuator/{actuator}/{attribute}', left_out=why, log=True)
                found.setdefault(attribute, []).append(item)
    impedances = (_LEAST_IMPEDANCE, _MOST_IMPEDANCE)
    creep = ProposedTarget(
        'joint/*/solimpfriction', impedances, name='friction_impedance', trusted=True
    )
    targets = [*(item for items in found.values() for item in items), creep]
    if any(bag.commanded for bag in bags) and model.nactuator:
        lags = [bag.lag for bag in bags if not math.isnan(bag.lag)]
        latest = max(_LATEST, *(1.5 * lag for lag in lags), 0.0)
        bounds = (0.0, _rounded_up(latest))
        targets.append(ProposedTarget('actuator/*/delay', bounds, name='command_delay'))
    for tool in last_bodies(model, joints):
        if not weighed.isdisjoint(_ancestors(model, model.body(tool).id)):
            # A wrench tells all ten numbers of what it carries.
            targets.append(ProposedTarget(f'body/{tool}/inertia'))
            continue
        mass = float(model.body(tool).mass[0])
        bounds = _two_digits(0.1 * mass), _two_digits(_TIMES * mass)
        # What is heavier than believed has a larger inertia, too.
        targets.append(ProposedTarget(f'body/{tool}/mass_scaled', bounds))
    return (*targets, *_mountings(model, measured))


def _ancestors(model: mujoco.MjModel, body: int) -> Iterator[int]:
    """Yield a body, its parent, and so on to the world."""
    while body:
        yield body
        body = int(model.body_parentid[body])


def _mountings(model: mujoco.MjModel, measured: Iterable[str]) -> Iterator[ProposedTarget]:
    """Yield where the sites are whose sensors are measured, if recordings contradict the model."""
    found: dict[str, None] = {}
    for name in measured:
        sensor = model.sensor(name)
        if sensor.objtype[0] == mujoco.mjtObj.mjOBJ_SITE:
            site = model.site(int(sensor.objid[0])).name
            attributes = _MOUNTINGS.get(mujoco.mjtSensor(int(sensor.type[0])), ())
            found |= {f'site/{site}/{attribute}': None for attribute in attributes if site}
    for target in found:
        most = _MOUNTED[target.rsplit('/', 1)[-1]]
        own = model.site(target.split('/')[1]).pos if target.endswith('pos') else np.zeros(3)
        for axis, value in enumerate(own.tolist()):
            bounds = _two_digits(value - most), _two_digits(value + most)
            yield ProposedTarget(f'{target}[{axis}]', bounds, trusted=True)


def _by_forces(model: mujoco.MjModel, reports: Sequence[Inspection]) -> bool:
    """Whether efforts were measured, and no servo was told what to do."""
    joints = [joint for found in reports for joint in found.joints]
    told = any(joint.command and any(_servo(model, joint.name)[1:]) for joint in joints)
    return not told and any(joint.effort for joint in joints)


def targets_of_forces(
    model: mujoco.MjModel,
    joints: Sequence[str],
    sensors: Iterable[str],
    mapping: Literal['auto'] | MappingConfig,
) -> tuple[ProposedTarget, ...]:
    """Return what acts on the forces of joints that move; physics alone bounds it.

    Of the sensors that are mapped, those of efforts have offsets, and those of currents a scale. Of
    links that move as one, as joints between them stood still, the heaviest has the inertia of all.
    """
    found = [
        ProposedTarget(f'joint/{joint}/{attribute}')
        for attribute in ('armature', 'damping', 'frictionloss')
        for joint in joints
    ]
    weights = force_weights(model)
    efforts = [name for name in sensors if int(model.sensor(name).adr[0]) in weights]
    found += [ProposedTarget(f'sensor/{name}/bias') for name in efforts]
    if mapping != 'auto':
        currents = {name: mapping.sensors[name] for name in efforts}
        found += [
            ProposedTarget(f'sensor/{name}/gain', None if item.scale != 1 else UNSCALED)
            for name, item in currents.items()
            if item.kind != 'torque'
        ]
    moved = {int(model.jnt_bodyid[model.joint(name).id]) for name in joints}
    groups: list[int] = [0]  # with which body each one moves
    links: dict[int, int] = {}  # which has the inertia of all that do
    for body in range(1, model.nbody):
        group = body if body in moved else groups[int(model.body_parentid[body])]
        groups.append(group)
        heaviest = float(model.body_mass[links.get(group, 0)])
        if group and model.body(body).name and model.body_mass[body] > heaviest:
            links[group] = body
    found += [ProposedTarget(f'body/{model.body(body).name}/inertia') for body in links.values()]
    return tuple(found)


def most_of(model: mujoco.MjModel, dof: int, kp: float, kv: float) -> dict[str, float]:
    """Return attribute to the most of it that a joint may have, by its servo and the model."""
    data, whole = mujoco.MjData(model), np.zeros((model.nv, model.nv))
    mujoco.mj_forward(model, data)
    mujoco.mj_fullM(model, data, whole)
    damping, friction = float(model.dof_damping[dof]), float(model.dof_frictionloss[dof])
    return {
        'armature': max(_TIMES * whole[dof, dof], _ARMATURE, _LATEST**2 * kp),
        'damping': max(_TIMES * damping, 1.0, 2 * kv, _LATEST * kp),
        'frictionloss': max(_FRICTION * _force(model, data, dof), _TIMES * friction, 0.1),
    }


def _force(model: mujoco.MjModel, data: mujoco.MjData, dof: int) -> float:
    """Return the greatest force of a joint: its limit, else about what gravity needs."""
    joint = model.dof_jntid[dof]
    for actuator in np.flatnonzero(model.actuator_forcelimited).tolist():
        if driven_joint(model, actuator) == joint:
            gear = abs(float(model.actuator_gear[actuator, 0]))
            return gear * float(np.abs(model.actuator_forcerange[actuator]).max())
    if model.jnt_actfrclimited[joint]:
        return float(np.abs(model.jnt_actfrcrange[joint]).max())
    weight = float(np.linalg.norm(model.opt.gravity) * model.body_mass.sum())
    return 2 * float(np.abs(data.qfrc_bias).max()) or weight * float(model.stat.extent)


def _servo(model: mujoco.MjModel, joint: str) -> tuple[str, float, float]:
    """Return the named servo on a joint, its kp and kv; 0 where it has none."""
    for actuator, name in enumerate(actuator_names(model)):
        affine = model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_AFFINE
        if name and affine and driven_joint(model, actuator) == model.joint(joint).id:
            _, kp, kv = (-float(x) for x in model.actuator_biasprm[actuator, :3])
            is_servo = kp > 0 and math.isclose(kp, float(model.actuator_gainprm[actuator, 0]))
            return name, kp if is_servo else 0.0, max(kv, 0.0)
    return '', 0.0, 0.0


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


def _two_digits(value: float) -> float:
    return float(f'{value:.2g}')


def config_of(proposal: CalibrationProposal) -> CalibrationConfig:
    """Return what is tried of a proposal: all training recordings, for a limited time."""
    return CalibrationConfig.model_validate(
        {
            'solver': {'time': _LONGEST_S},
            'sensors': proposal.sensors or None,
            'model': proposal.model,
            'package_path': proposal.packages,
            'namespace': proposal.namespace,
            'estimator': proposal.estimator,
            'base': proposal.base,
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
    try:
        problem = load(config_of(proposal), observer)
        trusted = [item for item in proposal.targets if item.left_out == _TRUSTED]
        if trusted and gains_contradicted(problem):
            targets = tuple(
                dataclasses.replace(item, left_out='') if item in trusted else item
                for item in proposal.targets
            )
            note = (
                'Measured forces show other stiffnesses of the servos than the model has: their '
                'gains are identified, too.'
            )
            notes = (*proposal.notes, note)
            proposal = dataclasses.replace(proposal, targets=targets, notes=notes)
        steps, settled, begun = None, False, time.monotonic()
        while not settled and time.monotonic() < begun + _LONGEST_S:
            config = config_of(proposal)
            sequences = problem.sequences('train')
            parameters = parameters_of(config, problem.model, problem.spec, sequences)
            seen = estimated(config, dataclasses.replace(problem, parameters=parameters))
            found, steps = predicted(config, seen.problem, observer, steps)
            if found.instead:
                proposal = dataclasses.replace(proposal, estimator=found.instead)
            else:
                proposal = _judged(proposal, found.parameters)
            settled = not proposal.chosen or config_of(proposal) == config
    except SysidError as err:
        return dataclasses.replace(proposal, problem=str(err))
    if not proposal.chosen:
        lost = listed(item.target for item in proposal.targets if item.note)
        raise _told_nothing(proposal.model, f'that they tell none of {lost}')
    return proposal


def gains_contradicted(problem: Problem) -> bool:
    """Return whether measured forces show most servos to be stiffer than the model's, or softer."""
    model = problem.model
    found = servo_gains(model, problem.sequences('train'))
    ratios = [
        (gains.low / own, gains.high / own)
        for actuator, gains in found.items()
        if (own := _servo(model, model.joint(int(model.actuator_trnid[actuator, 0])).name)[1])
    ]
    stiffer = sum(low > _OTHER_GAINS for low, _ in ratios)
    softer = sum(high < 1 / _OTHER_GAINS for _, high in ratios)
    return 2 * max(stiffer, softer) > len(ratios)


def _judged(
    proposal: CalibrationProposal, parameters: Sequence[PredictedParameter]
) -> CalibrationProposal:
    """Leave out what is not excited, and give the least important of what is confounded a prior.

    Of a kind that the first steps led far away from, the model's values are refuted.
    """
    said = {item.name: item for item in parameters}
    confounded = {item.name for item in parameters if item.verdict_kind is VerdictKind.CONFOUNDED}
    doubtful = [
        item.attribute
        for item in proposal.chosen
        if item.deviation is None and item.parameter in confounded and item.attribute in _RANKS
    ]
    moved: dict[str, list[float]] = {}  # by which factor each value differs from the model's
    for item in proposal.chosen:
        found = said.get(item.parameter)
        if found is not None and found.nominal > 0 and found.value > 0:
            ratio = found.value / found.nominal
            moved.setdefault(item.attribute, []).append(max(ratio, 1 / ratio))
    refuted = {
        attribute
        for attribute, ratios in moved.items()
        if np.median(ratios) > 1 + _FARTHEST * _part(attribute)
    }
    near = [attribute for attribute in doubtful if attribute not in refuted]
    worst = min(near, key=_RANKS.index, default='')
    targets = tuple(
        item
        if item.left_out
        else after_steps(
            item, said.get(item.parameter), worst=worst, refuted=item.attribute in refuted
        )
        for item in proposal.targets
    )
    return dataclasses.replace(proposal, targets=targets)


def after_steps(
    item: ProposedTarget, said: PredictedParameter | None, *, worst: str, refuted: bool
) -> ProposedTarget:
    """Return what becomes of a candidate by what the first steps of a fit say.

    What is not excited is left out, unless the model's values of its kind are ``refuted``: it would
    be held at one. What is confounded is not: held, it would decide on all that cannot be told from
    it, whose intervals would not know that. The ``worst`` attribute of it gets a prior around the
    model's value instead.
    """
    if said is not None and item.trusted and abs(said.value - said.nominal) <= said.half:
        return dataclasses.replace(item, left_out=_AS_IT_IS)
    if said is None or said.verdict_kind in (VerdictKind.IDENTIFIED, None):
        return dataclasses.replace(item, note='')
    note = f'{said.verdict}: {said.explanation}' if said.explanation else said.verdict
    # Unmodelled effects widen intervals, and what is left out would be one more of them.
    size = max(abs(said.value), abs(said.nominal))
    lost = said.verdict_kind is VerdictKind.NOT_EXCITED and not (refuted or said.white < size)
    last = said.verdict_kind is VerdictKind.CONFOUNDED and item.attribute == worst != 'mass_scaled'
    if lost or (last and not said.nominal):
        return dataclasses.replace(item, left_out=str(said.verdict_kind), note=note)
    if not last:
        return dataclasses.replace(item, note=note)
    part = _part(item.attribute)
    note += (
        f" The model's value is believed to {100 * part:.0f} % (prior): say how well you know it, "
        'or hold it (#).'
    )
    deviation = _two_digits(part * abs(said.nominal))
    return dataclasses.replace(item, deviation=deviation, note=note)


def _part(attribute: str) -> float:
    """Return the part of its value that the prior of an attribute is wide."""
    return _BELIEVED if attribute in {'kp', 'kv'} else 1.0


def to_yaml(proposal: CalibrationProposal, folder: Path, mapping: str) -> str:
    """Return a proposal as a commented ``calibration.yaml`` for a folder.

    ``mapping`` is the name of the mapping file beside it, if there is one.
    """
    places = ', '.join(scalar(_near(path, folder)) for path in proposal.packages)
    how = 'their names agree, so they are paired by name.'
    if proposal.mapping is not None:
        how = 'proposed from names and motion, in the unit of the model.'
        doubtful = [pair.name for pair in proposal.mapping.pairs if not pair.confident]
        if doubtful:
            how += f' Not certain, and commented out there: {listed(doubtful)}: look at them.'
    optional = ''
    if proposal.namespace:
        optional += f"""
# Of several arms in the recordings this one.
namespace: {scalar(proposal.namespace)}
"""
    if proposal.sensors:
        optional += f"""
# What is compared. Velocities are left out: drivers that report no efforts derive them from
# positions, and filter them.
sensors: [{', '.join(map(scalar, proposal.sensors))}]
"""
    if proposal.base == 'measured':
        optional += f"""
# The pose of {proposal.floating} is not compared, but followed: it floats in the model.
base: measured
"""
    if proposal.base == 'fixed':
        optional += f"""
# Nothing recorded says where {proposal.floating} is, which floats in the model: the robot is taken
# to have stood fixed, as on a stand. If it moved, record and map the pose of that body.
base: fixed
"""
    if proposal.estimator != 'auto':
        optional += f"""
# Simulations of whole recordings diverge with these values of the model.
estimator: {proposal.estimator}
"""
    return f"""\
# A calibration, proposed by sysid init: look at it, change it. Paths are relative to
# this file; `sysid calibrate --example` shows all keys. Then:
#   sysid preflight THIS_FILE   what the recordings will be able to say
#   sysid calibrate THIS_FILE   fit, result, report, identified MJCF

# MJCF or URDF as it is. What is identified is written into a copy.
{_folded(proposal.model_notes)}\
model: {scalar(_near(proposal.model, folder))}
{f'package_path: [{places}]{chr(10)}' if places else ''}
# Parameters are fitted to the recordings with role train. Those with role validate are
# held out: their error says whether the model is right where it was not fitted.
bags:
{_bag_lines(proposal, folder)}
{_folded([f'Which column is which joint: {how}', *proposal.questions])}\
mapping: {'auto' if proposal.mapping is None else scalar(mapping)}
{optional}
# What is identified; the first steps of a fit say what these recordings can tell.
{_folded(filter(None, (*proposal.notes, proposal.problem)))}\
parameters:
{_target_lines(proposal.targets)}
# Where the result, its report and the identified MJCF go.
output: out
"""


def _bag_lines(proposal: CalibrationProposal, folder: Path) -> str:
    lines = ''
    for bag in proposal.bags:
        path = scalar(glob.escape(_near(bag.path, folder)))
        if bag.role is None:
            lines += _folded([f'Cannot be used: {bag.why}'], '  # ')
            lines += f'  # - {{path: {path}, role: train}}\n'
        else:
            lines += f'  - {{path: {path}, role: {bag.role}}}  # {one_line(bag.summary)}\n'
    lacks = (
        'Nothing is held out, so the result can be accepted with reservations at most: record '
        'another motion and add it as {path: validate_1, role: validate}'
    )
    return lines if proposal.of_role('validate') else lines + _folded([lacks], '  # ')


def _target_lines(targets: Sequence[ProposedTarget]) -> str:
    lines = ''
    for attribute in dict.fromkeys(item.attribute for item in targets):
        lines += _folded([_MEANINGS[attribute]], '  # ')
        said = ''
        for item in (item for item in targets if item.attribute == attribute):
            if said != (said := item.note or item.left_out):
                lines += _folded([said], '  #   ')
            entry = yaml.safe_dump(
                item.entry, default_flow_style=True, sort_keys=False, allow_unicode=True, width=1e9
            )
            lines += f'  {"# " if item.left_out else ""}- {entry}'
    return lines


def _folded(sentences: Iterable[str], start: str = '# ') -> str:
    """Return sentences as lines of comments."""
    wrapper = textwrap.TextWrapper(
        initial_indent=start,
        subsequent_indent=start,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return ''.join(f'{wrapper.fill(one_line(text))}\n' for text in sentences if text)


def _near(path: Path, folder: Path) -> str:
    """Return a path relative to a folder, where it is near; else as it was given, absolute."""
    relative = os.path.relpath(path.absolute(), folder.absolute())
    return relative if not relative.startswith('../../..') else str(path.absolute())

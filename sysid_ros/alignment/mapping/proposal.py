# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A proposal for a mapping: which column is which sensor or actuator, in which unit, and why."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np

from sysid_ros.alignment.health import UNSIGNED, are_magnitudes
from sysid_ros.alignment.mapping.arms import (
    check_one_arm,
    find_arms,
    find_leaders,
    prefixes,
)
from sysid_ros.alignment.mapping.axes import Axis, AxisColumn, EffortKind, find_axes, make_motion
from sysid_ros.alignment.mapping.drives import LEAST_CORRELATION, make_drives
from sysid_ros.alignment.mapping.mechanism import Mechanism, ModelJoint
from sysid_ros.alignment.mapping.names import EXACT, SAME_CORE, in_words, similarities
from sysid_ros.alignment.mapping.search import BestHypothesis, Choice, Scorer, search
from sysid_ros.alignment.pairs import (
    SENSOR_FIELDS,
    PairRole,
    Unmapped,
    UnmappedKind,
    actuator_names,
    column_name,
    scalar_joints,
    sensor_names,
)
from sysid_ros.bags import BagColumns, Field, TopicColumns
from sysid_ros.config import ChannelMapping, MappingConfig
from sysid_ros.errors import AlignmentError
from sysid_ros.text import one_line
from sysid_ros.vocabulary import Quantity
from sysid_ros.yaml_text import block_entry, scalar

_VECTOR = ('x', 'y', 'z')
#: MuJoCo has the scalar part of a quaternion first, ROS last.
_QUATERNION = ('w', 'x', 'y', 'z')
#: Sensor to the ends of paths of fields that carry it, the likeliest first.
_FIELDS: dict[mujoco.mjtSensor, tuple[str, ...]] = {
    mujoco.mjtSensor.mjSENS_GYRO: ('angular_velocity', 'twist.angular', 'angular'),
    mujoco.mjtSensor.mjSENS_ACCELEROMETER: ('linear_acceleration',),
    mujoco.mjtSensor.mjSENS_MAGNETOMETER: ('magnetic_field',),
    mujoco.mjtSensor.mjSENS_FORCE: ('wrench.force', 'force'),
    mujoco.mjtSensor.mjSENS_TORQUE: ('wrench.torque', 'torque'),
    mujoco.mjtSensor.mjSENS_FRAMEPOS: ('pose.position', 'position', 'translation'),
    mujoco.mjtSensor.mjSENS_FRAMEQUAT: ('pose.orientation', 'orientation', 'rotation'),
    mujoco.mjtSensor.mjSENS_FRAMELINVEL: ('twist.linear', 'linear'),
    mujoco.mjtSensor.mjSENS_FRAMEANGVEL: ('twist.angular', 'angular_velocity', 'angular'),
    mujoco.mjtSensor.mjSENS_VELOCIMETER: ('twist.linear', 'linear'),
    mujoco.mjtSensor.mjSENS_BALLQUAT: ('orientation',),
    mujoco.mjtSensor.mjSENS_RANGEFINDER: ('range',),
}
#: Score of the only field that can be a sensor; with names alike; and where there are more.
_ONLY, _ONLY_ALIKE, _ONE_OF_SEVERAL = 0.92, 0.97, 0.5
#: Pairs with a lower score are written as comments.
CONFIDENCE = 0.9
#: No score is higher: nothing is certain.
_HIGHEST = 0.99
#: Parts of a variance that are explained below this are named as evidence.
_EXPLAINED = 0.5

#: Score of an effort whose scale the model's masses tell at best, and of a column that goes to
#: another joint than the one it is named for without their telling so.
_UNSCALED = 0.6

#: Sensor of an actuator to what it measures, and the power of the gear that acts on it.
_OF_ACTUATORS = {
    mujoco.mjtSensor.mjSENS_ACTUATORPOS: (Quantity.POSITION, 1),
    mujoco.mjtSensor.mjSENS_ACTUATORVEL: (Quantity.VELOCITY, 1),
    mujoco.mjtSensor.mjSENS_ACTUATORFRC: (Quantity.EFFORT, -1),
}
#: Numbers that a proposal rounds to: an offset is not known better.
_DIGITS = 10
_OFFSET_DIGITS = 5


def _other_sensors(bag: BagColumns, model: mujoco.MjModel) -> list[ProposedPair]:
    """Find the field of each sensor that measures no joint, by its quantity and its name."""
    found = []
    kinds = [mujoco.mjtSensor(kind) for kind in model.sensor_type]
    for sensor, name in enumerate(sensor_names(model)):
        if not name or kinds[sensor] not in _FIELDS:
            continue
        width = int(model.sensor_dim[sensor])
        rivals = sum(
            kind == kinds[sensor] and bool(other)
            for kind, other in zip(kinds, sensor_names(model), strict=True)
        )
        fitting = _fitting(bag, kinds[sensor], width)
        if fitting:
            element = mujoco.mjtObj(model.sensor_objtype[sensor]), int(model.sensor_objid[sensor])
            place = mujoco.mj_id2name(model, *element) or ''
            found.append(_best(name, place, fitting, rivals))
    return found


def _fitting(
    bag: BagColumns, kind: mujoco.mjtSensor, width: int
) -> list[tuple[TopicColumns, Field, tuple[str, ...]]]:
    """Return the fields that carry a quantity, with their columns in the sensor's order."""
    order = {3: _VECTOR, 4: _QUATERNION}.get(width)
    found = []
    for topic in bag.topics:
        for end in _FIELDS[kind]:
            fields = [
                field
                for field in topic.fields
                if field.name == end or field.name.endswith(f'.{end}')
            ]
            fitting = [
                (topic, field, order or field.labels)
                for field in fields
                if (set(order) == set(field.labels) if order else len(field.labels) == width)
                and np.isfinite(field.values).any()
            ]
            if fitting:
                found += fitting
                break
    return found


def _best(
    name: str,
    place: str,
    fitting: list[tuple[TopicColumns, Field, tuple[str, ...]]],
    rivals: int,
) -> ProposedPair:
    words = [_words(f'{name}_{place}') & _words(topic.topic) for topic, _, _ in fitting]
    alike = [
        max(len(shared), float(similarities([topic.topic.strip('/')], [name, place]).max()))
        for shared, (topic, _, _) in zip(words, fitting, strict=True)
    ]
    best = int(np.argmax(alike))
    topic, field, labels = fitting[best]
    only = len(fitting) == 1 or alike[best] > sorted(alike)[-2]
    named = alike[best] > 0
    if not only or (rivals > 1 and not named):
        score = _ONE_OF_SEVERAL / max(len(fitting), rivals)
        reason = f'one of {max(len(fitting), rivals)} that it may be'
    else:
        score = min(_ONLY_ALIKE if named else _ONLY, EXACT)
        reason = f'the {"" if len(fitting) > 1 else "only "}{field.name} in the bag'
        if named:
            reason += ' whose topic has such a name'
    if labels == _QUATERNION:
        reason += '; w first in the model, last in ROS'
    return ProposedPair(
        PairRole.SENSOR, name, topic.topic, field.name, labels, 1.0, 0.0, score, reason
    )


def _words(text: str) -> set[str]:
    return {word for word in re.split(r'[^a-z0-9]+', text.lower()) if len(word) > 1}


class ProposedPair(NamedTuple):
    """A sensor or actuator and the columns that it may be: ``scale × bag value + offset``.

    Attributes:
        role: Sensor or actuator.
        name: Its name in the model.
        topic: Topic in the bag.
        field: Field of the message.
        labels: Columns of the field, in the order of the sensor's values.
        scale: Model units per bag unit.
        offset: In model units.
        score: 0 to 1, see ``propose``.
        reason: Why, in words.
        kind: What it is taken as, if it is an effort.
    """

    role: PairRole
    name: str
    topic: str
    field: str
    labels: tuple[str, ...]
    scale: float
    offset: float
    score: float
    reason: str
    kind: EffortKind | None = None

    @property
    def confident(self) -> bool:
        """Whether it may be used without a look."""
        return self.score >= CONFIDENCE


@dataclass(frozen=True)
class Proposal:
    """What ``sysid map`` found.

    Attributes:
        bag: Name of the bag.
        seconds: How much motion was looked at.
        pairs: Sensors, then actuators, both in model order.
        unmapped: Sensors, actuators and columns without a counterpart.
    """

    bag: str
    seconds: float
    pairs: tuple[ProposedPair, ...]
    unmapped: tuple[Unmapped, ...]


class _Reading(NamedTuple):
    """How a column of a drive becomes a quantity of its joint."""

    column: AxisColumn
    scale: float
    offset: float
    score: float
    reason: str
    kind: EffortKind | None = None


def propose(
    bag: BagColumns, model: mujoco.MjModel, *, guessed: frozenset[str] = frozenset()
) -> Proposal:
    """Propose a mapping of a bag to a model.

    The score of a pair is the probability of its joint, sign, unit and offset against the best
    rival in any of these, ``1 / (1 + exp(-margin))``, where the margin is the difference of the
    hypotheses' logarithms of odds (see ``proposal_judge``), at most 0.99. For sensors that measure
    no joint it says how unique the field is: 0.97 with a name in common, 0.92 without, at most 0.5
    where there are several. Below ``CONFIDENCE`` a pair must be confirmed by somebody who knows the
    robot.

    Gains of guessed actuators say nothing.

    Raises:
        AlignmentError: Nothing in the bag can be a sensor or actuator of the model.
    """
    mechanism = Mechanism(model, guessed)
    leaders = find_leaders(bag)
    arms = find_arms(bag, leaders)
    check_one_arm(bag, arms, list(scalar_joints(model)))
    axes = find_axes(bag, leaders, prefixes(bag, arms, leaders))
    motion = make_motion(axes)
    commanded = frozenset(joint.law.commanded for joint in mechanism.joints if joint.law)
    drives = make_drives(axes, motion, commanded or frozenset({Quantity.POSITION}))
    scorer = Scorer(drives, mechanism, motion.seconds if motion else 0.0)
    found = search(scorer)
    placed = {
        row: scorer.joints[guess.joint].id
        for row, guess in enumerate(found.guesses)
        if guess.joint >= 0
    }
    readings = {
        (joint, quantity): reading
        for row, joint in placed.items()
        for quantity, reading in _readings(scorer, found, row).items()
    }
    commands = {joint: _command(scorer, found, row) for row, joint in placed.items()}
    _follow(readings, mechanism, axes)
    pairs = [*_joint_sensors(model, mechanism, readings), *_other_sensors(bag, model)]
    order = sensor_names(model)
    pairs.sort(key=lambda pair: order.index(pair.name))
    pairs += _actuators(model, mechanism, commands)
    if not any(pair.role is PairRole.SENSOR for pair in pairs):
        topics = ', '.join(topic.topic for topic in bag.topics) or 'none'
        joints = ', '.join(joint.name for joint in mechanism.joints) or 'none'
        labels = ', '.join(axis.name for axis in axes if not axis.commanded) or 'none'
        raise AlignmentError(
            f'Nothing in {bag.path.name!r} can be a sensor of the model: expected positions, '
            f'velocities or efforts of joints, or an IMU, a wrench or a pose; topics: {topics}; '
            f'measured joints of the bag: {labels}; joints of the model: {joints}.'
        )
    unmapped = _unmapped(bag, model, pairs, _not_taken(scorer, found))
    return Proposal(bag.path.name, motion.seconds if motion else 0.0, tuple(pairs), unmapped)


def _readings(scorer: Scorer, found: BestHypothesis, row: int) -> dict[Quantity, _Reading]:
    """Return how each measured column of a drive is read."""
    drive, guess = scorer.drives[row], found.guesses[row]
    joint = scorer.joints[guess.joint]
    name, limit = _identity(scorer, found, row), _limit(scorer, found, row)
    doubtful = _questions(scorer, found, row)
    readings = {}
    columns = drive.axis.columns
    if Quantity.POSITION in columns:
        scale, offset = guess.sign * guess.unit.factor, found.verdict.offsets[row]
        score = _score(found, row, Choice.JOINT, Choice.SIGN, Choice.UNIT, Choice.OFFSET)
        notes = [name, *_notes(scale, guess.unit.name, offset, joint)]
        if offset:
            notes.append('by the command it is held at')
        readings[Quantity.POSITION] = _Reading(
            columns[Quantity.POSITION], scale, offset, min(score, limit), _join(notes)
        )
    if Quantity.VELOCITY in columns:
        unit = drive.velocity_unit(guess.unit, hinge=joint.hinge)
        follows = drive.speeding.correlation
        known = abs(follows) >= LEAST_CORRELATION
        scale = guess.sign * unit.factor * (-1 if known and follows < 0 else 1)
        score = _score(found, row, Choice.JOINT, Choice.SIGN, Choice.UNIT)
        notes = [name, *_notes(scale, unit.name, 0.0, joint)]
        if known:
            notes.append(f'the derivative of the position (correlation {abs(follows):.2f})')
        readings[Quantity.VELOCITY] = _Reading(
            columns[Quantity.VELOCITY], scale, 0.0, min(score, limit), _join(notes)
        )
    if Quantity.EFFORT in columns:
        readings[Quantity.EFFORT] = _effort(scorer, found, row, limit)
    return {
        quantity: _asked(reading, doubtful.get(quantity, ''))
        for quantity, reading in readings.items()
    }


def _questions(scorer: Scorer, found: BestHypothesis, row: int) -> dict[Quantity | None, str]:
    """Return what of a drive is asked for, None being its command."""
    drive, guess = scorer.drives[row], found.guesses[row]
    hinge = scorer.joints[guess.joint].hinge
    if not hinge and guess.unit.cost > 0:
        question = f'only its range says that it is in {guess.unit.name}: give its scale'
        return {Quantity.POSITION: question, Quantity.VELOCITY: question, None: question}
    return drive.doubtful(hinge=hinge)


def _asked(reading: _Reading, question: str) -> _Reading:
    """Return a reading that is not used before somebody answers a question."""
    if not question:
        return reading
    score = min(reading.score, _UNSCALED)
    return reading._replace(score=score, reason=f'{reading.reason}; {question}')


def _effort(scorer: Scorer, found: BestHypothesis, row: int, limit: float) -> _Reading:
    """Return how the effort of a drive is read, whose score has a limit."""
    drive, guess = scorer.drives[row], found.guesses[row]
    joint, column = scorer.joints[guess.joint], drive.axis.columns[Quantity.EFFORT]
    name = _identity(scorer, found, row)
    score = min(_score(found, row, Choice.JOINT, Choice.SIGN), limit)
    si = Quantity.EFFORT.unit(slide=not joint.hinge)
    kind = column.kind
    scale, times = _torque_scale(scorer, found, row)
    if scale is None:
        scale = scorer.torque_per_unit(row, found.guesses, found.verdict.offsets)
        scale = scale if math.isfinite(scale) else 1 / times
        known, score = math.isfinite(scale), min(score, _UNSCALED)
        size = f'about {scale:.2g} {si} per unit by the model' if known else 'scale unknown'
        named = f'a {kind} by its name' if kind is not EffortKind.TORQUE else ''
        scale = scale if known else 1.0
        kind = EffortKind.CURRENT if kind is EffortKind.TORQUE else kind
        notes = [name, f'{named or f"no torque in {si} but a current or the like"}: {size}']
    else:
        notes = [name, *_notes(scale, si, 0.0, joint), 'taken as torque']
        if scale != guess.sign:
            score = min(score, _score(found, row, Choice.EFFORT))
        if _beside_currents(scorer, found, row):
            score = min(score, _UNSCALED)
            notes.append('others of its message are no torques')
    servo = found.verdict.parts[row][0]
    if servo < _EXPLAINED:
        notes.append(f'{1 - servo:.0%} explained by the servo')
    return _Reading(column, scale, 0.0, score, _join(notes), kind)


def _torque_scale(scorer: Scorer, found: BestHypothesis, row: int) -> tuple[float | None, float]:
    """Return the N·m or N per unit of an effort, None where it is no torque.

    It is one as messages say, unless its name or what the model needs contradicts: then the second
    is how many times what the model needs it is, NaN where that is unknown.
    """
    drive, guess = scorer.drives[row], found.guesses[row]
    scale = float(guess.sign * guess.effort_sign)
    times = scorer.contradiction(row, found.guesses, found.verdict.offsets, scale)
    torque = times is None and not drive.own_efforts
    return scale if torque else None, math.nan if times is None else times / guess.sign


def _limit(scorer: Scorer, found: BestHypothesis, row: int) -> float:
    """Return the most that a drive's joint can be sure of; torques prove more than names."""
    joint = found.guesses[row].joint
    if scorer.strange[row, joint]:
        return _UNSCALED
    others = np.delete(scorer.alike[:, joint], row), np.delete(scorer.alike[row], joint)
    named_otherwise = any((alike >= SAME_CORE).any() for alike in others)
    explained = found.verdict.parts[row][1] < _EXPLAINED
    if scorer.alike[row, joint] < SAME_CORE and named_otherwise and not explained:
        return _UNSCALED
    return 1.0


def _beside_currents(scorer: Scorer, found: BestHypothesis, row: int) -> bool:
    """Whether efforts of other joints in a drive's message are in units of their own."""
    topic = scorer.drives[row].axis.topic
    return any(
        drive.axis.topic == topic
        and guess.joint >= 0
        and drive.effort is not None
        and _torque_scale(scorer, found, other)[0] is None
        for other, (drive, guess) in enumerate(zip(scorer.drives, found.guesses, strict=True))
    )


def _command(scorer: Scorer, found: BestHypothesis, row: int) -> _Reading | None:
    """Return how the command of a drive is read; None without one that its actuator takes."""
    drive, guess = scorer.drives[row], found.guesses[row]
    joint = scorer.joints[guess.joint]
    if drive.command is None or joint.law is None or joint.law.commanded is not drive.commanded:
        return None
    columns = drive.command.columns
    column = columns.get(drive.commanded) or columns.get(None)
    if column is None:
        return None
    unit = drive.command_unit(guess.unit, hinge=joint.hinge)
    scale = guess.sign * drive.command_sign * unit.factor
    follows = abs(drive.following.correlation)
    notes = [
        f'{drive.axis.name} follows it (correlation {follows:.2f})'
        if follows >= LEAST_CORRELATION
        else 'same name as what is measured',
        _identity(scorer, found, row),
        *_notes(scale, unit.name, 0.0, joint),
    ]
    score = _score(found, row, Choice.JOINT, Choice.SIGN, Choice.UNIT, Choice.OFFSET)
    reading = _Reading(column, scale, 0.0, min(score, _limit(scorer, found, row)), _join(notes))
    return _asked(reading, _questions(scorer, found, row).get(None, ''))


def _identity(scorer: Scorer, found: BestHypothesis, row: int) -> str:
    """Say why a drive is its joint."""
    drive, guess = scorer.drives[row], found.guesses[row]
    joint = scorer.joints[guess.joint]
    alike = float(scorer.alike[row, guess.joint])
    motion = found.verdict.parts[row][1]
    proof = f', {1 - motion:.0%} of its torque explained' if motion < _EXPLAINED else ''
    if alike >= SAME_CORE:
        return in_words(alike) + proof
    namesake = int(np.argmax(scorer.alike[row]))
    if scorer.alike[row, namesake] >= SAME_CORE:
        other = scorer.joints[namesake].name
        return f'named {drive.axis.name} in the bag, but moves as {joint.name}, not {other}{proof}'
    place = '' if drive.axis.named else ', by its place in the message'
    return f'{in_words(alike)}{place}{proof}'


def _notes(scale: float, unit: str, offset: float, joint: ModelJoint) -> list[str]:
    """Say what is unusual about a scale and an offset."""
    notes = []
    if abs(scale) != 1.0:
        notes.append(f'in {unit}')
    if scale < 0:
        notes.append('sign reversed')
    if offset:
        notes.append(f'offset {offset:+.4g} {"rad" if joint.hinge else "m"}')
    return notes


def _join(notes: list[str]) -> str:
    return '; '.join(dict.fromkeys(notes))


def _score(found: BestHypothesis, row: int, *choices: Choice) -> float:
    margins = [found.margins[row, choice] for choice in choices if (row, choice) in found.margins]
    return min(1.0 / (1.0 + math.exp(-min(margins, default=0.0))), _HIGHEST)


def _follow(
    readings: dict[tuple[int, Quantity], _Reading], mechanism: Mechanism, axes: tuple[Axis, ...]
) -> None:
    """Add joints that others drive by an equality constraint, in place."""
    model = mechanism.model
    measured = [axis for axis in axes if not axis.commanded]
    names = [axis.name for axis in measured]
    for follower in mechanism.followers:
        own = similarities(names, [model.joint(follower.joint).name])
        row = int(np.argmax(own)) if names else -1
        if row >= 0 and own[row, 0] >= SAME_CORE:
            score, reason = float(own[row, 0]), in_words(float(own[row, 0]))
            for quantity, column in measured[row].columns.items():
                if quantity is not None:
                    reading = _Reading(column, 1.0, 0.0, score, reason)
                    readings[follower.joint, quantity] = reading
            continue
        leader = model.joint(follower.leader).name
        for moving, shift in ((Quantity.POSITION, follower.offset), (Quantity.VELOCITY, 0.0)):
            source = readings.get((follower.leader, moving))
            if source is not None:
                readings[follower.joint, moving] = source._replace(
                    scale=follower.ratio * source.scale,
                    offset=follower.ratio * source.offset + shift,
                    reason=f'follows {leader} by an equality constraint; {source.reason}',
                )


def _joint_sensors(
    model: mujoco.MjModel, mechanism: Mechanism, readings: dict[tuple[int, Quantity], _Reading]
) -> list[ProposedPair]:
    pairs = []
    for sensor, name in enumerate(sensor_names(model)):
        kind = mujoco.mjtSensor(model.sensor_type[sensor])
        element = int(model.sensor_objid[sensor])
        gear = 1.0
        reading = None
        if kind in SENSOR_FIELDS:
            reading = readings.get((element, SENSOR_FIELDS[kind]))
        elif kind in _OF_ACTUATORS and element in mechanism.driven:
            quantity, power = _OF_ACTUATORS[kind]
            gear = float(model.actuator_gear[element, 0]) ** power
            reading = readings.get((mechanism.driven[element][0].id, quantity))
        if name and reading is not None:
            pairs.append(_pair(PairRole.SENSOR, name, reading, gear, 0.0))
    return pairs


def _actuators(
    model: mujoco.MjModel, mechanism: Mechanism, commands: dict[int, _Reading | None]
) -> list[ProposedPair]:
    names = actuator_names(model)
    return [
        _pair(PairRole.ACTUATOR, names[actuator], reading, law.slope, law.intercept)
        for actuator, (joint, law) in sorted(mechanism.driven.items())
        if (reading := commands.get(joint.id)) is not None
    ]


def _pair(
    role: PairRole, name: str, reading: _Reading, slope: float, intercept: float
) -> ProposedPair:
    column = reading.column
    return ProposedPair(
        role,
        name,
        column.topic,
        column.field,
        (column.label,),
        slope * reading.scale,
        slope * reading.offset + intercept,
        reading.score,
        reading.reason,
        reading.kind,
    )


def _not_taken(scorer: Scorer, found: BestHypothesis) -> dict[int, str]:
    """Return actuator to why it does not take what its joint is commanded."""
    reasons = {}
    for drive, guess in zip(scorer.drives, found.guesses, strict=True):
        law = scorer.joints[guess.joint].law if guess.joint >= 0 else None
        if law is None or drive.command is None or law.commanded is drive.commanded:
            continue
        column = next(iter(drive.command.columns.values()))
        reasons[law.actuator] = (
            f'it takes {law.commanded.value}s, its joint is commanded {drive.commanded.value}s by '
            f'{column.name}: give the model actuators of that kind'
        )
    return reasons


def _unmapped(
    bag: BagColumns, model: mujoco.MjModel, pairs: list[ProposedPair], not_taken: dict[int, str]
) -> tuple[Unmapped, ...]:
    used = {(pair.role, pair.name) for pair in pairs}
    reasons = {
        (PairRole.ACTUATOR, actuator_names(model)[actuator]): reason
        for actuator, reason in not_taken.items()
    }
    found = [
        Unmapped(
            UnmappedKind(role.value),
            name or '(unnamed)',
            reasons.get((role, name), 'nothing in the bag is like it'),
        )
        for role, names in (
            (PairRole.SENSOR, sensor_names(model)),
            (PairRole.ACTUATOR, actuator_names(model)),
        )
        for name in names
        if (role, name) not in used
    ]
    columns = {(pair.topic, pair.field, label) for pair in pairs for label in pair.labels}
    for topic in bag.topics:
        for field in topic.fields:
            unsigned = field.name == Quantity.EFFORT.value and are_magnitudes(field)
            reason = UNSIGNED if unsigned else 'no sensor or actuator of the model is like it'
            names = [
                label for label in field.labels if (topic.topic, field.name, label) not in columns
            ]
            if len(names) == len(field.labels):
                found.append(Unmapped(UnmappedKind.COLUMN, f'{topic.topic} {field.name}', reason))
            else:
                found += [
                    Unmapped(
                        UnmappedKind.COLUMN, column_name(topic.topic, field.name, label), reason
                    )
                    for label in names
                ]
    return (*found, *(Unmapped(UnmappedKind.TOPIC, item.topic, item.reason) for item in bag.unread))


def mapping_of(proposal: Proposal) -> MappingConfig:
    """Return the pairs that may be used without a look, as `to_yaml` writes them."""
    sections: dict[PairRole, dict[str, ChannelMapping]] = {role: {} for role in PairRole}
    for pair in proposal.pairs:
        if pair.confident:
            alone = len(pair.labels) == 1
            sections[pair.role][pair.name] = ChannelMapping(
                topic=pair.topic,
                field=pair.field,
                label=pair.labels[0] if alone else None,
                labels=None if alone else pair.labels,
                scale=pair.scale,
                offset=pair.offset,
                kind=(pair.kind or EffortKind.TORQUE).value,
            )
    return MappingConfig(sensors=sections[PairRole.SENSOR], actuators=sections[PairRole.ACTUATOR])


def to_yaml(proposal: Proposal, model: str, notes: Sequence[str] = ()) -> str:
    """Return a mapping file with notes; pairs that are not certain are commented out."""
    lines = [
        f'# Proposed by sysid map for bag {one_line(proposal.bag)} and model {one_line(model)}.',
        f'# It looked at {proposal.seconds:.0f} s of motion. The number above a pair is its score.',
        f'# Pairs below {CONFIDENCE:g} are commented out: look at them, correct them, drop the #.',
        '# The value in the model is scale * bag value + offset.',
        '# Use it with `mapping: THIS_FILE` in calibration.yaml.',
        *(f'# {one_line(note)}' for note in notes),
    ]
    for role, title in ((PairRole.SENSOR, 'sensors'), (PairRole.ACTUATOR, 'actuators')):
        pairs = [pair for pair in proposal.pairs if pair.role is role]
        nothing = not any(pair.confident for pair in pairs)
        lines += ['', f'{title}: {{}}' if nothing else f'{title}:']
        if nothing and pairs:
            lines.append(f'# Remove the {{}} behind {title} when you use one of these:')
        for pair in pairs:
            start = '  ' if pair.confident else '  # '
            lines.append(f'  # {pair.score:.2f} {one_line(pair.reason)}')
            lines += [f'{start}{line}' for line in block_entry(pair.name, f'{{{_entry(pair)}}}')]
    if proposal.unmapped:
        lines += ['', '# Without a counterpart:']
        lines += [
            f'#   {item.kind.value} {one_line(item.name)}: {one_line(item.reason)}'
            for item in proposal.unmapped
        ]
    return '\n'.join(lines) + '\n'


def _entry(pair: ProposedPair) -> str:
    parts = [f'topic: {scalar(pair.topic)}', f'field: {scalar(pair.field)}']
    if len(pair.labels) == 1:
        parts.append(f'label: {scalar(pair.labels[0])}')
    else:
        parts.append(f'labels: [{", ".join(map(scalar, pair.labels))}]')
    if pair.scale != 1.0:
        parts.append(f'scale: {pair.scale:.{_DIGITS}g}')
    if pair.offset:
        parts.append(f'offset: {pair.offset:.{_OFFSET_DIGITS}g}')
    if pair.kind not in {None, EffortKind.TORQUE}:
        parts.append(f'kind: {pair.kind}')
    return ', '.join(parts)


class PairSummary(NamedTuple):
    """A `ProposedPair`, and whether a mapping uses it unless somebody says otherwise."""

    role: PairRole
    name: str
    topic: str
    field: str
    labels: tuple[str, ...]
    scale: float
    offset: float
    score: float
    reason: str
    kind: EffortKind | None
    used: bool


class ProposalSummary(NamedTuple):
    """A `Proposal` with what decides: pairs from the score ``confidence`` on are used."""

    bag: str
    seconds: float
    confidence: float
    pairs: tuple[PairSummary, ...]
    unmapped: tuple[Unmapped, ...]


def summary(proposal: Proposal) -> ProposalSummary:
    """Return what ``sysid map`` says as JSON."""
    pairs = tuple(PairSummary(*pair, used=pair.confident) for pair in proposal.pairs)
    return ProposalSummary(proposal.bag, proposal.seconds, CONFIDENCE, pairs, proposal.unmapped)

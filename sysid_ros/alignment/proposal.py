# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A proposal for a mapping: which column is which sensor or actuator, in which unit, and why."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np

from sysid_ros.alignment.axes import (
    Axis,
    AxisColumn,
    EffortKind,
    RecordedJoint,
    check_one_arm,
    find_axes,
    find_leaders,
    make_motion,
    recorded_joints,
)
from sysid_ros.alignment.health import CLEAR, MOST
from sysid_ros.alignment.pairing import commands_by_name, lacking_quantity, with_all
from sysid_ros.alignment.pairs import (
    EVEN,
    EXACT,
    SAME_CORE,
    SAME_LETTERS,
    SENSOR_FIELDS,
    Pair,
    PairRole,
    Unmapped,
    UnmappedKind,
    actuator_names,
    in_words,
    not_read,
    scalar_joints,
    sensor_names,
    similarities,
    without_counterpart,
)
from sysid_ros.alignment.search import Choice, Guess, Mechanism, ModelJoint, Scorer, search
from sysid_ros.alignment.vectors import vector_pairs
from sysid_ros.bags import BagColumns
from sysid_ros.config.schema import ChannelMapping, MappingConfig
from sysid_ros.errors import AlignmentError, one_line
from sysid_ros.model.elements import driven_joint
from sysid_ros.model.loading import (
    add_actuators,
    compile_spec,
    implied_actuators,
)
from sysid_ros.text import block_entry, scalar
from sysid_ros.vocabulary import Quantity

#: Pairs with a lower score are written as comments.
CONFIDENCE = CLEAR

#: Sensor of an actuator to what it measures, and the power of the gear that acts on it.
_OF_ACTUATORS = {
    mujoco.mjtSensor.mjSENS_ACTUATORPOS: (Quantity.POSITION, 1),
    mujoco.mjtSensor.mjSENS_ACTUATORVEL: (Quantity.VELOCITY, 1),
    mujoco.mjtSensor.mjSENS_ACTUATORFRC: (Quantity.EFFORT, -1),
}


class ProposedPair(NamedTuple):
    """A sensor or actuator and the columns that it may be: ``scale × bag value + offset``.

    Labels are in the order of the sensor's values, the score from 0 to 1 is that of `propose`, and
    an effort is of a kind. A question is what only the user knows.
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
    question: str = ''

    @property
    def confident(self) -> bool:
        """Whether it may be used without a look."""
        return self.score >= CONFIDENCE


@dataclass(frozen=True)
class Proposal:
    """What ``sysid map`` found: sensors, then actuators, both in model order.

    Seconds are how much motion was looked at.
    """

    bag: str
    seconds: float
    pairs: tuple[ProposedPair, ...]
    unmapped: tuple[Unmapped, ...]


class _Reading(NamedTuple):
    """How a column of a bag becomes a quantity of a joint of the model."""

    column: AxisColumn
    scale: float
    offset: float
    score: float
    reason: str
    kind: EffortKind | None = None
    question: str = ''


def propose(
    bag: BagColumns, model: mujoco.MjModel, *, guessed: frozenset[str] = frozenset()
) -> Proposal:
    """Propose a mapping of a bag to a model.

    The score of a pair is the probability of its joint, sign, unit and offset against the best
    rival in any of these, ``1 / (1 + exp(-margin))``, where the margin is the difference of the
    hypotheses' logarithms of odds, at most 0.99. For sensors that measure
    no joint it says how unique the field is: 0.97 with a name in common, 0.93 without, at most 0.5
    where there are several. Below ``CONFIDENCE`` a pair must be confirmed by somebody who knows the
    robot. Gains of guessed actuators say nothing.

    Raises:
        AlignmentError: Nothing in the bag can be a sensor or actuator of the model.
    """
    mechanism = Mechanism(model, guessed)
    check_one_arm(bag, find_leaders(bag), scalar_joints(model))
    axes = find_axes(bag)
    motion = make_motion(axes)
    commanded = frozenset(joint.drive.commanded for joint in mechanism.joints if joint.drive)
    recorded = recorded_joints(axes, motion, commanded or frozenset({Quantity.POSITION}))
    seconds = motion.seconds if motion else 0.0
    reader = _Reader(Scorer(recorded, mechanism, seconds))
    readings = {
        (joint, quantity): reading
        for row, joint in reader.placed.items()
        for quantity, reading in reader.measured(row).items()
    }
    commands = {joint: reader.command(row) for row, joint in reader.placed.items()}
    _follow(readings, mechanism, axes)
    pairs = _joint_sensors(mechanism, readings)
    known = [
        Pair(*pair[:4], label, pair.scale, pair.offset) for pair in pairs for label in pair.labels
    ]
    pairs += [
        ProposedPair(PairRole.SENSOR, *each[:5], 0.0, each.score, each.reason)
        for each in vector_pairs(bag, model, known)
    ]
    order = sensor_names(model)
    pairs.sort(key=lambda pair: order.index(pair.name))
    names = actuator_names(model)
    pairs += [
        _pair(PairRole.ACTUATOR, names[actuator], reading, joint.drive.slope, joint.drive.intercept)
        for actuator, joint in sorted(mechanism.driven.items())
        if joint.drive and (reading := commands.get(joint.id)) is not None
    ]
    if not any(pair.role is PairRole.SENSOR for pair in pairs):
        topics = ', '.join(topic.topic for topic in bag.topics) or 'none'
        joints = ', '.join(joint.name for joint in mechanism.joints) or 'none'
        labels = ', '.join(axis.name for axis in axes if not axis.commanded) or 'none'
        raise AlignmentError(
            f'Nothing in {bag.path.name!r} can be a sensor of the model: expected positions, '
            f'velocities or efforts of joints, or an IMU, a wrench or a pose; topics: {topics}; '
            f'measured joints of the bag: {labels}; joints of the model: {joints}'
            f'{"".join(f"; {reason}" for reason in not_read(bag.unread))}.'
        )
    # Motion tells what moves a joint alone, names what moves several.
    named = commands_by_name(bag, model)
    guesses = {item.subject: item.detail for item in named.health}
    for pair in named.pairs:
        if driven_joint(model, pair.name) < 0:
            guess = guesses.get(pair.topic, '')
            score, reason = (EVEN, guess) if guess else (SAME_LETTERS, 'same name')
            where = pair.topic, pair.field, (pair.label,)
            pairs.append(ProposedPair(pair.role, pair.name, *where, 1.0, 0.0, score, reason))
    pairs.sort(key=lambda pair: pair.role is PairRole.ACTUATOR and 1 + names.index(pair.name))
    elements = {(pair.role, pair.name) for pair in pairs}
    columns = {(pair.topic, pair.field, label) for pair in pairs for label in pair.labels}
    used = {topic for topic, *_ in columns}
    without = [
        item for item in reader.not_taken() if (PairRole.ACTUATOR, item.name) not in elements
    ]
    without += [item for item in named.unmapped if item.name not in used]
    reason = 'nothing in the bag is like it'
    unmapped = without_counterpart(bag, model, elements, columns, without, reason)
    return Proposal(bag.path.name, seconds, tuple(pairs), unmapped)


class _Reader:
    """Says how the columns of a bag's joints are read by the best hypothesis."""

    def __init__(self, scorer: Scorer) -> None:
        """Look for the best hypothesis, by which each row is a joint of the model."""
        self._scorer = scorer
        self._found = search(scorer)
        self.placed = {
            row: scorer.joints[guess.joint].id
            for row, guess in enumerate(self._found.guesses)
            if guess.joint >= 0
        }
        self._told = any(self.command(row) is not None for row in self.placed)

    def _parts(self, row: int) -> tuple[RecordedJoint, Guess, ModelJoint]:
        guess = self._found.guesses[row]
        return self._scorer.recorded[row], guess, self._scorer.joints[guess.joint]

    def _score(self, row: int, *choices: Choice) -> float:
        """Return how sure choices are; torques prove more of a joint than names."""
        span = self._scorer.recorded[row].span
        known = {Choice.UNIT} if span is not None and span.certain else set()
        margins = (self._found.margins.get((row, c), math.inf) for c in set(choices) - known)
        score = min(1.0 / (1.0 + math.exp(-min(margins))), EXACT)
        joint, alike = self._found.guesses[row].joint, self._scorer.alike
        others = (*np.delete(alike[:, joint], row), *np.delete(alike[row], joint))
        named_otherwise = alike[row, joint] < SAME_CORE <= max(others, default=0.0)
        explained = self._found.verdict.parts[row][1] < MOST
        doubtful = self._scorer.strange[row, joint] or (named_otherwise and not explained)
        return min(score, EVEN) if doubtful else score

    def measured(self, row: int) -> dict[Quantity, _Reading]:
        """Return how each measured column is read."""
        recorded, guess, joint = self._parts(row)
        name, questions = self._identity(row), self._questions(row)
        columns = recorded.axis.columns
        readings = {}
        if (position := columns.get(Quantity.POSITION)) is not None:
            scale, offset, unit_name = self._scorer.scaling(row, guess)
            shift = self._found.verdict.offsets[row]
            offset += shift
            notes = [name, *_notes(scale, unit_name, offset, joint)]
            if shift:
                notes.append('by the command it is held at')
            score = self._score(row, Choice.JOINT, Choice.SIGN, Choice.UNIT, Choice.OFFSET)
            readings[Quantity.POSITION] = _Reading(position, scale, offset, score, _join(notes))
        if (velocity := columns.get(Quantity.VELOCITY)) is not None:
            unit = recorded.velocity_unit(guess.unit, hinge=joint.hinge)
            follows = recorded.speeding.correlation
            known = abs(follows) >= MOST
            scale = guess.sign * unit.factor * (-1 if known and follows < 0 else 1)
            notes = [name, *_notes(scale, unit.name, 0.0, joint)]
            if known:
                notes.append(f'the derivative of the position (correlation {abs(follows):.2f})')
            score = self._score(row, Choice.JOINT, Choice.SIGN, Choice.UNIT)
            readings[Quantity.VELOCITY] = _Reading(velocity, scale, 0.0, score, _join(notes))
        if (effort := columns.get(Quantity.EFFORT)) is not None:
            readings[Quantity.EFFORT] = self._effort(row, effort)
        return {
            quantity: _asked(reading, questions.get(quantity, ''))
            for quantity, reading in readings.items()
        }

    def _questions(self, row: int) -> dict[Quantity | None, str]:
        """Return what of a joint is asked for, None being its command."""
        recorded, guess, joint = self._parts(row)
        span, known = recorded.span, math.isfinite(joint.high - joint.low)
        if span is not None and not (span.certain and known) and (span.certain or guess.unit.cost):
            scale, offset, _ = self._scorer.scaling(row, guess, parts=True)
            question = (
                f'or in {span.low:g} to {span.high:g} of its range, which nothing recorded tells: '
                f'scale: {scale:.5g}, offset: {offset:.5g} of {"the model" if known else "a turn"}'
            )
            return {Quantity.POSITION: question, None: question}
        if not joint.hinge and guess.unit.cost > 0:
            question = f'only its range says that it is in {guess.unit.name}: give its scale'
            return {Quantity.POSITION: question, Quantity.VELOCITY: question, None: question}
        return recorded.doubtful(hinge=joint.hinge)

    def _effort(self, row: int, column: AxisColumn) -> _Reading:
        """Return how an effort is read: as a torque, or in the scale of the model's masses.

        The scale of what is no torque is asked for where commands say what drove the robot. Where
        nothing else does, a fit finds it.
        """
        _, guess, joint = self._parts(row)
        score = self._score(row, Choice.JOINT, Choice.SIGN)
        si = Quantity.EFFORT.unit(slide=not joint.hinge)
        scale, times = float(guess.sign * guess.effort_sign), self._contradiction(row)
        kind, notes = column.kind, [self._identity(row)]
        if times is None:
            notes += [*_notes(scale, si, 0.0, joint), 'taken as torque']
            if scale != guess.sign:
                score = min(score, self._score(row, Choice.EFFORT))
            if self._beside_currents(row):
                notes.append('others of its message are no torques')
                if self._told:
                    score = min(score, EVEN)
                elif kind is EffortKind.TORQUE:
                    kind = EffortKind.CURRENT
            return _Reading(column, scale, 0.0, score, _join(notes), kind)
        scale = self._scorer.torque_per_unit(row, self._found)
        scale = scale if math.isfinite(scale) else guess.sign / times
        known = math.isfinite(scale)
        size = f'about {scale:.2g} {si} per unit by the model' if known else 'scale unknown'
        named = f'a {kind} by its name'
        if kind is EffortKind.TORQUE:
            kind, named = EffortKind.CURRENT, f'no torque in {si} but a current or the like'
        notes.append(f'{named}: {size}')
        if self._told or column.unsigned:
            score = min(score, EVEN)
        return _Reading(column, scale if known else 1.0, 0.0, score, _join(notes), kind)

    def _contradiction(self, row: int) -> float | None:
        """Return how many times what the model needs an effort is; None where it is a torque.

        It is one as messages say, unless its name or what the model needs contradicts; NaN where
        only the name does.
        """
        recorded, guess, _ = self._parts(row)
        scale, found = float(guess.sign * guess.effort_sign), self._found
        times = self._scorer.contradiction(row, found, scale)
        return math.nan if times is None and recorded.own_efforts else times

    def _beside_currents(self, row: int) -> bool:
        """Whether efforts of other joints in a joint's message are in units of their own."""
        recorded = self._scorer.recorded
        return any(
            recorded[other].axis.topic == recorded[row].axis.topic
            and recorded[other].effort is not None
            and self._contradiction(other) is not None
            for other in self.placed
        )

    def command(self, row: int) -> _Reading | None:
        """Return how a command is read; None without one that the joint's actuator takes."""
        recorded, guess, joint = self._parts(row)
        if recorded.command is None or joint.drive is None:
            return None
        columns = recorded.command.columns
        column = columns.get(recorded.commanded) or columns.get(None)
        if column is None or joint.drive.commanded is not recorded.commanded:
            return None
        scale, offset, unit_name = self._scorer.scaling(row, guess, command=True)
        follows = abs(recorded.following.correlation)
        notes = [
            f'{recorded.axis.name} follows it (correlation {follows:.2f})'
            if follows >= MOST
            else 'same name as what is measured',
            self._identity(row),
            *_notes(scale, unit_name, offset, joint),
        ]
        score = self._score(row, Choice.JOINT, Choice.SIGN, Choice.UNIT, Choice.OFFSET)
        question, kind = self._questions(row).get(None, ''), None
        if recorded.commanded is Quantity.EFFORT and column.kind is not EffortKind.TORQUE:
            question, kind = f'a {column.kind} by its name: give its scale', column.kind
        return _asked(_Reading(column, scale, offset, score, _join(notes), kind), question)

    def not_taken(self) -> list[Unmapped]:
        """Return the actuators that do not take what their joint is commanded."""
        found = []
        for row in self.placed:
            recorded, _, joint = self._parts(row)
            drive = joint.drive
            if drive is None or recorded.command is None or drive.commanded is recorded.commanded:
                continue
            column = next(iter(recorded.command.columns.values()))
            reason = (
                f'it takes {drive.commanded}s, its joint is commanded {recorded.commanded}s by '
                f'{column.name}: give the model actuators of that kind'
            )
            found.append(Unmapped(UnmappedKind.ACTUATOR, drive.name, reason))
        return found

    def _identity(self, row: int) -> str:
        """Say why a joint of the bag is its joint of the model."""
        recorded, guess, joint = self._parts(row)
        alike = float(self._scorer.alike[row, guess.joint])
        motion = self._found.verdict.parts[row][1]
        proof = f', {1 - motion:.0%} of its torque explained' if motion < MOST else ''
        if alike >= SAME_CORE:
            return in_words(alike) + proof
        namesake = int(np.argmax(self._scorer.alike[row]))
        if self._scorer.alike[row, namesake] >= SAME_CORE:
            moves = f'moves as {joint.name}, not {self._scorer.joints[namesake].name}'
            return f'named {recorded.axis.name} in the bag, but {moves}{proof}'
        place = '' if recorded.axis.named else ', by its place in the message'
        return f'{in_words(alike)}{place}{proof}'


def _asked(reading: _Reading, question: str) -> _Reading:
    """Return a reading that is not used before somebody answers a question."""
    if not question:
        return reading
    score = min(reading.score, EVEN)
    reason = f'{reading.reason}; {question}'
    return reading._replace(score=score, reason=reason, question=question)


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


def _follow(
    readings: dict[tuple[int, Quantity], _Reading], mechanism: Mechanism, axes: tuple[Axis, ...]
) -> None:
    """Add joints that others drive by an equality constraint, where they are measured, in place."""
    model = mechanism.model
    measured = [axis for axis in axes if not axis.commanded]
    names = [axis.name for axis in measured]
    for follower in mechanism.followers:
        own = similarities(names, [model.joint(follower.joint).name])
        row = int(np.argmax(own)) if names else -1
        if row < 0 or own[row, 0] < SAME_CORE:
            continue
        score, reason = float(own[row, 0]), in_words(float(own[row, 0]))
        for quantity, column in measured[row].columns.items():
            leader = readings.get((follower.leader, quantity)) if quantity is not None else None
            if quantity is None or (
                leader is not None
                and follower.is_computed(
                    quantity, column.values, leader.scale * leader.column.values + leader.offset
                )
            ):
                continue
            readings[follower.joint, quantity] = _Reading(column, 1.0, 0.0, score, reason)


def _joint_sensors(
    mechanism: Mechanism, readings: dict[tuple[int, Quantity], _Reading]
) -> list[ProposedPair]:
    model, pairs = mechanism.model, []
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
            reading = readings.get((mechanism.driven[element].id, quantity))
        if name and reading is not None:
            pairs.append(_pair(PairRole.SENSOR, name, reading, gear, 0.0))
    return pairs


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
        reading.question,
    )


def mapping_of(proposal: Proposal, *, asked: bool = False) -> MappingConfig:
    """Return the pairs that may be used without a look, and if wanted those that are asked for."""
    sections: dict[PairRole, dict[str, ChannelMapping]] = {role: {} for role in PairRole}
    for pair in proposal.pairs:
        if pair.confident or (asked and pair.question):
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
        parts.append(f'scale: {pair.scale:.10g}')
    if pair.offset:
        parts.append(f'offset: {pair.offset:.5g}')
    if pair.kind not in {None, EffortKind.TORQUE}:
        parts.append(f'kind: {pair.kind}')
    return ', '.join(parts)


def summary(proposal: Proposal) -> dict[str, Any]:
    """Return what ``sysid map`` says as JSON; pairs from the score ``confidence`` on are used."""
    pairs = [pair._asdict() | {'used': pair.confident} for pair in proposal.pairs]
    return vars(proposal) | {'confidence': CONFIDENCE, 'pairs': pairs}


def propose_with_actuators(spec: mujoco.MjSpec, path: Path, bag: BagColumns) -> Proposal:
    """Propose a mapping, where nothing in the model takes the commands to actuators that are added.

    Actuators that are proposed are added to the spec that the file was parsed to.

    Raises:
        AlignmentError: Nothing in the bag can be a sensor or actuator of the model.
        ModelError: The model does not compile.
    """
    quantity = lacking_quantity(spec, bag)
    if quantity is None:
        return propose(bag, compile_spec(spec, path))
    own = {actuator.name or '(unnamed)' for actuator in spec.actuators}
    trial = with_all(spec, quantity)
    guessed = frozenset(implied_actuators(trial))
    found = propose(bag, compile_spec(trial, path), guessed=guessed)
    add_actuators(spec, [pair.name for pair in found.pairs if pair.role is PairRole.ACTUATOR])
    unmapped = tuple(
        item
        for item in found.unmapped
        if item.kind is not UnmappedKind.ACTUATOR or item.name not in guessed | own
    )
    return dataclasses.replace(found, unmapped=unmapped)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The arms and joints of a robot as a bag shows them: columns, motion, commands, units.

Arms have topics of their own (``/left/joint_states``) or joints with a side in their names
(``left_elbow``). In teleoperation a leader is moved by hand, and a follower is commanded to be
where the leader is: the positions of the leader are the follower's commands.
"""

from __future__ import annotations

import enum
import functools
import itertools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used: half of a node's start otherwise
from numpy.typing import NDArray

from sysid_ros.alignment.health import (
    CLEAR,
    FACTOR,
    LITTLE,
    MOST,
    RESPONSE_S,
    ROUNDING,
    are_magnitudes,
    away_from_gaps,
)
from sysid_ros.alignment.pairs import (
    column_name,
    controller_facts,
    field_columns,
    meaning_of,
    name_words,
    topic_labels,
)
from sysid_ros.alignment.stamps import longest_increasing
from sysid_ros.bags import BagColumns, Field, Span, TopicColumns, UnreadTopic
from sysid_ros.bags.message_types import CONTROLLER_STATE, JOINT_STATE, JOINT_TRAJECTORY, canonical
from sysid_ros.errors import AlignmentError, nearest
from sysid_ros.vocabulary import (
    COMMANDED,
    CURRENT,
    PWM,
    SECOND_NS,
    Quantity,
    is_command,
    quantity_of,
    words_of,
)

#: Distance of the instants, s; larger where the measurements are further apart.
_STEP_S = 0.01
#: Length, s, and order of the Savitzky–Golay filter, which has so many instants at least.
_WINDOW_S, _ORDER = 0.15, 3
_WINDOW = 2 * _ORDER + 1
#: Longest stretch that is looked at, s: the liveliest of the bag.
_LONGEST_S = 120.0
#: A later lag, or another hypothesis, must be better by this much.
LEAST_GAIN = 1e-3
#: Instants at which hypotheses are judged.
_SAMPLES = 250
#: A weak servo goes a fifth of its way, which is not yet a revolution per radian.
_WEAK = 0.2
#: Tolerances of a ratio's natural logarithm, for a unit that a servo's response tells, and for one
#: that a derivative tells: velocities that are read in step with the commands of a stiff servo are
#: up to .08 off the mean.
_LOOSE, _TIGHT = 0.3, 0.1
#: Weight of equal names, and of levels that agree, beside a correlation, when commands are bound.
_BONUS = 0.2
_SIDES = frozenset({'left', 'right'})
#: Words for an arm that is moved by hand, and for one that follows it.
_LEADS = frozenset({'lead', 'leader', 'master', 'teacher', 'teleop', 'operator'})
_FOLLOWS = frozenset({'follow', 'follower', 'puppet', 'slave', 'replica'})


class Arm(NamedTuple):
    """One of several arms, named by the side, or by what its topic does not share with the others'.

    The topic is that of its measured state; its joints' names are without the side.
    """

    name: str
    topic: str
    words: frozenset[str]
    joints: frozenset[str]


def find_arms(bag: BagColumns, leaders: dict[str, str]) -> tuple[Arm, ...]:
    """Return the arms that are measured; leaders are none, nor is what copies another topic."""
    states: list[TopicColumns] = []
    for topic in sorted(_states(bag), key=lambda item: -len(item.receive_ns)):
        if topic.topic not in leaders and not any(_is_copy(topic, other) for other in states):
            states.append(topic)
    states.sort(key=lambda topic: topic.topic)
    levels = [topic.topic.strip('/').split('/') for topic in states]
    shared = set.intersection(*(set(level) for level in levels)) if len(levels) > 1 else set()
    found = []
    for topic, level in zip(states, levels, strict=True):
        own = '/'.join(part for part in level if part not in shared) if len(states) > 1 else ''
        joints: dict[frozenset[str], set[str]] = {frozenset(): set(topic_labels(topic))}
        if _SIDES.isdisjoint(name_words(topic.topic)):
            joints = _by_side(topic_labels(topic)) or joints
        for side, names in joints.items():
            name = '/'.join(part for part in (own, *sorted(side)) if part) or topic.topic
            words = frozenset(name_words(own)) | side
            found.append(Arm(name, topic.topic, words, frozenset(names)))
    return tuple(found)


def _rivals(arms: Sequence[Arm]) -> list[Arm]:
    """Return the arms whose joints another arm has, too: all of them, as twins do."""
    joints = [arm.joints for arm in arms]
    return [arm for arm in arms if joints.count(arm.joints) > 1]


def find_leaders(bag: BagColumns) -> dict[str, str]:
    """Return the topic of each leader to that of its follower.

    A leader says so by its name, which else is the follower's, and has most of its joints.
    """
    found = {}
    for leader, follower in itertools.permutations(_states(bag), 2):
        words, others = set(name_words(leader.topic)), set(name_words(follower.topic))
        shared = set(topic_labels(leader)) & set(topic_labels(follower))
        alike = words - _LEADS == others - _FOLLOWS
        if words & _LEADS and alike and 2 * len(shared) >= len(topic_labels(follower)):
            found[leader.topic] = follower.topic
    return found


def in_namespace(bag: BagColumns, namespace: str) -> BagColumns:
    """Return what of a bag belongs to one arm, or to none in particular.

    The namespace is words of a topic's path, such as ``left`` or ``/robot/arm_1``, or of joints;
    empty where all of the bag is one robot's.

    Raises:
        AlignmentError: No topic and no joint has them.
    """
    if not namespace:
        return bag
    named = frozenset(name_words(namespace))
    # A leader comes with the follower that is asked for.
    wanted = named - _FOLLOWS or named
    arms = find_arms(bag, {})
    chosen = [arm for arm in arms if wanted <= arm.words | set(name_words(arm.topic))]
    mine = wanted.union(*(arm.words for arm in chosen))
    others = frozenset().union(*(arm.words for arm in arms if arm not in chosen)) - mine - _LEADS
    kept, unread, found = [], list(bag.unread), False
    for topic in bag.topics:
        path = frozenset(name_words(topic.topic))
        words = {label: path | set(name_words(label)) for label in topic_labels(topic)}
        found = found or any(wanted <= each for each in words.values())
        left = [label for label, each in words.items() if not wanted <= each and others & each]
        fields = []
        for field in topic.fields:
            columns = [index for index, label in enumerate(field.labels) if label not in left]
            labels = tuple(field.labels[index] for index in columns)
            if labels:
                fields.append(replace(field, labels=labels, values=field.values[:, columns]))
        if fields:
            kept.append(replace(topic, fields=tuple(fields)))
        if left:
            reason = f'not of the namespace {namespace}'
            reason += f': {", ".join(left)}' if fields else ''
            count = len(topic.receive_ns)
            unread.append(UnreadTopic(topic.topic, topic.msgtype, count, reason))
    if not wanted or not found:
        names = list(dict.fromkeys(arm.name for arm in arms))
        raise AlignmentError(
            f'No topic and no joint of {bag.path.name!r} has the namespace {namespace!r}; '
            f'{nearest(namespace, names)}.'
        )
    return replace(bag, topics=tuple(kept), unread=tuple(unread))


def _prefixes(bag: BagColumns, leaders: dict[str, str]) -> dict[str, str]:
    """Return topic to what tells its arm from others that call their joints the same."""
    several = _rivals(find_arms(bag, leaders))
    common = frozenset.intersection(*(arm.words for arm in several)) if several else frozenset()
    found = {}
    for topic in bag.topics:
        path = set(name_words(leaders.get(topic.topic, topic.topic)))
        for arm in several:
            own = arm.words - common
            if own and own <= path:
                found[topic.topic] = '_'.join(sorted(own))
    return found


def check_one_arm(bag: BagColumns, leaders: dict[str, str], joints: Iterable[str]) -> None:
    """Check that a bag does not hold several arms where the model, of these joints, is one.

    Raises:
        AlignmentError: It does; the sentence names them.
    """
    several = _rivals(find_arms(bag, leaders))
    most = max(_states(bag), key=lambda topic: len(topic.receive_ns), default=None)
    if most is None or most.topic not in {arm.topic for arm in several}:
        return  # what the others have is said, too, by the topic that says most
    told_apart = {word for joint in joints for word in name_words(joint)}
    common = frozenset.intersection(*(arm.words for arm in several))
    if not all((arm.words - common) & told_apart for arm in several):
        names = ', '.join(dict.fromkeys(arm.name for arm in several))
        raise AlignmentError(
            f'The bag {bag.path.name!r} holds several arms with the same joints, {names}, and the '
            f'model is one of them: choose with `--namespace {several[0].name}`, '
            f'or `namespace: {several[0].name}` in calibration.yaml.'
        )


def _states(bag: BagColumns) -> list[TopicColumns]:
    """Return the topics that measure positions of joints."""
    return [
        topic
        for topic in bag.topics
        if canonical(topic.msgtype) == JOINT_STATE
        and not is_command(topic.topic)
        and field_columns(topic, Quantity.POSITION) is not None
    ]


def _by_side(labels: Sequence[str]) -> dict[frozenset[str], set[str]]:
    """Return side to the joints there, without it; nothing where few have a side, as fingers."""
    found: dict[frozenset[str], set[str]] = {}
    for label in labels:
        words = name_words(label)
        side = frozenset(_SIDES.intersection(words))
        if side:
            joint = '_'.join(word for word in words if word not in _SIDES)
            found.setdefault(side, set()).add(joint)
    return found if 2 * sum(map(len, found.values())) > len(labels) else {}


def _is_copy(topic: TopicColumns, other: TopicColumns) -> bool:
    """Whether a topic says of all joints that it shares with another what that says, too."""
    first, second = (field_columns(item, Quantity.POSITION) for item in (topic, other))
    if first is None or second is None:
        return False
    begin = max(item.receive_ns[0] for item in (topic, other))
    end = min(item.receive_ns[-1] for item in (topic, other))
    rows = (topic.receive_ns >= begin) & (topic.receive_ns <= end)
    shared = [label for label in first.labels if label in second.labels]
    for label in shared:
        there = second.values[:, second.labels.index(label)]
        known = np.isfinite(there)
        values = first.values[rows, first.labels.index(label)]
        if known.any() and np.isfinite(values).any():
            same = np.interp(topic.receive_ns[rows], other.receive_ns[known], there[known])
            apart = float(np.nanmedian(np.abs(values - same)))
            if apart > LITTLE * float(np.nanmax(there) - np.nanmin(there)):
                return False
    return bool(shared)


#: What is as large stands for nothing, as 2.146e9 for a position that is not asked for.
_NO_NUMBER = 1e9
#: An element of an array of structures.
_ELEMENT = re.compile(r'(.*)\[(\d+)\]')


class EffortKind(enum.StrEnum):
    """What a column of efforts holds."""

    TORQUE = 'torque'
    CURRENT = 'current'
    PWM = 'pwm'


class AxisColumn(NamedTuple):
    """One column of a bag, (n,) in its units."""

    topic: str
    field: str
    label: str
    receive_ns: NDArray[np.int64]
    header_ns: NDArray[np.int64] | None
    values: NDArray[np.float64]
    source: Field

    @classmethod
    def of(cls, topic: TopicColumns, field: Field, label: str) -> AxisColumn:
        """Take a column of a topic."""
        values = field.values[:, field.labels.index(label)]
        where = topic.topic, field.name, label, topic.receive_ns, topic.header_ns
        return cls(*where, values, field)

    @property
    def interpolated(self) -> bool:
        """Whether a command changes linearly from row to row; else it is held."""
        return self.source.interpolated

    @property
    def unsigned(self) -> bool:
        """Whether all columns of its field are magnitudes."""
        return are_magnitudes(self.source)

    @property
    def span(self) -> Span | None:
        """What positions are parts of, or may be; None where they are no parts."""
        return self.source.spans.get(self.label)

    @property
    def name(self) -> str:
        """How messages call it."""
        return column_name(self.topic, self.field, self.label)

    @property
    def kind(self) -> EffortKind:
        """What it holds by its name, if it holds efforts."""
        words = set(words_of(f'{self.topic}/{self.field}'))
        if words & CURRENT:
            return EffortKind.CURRENT
        return EffortKind.PWM if words & PWM else EffortKind.TORQUE


class Axis(NamedTuple):
    """Columns of one joint, measured or commanded, by quantity; None where names do not say which.

    The name is what the bag calls it, an index where it has none.
    """

    name: str
    commanded: bool
    columns: dict[Quantity | None, AxisColumn]

    @property
    def topic(self) -> str:
        """The topic of its first column."""
        return next(iter(self.columns.values())).topic

    @property
    def named(self) -> bool:
        """Whether the bag gives it a name."""
        return bool(self.name) and not self.name.isdigit()


def find_axes(bag: BagColumns) -> tuple[Axis, ...]:
    """Collect the axes of a bag; of several with one name the most telling is kept.

    Positions of leaders are commands where there are no others. The arm is in the names where
    several have the same joints.
    """
    leaders = find_leaders(bag)
    arms = _prefixes(bag, leaders)
    found: dict[tuple[str, str, str, bool], Axis] = {}
    meanings = {
        (topic.topic, field.name): meaning
        for topic in bag.topics
        for field in topic.fields
        if (meaning := meaning_of(topic, field)) is not None
    }
    # What a controller was told does not count where it says what it did.
    done = {
        label
        for topic in bag.topics
        if topic.msgtype == CONTROLLER_STATE
        for field in topic.fields
        if meanings.get((topic.topic, field.name), (None, False))[1]
        for label in field.labels
    }
    for topic in bag.topics:
        prefix = f'{arms[topic.topic]}_' if topic.topic in arms else ''
        for field in topic.fields:
            meaning = meanings.get((topic.topic, field.name))
            if meaning is None:
                _add_structure(found, topic, field)
                continue
            quantity, commanded = meaning
            commanded = commanded or topic.topic in leaders
            if quantity is Quantity.EFFORT and are_magnitudes(field):
                continue
            group = _without_quantity(topic.topic), field.name.rpartition('.')[0]
            if topic.msgtype == CONTROLLER_STATE:
                group = topic.topic, ''
            for label in field.labels:
                column = AxisColumn.of(topic, field, label)
                replaced = topic.msgtype == JOINT_TRAJECTORY and label in done
                if replaced or not np.isfinite(column.values).any():
                    continue
                name = prefix + _joint_name(bag, topic.topic, label)
                axis = found.setdefault((*group, label, commanded), Axis(name, commanded, {}))
                known = axis.columns.setdefault(quantity, column)
                if column.kind is EffortKind.TORQUE and known.kind is not EffortKind.TORQUE:
                    axis.columns[quantity] = column
    # A current that no joint is named for is a battery's.
    axes = [
        axis
        for axis in found.values()
        if axis.named or [column.kind for column in axis.columns.values()] != [EffortKind.CURRENT]
    ]
    asked = {axis.name for axis in axes if axis.commanded and axis.topic not in leaders}
    return _distinct([a for a in axes if a.topic not in leaders or a.name not in asked])


def _add_structure(
    found: dict[tuple[str, str, str, bool], Axis], topic: TopicColumns, field: Field
) -> None:
    """Add a joint of an array of structures, as ``motor_state[2]`` with ``q``, ``dq``, in place."""
    element = _ELEMENT.fullmatch(field.name)
    if element is None:
        return
    commanded = is_command(topic.topic) or bool(COMMANDED & set(words_of(element[1])))
    for label in field.labels:
        quantity, column = quantity_of(words_of(label)), AxisColumn.of(topic, field, label)
        if quantity is not None and np.isfinite(column.values).any():
            key = topic.topic, element[1], element[2], commanded
            axis = found.setdefault(key, Axis(element[2], commanded, {}))
            axis.columns.setdefault(quantity, column)


def _without_quantity(topic: str) -> str:
    """Return a topic without the word for its quantity: ``/joint_positions`` has a sibling."""
    return '/'.join(
        '_'.join(part for part in level.split('_') if quantity_of([part.lower()]) is None)
        for level in topic.split('/')
    )


def _joint_name(bag: BagColumns, topic: str, label: str) -> str:
    """Return what a column's joint is called: its label, or what its controller calls it."""
    if label and not label.isdigit():
        return label
    joints, _ = controller_facts(bag, topic)
    if label and int(label) < len(joints):
        return joints[int(label)]
    return label or topic.strip('/').replace('/', '_')


def _distinct(axes: list[Axis]) -> tuple[Axis, ...]:
    """Keep one axis per name and role: most quantities first, then the top of a message."""
    best: dict[tuple[object, ...], Axis] = {}
    for axis in axes:
        key = (axis.commanded, axis.name if axis.named else (axis.topic, axis.name))
        rival = best.get(key)
        if rival is None or _telling(axis) > _telling(rival):
            best[key] = axis
    return tuple(best.values())


def _telling(axis: Axis) -> tuple[int, bool, bool, int]:
    columns = list(axis.columns.values())
    moving = sum(float(np.nanmax(c.values) - np.nanmin(c.values)) > 0 for c in columns)
    at_top = '.' not in columns[0].field
    return moving, at_top, axis.topic.endswith('joint_states'), len(columns[0].values)


class SmoothSignal(NamedTuple):
    """A column at the common instants: (n,) values and first and second derivatives, 1/s, 1/s²."""

    values: NDArray[np.float64]
    rate: NDArray[np.float64]
    acceleration: NDArray[np.float64]

    def at(self, rows: NDArray[np.int64]) -> SmoothSignal:
        """Return it at some of the instants."""
        return SmoothSignal(*(item[rows] for item in self))

    def scaled(self, factor: float, offset: float = 0.0) -> SmoothSignal:
        """Return it in another unit and from another zero."""
        values = factor * self.values + offset
        return SmoothSignal(values, factor * self.rate, factor * self.acceleration)


class AxesMotion(NamedTuple):
    """What all axes did at (n,) instants with a step in s.

    Where all that was measured is known, (n,) ``whole`` is True. Signals are by index of the axis
    and quantity.
    """

    times: NDArray[np.float64]  # of the recorder's clock, s
    step: float
    whole: NDArray[np.bool_]
    signals: dict[tuple[int, Quantity | None], SmoothSignal]

    @property
    def seconds(self) -> float:
        """How much was looked at."""
        return float(np.count_nonzero(self.whole)) * self.step

    @property
    def judged(self) -> NDArray[np.int64]:
        """The instants at which hypotheses are judged."""
        known = np.flatnonzero(self.whole)
        spread = np.linspace(0, len(known) - 1, min(len(known), _SAMPLES))
        return known[spread.astype(np.int64)]

    def command(self, row: int, quantity: Quantity) -> SmoothSignal | None:
        """Return what an axis of commands holds of a quantity, if it may hold that."""
        return self.signals.get((row, quantity)) or self.signals.get((row, None))


def make_motion(axes: Sequence[Axis]) -> AxesMotion | None:
    """Bring all axes to common instants; None where there is no stretch that all share."""
    times = {id(column): _times(column) for axis in axes for column in axis.columns.values()}
    measured = [column for axis in axes if not axis.commanded for column in axis.columns.values()]
    measured = [column for column in measured if len(times[id(column)]) > _WINDOW]
    longest = max((float(np.ptp(times[id(column)])) for column in measured), default=0.0)
    # A topic that was there for a moment only must not hide what the others did.
    measured = [column for column in measured if np.ptp(times[id(column)]) >= longest / 2]
    spans = [times[id(column)] for column in measured]
    if not spans:
        return None
    begin, end = max(span[0] for span in spans), min(span[-1] for span in spans)
    step = max(_STEP_S, *(float(np.median(np.diff(span))) for span in spans))
    if end - begin < 2 * _WINDOW * step:
        return None
    instants = _liveliest(np.arange(begin, end, step), measured, times)
    window = max(_WINDOW, int(_WINDOW_S / step) // 2 * 2 + 1)
    kept = {id(column) for column in measured}
    signals = {}
    whole = np.ones(len(instants), dtype=bool)
    for row, axis in enumerate(axes):
        for quantity, column in axis.columns.items():
            known = np.abs(column.values) < _NO_NUMBER
            known &= longest_increasing(column.receive_ns)
            absent = not axis.commanded and id(column) not in kept
            if absent or np.count_nonzero(known) <= _WINDOW:
                continue
            own, values = times[id(column)][known], column.values[known]
            if axis.commanded and not column.interpolated:
                held = np.searchsorted(own, instants, side='right') - 1
                path = values[np.clip(held, 0, len(values) - 1)]
            else:
                several = round(step / max(float(np.median(np.diff(own))), 1e-9))
                if several > 1 and not column.interpolated:
                    values = scipy.ndimage.uniform_filter1d(values, several)
                path = np.interp(instants, own, values)
            if not axis.commanded:
                whole &= away_from_gaps(instants, own, 0.0)
            signals[row, quantity] = SmoothSignal(
                *(
                    scipy.signal.savgol_filter(path, window, _ORDER, deriv=deriv, delta=step)
                    for deriv in range(3)
                )
            )
    edge = window // 2
    whole[:edge] = whole[-edge:] = False
    # Nothing is missing within half of the filter's window.
    whole = scipy.ndimage.binary_erosion(whole, np.ones(2 * edge + 1), border_value=1)
    return AxesMotion(instants, step, whole, signals) if whole.any() else None


def _times(column: AxisColumn) -> NDArray[np.float64]:
    """Return the time of each row on the recorder's clock, s, with the steadiness of the header."""
    received = column.receive_ns
    header = column.header_ns
    times = received
    if header is not None and len(header) and header.all() and (np.diff(header) > 0).all():
        shift = int(np.median(received - header))
        if np.abs(received - header - shift).max() < SECOND_NS:
            times = header + shift
    # Doubles hold today's seconds to 0.3 µs.
    return times.astype(np.float64) / SECOND_NS


def at_instants(column: AxisColumn, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a column at (n,) times of a motion; NaN where it has no values."""
    known = np.isfinite(column.values) & longest_increasing(column.receive_ns)
    if not known.any():
        return np.full(len(times), np.nan)
    own = _times(column)[known]
    return np.interp(times, own, column.values[known], left=np.nan, right=np.nan)


def _liveliest(
    instants: NDArray[np.float64],
    measured: Sequence[AxisColumn],
    times: dict[int, NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Return the instants of the stretch in which all columns together change most."""
    count = int(_LONGEST_S / (instants[1] - instants[0]))
    if len(instants) <= count:
        return instants
    life = np.zeros(len(instants))
    for column in measured:
        known = np.isfinite(column.values)
        if known.any():
            path = np.interp(instants, times[id(column)][known], column.values[known])
            change = np.abs(np.diff(path, prepend=path[0]))
            life += change / max(float(change.sum()), 1e-300)
    sums = np.cumsum(np.concatenate([[0.0], life]))
    start = int(np.argmax(sums[count:] - sums[:-count]))
    return instants[start : start + count]


class Response(NamedTuple):
    """How a column follows another: correlation and slope at the lag of most agreement."""

    correlation: float = 0.0
    slope: float = 0.0


_NO_RESPONSE = Response()


def respond(
    command: NDArray[np.float64],
    response: NDArray[np.float64],
    motion: AxesMotion,
    *,
    longest: float = RESPONSE_S,
) -> Response:
    """Find how a (n,) response follows its (n,) command at the instants of a motion that count.

    Earlier lags, up to the longest, s, are preferred: a response far behind its command turns its
    sign.
    """
    best = _NO_RESPONSE
    for lag in range(int(longest / motion.step) + 1):
        count = len(command) - lag
        use = motion.whole[lag:] & motion.whole[:count]
        if np.count_nonzero(use) < 2 * _WINDOW:
            break
        a, b = command[:count][use], response[lag:][use]
        a, b = a - a.mean(), b - b.mean()
        size = float(np.sqrt((a @ a) * (b @ b)))
        found = float(a @ b) / size if size > ROUNDING else 0.0
        if abs(found) > abs(best.correlation) + LEAST_GAIN:
            best = Response(found, found * float(b.std() / a.std()))
    return best


def velocity_response(motion: AxesMotion, row: int) -> Response:
    """Return how the velocity of an axis follows the slope of its position; 0 if unknown."""
    position = motion.signals.get((row, Quantity.POSITION))
    velocity = motion.signals.get((row, Quantity.VELOCITY))
    if position is None or velocity is None:
        return _NO_RESPONSE
    return respond(position.rate, velocity.values, motion, longest=0.0)


class Unit(NamedTuple):
    """A unit: name, SI units per unit, and cost (minus the logarithm of its odds)."""

    name: str
    factor: float
    cost: float


#: Encoders have 2^n counts per turn.
_TICKS = tuple(
    Unit(f'counts of 2^{bits} per turn', 2 * math.pi / 2**bits, 3.5) for bits in range(8, 25)
)
_ANGLE = (
    Unit('rad', 1.0, 0.0),
    Unit('degrees', math.pi / 180, 3.0),
    Unit('revolutions', 2 * math.pi, 4.0),
)
_RATE = (
    *(unit._replace(name=f'{unit.name}/s') for unit in _ANGLE),
    Unit('rpm', 2 * math.pi / 60, 3.5),
)
_LENGTH = (Unit('m', 1.0, 0.0), Unit('mm', 1e-3, 3.0), Unit('cm', 1e-2, 4.0))
_SPEED = tuple(unit._replace(name=f'{unit.name}/s') for unit in _LENGTH)
_TORQUE = Unit('N·m', 1.0, 0.0)


@functools.cache
def units(quantity: Quantity, *, hinge: bool, whole: bool = False) -> tuple[Unit, ...]:
    """Return the units that a quantity may be in; counts of an encoder are whole numbers."""
    if not hinge:
        return _LENGTH if quantity is Quantity.POSITION else _SPEED
    if quantity is Quantity.POSITION:
        return _ANGLE + (_TICKS if whole else ())
    return _RATE + (tuple(u._replace(name=f'{u.name} and second') for u in _TICKS) if whole else ())


def _nearest_unit(factor: float, choices: Sequence[Unit], tolerance: float) -> Unit | None:
    """Return the least surprising unit whose factor agrees within a relative tolerance."""
    off = {unit: abs(math.log(unit.factor / factor)) / tolerance for unit in choices}
    fitting = [unit for unit in choices if off[unit] < 1.0]
    return min(fitting, key=lambda unit: unit.cost + off[unit] ** 2, default=None)


def _same_unit(position: Unit, quantity: Quantity, *, hinge: bool) -> Unit:
    """Return the unit of a command or velocity that goes with that of the position."""
    usual = units(quantity, hinge=hinge, whole=True)
    return next((unit for unit in usual if unit.factor == position.factor), usual[0])


def _odd_unit(unit: Unit, factor: float) -> Unit:
    """Return a unit for a factor that no unit has."""
    return Unit(f'{factor:.3g} {unit.name}', factor, 6.0)


class RecordedJoint(NamedTuple):
    """One joint of the robot as the bag shows it, in units of the bag, None where that is unknown.

    The axis is what is measured, the command what it follows, ``commanded`` the quantity that this
    tells. Measurements follow the command as ``following`` says, velocities the derivative of the
    positions, which may be whole numbers, as ``speeding``.
    """

    axis: Axis
    command: Axis | None
    commanded: Quantity
    command_values: NDArray[np.float64] | None
    position: SmoothSignal | None
    effort: NDArray[np.float64] | None
    following: Response
    speeding: Response
    whole: bool

    @property
    def own_efforts(self) -> bool:
        """Whether efforts are no torques by their name."""
        column = self.axis.columns.get(Quantity.EFFORT)
        return column is not None and column.kind is not EffortKind.TORQUE

    @property
    def span(self) -> Span | None:
        """What positions are parts of, or may be; None where they are no parts."""
        column = self.axis.columns.get(Quantity.POSITION)
        return None if column is None else column.span

    @property
    def command_sign(self) -> int:
        """The sign of the command against that of the position."""
        return -1 if self.following.correlation < -MOST else 1

    def position_units(self, *, hinge: bool) -> tuple[Unit, ...]:
        """Return what a position may be in."""
        return units(Quantity.POSITION, hinge=hinge, whole=self.whole)

    def command_unit(self, position: Unit, *, hinge: bool) -> Unit:
        """Return what the command is in, given what the position is in.

        A servo seldom goes all the way: a slope that is not far from one is no other unit.
        """
        if self.commanded is Quantity.EFFORT:
            return _TORQUE
        if not self._follows or self._goes_its_way:
            return _same_unit(position, self.commanded, hinge=hinge)
        factor = abs(self.following.slope) * position.factor
        usual = units(self.commanded, hinge=hinge)
        with_counts = units(self.commanded, hinge=hinge, whole=True)
        return (
            _nearest_unit(factor, usual, math.log(FACTOR))
            or _nearest_unit(factor, with_counts, _LOOSE)
            or _odd_unit(usual[0], factor)
        )

    def velocity_unit(self, position: Unit, *, hinge: bool) -> Unit:
        """Return what the velocity is in, given what the position is in."""
        if abs(self.speeding.correlation) < CLEAR:
            return _same_unit(position, Quantity.VELOCITY, hinge=hinge)
        usual = units(Quantity.VELOCITY, hinge=hinge, whole=True)
        factor = position.factor / abs(self.speeding.slope)
        return _nearest_unit(factor, usual, self._tolerance) or _odd_unit(usual[0], factor)

    @property
    def _follows(self) -> bool:
        return abs(self.following.correlation) >= MOST

    @property
    def _goes_its_way(self) -> bool:
        """Whether a position moves about as far as it is told to."""
        return _WEAK < abs(self.following.slope) < FACTOR

    @property
    def _tolerance(self) -> float:
        """How far off the slope of a velocity may be, as a logarithm: noise makes it smaller."""
        return max(_TIGHT, -2 * math.log(abs(self.speeding.correlation)))

    def doubtful(self, *, hinge: bool) -> dict[Quantity | None, str]:
        """Return what is in no known unit to the question to ask; None is the command.

        Two columns of a joint whose ratio is that of no two units, as before and after a gear, say
        so of both; of a position that goes where it is told to, it is the other one.
        """
        usual = self.position_units(hinge=hinge)
        found: dict[Quantity | None, str] = {}
        follows = self.commanded is Quantity.POSITION and self._follows
        if abs(self.speeding.correlation) >= CLEAR:
            speed = abs(self.speeding.slope)
            others = units(Quantity.VELOCITY, hinge=hinge)
            if not _has_units(speed, usual, others, self._tolerance):
                found[Quantity.VELOCITY] = (
                    f'it is {speed:.3g} times the derivative of the position, which no two units '
                    'are: is there a gear? Give its scale'
                )
        if follows and not self._goes_its_way:
            slope = abs(self.following.slope)
            others = units(Quantity.POSITION, hinge=hinge, whole=True)
            if not _has_units(1 / slope, usual, others, math.log(FACTOR)):
                found[None] = (
                    f'the position moves {slope:.3g} times as far as it is told to, which no two '
                    'units are: give its scale'
                )
        if found and not (follows and self._goes_its_way):
            question = next(iter(found.values()))
            found |= {Quantity.POSITION: question, None: question}
        return found


def _has_units(
    ratio: float, usual: tuple[Unit, ...], others: tuple[Unit, ...], tolerance: float
) -> bool:
    """Whether some two units have a ratio, of another quantity's change to the position's."""
    return any(_nearest_unit(ratio * unit.factor, usual, tolerance) for unit in others)


def recorded_joints(
    axes: Sequence[Axis], motion: AxesMotion | None, quantities: frozenset[Quantity]
) -> tuple[RecordedJoint, ...]:
    """Bind each measured axis to what it follows of what the model's actuators are commanded."""
    measured = [row for row, axis in enumerate(axes) if not axis.commanded]
    commands = [row for row, axis in enumerate(axes) if axis.commanded]
    followed = {
        (row, command): _follow(axes, motion, row, command, quantities)
        for row in measured
        for command in commands
    }
    bound = _bind(axes, measured, commands, followed)
    made = []
    for row in measured:
        axis, told = axes[row], bound.get(row)
        quantity, following = (
            (Quantity.POSITION, _NO_RESPONSE) if told is None else followed[row, told]
        )
        speeding, position, effort, command = _NO_RESPONSE, None, None, None
        if motion is not None:
            speeding, rows = velocity_response(motion, row), motion.judged
            position, effort = (
                signal if (signal := motion.signals.get((row, kind))) is None else signal.at(rows)
                for kind in (Quantity.POSITION, Quantity.EFFORT)
            )
            if effort is not None and not np.ptp(motion.signals[row, Quantity.EFFORT].values) > 0:
                effort = None
            signal = None if told is None else motion.command(told, quantity)
            command = None if signal is None else signal.values[rows]
        made.append(
            RecordedJoint(
                axis,
                None if told is None else axes[told],
                quantity,
                command,
                position,
                None if effort is None else effort.values,
                following,
                speeding,
                _is_whole(axis),
            )
        )
    return tuple(made)


def _is_whole(axis: Axis) -> bool:
    column = axis.columns.get(Quantity.POSITION)
    if column is None:
        return False
    values = column.values[np.isfinite(column.values)]
    return bool((values == np.round(values)).all() and np.ptp(values) > 1)


def _follow(
    axes: Sequence[Axis],
    motion: AxesMotion | None,
    row: int,
    commanded: int,
    quantities: frozenset[Quantity],
) -> tuple[Quantity, Response]:
    """Return as what an axis follows a command best, and how."""
    columns = axes[commanded].columns
    tried = [quantity for quantity in sorted(quantities) if quantity in columns or None in columns]
    tried = tried or [quantity for quantity in columns if quantity is not None]
    best = tried[0], _NO_RESPONSE
    if motion is None:
        return best
    for quantity in tried:
        command, answer = motion.command(commanded, quantity), motion.signals.get((row, quantity))
        position = motion.signals.get((row, Quantity.POSITION))
        if answer is None and quantity is Quantity.VELOCITY and position is not None:
            answer = position._replace(values=position.rate)
        if command is None or answer is None:
            continue
        if quantity is Quantity.POSITION:
            # Slow drifts of two axes are alike; their speeds are not.
            found = respond(command.rate, answer.rate, motion)
            asked = float(command.values[motion.whole].std())
            if asked and abs(found.correlation) < CLEAR:
                # A servo rounds the steps of a command, whose speed is the filter's: only the
                # levels tell the unit.
                slope = float(answer.values[motion.whole].std()) / asked
                found = found._replace(slope=math.copysign(slope, found.correlation))
        else:
            found = respond(command.values, answer.values, motion)
        if abs(found.correlation) > abs(best[1].correlation):
            best = quantity, found
    return best


def _bind(
    axes: Sequence[Axis],
    measured: list[int],
    commands: list[int],
    followed: dict[tuple[int, int], tuple[Quantity, Response]],
) -> dict[int, int]:
    """Choose the command of each measured axis: the strongest correlations, names beside them."""
    merit = np.zeros((len(measured), len(commands)))
    certain = set()
    for place in np.ndindex(merit.shape):
        row, command = measured[place[0]], commands[place[1]]
        quantity, response = followed[row, command]
        strength = abs(response.correlation)
        same = axes[row].named and axes[row].name == axes[command].name
        merit[place] = strength + _BONUS * same
        if strength > MOST:
            merit[place] += _BONUS * _level(axes[row], axes[command], quantity)
        if same or strength >= MOST:
            certain.add((row, command))
    rows, columns = scipy.optimize.linear_sum_assignment(-merit)
    found = ((measured[i], commands[k]) for i, k in zip(rows, columns, strict=True))
    return {row: command for row, command in found if (row, command) in certain}


def _level(measured: Axis, commanded: Axis, quantity: Quantity) -> float:
    """Return from 0 to 1 how near positions are to a command: all joints may move in step."""
    position = measured.columns.get(Quantity.POSITION)
    command = commanded.columns.get(quantity) or commanded.columns.get(None)
    if quantity is not Quantity.POSITION or position is None or command is None:
        return 0.0
    spread = float(np.nanstd(command.values)) or 1.0
    away = abs(float(np.nanmean(command.values)) - float(np.nanmean(position.values)))
    return math.exp(-away / spread)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a recording, counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sysid_ros.bags import Field, TopicColumns
from sysid_ros.errors import MOST_NAMED, how_many
from sysid_ros.vocabulary import SECOND_NS

#: The limits by which all of a recording is judged. Less than this part of a whole is next to
#: nothing of it, and more than half is most of it.
LITTLE, MOST = 0.05, 0.5
#: Signals that agree have a correlation above MOST; above this they agree clearly.
CLEAR = 0.9
#: What is guessed, as gains, armatures and friction of a model, is right within this factor.
FACTOR = 3.0
#: What differs by so many standard errors differs.
ERRORS = 5.0
#: Fewer samples than this show nothing, fewer than the second show no distribution.
FEW, MANY = 5, 20
#: A joint follows its command, or comes to rest, within this, s.
RESPONSE_S = 0.5
#: Differences below this part of the values are rounding.
ROUNDING = 1e-9
#: Begin and end, s from the first measurement of a bag.
Span = tuple[float, float]
#: A finding has at most so many spans; what is nearest to each other is one.
MOST_SPANS = 200

#: A gap is longer than so many median periods and longer than GAP_S seconds.
GAP_PERIODS = 5.0
GAP_S = 0.05
#: An interval that differs from the median by more than this part of it is jittered.
JITTER = 0.2


class Grade(StrEnum):
    """What a finding does to a result; the first is the worst."""

    #: Bends it.
    FAULT = 'fault'
    #: May bend it.
    CAUTION = 'caution'
    #: Does not; told for completeness.
    NOTE = 'note'


_CONFIRM = 'Confirm what belongs together: sysid map BAG MODEL -o mapping.yaml.'


class FindingKind(StrEnum):
    """What may be wrong with a recording: name, grade, effect on a result, and remedy."""

    grade: Grade
    effect: str
    remedy: str

    def __new__(cls, name: str, grade: Grade, effect: str, remedy: str = '') -> Self:
        """Make a row of the table."""
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.grade, kind.effect, kind.remedy = grade, effect, remedy
        return kind

    ARRAY_SIZE = (
        'array size',
        Grade.FAULT,
        'An array that has not a value per name says nothing of whose they are: not used by name.',
        'Let the driver send a value per name, NaN where it has none, or an empty array.',
    )
    ARRIVAL_OFFSET = (
        'arrival offset',
        Grade.NOTE,
        'The fit gives the commands of this recording a delay of their own.',
    )
    ASSUMED_ORDER = (
        'assumed order',
        Grade.CAUTION,
        'Where the guess is wrong, a joint is compared with another or gets its commands.',
        _CONFIRM,
    )
    ASSUMED_UNIT = (
        'assumed unit',
        Grade.NOTE,
        'Values are scaled, as that is what the motion makes the sensor read.',
        _CONFIRM,
    )
    BEFORE_FIRST_COMMAND = (
        'before first command',
        Grade.NOTE,
        'What was measured before all commands are known is left out.',
    )
    CLIPPED = (
        'clipped',
        Grade.FAULT,
        'The values stay at a limit while the joint goes on, and the fit follows the limit.',
        'Record a smaller motion, or leave the piece out by segments.without.',
    )
    CLOCK_JUMP = (
        'clock jump',
        Grade.CAUTION,
        'Stamps before and after a jump mean different times: receive times are used.',
        'Cut the bag at the jumps to use its stamps, and do not set clocks while recording.',
    )
    CLOCK_OFFSET = (
        'clock offset',
        Grade.CAUTION,
        'Delays that are fitted have the offset of the clocks in them.',
        'Synchronise the clocks of robot and recorder, as by chrony, before the next recording.',
    )
    DEAD_CHANNEL = (
        'dead channel',
        Grade.CAUTION,
        'It says nothing of its joint.',
        'Check plug and driver, move the joint, and record again.',
    )
    DISAGREES = (
        'disagrees',
        Grade.FAULT,
        'The others are fitted without it, as without one of another robot or load.',
        'Find what was different when it was recorded, and record it again.',
    )
    EMERGENCY_STOP = 'e-stop', Grade.NOTE, 'The stopped pieces are left out.'
    GAP = (
        'gap',
        Grade.CAUTION,
        'A command that is lost in a gap is not simulated.',
        'Record on the robot itself or over a cable, or leave the gaps out by segments.without.',
    )
    JITTER = (
        'jitter',
        Grade.CAUTION,
        'Where messages have no stamps of their own, their times are as uncertain as that.',
        'Publish with header stamps that are taken when the value is read.',
    )
    LATE_COMMANDS = (
        'late commands',
        Grade.FAULT,
        'Some commands acted later than a fit can place them: their motion is not explained.',
        'Record again, or leave the piece out by segments.without.',
    )
    LEFT_OUT = 'left out', Grade.NOTE, 'The fit does not see what is left out.'
    MIMIC = (
        'mimic',
        Grade.NOTE,
        'Values that are computed from another joint measure nothing: the sensor is left out.',
    )
    MISSING = (
        'missing values',
        Grade.NOTE,
        'The values are left out, and the motion meanwhile is not compared.',
    )
    NO_NAMES = (
        'no names',
        Grade.CAUTION,
        'Which number is which joint cannot be read from the bag.',
        _CONFIRM,
    )
    NO_STAMP = (
        'no stamp',
        Grade.CAUTION,
        'The time of receipt counts, with all that held a message up.',
        'Publish a type with a header, and fill header.stamp.',
    )
    NO_TORQUE = (
        'no torque',
        Grade.CAUTION,
        'Efforts that have no sign or contradict the model, and others of them, are left out.',
        f'Give their columns a scale and sign, or correct the masses of the model. {_CONFIRM}',
    )
    NOT_MEASURED = (
        'not measured',
        Grade.NOTE,
        'Velocities are slopes of positions; without efforts, motion alone shows masses and gains.',
    )
    REFERENCE_JUMP = (
        'reference jump',
        Grade.FAULT,
        'Orientations before and after it have different references, and the fit follows both.',
        'Keep what is on one side of it by segments.times, or leave the sensor out of the mapping.',
    )
    REORDERED_STAMP = (
        'reordered stamp',
        Grade.CAUTION,
        'Messages whose stamps repeat or go back are left out.',
        'Let one driver publish on the topic.',
    )
    REPEATED = 'repeated', Grade.NOTE, 'Nothing is lost: the repeated messages are left out.'
    SIMULATED_TIME = 'simulated time', Grade.NOTE, 'Times are those of the simulation.'
    SPIKES = (
        'spikes',
        Grade.FAULT,
        'Values that are no motion pull at the fit.',
        'Check the cable of the bus; until then fit with --set solver.loss=huber.',
    )
    STALE = (
        'stale samples',
        Grade.CAUTION,
        'The driver repeats old positions, which are late by up to the time that they are held.',
        'Let the driver read as often as it publishes.',
    )
    STALL = (
        'stall',
        Grade.NOTE,
        'The robot was held up; where nothing says when commands acted, the piece is left out.',
    )
    STUCK = (
        'stuck',
        Grade.FAULT,
        'The joint was told to move and no motion was measured.',
        'Check encoder, driver and mapping, and record again.',
    )
    TWO_SOURCES = (
        'two sources',
        Grade.FAULT,
        'Whose messages are right is unknown, and the fit follows both.',
        'Let one node publish: ros2 topic info --verbose names them.',
    )
    UNFINISHED = (
        'unfinished',
        Grade.NOTE,
        'The recorder was killed: what it had in memory, mostly a second, is not in the bag.',
    )
    UNLIKE_STAMPS = (
        'unlike stamps',
        Grade.FAULT,
        'No delay is right for all bags.',
        'Set stamps to header or receive for all, or leave the bags that differ out.',
    )
    UNLISTED = (
        'unlisted',
        Grade.CAUTION,
        'What the file holds is not read: the metadata of the bag does not list it.',
        'List it by `ros2 bag reindex`, or move it out of the folder.',
    )
    UNMAPPED = (
        'unmapped',
        Grade.CAUTION,
        'The control stays 0; where the robot was driven, that is wrong.',
        f'Record the commands. {_CONFIRM}',
    )
    VELOCITY_DIFFERS = (
        'velocity differs',
        Grade.FAULT,
        'Positions and velocities contradict each other.',
        f'Give its column a sign or scale, or leave the sensor out of the mapping. {_CONFIRM}',
    )
    VELOCITY_LAG = (
        'velocity lag',
        Grade.NOTE,
        'The velocity is late, which armature and damping would take up: a fit leaves it out.',
        'Add sensor/NAME/delay to the parameters to have it compared.',
    )
    WILD_COMMAND = (
        'wild command',
        Grade.FAULT,
        'No joint can do it: the command before it is held, which is wrong where the robot got it.',
        'Leave the piece out by segments.without where the robot tried, and mend what sent it.',
    )
    WRAPS = (
        'wraps',
        Grade.NOTE,
        'Positions go on where they begin a turn anew, and commands are in the same turn.',
    )


#: What subjects are that are neither topics nor columns of topics.
_NOUNS = {FindingKind.NOT_MEASURED: 'joint', FindingKind.UNMAPPED: 'actuator'}


#: What is said of efforts that `are_magnitudes`.
UNSIGNED = 'never negative: a magnitude without its sign, no torque'


@dataclass(frozen=True)
class HealthFinding:
    """Something about a recording that a reader of the result must know.

    The subject is a topic, a column, a sensor, an actuator or a sequence; ``left_out`` names the
    sensor or actuator that is left out for it. Spans are begin and end in s from the first
    measurement of the bag, empty where it has no time.
    """

    bag: str
    subject: str
    kind: FindingKind
    count: int
    detail: str
    left_out: str = ''
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True)
class TopicRate:
    """What arrived on one topic: ``rate`` in Hz and ``longest_gap`` in s, NaN if unknown."""

    bag: str
    topic: str
    messages: int
    rate: float
    longest_gap: float


@dataclass(frozen=True)
class Findings:
    """All findings of one kind, at least one, in the order in which they were found."""

    kind: FindingKind
    each: tuple[HealthFinding, ...]

    @property
    def count(self) -> int:
        """How often, in all."""
        return sum(item.count for item in self.each)

    @property
    def worst(self) -> HealthFinding:
        """The one with the largest count."""
        return max(self.each, key=lambda item: item.count)

    @property
    def extent(self) -> str:
        """Where, as ``6 joints × 7 bags``, with few names instead of numbers of them."""
        places = {(item.subject, item.bag) for item in self.each}
        bags = list(dict.fromkeys(item.bag for item in self.each))
        subjects, where = self._subjects()
        if where and len(subjects) > MOST_NAMED and len(bags) > MOST_NAMED:
            every = len(places) == len(subjects) * len(bags)
            return f'{where} {"×" if every else "in"} {_named(bags, "bag")}'  # noqa: RUF001
        return f'{where} in {_named(bags, "bag")}' if where else _named(bags, 'bag')

    def text(self, *, bags: bool = True) -> str:
        """Return where, how often, and what, of findings that differ the worst."""
        worst = self.worst
        where = self.extent if bags else self._subjects()[1]
        if all(item.detail == worst.detail for item in self.each):
            often = f'({self.count})' if self.count > len(self.each) else ''
        else:
            place = [] if worst.subject == worst.bag else [worst.subject]
            place += [worst.bag] if bags else []
            where, often = (
                f'{where}; worst' if where else '',
                f'{" in ".join(place)} ({worst.count})',
            )
        said = ' '.join(filter(None, (where, often)))
        return f'{said}: {worst.detail}' if where else f'{said} {worst.detail}'.strip()

    def _subjects(self) -> tuple[list[str], str]:
        """Return what is not a bag as a whole, and its names or how many there are."""
        found = list(dict.fromkeys(item.subject for item in self.each if item.subject != item.bag))
        noun = _NOUNS.get(self.kind, 'signal')
        if self.kind not in _NOUNS and all(subject.startswith('/') for subject in found):
            # A name of a topic has no dot, that of a column has.
            noun = 'channel' if any('.' in subject for subject in found) else 'topic'
        return found, _named(found, noun)


def _named(names: list[str], what: str) -> str:
    return ', '.join(names) if len(names) <= MOST_NAMED else how_many(names, what)


def aggregated(findings: Iterable[HealthFinding]) -> list[Findings]:
    """Put findings of each kind together: faults first, in a grade what was found most often."""
    kinds: dict[FindingKind, list[HealthFinding]] = {}
    for item in findings:
        kinds.setdefault(item.kind, []).append(item)
    grades = list(Grade)
    found = [Findings(kind, tuple(each)) for kind, each in kinds.items()]
    return sorted(found, key=lambda item: (grades.index(item.kind.grade), -item.count))


def topic_rate(bag: str, topic: str, messages: int, times_ns: NDArray[np.int64]) -> TopicRate:
    """Measure the rate of a topic from its (n,) usable stamps, ns; all messages are counted."""
    if len(times_ns) < 2:  # noqa: PLR2004 - one stamp makes no interval
        return TopicRate(bag, topic, messages, float('nan'), float('nan'))
    span = (times_ns[-1] - times_ns[0]) / SECOND_NS
    longest = float(np.diff(times_ns).max() / SECOND_NS)
    return TopicRate(bag, topic, messages, float((len(times_ns) - 1) / span), longest)


def spans_of(begins: NDArray[np.int64], ends: NDArray[np.int64], start: int) -> tuple[Span, ...]:
    """Return when something was, from (n,) begins and ends in time order, ns; what is near as one.

    The start is the first measurement of the bag, ns.
    """
    if not len(begins):
        return ()
    apart = begins[1:] - ends[:-1]
    kept = np.sort(np.argsort(-apart, kind='stable')[: MOST_SPANS - 1])
    first, last = begins[[0, *(kept + 1)]], ends[[*kept, -1]]
    seconds = np.round((np.column_stack([first, last]) - start) / SECOND_NS, 6)
    return tuple((begin, end) for begin, end in seconds.tolist())


def spans_where(
    times_ns: NDArray[np.int64], chosen: NDArray[np.bool_], start: int
) -> tuple[Span, ...]:
    """Return spans from the first to the last of each run of chosen ones of (n,) times, ns."""
    edges = np.diff(chosen.astype(np.int8), prepend=0, append=0)
    return spans_of(
        times_ns[np.flatnonzero(edges > 0)], times_ns[np.flatnonzero(edges < 0) - 1], start
    )


def timing_findings(
    bag: str, topic: str, times_ns: NDArray[np.int64], start: int
) -> list[HealthFinding]:
    """Count gaps and jitter of a topic that should be periodic, by its (n,) stamps, ns.

    The start is the first measurement of the bag, ns.
    """
    periods = np.diff(times_ns) / SECOND_NS
    if not len(periods):
        return []
    median = float(np.median(periods))
    findings = []
    long = _too_long(periods)
    if len(long):
        detail = f'longest {periods[long].max():.3f} s, median period {1e3 * median:.3f} ms'
        when = spans_of(times_ns[long], times_ns[long + 1], start)
        findings.append(HealthFinding(bag, topic, FindingKind.GAP, len(long), detail, spans=when))
    deviations = np.abs(periods - median)
    jittered = int(np.count_nonzero(deviations > JITTER * median))
    if jittered > LITTLE * len(periods):
        detail = (
            f'of {len(periods)} intervals, more than {JITTER:.0%} off the median period '
            f'{1e3 * median:.3f} ms; 95 % are within {1e3 * np.percentile(deviations, 95):.3f} ms'
        )
        findings.append(HealthFinding(bag, topic, FindingKind.JITTER, jittered, detail))
    return findings


def _too_long(periods: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.flatnonzero(periods > max(GAP_PERIODS * float(np.median(periods)), GAP_S))


def gaps(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (g, 2) begin and end, s, of each gap between (n,) increasing times, s."""
    if len(times) < 2:  # noqa: PLR2004 - one stamp makes no interval
        return np.empty((0, 2))
    long = _too_long(np.diff(times))
    return np.column_stack([times[long], times[long + 1]])


def away_from_gaps(
    instants: NDArray[np.float64], times: NDArray[np.float64], margin: float
) -> NDArray[np.bool_]:
    """Return which (m,) instants, s, are further than a margin from the gaps of (n,) times, s."""
    away = np.ones(len(instants), dtype=bool)
    for begin, end in gaps(times):
        away &= (instants < begin - margin) | (instants > end + margin)
    return away


def are_magnitudes(field: Field) -> bool:
    """Whether a field of several moving columns is never negative, as motor currents without sign.

    Efforts of joints push both ways, at least some of them: what never does is no torque.
    """
    known = [column[np.isfinite(column)] for column in field.values.T]
    moving = [column for column in known if len(column) and np.ptp(column) > 0]
    return len(moving) > 1 and all(column.min() >= 0 for column in moving)


def source_findings(bag: str, topic: TopicColumns) -> Iterator[HealthFinding]:
    """Find arrays that are not as long as their names, and nodes that contradict each other.

    What two nodes say of one joint alternates: values are nearer to the second, third or fourth
    after them than to the next.
    """
    unlike = {field.name: field.unlike_names for field in topic.fields if field.unlike_names}
    if unlike:
        detail = (
            f'{" and ".join(unlike)}: another number of values than of names; labelled by index'
        )
        worst = max(unlike.values())
        yield HealthFinding(bag, topic.topic, FindingKind.ARRAY_SIZE, worst, detail)
    # Positions come first, and say it of the others.
    for field in topic.fields[:1]:
        for label, column in zip(field.labels, field.values.T, strict=True):
            values = column[np.isfinite(column)]
            if len(values) <= MANY or len(np.unique(values[:: len(values) // MANY])) < FEW:
                continue
            next_one, *others = (
                float(np.median(np.abs(values[after:] - values[:-after]))) for after in range(1, 5)
            )
            if next_one > FACTOR * min(others):
                name = f'{topic.topic}.{field.name}' + (f'[{label}]' if label else '')
                detail = (
                    f'values alternate by {next_one:.3g}, as of two nodes that publish on the topic'
                )
                yield HealthFinding(bag, name, FindingKind.TWO_SOURCES, len(values), detail)


def dead_columns(topic: TopicColumns) -> list[tuple[Field, str]]:
    """Find columns that never change while another column of the same topic moves.

    A joint that is locked, an encoder that is not plugged in, and velocities or efforts that a
    driver fills with zeros all look like this, and none of them says anything about the joint. The
    result is field and label of each dead column.
    """
    dead: list[tuple[Field, str]] = []
    moving = False
    for field in topic.fields:
        for column, label in enumerate(field.labels):
            values = field.values[np.isfinite(field.values[:, column]), column]
            if not len(values):
                continue
            if np.ptp(values) > 0:
                moving = True
            elif len(values) > MANY:
                dead.append((field, label))
    return dead if moving else []

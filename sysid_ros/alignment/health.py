# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a recording, counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from sysid_ros.bags import Field, TopicColumns

SECOND_NS = 1_000_000_000

#: A gap is longer than so many median periods and longer than GAP_S seconds.
GAP_PERIODS = 5.0
GAP_S = 0.05
#: An interval that differs from the median by more than this part of it is jittered.
JITTER = 0.2
#: A topic is called jittered when more than this part of its intervals is.
JITTERED_PART = 0.05
#: A channel that never changes over more than so many samples, while others move, is dead.
DEAD_SAMPLES = 50
#: More findings of a kind than this are said in one sentence, which names so many subjects.
_MANY = 3
_NAMED = 6


class FindingKind(StrEnum):
    """What may be said of a recording."""

    ARRIVAL_OFFSET = 'arrival offset'
    ASSUMED_NAME = 'assumed name'
    ASSUMED_ORDER = 'assumed order'
    BEFORE_FIRST_COMMAND = 'before first command'
    CLIPPED = 'clipped'
    CLOCK_DRIFT = 'clock drift'
    CLOCK_JUMP = 'clock jump'
    CLOCK_OFFSET = 'clock offset'
    CONTACT = 'contact'
    DEAD_CHANNEL = 'dead channel'
    DERIVED_VELOCITY = 'derived velocity'
    DUPLICATE_STAMP = 'duplicate stamp'
    EMERGENCY_STOP = 'e-stop'
    ENDS_EARLY = 'ends early'
    GAP = 'gap'
    HELD_UP = 'held up'
    HELD_VALUES = 'held values'
    JITTER = 'jitter'
    LATE_COMMANDS = 'late commands'
    MAGNITUDE = 'magnitude'
    MASKED = 'masked'
    MISSING = 'missing'
    NO_EFFORT = 'no effort'
    NO_NAMES = 'no names'
    NO_POSITION = 'no position'
    NO_STAMP = 'no stamp'
    NO_VELOCITY = 'no velocity'
    NOT_CHOSEN = 'not chosen'
    REORDERED_STAMP = 'reordered stamp'
    REST = 'rest'
    SHIFT = 'shift'
    SHORT_SEQUENCE = 'short sequence'
    SIMULATED_TIME = 'simulated time'
    SPIKES = 'spikes'
    STARTS_LATE = 'starts late'
    STUCK = 'stuck'
    TIME_BACKWARDS = 'time runs backwards'
    EXCLUDED = 'told'
    UNLIKE_STAMPS = 'unlike stamps'
    UNMAPPED = 'unmapped'
    VELOCITY_DIFFERS = 'velocity differs'
    VELOCITY_FACTOR = 'velocity factor'
    VELOCITY_LAG = 'velocity lag'
    VELOCITY_SIGN = 'velocity sign'
    WINDOW = 'window'
    ZERO_STAMP = 'zero stamp'


#: What is said of efforts that `are_magnitudes`.
UNSIGNED = 'never negative: a magnitude without its sign, no torque'


@dataclass(frozen=True)
class HealthFinding:
    """Something about a recording that a reader of the result must know.

    Attributes:
        bag: Name of the bag.
        subject: A topic, a column, a sensor, an actuator or a sequence.
        kind: What it is.
        count: How often.
        detail: What was found and what was done about it.
        left_out: Name of the sensor or actuator that is left out for it; empty where none is.
    """

    bag: str
    subject: str
    kind: FindingKind
    count: int
    detail: str
    left_out: str = ''


@dataclass(frozen=True)
class TopicRate:
    """What arrived on one topic: ``rate`` in Hz and ``longest_gap`` in s, NaN if unknown."""

    bag: str
    topic: str
    messages: int
    rate: float
    longest_gap: float


def alike(findings: Iterable[HealthFinding]) -> list[tuple[HealthFinding, ...]]:
    """Put findings together that one sentence says, in the order of the first of each.

    Those are the ones of a bag and a kind whose details are the same, and all of a kind where they
    are many.
    """
    known = list(findings)
    kinds = Counter((item.bag, item.kind) for item in known)
    groups: dict[tuple[str, ...], list[HealthFinding]] = {}
    for item in known:
        many = kinds[item.bag, item.kind] > _MANY
        groups.setdefault((item.bag, item.kind, '' if many else item.detail), []).append(item)
    return [tuple(group) for group in groups.values()]


def sentence(group: Sequence[HealthFinding]) -> str:
    """Say where something was found, how often, and what; of different details the worst."""
    worst = max(group, key=lambda item: item.count)
    if worst.subject == worst.bag:  # it is about the bag as a whole
        return f'({worst.count}) {worst.detail}'
    where = ', '.join(f'{item.subject} ({item.count})' for item in group[:_NAMED])
    where += f' and {len(group) - _NAMED} more' if len(group) > _NAMED else ''
    same = all(item.detail == worst.detail for item in group)
    return f'{where}: {"" if same else f"worst {worst.subject}: "}{worst.detail}'


def topic_rate(bag: str, topic: str, messages: int, times_ns: NDArray[np.int64]) -> TopicRate:
    """Measure the rate of a topic from its (n,) usable stamps, ns; all messages are counted."""
    if len(times_ns) < 2:  # noqa: PLR2004 - one stamp makes no interval
        return TopicRate(bag, topic, messages, float('nan'), float('nan'))
    span = (times_ns[-1] - times_ns[0]) / SECOND_NS
    longest = float(np.diff(times_ns).max() / SECOND_NS)
    return TopicRate(bag, topic, messages, float((len(times_ns) - 1) / span), longest)


def timing_findings(bag: str, topic: str, times_ns: NDArray[np.int64]) -> list[HealthFinding]:
    """Count gaps and jitter of a topic that should be periodic, by its (n,) stamps, ns."""
    periods = np.diff(times_ns) / SECOND_NS
    if not len(periods):
        return []
    median = float(np.median(periods))
    findings = []
    long = _too_long(periods)
    if len(long):
        detail = f'longest {periods[long].max():.3f} s, median period {1e3 * median:.3f} ms'
        findings.append(HealthFinding(bag, topic, FindingKind.GAP, len(long), detail))
    deviations = np.abs(periods - median)
    jittered = int(np.count_nonzero(deviations > JITTER * median))
    if jittered > JITTERED_PART * len(periods):
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


def dead_columns(topic: TopicColumns) -> list[tuple[Field, str]]:
    """Find columns that never change while another column of the same topic moves.

    A joint that is locked, an encoder that is not plugged in, and velocities or efforts that a
    driver fills with zeros all look like this, and none of them says anything about the joint.

    Returns:
        Field and label of each dead column.
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
            elif len(values) > DEAD_SAMPLES:
                dead.append((field, label))
    return dead if moving else []

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From a bag that is paired with a model to sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.alignment.health import (
    SECOND_NS,
    HealthFinding,
    TopicRate,
    timing_findings,
    topic_rate,
)
from sysid_ros.alignment.initial import Channel, initial_state
from sysid_ros.alignment.pairs import (
    Mapping,
    Pair,
    Role,
    Unmapped,
    column_name,
    raw_values,
    sensor_names,
    whole_rows,
)
from sysid_ros.alignment.stamps import Stamped, longest_increasing, one_clock, stamp
from sysid_ros.errors import AlignmentError
from sysid_ros.identification.sequence import Sequence
from sysid_ros.signals import SignalType, TimeSeries

if TYPE_CHECKING:
    import mujoco
    from numpy.typing import NDArray

    from sysid_ros.bags import BagColumns
    from sysid_ros.config import StampChoice

#: The bag is cut where nothing is measured for longer than this, s.
CUT_S = 1.0
#: Commands are kept from this long before a sequence starts: a delay makes them act later, s.
COMMAND_HISTORY_S = 1.0
#: A sequence with fewer instants than this says nothing.
FEWEST_SAMPLES = 5


@dataclass(frozen=True)
class Alignment:
    """A bag as the model sees it.

    Attributes:
        bag: Name of the bag.
        sequences: Continuous runs, in time order.
        pairs: Which column is which sensor or actuator.
        unmapped: What has no counterpart, and why.
        topics: Rate of every topic with numbers.
        health: What is wrong with the recording.
    """

    bag: str
    sequences: tuple[Sequence, ...]
    pairs: tuple[Pair, ...]
    unmapped: tuple[Unmapped, ...]
    topics: tuple[TopicRate, ...]
    health: tuple[HealthFinding, ...]


class _Group(NamedTuple):
    """Pairs of one role whose values are there at the same instants.

    Attributes:
        role: Sensors or actuators.
        names: k of them; a sensor with several values comes once for each, in their order.
        times_ns: (n,) strictly increasing, ns.
        values: (n, k) in model units, all finite.
    """

    role: Role
    names: tuple[str, ...]
    times_ns: NDArray[np.int64]
    values: NDArray[np.float64]


class _Span(NamedTuple):
    """First and last measured instant of a sequence, ns, and of the run it was cut from."""

    first: int
    last: int
    run_first: int


def align(
    bag: BagColumns,
    model: mujoco.MjModel,
    mapping: Mapping,
    stamps: StampChoice,
    *,
    longest_delay: float = 0.0,
) -> Alignment:
    """Turn a bag into sequences.

    Args:
        bag: Columns of the bag.
        model: The compiled model.
        mapping: How bag and model are paired.
        stamps: ``auto`` (header stamp unless zero), ``header`` or ``receive``.
        longest_delay: Seconds by which commands may act late. Sequences start that much after the
            first command: until then one that is not in the bag may be in force.

    Raises:
        AlignmentError: No measurement is left while commands are known.
    """
    name = bag.path.name
    used = {pair.topic for pair in mapping.pairs}
    measured = {pair.topic for pair in mapping.pairs if pair.role is Role.SENSOR}
    mapped = [topic for topic in bag.topics if topic.topic in used]
    choice, found = one_clock(name, mapped, stamps)
    health = [*mapping.health, *found]
    stamped: dict[str, Stamped] = {}
    rates: list[TopicRate] = []
    for topic in bag.topics:
        result = stamp(name, topic, choice)
        times = result.times_ns[result.usable]
        rates.append(topic_rate(name, topic.topic, len(topic.receive_ns), times))
        if topic.topic in used:
            stamped[topic.topic] = result
            health += result.findings
        if topic.topic in measured:
            health += timing_findings(name, topic.topic, times)
    groups, masked = _groups(bag, mapping, stamped)
    health += masked
    spans, skipped = _spans(bag, groups, longest_delay)
    health += skipped
    sequences = tuple(
        _sequence(name if len(spans) == 1 else f'{name}_{number}', model, groups, span)
        for number, span in enumerate(spans)
    )
    return Alignment(name, sequences, mapping.pairs, mapping.unmapped, tuple(rates), tuple(health))


def _groups(
    bag: BagColumns, mapping: Mapping, stamped: dict[str, Stamped]
) -> tuple[list[_Group], list[HealthFinding]]:
    """Collect pairs of one topic that are measured at the same instants."""
    together: dict[tuple[Role, str, bytes], list[Pair]] = {}
    findings = []
    for pair in mapping.pairs:
        finite = np.isfinite(raw_values(bag, pair))
        missing = int(np.count_nonzero(~finite))
        if missing:
            channel = column_name(pair.topic, pair.field, pair.label)
            detail = f'of {len(finite)} values of {pair.name!r} are not finite or absent; left out'
            findings.append(HealthFinding(bag.path.name, channel, 'masked', missing, detail))
        whole = whole_rows(bag, mapping, pair)
        together.setdefault((pair.role, pair.topic, whole.tobytes()), []).append(pair)
    groups = []
    for (role, topic, _), pairs in together.items():
        times = stamped[topic].times_ns
        present = np.flatnonzero(whole_rows(bag, mapping, pairs[0]))
        # Not the topic's usable rows: of two messages with one stamp each may carry other joints.
        rows = present[longest_increasing(times[present])]
        values = [pair.scale * raw_values(bag, pair)[rows] + pair.offset for pair in pairs]
        names = tuple(pair.name for pair in pairs)
        groups.append(_Group(role, names, times[rows], np.column_stack(values)))
    return groups, findings


def _spans(
    bag: BagColumns, groups: list[_Group], longest_delay: float
) -> tuple[list[_Span], list[HealthFinding]]:
    """Find the continuous runs in which all commands are known."""
    name = bag.path.name
    instants = np.unique(
        np.concatenate([group.times_ns for group in groups if group.role is Role.SENSOR])
    )
    commands = [group for group in groups if group.role is Role.ACTUATOR]
    silent = [group.names[0] for group in commands if not len(group.times_ns)]
    if not len(instants) or silent:
        what = f'the command of {silent[0]!r}' if silent else 'the measurements'
        msg = f'No stamp of {what} in {name!r} is usable.'
        raise AlignmentError(msg)
    first = max((int(group.times_ns[0]) for group in commands), default=int(instants[0]))
    known = first + round(longest_delay * SECOND_NS) if commands else first
    findings = []
    early = int(np.count_nonzero(instants < known))
    if early:
        detail = (
            f'instants of {len(instants)} left out: the commands of all actuators are known from '
            f'{(known - instants[0]) / SECOND_NS:.3f} s on'
        )
        findings.append(HealthFinding(name, name, 'before first command', early, detail))
    spans = []
    for run in np.split(instants, np.flatnonzero(np.diff(instants) > CUT_S * SECOND_NS) + 1):
        inside = run[run >= known]
        if len(inside) >= FEWEST_SAMPLES:
            spans.append(_Span(int(inside[0]), int(inside[-1]), int(run[0])))
        elif len(inside):
            detail = f'{len(inside)} instants between gaps of more than {CUT_S:g} s; left out'
            findings.append(HealthFinding(name, name, 'short sequence', len(inside), detail))
    if not spans:
        after = [(int(time - instants[0])) / SECOND_NS for time in (known, instants[-1])]
        msg = (
            f'Expected {FEWEST_SAMPLES} or more measured instants in {name!r} once every actuator '
            f'has its first command at {after[0]:+.3f} s from the first measurement, found '
            f'{int(np.count_nonzero(instants >= known))}, the last at {after[1]:+.3f} s.'
        )
        raise AlignmentError(msg)
    return spans, findings


def _sequence(name: str, model: mujoco.MjModel, groups: list[_Group], span: _Span) -> Sequence:
    commands, measurements, channels = [], [], []
    known = sensor_names(model)
    for group in groups:
        times_ns = group.times_ns
        start = int(np.searchsorted(times_ns, span.first))
        stop = int(np.searchsorted(times_ns, span.last, side='right'))
        if group.role is Role.ACTUATOR:
            history = span.first - int(COMMAND_HISTORY_S * SECOND_NS)
            # One more before the window: it is in force when the window begins.
            begin = max(int(np.searchsorted(times_ns, history, side='right')) - 1, 0)
            commands.append(_series(group, slice(begin, stop), span.first, SignalType.MjCtrl))
            continue
        if stop > start:
            rows = slice(start, stop)
            measurements.append(_series(group, rows, span.first, SignalType.MjSensor))
        run = slice(int(np.searchsorted(times_ns, span.run_first)), stop)
        times = (times_ns[run] - span.first) / SECOND_NS
        for column, sensor in enumerate(group.names):
            channels.append(Channel(known.index(sensor), times, group.values[run, column]))
    qpos, qvel = initial_state(model, channels)
    return Sequence(name, span.first, qpos, qvel, tuple(commands), tuple(measurements))


def _series(group: _Group, rows: slice, origin_ns: int, kind: SignalType) -> TimeSeries:
    times = (group.times_ns[rows] - origin_ns) / SECOND_NS
    columns: dict[str, list[int]] = {}
    for column, name in enumerate(group.names):
        columns.setdefault(name, []).append(column)
    signals = {name: (kind, np.array(indices)) for name, indices in columns.items()}
    return TimeSeries(times, group.values[rows], signals)

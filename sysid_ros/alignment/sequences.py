# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From a bag that is paired with a model to sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sysid_ros.alignment.health import (
    SECOND_NS,
    HealthFinding,
    TopicRate,
    timing_findings,
    topic_rate,
)
from sysid_ros.alignment.initial import Channel, InitialState, derived_findings, initial_state
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
from sysid_ros.alignment.segments import (
    FEWEST_SAMPLES,
    LEFT_OUT,
    Segment,
    Signals,
    find_cuts,
    find_segments,
    marker_topics,
)
from sysid_ros.alignment.stamps import Stamped, longest_increasing, one_clock, stamp
from sysid_ros.alignment.standstill import Samples
from sysid_ros.config import SegmentsConfig
from sysid_ros.errors import AlignmentError
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.signals.trajectory import Trajectory

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sysid_ros.bags import BagColumns
    from sysid_ros.config import StampChoice

#: Commands are kept from this long before a sequence starts: a delay makes them act later, s.
COMMAND_HISTORY_S = 1.0


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
    sequences: tuple[Trajectory, ...]
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


def align(
    bag: BagColumns,
    model: mujoco.MjModel,
    mapping: Mapping,
    stamps: StampChoice,
    *,
    segments: SegmentsConfig | None = None,
    longest_delay: float = 0.0,
) -> Alignment:
    """Turn a bag into sequences.

    Args:
        bag: Columns of the bag.
        model: The compiled model.
        mapping: How bag and model are paired.
        stamps: ``auto`` (header stamp unless zero), ``header`` or ``receive``.
        segments: What becomes sequences; by default all, cut at gaps.
        longest_delay: Seconds by which commands may act late. Sequences start that much after the
            first command: until then one that is not in the bag may be in force.

    Raises:
        AlignmentError: No measurement is left while commands are known, or a marker is missing.
    """
    segments = segments or SegmentsConfig()
    name = bag.path.name
    used = {pair.topic for pair in mapping.pairs}
    measured = {pair.topic for pair in mapping.pairs if pair.role is Role.SENSOR}
    mapped = [topic for topic in bag.topics if topic.topic in used]
    # Commands or a marker may have receive times only; all must be of one clock.
    markers = marker_topics(bag, segments)
    timed = [*mapped, *(topic for topic in markers if topic.topic not in used)]
    choice, found = one_clock(name, timed, stamps)
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
    for topic in markers:
        stamped.setdefault(topic.topic, stamp(name, topic, choice))
    groups, masked = _groups(bag, mapping, stamped)
    health += masked
    spans, skipped = _find_segments(bag, model, groups, stamped, segments, longest_delay)
    health += skipped
    starts = [_start(model, groups, span) for span in spans]
    health += derived_findings(name, model, starts)
    sequences = tuple(
        _sequence(name, name if len(spans) == 1 else f'{name}_{number}', groups, span, start)
        for number, (span, start) in enumerate(zip(spans, starts, strict=True))
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


def _find_segments(
    bag: BagColumns,
    model: mujoco.MjModel,
    groups: list[_Group],
    stamped: dict[str, Stamped],
    config: SegmentsConfig,
    longest_delay: float,
) -> tuple[list[Segment], list[HealthFinding]]:
    """Find the continuous runs in which all commands are known, and what of them is wanted."""
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
    start = int(instants[0])
    cuts, chosen = find_cuts(bag, config, _signals(model, groups), stamped, start)
    segments, cut = find_segments(name, instants, known, config, cuts, chosen)
    if not segments and any(item.kind in LEFT_OUT for item in cut):
        what = '; '.join(f'{item.kind}: {item.detail}' for item in cut)
        msg = (
            f'Expected {FEWEST_SAMPLES} or more measured instants in {name!r} between the cuts '
            f'that segments asks for, found none ({what}).'
        )
        raise AlignmentError(msg)
    if not segments:
        after = [(int(time - instants[0])) / SECOND_NS for time in (known, instants[-1])]
        msg = (
            f'Expected {FEWEST_SAMPLES} or more measured instants in {name!r} once every actuator '
            f'has its first command at {after[0]:+.3f} s from the first measurement, found '
            f'{int(np.count_nonzero(instants >= known))}, the last at {after[1]:+.3f} s.'
        )
        raise AlignmentError(msg)
    return segments, [*findings, *cut]


def _signals(model: mujoco.MjModel, groups: list[_Group]) -> Signals:
    """Sort channels by what motion and stops are told from."""
    kind = mujoco.mjtSensor
    types = dict(zip(sensor_names(model), model.sensor_type.tolist(), strict=True))
    measured = {
        (types[name], int(model.sensor(name).objid[0]))
        for group in groups
        if group.role is Role.SENSOR
        for name in group.names
    }

    def tells_motion(name: str) -> bool:
        position = (kind.mjSENS_JOINTPOS, int(model.sensor(name).objid[0]))
        velocity = types[name] == kind.mjSENS_JOINTVEL and position not in measured
        return types[name] == kind.mjSENS_JOINTPOS or velocity

    def tells_effort(name: str) -> bool:
        return types[name] in (kind.mjSENS_JOINTACTFRC, kind.mjSENS_ACTUATORFRC)

    def pick(role: Role, wanted: Callable[[str], bool]) -> list[Samples]:
        found = []
        for group in groups:
            if group.role is role and len(group.times_ns):
                chosen = [column for column, name in enumerate(group.names) if wanted(name)]
                if chosen:
                    found.append(Samples(group.times_ns, group.values[:, chosen]))
        return found

    return Signals(
        pick(Role.SENSOR, tells_motion),
        pick(Role.SENSOR, tells_effort),
        pick(Role.ACTUATOR, lambda _: True),
    )


def _start(model: mujoco.MjModel, groups: list[_Group], span: Segment) -> InitialState:
    """Estimate the state at the first instant from what was measured around it."""
    known = sensor_names(model)
    channels = []
    for group in groups:
        if group.role is Role.SENSOR:
            first, stop = np.searchsorted(group.times_ns, [span.run_first, span.last + 1])
            times = (group.times_ns[first:stop] - span.first) / SECOND_NS
            for column, sensor in enumerate(group.names):
                channels.append(
                    Channel(known.index(sensor), times, group.values[first:stop, column])
                )
    return initial_state(model, channels)


def _sequence(
    bag: str, name: str, groups: list[_Group], span: Segment, state: InitialState
) -> Trajectory:
    commands, measurements = [], []
    for group in groups:
        times_ns = group.times_ns
        start = int(np.searchsorted(times_ns, span.first))
        stop = int(np.searchsorted(times_ns, span.last, side='right'))
        if group.role is Role.ACTUATOR:
            history = span.first - int(COMMAND_HISTORY_S * SECOND_NS)
            # One more before the window: it is in force when the window begins.
            begin = max(int(np.searchsorted(times_ns, history, side='right')) - 1, 0)
            commands.append(_series(group, slice(begin, stop), span.first, SignalType.MjCtrl))
        elif stop > start:
            rows = slice(start, stop)
            measurements.append(_series(group, rows, span.first, SignalType.MjSensor))
    return Trajectory(
        name, span.first, state.qpos, state.qvel, tuple(commands), tuple(measurements), bag=bag
    )


def _series(group: _Group, rows: slice, origin_ns: int, kind: SignalType) -> TimeSeries:
    times = (group.times_ns[rows] - origin_ns) / SECOND_NS
    columns: dict[str, list[int]] = {}
    for column, name in enumerate(group.names):
        columns.setdefault(name, []).append(column)
    signals = {name: (kind, np.array(indices)) for name, indices in columns.items()}
    return TimeSeries(times, group.values[rows], signals)

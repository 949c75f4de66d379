# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From a bag that is paired with a model to trajectories, and these as files."""

from __future__ import annotations

import csv
import dataclasses
import enum
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.health import (
    FEW,
    RESPONSE_S,
    FindingKind,
    HealthFinding,
    Span,
    TopicRate,
    source_findings,
    spans_where,
    topic_rate,
)
from sysid_ros.alignment.pairs import (
    ANY,
    Mapping,
    Pair,
    PairRole,
    Unmapped,
    column_name,
    command_quantity,
    is_of_joints,
    model_values,
    pair_columns,
    sensor_names,
    topic_columns,
    whole_rows,
)
from sysid_ros.alignment.segments import (
    InitialState,
    Piece,
    Segment,
    Signals,
    StampedSamples,
    derived_findings,
    find_cuts,
    find_segments,
    initial_state,
    marker_topics,
    within,
)
from sysid_ros.alignment.stamps import (
    Stamped,
    StampSource,
    longest_increasing,
    stamp_topics,
    topic_timing,
)
from sysid_ros.bags import BagColumns
from sysid_ros.bags.message_types import is_applied
from sysid_ros.config.schema import SegmentsConfig, StampChoice
from sysid_ros.errors import AlignmentError
from sysid_ros.files import replace_file, write_arrays
from sysid_ros.model.elements import component_label, driven_joint, is_orientation, sensor_unit
from sysid_ros.signals import SignalType, TimeSeries, Trajectory
from sysid_ros.signals.rotations import rotation_vectors
from sysid_ros.text import csv_header, to_json
from sysid_ros.vocabulary import SECOND_NS, Quantity

#: Commands are kept from this long before a sequence starts: a delay makes them act later, s.
COMMAND_HISTORY_S = 1.0


@dataclass(frozen=True)
class Alignment:
    """A bag as the model sees it: continuous runs, in time order.

    Stamps say where the times of paired topics are from, places where each sequence is, s from the
    first measurement, ``seconds`` when the last was, and begins what was measured around each
    sequence's start, s from there.
    """

    bag: str
    sequences: tuple[Trajectory, ...]
    pairs: tuple[Pair, ...]
    unmapped: tuple[Unmapped, ...]
    topics: tuple[TopicRate, ...]
    health: tuple[HealthFinding, ...]
    stamps: tuple[tuple[str, StampSource], ...] = ()
    places: tuple[tuple[str, Span], ...] = ()
    seconds: float = 0.0
    begins: tuple[tuple[TimeSeries, ...], ...] = ()


class _Selection(NamedTuple):
    """Pairs of one role and topic whose values are there in the same (n,) rows of the topic.

    The times of these rows increase strictly; ``applied`` is whether they are when commands acted,
    ``orientation`` whether the pairs are a quaternion.
    """

    pairs: tuple[Pair, ...]
    rows: NDArray[np.int64]
    times_ns: NDArray[np.int64]
    applied: bool = False
    orientation: bool = False

    @property
    def role(self) -> PairRole:
        """Sensors or actuators."""
        return self.pairs[0].role


class NothingLeftError(AlignmentError):
    """Too little of a bag is left once its commands are known, or between its cuts."""


def align(
    bag: BagColumns,
    model: mujoco.MjModel,
    mapping: Mapping,
    stamps: StampChoice,
    *,
    segments: SegmentsConfig | None = None,
    longest_delay: float = 0.0,
) -> Alignment:
    """Turn a bag into trajectories.

    Segments say what becomes trajectories; by default all does, cut at gaps. Commands may act late
    by the longest delay, s, or those of the model: trajectories start so long after the first
    command, as until then one that is not in the bag may be in force.

    Raises:
        AlignmentError: A marker is missing, or commands have no usable stamps.
        NothingLeftError: Few measurements are left while commands are known, or between cuts.
    """
    segments = segments or SegmentsConfig()
    longest_delay = max(longest_delay, *model.actuator_delay.tolist(), 0.0)
    used = {pair.topic for pair in mapping.pairs}
    markers = marker_topics(bag, segments)
    name = bag.path.name
    texts = [topic for topic in markers if not topic.fields]
    stamped, found = stamp_topics(bag, used | {item.topic for item in markers}, stamps, texts)
    health = [*mapping.health, *found]
    measured = {pair.topic for pair in mapping.pairs if pair.role is PairRole.SENSOR}
    usable = {topic: np.sort(item.times_ns[item.usable]) for topic, item in stamped.items()}
    rates = [
        topic_rate(name, topic.topic, len(topic.receive_ns), usable[topic.topic])
        for topic in bag.topics
    ]
    for topic in bag.topics:
        if topic.topic in used:
            health += stamped[topic.topic].findings
        if is_of_joints(topic):
            health += source_findings(name, topic)
    selections = _select(bag, model, mapping, stamped)
    instants = np.unique(
        np.concatenate([item.times_ns for item in selections if item.role is PairRole.SENSOR])
    )
    began = int(instants[0]) if len(instants) else 0
    for topic in bag.topics:
        if topic.topic in measured:
            health += topic_timing(name, topic, stamped[topic.topic], began)
    health += _masked(bag, model, mapping, stamped, began)
    spans, skipped = _find_segments(
        bag, model, selections, instants, stamped, segments, longest_delay
    )
    health += skipped
    begins = tuple(_begin(bag, selections, span) for span in spans)
    starts = [initial_state(model, begin) for begin in begins]
    health += derived_findings(name, model, starts)
    sequences = tuple(
        _trajectory(bag, name if len(spans) == 1 else f'{name}_{number}', selections, span, start)
        for number, (span, start) in enumerate(zip(spans, starts, strict=True))
    )
    return Alignment(
        name,
        sequences,
        mapping.pairs,
        mapping.unmapped,
        tuple(rates),
        tuple(health),
        tuple((topic, stamped[topic].source) for topic in sorted(used)),
        tuple(
            (sequence.name, ((span.first - began) / SECOND_NS, (span.last - began) / SECOND_NS))
            for sequence, span in zip(sequences, spans, strict=True)
        ),
        (int(instants[-1]) - began) / SECOND_NS,
        begins,
    )


def kept_columns(
    bag: BagColumns, alignment: Alignment, stamps: StampChoice, segments: SegmentsConfig
) -> BagColumns:
    """Return what segments leave of a bag, of which they made an alignment."""
    if segments == SegmentsConfig():
        return bag
    used = {pair.topic for pair in alignment.pairs}
    stamped, _ = stamp_topics(bag, used, stamps)
    spans = [
        Piece(each.origin_ns, each.origin_ns + round(each.duration * SECOND_NS))
        for each in alignment.sequences
    ]
    topics = []
    for topic in bag.topics:
        if topic.topic in used:
            rows = within(stamped[topic.topic].times_ns, spans)
            header, sent = (
                None if times is None else times[rows] for times in (topic.header_ns, topic.sent_ns)
            )
            fields = tuple(
                dataclasses.replace(field, values=field.values[rows]) for field in topic.fields
            )
            topics.append(
                dataclasses.replace(
                    topic,
                    receive_ns=topic.receive_ns[rows],
                    header_ns=header,
                    sent_ns=sent,
                    fields=fields,
                    legs=None,
                )
            )
    return dataclasses.replace(bag, topics=tuple(topics))


def _masked(
    bag: BagColumns,
    model: mujoco.MjModel,
    mapping: Mapping,
    stamped: dict[str, Stamped],
    began: int,
) -> Iterator[HealthFinding]:
    """Count values that are not there; the bag began at its first measurement, ns."""
    about = {topic.topic: topic.rows_about for topic in bag.topics}
    for pair in mapping.pairs:
        # Beyond the limits of a pair there is something, of which its mapping says what.
        finite = np.isfinite(model_values(bag, pair._replace(limits=ANY)))
        rows = about[pair.topic][pair.label]
        if pair.role is PairRole.SENSOR and is_orientation(model, pair.name):
            if pair.component:
                continue
            finite, pair = whole_rows(bag, mapping, pair), pair._replace(label='')  # noqa: PLW2901
        missing = len(rows) - int(np.count_nonzero(finite[rows]))
        if missing:
            yield HealthFinding(
                bag.path.name,
                column_name(pair.topic, pair.field, pair.label),
                FindingKind.MISSING,
                missing,
                f'of {len(rows)} values of {pair.name!r} are not finite or absent; left out',
                spans=spans_where(stamped[pair.topic].times_ns[rows], ~finite[rows], began),
            )


def _select(
    bag: BagColumns, model: mujoco.MjModel, mapping: Mapping, stamped: dict[str, Stamped]
) -> list[_Selection]:
    """Choose the rows of each column, columns with the same rows together."""
    together: dict[tuple[PairRole, str, str, bytes], list[Pair]] = {}
    for pair in mapping.pairs:
        whole = whole_rows(bag, mapping, pair)
        # An orientation is a series of its own: of four numbers become three.
        turned = pair.role is PairRole.SENSOR and is_orientation(model, pair.name)
        alone = pair.name if turned else ''
        together.setdefault((pair.role, pair.topic, alone, whole.tobytes()), []).append(pair)
    selections = []
    for (_, topic, alone, _), pairs in together.items():
        times = stamped[topic].times_ns
        present = np.flatnonzero(whole_rows(bag, mapping, pairs[0]))
        # Not the topic's usable rows: of two messages with one stamp each may carry other joints.
        rows = present[longest_increasing(times[present])]
        msgtype = topic_columns(bag, topic).msgtype
        applied = stamped[topic].source not in {'receive', 'sent'} and all(
            is_applied(msgtype, topic, pair.field) for pair in pairs
        )
        selections.append(_Selection(tuple(pairs), rows, times[rows], applied, bool(alone)))
    return selections


def _values(bag: BagColumns, pairs: Iterable[Pair], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return (n, k) values of pairs in rows of their topic, in model units."""
    return np.column_stack([model_values(bag, pair)[rows] for pair in pairs])


def _series(bag: BagColumns, selection: _Selection, rows: slice, origin_ns: int) -> TimeSeries:
    """Return selected rows as a series whose times are seconds from an origin."""
    kind = SignalType.MjSensor if selection.role is PairRole.SENSOR else SignalType.MjCtrl
    times = (selection.times_ns[rows] - origin_ns) / SECOND_NS
    values = _values(bag, selection.pairs, selection.rows[rows])
    columns: dict[str, list[int]] = {}
    for column, pair in enumerate(selection.pairs):
        columns.setdefault(pair.name, []).append(column)
    if selection.orientation:
        values = rotation_vectors(values)
        columns = {name: indices[:3] for name, indices in columns.items()}
    mapping = {name: (kind, np.array(indices)) for name, indices in columns.items()}
    return TimeSeries(times, values, mapping)


def _find_segments(
    bag: BagColumns,
    model: mujoco.MjModel,
    selections: list[_Selection],
    instants: NDArray[np.int64],
    stamped: dict[str, Stamped],
    config: SegmentsConfig,
    longest_delay: float,
) -> tuple[list[Segment], list[HealthFinding]]:
    """Find the runs in which all commands are known, and what the configuration keeps of them."""
    name = bag.path.name
    commands = [item for item in selections if item.role is PairRole.ACTUATOR]
    silent = [item.pairs[0].name for item in commands if not len(item.times_ns)]
    if not len(instants) or silent:
        what = f'the command of {silent[0]!r}' if silent else 'the measurements'
        raise AlignmentError(f'No stamp of {what} in {name!r} is usable.')
    start = int(instants[0])
    first = max((int(item.times_ns[0]) for item in commands), default=start)
    known = first + round(longest_delay * SECOND_NS) if commands else first
    findings = []
    early = int(np.count_nonzero(instants < known))
    if early:
        detail = (
            f'instants of {len(instants)} left out: the commands of all actuators are known from '
            f'{(known - instants[0]) / SECOND_NS:.3f} s on'
        )
        kind = FindingKind.BEFORE_FIRST_COMMAND
        when = spans_where(instants, instants < known, start)
        findings.append(HealthFinding(name, name, kind, early, detail, spans=when))
    told = all(item.applied for item in commands)
    measured = {item.pairs[0].topic for item in selections if item.role is PairRole.SENSOR}
    suspects = [
        topic_columns(bag, topic)
        for topic in sorted(measured)
        if not told and stamped[topic].source == 'header'
    ]
    cuts, chosen = find_cuts(
        bag, config, _signals(bag, model, selections), stamped, start, suspects
    )
    segments, cut = find_segments(name, instants, known, config, cuts, chosen)
    if not segments and cut:
        what = '; '.join(f'{item.kind}: {item.detail}' for item in cut)
        raise NothingLeftError(
            f'Expected {FEW} or more measured instants in {name!r} between the cuts '
            f'that segments asks for, found none ({what}).'
        )
    if not segments:
        after = [(int(time - instants[0])) / SECOND_NS for time in (known, instants[-1])]
        waited = (
            f' and {longest_delay:g} s have passed, its longest delay,' if known > first else ''
        )
        raise NothingLeftError(
            f'Expected {FEW} or more measured instants in {name!r} once every actuator has its '
            f'first command{waited} at {after[0]:+.3f} s from the first measurement, found '
            f'{int(np.count_nonzero(instants >= known))}, the last at {after[1]:+.3f} s.'
        )
    return segments, [*findings, *cut]


def _signals(bag: BagColumns, model: mujoco.MjModel, selections: list[_Selection]) -> Signals:
    """Sort columns by what they show: motion, effort, commands."""
    kind = mujoco.mjtSensor
    types = dict(zip(sensor_names(model), model.sensor_type.tolist(), strict=True))
    measured = {
        (types[pair.name], int(model.sensor(pair.name).objid[0]))
        for item in selections
        if item.role is PairRole.SENSOR
        for pair in item.pairs
    }

    def shows(pair: Pair) -> str:
        if pair.role is PairRole.ACTUATOR:
            return 'commands'
        sensor = types[pair.name]
        if sensor in {kind.mjSENS_JOINTACTFRC, kind.mjSENS_ACTUATORFRC}:
            return 'efforts'
        position = (kind.mjSENS_JOINTPOS, int(model.sensor(pair.name).objid[0]))
        velocity = sensor == kind.mjSENS_JOINTVEL and position not in measured
        return 'states' if sensor == kind.mjSENS_JOINTPOS or velocity else ''

    return Signals(
        *(
            [
                StampedSamples(item.times_ns, _values(bag, pairs, item.rows))
                for item in selections
                if len(item.rows) and (pairs := [p for p in item.pairs if shows(p) == what])
            ]
            for what in Signals._fields
        )
    )


def _begin(bag: BagColumns, selections: list[_Selection], span: Segment) -> tuple[TimeSeries, ...]:
    """Return what was measured around the first instant, from which the state there is told."""
    reach = round(RESPONSE_S * SECOND_NS)
    measured = []
    for item in selections:
        if item.role is PairRole.SENSOR:
            first, stop = np.searchsorted(item.times_ns, [span.run_first, span.last + 1])
            near = np.searchsorted(item.times_ns, [span.first - reach, span.first + reach])
            here = np.searchsorted(item.times_ns, span.first)
            # A slope needs two samples, however far away they are.
            rows = slice(max(first, min(near[0], here - 2)), min(stop, max(near[1], here + 2)))
            measured.append(_series(bag, item, rows, span.first))
    return tuple(measured)


def _trajectory(
    bag: BagColumns, name: str, selections: list[_Selection], span: Segment, state: InitialState
) -> Trajectory:
    commands, measurements = [], []
    replaced = np.zeros((0, 2))
    driving = [
        (item, pair) for item in selections if item.role is PairRole.ACTUATOR for pair in item.pairs
    ]
    interpolated = frozenset(
        pair.name for _, pair in driving if pair_columns(bag, pair).interpolated
    )
    applied = frozenset(pair.name for item, pair in driving if item.applied)
    for item in selections:
        start = int(np.searchsorted(item.times_ns, span.first))
        stop = int(np.searchsorted(item.times_ns, span.last, side='right'))
        if item.role is PairRole.ACTUATOR:
            history = span.first - int(COMMAND_HISTORY_S * SECOND_NS)
            # One more before the window: it is in force when the window begins.
            begin = max(int(np.searchsorted(item.times_ns, history, side='right')) - 1, 0)
            # And one more after it, which one that is interpolated is on its way to.
            stop += any(pair.name in interpolated for pair in item.pairs)
            commands.append(_series(bag, item, slice(begin, stop), span.first))
            topic = topic_columns(bag, item.pairs[0].topic)
            if topic.legs is not None:
                # When rows go over to the next message, and when that is at its first point.
                message, leg = topic.legs[item.rows[begin:stop]].T
                last = np.flatnonzero(np.diff(message))
                ends = np.searchsorted(leg, leg[last + 1], side='right') - 1
                replaced = commands[-1].times[np.stack([last, ends], axis=1)]
        elif stop > start:
            measurements.append(_series(bag, item, slice(start, stop), span.first))
    return Trajectory(
        name,
        span.first,
        state.qpos,
        state.qvel,
        tuple(commands),
        tuple(measurements),
        bag=bag.path.name,
        interpolated=interpolated,
        applied=applied,
        # Several controllers begin at updates of their own: which is whose is not followed.
        replaced=replaced if len(commands) == 1 else np.zeros((0, 2)),
    )


class Format(enum.Enum):
    """How a table is written."""

    NPZ = 'npz'
    CSV = 'csv'


def write_series(
    folder: Path,
    alignment: Alignment,
    model: mujoco.MjModel,
    formats: Iterable[Format] = (Format.NPZ, Format.CSV),
) -> tuple[Path, ...]:
    """Write the sequences of a bag, each series into a file of its own per format.

    ``NAME_commands_0`` and ``NAME_measurements_0`` hold time in s from the sequence's origin and
    one column per value. ``.npz`` is readable without pickle, also by MuJoCo's sysid toolbox:
    ``times`` (n,), ``data`` (n, k), ``signal_mapping`` and ``origin_ns``. ``.csv`` has one header
    line and exact numbers. ``NAME_health.json`` of the bag holds all else: origin and initial state
    of each sequence, actuators whose commands are interpolated between rows and not held, unit and
    source of each column, what was found, masked, cut, flipped or shifted, and what was not used.

    The folder is made where there is none. The files are returned.

    Raises:
        ResultError: The folder cannot be written.
    """
    written: list[Path] = []
    starts: list[dict[str, Any]] = []
    described: dict[tuple[str, str], dict[str, Any]] = {}
    for sequence in alignment.sequences:
        stems = []
        for what, role, several in (
            ('commands', PairRole.ACTUATOR, sequence.commands),
            ('measurements', PairRole.SENSOR, sequence.measurements),
        ):
            for number, series in enumerate(several):
                stems.append(f'{sequence.name}_{what}_{number}')
                columns = _columns(series, role, alignment.pairs, model)
                described.update(
                    {(column['element'], column['name']): column for column in columns}
                )
                for item in dict.fromkeys(formats):
                    written.append(folder / f'{stems[-1]}.{item.value}')
                    if item is Format.NPZ:
                        origin = {'origin_ns': np.asarray(sequence.origin_ns)}
                        write_arrays(written[-1], {**series.arrays(), **origin})
                    else:
                        _write_csv(written[-1], series, [column['name'] for column in columns])
        starts.append(
            {
                'name': sequence.name,
                'origin_ns': sequence.origin_ns,
                'duration': sequence.duration,
                'initial_qpos': sequence.initial_qpos,
                'initial_qvel': sequence.initial_qvel,
                'tables': stems,
                'interpolated': sorted(sequence.interpolated),
                'applied': sorted(sequence.applied),
            }
        )
    record = {
        'bag': alignment.bag,
        'sequences': starts,
        'columns': list(described.values()),
        'unmapped': alignment.unmapped,
        'topics': alignment.topics,
        'health': alignment.health,
    }
    path = folder / f'{alignment.bag}_health.json'
    replace_file(path, (to_json(record, indent=1) + '\n').encode())
    return (*written, path)


def _write_csv(path: Path, series: TimeSeries, names: list[str]) -> None:
    stream = io.StringIO(newline='')
    stream.write(csv_header(['time', *names]))
    # The writer takes repr() of floats: the shortest text that reads as the same number.
    rows = np.column_stack([series.times, series.data]).tolist()
    csv.writer(stream, lineterminator='\n').writerows(rows)
    replace_file(path, stream.getvalue().encode())


def _columns(
    series: TimeSeries, role: PairRole, pairs: tuple[Pair, ...], model: mujoco.MjModel
) -> list[dict[str, Any]]:
    """Describe the columns of a series, in order: what each is, of which element, and its source.

    The element, as ``sensor/elbow_position``, measures or drives another, as ``joint/elbow``. The
    unit is empty where none is known.
    """
    found: dict[int, dict[str, Any]] = {}
    for name, (_, indices) in series.signal_mapping.items():
        own = [pair for pair in pairs if (pair.role, pair.name) == (role, name)]
        own.sort(key=lambda pair: pair.component)
        unit, target = _unit_and_target(model, role, name)
        element = {'unit': unit, 'element': f'{role.value}/{name}', 'of': target}
        sources = ('topic', 'field', 'label', 'scale', 'offset')
        if role is PairRole.SENSOR and is_orientation(model, name):  # its rotation vector
            own = [own[0]._replace(label='')] * len(indices)
        for place, (index, pair) in enumerate(zip(indices.tolist(), own, strict=True)):
            label = {'name': component_label(name, place, len(own))}
            found[index] = label | element | {key: getattr(pair, key) for key in sources}
    return [found[index] for index in sorted(found)]


def _unit_and_target(model: mujoco.MjModel, role: PairRole, name: str) -> tuple[str, str]:
    """Return the unit of a sensor or control and the element it belongs to, as ``joint/elbow``.

    Both are empty where the model does not say; of a control, gain or gear may decide the unit.
    """
    if role is PairRole.SENSOR:
        sensor = model.sensor(name)
        unit, kind, index = sensor_unit(model, name), int(sensor.objtype[0]), int(sensor.objid[0])
    else:
        actuator = model.actuator(name)
        kind, index = int(mujoco.mjtObj.mjOBJ_JOINT), driven_joint(model, actuator.id)
        if index < 0:
            return '', ''
        commanded = command_quantity(model, actuator.id)
        scaled = commanded is Quantity.EFFORT and actuator.gainprm[0] != 1
        slide = bool(model.jnt_type[index] == mujoco.mjtJoint.mjJNT_SLIDE)
        unit = '' if scaled or actuator.gear[0] != 1 else commanded.unit(slide=slide)
    found = mujoco.mj_id2name(model, kind, index) if index >= 0 else None
    return unit, f'{mujoco.mju_type2Str(kind)}/{found}' if found else ''

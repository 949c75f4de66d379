# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which parts of a bag become trajectories, and in which state of the model each begins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import mujoco
import numpy as np
import scipy
from numpy.typing import NDArray

from sysid_ros.alignment.health import (
    ERRORS,
    FEW,
    LITTLE,
    RESPONSE_S,
    ROUNDING,
    FindingKind,
    HealthFinding,
    spans_of,
    spans_where,
)
from sysid_ros.alignment.stamps import STEADY_S, Stamped, no_time_of_day
from sysid_ros.bags import BagColumns, TopicColumns
from sysid_ros.bags.message_types import TEXT
from sysid_ros.config.schema import MarkerConfig, Ranges, SegmentsConfig
from sysid_ros.errors import AlignmentError, listed, nearest
from sysid_ros.model.elements import is_orientation, posed_joint
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.vocabulary import SECOND_NS

#: A channel stands still while it stays within this part of its range, or so many of its steps.
_STILL, _STEPS = 2e-3, 2.0
#: What the robot sends so much later after its stamp than usual was held up, s: a fit moves no
#: command farther.
_HELD_UP = 0.025
#: Commands that came meanwhile have acted so long after, s.
_CAUGHT_UP = 0.1
#: The end of a piece that goes on, ns.
_FOREVER = int(np.iinfo(np.int64).max)
#: Measured joints go from qpos0 to where they were in so many steps: a linkage closes in more than
#: one way, and is put together as it is in qpos0.
_PARTS = 100
#: A line or parabola is fitted to the samples within this of the start, s; where the rate is too
#: low for that, two samples within the time of a response do.
WINDOW_S = 0.025


class StampedSamples(NamedTuple):
    """Channels that are measured or commanded together: (n,) ns, strictly increasing; (n, k)."""

    times_ns: NDArray[np.int64]
    values: NDArray[np.float64]


class Piece(NamedTuple):
    """A piece of time from ``first`` to ``last``, ns, both included."""

    first: int
    last: int


def rest(states: Sequence[StampedSamples]) -> list[Piece]:
    """Find where no joint moves for half a second or longer.

    A channel stands still while it stays within 0.2 % of its range, five standard deviations of its
    noise (from fourth differences, which smooth motion hardly enters), or two encoder steps.
    """
    return intersect([_standstill(item) for item in states])


def stops(
    states: Sequence[StampedSamples],
    efforts: Sequence[StampedSamples],
    commands: Sequence[StampedSamples],
) -> dict[str, list[Piece]]:
    """Find what was seen where the robot was stopped for half a second or longer.

    The moment in which joints brake before they stand still belongs to the stop.
    """
    response = round(RESPONSE_S * SECOND_NS)
    asked = []
    for piece in rest(states):
        for times, values in commands:
            # Commands move for longer than joints lag behind.
            rows = within(times, [Piece(piece.first, piece.last - response)])
            if rows.any() and np.any(
                np.ptp(values[rows], axis=0) > LITTLE * np.ptp(values, axis=0)
            ):
                asked.append(Piece(piece.first - response, piece.last))
                break
    powered = []
    for times, values in efforts:
        zero = np.all(values == 0, axis=1)
        if len(times):
            powered.append([] if zero.all() else _runs(times, zero))
    return {
        'joints stand still while commands move': asked,
        'all efforts are zero': intersect(powered),
    }


def within(times_ns: NDArray[np.int64], pieces: Iterable[Piece]) -> NDArray[np.bool_]:
    """Return (n,) True for the times that lie in one of the pieces."""
    inside = np.zeros(len(times_ns), dtype=bool)
    for first, last in pieces:
        inside |= (times_ns >= first) & (times_ns <= last)
    return inside


def intersect(several: Sequence[list[Piece]]) -> list[Piece]:
    """Return what lies in a piece of each list and lasts for ``RESPONSE_S`` or longer."""
    common = several[0] if several else []
    for pieces in several[1:]:
        common = [piece for piece in _overlaps(common, pieces) if _lasts(piece)]
    return common


def _overlaps(one: Iterable[Piece], other: Sequence[Piece]) -> Iterator[Piece]:
    """Yield what each two pieces share, of negative length where that is nothing."""
    return (Piece(max(a.first, b.first), min(a.last, b.last)) for a in one for b in other)


def _lasts(piece: Piece) -> bool:
    return piece.last - piece.first >= RESPONSE_S * SECOND_NS


def _runs(times_ns: NDArray[np.int64], mask: NDArray[np.bool_]) -> list[Piece]:
    """Return from the first to the last of neighbouring True samples, where they last."""
    rows = np.flatnonzero(mask)
    if not len(rows):
        return []
    groups = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    pieces = [Piece(int(times_ns[rows[0]]), int(times_ns[rows[-1]])) for rows in groups]
    return [piece for piece in pieces if _lasts(piece)]


def _standstill(samples: StampedSamples) -> list[Piece]:
    times, values = samples
    if len(times) < FEW:
        return []
    period = float(np.median(np.diff(times)))
    width = 2 * max(round(RESPONSE_S * SECOND_NS / period) // 2, 1) + 1
    high = scipy.ndimage.maximum_filter1d(values, width, axis=0, mode='nearest')
    low = scipy.ndimage.minimum_filter1d(values, width, axis=0, mode='nearest')
    # The spread of each channel that is no motion.
    tolerance = _STILL * np.ptp(values, axis=0)
    if len(values) > 5:  # noqa: PLR2004 - fourth differences need five samples
        # Weights 1, -4, 6, -4, 1: the variance is 70 times that of white noise.
        rough = np.abs(np.diff(values, n=4, axis=0))
        tolerance = np.maximum(tolerance, ERRORS * 1.4826 * np.median(rough, axis=0) / 70**0.5)
    changes = np.abs(np.diff(values, axis=0))
    steps = np.min(np.where(changes > 0, changes, np.inf), axis=0)
    steps[~np.isfinite(steps)] = 0.0
    calm = np.all(high - low <= np.maximum(tolerance, _STEPS * steps), axis=1)
    # A calm window is a standstill of all its samples.
    return _runs(times, scipy.ndimage.binary_dilation(calm, np.ones(width, dtype=bool)))


class Segment(NamedTuple):
    """First and last measured instant of a trajectory, ns, and where its run began.

    What was measured earlier in the run helps to tell the state at the first instant.
    """

    first: int
    last: int
    run_first: int


class Cut(NamedTuple):
    """Pieces that are left out, and what was seen there or who said so."""

    kind: FindingKind
    why: str
    pieces: list[Piece]


class Signals(NamedTuple):
    """The channels that show motion and stops, in groups with common stamps.

    The states are positions of joints, and velocities of those whose position is not measured.
    """

    states: Sequence[StampedSamples]
    efforts: Sequence[StampedSamples]
    commands: Sequence[StampedSamples]


def marker_topics(bag: BagColumns, config: SegmentsConfig) -> list[TopicColumns]:
    """Return the topics that say when; those with texts have no fields.

    Raises:
        AlignmentError: The bag has no such topic, or its messages are neither a text nor one
            number.
    """
    found = []
    known = {topic.topic: topic for topic in bag.topics}
    for item in bag.text_columns:
        known[item.topic] = TopicColumns(item.topic, TEXT, item.receive_ns, None, ())
    for marker in (config.marker, config.contacts):
        if marker is None:
            continue
        name = marker.topic
        if name not in known:
            hint = nearest(name, known)
            raise AlignmentError(
                f'Expected the marker topic {name!r} in bag {bag.path.name!r}; {hint}.'
            )
        width = sum(len(field.labels) for field in known[name].fields)
        if known[name].msgtype != TEXT and width != 1:
            raise AlignmentError(
                f'Expected a text or one number in messages of the marker topic {name!r} in bag '
                f'{bag.path.name!r}, found {width} numbers in {known[name].msgtype}.'
            )
        found.append(known[name])
    return found


def find_cuts(
    bag: BagColumns,
    config: SegmentsConfig,
    signals: Signals,
    stamped: Mapping[str, Stamped],
    start: int,
    suspects: Iterable[TopicColumns] = (),
) -> tuple[list[Cut], list[Piece] | None]:
    """Return what is left out, and what is chosen; None for all.

    Marker topics are stamped; the start is the first measured instant, ns. Suspects are topics of
    measurements beside commands of which nobody says when they acted.
    """
    cuts = []
    held = held_up(suspects)
    if held:
        why = 'the robot was held up, so that nobody knows when commands acted'
        cuts.append(Cut(FindingKind.STALL, why, held))
    name = bag.path.name
    if config.stops:
        cuts += [Cut(FindingKind.EMERGENCY_STOP, *seen) for seen in stops(*signals).items()]
    if config.contacts is not None:
        pieces = _while_on(bag, config.contacts, stamped)
        cuts.append(Cut(FindingKind.LEFT_OUT, f'{config.contacts.topic} says so', pieces))
    without = _ranges(config.without, name, start)
    if without:
        cuts.append(Cut(FindingKind.LEFT_OUT, 'segments.without says so', without))
    if config.moving:
        cuts.append(Cut(FindingKind.LEFT_OUT, 'no joint moves', rest(signals.states)))
    chosen = None if config.times is None else _ranges(config.times, name, start)
    if config.marker is not None:
        on = _while_on(bag, config.marker, stamped)
        if chosen is None:
            chosen = on
        else:
            chosen = [piece for piece in _overlaps(chosen, on) if piece.first <= piece.last]
    return cuts, chosen


def held_up(topics: Iterable[TopicColumns]) -> list[Piece]:
    """Return where a robot was held up, by when it sent what it had measured.

    What it was told meanwhile has acted later than usual, in bunches or not at all, and nobody says
    when. Topics without stamps of their own say nothing, nor do those that were recorded in
    simulated time, which waits for the robot.
    """
    pieces = []
    for topic in topics:
        header = topic.header_ns
        if header is None or not header.all():
            continue
        sent = topic.receive_ns if topic.sent_ns is None else topic.sent_ns
        rows = np.flatnonzero(sent > 0)
        if no_time_of_day(sent[rows]):
            continue
        header, late = header[rows], (sent - header)[rows] / SECOND_NS
        block = ((header - header.min(initial=0)) / (STEADY_S * SECOND_NS)).astype(np.int64)
        for each in np.unique(block):
            late[block == each] -= np.median(late[block == each])
        held = np.flatnonzero(late > _HELD_UP)
        for run in np.split(held, np.flatnonzero(np.diff(held) > 1) + 1) if len(held) else ():
            last = int(header[run[-1]]) + round(_CAUGHT_UP * SECOND_NS)
            pieces.append(Piece(int(header[run[0]]), last))
    return pieces


def find_segments(
    bag: str,
    instants: NDArray[np.int64],
    known: int,
    config: SegmentsConfig,
    cuts: Sequence[Cut] = (),
    chosen: Sequence[Piece] | None = None,
) -> tuple[list[Segment], list[HealthFinding]]:
    """Cut the (n,) measured instants of a bag, ns, into segments, and say what is left out.

    The commands of all actuators are known from an instant on. No run goes across a cut; one that
    is chosen may have begun before.
    """
    findings = []
    start = int(instants[0])
    left = np.ones(len(instants), dtype=bool)
    for cut in cuts:
        if cut.pieces:
            lost = left & within(instants, cut.pieces)
            left &= ~lost
            count = int(np.count_nonzero(lost))
            where = named_pieces(cut.pieces, start)
            detail = f'{where}: {cut.why}; {count} instants left out'
            first, last = np.array(sorted(cut.pieces)).clip(instants[0], instants[-1]).T
            when = spans_of(first, last, start)
            findings.append(HealthFinding(bag, bag, cut.kind, len(cut.pieces), detail, spans=when))
    kept = left if chosen is None else left & within(instants, chosen)
    outside = int(np.count_nonzero(left & ~kept))
    if outside:
        detail = f'instants of {len(instants)} left out: they are not in the segments asked for'
        kind, when = FindingKind.LEFT_OUT, spans_where(instants, left & ~kept, start)
        findings.append(HealthFinding(bag, bag, kind, outside, detail, spans=when))
    kept = kept & (instants >= known)  # not in place: it may be what is left
    segments = []
    starts = [piece.first for cut in cuts for piece in cut.pieces]
    for run in _apart(instants, left, starts, config.gap):
        rows = np.zeros(len(instants), dtype=bool)
        rows[run] = kept[run]
        for part in _apart(instants, rows, [piece.first for piece in chosen or ()], config.gap):
            times = instants[part]
            windows = [times]
            if config.window is not None:
                number = (times - times[0]) // round(config.window * SECOND_NS)
                windows = np.split(times, np.flatnonzero(np.diff(number)) + 1)
            for window in windows:
                if len(window) >= FEW:
                    first, last = int(window[0]), int(window[-1])
                    segments.append(Segment(first, last, int(instants[run[0]])))
                    continue
                where = named_pieces([Piece(int(window[0]), int(window[-1]))], start)
                detail = f'{where}: fewer than {FEW} instants between cuts; left out'
                kind, when = FindingKind.LEFT_OUT, spans_of(window[:1], window[-1:], start)
                findings.append(HealthFinding(bag, bag, kind, len(window), detail, spans=when))
    if config.window is not None and segments:
        detail = f'sequences of {config.window:g} s or what is left; each starts from measurements'
        findings.append(HealthFinding(bag, bag, FindingKind.LEFT_OUT, len(segments), detail))
    return segments, findings


def _apart(
    instants: NDArray[np.int64], rows: NDArray[np.bool_], starts: Sequence[int], gap: float
) -> list[NDArray[np.int64]]:
    """Split rows where instants are missing between them, at gaps, and where a piece starts."""
    chosen = np.flatnonzero(rows)
    if not len(chosen):
        return []
    times = instants[chosen]
    begun = np.searchsorted(np.sort(np.array(starts, dtype=np.int64)), times, side='right')
    apart = (np.diff(chosen) > 1) | (np.diff(times) > gap * SECOND_NS) | (np.diff(begun) > 0)
    return np.split(chosen, np.flatnonzero(apart) + 1)


def _ranges(ranges: Ranges | dict[str, Ranges], bag: str, start: int) -> list[Piece] | None:
    """Return the pieces that are meant for a bag; None where it is not named."""
    if isinstance(ranges, dict):
        own = [item for name, item in ranges.items() if fnmatchcase(bag, name)]
        if not own:
            return None
        ranges = tuple(pair for item in own for pair in item)
    return [
        Piece(start + round(first * SECOND_NS), start + round(last * SECOND_NS))
        for first, last in ranges
    ]


def _while_on(bag: BagColumns, marker: MarkerConfig, stamped: Mapping[str, Stamped]) -> list[Piece]:
    """Return where a marker is on, a piece per text; it keeps its state, and begins off."""
    texts = next((item.texts for item in bag.text_columns if item.topic == marker.topic), None)
    if texts is None:
        (topic,) = (item for item in bag.topics if item.topic == marker.topic)
        says = np.nan_to_num(topic.fields[0].values[:, 0]) != 0
        on = says
    else:
        says = np.array(texts)
        on = np.array([fnmatchcase(text, marker.text) for text in texts], dtype=bool)
    times, usable, *_ = stamped[marker.topic]
    times, says, on = times[usable], says[usable], on[usable]
    ends = np.append(times[1:] - 1, _FOREVER)
    pieces: list[Piece] = []
    for row in np.flatnonzero(on).tolist():
        if row and on[row - 1] and says[row] == says[row - 1]:
            pieces[-1] = Piece(pieces[-1].first, int(ends[row]))
        else:
            pieces.append(Piece(int(times[row]), int(ends[row])))
    return pieces


def named_pieces(pieces: Sequence[Piece], start: int) -> str:
    """Write pieces in seconds from the first measurement."""
    shown = []
    for first, last in pieces:
        end = 'the end' if last == _FOREVER else f'{(last - start) / SECOND_NS:.3f} s'
        shown.append(f'{(first - start) / SECOND_NS:.3f} to {end}')
    return listed(shown)


def close_loops(
    model: mujoco.MjModel,
    qpos: NDArray[np.float64],
    qvel: NDArray[np.float64],
    positions: NDArray[np.bool_],
    velocities: NDArray[np.bool_],
) -> None:
    """Put joints that are not measured where the active equalities of the model hold, in place.

    Where nothing is measured, ``qpos`` is qpos0 and ``qvel`` zero. Positions and velocities, (nv,),
    say along which degrees of freedom they are known.
    """
    if not model.neq or positions.all():
        return
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    if np.abs(_equalities(model, data)[0]).max(initial=0.0) > ROUNDING:
        far = qpos - model.qpos0
        moved = np.flatnonzero(far)
        data.qpos[:] = model.qpos0
        for part in np.linspace(0, 1, _PARTS + 1)[1:]:
            data.qpos[moved] = (model.qpos0 + part * far)[moved]
            _solve(model, data, ~positions)
        qpos[:] = data.qpos
    _, jacobian = _equalities(model, data)
    free = ~velocities
    qvel[free] -= np.linalg.lstsq(jacobian[:, free], jacobian @ qvel, ROUNDING)[0]


def _solve(model: mujoco.MjModel, data: mujoco.MjData, free: NDArray[np.bool_]) -> None:
    """Move free degrees of freedom by Gauss-Newton steps while each halves what is left."""
    left, jacobian = _equalities(model, data)
    size, last = np.abs(left).max(initial=0.0), np.inf
    while ROUNDING < size < last / 2:
        before, last = data.qpos.copy(), size
        step = np.zeros(model.nv)
        step[free] = -np.linalg.lstsq(jacobian[:, free], left, ROUNDING)[0]
        mujoco.mj_integratePos(model, data.qpos, step, 1.0)
        left, jacobian = _equalities(model, data)
        size = np.abs(left).max(initial=0.0)
        if not size < last:
            data.qpos[:] = before


def _equalities(
    model: mujoco.MjModel, data: mujoco.MjData
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (k,) what is left of the active equalities, rad or m, and (k, nv) its Jacobian."""
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_flex(model, data)
    mujoco.mj_tendon(model, data)
    mujoco.mj_makeConstraint(model, data)
    jacobian = np.zeros((data.nefc, model.nv))
    if mujoco.mj_isSparse(model):
        rows = data.efc_J_rownnz, data.efc_J_rowadr, data.efc_J_colind
        mujoco.mju_sparse2dense(jacobian, data.efc_J, *rows)
    else:
        jacobian[:] = data.efc_J.reshape(jacobian.shape)
    return data.efc_pos[: data.ne].copy(), jacobian[: data.ne]


class InitialState(NamedTuple):
    """(nq,) configuration and (nv,) velocity at a start, and joints whose velocity is a slope."""

    qpos: NDArray[np.float64]
    qvel: NDArray[np.float64]
    derived: tuple[int, ...]


def initial_state(
    model: mujoco.MjModel, measurements: Iterable[TimeSeries], at: float = 0.0
) -> InitialState:
    """Estimate the state at an instant.

    Joints that are not measured start at the model's qpos0, at rest, or where its equalities tie
    them to measured ones. Where no velocity is measured the slope of the polynomial that fits the
    positions around the start is taken, over the same instants before and after where there are
    some: the derivative of a Savitzky-Golay filter (doi:10.1021/ac60214a047), without its need for
    a constant period, and like that without phase.

    Of the measurements, jointpos and jointvel sensors count, and framepos and framequat sensors of
    bodies with a free joint; NaN is no sample. The instant is in s in their time.
    """
    qpos = np.array(model.qpos0, dtype=np.float64)
    qvel = np.zeros(model.nv)
    series = tuple(measurements)
    positions = dict(_samples(model, series, mujoco.mjtSensor.mjSENS_JOINTPOS, at))
    velocities = dict(_samples(model, series, mujoco.mjtSensor.mjSENS_JOINTVEL, at))
    for joint, (times, values) in positions.items():
        position = _value_at_zero(times, values)
        closest = int(np.argmin(np.abs(times)))
        away = float(times[closest])
        if joint not in velocities:
            near = _near(times, WINDOW_S)
            qvel[model.jnt_dofadr[joint]] = _fit(times[near], values[near])[1]
        elif np.count_nonzero(np.abs(times) <= WINDOW_S) <= 2 and abs(away) <= RESPONSE_S:  # noqa: PLR2004
            # The velocity on the way tells more than the line between two samples.
            own_times, own = velocities[joint]
            position = float(values[closest]) - away * _value_at_zero(own_times - away / 2, own)
        qpos[model.jnt_qposadr[joint]] = position
    for joint, (times, values) in velocities.items():
        qvel[model.jnt_dofadr[joint]] = _value_at_zero(times, values)
    there, moving = np.zeros((2, model.nv), dtype=bool)
    there[model.jnt_dofadr[list(positions)]] = True
    moving[model.jnt_dofadr[[*positions, *velocities]]] = True
    for joint, pose, velocity in _free_bodies(model, series, at):
        first, dof = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
        qpos[first : first + 7], qvel[dof : dof + 6] = pose, velocity
        there[dof : dof + 6] = moving[dof : dof + 6] = True
    close_loops(model, qpos, qvel, there, moving)
    return InitialState(qpos, qvel, tuple(sorted(positions.keys() - velocities.keys())))


def _free_bodies(
    model: mujoco.MjModel, measurements: Iterable[TimeSeries], at: float
) -> Iterator[tuple[int, NDArray[np.float64], NDArray[np.float64]]]:
    """Yield free joints of bodies whose place is measured, with (7,) poses and (6,) velocities.

    Velocities are slopes. A body whose orientation is not measured is turned as in the model.
    """
    samples: dict[tuple[int, bool], tuple[int, NDArray[np.float64], NDArray[np.float64]]] = {}
    for series in measurements:
        for name, (kind, columns) in series.signal_mapping.items():
            joint = posed_joint(model, name) if kind is SignalType.MjSensor else -1
            known = np.isfinite(series.data[:, columns]).all(axis=1)
            if joint >= 0 and known.any():
                times, values = series.times[known] - at, series.data[known][:, columns]
                near = _near(times, WINDOW_S)
                key = joint, is_orientation(model, name)
                samples.setdefault(key, (model.sensor(name).id, times[near], values[near]))
    if not samples:
        return
    from scipy.spatial.transform import Rotation  # noqa: PLC0415 (slow to import)

    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)

    def in_model(row: int) -> NDArray[np.float64]:
        first = int(model.sensor_adr[row])
        return np.array(data.sensordata[first : first + int(model.sensor_dim[row])])

    for joint, oriented in samples:
        if oriented:
            continue
        body = int(model.jnt_bodyid[joint])
        modelled = Rotation.from_quat(data.xquat[body], scalar_first=True)
        turned, spin = modelled, np.zeros(3)
        if (joint, True) in samples:
            row, times, vectors = samples[joint, True]
            measured = Rotation.from_rotvec(vectors)
            closest = measured[int(np.argmin(np.abs(times)))]
            moved = (measured * closest.inv()).as_rotvec().T
            now, spin = np.transpose([_fit(times, axis) for axis in moved])
            mounted = modelled.inv() * Rotation.from_quat(in_model(row), scalar_first=True)
            turned = Rotation.from_rotvec(now) * closest * mounted.inv()
        row, times, values = samples[joint, False]
        place, speed = np.transpose([_fit(times, axis) for axis in values.T])
        arm = turned.apply(modelled.inv().apply(in_model(row) - data.xpos[body]))
        pose = np.append(place - arm, turned.as_quat(scalar_first=True))
        # Free joints turn about the axes of the body, and move along those of the world.
        yield joint, pose, np.append(speed - np.cross(spin, arm), turned.inv().apply(spin))


def derived_findings(
    bag: str, model: mujoco.MjModel, starts: Sequence[InitialState]
) -> list[HealthFinding]:
    """Name the joints whose velocity was derived, and at how many starts."""
    counts = Counter(joint for start in starts for joint in start.derived)
    detail = (
        'no velocity is measured; at the start of each sequence it is the slope of the position '
        f'(polynomial over ±{1e3 * WINDOW_S:g} ms, not causal)'
    )
    return [
        HealthFinding(bag, model.joint(joint).name, FindingKind.NOT_MEASURED, count, detail)
        for joint, count in sorted(counts.items())
    ]


def _samples(
    model: mujoco.MjModel, measurements: Iterable[TimeSeries], sensor: mujoco.mjtSensor, at: float
) -> Iterator[tuple[int, tuple[NDArray[np.float64], NDArray[np.float64]]]]:
    """Yield joints that a kind of sensor measures, with times from the start, s, and values."""
    for series in measurements:
        for name, (kind, columns) in series.signal_mapping.items():
            if kind is not SignalType.MjSensor:
                continue
            row = model.sensor(name).id
            if model.sensor_type[row] != sensor:
                continue
            values = series.data[:, columns[0]]
            finite = np.isfinite(values)
            if finite.any():
                yield int(model.sensor_objid[row]), (series.times[finite] - at, values[finite])


def _fit(times: NDArray[np.float64], values: NDArray[np.float64]) -> tuple[float, float]:
    """Fit a straight line, or a parabola where there are enough samples.

    The mean of a window of half width w around zero is off by a w² / 6 under an acceleration a:
    3 mrad for 50 rad/s² and 20 ms. The parabola's term of second order takes that up. The result is
    value and slope at zero.
    """
    scale = float(np.ptp(times))
    if not scale:
        return float(values.mean()), 0.0
    # On one side, noise costs more than curvature with few samples; between both it never does.
    both = times.min() < 0.0 < times.max()
    degree = 2 if len(times) > (2 if both else FEW) else 1
    coefficients = np.polynomial.polynomial.polyfit(times / scale, values, degree)
    return float(coefficients[0]), float(coefficients[1]) / scale


def _near(times: NDArray[np.float64], window: float) -> NDArray[np.int64]:
    """Return the samples in a window, or the nearest two where there are fewer and these close."""
    near = np.flatnonzero(np.abs(times) <= window)
    if len(near) < 2:  # noqa: PLR2004 - a slope needs two samples
        near = np.argsort(np.abs(times), kind='stable')[:2]
        if np.abs(times[near]).max() > RESPONSE_S:
            near = near[:1]
    return near


def _value_at_zero(times: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    near = _near(times, WINDOW_S)
    return _fit(times[near], values[near])[0]

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which parts of a bag become trajectories: what is left out, what is chosen, where it is cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

from sysid_ros.alignment.health import (
    SECOND_NS,
    FindingKind,
    HealthFinding,
    spans_of,
    spans_where,
)
from sysid_ros.alignment.stamps import Stamped
from sysid_ros.bags import BagColumns, TopicColumns
from sysid_ros.bags.message_types import TEXT
from sysid_ros.config import MarkerConfig, Ranges, SegmentsConfig
from sysid_ros.errors import AlignmentError, nearest

#: A standstill lasts at least this long, s.
STANDSTILL_S = 0.5
#: Joints that stop under brakes are still in motion for at most this long, s.
BRAKING_S = 0.5
#: A channel stands still while it stays within this part of its range.
_STANDSTILL_PART = 2e-3
#: It also stands still within so many standard deviations of its noise.
_NOISE = 6.0
#: It also stands still within so many of its encoder's steps.
_STEPS = 2.0
#: Commands that move by more than this part of their range ask joints to move.
_ASKED = 0.05


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

    A channel stands still while it stays within 0.2 % of its range, six standard deviations of its
    noise (from fourth differences, which smooth motion hardly enters), or two encoder steps.

    Args:
        states: Positions, or velocities of joints whose position is not measured.
    """
    if not states:
        return []
    return intersect([_standstill(item) for item in states])


def stops(
    states: Sequence[StampedSamples],
    efforts: Sequence[StampedSamples],
    commands: Sequence[StampedSamples],
) -> dict[str, list[Piece]]:
    """Find where the robot was stopped for half a second or longer.

    Joints that brake slow down for a moment before they stand still; that moment belongs to the
    stop.

    Returns:
        What was seen to where it was seen.
    """
    asked = [piece for piece in rest(states) if any(_asks(item, piece) for item in commands)]
    braking = round(BRAKING_S * SECOND_NS)
    powered = []
    for times, values in efforts:
        zero = np.all(values == 0, axis=1)
        if len(times):
            powered.append([] if zero.all() else _runs(times, zero))
    return {
        'joints stand still while commands move': [
            Piece(piece.first - braking, piece.last) for piece in asked
        ],
        'all efforts are zero': intersect(powered) if powered else [],
    }


def within(times_ns: NDArray[np.int64], pieces: Iterable[Piece]) -> NDArray[np.bool_]:
    """Return (n,) True for the times that lie in one of the pieces."""
    inside = np.zeros(len(times_ns), dtype=bool)
    for first, last in pieces:
        inside |= (times_ns >= first) & (times_ns <= last)
    return inside


def intersect(several: Sequence[list[Piece]]) -> list[Piece]:
    """Return what lies in a piece of each list and lasts for ``STANDSTILL_S`` or longer."""
    common = several[0]
    for pieces in several[1:]:
        both = (Piece(max(a.first, b.first), min(a.last, b.last)) for a in common for b in pieces)
        common = [piece for piece in both if _lasts(piece)]
    return common


def _lasts(piece: Piece) -> bool:
    return piece.last - piece.first >= STANDSTILL_S * SECOND_NS


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
    if len(times) < FEWEST_SAMPLES:
        return []
    period = float(np.median(np.diff(times)))
    width = 2 * max(round(STANDSTILL_S * SECOND_NS / period) // 2, 1) + 1
    high = scipy.ndimage.maximum_filter1d(values, width, axis=0, mode='nearest')
    low = scipy.ndimage.minimum_filter1d(values, width, axis=0, mode='nearest')
    calm = np.all(high - low <= _tolerance(values), axis=1)
    # A calm window is a standstill of all its samples.
    return _runs(times, scipy.ndimage.binary_dilation(calm, np.ones(width, dtype=bool)))


def _tolerance(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the (k,) spread of each channel that is no motion."""
    tolerance = _STANDSTILL_PART * np.ptp(values, axis=0)
    if len(values) > 5:  # noqa: PLR2004 - fourth differences need five samples
        # Weights 1, -4, 6, -4, 1: the variance is 70 times that of white noise.
        rough = np.abs(np.diff(values, n=4, axis=0))
        tolerance = np.maximum(tolerance, _NOISE * 1.4826 * np.median(rough, axis=0) / 70**0.5)
    changes = np.abs(np.diff(values, axis=0))
    steps = np.min(np.where(changes > 0, changes, np.inf), axis=0)
    steps[~np.isfinite(steps)] = 0.0
    return np.asarray(np.maximum(tolerance, _STEPS * steps), dtype=np.float64)


def _asks(commands: StampedSamples, piece: Piece) -> bool:
    """Tell whether commands move while joints stand still, longer than joints lag behind."""
    rows = within(
        commands.times_ns, [Piece(piece.first, piece.last - round(STANDSTILL_S * SECOND_NS))]
    )
    if not rows.any():
        return False
    moved = np.ptp(commands.values[rows], axis=0)
    return bool(np.any(moved > _ASKED * np.ptp(commands.values, axis=0)))


#: A trajectory with fewer instants than this is left out.
FEWEST_SAMPLES = 5
#: Kinds of findings about instants that were left out because something makes them useless, or
#: segments asks for it.
LEFT_OUT = frozenset({FindingKind.EMERGENCY_STOP, FindingKind.LEFT_OUT, FindingKind.STALL})
#: So many pieces are named one by one.
_NAMED = 3
#: What the robot sends so much later after its stamp than usual was held up, s: a fit moves no
#: command farther. What is usual may change over this time, s.
_HELD_UP, _USUAL = 0.025, 10.0
#: Commands that came meanwhile have acted so long after, s.
_CAUGHT_UP = 0.1
#: The end of a piece that goes on, ns.
_FOREVER = int(np.iinfo(np.int64).max)


class Segment(NamedTuple):
    """First and last measured instant of a trajectory, ns, and of the run it was cut from.

    What was measured earlier in the run helps to tell the state at the first instant.
    """

    first: int
    last: int
    run_first: int


class Cut(NamedTuple):
    """What is left out.

    Attributes:
        kind: What it is.
        why: What was seen, or who said so.
        pieces: Where.
    """

    kind: FindingKind
    why: str
    pieces: list[Piece]


class Signals(NamedTuple):
    """The channels that show motion and stops, in groups with common stamps.

    Attributes:
        states: Positions of joints, velocities of those whose position is not measured.
        efforts: Of joints and actuators.
        commands: Of actuators.
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
        cuts += [
            Cut(FindingKind.EMERGENCY_STOP, why, pieces) for why, pieces in stops(*signals).items()
        ]
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
            common = (Piece(max(a.first, b.first), min(a.last, b.last)) for a in chosen for b in on)
            chosen = [piece for piece in common if piece.first <= piece.last]
    return cuts, chosen


def held_up(topics: Iterable[TopicColumns]) -> list[Piece]:
    """Return where a robot was held up, by when it sent what it had measured.

    What it was told meanwhile has acted later than usual, in bunches or not at all, and nobody says
    when.

    Args:
        topics: With measurements; those without stamps of their own say nothing.
    """
    pieces = []
    for topic in topics:
        header = topic.header_ns
        if header is None or not header.all():
            continue
        sent = topic.receive_ns if topic.sent_ns is None else topic.sent_ns
        rows = np.flatnonzero(sent > 0)
        header, late = header[rows], (sent - header)[rows] / SECOND_NS
        block = ((header - header.min(initial=0)) / (_USUAL * SECOND_NS)).astype(np.int64)
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
    """Cut the measured instants of a bag into segments.

    Args:
        bag: Name of the bag.
        instants: (n,) times at which something is measured, strictly increasing, ns.
        known: From when on the commands of all actuators are known, ns.
        config: Longest gap, and length of windows.
        cuts: What is left out; no run goes across it.
        chosen: What is kept; a run may have begun before.

    Returns:
        The segments in time order, and what was left out.
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
                if len(window) >= FEWEST_SAMPLES:
                    first, last = int(window[0]), int(window[-1])
                    segments.append(Segment(first, last, int(instants[run[0]])))
                    continue
                where = named_pieces([Piece(int(window[0]), int(window[-1]))], start)
                detail = f'{where}: fewer than {FEWEST_SAMPLES} instants between cuts; left out'
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
    for first, last in pieces[:_NAMED]:
        end = 'the end' if last == _FOREVER else f'{(last - start) / SECOND_NS:.3f} s'
        shown.append(f'{(first - start) / SECOND_NS:.3f} to {end}')
    more = len(pieces) - _NAMED
    return ', '.join(shown) + (f' and {more} more' if more > 0 else '')

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The columns of a bag as axes, one per joint of the robot, and what each axis did."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used: half of a node's start otherwise
from numpy.typing import NDArray

from sysid_ros.alignment.health import SECOND_NS, are_magnitudes
from sysid_ros.alignment.mapping.by_name import (
    ARRAY,
    TRAJECTORY,
    controller_joints,
    controller_meaning,
    controller_of,
)
from sysid_ros.alignment.pairs import column_name
from sysid_ros.alignment.stamps import longest_increasing
from sysid_ros.bags import BagColumns, Field, TopicColumns
from sysid_ros.bags.message_types import CONTROLLER_STATE
from sysid_ros.vocabulary import (
    COMMANDED,
    COMPONENTS,
    CURRENT,
    NEITHER,
    PWM,
    Quantity,
    is_command,
    quantity_of,
    words_of,
)

#: Distance of the instants, s; larger where the measurements are further apart.
_STEP_S = 0.01
#: Least length, s, least number of instants, and order of the Savitzky–Golay filter.
_WINDOW_S, _WINDOW, _ORDER = 0.15, 7, 3
#: Longest stretch that is looked at, s: the liveliest of the bag.
_LONGEST_S = 120.0
#: An instant with no measurement within this and within so many periods is left out.
_HOLE_S, _HOLE_PERIODS = 0.1, 4.0
#: Longest lag of a response behind its command, s.
LONGEST_LAG_S = 0.5
#: Variation of a column below this part of its size is none.
_NO_VARIATION = 1e-9
#: A later lag must agree better by this much.
_BETTER = 1e-3


class EffortKind(enum.StrEnum):
    """What a column of efforts holds."""

    TORQUE = 'torque'
    CURRENT = 'current'
    PWM = 'pwm'


class AxisColumn(NamedTuple):
    """One column of a bag.

    Attributes:
        topic: Its topic.
        field: Its field.
        label: Its label.
        receive_ns: (n,) int64, ns.
        header_ns: (n,) int64, ns, or None.
        values: (n,) in units of the bag.
        interpolated: Whether a command changes linearly from row to row; else it is held.
    """

    topic: str
    field: str
    label: str
    receive_ns: NDArray[np.int64]
    header_ns: NDArray[np.int64] | None
    values: NDArray[np.float64]
    interpolated: bool = False

    @classmethod
    def of(cls, topic: TopicColumns, field: Field, label: str) -> AxisColumn:
        """Take a column of a topic."""
        values = field.values[:, field.labels.index(label)]
        stamps = topic.receive_ns, topic.header_ns
        return cls(topic.topic, field.name, label, *stamps, values, field.interpolated)

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
    """Columns that belong to one joint.

    Attributes:
        name: What the bag calls it; an index where it has no name.
        commanded: Whether these are commands.
        columns: Quantity to the column; None is that of a column whose names do not say it.
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


def find_axes(
    bag: BagColumns, leaders: Collection[str] = (), prefixes: Mapping[str, str] | None = None
) -> tuple[Axis, ...]:
    """Collect the axes of a bag; of several with one name the most telling is kept.

    Positions of leaders are commands where there are no others. Prefixes before the names of a
    topic's joints tell those of several arms apart.
    """
    found: dict[tuple[str, str, str, bool], Axis] = {}
    orders = controller_joints(bag)
    # What a controller was told does not count where it says what it did.
    done = {
        label
        for topic in bag.topics
        if topic.msgtype == CONTROLLER_STATE
        for field in topic.fields
        if (meaning_of(topic, field) or (None, False))[1]
        for label in field.labels
    }
    prefixes = prefixes or {}
    for topic in bag.topics:
        for field in topic.fields:
            meaning = meaning_of(topic, field)
            if meaning is None:
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
                replaced = topic.msgtype == TRAJECTORY and label in done
                if replaced or not np.isfinite(column.values).any():
                    continue
                name = _name(label, topic.topic, orders)
                if topic.topic in prefixes:
                    name = f'{prefixes[topic.topic]}_{name}'
                key = (*group, label, commanded)
                axis = found.setdefault(key, Axis(name, commanded, {}))
                known = axis.columns.setdefault(quantity, column)
                if column.kind is EffortKind.TORQUE and known.kind is not EffortKind.TORQUE:
                    axis.columns[quantity] = column
    # A current that no joint is named for is a battery's.
    found = {
        key: axis
        for key, axis in found.items()
        if axis.named or [column.kind for column in axis.columns.values()] != [EffortKind.CURRENT]
    }
    asked = {axis.name for axis in found.values() if axis.commanded and axis.topic not in leaders}
    return _distinct(
        [axis for axis in found.values() if axis.topic not in leaders or axis.name not in asked]
    )


def meaning_of(topic: TopicColumns, field: Field) -> tuple[Quantity | None, bool] | None:
    """Return what a field's numbers are, None where names do not say it, and if they are commanded.

    What belongs to no joint has no meaning.
    """
    if topic.msgtype == CONTROLLER_STATE:
        return controller_meaning(topic).get(field.name)
    words = set(words_of(field.name))
    if set(field.labels) <= COMPONENTS or NEITHER & words:
        return None
    commanded = topic.msgtype == TRAJECTORY or is_command(topic.topic) or bool(COMMANDED & words)
    commanded &= not {'actual', 'feedback'} & words
    quantity = quantity_of(words)
    if quantity is None and not {'data', 'values'} & words:
        return None
    quantity = quantity or quantity_of(words_of(topic.topic))
    return quantity, commanded or (quantity is None and topic.msgtype == ARRAY)


def _without_quantity(topic: str) -> str:
    """Return a topic without the word for its quantity: ``/joint_positions`` has a sibling."""
    return '/'.join(
        '_'.join(part for part in level.split('_') if quantity_of([part.lower()]) is None)
        for level in topic.split('/')
    )


def _name(label: str, topic: str, orders: dict[str, list[str]]) -> str:
    """Return what a column's joint is called: its label, or what the bag's facts tell."""
    if label and not label.isdigit():
        return label
    joints = orders.get(controller_of(topic), [])
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
    column = next(iter(axis.columns.values()))
    moving = sum(
        float(np.nanmax(item.values) - np.nanmin(item.values)) > 0 for item in axis.columns.values()
    )
    at_top = '.' not in column.field
    return moving, at_top, axis.topic.endswith('joint_states'), len(column.values)


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
    """What all axes did.

    Attributes:
        step: Distance of the instants, s.
        whole: (n,) where all that was measured is known.
        signals: Index of the axis and quantity to its signal.
    """

    step: float
    whole: NDArray[np.bool_]
    signals: dict[tuple[int, Quantity | None], SmoothSignal]

    @property
    def seconds(self) -> float:
        """How much was looked at."""
        return float(np.count_nonzero(self.whole)) * self.step


def make_motion(axes: Sequence[Axis]) -> AxesMotion | None:
    """Bring all axes to common instants; None where there is no stretch that all share."""
    times = {id(column): _times(column) for axis in axes for column in axis.columns.values()}
    measured = [column for axis in axes if not axis.commanded for column in axis.columns.values()]
    measured = [column for column in measured if len(times[id(column)]) > _WINDOW]
    longest = max((float(np.ptp(times[id(column)])) for column in measured), default=0.0)
    # A topic that was there for a moment only must not hide what the others did.
    measured = [column for column in measured if np.ptp(times[id(column)]) >= longest / 2]
    spans = [times[id(column)] for column in measured]
    kept = {id(column) for column in measured}
    if not spans:
        return None
    begin = max(span[0] for span in spans)
    end = min(span[-1] for span in spans)
    step = max(_STEP_S, *(float(np.median(np.diff(span))) for span in spans))
    if end - begin < 2 * _WINDOW * step:
        return None
    instants = np.arange(begin, end, step)
    instants = _liveliest(instants, measured, times)
    window = max(_WINDOW, int(_WINDOW_S / step) // 2 * 2 + 1)
    signals = {}
    whole = np.ones(len(instants), dtype=bool)
    for row, axis in enumerate(axes):
        for quantity, column in axis.columns.items():
            known = np.isfinite(column.values) & longest_increasing(column.receive_ns)
            own = times[id(column)]
            absent = not axis.commanded and id(column) not in kept
            if absent or np.count_nonzero(known) <= _WINDOW:
                continue
            if column.interpolated:
                values = np.interp(instants, own[known], column.values[known])
            else:
                values = _at(own[known], column.values[known], instants, held=axis.commanded)
            if not axis.commanded:
                limit = max(_HOLE_S, _HOLE_PERIODS * float(np.median(np.diff(own[known]))))
                after = np.clip(np.searchsorted(own[known], instants), 1, len(own[known]) - 1)
                whole &= own[known][after] - own[known][after - 1] <= limit
            signals[row, quantity] = SmoothSignal(
                *(
                    scipy.signal.savgol_filter(values, window, _ORDER, deriv=deriv, delta=step)
                    for deriv in range(3)
                )
            )
    edge = window // 2
    whole[:edge] = whole[-edge:] = False
    # Nothing is missing within a filter's half window; these are counts of whole numbers.
    whole &= np.convolve(~whole, np.ones(2 * edge + 1), 'same') < 0.5  # noqa: PLR2004
    return AxesMotion(step, whole, signals) if whole.any() else None


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


def _liveliest(
    instants: NDArray[np.float64],
    measured: Sequence[AxisColumn],
    times: dict[int, NDArray[np.float64]],
) -> NDArray[np.float64]:
    step = instants[1] - instants[0]
    count = int(_LONGEST_S / step)
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


def _at(
    times: NDArray[np.float64],
    values: NDArray[np.float64],
    instants: NDArray[np.float64],
    *,
    held: bool,
) -> NDArray[np.float64]:
    """Return (m,) values at instants: of a command as it is held, else between the samples."""
    if held:
        rows = np.searchsorted(times, instants, side='right') - 1
        return values[np.clip(rows, 0, len(values) - 1)]
    step = instants[1] - instants[0]
    several = round(step / max(float(np.median(np.diff(times))), 1e-9))
    if several > 1:
        values = scipy.ndimage.uniform_filter1d(values, several)
    found: NDArray[np.float64] = np.interp(instants, times, values)
    return found


class Response(NamedTuple):
    """How a column follows another: correlation and slope at the lag, s, of most agreement."""

    correlation: float
    slope: float
    lag: float


def respond(
    command: NDArray[np.float64],
    response: NDArray[np.float64],
    motion: AxesMotion,
    *,
    longest: float = LONGEST_LAG_S,
) -> Response:
    """Find how a (n,) response follows its (n,) command at the instants of a motion that count.

    Earlier lags, up to the longest, s, are preferred: a response far behind its command turns its
    sign.
    """
    best = Response(0.0, 0.0, 0.0)
    for lag in range(int(longest / motion.step) + 1):
        count = len(command) - lag
        use = motion.whole[lag:] & motion.whole[:count]
        if np.count_nonzero(use) < 2 * _WINDOW:
            break
        a, b = command[:count][use], response[lag:][use]
        found = correlate(a, b)
        if abs(found) > abs(best.correlation) + _BETTER:
            best = Response(found, found * float(b.std() / a.std()), lag * motion.step)
    return best


def correlate(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return the correlation of two columns, 0 where one of them stands still."""
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > _NO_VARIATION else 0.0

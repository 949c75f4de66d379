# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Positions that begin anew after a turn, as at ±π: they go on instead.

A column wraps where its values cover most of a turn, no more than that, and jump by a turn, give or
take what they change before and after. A command may jump for another reason: what was measured
decides whether it goes on.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.axes import in_namespace
from sysid_ros.alignment.health import FACTOR, LITTLE, MANY, MOST
from sysid_ros.alignment.pairs import meaning_of
from sysid_ros.bags import BagColumns, Field, TopicColumns
from sysid_ros.bags.reader import read_bag
from sysid_ros.vocabulary import Quantity

#: A turn in rad, in degrees, and in the steps of encoders of 8 to 32 bits.
_TURNS = (2 * math.pi, 360.0, *(2.0**bits for bits in range(8, 33)))
#: Values that wrap cover more than this part of a turn, and jump by more than this part.
_WHOLE = 0.75


def read_columns(path: Path, namespace: str = '') -> BagColumns:
    """Read what of a recording belongs to one robot; positions that wrap go on.

    Raises:
        BagError: There is no bag, or it is damaged or empty.
        AlignmentError: Nothing in it has the namespace.
    """
    return unwrapped(in_namespace(read_bag(path), namespace))


class _Wrapped(NamedTuple):
    """A column that wraps: its place, (n,) values that go on, and how often they jumped."""

    topic: int
    field: int
    column: int
    values: NDArray[np.float64]
    jumps: int


def unwrapped(bag: BagColumns) -> BagColumns:
    """Let positions go on where they begin a turn anew, and commands where joints do.

    `Field.turns` says which, and how often they jumped.
    """
    measured: list[_Wrapped] = []
    commanded: list[_Wrapped] = []
    positions: list[tuple[TopicColumns, NDArray[np.float64]]] = []
    for place, topic in enumerate(bag.topics):
        for number, field in enumerate(topic.fields):
            meaning = meaning_of(topic, field)
            if meaning is None or meaning[0] not in ({None, Quantity.POSITION}):
                continue
            quantity, command = meaning
            for column in range(len(field.labels)):
                values, count = going_on(field.values[:, column])
                if count:
                    found = _Wrapped(place, number, column, values, count)
                    (commanded if command else measured).append(found)
                if quantity is Quantity.POSITION and not command:
                    positions.append((topic, values))
    kept = measured + [
        item
        for item in commanded
        if _follows(bag.topics[item.topic], item, bag.topics[item.topic].fields, positions)
    ]
    topics = list(bag.topics)
    for item in kept:
        fields = list(topics[item.topic].fields)
        fields[item.field] = _replaced(fields[item.field], item)
        topics[item.topic] = dataclasses.replace(topics[item.topic], fields=tuple(fields))
    return dataclasses.replace(bag, topics=tuple(topics)) if kept else bag


def going_on(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Return (n,) values without jumps by a turn, and how many there were; NaN stays."""
    rows = np.flatnonzero(np.isfinite(values))
    steps = np.abs(np.diff(values[rows]))
    if len(rows) <= MANY:
        return values, 0
    width = float(np.ptp(values[rows]))
    for turn in _TURNS:
        jumps = steps > _WHOLE * turn
        if not jumps.any() or width > (1 + LITTLE) * turn:
            continue
        if _speed_stays(steps, jumps, turn):
            found = values.copy()
            found[rows] = np.unwrap(values[rows], period=turn)
            return found, int(np.count_nonzero(jumps))
    return values, 0


def _speed_stays(steps: NDArray[np.float64], jumps: NDArray[np.bool_], turn: float) -> bool:
    """Return whether steps at most jumps are, but for a turn, like those around them."""
    usual = np.flatnonzero(~jumps)
    if not len(usual):
        return False
    place = np.searchsorted(usual, np.flatnonzero(jumps))
    around = [usual[np.clip(place + side, 0, len(usual) - 1)] for side in (-1, 0)]
    rest = np.abs(steps[jumps] - turn)
    return float(np.mean(rest <= FACTOR * np.maximum(*steps[around]))) > MOST


def _follows(
    topic: TopicColumns,
    item: _Wrapped,
    fields: Sequence[Field],
    positions: Sequence[tuple[TopicColumns, NDArray[np.float64]]],
) -> bool:
    """Return whether a position is more like a command that goes on than like one that jumps."""
    jumping = fields[item.field].values[:, item.column]
    likeness = [
        _likeness(topic.receive_ns, command, other.receive_ns, position)
        for command in (item.values, jumping)
        for other, position in positions
    ]
    half = len(positions)
    return max(likeness[:half], default=0.0) > max(likeness[half:], default=0.0)


def _likeness(
    command_ns: NDArray[np.int64],
    command: NDArray[np.float64],
    times_ns: NDArray[np.int64],
    position: NDArray[np.float64],
) -> float:
    """Return how a position and the command in force then correlate, without sign."""
    given = np.isfinite(command)
    held = np.searchsorted(command_ns[given], times_ns, side='right') - 1
    rows = np.flatnonzero((held >= 0) & np.isfinite(position))
    if not len(rows):
        return 0.0
    asked, moved = command[given][held[rows]], position[rows]
    spread = float(asked.std() * moved.std())
    covariance = float(np.mean((asked - asked.mean()) * (moved - moved.mean())))
    return abs(covariance) / spread if spread > 0 else 0.0


def _replaced(field: Field, item: _Wrapped) -> Field:
    values = field.values.copy()
    values[:, item.column] = item.values
    turns = {**field.turns, field.labels[item.column]: item.jumps}
    return dataclasses.replace(field, values=values, turns=turns)

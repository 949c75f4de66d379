# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A bag as recordings of their own, where time ran backwards or a clock was set in between."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sysid_ros.alignment.clocks import compare_clocks, jump_findings
from sysid_ros.alignment.health import SECOND_NS, FindingKind, HealthFinding, later, spans_of
from sysid_ros.bags import BagColumns, TextColumn, TopicColumns

#: Steps of several topics within this time are one, ns: messages take unequally long.
_TOGETHER_NS = SECOND_NS


class Parts(NamedTuple):
    """A bag as one recording or several.

    Attributes:
        parts: In the order in which they were recorded, with the stamps that were recorded.
        findings: Why there are several.
        other: Topics whose header stamps have a step: they are not of the recorder's clock.
        begins: When each part began after the bag, s.
    """

    parts: tuple[BagColumns, ...]
    findings: tuple[HealthFinding, ...]
    other: frozenset[str]
    begins: tuple[float, ...]


def parts_of(bag: BagColumns, used: Collection[str]) -> Parts:
    """Split a bag where the recorder's clock was set back or that of a topic has a step.

    Across such a moment stamps mean different things, and a simulation has begun anew: nothing can
    be simulated through it, and the clocks differ by something else. Stamps of used topics matter.
    """
    name = bag.path.name
    findings: list[HealthFinding] = []
    began = _first(bag)
    added = [0, *(item.added_ns for item in bag.set_back)]
    for item in bag.set_back:
        detail = (
            f"the recorder's clock was set back by {item.seconds:.3f} s "
            f'{_after(bag, item.receive_ns)}; what follows is a recording of its own'
        )
        time = np.array([item.receive_ns])
        when = spans_of(time, time, began)
        kind = FindingKind.CLOCK_JUMP
        findings.append(HealthFinding(name, name, kind, 1, detail, spans=when))
    parts: list[BagColumns] = []
    begins: list[float] = []
    other = set()
    cuts = [item.receive_ns for item in bag.set_back]
    for part, shift in zip(_split(bag, cuts, {}), added, strict=True):
        whole = _moved(part, -shift)
        rows: dict[str, list[int]] = {}
        steps: list[int] = []
        for topic in whole.topics:
            fit = None
            if topic.topic in used and topic.header_ns is not None:
                fit = compare_clocks(topic.receive_ns, topic.header_ns)
            if fit is None or fit.unsteady or not fit.jumps:
                continue
            other.add(topic.topic)
            findings += later(jump_findings(name, topic, fit), (_first(part) - began) / SECOND_NS)
            rows[topic.topic] = [jump.row for jump in fit.jumps]
            steps += [jump.time_ns for jump in fit.jumps]
        steps.sort()
        apart = np.diff(steps, prepend=-_TOGETHER_NS) >= _TOGETHER_NS
        own = _split(whole, np.array(steps)[apart].tolist(), rows)
        begins += [(_first(each) + shift - began) / SECOND_NS for each in own]
        parts += own
    return Parts(tuple(parts), tuple(findings), frozenset(other), tuple(begins))


def _first(bag: BagColumns) -> int:
    """Return when the first message came, ns."""
    return min(
        (int(topic.receive_ns[0]) for topic in bag.topics if len(topic.receive_ns)), default=0
    )


def _after(bag: BagColumns, receive_ns: int) -> str:
    """Say when something happened."""
    return f'after {(receive_ns - _first(bag)) / SECOND_NS:.1f} s'


def _split(
    bag: BagColumns, cuts: Sequence[int], rows: Mapping[str, Sequence[int]]
) -> list[BagColumns]:
    """Split at receive times, ns; topics that have a row of their own near to one, there."""
    if not cuts:
        return [bag]

    def bounds(topic: TopicColumns | TextColumn) -> list[int]:
        places = np.searchsorted(topic.receive_ns, cuts).tolist()
        for row in rows.get(topic.topic, ()):
            away = np.abs(np.array(cuts) - topic.receive_ns[row])
            if away.min() < _TOGETHER_NS:
                places[int(np.argmin(away))] = row
        return [0, *places, len(topic.receive_ns)]

    def cut_topic(topic: TopicColumns, own: slice) -> TopicColumns:
        return dataclasses.replace(
            topic,
            receive_ns=topic.receive_ns[own],
            header_ns=None if topic.header_ns is None else topic.header_ns[own],
            legs=None if topic.legs is None else topic.legs[own],
            sent_ns=None if topic.sent_ns is None else topic.sent_ns[own],
            fields=tuple(
                dataclasses.replace(field, values=field.values[own]) for field in topic.fields
            ),
        )

    def cut_text(column: TextColumn, own: slice) -> TextColumn:
        return dataclasses.replace(
            column, receive_ns=column.receive_ns[own], texts=column.texts[own]
        )

    return [
        dataclasses.replace(
            bag,
            topics=tuple(
                cut_topic(topic, slice(*bounds(topic)[part : part + 2])) for topic in bag.topics
            ),
            text_columns=tuple(
                cut_text(column, slice(*bounds(column)[part : part + 2]))
                for column in bag.text_columns
            ),
            set_back=(),
        )
        for part in range(len(cuts) + 1)
    ]


def _moved(bag: BagColumns, shift_ns: int) -> BagColumns:
    """Move the receive stamps of all topics."""
    if not shift_ns:
        return bag
    return dataclasses.replace(
        bag,
        topics=tuple(
            dataclasses.replace(item, receive_ns=item.receive_ns + shift_ns) for item in bag.topics
        ),
        text_columns=tuple(
            dataclasses.replace(item, receive_ns=item.receive_ns + shift_ns)
            for item in bag.text_columns
        ),
    )


def longest(parts: Sequence[BagColumns]) -> BagColumns:
    """Return the part that lasts longest."""

    def duration(part: BagColumns) -> int:
        known = [topic.receive_ns for topic in part.topics if len(topic.receive_ns)]
        first = min((int(stamps[0]) for stamps in known), default=0)
        return max((int(stamps[-1]) for stamps in known), default=0) - first

    return max(parts, key=duration)

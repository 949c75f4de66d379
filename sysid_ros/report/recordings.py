# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""When something was wrong in recordings: a strip of time for each bag, with marks on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sysid_ros.alignment.health import Grade
from sysid_ros.config.calibration import GateConfig
from sysid_ros.errors import listed
from sysid_ros.report.numbers import significant
from sysid_ros.report.pictures import Tick, steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sysid_ros.alignment.health import Span
    from sysid_ros.config.calibration import Role
    from sysid_ros.results.result import CalibrationResult, RecordedBag

#: So many times of a finding are written; the strip shows all.
_NAMED = 3
#: A mark is at least this part of the axis wide, or a moment would not be seen.
_NARROWEST = 0.003
#: With more bags than this, only those with faults or cautions get a strip.
_MOST_STRIPS = 12


class Event(NamedTuple):
    """Something that has times: what it is, and when, s from the start of the bag."""

    grade: Grade
    what: str
    spans: tuple[Span, ...]

    @property
    def when(self) -> str:
        """The first times in words."""
        return listed(map(_time, self.spans), _NAMED)


class Strip(NamedTuple):
    """A bag on the common axis of time.

    ``length`` is the part of the axis that the bag takes, ``sequences`` begin and width of its
    sequences there, ``marks`` grade, begin and width of what happened, the worst last. ``events``
    says the same in words, the worst first.
    """

    bag: str
    role: Role
    seconds: float
    length: float
    sequences: tuple[Span, ...]
    marks: tuple[tuple[Grade, float, float], ...]
    events: tuple[Event, ...]


class Timeline(NamedTuple):
    """Strips of bags below each other; ``quiet`` bags have neither a strip nor faults."""

    strips: tuple[Strip, ...]
    ticks: tuple[Tick, ...]
    quiet: int


def timeline(result: CalibrationResult) -> Timeline | None:
    """Lay out when something was wrong in each bag; None where no times are stored."""
    longest = max((bag.seconds for bag in result.recordings), default=0.0)
    if longest <= 0:
        return None
    strips = [_strip(result, bag, longest) for bag in result.recordings]
    shown = strips
    if len(strips) > _MOST_STRIPS:
        shown = [s for s in strips if any(event.grade is not Grade.NOTE for event in s.events)]
    ticks = tuple(Tick(at / longest, significant(at)) for at in steps(0.0, longest))
    return Timeline(tuple(shown), ticks, len(strips) - len(shown))


def _strip(result: CalibrationResult, bag: RecordedBag, longest: float) -> Strip:
    grades = list(Grade)
    events = sorted(_events(result, bag), key=lambda event: grades.index(event.grade))
    return Strip(
        bag.bag,
        bag.role,
        bag.seconds,
        bag.seconds / longest,
        tuple((s.begin / longest, (s.end - s.begin) / longest) for s in bag.sequences),
        tuple(
            (event.grade, begin / longest, max((end - begin) / longest, _NARROWEST))
            for event in reversed(events)
            for begin, end in event.spans
        ),
        tuple(events),
    )


def _events(result: CalibrationResult, bag: RecordedBag) -> Iterator[Event]:
    begins = {sequence.name: sequence.begin for sequence in bag.sequences}
    for finding in result.health:
        if finding.spans and finding.bag in {bag.bag, *begins}:
            told = finding.subject == finding.bag or finding.subject in finding.kind
            where = '' if told else f' in {finding.subject}'
            yield Event(finding.kind.grade, f'{finding.kind}{where}', finding.spans)
    for still in result.diagnostics.standstills:
        stuck = still.predicted_movement > still.least_movement(_stuck_share(result))
        if stuck and still.sequence in begins:
            begin = begins[still.sequence] + still.start
            span = (begin, begin + still.seconds)
            yield Event(Grade.FAULT, f'standstill in {still.sensor}', (span,))


def _stuck_share(result: CalibrationResult) -> float:
    """Return what part of its range a position may stand still for, as was asked for."""
    gate = result.provenance.config.get('gate')
    share = gate.get('stuck_share') if isinstance(gate, dict) else None
    return float(share) if isinstance(share, int | float) else GateConfig().stuck_share


def _time(span: Sequence[float]) -> str:
    begin, end = (f'{value:.2f}' for value in span)
    return f'{begin} s' if begin == end else f'{begin} to {end} s'

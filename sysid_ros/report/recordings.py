# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""When something was wrong in recordings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sysid_ros.alignment.health import Grade, Span
from sysid_ros.config.calibration import GateConfig
from sysid_ros.errors import listed
from sysid_ros.results.result import CalibrationResult, RecordedBag

#: So many times of an event are written.
_NAMED = 3


class Event(NamedTuple):
    """Something that has times: what it is, and when, s from the start of the bag."""

    grade: Grade
    what: str
    spans: tuple[Span, ...]

    @property
    def when(self) -> str:
        """The first times in words."""
        ends = ((f'{begin:.2f}', f'{end:.2f}') for begin, end in self.spans)
        return listed((f'{a} s' if a == b else f'{a} to {b} s' for a, b in ends), _NAMED)


def events(result: CalibrationResult) -> list[tuple[RecordedBag, tuple[Event, ...]]]:
    """Return what happened at a certain time in each recording, the worst first."""
    grades = list(Grade)
    return [
        (bag, tuple(sorted(_events(result, bag), key=lambda event: grades.index(event.grade))))
        for bag in result.recordings
    ]


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

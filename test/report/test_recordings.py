# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Marks of what was wrong are where it was, in strips that share a scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sysid_ros.alignment.health import FindingKind, Grade, HealthFinding
from sysid_ros.report.recordings import timeline
from sysid_ros.results.result import FitDiagnostics, RecordedBag, RecordedSequence, Standstill

if TYPE_CHECKING:
    from sysid_ros.results.result import CalibrationResult


def _bag(name: str, seconds: float) -> RecordedBag:
    """Return a bag of two sequences, the first from half a second on."""
    parts = ((0.5, 4.0), (5.0, seconds))
    sequences = (
        RecordedSequence(name=f'{name}_{number}', begin=begin, end=end)
        for number, (begin, end) in enumerate(parts)
    )
    return RecordedBag(bag=name, role='train', seconds=seconds, sequences=tuple(sequences))


def _finding(kind: FindingKind, *times: float, bag: str = 'long') -> HealthFinding:
    return HealthFinding(bag, '/js', kind, len(times), '', spans=tuple((t, t) for t in times))


def test_strips_share_an_axis_and_the_worst_is_drawn_last_and_told_first(
    bare_result: CalibrationResult,
) -> None:
    health = (
        _finding(FindingKind.GAP, 2.0, 4.0),
        _finding(FindingKind.SPIKES, 5.0),
        _finding(FindingKind.MISSING, 1.0, 2.0, 3.0, 4.0, 5.0),
        HealthFinding('long', '/js', FindingKind.JITTER, 3, 'it has no time'),
    )
    recordings = (_bag('long', 10.0), _bag('short', 6.0))
    found = timeline(bare_result.model_copy(update={'health': health, 'recordings': recordings}))
    assert found is not None
    long, short = found.strips
    assert (long.length, short.length) == (1.0, 0.6)
    assert sum(short.sequences, ()) == pytest.approx((0.05, 0.35, 0.5, 0.1))
    assert short.events == ()
    assert [(mark[0], mark[1]) for mark in long.marks[-3:]] == [
        (Grade.CAUTION, 0.2),
        (Grade.CAUTION, 0.4),
        (Grade.FAULT, 0.5),
    ]
    assert all(mark[2] > 0 for mark in long.marks), 'what has no width is not drawn'
    assert [(event.what, event.when) for event in long.events] == [
        ('spikes in /js', '5.00 s'),
        ('gap in /js', '2.00 s, 4.00 s'),
        ('missing values in /js', '1.00 s, 2.00 s, 3.00 s and 2 more'),
    ]


def test_what_is_of_a_sequence_is_in_the_strip_of_its_bag(bare_result: CalibrationResult) -> None:
    late = _finding(FindingKind.LATE_COMMANDS, 6.25, bag='long_1')
    still = Standstill(
        sensor='elbow_position',
        unit='rad',
        sequence='long_1',
        role='train',
        start=1.0,
        seconds=0.5,
        predicted_movement=0.3,
        measured_range=1.0,
        resolution=1e-3,
    )
    coarse = still.model_copy(update={'resolution': 0.2})
    result = bare_result.model_copy(
        update={
            'health': (late,),
            'recordings': (_bag('long', 10.0),),
            'diagnostics': FitDiagnostics(standstills=(still, coarse)),
        }
    )
    found = timeline(result)
    assert found is not None
    assert [(event.what, event.when) for event in found.strips[0].events] == [
        ('late commands in /js', '6.25 s'),
        ('standstill in elbow_position', '6.00 to 6.50 s'),
    ]


def test_of_many_recordings_those_without_trouble_are_counted(
    bare_result: CalibrationResult,
) -> None:
    recordings = tuple(_bag(f'bag_{number}', 10.0) for number in range(30))
    health = (
        _finding(FindingKind.GAP, 2.0, bag='bag_7'),
        _finding(FindingKind.MISSING, 2.0, bag='bag_8'),
    )
    found = timeline(bare_result.model_copy(update={'health': health, 'recordings': recordings}))
    assert found is not None
    assert [strip.bag for strip in found.strips] == ['bag_7']
    assert found.quiet == 29


def test_results_without_times_have_no_timeline(bare_result: CalibrationResult) -> None:
    assert timeline(bare_result) is None

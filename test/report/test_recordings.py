# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What was wrong in recordings is told with its times, the worst first."""

from __future__ import annotations

from sysid_ros.alignment.health import FindingKind, HealthFinding
from sysid_ros.report.figures import draw_recordings, events
from sysid_ros.results.result import (
    CalibrationResult,
    FitDiagnostics,
    RecordedBag,
    RecordedSequence,
    Standstill,
)


def _bag(name: str, seconds: float) -> RecordedBag:
    """Return a bag of two sequences, the first from half a second on."""
    parts = ((0.5, 4.0), (5.0, seconds))
    sequences = tuple(
        RecordedSequence(name=f'{name}_{number}', begin=begin, end=end)
        for number, (begin, end) in enumerate(parts)
    )
    return RecordedBag(bag=name, role='train', seconds=seconds, sequences=sequences)


def _finding(kind: FindingKind, *times: float, bag: str = 'long') -> HealthFinding:
    return HealthFinding(bag, '/js', kind, len(times), '', spans=tuple((t, t) for t in times))


def test_events_are_of_their_bag_and_the_worst_is_told_first_and_drawn_last(
    bare_result: CalibrationResult,
) -> None:
    health = (
        _finding(FindingKind.GAP, 2.0, 4.0),
        _finding(FindingKind.SPIKES, 5.0),
        _finding(FindingKind.MISSING, *range(1, 10)),
        HealthFinding('long', '/js', FindingKind.JITTER, 3, 'it has no time'),
    )
    recordings = (_bag('long', 10.0), _bag('short', 6.0))
    result = bare_result.model_copy(update={'health': health, 'recordings': recordings})
    (_, found), (_, nothing) = events(result)
    assert nothing == ()
    assert [(event.what, event.when) for event in found] == [
        ('spikes in /js', '5.00 s'),
        ('gap in /js', '2.00 s, 4.00 s'),
        ('missing values in /js', '1.00 s, 2.00 s, 3.00 s, 4.00 s, 5.00 s, 6.00 s and 3 more'),
    ]
    (axes,) = draw_recordings(result, 9).axes
    assert axes.get_xlim() == (0.0, 10.0)
    whole, _, *marks = [bars.get_paths() for bars in axes.collections]
    assert whole[0].get_extents().width == 10.0
    assert marks[2][0].get_extents().x0 == 5.0
    assert axes.collections[4].get_linewidth()[0] > 0, 'what takes no time is seen by its edge'


def test_what_is_of_a_sequence_is_in_its_bag(bare_result: CalibrationResult) -> None:
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
    ((_, found),) = events(result)
    assert [(event.what, event.when) for event in found] == [
        ('late commands in /js', '6.25 s'),
        ('standstill in elbow_position', '6.00 to 6.50 s'),
    ]

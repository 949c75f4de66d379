# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is alike is said once, the worst first."""

from __future__ import annotations

import numpy as np

from sysid_ros.alignment.health import (
    MOST_SPANS,
    FindingKind,
    Grade,
    HealthFinding,
    aggregated,
    spans_where,
)
from sysid_ros.vocabulary import SECOND_NS


def _finding(subject: str, count: int, detail: str, bag: str = 'bag') -> HealthFinding:
    return HealthFinding(bag, subject, FindingKind.CLIPPED, count, detail)


def _texts(findings: list[HealthFinding], *, bags: bool = True) -> list[str]:
    return [item.text(bags=bags) for item in aggregated(findings)]


def test_every_kind_says_what_it_does_and_what_is_no_note_what_to_do():
    for kind in FindingKind:
        assert kind.effect.endswith('.')
        assert kind.remedy.endswith('.') or kind.grade is Grade.NOTE


def test_equal_findings_of_many_joints_and_bags_are_one_line():
    found = [
        HealthFinding(f'train_{bag}', f'j{joint}', FindingKind.NOT_MEASURED, 1, 'a slope')
        for bag in range(7)
        for joint in range(7)
    ]
    assert _texts(found) == ['7 joints × 7 bags: a slope']  # noqa: RUF001
    assert _texts(found[1:]) == ['7 joints in 7 bags: a slope']
    assert _texts(found[:7], bags=False) == ['7 joints: a slope']
    assert _texts(found[:2]) == ['j0, j1 in train_0: a slope']


def test_of_findings_that_differ_the_worst_is_named_with_bag_and_value():
    found = [_finding(f'/t.position[{k}]', 10 - abs(k - 5), f'at {k}') for k in range(9)]
    other = _finding('/t.position[0]', 3, 'at 7', 'other')
    assert _texts([*found, other]) == [
        '9 channels in bag, other; worst /t.position[5] in bag (10): at 5'
    ]
    assert _texts(found, bags=False) == ['9 channels; worst /t.position[5] (10): at 5']


def test_what_is_nearest_is_one_span_where_there_are_too_many():
    times = np.arange(0, 10 * MOST_SPANS, 2) * SECOND_NS
    chosen = np.ones(len(times), dtype=bool)
    chosen[::3] = False
    found = spans_where(times, chosen, int(times[0]))
    assert len(found) == MOST_SPANS
    assert (found[0][0], found[-1][1]) == (2.0, 10.0 * MOST_SPANS - 4)
    assert spans_where(times, ~chosen & (times > 1e12), 0)[0] == (1002.0, 1002.0)
    assert spans_where(times, np.zeros_like(chosen), 0) == ()


def test_faults_come_first_and_then_what_was_found_most_often():
    kinds = {
        FindingKind.MISSING: 100,
        FindingKind.GAP: 1,
        FindingKind.JITTER: 5,
        FindingKind.SPIKES: 1,
    }
    found = [HealthFinding('bag', '/t', kind, count, 'x') for kind, count in kinds.items()]
    assert [(item.kind, item.kind.grade) for item in aggregated(found)] == [
        (FindingKind.SPIKES, Grade.FAULT),
        (FindingKind.JITTER, Grade.CAUTION),
        (FindingKind.GAP, Grade.CAUTION),
        (FindingKind.MISSING, Grade.NOTE),
    ]

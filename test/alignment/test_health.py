# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is alike is said once."""

from __future__ import annotations

from sysid_ros.alignment.health import FindingKind, HealthFinding, alike, sentence


def _finding(subject: str, count: int, detail: str) -> HealthFinding:
    return HealthFinding('bag', subject, FindingKind.CLIPPED, count, detail)


def test_equal_findings_are_one_sentence_and_few_unequal_ones_are_not():
    found = [_finding('a', 1, 'x'), _finding('b', 2, 'x'), _finding('c', 3, 'y')]
    assert [sentence(group) for group in alike(found)] == ['a (1), b (2): x', 'c (3): y']


def test_many_unequal_findings_of_a_kind_name_the_channels_and_the_worst():
    found = [_finding(f'j{k}', 10 - abs(k - 5), f'at {k}') for k in range(9)]
    gap = HealthFinding('bag', '/t', FindingKind.GAP, 1, 'longest 1 s')
    other = HealthFinding('other bag', 'j0', FindingKind.CLIPPED, 3, 'at 7')
    said = [sentence(group) for group in alike([gap, *found, other])]
    assert said == [
        '/t (1): longest 1 s',
        'j0 (5), j1 (6), j2 (7), j3 (8), j4 (9), j5 (10) and 3 more: worst j5: at 5',
        'j0 (3): at 7',
    ]

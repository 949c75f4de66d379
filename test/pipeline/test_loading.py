# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Bags of one fit, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sysid_ros.alignment import Alignment
from sysid_ros.pipeline.loading import CalibrationBag, unlike_stamps

if TYPE_CHECKING:
    from sysid_ros.alignment.stamps import StampSource


def _bag(name: str, **sources: StampSource) -> CalibrationBag:
    stamps = tuple((f'/{topic}', source) for topic, source in sources.items())
    return CalibrationBag(Path(name), 'train', Alignment(name, (), (), (), (), (), stamps))


def test_topics_that_are_timed_in_another_way_in_some_bags_are_found():
    bags = [
        _bag('a', js='header', cmd='receive'),
        _bag('b', js='receive', cmd='receive'),
        _bag('c', js='header', cmd='receive'),
    ]
    (finding,) = unlike_stamps(bags)
    assert (finding.subject, finding.count) == ('/js', 2)
    assert finding.detail.startswith('header in a, c; receive in b; no delay is right for all')
    assert list(unlike_stamps(bags[::2])) == []

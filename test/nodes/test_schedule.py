# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A schedule skips what is over, but never the last step, and ends when it is told to."""

from __future__ import annotations

import threading

from sysid_ros.nodes.ros.motion import Schedule


def test_what_is_over_is_skipped_and_counted_and_the_last_step_is_not():
    # Nobody counts to a million in a second, a step at a time.
    schedule = Schedule(rate=1e9, last=10**6, closing=threading.Event())
    steps = list(schedule)

    assert steps[0] == 0
    assert steps[-1] == 10**6
    assert steps == sorted(set(steps))
    assert schedule.skipped == 10**6 + 1 - len(steps) > 0


def test_it_ends_when_it_is_told_to():
    closing = threading.Event()
    steps = []
    for step in Schedule(rate=1e3, last=100, closing=closing):
        steps.append(step)
        if step:
            closing.set()

    assert len(steps) == 2

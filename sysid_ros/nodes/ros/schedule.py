# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Doing things on time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator


class Schedule:
    """The steps 0 to last, each at its time from the start.

    Attributes:
        skipped: Steps that were left out because their time was over.
    """

    def __init__(self, rate: float, last: int, closing: threading.Event) -> None:
        """Prepare; it starts with the first step.

        Args:
            rate: Steps per second.
            last: Number of the last step; it is never left out.
            closing: Ends it early when it is set.
        """
        self.skipped = 0
        self._rate = rate
        self._last = last
        self._closing = closing

    def __iter__(self) -> Iterator[int]:
        """Yield each step at its time."""
        start = time.monotonic()
        step = 0
        yield step
        while step < self._last:
            due = int((time.monotonic() - start) * self._rate)
            following = min(max(step + 1, due), self._last)
            if self._closing.wait(max(0.0, start + following / self._rate - time.monotonic())):
                return
            self.skipped += following - step - 1
            step = following
            yield step

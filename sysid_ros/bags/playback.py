# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""When the messages of a bag are due: at another speed, paused, from another place, in a loop."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sysid_ros.errors import BagError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NS = 10**9
#: A condition wakes up late, and a short sleep is precise: waits end so long before a message is
#: due, ns. Whoever pauses is heard within this time.
_NEAR_NS = 2_000_000
#: From the last message to the first of the next round, ns.
LOOP_GAP_NS = 100_000_000
#: Messages that leave later than this are counted, ns.
LATE_NS = 1_000_000


class Clock(Protocol):
    """What time goes by."""

    def now_ns(self) -> int:
        """Return the time, ns from any origin; it never goes back."""

    def wait(self, changed: threading.Condition, span_ns: int | None) -> None:
        """Block until a held condition is notified, or for so long; it may end early."""

    def sleep(self, span_ns: int) -> None:
        """Block for a short time."""


class MonotonicClock:
    """The machine's clock, which nobody sets."""

    def now_ns(self) -> int:
        """Return the time since some start of the machine, ns."""
        return time.monotonic_ns()

    def wait(self, changed: threading.Condition, span_ns: int | None) -> None:
        """Block until the condition is notified, or for so long."""
        changed.wait(None if span_ns is None else span_ns / _NS)

    def sleep(self, span_ns: int) -> None:
        """Block for so long: to some .1 ms on Linux, where Python sleeps until an absolute time."""
        time.sleep(span_ns / _NS)


class Punctuality(NamedTuple):
    """How late messages left.

    Attributes:
        messages: So many left.
        late: Of them more than `LATE_NS` after they were due.
        worst_ns: The latest, ns.
    """

    messages: int = 0
    late: int = 0
    worst_ns: int = 0


class Playback:
    """Hands out the places of messages, each when it is due; one thread iterates over it.

    Every other method may be called from any thread meanwhile. Lateness does not add up: what is
    due is computed from the last pause, seek or change of speed.
    """

    def __init__(
        self,
        times_ns: Sequence[int],
        *,
        rate: float = 1.0,
        loop: bool = False,
        paused: bool = False,
        lead: float = 0.0,
        clock: Clock | None = None,
    ) -> None:
        """Begin at the first message.

        Args:
            times_ns: (n,) when the messages were received, ns; increasing, at least one.
            rate: Seconds of the bag per second.
            loop: Whether the bag begins again after its end.
            paused: Whether `resume` is waited for.
            lead: Seconds from here, or from when it is resumed, to the first message.
            clock: What time goes by; the machine's unless given.
        """
        self.loop = loop
        self._start_ns = times_ns[0]
        self._times = [time_ns - self._start_ns for time_ns in times_ns]
        self._clock = clock or MonotonicClock()
        self._rate = rate
        self._paused = paused
        self._changed = threading.Condition()
        self._closed = False
        self._next = 0
        self._punctuality = Punctuality()
        # So far into the bag, ns, ...
        self._played = -rate * lead * _NS
        # ... when the clock was at this time.
        self._since_ns = self._clock.now_ns()

    @property
    def duration(self) -> float:
        """Seconds from the first message to the last."""
        return self._times[-1] / _NS

    @property
    def paused(self) -> bool:
        """Whether nothing is due until somebody resumes."""
        return self._paused

    @property
    def punctuality(self) -> Punctuality:
        """How late messages left so far."""
        return self._punctuality

    @property
    def time_ns(self) -> int:
        """What time it is in the bag, ns; between its first message and its last."""
        with self._changed:
            return self._start_ns + min(max(round(self._now()), 0), self._times[-1])

    @property
    def position(self) -> float:
        """Seconds of the bag that were played."""
        return (self.time_ns - self._start_ns) / _NS

    def pause(self) -> None:
        """Let nothing be due any more."""
        with self._moved():
            self._paused = True

    def resume(self) -> None:
        """Go on from where it was paused."""
        with self._moved():
            self._paused = False

    def set_rate(self, rate: float) -> None:
        """Go on at another speed, seconds of the bag per second."""
        with self._moved():
            self._rate = rate

    def seek(self, seconds: float) -> None:
        """Go on from another place.

        Args:
            seconds: From the first message.

        Raises:
            BagError: The bag is shorter.
        """
        if not 0 <= seconds <= self.duration:
            msg = f'Expected a position from 0 to {self.duration:.3f} s, found {seconds:g} s.'
            raise BagError(msg)
        with self._moved():
            self._played = seconds * _NS
            self._next = bisect_left(self._times, round(self._played))

    def close(self) -> None:
        """End the iteration."""
        with self._moved():
            self._closed = True

    def __iter__(self) -> Iterator[int]:
        """Block until the next message is due, and yield its place; end behind the last."""
        while (place := self._due()) is not None:
            yield place

    def _due(self) -> int | None:
        while True:
            with self._changed:
                if self._closed:
                    return None
                if self._next == len(self._times) and not self._paused:
                    if not self.loop:
                        return None
                    self._begin_again()
                left: int | None = None
                if not self._paused:
                    left = round((self._times[self._next] - self._now()) / self._rate)
                    if left <= 0:
                        return self._leave(-left)
                if left is None or left > _NEAR_NS:
                    self._clock.wait(self._changed, left and left - _NEAR_NS)
                    continue
            self._clock.sleep(left)

    def _leave(self, late_ns: int) -> int:
        messages, late, worst = self._punctuality
        self._punctuality = Punctuality(
            messages + 1, late + (late_ns > LATE_NS), max(worst, late_ns)
        )
        self._next += 1
        return self._next - 1

    def _begin_again(self) -> None:
        """Let the first message be due after the last one was, however late that left."""
        self._played -= self._times[-1] + LOOP_GAP_NS
        self._next = 0

    def _now(self) -> float:
        """Return how far into the bag it is, ns."""
        passed = 0 if self._paused else self._clock.now_ns() - self._since_ns
        return self._played + self._rate * passed

    @contextmanager
    def _moved(self) -> Iterator[None]:
        """Go on from here and now, with what is changed in the context."""
        with self._changed:
            self._played = self._now()
            self._since_ns = self._clock.now_ns()
            yield
            self._changed.notify_all()

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Messages are due when they were recorded, at any speed, from any place, as often as wanted."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

import pytest

from sysid_ros.bags.playback import LATE_NS, LOOP_GAP_NS, Playback, Punctuality
from sysid_ros.errors import BagError

if TYPE_CHECKING:
    from collections.abc import Callable

#: When five messages were received, ns since the epoch; two of them at once.
START = 1_700_000_000_000_000_000
AFTER = (0, 1_000_000, 1_000_000, 50_000_000, 3_000_000_000)
TIMES = [START + after for after in AFTER]
MS = 1_000_000


class FakeClock:
    """A clock on which time passes only while somebody waits; it does things at set times."""

    def __init__(self) -> None:
        self.now = 123
        self.begun = self.now
        self._plans: list[tuple[int, Callable[[], object]]] = []

    def at(self, after_ns: int, do: Callable[[], object]) -> None:
        """Do something when so much time has passed."""
        self._plans.append((self.begun + after_ns, do))
        self._plans.sort(key=lambda plan: plan[0])

    @property
    def passed(self) -> int:
        """Nanoseconds since it was made."""
        return self.now - self.begun

    def now_ns(self) -> int:
        """Return the time."""
        return self.now

    def wait(self, changed: threading.Condition, span_ns: int | None) -> None:
        """Go on to the end of the wait, or to what is planned before."""
        until = None if span_ns is None else self.now + span_ns
        if self._plans and (until is None or self._plans[0][0] <= until):
            self.now, do = self._plans.pop(0)
            changed.release()
            try:
                do()
            finally:
                changed.acquire()
        else:
            assert until is not None, 'nothing would ever happen again'
            self.now = until

    def sleep(self, span_ns: int) -> None:
        """Go on."""
        self.now += span_ns


def _played(playback: Playback, clock: FakeClock, most: int = 100) -> list[tuple[int, int]]:
    """Return places and how much time had passed when they were due."""
    return [(place, clock.passed) for place in itertools.islice(playback, most)]


def test_each_message_is_due_when_it_was_recorded():
    clock = FakeClock()
    assert _played(Playback(TIMES, clock=clock), clock) == list(enumerate(AFTER))


@pytest.mark.parametrize('rate', [0.5, 4.0])
def test_the_rate_divides_the_time(rate: float):
    clock = FakeClock()
    played = _played(Playback(TIMES, rate=rate, clock=clock), clock)
    assert played == [(place, round(after / rate)) for place, after in enumerate(AFTER)]


def test_what_was_paused_goes_on_where_it_was():
    clock = FakeClock()
    playback = Playback(TIMES, clock=clock)
    clock.at(20 * MS, playback.pause)
    clock.at(500 * MS, lambda: clock.at(500 * MS, playback.resume))
    played = _played(playback, clock)
    assert played == [(0, 0), (1, MS), (2, MS), (3, 530 * MS), (4, 3480 * MS)]


def test_while_it_is_paused_the_time_in_the_bag_stands_still():
    clock = FakeClock()
    playback = Playback(TIMES, clock=clock)
    seen: list[tuple[float, bool]] = []
    clock.at(20 * MS, playback.pause)
    clock.at(100 * MS, lambda: seen.append((playback.position, playback.paused)))
    clock.at(400 * MS, playback.close)
    assert len(_played(playback, clock)) == 3
    assert seen == [(0.02, True)]
    assert playback.time_ns == START + 20 * MS


def test_nothing_is_due_before_it_is_resumed_where_it_starts_paused():
    clock = FakeClock()
    playback = Playback(TIMES, paused=True, clock=clock)
    clock.at(700 * MS, playback.resume)
    played = _played(playback, clock)
    assert played == [(place, 700 * MS + after) for place, after in enumerate(AFTER)]


@pytest.mark.parametrize('rate', [1.0, 10.0])
def test_the_first_message_may_be_due_later(rate: float):
    clock = FakeClock()
    playback = Playback(TIMES, rate=rate, lead=0.5, clock=clock)
    assert playback.time_ns == START
    played = _played(playback, clock)
    assert played == [(place, round(500 * MS + after / rate)) for place, after in enumerate(AFTER)]


def test_it_goes_on_from_the_place_that_is_sought():
    clock = FakeClock()
    playback = Playback(TIMES, clock=clock)
    clock.at(10 * MS, lambda: playback.seek(2.9))
    assert _played(playback, clock) == [(0, 0), (1, MS), (2, MS), (4, 110 * MS)]


def test_a_place_that_was_played_can_be_sought_while_it_is_paused():
    clock = FakeClock()
    playback = Playback(TIMES, clock=clock)
    clock.at(60 * MS, playback.pause)
    clock.at(70 * MS, lambda: playback.seek(0.001))
    clock.at(100 * MS, playback.resume)
    after = [(1, 100 * MS), (2, 100 * MS), (3, 149 * MS), (4, 3099 * MS)]
    assert _played(playback, clock) == [(0, 0), (1, MS), (2, MS), (3, 50 * MS), *after]


@pytest.mark.parametrize('seconds', [-0.1, 3.1, float('nan')])
def test_a_place_outside_of_the_bag_is_refused(seconds: float):
    with pytest.raises(BagError, match=r'from 0 to 3\.000 s, found'):
        Playback(TIMES, clock=FakeClock()).seek(seconds)


def test_the_speed_changes_from_where_it_is():
    clock = FakeClock()
    playback = Playback(TIMES, clock=clock)
    clock.at(1000 * MS, lambda: playback.set_rate(4.0))
    assert _played(playback, clock)[-1] == (4, 1500 * MS)


def test_rounds_of_a_loop_do_not_drift():
    clock = FakeClock()
    playback = Playback(TIMES, loop=True, clock=clock)
    played = _played(playback, clock, most=15)
    period = AFTER[-1] + LOOP_GAP_NS
    assert played == [
        (place, turn * period + after) for turn in range(3) for place, after in enumerate(AFTER)
    ]


def test_a_loop_ends_after_the_round_in_which_it_is_switched_off():
    clock = FakeClock()
    playback = Playback(TIMES, loop=True, clock=clock)
    clock.at(3500 * MS, lambda: setattr(playback, 'loop', False))
    assert len(_played(playback, clock)) == 2 * len(TIMES)


def test_a_loop_over_one_message_waits_between_the_rounds():
    clock = FakeClock()
    played = _played(Playback([START], loop=True, clock=clock), clock, most=3)
    assert played == [(0, 0), (0, LOOP_GAP_NS), (0, 2 * LOOP_GAP_NS)]


def test_closing_ends_the_iteration():
    clock = FakeClock()
    playback = Playback(TIMES, clock=clock)
    clock.at(1000 * MS, playback.close)
    assert [place for place, _ in _played(playback, clock)] == [0, 1, 2, 3]


def test_a_late_message_is_counted_and_delays_no_other():
    clock = FakeClock()
    playback = Playback(TIMES, clock=clock)
    places = iter(playback)
    assert [next(places) for _ in range(3)] == [0, 1, 2]
    clock.now += 60 * MS  # whoever publishes was held up
    assert [next(places), clock.passed] == [3, 61 * MS]
    assert [next(places), clock.passed] == [4, 3000 * MS]
    assert playback.punctuality == Punctuality(5, 1, 11 * MS)
    assert 11 * MS > LATE_NS


def test_the_machines_clock_is_not_ahead_of_the_bag():
    playback = Playback([START + k * 100_000 for k in range(200)])
    assert list(playback) == list(range(200))
    assert playback.punctuality.messages == 200
    assert playback.time_ns == START + 199 * 100_000


def test_another_thread_wakes_up_what_waits():
    playback = Playback([START, START + 3600 * 10**9])
    places: list[int] = []
    first = threading.Event()

    def play() -> None:
        for place in playback:
            places.append(place)
            first.set()

    thread = threading.Thread(target=play)
    thread.start()
    assert first.wait(60)
    playback.seek(3600.0)
    thread.join(60)
    assert not thread.is_alive()
    assert places == [0, 1]

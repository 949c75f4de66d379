# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Times of rows: which stamp counts, and how clocks run against each other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sysid_ros.alignment.stamps import compare_clocks, one_clock, stamp

if TYPE_CHECKING:
    from numpy.typing import NDArray

START_NS = 1_700_000_000_000_000_000
#: The stamps of a robot at 500 Hz.
TIMES = np.arange(0.0, 30.0, 0.002)


def ns(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    return START_NS + np.round(seconds * 1e9).astype(np.int64)


def stamps(generator: np.random.Generator, seconds: float = 60.0) -> NDArray[np.float64]:
    """Return stamps at 500 Hz of which 2 % are lost."""
    every = np.arange(0.0, seconds, 0.002)
    return every[generator.random(len(every)) > 0.02]


@pytest.mark.parametrize('seed', range(10))
def test_drift_and_offset_come_back_through_a_millisecond_of_jitter(seed: int):
    generator = np.random.default_rng(seed)
    drift, offset = generator.uniform(-100, 100), generator.uniform(-5, 5)
    header = stamps(generator)
    received = np.sort(
        header * (1 + 1e-6 * drift) + offset + generator.exponential(1e-3, len(header))
    )
    found = compare_clocks(ns(received), ns(header))
    assert found is not None
    assert abs(found.drift - drift) < 5
    assert abs(found.drift - drift) < 5 * found.deviation
    # What holds messages up, some more and some less, is not in it.
    assert found.offset == pytest.approx(offset, abs=1e-4)
    assert found.jitter == pytest.approx(0.71e-3, rel=0.2)
    assert found.jumps == ()


def test_messages_that_were_held_up_do_not_move_the_drift():
    generator = np.random.default_rng(1)
    header = stamps(generator)
    delay = generator.exponential(1e-3, len(header))
    delay += generator.uniform(0, 0.05, len(header)) * (generator.random(len(header)) < 0.1)
    found = compare_clocks(ns(header * (1 + 50e-6) + delay), ns(header))
    assert found is not None
    assert abs(found.drift - 50) < 5


def test_a_step_of_a_clock_is_found_with_its_time_and_size_and_is_no_drift():
    generator = np.random.default_rng(2)
    header = stamps(generator)
    received = header + generator.exponential(1e-3, len(header))
    received[header >= 30] += 0.5
    found = compare_clocks(ns(received), ns(header))
    assert found is not None
    (jump,) = found.jumps
    assert jump.seconds == pytest.approx(0.5, abs=2e-3)
    assert (jump.time_ns - START_NS) / 1e9 == pytest.approx(30.5, abs=0.02)
    assert abs(found.drift) < 5


def test_one_late_message_is_no_step():
    header = np.arange(0.0, 10.0, 0.01)
    received = header + 1e-3
    received[500] += 0.3
    found = compare_clocks(ns(received), ns(header))
    assert found is not None
    assert found.jumps == ()


def test_a_short_recording_has_an_offset_but_no_drift():
    header = np.arange(0.0, 2.0, 0.01)
    found = compare_clocks(ns(header + 0.25), ns(header))
    assert found is not None
    assert found.offset == pytest.approx(0.25)
    assert math.isnan(found.drift)


def test_without_two_stamps_there_is_nothing_to_compare():
    received = ns(np.arange(5.0))
    header = np.zeros(5, dtype=np.int64)
    header[2] = received[2]
    assert compare_clocks(received, header) is None


def received(drift: float, offset: float, seed: int = 0) -> Any:
    """Return receive times of a clock that gains so many millionths, with a millisecond's delay."""
    delay = np.random.default_rng(seed).exponential(1e-3, len(TIMES))
    return np.sort(TIMES * (1 + 1e-6 * drift) + offset + delay)


@pytest.mark.parametrize(('drift', 'offset'), [(80.0, 0.0), (-60.0, 3600.0), (0.0, -5.0)])
def test_stamps_of_another_clock_are_carried_over_along_a_line(
    columns: Any, drift: float, offset: float
):
    receive = received(drift, offset)
    state = columns.topic('/js', TIMES, {'position': {'elbow': TIMES}}, receive=receive)
    command = columns.array([offset])
    choice, findings = one_clock('bag', [state, command], 'auto')
    assert choice == {'/js': 'carried', command.topic: 'auto'}
    assert [item.kind for item in findings] == ['clock offset']
    times = (stamp('bag', state, choice).times_ns - columns.start) / 1e9
    true = TIMES * (1 + 1e-6 * drift) + offset
    # Receive times would be wrong by a millisecond here and there; stamps as they are, by more.
    np.testing.assert_allclose(times, true, atol=1e-4)
    assert np.std(np.diff(times)) < 1e-6


def test_a_clock_that_only_the_transport_delays_is_taken_as_it_is(columns: Any):
    state = columns.topic('/js', TIMES, {'position': {'elbow': TIMES}}, receive=received(0.0, 0.0))
    choice, findings = one_clock('bag', [state, columns.array([0.0])], 'auto')
    assert (choice, findings) == ('auto', ())
    np.testing.assert_array_equal(stamp('bag', state, choice).times_ns, state.header_ns)


def test_a_clock_that_is_twice_as_fast_is_not_carried_over(columns: Any):
    receive = 2.0 * TIMES + 5.0
    state = columns.topic('/js', TIMES, {'position': {'elbow': TIMES}}, receive=receive)
    choice, (finding,) = one_clock('bag', [state, columns.array([5.0])], 'auto')
    assert choice == {'/js': 'receive', '/controller/commands': 'auto'}
    assert 'so that receive times are used' in finding.detail
    np.testing.assert_array_equal(stamp('bag', state, choice).times_ns, state.receive_ns)


def test_a_drift_is_reported_with_its_uncertainty(columns: Any):
    state = columns.topic('/js', TIMES, {'position': {'elbow': TIMES}}, receive=received(80.0, 0.0))
    (finding,) = (i for i in stamp('bag', state, 'auto').findings if i.kind == 'clock drift')
    assert '80' in finding.detail or '79' in finding.detail
    assert 'ms over the recording' in finding.detail


def test_topics_may_have_stamps_of_their_own(columns: Any):
    state = columns.topic('/js', TIMES, {'position': {'elbow': TIMES}}, receive=received(80.0, 0.0))
    command = columns.array([0.0])
    choice, findings = one_clock('bag', [state, command], {'/js': 'receive'})
    assert findings == ()
    np.testing.assert_array_equal(stamp('bag', state, choice).times_ns, state.receive_ns)
    choice, _ = one_clock('bag', [state, command], {command.topic: 'receive'})
    assert choice == {'/js': 'carried', command.topic: 'receive'}

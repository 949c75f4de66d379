# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Header stamps of another clock come onto the recorder's, and keep their steadiness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sysid_ros.alignment.stamps import one_clock, stamp

#: The stamps of a robot at 500 Hz.
TIMES = np.arange(0.0, 30.0, 0.002)


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
    assert choice == 'carried'
    assert [item.kind for item in findings] == ['clock offset']
    times = (stamp('bag', state, choice).times_ns - columns.start) / 1e9
    true = TIMES * (1 + 1e-6 * drift) + offset + np.log(2) * 1e-3
    # Receive times would be wrong by a millisecond here and there; stamps as they are, by more.
    np.testing.assert_allclose(times, true, atol=2e-4)
    assert np.std(np.diff(times)) < 1e-6


def test_a_clock_that_only_the_transport_delays_is_taken_as_it_is(columns: Any):
    state = columns.topic('/js', TIMES, {'position': {'elbow': TIMES}}, receive=received(0.0, 0.0))
    choice, findings = one_clock('bag', [state, columns.array([0.0])], 'auto')
    assert (choice, findings) == ('auto', ())
    np.testing.assert_array_equal(stamp('bag', state, choice).times_ns, state.header_ns)


def test_a_simulated_clock_is_no_line(columns: Any):
    receive = 2.0 * TIMES + 5.0
    state = columns.topic('/js', TIMES, {'position': {'elbow': TIMES}}, receive=receive)
    choice, (finding,) = one_clock('bag', [state, columns.array([5.0])], 'auto')
    assert choice == 'receive'
    assert 'receive times are used for all' in finding.detail
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

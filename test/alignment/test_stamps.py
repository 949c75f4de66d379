# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Times of rows: which stamp counts, and how clocks run against each other."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sysid_ros.alignment import align
from sysid_ros.alignment.inspection import inspect
from sysid_ros.alignment.pairing import map_columns
from sysid_ros.alignment.segments import held_up as held_up_pieces
from sysid_ros.alignment.stamps import compare_clocks, one_clock, stamp, stamp_topics
from sysid_ros.bags import BagColumns, SetBack

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
    assert found.jumps == ()


def test_a_short_recording_has_an_offset_but_no_drift():
    header = np.arange(0.0, 2.0, 0.01)
    found = compare_clocks(ns(header + 0.25), ns(header))
    assert found is not None
    assert found.offset == pytest.approx(0.25)
    assert math.isnan(found.drift)


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


def test_topics_may_have_stamps_of_their_own(columns: Any):
    state = columns.topic('/js', TIMES, {'position': {'elbow': TIMES}}, receive=received(80.0, 0.0))
    command = columns.array([0.0])
    choice, findings = one_clock('bag', [state, command], {'/js': 'receive'})
    assert findings == ()
    np.testing.assert_array_equal(stamp('bag', state, choice).times_ns, state.receive_ns)
    choice, _ = one_clock('bag', [state, command], {command.topic: 'receive'})
    assert choice == {'/js': 'carried', command.topic: 'receive'}


@pytest.mark.parametrize('seed', range(5))
def test_a_process_that_stalls_and_catches_up_moves_no_clock(columns: Any, seed: int):
    generator = np.random.default_rng(seed)
    receive = np.sort(TIMES + 2e-4 + generator.exponential(3e-4, len(TIMES)))
    for begin in generator.uniform(1, 29, 1 if seed < 2 else 8):
        held = (receive >= begin) & (receive < begin + 0.35)
        receive[held] = begin + 0.35 + 2e-5 * np.arange(np.count_nonzero(held))
    receive = np.maximum.accumulate(receive)
    state = columns.topic('/js', TIMES, {'position': {'elbow': TIMES}}, receive=receive)
    found = compare_clocks(state.receive_ns, state.header_ns)
    assert found is not None
    assert found.jumps == ()
    assert found.offset == pytest.approx(2e-4, abs=1e-4)
    assert not found.drifts
    assert one_clock('bag', [state, columns.array([0.0])], 'auto') == ('auto', ())


@pytest.mark.parametrize('size', [-1.5, -0.1, 0.06])
def test_a_step_among_bursts_of_a_network_is_measured_to_a_millisecond(size: float):
    generator = np.random.default_rng(4)
    header = stamps(generator)
    busy = np.repeat(generator.random(len(header) // 20 + 1) < 0.3, 20)[: len(header)]
    delay = generator.exponential(np.where(busy, 0.03, 0.002))
    received = np.maximum.accumulate(header + delay)
    (jump,) = compare_clocks(ns(received), ns(header - size * (header >= 25))).jumps  # type: ignore[union-attr]
    assert jump.seconds == pytest.approx(size, abs=1e-3)
    assert (jump.time_ns - START_NS) / 1e9 == pytest.approx(25, abs=0.2)


@pytest.mark.parametrize(
    ('header', 'obstacle'),
    [
        (TIMES + 0.3 + 1e-3 * np.clip(TIMES - 8, 0, 12), 'leaves a straight line'),
        (TIMES / 2, 'run apart'),
    ],
)
def test_a_clock_that_is_slewed_or_twice_as_fast_is_not_carried_over(
    columns: Any, header: NDArray[np.float64], obstacle: str
):
    state = columns.topic('/js', header, {'position': {'elbow': TIMES}}, receive=TIMES)
    found = compare_clocks(state.receive_ns, state.header_ns)
    assert found is not None
    assert obstacle in found.obstacle
    choice, (finding,) = one_clock('bag', [state, columns.array([0.0])], 'auto')
    assert choice['/js'] == 'receive'  # type: ignore[index]
    assert found.obstacle in finding.detail
    np.testing.assert_array_equal(stamp('bag', state, choice).times_ns, state.receive_ns)


def test_what_comes_before_it_was_stamped_is_of_another_clock_and_what_comes_late_may_be(
    columns: Any,
):
    command = columns.array([0.0])
    chosen = {}
    for offset in (-0.02, 0.02, 5e-4):
        state = columns.topic('/js', TIMES, {'q': {'a': TIMES}}, receive=TIMES + offset)
        chosen[offset] = one_clock('bag', [state, command], 'auto')
    assert chosen[-0.02][0] == {'/js': 'carried', command.topic: 'auto'}
    assert '20.0 ms before their header stamps' in chosen[-0.02][1][0].detail
    assert chosen[0.02][0] == 'auto'
    assert 'or another clock; used as they are' in chosen[0.02][1][0].detail
    assert chosen[5e-4] == ('auto', ())


@pytest.mark.parametrize('pace', [1.0, 0.4])
def test_simulated_time_is_used_and_not_taken_for_a_clock_that_is_off(columns: Any, pace: float):
    simulated = 5.0 + pace * TIMES + 0.02 * np.sin(TIMES)
    header = np.round(simulated * 1e9).astype(np.int64)
    late = np.random.default_rng(0).exponential(3e-4, len(TIMES))
    state = columns.topic('/js', TIMES, {'q': {'a': TIMES}}, receive=np.sort(TIMES + late))
    state = dataclasses.replace(state, header_ns=header)
    command = columns.array(TIMES[::7])
    choice, (finding,) = one_clock('bag', [state, command], 'auto')
    assert finding.kind == 'simulated time'
    assert f'{command.topic} are carried over to it' in finding.detail
    found = stamp('bag', state, choice)
    np.testing.assert_array_equal(found.times_ns, header)
    assert found.findings == ()
    carried = stamp('bag', command, choice)
    assert (found.source, carried.source) == ('simulated', 'simulated')
    np.testing.assert_allclose(carried.times_ns / 1e9, simulated[::7], atol=1e-3)


def test_a_recorder_in_simulated_time_may_be_late_as_a_fast_simulation_makes_it(columns: Any):
    late = np.where(TIMES < 14.0, 0.01, 0.4) + 0.3 * ((TIMES > 20.0) & (TIMES < 20.5))
    state = columns.topic('/js', TIMES, {'position': {'a': TIMES}}, receive=TIMES + late)
    begin = columns.start - 10**9
    own = [each - begin for each in (state.receive_ns, state.header_ns)]
    simulated = dataclasses.replace(state, receive_ns=own[0], header_ns=own[1])
    assert [one_clock('bag', [each], 'auto')[0] for each in (simulated, state)] == [
        'auto',
        {'/js': 'receive'},
    ]
    assert held_up_pieces([simulated]) == []
    assert len(held_up_pieces([state])) > 0


#: When commands were sent: every 20 ms, a little unevenly.
SENT = np.arange(0.0, 30.0, 0.02) + 1e-4 * np.sin(np.arange(1500))


def held_up(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return when messages arrive at a recorder that does nothing for 0.3 s now and then."""
    usual = times + 3e-4 + np.random.default_rng(3).exponential(1e-4, len(times))
    stalls = np.arange(2.0, 30.0, 4.0)
    ends = np.where((usual[:, None] > stalls) & (usual[:, None] < stalls + 0.3), stalls + 0.3, 0.0)
    waited = np.maximum(usual, ends.max(1))
    # What waited comes in its order, a microsecond apart.
    return waited + 1e-6 * np.arange(len(times)) * (waited > usual)


def seconds(columns: Any, found: Any) -> NDArray[np.float64]:
    """Return the times of rows from the start, s."""
    times: NDArray[np.float64] = (found.times_ns - columns.start) / 1e9
    return times


@pytest.mark.parametrize(('drift', 'offset'), [(0.0, 0.0), (80.0, -3600.0), (-60.0, 0.4)])
def test_a_command_without_a_header_came_when_it_was_sent_plus_what_is_usual(
    columns: Any, drift: float, offset: float
):
    heard = held_up(SENT)
    assert np.max(np.abs(heard - SENT)) > 0.29
    command = columns.array(heard, sent=SENT * (1 + 1e-6 * drift) + offset)
    found = stamp('bag', command, 'auto')
    assert found.source == 'sent'
    assert found.usable.all()
    times = seconds(columns, found)
    np.testing.assert_allclose(times, SENT + np.median(heard - SENT), atol=1e-4)
    # Nothing is put before the first that was received.
    assert np.std(np.diff(times - SENT)[1:]) < 1e-6


def test_a_clock_of_the_sender_that_is_set_carries_nothing_over(columns: Any):
    heard = held_up(SENT)
    command = columns.array(heard, sent=SENT + 0.2 * (SENT > 15))
    found = stamp('bag', command, 'auto')
    assert found.source == 'receive'
    np.testing.assert_array_equal(found.times_ns, command.receive_ns)


def test_what_was_latched_long_before_came_with_the_start(columns: Any):
    sent = np.concatenate([[-4000.0], SENT])
    heard = np.concatenate([[-0.01], held_up(SENT)])
    found = stamp('bag', columns.array(heard, sent=sent), 'auto')
    times = seconds(columns, found)
    assert times[0] == pytest.approx(-0.01)
    np.testing.assert_allclose(times[1:], SENT + 4e-4, atol=1e-4)


def again(columns: Any) -> BagColumns:
    """Return a bag of which the recorder heard the same simulated time twice, 4 s the second."""
    second = np.arange(0.0, 12.0, 0.01) >= 8.0
    stamps_s = np.concatenate([np.arange(0.0, 8.0, 0.01), np.arange(0.0, 4.0, 0.01)])
    onward = stamps_s + 9.0 * second
    state = columns.topic(
        '/joint_states', stamps_s, {'position': {'elbow': onward}}, receive=onward + 1e-3
    )
    moments = np.concatenate([np.arange(0.1, 8.0, 0.05), np.arange(9.05, 13.0, 0.05)])
    back = SetBack(columns.start + round(8.5e9), round(9e9), 8.0)
    return dataclasses.replace(columns.bag(state, columns.array(moments)), set_back=(back,))


def test_a_simulation_that_began_again_goes_on_by_receive_times(columns: Any, arm: Any):
    bag = again(columns)
    alignment = align(bag, arm, map_columns(bag, arm, 'auto'), 'auto')
    ends = []
    for sequence in alignment.sequences:
        (series,) = sequence.measurements
        start = (sequence.origin_ns - columns.start) / 1e9
        # Positions say when they were measured: no row of the other run is among them.
        np.testing.assert_allclose(series.get('s1')[:, 0], series.times + start, atol=2e-3)
        ends.append(start + sequence.duration)
    assert ends == pytest.approx([7.99, 12.99], abs=2e-3)
    (finding,) = (item for item in alignment.health if item.kind == 'clock jump')
    assert 'set back by 8.000 s at 8.5 s' in finding.detail
    (elbow,) = inspect(bag).joints
    assert elbow.high == pytest.approx(12.99)


# So small a jump so near to an end as .5 s after 1 s may be a message that was held up.
@pytest.mark.parametrize(
    ('size', 'at'), [(-0.5, 8.0), (60.0, 8.0), (60.0, 1.0), (86400.0, 8.0), (86400.0, 1.0)]
)
def test_where_header_stamps_jump_receive_times_are_used_and_a_place_to_cut_is_named(
    columns: Any, size: float, at: float
):
    times = np.arange(0.0, 12.0, 0.01)
    state = columns.topic(
        '/js', times + size * (times >= at), {'q': {'a': times}}, receive=times + 1e-3
    )
    command = columns.array(times)
    stamped, (finding,) = stamp_topics(columns.bag(state, command), {'/js'}, 'auto')
    assert (finding.subject, finding.kind) == ('/js', 'clock jump')
    np.testing.assert_allclose(finding.spans, [(at, at)], atol=2e-3)
    np.testing.assert_array_equal(stamped['/js'].times_ns, state.receive_ns)
    assert stamp_topics(columns.bag(state, command), {command.topic}, 'auto')[1] == []

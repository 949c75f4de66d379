# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Bags in which time runs backwards are read as recordings of their own."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from sysid_ros.alignment import align, map_columns
from sysid_ros.alignment.health import FindingKind
from sysid_ros.alignment.parts import longest, parts_of
from sysid_ros.bags import BagColumns, SetBack
from sysid_ros.errors import AlignmentError
from sysid_ros.inspection.inspection import inspect

TIMES = np.arange(0.0, 12.0, 0.01)
#: A simulation began again after 8 s: what comes then has the stamps of the beginning.
AGAIN_S, ADDED_S = 8.0, 9.0


def begun_again(columns: Any) -> BagColumns:
    """Return a bag of which the recorder heard the same simulated time twice, 4 s the second."""
    first = np.flatnonzero(TIMES < AGAIN_S)
    stamps = np.concatenate([TIMES[first], TIMES[: len(TIMES) - len(first)]])
    onward = stamps + ADDED_S * (np.arange(len(TIMES)) >= len(first))
    state = columns.topic(
        '/joint_states', stamps, {'position': {'elbow': onward}}, receive=onward + 1e-3
    )
    commands = columns.array(np.arange(0.1, 13.0, 0.05))
    moved = np.array([8.0, 9.0]) * 1e9 + columns.start
    # While the clock was set back, nothing came.
    kept = (commands.receive_ns < moved[0]) | (commands.receive_ns > moved[1])
    commands = dataclasses.replace(
        commands,
        receive_ns=commands.receive_ns[kept],
        fields=tuple(
            dataclasses.replace(item, values=item.values[kept]) for item in commands.fields
        ),
    )
    back = SetBack(columns.start + round(8.5e9), round(ADDED_S * 1e9), AGAIN_S)
    return dataclasses.replace(columns.bag(state, commands), set_back=(back,))


def test_a_simulation_that_began_again_makes_two_sequences_with_their_own_stamps(
    columns: Any, arm: Any
):
    bag = begun_again(columns)
    alignment = align(bag, arm, map_columns(bag, arm, 'auto'), 'auto')
    first, second = alignment.sequences
    assert [first.name, second.name] == ['run_0', 'run_1']
    (_, (_, last)), (_, (begin, _)) = alignment.places
    assert last == pytest.approx(7.99)
    assert begin == pytest.approx(ADDED_S, abs=0.06)
    for sequence, begin, last in ((first, 0.0, 8.0), (second, ADDED_S, ADDED_S + 4.0)):
        (series,) = sequence.measurements
        start = (sequence.origin_ns - columns.start) / 1e9
        # Positions say when they were measured: no row of the other run is among them.
        np.testing.assert_allclose(series.get('s1')[:, 0] - begin, series.times + start, atol=1e-9)
        assert start + sequence.duration == pytest.approx(last - begin, abs=0.02)
        assert all(times.times[0] > -0.06 for times in sequence.commands)
    (finding,) = (i for i in alignment.health if i.kind is FindingKind.CLOCK_JUMP)
    assert 'set back by 8.000 s' in finding.detail
    assert {rate.topic: rate.messages for rate in alignment.topics}['/joint_states'] == len(TIMES)


def test_the_longest_run_is_inspected_and_the_whole_is_counted(columns: Any):
    bag = begun_again(columns)
    found = inspect(bag)
    assert {item.kind for item in found.findings} == {
        FindingKind.CLOCK_JUMP,
        FindingKind.NOT_MEASURED,
        FindingKind.NOT_MEASURED,
    }
    (elbow,) = found.joints
    assert elbow.high == pytest.approx(7.99)
    assert {topic.topic: topic.messages for topic in found.topics}['/joint_states'] == len(TIMES)


def test_header_stamps_that_go_back_split_all_topics_there(columns: Any):
    back = 0.5 * (TIMES >= AGAIN_S)
    state = columns.topic('/js', TIMES - back, {'position': {'elbow': TIMES}}, receive=TIMES + 1e-3)
    command = columns.array(TIMES)
    parts, (finding,), other, begins = parts_of(columns.bag(state, command), {'/js', command.topic})
    assert (finding.subject, finding.kind) == ('/js', FindingKind.CLOCK_JUMP)
    assert other == {'/js'}
    assert [len(part.topics[1].receive_ns) for part in parts] == [800, 400]
    assert [len(part.topics[0].receive_ns) for part in parts] == [801, 399]
    assert longest(parts) is parts[0]
    (when,) = finding.spans
    np.testing.assert_allclose((*begins, *when), (0.0, 8.0, 8.0, 8.0), atol=2e-3)
    np.testing.assert_array_equal(parts[1].topics[1].header_ns, state.header_ns[800:])


def test_topics_that_do_not_matter_split_nothing(columns: Any):
    back = 0.5 * (TIMES >= AGAIN_S)
    state = columns.topic('/imu', TIMES - back, {'x': {'': TIMES}}, receive=TIMES)
    bag = columns.bag(state)
    assert parts_of(bag, ()) == ((bag,), (), frozenset(), (0.0,))


def test_a_run_without_commands_is_left_out_with_its_reason(columns: Any, arm: Any):
    bag = begun_again(columns)
    command, state = bag.topics
    early = command.receive_ns < columns.start + 4e9
    command = dataclasses.replace(
        command,
        receive_ns=command.receive_ns[early],
        fields=tuple(
            dataclasses.replace(item, values=item.values[early]) for item in command.fields
        ),
    )
    bag = dataclasses.replace(bag, topics=(command, state))
    alignment = align(bag, arm, map_columns(bag, arm, 'auto'), 'auto')
    assert [sequence.name for sequence in alignment.sequences] == ['run_0']
    assert any('a part is left out: No stamp of the command' in i.detail for i in alignment.health)
    late = dataclasses.replace(command, receive_ns=command.receive_ns + 30 * 10**9)
    bag = dataclasses.replace(bag, topics=(late, state), set_back=())
    with pytest.raises(AlignmentError, match='No stamp of the command'):
        align(bag, arm, map_columns(bag, arm, 'auto'), 'auto')

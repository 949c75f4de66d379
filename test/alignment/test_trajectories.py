# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From paired columns to sequences, what is found wrong with them, and their files."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysid_ros.alignment import Alignment, Format, align, write_series
from sysid_ros.alignment.health import (
    MOST_SPANS,
    FindingKind,
    Grade,
    HealthFinding,
    aggregated,
    spans_where,
)
from sysid_ros.alignment.pairing import map_columns
from sysid_ros.alignment.stamps import longest_increasing
from sysid_ros.bags import BagColumns
from sysid_ros.errors import AlignmentError
from sysid_ros.fit.nuisances import command_timings
from sysid_ros.signals import SignalType
from sysid_ros.vocabulary import SECOND_NS

TIMES = np.arange(0, 2, 0.01)


def _align(bag: BagColumns, model: mujoco.MjModel, stamps: str = 'auto') -> Alignment:
    return align(bag, model, map_columns(bag, model, 'auto'), stamps)


def _kinds(alignment: Alignment) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for item in alignment.health:
        kinds[item.kind] += item.count
    return kinds


def test_signals_keep_their_names_stamps_and_values(arm: Any, columns: Any):
    alignment = _align(columns.bag(columns.state(TIMES), columns.array([-0.5, 0.505])), arm)
    (sequence,) = alignment.sequences
    assert sequence.name == 'run'
    assert sequence.origin_ns == columns.start
    assert sequence.duration == pytest.approx(1.99)
    (series,) = sequence.measurements
    assert series.signal_mapping['s1'][0] is SignalType.MjSensor
    np.testing.assert_allclose(series.times, TIMES, atol=1e-9)
    np.testing.assert_allclose(series.get('s1')[:, 0], 2 * TIMES)
    np.testing.assert_allclose(series.get('s2')[:, 0], 3 * TIMES)
    np.testing.assert_allclose(series.get('s3')[:, 0], np.cos(TIMES) + 2)
    (commands,) = sequence.commands
    assert commands.signal_mapping['drive_w'][0] is SignalType.MjCtrl
    np.testing.assert_allclose(commands.times, [-0.5, 0.505])
    np.testing.assert_allclose(commands.get('drive_w')[:, 0], [0.5, 1.505])


def test_where_one_message_replaces_another_is_kept(arm: Any, columns: Any):
    commands = columns.array([-0.5, 0.1, 0.3, 0.5, 0.7, 2.5])
    legs = np.array([[0, 0], [0, 1], [1, 2], [1, 2], [1, 3], [1, 4]])
    asked = dataclasses.replace(commands, legs=legs)
    (sequence,) = _align(columns.bag(columns.state(TIMES), asked), arm).sequences
    np.testing.assert_allclose(sequence.replaced, [[0.1, 0.5]])
    (sequence,) = _align(columns.bag(columns.state(TIMES), commands), arm).sequences
    assert sequence.replaced.shape == (0, 2)


@pytest.mark.parametrize(
    ('topic', 'stamps', 'known'),
    [
        ('/driver/applied_commands', 'auto', True),
        ('/driver/applied_commands', 'receive', False),
        ('/driver/commands', 'auto', False),
    ],
)
def test_whether_commands_are_stamped_as_they_came_to_act_is_kept(
    arm: Any, columns: Any, topic: str, stamps: str, known: bool
):
    moments = np.sort(np.random.default_rng(0).uniform(0, 2, 100))
    bag = columns.bag(columns.state(TIMES), columns.state(moments, topic))
    (sequence,) = _align(bag, arm, stamps).sequences
    assert sequence.applied == (frozenset(sequence.commands[0].names) if known else frozenset())
    assert bool(command_timings([sequence])) is not known


def test_it_starts_when_all_commands_are_known(arm: Any, columns: Any):
    alignment = _align(columns.bag(columns.state(TIMES), columns.array([0.503, 1])), arm)
    (sequence,) = alignment.sequences
    assert (sequence.origin_ns - columns.start) / 1e9 == pytest.approx(0.51)
    np.testing.assert_allclose(sequence.commands[0].times, [-0.007, 0.49])
    assert sequence.measurements[0].times[0] == 0
    assert _kinds(alignment)['before first command'] == 51


def test_the_command_in_force_is_kept_with_a_second_of_history(arm: Any, columns: Any):
    state = columns.state(np.concatenate([TIMES, TIMES + 10]))
    commands = columns.array(np.arange(0, 12, 0.3))
    alignment = _align(columns.bag(state, commands), arm)
    first, second = alignment.sequences
    assert (first.name, second.name) == ('run_0', 'run_1')
    assert alignment.places == (('run_0', (0.0, 1.99)), ('run_1', (10.0, 11.99)))
    assert alignment.seconds == 11.99
    assert first.measurements[0].times[-1] == pytest.approx(1.99)
    assert (second.origin_ns - columns.start) / 1e9 == pytest.approx(10)
    times = second.commands[0].times
    np.testing.assert_allclose(times[:2], [-1.0, -0.7])
    assert times[-1] == pytest.approx(1.7)
    assert second.initial_qpos[0] == pytest.approx(10)


def test_commands_after_the_last_measurement_are_an_error_with_the_numbers(arm: Any, columns: Any):
    with pytest.raises(AlignmentError, match=r'first command at \+5\.000 s.*last at \+1\.990 s'):
        _align(columns.bag(columns.state(TIMES), columns.array([5.0])), arm)


def test_gaps_jitter_and_rates_are_counted(arm: Any, columns: Any):
    times = np.delete(TIMES, np.arange(50, 70))
    alignment = _align(columns.bag(columns.state(times), columns.array([0, 1])), arm)
    assert _kinds(alignment)['gap'] == 1
    (gap,) = (finding for finding in alignment.health if finding.kind == 'gap')
    assert gap.spans == ((0.49, 0.7),)
    assert len(alignment.sequences) == 1
    rates = {rate.topic: rate for rate in alignment.topics}
    assert rates['/joint_states'].longest_gap == pytest.approx(0.21)
    assert rates['/joint_states'].rate == pytest.approx(179 / 1.99)
    assert rates['/controller/commands'].rate == pytest.approx(1)
    wobble = TIMES + 0.004 * (np.arange(len(TIMES)) % 2)
    assert _kinds(_align(columns.bag(columns.state(wobble)), arm))['jitter'] == 99
    assert _kinds(_align(columns.bag(columns.state(TIMES)), arm))['jitter'] == 0


def test_repeated_reordered_and_future_stamps_cost_one_row_each_and_copies_none(
    arm: Any, columns: Any
):
    times = TIMES.copy()
    times[20] = times[19]
    times[40] = times[30] + 0.001
    times[60] = 500.0
    # The next message says the same at the same time.
    times[80] = times[79]
    state = columns.state(times)
    state.fields[0].values[20] += 0.1
    alignment = _align(columns.bag(state), arm)
    kinds = _kinds(alignment)
    assert kinds['reordered stamp'] == 3
    (series,) = alignment.sequences[0].measurements
    np.testing.assert_allclose(series.times, np.delete(TIMES, [20, 40, 60, 80]), atol=1e-9)


@pytest.mark.slow
@given(st.lists(st.integers(0, 20), max_size=12))
@settings(max_examples=100, deadline=None)
def test_as_many_rows_as_possible_are_kept(times: list[int]):
    stamps = np.array(times, dtype=np.int64)
    kept = stamps[longest_increasing(stamps)]
    assert np.all(np.diff(kept) > 0)
    best = [1] * len(times)
    for row, time in enumerate(times):
        best[row] = 1 + max((best[k] for k in range(row) if times[k] < time), default=0)
    assert len(kept) == max(best, default=0)


def test_header_and_receive_stamps_are_chosen_as_told(arm: Any, columns: Any):
    receive = TIMES * 1.01 + 0.2
    fields = {'position': {'elbow': TIMES}}
    bag = columns.bag(columns.topic('/js', TIMES, fields, receive=receive))
    for stamps, expected in (('auto', 0), ('header', 0), ('receive', 0.2)):
        (sequence,) = _align(bag, arm, stamps).sequences
        assert (sequence.origin_ns - columns.start) / 1e9 == pytest.approx(expected)


def test_messages_that_share_a_stamp_may_carry_other_joints(arm: Any, columns: Any):
    times = np.repeat(TIMES, 2)
    even = np.arange(len(times)) % 2 == 0
    position = {'elbow': np.where(even, times, np.nan), 'wrist': np.where(even, np.nan, times)}
    state = columns.topic('/js', times, {'position': position})
    (sequence,) = _align(columns.bag(state), arm).sequences
    assert {series.names: len(series) for series in sequence.measurements} == {
        ('s1',): len(TIMES),
        ('s2',): len(TIMES),
    }


def test_values_that_are_not_finite_are_masked_and_counted(arm: Any, columns: Any):
    state = columns.state(TIMES)
    state.fields[0].values[10:15, 2] = np.nan
    state.fields[0].values[20, 2] = np.inf
    alignment = _align(columns.bag(state), arm)
    (sequence,) = alignment.sequences
    assert all(np.isfinite(series.data).all() for series in sequence.measurements)
    lengths = {name: len(series) for series in sequence.measurements for name in series.names}
    assert lengths == {'s0': 200, 's1': 194, 's2': 200, 's3': 200}
    (masked,) = (finding for finding in alignment.health if finding.kind == 'missing values')
    assert (masked.count, masked.spans) == (6, ((0.1, 0.14), (0.2, 0.2)))


def test_the_initial_state_is_measured_at_time_zero(arm: Any, columns: Any):
    (sequence,) = _align(columns.bag(columns.state(TIMES), columns.array([0.5])), arm).sequences
    # Velocity of the elbow is measured (cos t + 2); the others are slopes of the position.
    expected = np.array(arm.qpos0)
    expected[:3] = [0.5, 1.0, 1.5]
    np.testing.assert_allclose(sequence.initial_qpos, expected, atol=1e-9)
    np.testing.assert_allclose(sequence.initial_qvel[:2], [1, np.cos(0.5) + 2], atol=1e-3)
    assert sequence.initial_qvel[2] == pytest.approx(3)
    np.testing.assert_array_equal(sequence.initial_qvel[3:], 0)


def test_what_was_measured_before_the_first_command_tells_the_state_at_the_start(
    arm: Any, columns: Any
):
    times = np.arange(0, 2, 0.02)
    state = columns.topic('/js', times, {'position': {'elbow': np.sin(5 * times)}})
    (sequence,) = _align(columns.bag(state, columns.array([0.23])), arm).sequences
    assert (sequence.origin_ns - columns.start) / 1e9 == pytest.approx(0.24)
    # The samples at 0.22, 0.24 and 0.26 s; the slope over the latter two is 0.24 rad/s off.
    expected = (np.sin(5 * 0.26) - np.sin(5 * 0.22)) / 0.04
    assert sequence.initial_qvel[1] == pytest.approx(expected)


@pytest.mark.parametrize('measured', [True, False])
def test_a_joint_that_is_measured_seldom_starts_where_it_is_then(
    arm: Any, columns: Any, measured: bool
):
    seldom = np.arange(0.022, 2, 0.04)
    fields = {'position': {'elbow': np.sin(3 * seldom)}}
    if measured:
        fields['velocity'] = {'elbow': 3 * np.cos(3 * seldom)}
    wrist = columns.topic('/js', TIMES, {'position': {'wrist': TIMES}})
    bag = columns.bag(wrist, columns.topic('/slow', seldom, fields), columns.array([0.6]))
    (sequence,) = _align(bag, arm).sequences
    # It is measured at 0.582 and 0.622 s; where it was at the first is 17 mrad away.
    off = abs(sequence.initial_qpos[1] - np.sin(3 * 0.6))
    acceleration = 9 * np.sin(3 * 0.6)
    # By a line between the two it is at most this, by the velocity a tenth of it.
    assert off < acceleration * 0.04**2 / 8 * (0.1 if measured else 1.01)
    assert sequence.initial_qvel[1] == pytest.approx(3 * np.cos(3 * 0.6), abs=0.02)


def test_a_short_piece_between_gaps_is_left_out_and_counted(arm: Any, columns: Any):
    times = np.concatenate([TIMES, [5.0, 5.01], TIMES + 8])
    alignment = _align(columns.bag(columns.state(times)), arm)
    assert [item.name for item in alignment.sequences] == ['run_0', 'run_1']
    assert _kinds(alignment)['left out'] == 2


ONE_SECOND = np.arange(0, 1, 0.01)


@pytest.fixture
def alignment(arm: Any, columns: Any) -> Alignment:
    """Return a small aligned bag."""
    bag = columns.bag(
        columns.state(ONE_SECOND),
        columns.array([-0.1, 0.5]),
        columns.state(ONE_SECOND, '/copy_of_states'),
    )
    return align(bag, arm, map_columns(bag, arm, 'auto'), 'auto')


def test_npz_files_come_back_without_pickle(alignment: Alignment, arm: Any, tmp_path: Path):
    written = write_series(tmp_path / 'new', alignment, arm, [Format.NPZ])
    names = ['run_commands_0.npz', 'run_measurements_0.npz', 'run_health.json']
    assert [path.name for path in written] == names
    sequence = alignment.sequences[0]
    with np.load(written[1], allow_pickle=False) as stored:
        np.testing.assert_array_equal(stored['times'], sequence.measurements[0].times)
        np.testing.assert_array_equal(stored['data'], sequence.measurements[0].data)
        assert int(stored['origin_ns']) == sequence.origin_ns
        assert json.loads(str(stored['signal_mapping']))['s3'] == [0, [0]]
    first = [path.read_bytes() for path in written]
    again = write_series(tmp_path, alignment, arm, [Format.NPZ])
    assert [path.read_bytes() for path in again] == first


def test_csv_files_hold_exact_numbers_under_names(alignment: Alignment, arm: Any, tmp_path: Path):
    *_, path, _ = write_series(tmp_path, alignment, arm, [Format.CSV])
    lines = path.read_text().splitlines()
    series = alignment.sequences[0].measurements[0]
    assert lines[0] == 'time,' + ','.join(series.names)
    numbers = np.array([[float(cell) for cell in line.split(',')] for line in lines[1:]])
    np.testing.assert_array_equal(numbers, np.column_stack([series.times, series.data]))


def test_what_was_done_to_the_recording_goes_along(alignment: Alignment, arm: Any, tmp_path: Path):
    *_, path = write_series(tmp_path, alignment, arm)
    record = json.loads(path.read_text())
    health = [vars(finding) | {'spans': list(finding.spans)} for finding in alignment.health]
    assert record['health'] == health
    assert 'assumed order' in {item['kind'] for item in record['health']}
    (sequence,) = record['sequences']
    assert sequence['tables'] == ['run_commands_0', 'run_measurements_0']
    assert sequence['initial_qpos'] == alignment.sequences[0].initial_qpos.tolist()
    assert len(record['columns']) == len(alignment.pairs)
    assert {
        'name': 's3',
        'unit': 'rad/s',
        'element': 'sensor/s3',
        'of': 'joint/elbow',
        'topic': '/joint_states',
        'field': 'velocity',
        'label': 'elbow',
        'scale': 1.0,
        'offset': 0.0,
    } in record['columns']
    assert '/copy_of_states' in {item['name'] for item in record['unmapped']}


def test_the_sysid_toolbox_reads_the_npz_files(alignment: Alignment, arm: Any, tmp_path: Path):
    # The public package hides everything when one of its many optional dependencies is absent.
    sysid = pytest.importorskip('mujoco.sysid._src.timeseries')
    written = write_series(tmp_path, alignment, arm, [Format.NPZ])
    series = sysid.TimeSeries.load_from_disk(written[0])
    ours = alignment.sequences[0].commands[0]
    np.testing.assert_array_equal(series.data, ours.data)
    assert list(series.signal_mapping) == list(ours.names)
    assert {kind.name for kind, _ in series.signal_mapping.values()} == {'MjCtrl'}


def _finding(subject: str, count: int, detail: str, bag: str = 'bag') -> HealthFinding:
    return HealthFinding(bag, subject, FindingKind.CLIPPED, count, detail)


def _texts(findings: list[HealthFinding], *, bags: bool = True) -> list[str]:
    return [item.text(bags=bags) for item in aggregated(findings)]


def test_every_kind_says_what_it_does_and_what_is_no_note_what_to_do():
    for kind in FindingKind:
        assert kind.effect.endswith('.')
        assert kind.remedy.endswith('.') or kind.grade is Grade.NOTE


def test_equal_findings_of_many_joints_and_bags_are_one_line():
    found = [
        HealthFinding(f'train_{bag}', f'j{joint}', FindingKind.NOT_MEASURED, 1, 'a slope')
        for bag in range(7)
        for joint in range(7)
    ]
    assert _texts(found) == ['7 joints × 7 bags: a slope']  # noqa: RUF001
    assert _texts(found[1:]) == ['7 joints in 7 bags: a slope']
    assert _texts(found[:7], bags=False) == ['7 joints: a slope']
    assert _texts(found[:2]) == ['j0, j1 in train_0: a slope']


def test_of_findings_that_differ_the_worst_is_named_with_bag_and_value():
    found = [_finding(f'/t.position[{k}]', 10 - abs(k - 5), f'at {k}') for k in range(9)]
    other = _finding('/t.position[0]', 3, 'at 7', 'other')
    assert _texts([*found, other]) == [
        '9 channels in bag, other; worst /t.position[5] in bag (10): at 5'
    ]
    assert _texts(found, bags=False) == ['9 channels; worst /t.position[5] (10): at 5']


def test_what_is_nearest_is_one_span_where_there_are_too_many():
    times = np.arange(0, 10 * MOST_SPANS, 2) * SECOND_NS
    chosen = np.ones(len(times), dtype=bool)
    chosen[::3] = False
    found = spans_where(times, chosen, int(times[0]))
    assert len(found) == MOST_SPANS
    assert (found[0][0], found[-1][1]) == (2.0, 10.0 * MOST_SPANS - 4)
    assert spans_where(times, ~chosen & (times > 1e12), 0)[0] == (1002.0, 1002.0)
    assert spans_where(times, np.zeros_like(chosen), 0) == ()


def test_faults_come_first_and_then_what_was_found_most_often():
    kinds = (FindingKind.MISSING, FindingKind.GAP, FindingKind.JITTER, FindingKind.SPIKES)
    counts = zip(kinds, (100, 1, 5, 1), strict=True)
    found = [HealthFinding('bag', '/t', kind, count, 'x') for kind, count in counts]
    assert [(item.kind, item.kind.grade) for item in aggregated(found)] == [
        (FindingKind.SPIKES, Grade.FAULT),
        (FindingKind.JITTER, Grade.CAUTION),
        (FindingKind.GAP, Grade.CAUTION),
        (FindingKind.MISSING, Grade.NOTE),
    ]

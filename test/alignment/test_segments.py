# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What of a bag becomes sequences."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from sysid_ros.alignment import Alignment, HealthFinding, Mapping, align
from sysid_ros.alignment.pairing import map_columns
from sysid_ros.alignment.segments import InitialState, initial_state
from sysid_ros.bags import BagColumns, TextColumn, TopicColumns
from sysid_ros.config.files import load_segments, validate
from sysid_ros.config.schema import MappingConfig, SegmentsConfig
from sysid_ros.errors import AlignmentError, ConfigError
from sysid_ros.signals import SignalType, TimeSeries

END = 20.0
TIMES = np.arange(0, END, 0.01)
COMMAND_TIMES = np.arange(0, END, 0.02)
JOINTS = ('shoulder', 'elbow', 'wrist')
NOISE = 1e-4


def _motion(times: NDArray[np.float64], joint: int) -> NDArray[np.float64]:
    return np.asarray(0.5 * np.sin(2 * np.pi * (0.4 + 0.15 * joint) * times + joint))


def _state(
    columns: Any,
    positions: list[NDArray[np.float64]],
    times: NDArray[np.float64] = TIMES,
    efforts: list[NDArray[np.float64]] | None = None,
    seed: int = 0,
) -> TopicColumns:
    rng = np.random.default_rng(seed)
    noisy = [values + NOISE * rng.standard_normal(len(values)) for values in positions]
    fields = {'position': dict(zip(JOINTS, noisy, strict=True))}
    if efforts is not None:
        fields['effort'] = dict(zip(JOINTS, efforts, strict=True))
    return columns.topic('/joint_states', times, fields)  # type: ignore[no-any-return]


def _commands(columns: Any) -> TopicColumns:
    data = {str(index): item for index, item in enumerate(_moving(COMMAND_TIMES))}
    kind = 'std_msgs/msg/Float64MultiArray'
    return columns.topic(  # type: ignore[no-any-return]
        '/controller/commands', COMMAND_TIMES, {'data': data}, msgtype=kind, header=False
    )


def _moving(times: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    return [_motion(times, joint) for joint in range(3)]


def _align(bag: BagColumns, model: Any, **segments: Any) -> Alignment:
    return align(bag, model, _mapping(bag, model), 'auto', segments=SegmentsConfig(**segments))


def _mapping(bag: BagColumns, model: Any) -> Mapping:
    topics = {topic.topic: topic for topic in bag.topics}
    sensors = {f's{row}': f'/joint_states.position[{joint}]' for row, joint in enumerate(JOINTS)}
    if any(field.name == 'effort' for field in topics['/joint_states'].fields):
        sensors['s5'] = '/joint_states.effort[shoulder]'
    drives = ('drive_s', 'drive_e', 'drive_w') if '/controller/commands' in topics else ()
    actuators = {name: f'/controller/commands.data[{row}]' for row, name in enumerate(drives)}
    config = validate(MappingConfig, {'sensors': sensors, 'actuators': actuators}, 'a test')
    return map_columns(bag, model, config)


def _spans(alignment: Alignment, columns: Any) -> list[tuple[float, float]]:
    found = []
    for item in alignment.sequences:
        start = (item.origin_ns - columns.start) / 1e9
        found.append((start, start + item.duration))
    return found


def _found(alignment: Alignment, kind: str) -> list[HealthFinding]:
    return [item for item in alignment.health if item.kind == kind]


def _held_up(columns: Any, *stalls: tuple[float, float], jitter: float = 0.0) -> TopicColumns:
    """Return states that were sent late: at the end of a stall, all that were due."""
    late = TIMES + 0.012 + jitter * np.random.default_rng(1).exponential(size=len(TIMES))
    for begin, end in stalls:
        late = np.where((late > begin) & (late < end), end, late)
    state = _state(columns, _moving(TIMES))
    sent = columns.start + np.round(late * 1e9).astype(np.int64)
    return dataclasses.replace(state, receive_ns=sent)


def test_where_the_robot_was_held_up_nobody_knows_when_commands_acted(arm: Any, columns: Any):
    asked = _commands(columns)
    state = _held_up(columns, (5.0, 5.3), (12.0, 12.2), jitter=2e-3)
    alignment = _align(columns.bag(state, asked), arm)
    expected = [(0.0, 4.98), (5.38, 11.98), (12.28, END - 0.01)]
    for found, wanted in zip(_spans(alignment, columns), expected, strict=True):
        assert found == pytest.approx(wanted, abs=0.03)
    (finding,) = _found(alignment, 'stall')
    assert finding.count == 2
    assert 'nobody knows when commands acted' in finding.detail


def test_a_robot_that_says_when_commands_acted_may_be_held_up(arm: Any, columns: Any):
    joints = dict(zip(JOINTS, _moving(COMMAND_TIMES), strict=True))
    fields = {'position': joints, 'velocity': joints}
    applied = columns.topic('/driver/applied', COMMAND_TIMES, fields)
    for topic, count in ((applied, 1), (dataclasses.replace(applied, topic='/driver/commands'), 2)):
        bag = columns.bag(_held_up(columns, (5.0, 5.3)), topic)
        alignment = align(bag, arm, map_columns(bag, arm, 'auto'), 'auto')
        assert len(alignment.sequences) == count


def test_ranges_choose_and_the_state_before_them_still_counts(arm: Any, columns: Any):
    bag = columns.bag(_state(columns, _moving(TIMES)))
    alignment = _align(bag, arm, times=[[2, 5], [5, 7.5]])
    spans = _spans(alignment, columns)
    np.testing.assert_allclose(spans, [(2, 4.99), (5, 7.5)], atol=1e-6)
    (finding,) = _found(alignment, 'left out')
    assert finding.count == len(TIMES) - 551
    speed = 0.5 * 2 * np.pi * 0.4 * np.cos(2 * np.pi * 0.4 * 2)
    assert alignment.sequences[0].initial_qvel[0] == pytest.approx(speed, abs=0.02)


def test_contacts_are_cut_out_and_no_start_looks_into_them(arm: Any, columns: Any):
    positions = _moving(TIMES)
    hit = (TIMES >= 4) & (TIMES <= 5)
    positions[0][hit] = 2.0
    alignment = _align(columns.bag(_state(columns, positions)), arm, without=[[4, 5]])
    spans = _spans(alignment, columns)
    np.testing.assert_allclose(spans, [(0, 3.99), (5.01, END - 0.01)], atol=1e-6)
    (finding,) = _found(alignment, 'left out')
    assert finding.count == 1
    assert '4.000 to 5.000 s' in finding.detail
    assert finding.spans == ((4.0, 5.0),)
    assert '101 instants' in finding.detail
    start = alignment.sequences[1].initial_qpos[0]
    assert start == pytest.approx(positions[0][501], abs=1e-3)
    assert alignment.sequences[0].initial_qpos[0] == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize('kind', ['std_msgs/msg/Bool', 'std_msgs/msg/Float64'])
def test_a_topic_that_is_true_marks_what_is_kept_or_left_out(arm: Any, columns: Any, kind: str):
    data = {'data': {'': [0.0, 1.0, 1.0, 0.0]}}
    flag = columns.topic('/flag', [0.5, 3.0, 3.5, 8.0], data, msgtype=kind, header=False)
    bag = columns.bag(_state(columns, _moving(TIMES)), flag)
    spans = _spans(_align(bag, arm, marker='/flag'), columns)
    np.testing.assert_allclose(spans, [(3, 7.99)], atol=1e-6)
    alignment = _align(bag, arm, contacts={'topic': '/flag'})
    spans = _spans(alignment, columns)
    np.testing.assert_allclose(spans, [(0, 2.99), (8, END - 0.01)], atol=1e-6)
    (finding,) = _found(alignment, 'left out')
    assert finding.detail.startswith('3.000 to 8.000 s: /flag says so')


def test_texts_mark_one_segment_each(arm: Any, columns: Any):
    bag = columns.bag(_state(columns, _moving(TIMES)))
    texts = ('sines', 'chirp', 'chirp', '', 'sines')
    at = columns.start + np.array([1, 4, 6, 8, 15]) * 10**9
    bag = dataclasses.replace(bag, text_columns=(TextColumn('/phase', at, texts),))
    spans = _spans(_align(bag, arm, marker='/phase'), columns)
    np.testing.assert_allclose(spans, [(1, 3.99), (4, 7.99), (15, END - 0.01)], atol=1e-6)
    spans = _spans(_align(bag, arm, marker={'topic': '/phase', 'text': 'sin*'}), columns)
    np.testing.assert_allclose(spans, [(1, 3.99), (15, END - 0.01)], atol=1e-6)
    both = _align(bag, arm, marker={'topic': '/phase', 'text': 'chirp'}, times=[[5, 30]])
    np.testing.assert_allclose(_spans(both, columns), [(5, 7.99)], atol=1e-6)


def test_a_marker_that_is_not_there_or_no_number_is_one_sentence(arm: Any, columns: Any):
    bag = columns.bag(_state(columns, _moving(TIMES)))
    with pytest.raises(AlignmentError, match=r"'/joint_state' in bag 'run'; nearest: /joint_st"):
        _align(bag, arm, marker='/joint_state')
    with pytest.raises(AlignmentError, match=r'one number.*found 3 numbers'):
        _align(bag, arm, contacts='/joint_states')


def test_rest_is_left_out_when_only_motion_is_wanted(arm: Any, columns: Any):
    # All joints together: one that pauses alone is not at rest.
    clock = np.where(TIMES < 6, TIMES, np.maximum(TIMES - 4, 6.0))
    positions = _moving(clock)
    positions[2] = np.where(TIMES > 12, positions[2][1200], positions[2])
    alignment = _align(columns.bag(_state(columns, positions)), arm, moving=True)
    spans = _spans(alignment, columns)
    np.testing.assert_allclose(spans, [(0, 6), (10, END - 0.01)], atol=0.05)
    (finding,) = _found(alignment, 'left out')
    assert finding.count == 1


@pytest.mark.slow
@pytest.mark.parametrize('seed', range(10))
def test_a_motion_without_rest_or_stop_stays_whole(arm: Any, columns: Any, seed: int):
    rng = np.random.default_rng(seed)
    keep = np.sort(rng.permutation(len(TIMES))[: int(0.98 * len(TIMES))])
    times = TIMES[keep] + 2e-4 * rng.standard_normal(len(keep))
    efforts = [_motion(times, 2 - joint) for joint in range(3)]
    state = _state(columns, _moving(times), times, efforts, seed)
    bag = columns.bag(state, _commands(columns))
    alignment = _align(bag, arm, moving=True, stops=True)
    assert len(alignment.sequences) == 1
    assert not _found(alignment, 'left out')
    assert not _found(alignment, 'e-stop')


def _seen(alignment: Alignment) -> list[str]:
    return [re.split('[:;] ', item.detail)[1] for item in _found(alignment, 'e-stop')]


def test_joints_that_brake_while_commands_go_on_are_a_stop(arm: Any, columns: Any):
    # They come to rest smoothly within 0.3 s, which belongs to the stop as well.
    clock = np.where(TIMES < 6, TIMES, 6 + 0.1 * (1 - np.exp(-(TIMES - 6) / 0.1)))
    clock = np.where(TIMES < 10, clock, TIMES)
    bag = columns.bag(_state(columns, _moving(clock)), _commands(columns))
    alignment = _align(bag, arm, stops=True)
    assert 'joints stand still while commands move' in _seen(alignment)
    (_, first), (second, _) = _spans(alignment, columns)
    assert first <= 6.1
    assert second == pytest.approx(10, abs=0.05)


def test_drives_without_effort_are_a_stop(arm: Any, columns: Any):
    off = (TIMES >= 6) & (TIMES < 8)
    efforts = [np.where(off, 0.0, 1 + _motion(TIMES, joint)) for joint in range(3)]
    bag = columns.bag(_state(columns, _moving(TIMES), efforts=efforts))
    alignment = _align(bag, arm, stops=True)
    np.testing.assert_allclose(_spans(alignment, columns), [(0, 5.99), (8, END - 0.01)], atol=1e-6)
    assert _seen(alignment) == ['all efforts are zero']
    never = [np.zeros(len(TIMES))] * 3
    bag = columns.bag(_state(columns, _moving(TIMES), efforts=never))
    assert not _found(_align(bag, arm, stops=True), 'e-stop')


def test_windows_start_from_measurements_and_lose_nothing(arm: Any, columns: Any):
    bag = columns.bag(_state(columns, _moving(TIMES)), _commands(columns))
    alignment = _align(bag, arm, window=3)
    spans = _spans(alignment, columns)
    assert [start for start, _ in spans] == pytest.approx([0, 3, 6, 9, 12, 15, 18])
    samples = sum(len(series) for item in alignment.sequences for series in item.measurements)
    assert samples == len(TIMES)
    for (start, _), sequence in zip(spans, alignment.sequences, strict=True):
        at = np.array([start])
        expected = [_motion(at, joint)[0] for joint in range(3)]
        np.testing.assert_allclose(sequence.initial_qpos[:3], expected, atol=1e-3)
        assert sequence.commands[0].times[0] <= 0
    (finding,) = _found(alignment, 'left out')
    assert finding.count == 7


def test_when_nothing_is_left_the_error_says_why(arm: Any, columns: Any):
    bag = columns.bag(_state(columns, _moving(TIMES)))
    with pytest.raises(AlignmentError, match=r'left out: 0\.000 to 30\.000 s: segments\.without'):
        _align(bag, arm, without=[[0, 30]])
    with pytest.raises(AlignmentError, match=r'found none \(left out: instants of 2000'):
        _align(bag, arm, times=[[40, 50]])


@pytest.mark.parametrize(
    ('text', 'complaint'),
    [
        ('solver: {}', r'Expected the section segments in .*; available: solver\.$'),
        ('segments: {times: [[2, 1]]}', r"as \[\[2\.0, 30\.5\]\] for 'times'.*found \[2, 1\]"),
        ('segments: {times: {a: [[1, x]]}}', r"for 'times'.*found \[1, 'x'\]"),
        ('segments: {stop: true}', r"Unknown key 'segments\.stop' in .*; nearest: stops"),
    ],
)
def test_what_is_wrong_in_segments_is_one_sentence(tmp_path: Path, text: str, complaint: str):
    path = tmp_path / 'segments.yaml'
    path.write_text(text)
    with pytest.raises(ConfigError, match=complaint) as caught:
        load_segments(path)
    assert '\n' not in str(caught.value)


# A crank of .08 m, a coupler of .2 m and a rocker of .1 m.
FOUR_BAR = """
<mujoco><option jacobian="{jacobian}"/><worldbody>
  <body name="crank"><joint name="crank" axis="0 1 0"/><geom size=".01" mass=".1"/>
    <body name="coupler" pos="0 0 .08"><joint name="coupler" axis="0 1 0"/>
      <geom size=".01" mass=".1"/></body></body>
  <body name="rocker" pos=".2 0 -.02"><joint name="rocker" axis="0 1 0"/>
    <geom size=".01" mass=".1"/></body></worldbody>
  <equality><connect body1="coupler" body2="rocker" anchor=".2 0 0"/></equality>
  <sensor><jointpos name="q" joint="crank"/></sensor></mujoco>
"""
FINGERS = """
<mujoco><worldbody>
  <body><joint name="left"/><geom size=".1"/></body>
  <body><joint name="right"/><geom size=".1"/></body>
  <body><joint name="third"/><geom size=".1"/></body>
  <body><joint name="loose"/><geom size=".1"/></body></worldbody>
  <tendon><fixed name="sum"><joint joint="third" coef="1"/><joint joint="right" coef=".5"/></fixed>
  </tendon>
  <equality>
    <joint joint1="right" joint2="left" polycoef=".1 -1 .5 0 0" active="{active}"/>
    <tendon tendon1="sum"/></equality>
  <sensor><jointpos name="q" joint="left"/></sensor></mujoco>
"""


def _start(model: mujoco.MjModel, position: float, velocity: float) -> InitialState:
    times = np.arange(-0.05, 0.05, 0.005)
    values = (position + velocity * times)[:, None]
    series = TimeSeries(times, values, {'q': (SignalType.MjSensor, np.array([0]))})
    return initial_state(model, [series])


@pytest.mark.parametrize('jacobian', ['dense', 'sparse'])
@pytest.mark.parametrize('angle', [-1.0, 0.4, 2.4])
def test_a_four_bar_of_which_the_crank_is_measured_starts_closed(jacobian: str, angle: float):
    model = mujoco.MjModel.from_xml_string(FOUR_BAR.format(jacobian=jacobian))
    state = _start(model, angle, 2.0)
    np.testing.assert_allclose([state.qpos[0], state.qvel[0]], [angle, 2.0])
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = state.qpos, state.qvel
    mujoco.mj_forward(model, data)
    assert data.ne == 3
    np.testing.assert_allclose(data.efc_pos[:3], 0, atol=1e-9)
    np.testing.assert_allclose(data.efc_vel[:3], 0, atol=1e-9)
    # It is put together as in qpos0: the joint of coupler and rocker has not gone below the line
    # from the crank's end to the rocker's axis.
    end = data.body('coupler').xpos
    tip = end + data.body('coupler').xmat.reshape(3, 3) @ [0.2, 0, 0]
    assert np.cross(data.body('rocker').xpos - end, tip - end)[1] < 0


def test_joints_that_a_polynomial_or_a_tendon_ties_start_where_it_says() -> None:
    model = mujoco.MjModel.from_xml_string(FINGERS.format(active='true'))
    state = _start(model, 0.6, 0.5)
    right = 0.1 - 0.6 + 0.5 * 0.6**2
    np.testing.assert_allclose(state.qpos, [0.6, right, -right / 2, 0], atol=1e-9)
    speed = (-1 + 0.6) * 0.5
    np.testing.assert_allclose(state.qvel, [0.5, speed, -speed / 2, 0], atol=1e-9)

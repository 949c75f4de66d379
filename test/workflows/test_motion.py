# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Sums of sines stay inside the ranges, start and end at home, and differ per actuator."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import find_peaks

from sysid_ros.errors import ConfigError, ModelError
from sysid_ros.workflows.excitation.drives import (
    compile_driven,
    drives,
    holding_commands,
    home_position,
    load_driven,
)
from sysid_ros.workflows.excitation.motion import approach, follow, read_waypoints, sum_of_sines

ARM = Path(__file__).resolve().parents[2] / 'config' / 'demo' / 'arm.xml'

MIXED = """<mujoco><compiler angle="radian"/><worldbody>
<body><joint name="hinge" range="-1 3" limited="true"/><geom size=".1"/>
<body><joint name="rail" type="slide" range="0 .5" limited="true"/><geom size=".1"/>
<body><joint name="free" axis="0 1 0"/><geom size=".1" pos=".1 0 0"/></body></body></body>
</worldbody><actuator>
<position name="a" joint="hinge" kp="9" ctrlrange="-.5 9" ctrllimited="true"/>
<position name="b" joint="rail" kp="9" gear="2"/>
<motor name="c" joint="free" ctrlrange="-4 4" ctrllimited="true"/>
<position name="d" joint="free" kp="1"/>
</actuator></mujoco>"""


def test_a_drive_has_the_range_that_both_actuator_and_joint_allow():
    found = drives(mujoco.MjModel.from_xml_string(MIXED))
    assert [(drive.lower, drive.upper) for drive in found] == [
        (-0.5, 3.0),
        (0.0, 1.0),
        (-4.0, 4.0),
        pytest.approx((-np.pi, np.pi)),
    ]
    assert [drive.takes_positions for drive in found] == [True, True, False, True]
    assert found[1].command(0.25) == 0.5
    assert found[1].position(0.5) == 0.25


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31 - 1),
    amplitude=st.floats(0.01, 1.0),
    max_frequency=st.floats(0.05, 20.0),
    duration=st.floats(0.5, 20.0),
)
def test_every_command_is_inside_its_range(seed: int, duration: float, **options: float):
    model = mujoco.MjModel.from_xml_string(MIXED)
    motion = sum_of_sines(model, seed=seed, duration=duration, ramp=duration / 5, **options)
    for drive, column in zip(drives(model), motion.commands.T, strict=True):
        assert np.all((column >= drive.lower) & (column <= drive.upper))


def test_the_motion_starts_and_ends_at_home_at_rest():
    model = compile_driven(load_driven(ARM), ARM)
    motion = sum_of_sines(model, rate=1000)
    home = holding_commands(model, home_position(model))
    speed = np.diff(motion.commands, axis=0) * 1000
    for end in (0, -1):
        np.testing.assert_allclose(motion.commands[end], home, atol=1e-9)
        assert np.max(np.abs(speed[end])) < 1e-4
    assert np.all(np.max(np.abs(speed), axis=0) > 0.5)


def test_actuators_share_no_frequency_and_none_is_above_the_highest():
    rate, seconds = 50, 400
    motion = sum_of_sines(
        compile_driven(load_driven(ARM), ARM),
        duration=seconds,
        ramp=0.0,
        rate=rate,
        max_frequency=1.5,
    )
    wave = motion.commands - np.mean(motion.commands, axis=0)
    spectrum = np.abs(np.fft.rfft(wave * np.hanning(len(wave))[:, None], axis=0))
    frequencies = np.fft.rfftfreq(len(wave), 1 / rate)
    loud = spectrum > 0.1 * np.max(spectrum, axis=0)
    assert np.max(frequencies[np.any(loud, axis=1)]) < 1.5 + 3 / seconds
    peaks = [frequencies[find_peaks(column, 0.1 * np.max(column))[0]] for column in spectrum.T]
    assert [len(found) for found in peaks] == [5] * 6
    apart = np.diff(np.sort(np.concatenate(peaks)))
    assert np.min(apart) > 1 / seconds


def test_an_actuator_without_range_is_refused():
    text = MIXED.replace(' ctrlrange="-4 4" ctrllimited="true"', '')
    with pytest.raises(ModelError, match="a ctrlrange for actuator 'c', found none"):
        sum_of_sines(mujoco.MjModel.from_xml_string(text))


def test_the_approach_is_smooth_slow_and_ends_where_the_motion_starts():
    motion = sum_of_sines(compile_driven(load_driven(ARM), ARM))
    start = motion.commands[0] + np.array([0.5, -0.2, 0.0, 0.1, 0.0, 0.0])
    whole = approach(motion, start, rate=100, max_speed=0.5)
    steps = len(whole.times) - len(motion.times)
    np.testing.assert_allclose(np.diff(whole.times), 0.01, atol=1e-9)
    np.testing.assert_array_equal(whole.commands[0], start)
    np.testing.assert_array_equal(whole.commands[steps:], motion.commands)
    assert approach(motion, motion.commands[0], rate=100) is motion
    speed = np.max(np.abs(np.diff(whole.commands[: steps + 1], axis=0))) * 100
    assert 0.45 < speed <= 0.5


CSV = 'time,elbow,wrist_1\n5,1.4,0\n6,2,.5\n8,2,-.5\n8.5,1.4,0\n'


def _write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_motion_passes_its_waypoints_stays_between_them_and_rests_at_both_ends(tmp_path: Path):
    model = compile_driven(load_driven(ARM), ARM)
    motion = follow(model, read_waypoints(_write(tmp_path, 'm.csv', CSV)), rate=1000)
    at = np.searchsorted(motion.times, np.array([0.0, 1.0, 3.0, 3.5]) - 1e-9)
    np.testing.assert_allclose(motion.commands[at, 2], [1.4, 2, 2, 1.4], atol=1e-12)
    np.testing.assert_allclose(motion.commands[at, 3], [0, 0.5, -0.5, 0], atol=1e-12)
    assert motion.duration == pytest.approx(3.5)
    assert np.max(motion.commands[:, 2]) <= 2.0 + 1e-12
    assert np.min(motion.commands[:, 2]) >= 1.4 - 1e-12
    speed = np.abs(np.diff(motion.commands, axis=0)) * 1000
    assert np.max(speed[[0, -1]]) < 0.02
    assert np.max(speed) > 0.5
    for column in (0, 1, 4, 5):  # not named
        np.testing.assert_array_equal(motion.commands[:, column], drives(model)[column].home)


@pytest.mark.parametrize(
    ('text', 'sentence'),
    [
        (CSV.replace('elbow', 'elbo'), "names 'elbo', .*; nearest: elbow"),
        (CSV.replace('6,2,', '6,3,'), "Expected 'elbow' between 0.1 and 2.6 .* found 3 at 6 s"),
        (CSV.replace('8,2', '6,2'), 'Expected increasing times in .* found 6 after 6'),
        (CSV.replace('8,2', '8,two'), 'Expected numbers in row 3 of .*two'),
        (CSV.replace('8,2,', '8,'), 'Expected 2 positions in row 3 of .* found 1'),
        (CSV.replace('8,2', '8,nan'), 'Expected finite numbers in row 3'),
        (CSV.replace('time', 't'), "header that starts with time in .* found 't'"),
        ('time,elbow\n0,1\n', 'at least one joint and two waypoints in .* found 1 and 1'),
        ('', "found 'nothing'"),
        (CSV.replace('wrist_1', 'elbow'), 'move the same actuator'),
    ],
)
def test_a_bad_csv_file_is_refused_with_a_sentence(tmp_path: Path, text: str, sentence: str):
    path = _write(tmp_path, 'm.csv', text)
    with pytest.raises(ConfigError, match=sentence):
        follow(compile_driven(load_driven(ARM), ARM), read_waypoints(path))
    with pytest.raises(ConfigError, match='No such file'):
        read_waypoints(tmp_path / 'none.csv')

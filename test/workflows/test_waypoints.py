# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Motions from files pass the waypoints, stay between them, and complain in one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sysid_ros.errors import ConfigError
from sysid_ros.workflows.excitation import drives, follow, read_waypoints
from sysid_ros.workflows.excitation.drives import compile_file

ARM = Path(__file__).resolve().parents[2] / 'config' / 'demo' / 'arm.xml'

CSV = 'time,elbow,wrist_1\n5,1.4,0\n6,2,.5\n8,2,-.5\n8.5,1.4,0\n'


def _write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_the_motion_passes_every_waypoint(tmp_path: Path):
    motion = follow(compile_file(ARM), read_waypoints(_write(tmp_path, 'm.csv', CSV)), rate=100)
    at = np.searchsorted(motion.times, np.array([0.0, 1.0, 3.0, 3.5]) - 1e-9)
    np.testing.assert_allclose(motion.commands[at, 2], [1.4, 2, 2, 1.4], atol=1e-12)
    np.testing.assert_allclose(motion.commands[at, 3], [0, 0.5, -0.5, 0], atol=1e-12)
    assert motion.duration == pytest.approx(3.5)


def test_the_motion_stays_between_its_waypoints_and_rests_at_both_ends(tmp_path: Path):
    motion = follow(compile_file(ARM), read_waypoints(_write(tmp_path, 'm.csv', CSV)), rate=1000)
    assert np.max(motion.commands[:, 2]) <= 2.0 + 1e-12
    assert np.min(motion.commands[:, 2]) >= 1.4 - 1e-12
    speed = np.abs(np.diff(motion.commands, axis=0)) * 1000
    assert np.max(speed[[0, -1]]) < 0.02
    assert np.max(speed) > 0.5


def test_actuators_that_are_not_named_hold_home(tmp_path: Path):
    model = compile_file(ARM)
    motion = follow(model, read_waypoints(_write(tmp_path, 'm.csv', CSV)))
    for column in (0, 1, 4, 5):
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
        follow(compile_file(ARM), read_waypoints(path))
    with pytest.raises(ConfigError, match='No such file'):
        read_waypoints(tmp_path / 'none.csv')

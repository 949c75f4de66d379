# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What parameter files predict for logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from sysid_ros.errors import LogError
from sysid_ros.servos.formats.logs import ServoLog, read_logs
from sysid_ros.servos.formats.parameter_file import write_parameters
from sysid_ros.servos.laws.servo import Servo
from sysid_ros.servos.pictures import predict_logs, read_candidates

if TYPE_CHECKING:
    from pathlib import Path

    from sysid_ros.servos.pictures import ParameterFile

M1 = {'kt': 0.37, 'R': 2.8, 'armature': 0.002, 'q_offset': 0.0}
M1 |= {'friction_base': 0.012, 'friction_viscous': 0.004}
#: As BAM's authors published them for this servo; the logs are simulated from them.
PUBLISHED_M1 = {
    'kt': 0.38670,
    'R': 4.01713,
    'armature': 0.00181417,
    'q_offset': 0.030871,
    'friction_base': 0.0128327,
    'friction_viscous': 0.00366167,
}


def _log(name: str, dt: float, count: int) -> ServoLog:
    times = np.arange(count) * dt
    goal, nothing = np.sin(6 * times), np.zeros(count)
    constants = {'kp': 400.0, 'vin': 7.5}
    return ServoLog(
        name, 'xl330', '', 0.2, 0.0, 0.1, constants, dt, 0.8 * goal, goal, np.ones(count), nothing
    )


@pytest.fixture
def candidate(tmp_path: Path) -> ParameterFile:
    """Return parameters of m1."""
    path = tmp_path / 'm1.json'
    write_parameters(path, Servo.named('xl330', 'm1'), M1)
    return read_candidates([path])[0]


def test_logs_of_several_sampling_periods_and_lengths_keep_their_places(candidate: ParameterFile):
    logs = [_log('a', 0.005, 60), _log('b', 0.01, 40), _log('c', 0.005, 90)]
    together = predict_logs([candidate], logs)
    assert together.logs == ('a', 'b', 'c')
    for place, log in enumerate(logs):
        alone = predict_logs([candidate], [log])
        assert np.array_equal(together.positions[0][place], alone.positions[0][0])
        assert together.errors[0, place] == alone.errors[0, 0]
        assert together.errors[0, place] == np.abs(alone.positions[0][0] - log.position).mean()


def test_predictions_go_on_from_the_measured_state_when_told(candidate: ParameterFile):
    log = _log('a', 0.005, 200)
    free, held = (predict_logs([candidate], [log], period).errors[0, 0] for period in (None, 0.02))
    assert held < 0.5 * free


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path):
    for folder in ('a', 'b'):
        write_parameters(tmp_path / folder / 'm1.json', Servo.named('xl330', 'm1'), M1)
    names = [item.name for item in read_candidates([tmp_path / 'a', tmp_path / 'b'])]
    assert names == [str(tmp_path / folder / 'm1.json') for folder in ('a', 'b')]
    assert [item.name for item in read_candidates([tmp_path / 'a'] * 2)] == ['m1']


def test_parameters_of_another_servo_predict_nothing(tmp_path: Path):
    servo = Servo.named('mx106', 'm1')
    values = {name: usual.initial for name, usual in servo.coefficients.items()}
    write_parameters(tmp_path / 'mx.json', servo, values)
    with pytest.raises(LogError, match='logs of the servo mx106, found xl330'):
        predict_logs(read_candidates([tmp_path / 'mx.json']), [_log('a', 0.005, 20)])


@pytest.mark.shared
def test_published_parameters_are_as_near_to_logs_made_from_them_as_their_noise(
    shared_data: Path, tmp_path: Path
):
    folder = shared_data / 'bam_xl330' / 'm1'
    if not folder.is_dir():
        pytest.skip(f'no {folder}')
    write_parameters(tmp_path / 'm1.json', Servo.named('xl330', 'm1'), PUBLISHED_M1)
    found = predict_logs(read_candidates([tmp_path / 'm1.json']), read_logs(folder))
    assert 1e3 * found.errors.mean() == pytest.approx(0.3506, abs=2e-4)

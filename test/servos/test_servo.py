# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From logs to coefficients, result and report."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from builders.recordings import M1, record
from sysid_ros.config import ServoFitConfig
from sysid_ros.errors import LogError, ParameterError, ResultError
from sysid_ros.results.result import CalibrationResult
from sysid_ros.servos.formats.logs import write_log
from sysid_ros.servos.formats.parameter_file import read_parameters, write_parameters
from sysid_ros.servos.laws.servo import Servo
from sysid_ros.servos.session.calibration import calibrate_servo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sysid_ros.servos.formats.logs import ServoLog
    from sysid_ros.servos.session.calibration import ServoCalibration

pytestmark = pytest.mark.slow


SERVO = Servo.named('xl330', 'm1')


def _write(folder: Path, logs: Sequence[ServoLog]) -> Path:
    folder.mkdir(exist_ok=True)
    for log in logs:
        write_log(folder / f'{log.name}.json', log)
    return folder


@pytest.fixture(scope='module')
def logs() -> list[ServoLog]:
    """Return four logs of 3 s."""
    return record(SERVO, M1, motions=('sin_time_square', 'lift_and_drop'), seconds=3.0)


def _request(logs: Sequence[ServoLog], folder: Path) -> ServoFitConfig:
    return ServoFitConfig(
        actuator='xl330',
        model='m1',
        logdir=_write(folder / 'logs', logs),
        output=folder / 'out' / 'servo.json',
        starts=2,
        validation_kp=200,
    )


@pytest.fixture
def request_(logs: list[ServoLog], tmp_path: Path) -> ServoFitConfig:
    """Return a request for a quick fit of the logs."""
    return _request(logs, tmp_path)


@pytest.fixture(scope='module')
def usual(logs: list[ServoLog], tmp_path_factory: pytest.TempPathFactory) -> ServoCalibration:
    """Return what a quick fit finds and writes; nobody changes it."""
    return calibrate_servo(_request(logs, tmp_path_factory.mktemp('usual')))


def test_coefficients_result_and_report_are_written(usual: ServoCalibration) -> None:
    done, output = usual, usual.parameters_path
    assert done.result.accepted
    assert output.name == 'servo.json'
    servo, values = read_parameters(output)
    assert servo == SERVO
    assert values == done.values
    assert values == pytest.approx(M1, rel=0.03)
    assert CalibrationResult.load(done.result_path).to_json() == done.result.to_json()
    assert 'friction_viscous' in done.report_path.read_text('utf-8').replace('<wbr>', '')
    assert sorted(path.name for path in output.parent.iterdir()) == [
        'servo.json',
        'servo.report.html',
        'servo.result.json',
    ]


def test_logs_of_a_gain_are_held_out(usual: ServoCalibration, logs: list[ServoLog]) -> None:
    result = usual.result
    roles = {plot.sequence: plot.role for plot in result.plots}
    assert roles == {
        log.name: 'validate' if log.constants['kp'] == 200 else 'train' for log in logs
    }
    assert result.held_out_after < 3 < result.held_out_before
    assert {file.role for file in result.provenance.files} == {'train', 'validate'}
    assert {error.unit for error in result.errors} == {'rad'}


def test_one_load_is_said_not_to_tell_load_dependence(request_: ServoFitConfig) -> None:
    result = calibrate_servo(request_.model_copy(update={'model': 'm3'})).result
    said = ' '.join(result.warnings)
    assert 'All logs have one load' in said
    assert 'load_friction_base' in said
    assert 'two masses or lengths' in said


def test_a_motor_that_is_never_off_is_said_not_to_tell_viscous_friction(
    request_: ServoFitConfig, logs: list[ServoLog], tmp_path: Path
) -> None:
    on = [dataclasses.replace(log, enabled=np.ones(len(log))) for log in logs]
    moving = [log for log in on if log.trajectory == 'sin_time_square']
    folder = _write(tmp_path / 'on', moving)
    result = calibrate_servo(request_.model_copy(update={'logdir': folder})).result
    assert any('The motor is never off' in warning for warning in result.warnings)


def test_what_is_not_identified_has_a_motion_to_record(request_: ServoFitConfig) -> None:
    result = calibrate_servo(request_.model_copy(update={'model': 'm6'})).result
    doubtful = [p for p in result.parameters if p.verdict != 'identified']
    assert doubtful
    assert all('On the bench: ' in parameter.explanation for parameter in doubtful)


def test_a_rejected_fit_leaves_coefficients_in_use_alone(
    request_: ServoFitConfig, logs: list[ServoLog], tmp_path: Path
) -> None:
    request_.output.parent.mkdir()
    write_parameters(request_.output, SERVO, M1)
    before = request_.output.read_bytes()
    rng = np.random.default_rng(0)
    noise = [dataclasses.replace(log, position=rng.normal(size=len(log))) for log in logs]
    folder = _write(tmp_path / 'noise', noise)
    done = calibrate_servo(request_.model_copy(update={'logdir': folder}))
    assert not done.result.accepted
    assert done.parameters_path is None
    assert request_.output.read_bytes() == before


def test_a_fit_goes_on_from_where_an_interrupted_one_was(request_: ServoFitConfig) -> None:
    progress = request_.output.with_suffix('.progress.json')
    progress.parent.mkdir()
    write_parameters(progress, SERVO, M1)
    resumed = request_.model_copy(update={'resume': True, 'starts': 1})
    done = calibrate_servo(resumed)
    starts = done.result.solver.starts
    assert not starts or starts[0].initial_cost < 10
    assert done.values == pytest.approx(M1, rel=0.03)
    assert not progress.exists()


@pytest.mark.parametrize(
    ('change', 'error', 'text'),
    [
        ({'model': 'm7'}, ParameterError, "no friction model 'm7'; nearest: m"),
        ({'actuator': 'xl331'}, ParameterError, "no actuator 'xl331'; nearest: xl330"),
        ({'actuator': 'mx64'}, LogError, 'xl330'),
        ({'validation_kp': 7}, LogError, '200'),
        ({'logdir': Path('nowhere')}, LogError, 'nowhere'),
    ],
)
def test_bad_requests_are_told_before_any_work(
    request_: ServoFitConfig, change: dict[str, object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        calibrate_servo(request_.model_copy(update=change))
    assert not request_.output.parent.exists()


def test_an_output_that_is_a_folder_is_refused(request_: ServoFitConfig, tmp_path: Path) -> None:
    with pytest.raises(ResultError, match='found the folder'):
        calibrate_servo(request_.model_copy(update={'output': tmp_path}))

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From logs to coefficients, result and report."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import re
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest

from builders.recordings import M1, record
from sysid_ros.config.servos import ServoFitConfig
from sysid_ros.errors import CancelledError, ConfigError, LogError, ParameterError, ResultError
from sysid_ros.fit.solver import Iteration
from sysid_ros.results.result import CalibrationResult
from sysid_ros.servos import calibration
from sysid_ros.servos.calibration import ServoCalibration, calibrate_servo, compare_laws
from sysid_ros.servos.logs import ServoLog, write_log
from sysid_ros.simulation.servo import Servo, read_parameters

pytestmark = pytest.mark.slow

SERVO = Servo.named('xl330', 'm1')
TRIALS = 30


def _write(folder: Path, logs: Sequence[ServoLog]) -> Path:
    folder.mkdir(exist_ok=True)
    for log in logs:
        write_log(folder / f'{log.name}.json', log)
    return folder


@pytest.fixture(scope='module')
def logs() -> list[ServoLog]:
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
    return _request(logs, tmp_path)


@pytest.fixture
def trials(request_: ServoFitConfig) -> ServoFitConfig:
    return request_.model_copy(update={'method': 'random', 'trials': TRIALS})


@pytest.fixture(scope='module')
def usual(logs: list[ServoLog], tmp_path_factory: pytest.TempPathFactory) -> ServoCalibration:
    """Return what a quick fit finds and writes; nobody changes it."""
    return calibrate_servo(_request(logs, tmp_path_factory.mktemp('usual')))


def test_coefficients_result_and_report_are_written(usual: ServoCalibration) -> None:
    assert usual.result.accepted
    servo, values = read_parameters(usual.parameters_path)
    assert servo == SERVO
    assert values == usual.values
    assert values == pytest.approx(M1, rel=0.03)
    assert CalibrationResult.load(usual.result_path).to_json() == usual.result.to_json()
    assert 'friction_viscous' in usual.report_path.read_text('utf-8').replace('<wbr>', '')
    names = {path.name for path in usual.parameters_path.parent.iterdir()}
    assert names == {'servo.json', 'servo.report.html', 'servo.result.json'}


def test_logs_of_a_gain_are_held_out(usual: ServoCalibration, logs: list[ServoLog]) -> None:
    result = usual.result
    roles = {plot.sequence: plot.role for plot in result.plots}
    assert roles == {
        log.name: 'validate' if log.constants['kp'] == 200 else 'train' for log in logs
    }
    assert result.held_out_after < 3 < result.held_out_before
    assert {file.role for file in result.provenance.files} == {'train', 'validate'}


def test_what_logs_lack_and_what_to_record_is_said(
    request_: ServoFitConfig, logs: list[ServoLog], tmp_path: Path
) -> None:
    moving = [log for log in logs if log.trajectory == 'sin_time_square']
    on = [dataclasses.replace(log, enabled=np.ones(len(log))) for log in moving]
    changes = {'model': 'm3', 'logdir': _write(tmp_path / 'on', on)}
    result = calibrate_servo(request_.model_copy(update=changes)).result
    said = ' '.join(result.warnings)
    assert 'All logs have about one load' in said
    assert 'The motor is never off' in said
    doubtful = [p for p in result.parameters if p.verdict != 'identified']
    assert doubtful
    assert all('On the bench: ' in parameter.explanation for parameter in doubtful)


@pytest.mark.parametrize(
    ('change', 'error', 'text'),
    [
        ({'actuator': 'xl331'}, ParameterError, 'nearest: xl330'),
        ({'actuator': 'mx64'}, LogError, 'xl330'),
        ({'validation_kp': 7}, LogError, '200'),
        ({'logdir': Path('nowhere')}, LogError, 'nowhere'),
        ({'output': Path.cwd()}, ResultError, 'found the folder'),
    ],
)
def test_bad_requests_are_told_before_any_work(
    request_: ServoFitConfig, change: dict[str, object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        calibrate_servo(request_.model_copy(update=change))
    assert not request_.output.parent.exists()


def test_laws_are_compared_on_what_they_were_not_fitted_to(
    request_: ServoFitConfig, tmp_path: Path
) -> None:
    fixed = {'R': M1['R'], 'armature': M1['armature'], 'alpha': 1.35}
    request = request_.model_copy(update={'fixed': fixed})
    found = compare_laws(request, ['m1', 'm2'], output=tmp_path / 'laws')
    assert [(law.name, law.fitted) for law in found.models] == [('m1', 4), ('m2', 6)]
    for law in found.models:
        assert law.training < 0.5e-3
        assert law.held_out < 0.7e-3
        assert read_parameters(tmp_path / 'laws' / f'{law.name}.json')[1] == law.values
    bare = compare_laws(request_.model_copy(update={'validation_kp': None}), ['m1'])
    assert np.isnan(bare.models[0].held_out)
    assert 'Nothing is held out' in bare.warnings[0]


# Trials, and what is told while a fit runs


@dataclasses.dataclass
class Listener:
    """Hears what an observer is told, and cancels at the first trial that it hears of."""

    stages: list[str] = dataclasses.field(default_factory=list)
    cancel: threading.Event = dataclasses.field(default_factory=threading.Event)

    def stage(self, text: str) -> None:
        """Keep what is told."""
        self.stages.append(text)
        if text.startswith('trial '):
            self.cancel.set()

    def iteration(self, iteration: Iteration) -> None:
        """Ignore it."""


def test_a_result_says_what_trials_found_and_what_least_squares_made_of_it(
    trials: ServoFitConfig,
) -> None:
    heard = Listener()
    done = calibrate_servo(trials, observer=heard)
    solver = done.result.solver
    assert (solver.start, solver.backend) == ('sampled', 'optuna-random, mujoco')
    assert f'the best of {TRIALS} trials of random' in solver.start_sentence
    tried, refined = map(float, re.findall(r'([\d.]+) mrad', solver.start_sentence))
    assert refined < 0.1 * tried
    assert done.result.provenance.versions['optuna'] == importlib.metadata.version('optuna')
    [name] = re.findall(r'--load-study (\S+)', ' '.join(heard.stages))
    more = trials.model_copy(update={'load_study': name, 'trials': TRIALS + 10})
    again = calibrate_servo(more)
    assert f'the best of {TRIALS + 10} trials' in again.result.solver.start_sentence


def test_the_best_values_so_far_are_in_the_output_while_trials_go_on(
    trials: ServoFitConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, '_PERIOD', 0.0)
    heard = Listener()
    endless = trials.model_copy(update={'trials': 1000})
    with pytest.raises(CancelledError):
        calibrate_servo(endless, observer=heard, cancel=heard.cancel)
    assert 'best mean absolute error' in heard.stages[-1]
    servo, values = read_parameters(trials.output)
    assert servo == SERVO
    assert values['kt'] != SERVO.coefficients['kt'].initial


def test_wandb_is_told_under_the_names_of_bam(
    trials: ServoFitConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = MagicMock()
    monkeypatch.setattr(calibration, '_PERIOD', 0.0)
    told = trials.model_copy(update={'wandb': True, 'starts': 1})
    monkeypatch.setitem(sys.modules, 'wandb', None)
    with pytest.raises(ConfigError, match=r"pip install 'sysid_ros\[wandb\]'"):
        calibrate_servo(told)
    assert not trials.output.parent.exists()
    monkeypatch.setitem(sys.modules, 'wandb', board)
    done = calibrate_servo(told)
    began, run = board.init.call_args.kwargs, board.init.return_value
    assert began['project'] == 'xl330_identification'
    assert set(began['config']) == {'logdir', 'model', 'hostname'}
    run.finish.assert_called_once()
    logged = [call.args[0] for call in run.log.call_args_list]
    names = {'optim/trial_number', 'optim/best_value', 'optim/val_best_value'}
    names |= {f'params/{name}' for name in M1}
    assert all(set(shown) == names for shown in logged)
    assert len(logged) > 1
    last = logged[-1]
    assert {name: last[f'params/{name}'] for name in M1} == done.values
    held_out = [error for name, error in done.errors.items() if name.endswith('kp200')]
    assert last['optim/val_best_value'] == pytest.approx(sum(held_out) / len(held_out))

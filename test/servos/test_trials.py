# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fits of servos by trials, and their studies in Optuna's storages."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import optuna
import pytest

from builders.recordings import M1, record
from sysid_ros.errors import CancelledError, FitError, ParameterError, ResultError
from sysid_ros.servos.logs import ServoLog
from sysid_ros.servos.pendulum import errors_by_log, mean_error
from sysid_ros.servos.trials import BestTrial, Method, open_study, sample_servo
from sysid_ros.simulation.servo import Servo

SERVO = Servo.named('xl330', 'm1')


@pytest.fixture(scope='module')
def logs() -> list[ServoLog]:
    return record(SERVO, M1, motions=('sin_time_square',), seconds=0.5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / 'out' / 'study.journal'


@pytest.mark.slow
@pytest.mark.parametrize(('method', 'workers'), [('cmaes', 1), ('random', 1), ('nsgaii', 2)])
def test_trials_lower_the_error_that_bam_minimises(
    logs: list[ServoLog], path: Path, method: Method, workers: int
) -> None:
    seen: list[BestTrial] = []
    study = open_study(path, None, method, SERVO)
    options = {'trials': 60, 'workers': workers, 'fixed': {'kt': 0.387}, 'reset_period': 0.1}
    found = sample_servo(SERVO, logs, study, observe=seen.append, **options)
    assert len(seen) == found.trials == found.new == 60
    errors = [trial.value for trial in study.trials]
    assert found.error == min(errors) < np.median(errors)
    assert found.error == mean_error(errors_by_log(SERVO, found.values, logs, 0.1))
    assert found.values['kt'] == 0.387
    for name, (_, low, high) in SERVO.coefficients.items():
        assert low <= found.values[name] <= high


def test_sampling_ends_when_it_is_cancelled_or_its_time_is_up(
    logs: list[ServoLog], path: Path
) -> None:
    study = open_study(path, None, 'random', SERVO)
    assert sample_servo(SERVO, logs, study, seconds=0.1).trials < 5000
    cancel = threading.Event()
    with pytest.raises(CancelledError):
        sample_servo(SERVO, logs, study, cancel=cancel, observe=lambda _: cancel.set())


@pytest.mark.parametrize(
    ('fixed', 'error', 'said'),
    [(M1, FitError, 'every coefficient is fixed'), ({'kT': 1.0}, ParameterError, 'nearest: kt')],
)
def test_what_cannot_be_sampled_costs_one_sentence(
    logs: list[ServoLog], path: Path, fixed: dict[str, float], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        sample_servo(SERVO, logs, open_study(path, None, 'cmaes', SERVO), fixed=fixed)


def test_a_study_goes_on_by_its_name_or_its_file(logs: list[ServoLog], path: Path) -> None:
    study = open_study(path, None, 'cmaes', SERVO)
    sample_servo(SERVO, logs, study, trials=5)
    for count, new, load in ((8, 3, study.study_name), (12, 4, str(path))):
        again = open_study(path, load, 'random', SERVO)
        found = sample_servo(SERVO, logs, again, trials=count)
        assert (found.trials, found.new) == (count, new)


def test_a_study_of_bam_in_sqlite_goes_on(logs: list[ServoLog], tmp_path: Path) -> None:
    file = tmp_path / 'study.db'
    theirs = optuna.create_study(storage=f'sqlite:///{file}', study_name='study_20260101')
    space = {
        n: optuna.distributions.FloatDistribution(*c[1:]) for n, c in SERVO.coefficients.items()
    }
    theirs.add_trial(optuna.trial.create_trial(params=M1, distributions=space, value=0.001))
    study = open_study(tmp_path / 'study.journal', str(file), 'cmaes', SERVO)
    found = sample_servo(SERVO, logs, study, trials=3)
    assert (found.trials, found.new) == (3, 2)
    assert found.values == M1


def test_a_study_that_cannot_be_loaded_costs_one_sentence(path: Path) -> None:
    with pytest.raises(ResultError, match="no study 'x'"):
        open_study(path, 'x', 'cmaes', SERVO)
    assert not path.parent.exists()
    name = open_study(path, None, 'cmaes', SERVO).study_name
    with pytest.raises(ResultError, match=f'nearest: {name}'):
        open_study(path, name[:-1], 'cmaes', SERVO)
    with pytest.raises(ResultError, match='about xl330 m2, found xl330 m1'):
        open_study(path, name, 'cmaes', Servo.named('xl330', 'm2'))
    path.write_text('no study\nno study\n')
    with pytest.raises(ResultError, match='Cannot read studies'):
        open_study(path, name, 'cmaes', SERVO)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fits of servos by trials, and their studies in files."""

from __future__ import annotations

import dataclasses
import multiprocessing
import sys
import threading
from typing import TYPE_CHECKING

import numpy as np
import optuna
import pytest

from builders.recordings import M1, record
from sysid_ros.errors import CancelledError, ConfigError, FitError, ParameterError, ResultError
from sysid_ros.servos.bench import trials
from sysid_ros.servos.bench.pendulum import errors_by_log
from sysid_ros.servos.bench.processes import FitProcesses
from sysid_ros.servos.bench.trials import (
    METHODS,
    BestTrial,
    TrialSettings,
    open_study,
    sample_servo,
    subject,
)
from sysid_ros.servos.laws.servo import Servo

if TYPE_CHECKING:
    from pathlib import Path

    from sysid_ros.servos.bench.trials import Method
    from sysid_ros.servos.formats.logs import ServoLog

SERVO = Servo.named('xl330', 'm1')
#: Trials that CMA-ES asks for at once with six coefficients.
BATCH = 18
ABOUT = {'servo': 'xl330 m1'}


@pytest.fixture(scope='module')
def logs() -> list[ServoLog]:
    """Return two logs of 1.5 s."""
    return record(SERVO, M1, motions=('sin_time_square',), seconds=1.5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file that does not exist yet, nor does its folder."""
    return tmp_path / 'out' / 'study.journal'


def _study(path: Path, logs: list[ServoLog], method: Method = 'cmaes') -> optuna.Study:
    study = open_study(path, None, method, subject(SERVO, logs, {}))
    assert isinstance(study, optuna.Study)
    return study


def _written(path: Path, name: str) -> list[float]:
    """Return what the trials in a file led to."""
    backend = optuna.storages.journal.JournalFileBackend(str(path))
    storage = optuna.storages.JournalStorage(backend)
    trials = optuna.load_study(study_name=name, storage=storage).trials
    return [trial.value for trial in trials if trial.value is not None]


@pytest.mark.slow
@pytest.mark.parametrize('method', METHODS)
def test_trials_lower_the_error(logs: list[ServoLog], method: Method) -> None:
    seen: list[BestTrial] = []
    settings = TrialSettings(method=method, trials=300)
    found = sample_servo(SERVO, logs, settings=settings, observe=seen.append)
    errors = [one.error for one in seen]
    assert found.error < errors[0]
    assert errors == sorted(errors, reverse=True)
    assert (found.trials, found.new) == (300, 300)


def test_the_error_is_the_mean_over_logs_that_bam_minimises(logs: list[ServoLog]) -> None:
    found = sample_servo(SERVO, logs, settings=TrialSettings(trials=2 * BATCH))
    errors = errors_by_log(SERVO, found.values, logs)
    assert found.error == pytest.approx(sum(errors.values()) / len(errors))
    assert list(found.values) == list(SERVO.coefficients)
    for name, (_, low, high) in SERVO.coefficients.items():
        assert low <= found.values[name] <= high


@pytest.mark.slow
def test_the_same_seed_gives_the_same_values_and_another_seed_others(logs: list[ServoLog]) -> None:
    one, same, other = (
        sample_servo(SERVO, logs, settings=TrialSettings(trials=3 * BATCH, seed=seed)).values
        for seed in (1, 1, 2)
    )
    assert one == same
    assert one != other


def test_predictions_may_go_on_from_measured_states(logs: list[ServoLog]) -> None:
    settings = TrialSettings(trials=BATCH, reset_period=0.1)
    found = sample_servo(SERVO, logs, settings=settings)
    errors = errors_by_log(SERVO, found.values, logs, 0.1)
    assert found.error == pytest.approx(sum(errors.values()) / len(errors))


def test_what_is_fixed_stays(logs: list[ServoLog]) -> None:
    settings = TrialSettings(trials=BATCH, fixed={'kt': 0.387, 'friction_base': 0.0128})
    values = sample_servo(SERVO, logs, settings=settings).values
    assert (values['kt'], values['friction_base']) == (0.387, 0.0128)


@pytest.mark.parametrize(
    ('settings', 'error', 'said'),
    [
        (TrialSettings(fixed=M1), FitError, 'every coefficient is fixed'),
        (TrialSettings(fixed={'kT': 1.0}), ParameterError, 'nearest: kt'),
    ],
)
def test_what_cannot_be_sampled_costs_one_sentence(
    logs: list[ServoLog], settings: TrialSettings, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        sample_servo(SERVO, logs, settings=settings)


def test_sampling_ends_when_it_is_cancelled(logs: list[ServoLog]) -> None:
    cancel = threading.Event()
    with pytest.raises(CancelledError):
        sample_servo(SERVO, logs, cancel=cancel, observe=lambda _: cancel.set())


def test_sampling_ends_when_its_time_is_up_with_what_it_has(logs: list[ServoLog]) -> None:
    found = sample_servo(SERVO, logs, settings=TrialSettings(seconds=0.0))
    assert (found.trials, found.new) == (BATCH, BATCH)


@pytest.mark.slow
def test_a_study_goes_on_where_it_was(logs: list[ServoLog], path: Path) -> None:
    study = _study(path, logs)
    settings = TrialSettings(trials=6 * BATCH, study=study)
    first = sample_servo(SERVO, logs, settings=settings)
    again = open_study(path, study.study_name, 'cmaes', subject(SERVO, logs, {}))
    settings = dataclasses.replace(settings, trials=16 * BATCH, study=again)
    second = sample_servo(SERVO, logs, settings=settings)
    assert (first.trials, first.new) == (6 * BATCH, 6 * BATCH)
    assert (second.trials, second.new) == (16 * BATCH, 10 * BATCH)
    values = _written(path, study.study_name)
    assert len(values) == 16 * BATCH
    # The population has not been spread over the bounds anew.
    assert np.median(values[6 * BATCH : 7 * BATCH]) < np.median(values[2 * BATCH : 3 * BATCH])
    assert second.error <= first.error == min(values[: 6 * BATCH])
    third = sample_servo(SERVO, logs, settings=settings)
    assert (third.values, third.trials, third.new) == (second.values, 16 * BATCH, 0)


@pytest.mark.slow
@pytest.mark.parametrize('method', METHODS)
def test_trials_of_a_study_that_goes_on_are_new_ones(
    logs: list[ServoLog], path: Path, method: Method
) -> None:
    study = _study(path, logs, method)
    for count in (40, 80):
        sample_servo(SERVO, logs, settings=TrialSettings(method, count, study=study))
    values = _written(path, study.study_name)
    assert len(set(values)) == len(values) == 80


@pytest.mark.slow
def test_a_file_changes_nothing_that_is_found(logs: list[ServoLog], path: Path) -> None:
    settings = TrialSettings(trials=4 * BATCH)
    alone = sample_servo(SERVO, logs, settings=settings)
    settings = dataclasses.replace(settings, study=_study(path, logs))
    assert sample_servo(SERVO, logs, settings=settings).values == alone.values


@pytest.mark.slow
def test_two_workers_find_what_one_finds_with_their_population_and_keep_all_trials(
    logs: list[ServoLog], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = _study(path, logs)
    settings = TrialSettings(trials=2 * BATCH + 5, workers=2, study=study)
    found = sample_servo(SERVO, logs, settings=settings)
    assert found.trials == found.new == 2 * BATCH + 5
    values = _written(path, study.study_name)
    assert len(values) == 2 * BATCH + 5
    assert min(values) == found.error
    monkeypatch.setattr(trials, 'FitProcesses', lambda _: FitProcesses(1))
    alone = sample_servo(SERVO, logs, settings=dataclasses.replace(settings, study=None))
    assert alone.values == found.values


@pytest.mark.slow
def test_a_worker_that_is_killed_ends_the_fit_with_a_study_to_go_on_with(
    logs: list[ServoLog], path: Path
) -> None:
    def kill(_: BestTrial) -> None:
        for process in multiprocessing.active_children():
            process.kill()

    study = _study(path, logs)
    settings = TrialSettings(trials=8 * BATCH, workers=2, study=study)
    with pytest.raises(FitError, match='ended unexpectedly'):
        sample_servo(SERVO, logs, settings=settings, observe=kill)
    assert len(_written(path, study.study_name)) == 2 * BATCH
    settings = dataclasses.replace(settings, workers=1)
    assert sample_servo(SERVO, logs, settings=settings).new == 6 * BATCH


def test_what_is_no_number_is_worse_than_all_else(
    logs: list[ServoLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    def errors(*_: object) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return np.array([[np.nan], [5.0], [np.inf]])

    monkeypatch.setattr(trials, 'mean_absolute_errors', errors)
    found = sample_servo(SERVO, logs, settings=TrialSettings('random', 3))
    assert (found.error, found.trials) == (5.0, 3)


def test_studies_of_one_second_have_names_of_their_own(path: Path) -> None:
    names = [open_study(path, None, 'cmaes', ABOUT).study_name for _ in range(3)]
    assert len(set(names)) == 3
    for name in names:
        assert open_study(path, name, 'random', ABOUT).study_name == name


def test_an_unknown_study_is_told_with_those_that_there_are(path: Path) -> None:
    name = open_study(path, None, 'cmaes', ABOUT).study_name
    before = path.read_bytes()
    with pytest.raises(ResultError, match=rf"no study 'mine' in .*; available: {name}"):
        open_study(path, 'mine', 'cmaes', ABOUT)
    assert path.read_bytes() == before


def test_where_there_is_no_file_none_is_made(path: Path) -> None:
    with pytest.raises(ResultError, match=r"no study 'mine' in .*; there are none"):
        open_study(path, 'mine', 'cmaes', ABOUT)
    assert not path.parent.exists()


def test_a_study_of_something_else_is_refused(path: Path) -> None:
    name = open_study(path, None, 'cmaes', ABOUT).study_name
    with pytest.raises(ResultError, match='about the servo xl330 m6, found xl330 m1'):
        open_study(path, name, 'cmaes', {'servo': 'xl330 m6'})


@pytest.mark.parametrize(
    'content',
    [b'kt,R\n1,2\n3,4\n', b'\x89PNG', b'{"op_code":0,"na\n{"op_code":2}\n', b'{"op_code":0,"na'],
)
def test_a_file_of_something_else_or_with_half_a_line_is_refused(
    path: Path, content: bytes
) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(ResultError, match='Cannot read studies from'):
        open_study(path, None, 'cmaes', ABOUT)
    assert path.read_bytes() == content


def test_a_file_that_cannot_be_made_costs_one_sentence(tmp_path: Path) -> None:
    (tmp_path / 'file').write_text('')
    with pytest.raises(ResultError, match='Cannot write'):
        open_study(tmp_path / 'file' / 'study.journal', None, 'cmaes', ABOUT)


@pytest.mark.parametrize('package', ['optuna', 'cmaes'])
def test_a_missing_package_is_told_with_the_line_that_installs_it(
    path: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ConfigError, match=rf"for the method random.* no {package}; .*'sysid_ros\[servo\]'"
    ):
        open_study(path, None, 'random', ABOUT)
    assert not path.parent.exists()


def test_only_equal_problems_have_equal_subjects(logs: list[ServoLog]) -> None:
    usual = subject(SERVO, logs, {})
    assert subject(Servo.named('xl330', 'm1'), logs, {}) == usual
    moved = [dataclasses.replace(logs[0], position=logs[0].position + 1e-9), *logs[1:]]
    changed = (
        subject(Servo.named('xl330', 'm2'), logs, {}),
        subject(SERVO, moved, {}),
        subject(SERVO, logs, {'kt': 0.4}),
        subject(SERVO, logs, {}, 0.1),
    )
    assert all(other != usual for other in changed)

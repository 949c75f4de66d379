# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fits of servos by trials."""

from __future__ import annotations

import dataclasses
import multiprocessing
import threading
import time
from typing import TYPE_CHECKING

import numpy as np
import optuna
import pytest

from builders.recordings import M1, record
from sysid_ros.errors import CancelledError, FitError, ParameterError
from sysid_ros.servos.bench.samplers import Sampled, SamplerSettings, sample_servo, subject
from sysid_ros.servos.bench.score import errors_by_log
from sysid_ros.servos.bench.study import METHODS, StudyFile, loaded_study, new_study
from sysid_ros.servos.laws.servo import Servo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sysid_ros.servos.bench.study import Method
    from sysid_ros.servos.formats.log import Log

SERVO = Servo.named('xl330', 'm1')
#: Trials that CMA-ES asks for at once with six coefficients.
BATCH = 18
#: Longest wait for another process, s. Reached only when a test fails.
TIMEOUT = 60.0


@pytest.fixture(scope='module')
def logs() -> list[Log]:
    """Return two logs of 1.5 s."""
    return record(SERVO, M1, motions=('sin_time_square',), seconds=1.5)


def _study(folder: Path, logs: list[Log]) -> StudyFile:
    return new_study(folder / 'study.journal', 'cmaes', subject(SERVO, logs, {}))


def _values(study: StudyFile) -> list[float]:
    """Return what the trials in a file led to."""
    return [trial.value for trial in _loaded(study).trials if trial.value is not None]


def _loaded(study: StudyFile) -> optuna.Study:
    backend = optuna.storages.journal.JournalFileBackend(str(study.path))
    storage = optuna.storages.JournalStorage(backend)
    return optuna.load_study(study_name=study.name, storage=storage)


@pytest.mark.slow
@pytest.mark.parametrize('method', METHODS)
def test_trials_lower_the_error(logs: list[Log], method: Method) -> None:
    seen: list[Sampled] = []
    settings = SamplerSettings(method=method, trials=300)
    found = sample_servo(SERVO, logs, settings=settings, observe=seen.append)
    errors = [one.error for one in seen]
    assert found.error < errors[0]
    assert errors == sorted(errors, reverse=True)
    assert (found.trials, found.new) == (300, 300)


def test_the_error_is_the_mean_over_logs_that_bam_minimises(logs: list[Log]) -> None:
    found = sample_servo(SERVO, logs, settings=SamplerSettings(trials=2 * BATCH))
    errors = errors_by_log(SERVO, found.values, logs)
    assert found.error == pytest.approx(sum(errors.values()) / len(errors))
    assert list(found.values) == list(SERVO.coefficients)
    for name, (_, low, high) in SERVO.coefficients.items():
        assert low <= found.values[name] <= high


@pytest.mark.slow
def test_the_same_seed_gives_the_same_values_and_another_seed_others(logs: list[Log]) -> None:
    one, same, other = (
        sample_servo(SERVO, logs, settings=SamplerSettings(trials=3 * BATCH, seed=seed)).values
        for seed in (1, 1, 2)
    )
    assert one == same
    assert one != other


def test_predictions_may_go_on_from_measured_states(logs: list[Log]) -> None:
    settings = SamplerSettings(trials=BATCH, reset_period=0.1)
    found = sample_servo(SERVO, logs, settings=settings)
    errors = errors_by_log(SERVO, found.values, logs, 0.1)
    assert found.error == pytest.approx(sum(errors.values()) / len(errors))


def test_what_is_fixed_stays(logs: list[Log]) -> None:
    settings = SamplerSettings(trials=BATCH, fixed={'kt': 0.387, 'friction_base': 0.0128})
    values = sample_servo(SERVO, logs, settings=settings).values
    assert (values['kt'], values['friction_base']) == (0.387, 0.0128)


@pytest.mark.parametrize(
    ('settings', 'error', 'said'),
    [
        (SamplerSettings(fixed=M1), FitError, 'every coefficient is fixed'),
        (SamplerSettings(fixed={'kT': 1.0}), ParameterError, 'nearest: kt'),
        (SamplerSettings(workers=2), FitError, 'a file for the trials of 2 workers'),
    ],
)
def test_what_cannot_be_sampled_costs_one_sentence(
    logs: list[Log], settings: SamplerSettings, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        sample_servo(SERVO, logs, settings=settings)


def test_sampling_ends_when_it_is_cancelled(logs: list[Log]) -> None:
    cancel = threading.Event()
    with pytest.raises(CancelledError):
        sample_servo(SERVO, logs, cancel=cancel, observe=lambda _: cancel.set())


def test_sampling_ends_when_its_time_is_up_with_what_it_has(logs: list[Log]) -> None:
    found = sample_servo(SERVO, logs, settings=SamplerSettings(seconds=0.0))
    assert (found.trials, found.new) == (BATCH, BATCH)


@pytest.mark.slow
def test_a_study_goes_on_where_it_was(logs: list[Log], tmp_path: Path) -> None:
    study = _study(tmp_path, logs)
    settings = SamplerSettings(trials=6 * BATCH, study=study)
    first = sample_servo(SERVO, logs, settings=settings)
    again = loaded_study(study.path, study.name, 'cmaes', subject(SERVO, logs, {}))
    settings = dataclasses.replace(settings, trials=16 * BATCH, study=again)
    second = sample_servo(SERVO, logs, settings=settings)
    assert (first.trials, first.new) == (6 * BATCH, 6 * BATCH)
    assert (second.trials, second.new) == (16 * BATCH, 10 * BATCH)
    values = _values(study)
    assert len(values) == 16 * BATCH
    # The population has not been spread over the bounds anew.
    assert np.median(values[6 * BATCH : 7 * BATCH]) < np.median(values[2 * BATCH : 3 * BATCH])
    assert second.error <= first.error
    third = sample_servo(SERVO, logs, settings=settings)
    assert (third.values, third.trials, third.new) == (second.values, 16 * BATCH, 0)


@pytest.mark.slow
def test_a_file_changes_nothing_that_one_process_finds(logs: list[Log], tmp_path: Path) -> None:
    settings = SamplerSettings(trials=4 * BATCH)
    alone = sample_servo(SERVO, logs, settings=settings)
    settings = dataclasses.replace(settings, study=_study(tmp_path, logs))
    assert sample_servo(SERVO, logs, settings=settings).values == alone.values


def _until_others_tried(study: StudyFile) -> Iterator[None]:
    """Wait once until a second process has written trials."""
    deadline = time.monotonic() + TIMEOUT
    while len({trial.user_attrs['process'] for trial in _loaded(study).trials}) == 1:
        assert time.monotonic() < deadline, 'no other process has tried anything'
        time.sleep(0.05)
    while True:
        yield


@pytest.mark.slow
def test_two_workers_share_a_study(logs: list[Log], tmp_path: Path) -> None:
    study = _study(tmp_path, logs)
    others = _until_others_tried(study)
    settings = SamplerSettings(trials=10 * BATCH + 5, workers=2, study=study)
    found = sample_servo(SERVO, logs, settings=settings, observe=lambda _: next(others))
    trials = _loaded(study).trials
    assert len(trials) == found.trials == found.new == 10 * BATCH + 5
    assert len({trial.user_attrs['process'] for trial in trials}) == 2
    assert found.error == min(_values(study))


def test_what_a_killed_worker_left_is_tried_by_the_first(logs: list[Log], tmp_path: Path) -> None:
    def kill(_: Sampled) -> None:
        for process in multiprocessing.active_children():
            process.kill()

    study = _study(tmp_path, logs)
    settings = SamplerSettings(trials=4 * BATCH, workers=2, study=study)
    found = sample_servo(SERVO, logs, settings=settings, observe=kill)
    assert len(_values(study)) == found.trials == 4 * BATCH


def test_only_equal_problems_have_equal_subjects(logs: list[Log]) -> None:
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

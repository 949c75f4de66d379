# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fits by trials, then by least squares."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import re
import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from builders.recordings import M1, record
from sysid_ros.config import ServoFitConfig
from sysid_ros.errors import CancelledError, ConfigError
from sysid_ros.servos.formats.logs import write_log
from sysid_ros.servos.formats.parameter_file import read_parameters
from sysid_ros.servos.laws.servo import Servo
from sysid_ros.servos.session import calibration as session
from sysid_ros.servos.session.calibration import ServoCalibration, calibrate_servo

if TYPE_CHECKING:
    from pathlib import Path

    from sysid_ros.estimation.solver.problem import Iteration

pytestmark = pytest.mark.slow


SERVO = Servo.named('xl330', 'm1')
TRIALS = 60


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


class Board(ModuleType):
    """Stands for wandb."""

    def __init__(self) -> None:
        super().__init__('wandb')
        self.began: dict[str, Any] = {}
        self.logged: list[dict[str, Any]] = []
        self.ended = 0

    def init(self, **told: Any) -> Board:
        """Begin a run, which is the module itself."""
        self.began = told
        return self

    def log(self, shown: dict[str, Any]) -> None:
        """Keep what is shown."""
        self.logged.append(shown)

    def finish(self) -> None:
        """Count the ends."""
        self.ended += 1


@pytest.fixture
def request_(tmp_path: Path) -> ServoFitConfig:
    """Return a request for a few trials on four logs of 1.5 s, two of which are held out."""
    for log in record(SERVO, M1, motions=('sin_time_square', 'lift_and_drop'), seconds=1.5):
        (tmp_path / 'logs').mkdir(exist_ok=True)
        write_log(tmp_path / 'logs' / f'{log.name}.json', log)
    return ServoFitConfig(
        actuator='xl330',
        model='m1',
        logdir=tmp_path / 'logs',
        output=tmp_path / 'servo.json',
        method='random',
        trials=TRIALS,
        validation_kp=200,
    )


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Board:
    """Return what is imported as wandb."""
    found = Board()
    monkeypatch.setitem(sys.modules, 'wandb', found)
    return found


def _errors(done: ServoCalibration) -> tuple[float, float]:
    """Return the errors of the best trial and of what least squares made of it, mrad."""
    found = re.findall(r'([\d.]+) mrad', done.result.solver.start_sentence)
    return float(found[0]), float(found[1])


def test_a_result_says_what_trials_found_and_what_least_squares_made_of_it(
    request_: ServoFitConfig,
) -> None:
    done = calibrate_servo(request_)
    solver = done.result.solver
    assert (solver.start, solver.backend) == ('sampled', 'optuna-random, mujoco')
    assert f'the best of {TRIALS} trials of random' in solver.start_sentence
    tried, refined = _errors(done)
    assert refined < 0.1 * tried
    of_training = [error for name, error in done.errors.items() if name.endswith('kp400')]
    assert refined == pytest.approx(1e3 * sum(of_training) / len(of_training), rel=1e-3)
    assert solver.rollouts > TRIALS * len(of_training)
    assert done.result.provenance.versions['optuna'] == importlib.metadata.version('optuna')
    assert solver.start_sentence in done.report_path.read_text('utf-8')


def test_trials_go_on_in_the_study_that_an_earlier_fit_left(request_: ServoFitConfig) -> None:
    heard = Listener()
    calibrate_servo(request_, observer=heard)
    [name] = re.findall(r'--load-study (\S+)', ' '.join(heard.stages))
    more = request_.model_copy(update={'load_study': name, 'trials': TRIALS + 10})
    done = calibrate_servo(more)
    assert f'the best of {TRIALS + 10} trials' in done.result.solver.start_sentence


def test_the_best_values_so_far_are_written_while_trials_go_on(
    request_: ServoFitConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, '_PERIOD', 0.0)
    heard = Listener()
    with pytest.raises(CancelledError):
        calibrate_servo(
            request_.model_copy(update={'trials': 1000}), observer=heard, cancel=heard.cancel
        )
    assert 'best mean absolute error' in heard.stages[-1]
    servo, values = read_parameters(request_.output.with_suffix('.progress.json'))
    assert servo == SERVO
    assert values['kt'] != SERVO.coefficients['kt'].initial
    assert not request_.output.exists()


@pytest.mark.parametrize('method', ['random', 'least-squares'])
def test_wandb_is_told_under_the_names_of_bam(
    request_: ServoFitConfig, board: Board, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(session, '_PERIOD', 0.0)
    changes = {'wandb': True, 'method': method, 'starts': 1}
    done = calibrate_servo(request_.model_copy(update=changes))
    assert board.began['project'] == 'xl330_identification'
    assert set(board.began['config']) == {'logdir', 'model', 'hostname'}
    assert board.ended == 1
    names = ['optim/trial_number', 'optim/best_value', *(f'params/{name}' for name in M1)]
    assert all(list(shown) == [*names, 'optim/val_best_value'] for shown in board.logged)
    assert len(board.logged) > 1
    last = board.logged[-1]
    assert {name: last[f'params/{name}'] for name in M1} == done.values
    held_out = [error for name, error in done.errors.items() if name.endswith('kp200')]
    assert last['optim/val_best_value'] == pytest.approx(sum(held_out) / len(held_out))


def test_a_run_of_wandb_ends_with_a_fit_that_fails(request_: ServoFitConfig, board: Board) -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(CancelledError):
        calibrate_servo(request_.model_copy(update={'wandb': True}), cancel=cancel)
    assert board.ended == 1


def test_wandb_that_is_missing_is_told_before_any_work(
    request_: ServoFitConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, 'wandb', None)
    with pytest.raises(ConfigError, match=r"pip install 'sysid_ros\[wandb\]'"):
        calibrate_servo(request_.model_copy(update={'wandb': True}))
    assert [path.name for path in request_.output.parent.iterdir()] == ['logs']

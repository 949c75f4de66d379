# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Trials, and studies in files."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sysid_ros.errors import ConfigError, ResultError
from sysid_ros.servos.bench.study import METHODS, StudyFile, loaded_study, new_study
from sysid_ros.servos.bench.trials import Trials
from sysid_ros.servos.laws.coefficients import Coefficient

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from sysid_ros.servos.bench.study import Method

SPACE = {'one': Coefficient(0.5, 0.0, 1.0), 'two': Coefficient(0.0, -2.0, 2.0)}
ABOUT = {'servo': 'xl330 m1'}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file that does not exist yet, nor does its folder."""
    return tmp_path / 'out' / 'study.journal'


def _errors(values: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = ((values - 0.3) ** 2).sum(axis=1)
    return found


def _tried(trials: Trials, count: int) -> Trials:
    asked, values = trials.ask(count)
    trials.tell(asked, _errors(values))
    return trials


def _open(file: StudyFile, process: int = 0, method: Method = 'cmaes') -> Trials:
    return Trials(SPACE, method, seed=0, process=process, processes=2, file=file)


def test_studies_of_one_second_have_names_of_their_own(path: Path) -> None:
    studies = [new_study(path, 'cmaes', ABOUT) for _ in range(3)]
    assert len({study.name for study in studies}) == 3
    for study in studies:
        assert loaded_study(path, study.name, 'random', ABOUT) == study


def test_processes_see_what_others_tried(path: Path) -> None:
    file = new_study(path, 'cmaes', ABOUT)
    one, other = _open(file, 0), _open(file, 1)
    _tried(one, 7)
    _tried(other, 5)
    assert (one.count, other.count) == (7, 5)
    one.take()
    other.take()
    one.take()
    assert (one.count, other.count) == (12, 12)
    assert one.best() == other.best() == _open(file, 2).best()


@pytest.mark.parametrize('method', METHODS)
def test_trials_of_a_loaded_study_are_new_ones(path: Path, method: Method) -> None:
    file = new_study(path, method, ABOUT)
    first, second = _open(file, method=method).ask(3)[1], _open(file, method=method).ask(3)[1]
    assert np.array_equal(first, second)
    _tried(_open(file, method=method), 3)
    assert not np.isclose(_open(file, method=method).ask(3)[1], first).any()


def test_what_is_no_number_is_worse_than_all_else() -> None:
    trials = Trials(SPACE, 'cmaes', seed=0)
    asked, values = trials.ask(3)
    trials.tell(asked, np.array([np.nan, 5.0, np.inf]))
    assert trials.count == 3
    assert trials.best() == (dict(zip(SPACE, values[1].tolist(), strict=True)), 5.0)


def test_an_unknown_study_is_told_with_those_that_there_are(path: Path) -> None:
    name = new_study(path, 'cmaes', ABOUT).name
    before = path.read_bytes()
    with pytest.raises(ResultError, match=rf"no study 'mine' in .*; available: {name}"):
        loaded_study(path, 'mine', 'cmaes', ABOUT)
    assert path.read_bytes() == before


def test_where_there_is_no_file_none_is_made(path: Path) -> None:
    with pytest.raises(ResultError, match=r"no study 'mine' in .*; there are none"):
        loaded_study(path, 'mine', 'cmaes', ABOUT)
    assert not path.parent.exists()


def test_a_study_of_something_else_is_refused(path: Path) -> None:
    name = new_study(path, 'cmaes', ABOUT).name
    with pytest.raises(ResultError, match='about the servo xl330 m6, found xl330 m1'):
        loaded_study(path, name, 'cmaes', {'servo': 'xl330 m6'})


def test_a_line_that_a_killed_process_left_half_written_is_cut_off(path: Path) -> None:
    file = new_study(path, 'cmaes', ABOUT)
    _tried(_open(file), 5)
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines()[-1][:60])
    again = _open(loaded_study(path, file.name, 'cmaes', ABOUT))
    assert path.read_bytes() == whole
    assert again.count == 5
    assert _open(file).count == 5
    _tried(again, 2)
    assert _open(file).count == 7


@pytest.mark.parametrize(
    'content', [b'kt,R\n1,2', b'\x89PNG', b'{"op_code":0,"na\n{"op_code":2}\n']
)
def test_a_file_of_something_else_is_refused(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(ResultError, match='Cannot read studies from'):
        new_study(path, 'cmaes', ABOUT)
    assert path.read_bytes().startswith(content[:20])


def test_a_file_that_cannot_be_made_costs_one_sentence(tmp_path: Path) -> None:
    (tmp_path / 'file').write_text('')
    with pytest.raises(ResultError, match='Cannot write'):
        new_study(tmp_path / 'file' / 'study.journal', 'cmaes', ABOUT)


@pytest.mark.parametrize('package', ['optuna', 'cmaes'])
def test_a_missing_package_is_told_with_the_line_that_installs_it(
    path: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ConfigError, match=rf"for the method random.* no {package}; .*'sysid_ros\[servo\]'"
    ):
        new_study(path, 'random', ABOUT)
    assert not path.parent.exists()

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Results in dated folders: whole or not there, and links that lead to whole ones."""

from __future__ import annotations

import datetime as dt
import fcntl
import io
import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.bare_results import rejected
from sysid_ros.errors import ResultError
from sysid_ros.results import store
from sysid_ros.results.result import CalibrationResult

RECORD = Path(__file__).parents[1] / 'data' / 'pendulum' / 'baseline.json'
#: What is in a folder, besides ``result.json``.
FILES = ('report.html', 'mjcf/arm.xml', 'mjcf/meshes/link.stl', 'servos/elbow.json')


@pytest.fixture(scope='module')
def result() -> CalibrationResult:
    return CalibrationResult.load(RECORD).without_curves()


def put(output: Path, result: CalibrationResult, text: str = '') -> Path:
    """Keep a result with files that all hold a text, and return its folder."""
    with store.draft(output) as begun:
        for name in FILES:
            path = begun.folder / name
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_text(text)
        result.save(begun.folder / store.RESULT)
        return begun.keep(accepted=result.accepted)


def texts(folder: Path) -> set[str]:
    """Return what the files in a folder hold; all of them have to be there, and no others."""
    files = {str(path.relative_to(folder)) for path in folder.rglob('*') if path.is_file()}
    assert files == {*FILES, store.RESULT}
    return {(folder / name).read_text() for name in FILES}


def test_a_result_gets_a_folder_of_its_time_in_utc_and_current_leads_to_accepted_ones(
    tmp_path: Path, result: CalibrationResult
):
    before = dt.datetime.now(dt.UTC).replace(microsecond=0)
    folder = put(tmp_path, result, 'one')
    assert folder.name.endswith('Z')
    time = dt.datetime.strptime(folder.name, '%Y-%m-%dT%H-%M-%S%z')
    assert before <= time <= dt.datetime.now(dt.UTC)
    assert str((tmp_path / 'current').readlink()) == folder.name
    assert not (tmp_path / 'rejected').exists()
    worse = put(tmp_path, rejected(result), 'bad')
    assert (tmp_path / 'rejected').resolve() == worse
    assert (texts(tmp_path / 'current'), texts(worse)) == ({'one'}, {'bad'})


@pytest.mark.slow
def test_results_of_one_second_are_numbered_and_stay_in_order(
    tmp_path: Path, result: CalibrationResult, monkeypatch: pytest.MonkeyPatch
):
    class Clock(dt.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return dt.datetime(2026, 11, 25, 23, 47, 29, tzinfo=tz)

    monkeypatch.setattr(store.dt, 'datetime', Clock)
    names = [put(tmp_path, result, str(number)).name for number in range(11)]
    assert names[:2] == ['2026-11-25T23-47-29Z', '2026-11-25T23-47-29Z-2']
    assert [entry.name for entry in store.history(tmp_path)] == names
    assert [entry.name for entry in store.history(tmp_path) if entry.current] == names[-1:]


def test_a_folder_that_is_not_kept_leaves_nothing(tmp_path: Path):
    with pytest.raises(ResultError, match='there is no such folder'):
        store.history(tmp_path / 'nowhere')
    with store.draft(tmp_path) as begun:
        (begun.folder / 'report.html').write_text('half')
    assert [entry.name for entry in tmp_path.iterdir()] == ['.lock']
    with pytest.raises(ResultError, match='found none'):
        store.history(tmp_path)


def test_a_path_means_the_file_its_folder_or_the_current_result(
    tmp_path: Path, result: CalibrationResult
):
    old = tmp_path / 'result.json'
    result.save(old)
    assert store.find(tmp_path) == old
    folder = put(tmp_path, result)
    for place in (tmp_path, folder):
        assert store.find(place) == folder / 'result.json'
    assert store.find(old) == old
    assert store.named(tmp_path / 'current') == folder
    assert store.find(tmp_path / 'none') == tmp_path / 'none'


def test_an_earlier_accepted_result_becomes_current_again_and_no_other_does(
    tmp_path: Path, result: CalibrationResult
):
    first, second = put(tmp_path, result), put(tmp_path, result)
    bad = put(tmp_path, rejected(result, 'Worse.'))
    before, now = store.use_again(tmp_path, first.name)
    assert (before.name, now.name) == (second.name, first.name)
    assert (tmp_path / 'current').resolve() == first
    with pytest.raises(ResultError, match=rf'but {bad.name} was rejected: Worse\.$'):
        store.use_again(tmp_path, bad.name)
    with pytest.raises(ResultError, match=rf"no result '2026'.*; .*{bad.name}"):
        store.use_again(tmp_path, '2026')
    assert (tmp_path / 'current').resolve() == first
    assert {first, second, bad} == {entry.folder for entry in store.history(tmp_path)}


def test_the_oldest_results_are_removed_but_never_those_in_use(
    tmp_path: Path, result: CalibrationResult
):
    first, second, third = (put(tmp_path, result) for _ in range(3))
    store.use_again(tmp_path, first.name)
    bad = put(tmp_path, rejected(result))
    last = put(tmp_path, rejected(result))
    assert store.prune(tmp_path, 5) == ()
    assert store.prune(tmp_path, 3) == (second.name, third.name)
    assert {entry.folder for entry in store.history(tmp_path)} == {first, bad, last}
    assert store.prune(tmp_path, 1) == (bad.name,)
    assert {entry.folder for entry in store.history(tmp_path)} == {first, last}
    assert (tmp_path / 'current').resolve() == first
    assert texts(first) == {''}


#: What a write does to the disk.
OPERATIONS = {
    os: ('open', 'mkdir', 'rename', 'replace', 'symlink', 'fsync', 'unlink', 'rmdir'),
    io: ('open',),
}


def write_and_die(output: Path, result: CalibrationResult, number: int, told: Any) -> None:
    """Write a new result, killed before an operation on the disk; with 0, tell their number."""
    count = 0

    def patch(module: Any, name: str) -> None:
        real: Callable[..., Any] = getattr(module, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        setattr(module, name, counting)

    for module, names in OPERATIONS.items():
        for name in names:
            patch(module, name)
    put(output, result, 'new')
    told.send(count)


def run(output: Path, result: CalibrationResult, number: int) -> int:
    """Write in a process of its own; return how many operations that took, 0 when it was killed."""
    context = multiprocessing.get_context('fork')
    heard, told = context.Pipe(duplex=False)
    process = context.Process(target=write_and_die, args=(output, result, number, told))
    process.start()
    told.close()
    process.join()
    if number:
        assert process.exitcode == -signal.SIGKILL
        return 0
    return int(heard.recv())


@pytest.mark.slow
def test_kill_9_at_any_operation_leaves_the_old_or_the_new_whole(
    tmp_path: Path, result: CalibrationResult
):
    total = run(tmp_path / 'counted', result, 0)
    assert total >= 40
    seen = []
    for number in range(1, total + 1):
        output = tmp_path / str(number)
        old = put(output, result, 'old')
        run(output, result, number)
        (text,) = texts(output / 'current')
        seen.append(text)
        for entry in store.history(output):
            assert texts(entry.folder) <= {'old', 'new'}
        # The next one finds its way, and nothing is left of the one that was killed.
        put(output, result, 'next')
        assert texts(output / 'current') == {'next'}
        assert texts(old) == {'old'}
        hidden = {entry.name for entry in output.iterdir() if entry.name.startswith('.')}
        assert hidden == {'.lock'}
    switched = seen.index('new')
    assert seen == ['old'] * switched + ['new'] * (total - switched)
    # Both the time before the switch and that after it are long enough to be told apart.
    assert switched > total / 2


def test_who_writes_is_waited_for_and_not_taken_for_one_that_was_killed(
    tmp_path: Path, result: CalibrationResult
):
    context = multiprocessing.get_context('fork')
    heard, told = context.Pipe(duplex=False)

    def second() -> None:
        told.send('begins')
        put(tmp_path, result, 'second')

    with store.draft(tmp_path) as begun:
        (begun.folder / 'report.html').write_text('first')
        process = context.Process(target=second)
        process.start()
        assert heard.recv() == 'begins'
        with (tmp_path / '.lock').open() as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        first = begun.keep(accepted=True)
        assert (first / 'report.html').read_text() == 'first'
    process.join()
    assert texts(tmp_path / 'current') == {'second'}
    assert (first / 'report.html').read_text() == 'first'

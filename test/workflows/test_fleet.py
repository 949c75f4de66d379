# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fleets on real schedulers and workers, some of which are killed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from builders.cli_project import REPOSITORY
from builders.fleets import STARTS, make_fleet
from sysid_ros.config.files import load_fleet
from sysid_ros.config.schema import Fleet
from sysid_ros.errors import ConfigError
from sysid_ros.results.result import CalibrationResult
from sysid_ros.workflows.fleet import FleetResult, calibrate_fleet, calibrate_robot, content_hash

pytestmark = pytest.mark.slow

#: Nothing here takes so long, s, on a machine as busy as can be.
PATIENCE = 240.0
EXECUTOR = ThreadPoolExecutor()


def _numbers(fleet: Fleet, done: FleetResult) -> dict[str, Any]:
    """Return all that the robots' results and the fleet say, less clocks and folders."""
    found: dict[str, Any] = {'fleet': json.loads(done.model_dump_json(exclude={'created'}))}
    for name, (path, _) in _finished(fleet).items():
        document = json.loads(path.read_text())
        del document['model'], document['provenance'], document['solver']['seconds']
        for change in document['changes']:
            del change['file']
        found[name] = document
    return found


def _finished(fleet: Fleet) -> dict[str, tuple[Path, int]]:
    """Return the result of each robot that is finished, and when it was written."""
    found = {}
    for path in fleet.output.glob('*/finished.json'):
        result = path.parent / json.loads(path.read_text())['result']
        found[path.parent.name] = (result, result.stat().st_mtime_ns)
    return found


@pytest.fixture(scope='module')
def finished(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Return a fleet whose robots were fitted one after the other, in this process."""
    fleet = load_fleet(make_fleet(tmp_path_factory.mktemp('serial') / 'fleet'))
    for config in fleet.robots.values():
        assert isinstance(calibrate_robot(config, fleet.folder, ''), CalibrationResult)
    return fleet


@pytest.fixture(scope='module')
def serial(finished: Fleet) -> dict[str, Any]:
    """Return what that fleet says."""
    before = _finished(finished)
    done = calibrate_fleet(finished)
    assert _finished(finished) == before, 'what is finished is not computed again'
    return _numbers(finished, done)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """Return a fleet that nothing was done for."""
    return load_fleet(make_fleet(tmp_path / 'fleet'))


class Cluster:
    """A scheduler and workers, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / 'scheduler.json'
        self._log = (folder / 'log.txt').open('wb')
        self.scheduler = self._start('dask_scheduler', '--host', '127.0.0.1', '--port', '0')
        self.workers: list[subprocess.Popen[bytes]] = []

    def _start(self, what: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, '-m', f'distributed.cli.{what}', *arguments]
        return subprocess.Popen(
            [*command, '--scheduler-file', str(self._file), '--no-dashboard'],
            env={**os.environ, 'PYTHONPATH': str(REPOSITORY), 'OPENBLAS_NUM_THREADS': '1'},
            stdout=self._log,
            stderr=self._log,
        )

    @property
    def address(self) -> str:
        """Where the scheduler is, once it says so."""
        # The file is there before its text is, so it is its end that is waited for.
        _wait(lambda: self._file.exists() and self._file.read_text().endswith('\n}'))
        return str(json.loads(self._file.read_text())['address'])

    def add_worker(self) -> subprocess.Popen[bytes]:
        """Start another worker."""
        worker = self._start('dask_worker', '--nthreads', '1', '--no-nanny', '--memory-limit', '0')
        self.workers.append(worker)
        return worker

    def close(self) -> None:
        """End all that still runs."""
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()
        self._log.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Return a scheduler without workers."""
    found = Cluster(tmp_path)
    yield found
    found.close()


def _wait(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_worker_that_is_killed_in_the_middle_of_a_fit_changes_no_number(
    fleet: Fleet, cluster: Cluster, serial: dict[str, Any]
):
    victim = cluster.add_worker()
    running = EXECUTOR.submit(calibrate_fleet, fleet, scheduler=cluster.address)
    with Client(cluster.address) as client:
        _wait(lambda: any(client.processing().values()))
    # Nothing is finished by a process that is stopped, so the fit is not over when it dies.
    victim.send_signal(signal.SIGSTOP)
    before = _finished(fleet)
    victim.kill()
    cluster.add_worker()
    done = running.result(PATIENCE)
    assert len(before) < len(STARTS)
    assert done.complete
    assert _numbers(fleet, done) == serial


def test_after_the_scheduler_was_killed_the_same_command_goes_on(
    fleet: Fleet, cluster: Cluster, serial: dict[str, Any]
):
    cluster.add_worker()
    running = EXECUTOR.submit(calibrate_fleet, fleet, scheduler=cluster.address)
    _wait(lambda: _finished(fleet))
    cluster.scheduler.kill()
    # The last robot may have been finished in that moment.
    with contextlib.suppress(Exception):
        running.result(PATIENCE)
    first = _finished(fleet)
    done = calibrate_fleet(fleet, workers=1)
    assert _numbers(fleet, done) == serial
    assert _finished(fleet).items() >= first.items()


def _keys(folder: Path) -> dict[str, str]:
    fleet = load_fleet(folder / 'fleet.yaml')
    return {name: content_hash(config, fleet.folder) for name, config in fleet.robots.items()}


def _edit(path: Path, old: str, new: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_the_hash_follows_what_goes_in_and_not_where_it_lies(tmp_path: Path):
    folder = make_fleet(tmp_path / 'fleet').parent
    before = _keys(folder)
    folder = folder.rename(tmp_path / 'elsewhere')
    moved = _keys(folder)
    _edit(folder / 'fleet.yaml', '- - 0.4\n', '- - 0.45\n')
    told = _keys(folder)
    (bag,) = (folder / 'train').glob('*.mcap')
    bag.write_bytes(bag.read_bytes() + b'\0')
    recorded = _keys(folder)
    _edit(folder / 'arm.xml', 'mass="1.2"', 'mass="1.25"')
    modelled = _keys(folder)
    assert moved == before
    assert {name for name in STARTS if told[name] != moved[name]} == {'bob'}
    assert all(recorded[name] != told[name] for name in STARTS)
    assert all(modelled[name] != recorded[name] for name in STARTS)


def test_a_robot_with_a_bad_bag_is_told_in_its_row_and_the_others_go_on(
    tmp_path: Path, finished: Fleet
):
    path = make_fleet(
        tmp_path / 'fleet',
        dan={'train': 'arm.xml', 'validate': 'validate'},
        eve={'train': 'bags/eve_*'},
    )
    fleet = load_fleet(path)
    # A robot is the same wherever its files lie.
    shutil.copytree(finished.output, fleet.output, symlinks=True)
    before = _finished(fleet)
    done = calibrate_fleet(fleet, workers=1)
    robots = {robot.name: robot for robot in done.robots}
    assert [robot.standing for robot in robots.values()][len(STARTS) :] == ['failed', 'failed']
    assert 'arm.xml' in robots['dan'].sentence
    assert 'eve_*' in robots['eve'].sentence
    assert all(robots[name].usable for name in STARTS)
    assert not done.complete
    assert _finished(fleet) == before
    for parameter in done.parameters:
        for value in parameter.values:
            own = CalibrationResult.load(before[value.robot][0])
            assert value.value == own.parameter(parameter.name).value
            assert own.provenance.config['solver']['threads'] == 1


def test_workers_that_cannot_be_are_told(fleet: Fleet, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ConfigError, match='found 0'):
        calibrate_fleet(fleet, workers=0)
    assert not fleet.output.exists()
    monkeypatch.setattr('sysid_ros.workflows.fleet._PATIENCE', 0.5)
    with pytest.raises(ConfigError, match=r"No Dask scheduler answers at 'tcp://127.0.0.1:9'"):
        calibrate_fleet(fleet, scheduler='tcp://127.0.0.1:9')

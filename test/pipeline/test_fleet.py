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
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from distributed import Client

from builders.cli_project import REPOSITORY
from builders.fleets import STARTS, make_fleet
from sysid_ros.config import Fleet, load_fleet
from sysid_ros.errors import ConfigError
from sysid_ros.pipeline.fleet import PARTS, FleetFiles, _parts, calibrate_fleet, calibrate_part
from sysid_ros.results.result import CalibrationResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

#: Nothing here takes so long, s, on a machine as busy as can be.
PATIENCE = 240.0


def _numbers(fleet: Fleet, done: FleetFiles) -> dict[str, Any]:
    """Return all that the robots' results and the fleet say, less clocks and folders."""
    found: dict[str, Any] = {}
    for robot in done.result.robots:
        document = json.loads((fleet.output / robot.result).read_text())
        del document['model'], document['provenance'], document['solver']['seconds']
        for change in document['changes']:
            del change['file']
        found[robot.name] = document
    document = json.loads(done.result_path.read_text())
    del document['created']
    return {**found, 'fleet': document}


@pytest.fixture(scope='module')
def finished(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Return a fleet whose robots were fitted one after the other, in this process."""
    fleet = load_fleet(make_fleet(tmp_path_factory.mktemp('serial') / 'fleet'))
    parts, failures = _parts(fleet, '')
    assert failures == {}
    assert [calibrate_part(part) for part in parts.values()] == ['', '']
    return fleet


@pytest.fixture(scope='module')
def serial(finished: Fleet) -> dict[str, Any]:
    """Return what that fleet says."""
    return _numbers(finished, calibrate_fleet(finished))


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


def _in_thread(work: Callable[[], FleetFiles]) -> Callable[[], FleetFiles]:
    """Begin some work; return what waits for its end and returns or raises what it did."""
    outcome: list[FleetFiles | BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as err:  # noqa: BLE001 (it is raised where it is looked for)
            outcome.append(err)

    thread = threading.Thread(target=run)
    thread.start()

    def result() -> FleetFiles:
        thread.join(PATIENCE)
        (found,) = outcome
        if isinstance(found, BaseException):
            raise found
        return found

    return result


def test_workers_of_this_machine_find_the_serial_numbers_bit_by_bit(
    fleet: Fleet, serial: dict[str, Any]
):
    done = calibrate_fleet(fleet, workers=2)

    assert _numbers(fleet, done) == serial
    for name in STARTS:
        assert (fleet.output / 'robots' / name / 'current' / 'report.html').is_file()


def test_a_worker_that_is_killed_in_the_middle_of_a_fit_loses_nothing(
    fleet: Fleet, cluster: Cluster, serial: dict[str, Any]
):
    victim = cluster.add_worker()
    finish = _in_thread(lambda: calibrate_fleet(fleet, scheduler=cluster.address))
    with Client(cluster.address) as client:
        _wait(lambda: any(client.processing().values()))
    # Nothing is finished by a process that is stopped, so the fit is not over when it dies.
    victim.send_signal(signal.SIGSTOP)
    begun = [path for path in _parts_in(fleet) if not path.name.startswith('.')]
    victim.kill()
    cluster.add_worker()

    done = finish()

    assert len(begun) < len(STARTS)
    assert done.result.complete
    assert _numbers(fleet, done) == serial
    assert not [path for path in _parts_in(fleet) if path.name.startswith('.')]


def test_after_the_scheduler_was_killed_the_same_command_goes_on(
    fleet: Fleet, cluster: Cluster, serial: dict[str, Any]
):
    cluster.add_worker()
    finish = _in_thread(lambda: calibrate_fleet(fleet, scheduler=cluster.address))
    _wait(lambda: [path for path in _parts_in(fleet) if path.name[0] != '.'])
    cluster.scheduler.kill()
    # The last robot may have been finished in that moment.
    with contextlib.suppress(Exception):
        finish()
    first = {path: path.stat().st_mtime_ns for path in _parts_in(fleet) if path.name[0] != '.'}
    assert first

    done = calibrate_fleet(fleet, workers=1)

    assert _numbers(fleet, done) == serial
    assert {path: path.stat().st_mtime_ns for path in first} == first


def _parts_in(fleet: Fleet) -> list[Path]:
    folder = fleet.output / PARTS
    return list(folder.iterdir()) if folder.is_dir() else []


def _keys(folder: Path) -> dict[str, str]:
    parts, _ = _parts(load_fleet(folder / 'fleet.yaml'), '')
    return {name: part.key for name, part in parts.items()}


def _edit(path: Path, old: str, new: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_what_is_finished_is_computed_again_only_where_its_input_changed(tmp_path: Path):
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


def test_robots_that_are_given_the_same_are_one_calibration(tmp_path: Path):
    same = {'train': 'train', 'validate': 'validate'}
    fleet = load_fleet(make_fleet(tmp_path / 'fleet', dan=same, eve=same))

    parts, _ = _parts(fleet, '')

    assert parts['dan'] == parts['eve']
    assert len(set(parts.values())) == len(STARTS) + 1


@pytest.fixture(scope='module')
def broken(tmp_path_factory: pytest.TempPathFactory, finished: Fleet) -> tuple[Fleet, FleetFiles]:
    """Return a fleet after its calibration, in which two robots have bags that are none."""
    folder = tmp_path_factory.mktemp('broken') / 'fleet'
    path = make_fleet(
        folder, dan={'train': 'arm.xml', 'validate': 'validate'}, eve={'train': 'bags/eve_*'}
    )
    fleet = load_fleet(path)
    # A robot is the same wherever its files lie.
    shutil.copytree(finished.output / PARTS, fleet.output / PARTS, symlinks=True)
    return fleet, calibrate_fleet(fleet, workers=1)


def test_a_robot_with_a_bad_bag_is_told_in_its_row_and_the_others_go_on(
    broken: tuple[Fleet, FleetFiles],
):
    _, done = broken
    standings = {robot.name: robot.standing for robot in done.result.robots}

    assert {name: standings[name] for name in ('dan', 'eve')} == dict.fromkeys(
        ('dan', 'eve'), 'failed'
    )
    assert all(done.result.robot(name).counts for name in STARTS)
    assert 'arm.xml' in done.result.robot('dan').sentence
    assert 'eve_*' in done.result.robot('eve').sentence
    assert not done.result.complete
    assert all(parameter.robots == 2 for parameter in done.result.parameters)


def test_a_robots_result_is_that_of_its_own_calibration(broken: tuple[Fleet, FleetFiles]):
    fleet, done = broken
    robot = done.result.robot('ann')
    result = CalibrationResult.load(fleet.output / robot.result)

    for value in robot.values:
        own = result.parameter(value.parameter)
        assert (value.value, value.low, value.high) == (own.value, own.low, own.high)
    model = json.loads((fleet.output / robot.result).read_text())['provenance']['config']['solver']
    assert model['threads'] == 1


def test_a_number_of_workers_below_one_is_told(fleet: Fleet):
    with pytest.raises(ConfigError, match='Expected at least one worker, found 0'):
        calibrate_fleet(fleet, workers=0)
    assert not fleet.output.exists()


def test_a_scheduler_that_is_not_there_is_told(fleet: Fleet, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr('sysid_ros.pipeline.fleet._PATIENCE', 0.5)

    with pytest.raises(ConfigError, match=r"No Dask scheduler answers at 'tcp://127.0.0.1:9'"):
        calibrate_fleet(fleet, scheduler='tcp://127.0.0.1:9')

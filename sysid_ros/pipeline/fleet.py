# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Many robots: a calibration of each on the workers of Dask, and what all say together.

A robot's calibration is a part: a folder that is named by a hash of all that went in, written under
another name and renamed when it is whole. So nothing that is finished is computed again, whatever
died in between, and nothing that is half done is taken for finished.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sysid_ros.errors import ConfigError, FitError, SysidError
from sysid_ros.files import check_writable, files_in, replace_file, sha256
from sysid_ros.identification.observer import Nobody
from sysid_ros.json_text import read_object, to_json
from sysid_ros.model.loading import compile_spec, read_model
from sysid_ros.pipeline.calibration import identify, write
from sysid_ros.pipeline.loading import bags_of
from sysid_ros.results.fleet import FleetResult, RobotOutcome, summarise_fleet
from sysid_ros.results.result import CalibrationResult
from sysid_ros.results.summary import versions_now

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from distributed import Client

    from sysid_ros.config import CalibrationConfig, Fleet
    from sysid_ros.identification.observer import Observer

FLEET = 'fleet.json'
#: Folder for finished calibrations, each named by its key.
PARTS = 'parts'
#: Folder with a link of each robot's name to its calibration.
ROBOTS = 'robots'
#: Says of a finished calibration which of its files are what.
_PART = 'part.json'
#: Why a robot that was calibrated has no files here.
_ELSEWHERE = 'Its worker wrote to a folder that is not seen here; expected one that all share.'
#: Seconds until a scheduler must have answered.
_PATIENCE = 10


@dataclass(frozen=True)
class Part:
    """The calibration of a robot, or of several that are given the same.

    Attributes:
        key: Hash of all that goes in.
        config: What is asked for.
        folder: Where it is when it is finished.
        command: How the user asked for it.
    """

    key: str
    config: CalibrationConfig = field(compare=False)
    folder: Path
    command: str

    @property
    def done(self) -> bool:
        """Whether it is finished."""
        return (self.folder / _PART).is_file()


class FleetFiles(NamedTuple):
    """What a fleet says, and where it was written."""

    result: FleetResult
    result_path: Path


def calibrate_fleet(
    fleet: Fleet,
    *,
    scheduler: str = '',
    workers: int | None = None,
    command: str = '',
    observer: Observer | None = None,
) -> FleetFiles:
    """Calibrate the robots of a fleet that are not yet, and write what all say together.

    A robot whose calibration fails is told in its row; the others go on.

    Args:
        fleet: The robots.
        scheduler: Address of a Dask scheduler whose workers see the same files; a cluster of
            processes on this machine unless given.
        workers: Number of those processes; one per core unless given.
        command: How the user asked for it, for the provenance.
        observer: Is told of robots that are done.

    Raises:
        SysidError: In one sentence, what is wrong with more than one robot.
    """
    observer = observer or Nobody()
    if workers is not None and workers < 1:
        msg = f'Expected at least one worker, found {workers}.'
        raise ConfigError(msg)
    check_writable(fleet.output)
    parts, failures = _parts(fleet, command)
    names: dict[Part, list[str]] = {}
    for name, part in parts.items():
        if not part.done:
            names.setdefault(part, []).append(name)
    left = sum(map(len, names.values()))
    observer.stage(f'{len(parts) - left} of {len(fleet.robots)} robots are calibrated already')
    for done, (part, failure) in enumerate(_computed(list(names), scheduler, workers), 1):
        outcome = 'failed' if failure else 'done'
        observer.stage(f'{done} of {len(names)}: {", ".join(names[part])} {outcome}')
        failures |= dict.fromkeys(names[part], failure) if failure else {}
        _sweep(part)
    outcomes = {
        name: RobotOutcome(None, failures[name])
        if name in failures
        else _outcome(fleet.output, name, parts[name])
        for name in fleet.robots
    }
    result = summarise_fleet(outcomes, command, versions_now())
    result.save(fleet.output / FLEET)
    return FleetFiles(result, fleet.output / FLEET)


def _parts(fleet: Fleet, command: str) -> tuple[dict[str, Part], dict[str, str]]:
    """Return the calibration of each robot, and a sentence of those whose files are wrong.

    Raises:
        ConfigError: The configuration of a robot is not valid, whatever is in its files.
    """
    parts, failures = dict[str, Part](), dict[str, str]()
    models: dict[tuple[Path, ...], str] = {}
    for name, config in fleet.robots.items():
        try:
            key = _key(config, fleet.folder, models)
        except ConfigError:
            raise
        except SysidError as err:
            failures[name] = str(err)
            continue
        parts[name] = Part(key, config, fleet.output / PARTS / key, command)
    return parts, failures


def _key(config: CalibrationConfig, folder: Path, models: dict[tuple[Path, ...], str]) -> str:
    """Return the hash of a configuration and of all that it names.

    Args:
        config: What is asked for.
        folder: Of the fleet's file. Below it names of files count, but not where it lies.
        models: Hashes of models that were read, as robots share them.
    """
    where = config.model, *config.package_path
    if where not in models:
        models[where] = _of_model(config)
    asked = config.model_copy(update={'output': Path()}).model_dump_json()
    files = [path for path, _ in bags_of(config)]
    files += [config.mapping] if isinstance(config.mapping, Path) else []
    files += [servo.params for servo in config.servos if servo.params is not None]
    files += [path for servo in config.servos if (path := Path(servo.type or '')).is_file()]
    said = {
        'config': asked.replace(f'{folder}{os.sep}', ''),
        'model': models[where],
        'files': [sha256(inside) for path in files for inside in files_in(path)],
        'versions': versions_now(),
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]


def _of_model(config: CalibrationConfig) -> str:
    """Return the hash of a model's text and of all that it is compiled from, such as meshes."""
    model = read_model(config.model, config.package_path)
    compiled = compile_spec(model.spec, config.model)
    buffer = np.zeros(mujoco.mj_sizeModel(compiled), np.uint8)
    mujoco.mj_saveModel(compiled, None, buffer)
    return model.description.sha256 + hashlib.sha256(buffer.tobytes()).hexdigest()


def calibrate_part(part: Part) -> str:
    """Calibrate one robot, unless that is done, and return why that failed, if it did.

    This runs on a worker. Two that do the same do no harm: whoever is first is done.
    """
    if part.done:
        return ''
    try:
        identified = identify(part.config, command=part.command)
        part.folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(dir=part.folder.parent, prefix=f'.{part.key}.'))
        # By its link: the folder's own name is the time, which a repetition would change.
        paths = write(identified, beside).paths
        said = {name: str(paths[name].relative_to(beside)) for name in ('result', 'report')}
        replace_file(beside / _PART, to_json(said).encode())
    except SysidError as err:
        return str(err)
    beside.chmod(0o755)
    with contextlib.suppress(OSError):
        beside.rename(part.folder)
    return ''


def _computed(
    parts: Sequence[Part], scheduler: str, workers: int | None
) -> Iterator[tuple[Part, str]]:
    """Yield each part when it is finished, and why it failed, if it did.

    Raises:
        ConfigError: Dask is missing, or there is no such scheduler.
        FitError: The scheduler went away.
    """
    if not parts:
        return
    with _connected(scheduler, min(workers or os.cpu_count() or 1, len(parts))) as client:
        from distributed import as_completed  # noqa: PLC0415

        # Two fleets may share a scheduler, and parts but not folders.
        futures = {
            client.submit(calibrate_part, part, key=f'sysid-{part.folder}', pure=False): part
            for part in parts
        }
        for future in as_completed(futures):
            part = futures[future]
            if future.status == 'finished':
                yield part, future.result() or ('' if part.done else _ELSEWHERE)
            elif future.status == 'error':
                yield part, _sentence(future.exception())
            else:
                msg = (
                    'The Dask scheduler went away; robots that are done are kept, and the same '
                    'command goes on with the others.'
                )
                raise FitError(msg)


def _sentence(error: BaseException) -> str:
    """Say what went wrong on a worker where it was no input of the user."""
    from distributed import KilledWorker  # noqa: PLC0415

    if isinstance(error, KilledWorker):
        return (
            'Each worker that fitted it died, of too little memory perhaps; fewer workers have '
            'more each.'
        )
    return f'{type(error).__name__}: {" ".join(str(error).split())}'


@contextlib.contextmanager
def _connected(scheduler: str, workers: int) -> Iterator[Client]:
    """Connect to a scheduler, or to a cluster of processes that ends with this context."""
    try:
        from distributed import Client, LocalCluster  # noqa: PLC0415 (optional)
    except ImportError as err:
        msg = "Fleets need Dask; `pip install 'sysid_ros[fleet]'`."
        raise ConfigError(msg) from err
    # What its logs would say of workers and schedulers that die is said in a sentence.
    for name in ('distributed', 'distributed.client'):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if not scheduler:
        with (
            LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                memory_limit=0,
                dashboard_address='127.0.0.1:0',
                silence_logs=logging.CRITICAL,
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
        return
    try:
        client = Client(scheduler, timeout=_PATIENCE)
    except (OSError, ValueError) as err:
        msg = f'No Dask scheduler answers at {scheduler!r} in {_PATIENCE} s; expected as tcp://HOST:8786.'
        raise ConfigError(msg) from err
    with client:
        yield client


def _sweep(part: Part) -> None:
    """Remove what workers that died left of a part."""
    for left in part.folder.parent.glob(f'.{part.key}.*'):
        shutil.rmtree(left, ignore_errors=True)


def _outcome(output: Path, name: str, part: Part) -> RobotOutcome:
    """Read a finished calibration, and link the robot's name to it."""
    files = read_object(part.folder / _PART, FitError)
    link = output / ROBOTS / name
    link.parent.mkdir(parents=True, exist_ok=True)
    target = Path(os.pardir, PARTS, part.key)
    if not link.is_symlink() or link.readlink() != target:
        other = link.with_name(f'.{name}.{os.getpid()}')
        other.symlink_to(target)
        other.replace(link)
    result = CalibrationResult.load(part.folder / files['result'])
    own = link.relative_to(output)
    return RobotOutcome(
        result, key=part.key, report=str(own / files['report']), path=str(own / files['result'])
    )

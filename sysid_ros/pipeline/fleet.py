# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Many robots: a calibration of each on the workers of Dask, and what all say together.

Each robot has a folder of results, and in it a file that names its finished result and a hash of
all that went in. Where that hash is still the same, nothing is computed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from sysid_ros.config.schema import CalibrationConfig, Fleet
from sysid_ros.errors import ConfigError, FitError, SysidError
from sysid_ros.files import check_writable, files_in, read_object, replace_file, sha256
from sysid_ros.identification.observer import Nobody, Observer
from sysid_ros.model.loading import compile_spec, read_model
from sysid_ros.pipeline.calibration import identify
from sysid_ros.pipeline.problem import bags_of
from sysid_ros.pipeline.writing import write
from sysid_ros.results.fleet import FleetResult, summarise_fleet
from sysid_ros.results.result import CalibrationResult
from sysid_ros.results.summary import versions_now
from sysid_ros.text import to_json

FLEET = 'fleet.json'
#: In the folder of a robot: the hash of what went in, and where the result is.
_FINISHED = 'finished.json'
#: Seconds until a scheduler must have answered.
_PATIENCE = 10


def calibrate_fleet(
    fleet: Fleet,
    *,
    scheduler: str = '',
    workers: int | None = None,
    command: str = '',
    observer: Observer | None = None,
) -> FleetResult:
    """Calibrate the robots of a fleet that are not yet, and write what all say together.

    A robot whose calibration fails is told in its row; the others go on.

    Args:
        fleet: The robots.
        scheduler: Address of a Dask scheduler whose workers see the same files; a cluster of
            processes on this machine unless given.
        workers: Number of those processes; one per core unless given.
        command: How the user asked for it, for the provenance.
        observer: Is told of robots that are done.
    """
    observer = observer or Nobody()
    if workers is not None and workers < 1:
        raise ConfigError(f'Expected at least one worker, found {workers}.')
    check_writable(fleet.output)
    outcomes: dict[str, CalibrationResult | str] = {}
    count = len(fleet.robots)
    with _connected(scheduler, min(workers or os.cpu_count() or 1, count)) as client:
        from distributed import as_completed  # noqa: PLC0415 (optional)

        futures = {
            client.submit(calibrate_robot, config, fleet.folder, command, pure=False): name
            for name, config in fleet.robots.items()
        }
        for future in as_completed(futures):
            if future.status not in ('finished', 'error'):
                raise FitError(
                    'The Dask scheduler went away; robots that are done are kept, and the same '
                    'command goes on with the others.'
                )
            error, name = future.exception(), futures[future]
            said = f'{type(error).__name__}: {" ".join(str(error).split())}'
            outcomes[name] = future.result() if error is None else said
            word = 'failed' if isinstance(outcomes[name], str) else 'done'
            observer.stage(f'{len(outcomes)} of {count}: {name} {word}')
    result = summarise_fleet(
        {name: outcomes[name] for name in fleet.robots}, command, versions_now()
    )
    result.save(fleet.output / FLEET)
    return result


def calibrate_robot(
    config: CalibrationConfig, folder: Path, command: str
) -> CalibrationResult | str:
    """Return the result of one robot without its curves, or a sentence that says why there is none.

    This runs on a worker; two that do the same do no harm. ``folder`` is that of the fleet's file.
    """
    finished = config.output / _FINISHED
    try:
        key = content_hash(config, folder)
        found = read_object(finished, FitError) if finished.is_file() else {}
        if found.get('key') == key:
            return CalibrationResult.load(config.output / found['result']).without_curves()
        done = write(identify(config, command=command), config.output)
        where = str(done.paths['result'].relative_to(config.output))
        replace_file(finished, to_json({'key': key, 'result': where}).encode())
    except SysidError as err:
        return str(err)
    return done.result.without_curves()


def content_hash(config: CalibrationConfig, folder: Path) -> str:
    """Return the hash of a configuration and of the content of all that it names.

    Names of files count below the folder of the fleet's file, but not where that lies.
    """
    model = read_model(config.model, config.package_path)
    # A compiled model holds what the text refers to, such as meshes.
    compiled = compile_spec(model.spec, config.model)
    buffer = np.zeros(mujoco.mj_sizeModel(compiled), np.uint8)
    mujoco.mj_saveModel(compiled, None, buffer)
    asked = config.model_copy(update={'output': Path()}).model_dump_json()
    files = [path for path, _ in bags_of(config)]
    files += [config.mapping] if isinstance(config.mapping, Path) else []
    files += [servo.params for servo in config.servos if servo.params is not None]
    files += [path for servo in config.servos if (path := Path(servo.type or '')).is_file()]
    said = {
        'config': asked.replace(f'{folder}{os.sep}', ''),
        'model': model.description.sha256 + hashlib.sha256(buffer.tobytes()).hexdigest(),
        'files': [sha256(inside) for path in files for inside in files_in(path)],
        'versions': versions_now(),
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


@contextlib.contextmanager
def _connected(scheduler: str, workers: int) -> Iterator[Any]:
    """Connect to a scheduler, or to a cluster of processes that ends with this context.

    Raises:
        ConfigError: Dask is missing, or there is no such scheduler.
    """
    try:
        from distributed import Client, LocalCluster  # noqa: PLC0415 (optional)
    except ImportError as err:
        raise ConfigError("Fleets need Dask; `pip install 'sysid_ros[fleet]'`.") from err
    for name in ('distributed', 'distributed.client'):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with contextlib.ExitStack() as stack:
        where: LocalCluster | str = scheduler or stack.enter_context(
            LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                memory_limit=0,
                dashboard_address='127.0.0.1:0',
                silence_logs=logging.CRITICAL,
            )
        )
        try:
            client = stack.enter_context(Client(where, timeout=_PATIENCE))
        except (OSError, ValueError) as err:
            raise ConfigError(
                f'No Dask scheduler answers at {scheduler!r} in {_PATIENCE} s; expected as '
                'tcp://HOST:8786.'
            ) from err
        yield client

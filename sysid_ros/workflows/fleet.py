# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Many robots: a calibration of each on the workers of Dask, and what all say together.

Each robot has a folder of results, and in it a file that names its finished result and a hash of
all that went in. Where that hash is still the same, nothing is computed again.

Together, a parameter follows a normal random-effects model: the estimate of robot i is μ + bᵢ + eᵢ
with bᵢ ~ N(0, τ²) between robots and eᵢ ~ N(0, vᵢ), whose variance the robot's fit knows.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import logging
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import scipy
from numpy.typing import NDArray

from sysid_ros.config.schema import CalibrationConfig, Fleet, VerdictKind
from sysid_ros.errors import ConfigError, FitError, SysidError
from sysid_ros.files import check_writable, files_in, read_object, replace_file, sha256
from sysid_ros.fit.observer import Nobody, Observer
from sysid_ros.model.loading import compile_spec, read_model
from sysid_ros.model.targets import of_sequence
from sysid_ros.results.result import (
    FEWEST,
    CalibrationResult,
    Document,
    Frozen,
    MaybeFloat,
    Standing,
)
from sysid_ros.results.summary import versions_now
from sysid_ros.text import to_json
from sysid_ros.workflows.calibrate import identify
from sysid_ros.workflows.problem import bags_of
from sysid_ros.workflows.writing import write

Values = NDArray[np.float64]

FLEET = 'fleet.json'
#: In the folder of a robot: the hash of what went in, and where the result is.
_FINISHED = 'finished.json'
#: Seconds until a scheduler must have answered.
_PATIENCE = 10
#: Of a robot whose fit failed, where others have a standing.
FAILED = 'failed'
#: Verdicts of values that are compared; what a prior or a bound says, every robot says alike.
_COMPARED = frozenset({VerdictKind.IDENTIFIED, VerdictKind.MODEL_LIMITED})
#: Probability that an interval lacks the mean, and of naming a robot where none is odd.
_FALSE_ALARMS = 0.05


# What robots say together


class Population(Frozen):
    """One parameter over several robots; NaN for what so few do not say."""

    mean: MaybeFloat
    low: MaybeFloat = math.nan  # ends of the mean's 95 % interval
    high: MaybeFloat = math.nan
    tau: MaybeFloat = math.nan  # standard deviation between robots
    p_value: MaybeFloat = math.nan  # probability of such differences if all robots were alike


def population(values: Values, variances: Values) -> Population:
    """Summarise (k,) estimates with their variances.

    τ² is the moment estimate of DerSimonian and Laird (Controlled Clinical Trials 7, 1986). The
    interval is that of Hartung and Knapp (Statistics in Medicine 20, 2001), never narrower than
    with τ² known (Röver, Knapp and Friede, BMC Medical Research Methodology 15, 2015).
    """
    freedom = len(values) - 1
    if freedom < 1:
        return Population(mean=float(values[0]) if len(values) else math.nan)
    tau2, q = _between(values, variances)
    mean, variance = _mean(values, variances + tau2)
    scale = max(float(np.sum((values - mean) ** 2 / (variances + tau2))) / freedom, 1.0)
    quantile = scipy.special.stdtrit(freedom, 1 - _FALSE_ALARMS / 2)
    half = float(quantile * np.sqrt(scale * variance))
    return Population(
        mean=mean,
        low=mean - half,
        high=mean + half,
        tau=float(np.sqrt(tau2)),
        p_value=float(scipy.special.chdtrc(freedom, q)),
    )


def _between(values: Values, variances: Values) -> tuple[float, float]:
    """Return τ², and Cochran's Q: squared deviations in units of the estimates' variances."""
    weights = 1 / variances
    q = float(weights @ (values - _mean(values, variances)[0]) ** 2)
    spread = weights.sum() - (weights**2).sum() / weights.sum()
    return max(0.0, float((q - (len(values) - 1)) / spread)), q


def _mean(values: Values, variances: Values) -> tuple[float, float]:
    """Return the mean weighted by inverse variances, and its variance."""
    weights = 1 / variances
    return float(weights @ values / weights.sum()), float(1 / weights.sum())


def deviations(values: Values, variances: Values) -> Values:
    """Return how far each of (k,) robots is from the others.

    It is in standard deviations of where another robot of theirs would be found. A robot is left
    out of the mean and of the τ² that it is compared with, so that it cannot hide behind a spread
    that it makes itself (Viechtbauer and Cheung, Research Synthesis Methods 1, 2010). NaN for fewer
    than four robots.
    """
    found = np.full(len(values), np.nan)
    for place in range(len(values) if len(values) >= FEWEST else 0):
        others, errors = np.delete(values, place), np.delete(variances, place)
        tau2, _ = _between(others, errors)
        mean, variance = _mean(others, errors + tau2)
        found[place] = (values[place] - mean) / np.sqrt(variances[place] + tau2 + variance)
    return found


class RobotValue(Frozen):
    """One parameter of one robot."""

    robot: str
    value: float
    error: float  # its standard error
    deviation: MaybeFloat  # from the other robots, see `deviations`
    odd: bool  # left out of the population


class FleetParameter(Population):
    """One parameter over all robots that determine it, and the robots' values."""

    name: str
    unit: str
    values: tuple[RobotValue, ...]

    @property
    def odd(self) -> tuple[RobotValue, ...]:
        """Values that are none of the population."""
        return tuple(value for value in self.values if value.odd)


class FleetRobot(Frozen):
    """A robot by name: the standing of its result or ``failed``, and why, a sentence."""

    name: str
    standing: str
    sentence: str

    @property
    def usable(self) -> bool:
        """Whether its values are compared with others'."""
        return self.standing in (Standing.ACCEPTED, Standing.RESERVED)


class FleetResult(Document):
    """Everything a fleet says, immutable and versioned."""

    schema_version: int = 1
    robots: tuple[FleetRobot, ...]
    parameters: tuple[FleetParameter, ...]
    created: str
    command: str
    versions: dict[str, str]

    @property
    def complete(self) -> bool:
        """Whether each robot has a result that may be used."""
        return all(robot.usable for robot in self.robots)

    def parameter(self, name: str) -> FleetParameter:
        """Return a parameter by name; KeyError where there is none."""
        return {parameter.name: parameter for parameter in self.parameters}[name]


def summarise_fleet(outcomes: Mapping[str, CalibrationResult | str], command: str) -> FleetResult:
    """Say what robots have in common, how they differ, and which are none of the others.

    An outcome is a robot's result, or a sentence that says why there is none.
    """
    robots, units = [], dict[str, str]()
    found: dict[str, list[tuple[str, float, float]]] = {}
    for name, outcome in outcomes.items():
        if isinstance(outcome, str):
            robots.append(FleetRobot(name=name, standing=FAILED, sentence=outcome))
            continue
        robots.append(FleetRobot(name=name, standing=outcome.standing, sentence=outcome.acceptance))
        for parameter, unit, value, error in _estimates(outcome) if outcome.accepted else ():
            units[parameter] = unit
            found.setdefault(parameter, []).append((name, value, error))
    comparisons = sum(map(len, found.values()))
    return FleetResult(
        robots=tuple(robots),
        parameters=tuple(
            _parameter(name, unit, found[name], comparisons) for name, unit in units.items()
        ),
        created=dt.datetime.now(dt.UTC).isoformat(timespec='seconds'),
        command=command,
        versions=versions_now(),
    )


def _estimates(result: CalibrationResult) -> Iterator[tuple[str, str, float, float]]:
    """Yield name, unit, value and standard error of what is compared.

    Values of a sequence are of a recording, not of a robot.
    """
    if result.inference is None:
        return
    for place, parameter in enumerate(result.parameters):
        variance = result.inference.covariance[place][place]
        recorded = any(map(of_sequence, parameter.targets))
        if parameter.verdict_kind in _COMPARED and variance > 0 and not recorded:
            yield parameter.name, parameter.unit, parameter.value, variance**0.5


def _parameter(
    name: str, unit: str, found: list[tuple[str, float, float]], comparisons: int
) -> FleetParameter:
    """Summarise one parameter of robots with values and errors, as one of many comparisons."""
    robots = [robot for robot, _, _ in found]
    values, errors = np.array([(value, error) for _, value, error in found]).T
    far = deviations(values, errors**2)
    # Student's t has the freedom of the others' spread; Bonferroni's correction is for all that
    # is compared.
    tail = _FALSE_ALARMS / (2 * comparisons)
    odd = np.abs(far) > scipy.special.stdtrit(max(len(robots) - 2, 1), 1 - tail)
    rows = zip(robots, values.tolist(), errors.tolist(), far.tolist(), odd.tolist(), strict=True)
    return FleetParameter(
        name=name,
        unit=unit,
        **dict(population(values[~odd], errors[~odd] ** 2)),
        values=tuple(
            RobotValue(robot=robot, value=value, error=error, deviation=deviation, odd=is_odd)
            for robot, value, error, deviation, is_odd in rows
        ),
    )


# Each robot by itself


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
    result = summarise_fleet({name: outcomes[name] for name in fleet.robots}, command)
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
    """Connect to a scheduler, or to a cluster of processes that ends with this context."""
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

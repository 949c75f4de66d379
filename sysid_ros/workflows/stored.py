# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A stored result: its model again, and models drawn from what the data leave open."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ModelError, ParameterError, ResultError
from sysid_ros.model.loading import (
    RobotModel,
    add_actuators,
    compile_spec,
    fitted_model,
    read_model,
)
from sysid_ros.model.mjcf import biased, write_variant
from sysid_ros.model.targets import Target, of_sequence, resolve
from sysid_ros.results.result import CURRENT, RESULT, CalibrationResult, ParameterResult
from sysid_ros.results.store import find
from sysid_ros.workflows.estimators import with_biases


class Stored(NamedTuple):
    """A stored result and its model."""

    path: Path  # ``result.json``
    record: CalibrationResult  # the result
    robot: RobotModel  # the model as read
    nominal: mujoco.MjModel  # what that compiles to
    #: What the paths of parameters stand for, without those of recordings.
    targets: dict[str, tuple[Target, ...]]
    #: Targets and their values in SI units, without the offsets that biases stand for.
    values: list[tuple[Target, float]]
    #: Actuators with the constant forces that they exert beside their commands'.
    biases: dict[str, float]
    fitted: mujoco.MjModel  # the identified model


def load_stored(path: Path, model: Path | None = None) -> Stored:
    """Read a result, by its path or its folder's, and its model again, here or where it was.

    Raises:
        ResultError: There is no such result, or it was rejected.
        ModelError: The model is not there, or is not the one that was calibrated.
    """
    found = find(path)
    if path.is_dir() and not found.exists():
        raise ResultError(
            f'Expected {RESULT} or {CURRENT}/{RESULT} in {str(path)!r}, found neither.'
        )
    record = CalibrationResult.load(found)
    if not record.accepted:
        raise ResultError(
            f'{str(found)!r} was rejected, so nothing of it is exported: {record.acceptance}'
        )
    if model is not None:
        record = record.model_copy(update={'model': str(model)})
    robot, nominal, targets, values = read_again(record)
    hashes = {file.sha256 for file in record.provenance.files if file.role == 'model'}
    if hashes and robot.description.sha256 not in hashes:
        raise ModelError(
            f'Expected the model {record.model!r} as it was calibrated, found another: its SHA-256 '
            f'begins with {robot.description.sha256[:8]}, that of then with {min(hashes)[:8]}; '
            'calibrate again, or name the file of then with --model.'
        )
    held, biases = with_biases(record, robot, values)
    fitted = fitted_model(Path(record.model), held, biased(robot.spec, biases))
    return Stored(found, record, robot, nominal, targets, held, biases, fitted)


def read_again(
    record: CalibrationResult,
) -> tuple[RobotModel, mujoco.MjModel, dict[str, tuple[Target, ...]], list[tuple[Target, float]]]:
    """Return the model as it was calibrated.

    Returns:
        The model as read, with the actuators that were implied; what it compiles to; what the
        paths of parameters stand for in it, without those of recordings; and all of these targets
        with what was found for them, in SI units.

    Raises:
        ModelError: It is not there, or has not what was calibrated.
    """
    path = Path(record.model)
    config: Any = record.provenance.config
    robot = read_model(path, [Path(entry) for entry in config.get('package_path', ())])
    spec = robot.spec
    add_actuators(spec, record.implied_actuators)
    nominal = compile_spec(spec.copy(), path)
    targets = {
        name: resolve(name, nominal, spec=spec)
        for found in record.parameters
        for name in found.targets
        if not of_sequence(name)
    }
    values = [
        (target, found.value)
        for found in record.parameters
        for name in found.targets
        for target in targets.get(name, ())
    ]
    return robot, nominal, targets, values


Array = NDArray[np.float64]

#: Draws for each sample that is wanted, until bounds are said to leave nothing.
_MOST_DRAWS = 10_000
#: Drawn models that MuJoCo refuses, for each one that is wanted, until there is an error.
_MOST_REFUSED = 10
#: A parameter is named when bounds refuse more than this part of its draws.
_MUCH = 0.01


@dataclass(frozen=True)
class Posterior:
    """Parameters of a model and what the data leave open: normal, within what is allowed."""

    parameters: tuple[ParameterResult, ...]  # all that are no starts of recordings, p of them
    #: What each of them writes; nothing for what is of recordings.
    targets: tuple[tuple[Target, ...], ...]
    columns: NDArray[np.int64]  # (k,) places of those with an interval
    covariance: Array  # (k, k) in their units
    bounds: Array  # (p, 2) what physics and the calibration allow

    @classmethod
    def of(cls, stored: Stored) -> Posterior:
        """Return what a result says.

        Raises:
            ResultError: It says nothing of how sure it is.
        """
        record = stored.record
        if record.inference is None:
            raise ResultError(
                f'Expected a result with a covariance, found none in {str(stored.path)!r}.'
            )
        whole = np.array(record.inference.covariance, dtype=np.float64)
        whole = whole.reshape(len(record.parameters), len(record.parameters))
        own = [i for i, p in enumerate(record.parameters) if not any(map(of_sequence, p.targets))]
        parameters = tuple(record.parameters[i] for i in own)
        variance = np.diag(whole)[own]
        ends = np.array([(p.low, p.high) for p in parameters]).reshape(-1, 2)
        known = np.isfinite(ends).all(axis=1) & np.isfinite(variance) & (variance > 0)
        columns = np.flatnonzero(known)
        if not len(columns):
            raise ResultError(f'No parameter of {str(stored.path)!r} has an interval to draw from.')
        rows = np.array(own)[columns]
        targets = tuple(
            tuple(target for path in p.targets for target in stored.targets.get(path, ()))
            for p in parameters
        )
        allowed = [
            np.array([p.bounds, *(target.bounds for target in of)])
            for p, of in zip(parameters, targets, strict=True)
        ]
        bounds = np.array([(ends[:, 0].max(), ends[:, 1].min()) for ends in allowed])
        return cls(parameters, targets, columns, whole[np.ix_(rows, rows)], bounds)

    def draws(self, seed: int) -> Iterator[tuple[Array, NDArray[np.bool_]]]:
        """Yield (p,) values without end, and (p,) which of them are out of their bounds."""
        rng = np.random.default_rng(seed)
        deviation = np.sqrt(np.diag(self.covariance))
        spread, vectors = np.linalg.eigh(self.covariance / np.outer(deviation, deviation))
        root = deviation[:, None] * vectors * np.sqrt(np.maximum(spread, 0.0))
        known = np.isin(np.arange(len(self.parameters)), self.columns)
        while True:
            values = np.array([p.value for p in self.parameters])
            values[self.columns] += root @ rng.standard_normal(len(root))
            yield values, known & ((values < self.bounds[:, 0]) | (values > self.bounds[:, 1]))


class Drawn(NamedTuple):
    """Models that were drawn."""

    files: list[str]  # names of the files, beside the main one
    values: Array  # (n, p) of the parameters
    beyond_bounds: int  # draws that were refused as some value was out of its bounds
    refused: int  # draws that were refused as they are no model that MuJoCo accepts
    by_parameter: dict[str, int]  # of parameters with values out of their bounds, in how many draws
    notes: list[str]  # what to know of them


def write_samples(stored: Stored, posterior: Posterior, main: Path, count: int, seed: int) -> Drawn:
    """Draw models and write each beside the identified one, whose main file is given.

    Raises:
        ResultError: Hardly any draw is a model.
    """
    files: list[str] = []
    values: list[Array] = []
    beyond, refused, drawn = 0, 0, 0
    often = np.zeros(len(posterior.parameters), int)
    reason = ''
    for own, out in posterior.draws(seed):
        if len(files) == count:
            break
        drawn += 1
        if drawn > _MOST_DRAWS * count or refused > _MOST_REFUSED * count:
            worst = posterior.parameters[int(often.argmax())].name
            why = reason.rstrip('.') or f'values of {worst} are hardly ever inside of their bounds'
            raise ResultError(
                f'Expected {count} samples, found {len(files)} in {drawn} draws, as {why}.'
            )
        if out.any():
            beyond += 1
            often += out
            continue
        given = [
            (target, float(value))
            for targets, value in zip(posterior.targets, own, strict=True)
            for target in targets
        ]
        held, biases = with_biases(stored.record, stored.robot, given)
        name = f'sample_{len(files):0{max(3, len(str(count - 1)))}}'
        try:
            path = write_variant(stored.robot, held, main, name, biases)
        except (ModelError, ParameterError) as err:
            refused, reason = refused + 1, str(err)
            continue
        files.append(path.name)
        values.append(own)
    names = [parameter.name for parameter in posterior.parameters]
    by_parameter = {name: int(times) for name, times in zip(names, often, strict=True) if times}
    notes = []
    if beyond or refused:
        notes.append(
            f'{drawn} draws: {beyond} refused and redrawn with values out of bounds, {refused} '
            'that MuJoCo accepts as no model.'
        )
    much = [name for name, times in by_parameter.items() if times > _MUCH * drawn]
    if much:
        notes.append(
            f'Bounds cut the ranges of {", ".join(much)}, so that samples spread less than the '
            'covariance says, and their means are off the values.'
        )
    fixed = [name for i, name in enumerate(names) if i not in posterior.columns]
    if fixed:
        notes.append(
            f'Without an interval, and in all samples at their values: {", ".join(fixed)}.'
        )
    return Drawn(files, np.array(values), beyond, refused, by_parameter, notes)


def samples_text(posterior: Posterior, drawn: Drawn) -> str:
    """Return CSV with the values of each parameter in each drawn model, in SI units."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator='\n')
    table.writerow(('file', *(parameter.name for parameter in posterior.parameters)))
    for file, values in zip(drawn.files, drawn.values, strict=True):
        table.writerow((file, *map(repr, values.tolist())))
    return text.getvalue()

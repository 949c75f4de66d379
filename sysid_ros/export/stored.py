# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A stored result together with the model that it is of."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import mujoco

from sysid_ros.errors import ModelError, ResultError
from sysid_ros.model.implied import add_actuators
from sysid_ros.model.loading import RobotModel, compile_spec, fitted_model, read_model
from sysid_ros.model.mjcf.write import biased
from sysid_ros.model.targets import Target, of_sequence, resolve
from sysid_ros.pipeline.estimators import with_biases
from sysid_ros.results.result import CalibrationResult
from sysid_ros.results.store import CURRENT, RESULT, find


class Stored(NamedTuple):
    """A stored result and its model.

    Attributes:
        path: ``result.json``.
        record: The result.
        robot: The model as read.
        nominal: What that compiles to.
        targets: What the paths of parameters stand for, without those of recordings.
        values: Targets and their values in SI units, without the offsets that biases stand for.
        biases: Actuators with the constant forces that they exert beside their commands'.
        fitted: The identified model.
    """

    path: Path
    record: CalibrationResult
    robot: RobotModel
    nominal: mujoco.MjModel
    targets: dict[str, tuple[Target, ...]]
    values: list[tuple[Target, float]]
    biases: dict[str, float]
    fitted: mujoco.MjModel


def load_stored(path: Path, model: Path | None = None) -> Stored:
    """Read a result, and its model again.

    Args:
        path: ``result.json``, or the folder that it is in, or one with a folder ``current``.
        model: Where the model is now; where it was unless given.

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

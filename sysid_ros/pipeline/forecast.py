# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What predicts recordings without a fit: a model as it is, or with what was found before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np

from sysid_ros.bags import BagColumns
from sysid_ros.config import CalibrationConfig, load_calibration, validate
from sysid_ros.config.calibration import Role
from sysid_ros.errors import ResultError
from sysid_ros.identification.observer import Observer
from sysid_ros.model.implied import add_actuators
from sysid_ros.model.loading import read_model
from sysid_ros.model.targets import of_sequence, resolve
from sysid_ros.model.unknown import Unknown
from sysid_ros.pipeline.estimators import Estimated, estimated
from sysid_ros.pipeline.problem import Problem, Subject, load
from sysid_ros.pipeline.timestep import stepped
from sysid_ros.pipeline.validation import Predictor
from sysid_ros.results.result import CalibrationResult
from sysid_ros.results.store import find

_YAML = frozenset({'.yaml', '.yml'})


class Forecaster(NamedTuple):
    """What predicts.

    Attributes:
        config: Which model it is, and how bags are read for it.
        result: What was found; None where the model predicts as it is.
    """

    config: CalibrationConfig
    result: CalibrationResult | None = None


def forecaster(path: Path) -> Forecaster:
    """Return what predicts by the name of a file.

    Args:
        path: A result.json or its folder; a calibration.yaml, with the result in its output where
            there is one; or an MJCF, URDF or xacro file, which predicts as it is.

    Raises:
        SysidError: It is none of these, or not valid.
    """
    if path.is_dir() or path.suffix == '.json':
        return of_result(path)
    if path.suffix in _YAML:
        return of_config(path)
    # A model alone has nothing to identify, which a configuration must.
    return Forecaster(CalibrationConfig.model_construct(model=path, bags=()))


def of_result(path: Path, config: CalibrationConfig | None = None) -> Forecaster:
    """Return what predicts with the values of a result.

    Args:
        path: The file, or its folder.
        config: Where the model is; as the result says unless given.

    Raises:
        ResultError: There is no result that can be read.
        ConfigError: Its configuration is not one.
    """
    place = find(path)
    result = CalibrationResult.load(place)
    if config is None:
        config = validate(CalibrationConfig, result.provenance.config, f'config in {place}')
        if not config.model.exists():
            raise ResultError(
                f'The model {str(config.model)!r} of the result {str(place)!r} is not there: '
                'expected to be called where the calibration was, or its calibration.yaml.'
            )
    return Forecaster(config, result)


def of_config(path: Path) -> Forecaster:
    """Return what predicts by a calibration.yaml and the result in its output, if there is one.

    Raises:
        ConfigError: The file is not valid.
        ResultError: There is a result, and it cannot be read.
    """
    config = load_calibration(path)
    place = find(config.output)
    return of_result(place, config) if place.is_file() else Forecaster(config)


class Known(NamedTuple):
    """Recordings read for a model, all of whose parameters are known.

    Attributes:
        recorded: The model and the recordings.
        seen: The same as the estimator compares them.
        predictor: The model with what was found.
        nominal: The model as its file has it.
    """

    recorded: Problem
    seen: Estimated
    predictor: Predictor
    nominal: Predictor


def known_problem(
    forecast: Forecaster,
    observer: Observer,
    look: Callable[[BagColumns, Role, mujoco.MjModel], None] | None = None,
) -> Known:
    """Read the bags of a configuration, with what was found at its values.

    Args:
        forecast: What predicts, with the bags of its configuration, all for training.
        observer: Is told of stages.
        look: Is shown the columns of each bag.

    Raises:
        SysidError: In one sentence, what is wrong with a bag, the model or the result.
    """
    config, result = forecast
    config = config.model_copy(update={'parameters': ()})
    subject = None
    if result is not None:
        config = config.model_copy(update={'estimator': result.solver.estimator.value})
        model = read_model(config.model, config.package_path)
        add_actuators(model.spec, result.implied_actuators)
        subject = Subject(model, {})
    problem = load(config, observer, look, subject)
    found = [] if result is None else result.parameters
    known = tuple(
        Unknown(target.path, (target,), parameter.value, parameter.value, parameter.value)
        for parameter in found
        for path in parameter.targets
        if not of_sequence(path)
        for target in resolve(path, problem.model, spec=problem.spec)
    )
    recorded = replace(problem, parameters=known)
    if result is not None and result.solver is not None and result.solver.timestep is not None:
        recorded = stepped(recorded, result.solver.timestep)
    seen = estimated(config, recorded)
    spec, threads = seen.problem.spec, config.solver.threads
    nominal = Predictor(spec, threads=threads, drives=problem.servos)
    values = np.array([unknown.nominal for unknown in known])
    predictor = nominal._replace(parameters=known, values=values) if known else nominal
    return Known(recorded, seen, predictor, nominal)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The true values that a simulated robot hides."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sysid_ros.config import read_yaml
from sysid_ros.errors import ConfigError, ParameterError
from sysid_ros.model.targets import Writer, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from sysid_ros.model.targets import Target


class TrueValue(NamedTuple):
    """One target and its true value, in the target's unit."""

    target: Target
    value: float


def load_truth(path: Path) -> dict[str, float]:
    """Read a YAML file of ``target: value``.

    Raises:
        ConfigError: The file cannot be read, or a value is not a finite number.
    """
    truth: dict[str, float] = {}
    for pattern, value in read_yaml(path).items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not math.isfinite(value):
            msg = f'Expected a number for {str(pattern)!r} in {str(path)!r}, found {value!r}.'
            raise ConfigError(msg)
        truth[str(pattern)] = float(value)
    return truth


def resolve_truth(model: mujoco.MjModel, truth: Mapping[str, float]) -> tuple[TrueValue, ...]:
    """Find what true values write; where two name the same target, the later wins.

    Raises:
        ParameterError: A target is unknown, or its value is impossible.
    """
    values: dict[str, TrueValue] = {}
    for pattern, value in truth.items():
        for target in resolve(pattern, model):
            lower, upper = target.bounds
            if not lower <= value <= upper:
                msg = f'Expected {pattern!r} between {lower:g} and {upper:g}, found {value:g}.'
                raise ParameterError(msg)
            if not (target.in_model or (target.in_mjcf and target.attribute == 'delay')):
                msg = (
                    f"Expected a number of the model or an actuator's delay, found {pattern!r}, "
                    'which a simulated robot cannot hide.'
                )
                raise ParameterError(msg)
            values[target.path] = TrueValue(target, value)
    return tuple(values.values())


def write_truth(
    model: mujoco.MjModel, values: tuple[TrueValue, ...], delays: NDArray[np.float64]
) -> None:
    """Write true values into a model, and those that no model has (delays) beside it.

    Args:
        model: The compiled model.
        values: What to write.
        delays: (nu,) seconds, written in place.
    """
    for target, value in values:
        if not target.in_model:
            delays[target.row] = value
    writer = Writer(model, [(target, column) for column, (target, _) in enumerate(values)])
    writer.write(model, np.array([value for _, value in values]))
    mujoco.mj_setConst(model, mujoco.MjData(model))

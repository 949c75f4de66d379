# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What drives joints by laws that MuJoCo lacks: forces that are computed between steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import mujoco
import numpy as np
from mujoco.batch import Batch
from numpy.typing import NDArray

from sysid_ros.errors import FitError, ParameterError
from sysid_ros.model.targets import Target, Unknown

#: How an actuator comes to be driven by a law, in a clause.
HOW = "expected the actuator under 'servos', with type and model, or params"


class Stepper(Protocol):
    """Steps simulations of one model with some unknowns.

    Attributes:
        fields: Fields of the model that it writes, each simulation having its own values.
    """

    fields: frozenset[str]

    def roll(
        self,
        batch: Batch,
        control: NDArray[np.float64],
        values: NDArray[np.float64],
        record: Mapping[Any, NDArray[np.float64]],
    ) -> None:
        """Simulate the first n simulations of a batch from the states that they are in.

        Args:
            batch: Its fields hold what else the candidates write.
            control: (n, steps, nu); those of driven actuators are goals.
            values: (n, p) values of the unknowns.
            record: What ``Batch.rollout`` may be asked to record, to the (n, steps, width) arrays
                that are filled in as it does: states after each step, sensors before it.
        """


class Drives(Protocol):
    """Which actuators of a model are driven by laws."""

    def prepared(self, model: mujoco.MjModel) -> mujoco.MjModel:
        """Return a copy of a compiled model whose driven actuators exert what they are told."""

    def stepper(self, model: mujoco.MjModel, written: Sequence[tuple[Target, int]]) -> Stepper:
        """Return what steps simulations of a prepared model, from targets and their columns.

        Raises:
            ParameterError: A target is a number of a law that its actuator does not have, or a
                number of the model that a law decides.
        """


def no_law(target: Target) -> ParameterError:
    """Return the error that an actuator is driven by no law."""
    return ParameterError(
        f'Target {target.path!r} is a number of a servo, and no servo drives actuator '
        f'{target.name!r}: {HOW}.'
    )


def check_compiled_once(unknowns: Sequence[Unknown], columns: Iterable[int]) -> None:
    """Check that the compiler reads none of some unknowns: laws between steps cannot follow it."""
    for column in columns:
        raise FitError(
            f'Parameter {unknowns[column].name!r} is read by the compiler: beside servos, expected '
            'parameters that are numbers of the compiled model.'
        )

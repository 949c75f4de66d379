# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where a fit starts: the nominal values, the equations of motion, or windows."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from sysid_ros.errors import FitError, nearest
from sysid_ros.estimation.solver.losses import cost
from sysid_ros.estimation.start.regression import not_applicable, regress
from sysid_ros.estimation.start.roughness import LOST, ROUGH, neighbour, roughness, roughness_at

if TYPE_CHECKING:
    import threading

    from numpy.typing import NDArray

    from sysid_ros.estimation.residuals import Residuals
    from sysid_ros.estimation.solver.least_squares import Solution, SolverSettings

Choice = Literal['auto', 'nominal', 'regression', 'windows']
CHOICES: tuple[Choice, ...] = get_args(Choice)

#: A start whose residuals are so many times the noise in the mean square needs no better one.
_NEAR = 4.0


@dataclass(frozen=True)
class Start:
    """Where a fit starts.

    Attributes:
        name: ``nominal``, ``regression``, ``windows`` or, of several starts, ``spread``.
        x: (p,) values.
        sentence: Where they are from, for people.
        rough: Whether full-length simulations from there say nothing about the parameters.
    """

    name: str
    x: NDArray[np.float64]
    sentence: str
    rough: bool = False


def check_choice(choice: str) -> None:
    """Check the name of a choice.

    Raises:
        FitError: There is none of this name.
    """
    if choice not in CHOICES:
        msg = f'There is no start {choice!r}; {nearest(choice, CHOICES)}.'
        raise FitError(msg)


def choose(
    residuals: Residuals,
    choice: Choice,
    settings: SolverSettings,
    cancel: threading.Event | None = None,
) -> Start:
    """Choose where to start.

    ``auto`` takes the solution of the equations of motion where its cost is less than that of the
    nominal values, unless these are near the optimum already.

    Args:
        residuals: The residual function.
        choice: What was asked for.
        settings: The loss.
        cancel: Ends it when it is set.

    Raises:
        CancelledError: ``cancel`` was set.
        FitError: A regression or windows were asked for, and the recordings do not allow them.
    """
    nominal = np.array([unknown.nominal for unknown in residuals.unknowns])
    here = Start('nominal', nominal, 'the nominal values')
    if choice == 'nominal':
        return here
    reason = _impossible(residuals)
    if reason is not None:
        if choice == 'auto':
            return here
        msg = f'Start {choice!r} is not possible: {reason}.'
        raise FitError(msg)
    first, rough, near = _judge(residuals, nominal, settings)
    if choice == 'auto' and near and not rough:
        return here
    found = regress(residuals.simulators[0], cancel)
    if isinstance(found, str):
        if choice == 'regression':
            msg = f'Start {choice!r} is not possible: {found}.'
            raise FitError(msg)
        return dataclasses.replace(here, rough=rough or choice == 'windows')
    there = Start('regression', found.x, found.sentence)
    if choice == 'regression':
        return there
    second, rough_there, near_there = _judge(residuals, found.x, settings)
    # On rough ground neither cost says anything, and nominal values that are far off may hide it.
    rough = rough_there or (rough and not near_there)
    best = there if second < first or rough else here
    return dataclasses.replace(best, rough=rough or choice == 'windows')


def _impossible(residuals: Residuals) -> str | None:
    """Return why neither equations of motion nor windows are possible, in a clause, or None."""
    if len(residuals.simulators) > 1:
        return 'the sequences are of several models'
    if residuals.exact.all():
        return 'no parameter acts on the motion'
    return not_applicable(residuals.simulators[0])


def _judge(
    residuals: Residuals, x: NDArray[np.float64], settings: SolverSettings
) -> tuple[float, bool, bool]:
    """Return the cost of a candidate, whether it is on rough ground, and whether it is near."""
    values = residuals(np.stack([x, neighbour(residuals, x, len(x))]))
    if residuals.unstable[0] or not np.all(np.isfinite(values)):
        return float('inf'), True, False
    there = cost(values[:, 0], settings.loss)
    rough = residuals.unstable[1] or roughness(residuals, values[:, 0], values[:, 1]) > ROUGH
    return there, bool(rough), 2 * there < _NEAR * len(values)


def is_doubtful(residuals: Residuals, solution: Solution) -> bool:
    """Return whether windows may tell more than a solution for whole sequences."""
    if _impossible(residuals) is not None:
        return False
    limit = ROUGH if solution.status == 'stalled' else LOST
    return roughness_at(residuals, solution.x, len(solution.x)) > limit

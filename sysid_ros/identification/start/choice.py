# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where a fit starts: the nominal values, the equations of motion, or windows."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from sysid_ros.errors import CancelledError, FitError, nearest
from sysid_ros.identification.prediction import make_simulator
from sysid_ros.identification.residuals import Residuals
from sysid_ros.identification.solver.least_squares import SolverSettings, solve
from sysid_ros.identification.solver.losses import cost
from sysid_ros.identification.start.regression import not_applicable, regress
from sysid_ros.identification.start.roughness import neighbour, roughness, roughness_at
from sysid_ros.identification.start.windows import Cutter

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    import mujoco
    from numpy.typing import NDArray

    from sysid_ros.identification.solver.least_squares import Solution

Choice = Literal['auto', 'nominal', 'regression', 'windows']
CHOICES: tuple[Choice, ...] = get_args(Choice)

#: A start whose residuals are so many times the noise in the mean square needs no better one.
_NEAR = 4.0
#: Ground is rough where a start that is a tenth off predicts nothing: see ``roughness``.
_ROUGH = 0.01
#: Values that fit parts of the data have smaller errors: they are lost where a thousandth counts.
_LOST = 1.0
#: The first windows are so long, s; each stage doubles that.
_SHORTEST = 0.25
#: A stage ends when the next step would be shorter than this, in standard errors of its own.
_STAGE_TOLERANCE = 1.0


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


@dataclass(frozen=True)
class WindowFit:
    """What growing windows led to.

    Attributes:
        residuals: Those of the longest windows whose ends still say something.
        solution: The rough solution for them.
        seconds: Their length.
        taken: Share of the data that is in them.
        leads: Whether whole sequences can be fitted from there.
    """

    residuals: Residuals
    solution: Solution
    seconds: float
    taken: float
    leads: bool = False


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
    rough = residuals.unstable[1] or roughness(residuals, values[:, 0], values[:, 1]) > _ROUGH
    return there, bool(rough), 2 * there < _NEAR * len(values)


def solve_in_windows(
    model: mujoco.MjModel | mujoco.MjSpec,
    residuals: Residuals,
    start: NDArray[np.float64],
    *,
    settings: SolverSettings,
    threads: int,
    keep: ExitStack,
    cancel: threading.Event | None = None,
) -> WindowFit | None:
    """Fit windows that grow until they are the whole sequences, or until motion becomes chaotic.

    Args:
        model: The nominal model.
        residuals: The whole problem.
        start: (p,) values.
        settings: Which solver, loss and limit, of each stage.
        threads: Simulation threads.
        keep: Closes the simulators that are still needed when it is left.
        cancel: Ends the solve when it is set.

    Returns:
        The last stage from whose end motion could still be predicted; None where there is none.

    Raises:
        CancelledError: ``cancel`` was set.
    """
    cutter = Cutter(residuals)
    count = len(start)
    x, best = start, None
    for seconds in _lengths(cutter.longest):
        windows = cutter.cut(seconds)
        if windows is None:
            continue
        with ExitStack() as opened:
            simulator = opened.enter_context(
                make_simulator(model, windows.unknowns, windows.sequences, threads)
            )
            part = Residuals(simulator, residuals.noise)
            residuals.also(part)
            begin = np.array([unknown.nominal for unknown in windows.unknowns])
            begin[:count] = x
            try:
                solution = solve(
                    part,
                    begin,
                    settings=settings,
                    tolerance=_STAGE_TOLERANCE,
                    rough=True,
                    cancel=cancel,
                )
            except CancelledError:
                raise
            except FitError:
                break
            if roughness_at(part, solution.x, count) > _ROUGH:
                break
            x = solution.x[:count]
            best = WindowFit(part, solution, seconds, windows.taken)
            keep.enter_context(opened.pop_all())
    return best and dataclasses.replace(best, leads=not is_lost(residuals, x))


def is_lost(residuals: Residuals, x: NDArray[np.float64]) -> bool:
    """Return whether a thousandth of the (p,) values decides where the simulations end."""
    return roughness_at(residuals, x, len(x)) > _LOST


def _lengths(longest: float) -> Iterator[float]:
    """Yield the lengths of windows, s: doubled as long as a sequence has room for two."""
    seconds = _SHORTEST
    while 2 * seconds <= longest:
        yield seconds
        seconds *= 2

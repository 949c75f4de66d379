# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where a fit starts, and the first solution, by whatever way leads there."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.calibration import StartChoice
from sysid_ros.errors import FitError, nearest
from sysid_ros.estimation.context import FitContext
from sysid_ros.estimation.noise import smallest_noise
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver.losses import cost
from sysid_ros.estimation.solver.solver import Solution, SolverSettings, attempt, with_steady_slopes
from sysid_ros.estimation.solver.staging import is_stuck, solve_in_stages
from sysid_ros.estimation.solver.starts import Attempt, solve_from
from sysid_ros.estimation.start.regression import not_applicable, regress
from sysid_ros.estimation.start.windows import (
    LOST,
    ROUGH,
    neighbour,
    roughness,
    roughness_at,
    solve_in_windows,
    spread_parts,
)

if TYPE_CHECKING:
    from sysid_ros.estimation.start.windows import GrownWindows


CHOICES: tuple[StartChoice, ...] = get_args(StartChoice)

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
        raise FitError(f'There is no start {choice!r}; {nearest(choice, CHOICES)}.')


def choose(
    residuals: Residuals,
    choice: StartChoice,
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
        raise FitError(f'Start {choice!r} is not possible: {reason}.')
    first, rough, near = _judge(residuals, nominal, settings)
    if choice == 'auto' and near and not rough:
        return here
    found = regress(residuals.simulators[0], cancel)
    if isinstance(found, str):
        if choice == 'regression':
            raise FitError(f'Start {choice!r} is not possible: {found}.')
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
    if residuals.simulators[0].prescribed:
        return 'the motion is prescribed, so that forces are compared from the beginning'
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


#: Weights that are to change are not worth more digits than these, in standard errors.
ROUGH_TOLERANCE = 1.0
#: Parts of long recordings lead to the neighbourhood of the optimum: so far from it, with so many
#: iterations. The first, which begins with the weights of the nominal values, is weighted again.
_PART_TOLERANCE, _PART_ITERATIONS, _PART_WEIGHTINGS = 1.0, 8, (2, 1)
#: They leave the time for the derivative of all data, which takes so many times its columns where
#: jumps are still to be looked for. The time of a simulation is taken from so many of the first
#: part.
_LOOKS_LEFT, _TIMED = 2.5, 4
#: Of several starts so many are solved, those with the least cost.
SOLVED_STARTS = 3
#: From this share of the data on, windows hold all of them.
_ALL = 0.999
#: Windows replace a doubtful solution where their mean square is below this part of its.
_CLEARLY = 0.5


@dataclass(frozen=True)
class FirstSolution:
    """A first solution, with weights that come from the measurements alone.

    Attributes:
        residuals: Of whole sequences, or of the windows that replace them.
        solution: A rough solution for them.
        start: Where it is from.
        attempts: What became of each start, where there were several.
        window: Length of the windows, s; None for whole sequences.
    """

    residuals: Residuals
    solution: Solution
    start: Start
    attempts: tuple[Attempt, ...] = ()
    window: float | None = None


def initialize(
    context: FitContext, residuals: Residuals, choice: StartChoice, *, windowed: bool = False
) -> FirstSolution:
    """Return the first solution from one start, by windows where that leads farther.

    Args:
        context: What all stages of the fit share.
        residuals: The whole problem.
        choice: Where to start.
        windowed: Whether to stay with windows, wherever they lead.

    Raises:
        CancelledError: The fit was cancelled.
        FitError: The choice is not possible, or nothing can be fitted.
    """
    _allow_for_misfit(context, residuals, _nominal(residuals))
    if windowed:
        return _in_windows(context, residuals, choice)
    start = choose(residuals, choice, context.settings, context.cancel)
    if start.rough and not context.is_late:
        windows = _by_windows(context, residuals, start, None)
        if windows is not None:
            return windows
    first = FirstSolution(residuals, _first(context, residuals, start), start)
    if choice != 'auto' or start.rough or context.is_late:
        return first
    if is_doubtful(residuals, first.solution):
        return _by_windows(context, residuals, start, first.solution) or first
    return first


def _in_windows(context: FitContext, residuals: Residuals, choice: StartChoice) -> FirstSolution:
    """Return the first solution for the longest windows over which motion can be predicted."""
    reason = _impossible(residuals)
    windows = None
    if reason is None:
        start = choose(residuals, choice, context.settings, context.cancel)
        windows = solve_in_windows(context, residuals, start.x)
        reason = 'the motion cannot be predicted over the shortest ones'
    if windows is None:
        raise FitError(f'Windows are not possible: {reason}.')
    return _resting_on(context, windows, start)


def _resting_on(context: FitContext, windows: GrownWindows, start: Start) -> FirstSolution:
    """Return windows as the first solution."""
    context.log.replace(windows.solution.trace)
    found = _led_by(windows, start)
    return FirstSolution(windows.residuals, windows.solution, found, window=windows.seconds)


def _led_by(windows: GrownWindows, start: Start) -> Start:
    """Return where windows lead to."""
    share = '' if windows.taken > _ALL else f', {100 * windows.taken:.0f} % of the data'
    sentence = f'windows of up to {windows.seconds:g} s{share}, from {start.sentence}'
    return Start('windows', windows.solution.x[: len(start.x)], sentence)


def resume(
    context: FitContext, residuals: Residuals, start: Start, begun: Solution | None
) -> FirstSolution | None:
    """Return the first solution from where another fit to the same data ended.

    Args:
        context: What all stages of the fit share.
        residuals: The whole problem.
        start: Its values.
        begun: Its solution, where it had the same unknowns.

    Returns:
        None where nothing can be solved from there.
    """
    _allow_for_misfit(context, residuals, start.x)
    solution = _solved(context, residuals, start.x, begun)
    return None if solution is None else FirstSolution(residuals, solution, start)


def _allow_for_misfit(
    context: FitContext, residuals: Residuals, start: NDArray[np.float64]
) -> None:
    """Widen first weights to what (p,) values leave, for losses that tell outliers by size.

    In units of the noise all that is left there would be outliers.
    """
    if context.settings.loss == 'linear':
        return
    found = residuals(start[None])[:, 0]
    if residuals.unstable[0] or not np.all(np.isfinite(found)):
        return
    ratio = residuals.spread(found, robust=True)
    residuals.set_noise(
        {
            sensor: sigma * (1.0 if sensor in context.known_noise else max(ratio[sensor], 1.0))
            for sensor, sigma in residuals.noise.items()
        }
    )


def initialize_from(
    context: FitContext, residuals: Residuals, choice: StartChoice, candidates: NDArray[np.float64]
) -> FirstSolution:
    """Return the first solution from several starts, the last of which is the chosen one.

    Args:
        context: What all stages of the fit share.
        residuals: The whole problem.
        choice: Where to start, beside the others.
        candidates: (count, p) starts.

    Raises:
        CancelledError: The fit was cancelled.
        FitError: The choice is not possible, or no start can be solved.
    """
    _allow_for_misfit(context, residuals, _nominal(residuals))
    start = choose(residuals, choice, context.settings, context.cancel)
    if start.name != 'nominal':
        candidates = np.concatenate([candidates[:-1], start.x[None]])
    best = solve_from(
        residuals,
        candidates,
        settings=context.settings,
        keep=SOLVED_STARTS,
        cancel=context.cancel,
        observe=context.log,
    )
    context.log.replace(best.solution.trace)
    spread = Start('spread', best.solution.x, f'the best of {len(candidates)} starts')
    return FirstSolution(residuals, best.solution, spread, best.attempts)


def _nominal(residuals: Residuals) -> NDArray[np.float64]:
    return np.array([unknown.nominal for unknown in residuals.unknowns])


def _by_windows(
    context: FitContext, residuals: Residuals, start: Start, known: Solution | None
) -> FirstSolution | None:
    """Return what windows lead to, whole sequences or themselves, if it is worth it.

    Args:
        context: What all stages of the fit share.
        residuals: The whole problem.
        start: Where from.
        known: A solution for whole sequences, if there is one.
    """
    windows = solve_in_windows(context, residuals, start.x)
    if windows is None:
        return None
    if known is not None:
        before, after = (
            each.cost / max(len(each.residual), 1) for each in (known, windows.solution)
        )
        if not after < _CLEARLY * before:
            return None
    if windows.leads and not context.is_late:
        found = _led_by(windows, start)
        whole = _solved(context, residuals, found.x)
        if (
            whole is not None
            and whole.success
            and roughness_at(residuals, whole.x, len(whole.x)) <= LOST
        ):
            better = known is None or whole.cost < known.cost
            return FirstSolution(residuals, whole, found) if better else None
    return _resting_on(context, windows, start)


def _first(context: FitContext, residuals: Residuals, start: Start) -> Solution:
    """Return a solution: straight from a good start, in stages from the nominal values.

    A good start that leads nowhere is given up for the nominal values; the better end counts.
    """
    led = _led_by_parts(context, residuals, start)
    if led is not None:
        good = _solved(context, residuals, led.x, led)
    else:
        good = None if start.name == 'nominal' else _solved(context, residuals, start.x)
    if good is not None and (context.is_late or not is_stuck(good)):
        return good
    staged = solve_in_stages(
        residuals,
        _nominal(residuals),
        settings=context.settings_left,
        tolerance=ROUGH_TOLERANCE,
        cancel=context.cancel,
        observe=context.log,
    )
    return staged if good is None or staged.cost < good.cost else good


def _led_by_parts(context: FitContext, residuals: Residuals, start: Start) -> Solution | None:
    """Return where parts from all over long recordings lead to; the weights become theirs.

    None where recordings are short, or what their parts say is not so of all.
    """
    if _impossible(residuals) is not None:
        return None
    last: Solution | None = None
    solved: Residuals | None = None
    noise, floors = residuals.noise, smallest_noise(residuals.runs)
    parts = spread_parts(residuals)
    each = _time_of_simulation(residuals, parts, start) if context.is_limited else 0.0
    for part in [p for p, n in zip(parts, _PART_WEIGHTINGS, strict=False) for _ in range(n)]:
        settings = dataclasses.replace(
            context.settings,
            rough=True,
            max_iterations=_PART_ITERATIONS,
            deadline=context.settings.deadline - each * _simulations_left(start, last),
        )
        if last is not None and time.monotonic() > settings.deadline:
            break
        if part is not solved:
            residuals.also(part)
            context.log.stage(f'starting on {len(part.runs)} windows from all over the recordings')
        part.set_noise(noise)
        found = attempt(
            part,
            start.x if last is None else last.x,
            settings=settings,
            tolerance=_PART_TOLERANCE,
            begun=last,
            cancel=context.cancel,
        )
        if isinstance(found, FitError):
            return None
        if context.is_limited and not found.jumps:
            # Over which steps slopes hold costs less here than on all data.
            found = with_steady_slopes(part, found, context.settings.loss)
        solved, last = part, found
        ratio = part.spread(found.residual, robust=context.settings.loss != 'linear')
        noise = noise | {
            sensor: max(noise[sensor] * ratio[sensor], floors[sensor])
            for sensor in ratio
            if sensor not in context.known_noise
        }
    if last is None:
        return None
    first = residuals.noise
    residuals.set_noise(noise)
    here, there = residuals(np.stack([start.x, last.x])).T
    if cost(there, context.settings.loss) < cost(here, context.settings.loss):
        return last
    residuals.set_noise(first)
    return None


def _time_of_simulation(residuals: Residuals, parts: Sequence[Residuals], start: Start) -> float:
    """Return how long a simulation of all data takes in a batch, s, from one of the first part."""
    if not parts:
        return 0.0
    began = time.monotonic()
    parts[0](np.tile(start.x, (_TIMED, 1)))
    larger = len(residuals.samples.time) / len(parts[0].samples.time)
    return (time.monotonic() - began) / _TIMED * larger


def _simulations_left(start: Start, last: Solution | None) -> float:
    """Return how many simulations of all data follow those of the parts."""
    count = 1 + len(start.x)
    if last is None or last.differences is None:
        return _LOOKS_LEFT * count
    return float(count + last.differences.central.sum() if last.jumps else _LOOKS_LEFT * count)


def _solved(
    context: FitContext,
    residuals: Residuals,
    x: NDArray[np.float64],
    begun: Solution | None = None,
) -> Solution | None:
    """Return a solution straight from (p,) values, None where it cannot begin."""
    found = attempt(
        residuals,
        x,
        settings=context.settings,
        tolerance=ROUGH_TOLERANCE,
        begun=begun,
        cancel=context.cancel,
        observe=context.log,
    )
    return None if isinstance(found, FitError) else found

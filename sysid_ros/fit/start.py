# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where a fit starts, and the first solution, by whatever way leads there.

There are three ways to begin: the equations of motion, windows that grow, and several starts spread
over the bounds.
"""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple, get_args

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.schema import StartChoice
from sysid_ros.errors import FitError, nearest
from sysid_ros.fit.context import FitContext
from sysid_ros.fit.differences import CLEARLY, ResidualLike, Variables
from sysid_ros.fit.forces import regress_forces
from sysid_ros.fit.linear import bounds_of
from sysid_ros.fit.motion import no_motion_shows, unmeasured
from sysid_ros.fit.regression import regress
from sysid_ros.fit.residuals import Residuals
from sysid_ros.fit.solver import (
    ROUGH_TOLERANCE,
    Iteration,
    Solution,
    SolverSettings,
    attempt,
    cost,
)
from sysid_ros.fit.windows import (
    LOST,
    ROUGH,
    UNEXPLAINED,
    GrownWindows,
    Judged,
    is_stuck,
    judged,
    parts_of,
    roughness_at,
    solve_in_stages,
    solve_in_windows,
    solve_part,
    unexplained,
    with_every_window,
)
from sysid_ros.model.targets import Unknown

Array = NDArray[np.float64]
CHOICES: tuple[StartChoice, ...] = get_args(StartChoice)

#: So many of the starts are solved, those with the least cost.
_KEPT = 3
#: Values of a kind that may be wrong by a factor are tried all multiplied by each of these.
_FACTORS = 10.0 ** np.linspace(-2, 2, 9)
#: Status of a start that was evaluated and not solved, and of one whose solve could not begin.
NOT_SOLVED = 'not solved'
FAILED = 'failed'


@dataclass(frozen=True)
class Attempt:
    """One start and what became of it."""

    start: Array  # (p,) values
    start_cost: float  # cost there
    unstable: bool  # whether the simulation was unstable there
    # The solution's word, 'not solved', or 'failed' where the solve could not begin.
    status: str
    cost: float  # cost at the end; NaN unless it was solved
    x: Array  # (p,) values at the end; the start unless it was solved


@dataclass(frozen=True)
class MultiStart:
    """The best solution, and all starts in the order of their costs at the start."""

    solution: Solution
    attempts: tuple[Attempt, ...]


def starts(unknowns: Sequence[Unknown], count: int, seed: int = 0) -> Array:
    """Spread starts over the bounds by a scrambled Sobol sequence; the first is the nominal one.

    Args:
        unknowns: What is sampled; a logarithmic one by its logarithm.
        count: Number of starts.
        seed: Of the sample.

    Returns:
        (count, p) values.

    Raises:
        FitError: The count is not positive, or bounds are not finite or, on a logarithmic scale,
            negative.
    """
    if count < 1:
        raise FitError(f'Expected at least one start, got {count}.')
    for unknown in unknowns:
        low, high, log = unknown.min_value, unknown.max_value, unknown.scale == 'log'
        if not np.isfinite([low, high]).all() or (log and low < 0):
            kind = 'finite and not negative' if log else 'finite'
            raise FitError(
                f'Starts are spread over the bounds, which are expected to be {kind}; those of '
                f'parameter {unknown.name!r} are [{low:g}, {high:g}].'
            )
    variables, size = Variables(unknowns), len(unknowns)
    nominal = np.array([[unknown.nominal for unknown in unknowns]])
    if count == 1:
        return nominal
    from scipy.stats import qmc  # noqa: PLC0415 (slow to import, and few fits need it)

    # Balance needs a power of two; what is beyond the count is left out.
    power = int(np.ceil(np.log2(count - 1)))
    drawn = qmc.Sobol(size, seed=np.random.default_rng(seed)).random_base2(power)[: count - 1]
    spread = variables.lower + np.asarray(drawn) * (variables.upper - variables.lower)
    return np.concatenate([nominal, [variables.values(z) for z in spread]])


def solve_from(
    residuals: ResidualLike,
    candidates: Array,
    *,
    settings: SolverSettings | None = None,
    cancel: threading.Event | None = None,
    observe: Callable[[Iteration], None] | None = None,
) -> MultiStart:
    """Evaluate (count, p) starts in one batch and solve from the best few of them.

    Raises:
        CancelledError: ``cancel`` was set.
        FitError: No start can be solved; the first one's reason.
    """
    settings = settings or SolverSettings()
    values = residuals(candidates)
    unstable = np.array(residuals.unstable)
    finite = np.all(np.isfinite(values), axis=0)
    costs = [cost(r, settings.loss) if np.isfinite(r).all() else np.inf for r in values.T]
    attempts: list[Attempt] = []
    solutions: list[Solution] = []
    reasons: list[FitError] = []
    for place, k in enumerate(np.lexsort((costs, unstable | ~finite)).tolist()):
        start = candidates[k].copy()
        found = Attempt(start, costs[k], bool(unstable[k]), NOT_SOLVED, math.nan, start)
        if place < _KEPT and (place == 0 or time.monotonic() <= settings.deadline):
            end = attempt(residuals, start, settings=settings, cancel=cancel, observe=observe)
            if isinstance(end, FitError):
                reasons.append(end)
                found = replace(found, status=FAILED)
            else:
                solutions.append(end)
                found = replace(found, status=end.status, cost=end.cost, x=end.x)
        attempts.append(found)
    if not solutions:
        raise reasons[0]
    return MultiStart(min(solutions, key=lambda solution: solution.cost), tuple(attempts))


class Start(NamedTuple):
    """Where a fit starts."""

    name: str  # 'nominal', 'regression', 'windows' or, of several starts, 'spread'
    x: Array  # (p,) values
    sentence: str  # where they are from, for people
    # (number of sequences,) where full-length simulations from there say nothing about the
    # parameters.
    rough: NDArray[np.bool_] = np.zeros(0, dtype=bool)


@dataclass(frozen=True)
class FirstSolution:
    """A first solution, with weights that come from the measurements alone."""

    residuals: Residuals  # of whole sequences, or of the windows that replace them
    solution: Solution  # a rough solution for them
    start: Start  # where it is from
    attempts: tuple[Attempt, ...] = ()  # what became of each start, where there were several
    window: float | None = None  # length of the windows, s; None for whole sequences


def check_choice(choice: str) -> None:
    """Check the name of a choice.

    Raises:
        FitError: There is none of this name.
    """
    if choice not in CHOICES:
        raise FitError(f'There is no start {choice!r}; {nearest(choice, CHOICES)}.')


def choose(context: FitContext, residuals: Residuals, choice: StartChoice) -> Start:
    """Choose where to start.

    ``auto`` takes the solution of the equations of motion where its cost is less than that of the
    nominal values, unless these are near the optimum already.

    Raises:
        FitError: A regression or windows were asked for, and the recordings do not allow them.
    """
    here = Start('nominal', _nominal(residuals), 'the nominal values')
    if choice == 'nominal':
        return here
    reason = _impossible(residuals)
    if reason is not None:
        if choice == 'auto':
            return here
        raise FitError(f'Start {choice!r} is not possible: {reason}.')
    first = judged(residuals, here.x)
    if choice == 'auto' and not first.rough.any():
        if context.led or _is_near(context, first):
            return here
        here = _scaled(context, residuals, here)
        first = judged(residuals, here.x)
    found = regress(context, residuals.simulators[0])
    if isinstance(found, str):
        if choice == 'regression':
            raise FitError(f'Start {choice!r} is not possible: {found}.')
        return here._replace(rough=first.rough | (choice == 'windows'))
    there = Start('regression', found.x, found.sentence)
    if choice == 'regression':
        return there
    second = judged(residuals, found.x)
    # What is rough at one of both may be hidden at the other one, unless that follows the motion.
    rough = first.rough | (second.rough & ~first.follows)
    rough_there = second.rough | (first.rough & ~second.follows)
    costs = [cost(each.residual, context.settings.loss) for each in (first, second)]
    if (rough_there.sum(), costs[1]) < (rough.sum(), costs[0]) or rough.all():
        here, rough = there, rough_there
    return here._replace(rough=rough | (choice == 'windows'))


def _nominal(residuals: Residuals) -> Array:
    return np.array([unknown.nominal for unknown in residuals.unknowns])


def _scaled(context: FitContext, residuals: Residuals, start: Start) -> Start:
    """Return a start with a common factor on the values of the kind that may be wrong by one most.

    Gains that are guesses, or in another unit, are often all wrong by the same factor.
    """
    kinds: dict[str, list[int]] = {}
    for column, unknown in enumerate(residuals.unknowns):
        if unknown.scale == 'log':
            kinds.setdefault(unknown.targets[0].attribute, []).append(column)
    tried = [('', 1.0), *product(kinds, _FACTORS.tolist())]
    candidates = np.tile(start.x, (len(tried), 1))
    for candidate, (kind, factor) in zip(candidates, tried, strict=True):
        candidate[kinds.get(kind, [])] *= factor
    candidates = np.clip(candidates, *bounds_of(residuals.unknowns))
    values = residuals(candidates)
    values[:, residuals.unstable] = np.inf
    costs = [cost(r, context.settings.loss) for r in values.T]
    best = int(np.argmin(costs))
    if not best:
        return start
    kind, factor = tried[best]
    sentence = f'{start.sentence}, all {kind} times {factor:.2g}'
    return start._replace(x=candidates[best], sentence=sentence)


def _impossible(residuals: Residuals) -> str | None:
    """Return why neither equations of motion nor windows are possible, in a clause, or None."""
    if len(residuals.simulators) > 1:
        return 'the sequences are of several models'
    if residuals.simulators[0].prescribed:
        return 'the motion is prescribed, so that forces are compared from the beginning'
    if residuals.exact.all():
        return 'no parameter acts on the motion'
    (simulator,) = residuals.simulators
    return no_motion_shows(simulator.model) or unmeasured(simulator.model, simulator.runs)


def _floats(residuals: Residuals) -> bool:
    """Return whether a body floats: what it touches makes its motion hard to predict for long."""
    (simulator,) = residuals.simulators
    is_free = simulator.model.jnt_type == mujoco.mjtJoint.mjJNT_FREE
    return bool(np.any(is_free) and simulator.runs[0].forces is None)


def _is_near(context: FitContext, found: Judged) -> bool:
    """Return whether what a candidate leaves is of the size of the noise."""
    left = found.residual
    return bool(
        np.all(np.isfinite(left)) and 2 * cost(left, context.settings.loss) < CLEARLY * len(left)
    )


def initialize(
    context: FitContext, residuals: Residuals, choice: StartChoice, *, windowed: bool = False
) -> FirstSolution:
    """Return the first solution from one start, by windows where that leads farther.

    ``windowed`` stays with windows, wherever they lead.

    Raises:
        FitError: The choice is not possible, or nothing can be fitted.
    """
    _allow_for_misfit(context, residuals, _nominal(residuals))
    reason = _impossible(residuals)
    if windowed and reason is not None:
        raise FitError(f'Windows are not possible: {reason}.')
    start = choose(context, residuals, choice)
    if windowed or (choice == 'auto' and reason is None and _floats(residuals)):
        windows = solve_in_windows(context, residuals, start.x)
        if windows is not None:
            return _resting_on(context, residuals, windows, start)
        if windowed:
            raise FitError(
                'Windows are not possible: the motion cannot be predicted over the shortest ones.'
            )
    rough = bool(start.rough.any())
    if rough and not start.rough.all() and not context.is_late:
        start = led_by_smooth(context, residuals, start)
        rough = bool(start.rough.any())
    if rough and not context.is_late:
        found = _by_windows(context, residuals, start, None)
        if found is not None:
            return found
    solution = _solved_whole(context, residuals, start)
    first = FirstSolution(residuals, solution, start)
    if choice != 'auto' or rough or context.is_late or reason is not None:
        return first
    # Windows may tell more than a solution for whole sequences.
    limit = ROUGH if solution.status == 'stalled' else LOST
    if roughness_at(residuals, solution.x, len(solution.x)) > limit:
        return _by_windows(context, residuals, start, solution) or first
    return first


def led_by_smooth(context: FitContext, residuals: Residuals, start: Start) -> Start:
    """Return where the sequences lead to on which simulations say something at a start."""
    smooth = _smooth(residuals, start.rough)
    last: Solution | None = None
    for part in parts_of(smooth) or [smooth]:
        residuals.also(part)
        x = start.x if last is None else last.x
        settings = context.rough_settings
        # Values that serve chaotic recordings, too, are known better than roughly.
        last = solve_part(part, x, settings, settings.accuracy, context.cancel, last) or last
    if last is None:
        return start
    return start._replace(x=last.x, rough=judged(residuals, last.x, LOST).rough)


def lead_from(context: FitContext, residuals: Residuals) -> Start | None:
    """Return where a fit to few data starts; None where simulations from there say nothing."""
    _allow_for_misfit(context, residuals, _nominal(residuals))
    if _impossible(residuals) is not None:
        return None
    start = choose(context, residuals, 'auto')
    return None if start.rough.all() else start


def lead(context: FitContext, residuals: Residuals, start: Start) -> Start | None:
    """Return where few data lead to straight, those that are smooth at a start."""
    smooth = _smooth(residuals, start.rough) if start.rough.any() else residuals
    solution = context.attempt(smooth, start.x)
    return None if solution is None else start._replace(x=solution.x)


def _smooth(residuals: Residuals, rough: NDArray[np.bool_]) -> Residuals:
    """Return the residuals of the sequences that are not rough."""
    (simulator,) = residuals.simulators
    runs = zip(simulator.runs, rough, strict=True)
    return residuals.of([[run.sequence for run, is_rough in runs if not is_rough]])


def initialize_from(
    context: FitContext, residuals: Residuals, choice: StartChoice, candidates: Array
) -> FirstSolution:
    """Return the first solution from several starts, the last of which is the chosen one.

    Raises:
        FitError: The choice is not possible, or no start can be solved.
    """
    _allow_for_misfit(context, residuals, _nominal(residuals))
    start = choose(context, residuals, choice)
    if start.name != 'nominal':
        candidates = np.concatenate([candidates[:-1], start.x[None]])
    best = solve_from(
        residuals, candidates, settings=context.settings, cancel=context.cancel, observe=context.log
    )
    context.log.replace(best.solution.trace)
    spread = Start('spread', best.solution.x, f'the best of {len(candidates)} starts')
    return FirstSolution(residuals, best.solution, spread, best.attempts)


def resume(
    context: FitContext, residuals: Residuals, start: Start, begun: Solution | None
) -> FirstSolution | None:
    """Return the first solution from where another fit to the same data ended.

    It is None where nothing can be solved from there. ``begun`` is the solution of that fit, where
    it had the same unknowns.
    """
    _allow_for_misfit(context, residuals, start.x)
    solution = context.attempt(residuals, regress_forces(context, residuals, start.x), begun)
    return None if solution is None else FirstSolution(residuals, solution, start)


def _allow_for_misfit(context: FitContext, residuals: Residuals, start: Array) -> None:
    """Widen first weights to what a fit to few data leaves, for losses that tell outliers by size.

    In units of the noise all that is left would be outliers, and in units of what (p,) start values
    leave, none: the few data are fitted with these.
    """
    if context.settings.loss == 'linear':
        return
    least = residuals.noise
    _widen(context, residuals, residuals, start, least)
    for few in parts_of(residuals)[:1]:
        residuals.also(few)
        settings = context.rough_settings
        solution = solve_part(few, start, settings, ROUGH_TOLERANCE, context.cancel)
        if solution is not None:
            _widen(context, residuals, few, solution.x, least)


def _widen(
    context: FitContext, residuals: Residuals, some: Residuals, x: Array, least: Mapping[str, float]
) -> None:
    """Widen weights to what (p,) values leave of some of the data, from what they are at least."""
    found = some(x[None])[:, 0]
    if some.unstable[0] or not np.all(np.isfinite(found)):
        return
    wide = {s: some.noise[s] * ratio for s, ratio in some.spread(found, robust=True).items()}
    free = wide.keys() - context.known_noise
    residuals.set_noise({**residuals.noise, **{s: max(wide[s], least[s]) for s in free}})


def _by_windows(
    context: FitContext, residuals: Residuals, start: Start, known: Solution | None
) -> FirstSolution | None:
    """Return what windows lead to, whole sequences or themselves, if it is worth it.

    ``known`` is a solution for whole sequences, if there is one.
    """
    windows = solve_in_windows(context, residuals, start.x)
    if windows is None:
        return None
    if known is not None:
        before, after = (each.cost / len(each.residual) for each in (known, windows.solution))
        if CLEARLY * after >= before:
            return None
    if windows.leads and not context.is_late:
        found = _led_by(windows, start)
        whole = context.attempt(residuals, found.x)
        if (
            whole is not None
            and whole.success
            and roughness_at(residuals, whole.x, len(whole.x)) <= LOST
            # A robot that has fallen moves smoothly, too.
            and unexplained(residuals, whole.x) <= UNEXPLAINED
        ):
            better = known is None or whole.cost < known.cost
            return FirstSolution(residuals, whole, found) if better else None
    return _resting_on(context, residuals, windows, start)


def _resting_on(
    context: FitContext, residuals: Residuals, windows: GrownWindows, start: Start
) -> FirstSolution:
    """Return windows, all that there are, as the first solution."""
    windows = with_every_window(context, residuals, start.x, windows)
    context.log.replace(windows.solution.trace)
    found = _led_by(windows, start)
    return FirstSolution(windows.residuals, windows.solution, found, window=windows.seconds)


def _led_by(windows: GrownWindows, start: Start) -> Start:
    """Return where windows lead to."""
    share = '' if windows.taken == 1 else f', {100 * windows.taken:.0f} % of the data'
    sentence = f'windows of up to {windows.seconds:g} s{share}, from {start.sentence}'
    return Start('windows', windows.solution.x[: len(start.x)], sentence)


def _solved_whole(context: FitContext, residuals: Residuals, start: Start) -> Solution:
    """Return a solution: straight from a good start, in stages from the nominal values.

    A good start that leads nowhere is given up for the nominal values; the better end counts.
    """
    good = None
    if start.name != 'nominal' or context.led:
        # Few data tell steps of differences, and which of them may be made together.
        learnt = None
        for few in parts_of(residuals)[:1]:
            residuals.also(few)
            settings = dataclasses.replace(context.rough_settings, max_iterations=0)
            learnt = solve_part(few, start.x, settings, ROUGH_TOLERANCE, context.cancel)
        if context.led:  # what is left there is what the model lacks rather than noise
            _widen(context, residuals, residuals, start.x, residuals.noise)
        good = context.attempt(residuals, start.x, learnt)
    if good is not None and (context.is_late or context.led or not is_stuck(good)):
        return good
    staged = solve_in_stages(
        residuals,
        regress_forces(context, residuals, _nominal(residuals)),
        settings=context.rough_settings,
        tolerance=ROUGH_TOLERANCE,
        cancel=context.cancel,
        observe=context.log,
    )
    return staged if good is None or staged.cost < good.cost else good

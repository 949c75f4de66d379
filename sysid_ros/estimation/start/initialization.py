# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The first solution of a fit, by whatever way leads there."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.errors import CancelledError, FitError
from sysid_ros.estimation.solver.least_squares import solve
from sysid_ros.estimation.solver.staging import solve_in_stages
from sysid_ros.estimation.solver.starts import solve_from
from sysid_ros.estimation.start.choice import Choice, Start, choose, is_doubtful
from sysid_ros.estimation.start.growing_windows import solve_in_windows

if TYPE_CHECKING:
    import threading
    from contextlib import ExitStack

    import mujoco
    from numpy.typing import NDArray

    from sysid_ros.estimation.fit_log import Log
    from sysid_ros.estimation.residuals import Residuals
    from sysid_ros.estimation.solver.least_squares import Solution, SolverSettings
    from sysid_ros.estimation.solver.starts import Attempt
    from sysid_ros.estimation.start.growing_windows import WindowFit

#: Weights that are to change are not worth more digits than these, in standard errors.
ROUGH_TOLERANCE = 0.1
#: Of several starts so many are solved, those with the least cost.
SOLVED_STARTS = 3
#: From this share of the data on, windows hold all of them.
_ALL = 0.999
#: Windows replace a doubtful solution where their mean square is below this part of its.
_CLEARLY = 0.5


@dataclass(frozen=True)
class Begin:
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


@dataclass(frozen=True)
class Beginning:
    """How a first solution is sought.

    Attributes:
        model: The nominal model.
        residuals: The whole problem.
        settings: Which solver, loss and limit.
        threads: Simulation threads.
        keep: Closes what windows were simulated with when it is left.
        log: Is told of every iteration on all data.
        cancel: Ends it when it is set.
    """

    model: mujoco.MjModel | mujoco.MjSpec
    residuals: Residuals
    settings: SolverSettings
    threads: int
    keep: ExitStack
    log: Log
    cancel: threading.Event | None = None

    def find(self, choice: Choice) -> Begin:
        """Return the first solution from one start, by windows where that leads farther.

        Args:
            choice: Where to start.

        Raises:
            CancelledError: The fit was cancelled.
            FitError: The choice is not possible, or nothing can be fitted.
        """
        start = choose(self.residuals, choice, self.settings, self.cancel)
        if start.rough:
            windows = self._by_windows(start, None)
            if windows is not None:
                return windows
        first = Begin(self.residuals, self._first(start), start)
        if choice == 'auto' and not start.rough and is_doubtful(self.residuals, first.solution):
            return self._by_windows(start, first.solution) or first
        return first

    def find_best(self, choice: Choice, candidates: NDArray[np.float64]) -> Begin:
        """Return the first solution from several starts, the last of which is the chosen one.

        Args:
            choice: Where to start, beside the others.
            candidates: (count, p) starts.

        Raises:
            CancelledError: The fit was cancelled.
            FitError: The choice is not possible, or no start can be solved.
        """
        start = choose(self.residuals, choice, self.settings, self.cancel)
        if start.name != 'nominal':
            candidates = np.concatenate([candidates[:-1], start.x[None]])
        best = solve_from(
            self.residuals,
            candidates,
            settings=self.settings,
            keep=SOLVED_STARTS,
            cancel=self.cancel,
            observe=self.log,
        )
        self.log.replace(best.solution.trace)
        spread = Start('spread', best.solution.x, f'the best of {len(candidates)} starts')
        return Begin(self.residuals, best.solution, spread, best.attempts)

    def _by_windows(self, start: Start, known: Solution | None) -> Begin | None:
        """Return what windows lead to, whole sequences or themselves, if it is worth it.

        Args:
            start: Where from.
            known: A solution for whole sequences, if there is one.
        """
        windows = solve_in_windows(
            self.model,
            self.residuals,
            start.x,
            settings=self.settings,
            threads=self.threads,
            keep=self.keep,
            cancel=self.cancel,
        )
        if windows is None or not _is_better(windows, known):
            return None
        share = '' if windows.taken > _ALL else f', {100 * windows.taken:.0f} % of the data'
        sentence = f'windows of up to {windows.seconds:g} s{share}, from {start.sentence}'
        found = Start('windows', windows.solution.x[: len(start.x)], sentence)
        if windows.leads:
            whole = self._solved(found.x)
            if whole is not None and whole.success:
                better = known is None or whole.cost < known.cost
                return Begin(self.residuals, whole, found) if better else None
        self.log.replace(windows.solution.trace)
        return Begin(windows.residuals, windows.solution, found, window=windows.seconds)

    def _first(self, start: Start) -> Solution:
        """Return a solution: straight from a good start, in stages from the nominal values.

        A good start that leads nowhere is given up for the nominal values; the better end counts.
        """
        good = None if start.name == 'nominal' else self._solved(start.x)
        if good is not None and good.status != 'stalled':
            return good
        left = max(self.settings.max_iterations - len(self.log.trace), 1)
        staged = solve_in_stages(
            self.residuals,
            np.array([unknown.nominal for unknown in self.residuals.unknowns]),
            settings=dataclasses.replace(self.settings, max_iterations=left),
            tolerance=ROUGH_TOLERANCE,
            cancel=self.cancel,
            observe=self.log,
        )
        return staged if good is None or staged.cost < good.cost else good

    def _solved(self, x: NDArray[np.float64]) -> Solution | None:
        """Return a solution straight from (p,) values, None where it cannot begin."""
        try:
            return solve(
                self.residuals,
                x,
                settings=self.settings,
                tolerance=ROUGH_TOLERANCE,
                cancel=self.cancel,
                observe=self.log,
            )
        except CancelledError:
            raise
        except FitError:
            return None


def _is_better(windows: WindowFit, known: Solution | None) -> bool:
    """Return whether windows explain clearly more than a solution for whole sequences, if any."""
    if known is None:
        return True
    before, after = (each.cost / max(len(each.residual), 1) for each in (known, windows.solution))
    return after < _CLEARLY * before

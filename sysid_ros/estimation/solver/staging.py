# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A fit begun on part of the data: far from the optimum, most of them say the same."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import FitError
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver.losses import cost
from sysid_ros.estimation.solver.solver import (
    LIMITS,
    FitLog,
    Iteration,
    Solution,
    SolverSettings,
    attempt,
    interrupt,
    solve,
)
from sysid_ros.signals import TimeSeries
from sysid_ros.signals.trajectory import Trajectory

#: The stages before the last take so many of the sequences, or every fifth where that is more.
_FEW = 4
_STRIDE = 5
#: The stages before the last take the beginnings of sequences, these shares of their lengths: the
#: cost of short motions has fewer false minima, and their simulations cost less.
_SHARES = (0.1, 0.2, 0.4)
#: A fit whose end is doubtful is made again in more and finer stages, which take longer: it
#: stalled, or its residuals are so many times larger in the mean square than the noise.
_PATIENT_SHARES = (0.1, 0.2, 0.4, 0.6, 0.8)
_PATIENT_ROUGH = 1.0
_DOUBTFUL = 1.15
#: They say nothing of the end where the shortest part has this much of what they are above noise.
_FROM_THE_FIRST = 0.25
#: Residuals with this part of the noise's squares are not those of exact data.
_NOISY = 0.1
#: The sum of so many squares is larger by chance, by so many standard deviations at most.
_CHANCE = 3.0
#: A stage has so many residuals for each unknown at least, or it is left out.
_RESIDUALS_PER_UNKNOWN = 20
#: With a lower limit of iterations, all of them are on all data.
_FEWEST_ITERATIONS = 10
#: A solve has not arrived where its slopes promise this part of its cost.
_PROMISED = 0.01
#: Kind of the Jacobian in the trace's first entry: the step from there was found on parts.
PARTS = 'parts'
#: A stage ends when the next step would be shorter than this, in standard errors of its own.
_ROUGH = 4.0


def solve_in_stages(
    residuals: Residuals,
    start: NDArray[np.float64],
    *,
    settings: SolverSettings | None = None,
    tolerance: float | None = None,
    noise_known: bool = False,
    cancel: threading.Event | None = None,
    observe: Callable[[Iteration], None] | None = None,
) -> Solution:
    """Find the least cost, first on parts of the data, from there on all of them.

    The parts only find a start, which serves where it costs less than the one given. Should all
    data then end above the cost of that one, they are fitted from it, too, and the better solution
    counts. An end that is doubtful is compared with that of more stages; a part that is not
    explained is followed by those at once.

    Args:
        residuals: The residual function.
        start: (p,) start values.
        settings: Which solver, loss and limit, of all stages together.
        tolerance: Largest predicted step at the end, in standard errors; the settings' accuracy
            unless given.
        noise_known: Whether residuals that are larger than the noise cast doubt on the end.
        cancel: Ends the solve when it is set.
        observe: Called after every iteration on all data.

    Returns:
        The solution for all data. The trace's first entry is the start given, with the cost of
        all data; the next is where the parts led to. Totals are those of all stages.

    Raises:
        CancelledError: ``cancel`` was set.
        FitError: The solve cannot begin; see `solve`.
    """
    settings = settings or SolverSettings()
    parts = parts_of(residuals) if settings.max_iterations >= _FEWEST_ITERATIONS else []
    if not parts:
        return solve(
            residuals,
            start,
            settings=settings,
            tolerance=tolerance,
            cancel=cancel,
            observe=observe,
        )
    interrupt(cancel)
    before = residuals.evaluations
    stages = _Stages(residuals, start, settings, tolerance, noise_known, cancel, observe)
    best = stages.solve(parts, _ROUGH)
    if best is None or (best.status != 'time' and stages.doubted(best, parts[0])):
        again = stages.solve(parts_of(residuals, _PATIENT_SHARES), _PATIENT_ROUGH)
        best = min(filter(None, (best, again)), key=lambda each: each.cost)
    if best.cost > stages.at_start:
        best = min((best, stages.solve_all(start, None)), key=lambda each: each.cost)
    trace = tuple(stages.log.trace)
    return dataclasses.replace(
        best,
        trace=trace,
        iterations=len(trace) - 1,
        evaluations=residuals.evaluations - before,
    )


class _Stages:
    """Solves on parts of the data, and from there on all of them.

    Attributes:
        log: The iterations on all data.
        at_start: Cost of all data at the start.
    """

    def __init__(
        self,
        residuals: Residuals,
        start: NDArray[np.float64],
        settings: SolverSettings,
        tolerance: float | None,
        noise_known: bool,
        cancel: threading.Event | None,
        observe: Callable[[Iteration], None] | None,
    ) -> None:
        self._residuals = residuals
        self._start = start
        self._settings = settings
        self._tolerance = tolerance
        self._noise_known = noise_known
        self._cancel = cancel
        self.log = FitLog(observe)
        before = residuals.evaluations
        self.at_start = self._cost(start)
        self.log(
            Iteration(
                0,
                self.at_start,
                0.0,
                residuals.evaluations - before,
                residuals.diverged,
                0.0,
                jacobian=PARTS,
                x=tuple(start.tolist()),
            )
        )

    def _cost(self, x: NDArray[np.float64]) -> float:
        return cost(self._residuals(x[None])[:, 0], self._settings.loss)

    def solve_all(self, x: NDArray[np.float64], begun: Solution | None) -> Solution:
        """Solve on all data."""
        left = max(self._settings.max_iterations - len(self.log.trace), 1)
        return solve(
            self._residuals,
            x,
            settings=dataclasses.replace(self._settings, max_iterations=left),
            tolerance=self._tolerance,
            begun=begun,
            cancel=self._cancel,
            observe=self.log,
        )

    def solve(self, parts: list[Residuals], rough: float) -> Solution | None:
        """Solve on one part after the other, each down to a step in standard errors, then on all.

        Returns:
            The solution for all data; None where a part is not explained, unless in fine stages.
        """
        for part in parts:
            self._residuals.also(part)
        last: Solution | None = None
        for part in parts:
            if last is not None and rough > _PATIENT_ROUGH and self._is_false(last):
                return None
            found = attempt(
                part,
                self._start if last is None else last.x,
                settings=dataclasses.replace(self._settings, rough=True),
                tolerance=rough,
                begun=last,
                cancel=self._cancel,
            )
            last = last if isinstance(found, FitError) else found
        if last is not None and self._cost(last.x) > self.at_start:
            last = None  # what parts say is not so of all
        return self.solve_all(self._start if last is None else last.x, last)

    def doubted(self, solution: Solution, beginning: Residuals) -> bool:
        """Return whether finer stages may end elsewhere.

        No step lowered the cost although its slope is not zero; where the noise is known, that is
        rather beside one of the many ridges that chaotic motion gives the cost. Or residuals are
        larger than known noise. But where they are larger from the beginning on, the model lacks
        something, as it will at every end: another motion is wrong the more the longer it takes.

        Args:
            solution: For all data.
            beginning: The residuals of the shortest part.
        """
        ridge = solution.status in {'cost', 'stalled'}
        ridge = ridge and 2 * solution.cost > _NOISY * len(solution.residual)
        false = self._is_false(solution)
        if not (is_stuck(solution) or false or (self._noise_known and ridge)):
            return False
        begun = beginning(solution.x[None])[:, 0]
        first = 2 * cost(begun, self._settings.loss) / len(begun) - 1
        whole = 2 * solution.cost / len(solution.residual) - 1
        return not (_is_large(solution) and first > _FROM_THE_FIRST * whole)

    def _is_false(self, solution: Solution) -> bool:
        return self._noise_known and _is_large(solution)


def _is_large(solution: Solution) -> bool:
    """Return whether residuals are larger than noise of one makes so many of them."""
    count = len(solution.residual)
    return 2 * solution.cost > _DOUBTFUL * count + _CHANCE * math.sqrt(2 * count)


def is_stuck(solution: Solution) -> bool:
    """Return whether a solve ended where it should not; a cost that jumps holds any solve up.

    Slopes there promise far less cost: no step has it, or bounds are in the way, which no true
    value is beyond. Where they promise little, the solve has arrived.
    """
    if solution.jumps or solution.status in LIMITS:
        return False
    sizes = np.linalg.norm(solution.jacobian, axis=0)
    unit = solution.jacobian / np.where(sizes > 0, sizes, 1.0)
    pull = solution.gradient / np.where(sizes > 0, sizes, 1.0)
    promised = 0.5 * float(pull @ np.linalg.pinv(unit.T @ unit, hermitian=True) @ pull)
    return promised > _PROMISED * solution.cost


def parts_of(residuals: Residuals, shares: tuple[float, ...] = _SHARES) -> list[Residuals]:
    """Return the residuals of growing parts of the data, none where all together are few."""
    if residuals.exact.all() or any(simulator.prescribed for simulator in residuals.simulators):
        return []
    stride = min(max(len(residuals.runs) // _FEW, 1), _STRIDE)
    chosen = [
        [run.sequence for run in simulator.runs[::stride]] for simulator in residuals.simulators
    ]
    needed = _RESIDUALS_PER_UNKNOWN * len(residuals.unknowns)
    parts = []
    for share in shares:
        begun = [[_begun(sequence, share) for sequence in own] for own in chosen]
        count = sum(
            np.isfinite(series.data).sum()
            for own in begun
            for sequence in own
            for series in sequence.measurements
        )
        if count >= needed:
            with contextlib.suppress(FitError):  # nothing moves so early
                parts.append(residuals.of(begun))
    return parts


def _begun(sequence: Trajectory, share: float) -> Trajectory:
    """Return the beginning of a sequence."""
    end = share * sequence.duration
    kept = [(series, series.times <= end) for series in sequence.measurements]
    return dataclasses.replace(
        sequence,
        measurements=tuple(
            TimeSeries(series.times[inside], series.data[inside], series.signal_mapping)
            for series, inside in kept
        ),
    )

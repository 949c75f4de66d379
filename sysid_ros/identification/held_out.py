# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""When the commands of recordings acted that were not fitted."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Sequence
from contextlib import ExitStack

import mujoco
import numpy as np

from sysid_ros.errors import CancelledError, FitError
from sysid_ros.estimation.context import FitContext
from sysid_ros.estimation.nuisances import Unknowns, command_timings
from sysid_ros.estimation.solver import ROUGH_TOLERANCE, FitLog, SolverSettings
from sysid_ros.estimation.start import FirstSolution, Start
from sysid_ros.identification.fit import Fit, solve_weighted
from sysid_ros.signals.trajectory import Trajectory


def with_arrivals_in(
    found: Fit,
    model: mujoco.MjModel | mujoco.MjSpec,
    sequences: Sequence[Trajectory],
    *,
    threads: int = 0,
    cancel: threading.Event | None = None,
    deadline: float = math.inf,
) -> Fit:
    """Return a fit that knows when the commands of other sequences acted, too.

    A command that came late bends the motion in any recording, and says nothing about the model.
    Where a fit found errors of its commands' arrival, they are found in recordings held out as
    well, by the same probabilities, with all values as they were found. The noise is that which
    these residuals have, falling from round to round: with what the fit found, a message that is
    far too late would not come to its place.

    Args:
        found: What was fitted to other sequences.
        model: That it was fitted with.
        sequences: What is held out.
        threads: Simulation threads; 0 means one per core.
        cancel: Ends it when it is set.
        deadline: When it is to be done, in ``time.monotonic()``.

    Returns:
        The fit itself where it found no such errors, or where these tell nothing.

    Raises:
        CancelledError: ``cancel`` was set.
    """
    timings = command_timings(sequences, found.parameters)
    if not timings or not found.arrival_errors:
        return found
    fixed = [
        dataclasses.replace(unknown, nominal=float(value))
        for unknown, value in zip(found.unknowns, found.values, strict=True)
        if not unknown.of_single_runs
    ]
    settings = SolverSettings(deadline=deadline)
    known = {sensor: found.noise[sensor] for sensor in found.known_noise}
    with ExitStack() as opened:
        log = FitLog(None)
        context = FitContext(
            model, settings, log, known, None, found.drives, threads, cancel, opened
        )
        simulator = context.simulator((*timings, *fixed), sequences)
        try:
            residuals = context.residuals(simulator, found.noise, unknowns=timings)
            start = np.array([unknown.nominal for unknown in timings])
            solution = context.solve(residuals, start, ROUGH_TOLERANCE)
            first = FirstSolution(residuals, solution, Start('nominal', start, ''))
            solution, _, arrivals = solve_weighted(context, first)
        except CancelledError:
            raise
        except FitError:  # nothing that was fitted is measured here, or simulations diverge
            return found
        return dataclasses.replace(
            found,
            offsets={**found.offsets, **Unknowns((), timings).offsets(solution.x)},
            arrival_errors={
                **found.arrival_errors,
                **(arrivals.by_sequence() if arrivals else {}),
            },
        )

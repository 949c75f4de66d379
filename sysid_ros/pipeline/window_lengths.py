# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the parameters depend on how long the predictions are that they are fitted to."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.errors import FitError
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver.least_squares import SolverSettings, solve
from sysid_ros.estimation.start.motion import unmeasured
from sysid_ros.estimation.start.windows import Cutter
from sysid_ros.inference import infer
from sysid_ros.results.result import WindowFit
from sysid_ros.rollout.prediction import make_simulator

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Sequence

    import mujoco
    from numpy.typing import NDArray

    from sysid_ros.estimation.solver.losses import Loss
    from sysid_ros.identification.fit import Fit
    from sysid_ros.signals.trajectory import Trajectory

#: A fit ends when the next step would be shorter than this, in standard errors, …
_TOLERANCE = 0.1
#: … or after so many iterations.
_MOST_ITERATIONS = 15
#: Windows cannot tell a value from the full fit's where their intervals overlap that far.
_APART = 3.0
#: So many parameters are named in a warning.
_NAMED = 3


def fit_windows(
    spec: mujoco.MjSpec,
    sequences: Sequence[Trajectory],
    fit: Fit,
    seconds: Sequence[float],
    *,
    loss: Loss = 'linear',
    threads: int = 0,
    cancel: threading.Event | None = None,
) -> tuple[WindowFit, ...]:
    """Fit the parameters to windows of several lengths, the last being whole sequences.

    The state at the start of each window is unknown besides the parameters, so that its errors
    widen the intervals instead of bending the values. Long predictions gather what the model
    lacks; short ones say little about slow effects. Values that drift with the length say that
    the model lacks something.

    Args:
        spec: The nominal model.
        sequences: The training data.
        fit: The fit to whole sequences, from which each starts.
        seconds: Lengths of windows; those that no sequence has room for are left out.
        loss: That of the fit.
        threads: Simulation threads.
        cancel: Ends it when it is set.

    Raises:
        FitError: The position of a joint is not measured, so that windows have no start.
        CancelledError: ``cancel`` was set.
    """
    if not seconds:
        return ()
    count = len(fit.parameters)
    sequences = fit.as_arrived(sequences, offsets=True)
    found = []
    with make_simulator(spec, fit.parameters, sequences, threads, drives=fit.drives) as whole:
        reasons = {run.sequence.name: unmeasured(whole.model, [run]) for run in whole.runs}
        known = [sequence for sequence in sequences if reasons[sequence.name] is None]
        if not known:
            reason = next(iter(reasons.values()))
            msg = f'Windows of validation need a measured state to start from, but {reason}.'
            raise FitError(msg)
        cutter = Cutter(Residuals(whole.of(known), fit.noise))
        longest = cutter.longest
        for length in sorted(set(seconds)):
            windows = cutter.cut(length) if length < longest else None
            if windows is None:
                continue
            with ExitStack() as opened:
                part = opened.enter_context(
                    make_simulator(
                        spec, windows.unknowns, windows.sequences, threads, drives=fit.drives
                    )
                )
                residuals = Residuals(part, fit.noise)
                begin = np.array([unknown.nominal for unknown in windows.unknowns])
                begin[:count] = fit.solution.x
                solution = solve(
                    residuals,
                    begin,
                    settings=SolverSettings('mujoco', loss, _MOST_ITERATIONS, rough=True),
                    tolerance=_TOLERANCE,
                    cancel=cancel,
                )
                inference = infer(
                    solution, solution.jacobian, residuals.unknowns, residuals.samples, loss=loss
                )
            half = _half(inference.covariance, count)
            found.append(
                WindowFit(
                    seconds=length,
                    values=tuple(solution.x[:count].tolist()),
                    half_widths=tuple(half.tolist()),
                )
            )
    full = WindowFit(
        seconds=longest,
        values=tuple(fit.solution.x.tolist()),
        half_widths=tuple(_half(fit.inference.covariance, count).tolist()),
    )
    return (*found, full) if found else ()


def _half(covariance: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return (p,) half-widths of normal 95 % intervals."""
    return np.asarray(1.96 * np.sqrt(np.diag(covariance)[:count]))


def drifts(fit: Fit, windows: Sequence[WindowFit]) -> Iterator[str]:
    """Say which parameters depend on the length of the windows, in a sentence.

    Args:
        fit: The fit to whole sequences.
        windows: The fits to windows, the last being that to whole sequences.
    """
    moved = []
    *short, full = windows
    for j, parameter in enumerate(fit.parameters):
        for window in short:
            error = math.hypot(window.half_widths[j], full.half_widths[j]) / 1.96
            if abs(window.values[j] - full.values[j]) > _APART * error:
                moved.append(
                    f'{parameter.name} {window.values[j]:.3g} with {window.seconds:g} s, '
                    f'{full.values[j]:.3g} with whole sequences'
                )
                break
    if moved:
        more = f' (and {len(moved) - _NAMED} more)' if len(moved) > _NAMED else ''
        yield (
            'Values depend on the length of the windows that they are fitted to: '
            f'{"; ".join(moved[:_NAMED])}{more}; the model lacks something.'
        )

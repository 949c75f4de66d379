# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a model predicts over windows, each from where the robot was at its start.

A fit to windows is judged as it was made: all recordings are cut alike, and what is unknown of each
start is estimated from the measurements in its window, with the parameters as they are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.errors import FitError
from sysid_ros.estimation.noise import estimate_noise
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver.solver import SolverSettings, attempt
from sysid_ros.estimation.start import ROUGH_TOLERANCE
from sysid_ros.estimation.start.windows import Cutter, Window
from sysid_ros.rollout.prediction import make_simulator, predict
from sysid_ros.rollout.simulation import Prediction
from sysid_ros.signals.trajectory import Trajectory

if TYPE_CHECKING:
    from sysid_ros.pipeline.validation import Predictor

#: Starts are near already; so many iterations at most.
_ITERATIONS = 5
#: Starts of so many windows are estimated together that their Jacobian has about so many numbers.
_MOST_NUMBERS = 4e6


def predict_in_windows(
    predictor: Predictor,
    sequences: Sequence[Trajectory],
    seconds: float,
    noise: Mapping[str, float],
) -> tuple[Prediction, ...]:
    """Predict sequences over windows, as `predict` does over wholes.

    Args:
        predictor: What predicts.
        sequences: What is cut; where the position of a joint is not measured, it stays whole.
        seconds: Length of a window.
        noise: Sensor name to standard deviation, which says what starts are the best.

    Returns:
        One prediction per sequence; NaN where nothing is predicted. It diverged where it did so in
        any window.
    """
    model, parameters, values, threads, drives = predictor
    parameters = () if values is None else parameters
    with make_simulator(model, parameters, sequences, threads, drives=drives) as whole:
        sigmas = {**estimate_noise(whole.runs), **noise}
        cutter = Cutter(Residuals(whole, sigmas))
        windows = cutter.every(seconds)
    at = np.zeros(0) if values is None else values
    fixed = tuple(
        dataclasses.replace(unknown, nominal=float(value))
        for unknown, value in zip(cutter.carried(windows), at, strict=True)
    )
    settings = SolverSettings(max_iterations=_ITERATIONS, rough=True)
    found: list[Prediction] = []
    for group in _groups(windows):
        own = [window.sequence for window in group]
        starts = tuple(start for window in group for start in window.starts)
        unknowns = (*starts, *fixed)
        x = np.array([unknown.nominal for unknown in starts])
        if starts:
            with make_simulator(model, unknowns, own, threads, drives=drives) as simulator:
                residuals = Residuals(simulator, sigmas, unknowns=starts)
                best = attempt(residuals, x, settings=settings, tolerance=ROUGH_TOLERANCE)
            x = x if isinstance(best, FitError) else best.x  # those that were measured
        found += predict(model, own, unknowns, np.append(x, at), threads, drives=drives)
    pairs = list(zip(windows, found, strict=True))
    return tuple(
        _joined(sequence, [pair for pair in pairs if pair[0].whole.name == sequence.name])
        for sequence in sequences
    )


def _groups(windows: Sequence[Window]) -> Iterator[Sequence[Window]]:
    """Yield windows that follow each other, together as many as their Jacobian may be large."""
    rows = sum(s.data.size for window in windows for s in window.sequence.measurements)
    columns = sum(len(window.starts) for window in windows)
    count = int(np.ceil(np.sqrt(rows * columns / _MOST_NUMBERS)))
    for group in np.array_split(np.arange(len(windows)), max(min(count, len(windows)), 1)):
        yield [windows[i] for i in group]


def _joined(sequence: Trajectory, parts: Sequence[tuple[Window, Prediction]]) -> Prediction:
    """Return what is predicted of a sequence from what is of its windows."""
    channels = [np.full((1, *series.data.shape), np.nan) for series in sequence.measurements]
    for window, prediction in parts:
        rest = iter(prediction.channels)
        for channel, series in zip(channels, sequence.measurements, strict=True):
            inside = window.holds(series.times)
            if inside.any():
                channel[:, inside] = next(rest)
    diverged = np.array([any(prediction.diverged[0] for _, prediction in parts)])
    return Prediction(tuple(channels), diverged)

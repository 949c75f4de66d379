# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Predictions of recordings, nominal and fitted: each is made once, and all judges read them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import FitError
from sysid_ros.fit.noise import estimate_noise
from sysid_ros.fit.residuals import DIVERGED, Residuals
from sysid_ros.fit.solver import ROUGH_TOLERANCE, SolverSettings, attempt
from sysid_ros.fit.windows import Cutter, Window
from sysid_ros.model.elements import component_label
from sysid_ros.model.targets import Target, Unknown
from sysid_ros.results.result import Drift
from sysid_ros.signals import TimeSeries, Trajectory
from sysid_ros.simulation.prediction import Prediction, make_simulator, predict, predict_each
from sysid_ros.simulation.simulator import Drives
from sysid_ros.uncertainty.inference import Identification
from sysid_ros.workflows.problem import Problem

Values = NDArray[np.float64]
#: Which samples of a series of a trajectory count.
Mask = Callable[[Trajectory, TimeSeries], NDArray[np.bool_]]
#: Sensor name to (n,) finite residuals in units of its noise.
SensorResiduals = dict[str, Values]

#: A solve that starts near its end makes so many iterations at most.
FEW_ITERATIONS = 5
#: Starts of so many windows are estimated together that their Jacobian has about so many numbers.
_MOST_NUMBERS = 4e6


class Predictor(NamedTuple):
    """A model, (p,) values of its parameters, and what drives it; see `make_simulator`."""

    model: mujoco.MjModel | mujoco.MjSpec
    parameters: Sequence[Unknown] = ()
    values: Values | None = None
    threads: int = 0
    drives: Drives | None = None

    @property
    def nominal(self) -> Self:
        """The same with the model as it is."""
        return self._replace(parameters=(), values=None)

    def predict(
        self,
        trajectories: Sequence[Trajectory],
        window: float | None = None,
        noise: Mapping[str, float] | None = None,
    ) -> tuple[Prediction, ...]:
        """Simulate trajectories in one batch, whole or in windows; see `predict_in_windows`."""
        if window is not None:
            return predict_in_windows(self, trajectories, window, noise or {})
        return predict(
            self.model, trajectories, self.parameters, self.values, self.threads, drives=self.drives
        )


class Fitted(NamedTuple):
    """A fit, and the problem before and after the correction for its time step."""

    fit: Identification
    problem: Problem  # what was to be identified, with the time step of predictions
    refit: Problem  # what was fitted in the end: with the fit's own time step, and corrected
    drift: Drift | None = None  # of the parameters from an earlier result
    warnings: tuple[str, ...] = ()  # what is to be known of that, a sentence each

    @property
    def values(self) -> list[tuple[Target, float]]:
        """What was found for each target, in SI units."""
        found = zip(self.fit.parameters, self.fit.solution.x.tolist(), strict=True)
        return [(target, value) for parameter, value in found for target in parameter.targets]

    def predictor(self, threads: int) -> Predictor:
        """Return what predicts with the values that were found."""
        problem = self.problem
        parameters, values = self.fit.predicting(problem.sequences('train'))
        return Predictor(problem.spec, parameters, values, threads, problem.servos)


class Signal(NamedTuple):
    """One component of a sensor in one trajectory, measured and predicted."""

    place: int  # which trajectory of the table it is of
    trajectory: Trajectory
    number: int  # which of its series of measurements it is in
    series: TimeSeries
    predicted: int  # which column of the predictions of that series it is
    sensor: str  # name of the sensor, or of the part of the state
    name: str  # the same with the component, where there are several
    measured: Values  # (n,) at the stamps of the series; NaN where there are none
    nominal: Values  # (n,) predictions with the model as it is
    fitted: Values  # (n,) predictions with the fitted values
    diverged: tuple[bool, bool]  # whether a simulation became unstable, nominal and fitted


@dataclass(frozen=True)
class Predictions:
    """What a model predicts for trajectories, as it is and with fitted values."""

    trajectories: Sequence[Trajectory]
    nominal: Sequence[Prediction]
    fitted: Sequence[Prediction]

    def signals(self) -> Iterator[Signal]:
        """Yield every component of every sensor in every trajectory."""
        rows = zip(self.trajectories, self.nominal, self.fitted, strict=True)
        for place, (trajectory, nominal, fitted) in enumerate(rows):
            diverged = bool(nominal.diverged[0]), bool(fitted.diverged[0])
            for number, series in enumerate(trajectory.measurements):
                before, after = nominal.channels[number][0], fitted.channels[number][0]
                predicted = 0
                for sensor, (_, columns) in series.signal_mapping.items():
                    for component, column in enumerate(columns):
                        yield Signal(
                            place,
                            trajectory,
                            number,
                            series,
                            predicted,
                            sensor,
                            component_label(sensor, component, len(columns)),
                            series.data[:, column],
                            before[:, predicted],
                            after[:, predicted],
                            diverged,
                        )
                        predicted += 1

    def residuals(
        self, noise: Mapping[str, float], mask: Mask | None = None
    ) -> tuple[list[SensorResiduals], list[SensorResiduals]]:
        """Return residuals in units of the noise, nominal and fitted, by trajectory and sensor.

        Sensors without noise do not count, nor samples beside the mask. All residuals of an
        unstable simulation are ``DIVERGED``, as they are in the fit.
        """
        nominal: list[SensorResiduals] = [{} for _ in self.trajectories]
        fitted: list[SensorResiduals] = [{} for _ in self.trajectories]
        for signal in self.signals():
            if signal.sensor not in noise:
                continue
            rows = slice(None) if mask is None else mask(signal.trajectory, signal.series)
            measured, sigma = signal.measured[rows], noise[signal.sensor]
            for into, predicted, diverged in (
                (nominal, signal.nominal, signal.diverged[0]),
                (fitted, signal.fitted, signal.diverged[1]),
            ):
                residual = (predicted[rows] - measured) / sigma
                residual = np.nan_to_num(residual, nan=np.nan, posinf=DIVERGED, neginf=-DIVERGED)
                if diverged:
                    residual = np.where(np.isfinite(measured), DIVERGED, np.nan)
                own = into[signal.place]
                known = own.get(signal.sensor, np.zeros(0))
                own[signal.sensor] = np.append(known, residual[np.isfinite(residual)])
        return nominal, fitted


def simulate(
    predictor: Predictor,
    trajectories: Sequence[Trajectory],
    *,
    window: float | None = None,
    noise: Mapping[str, float] | None = None,
    beside: Callable[[Trajectory], TimeSeries] | None = None,
) -> Predictions:
    """Predict trajectories with a model as it is and, where it has values, with these.

    With a window, s, they are predicted as by `predict_in_windows`. What ``beside`` returns is
    predicted besides measurements, as the last channel.
    """
    asked = trajectories
    if beside is not None:
        asked = [
            dataclasses.replace(each, measurements=(*each.measurements, beside(each)))
            for each in trajectories
        ]
    nominal = predictor.nominal.predict(asked, window, noise)
    known = predictor.values is not None
    fitted = predictor.predict(asked, window, noise) if known else nominal
    return Predictions(trajectories, nominal, fitted)


def residuals_of(
    predictor: Predictor,
    trajectories: Sequence[Trajectory],
    noise: Mapping[str, float],
    mask: Mask | None = None,
) -> list[SensorResiduals]:
    """Simulate trajectories with one model; see `Predictions.residuals`."""
    if not trajectories:
        return []
    predictions = predictor.predict(trajectories)
    return Predictions(trajectories, predictions, predictions).residuals(noise, mask)[1]


def rms(residuals: Sequence[Mapping[str, Values]]) -> float:
    """Return the root mean square of all residuals; NaN where there are none."""
    values = np.concatenate([np.zeros(0), *(part for own in residuals for part in own.values())])
    return float(np.sqrt(np.mean(values**2))) if len(values) else float('nan')


def deviations(
    fit: Identification,
    predictor: Predictor,
    trajectories: Sequence[Trajectory],
    expected: Sequence[Prediction],
) -> list[tuple[Values, ...]]:
    """Return standard deviations of what a fit predicts, for the covariance of its parameters.

    Each of the directions in which the estimates are independent is tried by one standard error, as
    far as the bounds allow; what that changes adds up in squares. The predictor has the fitted
    values, those of the parameters first.

    Returns:
        For each trajectory, (n, width) for each of its series of measurements, in SI units.
    """
    x, count = fit.solution.x, len(fit.parameters)
    found = [
        [np.zeros_like(channel[0]) for channel in each.channels[: len(own.measurements)]]
        for own, each in zip(trajectories, expected, strict=True)
    ]
    covariance = np.nan_to_num(fit.inference.covariance[:count, :count])
    size = np.sqrt(np.diag(covariance))
    unit = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(covariance / np.outer(unit, unit))
    own = values > np.finfo(float).eps * len(values)
    moves = (vectors[:, own] * np.sqrt(values[own])).T * size
    low = np.array([parameter.min_value for parameter in fit.parameters])
    high = np.array([parameter.max_value for parameter in fit.parameters])
    ways = [np.clip(x + sign * moves, low, high) for sign in (1.0, -1.0)]
    lengths = [np.linalg.norm((way - x) / unit, axis=1) for way in ways]
    candidates = np.tile(x if predictor.values is None else predictor.values, (len(moves), 1))
    candidates[:, :count] = np.where((lengths[0] >= lengths[1])[:, None], *ways)
    if len(candidates) and trajectories:
        for run, _, channels, diverged in predict_each(
            predictor.model,
            trajectories,
            predictor.parameters,
            candidates,
            predictor.threads,
            drives=predictor.drives,
        ):
            if not diverged:
                middle = expected[run].channels
                found[run] = [
                    total + (moved - channel[0]) ** 2
                    for total, moved, channel in zip(found[run], channels, middle, strict=False)
                ]
    return [tuple(np.sqrt(each) for each in squares) for squares in found]


def predict_in_windows(
    predictor: Predictor,
    trajectories: Sequence[Trajectory],
    seconds: float,
    noise: Mapping[str, float],
) -> tuple[Prediction, ...]:
    """Predict trajectories over windows, each from where the robot was at its start.

    A fit to windows is judged as it was made: what is unknown of each start is estimated from the
    measurements in its window, with the parameters as they are; the noise weighs these. Where the
    position of a joint is not measured, a trajectory stays whole.

    Returns:
        One prediction per trajectory; NaN where nothing is predicted. It diverged where it did so
        in any window.
    """
    model, parameters, values, threads, drives = predictor
    with make_simulator(model, parameters, trajectories, threads, drives=drives) as simulator:
        sigmas = {**estimate_noise(simulator.runs), **noise}
        cutter = Cutter(Residuals(simulator, sigmas))
        windows = cutter.every(seconds)
    at = np.zeros(0) if values is None else values
    fixed = tuple(
        dataclasses.replace(unknown, nominal=float(value))
        for unknown, value in zip(cutter.carried(windows), at, strict=True)
    )
    settings = SolverSettings(max_iterations=FEW_ITERATIONS, rough=True)
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
    joined = {}
    for whole in trajectories:
        channels = [np.full((1, *series.data.shape), np.nan) for series in whole.measurements]
        joined[whole.name] = Prediction(tuple(channels), np.zeros(1, dtype=bool))
    for window, prediction in zip(windows, found, strict=True):
        into, rest = joined[window.whole.name], iter(prediction.channels)
        into.diverged[0] |= prediction.diverged[0]
        for channel, series in zip(into.channels, window.whole.measurements, strict=True):
            inside = window.holds(series.times)
            if inside.any():
                channel[:, inside] = next(rest)
    return tuple(joined.values())


def _groups(windows: Sequence[Window]) -> Iterator[Sequence[Window]]:
    """Yield windows that follow each other, together as many as their Jacobian may be large."""
    rows = sum(s.data.size for window in windows for s in window.sequence.measurements)
    columns = sum(len(window.starts) for window in windows)
    count = int(np.ceil(np.sqrt(rows * columns / _MOST_NUMBERS)))
    for group in np.array_split(np.arange(len(windows)), max(min(count, len(windows)), 1)):
        yield [windows[i] for i in group]

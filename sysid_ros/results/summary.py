# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a fit and its curves say, as parts of a result."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.calibration import Role, VerdictKind
from sysid_ros.estimation.solver.solver import Iteration
from sysid_ros.identification.fit import Fit
from sysid_ros.results.diagnostics import SignalCurve, diagnose, memory, rms, sensor_errors
from sysid_ros.results.headline import FROM_RESIDUALS
from sysid_ros.results.links import links
from sysid_ros.results.result import (
    CombinationResult,
    Disagreement,
    FileHash,
    Fold,
    HorizonPoint,
    InferenceSummary,
    LackingTerm,
    NoiseScale,
    ParameterResult,
    Provenance,
    SignalPlot,
    SolverSummary,
    StartEntry,
    StartKind,
    TraceEntry,
    UnjudgedResult,
    WindowFit,
)
from sysid_ros.version import __version__

#: Points that a report can show in all, and per curve.
_PLOT_POINTS = 100_000
_CURVE_POINTS = 1000
_FEWEST_POINTS = 100
_DIGITS = 6
_LIBRARIES = ('numpy', 'scipy', 'rosbags')


class Validation(NamedTuple):
    """What a fit is worth on data that it did not see.

    Attributes:
        folds: Fits without some bags, judged on those.
        horizon: Errors over the time since a start from the measured state.
        windows: Fits to windows, by their length.
        warnings: What a reader of the result must know, a sentence each.
    """

    folds: tuple[Fold, ...] = ()
    horizon: tuple[HorizonPoint, ...] = ()
    windows: tuple[WindowFit, ...] = ()
    warnings: tuple[str, ...] = ()


def summarise(
    model: str,
    fit: Fit,
    curves: Sequence[SignalCurve],
    units: Mapping[str, str],
    provenance: Provenance,
    *,
    backend: str,
    loss: str,
    advice: Callable[[str], str] | None = None,
) -> UnjudgedResult:
    """Return what a fit found; what its recordings, tests and memory say is not in it yet.

    Args:
        model: What was fitted.
        fit: What was found.
        curves: Of all sequences, measured and predicted.
        units: Sensor name to its SI unit.
        provenance: What it was made from.
        backend: Name of the solver.
        loss: Name of the loss.
        advice: Says what to record for a parameter that is not identified, by its name; this is
            added to its explanation.
    """
    held_out = _whitened(curves, fit.noise, 'validate')
    training = _whitened(curves, fit.noise, 'train')
    share = _PLOT_POINTS // max(len(curves), 1)
    points = min(max(share, _FEWEST_POINTS), _CURVE_POINTS)
    parameters, inference = tuple(_parameters(fit, advice)), _inference(fit)
    return UnjudgedResult(
        model=model,
        parameters=parameters,
        held_out_before=held_out[0],
        held_out_after=held_out[1],
        training_before=training[0],
        training_after=training[1],
        errors=sensor_errors(curves, units),
        noise=tuple(_noise(fit, units)),
        plots=tuple(thinned_plots(curves, units, points)),
        topics=(),
        health=(),
        solver=_solver(fit, backend, loss),
        warnings=(),
        provenance=provenance,
        inference=inference,
        links=links(parameters, inference),
        combinations=tuple(CombinationResult(**vars(c)) for c in fit.inference.combinations),
        diverged=tuple(dict.fromkeys(curve.sequence for curve in curves if curve.diverged)),
        diagnostics=diagnose(curves, units, fit.noise),
    )


def versions_now() -> dict[str, str]:
    """Return the versions of this software and of what it computes with."""
    # MuJoCo comes in distributions of several names.
    libraries = {name: importlib.metadata.version(name) for name in _LIBRARIES}
    return {'sysid_ros': __version__, 'mujoco': mujoco.__version__, **libraries}


def provenance_now(
    command: str,
    config: dict[str, object],
    files: tuple[FileHash, ...],
    input_mode: str,
    versions: Mapping[str, str] | None = None,
) -> Provenance:
    """Return the provenance of a result that is made now, with this software.

    Args:
        command: How it was asked for.
        config: What was asked for.
        files: What it is made from.
        input_mode: What drives the model.
        versions: Of libraries beside those that every fit uses.
    """
    return Provenance(
        created=dt.datetime.now(dt.UTC).isoformat(timespec='seconds'),
        versions={**versions_now(), **(versions or {})},
        files=files,
        command=command,
        config=config,
        input_mode=input_mode,
    )


def _solver(fit: Fit, backend: str, loss: str) -> SolverSummary:
    """Return how a fit went, with the names of its solver and loss."""
    solution = fit.solution
    return SolverSummary(
        backend=backend,
        loss=loss,
        status=solution.status,
        message=solution.message,
        success=solution.success,
        iterations=len(solution.trace),
        rollouts=fit.rollouts,
        diverged=fit.diverged,
        initial_cost=solution.trace[0].cost if solution.trace else math.nan,
        final_cost=solution.cost,
        seconds=fit.seconds,
        trace=trace_entries(solution.trace),
        central=solution.trace[-1].central if solution.trace else (),
        starts=tuple(
            StartEntry(
                initial_cost=attempt.start_cost, final_cost=attempt.cost, status=attempt.status
            )
            for attempt in fit.attempts
        ),
        start=StartKind(fit.start),
        start_sentence=fit.start_sentence,
        window=fit.window,
        left=fit.inference.left,
    )


def trace_entries(iterations: Sequence[Iteration]) -> tuple[TraceEntry, ...]:
    """Return the iterations of a solver as parts of a result."""
    return tuple(
        TraceEntry(
            iteration=entry.number,
            cost=entry.cost,
            step=entry.step,
            rollouts=entry.rollouts,
            diverged=entry.diverged,
            jacobian=entry.jacobian,
            regulariser=entry.regulariser,
        )
        for entry in iterations
    )


def _noise(fit: Fit, units: Mapping[str, str]) -> Iterator[NoiseScale]:
    seen = {noise.sensor: noise for noise in fit.inference.noises}
    for sensor, sigma in sorted(fit.noise.items()):
        noise = seen.get(sensor)
        yield NoiseScale(
            sensor=sensor,
            unit=units[sensor],
            sigma=sigma,
            source='configuration' if sensor in fit.known_noise else FROM_RESIDUALS,
            samples=noise.samples if noise else 0,
            effective=noise.effective if noise else math.nan,
            autocorrelation=noise.autocorrelation if noise else math.nan,
        )


def _whitened(
    curves: Sequence[SignalCurve], noise: Mapping[str, float], role: Role
) -> tuple[float, float]:
    """Return the root mean square residual before and after, in units of the noise."""
    chosen = [curve for curve in curves if curve.role == role and curve.sensor in noise]
    if not chosen:
        return math.nan, math.nan
    before = np.concatenate([(c.before - c.measured) / noise[c.sensor] for c in chosen])
    after = np.concatenate([(c.after - c.measured) / noise[c.sensor] for c in chosen])
    return rms(before), rms(after)


def _parameters(fit: Fit, advice: Callable[[str], str] | None) -> Iterator[ParameterResult]:
    rows = zip(fit.parameters, fit.solution.x, fit.intervals, strict=True)
    for parameter, value, interval in rows:
        explanation = interval.explanation
        if advice is not None and interval.verdict_kind is not VerdictKind.IDENTIFIED:
            explanation = f'{explanation} {advice(parameter.name)}'.strip()
        yield ParameterResult(
            name=parameter.name,
            targets=tuple(target.path for target in parameter.targets),
            unit=parameter.unit,
            initial=parameter.nominal,
            value=float(value),
            low=interval.low,
            high=interval.high,
            bounds=(parameter.min_value, parameter.max_value),
            verdict_kind=interval.verdict_kind,
            confounded_with=interval.confounded_with,
            explanation=explanation,
            noise_low=interval.noise_low,
            noise_high=interval.noise_high,
            asked=interval.asked,
        )


def _inference(fit: Fit) -> InferenceSummary:
    count = len(fit.parameters)
    found, apart = fit.inference, fit.inference.disagreement
    covariance = found.covariance[:count, :count]
    deviation = np.sqrt(np.diag(covariance))
    with np.errstate(invalid='ignore'):
        correlation = covariance / np.outer(deviation, deviation)
    return InferenceSummary(
        method=found.method,
        samples=sum(noise.samples for noise in found.noises),
        effective_samples=found.effective,
        covariance=tuple(tuple(row) for row in covariance.tolist()),
        correlation=tuple(tuple(row) for row in correlation.tolist()),
        notes=found.notes,
        all_at_once=found.all_at_once,
        disagreement=apart
        and Disagreement(recordings=apart.recordings, times=apart.times, most=apart.most),
        lacking=tuple(
            LackingTerm(kind=each.lack, title=each.title, share=each.share)
            for each in found.lacking
        ),
    )


def thinned_plots(
    curves: Sequence[SignalCurve], units: Mapping[str, str], points: int
) -> Iterator[SignalPlot]:
    """Yield curves with so many points at most, and as many digits as a plot can show."""
    for curve in curves:
        stride = max(math.ceil(len(curve.times) / points), 1)
        around, command = (
            np.zeros(0) if values is None else values for values in (curve.band, curve.command)
        )
        times, measured, before, after, band, told = (
            _written(values[::stride])
            for values in (curve.times, curve.measured, curve.before, curve.after, around, command)
        )
        remembered = memory(curve)
        yield SignalPlot(
            sequence=curve.sequence,
            role=curve.role,
            sensor=curve.name,
            unit=units[curve.sensor],
            times=times,
            measured=measured,
            before=before,
            after=after,
            band=band,
            command=told,
            command_unit=curve.command_unit,
            lags=_written(remembered.lags),
            autocorrelation=_written(remembered.autocorrelation),
            samples=remembered.samples,
        )


def _written(values: NDArray[np.float64]) -> tuple[float, ...]:
    """Return values with as many digits as a plot can show."""
    return tuple(float(f'{value:.{_DIGITS}g}') for value in values.tolist())

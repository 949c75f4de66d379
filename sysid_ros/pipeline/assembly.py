# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Put together what a calibration found into one CalibrationResult."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros import __version__
from sysid_ros.files import sha256
from sysid_ros.identification.prediction import predict
from sysid_ros.identification.units import component_label, sensor_unit
from sysid_ros.pipeline.findings import findings, stuck, warnings
from sysid_ros.results.result import (
    CalibrationResult,
    CombinationResult,
    FileHash,
    InferenceSummary,
    NoiseScale,
    ParameterResult,
    Provenance,
    Role,
    SensorError,
    SignalPlot,
    SolverSummary,
    StartEntry,
    TopicRate,
    TraceEntry,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import mujoco
    from numpy.typing import NDArray

    from sysid_ros.config import CalibrationConfig
    from sysid_ros.identification.fit import Fit
    from sysid_ros.pipeline.findings import Recording

#: Points that a report can show in all, and per curve.
_PLOT_POINTS = 100_000
_CURVE_POINTS = 1500
_FEWEST_POINTS = 100
_DIGITS = 6
_LIBRARIES = ('mujoco', 'numpy', 'scipy', 'rosbags')


class Nominal(NamedTuple):
    """The user's model, and what it compiles to."""

    spec: mujoco.MjSpec
    model: mujoco.MjModel


@dataclass(frozen=True)
class _Curve:
    """One component of a sensor in one sequence: (n,) times, measured, before and after.

    ``name`` is the sensor's, with the component's index where it has several; ``diverged`` is
    whether the simulation became unstable after the fit.
    """

    sequence: str
    role: Role
    sensor: str
    name: str
    times: NDArray[np.float64]
    measured: NDArray[np.float64]
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    diverged: bool


def assemble(
    config: CalibrationConfig,
    command: str,
    nominal: Nominal,
    recordings: list[Recording],
    fit: Fit,
) -> CalibrationResult:
    """Build the result of a fit, which is not judged yet.

    Args:
        config: What was asked for.
        command: How it was asked for.
        nominal: The model as it is.
        recordings: All bags, aligned.
        fit: What was found.
    """
    curves = list(_curves(nominal, recordings, fit, config.solver.threads))
    units = {curve.sensor: sensor_unit(nominal.model, curve.sensor) for curve in curves}
    held_out = _whitened(curves, fit.noise, 'validate')
    training = _whitened(curves, fit.noise, 'train')
    return CalibrationResult(
        model=str(config.model),
        parameters=_parameters(fit),
        accepted=False,
        acceptance='Not judged.',
        held_out_before=held_out[0],
        held_out_after=held_out[1],
        training_before=training[0],
        training_after=training[1],
        errors=tuple(_errors(curves, units)),
        noise=tuple(_noise(fit, units)),
        plots=tuple(_plots(curves, units)),
        topics=tuple(TopicRate(**vars(rate)) for r in recordings for rate in r.alignment.topics),
        health=(*findings(fit, recordings), *stuck(nominal.model, recordings)),
        solver=_solver(config, fit),
        warnings=tuple(warnings(nominal.model, fit, recordings, held_out)),
        provenance=_provenance(config, command, recordings),
        inference=_inference(fit),
        combinations=tuple(CombinationResult(**vars(c)) for c in fit.inference.combinations),
        diverged=tuple(dict.fromkeys(curve.sequence for curve in curves if curve.diverged)),
    )


def _noise(fit: Fit, units: dict[str, str]) -> Iterator[NoiseScale]:
    seen = {noise.sensor: noise for noise in fit.inference.noises}
    for sensor, sigma in sorted(fit.noise.items()):
        source = 'configuration' if sensor in fit.told else 'estimated from residuals'
        scale = NoiseScale(sensor=sensor, unit=units[sensor], sigma=sigma, source=source)
        noise = seen.get(sensor)
        if noise is not None:
            scale = scale.model_copy(update=noise._asdict())
        yield scale


def _curves(
    nominal: Nominal, recordings: list[Recording], fit: Fit, threads: int
) -> Iterator[_Curve]:
    sequences = [(s, r.role) for r in recordings for s in r.alignment.sequences]
    # Commands act when the fit found them to, which it knows of training data only.
    bare = fit.as_arrived([sequence for sequence, _ in sequences], offsets=True)
    before = predict(nominal.model, bare, threads=threads)
    after = predict(nominal.spec, bare, fit.parameters, fit.solution.x, threads=threads)
    for (sequence, role), old, new in zip(sequences, before, after, strict=True):
        for series, old_values, new_values in zip(
            sequence.measurements, old.channels, new.channels, strict=True
        ):
            columns = [
                (sensor, component_label(sensor, place, len(own)), int(column))
                for sensor, (_, own) in series.signal_mapping.items()
                for place, column in enumerate(own)
            ]
            for predicted, (sensor, name, column) in enumerate(columns):
                yield _Curve(
                    sequence.name,
                    role,
                    sensor,
                    name,
                    series.times,
                    series.data[:, column],
                    old_values[0, :, predicted],
                    new_values[0, :, predicted],
                    bool(new.diverged[0]),
                )


def _rms(values: NDArray[np.float64]) -> float:
    values = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(values**2))) if len(values) else math.nan


def _whitened(curves: list[_Curve], noise: dict[str, float], role: str) -> tuple[float, float]:
    """Return the root mean square residual before and after, in units of the noise."""
    chosen = [curve for curve in curves if curve.role == role and curve.sensor in noise]
    if not chosen:
        return math.nan, math.nan
    before = np.concatenate([(c.before - c.measured) / noise[c.sensor] for c in chosen])
    after = np.concatenate([(c.after - c.measured) / noise[c.sensor] for c in chosen])
    return _rms(before), _rms(after)


def _parameters(fit: Fit) -> tuple[ParameterResult, ...]:
    return tuple(
        ParameterResult(
            name=parameter.name,
            targets=tuple(target.path for target in parameter.targets),
            unit=parameter.unit,
            initial=parameter.nominal,
            value=float(value),
            low=interval.low,
            high=interval.high,
            bounds=(parameter.min_value, parameter.max_value),
            verdict=interval.verdict,
            explanation=interval.explanation,
        )
        for parameter, value, interval in zip(
            fit.parameters, fit.solution.x, fit.intervals, strict=True
        )
    )


def _inference(fit: Fit) -> InferenceSummary:
    count = len(fit.parameters)
    found = fit.inference
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
    )


def _errors(curves: list[_Curve], units: dict[str, str]) -> Iterator[SensorError]:
    roles: tuple[Role, ...] = ('train', 'validate')
    for role in roles:
        for name, sensor in dict.fromkeys((curve.name, curve.sensor) for curve in curves):
            chosen = [c for c in curves if c.role == role and c.name == name]
            if chosen:
                measured = np.concatenate([c.measured for c in chosen])
                before = np.concatenate([c.before for c in chosen])
                after = np.concatenate([c.after for c in chosen])
                yield SensorError(
                    sensor=name,
                    unit=units[sensor],
                    role=role,
                    before=_rms(before - measured),
                    after=_rms(after - measured),
                    samples=int(np.isfinite(measured).sum()),
                )


def _plots(curves: list[_Curve], units: dict[str, str]) -> Iterator[SignalPlot]:
    share = _PLOT_POINTS // max(len(curves), 1)
    points = min(max(share, _FEWEST_POINTS), _CURVE_POINTS)
    for curve in curves:
        stride = max(math.ceil(len(curve.times) / points), 1)
        yield SignalPlot(
            sequence=curve.sequence,
            role=curve.role,
            sensor=curve.name,
            unit=units[curve.sensor],
            times=_rounded(curve.times[::stride]),
            measured=_rounded(curve.measured[::stride]),
            before=_rounded(curve.before[::stride]),
            after=_rounded(curve.after[::stride]),
        )


def _rounded(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(float(f'{value:.{_DIGITS}g}') for value in values)


def _solver(config: CalibrationConfig, fit: Fit) -> SolverSummary:
    solution = fit.solution
    return SolverSummary(
        backend=config.solver.backend,
        loss=config.solver.loss,
        status=solution.status,
        message=solution.message,
        success=solution.success,
        iterations=len(solution.trace),
        rollouts=fit.rollouts,
        diverged=fit.diverged,
        initial_cost=solution.trace[0].cost if solution.trace else math.nan,
        final_cost=solution.cost,
        seconds=fit.seconds,
        trace=tuple(
            TraceEntry(
                iteration=entry.number,
                cost=entry.cost,
                step=entry.step,
                rollouts=entry.rollouts,
                diverged=entry.diverged,
                jacobian=entry.jacobian,
                regulariser=entry.regulariser,
            )
            for entry in solution.trace
        ),
        central=solution.trace[-1].central if solution.trace else (),
        starts=tuple(
            StartEntry(
                initial_cost=attempt.start_cost, final_cost=attempt.cost, status=attempt.status
            )
            for attempt in fit.attempts
        ),
        start=fit.start,
        start_sentence=fit.start_sentence,
        window=fit.window,
    )


def _provenance(config: CalibrationConfig, command: str, recordings: list[Recording]) -> Provenance:
    files = [FileHash(path=str(config.model), role='model', sha256=sha256(config.model))]
    for recording in recordings:
        inside = [recording.path] if recording.path.is_file() else sorted(recording.path.iterdir())
        files.extend(
            FileHash(path=str(path), role=recording.role, sha256=sha256(path))
            for path in inside
            if path.is_file()
        )
    versions = {'sysid_ros': __version__}
    versions.update({name: importlib.metadata.version(name) for name in _LIBRARIES})
    return Provenance(
        created=dt.datetime.now(dt.timezone.utc).isoformat(timespec='seconds'),
        versions=versions,
        files=tuple(files),
        command=command,
        config=config.model_dump(mode='json'),
        input_mode='recorded commands, zero-order held, drive the actuators of the model',
    )

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A fit of the toolbox as a CalibrationResult, so that it is rendered like any other."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sysid_ros.alignment.health import FindingKind, HealthFinding
from sysid_ros.config.gate import VerdictKind
from sysid_ros.results.result import (
    CalibrationResult,
    NoiseScale,
    ParameterResult,
    Provenance,
    SensorError,
    SignalPlot,
    SolverSummary,
    TraceEntry,
)
from sysid_ros.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.toolbox.comparison import Comparison, Curve

#: Points that a report can show in all, and per curve at least.
_PLOT_POINTS = 200_000
_FEWEST_POINTS = 500
_DIGITS = 6
_LIBRARIES = ('mujoco', 'numpy', 'scipy')


def summarize(
    model: str,
    comparison: Comparison,
    opt_result: Mapping[str, Any],
    remarks: Sequence[str] = (),
) -> CalibrationResult:
    """Build the result of a fit of the toolbox; all its recordings are training data.

    Args:
        model: What was fitted.
        comparison: The fit's beginning and end.
        opt_result: What the solver said.
        remarks: Further warnings.
    """
    before, after = _rms(comparison.before), _rms(comparison.after)
    accepted = after < before
    verb = 'fell' if accepted else 'did not fall'
    return CalibrationResult(
        model=model,
        parameters=tuple(_parameters(comparison)),
        accepted=accepted,
        acceptance=f'Training error (nothing is held out) {verb}: '
        f'{before:.3g} to {after:.3g} times the noise.',
        held_out_before=math.nan,
        held_out_after=math.nan,
        training_before=before,
        training_after=after,
        errors=tuple(_errors(comparison.curves)),
        noise=tuple(
            NoiseScale(sensor=n.signal, unit=n.unit, sigma=n.sigma, source=n.source)
            for n in comparison.noise
        ),
        plots=tuple(_plots(comparison.curves)),
        topics=(),
        health=tuple(_health(model, opt_result)),
        solver=_solver(opt_result, comparison),
        warnings=(*comparison.warnings, *_doubts(comparison), *remarks),
        provenance=Provenance(
            created=dt.datetime.now(dt.UTC).isoformat(timespec='seconds'),
            versions={
                'sysid_ros': __version__,
                **{name: importlib.metadata.version(name) for name in _LIBRARIES},
            },
            files=(),
            command='',
            config={},
            input_mode='recorded commands, zero-order held, drive the actuators of the model',
        ),
    )


def _rms(values: NDArray[np.float64]) -> float:
    finite = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(finite**2))) if len(finite) else math.nan


def _parameters(comparison: Comparison) -> Iterator[ParameterResult]:
    for estimate in comparison.estimates:
        yield ParameterResult(
            name=estimate.name,
            targets=(estimate.target or estimate.name,),
            unit=estimate.unit,
            initial=estimate.initial,
            value=estimate.value,
            # np.maximum passes NaN on: no interval stays no interval.
            low=float(np.maximum(estimate.value - estimate.half_width, estimate.bounds[0])),
            high=float(np.minimum(estimate.value + estimate.half_width, estimate.bounds[1])),
            bounds=estimate.bounds,
            verdict_kind=estimate.verdict,
            confounded_with=estimate.confounded_with,
        )


def _doubts(comparison: Comparison) -> Iterator[str]:
    doubtful = [e.name for e in comparison.estimates if e.verdict is not VerdictKind.IDENTIFIED]
    if doubtful:
        yield f'Not identified: {", ".join(doubtful)}.'


def _health(model: str, opt_result: Mapping[str, Any]) -> Iterator[HealthFinding]:
    for signal in opt_result.get('dead', ()):
        yield HealthFinding(
            bag=model,
            subject=str(signal),
            kind=FindingKind.DEAD_CHANNEL,
            count=1,
            detail='does not move and was left out of the fit',
        )
    excluded = int(opt_result.get('excluded', 0))
    if excluded:
        yield HealthFinding(
            bag=model,
            subject='measurements',
            kind=FindingKind.MASKED,
            count=excluded,
            detail='samples before the initial state or after the last command',
        )


def _errors(curves: Sequence[Curve]) -> Iterator[SensorError]:
    signals: dict[tuple[str, str], list[Curve]] = {}
    for curve in curves:
        signals.setdefault((curve.signal, curve.unit), []).append(curve)
    for (signal, unit), chosen in signals.items():
        measured = np.concatenate([curve.measured for curve in chosen])
        yield SensorError(
            sensor=signal,
            unit=unit,
            role='train',
            before=_rms(np.concatenate([curve.before for curve in chosen]) - measured),
            after=_rms(np.concatenate([curve.after for curve in chosen]) - measured),
            samples=int(np.isfinite(measured).sum()),
        )


def _plots(curves: Sequence[Curve]) -> Iterator[SignalPlot]:
    points = max(_PLOT_POINTS // max(len(curves), 1), _FEWEST_POINTS)
    for curve in curves:
        stride = max(math.ceil(len(curve.times) / points), 1)
        yield SignalPlot(
            sequence=curve.sequence,
            role='train',
            sensor=curve.signal,
            unit=curve.unit,
            times=_rounded(curve.times[::stride]),
            measured=_rounded(curve.measured[::stride]),
            before=_rounded(curve.before[::stride]),
            after=_rounded(curve.after[::stride]),
        )


def _rounded(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(float(f'{value:.{_DIGITS}g}') for value in values)


def _solver(opt_result: Mapping[str, Any], comparison: Comparison) -> SolverSummary:
    trace = tuple(_trace(opt_result))
    last = (opt_result.get('trace') or (None,))[-1]
    success = bool(opt_result.get('success', True))
    return SolverSummary(
        backend=str(opt_result.get('backend', 'optimize')),
        loss=str(opt_result.get('loss', 'linear')),
        status='converged' if success else 'not converged',
        message=str(opt_result.get('message', '')),
        success=success,
        iterations=int(opt_result.get('nit', len(trace))),
        rollouts=int(opt_result.get('rollouts', opt_result.get('nfev', 0))),
        diverged=int(opt_result.get('diverged', 0)),
        initial_cost=trace[0].cost if trace else float(np.sum(comparison.before**2) / 2),
        final_cost=float(opt_result.get('cost', np.sum(comparison.after**2) / 2)),
        seconds=float(getattr(last, 'seconds', math.nan)),
        trace=trace,
        central=tuple(getattr(last, 'central', ())),
    )


def _trace(opt_result: Mapping[str, Any]) -> Iterator[TraceEntry]:
    for number, entry in enumerate(opt_result.get('trace') or ()):
        yield TraceEntry(
            iteration=int(getattr(entry, 'number', number)),
            cost=float(entry.cost),
            step=float(entry.step),
            rollouts=int(entry.rollouts),
            diverged=int(entry.diverged),
            jacobian=str(getattr(entry, 'jacobian', '')),
            regulariser=float(getattr(entry, 'regulariser', math.nan)),
        )

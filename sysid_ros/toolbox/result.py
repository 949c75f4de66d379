# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The result of a fit of the toolbox: every signal before and after, and every parameter."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from sysid_ros.alignment.health import FindingKind, HealthFinding
from sysid_ros.config.calibration import VerdictKind
from sysid_ros.errors import FitError
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.inference.combinations import exact_sets
from sysid_ros.model.units import component_label, sensor_unit
from sysid_ros.results.diagnostics import SignalCurve, rms, sensor_errors
from sysid_ros.results.result import (
    CalibrationResult,
    Check,
    Level,
    NoiseScale,
    ParameterResult,
    SolverSummary,
)
from sysid_ros.results.summary import provenance_now, thinned_plots
from sysid_ros.toolbox.optimization import calculate_intervals
from sysid_ros.toolbox.parameter import ParameterDict
from sysid_ros.toolbox.residual_fn import ResidualFunction
from sysid_ros.toolbox.timeseries import TimeSeries
from sysid_ros.toolbox.trajectory import ModelSequences, sequence_labels

#: A value within this fraction of the bounds' distance from one of them is at the bound.
_AT_BOUND = 1e-6
#: Parameters whose estimates correlate more than this cannot be told apart.
_LARGEST_CORRELATION = 0.98
#: An interval wider than both fractions, of the value and of the bounds, is no identification.
_WIDE_OF_VALUE = 0.25
_WIDE_OF_BOUNDS = 0.02
#: Points of the plots of a report in all, and of one curve at least.
_PLOT_POINTS, _FEWEST_POINTS = 200_000, 500


class ComponentEstimate(NamedTuple):
    """One component of a parameter; ``half_width`` of its 95 % interval, NaN where it has none."""

    name: str
    target: str
    unit: str
    initial: float
    value: float
    half_width: float
    bounds: tuple[float, float]
    verdict: VerdictKind
    confounded_with: tuple[str, ...] = ()


def fitted_result(
    model: str,
    models_sequences: Sequence[ModelSequences],
    initial_params: ParameterDict,
    opt_params: ParameterDict,
    residual_fn: Callable[..., Any],
    opt_result: scipy.optimize.OptimizeResult,
) -> CalibrationResult:
    """Evaluate a fit's beginning and end; all its recordings are training data."""
    labels = [
        (label, group.gt_model)
        for group, own in zip(models_sequences, sequence_labels(models_sequences), strict=True)
        for label in own
    ]
    first, old, _ = residual_fn(initial_params.as_vector(), initial_params)
    last, new, records = residual_fn(opt_params.as_vector(), opt_params)
    if not len(labels) == len(old) == len(new):
        raise FitError(
            f'The residual function returns {len(new)} sequences, expected {len(labels)}.'
        )
    curves = [
        curve
        for (label, _), start, end, record in zip(labels, old, new, records, strict=True)
        for curve in _curves(label, record[0], start[0], end[0])
    ]
    units = {
        name: sensor_unit(compiled, name)
        for (_, compiled), record in zip(labels, records, strict=True)
        for name in record[0].signal_mapping
    }
    points = max(_PLOT_POINTS // max(len(curves), 1), _FEWEST_POINTS)
    found = list(estimates(initial_params, opt_params, last, opt_result))
    # In units of the noise.
    residuals = np.concatenate(first), np.concatenate(last)
    before, after = rms(residuals[0]), rms(residuals[1])
    verb = 'fell' if after < before else 'did not fall'
    warnings = []
    if not opt_result.get('success', True):
        warnings.append(str(opt_result.get('message', 'The solver did not converge.')))
    shift = opt_result.get('shift')
    if shift is not None and shift.significant:
        warnings.append(shift.sentence(models_sequences[0].gt_model.opt.timestep))
    doubtful = [e.name for e in found if e.verdict is not VerdictKind.IDENTIFIED]
    if doubtful:
        warnings.append(f'Not identified: {", ".join(doubtful)}.')
    return CalibrationResult(
        model=model,
        parameters=tuple(
            ParameterResult(
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
            for estimate in found
        ),
        checks=(
            Check(
                name='better than nominal',
                level=Level.FAIL,
                passed=after < before,
                text=f'Training error (nothing is held out) {verb}: '
                f'{before:.3g} to {after:.3g} times the noise.',
            ),
        ),
        held_out_before=math.nan,
        held_out_after=math.nan,
        training_before=before,
        training_after=after,
        errors=sensor_errors(curves, units),
        noise=tuple(_noise(units, residual_fn, opt_params)),
        plots=tuple(thinned_plots(curves, units, points)),
        topics=(),
        health=tuple(_health(model, opt_result)),
        solver=_solver(opt_result, *residuals),
        provenance=provenance_now(
            '', {}, (), 'recorded commands, zero-order held, drive the actuators of the model'
        ),
    ).with_warnings(warnings)


def _curves(
    sequence: str, record: TimeSeries, before: TimeSeries, after: TimeSeries
) -> Iterator[SignalCurve]:
    for name, (_, columns) in record.signal_mapping.items():
        old, new = (series.signal_mapping[name][1] for series in (before, after))
        for place, column in enumerate(columns):
            yield SignalCurve(
                sequence,
                'train',
                name,
                component_label(name, place, len(columns)),
                record.times - record.times[0],
                record.matrix[:, column],
                before.matrix[:, old[place]],
                after.matrix[:, new[place]],
                diverged=False,
            )


def _noise(
    units: Mapping[str, str], residual_fn: Callable[..., Any], params: ParameterDict
) -> Iterator[NoiseScale]:
    if not isinstance(residual_fn, ResidualFunction):
        return
    residuals = residual_fn.prepared(params).residuals
    if not isinstance(residuals, Residuals):
        return
    given = residual_fn.options.noise or {}
    for signal, sigma in residuals.noise.items():
        source = 'the caller' if signal in given else 'differences of the measured signal'
        unit = units.get(signal.partition('[')[0], '')
        yield NoiseScale(sensor=signal, unit=unit, sigma=sigma, source=source)


def estimates(
    initial_params: ParameterDict,
    opt_params: ParameterDict,
    residuals: Sequence[NDArray[np.float64]],
    opt_result: scipy.optimize.OptimizeResult,
) -> Iterator[ComponentEstimate]:
    """Say of every free component what it is, how sure that is, and why not if it is not."""
    x, start = opt_params.as_vector(), initial_params.as_vector()
    bounds = np.array(opt_params.get_bounds())
    names = opt_params.get_non_frozen_parameter_names()
    jacobian = np.asarray(opt_result.jac)
    norms = np.linalg.norm(jacobian, axis=0)
    dependent = exact_sets(jacobian / np.where(norms > 0, norms, 1.0))
    covariance, half_widths = calculate_intervals(residuals, jacobian)
    for found in dependent:
        half_widths[list(found.columns)] = np.nan
    half_widths[~np.isfinite(half_widths)] = np.nan
    deviation = np.sqrt(np.diag(covariance))
    with np.errstate(invalid='ignore', divide='ignore'):
        correlation = np.abs(covariance / np.outer(deviation, deviation))
    place = 0
    for parameter in opt_params.values():
        targets = parameter.target
        if not isinstance(targets, tuple):
            targets = (targets or '',) * parameter.size
        for component in range(0 if parameter.frozen else parameter.size):
            half_width, (low, high) = float(half_widths[place]), bounds[:, place]
            others: tuple[str, ...] = ()
            if min(x[place] - low, high - x[place]) <= _AT_BOUND * (high - low):
                verdict, half_width = VerdictKind.AT_BOUND, math.nan
            # NaN, where there is no interval, is not narrow.
            elif half_width <= max(_WIDE_OF_VALUE * abs(x[place]), _WIDE_OF_BOUNDS * (high - low)):
                verdict = VerdictKind.IDENTIFIED
            else:
                alike = set(np.flatnonzero(correlation[place] > _LARGEST_CORRELATION).tolist())
                alike.update(*(found.columns for found in dependent if place in found.columns))
                others = tuple(names[other] for other in sorted(alike - {place}))
                verdict = VerdictKind.CONFOUNDED if others else VerdictKind.NOT_EXCITED
            yield ComponentEstimate(
                name=names[place],
                target=targets[component],
                unit=parameter.unit,
                initial=float(start[place]),
                value=float(x[place]),
                half_width=half_width,
                bounds=(float(low), float(high)),
                verdict=verdict,
                confounded_with=others,
            )
            place += 1


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
            kind=FindingKind.MISSING,
            count=excluded,
            detail='samples before the initial state or after the last command',
        )


def _solver(
    opt_result: Mapping[str, Any], before: NDArray[np.float64], after: NDArray[np.float64]
) -> SolverSummary:
    iterations = opt_result.get('trace') or ()
    success = bool(opt_result.get('success', True))
    return SolverSummary(
        backend=str(opt_result.get('backend', 'optimize')),
        loss=str(opt_result.get('loss', 'linear')),
        status='converged' if success else 'not converged',
        message=str(opt_result.get('message', '')),
        success=success,
        iterations=int(opt_result.get('nit', len(iterations))),
        rollouts=int(opt_result.get('rollouts', opt_result.get('nfev', 0))),
        diverged=int(opt_result.get('diverged', 0)),
        initial_cost=iterations[0].cost if iterations else float(np.sum(before**2) / 2),
        final_cost=float(opt_result.get('cost', np.sum(after**2) / 2)),
        seconds=iterations[-1].seconds if iterations else math.nan,
        trace=tuple(iterations),
        central=iterations[-1].central if iterations else (),
    )

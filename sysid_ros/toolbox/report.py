# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What `optimize` found: one HTML file with the motion as a film, or files in a folder.

The report's packages are imported when a report is made: identification does not need them.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from sysid_ros.config.schema import VerdictKind
from sysid_ros.errors import FitError, ModelError, one_sentence
from sysid_ros.files import check_writable, replace_file
from sysid_ros.model.elements import component_label, sensor_unit
from sysid_ros.report.rendering import FITTED, LONGEST, NOMINAL, Copy, Film, draw_film, lit
from sysid_ros.results.result import CalibrationResult, Check, Level, ParameterResult, SolverSummary
from sysid_ros.results.summary import SignalCurve, provenance_now, rms, sensor_errors, thinned_plots
from sysid_ros.text import file_stems
from sysid_ros.toolbox.modifiers import apply_param_modifiers, apply_param_modifiers_spec
from sysid_ros.toolbox.optimize import calculate_intervals
from sysid_ros.toolbox.parameter import ParameterDict, unknowns_of
from sysid_ros.toolbox.residual import BuildModelFn
from sysid_ros.toolbox.timeseries import TimeSeries
from sysid_ros.toolbox.trajectory import (
    ModelSequences,
    SystemTrajectory,
    sequence_labels,
    sysid_rollout,
)
from sysid_ros.uncertainty.verdicts import exact_sets, partners, widest

Array = NDArray[np.float64]

REPORT = 'report.html'


@dataclasses.dataclass(frozen=True)
class ToolboxReport:
    """A report that is ready to be shown or saved, what stands above it, and what it shows."""

    title: str
    result: CalibrationResult
    html: str

    def build(self) -> str:
        """Return the HTML page, which carries all that it needs."""
        return self.html

    def save(self, path: str | Path) -> None:
        """Write the HTML page; an existing file is replaced only when all is written."""
        replace_file(Path(path), self.html.encode('utf-8'))


def default_report(
    models_sequences: Sequence[ModelSequences],
    initial_params: ParameterDict,
    opt_params: ParameterDict,
    residual_fn: Callable[..., Any],
    opt_result: scipy.optimize.OptimizeResult,
    title: str = 'SysID',
    save_path: str | Path | None = None,
    build_model: BuildModelFn | None = apply_param_modifiers,
    generate_videos: bool = True,
) -> ToolboxReport:
    """Report what `optimize` found in one HTML file that opens offline.

    It shows values with intervals and verdicts, the error of each signal before and after, every
    signal with the predictions of both, a film of the motion, nominal and fitted, and the solver's
    trace. The specs and parameters that are passed are not changed.

    ``save_path`` is a folder for ``report.html``, made if it is not there. With ``generate_videos``
    the first recording of each model is filmed, where there is OpenGL; ``build_model`` compiles
    parameters into a copy of a spec for that.
    """
    from sysid_ros.report import render_report  # noqa: PLC0415 (see the module's docstring)

    films: list[Film] = []
    no_film = ''
    if generate_videos:
        if build_model is None:
            raise FitError(
                'Expected build_model for the film, found None; or pass generate_videos=False.'
            )
        try:
            labels = sequence_labels(models_sequences)
            for group, (label, *_) in zip(models_sequences, labels, strict=True):
                models = [build_model(p, lit(group.spec)) for p in (initial_params, opt_params)]
                films.append(_film(label, group.measured_rollout[0], models))
        except ModelError as err:
            no_film = str(err)
    result = _result(title, models_sequences, initial_params, opt_params, residual_fn, opt_result)
    page = render_report(result, title=title, films=films, no_film=no_film)
    report = ToolboxReport(title, result, page)
    if save_path is not None:
        report.save(Path(save_path) / REPORT)
    return report


def _film(name: str, recorded: SystemTrajectory, models: list[mujoco.MjModel]) -> Film:
    shown = recorded.control.times <= recorded.control.times[0] + LONGEST
    control = recorded.control.rows(shown)
    predicted = sysid_rollout(
        models, mujoco.MjData(models[0]), [control] * 2, [recorded.initial_state] * 2
    )
    copies = [
        Copy(word, model, trajectory.state.matrix)
        for word, model, trajectory in zip((NOMINAL, FITTED), models, predicted, strict=True)
        if trajectory.state is not None
    ]
    note = '' if shown.all() else f'The first {LONGEST:g} s of the recording.'
    return draw_film(name, copies, note=note)


def _result(
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
    curves: list[SignalCurve] = []
    units: dict[str, str] = {}
    for (label, compiled), (start,), (end,), (record,) in zip(
        labels, old, new, records, strict=True
    ):
        curves += _curves(label, record, start, end)
        units |= {name: sensor_unit(compiled, name) for name in record.signal_mapping}
    parameters = tuple(estimates(initial_params, opt_params, last, opt_result))
    before, after = rms(np.concatenate(first)), rms(np.concatenate(last))
    success, message = opt_result.get('success', True), str(opt_result.get('message', ''))
    warnings = [] if success else [message or 'The solver did not converge.']
    if (shift := opt_result.get('shift')) is not None:
        warnings += filter(None, [shift.sentence(models_sequences[0].gt_model.opt.timestep)])
    if opt_result.get('dead'):
        warnings.append(f'Left out, as they never move: {", ".join(opt_result["dead"])}.')
    if opt_result.get('excluded'):
        warnings.append(
            f'{opt_result["excluded"]} measurements lie before the initial state or after the last '
            'command, and are not compared.'
        )
    doubtful = [p.name for p in parameters if p.verdict_kind is not VerdictKind.IDENTIFIED]
    if doubtful:
        warnings.append(f'Not identified: {", ".join(doubtful)}.')
    trace = tuple(opt_result.get('trace') or ())
    better = Check(
        name='better than nominal',
        level=Level.FAIL,
        passed=after < before,
        text='Training error (nothing is held out) '
        f'{"fell" if after < before else "did not fall"}: {before:.3g} to {after:.3g} '
        'times the noise.',
    )
    return CalibrationResult(
        model=model,
        parameters=parameters,
        checks=(better,),
        held_out_before=math.nan,
        held_out_after=math.nan,
        training_before=before,
        training_after=after,
        errors=sensor_errors(curves, units),
        noise=(),
        plots=tuple(thinned_plots(curves, units)),
        topics=(),
        health=(),
        solver=SolverSummary(
            backend='optimize',
            loss='linear',
            status='converged' if success else 'not converged',
            message=message,
            success=bool(success),
            iterations=int(opt_result.get('nit', len(trace))),
            rollouts=int(opt_result.get('nfev', 0)),
            diverged=int(opt_result.get('diverged', 0)),
            initial_cost=float(np.sum(np.concatenate(first) ** 2) / 2),
            final_cost=float(np.sum(np.concatenate(last) ** 2) / 2),
            seconds=trace[-1].seconds if trace else math.nan,
            trace=trace,
        ),
        provenance=provenance_now(
            '', {}, (), 'recorded commands, zero-order held, drive the actuators of the model'
        ),
    ).with_warnings(warnings)


def _curves(
    sequence: str, record: TimeSeries, before: TimeSeries, after: TimeSeries
) -> Iterator[SignalCurve]:
    for name in record.names:
        measured, old, new = (series.get(name).T for series in (record, before, after))
        for place, columns in enumerate(zip(measured, old, new, strict=True)):
            label = component_label(name, place, len(measured))
            times = record.times - record.times[0]
            yield SignalCurve(sequence, 'train', name, label, times, *columns, diverged=False)


def estimates(
    initial_params: ParameterDict,
    opt_params: ParameterDict,
    residuals: Sequence[Array],
    opt_result: scipy.optimize.OptimizeResult,
) -> Iterator[ParameterResult]:
    """Say of every free component what it is, how sure that is, and why not if it is not.

    One that would be identified with the others known is confounded with those that together nearly
    explain its column of the Jacobian; one that would not is not excited.
    """
    names = opt_params.get_non_frozen_parameter_names()
    jacobian = np.asarray(opt_result.jac)
    norms = np.linalg.norm(jacobian, axis=0)
    unit = jacobian / np.where(norms > 0, norms, 1.0)
    sets = exact_sets(unit)
    _, halves = calculate_intervals(residuals, jacobian)
    halves[[column for found in sets for column in found.columns]] = np.nan
    halves[~np.isfinite(halves)] = np.nan
    start = initial_params.as_vector()
    written = [
        (p.target, p.unit) for p in opt_params.values() if not p.frozen for _ in range(p.size)
    ]
    for k, unknown in enumerate(unknowns_of(opt_params)):
        x, low, high = unknown.nominal, unknown.min_value, unknown.max_value
        half, limit = float(halves[k]), widest(x, unknown)
        others: tuple[str, ...] = ()
        if min(x - low, high - x) <= 1e-6 * (high - low):
            verdict, half = VerdictKind.AT_BOUND, math.nan
        elif half <= limit:  # NaN, where there is no interval, is not narrow
            verdict = VerdictKind.IDENTIFIED
        else:
            _, alone = calculate_intervals(residuals, jacobian[:, [k]])
            verdict = VerdictKind.NOT_EXCITED
            if norms[k] > 0 and alone[0] <= limit:
                verdict = VerdictKind.CONFOUNDED
                found = next((s for s in sets if k in s.columns), None) or partners(unit, k)
                others = tuple(names[other] for other in found.columns if other != k)
        path, unit_of = written[k]
        yield ParameterResult(
            name=names[k],
            targets=(path or names[k],),
            unit=unit_of,
            initial=float(start[k]),
            value=x,
            # np.maximum passes NaN on: no interval stays no interval.
            low=float(np.maximum(x - half, low)),
            high=float(np.minimum(x + half, high)),
            bounds=(low, high),
            verdict_kind=verdict,
            confounded_with=others,
        )


def save_results(
    experiment_results_folder: str | os.PathLike[str],
    models_sequences: Sequence[ModelSequences],
    initial_params: ParameterDict,
    opt_params: ParameterDict,
    opt_result: scipy.optimize.OptimizeResult,
    residual_fn: Callable[..., Any],
) -> None:
    """Write a fit into a folder, which is made if it is not there.

    The folder gets ``params_x_0.yaml`` and ``params_x_hat.yaml``, the parameters before and after;
    ``results.pkl``, the solver's result, and ``confidence.pkl``, covariance and half-widths, as
    ``mujoco.sysid`` writes them; and ``NAME.xml`` for each model, with the identified values.
    None of them is written unless all could be made.
    """
    folder = Path(experiment_results_folder)
    residuals, _, _ = residual_fn(opt_params.as_vector(), opt_params)
    covariance, half_widths = calculate_intervals(residuals, np.asarray(opt_result['jac']))
    kept = (str, numbers.Number, np.bool_, np.ndarray)
    plain = {k: v for k, v in opt_result.items() if isinstance(v, kept) or k == 'extras'}
    files = {
        'results.pkl': pickle.dumps(scipy.optimize.OptimizeResult(**plain)),
        'confidence.pkl': pickle.dumps({'cov': covariance, 'intervals': half_widths}),
    }
    stems = file_stems(group.name for group in models_sequences)
    for stem, group in zip(stems, models_sequences, strict=True):
        spec = apply_param_modifiers_spec(opt_params, group.spec.copy())
        try:
            spec.compile()
            files[f'{stem}.xml'] = spec.to_xml().encode()
        except (ValueError, RuntimeError) as err:
            raise ModelError(
                f'Cannot write model {group.name!r} with the identified values: '
                f'{one_sentence(err)}.'
            ) from err
    check_writable(folder)
    initial_params.save_to_disk(folder / 'params_x_0.yaml')
    opt_params.save_to_disk(folder / 'params_x_hat.yaml')
    for name, content in files.items():
        replace_file(folder / name, content)

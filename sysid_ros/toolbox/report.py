# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The toolbox's report: one HTML file of what `optimize` found, with the motion as a film.

The report's packages are imported when a report is made: identification does not need them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from sysid_ros.errors import FitError, ModelError
from sysid_ros.files import replace_file
from sysid_ros.model.joints import SCALAR_JOINTS
from sysid_ros.report.rendering import (
    FITTED,
    LONGEST,
    MEASURED,
    NOMINAL,
    Copy,
    Film,
    draw_film,
    lit,
)
from sysid_ros.results.result import CalibrationResult
from sysid_ros.toolbox.callbacks import BuildModelFn
from sysid_ros.toolbox.modifiers import apply_param_modifiers
from sysid_ros.toolbox.parameter import ParameterDict
from sysid_ros.toolbox.result import fitted_result
from sysid_ros.toolbox.rollout import sysid_rollout
from sysid_ros.toolbox.timeseries import TimeSeries
from sysid_ros.toolbox.trajectory import ModelSequences, SystemTrajectory, sequence_labels

REPORT = 'report.html'
#: No more recordings than these are filmed.
MOST_FILMS = 4
_POSITION = mujoco.mjtSensor.mjSENS_JOINTPOS.value


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


def default_report(  # noqa: PLR0913, PLR0917 (the call form of mujoco.sysid)
    models_sequences: Sequence[ModelSequences],
    initial_params: ParameterDict,
    opt_params: ParameterDict,
    residual_fn: Callable[..., Any],
    opt_result: scipy.optimize.OptimizeResult,
    title: str = 'SysID',
    save_path: str | Path | None = None,
    build_model: BuildModelFn | None = apply_param_modifiers,
    generate_videos: bool = True,  # noqa: FBT002 (the call form of mujoco.sysid)
    *,
    truth: Mapping[str, float] | None = None,
) -> ToolboxReport:
    """Report what `optimize` found in one HTML file that opens offline.

    It shows values with intervals and verdicts, the error of each signal before and after, every
    signal with the predictions of both, a film of the motion, nominal, fitted and measured, and the
    solver's trace. The specs and parameters that are passed are not changed.

    Args:
        models_sequences: Models and their recordings.
        initial_params: Where the fit began.
        opt_params: Where it ended.
        residual_fn: What was minimised, from `build_residual_fn`.
        opt_result: What `optimize` returned beside the parameters.
        title: Stands above the report.
        save_path: Folder for ``report.html``, made if it is not there; None writes nothing.
        build_model: Compiles parameters into a copy of a spec that it is given, for the film.
        generate_videos: Whether to make the film. Where there is no OpenGL, the report says
            so instead.
        truth: True values by parameter name, where they are known; they add a column.

    Returns:
        An object with ``build()``, which returns the page, and ``save(path)``.

    Raises:
        FitError: ``build_model`` is None and a film was asked for, or the residual function
            returns other sequences than there are.
        ResultError: The file cannot be written.
    """
    from sysid_ros.report import render_report  # noqa: PLC0415 (see the module's docstring)

    films: tuple[Film, ...] = ()
    no_film = ''
    if generate_videos:
        if build_model is None:
            raise FitError(
                'Expected build_model for the film, found None; or pass generate_videos=False.'
            )
        try:
            films = _films(models_sequences, initial_params, opt_params, build_model)
        except ModelError as err:
            no_film = str(err)
    result = fitted_result(
        title, models_sequences, initial_params, opt_params, residual_fn, opt_result
    )
    page = render_report(result, truth=truth, title=title, films=films, no_film=no_film)
    report = ToolboxReport(title, result, page)
    if save_path is not None:
        report.save(Path(save_path) / REPORT)
    return report


def _films(
    models_sequences: Sequence[ModelSequences],
    initial_params: ParameterDict,
    opt_params: ParameterDict,
    build_model: BuildModelFn,
) -> tuple[Film, ...]:
    """Draw the first recordings with the initial values, the fitted ones and as measured."""
    found: list[Film] = []
    for group, labels in zip(models_sequences, sequence_labels(models_sequences), strict=True):
        models = [build_model(params, lit(group.spec)) for params in (initial_params, opt_params)]
        runs = list(zip(labels, group.measured_rollout, strict=True))[: MOST_FILMS - len(found)]
        found += [_film(label, models, run) for label, run in runs]
    return tuple(found)


def _film(name: str, models: list[mujoco.MjModel], recorded: SystemTrajectory) -> Film:
    control = recorded.control
    shown = control.times <= control.times[0] + LONGEST
    control = TimeSeries(control.times[shown], control.data[shown], control.signal_mapping)
    predicted = sysid_rollout(
        models, mujoco.MjData(models[0]), [control] * 2, [recorded.initial_state] * 2
    )
    copies = [
        Copy(name, model, trajectory.state.matrix)
        for name, model, trajectory in zip((NOMINAL, FITTED), models, predicted, strict=True)
        if trajectory.state is not None
    ]
    like = copies[0].states
    clock = control.times[0] + models[0].opt.timestep * np.arange(1, len(like) + 1)
    measured = _measured_states(models[0], recorded.sensordata, clock, like)
    if measured is not None:
        copies.append(Copy(MEASURED, models[0], measured))
    note = '' if shown.all() else f'The first {LONGEST:g} s of the recording.'
    return draw_film(name, copies, note=note)


def _measured_states(
    model: mujoco.MjModel,
    sensordata: TimeSeries,
    clock: NDArray[np.float64],
    like: NDArray[np.float64],
) -> NDArray[np.float64] | None:
    """Return the states that the measured joint positions say; None unless all are measured."""
    if not model.njnt or not np.isin(model.jnt_type, SCALAR_JOINTS).all():
        return None
    states = np.zeros_like(like)
    states[:, 0] = like[:, 0]
    for joint in range(model.njnt):
        own = (model.sensor_type == _POSITION) & (model.sensor_objid == joint)
        names = [model.sensor(int(sensor)).name for sensor in np.flatnonzero(own)]
        names.append(f'{model.joint(joint).name}_qpos')
        name = next((name for name in names if name in sensordata.signal_mapping), None)
        if name is None:
            return None
        values = sensordata.get(name)[:, 0]
        known = np.isfinite(values)
        if not known.any():
            return None
        states[:, 1 + model.jnt_qposadr[joint]] = np.interp(
            clock, sensordata.times[known], values[known]
        )
    return states

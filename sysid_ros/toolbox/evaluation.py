# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Residuals of single calls: of all models, of one model, and the pairing of their signals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sysid_ros.errors import FitError, nearest
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.toolbox.model_sequences import ModelSequences
from sysid_ros.toolbox.modifiers import apply_param_modifiers
from sysid_ros.toolbox.residual_fn import build_residual_fn
from sysid_ros.toolbox.trajectory import SystemTrajectory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import mujoco
    from numpy.typing import NDArray

    from sysid_ros.toolbox.callbacks import BuildModelFn, CustomRolloutFn, ModifyResidualFn
    from sysid_ros.toolbox.parameter import ParameterDict
    from sysid_ros.toolbox.residual_fn import Outcome

_STATE_TYPES = (SignalType.MjStateQPos, SignalType.MjStateQVel, SignalType.MjStateAct)


def residual(  # noqa: PLR0913, PLR0917 (the toolbox's signature)
    x: NDArray[np.float64],
    params: ParameterDict,
    models_sequences: Sequence[ModelSequences],
    build_model: BuildModelFn = apply_param_modifiers,
    modify_residual: ModifyResidualFn | None = None,
    custom_rollout: CustomRolloutFn | None = None,
    n_threads: int = 0,
    return_pred_all: bool = False,  # noqa: FBT002
    resample_true: bool = True,  # noqa: FBT002
    sensor_weights: Mapping[str, Any] | None = None,
    enabled_observations: Sequence[tuple[str, SignalType]] = (),
    **options: Any,
) -> Outcome:
    """Evaluate candidates once.

    Models are compiled and recordings prepared for this call only; a function made by
    `build_residual_fn` keeps them.

    Args:
        x: (p,) values of the parameters that are not frozen, or (p, m) candidates.
        params: The parameters; they are not changed.
        models_sequences: The models with their measurements.
        build_model: See `build_residual_fn`, as for all that follow.
        modify_residual: Replaces the comparison.
        custom_rollout: Replaces the simulation.
        n_threads: 0 for one per core.
        return_pred_all: Also return series of sensors that do not count.
        resample_true: False takes controls and measurements as one per step.
        sensor_weights: Signal name to a factor.
        enabled_observations: What counts; empty for all.
        **options: The others.

    Returns:
        For each sequence of each model, in order: the (n,) or (n, m) residuals, the predicted
        series of each candidate, and the measured series for each of them.

    Raises:
        FitError: An option or the shape of ``x`` is not valid.
        CandidateError: No model can be built for a candidate.
    """
    return build_residual_fn(
        models_sequences=models_sequences,
        build_model=build_model,
        modify_residual=modify_residual,
        custom_rollout=custom_rollout,
        n_threads=n_threads,
        return_pred_all=return_pred_all,
        resample_true=resample_true,
        sensor_weights=sensor_weights,
        enabled_observations=enabled_observations,
        **options,
    )(x, params)


def model_residual(  # noqa: PLR0913, PLR0917 (the toolbox's signature)
    x: NDArray[np.float64],
    params: ParameterDict,
    build_model: Callable[[ParameterDict], mujoco.MjModel],
    traj_measured: Sequence[SystemTrajectory] | SystemTrajectory,
    modify_residual: ModifyResidualFn | None = None,
    custom_rollout: CustomRolloutFn | None = None,
    n_threads: int = 0,
    return_pred_all: bool = False,  # noqa: FBT002
    resample_true: bool = True,  # noqa: FBT002
    sensor_weights: Mapping[str, float] | None = None,
    enabled_observations: Sequence[tuple[str, SignalType]] = (),
    **options: Any,
) -> tuple[NDArray[np.float64], list[TimeSeries], list[TimeSeries]]:
    """Evaluate candidates of one model on measured trajectories once.

    The trajectories need not cover all sensors of the model.

    Args:
        x: (p,) values of the parameters that are not frozen, or (p, m) candidates.
        params: The parameters; they are not changed.
        build_model: Compiles a model with parameters, ``build_model(params)``; what targets of the
            parameters name is its business, too.
        traj_measured: The trajectory, or several.
        modify_residual: See `build_residual_fn`, as for all that follow.
        custom_rollout: Replaces the simulation.
        n_threads: 0 for one per core.
        return_pred_all: Also return series of sensors that do not count.
        resample_true: False takes controls and measurements as one per step.
        sensor_weights: Signal name to a factor.
        enabled_observations: What counts; empty for all.
        **options: The others.

    Returns:
        The (n,) or (n, m) residuals of all trajectories, and the predicted and measured series: of
        every trajectory with the first candidate, then with the next.

    Raises:
        FitError: There is no trajectory, or an option or the shape of ``x`` is not valid.
        CandidateError: No model can be built for a candidate.
    """
    if isinstance(traj_measured, SystemTrajectory):
        traj_measured = [traj_measured]
    trajectories = list(traj_measured)
    if not trajectories:
        msg = 'Expected a measured trajectory, found none.'
        raise FitError(msg)
    given = params.copy()

    def build(candidate: ParameterDict, _: mujoco.MjSpec) -> mujoco.MjModel:
        given.update_from_vector(candidate.as_vector())
        return build_model(given)

    untargeted = params.copy()
    for parameter in untargeted.values():
        parameter.target = None
    found, predicted, measured = build_residual_fn(
        models_sequences=[ModelSequences.of_trajectories('model', trajectories)],
        build_model=build,
        modify_residual=modify_residual,
        custom_rollout=custom_rollout,
        n_threads=n_threads,
        return_pred_all=return_pred_all,
        resample_true=resample_true,
        sensor_weights=sensor_weights,
        enabled_observations=enabled_observations,
        **options,
    )(x, untargeted)
    return (
        np.concatenate(found),
        [series for candidate in zip(*predicted, strict=True) for series in candidate],
        [series for candidate in zip(*measured, strict=True) for series in candidate],
    )


def construct_ts_from_defaults(
    state_ts: TimeSeries,
    pred_sensordata: TimeSeries,
    measured_sensordata: TimeSeries,
    enabled_observations: Sequence[tuple[str, SignalType]] | None = None,
) -> tuple[TimeSeries, TimeSeries]:
    """Pair what was simulated with what was measured, by name.

    Args:
        state_ts: Simulated states with their own stamps and names.
        pred_sensordata: Simulated sensors; without names, their columns are those of
            ``measured_sensordata``.
        measured_sensordata: Measured signals, with names.
        enabled_observations: Names and types of those that count; all by default.

    Returns:
        The measured series with its stamps, and the predicted one with those of
        ``pred_sensordata``, both with the signals that count; a state is NaN at stamps where
        ``state_ts`` has none.

    Raises:
        FitError: A signal is not measured, is of another type, was not simulated, or is a
            ``CustomObs``, which only a ``modify_residual`` of the user's own can compare.
    """
    kinds = dict(enabled_observations or ())
    for name, kind in kinds.items():
        if name not in measured_sensordata.signal_mapping:
            hint = nearest(name, measured_sensordata.signal_mapping)
            msg = f'Observation {name!r} was not measured; {hint}.'
            raise FitError(msg)
        found = measured_sensordata.signal_mapping[name][0]
        if found is not kind:
            msg = f'Observation {name!r} is of type {found.name}, but declared as {kind.name}.'
            raise FitError(msg)
    measured = measured_sensordata
    if kinds:
        measured = measured.slice_by_name(list(kinds))
    data = np.full((len(pred_sensordata), measured.matrix.shape[1]), np.nan)
    for name, (kind, columns) in measured.signal_mapping.items():
        if kind is SignalType.CustomObs:
            msg = (
                f'Observation {name!r} is a CustomObs, which the model does not predict; pass a '
                'modify_residual that compares it.'
            )
            raise FitError(msg)
        if kind in _STATE_TYPES:
            data[:, columns] = _states(state_ts, name, pred_sensordata.times)
        elif pred_sensordata.signal_mapping:
            data[:, columns] = _of(pred_sensordata, name).get(name)
        else:
            data[:, columns] = pred_sensordata.matrix[:, measured_sensordata.get_indices(name)[1]]
    return measured, TimeSeries(pred_sensordata.times, data, measured.signal_mapping)


def _of(series: TimeSeries, name: str) -> TimeSeries:
    if name not in series.signal_mapping:
        msg = f'Observation {name!r} was not simulated; {nearest(name, series.signal_mapping)}.'
        raise FitError(msg)
    return series


def _states(series: TimeSeries, name: str, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return one signal at other stamps, NaN outside of its own."""
    own = _of(series, name).slice_by_name([name])
    if np.array_equal(own.times, times):
        return own.data
    values = own.interpolate(times)
    values[(times < own.times[0]) | (times > own.times[-1])] = np.nan
    return values

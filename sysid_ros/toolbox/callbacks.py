# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The functions that users of the toolbox write themselves, and the residuals that they make."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import FitError
from sysid_ros.estimation.solver.differences import FunctionResiduals
from sysid_ros.model.rebuild import CandidateError
from sysid_ros.model.unknown import Unknown
from sysid_ros.rollout.simulation import Simulator
from sysid_ros.signals import SignalType
from sysid_ros.toolbox.modifiers import apply_param_modifiers
from sysid_ros.toolbox.parameter import ParameterDict
from sysid_ros.toolbox.rollout import sysid_rollout
from sysid_ros.toolbox.signal_modifier import apply_delayed_ts_window
from sysid_ros.toolbox.timeseries import TimeSeries
from sysid_ros.toolbox.trajectory import SystemTrajectory

if TYPE_CHECKING:
    from sysid_ros.toolbox.recorded import Recorded, SensorStamps
    from sysid_ros.toolbox.signal_transform import SignalTransform
    from sysid_ros.toolbox.trajectory import ModelSequences


#: Compiles a candidate: ``build_model(params, spec)``, with a copy of the spec that it may change.
BuildModelFn: TypeAlias = Callable[[ParameterDict, mujoco.MjSpec], mujoco.MjModel]

#: Replaces `sysid_rollout`; called with the keyword arguments ``models``, ``datas``,
#: ``control_signal``, ``initial_states``, ``param_dicts``, ``rollout_signal_mapping``,
#: ``rollout_state_mapping`` and ``ctrl_mapping``; returns one trajectory per model.
CustomRolloutFn: TypeAlias = Callable[..., Sequence[SystemTrajectory]]

#: Replaces the comparison; called as ``modify_residual(params, sensordata_predicted,
#: sensordata_measured, model, return_pred_all, state=…)``, where the state has a row after each
#: step; returns the residuals, and the predicted and the measured series.
ModifyResidualFn: TypeAlias = Callable[..., tuple[NDArray[np.float64], TimeSeries, TimeSeries]]
#: Residuals of an unstable candidate, in units of the largest of the first stable one.
_DIVERGED = 1e3


class Options(NamedTuple):
    """How residuals are made; see `build_residual_fn`."""

    models_sequences: Sequence[ModelSequences]
    build_model: BuildModelFn = apply_param_modifiers
    modify_residual: ModifyResidualFn | None = None
    custom_rollout: CustomRolloutFn | None = None
    n_threads: int = 0
    return_pred_all: bool = False
    resample_true: bool = True
    sensor_weights: Mapping[str, Any] | None = None
    enabled_observations: Any = ()
    signal_transform: SignalTransform | None = None
    sensor_stamps: SensorStamps = 'auto'
    noise: Mapping[str, float] | None = None


class MeasuredTrajectory(NamedTuple):
    """A measured trajectory and what predicts it.

    Attributes:
        simulator: Writes candidates into the trajectory's model.
        trajectory: As the user gave it, its sensors' stamps being the time that they describe.
        recorded: The same, prepared for the engine.
        weights: Signal name to a factor on its residuals.
        signals: Names of the signals that count; none for all.
    """

    simulator: Simulator
    trajectory: SystemTrajectory
    recorded: Recorded
    weights: Mapping[str, float]
    signals: Collection[str]


class CustomResiduals(FunctionResiduals):
    """Residuals of a user's own comparison or simulation, as a function of the candidates.

    Attributes:
        refused: Why no model could be built for some candidates of the last call, by their index.
        refusals: Number of such candidates so far; they count as diverged, too.
    """

    def __init__(
        self,
        options: Options,
        params: ParameterDict,
        unknowns: tuple[Unknown, ...],
        measured: Sequence[MeasuredTrajectory],
        noise: Mapping[str, float],
    ) -> None:
        """Keep what residuals are made of."""
        super().__init__(lambda x: np.concatenate(self._compare(x)[0]), unknowns)
        self.refused: dict[int, CandidateError] = {}
        self.refusals = 0
        self._built = False
        self._options = options
        self._params = params.copy()
        self._measured = tuple(measured)
        self._noise = noise
        self._largest: NDArray[np.float64] | None = None

    def __call__(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (n, m) residuals of (m, p) candidates, finite also where they diverge."""
        residual = self._function(candidates)
        self.unstable = np.asarray(~np.isfinite(residual).all(axis=0))
        self.diverged += int(self.unstable.sum())
        if self._largest is None and not self.unstable.all():
            # Far above what any stable candidate gives, so that the solver steps back.
            first = residual[:, ~self.unstable][:, 0]
            self._largest = np.maximum(_DIVERGED * np.abs(first).max(), np.ones(len(first)))
        if self.unstable.any() and self._largest is not None:
            residual[:, self.unstable] = self._largest[:, None]
        return residual

    def check(self, x: NDArray[np.float64]) -> None:
        """Check that a candidate has a model."""
        for entry in self._measured:
            entry.simulator.check(x)

    def compare(
        self, candidates: NDArray[np.float64]
    ) -> tuple[list[NDArray[np.float64]], list[list[TimeSeries]], list[list[TimeSeries]]]:
        """Return residuals (n, m), predicted and measured series for every trajectory."""
        found = self._compare(candidates)
        for refused in self.refused.values():
            raise refused
        return found

    def _compare(
        self, candidates: NDArray[np.float64]
    ) -> tuple[list[NDArray[np.float64]], list[list[TimeSeries]], list[list[TimeSeries]]]:
        found, predicted, measured = [], [], []
        self.refused = {}
        for entry in self._measured:
            models = self._models(entry, candidates)
            rollouts = self._rollouts(entry, models, candidates)
            self.evaluations += len(candidates)
            parts = [
                self._compared(entry, model, rollout, x)
                for model, rollout, x in zip(models, rollouts, candidates, strict=True)
            ]
            found.append(_columns([part[0] for part in parts], entry.recorded.sequence.name))
            found[-1][:, list(self.refused)] = np.nan
            predicted.append([part[1] for part in parts])
            measured.append([part[2] for part in parts])
        self.refusals += len(self.refused)
        return found, predicted, measured

    def _models(
        self, entry: MeasuredTrajectory, candidates: NDArray[np.float64]
    ) -> list[mujoco.MjModel]:
        """Return a model per candidate, any of them where there is none with the values."""
        models: dict[int, mujoco.MjModel] = {}
        for index, x in enumerate(candidates):
            try:
                models[index] = entry.simulator.compiled(x)
            except CandidateError as err:
                if not self._built:
                    raise
                self.refused[index] = err
                continue
            self._built = True
        spare = next(iter(models.values()), entry.simulator.model)
        return [models.get(index, spare) for index in range(len(candidates))]

    def _rollouts(
        self,
        entry: MeasuredTrajectory,
        models: list[mujoco.MjModel],
        candidates: NDArray[np.float64],
    ) -> Sequence[SystemTrajectory]:
        """Simulate one trajectory with every candidate, on the user's clock."""
        count, model = len(candidates), models[0]
        control = _step_controls(entry)
        qpos, qvel, act, ctrl = TimeSeries.compute_all_state_mappings(model)
        common: dict[str, Any] = {
            'models': models,
            'datas': [mujoco.MjData(model) for _ in range(entry.simulator.threads)],
            'control_signal': [control] * count,
            'initial_states': [entry.trajectory.initial_state] * count,
            'rollout_signal_mapping': TimeSeries.compute_all_sensor_mapping(model),
            'rollout_state_mapping': {**qpos, **qvel, **act},
            'ctrl_mapping': ctrl,
        }
        if self._options.custom_rollout is None:
            return sysid_rollout(**common)
        param_dicts = []
        for x in candidates:
            self._params.update_from_vector(x)
            param_dicts.append(self._params.copy())
        made = self._options.custom_rollout(**common, param_dicts=param_dicts)
        rollouts: list[SystemTrajectory] = [] if made is None else list(made)
        if len(rollouts) != count:
            raise FitError(
                f'Expected custom_rollout to return {count} trajectories, one per model, '
                f'found {len(rollouts)}.'
            )
        return rollouts

    def _compared(
        self,
        entry: MeasuredTrajectory,
        model: mujoco.MjModel,
        rollout: SystemTrajectory,
        x: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], TimeSeries, TimeSeries]:
        if self._options.modify_residual is not None:
            self._params.update_from_vector(x)
            made = self._options.modify_residual(
                self._params.copy(),
                rollout.sensordata,
                entry.trajectory.sensordata,
                model,
                self._options.return_pred_all,
                state=None if rollout.state is None else rollout.state.matrix,
            )
            if not isinstance(made, (tuple, list)) or len(made) != 3:  # noqa: PLR2004
                raise FitError(
                    'Expected modify_residual to return residuals, predicted and measured series, '
                    f'found {type(made).__name__}.'
                )
            return made[0], made[1], made[2]
        series = entry.trajectory.sensordata
        if entry.signals:
            series = series.slice_by_name(list(entry.signals))
        measured = apply_delayed_ts_window(series, rollout.sensordata, 0.0, 0.0)
        predicted = predicted_like(measured, rollout)
        scale = np.ones(measured.matrix.shape[1])
        for name, (_, columns) in measured.signal_mapping.items():
            scale[columns] = entry.weights.get(name, 1.0) / self._noise.get(name, 1.0)
        residual = (measured.matrix - predicted.matrix) * scale
        return residual[np.isfinite(measured.matrix)], predicted, measured


def _columns(residuals: Sequence[Any], sequence: str) -> NDArray[np.float64]:
    """Return the (n, m) residuals of m candidates."""
    columns = [np.ravel(np.asarray(residual, dtype=np.float64)) for residual in residuals]
    counts = sorted({len(column) for column in columns})
    if len(counts) > 1:
        raise FitError(
            'Expected modify_residual to return as many residuals for each candidate, found '
            f'{counts[0]} to {counts[-1]} for sequence {sequence!r}.'
        )
    return np.stack(columns, axis=1)


def predicted_like(measured: TimeSeries, rollout: SystemTrajectory) -> TimeSeries:
    """Return what a rollout says of measured signals, by name, at their stamps."""
    data = np.empty_like(measured.matrix)
    state = None if rollout.state is None else _with_start(rollout)
    for name, (kind, columns) in measured.signal_mapping.items():
        source = rollout.sensordata
        if state is not None and kind not in (SignalType.MjSensor, SignalType.CustomObs):
            source = state
        data[:, columns] = source.slice_by_name([name]).resample(measured.times).data
    return TimeSeries(measured.times, data, measured.signal_mapping)


def _with_start(rollout: SystemTrajectory) -> TimeSeries:
    """Return the states of a rollout, which are those after its steps, with the initial one."""
    state = rollout.state
    assert state is not None  # noqa: S101
    start = rollout.sensordata.times[0]
    if start >= state.times[0] or state.matrix.shape[1] != len(rollout.initial_state):
        return state
    return TimeSeries(
        np.append(start, state.times),
        np.vstack([rollout.initial_state, state.matrix]),
        state.signal_mapping,
    )


def _step_controls(entry: MeasuredTrajectory) -> TimeSeries:
    """Return the controls, one per step from the start on, each the mean over its step."""
    timestep = float(entry.simulator.model.opt.timestep)
    origin = entry.recorded.origin
    steps = round((float(entry.trajectory.control.times[-1]) - origin) / timestep) + 1
    name = entry.recorded.sequence.name
    run = next(run for run in entry.simulator.runs if run.sequence.name == name)
    times = origin + timestep * np.arange(steps, dtype=np.float64)
    return TimeSeries(
        times,
        entry.simulator.nominal_controls(run, steps),
        TimeSeries.compute_all_control_mapping(entry.simulator.model),
    )

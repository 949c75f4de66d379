# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Residuals that a user's own callbacks make, candidate by candidate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import mujoco
import numpy as np

from sysid_ros.identification.problem import Around
from sysid_ros.identification.signal_modifier import apply_delayed_ts_window
from sysid_ros.identification.trajectory import SystemTrajectory, sysid_rollout
from sysid_ros.signals import SignalType, TimeSeries

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.identification.parameter import ParameterDict
    from sysid_ros.identification.recorded import Recorded
    from sysid_ros.identification.simulation import Simulator
    from sysid_ros.identification.unknown import Unknown


class Measured(NamedTuple):
    """A measured trajectory and what predicts it.

    Attributes:
        simulator: Writes candidates into the trajectory's model.
        trajectory: As the user gave it, its sensors' stamps being the time that they describe.
        recorded: The same, prepared for the engine.
        weights: Signal name to a factor on its residuals.
        signals: Names of the signals that count; None for all.
    """

    simulator: Simulator
    trajectory: SystemTrajectory
    recorded: Recorded
    weights: Mapping[str, float]
    signals: Sequence[str] | None


class Callbacks(NamedTuple):
    """The user's own functions; see `build_residual_fn`."""

    modify_residual: Callable[..., Any] | None
    custom_rollout: Callable[..., Any] | None
    return_pred_all: bool


class CustomResiduals:
    """Residuals of a user's own comparison or simulation, as a function of the candidates.

    Attributes:
        unknowns: What a candidate's values are.
        evaluations: Number of simulations so far.
        diverged: How many candidates had a residual that is not finite.
        unstable: (m,) the same for each candidate of the last call.
        exact: (p,) all False: every derivative is a difference.
    """

    def __init__(
        self,
        callbacks: Callbacks,
        params: ParameterDict,
        unknowns: tuple[Unknown, ...],
        measured: Sequence[Measured],
        noise: Mapping[str, float],
    ) -> None:
        """Keep what residuals are made of.

        Args:
            callbacks: The user's own functions.
            params: What they get, a copy of it, with the candidate's values.
            unknowns: What a candidate's values are.
            measured: The trajectories.
            noise: Signal name to the standard deviation that its residuals are divided by, where
                the user does not compare.
        """
        self.unknowns = unknowns
        self.evaluations = 0
        self.diverged = 0
        self.unstable = np.zeros(0, dtype=bool)
        self.exact = np.zeros(len(unknowns), dtype=bool)
        self._callbacks = callbacks
        self._params = params.copy()
        self._measured = tuple(measured)
        self._noise = noise
        self._largest: NDArray[np.float64] | None = None

    def __call__(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (n, m) residuals of (m, p) candidates, finite also where they diverge."""
        residual = np.concatenate(self.compare(candidates)[0])
        self.unstable = np.asarray(~np.isfinite(residual).all(axis=0))
        self.diverged += int(self.unstable.sum())
        if self._largest is None and not self.unstable.all():
            # Far above what any stable candidate gives, so that the solver steps back.
            first = residual[:, ~self.unstable][:, 0]
            self._largest = np.maximum(_DIVERGED * np.abs(first).max(), np.ones(len(first)))
        if self.unstable.any() and self._largest is not None:
            residual[:, self.unstable] = self._largest[:, None]
        return residual

    def around(
        self,
        x: NDArray[np.float64],
        steps: NDArray[np.float64],
        columns: NDArray[np.bool_] | None = None,
        base: NDArray[np.float64] | None = None,
    ) -> Around:
        """Evaluate a candidate and its neighbours; see `ResidualLike`."""
        moved = np.arange(len(x)) if columns is None else np.flatnonzero(columns)
        candidates = np.tile(x, (len(moved) + (base is None), 1))
        first = len(candidates) - len(moved)
        candidates[first + np.arange(len(moved)), moved] += steps[moved]
        values = self(candidates)
        residual = values[:, 0] if base is None else base
        changes = np.zeros((len(residual), len(x)))
        changes[:, moved] = values[:, first:] - residual[:, None]
        wild = np.zeros(len(x), dtype=bool)
        wild[moved] = self.unstable[first:]
        return Around(residual, changes, wild, bool(base is None and self.unstable[0]))

    def compare(
        self, candidates: NDArray[np.float64]
    ) -> tuple[list[NDArray[np.float64]], list[list[TimeSeries]], list[list[TimeSeries]]]:
        """Return residuals (n, m), predicted and measured series for every trajectory."""
        found, predicted, measured = [], [], []
        for entry in self._measured:
            models = [entry.simulator.compiled(x) for x in candidates]
            rollouts = self._rollouts(entry, models, candidates)
            self.evaluations += len(candidates)
            parts = [
                self._compared(entry, model, rollout, x)
                for model, rollout, x in zip(models, rollouts, candidates, strict=True)
            ]
            found.append(np.stack([np.ravel(part[0]) for part in parts], axis=1))
            predicted.append([part[1] for part in parts])
            measured.append([part[2] for part in parts])
        return found, predicted, measured

    def _rollouts(
        self, entry: Measured, models: list[mujoco.MjModel], candidates: NDArray[np.float64]
    ) -> Sequence[SystemTrajectory]:
        """Simulate one trajectory with every candidate, on the user's clock."""
        count, model = len(candidates), models[0]
        control = _held(entry)
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
        if self._callbacks.custom_rollout is None:
            return sysid_rollout(**common)
        param_dicts = []
        for x in candidates:
            self._params.update_from_vector(x)
            param_dicts.append(self._params.copy())
        made: Sequence[SystemTrajectory] = self._callbacks.custom_rollout(
            **common, param_dicts=param_dicts
        )
        return made

    def _compared(
        self,
        entry: Measured,
        model: mujoco.MjModel,
        rollout: SystemTrajectory,
        x: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], TimeSeries, TimeSeries]:
        if self._callbacks.modify_residual is not None:
            self._params.update_from_vector(x)
            made: tuple[NDArray[np.float64], TimeSeries, TimeSeries] = (
                self._callbacks.modify_residual(
                    self._params.copy(),
                    rollout.sensordata,
                    entry.trajectory.sensordata,
                    model,
                    self._callbacks.return_pred_all,
                    state=None if rollout.state is None else rollout.state.data,
                )
            )
            return made
        measured = apply_delayed_ts_window(entry.recorded.measured, rollout.sensordata, 0.0, 0.0)
        if entry.signals is not None:
            measured = measured.slice_by_name(list(entry.signals))
        predicted = predicted_like(measured, rollout)
        scale = np.ones(measured.data.shape[1])
        for name, (_, columns) in measured.signal_mapping.items():
            scale[columns] = entry.weights.get(name, 1.0) / self._noise.get(name, 1.0)
        residual = (measured.data - predicted.data) * scale
        return residual[np.isfinite(measured.data)], predicted, measured


#: Residuals of an unstable candidate, in units of the largest of the first stable one.
_DIVERGED = 1e3


def predicted_like(measured: TimeSeries, rollout: SystemTrajectory) -> TimeSeries:
    """Return what a rollout says of measured signals, by name, at their stamps.

    Args:
        measured: What was measured.
        rollout: With the state, where parts of it were measured.

    Returns:
        A series of the same times and mapping.
    """
    data = np.empty_like(measured.data)
    for name, (kind, columns) in measured.signal_mapping.items():
        if kind in (SignalType.MjSensor, SignalType.CustomObs) or rollout.state is None:
            source = rollout.sensordata
        else:
            source = rollout.state
        data[:, columns] = source.slice_by_name([name]).resample(measured.times).data
    return TimeSeries(measured.times, data, measured.signal_mapping)


def _held(entry: Measured) -> TimeSeries:
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

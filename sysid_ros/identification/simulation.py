# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Simulating every sequence with every candidate, in one batch on one thread pool."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco
import numpy as np
from mujoco.rollout import Rollout

from sysid_ros.errors import FitError, nearest
from sysid_ros.identification.commands import HeldCommand

if TYPE_CHECKING:
    from collections.abc import Sequence as Many

    from numpy.typing import NDArray
    from typing_extensions import Self

    from sysid_ros.identification.sequence import Sequence
    from sysid_ros.identification.unknown import Unknown
    from sysid_ros.signals import TimeSeries

#: Sequences whose lengths differ by less than this factor share a batch, the shorter ones padded.
_LENGTH_FACTOR = 1.25
#: Activation dynamics whose steady state is the control itself.
_FILTERS = (mujoco.mjtDyn.mjDYN_FILTER, mujoco.mjtDyn.mjDYN_FILTEREXACT)


@dataclass(frozen=True)
class Channels:
    """Where the samples of one measured series are found in a rollout.

    Attributes:
        sensors: Names of the k sensors.
        columns: (k,) columns of ``sensordata``.
        rows: (n,) row at or before each sample.
        weights: (n, 1) share of the row after it.
        measured: (n, k) measured samples; NaN where there is none.
        times: (n,) seconds from the start of the sequence.
    """

    sensors: tuple[str, ...]
    columns: NDArray[np.int64]
    rows: NDArray[np.int64]
    weights: NDArray[np.float64]
    measured: NDArray[np.float64]
    times: NDArray[np.float64]

    def predict(self, sensordata: NDArray[np.float64]) -> NDArray[np.float64]:
        """Evaluate rollouts at the measured stamps.

        Args:
            sensordata: (m, steps, nsensordata); row k describes the state at ``k * timestep``.

        Returns:
            (m, n, k) predictions.
        """
        values = sensordata[:, :, self.columns]
        return values[:, self.rows] * (1 - self.weights) + values[:, self.rows + 1] * self.weights


@dataclass(frozen=True)
class Run:
    """One sequence, prepared for simulation with any candidate."""

    sequence: Sequence
    steps: int
    initial_state: NDArray[np.float64]
    commands: tuple[HeldCommand | None, ...]
    channels: tuple[Channels, ...]


@dataclass(frozen=True)
class Prediction:
    """What all candidates predict for one sequence.

    Attributes:
        channels: One (m, n, k) array per measured series of the sequence.
        diverged: (m,) whether the simulation became unstable.
    """

    channels: tuple[NDArray[np.float64], ...]
    diverged: NDArray[np.bool_]


class Simulator:
    """Runs candidates of one model over sequences.

    The model is compiled once, by the caller; candidates are written into copies of it. Copies,
    simulation data, output buffers and threads are made once and kept. The caller's model is never
    changed.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        parameters: Many[Unknown],
        sequences: Many[Sequence],
        threads: int = 0,
    ) -> None:
        """Prepare the sequences.

        Args:
            model: The compiled nominal model.
            parameters: What a candidate's values are, in order.
            sequences: What is simulated.
            threads: Size of the pool; 0 means one per core.

        Raises:
            FitError: A sequence names a sensor or actuator that the model does not have.
        """
        self.parameters = tuple(parameters)
        self.rollouts = 0
        self._model = _without_native_delay(model)
        self._nominal_delay = np.array(model.actuator_delay, dtype=np.float64)
        self._delay_columns = [
            (target.row, column)
            for column, parameter in enumerate(self.parameters)
            for target in parameter.targets
            if not target.in_model
        ]
        threads = threads or os.cpu_count() or 1
        self._pool = Rollout(nthread=threads)
        self._data = [mujoco.MjData(self._model) for _ in range(threads)]
        self._scratch = mujoco.MjData(self._model)
        self._models: list[mujoco.MjModel] = []
        self._buffers: dict[tuple[int, int], tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
        self.runs = tuple(_prepare(self._model, sequence) for sequence in sequences)
        self._batches = _batches([run.steps for run in self.runs])

    def close(self) -> None:
        """End the threads."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def predict(
        self, candidates: NDArray[np.float64], offsets: NDArray[np.float64] | None = None
    ) -> tuple[Prediction, ...]:
        """Simulate every sequence with every candidate.

        Args:
            candidates: (m, p) parameter values.
            offsets: (m, number of sequences) seconds by which the commands of each sequence act
                later than their stamps and delays say; none by default.

        Returns:
            One prediction per sequence, in the order of the sequences.
        """
        models = self._write(candidates)
        # (number of sequences, m, nactuator)
        delays = np.tile(self._delays(candidates), (len(self.runs), 1, 1))
        if offsets is not None:
            delays += offsets.T[:, :, None]
        predictions: list[Prediction | None] = [None] * len(self.runs)
        for batch in self._batches:
            for index, prediction in zip(batch, self._roll(batch, models, delays), strict=True):
                predictions[index] = prediction
        return tuple(prediction for prediction in predictions if prediction is not None)

    def _write(self, candidates: NDArray[np.float64]) -> list[mujoco.MjModel]:
        while len(self._models) < len(candidates):
            self._models.append(self._model.__copy__())
        models = self._models[: len(candidates)]
        for model, values in zip(models, candidates, strict=True):
            for parameter, value in zip(self.parameters, values, strict=True):
                for target in parameter.targets:
                    target.write(model, float(value))
            mujoco.mj_setConst(model, self._scratch)
        return models

    def _delays(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (m, nactuator) delays of all candidates, seconds."""
        delays = np.tile(self._nominal_delay, (len(candidates), 1))
        for actuator, column in self._delay_columns:
            delays[:, actuator] = candidates[:, column]
        return delays

    def _roll(
        self,
        batch: list[int],
        models: list[mujoco.MjModel],
        delays: NDArray[np.float64],
    ) -> list[Prediction]:
        m = len(models)
        steps = max(self.runs[index].steps for index in batch)
        state, sensordata = self._buffer(m * len(batch), steps)
        timestep = self._model.opt.timestep
        edges = np.arange(steps + 1) * timestep
        control = np.concatenate(
            [_controls(self._model, self.runs[index], edges, delays[index]) for index in batch]
        )
        initial = np.repeat([self.runs[index].initial_state for index in batch], m, axis=0)
        self._pool.rollout(
            models * len(batch),
            self._data,
            initial,
            control,
            nstep=steps,
            state=state,
            sensordata=sensordata,
        )
        self.rollouts += len(initial)
        predictions = []
        for place, index in enumerate(batch):
            rows = slice(place * m, (place + 1) * m)
            run = self.runs[index]
            values = sensordata[rows]
            # A diverged simulation stops and repeats its last record: its clock stands still.
            reached = state[rows, run.steps - 1, 0]
            diverged = (reached < (run.steps - 0.5) * timestep) | ~np.isfinite(
                values[:, run.steps - 1]
            ).all(axis=1)
            predictions.append(
                Prediction(tuple(channel.predict(values) for channel in run.channels), diverged)
            )
        return predictions

    def _buffer(self, size: int, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if (size, steps) not in self._buffers:
            nstate = mujoco.mj_stateSize(self._model, mujoco.mjtState.mjSTATE_FULLPHYSICS.value)
            self._buffers[size, steps] = (
                np.empty((size, steps, nstate)),
                np.empty((size, steps, self._model.nsensordata)),
            )
        return self._buffers[size, steps]


def _without_native_delay(model: mujoco.MjModel) -> mujoco.MjModel:
    """Copy a model; delays are applied to the commands here, not by MuJoCo as well."""
    copy = model.__copy__()
    copy.actuator_delay[:] = 0.0
    return copy


def _batches(steps: list[int]) -> list[list[int]]:
    """Group sequences of similar length."""
    batches: list[list[int]] = []
    for index in sorted(range(len(steps)), key=lambda i: -steps[i]):
        if batches and steps[batches[-1][0]] <= _LENGTH_FACTOR * steps[index]:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def _controls(
    model: mujoco.MjModel, run: Run, edges: NDArray[np.float64], delays: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the (m, steps, nu) controls of one sequence for all candidates.

    An actuator may have several controls (MuJoCo 4.0); its command is the first of them.
    """
    control = np.zeros((len(delays), len(edges) - 1, model.nu))
    for actuator, command in enumerate(run.commands):
        if command is None:
            continue
        distinct, inverse = np.unique(delays[:, actuator], return_inverse=True)
        means = np.stack([command.means(edges, float(delay)) for delay in distinct])
        control[:, :, model.actuator_ctrladr[actuator]] = means[inverse]
    return control


def _prepare(model: mujoco.MjModel, sequence: Sequence) -> Run:
    timestep = model.opt.timestep
    # One row more than the last sample needs, so that every sample lies between two rows.
    steps = int(np.floor(sequence.duration / timestep + 1e-9)) + 2
    channels = tuple(
        _channels(model, series, timestep, sequence.name) for series in sequence.measurements
    )
    commands: list[HeldCommand | None] = [None] * model.nactuator
    for series in sequence.commands:
        for name in series.names:
            actuator = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_ACTUATOR, name)
            if actuator < 0:
                known = [model.actuator(i).name for i in range(model.nactuator)]
                msg = f'Sequence {sequence.name!r} commands {name!r}; {nearest(name, known)}.'
                raise FitError(msg)
            commands[actuator] = HeldCommand(series.times, series.get(name)[:, 0])
    data = mujoco.MjData(model)
    data.qpos[:] = sequence.initial_qpos
    data.qvel[:] = sequence.initial_qvel
    for actuator, command in enumerate(commands):
        if command is not None and mujoco.mjtDyn(model.actuator_dyntype[actuator]) in _FILTERS:
            first = command.at(0.0)
            column = model.actuator_ctrladr[actuator]
            if model.actuator_ctrllimited[column]:
                first = float(np.clip(first, *model.actuator_ctrlrange[column]))
            data.act[model.actuator_actadr[actuator]] = first
    state = np.empty(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS.value))
    mujoco.mj_getState(model, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS.value)
    return Run(sequence, steps, state, tuple(commands), channels)


def _channels(
    model: mujoco.MjModel, series: TimeSeries, timestep: float, sequence: str
) -> Channels:
    columns, used = [], []
    for name in series.names:
        sensor = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, name)
        if sensor < 0:
            known = [model.sensor(i).name for i in range(model.nsensor)]
            msg = f'Sequence {sequence!r} measures {name!r}; {nearest(name, known)}.'
            raise FitError(msg)
        columns.append(int(model.sensor_adr[sensor]))
        used.append(name)
    position: NDArray[np.float64] = np.maximum(series.times / timestep, 0.0)
    rows = np.floor(position + 1e-9).astype(np.int64)
    weights: NDArray[np.float64] = np.clip(position - rows, 0.0, 1.0)[:, None]
    measured = np.concatenate([series.get(name) for name in used], axis=1)
    return Channels(tuple(used), np.array(columns), rows, weights, measured, series.times)

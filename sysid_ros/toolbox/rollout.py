# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Simulating trajectories with the toolbox's call, stamped as what they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from mujoco.rollout import Rollout
from numpy.typing import NDArray

from sysid_ros.errors import FitError
from sysid_ros.signals import SignalMapping
from sysid_ros.toolbox.timeseries import (
    TimeSeries,
    control_mapping,
    held_means,
    regular_grid,
    sensor_mapping,
    snapped,
    state_mappings,
)
from sysid_ros.toolbox.trajectory import (
    SystemTrajectory,
    check_controls,
    control_columns,
    start_time,
    state_size,
)

Values = NDArray[np.float64]
States = NDArray[np.float64] | Sequence[NDArray[np.float64]]

#: A history buffer begins with two numbers, then come the stamps (MuJoCo 4.0); the first of a
#: sensor's is a stamp too, that of its last computation.
_HISTORY_HEADER = 2
#: A stamp that misses the grid of the steps by less than this fraction of a step is on it.
_ON_GRID = 1e-3


class _Job(NamedTuple):
    """One rollout: where it begins on the clock of the commands, the limits of its steps, s."""

    model: mujoco.MjModel
    initial_state: NDArray[np.float64]
    edges: NDArray[np.float64]
    controls: NDArray[np.float64]


def sysid_rollout(
    models: mujoco.MjModel | Sequence[mujoco.MjModel],
    datas: mujoco.MjData | Sequence[mujoco.MjData],
    control_signal: TimeSeries | Sequence[TimeSeries],
    initial_states: States,
    rollout_signal_mapping: SignalMapping | None = None,
    rollout_state_mapping: SignalMapping | None = None,
    ctrl_mapping: SignalMapping | None = None,
) -> list[SystemTrajectory]:
    """Simulate models with commands, in parallel.

    Steps of the model's ``timestep`` go from the initial state to the last command. That state
    belongs to the first command (``start_time``). A command holds until the next one; a
    step inside of which it changes gets its mean. With steps of ``dt`` from ``t0``, row k of the
    result is stamped:

    - ``control``, ``sensordata``: ``t0 + k * dt``. MuJoCo computes sensors before it steps.
    - ``state``: ``t0 + (k + 1) * dt``, also in its first column.

    From where a simulation became unstable, its rows are NaN.

    Args:
        models: One model for all rollouts, or one per rollout.
        datas: One per thread.
        control_signal: Commands for all rollouts, or per rollout, of any lengths; columns are
            found by the actuators' names.
        initial_states: (nstate,) state of kind ``mjSTATE_FULLPHYSICS`` for all, or (m, nstate).
        rollout_signal_mapping: Names of the model's ``sensordata``; all sensors by default.
        rollout_state_mapping: Names of the states as ``compute_all_state_mappings`` has them, the
            columns not counting the time; all by default. In the result they count it.
        ctrl_mapping: Names of the model's controls; all by default.

    Raises:
        FitError: The numbers of models, commands and states differ, a command is missing or not
            finite, a state has another size, its time lies outside of the commands, or these are
            shorter than one step.
    """
    jobs = _jobs(models, control_signal, initial_states)
    threads = [datas] if isinstance(datas, mujoco.MjData) else list(datas)
    if not threads:
        raise FitError('Expected one MjData per thread, found none.')
    sizes: dict[int, list[int]] = {}
    for index, job in enumerate(jobs):
        sizes.setdefault(len(job.controls), []).append(index)
    found: dict[int, SystemTrajectory] = {}
    with Rollout(nthread=len(threads) if len(threads) > 1 else 0) as pool:
        for steps, batch in sizes.items():
            chosen = [jobs[index] for index in batch]
            # The clock starts at zero: at an epoch's seconds it would not advance by exact steps.
            zero = [
                _set_clock(job.model, job.initial_state[None], np.zeros(1))[0] for job in chosen
            ]
            state, sensordata = pool.rollout(
                [job.model for job in chosen],
                threads,
                np.stack(zero),
                np.stack([job.controls for job in chosen]),
                nstep=steps,
            )
            for place, index in enumerate(batch):
                mappings = (rollout_signal_mapping, rollout_state_mapping, ctrl_mapping)
                found[index] = _trajectory(jobs[index], state[place], sensordata[place], mappings)
    return [found[index] for index in range(len(jobs))]


def _jobs(
    models: mujoco.MjModel | Sequence[mujoco.MjModel],
    control_signal: TimeSeries | Sequence[TimeSeries],
    initial_states: States,
) -> list[_Job]:
    several_models = [models] if isinstance(models, mujoco.MjModel) else list(models)
    controls = [control_signal] if isinstance(control_signal, TimeSeries) else list(control_signal)
    states = list(np.atleast_2d(np.asarray(initial_states, dtype=np.float64)))
    counts = len(several_models), len(controls), len(states)
    count = max(counts)
    if min(counts) == 0 or not {1, count}.issuperset(counts):
        raise FitError(
            f'Expected one model, control series and initial state for each rollout or for all, '
            f'found {counts[0]}, {counts[1]} and {counts[2]}.'
        )
    jobs = []
    # Candidates of one model share their commands, which are put on its steps only once.
    prepared: dict[tuple[int, bytes, float, float], tuple[Values, Values]] = {}
    for index in range(count):
        model = several_models[index % len(several_models)]
        control, state = controls[index % len(controls)], states[index % len(states)]
        if state.shape != (state_size(model),):
            size = state_size(model)
            raise FitError(
                f'Initial state dimension {state.shape} does not match the ({size},) needed.'
            )
        key = (id(control), model.names, float(model.opt.timestep), float(state[0]))
        if key not in prepared:
            prepared[key] = _steps(model, control, state)
        jobs.append(_Job(model, state.copy(), *prepared[key]))
    return jobs


def _steps(model: mujoco.MjModel, control: TimeSeries, state: Values) -> tuple[Values, Values]:
    """Return the (steps + 1,) limits of the steps and the (steps, nu) controls over each."""
    check_controls(model, control)
    start = start_time(model, state, control)
    timestep = float(model.opt.timestep)
    edges = regular_grid(np.array([start, max(start, control.times[-1])]), timestep)
    if len(edges) == 1:
        raise FitError(
            f'Expected commands over at least one step of {timestep:g} s from {start:.9g} s, '
            f'found the last at {control.times[-1]:.9g} s.'
        )
    values = control.matrix[:, control_columns(model, control)]
    return edges, held_means(control.times, values, snapped(edges, control.times, timestep))


def _trajectory(
    job: _Job,
    state: NDArray[np.float64],
    sensordata: NDArray[np.float64],
    mappings: tuple[SignalMapping | None, SignalMapping | None, SignalMapping | None],
) -> SystemTrajectory:
    signals, states, controls = mappings
    steps = len(state)
    timestep = float(job.model.opt.timestep)
    # MuJoCo stops an unstable simulation and repeats its last record: the clock stands still.
    late = np.abs(state[:, 0] - (np.arange(steps) + 1) * timestep) > 0.5 * timestep
    stable = int(np.argmax(late)) if late.any() else steps
    after = job.edges[1:]
    moved = _set_clock(job.model, state, after)
    measured = sensordata.copy()
    moved[stable:, 1:] = np.nan
    measured[stable:] = np.nan
    if states is None:
        qpos, qvel, act = state_mappings(job.model)
        states = qpos | qvel | act
    return SystemTrajectory(
        model=job.model,
        control=TimeSeries(job.edges[:-1], job.controls, controls or control_mapping(job.model)),
        sensordata=TimeSeries(job.edges[:-1], measured, signals or sensor_mapping(job.model)),
        initial_state=job.initial_state,
        state=TimeSeries(
            after, moved, {name: (kind, at + 1) for name, (kind, at) in states.items()}
        ),
    )


def _set_clock(
    model: mujoco.MjModel, states: NDArray[np.float64], times: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Move states to other times, the stamps inside of their delay buffers along with them.

    Mechanics does not depend on the time, but delayed actuators and sensors compare it with the
    stamps of their buffers.
    """
    moved: NDArray[np.float64] = states.copy()
    moved[:, 0] = times
    for columns in _stamp_columns(model):
        age = (states[:, [0]] - states[:, columns]) / model.opt.timestep
        # Seconds since the epoch hold only 0.2 µs: without this, a sample of just the delay's age
        # could be missed.
        whole = np.rint(age)
        age = np.where(np.abs(age - whole) < _ON_GRID, whole, age)
        moved[:, columns] = times[:, None] - age * model.opt.timestep
    return moved


def _stamp_columns(model: mujoco.MjModel) -> Iterator[NDArray[np.int64]]:
    """Yield the columns of a full physics state that are stamps of a delay buffer."""
    first = 1 + model.nq + model.nv + model.na
    for addresses, histories, header in (
        (model.actuator_historyadr, model.actuator_history, ()),
        (model.sensor_historyadr, model.sensor_history, (0,)),
    ):
        for address, (samples, _) in zip(addresses, histories, strict=True):
            if address >= 0:
                stamps = range(_HISTORY_HEADER, _HISTORY_HEADER + int(samples))
                yield first + int(address) + np.array([*header, *stamps], dtype=np.int64)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Recorded and simulated runs in the terms of MuJoCo's sysid toolbox.

Recorded series are paired with a model by name, and lie on one clock.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from os import PathLike
from typing import Any

import mujoco
import numpy as np
from mujoco.rollout import Rollout
from numpy.typing import ArrayLike, NDArray

from sysid_ros.errors import (
    FitError,
    ModelError,
    SignalError,
    SysidError,
    listed,
    nearest,
    one_sentence,
)
from sysid_ros.files import write_arrays
from sysid_ros.report.rendering import FULLPHYSICS, render_rollout
from sysid_ros.signals import SignalMapping, SignalType
from sysid_ros.simulation.runs import HeldCommand
from sysid_ros.toolbox.timeseries import (
    TimeSeries,
    control_mapping,
    find_signal,
    read_arrays,
    sensor_mapping,
    since,
    slack,
    state_mapping,
    stored_series,
)

Array = NDArray[np.float64]

#: A time that misses a step by less than this fraction of it is on it: clocks are often summed up.
SAME_STEP = 1e-3


@dataclasses.dataclass(frozen=True)
class SystemTrajectory:
    """A run of a system, recorded or simulated.

    Every series has its own stamps, all on one clock. The initial state belongs to the first
    command, or to its own time where that is not zero. A measurement describes the system at its
    stamp, see `sysid_rollout`.
    """

    model: mujoco.MjModel
    control: TimeSeries
    sensordata: TimeSeries
    initial_state: Array  # (nstate,) of kind ``mjSTATE_FULLPHYSICS``
    #: (n, nstate) of that kind; the columns of signals count the first one, the time.
    state: TimeSeries | None = None

    def replace(self, **kwargs: Any) -> SystemTrajectory:
        """Return a copy with some attributes replaced."""
        return dataclasses.replace(self, **kwargs)

    @property
    def start(self) -> float:
        """Time of the initial state on the clock of the series, seconds; see `start_time`."""
        return start_time(self.model, self.initial_state, self.control)

    def __len__(self) -> int:
        return len(self.sensordata)

    def check_compatible(self, allow_missing_sensors: bool = False) -> None:
        """Check that the series belong to the model, by name, and are on one clock."""
        _check_sensors(self.model, self.sensordata, allow_missing=allow_missing_sensors)
        commands(self.model, self.control)
        _check_state(self.model, self.initial_state)
        if self.state is not None:
            _check_width('State', self.state.matrix.shape[1], len(self.initial_state))
        begin, end, times = self.start, float(self.control.times[-1]), self.sensordata.times
        step = float(self.model.opt.timestep)
        if not np.any((times >= begin - step) & (times <= end + step)):
            raise FitError(
                f'Expected controls and measurements on one clock, found controls from {begin:.9g} '
                f'to {end:.9g} s and measurements from {times[0]:.9g} to {times[-1]:.9g} s.'
            )

    def split(self, chunk_size: int) -> list[SystemTrajectory]:
        """Cut a simulated run into consecutive ones of so many rows; a shorter rest is dropped.

        Controls and sensors have the same stamps, and row k of the states is that after row k of
        these, as `sysid_rollout` returns them.
        """
        if chunk_size < 1:
            raise FitError(f'Expected a positive chunk size, found {chunk_size}.')
        if self.state is None or not len(self.state) == len(self.control) == len(self):
            raise FitError('Expected as many states and controls as measurements to split a run.')
        starts = [self.initial_state, *self.state.matrix]
        return [
            SystemTrajectory(
                self.model,
                self.control.rows(slice(first, first + chunk_size)),
                self.sensordata.rows(slice(first, first + chunk_size)),
                starts[first],
                self.state.rows(slice(first, first + chunk_size)),
            )
            for first in range(0, len(self) - chunk_size + 1, chunk_size)
        ]

    def render(
        self, height: int = 240, width: int = 320, camera: str | int = -1, fps: int = 30
    ) -> list[NDArray[np.uint8]]:
        """Draw the states as (height, width, 3) RGB pictures, ``fps`` per second of the run."""
        if self.state is None:
            raise FitError('Expected states to render, found none.')
        states = self.state.matrix[None]
        return render_rollout(self.model, None, states, fps, camera, width, height)

    def save_to_disk(self, path: str | PathLike[str]) -> None:
        """Write an ``.npz`` file, without pickle, that MuJoCo's sysid toolbox reads as well."""
        arrays = {
            **self.control.arrays('control_'),
            **self.sensordata.arrays('sensordata_'),
            **(self.state.arrays('state_') if self.state is not None else {}),
            'initial_state': self.initial_state,
        }
        write_arrays(path, arrays)

    @classmethod
    def load_from_disk(
        cls, path: str | PathLike[str], model: mujoco.MjModel, allow_missing_sensors: bool = False
    ) -> SystemTrajectory:
        """Read what ``save_to_disk`` wrote, here or in MuJoCo's sysid toolbox."""
        words = 'control_times control_data sensordata_times sensordata_data initial_state'
        arrays = read_arrays(path, words.split())
        initial = np.asarray(arrays['initial_state'], dtype=np.float64)
        control, sensordata = (stored_series(arrays, n) for n in ('control_', 'sensordata_'))
        state = None
        if 'state_times' in arrays:
            state = stored_series(arrays, 'state_')
            # In the toolbox's files the columns do not count the time, which comes first.
            mapping, width = state.signal_mapping, state.matrix.shape[1]
            used = np.concatenate([[width], *(columns for _, columns in mapping.values())])
            if 0 in used and np.all(used[1:] < width - 1):
                mapping = {name: (kind, columns + 1) for name, (kind, columns) in mapping.items()}
                state = TimeSeries(state.times, state.data, mapping)
        loaded = cls(model, control, sensordata, initial, state)
        loaded.check_compatible(allow_missing_sensors)
        return loaded


class ModelSequences:
    """A model to be identified, with one or more measured sequences.

    The spec is compiled as a copy; it is never changed.

    Attributes:
        spec: The model as it was given.
        named_spec: A copy in which sensors, actuators and joints without names are called after
            their places: ``sensor[2]``.
        gt_model: The compiled nominal model.
        measured_rollout: The sequences as trajectories; ``sequence_name``, ``initial_state``,
            ``control`` and ``sensordata`` are lists of the same.
    """

    def __init__(
        self,
        name: str,
        spec: mujoco.MjSpec,
        sequence_name: str | Sequence[str],
        initial_state: Array | Sequence[Array],
        control: TimeSeries | Sequence[TimeSeries],
        sensordata: TimeSeries | Sequence[TimeSeries],
        allow_missing_sensors: bool = False,
    ) -> None:
        """Pair a model with its sequences; for one, what there is one of may be given alone.

        An initial state is of kind ``mjSTATE_FULLPHYSICS``, at the first command
        (``create_initial_state``). With ``allow_missing_sensors`` not all sensors of the model need
        to be measured, and states may have names that the model does not have, for a
        ``modify_residual`` to compare.
        """
        try:
            named, compiled = _with_names(spec)
        except (ValueError, mujoco.FatalError) as err:
            raise ModelError(f'Cannot compile the model {name!r}: {one_sentence(err)}.') from err
        names = [sequence_name] if isinstance(sequence_name, str) else list(sequence_name)
        if isinstance(initial_state, np.ndarray) and initial_state.ndim == 1:
            initial_state = [initial_state]
        states = [np.array(state, dtype=np.float64) for state in initial_state]
        controls = [control] if isinstance(control, TimeSeries) else list(control)
        measured = [sensordata] if isinstance(sensordata, TimeSeries) else list(sensordata)
        counts = len(names), len(states), len(controls), len(measured)
        if len(set(counts)) > 1:
            raise FitError(
                f'Expected as many names, initial states, controls and sensor series for model '
                f'{name!r}, found {counts[0]}, {counts[1]}, {counts[2]} and {counts[3]}.'
            )
        self.name, self.spec, self.named_spec, self.gt_model = name, spec, named, compiled
        self.allow_missing_sensors, self.sequence_name = allow_missing_sensors, names
        self.initial_state, self.control, self.sensordata = states, controls, measured
        self.measured_rollout: list[SystemTrajectory] = []
        for sequence, sent, seen, state in zip(names, controls, measured, states, strict=True):
            run = SystemTrajectory(compiled, sent, seen, state)
            try:
                run.check_compatible(allow_missing_sensors)
            except SysidError as err:
                raise FitError(f'Sequence {sequence!r} of model {name!r}: {err}') from err
            # Measurements without names are the model's sensors.
            mapping = seen.signal_mapping or sensor_mapping(compiled)
            seen_by_name = TimeSeries(seen.times, seen.data, mapping)
            self.measured_rollout.append(run.replace(sensordata=seen_by_name))

    def __getitem__(self, key: int | slice) -> ModelSequences:
        """Return the same model with one sequence, or those of a slice."""
        names = self.sequence_name[key]
        series = self.initial_state[key], self.control[key], self.sensordata[key]
        return ModelSequences(self.name, self.spec, names, *series, self.allow_missing_sensors)

    def __len__(self) -> int:
        return len(self.measured_rollout)


def _with_names(spec: mujoco.MjSpec) -> tuple[mujoco.MjSpec, mujoco.MjModel]:
    """Return a copy of a spec in which what signals are named after has a name, and its model."""
    named, compiled = spec.copy(), spec.copy()  # one that was compiled reads inertias otherwise
    model = compiled.compile()
    whole = True
    for kind in ('sensor', 'actuator', 'joint'):
        every = getattr(named, f'{kind}s'), getattr(compiled, f'{kind}s')
        for element, known in zip(*every, strict=True):
            if not element.name:
                element.name, whole = f'{kind}[{known.id}]', False
    return named, model if whole else named.copy().compile()


def sequence_labels(groups: Sequence[ModelSequences]) -> list[list[str]]:
    """Return the names of each model's sequences, with the model's name where there are several."""
    if len(groups) == 1:
        return [list(groups[0].sequence_name)]
    return [[f'{group.name}/{name}' for name in group.sequence_name] for group in groups]


def create_initial_state(
    model: mujoco.MjModel,
    qpos: ArrayLike,
    qvel: ArrayLike | None = None,
    act: ArrayLike | None = None,
    qpos_names: Sequence[str] | None = None,
    qvel_names: Sequence[str] | None = None,
    act_names: Sequence[str] | None = None,
) -> Array:
    """Build a full physics state, (nstate,) of kind ``mjSTATE_FULLPHYSICS``, at time zero.

    Names say which joints, free bodies or actuators the numbers belong to, with or without
    ``_qpos``, ``_qvel``, ``_act``; without names they are in the model's order. What is not given
    is the model's ``qpos0``, or zero.
    """
    data = mujoco.MjData(model)
    parts = (
        ('qpos', qpos, qpos_names, SignalType.MjStateQPos, 0),
        ('qvel', qvel, qvel_names, SignalType.MjStateQVel, model.nq),
        ('act', act, act_names, SignalType.MjStateAct, model.nq + model.nv),
    )
    for part, values, names, kind, begin in parts:
        target = getattr(data, part)
        if values is None:
            if names is not None:
                raise FitError(
                    f'Expected {part} not to be None when {part}_names are given, found None.'
                )
            continue
        columns = np.arange(len(target))
        if names is not None:
            found = [find_signal(model, name, (kind,))[2] - begin for name in names]
            columns = np.concatenate([columns[:0], *found])
        given = np.asarray(values, dtype=np.float64)
        if given.shape != columns.shape:
            raise FitError(f'Expected {part} to have shape {columns.shape}, found {given.shape}.')
        if not np.all(np.isfinite(given)):
            raise FitError(f'Expected finite numbers in {part}, found {given}.')
        target[columns] = given
    state = np.empty(mujoco.mj_stateSize(model, FULLPHYSICS))
    mujoco.mj_getState(model, data, state, FULLPHYSICS)
    return state


def _check_width(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise FitError(f'{what} dimension {found} does not match the {expected} of the model.')


def _check_state(model: mujoco.MjModel, state: Array) -> None:
    size = mujoco.mj_stateSize(model, FULLPHYSICS)
    _check_width('Initial state', state.shape, (size,))
    if not np.all(np.isfinite(state)):
        raise FitError('Expected a finite initial state, found NaN or infinity.')


def commands(model: mujoco.MjModel, control: TimeSeries) -> Array:
    """Return the (n, nu) commands for the controls of the model, checked.

    The names decide, with or without ``_ctrl``. Only columns without names, or with names of which
    the model has none, are taken in its order.
    """
    controls = {name: columns for name, (_, columns) in control_mapping(model).items()}
    known = {name.removesuffix('_ctrl'): at for name, at in controls.items()} | controls
    mapping, columns = control.signal_mapping, np.full(model.nu, -1)
    if known.keys().isdisjoint(mapping):
        _check_width('Control data', control.matrix.shape[1], model.nu)
        mapping, columns = {}, np.arange(model.nu)
    for name, (_, own) in mapping.items():
        if name not in known:
            raise FitError(
                f'The model has no actuator for control {name!r}; {nearest(name, known)}.'
            )
        _check_width(f'Signal {name!r}', len(own), len(known[name]))
        columns[known[name]] = own
    missing = [name for name, at in controls.items() if np.any(columns[at] < 0)]
    if missing:
        raise FitError(
            f'Expected a command for each of the {model.nu} controls of the model, '
            f'missing: {listed(missing)}.'
        )
    values = control.matrix[:, columns]
    for row, column in np.argwhere(~np.isfinite(values)):
        names = [name for name, at in controls.items() if column in at]
        raise FitError(
            f'Expected finite commands, found NaN or infinity in {names[0]} first at '
            f'{control.times[row]:.9g} s.'
        )
    return values


def _check_sensors(model: mujoco.MjModel, sensordata: TimeSeries, *, allow_missing: bool) -> None:
    """Check that what was measured is in the model, by name, in any order."""
    width, mapping = sensordata.matrix.shape[1], sensordata.signal_mapping
    if not mapping:
        _check_width('Sensor data', width, model.nsensordata)
    measured = set()
    for name, (kind, own) in mapping.items():
        if kind is SignalType.CustomObs:
            continue
        try:
            full, _, columns = find_signal(model, name, (kind,))
        except SignalError as err:
            if kind is not SignalType.MjSensor and allow_missing:
                continue  # a name of the user's own, for a comparison of the user's own
            raise FitError(
                f'The measurements name {name!r}, which the model does not have: {err}'
            ) from err
        _check_width(f'Signal {name!r}', len(own), len(columns))
        if kind is SignalType.MjSensor:
            measured.add(full)
    missing = [name for name in sensor_mapping(model) if name not in measured]
    by_place = not measured and width == model.nsensordata
    if missing and not allow_missing and not by_place:
        raise FitError(
            f'Expected measurements of all {model.nsensor} sensors of the model, missing: '
            f'{listed(missing)}; pass allow_missing_sensors=True to fit without them.'
        )


def start_time(model: mujoco.MjModel, initial_state: Array, control: TimeSeries) -> float:
    """Return the instant of an initial state on the clock of the commands.

    That is the first command's or, where the state's own time is not zero, that time.
    """
    times, own = control.times, float(initial_state[0])
    if own == 0.0:
        return float(times[0])
    step = float(model.opt.timestep)
    near = max(slack(times[[0, -1]], step), SAME_STEP * step)
    if abs(own - times[0]) <= near:
        return float(times[0])
    if times[0] < own <= times[-1] + near:
        return own
    raise FitError(
        f'Expected an initial state at the first command or within the commands, from '
        f'{times[0]:.9g} to {times[-1]:.9g} s, found one at {own:.9g} s.'
    )


def sysid_rollout(
    models: mujoco.MjModel | Sequence[mujoco.MjModel],
    datas: mujoco.MjData | Sequence[mujoco.MjData],
    control_signal: TimeSeries | Sequence[TimeSeries],
    initial_states: Array | Sequence[Array],
    rollout_signal_mapping: SignalMapping | None = None,
    rollout_state_mapping: SignalMapping | None = None,
    ctrl_mapping: SignalMapping | None = None,
) -> list[SystemTrajectory]:
    """Simulate models with commands, in parallel.

    Steps of the model's ``timestep`` dt go from the initial state, at t0, to the last command. A
    command holds until the next one; a step inside of which it changes gets its mean. Row k of
    controls and sensors, which MuJoCo computes before it steps, is stamped ``t0 + k * dt``, and row
    k of the states ``t0 + (k + 1) * dt``, also in its first column, but of a model with delays,
    whose buffers hold the stamps of the initial state's clock. From where a simulation became
    unstable, its rows are NaN.

    Models, commands and (m, nstate) states of kind ``mjSTATE_FULLPHYSICS`` are one for all rollouts
    or one for each, ``datas`` one for each thread. Mappings name the model's ``sensordata``, states
    (not counting the time) and controls; by default as ``compute_all_…`` does.
    """
    several = [models] if isinstance(models, mujoco.MjModel) else list(models)
    controls = [control_signal] if isinstance(control_signal, TimeSeries) else list(control_signal)
    states = list(np.atleast_2d(np.asarray(initial_states, dtype=np.float64)))
    counts = len(several), len(controls), len(states)
    count = max(counts)
    if min(counts) == 0 or not {1, count}.issuperset(counts):
        raise FitError(
            f'Expected one model, control series and initial state for each rollout or for all, '
            f'found {counts[0]}, {counts[1]} and {counts[2]}.'
        )
    threads = [datas] if isinstance(datas, mujoco.MjData) else list(datas)
    if not threads:
        raise FitError('Expected one MjData per thread, found none.')
    several *= count // len(several)
    controls *= count // len(controls)
    states *= count // len(states)
    # Candidates of one model share their commands, which are put on its steps only once.
    prepared: dict[tuple[Any, ...], TimeSeries] = {}
    ready = []
    for model, control, state in zip(several, controls, states, strict=True):
        _check_state(model, state)
        key = id(control), model.names, float(model.opt.timestep), float(state[0])
        if key not in prepared:
            prepared[key] = stepped(model, control, start_time(model, state, control))
        ready.append(prepared[key])
    found: dict[int, SystemTrajectory] = {}
    with Rollout(nthread=len(threads) if len(threads) > 1 else 0) as pool:
        for edges in {len(control) for control in ready}:
            batch = [index for index, control in enumerate(ready) if len(control) == edges]
            rolled, sensed = pool.rollout(
                [several[index] for index in batch],
                threads,
                np.stack([states[index] for index in batch]),
                np.stack([ready[index].data[:-1] for index in batch]),
                nstep=edges - 1,
            )
            for index, after, sensors in zip(batch, rolled, sensed, strict=True):
                model, control = several[index], ready[index]
                # MuJoCo stops an unstable simulation and repeats its last record.
                clock = np.append(states[index][0], after[:, 0])
                unstable = np.logical_or.accumulate(np.diff(clock) <= 0)
                after[unstable], sensors[unstable] = np.nan, np.nan
                if not (model.actuator_delay.any() or model.sensor_delay.any()):
                    after[:, 0] = control.times[1:]
                mapping = rollout_state_mapping
                mapping = state_mapping(model) if mapping is None else mapping
                counted = {name: (kind, at + 1) for name, (kind, at) in mapping.items()}
                names = ctrl_mapping or control_mapping(model)
                signals = rollout_signal_mapping or sensor_mapping(model)
                found[index] = SystemTrajectory(
                    model,
                    TimeSeries(control.times[:-1], control.data[:-1], names),
                    TimeSeries(control.times[:-1], sensors, signals),
                    states[index].copy(),
                    TimeSeries(control.times[1:], after, counted),
                )
    return [found[index] for index in range(count)]


def stepped(model: mujoco.MjModel, control: TimeSeries, start: float) -> TimeSeries:
    """Return the commands that a simulation takes, one for each step from a start to the end.

    The mean over a step has the exact impulse of a command that changes inside; where nothing
    changes, the control is the command itself, bit by bit.
    """
    values, timestep = commands(model, control), float(model.opt.timestep)
    times = since(control.times, start, timestep)
    steps = int(np.floor((times[-1] + slack(control.times[[0, -1]], timestep)) / timestep))
    if steps < 1:
        raise FitError(
            f'Expected commands over at least one step of {timestep:g} s from {start:.9g} s, '
            f'found the last at {control.times[-1]:.9g} s.'
        )
    edges = timestep * np.arange(steps + 1, dtype=np.float64)
    first = np.clip(np.searchsorted(times, edges[:-1], side='right') - 1, 0, None)
    last = np.clip(np.searchsorted(times, edges[1:], side='left') - 1, 0, None)
    means = np.empty((steps, model.nu))
    for column in range(model.nu):
        means[:, column] = HeldCommand(times, values[:, column]).means(edges, 0.0)
    held = np.where((last <= first)[:, None], values[first], means)
    return TimeSeries(start + edges, np.concatenate([held, held[-1:]]), control_mapping(model))

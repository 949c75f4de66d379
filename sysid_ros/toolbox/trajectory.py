# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Recorded and simulated runs in the terms of MuJoCo's sysid toolbox.

Recorded series are paired with a model by name, and lie on one clock.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
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
from sysid_ros.toolbox.timeseries import (
    TimeSeries,
    control_mapping,
    find_signal,
    read_arrays,
    regular_grid,
    sensor_mapping,
    slack,
    snapped,
    state_mappings,
    stored_series,
)

Array = NDArray[np.float64]

_SLICES = {
    'joint_pos': mujoco.mjtSensor.mjSENS_JOINTPOS,
    'joint_vel': mujoco.mjtSensor.mjSENS_JOINTVEL,
    'joint_torque': mujoco.mjtSensor.mjSENS_JOINTACTFRC,
}
#: A time that misses a step by less than this fraction of it is on it: clocks are often summed up.
SAME_STEP = 1e-3
#: A history buffer begins with two numbers, then come the stamps (MuJoCo 4.0); the first of a
#: sensor's is a stamp too, that of its last computation.
_HISTORY_HEADER = 2


@dataclasses.dataclass(frozen=True)
class SystemTrajectory:
    """A run of a system, recorded or simulated.

    Every series has its own stamps, all on one clock. The initial state belongs to the first
    command, or to its own time where that is not zero. A measurement describes the system at its
    stamp, see `sysid_rollout`.

    Attributes:
        model: The model that simulated it, or that it is compared with.
        control: Commands, per actuator.
        sensordata: Measurements, per sensor.
        initial_state: (nstate,) state of kind ``mjSTATE_FULLPHYSICS`` at the start.
        state: (n, nstate) states of that kind, the first column the time, which the columns in
            the signal mapping count; None for a recorded run.
    """

    model: mujoco.MjModel
    control: TimeSeries
    sensordata: TimeSeries
    initial_state: Array
    state: TimeSeries | None = None

    def replace(self, **kwargs: Any) -> SystemTrajectory:
        """Return a copy with some attributes replaced."""
        return dataclasses.replace(self, **kwargs)

    @property
    def start(self) -> float:
        """Time of the initial state on the clock of the series, seconds; see `start_time`."""
        return start_time(self.model, self.initial_state, self.control)

    @property
    def sensordim(self) -> int:
        """How many numbers all sensors of the model give."""
        return int(self.model.nsensordata)

    def __len__(self) -> int:
        return len(self.sensordata)

    def get_sensordata_slice(self, sensor: str = 'joint_pos') -> Array:
        """Return the (n, d) measurements of all sensors of one type, in the model's order.

        The type is ``joint_pos``, ``joint_vel`` or ``joint_torque``.
        """
        if sensor not in _SLICES:
            raise FitError(f'Unsupported sensor type {sensor!r}; {nearest(sensor, _SLICES)}.')
        mapping = self.sensordata.signal_mapping or sensor_mapping(self.model)
        every = list(sensor_mapping(self.model))
        names = [every[k] for k in np.flatnonzero(self.model.sensor_type == _SLICES[sensor].value)]
        columns = [mapping[name][1] for name in names if name in mapping]
        if not columns:
            raise FitError(
                f'No sensor of type {sensor!r} was measured; the model has {len(names)}.'
            )
        return self.sensordata.matrix[:, np.concatenate(columns)]

    def check_compatible(self, allow_missing_sensors: bool = False) -> None:  # noqa: FBT002
        """Check that the series belong to the model, by name, and are on one clock."""
        _check_sensors(self.model, self.sensordata, allow_missing=allow_missing_sensors)
        _controls(self.model, self.control)
        _check_state(self.model, self.initial_state)
        if self.state is not None:
            _check_width('State', self.state.matrix.shape[1], len(self.initial_state))
        begin, end = self.start, float(self.control.times[-1])
        times = self.sensordata.times
        tolerance = slack(np.array([begin, end, times[0], times[-1]]), max(end - begin, 1e-9))
        if not np.any((times >= begin - tolerance) & (times <= end + tolerance)):
            raise FitError(
                f'Expected controls and measurements on one clock, found controls from {begin:.9g} '
                f'to {end:.9g} s and measurements from {times[0]:.9g} to {times[-1]:.9g} s.'
            )

    def split(self, chunk_size: int) -> list[SystemTrajectory]:
        """Cut into consecutive runs of so many measured rows.

        A chunk begins at the stamp of its first measurement, in the state of that instant, with
        the command that holds then. Measurements that do not fill a last chunk are dropped.
        """
        if chunk_size < 1:
            raise FitError(f'Expected a positive chunk size, found {chunk_size}.')
        count = len(self) // chunk_size
        limits = np.append(self.sensordata.times, np.inf)[: count * chunk_size + 1 : chunk_size]
        return [
            self._chunk(slice(index * chunk_size, (index + 1) * chunk_size), begin, end)
            for index, (begin, end) in enumerate(itertools.pairwise(limits.tolist()))
        ]

    def _chunk(self, rows: slice, begin: float, end: float) -> SystemTrajectory:
        state, control, initial = self.state, self.control, self.initial_state
        if state is None:
            raise FitError('Expected states to split a trajectory at, found none.')
        tolerance = slack(state.times[[0, -1]], state.duration / max(len(state) - 1, 1))
        if rows.start:
            at = int(np.argmin(np.abs(state.times - begin)))
            if abs(state.times[at] - begin) > tolerance:
                raise FitError(
                    f'Expected a state at {begin:.9g} s, where a chunk begins, found the nearest '
                    f'at {state.times[at]:.9g} s.'
                )
            initial = state.matrix[at]
        else:
            begin = self.start
        held = max(int(np.searchsorted(control.times, begin + tolerance, side='right')) - 1, 0)
        later = (control.times > begin + tolerance) & (control.times < end - tolerance)
        within = (state.times > begin + tolerance) & (state.times <= end + tolerance)
        times = np.append(begin, control.times[later])
        commands = np.concatenate([control.data[[held]], control.data[later]])
        control = TimeSeries(times, commands, control.signal_mapping)
        after = state.rows(within) if within.any() else None
        return SystemTrajectory(self.model, control, self.sensordata.rows(rows), initial, after)

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
        cls,
        path: str | PathLike[str],
        model: mujoco.MjModel,
        allow_missing_sensors: bool = False,  # noqa: FBT002
    ) -> SystemTrajectory:
        """Read what ``save_to_disk`` wrote, here or in MuJoCo's sysid toolbox."""
        words = 'control_times control_data sensordata_times sensordata_data initial_state'
        arrays = read_arrays(path, words.split())
        initial = np.asarray(arrays['initial_state'], dtype=np.float64)
        control, sensordata = (stored_series(arrays, n) for n in ('control_', 'sensordata_'))
        state = None
        if 'state_times' in arrays:
            state = stored_series(arrays, 'state_')
            mapping = state.signal_mapping
            # In the toolbox's files the columns do not count the time, which comes first.
            columns = [*(at for _, at in mapping.values()), np.zeros(0)]
            used, width = np.concatenate(columns), state.matrix.shape[1]
            if width == len(initial) and 0 in used and np.all(used < width - 1):
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
        allow_missing_sensors: bool = False,  # noqa: FBT002
    ) -> None:
        """Pair a model with its sequences; for one, what there is one of may be given alone.

        An initial state is of kind ``mjSTATE_FULLPHYSICS``, at the first command
        (``create_initial_state``). With ``allow_missing_sensors`` not all sensors of the model need
        to be measured.
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
        self.allow_missing_sensors = allow_missing_sensors
        series = zip(controls, measured, states, strict=True)
        self._take(names, [SystemTrajectory(compiled, *own) for own in series])

    @classmethod
    def of_trajectories(cls, name: str, trajectories: Sequence[SystemTrajectory]) -> ModelSequences:
        """Pair the model of trajectories, of which there is no spec, with them."""
        found = object.__new__(cls)
        found.name, found.spec, found.allow_missing_sensors = name, mujoco.MjSpec(), True
        found.named_spec, found.gt_model = found.spec, trajectories[0].model
        names = [f'trajectory {index}' for index in range(len(trajectories))]
        found._take(names, trajectories)
        return found

    def _take(self, names: Sequence[str], rollouts: Sequence[SystemTrajectory]) -> None:
        self.sequence_name = list(names)
        self.initial_state = [rollout.initial_state for rollout in rollouts]
        self.control = [rollout.control for rollout in rollouts]
        self.sensordata = [rollout.sensordata for rollout in rollouts]
        for sequence, trajectory in zip(names, rollouts, strict=True):
            try:
                trajectory.check_compatible(self.allow_missing_sensors)
            except SysidError as err:
                raise FitError(f'Sequence {sequence!r} of model {self.name!r}: {err}') from err
        # Measurements without names are the model's sensors.
        sensors = sensor_mapping(self.gt_model)
        self.measured_rollout = [
            run.replace(sensordata=TimeSeries(s.times, s.data, s.signal_mapping or sensors))
            for run, s in zip(rollouts, self.sensordata, strict=True)
        ]

    def __getitem__(self, key: int | slice) -> ModelSequences:
        """Return the same model with one sequence, or those of a slice."""
        chosen = range(len(self))[key]
        places = chosen if isinstance(chosen, range) else (chosen,)
        part = copy.copy(self)
        names = [self.sequence_name[place] for place in places]
        rollouts = [self.measured_rollout[place] for place in places]
        part._take(names, rollouts)  # noqa: SLF001 (one of us)
        return part

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

    ``qpos`` (nq,) is in rad, m and unit quaternions, ``qvel`` (nv,) in rad/s and m/s, ``act`` (na,)
    activations; the latter two are zero by default. Names say which joints, free bodies or
    actuators the numbers belong to, with or without ``_qpos``, ``_qvel``, ``_act``; a free joint
    takes 7 of them in ``qpos``, a ball joint 4. What is not named keeps the model's ``qpos0``, or
    zero. Without names the numbers are in the model's order.
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
            found = [find_signal(model, name, (kind,)).columns - begin for name in names]
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


def _controls(model: mujoco.MjModel, control: TimeSeries) -> Array:
    """Return the (n, nu) commands for the controls of the model, checked.

    The names decide, with or without ``_ctrl``. Only columns without names, or named as custom
    observations that are none of the model's actuators, are taken in the model's order.
    """
    controls = {name: columns for name, (_, columns) in control_mapping(model).items()}
    known = {name.removesuffix('_ctrl'): at for name, at in controls.items()} | controls
    mapping, columns = control.signal_mapping, np.full(model.nu, -1)
    custom = all(kind is SignalType.CustomObs for kind, _ in mapping.values())
    if custom and known.keys().isdisjoint(mapping):
        _check_width('Control data', control.matrix.shape[1], model.nu)
        mapping, columns = {}, np.arange(model.nu)
    for name, (_, own) in mapping.items():
        if name not in known:
            raise FitError(
                f'The model has no actuator for control {name!r}; {nearest(name, known)}.'
            )
        _check_width(f'Signal {name!r}', len(own), len(known[name]))
        if np.any(columns[known[name]] >= 0):
            raise FitError(f'Expected one command per actuator, found another one in {name!r}.')
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
            signal = find_signal(model, name, (kind,))
        except SignalError as err:
            raise FitError(
                f'The measurements name {name!r}, which the model does not have: {err}'
            ) from err
        _check_width(f'Signal {name!r}', len(own), len(signal.columns))
        if kind is SignalType.MjSensor:
            measured.add(signal.name)
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
    if own in {0.0, times[0]}:
        return float(times[0])
    tolerance = max(slack(times[[0, -1]], model.opt.timestep), SAME_STEP * model.opt.timestep)
    if abs(own - times[0]) <= tolerance:
        return float(times[0])
    if times[0] < own <= times[-1] + tolerance:
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
    k of the states ``t0 + (k + 1) * dt``, also in its first column. From where a simulation became
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
    prepared: dict[tuple[Any, ...], tuple[Array, Array]] = {}
    batches: dict[int, list[tuple[int, Array, Array]]] = {}
    for index, (model, control, state) in enumerate(zip(several, controls, states, strict=True)):
        _check_state(model, state)
        key = id(control), model.names, float(model.opt.timestep), float(state[0])
        if key not in prepared:
            prepared[key] = _steps(model, control, start_time(model, state, control))
        batches.setdefault(len(prepared[key][1]), []).append((index, *prepared[key]))
    found: dict[int, SystemTrajectory] = {}
    mappings = rollout_signal_mapping, rollout_state_mapping, ctrl_mapping
    with Rollout(nthread=len(threads) if len(threads) > 1 else 0) as pool:
        for steps, batch in batches.items():
            chosen = [several[index] for index, _, _ in batch]
            # The clock starts at zero: at an epoch's seconds it would not advance by exact steps.
            begin = [_set_clock(several[i], states[i][None], np.zeros(1))[0] for i, _, _ in batch]
            rolled, sensed = pool.rollout(
                chosen, threads, np.stack(begin), np.stack([c for _, _, c in batch]), nstep=steps
            )
            for place, (index, edges, own) in enumerate(batch):
                found[index] = _trajectory(
                    several[index],
                    TimeSeries(edges[:-1], own, mappings[2] or control_mapping(several[index])),
                    states[index].copy(),
                    edges[1:],
                    (rolled[place], sensed[place]),
                    mappings,
                )
    return [found[index] for index in range(count)]


def _steps(model: mujoco.MjModel, control: TimeSeries, start: float) -> tuple[Array, Array]:
    """Return the (steps + 1,) limits of the steps and the (steps, nu) controls over each.

    The mean over a step has the exact impulse of a command that changes inside; where nothing
    changes, the control is the command itself, bit by bit.
    """
    values, times = _controls(model, control), control.times
    timestep = float(model.opt.timestep)
    edges = regular_grid(np.array([start, max(start, times[-1])]), timestep)
    if len(edges) == 1:
        raise FitError(
            f'Expected commands over at least one step of {timestep:g} s from {start:.9g} s, '
            f'found the last at {times[-1]:.9g} s.'
        )
    at = snapped(edges, times, timestep)
    index = np.clip(np.searchsorted(times, at, side='right') - 1, 0, None)
    areas = np.zeros_like(values)
    np.cumsum(values[:-1] * np.diff(times)[:, None], axis=0, out=areas[1:])
    integral = areas[index] + values[index] * (at - times[index])[:, None]
    means = np.diff(integral, axis=0) / np.diff(at)[:, None]
    # A change exactly at the end of a step belongs to the next one.
    last = np.clip(np.searchsorted(times, at[1:], side='left') - 1, 0, None)
    return edges, np.where((last <= index[:-1])[:, None], values[index[:-1]], means)


def stepped(model: mujoco.MjModel, control: TimeSeries, start: float) -> TimeSeries:
    """Return the commands that a simulation takes, one for each step from a start on."""
    edges, values = _steps(model, control, start)
    return TimeSeries(edges, np.concatenate([values, values[-1:]]), control_mapping(model))


def _trajectory(
    model: mujoco.MjModel,
    control: TimeSeries,
    initial_state: Array,
    after: Array,
    simulated: tuple[Array, Array],
    mappings: tuple[SignalMapping | None, SignalMapping | None, SignalMapping | None],
) -> SystemTrajectory:
    state, measured = simulated[0], simulated[1].copy()
    timestep = float(model.opt.timestep)
    # MuJoCo stops an unstable simulation and repeats its last record: the clock stands still.
    unstable = np.abs(state[:, 0] - (np.arange(len(state)) + 1) * timestep) > 0.5 * timestep
    unstable = np.logical_or.accumulate(unstable)
    moved = _set_clock(model, state, after)
    moved[unstable, 1:] = np.nan
    measured[unstable] = np.nan
    qpos, qvel, act = state_mappings(model)
    states = qpos | qvel | act if mappings[1] is None else mappings[1]
    counted = {name: (kind, at + 1) for name, (kind, at) in states.items()}
    sensordata = TimeSeries(control.times, measured, mappings[0] or sensor_mapping(model))
    return SystemTrajectory(
        model, control, sensordata, initial_state, TimeSeries(after, moved, counted)
    )


def _set_clock(model: mujoco.MjModel, states: Array, times: Array) -> Array:
    """Move states to other times, the stamps inside of their delay buffers along with them.

    Mechanics does not depend on the time, but delayed actuators and sensors compare it with the
    stamps of their buffers.
    """
    moved: Array = states.copy()
    moved[:, 0] = times
    for columns in _stamp_columns(model):
        age = (states[:, [0]] - states[:, columns]) / model.opt.timestep
        # Seconds since the epoch hold only 0.2 µs: without this, a sample of just the delay's age
        # could be missed.
        age = np.where(np.abs(age - np.rint(age)) < SAME_STEP, np.rint(age), age)
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

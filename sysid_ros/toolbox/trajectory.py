# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Runs in the terms of MuJoCo's sysid toolbox: where they begin, and whether they fit a model.

Recorded series are paired with a model by name, and lie on one clock.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from os import PathLike
from typing import Any

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysid_ros.errors import FitError, ModelError, SignalError, SysidError, nearest
from sysid_ros.report.rendering import FULLPHYSICS, render_rollout
from sysid_ros.signals import SignalType
from sysid_ros.signals.timeseries import write_arrays
from sysid_ros.text import one_sentence
from sysid_ros.toolbox.timeseries import (
    STATES,
    TimeSeries,
    control_mapping,
    find_signal,
    read_arrays,
    sensor_mapping,
    slack,
    stored_mapping,
)

_SLICES = {
    'joint_pos': mujoco.mjtSensor.mjSENS_JOINTPOS,
    'joint_vel': mujoco.mjtSensor.mjSENS_JOINTVEL,
    'joint_torque': mujoco.mjtSensor.mjSENS_JOINTACTFRC,
}
#: A state's time may miss the stamp that it belongs to by this fraction of a step.
_SAME_STEP = 1e-3


@dataclasses.dataclass(frozen=True)
class SystemTrajectory:
    """A run of a system, recorded or simulated.

    Every series has its own stamps, all on one clock. The initial state belongs to the first
    command, or to its own time where that is not zero. A measurement describes the system at its
    stamp, so that of a rollout with steps of ``dt`` from ``t0``, row k of the sensors, which are
    computed before the step, is stamped ``t0 + k * dt``, and row k of the states, which are those
    after it, ``t0 + (k + 1) * dt``.

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
    initial_state: NDArray[np.float64]
    state: TimeSeries | None = None

    def replace(self, **kwargs: Any) -> SystemTrajectory:
        """Return a copy with some attributes replaced."""
        return dataclasses.replace(self, **kwargs)

    def named(self) -> SystemTrajectory:
        """Return it with names for its measurements; without any they are the model's sensors."""
        measured = self.sensordata
        if measured.signal_mapping:
            return self
        mapping = sensor_mapping(self.model)
        return self.replace(sensordata=TimeSeries(measured.times, measured.data, mapping))

    @property
    def start(self) -> float:
        """Time of the initial state on the clock of the series, seconds.

        Raises:
            FitError: The state has a time of its own, outside of the commands.
        """
        return start_time(self.model, self.initial_state, self.control)

    @property
    def sensordim(self) -> int:
        """How many numbers all sensors of the model give."""
        return int(self.model.nsensordata)

    def __len__(self) -> int:
        return len(self.sensordata)

    def get_sensordata_slice(self, sensor: str = 'joint_pos') -> NDArray[np.float64]:
        """Return the (n, d) measurements of all sensors of one type, in the model's order.

        The type is ``joint_pos``, ``joint_vel`` or ``joint_torque``.

        Raises:
            FitError: There is no such type, or no sensor of it was measured.
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
        """Check that the series belong to the model, by name, and are on one clock.

        Raises:
            FitError: A signal is not in the model or has another width there, an actuator or
                (unless they may be missing) a sensor of it is missing, a command is not finite, a
                state has another size, or state, commands and measurements do not overlap.
        """
        check_sensors(self.model, self.sensordata, allow_missing=allow_missing_sensors)
        check_controls(self.model, self.control)
        size = state_size(self.model)
        found = self.initial_state.shape
        if found != (size,):
            raise FitError(
                f'Initial state dimension {found} does not match the ({size},) of the model.'
            )
        if not np.all(np.isfinite(self.initial_state)):
            raise FitError('Expected a finite initial state, found NaN or infinity.')
        if self.state is not None and self.state.matrix.shape[1] != size:
            width = self.state.matrix.shape[1]
            raise FitError(f'State dimension {width} does not match the {size} of the model.')
        check_overlap(self.start, self.control, self.sensordata)

    def split(self, chunk_size: int) -> list[SystemTrajectory]:
        """Cut into consecutive runs of so many measured rows.

        A chunk begins at the stamp of its first measurement, in the state of that instant, with
        the command that holds then. Measurements that do not fill a last chunk are dropped.

        Raises:
            FitError: There are no states, none is stamped where a chunk begins, or the size is
                not positive.
        """
        if chunk_size < 1:
            raise FitError(f'Expected a positive chunk size, found {chunk_size}.')
        times = self.sensordata.times
        count = len(times) // chunk_size
        limits = np.append(times, np.inf)[: count * chunk_size + 1 : chunk_size]
        return [
            self._chunk(slice(index * chunk_size, (index + 1) * chunk_size), begin, end)
            for index, (begin, end) in enumerate(itertools.pairwise(limits.tolist()))
        ]

    def _chunk(self, rows: slice, begin: float, end: float) -> SystemTrajectory:
        state = self.state
        if state is None:
            raise FitError('Expected states to split a trajectory at, found none.')
        period = state.duration / max(len(state) - 1, 1)
        tolerance = slack(state.times[[0, -1]], period)
        if rows.start == 0:
            begin, initial = self.start, self.initial_state
        else:
            at = int(np.argmin(np.abs(state.times - begin)))
            if abs(state.times[at] - begin) > tolerance:
                raise FitError(
                    f'Expected a state at {begin:.9g} s, where a chunk begins, found the nearest '
                    f'at {state.times[at]:.9g} s.'
                )
            initial = state.matrix[at]
        inside = (state.times > begin + tolerance) & (state.times <= end + tolerance)
        return SystemTrajectory(
            model=self.model,
            control=_held_from(self.control, begin, end, tolerance),
            sensordata=_rows(self.sensordata, rows),
            initial_state=initial,
            state=_rows(state, inside) if inside.any() else None,
        )

    def render(
        self, height: int = 240, width: int = 320, camera: str | int = -1, fps: int = 30
    ) -> list[NDArray[np.uint8]]:
        """Draw the states: (height, width, 3) RGB pictures, ``fps`` of them per second of the run.

        Raises:
            FitError: There are no states.
        """
        if self.state is None:
            raise FitError('Expected states to render, found none.')
        states = self.state.matrix[None]
        return render_rollout(self.model, None, states, fps, camera, width, height)

    def save_to_disk(self, path: str | PathLike[str]) -> None:
        """Write an ``.npz`` file, without pickle, that MuJoCo's sysid toolbox reads as well.

        Raises:
            ResultError: The folder cannot be written.
        """
        arrays = {
            **self.control.arrays('control_'),
            **self.sensordata.arrays('sensordata_'),
            'initial_state': self.initial_state,
        }
        if self.state is not None:
            arrays |= self.state.arrays('state_')
        write_arrays(path, arrays)

    @classmethod
    def load_from_disk(
        cls,
        path: str | PathLike[str],
        model: mujoco.MjModel,
        allow_missing_sensors: bool = False,  # noqa: FBT002
    ) -> SystemTrajectory:
        """Read what ``save_to_disk`` wrote, here or in MuJoCo's sysid toolbox.

        Raises:
            SignalError: There is no such file, or it holds no trajectory.
            FitError: It does not belong to the model, see ``check_compatible``.
        """
        series = ('control', 'sensordata')
        needed = [f'{name}_{part}' for name in series for part in ('times', 'data')]
        arrays = read_arrays(path, (*needed, 'initial_state'))
        loaded = cls(
            model=model,
            control=_stored(arrays, 'control'),
            sensordata=_stored(arrays, 'sensordata'),
            initial_state=np.asarray(arrays['initial_state'], dtype=np.float64),
            state=_stored_state(arrays) if 'state_times' in arrays else None,
        )
        loaded.check_compatible(allow_missing_sensors)
        return loaded


def _rows(series: TimeSeries, rows: slice | NDArray[np.bool_]) -> TimeSeries:
    return TimeSeries(series.times[rows], series.data[rows], series.signal_mapping)


def _held_from(control: TimeSeries, begin: float, end: float, tolerance: float) -> TimeSeries:
    """Return the commands from one instant, where the latest one is repeated, until another."""
    inside = (control.times > begin + tolerance) & (control.times < end - tolerance)
    holding = max(int(np.searchsorted(control.times, begin + tolerance, side='right')) - 1, 0)
    return TimeSeries(
        np.append(begin, control.times[inside]),
        np.concatenate([control.data[[holding]], control.data[inside]]),
        control.signal_mapping,
    )


def _stored(arrays: dict[str, NDArray[Any]], name: str) -> TimeSeries:
    mapping = stored_mapping(arrays, f'{name}_')
    return TimeSeries(arrays[f'{name}_times'], arrays[f'{name}_data'], mapping)


def _stored_state(arrays: dict[str, NDArray[Any]]) -> TimeSeries:
    """Read states; in the toolbox's files the columns do not count the time, which comes first."""
    mapping = stored_mapping(arrays, 'state_')
    width = arrays['state_data'].shape[1]
    columns = [at for kind, at in mapping.values() if kind in STATES and len(at)]
    full = width == len(arrays['initial_state'])
    used = np.concatenate(columns) if columns else np.zeros(0)
    if full and np.any(used == 0) and np.all(used < width - 1):
        mapping = {name: (kind, at + 1) for name, (kind, at) in mapping.items()}
    return TimeSeries(arrays['state_times'], arrays['state_data'], mapping)


class ModelSequences:
    """A model to be identified, with one or more measured sequences.

    The spec is compiled as a copy; it is never changed.

    Attributes:
        name: Of the model, in files and messages.
        spec: The model as it was given.
        gt_model: The compiled nominal model.
        sequence_name: One name per sequence.
        initial_state: One (nstate,) state per sequence.
        control: One series per sequence.
        sensordata: One series per sequence.
        measured_rollout: The sequences as trajectories.
        allow_missing_sensors: Whether sensors of the model need not be measured.
    """

    def __init__(
        self,
        name: str,
        spec: mujoco.MjSpec,
        sequence_name: str | Sequence[str],
        initial_state: NDArray[np.float64] | Sequence[NDArray[np.float64]],
        control: TimeSeries | Sequence[TimeSeries],
        sensordata: TimeSeries | Sequence[TimeSeries],
        allow_missing_sensors: bool = False,  # noqa: FBT002
    ) -> None:
        """Pair a model with its sequences; for one, what there is one of may be given alone.

        An initial state is of kind ``mjSTATE_FULLPHYSICS``, at the first command
        (``create_initial_state``). Candidates are written into copies of the spec. With
        ``allow_missing_sensors`` not all sensors of the model need to be measured.

        Raises:
            ModelError: The model does not compile.
            FitError: The numbers of names, states and series differ, or a sequence does not
                belong to the model (``SystemTrajectory.check_compatible``).
        """
        try:
            compiled = spec.copy().compile()
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
        rollouts = [
            SystemTrajectory(compiled, *series, None)
            for series in zip(controls, measured, states, strict=True)
        ]
        self._set((name, spec, compiled, allow_missing_sensors), names, rollouts)

    @classmethod
    def of_trajectories(cls, name: str, trajectories: Sequence[SystemTrajectory]) -> ModelSequences:
        """Pair the model of trajectories, of which there is no spec, with them."""
        found = object.__new__(cls)
        names = [f'trajectory {index}' for index in range(len(trajectories))]
        model = trajectories[0].model
        found._set((name, mujoco.MjSpec(), model, True), names, list(trajectories))
        return found

    def __getitem__(self, key: int | slice) -> ModelSequences:
        """Return the same model with one sequence, or those of a slice."""
        chosen = range(len(self))[key]
        places = chosen if isinstance(chosen, range) else (chosen,)
        part = object.__new__(ModelSequences)
        part._set(
            (self.name, self.spec, self.gt_model, self.allow_missing_sensors),
            [self.sequence_name[place] for place in places],
            [self.measured_rollout[place] for place in places],
        )
        return part

    def __len__(self) -> int:
        return len(self.measured_rollout)

    def _set(
        self,
        model: tuple[str, mujoco.MjSpec, mujoco.MjModel, bool],
        names: list[str],
        rollouts: list[SystemTrajectory],
    ) -> None:
        self.name, self.spec, self.gt_model, self.allow_missing_sensors = model
        self.sequence_name = names
        self.initial_state = [rollout.initial_state for rollout in rollouts]
        self.control = [rollout.control for rollout in rollouts]
        self.sensordata = [rollout.sensordata for rollout in rollouts]
        for sequence, trajectory in zip(names, rollouts, strict=True):
            try:
                trajectory.check_compatible(self.allow_missing_sensors)
            except SysidError as err:
                raise FitError(f'Sequence {sequence!r} of model {self.name!r}: {err}') from err
        self.measured_rollout = [rollout.named() for rollout in rollouts]


def sequence_labels(groups: Sequence[ModelSequences]) -> list[list[str]]:
    """Return the names of each model's sequences, with the model's name where there are several."""
    if len(groups) == 1:
        return [list(groups[0].sequence_name)]
    return [[f'{group.name}/{name}' for name in group.sequence_name] for group in groups]


def state_size(model: mujoco.MjModel) -> int:
    """Return how many numbers a full physics state of a model has."""
    return int(mujoco.mj_stateSize(model, FULLPHYSICS))


def create_initial_state(
    model: mujoco.MjModel,
    qpos: ArrayLike,
    qvel: ArrayLike | None = None,
    act: ArrayLike | None = None,
    qpos_names: Sequence[str] | None = None,
    qvel_names: Sequence[str] | None = None,
    act_names: Sequence[str] | None = None,
) -> NDArray[np.float64]:
    """Build a full physics state, (nstate,) of kind ``mjSTATE_FULLPHYSICS``, at time zero.

    ``qpos`` (nq,) is in rad, m and unit quaternions, ``qvel`` (nv,) in rad/s and m/s, ``act`` (na,)
    activations; the latter two are zero by default. Names say which joints, free bodies or
    actuators the numbers belong to, with or without ``_qpos``, ``_qvel``, ``_act``; a free joint
    takes 7 of them in ``qpos``, a ball joint 4. What is not named keeps the model's ``qpos0``, or
    zero. Without names the numbers are in the model's order.

    Raises:
        FitError: A part has the wrong length, is not finite, or has names but no values.
        SignalError: The model has nothing of a name.
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
    state = np.empty(state_size(model))
    mujoco.mj_getState(model, data, state, FULLPHYSICS)
    return state


def control_columns(model: mujoco.MjModel, control: TimeSeries) -> NDArray[np.int64]:
    """Return which column of a series is each control of the model.

    The names decide, with or without ``_ctrl``. Only columns without names, or named as custom
    observations that are none of the model's actuators, are taken in the model's order.
    """
    mapping = control.signal_mapping
    controls = control_mapping(model)
    columns_of = {name.removesuffix('_ctrl'): at for name, (_, at) in controls.items()}
    columns_of |= {name: at for name, (_, at) in controls.items()}
    custom = all(kind is SignalType.CustomObs for kind, _ in mapping.values())
    if custom and columns_of.keys().isdisjoint(mapping):
        _check_width('Control', control, model.nu)
        return np.arange(model.nu)
    columns = np.full(model.nu, -1)
    for name, (_, own) in mapping.items():
        if name not in columns_of:
            raise FitError(
                f'The model has no actuator for control {name!r}; {nearest(name, columns_of)}.'
            )
        at = columns_of[name]
        _check_signal_width(name, own, len(at))
        if np.any(columns[at] >= 0):
            raise FitError(f'Expected one command per actuator, found another one in {name!r}.')
        columns[at] = own
    missing = [name for name, (_, at) in controls.items() if np.any(columns[at] < 0)]
    if missing:
        raise FitError(
            f'Expected a command for each of the {model.nu} controls of the model, '
            f'missing: {_listed(missing)}.'
        )
    return columns


def check_controls(model: mujoco.MjModel, control: TimeSeries) -> None:
    """Check that there is a finite command for each control of the model."""
    values = control.matrix[:, control_columns(model, control)]
    if not len(control):
        raise FitError('Expected at least one command, found a control series without samples.')
    bad = np.flatnonzero(~np.isfinite(values).all(axis=0))
    if len(bad):
        names = [name for name, (_, at) in control_mapping(model).items() if np.isin(bad, at).any()]
        row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
        raise FitError(
            f'Expected finite commands, found NaN or infinity in {_listed(names)} '
            f'first at {control.times[row]:.9g} s.'
        )


def check_sensors(
    model: mujoco.MjModel, sensordata: TimeSeries, *, allow_missing: bool = False
) -> None:
    """Check that what was measured is in the model, by name, in any order."""
    mapping = sensordata.signal_mapping
    if not mapping:
        _check_width('Sensor', sensordata, model.nsensordata)
        return
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
        _check_signal_width(name, own, len(signal.columns))
        if kind is SignalType.MjSensor:
            measured.add(signal.name)
    missing = [name for name in sensor_mapping(model) if name not in measured]
    if not missing or allow_missing:
        return
    if not measured and sensordata.matrix.shape[1] == model.nsensordata:
        return
    raise FitError(
        f'Expected measurements of all {model.nsensor} sensors of the model, missing: '
        f'{_listed(missing)}; pass allow_missing_sensors=True to fit without them.'
    )


def start_time(
    model: mujoco.MjModel, initial_state: NDArray[np.float64], control: TimeSeries
) -> float:
    """Return the instant of an initial state on the clock of the commands.

    The state belongs to the first command. Only where its own time is not zero does that decide:
    it is the time of the first command, or of an instant within the commands, where the sequence
    then begins.
    """
    times = control.times
    if not len(times):
        raise FitError('Expected at least one command, found a control series without samples.')
    own = float(initial_state[0])
    if own == 0.0:
        return float(times[0])
    tolerance = max(slack(times[[0, -1]], model.opt.timestep), _SAME_STEP * model.opt.timestep)
    if abs(own - times[0]) <= tolerance:
        return float(times[0])
    if times[0] < own <= times[-1] + tolerance:
        return own
    raise FitError(
        f'Expected an initial state at the first command or within the commands, from '
        f'{times[0]:.9g} to {times[-1]:.9g} s, found one at {own:.9g} s.'
    )


def check_overlap(start: float, control: TimeSeries, sensordata: TimeSeries) -> None:
    """Check that something was measured between the start and the last command."""
    if not len(sensordata):
        raise FitError('Expected at least one measurement, found a sensor series without samples.')
    begin, end = start, float(control.times[-1])
    first, last = float(sensordata.times[0]), float(sensordata.times[-1])
    tolerance = slack(np.array([begin, end, first, last]), max(end - begin, 1e-9))
    inside = (sensordata.times >= begin - tolerance) & (sensordata.times <= end + tolerance)
    if not inside.any():
        raise FitError(
            f'Expected controls and measurements on one clock, found controls from {begin:.9g} to '
            f'{end:.9g} s and measurements from {first:.9g} to {last:.9g} s.'
        )


def _check_width(what: str, series: TimeSeries, expected: int) -> None:
    found = series.matrix.shape[1]
    if found != expected:
        raise FitError(f'{what} data dimension {found} does not match the {expected} of the model.')


def _check_signal_width(name: str, own: NDArray[np.int64], expected: int) -> None:
    if len(own) != expected:
        raise FitError(f'Signal {name!r} has {len(own)} columns, but {expected} in the model.')


def _listed(names: list[str], limit: int = 8) -> str:
    return ', '.join(names[:limit]) + (', …' if len(names) > limit else '')

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One run of a system: what was commanded, what was measured, where it began."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from sysid_ros.errors import FitError, nearest
from sysid_ros.signals import TimeSeries, storage
from sysid_ros.signals.mapping import STATES
from sysid_ros.signals.resampling import slack
from sysid_ros.toolbox.initial_state import state_size
from sysid_ros.toolbox.pairing import check_controls, check_overlap, check_sensors, start_time

if TYPE_CHECKING:
    from os import PathLike

    from numpy.typing import NDArray

_SLICES = {
    'joint_pos': mujoco.mjtSensor.mjSENS_JOINTPOS,
    'joint_vel': mujoco.mjtSensor.mjSENS_JOINTVEL,
    'joint_torque': mujoco.mjtSensor.mjSENS_JOINTACTFRC,
}


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
        """Return the measurements of all sensors of one type.

        Args:
            sensor: ``joint_pos``, ``joint_vel`` or ``joint_torque``.

        Returns:
            (n, d) samples, in the model's order of sensors.

        Raises:
            FitError: There is no such type, or no sensor of it was measured.
        """
        if sensor not in _SLICES:
            msg = f'Unsupported sensor type {sensor!r}; {nearest(sensor, _SLICES)}.'
            raise FitError(msg)
        mapping = self.sensordata.signal_mapping
        mapping = mapping or TimeSeries.compute_all_sensor_mapping(self.model)
        names = [
            self.model.sensor(index).name or f'sensor[{index}]'
            for index in np.flatnonzero(self.model.sensor_type == _SLICES[sensor].value)
        ]
        columns = [mapping[name][1] for name in names if name in mapping]
        if not columns:
            msg = f'No sensor of type {sensor!r} was measured; the model has {len(names)}.'
            raise FitError(msg)
        return self.sensordata.matrix[:, np.concatenate(columns)]

    def check_compatible(self, allow_missing_sensors: bool = False) -> None:  # noqa: FBT002
        """Check that the series belong to the model, by name, and are on one clock.

        Args:
            allow_missing_sensors: Do not expect that all sensors of the model were measured.

        Raises:
            FitError: A signal is not in the model or has another width there, an actuator or
                sensor of it is missing, a command is not finite, a state has another size, or
                initial state, commands and measurements do not overlap.
        """
        check_sensors(self.model, self.sensordata, allow_missing=allow_missing_sensors)
        check_controls(self.model, self.control)
        size = state_size(self.model)
        found = self.initial_state.shape
        if found != (size,):
            msg = f'Initial state dimension {found} does not match the ({size},) of the model.'
            raise FitError(msg)
        if not np.all(np.isfinite(self.initial_state)):
            msg = 'Expected a finite initial state, found NaN or infinity.'
            raise FitError(msg)
        if self.state is not None and self.state.matrix.shape[1] != size:
            width = self.state.matrix.shape[1]
            msg = f'State dimension {width} does not match the {size} of the model.'
            raise FitError(msg)
        check_overlap(self.start, self.control, self.sensordata)

    def split(self, chunk_size: int) -> list[SystemTrajectory]:
        """Cut into consecutive runs.

        A chunk begins at the stamp of its first measurement, in the state of that instant, with
        the command that holds then. Measurements that do not fill a last chunk are dropped.

        Args:
            chunk_size: Measured rows per chunk.

        Raises:
            FitError: There are no states, none is stamped where a chunk begins, or the size is
                not positive.
        """
        if chunk_size < 1:
            msg = f'Expected a positive chunk size, found {chunk_size}.'
            raise FitError(msg)
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
            msg = 'Expected states to split a trajectory at, found none.'
            raise FitError(msg)
        period = state.duration / max(len(state) - 1, 1)
        tolerance = slack(state.times[[0, -1]], period)
        if rows.start == 0:
            begin, initial = self.start, self.initial_state
        else:
            at = int(np.argmin(np.abs(state.times - begin)))
            if abs(state.times[at] - begin) > tolerance:
                msg = (
                    f'Expected a state at {begin:.9g} s, where a chunk begins, found the nearest '
                    f'at {state.times[at]:.9g} s.'
                )
                raise FitError(msg)
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
        """Draw the states.

        Args:
            height: Of a picture, pixels.
            width: Of a picture, pixels.
            camera: Name or index; -1 is the free camera.
            fps: Pictures per second of the run.

        Returns:
            (height, width, 3) RGB pictures.

        Raises:
            FitError: There are no states.
        """
        if self.state is None:
            msg = 'Expected states to render, found none.'
            raise FitError(msg)
        # Only who asks for pictures needs a graphics library.
        rendering = importlib.import_module('sysid_ros.toolbox.rendering')
        frames: list[NDArray[np.uint8]] = rendering.render_rollout(
            self.model,
            mujoco.MjData(self.model),
            self.state.matrix[None],
            fps,
            camera=camera,
            width=width,
            height=height,
        )
        return frames

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
        storage.write_arrays(path, arrays)

    @classmethod
    def load_from_disk(
        cls,
        path: str | PathLike[str],
        model: mujoco.MjModel,
        allow_missing_sensors: bool = False,  # noqa: FBT002
    ) -> SystemTrajectory:
        """Read what ``save_to_disk`` wrote, here or in MuJoCo's sysid toolbox.

        Args:
            path: The file.
            model: What the run is compared with.
            allow_missing_sensors: Do not expect that all sensors of the model were measured.

        Raises:
            SignalError: There is no such file, or it holds no trajectory.
            FitError: It does not belong to the model, see ``check_compatible``.
        """
        series = ('control', 'sensordata')
        needed = [f'{name}_{part}' for name in series for part in ('times', 'data')]
        arrays = storage.read_arrays(path, (*needed, 'initial_state'))
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
    mapping = storage.stored_mapping(arrays, f'{name}_')
    return TimeSeries(arrays[f'{name}_times'], arrays[f'{name}_data'], mapping)


def _stored_state(arrays: dict[str, NDArray[Any]]) -> TimeSeries:
    """Read states; in the toolbox's files the columns do not count the time, which comes first."""
    mapping = storage.stored_mapping(arrays, 'state_')
    width = arrays['state_data'].shape[1]
    columns = [at for kind, at in mapping.values() if kind in STATES and len(at)]
    full = width == len(arrays['initial_state'])
    used = np.concatenate(columns) if columns else np.zeros(0)
    if full and np.any(used == 0) and np.all(used < width - 1):
        mapping = {name: (kind, at + 1) for name, (kind, at) in mapping.items()}
    return TimeSeries(arrays['state_times'], arrays['state_data'], mapping)

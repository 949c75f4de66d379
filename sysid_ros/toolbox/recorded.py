# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Measured trajectories as the engine takes them, and which of their signals count.

A trajectory's series carry the user's stamps, from any origin. Its initial state belongs to the
first control stamp, or to its own time where that is set and lies within the controls; there a
sequence begins. A sample is compared with the model at the time that it carries.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import FitError, nearest
from sysid_ros.report.rendering import FULLPHYSICS
from sysid_ros.rollout.measurement import Readings
from sysid_ros.signals import SignalType
from sysid_ros.signals.trajectory import Trajectory
from sysid_ros.toolbox.timeseries import STATES, TimeSeries, control_mapping, sensor_mapping

if TYPE_CHECKING:
    from sysid_ros.toolbox.trajectory import ModelSequences, SystemTrajectory


SensorStamps = Literal['auto', 'measured', 'rollout']

#: Stamps are the same instant up to this distance, s, or so many roundings of a float of their
#: size, whichever is more.
_SAME_INSTANT = 1e-9
_ROUNDINGS = 4.0
#: A clock that was summed up step by step misses the grid by less than this part of a step.
_SUMMED = 1e-3
#: Names of signals, or ``(name, type)`` pairs; for several models also by the model's name.
Observations = Any
#: Signal name to a factor; for several models also by the model's name.
Weights = Any


class Recorded(NamedTuple):
    """A measured trajectory, prepared for the engine.

    Attributes:
        sequence: In seconds from the trajectory's start.
        origin: The start on the trajectory's own clock, s.
        measured: The samples that are compared, on the trajectory's own clock.
        excluded: Samples left out because they lie before the start or after the controls.
    """

    sequence: Trajectory
    origin: float
    measured: TimeSeries
    excluded: int

    def predicted(
        self, readings: tuple[Readings, ...], values: tuple[NDArray[np.float64], ...]
    ) -> TimeSeries:
        """Return what a candidate predicts of the measured samples."""
        data = np.full_like(self.measured.matrix, np.nan)
        for each, own in zip(readings, values, strict=True):
            data[:, each.own] = own
        return TimeSeries(self.measured.times, data, self.measured.signal_mapping)


def record(
    model: mujoco.MjModel,
    name: str,
    trajectory: SystemTrajectory,
    *,
    stamps: SensorStamps = 'measured',
    resample: bool = True,
    signals: Collection[str] = (),
) -> Recorded:
    """Turn a measured trajectory into a sequence.

    Without ``resample``, controls and measurements are one per step, whatever their stamps say.
    """
    timestep = float(model.opt.timestep)
    control, sensordata = trajectory.control, trajectory.sensordata
    if signals:
        missing = [signal for signal in signals if signal not in sensordata.signal_mapping]
        if missing:
            hint = nearest(missing[0], sensordata.signal_mapping)
            raise FitError(f'Sequence {name!r} has no signal {missing[0]!r}; {hint}.')
        sensordata = sensordata.slice_by_name(list(signals))
    if resample:
        origin = trajectory.start
        tolerance = _tolerance(origin)
        control_times = _snapped(control.times - origin, timestep, tolerance)
        sample_times = _snapped(sensordata.times - origin, timestep, tolerance)
    else:
        origin, tolerance = float(control.times[0]), _SAME_INSTANT
        control_times = timestep * np.arange(len(control), dtype=np.float64)
        sample_times = timestep * np.arange(len(sensordata), dtype=np.float64)
    shift = timestep if resample and stamps == 'rollout' else 0.0
    late = np.array([kind not in STATES for kind, _ in sensordata.signal_mapping.values()])
    described = sample_times - (shift if late.any() else 0.0)
    kept = (described >= -tolerance) & (described <= control_times[-1] + tolerance)
    if not kept.any():
        raise FitError(
            f'Sequence {name!r} has controls from {control.times[0]:.9g} to '
            f'{control.times[-1]:.9g} s and starts at {origin:.9g} s, but its measurements, from '
            f'{sensordata.times[0]:.9g} to {sensordata.times[-1]:.9g} s, lie outside.'
        )
    measured = TimeSeries(
        sensordata.times[kept], sensordata.matrix[kept], sensordata.signal_mapping
    )
    groups: list[TimeSeries] = []
    for of_state, times in ((False, described), (True, sample_times)):
        mapping = {
            signal: entry
            for signal, entry in sensordata.signal_mapping.items()
            if (entry[0] in STATES) is of_state
        }
        if mapping:
            groups.append(TimeSeries(np.maximum(times[kept], 0.0), measured.data, mapping))
    data = mujoco.MjData(model)
    mujoco.mj_setState(model, data, trajectory.initial_state, FULLPHYSICS)
    return Recorded(
        Trajectory(
            name=name,
            origin_ns=round(origin * 1e9),
            initial_qpos=data.qpos.copy(),
            initial_qvel=data.qvel.copy(),
            commands=(_commands(model, control, control_times),),
            measurements=tuple(groups),
            initial_act=data.act.copy(),
        ),
        origin,
        measured,
        int(np.count_nonzero(~kept)),
    )


def has_rollout_times(trajectory: SystemTrajectory) -> bool:
    """Tell whether row k of the measurements is stamped k + 1 steps after the start.

    So are the states that ``mujoco.rollout`` returns, and what a loop notes down after each step.
    """
    timestep = float(trajectory.model.opt.timestep)
    times = trajectory.sensordata.times
    expected = trajectory.start + timestep * np.arange(1, len(times) + 1)
    tolerance = _SUMMED * timestep + _tolerance(float(times[-1]))
    return bool(np.all(np.abs(times - expected) <= tolerance))


def described(series: TimeSeries, shift: float) -> TimeSeries:
    """Move sensors' samples in time, so that a stamp is the time that they describe."""
    of_state = {name: entry for name, entry in series.signal_mapping.items() if entry[0] in STATES}
    if not shift:
        return series
    if not of_state:
        return TimeSeries(series.times + shift, series.data, series.signal_mapping)
    data = series.interpolate(series.times - shift)
    data[series.times - shift > series.times[-1]] = np.nan
    for _, columns in of_state.values():
        data[:, columns] = series.matrix[:, columns]
    return TimeSeries(series.times, data, series.signal_mapping)


def _tolerance(origin: float) -> float:
    return max(_SAME_INSTANT, _ROUNDINGS * float(np.spacing(abs(origin))))


def _snapped(times: NDArray[np.float64], timestep: float, tolerance: float) -> NDArray[np.float64]:
    """Put stamps on the step that they are meant to be on: far from zero they are rounded."""
    steps = np.rint(times / timestep) * timestep
    return np.where(np.abs(times - steps) <= tolerance, steps, times)


def _commands(model: mujoco.MjModel, control: TimeSeries, times: NDArray[np.float64]) -> TimeSeries:
    """Return the controls with actuators' names, in seconds from the start."""
    actuators = {model.actuator(i).name for i in range(model.nactuator)}
    mapping = {
        name if name in actuators else name.removesuffix('_ctrl'): entry
        for name, entry in (control.signal_mapping or control_mapping(model)).items()
    }
    return TimeSeries(times, control.matrix, mapping)


def observed(observations: Observations, model: str) -> dict[str, SignalType | None]:
    """Return names and, where given, types of the signals that count for a model; none for all."""
    chosen = _own(observations, model)
    pairs = ((entry, None) if isinstance(entry, str) else entry for entry in chosen)
    return dict(pairs)


def weights_of(weights: Weights, model: str) -> dict[str, float]:
    """Return the factor on each signal of a model that has one."""
    return dict(_own(weights, model))


def _by_model(given: Observations | Weights) -> bool:
    """Whether an option goes by the names of models: its values are those of an option, then."""
    values = given.values() if hasattr(given, 'values') else ()
    return any(isinstance(value, (Mapping, list, tuple)) for value in values)


def _own(given: Observations | Weights, model: str) -> Any:
    """Return the part of an option that is for a model."""
    return given.get(model, ()) if _by_model(given) else given or ()


def check_selection(
    groups: Sequence[ModelSequences], observations: Observations, weights: Weights
) -> None:
    """Check that what was chosen is what was measured."""
    names = [group.name for group in groups]
    for option, given in (('sensor_weights', weights), ('enabled_observations', observations)):
        if _by_model(given) and given.keys().isdisjoint(names):
            name = next(iter(given))
            raise FitError(
                f'{option} names the model {name!r}, which is not here; {nearest(name, names)}.'
            )
    signals: dict[str, dict[str, SignalType]] = {}
    for group in groups:  # the sensors of its model, and what else was measured of it
        measured = (run.sensordata.signal_mapping for run in group.measured_rollout)
        mappings = (sensor_mapping(group.gt_model), *measured)
        signals[group.name] = {n: kind for m in mappings for n, (kind, _) in m.items()}
    all_signals = [signal for some in signals.values() for signal in some]
    for group in groups:
        for name, kind in observed(observations, group.name).items():
            found = signals[group.name].get(name)
            if kind is not None and found is not None and found is not kind:
                raise FitError(
                    f'Signal {name!r} is of type {found.name}, but enabled_observations has it '
                    f'as {kind.name}.'
                )
        for name, weight in weights_of(weights, group.name).items():
            known = list(signals[group.name]) if _by_model(weights) else all_signals
            if name not in known:
                raise FitError(f'There is no signal {name!r} to weight; {nearest(name, known)}.')
            if not (np.ndim(weight) == 0 and 0 <= weight < np.inf):
                raise FitError(
                    f'Expected a weight of signal {name!r} of 0 or more, found {weight!r}.'
                )

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Pairing recorded series with a model: by name, and on one clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.errors import FitError, SignalError, nearest
from sysid_ros.signals.mapping import SignalType, control_mapping, find_signal
from sysid_ros.signals.resampling import slack

if TYPE_CHECKING:
    import mujoco
    from numpy.typing import NDArray

    from sysid_ros.signals import TimeSeries

#: A state's time may miss the stamp that it belongs to by this fraction of a step.
_SAME_STEP = 1e-3


def control_columns(model: mujoco.MjModel, control: TimeSeries) -> NDArray[np.int64]:
    """Return which column of a series is each control of the model.

    The names decide, with or without ``_ctrl``. Only columns without names, or named as custom
    observations that are none of the model's actuators, are taken in the model's order.

    Args:
        model: The model.
        control: The commands.

    Returns:
        (nu,) columns of the series.

    Raises:
        FitError: A name is not an actuator of the model, an actuator has no command, or the
            number of columns is not that of the controls.
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
            msg = f'The model has no actuator for control {name!r}; {nearest(name, columns_of)}.'
            raise FitError(msg)
        at = columns_of[name]
        _check_signal_width(name, own, len(at))
        if np.any(columns[at] >= 0):
            msg = f'Expected one command per actuator, found another one in {name!r}.'
            raise FitError(msg)
        columns[at] = own
    missing = [name for name, (_, at) in controls.items() if np.any(columns[at] < 0)]
    if missing:
        msg = (
            f'Expected a command for each of the {model.nu} controls of the model, '
            f'missing: {_listed(missing)}.'
        )
        raise FitError(msg)
    return columns


def check_controls(model: mujoco.MjModel, control: TimeSeries) -> None:
    """Check that there is a finite command for each control of the model.

    Raises:
        FitError: There is none, or see ``control_columns``.
    """
    values = control.matrix[:, control_columns(model, control)]
    if not len(control):
        msg = 'Expected at least one command, found a control series without samples.'
        raise FitError(msg)
    bad = np.flatnonzero(~np.isfinite(values).all(axis=0))
    if len(bad):
        names = [name for name, (_, at) in control_mapping(model).items() if np.isin(bad, at).any()]
        row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
        msg = (
            f'Expected finite commands, found NaN or infinity in {_listed(names)} '
            f'first at {control.times[row]:.9g} s.'
        )
        raise FitError(msg)


def check_sensors(
    model: mujoco.MjModel, sensordata: TimeSeries, *, allow_missing: bool = False
) -> None:
    """Check that what was measured is in the model, by name, in any order.

    Args:
        model: The model.
        sensordata: Sensors and states of the model, custom observations, or, without names, all
            sensors in the model's order.
        allow_missing: Do not expect that all sensors of the model were measured.

    Raises:
        FitError: A signal is not in the model or has another width there, or sensors of the model
            were not measured.
    """
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
            msg = f'The measurements name {name!r}, which the model does not have: {err}'
            raise FitError(msg) from err
        _check_signal_width(name, own, len(signal.columns))
        if kind is SignalType.MjSensor:
            measured.add(signal.name)
    names = [model.sensor(index).name or f'sensor[{index}]' for index in range(model.nsensor)]
    missing = [name for name in names if name not in measured]
    if not missing or allow_missing:
        return
    if not measured and sensordata.matrix.shape[1] == model.nsensordata:
        return
    msg = (
        f'Expected measurements of all {len(names)} sensors of the model, missing: '
        f'{_listed(missing)}; pass allow_missing_sensors=True to fit without them.'
    )
    raise FitError(msg)


def start_time(
    model: mujoco.MjModel, initial_state: NDArray[np.float64], control: TimeSeries
) -> float:
    """Return the instant of an initial state on the clock of the commands.

    The state belongs to the first command. Only where its own time is not zero does that decide:
    it is the time of the first command, or of an instant within the commands, where the sequence
    then begins.

    Args:
        model: The model.
        initial_state: (nstate,) state of kind ``mjSTATE_FULLPHYSICS``.
        control: The commands.

    Returns:
        Seconds.

    Raises:
        FitError: The state's time lies outside of the commands.
    """
    times = control.times
    if not len(times):
        msg = 'Expected at least one command, found a control series without samples.'
        raise FitError(msg)
    own = float(initial_state[0])
    if own == 0.0:
        return float(times[0])
    tolerance = max(slack(times[[0, -1]], model.opt.timestep), _SAME_STEP * model.opt.timestep)
    if abs(own - times[0]) <= tolerance:
        return float(times[0])
    if times[0] < own <= times[-1] + tolerance:
        return own
    msg = (
        f'Expected an initial state at the first command or within the commands, from '
        f'{times[0]:.9g} to {times[-1]:.9g} s, found one at {own:.9g} s.'
    )
    raise FitError(msg)


def check_overlap(start: float, control: TimeSeries, sensordata: TimeSeries) -> None:
    """Check that something was measured between the start and the last command.

    Args:
        start: Time of the initial state, seconds.
        control: The commands.
        sensordata: The measurements.

    Raises:
        FitError: Nothing was.
    """
    if not len(sensordata):
        msg = 'Expected at least one measurement, found a sensor series without samples.'
        raise FitError(msg)
    begin, end = start, float(control.times[-1])
    first, last = float(sensordata.times[0]), float(sensordata.times[-1])
    tolerance = slack(np.array([begin, end, first, last]), max(end - begin, 1e-9))
    inside = (sensordata.times >= begin - tolerance) & (sensordata.times <= end + tolerance)
    if not inside.any():
        msg = (
            f'Expected controls and measurements on one clock, found controls from {begin:.9g} to '
            f'{end:.9g} s and measurements from {first:.9g} to {last:.9g} s.'
        )
        raise FitError(msg)


def _check_width(what: str, series: TimeSeries, expected: int) -> None:
    found = series.matrix.shape[1]
    if found != expected:
        msg = f'{what} data dimension {found} does not match the {expected} of the model.'
        raise FitError(msg)


def _check_signal_width(name: str, own: NDArray[np.int64], expected: int) -> None:
    if len(own) != expected:
        msg = f'Signal {name!r} has {len(own)} columns, but {expected} in the model.'
        raise FitError(msg)


def _listed(names: list[str], limit: int = 8) -> str:
    return ', '.join(names[:limit]) + (', …' if len(names) > limit else '')

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How fast predictions go wrong: errors over the time since a start from the measured state."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sysid_ros.alignment.initial import initial_state
from sysid_ros.pipeline.scores import residuals_of, rms
from sysid_ros.results.result import HorizonPoint
from sysid_ros.rollout.prediction import predict
from sysid_ros.signals import SignalType, TimeSeries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.model.unknown import Unknown
    from sysid_ros.results.result import Role
    from sysid_ros.rollout.drives import Drives
    from sysid_ros.signals.trajectory import Trajectory

#: So many starts for each horizon and role at most, …
_MOST_STARTS = 40
#: … and that many seconds of simulation at most for each.
_MOST_SECONDS = 60.0
#: The error at a horizon is that of the last part of the way to it.
_LAST = 0.2
#: Commands are kept from so long before a start: longer than any delay, s.
_BEFORE = 2.0
#: Stamps this much later than the end are at the end, s.
_ROUNDING = 1e-9
_SCALAR = (mujoco.mjtJoint.mjJNT_HINGE.value, mujoco.mjtJoint.mjJNT_SLIDE.value)


class _Start(NamedTuple):
    """A prediction: of which sequence, from when, how far."""

    role: Role
    sequence: Trajectory
    begin: float
    seconds: float


class _Predictor(NamedTuple):
    """What predicts: a model, values of its parameters, and what drives it."""

    model: mujoco.MjModel | mujoco.MjSpec
    parameters: Sequence[Unknown]
    values: NDArray[np.float64] | None
    threads: int
    drives: Drives | None


def horizon_errors(  # noqa: PLR0913 (what predicts what, and where)
    spec: mujoco.MjSpec,
    model: mujoco.MjModel,
    sequences: Mapping[Role, Sequence[Trajectory]],
    parameters: Sequence[Unknown],
    values: NDArray[np.float64],
    *,
    noise: Mapping[str, float],
    seconds: Sequence[float],
    threads: int = 0,
    drives: Drives | None = None,
) -> tuple[HorizonPoint, ...]:
    """Predict from many measured states, and return the errors so many seconds later.

    Each start is where the robot was measured to be: positions and velocities by the rule for the
    start of a sequence, activations of actuators as the commands until then leave them. The error
    over the last fifth of each horizon counts. All starts are simulated in one batch.

    Args:
        spec: The nominal model, not compiled.
        model: The same, compiled.
        sequences: Role to the sequences with it.
        parameters: The unknowns.
        values: (p,) what was found for them.
        noise: Sensor name to standard deviation.
        seconds: The horizons.
        threads: Simulation threads.
        drives: What drives the model beside its own actuators, if anything.

    Returns:
        A point for each role and horizon that the sequences have room for; none where the
        position of a joint is not measured, so that the robot cannot be put where it was.
    """
    every = [sequence for own in sequences.values() for sequence in own]
    if not every or not all(_knows_state(model, sequence) for sequence in every):
        return ()
    starts = [
        start
        for role, own in sequences.items()
        for length in sorted(set(seconds))
        for start in _starts(role, own, length)
    ]
    fitted = _Predictor(spec, parameters, values, threads, drives)
    nominal = _Predictor(model, (), None, threads, drives)
    before = _errors(model, starts, nominal, noise)
    after = _errors(model, starts, fitted, noise)
    points = []
    for role, length in dict.fromkeys((start.role, start.seconds) for start in starts):
        own_places = [i for i, s in enumerate(starts) if (s.role, s.seconds) == (role, length)]
        old, new = rms([before[i] for i in own_places]), rms([after[i] for i in own_places])
        if np.isfinite(new):
            points.append(HorizonPoint(seconds=length, role=role, before=old, after=new))
    return tuple(points)


def _knows_state(model: mujoco.MjModel, sequence: Trajectory) -> bool:
    """Whether the position of every joint is measured."""
    if not np.isin(model.jnt_type, _SCALAR).all():
        return False
    known = {
        int(model.sensor_objid[sensor])
        for series in sequence.measurements
        for name, (kind, _) in series.signal_mapping.items()
        if kind is SignalType.MjSensor
        and model.sensor_type[sensor := model.sensor(name).id] == mujoco.mjtSensor.mjSENS_JOINTPOS
    }
    return known == set(range(model.njnt))


def _starts(role: Role, sequences: Sequence[Trajectory], seconds: float) -> list[_Start]:
    """Tile the sequences with predictions of one length; of many, take an even choice."""
    found = [
        _Start(role, sequence, number * seconds, seconds)
        for sequence in sequences
        for number in range(int(sequence.duration / seconds + _ROUNDING))
    ]
    most = min(_MOST_STARTS, max(int(_MOST_SECONDS / seconds), 1))
    if len(found) <= most:
        return found
    return [found[i] for i in np.linspace(0, len(found) - 1, most).round().astype(int)]


def _errors(
    model: mujoco.MjModel,
    starts: list[_Start],
    predictor: _Predictor,
    noise: Mapping[str, float],
) -> list[dict[str, NDArray[np.float64]]]:
    activations = _activations(model, starts, predictor)
    pieces = [
        _piece(model, start, number, act)
        for number, (start, act) in enumerate(zip(starts, activations, strict=True))
    ]
    lengths = {piece.name: start.seconds for piece, start in zip(pieces, starts, strict=True)}

    def late(piece: Trajectory, series: TimeSeries) -> NDArray[np.bool_]:
        return np.asarray(series.times >= (1 - _LAST) * lengths[piece.name])

    return residuals_of(
        predictor.model,
        pieces,
        predictor.parameters,
        predictor.values,
        noise=noise,
        wanted=late,
        threads=predictor.threads,
        drives=predictor.drives,
    )


def _activations(
    model: mujoco.MjModel,
    starts: list[_Start],
    predictor: _Predictor,
) -> list[NDArray[np.float64] | None]:
    """Return the activation at each start, as predicted from the start of its sequence.

    Activations depend on commands, hardly on the state, so that they do not drift.
    """
    if not model.na:
        return [None] * len(starts)
    names = [model.actuator(i).name for i in range(model.nactuator) if model.actuator_actnum[i]]
    widths = [int(model.actuator(name).actnum[0]) for name in names]
    edges = np.cumsum([0, *widths])
    mapping = {
        name: (SignalType.MjStateAct, np.arange(edges[i], edges[i + 1]))
        for i, name in enumerate(names)
    }
    order = np.concatenate(
        [
            np.arange(n) + int(model.actuator(name).actadr[0])
            for name, n in zip(names, widths, strict=True)
        ]
    )
    whole = {start.sequence.name: start.sequence for start in starts}
    asked = []
    for name, sequence in whole.items():
        times = np.unique([start.begin for start in starts if start.sequence.name == name])
        series = TimeSeries(times, np.zeros((len(times), edges[-1])), mapping)
        asked.append(dataclasses.replace(sequence, measurements=(series,)))
    predictions = predict(
        predictor.model,
        asked,
        predictor.parameters,
        predictor.values,
        predictor.threads,
        drives=predictor.drives,
    )
    found = {}
    for sequence, prediction in zip(asked, predictions, strict=True):
        rows = zip(sequence.measurements[0].times, prediction.channels[0][0], strict=True)
        for time, row in rows:
            act = np.zeros(model.na)
            act[order] = row
            found[sequence.name, float(time)] = act
    return [found[start.sequence.name, start.begin] for start in starts]


def _piece(
    model: mujoco.MjModel, start: _Start, number: int, act: NDArray[np.float64] | None
) -> Trajectory:
    """Cut what a prediction needs out of a sequence."""
    sequence, begin = start.sequence, start.begin
    qpos, qvel = sequence.initial_qpos, sequence.initial_qvel
    if begin:
        state = initial_state(model, sequence.measurements, begin)
        qpos, qvel = state.qpos, state.qvel
    measurements = []
    for series in sequence.measurements:
        inside = (series.times >= begin) & (series.times <= begin + start.seconds + _ROUNDING)
        if inside.any():
            times = series.times[inside] - begin
            measurements.append(TimeSeries(times, series.data[inside], series.signal_mapping))
    commands = []
    for series in sequence.commands:
        first = max(int(np.searchsorted(series.times, begin - _BEFORE, side='right')) - 1, 0)
        times = series.times[first:] - begin
        commands.append(TimeSeries(times, series.data[first:], series.signal_mapping))
    return dataclasses.replace(
        sequence,
        name=f'{sequence.name} start {number}',
        origin_ns=sequence.origin_ns + round(1e9 * begin),
        initial_qpos=qpos,
        initial_qvel=qvel,
        initial_act=sequence.initial_act if act is None else act,
        commands=tuple(commands),
        measurements=tuple(measurements),
    )

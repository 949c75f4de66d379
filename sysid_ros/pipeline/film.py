# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How the robot moved in one recording, and how the nominal and the fitted model say it moves."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sysid_ros.errors import ModelError, SysidError
from sysid_ros.model.joints import SCALAR_JOINTS
from sysid_ros.model.loading import compile_spec, fitted_model
from sysid_ros.model.targets import Role as Acting
from sysid_ros.pipeline.validation import Predictor
from sysid_ros.pipeline.windowed import predict_in_windows
from sysid_ros.report.rendering import (
    FITTED,
    FRAMERATE,
    FULLPHYSICS,
    LONGEST,
    MEASURED,
    NOMINAL,
    Copy,
    draw_film,
    lit,
)
from sysid_ros.results.result import ROLE_NAMES, EstimatorKind, FitDiagnostics
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.toolbox.timeseries import state_mappings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sysid_ros.config.calibration import Role
    from sysid_ros.identification.fit import Fit
    from sysid_ros.pipeline.estimators import Estimated
    from sysid_ros.pipeline.problem import Problem
    from sysid_ros.report.rendering import Film
    from sysid_ros.signals.trajectory import Trajectory

    Values = NDArray[np.float64]

#: Where copies are farther apart than so many standard deviations of the motion, more is no more.
_FAR = 3.0
_STILL = 1e-3
_POSITION = mujoco.mjtSensor.mjSENS_JOINTPOS.value


class Motion(NamedTuple):
    """What a film shows.

    Attributes:
        sequence: Name of the recording.
        copies: The robots, with their states frame by frame.
        note: What part of the recording it is.
        missing: Why there is nothing to show, in a sentence; empty where there is.
    """

    sequence: str = ''
    copies: tuple[Copy, ...] = ()
    note: str = ''
    missing: str = ''


def motion_of(seen: Estimated, fit: Fit, diagnostics: FitDiagnostics, threads: int = 0) -> Motion:
    """Return how the robot moved in one recording, held out if any is, and how models say it does.

    Of several recordings it is the one which the nominal model explains worst, and of that the few
    seconds in which the robots are farthest apart.

    Args:
        seen: The model and the data.
        fit: What was found.
        diagnostics: Says how well each recording is explained.
        threads: Of the simulation; 0 means one per core.
    """
    if seen.kind is EstimatorKind.TORQUE:
        return Motion(missing='Forces along the measured motion were compared, not the motion.')
    problem, model = seen.problem, seen.problem.model
    if not np.any(model.body_weldid[model.geom_bodyid]):
        return Motion(missing='The moving bodies of the model have no geoms to draw.')
    chosen = _chosen(problem, diagnostics)
    if chosen is None:
        return Motion(missing='No recording holds a motion.')
    sequence, role = chosen
    times = np.arange(0.0, sequence.duration, 1 / FRAMERATE)
    try:
        motions = _motions(problem, fit, sequence, times, threads)
        models = _models(problem, fit)
    except SysidError as err:
        return Motion(missing=str(err))
    rows = _farthest_apart(list(motions.values()), round(LONGEST * FRAMERATE))
    looks = {NOMINAL: models[0], FITTED: models[1], MEASURED: models[1]}
    copies = tuple(
        Copy(name, looks[name], _states(looks[name], times[rows], qpos[rows]))
        for name, qpos in motions.items()
    )
    note = ROLE_NAMES[role].capitalize()
    if len(rows) < len(times):
        note += f', {times[rows[0]]:.1f} to {times[rows[-1]]:.1f} s, where they are farthest apart'
    if MEASURED not in motions:
        note += '; what was measured does not say where the robot was'
    return Motion(sequence.name, copies, f'{note}.')


def draw_motion(motion: Motion | None) -> tuple[tuple[Film, ...], str]:
    """Draw a motion.

    Returns:
        The film, if there is one, and else why there is none.
    """
    if motion is None:
        return (), ''
    if motion.missing:
        return (), motion.missing
    try:
        return (draw_film(motion.sequence, motion.copies, note=motion.note),), ''
    except ModelError as err:
        return (), str(err)


def _chosen(problem: Problem, diagnostics: FitDiagnostics) -> tuple[Trajectory, Role] | None:
    """Return the recording to film and what it is for."""
    errors = {error.sequence: error.before for error in diagnostics.sequences}
    found = [
        (recording.role == 'validate', np.nan_to_num(errors.get(s.name, 0.0)), s, recording.role)
        for recording in problem.recordings
        for s in recording.alignment.sequences
        if s.duration > 0
    ]
    if not found:
        return None
    *_, sequence, role = max(found, key=lambda entry: entry[:2])
    return sequence, role


def _motions(
    problem: Problem, fit: Fit, sequence: Trajectory, times: Values, threads: int
) -> dict[str, Values]:
    """Return the (n, nq) positions of each robot at (n,) times; NaN where there are none."""
    model = problem.model
    # What has no name cannot be asked for, and stays where it began.
    named = {name: own for name, (_, own) in state_mappings(model)[0].items() if '[' not in name}
    columns = np.concatenate([np.zeros(0, dtype=np.int64), *named.values()])
    asked = TimeSeries(
        times,
        np.full((len(times), len(columns)), np.nan),
        {
            name: (SignalType.MjStateQPos, np.searchsorted(columns, own))
            for name, own in named.items()
        },
    )
    [bare] = fit.as_arrived([sequence], offsets=True)
    bare = dataclasses.replace(bare, measurements=(*bare.measurements, asked))
    fitted = Predictor(problem.spec, fit.parameters, fit.solution.x, threads, problem.servos)
    nominal = fitted._replace(model=model, parameters=(), values=None)
    both = (
        predictor.predict([bare])
        if fit.window is None
        else predict_in_windows(predictor, [bare], fit.window, fit.noise)
        for predictor in (nominal, fitted)
    )
    found = {}
    for name, [predicted] in zip((NOMINAL, FITTED), both, strict=True):
        found[name] = np.tile(bare.initial_qpos, (len(times), 1))
        found[name][:, columns] = predicted.channels[-1][0]
    channels = [channel[0] for channel in predicted.channels[:-1]]
    off = _residuals(model, sequence, channels, times)
    if off is not None:
        found[MEASURED] = found[FITTED] + off
    return found


def _residuals(
    model: mujoco.MjModel, sequence: Trajectory, predicted: Sequence[Values], times: Values
) -> Values | None:
    """Return by how much (n, nq) positions differ from the fitted ones; None if that is not known.

    It is known where all joints have one degree of freedom and some position is measured: joints
    whose position is not are where the fitted model has them.
    """
    if not np.isin(model.jnt_type, SCALAR_JOINTS).all():
        return None
    off, known = np.zeros((len(times), model.nq)), False
    for series, channel in zip(sequence.measurements, predicted, strict=True):
        names = [name for name, (_, own) in series.signal_mapping.items() for _ in own]
        for name, values in zip(names, channel.T, strict=True):
            joint = _joint_of(model, name)
            residual = series.get(name)[:, 0] - values
            finite = np.isfinite(residual)
            if joint is not None and finite.any():
                column = model.jnt_qposadr[joint]
                off[:, column] = np.interp(times, series.times[finite], residual[finite])
                known = True
    return off if known else None


def _joint_of(model: mujoco.MjModel, name: str) -> int | None:
    """Return the joint whose position a signal is."""
    sensor = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, name)
    if sensor >= 0 and model.sensor_type[sensor] == _POSITION:
        return int(model.sensor_objid[sensor])
    joint = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name.removesuffix('_qpos'))
    return joint if joint >= 0 and name.endswith('_qpos') else None


def _models(problem: Problem, fit: Fit) -> tuple[mujoco.MjModel, mujoco.MjModel]:
    """Return what the nominal and the fitted robot look like."""
    spec, path = lit(problem.spec), problem.source.description.path
    # Delays would give the model another state, and are not seen.
    values = [
        (target, float(value))
        for parameter, value in zip(fit.parameters, fit.solution.x, strict=True)
        for target in parameter.targets
        if target.role is not Acting.COMMAND
    ]
    return compile_spec(spec, path), fitted_model(path, values, spec)


def _states(model: mujoco.MjModel, times: Values, qpos: Values) -> Values:
    """Return (n, nstate) states at rest."""
    states = np.zeros((len(times), mujoco.mj_stateSize(model, FULLPHYSICS)))
    states[:, 0], states[:, 1 : 1 + model.nq] = times, qpos
    return states


def _farthest_apart(motions: Sequence[Values], count: int) -> NDArray[np.int64]:
    """Return so many successive rows of (n, nq) positions at most, those that differ most."""
    moved = np.maximum(np.nan_to_num(np.nanstd(motions[-1], axis=0)), _STILL)
    apart = np.ptp([np.nan_to_num(motion) for motion in motions], axis=0) / moved
    summed = np.concatenate([[0.0], np.cumsum(np.minimum(apart, _FAR).sum(axis=1))])
    count = min(count, len(apart))
    first = int(np.argmax(summed[count:] - summed[:-count]))
    return first + np.arange(count)

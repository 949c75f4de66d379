# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How the robot moved in one recording, and how the nominal and the fitted model say it moves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.schema import Role
from sysid_ros.errors import ModelError, SysidError
from sysid_ros.model.elements import SCALAR_JOINTS, position_joint
from sysid_ros.model.kinds import Role as Acting
from sysid_ros.model.loading import compile_spec, fitted_model
from sysid_ros.report.rendering import (
    FITTED,
    FRAMERATE,
    FULLPHYSICS,
    LONGEST,
    MEASURED,
    NOMINAL,
    Copy,
    Film,
    draw_film,
    lit,
)
from sysid_ros.results.result import ROLE_NAMES, FitDiagnostics
from sysid_ros.signals import SignalType, TimeSeries, Trajectory
from sysid_ros.workflows.predictions import Fitted, Predictions
from sysid_ros.workflows.problem import Problem

Values = NDArray[np.float64]

#: Where copies are farther apart than so many standard deviations of the motion, more is no more.
_FAR = 3.0
_STILL = 1e-3


class Motion(NamedTuple):
    """The name of a recording, the robots frame by frame, and which part of it that is."""

    sequence: str
    copies: tuple[Copy, ...]
    note: str


def frames(model: mujoco.MjModel, trajectory: Trajectory) -> TimeSeries:
    """Return what a film asks of a prediction: positions of all named joints, frame by frame."""
    times, columns = _moments(trajectory), _columns(model)
    order = np.concatenate([np.zeros(0, dtype=np.int64), *columns.values()])
    mapping = {
        name: (SignalType.MjStateQPos, np.searchsorted(order, own)) for name, own in columns.items()
    }
    return TimeSeries(times, np.full((len(times), len(order)), np.nan), mapping)


def _moments(trajectory: Trajectory) -> Values:
    return np.arange(0.0, max(trajectory.duration, 1 / FRAMERATE), 1 / FRAMERATE)


def _columns(model: mujoco.MjModel) -> dict[str, NDArray[np.int64]]:
    """Return the columns of qpos of each joint that has a name; others stay where they began."""
    found = {}
    for joint, (first, end) in enumerate(pairwise([*model.jnt_qposadr, model.nq])):
        free = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE
        body = model.body(int(model.jnt_bodyid[joint])).name if free else ''
        if name := model.joint(joint).name or body:
            found[f'{name}_qpos'] = np.arange(first, end)
    return found


def film_of(
    fitted: Fitted, table: Predictions, diagnostics: FitDiagnostics
) -> tuple[tuple[Film, ...], str]:
    """Return the film of a calibration, if there is one, and else why there is none."""
    try:
        motion = motion_of(fitted, table, diagnostics)
        return (draw_film(motion.sequence, motion.copies, note=motion.note),), ''
    except SysidError as err:
        return (), str(err)


def motion_of(fitted: Fitted, table: Predictions, diagnostics: FitDiagnostics) -> Motion:
    """Return how the robot moved in one recording, held out if any is, and how models say it does.

    Of several recordings it is the one which the nominal model explains worst, and of that the few
    seconds in which the robots are farthest apart. The table holds `frames` beside measurements.
    """
    problem, model = fitted.problem, fitted.problem.model
    if any(trajectory.motion is not None for trajectory in table.trajectories):
        raise ModelError('Forces along the measured motion were compared, not the motion.')
    if not np.any(model.body_weldid[model.geom_bodyid]):
        raise ModelError('The moving bodies of the model have no geoms to draw.')
    place, role = _chosen(problem, table, diagnostics)
    times = _moments(table.trajectories[place])
    motions = _motions(model, table, place, times)
    spec, path = lit(problem.spec), problem.source.description.path
    # Delays would give the model another state, and are not seen.
    values = [each for each in fitted.values if each[0].role is not Acting.COMMAND]
    models = compile_spec(spec, path), fitted_model(path, values, spec)
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
    return Motion(table.trajectories[place].name, copies, f'{note}.')


def _chosen(problem: Problem, table: Predictions, diagnostics: FitDiagnostics) -> tuple[int, Role]:
    """Return the place of the recording to film in the table, and what it is for."""
    errors = {error.sequence: error.before for error in diagnostics.sequences}
    held_out = {trajectory.name for trajectory in problem.sequences('validate')}
    found = [
        (trajectory.name in held_out, np.nan_to_num(errors.get(trajectory.name, 0.0)), -place)
        for place, trajectory in enumerate(table.trajectories)
        if trajectory.duration > 0
    ]
    if not found:
        raise ModelError('No recording holds a motion.')
    unseen, _, place = max(found)
    return -place, 'validate' if unseen else 'train'


def _motions(
    model: mujoco.MjModel, table: Predictions, place: int, times: Values
) -> dict[str, Values]:
    """Return the (n, nq) positions of each robot at (n,) times.

    What was measured is known where all joints have one degree of freedom and some position is
    measured: joints whose position is not are where the fitted model has them.
    """
    columns = np.concatenate([np.zeros(0, dtype=np.int64), *_columns(model).values()])
    found = {}
    for name, predictions in ((NOMINAL, table.nominal), (FITTED, table.fitted)):
        found[name] = np.tile(table.trajectories[place].initial_qpos, (len(times), 1))
        found[name][:, columns] = predictions[place].channels[-1][0]
    if not np.isin(model.jnt_type, SCALAR_JOINTS).all():
        return found
    off = {}
    for signal in table.signals():
        joint = _joint_of(model, signal.name) if signal.place == place else -1
        residual = signal.measured - signal.fitted
        known = np.isfinite(residual)
        if joint >= 0 and known.any():
            column = int(model.jnt_qposadr[joint])
            off[column] = np.interp(times, signal.series.times[known], residual[known])
    if off:
        found[MEASURED] = found[FITTED].copy()
        for column, values in off.items():
            found[MEASURED][:, column] += values
    return found


def _joint_of(model: mujoco.MjModel, name: str) -> int:
    """Return the joint whose position a signal is; -1 where there is none."""
    joint = position_joint(model, name)
    if joint < 0 and name.endswith('_qpos'):
        joint = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name.removesuffix('_qpos'))
    return joint


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

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Put a fit to the test: on bags that are left out in turn, and ahead from measured states."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.segments import initial_state
from sysid_ros.config.schema import CalibrationConfig, Role, SolverConfig
from sysid_ros.errors import ConfigError
from sysid_ros.fit.forces import reduced
from sysid_ros.fit.noise import estimate_noise
from sysid_ros.fit.observer import Observer, counted
from sysid_ros.fit.residuals import Residuals
from sysid_ros.fit.solver import (
    PROMISED,
    ROUGH_TOLERANCE,
    Solution,
    SolverSettings,
    gradient_of,
    one_step,
    solve,
)
from sysid_ros.fit.windows import cut
from sysid_ros.model.elements import SCALAR_JOINTS, position_joint, sensor_unit
from sysid_ros.model.kinds import Role as Acting
from sysid_ros.results.result import ROLES, Fold, HorizonJoint, HorizonPoint
from sysid_ros.results.summary import Validation
from sysid_ros.signals import TimeSeries, Trajectory
from sysid_ros.simulation.prediction import make_simulator
from sysid_ros.simulation.runs import prepare
from sysid_ros.uncertainty.inference import Identification
from sysid_ros.workflows.estimators import driven
from sysid_ros.workflows.predictions import (
    FEW_ITERATIONS,
    Fitted,
    Mask,
    Predictions,
    Predictor,
    SensorResiduals,
    residuals_of,
    rms,
)
from sysid_ros.workflows.problem import Problem

#: Name of a family of bags to its sequences.
Families = dict[str, tuple[Trajectory, ...]]
#: From so many training bags on, each of them is left out in turn unless told otherwise.
FEWEST_BAGS = 3
#: Of more bags, neighbours in the list are left out together: so many fits are made at most.
MOST_FOLDS = 8
#: So many starts are predicted from for each role at most.
_MOST_STARTS = 40
#: The error at a horizon is that of the last part of the way to it.
_LAST = 0.2


def validate(
    config: CalibrationConfig,
    recorded: Problem,
    fitted: Fitted,
    families: Families,
    table: Predictions,
    observer: Observer,
    cancel: threading.Event | None = None,
    deadline: float = math.inf,
) -> Validation:
    """Put a fit to the test as the section ``validation`` says.

    In chaotic motion, where the fit rests on windows, whole bags cannot be predicted, and nothing
    is left out. No other fit begins after the deadline, in ``time.monotonic()``.
    """
    fit, problem, refit = fitted.fit, fitted.problem, fitted.refit
    predictor = fitted.predictor(config.solver.threads)
    folds: list[Fold] = []
    count = 0 if fit.window is not None or fit.solution.status == 'time' else len(families)
    if count:
        observer.stage(f'fitting without each of {count} parts of the data')
        names = [trajectory.name for trajectory in table.trajectories]
        before = dict(zip(names, table.residuals(fit.noise)[0], strict=True))
        sequences = refit.sequences('train')
        left_out = leave_out(refit.spec, sequences, families, fit, config.solver, cancel, deadline)
        for name, values in counted(observer, left_out, count):
            own = families[name]
            fold = Fold(
                name=name,
                before=rms([before[sequence.name] for sequence in own]),
                after=error_without(predictor, fit, values, own, fit.noise),
                values=tuple(values.tolist()),
            )
            folds.append(fold)
    warnings = []
    if fit.window is None and len(folds) < len(families):
        warnings.append(
            f'{len(folds)} of {len(families)} parts of the data were left out in turn: the limit '
            'of time was reached.'
        )
    noise: Mapping[str, float] = fit.noise
    if any(trajectory.motion is not None for trajectory in problem.sequences('train')):
        problem = driven(recorded, fitted.values)
        predictor, noise = predictor._replace(model=problem.spec), _motion_noise(problem)
    horizon = horizon_errors(problem, predictor, noise, config.validation.horizon, observer)
    return Validation(tuple(folds), horizon, tuple(warnings))


def _motion_noise(problem: Problem) -> dict[str, float]:
    """Return the noise of measured positions and velocities of joints, from their roughness."""
    model, kinds = problem.model, mujoco.mjtSensor
    found = estimate_noise(prepare(model, sequence) for sequence in problem.sequences('train'))
    of_motion = kinds.mjSENS_JOINTPOS.value, kinds.mjSENS_JOINTVEL.value
    rows = np.flatnonzero(np.isin(model.sensor_type, of_motion))
    return {name: found[name] for row in rows if (name := model.sensor(row).name) in found}


def training_bags(problem: Problem) -> dict[str, tuple[Trajectory, ...]]:
    """Return each training bag's sequences, by a name that is the bag's own."""
    training = [recording for recording in problem.recordings if recording.role == 'train']
    names = [recording.path.name for recording in training]
    return {
        name if names.count(name) == 1 else str(recording.path): recording.alignment.sequences
        for name, recording in zip(names, training, strict=True)
    }


def families_of(leave_out: str, bags: Mapping[str, tuple[Trajectory, ...]]) -> Families:
    """Return what of the training bags is left out in turn, by name, if anything.

    Raises:
        ConfigError: Each bag is to be left out, and there is only one.
    """
    filled = {name: sequences for name, sequences in bags.items() if sequences}
    names = list(filled)
    if leave_out == 'none' or (leave_out == 'auto' and len(names) < FEWEST_BAGS):
        return {}
    if len(names) < 2:  # noqa: PLR2004 (one to fit, one to judge)
        raise ConfigError(
            f'Expected two training bags or more for leave_out: bag, found {len(names)}.'
        )
    found: Families = {}
    for group in np.array_split(names, min(len(names), MOST_FOLDS)):
        family = group[0] if len(group) == 1 else f'{group[0]} … {group[-1]}'
        found[str(family)] = tuple(s for name in group for s in filled[str(name)])
    return found


def leave_out(
    spec: mujoco.MjSpec,
    sequences: Sequence[Trajectory],
    families: Families,
    fit: Identification,
    solver: SolverConfig,
    cancel: threading.Event | None = None,
    deadline: float = math.inf,
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Fit to all sequences but those of one family at a time.

    Each fit has the weights of the full one, whose sequences or pieces these are, and starts from
    its end with its Jacobian: most end after one step. No other begins after the deadline, in
    ``time.monotonic()``.

    Yields:
        Name of the family, and (p,) values; NaN where nothing but the family tells one.
    """
    arrived = fit.as_fitted(sequences)
    assert fit.samples is not None  # noqa: S101 (a fit that was just made)
    settings = SolverSettings(solver.loss, FEW_ITERATIONS, rough=True, promised=PROMISED)
    settled = gradient_of(fit.solution.jacobian, fit.solution.residual, solver.loss)
    for name, family in families.items():
        if time.monotonic() > deadline:
            return
        names, bags = {own.name for own in family}, {own.bag for own in family if own.bag}
        absent = {own.name for own in arrived if own.name in names or own.bag in bags}
        rest = [sequence for sequence in arrived if sequence.name not in absent]
        rows = [place for place, sequence in enumerate(arrived) if sequence.name in absent]
        left = fit.solution.jacobian[~np.isin(fit.samples.sequence, rows)]
        told = np.asarray(np.any(left != 0, axis=0))
        unknowns, places = [], []
        for place, unknown in enumerate(fit.unknowns):
            own = [t.role is Acting.SEQUENCE and t.name in absent for t in unknown.targets]
            if told[place] and not all(own):
                unknowns.append(unknown)
                places.append(place)
        memory = fit.memory
        if memory is not None and not set(memory.names) <= {u.name for u in unknowns}:
            memory = None
        found = np.full(len(fit.values), np.nan)
        if unknowns:
            with make_simulator(
                spec, unknowns, rest, solver.threads, drives=fit.drives
            ) as simulator:
                residuals = Residuals(simulator, fit.noise, memory=memory)
                x = fit.values[places]
                least = reduced(residuals, x) if solver.loss == 'linear' else None
                known = None if least else _without(fit, rows, places, residuals)
                # However short, a step is made: with none, nothing would be left out.
                last = one_step(
                    least or residuals,
                    x,
                    solver.loss,
                    known=known,
                    settled=None if known is None else settled[places],
                    cancel=cancel,
                )
                if not fit.solution.jumps:  # others would follow jumps
                    last = solve(
                        least or residuals,
                        x,
                        settings=settings,
                        tolerance=ROUGH_TOLERANCE,
                        known=last,
                        begun=last,
                        cancel=cancel,
                    )
                found[places] = last.x
        yield name, found[: len(fit.parameters)]


def _without(
    fit: Identification, absent: Sequence[int], places: Sequence[int], rest: Residuals
) -> Solution | None:
    """Return the end of a fit as residuals of other sequences and some unknowns see it.

    It is None where these are not among those of the fit, as errors of arrival are in its own.
    """
    samples, solution = fit.samples, fit.solution
    kept = (samples.sensor >= 0) & ~np.isin(samples.sequence, absent)
    x = fit.values[list(places)]
    known = np.concatenate([solution.residual[kept], rest.priors.residual(x[None])[0]])
    if fit.arrival_errors or len(known) != len(rest.samples.time):
        return None
    jacobian = np.concatenate([solution.jacobian[kept][:, places], -rest.priors.matrix])
    return dataclasses.replace(solution, x=x, residual=known, jacobian=jacobian)


def error_without(
    predictor: Predictor,
    fit: Identification,
    values: NDArray[np.float64],
    family: Sequence[Trajectory],
    noise: Mapping[str, float],
    mask: Mask | None = None,
) -> float:
    """Return the error on a family of the (p,) values without it; NaN stands for the nominal."""
    nominal = [parameter.nominal for parameter in fit.parameters]
    known = np.where(np.isnan(values), nominal, values)
    refitted = predictor._replace(parameters=fit.parameters, values=known)
    return rms(residuals_of(refitted, fit.as_arrived(family, offsets=True), noise, mask))


class _Start(NamedTuple):
    """A prediction: of which sequence, from when, and the longest horizon with room for it."""

    role: Role
    sequence: Trajectory
    begin: float
    seconds: float


def horizon_errors(
    problem: Problem,
    fitted: Predictor,
    noise: Mapping[str, float],
    seconds: Sequence[float],
    observer: Observer | None = None,
) -> tuple[HorizonPoint, ...]:
    """Predict from many measured states, and return the errors so many seconds later.

    Each start is where the robot was measured to be: positions and velocities by the rule for the
    start of a sequence. One simulation from there gives the errors at all horizons that the
    sequence has room for, each over the last fifth of the way to it.

    Returns:
        A point for each role and horizon that the sequences have room for; none where the position
        of a joint is not measured or actuators have activations, so that the robot cannot be put
        where it was.
    """
    model, ahead = problem.model, sorted(set(seconds))
    everything = [sequence for role in ROLES for sequence in problem.sequences(role)]
    starts = [start for role in ROLES for start in _starts(role, problem.sequences(role), ahead)]
    if not starts or not all(_knows_state(model, sequence) for sequence in everything):
        return ()
    if observer is not None:
        observer.stage('predicting ahead from measured states')
    pieces = _pieces(model, starts)
    table = Predictions(pieces, fitted.nominal.predict(pieces), fitted.predict(pieces))
    points = []
    for length in ahead:

        def late(_: Trajectory, series: TimeSeries, length: float = length) -> NDArray[np.bool_]:
            last = np.nextafter(length, np.inf)
            return np.asarray((series.times >= (1 - _LAST) * length) & (series.times <= last))

        every = (*table.residuals(noise, late), _coasting(model, table, noise, late))
        for role in ROLES:
            places = [i for i, s in enumerate(starts) if s.role == role and s.seconds >= length]
            before, after, coasting = ([each[i] for i in places] for each in every)
            joints = []
            for sensor in sorted({name for each in coasting for name in each}):
                old, new, kept = (
                    noise[sensor] * rms([{sensor: own[sensor]} for own in each if sensor in own])
                    for each in (before, after, coasting)
                )
                errors = {'before': old, 'after': new, 'coasting': kept}
                joints.append(
                    HorizonJoint(sensor=sensor, unit=sensor_unit(model, sensor), **errors)
                )
            if np.isfinite(rms(after)):
                whole = {'before': rms(before), 'after': rms(after)}
                points.append(
                    HorizonPoint(seconds=length, role=role, joints=tuple(joints), **whole)
                )
    return tuple(sorted(points, key=lambda point: ROLES.index(point.role)))


def _knows_state(model: mujoco.MjModel, sequence: Trajectory) -> bool:
    """Whether the position of every joint is measured, and there is no state beside joints."""
    names = {name for series in sequence.measurements for name in series.names}
    known = {position_joint(model, name) for name in names} - {-1}
    scalar = bool(np.isin(model.jnt_type, SCALAR_JOINTS).all())
    return len(known) == model.njnt and scalar and not model.na


def _starts(role: Role, sequences: Sequence[Trajectory], ahead: Sequence[float]) -> list[_Start]:
    """Tile the sequences with the shortest of the horizons; of many, take an even choice."""
    found = []
    for sequence in sequences if ahead else ():
        for begin in np.arange(0.0, sequence.duration, ahead[0]).tolist():
            left = np.nextafter(sequence.duration, np.inf) - begin
            room = [length for length in ahead if length <= left]
            found += [_Start(role, sequence, begin, max(room))] if room else []
    count = min(len(found), _MOST_STARTS)
    return [found[i] for i in np.linspace(0, len(found) - 1, count).round().astype(int)]


def _coasting(
    model: mujoco.MjModel, table: Predictions, noise: Mapping[str, float], mask: Mask
) -> list[SensorResiduals]:
    """Return residuals of positions, in units of the noise, of joints that keep their velocity."""
    found: list[SensorResiduals] = [{} for _ in table.trajectories]
    for signal in table.signals():
        joint = position_joint(model, signal.sensor)
        if joint >= 0 and signal.sensor in noise:
            start = signal.trajectory.initial_qpos[model.jnt_qposadr[joint]]
            velocity = signal.trajectory.initial_qvel[model.jnt_dofadr[joint]]
            missed = start + velocity * signal.series.times - signal.measured
            residual = (missed / noise[signal.sensor])[mask(signal.trajectory, signal.series)]
            found[signal.place][signal.sensor] = residual[np.isfinite(residual)]
    return found


def _pieces(model: mujoco.MjModel, starts: Sequence[_Start]) -> list[Trajectory]:
    """Cut what each prediction needs out of its sequence."""
    states: dict[tuple[str, float], tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
    found = []
    for number, (_, sequence, begin, seconds) in enumerate(starts):
        key = sequence.name, begin
        if begin and key not in states:
            qpos, qvel, _ = initial_state(model, sequence.measurements, begin)
            states[key] = qpos, qvel
        end = float(np.nextafter(begin + seconds, np.inf))  # with the sample there
        piece = cut(sequence, begin, end, states.get(key))
        found.append(dataclasses.replace(piece, name=f'{sequence.name} start {number}'))
    return found

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Put a fit to the test: on other bags, and ahead from measured states."""

from __future__ import annotations

import dataclasses
import fnmatch
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import scipy.special
from numpy.typing import NDArray

from sysid_ros.alignment.segments import InitialState, initial_state
from sysid_ros.config import CalibrationConfig, SolverConfig
from sysid_ros.config.calibration import Role, VerdictKind
from sysid_ros.errors import ConfigError, listed, nearest
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver import SolverSettings, solve
from sysid_ros.identification.fit import Fit
from sysid_ros.identification.observer import Observer, counted
from sysid_ros.model.joints import SCALAR_JOINTS, position_joint
from sysid_ros.model.targets import Role as Acting
from sysid_ros.model.units import sensor_unit
from sysid_ros.pipeline.estimators import driven, motion_noise
from sysid_ros.pipeline.fitting import Fitted
from sysid_ros.pipeline.predictions import (
    Mask,
    Predictions,
    Predictor,
    SensorResiduals,
    residuals_of,
    rms,
)
from sysid_ros.pipeline.problem import Problem
from sysid_ros.results.result import ROLES, Fold, HorizonJoint, HorizonPoint
from sysid_ros.results.summary import Validation
from sysid_ros.rollout.prediction import make_simulator
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.signals.trajectory import Trajectory

#: Name of a family of bags to its sequences.
Families = dict[str, tuple[Trajectory, ...]]

#: From so many training bags on, each of them is left out in turn unless told otherwise.
FEWEST_BAGS = 3
#: Of more bags, neighbours in the list are left out together: so many fits are made at most.
MOST_FOLDS = 8
#: A fit without some bags starts near its end: it ends after so many iterations at most, or when
#: the next step would be shorter than this, in standard errors.
_FOLD_ITERATIONS, _TOLERANCE = 5, 0.1
#: Probability to complain about bags that agree, over all parameters together.
_FALSE_ALARM = 0.01

#: So many starts are predicted from for each horizon and role at most, so many s in all.
_MOST_STARTS, _MOST_SECONDS = 40, 60.0
#: The error at a horizon is that of the last part of the way to it.
_LAST = 0.2
#: Commands are kept from so long before a start to so long after the end: longer than any delay, s.
_AROUND = 2.0
#: Stamps this much later than the end are at the end, s.
_ROUNDING = 1e-9


def validate(
    config: CalibrationConfig,
    recorded: Problem,
    fitted: Fitted,
    table: Predictions,
    observer: Observer,
    cancel: threading.Event | None = None,
    deadline: float = math.inf,
) -> Validation:
    """Put a fit to the test as the section ``validation`` says.

    What cannot be done costs nobody the fit: it becomes a warning. In chaotic motion, where the fit
    rests on windows, whole bags cannot be predicted, and nothing is left out.

    Args:
        config: The configuration.
        recorded: The model and the data as they were recorded.
        fitted: The fit to all training data.
        table: What it predicts.
        observer: Is told of stages.
        cancel: Ends it when it is set.
        deadline: No other fit begins after it, in ``time.monotonic()``.
    """
    fit, problem = fitted.fit, fitted.problem
    warnings: list[str] = []
    families: Families = {}
    try:
        if fit.window is None:
            families = families_of(config.validation.leave_out, training_bags(problem))
    except ConfigError as err:
        warnings.append(str(err))
    folds: tuple[Fold, ...] = ()
    if families and fit.solution.status != 'time':
        observer.stage(f'fitting without each of {len(families)} parts of the data')
        found = _folds(config, fitted, table, families, cancel, deadline)
        folds = tuple(counted(observer, found, len(families)))
    if len(folds) < len(families):
        warnings.append(
            f'{len(folds)} of {len(families)} parts of the data were left out in turn: the limit '
            'of time was reached.'
        )
    predictor = fitted.predictor(config.solver.threads)
    ahead: Problem = problem
    noise: Mapping[str, float] = fit.noise
    if any(trajectory.motion is not None for trajectory in problem.sequences('train')):
        ahead = driven(recorded, fitted.values)
        predictor, noise = predictor._replace(model=ahead.spec), motion_noise(ahead)
    horizon = horizon_errors(ahead, predictor, noise, config.validation.horizon, observer)
    return Validation(folds, horizon, (*warnings, *disagreements(fit, folds)))


def _folds(
    config: CalibrationConfig,
    fitted: Fitted,
    table: Predictions,
    families: Families,
    cancel: threading.Event | None,
    deadline: float,
) -> Iterator[Fold]:
    """Yield the fit without each family, judged on that family."""
    fit, refit = fitted.fit, fitted.refit
    names = [trajectory.name for trajectory in table.trajectories]
    before = dict(zip(names, table.residuals(fit.noise)[0], strict=True))
    predictor = fitted.predictor(config.solver.threads)
    left_out = leave_out(
        refit.spec, refit.sequences('train'), families, fit, config.solver, cancel, deadline
    )
    for name, values in left_out:
        yield Fold(
            name=name,
            before=rms([before[sequence.name] for sequence in families[name]]),
            after=error_without(predictor, fit, values, families[name], fit.noise),
            values=tuple(values.tolist()),
        )


def training_bags(problem: Problem) -> dict[str, tuple[Trajectory, ...]]:
    """Return each training bag's sequences, by a name that is the bag's own."""
    training = [recording for recording in problem.recordings if recording.role == 'train']
    names = [recording.path.name for recording in training]
    return {
        name if names.count(name) == 1 else str(recording.path): recording.alignment.sequences
        for name, recording in zip(names, training, strict=True)
    }


def families_of(
    leave_out: str | Mapping[str, Sequence[str]], bags: Mapping[str, tuple[Trajectory, ...]]
) -> Families:
    """Return what is left out in turn, by name; nothing where there is nothing to leave out.

    Args:
        leave_out: ``auto``, ``none``, ``bag``, or name to patterns of names of bags.
        bags: Name of each training bag to its sequences.

    Raises:
        ConfigError: A pattern matches no training bag, a bag is in two families, one family holds
            all bags, or there is only one bag.
    """
    filled = {name: sequences for name, sequences in bags.items() if sequences}
    if leave_out == 'none' or (leave_out == 'auto' and len(filled) < FEWEST_BAGS):
        return {}
    if isinstance(leave_out, str):
        if len(filled) < 2:  # noqa: PLR2004 (one to fit, one to judge)
            raise ConfigError(
                f'Expected two training bags or more for leave_out: bag, found {len(filled)}.'
            )
        names = list(filled)
        groups = np.array_split(np.arange(len(names)), min(len(names), MOST_FOLDS))
        return {
            (
                names[group[0]] if len(group) == 1 else f'{names[group[0]]} … {names[group[-1]]}'
            ): tuple(s for i in group for s in filled[names[i]])
            for group in groups
        }
    return _named_families(leave_out, filled)


def _named_families(chosen: Mapping[str, Sequence[str]], filled: Families) -> Families:
    owner: dict[str, str] = {}
    for family, patterns in chosen.items():
        for pattern in patterns:
            matches = fnmatch.filter(filled, pattern)
            if not matches:
                hint = nearest(pattern, list(filled))
                raise ConfigError(
                    f'No training bag matches {pattern!r} in leave_out of validation; {hint}.'
                )
            for bag in matches:
                if owner.setdefault(bag, family) != family:
                    raise ConfigError(
                        f'Bag {bag!r} is in two families of leave_out, {owner[bag]!r} and '
                        f'{family!r}; expected one.'
                    )
    for family in chosen:
        if all(owner.get(bag) == family for bag in filled):
            raise ConfigError(
                f'Family {family!r} of leave_out holds all training bags: none is left to fit.'
            )
    return {
        family: tuple(s for bag in filled if owner.get(bag) == family for s in filled[bag])
        for family in chosen
    }


def leave_out(
    spec: mujoco.MjSpec,
    sequences: Sequence[Trajectory],
    families: Families,
    fit: Fit,
    solver: SolverConfig,
    cancel: threading.Event | None = None,
    deadline: float = math.inf,
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Fit to all sequences but those of one family at a time.

    Each fit has the weights of the full one and starts from its end.

    Args:
        spec: The nominal model.
        sequences: The training data, in the order of the fit.
        families: Name to the sequences that are held out together.
        fit: The fit to all of them.
        solver: The loss of the fit, and simulation threads.
        cancel: Ends it when it is set.
        deadline: No other fit begins after it, in ``time.monotonic()``.

    Yields:
        Name of the family, and (p,) values; NaN where nothing but the family tells one.
    """
    arrived = fit.as_fitted(sequences)
    assert fit.samples is not None  # noqa: S101 (a fit that was just made)
    settings = SolverSettings(solver.loss, _FOLD_ITERATIONS, rough=True)
    for name, family in families.items():
        if time.monotonic() > deadline:
            return
        absent = {sequence.name for sequence in family}
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
                found[places] = solve(
                    residuals,
                    fit.values[places],
                    settings=settings,
                    tolerance=_TOLERANCE,
                    cancel=cancel,
                ).x
        yield name, found[: len(fit.parameters)]


def error_without(
    predictor: Predictor,
    fit: Fit,
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


def disagreements(fit: Fit, folds: Sequence[Fold]) -> Iterator[str]:
    """Say where bags contradict each other or the intervals, a sentence each.

    If all bags came from the model and the intervals were right, the jackknife variance (K - 1)/K
    Σ (θ_k - mean)² of K folds (Tukey 1958) would have the interval's variance as its mean, and
    K - 1 times their ratio a chi-squared distribution with K - 1 degrees of freedom.
    """
    worse = [fold.name for fold in folds if not fold.after < fold.before]
    if worse:
        yield (
            f'Fitted to the other bags, the model predicts {", ".join(map(repr, worse))} no better '
            'than the nominal one.'
        )
    count = len(folds)
    if count < FEWEST_BAGS:
        return
    values = np.array([fold.values for fold in folds])
    spread = np.sqrt((count - 1) * np.var(values, axis=0))
    error = np.sqrt(np.diag(fit.inference.covariance)[: len(fit.parameters)])
    inside = [interval.verdict_kind is not VerdictKind.AT_BOUND for interval in fit.intervals]
    # NaN where there is no interval, a value is at its bound, or a fold does not determine it.
    ratios = np.divide(spread, error, out=np.full_like(spread, np.nan), where=inside & (error > 0))
    limit = scipy.special.chdtri(count - 1, _FALSE_ALARM / max(len(ratios), 1)) / (count - 1)
    far = [j for j in np.argsort(-np.nan_to_num(ratios)) if ratios[j] ** 2 > limit]
    if far:
        moved = np.abs(values - fit.solution.x)
        named = listed(
            f'{fit.parameters[j].name} {ratios[j]:.2g} times, most without '
            f'{folds[int(np.argmax(moved[:, j]))].name!r}'
            for j in far
        )
        yield (
            'Between fits without some of the bags parameters move by much more than their '
            f'intervals say: {named}; the bags do not agree on one value, so the model '
            'lacks something or the intervals are too narrow.'
        )


class _Start(NamedTuple):
    """A prediction: of which sequence, from when, how far."""

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
    start of a sequence, activations of actuators as the commands until then leave them. The error
    over the last fifth of each horizon counts. All starts are simulated in one batch.

    Returns:
        A point for each role and horizon that the sequences have room for; none where none is
        asked for, or the position of a joint is not measured, so that the robot cannot be put where
        it was.
    """
    model = problem.model
    starts = [
        start
        for role in ROLES
        for length in sorted(set(seconds))
        for start in _starts(role, problem.sequences(role), length)
    ]
    everything = [sequence for role in ROLES for sequence in problem.sequences(role)]
    if not starts or not all(_knows_state(model, sequence) for sequence in everything):
        return ()
    if observer is not None:
        observer.stage('predicting ahead from measured states')
    pieces = _pieces(model, starts)
    predicted = []
    for predictor in (fitted.nominal, fitted):
        begun = pieces
        if model.na:
            activations = _activations(model, starts, predictor)
            begun = [
                dataclasses.replace(piece, initial_act=act)
                for piece, act in zip(pieces, activations, strict=True)
            ]
        predicted.append(predictor.predict(begun))
    table = Predictions(pieces, *predicted)
    lengths = {piece.name: start.seconds for start, piece in zip(starts, pieces, strict=True)}

    def late(piece: Trajectory, series: TimeSeries) -> NDArray[np.bool_]:
        return np.asarray(series.times >= (1 - _LAST) * lengths[piece.name])

    every = (*table.residuals(noise, late), _coasting(model, table, noise, late))
    points = []
    for role, length in dict.fromkeys((start.role, start.seconds) for start in starts):
        places = [i for i, s in enumerate(starts) if (s.role, s.seconds) == (role, length)]
        before, after, coasting = ([each[i] for i in places] for each in every)
        joints = []
        for sensor in sorted({name for each in coasting for name in each}):
            old, new, kept = (
                noise[sensor] * rms([{sensor: own[sensor]} for own in each if sensor in own])
                for each in (before, after, coasting)
            )
            unit = sensor_unit(model, sensor)
            joints.append(
                HorizonJoint(sensor=sensor, unit=unit, before=old, after=new, coasting=kept)
            )
        if np.isfinite(rms(after)):
            points.append(
                HorizonPoint(
                    seconds=length,
                    role=role,
                    before=rms(before),
                    after=rms(after),
                    joints=tuple(joints),
                )
            )
    return tuple(points)


def _knows_state(model: mujoco.MjModel, sequence: Trajectory) -> bool:
    """Whether the position of every joint is measured."""
    names = {name for series in sequence.measurements for name in series.names}
    known = {position_joint(model, name) for name in names} - {-1}
    return len(known) == model.njnt and bool(np.isin(model.jnt_type, SCALAR_JOINTS).all())


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


def _activations(
    model: mujoco.MjModel, starts: Sequence[_Start], predictor: Predictor
) -> list[NDArray[np.float64]]:
    """Return the (na,) activation at each start, as predicted from the start of its sequence.

    Activations depend on commands, hardly on the state, so that they do not drift.
    """
    actuators = [model.actuator(i) for i in np.flatnonzero(model.actuator_actnum)]
    places = [each.actadr[0] + np.arange(each.actnum[0]) for each in actuators]
    order = np.concatenate(places)
    mapping = {
        each.name: (SignalType.MjStateAct, np.searchsorted(np.sort(order), own))
        for each, own in zip(actuators, places, strict=True)
    }
    asked = []
    for name, sequence in {start.sequence.name: start.sequence for start in starts}.items():
        times = np.unique([start.begin for start in starts if start.sequence.name == name])
        series = TimeSeries(times, np.zeros((len(times), len(order))), mapping)
        asked.append(dataclasses.replace(sequence, measurements=(series,)))
    found = {}
    for sequence, prediction in zip(asked, predictor.predict(asked), strict=True):
        rows = zip(sequence.measurements[0].times, prediction.channels[0][0], strict=True)
        for begin, row in rows:
            act = np.zeros(model.na)
            act[order] = row
            found[sequence.name, float(begin)] = act
    return [found[start.sequence.name, start.begin] for start in starts]


def _pieces(model: mujoco.MjModel, starts: Sequence[_Start]) -> list[Trajectory]:
    """Cut what each prediction needs out of its sequence."""
    states: dict[tuple[str, float], InitialState] = {}
    found = []
    for number, (_, sequence, begin, seconds) in enumerate(starts):
        qpos, qvel = sequence.initial_qpos, sequence.initial_qvel
        if begin:
            key = sequence.name, begin
            if key not in states:
                states[key] = initial_state(model, sequence.measurements, begin)
            qpos, qvel, _ = states[key]
        end = begin + seconds + _ROUNDING
        measured = [
            _cut(series, begin, *np.searchsorted(series.times, (begin, end)))
            for series in sequence.measurements
        ]
        commands = []
        for series in sequence.commands:
            first, last = np.searchsorted(
                series.times, (begin - _AROUND, end + _AROUND), side='right'
            )
            # The command before holds; what is interpolated goes on to the one after.
            commands.append(_cut(series, begin, max(first - 1, 0), last + 1))
        found.append(
            dataclasses.replace(
                sequence,
                name=f'{sequence.name} start {number}',
                origin_ns=sequence.origin_ns + round(1e9 * begin),
                initial_qpos=qpos,
                initial_qvel=qvel,
                commands=tuple(commands),
                measurements=tuple(series for series in measured if len(series)),
            )
        )
    return found


def _cut(series: TimeSeries, begin: float, first: int, last: int) -> TimeSeries:
    """Return rows from the first to before the last, stamped from when a prediction begins."""
    times, data = series.times[first:last] - begin, series.data[first:last]
    return TimeSeries(times, data, series.signal_mapping)

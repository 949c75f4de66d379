# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Put a fit to the test: other bags, longer predictions, shorter windows."""

from __future__ import annotations

import dataclasses
import fnmatch
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np
import scipy.special
from numpy.typing import NDArray

from sysid_ros.alignment.segments import InitialState, initial_state
from sysid_ros.config import CalibrationConfig, SolverConfig
from sysid_ros.config.calibration import Role, VerdictKind
from sysid_ros.errors import CancelledError, ConfigError, FitError, nearest
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver.losses import rho
from sysid_ros.estimation.solver.solver import Solution, SolverSettings, solve
from sysid_ros.estimation.start.motion import unmeasured
from sysid_ros.estimation.start.windows import Cutter
from sysid_ros.identification.fit import Fit
from sysid_ros.identification.observer import Nobody, Observer, counted
from sysid_ros.inference import infer
from sysid_ros.model.joints import SCALAR_JOINTS
from sysid_ros.model.targets import Role as Acting
from sysid_ros.model.units import sensor_unit
from sysid_ros.model.unknown import Unknown
from sysid_ros.pipeline.estimators import driven, motion_noise
from sysid_ros.results.result import ROLES, Fold, HorizonJoint, HorizonPoint, WindowFit
from sysid_ros.results.summary import Validation
from sysid_ros.rollout.drives import Drives
from sysid_ros.rollout.prediction import make_simulator, predict
from sysid_ros.rollout.simulation import Prediction
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.signals.trajectory import Trajectory

if TYPE_CHECKING:
    from sysid_ros.pipeline.loading import Problem

#: Which samples of a series of a sequence count.
Mask = Callable[[Trajectory, TimeSeries], NDArray[np.bool_]]
#: Name of a family of bags to its sequences.
Families = dict[str, tuple[Trajectory, ...]]

#: A simulation that became unstable counts as this many times the noise, as it does in the fit.
DIVERGED = 1e4
#: So many parameters are named in a warning.
_NAMED = 3
#: A fit to part of the data starts near its end; it ends when the next step would be shorter than
#: this, in standard errors.
_TOLERANCE = 0.1

#: From so many training bags on, each of them is left out in turn unless told otherwise.
FEWEST_BAGS = 3
#: Of more bags, neighbours in the list are left out together: so many fits are made at most.
MOST_FOLDS = 8
#: A fit without some bags ends after so many iterations at most.
_FOLD_ITERATIONS = 5
#: Directions that the data left hardly determine stay where they are: relative singular value.
_BLIND = 1e-6
#: Probability to complain about bags that agree, over all parameters together.
_FALSE_ALARM = 0.01

#: So many starts are predicted from for each horizon and role at most.
_MOST_STARTS = 40
#: So many seconds are simulated for each horizon and role at most.
_MOST_SECONDS = 60.0
#: The error at a horizon is that of the last part of the way to it.
_LAST = 0.2
#: Commands are kept from so long before a start to so long after the end: longer than any delay, s.
_AROUND = 2.0
#: Stamps this much later than the end are at the end, s.
_ROUNDING = 1e-9

#: A fit to windows ends after so many iterations at most.
_WINDOW_ITERATIONS = 15


class Predictor(NamedTuple):
    """What predicts: a model, values of its parameters, and what drives it.

    Attributes:
        model: A spec, or what it compiled to if no parameter needs another compilation.
        parameters: What the values are.
        values: (p,) parameter values.
        threads: Simulation threads; 0 means one per core.
        drives: What drives the model beside its own actuators, if anything.
    """

    model: mujoco.MjModel | mujoco.MjSpec
    parameters: Sequence[Unknown] = ()
    values: NDArray[np.float64] | None = None
    threads: int = 0
    drives: Drives | None = None

    def predict(self, sequences: Sequence[Trajectory]) -> tuple[Prediction, ...]:
        """Simulate sequences in one batch."""
        return predict(
            self.model, sequences, self.parameters, self.values, self.threads, drives=self.drives
        )


def residuals_of(
    predictor: Predictor,
    sequences: Sequence[Trajectory],
    noise: Mapping[str, float],
    mask: Mask | None = None,
) -> list[dict[str, NDArray[np.float64]]]:
    """Simulate sequences and return by sequence and sensor the residuals in units of the noise.

    Args:
        predictor: What predicts.
        sequences: What is simulated, in one batch.
        noise: Sensor name to standard deviation; others do not count.
        mask: Which samples count; by default all.

    Returns:
        For each sequence, sensor name to (n,) finite residuals.
    """
    if not sequences:
        return []
    found = []
    predictions = predictor.predict(sequences)
    for sequence, prediction in zip(sequences, predictions, strict=True):
        own: dict[str, list[NDArray[np.float64]]] = {}
        for series, predicted in zip(sequence.measurements, prediction.channels, strict=True):
            rows = slice(None) if mask is None else mask(sequence, series)
            columns = [
                (name, c) for name, (_, place) in series.signal_mapping.items() for c in place
            ]
            places = [place for place, (name, _) in enumerate(columns) if name in noise]
            names = [columns[place][0] for place in places]
            measured = series.data[rows][:, [columns[place][1] for place in places]]
            sigma = np.array([noise[name] for name in names])
            residual = (predicted[0, rows][:, places] - measured) / sigma
            residual = np.nan_to_num(residual, nan=np.nan, posinf=DIVERGED, neginf=-DIVERGED)
            if prediction.diverged[0]:
                residual = np.where(np.isfinite(measured), DIVERGED, np.nan)
            for name, values in zip(names, residual.T, strict=True):
                own.setdefault(name, []).append(values[np.isfinite(values)])
        found.append({name: np.concatenate(parts) for name, parts in own.items()})
    return found


def rms(residuals: Sequence[Mapping[str, NDArray[np.float64]]]) -> float:
    """Return the root mean square of all residuals; NaN where there are none."""
    parts = [values for own in residuals for values in own.values()]
    values = np.concatenate(parts) if parts else np.zeros(0)
    return float(np.sqrt(np.mean(values**2))) if len(values) else float('nan')


def validate(
    config: CalibrationConfig,
    problem: Problem,
    fit: Fit,
    observer: Observer,
    cancel: threading.Event | None = None,
    recorded: Problem | None = None,
    refitted: Problem | None = None,
    deadline: float = math.inf,
) -> Validation:
    """Put a fit to the test as the section ``validation`` says.

    What cannot be done costs nobody the fit: it becomes a warning.

    In chaotic motion, where the fit rests on windows, whole bags cannot be predicted: nothing is
    left out then, and no other windows are tried.

    Args:
        config: The configuration.
        problem: The model and the data.
        fit: The fit to all training data.
        observer: Is told of stages.
        cancel: Ends it when it is set.
        recorded: The recordings themselves, where the fit saw only the forces along them.
        refitted: What fits to parts of the data see; ``problem`` unless given.
        deadline: No other fit begins after it, in ``time.monotonic()``.

    Raises:
        CancelledError: ``cancel`` was set.
    """
    chosen = config.validation
    whole, refitted = fit.window is None, refitted or problem
    warnings: list[str] = []
    families: Families = {}
    try:
        families = _families(config, refitted, fit)
    except ConfigError as err:
        warnings.append(str(err))
    folds: tuple[Fold, ...] = ()
    if families:
        observer.stage(f'fitting without each of {len(families)} parts of the data')
        left_out = leave_out(
            refitted.spec, refitted.sequences('train'), families, fit, config.solver, cancel=cancel
        )
        folds = tuple(counted(observer, _until(deadline, left_out, fit), len(families)))
    if len(folds) < len(families):
        warnings.append(
            f'{len(folds)} of {len(families)} parts of the data were left out in turn: the limit '
            'of time was reached.'
        )
    everything = problem.sequences('train')
    fitted = Predictor(problem.spec, *fit.predicting(everything), config.solver.threads, fit.drives)
    ahead = problem
    noise: Mapping[str, float] = fit.noise
    if recorded is not None and recorded is not problem:
        ahead, noise = driven(recorded), motion_noise(recorded)
    horizon = horizon_errors(ahead, fitted, noise, chosen.horizon, observer)
    windows: tuple[WindowFit, ...] = ()
    if chosen.windows and whole and time.monotonic() > deadline:
        warnings.append('No windows were fitted: the limit of time was reached.')
    elif chosen.windows and whole:
        observer.stage('fitting windows')
        try:
            windows = fit_windows(refitted, fit, chosen.windows, config.solver, cancel, observer)
        except CancelledError:
            raise
        except FitError as err:
            warnings.append(str(err))
    warnings.extend(disagreements(fit, folds))
    if windows:
        warnings.extend(drifts(fit, windows))
    return Validation(folds, horizon, windows, tuple(warnings))


def _until(deadline: float, folds: Iterator[Fold], fit: Fit) -> Iterator[Fold]:
    """Yield those for which there is time: that of the longest, or of an iteration of the fit."""
    moments = [0.0, *(iteration.seconds for iteration in fit.solution.trace)]
    longest = max(after - before for before, after in itertools.pairwise(moments))
    while (began := time.monotonic()) + longest <= deadline:
        fold = next(folds, None)
        if fold is None:
            return
        yield fold
        longest = max(longest, time.monotonic() - began)


def _families(config: CalibrationConfig, problem: Problem, fit: Fit) -> Families:
    """Return what is left out in turn.

    Raises:
        ConfigError: The bags do not allow what was asked for, or the time does not.
    """
    if fit.window is not None:
        return {}
    found = families_of(config.validation.leave_out, training_bags(problem))
    if found and fit.solution.status == 'time':
        raise ConfigError(
            'No part of the data was left out in turn: the limit of time was reached.'
        )
    return found


def check_families(config: CalibrationConfig, problem: Problem) -> None:
    """Check, before any work, that what is to be left out fits the bags.

    Raises:
        ConfigError: It does not.
    """
    families_of(config.validation.leave_out, training_bags(problem))


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


def _named_families(chosen: Mapping[str, Sequence[str]], bags: Families) -> Families:
    owner: dict[str, str] = {}
    for family, patterns in chosen.items():
        for pattern in patterns:
            matches = fnmatch.filter(bags, pattern)
            if not matches:
                hint = nearest(pattern, list(bags))
                raise ConfigError(
                    f'No training bag matches {pattern!r} in leave_out of validation; {hint}.'
                )
            for bag in matches:
                if owner.setdefault(bag, family) != family:
                    raise ConfigError(
                        f'Bag {bag!r} is in two families of leave_out, {owner[bag]!r} and '
                        f'{family!r}; expected one.'
                    )
    found = {
        family: tuple(s for bag in bags if owner.get(bag) == family for s in bags[bag])
        for family in chosen
    }
    for family in chosen:
        if all(owner.get(bag) == family for bag in bags):
            raise ConfigError(
                f'Family {family!r} of leave_out holds all training bags: none is left to fit.'
            )
    return found


def leave_out(
    spec: mujoco.MjSpec,
    sequences: Sequence[Trajectory],
    families: Families,
    fit: Fit,
    solver: SolverConfig,
    *,
    noise: Mapping[str, float] | None = None,
    mask: Mask | None = None,
    cancel: threading.Event | None = None,
) -> Iterator[Fold]:
    """Fit to all sequences but those of one family at a time, and judge each fit on that family.

    Each fit has the weights of the full one and starts one Gauss-Newton step from its end: that
    step is known from its Jacobian without any simulation. What nothing but the family says
    something about has no value in that fold, and is predicted with at its nominal value.

    Args:
        spec: The nominal model.
        sequences: The training data, in the order of the fit.
        families: Name to the sequences that are held out together.
        fit: The fit to all of them.
        solver: The loss of the fit, and simulation threads.
        noise: In which units the errors are; the fit's own unless given.
        mask: Which samples count for the errors; by default all.
        cancel: Ends it when it is set.

    Raises:
        CancelledError: ``cancel`` was set.
    """
    if not families:
        return
    noise = fit.noise if noise is None else noise
    families = {name: tuple(fit.as_timed(own)) for name, own in families.items()}
    held_out = [s for own in families.values() for s in own]
    nominal = Predictor(spec, threads=solver.threads, drives=fit.drives)
    before = iter(residuals_of(nominal, held_out, noise, mask))
    arrived = fit.as_fitted(sequences)
    refits = _Refits(spec, arrived, fit, solver)
    defaults = np.array([parameter.nominal for parameter in fit.parameters])
    for name, own in families.items():
        absent = {sequence.name for sequence in own}
        rest = [sequence for sequence in arrived if sequence.name not in absent]
        values = refits.without(absent, rest, cancel)
        known = np.where(np.isnan(values), defaults, values)
        refitted = nominal._replace(parameters=fit.parameters, values=known)
        after = residuals_of(refitted, own, noise, mask)
        yield Fold(
            name=name,
            before=rms([next(before) for _ in own]),
            after=rms(after),
            values=tuple(values.tolist()),
        )


class _Refits:
    """Fits to parts of the data of a fit, each started near its end."""

    def __init__(
        self, spec: mujoco.MjSpec, sequences: Sequence[Trajectory], fit: Fit, solver: SolverConfig
    ) -> None:
        self._spec, self._fit, self._solver = spec, fit, solver
        self._jacobian = fit.solution.jacobian
        with make_simulator(spec, fit.unknowns, sequences, 1, drives=fit.drives) as simulator:
            whole = Residuals(simulator, fit.noise, memory=fit.memory)
        self._rows = {s.name: whole.rows(i) for i, s in enumerate(sequences)}

    def without(
        self, absent: set[str], rest: list[Trajectory], cancel: threading.Event | None
    ) -> NDArray[np.float64]:
        """Return the (p,) values for the other sequences; NaN where they say nothing."""
        fit = self._fit
        kept = self._excited(absent)
        start = np.clip(
            fit.values + self._step(kept, absent),
            [unknown.min_value for unknown in fit.unknowns],
            [unknown.max_value for unknown in fit.unknowns],
        )
        unknowns = [u for u, keep in zip(fit.unknowns, kept, strict=True) if keep]
        memory = fit.memory
        if memory is not None and not set(memory.names) <= {u.name for u in unknowns}:
            memory = None
        found = np.full(len(fit.values), np.nan)
        if unknowns:
            with make_simulator(
                self._spec, unknowns, rest, self._solver.threads, drives=fit.drives
            ) as simulator:
                residuals = Residuals(simulator, fit.noise, memory=memory)
                try:
                    solution = self._solved(residuals, start[kept], cancel)
                except CancelledError:
                    raise
                except FitError:  # the step leads to where every simulation is unstable
                    solution = self._solved(residuals, fit.values[kept], cancel)
                found[kept] = solution.x
        return found[: len(fit.parameters)]

    def _solved(
        self,
        residuals: Residuals,
        start: NDArray[np.float64],
        cancel: threading.Event | None,
    ) -> Solution:
        return solve(
            residuals,
            start,
            settings=SolverSettings(self._solver.loss, _FOLD_ITERATIONS, rough=True),
            tolerance=_TOLERANCE,
            cancel=cancel,
        )

    def _excited(self, absent: set[str]) -> NDArray[np.bool_]:
        """Return (p,) whether what is left says anything about an unknown."""
        left = np.ones(len(self._jacobian), dtype=bool)
        for name in absent:
            left[self._rows[name]] = False
        lost = [
            all(t.role is Acting.SEQUENCE and t.name in absent for t in unknown.targets)
            for unknown in self._fit.unknowns
        ]
        return np.asarray(np.any(self._jacobian[left] != 0, axis=0) & ~np.array(lost, dtype=bool))

    def _step(self, kept: NDArray[np.bool_], absent: set[str]) -> NDArray[np.float64]:
        """Return the (p,) Gauss-Newton step of the data that are left, from the full fit.

        The gradient of all data is zero, so that of the data left is minus that of those absent.
        """
        weight = np.sqrt(rho(self._fit.solution.residual, self._solver.loss)[1])
        jacobian = self._jacobian[:, kept] * weight[:, None]
        scale = np.linalg.norm(jacobian, axis=0)
        jacobian = jacobian / scale
        places = [np.arange(*self._rows[name].indices(len(weight))) for name in absent]
        rows = np.concatenate(places)
        residual = (weight * self._fit.solution.residual)[rows]
        curvature = jacobian.T @ jacobian - jacobian[rows].T @ jacobian[rows]
        inverse = np.linalg.pinv(curvature, rcond=_BLIND, hermitian=True)
        step = np.zeros(len(kept))
        step[kept] = inverse @ (jacobian[rows].T @ residual) / scale
        return step


def disagreements(fit: Fit, folds: Sequence[Fold]) -> Iterator[str]:
    """Say where bags contradict each other or the intervals, a sentence each.

    If all bags came from the model and the intervals were right, the jackknife variance (K - 1)/K
    Σ (θ_k - mean)² of K folds (Tukey 1958) would have the interval's variance as its mean, and
    K - 1 times their ratio a chi-squared distribution with K - 1 degrees of freedom.

    Args:
        fit: The fit to all bags.
        folds: The fits without some of them.
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
    ratios = jackknife_ratios(fit, folds)
    limit = scipy.special.chdtri(count - 1, _FALSE_ALARM / max(len(ratios), 1)) / (count - 1)
    far = [j for j in np.argsort(-np.nan_to_num(ratios)) if ratios[j] ** 2 > limit]
    if far:
        moved = np.abs(np.array([fold.values for fold in folds]) - fit.solution.x)
        named = ', '.join(
            f'{fit.parameters[j].name} {ratios[j]:.2g} times, most without '
            f'{folds[int(np.argmax(moved[:, j]))].name!r}'
            for j in far[:_NAMED]
        )
        more = f' (and {len(far) - _NAMED} more)' if len(far) > _NAMED else ''
        yield (
            'Between fits without some of the bags parameters move by much more than their '
            f'intervals say: {named}{more}; the bags do not agree on one value, so the model '
            'lacks something or the intervals are too narrow.'
        )


def jackknife_ratios(fit: Fit, folds: Sequence[Fold]) -> NDArray[np.float64]:
    """Return (p,) jackknife standard errors over those of the intervals.

    NaN where there is no interval, a value is at its bound, or a fold does not determine it.
    """
    count, size = len(folds), len(fit.parameters)
    values = np.array([fold.values for fold in folds])
    spread = np.sqrt((count - 1) * np.var(values, axis=0))
    error = np.sqrt(np.diag(fit.inference.covariance)[:size])
    for j, interval in enumerate(fit.intervals):
        if interval.verdict_kind is VerdictKind.AT_BOUND:
            error[j] = np.nan
    with np.errstate(divide='ignore', invalid='ignore'):
        return np.asarray(np.where(error > 0, spread / error, np.nan))


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

    Args:
        problem: The nominal model and the sequences of both roles.
        fitted: What was found.
        noise: Sensor name to standard deviation.
        seconds: The horizons.
        observer: Is told how many of the models are done: nominal, fitted, and joints that coast.

    Returns:
        A point for each role and horizon that the sequences have room for; none where none is
        asked for, or the
        position of a joint is not measured, so that the robot cannot be put where it was.
    """
    model = problem.model
    sequences = [sequence for role in ROLES for sequence in problem.sequences(role)]
    if (
        not seconds
        or not sequences
        or not all(_knows_state(model, sequence) for sequence in sequences)
    ):
        return ()
    starts = [
        start
        for role in ROLES
        for length in sorted(set(seconds))
        for start in _starts(role, problem.sequences(role), length)
    ]
    nominal = fitted._replace(model=model, parameters=(), values=None)
    predictors = (nominal, fitted, None)
    observer = observer or Nobody()
    observer.stage('predicting ahead from measured states')
    states: dict[tuple[str, float], InitialState] = {}
    pieces = [_piece(model, start, number, states) for number, start in enumerate(starts)]
    every = [
        _errors(model, starts, pieces, predictor, noise)
        for predictor in counted(observer, predictors, len(predictors))
    ]
    points = []
    for role, length in dict.fromkeys((start.role, start.seconds) for start in starts):
        own_places = [i for i, s in enumerate(starts) if (s.role, s.seconds) == (role, length)]
        before, after, coasting = ([each[i] for i in own_places] for each in every)
        old, new = rms(before), rms(after)
        joints = []
        for sensor in sorted({name for each in coasting for name in each}):
            errors = (
                noise[sensor] * rms([{sensor: own[sensor]} for own in each if sensor in own])
                for each in (before, after, coasting)
            )
            names = dict(zip(('before', 'after', 'coasting'), errors, strict=True))
            joints.append(HorizonJoint(sensor=sensor, unit=sensor_unit(model, sensor), **names))
        if np.isfinite(new):
            points.append(
                HorizonPoint(seconds=length, role=role, before=old, after=new, joints=tuple(joints))
            )
    return tuple(points)


def _knows_state(model: mujoco.MjModel, sequence: Trajectory) -> bool:
    """Whether the position of every joint is measured."""
    if not np.isin(model.jnt_type, SCALAR_JOINTS).all():
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
    pieces: list[Trajectory],
    predictor: Predictor | None,
    noise: Mapping[str, float],
) -> list[dict[str, NDArray[np.float64]]]:
    """Return the residuals at the ends of predictions; without a predictor, joints coast."""
    lengths = {piece.name: start.seconds for start, piece in zip(starts, pieces, strict=True)}

    def late(piece: Trajectory, series: TimeSeries) -> NDArray[np.bool_]:
        return np.asarray(series.times >= (1 - _LAST) * lengths[piece.name])

    if predictor is None:
        return [_coasting(model, piece, noise, late) for piece in pieces]
    if model.na:
        activations = _activations(model, starts, predictor)
        pieces = [
            dataclasses.replace(piece, initial_act=act)
            for piece, act in zip(pieces, activations, strict=True)
        ]
    return residuals_of(predictor, pieces, noise, late)


def _coasting(
    model: mujoco.MjModel, piece: Trajectory, noise: Mapping[str, float], mask: Mask
) -> dict[str, NDArray[np.float64]]:
    """Return residuals of positions, in units of the noise, of joints that keep their velocity."""
    found: dict[str, NDArray[np.float64]] = {}
    for series in piece.measurements:
        rows = mask(piece, series)
        for name, (kind, (column, *_)) in series.signal_mapping.items():
            if kind is not SignalType.MjSensor or name not in noise:
                continue
            sensor = model.sensor(name)
            if sensor.type[0] != mujoco.mjtSensor.mjSENS_JOINTPOS:
                continue
            joint = int(sensor.objid[0])
            start = piece.initial_qpos[model.jnt_qposadr[joint]]
            moved = piece.initial_qvel[model.jnt_dofadr[joint]] * series.times
            residual = ((start + moved - series.data[:, column]) / noise[name])[rows]
            found[name] = residual[np.isfinite(residual)]
    return found


def _activations(
    model: mujoco.MjModel, starts: list[_Start], predictor: Predictor
) -> list[NDArray[np.float64]]:
    """Return the activation at each start, as predicted from the start of its sequence.

    Activations depend on commands, hardly on the state, so that they do not drift.
    """
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
    predictions = predictor.predict(asked)
    found = {}
    for sequence, prediction in zip(asked, predictions, strict=True):
        rows = zip(sequence.measurements[0].times, prediction.channels[0][0], strict=True)
        for begin, row in rows:
            act = np.zeros(model.na)
            act[order] = row
            found[sequence.name, float(begin)] = act
    return [found[start.sequence.name, start.begin] for start in starts]


def _piece(
    model: mujoco.MjModel,
    start: _Start,
    number: int,
    states: dict[tuple[str, float], InitialState],
) -> Trajectory:
    """Cut what a prediction needs out of a sequence; keep the states, where several may begin."""
    sequence, begin, end = start.sequence, start.begin, start.begin + start.seconds
    qpos, qvel = sequence.initial_qpos, sequence.initial_qvel
    if begin:
        if (sequence.name, begin) not in states:
            states[sequence.name, begin] = initial_state(model, sequence.measurements, begin)
        qpos, qvel, _ = states[sequence.name, begin]
    measurements = []
    for series in sequence.measurements:
        first = int(np.searchsorted(series.times, begin))
        last = int(np.searchsorted(series.times, end + _ROUNDING, side='right'))
        if first < last:
            measurements.append(_cut(series, first, last, begin))
    commands = []
    for series in sequence.commands:
        first = max(int(np.searchsorted(series.times, begin - _AROUND, side='right')) - 1, 0)
        # What is interpolated goes on to the sample after the last one.
        last = int(np.searchsorted(series.times, end + _AROUND, side='right')) + 1
        commands.append(_cut(series, first, last, begin))
    return dataclasses.replace(
        sequence,
        name=f'{sequence.name} start {number}',
        origin_ns=sequence.origin_ns + round(1e9 * begin),
        initial_qpos=qpos,
        initial_qvel=qvel,
        commands=tuple(commands),
        measurements=tuple(measurements),
    )


def _cut(series: TimeSeries, first: int, last: int, begin: float) -> TimeSeries:
    """Return rows from the first to before the last, stamped from when a prediction begins."""
    times, data = series.times[first:last] - begin, series.data[first:last]
    return TimeSeries(times, data, series.signal_mapping)


def fit_windows(
    problem: Problem,
    fit: Fit,
    seconds: Sequence[float],
    solver: SolverConfig,
    cancel: threading.Event | None = None,
    observer: Observer | None = None,
) -> tuple[WindowFit, ...]:
    """Fit the parameters to windows of several lengths, the last being whole sequences.

    The state at the start of each window is unknown besides the parameters, so that its errors
    widen the intervals instead of bending the values. Long predictions gather what the model
    lacks; short ones say little about slow effects. Values that drift with the length say that
    the model lacks something.

    Args:
        problem: The nominal model and the training data.
        fit: The fit to whole sequences, from which each starts.
        seconds: Lengths of windows; those that no sequence has room for are left out.
        solver: The loss of the fit, and simulation threads.
        cancel: Ends it when it is set.
        observer: Is told how many lengths are done.

    Raises:
        FitError: The position of a joint is not measured, so that windows have no start.
        CancelledError: ``cancel`` was set.
    """
    if not seconds:
        return ()
    spec, threads, count = problem.spec, solver.threads, len(fit.parameters)
    sequences = fit.as_arrived(problem.sequences('train'), offsets=True)
    found = []
    with make_simulator(spec, fit.parameters, sequences, threads, drives=fit.drives) as whole:
        reasons = {run.sequence.name: unmeasured(whole.model, [run]) for run in whole.runs}
        known = [sequence for sequence in sequences if reasons[sequence.name] is None]
        if not known:
            reason = next(iter(reasons.values()))
            raise FitError(
                f'Windows of validation need a measured state to start from, but {reason}.'
            )
        cutter = Cutter(Residuals(whole.of(known), fit.noise))
        longest = cutter.longest
        lengths = sorted(set(seconds))
        for length in counted(observer or Nobody(), lengths, len(lengths)):
            windows = cutter.cut(length) if length < longest else None
            if windows is None:
                continue
            with make_simulator(
                spec, windows.unknowns, windows.sequences, threads, drives=fit.drives
            ) as part:
                residuals = Residuals(part, fit.noise)
                start = np.array([unknown.nominal for unknown in windows.unknowns])
                start[:count] = fit.solution.x
                solution = solve(
                    residuals,
                    start,
                    settings=SolverSettings(solver.loss, _WINDOW_ITERATIONS, rough=True),
                    tolerance=_TOLERANCE,
                    cancel=cancel,
                )
                inference = infer(
                    solution,
                    solution.jacobian,
                    residuals.unknowns,
                    residuals.samples,
                    loss=solver.loss,
                )
            half = _half(inference.covariance, count)
            found.append(
                WindowFit(
                    seconds=length,
                    values=tuple(solution.x[:count].tolist()),
                    half_widths=tuple(half.tolist()),
                )
            )
    full = WindowFit(
        seconds=longest,
        values=tuple(fit.solution.x.tolist()),
        half_widths=tuple(_half(fit.inference.covariance, count).tolist()),
    )
    return (*found, full) if found else ()


def _half(covariance: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return (p,) half-widths of normal 95 % intervals."""
    return np.asarray(1.96 * np.sqrt(np.diag(covariance)[:count]))


def drifts(fit: Fit, windows: Sequence[WindowFit]) -> Iterator[str]:
    """Say which parameters depend on the length of the windows, in a sentence.

    Args:
        fit: The fit to whole sequences.
        windows: The fits to windows, the last being that to whole sequences.
    """
    moved = []
    *short, full = windows
    # Of so many comparisons, the farthest is so far by chance no more often than a single one is.
    compared = max(len(short) * len(fit.parameters), 1)
    apart = -float(scipy.special.ndtri(_FALSE_ALARM / compared / 2))
    for j, parameter in enumerate(fit.parameters):
        for window in short:
            error = math.hypot(window.half_widths[j], full.half_widths[j]) / 1.96
            if abs(window.values[j] - full.values[j]) > apart * error:
                moved.append(
                    f'{parameter.name} {window.values[j]:.3g} with {window.seconds:g} s, '
                    f'{full.values[j]:.3g} with whole sequences'
                )
                break
    if moved:
        more = f' (and {len(moved) - _NAMED} more)' if len(moved) > _NAMED else ''
        yield (
            'Values depend on the length of the windows that they are fitted to: '
            f'{"; ".join(moved[:_NAMED])}{more}; the model lacks something.'
        )

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a result may be used: conditions that each say what they saw."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Sized
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from sysid_ros.alignment.health import FindingKind
from sysid_ros.config import GateConfig
from sysid_ros.config.calibration import Role, VerdictKind
from sysid_ros.errors import some
from sysid_ros.estimation.noise import MAD_OF_NORMAL
from sysid_ros.results.diagnostics import MOTION, moving
from sysid_ros.results.headline import headline
from sysid_ros.results.refutations import (
    MOST_SHARE,
    NEAR,
    not_converged,
    of_times,
    refuted,
    wrong_times,
)
from sysid_ros.results.reservations import reservations
from sysid_ros.results.result import (
    SHORT_HORIZON,
    CalibrationResult,
    EstimatorKind,
    GateCheck,
    ParameterResult,
    SensorError,
    SolverStatus,
    Standstill,
    UnjudgedResult,
)

#: What is there or is not: the optimum may be none of it.
_MAY_BE_ABSENT = frozenset({'armature', 'damping', 'frictionloss', 'stiffness', 'delay', 'kv'})
#: As much of a sensor has to be unexplained before it is compared with others.
_UNEXPLAINED = 0.2
#: Correlation from which on two curves are the same motion.
_SAME_MOTION = 0.8
#: Sensors of a kind from which on one of them can stand out.
_FEWEST_ALIKE = 3
#: A sensor that never changes says nothing new of a model that moves by less than this, in its SI
#: unit, or by less than so many times the noise of the others of its kind.
_STANDS_STILL = 1e-3
_STILL_NOISE = 5.0
#: Sequences from which on their errors say how far those of sequences of one robot are apart.
_FEWEST_SEQUENCES = 10
#: Neither spread nor a hard motion excuses an error of more than e to this power, 20 times the
#: others'.
_MOST_LOG = 3.0
#: A motion is hard, and not another robot's, where the nominal model's error is large in about the
#: same proportion: the fit left at most the first part of it, and so many times what is usual.
_FELL, _AS_USUAL = 0.5, 1.5
#: So many more are named of what is wrong in several places.
_NAMED = 5


class Condition(StrEnum):
    """Names of the conditions."""

    BETTER = 'better than nominal'
    CONVERGED = 'converged'
    TIMES = 'times'
    STABLE = 'stable'
    LIVE = 'live sensors'
    MOVING = 'no stuck position'
    EXPLAINED = 'explained'
    BALANCED = 'balanced'
    CONSISTENT = 'consistent'
    NO_SENSOR_WORSE = 'no sensor worse'
    LEFT_OUT = 'left out in turn'
    MOTION = 'motion'
    BOUNDS = 'inside bounds'
    VERDICTS = 'verdicts'


#: Where these are not met, no value is what the robot has. That predictions did not improve says
#: nothing against values, and the others are about single parameters.
_REFUTING = frozenset(Condition) - {Condition.BETTER, Condition.BOUNDS, Condition.VERDICTS}


class Suspicion(StrEnum):
    """What may be wrong with the mapping of a sensor."""

    SIGN = 'a wrong sign'
    SWAPPED = 'swapped joints'


class _Figures(NamedTuple):
    """The number that a condition looks at, its limit, and the unit of both."""

    measured: float = math.nan
    limit: float = math.nan
    unit: str = ''
    at_least: bool = False


_NO_NUMBER = _Figures()


def judge(result: UnjudgedResult, config: GateConfig) -> CalibrationResult:
    """Return the result with its conditions, and whether all of them are met."""
    role = result.judged_role
    errors = [error for error in result.errors if error.role == role]
    unstable = ', '.join(result.diverged)
    checks = [
        _improvement(result, role, config),
        _convergence(result, config),
        _times(result),
        _check(
            Condition.STABLE,
            f'The fitted model becomes unstable in {unstable}.' if unstable else '',
            'The fitted model is stable in all sequences.',
            _count(result.diverged, 'sequences'),
        ),
        _dead(result, errors),
        _stuck(result, config),
        _explained(moving(errors), config),
        _balanced(moving(errors), config),
        _consistent(result, config),
        _no_sensor_worse(result, errors, config),
        *([_left_out_in_turn(result, config)] if result.folds else []),
    ]
    if result.solver.estimator is EstimatorKind.TORQUE:
        checks.append(_motion(result, role, config))
    refuting = [check.detail for check in checks if check.name in _REFUTING and not check.passed]
    result = refuted(result, refuting)
    checks += [_bounds(result, config), _verdicts(result, config)]
    failed = [check for check in checks if not check.passed]
    return CalibrationResult(
        **{name: getattr(result, name) for name in UnjudgedResult.model_fields},
        gate=tuple(checks),
        accepted=not failed,
        acceptance=' '.join(check.detail for check in failed or checks[:1]),
        reservations=reservations(result),
    )


def _improvement(result: UnjudgedResult, role: Role, config: GateConfig) -> GateCheck:
    """Compare with the nominal model, on stretches of time that are paired."""
    head = headline(result)
    found = f'{head.figures}; held-out over training error {head.growth:.2f}'
    if role == 'train':
        found = head.figures
    ratio = head.after / head.before if head.before else math.nan
    compared = _Figures(ratio, 1 - config.margin, 'of nominal')
    wrong = ''
    if not head.after < head.before:
        wrong = f'{head.name} did not fall: {found}.'
    elif head.after > (1 - config.margin) * head.before:
        wrong = f'{head.name} fell by less than {100 * config.margin:g} %: {found}.'
    else:
        for test in result.diagnostics.improvements:
            if not wrong and test.role == role and test.p_value > config.significance:
                chance = f'p = {test.p_value:.2g}'
                wrong = f'{head.name} fell, but no more than by chance ({chance}): {found}.'
                compared = _Figures(test.p_value, config.significance, 'probability')
    return _check(Condition.BETTER, wrong, f'{head.name} fell: {found}.', compared)


def _check(name: Condition, wrong: str, right: str, figures: _Figures = _NO_NUMBER) -> GateCheck:
    """Return a condition that is not met where something is wrong; else what is right is said."""
    return GateCheck(name=name, passed=not wrong, detail=wrong or right, **figures._asdict())


def _count(found: Sized, what: str) -> _Figures:
    """Return that of so many things there may be none."""
    return _Figures(len(found), 0, what)


def _more(names: Iterable[str]) -> str:
    """Return a clause on where else the same is wrong; empty where it is not."""
    others = list(dict.fromkeys(names))
    shown = others[:_NAMED]
    if len(others) > len(shown):
        shown.append(f'{len(others) - len(shown)} more')
    return f'; the same of {", ".join(shown)}' if shown else ''


def _convergence(result: UnjudgedResult, config: GateConfig) -> GateCheck:
    """Look whether the fit ended at its optimum."""
    solver = result.solver
    wrong = not_converged(solver)
    limited = solver.status in {SolverStatus.ITERATIONS, SolverStatus.TIME}
    left = _Figures(solver.left, NEAR, 'standard errors') if limited else _NO_NUMBER
    return GateCheck(
        name=Condition.CONVERGED,
        passed=not (wrong and config.converged),
        detail=wrong or solver.message,
        **left._asdict(),
    )


def _times(result: UnjudgedResult) -> GateCheck:
    """Look whether delays are identified beside clocks or delays that the model lacks."""
    title, share = wrong_times(result)
    delays = [own.name for own in result.parameters if of_times(own)]
    wrong = ''
    if delays and share > MOST_SHARE:
        wrong = (
            f'Residuals follow {title}, beside which {some(delays)} cannot be right: make that a '
            'parameter, too.'
        )
    right = 'Beside delays that are parameters, no other delay or clock explains what is left.'
    figures = _Figures(100 * share, 100 * MOST_SHARE, '% of the remaining cost')
    return _check(Condition.TIMES, wrong, right, figures if delays else _NO_NUMBER)


def _dead(result: UnjudgedResult, errors: Sequence[SensorError]) -> GateCheck:
    """Look at sensors that never change although the model says that they should."""
    stuck: dict[str, list[str]] = {}
    for finding in result.health:
        if finding.kind is FindingKind.STUCK:
            stuck.setdefault(finding.detail, []).append(finding.bag)
    found = [f'{detail} in {", ".join(bags)}' for detail, bags in stuck.items()]
    for error in errors:
        if error.measured_deviation != 0 or error.unit not in MOTION:
            continue
        alike = [scale.sigma for scale in result.noise if scale.unit == error.unit]
        limit = max(_STANDS_STILL, _STILL_NOISE * max(alike, default=0.0))
        if error.predicted_deviation > limit:
            found.append(
                f'{error.sensor} never changes, and should by '
                f'{error.predicted_deviation:.2g} {error.unit}'
            )
    wrong = ''
    if found:
        wrong = f'{"; ".join(found)}: a stuck encoder, a locked joint or a wrong channel.'
    right = 'All positions and velocities that should change do.'
    return _check(Condition.LIVE, wrong, right, _count(found, 'sensors'))


def _stuck(result: UnjudgedResult, config: GateConfig) -> GateCheck:
    """Look for positions that stand still for a while in which they should move."""
    limits = [
        (item, item.least_movement(config.stuck_share)) for item in result.diagnostics.standstills
    ]
    found = [item for item, limit in limits if item.predicted_movement > limit]
    found.sort(key=lambda item: item.predicted_movement, reverse=True)
    wrong = ''
    if found:
        worst = found[0]
        wrong = (
            f'{worst.sensor} stands still for {worst.seconds:.2g} s in {worst.sequence} while it '
            f'should move by {worst.predicted_movement:.2g} {worst.unit}: a stuck encoder or joint'
            f'{_more(item.sensor for item in found[1:])}.'
        )
    right = 'No position stands still while it should move.'
    return _check(Condition.MOVING, wrong, right, _stillest(limits, found))


def _stillest(limits: Sequence[tuple[Standstill, float]], found: Sequence[Standstill]) -> _Figures:
    """Return the movement that is missing most: of what is wrong, else of what is nearest to it."""
    shown = [(item, limit) for item, limit in limits if not found or item is found[0]]
    if not shown:
        return _NO_NUMBER
    item, limit = max(shown, key=lambda pair: pair[0].predicted_movement - pair[1])
    return _Figures(item.predicted_movement, limit, item.unit)


def _explained(errors: Sequence[SensorError], config: GateConfig) -> GateCheck:
    """Ask every position and velocity that moves to be predicted better than by its mean."""
    if not errors:
        return _check(Condition.EXPLAINED, '', 'No position or velocity moves.')
    worst, *others = sorted(errors, key=lambda error: error.explained)
    part, wrong = worst.explained, ''
    of = f'of the variance of {worst.sensor} is predicted'
    if not part >= config.least_explained:
        only = 'None' if part <= 0 else f'Only {100 * part:.3g} %'
        bad = [error.sensor for error in others if not error.explained >= config.least_explained]
        wrong = f'{only} {of}{_suspicion(worst)}{_more(bad)}.'
    compared = _Figures(100 * part, 100 * config.least_explained, '%', at_least=True)
    return _check(Condition.EXPLAINED, wrong, f'At least {100 * part:.3g} % {of}.', compared)


def suspicion(error: SensorError) -> Suspicion | None:
    """Return what may be wrong with the mapping of a sensor, or nothing.

    The nominal model tells: what it predicts may be measured with the other sign, or by another
    sensor.
    """
    like = error.likeness
    if like is None:
        return None
    if like.own < -_SAME_MOTION:
        return Suspicion.SIGN
    if like.best != error.sensor and abs(like.correlation) > max(_SAME_MOTION, like.own):
        return Suspicion.SWAPPED
    return None


def _suspicion(error: SensorError) -> str:
    """Return a clause on what may be wrong with a sensor, or nothing."""
    found = suspicion(error)
    if found is Suspicion.SIGN:
        return f': it runs against the model, as with {found}'
    if found is Suspicion.SWAPPED and error.likeness is not None:
        return f': {error.likeness.best} moves as it should, as with {found}'
    return ''


def _balanced(errors: Sequence[SensorError], config: GateConfig) -> GateCheck:
    """Look for a sensor that the model explains far worse than the others of its kind."""
    wrong, nearest = [], _NO_NUMBER
    missed = {error.sensor: math.sqrt(max(1 - error.explained, 0.0)) for error in errors}
    for error in errors:
        alike = [missed[other.sensor] for other in errors if other.unit == error.unit]
        part, usual = missed[error.sensor], float(np.median(alike))
        limit = max(config.imbalance * usual, _UNEXPLAINED)
        if len(alike) >= _FEWEST_ALIKE and not part / limit < nearest.measured / nearest.limit:
            nearest = _Figures(100 * part, 100 * limit, '% not explained')
        if len(alike) >= _FEWEST_ALIKE and part > limit:
            wrong.append(
                f'{100 * part:.2g} % of the movement of {error.sensor} is not explained, of the '
                f'others {100 * usual:.2g} %{_suspicion(error)}.'
            )
    right = 'No sensor is explained far worse than its like.'
    return _check(Condition.BALANCED, ' '.join(wrong), right, nearest)


def _consistent(result: UnjudgedResult, config: GateConfig) -> GateCheck:
    """Look for recordings that are not of the robot that the others are of."""
    sequences = sorted(result.diagnostics.sequences, key=lambda item: item.error, reverse=True)
    trained = [item.error for item in sequences if item.role == 'train']
    usual = float(np.median(trained)) if trained else math.nan
    growth = max(config.sequence_growth, _by_chance(trained, len(sequences), config))
    shares = [s.error / s.before for s in sequences if s.role == 'train' and s.before > 0]
    share = min(_FELL, _AS_USUAL * float(np.median(shares)) if shares else 0.0)
    most = math.exp(_MOST_LOG) * usual
    judged = [
        item
        for item in sequences
        if item.error <= growth * usual
        or not (item.error <= share * item.before and item.error <= most)
    ]
    wrong = ''
    if far := [item for item in judged if item.error > growth * usual]:
        wrong = (
            f'The error in {far[0].sequence} is {far[0].error / usual:.3g} times that of training '
            'sequences: another robot, load or mapping, or motion that training does not cover'
            f'{_more(item.sequence for item in far[1:])}.'
        )
    right = 'All sequences are predicted about equally well.'
    worst = judged[0].error / usual if judged else math.nan
    return _check(Condition.CONSISTENT, wrong, right, _Figures(worst, growth, 'times the usual'))


def _by_chance(trained: Sequence[float], count: int, config: GateConfig) -> float:
    """Return how many times their median the worst of many errors is by chance alone.

    Of many sequences, as of recordings that are cut into windows, one is always the worst. Errors
    are compared by their logarithms, whose spread is told by the median distance from the median:
    a few sequences of another robot hardly change it. The level is divided by the number of
    sequences (Bonferroni).
    """
    if len(trained) < _FEWEST_SEQUENCES:
        return 0.0
    logs = np.log(np.maximum(trained, np.finfo(float).tiny))
    spread = float(np.median(np.abs(logs - np.median(logs)))) / MAD_OF_NORMAL
    quantile = float(stdtrit(len(trained) - 1, 1 - config.significance / count))
    return math.exp(min(spread * quantile, _MOST_LOG))


def _no_sensor_worse(
    result: UnjudgedResult, errors: Sequence[SensorError], config: GateConfig
) -> GateCheck:
    noise = {scale.sensor: scale.sigma for scale in result.noise}
    limits = [
        (error, max((1 + config.sensor_growth) * error.before, error.before + sigma))
        for error in errors
        if (sigma := noise.get(error.sensor.split('[')[0])) is not None
    ]
    worse = [error for error, limit in limits if error.after > limit]
    wrong, nearest = '', _NO_NUMBER
    if limits:
        error, limit = max(limits, key=lambda pair: pair[0].after / pair[1])
        nearest = _Figures(error.after, limit, error.unit)
    if worse:
        first = worse[0]
        wrong = (
            f'The error of {first.sensor} grew, {first.before:.3g} to {first.after:.3g} '
            f'{first.unit}, although that of all together fell'
            f'{_more(error.sensor for error in worse[1:])}.'
        )
    right = "No sensor's error grew beyond its noise."
    return _check(Condition.NO_SENSOR_WORSE, wrong, right, nearest)


def _motion(result: UnjudgedResult, role: Role, config: GateConfig) -> GateCheck:
    """Ask the motion from measured states to be predicted no worse than by the nominal model."""
    points = [p for p in result.horizon if p.role == role and p.seconds <= SHORT_HORIZON]
    wrong, right = '', 'Nothing says how well the motion is predicted from measured states.'
    compared = _NO_NUMBER
    if points:
        worst = max(points, key=lambda point: point.after / point.before)
        figures = f'{worst.before:.3g} to {worst.after:.3g} times the noise'
        compared = _Figures(worst.after / worst.before, 1 + config.sensor_growth, 'of nominal')
        if worst.after > (1 + config.sensor_growth) * worst.before:
            wrong = (
                f'The motion within {worst.seconds:g} s after measured states is predicted worse '
                f'than by the nominal model, {figures}, although forces are explained better.'
            )
        right = f'The motion within {worst.seconds:g} s is predicted no worse: {figures}.'
    return _check(Condition.MOTION, wrong, right, compared)


def _left_out_in_turn(result: UnjudgedResult, config: GateConfig) -> GateCheck:
    worse = [
        fold.name for fold in result.folds if fold.after > (1 + config.sensor_growth) * fold.before
    ]
    wrong, names = '', ', '.join(worse)
    if worse:
        wrong = f'A fit to the other bags predicts {names} worse than the nominal model does.'
    right = 'Each part of the training data is predicted by a fit to the others.'
    most = max(fold.after / fold.before for fold in result.folds)
    compared = _Figures(most, 1 + config.sensor_growth, 'of nominal')
    return _check(Condition.LEFT_OUT, wrong, right, compared)


def _bounds(result: UnjudgedResult, config: GateConfig) -> GateCheck:
    outer = [
        f'{parameter.name} ({parameter.value:.3g} {parameter.unit}'.rstrip() + ')'
        for parameter in result.parameters
        if parameter.verdict_kind is VerdictKind.AT_BOUND and not _is_absent(parameter)
    ]
    passed = config.outer_bounds or not outer
    detail = (
        f'The data push against the bounds of {", ".join(outer)}: widen them if physics allows, '
        'else the model lacks something.'
        if outer
        else 'The data push against no bound but natural zeros.'
    )
    return GateCheck(
        name=Condition.BOUNDS, passed=passed, detail=detail, **_count(outer, 'parameters')._asdict()
    )


def _is_absent(parameter: ParameterResult) -> bool:
    attributes = {target.rsplit('/', 1)[-1].split('[')[0] for target in parameter.targets}
    return parameter.value == 0.0 == parameter.bounds[0] and attributes <= _MAY_BE_ABSENT


def _verdicts(result: UnjudgedResult, config: GateConfig) -> GateCheck:
    bad: dict[str, list[str]] = {}
    for parameter in result.parameters:
        if parameter.verdict_kind not in config.allowed_verdicts:
            bad.setdefault(parameter.verdict, []).append(parameter.name)
    named = '; '.join(
        f'{", ".join(names)} {"is" if len(names) == 1 else "are"} {verdict}'
        for verdict, names in bad.items()
    )
    wrong = (
        f'{named}: leave it out of parameters, fix it by a prior, record motion '
        'that determines it, or allow the verdict in gate.allowed_verdicts.'
    )
    names = [name for own in bad.values() for name in own]
    right = 'All verdicts are allowed.'
    return _check(Condition.VERDICTS, wrong if bad else '', right, _count(names, 'parameters'))

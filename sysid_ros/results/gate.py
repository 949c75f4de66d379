# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a result may be used: conditions that each say what they saw."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import stdtrit

from sysid_ros.alignment.health import FindingKind
from sysid_ros.config.calibration import VerdictKind
from sysid_ros.estimation.noise import MAD_OF_NORMAL
from sysid_ros.results.diagnostics import MOTION, moving
from sysid_ros.results.reservations import reservations
from sysid_ros.results.result import (
    SHORT_HORIZON,
    CalibrationResult,
    EstimatorKind,
    GateCheck,
    SolverStatus,
    UnjudgedResult,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sysid_ros.config import GateConfig
    from sysid_ros.config.calibration import Role
    from sysid_ros.results.result import ParameterResult, SensorError

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
#: Units of positions and forces, as they are shown, and by what factor.
_PHYSICAL = (
    ('rad', 'mrad', 1e3),
    ('m', 'mm', 1e3),
    ('N·m', 'N·m', 1.0),
    ('N', 'N', 1.0),
)
#: So many more are named of what is wrong in several places.
_NAMED = 5
#: A cost that fell by less than this part in so many iterations has settled.
_LAST_ITERATIONS, _STILL_FALLS = 5, 1e-3
#: A fit that had no more time, and was nearer to the optimum than this, in standard errors, serves.
_NEAR = 1.0


def judge(result: UnjudgedResult, config: GateConfig) -> CalibrationResult:
    """Return the result with its conditions, and whether all of them are met."""
    role: Role = 'train' if math.isnan(result.held_out_before) else 'validate'
    errors = [error for error in result.errors if error.role == role]
    unstable = ', '.join(result.diverged)
    checks = [
        _improvement(result, role, config),
        _convergence(result, config),
        _check(
            'stable',
            f'The fitted model becomes unstable in {unstable}.' if unstable else '',
            'The fitted model is stable in all sequences.',
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
    on_held_out = role == 'validate'
    before = result.held_out_before if on_held_out else result.training_before
    after = result.held_out_after if on_held_out else result.training_after
    what = 'Held-out error' if on_held_out else 'Training error (nothing is held out)'
    what += result.solver.over_windows
    over = [error for error in result.errors if error.role == role]
    noise = f'{before:.3g} to {after:.3g} times the noise'
    physical = ', '.join(f'{e.before:.3g} to {e.after:.3g} {e.unit}' for e in physical_errors(over))
    figures = '; '.join([*filter(None, [physical]), noise])
    wrong = ''
    if not after < before:
        wrong = f'{what} did not fall: {figures}.'
    elif after > (1 - config.margin) * before:
        wrong = f'{what} fell by less than {100 * config.margin:g} %: {figures}.'
    else:
        for test in result.diagnostics.improvements:
            if not wrong and test.role == role and test.p_value > config.significance:
                chance = f'p = {test.p_value:.2g}'
                wrong = f'{what} fell, but no more than by chance ({chance}): {figures}.'
    return _check('better than nominal', wrong, f'{what} fell: {figures}.')


class PhysicalError(NamedTuple):
    """Root mean square error of all positions, or all forces, in a unit that people think in."""

    before: float
    after: float
    unit: str


def physical_errors(errors: Sequence[SensorError]) -> list[PhysicalError]:
    """Return errors of positions and forces before and after, in units that people think in."""
    found = []
    for unit, shown, factor in _PHYSICAL:
        own = [e for e in errors if e.unit == unit and math.isfinite(e.before + e.after)]
        count = sum(e.samples for e in own)
        if count:
            before, after = (
                factor * math.sqrt(sum(e.samples * value**2 for e, value in pairs) / count)
                for pairs in ([(e, e.before) for e in own], [(e, e.after) for e in own])
            )
            found.append(PhysicalError(before, after, shown))
    return found


def _check(name: str, wrong: str, right: str) -> GateCheck:
    """Return a condition that is not met where something is wrong; else what is right is said."""
    return GateCheck(name=name, passed=not wrong, detail=wrong or right)


def _more(names: Iterable[str]) -> str:
    """Return a clause on where else the same is wrong; empty where it is not."""
    others = list(dict.fromkeys(names))
    shown = others[:_NAMED]
    if len(others) > len(shown):
        shown.append(f'{len(others) - len(shown)} more')
    return f'; the same of {", ".join(shown)}' if shown else ''


def _convergence(result: UnjudgedResult, config: GateConfig) -> GateCheck:
    """Look whether the cost had stopped falling, if not always by the solver's own measure.

    Dry friction and held commands make real costs rough on the smallest scale, where a solver goes
    on in vain until it stalls.
    """
    solver = result.solver
    costs = [entry.cost for entry in solver.trace[-_LAST_ITERATIONS:]]
    settled = len(costs) == _LAST_ITERATIONS and max(costs) - costs[-1] <= _STILL_FALLS * costs[-1]
    near = solver.status is SolverStatus.TIME and solver.left <= _NEAR
    ended = solver.success or solver.status is SolverStatus.STALLED or settled or near
    said = solver.message.rstrip('.')
    detail = f'{said}.' if ended else f'The solver did not converge: {said}.'
    if near:
        detail = f'{said}, about {solver.left:.1g} standard errors from the optimum.'
    elif settled and solver.status in {SolverStatus.ITERATIONS, SolverStatus.TIME}:
        detail = f'{said}, but the cost hardly fell any more.'
    return GateCheck(name='converged', passed=ended or not config.converged, detail=detail)


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
    return _check('live sensors', wrong, 'All positions and velocities that should change do.')


def _stuck(result: UnjudgedResult, config: GateConfig) -> GateCheck:
    """Look for positions that stand still for a while in which they should move."""
    found = [s for s in result.diagnostics.standstills if s.is_stuck(config.stuck_share)]
    found.sort(key=lambda item: item.predicted_movement, reverse=True)
    wrong = ''
    if found:
        worst = found[0]
        wrong = (
            f'{worst.sensor} stands still for {worst.seconds:.2g} s in {worst.sequence} while it '
            f'should move by {worst.predicted_movement:.2g} {worst.unit}: a stuck encoder or joint'
            f'{_more(item.sensor for item in found[1:])}.'
        )
    return _check('no stuck position', wrong, 'No position stands still while it should move.')


def _explained(errors: Sequence[SensorError], config: GateConfig) -> GateCheck:
    """Ask every position and velocity that moves to be predicted better than by its mean."""
    if not errors:
        return _check('explained', '', 'No position or velocity moves.')
    worst, *others = sorted(errors, key=lambda error: error.explained)
    part, wrong = worst.explained, ''
    of = f'of the variance of {worst.sensor} is predicted'
    if not part >= config.least_explained:
        only = 'None' if part <= 0 else f'Only {100 * part:.3g} %'
        bad = [error.sensor for error in others if not error.explained >= config.least_explained]
        wrong = f'{only} {of}{_suspicion(worst)}{_more(bad)}.'
    return _check('explained', wrong, f'At least {100 * part:.3g} % {of}.')


def _suspicion(error: SensorError) -> str:
    """Return a clause on what may be wrong with a sensor, or nothing.

    The nominal model tells: what it predicts may be measured with the other sign, or by another
    sensor.
    """
    like = error.likeness
    if like is None:
        return ''
    if like.own < -_SAME_MOTION:
        return ': it runs against the model, as with a wrong sign'
    if like.best != error.sensor and abs(like.correlation) > max(_SAME_MOTION, like.own):
        return f': {like.best} moves as it should, as with swapped joints'
    return ''


def _balanced(errors: Sequence[SensorError], config: GateConfig) -> GateCheck:
    """Look for a sensor that the model explains far worse than the others of its kind."""
    wrong = []
    missed = {error.sensor: math.sqrt(max(1 - error.explained, 0.0)) for error in errors}
    for error in errors:
        alike = [missed[other.sensor] for other in errors if other.unit == error.unit]
        part, usual = missed[error.sensor], float(np.median(alike))
        if len(alike) >= _FEWEST_ALIKE and part > max(config.imbalance * usual, _UNEXPLAINED):
            wrong.append(
                f'{100 * part:.2g} % of the movement of {error.sensor} is not explained, of the '
                f'others {100 * usual:.2g} %{_suspicion(error)}.'
            )
    return _check('balanced', ' '.join(wrong), 'No sensor is explained far worse than its like.')


def _consistent(result: UnjudgedResult, config: GateConfig) -> GateCheck:
    """Look for recordings that are not of the robot that the others are of."""
    sequences = sorted(result.diagnostics.sequences, key=lambda item: item.error, reverse=True)
    trained = [item.error for item in sequences if item.role == 'train']
    usual = float(np.median(trained)) if trained else math.nan
    growth = max(config.sequence_growth, _by_chance(trained, len(sequences), config))
    shares = [s.error / s.before for s in sequences if s.role == 'train' and s.before > 0]
    share = min(_FELL, _AS_USUAL * float(np.median(shares)) if shares else 0.0)
    wrong = ''
    if far := [
        item
        for item in sequences
        if item.error > growth * usual
        and not (item.error <= share * item.before and item.error <= math.exp(_MOST_LOG) * usual)
    ]:
        wrong = (
            f'The error in {far[0].sequence} is {far[0].error / usual:.3g} times that of training '
            'sequences: another robot, load or mapping, or motion that training does not cover'
            f'{_more(item.sequence for item in far[1:])}.'
        )
    return _check('consistent', wrong, 'All sequences are predicted about equally well.')


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
    wrong = ''
    noise = {scale.sensor: scale.sigma for scale in result.noise}
    worse = [
        error
        for error in errors
        if (sigma := noise.get(error.sensor.split('[')[0])) is not None
        and error.after > max((1 + config.sensor_growth) * error.before, error.before + sigma)
    ]
    if worse:
        first = worse[0]
        wrong = (
            f'The error of {first.sensor} grew, {first.before:.3g} to {first.after:.3g} '
            f'{first.unit}, although that of all together fell'
            f'{_more(error.sensor for error in worse[1:])}.'
        )
    return _check('no sensor worse', wrong, "No sensor's error grew beyond its noise.")


def _motion(result: UnjudgedResult, role: Role, config: GateConfig) -> GateCheck:
    """Ask the motion from measured states to be predicted no worse than by the nominal model."""
    points = [p for p in result.horizon if p.role == role and p.seconds <= SHORT_HORIZON]
    wrong, right = '', 'Nothing says how well the motion is predicted from measured states.'
    if points:
        worst = max(points, key=lambda point: point.after / point.before)
        figures = f'{worst.before:.3g} to {worst.after:.3g} times the noise'
        if worst.after > (1 + config.sensor_growth) * worst.before:
            wrong = (
                f'The motion within {worst.seconds:g} s after measured states is predicted worse '
                f'than by the nominal model, {figures}, although forces are explained better.'
            )
        right = f'The motion within {worst.seconds:g} s is predicted no worse: {figures}.'
    return _check('motion', wrong, right)


def _left_out_in_turn(result: UnjudgedResult, config: GateConfig) -> GateCheck:
    worse = [
        fold.name for fold in result.folds if fold.after > (1 + config.sensor_growth) * fold.before
    ]
    wrong, names = '', ', '.join(worse)
    if worse:
        wrong = f'A fit to the other bags predicts {names} worse than the nominal model does.'
    right = 'Each part of the training data is predicted by a fit to the others.'
    return _check('left out in turn', wrong, right)


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
    return GateCheck(name='inside bounds', passed=passed, detail=detail)


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
    return _check('verdicts', wrong if bad else '', 'All verdicts are allowed.')

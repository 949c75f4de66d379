# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a result may be used: conditions that each say what they saw."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.results.diagnostics import Evidence
from sysid_ros.results.parts import GateCheck

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sysid_ros.config import GateConfig
    from sysid_ros.results.parts import ParameterResult
    from sysid_ros.results.result import CalibrationResult

#: What is there or is not: the optimum may be none of it.
_MAY_BE_ABSENT = frozenset({'armature', 'damping', 'frictionloss', 'stiffness', 'delay', 'kv'})
#: A sensor's movement below this part of the largest of its kind says nothing about a model.
_MOVES = 0.1
#: As much of a sensor has to be unexplained before it is compared with others.
_UNEXPLAINED = 0.2
#: Sensors of a kind from which on one of them can stand out.
_FEWEST_ALIKE = 3
#: A sensor that never changes says nothing new of a model that moves by less, in its SI unit …
_STANDS_STILL = 1e-3
#: … or by less than so many times the noise of the others of its kind.
_STILL_NOISE = 5.0
#: A cost that fell by less than this part in so many iterations has settled.
_LAST_ITERATIONS, _STILL_FALLS = 5, 1e-3


def judge(result: CalibrationResult, config: GateConfig) -> CalibrationResult:
    """Return the result with its conditions, and whether all of them are met.

    Args:
        result: What was found, judged or not.
        config: The conditions.
    """
    on_held_out = not math.isnan(result.held_out_before)
    evidence = Evidence(result, 'validate' if on_held_out else 'train')
    checks = [
        _improvement(result, evidence, config),
        _convergence(result, config),
        _stability(result),
        *_dead(result, evidence),
    ]
    # Where the motion is chaotic, errors over whole sequences say nothing.
    if result.solver.window is None:
        checks += [
            _stuck(result, config),
            _explained(evidence, config),
            _balanced(evidence, config),
            _consistent(result, config),
            _no_sensor_worse(result, evidence, config),
            *_left_out_in_turn(result, config),
        ]
    checks += [_bounds(result, config), _verdicts(result, config)]
    failed = [check for check in checks if not check.passed]
    return result.model_copy(
        update={
            'gate': tuple(checks),
            'accepted': not failed,
            'acceptance': (failed or checks)[0].detail,
        }
    )


def _improvement(result: CalibrationResult, evidence: Evidence, config: GateConfig) -> GateCheck:
    """Compare with the nominal model, on stretches of time that are paired."""
    on_held_out = evidence.role == 'validate'
    before = result.held_out_before if on_held_out else result.training_before
    after = result.held_out_after if on_held_out else result.training_after
    what = 'Held-out error' if on_held_out else 'Training error (nothing is held out)'
    if result.solver.window is not None:
        points = [
            point
            for point in result.horizon
            if point.role == evidence.role and point.seconds <= result.solver.window
        ]
        if points:
            point = max(points, key=lambda one: one.seconds)
            before, after = point.before, point.after
            what += f' of predictions over {point.seconds:g} s'
    figures = f'{before:.3g} to {after:.3g} times the noise'
    if not after < before:
        return GateCheck(
            name='better than nominal', passed=False, detail=f'{what} did not fall: {figures}.'
        )
    if after > (1 - config.margin) * before:
        detail = f'{what} fell by less than {100 * config.margin:g} %: {figures}.'
        return GateCheck(name='better than nominal', passed=False, detail=detail)
    if result.solver.window is None and result.plots:
        chance = evidence.chance()
        if chance > config.significance:
            detail = f'{what} fell, but no more than by chance (p = {chance:.2g}): {figures}.'
            return GateCheck(name='better than nominal', passed=False, detail=detail)
    return GateCheck(name='better than nominal', passed=True, detail=f'{what} fell: {figures}.')


def _convergence(result: CalibrationResult, config: GateConfig) -> GateCheck:
    """Look whether the cost had stopped falling, if not always by the solver's own measure.

    Dry friction and held commands make real costs rough on the smallest scale, where a solver goes
    on in vain until it stalls.
    """
    solver = result.solver
    costs = [entry.cost for entry in solver.trace[-_LAST_ITERATIONS:]]
    settled = len(costs) == _LAST_ITERATIONS and max(costs) - costs[-1] <= _STILL_FALLS * costs[-1]
    ended = solver.success or solver.status == 'stalled' or settled
    said = solver.message.rstrip('.')
    detail = f'{said}.' if ended else f'The solver did not converge: {said}.'
    if settled and solver.status == 'iterations':
        detail = f'{said}, but the cost hardly fell any more.'
    return GateCheck(name='converged', passed=ended or not config.converged, detail=detail)


def _stability(result: CalibrationResult) -> GateCheck:
    names = ', '.join(result.diverged)
    detail = (
        f'The fitted model becomes unstable in {names}.'
        if names
        else 'The fitted model is stable in all sequences.'
    )
    return GateCheck(name='stable', passed=not names, detail=detail)


def _dead(result: CalibrationResult, evidence: Evidence) -> Iterator[GateCheck]:
    """Look at sensors that never change although the model says that they should."""
    found = [
        f'{finding.detail} in {finding.bag}' for finding in result.health if finding.kind == 'stuck'
    ]
    for name, sensor in evidence.sensors.items():
        if sensor.spread > 0 or sensor.unit not in evidence.MOTION:
            continue
        alike = [scale.sigma for scale in result.noise if scale.unit == sensor.unit]
        limit = max(_STANDS_STILL, _STILL_NOISE * max(alike, default=0.0))
        if sensor.predicted > limit:
            found.append(
                f'{name} never changes, and should by {sensor.predicted:.2g} {sensor.unit}'
            )
    detail = (
        f'{"; ".join(found)}: a stuck encoder, a locked joint or a wrong channel.'
        if found
        else 'All positions and velocities that should change do.'
    )
    yield GateCheck(name='live sensors', passed=not found, detail=detail)


def _stuck(result: CalibrationResult, config: GateConfig) -> GateCheck:
    found = Evidence(result, None).stuck(config.stuck_share, _MOVES)
    detail = (
        f'{found.sensor} stands still for {found.seconds:.2g} s in {found.sequence} while it '
        f'should move by {found.movement:.2g} {found.unit}: a stuck encoder or joint.'
        if found
        else 'No position stands still while it should move.'
    )
    return GateCheck(name='no stuck position', passed=found is None, detail=detail)


def _explained(evidence: Evidence, config: GateConfig) -> GateCheck:
    """Ask every position and velocity that moves to be predicted better than by its mean."""
    worst = min(evidence.moving(_MOVES), key=evidence.explained, default=None)
    name = 'explained'
    if worst is None:
        return GateCheck(name=name, passed=True, detail='No position or velocity moves.')
    part = evidence.explained(worst)
    said = f'{100 * part:.3g} % of the variance of {worst} is predicted'
    if part >= config.least_explained:
        return GateCheck(name=name, passed=True, detail=f'At least {said}.')
    said = 'None' if part <= 0 else f'Only {100 * part:.3g} %'
    detail = f'{said} of the variance of {worst} is predicted{evidence.suspicion(worst)}.'
    return GateCheck(name=name, passed=False, detail=detail)


def _balanced(evidence: Evidence, config: GateConfig) -> GateCheck:
    """Look for a sensor that the model explains far worse than the others of its kind."""
    missed = {
        name: math.sqrt(max(1 - evidence.explained(name), 0.0)) for name in evidence.moving(_MOVES)
    }
    for name, part in missed.items():
        alike = [
            other
            for key, other in missed.items()
            if evidence.sensors[key].unit == evidence.sensors[name].unit
        ]
        usual = float(np.median(alike))
        if len(alike) >= _FEWEST_ALIKE and part > max(config.imbalance * usual, _UNEXPLAINED):
            detail = (
                f'{100 * part:.2g} % of the movement of {name} is not explained, of the others '
                f'{100 * usual:.2g} %{evidence.suspicion(name)}.'
            )
            return GateCheck(name='balanced', passed=False, detail=detail)
    return GateCheck(
        name='balanced', passed=True, detail='No sensor is explained far worse than its like.'
    )


def _consistent(result: CalibrationResult, config: GateConfig) -> GateCheck:
    """Look for recordings that are not of the robot that the others are of."""
    errors = Evidence(result, None).by_sequence()
    trained = [error for (role, _), error in errors.items() if role == 'train']
    usual = float(np.median(trained)) if trained else math.nan
    for (_, sequence), error in sorted(errors.items(), key=lambda item: -item[1]):
        if error > config.sequence_growth * usual:
            detail = (
                f'The error in {sequence} is {error / usual:.3g} times that of training sequences: '
                'another robot, load or mapping, or motion that training does not cover.'
            )
            return GateCheck(name='consistent', passed=False, detail=detail)
    return GateCheck(
        name='consistent', passed=True, detail='All sequences are predicted about equally well.'
    )


def _no_sensor_worse(
    result: CalibrationResult, evidence: Evidence, config: GateConfig
) -> GateCheck:
    noise = {scale.sensor: scale.sigma for scale in result.noise}
    for error in result.errors:
        sigma = noise.get(error.sensor.split('[')[0])
        if error.role != evidence.role or sigma is None:
            continue
        if error.after > max((1 + config.sensor_growth) * error.before, error.before + sigma):
            detail = (
                f'The error of {error.sensor} grew, {error.before:.3g} to {error.after:.3g} '
                f'{error.unit}, although that of all together fell.'
            )
            return GateCheck(name='no sensor worse', passed=False, detail=detail)
    detail = "No sensor's error grew beyond its noise."
    return GateCheck(name='no sensor worse', passed=True, detail=detail)


def _left_out_in_turn(result: CalibrationResult, config: GateConfig) -> Iterator[GateCheck]:
    if not result.folds:
        return
    worse = [
        fold.name for fold in result.folds if fold.after > (1 + config.sensor_growth) * fold.before
    ]
    detail = (
        f'A fit to the other bags predicts {", ".join(worse)} worse than the nominal model does.'
        if worse
        else 'Each part of the training data is predicted by a fit to the others.'
    )
    yield GateCheck(name='left out in turn', passed=not worse, detail=detail)


def _bounds(result: CalibrationResult, config: GateConfig) -> GateCheck:
    outer = [
        f'{parameter.name} ({parameter.value:.3g} {parameter.unit}'.rstrip() + ')'
        for parameter in result.parameters
        if parameter.verdict == 'at bound' and not _is_absent(parameter)
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


def _verdicts(result: CalibrationResult, config: GateConfig) -> GateCheck:
    allowed = config.allowed_verdicts
    bad = [p for p in result.parameters if not p.verdict.startswith(allowed)]
    if not bad:
        return GateCheck(name='verdicts', passed=True, detail='All verdicts are allowed.')
    named = ', '.join(f'{parameter.name} is {parameter.verdict}' for parameter in bad)
    detail = (
        f'{named}: leave it out of parameters, fix it by a prior, record motion '
        'that determines it, or allow the verdict in gate.allowed_verdicts.'
    )
    return GateCheck(name='verdicts', passed=False, detail=detail)

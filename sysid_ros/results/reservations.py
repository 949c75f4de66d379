# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a reader of an accepted result has to know before he relies on it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import StrEnum

from sysid_ros.alignment.health import FindingKind, Grade
from sysid_ros.config.calibration import VerdictKind
from sysid_ros.errors import how_many, some
from sysid_ros.results.refutations import beyond_the_sensor, predicted_worse
from sysid_ros.results.result import GateCheck, SolverStatus, UnjudgedResult

#: Errors on held-out motion that are more than so many times those of training were not learnt.
_MOST_GROWTH = 2.0
#: A position is predicted worse than by who knows less, by more than chance makes it.
_WORSE = 1.05
#: Bands that should hold 95 % of what was held out are too narrow where they hold less than this
#: part, if errors are more than so many times the noise: where a recording starts is not in them.
_LEAST_INSIDE, _MOST_NOISE = 0.8, 2.0
#: The time step matters where it changes predictions by this part of what they leave unexplained.
_STEP_CHANGE = 0.5
#: A sensor moves as another one is predicted to where correlations differ by less than this.
_AS_LIKE = 0.05
#: Pairs that names do not say.


class Reservation(StrEnum):
    """Names of the reservations."""

    HELD_OUT = 'held out'
    GENERALISES = 'generalises'
    BANDS = 'bands'
    EACH_SENSOR = 'each sensor'
    AHEAD = 'motion ahead'
    IDENTIFIED = 'identified'
    MODEL = 'model'
    RESIDUALS = 'residuals'
    AGREEMENT = 'agreement'
    OPTIMUM = 'optimum'
    TIMESTEP = 'time step'
    MAPPING = 'mapping'
    RECORDINGS = 'recordings'


def reservations(result: UnjudgedResult) -> tuple[GateCheck, ...]:
    """Return what speaks against relying on a result, though not against using it."""
    found = {
        Reservation.HELD_OUT: _nothing_held_out(result),
        Reservation.GENERALISES: _learnt_by_heart(result),
        Reservation.BANDS: _outside_bands(result),
        Reservation.EACH_SENSOR: _worse_than_nominal(result),
        Reservation.AHEAD: _worse_ahead(result),
        Reservation.IDENTIFIED: _nothing_identified(result),
        Reservation.MODEL: _lacking(result),
        Reservation.RESIDUALS: _beyond_the_sensor(result),
        Reservation.AGREEMENT: _disagreeing(result),
        Reservation.OPTIMUM: _not_at_the_optimum(result),
        Reservation.TIMESTEP: _another_step(result),
        Reservation.MAPPING: _assumed(result),
        Reservation.RECORDINGS: _faults(result),
    }
    return tuple(
        GateCheck(name=name, passed=False, detail=detail)
        for name, details in found.items()
        for detail in details
    )


def _nothing_held_out(result: UnjudgedResult) -> Iterator[str]:
    if math.isnan(result.held_out_after) and not result.folds:
        yield (
            'Nothing was held out: that the model predicts other motion is not shown; record some '
            'for validation.'
        )


def _learnt_by_heart(result: UnjudgedResult) -> Iterator[str]:
    if result.growth > _MOST_GROWTH:
        yield (
            f'The held-out error is {result.growth:.3g} times that of training: training motion '
            'does not cover it, or the model lacks something.'
        )


def _outside_bands(result: UnjudgedResult) -> Iterator[str]:
    outside = [
        f'{100 * error.inside:.0f} % of {error.sensor}'
        for error in result.errors
        if error.inside < _LEAST_INSIDE
    ]
    if outside and result.held_out_after > _MOST_NOISE:
        yield (
            f'Bands that should hold 95 % of the held-out samples hold {some(outside)}: the model '
            'errs by more than noise and intervals say.'
        )


def _worse_than_nominal(result: UnjudgedResult) -> Iterator[str]:
    worse = [
        f'{error.sensor} ({error.before:.3g} to {error.after:.3g} {error.unit}'.rstrip() + ')'
        for error in predicted_worse(result)
    ]
    if worse:
        yield f'The nominal model predicts better: {some(worse)}.'


def _worse_ahead(result: UnjudgedResult) -> Iterator[str]:
    """Compare positions shortly after measured states with those of two who know less."""
    noise = {scale.sensor: scale.sigma for scale in result.noise}
    for baseline, said in (('before', 'the nominal model'), ('coasting', 'keeping its velocity')):
        worse = {}
        for seconds, joint in result.positions_ahead:
            other = getattr(joint, baseline)
            if joint.after > max(_WORSE * other, other + noise.get(joint.sensor, 0.0)):
                figures = f'{other:.3g} to {joint.after:.3g} {joint.unit} at {seconds:g} s'
                worse[joint.sensor] = f'{joint.sensor} ({figures})'
        if worse:
            yield f'Shortly after measured states, {said} predicts better: {some(worse.values())}.'


def _nothing_identified(result: UnjudgedResult) -> Iterator[str]:
    # Of what the model limits, another reservation says more.
    told = {VerdictKind.IDENTIFIED, VerdictKind.MODEL_LIMITED}
    if result.parameters and not any(own.verdict_kind in told for own in result.parameters):
        yield 'No parameter is identified: values rest on each other, on priors or on bounds.'


def _lacking(result: UnjudgedResult) -> Iterator[str]:
    limited = [
        parameter.name
        for parameter in result.parameters
        if parameter.verdict_kind is VerdictKind.MODEL_LIMITED
    ]
    if limited:
        yield f'The model lacks something that moves {some(limited)}: see their verdicts.'


def _beyond_the_sensor(result: UnjudgedResult) -> Iterator[str]:
    found = beyond_the_sensor(result)
    if found:
        worst = found[0]
        others = f', and {how_many(found[1:], "other sensor")} err so' if found[1:] else ''
        moved = worst.measured_deviation
        part = f'{100 * worst.usual / moved:.2g} % of how it moves and ' if moved else ''
        yield (
            f'Residuals are not noise: those of {worst.sensor} are usually {worst.usual:.3g} '
            f'{worst.unit}, {part}'
            f'{worst.usual / worst.scatter:.3g} times what the sensor itself errs by, and '
            f'neighbours are alike (correlation {worst.autocorrelation:.2f}){others}: the model '
            'lacks something.'
        )


def _assumed(result: UnjudgedResult) -> Iterator[str]:
    """Look for pairs that nobody named and another pairing explains about as well."""
    kinds = {finding.kind for finding in result.health}
    unsure = [
        error.sensor
        for error in result.errors
        if error.role == 'train'
        and (like := error.likeness) is not None
        and like.second > abs(like.own) - _AS_LIKE
    ]
    if unsure and FindingKind.ASSUMED_ORDER in kinds:
        yield (
            f'Which command is which joint was assumed, and other sensors move about as the model '
            f'predicts for {some(unsure)}: the second-best mapping is near.'
        )


def _disagreeing(result: UnjudgedResult) -> Iterator[str]:
    apart = None if result.inference is None else result.inference.disagreement
    if apart is not None:
        yield (
            f'The {apart.recordings} recordings disagree by {apart.times:.2g} times what noise '
            f'explains, most of all about {apart.most}: the model lacks something, or the robot '
            'changed between them.'
        )


def _not_at_the_optimum(result: UnjudgedResult) -> Iterator[str]:
    if result.solver.status is SolverStatus.ITERATIONS:
        yield 'The fit stopped at its limit of iterations: raise solver.max_iterations.'
    if result.solver.status is SolverStatus.TIME:
        yield (
            f'The fit stopped at its limit of time, about {result.solver.left:.1g} standard errors '
            'from the optimum: give it more by solver.time.'
        )


def _another_step(result: UnjudgedResult) -> Iterator[str]:
    """Compare the step of the written model with that of the predictions."""
    solver, change = result.solver, result.solver.timestep_change
    if solver.timestep is None or change <= _STEP_CHANGE:
        return
    what = f'changes them by {change:.2g} times what they leave unexplained'
    yield (
        f'All predictions are with a time step of {solver.timestep:g} s, which the recordings '
        "follow. The model's own, with which it is written, "
        f'{what if math.isfinite(change) else "becomes unstable"}: set option/timestep to the '
        'shorter one where that matters.'
    )


def _faults(result: UnjudgedResult) -> Iterator[str]:
    found = dict.fromkeys(
        f'{finding.kind} in {finding.bag}'
        for finding in result.health
        if finding.kind.grade is Grade.FAULT
    )
    if found:
        yield f'Recordings have faults that are not left out: {some(found)}.'

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a result's own tests say against all of its values: such a result identifies nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sysid_ros.config.calibration import VerdictKind
from sysid_ros.errors import some
from sysid_ros.inference.model_errors import TermKind
from sysid_ros.results.result import (
    ParameterResult,
    SensorError,
    SolverStatus,
    SolverSummary,
    UnjudgedResult,
)

#: A fit that was stopped within so many standard errors of the optimum has converged.
NEAR = 1.0
#: A sensor is predicted worse than by the nominal model where its error is larger by this factor,
#: and chance makes one of all sensors seem so with less than this probability.
_WORSE, _CHANCE = 1.05, 0.01
#: What the model lacks refutes it where it is about times, which all values make up for, and
#: explains more than this part of the remaining cost.
_OF_TIMES = frozenset({TermKind.DELAY, TermKind.OFFSET, TermKind.DRIFT})
MOST_SHARE = 0.1
#: Residuals follow what the model lacks, and not the sensor, where they are usually so many times
#: what the sensor itself errs by, and neighbours are alike. Of right models of a simulated arm they
#: are 1.7 times that at most, of wrong ones 12 times at least, of real ones 3 to 35 times: beyond
#: the second number, they refute a result.
_BEYOND_SENSOR, _FAR_BEYOND, _ALIKE = 2.0, 50.0, 0.5
#: What is left of a sensor does not matter where it is less than this part of how the sensor moves:
#: sensors in simulations may have no noise at all.
_TINY = 1e-3
#: What parameters of times write.
_TIMES = frozenset({'delay', 'arrival_offset', 'trajectory_offset'})


def not_converged(solver: SolverSummary) -> str:
    """Say that a fit ended far from its optimum; nothing where it did not.

    Dry friction and held commands make real costs rough on the smallest scale, where a solver goes
    on in vain until it stalls.
    """
    ended = solver.success or solver.status is SolverStatus.STALLED
    if solver.status in {SolverStatus.ITERATIONS, SolverStatus.TIME}:
        ended = solver.left <= NEAR
    return '' if ended else f'The solver did not converge: {solver.message}'


def predicted_worse(result: UnjudgedResult) -> list[SensorError]:
    """Return the sensors that the nominal model predicts better, by more than chance."""
    errors = [error for error in result.errors if error.role == result.judged_role]
    return [
        error
        for error in errors
        if error.after > _WORSE * error.before and not error.by_chance * len(errors) > _CHANCE
    ]


def beyond_the_sensor(result: UnjudgedResult) -> list[SensorError]:
    """Return the sensors whose residuals are not their noise, worst first.

    Of training data, where starts are fitted; noise that residuals themselves told cannot say it.
    """
    found = [
        error
        for error in result.errors
        if error.role == 'train'
        and error.usual > max(_BEYOND_SENSOR * error.scatter, _TINY * error.measured_deviation)
        and error.autocorrelation > _ALIKE
    ]
    return sorted(found, key=lambda error: error.usual / error.scatter, reverse=True)


def wrong_times(result: UnjudgedResult) -> tuple[str, float]:
    """Return what clocks or delays the model lacks, and the part of the remaining cost they are.

    Nothing, and 0, where it lacks none.
    """
    lacking = () if result.inference is None else result.inference.lacking
    found = [term for term in lacking if term.kind in _OF_TIMES]
    return some([term.title for term in found]), sum(term.share for term in found)


def of_times(parameter: ParameterResult) -> bool:
    """Return whether a parameter is a delay or an offset of stamps."""
    return any(target.rsplit('/', 1)[-1] in _TIMES for target in parameter.targets)


def refuted(result: UnjudgedResult, unmet: Iterable[str]) -> UnjudgedResult:
    """Return a result in which nothing is identified where its own tests speak against it.

    Args:
        result: What was found.
        unmet: Conditions on the fit that are not met, a sentence each.
    """
    findings = [*unmet, *_findings(result)]
    if not findings:
        return result
    update = {
        'verdict_kind': VerdictKind.MODEL_LIMITED,
        'explanation': f'The tests of this fit refute it: {findings[0]}',
    }
    return result.model_copy(
        update={
            'parameters': tuple(
                own.model_copy(update=update) if own.identified else own
                for own in result.parameters
            )
        }
    )


def _findings(result: UnjudgedResult) -> Iterator[str]:
    """Yield what refutes a result that may be accepted nevertheless, a sentence each."""
    if said := not_converged(result.solver):
        yield said
    for error in predicted_worse(result):
        yield (
            f'The nominal model predicts {error.sensor} better, {error.before:.3g} to '
            f'{error.after:.3g} {error.unit}'.rstrip()
            + '.'
        )
    for error in beyond_the_sensor(result):
        if 0 < error.measured_deviation < error.usual:
            times = error.usual / error.measured_deviation
            yield f'Residuals of {error.sensor} are {times:.2g} times how it moves.'
        elif error.usual > _FAR_BEYOND * error.scatter:
            times = error.usual / error.scatter
            yield f'Residuals of {error.sensor} are {times:.2g} times what the sensor errs by.'
    for parameter in result.parameters:
        if parameter.asked is not None:
            yield (
                f'The data ask for {parameter.name} = {parameter.asked:.3g}, beyond its bound '
                f'{parameter.value:g}, and other values make up for that.'
            )
    title, share = wrong_times(result)
    if share > MOST_SHARE:
        yield f'Residuals follow {title}: {100 * share:.2g} % of the remaining cost.'

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Results beside each other, as they are: nothing is read but them, and nothing is fitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sysid_ros.config.calibration import Role
from sysid_ros.errors import how_many
from sysid_ros.results.comparison import causes
from sysid_ros.results.drift import changes, drift_between
from sysid_ros.results.history import ValueSummary
from sysid_ros.results.result import (
    ROLE_NAMES,
    ROLES,
    CalibrationResult,
    Drift,
    EstimatorKind,
    Standing,
)
from sysid_ros.results.store import RESULT, find

#: So many characters of a hash tell files apart.
_HASH = 12
_COMPARED = {
    EstimatorKind.SIMULATION: 'simulations of whole recordings',
    EstimatorKind.WINDOWS: 'simulations of windows',
    EstimatorKind.TORQUE: 'forces along the motion',
}


class ErrorPair(NamedTuple):
    """A root mean square error of the nominal model and of the fitted one."""

    nominal: float
    fitted: float


class SideSummary(NamedTuple):
    """One of several results.

    Attributes:
        name: As it was asked for.
        created: When, ISO 8601.
        standing: Whether it may be used, and relied on.
        acceptance: Why, in a sentence.
        held_out: Errors in units of the noise; null where nothing is held out.
        training: The same of training data.
        sentence: How it differs from the first one, and what is another than there.
    """

    name: str
    created: str
    standing: Standing
    acceptance: str
    held_out: ErrorPair
    training: ErrorPair
    sentence: str


class ParameterSides(NamedTuple):
    """A parameter in each result.

    Attributes:
        name: Its name.
        unit: Its unit.
        sides: What each result found; null where it was not fitted.
        deviations: Of each result after the first, in standard errors of the difference to it.
        changed: Whether that is more than chance; null where it is not known.
    """

    name: str
    unit: str
    sides: tuple[ValueSummary | None, ...]
    deviations: tuple[float | None, ...]
    changed: tuple[bool | None, ...]


class ErrorSides(NamedTuple):
    """The errors of a sensor in each result, in its unit; null where there is none."""

    sensor: str
    unit: str
    sides: tuple[ErrorPair | None, ...]


class TextSides(NamedTuple):
    """A text in each result; null where there is none."""

    name: str
    sides: tuple[str | None, ...]


class SideBySide(NamedTuple):
    """Results beside each other; all ``sides`` are in their order.

    Attributes:
        results: Each of them; those after the first are compared with it.
        parameters: Every parameter that any of them has.
        role: What ``errors`` are of: ``validate``, held out, or ``train``.
        errors: Of every sensor.
        different: Models, recordings and software that are not the same in all of them.
    """

    results: tuple[SideSummary, ...]
    parameters: tuple[ParameterSides, ...]
    role: Role
    errors: tuple[ErrorSides, ...]
    different: tuple[TextSides, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """How each of the others differs from the first, and what is another than there."""
        return tuple(result.sentence for result in self.results[1:])


def read_side_by_side(places: Sequence[Path]) -> SideBySide:
    """Read results and put them beside each other.

    Args:
        places: Each a result.json or a folder that holds one.

    Raises:
        ResultError: One of them cannot be read.
    """
    names = tuple(str(place.parent if place.name == RESULT else place) for place in places)
    return side_by_side(names, tuple(CalibrationResult.load(find(place)) for place in places))


def side_by_side(names: Sequence[str], results: Sequence[CalibrationResult]) -> SideBySide:
    """Put results beside each other, compared with the first of them.

    Where two were fitted to some of the same recordings they are more alike than independent ones
    would be, and a change has to be larger to be seen.
    """
    first, *others = results
    drifts = [drift_between(first, other, names[0]) for other in others]
    units = {p.name: p.unit for result in results for p in result.parameters}
    said = [
        ' '.join((f'{name} against {names[0]}: {_said(drift, units)}.', *causes(other, first, ())))
        for name, other, drift in zip(names[1:], others, drifts, strict=True)
    ]
    held_out = any(e.role == 'validate' for result in results for e in result.errors)
    role: Role = 'validate' if held_out else 'train'
    errors = _sides(results, lambda result: {e.sensor: e for e in result.errors if e.role == role})
    texts = [*_sides(results, _of_model).items(), *_recordings(results)]
    texts += _sides(results, lambda result: result.provenance.versions).items()
    return SideBySide(
        results=tuple(
            SideSummary(
                name,
                result.provenance.created,
                result.standing,
                result.acceptance,
                ErrorPair(result.held_out_before, result.held_out_after),
                ErrorPair(result.training_before, result.training_after),
                sentence,
            )
            for name, result, sentence in zip(names, results, ('', *said), strict=True)
        ),
        parameters=tuple(_parameters(results, drifts)),
        role=role,
        errors=tuple(
            ErrorSides(
                name,
                next(side.unit for side in own if side is not None),
                tuple(None if side is None else ErrorPair(side.before, side.after) for side in own),
            )
            for name, own in errors.items()
        ),
        different=tuple(TextSides(name, own) for name, own in texts if len(set(own)) > 1),
    )


def _sides(
    results: Sequence[CalibrationResult], of: Callable[[CalibrationResult], Mapping[str, Any]]
) -> dict[str, tuple[Any, ...]]:
    """Return what each result says by a name that any of them has; None where it says nothing."""
    tables = [of(result) for result in results]
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: tuple(table.get(name) for table in tables) for name in names}


def _parameters(
    results: Sequence[CalibrationResult], drifts: Sequence[Drift]
) -> list[ParameterSides]:
    drifted = [{row.name: row for row in drift.parameters} for drift in drifts]
    found = []
    for name, own in _sides(results, lambda r: {p.name: p for p in r.parameters}).items():
        rows = [table.get(name) for table in drifted]
        values = tuple(
            None if p is None else ValueSummary(name, p.unit, p.value, p.low, p.high, p.verdict)
            for p in own
        )
        found.append(
            ParameterSides(
                name,
                next(side.unit for side in values if side is not None),
                values,
                tuple(None if row is None else row.deviations for row in rows),
                tuple(None if row is None else row.changed for row in rows),
            )
        )
    return found


def _said(drift: Drift, units: Mapping[str, str]) -> str:
    if not drift.parameters:
        return 'no parameter is determined by both'
    count = how_many(drift.parameters, 'parameter')
    return changes(drift, units) or f'{count} agree, p = {drift.p_value:.2g}'


def _of_model(result: CalibrationResult) -> dict[str, str]:
    hashes = [file.sha256[:_HASH] for file in result.provenance.files if file.role == 'model']
    identified = sum(parameter.identified for parameter in result.parameters)
    return {
        'nominal model': result.model,
        'SHA-256 of it': ', '.join(hashes),
        'identified': f'{identified} of {len(result.parameters)} parameters',
        'compared with': _COMPARED[result.solver.estimator],
        'solver': f'{result.solver.backend}, {result.solver.loss} loss',
    }


def _recordings(results: Sequence[CalibrationResult]) -> list[tuple[str, tuple[str | None, ...]]]:
    """Say what each recording was for, with its hash where results mean different ones."""
    found = []
    for name, own in _sides(results, _bags).items():
        alike = len({side[1] for side in own if side is not None}) == 1
        said = [
            None if side is None else side[0] if alike else f'{side[0]}, SHA-256 {side[1][-1]}'
            for side in own
        ]
        found.append((name, tuple(said)))
    return found


def _bags(result: CalibrationResult) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return what each recording is for, and the hashes of its files, by its name."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for file in result.provenance.files:
        if file.role in ROLES:
            name = Path(file.path).parent.name or file.path
            before = found[name][1] if name in found else ()
            found[name] = (ROLE_NAMES[file.role], (*before, file.sha256[:_HASH]))
    return found

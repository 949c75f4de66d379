# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Results beside each other, as they are: nothing is read but them, and nothing is fitted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from sysid_ros.errors import how_many
from sysid_ros.results.comparison import ROUNDING, causes
from sysid_ros.results.drift import changes, drift_between
from sysid_ros.results.result import ROLES, CalibrationResult, EstimatorKind
from sysid_ros.results.store import RESULT, find

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sysid_ros.config.calibration import Role
    from sysid_ros.results.result import (
        Drift,
        DriftedParameter,
        NoiseScale,
        ParameterResult,
        SensorError,
    )

T = TypeVar('T')

#: So many characters of a hash tell files apart.
_HASH = 12
_ROLES: dict[str, str] = {'train': 'training', 'validate': 'held out'}
_COMPARED = {
    EstimatorKind.SIMULATION: 'simulations of whole recordings',
    EstimatorKind.WINDOWS: 'simulations of windows',
    EstimatorKind.TORQUE: 'forces along the motion',
}


class Row(NamedTuple, Generic[T]):
    """Something of which each result says something; None where it does not."""

    name: str
    sides: tuple[T | None, ...]

    @property
    def differs(self) -> bool:
        """Whether they do not all say the same."""
        return len(set(self.sides)) > 1

    @property
    def known(self) -> T:
        """What the first result says that says anything."""
        return next(side for side in self.sides if side is not None)


@dataclass(frozen=True)
class SideBySide:
    """Results beside each other; those after the first are compared with it.

    Attributes:
        names: Of the results, as they were asked for.
        results: What was found.
        drifts: How far the parameters of each of the others are from the first.
        causes: What is another than in the first, sentences for each of the others.
    """

    names: tuple[str, ...]
    results: tuple[CalibrationResult, ...]
    drifts: tuple[Drift, ...]
    causes: tuple[tuple[str, ...], ...]

    @property
    def parameters(self) -> tuple[Row[ParameterResult], ...]:
        """Every parameter that any result has."""
        return self._rows(lambda result: {p.name: p for p in result.parameters})

    @property
    def sentences(self) -> tuple[str, ...]:
        """How each of the others differs from the first, and what is another than there."""
        units = {row.name: row.known.unit for row in self.parameters}
        return tuple(
            ' '.join((f'{name} against {self.names[0]}: {_said(drift, units)}.', *causes))
            for name, drift, causes in zip(self.names[1:], self.drifts, self.causes, strict=True)
        )

    def drifted(self, name: str) -> tuple[DriftedParameter | None, ...]:
        """Return how a parameter of each of the others differs; None where it is not known."""
        return tuple(
            next((row for row in drift.parameters if row.name == name), None)
            for drift in self.drifts
        )

    @property
    def targets(self) -> tuple[Row[float], ...]:
        """What the identified models state otherwise; None where one states what was given."""
        rows = self._rows(lambda r: {t: p.value for p in r.parameters for t in p.targets})
        return tuple(row for row in rows if not _alike(row.sides))

    @property
    def role(self) -> Role:
        """What the errors are of: held-out recordings, if any result has some."""
        held_out = any(e.role == 'validate' for result in self.results for e in result.errors)
        return 'validate' if held_out else 'train'

    @property
    def errors(self) -> tuple[Row[SensorError], ...]:
        """The error of every sensor."""
        role = self.role
        return self._rows(lambda result: {e.sensor: e for e in result.errors if e.role == role})

    @property
    def noise(self) -> tuple[Row[NoiseScale], ...]:
        """The noise of every sensor."""
        return self._rows(lambda result: {scale.sensor: scale for scale in result.noise})

    @property
    def models(self) -> tuple[Row[str], ...]:
        """What each result is of, and how it came about."""
        return self._rows(_of_model)

    @property
    def recordings(self) -> tuple[Row[str], ...]:
        """What each recording was for, and of one whose name another one has, its hash."""
        rows = self._rows(_bags)
        return tuple(
            Row(
                row.name,
                tuple(
                    side
                    and (
                        side.role
                        if _same_files(row)
                        else f'{side.role}, SHA-256 {side.hashes[-1][:_HASH]}'
                    )
                    for side in row.sides
                ),
            )
            for row in rows
        )

    @property
    def versions(self) -> tuple[Row[str], ...]:
        """The versions of software."""
        return self._rows(lambda result: result.provenance.versions)

    def _rows(self, of: Callable[[CalibrationResult], Mapping[str, T]]) -> tuple[Row[T], ...]:
        """Return a row for each name that any result has."""
        tables = [of(result) for result in self.results]
        names = dict.fromkeys(name for table in tables for name in table)
        return tuple(Row(name, tuple(table.get(name) for table in tables)) for name in names)

    def plain(self) -> dict[str, object]:
        """Return what is shown as JSON has it; lists are in the order of the results."""
        return {
            'results': [
                {
                    'name': name,
                    'created': result.provenance.created,
                    'standing': result.standing,
                    'acceptance': result.acceptance,
                    'held_out': {
                        'nominal': result.held_out_before,
                        'fitted': result.held_out_after,
                    },
                    'training': {
                        'nominal': result.training_before,
                        'fitted': result.training_after,
                    },
                }
                for name, result in zip(self.names, self.results, strict=True)
            ],
            'against_the_first': [
                {
                    'name': name,
                    'changed': drift.changed,
                    'p_value': drift.p_value,
                    'sentence': sentence,
                    'causes': causes,
                }
                for name, drift, sentence, causes in zip(
                    self.names[1:], self.drifts, self.sentences, self.causes, strict=True
                )
            ],
            'parameters': [
                {
                    'name': row.name,
                    'unit': row.known.unit,
                    'sides': [
                        p and {'value': p.value, 'low': p.low, 'high': p.high, 'verdict': p.verdict}
                        for p in row.sides
                    ],
                    'deviations': [d and d.deviations for d in self.drifted(row.name)],
                    'changed': [d and d.changed for d in self.drifted(row.name)],
                }
                for row in self.parameters
            ],
            'role': self.role,
            'errors': [
                {
                    'sensor': row.name,
                    'unit': row.known.unit,
                    'sides': [e and {'nominal': e.before, 'fitted': e.after} for e in row.sides],
                }
                for row in self.errors
            ],
            'noise': [
                {
                    'sensor': row.name,
                    'unit': row.known.unit,
                    'sides': [scale and scale.sigma for scale in row.sides],
                }
                for row in self.noise
            ],
            'targets': self.targets,
            'models': self.models,
            'recordings': self.recordings,
            'versions': self.versions,
        }


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
    return SideBySide(
        tuple(names),
        tuple(results),
        tuple(drift_between(first, other, names[0]) for other in others),
        tuple(tuple(causes(other, first, ())) for other in others),
    )


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


class _Bag(NamedTuple):
    """What a recording is for, and the hashes of its files."""

    role: str
    hashes: tuple[str, ...]


def _bags(result: CalibrationResult) -> dict[str, _Bag]:
    """Return the recordings of a result by name."""
    found: dict[str, _Bag] = {}
    for file in result.provenance.files:
        if file.role in ROLES:
            name = Path(file.path).parent.name or file.path
            hashes = [*(found[name].hashes if name in found else ()), file.sha256]
            found[name] = _Bag(_ROLES[file.role], tuple(hashes))
    return found


def _same_files(row: Row[_Bag]) -> bool:
    return len({side.hashes for side in row.sides if side is not None}) == 1


def _alike(values: Sequence[float | None]) -> bool:
    """Whether values differ by no more than rounding."""
    first, *others = values
    if first is None:
        return all(value is None for value in others)
    return all(v is not None and math.isclose(v, first, rel_tol=ROUNDING) for v in others)

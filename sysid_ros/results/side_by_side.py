# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Results beside each other, as they are: nothing is read but them, and nothing is fitted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from sysid_ros.errors import how_many
from sysid_ros.results.comparison import ROUNDING, causes
from sysid_ros.results.drift import changes, drift_between
from sysid_ros.results.history import ValueSummary
from sysid_ros.results.result import ROLE_NAMES, ROLES, CalibrationResult, EstimatorKind
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
        Standing,
    )

T = TypeVar('T')
U = TypeVar('U')

#: So many characters of a hash tell files apart.
_HASH = 12
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

    def of(self, part: Callable[[T], U]) -> tuple[U | None, ...]:
        """Return a part of what each says."""
        return tuple(None if side is None else part(side) for side in self.sides)

    @property
    def known(self) -> T:
        """What the first result says that says anything."""
        return next(side for side in self.sides if side is not None)


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
        changed: Whether a parameter differs from the first result by more than chance; null in it.
        p_value: Of the hypothesis that none does.
        sentence: How it differs from the first one.
        causes: What is another than there, a sentence each.
    """

    name: str
    created: str
    standing: Standing
    acceptance: str
    held_out: ErrorPair
    training: ErrorPair
    changed: bool | None
    p_value: float
    sentence: str
    causes: tuple[str, ...]


class ParameterSummary(NamedTuple):
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


class ErrorSummary(NamedTuple):
    """The errors of a sensor in each result, in its unit; null where there is none."""

    sensor: str
    unit: str
    sides: tuple[ErrorPair | None, ...]


class NumberSummary(NamedTuple):
    """A number in each result, in SI units; null where there is none."""

    name: str
    sides: tuple[float | None, ...]


class TextSummary(NamedTuple):
    """A text in each result; null where there is none."""

    name: str
    sides: tuple[str | None, ...]


class SideBySideSummary(NamedTuple):
    """Results beside each other; all ``sides`` are in their order.

    Attributes:
        results: Each of them.
        parameters: Every parameter that any of them has.
        role: What ``errors`` are of: ``validate``, held out, or ``train``.
        errors: Of every sensor.
        noise: Standard deviation of the noise of every sensor.
        targets: What the fitted models state otherwise.
        models: What each result is of.
        recordings: What each recording was for.
        versions: Of software.
    """

    results: tuple[SideSummary, ...]
    parameters: tuple[ParameterSummary, ...]
    role: str
    errors: tuple[ErrorSummary, ...]
    noise: tuple[NumberSummary, ...]
    targets: tuple[NumberSummary, ...]
    models: tuple[TextSummary, ...]
    recordings: tuple[TextSummary, ...]
    versions: tuple[TextSummary, ...]


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
        return tuple(rows.get(name) for rows in self._drifted)

    @cached_property
    def _drifted(self) -> tuple[dict[str, DriftedParameter], ...]:
        return tuple({row.name: row for row in drift.parameters} for drift in self.drifts)

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
        return tuple(_told(row) for row in self._rows(_bags))

    @property
    def versions(self) -> tuple[Row[str], ...]:
        """The versions of software."""
        return self._rows(lambda result: result.provenance.versions)

    def _rows(self, of: Callable[[CalibrationResult], Mapping[str, T]]) -> tuple[Row[T], ...]:
        """Return a row for each name that any result has."""
        tables = [of(result) for result in self.results]
        names = dict.fromkeys(name for table in tables for name in table)
        return tuple(Row(name, tuple(table.get(name) for table in tables)) for name in names)

    def summary(self) -> SideBySideSummary:
        """Return what is shown, without what results were found from."""
        drifts = (None, *self.drifts)
        said = zip(('', *self.sentences), ((), *self.causes), strict=True)
        return SideBySideSummary(
            results=tuple(
                SideSummary(
                    name=name,
                    created=result.provenance.created,
                    standing=result.standing,
                    acceptance=result.acceptance,
                    held_out=ErrorPair(result.held_out_before, result.held_out_after),
                    training=ErrorPair(result.training_before, result.training_after),
                    changed=None if drift is None else drift.changed,
                    p_value=math.nan if drift is None else drift.p_value,
                    sentence=sentence,
                    causes=causes,
                )
                for name, result, drift, (sentence, causes) in zip(
                    self.names, self.results, drifts, said, strict=True
                )
            ),
            parameters=tuple(self._parameter(row) for row in self.parameters),
            role=self.role,
            errors=tuple(
                ErrorSummary(
                    row.name,
                    row.known.unit,
                    row.of(lambda error: ErrorPair(error.before, error.after)),
                )
                for row in self.errors
            ),
            noise=tuple(
                NumberSummary(row.name, row.of(lambda scale: scale.sigma)) for row in self.noise
            ),
            targets=tuple(NumberSummary(*row) for row in self.targets),
            models=tuple(TextSummary(*row) for row in self.models),
            recordings=tuple(TextSummary(*row) for row in self.recordings),
            versions=tuple(TextSummary(*row) for row in self.versions),
        )

    def _parameter(self, row: Row[ParameterResult]) -> ParameterSummary:
        drifts = Row(row.name, self.drifted(row.name))
        return ParameterSummary(
            row.name,
            row.known.unit,
            row.of(lambda p: ValueSummary(p.name, p.unit, p.value, p.low, p.high, p.verdict)),
            drifts.of(lambda drift: drift.deviations),
            drifts.of(lambda drift: drift.changed),
        )


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
            found[name] = _Bag(ROLE_NAMES[file.role], tuple(hashes))
    return found


def _told(row: Row[_Bag]) -> Row[str]:
    """Say what a recording was for, and its hash where the results mean different ones."""
    alike = len({bag.hashes for bag in row.sides if bag is not None}) == 1

    def say(bag: _Bag) -> str:
        return bag.role if alike else f'{bag.role}, SHA-256 {bag.hashes[-1][:_HASH]}'

    return Row(row.name, row.of(say))


def _alike(values: Sequence[float | None]) -> bool:
    """Whether values differ by no more than rounding."""
    first, *others = values
    if first is None:
        return all(value is None for value in others)
    return all(v is not None and math.isclose(v, first, rel_tol=ROUNDING) for v in others)

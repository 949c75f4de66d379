# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One thing that was checked, as continuous integration wants to know it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from sysid_ros.results.comparison import ComparedQuantity
from sysid_ros.results.result import CalibrationResult


class CaseKind(StrEnum):
    """What a case is about."""

    PARAMETER = 'parameter'
    ERROR = 'error'
    MODEL = 'model'


class Place(NamedTuple):
    """A line of a file, from 1; 0 where only the file is known."""

    file: str
    line: int

    def __str__(self) -> str:
        """Return it as compilers do."""
        return f'{self.file}:{self.line}' if self.line else self.file


class Case(NamedTuple):
    """One thing that was checked.

    Attributes:
        kind: What it is about.
        name: Of the parameter, of the sensor with what its error is over, or of the attribute.
        bag: The recording, where it is about one.
        value: What was found; NaN where it is no number.
        unit: Of all numbers.
        baseline: What it was; NaN where that is not known.
        limit: Of an error the largest, of a parameter the largest difference from the baseline.
        low: The 95 % interval of a parameter, …
        high: … NaN where there is none.
        passed: Whether it is as it has to be.
        sentence: What is wrong or to be known, a clause.
        place: Where to mend it.
    """

    kind: CaseKind
    name: str
    bag: str = ''
    value: float = math.nan
    unit: str = ''
    baseline: float = math.nan
    limit: float = math.inf
    low: float = math.nan
    high: float = math.nan
    passed: bool = True
    sentence: str = ''
    place: Place | None = None


def parameter_cases(
    rows: Iterable[ComparedQuantity], result: CalibrationResult, places: Mapping[str, Place]
) -> tuple[Case, ...]:
    """Return what a comparison with a baseline found, a case for each quantity.

    Args:
        rows: The comparison; the last row is that of the error.
        result: What was found now.
        places: By the beginning of a target, ``joint/elbow``, where the model has that element;
            by an empty one, the model's file.
    """
    found = {parameter.name: parameter for parameter in result.parameters}
    cases = []
    for row in rows:
        own = found.get(row.name)
        targets = own.targets if own is not None else (row.name,)
        keys = [target.rpartition('/')[0] for target in targets]
        place = next((places[key] for key in keys if key in places), places.get(''))
        sentence = row.note
        if not row.agrees and not math.isnan(row.value - row.baseline):
            moved = row.value - row.baseline
            sentence = f'moved by {moved:.3g} {row.unit}, allowed {row.allowed:.3g}'
            sentence += f'; {row.note}' if row.note else ''
        cases.append(
            Case(
                CaseKind.PARAMETER,
                row.name,
                value=row.value,
                unit=row.unit,
                baseline=row.baseline,
                limit=row.allowed,
                low=math.nan if own is None else own.low,
                high=math.nan if own is None else own.high,
                passed=row.agrees,
                sentence=sentence,
                place=place,
            )
        )
    return tuple(cases)

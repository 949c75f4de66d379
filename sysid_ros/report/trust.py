# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a reader needs to judge the numbers: how sure they are, and what was checked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from sysid_ros.report.numbers import significant
from sysid_ros.results.parts import ROLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sysid_ros.results.result import CalibrationResult, HorizonPoint, ParameterResult, Role

#: Parameters up to this number get a picture of their correlations.
_LARGEST_PICTURE = 40
#: Correlations above this are listed by name, at most so many.
_STRONG = 0.9
_MOST_PAIRS = 12
#: Labels of an axis, at most.
_TICKS = 6


class Pair(NamedTuple):
    """Two parameters whose estimates move together."""

    first: str
    second: str
    correlation: float


class Cell(NamedTuple):
    """One correlation of the picture: place, ``pos`` or ``neg``, strength 0 to 1, description."""

    row: int
    column: int
    tone: str
    strength: float
    text: str


class Moved(NamedTuple):
    """A parameter over fits to other data: its values there beside its value and interval."""

    parameter: ParameterResult
    values: tuple[float, ...]

    @property
    def low(self) -> float:
        """Smallest value; NaN when there is none."""
        return min((x for x in self.values if math.isfinite(x)), default=math.nan)

    @property
    def high(self) -> float:
        """Largest value; NaN when there is none."""
        return max((x for x in self.values if math.isfinite(x)), default=math.nan)


class Line(NamedTuple):
    """One line of the picture of error over horizon: SVG points, 0 to 100 in both directions."""

    role: Role
    kind: str
    points: str


class AxisTick(NamedTuple):
    """A label of an axis and its position, 0 to 100."""

    position: float
    label: str


class Horizon(NamedTuple):
    """Error of predictions over the time since their start, on logarithmic axes."""

    lines: tuple[Line, ...]
    seconds: tuple[AxisTick, ...]
    errors: tuple[AxisTick, ...]


def unsure(result: CalibrationResult) -> tuple[ParameterResult, ...]:
    """Return the parameters about which there is something to explain."""
    return tuple(parameter for parameter in result.parameters if parameter.explanation)


def strong_pairs(result: CalibrationResult) -> tuple[Pair, ...]:
    """List the strongest correlations of the estimates, the strongest first."""
    if result.inference is None:
        return ()
    names = [parameter.name for parameter in result.parameters]
    rows = result.inference.correlation
    pairs = [
        Pair(names[i], names[j], rows[i][j])
        for i in range(len(rows))
        for j in range(i)
        if math.isfinite(rows[i][j]) and abs(rows[i][j]) > _STRONG
    ]
    return tuple(sorted(pairs, key=lambda pair: -abs(pair.correlation))[:_MOST_PAIRS])


def correlations(result: CalibrationResult) -> tuple[Cell, ...]:
    """Lay out the correlations of all pairs as a triangle; nothing for one or very many."""
    names = [parameter.name for parameter in result.parameters]
    if result.inference is None or not 1 < len(names) <= _LARGEST_PICTURE:
        return ()
    cells = []
    for i, row in enumerate(result.inference.correlation):
        for j in range(i):
            value = row[j]
            text = f'{names[i]} and {names[j]}: {significant(value, 2)}'
            if not math.isfinite(value):
                cells.append(Cell(i, j, 'none', 0.0, text))
            else:
                tone = 'pos' if value > 0 else 'neg'
                cells.append(Cell(i, j, tone, min(abs(value), 1.0), text))
    return tuple(cells)


def over_folds(result: CalibrationResult) -> tuple[Moved, ...]:
    """Return every parameter with its values without each of the bags."""
    return _moved(result, [fold.values for fold in result.folds])


def over_windows(result: CalibrationResult) -> tuple[Moved, ...]:
    """Return every parameter with its values at each length of windows."""
    return _moved(result, [window.values for window in result.windows])


def _moved(result: CalibrationResult, fits: list[tuple[float, ...]]) -> tuple[Moved, ...]:
    if not fits:
        return ()
    return tuple(
        Moved(parameter, tuple(values[place] for values in fits))
        for place, parameter in enumerate(result.parameters)
    )


def horizon(result: CalibrationResult) -> Horizon | None:
    """Lay out the error of predictions over the time since their start; None without any."""
    points = [p for p in result.horizon if p.seconds > 0 and _drawable(p)]
    seconds = sorted({p.seconds for p in points})
    if len(seconds) < 2:  # noqa: PLR2004 (a line has two ends)
        return None
    errors = [e for p in points for e in (p.before, p.after)]
    across, up = _Logarithmic(seconds), _Logarithmic(errors)
    lines = []
    for role in ROLES:
        own = sorted((p for p in points if p.role == role), key=lambda p: p.seconds)
        for kind in ('before', 'after'):
            drawn = ' '.join(
                f'{across.position(p.seconds):.2f},{100 - up.position(getattr(p, kind)):.2f}'
                for p in own
            )
            if own:
                lines.append(Line(role, kind, drawn))
    return Horizon(
        tuple(lines),
        tuple(AxisTick(across.position(s), significant(s, 2)) for s in seconds),
        tuple(AxisTick(100 - up.position(e), significant(e, 2)) for e in up.ticks()),
    )


def _drawable(point: HorizonPoint) -> bool:
    return all(math.isfinite(e) and e > 0 for e in (point.before, point.after))


class _Logarithmic:
    """An axis from the least to the largest of some positive numbers, 0 to 100."""

    def __init__(self, numbers: Iterable[float]) -> None:
        logs = [math.log10(number) for number in numbers]
        middle = (min(logs) + max(logs)) / 2
        half = max((max(logs) - min(logs)) / 2, 0.1)
        self._low, self._high = middle - half, middle + half

    def position(self, number: float) -> float:
        return 100 * (math.log10(number) - self._low) / (self._high - self._low)

    def ticks(self) -> list[float]:
        powers = range(math.floor(self._low) - 1, math.ceil(self._high) + 1)
        found = [f * 10.0**p for p in powers for f in (1, 2, 5)]
        inside = [x for x in found if self._low <= math.log10(x) <= self._high]
        return inside[:: max(math.ceil(len(inside) / _TICKS), 1)]

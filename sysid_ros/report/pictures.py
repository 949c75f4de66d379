# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where things go in the pictures of the report: intervals, correlations, errors over a horizon.

Parameters have different units, so each is divided by its own reference: the nominal value, or,
where that is zero, the size of the identified value. HTML and PNG draw the same positions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from sysid_ros.report.numbers import significant
from sysid_ros.results.result import ROLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sysid_ros.config.calibration import Role
    from sysid_ros.results.result import CalibrationResult, ParameterResult

#: Ratios further apart than this go on a logarithmic axis.
_LINEAR_SPREAD = 6.0
#: An axis is at least this wide, so that a change of a thousandth looks like one.
_LEAST_SPAN = 0.1
#: Intervals may widen the axis by this share of what the points need, and are cut beyond.
_INTERVAL_SHARE = 0.6
_MARGIN = 0.05
_TICKS = 5
#: Parameters up to this number get a picture of their correlations.
_LARGEST_PICTURE = 40
#: Fainter squares in it are not seen.
_FAINTEST = 0.05
#: Correlations of this size are listed by name; of this one, little is known of each alone.
STRONG, _VERY_STRONG = 0.5, 0.9
#: Units of positions, and as what and how many times as large they are shown.
_POSITIONS = (('rad', 'mrad', 1e3), ('m', 'mm', 1e3))
#: Labels of an axis of the horizon, at most.
_HORIZON_TICKS = 6


class Mark(NamedTuple):
    """One parameter; all positions from 0 (left end of the axis) to 1, None where there is none.

    The ends of the 95 % interval are cut to the axis; ``cut_low`` and ``cut_high`` are whether it
    goes on to the left or to the right of it. ``true_value`` is the number at ``truth``.
    """

    parameter: ParameterResult
    initial: float
    value: float
    low: float | None
    high: float | None
    cut_low: bool
    cut_high: bool
    truth: float | None
    true_value: float | None


class Tick(NamedTuple):
    """A label of an axis and its position: 0 to 1, in the horizon 0 to 100."""

    position: float
    label: str


class Panel(NamedTuple):
    """Parameters that share an axis; ``of_nominal`` is whether it is in their nominal values."""

    title: str
    of_nominal: bool
    logarithmic: bool
    ticks: tuple[Tick, ...]
    marks: tuple[Mark, ...]


class _Ratios(NamedTuple):
    """A parameter divided by its reference."""

    parameter: ParameterResult
    initial: float
    value: float
    low: float
    high: float
    truth: float | None
    true_value: float | None

    @property
    def points(self) -> list[float]:
        return [x for x in (self.initial, self.value, self.truth) if x is not None]


class _Axis(NamedTuple):
    left: float
    right: float
    logarithmic: bool

    def position(self, ratio: float) -> float:
        """Return where a ratio lies, 0 to 1 on the axis and outside beyond it."""
        if not self.logarithmic:
            return (ratio - self.left) / (self.right - self.left)
        if ratio <= 0:
            return -math.inf
        return (math.log10(ratio) - self.left) / (self.right - self.left)


def true_value(parameter: ParameterResult, truth: Mapping[str, float] | None) -> float | None:
    """Return the known true value of a parameter, found by its name or one of its targets."""
    for name in (parameter.name, *parameter.targets):
        if truth is not None and name in truth:
            return float(truth[name])
    return None


def panels(
    result: CalibrationResult, truth: Mapping[str, float] | None = None
) -> tuple[Panel, ...]:
    """Lay out all parameters: those relative to their nominal value, then those from zero."""
    moved = [p for p in result.parameters if p.initial != 0]
    risen = [p for p in result.parameters if p.initial == 0]
    found = []
    if moved:
        rows = [_ratios(p, abs(p.initial), truth, math.copysign(1, p.initial)) for p in moved]
        found.append(_panel('Value ÷ nominal value', rows, of_nominal=True))
    if risen:
        rows = []
        for p in risen:
            ends = [abs(x) for x in (p.low, p.high) if math.isfinite(x)]
            size = abs(p.value) or max(ends, default=0.0) or 1.0
            rows.append(_ratios(p, size, truth, 1))
        found.append(_panel('Nominal value is zero: value ÷ size of the fitted value', rows))
    return tuple(found)


def _ratios(
    parameter: ParameterResult, reference: float, truth: Mapping[str, float] | None, sign: float
) -> _Ratios:
    known = true_value(parameter, truth)
    scale = sign / reference
    low, high = sorted((parameter.low * scale, parameter.high * scale))
    return _Ratios(
        parameter,
        initial=parameter.initial * scale,
        value=parameter.value * scale,
        low=low,
        high=high,
        truth=None if known is None else known * scale,
        true_value=known,
    )


def _axis(rows: Sequence[_Ratios]) -> _Axis:
    points = [x for row in rows for x in row.points if math.isfinite(x)]
    ends = [x for row in rows for x in (row.low, row.high) if math.isfinite(x)]
    logarithmic = min(points) > 0 and max(points) / min(points) > _LINEAR_SPREAD
    if logarithmic:
        points = [math.log10(x) for x in points]
        ends = [math.log10(x) for x in ends if x > 0]
    left, right = min(points), max(points)
    missing = max(_LEAST_SPAN - (right - left), 0) / 2
    left, right = left - missing, right + missing
    slack = _INTERVAL_SHARE * (right - left)
    left = max(left - slack, min([left, *ends]))
    right = min(right + slack, max([right, *ends]))
    margin = _MARGIN * (right - left)
    return _Axis(left - margin, right + margin, logarithmic)


def _panel(title: str, rows: Sequence[_Ratios], *, of_nominal: bool = False) -> Panel:
    axis = _axis(rows)
    ratios = _decades(axis) if axis.logarithmic else steps(axis.left, axis.right)
    ticks = tuple(Tick(axis.position(ratio), significant(ratio)) for ratio in ratios)
    marks = tuple(_mark(row, axis) for row in rows)
    return Panel(title, of_nominal, axis.logarithmic, ticks, marks)


def _mark(row: _Ratios, axis: _Axis) -> Mark:
    low = high = None
    cut_low = cut_high = False
    if not math.isnan(row.low) and not math.isnan(row.high):
        left, right = axis.position(row.low), axis.position(row.high)
        cut_low, cut_high = left < 0, right > 1
        low, high = min(max(left, 0.0), 1.0), max(min(right, 1.0), 0.0)
    return Mark(
        row.parameter,
        initial=axis.position(row.initial),
        value=axis.position(row.value),
        low=low,
        high=high,
        cut_low=cut_low,
        cut_high=cut_high,
        truth=None if row.truth is None else axis.position(row.truth),
        true_value=row.true_value,
    )


def steps(left: float, right: float) -> list[float]:
    """Return round numbers at most ``_TICKS`` of which lie between two ends."""
    rough = (right - left) / _TICKS
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= rough)
    first = math.ceil(left / step)
    last = math.floor(right / step)
    return [count * step for count in range(first, last + 1)]


def _decades(axis: _Axis) -> list[float]:
    """Return 1, 2 and 5 times powers of ten on an axis, thinned until few enough are left."""
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = _round_numbers(axis, factors)
        if len(ticks) <= _TICKS + 1:
            return ticks
    return ticks[:: math.ceil(len(ticks) / _TICKS)]


def _round_numbers(axis: _Axis, factors: Sequence[int]) -> list[float]:
    """Return some times powers of ten on a logarithmic axis."""
    powers = range(math.floor(axis.left) - 1, math.ceil(axis.right) + 1)
    found = [factor * 10.0**power for power in powers for factor in factors]
    return [number for number in found if 0 <= axis.position(number) <= 1]


class CorrelatedPair(NamedTuple):
    """Two parameters whose estimates move together."""

    first: str
    second: str
    correlation: float

    @property
    def meaning(self) -> str:
        """What that says of them, in a clause."""
        opposite = self.correlation < 0
        move = 'one rises as the other falls' if opposite else 'they rise together'
        known = 'a weighted sum of them' if opposite else 'their ratio or weighted difference'
        if abs(self.correlation) < _VERY_STRONG:
            return f'{move}; {known} is known better than each'
        return f'{move}; only {known} is known well'


class CorrelationCell(NamedTuple):
    """One correlation of the picture: place, ``pos`` or ``neg``, strength 0 to 1, description."""

    row: int
    column: int
    tone: str
    strength: float
    text: str


class Line(NamedTuple):
    """One line of the picture of errors: SVG points, 0 to 100 in both directions."""

    role: Role
    kind: str
    points: str


class Horizon(NamedTuple):
    """Error of predictions over the time since their start, on logarithmic axes.

    ``axis`` says what the errors are, and in what; ``caption`` of what they are, in a sentence.
    """

    lines: tuple[Line, ...]
    seconds: tuple[Tick, ...]
    errors: tuple[Tick, ...]
    axis: str
    caption: str

    @property
    def description(self) -> str:
        """What the picture shows, for those who do not see it."""
        first, last = self.seconds[0].label, self.seconds[-1].label
        return f'{self.axis} from {first} to {last} s after a start, nominal and fitted.'


class _Ahead(NamedTuple):
    """Errors so many seconds after a start."""

    role: Role
    seconds: float
    before: float
    after: float


def strong_pairs(result: CalibrationResult) -> tuple[CorrelatedPair, ...]:
    """List the correlations of the estimates that are strong, the strongest first."""
    if result.inference is None:
        return ()
    names = [parameter.name for parameter in result.parameters]
    rows = result.inference.correlation
    pairs = [
        CorrelatedPair(names[i], names[j], rows[i][j])
        for i in range(len(rows))
        for j in range(i)
        if math.isfinite(rows[i][j]) and abs(rows[i][j]) >= STRONG
    ]
    return tuple(sorted(pairs, key=lambda pair: -abs(pair.correlation)))


def correlations(result: CalibrationResult) -> tuple[CorrelationCell, ...]:
    """Lay out the correlations that can be seen as a triangle; nothing for one or very many."""
    names = [parameter.name for parameter in result.parameters]
    if result.inference is None or not 1 < len(names) <= _LARGEST_PICTURE:
        return ()
    cells = []
    for i, row in enumerate(result.inference.correlation):
        for j, value in enumerate(row[:i]):
            text = f'{names[i]} and {names[j]}: {significant(value, 2)}'
            tone, strength = 'pos' if value > 0 else 'neg', min(abs(value), 1.0)
            if not math.isfinite(value):
                tone, strength = 'none', 0.0
            elif strength < _FAINTEST:
                continue
            cells.append(CorrelationCell(i, j, tone, strength, text))
    return tuple(cells)


def horizons(result: CalibrationResult) -> tuple[Horizon, ...]:
    """Lay out the error of predictions over the time since their start.

    One picture for positions in each unit, or, where a result knows of none, one of all sensors in
    units of the noise.
    """
    found = []
    for unit, shown, factor in _POSITIONS:
        points = []
        for point in result.horizon:
            own = [joint for joint in point.joints if joint.unit == unit]
            if own:
                before, after = (
                    factor * math.hypot(*each) / math.sqrt(len(own))
                    for each in zip(*((joint.before, joint.after) for joint in own), strict=True)
                )
                points.append(_Ahead(point.role, point.seconds, before, after))
        caption = 'Root mean square over all starts and positions; the table says it of each.'
        found.append(_horizon(points, f'error of positions in {shown}', caption))
    if not any(found):
        points = [_Ahead(p.role, p.seconds, p.before, p.after) for p in result.horizon]
        caption = 'Root mean square of what all sensors measured less what was predicted.'
        found.append(_horizon(points, 'error in units of the noise', caption))
    return tuple(picture for picture in found if picture is not None)


def _horizon(points: Sequence[_Ahead], axis: str, caption: str) -> Horizon | None:
    """Lay out errors over the time since a start; None where these are no line."""
    points = [
        p
        for p in points
        if p.seconds > 0 and all(math.isfinite(e) and e > 0 for e in (p.before, p.after))
    ]
    seconds = sorted({p.seconds for p in points})
    if len(seconds) < 2:  # noqa: PLR2004 (a line has two ends)
        return None
    errors = [e for p in points for e in (p.before, p.after)]
    across, up = _logarithmic(seconds), _logarithmic(errors)
    ticks = _round_numbers(up, (1, 2, 5))
    ticks = ticks[:: max(math.ceil(len(ticks) / _HORIZON_TICKS), 1)]
    lines = []
    for role in ROLES[::-1]:
        own = sorted((p for p in points if p.role == role), key=lambda p: p.seconds)
        for kind in ('before', 'after'):
            drawn = []
            for point in own:
                left = 100 * across.position(point.seconds)
                drawn.append(f'{left:.2f},{100 - 100 * up.position(getattr(point, kind)):.2f}')
            if own:
                lines.append(Line(role, kind, ' '.join(drawn)))
    return Horizon(
        tuple(lines),
        tuple(Tick(100 * across.position(s), significant(s, 2)) for s in seconds),
        tuple(Tick(100 - 100 * up.position(e), significant(e, 2)) for e in ticks),
        axis,
        caption,
    )


def _logarithmic(numbers: Iterable[float]) -> _Axis:
    """Return an axis from the least to the largest of some positive numbers."""
    logs = [math.log10(number) for number in numbers]
    middle = (min(logs) + max(logs)) / 2
    half = max((max(logs) - min(logs)) / 2, 0.1)
    return _Axis(middle - half, middle + half, logarithmic=True)

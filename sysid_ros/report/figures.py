# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Figures of a result: PNG for notebooks, SVG for the report, and curves for its script."""

from __future__ import annotations

import base64
import io
import itertools
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import matplotlib as mpl
import numpy as np
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
from numpy.typing import ArrayLike, NDArray

from sysid_ros.alignment.health import Grade, Span
from sysid_ros.config.schema import GateConfig, Role
from sysid_ros.errors import listed, one_line, short
from sysid_ros.report.numbers import significant
from sysid_ros.results.result import (
    MORE,
    MUCH,
    ROLE_NAMES,
    ROLES,
    SOME,
    CalibrationResult,
    ParameterResult,
    RecordedBag,
    SensorError,
    SignalPlot,
)

#: Colours that people with any colour vision tell apart, and by lightness in grey.
MEASURED, BEFORE, AFTER, INK = '#8a8f98', '#c2570c', '#0b5cad', '#22262b'
_GRID, _FAULT, _CAUTION = '#e3e5e8', '#a32323', '#7d5200'
#: What they are on a dark page.
_ON_DARK = {
    MEASURED: '#8b929c',
    BEFORE: '#f2a154',
    AFTER: '#6cb6ff',
    INK: '#b3bac4',
    _GRID: '#31363e',
    _FAULT: '#ff9d94',
    _CAUTION: '#f0c168',
}
_GRADES = {Grade.FAULT: _FAULT, Grade.CAUTION: _CAUTION, Grade.NOTE: MEASURED}

#: Of a wide and a narrow figure, of a panel and of a row, in inches; and panels side by side.
_WIDTH, _NARROW, _PANEL_HEIGHT, _ROW_HEIGHT, _COLUMNS = 12.0, 7.5, 2.1, 0.28, 3
#: What an axis is wider than what is on it, as a part of that.
_MARGIN = 0.05
#: Of longer names, the middle is left out.
_LONGEST = 60
#: Values are 16-bit counts of steps from their middle; the lowest count is a gap.
_COUNTS = np.iinfo(np.int16)
#: Residuals of these units are mostly small beside them, and are said in thousandths.
_THOUSANDTHS = {'rad': 'mrad', 'm': 'mm', 'rad/s': 'mrad/s', 'm/s': 'mm/s'}


# Signals by sequence


class SignalFigure(NamedTuple):
    """One plot of the report: its number among all plots, its data and its caption's numbers."""

    number: int
    plot: SignalPlot
    error: SensorError | None

    @property
    def has_strip(self) -> bool:
        """Whether the command needs an axis of its own, as it has another unit."""
        return bool(self.plot.command) and self.plot.command_unit != self.plot.unit


class SequenceFigures(NamedTuple):
    """All plots of one sequence."""

    sequence: str
    role: Role
    figures: tuple[SignalFigure, ...]


def sequences(result: CalibrationResult) -> list[SequenceFigures]:
    """Group the plots by sequence, held-out sequences first."""
    errors = {(error.sensor, error.role): error for error in result.errors}
    groups: dict[tuple[Role, str], list[SignalPlot]] = {}
    for plot in sorted(result.plots, key=lambda plot: plot.role != 'validate'):
        groups.setdefault((plot.role, plot.sequence), []).append(plot)
    number = itertools.count()
    return [
        SequenceFigures(
            name,
            role,
            tuple(SignalFigure(next(number), own, errors.get((own.sensor, role))) for own in plots),
        )
        for (role, name), plots in groups.items()
    ]


def limits(plot: SignalPlot) -> tuple[float, float] | None:
    """Return where a plot's axis ends when a prediction goes far beyond what was measured.

    A model may diverge with its nominal parameters; drawn in full, it would hide everything else.
    """
    measured = np.asarray(plot.measured, dtype=np.float64)
    measured = measured[np.isfinite(measured)]
    span = float(np.ptp(measured)) if len(measured) else 0.0
    if span == 0:
        return None
    low = float(measured.min()) - MORE * span
    high = float(measured.max()) + MORE * span
    predicted = np.concatenate([plot.before, plot.after, *edges(plot)])
    predicted = predicted[np.isfinite(predicted)]
    if np.all((low <= predicted) & (predicted <= high)):
        return None
    bottom, top = min(measured.min(), predicted.min()), max(measured.max(), predicted.max())
    margin = _MARGIN * span
    return max(low, float(bottom) - margin), min(high, float(top) + margin)


def edges(plot: SignalPlot) -> tuple[NDArray[np.float64], ...]:
    """Return both edges of a plot's band; none where it has none."""
    if not plot.band:
        return ()
    after, band = np.asarray(plot.after), np.asarray(plot.band)
    return after - band, after + band


class Packed(NamedTuple):
    """Values as 16-bit little-endian counts in base64: ``middle + step * count``, or a gap."""

    middle: float
    step: float
    text: str


def packed(values: ArrayLike) -> Packed:
    """Pack (n,) values; what is not finite becomes a gap."""
    given = np.asarray(values, dtype=np.float64)
    known = np.isfinite(given)
    low, high = (given[known].min(), given[known].max()) if known.any() else (0.0, 0.0)
    most = _COUNTS.max
    middle, step = low / 2 + high / 2, high / (2 * most) - low / (2 * most) or 1.0
    counts = np.clip(np.round(np.where(known, given - middle, 0.0) / step), -most, most)
    stored = np.where(known, counts, _COUNTS.min).astype('<i2')
    return Packed(float(middle), float(step), base64.b64encode(stored.tobytes()).decode())


def curves_json(result: CalibrationResult, groups: Sequence[SequenceFigures]) -> Markup:
    """Pack all plots in the order of the report.

    Arrays that plots share, as stamps and commands, are stored once, and named by their place.
    """
    shared: dict[Packed, int] = {}
    sigmas = {scale.sensor: scale.sigma for scale in result.noise}
    plots = [_plot(figure, sigmas, shared) for group in groups for figure in group.figures]
    # Safe inside a script element, whatever the strings hold.
    return htmlsafe_json_dumps(
        {'plots': plots, 'shared': list(shared)}, allow_nan=False, separators=(',', ':')
    )


def _plot(
    figure: SignalFigure, sigmas: dict[str, float], shared: dict[Packed, int]
) -> dict[str, Any]:
    """Return one plot; far predictions end where nobody sees it, to leave the steps to the others.

    Measured minus fitted is packed by itself, as it may be smaller than a step of these.
    """
    plot = figure.plot
    ends = limits(plot)
    low, high = (
        (-math.inf, math.inf) if ends is None else (2 * ends[0] - ends[1], 2 * ends[1] - ends[0])
    )
    nominal, fitted = (np.clip(own, low, high) for own in (plot.before, plot.after))
    residual = np.subtract(plot.measured, fitted)
    # The noise of a sensor with several components is that of all of them.
    sigma = sigmas.get(plot.sensor, sigmas.get(plot.sensor.partition('[')[0], math.nan))
    known = np.abs(residual[np.isfinite(residual)])
    small = plot.unit in _THOUSANDTHS and len(known) > 0 and float(np.median(known)) < SOME

    def place(values: Sequence[float]) -> int:
        return shared.setdefault(packed(values), len(shared))

    return {
        'times': place(plot.times),
        'unit': plot.unit,
        'range': ends,
        'measured': packed(plot.measured),
        'fitted': packed(fitted),
        'nominal': packed(nominal),
        'residual': packed(residual),
        'residualUnit': [1e3, _THOUSANDTHS[plot.unit]] if small else [1.0, plot.unit],
        'sigma': sigma if math.isfinite(sigma) else None,
        'band': packed(plot.band) if plot.band else None,
        'command': place(plot.command) if plot.command else None,
        'commandUnit': plot.command_unit,
        'strip': figure.has_strip,
        'lags': [float(f'{lag:.3g}') for lag in plot.lags],
        'autocorrelation': packed(plot.autocorrelation),
        'samples': plot.samples,
    }


class Event(NamedTuple):
    """Something that has times: what it is, and when, s from the start of the bag."""

    grade: Grade
    what: str
    spans: tuple[Span, ...]

    @property
    def when(self) -> str:
        """The first times in words."""
        ends = ((f'{begin:.2f}', f'{end:.2f}') for begin, end in self.spans)
        return listed((f'{a} s' if a == b else f'{a} to {b} s' for a, b in ends))


def events(result: CalibrationResult) -> list[tuple[RecordedBag, tuple[Event, ...]]]:
    """Return what happened at a certain time in each recording, the worst first."""
    grades = list(Grade)
    return [
        (bag, tuple(sorted(_events(result, bag), key=lambda event: grades.index(event.grade))))
        for bag in result.recordings
    ]


def _events(result: CalibrationResult, bag: RecordedBag) -> Iterator[Event]:
    begins = {sequence.name: sequence.begin for sequence in bag.sequences}
    for finding in result.health:
        if finding.spans and finding.bag in {bag.bag, *begins}:
            told = finding.subject == finding.bag or finding.subject in finding.kind
            where = '' if told else f' in {finding.subject}'
            yield Event(finding.kind.grade, f'{finding.kind}{where}', finding.spans)
    # What part of its range a position may stand still for, as was asked for.
    gate = result.provenance.config.get('gate')
    share = gate.get('stuck_share') if isinstance(gate, dict) else None
    allowed = float(share) if isinstance(share, int | float) else GateConfig().stuck_share
    for still in result.diagnostics.standstills:
        stuck = still.predicted_movement > still.least_movement(allowed)
        if stuck and still.sequence in begins:
            begin = begins[still.sequence] + still.start
            span = (begin, begin + still.seconds)
            yield Event(Grade.FAULT, f'standstill in {still.sensor}', (span,))


# Figures


class Drawing(Figure):
    """A figure that a notebook shows; pyplot is not involved."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer)
        return buffer.getvalue()


def svg(figure: Figure) -> str:
    """Return a figure as SVG whose colours suit light and dark pages."""
    buffer = io.StringIO()
    with warnings.catch_warnings(), mpl.rc_context({'svg.fonttype': 'none'}):
        # Texts stay texts, and pages have other fonts.
        warnings.filterwarnings('ignore', message='Glyph .* missing')
        figure.savefig(buffer, format='svg', transparent=True, metadata={'Date': None})
    text = buffer.getvalue()
    for light in _ON_DARK:
        text = text.replace(light, f'var(--{light[1:]})')
    light = ''.join(f'--{color[1:]}:{color};' for color in _ON_DARK)
    dark = ''.join(f'--{color[1:]}:{other};' for color, other in _ON_DARK.items())
    media = '@media screen and (prefers-color-scheme:dark)'
    return text.replace(
        '<defs>', f'<style>:root{{{light}}}{media}{{:root{{{dark}}}}}</style><defs>', 1
    )


def blank(height: float, width: float = _WIDTH) -> Drawing:
    """Return an empty figure."""
    return Drawing(figsize=(width, height), layout='constrained')


def calm(axes: Axes) -> None:
    """Draw a thin grid and no more frame than is needed."""
    axes.spines[['top', 'right']].set_visible(False)
    axes.spines[:].set_color(INK)
    axes.tick_params(which='both', labelsize=8, color=INK, labelcolor=INK)
    axes.grid(visible=True, color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def shown(text: str) -> str:
    """Return a name as it fits into a picture, where a line break would move everything else."""
    return short(one_line(text), _LONGEST)


def _title(axes: Axes, text: str) -> None:
    """Set a title literally: a name may hold dollars, which would start a formula."""
    # With y given, no draw looks for ticks above the axes, of which there are none.
    axes.set_title(shown(text), loc='left', y=1.0, fontsize=9, color=INK).set_parse_math(False)


def _rows(axes: Axes, names: Sequence[str]) -> None:
    """Name the rows of a picture, the first on top."""
    axes.set_yticks(range(len(names)), [shown(name) for name in names], parse_math=False)
    axes.set_ylim(len(names) - 0.5, -0.5)


def _label(axis: Axis, text: str) -> None:
    axis.set_label_text(text, fontsize=8, color=INK)


def _logarithmic(axes: Axes, which: Literal['x', 'y']) -> None:
    """Make an axis logarithmic, with 1, 2 and 5 times powers of ten where some of them are seen."""
    axes.set(**{f'{which}scale': 'log'})
    low, high = getattr(axes, f'get_{which}lim')()
    axis: Axis = getattr(axes, f'{which}axis')
    wide = math.log10(high / low) > 1
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)) if wide else MaxNLocator('auto'))
    axis.set_major_formatter(lambda value, _: significant(value))
    axis.set_minor_formatter(NullFormatter())


def draw_parameters(result: CalibrationResult, truth: Mapping[str, float] | None = None) -> Drawing:
    """Draw values, intervals and nominal values of the parameters, and true ones known by name.

    They have different units, so each is divided by its nominal value, or, where that is zero, by
    the size of the fitted value.
    """
    titles = ('value ÷ nominal value', 'nominal value is zero: value ÷ its size')
    parts = ([p for p in result.parameters if bool(p.initial) is known] for known in (True, False))
    groups = [(title, own) for title, own in zip(titles, parts, strict=True) if own]
    heights = [_ROW_HEIGHT * len(own) + 0.6 for _, own in groups]
    figure = blank(sum(heights), _NARROW)
    grid = figure.subplots(len(groups), 1, squeeze=False, height_ratios=heights)
    for axes, (title, own) in zip(grid[:, 0], groups, strict=True):
        _draw_intervals(axes, own, truth or {})
        _label(axes.xaxis, title)
    return figure


def _draw_intervals(
    axes: Axes, parameters: Sequence[ParameterResult], truth: Mapping[str, float]
) -> None:
    """Draw parameters on an axis of their ratios; an interval that leaves it ends in an arrow."""
    numbers = []
    for p in parameters:
        ends = [abs(x) for x in (p.low, p.high) if math.isfinite(x)]
        size = p.initial or abs(p.value) or max(ends, default=0.0) or 1.0
        own = (p.initial, p.value, truth.get(p.name, math.nan), p.low, p.high)
        numbers.append([x / size for x in own])
    initial, value, true, *ends = np.array(numbers).T
    low, high = np.sort(ends, axis=0)
    points = np.concatenate([initial, value, true[np.isfinite(true)]])
    if points.min() > 0 and math.log10(points.max() / points.min()) > 1:
        positive = low > 0
        logs = (np.log10(side[positive]) for side in (low, high))
        left, right = (10**end for end in _limits(np.log10(points), *logs))
        axes.set_xlim(left, right)
        _logarithmic(axes, 'x')
    else:
        left, right = _limits(points, low, high)
        axes.set_xlim(left, right)
    rows = np.arange(len(parameters))
    known = np.isfinite(value) & ~np.isnan(low) & ~np.isnan(high)
    drawn = np.clip(low, left, right), np.clip(high, left, right)
    axes.hlines(rows[known], *(side[known] for side in drawn), color=AFTER, linewidth=3, alpha=0.55)
    axes.plot(initial, rows, '|', color=BEFORE, markersize=11, markeredgewidth=2)
    for places, where, style, color, face in (
        (value, known, 'o', AFTER, AFTER),
        (value, ~known, 'o', AFTER, 'none'),
        (true, np.isfinite(true), 'D', INK, 'none'),
        (np.full_like(value, left), known & (low < left), '<', AFTER, AFTER),
        (np.full_like(value, right), known & (high > right), '>', AFTER, AFTER),
    ):
        # The layout would make room for nothing at the origin.
        if where.any():
            axes.plot(
                places[where], rows[where], style, color=color, markerfacecolor=face, clip_on=False
            )
    _rows(axes, [p.name for p in parameters])
    calm(axes)


def _limits(points: np.ndarray, *ends: np.ndarray) -> tuple[float, float]:
    """Return the ends of an axis on which all points are seen, and most of the intervals."""
    middle, half = (points.max() + points.min()) / 2, np.ptp(points) / 2
    half = max(half, SOME / 2)
    most = (1 + 2 * MUCH) * half
    finite = np.concatenate([own[np.isfinite(own)] for own in ends])
    left = max(middle - most, min([middle - half, *finite]))
    right = min(middle + most, max([middle + half, *finite]))
    margin = _MARGIN * (right - left)
    return float(left - margin), float(right + margin)


def draw_horizon(result: CalibrationResult) -> Drawing:
    """Draw the error of predictions over the time since their start."""
    figure = blank(2.8, _NARROW)
    axes = figure.subplots()
    for role in ROLES:
        own = sorted((p for p in result.horizon if p.role == role), key=lambda p: p.seconds)
        seconds = [point.seconds for point in own]
        line = '--' if role == 'train' else '-'
        for kind, color in (('before', BEFORE), ('after', AFTER)):
            errors = [getattr(point, kind) for point in own]
            name = f'{"nominal" if kind == "before" else "fitted"}, {ROLE_NAMES[role]}'
            if own:
                axes.plot(seconds, errors, line, marker='o', markersize=3, color=color, label=name)
    _logarithmic(axes, 'x')
    _logarithmic(axes, 'y')
    _label(axes.xaxis, 'time since the start in s')
    _label(axes.yaxis, 'error in units of the noise')
    calm(axes)
    figure.legend(loc='outside upper left', ncols=4, fontsize=8, frameon=False, labelcolor=INK)
    return figure


def draw_recordings(result: CalibrationResult, most: int) -> Drawing:
    """Draw what was used of the first recordings, and when something was wrong."""
    bags = result.recordings[:most]
    longest = max(bag.seconds for bag in bags)
    figure = blank(_ROW_HEIGHT * len(bags) + 0.6, _NARROW)
    axes = figure.subplots()
    for row, (bag, found) in enumerate(events(result)[:most]):
        axes.broken_barh([(0, bag.seconds)], (row - 0.25, 0.5), color=_GRID)
        used = [(own.begin, own.end - own.begin) for own in bag.sequences]
        axes.broken_barh(used, (row - 0.25, 0.5), color=AFTER, alpha=0.3, linewidth=0)
        for event in reversed(found):
            # The edge shows what takes no time.
            spans = [(a, b - a) for a, b in event.spans]
            axes.broken_barh(spans, (row - 0.4, 0.8), color=_GRADES[event.grade], linewidth=1.5)
    _rows(axes, [bag.bag for bag in bags])
    _label(axes.xaxis, 'time since the first measurement in s')
    axes.set_xlim(0, longest)
    calm(axes)
    return figure


def draw_trace(result: CalibrationResult) -> Drawing:
    """Draw the cost over the iterations of the solver."""
    figure = blank(2.4, _NARROW)
    axes = figure.subplots()
    known = [entry for entry in result.solver.trace if math.isfinite(entry.cost)]
    costs = [entry.cost for entry in known]
    axes.plot([entry.number for entry in known], costs, 'o-', color=AFTER, markersize=4)
    if any(cost > 0 for cost in costs):
        _logarithmic(axes, 'y')
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _label(axes.xaxis, 'iteration')
    _label(axes.yaxis, 'cost')
    calm(axes)
    return figure


def draw_sensors(result: CalibrationResult, sensor: str | None = None) -> Drawing:
    """Draw all sensors or one of a sequence, held out where any is: measured and predicted."""
    group = sequences(result)[0]
    entries = [entry for entry in group.figures if sensor in {None, entry.plot.sensor}]
    count = len(entries)
    columns = min(_COLUMNS, count)
    figure = blank(_PANEL_HEIGHT * math.ceil(count / columns) + 0.9)
    grid = figure.subplots(math.ceil(count / columns), columns, squeeze=False, sharex=True)
    for axes in grid.flat[count:]:
        axes.set_visible(False)
    for axes, entry in zip(grid.flat, entries, strict=False):
        plot = entry.plot
        axes.plot(plot.times, plot.measured, color=MEASURED, linewidth=2.4, label='measured')
        axes.plot(plot.times, plot.before, '--', color=BEFORE, linewidth=1.0, label='nominal')
        axes.plot(plot.times, plot.after, color=AFTER, linewidth=1.0, label='fitted')
        if plot.band:
            low, high = edges(plot)
            axes.fill_between(plot.times, low, high, color=AFTER, alpha=0.15, linewidth=0)
        ends = limits(plot)
        if ends is not None:
            axes.set_ylim(*ends)
        _title(axes, f'{plot.sensor} [{plot.unit or "1"}]')
        calm(axes)
    for axes in grid.flat[max(count - columns, 0) : count]:
        axes.tick_params(labelbottom=True)
        _label(axes.xaxis, 'time in s')
    lines = grid.flat[0].get_legend_handles_labels()
    figure.legend(*lines, loc='outside upper right', ncols=3, fontsize=9, frameon=False)
    name = f'{shown(group.sequence)} ({ROLE_NAMES[group.role]})'
    figure.suptitle(name, fontsize=11, x=0.01, ha='left').set_parse_math(False)
    return figure

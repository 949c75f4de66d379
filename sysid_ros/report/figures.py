# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Figures of a result, for notebooks as PNG and for the report as SVG."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from sysid_ros.alignment.health import Grade
from sysid_ros.errors import one_line, short
from sysid_ros.report import signals
from sysid_ros.report.numbers import significant
from sysid_ros.results.result import ROLE_NAMES, ROLES, CalibrationResult, ParameterResult

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

_DPI = 120
_WIDTH, _NARROW = 12.0, 7.5  # inches
_PANEL_HEIGHT = 2.1  # inches
_ROW_HEIGHT = 0.28  # inches
_COLUMNS = 3
_TICKS, _DECADE = 6, 10.0
#: Of longer names, the middle is left out.
_LONGEST = 60
#: Ratios further apart than this go on a logarithmic axis.
_LINEAR_SPREAD = 6.0
#: An axis of ratios is at least this wide, so that a change of a thousandth looks like one.
_LEAST_SPAN = 0.1
#: Intervals may widen an axis by this share of what the points need, and are cut beyond.
_INTERVAL_SHARE, _MARGIN = 0.6, 0.05
#: An event that takes no time is this part of the longest recording wide.
_NARROWEST = 0.003


class Drawing(Figure):
    """A figure that a notebook shows; pyplot is not involved."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, dpi=_DPI)
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
    wide = high > _DECADE * low
    axis.set_major_locator(
        LogLocator(subs=(1, 2, 5), numticks=_TICKS) if wide else MaxNLocator(_TICKS)
    )
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
    if points.min() > 0 and points.max() / points.min() > _LINEAR_SPREAD:
        positive = low > 0
        logs = (np.log10(side[positive]) for side in (low, high))
        left, right = (10**end for end in _limits(np.log10(points), *logs))
        axes.set_xlim(left, right)
        _logarithmic(axes, 'x')
    else:
        left, right = _limits(points, low, high)
        axes.set_xlim(left, right)
        axes.xaxis.set_major_locator(MaxNLocator(_TICKS))
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
    half = max(half, _LEAST_SPAN / 2)
    most = (1 + 2 * _INTERVAL_SHARE) * half
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
    for row, (bag, found) in enumerate(signals.events(result)[:most]):
        axes.broken_barh([(0, bag.seconds)], (row - 0.25, 0.5), color=_GRID)
        used = [(own.begin, own.end - own.begin) for own in bag.sequences]
        axes.broken_barh(used, (row - 0.25, 0.5), color=AFTER, alpha=0.3, linewidth=0)
        for event in reversed(found):
            spans = [(a, max(b - a, _NARROWEST * longest)) for a, b in event.spans]
            axes.broken_barh(spans, (row - 0.4, 0.8), color=_GRADES[event.grade])
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
    group = signals.sequences(result)[0]
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
            low, high = signals.edges(plot)
            axes.fill_between(plot.times, low, high, color=AFTER, alpha=0.15, linewidth=0)
        ends = signals.limits(plot)
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

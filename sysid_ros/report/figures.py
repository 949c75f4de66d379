# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""PNG figures of a result, for papers, tickets and terminals without a browser."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sysid_ros.files import replace_file
from sysid_ros.report import pictures, signals
from sysid_ros.report.numbers import significant
from sysid_ros.results.result import ROLE_NAMES
from sysid_ros.text import file_stems, one_line, short

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from sysid_ros.results.result import CalibrationResult

#: Colours that people with any colour vision tell apart, and by lightness in grey.
MEASURED, BEFORE, AFTER, INK = '#8a8f98', '#c2570c', '#0b5cad', '#22262b'

_DPI = 120
#: Of zlib, 0 to 9: from here on, the files of curves hardly become smaller, and take longer.
_COMPRESSION = 3
_WIDTH = 12.0  # inches
_PANEL_HEIGHT = 2.1  # inches
_ROW_HEIGHT = 0.3  # inches
_COLUMNS = 3
#: Of longer names, the middle is left out.
_LONGEST = 100


class Drawing(Figure):
    """A figure that a notebook shows; pyplot is not involved."""

    def _repr_png_(self) -> bytes:
        buffer, dpi = io.BytesIO(), self.dpi
        self.dpi = _DPI
        try:
            # Other than savefig, this lays the figure out once, not before drawing and with it.
            canvas: Any = FigureCanvasAgg(self)
            canvas.print_png(buffer, pil_kwargs={'compress_level': _COMPRESSION})
        finally:
            self.dpi = dpi
        return buffer.getvalue()


def blank(height: float, width: float = _WIDTH) -> Drawing:
    """Return an empty figure with an Agg canvas of its own."""
    figure = Drawing(figsize=(width, height), layout='constrained')
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Drawing, path: Path) -> Path:
    replace_file(path, figure._repr_png_())
    return path


def calm(axes: Axes) -> None:
    """Draw a thin grid and no more frame than is needed."""
    axes.spines[['top', 'right']].set_visible(False)
    axes.tick_params(labelsize=8, colors=INK)
    axes.grid(visible=True, color='#e3e5e8', linewidth=0.6)
    axes.set_axisbelow(True)


def _title(axes: Axes, text: str) -> None:
    """Set a title literally: a name may hold dollars, which would start a formula."""
    # With y given, no draw looks for ticks above the axes, of which there are none.
    axes.set_title(shown(text), loc='left', y=1.0, fontsize=9, color=INK).set_parse_math(False)


def shown(text: str) -> str:
    """Return a name as it fits into a picture, where a line break would move everything else."""
    return short(one_line(text), _LONGEST)


def _unlabelled(*every: Axis) -> None:
    """Fix where labels of axes would be that have none, so that no draw looks for a place."""
    for axis in every:
        axis.set_label_coords(0.0, 0.0)


def _draw_panel(axes: Axes, panel: pictures.Panel) -> None:
    """Draw values and intervals of the parameters that share an axis."""
    rows = range(len(panel.marks))
    for row, mark in zip(rows, panel.marks, strict=True):
        if mark.low is not None and mark.high is not None:
            axes.plot([mark.low, mark.high], [row, row], color=AFTER, linewidth=2)
        for cut, end, marker in ((mark.cut_low, 0.0, '<'), (mark.cut_high, 1.0, '>')):
            if cut:
                axes.plot(end, row, marker, color=AFTER, markersize=6, clip_on=False)
        axes.plot(mark.initial, row, '|', color=BEFORE, markersize=12, markeredgewidth=2)
        face = AFTER if mark.low is not None else 'white'
        axes.plot(mark.value, row, 'o', color=AFTER, markerfacecolor=face, markersize=6)
        if mark.truth is not None:
            axes.plot(mark.truth, row, 'D', color=INK, markerfacecolor='none', markersize=7)
    axes.set_yticks(list(rows), [shown(mark.parameter.name) for mark in panel.marks])
    axes.set_xticks([tick.position for tick in panel.ticks], [tick.label for tick in panel.ticks])
    calm(axes)
    for label in (*axes.get_yticklabels(), *axes.get_xticklabels()):
        label.set_parse_math(False)
    _unlabelled(axes.xaxis, axes.yaxis)
    axes.set_xlim(0, 1)
    axes.set_ylim(len(panel.marks) - 0.5, -0.5)
    _title(axes, panel.title + (' (logarithmic)' if panel.logarithmic else ''))


def draw_parameters(result: CalibrationResult) -> Drawing:
    """Draw values, intervals and nominal values of the parameters."""
    panels = pictures.panels(result)
    heights = [_ROW_HEIGHT * len(panel.marks) + 0.8 for panel in panels]
    figure = blank(sum(heights) + 0.6, width=9.0)
    grid = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)
    for axes, panel in zip(grid[:, 0], panels, strict=True):
        _draw_panel(axes, panel)
    figure.suptitle(
        'Fitted value (dot), 95 % interval (line), nominal value (bar); hollow: no interval',
        fontsize=9,
        x=0.01,
        ha='left',
    )
    return figure


class _SequenceDrawing:
    """A figure of any sequence with so many sensors: axes and ticks take longest to make."""

    def __init__(self, count: int) -> None:
        columns = min(_COLUMNS, count)
        rows = math.ceil(count / columns)
        self.figure = blank(_PANEL_HEIGHT * rows + 0.9)
        grid = self.figure.subplots(rows, columns, squeeze=False, sharex=True)
        self.panels: list[Axes] = list(grid.flat[:count])
        for axes in self.panels:
            axes.plot([], [], color=MEASURED, linewidth=2.4, label='measured')
            axes.plot([], [], '--', color=BEFORE, linewidth=1.0, label='nominal')
            axes.plot([], [], color=AFTER, linewidth=1.0, label='fitted')
            calm(axes)
            _unlabelled(axes.yaxis)
        for axes in self.panels[:-columns]:
            _unlabelled(axes.xaxis)
        for axes in grid.flat[count:]:
            axes.set_visible(False)
        for axes in self.panels[-columns:]:
            axes.tick_params(labelbottom=True)
            axes.set_xlabel('time [s]', fontsize=8)
        self.figure.legend(
            *self.panels[0].get_legend_handles_labels(),
            loc='outside upper right',
            ncols=3,
            fontsize=9,
            frameon=False,
        )

    def show(self, group: signals.SequenceFigures) -> None:
        """Draw one sequence in place of what was drawn before."""
        for axes, entry in zip(self.panels, group.figures, strict=True):
            plot = entry.plot
            for old in list(axes.collections):
                old.remove()
            for line, values in zip(
                axes.lines, (plot.measured, plot.before, plot.after), strict=True
            ):
                line.set_data(plot.times, values)
            axes.relim()
            axes.autoscale()
            if plot.band:
                low, high = signals.edges(plot)
                axes.fill_between(plot.times, low, high, color=AFTER, alpha=0.15, linewidth=0)
            ends = signals.limits(plot)
            if ends is not None:
                axes.set_ylim(*ends)
            _title(axes, f'{plot.sensor} [{plot.unit or "1"}]')
        name = f'{shown(group.sequence)} ({ROLE_NAMES[group.role]})'
        self.figure.suptitle(name, fontsize=11, x=0.01, ha='left').set_parse_math(False)


def draw_sequence(group: signals.SequenceFigures) -> Drawing:
    """Draw what was measured in one sequence, and the predictions, nominal and fitted."""
    drawing = _SequenceDrawing(len(group.figures))
    drawing.show(group)
    return drawing.figure


def draw_sensors(result: CalibrationResult, sensor: str | None = None) -> Drawing:
    """Draw one sequence of a result, a held-out one where there is any: all sensors or one."""
    group = signals.sequences(result)[0]
    if sensor is not None:
        shown = tuple(entry for entry in group.figures if entry.plot.sensor == sensor)
        group = group._replace(figures=shown)
    return draw_sequence(group)


def _trace(result: CalibrationResult, folder: Path) -> Path:
    figure = blank(3.4, width=7.0)
    axes = figure.subplots()
    trace = result.solver.trace
    costs = np.array([entry.cost for entry in trace])
    axes.plot([entry.iteration for entry in trace], costs, 'o-', color=AFTER, markersize=4)
    if np.any(costs > 0):
        axes.set_yscale('log')
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel('iteration', fontsize=9)
    axes.set_ylabel('cost', fontsize=9)
    calm(axes)
    final = significant(result.solver.final_cost)
    _title(axes, f'{result.solver.backend}: {result.solver.status}, final cost {final}')
    return _save(figure, folder / 'solver_trace.png')


def write_figures(result: CalibrationResult, folder: Path) -> tuple[Path, ...]:
    """Write the figures of a result as PNG files into a folder, and return their paths.

    They are ``parameters.png``, one ``sequence_NAME.png`` per sequence with the held-out ones
    first, and ``solver_trace.png``. What the result has no data for is left out.

    Raises:
        ResultError: The folder cannot be written.
    """
    written: list[Path] = []
    if result.parameters:
        written.append(_save(draw_parameters(result), folder / 'parameters.png'))
    groups = signals.sequences(result)
    drawings: dict[int, _SequenceDrawing] = {}
    for group, name in zip(groups, file_stems(group.sequence for group in groups), strict=True):
        count = len(group.figures)
        if count not in drawings:
            drawings[count] = _SequenceDrawing(count)
        drawings[count].show(group)
        written.append(_save(drawings[count].figure, folder / f'sequence_{name}.png'))
    if result.solver.trace:
        written.append(_trace(result, folder))
    return tuple(written)

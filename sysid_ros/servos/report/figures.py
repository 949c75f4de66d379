# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""PNG pictures of logs of servos with predictions, and of what predictions miss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from sysid_ros.report.figures import INK, MEASURED
from sysid_ros.report.numbers import padded, significant
from sysid_ros.servos.report.canvas import (
    COLOURS,
    DASHES,
    MILLI,
    SHADE,
    TEXT,
    blank,
    calm,
    head,
    legend,
    png,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_ROW_HEIGHT = 0.32  # inches


class Prediction(NamedTuple):
    """What one parameter file says about a log.

    Attributes:
        name: Of the parameters.
        position: (n,) rad.
        error: Mean absolute error, rad.
    """

    name: str
    position: Array
    error: float


class LogPicture(NamedTuple):
    """A log, and what is drawn over it.

    Attributes:
        title: What stands above.
        times: (n,) s.
        measured: (n,) rad.
        goal: (n,) rad.
        enabled: (n,) 1 where the motor is powered.
        predictions: One per parameter file.
    """

    title: str
    times: Array
    measured: Array
    goal: Array
    enabled: Array
    predictions: Sequence[Prediction]


def draw_log(picture: LogPicture) -> bytes:
    """Draw positions measured, commanded and predicted, and below what predictions miss.

    Returns:
        A PNG file.
    """
    predictions = picture.predictions
    figure = blank(5.6 if predictions else 3.4)
    panels = figure.subplots(
        2 if predictions else 1,
        1,
        squeeze=False,
        sharex=True,
        height_ratios=(3, 2) if predictions else (1,),
    )[:, 0]
    top = panels[0]
    top.plot(
        picture.times,
        picture.goal,
        color=INK,
        linewidth=0.9,
        linestyle=(0, (4, 2)),
        drawstyle='steps-post',
        label='commanded',
    )
    top.plot(picture.times, picture.measured, color=MEASURED, linewidth=3.0, label='measured')
    for place, prediction in enumerate(predictions):
        name = f'{prediction.name}: {padded(MILLI * prediction.error)} mrad'
        top.plot(picture.times, prediction.position, label=name, **_style(place))
        missed = MILLI * (prediction.position - picture.measured)
        panels[1].plot(picture.times, missed, **_style(place))
    top.set_ylabel('position [rad]', fontsize=TEXT, color=INK)
    if predictions:
        panels[1].axhline(0, color=INK, linewidth=0.6)
        panels[1].set_ylabel('predicted minus\nmeasured [mrad]', fontsize=TEXT, color=INK)
    panels[-1].set_xlabel('time [s]', fontsize=TEXT, color=INK)
    off = _shade_off(list(panels), picture)
    for axes in panels:
        calm(axes)
        axes.margins(x=0.01)
    handles, labels = top.get_legend_handles_labels()
    if off:
        handles, labels = [*handles, Patch(color=SHADE)], [*labels, 'motor off']
    head(figure, picture.title)
    legend(figure, handles, labels)
    return png(figure)


def draw_errors(logs: Sequence[str], names: Sequence[str], errors: Array) -> bytes:
    """Draw the mean absolute error of each log by each parameter file.

    Args:
        logs: Names of the L logs.
        names: Of the C parameter files.
        errors: (C, L) rad.

    Returns:
        A PNG file.
    """
    rows = np.arange(len(logs) + 1)
    figure = blank(_ROW_HEIGHT * len(rows) + 1.3, width=9.0)
    axes = figure.subplots()
    means = MILLI * np.column_stack([errors, errors.mean(axis=1)])
    for place, values in enumerate(means):
        # Side by side, so that equal values do not hide each other.
        shift = 0.5 * ((place + 0.5) / len(names) - 0.5)
        colour = COLOURS[place % len(COLOURS)]
        face = colour if place < len(COLOURS) else 'white'
        axes.plot(values, rows + shift, 'o', color=colour, markerfacecolor=face, markersize=5)
    axes.axhline(len(logs) - 0.5, color=INK, linewidth=0.6)
    axes.set_yticks(rows, [*logs, 'mean of all logs'])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    positive = means[means > 0]
    if len(positive) and positive.max() > 10 * positive.min():
        axes.set_xscale('log')
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: significant(value, 2)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.set_xlabel('mean absolute error [mrad]', fontsize=TEXT, color=INK)
    calm(axes)
    for label in axes.get_yticklabels():
        label.set_parse_math(False)
    handles = [
        Line2D(
            [],
            [],
            linestyle='none',
            marker='o',
            color=COLOURS[place % len(COLOURS)],
            markerfacecolor=COLOURS[place] if place < len(COLOURS) else 'white',
        )
        for place in range(len(names))
    ]
    labels = [
        f'{name}: {padded(float(row[-1]))} mrad' for name, row in zip(names, means, strict=True)
    ]
    head(figure, 'Mean absolute error')
    legend(figure, handles, labels)
    return png(figure)


def _style(place: int) -> dict[str, Any]:
    return {
        'color': COLOURS[place % len(COLOURS)],
        'linestyle': DASHES[(place // len(COLOURS)) % len(DASHES)],
        'linewidth': 1.1,
    }


def _shade_off(panels: Sequence[Axes], picture: LogPicture) -> bool:
    """Shade where the motor is off; return whether it ever is."""
    off = np.concatenate([[False], picture.enabled <= 0, [False]])
    edges = np.flatnonzero(off[1:] != off[:-1])
    last = len(picture.times) - 1
    for begin, end in edges.reshape(-1, 2):
        for axes in panels:
            axes.axvspan(
                picture.times[begin],
                picture.times[min(end, last)],
                color=SHADE,
                linewidth=0,
                zorder=0,
            )
    return len(edges) > 0

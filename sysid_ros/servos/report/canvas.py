# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the pictures of servos have in common: colours, frames, legends."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sysid_ros.report.figures import AFTER, BEFORE, INK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

#: One per parameter file; told apart with any colour vision, the later ones also by their dashes.
COLOURS = (AFTER, BEFORE, '#009e73', '#a3478a', '#56b4e9', '#e69f00')
DASHES = ('-', '--', ':', '-.')
#: Ground where a motor is off, or where friction holds.
SHADE = '#eceef1'
SMALL, TEXT = 8, 9  # points
MILLI = 1e3

_GRID = '#e3e5e8'
_DPI = 120
_WIDTH = 10.0  # inches


def blank(height: float, width: float = _WIDTH) -> Figure:
    """Return an empty figure with a canvas of its own; sizes are in inches."""
    figure = Figure(figsize=(width, height), layout='constrained')
    FigureCanvasAgg(figure)
    return figure


def png(figure: Figure) -> bytes:
    """Return a figure as a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format='png', dpi=_DPI)
    return buffer.getvalue()


def calm(axes: Axes) -> None:
    """Draw a thin grid and no more frame than is needed."""
    axes.spines[['top', 'right']].set_visible(False)
    axes.tick_params(labelsize=SMALL, colors=INK)
    axes.grid(visible=True, color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def head(figure: Figure, text: str) -> None:
    """Set a title literally: a name may hold dollars, which would start a formula."""
    figure.suptitle(text, x=0.01, ha='left', fontsize=11, color=INK).set_parse_math(False)


def legend(
    figure: Figure, handles: Sequence[Artist], labels: Sequence[str], columns: int = 4
) -> None:
    """Put a legend below everything."""
    found = figure.legend(
        list(handles),
        list(labels),
        loc='outside lower left',
        ncols=min(columns, len(labels)),
        fontsize=SMALL,
        frameon=False,
    )
    for text in found.get_texts():
        text.set_parse_math(False)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A picture of a joint: what was measured and commanded over time, and where it is missing."""

from __future__ import annotations

import io

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sysid_ros.alignment.health import gaps
from sysid_ros.errors import one_line
from sysid_ros.inspection.joints import Joint, Trace
from sysid_ros.vocabulary import Quantity

#: As in the figures of a result: told apart by people with any colour vision, and in grey.
_MEASURED, _COMMAND, _GAP, _INK = '#0b5cad', '#c2570c', '#f3d9c6', '#22262b'
_DPI = 120
_WIDTH = 10.0  # inches
_PANEL_HEIGHT = 2.0  # inches
#: A curve is drawn by the least and the greatest value in so many parts of its time.
_PARTS = 2000
#: A gap is drawn at least so wide, as a part of the whole time, so that it is seen.
_LEAST_GAP = 1e-3


def draw_joint(joint: Joint, title: str) -> bytes:
    """Draw position, velocity and effort of a joint, measured and commanded, into a PNG file.

    Commands are drawn as they act: level until the next, or straight to it. Where the measurement
    has a gap, the ground is shaded and the curve is broken. The joint has at least one trace.
    """
    present = {item.quantity for item in joint.traces}
    shown = [quantity for quantity in Quantity if quantity in present]
    figure = Figure(figsize=(_WIDTH, _PANEL_HEIGHT * len(shown) + 0.8), layout='constrained')
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(shown), 1, squeeze=False, sharex=True)[:, 0]
    begin = min(float(item.times[0]) for item in joint.traces)
    end = max(float(item.times[-1]) for item in joint.traces)
    for axes, quantity in zip(panels, shown, strict=True):
        _draw(axes, joint, quantity, end, end - begin)
    panels[-1].set_xlabel('time [s]', fontsize=9, color=_INK)
    figure.suptitle(one_line(title), x=0.01, ha='left', fontsize=10, color=_INK).set_parse_math(
        False
    )
    buffer = io.BytesIO()
    figure.savefig(buffer, format='png', dpi=_DPI)
    return buffer.getvalue()


def _draw(axes: Axes, joint: Joint, quantity: Quantity, end: float, span: float) -> None:
    """Draw one quantity."""
    measured = joint.find(quantity)
    command = joint.find(quantity, command=True)
    if measured is not None:
        missing = gaps(measured.times)
        for number, (left, right) in enumerate(missing):
            width = max(right - left, _LEAST_GAP * span)
            label = f'gap ({len(missing)})' if number == 0 else None
            axes.axvspan(left, left + width, color=_GAP, linewidth=0, label=label, zorder=0)
        times, values = _thinned(measured)
        # At NaN in every gap a curve ends and begins again.
        middle = missing.mean(axis=1)
        places = np.searchsorted(times, middle)
        times, values = np.insert(times, places, middle), np.insert(values, places, np.nan)
        axes.plot(times, values, color=_MEASURED, linewidth=1.1, label=f'measured {quantity}')
    if command is not None:
        times, values = _thinned(command)
        held = np.append(times, max(end, times[-1])), np.append(values, values[-1])
        axes.plot(
            *held,
            color=_COMMAND,
            linewidth=1.1,
            alpha=0.9,
            drawstyle='default' if command.interpolated else 'steps-post',
            label=f'commanded {quantity}',
        )
    unit = next((item.unit for item in (measured, command) if item is not None), '')
    axes.set_ylabel(f'{quantity} [{unit}]' if unit else quantity, fontsize=9, color=_INK)
    axes.spines[['top', 'right']].set_visible(False)
    axes.tick_params(labelsize=8, colors=_INK)
    axes.grid(visible=True, color='#e3e5e8', linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0.01)
    axes.legend(
        loc='lower right',
        bbox_to_anchor=(1, 1),
        borderaxespad=0.1,
        fontsize=8,
        frameon=False,
        ncols=3,
    )


def _thinned(trace: Trace) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a curve that looks the same with at most two points per part of the time."""
    count = len(trace.times)
    if count <= 2 * _PARTS:
        return trace.times, trace.values
    parts = np.array_split(np.arange(count), _PARTS)
    rows = np.unique(
        [part[choose(trace.values[part])] for part in parts for choose in (np.argmin, np.argmax)]
    )
    return trace.times[rows], trace.values[rows]

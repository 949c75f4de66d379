# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""PNG pictures of the friction of servos: by speed and load, and what it holds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from sysid_ros.report.figures import AFTER, BEFORE, INK
from sysid_ros.report.numbers import significant
from sysid_ros.servos.report.canvas import (
    COLOURS,
    DASHES,
    MILLI,
    SHADE,
    SMALL,
    TEXT,
    blank,
    calm,
    head,
    legend,
    png,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.artist import Artist
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


class FrictionCurves(NamedTuple):
    """How large friction is by one parameter file, in N·m, while the motor carries a load.

    Attributes:
        name: Of the parameters.
        speeds: (n,) rad/s.
        by_speed: (2, n) without load and with the largest one.
        loads: (m,) N·m.
        by_load: (2, m) at rest and at the largest speed.
    """

    name: str
    speeds: Array
    by_speed: Array
    loads: Array
    by_load: Array


class DriveCurves(NamedTuple):
    """Between which torques of the motor friction holds a load, by one parameter file.

    Attributes:
        name: Of the parameters.
        loads: (n,) N·m.
        drive: (s, n) N·m; at rest, and far from it where that differs.
        backdrive: (s, n) the same.
    """

    name: str
    loads: Array
    drive: Array
    backdrive: Array


def draw_friction(curves: Sequence[FrictionCurves]) -> bytes:
    """Draw friction over speed and over load, a colour per parameter file.

    Returns:
        A PNG file.
    """
    figure = blank(4.2)
    left, right = figure.subplots(1, 2, sharey=True)
    for place, item in enumerate(curves):
        colour = COLOURS[place % len(COLOURS)]
        # Equal curves lie on each other: those below are wider.
        width = 1.2 + 2.4 * (len(curves) - 1 - place) / len(curves)
        for axes, x, rows in (
            (left, item.speeds, item.by_speed),
            (right, item.loads, item.by_load),
        ):
            for y, dashes in zip(rows, ('-', '--'), strict=True):
                axes.plot(x, MILLI * y, color=colour, linestyle=dashes, linewidth=width)
    left.set_xlabel('speed [rad/s]', fontsize=TEXT, color=INK)
    left.set_ylabel('friction [mN·m]', fontsize=TEXT, color=INK)
    right.set_xlabel('load carried by the motor [N·m]', fontsize=TEXT, color=INK)
    most_load = max(float(item.loads[-1]) for item in curves)
    most_speed = max(float(item.speeds[-1]) for item in curves)
    for axes, plain, dashed in (
        (left, 'without load', f'with {significant(most_load, 2)} N·m'),
        (right, 'at rest', f'at {significant(most_speed, 2)} rad/s'),
    ):
        calm(axes)
        axes.set_ylim(bottom=0)
        axes.margins(x=0)
        axes.set_title(f'solid: {plain}, dashed: {dashed}', fontsize=SMALL, color=INK, loc='left')
    head(figure, 'Friction: what is dry and what is viscous together')
    legend(figure, *_key(item.name for item in curves))
    return png(figure)


def draw_drive(diagrams: Sequence[DriveCurves]) -> bytes:
    """Draw which loads a motor moves, and which move it, a panel per parameter file.

    Returns:
        A PNG file.
    """
    columns = min(len(diagrams), 3)
    count = math.ceil(len(diagrams) / columns)
    figure = blank(3.4 * count + 0.9, width=max(3.5 * columns, 5.0))
    # Titles of panels keep off the panels above.
    figure.set_layout_engine('constrained', h_pad=0.1)
    grid = figure.subplots(count, columns, squeeze=False, sharex=True, sharey=True)
    most = max(float(item.loads[-1]) for item in diagrams)
    for axes, item in zip(grid.flat, diagrams, strict=False):
        from_, until = np.nan_to_num(item.backdrive[0]), np.nan_to_num(item.drive[0], nan=2 * most)
        axes.fill_betweenx(item.loads, from_, until, color=SHADE, linewidth=0)
        for curves, colour in ((item.drive, AFTER), (item.backdrive, BEFORE)):
            for torques, dashes in zip(curves, DASHES, strict=False):
                axes.plot(torques, item.loads, color=colour, linestyle=dashes, linewidth=1.5)
        axes.plot([0, most], [0, most], color=INK, linewidth=0.6)
        calm(axes)
        axes.set_title(item.name, loc='left', fontsize=TEXT, color=INK).set_parse_math(False)
        axes.set_xlim(0, most)
        axes.set_ylim(0, most)
        axes.set_aspect('equal')
    for axes in grid.flat[len(diagrams) :]:
        axes.set_visible(False)
    for axes in grid.flat[max(len(diagrams) - columns, 0) : len(diagrams)]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel('torque of the motor [N·m]', fontsize=TEXT, color=INK)
    for axes in grid[:, 0]:
        axes.set_ylabel('load [N·m]', fontsize=TEXT, color=INK)
    lines: list[tuple[Artist, str]] = [
        (Line2D([], [], color=AFTER), 'the motor moves the load'),
        (Line2D([], [], color=BEFORE), 'the load moves the motor'),
        (Patch(color=SHADE), 'friction holds'),
    ]
    if any(len(item.drive) > 1 for item in diagrams):
        lines += [
            (Line2D([], [], color=INK), 'at rest'),
            (Line2D([], [], color=INK, linestyle='--'), 'far from rest'),
        ]
    head(figure, 'Driven and backdriven')
    handles, labels = [line for line, _ in lines], [text for _, text in lines]
    legend(figure, handles, labels, columns=5 if columns > 1 else 2)
    return png(figure)


def _key(names: Iterable[str]) -> tuple[list[Line2D], list[str]]:
    """Return lines and names for a legend."""
    labels = list(names)
    return [Line2D([], [], color=COLOURS[i % len(COLOURS)]) for i in range(len(labels))], labels

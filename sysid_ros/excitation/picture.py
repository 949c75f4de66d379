# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A picture of a designed motion: commands, speeds and torques against their limits."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sysid_ros.excitation.drives import drives
from sysid_ros.text import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from sysid_ros.excitation.experiment import SimulatedMotion
    from sysid_ros.excitation.limits import Limits
    from sysid_ros.excitation.motion import Motion

#: Colours that people with any colour vision tell apart: command, simulation, limit.
_COMMAND, _SIMULATED, _LIMIT = '#c2570c', '#0b5cad', '#8a8f98'
_DPI = 110
_WIDTH, _ROW_HEIGHT = 13.0, 1.9  # inches


class _Panel(NamedTuple):
    title: str
    values: NDArray[np.float64]
    low: float
    high: float


def draw_motion(motion: Motion, trace: SimulatedMotion, limits: Limits) -> bytes:
    """Draw commands, speeds and torques, a row per actuator, as PNG.

    Args:
        motion: The commands.
        trace: The simulation with the nominal parameters.
        limits: Drawn as dashed lines, and the part of them that may be used as dotted ones.
    """
    model = limits.model
    chosen = drives(model)
    figure = Figure(figsize=(_WIDTH, _ROW_HEIGHT * len(chosen) + 0.6), layout='constrained')
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(chosen), 3, squeeze=False, sharex=True)
    for row, drive in enumerate(chosen):
        limit = float(np.abs(model.actuator_forcerange[row]).min())
        force = limit if model.actuator_forcelimited[row] else np.inf
        panels = [
            _Panel(f'{drive.actuator}: command', motion.commands[:, row], drive.lower, drive.upper),
            _Panel('force or torque (N, N·m)', trace.forces[:, row], -force, force),
        ]
        if drive.joint:
            joint = model.joint(drive.joint).id
            speed = float(limits.speeds[joint])
            velocity = trace.qvel[:, model.jnt_dofadr[joint]]
            panels.insert(1, _Panel('speed (rad/s, m/s)', velocity, -speed, speed))
        for panel, axes in zip(panels, grid[row] if drive.joint else grid[row, ::2], strict=True):
            commanded = panel.values is panels[0].values
            times = motion.times if commanded else trace.times
            colour = _COMMAND if commanded else _SIMULATED
            axes.plot(times, panel.values, color=colour, linewidth=0.9)
            _bounds(axes, panel, limits.margin)
            title = axes.set_title(one_line(panel.title), fontsize=8, loc='left')
            # A name may hold dollars, which would start a formula.
            title.set_parse_math(False)
        if drive.takes_positions and drive.joint:
            position = trace.qpos[:, model.jnt_qposadr[model.joint(drive.joint).id]]
            shown = drive.offset + drive.slope * position
            grid[row, 0].plot(trace.times, shown, color=_SIMULATED, linewidth=0.7, alpha=0.7)
    for axes in grid[-1]:
        axes.set_xlabel('s', fontsize=8)
    for axes in grid.flat:
        axes.spines[['top', 'right']].set_visible(False)
        axes.tick_params(labelsize=7)
    buffer = io.BytesIO()
    figure.savefig(buffer, format='png', dpi=_DPI)
    return buffer.getvalue()


def _bounds(axes: Axes, panel: _Panel, margin: float) -> None:
    """Draw the limits unless they are so far away that the curve would be a flat line."""
    if not np.isfinite(panel.low + panel.high):
        return
    centre, half = (panel.low + panel.high) / 2, (panel.high - panel.low) / 2
    reach = float(np.max(np.abs(panel.values - centre)))
    if reach < half / 8:
        used = f'{100 * reach / half:.0f} % of ±{half:.3g}'
        axes.annotate(used, (0.99, 0.92), xycoords='axes fraction', fontsize=7, ha='right')
        return
    for sign in (-1, 1):
        axes.axhline(centre + sign * half, color=_LIMIT, linewidth=0.8, linestyle='--')
        axes.axhline(centre + sign * margin * half, color=_LIMIT, linewidth=0.8, linestyle=':')

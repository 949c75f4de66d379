# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Measured and predicted signals: sequence by sequence, and packed for a script of the report.

Numbers travel as base64 of little-endian float32, the form plotly calls ``bdata``: half the size
of decimal text, and NaN stays a gap. Sensors of one sequence mostly share their stamps, so each
array of times is stored once.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jinja2.utils import htmlsafe_json_dumps

from sysid_ros.report.numbers import significant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup
    from numpy.typing import NDArray

    from sysid_ros.config.calibration import Role
    from sysid_ros.results.result import CalibrationResult, SensorError, SignalPlot

ROLE_NAMES: dict[Role, str] = {'validate': 'held out', 'train': 'training'}

#: A plot shows predictions up to so many times the measured span beyond what was measured.
SPANS_SHOWN = 2.0
_MARGIN = 0.05


class Figure(NamedTuple):
    """One plot of the report: its number among all plots, its data and its caption's numbers."""

    number: int
    plot: SignalPlot
    error: SensorError | None

    @property
    def description(self) -> str:
        """What the plot shows, in words, for those who do not see it."""
        plot = self.plot
        kind = ROLE_NAMES[plot.role]
        text = f'{plot.sensor} in the {kind} sequence {plot.sequence}, {len(plot.times)} samples'
        if plot.times:
            text += f' from {significant(plot.times[0])} to {significant(plot.times[-1])} s'
        text += ': measured, before and after the fit.'
        if plot.band:
            text += ' The band around what is predicted after it should hold 95 % of the samples.'
        if self.error is not None:
            text += (
                f' Root mean square error on all {kind} data: {significant(self.error.before, 3)} '
                f'before, {significant(self.error.after, 3)} after, in {plot.unit or "1"}.'
            )
        return text


class SequenceFigures(NamedTuple):
    """All plots of one sequence."""

    sequence: str
    role: Role
    figures: tuple[Figure, ...]


def sequences(result: CalibrationResult) -> tuple[SequenceFigures, ...]:
    """Group the plots by sequence, held-out sequences first."""
    errors = {(error.sensor, error.role): error for error in result.errors}
    groups: dict[tuple[Role, str], list[SignalPlot]] = {}
    for plot in result.plots:
        groups.setdefault((plot.role, plot.sequence), []).append(plot)
    ordered = sorted(groups.items(), key=lambda group: group[0][0] != 'validate')
    found: list[SequenceFigures] = []
    number = 0
    for (role, name), plots in ordered:
        figures = tuple(
            Figure(number + offset, plot, errors.get((plot.sensor, role)))
            for offset, plot in enumerate(plots)
        )
        number += len(figures)
        found.append(SequenceFigures(name, role, figures))
    return tuple(found)


def limits(plot: SignalPlot) -> tuple[float, float] | None:
    """Return where a plot's axis ends when a prediction goes far beyond what was measured.

    A model may diverge with its initial parameters; drawn in full, it would hide everything else.
    """
    measured = np.asarray(plot.measured, dtype=np.float64)
    measured = measured[np.isfinite(measured)]
    span = float(np.ptp(measured)) if len(measured) else 0.0
    if span == 0:
        return None
    low = float(measured.min()) - SPANS_SHOWN * span
    high = float(measured.max()) + SPANS_SHOWN * span
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


def _pack(values: Sequence[float] | NDArray[np.float64]) -> str:
    with np.errstate(over='ignore'):
        packed = np.asarray(values, dtype='<f4')
    return base64.b64encode(packed.tobytes()).decode('ascii')


def curves_json(result: CalibrationResult, groups: Sequence[SequenceFigures]) -> Markup:
    """Pack all plots, in the order of the report, and the solver's trace."""
    times: dict[str, int] = {}
    plots = []
    for group in groups:
        for figure in group.figures:
            plot = figure.plot
            index = times.setdefault(_pack(plot.times), len(times))
            plots.append(
                {
                    'times': index,
                    'range': limits(plot),
                    'measured': _pack(plot.measured),
                    'before': _pack(plot.before),
                    'after': _pack(plot.after),
                    'band': [_pack(edge) for edge in edges(plot)],
                }
            )
    trace = result.solver.trace
    document = {
        'times': list(times),
        'plots': plots,
        'trace': {
            'iteration': [entry.iteration for entry in trace],
            'cost': _pack([entry.cost for entry in trace]),
        },
    }
    # Safe inside a script element, whatever the strings hold.
    return htmlsafe_json_dumps(document, allow_nan=False, separators=(',', ':'))

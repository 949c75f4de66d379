# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Signals by sequence, as arrays for the report's script, and when something was wrong in them."""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup
from numpy.typing import ArrayLike, NDArray

from sysid_ros.alignment.health import Grade, Span
from sysid_ros.config.schema import GateConfig, Role
from sysid_ros.errors import listed
from sysid_ros.report.numbers import significant
from sysid_ros.results.result import (
    ROLE_NAMES,
    CalibrationResult,
    RecordedBag,
    SensorError,
    SignalPlot,
)

#: A plot shows predictions up to so many times the measured span beyond what was measured.
_SPANS_SHOWN = 2.0
_MARGIN = 0.05
#: Values are 16-bit counts of steps from their middle; the lowest count is a gap.
_MOST, _GAP = 32767, -32768
#: Residuals of these units are mostly small beside them, and are said in thousandths.
_THOUSANDTHS = {'rad': 'mrad', 'm': 'mm', 'rad/s': 'mrad/s', 'm/s': 'mm/s'}
_SMALL = 0.1


class Figure(NamedTuple):
    """One plot of the report: its number among all plots, its data and its caption's numbers."""

    number: int
    plot: SignalPlot
    error: SensorError | None

    @property
    def has_strip(self) -> bool:
        """Whether the command needs an axis of its own, as it has another unit."""
        return bool(self.plot.command) and self.plot.command_unit != self.plot.unit

    @property
    def description(self) -> str:
        """What the plot shows, in words, for those who do not see it."""
        plot = self.plot
        kind = ROLE_NAMES[plot.role]
        text = f'{plot.sensor} in the {kind} sequence {plot.sequence}, {len(plot.times)} '
        text += f'of {plot.samples} samples' if plot.samples > len(plot.times) else 'samples'
        if plot.times:
            text += f' from {significant(plot.times[0])} to {significant(plot.times[-1])} s'
        text += ': measured, nominal and fitted'
        text += ', with the command.' if plot.command else '.'
        if plot.band:
            text += ' The band around the fitted should hold 95 % of the samples.'
        if self.error is not None:
            text += (
                f' Root mean square error on all {kind} data: {significant(self.error.before, 3)} '
                f'nominal, {significant(self.error.after, 3)} fitted, in {plot.unit or "1"}.'
            )
        text += ' Below, measured minus fitted'
        if plot.lags:
            lag, found = plot.lags[0], plot.autocorrelation[0]
            text += (
                f' and its autocorrelation, {significant(found, 2)} after {significant(lag, 2)} s'
            )
        return text + '.'


class SequenceFigures(NamedTuple):
    """All plots of one sequence."""

    sequence: str
    role: Role
    figures: tuple[Figure, ...]


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
            tuple(Figure(next(number), own, errors.get((own.sensor, role))) for own in plots),
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
    low = float(measured.min()) - _SPANS_SHOWN * span
    high = float(measured.max()) + _SPANS_SHOWN * span
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
    middle, step = low / 2 + high / 2, high / (2 * _MOST) - low / (2 * _MOST) or 1.0
    counts = np.clip(np.round(np.where(known, given - middle, 0.0) / step), -_MOST, _MOST)
    stored = np.where(known, counts, _GAP).astype('<i2')
    return Packed(float(middle), float(step), base64.b64encode(stored.tobytes()).decode())


def curves_json(result: CalibrationResult, groups: Sequence[SequenceFigures]) -> Markup:
    """Pack all plots in the order of the report.

    Sensors of a sequence mostly share their stamps, and those of a joint its command: each of these
    arrays is stored once, and named by its place in ``shared``.
    """
    shared: dict[Packed, int] = {}
    sigmas = {scale.sensor: scale.sigma for scale in result.noise}
    plots = [_plot(figure, sigmas, shared) for group in groups for figure in group.figures]
    # Safe inside a script element, whatever the strings hold.
    return htmlsafe_json_dumps(
        {'plots': plots, 'shared': list(shared)}, allow_nan=False, separators=(',', ':')
    )


def _plot(figure: Figure, sigmas: dict[str, float], shared: dict[Packed, int]) -> dict[str, Any]:
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
    small = plot.unit in _THOUSANDTHS and len(known) > 0 and float(np.median(known)) < _SMALL

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

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Measured and predicted signals: sequence by sequence, and packed for a script of the report.

Numbers travel as steps of the range of each curve, in about a byte: a tenth of decimal text. What
the fit left is packed by itself, as it is thousands of times smaller than the curves that it is
between, and mostly instead of what was measured: noise is packed once then. Sensors of one sequence
mostly share their stamps and those of one joint its command, so each array of these is stored once.
"""

from __future__ import annotations

import base64
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jinja2.utils import htmlsafe_json_dumps

from sysid_ros.report.numbers import significant
from sysid_ros.results.result import ROLE_NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup
    from numpy.typing import NDArray

    from sysid_ros.config.calibration import Role
    from sysid_ros.results.result import CalibrationResult, SensorError, SignalPlot

#: A plot shows predictions up to so many times the measured span beyond what was measured.
SPANS_SHOWN = 2.0
_MARGIN = 0.05
#: Steps from the least to the largest of a curve: some twenty for each dot of a plot.
_CURVE_STEPS = 4095
_TIME_STEPS = 65535
#: What the fit left takes at least so many, and steps of no more than these parts of what is usual
#: and of the span of what was measured.
_FEWEST_STEPS = 127
_RESIDUAL_STEP, _SPAN_STEP = 1 / 8, 1 / 1023
#: Differences of orders below this are tried, and codes of them of orders below that.
_ORDERS = 3
_MOST_BITS = 14
#: No axis holds more than these.
_LARGEST = 1e300
#: What is left of these is small beside the unit, and is said in thousandths of it.
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

    A model may diverge with its nominal parameters; drawn in full, it would hide everything else.
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


class Packed(NamedTuple):
    """Values as an origin, a step, and how many steps from the origin each of them is.

    ``text`` is base64 of the differences of an order of these ``length`` numbers, each as a code:
    0 for a gap, 1, 3, 5, … for 0, 1, 2, … and 2, 4, … for -1, -2, … Codes are written in
    exponential Golomb codes of an order ``bits`` (Teuhola, Information Processing Letters 7, 1978).
    """

    origin: float
    step: float
    order: int
    bits: int
    length: int
    text: str


def packed(values: Sequence[float] | NDArray[np.float64], steps: int = _CURVE_STEPS) -> Packed:
    """Pack values in so many steps from the least to the largest, in the shortest way."""
    given = np.asarray(values, dtype=np.float64)
    known = np.abs(given) <= _LARGEST
    low, high = (given[known].min(), given[known].max()) if known.any() else (0.0, 0.0)
    step = float(high - low) / steps
    # Codes are short around the origin. The least and the largest are whole steps from it.
    middle = np.median(given[known]) - low if step else 0.0
    origin = float(low + step * np.round(middle / (step or 1.0)))
    counts = np.round((given[known] - origin) / (step or 1.0)).astype(np.int64)
    ways = []
    for order in range(_ORDERS):
        differences = np.diff(counts, n=order, prepend=[0] * order)
        codes = np.zeros(given.shape, dtype=np.int64)
        codes[known] = np.where(differences < 0, -2 * differences, 2 * differences + 1)
        ways += [(_length(codes, bits), order, bits, codes) for bits in range(_MOST_BITS)]
    _, order, bits, codes = min(ways, key=lambda way: way[:3])
    return Packed(origin, step, order, bits, len(codes), _written(codes, bits))


def _length(codes: NDArray[np.int64], bits: int) -> int:
    """Return how many bits exponential Golomb codes of an order have."""
    return int(np.sum(2 * np.floor(np.log2((codes >> bits) + 1)) + 1 + bits))


def _written(codes: NDArray[np.int64], bits: int) -> str:
    """Return base64 of exponential Golomb codes: as many zeros before as digits follow the first.

    Of these digits, so many bits have no zeros before.
    """
    digits = (f'{code + (1 << bits):b}' for code in codes.tolist())
    text = ''.join('0' * (len(own) - 1 - bits) + own for own in digits)
    found = np.packbits(np.frombuffer(text.encode(), dtype=np.uint8) - ord('0'))
    return base64.b64encode(found.tobytes()).decode()


class _Shelf:
    """Arrays that several plots share: each is kept once."""

    def __init__(self) -> None:
        self._places: dict[Any, int] = {}

    def put(self, values: Packed | tuple[float | None, ...]) -> int:
        """Return the place of an array."""
        return self._places.setdefault(values, len(self._places))

    @property
    def content(self) -> list[Any]:
        """All arrays by their place."""
        return list(self._places)


def curves_json(result: CalibrationResult, groups: Sequence[SequenceFigures]) -> Markup:
    """Pack all plots, in the order of the report, and the solver's trace."""
    shared = _Shelf()
    sigmas = {scale.sensor: scale.sigma for scale in result.noise}
    trace = result.solver.trace
    document = {
        'plots': [
            _packed_plot(figure, sigmas, shared) for group in groups for figure in group.figures
        ],
        'shared': shared.content,
        'trace': {
            'iteration': [entry.iteration for entry in trace],
            'cost': [entry.cost if math.isfinite(entry.cost) else None for entry in trace],
        },
    }
    # Safe inside a script element, whatever the strings hold.
    return htmlsafe_json_dumps(document, allow_nan=False, separators=(',', ':'))


def _packed_plot(figure: Figure, sigmas: dict[str, float], shared: _Shelf) -> dict[str, Any]:
    """Pack one plot; far predictions end where nobody sees it, to leave the steps to the others."""
    plot = figure.plot
    ends = limits(plot)
    measured, fitted, nominal = (
        np.asarray(own) for own in (plot.measured, plot.after, plot.before)
    )
    left = measured - fitted
    if ends is not None:
        beyond = ends[1] - ends[0]
        left = np.clip(left, -beyond, beyond)
        nominal, fitted = (
            np.clip(own, ends[0] - beyond, ends[1] + beyond) for own in (nominal, fitted)
        )
    # Else it is the fitted and what that left.
    alone = ends is not None or not np.isfinite(fitted[np.isfinite(measured)]).all()
    # The noise of a sensor with several components is that of all of them.
    sigma = sigmas.get(plot.sensor, sigmas.get(plot.sensor.partition('[')[0], math.nan))
    known = left[np.isfinite(left)]
    usual = float(np.median(np.abs(known))) if len(known) else math.inf
    fine = 0.0
    if len(known):
        span = float(np.ptp(measured[np.isfinite(left)]))
        sizes = [size for size in (_RESIDUAL_STEP * usual, _SPAN_STEP * span) if size > 0]
        fine = float(np.ptp(known)) / min(sizes, default=math.inf)
    small = usual < _SMALL and plot.unit in _THOUSANDTHS
    return {
        'times': shared.put(packed(plot.times, _TIME_STEPS)),
        'unit': plot.unit,
        'range': ends,
        'measured': packed(measured) if alone else None,
        'fitted': packed(fitted),
        'nominal': packed(nominal),
        'left': packed(left, int(min(max(fine, _FEWEST_STEPS), _TIME_STEPS))),
        'leftUnit': [1e3, _THOUSANDTHS[plot.unit]] if small else [1.0, plot.unit],
        'sigma': sigma if math.isfinite(sigma) else None,
        'band': packed(plot.band) if plot.band else None,
        'command': shared.put(packed(plot.command)) if plot.command else None,
        'commandUnit': plot.command_unit,
        'strip': figure.has_strip,
        'lags': shared.put(tuple(float(f'{lag:.3g}') for lag in plot.lags)),
        'autocorrelation': packed(plot.autocorrelation, _FEWEST_STEPS),
        'samples': plot.samples,
    }

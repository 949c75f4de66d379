# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A picture of what a calibration leaves on held-out motion."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import matplotlib as mpl
import numpy as np

from sysid_ros.results.result import CalibrationResult, SignalPlot

#: What a figure shows of a recording at most, s.
_SHOWN = 12.0


def _left(plot: SignalPlot, prediction: tuple[float, ...]) -> float:
    """Return the root mean square of measured less predicted over what is drawn."""
    return float(np.sqrt(np.nanmean((np.array(plot.measured) - np.array(prediction)) ** 2)))


def worst(result: CalibrationResult, units: Collection[str]) -> SignalPlot:
    """Return the held-out signal in one of some units of whose variance the fit leaves most."""
    held_out = [p for p in result.plots if p.role == 'validate' and p.unit in units]
    return max(held_out, key=lambda plot: _left(plot, plot.after) / np.nanstd(plot.measured))


def draw(plot: SignalPlot, path: Path) -> None:
    """Draw measured, nominal and fitted, and below what each prediction leaves."""
    mpl.use('Agg')
    import matplotlib.pyplot as plt  # noqa: PLC0415 (after the choice of what draws)

    factor, unit = (1e3, 'mrad') if plot.unit == 'rad' else (1.0, plot.unit)
    times = np.array(plot.times)
    shown = times <= times[0] + _SHOWN
    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(8, 4.2), sharex=True, height_ratios=(2, 1), layout='constrained'
    )
    measured = np.array(plot.measured)
    top.plot(times[shown], measured[shown], color='black', linewidth=1.6, label='measured')
    for name, values, color in (
        ('nominal', plot.before, '#d55e00'),
        ('fitted', plot.after, '#0072b2'),
    ):
        predicted = np.array(values)
        label = f'{name}, {factor * _left(plot, values):.3g} {unit}'
        top.plot(times[shown], predicted[shown], color=color, linewidth=1.1, label=label)
        apart = factor * (measured - predicted)
        bottom.plot(times[shown], apart[shown], color=color, linewidth=1, label=name)
    top.set_ylabel(f'{plot.sensor} [{plot.unit}]')
    top.set_title(f'held out: {plot.sequence}', fontsize=10, loc='left')
    top.legend(loc='lower right', bbox_to_anchor=(1, 1), fontsize=8, ncols=3, frameon=False)
    bottom.axhline(0, color='black', linewidth=0.6)
    bottom.set_ylabel(f'measured \N{MINUS SIGN} predicted\n[{unit}]')
    bottom.set_xlabel('time [s]')
    figure.savefig(path, dpi=110, pil_kwargs={'quality': 80})
    plt.close(figure)

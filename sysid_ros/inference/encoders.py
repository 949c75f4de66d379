# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Spread of the estimates from encoders, whose error is the same wherever the joint is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Harmonics of the sawtooth that are followed; those beyond hold a hundredth of its variance.
_HARMONICS = 64


def repeating(
    residual: NDArray[np.float64], influence: NDArray[np.float64], step: float
) -> NDArray[np.float64]:
    """Return (f,) variances of the estimates from one encoder, over where its zero may be.

    Its error is a sawtooth of the position, with period Δ: over a zero that can be anywhere, errors
    at two positions have the covariance Σ_m Δ²/(2π²m²) cos(2πm (q - q')/Δ). So a joint that
    comes back has the same error again, however much later, which no correlation in time tells.
    Readings are whole steps; where the joint was between two is what the residual says. Noise that
    reaches the encoder blurs the sawtooth: the m-th harmonic by exp(-(2πmσ/Δ)²/2); what it takes
    away is white (Widrow, IRE Transactions on Circuit Theory 3, 1956). How much noise there is says
    the variance of the residuals, which is no exact measure: where there is none, the result is
    too large rather than too small.

    Args:
        residual: (n,) residuals of the encoder, in units of its noise.
        influence: (n, f) of each of them on the estimates.
        step: Δ in units of the noise.
    """
    order = np.arange(1, _HARMONICS + 1)
    weight = step**2 / (2.0 * np.pi**2 * order**2)
    total = float(np.mean(residual**2))
    blur = max(total - step**2 / 12.0, 0.0)
    weight = weight * np.exp(-((2.0 * np.pi * order / step) ** 2) * blur)
    wave = np.exp(2j * np.pi / step * residual)
    variance = max(total - float(weight.sum()), 0.0) * np.sum(influence**2, axis=0)
    turned = np.ones_like(wave)
    for each in weight:
        turned = turned * wave
        variance = variance + each * np.abs(turned @ influence) ** 2
    found: NDArray[np.float64] = variance
    return found

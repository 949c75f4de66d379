# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How far predictions are from what was measured, in units of the noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.rollout.prediction import predict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import mujoco
    from numpy.typing import NDArray

    from sysid_ros.model.unknown import Unknown
    from sysid_ros.rollout.drives import Drives
    from sysid_ros.signals import TimeSeries
    from sysid_ros.signals.trajectory import Trajectory

    #: Which samples of a series of a sequence count.
    Wanted = Callable[[Trajectory, TimeSeries], NDArray[np.bool_]]

#: A simulation that became unstable counts as this many times the noise, as it does in the fit.
_DIVERGED = 1e4


def residuals_of(
    model: mujoco.MjModel | mujoco.MjSpec,
    sequences: Sequence[Trajectory],
    parameters: Sequence[Unknown] = (),
    values: NDArray[np.float64] | None = None,
    *,
    noise: Mapping[str, float],
    wanted: Wanted | None = None,
    threads: int = 0,
    drives: Drives | None = None,
) -> list[dict[str, NDArray[np.float64]]]:
    """Simulate sequences and return by sequence and sensor the residuals in units of the noise.

    Args:
        model: A spec, or what it compiled to if no parameter needs another compilation.
        sequences: What is simulated, in one batch.
        parameters: What the values are.
        values: (p,) parameter values.
        noise: Sensor name to standard deviation; others do not count.
        wanted: Which samples count; by default all.
        threads: Simulation threads; 0 means one per core.
        drives: What drives the model beside its own actuators, if anything.

    Returns:
        For each sequence, sensor name to (n,) finite residuals.
    """
    if not sequences:
        return []
    found = []
    predictions = predict(model, sequences, parameters, values, threads, drives=drives)
    for sequence, prediction in zip(sequences, predictions, strict=True):
        own: dict[str, list[NDArray[np.float64]]] = {}
        for series, predicted in zip(sequence.measurements, prediction.channels, strict=True):
            rows = slice(None) if wanted is None else wanted(sequence, series)
            columns = [
                (name, c) for name, (_, place) in series.signal_mapping.items() for c in place
            ]
            for place, (name, column) in enumerate(columns):
                if name not in noise:
                    continue
                residual = (predicted[0, :, place] - series.data[:, column]) / noise[name]
                residual = np.nan_to_num(residual, nan=np.nan, posinf=_DIVERGED, neginf=-_DIVERGED)
                if prediction.diverged[0]:
                    residual = np.where(np.isfinite(series.data[:, column]), _DIVERGED, np.nan)
                residual = residual[rows]
                own.setdefault(name, []).append(residual[np.isfinite(residual)])
        found.append({name: np.concatenate(parts) for name, parts in own.items()})
    return found


def rms(residuals: Sequence[Mapping[str, NDArray[np.float64]]]) -> float:
    """Return the root mean square of all residuals; NaN where there are none."""
    parts = [values for one in residuals for values in one.values()]
    values = np.concatenate(parts) if parts else np.zeros(0)
    return float(np.sqrt(np.mean(values**2))) if len(values) else float('nan')

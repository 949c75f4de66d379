# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How far predictions of a servo are from its logs, by the measure that BAM minimises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.servos.bench.pendulum import bench as make_bench
from sysid_ros.servos.bench.simulator import simulate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.servos.bench.pendulum import Bench
    from sysid_ros.servos.formats.log import Log
    from sysid_ros.servos.laws.servo import Servo

    Array = NDArray[np.float64]


def predict(
    servo: Servo,
    values: Mapping[str, float],
    logs: Sequence[Log],
    reset_period: float | None = None,
) -> list[Array]:
    """Return the (n,) positions that are predicted for each log from its first sample, rad.

    Args:
        servo: The laws.
        values: Its coefficients; the usual ones where one is missing.
        logs: At least one, of one sampling period.
        reset_period: Every so many seconds the state is set to the measured one, s.

    Raises:
        FitError: There are no logs, or their periods differ.
    """
    motion = simulate(
        servo, make_bench(servo, logs), _candidate(servo, values), reset_period=reset_period
    )
    return [motion.position[: len(log), 0, index] for index, log in enumerate(logs)]


def mean_absolute_errors(
    servo: Servo, bench: Bench, candidates: Array, reset_period: float | None = None
) -> Array:
    """Return the (m, L) mean absolute errors of positions, rad.

    Args:
        servo: The laws.
        bench: The logs.
        candidates: (m, p) values of ``servo.coefficients``, in their order.
        reset_period: Every so many seconds the state is set to the measured one, s.
    """
    motion = simulate(servo, bench, candidates, reset_period=reset_period)
    error = np.abs(motion.position - bench.position[:, None]) * bench.counted[:, None]
    found: Array = error.sum(axis=0) / bench.lengths
    return found


def errors_by_log(
    servo: Servo,
    values: Mapping[str, float],
    logs: Sequence[Log],
    reset_period: float | None = None,
) -> dict[str, float]:
    """Return log name to its mean absolute error, rad.

    Args:
        servo: The laws.
        values: Its coefficients; the usual ones where one is missing.
        logs: At least one, of one sampling period.
        reset_period: Every so many seconds the state is set to the measured one, s.

    Raises:
        FitError: There are no logs, or their periods differ.
    """
    candidate = _candidate(servo, values)
    errors = mean_absolute_errors(servo, make_bench(servo, logs), candidate, reset_period)[0]
    return {log.name: float(error) for log, error in zip(logs, errors, strict=True)}


def _candidate(servo: Servo, values: Mapping[str, float]) -> Array:
    row = [values.get(name, usual.initial) for name, usual in servo.coefficients.items()]
    return np.array([row], dtype=np.float64)

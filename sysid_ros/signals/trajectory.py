# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One continuous run of the robot."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sysid_ros.signals import TimeSeries

#: No controller updates less often than this, s: a hundred a second is the default
#: (https://control.ros.org/jazzy/doc/ros2_control/controller_manager/doc/userdoc.html).
SLOWEST_UPDATE = 0.01
_ROUNDING = 1e-3


@dataclass(frozen=True)
class PrescribedMotion:
    """How all joints moved, on an even grid whose row k is at ``(first + k) * interval``.

    Forces that were measured along it have passed a low-pass, and so do those that are predicted;
    of what comes out, one row in ``stride`` is kept.

    Attributes:
        interval: Seconds between rows.
        first: Number of the first row, counted from the trajectory's time zero.
        qpos: (n, nv) rad or m, of joints of one axis each.
        qvel: (n, nv) rad/s or m/s.
        qacc: (n, nv) rad/s² or m/s².
        slow: (nv,) speeds below which the direction of motion is not known.
        low_pass: Second-order sections; run forwards and backwards.
        cutoff: Of the low-pass, Hz.
        stride: Rows from one kept row to the next; the first kept is a multiple of it.
    """

    interval: float
    first: int
    qpos: NDArray[np.float64]
    qvel: NDArray[np.float64]
    qacc: NDArray[np.float64]
    slow: NDArray[np.float64]
    low_pass: NDArray[np.float64]
    cutoff: float
    stride: int

    @property
    def times(self) -> NDArray[np.float64]:
        """(n,) seconds from the trajectory's time zero."""
        rows: NDArray[np.float64] = self.first + np.arange(len(self.qpos), dtype=np.float64)
        return self.interval * rows


@dataclass(frozen=True)
class Trajectory:
    """One continuous run: where it starts, what was commanded, what was measured.

    Every series keeps its own stamps, in seconds from the sequence's origin; nothing is resampled.

    Attributes:
        name: Unique name.
        origin_ns: Time zero of the sequence, ns since the epoch.
        initial_qpos: (nq,) configuration at time zero.
        initial_qvel: (nv,) velocity at time zero.
        commands: Series whose signals are named after actuators; each sample holds until the next,
            and the first also before it. Samples before time zero are allowed.
        measurements: Series whose signals are named after sensors or, by their signal type, are
            parts of the state; samples at or after time zero, NaN where a channel was not measured.
        initial_act: (na,) activation at time zero; None for filters that are at rest under the
            first command.
        bag: The recording that it is from; empty where it is one by itself.
        interpolated: Actuators whose commands do not hold, but change linearly from sample to
            sample.
        motion: How the joints moved, where that is prescribed: nothing is simulated then, and the
            measurements are forces that the motion needs.
        applied: Actuators whose commands are stamped as they came to act, by whoever made them.
        replaced: (k, 2) when what is interpolated leaves one message for the next, and when it has
            reached the first point of that, s; messages may be late by different times.
        sampled: Whether measured forces of actuators are read at their stamps, under the command
            that is in force at that instant, and not averaged over a time step.
    """

    name: str
    origin_ns: int
    initial_qpos: NDArray[np.float64]
    initial_qvel: NDArray[np.float64]
    commands: tuple[TimeSeries, ...]
    measurements: tuple[TimeSeries, ...]
    initial_act: NDArray[np.float64] | None = None
    bag: str = ''
    interpolated: frozenset[str] = frozenset()
    motion: PrescribedMotion | None = None
    applied: frozenset[str] = frozenset()
    replaced: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 2)))
    sampled: bool = False

    def __post_init__(self) -> None:
        for name in ('commands', 'measurements'):
            columns = tuple(series.as_columns() for series in getattr(self, name))
            object.__setattr__(self, name, columns)

    @property
    def duration(self) -> float:
        """Seconds from time zero to the last measured sample."""
        return max((float(series.times[-1]) for series in self.measurements), default=0.0)

    @functools.cached_property
    def updates(self) -> NDArray[np.float64]:
        """(n,) when a controller is taken to have updated, but for a common part of its period, s.

        A controller_manager reads the joints, lets its controllers say what they ask for, and sends
        that: once in each update, so that measurements come at its updates. If they come too
        seldom for that, it made several from one to the next.
        """
        times = max((series.times for series in self.measurements), key=len)
        if len(times) == 1:
            times = times + np.array([0.0, SLOWEST_UPDATE])
        gaps = np.diff(times)
        period = float(np.median(gaps))
        each = np.ceil(period / SLOWEST_UPDATE - _ROUNDING)
        places = np.cumsum([0.0, *np.maximum(np.round(each * gaps / period), 1.0)])
        inside = np.interp(np.arange(places[-1] + 1), places, times)
        return np.concatenate([[inside[0] - period / each], inside])

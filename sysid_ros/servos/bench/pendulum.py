# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Logs side by side, as a simulation of all of them needs them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.errors import FitError
from sysid_ros.estimation.noise import encoder_step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.servos.formats.log import Log
    from sysid_ros.servos.laws.servo import Servo

    Array = NDArray[np.float64]

#: Standard gravity, m/s².
GRAVITY = 9.80665
#: A joint whose encoder says the same for so long is at rest, s, if those are so many samples.
_REST = 0.05
_FEWEST_AT_REST = 4
#: Sampling periods that differ by less than this part are the same.
_SAME_PERIOD = 1e-6


@dataclass(frozen=True)
class Bench:
    """L logs of up to T samples; shorter ones repeat their last sample.

    Attributes:
        dt: Time between samples, s.
        lengths: (L,) samples of each log.
        inertia: (L,) of the pendulum about its axis, without the servo's armature, kg·m².
        weight: (L,) torque of gravity where the pendulum is level, N·m.
        constants: Gains and supply, (L,) each.
        position: (T, L) measured, rad.
        goal: (T, L) rad.
        enabled: (T, L) 1 where the motor is powered.
        speed: (T, L) measured, rad/s, or the slope of the positions where it was not.
        last_goal: (L,) commanded before the first sample, rad; 0 at the start of a log.
    """

    dt: float
    lengths: NDArray[np.int64]
    inertia: Array
    weight: Array
    constants: Mapping[str, Array]
    position: Array
    goal: Array
    enabled: Array
    speed: Array
    last_goal: Array

    @property
    def counted(self) -> NDArray[np.bool_]:
        """(T, L) whether a sample is of the log, not a repetition of its last."""
        found: NDArray[np.bool_] = np.arange(len(self.position))[:, None] < self.lengths
        return found

    @property
    def repeated(self) -> NDArray[np.bool_]:
        """(T, L) whether a reading of an encoder at rest says no more than another one.

        However often a joint at rest is read, the error is the same: all readings of a stretch are
        one. The middle one of each counts. Without an encoder, none is a repetition.
        """
        found = np.zeros(self.position.shape, dtype=bool)
        every = np.concatenate([self.position[:n, k] for k, n in enumerate(self.lengths)])
        if encoder_step(every) is None:
            return found
        shortest = max(round(_REST / self.dt), _FEWEST_AT_REST)
        for log, count in enumerate(self.lengths.tolist()):
            changes = np.flatnonzero(np.diff(self.position[:count, log]) != 0) + 1
            for start, stop in pairwise([0, *changes.tolist(), count]):
                if stop - start >= shortest:
                    found[start:stop, log] = True
                    found[(start + stop) // 2, log] = False
        return found

    def windows(self, length: int) -> Bench:
        """Return windows of so many samples, each a log of its own; what is left over is dropped.

        Raises:
            FitError: No log is as long.
        """
        places = [
            (log, first)
            for log, count in enumerate(self.lengths.tolist())
            for first in range(0, count - length + 1, length)
        ]
        if not places:
            msg = (
                f'Expected a log of at least {length} samples ({length * self.dt:g} s), found at '
                f'most {int(self.lengths.max())}.'
            )
            raise FitError(msg)
        logs = np.array([log for log, _ in places])
        rows = np.array([first for _, first in places]) + np.arange(length)[:, None]
        return dataclasses.replace(
            self,
            lengths=np.full(len(places), length),
            inertia=self.inertia[logs],
            weight=self.weight[logs],
            constants={name: values[logs] for name, values in self.constants.items()},
            position=self.position[rows, logs],
            goal=self.goal[rows, logs],
            enabled=self.enabled[rows, logs],
            speed=self.speed[rows, logs],
            last_goal=np.where(rows[0] > 0, self.goal[rows[0] - 1, logs], self.last_goal[logs]),
        )


def bench(servo: Servo, logs: Sequence[Log]) -> Bench:
    """Put logs side by side.

    Args:
        servo: Whose gains and supply hold where a log says nothing.
        logs: At least one, of one sampling period.

    Raises:
        FitError: There are no logs, one has no samples, or their sampling periods differ.
    """
    if not logs:
        msg = 'Nothing to fit: there are no logs.'
        raise FitError(msg)
    for log in logs:
        if not len(log):
            msg = f'Expected samples in every log, found none in {log.name!r}.'
            raise FitError(msg)
        if abs(log.dt - logs[0].dt) > _SAME_PERIOD * logs[0].dt:
            msg = (
                f'Expected logs of one sampling period, found {logs[0].dt:g} s in {logs[0].name!r} '
                f'and {log.dt:g} s in {log.name!r}: process the raw logs again with one --dt.'
            )
            raise FitError(msg)
    most = max(len(log) for log in logs)

    def stacked(series: list[Array]) -> Array:
        padded = [np.pad(values, (0, most - len(values)), mode='edge') for values in series]
        return np.stack(padded, axis=1)

    mass = np.array([log.mass for log in logs])
    arm = np.array([log.arm_mass for log in logs])
    length = np.array([log.length for log in logs])
    return Bench(
        dt=logs[0].dt,
        lengths=np.array([len(log) for log in logs]),
        inertia=mass * length**2 + arm / 3 * length**2,
        weight=(mass + arm / 2) * GRAVITY * length,
        constants={
            name: np.array([log.constants.get(name, usual) for log in logs], dtype=np.float64)
            for name, usual in servo.type.constants.items()
        },
        position=stacked([log.position for log in logs]),
        goal=stacked([log.goal for log in logs]),
        enabled=stacked([log.enabled for log in logs]),
        speed=stacked([_speed(log) for log in logs]),
        last_goal=np.zeros(len(logs)),
    )


def _speed(log: Log) -> Array:
    """Return the measured velocity, else the slope of the positions, which starts at rest."""
    if log.speed is not None:
        return log.speed
    slope: Array = np.zeros(len(log))
    slope[1:] = np.gradient(log.position, log.dt)[1:] if len(log) > 1 else 0.0
    return slope

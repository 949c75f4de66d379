# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Motions made of finite Fourier series over whole periods, and of slow sweeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.errors import ConfigError
from sysid_ros.excitation.motion import Motion, ramp_window, sample_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sysid_ros.excitation.drives import Drive

#: Sines per actuator (Swevers et al., IEEE Trans. Robotics and Automation 13, 1997, use 5).
HARMONICS = 5
#: Seconds of one period, about: short enough to repeat, long enough for slow and fast sines.
_PERIOD = 5.0
#: Seconds over which the motion fades in, and out.
RAMP = 1.0
#: The unit of a coefficient falls with the frequency to this power.
_UNIT_POWER = 0.75
#: Parts of the time that slow sweeps may get where friction is asked for.
_SWEEP_SHARES = (0.12, 0.3, 0.45)
#: Speed of a sweep as a part of the largest, and the seconds over which it turns around.
_SWEEP_SPEED, _TURN = 0.08, 0.4
#: A time so near to a sample is on it, in samples.
_ON_SAMPLE = 1e-6


@dataclass(frozen=True)
class Plan:
    """What is common to all motions of a family: times, frequencies, ranges, sweeps.

    The command of actuator j is home + w(t) (centre_j + w_F(t) Σ_k u_k (a_jk sin kωt + b_jk cos
    kωt) + sweep_j(t)) with quintic ramps w and w_F, and a whole number of periods between the
    ramps of w_F.

    Attributes:
        drives: The actuators.
        periods: Number of periods.
        period: Seconds.
        harmonics: Numbers of the sines, multiples of 1 / period.
        ramp: Seconds of each ramp.
        sweep: Seconds of the sweeps after the series; 0 for none.
        speeds: (nu,) speed of the sweeps, in command per second; 0 for what is not swept.
        rate: Commands per second.
        max_frequency: Highest frequency that the sines may have, Hz.
    """

    drives: tuple[Drive, ...]
    periods: int
    period: float
    harmonics: tuple[int, ...]
    ramp: float
    sweep: float
    speeds: NDArray[np.float64]
    rate: float
    max_frequency: float

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the coefficients: per actuator centre, sines, cosines."""
        return len(self.drives), 1 + 2 * len(self.harmonics)

    @property
    def duration(self) -> float:
        """Seconds of the whole motion."""
        return 2 * self.ramp + self.periods * self.period + self.sweep

    @property
    def spans(self) -> NDArray[np.float64]:
        """(nu,) half of each actuator's range."""
        return np.array([(drive.upper - drive.lower) / 2 for drive in self.drives])

    def alternatives(self) -> tuple[Plan, ...]:
        """Return plans of the same length with shorter and longer sweeps; itself without any."""
        if not self.sweep:
            return (self,)
        found = []
        for share in _SWEEP_SHARES:
            try:
                plan = make_plan(
                    self.drives,
                    duration=self.duration,
                    rate=self.rate,
                    max_frequency=self.max_frequency,
                    swept=[speed > 0 for speed in self.speeds],
                    speeds=[speed / _SWEEP_SPEED for speed in self.speeds],
                    share=share,
                )
            except ConfigError:  # longer sweeps leave no time for sines
                break
            found.append(plan)
        return tuple(found)

    def one_period(self, coefficients: NDArray[np.float64]) -> Motion:
        """Return the first ramp and period of a motion: the others say as much per second."""
        whole = self.motion(coefficients)
        count = int(np.floor((self.ramp + self.period) * self.rate + _ON_SAMPLE)) + 1
        return Motion(whole.times[:count].copy(), whole.commands[:count].copy(), whole.actuators)

    def motion(self, coefficients: NDArray[np.float64]) -> Motion:
        """Return the motion of coefficients.

        Args:
            coefficients: (nu, 1 + 2 h): the centre relative to the home pose, then the sines',
                then the cosines' amplitudes, in units of half of the actuator's range, those of
                sine k times k to the power -.75.
        """
        times = sample_times(self.duration, self.rate)
        series = self.series(times - self.ramp, coefficients)
        end = 2 * self.ramp + self.periods * self.period
        series *= ramp_window(times, 0.0, end, self.ramp)[:, None]
        centre = coefficients[:, 0] * ramp_window(times, 0.0, self.duration, self.ramp)[:, None]
        home = np.array([drive.home for drive in self.drives])
        commands = home + series + self.spans * centre + self._sweeps(times - end)
        return Motion(times, commands, tuple(drive.actuator for drive in self.drives))

    def series(
        self, times: NDArray[np.float64], coefficients: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the (n, nu) sines of the commands, without ramps, at times from their start."""
        numbers = np.array(self.harmonics, dtype=np.float64)
        angle = 2 * np.pi * numbers * times[:, None] / self.period
        waves = np.concatenate([np.sin(angle), np.cos(angle)], axis=1)
        unit = np.tile(numbers**-_UNIT_POWER, 2)
        found: NDArray[np.float64] = self.spans * ((waves * unit) @ coefficients[:, 1:].T)
        return found

    def _sweeps(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (n, nu) slow moves to and fro, from rest to rest, at times from their start.

        No two neighbouring actuators turn around together: the friction of each can be told.
        """
        found = np.zeros((len(times), len(self.drives)))
        length = self.sweep - self.ramp  # the last ramp goes home
        for column, speed in enumerate(self.speeds):
            if not speed or length <= 0:
                continue
            turns = 1 + column % 3
            quarter = length / (4 * turns)
            corners = np.arange(4 * turns + 1) * quarter
            heights = np.tile([0.0, 1.0, 0.0, -1.0], turns + 1)[: len(corners)]
            grid = np.arange(-_TURN, length + _TURN, 1 / self.rate)
            triangle = np.interp(grid, corners, heights)
            count = max(round(min(_TURN, quarter) * self.rate), 1)
            kernel = np.hanning(count + 2)
            smooth = np.convolve(triangle, kernel / kernel.sum(), mode='same')
            found[:, column] = speed * quarter * np.interp(times, grid, smooth, 0.0, 0.0)
        return found


def make_plan(
    chosen: Sequence[Drive],
    *,
    duration: float,
    rate: float,
    max_frequency: float,
    swept: Sequence[bool] = (),
    speeds: Sequence[float] = (),
    share: float = _SWEEP_SHARES[0],
) -> Plan:
    """Divide a duration into ramps, whole periods and sweeps.

    Args:
        chosen: The actuators.
        duration: Seconds, ramps included.
        rate: Commands per second.
        max_frequency: Highest frequency of the sines, Hz.
        swept: (nu,) which actuators sweep slowly.
        speeds: (nu,) their largest speeds, in command per second.
        share: Part of the duration that the sweeps get.

    Raises:
        ConfigError: The duration is too short for a period at that frequency.
    """
    sweeps = bool(np.any(swept))
    sweep = RAMP + share * duration if sweeps else 0.0
    left = duration - 2 * RAMP - sweep
    periods = max(round(left / _PERIOD), 1)
    period = left / periods
    highest = int(np.floor(period * max_frequency + 1e-9)) if left > 0 else 0
    if highest < 1:
        least = (2 * RAMP + RAMP * sweeps + 1 / max_frequency) / (1 - share * sweeps)
        msg = (
            f'Expected a duration of at least {least:.3g} s for sines of up to {max_frequency:g} '
            f'Hz, found {duration:g} s.'
        )
        raise ConfigError(msg)
    spread = np.geomspace(1, highest, min(HARMONICS, highest))
    numbers: list[int] = []
    for place, value in enumerate(spread):
        # Distinct numbers, with room for those that follow.
        low = numbers[-1] + 1 if numbers else 1
        numbers.append(max(low, min(round(value), highest - (len(spread) - 1 - place))))
    slow = np.where(swept, _SWEEP_SPEED * np.asarray(speeds), 0.0) if sweeps else np.zeros(0)
    return Plan(
        tuple(chosen),
        periods,
        period,
        tuple(numbers),
        RAMP,
        sweep,
        slow if sweeps else np.zeros(len(chosen)),
        rate,
        max_frequency,
    )

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A motion: commands for all actuators on a fixed time grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: A quintic from rest to rest over one second and one unit is at most so fast (at half time).
_QUINTIC_PEAK_SPEED = 1.875


@dataclass(frozen=True)
class Motion:
    """Commands on a fixed time grid.

    Attributes:
        times: (n,) seconds from the first command.
        commands: (n, nu) in the unit of each actuator's command: rad or m for position servos.
        actuators: nu names, in model order.
    """

    times: NDArray[np.float64]
    commands: NDArray[np.float64]
    actuators: tuple[str, ...]

    def __post_init__(self) -> None:
        self.times.setflags(write=False)
        self.commands.setflags(write=False)

    @property
    def duration(self) -> float:
        """Seconds from the first to the last command."""
        return float(self.times[-1])


def sample_times(duration: float, rate: float) -> NDArray[np.float64]:
    """Return the (n,) times 0, 1/rate, … that are inside a duration."""
    # The small part keeps the last sample of 0.3 s at 10 Hz, which floating point puts below 3.
    return np.arange(int(np.floor(duration * rate + 1e-6)) + 1) / rate


def quintic(phase: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rest-to-rest polynomial from 0 to 1, constant outside phases 0 to 1.

    Its velocity and acceleration vanish at both ends: 10 p³ − 15 p⁴ + 6 p⁵.
    """
    p = np.clip(phase, 0.0, 1.0)
    shape: NDArray[np.float64] = p**3 * (10.0 + p * (6.0 * p - 15.0))
    return shape


def quintic_duration(distance: float, max_speed: float) -> float:
    """Return the seconds of a rest-to-rest quintic over a distance that keeps a speed."""
    return _QUINTIC_PEAK_SPEED * distance / max_speed


def approach(
    motion: Motion, start: NDArray[np.float64], *, rate: float, max_speed: float = 0.5
) -> Motion:
    """Prepend a smooth move from where the actuators are to where a motion starts.

    Args:
        motion: The motion.
        start: (nu,) commands that ask for the present pose.
        rate: Commands per second of the move, and of the motion.
        max_speed: Fastest change of any command in the move, unit per second.

    Returns:
        The move and the motion, without a step between; the motion alone when it starts here.
    """
    distance = motion.commands[0] - start
    duration = quintic_duration(float(np.max(np.abs(distance), initial=0.0)), max_speed)
    steps = int(np.ceil(duration * rate))
    if steps == 0:
        return motion
    phase = np.arange(steps) / steps
    move = start + quintic(phase)[:, None] * distance
    times = np.concatenate((np.arange(steps) / rate, steps / rate + motion.times))
    return Motion(times, np.concatenate((move, motion.commands)), motion.actuators)


def check_ramp(duration: float, ramp: float) -> None:
    """Refuse ramps that leave no room for a motion.

    Raises:
        ConfigError: Two ramps are not shorter than the duration.
    """
    if 2 * ramp >= duration:
        msg = f'Expected a ramp shorter than half the duration of {duration:g} s, found {ramp:g} s.'
        raise ConfigError(msg)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A motion: commands for all actuators on a fixed time grid; and the sum of sines."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ConfigError, ModelError
from sysid_ros.excitation.drives import Drive, drives

#: A quintic from rest to rest over one second and one unit is at most so fast (at half time).
_QUINTIC_PEAK_SPEED = 1.875
#: Sines per actuator: enough to move at many speeds, few enough that each is felt.
_SINES = 5
#: Lowest frequency in Hz, unless the motion is too short for one period of it.
_SLOWEST = 0.05
#: Amplitudes fall with frequency to this power. At 0 the fastest sine would take all torque, at 1
#: (equal speeds) accelerations would be too weak to tell an armature.
_AMPLITUDE_POWER = 0.75


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


def ramp_window(
    times: NDArray[np.float64], start: float, end: float, ramp: float
) -> NDArray[np.float64]:
    """Return (n,) weights that rise from 0 to 1 after a start and fall to 0 before an end."""
    if ramp <= 0:
        return np.ones_like(times)
    rising: NDArray[np.float64] = quintic((times - start) / ramp)
    return rising * quintic((end - times) / ramp)


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


def sum_of_sines(
    model: mujoco.MjModel,
    *,
    duration: float = 15.0,
    ramp: float = 1.0,
    amplitude: float = 0.4,
    max_frequency: float = 1.5,
    seed: int = 0,
    rate: float = 100.0,
) -> Motion:
    """Excite all actuators at once, each with sines of its own frequencies and random phases.

    No two actuators share a frequency, so that each joint's response can be told from what the
    others do to it. Slow sines make joints pass through rest often and at many speeds, which
    friction needs; fast ones accelerate, which inertia needs. The motion starts and ends at rest
    in the home pose (keyframe ``home``, else ``qpos0``) when there is a ramp.

    Args:
        model: The compiled model.
        duration: Seconds, ramps included.
        ramp: Seconds over which the motion fades in, and out.
        amplitude: Peak as a fraction of half of each actuator's range; the motion is centred on
            the home pose, or as near to it as that range allows. Never outside the range.
        max_frequency: Highest frequency, Hz.
        seed: Of frequencies and phases; equal seeds give equal motions.
        rate: Commands per second.

    Raises:
        ModelError: There are no actuators, or one of them has no range.
        ConfigError: The ramps do not fit into the duration.
    """
    if 2 * ramp >= duration:
        raise ConfigError(
            f'Expected a ramp shorter than half the duration of {duration:g} s, found {ramp:g} s.'
        )
    chosen = drives(model)
    if not chosen:
        raise ModelError('The model has no actuators, so there is nothing to excite.')
    rng = np.random.default_rng(seed)
    times = sample_times(duration, rate)
    frequencies = _frequencies(rng, len(chosen), times[-1], max_frequency)
    phases = rng.uniform(0.0, 2.0 * np.pi, frequencies.shape)
    angle = 2.0 * np.pi * frequencies * times[:, None, None] + phases
    waves = np.sum(frequencies**-_AMPLITUDE_POWER * np.sin(angle), axis=2)
    waves /= np.max(np.abs(waves), axis=0)
    window = ramp_window(times, 0.0, float(times[-1]), ramp)
    commands = np.stack(
        [
            _inside(drive, wave, window, amplitude)
            for drive, wave in zip(chosen, waves.T, strict=True)
        ],
        axis=1,
    )
    return Motion(times, commands, tuple(drive.actuator for drive in chosen))


def _frequencies(
    rng: np.random.Generator, actuators: int, duration: float, highest: float
) -> NDArray[np.float64]:
    """Return (actuators, sines) distinct frequencies in Hz.

    Sine k lies in the k-th of equal bands on a logarithmic scale; within a band every actuator has
    a slot of its own, dealt at random.
    """
    lowest = min(max(_SLOWEST, 1.0 / max(duration, 1e-9)), highest / 4.0)
    slots = _SINES * actuators
    grid = highest * (lowest / highest) ** (np.arange(slots)[::-1] / slots)
    return np.stack([rng.permutation(band) for band in grid.reshape(_SINES, actuators)], axis=1)


def _inside(
    drive: Drive, wave: NDArray[np.float64], window: NDArray[np.float64], amplitude: float
) -> NDArray[np.float64]:
    """Scale a wave of peak 1 into a drive's range.

    Home and centre ± peak are inside the range, the window is between 0 and 1, and an interval is
    convex: so is every command.
    """
    if not np.isfinite(drive.upper - drive.lower):
        raise ModelError(
            f'Actuator {drive.actuator!r} has no ctrlrange and moves no joint with a range, '
            'so its motion would have no limit.'
        )
    peak = amplitude * (drive.upper - drive.lower) / 2.0
    centre = min(max(drive.home, drive.lower + peak), drive.upper - peak)
    home = min(max(drive.home, drive.lower), drive.upper)
    return np.clip(home + window * (centre - home + peak * wave), drive.lower, drive.upper)

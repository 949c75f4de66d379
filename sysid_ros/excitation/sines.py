# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Sums of sines: each actuator at frequencies of its own, inside its range."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.errors import ModelError
from sysid_ros.excitation.drives import drives
from sysid_ros.excitation.motion import Motion, check_ramp, quintic, sample_times

if TYPE_CHECKING:
    import mujoco
    from numpy.typing import NDArray

    from sysid_ros.excitation.drives import Drive

#: Sines per actuator: enough to move at many speeds, few enough that each is felt.
_SINES = 5
#: Lowest frequency in Hz, unless the motion is too short for one period of it.
_SLOWEST = 0.05
#: Amplitudes fall with frequency to this power. At 0 the fastest sine would take all torque, at 1
#: (equal speeds) accelerations would be too weak to tell an armature.
_AMPLITUDE_POWER = 0.75


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
    check_ramp(duration, ramp)
    chosen = drives(model)
    if not chosen:
        msg = 'The model has no actuators, so there is nothing to excite.'
        raise ModelError(msg)
    rng = np.random.default_rng(seed)
    times = sample_times(duration, rate)
    frequencies = _frequencies(rng, len(chosen), times[-1], max_frequency)
    phases = rng.uniform(0.0, 2.0 * np.pi, frequencies.shape)
    angle = 2.0 * np.pi * frequencies * times[:, None, None] + phases
    waves = np.sum(frequencies**-_AMPLITUDE_POWER * np.sin(angle), axis=2)
    waves /= np.max(np.abs(waves), axis=0)
    window = _window(times, ramp)
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


def _window(times: NDArray[np.float64], ramp: float) -> NDArray[np.float64]:
    if ramp <= 0:
        return np.ones_like(times)
    return quintic(times / ramp) * quintic((times[-1] - times) / ramp)


def _inside(
    drive: Drive, wave: NDArray[np.float64], window: NDArray[np.float64], amplitude: float
) -> NDArray[np.float64]:
    """Scale a wave of peak 1 into a drive's range.

    Home and centre ± peak are inside the range, the window is between 0 and 1, and an interval is
    convex: so is every command.
    """
    if not np.isfinite(drive.upper - drive.lower):
        msg = (
            f'Actuator {drive.actuator!r} has no ctrlrange and moves no joint with a range, '
            'so its motion would have no limit.'
        )
        raise ModelError(msg)
    peak = amplitude * (drive.upper - drive.lower) / 2.0
    centre = min(max(drive.home, drive.lower + peak), drive.upper - peak)
    home = min(max(drive.home, drive.lower), drive.upper)
    return np.clip(home + window * (centre - home + peak * wave), drive.lower, drive.upper)

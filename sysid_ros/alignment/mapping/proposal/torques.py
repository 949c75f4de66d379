# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How much of a joint's torque its servo and the laws of motion leave unexplained."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import nnls

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.alignment.mapping.proposal.model import Joint

#: A smaller offset, rad or m per unit of stiffness, is none: friction holds a joint so far away.
LEAST_SHIFT = 0.02
#: Standard deviation of the logarithm of a servo's true gain over the model's, and its limit.
_GAIN_SPREAD, _GAIN_LIMIT = 0.5, 3.0
#: Half the part of the mean torque that counts as variation.
_MEAN_PART = 0.1
#: Speeds at which dry friction turns, as a part of the motion's.
_SLOW = 0.05
#: The true armature is at most so many times the model's, or one so many times smaller.
_ARMATURE = 4.0
#: The torques of rigid bodies are at most so many times the model's, or so many times smaller.
_MASSES = 1.6


def servo_torque(
    joint: Joint,
    kind: str,
    told: NDArray[np.float64] | None,
    position: NDArray[np.float64],
    rate: NDArray[np.float64],
) -> NDArray[np.float64] | None:
    """Return the (n,) torques of the actuator by the model's gains."""
    law = joint.law
    if law is None or not law.known or told is None or law.kind != kind:
        return None
    if kind == 'position':
        return law.stiffness * (told - position) - law.damping * rate
    return law.damping * (told - rate) if kind == 'velocity' else told


def law_part(
    joint: Joint, effort: NDArray[np.float64], servo: NDArray[np.float64]
) -> tuple[float, float]:
    """Return the part of an effort that a servo's law leaves unexplained, and the gain's cost."""
    moving = servo - servo.mean()
    size = float(moving @ moving)
    gain = float(moving @ (effort - effort.mean())) / size if size > 0 else 1.0
    gain = min(max(gain, 1 / _GAIN_LIMIT), _GAIN_LIMIT)
    left = effort - gain * servo
    stiffness = joint.law.stiffness if joint.law else 0.0
    slack = LEAST_SHIFT * gain * stiffness
    left -= min(max(float(left.mean()), -slack), slack)
    return _part(left, effort), (math.log(gain) / _GAIN_SPREAD) ** 2


def motion_part(
    joint: Joint,
    driving: NDArray[np.float64],
    torque: NDArray[np.float64],
    rate: NDArray[np.float64],
    acceleration: NDArray[np.float64],
) -> float:
    """Return the part of a torque that rigid bodies, armature and friction leave unexplained."""
    slow = _SLOW * float(np.sqrt(np.mean(rate**2))) or 1.0
    bases = np.column_stack([torque, acceleration, rate, np.tanh(rate / slow)])
    least = np.array([1 / _MASSES, joint.armature / _ARMATURE, 0.0, 0.0])
    most = np.array([_MASSES, joint.armature * _ARMATURE or np.inf, np.inf, np.inf])
    return _part(driving - bases @ _bounded(bases, driving, least, most), driving)


def _bounded(
    bases: NDArray[np.float64],
    values: NDArray[np.float64],
    least: NDArray[np.float64],
    most: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the (k,) factors of (n, k) bases that fit (n,) values, near the best within bounds."""
    sizes = np.sqrt((bases**2).sum(axis=0))
    sizes[sizes == 0] = 1.0
    factors: NDArray[np.float64] = least.copy()
    free = np.ones(len(least), dtype=bool)
    while free.any():
        factors[free] = least[free]
        found, _ = nnls(bases[:, free] / sizes[free], values - bases @ factors)
        factors[free] += found / sizes[free]
        beyond = factors > most
        if not beyond.any():
            break
        factors[beyond] = most[beyond]
        free &= ~beyond
    return factors


def _part(left: NDArray[np.float64], whole: NDArray[np.float64]) -> float:
    size = float(np.var(whole) + (_MEAN_PART * np.mean(whole)) ** 2)
    return float(np.mean(left**2)) / size if size > 0 else math.nan

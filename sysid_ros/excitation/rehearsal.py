# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Trying a motion on the model before a robot moves."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ModelError
from sysid_ros.excitation.drives import drives, holding_commands, home_position
from sysid_ros.excitation.experiment import Experiment
from sysid_ros.excitation.limits import CLEARANCE, Collisions, Limits
from sysid_ros.excitation.motion import Motion, approach
from sysid_ros.model.joints import SCALAR_JOINTS

#: A longer motion is tried in its first seconds only: ten minutes take some seconds to simulate.
LONGEST = 600.0


def rehearse(spec: mujoco.MjSpec, path: Path, motion: Motion, limits: Limits) -> None:
    """Simulate a motion, and what leads to it from the home pose, and refuse what breaks a limit.

    What comes after :data:`LONGEST` is not looked at.

    Raises:
        ModelError: A limit is broken, bodies come too near to each other, or the simulation
            becomes unstable.
    """
    model = limits.model
    rate = 1.0 / float(motion.times[1] - motion.times[0])
    looked = motion.times <= LONGEST
    part = Motion(motion.times[looked], motion.commands[looked], motion.actuators)
    whole = approach(part, holding_commands(model, home_position(model)), rate=rate)
    with Experiment(spec, path, (), limits, {}, rate=rate) as experiment:
        found = experiment.excursion(whole, np.zeros((1, 0)))
    broken = found.broken(limits)
    if broken:
        raise ModelError(
            f'Expected a motion inside the limits of {str(path)!r}, found one that breaks {broken}.'
        )


def lead_in(
    model: mujoco.MjModel, motion: Motion, pose: NDArray[np.float64], *, rate: float
) -> Motion:
    """Return a motion with a move from a pose in front, and refuse a move into a collision.

    Of what stands or flies nobody knows where it is: its move is not looked at.

    Args:
        model: The compiled model.
        motion: The motion.
        pose: (nq,) where the robot is; what touches there does not count.
        rate: Commands per second.

    Raises:
        ModelError: Bodies come too near to each other, if servos do as they are told.
    """
    whole = approach(motion, holding_commands(model, pose), rate=rate)
    if not np.all(np.isin(model.jnt_type, SCALAR_JOINTS)):
        return whole
    commands = whole.commands[: len(whole.times) - len(motion.times) + 1]
    asked = np.tile(pose, (len(commands), 1))
    for column, drive in enumerate(drives(model)):
        if drive.takes_positions and drive.joint:
            address = model.jnt_qposadr[model.joint(drive.joint).id]
            asked[:, address] = (commands[:, column] - drive.offset) / drive.slope
    distance = Collisions(model, CLEARANCE, pose).distance(asked)
    if distance < CLEARANCE:
        raise ModelError(
            'Expected a free way from where the robot is to where the motion begins, found bodies '
            f'that come as near as {1e3 * distance:.1f} mm on it.'
        )
    return whole

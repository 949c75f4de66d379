# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a robot that plays a motion is still inside its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sysid_ros.excitation.drives import drives, joint_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

#: Efforts above the model's limits by so much of them are beyond: measuring has its errors.
_EFFORT_TOLERANCE = 0.05


class Breach(NamedTuple):
    """A broken limit.

    Attributes:
        reason: Which, by how much.
        gives_way: Whether the commands have to go to where the robot is.
    """

    reason: str
    gives_way: bool = False


class Guard:
    """Compares joint states with the limits of a model and with the commands."""

    def __init__(
        self,
        model: mujoco.MjModel,
        *,
        position_tolerance: float,
        max_velocity: float,
        max_error: float,
    ) -> None:
        """Collect the limits.

        Args:
            model: The compiled model.
            position_tolerance: How far a joint may be beyond its range, rad or m.
            max_velocity: Largest speed, rad/s or m/s; 0 means any.
            max_error: Largest distance of a joint from its command, rad or m; 0 means any.
        """
        self._tolerance = position_tolerance
        self._velocity = max_velocity
        self._error = max_error
        self._drives = drives(model)
        self._ranges: dict[str, tuple[float, float]] = {}
        self._efforts: dict[str, float] = {}
        for name in joint_names(model):
            row = model.joint(name).id
            if model.jnt_limited[row]:
                self._ranges[name] = (
                    float(model.jnt_range[row, 0]),
                    float(model.jnt_range[row, 1]),
                )
            if (effort := _effort(model, row)) < np.inf:
                self._efforts[name] = effort * (1 + _EFFORT_TOLERANCE)

    def check(
        self,
        positions: Mapping[str, float],
        velocities: Mapping[str, float],
        efforts: Mapping[str, float],
        command: NDArray[np.float64],
    ) -> Breach | None:
        """Return the first limit that joint states break; None while all is well.

        Args:
            positions: By joint, rad or m; joints that the model does not have are ignored.
            velocities: By joint, rad/s or m/s; empty where they are not measured.
            efforts: By joint, N·m or N; empty where they are not measured.
            command: (nu,) the present commands.
        """
        for name, (low, high) in self._ranges.items():
            value = positions.get(name, low)
            if not low - self._tolerance <= value <= high + self._tolerance:
                return Breach(f'{name!r} is at {value:.3g}, outside its range {low:g} to {high:g}')
        for name, value in velocities.items():
            if self._velocity and abs(value) > self._velocity:
                return Breach(f'{name!r} moves at {value:.3g}, faster than {self._velocity:g}')
        for name, limit in self._efforts.items():
            value = efforts.get(name, 0.0)
            if abs(value) > limit:
                reason = f'the effort of {name!r} is {value:.3g}, above its limit by over 5 %'
                return Breach(reason, gives_way=True)
        for drive, told in zip(self._drives, command, strict=True):
            if not (self._error and drive.takes_positions and drive.joint in positions):
                continue
            error = positions[drive.joint] - drive.position(float(told))
            if abs(error) > self._error:
                reason = f'{drive.joint!r} is {error:.3g} from its command, over {self._error:g}'
                return Breach(reason, gives_way=True)
        return None

    def nearer(
        self, command: NDArray[np.float64], positions: Mapping[str, float], part: float
    ) -> NDArray[np.float64]:
        """Return (nu,) commands that are nearer to where the joints are by a part of the way."""
        found: NDArray[np.float64] = command.copy()
        for row, drive in enumerate(self._drives):
            if drive.takes_positions and drive.joint in positions:
                here = min(max(drive.command(positions[drive.joint]), drive.lower), drive.upper)
                found[row] += part * (here - command[row])
        return found


def _effort(model: mujoco.MjModel, joint: int) -> float:
    """Return the largest effort that the model allows the actuators of a joint, N·m or N."""
    limit = np.inf
    if model.jnt_actfrclimited[joint]:
        limit = float(np.abs(model.jnt_actfrcrange[joint]).max())
    own = [
        row
        for row in range(model.nu)
        if model.actuator_trntype[row] == int(mujoco.mjtTrn.mjTRN_JOINT)
        and model.actuator_trnid[row, 0] == joint
    ]
    if own and all(model.actuator_forcelimited[row] for row in own):
        most = np.abs(model.actuator_forcerange[own]).max(axis=1)
        limit = min(limit, float(np.sum(most * np.abs(model.actuator_gear[own, 0]))))
    return limit

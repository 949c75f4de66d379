# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Servos in a simulation that is stepped by hand: a viewer, a policy, a simulated robot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np

from sysid_ros.servos.laws.forces import Forces

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sysid_ros.servos.laws.forces import Supply
    from sysid_ros.servos.laws.joints import ServoJoints

_FRICTION = mujoco.mjtConstraint.mjCNSTR_FRICTION_DOF.value


class ServoController:
    """Drives the joints of one simulation.

    ``update`` before each ``mj_step`` writes controls, dry friction and damping::

        joints = ServoJoints(model, [ServoDrive(('elbow',), servo, values)])
        data = mujoco.MjData(joints.model)
        controller = ServoController(joints, data)
        controller.goal[:] = 0.3
        while data.time < 2.0:
            controller.update()
            mujoco.mj_step(joints.model, data)

    Attributes:
        model: The model to step, whose friction this changes.
        goal: (J,) commanded positions, rad; where the joints are until it is set.
        enabled: (J,) 1 where a motor is powered, else 0.
    """

    def __init__(
        self, joints: ServoJoints, data: mujoco.MjData, *, supply: Supply | None = None
    ) -> None:
        """Prepare the laws.

        Args:
            joints: The driven joints.
            data: Of ``joints.model``.
            supply: What the motors share.
        """
        self.model = joints.model
        self.goal = data.qpos[joints.qpos].copy()
        self.enabled = np.ones(len(joints.actuators))
        self._joints, self._data = joints, data
        self._forces = Forces(joints.groups, float(self.model.opt.timestep), supply=supply)
        self._time = np.nan
        self._others = np.zeros(len(joints.actuators))
        self.model.dof_damping[joints.dofs] = self._forces.damping

    def command(self, goals: Mapping[str, float]) -> None:
        """Set goals of some actuators by name, rad.

        Raises:
            ParameterError: No servo drives one of them.
        """
        for actuator, goal in goals.items():
            self.goal[self._joints.place(actuator)] = goal

    def reset(self) -> None:
        """Forget what firmware and supply remember: after the state was set by hand."""
        self._forces.reset()

    def update(self) -> None:
        """Write what acts in the coming step."""
        joints, model, data = self._joints, self.model, self._data
        if data.time < self._time:  # mj_resetData
            self.reset()
        if data.time != self._time:
            self._others = self._constraints()
            self._time = float(data.time)
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        motor, friction = self._forces(
            self.goal,
            self.enabled,
            data.qpos[joints.qpos],
            data.qvel[joints.dofs],
            self._others - data.qfrc_bias[joints.dofs],
        )
        data.ctrl[joints.controls] = motor / joints.gears
        model.dof_frictionloss[joints.dofs] = friction

    def _constraints(self) -> NDArray[np.float64]:
        """Return the (J,) torques of limits and contacts in the step that was made, N·m."""
        data = self._data
        own = np.zeros(self.model.nv)
        rows = data.efc_type == _FRICTION
        own[data.efc_id[rows]] = data.efc_force[rows]
        found: NDArray[np.float64] = (data.qfrc_constraint - own)[self._joints.dofs]
        return found

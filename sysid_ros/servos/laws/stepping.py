# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Simulations of a robot on one pool of threads, with its servos' laws evaluated between steps.

As on the bench, the motor's torque and the friction of a step are those of the state before it. The
torque from outside, of gravity, gyroscopic effects, the other joints' motion, limits and contacts,
is that of the step before: a step only gives it once it is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import mujoco
import numpy as np
from mujoco.batch import Batch
from numpy.typing import NDArray

from sysid_ros.servos.laws.servo import Servo

Array = NDArray[np.float64]
Places = NDArray[np.int64] | slice

#: With this stage computed, gravity and gyroscopic torques are known.
_VELOCITY = mujoco.mjtStage.mjSTAGE_VEL.value
_CLOCK = mujoco.mjtState.mjSTATE_TIME.value


class ServoGroup(NamedTuple):
    """Joints whose servos have the same laws, with numbers of their own.

    Attributes:
        servo: The laws.
        places: (k,) places of the joints among all driven ones.
        numbers: What the laws read, (k,) each.
    """

    servo: Servo
    places: NDArray[np.int64]
    numbers: Mapping[str, Array]


class ServoForces:
    """Servos of n simulations, or of one, whose arrays have no first dimension then.

    Attributes:
        damping: (joints,) or (n, joints) viscous friction, N·m·s/rad.
    """

    def __init__(
        self,
        groups: Sequence[ServoGroup],
        timestep: float,
        given: Mapping[tuple[int, str], Array] | None = None,
    ) -> None:
        """Put the numbers of all simulations side by side; the time step is in s.

        Where simulations differ, ``given`` is place of a joint and name of a number to (n,) values.
        """
        self._timestep = timestep
        self._groups = [(g.servo, consecutive(g.places), _numbers(g, given or {})) for g in groups]
        self._memory: list[Array | None] | None = None
        count = sum(len(group.places) for group in groups)
        rows = {v.shape[0] for _, _, p in self._groups for v in p.values() if v.ndim > 1}
        self.damping = np.zeros((*rows, count))
        for _, places, p in self._groups:
            self.damping[..., places] = p['friction_viscous']

    def reset(self) -> None:
        """Forget what the firmware remembers."""
        self._memory = None

    def __call__(
        self, goal: Array, enabled: Array | float, q: Array, dq: Array, external: Array
    ) -> tuple[Array, Array]:
        """Return the torques of the motors at the joints and the largest dry friction, N·m.

        All are of shape (…, joints): commanded and measured positions, rad, velocities, rad/s,
        torques from outside, N·m; ``enabled`` is 1 where a motor is powered, else 0.
        """
        if self._memory is None:
            # A servo that is switched on holds the position that it is in.
            self._memory = [q[..., places].copy() for _, places, _ in self._groups]
        switched = np.broadcast_to(enabled, q.shape) if np.ndim(enabled) else enabled
        motor, friction = np.empty_like(q), np.empty_like(q)
        for index, (servo, places, p) in enumerate(self._groups):
            law, own, speed = servo.type.motor, q[..., places], dq[..., places]
            on = switched[..., places] if isinstance(switched, np.ndarray) else switched
            control, self._memory[index] = law.drive(
                p, goal[..., places], own, speed, self._timestep, self._memory[index]
            )
            torque = law.torque(p, control, on, speed)
            motor[..., places] = torque
            friction[..., places] = servo.friction.dry(p, torque, external[..., places], speed)
        return motor, friction


def _numbers(group: ServoGroup, given: Mapping[tuple[int, str], Array]) -> dict[str, Array]:
    """Return the numbers of a group, (k,) each or, where simulations differ, (n, k)."""
    found = {}
    for name, usual in group.numbers.items():
        columns = [given.get((int(place), name)) for place in group.places]
        rows = next((len(column) for column in columns if column is not None), None)
        found[name] = usual
        if rows is not None:
            found[name] = np.tile(usual, (rows, 1))
            for place, column in enumerate(columns):
                if column is not None:
                    found[name][:, place] = column
    return found


def consecutive(places: NDArray[np.int64]) -> Places:
    """Return places as a slice where they follow each other: that is faster."""
    if np.array_equal(places, np.arange(places[0], places[0] + len(places))):
        return slice(int(places[0]), int(places[0]) + len(places))
    return places


class DrivenJoints(Protocol):
    """The J joints that are stepped with laws, as of `ServoJoints`."""

    groups: tuple[ServoGroup, ...]
    dofs: NDArray[np.int64]
    controls: NDArray[np.int64]
    qpos: NDArray[np.int64]
    gears: NDArray[np.float64]


class ServoStepper:
    """Steps simulations whose candidates have numbers of servos' laws.

    Attributes:
        fields: Fields of the model that it writes.
    """

    fields = frozenset({'dof_frictionloss', 'dof_damping'})

    def __init__(
        self, joints: DrivenJoints, model: mujoco.MjModel, columns: Mapping[tuple[int, str], int]
    ) -> None:
        """Keep what is simulated: joints of a prepared model.

        ``columns`` is place of a joint and name of a number to the column of its value.
        """
        self._joints = joints
        self._timestep = float(model.opt.timestep)
        self._columns = dict(columns)

    def roll(
        self, batch: Batch, control: Array, values: Array, record: Mapping[Any, Array]
    ) -> None:
        """Simulate the first n simulations of a batch from the states that they are in.

        A simulation that MuJoCo warns about stops and repeats its last record, as in
        ``Batch.rollout``. Arguments are those of `rollout.drives.Stepper.roll`; ``record`` may also
        hold what accelerations give, such as ``qfrc_actuator``, of the state before a step.
        """
        joints = self._joints
        given = {key: values[:, column] for key, column in self._columns.items()}
        forces = ServoForces(joints.groups, self._timestep, given)
        count, steps, _ = control.shape
        dofs, columns, places = (
            consecutive(x) for x in (joints.dofs, joints.controls, joints.qpos)
        )
        q, v = batch.bind('qpos')[:count], batch.bind('qvel')[:count]
        controls, bias = batch.bind('ctrl')[:count], batch.bind('qfrc_bias')[:count]
        friction = batch.expand('dof_frictionloss')[:count]
        batch.expand('dof_damping')[:count, dofs] = forces.damping
        others = _Others(joints, batch, count)
        clock = np.asarray(batch.bind('time')[:, None])
        sources = [
            (out, (clock if item == _CLOCK else batch.bind(item))[:count])
            for item, out in record.items()
        ]
        running: NDArray[np.int64] | None = None if count == batch.nsim else np.arange(count)
        batch.forward(running, stage=_VELOCITY)  # the load of the first step
        warnings = batch.warning[:count]
        warned = warnings.copy()
        external = -bias[:, dofs]
        with np.errstate(all='ignore'):  # a simulation that diverges is found by MuJoCo's warning
            for step in range(steps):
                controls[:] = control[:, step]
                speed = v[:, dofs].copy()
                goal = controls[:, columns].copy()
                motor, most = forces(goal, 1.0, q[:, places], speed, external)
                controls[:, columns] = motor / joints.gears
                friction[:, dofs] = most
                batch.step(running)
                external = others.load(speed, most) - bias[:, dofs]
                for out, source in sources:
                    out[:, step] = source
                if np.any(warnings != warned):
                    running = np.flatnonzero(np.all(warnings == warned, axis=(1, 2)))
                    if not len(running):
                        for out, _ in sources:
                            out[:, step + 1 :] = out[:, step : step + 1]
                        break


class _Others:
    """What limits, contacts and other constraints do to the driven joints.

    The force of all constraints together less that of the joint's own dry friction, which follows
    from MuJoCo's own formula for it: clip(-(a + b v) / R, ±frictionloss), with the reference
    acceleration -b v and the regulariser R of the step. With the PGS solver that is approximate.
    """

    def __init__(self, joints: DrivenJoints, batch: Batch, count: int) -> None:
        model = batch.model
        self._dofs = consecutive(joints.dofs)
        self._force = batch.bind('qfrc_constraint')[:count]
        self._acceleration = batch.bind('qacc')[:count]
        self._rows, self._frictions = batch.bind('nefc')[:count], batch.bind('nf')[:count]
        self._tendons = bool(np.any(model.tendon_frictionloss > 0))
        weights = batch.expanded('dof_invweight0')
        inverse = model.dof_invweight0 if weights is None else weights[:count]
        lowest, highest = model.dof_solimp[self._dofs, :2].T
        self._regulariser = (1.0 - lowest) / lowest * inverse[..., self._dofs]
        self._damping = 2.0 / (highest * model.dof_solref[self._dofs, 0])

    def load(self, velocity: Array, friction: Array) -> Array | float:
        """Return the (n, J) torques of the step that was made, N·m.

        Velocities are those before the step, friction is the largest that it could be.
        """
        touched = (self._rows != self._frictions) | self._tendons
        if not touched.any():
            return 0.0
        reference = self._acceleration[:, self._dofs] + self._damping * velocity
        own = np.clip(-reference / self._regulariser, -friction, friction)
        return np.where(touched[:, None], self._force[:, self._dofs] - own, 0.0)

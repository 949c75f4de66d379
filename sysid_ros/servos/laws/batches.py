# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Thousands of simulations of a robot with servos, each with numbers of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from mujoco.batch import Batch

from sysid_ros.errors import ParameterError, nearest
from sysid_ros.servos.laws.forces import Forces
from sysid_ros.servos.laws.stepping import roll

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from sysid_ros.servos.laws.forces import Supply
    from sysid_ros.servos.laws.joints import ServoJoints

    Array = NDArray[np.float64]

#: What may be recorded: states after each step, and what belongs to the state before it.
RECORDS = (
    'time',
    'qpos',
    'qvel',
    'act',
    'ctrl',
    'sensordata',
    'qacc',
    'qfrc_actuator',
    'actuator_force',
    'qfrc_constraint',
)
_ARMATURE = 'armature'


class ServoBatch:
    """N simulations on one pool of threads.

    Attributes:
        joints: The driven joints.
        batch: The simulations; other fields of the model may be expanded and written, see
            ``mujoco.batch.Batch``.
    """

    def __init__(
        self,
        joints: ServoJoints,
        nsim: int,
        *,
        threads: int = 0,
        values: Mapping[str, ArrayLike] | None = None,
        supply: Supply | None = None,
    ) -> None:
        """Prepare the simulations.

        Args:
            joints: The driven joints.
            nsim: Number of simulations.
            threads: Size of the pool; 0 means one per core.
            values: Numbers of the servos that differ between simulations, with ``armature``: name
                to (nsim,) for all joints that have it, or to (nsim, J); or, for one joint, its
                actuator's name and that, ``elbow/kt``, to (nsim,).
            supply: What the motors of one simulation share.

        Raises:
            ParameterError: No servo has such a number, or there are not nsim of it.
        """
        self.joints = joints
        self.batch = Batch(joints.model, nsim, threads)
        self._supply = supply
        self._given: dict[tuple[int, str], Array] = {}
        for name, numbers in (values or {}).items():
            self._given.update(self._spread(name, np.asarray(numbers, dtype=np.float64)))
        self._set_armature()

    def rollout(
        self,
        goals: ArrayLike,
        *,
        qpos: ArrayLike | None = None,
        qvel: ArrayLike | None = None,
        enabled: ArrayLike = 1.0,
        control: ArrayLike = 0.0,
        record: Sequence[str] = ('qpos', 'qvel'),
    ) -> dict[str, Array]:
        """Simulate from given states.

        A simulation that becomes unstable stops: its time stands still, and its records repeat.

        Args:
            goals: (steps, J) commanded positions for all simulations, or (nsim, steps, J), rad.
            qpos: (nq,) or (nsim, nq) at the start; the model's unless given.
            qvel: (nv,) or (nsim, nv) at the start; 0 unless given.
            enabled: 1 where a motor is powered, else 0; (steps, J) or (nsim, steps, J).
            control: Of the other actuators; (steps, nu) or (nsim, steps, nu).
            record: Some of ``RECORDS``.

        Returns:
            What is recorded, (nsim, steps, …). Row k of a state is the one after step k; sensors,
            accelerations and forces of row k are those of the state before it.

        Raises:
            ParameterError: Something else is to be recorded.
        """
        for item in record:
            if item not in RECORDS:
                msg = f'Cannot record {item!r}; {nearest(item, RECORDS, len(RECORDS))}.'
                raise ParameterError(msg)
        batch, joints = self.batch, self.joints
        wanted = np.asarray(goals, dtype=np.float64)
        shape = (batch.nsim, wanted.shape[-2])
        told = np.array(np.broadcast_to(control, (*shape, batch.model.nu)), dtype=np.float64)
        told[:, :, joints.controls] = wanted
        on = np.broadcast_to(enabled, (*shape, len(joints.actuators)))
        batch.reset(stage=0)
        if qpos is not None:
            batch.bind('qpos')[:] = qpos
        if qvel is not None:
            batch.bind('qvel')[:] = qvel
        found = {
            item: np.empty((*shape, *batch.bind(item).shape[1:]), dtype=np.float64)
            for item in record
        }
        timestep = float(batch.model.opt.timestep)
        forces = Forces(joints.groups, timestep, self._given, self._supply)
        roll(joints, batch, forces, told, found, on)
        return found

    def _spread(self, name: str, numbers: Array) -> dict[tuple[int, str], Array]:
        """Return place and name of a number to its (nsim,) values."""
        joints, count = self.joints, self.batch.nsim
        actuator, _, bare = name.rpartition('/')
        names = {
            place: (*group.numbers, _ARMATURE) for group in joints.groups for place in group.places
        }
        places = [joints.place(actuator)] if actuator else list(range(len(joints.actuators)))
        having = [place for place in places if bare in names[place]]
        if not having:
            known = dict.fromkeys(each for place in places for each in names[place])
            msg = f'No servo here has the number {name!r}; {nearest(bare, known)}.'
            raise ParameterError(msg)
        shapes = [(count,)] if actuator else [(count,), (count, len(places))]
        if numbers.shape not in shapes:
            expected = ' or '.join(map(str, shapes))
            msg = f'Expected {name!r} of shape {expected}, found {numbers.shape}.'
            raise ParameterError(msg)
        return {(p, bare): numbers if numbers.ndim == 1 else numbers[:, p] for p in having}

    def _set_armature(self) -> None:
        """Write armatures that differ between simulations."""
        places = [place for place, name in self._given if name == _ARMATURE]
        for place in places:
            numbers = self._given.pop((place, _ARMATURE))
            self.batch.expand('dof_armature')[:, self.joints.dofs[place]] = numbers
        if places:
            self.batch.set_const()

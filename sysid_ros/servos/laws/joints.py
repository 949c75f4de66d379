# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which joints of a model are driven by which servos, and the model without its own actuators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np

from sysid_ros.errors import ModelError, ParameterError, nearest
from sysid_ros.model.targets import Role
from sysid_ros.rollout.drives import no_law
from sysid_ros.servos.laws.forces import Group
from sysid_ros.servos.laws.stepping import ServoStepper
from sysid_ros.servos.laws.torque_motors import joint_actuator, joint_actuators, make_motor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sysid_ros.model.targets import Target
    from sysid_ros.servos.laws.servo_drive import ServoDrive

#: Switches of a model without which there is no friction.
_SWITCHES = (mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS, mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
#: Impedance of dry friction: the largest that MuJoCo allows, at any distance.
_RIGID = (0.9999, 0.9999, 0.001, 0.5, 2.0)
#: What the laws decide, beside the numbers of actuators.
_OF_DOFS = ('dof_damping', 'dof_dampingpoly', 'dof_frictionloss', 'dof_solref', 'dof_solimp')
_OF_ACTUATORS = (
    'actuator_gainprm',
    'actuator_biasprm',
    'actuator_dynprm',
    'actuator_gear',
    'actuator_forcerange',
    'actuator_ctrlrange',
    'actuator_actrange',
    'actuator_armature',
    'actuator_damping',
    'actuator_dampingpoly',
)


class ServoJoints:
    """The joints of a model that servos drive.

    Their actuators, whatever they are in the MJCF, become plain motors: what they are told is the
    torque at the joint over the gear, so that sensors of actuators and joints read the motor's.
    Their limits, dynamics and native delay are gone, and so is the limit of actuator forces at the
    joint: the laws have those of the servo. Damping, dry friction and armature of the joint are
    those of the servo. Dry friction holds the joint still, as it does on the bench: the model's
    ``solreffriction`` and ``solimpfriction`` would let it creep under load.

    Attributes:
        drives: The servos.
        actuators: (J,) names, in the order of the drives.
        joints: (J,) names of their joints.
        controls: (J,) columns of the controls.
        gears: (J,) of the actuators.
        qpos: (J,) places of the positions.
        dofs: (J,) degrees of freedom.
        groups: The joints by laws.
        model: The model with plain motors; the given one is not changed.
    """

    def __init__(self, model: mujoco.MjModel, drives: Iterable[ServoDrive]) -> None:
        """Find the joints.

        Args:
            model: The compiled model.
            drives: The servos; at least one.

        Raises:
            ParameterError: The model has no such actuator, it does not drive a hinge or slide joint
                alone, or is driven by two servos.
            ModelError: The model has dry friction switched off.
        """
        self.drives = tuple(drives)
        if not self.drives:
            msg = 'Expected at least one servo that drives actuators, found none.'
            raise ParameterError(msg)
        self._places = {
            name: place
            for place, name in enumerate(name for drive in self.drives for name in drive.actuators)
        }
        self.actuators = tuple(self._places)
        _check_once([name for drive in self.drives for name in drive.actuators])
        self._rows = np.array([joint_actuator(model, name) for name in self.actuators])
        joints = model.actuator_trnid[self._rows, 0]
        self._joints = joints
        self.joints = tuple(model.joint(int(joint)).name for joint in joints)
        self.controls = model.actuator_ctrladr[self._rows].astype(np.int64)
        self.gears = model.actuator_gear[model.actuator_outadr[self._rows], 0].copy()
        self.qpos = model.jnt_qposadr[joints].astype(np.int64)
        self.dofs = model.jnt_dofadr[joints].astype(np.int64)
        self._check(model)
        self.groups = tuple(self._grouped())
        self.model = self.prepared(model)

    def place(self, actuator: str) -> int:
        """Return the place of an actuator among the driven ones.

        Raises:
            ParameterError: No servo drives it.
        """
        if actuator not in self._places:
            msg = f'No servo drives an actuator {actuator!r}; {nearest(actuator, self.actuators)}.'
            raise ParameterError(msg)
        return self._places[actuator]

    def drive_of(self, actuator: str) -> ServoDrive:
        """Return the servo that drives an actuator.

        Raises:
            ParameterError: None does.
        """
        self.place(actuator)
        return next(drive for drive in self.drives if actuator in drive.actuators)

    def prepared(self, model: mujoco.MjModel) -> mujoco.MjModel:
        """Return a copy of a compiled model with plain motors, and with the servos' armature.

        Args:
            model: Compiled from the same spec.
        """
        copy = model.__copy__()
        for row, dof, joint in zip(self._rows, self.dofs, self._joints, strict=True):
            make_motor(copy, int(row))
            copy.jnt_actfrclimited[joint] = False
            copy.dof_damping[dof] = copy.dof_frictionloss[dof] = 0.0
            copy.dof_dampingpoly[dof] = 0.0
            # With these, friction stops within a step what it can stop at all.
            copy.dof_solref[dof] = (2.0 * copy.opt.timestep, 1.0)
            copy.dof_solimp[dof] = _RIGID
        for drive in self.drives:
            if 'armature' in drive.values:
                dofs = self.dofs[[self._places[name] for name in drive.actuators]]
                copy.dof_armature[dofs] = drive.values['armature']
        mujoco.mj_setConst(copy, mujoco.MjData(copy))
        return copy

    def stepper(self, model: mujoco.MjModel, written: Sequence[tuple[Target, int]]) -> ServoStepper:
        """Return what steps simulations whose candidates have numbers of laws; see `Drives`.

        Args:
            model: A prepared model.
            written: Targets, and for each the column of its value.

        Raises:
            ParameterError: A target is a number of a law that its actuator does not have, or a
                number of the model that a law decides.
        """
        columns: dict[tuple[int, str], int] = {}
        decided = self._decided(model)
        for target, column in written:
            if target.role is Role.LAW:
                columns[self._number(target)] = column
            elif target.role is Role.FIELD:
                for slot in target.slots(model):
                    if slot.place in decided.get(slot.field, {}):
                        raise self._is_decided(target, decided[slot.field][slot.place])
        return ServoStepper(self, model, columns)

    def _number(self, target: Target) -> tuple[int, str]:
        """Return place and name of a number of a law."""
        if target.name not in self._places:
            raise no_law(target)
        place = self._places[target.name]
        group = next(group for group in self.groups if place in group.places)
        if target.attribute not in group.numbers:
            hint = nearest(target.attribute, group.servo.coefficients)
            msg = (
                f'The servo {group.servo.name!r} of actuator {target.name!r} has no '
                f'{target.attribute!r}; {hint}.'
            )
            raise ParameterError(msg)
        return place, target.attribute

    def _decided(self, model: mujoco.MjModel) -> dict[str, dict[int, int]]:
        """Return field and flat index to the place of the joint whose law decides the number."""
        found: dict[str, dict[int, int]] = {}
        outputs = model.actuator_outadr[self._rows]
        for fields, rows in ((_OF_DOFS, self.dofs), (_OF_ACTUATORS, self._rows)):
            for name in fields:
                values = getattr(model, name)
                width = values[0].size
                own = {
                    'actuator_ctrlrange': self.controls,
                    'actuator_gear': outputs,
                }.get(name, rows)
                found[name] = {
                    width * int(row) + component: place
                    for place, row in enumerate(own)
                    for component in range(width)
                }
        found['jnt_actfrcrange'] = {
            2 * int(joint) + side: place
            for place, joint in enumerate(self._joints)
            for side in range(2)
        }
        return found

    def _is_decided(self, target: Target, place: int) -> ParameterError:
        actuator = self.actuators[place]
        servo = self.drive_of(actuator).servo
        example = next(iter(servo.friction.coefficients))
        return ParameterError(
            f'Target {target.path!r} is decided by the servo {servo.name!r} of actuator '
            f"{actuator!r}: expected one of its numbers, such as 'actuator/{actuator}/{example}'."
        )

    def _grouped(self) -> Iterator[Group]:
        """Yield the joints by motor law, friction law and the names of their numbers."""
        found: dict[object, list[tuple[int, ServoDrive]]] = {}
        for drive in self.drives:
            key = (drive.servo.type.law.name, drive.servo.friction, frozenset(drive.numbers))
            found.setdefault(key, []).extend((self._places[a], drive) for a in drive.actuators)
        for members in found.values():
            numbers = [drive.numbers for _, drive in members]
            yield Group(
                members[0][1].servo,
                np.array([place for place, _ in members], dtype=np.int64),
                {name: np.array([own[name] for own in numbers]) for name in numbers[0]},
            )

    def _check(self, model: mujoco.MjModel) -> None:
        """Check that nothing else moves the joints, and that the model has friction at all."""
        for joint in self._joints:
            rows = joint_actuators(model, int(joint))
            if len(rows) > 1:
                names = ' and '.join(repr(model.actuator(row).name) for row in rows)
                msg = (
                    f'Joint {model.joint(int(joint)).name!r} has the actuators {names}: expected '
                    'one, driven by a servo.'
                )
                raise ParameterError(msg)
        for switch in _SWITCHES:
            if model.opt.disableflags & switch.value:
                name = switch.name.removeprefix('mjDSBL_').lower()
                msg = f'The model has the flag {name}="disable": servos need it for their friction.'
                raise ModelError(msg)


def _check_once(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            msg = f'Actuator {name!r} is driven by two servos: expected one.'
            raise ParameterError(msg)

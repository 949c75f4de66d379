# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Joints of a model that servos drive: in an identification, or in a simulation stepped by hand.

As on the bench, the motor's torque and the friction of a step are those of the state before it. The
torque from outside, of gravity, gyroscopic effects, the other joints' motion, limits and contacts,
is that of the step before: a step only gives it once it is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np
from mujoco.batch import Batch
from numpy.typing import NDArray

from sysid_ros.errors import ModelError, ParameterError, nearest
from sysid_ros.model.elements import SCALAR_JOINTS, TO_JOINT, element_names
from sysid_ros.model.kinds import Role
from sysid_ros.model.targets import Target
from sysid_ros.simulation.servo import Servo, limited_goal, write_parameters
from sysid_ros.simulation.simulator import no_law
from sysid_ros.text import file_stems

Array = NDArray[np.float64]

#: What a servo has beside the numbers of its laws.
_APART = frozenset({'armature', 'q_offset', 'command_delay'})
#: Switches of a model without which there is no friction.
_SWITCHES = (mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS, mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
#: Impedance of dry friction: the largest that MuJoCo allows, at any distance.
_RIGID = (0.9999, 0.9999, 0.001, 0.5, 2.0)
#: What the laws decide of a joint, beside all fields of its actuator.
_DECIDED = frozenset(
    {'damping', 'frictionloss', 'solreffriction', 'solimpfriction', 'actuatorfrcrange'}
)
_FRICTION = mujoco.mjtConstraint.mjCNSTR_FRICTION_DOF.value
#: With this stage computed, gravity and gyroscopic torques are known.
_VELOCITY = mujoco.mjtStage.mjSTAGE_VEL.value
_CLOCK = mujoco.mjtState.mjSTATE_TIME.value


@dataclass(frozen=True)
class ServoDrive:
    """Servos of one kind with the same numbers, and the actuators of a model that they stand for.

    Attributes:
        actuators: Names of the actuators.
        servo: The laws.
        values: Of ``servo.coefficients``, without ``q_offset``, which is of a pendulum; without
            ``armature`` joints keep the model's. ``command_delay`` is not the robot's.
        constants: What differs from ``servo.type.constants``, as ``kp`` and ``vin``.
    """

    actuators: tuple[str, ...]
    servo: Servo
    values: Mapping[str, float]
    constants: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for complaint in self._complaints():
            raise ParameterError(complaint)

    @property
    def numbers(self) -> dict[str, float]:
        """What the laws read, by name."""
        given = {**self.servo.type.constants, **self.constants, **self.values}
        return {name: float(given[name]) for name in self._read if name in given}

    @property
    def _read(self) -> tuple[str, ...]:
        law = self.servo.type.motor
        return (*law.needs, *law.may_have, *self.servo.friction.coefficients)

    def _complaints(self) -> Iterator[str]:
        whose = f'the servo {self.servo.name!r} of {", ".join(map(repr, self.actuators))}'
        if not self.actuators:
            yield f'Expected the actuators that {self.servo.name!r} drives, found none.'
        known = {*self._read, *_APART}
        for name, value in {**self.constants, **self.values}.items():
            if name not in known:
                yield f'There is no {name!r} of {whose}; {nearest(name, sorted(known))}.'
            if not math.isfinite(value):
                yield f'Expected a finite {name!r} of {whose}, found {value}.'
        needed = (*self.servo.type.motor.needs, *self.servo.friction.coefficients)
        missing = [name for name in needed if name not in self.numbers]
        if missing:
            given = ', '.join(self.values) or 'none'
            yield f'Expected a value of {", ".join(missing)} for {whose}, found values of {given}.'


def starting_values(servo: Servo) -> dict[str, float]:
    """Return where a fit of a servo starts: values for a `ServoDrive` of which nothing is known."""
    return {name: usual.initial for name, usual in servo.coefficients.items()}


class ServoGroup(NamedTuple):
    """Joints whose servos have the same laws, with (k,) numbers of their own.

    ``places`` (k,) are those of the joints among all driven ones.
    """

    servo: Servo
    places: NDArray[np.int64]
    numbers: Mapping[str, Array]


def _joint_actuator(model: mujoco.MjModel, name: str) -> int:
    """Return the row of an actuator of a hinge or slide joint."""
    row = int(mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_ACTUATOR, name))
    if row < 0:
        known = element_names(model, 'actuator')
        raise ParameterError(f'The model has no actuator {name!r}; {nearest(name, known)}.')
    transmission = mujoco.mjtTrn(int(model.actuator_trntype[row]))
    target = 'a ' + transmission.name.removeprefix('mjTRN_').lower()
    if transmission in TO_JOINT:
        joint = model.joint(int(model.actuator_trnid[row, 0]))
        kind = mujoco.mjtJoint(int(joint.type[0]))
        gear = model.actuator_gear[model.actuator_outadr[row], 0]
        if kind in SCALAR_JOINTS and model.actuator_plugin[row] < 0 and gear:
            return row
        target = f'the {kind.name.removeprefix("mjJNT_").lower()} joint {joint.name!r}'
        if kind in SCALAR_JOINTS:
            target += ' by a plugin' if gear else ' with a gear of 0'
    raise ParameterError(
        f'Expected actuator {name!r} to drive a hinge or slide joint, found {target}.'
    )


def _make_motor(model: mujoco.MjModel, row: int) -> None:
    """Make an actuator one whose force is its control."""
    model.actuator_dyntype[row] = mujoco.mjtDyn.mjDYN_NONE
    model.actuator_gaintype[row] = mujoco.mjtGain.mjGAIN_FIXED
    model.actuator_biastype[row] = mujoco.mjtBias.mjBIAS_NONE
    for field_name in ('dynprm', 'biasprm', 'gainprm', 'damping', 'dampingpoly', 'armature'):
        getattr(model, f'actuator_{field_name}')[row] = 0.0
    model.actuator_gainprm[row, 0] = 1.0
    for field_name in ('forcelimited', 'actlimited', 'actearly'):
        getattr(model, f'actuator_{field_name}')[row] = False
    model.actuator_ctrllimited[model.actuator_ctrladr[row]] = False
    model.actuator_delay[row] = 0.0
    # An activation state stays in the layout of the model's data, and nothing reads it.
    model.actuator_actadr[row], model.actuator_actnum[row] = -1, 0


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
        """Find the joints of a compiled model that one servo or more drive.

        Raises:
            ParameterError: The model has no such actuator, it does not drive a hinge or slide joint
                alone, or is driven by two servos.
            ModelError: The model has dry friction switched off.
        """
        self.drives = tuple(drives)
        if not self.drives:
            raise ParameterError('Expected at least one servo that drives actuators, found none.')
        names = [name for drive in self.drives for name in drive.actuators]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ParameterError(f'Actuator {twice!r} is driven by two servos: expected one.')
        self._places = {name: place for place, name in enumerate(names)}
        self.actuators = tuple(names)
        self._rows = np.array([_joint_actuator(model, name) for name in self.actuators])
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
        """Return the place of an actuator among the driven ones, or raise a ParameterError."""
        if actuator not in self._places:
            raise ParameterError(
                f'No servo drives an actuator {actuator!r}; {nearest(actuator, self.actuators)}.'
            )
        return self._places[actuator]

    def drive_of(self, actuator: str) -> ServoDrive:
        """Return the servo that drives an actuator, or raise a ParameterError."""
        self.place(actuator)
        return next(drive for drive in self.drives if actuator in drive.actuators)

    def prepared(self, model: mujoco.MjModel) -> mujoco.MjModel:
        """Return a copy of a model of the same spec with plain motors and the servos' armature."""
        copy = model.__copy__()
        for row, dof, joint in zip(self._rows, self.dofs, self._joints, strict=True):
            _make_motor(copy, int(row))
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
        """Return what steps simulations whose candidates have numbers of laws; see `Drives`."""
        columns: dict[tuple[int, str], int] = {}
        for target, column in written:
            if target.role is Role.LAW:
                columns[self._number(target)] = column
            elif target.role is Role.FIELD:
                self._check_undecided(target)
        return ServoStepper(self, model, columns)

    def _number(self, target: Target) -> tuple[int, str]:
        if target.name not in self._places:
            raise no_law(target)
        place = self._places[target.name]
        group = next(group for group in self.groups if place in group.places)
        if target.attribute not in group.numbers:
            hint = nearest(target.attribute, group.servo.coefficients)
            raise ParameterError(
                f'The servo {group.servo.name!r} of actuator {target.name!r} has no '
                f'{target.attribute!r}; {hint}.'
            )
        return place, target.attribute

    def _check_undecided(self, target: Target) -> None:
        if target.element == 'joint' and target.attribute in _DECIDED:
            names = self.joints
        elif target.element == 'actuator':
            names = self.actuators
        else:
            return
        if target.name in names:
            actuator = self.actuators[names.index(target.name)]
            servo = self.drive_of(actuator).servo
            example = next(iter(servo.friction.coefficients))
            raise ParameterError(
                f'Target {target.path!r} is decided by the servo {servo.name!r} of actuator '
                f'{actuator!r}: expected one of its numbers, such as '
                f"'actuator/{actuator}/{example}'."
            )

    def _grouped(self) -> Iterator[ServoGroup]:
        """Yield the joints by motor law, friction law and the names of their numbers."""
        found: dict[object, list[tuple[int, ServoDrive]]] = {}
        for drive in self.drives:
            key = (drive.servo.type.law, drive.servo.friction, frozenset(drive.numbers))
            found.setdefault(key, []).extend((self._places[a], drive) for a in drive.actuators)
        for members in found.values():
            numbers = [drive.numbers for _, drive in members]
            yield ServoGroup(
                members[0][1].servo,
                np.array([place for place, _ in members], dtype=np.int64),
                {name: np.array([own[name] for own in numbers]) for name in numbers[0]},
            )

    def _check(self, model: mujoco.MjModel) -> None:
        direct = np.isin(model.actuator_trntype, TO_JOINT)
        for joint in self._joints:
            rows = np.flatnonzero(direct & (model.actuator_trnid[:, 0] == joint)).tolist()
            if len(rows) > 1:
                names = ' and '.join(repr(model.actuator(row).name) for row in rows)
                raise ParameterError(
                    f'Joint {model.joint(int(joint)).name!r} has the actuators {names}: expected '
                    'one, driven by a servo.'
                )
        for switch in _SWITCHES:
            if model.opt.disableflags & switch.value:
                name = switch.name.removeprefix('mjDSBL_').lower()
                raise ModelError(
                    f'The model has the flag {name}="disable": servos need it for their friction.'
                )


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
        self._goal: Array | None = None
        count = sum(len(group.places) for group in groups)
        rows = {v.shape[0] for _, _, p in self._groups for v in p.values() if v.ndim > 1}
        self.damping = np.zeros((*rows, count))
        for _, places, p in self._groups:
            self.damping[..., places] = p['friction_viscous']

    def reset(self) -> None:
        """Forget the last goals of the position loops."""
        self._goal = None

    def __call__(
        self, command: Array, enabled: Array | float, q: Array, dq: Array, external: Array
    ) -> tuple[Array, Array]:
        """Return the torques of the motors at the joints and the largest dry friction, N·m.

        All are of shape (…, joints): commanded and measured positions, rad, velocities, rad/s,
        torques from outside, N·m; ``enabled`` is 1 where a motor is powered, else 0.
        """
        if self._goal is None:
            self._goal = q.copy()  # a servo that is switched on holds the position that it is in
        on = np.broadcast_to(enabled, q.shape)
        motor, friction = np.empty_like(q), np.empty_like(q)
        for servo, places, p in self._groups:
            goal = limited_goal(p, command[..., places], self._goal[..., places], self._timestep)
            self._goal[..., places] = goal
            motor[..., places], friction[..., places] = servo.forces(
                p, goal, on[..., places], q[..., places], dq[..., places], external[..., places]
            )
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


def consecutive(places: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """Return places as a slice where they follow each other: that is faster."""
    if np.array_equal(places, np.arange(places[0], places[0] + len(places))):
        return slice(int(places[0]), int(places[0]) + len(places))
    return places


class ServoStepper:
    """Steps simulations whose candidates have numbers of servos' laws."""

    #: Fields of the model that it writes.
    fields = frozenset({'dof_frictionloss', 'dof_damping'})

    def __init__(
        self, joints: ServoJoints, model: mujoco.MjModel, columns: Mapping[tuple[int, str], int]
    ) -> None:
        """Take a prepared model, and the column of each number of the joint at a place."""
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

    def __init__(self, joints: ServoJoints, batch: Batch, count: int) -> None:
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

    def __init__(self, joints: ServoJoints, data: mujoco.MjData) -> None:
        """Prepare the laws for data of ``joints.model``."""
        self.model = joints.model
        self.goal = data.qpos[joints.qpos].copy()
        self.enabled = np.ones(len(joints.actuators))
        self._joints, self._data = joints, data
        self._forces = ServoForces(joints.groups, float(self.model.opt.timestep))
        self._time = np.inf
        self._load = np.zeros(len(joints.actuators))
        self.model.dof_damping[joints.dofs] = self._forces.damping

    def command(self, goals: Mapping[str, float]) -> None:
        """Set goals of some actuators by name, rad."""
        for actuator, goal in goals.items():
            self.goal[self._joints.place(actuator)] = goal

    def reset(self) -> None:
        """Forget what the firmware remembers, and the load: the state was set by hand."""
        self._forces.reset()
        self._time = np.inf

    def update(self) -> None:
        """Write what acts in the coming step."""
        joints, model, data = self._joints, self.model, self._data
        if data.time < self._time:  # the first step, or mj_resetData
            self.reset()
            mujoco.mj_fwdPosition(model, data)
            mujoco.mj_fwdVelocity(model, data)
            self._load = -data.qfrc_bias[joints.dofs]
        elif data.time != self._time:
            self._load = self._constraints() - data.qfrc_bias[joints.dofs]
        self._time = float(data.time)
        q, dq = data.qpos[joints.qpos], data.qvel[joints.dofs]
        motor, friction = self._forces(self.goal, self.enabled, q, dq, self._load)
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


def write_servos(folder: Path, joints: ServoJoints, values: Mapping[str, float]) -> None:
    """Write a file of coefficients for each driven actuator into a folder.

    Values are by the path of a target; coefficients that are missing are the servo's.
    """
    stems = file_stems(joints.actuators)
    for actuator, joint, stem in zip(joints.actuators, joints.joints, stems, strict=True):
        drive = joints.drive_of(actuator)
        dof = joints.dofs[joints.place(actuator)]
        found = {**starting_values(drive.servo), **drive.values, 'q_offset': 0.0}
        found['armature'] = float(joints.model.dof_armature[dof])
        for name, start in found.items():
            element = f'joint/{joint}' if name == 'armature' else f'actuator/{actuator}'
            found[name] = values.get(f'{element}/{name}', start)
        coefficients = {name: found[name] for name in drive.servo.coefficients}
        write_parameters(folder / f'{stem}.json', drive.servo, coefficients)

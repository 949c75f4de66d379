# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The forces that prescribed motions need, for any number of candidates.

Along a known motion, forces are linear in each body's mass, first moments and moments of inertia
about its frame, and in armature, damping, dry friction and stiffness of each joint (C. G. Atkeson,
C. H. An and J. M. Hollerbach, "Estimation of inertial parameters of manipulator loads and links",
IJRR 5(3), 1986). What they are multiplied by is computed once for a motion, so that a candidate
costs one product of matrices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np
from scipy.signal import sosfiltfilt

from sysid_ros.model.inertia import INERTIAL_FIELDS, rotation_from_quat
from sysid_ros.model.rebuild import CandidateError
from sysid_ros.rollout.measurement import SENSORS
from sysid_ros.rollout.runs import prepare
from sysid_ros.rollout.simulation import Block, Simulator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.model.targets import Target
    from sysid_ros.rollout.runs import Run
    from sysid_ros.signals.trajectory import PrescribedMotion, Trajectory

#: Transmissions of actuators that drive one joint.
DIRECT = (mujoco.mjtTrn.mjTRN_JOINT.value, mujoco.mjtTrn.mjTRN_JOINTINPARENT.value)
_JOINT_SENSORS = {
    mujoco.mjtSensor.mjSENS_JOINTPOS: 'position',
    mujoco.mjtSensor.mjSENS_JOINTVEL: 'velocity',
    mujoco.mjtSensor.mjSENS_JOINTACTFRC: 'torque',
}
#: Numbers of a body that its inertia force is linear in: mass, mass times centre, and the moments
#: xx, yy, zz, xy, xz and yz about the origin of its frame.
_NUMBERS = 10
_MOMENTS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
#: Fields that forces are linear in, or that make up what they are linear in; and those that decide
#: how a motion of the joints moves the bodies.
_LINEAR = (
    *INERTIAL_FIELDS,
    'dof_armature',
    'dof_damping',
    'dof_frictionloss',
    'jnt_stiffness',
    'qpos_spring',
)
_GEOMETRY = ('body_pos', 'body_quat', 'jnt_pos', 'jnt_axis', 'qpos0', 'body_gravcomp')
#: Regressions that find the weights of the forces, and what is numerically nothing.
_WEIGHTINGS, _TINY, _BLIND = 3, 1e-9, 1e-9
#: Fields of forces that are neither inertia nor the linear ones of joints.
_OTHER_FORCES = ('dof_dampingpoly', 'jnt_stiffnesspoly', 'tendon_stiffness', 'tendon_damping')


def meaning(model: mujoco.MjModel, source: str, column: int) -> Iterator[tuple[str, int, float]]:
    """Yield which quantity of which degree of freedom a column is, and a factor on it."""
    if source == 'qpos':
        joints = np.flatnonzero(model.jnt_qposadr == column)
        yield from (('position', int(dof), 1.0) for dof in model.jnt_dofadr[joints])
    elif source == 'qvel':
        yield 'velocity', column, 1.0
    elif source == SENSORS:
        sensor = (
            int(np.flatnonzero(model.sensor_adr == column)[0]) if column in model.sensor_adr else -1
        )
        kind = mujoco.mjtSensor(model.sensor_type[sensor]) if sensor >= 0 else None
        target = int(model.sensor_objid[sensor])
        if kind in _JOINT_SENSORS:
            yield _JOINT_SENSORS[kind], int(model.jnt_dofadr[target]), 1.0
        elif kind == mujoco.mjtSensor.mjSENS_ACTUATORFRC:
            # Of an actuator that alone drives a joint; all of them drive one joint each.
            direct = np.isin(model.actuator_trntype, DIRECT)
            driven = np.where(direct, model.actuator_trnid[:, 0], -1).tolist()
            if driven.count(driven[target]) == 1 and -1 not in driven:
                dof = int(model.jnt_dofadr[driven[target]])
                yield 'torque', dof, float(model.actuator_gear[target, 0])


def torque_columns(model: mujoco.MjModel) -> dict[int, tuple[int, float]]:
    """Return column of the sensors to the degree of freedom whose force it reads, and a factor."""
    return {
        column: (dof, gear)
        for column in range(model.nsensordata)
        for kind, dof, gear in meaning(model, SENSORS, column)
        if kind == 'torque' and gear
    }


def _first_kept(run: Run) -> int:
    """Return the number of the first row that is kept of a motion, in steps of the run."""
    motion = run.sequence.motion
    assert motion is not None  # noqa: S101
    return -(-motion.first // motion.stride)


def _ends(parts: Sequence[NDArray[np.float64]]) -> list[int]:
    ends: list[int] = np.cumsum([len(part) for part in parts])[:-1].tolist()
    return ends


def acts_on_forces(model: mujoco.MjModel, target: Target) -> bool:
    """Return whether a number of the compiled model acts on the forces of a given motion."""
    if target.element_and_attribute == ('body', 'inertia'):
        return True
    fields = {slot.field for slot in target.slots(model)}
    return bool(fields) and fields <= {*_LINEAR, *_GEOMETRY, 'opt.gravity'}


class Equations(NamedTuple):
    """What the n forces that a sensor read are linear in.

    Attributes:
        matrix: (n, k) of numbers of bodies, then armature, damping, dry friction and stiffness of
            all joints.
        measured: (n,) forces, less what no number changes.
    """

    matrix: NDArray[np.float64]
    measured: NDArray[np.float64]


class InverseSimulator(Simulator):
    """Tells the forces that prescribed motions need, in place of simulating them.

    A force is that of all actuators of a joint together; there are no contacts, limits or equality
    constraints. Time is continuous, but for damping: MuJoCo's steps take it from the velocity at
    their end, half a step after the position's, which adds to the inertia that is seen.
    """

    prescribed = True

    def _prepare(self, sequences: Sequence[Trajectory]) -> None:
        super()._prepare(sequences)
        self._torques = torque_columns(self.model)
        motions = [run.sequence.motion for run in self.runs]
        self._terms = [_terms(self.model, motion) for motion in motions if motion is not None]

    def _prepared(self, sequence: Trajectory) -> Run:
        motion = sequence.motion
        assert motion is not None  # noqa: S101
        return prepare(self.model, sequence, self._lead, motion.interval * motion.stride)

    def simulate(
        self, candidates: NDArray[np.float64], wanted: Sequence[NDArray[np.int64]]
    ) -> Iterator[Block]:
        """Yield the forces along each motion for some candidates; see `Simulator.simulate`."""
        self.refused = {}
        numbers, moved = self._numbers(candidates, sorted({int(c) for w in wanted for c in w}))
        for index, run in enumerate(self.runs):
            which = np.asarray(wanted[index], dtype=np.int64)
            if not len(which):
                continue
            motion = run.sequence.motion
            assert motion is not None  # noqa: S101
            forces = self._terms[index].forces(numbers.of(which))
            for place, candidate in enumerate(which):
                if candidate in moved:
                    terms = _terms(moved[candidate], motion)
                    forces[place] = terms.forces(numbers.of(which[place : place + 1]))[0]
            rows = np.zeros((len(which), run.steps, self.model.nsensordata))
            first = _first_kept(run)
            last = min(first + forces.shape[2], run.steps)
            for column, (dof, gear) in self._torques.items():
                rows[:, first:last, column] = forces[:, dof, : last - first] / gear
                # A delay may look a little beyond the ends.
                rows[:, :first, column] = rows[:, first, None, column]
                rows[:, last:, column] = rows[:, last - 1, None, column]
            self.rollouts += len(which)
            lost = np.array([candidate in self.refused for candidate in which.tolist()])
            yield Block(index, which, {SENSORS: rows}, lost)

    def equations(self) -> dict[str, Equations]:
        """Return what the forces of each sensor are linear in, physical or not, over all motions."""
        lines: dict[str, list[NDArray[np.float64]]] = {}
        values: dict[str, list[NDArray[np.float64]]] = {}
        for run, terms in zip(self.runs, self._terms, strict=True):
            first = _first_kept(run)
            for readings in run.readings:
                rows = np.rint(readings.times / run.timestep).astype(np.int64) - first
                for sensor, column, own in zip(
                    readings.sensors, readings.columns.tolist(), readings.measured.T, strict=True
                ):
                    known = np.isfinite(own)
                    dof, gear = self._torques[column]
                    matrix, rest = terms.lines(dof, rows[known])
                    lines.setdefault(sensor, []).append(matrix / gear)
                    values.setdefault(sensor, []).append(own[known] - rest / gear)
        return {
            sensor: Equations(np.concatenate(lines[sensor]), np.concatenate(values[sensor]))
            for sensor in lines
        }

    def unknowns_of(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (m, k) what candidates have for the columns of `equations`."""
        numbers, _ = self._numbers(candidates, range(len(candidates)))
        return np.concatenate(numbers[:5], axis=1)

    def unexplained(self) -> dict[str, float]:
        """Return the size of what no rigid bodies with linear friction explain, by sensor.

        It is what a linear regression on all numbers of all bodies and joints leaves, physical or
        not, with an offset for each sensor.
        """
        equations = self.equations()
        matrices, measured = zip(*equations.values(), strict=True)
        sigma = np.array([float(np.std(own)) + _TINY for own in measured])
        for _ in range(_WEIGHTINGS):
            blocks = []
            for place, (matrix, own) in enumerate(zip(matrices, measured, strict=True)):
                offsets = np.tile(np.eye(len(sigma))[place], (len(own), 1))
                blocks.append(np.column_stack([matrix, offsets, own]) / sigma[place])
            both = np.concatenate(blocks)
            size = np.linalg.norm(both[:, :-1], axis=0) + _TINY
            x, _, rank, _ = np.linalg.lstsq(both[:, :-1] / size, both[:, -1], rcond=_BLIND)
            left = np.split(both[:, -1] - both[:, :-1] @ (x / size), _ends(measured))
            growth = len(both) / max(len(both) - int(rank), 1)
            sigma *= [float(np.sqrt(growth * np.mean(own**2))) + _TINY for own in left]
        return dict(zip(equations, sigma.tolist(), strict=True))

    def _numbers(
        self, candidates: NDArray[np.float64], needed: Sequence[int]
    ) -> tuple[_Numbers, dict[int, mujoco.MjModel]]:
        """Return what forces are linear in, and models in which bodies move unlike the nominal."""
        fields = {
            field: np.repeat(np.asarray(getattr(self.model, field))[None], len(candidates), axis=0)
            for field in (*_LINEAR, *_GEOMETRY)
        }
        gravity = np.repeat(self.model.opt.gravity[None], len(candidates), axis=0)
        if self._build is None:
            for field, index, data in self._writer.assignments(candidates):
                if field in fields:
                    fields[field].reshape(len(candidates), -1)[:, index] = data
                elif field == 'opt.gravity':
                    gravity[:, index] = data
        models = {}
        for candidate in needed if self._build is not None else ():
            try:
                models[candidate] = model = self.compiled(candidates[candidate])
            except CandidateError as err:
                self.refused[candidate] = err
                self.refusals += 1
                continue
            for field, values in fields.items():
                values[candidate] = getattr(model, field)
            gravity[candidate] = model.opt.gravity
        same = np.all(gravity == self.model.opt.gravity, axis=1)
        for field in _GEOMETRY:
            own = fields[field].reshape(len(candidates), -1)
            same &= np.all(own == np.ravel(getattr(self.model, field)), axis=1)
        moved = {
            candidate: models.get(candidate) or self.compiled(candidates[candidate])
            for candidate in needed
            if not same[candidate] and candidate not in self.refused
        }
        return _numbers(self.model, fields), moved


class _Numbers(NamedTuple):
    """What the forces of m candidates are linear in.

    Attributes:
        bodies: (m, nbody * 10) mass, first moments and moments of inertia about a body's frame.
        armature: (m, nv), …
        damping: (m, nv) and …
        friction: (m, nv) of joints, …
        stiffness: (m, nv) of their springs, and …
        spring: (m, nv) the positions at which these exert nothing.
    """

    bodies: NDArray[np.float64]
    armature: NDArray[np.float64]
    damping: NDArray[np.float64]
    friction: NDArray[np.float64]
    stiffness: NDArray[np.float64]
    spring: NDArray[np.float64]

    def of(self, which: NDArray[np.int64]) -> _Numbers:
        """Return those of some candidates."""
        return _Numbers(*(values[which] for values in self))


def _numbers(model: mujoco.MjModel, fields: Mapping[str, NDArray[np.float64]]) -> _Numbers:
    """Return what forces are linear in, from fields of the model, (m, …) each."""
    joints = model.dof_jntid
    bodies = _body_numbers(
        fields['body_mass'], fields['body_ipos'], fields['body_iquat'], fields['body_inertia']
    )
    return _Numbers(
        bodies.reshape(len(bodies), -1),
        fields['dof_armature'],
        fields['dof_damping'],
        fields['dof_frictionloss'],
        fields['jnt_stiffness'][:, joints],
        fields['qpos_spring'][:, model.jnt_qposadr[joints]],
    )


def _body_numbers(
    mass: NDArray[np.float64],
    centre: NDArray[np.float64],
    quaternions: NDArray[np.float64],
    principal: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the (…, 10) numbers of bodies with fields as MuJoCo has them."""
    axes = rotation_from_quat(quaternions)
    about = (axes * principal[..., None, :]) @ np.swapaxes(axes, -1, -2)
    square = np.sum(centre**2, axis=-1)[..., None, None] * np.eye(3)
    shift = square - centre[..., :, None] * centre[..., None, :]
    about = about + mass[..., None, None] * shift
    moments = np.stack([about[..., i, j] for i, j in _MOMENTS], axis=-1)
    return np.concatenate([mass[..., None], mass[..., None] * centre, moments], axis=-1)


class _Terms(NamedTuple):
    """What each number is multiplied by to give the forces of a motion, at n kept instants.

    Attributes:
        width: Count of the numbers of all bodies, …
        chosen: … and which of them change any force.
        bodies: (nv, n, number of these).
        acceleration: (nv, n) rad/s², and so on; all have passed the low-pass of the motion.
        velocity: (nv, n).
        direction: (nv, n) sign of the velocity.
        position: (nv, n).
        rest: (nv, n) forces that no candidate changes.
    """

    width: int
    chosen: NDArray[np.int64]
    bodies: NDArray[np.float64]
    acceleration: NDArray[np.float64]
    velocity: NDArray[np.float64]
    direction: NDArray[np.float64]
    position: NDArray[np.float64]
    rest: NDArray[np.float64]

    def lines(
        self, dof: int, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (k, …) what one force is linear in at some instants, and (k,) the rest of it."""
        nv = len(self.bodies)
        own = np.zeros((len(rows), 4 * nv))
        for place, terms in enumerate(
            (self.acceleration, self.velocity, self.direction, self.position)
        ):
            own[:, place * nv + dof] = terms[dof, rows]
        bodies = np.zeros((len(rows), self.width))
        bodies[:, self.chosen] = self.bodies[dof, rows]
        return np.concatenate([bodies, own], axis=1), self.rest[dof, rows]

    def forces(self, numbers: _Numbers) -> NDArray[np.float64]:
        """Return the (m, nv, n) forces of m candidates, N·m or N."""
        nv, count, width = self.bodies.shape
        bodies = numbers.bodies[:, self.chosen] @ self.bodies.reshape(-1, width).T
        found: NDArray[np.float64] = bodies.reshape(-1, nv, count)
        found += self.rest
        for terms, own in (
            (self.acceleration, numbers.armature),
            (self.velocity, numbers.damping),
            (self.direction, numbers.friction),
        ):
            found += own[:, :, None] * terms
        if numbers.stiffness.any():
            found += numbers.stiffness[:, :, None] * (self.position - numbers.spring[:, :, None])
        return found


def _lead(model: mujoco.MjModel) -> float:
    """Return by how many seconds damping acts on a later velocity than that of the position."""
    integrator = mujoco.mjtIntegrator(model.opt.integrator)
    half = 0.5 * float(model.opt.timestep)
    if integrator == mujoco.mjtIntegrator.mjINT_RK4:
        return 0.0
    explicit = model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_EULERDAMP.value
    return -half if explicit and integrator == mujoco.mjtIntegrator.mjINT_EULER else half


def _terms(model: mujoco.MjModel, motion: PrescribedMotion) -> _Terms:
    """Return what the numbers of a model are multiplied by along a motion."""
    moving = _Bodies(model, motion)
    count, nv = motion.qpos.shape
    # Rows whose number is a multiple of the stride are kept.
    kept = slice(-motion.first % motion.stride, count, motion.stride)

    def passed(values: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = sosfiltfilt(motion.low_pass, values, axis=0)[kept]
        return np.moveaxis(found, 0, 1)

    bodies = np.zeros((nv, len(range(*kept.indices(count))), model.nbody, _NUMBERS))
    for body in range(1, model.nbody):
        dofs = moving.dofs(body)
        if len(dofs):
            bodies[dofs, :, body] = passed(moving.coefficients(body, dofs))
    bodies = bodies.reshape(*bodies.shape[:2], -1)
    chosen = np.flatnonzero(np.any(bodies, axis=(0, 1)))
    slow = np.maximum(motion.slow, _TINY)
    other = moving.other_forces
    return _Terms(
        bodies.shape[2],
        chosen,
        np.ascontiguousarray(bodies[:, :, chosen]),
        passed(motion.qacc),
        passed(motion.qvel + _lead(model) * motion.qacc),
        passed(np.clip(motion.qvel / slow, -1.0, 1.0)),
        passed(motion.qpos),
        passed(other) if other.any() else np.zeros(bodies.shape[:2]),
    )


class _Bodies:
    """How all bodies move along a motion.

    Attributes:
        other_forces: (n, nv) what joints need beside inertia, gravity, springs and damping.
    """

    def __init__(self, model: mujoco.MjModel, motion: PrescribedMotion) -> None:
        self._model, data = model, mujoco.MjData(model)
        count, place = len(motion.qpos), model.jnt_qposadr[model.dof_jntid]
        self._position = np.empty((count, model.nbody, 3))
        self._axes = np.empty((count, model.nbody, 9))
        self._twist = np.empty((count, model.nbody, 6))
        self._screws = np.empty((count, model.nv, 6))
        rates = np.empty((count, model.nv, 6))
        points = np.empty((count, model.nbody, 3))
        self.other_forces = np.zeros((count, model.nv))
        passive = bool(model.opt.density or model.opt.viscosity) or any(
            np.any(getattr(model, field)) for field in _OTHER_FORCES
        )
        for row in range(count):
            data.qpos[place], data.qvel[:] = motion.qpos[row], motion.qvel[row]
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            mujoco.mj_comVel(model, data)
            self._position[row], self._axes[row] = data.xpos, data.xmat
            self._twist[row], self._screws[row], rates[row] = data.cvel, data.cdof, data.cdof_dot
            points[row] = data.subtree_com[model.body_rootid]
            if passive:
                mujoco.mj_fwdPosition(model, data)
                mujoco.mj_fwdVelocity(model, data)
                self.other_forces[row] = data.qfrc_gravcomp + data.qfrc_damper
                self.other_forces[row] += data.qfrc_spring - data.qfrc_passive
        # MuJoCo's spatial vectors are about the centre of mass of the tree; bodies' numbers are
        # about the origins of their frames.
        self._arm = self._position - points
        acceleration = np.zeros((count, model.nbody, 6))
        acceleration[:, 0, 3:] = -model.opt.gravity
        for body in range(1, model.nbody):
            own = slice(model.body_dofadr[body], model.body_dofadr[body] + model.body_dofnum[body])
            acceleration[:, body] = acceleration[:, model.body_parentid[body]]
            if model.body_dofnum[body]:
                acceleration[:, body] += np.einsum(
                    'njk,nj->nk', rates[:, own], motion.qvel[:, own]
                ) + np.einsum('njk,nj->nk', self._screws[:, own], motion.qacc[:, own])
        self._acceleration = acceleration

    def dofs(self, body: int) -> NDArray[np.int64]:
        """Return the degrees of freedom that move a body."""
        found: list[int] = []
        while body:
            first = int(self._model.body_dofadr[body])
            found.extend(range(first, first + int(self._model.body_dofnum[body])))
            body = int(self._model.body_parentid[body])
        return np.array(sorted(found), dtype=np.int64)

    def coefficients(self, body: int, dofs: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return (n, number of dofs, 10) what each number of a body adds to the forces."""
        count = len(self._twist)
        axes, arm = self._axes[:, body].reshape(count, 3, 3), self._arm[:, body]
        spin, velocity = self._twist[:, body, :3], self._twist[:, body, 3:]
        turning, acceleration = self._acceleration[:, body, :3], self._acceleration[:, body, 3:]
        # The acceleration of the body's origin is that of a point of the body, not of space.
        linear = acceleration + np.cross(spin, velocity) + np.cross(turning, arm)
        linear = linear + np.cross(spin, np.cross(spin, arm))
        screws = self._screws[:, dofs]
        pushes = screws[..., 3:] + np.cross(screws[..., :3], arm[:, None])
        turns = np.einsum('nji,ndj->ndi', axes, screws[..., :3])
        pushes = np.einsum('nji,ndj->ndi', axes, pushes)

        def of_body(values: NDArray[np.float64]) -> NDArray[np.float64]:
            turned: NDArray[np.float64] = np.einsum('nji,nj->ni', axes, values)
            return turned

        wrench = _wrench(of_body(spin), of_body(turning), of_body(linear))
        both = np.concatenate([turns, pushes], axis=2)
        found: NDArray[np.float64] = np.einsum('ndi,nip->ndp', both, wrench)
        held = self._model.body_gravcomp[body]
        if held:
            # What compensates gravity pulls as the body's weight does, but upwards.
            rest = np.zeros((count, 3))
            up = np.broadcast_to(-self._model.opt.gravity, (count, 3))
            still = _wrench(rest, rest, of_body(up))
            weight = np.einsum('ndi,nip->ndp', both, still)
            passive = ~self._model.jnt_actgravcomp[self._model.dof_jntid[dofs]].astype(bool)
            found = found - held * passive[None, :, None] * weight
        return found


def _wrench(
    spin: NDArray[np.float64], turning: NDArray[np.float64], linear: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the (n, 6, 10) torque and force at a body's origin by its numbers, in its axes.

    Args:
        spin: (n, 3) angular velocity ω in the body's axes.
        turning: (n, 3) angular acceleration α.
        linear: (n, 3) acceleration of the origin less gravity, a: the force is
            ``m a + α × h + ω × (ω × h)``, the torque ``J α + ω × J ω + h × a``.
    """
    count = len(spin)
    found = np.zeros((count, 6, _NUMBERS))
    found[:, 3:, 0] = linear
    found[:, :3, 1:4] = -_cross_matrix(linear)
    around = _cross_matrix(spin)
    found[:, 3:, 1:4] = _cross_matrix(turning) + around @ around
    for place, (i, j) in enumerate(_MOMENTS):
        swapped = np.zeros((3, 3))
        swapped[i, j] = swapped[j, i] = 1.0
        found[:, :3, 4 + place] = turning @ swapped + np.cross(spin, spin @ swapped)
    return found


def _cross_matrix(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the (n, 3, 3) matrices whose product with a vector is the cross product."""
    found = np.zeros((len(values), 3, 3))
    x, y, z = values.T
    found[:, 0, 1], found[:, 0, 2], found[:, 1, 2] = -z, y, -x
    found[:, 1, 0], found[:, 2, 0], found[:, 2, 1] = z, -y, x
    return found

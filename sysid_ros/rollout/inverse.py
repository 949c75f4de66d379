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

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import scipy  # its parts are loaded when they are used: signal alone takes most of a second
from numpy.typing import NDArray

from sysid_ros.model.inertia import INERTIAL_FIELDS, rotation_from_quat
from sysid_ros.model.joints import SCALAR_JOINTS, TO_JOINT
from sysid_ros.model.rebuild import CandidateError
from sysid_ros.model.targets import Target
from sysid_ros.rollout.measurement import SENSORS
from sysid_ros.rollout.runs import Run, prepare
from sysid_ros.rollout.simulation import Block, Simulator
from sysid_ros.signals.trajectory import PrescribedMotion, Trajectory

_JOINT_SENSORS = {
    mujoco.mjtSensor.mjSENS_JOINTPOS: 'position',
    mujoco.mjtSensor.mjSENS_JOINTVEL: 'velocity',
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
    'tendon_armature',
    'tendon_damping',
    'tendon_frictionloss',
    'actuator_armature',
    'actuator_damping',
    'actuator_gear',
)
_GEOMETRY = ('body_pos', 'body_quat', 'jnt_pos', 'jnt_axis', 'qpos0', 'body_gravcomp')
#: Regressions that find the weights of the forces, and what is numerically nothing.
_WEIGHTINGS, _TINY, _BLIND = 3, 1e-9, 1e-9
#: Fields of passive forces that are linear in them, …
_LINEAR_PASSIVE = ('dof_damping', 'jnt_stiffness', 'tendon_damping', 'actuator_damping')
#: … and those of forces that are neither inertia nor the linear ones of joints.
_OTHER_FORCES = (
    'dof_dampingpoly',
    'jnt_stiffnesspoly',
    'tendon_stiffness',
    'tendon_dampingpoly',
    'actuator_dampingpoly',
)
#: A direction changes while a tendon moves by less than this part of its usual speed.
_SLOW = 0.02
#: Weights below this part of the largest are rounding.
_ROUNDING = 1e-9


def meaning(model: mujoco.MjModel, source: str, column: int) -> Iterator[tuple[str, int]]:
    """Yield which of position and velocity of which degree of freedom a column is."""
    if source == 'qpos':
        joints = np.flatnonzero(model.jnt_qposadr == column)
        yield from (('position', int(dof)) for dof in model.jnt_dofadr[joints])
    elif source == 'qvel':
        yield 'velocity', column
    elif source == SENSORS:
        sensor = (
            int(np.flatnonzero(model.sensor_adr == column)[0]) if column in model.sensor_adr else -1
        )
        kind = mujoco.mjtSensor(model.sensor_type[sensor]) if sensor >= 0 else None
        target = int(model.sensor_objid[sensor])
        if kind in _JOINT_SENSORS:
            yield _JOINT_SENSORS[kind], int(model.jnt_dofadr[target])


def transmissions(
    model: mujoco.MjModel, gear: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return (nactuator, nv) the forces of joints by each actuator's; NaN where these change.

    Args:
        model: The compiled model.
        gear: Flat ``actuator_gear``, if not the model's.
    """
    gears = np.ravel(model.actuator_gear if gear is None else gear).reshape(-1, 6)
    found = np.full((model.nactuator, model.nv), np.nan)
    fixed = fixed_tendons(model)
    for actuator, kind in enumerate(model.actuator_trntype):
        element = int(model.actuator_trnid[actuator, 0])
        factor = gears[int(model.actuator_outadr[actuator]), 0]
        if kind in TO_JOINT and model.jnt_type[element] in SCALAR_JOINTS:
            found[actuator] = 0.0
            found[actuator, model.jnt_dofadr[element]] = factor
        elif kind == mujoco.mjtTrn.mjTRN_TENDON:
            found[actuator] = factor * fixed[element]
    return found


def fixed_tendons(model: mujoco.MjModel) -> NDArray[np.float64]:
    """Return (ntendon, nv) by how much tendons lengthen with each joint; NaN for spatial ones."""
    found = np.full((model.ntendon, model.nv), np.nan)
    for tendon in range(model.ntendon):
        first = int(model.tendon_adr[tendon])
        parts = range(first, first + int(model.tendon_num[tendon]))
        if all(model.wrap_type[part] == mujoco.mjtWrap.mjWRAP_JOINT for part in parts):
            found[tendon] = 0.0
            for part in parts:
                dof = model.jnt_dofadr[model.wrap_objid[part]]
                found[tendon, dof] += float(model.wrap_prm[part])
    return found


def force_weights(
    model: mujoco.MjModel, gear: NDArray[np.float64] | None = None
) -> dict[int, NDArray[np.float64]]:
    """Return column of the sensors to the (nv,) weights of joints' forces in what it reads.

    A joint's sensor reads what all actuators together exert on it. Those of actuators follow from
    the forces of all joints where no two sets of actuator forces exert the same.

    Args:
        model: The compiled model.
        gear: Flat ``actuator_gear``, if not the model's.
    """
    found = {}
    moments = transmissions(model, gear)
    known = bool(np.isfinite(moments).all())
    inverse = np.linalg.pinv(moments.T) if known else moments
    told = inverse @ moments.T if known else np.zeros((len(moments), len(moments)))
    for sensor, kind in enumerate(model.sensor_type):
        column, element = int(model.sensor_adr[sensor]), int(model.sensor_objid[sensor])
        if kind == mujoco.mjtSensor.mjSENS_JOINTACTFRC:
            found[column] = np.eye(model.nv)[model.jnt_dofadr[element]]
        elif kind == mujoco.mjtSensor.mjSENS_ACTUATORFRC:
            one = np.eye(len(moments))[element]
            if known and np.allclose(told[element], one, atol=_ROUNDING):
                weights = inverse[element]
                small = np.abs(weights) < _ROUNDING * np.abs(weights).max()
                found[column] = np.where(small, 0.0, weights)
    return found


def reads_force_of_one(weights: NDArray[np.float64]) -> int | None:
    """Return the degree of freedom whose force alone is read, up to a factor, or None."""
    involved = np.flatnonzero(weights)
    return int(involved[0]) if len(involved) == 1 else None


class TendonMotion(NamedTuple):
    """How tendons move along a motion.

    Attributes:
        moments: (n, ntendon, nv) by how much they lengthen with each joint.
        velocity: (n, ntendon) m/s or, of fixed ones, in units of their coefficients.
        acceleration: (n, ntendon) likewise.
        slow: (ntendon,) speeds below which the direction is not known.
    """

    moments: NDArray[np.float64]
    velocity: NDArray[np.float64]
    acceleration: NDArray[np.float64]
    slow: NDArray[np.float64]


def tendon_motion(model: mujoco.MjModel, motion: PrescribedMotion) -> TendonMotion:
    """Return how all tendons of a model move along a motion."""
    count = len(motion.qpos)
    fixed = fixed_tendons(model)
    moments = np.repeat(fixed[None], count, axis=0)
    turning = np.zeros_like(moments)
    if not np.isfinite(fixed).all():
        data, place = mujoco.MjData(model), model.jnt_qposadr[model.dof_jntid]
        rows = np.repeat(np.arange(model.ntendon), model.ten_J_rownnz)
        for row in range(count):
            data.qpos[place] = motion.qpos[row]
            mujoco.mj_fwdPosition(model, data)
            moments[row] = 0.0
            moments[row, rows, model.ten_J_colind[: len(rows)]] = data.ten_J[: len(rows)]
        turning = np.gradient(moments, motion.interval, axis=0)
    velocity = np.einsum('ntv,nv->nt', moments, motion.qvel)
    acceleration = np.einsum('ntv,nv->nt', moments, motion.qacc)
    acceleration += np.einsum('ntv,nv->nt', turning, motion.qvel)
    slow = _SLOW * np.sqrt(np.mean(velocity**2, axis=0)) if motion.slow.any() else 0.0
    return TendonMotion(moments, velocity, acceleration, np.broadcast_to(slow, model.ntendon))


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
    if 'actuator_gear' in fields and mujoco.mjtSensor.mjSENS_ACTUATORFRC not in model.sensor_type:
        return False
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
        self._torques = force_weights(self.model)
        motions = [run.sequence.motion for run in self.runs]
        self._terms = [_terms(self.model, motion) for motion in motions if motion is not None]

    def _prepared(self, sequence: Trajectory) -> Run:
        motion = sequence.motion
        assert motion is not None  # noqa: S101
        return prepare(self.model, sequence, self._lead, motion.interval * motion.stride)

    def simulate(
        self,
        candidates: NDArray[np.float64],
        wanted: Sequence[NDArray[np.int64]],
        beside: NDArray[np.float64] | None = None,  # noqa: ARG002
        variants: Sequence[Sequence[Run]] | None = None,  # noqa: ARG002
    ) -> Iterator[Block]:
        """Yield the forces along each motion for some candidates; see `Simulator.simulate`."""
        self.refused = {}
        numbers, moved, gears = self._numbers(
            candidates, sorted({int(c) for w in wanted for c in w})
        )
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
            for place, candidate in enumerate(which.tolist()):
                for column, weights in self._weights(gears[candidate]).items():
                    for dof in np.flatnonzero(weights):
                        own = forces[place, dof, : last - first]
                        rows[place, first:last, column] += weights[dof] * own
            for column in self._torques:
                # A delay may look a little beyond the ends.
                rows[:, :first, column] = rows[:, first, None, column]
                rows[:, last:, column] = rows[:, last - 1, None, column]
            self.rollouts += len(which)
            lost = np.array([candidate in self.refused for candidate in which.tolist()])
            yield Block(index, which, {SENSORS: rows}, lost)

    def _weights(self, gear: NDArray[np.float64]) -> dict[int, NDArray[np.float64]]:
        """Return what sensors read of joints' forces with some gears."""
        if np.array_equal(gear, np.ravel(self.model.actuator_gear)):
            return self._torques
        return force_weights(self.model, gear)

    def equations(self) -> dict[str, Equations]:
        """Return what the forces of each sensor are linear in, over all motions."""
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
                    matrix, rest = terms.lines(self._torques[column], rows[known])
                    lines.setdefault(sensor, []).append(matrix)
                    values.setdefault(sensor, []).append(own[known] - rest)
        return {
            sensor: Equations(np.concatenate(lines[sensor]), np.concatenate(values[sensor]))
            for sensor in lines
        }

    def unknowns_of(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (m, k) what candidates have for the columns of `equations`."""
        numbers, _, _ = self._numbers(candidates, range(len(candidates)))
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
    ) -> tuple[_Numbers, dict[int, mujoco.MjModel], NDArray[np.float64]]:
        """Return what forces are linear in, models in which bodies move otherwise, and gears."""
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
        gears = fields['actuator_gear'].reshape(len(candidates), -1)
        return _numbers(self.model, fields), moved, gears


class _Numbers(NamedTuple):
    """What the forces of m candidates are linear in.

    Attributes:
        bodies: (m, nbody * 10 + 3 * ntendon) mass, first moments and moments of inertia about a
            body's frame; then armature, damping and dry friction of tendons.
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
    count = len(bodies)
    armature, damping = fields['dof_armature'].copy(), fields['dof_damping'].copy()
    tendons = [fields[f'tendon_{name}'].copy() for name in ('armature', 'damping')]
    gears = fields['actuator_gear'].reshape(count, -1, 6)[:, model.actuator_outadr, 0]
    for actuator, kind in enumerate(model.actuator_trntype):
        element = int(model.actuator_trnid[actuator, 0])
        if kind in TO_JOINT:
            place, into = int(model.jnt_dofadr[element]), (armature, damping)
        elif kind == mujoco.mjtTrn.mjTRN_TENDON:
            place, into = element, (tendons[0], tendons[1])
        else:
            continue
        for numbers, name in zip(into, ('armature', 'damping'), strict=True):
            numbers[:, place] += gears[:, actuator] ** 2 * fields[f'actuator_{name}'][:, actuator]
    return _Numbers(
        np.concatenate(
            [bodies.reshape(count, -1), *tendons, fields['tendon_frictionloss']], axis=1
        ),
        armature,
        damping,
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
        width: Count of the numbers of all bodies and tendons, …
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
        self, weights: NDArray[np.float64], rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (k, …) what a sum of forces is linear in at some instants, and (k,) the rest."""
        nv = len(self.bodies)
        found = np.zeros((len(rows), self.width + 4 * nv))
        rest = np.zeros(len(rows))
        for dof in np.flatnonzero(weights):
            found[:, self.chosen] += weights[dof] * self.bodies[dof, rows]
            rest += weights[dof] * self.rest[dof, rows]
            for place, terms in enumerate(
                (self.acceleration, self.velocity, self.direction, self.position)
            ):
                found[:, self.width + place * nv + dof] = weights[dof] * terms[dof, rows]
        return found, rest

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


def _lead(model: mujoco.MjModel, *, joints: bool = True) -> float:
    """Return by how many seconds damping acts on a later velocity than that of the position.

    Euler's steps take that of joints at their end, but that of tendons at their beginning.
    """
    integrator = mujoco.mjtIntegrator(model.opt.integrator)
    half = 0.5 * float(model.opt.timestep)
    if integrator == mujoco.mjtIntegrator.mjINT_RK4:
        return 0.0
    explicit = not joints or model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_EULERDAMP.value
    return -half if explicit and integrator == mujoco.mjtIntegrator.mjINT_EULER else half


def _terms(model: mujoco.MjModel, motion: PrescribedMotion) -> _Terms:
    """Return what the numbers of a model are multiplied by along a motion."""
    moving = _Bodies(model, motion)
    count, nv = motion.qpos.shape
    # Rows whose number is a multiple of the stride are kept.
    kept = slice(-motion.first % motion.stride, count, motion.stride)

    def passed(values: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = scipy.signal.sosfiltfilt(motion.low_pass, values, axis=0)[kept]
        return np.moveaxis(found, 0, 1)

    bodies = np.zeros((nv, len(range(*kept.indices(count))), model.nbody, _NUMBERS))
    for body in range(1, model.nbody):
        dofs = moving.dofs(body)
        if len(dofs):
            bodies[dofs, :, body] = passed(moving.coefficients(body, dofs))
    tendons = tendon_motion(model, motion)
    directions = np.clip(tendons.velocity / np.maximum(tendons.slow, _TINY), -1.0, 1.0)
    late = tendons.velocity + _lead(model, joints=False) * tendons.acceleration
    own = [
        passed(np.swapaxes(tendons.moments * rates[:, :, None], 1, 2))
        for rates in (tendons.acceleration, late, directions)
    ]
    bodies = np.concatenate([bodies.reshape(*bodies.shape[:2], -1), *own], axis=2)
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
        bare = model.__copy__()
        for field in _LINEAR_PASSIVE:
            getattr(bare, field)[:] = 0.0
        for row in range(count):
            data.qpos[place], data.qvel[:] = motion.qpos[row], motion.qvel[row]
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            mujoco.mj_comVel(model, data)
            self._position[row], self._axes[row] = data.xpos, data.xmat
            self._twist[row], self._screws[row], rates[row] = data.cvel, data.cdof, data.cdof_dot
            points[row] = data.subtree_com[model.body_rootid]
            if passive:
                mujoco.mj_fwdPosition(bare, data)
                mujoco.mj_fwdVelocity(bare, data)
                self.other_forces[row] = data.qfrc_gravcomp - data.qfrc_passive
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

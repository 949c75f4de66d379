# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The forces that a prescribed motion needs, as a linear map of the model's numbers.

Along a known motion, forces are linear in each body's mass, first moments and moments of inertia
about its frame, and in armature, damping, dry friction and stiffness of each joint (C. G. Atkeson,
C. H. An and J. M. Hollerbach, "Estimation of inertial parameters of manipulator loads and links",
IJRR 5(3), 1986). The map is computed once for a motion; a candidate costs one product of matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple
from weakref import WeakKeyDictionary

import mujoco
import numpy as np
import scipy
from numpy.typing import NDArray

from sysid_ros.model.elements import SCALAR_JOINTS, TO_JOINT
from sysid_ros.model.inertia import INERTIAL_FIELDS, pi_from_inertial
from sysid_ros.model.targets import Target
from sysid_ros.signals import PrescribedMotion
from sysid_ros.simulation.runs import ROUNDING, SENSORS

Array = NDArray[np.float64]

_JOINT_SENSORS = {
    mujoco.mjtSensor.mjSENS_JOINTPOS: 'position',
    mujoco.mjtSensor.mjSENS_JOINTVEL: 'velocity',
}
#: The moments of inertia of a body in the regressor, by row and column.
_MOMENTS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
#: The ten numbers of a body, in π of `model.inertia`: moments, first moments and mass.
IN_PI = (*(4 + 3 * i + j for i, j in _MOMENTS), 1, 2, 3, 0)
#: Fields that make up the numbers in which forces are linear, and those that decide how a motion
#: of the joints moves the bodies.
LINEAR = (
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
GEOMETRY = ('body_pos', 'body_quat', 'jnt_pos', 'jnt_axis', 'qpos0', 'body_gravcomp', 'opt.gravity')
#: Laws of actuators that are linear in command, length and velocity, and what decides of them.
_GAINS = (mujoco.mjtGain.mjGAIN_FIXED.value, mujoco.mjtGain.mjGAIN_AFFINE.value)
_BIASES = (mujoco.mjtBias.mjBIAS_NONE.value, mujoco.mjtBias.mjBIAS_AFFINE.value)
ACTUATION = (
    *('actuator_gear', 'actuator_gainprm', 'actuator_biasprm'),
    *('actuator_forcerange', 'actuator_ctrlrange', 'jnt_actfrcrange'),
)
#: What else decides how numbers act on forces: how parts hang together, and how steps are made.
_STRUCTURE = (
    *('body_parentid', 'body_dofadr', 'dof_jntid', 'jnt_type', 'jnt_actgravcomp'),
    *('tendon_adr', 'tendon_num', 'wrap_type', 'wrap_objid', 'wrap_prm'),
    *('opt.timestep', 'opt.integrator', 'opt.disableflags'),
)
#: Fields of passive forces that are numbers of the regressor, …
_LINEAR_PASSIVE = ('dof_damping', 'jnt_stiffness', 'tendon_damping', 'actuator_damping')
#: … and those of the other passive forces.
_OTHER_PASSIVE = (
    'dof_dampingpoly',
    'jnt_stiffnesspoly',
    'tendon_stiffness',
    'tendon_dampingpoly',
    'actuator_dampingpoly',
)
#: The sign of a speed or force is not known below this part of what it usually is.
SLOW = 0.02
#: A low-pass that changes nothing.
IDENTITY = np.array([[1.0, 0.0, 0.0, 1.0, 0.0, 0.0]])


def meaning(model: mujoco.MjModel, source: str, column: int) -> Iterator[tuple[str, int]]:
    """Yield which of position and velocity of which degree of freedom a column is."""
    if source == 'qpos':
        joints = np.flatnonzero(model.jnt_qposadr == column)
        yield from (('position', int(dof)) for dof in model.jnt_dofadr[joints])
    elif source == 'qvel':
        yield 'velocity', column
    elif source == SENSORS and column in model.sensor_adr:
        sensor = int(np.flatnonzero(model.sensor_adr == column)[0])
        kind = mujoco.mjtSensor(model.sensor_type[sensor])
        if kind in _JOINT_SENSORS:
            yield _JOINT_SENSORS[kind], int(model.jnt_dofadr[model.sensor_objid[sensor]])


def transmissions(model: mujoco.MjModel, gear: Array | None = None) -> Array:
    """Return (nactuator, nv) the forces of joints by each actuator's; NaN where these change.

    ``gear`` is a flat ``actuator_gear``, if not the model's.
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


def driven_otherwise(model: mujoco.MjModel) -> NDArray[np.bool_]:
    """Return (nv,) whether what drives a joint has a state, or is not linear in what is known."""
    linear = np.isin(model.actuator_gaintype, _GAINS) & np.isin(model.actuator_biastype, _BIASES)
    moments = transmissions(model)[~linear | (model.actuator_actnum > 0)]
    return np.asarray((moments != 0).any(axis=0))  # NaN, which stands for others, is not 0


def exerted(
    model: mujoco.MjModel, fields: Mapping[str, Array], motion: PrescribedMotion, controls: Array
) -> Array:
    """Return the (m, n, nv) forces that actuators exert on joints along a motion, N·m or N.

    Those of candidates with fields of the model, and (m, n, nu) controls: an actuator's force is
    linear in its command, its length and its velocity, and has limits.
    """
    gears = fields['actuator_gear']
    moments = np.nan_to_num(np.stack([transmissions(model, gear) for gear in gears]))
    turned = np.swapaxes(moments, 1, 2)
    lengths = motion.qpos @ turned
    velocities = (motion.qvel + driving_lead(model) * motion.qacc) @ turned

    def linear(name: str, laws: NDArray[np.bool_]) -> Array:
        constant, by_length, by_velocity = np.moveaxis(fields[name][:, None, :, :3], 3, 0)
        return np.asarray(constant + laws * (by_length * lengths + by_velocity * velocities))

    def within(name: str, limited: NDArray[np.uint8], places: NDArray[np.int32]) -> list[Array]:
        ranges = np.where(limited[:, None], fields[name], [-np.inf, np.inf])[:, places]
        return list(np.moveaxis(ranges[:, None], 3, 0))

    controls = controls[:, :, model.actuator_ctrladr]
    limits = within('actuator_ctrlrange', model.actuator_ctrllimited, model.actuator_ctrladr)
    gain, bias = model.actuator_gaintype == _GAINS[1], model.actuator_biastype == _BIASES[1]
    forces = np.clip(controls, *limits) * linear('actuator_gainprm', gain)
    forces = forces + bias * linear('actuator_biasprm', bias)
    limits = within('actuator_forcerange', model.actuator_forcelimited, model.actuator_outadr)
    on_joints = np.clip(forces, *limits) @ moments
    limits = within('jnt_actfrcrange', model.jnt_actfrclimited, model.dof_jntid)
    return np.asarray(np.clip(on_joints, *limits))


def fixed_tendons(model: mujoco.MjModel) -> Array:
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


def force_weights(model: mujoco.MjModel, gear: Array | None = None) -> dict[int, Array]:
    """Return column of the sensors to the (nv,) weights of joints' forces in what it reads.

    A joint's sensor reads what all actuators together exert on it. Those of actuators follow from
    the forces of all joints where no two sets of actuator forces exert the same. ``gear`` is a flat
    ``actuator_gear``, if not the model's.
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
            if known and np.allclose(told[element], one, atol=ROUNDING):
                weights = inverse[element]
                small = np.abs(weights) < ROUNDING * np.abs(weights).max()
                found[column] = np.where(small, 0.0, weights)
    return found


def acts_on_forces(model: mujoco.MjModel, target: Target) -> bool:
    """Return whether a number of the compiled model acts on the forces of a given motion."""
    if target.element_and_attribute == ('body', 'inertia'):
        return True
    fields = target.fields(model)
    if 'actuator_gear' in fields and mujoco.mjtSensor.mjSENS_ACTUATORFRC not in model.sensor_type:
        return False
    return bool(fields) and fields <= {*LINEAR, *GEOMETRY}


def body_columns(body: int) -> NDArray[np.int64]:
    """Return the columns of a body's moments of inertia, first moments and mass."""
    return len(IN_PI) * body + np.arange(len(IN_PI))


def numbers_of(model: mujoco.MjModel, fields: Mapping[str, Array]) -> Array:
    """Return the (m, k) numbers of a `Regressor` from fields of the model, (m, …) each."""
    count = len(fields['body_mass'])
    bodies = pi_from_inertial(*(fields[name] for name in INERTIAL_FIELDS))[..., IN_PI]
    rotors = {
        kind: [fields[f'{kind}_{name}'].copy() for name in ('armature', 'damping')]
        for kind in ('dof', 'tendon')
    }
    gears = fields['actuator_gear'].reshape(count, -1, 6)[:, model.actuator_outadr, 0]
    for actuator, kind in enumerate(model.actuator_trntype):
        place, into = int(model.actuator_trnid[actuator, 0]), rotors['tendon']
        if kind in TO_JOINT:
            place, into = int(model.jnt_dofadr[place]), rotors['dof']
        elif kind != mujoco.mjtTrn.mjTRN_TENDON:
            continue
        for numbers, name in zip(into, ('armature', 'damping'), strict=True):
            numbers[:, place] += gears[:, actuator] ** 2 * fields[f'actuator_{name}'][:, actuator]
    stiffness = fields['jnt_stiffness'][:, model.dof_jntid]
    rests = fields['qpos_spring'][:, model.jnt_qposadr[model.dof_jntid]]
    return np.concatenate(
        [
            bodies.reshape(count, -1),
            *rotors['tendon'],
            fields['tendon_frictionloss'],
            *rotors['dof'],
            fields['dof_frictionloss'],
            stiffness,
            stiffness * rests,
        ],
        axis=1,
    )


class Regressor(NamedTuple):
    """The linear map from k numbers of a model to the forces along a motion, at n kept rows.

    The numbers are, of each body, its moments of inertia and first moments about its frame and its
    mass; then armature, damping and dry friction of tendons, and those of joints; then stiffness of
    joints, and the moment with which their springs pull at zero.
    """

    columns: list[
        NDArray[np.int64]
    ]  # for each degree of freedom, which numbers change its force, …
    matrices: list[Array]  # … and (n, number of these) what they are multiplied by
    rest: Array  # (nv, n) forces that no number changes, N·m or N
    width: int  # k

    def forces(self, numbers: Array) -> Array:
        """Return the (m, nv, n) forces of (m, k) numbers."""
        return np.stack(
            [
                numbers[:, columns] @ matrix.T + rest
                for columns, matrix, rest in zip(
                    self.columns, self.matrices, self.rest, strict=True
                )
            ],
            axis=1,
        )

    def lines(self, weights: Array) -> Array:
        """Return (n, k + 1) what a sum of forces is linear in; the last column is its rest."""
        found = np.zeros((self.rest.shape[1], self.width + 1))
        for dof in np.flatnonzero(weights):
            found[:, self.columns[dof]] += weights[dof] * self.matrices[dof]
        found[:, -1] = weights @ self.rest
        return found


def _half_step(model: mujoco.MjModel) -> float:
    """Return by how many seconds the derivative of the positions is later than a step's begin.

    MuJoCo's steps, but for RK4's, change a position by the velocity at their end.
    """
    rk4 = model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4.value
    return 0.0 if rk4 else 0.5 * float(model.opt.timestep)


def driving_lead(model: mujoco.MjModel) -> float:
    """Return by how many seconds actuators and tendons see a later velocity than that."""
    euler = model.opt.integrator == mujoco.mjtIntegrator.mjINT_EULER.value
    return -_half_step(model) if euler else _half_step(model)


#: How numbers act on forces along motions that are still in use, and what decided it.
_kept: WeakKeyDictionary[PrescribedMotion, tuple[bytes, Regressor]] = WeakKeyDictionary()


def kept_regressor(model: mujoco.MjModel, motion: PrescribedMotion) -> Regressor:
    """Return the `regressor` that is kept of a motion, for models that move as the last one did."""
    key = b''.join(np.asarray(attrgetter(f)(model)).tobytes() for f in (*GEOMETRY, *_STRUCTURE))
    if motion not in _kept or _kept[motion][0] != key:
        _kept[motion] = key, regressor(model, motion)
    return _kept[motion][1]._replace(rest=_rest(model, motion))


def _rest(model: mujoco.MjModel, motion: PrescribedMotion) -> Array:
    return _passed(motion, _other_forces(model, motion)).T


def _passed(motion: PrescribedMotion, values: Array) -> Array:
    """Return kept rows of (n, …) values after the low-pass."""
    kept = slice(-motion.first % motion.stride, len(motion.qpos), motion.stride)
    return np.asarray(scipy.signal.sosfiltfilt(motion.low_pass, values, axis=0)[kept])


def regressor(model: mujoco.MjModel, motion: PrescribedMotion) -> Regressor:
    """Return what the numbers of a model are multiplied by along a motion."""
    passed = partial(_passed, motion)
    parts: list[list[tuple[NDArray[np.int64], Array]]] = [[] for _ in range(model.nv)]
    _inertial_columns(model, motion, passed, parts)
    explicit = model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_EULERDAMP.value
    damped = driving_lead(model) if explicit else _half_step(model)
    nv, start = model.nv, len(IN_PI) * model.nbody
    moments = np.nan_to_num(fixed_tendons(model))
    velocity, acceleration = motion.qvel @ moments.T, motion.qacc @ moments.T
    lead = driving_lead(model)
    directions = _direction(velocity, slowest(velocity) if motion.slow.any() else np.zeros(1))
    for place, values in enumerate((acceleration, velocity + lead * acceleration, directions)):
        columns, own = start + place * model.ntendon + np.arange(model.ntendon), passed(values)
        for dof in range(nv):
            parts[dof].append((columns, own * moments[:, dof]))
    start += 3 * model.ntendon
    for place, values in enumerate(
        (
            motion.qacc,
            motion.qvel + damped * motion.qacc,
            _direction(motion.qvel, motion.slow),
            motion.qpos,
            -np.ones_like(motion.qpos),
        )
    ):
        own = passed(values)
        for dof in range(nv):
            parts[dof].append((np.array([start + place * nv + dof]), own[:, [dof]]))
    columns, matrices = [], []
    for some in parts:
        places = np.concatenate([own for own, _ in some])
        matrix = np.concatenate([values for _, values in some], axis=1)
        used = np.any(matrix, axis=0)
        columns.append(places[used])
        matrices.append(np.ascontiguousarray(matrix[:, used]))
    return Regressor(columns, matrices, _rest(model, motion), start + 5 * nv)


def slowest(velocity: Array) -> Array:
    """Return the speeds below which joints or tendons may move either way."""
    return np.asarray(np.maximum(SLOW * np.sqrt(np.mean(velocity**2, axis=0)), ROUNDING))


def _direction(velocity: Array, slow: Array) -> Array:
    """Return -1 or 1, and what is between where a velocity is slow."""
    return np.asarray(np.clip(velocity / np.maximum(slow, ROUNDING), -1.0, 1.0))


def _inertial_columns(
    model: mujoco.MjModel,
    motion: PrescribedMotion,
    passed: Callable[[Array], Array],
    parts: Sequence[list[tuple[NDArray[np.int64], Array]]],
) -> None:
    """Add what the numbers of bodies do to the forces of each joint."""
    count, speeds = len(motion.qpos), motion.qvel - _half_step(model) * motion.qacc
    arms, axes, twist, screws, rates = _kinematics(model, motion, speeds)
    accelerations = np.zeros((count, model.nbody, 6))
    accelerations[:, 0, 3:] = -model.opt.gravity
    for body in range(1, model.nbody):
        own = slice(model.body_dofadr[body], model.body_dofadr[body] + model.body_dofnum[body])
        accelerations[:, body] = accelerations[:, model.body_parentid[body]]
        if model.body_dofnum[body]:
            accelerations[:, body] += np.einsum('njk,nj->nk', rates[:, own], speeds[:, own])
            accelerations[:, body] += np.einsum('njk,nj->nk', screws[:, own], motion.qacc[:, own])
        dofs = _moving(model, body)
        if not len(dofs):
            continue
        frame = axes[:, body].reshape(count, 3, 3)
        arm, spin, velocity = arms[:, body], twist[:, body, :3], twist[:, body, 3:]
        turning = accelerations[:, body, :3]
        # The acceleration of the body's origin is that of a point of the body, not of space.
        linear = accelerations[:, body, 3:] + np.cross(spin, velocity) + np.cross(turning, arm)
        linear += np.cross(spin, np.cross(spin, arm))
        wrench = _wrench(*(np.einsum('nji,nj->ni', frame, v) for v in (spin, turning, linear)))
        if model.body_gravcomp[body]:
            # What compensates gravity pulls as the body's weight does, but upwards.
            weight = np.einsum('nji,j->ni', frame, -model.opt.gravity)
            still = np.zeros((count, 3))
            held = model.body_gravcomp[body] * _wrench(still, still, weight)
        pushes = screws[:, dofs, 3:] + np.cross(screws[:, dofs, :3], arm[:, None])
        turns, pushes = (np.einsum('nji,ndj->ndi', frame, v) for v in (screws[:, dofs, :3], pushes))
        both = np.concatenate([turns, pushes], axis=2)
        for index, dof in enumerate(dofs):
            full = wrench
            if model.body_gravcomp[body] and not model.jnt_actgravcomp[model.dof_jntid[dof]]:
                full = wrench - held
            forces = np.einsum('ni,nip->np', both[:, index], full)
            parts[dof].append((body_columns(body), passed(forces)))


def _kinematics(
    model: mujoco.MjModel, motion: PrescribedMotion, speeds: Array
) -> tuple[Array, ...]:
    """Return how bodies move along a motion, from the centre of mass of their tree as in MuJoCo.

    That is, (n, nbody, …) places of their origins, axes, and twists, and (n, nv, 6) screws of the
    joints and their rates.
    """
    data, place = mujoco.MjData(model), model.jnt_qposadr[model.dof_jntid]
    rows = []
    for qpos, qvel in zip(motion.qpos, speeds, strict=True):
        data.qpos[place], data.qvel[:] = qpos, qvel
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_comVel(model, data)
        arms = data.xpos - data.subtree_com[model.body_rootid]
        rows.append([arms, *(v.copy() for v in (data.xmat, data.cvel, data.cdof, data.cdof_dot))])
    return tuple(map(np.array, zip(*rows, strict=True)))


def _other_forces(model: mujoco.MjModel, motion: PrescribedMotion) -> Array:
    """Return (n, nv) passive forces that are no numbers of the regressor, as joints need them."""
    found = np.zeros(motion.qpos.shape)
    fields = (model.opt.density, model.opt.viscosity, *(getattr(model, f) for f in _OTHER_PASSIVE))
    if not any(np.any(values) for values in fields):
        return found
    data, place = mujoco.MjData(model), model.jnt_qposadr[model.dof_jntid]
    bare = model.__copy__()
    for field in _LINEAR_PASSIVE:
        getattr(bare, field)[:] = 0.0
    speeds = motion.qvel - _half_step(model) * motion.qacc
    for row, forces in enumerate(found):
        data.qpos[place], data.qvel[:] = motion.qpos[row], speeds[row]
        mujoco.mj_fwdPosition(bare, data)
        mujoco.mj_fwdVelocity(bare, data)
        forces[:] = data.qfrc_gravcomp - data.qfrc_passive
    return found


def _moving(model: mujoco.MjModel, body: int) -> NDArray[np.int64]:
    """Return the degrees of freedom that move a body."""
    found: list[int] = []
    while body:
        first = int(model.body_dofadr[body])
        found.extend(range(first, first + int(model.body_dofnum[body])))
        body = int(model.body_parentid[body])
    return np.array(sorted(found), dtype=np.int64)


def _wrench(spin: Array, turning: Array, linear: Array) -> Array:
    """Return the (n, 6, 10) torque and force at a body's origin by its numbers, in its axes.

    With angular velocity ω, angular acceleration α and the origin's acceleration less gravity a,
    all (n, 3), they are ``J α + ω × J ω + h × a`` and ``m a + α × h + ω × (ω × h)``.
    """
    found = np.zeros((len(spin), 6, len(IN_PI)))
    for place, (i, j) in enumerate(_MOMENTS):
        unit = np.zeros((3, 3))
        unit[i, j] = unit[j, i] = 1.0
        found[:, :3, place] = turning @ unit + np.cross(spin, spin @ unit)
    around = _cross_matrix(spin)
    found[:, :3, 6:9] = -_cross_matrix(linear)
    found[:, 3:, 6:9] = _cross_matrix(turning) + around @ around
    found[:, 3:, 9] = linear
    return found


def _cross_matrix(values: Array) -> Array:
    """Return the (n, 3, 3) matrices whose product with a vector is the cross product."""
    return np.asarray(np.cross(values[:, None], np.eye(3)).swapaxes(1, 2))

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Models: read, completed by what they imply, compiled, and with identified values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from xml.sax.saxutils import quoteattr

import mujoco
import numpy as np

from sysid_ros.errors import ModelError, ParameterError, listed, nearest, one_sentence
from sysid_ros.model.candidates import Writer, writable_spec
from sysid_ros.model.description import Description, read_description
from sysid_ros.model.elements import SAME, SCALAR_JOINTS, element_names, object_id
from sysid_ros.model.kinds import Role
from sysid_ros.model.targets import Target, resolve, write_spec

Asset: TypeAlias = mujoco.MjsMesh | mujoco.MjsHField | mujoco.MjsTexture | mujoco.MjsSkin

#: Its sparse Cholesky factorization gives the Newton solver a wrong Hessian, says the changelog of
#: the version after it: accelerations are wrong and simulations diverge.
_WRONG_CHOLESKY = '4.0.0'
#: Numbers that say nothing about the physics: a hash of the tree, and the room for asset paths,
#: which a compiled model holds in full.
_IGNORED_FIELDS = frozenset(
    {
        'signature',
        'nbuffer',
        'npaths',
        *(f'{kind}_pathadr' for kind in ('hfield', 'mesh', 'skin', 'tex')),
    }
)
#: Time steps, s, in which robots are simulated: shorter ones never end, longer ones are no motion.
_SHORTEST, _LONGEST = 1e-6, 1.0
#: Targets that move a body.
_POSES = frozenset({('body', 'pos'), ('body', 'quat')})


class NativeDelay(NamedTuple):
    """How MuJoCo's own actuator delay represents a delay."""

    delay: float  # the attribute, s; 0 where no delay is nearer than the shortest
    nsample: int  # the attribute: slots of the control history
    effective: float  # the delay that the simulation shows, s


class RobotModel(NamedTuple):
    """A model as it was read, before it is compiled."""

    description: Description
    spec: mujoco.MjSpec  # with the sensors and actuators that are implied


def read_model(path: Path, packages: Sequence[Path] = ()) -> RobotModel:
    """Read a model; joints that no sensor measures get sensors, see `add_joint_sensors`.

    What shows by files that are not there, as passed on models often refer to, is left out.

    Raises:
        ModelError: There is no such file, it is no model, or it needs files that are not there.
        BagError: It is a bag that cannot be read.
    """
    description = read_description(path, packages)
    try:
        if description.mjcf is None:
            spec = mujoco.MjSpec.from_file(str(path))
        else:
            spec = mujoco.MjSpec.from_string(description.mjcf)
    except (ValueError, mujoco.FatalError) as err:
        raise ModelError(f'Cannot read the model {str(path)!r}: {one_sentence(err)}.') from err
    if not _SHORTEST <= spec.option.timestep <= _LONGEST:
        raise ModelError(
            f'Expected a time step from {_SHORTEST:g} to {_LONGEST:g} s in the model '
            f'{str(path)!r}, found {spec.option.timestep:g} s.'
        )
    notes = (*description.notes, *_drop_missing_files(spec, path))
    add_joint_sensors(spec)
    return RobotModel(description._replace(notes=notes), spec)


def _drop_missing_files(spec: mujoco.MjSpec, path: Path) -> tuple[str, ...]:
    """Take out of a spec the meshes, height fields, textures and skins whose files are not there.

    Models are often passed on without them. They move nothing, unless a body has its inertia from
    one or touches something with it.
    """
    shapes = [asset for asset in (*spec.meshes, *spec.hfields) if _is_missing(spec, asset.file)]
    missing: list[Asset] = [
        *shapes,
        *(skin for skin in spec.skins if _is_missing(spec, skin.file)),
        *(
            texture
            for texture in spec.textures
            if any(_is_missing(spec, file) for file in (texture.file, *texture.cubefiles))
        ),
    ]
    # Includes and models inside of models have folders of their own, which MuJoCo knows.
    if not missing or _compiles(spec):
        return ()
    names = {asset.name for asset in shapes}
    geoms = [geom for geom in spec.geoms if {geom.meshname, geom.hfieldname} & names]
    for geom in geoms:
        if _gives_inertia(spec, geom):
            file = next(a.file for a in shapes if a.name in {geom.meshname, geom.hfieldname})
            raise ModelError(
                f'Body {geom.parent.name!r} of {str(path)!r} has its inertia from {file!r}, which '
                'is not there; expected the file, or an <inertial> in the body.'
            )
    touching = [geom for geom in geoms if geom.contype or geom.conaffinity]
    bodies = dict.fromkeys(geom.parent.name or 'a body without a name' for geom in touching)
    # The first sides of a cube may have no file.
    files = dict.fromkeys(asset.file or next(filter(None, asset.cubefiles)) for asset in missing)
    note = f'Files that are not there are left out: {listed(files)}; that changes '
    note += f'the contacts of {listed(bodies)}.' if bodies else 'the view only.'
    _take_out(spec, geoms, missing)
    return (note,)


def _is_missing(spec: mujoco.MjSpec, file: str) -> bool:
    if not file:
        return False
    inside = Path(file).name if spec.strippath else file
    folders = (spec.compiler.meshdir, spec.compiler.texturedir, '')
    return not any((Path(spec.modelfiledir) / folder / inside).is_file() for folder in folders)


def _compiles(spec: mujoco.MjSpec) -> bool:
    try:
        spec.copy().compile()
    except (ValueError, mujoco.FatalError):
        return False
    return True


def _gives_inertia(spec: mujoco.MjSpec, geom: mujoco.MjsGeom) -> bool:
    """Whether a body that moves has mass from a geom."""
    body, choice = geom.parent, spec.compiler.inertiafromgeom
    low, high = spec.compiler.inertiagrouprange
    weighs = geom.mass > 0 or (math.isnan(geom.mass) and geom.density > 0)
    if not weighs or not low <= geom.group <= high:
        return False
    if choice == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_FALSE or (
        choice == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_AUTO and body.explicitinertial
    ):
        return False
    while body.name != 'world' and not body.joints:
        body = body.parent
    return bool(body.joints)


def _take_out(
    spec: mujoco.MjSpec, geoms: Sequence[mujoco.MjsGeom], assets: Sequence[Asset]
) -> None:
    """Take out geoms, assets, and all that refers to them."""
    gone = {geom.name for geom in geoms if geom.name}
    for pair in list(spec.pairs):
        if {pair.geomname1, pair.geomname2} & gone:
            spec.delete(pair)
    for sensor in list(spec.sensors):
        ends = (sensor.objtype, sensor.objname), (sensor.reftype, sensor.refname)
        if any(kind == mujoco.mjtObj.mjOBJ_GEOM and name in gone for kind, name in ends):
            spec.delete(sensor)
    named = {asset.name for asset in assets if isinstance(asset, mujoco.MjsTexture)}
    for material in spec.materials:
        material.textures = ['' if name in named else name for name in material.textures]
    for entry in (*geoms, *assets):
        spec.delete(entry)


def load_spec(path: Path, packages: Sequence[Path] = ()) -> mujoco.MjSpec:
    """Return what a model is parsed to, see `read_model`."""
    return read_model(path, packages).spec


def compile_spec(spec: mujoco.MjSpec, path: Path) -> mujoco.MjModel:
    """Compile a spec of a file; a ModelError where this MuJoCo cannot, or simulates it wrongly."""
    try:
        model = spec.compile()
    except (ValueError, mujoco.FatalError) as err:
        raise ModelError(f'Cannot compile the model {str(path)!r}: {one_sentence(err)}.') from err
    newton = model.opt.solver == mujoco.mjtSolver.mjSOL_NEWTON
    if mujoco.__version__ == _WRONG_CHOLESKY and newton and mujoco.mj_isSparse(model):
        raise ModelError(
            f'Cannot simulate the model {str(path)!r}: MuJoCo {_WRONG_CHOLESKY} solves sparse '
            'constraints wrongly; expected 4.0.1 or newer '
            "(`pip install --upgrade 'mujoco-core>=4.0.1'`)."
        )
    return model


def load_model(path: Path, packages: Sequence[Path] = ()) -> mujoco.MjModel:
    """Compile a model; see `load_spec`."""
    return compile_spec(load_spec(path, packages), path)


def native_delay(delay: float, timestep: float) -> NativeDelay:
    """Express an actuator delay in MuJoCo's terms.

    With commands held over each step, the mean over a step of the command shifted by ``(n + f) *
    timestep`` is ``(1 - f) * u[k - n] + f * u[k - n - 1]``. That is what linear interpolation of
    the history gives at ``t - delay``, exactly, from one timestep on. (MuJoCo clamps to
    ``ctrlrange`` after it has interpolated.) The history ends at the previous step, so every
    shorter delay acts as one whole timestep; below half a timestep, none is nearer.
    """
    steps = delay / timestep
    if steps < 0.5:  # noqa: PLR2004 (half of a step: what rounds to none)
        return NativeDelay(0.0, 0, 0.0)
    # One slot more than interpolation needs: the stamps in the history carry rounding errors.
    return NativeDelay(delay, math.ceil(steps) + 1, max(delay, timestep))


def fitted_model(
    path: Path, values: Sequence[tuple[Target, float]], spec: mujoco.MjSpec | None = None
) -> mujoco.MjModel:
    """Compile the user's file and apply identified values to the compiled model.

    Where an actuator has a ``dampratio``, the velocity gain stays what the file as it is compiles
    to: a servo's gain does not follow our estimate of the inertia that it moves. Values that no
    model has are left out: gain and bias of commands and sensors, starts of sequences. What the
    compiler decides by the values, such as how boxes around geoms are arranged, stays as it was.

    Targets are found by name, and of two values for one the later wins. The spec is what the file
    was parsed to; it is not changed.

    Raises:
        ModelError: The file does not compile, or not with these values.
        ParameterError: A target is not in the model, or a value is not finite.
    """
    spec = spec or load_spec(path)
    model = compile_spec(spec, path)
    latest = {target.path: (target, value) for target, value in values}
    found = [
        (found_target(target, model, spec), float(value))
        for target, value in latest.values()
        if target.in_mjcf
    ]
    for target, value in found:
        if not math.isfinite(value):
            raise ParameterError(f'Expected a finite value for {target.path!r}, found {value}.')
    written = writable_spec(spec, [target for target, _ in found])
    for target, value in found:
        if target.role is Role.SPEC:
            write_spec(written, target, value)
    write_delays(written, model, [entry for entry in found if entry[0].role is Role.COMMAND])
    model = compile_spec(written, path)
    writer = Writer(model, [(target, i) for i, (target, _) in enumerate(found)], spec=spec)
    writer.write(model, np.array([value for _, value in found]))
    for target, _ in found:
        if (target.element, target.attribute) in _POSES:
            _move_empty_frame(model, target.row, spec)
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


def _move_empty_frame(model: mujoco.MjModel, body: int, spec: mujoco.MjSpec) -> None:
    """Move the inertial frame of a body that has none of its own.

    The compiler gives a body without mass and geoms an inertial frame that is, in numbers, the
    body's own frame in its parent (MuJoCo 4.0). Nothing but a sensor of that frame sees it.
    """
    empty = model.body_mass[body] == 0 and model.body_geomnum[body] == 0
    if empty and not spec.body(model.body(body).name).explicitinertial:
        model.body_ipos[body] = model.body_pos[body]
        model.body_iquat[body] = model.body_quat[body]


def found_target(target: Target, model: mujoco.MjModel, spec: mujoco.MjSpec) -> Target:
    """Return the target with its row in this model."""
    if target.element == 'option':
        return target
    if target.element == 'default':
        (found,) = resolve(target.path, model, spec=spec)
        return found
    row = object_id(model, target.element, target.name)
    if row < 0:
        names = element_names(model, target.element)
        raise ParameterError(
            f'No {target.element} {target.name!r} for target {target.path!r}; '
            f'{nearest(target.name, names)}.'
        )
    return dataclasses.replace(target, row=row)


def write_delays(
    spec: mujoco.MjSpec, model: mujoco.MjModel, delays: list[tuple[Target, float]]
) -> None:
    """Write delays of actuators, s, into a spec, which has to be compiled again.

    The time step of the model that it compiles to decides which delays MuJoCo can show.
    """
    for target, value in delays:
        actuator = spec.actuator(target.name)
        wanted = native_delay(value, model.opt.timestep)
        if wanted.delay:
            actuator.delay = wanted.delay
            actuator.nsample = max(wanted.nsample, actuator.nsample)
            actuator.interp = 1  # linear: a spec has an integer for it
        elif actuator.delay:
            actuator.delay = actuator.nsample = actuator.interp = 0


def differing_fields(
    a: mujoco.MjModel, b: mujoco.MjModel, tolerance: float = SAME
) -> tuple[str, ...]:
    """Return which arrays, sizes, options (``opt.…``) and statistics (``stat.…``) of models differ.

    The tolerance is relative to the larger number where that is above 1.
    """
    others = dict(_numbers(b))
    return tuple(name for name, value in _numbers(a) if not _close(value, others[name], tolerance))


def _numbers(model: mujoco.MjModel) -> Iterator[tuple[str, Any]]:
    for prefix, owner in (('', model), ('opt.', model.opt), ('stat.', model.stat)):
        for name in dir(owner):
            value = None if name.startswith('_') else getattr(owner, name)
            if name not in _IGNORED_FIELDS and isinstance(value, (int, float, np.ndarray)):
                yield prefix + name, np.asarray(value)


def _close(a: Any, b: Any, tolerance: float) -> bool:
    if np.array_equal(a, b):  # nearly all: no number of theirs has to be looked at
        return True
    if a.shape != b.shape or a.dtype.kind != 'f':
        return False
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))


#: What is implied for each joint: the end of the sensor's name and its type, and the types that
#: measure the same, directly or through its actuator.
_IMPLIED = {
    'position': (mujoco.mjtSensor.mjSENS_JOINTPOS, mujoco.mjtSensor.mjSENS_ACTUATORPOS),
    'velocity': (mujoco.mjtSensor.mjSENS_JOINTVEL, mujoco.mjtSensor.mjSENS_ACTUATORVEL),
    'effort': (mujoco.mjtSensor.mjSENS_JOINTACTFRC, mujoco.mjtSensor.mjSENS_ACTUATORFRC),
}
#: And for each body that floats.
_POSE = {
    'position': mujoco.mjtSensor.mjSENS_FRAMEPOS,
    'orientation': mujoco.mjtSensor.mjSENS_FRAMEQUAT,
}
#: Implied servos follow at 4 Hz, rad/s, as those of arms do, and ...
_GUESSED_RATE = 2 * math.pi * 4.0
#: ... as if a joint moved at least this, kg·m² or kg: models seldom have the rotor of its motor.
_LEAST_INERTIA = 0.02
#: A servo alone is stable in time steps of at most this part of 1 / its rate, with a margin.
_STABLE = 0.3
#: What an implied element carries in its ``info``, by which it is known again in copies.
_MARK = 'implied by sysid_ros'


def add_joint_sensors(spec: mujoco.MjSpec) -> None:
    """Give each joint the sensors ``<joint>_position`` and so on that the model lacks.

    Models of robots come without sensors more often than not: simulators read positions from the
    state. A model with servos that has any sensor of a joint is left as it is: its author chose
    what simulations are compared by. A model that is written has none of these sensors, by which
    nothing moves.
    """
    targets = {actuator.name: actuator.target for actuator in spec.actuators}
    there = set()
    for sensor in spec.sensors:
        for alike in _IMPLIED.values():
            if sensor.type == alike[0]:
                there.add((alike, sensor.objname))
            elif sensor.type == alike[1]:
                there.add((alike, targets.get(sensor.objname, '')))
    taken = {sensor.name for sensor in spec.sensors}
    _add_pose_sensors(spec, taken)
    if there and not takes_efforts(spec):
        return
    for joint in spec.joints:
        if not joint.name or joint.type not in SCALAR_JOINTS:
            continue
        for end, alike in _IMPLIED.items():
            name = f'{joint.name}_{end}'
            if name not in taken and (alike, joint.name) not in there:
                spec.add_sensor(
                    name=name,
                    type=alike[0],
                    objtype=mujoco.mjtObj.mjOBJ_JOINT,
                    objname=joint.name,
                    info=_MARK,
                )


def _add_pose_sensors(spec: mujoco.MjSpec, taken: Collection[str]) -> None:
    """Let the pose of each body that floats be read, unless a sensor of the model's does."""
    for body in spec.bodies:
        joint = body.first_joint()
        if not body.name or joint is None or joint.type != mujoco.mjtJoint.mjJNT_FREE:
            continue
        own = {body.name, *(site.name for site in body.sites)}
        for end, kind in _POSE.items():
            name = f'{body.name}_{end}'
            there = any(s.type == kind and s.objname in own for s in spec.sensors)
            if name not in taken and not there:
                frame = mujoco.mjtObj.mjOBJ_XBODY
                spec.add_sensor(name=name, type=kind, objtype=frame, objname=body.name, info=_MARK)


def implied_sensors(spec: mujoco.MjSpec) -> list[str]:
    """Return the names of the sensors that the user's file does not have."""
    return [sensor.name for sensor in spec.sensors if sensor.info == _MARK]


def drop_implied(spec: mujoco.MjSpec) -> None:
    """Take the sensors that the user's file does not have out again."""
    for sensor in list(spec.sensors):
        if sensor.info == _MARK:
            spec.delete(sensor)


class ActuatorKind(StrEnum):
    """What an implied actuator is told; the value is the end of its name."""

    POSITION = 'servo'
    VELOCITY = 'velocity_servo'
    EFFORT = 'motor'


def free_joints(spec: mujoco.MjSpec) -> list[str]:
    """Return the hinges and slides with a name that no equality makes follow another joint."""
    following = {e.name1 for e in spec.equalities if e.type == mujoco.mjtEq.mjEQ_JOINT}
    scalar = [joint.name for joint in spec.joints if joint.name and joint.type in SCALAR_JOINTS]
    return [name for name in scalar if name not in following]


def takes_efforts(spec: mujoco.MjSpec) -> bool:
    """Whether all that drives a model of its own are motors, which no motion of a joint acts on.

    Servos may then stand in for what commands motors in the robot. A motor may exert a constant
    force beside what it is told, as one has whose offset was identified.
    """
    own = (actuator for actuator in spec.actuators if actuator.info != _MARK)
    return all(
        actuator.biastype == mujoco.mjtBias.mjBIAS_NONE
        or (actuator.biastype == mujoco.mjtBias.mjBIAS_AFFINE and not actuator.biasprm[1:3].any())
        for actuator in own
    )


def add_actuators(spec: mujoco.MjSpec, names: Iterable[str]) -> None:
    """Give a model without servos the actuators ``<joint>_servo`` and so on that are named.

    A servo's gains are guesses: those with which the joint would follow at `_GUESSED_RATE` without
    overshoot, by the model's own inertia, and that the time step can simulate. Names other than of
    a joint and an `ActuatorKind`, joined by ``_``, are skipped.
    """
    if not takes_efforts(spec):
        return
    known = {f'{joint}_{end}': (joint, end) for joint in free_joints(spec) for end in ActuatorKind}
    taken = {actuator.name for actuator in spec.actuators}
    found = [(name, *known[name]) for name in names if name in known and name not in taken]
    gains = _guessed_gains(spec, [joint for _, joint, _ in found]) if found else []
    for (name, joint, end), (stiffness, damping) in zip(found, gains, strict=True):
        actuator = spec.add_actuator(
            name=name, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT, info=_MARK
        )
        if end is ActuatorKind.POSITION:
            actuator.set_to_position(kp=stiffness, kv=damping)
        elif end is ActuatorKind.VELOCITY:
            actuator.set_to_velocity(kv=damping)
        else:
            actuator.set_to_motor()


def _guessed_gains(spec: mujoco.MjSpec, joints: list[str]) -> list[tuple[float, float]]:
    """Return stiffness and damping of a servo on each joint, rounded as a text would have them."""
    try:
        model = spec.copy().compile()
    except (ValueError, mujoco.FatalError) as err:
        raise ModelError(f'Cannot compile the model: {one_sentence(err)}.') from err
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    whole, inverse = np.zeros((model.nv, model.nv)), np.eye(model.nv)
    mujoco.mj_fullM(model, data, whole)
    mujoco.mj_solveM(model, data, inverse, inverse.copy())
    found = []
    for joint in joints:
        dof = int(model.joint(joint).dofadr[0])
        # What moves when nothing else is held, by which a servo becomes unstable.
        alone = 1 / float(inverse[dof, dof])
        wanted = max(float(whole[dof, dof]), _LEAST_INERTIA) * _GUESSED_RATE**2
        stiffness = min(wanted, alone * (_STABLE / model.opt.timestep) ** 2)
        damping = 2 * math.sqrt(stiffness * alone)
        found.append((float(f'{stiffness:.3g}'), float(f'{damping:.3g}')))
    return found


def implied_actuators(spec: mujoco.MjSpec) -> list[str]:
    """Return the names of the actuators that the user's file does not have."""
    return [actuator.name for actuator in spec.actuators if actuator.info == _MARK]


def actuators_text(spec: mujoco.MjSpec) -> str:
    """Return the implied actuators as MJCF elements, a line each; empty where there are none."""
    lines = []
    for actuator in spec.actuators:
        if actuator.info == _MARK:
            stiffness, damping = -actuator.biasprm[1], -actuator.biasprm[2]
            gains = {'kp': float(stiffness), 'kv': float(damping)}
            given = ''.join(f' {name}="{gain!r}"' for name, gain in gains.items() if gain)
            tag = 'position' if stiffness else 'velocity' if damping else 'motor'
            lines.append(
                f'    <{tag} name={quoteattr(actuator.name)} joint={quoteattr(actuator.target)}'
                f'{given}/>'
            )
    return '\n'.join(lines)


def implied_sentence(spec: mujoco.MjSpec) -> str:
    """Say which actuators are implied, and what is not known; empty where there are none."""
    names = implied_actuators(spec)
    if not names:
        return ''
    gains = {bool(a.biasprm[1]) for a in spec.actuators if a.info == _MARK and a.biasprm[2]}
    shown = listed(names)
    lacks = 'no actuators' if len(names) == len(spec.actuators) else 'motors only, which stay 0'
    if not gains:
        return f'The model has {lacks}; the bag has efforts for these implied motors: {shown}.'
    unknown = ('kp', 'kv') if True in gains else ('kv',)
    asked = ' and '.join(f'actuator/*/{gain}' for gain in unknown)
    return (
        f'The model has {lacks}; the bag has commands for these implied servos: {shown}; '
        f'their {" and ".join(unknown)} are guesses, so identify {asked}, with scale: log, or say '
        'their initial values.'
    )

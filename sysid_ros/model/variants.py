# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What real joints do and a model may lack, as plain MJCF: variants of a model, joint by joint.

A gear that gives, or has play, makes two of one joint: the rotor, which the servo turns, and the
link. The rotor is a flywheel of its own in the world, with the armature, damping and dry friction
of the joint, and a fixed tendon of length rotor minus link couples both: by its spring, or by its
limits. Either may be what the encoder reads; the one that it reads keeps the joint's name.
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sysid_ros.model.joints import SCALAR_JOINTS
from sysid_ros.model.targets import Role, resolve
from sysid_ros.model.unknown import make_unknowns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.model.targets import Target
    from sysid_ros.model.unknown import Unknown
    from sysid_ros.signals import TimeSeries
    from sysid_ros.signals.trajectory import Trajectory

#: A flywheel's own mass, kg, and radius, m: next to nothing beside the armature.
_LIGHT, _RADIUS = 1e-6, 0.01
#: Rotors have at least this inertia at the joint where the model has none, kg·m².
_LEAST_ROTOR = 1e-3
#: Limits are as stiff as MuJoCo allows: so many steps of time constant.
_STIFF_LIMIT = 2.0
#: What the goal of a servo with a dead band cannot be pushed aside by, N·m·s/rad.
_FIRM = 1e4
#: Its inertia, as part of what its damping is over a step: what is left of its speed in the next.
_NIMBLE = 1e-3
#: Springs that are tried let rotor and link swing at so many Hz ...
_SWINGS = (4.0, 8.0, 16.0, 32.0)
#: ... unless the simulation could not follow: 2 / (time step) is the limit of its stability.
_FASTEST = 0.4
#: Widths of play and dead bands that are tried, rad or m.
_WIDTHS = (0.005, 0.015, 0.05)
#: A first guess of the damping of a gear's spring: part of the critical one.
_SPRING_DAMPING = 0.05
_WIDEST = 0.5
#: A spring takes all but this share of the softness of servo and spring, at most.
_LEAST_SHARE = 0.1


class Lack(enum.StrEnum):
    """What a model may lack."""

    ASYMMETRY = 'asymmetric friction'
    ELASTICITY = 'elastic joint'
    PLAY = 'backlash'
    DEAD_BAND = 'dead band'


class Extra(NamedTuple):
    """A parameter that a variant has beside those of the model.

    Attributes:
        target: What it writes.
        tries: Values at which the variant is tried before it is fitted.
        bounds: Of the fit.
        log: Whether the solver moves its logarithm.
    """

    target: str
    tries: tuple[float, ...]
    bounds: tuple[float, float]
    log: bool = False


@dataclass(frozen=True)
class Variant:
    """A model with something that real joints do.

    Attributes:
        lack: What it has that the model lacks.
        joint: Name of the joint.
        reads: What the encoder reads, where that makes a difference: ``rotor`` or ``link``.
        spec: The changed model, not compiled.
        extras: What is unknown beside the parameters of the model; the first one says how much.
        renamed: Target of the model, up to its index, to what it is in the variant.
        rotor: Name of the joint that has become the rotor; empty for none.
        starts_with: Joint where the joint starts that is new, the last of all; empty for none.
        late: Name of the actuator that answers a step later than in the model; empty for none.
        in_series: Target of the stiffness that, with the first of ``extras`` in series, does what
            it did alone; empty for none.
    """

    lack: Lack
    joint: str
    reads: str
    spec: mujoco.MjSpec
    extras: tuple[Extra, ...]
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    rotor: str = ''
    starts_with: str = ''
    late: str = ''
    in_series: str = ''

    @property
    def title(self) -> str:
        """What it has and where, for people."""
        read = f', encoder on the {self.reads}' if self.reads else ''
        return f'{self.lack} of {self.joint!r}{read}'


def variants(spec: mujoco.MjSpec, model: mujoco.MjModel) -> Iterator[Variant]:
    """Yield what each joint that a position servo drives may have.

    Args:
        spec: The model, which is not changed.
        model: The same, compiled.
    """
    for actuator in range(model.nactuator):
        if not _is_servo(model, actuator):
            continue
        yield _asymmetric(spec, model, actuator)
        joint = _joint_of(model, actuator)
        joints, bodies = ({each.name for each in every} for every in (spec.joints, spec.bodies))
        made = {f'{joint}_rotor', f'{joint}_goal'}
        if made & (joints | bodies) or f'{joint}_link' in joints:
            continue  # the model has a rotor, or such names, already
        if model.opt.integrator != mujoco.mjtIntegrator.mjINT_RK4:
            yield _dead_band(spec, model, actuator)
        for reads in ('link', 'rotor'):
            yield _elastic(spec, model, actuator, reads)
            yield _play(spec, model, actuator, reads)


def _is_servo(model: mujoco.MjModel, actuator: int) -> bool:
    """Whether an actuator is a position servo on a hinge or slide with names."""
    prm = model.actuator_biasprm[actuator]
    joint = int(model.actuator_trnid[actuator, 0])
    return bool(
        model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_JOINT
        and model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_FIXED
        and model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_AFFINE
        and model.actuator_dyntype[actuator] == mujoco.mjtDyn.mjDYN_NONE
        and model.actuator_gainprm[actuator, 0] == -prm[1] > 0
        and int(model.jnt_type[joint]) in SCALAR_JOINTS
        and model.joint(joint).name
        and model.actuator(actuator).name
    )


def _joint_of(model: mujoco.MjModel, actuator: int) -> str:
    return str(model.joint(int(model.actuator_trnid[actuator, 0])).name)


def _asymmetric(spec: mujoco.MjSpec, model: mujoco.MjModel, actuator: int) -> Variant:
    """Return a servo with a constant force.

    Dry friction of F₊ one way and F₋ the other holds the joint from -F₋ to F₊: what half of their
    sum does about half of their difference.
    """
    force = 0.1 * float(model.actuator_gainprm[actuator, 0])
    name = model.actuator(actuator).name
    extra = Extra(f'actuator/{name}/biasprm[0]', (0.01 * force,), (-force, force))
    return Variant(Lack.ASYMMETRY, _joint_of(model, actuator), '', spec.copy(), (extra,))


class _TwoMasses(NamedTuple):
    """A model with a rotor beside a link, and their tendon."""

    spec: mujoco.MjSpec
    rotor: str
    tendon: mujoco.MjsTendon
    renamed: dict[str, str]


def _two_masses(
    spec: mujoco.MjSpec, model: mujoco.MjModel, actuator: int, reads: str, what: str
) -> _TwoMasses:
    """Separate the rotor from the link of a joint."""
    copy = spec.copy()
    joint = _joint_of(model, actuator)
    servo = copy.actuator(model.actuator(actuator).name)
    link = copy.joint(joint)
    rotor_name, link_name = f'{joint}_rotor', joint
    if reads == 'rotor':
        rotor_name, link_name = joint, f'{joint}_link'
        _rename_joint(copy, joint, link_name)
    wheel = _add_wheel(copy, f'{joint}_rotor', rotor_name, link)
    wheel.armature = max(float(link.armature), _LEAST_ROTOR)
    wheel.damping[:], wheel.frictionloss = link.damping, link.frictionloss
    link.damping[:], link.armature, link.frictionloss = 0.0, 0.0, 0.0
    servo.target = rotor_name
    for sensor in copy.sensors:
        if sensor.type == mujoco.mjtSensor.mjSENS_JOINTACTFRC and sensor.objname == joint:
            sensor.objname = rotor_name
    tendon = copy.add_tendon(name=f'{joint}_{what}')
    tendon.wrap_joint(rotor_name, 1.0)
    tendon.wrap_joint(link_name, -1.0)
    renamed = {}
    if reads == 'link':
        renamed = {
            f'joint/{joint}/{attribute}': f'joint/{rotor_name}/{attribute}'
            for attribute in ('armature', 'damping', 'frictionloss')
        }
    return _TwoMasses(copy, rotor_name, tendon, renamed)


def _add_wheel(
    spec: mujoco.MjSpec, body: str, joint: str, like: mujoco.MjsJoint
) -> mujoco.MjsJoint:
    """Add a wheel to the world, the last of all bodies; it hits nothing, and nothing pulls it."""
    wheel = spec.worldbody.add_body(name=body, gravcomp=1.0)
    geom = wheel.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[_RADIUS, 0, 0], mass=_LIGHT)
    geom.contype = geom.conaffinity = 0
    found = wheel.add_joint(name=joint, type=like.type, axis=[0, 0, 1], ref=like.ref)
    found.springref = like.ref
    found.limited = mujoco.mjtLimited.mjLIMITED_FALSE
    found.stiffness[:], found.damping[:] = 0.0, 0.0
    found.frictionloss = 0.0
    return found


def _rename_joint(spec: mujoco.MjSpec, old: str, new: str) -> None:
    """Rename a joint; what reads or drives it by its name then means another one."""
    for equality in spec.equalities:
        if equality.objtype == mujoco.mjtObj.mjOBJ_JOINT:
            equality.name1 = new if equality.name1 == old else equality.name1
            equality.name2 = new if equality.name2 == old else equality.name2
    spec.joint(old).name = new


def _elastic(spec: mujoco.MjSpec, model: mujoco.MjModel, actuator: int, reads: str) -> Variant:
    """Return a joint with a spring between rotor and link."""
    made = _two_masses(spec, model, actuator, reads, 'spring')
    joint = _joint_of(model, actuator)
    rotor = max(float(model.joint(joint).armature[0]), _LEAST_ROTOR)
    whole = 1.0 / float(model.dof_invweight0[model.joint(joint).dofadr[0]])
    lighter = 1.0 / (1.0 / rotor + 1.0 / max(whole - rotor, _LEAST_ROTOR))
    fastest = _FASTEST / model.opt.timestep
    speeds = [min(2 * np.pi * swing, fastest) for swing in _SWINGS]
    tries = tuple(dict.fromkeys(lighter * speed**2 for speed in speeds))
    made.tendon.stiffness[0] = tries[-1]
    made.tendon.damping[0] = 2 * _SPRING_DAMPING * lighter * speeds[-1]
    made.tendon.springlength[:] = 0.0
    extras = (
        Extra(
            f'tendon/{joint}_spring/stiffness',
            tries,
            (tries[0] / 30, lighter * fastest**2),
            log=True,
        ),
        Extra(
            f'tendon/{joint}_spring/damping',
            (float(made.tendon.damping[0]),),
            (0.0, 2 * lighter * fastest),
        ),
    )
    gain = f'actuator/{model.actuator(actuator).name}/kp' if reads == 'link' else ''
    return Variant(
        Lack.ELASTICITY,
        joint,
        reads,
        made.spec,
        extras,
        made.renamed,
        made.rotor,
        starts_with=joint,
        in_series=gain,
    )


def _play(spec: mujoco.MjSpec, model: mujoco.MjModel, actuator: int, reads: str) -> Variant:
    """Return a joint whose link may turn a little without the rotor."""
    made = _two_masses(spec, model, actuator, reads, 'play')
    joint = _joint_of(model, actuator)
    made.tendon.limited = mujoco.mjtLimited.mjLIMITED_TRUE
    made.tendon.range[:] = -_WIDTHS[0] / 2, _WIDTHS[0] / 2
    made.tendon.solref_limit[:] = _STIFF_LIMIT * model.opt.timestep, 1.0
    extra = Extra(f'tendon/{joint}_play/play', _WIDTHS, (1e-5, _WIDEST))
    return Variant(Lack.PLAY, joint, reads, made.spec, (extra,), made.renamed, made.rotor, joint)


def _dead_band(spec: mujoco.MjSpec, model: mujoco.MjModel, actuator: int) -> Variant:
    """Return a servo that ignores small errors.

    Its goal is a joint of its own, so damped that nothing but the command moves it, within a step;
    a spring with a dead band pulls the joint there, a step later than a servo without. What damps
    is a tendon of its own.
    """
    copy = spec.copy()
    joint, name = _joint_of(model, actuator), model.actuator(actuator).name
    servo = copy.actuator(name)
    goal = f'{joint}_goal'
    kp, kv = float(model.actuator_gainprm[actuator, 0]), -float(model.actuator_biasprm[actuator, 2])
    wheel = _add_wheel(copy, goal, goal, copy.joint(joint))
    wheel.damping[0] = _FIRM
    wheel.armature = _NIMBLE * _FIRM * model.opt.timestep
    servo.target = goal
    firm = _FIRM / model.opt.timestep
    servo.gainprm[0], servo.biasprm[1], servo.biasprm[2] = firm, -firm, 0.0
    servo.forcelimited = mujoco.mjtLimited.mjLIMITED_FALSE
    tendon = copy.add_tendon(name=f'{joint}_servo')
    tendon.wrap_joint(goal, 1.0)
    tendon.wrap_joint(joint, -1.0)
    tendon.stiffness[0] = kp
    tendon.springlength[:] = -_WIDTHS[0] / 2, _WIDTHS[0] / 2
    damper = copy.add_tendon(name=f'{joint}_servo_kv')
    damper.wrap_joint(joint, 1.0)
    damper.damping[0] = kv
    extra = Extra(f'tendon/{joint}_servo/deadband', _WIDTHS, (1e-5, _WIDEST))
    renamed = {
        f'actuator/{name}/kp': f'tendon/{joint}_servo/stiffness',
        f'actuator/{name}/kv': f'tendon/{joint}_servo_kv/damping',
    }
    return Variant(Lack.DEAD_BAND, joint, '', copy, (extra,), renamed, starts_with=joint, late=name)


def started(variant: Variant, model: mujoco.MjModel, run: Trajectory) -> Trajectory:
    """Return a run whose start holds the joint that is new, too, with commands for the variant.

    What answers a step late is told a step early, lest a delay that the robot has be taken for
    what the variant has.

    Args:
        variant: What was made of the model.
        model: The model, compiled.
        run: Of the model.
    """
    if not variant.starts_with:
        return run
    like = model.joint(variant.starts_with)
    commands: list[TimeSeries] = []
    for series in run.commands:
        others = [name for name in series.names if name != variant.late]
        if len(others) == len(series.names):
            commands.append(series)
            continue
        early = series.slice_by_name([variant.late])
        commands.append(dataclasses.replace(early, times=early.times - model.opt.timestep))
        if others:
            commands.append(series.slice_by_name(others))
    return dataclasses.replace(
        run,
        commands=tuple(commands),
        initial_qpos=np.append(run.initial_qpos, run.initial_qpos[like.qposadr[0]]),
        initial_qvel=np.append(run.initial_qvel, run.initial_qvel[like.dofadr[0]]),
    )


def moved(
    variant: Variant,
    model: mujoco.MjModel,
    made: mujoco.MjModel,
    unknowns: Sequence[Unknown],
    values: Sequence[float],
) -> tuple[Unknown, ...]:
    """Return the unknowns of a model as they are in a variant, starting at some values.

    Args:
        variant: What was made of the model.
        model: The model, compiled.
        made: The variant, compiled.
        unknowns: Of the model.
        values: Of each.
    """
    also = {}
    if variant.starts_with:
        like = model.joint(variant.starts_with)
        also = {
            ('initial_qpos', int(like.qposadr[0])): model.nq,
            ('initial_qvel', int(like.dofadr[0])): model.nv,
        }
    found = []
    for unknown, value in zip(unknowns, values, strict=True):
        targets: list[Target] = []
        for target in unknown.targets:
            place = also.get((target.attribute, target.index or 0))
            if target.role is Role.SEQUENCE:
                new = () if place is None else (dataclasses.replace(target, index=place),)
                targets.extend((target, *new))
                continue
            path, bracket, index = target.path.partition('[')
            path = variant.renamed.get(path, path)
            targets.extend(resolve(f'{path}{bracket}{index}', made, (), variant.spec))
        low, high = unknown.min_value, unknown.max_value
        if any(target.path == f'joint/{variant.rotor}/armature' for target in targets):
            # The inertia may have been taken for the link's, and nothing can turn a rotor without.
            low = min(max(low, _LEAST_ROTOR), 0.5 * (low + high))
        inside = min(max(float(value), low), high)
        found.append(dataclasses.replace(unknown, targets=tuple(targets), nominal=inside))
    return tuple(found)


def as_stiff(
    variant: Variant, unknowns: Sequence[Unknown], values: NDArray[np.float64], first: float
) -> NDArray[np.float64]:
    """Return the values of a model with which a variant is as stiff as it, under forces at rest.

    Args:
        variant: What was made of the model.
        unknowns: Of the model.
        values: (k,) of each.
        first: What the first of the variant's own starts with.
    """
    found = values.copy()
    for place, unknown in enumerate(unknowns):
        if variant.in_series and [each.path for each in unknown.targets] == [variant.in_series]:
            alone = values[place]
            stiffer = alone / max(1.0 - alone / first, _LEAST_SHARE)
            found[place] = min(stiffer, unknown.max_value)
    return found


def extra_unknowns(variant: Variant, made: mujoco.MjModel, first: float) -> tuple[Unknown, ...]:
    """Return the unknowns that a variant has beside the model's.

    Args:
        variant: What was made of the model.
        made: The same, compiled.
        first: Where the first of them starts.
    """
    found: list[Unknown] = []
    for place, extra in enumerate(variant.extras):
        low, high = extra.bounds
        start = min(max(first if place == 0 else extra.tries[0], low), high)
        found.extend(
            make_unknowns(
                extra.target,
                made,
                initial=start,
                bounds=extra.bounds,
                scale='log' if extra.log else 'linear',
            )
        )
    return tuple(found)

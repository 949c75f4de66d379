# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Sensors and actuators that a model does not have and its robot does: they are implied.

Nothing of it is in the user's file. A model that is written has the implied actuators, as it would
not move as the fit did without them, and none of the implied sensors, by which nothing moves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from xml.sax.saxutils import quoteattr

import mujoco
import numpy as np

from sysid_ros.errors import ModelError, listed
from sysid_ros.model.joints import SCALAR_JOINTS
from sysid_ros.text import one_sentence

#: Which sensors measure a joint, directly or through its actuator.
_OF_JOINTS = frozenset(
    {
        mujoco.mjtSensor.mjSENS_JOINTPOS,
        mujoco.mjtSensor.mjSENS_JOINTVEL,
        mujoco.mjtSensor.mjSENS_JOINTACTFRC,
        mujoco.mjtSensor.mjSENS_ACTUATORPOS,
        mujoco.mjtSensor.mjSENS_ACTUATORVEL,
        mujoco.mjtSensor.mjSENS_ACTUATORFRC,
    }
)
#: What is implied for each joint: the end of the sensor's name, and its type.
_IMPLIED = {
    'position': mujoco.mjtSensor.mjSENS_JOINTPOS,
    'velocity': mujoco.mjtSensor.mjSENS_JOINTVEL,
    'effort': mujoco.mjtSensor.mjSENS_JOINTACTFRC,
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
    """Give a model whose joints no sensor measures the sensors ``<joint>_position`` and so on.

    Models of robots come without sensors more often than not: simulators read positions from the
    state. A model with any sensor of a joint is left as it is: its author chose.
    """
    if any(sensor.type in _OF_JOINTS for sensor in spec.sensors):
        return
    taken = {sensor.name for sensor in spec.sensors}
    for joint in spec.joints:
        if not joint.name or joint.type not in SCALAR_JOINTS:
            continue
        for end, kind in _IMPLIED.items():
            name = f'{joint.name}_{end}'
            if name not in taken:
                spec.add_sensor(
                    name=name,
                    type=kind,
                    objtype=mujoco.mjtObj.mjOBJ_JOINT,
                    objname=joint.name,
                    info=_MARK,
                )


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
    """Whether all that drives a model of its own are motors, which do nothing unless they are told.

    Servos may then stand in for what commands motors in the robot.
    """
    own = (actuator for actuator in spec.actuators if actuator.info != _MARK)
    return all(actuator.biastype == mujoco.mjtBias.mjBIAS_NONE for actuator in own)


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

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""MJCF of the arms of the benchmarks, and what writes a target's value into a spec."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import ArrayLike

from sysid_ros.model.inertia import body_from_theta

JOINTS = ('shoulder', 'elbow')
#: What sensors of joints are called, to what they are.
STATES = {'position': 'jointpos', 'velocity': 'jointvel'}


class Link(NamedTuple):
    """A link of a chain: attributes of its body and its joint, and its shapes or inertia."""

    body: str
    joint: str
    shape: str


def chain(
    links: Sequence[Link],
    actuators: str = '',
    sensors: str = '',
    *,
    timestep: float = 0.002,
    more: str = '',
) -> str:
    """Return the MJCF of links, each fixed to the one before by one joint.

    Args:
        links: From the base.
        actuators: Elements.
        sensors: Elements.
        timestep: s.
        more: Further sections.
    """
    inside = ''
    for link in reversed(links):
        inside = f'<body {link.body}><joint {link.joint}/>{link.shape}{inside}</body>'
    return (
        f'<mujoco><compiler angle="radian" autolimits="true"/>{more}'
        f'<option timestep="{timestep}" integrator="implicitfast"/>'
        f'<worldbody>{inside}</worldbody>'
        f'<actuator>{actuators}</actuator><sensor>{sensors}</sensor></mujoco>'
    )


def joint_sensors(joints: Sequence[str], kinds: Mapping[str, str] = STATES) -> str:
    """Return sensors ``{kind}_{joint}`` of all joints, one kind after the other."""
    return ''.join(
        f'<{element} name="{kind}_{joint}" joint="{joint}"/>'
        for kind, element in kinds.items()
        for joint in joints
    )


def capsule(length: float, size: float, mass: float) -> str:
    """Return a link along x."""
    return f'<geom type="capsule" fromto="0 0 0 {length} 0 0" size="{size}" mass="{mass}"/>'


def two_joints(*, tool: bool = False) -> str:
    """Return an arm of two joints with position servos, and maybe a tool of .5 kg."""
    end = '<body name="tool" pos=".3 0 0"><geom size=".03" mass=".5"/></body>' if tool else ''
    links = (
        Link(
            'pos="0 0 1"',
            'name="shoulder" axis="0 1 0" armature=".05" damping="1.0" frictionloss=".3"',
            capsule(0.4, 0.03, 1.6),
        ),
        Link(
            'pos=".4 0 0"',
            'name="elbow" axis="0 1 0" armature=".02" damping=".4" frictionloss=".15"',
            capsule(0.3, 0.025, 0.8) + end,
        ),
    )
    servos = (
        '<position name="drive_shoulder" joint="shoulder" kp="120"/>'
        '<position name="drive_elbow" joint="elbow" kp="50"/>'
    )
    sensors = joint_sensors(JOINTS)
    return chain(links, servos, sensors, timestep=0.005)


def write(spec: mujoco.MjSpec, target: str, value: ArrayLike) -> None:
    """Write the value of a target, such as ``joint/elbow/damping``, into a spec."""
    kind, name, attribute = target.split('/')
    element = getattr(spec, kind)(name)
    values = np.atleast_1d(value)
    field, _, index = attribute.rstrip(']').partition('[')
    if attribute == 'inertia':
        own = body_from_theta(values)
        element.explicitinertial = True
        element.mass, element.ipos, element.iquat = own.mass, own.ipos, own.iquat
        element.inertia, element.fullinertia = own.inertia, np.full(6, np.nan)
    elif attribute == 'kp':
        element.gainprm[0], element.biasprm[1] = values[0], -values[0]
    elif attribute in {'damping', 'stiffness'}:  # polynomials since MuJoCo 3.7
        getattr(element, attribute)[0] = values[0]
    elif index:
        getattr(element, field)[int(index)] = values[0]
    else:
        setattr(element, attribute, values[0])


def in_wheel(package: str, path: str) -> Path:
    """Return an MJCF in robosuite or mjlab, neither of which is imported."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        sys.exit('pip install --no-deps robosuite mjlab')
    return Path(found.origin).parent / path


def add_servos(
    spec: mujoco.MjSpec, joints: Sequence[str], kp: Sequence[float], kv: Sequence[float]
) -> None:
    """Replace all actuators of a spec by a position servo for each of some joints."""
    for actuator in list(spec.actuators):
        spec.delete(actuator)
    for joint, stiffness, damping in zip(joints, kp, kv, strict=True):
        actuator = spec.add_actuator(
            name=f'{joint}_servo', target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT
        )
        actuator.set_to_position(kp=stiffness, kv=damping)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The two-joint arm with something that its model lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from cases import noisy
from sysid_ros.estimation.terms import TermKind

Array = NDArray[np.float64]


class Plant(NamedTuple):
    """What a robot does that its model does not.

    Attributes:
        title: For people.
        lack: What names it; None for nothing.
        mjcf: Of the robot.
        change: Of the compiled robot.
        force: From velocities to further forces of the two joints.
        late: s by which commands act later.
        drift: s per s by which the clock that stamps states runs fast.
        joints: Of the encoders.
    """

    title: str
    lack: TermKind | None
    mjcf: str = noisy.ARM
    change: Callable[[mujoco.MjModel], object] = lambda _: None
    force: Callable[[Array], Array] = np.zeros_like
    late: float = 0.0
    drift: float = 0.0


def _between(attributes: str) -> str:
    """Return the arm with a second joint behind each encoder."""
    mjcf = noisy.ARM
    for joint in ('shoulder', 'elbow'):
        line = next(each for each in mjcf.splitlines() if f'<joint name="{joint}"' in each)
        body = (
            f'<inertial pos="0 0 0" mass=".01" diaginertia="1e-5 1e-5 1e-5"/>\n'
            f'<body><joint name="{joint}_link" axis="0 1 0" {attributes}/>'
        )
        mjcf = mjcf.replace(line, f'{line}\n{body}')
    return mjcf.replace('</worldbody>', '</body></body></worldbody>')


def _scaled(field: str, row: int, factor: float) -> Callable[[mujoco.MjModel], object]:
    def change(model: mujoco.MjModel) -> None:
        getattr(model, field)[row] *= factor

    return change


def _gain(model: mujoco.MjModel) -> None:
    model.actuator_gainprm[0, 0] *= 1.1
    model.actuator_biasprm[0, 1] *= 1.1


def _tilt(model: mujoco.MjModel) -> None:
    angle = np.radians(3.0)
    model.opt.gravity[:] = 9.81 * np.array([np.sin(angle), 0.0, -np.cos(angle)])


def _stribeck(speed: Array) -> Array:
    extra = np.array([0.4, 0.15])
    return np.asarray(-extra * np.tanh(speed / 0.02) * np.exp(-((speed / 0.1) ** 2)))


def _asymmetric(speed: Array) -> Array:
    # More by so much one way, and less by as much the other.
    return np.asarray(np.zeros_like(speed) - [0.15, 0.0])


PLANTS = {
    'clean': Plant('nothing', None),
    'stribeck': Plant('Stribeck friction', TermKind.STRIBECK, force=_stribeck),
    'asymmetric': Plant('asymmetric friction', TermKind.ASYMMETRY, force=_asymmetric),
    'backlash': Plant(
        'backlash of .6 degrees',
        TermKind.BACKLASH,
        _between('limited="true" range="-.3 .3" solreflimit=".01 1" damping=".02"'),
    ),
    'payload': Plant('forearm 30 % heavier', TermKind.PAYLOAD, change=_scaled('body_mass', 2, 1.3)),
    'gain': Plant('gain of the shoulder 10 % higher', TermKind.GAIN, change=_gain),
    'elastic': Plant(
        'elastic joints', TermKind.ELASTICITY, _between('stiffness="600" damping="1"')
    ),
    'delay': Plant('commands 8 ms later', TermKind.DELAY, late=0.008),
    'drift': Plant('states stamped 500 ppm fast', TermKind.DRIFT, drift=500e-6),
    'tilt': Plant('gravity tilted by 3 degrees', TermKind.TILT, change=_tilt),
}


def happen(plant: Plant, moved: noisy.Motion) -> noisy.Clean:
    """Simulate a robot, from rest one second before the recording."""
    true = mujoco.MjModel.from_xml_string(plant.mjcf)
    for target, value in noisy.TRUTH.items():
        kind, name, attribute = target.split('/')
        if kind == 'joint':
            field = {'damping': 'dof_damping', 'armature': 'dof_armature'}
            dof = int(true.joint(name).dofadr[0])
            getattr(true, field.get(attribute, 'dof_frictionloss'))[dof] = value
        else:
            body = true.body(name).id
            true.body_inertia[body] *= value / true.body_mass[body]
            true.body_mass[body] = value
    plant.change(true)
    data = mujoco.MjData(true)
    mujoco.mj_setConst(true, data)
    dofs = np.array([true.joint(name).dofadr[0] for name in ('shoulder', 'elbow')])
    steps = round((noisy.LEAD + noisy.DURATION) / true.opt.timestep) + 1
    every = round(1 / noisy.RATE / true.opt.timestep)
    edges = np.arange(steps + 1) * true.opt.timestep - noisy.LEAD - plant.late
    rows = np.empty((steps, 4))
    # What is commanded during a step is the mean over it, as a delay need not be whole steps.
    fine = np.linspace(edges[:-1], edges[1:], 21)[:-1] + (edges[1] - edges[0]) / 40
    held = np.clip(np.searchsorted(moved.times, fine, side='right') - 1, 0, None)
    controls = moved.commands[held].mean(axis=0)
    for step in range(steps):
        speed = data.qvel[dofs]
        rows[step, :2], rows[step, 2:] = data.qpos[dofs], speed
        data.ctrl[:] = controls[step]
        data.qfrc_applied[dofs] = plant.force(speed)
        mujoco.mj_step(true, data)
    times = np.arange(0, steps, every) * true.opt.timestep - noisy.LEAD
    return noisy.Clean(moved, times * (1 + plant.drift), rows[::every])

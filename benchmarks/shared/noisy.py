# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A two-joint arm recorded again and again, with noise of kinds that robots have.

Recordings begin in the middle of a motion, and the state there is estimated from the noisy samples
around, as it is for bags: it is off, and the error goes on into the prediction. The robot may do
what its model does not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import mujoco
import numpy as np
from shared.arms import JOINTS, two_joints, write
from shared.common import Floats, measuring, names_of, simulated, trajectory

from sysid_ros.alignment.segments import initial_state
from sysid_ros.fit.terms import TermKind
from sysid_ros.model.targets import Unknown, make_unknowns
from sysid_ros.signals import TimeSeries, Trajectory

ARM = two_joints(tool=True)
#: Seconds before the recording begins, and of the recording; samples and commands per second.
LEAD, DURATION, RATE, COMMAND_RATE = 1.0, 5.0, 100.0, 50.0
#: Unknown target to what it is in truth.
TRUTH = {
    'joint/shoulder/armature': 0.07,
    'joint/elbow/armature': 0.028,
    'joint/shoulder/damping': 1.3,
    'joint/elbow/damping': 0.5,
    'joint/shoulder/frictionloss': 0.45,
    'joint/elbow/frictionloss': 0.2,
    'body/tool/mass': 0.6,
}
#: Standard deviation of the noise of positions and velocities, rad and rad/s.
NOISE = np.repeat([1e-3, 2e-2], 2)


class Clean(NamedTuple):
    """(m,) times and (m, 2) commands; (n,) stamps and (n, 4) positions and velocities then.

    Times are in s, 0 where the recording begins; the rest is in rad and rad/s.
    """

    told_at: Floats
    told: Floats
    times: Floats
    values: Floats


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
    """

    title: str
    lack: TermKind | None
    mjcf: str = ARM
    change: Callable[[mujoco.MjModel], object] = lambda _: None
    force: Callable[[Floats], Floats] = np.zeros_like
    late: float = 0.0
    drift: float = 0.0


def _between(attributes: str) -> str:
    """Return the arm with a second joint behind each encoder."""
    mjcf = ARM
    for joint in JOINTS:
        first = f'<body><joint name="{joint}_link" axis="0 1 0" {attributes}/>'
        inertial = '<inertial pos="0 0 0" mass=".01" diaginertia="1e-5 1e-5 1e-5"/>'
        start = mjcf.index(f'<joint name="{joint}"')
        end = mjcf.index('/>', start) + 2
        mjcf = f'{mjcf[:end]}{inertial}{first}{mjcf[end:]}'
    return mjcf.replace('</worldbody>', '</body></body></worldbody>')


def _heavier(model: mujoco.MjModel) -> None:
    model.body_mass[2] *= 1.3


def _gain(model: mujoco.MjModel) -> None:
    model.actuator_gainprm[0, 0] *= 1.1
    model.actuator_biasprm[0, 1] *= 1.1


def _tilt(model: mujoco.MjModel) -> None:
    angle = np.radians(3.0)
    model.opt.gravity[:] = 9.81 * np.array([np.sin(angle), 0.0, -np.cos(angle)])


def _stribeck(speed: Floats) -> Floats:
    extra = np.array([0.4, 0.15])
    return np.asarray(-extra * np.tanh(speed / 0.02) * np.exp(-((speed / 0.1) ** 2)))


def _asymmetric(speed: Floats) -> Floats:
    # More by so much one way, and less by as much the other.
    return np.asarray(np.zeros_like(speed) - [0.15, 0.0])


PLANTS = {
    'clean': Plant('nothing', None),
    'stribeck': Plant('Stribeck friction', TermKind.STRIBECK, force=_stribeck),
    'asymmetric': Plant('asymmetric friction', TermKind.ASYMMETRY, force=_asymmetric),
    'backlash': Plant(
        'backlash of .6 degrees',
        TermKind.BACKLASH,
        _between(
            f'limited="true" range="{-np.radians(0.3)} {np.radians(0.3)}" solreflimit=".01 1" '
            'damping=".02"'
        ),
    ),
    'payload': Plant('forearm 30 % heavier', TermKind.PAYLOAD, change=_heavier),
    'gain': Plant('gain of the shoulder 10 % higher', TermKind.GAIN, change=_gain),
    'elastic': Plant(
        'elastic joints', TermKind.ELASTICITY, _between('stiffness="600" damping="1"')
    ),
    'delay': Plant('commands 8 ms later', TermKind.DELAY, late=0.008),
    'drift': Plant('states stamped 500 ppm fast', TermKind.DRIFT, drift=500e-6),
    'tilt': Plant('gravity tilted by 3 degrees', TermKind.TILT, change=_tilt),
}


@functools.cache
def model() -> mujoco.MjModel:
    """Return the nominal model."""
    return mujoco.MjModel.from_xml_string(ARM)


def unknowns() -> tuple[Unknown, ...]:
    """Return what is identified, from a start that is off by 10 %."""
    return tuple(
        unknown
        for target, value in TRUTH.items()
        for unknown in make_unknowns(target, model(), initial=1.1 * value)
    )


def motion(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return (m,) times and (m, 2) commands: random sines within ±0.8 rad."""
    told_at = np.arange(-LEAD, DURATION + 1 / COMMAND_RATE, 1 / COMMAND_RATE)
    told = np.zeros((len(told_at), 2))
    for joint in range(2):
        for frequency in rng.uniform(0.15, 1.4, 4):
            size, turns = rng.uniform(0.1, 0.3), 2 * np.pi * frequency * told_at
            told[:, joint] += size * np.sin(turns + rng.uniform(0, 2 * np.pi))
    return told_at, told


def as_modelled(rng: np.random.Generator) -> Clean:
    """Predict what a robot does that is as its model, from rest a second before 0."""
    told_at, told = motion(rng)
    times = np.arange(round((LEAD + DURATION) * RATE) + 1) / RATE
    own = trajectory(model(), times, commands=(told_at + LEAD, told))
    values = simulated(model(), own, unknowns(), list(TRUTH.values()))
    return Clean(told_at, told, times - LEAD, values)


def happen(plant: Plant, rng: np.random.Generator) -> Clean:
    """Simulate a robot, from rest a second before 0."""
    told_at, told = motion(rng)
    spec = mujoco.MjSpec.from_string(plant.mjcf)
    for target, value in TRUTH.items():
        if target != 'body/tool/mass':
            write(spec, target, value)
    true = spec.compile()
    tool = true.body('tool').id
    true.body_inertia[tool] *= TRUTH['body/tool/mass'] / true.body_mass[tool]
    true.body_mass[tool] = TRUTH['body/tool/mass']
    plant.change(true)
    data = mujoco.MjData(true)
    mujoco.mj_setConst(true, data)
    dofs = np.array([true.joint(name).dofadr[0] for name in JOINTS])
    step = true.opt.timestep
    count, every = round((LEAD + DURATION) / step) + 1, round(1 / RATE / step)
    edges = np.arange(count + 1) * step - LEAD - plant.late
    # What is commanded during a step is the mean over it, as a delay need not be whole steps.
    fine = np.linspace(edges[:-1], edges[1:], 21)[:-1] + step / 40
    held = np.clip(np.searchsorted(told_at, fine, side='right') - 1, 0, None)
    controls = told[held].mean(axis=0)
    rows = np.empty((count, 4))
    for row in range(count):
        speed = data.qvel[dofs]
        rows[row, :2], rows[row, 2:] = data.qpos[dofs], speed
        data.ctrl[:] = controls[row]
        data.qfrc_applied[dofs] = plant.force(speed)
        mujoco.mj_step(true, data)
    times = np.arange(0, count, every) * step - LEAD
    return Clean(told_at, told, times * (1 + plant.drift), rows[::every])


def record(clean: Clean, values: Floats, name: str, *, velocities: bool = True) -> Trajectory:
    """Return a recording of what happened, from an estimated state.

    Args:
        clean: What happened.
        values: (n, 4) what was measured.
        name: Of the sequence.
        velocities: Whether velocities are measured.
    """
    names = names_of(model(), 'sensor')[: 4 if velocities else 2]
    measured = values[:, : len(names)]
    start = initial_state(model(), [TimeSeries.from_columns(clean.times, measured, names)])
    own = trajectory(
        model(),
        clean.times,
        commands=(clean.told_at, clean.told),
        start=(start.qpos, start.qvel),
        name=name,
    )
    kept = clean.times >= -1e-9  # noqa: PLR2004 (s, of rounding)
    return measuring(model(), own, np.maximum(clean.times[kept], 0.0), measured[kept], names)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Recordings of two real robots as sequences: a servo on a pendulum, a quadruped in the air.

The data are not part of the project. ``servo_sysid`` is github mauicv/servo-sysid (BSD-3-Clause),
``go2_iit`` is github iit-DLSLab/sim2real-robot-identification (BSD-3-Clause), its recording as npz.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.model.loading import compile_spec
from sysid_ros.model.unknown import Unknown, make_unknowns
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.signals.trajectory import Trajectory

#: Positions of the servo's log are in half turns.
_HALF_TURN = np.pi
#: The chirp of the quadruped is cut into so many pieces.
_PIECES = 8
#: Gain of the quadruped's position loop in the nominal model, N·m/rad.
_GAIN = 25.0


class Robot(NamedTuple):
    """A robot with its recordings.

    Attributes:
        spec: The nominal model.
        model: The same, compiled.
        unknowns: What is identified.
        families: Name of what is held out together to its sequences.
    """

    spec: mujoco.MjSpec
    model: mujoco.MjModel
    unknowns: tuple[Unknown, ...]
    families: Mapping[str, tuple[Trajectory, ...]]


def servo(folder: Path) -> Robot:
    """Return the servo pendulum: 96 runs of six kinds of motion, at 50 Hz."""
    path = folder / 'desc' / 'robot.xml'
    spec = mujoco.MjSpec.from_file(str(path))
    model = compile_spec(spec, path)
    log = json.loads((folder / 'dataset' / 'response.json').read_text())
    period = 1.0 / log['config']['action_hz']
    families: dict[str, list[Trajectory]] = {}
    for number, run in enumerate(log['data']):
        commands = _HALF_TURN * np.array(run['actions'])
        measured = _HALF_TURN * np.array(run['sensor_data'])
        times = period * np.arange(len(commands))
        sequence = Trajectory(
            f'{run["type"]}_{number}',
            0,
            measured[:1],
            np.zeros(1),
            (TimeSeries(times, commands, {'servo': (SignalType.MjCtrl, np.array([0]))}),),
            (TimeSeries(times, measured, {'servo-pos': (SignalType.MjSensor, np.array([0]))}),),
            # Every run starts at rest: the filter holds where the arm is.
            initial_act=measured[:1],
        )
        families.setdefault(run['type'], []).append(sequence)
    return Robot(
        spec,
        model,
        (
            *make_unknowns('joint/servo/armature', model, bounds=(0.0, 0.5)),
            *make_unknowns('joint/servo/damping', model, bounds=(0.0, 5.0)),
            *make_unknowns('joint/servo/frictionloss', model, bounds=(0.0, 1.0)),
            *make_unknowns('actuator/servo/kp', model, bounds=(1.0, 300.0)),
            *make_unknowns('actuator/servo/kv', model, bounds=(0.0, 20.0)),
            *make_unknowns('actuator/servo/dynprm[0]', model, bounds=(1e-3, 0.5)),
            *make_unknowns('actuator/servo/delay', model, bounds=(0.0, 0.1)),
        ),
        {name: tuple(runs) for name, runs in families.items()},
    )


def quadruped(folder: Path) -> Robot:
    """Return the quadruped: one chirp of 23 s at 200 Hz on twelve joints, cut into pieces."""
    # Hangs in the air: the trunk does not move, and nothing is touched. Meshes are not included.
    text = (folder / 'go2.xml').read_text()
    text = re.sub(r'<freejoint/>', '', text)
    text = re.sub(r'<mesh [^>]*/>|<geom [^>]*mesh=[^>]*/>', '', text)
    text = re.sub(r'<(keyframe|sensor)>.*?</\1>', '', text, flags=re.DOTALL)
    spec = mujoco.MjSpec.from_string(text)
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    for actuator in spec.actuators:
        actuator.set_to_position(kp=_GAIN)
        actuator.ctrllimited = 0
        sensor = spec.add_sensor()
        sensor.name = actuator.name
        sensor.type = mujoco.mjtSensor.mjSENS_JOINTPOS
        sensor.objtype = mujoco.mjtObj.mjOBJ_JOINT
        sensor.objname = actuator.target
    spec.option.timestep = 0.0025
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model = spec.compile()
    log = np.load(folder / 'traj_0.npz')
    times = np.asarray(log['time'], dtype=np.float64)
    names = [model.actuator(i).name for i in range(model.nu)]
    pieces = np.array_split(np.arange(len(times)), _PIECES)
    families = {
        f'piece {number + 1}': (_piece(log, times, rows, names, model, number),)
        for number, rows in enumerate(pieces)
    }
    unknowns = [
        unknown
        for pattern, bounds in (
            ('joint/*/armature', (0.0, 0.2)),
            ('joint/*/damping', (0.0, 10.0)),
            ('joint/*/frictionloss', (0.0, 5.0)),
            ('actuator/*/kp', (5.0, 100.0)),
        )
        for unknown in make_unknowns(pattern, model, bounds=bounds)
    ]
    delay = make_unknowns('actuator/*/delay', model, name='delay', shared=True, bounds=(0.0, 0.05))
    return Robot(spec, model, (*unknowns, *delay), families)


def _piece(
    log: dict[str, NDArray[np.float32]],
    times: NDArray[np.float64],
    rows: NDArray[np.int64],
    names: list[str],
    model: mujoco.MjModel,
    number: int,
) -> Trajectory:
    positions = np.asarray(log['dof_pos'], dtype=np.float64)
    commands = np.asarray(log['des_dof_pos'], dtype=np.float64)
    velocities = np.gradient(positions, times, axis=0)
    first = rows[0]
    start = times[first]
    qpos, qvel = np.zeros(model.nq), np.zeros(model.nv)
    for column, name in enumerate(names):
        joint = model.actuator(name).trnid[0]
        near = slice(max(first - 2, 0), first + 3)
        qpos[model.jnt_qposadr[joint]] = positions[first, column]
        qvel[model.jnt_dofadr[joint]] = velocities[near, column].mean()
    # Commands from before the start are known, which delays need.
    told = np.arange(max(first - 40, 0), rows[-1] + 1)
    return Trajectory(
        f'piece_{number + 1}',
        0,
        qpos,
        qvel,
        (
            TimeSeries(
                times[told] - start,
                commands[told],
                {name: (SignalType.MjCtrl, np.array([i])) for i, name in enumerate(names)},
            ),
        ),
        (
            TimeSeries(
                times[rows] - start,
                positions[rows],
                {name: (SignalType.MjSensor, np.array([i])) for i, name in enumerate(names)},
            ),
        ),
    )

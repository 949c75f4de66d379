# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A two-joint arm recorded again and again, with noise of kinds that robots have.

Recordings begin in the middle of a motion, and the state there is estimated from the noisy samples
around, as it is for bags: it is off, and the error goes on into the prediction.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.segments import initial_state
from sysid_ros.model.targets import write_value
from sysid_ros.model.unknown import Unknown, make_unknowns
from sysid_ros.rollout.prediction import predict
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.signals.trajectory import Trajectory

ARM = """
<mujoco>
  <option timestep="0.005" integrator="implicitfast"/>
  <worldbody>
    <body pos="0 0 1">
      <joint name="shoulder" axis="0 1 0" armature=".05" damping="1.0" frictionloss=".3"/>
      <geom type="capsule" fromto="0 0 0 .4 0 0" size=".03" mass="1.6"/>
      <body pos=".4 0 0">
        <joint name="elbow" axis="0 1 0" armature=".02" damping=".4" frictionloss=".15"/>
        <geom type="capsule" fromto="0 0 0 .3 0 0" size=".025" mass=".8"/>
        <body name="tool" pos=".3 0 0"><geom size=".03" mass=".5"/></body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="drive_shoulder" joint="shoulder" kp="120"/>
    <position name="drive_elbow" joint="elbow" kp="50"/>
  </actuator>
  <sensor>
    <jointpos name="position_shoulder" joint="shoulder"/>
    <jointpos name="position_elbow" joint="elbow"/>
    <jointvel name="velocity_shoulder" joint="shoulder"/>
    <jointvel name="velocity_elbow" joint="elbow"/>
  </sensor>
</mujoco>
"""
POSITIONS = ('position_shoulder', 'position_elbow')
VELOCITIES = ('velocity_shoulder', 'velocity_elbow')
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
#: Of stamps, s.
_ROUNDING = 1e-9
#: Unmodelled friction: N·m beyond the Coulomb friction at rest, and the speed where it fades.
_STRIBECK, _STRIBECK_SPEED = (0.4, 0.15), 0.1


class Motion(NamedTuple):
    """Commands on a grid: (n,) times in s, 0 where the recording begins, and (n, 2) in rad."""

    times: NDArray[np.float64]
    commands: NDArray[np.float64]


class Clean(NamedTuple):
    """What happened: (n,) stamps in s, and (n, 4) positions and velocities then."""

    motion: Motion
    times: NDArray[np.float64]
    values: NDArray[np.float64]


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


def truth() -> NDArray[np.float64]:
    """Return the (p,) true values."""
    return np.array(list(TRUTH.values()))


def motion(rng: np.random.Generator) -> Motion:
    """Return sines of random frequencies and phases, within ±0.8 rad."""
    times = np.arange(-LEAD, DURATION + 1 / COMMAND_RATE, 1 / COMMAND_RATE)
    commands = np.zeros((len(times), 2))
    for joint in range(2):
        for frequency in rng.uniform(0.15, 1.4, 4):
            size = rng.uniform(0.1, 0.3)
            commands[:, joint] += size * np.sin(
                2 * np.pi * frequency * times + rng.uniform(0, 2 * np.pi)
            )
    return Motion(times, commands)


def _sequence(
    name: str, commands: TimeSeries, measured: TimeSeries, qpos: object, qvel: object
) -> Trajectory:
    return Trajectory(name, 0, np.asarray(qpos), np.asarray(qvel), (commands,), (measured,))


def _told(moved: Motion, shift: float = 0.0) -> TimeSeries:
    mapping = {
        name: (SignalType.MjCtrl, np.array([column]))
        for column, name in enumerate(('drive_shoulder', 'drive_elbow'))
    }
    return TimeSeries(moved.times + shift, moved.commands, mapping)


def happen(moved: Motion) -> Clean:
    """Simulate the truth, from rest one second before the recording."""
    count = round((LEAD + DURATION) * RATE) + 1
    times = np.arange(count) / RATE
    names = (*POSITIONS, *VELOCITIES)
    mapping = {name: (SignalType.MjSensor, np.array([i])) for i, name in enumerate(names)}
    asked = TimeSeries(times, np.zeros((count, len(names))), mapping)
    run = _sequence('truth', _told(moved, LEAD), asked, np.zeros(2), np.zeros(2))
    found = predict(model(), [run], unknowns(), truth(), threads=1)
    return Clean(moved, times - LEAD, found[0].channels[0][0])


def happen_with_stribeck(moved: Motion) -> Clean:
    """Simulate a truth with friction that no parameter describes."""
    true = mujoco.MjModel.from_xml_string(ARM)
    for unknown, value in zip(unknowns(), truth(), strict=True):
        for target in unknown.targets:
            write_value(true, target, float(value))
    mujoco.mj_setConst(true, mujoco.MjData(true))
    data = mujoco.MjData(true)
    steps = round((LEAD + DURATION) / true.opt.timestep) + 1
    every = round(1 / RATE / true.opt.timestep)
    held = np.searchsorted(
        moved.times, np.arange(steps) * true.opt.timestep - LEAD + 1e-9, side='right'
    )
    rows = np.empty((steps, 4))
    extra = np.array(_STRIBECK)
    for step in range(steps):
        rows[step, :2], rows[step, 2:] = data.qpos, data.qvel
        speed = data.qvel
        data.ctrl[:] = moved.commands[max(held[step] - 1, 0)]
        data.qfrc_applied[:] = (
            -extra * np.tanh(speed / 0.02) * np.exp(-((speed / _STRIBECK_SPEED) ** 2))
        )
        mujoco.mj_step(true, data)
    times = np.arange(0, steps, every) * true.opt.timestep - LEAD
    return Clean(moved, times, rows[::every])


def record(
    clean: Clean,
    spoil: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    name: str,
    *,
    velocities: bool = True,
) -> Trajectory:
    """Return a recording of what happened, from an estimated state.

    Args:
        clean: What happened.
        spoil: From the (n, 4) clean samples to the measured ones.
        name: Of the sequence.
        velocities: Whether velocities are measured.
    """
    names = (*POSITIONS, *VELOCITIES) if velocities else POSITIONS
    measured = spoil(clean.values)[:, : len(names)]
    mapping = {sensor: (SignalType.MjSensor, np.array([k])) for k, sensor in enumerate(names)}
    start = initial_state(model(), [TimeSeries(clean.times, measured, mapping)])
    kept = clean.times >= -_ROUNDING
    series = TimeSeries(np.maximum(clean.times[kept], 0.0), measured[kept], mapping)
    return _sequence(name, _told(clean.motion), series, start.qpos, start.qvel)

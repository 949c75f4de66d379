# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""An arm of two stiff servos that integrates finely, read and commanded by a synchronous driver."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np

from sysid_ros.signals import SignalType, TimeSeries, Trajectory

#: s; a whole number of the arm's own steps.
DELAY = 0.01225
#: Of commands and states, s.
PERIOD = 0.01
KP = (300.0, 120.0)

_ARM = """<mujoco><compiler angle="radian"/>
<option timestep="{step:g}" integrator="implicitfast"/>
<worldbody><body><joint name="shoulder" axis="0 1 0" armature=".1" damping="2" frictionloss=".3"/>
<geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" mass="2" contype="0" conaffinity="0"/>
<body pos=".3 0 0"><joint name="elbow" axis="0 1 0" armature=".05" damping="1" frictionloss=".2"/>
<geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" mass="1" contype="0" conaffinity="0"/>
</body></body></worldbody>
<actuator><position name="shoulder" joint="shoulder" kp="300" kv="15"
forcerange="-{most:g} {most:g}"/>
<position name="elbow" joint="elbow" kp="120" kv="6"/></actuator>
<sensor>{sensors}</sensor></mujoco>"""
_KINDS = {'position': 'jointpos', 'velocity': 'jointvel', 'effort': 'jointactuatorfrc'}


def spec(step: float = 2e-3, most: float = 500.0) -> mujoco.MjSpec:
    """Return the arm with a time step, s, whose first motor is limited, N·m."""
    sensors = ''.join(
        f'<{kind} name="{joint}_{what}" joint="{joint}"/>'
        for joint in ('shoulder', 'elbow')
        for what, kind in _KINDS.items()
    )
    return mujoco.MjSpec.from_string(_ARM.format(step=step, most=most, sensors=sensors))


def recorded(
    seconds: float = 6.0,
    *,
    seed: int = 0,
    step: float = 2.5e-4,
    most: float = 500.0,
    noise: float = 1.0,
    delay: float = DELAY,
    interval: float = PERIOD,
) -> Trajectory:
    """Return what a driver records that reads states when it sends commands.

    Args:
        seconds: How long.
        seed: Of the motion and the noise.
        step: With which the arm integrates, s.
        most: Limit of the first motor, N·m.
        delay: From a command to when it acts, s.
        interval: Between states, s.
        noise: In units of 1e-4 rad, 2e-3 rad/s and 2e-2 N·m.
    """
    rng = np.random.default_rng(seed)
    model = spec(step, most).compile()
    data = mujoco.MjData(model)
    times = np.arange(0.0, seconds, PERIOD)
    ramp = np.clip(times, 0, 1)[:, None] ** 2
    phases = times[:, None, None] * rng.uniform(1, 9, (2, 4)) + rng.uniform(0, 6, (2, 4))
    commands = 0.15 * ramp * np.sin(phases).sum(axis=2)
    in_force = (
        np.searchsorted(times, np.arange(int(seconds / step)) * step - delay + 1e-9, 'right') - 1
    )
    every, rows, stamps = round(interval / step), [], []
    for row, index in enumerate(in_force):
        data.ctrl[:] = commands[max(index, 0)]
        mujoco.mj_forward(model, data)
        if row % every == 0:
            rows.append(data.sensordata.copy())
            stamps.append(row * step)
        mujoco.mj_step(model, data)
    names = [model.sensor(i).name for i in range(model.nsensor)]
    sigma = np.tile([1e-4, 2e-3, 2e-2], 2)
    measured = np.array(rows) + noise * sigma * rng.normal(size=(len(rows), 6))
    series = TimeSeries.from_columns(np.array(stamps), measured, names)
    joints = ('shoulder', 'elbow')
    control = TimeSeries.from_columns(times, commands, joints, SignalType.MjCtrl)
    return Trajectory(
        f'run {seed}', 0, np.zeros(2), np.zeros(2), (control,), (series,), sampled=True
    )


def unsampled(trajectory: Trajectory) -> Trajectory:
    """Return a recording whose forces are taken to be means over time steps."""
    return dataclasses.replace(trajectory, sampled=False)

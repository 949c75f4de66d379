# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A seven-joint arm of servos, with and without torque sensors, and a chaotic double pendulum."""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.model.unknown import Unknown, make_unknowns
from sysid_ros.rollout.prediction import predict
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.signals.trajectory import Trajectory

ARM_SECONDS = 6.0
ARM_RATE = 250.0
#: rad, rad/s and, as a share of the largest torque, N·m.
_POSITION_NOISE, _VELOCITY_NOISE, _TORQUE_NOISE = 2e-4, 5e-3, 0.01
_AXES = ('0 0 1', '0 1 0', '0 0 1', '0 -1 0', '0 0 1', '0 1 0', '0 0 1')
#: Size and masses of a 14 kg payload-class lightweight arm, m, kg and kg·m².
_LENGTHS = (0.16, 0.2, 0.2, 0.2, 0.2, 0.19, 0.08)
_MASSES = (4.0, 4.0, 3.0, 2.7, 1.7, 1.8, 0.3)
_INERTIAS = (0.03, 0.04, 0.03, 0.025, 0.02, 0.005, 0.001)
_KP = (2000.0, 2000.0, 1200.0, 1200.0, 500.0, 400.0, 150.0)
_KV = (90.0, 90.0, 50.0, 50.0, 18.0, 14.0, 4.0)
_FORCE = (300.0, 300.0, 180.0, 180.0, 110.0, 60.0, 40.0)
_HOME = np.array([0.0, 0.5, 0.0, -1.2, 0.0, 0.8, 0.0])
_ARMATURE = (0.5, 0.45, 0.3, 0.3, 0.15, 0.12, 0.05)
_DAMPING = (6.0, 8.0, 4.0, 4.0, 2.0, 1.5, 0.6)
_FRICTION = (4.0, 5.0, 3.0, 3.0, 1.5, 1.2, 0.5)
_PAYLOAD = 2.2
_ARM_BOUNDS = {'armature': (0.001, 1.5), 'damping': (0.0, 20.0), 'frictionloss': (0.0, 10.0)}
_PAYLOAD_BOUNDS = (0.05, 6.0)

PENDULUM_SECONDS = 10.0
PENDULUM_RATE = 100.0
_PENDULUM_NOISE = {'upper_position': 0.005, 'lower_position': 0.005}
_PENDULUM = {
    'body/lower/mass': (0.8, (0.2, 3.0)),
    'body/lower/ipos[2]': (-0.35, (-0.6, -0.1)),
    'joint/upper/damping': (0.02, (0.0, 0.2)),
    'joint/lower/damping': (0.01, (0.0, 0.2)),
}


class Example(NamedTuple):
    """What is to be identified from what: model, unknowns, true values and the recording.

    ``noise`` is that of the first sensor, in its unit.
    """

    model: mujoco.MjModel
    unknowns: tuple[Unknown, ...]
    truth: NDArray[np.float64]
    sequences: tuple[Trajectory, ...]
    noise: float


def arm(*, torque: bool, seed: int = 0) -> Example:
    """Return armature, damping and dry friction of seven joints, and the payload: 22 unknowns."""
    model = mujoco.MjModel.from_xml_string(_arm_xml(torque=torque))
    unknowns: list[Unknown] = []
    truth: list[float] = []
    for attribute, values in (
        ('armature', _ARMATURE),
        ('damping', _DAMPING),
        ('frictionloss', _FRICTION),
    ):
        bounds = _ARM_BOUNDS[attribute]
        unknowns.extend(make_unknowns(f'joint/*/{attribute}', model, bounds=bounds))
        truth.extend(values)
    unknowns.extend(make_unknowns('body/payload/mass', model, bounds=_PAYLOAD_BOUNDS))
    truth.append(_PAYLOAD)
    times = np.arange(0.0, ARM_SECONDS, 0.002)
    commands = TimeSeries.from_columns(
        times,
        _HOME + _waves(times),
        [f'servo{k}' for k in range(7)],
        SignalType.MjCtrl,
    )
    noise = {f'position{k}': _POSITION_NOISE for k in range(7)}
    noise |= {f'velocity{k}': _VELOCITY_NOISE for k in range(7)}
    noise |= {f'torque{k}': _TORQUE_NOISE * _FORCE[k] for k in range(7)}
    run = _recorded(
        model, unknowns, truth, (ARM_SECONDS, ARM_RATE), (commands,), _HOME, noise, seed
    )
    return Example(model, tuple(unknowns), np.array(truth), (run,), next(iter(noise.values())))


def double_pendulum(*, seed: int = 0) -> Example:
    """Return a passive double pendulum that falls from above and tumbles for ten seconds."""
    model = mujoco.MjModel.from_xml_string(_PENDULUM_XML)
    unknowns = tuple(
        unknown
        for path, (_, bounds) in _PENDULUM.items()
        for unknown in make_unknowns(path, model, bounds=bounds)
    )
    truth = [value for value, _ in _PENDULUM.values()]
    start = np.array([2.6, 0.4])
    shape = (PENDULUM_SECONDS, PENDULUM_RATE)
    run = _recorded(model, unknowns, truth, shape, (), start, _PENDULUM_NOISE, seed)
    return Example(model, unknowns, np.array(truth), (run,), _PENDULUM_NOISE['upper_position'])


def _recorded(
    model: mujoco.MjModel,
    unknowns: list[Unknown] | tuple[Unknown, ...],
    truth: list[float],
    shape: tuple[float, float],
    commands: tuple[TimeSeries, ...],
    start: NDArray[np.float64],
    noise: dict[str, float],
    seed: int,
) -> Trajectory:
    """Simulate with the true values and add white noise."""
    seconds, rate = shape
    times = np.arange(0.0, seconds, 1 / rate)
    sensors = [model.sensor(index).name for index in range(model.nsensor)]

    def sequence(values: NDArray[np.float64]) -> Trajectory:
        series = TimeSeries.from_columns(times, values, sensors)
        return Trajectory('run', 0, start, np.zeros(model.nv), commands, (series,))

    empty = np.zeros((len(times), len(sensors)))
    clean = predict(model, [sequence(empty)], unknowns, np.array(truth))[0].channels[0][0]
    sigma = np.array([noise[sensor] for sensor in sensors])
    random = np.random.default_rng(seed)
    return sequence(clean + sigma * random.standard_normal(clean.shape))


def _waves(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (n, 7) motions of two sines each, rad, that begin at rest and at zero."""
    frequencies = np.geomspace(0.25, 1.4, 14)
    first, second = frequencies[:7], np.roll(frequencies[7:], 3)
    waves = [
        np.sin(2 * np.pi * f * times) - f / g * np.sin(2 * np.pi * g * times)
        for f, g in zip(first, second, strict=True)
    ]
    return 0.4 * np.stack(waves, axis=1)


def _arm_xml(*, torque: bool) -> str:
    opening, closing, above = '', '', 0.1
    for k in range(7):
        moment = _INERTIAS[k]
        opening += (
            f'<body name="link{k}" pos="0 0 {above}"><inertial mass="{_MASSES[k]}" '
            f'pos="0 .02 {_LENGTHS[k] / 2}" diaginertia="{moment} {moment} {moment / 2}"/>'
            f'<joint name="joint{k}" axis="{_AXES[k]}" armature=".1" damping="1"/>'
        )
        closing += '</body>'
        above = _LENGTHS[k]
    payload = (
        f'<body name="payload" pos="0 0 {above}"><inertial mass="1" pos=".04 .02 .05" '
        'diaginertia=".004 .004 .003"/></body>'
    )
    servos = ''.join(
        f'<position name="servo{k}" joint="joint{k}" kp="{_KP[k]}" kv="{_KV[k]}" '
        f'forcerange="{-_FORCE[k]} {_FORCE[k]}"/>'
        for k in range(7)
    )
    kinds = {'position': 'jointpos', 'velocity': 'jointvel'}
    kinds |= {'torque': 'jointactuatorfrc'} if torque else {}
    sensors = ''.join(
        f'<{kind} name="{word}{k}" joint="joint{k}"/>'
        for word, kind in kinds.items()
        for k in range(7)
    )
    return (
        '<mujoco><compiler angle="radian" autolimits="true"/>'
        '<option timestep=".002" integrator="implicitfast"/>'
        f'<worldbody>{opening}{payload}{closing}</worldbody>'
        f'<actuator>{servos}</actuator><sensor>{sensors}</sensor></mujoco>'
    )


_PENDULUM_XML = """<mujoco><compiler angle="radian"/>
<option timestep=".002" integrator="RK4"/>
<worldbody><body name="upper" pos="0 0 2">
  <inertial mass="1" pos="0 0 -.25" diaginertia=".02 .02 .001"/>
  <joint name="upper" axis="0 1 0" damping=".05"/>
  <body name="lower" pos="0 0 -.5">
    <inertial mass="1" pos="0 0 -.25" diaginertia=".02 .02 .001"/>
    <joint name="lower" axis="0 1 0" damping=".05"/>
  </body>
</body></worldbody>
<sensor><jointpos name="upper_position" joint="upper"/>
<jointpos name="lower_position" joint="lower"/></sensor></mujoco>"""

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Problems of the same kind as the published ones, on which nothing was tuned."""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray

from cases.case import Case, Free, Modify, Recording, compiled, initial_state, record, scalars

SEQUENCES = 20
_TIMESTEP = 0.002
#: When commands step, s.
_STEP_AT = 0.1

_CART_POLE = """
<mujoco>
  <option timestep=".002" integrator="implicitfast"/>
  <worldbody>
    <body name="cart">
      <joint name="slide" type="slide" axis="1 0 0" damping=".2"/>
      <geom type="box" size=".1 .06 .04" mass=".8"/>
      <body name="pole">
        <joint name="hinge" axis="0 1 0" damping=".002"/>
        <inertial mass=".1" pos="0 0 -.3" diaginertia=".003 .003 .0001"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="push" joint="slide"/></actuator>
  <sensor><jointpos name="x" joint="slide"/><jointpos name="angle" joint="hinge"/></sensor>
</mujoco>
"""

_PENDULUM = """
<mujoco>
  <option timestep=".002" integrator="implicitfast"/>
  <worldbody>
    <body>
      <joint name="upper" axis="0 1 0" damping=".01" frictionloss=".01"/>
      <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".02" mass=".6"/>
      <body pos="0 0 -.3">
        <joint name="lower" axis="0 1 0" damping=".01" frictionloss=".01"/>
        <geom type="capsule" fromto="0 0 0 0 0 -.2" size=".015" mass=".3"/>
      </body>
    </body>
  </worldbody>
  <sensor><jointpos name="p1" joint="upper"/><jointpos name="p2" joint="lower"/></sensor>
</mujoco>
"""

_SCARA = """
<mujoco>
  <option timestep=".002" integrator="implicitfast"/>
  <worldbody>
    <body>
      <joint name="first" axis="0 0 1" armature=".05"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" mass="2"/>
      <body pos=".3 0 0">
        <joint name="second" axis="0 0 1" armature=".02"/>
        <geom type="capsule" fromto="0 0 0 .25 0 0" size=".03" mass="1.2"/>
        <body pos=".25 0 0">
          <joint name="lift" type="slide" axis="0 0 1" armature=".5"/>
          <joint name="turn" axis="0 0 1" armature=".003"/>
          <geom type="box" size=".03 .02 .06" mass=".5"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="drive_first" joint="first" kp="60"/>
    <position name="drive_second" joint="second" kp="60"/>
    <position name="drive_lift" joint="lift" kp="60"/>
    <position name="drive_turn" joint="turn" kp="60"/>
  </actuator>
  <sensor>
    <jointpos name="p1" joint="first"/><jointpos name="p2" joint="second"/>
    <jointpos name="p3" joint="lift"/><jointpos name="p4" joint="turn"/>
  </sensor>
</mujoco>
"""
_SCARA_JOINTS = ('first', 'second', 'lift', 'turn')
_SCARA_KP = np.array([140.0, 90.0, 900.0, 12.0])
_SCARA_DAMPING = np.array([6.0, 3.5, 40.0, 0.4])


def cart_pole_case() -> Case:
    """Return dampings and the pole's mass of a cart that is pushed about, from 2 s."""

    def pole_mass(spec: mujoco.MjSpec, value: NDArray[np.float64]) -> None:
        spec.body('pole').mass = value[0]

    free = (
        *scalars(('slide', 'hinge'), (0.5, 0.008), (0.1, 0.03), (0.001, 2.0), attribute='damping'),
        _scalar('pole/mass', 0.1, (0.02, 0.6), 0.22, 'body/pole/mass', pole_mass),
    )
    times = np.arange(1001) * _TIMESTEP
    push = 3.0 * np.sin(2 * np.pi * 0.8 * times) + 2.0 * np.sin(2 * np.pi * 1.9 * times + 1.0)
    return _case('f', 'cart with pole, 3 parameters, 2 s', 3.0, _CART_POLE, free, [push[:, None]])


def pendulum_case() -> Case:
    """Return damping and friction of a double pendulum let go from twenty poses."""
    joints = ('upper', 'lower')
    free = (
        *scalars(joints, (0.03, 0.012), (0.01, 0.03), (0.0, 0.3), attribute='damping'),
        *scalars(joints, (0.05, 0.02), (0.01, 0.01), (0.0, 0.3), attribute='frictionloss'),
    )
    random = np.random.default_rng(3)
    poses = random.uniform(-1.2, 1.2, (SEQUENCES, 2))
    nothing = np.zeros((1001, 0))
    return _case(
        'g', 'friction of a double pendulum, 20 of 2 s', 8.0, _PENDULUM, free,
        [nothing] * SEQUENCES, poses,
    )  # fmt: skip


def servo_case() -> Case:
    """Return gains and dampings of a SCARA arm's position servos from twenty short motions."""

    def gain(name: str) -> Modify:
        def modify(spec: mujoco.MjSpec, value: NDArray[np.float64]) -> None:
            actuator = spec.actuator(name)
            actuator.gainprm[0], actuator.biasprm[1] = value[0], -value[0]

        return modify

    free = (
        *(
            _scalar(
                f'{joint}/kp', 60.0, (5.0, 2000.0), truth, f'actuator/drive_{joint}/kp',
                gain(f'drive_{joint}'),
            )
            for joint, truth in zip(_SCARA_JOINTS, _SCARA_KP, strict=True)
        ),
        *scalars(
            _SCARA_JOINTS, _SCARA_DAMPING, 0.5 * _SCARA_DAMPING, (0.01, 100.0), attribute='damping'
        ),
    )  # fmt: skip
    random = np.random.default_rng(5)
    times = np.arange(751)[:, None] * _TIMESTEP
    commands = []
    for _ in range(SEQUENCES):
        step = random.uniform(-0.5, 0.5, 4) * np.array([1.0, 1.0, 0.1, 1.0])
        wave = 0.2 * np.sin(2 * np.pi * random.uniform(0.5, 3.0, 4) * times)
        commands.append(
            np.where(times < _STEP_AT, 0.0, step) + wave * np.array([1.0, 1.0, 0.1, 1.0])
        )
    return _case('h', 'servos of a SCARA arm, 8, 20 of 1.5 s', 8.0, _SCARA, free, commands)


def _scalar(
    name: str,
    start: float,
    bounds: tuple[float, float],
    truth: float,
    target: str,
    modify: Modify,
) -> Free:
    low, high = (np.array([value]) for value in bounds)
    return Free(name, np.array([start]), low, high, np.array([truth]), target, modify)


def _case(
    key: str,
    title: str,
    required: float,
    xml: str,
    free: tuple[Free, ...],
    commands: list[NDArray[np.float64]],
    poses: NDArray[np.float64] | None = None,
) -> Case:
    """Simulate the truth, one recording for each of the commands; encoders of 2 mrad or mm."""

    def make() -> mujoco.MjSpec:
        return mujoco.MjSpec.from_string(xml)

    model = compiled(make(), free, np.concatenate([each.truth for each in free]))
    recordings: list[Recording] = []
    for index, command in enumerate(commands):
        state = initial_state(model, None if poses is None else poses[index])
        recordings.append(record(model, state, command))
    noise = np.full(model.nsensordata, 0.002)
    return Case(key, title, required, make, free, tuple(recordings), noise)

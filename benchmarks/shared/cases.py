# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Cases that both contenders fit: the toolbox's arm, small robots, and meshed ones from wheels.

``pip install --no-deps robosuite mjlab`` brings the meshed ones; neither package is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mujoco
import numpy as np
from shared.arms import Link, add_servos, chain, in_wheel, joint_sensors
from shared.common import Floats
from shared.contenders import Case, Free, case_of, scalars

from sysid_ros.model.inertia import theta_from_body

TIMESTEP = 0.002
START, BOUNDS = 0.01, (0.01, 0.6)
#: rad, as in the toolbox's published tutorial: motions here are many turns.
NOISE = 0.6
SEQUENCES = 20
SECONDS = 2.0
_AXES = ('0 0 1', '0 1 0', '0 1 0', '0 0 1', '0 1 0', '0 0 1', '0 1 0')
_LENGTHS = (0.1, 0.1, 0.1, 0.08, 0.06, 0.05, 0.04)
_MASSES = (1.0, 0.8, 0.6, 0.4, 0.2, 0.15, 0.1)
_INERTIAS = (0.01, 0.008, 0.006, 0.004, 0.002, 0.0015, 0.001)
_DAMPINGS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.15, 0.1)
_ARMATURES = (0.5, 0.4, 0.3, 0.2, 0.1, 0.08, 0.06)
_TORQUES = (5.0, 4.0, 3.0, 2.0, 1.0, 0.8, 0.6)
_FREQUENCIES = (0.5, 0.7, 0.4, 0.9, 0.6, 0.8, 1.1)
_PHASES = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
#: rad and rad/s of arms: encoders, and velocities that are differenced from them.
_POSITION, _VELOCITY = 0.0005, 0.01


def _tutorial(
    *, velocities: bool = False, armatures: Sequence[float] = (START,) * 5
) -> mujoco.MjSpec:
    """Return the toolbox's published arm of five joints."""
    joints = [f'joint{k}' for k in range(5)]
    links = [
        Link(
            f'pos="0 0 {_LENGTHS[k - 1] if k else 0.0}"',
            f'name="joint{k}" axis="{_AXES[k]}" damping="{_DAMPINGS[k]}" armature="{armatures[k]}"',
            f'<inertial mass="{_MASSES[k]}" pos="0 0 {_LENGTHS[k] / 2}" '
            f'diaginertia="{_INERTIAS[k]} {_INERTIAS[k]} {_INERTIAS[k] / 2}"/>',
        )
        for k in range(5)
    ]
    motors = ''.join(f'<motor name="motor{k}" joint="joint{k}"/>' for k in range(5))
    kinds = {'jointpos': 'jointpos'} | ({'jointvel': 'jointvel'} if velocities else {})
    return mujoco.MjSpec.from_string(chain(links, motors, joint_sensors(joints, kinds)))


def _times(seconds: float) -> Floats:
    return np.asarray(np.arange(round(seconds / TIMESTEP) + 1) * TIMESTEP, np.float64)


def _torques(joints: int, seconds: float, phase: float = 0.0) -> Floats:
    """Return the tutorial's (n, joints) torques, N·m, in another phase if told so."""
    turns = 2 * np.pi * np.array(_FREQUENCIES[:joints]) * _times(seconds)[:, None]
    waves = np.sin(turns + np.array(_PHASES[:joints]) + phase)
    return np.asarray(np.array(_TORQUES[:joints]) * waves)


def tutorial_case(key: str, title: str, *, count: int = 1, seconds: float = SECONDS) -> Case:
    """Return the five armatures, which start on their bound, from sequences in other phases."""
    joints = [f'joint{k}' for k in range(5)]
    free = scalars('joint/{}/armature', joints, _ARMATURES[:5], [START] * 5, BOUNDS)
    commands = [_torques(5, seconds, 2 * np.pi * k / count) for k in range(count)]
    return case_of(key, title, _tutorial, free, commands, NOISE)


def _signal_case() -> Case:
    """Return gain, bias and delay of each of ten sensors; the model itself is known."""

    def make() -> mujoco.MjSpec:
        return _tutorial(velocities=True, armatures=_ARMATURES)

    random = np.random.default_rng(7)
    free: list[Free] = []
    for kind in ('jointpos', 'jointvel'):
        for name in (f'{kind}_joint{k}' for k in range(5)):
            for word, start, bounds, true in (
                ('gain', 1.0, (0.5, 2.0), random.uniform(0.8, 1.25)),
                ('bias', 0.0, (-1.0, 1.0), random.uniform(-0.3, 0.3)),
                ('delay', 0.01, (0.0, 0.05), random.uniform(0.004, 0.03)),
            ):
                free += scalars(f'sensor/{{}}/{word}', [name], [true], [start], bounds)
    noise = np.repeat([0.02, 0.05], 5)
    title = 'gain, bias, delay of 10 sensors'
    return case_of('e', title, make, tuple(free), [_torques(5, SECONDS)], noise)


def chain_case(size: int) -> Case:
    """Return so many unknowns of 20 servos: all armatures first, then the next attribute."""
    count = 20
    joints = [f'joint{k}' for k in range(count)]
    every = [
        one
        for attribute, (truth, start, bounds) in {
            'armature': (0.02, 0.01, (0.001, 0.2)),
            'damping': (0.5, 0.3, (0.01, 5.0)),
            'frictionloss': (0.05, 0.1, (0.0, 1.0)),
            'stiffness': (2.0, 1.0, (0.0, 20.0)),
        }.items()
        for one in scalars(
            f'joint/{{}}/{attribute}', joints, [truth] * count, [start] * count, bounds
        )
    ]
    known = {tuple(one.target.split('/')[1:]): float(one.truth[0]) for one in every[size:]}
    links = [
        Link(
            f'pos="0 0 {0.06 if k else 0.0}"',
            f'name="{joint}" axis="{"0 0 1" if k % 2 else "0 1 0"}" '
            + ' '.join(f'{word}="{value}"' for (own, word), value in known.items() if own == joint),
            '<inertial mass=".1" pos="0 0 .03" diaginertia="1e-4 1e-4 5e-5"/>',
        )
        for k, joint in enumerate(joints)
    ]
    servos = ''.join(
        f'<position name="servo{k}" joint="joint{k}" kp="{40 - k}"/>' for k in range(count)
    )
    text = chain(links, servos, joint_sensors(joints))
    order = np.argsort(np.arange(count) * 7 % count)
    frequencies = np.geomspace(0.3, 2.0, count)[order]
    commands = 0.3 * np.sin(2 * np.pi * frequencies * _times(5.0)[:, None])
    noise = np.repeat([_POSITION, _VELOCITY], count)
    make = lambda: mujoco.MjSpec.from_string(text)  # noqa: E731
    return case_of('growth', '', make, tuple(every[:size]), [commands], noise)


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
#: Of encoders, rad or m.
_COARSE = 0.002


def _cart_pole_case() -> Case:
    """Return dampings and the pole's mass of a cart that is pushed about."""
    dampings = scalars(
        'joint/{}/damping', ('slide', 'hinge'), (0.5, 0.008), (0.1, 0.03), (0.001, 2.0)
    )
    free = (*dampings, *scalars('body/{}/mass', ['pole'], [0.22], [0.1], (0.02, 0.6)))
    turns = 2 * np.pi * _times(SECONDS)
    push = 3.0 * np.sin(0.8 * turns) + 2.0 * np.sin(1.9 * turns + 1.0)
    make = lambda: mujoco.MjSpec.from_string(_CART_POLE)  # noqa: E731
    return case_of('f', 'cart with pole, 3 parameters', make, free, [push[:, None]], _COARSE)


def _pendulum_case() -> Case:
    """Return damping and friction of a double pendulum let go from twenty poses."""
    joints, bounds = ('upper', 'lower'), (0.0, 0.3)
    free = (
        *scalars('joint/{}/damping', joints, (0.03, 0.012), (0.01, 0.03), bounds),
        *scalars('joint/{}/frictionloss', joints, (0.05, 0.02), (0.01, 0.01), bounds),
    )
    poses = np.random.default_rng(3).uniform(-1.2, 1.2, (SEQUENCES, 2))
    nothing = [np.zeros((1001, 0))] * SEQUENCES
    make = lambda: mujoco.MjSpec.from_string(_PENDULUM)  # noqa: E731
    title = 'friction of a double pendulum, 20 of 2 s'
    return case_of('g', title, make, free, nothing, _COARSE, list(poses))


def _servo_case() -> Case:
    """Return gains and dampings of a SCARA arm's position servos from twenty short motions."""
    joints = ('first', 'second', 'lift', 'turn')
    damping = np.array([6.0, 3.5, 40.0, 0.4])
    gains = (140.0, 90.0, 900.0, 12.0)
    free = (
        *scalars('actuator/drive_{}/kp', joints, gains, [60.0] * 4, (5.0, 2000.0)),
        *scalars('joint/{}/damping', joints, damping, 0.5 * damping, (0.01, 100.0)),
    )
    random, times = np.random.default_rng(5), np.arange(751)[:, None] * TIMESTEP
    reach, commands = np.array([1.0, 1.0, 0.1, 1.0]), []
    for _ in range(SEQUENCES):
        step = random.uniform(-0.5, 0.5, 4) * reach
        wave = 0.2 * np.sin(2 * np.pi * random.uniform(0.5, 3.0, 4) * times)
        commands.append(np.where(times < 0.1, 0.0, step) + wave * reach)  # noqa: PLR2004 (s)
    make = lambda: mujoco.MjSpec.from_string(_SCARA)  # noqa: E731
    return case_of('h', 'servos of a SCARA arm, 8, 20 of 1.5 s', make, free, commands, _COARSE)


_SEVEN_FILE = ('robosuite', 'models/assets/robots/kinova3/robot.xml')
_SEVEN = tuple(f'Actuator{k}' for k in range(1, 8))
_SEVEN_HOME = np.array([0.0, 0.5, 0.0, 1.2, 0.0, 0.8, 0.0])
#: The link that a payload is fixed to.
_HAND = 'Bracelet_Link'
_SIX_FILE = ('robosuite', 'models/assets/robots/ur5e/robot.xml')
_SIX = tuple(
    f'{word}_joint'
    for word in ('shoulder_pan', 'shoulder_lift', 'elbow', 'wrist_1', 'wrist_2', 'wrist_3')
)


def _seven_spec() -> mujoco.MjSpec:
    kp = (400.0, 400.0, 300.0, 300.0, 150.0, 150.0, 100.0)
    return _servo_spec(_SEVEN_FILE, _SEVEN, kp, (20.0, 20.0, 15.0, 15.0, 6.0, 6.0, 4.0))


def _six_spec() -> mujoco.MjSpec:
    kp = (900.0, 900.0, 700.0, 200.0, 200.0, 100.0)
    return _servo_spec(_SIX_FILE, _SIX, kp, (60.0, 60.0, 40.0, 10.0, 10.0, 5.0))


def seven_joint_case() -> Case:
    """Return armature, damping and friction of a meshed seven-joint arm under position control."""
    armature = np.array([0.25, 0.3, 0.2, 0.2, 0.08, 0.08, 0.05])
    damping = np.array([2.0, 2.5, 1.5, 1.5, 0.7, 0.6, 0.4])
    friction = np.array([1.2, 1.5, 1.0, 0.9, 0.5, 0.45, 0.3])
    free = (
        *scalars('joint/{}/armature', _SEVEN, armature, 0.4 * armature, (0.001, 1.0)),
        *scalars('joint/{}/damping', _SEVEN, damping, 2.0 * damping, (0.0, 10.0)),
        *scalars('joint/{}/frictionloss', _SEVEN, friction, 0.3 * friction, (0.0, 5.0)),
    )
    commands = _SEVEN_HOME + _waves(_times(5.0), 7, amplitude=0.5, slowest=0.25, fastest=1.3)
    noise = np.repeat([_POSITION, _VELOCITY], 7)
    title = 'meshed 7-joint arm, 21 parameters'
    return case_of('b', title, _seven_spec, free, [commands], noise, [_SEVEN_HOME])


def _six_joint_case() -> Case:
    """Return armature, damping and friction of a meshed six-joint arm under position control."""
    armature = np.array([1.8, 1.5, 0.9, 0.25, 0.2, 0.15])
    damping = np.array([9.0, 11.0, 7.0, 2.0, 1.6, 1.1])
    friction = np.array([5.0, 6.5, 4.0, 1.4, 1.1, 0.8])
    free = (
        *scalars('joint/{}/armature', _SIX, armature, 0.3 * armature, (0.01, 6)),
        *scalars('joint/{}/damping', _SIX, damping, 0.4 * damping, (0.0, 40.0)),
        *scalars('joint/{}/frictionloss', _SIX, friction, 0.2 * friction, (0.0, 25.0)),
    )
    home = np.array([0.0, -1.2, 1.4, -0.6, 0.5, 0.0])
    commands = home + _waves(_times(5.0), 6, amplitude=0.4, slowest=0.3, fastest=1.5)
    noise = np.repeat([_POSITION, _VELOCITY], 6)
    title = 'meshed 6-joint arm, 18 parameters'
    return case_of('i', title, _six_spec, free, [commands], noise, [home])


def _payload_case() -> Case:
    """Return mass and centre of what the meshed seven-joint arm carries."""
    hand = _seven_spec().compile().body(_HAND)
    held, at = hand.mass, hand.ipos
    free = [Free(f'body/{_HAND}/mass', held.copy(), 0.2 * held, held + 5.0, held + 1.5)]
    for k, offset in enumerate((0.02, -0.03, -0.06)):
        own = at[[k]]
        free.append(Free(f'body/{_HAND}/ipos[{k}]', own, own - 0.3, own + 0.3, own + offset))
    commands = _SEVEN_HOME + _waves(_times(SECONDS), 7, amplitude=0.6, slowest=0.4, fastest=1.5)
    noise = np.repeat([_POSITION, _VELOCITY], 7)
    title = 'payload of a meshed 7-joint arm, 4 parameters'
    return case_of('j', title, _seven_spec, tuple(free), [commands], noise, [_SEVEN_HOME])


def torque_arm_case() -> Case:
    """Return the armatures of the seven-joint arm under torques, without its meshes.

    It falls and swings through turns with the little damping of its file: many armatures explain
    a part of such a motion, so that a solver may end elsewhere.
    """

    def make() -> mujoco.MjSpec:
        spec = mujoco.MjSpec.from_file(str(in_wheel(*_SEVEN_FILE)))
        for element in (*spec.geoms, *spec.meshes):  # inertia is given, and nothing touches
            spec.delete(element)
        _measure_joints(spec, _SEVEN, ('position',))
        for joint in _SEVEN:
            spec.joint(joint).armature = START
        return spec

    truth = (0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.05)
    free = scalars('joint/{}/armature', _SEVEN, truth, [START] * 7, BOUNDS)
    commands = [_torques(7, SECONDS)]
    return case_of('', 'armatures of a 7-joint arm', make, free, commands, NOISE, [_SEVEN_HOME])


_TRUNK = 'trunk'
_LEGS = tuple(
    f'{leg}_{part}_joint' for leg in ('FR', 'FL', 'RR', 'RL') for part in ('hip', 'thigh', 'calf')
)
#: m, of the trunk that hangs on four elastic cords, clear of the ground.
_HEIGHT = 1.0


def _trunk_case() -> Case:
    """Return the ten inertial parameters of a quadruped's trunk.

    It hangs on elastic cords and swings its legs. Standing on open-loop commands it falls over, and
    then the smallest change of a parameter changes everything: that has no optimum to find.
    """
    trunk = _quadruped_spec().compile().body(_TRUNK)
    start = theta_from_body(trunk.mass[0], trunk.ipos, trunk.iquat, trunk.inertia)
    # What the robot carries and its model does not know: changes of θ.
    payload = np.array([0.12, 0.1, 0.15, 0.2, 0.02, -0.015, 0.02, 0.03, -0.01, 0.04])
    # As the toolbox's own bounds: mass a tenth to ten times, stretch half to twice, shear and
    # centre of mass ± 0.5.
    reach = np.array([0.5 * np.log(10.0), *[0.5 * np.log(2.0)] * 3, *[0.5] * 6])
    target = f'body/{_TRUNK}/inertia'
    free = (Free(target, start, start - reach, start + reach, start + payload),)
    posture = np.tile([0.0, 0.9, -1.8], 4)
    swing = _waves(_times(SECONDS), 12, amplitude=0.3, slowest=0.5, fastest=3.0)
    qpos = np.array([0.0, 0.0, _HEIGHT, 1.0, 0.0, 0.0, 0.0, *posture])
    # Of motion capture (m, quaternion), gyroscope (rad/s), encoders (rad, rad/s).
    noise = np.repeat([0.0005, 0.001, 0.01, 0.0005, 0.02], [3, 4, 3, 12, 12])
    title = "quadruped's trunk, 10-parameter inertia"
    return case_of('c', title, _quadruped_spec, free, [posture + swing], noise, [qpos])


def _waves(
    times: Floats, count: int, *, amplitude: float, slowest: float, fastest: float
) -> Floats:
    """Return (n, count) motions of two sines each, rad, that begin at rest and at zero."""
    frequencies = np.geomspace(slowest, fastest, 2 * count)
    # Far-apart frequencies for each joint, in an order that differs from the joints'.
    first, second = frequencies[:count], np.roll(frequencies[count:], count // 2)
    signs = np.where(np.arange(count) % 2, 1.0, -1.0)
    turns = 2 * np.pi * times[:, None]
    return amplitude * signs * (np.sin(turns * first) - first / second * np.sin(turns * second))


def _servo_spec(
    file: tuple[str, str], joints: Sequence[str], kp: Sequence[float], kv: Sequence[float]
) -> mujoco.MjSpec:
    spec = mujoco.MjSpec.from_file(str(in_wheel(*file)))
    add_servos(spec, joints, kp, kv)
    for sensor in list(spec.sensors):
        spec.delete(sensor)
    _measure_joints(spec, joints)
    return spec


def _quadruped_spec() -> mujoco.MjSpec:
    file = in_wheel('mjlab', 'asset_zoo/robots/unitree_go1/xmls/go1.xml')
    spec = mujoco.MjSpec.from_file(str(file))
    for sensor in list(spec.sensors):
        spec.delete(sensor)
    add_servos(spec, _LEGS, [60.0] * 12, [2.0] * 12)
    for name, kind in (
        ('base_pos', mujoco.mjtSensor.mjSENS_FRAMEPOS),
        ('base_quat', mujoco.mjtSensor.mjSENS_FRAMEQUAT),
        ('base_gyro', mujoco.mjtSensor.mjSENS_GYRO),
    ):
        spec.add_sensor(name=name, type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname='imu')
    _measure_joints(spec, _LEGS)
    trunk = spec.body(_TRUNK)
    for number, (x, y) in enumerate((x, y) for x in (0.2, -0.2) for y in (0.08, -0.08)):
        spec.worldbody.add_site(name=f'anchor{number}', pos=[2 * x, 2 * y, 2 * _HEIGHT])
        trunk.add_site(name=f'eyelet{number}', pos=[x, y, 0.05])
        cord = spec.add_tendon(
            name=f'cord{number}', stiffness=220.0, damping=6.0, springlength=[0.0, 0.85]
        )
        cord.wrap_site(f'anchor{number}')
        cord.wrap_site(f'eyelet{number}')
    return spec


def _measure_joints(
    spec: mujoco.MjSpec, joints: Sequence[str], words: Sequence[str] = ('position', 'velocity')
) -> None:
    """Add sensors, and simulate in the usual steps."""
    kinds = {
        'position': mujoco.mjtSensor.mjSENS_JOINTPOS,
        'velocity': mujoco.mjtSensor.mjSENS_JOINTVEL,
    }
    for word in words:
        for joint in joints:
            sensor = spec.add_sensor(name=f'{word}_{joint}', type=kinds[word], objname=joint)
            sensor.objtype = mujoco.mjtObj.mjOBJ_JOINT
    spec.option.timestep = TIMESTEP
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST


CASES: dict[str, Callable[[], Case]] = {
    'a': lambda: tutorial_case('a', '5-joint arm, 5 armatures, 2 s'),
    'b': seven_joint_case,
    'c': _trunk_case,
    'd': lambda: tutorial_case('d', f'case a with {SEQUENCES} sequences', count=SEQUENCES),
    'e': _signal_case,
    'f': _cart_pole_case,
    'g': _pendulum_case,
    'h': _servo_case,
    'i': _six_joint_case,
    'j': _payload_case,
}

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Servos as plain MJCF: text to paste into a model, and a pendulum to look at."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import quoteattr

import mujoco

from sysid_ros.errors import ModelError
from sysid_ros.files import replace_file
from sysid_ros.model.mjcf.attributes import join, number
from sysid_ros.servos.bench.pendulum import GRAVITY

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sysid_ros.servos.formats.log import Log
    from sysid_ros.servos.formats.mjcf import PlainActuator

#: Time step of the pendulum, s.
TIMESTEP = 1e-3
#: Dry friction of MuJoCo creeps: by default, a joint that it holds moves on at some mrad/s. With
#: this impedance it is 1000 times slower; the time constant is the shortest that a time step of
#: 1 ms allows, and MuJoCo lengthens it for longer ones.
_STIFF = {'solreffriction': (0.002, 1.0), 'solimpfriction': (0.9999, 0.9999, 0.001)}
#: A point mass has no inertia about itself; MuJoCo wants some, kg·m².
_LEAST_INERTIA = 1e-10
#: Digits of a number that is to be read; more say nothing about a servo.
_DIGITS = 9


class Pendulum(NamedTuple):
    """The load of a servo.

    Attributes:
        mass: At the end of the arm, kg.
        arm_mass: Of the arm, evenly distributed, kg.
        length: Of the arm, m.
        offset: Angle of the pendulum from hanging down when the servo reads 0, rad.
    """

    mass: float = 0.15
    arm_mass: float = 0.0
    length: float = 0.1
    offset: float = 0.0

    @classmethod
    def of(cls, log: Log, offset: float) -> Pendulum:
        """Return the load that a log was recorded with."""
        return cls(log.mass, log.arm_mass, log.length, offset)


def snippet(actuator: PlainActuator, joint: str = 'servo') -> tuple[str, str]:
    """Return what to paste into an MJCF file: a joint and an actuator.

    The joint's axis and place are those of the model that it goes into.

    Args:
        actuator: The numbers.
        joint: Name of both.
    """
    held = {
        'armature': (actuator.armature,),
        'damping': (actuator.damping,),
        'frictionloss': (actuator.frictionloss,),
        **(_STIFF if actuator.frictionloss else {}),
    }
    name = quoteattr(joint)
    driven = _attributes(_of_actuator(actuator))
    return (
        f'<joint name={name} {_attributes(held)}/>',
        f'<{actuator.element} name={name} joint={name} {driven}/>',
    )


def pendulum_mjcf(actuator: PlainActuator, load: Pendulum, comments: Iterable[str] = ()) -> str:
    """Return the MJCF of a pendulum that a servo drives.

    Joint position 0 is where the servo reads 0. To switch the motor off, disable actuator group 0.

    Args:
        actuator: The servo.
        load: The pendulum.
        comments: Lines at the top of the text.
    """
    joint, drive = snippet(actuator)
    mass, arm, length, offset = load
    total = mass + arm
    centre = (mass + arm / 2) / total * length
    inertia = mass * length**2 + arm / 3 * length**2 - total * centre**2
    about = (max(inertia, _LEAST_INERTIA),) * 2
    turned = (math.cos(offset / 2), 0.0, math.sin(offset / 2), 0.0)
    joint = joint.replace('<joint ', '<joint axis="0 1 0" ', 1)
    drive = drive.replace('/>', ' ctrlrange="-3.14 3.14"/>')
    head = ''.join(f'\n  {line.replace("--", "- -")}' for line in comments)
    radius = length / 20
    return f"""<mujoco model="servo">
  <!--{head}
  -->
  <option timestep="{number(TIMESTEP)}" integrator="implicitfast" gravity="0 0 {-GRAVITY}"/>
  <visual><global elevation="-10"/></visual>
  <statistic center="0 0 0" extent="{number(_short(3 * length))}"/>
  <default><geom contype="0" conaffinity="0" mass="0"/></default>
  <worldbody>
    <light pos="0 0 3"/>
    <body name="pendulum" quat="{_numbers(turned)}">
      {joint}
      <inertial pos="0 0 {_numbers((-centre,))}" mass="{_numbers((total,))}" \
diaginertia="{_numbers((*about, _LEAST_INERTIA))}"/>
      <geom type="capsule" size="{_numbers((radius,))}" \
fromto="0 0 0 0 0 {_numbers((-length,))}" rgba=".6 .6 .65 1"/>
      <geom type="sphere" size="{_numbers((3 * radius,))}" \
pos="0 0 {_numbers((-length,))}" rgba=".05 .36 .68 1"/>
    </body>
  </worldbody>
  <actuator>
    {drive}
  </actuator>
</mujoco>
"""


def compiled(text: str) -> mujoco.MjModel:
    """Compile MJCF that was made here.

    Raises:
        ModelError: MuJoCo does not take it.
    """
    try:
        return mujoco.MjModel.from_xml_string(text)
    except ValueError as err:
        msg = f'MuJoCo {mujoco.__version__} does not take the servo: {" ".join(str(err).split())}.'
        raise ModelError(msg) from err


def write_plain_mjcf(
    path: Path, actuator: PlainActuator, load: Pendulum, comments: Iterable[str] = ()
) -> None:
    """Write a pendulum with a servo as an MJCF file, for ``python -m mujoco.viewer --mjcf=FILE``.

    Args:
        path: The file.
        actuator: The servo.
        load: The pendulum.
        comments: Lines at the top, beside what is lost.

    Raises:
        ModelError: MuJoCo does not take it.
        ResultError: The folder cannot be written.
    """
    text = pendulum_mjcf(actuator, load, (*comments, *actuator.notes))
    compiled(text)
    replace_file(path, text.encode())


def _of_actuator(actuator: PlainActuator) -> dict[str, tuple[float, ...] | str]:
    found: dict[str, tuple[float, ...] | str]
    limited = math.isfinite(actuator.limit)
    if actuator.motor is None:
        found = {'kp': (actuator.kp,)}
        if actuator.kv:
            found['kv'] = (actuator.kv,)
        if limited:
            found['forcerange'] = (-actuator.limit, actuator.limit)
        return found
    constant, resistance, voltage = actuator.motor
    slew = actuator.max_velocity or 0.0
    found = {
        'motorconst': (constant, constant),
        'resistance': (resistance,),
        'input': 'pos',
        'controller': (actuator.kp, 0.0, actuator.kv, slew, 0.0, voltage),
    }
    if limited:
        found['saturation'] = (actuator.limit, 0.0, 0.0)
    return found


def _attributes(values: dict[str, tuple[float, ...] | str] | dict[str, tuple[float, ...]]) -> str:
    return ' '.join(
        f'{name}="{value if isinstance(value, str) else _numbers(value)}"'
        for name, value in values.items()
    )


def _numbers(values: Iterable[float]) -> str:
    return join(_short(value) for value in values)


def _short(value: float) -> float:
    return float(f'{value:.{_DIGITS}g}')

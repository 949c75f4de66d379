# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Servos as plain MJCF: the joint, actuator and friction that stand for one, on a pendulum.

How near that is to the laws is measured over the motions of logs.
"""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple
from xml.sax.saxutils import quoteattr

import mujoco
import numpy as np
from scipy.optimize import least_squares, nnls

from sysid_ros.errors import FitError, ModelError, ParameterError, nearest
from sysid_ros.files import replace_file
from sysid_ros.model.mjcf.attributes import join, number
from sysid_ros.servos.bench.pendulum import GRAVITY, candidate, simulate, stack_logs
from sysid_ros.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from sysid_ros.servos.bench.pendulum import PendulumLogs
    from sysid_ros.servos.formats.logs import ServoLog
    from sysid_ros.servos.laws.servo import Servo

    Array = NDArray[np.float64]

#: Slower joints may be sticking: how large friction could be does not show there, rad/s.
_MOVING = 0.01
#: Frictionloss and damping below this are none: servos for a fly have more, N·m and N·m·s/rad.
_NOTHING = 1e-9
#: Typical sizes of frictionloss, damping and the motor's part: steps of the search, not limits.
_SCALES = (0.01, 0.01, 0.1)
#: The torque of a motor whose supply current is regulated grows with the root of the position
#: error. The line through 0 that is nearest to a root between 0 and 1 in the least-squares sense
#: has this slope: (1 / 2.5) / (1 / 3).
_ROOT_AS_LINE = 1.2
Element = Literal['dcmotor', 'position']
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
#: The law's steps are so many times shorter than MuJoCo's: what is left is not of its steps.
_FINER = 4


class PlainFriction(NamedTuple):
    """What stands for a friction law in plain MJCF.

    Attributes:
        frictionloss: N·m.
        damping: N·m·s/rad.
        motor: The motor's torque is multiplied by this: friction that grows with the torque that
            gears pass on acts much like a weaker motor.
        error: Root mean square of the torque that is wrong, N·m; NaN where it is not known.
        usual: Root mean square of the friction torque itself, N·m; NaN where it is not known.
        note: What is lost; empty where nothing is.
    """

    frictionloss: float
    damping: float
    motor: float = 1.0
    error: float = math.nan
    usual: float = math.nan
    note: str = ''


class _States(NamedTuple):
    """Torques and velocities of all powered samples, (n,) each: N·m and rad/s."""

    motor: Array
    external: Array
    momentum: Array
    speed: Array
    limit: Array


def plain_friction(
    servo: Servo, values: Mapping[str, float], logs: Sequence[ServoLog] = ()
) -> PlainFriction:
    """Return what stands for a friction law in plain MJCF.

    Coulomb and viscous friction are held exactly. Others are replaced by what is best in the
    least-squares sense for the torques of the logs' motions, as the law itself predicts them, while
    the motor is powered: dry friction, damping and the part of the motor's torque that arrives.

    Args:
        servo: The laws.
        values: Of ``servo.coefficients``.
        logs: Motions and loads that the friction is to be right for. Without them only the parts
            without load and Stribeck effect are kept.

    Raises:
        FitError: The motor is never powered in the logs, or their sampling periods differ.
    """
    law = servo.friction
    base = float(values['friction_base']) if law.coulomb else 0.0
    slope = float(law.viscous_slope(values))
    if not (law.stribeck or law.load):
        return PlainFriction(base, slope, error=0.0)
    if not logs:
        note = (
            f'Of the friction of {servo.name} only friction_base and friction_viscous are kept: '
            'give logs, so that friction is right for their loads and speeds.'
        )
        return PlainFriction(base, slope, note=note)
    bench = stack_logs(servo, logs).timed(values)
    return _nearest(servo, _states(servo, values, bench))


def _nearest(servo: Servo, states: _States) -> PlainFriction:
    """Find the plain friction whose torques are nearest."""
    motor, external, momentum, speed, limit = states
    stopping = momentum + motor + external
    acting = np.clip(stopping, -limit, limit)
    friction_torque = motor - acting

    def missed(x: Array) -> Array:
        most = x[0] + x[1] * np.abs(speed)
        pushed = x[2] * motor
        found: Array = pushed - np.clip(momentum + pushed + external, -most, most) - friction_torque
        return found

    # Where the joint moves, the torque is linear in the three.
    moving = np.abs(speed) > _MOVING
    columns = np.stack([-np.sign(speed), -speed, motor], axis=1)[moving]
    start = nnls(columns, friction_torque[moving])[0] if moving.any() else np.array([0.0, 0.0, 1.0])
    found = least_squares(missed, start, bounds=(0.0, np.inf), x_scale=_SCALES)
    # The search ends beside a bound, not on it.
    frictionloss, damping, part = (float(x) for x in np.where(found.x > _NOTHING, found.x, 0.0))
    error = float(np.sqrt(np.mean(found.fun**2)))
    usual = float(np.sqrt(np.mean(acting**2)))
    note = (
        f'Plain friction stands for the friction of {servo.name}: dry friction {frictionloss:.4g} '
        f'N·m, damping {damping:.4g} N·m·s/rad and {100 * part:.3g} % of the motor. It misses '
        f'{error:.3g} N·m of the friction torque of {usual:.3g} N·m (root mean square over the '
        'powered samples of the logs).'
    )
    return PlainFriction(frictionloss, damping, part, error, usual, note)


def _states(servo: Servo, values: Mapping[str, float], bench: PendulumLogs) -> _States:
    """Return torques and velocities as the law predicts them, where the motor is powered."""
    predicted = simulate(servo, bench, candidate(servo, values), velocities=True)
    assert predicted.velocity is not None  # noqa: S101 (asked for)
    position, velocity = predicted.position[:, 0], predicted.velocity[:, 0]
    p: dict[str, Array | float] = {**bench.constants, **values}
    motor = np.empty_like(position)
    memory: Array | None = bench.last_goal
    rows = zip(bench.goal, bench.enabled, position, velocity, strict=True)
    for row, (goal, enabled, q, dq) in enumerate(rows):
        control, memory = servo.type.law.drive(p, goal, q, dq, bench.dt, memory)
        motor[row] = servo.type.law.torque(p, control, enabled, dq)
    external = -bench.weight * np.sin(position + p['q_offset'])
    law = servo.friction
    limit = law.dry(p, motor, external, velocity) + law.viscous_slope(p) * np.abs(velocity)
    momentum = (bench.inertia + p['armature']) / bench.dt * velocity
    powered = bench.counted & (bench.enabled > 0)
    if not powered.any():
        msg = 'Expected logs with a powered motor, found none in which it ever is.'
        raise FitError(msg)
    series = (motor, external, momentum, velocity, np.broadcast_to(limit, motor.shape))
    return _States(*(values[powered] for values in series))


class DcMotor(NamedTuple):
    """What ``dcmotor`` has and ``position`` has not.

    Attributes:
        constant: Torque constant, N·m/A.
        resistance: Ω.
        voltage: The largest that the controller gives, V.
    """

    constant: float
    resistance: float
    voltage: float


class PositionLoop(NamedTuple):
    """A position loop around a motor, before friction.

    Attributes:
        kp: N·m/rad.
        kv: N·m·s/rad, inside of the limits.
        limit: Of the torque of motor and back-EMF, N·m; infinite without.
        motor: None where the law knows of none.
        compensated: Whether the loop gives the torque that it wants whatever the back-EMF, until
            the voltage is at its limit.
        notes: What is lost.
    """

    kp: float
    kv: float
    limit: float
    motor: DcMotor | None
    compensated: bool
    notes: tuple[str, ...] = ()


def _voltage(p: Mapping[str, float]) -> PositionLoop:
    gain = p['kp'] * p['error_gain'] * p.get('error_gain_ratio', 1.0)
    motor = DcMotor(p['kt'], p['R'], p['vin'] * p['max_pwm'])
    # Of the duty cycle: it is cut off at max_pwm, not multiplied by it.
    kp = gain * p['vin'] * p['kt'] / p['R']
    limit = p['kt'] * p['current_limit'] if 'current_limit' in p else math.inf
    return PositionLoop(kp, 0.0, limit, motor, compensated=False)


def _current(p: Mapping[str, float]) -> PositionLoop:
    motor = DcMotor(p['kt'], p['R'], p['vin'])
    kp = p['kt'] * p['kp'] * p['error_gain']
    return PositionLoop(kp, 0.0, p['kt'] * p['current_limit'], motor, compensated=True)


def _bus_current(p: Mapping[str, float]) -> PositionLoop:
    """Return a line in place of the root that torque is of the position error.

    With V = vin duty the law is V² - kt dq V = R vin |I|, so V is near √(R vin |I|) + kt dq / 2,
    and the torque near kt √(vin |I| / R) - kt² dq / (2 R).
    """
    amps = min(p['current_limit'], p['vin'] / p['R'])
    limit = p['kt'] * math.sqrt(amps * p['vin'] / p['R'])
    error = amps / (p['kp'] * p['error_gain'])
    note = (
        'The torque of this law is the root of the position error: a line stands for it, of errors '
        f'up to {error:.3g} rad.'
    )
    motor = DcMotor(p['kt'], p['R'], p['vin'])
    kp, kv = _ROOT_AS_LINE * limit / error, p['kt'] ** 2 / (2 * p['R'])
    return PositionLoop(kp, kv, limit, motor, compensated=True, notes=(note,))


def _damped_current(p: Mapping[str, float]) -> PositionLoop:
    motor = DcMotor(p['kt'], p['R'], p['max_volts'])
    kv = p['kt'] * p['damping'] * math.sqrt(p['kp'])
    return PositionLoop(p['kt'] * p['kp'], kv, p['kt'] * p['max_amps'], motor, compensated=True)


def _torque(p: Mapping[str, float]) -> PositionLoop:
    return PositionLoop(p['kp'] * p['ratio'], p['damping'], p['max_torque'], None, compensated=True)


#: Motor law to its position loop, from coefficients and constants.
_LOOPS: dict[str, Callable[[Mapping[str, float]], PositionLoop]] = {
    'voltage': _voltage,
    'current': _current,
    'bus_current': _bus_current,
    'damped_current': _damped_current,
    'torque': _torque,
}


@dataclass(frozen=True)
class PlainActuator:
    """A joint and its actuator in MJCF's terms.

    Attributes:
        element: Which actuator.
        kp: Of the position, N·m/rad.
        kv: Of the velocity, N·m·s/rad, inside of the limits.
        limit: The largest torque of the actuator, N·m; infinite where it has none.
        armature: Of the joint, kg·m².
        damping: Of the joint, N·m·s/rad.
        frictionloss: Of the joint, N·m.
        motor: Of a ``dcmotor``.
        max_velocity: At which the set point follows the command, rad/s.
        notes: Sentences on what is lost.
    """

    element: Element
    kp: float
    kv: float
    limit: float
    armature: float
    damping: float
    frictionloss: float
    motor: DcMotor | None = None
    max_velocity: float | None = None
    notes: tuple[str, ...] = ()


def plain_actuator(
    servo: Servo,
    values: Mapping[str, float],
    *,
    kp: float | None = None,
    vin: float | None = None,
    friction: PlainFriction | None = None,
    element: Element | None = None,
) -> PlainActuator:
    """Return a servo as that actuator of MuJoCo that holds most of it.

    That is ``dcmotor`` for laws with a motor: while it is in its reach, it is exact for all of
    them but that of a regulated supply current. For the others it is ``position``, which all
    versions and ports of MuJoCo know. Its torque kp (goal - q) - kv dq is limited as a whole, so
    that the back-EMF of a motor that is fed with a voltage is put into the damping of the joint:
    what its firmware limits is the voltage. That is exact as long as the motor is powered.

    Args:
        servo: The laws.
        values: Of ``servo.coefficients``.
        kp: Gain of the firmware, in its own unit; the servo's usual one unless given.
        vin: Supply, V; the same.
        friction: What stands for the friction; without it, what can be said without logs.
        element: The actuator; the better one unless given.

    Raises:
        ParameterError: The law has no supply voltage, a number is not positive, or the law knows of
            no motor and is to be a ``dcmotor``.
    """
    p = {**constants(servo, kp=kp, vin=vin), **values}
    loop = _LOOPS[servo.type.law.name](p)
    friction = friction or plain_friction(servo, values)
    if element is None:
        element = 'position' if loop.motor is None else 'dcmotor'
    if element == 'dcmotor':
        return _as_dcmotor(servo, p, loop, friction)
    return _as_position(p, loop, friction)


def constants(
    servo: Servo, *, kp: float | None = None, vin: float | None = None
) -> dict[str, float]:
    """Return the constants of a servo with those that are given in place of its usual ones.

    Raises:
        ParameterError: The servo has no such constant, or a number is not positive.
    """
    found = dict(servo.type.constants)
    for name, value in (('kp', kp), ('vin', vin)):
        if value is None:
            continue
        if name not in found:
            msg = f'{servo.type.name} has no {name!r} to set; {nearest(name, found, len(found))}.'
            raise ParameterError(msg)
        if not (math.isfinite(value) and value > 0):
            msg = f'Expected a positive number for {name!r}, found {value:g}.'
            raise ParameterError(msg)
        found[name] = value
    return found


def _as_dcmotor(
    servo: Servo, p: Mapping[str, float], loop: PositionLoop, friction: PlainFriction
) -> PlainActuator:
    """Return a ``dcmotor``.

    Its controller gives the voltage v = R / K (kp e - kv dq) + K dq, within its limit. With
    kv = K² / R the back-EMF that it compensates is back, and v is proportional to the error, which
    is what a voltage-controlled servo does. A motor with 1 / part of the resistance and part of the
    gains has that part of the torque at all voltages and speeds.
    """
    if loop.motor is None:
        msg = (
            f'{servo.type.name} cannot be a dcmotor: its law {servo.type.law.name!r} knows of no '
            'motor; available: position.'
        )
        raise ParameterError(msg)
    constant, resistance, voltage = loop.motor
    part = friction.motor
    braking = 0.0 if loop.compensated else constant**2 / resistance
    return PlainActuator(
        'dcmotor',
        kp=part * loop.kp,
        kv=part * (loop.kv + braking),
        limit=part * loop.limit,
        armature=p['armature'],
        damping=friction.damping,
        frictionloss=friction.frictionloss,
        motor=DcMotor(constant, resistance / part, voltage),
        max_velocity=p.get('max_velocity'),
        notes=tuple(filter(None, (*loop.notes, friction.note))),
    )


def _as_position(
    p: Mapping[str, float], loop: PositionLoop, friction: PlainFriction
) -> PlainActuator:
    part, damping, limit = friction.motor, friction.damping, loop.limit
    notes = list(loop.notes)
    if loop.motor is not None:
        constant, resistance, voltage = loop.motor
        limit = min(limit, constant * voltage / resistance)
        if loop.compensated:
            notes.append('The torque that the supply allows does not fall with speed.')
        else:
            damping += part * constant**2 / resistance
            notes.append('The back-EMF is in the damping: it brakes a motor that is off, too.')
            if math.isfinite(loop.limit):
                notes.append('The current limit does not count the back-EMF.')
    if 'max_velocity' in p:
        notes.append('The set point follows the command at once, whatever max_velocity says.')
    return PlainActuator(
        'position',
        kp=part * loop.kp,
        kv=part * loop.kv,
        limit=part * limit,
        armature=p['armature'],
        damping=damping,
        frictionloss=friction.frictionloss,
        notes=tuple(filter(None, (*notes, friction.note))),
    )


class PendulumLoad(NamedTuple):
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
    def of(cls, log: ServoLog, offset: float) -> PendulumLoad:
        """Return the load that a log was recorded with."""
        return cls(log.mass, log.arm_mass, log.length, offset)


def snippet(actuator: PlainActuator, joint: str = 'servo') -> tuple[str, str]:
    """Return what to paste into an MJCF file: a joint and an actuator.

    The joint's axis and place are those of the model that it goes into.

    Args:
        actuator: The numbers.
        joint: Name of both.
    """
    attributes = {
        'armature': (actuator.armature,),
        'damping': (actuator.damping,),
        'frictionloss': (actuator.frictionloss,),
        **(_STIFF if actuator.frictionloss else {}),
    }
    name = quoteattr(joint)
    driven = _attributes(_of_actuator(actuator))
    return (
        f'<joint name={name} {_attributes(attributes)}/>',
        f'<{actuator.element} name={name} joint={name} {driven}/>',
    )


def pendulum_mjcf(actuator: PlainActuator, load: PendulumLoad, comments: Iterable[str] = ()) -> str:
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
    # Two hyphens would end the comment.
    safe = [re.sub('-(?=-)', '- ', one_line(comment)) for comment in comments]
    head = ''.join(f'\n  {line}' for line in safe)
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
    path: Path, actuator: PlainActuator, load: PendulumLoad, comments: Iterable[str] = ()
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


class Nearness(NamedTuple):
    """How far MuJoCo's motion of one log is from the law's.

    Attributes:
        log: Its name.
        powered: Root mean square of the difference while the motor is powered, rad; NaN if never.
        off: The same while it is not.
        error: Mean absolute difference of MuJoCo's motion from the measured one, rad.
        law_error: The same of the law's, with the sampling period as step, as a fit has it.
    """

    log: str
    powered: float
    off: float
    error: float
    law_error: float


def nearness(
    servo: Servo,
    values: Mapping[str, float],
    logs: Sequence[ServoLog],
    friction: PlainFriction,
    element: Element | None = None,
    timestep: float = TIMESTEP,
) -> tuple[Nearness, ...]:
    """Compare MuJoCo's motions with the law's, which takes shorter steps.

    Each log has its own gain, supply and load.

    Args:
        servo: The laws.
        values: Of ``servo.coefficients``.
        logs: At least one, of one sampling period.
        friction: What stands for the friction law.
        element: The actuator; the better one unless given.
        timestep: Of MuJoCo, s; rounded so that it fits into the sampling period.

    Raises:
        FitError: The sampling periods of the logs differ.
    """
    bench = stack_logs(servo, logs).timed(values)
    steps = max(round(bench.dt / timestep), 1)
    own = candidate(servo, values)
    fine_steps = _FINER * steps
    exact = bench.read(simulate(servo, finer(bench, fine_steps), own).position[::fine_steps, 0])
    usual = bench.read(simulate(servo, bench, own).position[:, 0])
    offset = float({**servo.type.constants, **values}['q_offset'])
    motions = np.zeros_like(bench.position)
    for place, log in enumerate(logs):
        actuator = plain_actuator(
            servo,
            values,
            kp=log.constants.get('kp'),
            vin=log.constants.get('vin') if 'vin' in servo.type.constants else None,
            friction=friction,
            element=element,
        )
        model = compiled(pendulum_mjcf(actuator, PendulumLoad.of(log, offset)))
        model.opt.timestep = bench.dt / steps
        own_rows = slice(int(bench.lengths[place]))
        motions[own_rows, place] = rollout(
            model,
            (float(bench.position[0, place]), float(bench.speed[0, place])),
            bench.goal[own_rows, place],
            bench.enabled[own_rows, place],
            steps,
        )
    moved = bench.read(motions)
    found = []
    for place, log in enumerate(logs):
        motion = moved[: len(log), place]
        missed = motion - exact[: len(log), place]
        on = log.enabled > 0
        found.append(
            Nearness(
                log.name,
                powered=_root_mean_square(missed[on]),
                off=_root_mean_square(missed[~on]),
                error=float(np.mean(np.abs(motion - log.position))),
                law_error=float(np.mean(np.abs(usual[: len(log), place] - log.position))),
            )
        )
    return tuple(found)


def rollout(
    model: mujoco.MjModel, start: tuple[float, float], goals: Array, enabled: Array, steps: int
) -> Array:
    """Simulate a pendulum in MuJoCo.

    Args:
        model: With a servo as plain MJCF.
        start: Position, rad, and velocity, rad/s.
        goals: (n,) commands, rad, each held for so many steps.
        enabled: (n,) where the motor is off, the actuator is disabled.
        steps: Of MuJoCo for each command.

    Returns:
        (n,) positions before those steps, rad.
    """
    # Commands are the log's, whatever the slider's ends.
    model.actuator_ctrllimited[:] = False
    data = mujoco.MjData(model)
    data.qpos[0], data.qvel[0] = start
    found = np.empty(len(goals))
    for row, (goal, on) in enumerate(zip(goals, enabled, strict=True)):
        found[row] = data.qpos[0]
        data.ctrl[0] = goal
        model.opt.disableactuator = 0 if on else 1
        mujoco.mj_step(model, data, nstep=steps)
    return found


def finer(bench: PendulumLogs, steps: int) -> PendulumLogs:
    """Return logs with so many samples in place of each; commands are held between the old ones."""

    def held(series: Array) -> Array:
        found: Array = np.repeat(series, steps, axis=0)
        return found

    return dataclasses.replace(
        bench,
        dt=bench.dt / steps,
        lengths=bench.lengths * steps,
        position=held(bench.position),
        goal=held(bench.goal),
        enabled=held(bench.enabled),
        speed=held(bench.speed),
    )


def _root_mean_square(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2))) if len(values) else float('nan')

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The table of targets that are written by numbers, and of those that no MJCF holds."""

from __future__ import annotations

import math
from collections.abc import Callable

from sysid_ros.model.targets import needs, slots
from sysid_ros.model.targets.kinds import INFINITY, Bounds, Coupling, Kind, Role

#: Numbers of the laws of servos, which are those of ``sysid_ros.servos``. The armature of a servo
#: is that of its joint: ``joint/NAME/armature``.
_SERVO_UNITS = {
    'kt': 'N·m/A',
    'R': 'Ω',
    'error_gain_ratio': '1',
    'ratio': '1',
    'max_velocity': 'rad/s',
    'max_torque': 'N·m',
    'current_limit': 'A',
    'friction_base': 'N·m',
    'friction_stribeck': 'N·m',
    'load_friction_base': '1',
    'load_friction_stribeck': '1',
    'load_friction_motor': '1',
    'load_friction_external': '1',
    'load_friction_motor_stribeck': '1',
    'load_friction_external_stribeck': '1',
    'load_friction_motor_quad': '1/(N·m)',
    'load_friction_external_quad': '1/(N·m)',
    'dtheta_stribeck': 'rad/s',
    'alpha': '1',
    'friction_viscous': 'N·m·s/rad',
}
#: Of these, the ones that are divisors or exponents.
_SERVO_DIVISORS = frozenset({'R', 'dtheta_stribeck', 'alpha'})
_POSITIVE = (1e-6, INFINITY)
_NONNEGATIVE = (0.0, INFINITY)

#: Attributes that an actuator has where a servo's law drives its joint.
SERVO: dict[str, Kind] = {
    name: Kind(
        unit,
        _POSITIVE if name in _SERVO_DIVISORS else _NONNEGATIVE,
        role=Role.LAW,
        needs=needs.on_scalar_joint,
    )
    for name, unit in _SERVO_UNITS.items()
}


_ANY = (-INFINITY, INFINITY)
#: A body must have mass to move: MuJoCo refuses moving bodies below mjMINVAL.
_MASS = (1e-6, INFINITY)
_POLYNOMIAL = (_NONNEGATIVE, _ANY, _ANY)
#: dmin, dmax, width, midpoint, power; MuJoCo clamps the first two and the fourth to [1e-4, .9999].
_SOLIMP = ((0.0, 1.0), (0.0, 1.0), _NONNEGATIVE, (0.0, 1.0), (1.0, INFINITY))
_DAMPING = ('N·m·s/rad', 'N·m·s²/rad²', 'N·m·s³/rad³')
_SLIDE_DAMPING = ('N·s/m', 'N·s²/m²', 'N·s³/m³')
_STIFFNESS = ('N·m/rad', 'N·m/rad²', 'N·m/rad³')
_SLIDE_STIFFNESS = ('N/m', 'N/m²', 'N/m³')
#: Units of θ: logarithms of a mass's root and of lengths, then shears and the centre of mass.
_THETA_SERVO_UNITS = ('1', '1', '1', '1', 'm', 'm', 'm', 'm', 'm', 'm')
#: Free components of θ are at most a factor of 10 in mass, 10 in size and 1 m away by default.
_THETA_REACH = (0.5 * math.log(10),) + 3 * (math.log(10),) + 6 * (1.0,)
#: A delay is not longer than this unless told otherwise, s.
_LONGEST_DELAY = 0.1
#: A joint's zero is at most so far from the model's unless told otherwise, rad or m: 17°.
_FARTHEST_ZERO = 0.3


def _delay(nominal: float, _: int) -> Bounds:
    return (0.0, max(_LONGEST_DELAY, 2 * nominal))


def _within(reach: float) -> Callable[[float, int], Bounds]:
    return lambda nominal, _: (nominal - reach, nominal + reach)


def _theta(nominal: float, index: int) -> Bounds:
    return (nominal - _THETA_REACH[index], nominal + _THETA_REACH[index])


def _mass_or_length(nominal: float, index: int) -> Bounds:
    # The centre of mass is at most 1 m from where the model has it.
    return (nominal - 1.0, nominal + 1.0) if index else (_MASS[0], 100 * max(nominal, 1.0))


def _same_sign(nominal: float, _: int) -> Bounds:
    # Two positive numbers of a solref are time constant and damping ratio, two negative ones
    # stiffness and damping; one of each is an error.
    bounds = (nominal / 100, nominal * 100)
    return (min(bounds), max(bounds)) if nominal else (-1.0, 1.0)


def _solref(field: slots.SlotsOf, need: needs.Need | None = None) -> Kind:
    return Kind('', _ANY, field, size=2, reach=_same_sign, needs=need)


def _solimp(field: slots.SlotsOf, need: needs.Need | None = None) -> Kind:
    return Kind('', _SOLIMP, field, size=5, needs=need)


def _range(unit: str, field: slots.SlotsOf, need: needs.Need, slide: str | None = None) -> Kind:
    return Kind(unit, _ANY, field, size=2, slide_unit=slide, needs=need)


def _place(field: str, need: needs.Need | None = None) -> Kind:
    return Kind('m', _ANY, slots.row(field), size=3, bare='each', needs=need, reach=_within(1.0))


def _quaternion(field: str, need: needs.Need | None = None) -> Kind:
    return Kind(
        '1',
        _ANY,
        slots.row(field),
        coupling=Coupling.UNIT,
        size=4,
        bare='each',
        needs=need,
        reach=_within(0.5),
    )


def _polynomial(
    units: tuple[str, ...],
    linear: slots.SlotsOf,
    higher: slots.SlotsOf,
    need: needs.Need | None = None,
    slide: tuple[str, ...] | None = None,
) -> Kind:
    field = slots.polynomial(linear, higher)
    return Kind(units, _POLYNOMIAL, field, size=3, scalar=True, slide_unit=slide, needs=need)


def _mass_ipos(mass: slots.SlotsOf, need: needs.Need | None = None) -> Kind:
    return Kind(
        ('kg', 'm', 'm', 'm'),
        (_MASS, _ANY, _ANY, _ANY),
        slots.mass_ipos(mass),
        size=4,
        bare='each',
        needs=need,
        reach=_mass_or_length,
    )


def _parameters(field: str, need: needs.Need | None = None) -> Kind:
    return Kind('', _ANY, slots.row(field), size=10, needs=need)


def _state(unit: str, width: str, reach: float, slide: str | None = None) -> Kind:
    return Kind(
        unit,
        _ANY,
        role=Role.SEQUENCE,
        size=0,
        bare='each',
        count=lambda model, _: int(getattr(model, width)),
        slide_unit=slide,
        reach=_within(reach),
    )


_JOINT: dict[str, Kind] = {
    'armature': Kind(
        'kg·m²', _NONNEGATIVE, slots.dof('dof_armature'), slide_unit='kg', needs=needs.drive
    ),
    'damping': _polynomial(
        _DAMPING,
        slots.dof('dof_damping'),
        slots.dof('dof_dampingpoly'),
        needs.drive,
        _SLIDE_DAMPING,
    ),
    'frictionloss': Kind(
        'N·m', _NONNEGATIVE, slots.dof('dof_frictionloss'), slide_unit='N', needs=needs.drive
    ),
    'stiffness': _polynomial(
        _STIFFNESS,
        slots.row('jnt_stiffness'),
        slots.row('jnt_stiffnesspoly'),
        needs.drive,
        _SLIDE_STIFFNESS,
    ),
    'springref': Kind('rad', _ANY, slots.springref, slide_unit='m', needs=needs.scalar_joint),
    # What encoder and commands share, written as ref: the compiled model holds it, too.
    'zero': Kind(
        'rad',
        _ANY,
        slots.zero,
        slide_unit='m',
        needs=needs.scalar_joint,
        reach=_within(_FARTHEST_ZERO),
    ),
    'ref': Kind('rad', _ANY, role=Role.SPEC, slide_unit='m', needs=needs.scalar_joint),
    'range': _range('rad', slots.row('jnt_range'), needs.joint_range, 'm'),
    'margin': Kind('rad', _NONNEGATIVE, slots.row('jnt_margin'), slide_unit='m'),
    'actuatorfrcrange': _range(
        'N·m',
        slots.row('jnt_actfrcrange'),
        needs.limits('jnt_actfrclimited', 'a joint with actuator force limits'),
        'N',
    ),
    'solreflimit': _solref(slots.row('jnt_solref')),
    'solimplimit': _solimp(slots.row('jnt_solimp')),
    'solreffriction': _solref(slots.dof('dof_solref'), needs.drive),
    'solimpfriction': _solimp(slots.dof('dof_solimp'), needs.drive),
    'pos': _place('jnt_pos', needs.drive),
}

_BODY: dict[str, Kind] = {
    'mass': Kind('kg', _MASS, slots.row('body_mass')),
    'mass_scaled': Kind('kg', _MASS, slots.mass_scaled, needs=needs.massive),
    'ipos': _place('body_ipos'),
    'mass_ipos': _mass_ipos(slots.row('body_mass')),
    'mass_ipos_scaled': _mass_ipos(slots.mass_scaled, needs.massive),
    'inertia': Kind(
        _THETA_SERVO_UNITS,
        _ANY,
        coupling=Coupling.THETA,
        size=10,
        bare='each',
        needs=needs.voluminous,
        reach=_theta,
    ),
    'subtree_mass': Kind(
        '1', _MASS, coupling=Coupling.SCALE, nominal=1.0, reach=lambda _, __: (0.1, 10.0)
    ),
    'gravcomp': Kind('1', _ANY, slots.row('body_gravcomp')),
    'pos': _place('body_pos', needs.fixed_start),
    'quat': _quaternion('body_quat', needs.fixed_start),
}

_GEOM: dict[str, Kind] = {
    'friction': Kind(('1', 'm', 'm'), _NONNEGATIVE, slots.row('geom_friction'), size=3),
    'solref': _solref(slots.row('geom_solref')),
    'solimp': _solimp(slots.row('geom_solimp')),
    'margin': Kind('m', _NONNEGATIVE, slots.row('geom_margin')),
    'gap': Kind('m', _NONNEGATIVE, slots.row('geom_gap')),
    'solmix': Kind('1', _NONNEGATIVE, slots.row('geom_solmix')),
    'size': Kind('m', _NONNEGATIVE, role=Role.SPEC, size=3),
    'density': Kind('kg/m³', _NONNEGATIVE, role=Role.SPEC),
    'mass': Kind('kg', _NONNEGATIVE, role=Role.SPEC),
}

_SITE: dict[str, Kind] = {
    'pos': _place('site_pos'),
    'quat': _quaternion('site_quat'),
}

_PAIR: dict[str, Kind] = {
    'friction': Kind(('1', '1', 'm', 'm', 'm'), _NONNEGATIVE, slots.row('pair_friction'), size=5),
    'solref': _solref(slots.row('pair_solref')),
    'solreffriction': Kind('', _ANY, slots.row('pair_solreffriction'), size=2),
    'solimp': _solimp(slots.row('pair_solimp')),
    'margin': Kind('m', _NONNEGATIVE, slots.row('pair_margin')),
    'gap': Kind('m', _NONNEGATIVE, slots.row('pair_gap')),
}

_TENDON: dict[str, Kind] = {
    'stiffness': _polynomial(
        _SLIDE_STIFFNESS, slots.row('tendon_stiffness'), slots.row('tendon_stiffnesspoly')
    ),
    'damping': _polynomial(
        _SLIDE_DAMPING, slots.row('tendon_damping'), slots.row('tendon_dampingpoly')
    ),
    'frictionloss': Kind('N', _NONNEGATIVE, slots.row('tendon_frictionloss')),
    'armature': Kind('kg', _NONNEGATIVE, slots.row('tendon_armature')),
    'springlength': Kind('m', _NONNEGATIVE, slots.row('tendon_lengthspring'), size=2, bare='all'),
    'range': _range(
        'm', slots.row('tendon_range'), needs.limits('tendon_limited', 'a tendon with limits')
    ),
    # Widths of ranges around zero: how far a gear turns freely, and what a servo does not correct.
    'play': Kind(
        'm',
        _NONNEGATIVE,
        slots.around_zero('tendon_range'),
        needs=needs.symmetric('tendon_range', 'a tendon with a range of -w/2 to w/2'),
    ),
    'deadband': Kind(
        'm',
        _NONNEGATIVE,
        slots.around_zero('tendon_lengthspring'),
        needs=needs.symmetric('tendon_lengthspring', 'a tendon with springlength -w/2 w/2'),
    ),
    'margin': Kind('m', _NONNEGATIVE, slots.row('tendon_margin')),
    'actuatorfrcrange': _range(
        'N',
        slots.row('tendon_actfrcrange'),
        needs.limits('tendon_actfrclimited', 'a tendon with actuator force limits'),
    ),
    'solreflimit': _solref(slots.row('tendon_solref_lim')),
    'solimplimit': _solimp(slots.row('tendon_solimp_lim')),
    'solreffriction': _solref(slots.row('tendon_solref_fri')),
    'solimpfriction': _solimp(slots.row('tendon_solimp_fri')),
}

_EQUALITY: dict[str, Kind] = {
    'solref': _solref(slots.row('eq_solref')),
    'solimp': _solimp(slots.row('eq_solimp')),
    'data': Kind('', _ANY, slots.row('eq_data'), size=12, needs=needs.equality_data),
}

_ACTUATOR: dict[str, Kind] = {
    'kp': Kind('N·m/rad', _NONNEGATIVE, slots.kp, needs=needs.position_servo),
    'kv': Kind('N·m·s/rad', _NONNEGATIVE, slots.kv, needs=needs.affine_bias),
    'ki': Kind('N·m/(rad·s)', _NONNEGATIVE, slots.row('actuator_gainprm'), needs=needs.pid),
    'gear': Kind('1', _ANY, slots.gear, size=6),
    'gainprm': _parameters('actuator_gainprm', needs.stateless('actuator_gainprm')),
    'biasprm': _parameters('actuator_biasprm'),
    'dynprm': _parameters('actuator_dynprm', needs.stateless('actuator_dynprm')),
    'forcerange': _range(
        'N·m',
        slots.row('actuator_forcerange'),
        needs.limits('actuator_forcelimited', 'an actuator with a force range'),
    ),
    # What a servo pushes with at most, both ways.
    'forcelimit': Kind(
        'N·m',
        _NONNEGATIVE,
        slots.around_zero('actuator_forcerange', share=1.0),
        needs=needs.symmetric('actuator_forcerange', 'an actuator with a force range of -f to f'),
    ),
    'ctrlrange': _range(
        '',
        slots.control_range,
        needs.limits(
            'actuator_ctrllimited',
            'an actuator with a control range',
            row=lambda model, actuator: int(model.actuator_ctrladr[actuator]),
        ),
    ),
    'actrange': _range(
        '',
        slots.row('actuator_actrange'),
        needs.limits('actuator_actlimited', 'an actuator with an activation range'),
    ),
    'armature': Kind('kg·m²', _NONNEGATIVE, slots.row('actuator_armature')),
    'damping': _polynomial(
        _DAMPING, slots.row('actuator_damping'), slots.row('actuator_dampingpoly')
    ),
    'gain': Kind('1', _ANY, role=Role.COMMAND, nominal=1.0, reach=lambda _, __: (0.1, 10.0)),
    'bias': Kind('', _ANY, role=Role.COMMAND),
    'delay': Kind('s', _NONNEGATIVE, role=Role.COMMAND, reach=_delay),
}

_SENSOR: dict[str, Kind] = {
    'gain': Kind(
        '1',
        _ANY,
        role=Role.SENSOR,
        size=0,
        bare='all',
        count=slots.sensor_size,
        nominal=1.0,
        reach=lambda _, __: (0.1, 10.0),
    ),
    'bias': Kind('', _ANY, role=Role.SENSOR, size=0, bare='each', count=slots.sensor_size),
    # Stamps may also be late, which is a negative delay of the values that they belong to.
    'delay': Kind('s', _ANY, role=Role.SENSOR, reach=_within(_LONGEST_DELAY)),
}

_OPTION: dict[str, Kind] = {
    'gravity': Kind('m/s²', _ANY, slots.option('gravity'), size=3),
    'wind': Kind('m/s', _ANY, slots.option('wind'), size=3),
    'magnetic': Kind('T', _ANY, slots.option('magnetic'), size=3),
    'density': Kind('kg/m³', _NONNEGATIVE, slots.option('density')),
    'viscosity': Kind('Pa·s', _NONNEGATIVE, slots.option('viscosity')),
    'impratio': Kind('1', _MASS, slots.option('impratio')),
    'o_margin': Kind('m', _NONNEGATIVE, slots.option('o_margin')),
    'o_solref': _solref(slots.option('o_solref')),
    'o_solimp': _solimp(slots.option('o_solimp')),
    'o_friction': Kind(('1', '1', 'm', 'm', 'm'), _NONNEGATIVE, slots.option('o_friction'), size=5),
}

#: Only so many messages of a sequence have an offset each.
MOST_TRAJECTORIES = 20
_SEQUENCE: dict[str, Kind] = {
    'arrival_offset': Kind('s', _ANY, role=Role.SEQUENCE, reach=_within(0.025)),
    # Of each message that a controller interpolates between the points of, in turn.
    'trajectory_offset': Kind(
        's', _ANY, role=Role.SEQUENCE, size=MOST_TRAJECTORIES, reach=_within(0.025)
    ),
    'update_phase': Kind('s', _ANY, role=Role.SEQUENCE, reach=_within(0.01)),
    'update_ripple': Kind('1', _ANY, role=Role.SEQUENCE, reach=_within(2.0)),
    'update_blur': Kind('1', _ANY, role=Role.SEQUENCE, reach=_within(2.0)),
    'initial_qpos': _state('rad', 'nq', 1.0, 'm'),
    'initial_qvel': _state('rad/s', 'nv', 10.0, 'm/s'),
    'initial_act': _state('', 'na', 10.0),
}

#: Every kind, by element and attribute.
KINDS: dict[tuple[str, str], Kind] = {
    (element, attribute): kind
    for element, table in (
        ('joint', _JOINT),
        ('body', _BODY),
        ('geom', _GEOM),
        ('site', _SITE),
        ('pair', _PAIR),
        ('tendon', _TENDON),
        ('equality', _EQUALITY),
        ('actuator', {**_ACTUATOR, **SERVO}),
        ('sensor', _SENSOR),
        ('option', _OPTION),
        ('sequence', _SEQUENCE),
    )
    for attribute, kind in table.items()
}

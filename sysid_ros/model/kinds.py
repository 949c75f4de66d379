# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Kinds of targets: role, unit, bounds and the numbers that each writes, and the table of them."""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysid_ros.errors import ParameterError
from sysid_ros.model.elements import SCALAR_JOINTS, TO_JOINT, dofs, is_orientation
from sysid_ros.model.inertia import Inertial, theta_from_body

SlotsOf = Callable[[mujoco.MjModel, int, int], 'list[Slot]']

#: Options of a model are named as in ``mujoco.batch.MODEL_FIELDS``.
_OPTION = 'opt.'


class Slot(NamedTuple):
    """One number of a compiled model that follows a value: ``factor * value``."""

    field: str  # as in ``mujoco.batch.MODEL_FIELDS``: ``dof_armature``, ``opt.gravity``
    place: int  # flat index into the field
    factor: float = 1.0


def read_field(model: mujoco.MjModel, field: str) -> NDArray[np.float64]:
    """Return a copy of a field of a model, or of its options, as a flat array."""
    return np.array(_get(model, field), dtype=np.float64).reshape(-1)


def write_field(
    model: mujoco.MjModel, field: str, index: NDArray[np.int64], values: ArrayLike
) -> None:
    """Set numbers of a field of a model or of its options."""
    numbers = _get(model, field)
    if isinstance(numbers, np.ndarray):
        numbers.reshape(-1)[index] = values  # a view: fields of a model are contiguous
    else:
        setattr(model.opt, field.removeprefix(_OPTION), float(np.asarray(values).item()))


def _get(model: mujoco.MjModel, field: str) -> Any:
    owner = model.opt if field.startswith(_OPTION) else model
    return getattr(owner, field.removeprefix(_OPTION))


def row(field: str, *, factor: float = 1.0) -> SlotsOf:
    """Return the slots of a field that has one row per element."""

    def slots(model: mujoco.MjModel, element: int, index: int) -> list[Slot]:
        width = int(np.prod(getattr(model, field).shape[1:]))
        return [Slot(field, element * width + index, factor)]

    return slots


def option(name: str) -> SlotsOf:
    """Return the slots of an option of the model."""
    return lambda _model, _element, index: [Slot(_OPTION + name, index)]


def dof(field: str) -> SlotsOf:
    """Return the slots of a field with one row per degree of freedom, all of a joint alike."""

    def slots(model: mujoco.MjModel, joint: int, index: int) -> list[Slot]:
        width = int(np.prod(getattr(model, field).shape[1:]))
        return [Slot(field, number * width + index) for number in dofs(model, joint)]

    return slots


def polynomial(linear: SlotsOf, higher: SlotsOf) -> SlotsOf:
    """Return the slots of a polynomial whose first coefficient has a field of its own."""
    return lambda model, element, index: (
        higher(model, element, index - 1) if index else linear(model, element, 0)
    )


def row_polynomial(field: str) -> SlotsOf:
    """Return the slots of a polynomial with one row per element in two fields."""
    return polynomial(row(field), row(f'{field}poly'))


def of_joint(field: str) -> SlotsOf:
    """Return the slot of a position of a hinge or slide."""
    return lambda model, joint, _: [Slot(field, int(model.jnt_qposadr[joint]))]


def around_zero(field: str, share: float = 0.5) -> SlotsOf:
    """Return the slots of a range around zero: of its width or, with a share of 1, of its ends."""

    def slots(_: mujoco.MjModel, element: int, __: int) -> list[Slot]:
        return [Slot(field, 2 * element, -share), Slot(field, 2 * element + 1, share)]

    return slots


def kp(model: mujoco.MjModel, actuator: int, _: int) -> list[Slot]:
    """Return the slots of a position gain: gain kp and bias -kp, or in a PID only the bias."""
    bias = row('actuator_biasprm', factor=-1.0)(model, actuator, 1)
    if model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_PID:
        return bias
    return [*row('actuator_gainprm')(model, actuator, 0), *bias]


def kv(model: mujoco.MjModel, actuator: int, _: int) -> list[Slot]:
    """Return the slots of a velocity gain: bias -kv, and in <velocity> also gain kv."""
    slots = row('actuator_biasprm', factor=-1.0)(model, actuator, 2)
    if (
        model.actuator_ctrlspec[actuator] == mujoco.mjtCtrlInput.mjINPUT_VEL
        and model.actuator_dyntype[actuator] == mujoco.mjtDyn.mjDYN_NONE
        and model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_FIXED
    ):
        slots += row('actuator_gainprm')(model, actuator, 0)
    return slots


def gear(model: mujoco.MjModel, actuator: int, index: int) -> list[Slot]:
    """Return the slot of the gear of an actuator's first force output; it may have several."""
    return [Slot('actuator_gear', 6 * int(model.actuator_outadr[actuator]) + index)]


def control_range(model: mujoco.MjModel, actuator: int, index: int) -> list[Slot]:
    """Return the slot of the range of an actuator's first control; it may have several."""
    return [Slot('actuator_ctrlrange', 2 * int(model.actuator_ctrladr[actuator]) + index)]


def mass_scaled(model: mujoco.MjModel, body: int, _: int) -> list[Slot]:
    """Return the slots of a mass with its inertia, which scales with it."""
    moments = model.body_inertia[body] / model.body_mass[body]
    return [
        Slot('body_mass', body),
        *(Slot('body_inertia', 3 * body + axis, float(moments[axis])) for axis in range(3)),
    ]


def mass_ipos(mass_slots: SlotsOf) -> SlotsOf:
    """Return the slots of a mass (component 0) and its centre (components 1 to 3)."""
    return lambda model, body, index: (
        row('body_ipos')(model, body, index - 1) if index else mass_slots(model, body, 0)
    )


#: Takes a compiled model, the row of an element and a component; returns None where the element has
#: such a value, else what it would have to be: the end of "joint 'j' is not …".
Need = Callable[[mujoco.MjModel, int, int], str | None]

#: Components of ``eq_data`` that the user sets, by type: the others are derived from them, or say
#: which way they are (MuJoCo 4.0).
EQUALITY_DATA = {
    mujoco.mjtEq.mjEQ_CONNECT: (0, 1, 2),
    mujoco.mjtEq.mjEQ_WELD: (0, 1, 2, 10),
    mujoco.mjtEq.mjEQ_JOINT: (0, 1, 2, 3, 4),
    mujoco.mjtEq.mjEQ_TENDON: (0, 1, 2, 3, 4),
}


def _need(what: str, fits: Callable[[mujoco.MjModel, int], bool]) -> Need:
    """Return why an element has no value of some kind: what it would have to be, else None."""
    return lambda model, row, _: None if fits(model, row) else what


def _is(value: object, *members: object) -> bool:
    # An enum of MuJoCo equals no NumPy integer to its right.
    return any(value == member for member in members)


def _on_scalar_joint(model: mujoco.MjModel, actuator: int) -> bool:
    joint = model.actuator_trnid[actuator, 0]
    return model.actuator_trntype[actuator] in TO_JOINT and model.jnt_type[joint] in SCALAR_JOINTS


def _affine(model: mujoco.MjModel, actuator: int) -> bool:
    return _is(model.actuator_biastype[actuator], mujoco.mjtBias.mjBIAS_AFFINE)


def _position_servo(model: mujoco.MjModel, actuator: int) -> bool:
    gain, bias = model.actuator_gainprm[actuator, 0], model.actuator_biasprm[actuator, 1]
    kind = model.actuator_gaintype[actuator]
    servo = _is(kind, mujoco.mjtGain.mjGAIN_FIXED) and gain == -bias
    return _affine(model, actuator) and bool(servo or _is(kind, mujoco.mjtGain.mjGAIN_PID))


def _voluminous(model: mujoco.MjModel, body: int) -> bool:
    try:
        theta_from_body(*Inertial.of_body(model, body))
    except ParameterError:
        return False
    return True


def _floats(model: mujoco.MjModel, body: int) -> bool:
    first = model.body_jntadr[body]
    return bool(first >= 0 and _is(model.jnt_type[first], mujoco.mjtJoint.mjJNT_FREE))


POSITION_SERVO = _need('a position actuator (gain kp, bias -kp)', _position_servo)
ON_SCALAR_JOINT = _need('an actuator of a hinge or slide joint', _on_scalar_joint)
AFFINE_BIAS = _need('an actuator with an affine bias', _affine)
SCALAR_JOINT = _need(
    'a hinge or slide joint', lambda model, joint: bool(model.jnt_type[joint] in SCALAR_JOINTS)
)
#: A joint of the robot, which ``joint/*`` is meant for, not a <freejoint>.
NOT_FREE = _need(
    'a hinge, slide or ball joint',
    lambda model, joint: not _is(model.jnt_type[joint], mujoco.mjtJoint.mjJNT_FREE),
)
MASSIVE = _need('a body with mass', lambda model, body: bool(model.body_mass[body] > 0))
#: An inertia that θ can express.
VOLUMINOUS = _need(
    'a body whose mass is positive and any two of whose moments exceed the third', _voluminous
)
#: A body whose pose is not the start of a free joint.
FIXED_START = _need('a body without a free joint', lambda model, body: not _floats(model, body))
#: Integral action cannot be switched on without another activation state.
PID = _need(
    'a PID actuator with integral action',
    lambda model, actuator: bool(
        _is(model.actuator_gaintype[actuator], mujoco.mjtGain.mjGAIN_PID)
        and model.actuator_gainprm[actuator, 0] != 0
    ),
)


def limits(flag: str, what: str) -> Need:
    """Expect a range that is switched on: the compiler decides that, not the range itself."""
    return _need(what, lambda model, row: bool(getattr(model, flag)[row]))


def control_limits(what: str) -> Need:
    """Expect a range of an actuator's first control."""
    return _need(
        what, lambda model, row: bool(model.actuator_ctrllimited[model.actuator_ctrladr[row]])
    )


def symmetric(field: str, what: str) -> Need:
    """Expect a range that is there, as far on both sides of zero."""

    def fits(model: mujoco.MjModel, row: int) -> bool:
        low, high = getattr(model, field)[row]
        return bool(low == -high != 0)

    return _need(what, fits)


def joint_range(model: mujoco.MjModel, joint: int, index: int) -> str | None:
    """Expect limits; those of a ball joint are one angle, the second component."""
    if _is(model.jnt_type[joint], mujoco.mjtJoint.mjJNT_BALL) and index == 0:
        return 'a joint with a lower limit'
    return None if model.jnt_limited[joint] else 'a joint with limits'


def stateless(field: str) -> Need:
    """Expect a number that adds no activation state: in a PID or DC motor, those above 0 may."""
    stateful = (mujoco.mjtGain.mjGAIN_PID, mujoco.mjtGain.mjGAIN_DCMOTOR)

    def need(model: mujoco.MjModel, actuator: int, index: int) -> str | None:
        feature = _is(model.actuator_gaintype[actuator], *stateful)
        if feature and getattr(model, field)[actuator, index] == 0:
            return f'an actuator that uses {field.removeprefix("actuator_")}[{index}]'
        return None

    return need


def equality_data(model: mujoco.MjModel, equality: int, index: int) -> str | None:
    """Expect a component that the user sets."""
    known = EQUALITY_DATA.get(mujoco.mjtEq(model.eq_type[equality]), ())
    if _is(model.eq_objtype[equality], mujoco.mjtObj.mjOBJ_SITE):
        known = tuple(component for component in known if component > 2)  # noqa: PLR2004 (x y z)
    return None if index in known else f'an equality whose data[{index}] is set by the user'


Bounds = tuple[float, float]


class Role(enum.Enum):
    """Where a value acts.

    ``FIELD``: a number of the compiled model, or several that are written together. ``SPEC``: an
    attribute that the compiler has to see again. ``COMMAND``: gain, bias and delay of an
    actuator's commands. ``SENSOR``: gain, bias and delay of a sensor's predictions.
    ``SEQUENCE``: the state in which a sequence starts. ``LAW``: a number of the law by which a
    servo drives a joint, which no model holds.
    """

    FIELD = 'field'
    SPEC = 'spec'
    COMMAND = 'command'
    SENSOR = 'sensor'
    SEQUENCE = 'sequence'
    LAW = 'law'


class Coupling(enum.Enum):
    """How components become numbers of the model that no single component gives."""

    THETA = 'theta'  # ten log-Cholesky parameters of a body's inertia
    TURN = 'turn'  # a rotation vector, by which the model's own orientation is turned
    SCALE = 'scale'  # a factor on mass and inertia of a subtree


@dataclass(frozen=True)
class Kind:
    """One kind of target.

    Units and bounds are one per component where they differ; units of joints are those of a hinge.
    """

    unit: str | tuple[str, ...]
    bounds: Bounds | tuple[Bounds, ...]  # what physics allows
    slots: SlotsOf | None = None  # the numbers of a compiled model that follow the value linearly
    role: Role = Role.FIELD
    coupling: Coupling | None = None
    size: int = 1  # number of components; 0 where it depends on the element, see ``count``
    #: What a path without an index means: the first component, each of them, or one value for all.
    bare: Literal['first', 'each', 'all'] = 'first'
    scalar: bool = False  # whether component 0 is written without an index, the others extend it
    slide_unit: str | tuple[str, ...] | None = None  # at a slide joint, where it differs
    needs: Need | None = None  # why an element has no such value
    count: Callable[[mujoco.MjModel, int], int] | None = None
    #: Bounds by default around a start, for values that physics leaves open.
    reach: Callable[[float, int], Bounds] | None = None
    nominal: float = 0.0  # the value that changes nothing, where no model holds one

    def components(self, model: mujoco.MjModel, row: int) -> int:
        """Return how many components an element has."""
        return self.count(model, row) if self.count else self.size

    def component_unit(self, index: int, *, slide: bool = False) -> str:
        """Return the unit of one component."""
        unit = self.slide_unit if slide and self.slide_unit else self.unit
        return unit if isinstance(unit, str) else unit[index]

    def component_bounds(self, index: int) -> Bounds:
        """Return what physics allows for one component."""
        bounds = self.bounds[index] if isinstance(self.bounds[0], tuple) else self.bounds
        low, high = bounds
        return float(low), float(high)


#: Attributes of a spec whose name in MJCF is another one.
MJCF_NAMES = {
    'actfrcrange': 'actuatorfrcrange',
    'solref_limit': 'solreflimit',
    'solimp_limit': 'solimplimit',
    'solref_friction': 'solreffriction',
    'solimp_friction': 'solimpfriction',
    'fluid_coefs': 'fluidcoef',
}
SPEC_NAMES = {name: spelled for spelled, name in MJCF_NAMES.items()} | {'zero': 'ref'}
#: Numbers that move nothing: appearance, conveniences of the compiler, sizes of buffers, and what
#: decides how a solver works instead of what it solves.
_EXCLUDED = {
    'joint': {'springdamper'},
    'body': {'fullinertia', 'inertia', 'iquat'},
    'geom': {'fitscale', 'fromto', 'rgba', 'fluid_ellipsoid'},
    'site': {'fromto', 'rgba'},
    'tendon': {'rgba', 'width'},
    'actuator': {'inheritrange', 'delay'},
    'sensor': {'cutoff', 'delay', 'interval', 'noise'},
    'option': {
        'ccd_tolerance',
        'ls_tolerance',
        'noslip_tolerance',
        'sleep_tolerance',
        'timestep',
        'tolerance',
    },
}


@functools.cache
def spec_attributes(element: str) -> dict[str, int]:
    """Return the numeric attributes of a kind of element, as a spec names them, with their sizes.

    Attributes that move nothing are left out, and so are integers, which choose among algorithms.
    """
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body()
    makers: dict[str, Any] = {
        'joint': body.add_joint,
        'body': lambda: body,
        'geom': body.add_geom,
        'site': body.add_site,
        'pair': spec.add_pair,
        'tendon': spec.add_tendon,
        'equality': spec.add_equality,
        'actuator': spec.add_actuator,
        'sensor': spec.add_sensor,
        'option': lambda: spec.option,
    }
    made = makers[element]() if element in makers else None
    found: dict[str, int] = {}
    for name in dir(made):
        if name.startswith('_') or name in _EXCLUDED.get(element, ()):
            continue
        value = getattr(made, name)
        if isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype.kind == 'f'):
            found[name] = int(np.size(value))
    return found


def spec_name(element: str, attribute: str) -> str:
    """Return how a spec calls an attribute."""
    # A pair writes this one as MJCF does.
    pair = element == 'pair' and attribute == 'solreffriction'
    return attribute if pair else SPEC_NAMES.get(attribute, attribute)


@functools.cache
def spec_kind(element: str, attribute: str) -> Kind | None:
    """Return the kind of an attribute that only a spec has; None where it has none such."""
    size = spec_attributes(element).get(spec_name(element, attribute))
    return None if size is None else Kind('', (-math.inf, math.inf), role=Role.SPEC, size=size)


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
#: A divisor is above zero, and so is what moves: MuJoCo refuses moving bodies below mjMINVAL.
_POSITIVE = (1e-6, math.inf)
_NONNEGATIVE = (0.0, math.inf)
_ANY = (-math.inf, math.inf)

#: Attributes that an actuator has where a servo's law drives its joint.
SERVO: dict[str, Kind] = {
    name: Kind(
        unit,
        _POSITIVE if name in _SERVO_DIVISORS else _NONNEGATIVE,
        role=Role.LAW,
        needs=ON_SCALAR_JOINT,
    )
    for name, unit in _SERVO_UNITS.items()
}

_POLYNOMIAL = (_NONNEGATIVE, _ANY, _ANY)
#: dmin, dmax, width, midpoint, power; MuJoCo clamps the first two and the fourth to [1e-4, .9999].
_SOLIMP = ((0.0, 1.0), (0.0, 1.0), _NONNEGATIVE, (0.0, 1.0), (1.0, math.inf))
_DAMPING = ('N·m·s/rad', 'N·m·s²/rad²', 'N·m·s³/rad³')
_SLIDE_DAMPING = ('N·s/m', 'N·s²/m²', 'N·s³/m³')
_STIFFNESS = ('N·m/rad', 'N·m/rad²', 'N·m/rad³')
_SLIDE_STIFFNESS = ('N/m', 'N/m²', 'N/m³')
#: Units of θ: logarithms of a mass's root and of lengths, then shears and the centre of mass.
_THETA_UNITS = ('1', '1', '1', '1', 'm', 'm', 'm', 'm', 'm', 'm')
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
    return (nominal - 1.0, nominal + 1.0) if index else (_POSITIVE[0], 100 * max(nominal, 1.0))


def _same_sign(nominal: float, _: int) -> Bounds:
    # Two positive numbers of a solref are time constant and damping ratio, two negative ones
    # stiffness and damping; one of each is an error.
    bounds = (nominal / 100, nominal * 100)
    return (min(bounds), max(bounds)) if nominal else (-1.0, 1.0)


def _field(
    unit: str | tuple[str, ...],
    bounds: Bounds | tuple[Bounds, ...],
    field: str | SlotsOf,
    need: Need | None = None,
    **more: Any,
) -> Kind:
    """Return a kind that is a field of the compiled model, by the field's name or its slots."""
    return Kind(unit, bounds, row(field) if isinstance(field, str) else field, needs=need, **more)


def _solref(field: str | SlotsOf, need: Need | None = None) -> Kind:
    return _field('', _ANY, field, need, size=2, reach=_same_sign)


def _solimp(field: str | SlotsOf, need: Need | None = None) -> Kind:
    return _field('', _SOLIMP, field, need, size=5)


def _range(unit: str, field: str | SlotsOf, need: Need, slide: str | None = None) -> Kind:
    return _field(unit, _ANY, field, need, size=2, slide_unit=slide)


def _place(field: str, need: Need | None = None) -> Kind:
    return _field('m', _ANY, field, need, size=3, bare='each', reach=_within(1.0))


def _turn(need: Need | None = None) -> Kind:
    more: Any = {'bare': 'each', 'reach': _within(math.pi)}
    return Kind('rad', _ANY, coupling=Coupling.TURN, size=3, needs=need, **more)


def _polynomial(
    units: tuple[str, ...],
    field: SlotsOf,
    need: Need | None = None,
    slide: tuple[str, ...] | None = None,
) -> Kind:
    return _field(units, _POLYNOMIAL, field, need, size=3, scalar=True, slide_unit=slide)


def _mass_ipos(mass: SlotsOf, need: Need | None = None) -> Kind:
    bounds = (_POSITIVE, _ANY, _ANY, _ANY)
    more: Any = {'bare': 'each', 'reach': _mass_or_length}
    return _field(('kg', 'm', 'm', 'm'), bounds, mass_ipos(mass), need, size=4, **more)


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


_DRIVEN_JOINT = limits('jnt_actfrclimited', 'a joint with actuator force limits')
_STRONG_TENDON = limits('tendon_actfrclimited', 'a tendon with actuator force limits')
_SHORT_TENDON = limits('tendon_limited', 'a tendon with limits')
_STRONG_ACTUATOR = limits('actuator_forcelimited', 'an actuator with a force range')
_HELD_ACTIVATION = limits('actuator_actlimited', 'an actuator with an activation range')
_HELD_CONTROL = control_limits('an actuator with a control range')
_PLAY = symmetric('tendon_range', 'a tendon with a range of -w/2 to w/2')
_DEAD_BAND = symmetric('tendon_lengthspring', 'a tendon with springlength -w/2 w/2')
_EITHER_WAY = symmetric('actuator_forcerange', 'an actuator with a force range of -f to f')

_ROTOR: Any = {'slide_unit': 'kg'}
_FORCE: Any = {'slide_unit': 'N'}
_LENGTH: Any = {'slide_unit': 'm'}
_JOINT_DAMPING = polynomial(dof('dof_damping'), dof('dof_dampingpoly'))
_FRICTION = ('1', '1', 'm', 'm', 'm')
_GAIN_REACH: Any = {'nominal': 1.0, 'reach': lambda _, __: (0.1, 10.0)}

_JOINT: dict[str, Kind] = {
    'armature': _field('kg·m²', _NONNEGATIVE, dof('dof_armature'), NOT_FREE, **_ROTOR),
    'damping': _polynomial(_DAMPING, _JOINT_DAMPING, NOT_FREE, _SLIDE_DAMPING),
    'frictionloss': _field('N·m', _NONNEGATIVE, dof('dof_frictionloss'), NOT_FREE, **_FORCE),
    'stiffness': _polynomial(
        _STIFFNESS, row_polynomial('jnt_stiffness'), NOT_FREE, _SLIDE_STIFFNESS
    ),
    'springref': _field('rad', _ANY, of_joint('qpos_spring'), SCALAR_JOINT, **_LENGTH),
    # What encoder and commands share, written as ref: the compiled model holds it, too.
    'zero': _field(
        'rad',
        _ANY,
        of_joint('qpos0'),
        SCALAR_JOINT,
        reach=_within(_FARTHEST_ZERO),
        **_LENGTH,
    ),
    'ref': Kind('rad', _ANY, role=Role.SPEC, needs=SCALAR_JOINT, **_LENGTH),
    'range': _range('rad', 'jnt_range', joint_range, 'm'),
    'margin': _field('rad', _NONNEGATIVE, 'jnt_margin', **_LENGTH),
    'actuatorfrcrange': _range('N·m', 'jnt_actfrcrange', _DRIVEN_JOINT, 'N'),
    'solreflimit': _solref('jnt_solref'),
    'solimplimit': _solimp('jnt_solimp'),
    'solreffriction': _solref(dof('dof_solref'), NOT_FREE),
    'solimpfriction': _solimp(dof('dof_solimp'), NOT_FREE),
    'pos': _place('jnt_pos', NOT_FREE),
}

_BODY: dict[str, Kind] = {
    'mass': _field('kg', _POSITIVE, 'body_mass'),
    'mass_scaled': _field('kg', _POSITIVE, mass_scaled, MASSIVE),
    'ipos': _place('body_ipos'),
    'mass_ipos': _mass_ipos(row('body_mass')),
    'mass_ipos_scaled': _mass_ipos(mass_scaled, MASSIVE),
    'inertia': Kind(
        _THETA_UNITS,
        _ANY,
        coupling=Coupling.THETA,
        size=10,
        bare='each',
        needs=VOLUMINOUS,
        reach=_theta,
    ),
    'subtree_mass': Kind('1', _POSITIVE, coupling=Coupling.SCALE, **_GAIN_REACH),
    'gravcomp': _field('1', _ANY, 'body_gravcomp'),
    'pos': _place('body_pos', FIXED_START),
    'quat': _turn(FIXED_START),
}

_GEOM: dict[str, Kind] = {
    'friction': _field(('1', 'm', 'm'), _NONNEGATIVE, 'geom_friction', size=3),
    'solref': _solref('geom_solref'),
    'solimp': _solimp('geom_solimp'),
    'margin': _field('m', _NONNEGATIVE, 'geom_margin'),
    'gap': _field('m', _NONNEGATIVE, 'geom_gap'),
    'solmix': _field('1', _NONNEGATIVE, 'geom_solmix'),
    'size': Kind('m', _NONNEGATIVE, role=Role.SPEC, size=3),
    'density': Kind('kg/m³', _NONNEGATIVE, role=Role.SPEC),
    'mass': Kind('kg', _NONNEGATIVE, role=Role.SPEC),
}

_SITE: dict[str, Kind] = {'pos': _place('site_pos'), 'quat': _turn()}

_PAIR: dict[str, Kind] = {
    'friction': _field(_FRICTION, _NONNEGATIVE, 'pair_friction', size=5),
    'solref': _solref('pair_solref'),
    'solreffriction': _field('', _ANY, 'pair_solreffriction', size=2),
    'solimp': _solimp('pair_solimp'),
    'margin': _field('m', _NONNEGATIVE, 'pair_margin'),
    'gap': _field('m', _NONNEGATIVE, 'pair_gap'),
}

_TENDON: dict[str, Kind] = {
    'stiffness': _polynomial(_SLIDE_STIFFNESS, row_polynomial('tendon_stiffness')),
    'damping': _polynomial(_SLIDE_DAMPING, row_polynomial('tendon_damping')),
    'frictionloss': _field('N', _NONNEGATIVE, 'tendon_frictionloss'),
    'armature': _field('kg', _NONNEGATIVE, 'tendon_armature'),
    'springlength': _field('m', _NONNEGATIVE, 'tendon_lengthspring', size=2, bare='all'),
    'range': _range('m', 'tendon_range', _SHORT_TENDON),
    # Widths of ranges around zero: how far a gear turns freely, and what a servo does not correct.
    'play': _field('m', _NONNEGATIVE, around_zero('tendon_range'), _PLAY),
    'deadband': _field('m', _NONNEGATIVE, around_zero('tendon_lengthspring'), _DEAD_BAND),
    'margin': _field('m', _NONNEGATIVE, 'tendon_margin'),
    'actuatorfrcrange': _range('N', 'tendon_actfrcrange', _STRONG_TENDON),
    'solreflimit': _solref('tendon_solref_lim'),
    'solimplimit': _solimp('tendon_solimp_lim'),
    'solreffriction': _solref('tendon_solref_fri'),
    'solimpfriction': _solimp('tendon_solimp_fri'),
}

_EQUALITY: dict[str, Kind] = {
    'solref': _solref('eq_solref'),
    'solimp': _solimp('eq_solimp'),
    'data': _field('', _ANY, 'eq_data', equality_data, size=12),
}

_ACTUATOR: dict[str, Kind] = {
    'kp': _field('N·m/rad', _NONNEGATIVE, kp, POSITION_SERVO),
    'kv': _field('N·m·s/rad', _NONNEGATIVE, kv, AFFINE_BIAS),
    'ki': _field('N·m/(rad·s)', _NONNEGATIVE, 'actuator_gainprm', PID),
    'gear': _field('1', _ANY, gear, size=6),
    'gainprm': _field('', _ANY, 'actuator_gainprm', stateless('actuator_gainprm'), size=10),
    'biasprm': _field('', _ANY, 'actuator_biasprm', size=10),
    'dynprm': _field('', _ANY, 'actuator_dynprm', stateless('actuator_dynprm'), size=10),
    'forcerange': _range('N·m', 'actuator_forcerange', _STRONG_ACTUATOR),
    # What a servo pushes with at most, both ways.
    'forcelimit': _field(
        'N·m', _NONNEGATIVE, around_zero('actuator_forcerange', share=1.0), _EITHER_WAY
    ),
    'ctrlrange': _range('', control_range, _HELD_CONTROL),
    'actrange': _range('', 'actuator_actrange', _HELD_ACTIVATION),
    'armature': _field('kg·m²', _NONNEGATIVE, 'actuator_armature'),
    'damping': _polynomial(_DAMPING, row_polynomial('actuator_damping')),
    'gain': Kind('1', _ANY, role=Role.COMMAND, **_GAIN_REACH),
    'bias': Kind('', _ANY, role=Role.COMMAND),
    'delay': Kind('s', _NONNEGATIVE, role=Role.COMMAND, reach=_delay),
}

_OF_SENSOR: Any = {
    'role': Role.SENSOR,
    'size': 0,
    # An orientation is compared as a rotation vector.
    'count': lambda model, sensor: (
        min(int(model.sensor_dim[sensor]), 3)
        if is_orientation(model, model.sensor(sensor).name)
        else int(model.sensor_dim[sensor])
    ),
}
_SENSOR: dict[str, Kind] = {
    'gain': Kind('1', _ANY, bare='all', **_OF_SENSOR, **_GAIN_REACH),
    'bias': Kind('', _ANY, bare='each', **_OF_SENSOR),
    # Stamps may also be late, which is a negative delay of the values that they belong to.
    'delay': Kind('s', _ANY, role=Role.SENSOR, reach=_within(_LONGEST_DELAY)),
}

_OPTIONS: dict[str, Kind] = {
    'gravity': _field('m/s²', _ANY, option('gravity'), size=3, bare='each'),
    'wind': _field('m/s', _ANY, option('wind'), size=3, bare='each'),
    'magnetic': _field('T', _ANY, option('magnetic'), size=3, bare='each'),
    'density': _field('kg/m³', _NONNEGATIVE, option('density')),
    'viscosity': _field('Pa·s', _NONNEGATIVE, option('viscosity')),
    'impratio': _field('1', _POSITIVE, option('impratio')),
    'o_margin': _field('m', _NONNEGATIVE, option('o_margin')),
    'o_solref': _solref(option('o_solref')),
    'o_solimp': _solimp(option('o_solimp')),
    'o_friction': _field(_FRICTION, _NONNEGATIVE, option('o_friction'), size=5),
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
    # By which a free body is turned against ``initial_qpos``, about its own axes.
    'initial_turn': _state('rad', 'nv', math.pi),
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
        ('option', _OPTIONS),
        ('sequence', _SEQUENCE),
    )
    for attribute, kind in table.items()
}


def kind_of(element: str, attribute: str) -> Kind | None:
    """Return the kind of an attribute of an element; None where it has none that moves anything."""
    return KINDS.get((element, attribute)) or spec_kind(element, attribute)


#: Attributes of a body that are written into its ``<inertial>``.
INERTIAL = (
    'mass',
    'mass_scaled',
    'ipos',
    'mass_ipos',
    'mass_ipos_scaled',
    'inertia',
    'subtree_mass',
)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Specs with the values of parameters: written, compiled, and without what is only seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysid_ros.errors import ModelError, ParameterError, nearest
from sysid_ros.model.inertia import full_inertia as inertia_to_fullinertia
from sysid_ros.model.inertia import pi_from_theta, pseudoinertia_from_pi, theta_from_pseudoinertia
from sysid_ros.model.targets import Role, Target
from sysid_ros.model.targets.target import LISTS, write_spec
from sysid_ros.text import one_sentence
from sysid_ros.toolbox.inertia_parameter import (
    apply_body_inertia,
    apply_body_mass_ipos,
    apply_body_theta_inertia,
    body_inertia_param,
    explicit_inertial,
    finite_values,
    infer_only_where_absent,
    pi_from_body,
    scale_body_inertia,
    theta_inertia_from_body,
)
from sysid_ros.toolbox.unknowns import component_targets

if TYPE_CHECKING:
    from sysid_ros.toolbox.parameter import Parameter, ParameterDict


__all__ = [
    'apply_body_inertia',
    'apply_body_mass_ipos',
    'apply_body_theta_inertia',
    'apply_dgain',
    'apply_param_modifiers',
    'apply_param_modifiers_spec',
    'apply_pdgain',
    'apply_pgain',
    'body_inertia_param',
    'get_actuator_pd_gains',
    'inertia_to_fullinertia',
    'is_position_actuator',
    'pi_from_body',
    'pi_from_theta',
    'pseudoinertia_from_pi',
    'remove_visuals',
    'scale_body_inertia',
    'theta_from_pseudoinertia',
    'theta_inertia_from_body',
]
#: Where the compiled model has a number of an actuator that a spec holds in an array.
_ACTUATOR_ARRAYS = {'actuator_gainprm': 'gainprm', 'actuator_biasprm': 'biasprm'}
_GAINS = frozenset({'kp', 'kv', 'ki'})
#: Attributes of bodies that move or scale mass.
_OF_MASSES = frozenset(
    {'mass', 'mass_scaled', 'ipos', 'mass_ipos', 'mass_ipos_scaled', 'subtree_mass'}
)


def apply_param_modifiers(params: ParameterDict, spec: mujoco.MjSpec) -> mujoco.MjModel:
    """Compile a copy of a spec with the values of all parameters, the frozen ones too.

    Raises:
        ParameterError: A modifier failed, or a target does not fit its parameter.
        ModelError: The spec does not compile with these values.
    """
    copy = apply_param_modifiers_spec(params, spec.copy())
    try:
        return copy.compile()
    except (ValueError, mujoco.FatalError) as err:
        raise ModelError(
            f'Cannot compile the model with the values of the parameters: {one_sentence(err)}.'
        ) from err


def apply_param_modifiers_spec(params: ParameterDict, spec: mujoco.MjSpec) -> mujoco.MjSpec:
    """Write the values of all parameters, the frozen ones too, to a spec, in place, and return it.

    Parameters with a modifier are written by it, in their order; then those that only have a
    target, to what their targets name. A target that this spec does not have is left out, since
    the parameters of a fit of several models are applied to each of them; so are delays, gains and
    biases of commands and sensors, which are not the model's.

    Raises:
        ParameterError: A modifier failed, or a target does not fit its parameter.
    """
    for parameter in params.values():
        parameter.apply_modifier(spec)
    targeted = [p for p in params.values() if p.modifier is None and p.target is not None]
    if targeted:
        write_targets(spec, targeted)
    return spec


def apply_pgain(spec: mujoco.MjSpec, actuator_name: str, value: ArrayLike) -> mujoco.MjSpec:
    """Set the proportional gain kp, N·m/rad or N/m, of a position actuator; return the spec.

    Where the actuator has a ``dampratio``, the compiler makes the velocity gain from it, from kp
    and from the inertia that the actuator moves: there kv changes with kp and with every mass or
    armature of the spec. A servo's gain does not; set it with :func:`apply_dgain`, which takes the
    place of the ratio.

    Raises:
        ParameterError: There is no such actuator, it is no position actuator, or the value is not
            a finite number.
    """
    actuator = _servo(spec, actuator_name)
    (gain,) = finite_values(value, 1, f'kp of actuator {actuator_name!r}')
    actuator.gainprm[0] = gain
    actuator.biasprm[1] = -gain
    return spec


def apply_dgain(spec: mujoco.MjSpec, actuator_name: str, value: ArrayLike) -> mujoco.MjSpec:
    """Set the velocity gain kv, N·m·s/rad or N·s/m, of a position actuator; return the spec.

    A ``dampratio`` of the actuator is replaced by it.

    Raises:
        ParameterError: There is no such actuator, it is no position actuator, or the value is not
            a finite number that is not negative: a spec has damping ratios below zero.
    """
    actuator = _servo(spec, actuator_name)
    (gain,) = finite_values(value, 1, f'kv of actuator {actuator_name!r}')
    if gain < 0:
        raise ParameterError(
            f'Expected a kv of actuator {actuator_name!r} of 0 or more, found {gain:g}.'
        )
    actuator.biasprm[2] = -gain
    return spec


def apply_pdgain(spec: mujoco.MjSpec, actuator_name: str, value: ArrayLike) -> mujoco.MjSpec:
    """Set kp and kv, (2,), of a position actuator; see :func:`apply_pgain` and :func:`apply_dgain`.

    Raises:
        ParameterError: As in those, or there are not two values; then nothing is changed.
    """
    stiff, damping = finite_values(value, 2, f'kp and kv of actuator {actuator_name!r}')
    apply_dgain(spec, actuator_name, damping)
    return apply_pgain(spec, actuator_name, stiff)


def is_position_actuator(actuator: Any) -> bool:
    """Tell whether an actuator of a spec or a compiled model is a servo with gain kp, bias -kp."""
    return bool(
        mujoco.mjtGain(_number(actuator.gaintype)) == mujoco.mjtGain.mjGAIN_FIXED
        and mujoco.mjtBias(_number(actuator.biastype)) == mujoco.mjtBias.mjBIAS_AFFINE
        and mujoco.mjtDyn(_number(actuator.dyntype))
        in {mujoco.mjtDyn.mjDYN_NONE, mujoco.mjtDyn.mjDYN_FILTEREXACT}
        and np.ravel(actuator.gainprm)[0] == -np.ravel(actuator.biasprm)[1]
    )


def get_actuator_pd_gains(model: mujoco.MjModel, actuator_name: str) -> tuple[float, float]:
    """Return kp and kv of a position actuator of a compiled model.

    Raises:
        ParameterError: There is no such actuator, or it is no position actuator.
    """
    bias = np.ravel(_servo(model, actuator_name).biasprm)
    return -float(bias[1]), -float(bias[2])


def _number(value: Any) -> int:
    return int(np.ravel(value)[0]) if isinstance(value, np.ndarray) else int(value)


def _servo(owner: mujoco.MjSpec | mujoco.MjModel, name: str) -> Any:
    """Return a position actuator of a spec or a compiled model."""
    if isinstance(owner, mujoco.MjSpec):
        names = [actuator.name for actuator in owner.actuators]
    else:
        names = [owner.actuator(row).name for row in range(owner.nactuator)]
    if name not in names:
        raise ParameterError(f'No actuator {name!r}; {nearest(name, filter(None, names))}.')
    actuator = owner.actuator(name)
    if not is_position_actuator(actuator):
        raise ParameterError(
            f'Actuator {name!r} is not a position actuator, expected gain kp and bias -kp.'
        )
    return actuator


class _Compiled(NamedTuple):
    """A copy of a spec and what it compiles to; ids of the copy's elements are the model's."""

    spec: mujoco.MjSpec
    model: mujoco.MjModel


def write_targets(spec: mujoco.MjSpec, parameters: Iterable[Parameter]) -> None:
    """Write the values of parameters to what their targets name.

    What no model has (gain, bias and delay of commands and sensors, starts of sequences) is left
    out. Damping ratios become the gains that they compile to before the values are written: a
    servo's gain does not follow our estimate of the inertia that it moves. ``subtree_mass`` is
    relative to what the spec has.
    """
    copy = spec.copy()
    compiled = _Compiled(copy, copy.compile())
    written = [
        (target, float(value))
        for parameter in parameters
        for targets, value in zip(
            component_targets(parameter, compiled.model, spec=compiled.spec),
            parameter.as_vector(),
            strict=True,
        )
        for target in targets
        if target.role in {Role.FIELD, Role.SPEC}
    ]
    if not written:
        return
    for actuator, copied in zip(spec.actuators, compiled.spec.actuators, strict=True):
        if actuator.biasprm[2] > 0:  # a ratio; a velocity gain is negative there
            actuator.biasprm[2] = compiled.model.actuator_biasprm[copied.id, 2]
    thetas: dict[str, NDArray[np.float64]] = {}
    for target, value in written:
        if (target.element, target.attribute) == ('body', 'inertia'):
            if target.name not in thetas:
                thetas[target.name] = theta_inertia_from_body(spec, target.name)
            thetas[target.name][target.index or 0] = value
        elif target.element == 'body' and target.attribute in _OF_MASSES:
            _write_body(spec, target, value)
        elif target.element_and_attribute[0] == 'actuator' and target.kind.slots is not None:
            _write_actuator(spec, compiled, target, value)
        else:
            write_spec(spec, _placed(target, compiled), value)
    for name, theta in thetas.items():
        apply_body_theta_inertia(spec, name, theta)


def _placed(target: Target, compiled: _Compiled) -> Target:
    """Turn ids of elements that follow a class into positions in the spec."""
    if target.element != 'default' or target.role is Role.SPEC:
        return target
    elements = getattr(compiled.spec, LISTS[target.element_and_attribute[0]])
    rows = tuple(k for k, element in enumerate(elements) if element.id in target.rows)
    return dataclasses.replace(target, rows=rows)


def _write_actuator(spec: mujoco.MjSpec, compiled: _Compiled, target: Target, value: float) -> None:
    """Write a value that may be several numbers: kp is a gain and minus a bias."""
    if target.element_and_attribute[1] not in _GAINS:
        write_spec(spec, _placed(target, compiled), value)
        return
    positions = {copied.id: k for k, copied in enumerate(compiled.spec.actuators)}
    for slot in target.slots(compiled.model):
        row, component = divmod(slot.place, getattr(compiled.model, slot.field).shape[1])
        actuator = spec.actuators[positions[row]]
        getattr(actuator, _ACTUATOR_ARRAYS[slot.field])[component] = slot.factor * value


def _write_body(spec: mujoco.MjSpec, target: Target, value: float) -> None:
    """Write a mass, a component of a centre of mass, or a factor on the masses of a subtree."""
    attribute, index = target.attribute, target.index or 0
    if attribute == 'subtree_mass':
        top = explicit_inertial(spec, target.name)
        for body in (top, *top.find_all('body')):
            if not body.name:
                raise ParameterError(
                    f'Expected named bodies below {target.name!r} for target {target.path!r}.'
                )
            explicit_inertial(spec, body.name).mass *= value
            scale_body_inertia(spec, body.name, value)
    elif attribute == 'ipos':
        explicit_inertial(spec, target.name).ipos[index] = value
    elif index:  # mass_ipos: the mass is the first
        explicit_inertial(spec, target.name).ipos[index - 1] = value
    else:
        scaled = attribute.endswith('_scaled')
        apply_body_mass_ipos(spec, target.name, value, rot_inertia_scale=scaled)


def remove_visuals(in_spec: mujoco.MjSpec) -> mujoco.MjSpec:
    """Return a copy of a spec without its visuals; what it compiles to has the same dynamics.

    Materials, textures, skins, geoms that collide with nothing and meshes that are then not used
    are left out. Geoms that something refers to stay (a sensor, a contact pair, a tendon), as do
    those that a surrounding fluid acts on. Inertia that was inferred from what is left out becomes
    explicit. All stay where rangefinders measure, for which every geom is an obstacle, and where
    islands may sleep, for which MuJoCo measures how fast a body is by the size of its geoms.

    Raises:
        ModelError: A mesh that inertia is inferred from cannot be read.
    """
    spec = in_spec.copy()
    ranging = any(sensor.type == mujoco.mjtSensor.mjSENS_RANGEFINDER for sensor in spec.sensors)
    if ranging or spec.option.enableflags & mujoco.mjtEnableBit.mjENBL_SLEEP:
        return spec
    infer_only_where_absent(spec)
    for skin in list(spec.skins):
        spec.delete(skin)
    try:
        spec.discard_visual()
    except (ValueError, mujoco.FatalError) as err:
        raise ModelError(
            f'Cannot leave out the visuals of model {spec.modelname!r}: {one_sentence(err)}.'
        ) from err
    return spec

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters applied to specs, and the gains of position actuators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from sysid_ros.errors import ModelError, ParameterError, nearest
from sysid_ros.model.inertia import full_inertia as inertia_to_fullinertia
from sysid_ros.model.inertia import pi_from_theta, pseudoinertia_from_pi, theta_from_pseudoinertia
from sysid_ros.toolbox.inertia_parameter import (
    apply_body_inertia,
    apply_body_mass_ipos,
    apply_body_theta_inertia,
    body_inertia_param,
    pi_from_body,
    scale_body_inertia,
    theta_inertia_from_body,
)
from sysid_ros.toolbox.spec_writing import write_targets
from sysid_ros.toolbox.visuals import remove_visuals

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from sysid_ros.toolbox.parameter import ParameterDict

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


def apply_param_modifiers(params: ParameterDict, spec: mujoco.MjSpec) -> mujoco.MjModel:
    """Compile a copy of a spec with the values of all parameters, the frozen ones too.

    Args:
        params: The parameters.
        spec: Not changed.

    Returns:
        The compiled model.

    Raises:
        ParameterError: A modifier failed, or a target does not fit its parameter.
        ModelError: The spec does not compile with these values.
    """
    copy = apply_param_modifiers_spec(params, spec.copy())
    try:
        return copy.compile()
    except (ValueError, mujoco.FatalError) as err:
        lines = [line.strip() for line in str(err).splitlines()]
        clause = ', '.join(line for line in lines if line).rstrip('.')
        msg = f'Cannot compile the model with the values of the parameters: {clause}.'
        raise ModelError(msg) from err


def apply_param_modifiers_spec(params: ParameterDict, spec: mujoco.MjSpec) -> mujoco.MjSpec:
    """Write the values of all parameters, the frozen ones too, to a spec.

    Parameters with a modifier are written by it, in their order; then those that only have a
    target, to what their targets name. A target that this spec does not have is left out, since
    the parameters of a fit of several models are applied to each of them; so are delays, gains and
    biases of commands and sensors, which are not the model's.

    Args:
        params: The parameters.
        spec: Changed in place; give a copy to keep it.

    Returns:
        The same spec.

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
    """Set the proportional gain kp of a position actuator.

    Where the actuator has a ``dampratio``, the compiler makes the velocity gain from it, from kp
    and from the inertia that the actuator moves: there kv changes with kp and with every mass or
    armature of the spec. A servo's gain does not; set it with :func:`apply_dgain`, which takes the
    place of the ratio.

    Args:
        spec: Changed in place.
        actuator_name: The actuator.
        value: kp, N·m/rad or N/m; a number or an array of one.

    Returns:
        The same spec.

    Raises:
        ParameterError: There is no such actuator, it is no position actuator, or the value is not
            a finite number.
    """
    actuator, (gain,) = _servo(spec, actuator_name), _gains(value, 1, 'kp', actuator_name)
    actuator.gainprm[0] = gain
    actuator.biasprm[1] = -gain
    return spec


def apply_dgain(spec: mujoco.MjSpec, actuator_name: str, value: ArrayLike) -> mujoco.MjSpec:
    """Set the velocity gain kv of a position actuator.

    A ``dampratio`` of the actuator is replaced by it.

    Args:
        spec: Changed in place.
        actuator_name: The actuator.
        value: kv, N·m·s/rad or N·s/m; a number or an array of one.

    Returns:
        The same spec.

    Raises:
        ParameterError: There is no such actuator, it is no position actuator, or the value is not
            a finite number that is not negative: a spec has damping ratios below zero.
    """
    actuator, (gain,) = _servo(spec, actuator_name), _gains(value, 1, 'kv', actuator_name)
    if gain < 0:
        msg = f'Expected a kv of actuator {actuator_name!r} of 0 or more, found {gain:g}.'
        raise ParameterError(msg)
    actuator.biasprm[2] = -gain
    return spec


def apply_pdgain(spec: mujoco.MjSpec, actuator_name: str, value: ArrayLike) -> mujoco.MjSpec:
    """Set kp and kv of a position actuator; see :func:`apply_pgain` and :func:`apply_dgain`.

    Args:
        spec: Changed in place.
        actuator_name: The actuator.
        value: (2,) kp and kv.

    Returns:
        The same spec.

    Raises:
        ParameterError: As in those, or there are not two values; then nothing is changed.
    """
    stiff, damping = _gains(value, 2, 'kp and kv', actuator_name)
    apply_dgain(spec, actuator_name, damping)
    return apply_pgain(spec, actuator_name, stiff)


def is_position_actuator(actuator: Any) -> bool:
    """Tell whether an actuator of a spec or a compiled model is a servo with gain kp, bias -kp.

    Args:
        actuator: ``spec.actuator(name)`` or ``model.actuator(name)``.
    """
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
    row = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_ACTUATOR, actuator_name)
    if row < 0:
        names = [model.actuator(other).name for other in range(model.nactuator)]
        msg = f'No actuator {actuator_name!r}; {nearest(actuator_name, filter(None, names))}.'
        raise ParameterError(msg)
    actuator = model.actuator(row)
    _check_servo(actuator, actuator_name)
    bias = np.ravel(actuator.biasprm)
    return -float(bias[1]), -float(bias[2])


def _number(value: Any) -> int:
    return int(np.ravel(value)[0]) if isinstance(value, np.ndarray) else int(value)


def _servo(spec: mujoco.MjSpec, name: str) -> mujoco.MjsActuator:
    actuator = spec.actuator(name)
    if actuator is None:
        names = [other.name for other in spec.actuators if other.name]
        msg = f'No actuator {name!r}; {nearest(name, names)}.'
        raise ParameterError(msg)
    _check_servo(actuator, name)
    return actuator


def _check_servo(actuator: Any, name: str) -> None:
    if not is_position_actuator(actuator):
        msg = f'Actuator {name!r} is not a position actuator, expected gain kp and bias -kp.'
        raise ParameterError(msg)


def _gains(values: ArrayLike, size: int, what: str, name: str) -> list[float]:
    array = np.asarray(values, dtype=np.float64).reshape(-1)
    if array.size != size or not np.all(np.isfinite(array)):
        msg = (
            f'Expected {size} finite value(s) as {what} of actuator {name!r}, '
            f'found {array.tolist()}.'
        )
        raise ParameterError(msg)
    return [float(value) for value in array]

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The inertia of a body as a parameter, and written to a spec.

Bodies may have an ``<inertial>`` or leave their inertia to the compiler, which infers it from their
geoms; then the inferred one is made explicit first, so that what is written is what counts.
"""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysid_ros.errors import ParameterError, nearest
from sysid_ros.model.inertia import THETA_NAMES, body_from_theta, pi_from_inertial, theta_from_body
from sysid_ros.toolbox.parameter import InertiaType, ModifierFn, Parameter

Array = NDArray[np.float64]

#: Bounds by default, as in MuJoCo's toolbox: factors on the mass, metres about the centre of
#: mass, factors on the squared stretches e^2d, and offsets about the shears.
_MASS_FACTORS = (0.1, 10.0)
_IPOS_OFFSETS = (-0.5, 0.5)
_STRETCH_FACTORS = (0.5, 2.0)
_SHEAR_OFFSETS = (-0.5, 0.5)
_TARGETS = {
    (InertiaType.Mass, False): 'mass',
    (InertiaType.Mass, True): 'mass_scaled',
    (InertiaType.MassIpos, False): 'mass_ipos',
    (InertiaType.MassIpos, True): 'mass_ipos_scaled',
    (InertiaType.Pseudo, False): 'inertia',
    (InertiaType.Pseudo, True): 'inertia',
}


def body_inertia_param(  # noqa: PLR0913, PLR0917 (the toolbox's signature)
    spec: mujoco.MjSpec,  # noqa: ARG001 (the toolbox's signature)
    model: mujoco.MjModel,
    body_name: str,
    inertia_type: InertiaType = InertiaType.MassIpos,
    scale_rot_inertia: bool = False,  # noqa: FBT002 (the toolbox's signature)
    mass_bound_mult: ArrayLike | None = None,
    ipos_bound_off: ArrayLike | None = None,
    stretch_bound_mult: ArrayLike | None = None,
    shear_bound_off: ArrayLike | None = None,
    param_name: str | None = None,
    modifier: ModifierFn | None = None,
) -> Parameter:
    """Make a parameter of a body's inertia, at its value in a compiled model.

    Bounds by default are .1 and 10 times the mass, ∓.5 m about the centre of mass, .5 and 2 times
    the squared stretches e^2d, and ∓.5 about the shears; (2,) arrays replace them.

    Args:
        spec: The spec; it is not read and not changed.
        model: What it compiles to.
        body_name: The body.
        inertia_type: ``Mass`` (kg), ``MassIpos`` (kg, then the centre of mass in the body frame,
            m) or ``Pseudo``, the ten numbers of ``sysid_ros.model.inertia``.
        scale_rot_inertia: Whether the rotational inertia about the centre of mass scales with the
            mass or stays; ``Pseudo`` has it as unknowns of its own.
        mass_bound_mult: Lower and upper factor on the mass.
        ipos_bound_off: Offsets of the centre of mass, m.
        stretch_bound_mult: Factors on the squared stretches.
        shear_bound_off: Offsets of the shears.
        param_name: The default is the body's name with ``_inertia``.
        modifier: Writes the parameter to a spec; the default is :func:`apply_body_inertia`, and
            then the parameter has the same as its target.

    Raises:
        ParameterError: There is no such body, it has no mass, bounds are reversed, or ``Pseudo``
            is asked of a body without volume.
    """
    row = _row(model, body_name)
    mass, ipos = float(model.body_mass[row]), model.body_ipos[row]
    if not mass > 0:
        raise ParameterError(f'Body {body_name!r} has no mass, expected one to identify.')
    mass_range = mass * _pair(mass_bound_mult, _MASS_FACTORS, 'mass_bound_mult')
    offsets = _pair(ipos_bound_off, _IPOS_OFFSETS, 'ipos_bound_off')
    ipos_range = ipos[:, None] + offsets
    if inertia_type is InertiaType.Mass:
        nominal, bounds = np.array([mass]), mass_range[None, :]
    elif inertia_type is InertiaType.MassIpos:
        nominal, bounds = np.array([mass, *ipos]), np.vstack((mass_range, ipos_range))
    elif inertia_type is InertiaType.Pseudo:
        nominal = _theta_of(model, row, body_name)
        stretch = _pair(stretch_bound_mult, _STRETCH_FACTORS, 'stretch_bound_mult')
        shear = _pair(shear_bound_off, _SHEAR_OFFSETS, 'shear_bound_off')
        with np.errstate(divide='ignore', invalid='ignore'):
            bounds = np.vstack(
                (
                    0.5 * np.log(mass_range),
                    nominal[1:4, None] + 0.5 * np.log(stretch),
                    nominal[4:7, None] + shear,
                    ipos_range,
                )
            )
    else:
        choices = nearest(str(inertia_type), [str(choice) for choice in InertiaType])
        raise ParameterError(f'Unknown inertia type {inertia_type!r}; {choices}.')
    target = f'body/{body_name}/{_TARGETS[inertia_type, bool(scale_rot_inertia)]}'
    parameter = Parameter(
        f'{body_name}_inertia' if param_name is None else param_name,
        nominal,
        bounds[:, 0],
        bounds[:, 1],
        modifier=_Written(body_name) if modifier is None else modifier,
        target=target if modifier is None else None,
        unit='kg' if inertia_type is InertiaType.Mass else '',
    )
    parameter.inertia_type = inertia_type
    parameter.scale_rot_inertia = bool(scale_rot_inertia)
    return parameter


class _Written:
    """The modifier of a body's inertia; a class, unlike a closure, can go to other processes."""

    def __init__(self, body_name: str) -> None:
        self.body_name = body_name

    def __call__(self, spec: mujoco.MjSpec, param: Parameter) -> None:
        apply_body_inertia(spec, self.body_name, param)


def apply_body_inertia(spec: mujoco.MjSpec, name: str, param: Parameter) -> None:
    """Write a parameter that :func:`body_inertia_param` made to a body of a spec, in place.

    The bodies that no parameter names compile to what they did.

    Raises:
        ParameterError: The parameter has no inertia type, or the body cannot be written.
    """
    values = param.as_vector()
    if param.inertia_type is InertiaType.Mass:
        apply_body_mass_ipos(spec, name, values, None, param.scale_rot_inertia)
    elif param.inertia_type is InertiaType.MassIpos:
        apply_body_mass_ipos(spec, name, values[0], values[1:], param.scale_rot_inertia)
    elif param.inertia_type is InertiaType.Pseudo:
        apply_body_theta_inertia(spec, name, values)
    else:
        raise ParameterError(
            f'Parameter {param.name!r} has no inertia_type, '
            'expected a parameter made by body_inertia_param.'
        )


def apply_body_mass_ipos(
    spec: mujoco.MjSpec,
    body_name: str,
    mass: ArrayLike | None = None,
    ipos: ArrayLike | None = None,
    rot_inertia_scale: bool = False,  # noqa: FBT002 (the toolbox's signature)
) -> mujoco.MjSpec:
    """Set mass, kg, and centre of mass, (3,) in the body frame, m, of a body of a spec, in place.

    None leaves what is there. ``rot_inertia_scale`` scales the inertia about the centre of mass
    with the mass. The spec is returned.

    Raises:
        ParameterError: A value has another size or is not finite, or the body cannot be written.
    """
    body = explicit_inertial(spec, body_name)
    if mass is not None:
        value = float(finite_values(mass, 1, f'mass of body {body_name!r}')[0])
        if rot_inertia_scale:
            if not body.mass > 0:
                raise ParameterError(
                    f'Body {body_name!r} has no mass, expected one to scale its inertia with.'
                )
            _scale(body, value / body.mass)
        body.mass = value
    if ipos is not None:
        body.ipos = finite_values(ipos, 3, f'centre of mass of body {body_name!r}')
    return spec


def scale_body_inertia(spec: mujoco.MjSpec, body_name: str, value: ArrayLike) -> mujoco.MjSpec:
    """Multiply the inertia of a body of a spec about its centre of mass, in place; return the spec.

    Raises:
        ParameterError: The factor is not a finite number, or the body cannot be written.
    """
    body = explicit_inertial(spec, body_name)
    _scale(body, float(finite_values(value, 1, f'factor of body {body_name!r}')[0]))
    return spec


def apply_body_theta_inertia(
    spec: mujoco.MjSpec, body_name: str, theta: ArrayLike
) -> mujoco.MjSpec:
    """Set mass, centre of mass and inertia of a body of a spec from θ, in place; return the spec.

    θ (10,) is that of ``sysid_ros.model.inertia``.

    Raises:
        ParameterError: θ has another size or is not finite, or the body cannot be written.
    """
    inertial = body_from_theta(finite_values(theta, len(THETA_NAMES), f'θ of body {body_name!r}'))
    body = explicit_inertial(spec, body_name)
    body.mass = float(inertial.mass)
    body.ipos, body.iquat, body.inertia = inertial.ipos, inertial.iquat, inertial.inertia
    body.fullinertia[0] = np.nan  # what marks it as absent
    body.ialt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT  # an euler="…" would win over iquat
    return spec


def pi_from_body(spec: mujoco.MjSpec, body_name: str) -> Array:
    """Return π (13,) of a body as it compiles; see ``pi_from_theta``. The spec is not changed."""
    model = spec.copy().compile()
    row = _row(model, body_name)
    return pi_from_inertial(
        model.body_mass[row], model.body_ipos[row], model.body_iquat[row], model.body_inertia[row]
    )


def theta_inertia_from_body(spec: mujoco.MjSpec, body_name: str) -> Array:
    """Return θ (10,) of a body as it compiles. The spec is not changed."""
    model = spec.copy().compile()
    return _theta_of(model, _row(model, body_name), body_name)


def explicit_inertial(spec: mujoco.MjSpec, body_name: str) -> mujoco.MjsBody:
    """Make what the compiler infers for a body part of the spec, which compiles to the same."""
    body = spec.body(body_name)
    if body is None or body_name == 'world':
        names = [other.name for other in spec.bodies if other.name and other.name != 'world']
        raise ParameterError(f'No body {body_name!r}; {nearest(body_name, names)}.')
    if spec.compiler.settotalmass > 0:
        raise ParameterError(
            f'The mass of body {body_name!r} cannot be set while compiler settotalmass rescales '
            'all masses; scale the masses in the model instead.'
        )
    if spec.compiler.fusestatic and any(not child.joints for child in body.bodies):
        raise ParameterError(
            f'The inertia of body {body_name!r} cannot be set while compiler fusestatic adds that '
            'of its static children; expected fusestatic="false".'
        )
    infer_only_where_absent(spec)
    spec.adopt_inertial(body)
    return body


def infer_only_where_absent(spec: mujoco.MjSpec) -> None:
    """Turn inertiafromgeom from "true" to "auto" without changing what the spec compiles to.

    Under "true" the compiler infers the inertia of every body and does not read ``<inertial>``,
    so these are taken away. Attached specs keep compiler settings of their own.
    """
    inferred = [
        body
        for body in spec.bodies
        if body.compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
    ]
    for body in inferred:
        body.ipos[0] = body.fullinertia[0] = np.nan  # what marks them as absent
        body.mass, body.inertia, body.explicitinertial = 0.0, np.zeros(3), False
    for owner in (spec, *inferred):
        if owner.compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE:
            owner.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_AUTO


def _theta_of(model: mujoco.MjModel, row: int, body_name: str) -> Array:
    try:
        return theta_from_body(
            model.body_mass[row],
            model.body_ipos[row],
            model.body_iquat[row],
            model.body_inertia[row],
        )
    except ParameterError as err:
        raise ParameterError(f'The inertia of body {body_name!r} has no θ: {err}') from err


def _row(model: mujoco.MjModel, body_name: str) -> int:
    row = int(mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, body_name))
    if row <= 0:
        names = [model.body(other).name for other in range(1, model.nbody)]
        raise ParameterError(f'No body {body_name!r}; {nearest(body_name, filter(None, names))}.')
    return row


def _pair(values: ArrayLike | None, default: tuple[float, float], what: str) -> Array:
    pair = np.asarray(default if values is None else values, dtype=np.float64).reshape(-1)
    if pair.shape != (2,):
        raise ParameterError(
            f'Expected {what} to be a lower and an upper value, found {pair.size} values.'
        )
    return pair


def finite_values(values: ArrayLike, size: int, what: str) -> Array:
    """Return so many values as an array.

    Raises:
        ParameterError: There are fewer or more, or one is not finite.
    """
    array = np.asarray(values, dtype=np.float64).reshape(-1)
    if array.size != size or not np.all(np.isfinite(array)):
        raise ParameterError(f'Expected {size} finite value(s) as {what}, found {array.tolist()}.')
    return array


def _scale(body: mujoco.MjsBody, factor: float) -> None:
    body.inertia *= factor
    body.fullinertia *= factor  # NaN, where absent, stays NaN

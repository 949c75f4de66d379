# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Specs with the values of parameters: inertias, servo gains, targets, and what callbacks write."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysid_ros.errors import ModelError, ParameterError, nearest, one_sentence
from sysid_ros.model.candidates import Writer
from sysid_ros.model.elements import subtree
from sysid_ros.model.inertia import Inertial, body_from_theta, theta_from_body
from sysid_ros.model.kinds import Role
from sysid_ros.model.targets import LISTS, Target, write_spec
from sysid_ros.toolbox.parameter import (
    InertiaType,
    ModifierFn,
    Parameter,
    ParameterDict,
    component_targets,
)

Array = NDArray[np.float64]

_TRUE = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
_INERTIAL = {'mass', 'mass_scaled', 'ipos', 'mass_ipos', 'mass_ipos_scaled', 'inertia'}
_GAINS = {'kp', 'kv', 'ki'}


def apply_param_modifiers(params: ParameterDict, spec: mujoco.MjSpec) -> mujoco.MjModel:
    """Compile a copy of a spec with the values of all parameters, the frozen ones too."""
    copy = apply_param_modifiers_spec(params, spec.copy())
    try:
        return copy.compile()
    except (ValueError, mujoco.FatalError) as err:
        raise ModelError(
            f'Cannot compile the model with the values of the parameters: {one_sentence(err)}.'
        ) from err


def apply_param_modifiers_spec(params: ParameterDict, spec: mujoco.MjSpec) -> mujoco.MjSpec:
    """Write the values of all parameters, the frozen ones too, to a spec, in place, and return it.

    Modifiers come first, in their order; then the targets of parameters that have no modifier. A
    target that this spec does not have is left out, since the parameters of a fit of several models
    are applied to each of them; so are delays, gains and biases of commands and sensors.
    """
    for parameter in params.values():
        parameter.apply_modifier(spec)
    targeted = [p for p in params.values() if p.modifier is None and p.target]
    if targeted:
        _write_targets(spec, targeted)
    return spec


def _write_targets(  # noqa: C901 (a case per kind of number)
    spec: mujoco.MjSpec, parameters: Iterable[Parameter]
) -> None:
    """Write values into a compiled copy, and what they changed there into the spec."""
    copy = spec.copy()
    for body in copy.bodies:
        body.simple = False
    model = copy.compile()
    written = [
        (target, float(value))
        for parameter in parameters
        for targets, value in zip(
            component_targets(parameter, model, spec=copy), parameter.as_vector(), strict=True
        )
        for target in targets
        if target.role in {Role.FIELD, Role.SPEC}
    ]
    if not written:
        return
    writer = Writer(model, [(target, place) for place, (target, _) in enumerate(written)])
    writer.write(model, np.array([value for _, value in written]))
    servos = {target.row for target, _ in written if _is_gain(target)}
    # Damping ratios become the gains that they compile to before the values are written: a servo's
    # gain does not follow our estimate of the inertia that it moves.
    for actuator, copied in zip(spec.actuators, copy.actuators, strict=True):
        if copied.id in servos:
            actuator.gainprm[:] = model.actuator_gainprm[copied.id]
        if copied.id in servos or actuator.biasprm[2] > 0:  # a ratio; a velocity gain is negative
            actuator.biasprm[:] = model.actuator_biasprm[copied.id]
    bodies: list[int] = []
    for target, value in written:
        if target.element == 'body' and target.attribute in _INERTIAL:
            bodies.append(target.row)
        elif target.element == 'body' and target.attribute == 'subtree_mass':
            bodies += subtree(model, target.row)
        elif not _is_gain(target):
            write_spec(spec, _placed(target, copy), value)
    for row in dict.fromkeys(bodies):
        _write_inertial(spec, model.body(row).name, Inertial.of_body(model, row))


def _is_gain(target: Target) -> bool:
    """Whether a value is several numbers of an actuator: kp is a gain and minus a bias."""
    return target.element == 'actuator' and target.attribute in _GAINS


def _placed(target: Target, compiled: mujoco.MjSpec) -> Target:
    """Turn ids of elements that follow a class into positions in the spec."""
    if target.element != 'default' or target.role is Role.SPEC:
        return target
    elements = getattr(compiled, LISTS[target.element_and_attribute[0]])
    rows = tuple(k for k, element in enumerate(elements) if element.id in target.rows)
    return dataclasses.replace(target, rows=rows)


def apply_pgain(spec: mujoco.MjSpec, actuator_name: str, value: ArrayLike) -> mujoco.MjSpec:
    """Set the proportional gain kp, N·m/rad or N/m, of a position actuator; return the spec.

    Where the actuator has a ``dampratio``, kv changes with kp when the spec is compiled;
    :func:`apply_dgain` replaces the ratio.
    """
    actuator = _servo(spec, actuator_name)
    (gain,) = _numbers(value, 1, f'kp of actuator {actuator_name!r}')
    actuator.gainprm[0] = gain
    actuator.biasprm[1] = -gain
    return spec


def apply_dgain(spec: mujoco.MjSpec, actuator_name: str, value: ArrayLike) -> mujoco.MjSpec:
    """Set the velocity gain kv, N·m·s/rad or N·s/m, of a position actuator; return the spec."""
    actuator = _servo(spec, actuator_name)
    (gain,) = _numbers(value, 1, f'kv of actuator {actuator_name!r}')
    if gain < 0:  # in a spec, that is a damping ratio
        raise ParameterError(
            f'Expected a kv of actuator {actuator_name!r} of 0 or more, found {gain:g}.'
        )
    actuator.biasprm[2] = -gain
    return spec


def apply_pdgain(spec: mujoco.MjSpec, actuator_name: str, value: ArrayLike) -> mujoco.MjSpec:
    """Set kp and kv, (2,), of a position actuator; return the spec."""
    stiff, damping = _numbers(value, 2, f'kp and kv of actuator {actuator_name!r}')
    apply_dgain(spec, actuator_name, damping)
    return apply_pgain(spec, actuator_name, stiff)


def get_actuator_pd_gains(model: mujoco.MjModel, actuator_name: str) -> tuple[float, float]:
    """Return kp and kv of a position actuator of a compiled model."""
    bias = np.ravel(_servo(model, actuator_name).biasprm)
    return -float(bias[1]), -float(bias[2])


def _servo(owner: mujoco.MjSpec | mujoco.MjModel, name: str) -> Any:
    """Return a position actuator, with gain kp and bias -kp, of a spec or a compiled model."""
    every = owner.actuators if isinstance(owner, mujoco.MjSpec) else range(owner.nactuator)
    names = [owner.actuator(each).name if isinstance(each, int) else each.name for each in every]
    if name not in names:
        raise ParameterError(f'No actuator {name!r}; {nearest(name, filter(None, names))}.')
    actuator = owner.actuator(name)
    kinds = [int(np.ravel(getattr(actuator, f'{kind}type'))[0]) for kind in ('gain', 'bias', 'dyn')]
    if (
        kinds[:2] != [mujoco.mjtGain.mjGAIN_FIXED.value, mujoco.mjtBias.mjBIAS_AFFINE.value]
        or kinds[2] not in {mujoco.mjtDyn.mjDYN_NONE.value, mujoco.mjtDyn.mjDYN_FILTEREXACT.value}
        or np.ravel(actuator.gainprm)[0] != -np.ravel(actuator.biasprm)[1]
    ):
        raise ParameterError(
            f'Actuator {name!r} is not a position actuator, expected gain kp and bias -kp.'
        )
    return actuator


def body_inertia_param(
    spec: mujoco.MjSpec,  # noqa: ARG001 (the toolbox's signature)
    model: mujoco.MjModel,
    body_name: str,
    inertia_type: InertiaType = InertiaType.MassIpos,
    scale_rot_inertia: bool = False,
    mass_bound_mult: ArrayLike | None = None,
    ipos_bound_off: ArrayLike | None = None,
    stretch_bound_mult: ArrayLike | None = None,
    shear_bound_off: ArrayLike | None = None,
    param_name: str | None = None,
    modifier: ModifierFn | None = None,
) -> Parameter:
    """Make a parameter of a body's inertia, at its value in a compiled model.

    It is a ``Mass`` (kg), ``MassIpos`` (kg, then the centre of mass in the body frame, m) or
    ``Pseudo``, the ten numbers of ``sysid_ros.model.inertia``. With ``scale_rot_inertia`` the
    rotational inertia about the centre of mass scales with the mass; ``Pseudo`` has it as unknowns
    of its own. Bounds are factors on the mass (.1 and 10 by default) and on the squared stretches
    e^2d (.5 and 2), and offsets of the centre of mass and the shears (-.5 and .5). The default
    modifier is :func:`apply_body_inertia`, which is then the target, too.
    """
    row = int(mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, body_name))
    if row <= 0:
        names = [model.body(other).name for other in range(1, model.nbody)]
        raise ParameterError(f'No body {body_name!r}; {nearest(body_name, filter(None, names))}.')
    mass, ipos = float(model.body_mass[row]), model.body_ipos[row]
    if not mass > 0:
        raise ParameterError(f'Body {body_name!r} has no mass, expected one to identify.')
    factors, offsets, stretch, shear = (
        _numbers(default if given is None else given, 2, what, finite=False)
        for what, given, default in (
            ('mass_bound_mult', mass_bound_mult, (0.1, 10.0)),
            ('ipos_bound_off', ipos_bound_off, (-0.5, 0.5)),
            ('stretch_bound_mult', stretch_bound_mult, (0.5, 2.0)),
            ('shear_bound_off', shear_bound_off, (-0.5, 0.5)),
        )
    )
    masses, centres = mass * factors, ipos[:, None] + offsets
    if inertia_type is InertiaType.Mass:
        word, nominal, bounds = 'mass', np.array([mass]), masses[None, :]
    elif inertia_type is InertiaType.MassIpos:
        word, nominal = 'mass_ipos', np.array([mass, *ipos])
        bounds = np.vstack((masses, centres))
    elif inertia_type is InertiaType.Pseudo:
        try:
            word, nominal = 'inertia', theta_from_body(*Inertial.of_body(model, row))
        except ParameterError as err:
            raise ParameterError(f'The inertia of body {body_name!r} has no θ: {err}') from err
        with np.errstate(divide='ignore', invalid='ignore'):
            stretches = nominal[1:4, None] + 0.5 * np.log(stretch)
            bounds = np.vstack(
                (0.5 * np.log(masses), stretches, nominal[4:7, None] + shear, centres)
            )
    else:
        choices = nearest(str(inertia_type), [str(choice) for choice in InertiaType])
        raise ParameterError(f'Unknown inertia type {inertia_type!r}; {choices}.')
    scaled = '_scaled' if scale_rot_inertia and inertia_type is not InertiaType.Pseudo else ''
    parameter = Parameter(
        f'{body_name}_inertia' if param_name is None else param_name,
        nominal,
        bounds[:, 0],
        bounds[:, 1],
        modifier=modifier or (lambda spec, param: apply_body_inertia(spec, body_name, param)),
        target=f'body/{body_name}/{word}{scaled}' if modifier is None else None,
        unit='kg' if inertia_type is InertiaType.Mass else '',
    )
    parameter.inertia_type = inertia_type
    parameter.scale_rot_inertia = bool(scale_rot_inertia)
    return parameter


def apply_body_inertia(spec: mujoco.MjSpec, name: str, param: Parameter) -> None:
    """Write a parameter that :func:`body_inertia_param` made to a body of a spec, in place."""
    values = param.as_vector()
    if param.inertia_type is InertiaType.Pseudo:
        _write_inertial(spec, name, body_from_theta(_numbers(values, 10, f'θ of body {name!r}')))
    elif param.inertia_type is not None:
        ipos = values[1:] if param.inertia_type is InertiaType.MassIpos else None
        apply_body_mass_ipos(spec, name, values[0], ipos, param.scale_rot_inertia)
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
    rot_inertia_scale: bool = False,
) -> mujoco.MjSpec:
    """Set mass, kg, and centre of mass, (3,) in the body frame, m, of a body; return the spec.

    None leaves what is there. ``rot_inertia_scale`` scales the inertia about the centre of mass
    with the mass.
    """
    body = _explicit_inertial(spec, body_name)
    if mass is not None:
        (value,) = _numbers(mass, 1, f'mass of body {body_name!r}')
        if rot_inertia_scale and not body.mass > 0:
            raise ParameterError(
                f'Body {body_name!r} has no mass, expected one to scale its inertia with.'
            )
        if rot_inertia_scale:
            body.inertia *= value / body.mass
            body.fullinertia *= value / body.mass  # NaN, where absent, stays NaN
        body.mass = value
    if ipos is not None:
        body.ipos = _numbers(ipos, 3, f'centre of mass of body {body_name!r}')
    return spec


def _write_inertial(spec: mujoco.MjSpec, body_name: str, inertial: Inertial) -> None:
    body = _explicit_inertial(spec, body_name)
    body.mass = float(inertial.mass)
    body.ipos, body.iquat, body.inertia = inertial.ipos, inertial.iquat, inertial.inertia
    body.fullinertia[0] = np.nan  # what marks it as absent
    body.ialt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT  # an euler="…" would win over iquat


def _explicit_inertial(spec: mujoco.MjSpec, body_name: str) -> mujoco.MjsBody:
    """Make what the compiler infers for a body part of the spec, which compiles to the same."""
    body = spec.body(body_name) if body_name else None
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
    _infer_only_where_absent(spec)
    spec.adopt_inertial(body)
    return body


def _infer_only_where_absent(spec: mujoco.MjSpec) -> None:
    """Turn inertiafromgeom from "true" to "auto" without changing what the spec compiles to."""
    # Under "true" the compiler does not read <inertial>. Attached specs keep their own settings.
    inferred = [body for body in spec.bodies if body.compiler.inertiafromgeom == _TRUE]
    for body in inferred:
        body.ipos[0] = body.fullinertia[0] = np.nan  # what marks them as absent
        body.mass, body.inertia, body.explicitinertial = 0.0, np.zeros(3), False
    for owner in (spec, *inferred):
        if owner.compiler.inertiafromgeom == _TRUE:
            owner.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_AUTO


def _numbers(values: ArrayLike, size: int, what: str, *, finite: bool = True) -> Array:
    array = np.asarray(values, dtype=np.float64).reshape(-1)
    if array.size != size or np.isnan(array).any() or (finite and np.isinf(array).any()):
        raise ParameterError(f'Expected {size} number(s) as {what}, found {array.tolist()}.')
    return array


def remove_visuals(in_spec: mujoco.MjSpec) -> mujoco.MjSpec:
    """Return a copy of a spec without its visuals; what it compiles to has the same dynamics.

    Materials, textures, skins, geoms that collide with nothing and meshes that are then not used
    are left out. Geoms that something refers to stay (a sensor, a contact pair, a tendon), as do
    those that a surrounding fluid acts on. Inertia that was inferred from what is left out becomes
    explicit. All stay where rangefinders measure, for which every geom is an obstacle, and where
    islands may sleep, for which MuJoCo measures how fast a body is by the size of its geoms.
    """
    spec = in_spec.copy()
    ranging = any(sensor.type == mujoco.mjtSensor.mjSENS_RANGEFINDER for sensor in spec.sensors)
    if ranging or spec.option.enableflags & mujoco.mjtEnableBit.mjENBL_SLEEP:
        return spec
    _infer_only_where_absent(spec)
    for skin in list(spec.skins):
        spec.delete(skin)
    try:
        spec.discard_visual()
    except (ValueError, mujoco.FatalError) as err:
        raise ModelError(
            f'Cannot leave out the visuals of model {spec.modelname!r}: {one_sentence(err)}.'
        ) from err
    return spec

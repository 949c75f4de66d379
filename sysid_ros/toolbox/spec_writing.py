# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The targets of parameters written to a spec, as a fit writes them to the compiled model."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from sysid_ros.errors import ParameterError
from sysid_ros.model.targets import Role, resolve
from sysid_ros.model.targets.spec_values import LISTS, write_spec
from sysid_ros.toolbox.inertia_parameter import (
    apply_body_mass_ipos,
    apply_body_theta_inertia,
    explicit_inertial,
    scale_body_inertia,
    theta_inertia_from_body,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from sysid_ros.model.targets import Target
    from sysid_ros.toolbox.single_parameter import Parameter

#: Where the compiled model has a number of an actuator that a spec holds in an array.
_ACTUATOR_ARRAYS = {'actuator_gainprm': 'gainprm', 'actuator_biasprm': 'biasprm'}
_GAINS = frozenset({'kp', 'kv', 'ki'})


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

    Args:
        spec: Changed in place.
        parameters: Those with targets; wildcards are resolved in the spec. What it does not have
            is left out: the parameters of a fit of several models are written to each of them.

    Raises:
        ParameterError: A target has another number of components than its parameter.
    """
    copy = spec.copy()
    compiled = _Compiled(copy, copy.compile())
    pairs = [pair for parameter in parameters for pair in _pairs(parameter, compiled)]
    written = [pair for pair in pairs if pair[0].role in {Role.FIELD, Role.SPEC}]
    if not written:
        return
    _hold_gains(spec, compiled)
    thetas: dict[str, NDArray[np.float64]] = {}
    for target, value in written:
        if (target.element, target.attribute) == ('body', 'inertia'):
            if target.name not in thetas:
                thetas[target.name] = theta_inertia_from_body(spec, target.name)
            thetas[target.name][target.index or 0] = value
        elif target.element == 'body' and target.attribute in _BODY_WRITERS:
            _BODY_WRITERS[target.attribute](spec, target, value)
        elif target.element_and_attribute[0] == 'actuator' and target.kind.slots is not None:
            _write_actuator(spec, compiled, target, value)
        else:
            write_spec(spec, _placed(target, compiled), value)
    for name, theta in thetas.items():
        apply_body_theta_inertia(spec, name, theta)


def _pairs(parameter: Parameter, compiled: _Compiled) -> list[tuple[Target, float]]:
    """Return targets and values: a path for each component, or one that names all of them."""
    values = parameter.as_vector()
    if isinstance(parameter.target, tuple):
        return [
            (target, float(value))
            for path, value in zip(parameter.target, values, strict=True)
            for target in _resolved(path, compiled)
        ]
    targets = _resolved(parameter.target or '', compiled)
    if len(targets) % parameter.size:
        msg = (
            f'Parameter {parameter.name!r} has {parameter.size} components, but target '
            f'{parameter.target!r} names {len(targets)} values; expected one for each component.'
        )
        raise ParameterError(msg)
    return [(target, float(values[k % parameter.size])) for k, target in enumerate(targets)]


def _resolved(path: str, compiled: _Compiled) -> tuple[Target, ...]:
    try:
        return resolve(path, compiled.model, (), compiled.spec)
    except ParameterError:  # another model of the fit has it, or a sequence
        return ()


def _hold_gains(spec: mujoco.MjSpec, compiled: _Compiled) -> None:
    for actuator, copied in zip(spec.actuators, compiled.spec.actuators, strict=True):
        if actuator.biasprm[2] > 0:  # a ratio; a velocity gain is negative there
            actuator.biasprm[2] = compiled.model.actuator_biasprm[copied.id, 2]


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


def _write_mass(spec: mujoco.MjSpec, target: Target, value: float) -> None:
    apply_body_mass_ipos(spec, target.name, value)


def _write_mass_scaled(spec: mujoco.MjSpec, target: Target, value: float) -> None:
    apply_body_mass_ipos(spec, target.name, value, rot_inertia_scale=True)


def _write_ipos(spec: mujoco.MjSpec, target: Target, value: float, before: int = 0) -> None:
    body = explicit_inertial(spec, target.name)
    body.ipos[(target.index or 0) - before] = value


def _write_mass_ipos(spec: mujoco.MjSpec, target: Target, value: float) -> None:
    if target.index:
        _write_ipos(spec, target, value, before=1)
    elif target.attribute == 'mass_ipos_scaled':
        _write_mass_scaled(spec, target, value)
    else:
        _write_mass(spec, target, value)


def _write_subtree_mass(spec: mujoco.MjSpec, target: Target, value: float) -> None:
    top = explicit_inertial(spec, target.name)
    for body in (top, *top.find_all('body')):
        if not body.name:
            msg = f'Expected named bodies below {target.name!r} for target {target.path!r}.'
            raise ParameterError(msg)
        explicit_inertial(spec, body.name).mass *= value
        scale_body_inertia(spec, body.name, value)


_BODY_WRITERS = {
    'mass': _write_mass,
    'mass_scaled': _write_mass_scaled,
    'ipos': _write_ipos,
    'mass_ipos': _write_mass_ipos,
    'mass_ipos_scaled': _write_mass_ipos,
    'subtree_mass': _write_subtree_mass,
}

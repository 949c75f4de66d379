# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Attributes that only a spec has: their names, sizes and kinds."""

from __future__ import annotations

import functools
from typing import Any

import mujoco
import numpy as np

from sysid_ros.model.targets.kinds import INFINITY, Kind, Role

#: Names in MJCF and of the same attribute of an ``mjSpec``, where they differ.
_SPELLINGS = {
    'actuatorfrcrange': 'actfrcrange',
    'solreflimit': 'solref_limit',
    'solimplimit': 'solimp_limit',
    'solreffriction': 'solref_friction',
    'solimpfriction': 'solimp_friction',
}
#: A pair writes this one as MJCF does.
_SPELLINGS_OF_PAIRS = {'solreffriction': 'solreffriction'}
#: What kp, kv and ki are in a spec: array and component.
_GAINS = {'kp': ('gainprm', 0), 'kv': ('biasprm', 2), 'ki': ('gainprm', 0)}
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
    if element not in makers:
        return {}
    made = makers[element]()
    found: dict[str, int] = {}
    for name in dir(made):
        value = None if name.startswith('_') else getattr(made, name)
        if name in _EXCLUDED.get(element, ()):
            continue
        if isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype.kind == 'f'):
            found[name] = int(np.size(value))
    return found


@functools.cache
def spec_kind(element: str, attribute: str) -> Kind | None:
    """Return the kind of an attribute that only a spec has; None where it has none such."""
    size = spec_attributes(element).get(_spelling(element, attribute))
    if size is None:
        return None
    return Kind('', (-INFINITY, INFINITY), role=Role.SPEC, size=size)


def spec_component(element: str, attribute: str, index: int) -> tuple[str, int]:
    """Return the array of a spec that holds a component of an attribute, and where."""
    if element == 'actuator' and attribute in _GAINS:
        return _GAINS[attribute]
    return _spelling(element, attribute), index


def _spelling(element: str, attribute: str) -> str:
    if element == 'pair' and attribute in _SPELLINGS_OF_PAIRS:
        return _SPELLINGS_OF_PAIRS[attribute]
    return _SPELLINGS.get(attribute, attribute)

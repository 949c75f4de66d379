# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is common to all targets of one kind: role, unit, bounds, and the numbers that it writes."""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import mujoco
import numpy as np

from sysid_ros.model.targets.slots import SlotsOf

#: Where nothing bounds a value.
INFINITY = math.inf

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
    UNIT = 'unit'  # a quaternion, normalised
    SCALE = 'scale'  # a factor on mass and inertia of a subtree


@dataclass(frozen=True)
class Kind:
    """One kind of target.

    Attributes:
        unit: SI unit of the value, for joints that of a hinge; one per component where they differ.
        bounds: What physics allows; one pair per component where they differ.
        slots: The numbers of a compiled model that follow the value linearly.
        role: Where the value acts.
        coupling: How numbers follow several components together.
        size: Number of components; 0 where it depends on the element, see ``count``.
        bare: What a path without an index means where there are several components: the first,
            each of them, or one value for all.
        scalar: Whether component 0 is written without an index, the others extend it.
        slide_unit: Unit at a slide joint, where it differs.
        needs: Why an element has no such value: ``needs(model, row, index)`` completes "is not …".
        count: Number of components of an element, where it depends on the element.
        reach: Bounds by default around a start, for values that physics leaves open.
        nominal: The value that changes nothing, where no model holds one.
    """

    unit: str | tuple[str, ...]
    bounds: Bounds | tuple[Bounds, ...]
    slots: SlotsOf | None = None
    role: Role = Role.FIELD
    coupling: Coupling | None = None
    size: int = 1
    bare: Literal['first', 'each', 'all'] = 'first'
    scalar: bool = False
    slide_unit: str | tuple[str, ...] | None = None
    needs: Callable[[mujoco.MjModel, int, int], str | None] | None = None
    count: Callable[[mujoco.MjModel, int], int] | None = None
    reach: Callable[[float, int], Bounds] | None = None
    nominal: float = 0.0

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


def spec_name(element: str, attribute: str) -> str:
    """Return how a spec calls an attribute."""
    # A pair writes this one as MJCF does.
    pair = element == 'pair' and attribute == 'solreffriction'
    return attribute if pair else SPEC_NAMES.get(attribute, attribute)


@functools.cache
def spec_kind(element: str, attribute: str) -> Kind | None:
    """Return the kind of an attribute that only a spec has; None where it has none such."""
    size = spec_attributes(element).get(spec_name(element, attribute))
    if size is None:
        return None
    return Kind('', (-INFINITY, INFINITY), role=Role.SPEC, size=size)

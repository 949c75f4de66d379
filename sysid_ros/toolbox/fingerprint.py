# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a spec is still what it was, without compiling or copying it."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import mujoco

_ELEMENTS = (
    'bodies',
    'joints',
    'geoms',
    'sites',
    'cameras',
    'actuators',
    'sensors',
    'tendons',
    'equalities',
    'pairs',
    'excludes',
    'meshes',
    'hfields',
    'flexes',
    'plugins',
)
_SECTIONS = ('option', 'compiler', 'stat')
#: What compiling sets.
_COMPILED = frozenset({'id', 'signature'})
#: Types of plain attributes.
_PLAIN = (bool, int, float, str, np.ndarray)


def fingerprint(spec: mujoco.MjSpec) -> int:
    """Return a number that changes when an attribute of an element or option of a spec changes."""
    owners = itertools.chain(
        (getattr(spec, section) for section in _SECTIONS),
        *(getattr(spec, kind) for kind in _ELEMENTS),
    )
    return hash(tuple(_value(value) for owner in owners for value in _attributes(owner)))


def _attributes(owner: Any) -> Iterator[Any]:
    for name in _names(owner.__class__):
        value = getattr(owner, name)
        if isinstance(value, _PLAIN):
            yield value


@functools.cache
def _names(kind: Any) -> tuple[str, ...]:
    """Return the names of a class's attributes that are not methods."""
    return tuple(
        name
        for name in dir(kind)
        if not name.startswith('_')
        and name not in _COMPILED
        and not callable(getattr(kind, name, None))
    )


def _value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return repr(value) if isinstance(value, float) else value  # NaN equals itself then

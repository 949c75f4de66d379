# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Masses, centres of mass and inertias in the text: the ``<inertial>`` elements of bodies."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sysid_ros.errors import some
from sysid_ros.model.inertia import Inertial, full_inertia, principal_axes
from sysid_ros.model.mjcf.attributes import (
    ORIENTATIONS,
    join,
    number,
    set_component,
    set_orientation,
    set_scalar,
    set_vector,
)
from sysid_ros.model.mjcf.source import Rewrite
from sysid_ros.model.mjcf.text import Element
from sysid_ros.model.targets import Target, subtree

#: Attributes of a body that are written into its ``<inertial>``.
ATTRIBUTES = (
    'mass',
    'mass_scaled',
    'ipos',
    'mass_ipos',
    'mass_ipos_scaled',
    'inertia',
    'subtree_mass',
)
#: Rows and columns of the numbers of a ``fullinertia``.
_FULL = ((0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2))
#: Numbers below this share of the largest are rounding errors of zeros.
_ZERO = 1e-15
#: A full inertia must give principal axes and moments this closely, relative to the largest.
_ACCURACY = 1e-11


def write_inertials(rewrite: Rewrite, targets: Iterable[Target]) -> None:
    """Write the identified inertias of all bodies that targets change.

    Raises:
        ModelError: A body is not in the text.
    """
    rows: dict[int, None] = {}
    for target in targets:
        inside = target.attribute == 'subtree_mass'
        rows |= dict.fromkeys(subtree(rewrite.nominal, target.row) if inside else (target.row,))
    inserted = []
    for row in rows:
        nominal, fitted = (Inertial.of_body(m, row) for m in (rewrite.nominal, rewrite.fitted))
        if all(map(np.array_equal, nominal, fitted)):
            continue
        name = rewrite.nominal.body(row).name
        body = rewrite.source.find('body', name)
        own = (node for node in rewrite.source.nodes if node.parent is body)
        inertial = next((node for node in own if node.tag == 'inertial'), None)
        if inertial is not None:
            _change(inertial, nominal, fitted)
            continue
        inserted.append(name)
        body.add(
            Element(
                'inertial',
                pos=join(fitted.ipos),
                quat=join(fitted.iquat),
                mass=number(float(fitted.mass)),
                diaginertia=join(fitted.inertia),
            )
        )
    if inserted:
        rewrite.notes.append(
            f'{some(map(repr, inserted))}: an <inertial> is there now, with all of its numbers, as '
            'what is identified came from geoms.'
        )


def _change(inertial: Element, nominal: Inertial, fitted: Inertial) -> None:
    """Change an ``<inertial>`` where it differs from what it gave so far."""
    if fitted.mass != nominal.mass:
        set_scalar(inertial, 'mass', float(fitted.mass))
    for axis in np.flatnonzero(fitted.ipos != nominal.ipos):
        set_component(inertial, 'pos', int(axis), float(fitted.ipos[axis]), fitted.ipos, 3)
    turned = not np.array_equal(fitted.iquat, nominal.iquat)
    if not turned and np.array_equal(fitted.inertia, nominal.inertia):
        return
    if inertial.get('fullinertia') is not None:
        if not _set_full(inertial, fitted):
            inertial.rename('fullinertia', 'diaginertia', join(fitted.inertia))
            set_orientation(inertial, fitted.iquat)
        return
    set_vector(inertial, 'diaginertia', fitted.inertia)
    if turned:
        set_orientation(inertial, fitted.iquat)


def _set_full(inertial: Element, wanted: Inertial) -> bool:
    """Write six numbers, unless nearly equal moments leave the axes to rounding errors."""
    full = full_inertia(wanted.iquat, wanted.inertia)
    full[np.abs(full) < _ZERO * np.abs(full).max()] = 0.0
    six = full[_FULL]
    symmetric = np.empty((3, 3))
    symmetric[_FULL] = symmetric[_FULL[::-1]] = six
    moments, quat = principal_axes(symmetric)
    if (
        np.abs(moments - wanted.inertia).max() > _ACCURACY * float(wanted.inertia.max())
        or np.abs(quat - wanted.iquat).max() > _ACCURACY
        or any(inertial.get(name) is not None for name in ORIENTATIONS)
    ):
        return False
    set_vector(inertial, 'fullinertia', six)
    return True

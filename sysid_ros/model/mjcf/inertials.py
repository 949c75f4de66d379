# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Masses, centres of mass and inertias in the text: the ``<inertial>`` elements of bodies."""

from __future__ import annotations

from collections.abc import Iterable

import mujoco
import numpy as np

from sysid_ros.model.inertia import Inertial, full_inertia, principal_axes
from sysid_ros.model.mjcf.attributes import (
    ORIENTATIONS,
    frames_around,
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
#: ``mjsCompiler.inertiafromgeom``: geoms override every ``<inertial>``, or stand in for it.
_FROM_GEOMS_ALWAYS = 1
_FROM_GEOMS_AUTO = 2
#: Rows and columns of the numbers of a ``fullinertia``.
_FULL = ((0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2))
#: Numbers below this share of the largest are rounding errors of zeros.
_ZERO = 1e-15
#: A full inertia must give principal axes and moments this closely, relative to the largest.
_ACCURACY = 1e-11
#: At most so many bodies are named in a note.
_NAMED_BODIES = 5


def write_inertials(rewrite: Rewrite, targets: Iterable[Target]) -> None:
    """Write the identified inertias of all bodies that targets change.

    The compiler's ``inertiafromgeom="true"``, which overrides every ``<inertial>``, becomes
    ``"auto"``, and the bodies whose ``<inertial>`` was overridden get what they had. Its
    ``settotalmass``, which scales all masses, becomes the new total.

    Raises:
        ModelError: A body is not in the text.
    """
    paths = {}
    for target in targets:
        inside = target.attribute == 'subtree_mass'
        bodies = subtree(rewrite.nominal, target.row) if inside else (target.row,)
        paths.update(dict.fromkeys(bodies, target.path))
    changed = {
        row: path for row, path in paths.items() if not _same(rewrite.nominal, rewrite.fitted, row)
    }
    if not changed:
        return
    nodes = {row: rewrite.source.body(rewrite.nominal, row, changed[row]) for row in changed}
    scale = _total_mass(rewrite)
    overridden = _without_geoms(rewrite, set(changed))
    inserted = []
    for row, body in nodes.items():
        inertial = rewrite.source.inertial(body)
        if inertial is None:
            made = Inertial.of_body(rewrite.fitted, row)
            body.add(
                Element(
                    'inertial',
                    pos=join(made.ipos),
                    quat=join(made.iquat),
                    mass=number(float(made.mass / scale)),
                    diaginertia=join(made.inertia / scale),
                )
            )
            inserted.append(row)
        else:
            nominal = Inertial.of_body(rewrite.nominal, row)
            _change(rewrite, inertial, row, scale, None if row in overridden else nominal)
    for row in sorted(overridden - set(changed)):
        body = rewrite.source.body(rewrite.nominal, row, next(iter(changed.values())))
        inertial = rewrite.source.inertial(body)
        if inertial is not None:
            _change(rewrite, inertial, row, scale, None)
    _note_inserted(rewrite, inserted)


def _same(one: mujoco.MjModel, other: mujoco.MjModel, row: int) -> bool:
    """Whether a body has the same inertia in two models."""
    return all(map(np.array_equal, Inertial.of_body(one, row), Inertial.of_body(other, row)))


def _note_inserted(rewrite: Rewrite, rows: list[int]) -> None:
    """Say which bodies have an ``<inertial>`` now, in a note, if any."""
    if not rows:
        return
    body = mujoco.mjtObj.mjOBJ_BODY
    names = [mujoco.mj_id2name(rewrite.nominal, body, row) or str(row) for row in rows]
    shown = ', '.join(repr(name) for name in names[:_NAMED_BODIES])
    more = f' and {len(names) - _NAMED_BODIES} more' if len(names) > _NAMED_BODIES else ''
    one = len(names) == 1
    rewrite.notes.append(
        f'{"Body" if one else "Bodies"} {shown}{more} {"has" if one else "have"} an <inertial> '
        'now, with all of its numbers: what is identified came from geoms.'
    )


def _change(
    rewrite: Rewrite, inertial: Element, row: int, scale: float, nominal: Inertial | None
) -> None:
    """Change an ``<inertial>``, only where it differs from what it gave so far, where it did."""
    fitted = Inertial.of_body(rewrite.fitted, row)
    frame = frames_around(inertial, rewrite.spec)
    if nominal is None or fitted.mass != nominal.mass:
        set_scalar(inertial, 'mass', float(fitted.mass / scale))
    local = fitted
    moved = np.ones(3, bool) if nominal is None else fitted.ipos != nominal.ipos
    if frame is not None:
        place, turn = frame.place_inside(fitted.ipos), frame.orientation_inside(fitted.iquat)
        local = fitted._replace(ipos=place, iquat=turn)
        moved[:] = moved.any()
    for axis in np.flatnonzero(moved):
        set_component(inertial, 'pos', int(axis), float(local.ipos[axis]), local.ipos, 3)
    turned = nominal is None or not np.array_equal(fitted.iquat, nominal.iquat)
    if not turned and nominal is not None and np.array_equal(fitted.inertia, nominal.inertia):
        return
    if inertial.get('fullinertia') is not None and (
        _scale_full(inertial, fitted, nominal) or _set_full(inertial, local, scale)
    ):
        return
    moments = local.inertia / scale
    if inertial.get('fullinertia') is not None:
        inertial.rename('fullinertia', 'diaginertia', join(moments))
        set_orientation(inertial, local.iquat)
        return
    set_vector(inertial, 'diaginertia', moments)
    if turned:
        set_orientation(inertial, local.iquat)


def _scale_full(inertial: Element, fitted: Inertial, nominal: Inertial | None) -> bool:
    """Scale the six numbers of the text where only the size of the inertia changed."""
    if nominal is None or not np.array_equal(fitted.iquat, nominal.iquat):
        return False
    ratios = fitted.inertia / nominal.inertia
    if np.ptp(ratios) > _ZERO * ratios[0]:
        return False
    text = [float(entry) for entry in (inertial.get('fullinertia') or '').split()]
    set_vector(inertial, 'fullinertia', [entry * ratios[0] for entry in text])
    return True


def _set_full(inertial: Element, wanted: Inertial, scale: float) -> bool:
    """Write six numbers, unless nearly equal moments leave the axes to rounding errors."""
    full = full_inertia(wanted.iquat, wanted.inertia) / scale
    full[np.abs(full) < _ZERO * np.abs(full).max()] = 0.0
    six = full[_FULL]
    symmetric = np.empty((3, 3))
    symmetric[_FULL] = symmetric[_FULL[::-1]] = six
    moments, quat = principal_axes(symmetric)
    largest = float(wanted.inertia.max())
    if (
        np.abs(moments * scale - wanted.inertia).max() > _ACCURACY * largest
        or np.abs(quat - wanted.iquat).max() > _ACCURACY
        or any(inertial.get(name) is not None for name in ORIENTATIONS)
    ):
        return False
    set_vector(inertial, 'fullinertia', six)
    return True


def _total_mass(rewrite: Rewrite) -> float:
    """Write the new total mass where the text sets one.

    Returns:
        What the compiler multiplies masses and inertias of the text with.
    """
    if rewrite.spec.compiler.settotalmass <= 0:
        return 1.0
    unscaled = rewrite.spec.copy()
    unscaled.compiler.settotalmass = -1.0
    scale = float(rewrite.nominal.body_mass.sum() / unscaled.compile().body_mass.sum())
    for node in rewrite.source.nodes:
        if node.tag == 'compiler' and node.get('settotalmass') is not None:
            set_scalar(node, 'settotalmass', float(rewrite.fitted.body_mass.sum()))
    rewrite.notes.append(
        'The total mass that the compiler sets is the identified one now; masses and inertias in '
        'the text are scaled to it.'
    )
    return scale


def _without_geoms(rewrite: Rewrite, changed: set[int]) -> set[int]:
    """Let each ``<inertial>`` count, where geoms override all of them.

    Returns:
        The bodies whose ``<inertial>`` was overridden.
    """
    if rewrite.spec.compiler.inertiafromgeom != _FROM_GEOMS_ALWAYS:
        return set()
    auto = rewrite.spec.copy()
    auto.compiler.inertiafromgeom = _FROM_GEOMS_AUTO
    model = auto.compile()
    for node in rewrite.source.nodes:
        if node.tag == 'compiler' and node.get('inertiafromgeom') == 'true':
            node.set('inertiafromgeom', 'auto')
    bodies = range(1, rewrite.nominal.nbody)
    different = {row for row in bodies if not _same(model, rewrite.nominal, row)}
    others = len(different - changed)
    also = f'; {others} more had to be rewritten with what geoms gave' if others else ''
    rewrite.notes.append(
        'The compiler takes inertias from geoms only where there is no <inertial> now '
        f'(inertiafromgeom "auto"), so that the identified ones count{also}.'
    )
    return different

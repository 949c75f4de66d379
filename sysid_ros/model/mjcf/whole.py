# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The identified model as MuJoCo itself writes it, where the user's text cannot be edited."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np

from sysid_ros.model.implied import drop_implied
from sysid_ros.model.loading import write_delays
from sysid_ros.model.mjcf.exact import exact_xml, exact_xml_of_last
from sysid_ros.model.targets import Role, Target, write_spec

#: What MuJoCo does not take back from a compiled model.
_IN_SPEC = frozenset({'gravcomp', 'actuatorfrcrange'})


def write_whole(
    spec: mujoco.MjSpec,
    fitted: mujoco.MjModel,
    values: Sequence[tuple[Target, float]],
    path: Path,
) -> None:
    """Write an identified model into one file: includes, comments and spellings are gone.

    Args:
        spec: The user's model, with the actuators that are implied; it is not changed.
        fitted: The identified model.
        values: Targets and their values in SI units.
        path: The new file, beside the assets that it refers to.

    Raises:
        ValueError: MuJoCo refuses what it wrote.
    """
    copy = spec.copy()
    drop_implied(copy)
    for target, value in values:
        if target.role is Role.SPEC or target.element == 'option' or target.attribute in _IN_SPEC:
            write_spec(copy, target, value)
    delays = [entry for entry in values if entry[0].role is Role.COMMAND]
    write_delays(copy, fitted, delays)
    _compute_nothing(copy, fitted)
    path.write_text(exact_xml(copy), 'utf-8')
    model = mujoco.MjModel.from_xml_path(str(path))
    for field in mujoco.MjModel._all_fields:  # noqa: SLF001 (named nowhere else)
        new, old = getattr(fitted, field), getattr(model, field)
        if isinstance(old, np.ndarray) and old.dtype.kind == 'f' and old.shape == new.shape:
            old[:] = new
    path.write_text(exact_xml_of_last(model, path), 'utf-8')


def _compute_nothing(spec: mujoco.MjSpec, fitted: mujoco.MjModel) -> None:
    """Put what the compiler computes into a spec as the identified model has it."""
    spec.compiler.settotalmass = -1.0
    spec.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_AUTO
    for joint in spec.joints:
        joint.springdamper = np.zeros(2)
        joint.align = mujoco.mjtAlignFree.mjALIGNFREE_FALSE
    compiled = spec.copy()
    compiled.compile()
    for actuator, twin in zip(spec.actuators, compiled.actuators, strict=True):
        if actuator.inheritrange > 0:
            actuator.inheritrange = 0.0
            actuator.ctrlrange = fitted.actuator_ctrlrange[int(fitted.actuator_ctrladr[twin.id])]
            actuator.actrange = fitted.actuator_actrange[twin.id]
    for body, row in zip(spec.bodies, [body.id for body in compiled.bodies], strict=True):
        if fitted.body_mass[row] > 0:
            body.mass, body.explicitinertial = float(fitted.body_mass[row]), True
            body.fullinertia = np.full(6, np.nan)
            for name in ('ipos', 'iquat', 'inertia'):
                setattr(body, name, getattr(fitted, f'body_{name}')[row])

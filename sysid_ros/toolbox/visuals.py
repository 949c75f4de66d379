# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Specs without what is only there to be seen: they compile faster and simulate the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco

from sysid_ros.errors import ModelError
from sysid_ros.toolbox.inertia_parameter import infer_only_where_absent

if TYPE_CHECKING:
    from collections.abc import Iterator


def remove_visuals(in_spec: mujoco.MjSpec) -> mujoco.MjSpec:
    """Copy a spec without its visuals; what it compiles to has the same dynamics.

    Materials, textures, skins, geoms that collide with nothing and meshes that are then not used
    are left out. Geoms that something refers to stay (a sensor, a contact pair, a tendon), as do
    those that a surrounding fluid acts on. Inertia that was inferred from what is left out becomes
    explicit. All stay where rangefinders measure, for which every geom is an obstacle, and where
    islands may sleep, for which MuJoCo measures how fast a body is by the size of its geoms.

    Args:
        in_spec: Not changed.

    Returns:
        A new spec.

    Raises:
        ModelError: A mesh that inertia is inferred from cannot be read.
    """
    spec = in_spec.copy()
    ranging = any(sensor.type == mujoco.mjtSensor.mjSENS_RANGEFINDER for sensor in spec.sensors)
    if ranging or spec.option.enableflags & mujoco.mjtEnableBit.mjENBL_SLEEP:
        return spec
    infer_only_where_absent(spec)
    for skin in list(spec.skins):
        spec.delete(skin)
    try:
        spec.discard_visual()
    except (ValueError, mujoco.FatalError) as err:
        clause = ', '.join(_lines(err)).rstrip('.')
        msg = f'Cannot leave out the visuals of model {spec.modelname!r}: {clause}.'
        raise ModelError(msg) from err
    return spec


def _lines(error: Exception) -> Iterator[str]:
    return (line.strip() for line in str(error).splitlines() if line.strip())

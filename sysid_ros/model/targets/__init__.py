# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a parameter writes: one numeric attribute of one named MJCF element.

A target is written as a path, ``element/name/attribute`` with an optional index:
``joint/elbow/armature``, ``body/tool/mass``, ``actuator/a1/kp``, ``geom/foot/friction[0]``,
``option/gravity[2]``, ``default/leg/joint/damping``, ``sequence/run_1/initial_qpos[3]``. Each kind
of target knows its unit, the bounds that physics sets, and how to write a compiled model. Numeric
attributes that are in no table are written to a spec, which is compiled again. Writing the MJCF
text is the business of ``sysid_ros.model.mjcf.write``.
"""

from sysid_ros.model.targets.kinds import KINDS, MOST_TRAJECTORIES, Kind, Role, kind_of
from sysid_ros.model.targets.slots import Assignment, Slot, subtree
from sysid_ros.model.targets.target import (
    Target,
    element_names,
    object_id,
    of_sequence,
    read_spec,
    resolve,
    write_spec,
)
from sysid_ros.model.targets.writer import Writer, write_value

__all__ = [
    'KINDS',
    'MOST_TRAJECTORIES',
    'Assignment',
    'Kind',
    'Role',
    'Slot',
    'Target',
    'Writer',
    'element_names',
    'kind_of',
    'object_id',
    'of_sequence',
    'read_spec',
    'resolve',
    'subtree',
    'write_spec',
    'write_value',
]

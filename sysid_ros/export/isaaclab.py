# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Drives as actuators of IsaacLab."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sysid_ros.export.drives import JointDrive, Law, drives_of
from sysid_ros.export.lost import lost_lines
from sysid_ros.export.rendered import Rendered, pattern, rounded
from sysid_ros.export.stored import Stored

#: ImplicitActuatorCfg has no delay.
_HELD = frozenset({'stiffness', 'damping', 'effort', 'armature', 'frictionloss', 'viscous'})
_HEAD = """\
Identified drives for isaaclab.assets.ArticulationCfg(actuators=ACTUATORS), in SI units.
ImplicitActuatorCfg of IsaacLab 2.3 or newer, on Isaac Sim 5 or newer: friction, dynamic_friction
and viscous_friction are efforts there; older ones take friction as a coefficient of something else
and do not know the other two: leave the three out and add viscous_friction to damping.
damping acts on the error of velocity, in the identified model against the velocity: the same where
no velocity is commanded. Masses and inertias are those of the USD: convert the identified URDF or
MJCF."""
_DELAY = 'DelayedPDActuatorCfg has min_delay and max_delay in physics steps'


def render(stored: Stored, source: str) -> Rendered:
    """Return Python source with a dictionary of ``ImplicitActuatorCfg``.

    Args:
        stored: The result.
        source: Where it comes from, for the head.
    """
    joints, lost = drives_of(stored, _HELD)
    lost = tuple(
        entry._replace(why=_DELAY) if entry.name.endswith('/delay') else entry for entry in lost
    )
    lines = [f'# {line}' for line in (f'From {source}.', *_HEAD.splitlines(), *lost_lines(lost))]
    lines += ['from isaaclab.actuators import ImplicitActuatorCfg', '', 'ACTUATORS = {']
    for law in Law:
        drives = [drive for drive in joints if drive.law is law]
        if drives:
            lines += _group(law, drives)
    lines.append('}')
    return Rendered('\n'.join(lines) + '\n', lost, empty=not joints)


def _group(law: Law, drives: Sequence[JointDrive]) -> list[str]:
    def each(name: str, value: Callable[[JointDrive], float | None]) -> list[str]:
        known = [(drive.joint, found) for drive in drives if (found := value(drive)) is not None]
        if not known:
            return []
        entries = [f'            {pattern(joint)}: {rounded(found)},' for joint, found in known]
        return [f'        {name}={{', *entries, '        },']

    return [
        f'    "{law.value}": ImplicitActuatorCfg(',
        '        joint_names_expr=[',
        *(f'            {pattern(drive.joint)},' for drive in drives),
        '        ],',
        *each('stiffness', lambda drive: drive.stiffness),
        *each('damping', lambda drive: drive.damping),
        *each('effort_limit_sim', lambda drive: drive.limit),
        *each('armature', lambda drive: drive.armature),
        *each('friction', lambda drive: drive.frictionloss),
        *each('dynamic_friction', lambda drive: drive.frictionloss),
        *each('viscous_friction', lambda drive: drive.viscous),
        '    ),',
    ]

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Drives as actuators of mjlab."""

from __future__ import annotations

from collections.abc import Iterator

from sysid_ros.export.drives import JointDrive, Law, drives_of
from sysid_ros.export.lost import Lost, lost_lines
from sysid_ros.export.rendered import Rendered, pattern, rounded
from sysid_ros.export.stored import Stored

_HELD = frozenset(
    {'stiffness', 'damping', 'effort', 'armature', 'frictionloss', 'viscous', 'delay'}
)
_CLASSES = {
    Law.POSITION: 'BuiltinPositionActuatorCfg',
    Law.VELOCITY: 'BuiltinVelocityActuatorCfg',
    Law.EFFORT: 'BuiltinMotorActuatorCfg',
}
_HEAD = """\
Identified drives for mjlab.entity.EntityArticulationInfoCfg(actuators=ACTUATORS), in SI units.
Links, and joints without a drive, come from the identified MJCF, whose own actuators have to be
taken out before, as mjlab adds these: for actuator in list(spec.actuators): spec.delete(actuator).
mjlab delays by whole physics steps, and only in steps of PHYSICS_TIMESTEP below: set it to that of
your simulation. Commands are not clamped to a range."""
#: Of a motor without a limit in the model, N·m or N: mjlab wants one.
_NO_LIMIT = 1e6


def render(stored: Stored, source: str) -> Rendered:
    """Return Python source with a tuple of mjlab's configurations of built-in actuators.

    Args:
        stored: The result.
        source: Where it comes from, for the head.
    """
    joints, lost = drives_of(stored, _HELD)
    timestep = float(stored.fitted.opt.timestep)
    lost += tuple(
        Lost(
            f'actuator/{drive.actuator}/delay',
            drive.delay,
            's',
            identified=f'actuator/{drive.actuator}/delay' in stored.targets,
            why=f'{steps * timestep:.6g} s in whole steps of {timestep:.6g} s',
        )
        for drive in joints
        if abs((steps := round(drive.delay / timestep)) * timestep - drive.delay) > 1e-9  # noqa: PLR2004 (rounding)
    )
    classes = sorted({_CLASSES[drive.law] for drive in joints})
    lines = [f'# {line}' for line in (f'From {source}.', *_HEAD.splitlines(), *lost_lines(lost))]
    if classes:
        lines += [f'from mjlab.actuator import {", ".join(classes)}', '']
    if any(drive.delay for drive in joints):
        lines += ['# s, that of the identified model.', f'PHYSICS_TIMESTEP = {timestep!r}', '']
    lines.append('ACTUATORS = (')
    for drive in joints:
        lines += _actuator(drive)
    lines.append(')')
    notes = [
        f'mjlab wants a limit of effort for motors; the model has none for {drive.actuator!r}, so '
        f'{_NO_LIMIT:g} was written.'
        for drive in joints
        if drive.law is Law.EFFORT and drive.limit is None
    ]
    return Rendered('\n'.join(lines) + '\n', lost, tuple(notes), empty=not joints)


def _actuator(drive: JointDrive) -> Iterator[str]:
    yield f'    {_CLASSES[drive.law]}('
    yield f'        target_names_expr=({pattern(drive.joint)},),'
    if drive.law is Law.POSITION:
        yield f'        stiffness={rounded(drive.stiffness)},'
    if drive.law is not Law.EFFORT:
        yield f'        damping={rounded(drive.damping)},'
    limit = _NO_LIMIT if drive.law is Law.EFFORT and drive.limit is None else drive.limit
    if limit is not None:
        yield f'        effort_limit={rounded(limit)},'
    yield f'        armature={rounded(drive.armature)},'
    yield f'        frictionloss={rounded(drive.frictionloss)},'
    yield f'        viscous_damping={rounded(drive.viscous)},'
    if drive.delay:
        steps = f'round({rounded(drive.delay)} / PHYSICS_TIMESTEP)'
        yield f'        delay_min_lag={steps},'
        yield f'        delay_max_lag={steps},'
    yield '    ),'

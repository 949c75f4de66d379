# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Gains of servos as parameters of ros2_controllers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from sysid_ros.export.drives import JointDrive, Law, drives_of
from sysid_ros.export.lost import Lost, lost_lines
from sysid_ros.export.rendered import Rendered, rounded
from sysid_ros.export.stored import Stored

#: A format of gains holds these fields of `JointDrive`, and the delay in a comment.
_HELD = frozenset({'stiffness', 'damping', 'effort'})
_HEAD = """\
Gains of the identified servos as parameters of ros2_controllers, in SI units at the joints.
These are what the robot's own servos do. They are of use where a controller is to do the same
with effort commands, as in a simulation whose hardware takes efforts; a robot whose servos take
positions does it already.
p (proportional) is kp of the model, effort per error of position; i is 0, as no servo of MJCF
integrates here. d is kv: in the model it acts against the velocity, in these controllers on the
error of velocity, which is the same where the reference's velocity is 0 or not given.
u_clamp_max and u_clamp_min limit the effort: uncomment them where your ros2_controllers has them;
elsewhere the effort in <limit> of the URDF says it."""
_VELOCITY = """\
pid_controller on the velocity: p is kv of the model, effort per error of velocity."""


def render(stored: Stored, source: str) -> Rendered:
    """Return YAML with the gains of position and velocity servos.

    Keys are those of joint_trajectory_controller (``gains``) and pid_controller of ros2_controllers
    from Humble on; what only later ones know is in comments.

    Args:
        stored: The result.
        source: Where it comes from, for the head.
    """
    joints, lost = drives_of(stored, _HELD)
    motors = [drive for drive in joints if drive.law is Law.EFFORT]
    lost += tuple(
        Lost(f'actuator/{drive.actuator}', why='a motor has no gains') for drive in motors
    )
    lines = [
        *(f'# {line}' for line in (f'From {source}.', *_HEAD.splitlines(), *lost_lines(lost))),
    ]
    position = [drive for drive in joints if drive.law is Law.POSITION]
    velocity = [drive for drive in joints if drive.law is Law.VELOCITY]
    if position:
        lines += [
            'joint_trajectory_controller:',
            '  ros__parameters:',
            f'    joints: {_names(position)}',
            '    command_interfaces: [effort]',
            '    state_interfaces: [position, velocity]',
            '    gains:',
            *_gains(position),
        ]
    if velocity:
        lines += [
            *(f'# {line}' for line in _VELOCITY.splitlines()),
            'pid_controller:',
            '  ros__parameters:',
            f'    dof_names: {_names(velocity)}',
            '    command_interface: effort',
            '    reference_and_state_interfaces: [velocity]',
            '    gains:',
            *_gains(velocity),
        ]
    return Rendered('\n'.join(lines) + '\n', lost, empty=not (position or velocity))


def _names(drives: Sequence[JointDrive]) -> str:
    return '[' + ', '.join(_quoted(drive.joint) for drive in drives) + ']'


def _quoted(name: str) -> str:
    """Return a name as YAML has it, in quotes where it might be read as something else."""
    plain = name.replace('_', '').isalnum() and name[0].isalpha() and name.lower() not in _WORDS
    return name if plain and name.isascii() else json.dumps(name)


#: YAML 1.1 reads these as no strings.
_WORDS = frozenset({'y', 'n', 'yes', 'no', 'on', 'off', 'true', 'false', 'null'})


def _gains(drives: Sequence[JointDrive]) -> Iterator[str]:
    for drive in drives:
        force, length = ('N', 'm') if drive.slide else ('N·m', 'rad')
        damping = f'{rounded(drive.damping)}  # {force}·s/{length}'
        yield f'      {_quoted(drive.joint)}:'
        if drive.law is Law.VELOCITY:
            yield from (f'        p: {damping}', '        i: 0.0', '        d: 0.0')
        else:
            yield f'        p: {rounded(drive.stiffness)}  # {force}/{length}'
            yield from ('        i: 0.0', f'        d: {damping}')
        if drive.limit is not None:
            yield f'        # u_clamp_max: {rounded(drive.limit)}  # {force}'
            yield f'        # u_clamp_min: {rounded(-drive.limit)}'
        if drive.delay:
            yield f'        # Commands act {rounded(drive.delay)} s late, which no key says.'

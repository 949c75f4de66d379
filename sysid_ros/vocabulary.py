# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The words and units by which topics, fields and columns say what their numbers are."""

from __future__ import annotations

import enum
import re
from collections.abc import Collection

#: Nanoseconds in a second: stamps are integers in ns.
SECOND_NS = 1_000_000_000


class Quantity(enum.StrEnum):
    """What is measured or commanded of a joint, as the fields of a JointState are called."""

    POSITION = 'position'
    VELOCITY = 'velocity'
    EFFORT = 'effort'

    def unit(self, *, slide: bool) -> str:
        """Return the SI unit at a hinge, or at a slide."""
        return {
            Quantity.POSITION: ('rad', 'm'),
            Quantity.VELOCITY: ('rad/s', 'm/s'),
            Quantity.EFFORT: ('N·m', 'N'),
        }[self][slide]


#: Words for currents and duty cycles, which are no torques.
CURRENT = frozenset(['current', 'currents', 'curr', 'amps', 'iq'])
PWM = frozenset(['pwm', 'duty'])
#: Quantity to its words. The first that fits counts: the current position is a position.
QUANTITIES = {
    Quantity.POSITION: frozenset(
        ['position', 'positions', 'pos', 'angle', 'angles', 'q', 'qpos', 'theta']
    ),
    Quantity.VELOCITY: frozenset(
        ['velocity', 'velocities', 'vel', 'dq', 'qd', 'qdot', 'qv', 'qvel', 'speed', 'speeds']
    ),
    Quantity.EFFORT: frozenset(['effort', 'efforts', 'torque', 'torques', 'tau']) | CURRENT | PWM,
}
#: Words that say that something was commanded, ...
COMMANDED = frozenset(
    ['action', 'applied', 'cmd', 'command', 'commanded', 'commands', 'control', 'des', 'desired']
) | {'goal', 'ref', 'reference', 'setpoint', 'target'}
#: ... and those among them that no word for a measurement contains.
_COMMANDED_PARTS = (
    'command',
    'cmd',
    'target',
    'reference',
    'setpoint',
    'desired',
    'goal',
    'applied',
)
#: Words that say that something was measured.
MEASURED = frozenset(
    ['actual', 'feedback', 'meas', 'measured', 'obs', 'observation', 'present', 'state', 'states']
)
#: Words for what is neither measured nor commanded, nor of a joint.
NEITHER = frozenset(['acceleration', 'accelerations', 'covariance', 'error', 'output'])
#: Labels of vectors and quaternions: these belong to no joint.
COMPONENTS = frozenset('xyzw')
#: A word or a number in a name.
WORD = re.compile(r'[A-Z]+(?![a-z])|[A-Z]?[a-zµ]+|\d+')


def words_of(name: str) -> list[str]:
    """Split ``leftElbow_joint02`` into left, elbow, joint, 2."""
    return [word.lower().lstrip('0') or '0' for word in WORD.findall(name)]


def quantity_of(words: Collection[str]) -> Quantity | None:
    """Return what words say that numbers are, None where they do not."""
    return next((kind for kind, known in QUANTITIES.items() if known & set(words)), None)


def is_command(topic: str) -> bool:
    """Tell by its name whether a topic carries commands."""
    return any(word in topic.lower() for word in _COMMANDED_PARTS)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What to record so that parameters are determined that are not."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple

from sysid_ros.model.unknown import Unknown


class Effect(enum.Enum):
    """What a parameter does to the motion; in the order in which people write them in a formula."""

    SENSOR_GAIN = 'sensor gain'
    DRIVE = 'drive'  # torque per command
    SERVO = 'servo'  # stiffness and damping of a servo
    SPRING = 'spring'
    REST = 'rest'  # where a spring is at rest
    FRICTION = 'friction'
    DAMPING = 'damping'
    GRAVITY = 'gravity'
    LEVER = 'lever'
    ARMATURE = 'armature'
    INERTIA = 'inertia'
    MASS = 'mass'
    DELAY = 'delay'
    FILTER = 'filter'
    SENSOR_BIAS = 'sensor bias'
    DRIVE_BIAS = 'drive bias'
    STATE = 'state'
    CONTACT = 'contact'
    OTHER = 'other'


_MOVED = frozenset({Effect.MASS, Effect.INERTIA, Effect.ARMATURE, Effect.LEVER})
_LAGS = frozenset({Effect.DELAY, Effect.FILTER})
_OFFSETS = frozenset({Effect.SENSOR_BIAS, Effect.DRIVE_BIAS, Effect.REST, Effect.STATE})
_WEIGHT = frozenset({Effect.GRAVITY, Effect.MASS, Effect.LEVER})
_BODY = frozenset({Effect.MASS, Effect.LEVER, Effect.INERTIA})
_RUBS = frozenset({Effect.FRICTION})
_RESISTS = frozenset({Effect.FRICTION, Effect.DAMPING, Effect.CONTACT})
_DRIVES = frozenset({Effect.DRIVE})
_ANY = frozenset(Effect)

#: What has which effect: elements and attributes, as in targets.
_TARGETS = {
    Effect.SENSOR_GAIN: 'sensor/gain',
    Effect.DRIVE: 'actuator/gear actuator/gainprm actuator/gain actuator/forcerange',
    Effect.SERVO: 'actuator/kp actuator/kv actuator/ki actuator/biasprm',
    Effect.SPRING: 'joint/stiffness tendon/stiffness',
    Effect.REST: 'joint/springref joint/ref joint/zero tendon/springlength',
    Effect.FRICTION: 'joint/frictionloss tendon/frictionloss',
    Effect.DAMPING: 'actuator/damping joint/damping tendon/damping',
    Effect.GRAVITY: 'body/gravcomp option/gravity',
    Effect.LEVER: 'body/ipos',
    Effect.ARMATURE: 'actuator/armature joint/armature tendon/armature',
    Effect.INERTIA: 'body/inertia',
    Effect.MASS: 'body/mass body/mass_scaled body/subtree_mass geom/mass geom/density',
    Effect.DELAY: 'actuator/delay sensor/delay sequence/arrival_offset sequence/trajectory_offset',
    Effect.FILTER: 'actuator/dynprm',
    Effect.SENSOR_BIAS: 'sensor/bias',
    Effect.DRIVE_BIAS: 'actuator/bias',
    Effect.STATE: 'sequence/initial_qpos sequence/initial_qvel sequence/initial_act',
    Effect.CONTACT: 'geom/friction geom/solref geom/solimp',
}
_EFFECTS = {target: effect for effect, targets in _TARGETS.items() for target in targets.split()}


class _Remedy(NamedTuple):
    """What separates a parameter that does one thing from another that does another thing."""

    one: frozenset[Effect]
    other: frozenset[Effect]
    record: str


#: The first that fits is told.
_SEPARATE = (
    _Remedy(
        frozenset({Effect.SENSOR_GAIN}),
        _ANY,
        "a calibrated sensor of the same quantity would separate them (or fix the sensor's gain)",
    ),
    _Remedy(_DRIVES, _DRIVES, 'only their product acts: fix all but one of them'),
    _Remedy(_LAGS, _LAGS, 'steps, or commands at higher frequencies, would separate them'),
    _Remedy(
        _LAGS,
        _ANY,
        'steps, or commands at higher frequencies, would separate a lag from what slows the motion',
    ),
    _Remedy(
        _RUBS,
        frozenset({Effect.DAMPING}),
        'slow and fast motion, both ways, would separate them',
    ),
    _Remedy(
        _RUBS,
        _WEIGHT | _OFFSETS | _DRIVES,
        'motion both ways, and with two loads, would separate them',
    ),
    _Remedy(
        frozenset({Effect.SERVO}),
        _MOVED,
        "commands above the loop's bandwidth, a softer loop or a known payload would separate them",
    ),
    _Remedy(frozenset({Effect.GRAVITY}), _WEIGHT, 'fix gravity, which is known'),
    _Remedy(_DRIVES, _MOVED | _WEIGHT, 'a known payload would separate them'),
    _Remedy(
        _OFFSETS,
        _WEIGHT,
        'other poses, in which gravity acts differently, would separate them',
    ),
    _Remedy(
        frozenset({Effect.SPRING}),
        _OFFSETS | _WEIGHT,
        'positions farther apart would separate them',
    ),
    _Remedy(
        frozenset({Effect.ARMATURE}),
        _BODY,
        'other poses, which change the inertia of the links but not of the rotors, would separate '
        'them',
    ),
    _Remedy(
        _BODY,
        _BODY,
        'motion of the other joints and other poses would separate them, or a known mass',
    ),
    _Remedy(
        _DRIVES | frozenset({Effect.SERVO, Effect.SPRING, Effect.DAMPING, Effect.FRICTION}),
        _MOVED | frozenset({Effect.SPRING, Effect.DAMPING, Effect.FRICTION, Effect.SERVO}),
        'a known payload{torque} would separate them',
    ),
)
_SEPARATE_OTHERS = 'fix one of them, or record a motion in which they act differently'

_EXCITE: dict[Effect, str] = {
    Effect.SENSOR_GAIN: 'larger motion of what {where} measures would determine it',
    Effect.SENSOR_BIAS: 'a longer recording would determine it',
    Effect.DRIVE: 'larger commands to {where} would determine it',
    Effect.DRIVE_BIAS: 'softer holding by {where} or a longer recording would determine it',
    Effect.SERVO: 'faster and larger commands to {where} would determine it',
    Effect.SPRING: 'larger excursions of {where} would determine it',
    Effect.REST: 'larger excursions of {where} would determine it',
    Effect.FRICTION: 'slow motion of {where}, both ways, would determine it',
    Effect.DAMPING: 'fast motion of {where} would determine it',
    Effect.ARMATURE: 'stronger accelerations of {where} would determine it',
    Effect.MASS: 'stronger accelerations of {where}, or poses in which its weight is felt, '
    'would determine it',
    Effect.LEVER: 'poses in which the weight of {where} acts differently would determine it',
    Effect.INERTIA: 'stronger angular accelerations of {where}, about all axes, would determine it',
    Effect.GRAVITY: 'poses in which gravity acts differently would determine it',
    Effect.DELAY: 'steps, or commands at higher frequencies, would determine it',
    Effect.FILTER: 'steps, or commands at higher frequencies, would determine it',
    Effect.CONTACT: 'motion in which {where} touches, slides and hits would determine it',
    Effect.STATE: 'motion soon after the start would determine it',
}
_EXCITE_OTHERS = 'motion on which it acts more strongly would determine it'


def effect(unknown: Unknown) -> Effect:
    """Return what a parameter does to the motion."""
    if not unknown.targets:
        return Effect.OTHER
    target = unknown.targets[0]
    element, attribute = target.element_and_attribute
    if attribute in {'mass_ipos', 'mass_ipos_scaled'}:
        return Effect.LEVER if target.index else Effect.MASS
    return _EFFECTS.get(f'{element}/{attribute}', Effect.OTHER)


def add_up(unknowns: Iterable[Unknown]) -> bool:
    """Return whether parameters add up in what they do, rather than multiply.

    Offsets add to anything, lags to lags, resistances to resistances, and what has one unit to its
    like.
    """
    chosen = list(unknowns)
    effects = {effect(unknown) for unknown in chosen}
    if effects & _OFFSETS or effects <= _LAGS or effects <= _RESISTS:
        return True
    units = {unknown.unit if unknown.targets else '' for unknown in chosen}
    return len(units) == 1 and not units & {'', '1'}


def separating(unknowns: Iterable[Unknown], *, forces: bool) -> str:
    """Say what would tell some parameters apart."""
    torque = '' if forces else ' or a measured torque'
    effects = [effect(unknown) for unknown in unknowns]
    for remedy in _SEPARATE:
        for place, one in enumerate(effects):
            rest = effects[:place] + effects[place + 1 :]
            if one in remedy.one and any(other in remedy.other for other in rest):
                return remedy.record.format(torque=torque)
    return _SEPARATE_OTHERS


def exciting(unknown: Unknown) -> str:
    """Say what would determine a parameter that the motion does not excite."""
    named = [target for target in unknown.targets if target.name]
    where = 'them' if named else 'the robot'
    if len(named) == 1:
        where = f'{named[0].element_and_attribute[0]} {named[0].name}'
    return _EXCITE.get(effect(unknown), _EXCITE_OTHERS).format(where=where)

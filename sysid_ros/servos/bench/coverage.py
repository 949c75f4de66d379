# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What logs of the bench lack, and what to record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sysid_ros.servos.formats.logs import ServoLog
from sysid_ros.servos.laws.servo import Servo

#: Loads that differ by less than this part are one.
_SAME_LOAD = 0.05
#: A pause is so many times as long as the usual time between readings, and so many s.
_PAUSE_PERIODS, _PAUSE = 5.0, 0.05
#: A motor that is off for less than this part of all samples is never really off.
_OFF = 0.01

_LOADS = 'logs with at least two masses or lengths that differ by a factor of 1.5'
_OFF_LOGS = 'lift_and_drop, where the motor is switched off and back-EMF vanishes'
_SLOW = 'slow motion through rest under load: up_and_down, half_sine'
_DRIVEN = 'heavy loads that drive the joint as well as being driven: up_and_down, lift_and_drop'
#: What to record for a coefficient; for those of load that are not here, all of the last two.
_RECORD = {
    'kt': f'several gains kp, and {_OFF_LOGS}',
    'R': f'several gains kp up to where the voltage saturates (steps), and {_OFF_LOGS}',
    'armature': 'fast motion with a light load: sin_time_square',
    'error_gain_ratio': 'several gains kp',
    'ratio': 'several gains kp',
    'max_velocity': 'goals that jump: steps',
    'max_torque': 'goals that jump under a heavy load: steps',
    'current_limit': 'goals that jump under a heavy load: steps',
    'command_delay': 'fast motion: sin_time_square',
    'q_offset': 'swings to both sides: sin_sin',
    'friction_base': _SLOW,
    'friction_stribeck': _SLOW,
    'dtheta_stribeck': f'{_SLOW}, and sin_sin for the speeds above',
    'alpha': f'{_SLOW}, and sin_sin for the speeds above',
    'friction_viscous': f'fast motion (sin_time_square), and {_OFF_LOGS}',
    'load_friction_base': _LOADS,
    'load_friction_stribeck': f'{_LOADS}, moving slowly',
}


def what_to_record(coefficient: str) -> str:
    """Return the motions and loads on which a coefficient acts most, in a clause."""
    return _RECORD.get(coefficient, f'{_LOADS}; {_DRIVEN}')


def gaps(servo: Servo, logs: Sequence[ServoLog]) -> Iterator[str]:
    """Yield what logs lack for the coefficients of a servo that is fitted to them.

    Each is a sentence. Raw logs may have pauses; others are evenly sampled.
    """
    # Torques of gravity where the pendulum is level, over g: kg·m.
    loads = [(log.mass + log.arm_mass / 2) * log.length for log in logs]
    if servo.friction.load and max(loads) <= (1 + _SAME_LOAD) * min(loads):
        names = ', '.join(name for name in servo.coefficients if name.startswith('load_'))
        yield (
            f'All logs have one load, from which friction that depends on load ({names}) is '
            f'told by the form of the law alone: record {_LOADS}.'
        )
    off = sum(float((log.enabled == 0).sum()) for log in logs)
    if 'kt' in servo.coefficients and off < _OFF * sum(len(log) for log in logs):
        yield (
            'The motor is never off: viscous friction and back-EMF brake alike, and only the form '
            f'of the law tells kt, R and friction_viscous apart; record {_OFF_LOGS}.'
        )
    yield from _pauses(logs)


def _pauses(logs: Sequence[ServoLog]) -> Iterator[str]:
    """Yield a sentence where the encoders of raw logs were not read for long."""
    found = []
    for log in logs:
        apart = np.diff(log.times)
        if log.stamps is not None and apart.max() > max(_PAUSE_PERIODS * np.median(apart), _PAUSE):
            found.append((float(apart.max()), log, float(log.times[int(apart.argmax())])))
    if found:
        longest, log, begin = max(found, key=lambda pause: pause[0])
        yield (
            f'In {len(found)} of {len(logs)} logs the encoder was not read for a while, at most '
            f'for {longest:.2g} s ({log.name} at {begin:.2f} s): the last command is taken to hold '
            'there.'
        )

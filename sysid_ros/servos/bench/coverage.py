# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What logs of the bench cover: loads, gains, motions, and what to record where they lack some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from sysid_ros.errors import ConfigError, LogError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sysid_ros.servos.formats.logs import ServoLog
    from sysid_ros.servos.laws.servo import Servo


#: Loads that differ by less than this part are one.
_SAME_LOAD = 0.05
#: So many loads at least tell how friction depends on load.
_ENOUGH_LOADS = 2
#: A pause is so many times as long as the usual time between readings, and so many s.
_PAUSE_PERIODS, _PAUSE = 5.0, 0.05
#: A motor that is off for less than this part of all samples is never really off.
_OFF = 0.01

_LOADS = 'logs with at least two masses or lengths that differ by a factor of 1.5'
_OFF_LOGS = 'lift_and_drop, where the motor is switched off and back-EMF vanishes'
_SLOW = 'slow motion through rest under load: up_and_down, half_sine'
_DRIVEN = 'heavy loads that drive the joint as well as being driven: up_and_down, lift_and_drop'
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
    'law_step': 'fast motion with several gains kp: sin_time_square',
    'q_offset': 'swings to both sides: sin_sin',
    'friction_base': _SLOW,
    'friction_stribeck': _SLOW,
    'dtheta_stribeck': f'{_SLOW}, and sin_sin for the speeds above',
    'alpha': f'{_SLOW}, and sin_sin for the speeds above',
    'friction_viscous': f'fast motion (sin_time_square), and {_OFF_LOGS}',
    'load_friction_base': _LOADS,
    'load_friction_stribeck': f'{_LOADS}, moving slowly',
    'load_friction_motor': f'{_LOADS}; {_DRIVEN}',
    'load_friction_external': f'{_LOADS}; {_DRIVEN}',
    'load_friction_motor_stribeck': f'{_LOADS}; {_DRIVEN}',
    'load_friction_external_stribeck': f'{_LOADS}; {_DRIVEN}',
    'load_friction_motor_quad': f'{_LOADS}; {_DRIVEN}',
    'load_friction_external_quad': f'{_LOADS}; {_DRIVEN}',
}
By = Literal['load', 'kp', 'trajectory']
#: What logs can be grouped by. Load first, as that is what friction laws differ in.
KINDS: tuple[By, ...] = get_args(By)
#: One to fit, one to judge.
FEWEST_GROUPS = 2
#: Of the groups, for people.
PLURALS: dict[By, str] = {'load': 'loads', 'kp': 'gains kp', 'trajectory': 'trajectories'}
#: For logs that say nothing of it.
_UNKNOWN = 'unknown'


def what_to_record(coefficient: str) -> str:
    """Return the motions and loads on which a coefficient acts most, in a clause."""
    return _RECORD[coefficient]


def load_of(log: ServoLog) -> float:
    """Return the torque of gravity at the level pendulum, over g: kg·m."""
    return (log.mass + log.arm_mass / 2) * log.length


def loads(logs: Sequence[ServoLog]) -> list[float]:
    """Return the different torques of gravity at the level pendulum, over g: kg·m."""
    found: list[float] = []
    for load in sorted(map(load_of, logs)):
        if not found or load > (1 + _SAME_LOAD) * found[-1]:
            found.append(load)
    return found


def gaps(servo: Servo, logs: Sequence[ServoLog]) -> Iterator[str]:
    """Yield what logs lack for the coefficients of a servo, a sentence each.

    Args:
        servo: The kind of servo and its friction law.
        logs: Those that it is fitted to.
    """
    if servo.friction.load or servo.friction.directional:
        count = len(loads(logs))
        if count < _ENOUGH_LOADS:
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
    yield from pauses(logs)


def pauses(logs: Sequence[ServoLog]) -> Iterator[str]:
    """Yield a sentence where the encoders of raw logs were not read for long.

    Args:
        logs: Raw ones; others are evenly sampled.
    """
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


class Grouping(NamedTuple):
    """Logs in groups.

    Attributes:
        by: What those of a group have in common.
        why: Why they are grouped by that, in a clause.
        groups: Name to the logs of each.
    """

    by: By
    why: str
    groups: Mapping[str, tuple[ServoLog, ...]]


def group(servo: Servo, logs: Sequence[ServoLog], by: str | None = None) -> Grouping:
    """Group logs so that each group can be left out of a fit.

    Args:
        servo: Whose gain holds where a log says nothing.
        logs: All of them.
        by: What they are grouped by; by default load where there are several, else what makes the
            most groups.

    Raises:
        ConfigError: There is no such kind of groups.
        LogError: There is only one group.
    """
    if by is not None and by not in KINDS:
        msg = f'Logs cannot be grouped by {by!r}; {nearest(by, KINDS, len(KINDS))}.'
        raise ConfigError(msg)
    groups_by_kind = {kind: _groups(kind, servo, logs) for kind in KINDS}
    counts = {kind: len(found) for kind, found in groups_by_kind.items()}
    possible = [kind for kind in KINDS if counts[kind] >= FEWEST_GROUPS]
    if by is not None:
        asked = next(kind for kind in KINDS if kind == by)
        if asked not in possible:
            others = ' or '.join(f'{kind} ({counts[kind]} groups)' for kind in possible)
            rest = f'by {others} they can be grouped' if others else 'nor do they differ otherwise'
            msg = (
                f'Expected logs of at least two {PLURALS[asked]} to leave one out in turn, found '
                f'only {next(iter(groups_by_kind[asked]), "none")}; {rest}.'
            )
            raise LogError(msg)
        return Grouping(asked, 'as asked for', groups_by_kind[asked])
    if not possible:
        msg = (
            'Expected logs of at least two loads, gains kp or trajectories to leave one out in '
            f'turn and compare models on it, found {len(logs)} of one.'
        )
        raise LogError(msg)
    if 'load' in possible:
        return Grouping(
            'load', 'as it is load that friction laws differ in', groups_by_kind['load']
        )
    most = max(possible, key=lambda kind: counts[kind])
    return Grouping(most, 'as all have one load', groups_by_kind[most])


def limits(servo: Servo, grouping: Grouping) -> Iterator[str]:
    """Yield what leaving out these groups cannot tell, a sentence each.

    Args:
        servo: Whose gain holds where a log says nothing.
        grouping: Of all logs.
    """
    logs = [log for own in grouping.groups.values() for log in own]
    if len(grouping.groups) == FEWEST_GROUPS:
        what = PLURALS[grouping.by]
        yield (
            f'There are only two {what}, so that each fit without one of them knows a single one: '
            f'held-out errors say more with three {what}.'
        )
    for kind in KINDS:
        if kind != grouping.by and _partition(_groups(kind, servo, logs)) == _partition(
            grouping.groups
        ):
            yield (
                f'{PLURALS[grouping.by].capitalize()} and {PLURALS[kind]} change together in these '
                f'logs: an error on another {grouping.by} may be one on another {kind}; record '
                'each with each.'
            )


def _partition(groups: Mapping[str, tuple[ServoLog, ...]]) -> set[frozenset[str]]:
    return {frozenset(log.name for log in logs) for logs in groups.values()}


def _groups(by: By, servo: Servo, logs: Sequence[ServoLog]) -> dict[str, tuple[ServoLog, ...]]:
    if by == 'load':
        lows = loads(logs)
        ends = (*lows[1:], float('inf'))
        return {
            f'{low:.3g} kg·m': tuple(log for log in logs if low <= load_of(log) < end)
            for low, end in zip(lows, ends, strict=True)
        }
    if by == 'kp':
        usual = servo.type.constants.get('kp')
        gains = [log.constants.get('kp', usual) for log in logs]
        distinct = sorted({gain for gain in gains if gain is not None})
        found = {
            f'kp {gain:g}': tuple(log for log, own in zip(logs, gains, strict=True) if own == gain)
            for gain in distinct
        }
        rest = tuple(log for log, own in zip(logs, gains, strict=True) if own is None)
        return {**found, **({_UNKNOWN: rest} if rest else {})}
    names = dict.fromkeys(log.trajectory or _UNKNOWN for log in logs)
    return {
        name: tuple(log for log in logs if (log.trajectory or _UNKNOWN) == name) for name in names
    }

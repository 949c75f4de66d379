# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Logs of a servo in groups, each of which can be left out of a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from sysid_ros.errors import ConfigError, LogError, nearest
from sysid_ros.servos.bench.advice import load_of, loads

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sysid_ros.servos.formats.log import Log
    from sysid_ros.servos.laws.servo import Servo

By = Literal['load', 'kp', 'trajectory']
#: What logs can be grouped by. Load first, as that is what friction laws differ in.
KINDS: tuple[By, ...] = get_args(By)
#: One to fit, one to judge.
FEWEST_GROUPS = 2
#: Of the groups, for people.
PLURALS: dict[By, str] = {'load': 'loads', 'kp': 'gains kp', 'trajectory': 'trajectories'}
#: For logs that say nothing of it.
_UNKNOWN = 'unknown'


class Grouping(NamedTuple):
    """Logs in groups.

    Attributes:
        by: What those of a group have in common.
        why: Why they are grouped by that, in a clause.
        groups: Name to the logs of each.
    """

    by: By
    why: str
    groups: Mapping[str, tuple[Log, ...]]


def group(servo: Servo, logs: Sequence[Log], by: str | None = None) -> Grouping:
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
    every = {kind: _groups(kind, servo, logs) for kind in KINDS}
    counts = {kind: len(found) for kind, found in every.items()}
    possible = [kind for kind in KINDS if counts[kind] >= FEWEST_GROUPS]
    if by is not None:
        asked = next(kind for kind in KINDS if kind == by)
        if asked not in possible:
            others = ' or '.join(f'{kind} ({counts[kind]} groups)' for kind in possible)
            rest = f'by {others} they can be grouped' if others else 'nor do they differ otherwise'
            msg = (
                f'Expected logs of at least two {PLURALS[asked]} to leave one out in turn, found '
                f'only {next(iter(every[asked]), "none")}; {rest}.'
            )
            raise LogError(msg)
        return Grouping(asked, 'as asked for', every[asked])
    if not possible:
        msg = (
            'Expected logs of at least two loads, gains kp or trajectories to leave one out in '
            f'turn and compare models on it, found {len(logs)} of one.'
        )
        raise LogError(msg)
    if 'load' in possible:
        return Grouping('load', 'as it is load that friction laws differ in', every['load'])
    most = max(possible, key=lambda kind: counts[kind])
    return Grouping(most, 'as all have one load', every[most])


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


def _partition(groups: Mapping[str, tuple[Log, ...]]) -> set[frozenset[str]]:
    return {frozenset(log.name for log in logs) for logs in groups.values()}


def _groups(by: By, servo: Servo, logs: Sequence[Log]) -> dict[str, tuple[Log, ...]]:
    if by == 'load':
        return _by_load(logs)
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


def _by_load(logs: Sequence[Log]) -> dict[str, tuple[Log, ...]]:
    lows = loads(logs)
    ends = (*lows[1:], float('inf'))
    return {
        f'{low:.3g} kg·m': tuple(log for log in logs if low <= load_of(log) < end)
        for low, end in zip(lows, ends, strict=True)
    }

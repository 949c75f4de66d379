# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The search for the likeliest hypothesis: which joint each drive is, in which unit, sign, offset.

It changes one or two drives at a time until nothing is better. How much worse the best rival is
tells how certain a choice is.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from sysid_ros.alignment.mapping.proposal.drives import LEAST_CORRELATION
from sysid_ros.alignment.mapping.proposal.judge import (
    GAIN,
    SHIFTS,
    TURNS,
    Guess,
    Judge,
    Verdict,
    blank,
)
from sysid_ros.alignment.mapping.proposal.units import units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sysid_ros.alignment.mapping.proposal.drives import Drive

#: Sweeps after which the search gives up.
_SWEEPS = 12
#: How little torques count at first in the second ascent.
_DISTRUST = 0.2
#: With more drives than this, drives are not turned while they are exchanged.
_MANY = 12


class Found(NamedTuple):
    """The best hypothesis.

    Attributes:
        guesses: One per drive.
        verdict: How it fares.
        margins: Drive and choice (joint, sign, unit, offset) to how much worse the best rival is.
    """

    guesses: tuple[Guess, ...]
    verdict: Verdict
    margins: dict[tuple[int, str], float]


class _Change(NamedTuple):
    """A change of one drive: choice, attributes that change their sign, attributes that are set."""

    choice: str
    flipped: tuple[str, ...]
    values: dict[str, Any]

    def of(self, guess: Guess) -> Guess:
        """Return the changed guess."""
        signs = {name: -getattr(guess, name) for name in self.flipped}
        return dataclasses.replace(guess, **signs, **self.values)


def search(judge: Judge) -> Found:
    """Find the hypothesis that nothing near it is better than.

    Without measured efforts, wrong units and offsets can explain each other; a second ascent lets
    what is usual decide first.
    """
    start = _start(judge)
    ends = []
    for trusts in ((1.0,), (_DISTRUST, 1.0)):
        current = list(start)
        for judge.trust in trusts:
            # What excuses much comes last: zeros elsewhere, drives that are no joint of the model.
            verdict = _climb(judge, current, excuses=False)[0]
        ends.append((verdict.total, current))
        if all(drive.effort is not None for drive in judge.drives):
            break
    current = max(ends, key=lambda end: end[0])[1]
    verdict, margins = _climb(judge, current, excuses=True)
    return Found(tuple(current), verdict, margins)


def _climb(
    judge: Judge, current: list[Guess], *, excuses: bool
) -> tuple[Verdict, dict[tuple[int, str], float]]:
    """Change guesses, in place, until no move is better."""
    verdict = judge.judge(tuple(current))
    margins: dict[tuple[int, str], float] = {}
    for _ in range(_SWEEPS):
        margins = {}
        better = False
        for choice, changed in _moves(judge, current, excuses=excuses):
            rival = [changed.get(row, guess) for row, guess in enumerate(current)]
            found = judge.judge(tuple(rival))
            if found.total > verdict.total + GAIN:
                current[:], verdict, better = rival, found, True
            for row in changed:
                worse = max(verdict.total - found.total, 0.0)
                margins[row, choice] = min(margins.get((row, choice), math.inf), worse)
        if not better:
            break
    return verdict, margins


def _start(judge: Judge) -> list[Guess]:
    """Choose for each drive the joint that suits it best by itself, each joint once."""
    guesses = [blank(drive) for drive in judge.drives]
    if not judge.drives or not judge.joints:
        return guesses
    local = [
        [judge.local(row, joint) for joint in range(len(judge.joints))]
        for row in range(len(judge.drives))
    ]
    merit = np.array([[fit for fit, _ in fits] for fits in local])
    for row, joint in zip(*linear_sum_assignment(-merit), strict=True):
        guesses[row] = local[row][joint][1]
    return guesses


def _moves(
    judge: Judge, current: list[Guess], *, excuses: bool
) -> Iterator[tuple[str, dict[int, Guess]]]:
    """Yield all hypotheses that differ in one choice; ``current`` may change on the way."""
    for row, drive in enumerate(judge.drives):
        if current[row].joint >= 0:
            hinge = judge.joints[current[row].joint].hinge
            for change in _changes(drive, hinge=hinge, turning=hinge and excuses):
                rival = change.of(current[row])
                if rival != current[row] and not _same_command(
                    drive, current[row], rival, hinge=hinge
                ):
                    yield change.choice, {row: rival}
    signs = (1, -1) if len(judge.drives) <= _MANY else (1,)
    for a, b in itertools.combinations(range(len(judge.drives)), 2):
        for moved in _exchanges(judge, current, a, b, signs):
            yield 'joint', moved
    for row in range(len(judge.drives)):
        for moved in _placements(judge, current, row, signs):
            yield 'joint', moved
        if excuses and current[row].joint >= 0:
            yield 'joint', {row: _moved(current[row], -1, 1)}


def _placements(
    judge: Judge, current: list[Guess], row: int, signs: tuple[int, ...]
) -> Iterator[dict[int, Guess]]:
    """Yield the ways in which a drive takes a joint that no drive has."""
    for joint, sign in itertools.product(range(len(judge.joints)), (0, *signs)):
        if joint not in {guess.joint for guess in current}:
            alone = judge.local(row, joint)[1]
            yield {row: _moved(current[row], joint, sign) if sign else alone}


def _same_command(drive: Drive, guess: Guess, rival: Guess, *, hinge: bool) -> bool:
    """Tell whether a rival only reads the command otherwise, and ends in the same unit."""
    if dataclasses.replace(rival, command_like=guess.command_like) != guess:
        return False
    ends = [
        drive.command_unit(item.unit, hinge=hinge, like=item.command_like)
        for item in (guess, rival)
    ]
    return ends[0] == ends[1]


def _exchanges(
    judge: Judge, current: list[Guess], a: int, b: int, signs: tuple[int, ...]
) -> Iterator[dict[int, Guess]]:
    """Yield the ways in which two drives exchange their joints."""
    for first, second, reset in itertools.product(signs, signs, (False, True)):
        joints = current[a].joint, current[b].joint
        if max(joints) < 0 or _differ(judge, joints):
            return
        moved = _moved(current[a], joints[1], first), _moved(current[b], joints[0], second)
        if reset:
            moved = (
                dataclasses.replace(moved[0], shift='none', turn=0.0),
                dataclasses.replace(moved[1], shift='none', turn=0.0),
            )
        yield {a: moved[0], b: moved[1]}
    joints = current[a].joint, current[b].joint
    if min(joints) >= 0:
        yield {a: judge.local(a, joints[1])[1], b: judge.local(b, joints[0])[1]}


def _moved(guess: Guess, joint: int, sign: int) -> Guess:
    return dataclasses.replace(guess, joint=joint, sign=sign * guess.sign)


def _differ(judge: Judge, joints: tuple[int, int]) -> bool:
    """Tell whether one joint turns and the other slides: their units are not the same."""
    return min(joints) >= 0 and judge.joints[joints[0]].hinge != judge.joints[joints[1]].hinge


def _changes(drive: Drive, *, hinge: bool, turning: bool) -> list[_Change]:
    """Return the changes of one drive that leave its joint as it is."""
    shifts = tuple(SHIFTS)
    found = [_Change('sign', ('sign',), {})]
    found += [_Change('sign', ('sign',), {'shift': shift, 'turn': 0.0}) for shift in shifts]
    if drive.command and abs(drive.following.correlation) < LEAST_CORRELATION:
        found.append(_Change('sign', ('command_sign',), {}))
    if drive.command:
        found += [_Change('command', (), {'command_like': like}) for like in (False, True)]
    if drive.effort is not None:
        found.append(_Change('effort', ('effort_sign',), {}))
        found += [
            _Change('effort', (), {'effort_unit': unit})
            for unit in units('effort', hinge=hinge, whole=False)
        ]
    for unit in drive.position_units(hinge=hinge):
        found.append(_Change('unit', (), {'unit': unit}))
    turns = (0.0, *TURNS) if turning else (0.0,)
    for shift in shifts:
        found.append(_Change('offset', (), {'shift': shift}))
        found += [_Change('offset', (), {'shift': shift, 'turn': turn}) for turn in turns]
    return found

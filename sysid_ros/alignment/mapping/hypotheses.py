# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which joint each drive of a bag is, in which unit and sign: odds, and a search for the best.

A hypothesis says so for all drives at once. It is judged by a sum of logarithms of odds:

- names that are alike, and SI units, positive signs and no offsets (what drivers mostly do);
- positions inside the joint's range;
- the servo's law: a measured effort against that of the model's gains, command and position;
- the laws of motion: the effort (measured, or the servo's) against the torque that rigid bodies
  take for this motion, with whatever armature, viscous and dry friction explain best.

The last two count ``-weight log(unexplained part of the variance)``; the weight grows with the
length of the recording and stays small: models are wrong in ways that more data do not mend.

The search changes one or two drives at a time until nothing is better. How much worse the best
rival is tells how certain a choice is.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

from sysid_ros.alignment.mapping.axes import SmoothSignal
from sysid_ros.alignment.mapping.drives import (
    LEAST_CORRELATION,
    OWN_UNITS,
    RecordedDrive,
    Unit,
    units,
)
from sysid_ros.alignment.mapping.mechanism import (
    LEAST_SHIFT,
    MASSES,
    SHOWS,
    Mechanism,
    contradiction,
    law_part,
    motion_bases,
    motion_part,
    scale_of,
    scaled_law_part,
    scaled_part,
    servo_torque,
)
from sysid_ros.alignment.mapping.names import SAME_CORE, similarities
from sysid_ros.vocabulary import Quantity

#: Weight of a second of motion, and of the longest recording.
_WEIGHT_PER_S, _MOST_WEIGHT = 0.5, 5.0
#: A smaller unexplained part of the variance says no more.
_LEAST_PART = 0.01
#: Cost of a state's sign, a command's, what both together save, an effort's against its position.
_STATE_SIGN, _COMMAND_SIGN, _BOTH_SIGNS, _EFFORT_SIGN = 3.0, 3.3, 2.0, 3.0
#: Cost of joints that other columns are named for where the model has this part of the bag's joints
#: at most: a part of a robot moves by what the rest of it does, which such a model does not know.
_STRANGE, _PARTIAL = 40.0, 0.5
#: Cost of a servo that goes a small or large part of its way.
_LIKE = 2.0
#: Cost of an offset that position and command share.
_TURN = 4.0
#: Cost of a drive without a joint while there is a joint without a drive.
_LEFT = 6.0
#: Cost of a servo whose gains are far from the model's.
_OTHER_GAINS = 1.0
#: Offsets up to this, rad or m, are made by backlash and sag: they do not make another mapping.
_SLACK = 0.05
#: Cost of two joints that a message has in another order than the model, and of all of them.
_SWAPPED, _SHUFFLED = 1.5, 4.0
#: The least cost of another order where the names of a bag are like none of the model's and it has
#: as many columns as the model joints: nearly always they are listed from base to tool.
_REARRANGED = 3.0
#: Cost of a position or effort in another unit than most of its message.
_MIXED, _MIXED_EFFORTS = 4.0, 12.0
#: Units of their own cost less by this for each effort but the first of a message.
_ALL_OWN = 2.0
#: Cost of an effort in units of its own that are just as large as a torque's.
_LIKE_TORQUE = 4.0
#: Cost of what the bag says is not so.
_NEVER = 1000.0
#: An unknown unit is so many times larger or smaller than a known one, and that much less likely.
_OTHER_UNIT, _KNOWN_UNIT = 1.8, 1.0
#: Zeros of joints that drivers choose differently, rad.
TURNS = (-math.pi, -math.pi / 2, math.pi / 2, math.pi)
#: Positions this far outside of the range, as a part of it, are still inside.
_MARGIN = 0.05
#: Cost of positions that all lie outside; a third outside is as bad.
_OUTSIDE = 10.0
#: A motion over less than this part of the range is seldom what is recorded, and its cost.
_SMALL, _SMALL_COST = 0.02, 4.0
#: Improvements below this are none.
GAIN = 1e-6
#: Sweeps after which the search gives up.
_SWEEPS = 12
#: With more drives than this, drives are not turned while they are exchanged.
_MANY = 12


class Shift(enum.Enum):
    """Which side of a drive has an offset of its own."""

    NONE = enum.auto()
    POSITION = enum.auto()
    COMMAND = enum.auto()


class Choice(enum.Enum):
    """What a hypothesis decides about a drive."""

    JOINT = enum.auto()
    SIGN = enum.auto()
    UNIT = enum.auto()
    OFFSET = enum.auto()
    COMMAND = enum.auto()
    EFFORT = enum.auto()


#: Cost of an offset of one side.
_SHIFT_COSTS = {Shift.NONE: 0.0, Shift.POSITION: 3.0, Shift.COMMAND: 5.5}


@dataclass(frozen=True)
class Guess:
    """What one drive is.

    Attributes:
        joint: Index of the joint, or −1.
        sign: Of the position, +1 or −1. Command and velocity follow by the data.
        unit: Of the position.
        shift: Which side has an offset.
        turn: Offset that position and command share, rad.
        effort_sign: Of the effort against that of the position.
        effort_unit: Of the effort.
        command_sign: Of the command against that of the position.
        command_like: Whether the command has the position's unit whatever the response says.
    """

    joint: int
    sign: int
    unit: Unit
    shift: Shift = Shift.NONE
    turn: float = 0.0
    effort_sign: int = 1
    effort_unit: Unit = units(Quantity.EFFORT, hinge=True, whole=False)[0]
    command_sign: int = 1
    command_like: bool = False


class HypothesisScore(NamedTuple):
    """How a hypothesis fares.

    Attributes:
        total: Logarithm of its odds, up to a constant.
        offsets: Drive to the offsets of position and command, in joint units.
        parts: Drive to the unexplained parts of the variance: of the servo's law, of the motion;
            NaN where they are not known.
        evidence: What of the total the values say: all but what is usual.
    """

    total: float
    offsets: tuple[tuple[float, float], ...]
    parts: tuple[tuple[float, float], ...]
    evidence: float


class Judge:
    """Judges hypotheses on one bag and one model.

    Attributes:
        drives: Of the bag.
        joints: Of the model.
        alike: (drives, joints) how alike their names are.
        strange: (drives, joints) where a joint of a part of the robot is another drive's by name.
    """

    def __init__(
        self, drives: tuple[RecordedDrive, ...], mechanism: Mechanism, seconds: float
    ) -> None:
        """Compare the names; the longer drives moved, the more their motion says."""
        self.drives = drives
        self.joints = mechanism.joints
        self._mechanism = mechanism
        self._weight = min(_WEIGHT_PER_S * seconds, _MOST_WEIGHT)
        names = [joint.name for joint in self.joints]
        measured = similarities([drive.axis.name for drive in drives], names)
        commanded = similarities(
            [drive.command.name if drive.command else '' for drive in drives], names
        )
        self.alike = np.maximum(measured, commanded)
        # Names that are like none of the model's are no more than places in a message.
        nameless = not self.alike.any() and len(drives) == len(names)
        self._in_order = _in_message_order(drives, nameless=nameless)
        self._least_disorder = _REARRANGED if nameless else 0.0
        self._names = _log_odds(measured) + _log_odds(commanded)
        named = self.alike >= SAME_CORE
        partial = len(names) <= _PARTIAL * len(drives)
        self.strange = named.any(axis=0) & ~named & partial
        self._local: dict[tuple[int, int], tuple[float, Guess]] = {}
        self._torques: dict[tuple[object, ...], NDArray[np.float64]] = {}
        # Most hypotheses change one drive: what the others explain stays as it is.
        self._explained: dict[tuple[object, ...], tuple[float, float, float]] = {}
        self._count = max(
            (len(drive.position.values) for drive in drives if drive.position), default=0
        )

    def judge(self, guesses: tuple[Guess, ...]) -> HypothesisScore:
        """Return how a hypothesis fares."""
        total = sum(
            self._prior(row, drive, guess)
            for row, (drive, guess) in enumerate(zip(self.drives, guesses, strict=True))
        )
        placed = [(row, guess.joint) for row, guess in enumerate(guesses) if guess.joint >= 0]
        total -= _LEFT * (min(len(guesses), len(self.joints)) - len(placed))
        total -= _STRANGE * any(self.strange[place] for place in placed)
        total -= self._disorder(guesses)
        total -= self._mixture(guesses)
        usual = total
        offsets, torques = self._offsets_and_torques(guesses)
        parts = []
        motion = _motion_key(guesses, offsets)
        for row, (drive, guess, offset) in enumerate(
            zip(self.drives, guesses, offsets, strict=True)
        ):
            if guess.joint < 0:
                parts.append((math.nan, math.nan))
                continue
            if guess.shift is not Shift.NONE and max(map(abs, offset)) - abs(guess.turn) < (
                _SLACK if self.effort(drive, guess) is None else LEAST_SHIFT
            ):
                total -= _OUTSIDE
            total -= self._outside(drive, guess, offset)
            key = (row, guess, offset, motion)
            if key not in self._explained:
                torque = None if torques is None else torques[:, guess.joint]
                self._explained[key] = self._parts(drive, guess, offset, torque)
            servo, moved, cost = self._explained[key]
            parts.append((servo, moved))
            total -= cost
            known = [part for part in (servo, moved) if not math.isnan(part)]
            total += sum(map(self._gain, known))
        return HypothesisScore(float(total), tuple(offsets), tuple(parts), float(total - usual))

    def _mixture(self, guesses: tuple[Guess, ...]) -> float:
        """Return the cost of units that differ in a message; a unit of positions costs once."""
        positions: dict[str, Counter[str]] = {}
        efforts: dict[str, Counter[str]] = {}
        costs: dict[str, float] = {}
        for drive, guess in zip(self.drives, guesses, strict=True):
            if guess.joint >= 0:
                topic = drive.axis.topic
                positions.setdefault(topic, Counter())[guess.unit.kind] += 1
                costs[guess.unit.kind] = guess.unit.cost
                if drive.effort is not None:
                    efforts.setdefault(topic, Counter())[guess.effort_unit.kind] += 1
        cost = 0.0
        for found, price in (
            *((found, _MIXED) for found in positions.values()),
            *((found, _MIXED_EFFORTS) for found in efforts.values()),
        ):
            cost += price * (found.total() - max(found.values()))
        for found in positions.values():
            cost -= sum(costs[kind] * (count - 1) for kind, count in found.items())
        for found in efforts.values():
            cost -= _ALL_OWN * max(found[OWN_UNITS.kind] - 1, 0)
        return cost

    def _disorder(self, guesses: tuple[Guess, ...]) -> float:
        """Return the cost of an order of joints that is not the model's."""
        swapped = sum(guesses[a].joint > guesses[b].joint >= 0 for a, b in self._in_order)
        return max(min(_SWAPPED * swapped, _SHUFFLED), self._least_disorder) if swapped else 0.0

    def _offsets_and_torques(
        self, guesses: tuple[Guess, ...]
    ) -> tuple[list[tuple[float, float]], NDArray[np.float64] | None]:
        """Return the offsets of each drive, and the (n, k) torques of the motion with them."""
        offsets = [self._offsets(*pair, None) for pair in zip(self.drives, guesses, strict=True)]
        torques = self._all_torques(guesses, offsets)
        if torques is None:
            return offsets, None
        again = False
        for row, (drive, guess) in enumerate(zip(self.drives, guesses, strict=True)):
            measured = self.effort(drive, guess) is not None
            if guess.shift is not Shift.NONE and guess.joint >= 0 and not measured:
                # Without a measured effort, what gravity takes is not an offset.
                offsets[row] = self._offsets(drive, guess, torques[:, guess.joint])
                again |= guess.shift is Shift.POSITION
        return offsets, self._all_torques(guesses, offsets) if again else torques

    def _prior(self, row: int, drive: RecordedDrive, guess: Guess) -> float:
        if guess.joint < 0:
            return 0.0
        hinge = self.joints[guess.joint].hinge
        commanded = drive.command is not None
        negative, against = guess.sign < 0, commanded and guess.sign * guess.command_sign < 0
        # Where a velocity runs against its position, one of them is reversed.
        negative |= drive.speeding.correlation < -LEAST_CORRELATION
        cost = _STATE_SIGN * negative + _COMMAND_SIGN * against
        cost -= _BOTH_SIGNS * (negative and against)
        cost += _EFFORT_SIGN * (guess.effort_sign < 0)
        cost += guess.unit.cost + guess.effort_unit.cost
        if drive.own_efforts and guess.effort_unit is not OWN_UNITS:
            cost += _NEVER
        if commanded:
            cost += 0.5 * drive.command_unit(guess.unit, hinge=hinge, like=guess.command_like).cost
        if drive.speeding.correlation:
            cost += 0.5 * drive.velocity_unit(guess.unit, hinge=hinge).cost
        cost += _LIKE * guess.command_like
        cost += _SHIFT_COSTS[guess.shift] + _TURN * (guess.turn != 0.0)
        return float(self._names[row, guess.joint]) - cost

    def command_values(
        self, drive: RecordedDrive, guess: Guess, offset: float
    ) -> NDArray[np.float64] | None:
        """Return the (n,) commands in joint units."""
        if drive.command_values is None:
            return None
        hinge = self.joints[guess.joint].hinge
        unit = drive.command_unit(guess.unit, hinge=hinge, like=guess.command_like)
        return guess.sign * guess.command_sign * unit.factor * drive.command_values + offset

    @staticmethod
    def effort(drive: RecordedDrive, guess: Guess) -> NDArray[np.float64] | None:
        """Return the (n,) measured efforts, N·m or N."""
        if drive.effort is None or guess.effort_unit is OWN_UNITS:
            return None
        return guess.sign * guess.effort_sign * guess.effort_unit.factor * drive.effort

    def _gain(self, part: float) -> float:
        """Return what the unexplained part of a variance adds to the odds; at most 1 is left."""
        return -self._weight * math.log(min(max(part, 0.0) + _LEAST_PART, 1.0))

    def _offsets(
        self, drive: RecordedDrive, guess: Guess, torque: NDArray[np.float64] | None
    ) -> tuple[float, float]:
        """Return the offsets of position and command that make the servo's law hold on average."""
        both = guess.turn
        if guess.shift is Shift.NONE or guess.joint < 0 or drive.position is None:
            return both, both
        law = self.joints[guess.joint].law
        command = self.command_values(drive, guess, both)
        if law is None or not law.known or command is None:
            return both, both
        if law.commanded is not Quantity.POSITION:
            return both, both
        factor = guess.sign * guess.unit.factor
        gap = float(np.mean(command - factor * drive.position.values)) - both
        effort = self.effort(drive, guess)
        effort = torque if effort is None else effort
        if effort is not None:
            rate = law.damping * factor * drive.position.rate
            gap -= float(np.mean(effort + rate)) / law.stiffness
        return (both + gap, both) if guess.shift is Shift.POSITION else (both, both - gap)

    def _outside(self, drive: RecordedDrive, guess: Guess, offset: tuple[float, float]) -> float:
        joint = self.joints[guess.joint]
        moved = _moved(drive, guess, offset[0])
        if moved is None:
            return 0.0
        low, high = joint.low, joint.high
        if not math.isfinite(high - low):
            # Joints without a limit seldom turn more than a few times.
            low, high = (-4 * math.pi, 4 * math.pi) if joint.hinge else (-10.0, 10.0)
        margin = _MARGIN * (high - low)
        values = moved.values
        part = float(np.mean((values < low - margin) | (values > high + margin)))
        hardly_moves = 0.0 < float(np.ptp(values)) < _SMALL * (high - low)
        return _OUTSIDE * min(1.0, 3.0 * part) + _SMALL_COST * hardly_moves

    def _all_torques(
        self, guesses: tuple[Guess, ...], offsets: list[tuple[float, float]]
    ) -> NDArray[np.float64] | None:
        if not self._count or not self._mechanism.fixed:
            return None
        key = _motion_key(guesses, offsets)
        if key not in self._torques:
            if len(self._torques) > _CACHED:
                self._torques.clear()
                self._explained.clear()
            moved = {
                guess.joint: signal
                for drive, guess, offset in zip(self.drives, guesses, offsets, strict=True)
                if guess.joint >= 0 and (signal := _moved(drive, guess, offset[0])) is not None
            }
            self._torques[key] = self._mechanism.needed(moved, self._count)
        return self._torques[key]

    def _parts(
        self,
        drive: RecordedDrive,
        guess: Guess,
        offset: tuple[float, float],
        torque: NDArray[np.float64] | None,
    ) -> tuple[float, float, float]:
        """Return the unexplained parts of servo and motion, and the cost of an unlikely gain."""
        joint = self.joints[guess.joint]
        motion = _moved(drive, guess, offset[0])
        if motion is None:
            return math.nan, math.nan, 0.0
        effort = self.effort(drive, guess)
        command = self.command_values(drive, guess, offset[1])
        servo = servo_torque(joint, drive.commanded, command, motion)
        bases = None if torque is None else motion_bases(torque, motion)
        explained, moved, cost = math.nan, math.nan, 0.0
        if drive.effort is not None and effort is None:
            raw = guess.sign * guess.effort_sign * drive.effort
            if servo is not None:
                explained = scaled_law_part(raw, servo, motion)
            if bases is not None:
                moved = scaled_part(raw, bases)
                scale = math.nan if drive.own_efforts else scale_of(raw, bases, SHOWS)
                cost = _LIKE_TORQUE * (1 / MASSES < scale < MASSES)
            return explained, moved, cost
        if effort is not None and servo is not None:
            explained, cost = law_part(joint, effort, servo, motion)
        driving = servo if effort is None else effort
        if driving is not None and bases is not None:
            moved = motion_part(joint, driving, bases)
        if driving is not None and bases is not None and effort is None:
            # With gains that are not the model's, positions behind their commands still tell loads
            # apart; being less sure, it counts as a standard deviation, not as a variance.
            loose = math.sqrt(scaled_part(driving, bases))
            if self._gain(loose) > self._gain(moved) + _OTHER_GAINS:
                moved, cost = loose, cost + _OTHER_GAINS
        return explained, moved, cost

    def torque_per_unit(
        self,
        row: int,
        guesses: tuple[Guess, ...],
        offsets: tuple[tuple[float, float], ...],
    ) -> float:
        """Return what an effort in units of its own is by the model's masses, N·m or N per unit.

        NaN where the motion does not tell: bodies take less than half of it, friction and armature
        the rest.
        """
        drive, guess = self.drives[row], guesses[row]
        torques = self._all_torques(guesses, list(offsets))
        moved = _moved(drive, guess)
        if drive.effort is None or moved is None or torques is None:
            return math.nan
        sign = guess.sign * guess.effort_sign
        return sign * scale_of(sign * drive.effort, motion_bases(torques[:, guess.joint], moved))

    def contradiction(
        self,
        row: int,
        guesses: tuple[Guess, ...],
        offsets: tuple[tuple[float, float], ...],
        scale: float,
    ) -> float | None:
        """Return how many times what the model needs a scaled effort is; None if it may be one."""
        drive, guess = self.drives[row], guesses[row]
        torques = self._all_torques(guesses, list(offsets))
        moved = _moved(drive, guess)
        if drive.effort is None or moved is None or torques is None:
            return None
        bases = motion_bases(torques[:, guess.joint], moved)
        return contradiction(self.joints[guess.joint], scale * drive.effort, bases)

    def with_effort(self, row: int, guesses: list[Guess], unit: Unit) -> Guess:
        """Return a drive's guess with a unit of its effort; of its own, with the better sign."""
        guess = dataclasses.replace(guesses[row], effort_unit=unit)
        drive = self.drives[row]
        if unit is not OWN_UNITS or drive.effort is None or drive.position is None:
            return guess
        offsets, torques = self._offsets_and_torques(tuple(guesses))
        if torques is None:
            return guess
        rivals = [dataclasses.replace(guess, effort_sign=sign) for sign in (1, -1)]
        parts = [self._parts(drive, item, offsets[row], torques[:, guess.joint]) for item in rivals]
        gains = [self._gain(part) for _, part, _ in parts]
        return rivals[gains[1] > gains[0] + _EFFORT_SIGN]

    def local(self, row: int, joint: int) -> tuple[float, Guess]:
        """Return how well a drive fits a joint by itself, and the best guess then."""
        if (row, joint) not in self._local:
            self._local[row, joint] = self._best_guess(row, joint)
        return self._local[row, joint]

    def _best_guess(self, row: int, joint: int) -> tuple[float, Guess]:
        drive = self.drives[row]
        start = dataclasses.replace(blank(drive), joint=joint)
        best: tuple[float, Guess] | None = None
        hinge = self.joints[joint].hinge
        for unit in drive.position_units(hinge=hinge):
            for shift, sign, effort in itertools.product(
                (Shift.NONE, Shift.POSITION),
                (1, -1),
                (start.effort_unit, OWN_UNITS)[: 1 + (drive.effort is not None)],
            ):
                guess = dataclasses.replace(
                    start, unit=unit, shift=shift, sign=sign, effort_unit=effort
                )
                offset = self._offsets(drive, guess, None)
                fit = self._prior(row, drive, guess) - self._outside(drive, guess, offset)
                part, _, cost = self._parts(drive, guess, offset, None)
                if not math.isnan(part):
                    fit += self._gain(part) - cost
                if best is None or fit > best[0] + GAIN:
                    best = fit, guess
        if best is None:
            return 0.0, start
        return best


def _moved(drive: RecordedDrive, guess: Guess, offset: float = 0.0) -> SmoothSignal | None:
    """Return how the joint moved, in its own units."""
    signal = drive.position
    return None if signal is None else signal.scaled(guess.sign * guess.unit.factor, offset)


def _in_message_order(
    drives: tuple[RecordedDrive, ...], *, nameless: bool
) -> list[tuple[int, int]]:
    """Return the pairs of drives of one topic, the earlier first.

    Drivers list joints along the arm or by the alphabet; the alphabet says nothing of the arm,
    unless the names do not either.
    """
    topics: dict[str, list[int]] = {}
    for row, drive in enumerate(drives):
        topics.setdefault(drive.axis.topic, []).append(row)
    pairs: list[tuple[int, int]] = []
    for rows in topics.values():
        names = [drives[row].axis.name for row in rows]
        # An index says as much as an order of names does.
        if nameless or names != sorted(names) or all(name.isdigit() for name in names):
            pairs += itertools.combinations(rows, 2)
    return pairs


#: So many motions' torques are kept.
_CACHED = 3000


def _motion_key(
    guesses: tuple[Guess, ...], offsets: list[tuple[float, float]]
) -> tuple[object, ...]:
    """Return what the motion of all joints, and so their torques, depends on."""
    return tuple(
        (guess.joint, guess.sign, guess.unit.factor, round(offset[0], 6))
        for guess, offset in zip(guesses, offsets, strict=True)
        if guess.joint >= 0
    )


def _log_odds(score: NDArray[np.float64]) -> NDArray[np.float64]:
    odds = np.clip(score, 0.5, 0.99)
    found: NDArray[np.float64] = np.log(odds / (1 - odds))
    return found


def blank(drive: RecordedDrive) -> Guess:
    """Return what is thought of a drive before it is looked at."""
    sign = -1 if drive.following.correlation < -LEAST_CORRELATION else 1
    unit = drive.position_units(hinge=True)[0]
    return Guess(-1, 1, unit, command_sign=sign)


class BestHypothesis(NamedTuple):
    """The best hypothesis.

    Attributes:
        guesses: One per drive.
        verdict: How it fares.
        margins: Drive and choice to how much worse the best rival is.
    """

    guesses: tuple[Guess, ...]
    verdict: HypothesisScore
    margins: dict[tuple[int, Choice], float]


def search(judge: Judge) -> BestHypothesis:
    """Find the hypothesis that nothing near it is better than."""
    starts = _start(judge), _start_in_order(judge)
    # What excuses much comes last: other zeros, drives that are no joint of the model.
    ends = [(_climb(judge, start, excuses=False)[0].total, start) for start in starts]
    current = max(ends, key=lambda end: end[0])[1]
    verdict, margins = _climb(judge, current, excuses=True)
    _doubt_units(judge, current, verdict, margins)
    return BestHypothesis(tuple(current), verdict, margins)


def _climb(
    judge: Judge, current: list[Guess], *, excuses: bool
) -> tuple[HypothesisScore, dict[tuple[int, Choice], float]]:
    """Change guesses, in place, until no move is better."""
    verdict = judge.judge(tuple(current))
    margins: dict[tuple[int, Choice], float] = {}
    for _ in range(_SWEEPS):
        margins = {}
        better = False
        for choice, changed in _moves(judge, current, excuses=excuses):
            rival = [changed.get(row, guess) for row, guess in enumerate(current)]
            found = judge.judge(tuple(rival))
            if found.total > verdict.total + GAIN:
                current[:], verdict, better = rival, found, True
            for row in changed:
                offsets = verdict.offsets[row], found.offsets[row]
                if _hardly_differs(current[row], rival[row], offsets):
                    continue
                worse = max(verdict.total - found.total, 0.0)
                margins[row, choice] = min(margins.get((row, choice), math.inf), worse)
        if not better:
            break
    return verdict, margins


def _doubt_units(
    judge: Judge,
    current: list[Guess],
    verdict: HypothesisScore,
    margins: dict[tuple[int, Choice], float],
) -> None:
    """Let an unknown unit of a message's positions be a rival of degrees and the like, in place.

    Positions of motors before their gears, or in parts of a range, lie within the range in degrees,
    too: what joints carry has to tell.
    """
    topics: dict[tuple[str, Unit], list[int]] = {}
    for row, (drive, guess) in enumerate(zip(judge.drives, current, strict=True)):
        odd = guess.unit in units(Quantity.POSITION, hinge=True, whole=False)[1:]
        if guess.joint >= 0 and odd and not drive.whole:
            topics.setdefault((drive.axis.topic, guess.unit), []).append(row)
    for (_, unit), rows in topics.items():
        for factor in (1 / _OTHER_UNIT, _OTHER_UNIT):
            other = Unit('an unknown unit', factor * unit.factor, unit.cost)
            rival = list(current)
            for row in rows:
                rival[row] = dataclasses.replace(current[row], unit=other)
            worse = verdict.evidence - judge.judge(tuple(rival)).evidence + _KNOWN_UNIT
            for row in rows:
                known = margins.get((row, Choice.UNIT), math.inf)
                margins[row, Choice.UNIT] = min(known, max(worse, 0.0))


def _hardly_differs(
    guess: Guess, rival: Guess, offsets: tuple[tuple[float, float], tuple[float, float]]
) -> bool:
    """Tell whether a rival is the same mapping but for an offset that backlash and sag make."""
    same = dataclasses.replace(rival, shift=guess.shift) == guess
    return same and max(abs(a - b) for a, b in zip(*offsets, strict=True)) < _SLACK


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
    for row, joint in zip(*scipy.optimize.linear_sum_assignment(-merit), strict=True):
        guesses[row] = local[row][joint][1]
    return guesses


def _start_in_order(judge: Judge) -> list[Guess]:
    """Give the drives the joints in order, all in the units that suit them best together."""
    starts = []
    for angle, effort in itertools.product(
        units(Quantity.POSITION, hinge=True, whole=False),
        units(Quantity.EFFORT, hinge=True, whole=False),
    ):
        guesses = []
        for row, drive in enumerate(judge.drives):
            joint = row if row < len(judge.joints) else -1
            guess = dataclasses.replace(blank(drive), joint=joint, effort_unit=effort)
            turns = joint < 0 or judge.joints[joint].hinge
            guesses.append(_with_unit(guess, angle, hinge=turns))
        starts.append((judge.judge(tuple(guesses)).total, guesses))
    return max(starts, key=lambda start: start[0])[1]


def _with_unit(guess: Guess, angle: Unit, *, hinge: bool) -> Guess:
    """Return a guess with a unit of angles, or in metres where the joint slides."""
    metres = units(Quantity.POSITION, hinge=False, whole=False)[0]
    return dataclasses.replace(guess, unit=angle if hinge else metres)


def _common_changes(
    judge: Judge, current: list[Guess]
) -> Iterator[tuple[Choice, dict[int, Guess]]]:
    """Yield the ways in which all hinges, or all efforts, of a message change their unit."""
    topics: dict[str, list[int]] = {}
    for row, drive in enumerate(judge.drives):
        if current[row].joint >= 0 and judge.joints[current[row].joint].hinge:
            topics.setdefault(drive.axis.topic, []).append(row)
    for rows in topics.values():
        measured = [row for row in rows if judge.drives[row].effort is not None]
        moves = [
            (Choice.UNIT, {row: dataclasses.replace(current[row], unit=unit) for row in rows})
            for unit in units(Quantity.POSITION, hinge=True, whole=False)
        ]
        moves += [
            (
                Choice.EFFORT,
                {row: judge.with_effort(row, current, unit) for row in measured},
            )
            for unit in units(Quantity.EFFORT, hinge=True, whole=False)
        ]
        for choice, changed in moves:
            if any(current[row] != rival for row, rival in changed.items()):
                yield choice, changed


def _moves(
    judge: Judge, current: list[Guess], *, excuses: bool
) -> Iterator[tuple[Choice, dict[int, Guess]]]:
    """Yield all hypotheses that differ in one choice; ``current`` may change on the way."""
    for row, drive in enumerate(judge.drives):
        if current[row].joint >= 0:
            hinge = judge.joints[current[row].joint].hinge
            for choice, rival in _changes(
                drive, current, row, hinge=hinge, turning=hinge and excuses
            ):
                if rival != current[row] and not _same_command(
                    drive, current[row], rival, hinge=hinge
                ):
                    yield choice, {row: rival}
    yield from _common_changes(judge, current)
    signs = (1, -1) if len(judge.drives) <= _MANY else (1,)
    for a, b in itertools.combinations(range(len(judge.drives)), 2):
        for exchanged in _exchanges(judge, current, a, b, signs):
            yield Choice.JOINT, exchanged
    for row in range(len(judge.drives)):
        for placed in _placements(judge, current, row, signs):
            yield Choice.JOINT, placed
        if excuses and current[row].joint >= 0:
            yield Choice.JOINT, {row: _given(current[row], -1, 1)}


def _placements(
    judge: Judge, current: list[Guess], row: int, signs: tuple[int, ...]
) -> Iterator[dict[int, Guess]]:
    """Yield the ways in which a drive takes a joint that no drive has."""
    for joint, sign in itertools.product(range(len(judge.joints)), (0, *signs)):
        if joint not in {guess.joint for guess in current}:
            best_alone = judge.local(row, joint)[1]
            yield {row: _given(current[row], joint, sign) if sign else best_alone}


def _same_command(drive: RecordedDrive, guess: Guess, rival: Guess, *, hinge: bool) -> bool:
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
        hinges = {judge.joints[joint].hinge for joint in joints if joint >= 0}
        # Of a joint that turns and one that slides, the units are not the same.
        if len(hinges) != 1:
            return
        moved = _given(current[a], joints[1], first), _given(current[b], joints[0], second)
        if reset:
            moved = (
                dataclasses.replace(moved[0], shift=Shift.NONE, turn=0.0),
                dataclasses.replace(moved[1], shift=Shift.NONE, turn=0.0),
            )
        yield {a: moved[0], b: moved[1]}
    joints = current[a].joint, current[b].joint
    if min(joints) >= 0:
        yield {a: judge.local(a, joints[1])[1], b: judge.local(b, joints[0])[1]}


def _given(guess: Guess, joint: int, sign: int) -> Guess:
    return dataclasses.replace(guess, joint=joint, sign=sign * guess.sign)


def _changes(
    drive: RecordedDrive, current: list[Guess], row: int, *, hinge: bool, turning: bool
) -> Iterator[tuple[Choice, Guess]]:
    """Yield what changes one drive and leaves its joint; ``current`` may change on the way."""
    replace = dataclasses.replace
    yield Choice.SIGN, replace(current[row], sign=-current[row].sign)
    for shift in Shift:
        yield Choice.SIGN, replace(current[row], sign=-current[row].sign, shift=shift, turn=0.0)
    if drive.command and abs(drive.following.correlation) < LEAST_CORRELATION:
        yield Choice.SIGN, replace(current[row], command_sign=-current[row].command_sign)
    if drive.command:
        for like in (False, True):
            yield Choice.COMMAND, replace(current[row], command_like=like)
    if drive.effort is not None:
        yield Choice.EFFORT, replace(current[row], effort_sign=-current[row].effort_sign)
        for unit in units(Quantity.EFFORT, hinge=hinge, whole=False):
            yield Choice.EFFORT, replace(current[row], effort_unit=unit)
    for unit in drive.position_units(hinge=hinge):
        yield Choice.UNIT, replace(current[row], unit=unit)
    for shift in Shift:
        yield Choice.OFFSET, replace(current[row], shift=shift)
        for turn in (0.0, *TURNS) if turning else (0.0,):
            yield Choice.OFFSET, replace(current[row], shift=shift, turn=turn)

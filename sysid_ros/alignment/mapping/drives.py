# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Axes that move together: what is measured at a joint, the command it follows, their units."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

from sysid_ros.alignment.mapping.axes import (
    AxesMotion,
    Axis,
    EffortKind,
    Response,
    SmoothSignal,
    respond,
)
from sysid_ros.vocabulary import Quantity

#: Encoders have 2^n counts per turn, for these n.
_BITS = range(8, 25)
#: Commands and responses that agree less than this are not called a pair.
LEAST_CORRELATION = 0.5
#: Derivatives and velocities that agree less than this do not tell a unit.
_CLEAR = 0.8
#: A servo may miss its command by a factor whose natural logarithm is this; a weak one goes a fifth
#: of its way, which is not yet a revolution per radian.
_WAY, _WEAK = 0.9, 1.6
#: Instants at which hypotheses are judged.
_SAMPLES = 250
#: Tolerances of a ratio's natural logarithm, for a unit that a servo's response tells, for one that
#: a derivative tells, and for a derivative that is of no unit: velocities that are read in step
#: with the commands of a stiff servo are up to .08 off the mean.
_LOOSE, _TIGHT, _EXACT = 0.3, 0.15, 0.1
#: Weight of equal names, and of levels that agree, beside a correlation, when commands are bound.
_NAME_BONUS, _LEVEL_BONUS = 0.1, 0.2


class Unit(NamedTuple):
    """A unit: name, SI units per unit, and cost (minus the logarithm of its odds)."""

    name: str
    factor: float
    cost: float


_TICKS = tuple(Unit(f'counts of 2^{bits} per turn', 2 * math.pi / 2**bits, 3.5) for bits in _BITS)
_ANGLE = (
    Unit('rad', 1.0, 0.0),
    Unit('degrees', math.pi / 180, 3.0),
    Unit('revolutions', 2 * math.pi, 4.0),
)
_RATE = (
    Unit('rad/s', 1.0, 0.0),
    Unit('degrees/s', math.pi / 180, 3.0),
    Unit('revolutions/s', 2 * math.pi, 4.0),
    Unit('rpm', 2 * math.pi / 60, 3.5),
)
_LENGTH = (Unit('m', 1.0, 0.0), Unit('mm', 1e-3, 3.0), Unit('cm', 1e-2, 4.0))
_SPEED = tuple(Unit(f'{unit.name}/s', unit.factor, unit.cost) for unit in _LENGTH)
_TORQUE = Unit('N·m', 1.0, 0.0)
_NO_RESPONSE = Response(0.0, 0.0, 0.0)


@functools.cache
def units(quantity: Quantity, *, hinge: bool, whole: bool) -> tuple[Unit, ...]:
    """Return the units that a quantity may be in; counts of an encoder are whole numbers."""
    if not hinge:
        return _LENGTH if quantity is Quantity.POSITION else _SPEED
    if quantity is Quantity.POSITION:
        return _ANGLE + (_TICKS if whole else ())
    counts = tuple(Unit(f'{unit.name} and second', unit.factor, unit.cost) for unit in _TICKS)
    return _RATE + (counts if whole else ())


def nearest_unit(factor: float, choices: Sequence[Unit], tolerance: float) -> Unit | None:
    """Return the least surprising unit whose factor agrees within a relative tolerance."""
    if not factor > 0:
        return None
    fitting = [unit for unit in choices if abs(math.log(unit.factor / factor)) < tolerance]
    return min(
        fitting,
        key=lambda unit: unit.cost + (math.log(unit.factor / factor) / tolerance) ** 2,
        default=None,
    )


class RecordedDrive(NamedTuple):
    """One joint of the robot as the bag shows it.

    Attributes:
        axis: What is measured.
        command: What it follows, or None.
        commanded: What the command tells.
        command_values: (n,) the command in units of the bag, or None.
        position: (n,) signals of the position, or None.
        effort: (n,) or None.
        following: How the measurement follows the command.
        speeding: How the velocity follows the derivative of the position; correlation 0 if unknown.
        whole: Whether positions are whole numbers.
    """

    axis: Axis
    command: Axis | None
    commanded: Quantity
    command_values: NDArray[np.float64] | None
    position: SmoothSignal | None
    effort: NDArray[np.float64] | None
    following: Response
    speeding: Response
    whole: bool

    @property
    def own_efforts(self) -> bool:
        """Whether efforts are no torques by their name."""
        column = self.axis.columns.get(Quantity.EFFORT)
        return column is not None and column.kind is not EffortKind.TORQUE

    @property
    def command_sign(self) -> int:
        """The sign of the command against that of the position."""
        return -1 if self.following.correlation < -LEAST_CORRELATION else 1

    def position_units(self, *, hinge: bool) -> tuple[Unit, ...]:
        """Return what a position may be in."""
        return units(Quantity.POSITION, hinge=hinge, whole=self.whole)

    def command_unit(self, position: Unit, *, hinge: bool) -> Unit:
        """Return what the command is in, given what the position is in.

        A servo seldom goes all the way: a slope that is not far from one is no other unit.
        """
        if self.commanded is Quantity.EFFORT:
            return _TORQUE
        slope = abs(self.following.slope)
        responds = abs(self.following.correlation) >= LEAST_CORRELATION and slope > 0
        if not responds or self._goes_its_way:
            return _same(position, self.commanded, hinge=hinge)
        factor = slope * position.factor
        usual = units(self.commanded, hinge=hinge, whole=False)
        with_counts = units(self.commanded, hinge=hinge, whole=True)
        return (
            nearest_unit(factor, usual, _WAY)
            or nearest_unit(factor, with_counts, _LOOSE)
            or _odd(usual[0], factor)
        )

    def velocity_unit(self, position: Unit, *, hinge: bool) -> Unit:
        """Return what the velocity is in, given what the position is in."""
        slope = abs(self.speeding.slope)
        if abs(self.speeding.correlation) < _CLEAR or not slope:
            return _same(position, Quantity.VELOCITY, hinge=hinge)
        usual = units(Quantity.VELOCITY, hinge=hinge, whole=True)
        factor = position.factor / slope
        tolerance = max(_TIGHT, self._attenuation)
        return nearest_unit(factor, usual, tolerance) or _odd(usual[0], factor)

    @property
    def _goes_its_way(self) -> bool:
        """Whether a position moves about as far as it is told to."""
        return -_WEAK < math.log(abs(self.following.slope)) < _WAY

    @property
    def _attenuation(self) -> float:
        """How much too small noise makes the slope of a regression at most, as a logarithm."""
        return -2 * math.log(abs(self.speeding.correlation))

    def doubtful(self, *, hinge: bool) -> dict[Quantity | None, str]:
        """Return what is in no known unit to the question to ask; None is the command.

        Two columns of a joint whose ratio is that of no two units, as before and after a gear, say
        so of both; of a position that goes where it is told to, it is the other one.
        """
        usual = self.position_units(hinge=hinge)
        found: dict[Quantity | None, str] = {}
        speed, slope = abs(self.speeding.slope), abs(self.following.slope)
        follows = self.commanded is Quantity.POSITION and slope > 0
        follows &= abs(self.following.correlation) >= LEAST_CORRELATION
        if abs(self.speeding.correlation) >= _CLEAR and speed > 0:
            others = units(Quantity.VELOCITY, hinge=hinge, whole=False)
            if not _has_units(speed, usual, others, max(_EXACT, self._attenuation)):
                found[Quantity.VELOCITY] = (
                    f'it is {speed:.3g} times the derivative of the position, which no two units '
                    'are: is there a gear? Give its scale'
                )
        if (
            follows
            and not self._goes_its_way
            and not _has_units(
                1 / slope, usual, units(Quantity.POSITION, hinge=hinge, whole=True), _WAY
            )
        ):
            found[None] = (
                f'the position moves {slope:.3g} times as far as it is told to, which no two units '
                'are: give its scale'
            )
        if found and not (follows and self._goes_its_way):
            question = next(iter(found.values()))
            found |= {Quantity.POSITION: question, None: question}
        return found


def _has_units(
    ratio: float, usual: tuple[Unit, ...], others: tuple[Unit, ...], tolerance: float
) -> bool:
    """Whether some two units have a ratio, of another quantity's change to the position's."""
    return any(nearest_unit(ratio * unit.factor, usual, tolerance) for unit in others)


def _same(position: Unit, quantity: Quantity, *, hinge: bool) -> Unit:
    """Return the unit of a command or velocity that goes with that of the position."""
    usual = units(quantity, hinge=hinge, whole=True)
    return next((unit for unit in usual if unit.factor == position.factor), usual[0])


def _odd(unit: Unit, factor: float) -> Unit:
    """Return a unit for a factor that no unit has."""
    return Unit(f'{factor:.3g} {unit.name}', factor, 6.0)


def make_drives(
    axes: Sequence[Axis], motion: AxesMotion | None, quantities: frozenset[Quantity]
) -> tuple[RecordedDrive, ...]:
    """Bind each measured axis to what it follows of what the model's actuators are commanded."""
    measured = [row for row, axis in enumerate(axes) if not axis.commanded]
    commanded = [row for row, axis in enumerate(axes) if axis.commanded]
    table = [
        [_follow(axes, motion, row, command, quantities) for command in commanded]
        for row in measured
    ]
    bound = _bind(axes, measured, commanded, table)
    rows = np.zeros(0, dtype=np.int64) if motion is None else judged_at(motion)
    made = []
    for index, row in enumerate(measured):
        axis, column = axes[row], bound.get(index)
        quantity, following = (
            (Quantity.POSITION, _NO_RESPONSE) if column is None else table[index][column]
        )
        command = None
        if column is not None and motion is not None:
            signal = _command(motion, commanded[column], quantity)
            command = None if signal is None else signal.values[rows]
        position = None if motion is None else motion.signals.get((row, Quantity.POSITION))
        effort = None if motion is None else motion.signals.get((row, Quantity.EFFORT))
        if effort is not None and not float(np.ptp(effort.values)) > 0:
            effort = None
        made.append(
            RecordedDrive(
                axis,
                None if column is None else axes[commanded[column]],
                quantity,
                command,
                None if position is None else position.at(rows),
                None if effort is None else effort.values[rows],
                following,
                _NO_RESPONSE if motion is None else velocity_response(motion, row),
                _is_whole(axis),
            )
        )
    return tuple(made)


def judged_at(motion: AxesMotion) -> NDArray[np.int64]:
    """Return the instants at which hypotheses are judged."""
    known = np.flatnonzero(motion.whole)
    spread = np.linspace(0, len(known) - 1, min(len(known), _SAMPLES))
    return known[spread.astype(np.int64)]


def _is_whole(axis: Axis) -> bool:
    column = axis.columns.get(Quantity.POSITION)
    if column is None:
        return False
    values = column.values[np.isfinite(column.values)]
    return bool((values == np.round(values)).all() and np.ptp(values) > 1)


def _command(motion: AxesMotion, row: int, quantity: Quantity) -> SmoothSignal | None:
    return motion.signals.get((row, quantity)) or motion.signals.get((row, None))


def velocity_response(motion: AxesMotion, row: int) -> Response:
    """Return how the velocity of an axis follows the slope of its position; 0 if unknown."""
    position = motion.signals.get((row, Quantity.POSITION))
    velocity = motion.signals.get((row, Quantity.VELOCITY))
    if position is None or velocity is None:
        return _NO_RESPONSE
    return respond(position.rate, velocity.values, motion, longest=0.0)


def _follow(
    axes: Sequence[Axis],
    motion: AxesMotion | None,
    row: int,
    commanded: int,
    quantities: frozenset[Quantity],
) -> tuple[Quantity, Response]:
    """Return as what an axis follows a command best, and how."""
    columns = axes[commanded].columns
    tried = [quantity for quantity in sorted(quantities) if quantity in columns or None in columns]
    tried = tried or [quantity for quantity in columns if quantity is not None]
    best = tried[0], _NO_RESPONSE
    if motion is None:
        return best
    for quantity in tried:
        command = _command(motion, commanded, quantity)
        answer = motion.signals.get((row, quantity))
        if command is None:
            continue
        if answer is None and quantity is Quantity.VELOCITY:
            position = motion.signals.get((row, Quantity.POSITION))
            answer = None if position is None else position._replace(values=position.rate)
        if answer is None:
            continue
        if quantity is Quantity.POSITION:
            # Slow drifts of two axes are alike; their speeds are not.
            found = _levels(command, answer, motion, respond(command.rate, answer.rate, motion))
        else:
            found = respond(command.values, answer.values, motion)
        if abs(found.correlation) > abs(best[1].correlation):
            best = quantity, found
    return best


def _levels(
    command: SmoothSignal, answer: SmoothSignal, motion: AxesMotion, by_speed: Response
) -> Response:
    """Return a response with the slope of its levels where speeds agree a little only.

    A servo rounds the steps of a command, whose speed is that of the filter: it tells no unit.
    """
    asked = float(command.values[motion.whole].std())
    if not asked or abs(by_speed.correlation) >= _CLEAR:
        return by_speed
    slope = float(answer.values[motion.whole].std()) / asked
    return by_speed._replace(slope=math.copysign(slope, by_speed.correlation))


def _bind(
    axes: Sequence[Axis],
    measured: list[int],
    commanded: list[int],
    table: list[list[tuple[Quantity, Response]]],
) -> dict[int, int]:
    """Choose the command of each measured axis: the strongest correlations, names beside them."""
    if not measured or not commanded:
        return {}
    merit = np.zeros((len(measured), len(commanded)))
    certain = np.zeros(merit.shape, dtype=bool)
    for index, row in enumerate(measured):
        for column, row_of_command in enumerate(commanded):
            quantity, response = table[index][column]
            strength = abs(response.correlation)
            same = axes[row].named and axes[row].name == axes[row_of_command].name
            level = (
                _level(axes[row], axes[row_of_command], quantity)
                if strength > LEAST_CORRELATION
                else 0.0
            )
            merit[index, column] = strength + _NAME_BONUS * same + _LEVEL_BONUS * level
            certain[index, column] = same or strength >= LEAST_CORRELATION
    found = zip(*scipy.optimize.linear_sum_assignment(-merit), strict=True)
    return {int(index): int(column) for index, column in found if certain[index, column]}


def _level(measured: Axis, commanded: Axis, quantity: Quantity) -> float:
    """Return from 0 to 1 how near positions are to a command: all joints may move in step."""
    position = measured.columns.get(Quantity.POSITION)
    command = commanded.columns.get(quantity) or commanded.columns.get(None)
    if quantity is not Quantity.POSITION or position is None or command is None:
        return 0.0
    spread = float(np.nanstd(command.values)) or 1.0
    away = abs(float(np.nanmean(command.values)) - float(np.nanmean(position.values)))
    return math.exp(-away / spread)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Joints that a mechanism couples: columns that mix two joints, friction that acts on two.

A wrist whose motors sit before a differential or run through one another turns the last joint with
the one before it. A column of such a motor is no joint: ``column = a q5 + b q6``. Where the columns
are those of the joints, the friction of a motor still acts on both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.alignment.mapping.axes import correlate, respond
from sysid_ros.alignment.pairs import Quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sysid_ros.alignment.mapping.axes import AxesMotion, Axis

#: A second joint must explain what is left down to this part of it, and of the whole.
_LESS, _LEFT = 0.25, 0.1
#: Encoders mix joints exactly but for noise: this part of the variance may be left.
_EXACT = 0.02
#: A joint takes part in a column when it moves it by this part of its speed.
_PART = 0.2
#: Joints that move in step, with speeds that correlate more than this, cannot be told apart.
_APART = 0.7
#: Speeds at which dry friction turns, as a part of the motion's.
_SLOW = 0.05


class MixedColumns(NamedTuple):
    """What another joint has to do with a column.

    Attributes:
        mixed: Whether positions mix two joints; else an effort takes part in another's friction.
        text: What was found, in words.
    """

    mixed: bool
    text: str


def find_couplings(axes: Sequence[Axis], motion: AxesMotion | None) -> dict[int, MixedColumns]:
    """Return index of the measured axis to what couples it; mixed positions before efforts."""
    if motion is None:
        return {}
    measured = [
        row
        for row, axis in enumerate(axes)
        if not axis.commanded and (row, Quantity.POSITION) in motion.signals
    ]
    found = {}
    for row in measured:
        coupling = _mixture(axes, motion, row, measured) or _friction(axes, motion, row, measured)
        if coupling is not None:
            found[row] = coupling
    return found


def _mixture(
    axes: Sequence[Axis], motion: AxesMotion, row: int, measured: list[int]
) -> MixedColumns | None:
    """Compare the speed of a column with the velocities that are measured, then the commands."""
    speed = motion.signals[row, Quantity.POSITION].rate
    velocities = {
        axes[other].name: motion.signals[other, Quantity.VELOCITY].values
        for other in measured
        if (other, Quantity.VELOCITY) in motion.signals
    }
    commands = {}
    for other, axis in enumerate(axes):
        command = motion.signals.get((other, Quantity.POSITION))
        if axis.commanded and command is not None:
            late = round(respond(command.rate, speed, motion).lag / motion.step)
            commands[axis.name] = np.r_[np.full(late, command.rate[0]), command.rate][: len(speed)]
    for what, sources in (('velocities', velocities), ('commands', commands)):
        if len(sources) > 1:
            names, bases = list(sources), np.column_stack([*sources.values()])[motion.whole]
            values = speed[motion.whole]
            left = [_unexplained(bases[:, [k]], values) for k in range(len(names))]
            whole = _unexplained(bases, values)
            factors = np.linalg.lstsq(bases, values, rcond=None)[0]
            sizes = np.abs(factors) * bases.std(axis=0) / max(float(values.std()), 1e-12)
            parts = [k for k in np.argsort(-sizes) if sizes[k] > _PART]
            if len(parts) != 2 or abs(correlate(*bases[:, parts].T)) > _APART:  # noqa: PLR2004
                continue
            if whole < min(_LESS * min(left), _EXACT):
                terms = ' + '.join(f'{factors[k]:.3g} {names[k]}' for k in parts)
                return MixedColumns(
                    mixed=True, text=f'by the {what} it mixes two joints, {terms}: a coupled wrist?'
                )
    return None


def _friction(
    axes: Sequence[Axis], motion: AxesMotion, row: int, measured: list[int]
) -> MixedColumns | None:
    """Ask whether an effort goes with the friction of another joint."""
    effort = motion.signals.get((row, Quantity.EFFORT))
    if effort is None or float(effort.values[motion.whole].std()) == 0.0:
        return None
    own = motion.signals[row, Quantity.POSITION]
    bases = np.column_stack(
        [own.acceleration, *_rubbing(own.rate), np.sin(own.values), np.cos(own.values)]
    )[motion.whole]
    values = effort.values[motion.whole]
    alone = _unexplained(bases, values)
    for other in measured:
        rate = motion.signals[other, Quantity.POSITION].rate
        if other == row or abs(correlate(own.rate[motion.whole], rate[motion.whole])) > _APART:
            continue
        more = np.column_stack([bases, np.column_stack(_rubbing(rate))[motion.whole]])
        if _unexplained(more, values) < min(_LESS * alone, _LEFT):
            text = f'the friction of {axes[other].name} is in this effort: a coupled wrist?'
            return MixedColumns(mixed=False, text=text)
    return None


def _rubbing(rate: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    slow = _SLOW * float(rate.std()) or 1.0
    return [rate, np.tanh(rate / slow)]


def _unexplained(bases: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """Return the part of the variance that a linear fit with a constant leaves."""
    bases = np.column_stack([np.ones(len(values)), bases])
    left = values - bases @ np.linalg.lstsq(bases, values, rcond=None)[0]
    return float(np.var(left)) / max(float(np.var(values)), 1e-300)

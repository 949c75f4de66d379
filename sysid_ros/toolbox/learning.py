# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What callbacks write, learnt from a handful of compiled models.

A callback that sets an armature changes one number of the compiled model, in a line. Candidates
can then be written as those of targets are, which is as exact and needs no compiler.
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.model.rebuild import CandidateError, Rebuild
from sysid_ros.model.targets.writer import Linear, Writer, set_all_apart
from sysid_ros.model.unknown import Unknown

#: Fields that ``mj_setConst`` derives.
_DERIVED = frozenset(mujoco.MjModel._setconst_outputs)  # noqa: SLF001 (named nowhere else)
#: What acts through commands or measurements, and not in the simulation alone.
_NOT_LEARNT = frozenset({'actuator_delay', 'sensor_delay'})
#: A field is as compiled within this share of its largest number.
_SAME = 1e-9
#: A number follows a value where the two moves give the same slope within this share.
_SAME_SLOPE = 1e-6
#: Slopes and offsets that are this near to a slope of few digits, or to zero, are that.
_ROUNDING, _DIGITS = 1e-12, 9
#: Values are moved by such shares of the room that they have.
_LEAST_MOVE, _LARGEST_MOVE = 0.1, 0.4
_SEED = 0


def learn(rebuild: Rebuild, unknowns: Sequence[Unknown]) -> tuple[Linear, ...] | None:
    """Find which numbers of the compiled model follow values, each one value in a line.

    All values are moved together, twice and by different ratios, so that the ratio of its two
    changes says which value a number follows. What was learnt is then compared with the compiled
    model at both ends of the bounds.

    Returns:
        What follows the values; None where more than that does, or where the compiler or a
        callback refuses values within the bounds.
    """
    try:
        return _learn(rebuild, unknowns)
    except CandidateError:  # each candidate that is refused is to say so
        return None


def _learn(rebuild: Rebuild, unknowns: Sequence[Unknown]) -> tuple[Linear, ...] | None:
    compiled = rebuild.shared
    start = np.array([unknown.nominal for unknown in unknowns])
    low = np.array([unknown.min_value for unknown in unknowns])
    high = np.array([unknown.max_value for unknown in unknowns])
    reach = np.maximum(np.abs(start), 1.0)
    low = np.where(np.isfinite(low), low, start - reach)
    high = np.where(np.isfinite(high), high, start + reach)
    random = np.random.default_rng(_SEED)
    room = np.where(high - start >= start - low, high - start, low - start)
    own = np.isin(np.arange(len(start)), rebuild.columns)

    def at(values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a candidate with only those of the values that act through the compiler."""
        return np.where(own, values, start)

    moves = room * random.uniform(_LEAST_MOVE, _LARGEST_MOVE, (2, len(start)))
    base = compiled(start)
    learnt = _lines(
        base, [compiled(at(start + move)) for move in moves], start, moves, np.flatnonzero(own)
    )
    targets = [(t, column) for column, each in enumerate(unknowns) for t in each.targets]
    written = Writer(base, targets).places
    for line in learnt or ():
        if line.field in _NOT_LEARNT or not written.get(line.field, set()).isdisjoint(line.places):
            return None
    if learnt is None:
        return None
    writer, model = Writer(base, [], learnt=learnt), base.__copy__()
    for point in (low, high):
        writer.write(model, at(point))
        mujoco.mj_setConst(model, mujoco.MjData(model))
        set_all_apart(model)
        if not _equal(model, compiled(at(point)), base):
            return None
    return learnt


def _arrays(model: mujoco.MjModel) -> dict[str, NDArray[np.float64]]:
    """Return the fields of a model that nothing derives, flat."""
    values = {field: getattr(model, field) for field in mujoco.MjModel._all_fields}  # noqa: SLF001
    return {
        field: np.ravel(value)
        for field, value in values.items()
        if field not in _DERIVED and isinstance(value, np.ndarray) and value.size
    }


def _same_options(model: mujoco.MjModel, other: mujoco.MjModel) -> bool:
    names = [name for name in dir(model.opt) if not name.startswith('_')]
    pairs = [(getattr(model.opt, name), getattr(other.opt, name)) for name in names]
    return all(callable(own) or np.array_equal(own, theirs) for own, theirs in pairs)


def _lines(
    base: mujoco.MjModel,
    moved: Sequence[mujoco.MjModel],
    start: NDArray[np.float64],
    moves: NDArray[np.float64],
    columns: NDArray[np.int64],
) -> tuple[Linear, ...] | None:
    """Return what two (2, p) moves of the values change; None where that follows no single one."""
    if not all(_same_options(base, other) for other in moved):
        return None
    first, second = map(_arrays, moved)
    found = []
    for field, own in _arrays(base).items():
        if first.get(field, own[:0]).shape != own.shape or own.shape != second[field].shape:
            return None
        places = np.flatnonzero((own != first[field]) | (own != second[field]))
        if not len(places):
            continue
        if own.dtype.kind != 'f':
            return None
        changes = np.stack([first[field][places], second[field][places]]) - own[places]
        crossed = np.outer(changes[0], moves[1, columns]), np.outer(changes[1], moves[0, columns])
        size = np.abs(crossed[0]) + np.abs(crossed[1])
        apart = np.where(size > 0, np.abs(crossed[0] - crossed[1]) / np.maximum(size, 1e-300), 1.0)
        nearest = np.argmin(apart, axis=1)
        if np.any(apart[np.arange(len(places)), nearest] > _SAME_SLOPE):
            return None
        which = columns[nearest]
        found.append(
            _line(field, places, which, changes[0] / moves[0, which], own[places], start[which])
        )
    return tuple(found)


def _line(
    field: str,
    places: NDArray[np.int64],
    columns: NDArray[np.int64],
    slopes: NDArray[np.float64],
    values: NDArray[np.float64],
    start: NDArray[np.float64],
) -> Linear:
    """Return a line through the values at the start, without what rounding has left in it."""
    short = np.round(slopes, _DIGITS)
    factors = np.where(np.abs(slopes - short) <= _ROUNDING * np.abs(slopes), short, slopes)
    made = factors * start
    offsets = values - made
    offsets[np.abs(offsets) <= _ROUNDING * np.maximum(np.abs(values), np.abs(made))] = 0.0
    return Linear(field, places, columns, factors, offsets)


def _equal(model: mujoco.MjModel, other: mujoco.MjModel, base: mujoco.MjModel) -> bool:
    """Whether two models are the same but for rounding where both come from the same one."""
    theirs, before = _arrays(other), _arrays(base)
    for field, own in _arrays(model).items():
        compared = theirs.get(field, own[:0])
        if compared.shape != own.shape:
            return False
        if np.array_equal(own, compared):
            continue
        size = max(float(np.max(np.abs(values))) for values in (own, before[field]))
        if own.dtype.kind != 'f' or not np.all(np.abs(own - compared) <= _SAME * size):
            return False
    return _same_options(model, other)

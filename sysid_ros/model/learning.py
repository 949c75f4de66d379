# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What callbacks write, learnt from a handful of compiled models.

A callback that sets an armature changes one number of the compiled model, in a line: candidates
are then written as those of targets are, and need no compiler.
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.model.rebuild import CandidateError, Rebuild
from sysid_ros.model.targets.writer import Linear, Writer, set_all_apart
from sysid_ros.model.unknown import Unknown

Array = NDArray[np.float64]

#: Fields that ``mj_setConst`` derives.
_DERIVED = frozenset(mujoco.MjModel._setconst_outputs)  # noqa: SLF001 (named nowhere else)
#: What acts through commands or measurements, and not in the simulation alone.
_NOT_LEARNT = frozenset({'actuator_delay', 'sensor_delay'})
#: A field is as compiled within this share of its largest number: what rounding leaves of it.
_SAME = 1e-9
#: A number follows a value where two moves give the same slope within this share.
_SAME_SLOPE = 1e-6
#: Slopes that are this near to one of nine digits, and offsets this near to zero, are that.
_ROUNDING = 1e-12


def learn(rebuild: Rebuild, unknowns: Sequence[Unknown]) -> tuple[Linear, ...] | None:
    """Find which numbers of the compiled model follow values, each one value in a line.

    All values are moved together, twice and by different ratios, so that the ratio of its two
    changes says which value a number follows. What was learnt is compared with the compiled model
    at both ends of the bounds.

    Returns:
        What follows the values; None where more than that does, or where the compiler or a
        callback refuses values within the bounds.
    """
    start, low, high = np.array([(u.nominal, u.min_value, u.max_value) for u in unknowns]).T
    reach = np.maximum(np.abs(start), 1.0)
    low = np.where(np.isfinite(low), low, start - reach)
    high = np.where(np.isfinite(high), high, start + reach)
    room = np.where(high - start >= start - low, high - start, low - start)
    moves = room * np.random.default_rng(0).uniform(0.1, 0.4, (2, len(start)))
    own = np.isin(np.arange(len(start)), rebuild.columns)
    try:
        base = rebuild.shared(start)
        moved = [rebuild.shared(np.where(own, start + move, start)) for move in moves]
        ends = [rebuild.shared(np.where(own, end, start)) for end in (low, high)]
    except CandidateError:  # each candidate that is refused is to say so
        return None
    learnt = _lines(base, moved, start, moves, np.flatnonzero(own))
    if learnt is None:
        return None
    targets = [(t, column) for column, each in enumerate(unknowns) for t in each.targets]
    written = Writer(base, targets).places
    for line in learnt:
        if line.field in _NOT_LEARNT or not written.get(line.field, set()).isdisjoint(line.places):
            return None
    writer, model = Writer(base, [], learnt=learnt), base.__copy__()
    for end, compiled in zip((low, high), ends, strict=True):
        writer.write(model, np.where(own, end, start))
        mujoco.mj_setConst(model, mujoco.MjData(model))
        set_all_apart(model)
        if not _equal(model, compiled, base):
            return None
    return learnt


def _arrays(model: mujoco.MjModel) -> dict[str, Array]:
    """Return the fields of a model that nothing derives, and its options, flat."""
    fields = {field: getattr(model, field) for field in mujoco.MjModel._all_fields}  # noqa: SLF001
    found = {k: v for k, v in fields.items() if k not in _DERIVED and isinstance(v, np.ndarray)}
    names = [name for name in dir(model.opt) if not name.startswith('_')]
    options = {f'opt.{name}': getattr(model.opt, name) for name in names}
    found.update({k: np.asarray(v) for k, v in options.items() if not callable(v)})
    return {field: np.ravel(value) for field, value in found.items()}


def _lines(
    base: mujoco.MjModel,
    moved: Sequence[mujoco.MjModel],
    start: Array,
    moves: Array,
    columns: NDArray[np.int64],
) -> tuple[Linear, ...] | None:
    """Return what two (2, p) moves of the values change; None where that follows no single one."""
    first, second = map(_arrays, moved)
    found = []
    for field, own in _arrays(base).items():
        if not own.shape == first[field].shape == second[field].shape:
            return None
        places = np.flatnonzero((own != first[field]) | (own != second[field]))
        if not len(places):
            continue
        if own.dtype.kind != 'f' or field.startswith('opt.'):
            return None
        changes = np.stack([first[field][places], second[field][places]]) - own[places]
        crossed = np.outer(changes[0], moves[1, columns]), np.outer(changes[1], moves[0, columns])
        size = np.abs(crossed[0]) + np.abs(crossed[1])
        apart = np.where(size > 0, np.abs(crossed[0] - crossed[1]) / np.maximum(size, 1e-300), 1.0)
        if np.any(apart.min(axis=1) > _SAME_SLOPE):
            return None
        which = columns[np.argmin(apart, axis=1)]
        slopes = changes[0] / moves[0, which]
        short = np.round(slopes, 9)
        factors = np.where(np.abs(slopes - short) <= _ROUNDING * np.abs(slopes), short, slopes)
        made = factors * start[which]
        offsets = own[places] - made
        offsets[np.abs(offsets) <= _ROUNDING * np.maximum(np.abs(own[places]), np.abs(made))] = 0.0
        found.append(Linear(field, places, which, factors, offsets))
    return tuple(found)


def _equal(model: mujoco.MjModel, other: mujoco.MjModel, base: mujoco.MjModel) -> bool:
    """Whether two models are the same but for rounding where both come from the same one."""
    theirs, before = _arrays(other), _arrays(base)
    for field, own in _arrays(model).items():
        compared = theirs[field]
        if np.array_equal(own, compared):
            continue
        if compared.shape != own.shape or own.dtype.kind != 'f':
            return False
        size = max(np.abs(own).max(), np.abs(before[field]).max())
        if not np.all(np.abs(own - compared) <= _SAME * size):
            return False
    return True

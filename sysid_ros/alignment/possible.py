# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What of a pairing is possible for a joint: in which turn it is, and which commands are none.

A driver may count its joint's turns otherwise than the model, or than whoever commands it. It may
be sent a number that means that nothing is asked, as 2.1e9, or one that was never meant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment import pairs as pairing
from sysid_ros.alignment.health import FEW, FindingKind, HealthFinding, spans_where
from sysid_ros.alignment.pairs import (
    SENSOR_FIELDS,
    Pair,
    PairRole,
    column_name,
    model_values,
    pair_columns,
    topic_columns,
)
from sysid_ros.alignment.search import JointActuator, Mechanism
from sysid_ros.bags import BagColumns
from sysid_ros.errors import AlignmentError
from sysid_ros.model.elements import driven_joint
from sysid_ros.vocabulary import SECOND_NS, Quantity

#: Commands are wild that are so many times as far away as anything that was measured.
_FAR = 10.0
_TURN = 2 * math.pi


class _Moved(NamedTuple):
    """A pair as its joint sees it: (n,) receive times, ns, and values, rad or m, NaN where none.

    The value for the model is ``slope × value + intercept``.
    """

    joint: int
    quantity: Quantity
    times_ns: NDArray[np.int64]
    values: NDArray[np.float64]
    slope: float = 1.0
    intercept: float = 0.0


def possible(bag: BagColumns, model: mujoco.MjModel, mapping: pairing.Mapping) -> pairing.Mapping:
    """Put positions and commands into the turn of their joint, and leave wild commands out.

    Raises:
        AlignmentError: All commands of an actuator are wild.
    """
    drives = {joint.drive.name: joint.drive for joint in Mechanism(model).joints if joint.drive}
    measured: dict[tuple[int, Quantity], _Moved] = {}
    pairs: list[Pair] = []
    health = list(mapping.health)
    for pair in mapping.pairs:
        moved = _moved(bag, model, pair, drives)
        if moved is None:
            pairs.append(pair)
            continue
        key, found = (moved.joint, moved.quantity), pair
        if pair.role is PairRole.SENSOR:
            turns = _turns_to_range(model, moved)
            measured[key] = moved._replace(values=moved.values + _TURN * turns)
        else:
            found, wild = _tamed(bag, pair, moved, measured.get(key))
            health += wild
            values = (model_values(bag, found) - moved.intercept) / moved.slope
            turns = _turns_between(model, moved._replace(values=values), measured.get(key))
        pairs.append(found._replace(offset=found.offset + moved.slope * _TURN * turns))
        health += _wraps(bag, pair, turns)
    return pairing.Mapping(tuple(pairs), mapping.unmapped, tuple(health))


def _moved(
    bag: BagColumns, model: mujoco.MjModel, pair: Pair, drives: Mapping[str, JointActuator]
) -> _Moved | None:
    """Return positions and velocities of joints; None for anything else."""
    times, values = topic_columns(bag, pair.topic).receive_ns, model_values(bag, pair)
    if pair.role is PairRole.SENSOR:
        sensor = model.sensor(pair.name)
        quantity = SENSOR_FIELDS.get(mujoco.mjtSensor(int(sensor.type[0])))
        if quantity in {None, Quantity.EFFORT}:
            return None
        return _Moved(int(sensor.objid[0]), quantity, times, values)
    drive = drives.get(pair.name)
    if drive is None or not drive.known or drive.commanded is Quantity.EFFORT:
        return None
    joint, how = driven_joint(model, pair.name), (drive.slope, drive.intercept)
    return _Moved(joint, drive.commanded, times, (values - how[1]) / how[0], *how)


def _turns_to_range(model: mujoco.MjModel, moved: _Moved) -> int:
    """Return how many turns bring most positions into the range of their joint; 0 where none do."""
    if not _turns_at_all(model, moved) or not model.jnt_limited[moved.joint]:
        return 0
    low, high = model.jnt_range[moved.joint]
    middle = _middle(moved.values)
    turns = round(((low + high) / 2 - middle) / _TURN)
    return turns if not low <= middle <= high and low <= middle + turns * _TURN <= high else 0


def _turns_between(model: mujoco.MjModel, asked: _Moved, measured: _Moved | None) -> int:
    """Return how many turns bring most commands nearest to where the joint was then."""
    if measured is None or not _turns_at_all(model, asked):
        return 0
    known = np.isfinite(measured.values)
    if not known.any():
        return 0
    there = np.interp(asked.times_ns, measured.times_ns[known], measured.values[known])
    return round(_middle(there - asked.values) / _TURN)


def _turns_at_all(model: mujoco.MjModel, moved: _Moved) -> bool:
    hinge = model.jnt_type[moved.joint] == mujoco.mjtJoint.mjJNT_HINGE
    return hinge and moved.quantity is Quantity.POSITION and bool(np.isfinite(moved.values).any())


def _middle(values: NDArray[np.float64]) -> float:
    return float(np.median(values[np.isfinite(values)]))


def _wraps(bag: BagColumns, pair: Pair, turns: int) -> list[HealthFinding]:
    """Say how often values began a turn anew, and by how many turns they were off."""
    jumps = pair_columns(bag, pair).turns.get(pair.label, 0)
    said = ['jumps by a turn'] if jumps else []
    if turns:
        other = 'its range' if pair.role is PairRole.SENSOR else 'where the joint is'
        said.append(f'{abs(turns)} {"turn" if abs(turns) == 1 else "turns"} away from {other}')
    if not said:
        return []
    name = column_name(pair.topic, pair.field, pair.label)
    detail = f'{", ".join(said)}; read on without'
    return [HealthFinding(bag.path.name, name, FindingKind.WRAPS, max(jumps, 1), detail)]


def _tamed(
    bag: BagColumns, pair: Pair, asked: _Moved, measured: _Moved | None
) -> tuple[Pair, list[HealthFinding]]:
    """Return a pair without wild commands, and which these are.

    Raises:
        AlignmentError: All commands of an actuator are wild.
    """
    known = np.empty(0) if measured is None else measured.values[np.isfinite(measured.values)]
    if len(known) < FEW:
        return pair, []
    middle = float(np.median(known))
    reach = _FAR * max(float(np.abs(known - middle).max()), 1.0)
    wild = np.abs(asked.values - middle) > reach
    rows = np.flatnonzero(wild)
    if not len(rows):
        return pair, []
    name = column_name(pair.topic, pair.field, pair.label)
    worst = rows[np.argmax(np.abs(asked.values[rows] - middle))]
    if len(rows) == np.count_nonzero(np.isfinite(asked.values)):
        raise AlignmentError(
            f'Expected commands that a joint can follow in {name} of bag {bag.path.name!r}, found '
            f'{asked.values[worst]:.4g} and the like for all, where it was measured within '
            f'{known.min():.4g} to {known.max():.4g}: map the column that drove it, or give this '
            'one its scale.'
        )
    start = min(int(topic.receive_ns[0]) for topic in bag.topics if len(topic.receive_ns))
    spans = spans_where(asked.times_ns, wild, start)
    ends = sorted(
        (asked.slope * (middle + side) + asked.intercept - pair.offset) / pair.scale
        for side in (-reach, reach)
    )
    detail = (
        f'of {len(wild)} commands, as {asked.values[worst]:.4g} at '
        f'{(asked.times_ns[worst] - start) / SECOND_NS:.3f} s, while the joint is within '
        f'{known.min():.4g} to {known.max():.4g}; the command before is held'
    )
    kind = FindingKind.WILD_COMMAND
    finding = HealthFinding(bag.path.name, name, kind, len(rows), detail, spans=spans)
    return pair._replace(limits=(ends[0], ends[1])), [finding]

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Actuators for a model that has none, by what a bag tells that the robot was told."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import mujoco

from sysid_ros.alignment.mapping.arms import find_arms, find_leaders, prefixes
from sysid_ros.alignment.mapping.axes import find_axes, make_motion
from sysid_ros.alignment.mapping.drives import make_drives
from sysid_ros.alignment.mapping.pairing import map_columns
from sysid_ros.alignment.mapping.proposal import Proposal, ProposedPair, propose
from sysid_ros.alignment.pairs import PairRole, UnmappedKind
from sysid_ros.bags import BagColumns
from sysid_ros.config import MappingConfig
from sysid_ros.model.implied import (
    ActuatorKind,
    add_actuators,
    free_joints,
    implied_actuators,
    takes_efforts,
)
from sysid_ros.model.loading import compile_spec
from sysid_ros.vocabulary import Quantity

#: What an actuator is told to what it is.
_KINDS = {
    Quantity.POSITION: ActuatorKind.POSITION,
    Quantity.VELOCITY: ActuatorKind.VELOCITY,
    Quantity.EFFORT: ActuatorKind.EFFORT,
}


def lacking_quantity(spec: mujoco.MjSpec, bag: BagColumns) -> Quantity | None:
    """Return what most joints of a bag are commanded and nothing in a model takes; None if nothing.

    Names of fields and topics tell it; where they do not, what follows the command best. A command
    of positions may come with velocities that belong to it.
    """
    leaders = find_leaders(bag)
    axes = find_axes(bag, leaders, prefixes(bag, find_arms(bag, leaders), leaders))
    efforts = any(axis.commanded and Quantity.EFFORT in axis.columns for axis in axes)
    if not takes_efforts(spec) or (spec.actuators and efforts):
        return None
    drives = make_drives(axes, make_motion(axes), frozenset(Quantity))
    votes: Counter[Quantity] = Counter()
    for drive in drives:
        if drive.command is not None:
            told = [quantity for quantity in Quantity if quantity in drive.command.columns]
            votes[told[0] if told else drive.commanded] += 1
    found = votes.most_common(1)[0][0] if votes else None
    return None if spec.actuators and found is Quantity.EFFORT else found


def imply_actuators(
    spec: mujoco.MjSpec,
    path: Path,
    bag: BagColumns,
    mapping: Literal['auto'] | MappingConfig = 'auto',
) -> None:
    """Give a model what takes the commands of a bag, an actuator for each joint that has some.

    Args:
        spec: What the model's file was parsed to, changed in place; one with a servo stays, and one
            with motors where a bag has efforts for them.
        path: The file.
        bag: A recording.
        mapping: Names the actuators, as ``elbow_servo``; ``auto`` goes by the joints' names.

    Raises:
        AlignmentError: The mapping is ``auto`` and the bag has no joint of the model.
        ModelError: The model does not compile.
    """
    if mapping != 'auto':
        add_actuators(spec, mapping.actuators)
        return
    quantity = lacking_quantity(spec, bag)
    if quantity is not None:
        trial = _with_all(spec, _KINDS[quantity])
        guessed = implied_actuators(trial)
        pairs = map_columns(bag, compile_spec(trial, path), 'auto').pairs
        add_actuators(spec, [pair.name for pair in pairs if pair.name in guessed])


def propose_with_actuators(spec: mujoco.MjSpec, path: Path, bag: BagColumns) -> Proposal:
    """Propose a mapping, where nothing in the model takes the commands to actuators that are added.

    Where there are no commands, motors are driven by the efforts that were measured.

    Args:
        spec: What the model's file was parsed to; those that are proposed and that it has not are
            added to it.
        path: The file.
        bag: A recording.

    Raises:
        AlignmentError: Nothing in the bag can be a sensor or actuator of the model.
        ModelError: The model does not compile.
    """
    quantity = lacking_quantity(spec, bag)
    if spec.actuators and quantity is None:
        return propose(bag, compile_spec(spec, path))
    own = {actuator.name or '(unnamed)' for actuator in spec.actuators}
    trial = _with_all(spec, _KINDS[quantity or Quantity.EFFORT])
    guessed = frozenset(implied_actuators(trial))
    found = propose(bag, compile_spec(trial, path), guessed=guessed)
    pairs = found.pairs if quantity is not None else tuple(_by_efforts(found.pairs, spec))
    add_actuators(spec, [pair.name for pair in pairs if pair.role is PairRole.ACTUATOR])
    unmapped = tuple(
        item
        for item in found.unmapped
        if item.kind is not UnmappedKind.ACTUATOR or item.name not in guessed | own
    )
    return dataclasses.replace(found, pairs=pairs, unmapped=unmapped)


def _with_all(spec: mujoco.MjSpec, kind: ActuatorKind) -> mujoco.MjSpec:
    """Return a copy with an actuator on each joint that follows no other."""
    trial = spec.copy()
    add_actuators(trial, [f'{joint}_{kind}' for joint in free_joints(spec)])
    return trial


def _by_efforts(pairs: Iterable[ProposedPair], spec: mujoco.MjSpec) -> list[ProposedPair]:
    """Let measured efforts drive motors; what drives the model is not compared with it."""
    efforts = {
        sensor.name: sensor.objname
        for sensor in spec.sensors
        if sensor.type == mujoco.mjtSensor.mjSENS_JOINTACTFRC
    }
    kept = [pair for pair in pairs if pair.name not in efforts]
    reason = 'no commands in the bag: the effort that was measured drives the joint'
    return kept + [
        pair._replace(
            role=PairRole.ACTUATOR,
            name=f'{efforts[pair.name]}_{ActuatorKind.EFFORT}',
            reason=f'{reason}; {pair.reason}',
        )
        for pair in pairs
        if pair.name in efforts
    ]

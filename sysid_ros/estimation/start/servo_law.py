# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The delay and gains of servos, from measured forces alone and without a simulation.

A servo exerts ``kp (command - position) - kv velocity``. Read at an instant, its force shows which
command was in force then. Where states and commands are synchronous, that is a step function of the
delay: between two walls, a command's period apart, every delay says the same, and beyond a wall all
forces are wrong by kp times what a command changes. A fit that begins on the wrong side stays
there, and damping and armature make up for it; so the right side is looked for first, by regressing
forces on the command, the position and the velocity for each delay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

from sysid_ros.model.targets import Role
from sysid_ros.model.unknown import Unknown
from sysid_ros.rollout.controls import SampledForce, sampled_forces
from sysid_ros.rollout.inverse import meaning
from sysid_ros.rollout.runs import HeldCommand, Run, prepare
from sysid_ros.signals.trajectory import Trajectory

#: Delays this far apart are tried, s.
_STEP = 5e-4
#: Delays explain forces equally well where what they leave differs by less than this factor: more
#: than the walls of a wrong friction make, and far less than a command's period does.
_ALIKE = 1.02
#: Commands are at most so late where nobody says how late they may be, s.
_LATEST = 0.1
#: Forces tell a stiffness where both regressions agree to this part.
_CLEAR = 0.8
#: A joint with fewer samples shows nothing.
_FEWEST = 50
#: Forces are explained entirely where less than this part of their squares is left.
_EXACT, _TINY = 1e-12, 1e-300
#: A force within this part of its limit is taken to be limited.
_LIMITED = 0.01


class _Law(NamedTuple):
    """What one joint's force is regressed on, in one sequence.

    Attributes:
        force: (n,) measured, at the actuator.
        position: (n,) measured, in the unit of the command.
        others: (n, k) one, and the velocity as positions and, if there is one, a sensor tell it.
        times: (n,) s.
        held: Its command.
    """

    force: NDArray[np.float64]
    position: NDArray[np.float64]
    others: NDArray[np.float64]
    times: NDArray[np.float64]
    held: HeldCommand


class Tooth(NamedTuple):
    """Delays that explain measured forces equally well, and better than all others, s."""

    low: float
    high: float


class Gains(NamedTuple):
    """What measured forces say of a servo's gains.

    Attributes:
        low: Least stiffness: forces regressed on what the position misses, which has noise …
        high: … and greatest: regressed the other way, as if forces had all of the noise, N·m/rad.
        kv: Damping at the stiffness between, N·m·s/rad.
    """

    low: float
    high: float
    kv: float

    @property
    def kp(self) -> float | None:
        """The stiffness, N·m/rad; None where forces do not tell it."""
        return float(np.sqrt(self.low * self.high)) if self.low > _CLEAR * self.high > 0 else None


def aimed(
    model: mujoco.MjModel, unknowns: Sequence[Unknown], sequences: Sequence[Trajectory]
) -> tuple[Unknown, ...]:
    """Return unknowns of which delays and gains begin where forces show the servos' law.

    The command in force stays that which forces show. Delays may leave for a time step of the
    model: so much earlier or later than its forces a fit's motion may be.

    Args:
        model: The compiled model.
        unknowns: What is to be identified.
        sequences: The recordings.
    """
    laws = _laws(model, sequences)
    delays = {row: float(model.actuator_delay[row]) for row in laws}
    found = list(unknowns)
    for place, unknown in enumerate(unknowns):
        rows = [
            target.row
            for target in unknown.targets
            if target.role is Role.COMMAND and target.attribute == 'delay' and target.row in laws
        ]
        own = [laws[row] for row in rows]
        tooth = _tooth(own, unknown.min_value, unknown.max_value) if own else None
        if tooth is not None:
            found[place] = _within(tooth, unknown, model.opt.timestep)
        delays |= dict.fromkeys(rows, found[place].nominal)
    gains = {row: _gains(law, delays[row]) for row, law in laws.items()}
    return tuple(_begun(unknown, gains) for unknown in found)


def _begun(unknown: Unknown, gains: Mapping[int, Gains]) -> Unknown:
    """Return an unknown that begins at the gain that forces show, if it is one."""
    kinds = {target.attribute for target in unknown.targets}
    own = [
        gains[target.row]
        for target in unknown.targets
        if target.path.startswith('actuator/') and target.row in gains
    ]
    if not (kinds <= {'kp', 'kv'} and len(own) == len(unknown.targets)):
        return unknown
    if any(each.kp is None or each.kv <= 0 for each in own):
        return unknown
    values = [each.kv if kinds == {'kv'} else each.kp or 0.0 for each in own]
    start = float(np.clip(np.median(values), unknown.min_value, unknown.max_value))
    return dataclasses.replace(unknown, nominal=start)


def servo_gains(model: mujoco.MjModel, sequences: Sequence[Trajectory]) -> dict[int, Gains]:
    """Return actuator to what forces say of its gains, if all commands are late by one time."""
    laws = _laws(model, sequences)
    tooth = _tooth(list(laws.values()), 0.0, _LATEST) if laws else None
    late = 0.0 if tooth is None else (tooth.low + tooth.high) / 2
    return {row: _gains(law, late) for row, law in laws.items()}


def _gains(joint: Sequence[_Law], delay: float) -> Gains:
    """Return what the forces of a joint say of its servo at a delay."""
    others = np.concatenate([law.others for law in joint])
    both = np.concatenate(
        [
            np.column_stack([law.held.in_force(law.times - delay) - law.position, law.force])
            for law in joint
        ]
    )
    slopes = np.linalg.lstsq(others, both)[0]
    rest = both - others @ slopes
    (missed, product), (_, force) = rest.T @ rest
    low, high = product / max(missed, _TINY), force / product if product else np.inf
    # Without the stiffness's part, forces fall with the velocity in all of its columns.
    kv = np.sqrt(max(low * high, 0.0)) * slopes[1:, 0].sum() - slopes[1:, 1].sum()
    return Gains(float(low), float(high), float(kv))


def _within(tooth: Tooth, unknown: Unknown, slack: float) -> Unknown:
    """Return a delay that begins in the middle of a tooth, and may leave it by a slack."""
    return dataclasses.replace(
        unknown,
        nominal=(tooth.low + tooth.high) / 2,
        min_value=max(tooth.low - slack, unknown.min_value),
        max_value=min(tooth.high + slack, unknown.max_value),
        in_force=tooth,
    )


def _laws(model: mujoco.MjModel, sequences: Sequence[Trajectory]) -> dict[int, list[_Law]]:
    """Return, by actuator, what its force is regressed on in each sequence that measures it."""
    found: dict[int, list[_Law]] = {}
    for run in [prepare(model, sequence) for sequence in sequences if sequence.sampled]:
        for force in sampled_forces(model, run):
            law = _law(model, run, force)
            if law is not None:
                found.setdefault(force.actuator, []).append(law)
    return found


def _law(model: mujoco.MjModel, run: Run, force: SampledForce) -> _Law | None:
    readings = run.readings[force.readings]
    joint = int(model.actuator_trnid[force.actuator, 0])
    dof = int(model.jnt_dofadr[joint])
    state = {
        what: (each.times, each.measured[:, place])
        for each in run.readings
        for place, column in enumerate(each.columns.tolist())
        for what, of in meaning(model, each.source, column)
        if of == dof
    }
    if 'position' not in state:
        return None
    times, values = readings.times, readings.measured[:, force.place]
    at, position = (part[np.isfinite(state['position'][1])] for part in state['position'])
    if len(at) < _FEWEST:
        return None
    # Differences of positions are smooth, a spline through them follows what is fast: a regression
    # takes of each what explains the force.
    others = [np.ones(len(times)), np.interp(times, at, np.gradient(position, at))]
    others.append(scipy.interpolate.CubicSpline(at, position)(times, 1))
    if 'velocity' in state:
        stamps, velocity = (part[np.isfinite(state['velocity'][1])] for part in state['velocity'])
        others.append(np.interp(times, stamps, velocity) if len(stamps) else np.zeros(len(times)))
    low, high = force.limits
    if model.actuator_forcelimited[force.actuator]:
        own = np.sort(force.factor * model.actuator_forcerange[force.actuator])
        low, high = max(low, own[0]), min(high, own[1])
    known = np.isfinite(values) & (times >= at[0]) & (times <= at[-1])
    known &= (values > (1 - _LIMITED) * low) & (values < (1 - _LIMITED) * high)
    if known.sum() < _FEWEST:
        return None
    # What a command is held against: of a servo the length of its transmission, of a motor nothing.
    gain, bias = model.actuator_gainprm[force.actuator, 0], model.actuator_biasprm[force.actuator]
    affine = model.actuator_biastype[force.actuator] == mujoco.mjtBias.mjBIAS_AFFINE
    ratio = -bias[1] / gain * model.actuator_gear[force.actuator, 0] if affine and gain else 0.0
    return _Law(
        values[known] / force.factor,
        ratio * np.interp(times, at, position)[known],
        np.column_stack(others)[known],
        times[known],
        run.commands[force.command].held,
    )


def _tooth(laws: Sequence[list[_Law]], low: float, high: float) -> Tooth | None:
    """Return the delays that explain the forces of some joints best.

    Args:
        laws: For each joint, its sequences.
        low: Least delay, s.
        high: Greatest delay, s.

    Returns:
        None where all delays explain them alike.
    """
    delays = np.arange(low, high + _STEP / 2, _STEP)
    left = np.array([sum(_unexplained(joint, delay) for joint in laws) for delay in delays])
    best = int(np.argmin(left))
    weight = sum(len(law.force) for joint in laws for law in joint)
    alike = left <= left[best] + weight * np.log(_ALIKE)
    if alike.all():
        return None
    first, last = best, best
    while first > 0 and alike[first - 1]:
        first -= 1
    while last + 1 < len(delays) and alike[last + 1]:
        last += 1
    return Tooth(float(delays[first]), float(delays[last]))


def _unexplained(joint: Sequence[_Law], delay: float) -> float:
    """Return minus twice the logarithm of the likelihood of a joint's forces at a delay."""
    tables = [
        np.column_stack(
            [law.held.in_force(law.times - delay) - law.position, law.others, law.force]
        )
        for law in joint
    ]
    table = np.concatenate(tables)
    normal, count = table.T @ table, len(table)
    solution = np.linalg.lstsq(normal[:-1, :-1], normal[:-1, -1])[0]
    left = normal[-1, -1] - normal[:-1, -1] @ solution
    return count * float(np.log(max(left, _EXACT * normal[-1, -1]) / count))

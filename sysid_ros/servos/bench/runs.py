# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which motions a bench plays with which loads and gains, and what to change in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sysid_ros.errors import ConfigError
from sysid_ros.servos.bench.trajectories import KPS, STANDARD, trajectory
from sysid_ros.servos.laws.catalogue import actuator_type

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sysid_ros.servos.bench.trajectories import Trajectory

#: What is said of a load, for people.
LOAD = {
    'mass': '{:g} kg at the end',
    'length': '{:g} m from the axis',
    'arm_mass': 'an arm of {:g} kg',
}
_GAINS = {'kp': 'set kp to {:g}', 'vin': 'supply {:g} V'}
#: All that may differ between runs.
SETTINGS = (*LOAD, *_GAINS)


class Run(NamedTuple):
    """One motion of the bench.

    Attributes:
        motion: What is played.
        settings: Mass, arm_mass (kg), length (m), kp, and vin (V) where the servo has a supply.
    """

    motion: Trajectory
    settings: Mapping[str, float]


def plan_runs(
    actuator: str,
    *,
    masses: Sequence[float],
    lengths: Sequence[float],
    arm_masses: Sequence[float] = (),
    kps: Sequence[float] = (),
    trajectories: Sequence[str] = (),
    vin: float = 0.0,
) -> tuple[Run, ...]:
    """Return all runs: for each load each gain, for each gain each motion.

    Loads are the rows of masses, lengths and arm_masses; a single value is that of all rows.

    Args:
        actuator: The servo; its name in the catalogue or a file.
        masses: kg.
        lengths: m.
        arm_masses: kg; default 0.
        kps: Gains; default what BAM records the servo with, or its usual one.
        trajectories: Names; default the four standard ones.
        vin: Supply, V; 0 means the servo's usual.

    Raises:
        ConfigError: There is no load, or the lists do not belong together.
        ParameterError: There is no such servo or motion.
    """
    kind = actuator_type(actuator)
    usual = kind.constants
    gains = tuple(kps) or KPS.get(kind.name) or (usual['kp'],)
    motions = [trajectory(name) for name in trajectories or STANDARD]
    supply = {'vin': vin or usual['vin']} if 'vin' in usual else {}
    return tuple(
        Run(motion, {**load, 'kp': kp, **supply})
        for load in _loads(masses, lengths, arm_masses or (0.0,))
        for kp in gains
        for motion in motions
    )


def instruction(
    settings: Mapping[str, float], before: Mapping[str, float], others: Collection[str] = ()
) -> str:
    """Return what a person has to change; empty where that is nothing.

    Args:
        settings: As they should be.
        before: As they are; empty at the start.
        others: Names of those that somebody else changes.
    """
    by_hand = [name for name in settings if name not in others]
    changed = [name for name in by_hand if settings[name] != before.get(name)]
    parts = []
    if any(name in LOAD for name in changed):
        # All of the load, so that it can be checked.
        load = [LOAD[name].format(settings[name]) for name in LOAD if name in by_hand]
        parts.append(f'mount {", ".join(load)}')
    parts += [text.format(settings[name]) for name, text in _GAINS.items() if name in changed]
    return '; '.join(parts)


def _loads(*columns: Sequence[float]) -> list[dict[str, float]]:
    names = ('masses', 'lengths', 'arm_masses')
    for name, values in zip(names, columns, strict=True):
        if not values:
            msg = f'Expected at least one value in {name!r}, found none.'
            raise ConfigError(msg)
        low = 'not negative' if name == 'arm_masses' else 'greater than 0'
        wrong = [v for v in values if v < 0 or (v == 0 and name != 'arm_masses')]
        if wrong:
            msg = f'Expected values in {name!r} that are {low}, found {wrong[0]:g}.'
            raise ConfigError(msg)
    count = max(map(len, columns))
    for name, values in zip(names, columns, strict=True):
        if len(values) not in {1, count}:
            msg = (
                f'Expected 1 or {count} values in {name!r}, one for each load, found {len(values)}.'
            )
            raise ConfigError(msg)
    rows = zip(*([*v] * (count // len(v)) for v in columns), strict=True)
    return [dict(zip(('mass', 'length', 'arm_mass'), row, strict=True)) for row in rows]

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The motions of the bench, and with which loads and gains they are played."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.errors import ConfigError, ParameterError, nearest
from sysid_ros.servos.laws.servo import actuator_type

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

#: All of them last so long, s.
DURATION = 6.0
_UP = np.pi / 2
#: The four that tell friction from back-EMF and load; BAM's guide records these.
STANDARD = ('sin_sin', 'lift_and_drop', 'up_and_down', 'sin_time_square')
_MX_KPS = (4.0, 8.0, 16.0, 32.0)
_XL330_KPS = (50.0, 100.0, 200.0, 300.0, 400.0)
_EROB_KPS = (5.0, 10.0, 25.0, 50.0)
#: Gains that BAM records each servo with.
KPS: dict[str, tuple[float, ...]] = {
    'mx64': _MX_KPS,
    'mx106': _MX_KPS,
    'xl320': _MX_KPS,
    'xl330': _XL330_KPS,
    'xl330i': _XL330_KPS,
    'erob80_50': _EROB_KPS,
    'erob80_100': _EROB_KPS,
    'sts3215': _MX_KPS,
}
#: What is said of a load, for people.
LOAD = {
    'mass': '{:g} kg at the end',
    'length': '{:g} m from the axis',
    'arm_mass': 'an arm of {:g} kg',
}
_GAINS = {'kp': 'set kp to {:g}', 'vin': 'supply {:g} V'}


@dataclass(frozen=True)
class BenchMotion:
    """A motion of the goal, and until when the motor is on.

    Attributes:
        name: As in logs.
        title: What it is good for, for people.
        path: (n,) times in s to (n,) goals in rad; 0 hangs down.
        off_from: The motor is off from this time on, s.
        duration: s.
    """

    name: str
    title: str
    path: Callable[[Array], Array]
    off_from: float = np.inf
    duration: float = DURATION

    def goal(self, t: ArrayLike) -> Array:
        """Return the commanded positions at times in s, rad; outside the duration the ends."""
        return self.path(np.clip(np.asarray(t, dtype=np.float64), 0.0, self.duration))

    def enabled(self, t: ArrayLike) -> NDArray[np.bool_]:
        """Return whether the motor is on at times in s."""
        return np.asarray(t, dtype=np.float64) < self.off_from

    @property
    def switches(self) -> bool:
        """Whether the motor is off at some time of the motion."""
        return self.off_from < self.duration


def _cubics(times: Sequence[float], goals: Sequence[float]) -> Callable[[Array], Array]:
    """Return cubics between goals, at rest at each; the last goal is held."""

    def path(t: Array) -> Array:
        row = np.clip(np.searchsorted(times, t, side='right') - 1, 0, len(times) - 2)
        start, goal = np.take(times, row), np.take(goals, row)
        phase = np.clip((t - start) / (np.take(times, row + 1) - start), 0.0, 1.0)
        way = np.take(goals, row + 1) - goal
        found: Array = goal + way * phase**2 * (3.0 - 2.0 * phase)
        return found

    return path


def _steps(times: Sequence[float], goals: Sequence[float]) -> Callable[[Array], Array]:
    """Return goals that jump after each of the times; the first goal is from time 0 on."""

    def path(t: Array) -> Array:
        found: Array = np.take(goals, np.searchsorted(times, t))
        return found

    return path


_ALL = (
    BenchMotion(
        'sin_sin',
        'slow swings with faster ones on top: many speeds and accelerations',
        lambda t: np.sin(t) * _UP + np.sin(5.0 * t) * 0.5 * np.sin(t * 2.0),
    ),
    BenchMotion(
        'lift_and_drop',
        'slowly up, then the motor is switched off: friction without back-EMF',
        _cubics((0.0, 2.0), (0.0, -_UP)),
        off_from=2.0,
    ),
    BenchMotion(
        'up_and_down',
        'slowly up and a little down: friction under load, both ways',
        _cubics((0.0, 3.0, 6.0), (0.0, _UP, 0.8 * _UP)),
    ),
    BenchMotion('sin_time_square', 'ever faster swings: all speeds', lambda t: np.sin(t**2)),
    BenchMotion('half_sine', 'very slowly up', lambda t: np.sin(t / 2) * _UP),
    BenchMotion(
        'steps', 'jumps: voltage limit', _steps((1.0, 2.5, 4.0, 5.0), (0.0, 0.75, 1.55, 0.75, 0.0))
    ),
    BenchMotion('nothing', 'the motor is off', np.zeros_like, off_from=0.0),
)
#: All by name.
TRAJECTORIES: dict[str, BenchMotion] = {item.name: item for item in _ALL}


def trajectory(name: str) -> BenchMotion:
    """Return a motion by name.

    Raises:
        ParameterError: There is none of that name.
    """
    if name not in TRAJECTORIES:
        hint = nearest(name, TRAJECTORIES, len(TRAJECTORIES))
        msg = f'There is no trajectory {name!r}; {hint}.'
        raise ParameterError(msg)
    return TRAJECTORIES[name]


class BenchRun(NamedTuple):
    """One motion of the bench.

    Attributes:
        motion: What is played.
        settings: Mass, arm_mass (kg), length (m), kp, and vin (V) where the servo has a supply.
    """

    motion: BenchMotion
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
) -> tuple[BenchRun, ...]:
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
        BenchRun(motion, {**load, 'kp': kp, **supply})
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

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Motions of the bench, by the names that logs have for them: BAM's, with BAM's formulas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.errors import ParameterError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

#: All of them last so long, s.
DURATION = 6.0
_UP = np.pi / 2


@dataclass(frozen=True)
class Trajectory:
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
    Trajectory(
        'sin_sin',
        'slow swings with faster ones on top: many speeds and accelerations',
        lambda t: np.sin(t) * _UP + np.sin(5.0 * t) * 0.5 * np.sin(t * 2.0),
    ),
    Trajectory(
        'lift_and_drop',
        'slowly up, then the motor is switched off: friction without back-EMF',
        _cubics((0.0, 2.0), (0.0, -_UP)),
        off_from=2.0,
    ),
    Trajectory(
        'up_and_down',
        'slowly up and a little down: friction under load, both ways',
        _cubics((0.0, 3.0, 6.0), (0.0, _UP, 0.8 * _UP)),
    ),
    Trajectory('sin_time_square', 'ever faster swings: all speeds', lambda t: np.sin(t**2)),
    Trajectory('half_sine', 'very slowly up', lambda t: np.sin(t / 2) * _UP),
    Trajectory(
        'steps', 'jumps: voltage limit', _steps((1.0, 2.5, 4.0, 5.0), (0.0, 0.75, 1.55, 0.75, 0.0))
    ),
    Trajectory('nothing', 'the motor is off', np.zeros_like, off_from=0.0),
)
#: All by name.
TRAJECTORIES: dict[str, Trajectory] = {item.name: item for item in _ALL}
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


def trajectory(name: str) -> Trajectory:
    """Return a motion by name.

    Raises:
        ParameterError: There is none of that name.
    """
    if name not in TRAJECTORIES:
        hint = nearest(name, TRAJECTORIES, len(TRAJECTORIES))
        msg = f'There is no trajectory {name!r}; {hint}.'
        raise ParameterError(msg)
    return TRAJECTORIES[name]

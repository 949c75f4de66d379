# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What all stages of a fit share: the problem, the settings, and the log of iterations."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import FitError
from sysid_ros.fit.differences import ResidualLike
from sysid_ros.fit.noise import JointPrior
from sysid_ros.fit.solver import (
    PROMISED,
    RESERVED,
    ROUGH_TOLERANCE,
    FitLog,
    Solution,
    SolverSettings,
    attempt,
    solve,
)
from sysid_ros.model.targets import Unknown
from sysid_ros.signals import Trajectory
from sysid_ros.simulation.simulator import Simulator

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FitContext:
    """What all stages of a fit share."""

    # Returns what simulates unknowns and sequences.
    make_simulator: Callable[[Sequence[Unknown], Sequence[Trajectory]], Simulator]
    settings: SolverSettings  # solver, loss and the limit of iterations over all stages together
    log: FitLog  # is told of every iteration on all data
    # Sensor name to the standard deviation that is known and not estimated.
    known_noise: Mapping[str, float] = field(default_factory=dict)
    memory: JointPrior | None = None  # what is known of some unknowns together
    led: bool = False  # whether nominal values are where part of the data led to
    cancel: threading.Event | None = None  # ends the fit when it is set
    opened: ExitStack = field(default_factory=ExitStack)  # closes the simulators when it is left

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit of time."""
        return math.isfinite(self.settings.deadline)

    @property
    def is_late(self) -> bool:
        """Whether there is no time for another iteration on all data and what follows it."""
        return not self.has_time(0.0)

    @property
    def may_go_on(self) -> bool:
        """Whether neither the limit of iterations nor that of time is reached."""
        return self.log.taken < self.settings.max_iterations and not self.is_late

    def has_time(self, seconds: float) -> bool:
        """Return whether something may take so long before what follows it."""
        return time.monotonic() + seconds + RESERVED * self.log.longest <= self.settings.deadline

    @property
    def settings_left(self) -> SolverSettings:
        """The settings with the iterations that are left, one at least, and what one may take."""
        left = max(self.settings.max_iterations - self.log.taken, 1)
        return dataclasses.replace(self.settings, max_iterations=left, longest=self.log.longest)

    def simulator(
        self,
        unknowns: Sequence[Unknown],
        sequences: Sequence[Trajectory],
        opened: ExitStack | None = None,
    ) -> Simulator:
        """Return what simulates sequences; another stack may close it than the fit's own."""
        return (opened or self.opened).enter_context(self.make_simulator(unknowns, sequences))

    def solve(
        self,
        residuals: ResidualLike,
        start: Array,
        tolerance: float | None = None,
        known: Solution | None = None,
    ) -> Solution:
        """Solve with the iterations that are left; see `solver.solve`.

        Without a tolerance the solution is a rough one, as another one with other weights follows.
        """
        options = self._rough if tolerance is None else {**self._options, 'tolerance': tolerance}
        return solve(residuals, start, known=known, **options)

    def attempt(
        self, residuals: ResidualLike, start: Array, begun: Solution | None = None
    ) -> Solution | None:
        """Return a rough solution straight from (p,) values; None where it cannot begin."""
        found = attempt(residuals, start, begun=begun, **self._rough)
        return None if isinstance(found, FitError) else found

    @property
    def rough_settings(self) -> SolverSettings:
        """The settings that are left for a solution that another one with other weights follows."""
        return dataclasses.replace(self.settings_left, promised=PROMISED)

    @property
    def _rough(self) -> dict[str, Any]:
        return {
            **self._options,
            'settings': self.rough_settings,
            'tolerance': ROUGH_TOLERANCE,
        }

    @property
    def _options(self) -> dict[str, Any]:
        return {'settings': self.settings_left, 'cancel': self.cancel, 'observe': self.log}

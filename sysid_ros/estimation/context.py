# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What all stages of a fit share: the problem, the settings, and the log of iterations."""

from __future__ import annotations

import dataclasses
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sysid_ros.estimation.residuals import Residuals
from sysid_ros.rollout.prediction import make_simulator

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    import mujoco

    from sysid_ros.estimation.priors import JointPrior
    from sysid_ros.estimation.solver.least_squares import SolverSettings
    from sysid_ros.estimation.solver.problem import Iteration
    from sysid_ros.model.unknown import Unknown
    from sysid_ros.rollout.drives import Drives
    from sysid_ros.rollout.simulation import Simulator
    from sysid_ros.signals.trajectory import Trajectory


class FitLog:
    """Counts and shows iterations, and keeps those that led to the result.

    Attributes:
        trace: What is kept, counted from 0.
    """

    def __init__(self, limit: int, observe: Callable[[Iteration], None] | None) -> None:
        self._limit = limit
        self._observe = observe
        self._count = 0
        self._started = time.monotonic()
        self.trace: list[Iteration] = []

    @property
    def seconds(self) -> float:
        """Wall time so far."""
        return time.monotonic() - self._started

    def __call__(self, iteration: Iteration) -> None:
        """Show and keep an iteration."""
        shown = iteration._replace(number=self._count, seconds=self.seconds, limit=self._limit)
        self._count += 1
        self.trace.append(shown._replace(number=len(self.trace)))
        if self._observe is not None:
            self._observe(shown)

    def replace(self, trace: Sequence[Iteration]) -> None:
        """Keep these instead: those of the best of several starts."""
        self.trace = [
            iteration._replace(number=number, limit=self._limit)
            for number, iteration in enumerate(trace)
        ]


@dataclass(frozen=True)
class FitContext:
    """What all stages of a fit share.

    Attributes:
        model: The nominal model.
        settings: Solver, loss and the limit of iterations over all stages together.
        log: Is told of every iteration on all data.
        known_noise: Sensor name to the standard deviation that is known and not estimated.
        memory: What is known of some unknowns together.
        drives: Which actuators are driven by laws that MuJoCo lacks.
        threads: Simulation threads; 0 means one per core.
        cancel: Ends the fit when it is set.
        opened: Closes the simulators when it is left.
    """

    model: mujoco.MjModel | mujoco.MjSpec
    settings: SolverSettings
    log: FitLog
    known_noise: Mapping[str, float] = field(default_factory=dict)
    memory: JointPrior | None = None
    drives: Drives | None = None
    threads: int = 0
    cancel: threading.Event | None = None
    opened: ExitStack = field(default_factory=ExitStack)

    @property
    def has_iterations(self) -> bool:
        """Whether the limit of iterations is not reached."""
        return len(self.log.trace) < self.settings.max_iterations

    @property
    def settings_left(self) -> SolverSettings:
        """The settings with the iterations that are left, one at least."""
        left = max(self.settings.max_iterations - len(self.log.trace), 1)
        return dataclasses.replace(self.settings, max_iterations=left)

    def simulator(
        self,
        unknowns: Sequence[Unknown],
        sequences: Sequence[Trajectory],
        opened: ExitStack | None = None,
    ) -> Simulator:
        """Return what simulates candidates.

        Args:
            unknowns: What a candidate's values are.
            sequences: What is simulated.
            opened: Closes it instead of the fit's own stack.
        """
        made = make_simulator(self.model, unknowns, sequences, self.threads, drives=self.drives)
        return (opened or self.opened).enter_context(made)

    def residuals(self, simulator: Simulator, noise: Mapping[str, float]) -> Residuals:
        """Return the residuals of what is simulated, by sensors' noise."""
        return Residuals(simulator, noise, memory=self.memory)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Who watches a calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sysid_ros.estimation.solver.problem import Iteration


class Observer(Protocol):
    """Someone who watches a calibration."""

    def stage(self, text: str) -> None:
        """A new stage begins."""

    def iteration(self, iteration: Iteration) -> None:
        """The solver made an iteration."""


class Nobody:
    """Nobody watches."""

    def stage(self, text: str) -> None:
        """Ignore it."""

    def iteration(self, iteration: Iteration) -> None:
        """Ignore it."""

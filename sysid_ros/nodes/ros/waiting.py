# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Waiting for the graph before something moves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rclpy.clock import Clock, ClockType

if TYPE_CHECKING:
    from collections.abc import Callable

    from rclpy.node import Node
    from rclpy.publisher import Publisher

#: The graph is looked at this often, s.
_LOOK_SECONDS = 0.1
#: What is still missing is logged this often, s.
_REMIND_SECONDS = 3.0
#: The subscribers of the commands must not have changed for so long, s: those of one robot are
#: discovered one after the other, and a recorder should not miss the beginning.
_SETTLE_SECONDS = 0.5


class Waiting:
    """Looks at the graph until nothing is missing and it has settled, and says what is missing."""

    def __init__(
        self,
        node: Node,
        commands: Publisher,
        missing: Callable[[], list[str]],
        begin: Callable[[], None],
    ) -> None:
        """Begin to look.

        Args:
            node: The node.
            commands: Whose subscribers must have settled.
            missing: Returns what is missing still.
            begin: Called once.
        """
        self._log = node.get_logger()
        self._commands = commands
        self._missing = missing
        self._begin = begin
        self._reminded = -_REMIND_SECONDS
        self._listeners = 0
        self._listening_since = time.monotonic()
        # Not the node's clock: the schedule is the wall clock's, also with use_sim_time.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = node.create_timer(_LOOK_SECONDS, self._look, clock=steady)

    def _look(self) -> None:
        missing = self._missing()
        now = time.monotonic()
        listeners = self._commands.get_subscription_count()
        if listeners != self._listeners:
            self._listeners, self._listening_since = listeners, now
        if missing and now - self._reminded >= _REMIND_SECONDS:
            self._reminded = now
            self._log.info(f'waiting for {" and ".join(missing)}')
        elif not missing and now - self._listening_since >= _SETTLE_SECONDS:
            self._timer.cancel()
            self._begin()

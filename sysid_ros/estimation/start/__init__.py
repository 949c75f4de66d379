# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where a fit starts."""

from sysid_ros.estimation.start.choice import CHOICES, Choice, Start, check_choice
from sysid_ros.estimation.start.initialization import (
    ROUGH_TOLERANCE,
    SOLVED_STARTS,
    FirstSolution,
    initialize,
    initialize_from,
)

__all__ = [
    'CHOICES',
    'ROUGH_TOLERANCE',
    'SOLVED_STARTS',
    'Choice',
    'FirstSolution',
    'Start',
    'check_choice',
    'initialize',
    'initialize_from',
]

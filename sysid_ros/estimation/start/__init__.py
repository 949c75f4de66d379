# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where a fit starts."""

from sysid_ros.estimation.start.initialization import (
    CHOICES,
    ROUGH_TOLERANCE,
    SOLVED_STARTS,
    FirstSolution,
    Start,
    check_choice,
    initialize,
    initialize_from,
    resume,
)

__all__ = [
    'CHOICES',
    'ROUGH_TOLERANCE',
    'SOLVED_STARTS',
    'FirstSolution',
    'Start',
    'check_choice',
    'initialize',
    'initialize_from',
    'resume',
]

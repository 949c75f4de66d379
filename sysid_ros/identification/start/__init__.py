# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where a fit starts."""

from sysid_ros.identification.start.choice import (
    CHOICES,
    Choice,
    Start,
    WindowFit,
    check_choice,
    choose,
    solve_in_windows,
)

__all__ = [
    'CHOICES',
    'Choice',
    'Start',
    'WindowFit',
    'check_choice',
    'choose',
    'solve_in_windows',
]

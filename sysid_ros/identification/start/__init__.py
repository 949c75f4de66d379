# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where a fit starts."""

from sysid_ros.identification.start.begin import ROUGH_TOLERANCE, SOLVED_STARTS, Begin, Beginning
from sysid_ros.identification.start.choice import CHOICES, Choice, Start, check_choice

__all__ = [
    'CHOICES',
    'ROUGH_TOLERANCE',
    'SOLVED_STARTS',
    'Begin',
    'Beginning',
    'Choice',
    'Start',
    'check_choice',
]

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Motions worth recording."""

from sysid_ros.workflows.excitation.drives import Drive, drives
from sysid_ros.workflows.excitation.motion import (
    Motion,
    Waypoints,
    approach,
    follow,
    format_waypoints,
    read_waypoints,
    sum_of_sines,
)

__all__ = [
    'Drive',
    'Motion',
    'Waypoints',
    'approach',
    'drives',
    'follow',
    'format_waypoints',
    'read_waypoints',
    'sum_of_sines',
]

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From columns of a bag to sequences aligned with a model."""

from sysid_ros.alignment.health import HealthFinding
from sysid_ros.alignment.pairs import Mapping, PairRole
from sysid_ros.alignment.trajectories import Alignment, Format, align, write_series

__all__ = ['Alignment', 'Format', 'HealthFinding', 'Mapping', 'PairRole', 'align', 'write_series']

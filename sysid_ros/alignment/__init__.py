# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From columns of a bag to sequences aligned with a model."""

from sysid_ros.alignment.export import Format, write_series
from sysid_ros.alignment.health import FindingKind, HealthFinding, TopicRate
from sysid_ros.alignment.mapping.pairing import map_columns
from sysid_ros.alignment.pairs import Mapping, Pair, PairRole, Unmapped
from sysid_ros.alignment.trajectories import Alignment, align

__all__ = [
    'Alignment',
    'FindingKind',
    'Format',
    'HealthFinding',
    'Mapping',
    'Pair',
    'PairRole',
    'TopicRate',
    'Unmapped',
    'align',
    'map_columns',
    'write_series',
]

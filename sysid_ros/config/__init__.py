# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One validated schema for configuration files, command-line flags and node parameters.

Each model is at once the schema of a YAML file, the source of the command line's overrides and, for
the nodes, of the declared ROS parameters: a field's description becomes the parameter's descriptor
and its limits the parameter's range.
"""

from sysid_ros.config.calibration import (
    BagSelection,
    CalibrationConfig,
    ChannelMapping,
    CheckConfig,
    DataConfig,
    Fleet,
    FleetConfig,
    GateConfig,
    MappingConfig,
    MarkerConfig,
    MemoryConfig,
    ParameterConfig,
    PriorConfig,
    Ranges,
    RobotConfig,
    SegmentsConfig,
    ServoConfig,
    SolverConfig,
    StampChoice,
    Stamps,
    StatisticsConfig,
    ThresholdsConfig,
    ValidationConfig,
)
from sysid_ros.config.files import (
    load_calibration,
    load_fleet,
    load_mapping,
    load_segments,
    load_servos,
    load_thresholds,
    make_thresholds,
    read_yaml,
    validate,
)
from sysid_ros.config.section import Section

__all__ = [
    'BagSelection',
    'CalibrationConfig',
    'ChannelMapping',
    'CheckConfig',
    'DataConfig',
    'Fleet',
    'FleetConfig',
    'GateConfig',
    'MappingConfig',
    'MarkerConfig',
    'MemoryConfig',
    'ParameterConfig',
    'PriorConfig',
    'Ranges',
    'RobotConfig',
    'Section',
    'SegmentsConfig',
    'ServoConfig',
    'SolverConfig',
    'StampChoice',
    'Stamps',
    'StatisticsConfig',
    'ThresholdsConfig',
    'ValidationConfig',
    'load_calibration',
    'load_fleet',
    'load_mapping',
    'load_segments',
    'load_servos',
    'load_thresholds',
    'make_thresholds',
    'read_yaml',
    'validate',
]

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One validated schema for configuration files, command-line flags and node parameters.

Each model is at once the schema of a YAML file, the source of the command line's overrides and, for
the nodes, of the declared ROS parameters: a field's description becomes the parameter's descriptor
and its limits the parameter's range.
"""

from sysid_ros.config.bench import PendulumBenchConfig, SimulatedServoConfig
from sysid_ros.config.calibration import (
    BagSelection,
    CalibrationConfig,
    CheckConfig,
    ParameterConfig,
    PriorConfig,
    SolverConfig,
    StampChoice,
    Stamps,
)
from sysid_ros.config.files import (
    load_calibration,
    load_mapping,
    load_segments,
    load_servo_bag,
    load_servos,
    read_yaml,
    validate,
)
from sysid_ros.config.gate import GateConfig
from sysid_ros.config.mapping import ChannelMapping, MappingConfig
from sysid_ros.config.memory import MemoryConfig
from sysid_ros.config.nodes import (
    CalibratorConfig,
    ExciterConfig,
    RecorderConfig,
    RefitConfig,
    SimulatedRobotConfig,
    Storage,
)
from sysid_ros.config.section import Section
from sysid_ros.config.segments import MarkerConfig, Ranges, SegmentsConfig
from sysid_ros.config.servo_bag import ServoBagConfig
from sysid_ros.config.servo_fit import ServoFitConfig
from sysid_ros.config.servos import ServoConfig
from sysid_ros.config.statistics import StatisticsConfig
from sysid_ros.config.validation import ValidationConfig

__all__ = [
    'BagSelection',
    'CalibrationConfig',
    'CalibratorConfig',
    'ChannelMapping',
    'CheckConfig',
    'ExciterConfig',
    'GateConfig',
    'MappingConfig',
    'MarkerConfig',
    'MemoryConfig',
    'ParameterConfig',
    'PendulumBenchConfig',
    'PriorConfig',
    'Ranges',
    'RecorderConfig',
    'RefitConfig',
    'Section',
    'SegmentsConfig',
    'ServoBagConfig',
    'ServoConfig',
    'ServoFitConfig',
    'SimulatedRobotConfig',
    'SimulatedServoConfig',
    'SolverConfig',
    'StampChoice',
    'Stamps',
    'StatisticsConfig',
    'Storage',
    'ValidationConfig',
    'load_calibration',
    'load_mapping',
    'load_segments',
    'load_servo_bag',
    'load_servos',
    'read_yaml',
    'validate',
]

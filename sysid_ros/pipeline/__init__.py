# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The whole way from bags to a result: configuration in, result out."""

from sysid_ros.identification.observer import Observer
from sysid_ros.pipeline.calibration import calibrate, identify
from sysid_ros.pipeline.problem import convert
from sysid_ros.pipeline.writing import Calibration, Identified, write

__all__ = [
    'Calibration',
    'Identified',
    'Observer',
    'calibrate',
    'convert',
    'identify',
    'write',
]

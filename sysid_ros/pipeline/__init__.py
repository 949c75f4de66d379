# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The whole way from bags to a result: configuration in, result out."""

from sysid_ros.pipeline.calibration import Calibration, calibrate, check, convert
from sysid_ros.pipeline.loading import Observer

__all__ = ['Calibration', 'Observer', 'calibrate', 'check', 'convert']

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Time series, stamps and noise scales."""

from sysid_ros.signals.mapping import SignalMapping, SignalType
from sysid_ros.signals.timeseries import InterpolationMethod, TimeSeries

__all__ = ['InterpolationMethod', 'SignalMapping', 'SignalType', 'TimeSeries']

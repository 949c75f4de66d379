# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Time series, trajectories, and setpoints between the points of commanded trajectories."""

from sysid_ros.signals.timeseries import SignalMapping, SignalType, TimeSeries

__all__ = ['SignalMapping', 'SignalType', 'TimeSeries']

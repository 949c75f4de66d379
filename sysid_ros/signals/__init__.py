# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Time series, stamps and noise scales."""

from sysid_ros.signals.timeseries import SignalType, TimeSeries

__all__ = ['SignalType', 'TimeSeries']

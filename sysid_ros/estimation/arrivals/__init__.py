# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Errors of the commands' arrival, message by message, and how a fit does without knowing them."""

from sysid_ros.estimation.arrivals.residuals import Arrivals, WithArrivals, choose_arrivals

__all__ = ['Arrivals', 'WithArrivals', 'choose_arrivals']

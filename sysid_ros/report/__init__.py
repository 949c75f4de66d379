# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""HTML and figures of a result."""

from sysid_ros.report.figures import write_figures
from sysid_ros.report.html import render_report, write_report

__all__ = ['render_report', 'write_figures', 'write_report']

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ``sysid`` command."""

from sysid_ros.cli.main import main

__all__ = ['main']

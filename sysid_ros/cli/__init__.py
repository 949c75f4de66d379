# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
# PYTHON_ARGCOMPLETE_OK (argcomplete's global completion looks for this here)
"""The ``sysid`` command."""

from sysid_ros.cli.main import main

__all__ = ['main']

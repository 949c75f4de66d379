# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The names of MuJoCo's sysid toolbox, which live in ``sysid_ros.toolbox``.

``from sysid_ros import identification as sysid`` runs code written for ``mujoco.sysid``.
"""

from sysid_ros.toolbox import *  # noqa: F403
from sysid_ros.toolbox import __all__  # noqa: F401

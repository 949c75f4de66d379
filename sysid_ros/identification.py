# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fits of models to trajectories, with intervals and verdicts.

The names of MuJoCo's sysid toolbox, which live in ``sysid_ros.toolbox``, are offered here as well:
``from sysid_ros import identification as sysid`` runs code written for ``mujoco.sysid``.
"""

from __future__ import annotations

import importlib


def __getattr__(name: str) -> object:
    """Find a name of the toolbox, which is loaded when it is first asked for."""
    toolbox = importlib.import_module('sysid_ros.toolbox')
    if name not in {'__all__', *toolbox.__all__}:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(toolbox, name)


def __dir__() -> list[str]:
    toolbox = importlib.import_module('sysid_ros.toolbox')
    return sorted({*globals(), *toolbox.__all__})

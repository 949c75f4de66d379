# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Servos: laws of motor and friction, the bench that they are fitted on, and BAM's formats.

``ServoDrive`` is a servo on joints, ``ServoJoints`` a model that they drive, ``ServoController``
one simulation of it; ``read_parameters`` reads the coefficients.
"""

from __future__ import annotations

import importlib

#: Public names and where they are defined; each is loaded when it is first asked for.
_PUBLIC = {
    'ServoController': 'sysid_ros.servos.laws.joints',
    'ServoDrive': 'sysid_ros.servos.laws.joints',
    'ServoJoints': 'sysid_ros.servos.laws.joints',
    'read_parameters': 'sysid_ros.servos.formats.parameter_file',
}


def __getattr__(name: str) -> object:
    """Find a public name."""
    if name not in _PUBLIC:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(importlib.import_module(_PUBLIC[name]), name)

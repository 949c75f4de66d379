# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where servos were: ``sysid_ros.servos`` offers these names now."""

import importlib
import sys
import warnings

_MOVED = {
    'controller': 'sysid_ros.servos.laws.joints',
    'joints': 'sysid_ros.servos.laws.joints',
    'parameter_file': 'sysid_ros.servos.formats.parameter_file',
    'servo_drive': 'sysid_ros.servos.laws.joints',
}

warnings.warn(
    'sysid_ros.actuators is sysid_ros.servos now: from sysid_ros.servos import ServoController, '
    'ServoDrive, ServoJoints, read_parameters.',
    DeprecationWarning,
    stacklevel=2,
)
for _name, _module in _MOVED.items():
    sys.modules[f'{__name__}.{_name}'] = importlib.import_module(_module)

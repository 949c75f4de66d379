# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Names that the documentation gave before servos had a room of their own still lead to them."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_documented_names_of_actuators_are_those_of_servos():
    code = (
        'from sysid_ros.actuators.controller import ServoController as a\n'
        'from sysid_ros.actuators.joints import ServoJoints as b\n'
        'from sysid_ros.actuators.parameter_file import read_parameters as c\n'
        'from sysid_ros.actuators.servo_drive import ServoDrive as d\n'
        'from sysid_ros import servos as s\n'
        'print((a, b, c, d) == '
        '(s.ServoController, s.ServoJoints, s.read_parameters, s.ServoDrive))'
    )

    done = subprocess.run(
        [sys.executable, '-W', 'error::DeprecationWarning:sysid_ros', '-c', code],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == 'True\n'

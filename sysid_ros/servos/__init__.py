# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Servos: laws of motor and friction, the bench that they are fitted on, and BAM's formats.

``ServoDrive`` is a servo on joints, ``ServoJoints`` a model that they drive, ``ServoController``
one simulation of it; ``read_parameters`` reads the coefficients.
"""

from sysid_ros.simulation.servo import read_parameters
from sysid_ros.simulation.servo_joints import ServoController, ServoDrive, ServoJoints

__all__ = ['ServoController', 'ServoDrive', 'ServoJoints', 'read_parameters']

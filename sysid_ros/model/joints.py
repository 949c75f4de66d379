# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Joints of one degree of freedom, and what drives one joint, by their types in a model.

As integers: MuJoCo's enums do not find a NumPy integer in a tuple of them.
"""

from __future__ import annotations

import mujoco

#: Hinges and slides.
SCALAR_JOINTS = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
#: Transmissions of actuators that drive one joint.
TO_JOINT = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT))

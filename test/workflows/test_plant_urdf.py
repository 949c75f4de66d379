# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A simulated robot whose model is a URDF."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sysid_ros.plant import Plant
from sysid_ros.workflows.excitation.drives import compile_driven, load_driven

FIXED = Path(__file__).parents[1] / 'data' / 'urdf' / 'fixed.urdf'
PASSIVE = """<mujoco><worldbody><body><joint name="j" axis="0 1 0"/><geom size=".1" pos=".2 0 0"/>
</body></worldbody></mujoco>"""


def test_servos_drive_the_joints_of_a_urdf() -> None:
    plant = Plant(FIXED, {'joint/lift/armature': 0.1}, rate=100.0)
    assert [(drive.joint, drive.takes_positions) for drive in plant.drives] == [
        ('lift', True),
        ('roll', True),
    ]
    model = compile_driven(load_driven(FIXED), FIXED)
    np.testing.assert_array_equal(model.actuator_gainprm, plant.model.actuator_gainprm)
    assert plant.model.joint('lift').armature[0] == 0.1


def test_an_mjcf_without_actuators_swings(tmp_path: Path) -> None:
    (tmp_path / 'pendulum.xml').write_text(PASSIVE)
    assert Plant(tmp_path / 'pendulum.xml', rate=100.0).drives == ()

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A motion that would break a limit is refused before anything moves, whatever it came from."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from sysid_ros.errors import ModelError
from sysid_ros.excitation import Waypoints, follow, rehearsal
from sysid_ros.excitation.limits import find_limits

#: Two balls of 5 cm radius on one rail, .5 m apart, each on a stiff servo.
RAIL = """
<mujoco>
  <option gravity="0 0 0"/>
  <worldbody>
    <body name="left">
      <joint name="left" type="slide" axis="1 0 0" range="-1 1" damping="{damping}"/>
      <geom size=".05" mass="1" {left}/>
    </body>
    <body name="right" pos=".5 0 0">
      <joint name="right" type="slide" axis="1 0 0" range="-1 1" damping="20"/>
      <geom size=".05" mass="1"/>
    </body>
  </worldbody>
  <actuator>
    <position name="left" joint="left" kp="100" ctrlrange="-1 1"/>
    <position name="right" joint="right" kp="100" ctrlrange="-1 1"/>
  </actuator>
</mujoco>
"""
PATH = Path('rail.xml')


def _try(*positions: float, span: float = 4.0, speed: float = 10.0, **text: object) -> None:
    """Move the left ball through positions."""
    spec = mujoco.MjSpec.from_string(RAIL.format(**{'damping': 20, 'left': ''} | text))
    model = spec.compile()
    times = np.linspace(0.0, span, len(positions))
    motion = follow(model, Waypoints(times, ('left',), np.array(positions)[:, None]), rate=100.0)
    rehearsal.rehearse(spec, PATH, motion, find_limits(model, margin=1.02, max_speed=speed))


def test_a_motion_that_keeps_all_limits_is_accepted():
    _try(0.0, -1.0, 0.35, 0.0)


def test_a_motion_from_elsewhere_is_approached_from_the_home_pose():
    _try(-0.8, -0.6)


def test_bodies_that_would_touch_are_refused():
    sentence = (
        r"^Expected a motion inside the limits of 'rail.xml', found one that breaks a limit: "
    )
    with pytest.raises(ModelError, match=sentence + r'bodies come as near as -?\d+\.\d mm\.$'):
        _try(0.0, 0.45, 0.0)


def test_bodies_that_cannot_collide_in_the_model_may_pass_each_other():
    _try(0.0, 0.8, 0.0, left='contype="0" conaffinity="0"')


def test_a_motion_that_is_too_fast_is_refused():
    with pytest.raises(ModelError, match=r"breaks a limit: velocity of 'left' at \d+ %\.$"):
        _try(0.0, -1.0, 0.0, speed=0.3)


def test_a_servo_that_overshoots_its_range_is_refused():
    with pytest.raises(ModelError, match=r"breaks a limit: position of 'left' at \d+ %\.$"):
        _try(0.0, -1.0, -1.0, span=0.4, damping=1)


def test_of_a_long_motion_the_beginning_is_looked_at(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rehearsal, 'LONGEST', 5.0)
    with pytest.raises(ModelError, match='bodies come as near'):
        _try(0.0, 0.45, *np.zeros(20), span=42.0)
    _try(*np.zeros(20), 0.45, 0.0, span=42.0)

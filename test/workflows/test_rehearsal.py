# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A motion that would break a limit is refused before anything moves, whatever it came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from sysid_ros.errors import ModelError
from sysid_ros.workflows.excitation import Waypoints, follow
from sysid_ros.workflows.excitation.design import lead_in, rehearse
from sysid_ros.workflows.excitation.drives import Limits

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
    rehearse(spec, PATH, motion, Limits(model, margin=1.02, max_speed=speed))


APART = 'contype="0" conaffinity="0"'


def test_a_motion_that_keeps_all_limits_is_accepted():
    _try(0.0, -1.0, 0.35, 0.0)
    _try(-0.8, -0.6)  # approached from the home pose
    _try(0.0, 0.8, 0.0, left=APART)


@pytest.mark.parametrize(
    ('positions', 'options', 'broken'),
    [
        ((0.0, 0.45, 0.0), {}, r'bodies come as near as -?\d+\.\d mm'),
        ((0.0, -1.0, 0.0), {'speed': 0.3}, r"velocity of 'left' at \d+ %"),
        ((0.0, -1.0, -1.0), {'span': 0.4, 'damping': 1}, r"position of 'left' at \d+ %"),
    ],
)
def test_a_motion_that_breaks_a_limit_is_refused(
    positions: tuple[float, ...], options: dict[str, Any], broken: str
):
    with pytest.raises(ModelError, match=rf"limits of 'rail.xml', .* breaks a limit: {broken}\.$"):
        _try(*positions, **options)


def _lead_in(pose: float, left: str = '') -> float:
    """Return how many seconds the way from a pose of the left ball to its home pose takes."""
    model = mujoco.MjModel.from_xml_string(RAIL.format(damping=20, left=left))
    motion = follow(model, Waypoints(np.array([0.0, 1.0]), ('left',), np.zeros((2, 1))), rate=100.0)
    whole = lead_in(model, motion, np.array([pose, 0.0]), rate=100.0)
    assert whole.commands[0, 0] == pytest.approx(pose)
    return whole.duration - motion.duration


def test_a_way_that_leads_through_another_body_is_refused():
    # .3 m at .5 m/s at most, by a quintic.
    assert _lead_in(0.3) == pytest.approx(1.875 * 0.3 / 0.5, abs=0.01)
    with pytest.raises(
        ModelError, match=r'^Expected a free way .* as near as -\d+\.\d mm on it\.$'
    ):
        _lead_in(0.8)
    assert _lead_in(0.8, left=APART) > 0


def test_a_robot_that_rests_against_something_may_leave_it():
    assert _lead_in(0.395) > 0


def test_the_way_of_what_stands_or_flies_is_not_looked_at():
    spec = mujoco.MjSpec.from_string(RAIL.format(damping=20, left=''))
    spec.body('left').add_freejoint()
    spec.delete(spec.joint('left'))
    spec.delete(spec.actuator('left'))
    model = spec.compile()
    motion = follow(
        model, Waypoints(np.array([0.0, 1.0]), ('right',), np.zeros((2, 1))), rate=100.0
    )
    pose = np.zeros(model.nq)
    pose[3], pose[-1] = 1.0, -0.8
    assert lead_in(model, motion, pose, rate=100.0).duration > motion.duration

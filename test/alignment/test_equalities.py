# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where joints start that equalities tie to measured ones."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from sysid_ros.alignment.segments import InitialState, initial_state
from sysid_ros.signals import SignalType, TimeSeries

# A crank of .08 m, a coupler of .2 m and a rocker of .1 m.
FOUR_BAR = """
<mujoco><option jacobian="{jacobian}"/><worldbody>
  <body name="crank"><joint name="crank" axis="0 1 0"/><geom size=".01" mass=".1"/>
    <body name="coupler" pos="0 0 .08"><joint name="coupler" axis="0 1 0"/>
      <geom size=".01" mass=".1"/></body></body>
  <body name="rocker" pos=".2 0 -.02"><joint name="rocker" axis="0 1 0"/>
    <geom size=".01" mass=".1"/></body></worldbody>
  <equality><connect body1="coupler" body2="rocker" anchor=".2 0 0"/></equality>
  <sensor><jointpos name="q" joint="crank"/></sensor></mujoco>
"""
FINGERS = """
<mujoco><worldbody>
  <body><joint name="left"/><geom size=".1"/></body>
  <body><joint name="right"/><geom size=".1"/></body>
  <body><joint name="third"/><geom size=".1"/></body>
  <body><joint name="loose"/><geom size=".1"/></body></worldbody>
  <tendon><fixed name="sum"><joint joint="third" coef="1"/><joint joint="right" coef=".5"/></fixed>
  </tendon>
  <equality>
    <joint joint1="right" joint2="left" polycoef=".1 -1 .5 0 0" active="{active}"/>
    <tendon tendon1="sum"/></equality>
  <sensor><jointpos name="q" joint="left"/></sensor></mujoco>
"""


def _start(model: mujoco.MjModel, position: float, velocity: float) -> InitialState:
    times = np.arange(-0.05, 0.05, 0.005)
    values = (position + velocity * times)[:, None]
    series = TimeSeries(times, values, {'q': (SignalType.MjSensor, np.array([0]))})
    return initial_state(model, [series])


@pytest.mark.parametrize('jacobian', ['dense', 'sparse'])
@pytest.mark.parametrize('angle', [-1.0, 0.4, 2.4])
def test_a_four_bar_of_which_the_crank_is_measured_starts_closed(
    jacobian: str, angle: float
) -> None:
    model = mujoco.MjModel.from_xml_string(FOUR_BAR.format(jacobian=jacobian))
    state = _start(model, angle, 2.0)
    np.testing.assert_allclose([state.qpos[0], state.qvel[0]], [angle, 2.0])
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = state.qpos, state.qvel
    mujoco.mj_forward(model, data)
    assert data.ne == 3
    np.testing.assert_allclose(data.efc_pos[:3], 0, atol=1e-9)
    np.testing.assert_allclose(data.efc_vel[:3], 0, atol=1e-9)
    # It is put together as in qpos0: the joint of coupler and rocker has not gone below the line
    # from the crank's end to the rocker's axis.
    end = data.body('coupler').xpos
    tip = end + data.body('coupler').xmat.reshape(3, 3) @ [0.2, 0, 0]
    assert np.cross(data.body('rocker').xpos - end, tip - end)[1] < 0


def test_joints_that_a_polynomial_or_a_tendon_ties_start_where_it_says() -> None:
    model = mujoco.MjModel.from_xml_string(FINGERS.format(active='true'))
    state = _start(model, 0.6, 0.5)
    right = 0.1 - 0.6 + 0.5 * 0.6**2
    np.testing.assert_allclose(state.qpos, [0.6, right, -right / 2, 0], atol=1e-9)
    speed = (-1 + 0.6) * 0.5
    np.testing.assert_allclose(state.qvel, [0.5, speed, -speed / 2, 0], atol=1e-9)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What curves say of the end of a robot, hand-checked, and of the memory of residuals."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest

from sysid_ros.results.diagnostics import SignalCurve, memory
from sysid_ros.results.summary import thinned_plots, tool_errors

ARM = """
<mujoco>
  <worldbody>
    <body name="upper"><joint name="shoulder" axis="0 1 0"/><geom size=".02" mass="1"/>
      <body name="lower" pos=".3 0 0"><joint name="elbow" axis="0 1 0"/>
        <geom size=".02" pos=".2 0 0" mass="1"/>{site}</body>
    </body>
    <body name="door"><joint name="latch" axis="0 0 1"/><geom size=".02" mass="1"/></body>
  </worldbody>
  <sensor><jointpos name="a" joint="shoulder"/>{elbow}</sensor>
</mujoco>
"""
ELBOW = '<jointpos name="b" joint="elbow"/>'
TIMES = np.arange(0.0, 1.0, 0.01)


def model(site: str = '', elbow: str = ELBOW) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(ARM.format(site=site, elbow=elbow))


def curve(
    sensor: str, before: float, after: float, sequence: str = 't', stamps: float = 0.0
) -> SignalCurve:
    measured = 0.5 * np.sin(TIMES)
    return SignalCurve(
        sequence,
        'validate',
        sensor,
        sensor,
        TIMES + stamps,
        measured,
        measured + before,
        measured + after,
        diverged=False,
    )


def test_an_error_of_the_first_joint_swings_the_whole_arm() -> None:
    """Both links are turned about the shoulder: the chord of the angle at the tool's distance."""
    (found,) = tool_errors(
        model('<site name="tcp" pos=".2 0 0"/>'), [curve('a', 0.1, 0.01), curve('b', 0.0, 0.0)]
    )
    # The distance from shoulder to tool changes with the elbow, which moves as 0.5 sin t.
    reach = np.sqrt(0.3**2 + 0.2**2 + 2 * 0.3 * 0.2 * np.cos(0.5 * np.sin(TIMES)))
    usual = float(np.sqrt(np.mean(reach**2)))
    assert (found.point, found.role, found.poses) == ('site/tcp', 'validate', 100)
    assert found.before == pytest.approx(2 * math.sin(0.05) * usual)
    assert found.after == pytest.approx(2 * math.sin(0.005) * usual)


def test_without_a_site_that_is_a_tool_it_is_the_last_body() -> None:
    site = '<site name="imu" pos="9 0 0"/>'
    (found,) = tool_errors(model(site), [curve('a', 0.0, 0.0), curve('b', 0.1, 0.0)])
    assert found.point == 'body/lower'
    assert found.before == pytest.approx(2 * math.sin(0.05) * 0.2)
    assert found.after == 0.0


def test_a_joint_on_the_way_that_is_not_measured_leaves_nothing_to_say() -> None:
    assert tool_errors(model(elbow=''), [curve('a', 0.1, 0.0)]) == ()
    assert tool_errors(model(), [curve('a', 0.1, 0.0)]) == ()
    assert tool_errors(mujoco.MjModel.from_xml_string('<mujoco/>'), []) == ()


def test_joints_with_stamps_of_their_own_are_compared_at_common_instants() -> None:
    (found,) = tool_errors(model(), [curve('a', 0.0, 0.0), curve('b', 0.1, 0.1, stamps=0.002)])
    assert found.before == pytest.approx(2 * math.sin(0.05) * 0.2, rel=1e-6)


SAMPLED = np.arange(8000) / 500.0


def _left(residual: np.ndarray) -> SignalCurve:
    zeros = np.zeros(len(residual))
    times = SAMPLED[: len(residual)]
    return SignalCurve('one', 'train', 's', 's', times, residual, zeros, zeros, diverged=False)


def test_white_noise_is_forgotten_within_the_bounds_that_are_drawn() -> None:
    found = memory(_left(np.random.default_rng(4).standard_normal(len(SAMPLED))))
    outside = np.abs(found.autocorrelation) > 1.96 / np.sqrt(found.samples)
    assert found.samples == len(SAMPLED)
    assert outside.mean() < 0.15


def test_what_decays_by_a_tenth_per_sample_is_found_to() -> None:
    rng = np.random.default_rng(5)
    residual = np.zeros(len(SAMPLED))
    for k in range(1, len(SAMPLED)):
        residual[k] = 0.9 * residual[k - 1] + rng.standard_normal()
    found = memory(_left(residual))
    steps = np.round(found.lags * 500.0)
    assert steps[0] == 1
    assert steps[-1] == 2000
    assert len(steps) <= 40
    np.testing.assert_allclose(found.autocorrelation, 0.9**steps, atol=0.12)


def test_a_constant_error_is_remembered_beyond_a_gap() -> None:
    residual = np.full(1000, 0.3)
    residual[400:410] = np.nan
    found = memory(_left(residual))
    assert found.samples == 990
    assert found.autocorrelation[0] == pytest.approx(1.0, abs=0.02)
    # So many pairs there are not.
    assert found.autocorrelation[-1] == pytest.approx(0.74, abs=0.02)


@pytest.mark.parametrize('residual', [np.zeros(100), np.full(100, np.nan), np.ones(2)])
def test_where_there_is_nothing_to_remember_there_are_no_lags(residual: np.ndarray) -> None:
    assert len(memory(_left(residual)).lags) == 0


def test_plots_are_thinned_and_their_memory_is_not() -> None:
    curve = _left(np.random.default_rng(4).standard_normal(len(SAMPLED)))
    (plot,) = thinned_plots([curve], {'s': 'rad'}, 500)
    assert len(plot.times) == 500
    assert plot.samples == 8000
    assert plot.lags[0] == pytest.approx(0.002)
    assert plot.command == ()

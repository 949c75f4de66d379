# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Messages that change a command, and how they are moved."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from sysid_ros.estimation.arrivals.messages import Messages, messages_of
from sysid_ros.rollout.runs import Run, prepare
from sysid_ros.signals.timeseries import SignalType, TimeSeries
from sysid_ros.signals.trajectory import Trajectory

MODEL = """
<mujoco>
  <worldbody><body><joint name="j"/><geom size=".1" mass="1"/></body></worldbody>
  <actuator><motor name="a" joint="j"/><motor name="b" joint="j"/></actuator>
  <sensor><jointpos name="q" joint="j"/></sensor>
</mujoco>
"""
#: Stamps and values of two actuators; the fourth message changes nothing, the last comes too late.
STAMPS = np.array([-0.05, 0.01, 0.02, 0.03, 0.04, 0.0401, 0.2])
VALUES = np.array([[0, 0], [1, 0], [1, 2], [1, 2], [3, 2], [3, 4], [5, 6]])


def run_of(stamps: NDArray[np.float64]) -> Run:
    """Return a sequence of 0.1 s with commands of two actuators."""
    model = mujoco.MjModel.from_xml_string(MODEL)
    measured = np.linspace(0.0, 0.1, 11)
    sequence = Trajectory(
        'run',
        0,
        np.zeros(1),
        np.zeros(1),
        (TimeSeries.from_columns(stamps, VALUES, ['a', 'b'], SignalType.MjCtrl),),
        (TimeSeries.from_columns(measured, measured[:, None], ['q']),),
    )
    return prepare(model, sequence)


@pytest.fixture
def run() -> Run:
    return run_of(STAMPS)


def messages(run: Run) -> Messages:
    return messages_of(run, np.array([0.005, 0.007]), 1e-4)


def test_only_messages_that_change_a_command_in_the_sequence_count(run: Run) -> None:
    found = messages(run)
    assert found.place.tolist() == [1, 2, 4, 5]
    np.testing.assert_allclose(found.effect, [0.015, 0.025, 0.045, 0.0451])
    np.testing.assert_array_equal(found.deviation, 1e-4)
    np.testing.assert_array_equal(found.times(run)[0], STAMPS)


def test_what_acts_beside_the_sequence_by_its_stamp_may_have_acted_in_it() -> None:
    # Those of -41, -5, 122 and 138 ms; the end of the last time step is at 102 ms.
    found = messages(run_of(np.array([-0.06, -0.046, -0.01, 0.03, 0.117, 0.133, 0.2])))
    assert found.place.tolist() == [2, 4]


def test_messages_are_moved_as_far_as_their_order_allows(run: Run) -> None:
    found = messages(run)
    moved = found.move(run, np.array([0.002, -0.003, 0.004, 0.5]))
    np.testing.assert_allclose(moved, np.abs(found.error), atol=1e-12)
    np.testing.assert_allclose(found.error, [0.002, -0.003, 0.004, 0.025], atol=1e-8)
    times = found.times(run)[0]
    assert np.all(np.diff(times) > 0)
    np.testing.assert_allclose(times[found.place] - STAMPS[found.place], found.error, atol=1e-15)
    # One that would come before the one before it comes right after it, and is told so.
    found.move(run, np.array([0.0, 0.0, 0.0, -0.02]))
    np.testing.assert_allclose(found.error, [0.0, 0.0, 0.0, -1e-4], atol=1e-8)
    assert np.all(np.diff(found.times(run)[0]) > 0)


def test_those_of_a_group_act_far_apart(run: Run) -> None:
    found = messages(run)
    assert [group.tolist() for group in found.apart(0.009)] == [[0, 1, 2], [3]]
    assert [group.tolist() for group in found.apart(0.05)] == [[0], [1], [2], [3]]
    found.move(run, np.array([0.009, 0.0, 0.0, 0.0]))
    assert [group.tolist() for group in found.apart(0.009)] == [[0, 2], [1, 3]]

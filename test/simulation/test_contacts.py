# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Simulations beside one that touched nothing do not look for contacts."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from builders.trajectories import measure
from sysid_ros.model.targets import make_unknowns
from sysid_ros.signals import Trajectory
from sysid_ros.simulation.simulator import Simulator

#: A ball on a slide above a floor, and a bar that swings beside both.
BALL = """
<mujoco>
  <option timestep="0.002" {option}/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 .1" {floor}/>
    <body pos="0 0 1"><joint name="drop" type="slide" axis="0 0 1" damping=".1"/>
      <geom size=".1" mass="1"/></body>
    <body pos="3 0 3"><joint name="swing" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 .2 0 0" size=".02" mass=".5"/></body>
  </worldbody>
  <sensor><jointpos name="height" joint="drop"/><jointpos name="angle" joint="swing"/></sensor>
</mujoco>
"""
LANDS, FLIES = 0, 1
EVERY = [np.zeros(1, dtype=np.int64)] * 2


def ball(floor: str = '', option: str = '') -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(BALL.format(floor=floor, option=option))


@pytest.fixture
def falls() -> list[Trajectory]:
    """One fall that ends on the floor, and one that is over before."""
    return [
        measure(ball(), name=name, times=np.arange(0, end, 0.01), start=([0, 0.3], [0, 0]))
        for name, end in (('lands', 0.6), ('flies', 0.3))
    ]


def simulated(
    simulator: Simulator, x: list[float], beside: list[float] | None = None
) -> list[NDArray[np.float64]]:
    """Return what sensors read in each sequence."""
    found = {
        block.run: block.rows['sensordata'][0].copy()
        for block in simulator.simulate(
            np.array([x]), EVERY, None if beside is None else np.array(beside)
        )
    }
    return [found[run] for run in sorted(found)]


def damped(falls: list[Trajectory], model: mujoco.MjModel | None = None) -> Simulator:
    model = model or ball()
    unknowns = make_unknowns('joint/drop/damping', model, bounds=(0, 50))
    return Simulator(model, unknowns, falls, threads=1)


def test_beside_a_point_all_numbers_are_the_same(falls: list[Trajectory]) -> None:
    with damped(falls) as simulator:
        alone = simulated(simulator, [0.100001])
        simulated(simulator, [0.1])
        beside = simulated(simulator, [0.100001], beside=[0.1])
    for each, other in zip(alone, beside, strict=True):
        np.testing.assert_array_equal(each, other)
    assert alone[LANDS][-1, 0] > -0.95  # rests on the floor


def test_only_what_touched_nothing_passes_through_the_floor(falls: list[Trajectory]) -> None:
    # With so much damping nothing reaches the floor in time.
    with damped(falls) as simulator:
        simulated(simulator, [40.0])
        through = simulated(simulator, [0.1], beside=[40.0])
        simulated(simulator, [0.1])
        landed = simulated(simulator, [0.1], beside=[0.1])
    assert through[LANDS][-1, 0] < -1.3
    assert landed[LANDS][-1, 0] > -0.95


@pytest.mark.parametrize('other', [[0.1], [7.0]])
def test_a_point_that_was_not_simulated_is_not_trusted(
    falls: list[Trajectory], other: list[float]
) -> None:
    with damped(falls) as simulator:
        simulated(simulator, [40.0])
        found = simulated(simulator, [0.1], beside=other)
    assert found[LANDS][-1, 0] > -0.95


def test_other_sequences_of_the_same_simulator_know_nothing(falls: list[Trajectory]) -> None:
    with damped(falls) as simulator:
        simulated(simulator, [40.0])
        found = simulated(simulator.of(falls), [0.1], beside=[40.0])
    assert found[LANDS][-1, 0] > -0.95

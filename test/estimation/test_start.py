# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The start that is used is the one of use, and the fit says which."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest

from builders.trajectories import measure, sweep
from sysid_ros.estimation.context import FitContext
from sysid_ros.estimation.noise import estimate_noise
from sysid_ros.estimation.solver import FitLog, SolverSettings
from sysid_ros.estimation.start import Start, choose
from sysid_ros.model.unknown import make_unknowns
from sysid_ros.signals.trajectory import Trajectory

MODEL = mujoco.MjModel.from_xml_string(
    """<mujoco><option timestep=".002" integrator="implicitfast"/><worldbody><body>
    <inertial mass="1" pos=".1 0 -.2" diaginertia=".02 .02 .02"/>
    <joint name="j" axis="0 1 0" armature=".1" damping=".2"/></body></worldbody>
    <actuator><motor name="a" joint="j"/></actuator>
    <sensor><jointpos name="j_position" joint="j"/></sensor></mujoco>"""
)
PATHS = ('joint/j/armature', 'joint/j/damping')


@pytest.fixture(scope='module')
def runs() -> tuple[Trajectory, ...]:
    return tuple(
        measure(
            MODEL,
            name=f'run {seed}',
            commands=sweep('a', amplitude=size),
            noise={'j_position': 1e-4},
            seed=seed,
        )
        for seed, size in enumerate((2.0, -1.5))
    )


def chosen(runs: tuple[Trajectory, ...], choice: Any, **options: Any) -> Start:
    unknowns = [p for path in PATHS for p in make_unknowns(path, MODEL, **options)]
    context = FitContext(MODEL, SolverSettings(), FitLog(None), threads=1)
    with context.opened:
        simulator = context.simulator(unknowns, runs)
        residuals = context.residuals(simulator, estimate_noise(simulator.runs))
        return choose(context, residuals, choice)


def test_values_that_are_near_stay(runs: tuple[Trajectory, ...]) -> None:
    start = chosen(runs, 'auto')
    assert start.name == 'nominal'
    np.testing.assert_array_equal(start.x, [0.1, 0.2])


def test_values_that_are_far_give_way_to_the_regression(runs: tuple[Trajectory, ...]) -> None:
    start = chosen(runs, 'auto', initial=3.0)
    assert start.name == 'regression'
    assert not start.rough
    np.testing.assert_allclose(start.x, [0.1, 0.2], rtol=0.05)


def test_what_was_asked_for_is_done(runs: tuple[Trajectory, ...]) -> None:
    assert chosen(runs, 'nominal', initial=3.0).name == 'nominal'
    assert chosen(runs, 'regression').name == 'regression'
    assert chosen(runs, 'windows').rough

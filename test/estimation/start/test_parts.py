# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Long recordings are begun on windows from all over them, in the time that there is."""

from __future__ import annotations

import time

import mujoco
import numpy as np
import pytest

from builders.trajectories import measure, sweep
from sysid_ros.estimation.context import FitContext
from sysid_ros.estimation.noise import estimate_noise
from sysid_ros.estimation.solver.solver import FitLog, SolverSettings
from sysid_ros.estimation.start.initialization import initialize
from sysid_ros.model.unknown import make_unknowns
from sysid_ros.signals.trajectory import Trajectory

SERVO = mujoco.MjModel.from_xml_string(
    """<mujoco><option timestep=".01" integrator="implicitfast"/><worldbody><body>
    <inertial mass="1" pos=".1 0 -.2" diaginertia=".02 .02 .02"/>
    <joint name="j" axis="0 1 0" armature=".1" damping=".2"/></body></worldbody>
    <actuator><position name="a" joint="j" kp="20" kv="1"/></actuator>
    <sensor><jointpos name="j_position" joint="j"/></sensor></mujoco>"""
)
TRUTH = (20.0, 1.0)


@pytest.fixture(scope='module')
def long() -> tuple[Trajectory, ...]:
    return tuple(
        measure(
            SERVO,
            name=f'run {seed}',
            times=np.arange(0.0, 110.0, 0.02),
            commands=sweep('a', amplitude=0.5 + 0.1 * seed, duration=110.0),
            noise={'j_position': 1e-3},
            seed=seed,
        )
        for seed in range(4)
    )


@pytest.mark.parametrize(('seconds', 'stages'), [(1e6, 2), (0.0, 1)])
def test_parts_lead_near_and_leave_the_time_for_the_whole(
    long: tuple[Trajectory, ...], seconds: float, stages: int
) -> None:
    unknowns = [
        own
        for path, initial in (('actuator/a/kp', 35.0), ('actuator/a/kv', 3.0))
        for own in make_unknowns(path, SERVO, initial=initial)
    ]
    told: list[str] = []
    settings = SolverSettings(deadline=time.monotonic() + seconds)
    context = FitContext(SERVO, settings, FitLog(None, told.append))
    with context.opened:
        simulator = context.simulator(unknowns, long)
        residuals = context.residuals(simulator, estimate_noise(simulator.runs))
        first = initialize(context, residuals, 'nominal')
    assert sum(text.startswith('starting on') for text in told) == stages
    assert (first.solution.status == 'time') == (seconds == 0.0)
    if seconds:
        np.testing.assert_allclose(first.solution.x, TRUTH, rtol=0.01)

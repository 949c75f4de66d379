# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Columns that hardly touch each other share simulations."""

from __future__ import annotations

import mujoco
import numpy as np

from builders.trajectories import measure, sweep
from sysid_ros.fit.differences import Differences
from sysid_ros.fit.fit import FitOptions, fit
from sysid_ros.fit.residuals import Residuals
from sysid_ros.model.targets import Unknown, make_unknowns
from sysid_ros.simulation.simulator import Simulator


def rods(stand: str) -> mujoco.MjModel:
    """Return four driven rods, on a body that turns itself or stands."""
    arms = ''.join(
        f'<body pos="{k / 10} 0 0"><joint name="j{k}" axis="0 1 0" damping="0.3" armature="0.02"/>'
        '<geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.02" mass="1"/></body>'
        for k in range(4)
    )
    drives = ''.join(f'<position name="a{k}" joint="j{k}" kp="20"/>' for k in range(4))
    sensors = ''.join(f'<jointpos name="q{k}" joint="j{k}"/>' for k in range(4))
    return mujoco.MjModel.from_xml_string(
        '<mujoco><option timestep="0.002" integrator="implicitfast">'
        '<flag contact="disable"/></option>'
        f'<worldbody><body>{stand}<geom size="0.1" mass="0.1"/>{arms}</body></worldbody>'
        f'<actuator>{drives}</actuator><sensor>{sensors}</sensor></mujoco>'
    )


ALONE, TOGETHER = rods(''), rods('<joint name="base" axis="0 1 0" damping="0.1"/>')
NAMES = [f'a{k}' for k in range(4)]


def unknowns(model: mujoco.MjModel) -> list[Unknown]:
    patterns = ('joint/j*/damping', 'actuator/*/kp')
    return [u for pattern in patterns for u in make_unknowns(pattern, model, bounds=(0.01, 100))]


def residuals(model: mujoco.MjModel) -> Residuals:
    runs = [measure(model, commands=sweep(*NAMES), noise=dict.fromkeys(SENSORS, 0.001))]
    return Residuals(
        Simulator(model, unknowns(model), runs, threads=1), dict.fromkeys(SENSORS, 0.001)
    )


SENSORS = [f'q{k}' for k in range(4)]


def simulated(own: Residuals, differences: Differences, x: np.ndarray) -> tuple[np.ndarray, int]:
    """Return a Jacobian and how many simulations of moved candidates it took."""
    before = own.evaluations
    base = own(x[None])[:, 0]
    found = differences.at(x, base).jacobian
    return found, own.evaluations - before - 1


def test_what_joints_on_a_stand_do_is_told_in_two_simulations() -> None:
    own = residuals(ALONE)
    x = np.array([unknown.nominal for unknown in own.unknowns])
    differences = Differences(own)
    _, first = simulated(own, differences, x)
    each, second = simulated(own, differences, x)  # the first steps are too short to tell
    shared, third = simulated(own, differences, x)
    assert (first, second, third) == (8, 8, 2)
    assert differences.shared
    norms = np.linalg.norm(each, axis=0)
    assert np.max(np.linalg.norm(shared - each, axis=0) / norms) < 1e-3


def test_joints_that_move_each_other_share_nothing() -> None:
    own = residuals(TOGETHER)
    x = np.array([unknown.nominal for unknown in own.unknowns])
    differences = Differences(own)
    assert [simulated(own, differences, x)[1] for _ in range(3)] == [8, 8, 8]
    assert not differences.shared


def test_a_fit_ends_with_columns_of_their_own() -> None:
    truth = {'joint/j0/damping': 0.5, 'joint/j2/damping': 0.2, 'actuator/a1/kp': 15.0}
    noise = dict.fromkeys(SENSORS, 0.002)
    runs = [measure(ALONE, truth, commands=sweep(*NAMES), noise=noise, seed=3)]
    found = fit(ALONE, unknowns(ALONE), runs, options=FitOptions(threads=1))
    assert found.solution.success
    assert found.solution.differences is not None
    assert not found.solution.differences.shared
    values = dict(zip((u.name for u in found.parameters), found.solution.x, strict=True))
    for name, value in truth.items():
        np.testing.assert_allclose(values[name], value, rtol=0.03)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fits that begin on part of the data."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from builders.models import Drive, rod
from builders.trajectories import measure, sweep
from sysid_ros.estimation.noise import estimate_noise
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver.solver import solve
from sysid_ros.estimation.solver.staging import PARTS, parts_of, solve_in_stages
from sysid_ros.model.unknown import make_unknowns
from sysid_ros.rollout.simulation import Simulator

ARM = rod(timestep=0.002, damping=0.3, armature=0.01, drive=Drive.MOTOR)
TRUTH = {'joint/j/damping': 0.8, 'joint/j/armature': 0.1}
MODEL = mujoco.MjModel.from_xml_string(ARM)


def residuals(count: int = 1, duration: float = 2.0) -> tuple[Residuals, np.ndarray]:
    unknowns = [u for path in TRUTH for u in make_unknowns(path, MODEL, bounds=(0.001, 5))]
    runs = [
        measure(
            MODEL,
            TRUTH,
            name=str(seed),
            times=np.arange(0, duration, 0.004),
            commands=sweep('a', amplitude=2.0 + seed),
            noise={'q': 0.01, 'v': 0.1},
            seed=seed,
        )
        for seed in range(count)
    ]
    simulator = Simulator(MODEL, unknowns, runs, threads=2)
    made = Residuals(simulator, estimate_noise(simulator.runs))
    return made, np.array([unknown.nominal for unknown in unknowns])


@pytest.mark.slow
@pytest.mark.parametrize('count', [1, 6])
def test_the_optimum_is_that_of_all_data(count: int) -> None:
    whole, start = residuals(count)
    plain = solve(residuals(count)[0], start, tolerance=2e-5)
    staged = solve_in_stages(whole, start, tolerance=2e-5)
    spread = np.sqrt(np.diag(np.linalg.inv(plain.jacobian.T @ plain.jacobian)))
    assert np.max(np.abs(staged.x - plain.x) / spread) < 1e-4
    assert staged.residual.shape == plain.residual.shape
    assert staged.success


def test_few_data_are_fitted_at_once() -> None:
    few, start = residuals(1, 0.1)
    assert parts_of(few) == []
    assert all(entry.jacobian != PARTS for entry in solve_in_stages(few, start).trace)

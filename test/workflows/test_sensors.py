# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From a bag with an IMU and a wrench to how these are mounted and what the wrist carries."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from builders.bag_columns import Columns
from builders.sensor_arm import TIMES, arm, bag, record
from sysid_ros.alignment.pairing import map_columns
from sysid_ros.alignment.trajectories import align
from sysid_ros.fit.fit import FitOptions
from sysid_ros.model.inertia import Inertial, theta_from_body
from sysid_ros.model.targets import make_unknowns
from sysid_ros.uncertainty.inference import identify

#: Standard deviation of the noise of each sensor.
NOISE = {
    'pan_pos': 2e-4,
    'lift_pos': 2e-4,
    'gyro': 2e-3,
    'acc': 0.03,
    'force': 0.02,
    'torque': 2e-3,
    'tilt': 3e-4,
}
PAYLOAD = 'pos=".05 .01 -.02" mass=".9" fullinertia="9e-4 1.4e-3 1.2e-3 1e-4 -5e-5 8e-5"'


@pytest.mark.slow
def test_mounting_and_payload_are_in_their_intervals(columns: Columns) -> None:
    truth, rng = arm('euler=".4 -.2 .9"', PAYLOAD), np.random.default_rng(3)
    site, tool = truth.site('imu').id, truth.body('tool').id
    truth.site_pos[site] += [0.02, -0.01, 0.03]
    nominal = arm()
    seen = record(truth)
    for name, size in NOISE.items():
        seen[name] = seen[name] + rng.normal(0, size, seen[name].shape)
    recorded = bag(columns, seen, gyro=180 / np.pi)
    (run,) = align(recorded, nominal, map_columns(recorded, nominal, 'auto'), 'auto').sequences
    assert sum(series.data.shape[1] for series in run.measurements) == 2 + 4 * 3 + 3
    assert len(run.measurements[0].times) == len(TIMES)
    paths = 'site/imu/pos', 'site/imu/quat', 'body/tool/inertia'
    unknowns = [each for path in paths for each in make_unknowns(path, nominal)]
    found = identify(nominal, unknowns, [run], options=FitOptions(threads=1))
    turn, back = np.zeros(4), np.zeros(4)
    mujoco.mju_negQuat(back, nominal.site_quat[site])
    mujoco.mju_mulQuat(turn, back, truth.site_quat[site])
    vector = np.zeros(3)
    mujoco.mju_quat2Vel(vector, turn, 1.0)
    wanted = [*truth.site_pos[site], *vector, *theta_from_body(*Inertial.of_body(truth, tool))]
    assert len(found.intervals) == len(wanted)
    for unknown, interval, value in zip(unknowns, found.intervals, wanted, strict=True):
        assert interval.verdict == 'identified'
        # Of sixteen intervals one may miss, but not by much.
        middle, half = (interval.low + interval.high) / 2, (interval.high - interval.low) / 2
        assert abs(value - middle) < 1.6 * half
        assert half < (0.01 if unknown.name.startswith('site') else 0.4)

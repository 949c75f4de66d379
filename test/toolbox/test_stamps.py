# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A shift of the measurements is found where there is one, and only there."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import mujoco
import numpy as np
import pytest

from builders.models import rod
from builders.trajectories import measure, sweep
from sysid_ros.fit.residuals import Residuals
from sysid_ros.fit.solver import solve
from sysid_ros.model.targets import make_unknowns
from sysid_ros.simulation.simulator import Simulator
from sysid_ros.toolbox.optimize import StampShift, find_shift
from sysid_ros.toolbox.timeseries import TimeSeries

STEP = 0.002
NOISE = {'q': 1e-3, 'v': 1e-2}
MODEL = mujoco.MjModel.from_xml_string(rod(timestep=STEP, damping=0.3, armature=0.01))
TARGETS = ('joint/j/armature', 'joint/j/damping')
DELAY = 'actuator/*/delay'


def shifted(
    late: Sequence[float],
    *,
    noise: dict[str, float] | None = None,
    seed: int = 0,
    targets: Sequence[str] = TARGETS,
) -> StampShift:
    """Fit runs whose measurements are late by so many seconds each, and look for the shift."""
    unknowns = [u for target in targets for u in make_unknowns(target, MODEL, initial=0.01)]
    runs = []
    for number, own in enumerate(late):
        run = measure(
            MODEL,
            name=str(number),
            commands=sweep('a', amplitude=1.0 + number),
            noise=noise,
            seed=10 * seed + number,
        )
        (series,) = run.measurements
        moved = TimeSeries(series.times + own, series.data, series.signal_mapping)
        runs.append(dataclasses.replace(run, measurements=(moved,)))
    residuals = Residuals(Simulator(MODEL, unknowns, runs, threads=1), NOISE)
    end = solve(residuals, np.array([u.nominal for u in unknowns]))
    found = find_shift(residuals, end.x, end.jacobian)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ('late', 'noise', 'told'),
    [
        ([STEP], None, '-1 time steps'),
        ([STEP], NOISE, '-1 time steps'),
        ([0.0007] * 2, NOISE, 'sensor/*/delay'),
        ([0.0131] * 2, NOISE, 'sensor/*/delay'),
        ([0.0313] * 2, NOISE, 'sensor/*/delay'),
    ],
)
def test_late_stamps_are_measured_and_told(
    late: list[float], noise: dict[str, float] | None, told: str
) -> None:
    found = shifted(late, noise=noise)
    assert found.significant
    # The parameters' answer is taken to be linear, which that to a large shift is not.
    bent = 0.02 if late[0] == STEP else 0.12
    assert found.seconds == pytest.approx(-late[0], abs=3 * found.error + bent * late[0])
    assert told in found.sentence(STEP)


@pytest.mark.slow
def test_right_stamps_raise_no_alarm() -> None:
    found = [shifted([0.0, 0.0], noise=NOISE, seed=seed) for seed in range(20)]
    assert not any(each.significant for each in found)
    assert {each.sentence(STEP) for each in found} == {''}


def test_a_parameter_that_acts_like_a_shift_leaves_nothing_to_find() -> None:
    assert shifted([0.004], noise=NOISE).significant
    assert not shifted([0.004], noise=NOISE, targets=(*TARGETS, DELAY)).significant

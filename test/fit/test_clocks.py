# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A clock of states that is not that of the commands is named, and intervals allow for it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from builders.models import rod
from builders.trajectories import measure, sweep
from sysid_ros.fit.fit import FitOptions
from sysid_ros.model.targets import make_unknowns
from sysid_ros.signals import TimeSeries
from sysid_ros.uncertainty.inference import Inference, identify

Clock = Callable[[NDArray[np.float64]], NDArray[np.float64]]

pytestmark = pytest.mark.slow

MODEL = mujoco.MjModel.from_xml_string(rod(timestep=0.005, damping=0.3, armature=0.05))
TRUTH = {'joint/j/armature': 0.08, 'joint/j/damping': 0.5, 'actuator/a/kp': 12.0}
NOISE = {'q': 1e-3, 'v': 1e-2}
SECONDS = 10.0


def found(clocks: Sequence[Clock]) -> Inference:
    """Fit recordings whose states are stamped by clocks of their own."""
    # No sample is where a time step ends.
    times = np.arange(0.01, SECONDS, 1 / 97)
    runs = []
    for number, clock in enumerate(clocks):
        run = measure(
            MODEL,
            TRUTH,
            name=f'run_{number}',
            times=times,
            commands=sweep('a', amplitude=0.4 + 0.1 * number, duration=SECONDS),
            noise=NOISE,
            seed=number,
        )
        (series,) = run.measurements
        moved = TimeSeries(clock(series.times), series.data, series.signal_mapping)
        runs.append(dataclasses.replace(run, measurements=(moved,)))
    unknowns = [own for path in TRUTH for own in make_unknowns(path, MODEL)]
    return identify(MODEL, unknowns, runs, options=FitOptions(threads=1)).inference


def right(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Stamp when samples were taken."""
    return times


def held(told: Inference) -> list[bool]:
    """Return which intervals hold the truth."""
    return [
        own.low <= value <= own.high
        for own, value in zip(told.intervals, TRUTH.values(), strict=False)
    ]


def test_one_clock_is_not_taken_for_two() -> None:
    for clocks in ([right], [right] * 3):
        assert not any('clock' in lack.title for lack in found(clocks).lacking)


@pytest.mark.parametrize('ppm', [-500.0, -100.0, 100.0, 500.0])
def test_a_clock_that_drifts_is_named_with_its_rate_and_intervals_hold_the_truth(
    ppm: float,
) -> None:
    told = found([lambda times: times * (1 + 1e-6 * ppm)])
    # That clocks agreed when it began makes a delay of the drift half-way, too.
    assert "a clock drift of 'run_0'" in [lack.title for lack in told.lacking]
    (note,) = (note for note in told.notes if note.startswith("Stamps of 'run_0' run"))
    said = re.search(r'run (fast|slow) by (\S+) ± (\S+) ppm against its commands: stamp ', note)
    assert said is not None
    way, size, error = said.groups()
    assert way == ('fast' if ppm > 0 else 'slow')
    assert abs(float(size) - abs(ppm)) < 4 * float(error)
    assert all(held(told))


@pytest.mark.parametrize('late', [-0.002, 0.005])
def test_the_one_recording_whose_stamps_are_late_is_named(late: float) -> None:
    told = found([right, lambda times: times + late, right])
    assert told.lacking[0].title == "a clock offset of 'run_1'"
    assert any(note.startswith("Stamps of 'run_1' are ") for note in told.notes)
    assert all(held(told))
    armature = told.intervals[0]
    assert armature.high - armature.low > 3 * (armature.noise_high - armature.noise_low)

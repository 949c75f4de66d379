# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is predicted of recordings, and how far off it may be."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from builders.models import Drive, rod
from builders.trajectories import measure
from sysid_ros.fit.fit import FitOptions
from sysid_ros.model.targets import make_unknowns
from sysid_ros.signals import Trajectory
from sysid_ros.uncertainty.inference import Identification, identify
from sysid_ros.workflows.predictions import Predictor, deviations

TRUTH = {'joint/j/damping': 0.15, 'joint/j/armature': 0.08}
NOISE = {'q': 0.02, 'v': 0.1}
DRAWS = 15


@pytest.fixture(scope='module')
def spec() -> mujoco.MjSpec:
    return mujoco.MjSpec.from_string(
        rod(timestep=0.005, damping=0.1, armature=0.05, drive=Drive.MOTOR)
    )


def fitted(spec: mujoco.MjSpec, training: Trajectory) -> Identification:
    model = spec.compile()
    unknowns = [u for path in TRUTH for u in make_unknowns(path, model, bounds=(0.01, 0.5))]
    return identify(
        spec, unknowns, [training], options=FitOptions(noise=NOISE, start='nominal', threads=1)
    )


def test_predictions_are_off_by_as_much_as_their_deviations_say(spec: mujoco.MjSpec) -> None:
    model = spec.compile()
    times = np.arange(0.0, 4.0, 0.02)
    unseen = measure(model, TRUTH, name='unseen', times=times, start=([1.8], [0.0]))
    true = unseen.measurements[0].matrix
    squares, held = [], []
    rng = np.random.default_rng(0)
    for seed in range(DRAWS):
        training = measure(model, TRUTH, start=([1.0], [0.0]), noise=NOISE, seed=seed)
        found = fitted(spec, training)
        predictor = Predictor(spec, found.parameters, found.solution.x, 1)
        (predicted,) = predictor.predict([unseen])
        ((off,),) = deviations(found, predictor, [unseen], [predicted])
        error = predicted.channels[0][0] - true
        late = times > 1.0  # starts are the same, whatever the parameters
        squares.append(np.mean((error[late] / off[late]) ** 2))
        sigma = np.array([NOISE[name] for name in unseen.measurements[0].names])
        measured = true + sigma * rng.standard_normal(true.shape)
        inside = np.abs(measured - true - error) <= 1.96 * np.hypot(off, sigma)
        held.append(np.mean(inside))
    # Of two parameters, 15 draws know the mean of the squares to about a third.
    assert 0.5 < np.mean(squares) < 1.8
    assert np.mean(held) == pytest.approx(0.95, abs=0.02)

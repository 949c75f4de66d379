# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Predictions are as far off as the covariance of the parameters says."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import mujoco
import numpy as np
import pytest

from builders.models import Drive, rod
from builders.trajectories import Measure
from sysid_ros.identification import bands
from sysid_ros.identification.bands import deviations
from sysid_ros.identification.fit import Fit, fit
from sysid_ros.model.unknown import make_unknowns
from sysid_ros.rollout.prediction import predict, predict_each
from sysid_ros.signals.trajectory import Trajectory

TRUTH = {'joint/j/damping': 0.15, 'joint/j/armature': 0.08}
NOISE = {'q': 0.02, 'v': 0.1}
DRAWS = 15


@pytest.fixture(scope='module')
def spec() -> mujoco.MjSpec:
    return mujoco.MjSpec.from_string(
        rod(timestep=0.005, damping=0.1, armature=0.05, drive=Drive.MOTOR)
    )


def fitted(spec: mujoco.MjSpec, training: Trajectory) -> Fit:
    model = spec.compile()
    unknowns = [u for path in TRUTH for u in make_unknowns(path, model, bounds=(0.01, 0.5))]
    return fit(spec, unknowns, [training], noise=NOISE, start='nominal', threads=1)


def test_predictions_are_off_by_as_much_as_their_deviations_say(
    spec: mujoco.MjSpec, measure: Measure
) -> None:
    model = spec.compile()
    times = np.arange(0.0, 4.0, 0.02)
    unseen = measure(model, TRUTH, name='unseen', times=times, start=([1.8], [0.0]))
    true = unseen.measurements[0].matrix
    squares, held = [], []
    rng = np.random.default_rng(0)
    for seed in range(DRAWS):
        training = measure(model, TRUTH, start=([1.0], [0.0]), noise=NOISE, seed=seed)
        found = fitted(spec, training)
        ((off,),) = deviations(found, spec, [unseen], threads=1)
        (predicted,) = predict(spec, [unseen], found.parameters, found.solution.x)
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


def test_no_value_beyond_the_bounds_is_tried(
    spec: mujoco.MjSpec, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def told(*arguments: Any, **options: Any) -> Iterator[Any]:
        tried.append(arguments[3])
        return predict_each(*arguments, **options)

    monkeypatch.setattr(bands, 'predict_each', told)
    training = measure(spec.compile(), TRUTH, start=([1.0], [0.0]), noise=NOISE, seed=3)
    found = fitted(spec, training)
    near = [
        dataclasses.replace(u, min_value=x - 1e-6)
        for u, x in zip(found.parameters, found.solution.x.tolist(), strict=True)
    ]
    (each,) = deviations(
        dataclasses.replace(found, parameters=tuple(near)), spec, [training], threads=1
    )
    assert (tried[0] >= found.solution.x - 1e-6).all()
    assert (each[0][-1] > 0).all()


def test_nothing_to_predict_has_no_deviations(spec: mujoco.MjSpec, measure: Measure) -> None:
    training = measure(spec.compile(), TRUTH, start=([1.0], [0.0]), noise=NOISE)
    assert deviations(fitted(spec, training), spec, []) == []

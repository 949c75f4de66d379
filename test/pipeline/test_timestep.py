# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The time step of a fit."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from builders.fine_robot import DELAY, recorded, spec
from builders.recorded_pendulum import calibration
from sysid_ros.config import SolverConfig
from sysid_ros.identification.observer import Nobody
from sysid_ros.model.unknown import make_unknowns
from sysid_ros.pipeline import timestep
from sysid_ros.pipeline.calibration import identify
from sysid_ros.pipeline.fitting import fit_training
from sysid_ros.pipeline.problem import Problem, load
from sysid_ros.pipeline.timestep import (
    CORRECTIONS,
    corrected,
    may_correct,
    spoken_for,
    timestep_change,
    with_timestep,
)
from sysid_ros.signals.trajectory import Trajectory


@pytest.fixture(scope='module')
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    return load(calibration(tmp_path_factory.mktemp('out')), Nobody())


def test_short_recordings_are_fitted_with_the_model_s_own_step(problem: Problem) -> None:
    assert with_timestep(problem, SolverConfig()) is problem


def test_long_recordings_keep_a_step_where_a_longer_step_would_show(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timestep, '_MANY_STEPS', 1.0)
    monkeypatch.setattr(timestep, '_CHANGE', 0.1)
    assert with_timestep(problem, SolverConfig(timestep='auto')) is problem


def test_long_recordings_take_a_longer_step_that_changes_little(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = problem.model.opt.timestep
    monkeypatch.setattr(timestep, '_MANY_STEPS', 1.0)
    monkeypatch.setattr(timestep, '_CHANGE', 0.4)
    coarse = with_timestep(problem, SolverConfig(timestep='auto'))
    assert coarse.model.opt.timestep == pytest.approx(4 * own)
    assert coarse.spec.option.timestep == coarse.model.opt.timestep
    assert problem.model.opt.timestep == own == problem.spec.option.timestep


def test_a_step_that_is_asked_for_is_taken(problem: Problem) -> None:
    asked = with_timestep(problem, SolverConfig(timestep=0.0005))
    assert asked.model.opt.timestep == 0.0005


@pytest.mark.slow
@pytest.mark.usefixtures('undrawn')
def test_a_fit_with_a_longer_step_finds_the_same_and_says_what_it_changes(tmp_path: Path) -> None:
    fine = identify(calibration(tmp_path)).result
    coarse = identify(calibration(tmp_path, solver=SolverConfig(timestep=0.003))).result
    assert any('The fit simulated with a time step of' in text for text in coarse.warnings)
    assert not any('time step' in text for text in fine.warnings)
    half = np.array([(p.high - p.low) / 2 for p in fine.parameters])
    pairs = zip(coarse.parameters, fine.parameters, strict=True)
    apart = np.array([p.value - q.value for p, q in pairs])
    assert np.all(np.abs(apart) < 0.2 * half)
    # Errors are those of the model's own step.
    for one, other in zip(coarse.errors, fine.errors, strict=True):
        assert one.after == pytest.approx(other.after, rel=0.1)


def _of_the_arm(problem: Problem, trajectories: list[Trajectory], step: float) -> Problem:
    """Return a problem of the arm that integrates finely, with a model of another time step."""
    first = problem.recordings[0]
    alignment = dataclasses.replace(first.alignment, sequences=tuple(trajectories))
    model = spec(step).compile()
    targets = (
        ('joint/*/armature', (0.0, 1.0), False),
        ('joint/*/damping', (0.0, 10.0), False),
        ('joint/*/frictionloss', (0.0, 5.0), False),
        ('actuator/*/delay', (0.0, 0.05), True),
    )
    return dataclasses.replace(
        problem,
        spec=spec(step),
        model=model,
        recordings=(dataclasses.replace(first, role='train', alignment=alignment),),
        parameters=tuple(
            unknown
            for pattern, bounds, shared in targets
            for unknown in make_unknowns(pattern, model, bounds=bounds, shared=shared)
        ),
    )


@pytest.mark.slow
def test_a_fit_is_corrected_for_a_step_that_recordings_tell_from_the_model_s(
    problem: Problem,
) -> None:
    config = calibration(Path('unused'))
    solver = SolverConfig()
    arm = _of_the_arm(problem, [recorded(seed=1), recorded(seed=2)], 2e-3)
    coarse = fit_training(config, arm, Nobody(), judged=False)
    exact = spoken_for(arm, arm, coarse, solver)
    assert exact.model.opt.timestep == pytest.approx(5e-4)
    assert may_correct(arm, solver)
    assert not may_correct(arm, SolverConfig(timestep='model'))
    found = coarse
    for _ in range(CORRECTIONS):
        like = corrected(exact, arm, found, 0)
        found = fit_training(config, like, Nobody(), begun=found)
    truth = np.array([0.1, 0.05, 2.0, 1.0, 0.3, 0.2, DELAY])
    off, fixed = (np.abs(each.solution.x - truth) / truth for each in (coarse, found))
    # A longer step acts on stiff servos as less damping would.
    assert np.all(off[2:4] > 0.04)
    assert np.all(fixed[2:4] < 0.02)
    assert found.noise['elbow_effort'] == pytest.approx(0.02, rel=0.05)
    assert coarse.noise['elbow_effort'] > 0.025
    # Left of forces is what the longer step changes in them; with the shorter one, it is noise.
    assert timestep_change(arm, exact, arm, found, 0) > 0.5
    assert timestep_change(arm, arm, arm, found, 0) == 0


@pytest.mark.slow
def test_recordings_with_the_model_s_own_step_speak_for_no_other(problem: Problem) -> None:
    arm = _of_the_arm(problem, [recorded(seed=1, step=2e-3)], 2e-3)
    found = fit_training(calibration(Path('unused')), arm, Nobody(), judged=False)
    assert spoken_for(arm, arm, found, SolverConfig()) is arm

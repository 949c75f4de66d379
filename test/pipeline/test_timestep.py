# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The time step of a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from builders.recorded_pendulum import calibration
from sysid_ros.config import SolverConfig
from sysid_ros.identification.observer import Nobody
from sysid_ros.pipeline import timestep
from sysid_ros.pipeline.calibration import identify
from sysid_ros.pipeline.loading import load
from sysid_ros.pipeline.timestep import with_timestep

if TYPE_CHECKING:
    from pathlib import Path

    from sysid_ros.pipeline.loading import Problem


@pytest.fixture(scope='module')
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    return load(calibration(tmp_path_factory.mktemp('out')), Nobody())


def test_the_model_s_own_step_is_the_default(problem: Problem) -> None:
    assert with_timestep(problem, SolverConfig()) is problem


def test_auto_stays_where_a_longer_step_would_show(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timestep, '_NOMINAL_CHANGE', 0.1)
    assert with_timestep(problem, SolverConfig(timestep='auto')) is problem


def test_auto_takes_a_longer_step_that_changes_little(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = problem.model.opt.timestep
    monkeypatch.setattr(timestep, '_NOMINAL_CHANGE', 0.4)
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
    assert np.all(np.abs(apart) < half)
    # Errors are those of the model's own step.
    for one, other in zip(coarse.errors, fine.errors, strict=True):
        assert one.after == pytest.approx(other.after, rel=0.1)


class Stages(Nobody):
    """An observer that remembers what it is told."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    def stage(self, text: str) -> None:
        """Remember a stage."""
        self.stages.append(text)


@pytest.mark.slow
@pytest.mark.usefixtures('undrawn')
def test_auto_fits_again_where_what_was_found_does_not_bear_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = identify(calibration(tmp_path)).result
    monkeypatch.setattr(timestep, '_NOMINAL_CHANGE', 10.0)
    monkeypatch.setattr(timestep, '_CHANGE', 1e-9)
    config = calibration(tmp_path, solver=SolverConfig(timestep='auto'))
    told = Stages()
    again = identify(config, observer=told).result
    assert any('fitting again with a time step of' in stage for stage in told.stages)
    assert not any('time step' in text for text in again.warnings)
    for one, other in zip(again.parameters, fine.parameters, strict=True):
        assert one.initial == other.initial
        assert one.value == pytest.approx(other.value, abs=0.1 * (other.high - other.low))

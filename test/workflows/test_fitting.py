# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The fit that a configuration asks for: its noise, and its time step."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from builders.fine_robot import DELAY, recorded, spec
from builders.recorded_pendulum import calibration
from sysid_ros.config.schema import SolverConfig
from sysid_ros.errors import ConfigError
from sysid_ros.fit.context import FitContext
from sysid_ros.fit.observer import Nobody
from sysid_ros.fit.residuals import Residuals
from sysid_ros.model.targets import make_unknowns
from sysid_ros.signals import Trajectory
from sysid_ros.workflows import fitting
from sysid_ros.workflows.calibrate import identify
from sysid_ros.workflows.fitting import (
    Job,
    begun_at,
    corrected,
    fit_and_correct,
    known_noise,
    led_by_parts,
    of_pieces,
    stepped,
    thinned,
    timestep_change,
    with_timestep,
)
from sysid_ros.workflows.predictions import Fitted, simulate
from sysid_ros.workflows.problem import Problem, load


@pytest.fixture(scope='module')
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    return load(calibration(tmp_path_factory.mktemp('out')), Nobody())


def test_short_recordings_are_fitted_with_the_model_s_own_step(problem: Problem) -> None:
    assert with_timestep(problem, SolverConfig()) is problem


@pytest.mark.parametrize(('change', 'factor'), [(0.1, 1), (0.4, 2.5)])
def test_long_recordings_take_the_longest_step_that_changes_little(
    problem: Problem, monkeypatch: pytest.MonkeyPatch, change: float, factor: float
) -> None:
    own = problem.model.opt.timestep
    monkeypatch.setattr(fitting, '_CHANGE', change)
    coarse = with_timestep(problem, SolverConfig(), long=True)
    assert coarse.model.opt.timestep == pytest.approx(factor * own)
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
    config = calibration(Path('unused'), solver=SolverConfig())
    arm = _of_the_arm(problem, [recorded(seed=1), recorded(seed=2)], 2e-3)
    taken = SolverConfig(timestep='model')
    coarse = fit_and_correct(Job.begin(config.model_copy(update={'solver': taken}), Nobody()), arm)
    found = fit_and_correct(Job.begin(config, Nobody()), arm)
    assert coarse.problem.model is arm.model
    assert found.problem.model.opt.timestep == pytest.approx(5e-4)
    truth = np.array([0.1, 0.05, 2.0, 1.0, 0.3, 0.2, DELAY])
    off, fixed = (np.abs(each.fit.solution.x - truth) / truth for each in (coarse, found))
    # A longer step acts on stiff servos as less damping would.
    assert np.all(off[2:4] > 0.04)
    assert np.all(fixed[2:4] < 0.02)
    assert found.fit.noise['elbow_effort'] == pytest.approx(0.02, rel=0.05)
    assert coarse.fit.noise['elbow_effort'] > 0.025
    # Left of forces is what the longer step changes in them; with the shorter one, it is noise.
    assert _change(arm, found) > 0.5
    assert _change(arm, coarse) == 0


def _change(arm: Problem, found: Fitted) -> float:
    table = simulate(found.predictor(0), found.fit.as_arrived(arm.sequences('train'), offsets=True))
    return timestep_change(arm, found, table, 0)


@pytest.mark.slow
def test_recordings_with_the_model_s_own_step_speak_for_no_other(problem: Problem) -> None:
    arm = _of_the_arm(problem, [recorded(seed=1, step=2e-3)], 2e-3)
    config = calibration(Path('unused'), solver=SolverConfig())
    assert fit_and_correct(Job.begin(config, Nobody()), arm).problem.model is arm.model


@pytest.mark.slow
def test_what_a_longer_step_changes_speaks_for_none_that_is_shorter_than_the_model_s(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm = _of_the_arm(problem, [recorded(seed=1, step=2e-3)], 2e-3)
    config = calibration(Path('unused'), solver=SolverConfig())
    seconds = sum(each.duration for each in arm.sequences('train'))
    monkeypatch.setattr(fitting, '_MANY_STEPS', 400 * seconds)
    monkeypatch.setattr(fitting, '_PIECE', seconds / 6)
    monkeypatch.setattr(fitting, '_FEWEST_PIECES', 4)
    monkeypatch.setattr(fitting, '_LONGEST', 4e-3)
    monkeypatch.setattr(fitting, '_CHANGE', 1e3)
    found = fit_and_correct(Job.begin(config, Nobody()), arm)
    assert found.refit.model.opt.timestep == 4e-3
    assert found.problem.model is arm.model


def test_a_correction_for_the_time_step_leaves_what_was_not_compared(problem: Problem) -> None:
    arm = _of_the_arm(problem, [recorded(1.0, seed=1)], 2e-3)
    found: Any = SimpleNamespace(
        as_arrived=list,
        unknowns=arm.parameters,
        values=np.array([unknown.nominal for unknown in arm.parameters]),
        noise={'shoulder_position': 1e-4},  # the other sensors never move
    )
    fixed = corrected(stepped(arm, 5e-4), arm, found, 1)
    (before,), (after,) = (each.sequences('train') for each in (arm, fixed))
    moved = np.ptp(after.measurements[0].data - before.measurements[0].data, axis=0)
    assert [bool(each) for each in moved] == [True] + [False] * 5


def _with_sensors(*sensors: str) -> Any:
    series = SimpleNamespace(names=sensors)
    return SimpleNamespace(sequences=lambda _: [SimpleNamespace(measurements=[series])])


def test_known_noise_is_of_all_sensors_of_a_pattern_and_later_entries_override() -> None:
    told = {'*': 1.0, '*_velocity': 2.0}
    found = known_noise(told, _with_sensors('elbow_position', 'elbow_velocity'))
    assert found == {'elbow_position': 1.0, 'elbow_velocity': 2.0}


def test_known_noise_of_no_sensor_is_an_error_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r'elbow_positon.*nearest: elbow_position\.$'):
        known_noise({'elbow_positon': 1.0}, _with_sensors('elbow_position', 'tip_force'))


@pytest.mark.slow
def test_long_recordings_begin_on_pieces_that_lead_near_the_end(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job.begin(calibration(Path('unused'), solver=SolverConfig()), Nobody())
    arm = _of_the_arm(problem, [recorded(seed=1), recorded(seed=2)], 2e-3)
    far = begun_at(arm, {unknown.name: 5 * unknown.nominal for unknown in arm.parameters})
    assert led_by_parts(job, far) == (far, '')
    whole = far.sequences('train')
    seconds = sum(each.duration for each in whole)
    monkeypatch.setattr(fitting, '_MANY_STEPS', 400 * seconds)
    monkeypatch.setattr(fitting, '_PIECE', seconds / 10)
    monkeypatch.setattr(fitting, '_FIRST_PIECES', 4)
    monkeypatch.setattr(fitting, '_FEWEST_PIECES', 6)
    pieces = of_pieces(far, 4).sequences('train')
    assert [piece.duration for piece in pieces] == pytest.approx([seconds / 10] * 4, rel=0.05)
    for piece, each in zip(pieces, (*whole[:1] * 2, *whole[1:] * 2), strict=True):
        assert piece.name.startswith(each.name)
        assert piece.bag == each.bag
    led, sentence = led_by_parts(job, far)
    assert sentence.startswith('4 pieces of')
    truth = np.array([unknown.nominal for unknown in arm.parameters])
    told = truth != 0
    after = np.array([unknown.nominal for unknown in led.parameters])
    assert np.median(np.abs(after - truth)[told] / np.abs(4 * truth[told])) < 0.5


@pytest.mark.slow
def test_a_robust_loss_leads_with_the_weights_that_it_starts_with(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    solver = SolverConfig(loss='soft_l1')
    job = Job.begin(calibration(Path('unused'), solver=solver), Nobody())
    arm = _of_the_arm(problem, [recorded(seed=1)], 2e-3)
    far = begun_at(arm, {unknown.name: 5 * unknown.nominal for unknown in arm.parameters})
    monkeypatch.setattr(fitting, '_MANY_STEPS', 1000)
    weights = []

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(context: FitContext, residuals: Residuals, *more: Any) -> Any:
            found = function(context, residuals, *more)
            weights.append(residuals.noise)
            return found

        return noted

    for name in ('lead_from', 'lead'):
        monkeypatch.setattr(fitting, name, noting(getattr(fitting, name)))
    led_by_parts(job, far)
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_a_fit_of_long_recordings_is_to_pieces_and_judged_by_all(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job.begin(calibration(Path('unused'), solver=SolverConfig()), Nobody())
    arm = _of_the_arm(problem, [recorded(seed=1), recorded(seed=2)], 2e-3)
    assert thinned(arm) == (arm, ())
    seconds = sum(each.duration for each in arm.sequences('train'))
    monkeypatch.setattr(fitting, '_MANY_STEPS', 400 * seconds)
    monkeypatch.setattr(fitting, '_PIECE', seconds / 10)
    monkeypatch.setattr(fitting, '_FEWEST_PIECES', 6)
    fitted = fit_and_correct(job, arm)
    assert len(fitted.fit.sequences) == 6
    assert fitted.problem.sequences('train') == arm.sequences('train')
    assert len(fitted.warnings) == 1
    assert re.match(r'The recordings are long: 6 pieces of them', fitted.warnings[0])
    *truth, late = np.array([*(unknown.nominal for unknown in arm.parameters[:-1]), DELAY])
    *found, delay = fitted.fit.solution.x
    np.testing.assert_allclose(found, truth, rtol=0.03)
    assert delay == pytest.approx(late, abs=1e-3)

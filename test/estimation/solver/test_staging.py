# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fits that begin on part of the data."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
import pytest

from builders.models import Drive, rod
from builders.trajectories import Measure, Sweep
from sysid_ros.errors import CancelledError
from sysid_ros.estimation.noise import estimate_noise
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver import staging
from sysid_ros.estimation.solver.least_squares import Solution, SolverSettings, solve
from sysid_ros.estimation.solver.problem import Iteration
from sysid_ros.estimation.solver.staging import PARTS, is_stuck, parts_of, solve_in_stages
from sysid_ros.model.unknown import make_unknowns
from sysid_ros.rollout.simulation import Simulator

ARM = rod(timestep=0.002, damping=0.3, armature=0.01, drive=Drive.MOTOR)
TRUTH = {'joint/j/damping': 0.8, 'joint/j/armature': 0.1}


@pytest.fixture(scope='module')
def model() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(ARM)


@pytest.fixture(scope='module')
def residuals(
    model: mujoco.MjModel, measure: Measure, sweep: Sweep
) -> Callable[..., tuple[Residuals, np.ndarray]]:
    def make(count: int = 1, duration: float = 2.0) -> tuple[Residuals, np.ndarray]:
        unknowns = [u for path in TRUTH for u in make_unknowns(path, model, bounds=(0.001, 5))]
        runs = [
            measure(
                model,
                TRUTH,
                name=str(seed),
                times=np.arange(0, duration, 0.004),
                commands=sweep('a', amplitude=2.0 + seed),
                noise={'q': 0.01, 'v': 0.1},
                seed=seed,
            )
            for seed in range(count)
        ]
        simulator = Simulator(model, unknowns, runs, threads=2)
        made = Residuals(simulator, estimate_noise(simulator.runs))
        return made, np.array([unknown.nominal for unknown in unknowns])

    return make


@pytest.mark.slow
@pytest.mark.parametrize('count', [1, 6])
def test_the_optimum_is_that_of_all_data(
    residuals: Callable[..., tuple[Residuals, np.ndarray]], count: int
) -> None:
    whole, start = residuals(count)
    plain = solve(residuals(count)[0], start, tolerance=2e-5)
    staged = solve_in_stages(whole, start, tolerance=2e-5)
    spread = np.sqrt(np.diag(np.linalg.inv(plain.jacobian.T @ plain.jacobian)))
    assert np.max(np.abs(staged.x - plain.x) / spread) < 1e-4
    assert staged.residual.shape == plain.residual.shape
    assert staged.success


def test_parts_grow_and_hold_beginnings_of_some_sequences(
    residuals: Callable[..., tuple[Residuals, np.ndarray]],
) -> None:
    one, _ = residuals(1)
    ends = [part.runs[0].sequence.duration for part in parts_of(one)]
    assert ends == sorted(ends)
    assert ends[-1] < 0.5 * one.runs[0].sequence.duration
    many, _ = residuals(11)
    assert {len(part.runs) for part in parts_of(many)} == {6}
    more, _ = residuals(30)
    assert {len(part.runs) for part in parts_of(more)} == {6}


def test_few_data_are_fitted_at_once(
    residuals: Callable[..., tuple[Residuals, np.ndarray]],
) -> None:
    few, start = residuals(1, 0.1)
    assert parts_of(few) == []
    assert all(entry.jacobian != PARTS for entry in solve_in_stages(few, start).trace)


def test_the_trace_begins_at_the_start_and_counts_all_simulations(
    residuals: Callable[..., tuple[Residuals, np.ndarray]],
) -> None:
    whole, start = residuals(1)
    seen: list[Iteration] = []
    found = solve_in_stages(whole, start, observe=seen.append)
    assert tuple(seen) == found.trace
    assert seen[0].jacobian == PARTS
    assert seen[0].x == tuple(start)
    assert seen[0].cost == pytest.approx(0.5 * np.sum(whole(start[None])[:, 0] ** 2))
    assert [entry.number for entry in seen] == list(range(len(seen)))
    assert [entry.rollouts for entry in seen] == sorted(entry.rollouts for entry in seen)
    # More than on all data alone: those on parts are among them.
    assert found.evaluations >= seen[-1].rollouts
    assert seen[1].rollouts > 3 + 1


def test_a_low_limit_of_iterations_is_spent_on_all_data(
    residuals: Callable[..., tuple[Residuals, np.ndarray]],
) -> None:
    whole, start = residuals(1)
    found = solve_in_stages(whole, start, settings=SolverSettings(max_iterations=1))
    assert found.status == 'iterations'
    assert all(entry.jacobian != PARTS for entry in found.trace)


def test_a_cancelled_solve_does_not_begin(
    residuals: Callable[..., tuple[Residuals, np.ndarray]],
) -> None:
    whole, start = residuals(1)
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(CancelledError, match='cancelled'):
        solve_in_stages(whole, start, cancel=cancel)
    assert whole.evaluations == 0


@pytest.mark.parametrize(('status', 'rounds'), [('gradient', 1), ('cost', 2), ('stalled', 2)])
def test_an_end_on_a_ridge_is_compared_with_that_of_finer_stages(
    residuals: Callable[..., tuple[Residuals, np.ndarray]],
    monkeypatch: pytest.MonkeyPatch,
    status: str,
    rounds: int,
) -> None:
    whole, start = residuals(1)
    ended: list[Solution] = []

    def ends(*args: Any, **settings: Any) -> Solution:
        ended.append(dataclasses.replace(solve(*args, **settings), status=status))
        return ended[-1]

    monkeypatch.setattr(staging, 'solve', ends)
    found = solve_in_stages(whole, start, noise_known=True)
    assert len(ended) == rounds
    assert found.cost == min(end.cost for end in ended)


@pytest.mark.parametrize(('since', 'rounds'), [(0.0, 1), (1.0, 2)])
def test_what_the_model_lacks_from_the_beginning_on_casts_no_doubt_on_the_end(
    residuals: Callable[..., tuple[Residuals, np.ndarray]],
    monkeypatch: pytest.MonkeyPatch,
    since: float,
    rounds: int,
) -> None:
    right, start = residuals(1)
    (run,) = (run.sequence for run in right.runs)
    (series,) = run.measurements
    more = np.random.default_rng(5).normal(0, (0.03, 0.3), series.data.shape)
    noisy = series.data + more * (series.times >= since)[:, None]
    wrong = dataclasses.replace(series, data=noisy)
    whole = right.of([[dataclasses.replace(run, measurements=(wrong,))]])
    ended: list[Solution] = []

    def ends(*args: Any, **settings: Any) -> Solution:
        found = solve(*args, **settings)
        slope = found.jacobian[:, 0]
        slope *= np.sqrt(found.cost) / np.linalg.norm(slope)
        promising = found.jacobian.T @ slope
        ended.append(dataclasses.replace(found, status='stalled', gradient=promising))
        return ended[-1]

    monkeypatch.setattr(staging, 'solve', ends)
    solve_in_stages(whole, start)
    assert len(ended) == rounds


def test_a_solve_has_arrived_where_slopes_promise_little_and_else_is_stuck() -> None:
    jacobian = np.eye(3)[:, :2]
    residual = np.array([0.1, 0.0, 10.0])

    def ended(gradient: list[float]) -> Solution:
        cost = 0.5 * float(residual @ residual)
        return Solution(
            np.zeros(2),
            residual,
            cost,
            status='stalled',
            message='',
            success=False,
            trace=(),
            jacobian=jacobian,
            gradient=np.array(gradient),
        )

    assert not is_stuck(ended([0.1, 0.0]))
    assert is_stuck(ended([0.0, 2.0]))

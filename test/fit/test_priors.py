# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Joint priors, what the data alone say, and whether two estimates differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

from builders.models import rod
from builders.trajectories import measure, sweep
from sysid_ros.fit.fit import FitOptions
from sysid_ros.fit.noise import JointPrior, prior_rows
from sysid_ros.fit.residuals import Residuals
from sysid_ros.model.targets import Target, Unknown, make_unknowns
from sysid_ros.signals import Trajectory
from sysid_ros.simulation.simulator import Simulator
from sysid_ros.uncertainty.covariance import JointEstimate, Known, difference
from sysid_ros.uncertainty.inference import Identification, data_only, identify
from sysid_ros.workflows.fitting import continue_from

pytestmark = pytest.mark.slow


PENDULUM = rod(timestep=0.005, damping=0.1, armature=0.02)
NOISE = {'q': 1e-3, 'v': 1e-2}
MODEL = mujoco.MjModel.from_xml_string(PENDULUM)
UNKNOWNS = tuple(
    unknown
    for target in ('joint/j/damping', 'joint/j/armature')
    for unknown in make_unknowns(target, MODEL, bounds=(0.0, 5.0))
)


def record(seed: int, damping: float = 0.3) -> Trajectory:
    truth = {'joint/j/damping': damping, 'joint/j/armature': 0.05}
    commands = sweep('a', amplitude=0.5)
    return measure(MODEL, truth, name=f'run {seed}', commands=commands, noise=NOISE, seed=seed)


def fitted(runs: list[Trajectory], prior: JointPrior | None = None) -> Identification:
    return identify(MODEL, UNKNOWNS, runs, options=FitOptions(threads=1), prior=prior)


def unknown(name: str, prior: tuple[float, float] | None = None) -> Unknown:
    target = Target('joint', name, 'damping', None, 0, 'N·m·s/rad')
    return Unknown(name, (target,), 0.0, -10.0, 10.0, prior=prior)


def random_covariance(size: int, seed: int) -> NDArray[np.float64]:
    root = np.random.default_rng(seed).normal(size=(size, size))
    found: NDArray[np.float64] = root @ root.T + 0.1 * np.eye(size)
    return found


def test_the_residuals_of_a_joint_prior_are_its_mahalanobis_distance() -> None:
    covariance = random_covariance(3, 0) * np.outer([1e-4, 1, 1e3], [1e-4, 1, 1e3])
    mean = np.array([1e-4, 2.0, -3e3])
    prior = JointPrior.of('cab', mean, covariance)
    rows = prior_rows([unknown(name) for name in 'abxc'], prior)
    x = np.array([2.5, -1e3, 7.0, 3e-4])
    off = x[[3, 0, 1]] - mean
    residual = rows.residual(x[None])[0]
    assert residual @ residual == pytest.approx(off @ np.linalg.solve(covariance, off))


def test_a_prior_of_each_is_the_joint_prior_with_a_diagonal() -> None:
    alone = prior_rows([unknown('a', (1.0, 0.5)), unknown('b'), unknown('c', (-2.0, 3.0))])
    joint = JointPrior.of('ac', np.array([1.0, -2.0]), np.diag([0.25, 9.0]))
    together = prior_rows([unknown(name) for name in 'abc'], joint)
    np.testing.assert_allclose(alone.matrix.T @ alone.matrix, together.matrix.T @ together.matrix)
    np.testing.assert_allclose(alone.matrix.T @ alone.offset, together.matrix.T @ together.offset)


def test_the_derivative_of_a_joint_prior_is_exact() -> None:
    names = [p.name for p in UNKNOWNS]
    memory = JointPrior.of(names, np.array([0.2, 0.04]), random_covariance(2, 1))
    with Simulator(MODEL, UNKNOWNS, [record(0)], threads=1) as simulator:
        residuals = Residuals(simulator, NOISE, memory=memory)
        x, steps = np.array([0.3, 0.05]), np.array([1e-3, -1e-4])
        found = residuals.step_changes(x, steps)
        moved = residuals(np.concatenate([x[None], x + np.diag(steps)]))[-2:]
    np.testing.assert_allclose(found.changes[-2:], moved[:, 1:] - moved[:, :1], rtol=1e-9)
    np.testing.assert_allclose(found.residual[-2:], moved[:, 0])


def test_the_data_alone_do_not_know_the_prior() -> None:
    run = record(0)
    free = fitted([run])
    deviation = np.sqrt(np.diag(free.inference.covariance)[:2])
    mean = free.solution.x + 3 * deviation
    names = [p.name for p in UNKNOWNS]
    memory = JointPrior.of(names, mean, np.diag(deviation**2))
    bent = fitted([run], memory)
    assert np.all(np.abs(bent.solution.x - free.solution.x) > 0.5 * deviation)
    assert np.all(np.abs(data_only(bent).x[:2] - free.solution.x) < 0.1 * deviation)


def test_two_estimates_of_the_same_differ_as_often_as_the_level_says() -> None:
    rng = np.random.default_rng(5)
    first, second = random_covariance(4, 2), 2 * random_covariance(4, 3)
    draws = 1500
    before = rng.multivariate_normal(np.ones(4), first, draws)
    after = rng.multivariate_normal(np.ones(4), second, draws)
    seen = [
        difference(JointEstimate(a, first, 1e6), JointEstimate(b, second, 1e6), 0.05)
        for a, b in zip(before, after, strict=True)
    ]
    named = sum(bool(found.changed.any()) for found in seen)
    # Not more often; and as the two tests that it joins overlap, not much less often either.
    low, high = scipy.stats.binom.ppf([0.001, 0.999], draws, 0.05)
    assert 0.5 * low < named < high
    statistics = [found.statistic for found in seen]
    assert scipy.stats.kstest(statistics, scipy.stats.chi2(4).cdf).pvalue > 0.001


def test_what_changed_is_named_although_others_correlate_with_it() -> None:
    covariance = np.full((5, 5), 0.95) + 0.05 * np.eye(5)
    shift = np.array([0.0, 0.0, 4.0, 0.0, 0.0])
    rng = np.random.default_rng(7)
    named = []
    for _ in range(50):
        before = rng.multivariate_normal(np.zeros(5), covariance)
        after = rng.multivariate_normal(shift, covariance)
        seen = difference(
            JointEstimate(before, covariance, 1e6), JointEstimate(after, covariance, 1e6), 0.01
        )
        named.append(seen.changed.tolist())
        assert seen.deviations[2] > 5
    assert named.count([False, False, True, False, False]) >= 48


def test_what_only_one_estimate_determines_is_not_compared() -> None:
    blind = np.diag([1.0, np.nan])
    blind[0, 1] = blind[1, 0] = np.nan
    seen = difference(
        JointEstimate(np.zeros(2), np.eye(2), 100.0),
        JointEstimate(np.array([0.5, 99.0]), blind, 100.0),
        0.01,
    )
    assert seen.compared.tolist() == [True, False]
    assert not seen.changed.any()
    assert np.isnan(seen.deviations[1])


def again(runs: list[Trajectory]) -> Callable[..., Identification]:
    """Return what fits runs with a memory."""

    def refit(
        parameters: tuple[Unknown, ...], memory: JointPrior | None, earlier: Any
    ) -> Identification:
        del earlier
        return identify(MODEL, parameters, runs, options=FitOptions(threads=1), prior=memory)

    return refit


def known_of(found: Identification) -> Known:
    names = tuple(p.name for p in found.parameters)
    size = len(names)
    covariance = found.inference.covariance[:size, :size]
    return Known(names, JointEstimate(found.solution.x, covariance, found.inference.effective))


def test_a_refit_knows_what_one_fit_of_all_data_knows_and_forgets() -> None:
    runs = [record(seed) for seed in range(3)]
    whole = fitted(runs)
    deviation = np.sqrt(np.diag(whole.inference.covariance)[:2])
    known = known_of(fitted(runs[:1]))
    widths = []
    for forgetting in (1.0, 1e-3):
        fit, seen = continue_from(
            known, UNKNOWNS, again(runs[1:]), forgetting=forgetting, level=0.001
        )
        assert not seen.changed.any()
        widths.append([i.high - i.low for i in fit.intervals])
        if forgetting == 1.0:
            off = (fit.solution.x - whole.solution.x) / deviation
            assert np.all(np.abs(off) < 0.5)
            assert {i.verdict for i in fit.intervals} == {'identified'}
    assert np.all(np.array(widths[0]) < widths[1])


def test_a_changed_robot_is_seen_and_not_bent_by_what_it_was() -> None:
    known = known_of(fitted([record(seed) for seed in range(2)]))
    run = record(9, damping=0.36)
    fit, seen = continue_from(known, UNKNOWNS, again([run]), forgetting=0.9, level=0.01)
    assert seen.changed.tolist() == [True, False]
    interval = fit.intervals[0]
    assert interval.low < 0.36 < interval.high

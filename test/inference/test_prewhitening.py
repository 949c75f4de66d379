# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Weights by the memory of the noise, on linear problems whose answer is known."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.signal import lfilter

from sysid_ros.estimation.layout import Samples
from sysid_ros.estimation.solver.least_squares import Solution
from sysid_ros.inference import infer
from sysid_ros.inference.linear import linearised
from sysid_ros.inference.prewhitening import Reweighted, Whitening, reweighted
from sysid_ros.model.unknown import Unknown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.estimation.solver.problem import ResidualLike

TRUTH = np.array([2.0, -1.0, 0.5])
EACH, SEQUENCES = 400, 3
TIMES = np.arange(EACH) / 100
UNKNOWNS = [Unknown(name, (), 0.0, -1e3, 1e3) for name in 'abc']
MEMORY = 0.95


def _jacobian() -> NDArray[np.float64]:
    """Return columns that slow noise is unlike in part: with sines, plain weights are the best."""
    rates = np.random.default_rng(1).uniform(4.0, 15.0, (SEQUENCES, 2))
    each = [np.stack([np.sign(np.sin(a * TIMES)), np.sin(b * TIMES**2), TIMES]).T for a, b in rates]
    return np.concatenate(each)


def _samples(times: NDArray[np.float64] = TIMES) -> Samples:
    return Samples(
        sequence=np.repeat(np.arange(SEQUENCES), EACH),
        time=np.tile(times, SEQUENCES),
        sensor=np.zeros(EACH * SEQUENCES, dtype=np.int64),
        sensors=('q',),
    )


def _slow(rng: np.random.Generator, memory: float = MEMORY) -> NDArray[np.float64]:
    """Return noise of variance 1 with a correlation between neighbours, anew in each sequence."""
    fresh = rng.standard_normal((SEQUENCES, EACH))
    fresh[:, 1:] *= np.sqrt(1 - memory**2)
    return np.asarray(lfilter([1.0], [1.0, -memory], fresh, axis=1)).ravel()


class _Linear:
    """Residuals of a linear problem."""

    unknowns = UNKNOWNS

    def __init__(self, measured: NDArray[np.float64]) -> None:
        self.jacobian, self.measured = _jacobian(), measured

    def __call__(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.jacobian @ candidates.T - self.measured[:, None]

    def solution(self) -> Solution:
        x = np.linalg.lstsq(self.jacobian, self.measured, rcond=None)[0].astype(np.float64)
        return Solution(x, self(x[None])[:, 0], 0.0, 'cost', '', success=True, trace=())


def _again(
    noise: NDArray[np.float64], samples: Samples | None = None
) -> tuple[Solution, NDArray[np.float64], Reweighted | str | None]:
    """Fit plainly, then with weights; return the plain solution, its covariance, and the other."""
    problem = _Linear(_jacobian() @ TRUTH + noise)
    samples = samples or _samples()
    plain = problem.solution()
    covariance = infer(plain, problem.jacobian, UNKNOWNS, samples).covariance
    residuals = cast('ResidualLike', problem)
    return plain, covariance, reweighted(residuals, plain, problem.jacobian, samples, covariance)


def test_noise_with_a_memory_becomes_white():
    """Its covariance as the autoregression has it becomes that of white noise, from the start."""
    samples, jacobian = _samples(), _jacobian()
    residual = _slow(np.random.default_rng(0))
    solution = Solution(TRUTH, residual, 0.0, 'cost', '', success=True, trace=())
    whitening = Whitening(linearised(solution, jacobian, UNKNOWNS, samples))
    (rows, noise), *_ = whitening._parts
    assert whitening.sensors == {'q'}
    # The covariance is followed until it has faded.
    kernel = np.zeros(EACH)
    kernel[: len(noise.covariance)] = noise.covariance[:EACH]
    whole = np.zeros((len(residual), EACH))
    whole[rows] = toeplitz(kernel)
    half = whitening(whole)[rows]
    whole[rows] = half.T
    np.testing.assert_allclose(whitening(whole)[rows], np.eye(EACH), atol=2e-3)


@pytest.mark.parametrize('seed', [0, 100])
def test_values_are_those_of_generalised_least_squares_and_intervals_hold(seed: int):
    inverse = np.linalg.inv(toeplitz(MEMORY ** np.arange(EACH)))
    weights = np.kron(np.eye(SEQUENCES), inverse)
    information = _jacobian().T @ weights @ _jacobian()
    errors, before, held, narrower = [], [], [], []
    for draw in range(40):
        noise = _slow(np.random.default_rng(seed + draw))
        plain, covariance, found = _again(noise)
        if not isinstance(found, Reweighted):
            continue
        best = TRUTH + np.linalg.solve(information, _jacobian().T @ weights @ noise)
        deviation = np.sqrt(np.diag(np.linalg.inv(information)))
        assert np.all(np.abs(found.x - best) < 0.6 * deviation)
        white = found.whitening
        at = dataclasses.replace(plain, x=found.x, residual=white(found.residual))
        better = infer(at, white(_jacobian()), UNKNOWNS, _samples())
        rows = zip(better.intervals, TRUTH, strict=True)
        held.append([row.low <= truth <= row.high for row, truth in rows])
        errors.append(found.x - TRUTH)
        before.append(plain.x - TRUTH)
        narrower.append(np.sqrt(np.diag(better.covariance) / np.diag(covariance)))
    # With so few independent samples it does not always look as if it served.
    assert len(errors) >= 28
    assert np.all(np.mean(held, axis=0) >= 0.87)
    assert np.median(narrower) < 0.7
    assert np.all(np.std(errors, axis=0)[:2] < 0.6 * np.std(before, axis=0)[:2])


def test_white_noise_uneven_stamps_and_encoders_keep_plain_weights():
    rng = np.random.default_rng(3)
    assert _again(rng.standard_normal(EACH * SEQUENCES))[2] is None
    uneven = np.sort(rng.uniform(0.0, TIMES[-1], EACH))
    assert _again(_slow(rng), _samples(uneven))[2] is None
    coarse = dataclasses.replace(_samples(), encoder_steps={'q': 3.0})
    assert _again(_slow(rng), coarse)[2] is None


def test_what_the_model_lacks_is_no_noise():
    """Steps that a column has as well come a little late: fast changes say something else."""
    late = np.asarray(lfilter([0.06], [1.0, -0.94], _jacobian()[:, 0]))
    found = _again(2.0 * late + 0.1 * np.random.default_rng(0).standard_normal(len(late)))[2]
    assert isinstance(found, str)
    assert 'the model lacks something' in found

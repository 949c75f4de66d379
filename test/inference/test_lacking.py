# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Terms that residuals follow, on linear problems whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from sysid_ros.config.calibration import VerdictKind
from sysid_ros.estimation.layout import Samples
from sysid_ros.estimation.solver.solver import Solution
from sysid_ros.estimation.terms import Term, TermKind
from sysid_ros.inference import Inference, infer
from sysid_ros.inference.lacking import Lacks, lacking
from sysid_ros.inference.linear import linearised
from sysid_ros.model.unknown import Unknown

COUNT = 2000
TIMES = np.arange(COUNT) / 100
TRUTH = np.array([3.0, 5.0])
UNKNOWNS = tuple(Unknown(name, (), 4.0, 0.0, 10.0) for name in ('first', 'second'))


def waves(*frequencies: float) -> NDArray[np.float64]:
    """Return (COUNT, k) columns that have hardly anything in common."""
    return np.stack([np.sin(f * TIMES + f) for f in frequencies], axis=1)


JACOBIAN = waves(3.1, 7.3)
#: Mostly something of its own, and partly what the first parameter does.
SPRING = Term(TermKind.SPRING, 'elbow', waves(11.7)[:, 0] + 0.7 * JACOBIAN[:, 0])
#: Nothing but what both parameters do.
HIDDEN = Term(TermKind.GAIN, 'elbow', JACOBIAN @ [1.0, 2.0])
OTHERS = [
    Term(TermKind.DRAG, str(k), waves(13.0 + 1.37 * k)[:, 0] + 0.2 * JACOBIAN[:, 1])
    for k in range(20)
]


def fitted(
    amount: float, seed: int = 0, memory: float = 0.0, bags: int = 1
) -> tuple[Solution, Samples]:
    """Fit the parameters alone where the truth has an amount of the spring, too."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=COUNT)
    for row in range(1, COUNT):
        noise[row] = memory * noise[row - 1] + np.sqrt(1 - memory**2) * noise[row]
    data = noise - JACOBIAN @ TRUTH - amount * SPRING.change
    x = -np.linalg.lstsq(JACOBIAN, data, rcond=None)[0]
    residual = data + JACOBIAN @ x
    solution = Solution(
        x, residual, 0.5 * float(residual @ residual), 'gradient', '', success=True, trace=()
    )
    samples = Samples(
        np.arange(COUNT) * bags // COUNT, TIMES, np.zeros(COUNT, dtype=np.int64), ('q',)
    )
    return solution, samples


def told(amount: float, terms: list[Term], seed: int = 0, memory: float = 0.0) -> Lacks:
    solution, samples = fitted(amount, seed, memory)
    return lacking(linearised(solution, JACOBIAN, UNKNOWNS, samples), terms)


@pytest.mark.parametrize('bags', [1, 8])
def test_the_term_that_is_there_is_named_and_says_how_far_parameters_are_off(bags: int) -> None:
    solution, samples = fitted(0.5, bags=bags)
    found = lacking(linearised(solution, JACOBIAN, UNKNOWNS, samples), [*OTHERS, SPRING])
    assert [each.title for each in found.terms] == ["a spring of 'elbow'"]
    assert not found.instead
    whole = np.concatenate([JACOBIAN, SPRING.change[:, None]], axis=1)
    data = solution.residual - JACOBIAN @ solution.x
    x = -np.linalg.lstsq(whole, data, rcond=None)[0]
    left = np.sum((data + whole @ x) ** 2) / np.sum(solution.residual**2)
    assert found.terms[0].share == pytest.approx(1 - left)
    np.testing.assert_allclose(solution.x + found.shift, x[:2], atol=1e-9)
    assert abs(solution.x[0] - TRUTH[0]) > 0.3
    assert abs(x[0] - TRUTH[0]) < 0.12


@pytest.mark.parametrize('memory', [0.0, 0.9])
def test_noise_alone_is_hardly_ever_taken_for_a_term(memory: float) -> None:
    draws = [told(0.0, [*OTHERS, SPRING], seed, memory=memory) for seed in range(150)]
    assert sum(bool(found.terms) for found in draws) <= 4


def test_what_parameters_take_up_is_not_seen() -> None:
    assert not told(0.5, [HIDDEN]).terms


def test_two_terms_are_found_one_after_the_other() -> None:
    solution, samples = fitted(0.5)
    other = OTHERS[3]
    own = other.change - JACOBIAN @ np.linalg.lstsq(JACOBIAN, other.change, rcond=None)[0]
    both = Solution(
        solution.x,
        solution.residual - 0.3 * own,
        solution.cost,
        'gradient',
        '',
        success=True,
        trace=(),
    )
    found = lacking(linearised(both, JACOBIAN, UNKNOWNS, samples), [*OTHERS, SPRING])
    first, second = found.terms
    assert [first.title, second.title] == [SPRING.title, other.title]
    np.testing.assert_allclose(first.own + second.own, found.shift)
    assert not found.instead


def test_parameters_may_have_to_move_as_any_term_that_explains_nearly_as_well() -> None:
    """What nearly does what the spring does would move the second parameter, not the first."""
    like = Term(TermKind.DRAG, 'wrist', waves(11.7, 7.3) @ [0.95, 0.9] + 0.3 * waves(17.9)[:, 0])
    found = told(0.5, [*OTHERS, like, SPRING])
    assert found.terms[0].title == SPRING.title
    assert found.instead == (like.title,)
    assert found.whose == (SPRING.title, like.title)
    assert abs(found.shift[1]) > 5 * abs(found.terms[0].own[1])


def inferred(amount: float, terms: list[Term]) -> Inference:
    solution, samples = fitted(amount)
    return infer(solution, JACOBIAN, UNKNOWNS, samples, terms=terms)


def test_what_a_term_would_move_far_is_limited_by_the_model() -> None:
    first, second = inferred(1.0, [SPRING]).intervals
    assert first.verdict_kind is VerdictKind.MODEL_LIMITED
    assert 'a spring' in first.explanation
    assert second.verdict_kind is VerdictKind.IDENTIFIED


def test_the_interval_of_what_a_term_would_move_holds_the_truth_and_identifies_while_narrow() -> (
    None
):
    without, found = inferred(0.5, []), inferred(0.5, [SPRING])
    first, second = found.intervals
    assert first.verdict_kind is VerdictKind.IDENTIFIED
    assert first.low < TRUTH[0] < first.high
    before = without.intervals[0]
    assert before.verdict_kind is VerdictKind.IDENTIFIED
    assert not before.low < TRUTH[0] < before.high
    assert (first.noise_low, first.noise_high) == (before.low, before.high)
    before = without.intervals[1]
    assert second.high - second.low == pytest.approx(before.high - before.low, rel=0.1)
    assert found.covariance[0, 0] > 4 * without.covariance[0, 0]
    assert found.notes[0].startswith('The model lacks something; residuals follow a spring')


def test_a_right_model_is_left_as_it_is() -> None:
    without, found = inferred(0.0, []), inferred(0.0, [SPRING, *OTHERS])
    assert found.intervals == without.intervals
    assert found.lacking == ()


@pytest.mark.parametrize('seed', range(3))
def test_a_term_that_is_most_of_the_residuals_is_no_noise_with_a_long_memory(seed: int) -> None:
    # Half a turn in all: beside all that is left, not one term would be certain.
    slow = Term(TermKind.GAIN, 'elbow', np.sin(0.15 * TIMES) + 0.7 * JACOBIAN[:, 0])
    rng = np.random.default_rng(seed)
    data = rng.normal(size=COUNT) - JACOBIAN @ TRUTH - 6.0 * slow.change
    x = -np.linalg.lstsq(JACOBIAN, data, rcond=None)[0]
    residual = data + JACOBIAN @ x
    residual /= np.std(residual)
    solution = Solution(
        x, residual, 0.5 * float(residual @ residual), 'stalled', '', success=False, trace=()
    )
    zeros = np.zeros(COUNT, dtype=np.int64)
    samples = Samples(zeros, TIMES, zeros, ('q',))
    found = lacking(linearised(solution, JACOBIAN, UNKNOWNS, samples), [*OTHERS, slow])
    assert found.terms[0].title == "another gain of 'elbow'"
    assert found.terms[0].sigmas > 10

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A shift of the measurements is found where there is one, and only there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
import scipy.optimize
import scipy.signal

from sysid_ros.errors import FitError
from sysid_ros.estimation.stamps import ShiftReport, find_shift

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

STEP = 0.002
TRUTH = np.array([1.0, 1.0, 0.5])


class Fitted(NamedTuple):
    """Oscillators fitted to samples whose stamps are off."""

    residual_at: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    jacobian: NDArray[np.float64]
    groups: NDArray[np.int64]
    times: NDArray[np.float64]

    def shift(self, **options: object) -> ShiftReport:
        """Look for the shift."""
        return find_shift(
            self.residual_at,
            self.jacobian,
            self.groups,
            **{'timestep': STEP, 'times': self.times, **options},
        )


def motion(x: NDArray[np.float64], times: NDArray[np.float64], phase: float) -> NDArray[np.float64]:
    fast = x[0] * np.sin(2 * np.pi * 1.5 * x[1] * times + phase)
    return fast + x[2] * np.cos(2 * np.pi * 2.55 * times)


def noise(rng: np.random.Generator, count: int, correlation: float) -> NDArray[np.float64]:
    white = rng.standard_normal(count + 500)
    gain = np.sqrt(1 - correlation**2)
    return scipy.signal.lfilter([gain], [1.0, -correlation], white)[500:]


def fitted(
    rng: np.random.Generator,
    shifts: Sequence[float] = (0.0,),
    *,
    sigma: float = 0.01,
    correlation: float = 0.0,
    count: int = 1000,
    margin: int = 100,
) -> Fitted:
    """Fit amplitudes and frequency of samples that belong to the instants t + shift."""
    times = np.arange(count) * STEP
    predicted_times = np.arange(-margin, count + margin) * STEP
    scale = max(sigma, 1e-5)
    measured = [
        motion(TRUTH, times + shift, 0.3 * k) + sigma * noise(rng, count, correlation)
        for k, shift in enumerate(shifts)
    ]

    def residual(x: NDArray[np.float64], moved: NDArray[np.float64]) -> NDArray[np.float64]:
        predicted = [
            np.interp(
                times + shift,
                predicted_times,
                motion(x, predicted_times, 0.3 * k),
                left=np.nan,
                right=np.nan,
            )
            for k, shift in enumerate(moved)
        ]
        return np.concatenate([(m - p) / scale for m, p in zip(measured, predicted, strict=True)])

    here = np.zeros(len(shifts))
    solution = scipy.optimize.least_squares(
        lambda x: residual(x, here), TRUTH, x_scale=(1.0, 0.01, 1.0)
    )
    return Fitted(
        lambda moved: residual(solution.x, moved),
        solution.jac,
        np.repeat(np.arange(len(shifts)), count),
        np.tile(times, len(shifts)),
    )


@pytest.mark.parametrize('sigma', [0.0, 0.001, 0.01, 0.05])
def test_stamps_one_step_late_are_found_with_and_without_noise(sigma: float) -> None:
    report = fitted(np.random.default_rng(3), [-STEP], sigma=sigma).shift()
    assert report.significant
    assert report.shift == pytest.approx(-STEP, abs=max(3 * report.error, 2e-6))
    assert "sensor_stamps='rollout'" in report.sentence(STEP)
    assert '-2' in report.sentence(STEP) or '-1.9' in report.sentence(STEP)


def test_a_shift_without_noise_removes_nearly_the_whole_cost() -> None:
    report = fitted(np.random.default_rng(0), [-STEP], sigma=0.0).shift()
    assert report.gain > 0.999


@pytest.mark.parametrize('shift', [0.0007, 0.0131, -0.0313, 0.0495])
def test_any_other_shift_is_measured_and_blamed_on_the_clock(shift: float) -> None:
    report = fitted(np.random.default_rng(1), [shift], sigma=0.003).shift()
    assert report.significant
    # The parameters answer to a large shift more than linearly.
    assert report.shift == pytest.approx(shift, abs=3 * report.error + 0.12 * abs(shift))
    sentence = report.sentence(STEP)
    assert 'sensor/*/delay' in sentence
    assert 'rollout' not in sentence


@pytest.mark.slow
@pytest.mark.parametrize('correlation', [0.0, 0.95])
def test_right_stamps_raise_no_alarm(correlation: float) -> None:
    rng = np.random.default_rng(7)
    reports = [fitted(rng, correlation=correlation, count=600).shift() for _ in range(40)]
    assert not any(report.alarming for report in reports)
    assert all(report.sentence(STEP) == '' for report in reports)


@pytest.mark.slow
@pytest.mark.parametrize('correlation', [0.0, 0.95])
def test_right_stamps_of_several_sequences_raise_no_alarm(correlation: float) -> None:
    rng = np.random.default_rng(8)
    shifts = [0.0] * 4
    reports = [fitted(rng, shifts, correlation=correlation, count=300).shift() for _ in range(15)]
    assert not any(report.alarming for report in reports)


@pytest.mark.slow
def test_the_standard_error_covers_the_shift() -> None:
    rng = np.random.default_rng(11)
    reports = [fitted(rng, [-STEP], count=500).shift() for _ in range(40)]
    scaled = np.array([(report.shift + STEP) / report.error for report in reports])
    assert np.sqrt(np.mean(scaled**2)) < 1.5
    assert np.sqrt(np.mean(scaled**2)) > 0.5


def test_data_of_the_model_itself_are_left_where_they_are() -> None:
    report = fitted(np.random.default_rng(0), sigma=0.0).shift()
    assert not report.alarming
    assert abs(report.shift) < 0.01 * STEP


def test_the_one_sequence_with_a_late_clock_is_named() -> None:
    report = fitted(np.random.default_rng(2), [0.0, 0.01, 0.0], sigma=0.001).shift()
    assert [own.significant for own in report.per_sequence] == [False, True, False]
    assert report.per_sequence[1].shift == pytest.approx(0.01, abs=1e-4)
    assert report.alarming
    sentence = report.sentence(STEP, ['walk', 'swing', 'drop'])
    assert '+10 ms in swing' in sentence
    assert 'walk' not in sentence


def test_sequences_that_are_all_late_are_reported_as_one_shift() -> None:
    report = fitted(np.random.default_rng(2), [-STEP] * 3, sigma=0.001).shift()
    assert report.significant
    assert all(own.significant for own in report.per_sequence)
    assert 'in sequence' not in report.sentence(STEP)


def test_sequences_shifted_either_way_are_told_apart() -> None:
    report = fitted(np.random.default_rng(2), [-STEP, 3 * STEP], sigma=0.001).shift()
    found = [own.shift for own in report.per_sequence]
    assert found == pytest.approx([-STEP, 3 * STEP], abs=2e-4)
    assert 'in sequence 0' in report.sentence(STEP)
    assert 'in sequence 1' in report.sentence(STEP)


def test_a_single_sequence_is_reported_like_the_common_shift() -> None:
    report = fitted(np.random.default_rng(2), [-STEP]).shift()
    assert report.per_sequence == (report._replace(per_sequence=()),)


def test_a_parameter_that_acts_like_a_shift_leaves_nothing_to_find() -> None:
    case = fitted(np.random.default_rng(4), [-STEP])
    slope = (case.residual_at(np.array([STEP])) - case.residual_at(np.array([-STEP]))) / (2 * STEP)
    with_delay = case._replace(jacobian=np.column_stack([case.jacobian, slope]))
    assert case.shift().significant
    assert not with_delay.shift().significant


def test_columns_that_repeat_or_vanish_change_nothing() -> None:
    case = fitted(np.random.default_rng(4), [-STEP])
    columns = [case.jacobian, 1e9 * case.jacobian[:, :2], 0 * case.jacobian[:, :1]]
    deficient = case._replace(jacobian=np.column_stack(columns)).shift()
    plain = case.shift()
    assert deficient.shift == pytest.approx(plain.shift, abs=1e-7)
    assert deficient.gain == pytest.approx(plain.gain, rel=1e-6)


def test_a_fit_without_free_parameters_is_checked_too() -> None:
    case = fitted(np.random.default_rng(4), [-STEP])
    report = case._replace(jacobian=np.zeros((len(case.groups), 0))).shift()
    assert report.significant


def test_residuals_without_a_prediction_are_left_out() -> None:
    short = fitted(np.random.default_rng(3), [-STEP], margin=0)
    assert not np.isfinite(short.residual_at(np.array([0.05]))).all()
    report = short.shift()
    assert report.significant
    assert report.shift == pytest.approx(-STEP, abs=3 * report.error)


@pytest.mark.parametrize('limit', [0.001, 0.0113, 0.05])
def test_no_prediction_is_asked_for_beyond_the_limit(limit: float) -> None:
    case = fitted(np.random.default_rng(3), [0.08, -0.08])
    asked: list[float] = []

    def residual_at(shifts: NDArray[np.float64]) -> NDArray[np.float64]:
        asked.extend(np.abs(shifts))
        return case.residual_at(shifts)

    report = case._replace(residual_at=residual_at).shift(limit=limit)
    assert max(asked) == pytest.approx(limit, abs=1e-12)
    assert all(abs(own.shift) <= limit + 1e-12 for own in (report, *report.per_sequence))


def test_the_order_of_the_residuals_does_not_matter() -> None:
    case = fitted(np.random.default_rng(3), [-STEP, 0.0])
    order = np.random.default_rng(0).permutation(len(case.groups))
    mixed = Fitted(
        lambda shifts: case.residual_at(shifts)[order],
        case.jacobian[order],
        case.groups[order],
        case.times[order],
    )
    assert mixed.shift().shift == pytest.approx(case.shift().shift, abs=1e-7)
    assert mixed.shift().p_value == pytest.approx(case.shift().p_value, rel=1e-3)


def test_a_sequence_that_stands_still_is_not_moved() -> None:
    case = fitted(np.random.default_rng(3), [-STEP])
    count = len(case.groups)
    still = np.random.default_rng(4).standard_normal(count)
    both = Fitted(
        lambda shifts: np.concatenate([case.residual_at(shifts[:1]), still]),
        np.vstack([case.jacobian, np.zeros_like(case.jacobian)]),
        np.repeat([0, 1], count),
        np.tile(case.times, 2),
    )
    moving, standing = both.shift().per_sequence
    assert moving.significant
    assert not standing.significant
    assert standing.p_value == 1.0


@pytest.mark.slow
def test_two_sensors_of_one_sequence_are_whitened_apart() -> None:
    rng = np.random.default_rng(5)
    alarms = 0
    for _ in range(20):
        left, right = (fitted(rng, correlation=0.95, count=400) for _ in range(2))
        pair = Fitted(
            lambda shifts, a=left, b=right: np.stack(
                [a.residual_at(shifts), b.residual_at(shifts)], axis=1
            ).ravel(),
            np.stack([left.jacobian, right.jacobian], axis=1).reshape(800, -1),
            np.zeros(800, dtype=int),
            np.repeat(left.times, 2),
        )
        alarms += pair.shift(channels=np.tile([0, 1], 400)).alarming
    assert alarms == 0


def test_nothing_to_shift_is_no_alarm() -> None:
    empty = find_shift(lambda _: np.zeros(0), np.zeros((0, 2)), np.zeros(0, int), timestep=STEP)
    assert not empty.alarming
    lost = find_shift(
        lambda _: np.full(50, np.nan), np.ones((50, 1)), np.zeros(50, int), timestep=STEP
    )
    assert not lost.alarming


def test_a_jacobian_of_another_length_is_refused() -> None:
    with pytest.raises(FitError, match=r'\(3, 1\)'):
        find_shift(lambda _: np.zeros(4), np.zeros((3, 1)), np.zeros(4, int), timestep=STEP)
    with pytest.raises(FitError, match='positive'):
        find_shift(lambda _: np.zeros(4), np.zeros((4, 1)), np.zeros(4, int), timestep=0.0)

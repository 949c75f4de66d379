# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers show what the data determine and nothing more."""

# ruff: noqa: RUF001 (the typographic signs are what is tested)

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysid_ros.report import numbers


@pytest.mark.parametrize(
    ('value', 'half_width', 'text'),
    [
        (0.123456, 0.0056, '0.1235'),
        (0.123456, 0.00996, '0.123'),
        (12.3456, 1.2, '12.3'),
        (512.3, 2900.0, '500'),
        (-9.80665, 0.02, '−9.807'),
        (1.2346e-6, 2e-8, '1.235×10⁻⁶'),
        (2.0e7, 1.5e5, '2.000×10⁷'),
        (0.00001, 0.5, '0.00'),
        (-0.00001, 0.5, '0.00'),
        (0.1, math.nan, '0.1'),
        (1 / 3, 0.0, '0.3333'),
        (0.0, 0.5, '0'),
        (9.9999e-5, 1e-6, '1.000×10⁻⁴'),
        (0.0004, 0.001, '0.0004'),
    ],
)
def test_a_value_is_rounded_to_the_second_digit_of_its_interval(
    value: float, half_width: float, text: str
) -> None:
    assert numbers.rounded(value, half_width) == text


@pytest.mark.parametrize(
    ('write', 'arguments', 'text'),
    [
        (numbers.significant, (1.0,), '1'),
        (numbers.significant, (500.04,), '500'),
        (numbers.significant, (82180.0,), '82180'),
        (numbers.significant, (123456.0,), '123500'),
        (numbers.significant, (0.00012346,), '1.235×10⁻⁴'),
        (numbers.significant, (9.99996,), '10'),
        (numbers.significant, (math.inf,), '∞'),
        (numbers.significant, (-math.inf,), '−∞'),
        (numbers.significant, (math.nan,), '–'),
        # Numbers of a column keep their zeros.
        (numbers.padded, (0.21,), '0.210'),
        (numbers.padded, (0.0339,), '0.0339'),
        (numbers.padded, (12.0,), '12.0'),
        (numbers.bounds, (0, math.inf), '[0, ∞)'),
        (numbers.bounds, (-math.inf, 0.5), '(−∞, 0.5]'),
        (numbers.duration, (0.4212,), '0.42 s'),
        (numbers.duration, (59.4,), '59 s'),
        (numbers.duration, (74.3,), '1 min 14 s'),
        (numbers.duration, (7800,), '2 h 10 min'),
        # A change from nothing is not a factor.
        (numbers.times, (0.2, 0.03), '×0.15'),
        (numbers.times, (0.0, 0.03), '–'),
        (numbers.times, (math.nan, 0.03), '–'),
    ],
)
def test_numbers_are_written_as_people_do(
    write: Callable[..., str], arguments: tuple[float, ...], text: str
) -> None:
    assert write(*arguments) == text


@pytest.mark.parametrize(
    ('low', 'high', 'text'),
    [
        (1.1, 1.25678, '[1.100, 1.257]'),
        (-0.00101, -0.00099, '[−0.001010, −0.000990]'),
        (9e-5, 1.1e-4, '[0.90×10⁻⁴, 1.10×10⁻⁴]'),
        (-0.0006, 0.0014, '[−0.0006, 0.0014]'),
        (math.nan, math.nan, '–'),
    ],
)
def test_both_ends_of_an_interval_are_written_alike(low: float, high: float, text: str) -> None:
    assert numbers.interval(low, high) == text


@pytest.mark.slow
@given(st.floats(min_value=-1e12, max_value=1e12), st.floats(min_value=1e-12, max_value=1e12))
def test_rounding_moves_a_value_by_less_than_a_tenth_of_its_interval(
    value: float, half_width: float
) -> None:
    text = numbers.rounded(value, half_width)
    mantissa, _, power = text.replace('−', '-').partition('×10')
    exponent = power.translate(str.maketrans('⁰¹²³⁴⁵⁶⁷⁸⁹⁻', '0123456789-')) or '0'
    tolerance = max(0.1 * half_width, 1e-13 * abs(value))
    assert abs(float(f'{mantissa}e{exponent}') - value) <= tolerance

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How numbers are written for people: as many digits as the data determine."""

from __future__ import annotations

import math
import sys
from decimal import Decimal

#: Digits of a number whose interval is not known.
PLAIN_DIGITS = 4
#: Digits of numbers that are compared down a column.
COLUMN_DIGITS = 3
#: Digits of a 95 % interval's half width that are worth reading.
INTERVAL_DIGITS = 2
#: Outside these powers of ten a number is written with an exponent.
_SMALLEST_POWER = -4
_LARGEST_POWER = 6

MISSING = '\N{EN DASH}'
TIMES = '\N{MULTIPLICATION SIGN}'
_MINUS = '\N{MINUS SIGN}'
_SUPERSCRIPTS = str.maketrans('0123456789-', '⁰¹²³⁴⁵⁶⁷⁸⁹⁻')


def _power(value: float) -> int:
    """Return the power of ten of the leading digit; 0 for zero."""
    return math.floor(math.log10(abs(value))) if value else 0


def _write(value: float, last: int, power: int) -> str:
    """Write a value down to the digit of weight ``10 ** last``, with an exponent if it is odd."""
    if _SMALLEST_POWER < power < _LARGEST_POWER and last <= 0:
        text = f'{value:.{-last}f}'
    elif _SMALLEST_POWER < power < _LARGEST_POWER:
        text = f'{round(value, -last):.0f}'
    else:
        mantissa = f'{Decimal(repr(float(value))).scaleb(-power):.{max(power - last, 0)}f}'
        text = f'{mantissa}{TIMES}10{str(power).translate(_SUPERSCRIPTS)}'
    if not any(digit in text.partition(TIMES)[0] for digit in '123456789'):
        text = text.lstrip('-')
    return text.replace('-', _MINUS)


def padded(value: float, digits: int = COLUMN_DIGITS) -> str:
    """Write a number with exactly so many significant digits, for columns that are compared.

    Infinite values are written as ``∞``, NaN as a dash.
    """
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return '∞' if value > 0 else f'{_MINUS}∞'
    if value == 0:
        return '0'
    value = float(f'{value:.{digits - 1}e}')
    power = _power(value)
    return _write(value, min(power - digits + 1, 0), power)


def significant(value: float, digits: int = PLAIN_DIGITS) -> str:
    """Write a number with at most so many significant digits, trailing zeros left out."""
    mantissa, times_sign, exponent = padded(value, digits).partition(TIMES)
    if '.' in mantissa:
        mantissa = mantissa.rstrip('0').rstrip('.')
    return mantissa + times_sign + exponent


def _last_digit(largest: float, half_width: float) -> int:
    """Return the power of ten of the last digit worth writing."""
    half_width = float(f'{half_width:.{INTERVAL_DIGITS - 1}e}')
    return max(_power(half_width) - INTERVAL_DIGITS + 1, _power(largest) - sys.float_info.dig)


def rounded(value: float, half_width: float) -> str:
    """Write a value to the second digit of its interval's half width.

    Without a usable half width it is written with ``PLAIN_DIGITS`` significant digits.
    """
    if not math.isfinite(value) or not math.isfinite(half_width) or half_width <= 0:
        return significant(value)
    if value == 0:
        return '0'
    last = _last_digit(value, half_width)
    # A value that is small beside its interval is written as the interval's ends are, and one
    # that rounds up to the next power of ten as that.
    largest = max(abs(round(value, -last)), half_width)
    return _write(value, last, _power(largest))


def interval(low: float, high: float) -> str:
    """Write a 95 % interval, both ends alike, or a dash when there is none."""
    if math.isnan(low) or math.isnan(high):
        return MISSING
    half_width = (high - low) / 2
    largest = max(abs(low), abs(high))
    if not math.isfinite(half_width) or half_width <= 0:
        return f'[{significant(low)}, {significant(high)}]'
    last = _last_digit(largest, half_width)
    power = _power(round(largest, -last))
    ends = ('0' if end == 0 else _write(end, last, power) for end in (low, high))
    return f'[{", ".join(ends)}]'


def bounds(low: float, high: float) -> str:
    """Write bounds; an infinite end gets a round bracket, as in ``[0, ∞)``."""
    left = '(' if math.isinf(low) else '['
    right = ')' if math.isinf(high) else ']'
    return f'{left}{significant(low)}, {significant(high)}{right}'


def times(before: float, after: float) -> str:
    """Write by what factor an error changed, as ``×0.12``; a dash where that says nothing."""
    if not (math.isfinite(before) and math.isfinite(after)) or before <= 0:
        return MISSING
    return f'{TIMES}{significant(after / before, 2)}'


def change(nominal: float, value: float, half_width: float) -> str:
    """Write what became of a nominal value: ``+12 %`` of it, or ``0 → 3.5``."""
    if nominal:
        percent = 100 * (value - nominal) / abs(nominal)
        return f'{"+" if percent > 0 else ""}{significant(percent, COLUMN_DIGITS)} %'
    return f'{significant(nominal)} → {rounded(value, half_width)}'


def duration(seconds: float) -> str:
    """Write a wall time: ``0.42 s``, ``3 min 5 s``, ``2 h 10 min``."""
    minute, hour = 60, 3600
    if not math.isfinite(seconds):
        return MISSING
    if seconds < minute:
        return f'{significant(seconds, 2)} s'
    whole = round(seconds)
    if whole < hour:
        return f'{whole // minute} min {whole % minute} s'
    return f'{whole // hour} h {whole % hour // minute} min'

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters as tables in plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.toolbox.single_parameter import Parameter

    Array = NDArray[np.float64]

#: A value is on a bound within this share of the range between the bounds.
_AT_BOUND = 1e-3


class Compared(NamedTuple):
    """What a comparison shows, one entry per component, all arrays (n,).

    Attributes:
        names: Of the components.
        units: Of the components, empty where unknown.
        initial: Values before the fit.
        identified: Values after it.
        true: True values; None where unknown.
        low: Lower bounds.
        high: Upper bounds.
    """

    names: Sequence[str]
    units: Sequence[str]
    initial: Array
    identified: Array
    true: Array | None
    low: Array
    high: Array


def comparison(compared: Compared, digits: int) -> str:
    """Lay out a comparison: a line per component, and the root mean square of relative changes.

    Args:
        compared: The values.
        digits: Significant digits.
    """
    change = compared.identified - compared.initial
    relative_change = _relative(change, compared.initial)
    header = ['Parameter', 'Initial', 'Identified', 'Lower', 'Upper', 'Abs Del', 'Rel Del']
    columns = [
        list(compared.names),
        _numbers(compared.initial, digits),
        _numbers(compared.identified, digits),
        _numbers(compared.low, digits),
        _numbers(compared.high, digits),
        _numbers(np.abs(change), digits),
        _percents(relative_change),
    ]
    summary = f'RMS Rel Del: {_rms(relative_change)}'
    if compared.true is not None:
        error = compared.identified - compared.true
        relative_error = _relative(error, compared.true)
        header[2:2] = ['True']
        columns[2:2] = [_numbers(compared.true, digits)]
        header += ['Abs Err', 'Rel Err']
        columns += [_numbers(np.abs(error), digits), _percents(relative_error)]
        summary = f'RMS Rel Err: {_rms(relative_error)}\n{summary}'
    if any(compared.units):
        header.append('Unit')
        columns.append(list(compared.units))
    notes = _notes(compared)
    if any(notes):
        header.append('')
        columns.append(notes)
    return f'{_table(header, columns)}\n{summary}'


def overview(parameters: Mapping[str, Parameter]) -> str:
    """Lay out names, sizes, shapes, units and which parameters are frozen."""
    entries = list(parameters.values())
    return _table(
        ['Name', 'Size', 'Shape', 'Frozen', 'Unit'],
        [
            list(parameters),
            [str(entry.size) for entry in entries],
            [str(entry.shape) for entry in entries],
            ['yes' if entry.frozen else 'no' for entry in entries],
            [entry.unit for entry in entries],
        ],
    )


def _notes(compared: Compared) -> list[str]:
    tolerance = _AT_BOUND * (compared.high - compared.low)
    rows = zip(compared.identified, compared.low, compared.high, tolerance, strict=True)
    return [
        'at lower bound'
        if np.isfinite(low) and value - low <= (slack if np.isfinite(slack) else 0.0)
        else 'at upper bound'
        if np.isfinite(high) and high - value <= (slack if np.isfinite(slack) else 0.0)
        else ''
        for value, low, high, slack in rows
    ]


def _relative(difference: Array, base: Array) -> Array:
    """Divide by the size of the base; NaN where that is zero."""
    size = np.abs(base)
    return np.divide(np.abs(difference), size, out=np.full_like(size, np.nan), where=size > 0)


def _rms(relative: Array) -> str:
    known = relative[np.isfinite(relative)]
    return f'{100 * float(np.sqrt(np.mean(known**2))):.3g}%' if known.size else '-'


def _numbers(values: Array, digits: int) -> list[str]:
    return [f'{value:.{digits}g}' for value in values]


def _percents(relative: Array) -> list[str]:
    return ['-' if np.isnan(share) else f'{100 * share:.3g}%' for share in relative]


def _table(header: Sequence[str], columns: Sequence[Sequence[str]]) -> str:
    """Align columns: text, the first and those after the numbers, to the left."""
    widths = [
        max(len(title), *map(len, column)) for title, column in zip(header, columns, strict=True)
    ]
    left = [title in {'Parameter', 'Name', 'Shape', 'Frozen', 'Unit', ''} for title in header]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if is_text else cell.rjust(width)
            for cell, width, is_text in zip(cells, widths, left, strict=True)
        ]
        return '  '.join(padded).rstrip()

    rule = '  '.join('-' * width for width in widths)
    return '\n'.join([line(header), rule, *(line(row) for row in zip(*columns, strict=True))])

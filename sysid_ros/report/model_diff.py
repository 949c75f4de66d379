# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a fit changed in the text of the user's model, with as many digits as it supports."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

from sysid_ros.report.numbers import rounded
from sysid_ros.results.result import CalibrationResult, ModelChange

#: Numbers of a text and of a result are the same when they differ by less than this part.
_SAME = 1e-9


class Hunk(NamedTuple):
    """What changed in one element: the attributes as they were and as they are."""

    element: str
    line: int
    old: str
    new: str


class FileDiff(NamedTuple):
    """What changed in one file."""

    file: str
    hunks: tuple[Hunk, ...]


def model_diff(result: CalibrationResult) -> tuple[FileDiff, ...]:
    """Group what was changed in the model's text by file and element, in the order of the text."""
    return tuple(
        FileDiff(file, tuple(_hunks(result, list(changes))))
        for file, changes in itertools.groupby(
            sorted(result.changes, key=lambda change: (change.file, change.line)),
            key=lambda change: change.file,
        )
    )


def _hunks(result: CalibrationResult, changes: list[ModelChange]) -> Iterator[Hunk]:
    for element, group in itertools.groupby(changes, key=lambda change: change.element):
        own = list(group)
        yield Hunk(
            element,
            own[0].line,
            ' '.join(f'{each.attribute}="{each.old}"' for each in own if each.old),
            ' '.join(f'{each.attribute}="{_rounded(result, each)}"' for each in own if each.new),
        )


def _rounded(result: CalibrationResult, change: ModelChange) -> str:
    """Return the new value, what is new of its numbers rounded to what their intervals support."""
    old = change.old.split()
    words = []
    for place, word in enumerate(change.new.split()):
        try:
            number = float(word)
        except ValueError:
            words.append(word)
            continue
        same = place < len(old) and old[place] == word
        words.append(word if same else rounded(number, _half_width(result, change, number)))
    return ' '.join(words)


def _half_width(result: CalibrationResult, change: ModelChange, number: float) -> float:
    """Return half of the interval of a number in the text; NaN where none is known.

    It is a parameter's value or a link's number, or what a parameter's target names in other units.
    """
    known = [(own.value, own.half_width) for own in result.parameters]
    known += [
        (own.value, (own.high - own.low) / 2) for link in result.links for own in link.numbers
    ]
    for value, half_width in known:
        if math.isclose(number, value, rel_tol=_SAME):
            return half_width
    written = f'{change.element}/{change.attribute}'
    for parameter in result.parameters:
        if parameter.value and any(t.partition('[')[0] == written for t in parameter.targets):
            return abs(number / parameter.value) * parameter.half_width
    return math.nan

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a new result agrees with a baseline."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from sysid_ros.errors import ResultError, nearest, some
from sysid_ros.results.result import CalibrationResult

#: What rounding may change on another machine, as a part.
ROUNDING = 1e-6
#: Settings that change no number of a fit: paths, whose content is compared, and what is done with
#: the result.
_NOT_FITTED = frozenset(
    {'model', 'bags', 'output', 'package_path', 'check', 'memory', 'gate', 'report'}
)


class ComparedQuantity(NamedTuple):
    """One quantity of a baseline and of a new result.

    ``allowed`` is the largest absolute difference that counts as agreement; ``note`` says why a
    quantity does not agree when it is not for its size.
    """

    name: str
    unit: str
    baseline: float
    value: float
    allowed: float
    agrees: bool
    note: str


def compare(
    result: CalibrationResult,
    baseline: CalibrationResult,
    tolerance: Mapping[str, float],
    held_out_factor: float,
) -> tuple[ComparedQuantity, ...]:
    """Compare every parameter and the held-out error of a result with a baseline's.

    A parameter agrees when it lies within the 95 % interval that noise alone makes of the
    baseline's, or within its tolerance, whichever is wider: what the model lacks bends both alike.
    Held-out error (training error where nothing is held out) agrees when it grew by no more than
    the factor.

    Args:
        result: The new result.
        baseline: What it must agree with.
        tolerance: Parameter name or shell pattern to an absolute difference.
        held_out_factor: At least 1.

    Raises:
        ResultError: A tolerance names no parameter.
    """
    check_tolerance(tolerance, baseline)
    found = {parameter.name: parameter for parameter in result.parameters}
    rows = []
    for expected in baseline.parameters:
        wide = [width for pattern, width in tolerance.items() if _matches(expected.name, pattern)]
        actual = found.pop(expected.name, None)
        # An interval that ends at a bound has a short side.
        low, high = expected.noise_low, expected.noise_high
        if math.isnan(low):
            low, high = expected.low, expected.high
        below, above = expected.value - low, high - expected.value
        side = below if actual is not None and actual.value < expected.value else above
        allowed = max([0.0 if math.isnan(side) else side, *wide])
        if actual is None:
            value, agrees, note = math.nan, False, 'no longer identified'
        else:
            value = actual.value
            # A rerun on the same machine differs by nothing, one elsewhere by rounding.
            agrees = abs(value - expected.value) <= max(allowed, 1e-9 * abs(expected.value))
            verdict = expected.verdict_kind, expected.confounded_with
            same = (actual.verdict_kind, actual.confounded_with) == verdict
            note = '' if same else f'now {actual.verdict}'
        rows.append(
            ComparedQuantity(
                expected.name, expected.unit, expected.value, value, allowed, agrees, note
            )
        )
    for extra in found.values():
        quantity = (extra.name, extra.unit, math.nan, extra.value)
        rows.append(ComparedQuantity(*quantity, 0.0, agrees=False, note='not in the baseline'))
    return (*rows, _held_out(result, baseline, held_out_factor))


def causes(
    result: CalibrationResult, baseline: CalibrationResult, rows: Iterable[ComparedQuantity]
) -> Iterator[str]:
    """Say, a sentence each, what is another than when a baseline was made.

    Where model, settings and recordings are the same and the numbers are not, it is the software;
    with other recordings of the same robot, it is the robot that moved beyond its intervals.

    Args:
        result: The new result.
        baseline: What it is compared with.
        rows: The comparison.
    """
    now, before = _inputs(result), _inputs(baseline)
    moved = [row.name for row in rows if not row.agrees]
    other = [
        row.name for row in rows if not math.isclose(row.value, row.baseline, rel_tol=ROUNDING)
    ]
    if now.model != before.model:
        yield f'Model changed: {Path(result.model).name}.'
    keys = [
        key
        for key, value in result.provenance.config.items()
        if key not in _NOT_FITTED and baseline.provenance.config.get(key, value) != value
    ]
    if keys:
        yield f'Configuration changed: {some(keys)}.'
    if now.bags != before.bags:
        count = len(now.bags - before.bags)
        yield f'{count} of {len(now.bags)} files of recordings are other ones.'
        if moved and now.model == before.model and not keys:
            yield f'Robot changed: {some(moved)}.'
    elif other and now.model == before.model and not keys:
        said = code_changed(result.provenance.versions, baseline.provenance.versions)
        yield f'{said}: {some(other)}.'


class _Inputs(NamedTuple):
    """Hashes of what a result was made from."""

    model: frozenset[str]
    bags: frozenset[str]


def _inputs(result: CalibrationResult) -> _Inputs:
    files = result.provenance.files
    return _Inputs(
        frozenset(file.sha256 for file in files if file.role == 'model'),
        frozenset(file.sha256 for file in files if file.role != 'model'),
    )


def code_changed(now: Mapping[str, str], before: Mapping[str, str]) -> str:
    """Say that software is what changed, and which, as far as versions tell."""
    other = [
        f'{name} {before.get(name, "none")} → {version}'
        for name, version in now.items()
        if before.get(name) != version
    ]
    return f'Code changed ({", ".join(other) or "the versions are the same"})'


def check_tolerance(tolerance: Iterable[str], baseline: CalibrationResult) -> None:
    """Check that every tolerance is for something, which is worth knowing before a long fit.

    Raises:
        ResultError: A tolerance names no parameter of the baseline.
    """
    names = [parameter.name for parameter in baseline.parameters]
    for pattern in tolerance:
        if not any(_matches(name, pattern) for name in names):
            raise ResultError(
                f'The tolerance for {pattern!r} matches no parameter; {nearest(pattern, names)}.'
            )


def _matches(name: str, pattern: str) -> bool:
    """Match a name against itself or a pattern; names themselves may hold wildcards."""
    return name == pattern or fnmatch.fnmatchcase(name, pattern)


def _held_out(
    result: CalibrationResult, baseline: CalibrationResult, factor: float
) -> ComparedQuantity:
    held_out = not math.isnan(baseline.held_out_after)
    before = baseline.held_out_after if held_out else baseline.training_after
    now = result.held_out_after if held_out else result.training_after
    return ComparedQuantity(
        'held-out error' if held_out else 'training error',
        '1',
        before,
        now,
        (factor - 1) * before,
        agrees=now <= factor * before and (result.accepted or not baseline.accepted),
        note='the result is rejected' if not result.accepted else '',
    )

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a robot changed from one result to the next, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

from sysid_ros.config import MemoryConfig
from sysid_ros.inference.drift import Difference, JointEstimate, Known, difference
from sysid_ros.model.targets import of_sequence
from sysid_ros.results.result import CalibrationResult, Drift, DriftedParameter

#: A sentence names so many changes.
_NAMED = 3


def known_of(
    result: CalibrationResult, now: Mapping[str, AbstractSet[str]], wander: float = 0.0
) -> Known:
    """Return what a result knows of parameters that are still the same.

    They are matched by name and targets; what was not determined says nothing.

    Args:
        result: The earlier one.
        now: Name to targets of the parameters now. What belongs to one recording never is the same.
        wander: Part of its value by which each may have changed since, one standard deviation.
    """
    inference = result.inference
    if inference is None:
        return Known((), JointEstimate(np.zeros(0), np.zeros((0, 0)), 1.0))
    count = len(result.parameters)
    covariance = np.array(inference.covariance).reshape(count, count)
    own = [
        place
        for place, earlier in enumerate(result.parameters)
        if now.get(earlier.name) == set(earlier.targets)
        and not any(map(of_sequence, earlier.targets))
        and np.isfinite(covariance[place, place])
        and covariance[place, place] > 0
    ]
    x = np.array([result.parameters[place].value for place in own])
    spread = covariance[np.ix_(own, own)] + np.diag((wander * x) ** 2)
    freedom = float(np.fmax(inference.effective_samples - 1.0, 1.0))
    names = tuple(result.parameters[place].name for place in own)
    return Known(names, JointEstimate(x, spread, freedom))


def drift_between(earlier: CalibrationResult, later: CalibrationResult, previous: str) -> Drift:
    """Compare two results that were found independently, from values and covariances.

    Where both were fitted to some of the same recordings they are more alike than independent ones
    would be, and a change has to be larger to be seen.

    Args:
        earlier: The one before.
        later: Its configuration's ``memory`` says with which level and wander.
        previous: Names the earlier one.
    """
    given = later.provenance.config.get('memory')
    memory = MemoryConfig.model_validate(given) if isinstance(given, dict) else MemoryConfig()
    targets = {p.name: frozenset(p.targets) for p in later.parameters}
    after = known_of(later, targets)
    before = known_of(earlier, {n: targets[n] for n in after.names}, memory.wander)
    places = [after.names.index(name) for name in before.names]
    own = after.estimate.of(places)
    try:
        seen = difference(before.estimate, own, memory.level)
    except np.linalg.LinAlgError:
        # Two estimates of which one follows from others leave no distance to judge by.
        blank = JointEstimate(own.x, np.full_like(own.covariance, np.nan), own.freedom)
        seen = difference(before.estimate, blank, memory.level)
    units = {p.name: p.unit for p in later.parameters}
    return describe(previous, before, own.x, units, seen)


def describe(
    previous: str,
    before: Known,
    values: NDArray[np.float64],
    units: Mapping[str, str],
    seen: Difference,
    consequence: str = '',
) -> Drift:
    """Return a difference with the names of what is compared, and a sentence about it.

    Args:
        previous: Names the earlier result.
        before: What it knows of (p,) parameters.
        values: (p,) values now.
        units: Unit of each, by name.
        seen: The difference.
        consequence: What follows from a change, for the end of the sentence.
    """
    rows = tuple(
        DriftedParameter(
            name=before.names[place],
            previous=float(before.estimate.x[place]),
            value=float(values[place]),
            deviations=float(seen.deviations[place]),
            changed=bool(seen.changed[place]),
        )
        for place in np.flatnonzero(seen.compared)
    )
    return Drift(
        previous=previous,
        statistic=seen.statistic,
        freedom=len(rows),
        p_value=seen.p_value,
        changed=bool(seen.changed.any()),
        sentence=_sentence(rows, units, seen.p_value, consequence),
        parameters=rows,
    )


def changes(drift: Drift, units: Mapping[str, str]) -> str:
    """Return a clause for each of the largest changes; empty where nothing changed."""
    return '; '.join(_changes(drift.parameters, units))


def _sentence(
    rows: tuple[DriftedParameter, ...],
    units: Mapping[str, str],
    p_value: float,
    consequence: str,
) -> str:
    if not rows:
        return (
            'Whether the robot changed cannot be told: the new data determine nothing that the '
            'earlier result knew.'
        )
    changed = _changes(rows, units)
    if not changed:
        return (
            f'The robot did not change by more than chance: {len(rows)} compared, '
            f'p = {p_value:.2g}.'
        )
    if not all(row.changed for row in rows):
        changed.append('nothing else did')
    if consequence:
        changed.append(consequence)
    return f'The robot changed: {"; ".join(changed)}.'


def _changes(rows: tuple[DriftedParameter, ...], units: Mapping[str, str]) -> list[str]:
    changed = sorted((row for row in rows if row.changed), key=lambda row: -abs(row.deviations))
    said = [_change(row, units[row.name]) for row in changed[:_NAMED]]
    more = len(changed) - len(said)
    if more:
        said.append(f'{more} more changed')
    return said


def _change(row: DriftedParameter, unit: str) -> str:
    relative = ''
    if row.previous:
        percent = 100 * (row.value - row.previous) / abs(row.previous)
        relative = f' ({percent:+.{_digits(percent)}f} %)'
    deviations = abs(row.deviations)
    return (
        f'{row.name} from {row.previous:.4g} to {row.value:.4g} {unit}'.rstrip()
        + f'{relative}, {deviations:.{_digits(deviations)}f} standard errors'
    )


def _digits(number: float) -> int:
    return 0 if abs(number) >= 10 else 1  # noqa: PLR2004 (two digits at least)

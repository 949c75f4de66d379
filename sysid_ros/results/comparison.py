# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Results compared: with a baseline, beside each other, over time, and before a new fit."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.schema import MemoryConfig, Role
from sysid_ros.errors import ResultError, listed, nearest
from sysid_ros.model.targets import of_sequence
from sysid_ros.results.checks import headline
from sysid_ros.results.result import (
    RESULT,
    ROLES,
    ROUNDING,
    CalibrationResult,
    Compared,
    Drift,
    ParameterResult,
    SensorError,
    Standing,
)
from sysid_ros.results.store import find, history
from sysid_ros.uncertainty.covariance import Difference, JointEstimate, Known, difference

#: Settings that change no number of a fit: paths, whose content is compared, and what is done with
#: the result.
_NOT_FITTED = frozenset(
    {'model', 'bags', 'output', 'package_path', 'check', 'memory', 'gate', 'report'}
)


# Two results


def compare(before: CalibrationResult, after: CalibrationResult, previous: str = '') -> Drift:
    """Compare the parameters of two results that were found independently, a row for each.

    Where both were fitted to some of the same recordings they are more alike than independent ones
    would be, and a change has to be larger to be seen. Level and wander are those of the later
    one's configuration; ``previous`` names the earlier one.
    """
    memory = MemoryConfig.model_validate(after.provenance.config.get('memory') or {})
    now = {p.name: p for p in after.parameters}
    targets = {name: frozenset(p.targets) for name, p in now.items()}
    new = known_of(after, targets)
    old = known_of(before, {name: targets[name] for name in new.names}, memory.wander)
    own = new.estimate.of([new.names.index(name) for name in old.names])
    try:
        seen = difference(old.estimate, own, memory.level)
    except np.linalg.LinAlgError:
        # Two estimates of which one follows from others leave no distance to judge by.
        blank = JointEstimate(own.x, np.full_like(own.covariance, np.nan), own.freedom)
        seen = difference(old.estimate, blank, memory.level)
    drift = describe(previous, old, own.x, {name: p.unit for name, p in now.items()}, seen)
    known = {row.name: row for row in drift.parameters}
    rows = []
    for then in before.parameters:
        gone = now.pop(then.name, None)
        value = math.nan if gone is None else gone.value
        unknown = Compared(name=then.name, unit=then.unit, before=then.value, after=value)
        row = known.get(then.name, unknown)
        rows.append(row.model_copy(update={'allowed': _allowed(then, value)}))
    for name, p in now.items():
        rows.append(Compared(name=name, unit=p.unit, before=math.nan, after=p.value))
    return drift.model_copy(update={'parameters': tuple(rows)})


def _allowed(before: ParameterResult, value: float) -> float:
    """Return how far noise alone may move a parameter to a value; 0 where that is not known.

    An interval that ends at a bound has a short side. What the model lacks bends both alike.
    """
    low, high = before.noise_low, before.noise_high
    if math.isnan(low):
        low, high = before.low, before.high
    side = before.value - low if value < before.value else high - before.value
    return 0.0 if math.isnan(side) else side


def known_of(
    result: CalibrationResult, now: Mapping[str, AbstractSet[str]], wander: float = 0.0
) -> Known:
    """Return what a result knows of parameters that are still the same.

    They are matched by name and targets, those of one recording never. Each may have changed since
    by the part ``wander`` of its value (standard deviation).
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
        and 0 < covariance[place, place] < math.inf
    ]
    x = np.array([result.parameters[place].value for place in own])
    spread = covariance[np.ix_(own, own)] + np.diag((wander * x) ** 2)
    freedom = float(np.fmax(inference.effective_samples - 1.0, 1.0))
    names = tuple(result.parameters[place].name for place in own)
    return Known(names, JointEstimate(x, spread, freedom))


def describe(
    previous: str,
    before: Known,
    values: NDArray[np.float64],
    units: Mapping[str, str],
    seen: Difference,
    consequence: str = '',
) -> Drift:
    """Return a difference with the names of what is compared, and a sentence about it.

    The ``previous`` result knows ``before`` of (p,) parameters that have ``values`` now. The
    sentence on a change ends with its ``consequence``.
    """
    rows = tuple(
        Compared(
            name=before.names[place],
            unit=units[before.names[place]],
            before=float(before.estimate.x[place]),
            after=float(values[place]),
            deviations=float(seen.deviations[place]),
            changed=bool(seen.changed[place]),
        )
        for place in np.flatnonzero(seen.compared)
    )
    if not rows:
        sentence = (
            'Whether the robot changed cannot be told: the new data determine nothing that the '
            'earlier result knew.'
        )
    elif said := changes(rows):
        nothing_else = '' if all(row.changed for row in rows) else '; nothing else did'
        after = f'; {consequence}' if consequence else ''
        sentence = f'The robot changed: {said}{nothing_else}{after}.'
    else:
        sentence = (
            f'The robot did not change by more than chance: {len(rows)} compared, '
            f'p = {seen.p_value:.2g}.'
        )
    return Drift(
        previous=previous,
        statistic=seen.statistic,
        freedom=len(rows),
        p_value=seen.p_value,
        changed=bool(seen.changed.any()),
        sentence=sentence,
        parameters=rows,
    )


def changes(rows: Iterable[Compared]) -> str:
    """Return a clause for each of the largest changes; empty where nothing changed."""
    changed = sorted((row for row in rows if row.changed), key=lambda row: -abs(row.deviations))
    said = []
    for row in changed:
        part = f' ({100 * (row.after / row.before - 1):+.3g} %)' if row.before else ''
        said.append(
            f'{row.name} from {row.before:.4g} to {row.after:.4g} {row.unit}'.rstrip()
            + f'{part}, {abs(row.deviations):.2g} standard errors'
        )
    more = [f'{len(said) - 3} more changed'] if len(said) > 3 else []  # noqa: PLR2004 (the largest)
    return '; '.join([*said[:3], *more])


def causes(
    after: CalibrationResult, before: CalibrationResult, cases: Iterable[Case] = ()
) -> Iterator[str]:
    """Say, a sentence each, what is another than when an earlier result was made."""
    new, old = after.provenance, before.provenance
    models = [{f.sha256 for f in made.files if f.role == 'model'} for made in (new, old)]
    changed = [Path(after.model).name] if models[0] != models[1] else []
    changed += [
        f'{key} of the configuration'
        for key, value in new.config.items()
        if key not in _NOT_FITTED and old.config.get(key, value) != value
    ]
    recordings = _recordings(after), _recordings(before)
    return what_changed(changed, recordings, (new.versions, old.versions), cases)


def what_changed(
    model: Sequence[str],
    recordings: tuple[Mapping[str, str], Mapping[str, str]],
    versions: tuple[Mapping[str, str], Mapping[str, str]],
    cases: Iterable[Case],
) -> Iterator[str]:
    """Say, a sentence each, what is another than when a baseline was made.

    Where model, settings and recordings are the same and numbers are not, it is the software; with
    other recordings, it is the robot whose parameters left what noise explains. ``model`` is what
    of the model and the settings is another; recordings, by name, and versions are now and then.
    """
    now, then = recordings
    other = [name for name, content in now.items() if then.get(name) != content]
    other += [name for name in then if name not in now]
    if model:
        yield f'Model changed: {listed(model)}.'
    if other:
        yield f'Recordings changed: {listed(other)}.'
    numbers = [case for case in cases if not math.isnan(case.value - case.baseline) and not model]
    robot = [case.name for case in numbers if not (case.bag or case.passed)] if other else []
    code = [
        f'{case.name} in {case.bag}' if case.bag else case.name
        for case in numbers
        if not math.isclose(case.value, case.baseline, rel_tol=ROUNDING)
        and (case.bag not in other if case.bag else not other)
    ]
    if robot:
        yield f'Robot changed: {listed(robot)}.'
    if code:
        newer = _newer(*versions) or 'the versions are the same'
        yield f'Code changed ({newer}): {listed(code)}.'


def _newer(now: Mapping[str, str], then: Mapping[str, str]) -> str:
    """Return the versions that are others than they were."""
    return ', '.join(
        f'{name} {then.get(name, "none")} → {version}'
        for name, version in now.items()
        if then.get(name) != version
    )


def _recordings(result: CalibrationResult) -> dict[str, str]:
    """Return what each recording is for, and the hashes of its files, by its name."""
    found: dict[str, str] = {}
    for file in result.provenance.files:
        if file.role in ROLES:
            name = Path(file.path).parent.name or file.path
            found[name] = found.get(name, file.role) + file.sha256
    return found


# A result and its baseline


class CaseKind(StrEnum):
    """What a case is about."""

    PARAMETER = 'parameter'
    ERROR = 'error'
    MODEL = 'model'
    CHECK = 'check'


class Place(NamedTuple):
    """A line of a file, from 1; 0 where only the file is known."""

    file: str
    line: int

    def __str__(self) -> str:
        """Return it as compilers do."""
        return f'{self.file}:{self.line}' if self.line else self.file


class Case(NamedTuple):
    """One thing that was checked for continuous integration; NaN where it has no number."""

    kind: CaseKind
    name: str  # A parameter, a sensor with what its error in a ``bag`` is over, or an attribute
    bag: str = ''
    value: float = math.nan
    unit: str = ''
    baseline: float = math.nan
    limit: float = math.inf  # the largest error, or the largest difference from the baseline
    low: float = math.nan  # the 95 % interval of a parameter
    high: float = math.nan
    passed: bool = True
    sentence: str = ''  # what is wrong or to be known
    place: Place | None = None  # where to mend it


def agreement(
    result: CalibrationResult,
    baseline: CalibrationResult,
    tolerance: Mapping[str, float],
    held_out_factor: float,
    places: Mapping[str, Place] = MappingProxyType({}),
) -> tuple[Case, ...]:
    """Compare every parameter and the held-out error of a result with a baseline's.

    A parameter agrees when it lies within the 95 % interval that noise alone makes of the
    baseline's, or within its tolerance, whichever is wider. Held-out error (training error where
    nothing is held out) agrees when it grew by no more than the factor. Conditions that are not met
    and were are cases, too.

    Args:
        result: The new result.
        baseline: What it must agree with.
        tolerance: Parameter name or shell pattern to an absolute difference.
        held_out_factor: At least 1.
        places: Of elements of the model, as ``joint/elbow``; that of its file is under ``''``.

    Raises:
        ResultError: A tolerance names no parameter.
    """
    check_tolerance(tolerance, baseline)
    expected, found = ({p.name: p for p in own.parameters} for own in (baseline, result))
    cases = []
    for row in compare(baseline, result).parameters:
        before, now = expected.get(row.name), found.get(row.name)
        wide = [width for pattern, width in tolerance.items() if _matches(row.name, pattern)]
        allowed = max([0.0 if math.isnan(row.allowed) else row.allowed, *wide])
        moved = row.after - row.before
        passed = abs(moved) <= max(allowed, ROUNDING * abs(row.before))
        said = []
        if before is None:
            said.append('not in the baseline')
        elif now is None:
            said.append('no longer identified')
        else:
            if not passed:
                said.append(f'moved by {moved:.3g} {row.unit}, allowed {allowed:.3g}')
            if now.verdict != before.verdict:
                said.append(f'now {now.verdict}')
        keys = [t.rpartition('/')[0] for t in (now.targets if now else (row.name,))]
        low, high = (now.low, now.high) if now else (math.nan, math.nan)
        cases.append(
            Case(
                CaseKind.PARAMETER,
                row.name,
                value=row.after,
                unit=row.unit,
                baseline=row.before,
                limit=allowed,
                low=low,
                high=high,
                passed=passed,
                sentence='; '.join(said),
                place=next((places[key] for key in (*keys, '') if key in places), None),
            )
        )
    held_out = baseline.judged_role == 'validate'
    error, was = (
        own.held_out_after if held_out else own.training_after for own in (result, baseline)
    )
    passed = error <= held_out_factor * was
    cases.append(
        Case(
            CaseKind.PARAMETER,
            'held-out error' if held_out else 'training error',
            value=error,
            unit='1',
            baseline=was,
            limit=(held_out_factor - 1) * was,
            passed=passed,
            sentence='' if passed else f'grew to {error / was:.3g} times',
            place=places.get(''),
        )
    )
    unmet = {check.name for check in baseline.gate if not check.passed}
    cases += [
        Case(
            CaseKind.CHECK,
            check.name,
            value=check.measured,
            unit=check.unit,
            limit=math.inf if math.isnan(check.limit) else check.limit,
            passed=False,
            sentence=check.text,
            place=places.get(''),
        )
        for check in result.gate
        if not check.passed and check.name not in unmet
    ]
    return tuple(cases)


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


# Several results


class Entry(NamedTuple):
    """One of several results."""

    name: str  # as it was asked for, or of its folder
    created: str
    standing: Standing
    acceptance: str  # why it has its standing
    error: str  # of the fitted model, held out where anything is
    identified: int
    parameters: tuple[ParameterResult, ...]
    drift: Drift | None  # from the first result or, over time, from the accepted one before
    sentence: str  # the same in words
    current: bool = False  # whether it is the one in use, over time


def _entry(
    name: str,
    result: CalibrationResult,
    drift: Drift | None = None,
    sentence: str = '',
    *,
    current: bool = False,
) -> Entry:
    head = headline(result)
    shown = [f'{error.after:.3g} {error.unit}' for error in head.errors]
    error = ', '.join(shown) or f'{head.after:.3g} times the noise'
    return Entry(
        name,
        result.provenance.created,
        result.standing,
        result.acceptance,
        error if head.role == 'validate' else f'{error} (training)',
        sum(parameter.identified for parameter in result.parameters),
        result.parameters,
        drift,
        sentence,
        current,
    )


def read_history(output: Path) -> tuple[Entry, ...]:
    """Read all results of a folder in order of time.

    A result that was fitted with memory says itself whether the robot changed; others are compared
    with the accepted one before.

    Raises:
        ResultError: There is none, or one cannot be read.
    """
    found: list[Entry] = []
    before: tuple[str, CalibrationResult] | None = None
    for stored in history(output):
        result = stored.load()
        drift = result.drift
        if drift is None and before is not None and result.accepted:
            drift = compare(before[1], result, before[0])
        said = changes(drift.parameters) or 'nothing' if drift and drift.freedom else ''
        found.append(_entry(stored.name, result, drift, said, current=stored.current))
        if result.accepted:
            before = stored.name, result
    return tuple(found)


class SideBySide(NamedTuple):
    """Results beside each other, in one order; those after the first are compared with it."""

    results: tuple[Entry, ...]
    role: Role  # of the errors: held out where there are any such
    errors: dict[str, tuple[SensorError | None, ...]]  # of each sensor in each result


def read_side_by_side(places: Sequence[Path]) -> SideBySide:
    """Read results, each a result.json or a folder that holds one, and compare them.

    Raises:
        ResultError: One of them cannot be read.
    """
    names = [str(place.parent if place.name == RESULT else place) for place in places]
    return side_by_side(names, [CalibrationResult.load(find(place)) for place in places])


def side_by_side(names: Sequence[str], results: Sequence[CalibrationResult]) -> SideBySide:
    """Put results beside each other, compared with the first of them."""
    first = results[0]
    entries = [_entry(names[0], first)]
    for name, result in zip(names[1:], results[1:], strict=True):
        drift = compare(first, result, names[0])
        agree = f'{drift.freedom} parameters agree, p = {drift.p_value:.2g}'
        said = changes(drift.parameters) or agree
        if not drift.freedom:
            said = 'no parameter is determined by both'
        newer = _newer(result.provenance.versions, first.provenance.versions)
        other = [*causes(result, first), *([f'Versions changed: {newer}.'] if newer else [])]
        sentence = ' '.join((f'{name} against {names[0]}: {said}.', *other))
        entries.append(_entry(name, result, drift, sentence))
    held_out = any(e.role == 'validate' for result in results for e in result.errors)
    role: Role = 'validate' if held_out else 'train'
    tables = [{e.sensor: e for e in result.errors if e.role == role} for result in results]
    sensors = dict.fromkeys(sensor for table in tables for sensor in table)
    errors = {sensor: tuple(table.get(sensor) for table in tables) for sensor in sensors}
    return SideBySide(tuple(entries), role, errors)

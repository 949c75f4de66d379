# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the curves of a fit say about it, at the rate and the precision they were measured with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.calibration import Role
from sysid_ros.estimation.noise import MAD_OF_NORMAL, noise_of
from sysid_ros.results.result import (
    ROLES,
    FitDiagnostics,
    Improvement,
    Likeness,
    SensorError,
    SequenceError,
    Standstill,
)

Values = NDArray[np.float64]

#: Units of positions, and of positions and velocities.
POSITIONS = frozenset({'rad', 'm'})
MOTION = POSITIONS | {'rad/s', 'm/s'}
#: A sensor that moves by less than this part of the most of its kind says nothing about a model.
MOVES = 0.1

#: Stretches of time that errors are compared on, in all: fewer cannot exclude chance.
_FEWEST_STRETCHES = 12
#: The time of a sequence is cut into so many stretches; its error is that of the best of them, this
#: part of all.
_STRETCHES = 100
_KEPT = 0.75
#: Fewer equal values in a row than this are no standstill.
_FEWEST_EQUAL = 4
#: Values closer than this part of a sensor's range are equal.
_EQUAL = 1e-6
#: Curves of fewer common values have no correlation.
_FEWEST_COMMON = 4
#: So many lags of an autocorrelation, at most, from one sample to this part of all.
_LAGS = 40
_LONGEST_LAG = 0.25


@dataclass(frozen=True)
class SignalCurve:
    """One component of a sensor in one sequence: (n,) times, measured, before and after.

    ``name`` is the sensor's, with the component's index where it has several; ``diverged`` is
    whether the simulation became unstable after the fit. ``band`` is how far the measured are from
    the predicted after the fit at most, with 95 %; None where that is not known. ``command`` is
    what the actuator of the sensor's joint was told at these times, in ``command_unit``.
    """

    sequence: str
    role: Role
    sensor: str
    name: str
    times: Values
    measured: Values
    before: Values
    after: Values
    diverged: bool
    band: Values | None = None
    command: Values | None = None
    command_unit: str = ''


class Memory(NamedTuple):
    """How long a residual remembers: its autocorrelation at lags in s, from so many samples."""

    lags: Values
    autocorrelation: Values
    samples: int


def rms(values: Values) -> float:
    """Return the root mean square of the finite values; NaN where there are none."""
    values = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(values**2))) if len(values) else math.nan


def sensor_errors(
    curves: Sequence[SignalCurve], units: Mapping[str, str]
) -> tuple[SensorError, ...]:
    """Return the errors and the motion of each sensor over all sequences of each role."""
    return tuple(error for role in ROLES for error in _errors_of_role(curves, units, role))


def memory(curve: SignalCurve) -> Memory:
    """Return the autocorrelation of what the fit left of a curve, at lags like a geometric series.

    A constant error is remembered for ever: the mean is not taken off. Stamps count as even. Where
    all errors are zero, or too few are known, there are no lags.
    """
    residual = curve.measured - curve.after
    known = np.isfinite(residual)
    samples, size = int(known.sum()), rms(residual)
    longest = int(_LONGEST_LAG * samples)
    if longest < 1 or not size > 0:
        return Memory(np.zeros(0), np.zeros(0), samples)
    steps = np.unique(np.round(np.geomspace(1, longest, _LAGS)).astype(int))
    scaled = np.where(known, residual / size, 0.0)
    found = np.array([np.dot(scaled[step:], scaled[:-step]) for step in steps]) / samples
    return Memory(steps * float(np.median(np.diff(curve.times))), found, samples)


def diagnose(
    curves: Sequence[SignalCurve],
    units: Mapping[str, str],
    noise: Mapping[str, float],
) -> FitDiagnostics:
    """Return what the curves say beyond the errors of single sensors."""
    sequences: dict[tuple[Role, str], list[SignalCurve]] = {}
    for curve in curves:
        sequences.setdefault((curve.role, curve.sequence), []).append(curve)
    squared = {key: _squares(own, noise) for key, own in sequences.items()}
    return FitDiagnostics(
        improvements=tuple(
            Improvement(
                role=role,
                p_value=_by_chance(
                    [found for (of, _), found in squared.items() if of == role], 'greater'
                ),
            )
            for role in ROLES
            if any(of == role for of, _ in squared)
        ),
        sequences=tuple(
            _sequence_error(role, name, found)
            for (role, name), found in squared.items()
            if np.isfinite(found.after).any()
        ),
        standstills=tuple(_standstills(curves, units)),
    )


def moving(errors: Sequence[SensorError]) -> list[SensorError]:
    """Return the positions and velocities that move by a share of the most of their kind.

    Where neither was compared, it is the forces that change so. It is enough that they should move;
    those that never do are not among them.
    """
    most: dict[str, float] = {}
    for error in errors:
        most[error.unit] = float(np.fmax(most.get(error.unit, 0.0), error.measured_deviation))
    compared = MOTION if most.keys() & MOTION else most.keys()
    return [
        error
        for error in errors
        if error.unit in compared
        and error.measured_deviation > 0
        and max(error.measured_deviation, error.predicted_deviation) > MOVES * most[error.unit]
    ]


def _errors_of_role(
    curves: Sequence[SignalCurve], units: Mapping[str, str], role: Role | None
) -> Iterator[SensorError]:
    """Yield the errors of each sensor in sequences of a role, or in all of them."""
    joined: dict[str, SignalCurve] = {}
    for name in dict.fromkeys(curve.name for curve in curves):
        own = [c for c in curves if c.name == name and role in {None, c.role}]
        if own:
            joined[name] = _joined(own)
    for name, curve in joined.items():
        own = [c for c in curves if c.name == name and role in {None, c.role}]
        known = np.isfinite(curve.measured) & np.isfinite(curve.after)
        measured, after = curve.measured[known], curve.after[known]
        deviations = math.nan, math.nan
        if len(measured):
            # The mean of equal values may be rounded, which is no motion.
            deviation = float(np.std(measured)) if np.ptp(measured) else 0.0
            deviations = deviation, float(np.std(after))
        inside = math.nan
        if curve.band is not None and len(measured):
            inside = float(np.mean(np.abs(measured - after) <= curve.band[known]))
        yield SensorError(
            sensor=name,
            unit=units[curve.sensor],
            role=curve.role,
            before=rms(curve.before - curve.measured),
            after=rms(curve.after - curve.measured),
            samples=int(np.isfinite(curve.measured).sum()),
            measured_deviation=deviations[0],
            predicted_deviation=deviations[1],
            inside=inside,
            likeness=(
                None
                if role is None or units[curve.sensor] not in MOTION
                else _likeness(curve, joined, units)
            ),
            scatter=_scatter(own),
            usual=float(np.median(np.abs(measured - after))) / MAD_OF_NORMAL
            if len(after)
            else math.nan,
            autocorrelation=_autocorrelation(own),
            by_chance=math.nan
            if role is None
            else _by_chance([_squares([each], {each.sensor: 1.0}) for each in own], 'less'),
        )


def _scatter(curves: Sequence[SignalCurve]) -> float:
    """Return what a sensor errs by: what changes from sample to sample as no motion does.

    That of what was measured, or of what is left of it where this is less: commands that jump
    roughen the one, and a model that errs in jumps the other. An encoder says no more than its
    steps.
    """
    measured = [c.measured[np.isfinite(c.measured)] for c in curves]
    residuals = [c.measured - c.after for c in curves]
    residuals = [own[np.isfinite(own)] for own in residuals]
    if not any(map(len, residuals)):
        return math.nan
    jumps = np.abs(np.concatenate([np.diff(own) for own in measured]))
    step = float(jumps[jumps > 0].min(initial=np.inf))
    least = step / math.sqrt(12) if math.isfinite(step) else 0.0
    return min(noise_of(measured), max(noise_of(residuals), least))


def _autocorrelation(curves: Sequence[SignalCurve]) -> float:
    """Return that of neighbouring residuals about zero; NaN where there are none."""
    residuals = [c.measured - c.after for c in curves]
    products = np.concatenate([own[1:] * own[:-1] for own in residuals])
    squares = np.concatenate([own**2 for own in residuals])
    products, squares = products[np.isfinite(products)], squares[np.isfinite(squares)]
    if not len(products) or not squares.any():
        return math.nan
    return float(np.mean(products) / np.mean(squares))


def _joined(curves: Sequence[SignalCurve]) -> SignalCurve:
    """Put the curves of one component in several sequences one after the other."""
    names = ['times', 'measured', 'before', 'after']
    if all(curve.band is not None for curve in curves):
        names.append('band')
    parts: dict[str, Any] = {
        part: np.concatenate([getattr(curve, part) for curve in curves]) for part in names
    }
    parts.setdefault('band', None)
    return replace(curves[0], diverged=any(curve.diverged for curve in curves), **parts)


def _likeness(
    curve: SignalCurve, others: Mapping[str, SignalCurve], units: Mapping[str, str]
) -> Likeness:
    """Compare what the nominal model predicts for a sensor with what its like measured."""
    like = {
        name: _correlation(curve.before, other.measured)
        for name, other in others.items()
        if units[other.sensor] == units[curve.sensor]
    }
    best = max(like, key=lambda name: abs(like[name]))
    apart = [abs(value) for name, value in like.items() if name != curve.name]
    return Likeness(
        own=like[curve.name],
        best=best,
        correlation=like[best],
        second=max(apart, default=math.nan),
    )


def _correlation(one: Values, other: Values) -> float:
    """Return the correlation of two curves; 0 where they cannot be compared or do not move."""
    if len(one) != len(other):
        return 0.0
    known = np.isfinite(one) & np.isfinite(other)
    one, other = one[known], other[known]
    if len(one) < _FEWEST_COMMON or not np.ptp(one) or not np.ptp(other):
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


class _Squares(NamedTuple):
    """Squared residuals of all sensors in one sequence, in units of the noise: three (n,) arrays.

    NaN where there is no residual.
    """

    times: Values
    before: Values
    after: Values


def _squares(curves: Sequence[SignalCurve], noise: Mapping[str, float]) -> _Squares:
    joined = _joined(curves)
    sigma = np.concatenate(
        [np.full(len(curve.times), noise.get(curve.sensor, math.nan)) for curve in curves]
    )
    before, after = (
        ((predicted - joined.measured) / sigma) ** 2 for predicted in (joined.before, joined.after)
    )
    before[~np.isfinite(before)] = after[~np.isfinite(after)] = np.nan
    return _Squares(joined.times, before, after)


def _by_chance(sequences: Sequence[_Squares], nominal: Literal['greater', 'less']) -> float:
    """Return how likely chance makes the nominal model's errors on stretches of time differ so.

    One-sided signed-rank test (Wilcoxon, Biometrics Bulletin 1, 1945) on the mean squares of
    stretches, which are much longer than residuals remember.
    """
    from scipy.stats import wilcoxon  # noqa: PLC0415 (slow to import)

    pieces = max(math.ceil(_FEWEST_STRETCHES / len(sequences)), 1)
    pairs = []
    for found in sequences:
        both = np.isfinite(found.before + found.after)
        for low, high in pairwise(np.linspace(found.times.min(), found.times.max(), pieces + 1)):
            chosen = (found.times >= low) & (found.times <= high) & both
            if chosen.any():
                pairs.append((np.mean(found.before[chosen]), np.mean(found.after[chosen])))
    before, after = np.array(pairs).reshape(-1, 2).T
    if np.array_equal(before, after):
        return 1.0
    return float(wilcoxon(before, after, alternative=nominal).pvalue)


def _sequence_error(role: Role, name: str, found: _Squares) -> SequenceError:
    error, before = (_usual(found.times, squares) for squares in (found.after, found.before))
    return SequenceError(sequence=name, role=role, error=error, before=before)


def _usual(times: Values, squares: Values) -> float:
    """Return the root mean square over stretches of time without the worst quarter of them.

    A command that came late or a knock is no other robot.
    """
    known = np.isfinite(squares)
    if not known.any():
        return math.nan
    times, squares = times[known], squares[known]
    edges = np.linspace(times.min(), times.max(), _STRETCHES + 1)
    stretch = np.searchsorted(edges[1:-1], times)
    count = np.bincount(stretch, minlength=_STRETCHES)
    total = np.bincount(stretch, squares, minlength=_STRETCHES)
    ordered = np.sort(total[count > 0] / count[count > 0])
    kept = ordered[: math.ceil(_KEPT * len(ordered))]
    return float(np.sqrt(np.mean(kept)))


def _standstills(curves: Sequence[SignalCurve], units: Mapping[str, str]) -> Iterator[Standstill]:
    """Yield, of each position that moves, the standstill in which it should move most."""
    for error in moving(list(_errors_of_role(curves, units, None))):
        if error.unit not in POSITIONS:
            continue
        own = [curve for curve in curves if curve.name == error.sensor]
        values = np.concatenate([curve.measured for curve in own])
        extent = float(np.nanmax(values) - np.nanmin(values))
        steps = np.concatenate([np.abs(np.diff(curve.measured)) for curve in own])
        runs = (
            (float(np.ptp(curve.after[run])), curve, run)
            for curve in own
            for run in _equal_runs(curve.measured, _EQUAL * extent)
        )
        found = [entry for entry in runs if math.isfinite(entry[0])]
        if not found:
            continue
        movement, curve, run = max(found, key=lambda entry: entry[0])
        yield Standstill(
            sensor=error.sensor,
            unit=error.unit,
            sequence=curve.sequence,
            role=curve.role,
            start=float(curve.times[run.start]),
            seconds=float(curve.times[run.stop - 1] - curve.times[run.start]),
            predicted_movement=movement,
            measured_range=extent,
            resolution=min(steps[steps > _EQUAL * extent].tolist(), default=0.0),
        )


def _equal_runs(values: Values, tolerance: float) -> Iterator[slice]:
    """Yield the stretches in which values stay the same within a tolerance."""
    rounded = np.round(values / tolerance)
    edges = np.concatenate([[0], np.flatnonzero(np.diff(rounded) != 0) + 1, [len(values)]])
    for place in np.flatnonzero(np.diff(edges) >= _FEWEST_EQUAL):
        if np.isfinite(values[edges[place]]):
            yield slice(int(edges[place]), int(edges[place + 1]))

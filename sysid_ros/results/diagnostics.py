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

from sysid_ros.config.schema import Role
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
_POSITIONS = frozenset({'rad', 'm'})
MOTION = _POSITIONS | {'rad/s', 'm/s'}
#: A sensor that moves by less than this part of the most of its kind says nothing about a model.
_MOVES = 0.1

#: Stretches of time that errors are compared on, in all: fewer cannot exclude chance.
_FEWEST_STRETCHES = 12
#: The time of a sequence is cut into so many stretches; its error is that of the best of them, this
#: part of all.
_STRETCHES, _KEPT = 100, 0.75
#: Fewer equal values in a row are no standstill, and fewer common ones have no correlation.
_FEWEST = 4
#: Values closer than this part of a sensor's range are equal.
_EQUAL = 1e-6
#: So many lags of an autocorrelation, at most, from one sample to this part of all.
_LAGS, _LONGEST_LAG = 40, 0.25


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

    @property
    def residual(self) -> Values:
        """What the fit left: measured less predicted."""
        return self.measured - self.after


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
    residual = curve.residual
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
            SequenceError(
                sequence=name,
                role=role,
                error=_usual(found.times, found.after),
                before=_usual(found.times, found.before),
            )
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
        and max(error.measured_deviation, error.predicted_deviation) > _MOVES * most[error.unit]
    ]


def _errors_of_role(
    curves: Sequence[SignalCurve], units: Mapping[str, str], role: Role | None
) -> Iterator[SensorError]:
    """Yield the errors of each sensor in sequences of a role, or in all of them."""
    parts: dict[str, list[SignalCurve]] = {}
    for curve in curves:
        if role in {None, curve.role}:
            parts.setdefault(curve.name, []).append(curve)
    joined = {name: _joined(own) for name, own in parts.items()}
    for name, curve in joined.items():
        known = np.isfinite(curve.residual)
        measured, after, residual = (
            values[known] for values in (curve.measured, curve.after, curve.residual)
        )
        some = len(measured) > 0
        inside = math.nan
        if curve.band is not None and some:
            inside = float(np.mean(np.abs(residual) <= curve.band[known]))
        moves = some and np.ptp(measured) > 0  # the deviation of equal values may be rounding
        error = SensorError(
            sensor=name,
            unit=units[curve.sensor],
            role=curve.role,
            before=rms(curve.before - curve.measured),
            after=rms(curve.residual),
            samples=int(np.isfinite(curve.measured).sum()),
            measured_deviation=float(np.std(measured)) if moves else 0.0 if some else math.nan,
            predicted_deviation=float(np.std(after)) if some else math.nan,
            inside=inside,
            scatter=_scatter(parts[name]),
            usual=float(np.median(np.abs(residual))) / MAD_OF_NORMAL if some else math.nan,
            autocorrelation=_autocorrelation(parts[name]),
        )
        if role is None:
            yield error
            continue
        squares = [_squares([each], {each.sensor: 1.0}) for each in parts[name]]
        update: dict[str, Any] = {'by_chance': _by_chance(squares, 'less')}
        if units[curve.sensor] in MOTION:
            update['likeness'] = _likeness(curve, joined, units)
        yield error.model_copy(update=update)


def _scatter(curves: Sequence[SignalCurve]) -> float:
    """Return what a sensor errs by: what changes from sample to sample as no motion does.

    That of what was measured, or of what is left of it where this is less: commands that jump
    roughen the one, and a model that errs in jumps the other. An encoder says no more than its
    steps.
    """
    measured = [c.measured[np.isfinite(c.measured)] for c in curves]
    residuals = [c.residual[np.isfinite(c.residual)] for c in curves]
    if not any(map(len, residuals)):
        return math.nan
    jumps = np.abs(np.concatenate([np.diff(own) for own in measured]))
    step = float(jumps[jumps > 0].min(initial=np.inf))
    least = step / math.sqrt(12) if math.isfinite(step) else 0.0
    return min(noise_of(measured), max(noise_of(residuals), least))


def _autocorrelation(curves: Sequence[SignalCurve]) -> float:
    """Return that of neighbouring residuals about zero; NaN where there are none."""
    products = np.concatenate([c.residual[1:] * c.residual[:-1] for c in curves])
    size = rms(np.concatenate([c.residual for c in curves]))
    products = products[np.isfinite(products)]
    return float(np.mean(products)) / size**2 if len(products) and size > 0 else math.nan


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
    if len(one) < _FEWEST or not np.ptp(one) or not np.ptp(other):
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


class _Squares(NamedTuple):
    """Squared residuals of all sensors in one sequence, in units of the noise; NaN for none."""

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
        if error.unit not in _POSITIONS:
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
    for place in np.flatnonzero(np.diff(edges) >= _FEWEST):
        if np.isfinite(values[edges[place]]):
            yield slice(int(edges[place]), int(edges[place + 1]))

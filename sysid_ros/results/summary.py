# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a fit and its curves say, at the rate and precision measured, as a result to be judged."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.health import ERRORS, RESPONSE_S
from sysid_ros.config.schema import Role, VerdictKind
from sysid_ros.fit.noise import MAD_OF_NORMAL, noise_of
from sysid_ros.results.links import links
from sysid_ros.results.result import (
    FEWEST,
    FROM_RESIDUALS,
    MOST,
    MOTION,
    POSITIONS,
    ROLES,
    ROUNDING,
    SOME,
    Burst,
    CalibrationResult,
    FileHash,
    FitDiagnostics,
    Fold,
    HorizonPoint,
    Improvement,
    InferenceSummary,
    Likeness,
    NoiseScale,
    ParameterResult,
    Provenance,
    SensorError,
    SequenceError,
    SignalPlot,
    SolverSummary,
    Standstill,
    StartKind,
    moving,
)
from sysid_ros.uncertainty.inference import Identification
from sysid_ros.version import __version__

Values = NDArray[np.float64]

#: Points that a report can show in all, and of one curve.
_PLOT_POINTS, _POINTS = 100_000, 1000
#: Stretches of time that errors are compared on, in all: fewer cannot exclude chance.
_FEWEST_STRETCHES = 12
#: An autocorrelation has so many lags at most.
_LAGS = 40


@dataclass(frozen=True)
class SignalCurve:
    """One component of a sensor in one sequence: (n,) times, measured, before and after."""

    sequence: str
    role: Role
    sensor: str
    name: str  # the sensor's, with the component's index where it has several
    times: Values
    measured: Values
    before: Values
    after: Values
    diverged: bool  # whether the simulation became unstable after the fit
    band: Values | None = None  # how far measured are from ``after`` at most, with 95 %, if known
    command: Values | None = None  # to the actuator of the sensor's joint at these times
    command_unit: str = ''

    @property
    def residual(self) -> Values:
        """What the fit left: measured less predicted."""
        return self.measured - self.after


class Validation(NamedTuple):
    """What a fit is worth on data that it did not see, and what to know of that, in sentences."""

    folds: tuple[Fold, ...] = ()
    horizon: tuple[HorizonPoint, ...] = ()
    warnings: tuple[str, ...] = ()


def summarise(
    model: str,
    fit: Identification,
    curves: Sequence[SignalCurve],
    units: Mapping[str, str],
    provenance: Provenance,
    *,
    backend: str,
    loss: str,
    advice: Callable[[str], str] | None = None,
) -> CalibrationResult:
    """Return what a fit found; what its recordings, tests and memory say is not in it yet.

    The curves are of all sequences. ``advice`` says what to record for a parameter, by its name.
    """
    held_out, training = (_whitened(curves, fit.noise, role) for role in ('validate', 'train'))
    solution, found = fit.solution, fit.inference
    parameters, inference = tuple(_parameters(fit, advice)), _inference(fit)
    noises = {noise.sensor: noise for noise in found.noises}
    return CalibrationResult(
        model=model,
        parameters=parameters,
        held_out_before=held_out[0],
        held_out_after=held_out[1],
        training_before=training[0],
        training_after=training[1],
        errors=sensor_errors(curves, units),
        noise=tuple(
            NoiseScale(
                sensor=sensor,
                unit=units[sensor],
                sigma=sigma,
                source='configuration' if sensor in fit.known_noise else FROM_RESIDUALS,
                **{
                    key: getattr(noises[sensor], key)
                    for key in ('samples', 'effective', 'autocorrelation')
                    if sensor in noises
                },
            )
            for sensor, sigma in sorted(fit.noise.items())
        ),
        plots=tuple(thinned_plots(curves, units)),
        topics=(),
        health=(),
        solver=SolverSummary(
            backend=backend,
            loss=loss,
            status=solution.status,
            message=solution.message,
            success=solution.success,
            iterations=len(solution.trace),
            rollouts=fit.rollouts,
            diverged=fit.diverged,
            initial_cost=solution.trace[0].cost if solution.trace else math.nan,
            final_cost=solution.cost,
            seconds=fit.seconds,
            trace=solution.trace,
            central=solution.trace[-1].central if solution.trace else (),
            starts=fit.attempts,
            start=StartKind(fit.start),
            start_sentence=fit.start_sentence,
            window=fit.window,
            left=found.left,
        ),
        provenance=provenance,
        inference=inference,
        links=links(parameters, inference),
        combinations=found.combinations,
        diverged=tuple(dict.fromkeys(curve.sequence for curve in curves if curve.diverged)),
        diagnostics=diagnose(curves, units, fit.noise),
    )


def versions_now() -> dict[str, str]:
    """Return the versions of this software and of what it computes with."""
    libraries = {name: importlib.metadata.version(name) for name in ('numpy', 'scipy', 'rosbags')}
    # MuJoCo comes in distributions of several names.
    return {'sysid_ros': __version__, 'mujoco': mujoco.__version__, **libraries}


def provenance_now(
    command: str,
    config: dict[str, object],
    files: tuple[FileHash, ...],
    input_mode: str,
    versions: Mapping[str, str] | None = None,
) -> Provenance:
    """Return the provenance of a result that is made now; ``versions`` are of other libraries."""
    return Provenance(
        created=dt.datetime.now(dt.UTC).isoformat(timespec='seconds'),
        versions={**versions_now(), **(versions or {})},
        files=files,
        command=command,
        config=config,
        input_mode=input_mode,
    )


def _whitened(
    curves: Sequence[SignalCurve], noise: Mapping[str, float], role: Role
) -> tuple[float, float]:
    """Return the root mean square residual before and after, in units of the noise."""
    chosen = [curve for curve in curves if curve.role == role and curve.sensor in noise]
    if not chosen:
        return math.nan, math.nan
    before = np.concatenate([(c.before - c.measured) / noise[c.sensor] for c in chosen])
    after = np.concatenate([(c.after - c.measured) / noise[c.sensor] for c in chosen])
    return rms(before), rms(after)


def _parameters(
    fit: Identification, advice: Callable[[str], str] | None
) -> Iterator[ParameterResult]:
    rows = zip(fit.parameters, fit.solution.x, fit.intervals, strict=True)
    for parameter, value, interval in rows:
        explanation = interval.explanation
        if advice is not None and interval.verdict_kind is not VerdictKind.IDENTIFIED:
            explanation = f'{explanation} {advice(parameter.name)}'.strip()
        yield ParameterResult(
            name=parameter.name,
            targets=tuple(target.path for target in parameter.targets),
            unit=parameter.unit,
            initial=parameter.nominal,
            value=float(value),
            bounds=(parameter.min_value, parameter.max_value),
            **{**vars(interval), 'explanation': explanation},
        )


def _inference(fit: Identification) -> InferenceSummary:
    count, found = len(fit.parameters), fit.inference
    covariance = found.covariance[:count, :count]
    deviation = np.sqrt(np.diag(covariance))
    with np.errstate(invalid='ignore'):
        correlation = covariance / np.outer(deviation, deviation)
    return InferenceSummary(
        method=found.method,
        samples=sum(noise.samples for noise in found.noises),
        effective_samples=found.effective,
        covariance=covariance.tolist(),
        correlation=correlation.tolist(),
        notes=found.notes,
        all_at_once=found.all_at_once,
        disagreement=found.disagreement,
        lacking=found.lacking,
    )


def thinned_plots(curves: Sequence[SignalCurve], units: Mapping[str, str]) -> Iterator[SignalPlot]:
    """Yield curves with as many points and digits as a plot can show."""
    points = min(_PLOT_POINTS // max(len(curves), 1), _POINTS)
    for curve in curves:
        stride = math.ceil(len(curve.times) / max(points, 1)) or 1
        lags, autocorrelation = memory(curve)
        shown = {
            name: _written(getattr(curve, name)[::stride])
            for name in ('times', 'measured', 'before', 'after', 'band', 'command')
            if getattr(curve, name) is not None
        }
        yield SignalPlot(
            sequence=curve.sequence,
            role=curve.role,
            sensor=curve.name,
            unit=units[curve.sensor],
            command_unit=curve.command_unit,
            lags=_written(lags),
            autocorrelation=_written(autocorrelation),
            samples=int(np.isfinite(curve.residual).sum()),
            **shown,
        )


def _written(values: Values) -> tuple[float, ...]:
    """Return values with six digits, which is what a plot can show."""
    return tuple(float(f'{value:g}') for value in values.tolist())


# What curves say


def rms(values: Values) -> float:
    """Return the root mean square of the finite values; NaN where there are none."""
    values = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(values**2))) if len(values) else math.nan


def sensor_errors(
    curves: Sequence[SignalCurve], units: Mapping[str, str]
) -> tuple[SensorError, ...]:
    """Return the errors and the motion of each sensor over all sequences of each role."""
    return tuple(error for role in ROLES for error in _errors_of_role(curves, units, role))


def memory(curve: SignalCurve) -> tuple[Values, Values]:
    """Return lags in s, like a geometric series, and the autocorrelation of the residual at them.

    A constant error is remembered for ever: the mean is not taken off. Stamps count as even. Where
    all errors are zero, or too few are known, there are no lags.
    """
    residual = curve.residual
    known = np.isfinite(residual)
    samples, size = int(known.sum()), rms(residual)
    longest = int(SOME * samples)
    if longest < 1 or not size > 0:
        return np.zeros(0), np.zeros(0)
    steps = np.unique(np.round(np.geomspace(1, longest, _LAGS)).astype(int))
    scaled = np.where(known, residual / size, 0.0)
    found = np.array([np.dot(scaled[step:], scaled[:-step]) for step in steps]) / samples
    return steps * float(np.median(np.diff(curve.times))), found


def diagnose(
    curves: Sequence[SignalCurve], units: Mapping[str, str], noise: Mapping[str, float]
) -> FitDiagnostics:
    """Return what the curves say beyond the errors of single sensors."""
    sequences: dict[tuple[Role, str], list[SignalCurve]] = {}
    for curve in curves:
        sequences.setdefault((curve.role, curve.sequence), []).append(curve)
    squared = {key: _squares(own, noise) for key, own in sequences.items()}
    by_role = {role: [own for (of, _), own in squared.items() if of == role] for role in ROLES}
    return FitDiagnostics(
        improvements=tuple(
            Improvement(role=role, p_value=_by_chance(own)) for role, own in by_role.items() if own
        ),
        sequences=tuple(
            SequenceError(
                sequence=name, role=role, error=_usual(own.after), before=_usual(own.before)
            )
            for (role, name), own in squared.items()
            if np.isfinite(own.after).any()
        ),
        standstills=tuple(_standstills(curves, units)),
        burst=_burst({name: own for (role, name), own in squared.items() if role == 'train'}),
    )


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
        found: dict[str, Any] = {}
        known = np.isfinite(curve.residual)
        if known.any():
            measured, size = curve.measured[known], np.abs(curve.residual[known])
            # The deviation of equal values may be rounding.
            found['measured_deviation'] = float(np.std(measured)) if np.ptp(measured) > 0 else 0.0
            found['predicted_deviation'] = float(np.std(curve.after[known]))
            found['usual'] = float(np.median(size)) / MAD_OF_NORMAL
            if curve.band is not None:
                found['inside'] = float(np.mean(size <= curve.band[known]))
        if role is not None and units[curve.sensor] in MOTION:
            found['likeness'] = _likeness(curve, joined, units)
        yield SensorError(
            sensor=name,
            unit=units[curve.sensor],
            role=curve.role,
            before=rms(curve.before - curve.measured),
            after=rms(curve.residual),
            samples=int(np.isfinite(curve.measured).sum()),
            scatter=_scatter(parts[name]),
            autocorrelation=_autocorrelation(parts[name]),
            **found,
        )


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
    parts: dict[str, Any] = {'band': None}
    for name in ('times', 'measured', 'before', 'after', 'band'):
        own = [getattr(curve, name) for curve in curves]
        if all(values is not None for values in own):
            parts[name] = np.concatenate(own)
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
    second = max(apart, default=math.nan)
    return Likeness(own=like[curve.name], best=best, correlation=like[best], second=second)


def _correlation(one: Values, other: Values) -> float:
    """Return the correlation of two curves; 0 where they cannot be compared or do not move."""
    if len(one) != len(other):
        return 0.0
    known = np.isfinite(one) & np.isfinite(other)
    one, other = one[known], other[known]
    if len(one) < FEWEST or not np.ptp(one) or not np.ptp(other):
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


class _Squares(NamedTuple):
    """Squared residuals of all sensors in one sequence, in units of the noise; NaN for none."""

    times: Values
    before: Values
    after: Values


def _squares(curves: Sequence[SignalCurve], noise: Mapping[str, float]) -> _Squares:
    joined = _joined(curves)
    sigmas = [noise.get(curve.sensor, math.nan) for curve in curves]
    sigma = np.repeat(sigmas, [len(curve.times) for curve in curves])
    before, after = (
        ((predicted - joined.measured) / sigma) ** 2 for predicted in (joined.before, joined.after)
    )
    before[~np.isfinite(before)] = after[~np.isfinite(after)] = np.nan
    return _Squares(joined.times, before, after)


def _by_chance(sequences: Sequence[_Squares]) -> float:
    """Return how likely chance lets errors on stretches of time fall so from the nominal model's.

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
    return float(wilcoxon(before, after, alternative='greater').pvalue)


def _usual(squares: Values) -> float:
    """Return the root mean square of most samples, without the worst.

    A command that came late or a knock is no other robot.
    """
    known = np.sort(squares[np.isfinite(squares)])
    most = known[: math.ceil(MOST * len(known))]
    return float(np.sqrt(np.mean(most))) if len(most) else math.nan


def _burst(sequences: Mapping[str, _Squares]) -> Burst | None:
    """Find where errors are largest, if that is far more than usual: a push, a contact, a knock."""
    errors = [_usual(own.after) for own in sequences.values()]
    usual = float(np.median(errors)) if errors else math.nan
    worst = None
    if not usual > 0:
        return None
    for name, own in sequences.items():
        known = np.isfinite(own.after)
        stretch = ((own.times[known] - own.times.min()) / RESPONSE_S).astype(int)
        if not len(stretch):
            continue
        counts = np.bincount(stretch)
        means = np.bincount(stretch, own.after[known]) / np.maximum(counts, 1)
        times = np.sqrt(means) / usual
        place = int(np.argmax(times))
        if times[place] > ERRORS and (worst is None or times[place] > worst.times):
            quiet = np.flatnonzero(times <= ERRORS)
            begin = int(quiet[quiet < place].max(initial=-1)) + 1
            end = int(quiet[quiet > place].min(initial=len(times)))
            span = (float(own.times.min()) + RESPONSE_S * np.array([begin, end])).tolist()
            worst = Burst(sequence=name, begin=span[0], end=span[1], times=float(times[place]))
    return worst


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
            for run in _equal_runs(curve.measured, ROUNDING * extent)
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
            resolution=min(steps[steps > ROUNDING * extent].tolist(), default=0.0),
        )


def _equal_runs(values: Values, tolerance: float) -> Iterator[slice]:
    """Yield the stretches in which values stay the same within a tolerance."""
    rounded = np.round(values / tolerance)
    edges = np.concatenate([[0], np.flatnonzero(np.diff(rounded) != 0) + 1, [len(values)]])
    for place in np.flatnonzero(np.diff(edges) >= FEWEST):
        if np.isfinite(values[edges[place]]):
            yield slice(int(edges[place]), int(edges[place + 1]))

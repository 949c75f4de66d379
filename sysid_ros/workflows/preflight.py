# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a fit would say: intervals, verdicts and what tells them, from its first steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.health import HealthFinding
from sysid_ros.alignment.inspection import inspect
from sysid_ros.bags import BagColumns
from sysid_ros.config.schema import CalibrationConfig, Role, VerdictKind
from sysid_ros.errors import FitError
from sysid_ros.fit.linear import Linear, threshold
from sysid_ros.fit.noise import estimate_noise
from sysid_ros.fit.observer import Observer
from sysid_ros.fit.residuals import Residuals
from sysid_ros.fit.solver import ROUGH_TOLERANCE
from sysid_ros.fit.windows import LOST, UNEXPLAINED, judged, roughness_at, unexplained
from sysid_ros.model.targets import Unknown
from sysid_ros.simulation.prediction import make_simulator, predict
from sysid_ros.uncertainty.covariance import QUANTILE
from sysid_ros.uncertainty.inference import Identification, identify
from sysid_ros.uncertainty.verdicts import Combination, Interval
from sysid_ros.workflows.estimators import estimated, forces_tell
from sysid_ros.workflows.fitting import (
    Job,
    begun_at,
    led_by_parts,
    options_of,
    thinned,
    with_timestep,
)
from sysid_ros.workflows.problem import Problem, load, mapping_of, unlike_stamps

#: So many steps of a fit are made at most.
STEPS = 20
#: What widens no interval by more than this factor when it is left out adds nothing.
NOTHING = 1.05

METHOD = f'as at most {STEPS} steps of a fit leave it'


class InformationSource(NamedTuple):
    """A sensor or a bag, and what would be lost without it."""

    name: str
    #: (p,) factor by which the interval of each parameter would be wider without it; infinite where
    #: it alone tells, NaN for parameters without an interval.
    growth: tuple[float, ...]

    @property
    def adds_nothing(self) -> bool:
        """Whether no interval would be visibly wider without it."""
        known = np.array([g for g in self.growth if not np.isnan(g)])
        return len(known) > 0 and bool(np.all(known < NOTHING))


class PredictedParameter(NamedTuple):
    """What is to be expected of one parameter."""

    name: str
    unit: str
    nominal: float
    half: float  # half-width of the 95 % interval; NaN where there would be none
    verdict: str  # as after a fit, in words
    explanation: str  # what is determined instead, and what to record; empty where identified
    verdict_kind: VerdictKind | None  # None where simulations diverge and nothing can be said
    value: float = np.nan  # where it was judged; NaN where it was not
    white: float = np.nan  # the half-width as if residuals were independent


@dataclass(frozen=True)
class Preflight:
    """What bags and configuration say before a fit."""

    parameters: tuple[PredictedParameter, ...]  # in the order of the configuration
    combinations: tuple[Combination, ...] = ()  # determined of parameters that are confounded
    #: What each sensor and each bag tells; none where the values rest on windows.
    sensors: tuple[InformationSource, ...] = ()
    bags: tuple[InformationSource, ...] = ()
    noise: dict[str, float] = dataclasses.field(default_factory=dict)  # by sensor, in its unit
    health: tuple[HealthFinding, ...] = ()  # of the bags
    unstable: tuple[str, ...] = ()  # training sequences on which the nominal model diverges
    dead: tuple[str, ...] = ()  # sensors that never move
    samples: int = 0  # measured values that would be compared
    method: str = METHOD  # what the intervals assume
    notes: tuple[str, ...] = ()  # of the model beside its file
    diverging: str = ''  # why nothing can be said of any parameter, and what to do
    instead: str = ''  # the estimator that says more then

    @property
    def doubtful(self) -> tuple[str, ...]:
        """Names of parameters that would not be identified."""
        return tuple(
            p.name for p in self.parameters if p.verdict_kind is not VerdictKind.IDENTIFIED
        )


def preflight(config: CalibrationConfig, observer: Observer) -> Preflight:
    """Read the bags of a configuration and predict what a fit would say."""
    inspected: list[HealthFinding] = []

    def look(bag: BagColumns, role: Role, model: mujoco.MjModel) -> None:
        if role == 'train':
            found = inspect(bag, model, mapping=mapping_of(config), stamps=config.stamps)
            inspected.extend(found.findings)

    problem = load(config, observer, look)
    seen = estimated(config, problem)
    compared = [f'Compared are {seen.sentence}.'] if seen.sentence else []
    found, _ = predicted(config, seen.problem, observer)
    health = [h for r in problem.recordings for h in r.alignment.health]
    known = {(item.bag, item.subject, item.kind) for item in health}
    health += [h for h in inspected if (h.bag, h.subject, h.kind) not in known]
    return dataclasses.replace(
        found,
        health=(*health, *unlike_stamps(problem.recordings)),
        notes=(*problem.notes, *compared),
    )


def predicted(
    config: CalibrationConfig,
    problem: Problem,
    observer: Observer,
    begun: Identification | None = None,
) -> tuple[Preflight, Identification | None]:
    """Predict intervals, verdicts and sources from the first steps of a fit.

    What the model lacks and how far nominal values are off is in what was measured: a few steps
    leave of the residuals about what the fit will leave, in size and in time. So all that is said
    here is what the fit would say if it ended there. Sequences on which simulations of the
    nominal model diverge are left out. Steps go on from ``begun``, those with the same recordings;
    the steps are returned, too, None where simulations diverge.
    """
    observer.stage(f'taking the first steps of a fit, {len(problem.parameters)} parameters')
    job, asked = Job.begin(config, observer), problem.parameters
    if begun is None:
        problem, led = led_by_parts(job, problem)
    else:
        ended = zip(begun.unknowns, begun.values.tolist(), strict=True)
        problem, led = begun_at(problem, {unknown.name: x for unknown, x in ended}), ''
    problem, long = thinned(problem)
    problem = with_timestep(problem, config.solver, long=bool(long))
    training, parameters = problem.sequences('train'), problem.parameters
    if not training or not parameters:
        raise FitError(
            f'Nothing to predict: {len(training)} training sequences and '
            f'{len(parameters)} parameters.'
        )
    options = options_of(job, problem)
    steps = min(STEPS, options.settings.max_iterations)
    settings = dataclasses.replace(
        options.settings, max_iterations=steps, accuracy=ROUGH_TOLERANCE, rough=True
    )
    options = dataclasses.replace(options, settings=settings, starts=1, led=bool(led))
    threads, drives = config.solver.threads, problem.servos
    nominal = np.array([unknown.nominal for unknown in parameters])
    each = predict(problem.spec, training, parameters, nominal, threads, drives=drives)
    unstable = [run.name for run, own in zip(training, each, strict=True) if own.diverged[0]]
    stable = [run for run in training if run.name not in unstable]
    if not stable:
        instead = 'estimator: torque' if forces_tell(problem) else 'shorter segments'
        raise FitError(
            f'The simulation of every training sequence becomes unstable at the nominal values, '
            f'as that of {unstable[0]!r}; expected values nearer to the robot, a smaller timestep, '
            f'or {instead}.'
        )
    # Windows that grow begin where motion can be predicted still.
    if not options.windowed and options.start != 'windows' and stable[0].motion is None:
        with make_simulator(problem.spec, parameters, stable, threads, drives=drives) as simulator:
            residuals = Residuals(simulator, estimate_noise(simulator.runs))
            rough = judged(residuals, nominal).rough
            if rough.all():
                return _lost(problem, unstable, _diverging(residuals, nominal, 0.0)), None
        unstable += [run.name for run, lost in zip(stable, rough, strict=True) if lost]
        stable = [run for run, lost in zip(stable, rough, strict=True) if not lost]
    found = identify(
        problem.spec, parameters, stable, options=options, begun=begun, observer=observer
    )
    linear = found.linearised()
    sensors: tuple[InformationSource, ...] = ()
    bags: tuple[InformationSource, ...] = ()
    if found.window is None:
        with make_simulator(
            problem.spec, found.unknowns, found.as_arrived(stable), threads, drives=drives
        ) as simulator:
            residuals, x = Residuals(simulator, found.noise), found.values
            diverging = '' if simulator.prescribed else _diverging(residuals, x, LOST, UNEXPLAINED)
        if diverging:
            return _lost(problem, unstable, diverging), None
        sensors, bags = sources(found, linear)
    white = np.full(len(found.unknowns), np.nan)
    white[linear.free] = QUANTILE * np.sqrt(linear.white_variance[linear.free])
    told = zip(asked, found.values.tolist(), found.intervals, white.tolist(), strict=False)
    said = Preflight(
        parameters=tuple(_expected(*each) for each in told),
        combinations=found.inference.combinations,
        sensors=sensors,
        bags=bags,
        noise=found.noise,
        unstable=tuple(unstable),
        dead=found.dead,
        samples=int(np.count_nonzero(found.samples.sensor >= 0)),
        method=f'{found.inference.method}; {METHOD}',
    )
    return said, found


def _expected(
    unknown: Unknown, value: float, interval: Interval, white: float
) -> PredictedParameter:
    """Return what is to be expected of a parameter by an interval that was found early."""
    half = max(interval.high - value, value - interval.low)
    kind, verdict, explanation = interval.verdict_kind, interval.verdict, interval.explanation
    for bound in {unknown.min_value, unknown.max_value} & {interval.low, interval.high}:
        if kind is VerdictKind.IDENTIFIED:
            kind, verdict = VerdictKind.AT_BOUND, str(VerdictKind.AT_BOUND)
            explanation = f'Its interval reaches its bound {bound:g}: a fit may end there.'
    return PredictedParameter(
        unknown.name, unknown.unit, unknown.nominal, half, verdict, explanation, kind, value, white
    )


def _diverging(
    residuals: Residuals, x: NDArray[np.float64], farthest: float, most: float | None = None
) -> str:
    """Say how simulations of a candidate diverge; empty where they do not.

    Those of its neighbours end farther apart, or more of the motion is unexplained.
    """
    moved = roughness_at(residuals, x, len(x))
    if not moved <= farthest:  # nor is NaN
        # Nominal values are seldom better known than to a tenth.
        far = f'{0.1 * moved:.2g} times' if np.isfinite(moved) else 'far beyond'
        return f'move their ends {far} their range with values that are a tenth off'
    left = 0.0 if most is None else unexplained(residuals, x)
    if most is None or left <= most:
        return ''
    return f'leave {min(left, 1):.0%} of the variance of the motion unexplained'


def _lost(problem: Problem, unstable: Sequence[str], how: str) -> Preflight:
    """Return what is left to say where simulations diverge: nothing of any parameter."""
    instead = 'torque' if forces_tell(problem) else 'windows'
    remedy = 'Windows that start where the robot was measured do not: set estimator: windows.'
    if instead == 'torque':
        remedy = 'Forces were recorded: with estimator: torque those along the measured motion are '
        remedy += 'compared.'
    return Preflight(
        tuple(
            PredictedParameter(p.name, p.unit, p.nominal, np.nan, 'diverging', '', None)
            for p in problem.parameters
        ),
        unstable=tuple(unstable),
        diverging=(
            f'Simulations of whole recordings diverge: they {how}. Nothing that follows from them '
            f'is true, so nothing is said of any parameter. {remedy}'
        ),
        instead=instead,
    )


def sources(
    found: Identification, linear: Linear
) -> tuple[tuple[InformationSource, ...], tuple[InformationSource, ...]]:
    """Return what each sensor and each bag tells, by leaving it out.

    The information of independent samples adds up, so leaving a source out takes its own share
    away; what is known of starts and clocks beforehand stays.
    """
    samples = found.samples
    whole = linear.scaled.T @ linear.scaled

    def variances(information: NDArray[np.float64], unseen_is: float) -> NDArray[np.float64]:
        values, vectors = np.linalg.eigh(information)
        seen = values > threshold(len(values)) ** 2
        variance: NDArray[np.float64] = np.sum(vectors[:, seen] ** 2 / values[seen], axis=1)
        lost = ~np.isclose(np.sum(vectors[:, ~seen] ** 2, axis=1), 0.0)
        variance[lost] = unseen_is  # part of it is in directions that nothing tells
        return variance

    full = variances(whole, np.nan)

    def without(name: str, rows: NDArray[np.bool_]) -> InformationSource:
        growth = np.full(len(linear.unknowns), np.nan)
        part = linear.scaled[rows]
        growth[linear.free] = np.sqrt(variances(whole - part.T @ part, np.inf) / full)
        growth = np.maximum(growth[: len(found.parameters)], 1.0)
        return InformationSource(name, tuple(growth.tolist()))

    bags = np.array(samples.bags)[samples.sequence] if samples.bags else None
    return (
        tuple(without(name, samples.sensor == row) for row, name in enumerate(samples.sensors)),
        tuple(
            without(name, (samples.sensor >= 0) & (bags == name))
            for name in dict.fromkeys(samples.bags)
        ),
    )

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the results of many robots say together: each parameter's population, and who is odd in it.

A parameter follows a normal random-effects model: the estimate of robot i is μ + bᵢ + eᵢ with
bᵢ ~ N(0, τ²) between robots and eᵢ ~ N(0, vᵢ), whose variance the robot's fit knows.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping

import numpy as np
import scipy
from numpy.typing import NDArray

from sysid_ros.config.schema import VerdictKind
from sysid_ros.results.result import CalibrationResult, Document, Frozen, MaybeFloat, Standing

#: Of a robot whose fit failed, where others have a standing.
FAILED = 'failed'
#: Verdicts of values that are compared; what a prior or a bound says, every robot says alike.
_COMPARED = frozenset({VerdictKind.IDENTIFIED, VerdictKind.MODEL_LIMITED})
#: Probability that an interval lacks the mean, and of naming a robot where none is odd.
_FALSE_ALARMS = 0.05
#: With fewer robots, the others do not say how far apart robots are.
_FEWEST = 4


class Population(Frozen):
    """One parameter over several robots; NaN for what so few do not say.

    ``low`` and ``high`` bound the 95 % interval of the ``mean``, ``tau`` is the standard deviation
    between robots, ``p_value`` the probability of such differences if all robots were alike.
    """

    mean: MaybeFloat
    low: MaybeFloat = math.nan
    high: MaybeFloat = math.nan
    tau: MaybeFloat = math.nan
    p_value: MaybeFloat = math.nan


def population(values: NDArray[np.float64], variances: NDArray[np.float64]) -> Population:
    """Summarise (k,) estimates with their variances.

    τ² is the moment estimate of DerSimonian and Laird (Controlled Clinical Trials 7, 1986). The
    interval is that of Hartung and Knapp (Statistics in Medicine 20, 2001), never narrower than
    with τ² known (Röver, Knapp and Friede, BMC Medical Research Methodology 15, 2015).
    """
    freedom = len(values) - 1
    if freedom < 1:
        return Population(mean=float(values[0]) if len(values) else math.nan)
    tau2, q = _between(values, variances)
    mean, variance = _mean(values, variances + tau2)
    scale = max(float(np.sum((values - mean) ** 2 / (variances + tau2))) / freedom, 1.0)
    quantile = scipy.special.stdtrit(freedom, 1 - _FALSE_ALARMS / 2)
    half = float(quantile * np.sqrt(scale * variance))
    return Population(
        mean=mean,
        low=mean - half,
        high=mean + half,
        tau=float(np.sqrt(tau2)),
        p_value=float(scipy.special.chdtrc(freedom, q)),
    )


def _between(values: NDArray[np.float64], variances: NDArray[np.float64]) -> tuple[float, float]:
    """Return τ², and Cochran's Q: squared deviations in units of the estimates' variances."""
    weights = 1 / variances
    mean, _ = _mean(values, variances)
    q = float(weights @ (values - mean) ** 2)
    spread = weights.sum() - (weights**2).sum() / weights.sum()
    return max(0.0, float((q - (len(values) - 1)) / spread)), q


def _mean(values: NDArray[np.float64], variances: NDArray[np.float64]) -> tuple[float, float]:
    """Return the mean weighted by inverse variances, and its variance."""
    weights = 1 / variances
    return float(weights @ values / weights.sum()), float(1 / weights.sum())


def deviations(values: NDArray[np.float64], variances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far each of (k,) robots is from the others.

    It is in standard deviations of where another robot of theirs would be found. A robot is left
    out of the mean and of the τ² that it is compared with, so that it cannot hide behind a spread
    that it makes itself (Viechtbauer and Cheung, Research Synthesis Methods 1, 2010). NaN for fewer
    than four robots.
    """
    found = np.full(len(values), np.nan)
    for place in range(len(values) if len(values) >= _FEWEST else 0):
        others, errors = np.delete(values, place), np.delete(variances, place)
        tau2, _ = _between(others, errors)
        mean, variance = _mean(others, errors + tau2)
        found[place] = (values[place] - mean) / np.sqrt(variances[place] + tau2 + variance)
    return found


class RobotValue(Frozen):
    """One parameter of one robot, its standard error, and how far it is from the other robots.

    ``deviation`` is what `deviations` says; an ``odd`` value is left out of the population.
    """

    robot: str
    value: float
    error: float
    deviation: MaybeFloat
    odd: bool


class FleetParameter(Population):
    """One parameter over all robots that determine it, and the robots' values."""

    name: str
    unit: str
    values: tuple[RobotValue, ...]

    @property
    def odd(self) -> tuple[RobotValue, ...]:
        """Values that are none of the population."""
        return tuple(value for value in self.values if value.odd)


class FleetRobot(Frozen):
    """A robot by name: the standing of its result or ``failed``, and why, a sentence."""

    name: str
    standing: str
    sentence: str

    @property
    def usable(self) -> bool:
        """Whether its values are compared with others'."""
        return self.standing in (Standing.ACCEPTED, Standing.RESERVED)


class FleetResult(Document):
    """Everything a fleet says, immutable and versioned."""

    schema_version: int = 1
    robots: tuple[FleetRobot, ...]
    parameters: tuple[FleetParameter, ...]
    created: str
    command: str
    versions: dict[str, str]

    @property
    def complete(self) -> bool:
        """Whether each robot has a result that may be used."""
        return all(robot.usable for robot in self.robots)

    def parameter(self, name: str) -> FleetParameter:
        """Return a parameter by name; KeyError where there is none."""
        return {parameter.name: parameter for parameter in self.parameters}[name]


def summarise_fleet(
    outcomes: Mapping[str, CalibrationResult | str], command: str, versions: Mapping[str, str]
) -> FleetResult:
    """Say what robots have in common, how they differ, and which are none of the others.

    ``outcomes`` has the result of each robot, or a sentence that says why there is none.
    """
    robots, units = [], dict[str, str]()
    found: dict[str, list[tuple[str, float, float]]] = {}
    for name, outcome in outcomes.items():
        if isinstance(outcome, str):
            robots.append(FleetRobot(name=name, standing=FAILED, sentence=outcome))
            continue
        robots.append(FleetRobot(name=name, standing=outcome.standing, sentence=outcome.acceptance))
        for parameter, unit, value, error in _estimates(outcome) if outcome.accepted else ():
            units[parameter] = unit
            found.setdefault(parameter, []).append((name, value, error))
    comparisons = sum(map(len, found.values()))
    return FleetResult(
        robots=tuple(robots),
        parameters=tuple(
            _parameter(name, unit, found[name], comparisons) for name, unit in units.items()
        ),
        created=dt.datetime.now(dt.UTC).isoformat(timespec='seconds'),
        command=command,
        versions=dict(versions),
    )


def _estimates(result: CalibrationResult) -> Iterator[tuple[str, str, float, float]]:
    """Yield name, unit, value and standard error of what is compared.

    Values of a sequence are of a recording, not of a robot.
    """
    if result.inference is None:
        return
    count = len(result.parameters)
    diagonal = np.diag(np.array(result.inference.covariance).reshape(count, count))
    for parameter, variance in zip(result.parameters, diagonal.tolist(), strict=True):
        recorded = any(target.startswith('sequence/') for target in parameter.targets)
        if parameter.verdict_kind in _COMPARED and variance > 0 and not recorded:
            yield parameter.name, parameter.unit, parameter.value, variance**0.5


def _parameter(
    name: str, unit: str, found: list[tuple[str, float, float]], comparisons: int
) -> FleetParameter:
    """Summarise one parameter of robots with values and errors, as one of many comparisons."""
    robots = [robot for robot, _, _ in found]
    values, errors = np.array([(value, error) for _, value, error in found]).T
    far = deviations(values, errors**2)
    # Student's t has the freedom of the others' spread; Bonferroni's correction is for all that
    # is compared.
    tail = _FALSE_ALARMS / (2 * comparisons)
    odd = np.abs(far) > scipy.special.stdtrit(max(len(robots) - 2, 1), 1 - tail)
    rows = zip(robots, values.tolist(), errors.tolist(), far.tolist(), odd.tolist(), strict=True)
    return FleetParameter(
        name=name,
        unit=unit,
        **dict(population(values[~odd], errors[~odd] ** 2)),
        values=tuple(
            RobotValue(robot=robot, value=value, error=error, deviation=deviation, odd=is_odd)
            for robot, value, error, deviation, is_odd in rows
        ),
    )

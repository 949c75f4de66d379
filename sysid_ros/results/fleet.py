# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the results of many robots say together: the population, and who is none of it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.config.calibration import VerdictKind
from sysid_ros.inference.fleet import (
    Heterogeneity,
    heterogeneity,
    oddness,
    population,
    shrunken,
)
from sysid_ros.results.result import Document, Frozen, MaybeFloat, Standing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.results.result import CalibrationResult, ParameterResult

#: Changes when files of before cannot be read any more as what they say.
FLEET_SCHEMA_VERSION = 1
#: Verdicts of values that are compared: they are the data's, and their intervals hold what is known
#: to be wrong. What a prior or a bound says, every robot says alike.
_COMPARED = frozenset({VerdictKind.IDENTIFIED, VerdictKind.MODEL_LIMITED})
#: Of a robot whose fit failed, where others have a standing.
FAILED = 'failed'


class RobotValue(Frozen):
    """One parameter of one robot.

    ``low`` and ``high`` bound the robot's own 95 % interval. ``compared`` is whether the value
    counts for the population. ``shrunken`` is what robot and population say together.
    ``deviation`` is how far it is from the other robots, in standard deviations of where another
    one would be, and ``p_value`` how likely any robot in any parameter is so far off by chance;
    NaN where there are fewer than three others. ``odd`` robots are left out of the population.
    """

    parameter: str
    value: float
    low: MaybeFloat
    high: MaybeFloat
    verdict: str
    compared: bool
    shrunken: MaybeFloat = float('nan')
    deviation: MaybeFloat = float('nan')
    p_value: MaybeFloat = float('nan')
    odd: bool = False


class FleetRobot(Frozen):
    """One robot: whether its result may be used, or why there is none, and its values.

    ``standing`` is that of its result, or ``failed``. ``report`` and ``result`` are files relative
    to the folder of the fleet, empty where there are none.
    """

    name: str
    standing: str
    sentence: str
    key: str = ''
    report: str = ''
    result: str = ''
    values: tuple[RobotValue, ...] = ()

    @property
    def counts(self) -> bool:
        """Whether its values are compared with others'."""
        return self.standing in (Standing.ACCEPTED, Standing.RESERVED)

    @property
    def odd(self) -> tuple[str, ...]:
        """The parameters in which it is none of the others."""
        return tuple(value.parameter for value in self.values if value.odd)


class FleetParameter(Frozen):
    """One parameter over all robots that determine it and are not odd in it.

    ``robots`` is their number, ``undetermined`` names those that count otherwise but do not
    determine it, ``odd`` those that are none of the population. The rest is of
    `sysid_ros.inference.fleet.Population`; NaN for what so few robots do not say.
    """

    name: str
    unit: str
    robots: int
    undetermined: tuple[str, ...]
    odd: tuple[str, ...]
    mean: MaybeFloat
    low: MaybeFloat
    high: MaybeFloat
    tau: MaybeFloat
    tau_low: MaybeFloat
    tau_high: MaybeFloat
    q: MaybeFloat
    p_value: MaybeFloat
    i_squared: MaybeFloat
    next_low: MaybeFloat
    next_high: MaybeFloat

    @property
    def half_width(self) -> float:
        """Half the width of the mean's interval."""
        return (self.high - self.low) / 2

    @property
    def spread(self) -> str:
        """Whether one value may stand for all robots, in a word."""
        if math.isnan(self.tau_low):
            return 'unknown'
        return 'shared' if self.tau_low == 0 else 'differs'


class FleetHeterogeneity(Frozen):
    """Whether the robots that count differ in anything: Q over all parameters together."""

    q: float
    freedom: int
    p_value: float


class FleetResult(Document):
    """Everything a fleet says, immutable and versioned."""

    schema_version: int = FLEET_SCHEMA_VERSION
    robots: tuple[FleetRobot, ...]
    parameters: tuple[FleetParameter, ...]
    heterogeneity: FleetHeterogeneity
    created: str
    command: str
    versions: dict[str, str]

    @property
    def complete(self) -> bool:
        """Whether each robot has a result that may be used."""
        return all(robot.counts for robot in self.robots)

    def robot(self, name: str) -> FleetRobot:
        """Return a robot by name.

        Raises:
            KeyError: There is none of that name.
        """
        return {robot.name: robot for robot in self.robots}[name]

    def parameter(self, name: str) -> FleetParameter:
        """Return a parameter by name.

        Raises:
            KeyError: There is none of that name.
        """
        return {parameter.name: parameter for parameter in self.parameters}[name]


class RobotOutcome(NamedTuple):
    """What came of one robot.

    Attributes:
        result: Of its calibration; None where that failed.
        failure: Why, a sentence; empty otherwise.
        key: Of what went in.
        report: The robot's own, relative to the folder of the fleet.
        path: Of the result, likewise.
    """

    result: CalibrationResult | None
    failure: str = ''
    key: str = ''
    report: str = ''
    path: str = ''


@dataclasses.dataclass(frozen=True)
class _Estimates:
    """What one robot contributes, in the order of its compared parameters."""

    names: tuple[str, ...]
    values: NDArray[np.float64]
    covariance: NDArray[np.float64]

    def of(self, name: str) -> tuple[float, float]:
        """Return value and variance."""
        place = self.names.index(name)
        return float(self.values[place]), float(self.covariance[place, place])


def summarise_fleet(
    outcomes: Mapping[str, RobotOutcome], command: str, versions: Mapping[str, str]
) -> FleetResult:
    """Say what robots have in common, how they differ, and which are none of the others.

    Args:
        outcomes: Name of each robot to what came of it.
        command: How the user asked for it.
        versions: Of this package and its libraries.
    """
    usable = {n: o.result for n, o in outcomes.items() if o.result and o.result.accepted}
    estimates = {name: _estimates(result) for name, result in usable.items()}
    units = {p.name: p.unit for result in usable.values() for p in result.parameters}
    looked_at = sum(any(name in own.names for own in estimates.values()) for name in units)
    parameters, values = [], dict[tuple[str, str], RobotValue]()
    for name, unit in units.items():
        found, own = _parameter(name, unit, usable, estimates, looked_at)
        parameters.append(found)
        values |= {(value.parameter, robot): value for robot, value in own.items()}
    _draw(parameters, estimates, values)
    robots = tuple(
        FleetRobot(
            name=robot,
            standing=FAILED if outcome.result is None else outcome.result.standing,
            sentence=outcome.failure if outcome.result is None else outcome.result.acceptance,
            key=outcome.key,
            report=outcome.report,
            result=outcome.path,
            values=tuple(_values(robot, outcome.result, values)),
        )
        for robot, outcome in outcomes.items()
    )
    return FleetResult(
        robots=robots,
        parameters=tuple(parameters),
        heterogeneity=FleetHeterogeneity(**_together(list(units), estimates)._asdict()),
        created=dt.datetime.now(dt.UTC).isoformat(timespec='seconds'),
        command=command,
        versions=dict(versions),
    )


def _estimates(result: CalibrationResult) -> _Estimates:
    """Return the values of a result that may be compared, with their covariance.

    Those of a sequence are of a recording, not of a robot.
    """
    count = len(result.parameters)
    covariance = np.full((count, count), np.nan)
    if result.inference is not None:
        covariance = np.array(result.inference.covariance).reshape(count, count)
    places = [
        place
        for place, parameter in enumerate(result.parameters)
        if parameter.verdict_kind in _COMPARED
        and covariance[place, place] > 0
        and not any(target.startswith('sequence/') for target in parameter.targets)
    ]
    return _Estimates(
        tuple(result.parameters[place].name for place in places),
        np.array([result.parameters[place].value for place in places]),
        covariance[np.ix_(places, places)],
    )


def _parameter(
    name: str,
    unit: str,
    usable: Mapping[str, CalibrationResult],
    estimates: Mapping[str, _Estimates],
    looked_at: int,
) -> tuple[FleetParameter, dict[str, RobotValue]]:
    """Summarise one parameter, and say of each robot that determines it how odd it is."""
    robots = [robot for robot, own in estimates.items() if name in own.names]
    pairs = np.array([estimates[robot].of(name) for robot in robots]).reshape(-1, 2)
    found = oddness(pairs[:, 0], pairs[:, 1], looked_at)
    kept = pairs[~found.odd]
    summary = dataclasses.asdict(population(kept[:, 0], kept[:, 1]))
    values = {
        robot: _robot_value(
            usable[robot].parameter(name),
            compared=True,
            deviation=float(found.deviations[place]),
            p_value=float(found.p_values[place]),
            odd=bool(found.odd[place]),
        )
        for place, robot in enumerate(robots)
    }
    having = [r for r, own in usable.items() if any(p.name == name for p in own.parameters)]
    summarised = FleetParameter(
        name=name,
        unit=unit,
        robots=summary.pop('count'),
        undetermined=tuple(robot for robot in having if robot not in robots),
        odd=tuple(robot for robot, value in values.items() if value.odd),
        **summary,
    )
    return summarised, values


def _robot_value(parameter: ParameterResult, **more: float | bool) -> RobotValue:
    return RobotValue(
        parameter=parameter.name,
        value=parameter.value,
        low=parameter.low,
        high=parameter.high,
        verdict=parameter.verdict,
        **more,
    )


def _draw(
    parameters: Sequence[FleetParameter],
    estimates: Mapping[str, _Estimates],
    values: dict[tuple[str, str], RobotValue],
) -> None:
    """Fill in what each robot and the population say together."""
    known = {p.name: (p.mean, p.tau) for p in parameters if p.robots > 1}
    for robot, own in estimates.items():
        means, taus = np.full((2, len(own.names)), np.nan)
        for place, name in enumerate(own.names):
            if name in known and not values[name, robot].odd:
                means[place], taus[place] = known[name]
        drawn = shrunken(own.values, own.covariance, means, taus)
        for name, value in zip(own.names, drawn.tolist(), strict=True):
            values[name, robot] = values[name, robot].model_copy(update={'shrunken': value})


def _values(
    robot: str, result: CalibrationResult | None, values: Mapping[tuple[str, str], RobotValue]
) -> Iterator[RobotValue]:
    for parameter in () if result is None else result.parameters:
        yield values.get((parameter.name, robot)) or _robot_value(parameter, compared=False)


def _together(names: Sequence[str], estimates: Mapping[str, _Estimates]) -> Heterogeneity:
    own = [found for found in estimates.values() if found.names]
    return heterogeneity(
        [found.values for found in own],
        [found.covariance for found in own],
        [np.array([names.index(name) for name in found.names]) for found in own],
    )

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The page of a fleet: the population, a forest plot per parameter, who is odd, what failed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from sysid_ros.files import replace_file
from sysid_ros.report.html import STANDING, Tag, asset, environment
from sysid_ros.report.numbers import significant
from sysid_ros.report.pictures import Tick, steps
from sysid_ros.results.fleet import FAILED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sysid_ros.results.fleet import (
        FleetParameter,
        FleetResult,
        FleetRobot,
        RobotValue,
    )

#: Word, symbol and tone of what came of a robot.
_STANDINGS = {
    FAILED: Tag('Failed', '✕', 'bad'),
    **{str(standing): word for standing, word in STANDING.items()},
}
#: Room beside what an axis has to show, as a part of it.
_MARGIN = 0.05
#: Intervals of robots may widen an axis by so many times what its points need, and are cut beyond.
_INTERVALS = 1.5


class Row(NamedTuple):
    """One robot in one parameter; positions are 0 to 1 on the axis, None where there is none.

    ``cut_low`` and ``cut_high`` are whether its interval goes on beyond the axis.
    """

    robot: FleetRobot
    entry: RobotValue
    value: float
    low: float | None
    high: float | None
    shrunken: float | None
    cut_low: bool
    cut_high: bool


class Forest(NamedTuple):
    """One parameter of all robots; ``mean``, ``ends`` and ``next_ends`` are positions likewise."""

    parameter: FleetParameter
    ticks: tuple[Tick, ...]
    rows: tuple[Row, ...]
    mean: float | None
    ends: tuple[float, float] | None
    next_ends: tuple[float, float] | None


def forests(result: FleetResult) -> tuple[Forest, ...]:
    """Lay out all parameters, each on an axis of its own, robots in their order."""
    return tuple(_forest(parameter, result) for parameter in result.parameters)


def _forest(parameter: FleetParameter, result: FleetResult) -> Forest:
    entries = [
        (robot, value)
        for robot in result.robots
        for value in robot.values
        if value.parameter == parameter.name
    ]
    left, right = _axis(parameter, entries)

    def at(value: float) -> float | None:
        """Return a position, at an end of the axis where it would be beyond."""
        if not math.isfinite(value):
            return None
        return min(max((value - left) / (right - left), 0.0), 1.0)

    def both(low: float, high: float) -> tuple[float, float] | None:
        first, last = at(low), at(high)
        return None if first is None or last is None else (first, last)

    rows = (
        Row(
            robot,
            value,
            at(value.value) or 0.0,
            at(value.low),
            at(value.high),
            at(value.shrunken),
            value.low < left,
            value.high > right,
        )
        for robot, value in entries
    )
    return Forest(
        parameter,
        tuple(Tick(at(x) or 0.0, significant(x)) for x in steps(left, right)),
        tuple(rows),
        at(parameter.mean),
        both(parameter.low, parameter.high),
        both(parameter.next_low, parameter.next_high),
    )


def _axis(
    parameter: FleetParameter, entries: Sequence[tuple[FleetRobot, RobotValue]]
) -> tuple[float, float]:
    """Return the ends of an axis for the mean and all robots, which wide intervals may leave."""
    counted = [value for robot, value in entries if robot.counts] or [v for _, v in entries]
    points = [value.value for value in counted]
    points += [x for x in (parameter.low, parameter.high) if math.isfinite(x)]
    left, right = min(points), max(points)
    span = (right - left) or abs(right) or 1.0
    ends = [x for value in counted for x in (value.low, value.high) if math.isfinite(x)]
    left = max(left - _INTERVALS * span, min([left, *ends]))
    right = min(right + _INTERVALS * span, max([right, *ends]))
    margin = _MARGIN * ((right - left) or span)
    return left - margin, right + margin


def _headline(result: FleetResult) -> tuple[Tag, str]:
    """Return the outcome in a word and in a sentence."""
    wrong = [robot for robot in result.robots if not robot.counts]
    odd = [robot.name for robot in result.robots if robot.odd]
    said = f'{len(result.robots) - len(wrong)} of {len(result.robots)} robots are calibrated'
    if odd:
        said += f'; {", ".join(odd)} {"is" if len(odd) == 1 else "are"} odd'
    if wrong:
        return Tag('Incomplete', '✕', 'bad'), f'{said}.'
    return (Tag('Odd robots', '!', 'warn') if odd else Tag('Complete', '✓', 'good')), f'{said}.'


def render_fleet(result: FleetResult, title: str = '') -> str:
    """Render a fleet as the text of a self-contained HTML page without scripts.

    Args:
        result: What to show.
        title: Stands above all; the number of robots unless given.
    """
    outcome, sentence = _headline(result)
    spreads = [parameter.spread for parameter in result.parameters]
    context = {
        'result': result,
        'title': title or f'Fleet of {len(result.robots)} robots',
        'outcome': outcome,
        'sentence': sentence,
        'standings': _STANDINGS,
        'shared': spreads.count('shared'),
        'differing': spreads.count('differs'),
        'forests': forests(result),
        'odd': [(robot, value) for robot in result.robots for value in robot.values if value.odd],
        'style': Markup(asset('report.css')),  # noqa: S704 (it holds no text of the user's)
    }
    return environment().get_template('fleet.html.j2').render(context)


def write_fleet_report(result: FleetResult, path: Path) -> None:
    """Write a fleet as one HTML file that opens offline.

    Raises:
        ResultError: The file cannot be written.
    """
    replace_file(path, render_fleet(result).encode('utf-8'))

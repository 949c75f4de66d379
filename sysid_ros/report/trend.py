# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Results over time as one HTML page: a small chart for each parameter, and tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from sysid_ros.files import replace_file
from sysid_ros.report.html import STANDING, asset, environment
from sysid_ros.report.numbers import significant
from sysid_ros.report.pictures import Tick, steps

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sysid_ros.results.history import Entry
    from sysid_ros.results.result import DriftedParameter, ParameterResult

#: Intervals may widen the axis by this share of what the values need, and are cut beyond.
_INTERVAL_SHARE = 0.6
#: An axis is at least so wide, as a share of the largest value, and has such a margin.
_LEAST_SPAN, _MARGIN = 0.005, 0.06


class Point(NamedTuple):
    """A parameter in one result: where it is in the chart, 0 to 100 from the left and the top.

    ``low`` and ``high`` are the ends of the 95 % interval, cut to the chart; None where there is
    none. ``drift`` is how it differs from the result before, where the two are compared.
    """

    entry: Entry
    parameter: ParameterResult
    drift: DriftedParameter | None
    x: float
    y: float
    low: float | None
    high: float | None

    @property
    def changed(self) -> bool:
        """Whether it changed by more than chance since the result before."""
        return self.drift is not None and self.drift.changed


class Chart(NamedTuple):
    """One parameter over time; ``line`` are the SVG points of accepted results."""

    name: str
    unit: str
    points: tuple[Point, ...]
    ticks: tuple[Tick, ...]
    line: str

    @property
    def changes(self) -> int:
        """How often it changed by more than chance."""
        return sum(point.changed for point in self.points)


def charts(entries: Sequence[Entry]) -> tuple[Chart, ...]:
    """Lay out each parameter over the results, evenly spaced in order of time."""
    names = dict.fromkeys(p.name for entry in entries for p in entry.result.parameters)
    return tuple(_chart(name, entries) for name in names)


def _chart(name: str, entries: Sequence[Entry]) -> Chart:
    found = [
        (place, entry, parameter)
        for place, entry in enumerate(entries)
        for parameter in entry.result.parameters
        if parameter.name == name
    ]
    bottom, top = _range([parameter for _, _, parameter in found])

    def down(value: float) -> float:
        return 100 * (top - value) / (top - bottom)

    def end(value: float) -> float | None:
        return None if math.isnan(value) else min(max(down(value), 0.0), 100.0)

    points = []
    for place, entry, parameter in found:
        rows = entry.drift.parameters if entry.drift is not None else ()
        points.append(
            Point(
                entry,
                parameter,
                next((row for row in rows if row.name == name), None),
                x=100 * (place + 0.5) / len(entries),
                y=down(parameter.value),
                low=end(parameter.low),
                high=end(parameter.high),
            )
        )
    accepted = [point for point in points if point.entry.result.accepted]
    return Chart(
        name,
        found[-1][2].unit,
        tuple(points),
        tuple(Tick(down(value), significant(value)) for value in steps(bottom, top)),
        ' '.join(f'{point.x:.2f},{point.y:.2f}' for point in accepted),
    )


def _range(parameters: Sequence[ParameterResult]) -> tuple[float, float]:
    """Return the ends of an axis on which all values can be seen, and most of the intervals."""
    values = [parameter.value for parameter in parameters]
    ends = [x for p in parameters for x in (p.low, p.high) if math.isfinite(x)]
    bottom, top = min(values), max(values)
    least = _LEAST_SPAN * max(abs(bottom), abs(top)) or 1.0
    slack = _INTERVAL_SHARE * max(top - bottom, least)
    bottom = max(bottom - slack, min([bottom, *ends]))
    top = min(top + slack, max([top, *ends]))
    missing = max(least - (top - bottom), 0.0) / 2
    margin = missing + _MARGIN * (top - bottom)
    return bottom - margin, top + margin


def render_trend(entries: Sequence[Entry], title: str) -> str:
    """Render results as the text of a self-contained HTML page, which runs no script.

    Args:
        entries: In order of time.
        title: Where they are.
    """
    context = {
        'title': title,
        'entries': entries,
        'charts': charts(entries),
        'standing': STANDING,
        # It holds no text of the user's.
        'style': Markup(asset('report.css')),  # noqa: S704
    }
    return environment().get_template('trend.html.j2').render(context)


def write_trend(entries: Sequence[Entry], path: Path, title: str) -> None:
    """Write results over time as one HTML file that opens offline.

    Raises:
        ResultError: The file cannot be written.
    """
    replace_file(path, render_trend(entries, title).encode('utf-8'))

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Figures show what the result holds, in colours for light and dark, without pyplot."""

from __future__ import annotations

import io
import math
import sys

import matplotlib.image as mpimg
import pytest
from lxml import etree
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sysid_ros.alignment.health import FindingKind, HealthFinding
from sysid_ros.report import figures
from sysid_ros.results.result import (
    CalibrationResult,
    FitDiagnostics,
    ParameterResult,
    RecordedBag,
    RecordedSequence,
    Standstill,
)

pytestmark = pytest.mark.slow


def _axes(result: CalibrationResult, *changes: dict[str, object]) -> Axes:
    parameters = tuple(result.parameters[0].model_copy(update=change) for change in changes)
    (axes,) = figures.draw_parameters(result.model_copy(update={'parameters': parameters})).axes
    return axes


def _markers(axes: Axes) -> dict[str, list[float]]:
    """Return where the markers of each kind are along an axis."""
    return {str(line.get_marker()): list(line.get_xdata()) for line in axes.lines}


def test_every_parameter_is_a_row_relative_to_its_nominal_value(
    rich_result: CalibrationResult,
) -> None:
    figure = figures.draw_parameters(rich_result, {'joint/elbow/damping': 0.7})
    rows = [label.get_text() for axes in figure.axes for label in axes.get_yticklabels()]
    assert sorted(rows) == sorted(parameter.name for parameter in rich_result.parameters)
    first = _markers(figure.axes[0])
    assert set(first['|']) == {1.0}
    assert first['D'] == [0.7]
    assert figure.axes[0].get_xscale() == 'log'
    assert set(_markers(figure.axes[1])['|']) == {0.0}


def test_an_interval_that_goes_on_ends_in_arrows(rich_result: CalibrationResult) -> None:
    axes = _axes(rich_result, {'initial': 1.0, 'value': 1.5, 'low': -1e6, 'high': math.inf})
    left, right = axes.get_xlim()
    assert left < 1.0
    assert 1.5 < right < 3.0
    assert (_markers(axes)['<'], _markers(axes)['>']) == ([left], [right])

    # Nor does a negative nominal value turn it round.
    axes = _axes(rich_result, {'initial': -9.0, 'value': -9.8, 'low': -10.0, 'high': -9.6})
    ((begin, end),) = (segment[:, 0] for segment in axes.collections[0].get_segments())
    assert 1.0 < begin < _markers(axes)['o'][0] < end


@pytest.mark.parametrize('value', [0.0, 1e-12, 1e9])
def test_a_parameter_from_zero_has_an_axis_whatever_its_size(
    rich_result: CalibrationResult, value: float
) -> None:
    unknown = {'initial': 0.0, 'value': value, 'low': math.nan, 'high': math.nan}
    axes = _axes(rich_result, unknown)
    assert _markers(axes)['o'] == [float(value > 0)]
    assert axes.lines[-1].get_markerfacecolor() == 'none'


def test_names_that_would_be_formulas_or_markup_are_harmless_in_every_figure(
    rich_result: CalibrationResult,
) -> None:
    name = '$\\frac{$ <script> & \n]]>'

    def evil(own: ParameterResult) -> ParameterResult:
        return own.model_copy(update={'name': name})

    bags = tuple(own.model_copy(update={'bag': name}) for own in rich_result.recordings)
    update = {'parameters': tuple(map(evil, rich_result.parameters)), 'recordings': bags}
    result = rich_result.model_copy(update=update)
    drawn: dict[str, Figure] = {
        'parameters': figures.draw_parameters(result),
        'horizon': figures.draw_horizon(result),
        'recordings': figures.draw_recordings(result, 2),
        'trace': figures.draw_trace(result),
    }
    for kind, figure in drawn.items():
        text = figures.svg(figure)
        root = etree.fromstring(text.encode())
        assert not root.findall('.//{*}script')
        assert 'prefers-color-scheme:dark' in text
        assert text.count('var(--') > 5
        assert ('<script>' in ''.join(root.itertext())) is (kind in {'parameters', 'recordings'})


def test_signals_are_a_picture_for_notebooks(rich_result: CalibrationResult) -> None:
    evil = [plot.model_copy(update={'sensor': '$\\frac$'}) for plot in rich_result.plots[:4]]
    for result in (rich_result, rich_result.model_copy(update={'plots': tuple(evil)})):
        picture = mpimg.imread(io.BytesIO(figures.draw_sensors(result)._repr_png_()))
        assert min(picture.shape[:2]) > 200
        assert picture[..., :3].std() > 0.02
    one = figures.draw_sensors(rich_result, 'elbow_vel')
    assert [axes.get_title(loc='left') for axes in one.axes] == ['elbow_vel [rad/s]']
    assert 'matplotlib.pyplot' not in sys.modules


# What was wrong in recordings


def _bag(name: str, seconds: float) -> RecordedBag:
    """Return a bag of two sequences, the first from half a second on."""
    parts = ((0.5, 4.0), (5.0, seconds))
    sequences = tuple(
        RecordedSequence(name=f'{name}_{number}', begin=begin, end=end)
        for number, (begin, end) in enumerate(parts)
    )
    return RecordedBag(bag=name, role='train', seconds=seconds, sequences=sequences)


def _finding(kind: FindingKind, *times: float, bag: str = 'long') -> HealthFinding:
    return HealthFinding(bag, '/js', kind, len(times), '', spans=tuple((t, t) for t in times))


def test_events_are_of_their_bag_and_the_worst_is_told_first_and_drawn_last(
    bare_result: CalibrationResult,
) -> None:
    health = (
        _finding(FindingKind.GAP, 2.0, 4.0),
        _finding(FindingKind.SPIKES, 5.0),
        _finding(FindingKind.MISSING, *range(1, 10)),
        HealthFinding('long', '/js', FindingKind.JITTER, 3, 'it has no time'),
    )
    recordings = (_bag('long', 10.0), _bag('short', 6.0))
    result = bare_result.model_copy(update={'health': health, 'recordings': recordings})
    (_, (spikes, gap, missing)), (_, nothing) = figures.events(result)
    assert nothing == ()
    assert (spikes.what, spikes.when) == ('spikes in /js', '5.00 s')
    assert (gap.what, gap.when) == ('gap in /js', '2.00 s, 4.00 s')
    assert (missing.what, missing.when[-10:]) == ('missing values in /js', 'and 3 more')
    (axes,) = figures.draw_recordings(result, 9).axes
    assert axes.get_xlim() == (0.0, 10.0)
    whole, _, *marks = [bars.get_paths() for bars in axes.collections]
    assert whole[0].get_extents().width == 10.0
    assert marks[2][0].get_extents().x0 == 5.0
    assert axes.collections[4].get_linewidth()[0] > 0, 'what takes no time is seen by its edge'


def test_what_is_of_a_sequence_is_in_its_bag(bare_result: CalibrationResult) -> None:
    late = _finding(FindingKind.LATE_COMMANDS, 6.25, bag='long_1')
    place = {'sensor': 'elbow_position', 'unit': 'rad', 'sequence': 'long_1', 'role': 'train'}
    numbers = {'start': 1.0, 'seconds': 0.5, 'predicted_movement': 0.3}
    still = Standstill(**place, **numbers, measured_range=1.0, resolution=1e-3)
    coarse = still.model_copy(update={'resolution': 0.2})
    result = bare_result.model_copy(
        update={
            'health': (late,),
            'recordings': (_bag('long', 10.0),),
            'diagnostics': FitDiagnostics(standstills=(still, coarse)),
        }
    )
    ((_, found),) = figures.events(result)
    assert [(event.what, event.when) for event in found] == [
        ('late commands in /js', '6.25 s'),
        ('standstill in elbow_position', '6.00 to 6.50 s'),
    ]

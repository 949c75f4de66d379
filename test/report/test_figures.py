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

from sysid_ros.report import figures
from sysid_ros.results.result import CalibrationResult, ParameterResult

pytestmark = pytest.mark.slow


def _axes(result: CalibrationResult, *changes: dict[str, object]) -> Axes:
    """Return the axes of changed copies of a parameter."""
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


def test_a_negative_nominal_value_keeps_the_interval_in_order(
    rich_result: CalibrationResult,
) -> None:
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


@pytest.mark.parametrize('kind', ['parameters', 'horizon', 'recordings', 'trace'])
def test_names_that_would_be_formulas_or_markup_are_harmless_in_every_figure(
    rich_result: CalibrationResult, kind: str
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
    text = figures.svg(drawn[kind])
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

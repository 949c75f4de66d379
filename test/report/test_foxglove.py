# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A layout for Foxglove has a plot for everything that is measured of each joint."""

from __future__ import annotations

import json
from typing import Any

from sysid_ros.report.foxglove import foxglove_layout

TOPICS = ('/measured', '/predicted', '/nominal')


def _leaves(node: Any) -> list[str]:
    return [node] if isinstance(node, str) else _leaves(node['first']) + _leaves(node['second'])


def _shares(node: Any, direction: str) -> list[float]:
    """Return which part of the whole each of the panels in one direction has."""
    if isinstance(node, str) or node['direction'] != direction:
        return [1.0]
    part = node['splitPercentage'] / 100
    return [part, *((1 - part) * share for share in _shares(node['second'], direction))]


def test_each_joint_and_quantity_has_a_plot_of_all_topics():
    layout = json.loads(foxglove_layout(TOPICS, ('hip', 'knee', 'ankle'), ('position', 'effort')))
    plots = layout['configById']
    assert _leaves(layout['layout']) == list(plots)
    titles = [plot['foxglovePanelTitle'] for plot in plots.values()]
    assert titles == [f'{j} {q}' for j in ('hip', 'knee', 'ankle') for q in ('position', 'effort')]
    knee = plots['Plot!effort_1']['paths']
    assert [path['value'] for path in knee] == [f'{topic}.effort[1]' for topic in TOPICS]
    assert [path['label'] for path in knee] == ['measured', 'predicted', 'nominal']
    assert len({path['color'] for path in knee}) == 3


def test_all_plots_have_one_size():
    layout = json.loads(foxglove_layout(TOPICS, ('hip', 'knee', 'ankle'), ('position', 'effort')))
    rows = _shares(layout['layout'], 'column')
    assert max(rows) - min(rows) < 1e-9
    assert len(rows) == 3
    assert _shares(layout['layout']['first'], 'row') == [0.5, 0.5]


def test_one_joint_with_one_quantity_is_one_plot():
    layout = json.loads(foxglove_layout(TOPICS[:2], ('hip',), ('velocity',)))
    assert layout['layout'] == 'Plot!velocity_0'
    assert list(layout['configById']) == ['Plot!velocity_0']

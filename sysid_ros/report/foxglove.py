# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A layout for Foxglove: what was measured beside what a model predicts, a plot per joint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sysid_ros.json_text import to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Legible on light and dark, and told apart by people who do not see all colours
#: (https://jfly.uni-koeln.de/color/).
_COLOURS = ('#0072b2', '#d55e00', '#999999')


def foxglove_layout(topics: Sequence[str], joints: Sequence[str], quantities: Sequence[str]) -> str:
    """Return a layout as JSON, for "Import from file" in Foxglove.

    Args:
        topics: Joint states whose curves share the plots, such as ``/measured``; all of them name
            the same joints in the same order.
        joints: k names of joints, in the messages' order; each is a row.
        quantities: Fields of the messages that are filled, such as ``position``; each is a column.
    """
    plots = {
        f'Plot!{quantity}_{place}': _plot(f'{joint} {quantity}', topics, f'{quantity}[{place}]')
        for place, joint in enumerate(joints)
        for quantity in quantities
    }
    rows = [
        _split([f'Plot!{quantity}_{place}' for quantity in quantities], 'row')
        for place in range(len(joints))
    ]
    layout = {
        'configById': plots,
        'globalVariables': {},
        'userNodes': {},
        'playbackConfig': {'speed': 1},
        'layout': _split(rows, 'column'),
    }
    return to_json(layout, indent=1) + '\n'


def _plot(title: str, topics: Sequence[str], path: str) -> dict[str, Any]:
    return {
        'foxglovePanelTitle': title,
        'paths': [
            {
                'value': f'{topic}.{path}',
                'label': topic.strip('/'),
                'enabled': True,
                'timestampMethod': 'receiveTime',
                'color': colour,
            }
            for topic, colour in zip(topics, _COLOURS, strict=False)
        ],
        'showXAxisLabels': True,
        'showYAxisLabels': True,
        'showLegend': True,
        'legendDisplay': 'floating',
        'showPlotValuesInLegend': False,
        'isSynced': True,
        'xAxisVal': 'timestamp',
        'sidebarDimension': 240,
    }


def _split(parts: Sequence[Any], direction: str) -> Any:
    """Return panels side by side or below each other, all of one size."""
    first, *rest = parts
    if not rest:
        return first
    return {
        'direction': direction,
        'first': first,
        'second': _split(rest, direction),
        'splitPercentage': 100 / len(parts),
    }

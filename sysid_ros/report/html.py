# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The report: one HTML file that needs nothing but a browser."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from sysid_ros.files import replace_file
from sysid_ros.report import forest, numbers, trust, view
from sysid_ros.report.curves import curves_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sysid_ros.report.films import Film
    from sysid_ros.results.result import CalibrationResult

#: After these characters a long name, path or hash may be broken over lines.
_BREAKS = ('/', '_', '.')


def _breakable(text: str) -> Markup:
    """Escape a name and allow line breaks after its separators."""
    safe = str(escape(text))
    for character in _BREAKS:
        safe = safe.replace(character, f'{character}<wbr>')
    return Markup(safe)  # noqa: S704 (escaped above)


def _number(value: float, text: str) -> Markup:
    """Write a number for people, with the exact one behind it for machines and as a tooltip."""
    return Markup('<data value="{0}" title="{0}">{1}</data>').format(repr(float(value)), text)


def _source_hash(script: str) -> str:
    """Return the hash by which a content security policy allows an inline script."""
    digest = hashlib.sha256(script.encode('utf-8')).digest()
    return 'sha256-' + base64.b64encode(digest).decode('ascii')


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader('sysid_ros.report'),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(breakable=_breakable)
    environment.globals.update(
        bounds=numbers.bounds,
        duration=numbers.duration,
        interval=numbers.interval,
        number=_number,
        padded=numbers.padded,
        role_names=view.ROLE_NAMES,
        rounded=numbers.rounded,
        significant=numbers.significant,
        starts_text=view.starts_text,
        times=numbers.times,
    )
    return environment


def _asset(name: str) -> str:
    folder = resources.files('sysid_ros.report').joinpath('templates')
    return folder.joinpath(name).read_text(encoding='utf-8')


def _context(
    result: CalibrationResult,
    truth: Mapping[str, float] | None,
    title: str,
    films: Sequence[Film],
) -> dict[str, Any]:
    """Gather what the template names."""
    rows = view.parameter_rows(result, truth)
    groups = view.sequences(result)
    library, script = get_plotlyjs(), _asset('report.js')
    return {
        'result': result,
        'title': title or f'Calibration of {result.model}',
        'films': films,
        'headline': view.headline(result),
        'parameters': rows,
        'verdict_counts': view.verdict_counts(rows),
        'with_truth': any(row.truth is not None for row in rows),
        'panels': forest.panels(result, truth),
        'sensors': view.sensor_rows(result),
        'sequences': groups,
        'noise_sources': view.noise_sources(result),
        'unsure': trust.unsure(result),
        'strong_pairs': trust.strong_pairs(result),
        'correlations': trust.correlations(result),
        'over_folds': trust.over_folds(result),
        'over_windows': trust.over_windows(result),
        'horizon': trust.horizon(result),
        'bags': view.bags(result),
        'config_text': view.config_text(result),
        # The three below hold no text of the user's but inside the JSON, which escapes it.
        'style': Markup(_asset('report.css')),  # noqa: S704
        'scripts': (Markup(library), Markup(script)),  # noqa: S704
        'curves': Markup(curves_json(result, groups)),  # noqa: S704
        'script_sources': ' '.join(f"'{_source_hash(text)}'" for text in (library, script)),
    }


def render_report(
    result: CalibrationResult,
    *,
    truth: Mapping[str, float] | None = None,
    title: str = '',
    films: Sequence[Film] = (),
) -> str:
    """Render a result as the text of a self-contained HTML page.

    Args:
        result: What to show.
        truth: True values by parameter name or target, where they are known (a simulated robot);
            they add a column to the table and a mark to the interval figure.
        title: Stands above all; the name of the model unless given.
        films: Animations of the motion, shown before the signals.
    """
    context = _context(result, truth, title, films)
    return _environment().get_template('report.html.j2').render(context)


def write_report(
    result: CalibrationResult, path: Path, *, truth: Mapping[str, float] | None = None
) -> None:
    """Write a result as one HTML file that opens offline.

    The file carries its scripts, styles and data. Its content security policy lets it load nothing
    else and run no script but its own two.

    Args:
        result: What to show.
        path: The file; an existing one is replaced only when all is written.
        truth: True values by parameter name or target, where they are known (a simulated robot).

    Raises:
        ResultError: The file cannot be written.
    """
    replace_file(path, render_report(result, truth=truth).encode('utf-8'))

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The report: one HTML file that needs nothing but a browser."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import yaml
from markupsafe import Markup, escape
from pydantic import ValidationError

from sysid_ros.alignment.health import aggregated
from sysid_ros.config.schema import CalibrationConfig
from sysid_ros.errors import MOST_NAMED, one_line
from sysid_ros.files import replace_file
from sysid_ros.report import figures, numbers, tables
from sysid_ros.report.rendering import Film
from sysid_ros.results.checks import counted, headline, next_steps
from sysid_ros.results.checks import figures as figures_of
from sysid_ros.results.result import MOST, MUCH, ROLE_NAMES, ROLES, CalibrationResult, ModelChange

#: After these characters a long name, path or hash may be broken over lines; no number may.
_BREAKS = re.compile(r'[/_]|\.(?!\d)')
#: So many rows of a table, or recordings in a picture, are looked through.
_MOST_ROWS = 30


def strong_pairs(result: CalibrationResult) -> list[tuple[str, str, float]]:
    """List the names and correlations of estimates that move together, the strongest first."""
    if result.inference is None:
        return []
    names = [parameter.name for parameter in result.parameters]
    pairs = [
        (names[i], names[j], correlation)
        for i, row in enumerate(result.inference.correlation)
        for j, correlation in enumerate(row[:i])
        if abs(correlation) >= MUCH
    ]
    return sorted(pairs, key=lambda pair: -abs(pair[2]))


def _meaning(correlation: float) -> str:
    """Say in a clause what a correlation says of its pair."""
    opposite = correlation < 0
    move = 'one rises as the other falls' if opposite else 'they rise together'
    known = 'a weighted sum of them' if opposite else 'their ratio or weighted difference'
    if abs(correlation) < MOST:
        return f'{move}; {known} is known better than each'
    return f'{move}; only {known} is known well'


class Hunk(NamedTuple):
    """What changed in one element: its attributes as they were and as they are."""

    element: str
    line: int
    old: str
    new: str


def model_diff(result: CalibrationResult) -> dict[str, list[Hunk]]:
    """Group what was changed in the model's text by file and element, in the order of the text."""
    files: dict[str, list[Hunk]] = {}
    changes = sorted(result.changes, key=lambda change: (change.file, change.line))
    for (file, element), group in itertools.groupby(changes, lambda c: (c.file, c.element)):
        own = list(group)
        old = ' '.join(f'{each.attribute}="{each.old}"' for each in own if each.old)
        new = ' '.join(f'{each.attribute}="{_rounded(each)}"' for each in own if each.new)
        files.setdefault(file, []).append(Hunk(element, own[0].line, old, new))
    return files


def _rounded(change: ModelChange) -> str:
    """Return the new value, those of its numbers that are new in a few digits."""
    kept, words = change.old.split(), change.new.split()
    for place, word in enumerate(words):
        with contextlib.suppress(ValueError):
            words[place] = word if word in kept else numbers.significant(float(word))
    return ' '.join(words)


def _pictures(result: CalibrationResult, truth: Mapping[str, float]) -> dict[str, str]:
    """Draw what the result has data for, as SVG in base64."""
    drawn = {}
    if result.parameters:
        drawn['parameters'] = figures.draw_parameters(result, truth)
    if len({point.seconds for point in result.horizon}) > 1:
        drawn['horizon'] = figures.draw_horizon(result)
    if any(bag.seconds > 0 for bag in result.recordings[:_MOST_ROWS]):
        drawn['recordings'] = figures.draw_recordings(result, _MOST_ROWS)
    if result.solver.trace:
        drawn['trace'] = figures.draw_trace(result)
    return {
        name: base64.b64encode(figures.svg(drawing).encode()).decode()
        for name, drawing in drawn.items()
    }


def _yaml_lines(config: dict[str, Any]) -> list[str]:
    if not config:
        return []
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True, default_flow_style=None)
    return text.splitlines()


def _breakable(text: str) -> Markup:
    """Escape a name and allow line breaks after its separators."""
    safe = _BREAKS.sub(r'\g<0><wbr>', str(escape(one_line(text))))
    return Markup(safe)  # noqa: S704 (escaped above)


def _number(value: float, text: str) -> Markup:
    """Write a number for people, with the exact one behind it for machines and as a tooltip."""
    return Markup('<data value="{0}" title="{0}">{1}</data>').format(repr(float(value)), text)


def _environment() -> jinja2.Environment:
    """Return what renders the templates of the report: names are escaped, numbers for people."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader('sysid_ros.report'),
        autoescape=True,
        finalize=lambda value: one_line(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters.update(breakable=_breakable)
    made.globals.update(
        bounds=numbers.bounds,
        changed=numbers.change,
        duration=numbers.duration,
        figures=figures_of,
        interval=numbers.interval,
        meaning=_meaning,
        number=_number,
        padded=numbers.padded,
        role_names=ROLE_NAMES,
        rounded=numbers.rounded,
        significant=numbers.significant,
        times=numbers.times,
    )
    return made


def _text(folder: str, name: str) -> str:
    return resources.files('sysid_ros.report').joinpath(folder, name).read_text(encoding='utf-8')


def _context(result: CalibrationResult, truth: Mapping[str, float] | None) -> dict[str, Any]:
    """Gather what the template names."""
    known = {
        parameter.name: float(truth[name])
        for parameter in result.parameters
        for name in (*parameter.targets, parameter.name)
        if truth is not None and name in truth
    }
    findings = aggregated(result.health)
    errors = {(error.sensor, error.role): error for error in result.errors}
    units = {error.sensor: error.unit for error in result.errors}
    verdicts = Counter(parameter.verdict_kind for parameter in result.parameters)
    groups = figures.sequences(result)
    bags = list(dict.fromkeys(topic.bag for topic in result.topics))
    ends = sorted(start.cost for start in result.solver.starts if math.isfinite(start.cost))
    config = json.loads(json.dumps(result.provenance.config, default=str))
    settings: dict[str, Any] = {}
    # The configurations of other tools are shown as they are only.
    with contextlib.suppress(ValidationError):
        validated = CalibrationConfig.model_validate(config)
        settings = validated.model_dump(mode='json', exclude_defaults=True)
    scripts = (_text('vendor', 'uPlot.iife.min.js'), _text('templates', 'report.js'))
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()) for text in scripts)
    last_first = result.bases[::-1]
    return {
        'result': result,
        'truth': known,
        'counted': counted(result),
        'headline': headline(result),
        'next_steps': next_steps(result),
        'pictures': _pictures(result, known),
        'known_links': tables.link_rows(result, known=True),
        'wide_links': tables.link_rows(result, known=False),
        'bases': [base for known in (True, False) for base in last_first if base.known is known],
        'verdict_counts': ', '.join(f'{count} {kind}' for kind, count in verdicts.items()),
        'with_bands': any(plot.band for plot in result.plots),
        'with_commands': any(plot.command for plot in result.plots),
        'model_diff': model_diff(result),
        'findings': findings,
        'grades_in_words': tables.grades_in_words(findings),
        'events': figures.events(result),
        'most_events': MOST_NAMED,
        'sensors': [
            {'sensor': name, 'unit': unit, **{role: errors.get((name, role)) for role in ROLES}}
            for name, unit in units.items()
        ],
        'sequences': groups,
        'pairs': strong_pairs(result),
        'most_pairs': _MOST_ROWS,
        'strong': MUCH,
        'topics': sorted(result.topics, key=lambda topic: bags.index(topic.bag)),
        'final_costs': [numbers.significant(end) for end in ends],
        'settings': _yaml_lines(settings),
        'config_lines': _yaml_lines(config),
        # These hold no text of the user's.
        'style': Markup(_text('vendor', 'uPlot.min.css') + _text('templates', 'report.css')),  # noqa: S704
        'scripts': [Markup(script) for script in scripts],  # noqa: S704
        'curves': figures.curves_json(result, groups),
        'script_sources': ' '.join(f"'sha256-{digest.decode()}'" for digest in hashes),
    }


def render_report(
    result: CalibrationResult,
    *,
    truth: Mapping[str, float] | None = None,
    title: str = '',
    films: Sequence[Film] = (),
    no_film: str = '',
) -> str:
    """Render a result as the text of a self-contained HTML page.

    Args:
        result: What to show.
        truth: True values by parameter name or target, where they are known (a simulated robot);
            they add a column to the table and a mark to the interval figure.
        title: Stands above all; the name of the model unless given.
        films: Of the motion, shown before the figures.
        no_film: Why there is none, in a sentence, where there should be one.
    """
    page = _environment().get_template('report.html.j2')
    title = title or f'Calibration of {result.model}'
    return page.render(_context(result, truth), title=title, films=films, no_film=no_film)


def write_report(
    result: CalibrationResult,
    path: Path,
    *,
    truth: Mapping[str, float] | None = None,
    films: Sequence[Film] = (),
    no_film: str = '',
) -> None:
    """Write a result as one HTML file that opens offline; options as of `render_report`.

    The file carries its scripts, styles and data. Its content security policy lets it load nothing
    else and run no script but its own.
    """
    page = render_report(result, truth=truth, films=films, no_film=no_film)
    replace_file(path, page.encode('utf-8'))

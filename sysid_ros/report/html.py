# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The report: one HTML file that needs nothing but a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections import Counter
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

import jinja2
import yaml
from markupsafe import Markup, escape
from pydantic import ValidationError

from sysid_ros.alignment.health import Grade, aggregated
from sysid_ros.config.calibration import CalibrationConfig, VerdictKind
from sysid_ros.files import replace_file
from sysid_ros.report import numbers, pictures, recordings, signals, tables
from sysid_ros.report.model_diff import model_diff
from sysid_ros.results.headline import counted, figures, headline
from sysid_ros.results.next_steps import next_steps
from sysid_ros.results.result import ROLE_NAMES, ROLES, Standing
from sysid_ros.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sysid_ros.report.film import Film
    from sysid_ros.results.result import CalibrationResult, ParameterResult

#: After these characters a long name, path or hash may be broken over lines; no number may.
_BREAKS = re.compile(r'[/_]|\.(?!\d)')
#: Symbol and tone of each verdict; the text always stands beside it.
_VERDICTS = {
    VerdictKind.IDENTIFIED: ('✓', 'good'),
    VerdictKind.AT_BOUND: ('▲', 'warn'),
    VerdictKind.PRIOR_DOMINATED: ('◐', 'warn'),
    VerdictKind.MODEL_LIMITED: ('≠', 'warn'),
    VerdictKind.CONFOUNDED: ('⇄', 'bad'),
    VerdictKind.NOT_EXCITED: ('○', 'bad'),
}
#: Shorter tables are seen at a glance.
_FEWEST_FILTERED = 6
#: So many pairs of correlated parameters, and events of a recording, are written.
_MOST_PAIRS, _MOST_EVENTS = 20, 6


class Tag(NamedTuple):
    """A word with the symbol and the tone (``good``, ``warn``, ``bad``) that go with it.

    ``detail`` is what follows the word, as ``with a, b``.
    """

    word: str
    symbol: str
    tone: str
    detail: str = ''


class ParameterRow(NamedTuple):
    """A parameter and what is known about it from elsewhere."""

    parameter: ParameterResult
    verdict: Tag
    mark: pictures.Mark

    @property
    def truth(self) -> float | None:
        """The true value, where it is known."""
        return self.mark.true_value

    @property
    def rank(self) -> int:
        """Where its verdict is among all kinds, the best first."""
        return list(_VERDICTS).index(self.parameter.verdict_kind)

    @property
    def change(self) -> str:
        """What the fit changed, in words."""
        found = self.parameter
        return numbers.change(found.initial, found.value, found.half_width)

    @property
    def relative_change(self) -> float:
        """The change as a part of the nominal value; NaN where that is zero."""
        found = self.parameter
        return (found.value - found.initial) / abs(found.initial) if found.initial else math.nan

    @property
    def relative_width(self) -> float:
        """The half-width as a part of the value; NaN where that is zero."""
        found = self.parameter
        return found.half_width / abs(found.value) if found.value else math.nan

    @property
    def truth_inside(self) -> bool | None:
        """Whether the true value lies in the interval; None when there is no such question."""
        if self.truth is None or math.isnan(self.parameter.low) or math.isnan(self.parameter.high):
            return None
        return self.parameter.low <= self.truth <= self.parameter.high


#: Word, symbol and tone of what a finding does to a result.
_GRADES = {
    Grade.FAULT: Tag(Grade.FAULT, '✕', 'bad'),
    Grade.CAUTION: Tag(Grade.CAUTION, '!', 'warn'),
    Grade.NOTE: Tag(Grade.NOTE, 'i', 'note'),
}
#: Word, symbol and tone of what may be done with a result.
STANDING = {
    standing: Tag(standing.capitalize(), symbol, tone)
    for standing, symbol, tone in (
        (Standing.ACCEPTED, '✓', 'good'),
        (Standing.RESERVED, '!', 'warn'),
        (Standing.REJECTED, '✕', 'bad'),
    )
}


def _sentence(result: CalibrationResult) -> str:
    """Say how much of the error is left, or what is not met."""
    if result.accepted:
        return headline(result).sentence
    wrong = [check.name for check in result.gate if not check.passed]
    if wrong:
        return f'Not met: {", ".join(wrong)}.'
    sentence = ' '.join(result.acceptance.split())
    sentence = sentence[:1].upper() + sentence[1:]
    return sentence if not sentence or sentence[-1] in '.!?' else f'{sentence}.'


def _verdicts_of(rows: Sequence[ParameterRow]) -> list[tuple[Tag, int]]:
    """Count rows by verdict, the best first."""
    counts = Counter(row.verdict.word for row in rows)
    return [(Tag(kind, *_VERDICTS[kind]), counts[kind]) for kind in _VERDICTS if counts[kind]]


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return what a configuration says otherwise than the defaults; nothing of other tools."""
    try:
        return CalibrationConfig.model_validate(config).model_dump(
            mode='json', exclude_defaults=True
        )
    except ValidationError:
        return {}


def _yaml_lines(config: dict[str, Any]) -> list[str]:
    return yaml.safe_dump(
        config, sort_keys=False, allow_unicode=True, default_flow_style=None
    ).splitlines()


def _breakable(text: str) -> Markup:
    """Escape a name and allow line breaks after its separators."""
    safe = _BREAKS.sub(r'\g<0><wbr>', str(escape(one_line(text))))
    return Markup(safe)  # noqa: S704 (escaped above)


def _number(value: float, text: str) -> Markup:
    """Write a number for people, with the exact one behind it for machines and as a tooltip."""
    return Markup('<data value="{0}" title="{0}">{1}</data>').format(repr(float(value)), text)


def _source_hash(script: str) -> str:
    """Return the hash by which a content security policy allows an inline script."""
    digest = hashlib.sha256(script.encode('utf-8')).digest()
    return 'sha256-' + base64.b64encode(digest).decode('ascii')


def environment() -> jinja2.Environment:
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
        duration=numbers.duration,
        figures=figures,
        interval=numbers.interval,
        number=_number,
        padded=numbers.padded,
        role_names=ROLE_NAMES,
        rounded=numbers.rounded,
        significant=numbers.significant,
        times=numbers.times,
        verdicts_of=_verdicts_of,
    )
    return made


def asset(name: str) -> str:
    """Return the text of a style sheet or script."""
    return _text('templates', name)


def _text(folder: str, name: str) -> str:
    return resources.files('sysid_ros.report').joinpath(folder, name).read_text(encoding='utf-8')


def _context(
    result: CalibrationResult,
    truth: Mapping[str, float] | None,
    title: str,
    films: Sequence[Film],
) -> dict[str, Any]:
    """Gather what the template names."""
    panels = pictures.panels(result, truth)
    marks = {mark.parameter.name: mark for panel in panels for mark in panel.marks}
    # That of nominal values that are zero has nothing to read.
    axis = next((panel for panel in panels if panel.of_nominal), None)
    rows = [
        ParameterRow(
            parameter,
            Tag(
                parameter.verdict_kind,
                *_VERDICTS[parameter.verdict_kind],
                f'with {", ".join(parameter.confounded_with)}' if parameter.confounded_with else '',
            ),
            marks[parameter.name],
        )
        for parameter in result.parameters
    ]
    findings = aggregated(result.health)
    errors = {(error.sensor, error.role): error for error in result.errors}
    units = {error.sensor: error.unit for error in result.errors}
    counts = Counter(row.verdict.word for row in rows)
    groups = signals.sequences(result)
    bags = list(dict.fromkeys(topic.bag for topic in result.topics))
    ends = sorted(
        start.final_cost for start in result.solver.starts if math.isfinite(start.final_cost)
    )
    config = json.loads(json.dumps(result.provenance.config, default=str))
    settings = _settings(config)
    own = ''.join(asset(f'{name}.js') for name in ('tables', 'report', 'film'))
    scripts = (_text('vendor', 'uPlot.iife.min.js'), own)
    last_first = result.bases[::-1]
    return {
        'result': result,
        'title': title or f'Calibration of {result.model}',
        'films': films,
        'standing': STANDING[result.standing],
        'sentence': _sentence(result),
        'counted': counted(result),
        'headline': headline(result),
        'next_steps': next_steps(result),
        'parameters': [row for row in rows if row.parameter.name not in result.of_links],
        'known_links': tables.link_rows(result, known=True),
        'wide_links': tables.link_rows(result, known=False),
        'bases': [base for known in (True, False) for base in last_first if base.known is known],
        'known_bases': sum(base.known for base in result.bases),
        'link_numbers': [row for row in rows if row.parameter.name in result.of_links],
        'verdict_counts': ', '.join(f'{count} {kind}' for kind, count in counts.items()),
        'with_truth': any(row.truth is not None for row in rows),
        'with_bands': any(plot.band for plot in result.plots),
        'axis_ticks': axis.ticks if axis else (),
        'axis_logarithmic': axis is not None and axis.logarithmic,
        'fewest_filtered': _FEWEST_FILTERED,
        'model_diff': model_diff(result),
        'findings': findings,
        'grade_tags': _GRADES,
        'grades_in_words': tables.grades_in_words(findings),
        'timeline': recordings.timeline(result),
        'most_events': _MOST_EVENTS,
        'sensors': [
            {'sensor': name, 'unit': unit, **{role: errors.get((name, role)) for role in ROLES}}
            for name, unit in units.items()
        ],
        'sequences': groups,
        'noise_sources': list(dict.fromkeys(scale.source for scale in result.noise)),
        'unsure': [p for p in result.parameters if p.explanation and p.name not in result.of_links],
        'pairs': pictures.strong_pairs(result),
        'most_pairs': _MOST_PAIRS,
        'strong': pictures.STRONG,
        'correlations': pictures.correlations(result),
        'horizons': pictures.horizons(result),
        'with_commands': any(plot.command for plot in result.plots),
        'topics': sorted(result.topics, key=lambda topic: bags.index(topic.bag)),
        'final_costs': [numbers.significant(end) for end in ends],
        'settings': _yaml_lines(settings) if settings else (),
        'config_lines': _yaml_lines(config) if config else (),
        # These hold no text of the user's.
        'style': Markup(_text('vendor', 'uPlot.min.css') + asset('report.css')),  # noqa: S704
        'scripts': [Markup(script) for script in scripts],  # noqa: S704
        'curves': signals.curves_json(result, groups),
        'script_sources': ' '.join(f"'{_source_hash(text)}'" for text in scripts),
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
        films: Of the motion, shown before the signals.
        no_film: Why there is none, in a sentence, where there should be one.
    """
    context = _context(result, truth, title, films)
    return environment().get_template('report.html.j2').render(context, no_film=no_film)


def write_report(
    result: CalibrationResult,
    path: Path,
    *,
    truth: Mapping[str, float] | None = None,
    films: Sequence[Film] = (),
    no_film: str = '',
) -> None:
    """Write a result as one HTML file that opens offline.

    The file carries its scripts, styles and data. Its content security policy lets it load nothing
    else and run no script but its own. The options are those of :func:`render_report`.

    Raises:
        ResultError: The file cannot be written.
    """
    page = render_report(result, truth=truth, films=films, no_film=no_film)
    replace_file(path, page.encode('utf-8'))

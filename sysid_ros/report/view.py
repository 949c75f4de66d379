# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the report says, in the order it says it: a result regrouped for reading."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, NamedTuple

import yaml

from sysid_ros.config.calibration import VerdictKind
from sysid_ros.report.forest import true_value
from sysid_ros.report.numbers import significant, times

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sysid_ros.results.result import (
        CalibrationResult,
        HealthFinding,
        NoiseScale,
        ParameterResult,
        Role,
        SensorError,
        SignalPlot,
        TopicRate,
    )

ROLE_NAMES: dict[Role, str] = {'validate': 'held out', 'train': 'training'}

#: Symbol and tone of each verdict; the text always stands beside it.
_VERDICTS = {
    VerdictKind.IDENTIFIED: ('✓', 'good'),
    VerdictKind.AT_BOUND: ('▲', 'warn'),
    VerdictKind.PRIOR_DOMINATED: ('◐', 'warn'),
    VerdictKind.CONFOUNDED: ('⇄', 'bad'),
    VerdictKind.NOT_EXCITED: ('○', 'bad'),
}


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
    truth: float | None

    @property
    def truth_inside(self) -> bool | None:
        """Whether the true value lies in the interval; None when there is no such question."""
        if self.truth is None or math.isnan(self.parameter.low) or math.isnan(self.parameter.high):
            return None
        return self.parameter.low <= self.truth <= self.parameter.high


class SensorRow(NamedTuple):
    """The errors of one sensor on both roles; None where it was not measured in one."""

    sensor: str
    unit: str
    train: SensorError | None
    validate: SensorError | None


class Figure(NamedTuple):
    """One plot of the report: its number among all plots, its data and its caption's numbers."""

    number: int
    plot: SignalPlot
    error: SensorError | None

    @property
    def description(self) -> str:
        """What the plot shows, in words, for those who do not see it."""
        plot = self.plot
        kind = ROLE_NAMES[plot.role]
        text = f'{plot.sensor} in the {kind} sequence {plot.sequence}, {len(plot.times)} samples'
        if plot.times:
            text += f' from {significant(plot.times[0])} to {significant(plot.times[-1])} s'
        text += ': measured, before and after the fit.'
        if self.error is not None:
            text += (
                f' Root mean square error on all {kind} data: {significant(self.error.before, 3)} '
                f'before, {significant(self.error.after, 3)} after, in {plot.unit or "1"}.'
            )
        return text


class SequenceFigures(NamedTuple):
    """All plots of one sequence."""

    sequence: str
    role: Role
    figures: tuple[Figure, ...]


class BagTopics(NamedTuple):
    """What arrived from one bag."""

    bag: str
    topics: tuple[TopicRate, ...]
    findings: tuple[HealthFinding, ...]


class Headline(NamedTuple):
    """The outcome in one sentence and the error that decides it.

    ``before`` and ``after`` are root mean squares in units of the noise scale.
    """

    verdict: Tag
    word: str
    sentence: str
    error_name: str
    before: float
    after: float
    change: str


def verdict(parameter: ParameterResult) -> Tag:
    """Find the symbol and tone of a parameter's verdict."""
    others = ', '.join(parameter.confounded_with)
    return Tag(
        parameter.verdict_kind,
        *_VERDICTS[parameter.verdict_kind],
        f'with {others}' if others else '',
    )


def headline(result: CalibrationResult) -> Headline:
    """Say whether the result was accepted, why, and how the deciding error changed."""
    held_out = math.isfinite(result.held_out_before) or math.isfinite(result.held_out_after)
    before, after = (
        (result.held_out_before, result.held_out_after)
        if held_out
        else (result.training_before, result.training_after)
    )
    word = 'Accepted' if result.accepted else 'Rejected'
    sentence = ' '.join(result.acceptance.split())
    sentence = sentence[:1].upper() + sentence[1:]
    if sentence and sentence[-1] not in '.!?':
        sentence += '.'
    return Headline(
        Tag(word, '✓', 'good') if result.accepted else Tag(word, '✕', 'bad'),
        word,
        sentence,
        'Held-out error' if held_out else 'Training error (nothing is held out)',
        before,
        after,
        times(before, after),
    )


def parameter_rows(
    result: CalibrationResult, truth: Mapping[str, float] | None
) -> tuple[ParameterRow, ...]:
    """Pair each parameter with its verdict and its true value."""
    return tuple(
        ParameterRow(parameter, verdict(parameter), true_value(parameter, truth))
        for parameter in result.parameters
    )


def verdict_counts(rows: tuple[ParameterRow, ...]) -> str:
    """Count the verdicts in words: ``5 identified, 1 not excited, 1 confounded``."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.verdict.word] = counts.get(row.verdict.word, 0) + 1
    return ', '.join(f'{count} {kind}' for kind, count in counts.items())


def sensor_rows(result: CalibrationResult) -> tuple[SensorRow, ...]:
    """Put the errors of each sensor on one line, in the order of the result."""
    found: dict[str, SensorRow] = {}
    for error in result.errors:
        row = found.get(error.sensor, SensorRow(error.sensor, error.unit, None, None))
        found[error.sensor] = (
            row._replace(train=error) if error.role == 'train' else row._replace(validate=error)
        )
    return tuple(found.values())


def sequences(result: CalibrationResult) -> tuple[SequenceFigures, ...]:
    """Group the plots by sequence, held-out sequences first."""
    errors = {(error.sensor, error.role): error for error in result.errors}
    groups: dict[tuple[Role, str], list[SignalPlot]] = {}
    for plot in result.plots:
        groups.setdefault((plot.role, plot.sequence), []).append(plot)
    ordered = sorted(groups.items(), key=lambda group: group[0][0] != 'validate')
    found: list[SequenceFigures] = []
    number = 0
    for (role, name), plots in ordered:
        figures = tuple(
            Figure(number + offset, plot, errors.get((plot.sensor, role)))
            for offset, plot in enumerate(plots)
        )
        number += len(figures)
        found.append(SequenceFigures(name, role, figures))
    return tuple(found)


def bags(result: CalibrationResult) -> tuple[BagTopics, ...]:
    """Group topic rates and findings by bag, in the order in which bags first appear."""
    names = dict.fromkeys(
        [topic.bag for topic in result.topics] + [finding.bag for finding in result.health]
    )
    return tuple(
        BagTopics(
            name,
            tuple(topic for topic in result.topics if topic.bag == name),
            tuple(finding for finding in result.health if finding.bag == name),
        )
        for name in names
    )


def noise_sources(result: CalibrationResult) -> tuple[tuple[str, tuple[NoiseScale, ...]], ...]:
    """Group the noise scales by where they came from."""
    sources = dict.fromkeys(scale.source for scale in result.noise)
    return tuple(
        (source, tuple(scale for scale in result.noise if scale.source == source))
        for source in sources
    )


def starts_text(result: CalibrationResult) -> str:
    """Say what became of the starts, in words; empty where there was one."""
    starts = result.solver.starts
    if not starts:
        return ''
    ends = sorted(start.final_cost for start in starts if math.isfinite(start.final_cost))
    costs = ', '.join(significant(end) for end in ends)
    return f'{len(starts)} over the bounds; {len(ends)} were solved, to the costs {costs}'


def config_text(result: CalibrationResult) -> str:
    """Return the configuration as YAML."""
    plain = json.loads(json.dumps(result.provenance.config, default=str))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True) if plain else ''

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What commands print of what they found, where that is not in the report as well."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sysid_ros.cli.console import print_paths, say
from sysid_ros.errors import MOST_NAMED, ResultError, how_many, listed
from sysid_ros.report.numbers import MISSING, interval, padded, rounded, significant
from sysid_ros.report.tables import (
    LiteralConsole,
    determined,
    explained,
    markdown,
    print_findings,
    print_first,
    print_table,
    workflow_commands,
)
from sysid_ros.results.comparison import Case
from sysid_ros.results.links import link_places
from sysid_ros.workflows.compare import ModelComparison
from sysid_ros.workflows.excitation.design import Design
from sysid_ros.workflows.fleet import FleetResult
from sysid_ros.workflows.init import CalibrationProposal
from sysid_ros.workflows.predicting import NOMINAL, PREDICTED, RESIDUAL, JointPrediction
from sysid_ros.workflows.preflight import NOTHING, PredictedParameter, Preflight


def print_proposal(found: CalibrationProposal, mapping: str) -> None:
    """Say what was chosen; ``mapping`` is the name of the mapping file."""
    say(f'model     {found.model}')
    for note in found.model_notes:
        say(f'          {note}')
    for bag in found.bags:
        if bag.role is None:
            say(f'unusable  {bag.path}: {bag.why}')
        else:
            say(f'{bag.role:9} {bag.path}: {bag.summary}')
            for finding in bag.findings:
                say(f'            {finding}')
    _print_mapping(found, mapping)
    _print_targets(found)


def _print_mapping(found: CalibrationProposal, file: str) -> None:
    if found.mapping is None:
        say('mapping   auto: the names of recordings and model agree')
    else:
        pairs = found.mapping.pairs
        doubtful = [pair for pair in pairs if not pair.confident]
        certain = len(pairs) - len(doubtful)
        say(f'mapping   {file}: {certain} of {len(pairs)} pairs are certain')
        for pair in doubtful:
            say(f'            look at {pair.role.value} {pair.name}: {pair.reason}')
    for question in found.questions:
        say(f'            {question}')


def _print_targets(found: CalibrationProposal) -> None:
    say(f'identify  {how_many(found.chosen, "parameter")} of {len(found.targets)}')
    for reason in dict.fromkeys(item.left_out for item in found.targets if item.left_out):
        own = [item.target for item in found.targets if item.left_out == reason]
        say(f'            left out {listed(own)}: {reason}')
    for note in found.notes:
        say(note)
    if found.problem:
        say(f'The first steps of a fit could not be taken: {found.problem}')


def print_next_commands(found: CalibrationProposal, output: Path) -> None:
    """Say what to type next."""
    if not found.of_role('validate'):
        bag = found.of_role('train')[0].path.with_name('validate_1')
        say('Nothing is held out: record another motion, and repeat sysid init with both:')
        say(f'  ros2 launch sysid_ros record.launch.xml output:={shlex.quote(str(bag))}')
    file = shlex.quote(str(output))
    say('Correct that in the file, then:' if found.problem else 'Next:')
    say(f'  sysid preflight {file}')
    say(f'  sysid calibrate {file}')


def print_design(console: LiteralConsole, found: Design, *, collide: bool) -> None:
    """Print what a motion tells, and how near it comes to limits."""
    rows = [
        (
            parameter.name,
            significant(parameter.nominal),
            f'± {significant(float(half))}',
            parameter.unit,
        )
        for parameter, half in zip(found.parameters, found.half, strict=True)
    ]
    columns = ('parameter', '>nominal', '>95 % interval', 'unit')
    print_table(console, 'Predicted intervals', columns, rows)
    for item in found.unexcited:
        console.print(f'cannot be told by any motion: {item.parameter.name} ({item.reason})')
    order = sorted(found.usage, key=lambda use: -use.part)
    limits = [
        (
            f'{use.what} of {use.name}',
            *(significant(end) for end in (use.low, use.high)),
            *(f'{100 * part:.0f} %' for part in (use.part, use.allowed)),
        )
        for use in order[:MOST_NAMED]
    ]
    title = f'Limits, the worst of {found.models} models with parameters 20 % off'
    print_table(console, title, ('limit', '>from', '>to', '>used', '>allowed'), limits)
    if len(order) > MOST_NAMED:
        rest = 100 * order[MOST_NAMED].part
        console.print(f'… and {len(order) - MOST_NAMED} limits used to at most {rest:.0f} %')
    if not collide:
        console.print('collisions: not checked, the geoms of the moving bodies cannot collide')
    elif found.distance < float('inf'):
        console.print(f'collisions: bodies come as near as {1e3 * found.distance:.0f} mm')
    else:
        console.print('collisions: none, nothing comes near')


def print_models(console: LiteralConsole, found: ModelComparison) -> None:
    """Print how well each model predicts, and which one is recommended."""
    numbers = ('parameters', 'training', 'held out', 'worse by', 'std error', 'BIC')
    rows = [
        (
            model.name,
            str(model.parameters),
            *(_number(x) for x in (model.training, model.held_out)),
            *(_number(x, '.2g') for x in (model.difference, model.standard_error)),
            _number(model.bic, '.1f'),
        )
        for model in found.models
    ]
    headers = ('model', *(f'>{name}' for name in numbers))
    title = 'Models (errors in units of the noise)'
    print_table(console, title, headers, rows)
    parts = [
        (bags[0].bag, *(_number(part.error) for part in bags))
        for bags in zip(*(model.parts for model in found.models), strict=True)
    ]
    if parts:
        headers = ('bag', *(f'>{model.name}' for model in found.models))
        print_table(console, 'Held out (error in units of the noise)', headers, parts)
    console.print(f'BIC is above the least, for {found.effective:.3g} effective samples.')
    console.print(recommendation(found))


def recommendation(found: ModelComparison) -> str:
    """Say which model to take, and why."""
    return f'recommended: {found.recommended}, as {found.reason}'


def _number(value: float, form: str = '.4g') -> str:
    return format(value, form) if math.isfinite(value) else '-'


class PredictionError(NamedTuple):
    """Root mean square differences of predictions from what was measured; NaN without nominal."""

    joint: str
    quantity: str
    unit: str
    nominal: float
    predicted: float


def joint_errors(prediction: JointPrediction) -> list[PredictionError]:
    """Return how far predictions are off, joint by joint."""
    predicted = prediction.errors(prediction.predicted)
    nominal = np.full_like(predicted, np.nan)
    if prediction.nominal is not None:
        nominal = prediction.errors(prediction.nominal)
    return [
        PredictionError(
            joint,
            quantity.value,
            quantity.unit(slide=slide),
            float(nominal[place, column]),
            float(predicted[place, column]),
        )
        for column, (joint, slide) in enumerate(
            zip(prediction.joints, prediction.slides, strict=True)
        )
        for place, quantity in enumerate(type(prediction.quantities[0]))
        if quantity in prediction.quantities
    ]


def print_joint_errors(
    console: LiteralConsole, prediction: JointPrediction, errors: Sequence[PredictionError]
) -> None:
    """Print a row per joint and quantity."""
    names = [name for name in (NOMINAL, PREDICTED) if name in prediction.series()]
    rows = [
        [error.joint, error.quantity, error.unit]
        + [padded(value) for value in (error.nominal, error.predicted)[-len(names) :]]
        for error in errors
    ]
    headers = ['joint', 'quantity', 'unit', *(f'>{name}' for name in names)]
    print_table(console, f'Root mean square {RESIDUAL}', headers, rows)


def print_fleet(console: LiteralConsole, result: FleetResult) -> None:
    """Print the population, robots that are odd, and those without a result to use."""
    rows = [
        (
            p.name,
            rounded(p.mean, (p.high - p.low) / 2),
            interval(p.low, p.high),
            significant(p.tau, 2),
            p.unit,
            significant(p.p_value, 2),
            str(len(p.values)),
            ', '.join(value.robot for value in p.odd) or '-',
        )
        for p in result.parameters
    ]
    columns = ('parameter', '>mean', '>95 % interval', '>between robots', 'unit', '>p if alike')
    print_table(console, 'Population', (*columns, '>robots', 'odd'), rows)
    for p in result.parameters:
        for odd in p.odd:
            side = 'above' if odd.deviation > 0 else 'below'
            console.print(
                f'odd: {odd.robot}: {p.name} is {rounded(odd.value, odd.error)}, '
                f'{significant(abs(odd.deviation), 3)} standard deviations {side} the others'
            )
    for robot in result.robots:
        if not robot.usable:
            console.print(f'{robot.standing}: {robot.name}: {robot.sentence}')


def print_preflight(console: LiteralConsole, found: Preflight) -> None:
    """Print what a fit would say, and what it rests on."""
    for note in found.notes:
        console.print(note)
    if found.diverging:
        console.print(found.diverging)
        console.print()
    else:
        _print_expected(console, found)
    _print_sources(console, found)
    for name in found.unstable:
        console.print(f'{name}: simulations of the nominal model diverge; left out here')
    if found.unstable:
        console.print()
    print_findings(console, found.health)
    console.print(preflight_line(found))


def preflight_line(found: Preflight) -> str:
    """Say which parameters a fit would not identify."""
    links = link_places([(item.name,) for item in found.parameters])
    of_links = {found.parameters[place].name for own in links.values() for place in own}
    names = [name for name in found.doubtful if name not in of_links]
    doubtful = len(found.doubtful) - len(names)
    if doubtful:
        names.append(f'{doubtful} of {len(of_links)} numbers of links')
    if names:
        return f'Not identified by these bags: {listed(names)}.'
    every = how_many(found.parameters, 'parameter')
    told = f'All {every}' if len(found.parameters) > 1 else f'The {every[2:]}'
    return f'{told} would be identified by these bags.'


def _print_expected(console: LiteralConsole, found: Preflight) -> None:
    links = link_places([(item.name,) for item in found.parameters])
    of_links = {place for own in links.values() for place in own}
    told_by = 'told by (times wider without)'
    headers = ('parameter', '>nominal', '>± expected', '>in %', 'unit', 'verdict', told_by)
    rows = []
    for place, item in enumerate(found.parameters):
        if place in of_links:
            continue
        value = item.nominal if math.isnan(item.value) else item.value
        percent = 100 * item.half / abs(value) if value else math.nan
        row = (
            item.name,
            _nominal(item),
            '-' if math.isnan(item.half) else significant(item.half, 2),
            '-' if math.isnan(percent) else f'{significant(percent, 2)} %',
            item.unit,
            item.verdict,
            _told_by(found, place),
        )
        rows.append(row)
    title = 'What a fit could say (95 % intervals)'
    print_table(console, title, headers, rows)
    _print_bodies(console, found, links)
    singles = [item for place, item in enumerate(found.parameters) if place not in of_links]
    unsure = [item for item in singles if item.explanation]
    print_first(console, explained((item.name, item.explanation) for item in unsure))
    names = {item.name for item in singles}
    print_first(console, (determined(c) for c in found.combinations if names >= {*c.parameters}))
    console.print(f'± expected: {found.method} ({found.samples} samples).')
    console.print()


def _print_bodies(console: LiteralConsole, found: Preflight, links: dict[str, list[int]]) -> None:
    """Print what is to be expected of links, those that are alike in one line."""
    alike: dict[str, list[str]] = {}
    for body, places in links.items():
        counts = Counter(str(found.parameters[place].verdict_kind) for place in places)
        said = ', '.join(f'{count} {kind}' for kind, count in counts.most_common())
        alike.setdefault(said, []).append(body)
    if alike:
        console.print('Inertias of links, ten numbers each, of which no motion tells all apart:')
        for said, bodies in alike.items():
            console.print(f'  {listed(bodies)}: {said}')
        console.print()


def _nominal(item: PredictedParameter) -> str:
    """Write a nominal value to the digits that a fit would find, all where it finds none."""
    if 0 < item.half <= abs(item.nominal):
        return rounded(item.nominal, item.half)
    return significant(item.nominal)


def _told_by(found: Preflight, place: int) -> str:
    """Name the sensors without which the interval of a parameter would be wider."""
    grown = sorted(((sensor.growth[place], sensor.name) for sensor in found.sensors), reverse=True)
    carrying = [(growth, name) for growth, name in grown if growth > NOTHING]
    if not carrying:
        return 'several alike' if any(not math.isnan(growth) for growth, _ in grown) else '-'
    return ', '.join(
        f'{name} {"alone" if math.isinf(growth) else format(growth, ".2g")}'
        for growth, name in carrying[:MOST_NAMED]
    )


def _print_sources(console: LiteralConsole, found: Preflight) -> None:
    """Print what each bag adds, and which sources add nothing."""
    for bag in found.bags if len(found.bags) > 1 else ():
        known = [
            (growth, item.name)
            for growth, item in zip(bag.growth, found.parameters, strict=True)
            if not math.isnan(growth)
        ]
        if known:
            most, name = max(known)
            wider = 'lost' if math.isinf(most) else f'known {most:.2g} times worse'
            console.print(f'bag {bag.name}: without it {name} would be {wider}')
    idle = [f'sensor {each.name}' for each in found.sensors if each.adds_nothing]
    idle += [f'bag {each.name}' for each in found.bags if each.adds_nothing]
    if idle:
        console.print(f'adds nothing (no interval 5 % wider without): {listed(idle)}')
    if found.dead:
        console.print(f'never moves, left out: {listed(found.dead)}')
    if len(found.bags) > 1 or idle or found.dead:
        console.print()


@dataclass(frozen=True)
class Outcome:
    """What was checked; ``files`` are those of the new baseline."""

    title: str
    passed: bool
    notes: Sequence[str]
    cases: Sequence[Case]
    files: Sequence[Path]

    @property
    def last_line(self) -> str:
        """The verdict."""
        failed = [case.name for case in self.cases if not case.passed]
        if failed:
            return f'{len(failed)} of {len(self.cases)} failed: {listed(failed)}.'
        if all(math.isinf(case.limit) and math.isnan(case.baseline) for case in self.cases):
            return 'No limits were given, so nothing failed.'
        return f'All {len(self.cases)} passed.'

    def show(self, console: LiteralConsole, *, quiet: bool) -> None:
        """Print the table, notes and the new baseline, and the verdict last."""
        if not quiet:
            _print_cases(console, self.title, self.cases)
            for line in self.notes:
                console.print(line, soft_wrap=True)
        for path in self.files:
            print_paths(console, {'new baseline': path})
        console.print(self.last_line, soft_wrap=True)

    def tell_github(self) -> None:
        """Annotate on standard error, and add to the summary of the step."""
        for line in workflow_commands(self.cases):
            print(line, file=sys.stderr)  # noqa: T201 (escaped as such commands are)
        summary = os.environ.get('GITHUB_STEP_SUMMARY')
        if summary:
            try:
                with Path(summary).open('a', encoding='utf-8') as stream:
                    stream.write(markdown(self.title, self.cases, self.notes))
            except OSError as err:
                raise ResultError(
                    f'Cannot write the step summary {summary!r}: {err.strerror}.'
                ) from err


def _print_cases(console: LiteralConsole, title: str, cases: Sequence[Case]) -> None:
    """Print what failed, and of what passed in several recordings the worst."""
    columns = ('what', 'recording', '>value', '>limit', '>baseline', 'unit', 'verdict')
    passed: dict[str, list[Case]] = {}
    for case in cases:
        if case.passed:
            passed.setdefault(case.name, []).append(case)
    rows = [_row(case, case.bag) for case in cases if not case.passed]
    for alike in passed.values():
        worst = max(alike, key=lambda case: (case.value / case.limit, case.value))
        more = f', worst of {len(alike)}' if len(alike) > 1 else ''
        rows.append(_row(worst, f'{worst.bag}{more}'))
    print_table(console, title, columns, rows)


def _row(case: Case, recording: str) -> tuple[str, ...]:
    judged = case.limit < math.inf or math.isnan(case.value)
    line = '' if case.place is None else f' ({case.place})'
    verdict = ('ok' if judged else '') if case.passed else f'FAILED: {case.sentence}{line}'
    limit = MISSING if math.isinf(case.limit) else significant(case.limit)
    numbers = (significant(case.value), limit, significant(case.baseline))
    return (case.name, recording, *numbers, case.unit, verdict)

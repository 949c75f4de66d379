# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is found as tables for terminals and notebooks, and as cases for CI."""

from __future__ import annotations

import html
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any
from xml.etree import ElementTree as ET

from rich.cells import cell_len
from rich.console import Console  # noqa: TID251 (for the one that takes its place)
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sysid_ros.alignment.health import Findings, Grade, HealthFinding, aggregated
from sysid_ros.alignment.pairs import PairRole, column_name
from sysid_ros.alignment.trajectories import Alignment
from sysid_ros.errors import how_many, listed, one_line, short
from sysid_ros.report.numbers import MISSING, interval, padded, rounded, significant, times
from sysid_ros.results.checks import headline_lines, next_steps
from sysid_ros.results.comparison import Case, SideBySide
from sysid_ros.results.result import CalibrationResult, ParameterResult
from sysid_ros.uncertainty.verdicts import Combination

#: Width where the output is not a terminal: nothing is folded there.
WIDE = 10_000
_NOTHING = {'', '-', MISSING}
#: So many explanations are printed; the report has all.
_LINES = 15
_PARAMETER_COLUMNS = ('parameter', '>value', '>95 % interval', 'unit', '>nominal', 'verdict')
#: The ratio is below 1 where a fit made the error smaller.
_ERROR_COLUMNS = ('>nominal', '>fitted', '>fitted/nominal')

_PAIR_COLUMNS = ('in the model', 'role', 'in the bag', '>scale', '>offset')
_SEQUENCE_COLUMNS = ('name', '>duration/s', '>measured samples', '>command samples')


class LiteralConsole(Console):
    """A console that shows text of others as it is: no markup, no codes of emoji, nothing unseen.

    A text is a line, so that a name cannot begin another one.
    """

    def __init__(self, file: IO[str] | None = None, width: int | None = None) -> None:
        super().__init__(file=file, width=width, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text as it is shown; whatever is printed, in tables as well, comes by here."""
        return super().render_str(one_line(text), **options)

    def on_broken_pipe(self) -> None:
        """Leave it to the caller; rich would end the process with a code that means something."""
        raise BrokenPipeError


def result_text(result: CalibrationResult) -> str:
    """Return what `print_result` prints, nothing folded."""
    return printed(lambda console: print_result(console, result))


def parameters_text(parameters: Sequence[ParameterResult]) -> str:
    """Return the table of parameters alone."""
    return printed(lambda console: _print_parameters(console, parameters))


def printed(show: Callable[[LiteralConsole], None]) -> str:
    """Return what is printed without the spaces that tables end their lines with."""
    stream = io.StringIO()
    show(LiteralConsole(stream, WIDE))
    return '\n'.join(row.rstrip() for row in stream.getvalue().rstrip().splitlines())


def print_result(
    console: LiteralConsole, result: CalibrationResult, truth: Mapping[str, float] | None = None
) -> None:
    """Print the parameters of a result, beside true values by name if known, and its errors."""
    numbers = result.of_links
    _print_parameters(console, [p for p in result.parameters if p.name not in numbers], truth)
    _print_links(console, result)
    _print_trust(console, result)
    _print_errors(console, result)
    if result.folds:
        rows = [(fold.name, *_errors(fold.before, fold.after)) for fold in result.folds]
        title = 'Fitted to the other bags (error in units of the noise)'
        print_table(console, title, ('held out', *_ERROR_COLUMNS), rows)
    print_findings(console, result.health)
    for warning in result.warnings:
        console.print(f'warning: {warning}')
    for line in headline_lines(result):
        console.print(line)
    steps = next_steps(result)
    if steps:
        console.print('Next:')
    for number, step in enumerate(steps, 1):
        console.print(f'  {number}. {step.sentence}')
        for command in step.commands:
            # It is copied as it is, whatever the width.
            console.print(f'     {command}', soft_wrap=True)


def _print_parameters(
    console: LiteralConsole,
    parameters: Iterable[ParameterResult],
    truth: Mapping[str, float] | None = None,
) -> None:
    columns = list(_PARAMETER_COLUMNS)
    rows = [
        [
            p.name,
            rounded(p.value, p.half_width),
            interval(p.low, p.high),
            p.unit,
            significant(p.initial),
            p.verdict,
        ]
        for p in parameters
    ]
    if truth:
        columns.insert(-1, '>true')
        for row in rows:
            row.insert(-1, significant(truth.get(row[0], math.nan)))
    print_table(console, 'Parameters', columns, rows)


def link_rows(result: CalibrationResult, *, known: bool) -> list[list[str]]:
    """Return a row for each number of links that is known, or not, nominal values last."""
    return [
        [
            f'{link.body} {number.name}',
            rounded(number.value, number.half_width),
            interval(number.low, number.high),
            number.unit,
            significant(number.initial),
        ]
        for link in result.links
        for number in link.numbers
        if number.known is known
    ]


def _print_links(console: LiteralConsole, result: CalibrationResult) -> None:
    """Print links instead of the ten numbers by which the inertia of each was fitted."""
    if not result.links:
        return
    numbers = result.of_links
    counts = Counter(str(p.verdict_kind) for p in result.parameters if p.name in numbers)
    said = ', '.join(f'{count} {kind}' for kind, count in counts.most_common())
    title = f'Links, fitted by {len(numbers)} log-Cholesky numbers: {said}'
    rows, wide = (link_rows(result, known=known) for known in (True, False))
    if rows:
        print_table(console, title, ('link', *_PARAMETER_COLUMNS[1:-1]), rows)
    else:
        console.print(title)
    if wide:
        console.print(
            f'Of the {len(rows) + len(wide)} masses, centres and moments of links, {len(wide)} '
            'stay wide and are in the report only.'
        )
    if result.bases:
        console.print(
            f'Base parameters: {sum(base.known for base in result.bases)} of the '
            f'{len(result.bases)} sums that forces can tell are known to 10 % of their largest '
            'term; the report has them.'
        )
    console.print()


def determined(found: Combination) -> str:
    """Say what is determined of parameters that cannot be told apart."""
    value = rounded(found.value, (found.high - found.low) / 2)
    return f'determined is {found.expression}: {value} {interval(found.low, found.high)}'


def explained(found: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield what is said of parameters, of those of which the same is said in one line."""
    names: dict[str, list[str]] = {}
    for name, explanation in found:
        names.setdefault(explanation, []).append(name)
    for explanation, own in names.items():
        yield f'{listed(own)}: {explanation}'


def print_first(console: LiteralConsole, lines: Iterable[str]) -> None:
    """Print the first lines of many, and how many more there are."""
    every = list(lines)
    shown = every if len(every) <= _LINES + 1 else every[:_LINES]
    for text in shown:
        console.print(text)
    if len(every) > len(shown):
        console.print(f'… and {len(every) - len(shown)} more.')


def _print_trust(console: LiteralConsole, result: CalibrationResult) -> None:
    """Print how intervals were found, what the data cannot say, and what they say instead."""
    numbers = result.of_links
    unsure = [p for p in result.parameters if p.explanation and p.name not in numbers]
    print_first(console, explained((p.name, p.explanation) for p in unsure))
    print_first(console, map(determined, result.combinations_beside_links))
    if result.solver.estimator_sentence:
        console.print(f'Compared are {result.solver.estimator_sentence}.')
    if result.inference is not None:
        size = significant(result.inference.effective_samples, 3)
        console.print(
            f'Intervals: {result.inference.method}; {result.inference.samples} residuals say as '
            f'much as {size} independent ones.'
        )
        if result.inference.all_at_once is not None:
            times_ = significant(result.inference.all_at_once, 3)
            console.print(f'All parameters at once (95 %) are within {times_} half-widths.')
        for note in result.inference.notes:
            console.print(note)
    if result.drift is not None:
        console.print(f'Against the last result: {result.drift.sentence}')
    console.print()


def _print_errors(console: LiteralConsole, result: CalibrationResult) -> None:
    """Print the error of each sensor, nominal and fitted, held-out where there is any."""
    held_out = [error for error in result.errors if error.role == 'validate']
    title = 'Held-out error' if held_out else 'Training error'
    title += result.solver.over_windows
    columns = ['sensor', *_ERROR_COLUMNS, 'unit']
    rows = [
        [error.sensor, *_errors(error.before, error.after), error.unit]
        for error in held_out or result.errors
    ]
    if any(math.isfinite(error.inside) for error in held_out):
        columns.append('>in 95 % band')
        for row, error in zip(rows, held_out, strict=True):
            known = math.isfinite(error.inside)
            row.append(f'{100 * error.inside:.1f} %' if known else MISSING)
    print_table(console, f'{title} (root mean square)', columns, rows)


def _errors(nominal: float, fitted: float) -> tuple[str, str, str]:
    """Return the cells of `_ERROR_COLUMNS`."""
    return padded(nominal), padded(fitted), times(nominal, fitted)


def grades_in_words(findings: Iterable[Findings]) -> str:
    """Return how many kinds of findings there are of each grade, the worst first."""
    grades = Counter(item.kind.grade for item in findings)
    return ', '.join(how_many(range(grades[grade]), grade) for grade in Grade if grades[grade])


def print_findings(
    console: LiteralConsole, findings: Iterable[HealthFinding], *, bags: bool = True
) -> None:
    """Print a line per kind of finding, the worst first, and what to do about faults and cautions.

    Bags are named unless all is about one that is named above.
    """
    found = aggregated(findings)
    if not found:
        return
    console.print(f'Findings: {grades_in_words(found)}', style='italic')
    for item in found:
        console.print(f'{item.kind.grade}: {item.kind}: {item.text(bags=bags)}')
        if item.kind.grade is not Grade.NOTE:
            console.print(_indented(f'{item.kind.effect} {item.kind.remedy}'))
    console.print()


def print_table(
    console: LiteralConsole, title: str, headers: Sequence[str], rows: Iterable[Sequence[str]]
) -> None:
    """Print a table in which texts are folded, or a paragraph per row where not even that fits.

    ``>`` before a header says that the column is of numbers, aligned on the right. Rows begin with
    a name; a column that says nothing of any row is left out.
    """
    # In the table the title would be folded at the table's width.
    console.print(title, style='italic')
    rows = [(short(name), *cells) for name, *cells in rows]
    told = [k for k in range(len(headers)) if not k or any(row[k] not in _NOTHING for row in rows)]
    titles = [headers[k].removeprefix('>') for k in told]
    table = Table(box=None, pad_edge=False)
    for place, text in zip(told, titles, strict=True):
        number = headers[place].startswith('>')
        whole = number or not place
        widest = max(cell_len(one_line(cell)) for cell in (text, *(row[place] for row in rows)))
        table.add_column(
            text,
            justify='right' if number else 'left',
            overflow='fold',
            no_wrap=whole,
            min_width=widest if whole else None,
        )
    for row in rows:
        table.add_row(*(row[k] for k in told))
    # Measured without limit: in its own width a table always fits.
    least = console.measure(table, options=console.options.update(width=WIDE)).minimum
    if least <= console.width:
        console.print(table)
    else:
        for row in rows:
            cells = [f'{text} {row[k]}' for k, text in zip(told, titles, strict=True) if k]
            console.print(row[0])
            console.print(_indented(', '.join(cells)))
    console.print()


def _indented(text: str) -> Padding:
    return Padding.indent(text, 4)


def alignment_text(alignment: Alignment) -> str:
    """Return what `print_alignment` prints, nothing folded."""
    return printed(lambda console: print_alignment(console, alignment))


def print_alignment(console: LiteralConsole, alignment: Alignment) -> None:
    """Print what was mapped, what was not and why, how fast it came, and what was found."""
    pairs = [
        (
            pair.name,
            pair.role.value,
            column_name(pair.topic, pair.field, pair.label),
            '' if pair.scale == 1 else f'{pair.scale:g}',
            '' if pair.offset == 0 else f'{pair.offset:g}',
        )
        for pair in sorted(alignment.pairs, key=lambda pair: pair.role is PairRole.ACTUATOR)
    ]
    print_table(console, f'Mapped in {alignment.bag}', _PAIR_COLUMNS, pairs)
    # A reason that many share is written once, at the first.
    together: dict[tuple[str, str], list[str]] = {}
    for item in alignment.unmapped:
        together.setdefault((item.kind.value, item.reason), []).append(item.name)
    unmapped = [
        (name, kind, 'as above' if row else reason)
        for (kind, reason), names in together.items()
        for row, name in enumerate(names)
    ]
    if unmapped:
        print_table(console, 'Not mapped', ('name', 'what', 'why'), unmapped)
    topics = [
        (item.topic, str(item.messages), _known(item.rate, 2), _known(item.longest_gap, 3))
        for item in alignment.topics
    ]
    print_table(console, 'Topics', ('topic', '>messages', '>rate/Hz', '>longest gap/s'), topics)
    print_findings(console, alignment.health, bags=False)
    sequences = [
        (
            found.name,
            f'{found.duration:.3f}',
            str(sum(map(len, found.measurements))),
            str(sum(map(len, found.commands))),
        )
        for found in alignment.sequences
    ]
    print_table(console, 'Sequences', _SEQUENCE_COLUMNS, sequences)


def _known(value: float, digits: int) -> str:
    return '-' if math.isnan(value) else f'{value:.{digits}f}'


def print_side_by_side(console: LiteralConsole, found: SideBySide) -> None:
    """Print standing, parameters, errors, and in sentences what differs."""
    names = [result.name for result in found.results]
    rows = [(own.name, own.standing, own.acceptance, own.created) for own in found.results]
    print_table(console, 'Results', ('result', 'standing', 'why', 'made'), rows)
    print_parameters(console, found)
    role = 'held-out' if found.role == 'validate' else 'training'
    errors = [
        (
            sensor,
            *(MISSING if e is None else f'{padded(e.before)} → {padded(e.after)}' for e in own),
            next(error.unit for error in own if error is not None),
        )
        for sensor, own in found.errors.items()
    ]
    title = f'Errors on {role} recordings, nominal → fitted'
    print_table(console, title, ('sensor', *(f'>{name}' for name in names), 'unit'), errors)
    for result in found.results[1:]:
        console.print(result.sentence)


def print_parameters(console: LiteralConsole, found: SideBySide) -> None:
    """Print a row per parameter: each value, and how far those after the first are from it."""
    names = [f'>{result.name}' for result in found.results]
    values = [{own.name: own for own in result.parameters} for result in found.results]
    drifts = [result.drift for result in found.results if result.drift is not None]
    changes = [{own.name: own for own in drift.parameters} for drift in drifts]
    units = {name: own.unit for table in values for name, own in table.items()}
    rows = []
    for name, unit in units.items():
        differences = []
        for table in changes:
            row = table.get(name)
            known = row is not None and math.isfinite(row.deviations)
            differences.append(significant(row.deviations, 2) if row and known else MISSING)
            differences.append('' if not known else 'differs' if row and row.changed else 'agrees')
        rows.append((name, *(_value(table.get(name)) for table in values), *differences, unit))
    columns = ('parameter', *names, *('>std errors', '') * (len(names) - 1), 'unit')
    print_table(console, 'Parameters', columns, rows)


def _value(found: ParameterResult | None) -> str:
    if found is None:
        return MISSING
    value = rounded(found.value, found.half_width)
    unsure = math.isnan(found.half_width)
    return value if unsure else f'{value} {interval(found.low, found.high)}'


# Cases of continuous integration


def said(case: Case) -> str:
    """Return what is to be known of a case in one line: what is wrong, with its numbers."""
    numbers = [
        f'{name} {significant(number)}'
        for name in ('value', 'limit', 'baseline')
        if math.isfinite(number := getattr(case, name))
    ]
    unit = f' {case.unit}' if case.unit not in ('', '1') and numbers else ''
    figures = f' ({", ".join(numbers)}{unit})' if numbers else ''
    where = f' in {case.bag}' if case.bag else ''
    return f'{case.name}{where}: {case.sentence or "as it has to be"}{figures}'


def junit(suite: str, cases: Sequence[Case]) -> bytes:
    """Return cases as JUnit XML, with their numbers as properties."""
    failed = sum(not case.passed for case in cases)
    root = ET.Element('testsuites')
    counts = {'tests': len(cases), 'failures': failed, 'errors': 0}
    parent = _node(root, 'testsuite', name=suite, **counts)
    for case in cases:
        classname = '.'.join(filter(None, (str(case.kind), case.bag)))
        place = {} if case.place is None else {'file': case.place.file, 'line': case.place.line}
        node = _node(parent, 'testcase', classname=classname, name=case.name, time=0, **place)
        names = ('value', 'baseline', 'limit', 'low', 'high')
        known = {name: getattr(case, name) for name in names}
        known = {name: repr(float(x)) for name, x in known.items() if math.isfinite(x)}
        known |= {'unit': case.unit} if case.unit else {}
        if known:
            holder = _node(node, 'properties')
            for name, value in known.items():
                _node(holder, 'property', name=name, value=value)
        if not case.passed:
            _node(node, 'failure', message=said(case), type=case.kind).text = _xml(said(case))
    ET.indent(root)
    return bytes(ET.tostring(root, 'UTF-8', xml_declaration=True))


def _node(parent: ET.Element, tag: str, **attributes: object) -> ET.Element:
    texts = {name: _xml(str(value)) for name, value in attributes.items()}
    return ET.SubElement(parent, tag, texts)


def workflow_commands(cases: Iterable[Case]) -> Iterator[str]:
    """Yield a workflow command of GitHub for each case that failed, which marks its line.

    https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions
    """
    for case in cases:
        if not case.passed:
            marks = {'title': case.name}
            if case.place is not None:
                line = {'line': str(case.place.line)} if case.place.line else {}
                marks = {'file': case.place.file, **line, **marks}
            written = ','.join(
                f'{name}={_data(text).replace(":", "%3A").replace(",", "%2C")}'
                for name, text in marks.items()
            )
            yield f'::error {written}::{_data(said(case))}'


def markdown(title: str, cases: Sequence[Case], notes: Sequence[str] = ()) -> str:
    """Return what failed as a list of Markdown, below how many did."""
    failed = [case for case in cases if not case.passed]
    word = f'{len(failed)} of {len(cases)} failed' if failed else f'all {len(cases)} passed'
    lines = [f'### {_cell(title)}: {word}', '', *(f'- {_cell(note)}' for note in notes)]
    for case in failed:
        place = '' if case.place is None else f' ({case.place})'
        lines.append(f'- {_cell(said(case))}{_cell(place)}')
    return '\n'.join([*lines, ''])


def _xml(text: str) -> str:
    # Two more that XML cannot hold.
    return re.sub('[\ufffe\uffff]', '\N{REPLACEMENT CHARACTER}', one_line(text))


def _cell(text: str) -> str:
    """Escape a line for Markdown, in which nothing of it is markup."""
    escaped = html.escape(one_line(text), quote=False)
    return re.sub(r'([\\`*_\[\]|#~])', r'\\\1', escaped)


def _data(text: str) -> str:
    return one_line(text).replace('%', '%25')

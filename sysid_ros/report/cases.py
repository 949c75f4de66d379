# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Checked cases for continuous integration: JUnit, annotations of GitHub, Markdown."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Iterator, Sequence

from lxml import etree

from sysid_ros.report.numbers import significant
from sysid_ros.results.case import Case
from sysid_ros.text import one_line

_DIGITS = 5
#: Rows of the Markdown table where all passed; what failed is listed in full.
_ROWS = 60


def properties(case: Case) -> Iterator[tuple[str, str]]:
    """Yield the numbers of a case that are known, and its unit, by name."""
    for name in ('value', 'baseline', 'limit', 'low', 'high'):
        number = getattr(case, name)
        if math.isfinite(number):
            yield name, repr(float(number))
    if case.unit:
        yield 'unit', case.unit


def said(case: Case) -> str:
    """Return what is to be known of a case in one line: what is wrong, with its numbers."""
    numbers = [
        f'{name} {significant(number, _DIGITS)}'
        for name in ('value', 'limit', 'baseline')
        if math.isfinite(number := getattr(case, name))
    ]
    unit = f' {case.unit}' if case.unit not in ('', '1') and numbers else ''
    figures = f' ({", ".join(numbers)}{unit})' if numbers else ''
    where = f' in {case.bag}' if case.bag else ''
    return f'{case.name}{where}: {case.sentence or "as it has to be"}{figures}'


def junit(suite: str, cases: Sequence[Case]) -> bytes:
    """Return cases as JUnit XML, with their numbers as properties.

    Args:
        suite: Name of the suite.
        cases: What was checked.
    """
    failed = str(sum(not case.passed for case in cases))
    root = etree.Element('testsuites')
    parent = etree.SubElement(root, 'testsuite', name=_xml(suite))
    for name, count in (('tests', str(len(cases))), ('failures', failed), ('errors', '0')):
        parent.set(name, count)
    for case in cases:
        classname = '.'.join(filter(None, (str(case.kind), case.bag)))
        node = etree.SubElement(
            parent,
            'testcase',
            classname=_xml(classname),
            name=_xml(case.name),
            time='0',
        )
        if case.place is not None:
            node.set('file', _xml(case.place.file))
            node.set('line', str(case.place.line))
        known = list(properties(case))
        if known:
            holder = etree.SubElement(node, 'properties')
            for name, value in known:
                etree.SubElement(holder, 'property', name=name, value=_xml(value))
        if not case.passed:
            message = _xml(said(case))
            etree.SubElement(node, 'failure', message=message, type=str(case.kind)).text = message
    return bytes(etree.tostring(root, xml_declaration=True, encoding='UTF-8', pretty_print=True))


def workflow_commands(cases: Iterable[Case]) -> Iterator[str]:
    """Yield a workflow command of GitHub for each case that failed, which marks its line.

    https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions
    """
    for case in cases:
        if not case.passed:
            place = case.place
            marks = [] if place is None else [f'file={_property(place.file)}']
            if place is not None and place.line:
                marks.append(f'line={place.line}')
            marks.append(f'title={_property(case.name)}')
            yield f'::error {",".join(marks)}::{_data(said(case))}'


def markdown(title: str, cases: Sequence[Case], notes: Sequence[str] = ()) -> str:
    """Return cases as Markdown: what failed first, then the rest folded."""
    failed = [case for case in cases if not case.passed]
    word = f'{len(failed)} of {len(cases)} failed' if failed else f'all {len(cases)} passed'
    lines = [f'### {_cell(title)}: {word}', '', *(f'- {_cell(note)}' for note in notes), '']
    lines += _table(failed)
    passed = [case for case in cases if case.passed]
    if passed:
        more = len(passed) - _ROWS
        lines += ['<details><summary>passed</summary>', '', *_table(passed[:_ROWS])]
        lines += [*([f'and {more} more', ''] if more > 0 else []), '</details>', '']
    return '\n'.join(lines)


def _table(cases: Sequence[Case]) -> Iterator[str]:
    if not cases:
        return
    yield '| | recording | value | limit | baseline | unit | |'
    yield '|---|---|--:|--:|--:|---|---|'
    for case in cases:
        place = '' if case.place is None else str(case.place)
        verdict = '' if case.passed else f'**{_cell(case.sentence)}** {_cell(place)}'
        numbers = (
            significant(number, _DIGITS) if math.isfinite(number) else ''
            for number in (case.value, case.limit, case.baseline)
        )
        cells = (_cell(case.name), _cell(case.bag), *numbers, _cell(case.unit), verdict)
        yield f'| {" | ".join(cells)} |'
    yield ''


def _xml(text: str) -> str:
    # Two more that XML cannot hold.
    return re.sub('[\ufffe\uffff]', '\N{REPLACEMENT CHARACTER}', one_line(text))


def _cell(text: str) -> str:
    """Return text for a line of Markdown, in which nothing of it is markup."""
    line = one_line(text)
    return re.sub(r'([\\`*_\[\]|#~])', r'\\\1', html.escape(line, quote=False))


def _data(text: str) -> str:
    return one_line(text).replace('%', '%25')


def _property(text: str) -> str:
    return _data(text).replace(':', '%3A').replace(',', '%2C')

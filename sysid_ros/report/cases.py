# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Checked cases for continuous integration: JUnit, annotations of GitHub, Markdown."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Iterator, Sequence

from lxml import etree

from sysid_ros.errors import one_line
from sysid_ros.report.numbers import significant
from sysid_ros.results.comparison import Case

_DIGITS = 5
_NUMBERS = ('value', 'baseline', 'limit', 'low', 'high')


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
    """Return cases as JUnit XML, with their numbers as properties."""
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
        numbers = {name: getattr(case, name) for name in _NUMBERS}
        known = {name: repr(float(x)) for name, x in numbers.items() if math.isfinite(x)}
        known |= {'unit': _xml(case.unit)} if case.unit else {}
        if known:
            holder = etree.SubElement(node, 'properties')
            for name, value in known.items():
                etree.SubElement(holder, 'property', name=name, value=value)
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
            marks = {'title': case.name}
            if case.place is not None:
                line = {'line': str(case.place.line)} if case.place.line else {}
                marks = {'file': case.place.file, **line, **marks}
            written = ','.join(f'{name}={_property(text)}' for name, text in marks.items())
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


def _property(text: str) -> str:
    return _data(text).replace(':', '%3A').replace(',', '%2C')

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Cases for continuous integration: what readers of JUnit, GitHub and Markdown get."""

from __future__ import annotations

import math
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysid_ros.report.tables import junit, markdown, said, workflow_commands
from sysid_ros.results.comparison import Case, CaseKind, Place

RIGHT = Case(CaseKind.ERROR, 'q, whole recording', 'run', value=0.1, unit='rad', limit=0.2)
WRONG = Case(
    CaseKind.PARAMETER,
    'joint/elbow/damping',
    value=2.4,
    unit='N·m·s/rad',
    baseline=2.0,
    limit=0.1,
    low=2.3,
    high=2.5,
    passed=False,
    sentence='moved by 0.4',
    place=Place('robot/arm.xml', 7),
)
TEXT = st.text(max_size=40) | st.sampled_from(['\ufffe', 'a\x00\x1b[0m', '::error::', '|`<b>'])


def test_junit_has_the_numbers_as_properties_and_what_failed():
    suite = ET.fromstring(junit('arm', [RIGHT, WRONG])).find('testsuite')  # noqa: S314 (ours)
    assert suite is not None
    assert (suite.get('tests'), suite.get('failures')) == ('2', '1')
    right, wrong = suite.findall('testcase')
    assert (right.get('classname'), right.get('name')) == ('error.run', 'q, whole recording')
    assert right.find('failure') is None
    assert (wrong.get('file'), wrong.get('line')) == ('robot/arm.xml', '7')
    numbers = {p.get('name'): p.get('value') for p in wrong.iter('property')}
    assert numbers == {
        'value': '2.4',
        'baseline': '2.0',
        'limit': '0.1',
        'low': '2.3',
        'high': '2.5',
        'unit': 'N·m·s/rad',
    }
    failure = wrong.find('failure')
    assert failure is not None
    assert failure.get('message') == said(WRONG)


def test_a_workflow_command_marks_the_line_of_what_failed():
    odd = WRONG._replace(name='a,b:c\nd', sentence='100 % off')
    (command,) = workflow_commands([RIGHT, odd])
    assert command == (
        '::error file=robot/arm.xml,line=7,title=a%2Cb%3Ac\\nd::a,b:c\\nd: 100 %25 off '
        '(value 2.4, limit 0.1, baseline 2 N·m·s/rad)'
    )


def test_markdown_lists_what_failed():
    assert markdown('arm', [RIGHT, WRONG], ['Model changed: x.']) == (
        '### arm: 1 of 2 failed\n\n- Model changed: x.\n- joint/elbow/damping: moved by 0.4 '
        '(value 2.4, limit 0.1, baseline 2 N·m·s/rad) (robot/arm.xml:7)\n'
    )


def test_an_infinite_limit_and_a_missing_number_are_left_out():
    assert said(Case(CaseKind.ERROR, 'q', 'run', value=math.nan)) == 'q in run: as it has to be'


class _Tags(HTMLParser):
    """Collects what a browser would take for elements."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, _: object) -> None:
        """Note an element."""
        self.tags.append(tag)


@pytest.mark.slow
@settings(deadline=None)
@given(name=TEXT, bag=TEXT, sentence=TEXT, note=TEXT)
def test_no_text_becomes_markup(name: str, bag: str, sentence: str, note: str):
    case = WRONG._replace(name=name, bag=bag, sentence=sentence, place=Place(name, 3))
    ET.fromstring(junit(name, [case]))  # noqa: S314 (our own text)
    (command,) = workflow_commands([case])
    assert len(command.splitlines()) == 1
    text = markdown(name, [case], [note])
    tags = _Tags()
    tags.feed(text)
    assert tags.tags == []
    assert len(text.splitlines()) == 4

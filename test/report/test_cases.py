# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Cases for continuous integration: what readers of JUnit, GitHub and Markdown get."""

from __future__ import annotations

import math
from xml.etree import ElementTree as ET

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


def test_junit_has_the_numbers_as_properties_and_what_failed():
    suite = ET.fromstring(junit('arm', [RIGHT, WRONG])).find('testsuite')  # noqa: S314 (ours)
    assert suite is not None
    assert (suite.get('tests'), suite.get('failures')) == ('2', '1')
    right, wrong = suite.findall('testcase')
    assert (right.get('classname'), right.get('name')) == ('error.run', 'q, whole recording')
    assert right.find('failure') is None
    assert (wrong.get('file'), wrong.get('line')) == ('robot/arm.xml', '7')
    numbers = {p.get('name'): p.get('value') for p in wrong.iter('property')}
    assert numbers.pop('unit') == WRONG.unit
    assert {name: float(number or '') for name, number in numbers.items()} == {
        name: getattr(WRONG, name) for name in ('value', 'baseline', 'limit', 'low', 'high')
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

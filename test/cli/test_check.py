# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid check`` in CI: 0 when the robot is the baseline's, 1 when something moved."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from builders.cli_project import run_process

if TYPE_CHECKING:
    from builders.cli_project import Project, Sysid
    from sysid_ros.pipeline import Identified

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('undrawn')]


CHECK = ('check', 'calibration.yaml', '--baseline')


@pytest.fixture
def found_before(identified: Identified, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a fit of what is the same find the same at once."""
    monkeypatch.setattr('sysid_ros.pipeline.calibration.identify', lambda *_, **__: identified)


def _move(project: Project, name: str, factor: float) -> None:
    """Store a baseline in which a parameter, with its interval, is another."""
    document = json.loads((project.folder / 'baseline.json').read_text())
    (parameter,) = [item for item in document['parameters'] if item['name'] == name]
    for key in ('value', 'low', 'high', 'noise_low', 'noise_high'):
        parameter[key] *= factor
    (project.folder / 'moved.json').write_text(json.dumps(document))


def test_a_process_agrees_with_the_stored_baseline_in_a_locale_without_our_signs(quick: Project):
    before = quick.files()
    done = run_process(*CHECK, 'baseline.json', env={'PYTHONIOENCODING': 'ascii'})
    assert done.code == 0
    assert 'sysid:' not in done.err
    assert 'all 4 quantities agree with the baseline' in done.out
    assert 'N\\xb7m\\xb7s/rad' in done.out
    assert quick.files() == before


@pytest.mark.usefixtures('found_before')
def test_a_baseline_that_was_moved_is_a_difference(quick: Project, sysid: Sysid):
    _move(quick, 'joint/elbow/damping', 2.0)
    before = quick.files()
    done = sysid(*CHECK, 'moved.json')
    assert (done.code, done.err) == (1, '')
    assert done.out.splitlines()[-1] == '1 of 4 quantities moved: joint/elbow/damping'
    assert quick.files() == before


@pytest.mark.usefixtures('found_before')
def test_a_tolerance_lets_a_parameter_move(quick: Project, sysid: Sysid):
    _move(quick, 'joint/elbow/damping', 2.0)
    tolerance = '--set', 'check.tolerance={"joint/*/damping": 0.5, body/tip/mass: 0.0005}'
    done = sysid(*CHECK, 'moved.json', *tolerance, '--quiet')
    assert done == (0, 'all 4 quantities agree with the baseline\n', '')


def test_another_robot_is_a_difference(quick: Project, sysid: Sysid):
    # The bags are what they were; a tip nearer the joint moves otherwise, whatever its mass.
    quick.replace_in_model('pos="0 0 -.25"', 'pos="0 0 -.15"')
    done = sysid(*CHECK, 'baseline.json')
    assert done.code == 1
    assert 'held-out error' in done.out.splitlines()[-1]


@pytest.mark.usefixtures('found_before')
def test_held_out_error_that_grew_is_a_difference(quick: Project, sysid: Sysid):
    document = json.loads((quick.folder / 'baseline.json').read_text())
    document['held_out_after'] /= 1.2
    (quick.folder / 'better.json').write_text(json.dumps(document))
    done = sysid(*CHECK, 'better.json')
    assert done.code == 1
    assert done.out.splitlines()[-1] == '1 of 4 quantities moved: held-out error'
    assert sysid(*CHECK, 'better.json', '--set', 'check.held_out_factor=1.3').code == 0


def test_parameters_that_came_and_went_are_differences(quick: Project, sysid: Sysid):
    quick.change_parameter(target='joint/elbow/damping', name='damping')
    done = sysid(*CHECK, 'baseline.json')
    assert done.code == 1
    rows = {line.split()[0]: line for line in done.out.splitlines() if 'MOVED' in line}
    assert 'no longer identified' in rows['joint/elbow/damping']
    assert 'not in the baseline' in rows['damping']


@pytest.mark.parametrize(
    ('content', 'complaint'),
    [
        (None, "There is no result 'old.json'; nearest: baseline.json."),
        (b'{"schema_', 'is not valid JSON: Unterminated string'),
        (b'\xff\xfe', 'is not valid JSON: it is not UTF-8 text'),
        (b'[' * 100_000, "Expected at most 50 values inside each other in 'old.json', found"),
        (b'{"a": ' + b'[' * 60 + b']' * 60 + b'}', 'Expected at most 50 values inside each other'),
        (b'{"schema_version": ' + b'9' * 5000 + b'}', 'is not valid JSON: it has a number without'),
        (b'{"schema_version": "\\ud800"}', 'is not valid JSON: it is not UTF-8 text'),
        (b'{"schema_version": "\\u001b\\n"}', "has schema_version '\\x1b\\n'; this version"),
        (b'[]', "Expected keys and values in 'old.json', found []."),
        (b'{}', 'is not a result of a calibration: it has no schema_version.'),
        (b'{"schema_version": 99}', 'has schema_version 99; this version reads 3.'),
        (b'{"schema_version": 3}', "The result is damaged: Missing key 'model' in old.json."),
    ],
)
def test_a_baseline_that_cannot_be_used_is_bad_input(
    project: Project, sysid: Sysid, content: bytes | None, complaint: str
):
    if content is not None:
        (project.folder / 'old.json').write_bytes(content)
    before = project.files()
    done = sysid(*CHECK, 'old.json')
    assert done.code == 2
    assert complaint in done.err
    assert done.err.count('\n') == 1
    assert project.files() == before


@pytest.mark.usefixtures('project')
def test_a_tolerance_for_nothing_is_bad_input(sysid: Sysid):
    done = sysid(*CHECK, 'baseline.json', '--set', 'check.tolerance={armatur: 0.1}')
    assert done.code == 2
    assert "The tolerance for 'armatur' matches no parameter; nearest: " in done.err

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid check``: exit codes, tables, and what continuous integration gets of it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from builders.cli_project import REPOSITORY, Project, Sysid, run_process
from sysid_ros.workflows.writing import Identified

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('undrawn')]


CHECK = ('check', 'calibration.yaml', '--baseline')
PREDICT = ('check', 'arm.sysid.yaml', '--no-fit')


def _thresholds(project: Project, **keys: object) -> None:
    (project.folder / 'arm.sysid.yaml').write_text(yaml.safe_dump(keys))


@pytest.fixture
def found_before(identified: Identified, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a fit of what is the same find the same at once."""
    monkeypatch.setattr('sysid_ros.workflows.evaluation.identify', lambda *_, **__: identified)


def test_a_process_agrees_with_the_stored_baseline_in_a_locale_without_our_signs(quick: Project):
    before = quick.files()
    done = run_process(*CHECK, 'baseline.json', env={'PYTHONIOENCODING': 'ascii'})
    assert done.code == 0
    assert 'sysid:' not in done.err
    assert 'All 4 passed.' in done.out
    assert 'N\\xb7m\\xb7s/rad' in done.out
    assert quick.files() == before


@pytest.mark.usefixtures('found_before')
def test_a_baseline_that_was_moved_is_a_difference_unless_it_is_tolerated(
    quick: Project, sysid: Sysid
):
    document = json.loads((quick.folder / 'baseline.json').read_text())
    (moved,) = [p for p in document['parameters'] if p['name'] == 'joint/elbow/damping']
    for key in ('value', 'low', 'high', 'noise_low', 'noise_high'):
        moved[key] *= 2.0
    (quick.folder / 'moved.json').write_text(json.dumps(document))
    before = quick.files()
    done = sysid(*CHECK, 'moved.json')
    assert (done.code, done.err) == (1, '')
    assert done.out.splitlines()[-1] == '1 of 4 failed: joint/elbow/damping.'
    assert quick.files() == before
    tolerance = '--set', 'check.tolerance={"joint/*/damping": 0.5, body/tip/mass: 0.0005}'
    done = sysid(*CHECK, 'moved.json', *tolerance, '--quiet')
    assert done == (0, 'All 4 passed.\n', '')


def test_errors_are_shown_without_limits_and_nothing_fails(project: Project, sysid: Sysid):
    before = project.files()
    done = sysid('check', 'arm.xml', 'train', 'validate')

    assert (done.code, done.err.splitlines()[0]) == (0, 'reading train')
    rows = [line.split() for line in done.out.splitlines() if line.startswith('elbow_position, w')]
    assert len(rows) == 1
    assert rows[0][3:7] in (['train,', 'worst', 'of', '2'], ['validate,', 'worst', 'of', '2'])
    assert 'elbow_position, 0.2 s ahead' in done.out
    assert done.out.splitlines()[-1] == 'No limits were given, so nothing failed.'
    assert project.files() == before


def test_an_error_above_its_limit_is_a_difference(project: Project, sysid: Sysid):
    limits = {'elbow_*': 1e-3, 'shoulder_position': 10.0}
    _thresholds(project, model='arm.xml', bags=['validate'], limits=limits)
    done = sysid(*PREDICT, '--json')

    document = json.loads(done.out)
    failed = {case['name']: case for case in document['cases'] if not case['passed']}
    assert (done.code, document['passed']) == (1, False)
    assert [name.split(',')[0] for name in failed] == [
        'elbow_effort',
        'elbow_position',
        'elbow_velocity',
    ]
    position = failed['elbow_position, whole recording']
    assert (position['bag'], position['unit']) == ('validate', 'rad')
    assert position['value'] > position['limit'] == 1e-3
    assert position['place'] == {'file': 'arm.xml', 'line': 16}


@pytest.mark.parametrize(
    ('keys', 'complaint'),
    [
        ({'model': 'arm.xml'}, 'Expected bags, as bags/validate_*'),
        ({'calibration': 'calibration.yaml'}, 'a calibration to fit'),
        ({'model': 'arm.xml', 'bags': ['validate'], 'baseline': 'base'}, 'There is no baseline'),
        ({'limit': {}}, "Unknown key 'limit' in arm.sysid.yaml; nearest: limits."),
        ('gone.json', "There is no baseline 'gone.json'; `sysid check --update` writes it."),
        ('old.json', 'has schema_version 99; this version reads 4.'),
    ],
)
def test_what_a_thresholds_file_or_a_baseline_lacks_is_bad_input(
    project: Project, sysid: Sysid, keys: dict[str, object] | str, complaint: str
):
    (project.folder / 'old.json').write_text('{"schema_version": 99}')
    if isinstance(keys, dict):
        _thresholds(project, **keys)
    before = project.files()
    done = sysid(*(PREDICT if isinstance(keys, dict) else (*CHECK, keys)), '--quiet')
    assert (done.code, done.err.count('\n')) == (2, 1)
    assert complaint in done.err
    assert project.files() == before


@pytest.mark.usefixtures('found_before')
def test_a_check_writes_junit_and_keeps_the_report_of_its_fit(quick: Project, sysid: Sysid):
    done = sysid(
        *CHECK, 'baseline.json', '--junit', 'new/check.xml', '--json', '--output', 'fitted'
    )

    assert done.code == 0
    suite = ET.parse(quick.folder / 'new/check.xml').getroot().find('testsuite')  # noqa: S314
    assert suite is not None
    names = [case.get('name') for case in suite]
    assert names == [case['name'] for case in json.loads(done.out)['cases']]
    case = next(case for case in suite if case.get('name') == 'joint/elbow/damping')
    file = Path(case.get('file') or '')
    assert (file.name, case.get('line')) == ('arm.xml', '16')
    assert {p.get('name') for p in case.iter('property')} >= {'value', 'low', 'high', 'unit'}
    assert list((quick.folder / 'fitted').rglob('report.html'))


@pytest.mark.parametrize(
    ('options', 'complaint'),
    [
        (('--junit', 'arm.xml/out.xml'), "Cannot write into 'arm.xml'"),
        (('--github', '--quiet'), "Cannot write the step summary 'no/such/folder.md'"),
    ],
)
def test_a_file_that_cannot_be_written_is_bad_input(
    project: Project,
    sysid: Sysid,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    complaint: str,
):
    monkeypatch.setenv('GITHUB_STEP_SUMMARY', 'no/such/folder.md')
    before = project.files()
    done = sysid('check', 'arm.xml', 'validate', *options)
    assert done.code == 2
    assert done.err.startswith(f'sysid: {complaint}')
    assert project.files() == before


def test_a_baseline_says_model_and_code_apart(quick: Project, sysid: Sysid):
    _thresholds(quick, model='arm.xml', bags=['validate'], baseline='base')
    written = json.loads(sysid(*PREDICT, '--update', '--json').out)
    assert written['files'] == ['base/evaluation.json']
    assert sysid(*PREDICT).code == 0

    stored = quick.folder / 'base/evaluation.json'
    document = json.loads(stored.read_text())
    document['errors'][0]['error'] *= 1.01
    document['versions']['mujoco'] = '3.9.0'
    stored.write_text(json.dumps(document))
    (note,) = json.loads(sysid(*PREDICT, '--json').out)['notes']
    assert 'Code changed (mujoco 3.9.0 → ' in note
    assert 'elbow_effort, whole recording in validate' in note

    quick.replace_in_model('name="tip" pos="0 0 -.25"', 'name="tip" pos="0 0 -.27"')
    edited = sysid(*PREDICT)
    assert edited.code == 1
    assert 'Model changed: body/tip/pos is 0 0 -.27, was 0 0 -.25.' in edited.out
    assert 'Code changed' not in edited.out


def test_a_baseline_holds_a_result_where_there_is_a_calibration(quick: Project, sysid: Sysid):
    _thresholds(quick, calibration='calibration.yaml', baseline='base')
    assert sysid('check', 'arm.sysid.yaml', '--update').code == 0
    stored = quick.folder / 'base/result.json'
    assert stored.stat().st_size < 100_000

    document = json.loads(stored.read_text())
    document['parameters'][0]['value'] *= 1.0001
    stored.write_text(json.dumps(document))
    done = sysid('check', 'arm.sysid.yaml')
    assert done.code == 0
    assert 'Code changed (the versions are the same): joint/shoulder/damping' in done.out


def _steps() -> list[str]:
    """Return what the workflow in the documentation runs after the installation."""
    text = (REPOSITORY / 'docs/ci.md').read_text('utf-8')
    block = text.partition('<!-- checked: workflow -->\n```yaml\n')[2].partition('```')[0]
    steps = yaml.safe_load(block)['jobs']['check']['steps']
    runs = [step['run'] for step in steps if 'run' in step]
    assert runs[0].startswith('pip install')
    return runs[1:]


def test_a_repository_goes_red_at_the_line_that_was_changed_and_green_again(
    quick: Project, sysid: Sysid, monkeypatch: pytest.MonkeyPatch
):
    """What a stranger has: a model, two recordings, thresholds, and the workflow of the docs."""
    robot = quick.folder / 'robot'
    robot.mkdir()
    for name in ('arm.xml', 'calibration.yaml', 'train', 'validate'):
        (quick.folder / name).rename(robot / name)
    keys = {
        'model': 'arm.xml',
        'bags': ['validate'],
        'calibration': 'calibration.yaml',
        'baseline': 'baseline',
    }
    (robot / 'arm.sysid.yaml').write_text(yaml.safe_dump(keys))
    assert sysid('check', 'robot/arm.sysid.yaml', '--update').code == 0
    summary = quick.folder / 'summary.md'
    monkeypatch.setenv('GITHUB_STEP_SUMMARY', str(summary))

    def workflow() -> tuple[list[int], list[str], str]:
        summary.unlink(missing_ok=True)
        runs = []
        for step in _steps():
            program, *words = shlex.split(step)
            assert program == 'sysid'
            runs.append(sysid(*words))
        lines = [line for run in runs for line in run.err.splitlines()]
        annotations = [line for line in lines if line.startswith('::')]
        return [run.code for run in runs], annotations, summary.read_text()

    text = (robot / 'arm.xml').read_text()
    changed = text.replace('armature=".05" damping=".5"/>', 'armature=".05" damping=".6"/>', 1)
    assert changed != text
    (robot / 'arm.xml').write_text(changed)
    codes, annotations, written = workflow()
    assert codes == [1]
    line = next(i for i, row in enumerate(changed.splitlines(), 1) if 'damping=".6"' in row)
    assert (
        f'::error file=robot/arm.xml,line={line},title=joint/shoulder/damping::'
        'joint/shoulder/damping: is .6, was .5 (+20 %25)'
    ) in annotations
    assert 'is .6, was .5 (+20 %)' in written
    assert f'(robot/arm.xml:{line})' in written

    (robot / 'arm.xml').write_text(text)
    assert workflow()[:2] == ([0], [])

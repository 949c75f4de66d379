# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid evaluate``, ``sysid baseline`` and what CI gets of them and of ``sysid check``."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
import yaml

from builders.cli_project import REPOSITORY, run_process

if TYPE_CHECKING:
    from builders.cli_project import Project, Sysid
    from sysid_ros.pipeline import Identified

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('undrawn')]

EVALUATE = ('evaluate', '--thresholds', 'arm.sysid.yaml')


def thresholds(project: Project, **keys: object) -> None:
    """Write a thresholds file for the pendulum."""
    (project.folder / 'arm.sysid.yaml').write_text(yaml.safe_dump(keys))


def test_errors_are_shown_without_limits_and_nothing_fails(project: Project, sysid: Sysid):
    before = project.files()
    done = sysid('evaluate', 'arm.xml', 'validate')

    assert (done.code, done.err.splitlines()[0]) == (0, 'reading validate')
    assert 'reading' not in done.out
    assert 'elbow_position, whole recording' in done.out
    assert 'elbow_position, 0.2 s ahead' in done.out
    assert done.out.splitlines()[-1] == 'No limits were given, so nothing failed.'
    assert project.files() == before


def test_an_error_above_its_limit_is_a_difference(project: Project, sysid: Sysid):
    thresholds(project, limits={'elbow_*': 1e-3, 'shoulder_position': 10.0})
    done = sysid('evaluate', 'arm.xml', 'validate', '--thresholds', 'arm.sysid.yaml')

    assert done.code == 1
    failed = [line.split(',')[0] for line in done.out.splitlines() if 'FAILED' in line]
    assert failed == ['elbow_effort', 'elbow_position', 'elbow_velocity']


@pytest.mark.usefixtures('project')
def test_of_several_recordings_the_worst_is_shown(sysid: Sysid):
    done = sysid('evaluate', 'arm.xml', 'train', 'validate')

    rows = [line.split() for line in done.out.splitlines() if line.startswith('elbow_position, w')]
    assert len(rows) == 1
    assert rows[0][3:7] in (['train,', 'worst', 'of', '2'], ['validate,', 'worst', 'of', '2'])


def test_json_is_all_that_is_on_standard_output(project: Project, sysid: Sysid):
    thresholds(project, model='arm.xml', bags=['validate'], limits={'elbow_position': 1e-3})
    document = json.loads(sysid(*EVALUATE, '--json').out)

    (failed,) = [case for case in document['cases'] if not case['passed']]
    assert document['passed'] is False
    assert (failed['name'], failed['bag'], failed['unit']) == (
        'elbow_position, whole recording',
        'validate',
        'rad',
    )
    assert failed['value'] > failed['limit'] == 1e-3
    assert failed['place'] == {'file': 'arm.xml', 'line': 16}


@pytest.mark.parametrize(
    ('keys', 'complaint'),
    [
        ({'model': 'arm.xml'}, 'Expected bags, as bags/validate_*, on the command line or in'),
        ({'bags': ['validate']}, 'Expected model, as arm.xml, on the command line or in'),
        ({'model': 'arm.xml', 'bags': ['validate'], 'baseline': 'base'}, 'There is no baseline'),
        ({'limit': {}}, "Unknown key 'limit' in arm.sysid.yaml; nearest: limits."),
        ({'limits': {'q': 0}}, "Bad value 0 for 'limits.q' in arm.sysid.yaml: expected more than"),
    ],
)
def test_what_a_thresholds_file_lacks_is_bad_input(
    project: Project, sysid: Sysid, keys: dict[str, object], complaint: str
):
    thresholds(project, **keys)
    done = sysid(*EVALUATE, '--quiet')

    assert done.code == 2
    assert complaint in done.err
    assert done.err.count('\n') == 1


def test_a_check_writes_junit_and_keeps_the_report_of_its_fit(
    quick: Project, sysid: Sysid, identified: Identified, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr('sysid_ros.pipeline.calibration.identify', lambda *_, **__: identified)
    done = sysid(
        *('check', 'calibration.yaml', '--baseline', 'baseline.json'),
        *('--junit', 'new/check.xml', '--json', '--output', 'fitted'),
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


def test_a_file_that_cannot_be_written_is_told_before_any_work(project: Project, sysid: Sysid):
    done = sysid('evaluate', 'arm.xml', 'validate', '--junit', 'arm.xml/out.xml')

    assert done.code == 2
    assert "Cannot write into 'arm.xml'" in done.err
    assert 'reading' not in done.err
    assert project.folder.is_dir()


def test_a_baseline_says_model_and_code_apart(quick: Project, sysid: Sysid):
    thresholds(quick, model='arm.xml', bags=['validate'], baseline='base')
    new = sysid('baseline', 'diff', 'arm.sysid.yaml')
    assert new.code == 1
    assert "There is no baseline 'base/evaluation.json' yet" in new.out
    assert not (quick.folder / 'base').exists()
    assert sysid('baseline', 'update', 'arm.sysid.yaml').code == 0
    same = sysid('baseline', 'diff', 'arm.sysid.yaml', '--quiet')
    assert same == (0, 'Nothing is another than the baseline.\n', '')

    stored = quick.folder / 'base/evaluation.json'
    document = json.loads(stored.read_text())
    document['errors'][0]['error'] *= 1.01
    document['versions']['mujoco'] = '3.9.0'
    stored.write_text(json.dumps(document))
    other = sysid('baseline', 'diff', 'arm.sysid.yaml', '--json')
    found = json.loads(other.out)
    assert (other.code, found['changed'], found['files']) == (1, True, [])
    (note,) = found['notes']
    assert 'Code changed (mujoco 3.9.0 → ' in note
    assert 'errors of elbow_effort in validate' in note

    quick.replace_in_model('name="tip" pos="0 0 -.25"', 'name="tip" pos="0 0 -.27"')
    edited = sysid('baseline', 'diff', 'arm.sysid.yaml')
    assert 'Model changed: body/tip/pos is 0 0 -.27, was 0 0 -.25.' in edited.out
    assert 'Code changed' not in edited.out


def test_a_baseline_holds_a_result_where_there_is_a_calibration(quick: Project, sysid: Sysid):
    thresholds(quick, calibration='calibration.yaml', baseline='base')
    assert sysid('baseline', 'update', 'arm.sysid.yaml').code == 0
    assert (quick.folder / 'base/result.json').stat().st_size < 100_000

    assert sysid('check', 'calibration.yaml', '--baseline', 'base/result.json').code == 0
    stored = quick.folder / 'base/result.json'
    document = json.loads(stored.read_text())
    document['parameters'][0]['value'] *= 1.0001
    stored.write_text(json.dumps(document))
    done = sysid('baseline', 'diff', 'arm.sysid.yaml')
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
    assert sysid('baseline', 'update', 'robot/arm.sysid.yaml').code == 0
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
    assert codes[0] == 1
    line = next(i for i, row in enumerate(changed.splitlines(), 1) if 'damping=".6"' in row)
    assert (
        f'::error file=robot/arm.xml,line={line},title=joint/shoulder/damping::'
        'joint/shoulder/damping: is .6, was .5 (+20 %25)'
    ) in annotations
    assert f'is .6, was .5 (+20 %)** robot/arm.xml:{line}' in written

    (robot / 'arm.xml').write_text(text)
    assert workflow()[:2] == ([0, 0], [])


def test_a_report_of_the_step_that_cannot_be_written_is_bad_input(project: Project):
    done = run_process(
        *('evaluate', 'arm.xml', 'validate', '--github', '--quiet'),
        folder=project.folder,
        env={'GITHUB_STEP_SUMMARY': str(Path('no/such/folder.md'))},
    )

    assert (done.code, done.err) == (
        2,
        "sysid: Cannot write the step summary 'no/such/folder.md': No such file or directory.\n",
    )

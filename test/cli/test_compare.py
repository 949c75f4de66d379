# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid compare`` and ``sysid history``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from builders.cli_project import Project, Sysid
from builders.histories import keep, make_result

FEW = [{'target': 'joint/*/damping'}, {'target': 'body/tip/mass'}]


@pytest.mark.slow
def test_models_are_compared_and_one_is_recommended(project: Project, sysid: Sysid):
    project.change(parameters=FEW)
    done = sysid('compare', project.config, '--drop', 'body/tip/mass', '--json', '--quiet')
    assert (done.code, done.err) == (0, '')
    found = json.loads(done.out)
    assert [model['name'] for model in found['models']] == [
        'calibration',
        'calibration without body/tip/mass',
    ]
    assert [model['parameters'] for model in found['models']] == [3, 2]
    assert found['models'][0]['parts'][0]['bag'] == 'validate'
    assert found['models'][0]['standard_error'] is None
    assert found['recommended'] == 'calibration'


@pytest.mark.slow
def test_bags_have_to_be_the_same(project: Project, sysid: Sysid):
    project.change(parameters=FEW[:1])
    other = project.folder / 'other.yaml'
    shutil.copy(project.config, other)
    project.change(bags=[{'path': 'train'}])
    done = sysid('compare', project.config, other, '--quiet')
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert line.startswith('sysid: Models can be compared on the same bags only')
    assert 'validate (validate)' in line


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Return the folders of two results below the working directory."""
    monkeypatch.chdir(tmp_path)
    keep(Path('old'), make_result())
    keep(Path('new'), make_result(0.05, 0.7, 4.2))
    return 'old', 'new/current'


def test_results_are_compared_without_fitting(results: tuple[str, str], sysid: Sysid):
    done = sysid('compare', *results)
    assert (done.code, done.err) == (0, '')
    assert 'new/current against old: joint/elbow/frictionloss from 3.5 to 4.2' in done.out
    found = json.loads(sysid('compare', *results, '--json').out)
    assert [entry['name'] for entry in found['results']] == list(results)
    assert [entry['parameters'][2]['value'] for entry in found['results']] == [3.5, 4.2]
    friction = found['results'][1]['drift']['parameters'][2]
    assert friction['deviations'] == pytest.approx(4.95, abs=0.01)


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (('old', 'calibration.yaml'), "the result 'old' among 2 paths"),
        (('old',), 'Expected two results or more'),
        (('old', 'new', '--set', 'solver.loss=huber'), 'are for configurations, found results'),
    ],
)
@pytest.mark.usefixtures('results')
def test_what_does_not_go_with_results_is_one_sentence(
    sysid: Sysid, arguments: tuple[str, ...], words: str
):
    done = sysid('compare', *arguments)

    assert (done.code, done.out, done.err.count('\n')) == (2, '', 1)
    assert words in done.err


# History

WORN = (0.05, 0.7, 4.2)


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of three results below the working directory."""
    monkeypatch.chdir(tmp_path)
    keep(Path('out'), make_result())
    keep(Path('out'), make_result(*WORN))
    keep(Path('out'), make_result(accepted=False))
    return Path('out')


def test_results_are_listed_in_order_of_time_with_what_changed(output: Path, sysid: Sysid):
    done = sysid('history', output)
    assert (done.code, done.err) == (0, '')
    title, _, *rows = done.out.rstrip().splitlines()
    assert title.strip() == 'Results in out'
    assert [row.split()[1] for row in rows] == ['accepted', 'accepted', 'rejected']
    assert [row.rstrip().endswith('current') for row in rows] == [False, True, False]
    assert 'joint/elbow/frictionloss from 3.5 to 4.2 N·m (+20 %), 4.9 standard errors' in rows[1]
    assert all(said in rows[0] for said in ('2 mrad', '3 of 3'))
    first, second, third = json.loads(sysid('history', output, '--json').out)
    assert first['drift'] is None
    assert [row['changed'] for row in second['drift']['parameters']] == [False, False, True]
    assert (second['current'], third['standing']) == (True, 'rejected')


@pytest.mark.usefixtures('output')
def test_the_folder_is_that_of_the_configuration_or_out(sysid: Sysid):
    listed = sysid('history').out
    Path('calibration.yaml').write_text(
        'model: arm.xml\nbags: [{path: bag}]\n'
        'parameters: [{target: joint/elbow/damping}]\noutput: other\n'
    )
    keep(Path('other'), make_result())

    assert listed.startswith('Results in out')
    for arguments in (('history',), ('history', 'calibration.yaml')):
        assert sysid(*arguments).out.lstrip().startswith('Results in other')


def test_an_earlier_result_becomes_current_and_what_changed_is_said(output: Path, sysid: Sysid):
    first, last, _ = sorted(path.name for path in output.glob('2*'))
    done = sysid('history', '--use', first)

    assert (done.code, done.err) == (0, '')
    assert Path('out/current').readlink() == Path(first)
    (row,) = [line for line in done.out.splitlines() if line.startswith('joint/elbow/friction')]
    assert [row.split()[k] for k in (1, 4, -2, -1)] == ['4.20', '3.50', 'differs', 'N·m']
    assert done.out.splitlines()[-1] == f'out/current is {first}, after {last}'
    found = json.loads(sysid('history', 'out', '--use', last, '--json').out)
    assert (found['current'], found['before']) == (last, first)
    assert [result['parameters'][2]['value'] for result in found['results']] == [3.5, 4.2]


@pytest.mark.parametrize(
    ('number', 'end', 'words'), [(2, '', 'was rejected'), (1, '0', 'nearest: ')]
)
def test_rejected_and_unknown_results_are_refused(
    output: Path, sysid: Sysid, number: int, end: str, words: str
):
    names = sorted(path.name for path in output.glob('2*'))
    done = sysid('history', '--use', f'{names[number]}{end}')
    assert (done.code, done.out, done.err.count('\n')) == (2, '', 1)
    assert words in done.err
    assert Path('out/current').readlink() == Path(names[1])

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid export``: what was found, in the formats of others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders.cli_project import Project, Sysid

FORMATS = ('mjcf', 'csv', 'actuators')


@pytest.fixture
def result(project: Project) -> Path:
    return (project.folder / 'baseline.json').rename(project.folder / 'result.json')


@pytest.mark.parametrize('format_', FORMATS)
def test_what_was_written_and_what_is_lost_is_said(sysid: Sysid, result: Path, format_: str):
    done = sysid('export', result, '--format', format_, '-o', 'exported')
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1].startswith('wrote exported')
    assert (result.parent / 'exported').exists()
    if format_ == 'actuators':
        lost = 'body/tip/mass 0.450044 kg'
        assert f'  {lost}' in done.out
        again = sysid('export', result, '--format', format_, '-o', 'drives.yaml', '--json')
        document = json.loads(again.out)
        assert (document['files'], document['samples']) == (['drives.yaml'], None)
        assert lost in document['lost']


@pytest.mark.slow
def test_samples_are_counted(sysid: Sysid, quick: Project) -> None:
    (quick.folder / 'baseline.json').rename(quick.folder / 'result.json')
    done = sysid('export', '.', '--samples', '2', '--seed', '3', '-o', 'drawn')

    assert done.code == 0, done.err
    assert 'wrote 2 samples: sample_000.xml to sample_001.xml' in done.out
    assert 'wrote drawn/parameters.csv' in done.out


@pytest.mark.parametrize('format_', FORMATS)
def test_an_output_that_exists_is_left_alone(
    sysid: Sysid, result: Path, project: Project, format_: str
) -> None:
    output = project.folder / 'out'
    output.mkdir()
    (output / 'mine.txt').write_text('mine')
    before = project.files()

    done = sysid('export', result, '--format', format_, '-o', 'out')

    assert done.code == 2
    assert "'out' exists already and may be edited; choose another name." in done.err
    assert project.files() == before


def test_bad_input_is_one_sentence_and_nothing_is_written(
    sysid: Sysid, result: Path, project: Project
) -> None:
    text = result.read_text('utf-8')
    rejected = project.folder / 'rejected.json'
    rejected.write_text(text.replace('"passed": true', '"passed": false'))
    (project.folder / 'nothing').mkdir()
    before = project.files()

    for arguments, expected in (
        (('export', 'nothing', '-o', 'new'), 'Expected result.json or current/result.json in'),
        (('export', rejected, '-o', 'new'), 'was rejected, so nothing of it is exported'),
        (('export', result, '--format', 'urdf', '-o', 'new'), 'is no URDF; expected --urdf FILE'),
        (('export', result, '--samples', '0', '-o', 'new'), 'Expected one sample or more'),
        (('export', result, '--format', 'csv', '--urdf', 'a.urdf', '-o', 'new'), '--urdf is what'),
        (('export', result, '--format', 'sdf', '-o', 'new'), "'sdf' is not one of 'mjcf'"),
        (('export', result, '--format', 'csv', '-o', 'calibration.yaml/new'), 'Cannot write'),
    ):
        done = sysid(*arguments)
        assert done.code == 2, arguments
        assert expected in done.err
        assert done.err.count('\n') == 1
    assert project.files() == before


def test_another_model_than_the_calibrated_one_is_refused(
    sysid: Sysid, result: Path, project: Project
) -> None:
    (project.folder / 'arm.xml').rename(project.folder / 'moved.xml')
    assert sysid('export', result, '-o', 'gone').code == 2
    assert sysid('export', result, '--model', 'moved.xml', '-o', 'found').code == 0

    moved = project.folder / 'moved.xml'
    moved.write_text(moved.read_text().replace('mass=".6"', 'mass=".7"'))
    done = sysid('export', result, '--model', 'moved.xml', '-o', 'other')

    assert done.code == 2
    assert 'as it was calibrated, found another' in done.err
    assert not (project.folder / 'other').exists()

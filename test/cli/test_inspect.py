# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid inspect`` on a recorded bag."""

from __future__ import annotations

import dataclasses
import json

import pytest
from PIL import Image

from builders.cli_project import Project, Sysid
from sysid_ros.bags.reader import read_bag


def _row(text: str, name: str) -> list[str]:
    """Return the words of the line that begins with a name."""
    (line,) = (line for line in text.splitlines() if line.split()[:1] == [name])
    return line.split()


def test_it_says_what_is_in_a_bag_and_what_it_shows(project: Project, sysid: Sysid):
    done = sysid('inspect', project.folder / 'train', project.folder / 'arm.xml')
    assert (done.code, done.err) == (0, '')
    assert _row(done.out, '/joint_states')[1:3] == ['474', '100.0']
    assert _row(done.out, 'elbow')[-1] == '45%'
    assert '6 columns are sensors of the model, 2 its actuators' in done.out


def test_no_model_is_needed(project: Project, sysid: Sysid):
    before = project.files()
    done = sysid('inspect', 'train')
    assert (done.code, done.err) == (0, '')
    assert 'elbow' in done.out
    assert 'gravity' not in done.out
    assert project.files() == before


@pytest.mark.slow
def test_json_says_the_same(project: Project, sysid: Sysid):
    text = sysid('inspect', 'train', 'arm.xml').out
    document = json.loads(sysid('inspect', 'train', 'arm.xml', '--json').out)
    (file,) = (project.folder / 'train').glob('*.mcap')
    assert (document['bag']['storage'], document['bag']['size']) == ('mcap', file.stat().st_size)
    assert {item['topic'] for item in document['topics']} <= set(text.split())
    assert [joint['name'] for joint in document['joints']] == ['shoulder', 'elbow']
    assert 0 < document['joints'][1]['of_range'] < 1
    assert len(document['mapping']['pairs']) == 8


def test_what_the_recorder_lost_is_in_the_second_line(
    project: Project, sysid: Sysid, monkeypatch: pytest.MonkeyPatch
):
    facts = {'version': '1.2', 'host': 'robot', 'dropped': '{"/joint_states": 7}', 'notes': 'a\nb'}
    noted = dataclasses.replace(read_bag(project.folder / 'train'), facts=facts)
    monkeypatch.setattr('sysid_ros.alignment.turns.read_bag', lambda _: noted)
    lines = sysid('inspect', 'train').out.splitlines()
    assert lines[1].endswith('sysid_ros 1.2 on robot; dropped 7 of /joint_states; lost 0')
    assert lines[2] == 'notes: a b'


def test_a_model_that_does_not_fit_is_a_line_beside_the_rest(project: Project, sysid: Sysid):
    project.replace_in_model('"shoulder"', '"hip"')
    project.replace_in_model('"elbow"', '"knee"')
    done = sysid('inspect', 'train', 'arm.xml')
    assert done.code == 0
    assert 'Mapping: No joint name in common' in done.out
    assert 'elbow' in done.out


@pytest.mark.slow
def test_each_joint_gets_a_picture_whose_name_stays_in_the_folder(project: Project, sysid: Sysid):
    project.replace_in_model('joint name="elbow"', 'joint name="../e"')
    project.replace_in_model('joint="elbow"', 'joint="../e"')
    (project.folder / 'm.yaml').write_text(
        'sensors:\n  elbow_position: {topic: /joint_states, field: position, label: elbow}\n'
    )
    done = sysid('inspect', 'train', 'arm.xml', '--mapping', 'm.yaml', '--plots', 'new')
    assert (done.code, done.err) == (0, '')
    assert {path.name for path in (project.folder / 'new').iterdir()} == {'e.png'}


@pytest.mark.slow
def test_commands_are_drawn_beside_what_was_measured(project: Project, sysid: Sysid):
    reddish = {}
    for name, model in (('bare', ()), ('paired', ('arm.xml',))):
        assert sysid('inspect', 'train', *model, '--plots', name).code == 0
        with Image.open(project.folder / name / 'elbow.png') as image:
            # Position, velocity and effort, one below the other.
            assert (image.width > 1000, image.height > 700) == (True, True)
            colours = [colour for _, colour in image.convert('RGB').getcolors(1 << 24)]
        # Nothing else is reddish; only the model says which element of the array is the elbow's.
        reddish[name] = any(red > green + 80 > blue + 100 for red, green, blue in colours)
    assert reddish == {'bare': False, 'paired': True}

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid plot`` on a recorded bag."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures('project')
def test_each_joint_gets_a_picture(sysid: Callable[..., Any]):
    done = sysid('plot', 'train', 'arm.xml')
    assert (done.code, done.err) == (0, '')
    assert done.out == 'wrote train_plots/shoulder.png\nwrote train_plots/elbow.png\n'
    with Image.open('train_plots/elbow.png') as image:
        assert image.format == 'PNG'
        assert image.width > 1000
        # Position, velocity and effort, one below the other.
        assert image.height > 700


def test_commands_are_drawn_beside_what_was_measured(project: Any, sysid: Callable[..., Any]):
    pictures = {}
    for name, arguments in (('bare', ('train',)), ('paired', ('train', 'arm.xml'))):
        done = sysid('plot', *arguments, '-o', name, '--joint', 'elbow', '--json')
        assert json.loads(done.out) == {'files': [f'{name}/elbow.png']}
        assert [path.name for path in (project.folder / name).iterdir()] == ['elbow.png']
        with Image.open(f'{name}/elbow.png') as image:
            pictures[name] = {colour for _, colour in image.convert('RGB').getcolors(1 << 24)}
    # Nothing else is reddish; only the model says which element of the array is the elbow's.
    reddish = {name: _reddish(colours) for name, colours in pictures.items()}
    assert reddish == {'bare': False, 'paired': True}


def _reddish(colours: set[tuple[int, int, int]]) -> bool:
    return any(red > green + 80 > blue + 100 for red, green, blue in colours)


def test_a_name_with_a_slash_stays_in_the_folder(project: Any, sysid: Callable[..., Any]):
    text = (project.folder / 'arm.xml').read_text()
    (project.folder / 'arm.xml').write_text(
        text.replace('joint name="elbow"', 'joint name="../e"').replace(
            'joint="elbow"', 'joint="../e"'
        )
    )
    (project.folder / 'm.yaml').write_text(
        'sensors:\n  elbow_position: {topic: /joint_states, field: position, label: elbow}\n'
    )
    done = sysid('plot', 'train', 'arm.xml', '--mapping', 'm.yaml', '-o', 'new')
    assert (done.code, done.err) == (0, '')
    assert [path.name for path in (project.folder / 'new').iterdir()] == ['e.png']


def test_a_joint_that_is_not_there_is_one_line(project: Any, sysid: Callable[..., Any]):
    before = project.files()
    done = sysid('plot', 'train', '--joint', 'elbwo')
    assert (done.code, done.out) == (2, '')
    assert done.err == "sysid: Joint 'elbwo' is not in the bag; nearest: elbow.\n"
    assert project.files() == before

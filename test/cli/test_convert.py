# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid map`` and ``sysid convert`` on a recorded bag."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from builders.cli_project import Project, Sysid

SENSORS = [
    f'{joint}_{what}'
    for what in ('position', 'velocity', 'effort')
    for joint in ('shoulder', 'elbow')
]


def _section(text: str, title: str) -> list[str]:
    """Return the lines of one table, without its header."""
    blocks = text.split('\n\n')
    (block,) = [block for block in blocks if block.startswith(title)]
    return block.splitlines()[2:]


def test_it_says_what_is_mapped_at_which_rate(project: Project, sysid: Sysid):
    done = sysid('convert', project.folder / 'train', project.folder / 'arm.xml')
    assert (done.code, done.err) == (0, '')
    mapped = [line.split() for line in _section(done.out, 'Mapped')]
    assert [row[0] for row in mapped if row[1] == 'sensor'] == SENSORS
    assert [row[0] for row in mapped if row[1] == 'actuator'] == ['shoulder', 'elbow']
    rates = {line.split()[0]: line.split()[1:] for line in _section(done.out, 'Topics')}
    for topic in ('/joint_states', '/forward_position_controller/commands'):
        messages, rate, gap = map(float, rates[topic])
        assert messages > 100
        assert rate == pytest.approx(100, abs=1)
        assert 0 < gap < 0.1
    assert not (project.folder / 'out').exists()


def test_what_has_no_counterpart_is_named(project: Project, sysid: Sysid):
    project.replace_in_model(
        '<jointpos name="elbow_position" joint="elbow"/>',
        '<accelerometer name="imu" site="s"/>',
    )
    project.replace_in_model('<geom type="sphere" size=".04"/>', '<site name="s"/>')
    done = sysid('convert', 'train', 'arm.xml')
    assert done.code == 0
    rows = _section(done.out, 'Not mapped')
    assert any('imu' in row and 'no column of the bag' in row for row in rows)
    assert any('/joint_states.position[elbow]' in row for row in rows)


def test_the_series_load_without_pickle_and_agree_with_the_tables(project: Project, sysid: Sysid):
    done = sysid('convert', 'train', 'arm.xml', '-o', 'series')
    assert done.code == 0
    written = {line.removeprefix('wrote ') for line in done.out.splitlines() if 'wrote ' in line}
    assert written == {f'series/{path.name}' for path in (project.folder / 'series').iterdir()}
    for stem, names in (('measurements', SENSORS), ('commands', ['shoulder', 'elbow'])):
        path = project.folder / 'series' / f'train_{stem}_0'
        with np.load(path.with_suffix('.npz'), allow_pickle=False) as series:
            times, data = series['times'], series['data']
            mapping = json.loads(str(series['signal_mapping']))
        assert data.shape == (len(times), len(names))
        assert list(mapping) == names
        assert np.all(np.diff(times) > 0)
        with path.with_suffix('.csv').open() as stream:
            header, *rows = csv.reader(stream)
        assert header == ['time', *names]
        np.testing.assert_array_equal(np.array(rows, dtype=float), np.column_stack([times, data]))


@pytest.mark.parametrize('name', ['npz', 'csv'])
def test_a_format_is_written_alone_when_it_is_named(project: Project, sysid: Sysid, name: str):
    done = sysid('convert', 'train', 'arm.xml', '-o', 'series', '--format', name, '--json')
    assert done.code == 0
    assert all(Path(file).is_file() for file in json.loads(done.out)['files'])
    kinds = {''.join(path.suffixes) for path in (project.folder / 'series').iterdir()}
    assert kinds == {f'.{name}', '.json'}


@pytest.mark.slow
def test_the_file_it_writes_is_a_mapping_for_the_other_commands(project: Project, sysid: Sysid):
    done = sysid('map', 'train', 'arm.xml', '--output', 'mapping.yaml')
    assert (done.code, done.err) == (0, '')
    assert done.out.startswith('8 of 8 pairs are certain\n')
    shown = sysid('convert', 'train', 'arm.xml', '--mapping', 'mapping.yaml')
    named = sysid('convert', 'train', 'arm.xml')
    assert shown.out.partition('\n\n')[0] == named.out.partition('\n\n')[0]
    again = sysid('map', 'train', 'arm.xml', '--output', 'mapping.yaml')
    assert again.code == 2
    assert "'mapping.yaml' exists already" in again.err
    assert project.files().keys() >= {'mapping.yaml'}


@pytest.mark.slow
def test_without_a_file_it_prints_the_mapping_or_json(project: Project, sysid: Sysid):
    text = sysid('map', 'train', 'arm.xml').out
    assert '  elbow_position: {topic: /joint_states, field: position, label: elbow}' in text
    pairs = json.loads(sysid('map', 'train', 'arm.xml', '--json').out)['pairs']
    assert {pair['name'] for pair in pairs if pair['role'] == 'actuator'} == {'shoulder', 'elbow'}
    assert sysid('map', 'nothing', 'arm.xml').code == 2
    assert 'mapping.yaml' not in project.files()

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid history``: results over time, and back to an earlier one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders.cli_project import Sysid
from builders.histories import keep, make_result

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
    title, header, *rows = done.out.rstrip().splitlines()
    assert title.strip() == 'Results in out'
    assert header.split()[:3] == ['folder', 'standing', 'error']
    assert [row.split()[1] for row in rows] == ['accepted', 'accepted', 'rejected']
    assert [row.rstrip().endswith('current') for row in rows] == [False, True, False]
    assert 'joint/elbow/frictionloss from 3.5 to 4.2 N·m (+20 %), 4.9 standard errors' in rows[1]
    assert '2 mrad' in rows[0]
    assert '3 of 3' in rows[0]


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


def test_json_has_all_values_and_drifts(output: Path, sysid: Sysid):
    done = sysid('history', output, '--json')

    first, second, third = json.loads(done.out)
    assert first['drift'] is None
    assert [row['changed'] for row in second['drift']['parameters']] == [False, False, True]
    assert second['current']
    assert third['standing'] == 'rejected'


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


def test_rejected_and_unknown_results_are_refused_and_nothing_moves(output: Path, sysid: Sysid):
    _, last, rejected = sorted(path.name for path in output.glob('2*'))
    for name, sentence in (
        (rejected, 'was rejected: It did not fall.\n'),
        (f'{last}0', f"There is no result '{last}0' in 'out'; nearest: "),
    ):
        done = sysid('history', '--use', name)
        assert (done.code, done.out, done.err.count('\n')) == (2, '', 1)
        assert sentence in done.err
    assert Path('out/current').readlink() == Path(last)

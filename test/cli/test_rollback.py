# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid rollback``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from builders.histories import keep, make_result

if TYPE_CHECKING:
    from builders.cli_project import Sysid


class Results(NamedTuple):
    """Folders of an accepted result, a rejected one and another accepted one."""

    first: Path
    rejected: Path
    last: Path


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Results:
    """Return results in ``out`` below the working directory."""
    monkeypatch.chdir(tmp_path)
    out = Path('out')
    return Results(
        keep(out, make_result()),
        keep(out, make_result(accepted=False)),
        keep(out, make_result(0.05, 0.7, 4.2)),
    )


def test_the_accepted_one_before_becomes_current_and_what_changed_is_said(
    results: Results, sysid: Sysid
):
    done = sysid('rollback')

    assert (done.code, done.err) == (0, '')
    assert Path('out/current').readlink() == Path(results.first.name)
    (row,) = [line for line in done.out.splitlines() if line.startswith('joint/elbow/friction')]
    assert [row.split()[k] for k in (1, 4, -2, -1)] == ['4.20', '3.50', 'differs', 'N·m']
    last = done.out.splitlines()[-1]
    assert last == f'out/current is {results.first.name}, after {results.last.name}'


def test_a_result_is_named_by_its_folder_in_either_way(results: Results, sysid: Sysid):
    for arguments in (('out', results.first.name), (results.last,), ('out', results.first.name)):
        found = json.loads(sysid('rollback', *arguments, '--json').out)
        named = Path(arguments[-1]).name
        assert found['current'] == named
        (changed,) = [p for p in found['parameters'] if p['name'] == 'joint/elbow/frictionloss']
        assert changed['unit'] == 'N·m'
        assert {side['value'] for side in changed['sides']} == {3.5, 4.2}
        assert Path('out/current').readlink() == Path(named)


def test_rejected_and_unknown_results_are_refused_and_nothing_moves(results: Results, sysid: Sysid):
    for name, sentence in (
        (results.rejected.name, 'was rejected: It did not fall.\n'),
        (f'{results.last.name}0', f"There is no result '{results.last.name}0' in 'out'; nearest: "),
    ):
        done = sysid('rollback', 'out', name)
        assert (done.code, done.out, done.err.count('\n')) == (2, '', 1)
        assert sentence in done.err
    assert Path('out/current').readlink() == Path(results.last.name)

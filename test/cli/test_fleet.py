# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid fleet``: rows, exit codes, errors in one sentence, and going on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders.cli_project import run_process
from builders.fleets import STARTS, make_fleet
from sysid_ros.config.files import load_fleet
from sysid_ros.config.schema import Fleet
from sysid_ros.errors import ConfigError


@pytest.mark.slow
def test_a_process_prints_the_population_and_who_failed_and_goes_on_where_it_was(tmp_path: Path):
    folder = tmp_path / 'fleet'
    make_fleet(folder, eve={'train': 'bags/eve_*'})

    done = run_process('fleet', 'fleet.yaml', '--workers', '1', folder=folder)

    assert done.code == 1
    for name in STARTS:
        assert f'{name} done' in done.err
        assert (folder / 'fleet' / name / 'current' / 'report.html').is_file()
    assert 'joint/elbow/damping' in done.out
    assert 'failed: eve: No bag matches' in done.out
    old = json.loads((folder / 'fleet' / 'fleet.json').read_text())

    again = run_process('fleet', 'fleet.yaml', '--json', folder=folder)

    new = json.loads(again.out)
    assert json.loads((folder / 'fleet' / 'fleet.json').read_text()) == new
    for document in (old, new):
        del document['created'], document['command']
    assert new == old
    assert [len(list((folder / 'fleet' / name).glob('20*'))) for name in STARTS] == [1, 1]


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Fleet]:
    """Return a function that reads a fleet of one robot with some keys replaced; None removes."""

    def read(robot: dict[str, Any] | None = None, **changes: Any) -> Fleet:
        (tmp_path / 'base').mkdir(exist_ok=True)
        base = {'model': 'arm.xml', 'parameters': [{'target': 'joint/*/damping'}]}
        (tmp_path / 'base' / 'calibration.yaml').write_text(yaml.safe_dump(base))
        one = {'name': 'r1', 'train': 'bags/r1', **(robot or {})}
        document = {'base': 'base/calibration.yaml', 'robots': [one], **changes}
        kept = {key: value for key, value in document.items() if value is not None}
        (tmp_path / 'fleet.yaml').write_text(yaml.safe_dump(kept))
        return load_fleet(tmp_path / 'fleet.yaml')

    return read


def test_paths_are_relative_to_the_file_that_holds_them(load: Callable[..., Fleet], tmp_path: Path):
    plain = load().robots['r1']
    other = load({'overrides': {'model': 'b.xml', 'mapping': 'm.yaml'}}).robots['r1']
    inline = load(base={'model': 'c.xml', 'parameters': [{'target': 't'}]}).robots['r1']

    assert plain.model == tmp_path / 'base' / 'arm.xml'
    assert [bag.path for bag in plain.bags] == [str(tmp_path / 'bags' / 'r1')]
    assert (other.model, other.mapping) == (tmp_path / 'b.xml', tmp_path / 'm.yaml')
    assert inline.model == tmp_path / 'c.xml'
    assert plain.output == tmp_path / 'fleet' / 'r1'
    assert load_fleet(tmp_path / 'fleet.yaml', tmp_path / 'o').output == tmp_path / 'o'


def test_robots_have_one_thread_each_and_no_memory(load: Callable[..., Fleet]):
    base = {'model': 'c.xml', 'parameters': [{'target': 't'}], 'solver': {'threads': 8}}
    base['memory'] = 'auto'
    found = load({'overrides': {'solver.loss': 'huber'}}, base=base).robots['r1']

    assert found.solver.threads == 1
    assert found.solver.loss == 'huber'
    assert found.memory.previous == 'none'


@pytest.mark.parametrize(
    ('robot', 'changes', 'sentence'),
    [
        ({}, {'roboter': []}, "Unknown key 'roboter' in .*fleet.yaml; nearest: robots"),
        (
            {},
            {'robots': [{'name': 'r1', 'train': 'a'}, {'name': 'r1', 'train': 'b'}]},
            "a name .* for each robot, found 'r1' twice",
        ),
        ({}, {'base': 'base/calibratoin.yaml'}, 'There is no file .*nearest: calibration.yaml'),
        ({'name': 'a/b'}, {}, "letters, digits, .* for each robot, found 'a/b'"),
        ({'valdate': 'b'}, {}, "Unknown key 'robots.0.valdate' in .*; nearest: validate"),
        (
            {'overrides': {'memory.previous': 'auto'}},
            {},
            "no 'memory.previous' in overrides of robot 'r1'",
        ),
        (
            {'overrides': {'solver.los': 'huber'}},
            {},
            "Unknown key 'solver.los' in .*calibration.yaml with the overrides of 'r1'; nearest: l",
        ),
        ({}, {'base': {'model': 'a.xml'}}, 'at least one entry in parameters.*base of .*fleet'),
    ],
)
def test_a_wrong_file_is_told_in_one_sentence(
    load: Callable[..., Fleet], robot: dict[str, Any], changes: dict[str, Any], sentence: str
):
    with pytest.raises(ConfigError, match=sentence):
        load(robot, **changes)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Refits in processes of their own, and the bags that ask for one."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from builders.cli_project import Project
from sysid_ros.config.files import load_calibration
from sysid_ros.config.schema import BagSelection, CalibrationConfig
from sysid_ros.nodes.calibrator import NICEST, Child, End, NewBags
from sysid_ros.results.result import RESULT
from sysid_ros.results.store import draft, linked, use_again
from sysid_ros.workflows.writing import Calibration

PENDULUM = Path(__file__).parents[1] / 'data' / 'pendulum'


@pytest.fixture
def quick(tmp_path: Path) -> Project:
    project = Project(tmp_path / 'project')
    project.make_quick()
    return project


def child_of(project: Project) -> Child:
    return Child(project.config, load_calibration(project.config))


def keep(output: Path) -> Path:
    """Make an accepted result the current one, and return its folder."""
    with draft(output) as begun:
        shutil.copy(PENDULUM / 'baseline.json', begun.folder / RESULT)
        return begun.keep(accepted=True)


@pytest.mark.slow
def test_a_refit_tells_its_stages_stands_back_and_leaves_a_result(quick: Project):
    child = child_of(quick)
    said, nice = [], set()

    def say(line: str) -> None:
        said.append(line)
        assert child._process is not None
        nice.add(os.getpriority(os.PRIO_PROCESS, child._process.pid))

    outcome = child.run(say)

    assert outcome.end is End.DONE, outcome
    assert outcome.folder == (quick.folder / 'out' / 'current').resolve()
    assert Calibration.load(outcome.folder).result.accepted
    assert nice == {NICEST}
    stages = [line.partition(' ')[0] for line in said]
    assert stages.index('reading') < stages.index('iteration') < stages.index('writing')
    # Tables are for people.
    assert not any('joint/elbow/damping' in line for line in said)


@pytest.mark.slow
def test_a_rollback_in_the_middle_is_not_taken_for_its_result(quick: Project):
    output = quick.folder / 'out'
    first, second = keep(output), keep(output)
    assert linked(output) == second
    child = child_of(quick)

    def roll_back(line: str) -> None:
        if line.startswith('reading'):
            use_again(output, first.name)
            child.cancel()

    outcome = child.run(roll_back)

    assert outcome.end is End.CANCELLED
    assert linked(output) == first


@pytest.mark.slow
def test_what_another_one_writes_meanwhile_is_not_taken_for_its_result(quick: Project):
    output = quick.folder / 'out'
    keep(output)
    others: list[Path] = []

    def write(line: str) -> None:
        if not others:
            others.append(keep(output))
        elif line.startswith('iteration'):
            child.cancel()

    child = child_of(quick)
    outcome = child.run(write)

    assert outcome.end is End.CANCELLED
    assert outcome.folder is None
    assert 'current' not in outcome.sentence
    assert linked(output) == others[0]

    # Nor does one that comes to its end take the place of its own.
    others.clear()
    outcome = child_of(quick).run(lambda _: others or others.append(keep(output)))
    assert outcome.end is End.DONE
    assert outcome.folder not in (None, *others)
    assert linked(output) == outcome.folder


@pytest.mark.slow
def test_one_that_is_cancelled_before_it_starts_does_not_start(quick: Project):
    child = child_of(quick)
    child.cancel()

    outcome = child.run(pytest.fail)

    assert outcome.end is End.CANCELLED
    assert child.outcome == outcome
    assert child.wait(0)


class Folder:
    """Bags below a folder, and what is new of them at some time."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self._new = NewBags()
        config = load_calibration(PENDULUM / 'calibration.yaml')
        bags = (
            BagSelection(path=str(folder / 'train_*')),
            BagSelection(path=str(folder / 'held_out_*'), role='validate'),
        )
        self._settings: CalibrationConfig = config.model_copy(update={'bags': bags})
        self.write('held_out_1')

    def write(self, bag: str, *names: str, text: str = '') -> None:
        """Write files of a bag; all of a finished one unless some are named."""
        for name in names or ('bag.mcap', 'metadata.yaml'):
            path = self.path / bag / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    def look(self, later: float = 100.0) -> list[str]:
        """Return the names of new bags, so many seconds from now."""
        return [path.name for path in self._new.look(self._settings, time.time() + later)]

    def learn(self) -> None:
        """Learn what is new."""
        self._new.learn(self._new.look(self._settings, time.time() + 100.0))


@pytest.fixture
def bags(tmp_path: Path) -> Folder:
    """Return a folder in which one bag was finished before anybody looked."""
    folder = Folder(tmp_path)
    folder.write('train_1')
    assert folder.look() == []
    return folder


def test_a_bag_counts_when_it_has_its_metadata_and_did_not_change_for_a_while(bags: Folder):
    bags.write('train_2', 'bag.mcap')
    assert bags.look() == []
    bags.write('train_2', 'metadata.yaml')
    assert bags.look(-60.0) == []
    bags.write('train_2', 'bag.mcap', text='still being copied')
    os.utime(bags.path / 'train_2' / 'bag.mcap', (0, 0))
    assert bags.look(-60.0) == []
    assert bags.look(5.0) == ['train_2']
    bags.learn()
    assert bags.look() == []


def test_a_bag_that_is_recorded_at_the_start_counts_when_it_is_finished(tmp_path: Path):
    bags = Folder(tmp_path)
    bags.write('train_1', 'bag.mcap')
    assert bags.look() == []
    bags.write('train_1', 'metadata.yaml')
    assert bags.look() == ['train_1']


def test_what_no_pattern_names_and_what_is_held_out_does_not_count(bags: Folder):
    for name in ('held_out_2', 'other', 'train_2'):
        bags.write(name)
    assert bags.look() == ['train_2']


def test_patterns_that_match_nothing_yet_are_no_error(tmp_path: Path):
    bags = Folder(tmp_path)
    assert bags.look() == []
    bags.write('train_1')
    assert bags.look() == ['train_1']

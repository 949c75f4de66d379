# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid predict`` writes a bag with a prediction beside it, and says how far that is off."""

from __future__ import annotations

from pathlib import Path

import pytest
from rosbags.highlevel import AnyReader

from builders.cli_project import Outcome, Project, Sysid
from sysid_ros.bags.writer import BagWriter, copy_bag
from sysid_ros.report.numbers import TIMES
from sysid_ros.workflows.writing import Identified

#: Digits of exponents to digits.
_PLAIN = str.maketrans('⁰¹²³⁴⁵⁶⁷⁸⁹', '0123456789')
TOPICS = ['/measured', '/nominal', '/predicted', '/residual']

pytestmark = pytest.mark.slow


def _by_topic(path: Path) -> dict[str, list[tuple[int, bytes]]]:
    """Return times and bytes of the messages of each topic, by rosbags."""
    found: dict[str, list[tuple[int, bytes]]] = {}
    with AnyReader([path]) as reader:
        for connection, stamp, data in reader.messages():
            found.setdefault(connection.topic, []).append((stamp, bytes(data)))
    return found


def _errors(done: Outcome) -> dict[tuple[str, str], list[float]]:
    """Return the numbers of the printed table by joint and quantity."""
    plain = done.out.replace(f'{TIMES}10⁻', 'e-').translate(_PLAIN)
    rows = [line.split() for line in plain.splitlines()]
    return {
        (row[0], row[1]): [float(cell) for cell in row[3:]]
        for row in rows
        if row[1:2] in (['position'], ['velocity'], ['effort'])
    }


@pytest.fixture
def predicted(project: Project, sysid: Sysid, identified: Identified) -> Outcome:
    """Return what the command did with a result."""
    identified.result.save(project.folder / 'out' / 'result.json')
    return sysid('predict', 'out', 'validate', '-o', 'new')


def test_the_file_holds_the_bag_and_four_topics_beside_it(project: Project, predicted: Outcome):
    assert (predicted.code, predicted.err) == (0, '')
    written = _by_topic(project.folder / 'new')
    recorded = _by_topic(project.folder / 'validate' / 'validate.mcap')
    assert sorted(written) == sorted([*recorded, *TOPICS])
    for topic, messages in recorded.items():
        assert written[topic] == messages
    assert len({len(written[topic]) for topic in TOPICS}) == 1
    stamps = {stamp for stamp, _ in recorded['/joint_states']}
    assert {stamp for stamp, _ in written['/predicted']} < stamps


def test_the_table_says_how_far_both_models_are_off(predicted: Outcome):
    errors = _errors(predicted)
    assert len(errors) == 6
    assert all(after < before for before, after in errors.values())


def test_a_bag_with_topics_of_these_names_is_refused(project: Project, sysid: Sysid):
    with BagWriter(project.folder / 'mixed') as bag:
        copy_bag(project.folder / 'validate', bag)
        bag.add_topic('/predicted', 'std_msgs/msg/String')
        bag.write('/predicted', 1_700_000_000_000_000_000, b'\0\1\0\0\1\0\0\0\0\0\0\0')
    done = sysid('predict', 'arm.xml', 'mixed', '-o', 'v')
    assert done.code == 2
    assert "Topic '/predicted' is in the bag" in done.err
    assert not (project.folder / 'v').exists()


@pytest.mark.parametrize(
    ('arguments', 'sentence'),
    [
        (['arm.xml', 'validate', '-o', 'arm.xml'], 'exists already'),
        (['arm.xml', 'valdate', '-o', 'v'], 'nearest: validate'),
        (['out', 'validate', '-o', 'v'], "No model file 'out'"),
        (['gone.json', 'validate', '-o', 'v'], "There is no result 'gone.json'"),
    ],
)
def test_what_cannot_be_predicted_writes_nothing(
    project: Project, sysid: Sysid, arguments: list[str], sentence: str
):
    before = sorted(project.folder.rglob('*'))
    done = sysid('predict', *arguments)
    assert done.code == 2
    assert sentence in done.err
    assert done.err.count('\n') == 1
    assert sorted(project.folder.rglob('*')) == before

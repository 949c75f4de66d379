# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid predict`` writes a bag with predictions beside what was recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
from rosbags.highlevel import AnyReader

from builders.cli_project import Outcome, Project, Sysid
from sysid_ros.bags.writer import BagWriter, copy_bag
from sysid_ros.workflows.writing import Identified

pytestmark = pytest.mark.slow

TOPICS = ['/measured', '/nominal', '/predicted', '/residual']


def _by_topic(path: Path) -> dict[str, list[tuple[int, bytes]]]:
    """Return times and bytes of the messages of each topic, by rosbags."""
    found: dict[str, list[tuple[int, bytes]]] = {}
    with AnyReader([path]) as reader:
        for connection, stamp, data in reader.messages():
            found.setdefault(connection.topic, []).append((stamp, bytes(data)))
    return found


@pytest.fixture
def predicted(project: Project, sysid: Sysid, identified: Identified) -> Outcome:
    """Return what the command did with a result."""
    identified.result.save(project.folder / 'out' / 'result.json')
    return sysid('predict', 'out', 'validate', '-o', 'new')


def test_the_file_holds_the_bag_and_four_topics_beside_it(project: Project, predicted: Outcome):
    assert (predicted.code, predicted.err) == (0, '')
    for joint in ('shoulder', 'elbow'):
        rows = [line.split() for line in predicted.out.splitlines() if line.startswith(joint)]
        assert [row[1] for row in rows] == ['position', 'velocity', 'effort']
    written = _by_topic(project.folder / 'new')
    recorded = _by_topic(project.folder / 'validate' / 'validate.mcap')
    assert sorted(written) == sorted([*recorded, *TOPICS])
    for topic, messages in recorded.items():
        assert written[topic] == messages
    assert len({len(written[topic]) for topic in TOPICS}) == 1
    stamps = {stamp for stamp, _ in recorded['/joint_states']}
    assert {stamp for stamp, _ in written['/predicted']} < stamps


def test_a_bag_with_topics_of_these_names_is_refused(project: Project, sysid: Sysid):
    with BagWriter(project.folder / 'mixed') as bag:
        copy_bag(project.folder / 'validate', bag)
        bag.add_topic('/predicted', 'std_msgs/msg/String')
        bag.write('/predicted', 1_700_000_000_000_000_000, b'\0\1\0\0\1\0\0\0\0\0\0\0')
    done = sysid('predict', 'arm.xml', 'mixed', '-o', 'v')
    assert done.code == 2
    assert "Topic '/predicted' is in the bag" in done.err
    assert not (project.folder / 'v').exists()

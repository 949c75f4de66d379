# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid model``, and a URDF on its way through the other commands."""

from __future__ import annotations

import json
from pathlib import Path

import mujoco
import numpy as np
import pytest
import yaml
from rosbags.typesys import Stores, get_typestore

import sysid_ros.alignment.turns
import sysid_ros.bags.reader
from builders.cli_project import Sysid
from builders.described_robots import ORIGIN_NS, make_robot, record
from sysid_ros.bags.reader import read_bag
from sysid_ros.bags.writer import BagWriter

ROOT = Path(__file__).parents[2]
BARE = ROOT / 'test' / 'data' / 'urdf' / 'bare.urdf'
TEXT = 'std_msgs/msg/String'


def test_the_mjcf_of_a_urdf_is_printed_and_what_was_assumed_beside_it(sysid: Sysid) -> None:
    found = sysid('model', BARE)
    assert found.code == 0
    model = mujoco.MjModel.from_xml_string(found.out)
    assert model.joint('pivot').id == 0
    assert '2 bodies, 1 joints, 0 actuators, 1 kg' in found.err
    assert "'base' stands still" in found.err
    assert '3 sensors of them are implied' in found.err


def test_the_mjcf_is_written_once(sysid: Sysid, tmp_path: Path) -> None:
    written = tmp_path / 'bare.xml'
    assert sysid('model', BARE, '-o', written).out == f'wrote {written}\n'
    assert mujoco.MjModel.from_xml_path(str(written)).nbody == 3
    found = json.loads(sysid('model', BARE, '--json').out)
    assert (found['bodies'], found['joints'], found['mass'], found['file']) == (2, 1, 1, None)
    assert found['mjcf'].encode() == written.read_bytes()
    refused = sysid('model', BARE, '-o', written)
    assert refused.code == 2
    assert 'exists already' in refused.err


@pytest.fixture
def robot(tmp_path: Path) -> dict[str, float]:
    """Record a robot that says what it is, in ``train`` and ``validate``; return its truth."""
    rng = np.random.default_rng(3)
    robot = make_robot(BARE, rng)
    types = get_typestore(Stores.ROS2_JAZZY)
    text = types.types[TEXT](data=BARE.read_text())
    for name in ('train', 'validate'):
        with BagWriter(tmp_path / name) as bag:
            bag.add_topic('/robot_description', TEXT)
            bag.write(
                '/robot_description', ORIGIN_NS - 10_000_000, bytes(types.serialize_cdr(text, TEXT))
            )
            record(robot, bag, rng)
    return robot.truth


@pytest.mark.slow
@pytest.mark.usefixtures('undrawn')
def test_a_bag_that_describes_its_robot_needs_no_model(
    robot: dict[str, float], sysid: Sysid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapping = tmp_path / 'mapping.yaml'
    mapped = sysid('map', tmp_path / 'train', '-o', mapping)
    assert '4 of 4 pairs are certain' in mapped.out
    assert 'implied servos: pivot_servo; their kp and kv are guesses' in mapped.err
    config = tmp_path / 'calibration.yaml'
    document = {
        'bags': [{'path': 'train'}, {'path': 'validate', 'role': 'validate'}],
        'mapping': 'mapping.yaml',
        'parameters': [{'target': target} for target in robot],
    }
    config.write_text(yaml.safe_dump(document))
    inspected = sysid('inspect', tmp_path / 'train', tmp_path / 'train', '--mapping', mapping)
    assert '1 its actuators' in inspected.out
    checked = sysid('preflight', config)
    assert 'All 3 parameters would be identified' in checked.out
    assert 'are guesses' in ' '.join(checked.out.split())
    read = []
    for owner in (sysid_ros.bags.reader, sysid_ros.alignment.turns):
        monkeypatch.setattr(
            owner,
            'read_bag',
            lambda bag, topics=None: read.append(bag.name) or read_bag(bag, topics),
        )
    done = sysid('calibrate', config)
    assert done.code == 0, done.out
    # The first bag once for the description and once for its columns.
    assert sorted(read) == ['train', 'train', 'validate']
    folder = tmp_path / 'out' / 'current'
    assert (folder / 'mjcf' / 'robot_description.urdf').read_text() == BARE.read_text()
    written = mujoco.MjModel.from_xml_path(str(folder / 'mjcf' / 'robot_description.xml'))
    result = sysid_ros.Result.load(folder)
    for found in result.parameters:
        assert robot[found.targets[0]] == pytest.approx(found.value, rel=0.03)
    again = result.model().compile()
    assert (again.nsensor, again.nactuator) == (0, 1)
    for field in ('actuator_gainprm', 'actuator_biasprm', 'dof_armature'):
        np.testing.assert_array_equal(getattr(again, field), getattr(written, field))

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Recordings of a real robot, with all that is missing in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysid_ros.alignment import align
from sysid_ros.alignment.inspection import inspect
from sysid_ros.alignment.pairing import map_columns
from sysid_ros.bags.reader import read_bag
from sysid_ros.config.schema import ChannelMapping, MappingConfig
from sysid_ros.errors import AlignmentError
from sysid_ros.report.tables import alignment_text

pytestmark = pytest.mark.shared


def test_a_bag_with_names_maps_what_it_has(real_bags: Path, hinges: Any):
    bag = read_bag(real_bags / 'ros2bag_ats_2025-12-02_12-48-52')
    assert any(item.msgtype.startswith('px4_msgs') for item in bag.unread)
    model = hinges(['q0', 'q1', 'q2', 'q9'])
    alignment = align(bag, model, map_columns(bag, model, 'auto'), 'auto')
    mapped = {pair.name: pair.topic for pair in alignment.pairs}
    expected = [f'{kind}_q{joint}' for joint in range(3) for kind in 'pv']
    assert mapped == dict.fromkeys(expected, '/servo/out/state')
    kinds = {item.subject: item.kind for item in alignment.health}
    assert kinds['/servo/out/state.effort[q1]'] == 'dead channel'
    (sequence,) = alignment.sequences
    assert len(sequence.measurements[0]) == 102
    reasons = {item.name: item.reason for item in alignment.unmapped}
    assert '/servo/out/state is taken' in reasons['/servo/in/state']
    assert 'p_q9' in reasons
    assert '/servo/out/state.position[q1]' in alignment_text(alignment)


def test_a_bag_without_names_needs_a_mapping(real_bags: Path, hinges: Any):
    bag = read_bag(real_bags / 'ros2bag_servo_serial_log')
    model = hinges(['pivot', 'shoulder', 'elbow'])
    with pytest.raises(AlignmentError, match='its messages carry no names'):
        map_columns(bag, model, 'auto')
    state, command = '/servo/out/state', '/servo/in/references/joint_references'
    config = MappingConfig(
        sensors={
            'p_pivot': ChannelMapping(topic=state, field='position', label='0'),
            'v_pivot': ChannelMapping(topic=state, field='velocity', label='0'),
        },
        actuators={'m_pivot': ChannelMapping(topic=command, field='position', label='0')},
    )
    alignment = align(bag, model, map_columns(bag, model, config), 'auto')
    zero = [item for item in alignment.health if item.kind == 'no stamp']
    assert [item.subject for item in zero] == [command]
    rates = {rate.topic: rate.rate for rate in alignment.topics}
    assert 15 < rates[state] < 30
    assert alignment.sequences
    for sequence in alignment.sequences:
        assert sequence.commands[0].times[0] <= 0
        assert np.isfinite(sequence.measurements[0].data).all()


def test_what_is_wrong_with_a_bag_of_named_servos_is_found(real_bags: Path):
    found = inspect(read_bag(real_bags / 'ros2bag_ats_2025-12-02_12-48-52'))
    kinds = {(item.subject, item.kind) for item in found.findings}
    assert ('/servo/in/state', 'not measured') in kinds
    assert ('/servo/in/state', 'gap') in kinds
    dead = {item.label for item in found.channels if item.dead and item.topic == '/servo/out/state'}
    assert dead == {'q0', 'q1', 'q2'}
    assert [joint.name for joint in found.joints][:3] == ['q0', 'q1', 'q2']
    assert found.bag.storage == 'mcap'


def test_what_is_wrong_with_a_bag_of_nameless_servos_is_found(real_bags: Path):
    found = inspect(read_bag(real_bags / 'ros2bag_servo_serial_log'))
    state, command = '/servo/out/state', '/servo/in/references/joint_references'
    by_topic: dict[str, set[str]] = {}
    for item in found.findings:
        topic = command if item.subject.startswith(command) else state
        by_topic.setdefault(topic, set()).add(item.kind)
    assert by_topic[command] == {'no names', 'no stamp', 'gap'}
    assert by_topic[state] >= {'no names', 'not measured'}
    # Seen in the plots: the first velocity runs against its position, every position stays for
    # seven messages, and the second jumps by 1.4 rad and back.
    assert by_topic[state] >= {'velocity differs', 'stale samples', 'spikes'}
    assert found.bag.storage == 'sqlite3'
    (late,) = (item for item in found.findings if item.kind == 'gap' and item.count == 1)
    seconds = float(late.detail.partition(' s of')[0].rpartition(' ')[2])
    assert seconds == pytest.approx(29.95, abs=0.06)

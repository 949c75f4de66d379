# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid map`` on a recorded bag."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.slow


def test_the_file_it_writes_is_a_mapping_for_the_other_commands(
    project: Any, sysid: Callable[..., Any]
) -> None:
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


def test_without_a_file_it_prints_the_mapping_or_json(
    project: Any, sysid: Callable[..., Any]
) -> None:
    text = sysid('map', 'train', 'arm.xml').out
    assert '  elbow_position: {topic: /joint_states, field: position, label: elbow}' in text
    pairs = json.loads(sysid('map', 'train', 'arm.xml', '--json').out)['pairs']
    assert {pair['name'] for pair in pairs if pair['role'] == 'actuator'} == {'shoulder', 'elbow'}
    assert sysid('map', 'nothing', 'arm.xml').code == 2
    assert 'mapping.yaml' not in project.files()

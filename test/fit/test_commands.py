# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A known delay comes back from a bag, whatever carries the commands and whoever interpolates."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

#: s.
CLOSE = 2e-4


@pytest.fixture(scope='module')
def commands() -> Any:
    """Return benchmarks/commands.py, which has more cases and draws."""
    path = Path(__file__).parents[2] / 'benchmarks' / 'commands.py'
    spec = importlib.util.spec_from_file_location('benchmark_of_commands', path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ('case', 'topic'),
    [
        ('Float64MultiArray', '/forward_position_controller/commands'),
        ('JointTrajectory, at once', '/arm_controller/joint_trajectory'),
        ('JointTrajectory, a period later', '/arm_controller/joint_trajectory'),
        ('JointState', '/joint_commands'),
        ('controller, pieces, its state', '/arm_controller/controller_state'),
        ('controller, points', '/arm_controller/joint_trajectory'),
    ],
)
def test_a_delay_comes_back_from_every_kind_of_command(
    commands: Any, case: str, topic: str
) -> None:
    found = commands.draw(case, 1)
    assert abs(found.delay) < CLOSE
    assert found.topic == topic
    assert found.worst < 3.5


def test_a_controller_that_is_not_recorded_costs_half_of_its_update(commands: Any) -> None:
    found = commands.draw('controller, one trajectory', 1)
    assert abs(found.delay) < 0.5 / commands.DEFAULT.updates
    assert 'actuator/*/delay' not in found.missed
    assert found.worst < 3.5

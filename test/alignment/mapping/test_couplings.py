# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Columns and efforts in which two joints take part."""

from __future__ import annotations

from typing import Any

import numpy as np

from sysid_ros.alignment.mapping.axes import find_axes, make_motion
from sysid_ros.alignment.mapping.couplings import MixedColumns, find_couplings

TIMES = np.arange(0, 10, 0.01)
#: Joints to motors: the second motor turns both wrist joints.
MOTORS = np.array([[45.0, 0.0], [32.0, 32.0]])


def _joints() -> Any:
    """Return (n, 2) positions and velocities."""
    rates = np.array([[1.1, 2.7], [1.7, 0.9]])
    phases = rates * TIMES[:, None, None]
    return np.sin(phases).sum(axis=1), (rates * np.cos(phases)).sum(axis=1)


def _found(columns: Any, **fields: Any) -> dict[int, MixedColumns]:
    named = {
        kind: {f'wrist_{k}': values[:, k] for k in range(2)} for kind, values in fields.items()
    }
    bag = columns.bag(columns.topic('/joint_states', TIMES, named))
    axes = find_axes(bag)
    return find_couplings(axes, make_motion(axes))


def test_a_motor_that_turns_two_joints_is_named_with_its_ratios(columns: Any) -> None:
    position, velocity = _joints()
    found = _found(columns, position=position @ MOTORS.T, velocity=velocity)
    assert list(found) == [1]
    assert found[1].mixed
    assert '32 wrist_1 + 32 wrist_0' in found[1].text
    assert not _found(columns, position=position, velocity=velocity)


def test_friction_of_another_motor_in_an_effort_is_named(columns: Any) -> None:
    position, velocity = _joints()
    at_motors = velocity @ MOTORS.T
    rubbing = 0.02 * np.sign(at_motors) + 0.003 * at_motors
    effort = rubbing @ MOTORS + 0.01 * np.random.default_rng(0).normal(size=rubbing.shape)
    found = _found(columns, position=position, effort=effort)
    assert {row: item.mixed for row, item in found.items()} == {0: False, 1: False}
    assert 'the friction of wrist_1 is in this effort' in found[0].text
    alone = 0.5 * np.sign(velocity) + 0.1 * velocity + 0.3 * np.sin(position)
    assert not _found(columns, position=position, effort=alone)

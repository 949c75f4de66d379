# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Starts over windows that grow."""

from __future__ import annotations

import pytest

from builders.recordings import M1, record
from sysid_ros.servos.bench.horizon import find_starts
from sysid_ros.servos.bench.pendulum import bench
from sysid_ros.servos.laws.servo import Servo

SERVO = Servo.named('xl330', 'm1')


def test_starts_that_lead_to_one_place_go_on_as_one():
    logs = bench(SERVO, record(SERVO, M1, seconds=3.0))
    begun, attempts = find_starts(SERVO, logs, 5e-4, fixed={}, count=4, seed=0)
    assert len(attempts) == 4
    (only,) = begun
    assert only.x == pytest.approx(list(M1.values()), rel=0.1)

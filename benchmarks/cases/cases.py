# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The cases by their letters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cases import arm, others, robots
from cases.case import Case

_MAKERS: dict[str, Callable[[], Case]] = {
    'a': partial(arm.armature_case, 'a', '5-joint arm, 5 armatures, 2 s', 3.0),
    'b': robots.arm_case,
    'c': robots.trunk_case,
    'd': partial(
        arm.armature_case, 'd', f'case a with {arm.SEQUENCES} sequences', 8.0, count=arm.SEQUENCES
    ),
    'e': arm.signal_case,
    'f': others.cart_pole_case,
    'g': others.pendulum_case,
    'h': others.servo_case,
    'i': robots.six_joint_case,
    'j': robots.payload_case,
}
KEYS = ''.join(_MAKERS)
MESHED = 'bcij'


def make(key: str) -> Case:
    """Return a case; its recordings are simulated here."""
    return _MAKERS[key]()

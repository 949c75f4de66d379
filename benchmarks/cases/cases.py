# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The cases by their letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cases import arm, robots

if TYPE_CHECKING:
    from cases.case import Case

KEYS = 'abcdef'
MESHED = 'bc'


def make(key: str) -> Case:
    """Return a case; its recordings are simulated here."""
    if key == 'a':
        return arm.armature_case('a', '5-joint arm, 5 armatures, 2 s', 4.0, runs=15)
    if key == 'b':
        return robots.arm_case()
    if key == 'c':
        return robots.trunk_case()
    if key == 'd':
        return arm.armature_case(
            'd',
            f'case a with {arm.SEQUENCES} sequences',
            8.0,
            count=arm.SEQUENCES,
            limit=1.25,
            runs=3,
        )
    if key == 'e':
        return arm.signal_case()
    if key == 'f':
        return arm.armature_case('f', 'case a with callbacks', 3.0, callbacks=True, runs=15)
    msg = f'Expected cases out of {KEYS}, got {key!r}.'
    raise ValueError(msg)

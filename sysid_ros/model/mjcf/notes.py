# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is identified but has no place in a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysid_ros.model.targets import Role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sysid_ros.model.targets import Target

_OMITTED = {
    Role.COMMAND: 'gains and biases of commands',
    Role.SENSOR: 'gains, biases and delays of recorded readings',
    Role.SEQUENCE: 'the start of a recording',
    Role.LAW: "numbers of servos' laws",
}
#: At most so many starts of recordings are named; gains, biases and delays are named in full.
_NAMED_STARTS = 6


def left_out(values: Iterable[tuple[Target, float]]) -> list[str]:
    """Describe the values that no MJCF holds, each with its value.

    A sensor's delay is one of them although sensors of MuJoCo can have a delay: what is identified
    is how late a stamp is, on top of what the model simulates, and a controller that reads the
    model's sensors must not see the age of a recording's stamps.

    Returns:
        One sentence per role.
    """
    found: dict[Role, list[str]] = {}
    for target, value in values:
        if not target.in_mjcf:
            unit = f' {target.unit}' if target.unit not in ('', '1') else ''
            found.setdefault(target.role, []).append(f'{target.path} {value:.6g}{unit}')
    notes = []
    for role, entries in found.items():
        shown = entries[:_NAMED_STARTS] if role is Role.SEQUENCE else entries
        more = len(entries) - len(shown)
        listed = ', '.join(shown) + (f' and {more} more' if more else '')
        notes.append(f'The MJCF does not hold {_OMITTED[role]}: {listed}.')
    return notes

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a format has no place for, by name: it is told, never dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from sysid_ros.export.stored import Stored
from sysid_ros.model.targets import Target


class Lost(NamedTuple):
    """A number or a part of the identified model that a file does not hold.

    Attributes:
        name: A target, as ``joint/elbow/armature``, or what is lost in words.
        value: In SI units; None where it is not one number.
        unit: Of the value.
        identified: Whether it is of the result, not only of the model.
        why: What to know of it; empty where the format has no place for it, and no more.
    """

    name: str
    value: float | None = None
    unit: str = ''
    identified: bool = False
    why: str = ''

    def __str__(self) -> str:
        """Return it as people read it."""
        unit = f' {self.unit}' if self.unit not in ('', '1') else ''
        value = '' if self.value is None else f' {self.value:.6g}{unit}'
        why = f' ({self.why})' if self.why else ''
        return f'{self.name}{value}{why}'


def identified_lost(stored: Stored, holds: Callable[[Target], bool]) -> Iterator[Lost]:
    """Yield the identified values that a format does not hold."""
    for target, value in dict(stored.values).items():
        if not holds(target):
            yield Lost(target.path, value, target.unit, identified=True)


def lost_lines(lost: tuple[Lost, ...]) -> list[str]:
    """Return what a file says of what it does not hold, a line each; nothing where it holds all."""
    lines = []
    for title, identified in (
        ('Identified, and not in this file:', True),
        ('In the model, and not in this file:', False),
    ):
        entries = [f'  {entry}' for entry in lost if entry.identified is identified]
        lines += [title, *entries] if entries else []
    return lines

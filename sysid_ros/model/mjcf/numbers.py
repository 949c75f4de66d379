# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers in the attributes of an element."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

_NUMBER = re.compile(r'\S+')


class Editable(Protocol):
    """An element whose attributes can be changed: of the text, or a new one."""

    @property
    def tag(self) -> str:
        """The element's tag."""

    def get(self, name: str) -> str | None:
        """Return an attribute's value as changed so far; None where it is absent."""

    def set(self, name: str, value: str) -> None:
        """Change or add an attribute."""

    def remove(self, name: str) -> None:
        """Remove an attribute."""

    def rename(self, old: str, new: str, value: str) -> None:
        """Put another attribute into the place of one."""


def number(value: float) -> str:
    """Write a number with the fewest digits that read back as the same double."""
    return repr(float(value)).removesuffix('.0')


def join(values: Iterable[float]) -> str:
    """Write several numbers."""
    return ' '.join(number(value) for value in values)


def numbers_of(element: Editable, name: str) -> list[float]:
    """Read the numbers of an attribute; none where it is absent or says something else."""
    try:
        return [float(entry) for entry in (element.get(name) or '').split()]
    except ValueError:
        return []


def set_scalar(element: Editable, name: str, value: float) -> None:
    """Write a number, unless the text says the same number already."""
    text = element.get(name)
    if text is None or not _same(text, value):
        element.set(name, number(value))


def set_vector(element: Editable, name: str, values: Iterable[float]) -> None:
    """Write all components of an attribute, unless the text says the same numbers already."""
    wanted = [float(value) for value in values]
    for index in range(len(wanted)):
        set_component(element, name, index, wanted[index], wanted, len(wanted))


def set_component(
    element: Editable,
    name: str,
    index: int,
    value: float,
    nominal: Iterable[float],
    least: int = 1,
) -> None:
    """Write one component of a vector attribute and leave the others' text.

    Args:
        element: The element.
        name: The attribute.
        index: The component.
        value: Its value.
        nominal: The whole vector, for components that the text leaves to defaults.
        least: The attribute needs at least so many components.
    """
    vector = [float(entry) for entry in nominal]
    text = element.get(name)
    if text is None:
        used = [place for place, entry in enumerate(vector) if entry != 0]
        vector[index] = value
        count = max(index + 1, least, *(place + 1 for place in used))
        element.set(name, join(vector[:count]))
        return
    numbers = list(_NUMBER.finditer(text))
    if index < len(numbers):
        match = numbers[index]
        if not _same(match[0], value):
            element.set(name, text[: match.start()] + number(value) + text[match.end() :])
        return
    added = [*vector[len(numbers) : index], value]
    element.set(name, f'{text.rstrip()} {join(added)}'.lstrip())


def _same(text: str, value: float) -> bool:
    try:
        return float(text) == value
    except ValueError:
        return False

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Names for the numbers of a message, by strings that the message carries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sysid_ros.bags.messages.layout import Part


class Labeller(Protocol):
    """Gives the parts of a message the fields and labels that they have as columns."""

    def __call__(
        self, parts: Iterable[Part], texts: Mapping[str, tuple[str, ...]], /
    ) -> Iterable[Part]:
        """Label the parts of a message.

        Args:
            parts: What the definition alone says: paths as fields, indices as labels.
            texts: Path to the strings in the message.
        """


def labels_for(names: Sequence[str], width: int) -> tuple[str, ...]:
    """Return one distinct label per element of an array.

    Where the message names fewer joints than it has values, the index is the label; a name that
    is there twice gets the index of the second element behind it.
    """
    labels: list[str] = []
    for index in range(width):
        name = names[index] if index < len(names) and names[index] else str(index)
        labels.append(f'{name}[{index}]' if name in labels else name)
    return tuple(labels)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Columns by label, from messages that may each carry other labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.bags.columns import Field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class Block(NamedTuple):
    """The values of some rows that carry the same labels.

    Attributes:
        rows: (m,) rows of the topic, int64.
        labels: k labels.
        values: (m, k) float64.
    """

    rows: NDArray[np.int64]
    labels: tuple[str, ...]
    values: NDArray[np.float64]


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


def join(name: str, blocks: Sequence[Block], count: int) -> Field | None:
    """Put blocks together into one field, NaN where a message has no value.

    Args:
        name: Name of the field.
        blocks: The values, in any order of rows.
        count: Rows of the topic.

    Returns:
        The field with its labels in order of first appearance, or None when no message carries it.
    """
    used = sorted((block for block in blocks if block.labels), key=lambda block: block.rows[0])
    labels = tuple(dict.fromkeys(label for block in used for label in block.labels))
    if not labels:
        return None
    column = {label: index for index, label in enumerate(labels)}
    values = np.full((count, len(labels)), np.nan)
    for block in used:
        columns = [column[label] for label in block.labels]
        values[block.rows[:, None], columns] = block.values
    return Field(name, labels, values)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which simulations are run together, and how many."""

from __future__ import annotations

#: Sequences whose lengths differ by less than this factor share a batch, the shorter ones padded.
_LENGTH_FACTOR = 1.25
#: What a batch records is kept below this, bytes, so that memory does not grow with the data.
_LARGEST_RECORD = 1.5e6
#: So many simulations for each thread are one batch at most: each needs memory of its own.
_PER_THREAD = 8
#: The same where laws are evaluated between steps, at a cost that hardly grows with the number of
#: simulations: so many of them, as long as their record is below this, bytes, and never fewer.
_FEWEST_DRIVEN, _MOST_DRIVEN = 16, 256
_LARGEST_DRIVEN_RECORD = 64e6


def most_at_once(size: int, threads: int, *, driven: bool) -> int:
    """Return how many simulations are one batch at most.

    Args:
        size: What each of them records, bytes.
        threads: Size of the pool.
        driven: Whether laws are evaluated between steps.
    """
    if driven:
        room = int(_LARGEST_DRIVEN_RECORD / max(size, 1))
        return min(max(room, _FEWEST_DRIVEN), _MOST_DRIVEN)
    room = int(_LARGEST_RECORD / max(size, 1))
    return threads * min(max(room // threads, 2), _PER_THREAD)


def of_like_length(steps: list[int]) -> list[list[int]]:
    """Group sequences, by their numbers of steps."""
    batches: list[list[int]] = []
    for index in sorted(range(len(steps)), key=lambda i: -steps[i]):
        if batches and steps[batches[-1][0]] <= _LENGTH_FACTOR * steps[index]:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches

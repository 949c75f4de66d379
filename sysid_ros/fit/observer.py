# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Who watches a calibration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from sysid_ros.fit.solver import Iteration

_Item = TypeVar('_Item')


class Observer(Protocol):
    """Someone who watches a calibration."""

    def stage(self, text: str) -> None:
        """A new stage begins."""

    def iteration(self, iteration: Iteration) -> None:
        """The solver made an iteration."""


def counted(observer: Observer, items: Iterable[_Item], count: int) -> Iterator[_Item]:
    """Yield the parts of a stage, and call ``part(done, count)`` of the observer after each."""
    tell = getattr(observer, 'part', None)
    for done, item in enumerate(items, 1):
        yield item
        if tell is not None:
            tell(done, count)


class Nobody:
    """Nobody watches."""

    def stage(self, text: str) -> None:
        """Ignore it."""

    def iteration(self, iteration: Iteration) -> None:
        """Ignore it."""

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The results of a robot over time: which is in use, and what changed from each to the next."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sysid_ros.results.drift import changes, drift_between
from sysid_ros.results.headline import headline
from sysid_ros.results.result import CalibrationResult, Drift, Standing
from sysid_ros.results.store import history


class ValueSummary(NamedTuple):
    """A parameter with its 95 % interval and what is thought of it."""

    name: str
    unit: str
    value: float
    low: float
    high: float
    verdict: str


class EntrySummary(NamedTuple):
    """A result of a history, without what it was found from.

    Attributes:
        folder: Its name.
        current: Whether it is the one in use.
        created: When, ISO 8601.
        standing: Whether it may be used, and relied on.
        acceptance: Why, in a sentence.
        held_out: Whether ``error`` is of data held out, else of training data.
        error: Of the fitted model, in units of the noise.
        error_text: The same and in physical units, for people.
        identified: How many parameters are.
        drift: Whether the robot changed since the accepted one before, if that is known.
        parameters: All of them.
    """

    folder: str
    current: bool
    created: str
    standing: Standing
    acceptance: str
    held_out: bool
    error: float
    error_text: str
    identified: int
    drift: Drift | None
    parameters: tuple[ValueSummary, ...]


@dataclass(frozen=True)
class Entry:
    """A result of a history.

    Attributes:
        name: Of its folder.
        current: Whether it is the one in use.
        result: What was found.
        drift: Whether the robot changed since the accepted one before; None for the first one, and
            for a rejected one that was not fitted with memory.
    """

    name: str
    current: bool
    result: CalibrationResult
    drift: Drift | None

    @property
    def error(self) -> str:
        """Error of the fitted model on held-out data, or on training data where there is none."""
        head = headline(self.result)
        shown = [f'{error.after:.3g} {error.unit}' for error in head.errors]
        found = ', '.join(shown) or f'{head.after:.3g} times the noise'
        return found if head.role == 'validate' else f'{found} (training)'

    @property
    def identified(self) -> int:
        """How many parameters are identified."""
        return sum(parameter.identified for parameter in self.result.parameters)

    @property
    def changed(self) -> str:
        """What changed since the one before: clauses, ``nothing``, or empty if unknown."""
        if self.drift is None or not self.drift.parameters:
            return ''
        units = {parameter.name: parameter.unit for parameter in self.result.parameters}
        return changes(self.drift, units) or 'nothing'

    def summary(self) -> EntrySummary:
        """Return what is shown, and more."""
        result, head = self.result, headline(self.result)
        return EntrySummary(
            folder=self.name,
            current=self.current,
            created=result.provenance.created,
            standing=result.standing,
            acceptance=result.acceptance,
            held_out=head.role == 'validate',
            error=head.after,
            error_text=self.error,
            identified=self.identified,
            drift=self.drift,
            parameters=tuple(
                ValueSummary(p.name, p.unit, p.value, p.low, p.high, p.verdict)
                for p in result.parameters
            ),
        )


def read_history(output: Path) -> tuple[Entry, ...]:
    """Read all results of a folder in order of time.

    A result that was fitted with memory says itself whether the robot changed; others are compared
    with the accepted one before.

    Raises:
        ResultError: There is none, or one cannot be read.
    """
    found: list[Entry] = []
    before: Entry | None = None
    for stored in history(output):
        result = stored.load()
        drift = result.drift
        if drift is None and before is not None and result.accepted:
            drift = drift_between(before.result, result, before.name)
        found.append(Entry(stored.name, stored.current, result, drift))
        if result.accepted:
            before = found[-1]
    return tuple(found)

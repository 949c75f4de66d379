# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the command line shows: progress, tables, paths."""

from __future__ import annotations

import io
import math
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self, TextIO

from sysid_ros.errors import one_line
from sysid_ros.fit.solver import Iteration
from sysid_ros.report.tables import WIDE, LiteralConsole
from sysid_ros.text import to_json


def say(text: str, stream: TextIO | None = None) -> None:
    """Print a line, in which everything is seen, to standard output unless told otherwise."""
    print(one_line(text), file=stream or sys.stdout, flush=True)


class Progress:
    """A line per stage, and on a terminal one that changes; elsewhere one line per iteration.

    It goes to standard error: standard output has only what was asked for. A fit may have a limit
    of time, s. Whatever ends it, the line that changes is ended.
    """

    def __init__(self, stream: TextIO | None = None, limit: float | None = None) -> None:
        self._stream = stream or sys.stderr
        self._limit = limit
        self._live = self._stream.isatty()
        self._open = False
        self._stage = ''
        self._cost = math.inf
        self._begun = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def stage(self, text: str) -> None:
        """Say that a new stage begins."""
        self.finish()
        self._begun = time.monotonic()
        self._stage = text
        say(text, self._stream)

    def part(self, done: int, count: int) -> None:
        """Say how many parts of the stage are done; a log has the stage's own line only."""
        if self._live and done < count:
            left = (time.monotonic() - self._begun) / done * (count - done)
            self._show([f'  {done} of {count}', f'about {left:.0f} s left'])
        else:
            self.finish()

    def share(self, text: str, part: float) -> None:
        """Say which part of a stage is done; the stage begins where its text changes."""
        if text != self._stage:
            self.stage(text)
        if self._live:
            self._show([f'  {part:.0%}'])

    def iteration(self, iteration: Iteration) -> None:
        """Say how far the solver is."""
        # The cost of one problem never rises: its unit, the noise, has changed.
        anew = ' (new noise estimate)' if iteration.cost > self._cost else ''
        self._cost = iteration.cost
        parts = [
            f'iteration {iteration.number}: cost {iteration.cost:.6g}{anew}',
            f'{iteration.rollouts} rollouts',
        ]
        if iteration.diverged:
            parts.append(f'{iteration.diverged} diverged')
        most = '' if self._limit is None else f' of at most {self._limit:.0f}'
        parts.append(f'{iteration.seconds:.0f} s{most}')
        if self._live:
            self._show(parts)
        else:
            say(', '.join(parts), self._stream)

    def _show(self, parts: list[str]) -> None:
        """Replace the changing line; first and last part stay where there is no room for all."""
        # A line that is folded could not be replaced by the next one.
        room = shutil.get_terminal_size().columns
        while len(', '.join(parts)) >= room and len(parts) > 2:  # noqa: PLR2004 (first and last)
            del parts[1]
        self._stream.write(f'\r\x1b[K{", ".join(parts)}')
        self._stream.flush()
        self._open = True

    def finish(self) -> None:
        """End the changing line."""
        if self._open:
            self._stream.write('\n')
            self._open = False


def progress_for(limit: float | None = None, *, quiet: bool) -> Progress:
    """Return what shows progress unless the command is to be quiet; a fit may have a limit, s."""
    return Progress(io.StringIO() if quiet else None, limit)


def print_json(found: object) -> None:
    """Print what was found as one JSON document."""
    print(to_json(found, indent=2))  # noqa: T201 (escaped as JSON)


def make_console() -> LiteralConsole:
    """Return a console for standard output; wide and plain where that is not a terminal."""
    if sys.stdout.isatty():
        return LiteralConsole()
    return LiteralConsole(width=WIDE)


def print_paths(console: LiteralConsole, paths: Mapping[str, Path]) -> None:
    """Print where things were written, one line each."""
    for name, path in paths.items():
        console.print(f'{name + ":":18s} {path}', soft_wrap=True)

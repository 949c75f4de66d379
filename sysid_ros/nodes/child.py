# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A refit in a process of its own, and the bags that ask for one; nothing here needs ROS.

Whatever becomes of that process, results in use are whole (`sysid_ros.results.store`): it may be
killed at any moment, and the node that waits for it stays as quick as it is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from sysid_ros.config.schema import CalibrationConfig
from sysid_ros.errors import SysidError
from sysid_ros.nodes.runtime import EXIT_ERROR
from sysid_ros.pipeline.problem import bags_of
from sysid_ros.results.store import CURRENT, REJECTED, linked

#: Everything else on the robot goes first.
NICEST = 19
#: How long a process that is interrupted has to end by itself, s.
_GRACE = 2.0
#: A bag is finished when nothing in it changed for so long, s.
_SETTLED = 5.0
#: What the line of an error begins with.
_COMPLAINT = 'sysid: '
#: Name, size and time of a bag's files.
_Files = tuple[tuple[str, int, int], ...]


class End(Enum):
    """How a refit ended."""

    DONE = 'done'
    CANCELLED = 'cancelled'
    REFUSED = 'refused'
    CRASHED = 'crashed'


class Outcome(NamedTuple):
    """What a refit came to: the folder of its result or why there is none, and its messages."""

    end: End
    folder: Path | None = None
    sentence: str = ''
    log: str = ''


class Child:
    """``sysid calibrate`` in a process of its own.

    Attributes:
        stage: What it said last that it is doing.
        outcome: What came of it, once it has ended.
    """

    def __init__(self, config: Path, settings: CalibrationConfig) -> None:
        """Take note of the configuration file and of what it says; nothing is started yet."""
        self.stage = 'starting'
        self.outcome = Outcome(End.CANCELLED)
        self._output = settings.output
        self._command = [sys.executable, '-m', 'sysid_ros.cli', 'calibrate', str(config)]
        # A robot has other things to do than to draw.
        self._command += ['--output', str(settings.output), '--set', 'report.film=false']
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._cancelled = False
        self._ended = threading.Event()

    def run(self, say: Callable[[str], None]) -> Outcome:
        """Fit, and wait for the end; stages and iterations are told meanwhile."""
        try:
            # Not by where the links were: somebody may roll back meanwhile.
            before = set(self._output.iterdir()) if self._output.is_dir() else set()
            self.outcome = self._judge(before, *self._wait(say))
        finally:
            self._ended.set()
        return self.outcome

    def _judge(self, before: set[Path], code: int, log: str) -> Outcome:
        """Tell how it ended by its results, which are new, its exit code and its messages."""
        for link in (CURRENT, REJECTED):
            folder = linked(self._output, link)
            if folder is not None and folder not in before:
                return Outcome(End.DONE, folder, log=log)
        last = log.rstrip().rpartition('\n')[2]
        if self._cancelled:
            stage = f'The refit was cancelled while it was at "{self.stage}"'
            return Outcome(End.CANCELLED, sentence=f'{stage}; what was current still is.', log=log)
        if code == EXIT_ERROR:
            return Outcome(End.REFUSED, sentence=last.removeprefix(_COMPLAINT), log=log)
        # One that was killed said only how far it was.
        why = last if last and code > 0 else f'exit code {code}'
        return Outcome(End.CRASHED, sentence=f'The fit failed unexpectedly ({why}).', log=log)

    def cancel(self) -> None:
        """End it; return at once."""
        self._end(signal.SIGINT)
        kill = threading.Timer(_GRACE, self._end, (signal.SIGKILL,))
        kill.daemon = True
        kill.start()

    def wait(self, timeout: float) -> bool:
        """Wait until it has ended; return whether that is so."""
        return self._ended.wait(timeout)

    def _wait(self, say: Callable[[str], None]) -> tuple[int, str]:
        """Run the command, pass on what it says, and return exit code and standard error."""
        with self._lock:
            if self._cancelled:
                return 0, ''
            # In a session of its own: Ctrl-C in a terminal is for the node, which ends it.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors='replace',
                start_new_session=True,
                env={**os.environ, 'PYTHONUNBUFFERED': '1'},
            )
            os.setpriority(os.PRIO_PROCESS, self._process.pid, NICEST)
        said = []
        for line in self._process.stderr or ():
            said.append(line)
            # An error ends what was told before: it is no stage.
            if not line.startswith(_COMPLAINT):
                with self._lock:
                    if not self._cancelled:
                        self.stage = line.rstrip()
                say(line.rstrip())
        return self._process.wait(), ''.join(said)

    def _end(self, number: int) -> None:
        with self._lock:
            self._cancelled = True
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(number)


class NewBags:
    """The training bags of a configuration that were finished since they were last learned."""

    def __init__(self) -> None:
        #: Files of a bag, and since when they are as they are, s.
        self._seen: dict[Path, tuple[_Files, float]] = {}
        self._known: set[Path] | None = None

    def look(self, settings: CalibrationConfig, now: float) -> tuple[Path, ...]:
        """Return those that are finished and not known; all that is finished at first is known.

        A bag is finished when it has a ``metadata.yaml`` and has not changed for a while.

        Args:
            settings: Names the bags.
            now: Any clock that only runs forward, s.
        """
        try:
            bags = [path for path, role in bags_of(settings) if role == 'train']
        except SysidError:
            # A pattern matches nothing yet.
            bags = []
        whole = {path: files for path in bags if (files := _files(path))}
        if self._known is None:
            self._known = set(whole)
        for path, files in whole.items():
            if path not in self._seen or self._seen[path][0] != files:
                self._seen[path] = (files, now)
        return tuple(
            path
            for path in whole
            if path not in self._known and now - self._seen[path][1] >= _SETTLED
        )

    def learn(self, bags: Iterable[Path]) -> None:
        """Take note of bags that are being learned."""
        self._known = {*(self._known or ()), *bags}


def _files(bag: Path) -> _Files:
    """Return name, size and time of all files in a bag; nothing while it is being recorded."""
    if not (bag / 'metadata.yaml').is_file():
        return ()
    entries = sorted((entry.name, entry.stat()) for entry in os.scandir(bag))
    return tuple((name, status.st_size, status.st_mtime_ns) for name, status in entries)

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
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from sysid_ros.errors import SysidError
from sysid_ros.pipeline.calibration import ENDING
from sysid_ros.pipeline.loading import bags_of
from sysid_ros.results.store import CURRENT, REJECTED, linked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from sysid_ros.config import CalibrationConfig

#: A refit that a person did not ask for lets everything else on the robot go first.
NICEST = 19
#: The part of a budget that the fit itself may take; the rest is for reading, judging, writing.
_FIT_SHARE = 0.5
#: How long a process that is interrupted has to end by itself, s.
_GRACE = 2.0
#: A bag is finished when nothing in it changed for so long, s.
_SETTLED = 5.0
_BAD_INPUT = 2
#: What the line of an error begins with.
_COMPLAINT = 'sysid: '


class End(Enum):
    """How a refit ended."""

    DONE = 'done'
    CANCELLED = 'cancelled'
    LATE = 'late'
    REFUSED = 'refused'
    CRASHED = 'crashed'


class Outcome(NamedTuple):
    """What a refit came to.

    Attributes:
        end: How it ended.
        folder: That of the new result, if there is one.
        sentence: Why there is none.
        log: All that it said on its standard error.
    """

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

    def __init__(
        self, config: Path, settings: CalibrationConfig, *, budget: float = 0.0, niceness: int = 0
    ) -> None:
        """Take note of what to run; nothing is started yet.

        Args:
            config: calibration.yaml.
            settings: What it says, and where results go.
            budget: Seconds after which it is killed unless its fit has ended; 0 means never.
            niceness: 0 to 19: how far it stands back where others want the processor.
        """
        self.stage = 'starting'
        self.outcome = Outcome(End.CANCELLED)
        self._config = config
        self._settings = settings
        self._budget = budget
        self._niceness = niceness
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._asked: End | None = None
        self._ending = False
        self._ended = threading.Event()

    def run(self, say: Callable[[str], None]) -> Outcome:
        """Fit, and wait for the end; stages and iterations are told meanwhile."""
        try:
            self.outcome = self._run(say)
        finally:
            self._ended.set()
        return self.outcome

    def _run(self, say: Callable[[str], None]) -> Outcome:
        output = self._settings.output
        # Not by where the links were: somebody may roll back meanwhile.
        before = set(output.iterdir()) if output.is_dir() else set()
        code, log = self._wait(self._command(), say)
        for link in (CURRENT, REJECTED):
            folder = linked(output, link)
            if folder is not None and folder not in before:
                return Outcome(End.DONE, folder, log=log)
        last = log.rstrip().rpartition('\n')[2]
        if self._asked is End.CANCELLED:
            sentence = f'The refit was cancelled while it was {self._left}'
            return Outcome(End.CANCELLED, sentence=sentence, log=log)
        if self._asked is End.LATE:
            sentence = (
                f'The refit used up its budget of {self._budget:g} s while it was {self._left}'
            )
            return Outcome(End.LATE, sentence=sentence, log=log)
        if code == _BAD_INPUT:
            return Outcome(End.REFUSED, sentence=last.removeprefix(_COMPLAINT), log=log)
        # One that was killed said only how far it was.
        why = last if last and code > 0 else f'exit code {code}'
        return Outcome(End.CRASHED, sentence=f'The fit failed unexpectedly ({why}).', log=log)

    @property
    def _left(self) -> str:
        return f'at "{self.stage}"; what was current still is.'

    def cancel(self) -> None:
        """End it; return at once."""
        self._end(End.CANCELLED, signal.SIGINT)
        kill = threading.Timer(_GRACE, self._end, (End.CANCELLED, signal.SIGKILL))
        kill.daemon = True
        kill.start()

    def wait(self, timeout: float) -> bool:
        """Wait until it has ended; return whether that is so."""
        return self._ended.wait(timeout)

    def _command(self) -> list[str]:
        settings = self._settings
        command = [sys.executable, '-m', 'sysid_ros.cli', 'calibrate', str(self._config)]
        # A robot has other things to do than to draw.
        command += ['--output', str(settings.output), '--set', 'report.film=false']
        if self._budget:
            limit = _FIT_SHARE * self._budget
            own = settings.solver.time
            command += ['--time', f'{limit if own is None else min(limit, own):g}']
        return command

    def _wait(self, command: list[str], say: Callable[[str], None]) -> tuple[int, str]:
        """Run a command, pass on what it says, and return its exit code and standard error."""
        with self._lock:
            if self._asked is not None:
                return 0, ''
            # In a session of its own: Ctrl-C in a terminal is for the node, which ends it.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors='replace',
                start_new_session=True,
                env={**os.environ, 'PYTHONUNBUFFERED': '1'},
            )
            os.setpriority(os.PRIO_PROCESS, self._process.pid, self._niceness)
        clock = threading.Timer(self._budget, self._out_of_time)
        clock.daemon = True
        if self._budget:
            clock.start()
        said = []
        try:
            for line in self._process.stderr or ():
                said.append(line)
                # An error ends what was told before: it is no stage.
                if not line.startswith(_COMPLAINT):
                    with self._lock:
                        if self._asked is None:
                            self.stage = line.rstrip()
                        self._ending = self._ending or self.stage in ENDING
                    say(line.rstrip())
            code = self._process.wait()
        finally:
            clock.cancel()
        return code, ''.join(said)

    def _out_of_time(self) -> None:
        # A result on its way is awaited.
        if not self._ending:
            self._end(End.LATE, signal.SIGKILL)

    def _end(self, why: End, number: int) -> None:
        with self._lock:
            self._asked = self._asked or why
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(number)


class _Seen(NamedTuple):
    """What is in a bag's folder, and since when, s."""

    files: tuple[tuple[str, int, int], ...]
    since: float


class NewBags:
    """The training bags of a configuration that were finished since they were last learned."""

    def __init__(self) -> None:
        self._seen: dict[Path, _Seen] = {}
        self._known: set[Path] | None = None

    def look(self, settings: CalibrationConfig, now: float) -> tuple[Path, ...]:
        """Return those that are finished and not known; all that is finished at first is known.

        A bag is finished when it has a ``metadata.yaml`` and has not changed for a while.

        Args:
            settings: Names the bags.
            now: Any clock that only runs forward, s.
        """
        whole = {path: _files(path) for path in _training(settings)}
        whole = {path: files for path, files in whole.items() if files}
        if self._known is None:
            self._known = set(whole)
        for path, files in whole.items():
            if path not in self._seen or self._seen[path].files != files:
                self._seen[path] = _Seen(files, now)
        return tuple(
            path
            for path in whole
            if path not in self._known and now - self._seen[path].since >= _SETTLED
        )

    def learn(self, bags: Iterable[Path]) -> None:
        """Take note of bags that are being learned."""
        self._known = {*(self._known or ()), *bags}


def _training(settings: CalibrationConfig) -> list[Path]:
    try:
        return [path for path, role in bags_of(settings) if role == 'train']
    except SysidError:
        # A pattern matches nothing yet.
        return []


def _files(bag: Path) -> tuple[tuple[str, int, int], ...]:
    """Return name, size and time of all files in a bag; nothing while it is being recorded."""
    if not (bag / 'metadata.yaml').is_file():
        return ()
    found = []
    for entry in sorted(os.scandir(bag), key=lambda entry: entry.name):
        status = entry.stat()
        found.append((entry.name, status.st_size, status.st_mtime_ns))
    return tuple(found)

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Independent pieces of work in processes of their own, as Python computes on one core only."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from sysid_ros.errors import CancelledError, FitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.synchronize import Event
    from types import TracebackType
    from typing import Self

Job = TypeVar('Job')
Found = TypeVar('Found')

#: How often it is looked whether the work was cancelled, s.
_PERIOD = 0.1
# Forked processes would inherit locks of threads that they do not have.
_CONTEXT = multiprocessing.get_context('spawn')
#: Products of small matrices are slower by several threads than by one.
_ONE_THREAD = 'OPENBLAS_NUM_THREADS'


class FitProcesses:
    """Does pieces of work side by side, and ends with the block in which it is used.

    Processes are spawned, so that a program that uses several has to begin its own work under
    ``if __name__ == '__main__'``.
    """

    def __init__(self, count: int = 0) -> None:
        """Say how many work at a time.

        Args:
            count: 0 is one for each core. One works in this process.
        """
        self.count = count or os.cpu_count() or 1
        self._pool: ProcessPoolExecutor | None = None
        self._stop = _CONTEXT.Event()

    def __enter__(self) -> Self:
        """Processes begin when there is work for them."""
        if self.count > 1:
            self._pool = ProcessPoolExecutor(
                self.count, mp_context=_CONTEXT, initializer=_begin, initargs=(self._stop,)
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the processes; work that is left is cancelled."""
        self._stop.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def do(
        self,
        function: Callable[[Job, threading.Event], Found],
        jobs: Sequence[Job],
        *,
        size: Callable[[Job], float] = lambda _: 1.0,
        tell: Callable[[Job, Found], None] = lambda *_: None,
        cancel: threading.Event | None = None,
    ) -> list[Found]:
        """Return what a function makes of each job, in their order.

        Args:
            function: Of a module, not a closure, as other processes find it by its name. It raises
                a `CancelledError` soon after the event that it gets is set.
            jobs: What can be pickled.
            size: How much work a job is; most is done first.
            tell: Called here with each job and its result when it is done.
            cancel: Ends the work when it is set.

        Raises:
            CancelledError: ``cancel`` was set.
            FitError: A process ended unexpectedly.
            SysidError: The first that a job raised.
        """
        if self._pool is None:
            never = cancel or threading.Event()
            done_here = []
            for job in jobs:
                done_here.append(function(job, never))
                tell(job, done_here[-1])
            return done_here
        order = sorted(range(len(jobs)), key=lambda place: -size(jobs[place]))
        found: dict[int, Found] = {}
        try:
            with _one_thread():
                pool = self._pool
                numbers = {pool.submit(_call, function, jobs[place]): place for place in order}
            pending = set(numbers)
            while pending:
                done, pending = wait(pending, timeout=_PERIOD, return_when=FIRST_COMPLETED)
                if cancel is not None and cancel.is_set():
                    msg = 'The fits were cancelled.'
                    raise CancelledError(msg)
                for future in done:
                    place = numbers[future]
                    found[place] = future.result()
                    tell(jobs[place], found[place])
        except BrokenProcessPool as err:
            msg = (
                'A process of the fits ended unexpectedly: expected enough memory for '
                f'{self.count} of them, and in a script that the work begins under '
                "if __name__ == '__main__'."
            )
            raise FitError(msg) from err
        return [found[place] for place in range(len(jobs))]


class _Here:
    """What a process of the pool knows."""

    stop: Any = threading.Event()


def _begin(stop: Event) -> None:
    # Ctrl-C reaches all processes; the first one sets the event.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _Here.stop = stop
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait for the end of the first process, which may be killed, and end as well."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _call(function: Callable[[Job, threading.Event], Found], job: Job) -> Found:
    return function(job, _Here.stop)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let processes that begin here load NumPy with one thread, unless the user wants others."""
    chosen_by_user = _ONE_THREAD in os.environ
    os.environ.setdefault(_ONE_THREAD, '1')
    try:
        yield
    finally:
        if not chosen_by_user:
            del os.environ[_ONE_THREAD]

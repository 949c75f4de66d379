# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Trials of a servo, simulated many at a time by one process or several."""

from __future__ import annotations

import multiprocessing
import signal
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sysid_ros.errors import FitError
from sysid_ros.servos.bench.fit import checked
from sysid_ros.servos.bench.pendulum import bench as make_bench
from sysid_ros.servos.bench.score import mean_absolute_errors
from sysid_ros.servos.bench.trials import Trials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from multiprocessing.process import BaseProcess
    from typing import Self

    from numpy.typing import NDArray

    from sysid_ros.servos.bench.study import Method, StudyFile
    from sysid_ros.servos.formats.log import Log
    from sysid_ros.servos.laws.servo import Servo

    Array = NDArray[np.float64]

#: Other processes are asked so often whether they are done, s.
_PERIOD = 0.1


class Task(NamedTuple):
    """All that a process needs to know.

    Attributes:
        servo: The laws.
        logs: At least one, of one sampling period.
        method: The sampler.
        workers: Number of processes.
        seed: Of the sampler.
        fixed: Coefficients that are known, by name.
        reset_period: Every so many seconds the state is set to the measured one, s.
        study: Where trials are kept; in memory only where it is None.
    """

    servo: Servo
    logs: tuple[Log, ...]
    method: Method
    workers: int
    seed: int
    fixed: Mapping[str, float]
    reset_period: float | None
    study: StudyFile | None

    def trials(self, process: int) -> Trials:
        """Return the trials of a process, counted from 0.

        Raises:
            FitError: There is nothing to find.
            ParameterError: A fixed coefficient is not one of the servo's.
        """
        fixed = checked(self.servo, self.fixed)
        space = {n: c for n, c in self.servo.coefficients.items() if n not in fixed}
        if not space:
            msg = 'Nothing to fit: every coefficient is fixed.'
            raise FitError(msg)
        return Trials(
            space,
            self.method,
            seed=self.seed,
            process=process,
            processes=self.workers,
            file=self.study,
        )


class Objective:
    """The mean over logs of the mean absolute position error, rad, of (m, p) values."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._bench = make_bench(task.servo, task.logs)

    def __call__(self, values: Array) -> Array:
        """Return (m,) errors."""
        fixed, columns = self._task.fixed, iter(values.T)
        every = [
            np.full(len(values), fixed[name]) if name in fixed else next(columns)
            for name in self._task.servo.coefficients
        ]
        errors = mean_absolute_errors(
            self._task.servo, self._bench, np.stack(every, axis=1), self._task.reset_period
        )
        found: Array = errors.mean(axis=1)
        return found


class Left:
    """How many trials are left to one process; many share one of multiprocessing's values."""

    def __init__(self, value: int) -> None:
        self.value = value

    def get_lock(self) -> nullcontext[None]:
        """Return a lock that nobody else wants."""
        return nullcontext()


def steps(
    trials: Trials, objective: Objective, left: Any, ended: Callable[[], bool]
) -> Iterator[None]:
    """Try and yield after each simulation, until no trials are left or it is to end.

    Args:
        trials: Those of this process.
        objective: What they are to make small.
        left: How many are left to all processes: a value, and a lock of it.
        ended: Says whether to end.
    """
    while not ended():
        with left.get_lock():
            count = max(min(trials.batch, left.value), 0)
            left.value -= count
        if not count:
            return
        trials.take()
        asked, values = trials.ask(count)
        trials.tell(asked, objective(values))
        yield


class Workers:
    """Further processes that take trials until none are left, or the first has enough.

    Attributes:
        left: How many trials are left to all.
    """

    def __init__(self, task: Task, left: int) -> None:
        self.left: Any = Left(left)
        self._processes: list[BaseProcess] = []
        if task.workers == 1 or left <= 0:
            return
        # Copies of this process would lack its threads and wait for them forever.
        context = multiprocessing.get_context('spawn')
        self._enough = context.Event()
        self.left = context.Value('q', left)
        self._processes = [
            context.Process(target=_work, args=(task, number, self.left, self._enough))
            for number in range(1, task.workers)
        ]

    def __enter__(self) -> Self:
        for process in self._processes:
            process.start()
        return self

    def wait(self, ended: Callable[[], bool]) -> None:
        """Wait until all are done, or until it is to end and they have heard of it."""
        while any(process.is_alive() for process in self._processes):
            if ended():
                self._enough.set()
            self._processes[-1].join(_PERIOD)

    def __exit__(self, *_: object) -> None:
        if self._processes:
            self._enough.set()
        for process in self._processes:
            process.join()


def _work(task: Task, number: int, left: Any, enough: Any) -> None:
    """Try as one of several processes, while the first one lives."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first one is told as well, and says so
    first = multiprocessing.parent_process()

    def ended() -> bool:
        return enough.is_set() or first is None or not first.is_alive()

    for _ in steps(task.trials(number), Objective(task), left, ended):
        pass

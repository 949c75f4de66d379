# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fits of several friction laws, to all logs and to some of them, in processes of their own."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.servos.bench.fit import fit_servo, solve_servo, values_of
from sysid_ros.servos.bench.pendulum import candidate, stack_logs
from sysid_ros.servos.bench.residuals import POSITION, LogResiduals
from sysid_ros.servos.laws.friction import contains, widened

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from sysid_ros.identification.fit import Fit
    from sysid_ros.servos.bench.fit import ServoFitSettings
    from sysid_ros.servos.bench.processes import FitProcesses
    from sysid_ros.servos.formats.logs import ServoLog
    from sysid_ros.servos.laws.servo import Servo

#: A law whose residuals are larger than those of one that it contains, by this part, has not found
#: its optimum.
_WORSE = 0.005


@dataclass(frozen=True)
class FitJob:
    """A fit of one law to logs.

    Attributes:
        servo: The kind of servo and its friction law.
        logs: What it is fitted to.
        settings: How.
    """

    servo: Servo
    logs: tuple[ServoLog, ...]
    settings: ServoFitSettings


class FoldJob(NamedTuple):
    """A fit to some of the logs.

    It begins as if the others had never been seen: where those that are left say nothing of a
    coefficient, it would otherwise keep what the others say.

    Attributes:
        job: The fit, from one start.
        without: Name of the logs that are left out.
        values: Coefficients that were fitted to all logs. Only where these predict the logs that
            are left better than those of the fit, which then has not found its optimum, the fit is
            made again from these.
    """

    job: FitJob
    without: str
    values: dict[str, float]


class FoldFit(NamedTuple):
    """All coefficients by name, from some of the logs, and how long that took, s."""

    values: dict[str, float]
    seconds: float


def settings_for(servo: Servo, settings: ServoFitSettings) -> ServoFitSettings:
    """Return settings without the known coefficients that a servo does not have."""
    fixed = {name: v for name, v in settings.fixed.items() if name in servo.coefficients}
    return dataclasses.replace(settings, fixed=fixed)


def fit_all(
    jobs: Sequence[FitJob],
    workers: FitProcesses,
    tell: Callable[[str], None],
    cancel: threading.Event | None = None,
) -> list[Fit]:
    """Fit several laws to the same logs.

    A law that predicts them worse than one that it contains is fitted again from the optimum of
    that one.

    Args:
        jobs: One of each law.
        workers: Who does it.
        tell: Called with a sentence when a fit is done.
        cancel: Ends the fits when it is set.

    Returns:
        The fits, in the order of the jobs.

    Raises:
        SysidError: A fit is not possible.
    """

    def say(job: FitJob, fit: Fit) -> None:
        noise = 1e3 * fit.noise[POSITION]
        name = job.servo.friction.name
        tell(f'fitted {name} in {fit.seconds:.1f} s: {noise:.3g} mrad root mean square')

    fits = workers.do(_fit, jobs, size=_size, tell=say, cancel=cancel)
    for place in sorted(range(len(jobs)), key=lambda place: _size(jobs[place])):
        law = jobs[place].servo.friction
        inside = [other for other, job in enumerate(jobs) if contains(law, job.servo.friction)]
        if not inside:
            continue
        inner = min(inside, key=lambda other: fits[other].noise[POSITION])
        if fits[inner].noise[POSITION] >= (1 - _WORSE) * fits[place].noise[POSITION]:
            continue
        values = values_of(jobs[inner].servo, fits[inner], jobs[inner].settings.fixed)
        again = _from(jobs[place], widened(values, jobs[place].servo.coefficients))
        (fit,) = workers.do(_fit, [again], size=_size, tell=say, cancel=cancel)
        if fit.noise[POSITION] < fits[place].noise[POSITION]:
            name = jobs[inner].servo.friction.name
            start = f'the optimum of {name}, which the law contains'
            fits[place] = dataclasses.replace(fit, start_sentence=start)
    return fits


def refit_all(
    jobs: Sequence[FoldJob],
    workers: FitProcesses,
    tell: Callable[[str], None],
    cancel: threading.Event | None = None,
) -> list[FoldFit]:
    """Return the coefficients from some of the logs for each job, in their order.

    Args:
        jobs: From `without`.
        workers: Who does it.
        tell: Called with a sentence when a fit is done.
        cancel: Ends the fits when it is set.

    Raises:
        SysidError: A fit is not possible.
    """

    def say(refit: FoldJob, found: FoldFit) -> None:
        name = refit.job.servo.friction.name
        tell(f'fitted {name} without {refit.without} in {found.seconds:.1f} s')

    return workers.do(_refit, jobs, size=lambda refit: _size(refit.job), tell=say, cancel=cancel)


def without(job: FitJob, fit: Fit, name: str, group: Sequence[ServoLog]) -> FoldJob:
    """Return a fit to fewer logs.

    Args:
        job: The fit to all of them.
        fit: What it found.
        name: Of the logs that are left out.
        group: The logs that are left out.
    """
    gone = {log.name for log in group}
    left = FitJob(
        job.servo,
        tuple(log for log in job.logs if log.name not in gone),
        dataclasses.replace(job.settings, starts=1),
    )
    return FoldJob(left, name, values_of(job.servo, fit, job.settings.fixed))


def _from(job: FitJob, values: Mapping[str, float]) -> FitJob:
    """Return a fit that begins at values."""
    first = {name: value for name, value in values.items() if name not in job.settings.fixed}
    return dataclasses.replace(
        job, settings=dataclasses.replace(job.settings, first=first, starts=1)
    )


def _size(job: FitJob) -> int:
    """Return about how much work a fit is."""
    return len(job.servo.coefficients) * sum(map(len, job.logs))


def _fit(job: FitJob, cancel: threading.Event) -> Fit:
    return fit_servo(job.servo, job.logs, settings=job.settings, cancel=cancel)


def _refit(refit: FoldJob, cancel: threading.Event) -> FoldFit:
    began = time.monotonic()
    job = refit.job
    values = solve_servo(job.servo, job.logs, settings=job.settings, cancel=cancel).values
    if _rms(job, refit.values) < (1 - _WORSE) * _rms(job, values):
        again = _from(job, refit.values)
        values = solve_servo(again.servo, again.logs, settings=again.settings, cancel=cancel).values
    return FoldFit(values, time.monotonic() - began)


def _rms(job: FitJob, values: Mapping[str, float]) -> float:
    """Return the root mean square residual of the logs of a fit, rad."""
    residuals = LogResiduals(
        job.servo,
        stack_logs(job.servo, job.logs),
        [log.name for log in job.logs],
        1.0,
        reset_period=job.settings.reset_period,
    )
    return float(np.sqrt(np.mean(residuals(candidate(job.servo, values)) ** 2)))

# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Find the coefficients of a servo by trials: CMA-ES, random search and NSGA-II of Optuna.

What is minimised is what BAM minimises, the mean over logs of the mean absolute position error.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.errors import CancelledError, FitError
from sysid_ros.servos.bench.trial_workers import Left, Objective, Task, Workers, steps

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from sysid_ros.servos.bench.study import Method, StudyFile
    from sysid_ros.servos.formats.log import Log
    from sysid_ros.servos.laws.servo import Servo

#: Trials unless told otherwise: with twelve logs of an xl330, CMA-ES is at the noise floor after
#: 2000 where six coefficients are sought, and where fifteen are, at some eight times it after 4500.
TRIALS = 5000
#: Of digests that say whether two problems are the same.
_DIGITS = 12


@dataclasses.dataclass(frozen=True)
class SamplerSettings:
    """How a servo is fitted by trials.

    Attributes:
        method: The sampler.
        trials: How many there shall be in the study, those of an earlier run counted.
        workers: Number of processes that sample together; what they find depends on which of
            them is faster.
        seed: Of the sampler.
        fixed: Coefficients that are known, by name.
        reset_period: Every so many seconds predictions go on from the measured state, s.
        seconds: Ends it earlier, with what was found until then.
        study: Where trials are kept; in memory only unless given, which one process can do.
    """

    method: Method = 'cmaes'
    trials: int = TRIALS
    workers: int = 1
    seed: int = 0
    fixed: Mapping[str, float] = dataclasses.field(default_factory=dict)
    reset_period: float | None = None
    seconds: float | None = None
    study: StudyFile | None = None


class Sampled(NamedTuple):
    """What trials found.

    Attributes:
        values: All coefficients of the best trial, those that were fixed as well.
        error: Mean over logs of its mean absolute position error, rad.
        trials: How many there are in the study.
        new: How many of them are of this run.
        seconds: Wall time of this run.
    """

    values: dict[str, float]
    error: float
    trials: int
    new: int
    seconds: float


def sample_servo(
    servo: Servo,
    logs: Sequence[Log],
    *,
    settings: SamplerSettings | None = None,
    cancel: threading.Event | None = None,
    observe: Callable[[Sampled], None] | None = None,
) -> Sampled:
    """Find the coefficients of a servo by trials inside their bounds.

    Trials are simulated many at a time. With one process and no earlier trials, equal seeds give
    equal values.

    Args:
        servo: The kind of servo and its friction law.
        logs: At least one, of one sampling period.
        settings: How.
        cancel: Ends it when it is set.
        observe: Is told after each simulation what is best so far.

    Raises:
        ConfigError: Optuna is not installed.
        FitError: There is nothing to fit, periods differ, or several processes lack a file.
        ParameterError: A fixed coefficient is not one of the servo's.
        ResultError: The file of the study cannot be read or written.
        CancelledError: ``cancel`` was set.
    """
    settings = settings or SamplerSettings()
    if settings.workers > 1 and settings.study is None:
        msg = f'Expected a file for the trials of {settings.workers} workers, found none.'
        raise FitError(msg)
    began = time.monotonic()
    fixed = dict(settings.fixed)
    task = Task(
        servo,
        tuple(logs),
        settings.method,
        settings.workers,
        settings.seed,
        fixed,
        settings.reset_period,
        settings.study,
    )
    objective = Objective(task)
    trials = task.trials(0)
    before = trials.count

    def so_far() -> Sampled:
        free, error = trials.best()
        every = {**fixed, **free}
        values = {name: every[name] for name in servo.coefficients}
        seconds = time.monotonic() - began
        return Sampled(values, error, trials.count, trials.count - before, seconds)

    def ended() -> bool:
        if cancel is not None and cancel.is_set():
            msg = 'The fit was cancelled.'
            raise CancelledError(msg)
        late = settings.seconds is not None and time.monotonic() - began > settings.seconds
        return late and trials.count > 0

    with Workers(task, settings.trials - before) as workers:
        left = workers.left
        while True:
            for _ in steps(trials, objective, left, ended):
                if observe is not None:
                    observe(so_far())
            workers.wait(ended)
            trials.take()
            # One that was killed left its last ones undone.
            left = Left(settings.trials - trials.count)
            if left.value <= 0 or ended():
                break
    return so_far()


def subject(
    servo: Servo,
    logs: Sequence[Log],
    fixed: Mapping[str, float],
    reset_period: float | None = None,
) -> dict[str, str]:
    """Return what trials are about, by name: only equal ones belong to one study."""
    bounds = [(name, *limits[1:]) for name, limits in servo.coefficients.items()]
    known = ', '.join(f'{name}={value:g}' for name, value in sorted(fixed.items()))
    described = []
    for log in logs:
        about = [log.mass, log.arm_mass, log.length, log.dt, dict(log.constants)]
        series = np.stack([log.position, log.goal, log.enabled])
        described.append([about, hashlib.sha256(series.tobytes()).hexdigest()])
    return {
        'servo': servo.name,
        'definition': _digest([bounds, dict(servo.type.constants), servo.substeps]),
        'logs': _digest(described),
        'fixed coefficients': known or 'none',
        'reset period': 'none' if reset_period is None else f'{reset_period:g} s',
    }


def _digest(numbers: object) -> str:
    return hashlib.sha256(json.dumps(numbers).encode()).hexdigest()[:_DIGITS]
